//! `tidegate check`: every fault of a configuration file at once.

use std::path::Path;

use crate::failure::Failure;

/// Checks `file` as `tidegate run` would read it.
pub(crate) fn run(file: &Path, print: bool) -> Result<(), Failure> {
    let settings = tidegate_config::load(file).map_err(Failure::input)?;
    // What only a start would show: rules that do not compile together, pages that cannot be read,
    // certificates and keys that do not belong together.
    tidegate_runtime::Shared::new(settings.clone()).map_err(Failure::input)?;
    tidegate_gateway::check_certificates(&settings).map_err(Failure::input)?;
    if print {
        print!("{}", tidegate_config::print(&settings));
    } else {
        println!("{}: no faults", file.display());
    }
    Ok(())
}
