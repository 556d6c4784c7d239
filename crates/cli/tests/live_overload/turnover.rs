//! Work that changes while it runs: the mix of light and heavy requests turns over, and the cost of all of them doubles
//! and falls back.

use std::{sync::PoisonError, time::Duration};

use serde_json::json;
use tidegate_load::{Arrivals, ClassPlan};

use super::{Arm, Bench, Checks, Extent, Figure, TIMEOUT, TURN, capacity_of, run, save};

/// A kind of request: how many a second the origin can do of it alone, and how many are asked for in each of the two
/// phases that take turns.
struct Kind {
    path: &'static str,
    capacity: f64,
    rates: [f64; 2],
}

#[test]
fn the_work_gets_done_while_its_kind_changes() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let extent = Extent::of_environment();
    let (phase_s, span) =
        if extent.full { (10, Duration::from_secs(40)) } else { (3, Duration::from_secs(6)) };
    let [light, heavy, usual, dear] = ["/light", "/heavy", "/", "/dear"].map(capacity_of);
    // Twice what the origin can do of a mix in which this share of the requests is light.
    let mixed = |share: f64| {
        let all = 2.0 / (share / light + (1.0 - share) / heavy);
        (all * share, all * (1.0 - share))
    };
    let (first, second) = (mixed(0.8), mixed(0.2));
    let changes = [
        (
            "mix of light and heavy, 1:10, at 2 C",
            [
                Kind { path: "/light", capacity: light, rates: [first.0, second.0] },
                Kind { path: "/heavy", capacity: heavy, rates: [first.1, second.1] },
            ],
        ),
        (
            "cost of each doubled, then halved, from 1.5 C",
            [
                Kind { path: "/", capacity: usual, rates: [1.5 * usual, 0.0] },
                Kind { path: "/dear", capacity: dear, rates: [0.0, 1.5 * usual] },
            ],
        ),
    ];
    let mut checks = Checks::default();
    for (name, kinds) in &changes {
        let (mut done, mut p95_ms, mut wasted) = (Vec::new(), Vec::new(), Vec::new());
        for repetition in 0..extent.repetitions {
            let bench = Bench::new(Arm::Default);
            let mut plan = bench.plan(repetition + 1, span);
            for Kind { path, rates: [first, second], .. } in kinds {
                let schedule = format!("poisson:repeat:{first:.2}/s:{phase_s}s,{second:.2}/s:{phase_s}s");
                let arrivals: Arrivals = schedule.parse().expect("a schedule");
                plan = plan.class(ClassPlan::new(*path, arrivals).path(*path).timeout(TIMEOUT));
            }
            let report = run(plan);
            let done_of = |kind: &Kind| report.class(kind.path).expect("ran").goodput_per_s / kind.capacity;
            done.push(kinds.iter().map(done_of).sum::<f64>());
            p95_ms.push(report.total.good_latency_ms.p95);
            let stats = bench.origin.stats();
            wasted.push(stats.work_for_nobody as f64 / stats.work_completed.max(1) as f64);
        }
        let (done, wasted) = (Figure::of(&done), Figure::of(&wasted).median);
        checks.state(&format!("{name}: work done, of what can be"), done, ">=", 0.98);
        checks.state(&format!("{name}: p95 ms"), Figure::of(&p95_ms), "<=", 200.0);
        let done = done.median;
        // A machine that others use may be several times slower than when its capacity was measured.
        assert!(done > 0.1 && wasted < 0.1, "{name}: done {done}, for nobody {wasted}");
    }
    save("turnover.json", &json!({ "experiment": "turnover", "checks": checks.told }));
    checks.hold(&extent);
}
