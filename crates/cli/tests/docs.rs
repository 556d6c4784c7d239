//! The documentation against the program: links resolve, names exist, configurations load.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    process::Command,
};

use tidegate_config::{knobs_markdown, reference_markdown};
use tidegate_control::{
    Refusal,
    knobs::{Kind, Knob, Scope},
    meters::{Meter, MeterKind, UPSTREAM_ERRORS},
};
use tidegate_processors::List;

/// Names in backticks that have the form of ours and belong to systemd, Prometheus or nginx.
const FOREIGN: &[&str] = &["histogram_quantile", "proxy_next_upstream", "ngx_http_upstream_round_robin.c"];

/// Pages about something of its own, with names of its own: the load generator, the lab, the CPU manager, and how code
/// is written.
const APART: &[&str] =
    &["docs/load.md", "docs/lab.md", "docs/processors.md", "CONTRIBUTING.md", "CHANGELOG.md"];

/// What a fragment of configuration is completed with, where it lacks them.
const LISTENER: &str = "\n[[listener]]\naddress = \"127.0.0.1:8080\"\n";
const APPLICATION: &str = "\n[application.shop]\nservers = [\"http://127.0.0.1:8000\"]\n";

#[test]
fn relative_links_resolve() {
    let mut faults = Vec::new();
    let mut seen = 0;
    for path in pages() {
        for (line, target) in links(&read(&path)) {
            let (file, anchor) =
                target.split_once('#').map_or((target.as_str(), None), |(f, a)| (f, Some(a)));
            let there = if file.is_empty() {
                path.clone()
            } else {
                path.parent().expect("a page lies in a folder").join(file)
            };
            seen += 1;
            if !there.exists() {
                faults.push(format!("{}:{line}: {target} is not there", shown(&path)));
            } else if let Some(anchor) = anchor
                && !anchors(&read(&there)).contains(anchor)
            {
                faults.push(format!("{}:{line}: {target}: no such heading", shown(&path)));
            }
        }
    }
    assert!(seen > 20, "found only {seen} links: does the search still work?");
    none(&faults);
}

#[test]
fn names_in_backticks_exist() {
    let names = names();
    let mut faults = Vec::new();
    let mut seen = 0;
    for path in pages().into_iter().filter(|path| !APART.contains(&shown(path).as_str())) {
        for (line, code) in code_spans(&without_other_programs(&read(&path))) {
            let Some(name) = name_of_ours(&code) else { continue };
            seen += 1;
            if !names.contains(name) && !FOREIGN.contains(&name) {
                faults.push(format!(
                    "{}:{line}: `{name}` is no knob, key, meter, choice or reason",
                    shown(&path)
                ));
            }
        }
    }
    assert!(seen > 100, "found only {seen} names: does the search still work?");
    none(&faults);
}

#[test]
fn every_field_of_the_access_log_is_explained() {
    let source = read(&root().join("crates/gateway/src/request/access_log/line.rs"));
    let operations = read(&root().join("docs/operations.md"));
    let mut faults = Vec::new();
    let mut seen = 0;
    for method in ["raw", "text", "header", "seconds"] {
        for (at, opening) in source.match_indices(&format!("fields.{method}(\"")) {
            let name = source[at + opening.len()..].split('"').next().unwrap_or("");
            seen += 1;
            let mut rows = operations.lines().filter(|line| line.starts_with("| `"));
            if !rows.any(|line| line.contains(&format!("`{name}`"))) {
                faults.push(format!("docs/operations.md: no row for the field {name} of the access log"));
            }
        }
    }
    assert!(seen > 20, "found only {seen} fields: does the search still work?");
    none(&faults);
}

#[test]
fn every_refusal_and_server_error_is_explained() {
    let operations = read(&root().join("docs/operations.md"));
    let mut faults = Vec::new();
    for name in Refusal::ALL.iter().map(|refusal| refusal.name()).chain(UPSTREAM_ERRORS.iter().copied()) {
        if !operations.lines().any(|line| line.starts_with(&format!("| `{name}` |"))) {
            faults.push(format!("docs/operations.md: no row for {name}"));
        }
    }
    none(&faults);
}

