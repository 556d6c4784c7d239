//! A hundred thousand clients who wait at once, in a process of their own, since it is its memory that is looked at.

use std::{sync::Arc, time::Duration};

use tidegate_load::{
    ClassPlan, FollowPlan, Live, Plan,
    origin::{Origin, Settings},
    run_blocking_with,
};

const CLIENTS: u64 = 100_000;
/// What one who waits may take: himself, his place in the heap, the URL he was given.
const BYTES_EACH: u64 = 700;
/// What a connection may take, at both its ends, which are both here.
const BYTES_A_CONNECTION: u64 = 64 * 1024;

/// Nothing here waits for the clock: the run ends when all of them wait.
#[test]
fn a_hundred_thousand_wait_without_a_connection_and_for_a_few_hundred_bytes_each() {
    let origin = Origin::start(&Settings::default()).expect("an origin on a free port");
    // As long as the token of a waiting room.
    let path = format!("/refresh?s=3600&to=/token/{}", "t".repeat(100));
    let all = ClassPlan::new("visitors", "2000/s".parse().expect("arrivals"))
        .path(path)
        .timeout(Duration::from_secs(60))
        .follow(FollowPlan::default())
        .requests_max(CLIENTS);
    let mut plan = Plan::new(origin.url()).class(all).duration(Duration::from_secs(600)).threads(2);
    // A machine busy with other work may fall behind by some seconds.
    plan.in_flight_max = 50_000;
    let live = Arc::new(Live::new(&plan));
    let before = resident_bytes();
    let (report, after) = std::thread::scope(|scope| {
        let watched = Arc::clone(&live);
        let watch = scope.spawn(move || {
            while watched.read()[0].waiting < CLIENTS && !watched.is_stopped() {
                std::thread::sleep(Duration::from_millis(5));
            }
            let after = resident_bytes();
            watched.stop();
            after
        });
        let report = run_blocking_with(&plan, &live);
        // Also when the run has failed, so that the watch ends.
        live.stop();
        (report.expect("a run"), watch.join().expect("a reading"))
    });
    let waits = report.classes[0].waits.as_ref().expect("waits");
    assert_eq!((waits.waiting_most, waits.promises), (CLIENTS, CLIENTS), "{report}");
    assert_eq!((report.total.unfinished, report.total.good), (CLIENTS, 0), "{report}");
    assert_eq!((live.read()[0].waiting, live.read()[0].in_flight), (0, 0));
    let connections = report.connections.opened_http1;
    assert!(connections < CLIENTS / 4, "{report}");
    let grown = after.saturating_sub(before);
    println!("{} bytes for each of {CLIENTS} who wait, {connections} connections among it", grown / CLIENTS);
    assert!(
        grown <= CLIENTS * BYTES_EACH + connections * BYTES_A_CONNECTION,
        "{} bytes for each who waits, and {connections} connections",
        grown / CLIENTS
    );
}

/// Main memory this process takes.
fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("its line");
    let kib: u64 = line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).expect("a number");
    kib * 1024
}
