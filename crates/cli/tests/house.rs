//! The rules of the house that the compiler does not hold: who imports whom, and how a file begins.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// Which rooms a room may import, in its code and its build script. A new crate begins with a row here and one in
/// ARCHITECTURE.md.
const MAY_IMPORT: &[(&str, &[&str])] = &[
    ("control", &[]),
    ("hello", &[]),
    ("config", &["control"]),
    ("runtime", &["control", "config", "tokens"]),
    ("store", &["control"]),
    ("scripts", &["control"]),
    ("tokens", &["control"]),
    ("gateway", &["control", "hello", "config", "runtime", "tokens"]),
    ("admin", &["control", "config", "runtime", "store", "scripts", "tokens"]),
    ("telemetry", &["control", "config", "runtime"]),
    ("processors", &["control", "config"]),
    ("sim", &["control", "scripts"]),
    ("load", &[]),
    ("auction", &[]),
    ("lab", ANY),
    ("cli", ANY),
];

const ANY: &[&str] = &["*"];

/// Rooms that import nothing of ours in their tests either.
const ALONE_IN_TESTS: &[&str] = &["control", "hello", "load", "auction"];

/// Rooms whose edit-and-test loop must stay short: neither tokio nor compiled C below them.
const WITHOUT_TOKIO_OR_C: &[&str] = &["control", "hello", "sim"];

#[test]
fn rooms_import_only_what_their_row_says() {
    let table: BTreeMap<_, _> = MAY_IMPORT.iter().copied().collect();
    let mut faults = Vec::new();
    for room in rooms() {
        let Some(&may) = table.get(room.name.as_str()) else {
            faults.push(format!("crates/{}: has no row in MAY_IMPORT of this test", room.name));
            continue;
        };
        for (imported, is_test) in &room.imports {
            let allowed = may.contains(&imported.as_str()) || may == ANY;
            let allowed = allowed || (*is_test && !ALONE_IN_TESTS.contains(&room.name.as_str()));
            if !allowed {
                faults.push(format!("crates/{}/Cargo.toml: must not import {imported}", room.name));
            }
        }
    }
    none(&faults);
}

#[test]
fn packages_are_named_for_their_folder_and_take_the_workspace_lints() {
    let mut faults = Vec::new();
    for room in rooms() {
        if room.package != format!("tidegate-{}", room.name) {
            faults.push(format!("crates/{}: package is called {}", room.name, room.package));
        }
        let manifest = read(&room.manifest);
        if !manifest.contains("[lints]\nworkspace = true") {
            faults.push(format!("crates/{}/Cargo.toml: lacks [lints] workspace = true", room.name));
        }
    }
    none(&faults);
}

#[test]
fn architecture_shows_the_same_table() {
    let text = read(&root().join("ARCHITECTURE.md"));
    let mut faults = Vec::new();
    for room in rooms() {
        let row = text.lines().find(|line| line.starts_with(&format!("| `crates/{}` |", room.name)));
        let Some(row) = row else {
            faults.push(format!("ARCHITECTURE.md: no row for crates/{}", room.name));
            continue;
        };
        let shown: BTreeSet<&str> = row
            .trim_end_matches(['|', ' '])
            .rsplit('|')
            .next()
            .unwrap_or("")
            .split(',')
            .map(str::trim)
            .collect();
        for (imported, is_test) in &room.imports {
            if !is_test && !shown.contains(imported.as_str()) && !shown.contains("all") {
                faults.push(format!("ARCHITECTURE.md: the row of {} does not name {imported}", room.name));
            }
        }
    }
    none(&faults);
}

