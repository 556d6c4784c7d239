//! The life of a gateway process: start, signals, reload, upgrade, drain.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use tidegate_admin::Admin;
use tidegate_config::Settings;
use tidegate_gateway::{Gateway, Inherited, Running};
use tidegate_runtime::Shared;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::Failure;

/// Where the settings came from.
#[derive(Debug)]
pub(crate) enum Source {
    /// The command line: there is nothing to reload.
    CommandLine,
    /// A file, loaded again on SIGHUP and when it changes.
    File(PathBuf),
}
