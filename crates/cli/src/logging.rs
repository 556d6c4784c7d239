//! Tidegate's own log: on standard error, by `tracing`.

use std::{io, sync::Mutex};

use clap::ValueEnum;
use serde_json::json;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::{
    EnvFilter,
    filter::LevelFilter,
    fmt::{
        self, FmtContext, FormatEvent, FormatFields,
        format::{Format, Full, Writer},
        time::{FormatTime, SystemTime},
    },
    layer::SubscriberExt,
    registry::LookupSpan,
    util::SubscriberInitExt,
};

use crate::{
    journal::{self, Priority},
    stderr::Lines,
};

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
    let text = std::env::var("TIDEGATE_LOG").unwrap_or_default();
    let (filter, fault) = match read(&text) {
        Ok(filter) => (filter, None),
        Err(fault) => (EnvFilter::new(FILTER), Some(fault)),
    };
    let registry = tracing_subscriber::registry().with(filter);
    match format {
        LogFormat::Text if journal::reads() => {
            let format = ForJournal(fmt::format().without_time().with_target(false).with_ansi(false));
            let lines = lines(|lost| format!("{}{}\n", Priority::Warning, lost_lines(lost)));
            registry.with(fmt::layer().with_writer(lines).with_ansi(false).event_format(format)).init();
        }
        LogFormat::Text => {
            let ansi = io::IsTerminal::is_terminal(&io::stderr());
            let lines = lines(|lost| format!("{}  WARN {}\n", now(), lost_lines(lost)));
            registry.with(fmt::layer().with_writer(lines).with_ansi(ansi).with_target(false)).init();
        }
        LogFormat::Json => {
            let lines = lines(|lost| {
                let fields = json!({ "message": lost_lines(lost), "lost": lost });
                format!(
                    "{}\n",
                    json!({ "timestamp": now(), "level": "WARN", "fields": fields, "target": "tidegate" })
                )
            });
            registry.with(fmt::layer().json().with_writer(lines)).init();
        }
    }
    if let Some(error) = fault {
        tracing::warn!(%error, "TIDEGATE_LOG is no filter: logging at info");
    }
}

fn lines(told: fn(u64) -> String) -> Mutex<Lines<io::Stderr>> {
    Mutex::new(Lines::new(io::stderr(), told))
}

fn lost_lines(lost: u64) -> String {
    format!("lines of this log were lost, since nobody took them off standard error: {lost}")
}

/// As the log's lines begin.
fn now() -> String {
    let mut text = String::new();
    // Writing to memory does not fail.
    let _ = SystemTime.format_time(&mut Writer::new(&mut text));
    text
}

/// A line with its priority before it and without the time, which the journal knows.
struct ForJournal(Format<Full, ()>);

impl<S, N> FormatEvent<S, N> for ForJournal
where
    S: Subscriber + for<'span> LookupSpan<'span>,
    N: for<'writer> FormatFields<'writer> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> std::fmt::Result {
        let priority = match *event.metadata().level() {
            Level::ERROR => Priority::Error,
            Level::WARN => Priority::Warning,
            Level::INFO => Priority::Information,
            Level::DEBUG | Level::TRACE => Priority::Debug,
        };
        write!(writer, "{priority}")?;
        self.0.format_event(context, writer, event)
    }
}

/// An empty filter is none. A word alone is a level: taken for the name of a module, as the library would, a slip
/// in it would silence everything else.
fn read(text: &str) -> Result<EnvFilter, String> {
    if text.trim().is_empty() {
        return Ok(EnvFilter::new(FILTER));
    }
    let is_word = |part: &&str| !part.contains(['=', '[']) && part.parse::<LevelFilter>().is_err();
    if let Some(word) = text.split(',').map(str::trim).find(is_word) {
        return Err(format!(
            "{word:?} is no level: write off, error, warn, info, debug or trace, or {word}=LEVEL"
        ));
    }
    EnvFilter::try_new(text).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_slip_in_the_filter_silences_the_log() {
        for text in ["", " "] {
            assert_eq!(read(text).unwrap().to_string(), EnvFilter::new(FILTER).to_string(), "{text:?}");
        }
        for text in ["warn", "DEBUG", "tidegate_gateway=debug,info", "info,h2=off", "[request]=trace"] {
            assert!(read(text).is_ok(), "{text:?}");
        }
        for text in ["wran", "tidegate_gateway,info", "info,a=loud"] {
            assert!(read(text).is_err(), "{text:?}");
        }
    }
}
