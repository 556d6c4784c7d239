//! `tidegate demo`: its figures say one thing, and it leaves nothing behind.

#[path = "../support/mod.rs"]
mod support;

use std::{
    fs,
    io::{BufRead, BufReader, Read as _},
    net::TcpListener,
    process::{Command, ExitStatus, Stdio},
};

use serde_json::Value as Json;
use support::{free_address, signal};

/// Runs the demo from a shell, sends it a signal at the head of a phase, and gives how it ended, what it printed after that
/// and what is left in its directory of temporary files.
fn interrupted(before: &str, arguments: &str, phase: &str, name: &str) -> (ExitStatus, String, Vec<String>) {
    let temporary = tempfile::tempdir().expect("a directory for the test");
    let script = format!(
        "{before} exec \"$0\" demo {arguments} --listen {} --admin {}",
        free_address(),
        free_address()
    );
    let mut demo = Command::new("sh")
        .args(["-c", &script, env!("CARGO_BIN_EXE_tidegate")])
        .env("TMPDIR", temporary.path())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it runs");
    let mut out = BufReader::new(demo.stdout.take().expect("piped"));
    let mut line = String::new();
    while line.trim_end() != phase {
        line.clear();
        assert_ne!(out.read_line(&mut line).expect("text"), 0, "it ended before {phase:?}");
    }
    let folders = fs::read_dir(temporary.path()).expect("a directory").count();
    assert!((1..=2).contains(&folders), "the sites' folders: {folders}");
    signal(demo.id(), name);
    let mut rest = String::new();
    out.read_to_string(&mut rest).expect("text");
    let status = demo.wait().expect("it ends");
    let left = fs::read_dir(temporary.path()).expect("a directory");
    (status, rest, left.map(|entry| entry.expect("an entry").path().display().to_string()).collect())
}

#[test]
fn a_signal_ends_it_with_what_was_measured_and_nothing_is_left() {
    let (status, rest, left) = interrupted("", "--seconds 8", "with the gateway", "TERM");
    assert_eq!(status.code(), Some(0), "{status}");
    assert!(rest.contains("% of capacity"), "{rest}");
    assert_eq!(left, [""; 0]);
}

#[test]
fn ctrl_c_ends_it_also_where_it_was_ignored() {
    let (status, rest, left) = interrupted("trap '' INT;", "--seconds 8", "without the gateway", "INT");
    assert_eq!(status.code(), Some(0), "{status}");
    assert!(!rest.contains("with the gateway"), "it went on: {rest}");
    assert_eq!(left, [""; 0]);
}

#[test]
fn an_address_that_is_taken_is_said_before_anything_is_measured() {
    let holder = TcpListener::bind("127.0.0.1:0").expect("a port");
    let (taken, free) = (holder.local_addr().expect("its address").to_string(), free_address().to_string());
    for (listen, admin, code) in
        [(&taken, &free, 1), (&free, &taken, 1), (&"unix:demo.sock".to_owned(), &free, 2)]
    {
        let temporary = tempfile::tempdir().expect("a directory for the test");
        let output = Command::new(env!("CARGO_BIN_EXE_tidegate"))
            .args(["demo", "--seconds", "4", "--listen", listen, "--admin", admin])
            .env("TMPDIR", temporary.path())
            .output()
            .expect("it runs");
        let (shown, said) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert!(said.contains(if code == 1 { &taken } else { listen }.as_str()), "{said}");
        assert!(!shown.contains("without the gateway"), "it began: {shown}");
        assert_eq!(fs::read_dir(temporary.path()).expect("a directory").count(), 0, "something is left");
    }
}

#[test]
fn the_figures_of_the_demo_are_of_one_capacity_and_leave_nobody_out() {
    let (listen, admin) = (free_address().to_string(), free_address().to_string());
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.args([
        "demo",
        "--json",
        "--seconds",
        "4",
        "--load",
        "2.5",
        "--listen",
        &listen,
        "--admin",
        &admin,
    ]);
    let output = command.output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let figures: Json = serde_json::from_slice(&output.stdout).expect("one JSON object");
    let number = |value: &Json| value.as_f64().unwrap_or_else(|| panic!("a number in {figures:#}"));
    let is_same = |one: f64, other: f64| (one - other).abs() <= 1e-9 * other.abs();
    let capacity = number(&figures["capacity_per_s"]);
    assert!(capacity >= 1.0, "{figures:#}");
    assert!(is_same(number(&figures["offered_per_s"]), capacity * 2.5), "{figures:#}");
    for phase in [&figures["without"], &figures["with"]] {
        let goodput = number(&phase["goodput_per_s"]);
        assert!(is_same(number(&phase["goodput_share_of_capacity"]), goodput / capacity), "{figures:#}");
        // Of those who came in each half of the four seconds some had their answer after it.
        assert!(goodput * 2.0 <= number(&phase["good"]), "{figures:#}");
        let ends = ["good", "refused", "timed_out", "failed"].map(|end| number(&phase[end]));
        assert!(is_same(ends.iter().sum(), number(&phase["offered"])), "{figures:#}");
    }
    assert_eq!(number(&figures["without"]["refused"]), 0.0, "there is nobody who refuses: {figures:#}");
}
