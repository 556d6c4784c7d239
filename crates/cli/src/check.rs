//! `tidegate check`: every fault of a configuration file at once.

use std::{path::Path, sync::Arc};

use tidegate_runtime::Shared;

use crate::{
    failure::Failure,
    output::{say, warn},
};

/// Checks `file` as `tidegate run` would read it.
pub(crate) fn run(file: &Path, print: bool) -> Result<(), Failure> {
    let settings = tidegate_config::load(file).map_err(Failure::input)?;
    // They are no faults: who checks before he starts goes on.
    for doubt in settings.doubts() {
        warn(format_args!("{}: warning: {doubt}", file.display()));
    }
    for doubt in tidegate_gateway::certificate_doubts(&settings) {
        warn(format_args!("warning: {doubt}"));
    }
    // What only a start would show: rules that do not compile together, pages that cannot be read,
    // scripts that do not compile, certificates and keys that do not belong together, secrets that are none.
    let scripts = match Shared::new(settings.clone()) {
        Ok(shared) => {
            for doubt in tidegate_admin::controller_doubts(&shared) {
                warn(format_args!("warning: {doubt} (tried once, with nothing measured yet)"));
            }
            faults_of_scripts(&shared)
        }
        Err(error) => Err(error.to_string()),
    };
    let certificates = tidegate_gateway::check_certificates(&settings).map_err(|errors| lines(&errors));
    let access = tidegate_admin::check_access(&settings.admin_access).map_err(|errors| lines(&errors));
    let telemetry = tidegate_telemetry::check(&settings).map_err(|error| error.to_string());
    let faults: Vec<_> =
        [scripts, certificates, access, telemetry].into_iter().filter_map(Result::err).collect();
    if !faults.is_empty() {
        return Err(Failure::input(faults.join("\n")));
    }
    if print {
        say(tidegate_config::print(&settings).trim_end())
    } else {
        say(format_args!("{}: no faults", file.display()))
    }
    .map(drop)
}

/// Compiles the controllers' scripts.
pub(crate) fn scripts(shared: &Arc<Shared>) -> Result<(), Failure> {
    faults_of_scripts(shared).map_err(Failure::input)
}

fn faults_of_scripts(shared: &Arc<Shared>) -> Result<(), String> {
    tidegate_admin::check_controllers(shared).map_err(|errors| lines(&errors))
}

/// Faults, a line each.
fn lines(faults: &[impl ToString]) -> String {
    faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}