#[test]
fn the_short_loop_needs_neither_tokio_nor_a_c_compiler() {
    let present: BTreeSet<String> = rooms().into_iter().map(|room| room.name).collect();
    let mut faults = Vec::new();
    for room in WITHOUT_TOKIO_OR_C.iter().filter(|room| present.contains(**room)) {
        let package = format!("tidegate-{room}");
        let tree =
            cargo(&["tree", "-p", &package, "-e", "normal,build", "--prefix", "none", "--format", "{p}"]);
        let below: BTreeSet<&str> = tree.lines().filter_map(|line| line.split_whitespace().next()).collect();
        assert!(below.contains(package.as_str()), "cargo tree did not list {package}:\n{tree}");
        for name in below {
            if matches!(name, "tokio" | "cc" | "cmake" | "bindgen") || name.ends_with("-sys") {
                faults
                    .push(format!("crates/{room}: pulls in {name} (see cargo tree -p {package} -i {name})"));
            }
        }
    }
    none(&faults);
}

#[test]
fn every_dependency_is_used_and_has_its_reason() {
    let architecture = read(&root().join("ARCHITECTURE.md"));
    let mut faults = Vec::new();
    let mut declared = BTreeSet::new();
    for room in rooms() {
        let folder = format!("crates/{}/", room.name);
        let sources: String = files()
            .iter()
            .filter(|path| {
                shown(path).starts_with(&folder) && path.extension().is_some_and(|ext| ext == "rs")
            })
            .map(|path| read(path))
            .collect();
        for (name, code) in &room.dependencies {
            declared.insert(name.clone());
            let uses = [format!("{code}::"), format!("use {code};"), format!("{code} as ")];
            if !uses.iter().any(|used| sources.contains(used)) {
                faults.push(format!("crates/{}/Cargo.toml: {name} is not used", room.name));
            }
        }
    }
    for name in declared.iter().filter(|name| !name.starts_with("tidegate-")) {
        if !architecture.contains(&format!("`{name}`")) {
            faults.push(format!("ARCHITECTURE.md: does not say why {name}"));
        }
    }
    let manifest = read(&root().join("Cargo.toml"));
    let (_, rest) = manifest.split_once("[workspace.dependencies]").expect("the section is there");
    for line in rest.lines().take_while(|line| !line.starts_with('[')) {
        let Some((name, _)) = line.split_once(" = ") else { continue };
        if !name.starts_with('#') && !declared.contains(name) {
            faults.push(format!("Cargo.toml: no crate takes {name}"));
        }
    }
    none(&faults);
}

#[test]
fn every_rust_file_says_its_subject_in_its_first_line() {
    let files = files();
    let rust: Vec<_> = files.iter().filter(|path| path.extension().is_some_and(|ext| ext == "rs")).collect();
    assert!(rust.len() > 10, "found only {} Rust files: does the search still work?", rust.len());
    let mut faults = Vec::new();
    for path in rust {
        let subject = read(path).lines().next().and_then(|line| line.strip_prefix("//! ")).map(str::len);
        if subject.unwrap_or(0) < 10 {
            faults.push(format!("{}:1: no `//!` line that names the file's subject", shown(path)));
        }
    }
    none(&faults);
}

#[test]
fn no_file_names_a_place_on_the_machine_it_was_written_on() {
    // Put together, or this file would be its own fault.
    let places = ["work", "home", "Users"].map(|folder| format!("/{folder}/"));
    // `shop/home/ingress.rate` is a knob of the class Home, no place.
    let begins = |line: &str, place: &str| {
        line.match_indices(place).any(|(at, _)| !line[..at].ends_with(char::is_alphanumeric))
    };
    let mut faults = Vec::new();
    for path in files() {
        let Ok(text) = std::fs::read_to_string(&path) else { continue };
        for (index, line) in text.lines().enumerate() {
            if let Some(place) = places.iter().find(|place| begins(line, place)) {
                faults.push(format!("{}:{}: names {place}", shown(&path), index + 1));
            }
        }
    }
    none(&faults);
}

