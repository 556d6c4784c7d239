//! A small swarm, and that it is one.

use super::*;

#[test]
fn a_swarm_finds_nothing() {
    let report = swarm(1, 60, |_| ());
    for failure in &report.failures {
        eprintln!("seed {}: {}\n{:#?}", failure.seed, failure.message, failure.trail);
    }
    assert!(report.failures.is_empty());
    assert!(report.steps > 60 * 100, "only {} steps: do clients still come?", report.steps);
}

#[test]
fn a_seed_is_the_same_world_again() {
    assert_eq!(one(7), one(7));
    assert_ne!(one(7), one(8));
}
