//! The commit the program is built from, for reports.

use std::{path::Path, process::Command};

fn main() {
    let commit =
        git(&["rev-parse", "--short=12", "HEAD"]).unwrap_or_else(|| "unknown (built outside Git)".to_owned());
    println!("cargo::rustc-env=TIDEGATE_COMMIT={commit}");
    println!("cargo::rerun-if-changed=build.rs");
    // Each commit, checkout and rebase adds a line here.
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"])
        && Path::new(&log).exists()
    {
        println!("cargo::rerun-if-changed={log}");
    }
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
