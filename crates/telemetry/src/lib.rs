//! Export of metrics and traces to an OpenTelemetry collector, by OTLP over HTTP.
//!
//! One thread does it all, beside the workers and never waited for by them: what a collector does not take in time
//! is lost, and nothing else is.

mod attributes;
mod client;
mod exporter;
mod line;
mod metrics;
mod plan;
mod traces;

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use tidegate_config::{SecretPlace, Settings};
use tidegate_control::Timestamp;
use tidegate_runtime::Shared;

pub use self::plan::TelemetryError;
use self::{exporter::Exporter, plan::Plan};

/// Exports as long as it lives what the settings in force say.
#[derive(Debug)]
pub struct Telemetry {
    shared: Arc<Shared>,
    /// Since when counts are counted.
    started: Timestamp,
    /// What tells this process from others of the same name.
    instance: String,
    /// From the first settings on that export anything.
    exporter: Mutex<Option<Exporter>>,
}

impl Telemetry {
    /// Starts to export, if the settings say so. Begin it before anything is counted.
    ///
    /// # Errors
    ///
    /// [`TelemetryError`] if a header's value or the collector's authorities cannot be read, or no thread be started.
    /// Whether the collector can be reached is no question here.
    pub fn start(shared: &Arc<Shared>) -> Result<Self, TelemetryError> {
        let telemetry = Self {
            shared: Arc::clone(shared),
            started: shared.clock().now(),
            instance: attributes::new_instance(),
            exporter: Mutex::new(None),
        };
        telemetry.reload()?;
        Ok(telemetry)
    }

    /// Takes up what settings and files say now.
    ///
    /// # Errors
    ///
    /// As [`Telemetry::start`]; what was in force stays so.
    pub fn reload(&self) -> Result<(), TelemetryError> {
        let settings = &self.shared.snapshot().settings;
        let plan =
            settings.telemetry.as_ref().map(|settings| Plan::read(settings, &self.instance)).transpose()?;
        let mut exporter = self.exporter.lock().unwrap_or_else(PoisonError::into_inner);
        match (&*exporter, plan) {
            (None, None) => {}
            (None, Some(plan)) => *exporter = Some(Exporter::start(&self.shared, self.started, plan)?),
            (Some(exporter), plan) => exporter.follow(plan),
        }
        Ok(())
    }
}

/// Reads what [`Telemetry::start`] would.
///
/// # Errors
///
/// As [`Telemetry::start`].
pub fn check(settings: &Settings) -> Result<(), TelemetryError> {
    settings.telemetry.as_ref().map(|settings| Plan::read(settings, "")).transpose().map(drop)
}

/// The files whose change [`Telemetry::reload`] takes up.
#[must_use]
pub fn files(settings: &Settings) -> Vec<PathBuf> {
    let Some(telemetry) = &settings.telemetry else { return Vec::new() };
    let secret = |place: &SecretPlace| match place {
        SecretPlace::File(file) => Some(file.clone()),
        SecretPlace::Environment(_) => None,
    };
    telemetry.headers.iter().filter_map(|header| secret(&header.value)).chain(telemetry.ca.clone()).collect()
}
