//! `tidegate check`: every fault of a configuration file at once.

use std::{path::Path, sync::Arc};

use tidegate_runtime::Shared;

use crate::failure::Failure;

/// Checks `file` as `tidegate run` would read it.
pub(crate) fn run(file: &Path, print: bool) -> Result<(), Failure> {
    let settings = tidegate_config::load(file).map_err(Failure::input)?;
    // What only a start would show: rules that do not compile together, pages that cannot be read,
    // scripts that do not compile, certificates and keys that do not belong together, secrets that are none.
    scripts(&Shared::new(settings.clone()).map_err(Failure::input)?)?;
    tidegate_gateway::check_certificates(&settings).map_err(Failure::input)?;
    tidegate_telemetry::check(&settings).map_err(Failure::input)?;
    if print {
        print!("{}", tidegate_config::print(&settings));
    } else {
        println!("{}: no faults", file.display());
    }
    Ok(())
}

/// Compiles the controllers' scripts.
pub(crate) fn scripts(shared: &Arc<Shared>) -> Result<(), Failure> {
    tidegate_admin::check_controllers(shared).map_err(|errors| {
        Failure::input(errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
    })
}