#[test]
fn configurations_in_the_documentation_load() {
    let mut faults = Vec::new();
    let mut seen = 0;
    for path in pages() {
        for block in blocks(&read(&path)) {
            let text = match block.info.as_str() {
                "toml" => block.text,
                "toml fragment" => completed(&block.text),
                "toml processors" => {
                    let here = List::new(0..4);
                    if let Err(fault) =
                        tidegate_processors::Settings::parse(&block.text, &shown(&path), &here)
                    {
                        faults.push(fault.to_string());
                    }
                    continue;
                }
                // Configuration of something else says so: `toml plan`.
                _ => continue,
            };
            seen += 1;
            let place = format!("{}:{}", shown(&path), block.line);
            if let Err(fault) = tidegate_config::parse(&text, Path::new("/etc/tidegate"), &place) {
                faults.push(fault.to_string());
            }
        }
    }
    assert!(seen > 5, "found only {seen} configurations: does the search still work?");
    none(&faults);
}

/// A fragment with what it takes for granted: a listener, and the application `shop`.
fn completed(fragment: &str) -> String {
    let has = |head: &str| fragment.lines().any(|line| line.trim() == head);
    let mut text = fragment.to_owned();
    if !has("[[listener]]") {
        text.push_str(LISTENER);
    }
    if !has("[application.shop]") {
        text.push_str(APPLICATION);
    }
    text
}

/// What a code span names if it has the form of our names: lower case in parts, joined by dots or underlines.
/// A knob may be written with its path before it and a value after it.
fn name_of_ours(code: &str) -> Option<&str> {
    let name = code.split(['=', ' ', '{']).next().unwrap_or("");
    let name = name.rsplit('/').next().unwrap_or("");
    let is_ours = name.contains(['.', '_'])
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.ends_with(|c: char| c.is_ascii_alphanumeric())
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '.' | '_'));
    // Files, host names and crates have these forms too.
    let is_a_file = Path::new(name).extension().is_some_and(|extension| {
        ["md", "rs", "toml", "json", "service", "socket", "log", "pem", "key", "sock", "example", "internal"]
            .iter()
            .any(|known| extension == *known)
    });
    (is_ours && !is_a_file && !code.starts_with(['/', '-', '$'])).then_some(name)
}

