//! From sections to validated settings: what each key means, and what must agree with what.

mod admin;
mod application;
mod controller;
mod listener;
mod rule;
mod telemetry;

use std::{collections::BTreeMap, ops::Range, path::Path, time::Duration};

use tidegate_control::{
    archive::{Layout, Resolution},
    knobs::{Kind, Scope, Value, Values},
};
use toml::de::DeTable;

use crate::{
    document::{Document, NamedFile, Section},
    faults::{FaultList, Faults},
    names, rows,
    settings::{AccessLog, LogTarget, Settings, WorkerGroup},
};

/// Settings as read, faults, and the files that must be there.
pub(crate) struct Reading {
    settings: Settings,
    /// Every fault of the text.
    pub(crate) faults: FaultList,
    /// Files the settings name.
    pub(crate) files: Vec<NamedFile>,
}

impl Reading {
    /// The settings if nothing is wrong with them.
    pub(crate) fn into_settings(self, origin: &str) -> Result<Settings, Faults> {
        self.faults.into_result(origin)?;
        Ok(self.settings)
    }
}

/// Reads a configuration's text.
pub(crate) fn read(text: &str, base_directory: &Path) -> Reading {
    let (tree, errors) = DeTable::parse_recoverable(text);
    let document = Document::new(text, base_directory, &errors);
    let root = Section::new(&document, &rows::ROOT, String::new(), 0..0, tree.get_ref());
    let settings = settings(&root);
    drop(root);
    let (faults, files) = document.finish();
    Reading { settings, faults, files }
}

fn settings(root: &Section<'_>) -> Settings {
    let workers = workers(root);
    let applications = application::applications(root);
    let (admin, admin_access) = admin::admin(root, &applications);
    let listeners = listener::listeners(root, &workers, &applications);
    let routes = rule::routes(root, &applications);
    Settings {
        host: knobs(root, Scope::Host),
        admin,
        admin_access,
        workers,
        listeners,
        applications,
        routes,
        access_log: access_log(root),
        telemetry: telemetry::telemetry(root),
        controllers: controller::controllers(root),
        state_directory: root.path("state_directory"),
        state_bytes_max: root
            .parsed("state_bytes_max", |text| match STATE_BYTES.parse(text).ok()? {
                Value::Size(bytes) if STATE_BYTES.admits(Value::Size(bytes)) => Some(bytes),
                _ => None,
            })
            .unwrap_or(Settings::STATE_BYTES_MAX),
        archives: archives(root),
    }
}

const STATE_BYTES: Kind = Kind::Size { min: 16 << 20, max: 1 << 40 };

fn archives(root: &Section<'_>) -> Layout {
    const ANY: Kind = Kind::Span { min: Duration::ZERO, max: Duration::MAX };
    let span = |text: &str| match ANY.parse(text).ok()? {
        Value::Span(span) => Some(span),
        _ => None,
    };
    let sections = root.tables("archive");
    let resolutions: Vec<_> = sections
        .iter()
        .filter_map(|section| {
            let (step, keep) = (section.parsed("step", span), section.parsed("keep", span));
            Some(Resolution { step: step?, keep: keep? })
        })
        .collect();
    if resolutions.is_empty() || resolutions.len() < sections.len() {
        return Layout::default();
    }
    Layout::new(&resolutions, Layout::POINT_BYTES).unwrap_or_else(|fault| {
        let fault = fault.to_string();
        let (what, mend) = fault.rsplit_once(": ").unwrap_or((&fault, ""));
        root.fault("archive", what, mend);
        Layout::default()
    })
}

fn access_log(root: &Section<'_>) -> Option<AccessLog> {
    let format = root.choice("access_log.format");
    let target = match root.text("access_log.target")? {
        "none" => return None,
        "stdout" => LogTarget::Stdout,
        _ => LogTarget::File(root.path("access_log.target")?),
    };
    Some(AccessLog { target, format: format? })
}

fn workers(root: &Section<'_>) -> Vec<WorkerGroup> {
    let mut names = Names::default();
    let mut groups = Vec::new();
    for section in root.tables("workers") {
        let threads = section.whole("threads").and_then(|threads| usize::try_from(threads).ok());
        let Some(name) = section.text("name") else { continue };
        names.claim(&section, "name", name, names::is_name(name));
        groups.push(WorkerGroup { name: name.to_owned(), threads });
    }
    if groups.is_empty() {
        groups.push(WorkerGroup { name: "default".to_owned(), threads: None });
    }
    groups
}

/// The knobs of a section, with what must agree among them.
fn knobs(section: &Section<'_>, scope: Scope) -> Values {
    let values = section.knobs(scope);
    for (low, high) in values.disagreements() {
        let (key, span) = (section.key_of(low.name()), section.span_of(low.name()));
        let (what, mend) = values.disagreement(low, high);
        section.document().fault(&key, &span, what, mend);
    }
    values
}

/// Names of one kind, each claimed once.
#[derive(Default)]
struct Names {
    /// Where each was claimed first.
    claimed: BTreeMap<String, Range<usize>>,
}

impl Names {
    /// Claims `name` for `section`, whose `key` holds it; a fault if it is malformed or taken.
    fn claim(&mut self, section: &Section<'_>, key: &str, name: &str, well_formed: bool) {
        if !well_formed {
            section.fault(
                key,
                format!("\"{}\" is no name", name.escape_debug()),
                "write up to 64 letters, digits, \"_\", \"-\" and \".\"",
            );
        } else if let Some(first) = self.claimed.get(name) {
            let line = section.document().line(first);
            section.fault(key, format!("\"{name}\" is taken (line {line})"), "give each a name of its own");
        } else {
            self.claimed.insert(name.to_owned(), section.span_of(key));
        }
    }
}

/// How many names are shown of those that exist.
const NAMES_SHOWN: usize = 8;

/// `there is no X "name"`, with what exists.
pub(crate) fn no_such<'n>(
    kind: &str,
    name: &str,
    known: impl Iterator<Item = &'n str> + Clone,
) -> (String, String) {
    let what = format!("there is no {kind} \"{}\"", name.escape_debug());
    let mend = match crate::faults::closest(name, known.clone()) {
        Some(near) => format!("did you mean \"{}\"?", near.escape_debug()),
        None => {
            let quoted = |name: &str| format!("\"{}\"", name.escape_debug());
            let all: Vec<_> = known.clone().take(NAMES_SHOWN).map(quoted).collect();
            match known.count() {
                0 => "leave it out, since there is none".to_owned(),
                count if count > NAMES_SHOWN => {
                    format!("there is {} and {} more", all.join(", "), count - NAMES_SHOWN)
                }
                _ => format!("there is {}", all.join(", ")),
            }
        }
    };
    (what, mend)
}

/// A compiler's message in one line: what is wrong, and the mend where it ends with one.
fn in_one_line(message: &str) -> (String, String) {
    // Regular expressions show themselves over several lines; the last says what is wrong.
    let last = message.lines().last().unwrap_or_default().trim();
    let last = last.strip_prefix("error: ").unwrap_or(last);
    let (what, mend) = last.rsplit_once(": ").unwrap_or((last, ""));
    (what.to_owned(), mend.to_owned())
}
