//! The reference pages of docs/, printed from the tables.

use std::fmt::Write as _;

use tidegate_control::{
    knobs::{Knob, Scope},
    meters::{Meter, MeterKind},
};

use crate::{
    path::shape,
    print::knob_value,
    rows,
    shape::{Absent, Shape, Table},
};

/// How every page begins.
const PRINTED: &str =
    "<!-- Printed from the tables in the code: UPDATE_DOCS=1 cargo test -p tidegate-config docs -->\n";

/// docs/configuration.md: every key of the configuration file.
#[must_use]
pub fn reference_markdown() -> String {
    let mut page = format!(
        "{PRINTED}
# Configuration file

The file is [TOML](https://toml.io/en/v1.1.0). `tidegate check FILE` reports every fault in it at once, each with
line, column, key and mend. Where it has none, what stands in the files that it names is looked at (pages, scripts,
certificates and whether their keys belong to them), and faults there are said with the name of the file.
`tidegate check --print FILE` shows everything in force, defaults included, but for the values of `Authorization` and fields
like it. Files to start from are in `examples/`; the file's JSON schema is
[configuration.schema.json](configuration.schema.json).

- A key with dots is a key in a table: `queue.max = 100`, `queue = {{ max = 100 }}` and `max = 100` below
  `[application.shop.class.checkout.queue]` are the same.
- Rates are written `\"35/s\"` (also `/min`, `/h`), spans of time `\"250ms\"` (`ns`, `us`, `ms`, `s`, `min`, `h`, `d`), sizes
  `\"10MiB\"` (`B`, `KiB`, `MiB`, `GiB`, `TiB`, `kB`, `MB`, `GB`). Numbers and `true`, `false` are written without quotes.
- What is off is written `\"none\"`, never 0.
- Relative paths are relative to the file's directory.
- Unknown keys are faults.
"
    );
    for table in tables() {
        // Writing to a string cannot fail, here and below.
        let _ = write!(page, "\n## {}\n\n{}\n", heading(table), table.doc);
        if let Some(scope) = table.scope {
            let _ =
                write!(page, "\nThe knobs of [scope {0}](knobs.md#{0}) are written here too", scope.name());
            let names: Vec<_> = table.knobs().map(|knob| format!("`{}`", knob.name())).collect();
            let _ = writeln!(page, ": {}.", names.join(", "));
        }
        if !table.rows.is_empty() {
            page.push_str("\n| key | value | if not written | meaning |\n|---|---|---|---|\n");
        }
        for row in table.rows {
            let absent = match row.absent {
                Absent::Required(_) => "required".to_owned(),
                Absent::Value(text) => format!("`{text}`"),
                Absent::Means(words) => words.to_owned(),
            };
            let cells = [&format!("`{}`", row.name), &row.shape.expected(), &absent, row.doc];
            row_of(&mut page, &cells);
        }
    }
    page
}

/// docs/knobs.md: everything that can be changed while running.
#[must_use]
pub fn knobs_markdown() -> String {
    let mut page = format!(
        "{PRINTED}
# Knobs

Everything that can be changed while Tidegate runs: in the configuration file, with `tidegate set PATH=VALUE`, and
through the HTTP API. Each change is checked against the row here and applied at once.
"
    );
    for scope in Scope::ALL.iter().copied() {
        let _ = write!(
            page,
            "\n## {}\n\nPath: `{}`.\n\n| knob | value | default | meaning |\n|---|---|---|---|\n",
            scope.name(),
            shape(scope)
        );
        for knob in Knob::ALL.iter().copied().filter(|knob| knob.scope() == scope) {
            let cells = [
                &format!("`{}`", knob.name()),
                &knob.expected(),
                &format!("`{}`", knob_value(knob.default())),
                knob.doc(),
            ];
            row_of(&mut page, &cells);
        }
    }
    page
}

/// docs/meters.md: everything that is measured.
#[must_use]
pub fn meters_markdown() -> String {
    let mut page = format!(
        "{PRINTED}
# Meters

Everything Tidegate measures. A count only grows, a level is what holds at the moment of reading, a distribution
holds every value seen. A meter that is split has one series for each label.
"
    );
    for scope in Scope::ALL.iter().copied() {
        let _ = write!(
            page,
            "\n## {}\n\n| meter | kind | unit | split by | meaning |\n|---|---|---|---|---|\n",
            scope.name()
        );
        for meter in Meter::ALL.iter().copied().filter(|meter| meter.scope() == scope) {
            let kind = match meter.kind() {
                MeterKind::Count => "count",
                MeterKind::Level => "level",
                MeterKind::Distribution => "distribution",
            };
            let split = match meter.label() {
                "" => String::new(),
                label => format!("{label}: {}", meter.labels().join(", ")),
            };
            row_of(
                &mut page,
                &[&format!("`{}`", meter.name()), kind, meter.unit().name(), &split, meter.doc()],
            );
        }
    }
    page
}

/// Every table of the file once, each before those in it.
fn tables() -> Vec<&'static Table> {
    let mut found: Vec<&'static Table> = vec![&rows::ROOT];
    let mut next = 0;
    while let Some(table) = found.get(next) {
        let inner = table.rows.iter().filter_map(|row| match row.shape {
            Shape::Table(table)
            | Shape::Tables { table, .. }
            | Shape::TablesOrTexts { table, .. }
            | Shape::Named { table, .. } => Some(table),
            Shape::Conditions { .. } => Some(&rows::CONDITION),
            Shape::Flag
            | Shape::Whole { .. }
            | Shape::Text(_)
            | Shape::Choice(_)
            | Shape::Texts { .. }
            | Shape::Value(_) => None,
        });
        for table in inner.collect::<Vec<_>>() {
            if found.iter().all(|known| known.title != table.title) {
                found.push(table);
            }
        }
        next += 1;
    }
    found
}

/// What the file writes stands in code, words do not.
fn heading(table: &Table) -> String {
    if table.title.starts_with(['[', '{']) { format!("`{}`", table.title) } else { table.title.to_owned() }
}

fn row_of(page: &mut String, cells: &[&str]) {
    for cell in cells {
        let _ = write!(page, "| {} ", cell.replace('|', "\\|"));
    }
    page.push_str("|\n");
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, path::Path};

    use super::*;

    #[test]
    fn every_row_is_sound() {
        for table in tables() {
            let names: Vec<_> = table.names().collect();
            assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len(), "{}: unique", table.title);
            for name in &names {
                let below = format!("{name}.");
                assert!(
                    !names.iter().any(|other| other.starts_with(&below)),
                    "{name} is a value and a table"
                );
            }
            for row in table.rows {
                assert!(row.doc.ends_with('.'), "{} needs a sentence", row.name);
            }
        }
    }

    #[test]
    fn docs_are_what_the_tables_say() {
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
        let schema = serde_json::to_string_pretty(&crate::schema()).expect("JSON prints") + "\n";
        for (name, page) in [
            ("configuration.md", reference_markdown()),
            ("configuration.schema.json", schema),
            ("knobs.md", knobs_markdown()),
            ("meters.md", meters_markdown()),
        ] {
            let path = docs.join(name);
            if std::env::var_os("UPDATE_DOCS").is_some() {
                std::fs::create_dir_all(&docs).expect("docs/ can be made");
                std::fs::write(&path, &page).expect("docs/ can be written");
            }
            let committed = std::fs::read_to_string(&path).unwrap_or_default();
            assert!(
                committed == page,
                "docs/{name} is not what the tables say: UPDATE_DOCS=1 cargo test -p tidegate-config docs"
            );
        }
    }
}
