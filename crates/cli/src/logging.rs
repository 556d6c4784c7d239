//! Tidegate's own log: on standard error, by `tracing`.

use clap::ValueEnum;
use tracing_subscriber::{EnvFilter, fmt, layer::SubscriberExt, util::SubscriberInitExt};

/// Format of the log.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(crate) enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// What is logged where TIDEGATE_LOG says nothing. The codec's warnings are of what clients do: they are counted, and
/// whoever floods a listener is not to fill the log.
const FILTER: &str = "info,h2=error";

/// Starts logging for the process. A filter in TIDEGATE_LOG that cannot be read is said and ignored.
pub(crate) fn start(format: LogFormat) {
    let (filter, fault) = match std::env::var("TIDEGATE_LOG") {
        Ok(text) => match EnvFilter::try_new(&text) {
            Ok(filter) => (filter, None),
            Err(error) => (EnvFilter::new(FILTER), Some(error)),
        },
        Err(_) => (EnvFilter::new(FILTER), None),
    };
    let registry = tracing_subscriber::registry().with(filter);
    match format {
        LogFormat::Text => {
            let ansi = std::io::IsTerminal::is_terminal(&std::io::stderr());
            registry
                .with(fmt::layer().with_writer(std::io::stderr).with_ansi(ansi).with_target(false))
                .init();
        }
        LogFormat::Json => registry.with(fmt::layer().json().with_writer(std::io::stderr)).init(),
    }
    if let Some(error) = fault {
        tracing::warn!(%error, "TIDEGATE_LOG is no filter: logging at info");
    }
}
