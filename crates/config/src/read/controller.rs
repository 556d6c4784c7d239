//! Controllers.

use std::time::Duration;

use tidegate_control::knobs::Value;

use super::Names;
use crate::{document::Section, names, settings::Controller};

/// Every `[[controller]]`.
pub(super) fn controllers(root: &Section<'_>) -> Vec<Controller> {
    let mut names = Names::default();
    root.tables("controller")
        .iter()
        .filter_map(|section| {
            let controller = controller(section)?;
            names.claim(section, "name", &controller.name, names::is_name(&controller.name));
            Some(controller)
        })
        .collect()
}

fn controller(section: &Section<'_>) -> Option<Controller> {
    let file = section.file("file");
    let written = section.text("name").map(str::to_owned);
    let (on_failure, strikes) = (section.choice("on_failure"), count(section, "strikes"));
    let (every_min, turn_time) = (span(section, "every.min"), span(section, "turn.time"));
    let (turn_steps, seed) = (count(section, "turn.steps"), count(section, "seed"));
    let memory = match section.value("memory") {
        Some(Value::Size(bytes)) => Some(bytes),
        _ => None,
    };
    let file = file?;
    let by_file = || file.file_name().map(|name| name.to_string_lossy().into_owned());
    Some(Controller {
        name: written.or_else(by_file)?,
        on_failure: on_failure?,
        strikes: u32::try_from(strikes?).ok()?,
        every_min: every_min?,
        turn_steps: turn_steps?,
        turn_time: turn_time?,
        memory: memory?,
        seed: seed?,
        file,
    })
}

fn count(section: &Section<'_>, name: &str) -> Option<u64> {
    match section.value(name)? {
        Value::Count(count) => Some(count),
        _ => None,
    }
}

fn span(section: &Section<'_>, name: &str) -> Option<Duration> {
    match section.value(name)? {
        Value::Span(span) => Some(span),
        _ => None,
    }
}