/// The page with the first cells emptied where a table begins with other programs' settings.
fn without_other_programs(page: &str) -> String {
    let mut foreign = false;
    let lines = page.lines().map(|line| {
        if line.starts_with('#') {
            foreign = line.contains("Coming from");
        }
        match line.strip_prefix("| ").filter(|_| foreign).and_then(|row| row.split_once(" | ")) {
            Some((_, ours)) => ours,
            None => line,
        }
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Every name that documentation may use: knobs, keys of the file, choices, meters and their labels, reasons,
/// crates (ours and others'), and what the gateway writes into messages, logs and traces.
fn names() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for knob in Knob::ALL {
        names.insert(knob.name().to_owned());
        if let Kind::Choice(choices) = knob.kind() {
            names.extend(choices.iter().map(|choice| (*choice).to_owned()));
        }
    }
    for meter in Meter::ALL {
        names.insert(meter.name().to_owned());
        names.extend(meter.labels().iter().map(|label| (*label).to_owned()));
        names.extend(exported(*meter));
    }
    names.extend(Refusal::ALL.iter().map(|refusal| refusal.name().to_owned()));
    // Keys that are structure and no knobs: the first cells of the reference's rows, and their leading parts.
    for page in [reference_markdown(), knobs_markdown()] {
        for line in page.lines() {
            if let Some(key) = line.strip_prefix("| `").and_then(|rest| rest.split('`').next()) {
                names.insert(key.to_owned());
            }
        }
    }
    for folder in std::fs::read_dir(root().join("crates")).expect("a readable folder").flatten() {
        names.insert(format!("tidegate_{}", folder.file_name().to_string_lossy()));
    }
    for line in read(&root().join("Cargo.toml")).lines() {
        names.extend(line.split_once(" = ").map(|(key, _)| key.to_owned()));
    }
    let mut folders = vec![root().join("crates/gateway/src"), root().join("crates/telemetry/src")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a readable folder").flatten() {
            match entry.path() {
                path if path.is_dir() => folders.push(path),
                path => {
                    let source = read(&path);
                    names.extend(source.split('"').skip(1).step_by(2).map(str::to_owned));
                    names.extend(serialized(&source).map(str::to_owned));
                }
            }
        }
    }
    let prefixes: Vec<String> = names
        .iter()
        .flat_map(|name| name.match_indices('.').map(|(at, _)| name[..at].to_owned()).collect::<Vec<_>>())
        .collect();
    names.extend(prefixes);
    names
}

/// A meter's names at the metrics endpoint.
fn exported(meter: Meter) -> Vec<String> {
    let scope = match meter.scope() {
        Scope::Host => String::new(),
        scope => format!("{}_", scope.name()),
    };
    let unit = match meter.unit().name() {
        "" => String::new(),
        unit => format!("_{unit}"),
    };
    let name = format!("tidegate_{scope}{}{unit}", meter.name());
    match meter.kind() {
        MeterKind::Count => vec![format!("{name}_total")],
        MeterKind::Level => vec![name],
        MeterKind::Distribution => {
            ["", "_bucket", "_count", "_sum"].iter().map(|suffix| format!("{name}{suffix}")).collect()
        }
    }
}

/// A fenced block: what follows the fence, its first line's number, its text.
struct Block {
    info: String,
    line: usize,
    text: String,
}

fn blocks(page: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut open: Option<Block> = None;
    for (index, line) in page.lines().enumerate() {
        match (line.trim_start().strip_prefix("```"), &mut open) {
            (Some(info), None) => {
                open = Some(Block { info: info.trim().to_owned(), line: index + 2, text: String::new() });
            }
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (None, Some(block)) => {
                block.text.push_str(line);
                block.text.push('\n');
            }
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "a fence is not closed:\n{page}");
    blocks
}

/// The page's lines outside fenced and indented blocks, with their numbers.
fn prose(page: &str) -> Vec<(usize, &str)> {
    let mut fenced = false;
    page.lines()
        .enumerate()
        .filter(|(_, line)| {
            let is_fence = line.trim_start().starts_with("```");
            fenced ^= is_fence;
            !fenced && !is_fence && !line.starts_with("    ")
        })
        .map(|(index, line)| (index + 1, line))
        .collect()
}

/// The text between single backticks, without doubled ones, with its line.
fn code_spans(page: &str) -> Vec<(usize, String)> {
    let mut spans = Vec::new();
    for (number, line) in prose(page) {
        let parts: Vec<&str> = line.split('`').collect();
        spans.extend(parts.iter().skip(1).step_by(2).map(|span| (number, (*span).to_owned())));
    }
    spans
}

/// Targets of links `[text](target)` that lead into the project, with their lines.
fn links(page: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, line) in prose(page) {
        for (at, _) in line.match_indices("](") {
            let target = line[at + 2..].split(')').next().unwrap_or("");
            let leads_out =
                ["http://", "https://", "mailto:"].iter().any(|scheme| target.starts_with(scheme));
            if !target.is_empty() && !leads_out {
                found.push((number, target.to_owned()));
            }
        }
    }
    found
}

/// The anchors of a page's headings, as forges make them: lower case, blanks to hyphens, no other punctuation.
fn anchors(page: &str) -> BTreeSet<String> {
    prose(page)
        .into_iter()
        .filter(|(_, line)| line.starts_with('#'))
        .map(|(_, line)| {
            line.trim_start_matches('#')
                .trim()
                .to_lowercase()
                .chars()
                .filter_map(|c| match c {
                    ' ' => Some('-'),
                    c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c),
                    _ => None,
                })
                .collect()
        })
        .collect()
}

/// Every Markdown page that Git follows, or, in an unpacked archive, those of the root and of docs/.
/// The fields of what is written as JSON by its shape.
fn serialized(source: &str) -> impl Iterator<Item = &str> {
    let shapes = source.split("#[derive(Serialize)]\n").skip(1);
    let lines = shapes.flat_map(|shape| shape.lines().take_while(|line| *line != "}"));
    lines.filter_map(|line| Some(line.trim().split_once(": ")?.0))
}

fn pages() -> Vec<PathBuf> {
    let listed = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard", "*.md"])
        .current_dir(root())
        .output();
    let mut pages: Vec<PathBuf> = match listed {
        Ok(output) if output.status.success() && !output.stdout.is_empty() => {
            String::from_utf8_lossy(&output.stdout)
                .split('\0')
                .filter(|name| !name.is_empty())
                .map(|name| root().join(name))
                .filter(|path| path.exists())
                .collect()
        }
        _ => [root(), root().join("docs")]
            .iter()
            .flat_map(|folder| std::fs::read_dir(folder).expect("a readable folder").flatten())
            .map(|entry| entry.path())
            .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
            .collect(),
    };
    pages.sort();
    assert!(pages.len() >= 8, "found only {} pages: does the search still work?", pages.len());
    pages
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn shown(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).display().to_string()
}

fn none(faults: &[String]) {
    assert!(faults.is_empty(), "{} faults:\n  {}", faults.len(), faults.join("\n  "));
}
