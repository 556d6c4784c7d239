//! The same seed is the same run, to the last event, on every machine and in every release that does not say otherwise.

use std::time::Duration;

use tidegate_control::ClassId;
use tidegate_sim::{
    Arrivals, Change, Class, Clients, Collector, Database, Direct, Draw, Fault, Gateway, Network, Population,
    Scenario, Switching, Tls, Trouble, run,
};

use crate::worlds::{SECOND, open, retrying, shop, site};

/// Something of everything.
fn everything(seed: u64) -> Scenario {
    let browsers = Clients {
        name: "browsers".to_owned(),
        population: Population::Browsers {
            count: vec![(Duration::ZERO, 50), (SECOND * 5, 200), (SECOND * 12, 20)],
            site: site(ClassId(0), ClassId(1)),
            think: Draw::Exponential { mean: 1.0 },
        },
        behaviour: retrying(2),
    };
    let sessions = Clients {
        name: "sessions".to_owned(),
        population: Population::Sessions {
            arrivals: Arrivals::OnOff {
                on: Draw::Exponential { mean: 2.0 },
                off: Draw::Constant(1.0),
                per_s: 20.0,
                idle_per_s: 1.0,
            },
            site: site(ClassId(0), ClassId(1)),
            think: Draw::LogNormal { mean: 0.5, cv: 1.0 },
        },
        behaviour: retrying(3),
    };
    let mut scenario = shop(vec![open(60.0, retrying(1)), browsers, sessions], 16);
    scenario.seed = seed;
    scenario.host.speed = vec![Change { at: SECOND * 8, to: 0.7 }];
    let shop = &mut scenario.applications[0];
    shop.classes.push(Class {
        name: "inside".to_owned(),
        priority: 5,
        weight: 2,
        deadline: Some(SECOND),
        work: Draw::Pareto { shape: 1.3, min: 0.001, max: 0.5 },
        database: Some(Draw::Exponential { mean: 0.01 }),
        errors: 0.01,
        level: 1,
        ..Class::default()
    });
    shop.tls = Some(Tls {
        full: Duration::from_millis(5),
        resumed: Duration::from_millis(1),
        keep_alive: SECOND,
        requests_max: Some(10),
        new_share: 0.3,
    });
    shop.network = Network { latency: Draw::Exponential { mean: 0.01 }, lost: 0.01 };
    shop.server.threads = Some(20);
    shop.server.backlog = Some(50);
    shop.server.switching = Some(Switching {
        quantum: Duration::from_millis(10),
        switch: Duration::from_micros(50),
        refill: Duration::from_micros(500),
        warm: 8,
    });
    shop.server.database = Some(Database { connections: 4, processors: 2, switching: None });
    shop.server.collector = Some(Collector {
        heap: 1 << 20,
        live: 1 << 18,
        held: 1 << 12,
        garbage: 1 << 12,
        rate: 1 << 24,
        room_min: 1 << 14,
    });
    shop.server.faults = vec![Fault { at: SECOND * 3, lasts: SECOND / 2, what: Trouble::Stall }];
    scenario
}

fn gateway(scenario: &Scenario) -> Gateway {
    let mut gateway = Gateway::of(&scenario.applications[0]);
    gateway.set("shop/in_flight.algorithm", "fixed").unwrap();
    gateway.set("shop/default/queue.codel.enabled", "true").unwrap();
    gateway.set("shop/client.rate", "20/s").unwrap();
    gateway
}

#[test]
fn the_same_seed_is_the_same_run() {
    let one = everything(1);
    let (a, b) = (run(&one, &mut gateway(&one)), run(&one, &mut gateway(&one)));
    assert_eq!(a, b);
    let other = everything(2);
    assert_ne!(a.hash, run(&other, &mut gateway(&other)).hash);
    assert_ne!(a.hash, run(&one, &mut Direct).hash, "the front is in the trace");
    assert!(a.requests > 5_000, "only {} requests", a.requests);
}

/// Pinned: a change of these says that every figure of every experiment may have changed. If that was wanted, write
/// the new ones here and say so in the commit.
#[test]
fn a_seed_means_what_it_meant_in_the_last_commit() {
    let scenario = everything(1);
    let result = run(&scenario, &mut gateway(&scenario));
    assert_eq!((result.requests, result.hash), (5323, 16_020_125_944_838_225_404));
}

/// Arms of an experiment meet the same arrivals and the same work, whatever the front.
#[test]
fn fronts_meet_the_same_arrivals_and_the_same_work() {
    let scenario = shop(vec![open(100.0, tidegate_sim::Behaviour::default())], 20);
    let (direct, behind) =
        (run(&scenario, &mut Direct), run(&scenario, &mut crate::worlds::gateway(&scenario)));
    let offered = |result: &tidegate_sim::RunResult| -> Vec<u64> {
        result.series.iter().map(|row| row.total().offered).collect()
    };
    assert_eq!(offered(&direct), offered(&behind));
    let total = direct.total();
    assert!((total.work_s / 20.0 - 2.0).abs() < 0.1, "100 a second of 20 ms: {} s of work", total.work_s);
}
