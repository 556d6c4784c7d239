//! `tidegate demo`: its figures say one thing.

#[path = "../support/mod.rs"]
mod support;

use std::process::Command;

use serde_json::Value as Json;
use support::free_address;

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
        // Each half of the four seconds.
        assert!(is_same(goodput * 2.0, number(&phase["good"])), "{figures:#}");
        let ends = ["good", "refused", "timed_out", "failed"].map(|end| number(&phase[end]));
        assert!(is_same(ends.iter().sum(), number(&phase["offered"])), "{figures:#}");
    }
    assert_eq!(number(&figures["without"]["refused"]), 0.0, "there is nobody who refuses: {figures:#}");
}