#[test]
fn what_git_keeps_in_a_worktree_is_no_file_of_the_project() {
    let folder = tempfile::tempdir().expect("a directory");
    for name in [".git", "README.md", "target/debug/built", "src/main.rs"] {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().expect("in the folder")).expect("made");
        std::fs::write(path, "gitdir: elsewhere").expect("written");
    }
    let mut found = unpacked(folder.path().to_owned());
    found.sort();
    assert_eq!(found, ["README.md", "src/main.rs"].map(|name| folder.path().join(name)));
}

struct Room {
    name: String,
    package: String,
    manifest: PathBuf,
    /// Short names of imported rooms, and whether only tests import them.
    imports: Vec<(String, bool)>,
    /// Everything its manifest names, with the name it has in code.
    dependencies: Vec<(String, String)>,
}

/// Crates whose name in code is not that of the package.
const NAMED_OTHERWISE: &[(&str, &str)] = &[("rustls-webpki", "webpki")];

fn rooms() -> Vec<Room> {
    let metadata: Value = serde_json::from_str(&cargo(&["metadata", "--no-deps", "--format-version", "1"]))
        .expect("cargo metadata prints JSON");
    let packages = metadata["packages"].as_array().expect("packages");
    let own: BTreeSet<&str> = packages.iter().filter_map(|package| package["name"].as_str()).collect();
    let rooms: Vec<Room> = packages
        .iter()
        .map(|package| {
            let manifest = PathBuf::from(package["manifest_path"].as_str().expect("manifest_path"));
            let folder = manifest.parent().and_then(Path::file_name).expect("a manifest lies in a folder");
            let imports = package["dependencies"].as_array().expect("dependencies");
            Room {
                name: folder.to_string_lossy().into_owned(),
                package: package["name"].as_str().expect("name").to_owned(),
                imports: imports
                    .iter()
                    .filter_map(|import| Some((import["name"].as_str()?, import["kind"] == "dev")))
                    .filter(|(name, _)| own.contains(name))
                    .map(|(name, is_test)| (name.trim_start_matches("tidegate-").to_owned(), is_test))
                    .collect(),
                dependencies: imports
                    .iter()
                    .filter_map(|import| import["name"].as_str())
                    .map(|name| {
                        let known = NAMED_OTHERWISE.iter().find(|(package, _)| *package == name);
                        (name.to_owned(), known.map_or(name, |(_, code)| code).replace('-', "_"))
                    })
                    .collect(),
                manifest,
            }
        })
        .collect();
    assert!(rooms.len() > 5, "found only {} crates: does the search still work?", rooms.len());
    rooms
}

/// Every text file of the project: what Git follows, or, in an unpacked archive, what is not built.
fn files() -> Vec<PathBuf> {
    let listed = Command::new("git").args(["ls-files", "-z"]).current_dir(root()).output();
    if let Ok(output) = listed
        && output.status.success()
        && !output.stdout.is_empty()
    {
        let names = String::from_utf8_lossy(&output.stdout);
        return names.split('\0').filter(|name| !name.is_empty()).map(|name| root().join(name)).collect();
    }
    unpacked(root())
}

/// Every file of a folder that is not built. `.git` is a folder, and in a worktree a file.
fn unpacked(folder: PathBuf) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a readable folder").flatten() {
            let path = entry.path();
            if ["target", "node_modules", ".git"].iter().any(|name| path.ends_with(name)) {
                continue;
            }
            if path.is_dir() { folders.push(path) } else { found.push(path) }
        }
    }
    found
}

fn cargo(args: &[&str]) -> String {
    let output = Command::new(env!("CARGO"))
        .args(args)
        .args(["--offline", "--locked"])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "cargo {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &Path) -> String {
    // A file removed but not yet committed is still listed by Git.
    std::fs::read_to_string(path).unwrap_or_default()
}

fn shown(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).display().to_string()
}

fn none(faults: &[String]) {
    assert!(faults.is_empty(), "{} faults:\n  {}", faults.len(), faults.join("\n  "));
}
