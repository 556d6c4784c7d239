//! What must come of the models by itself: collapse, storms, thrashing, and that the gateway holds against them.

use std::time::Duration;

use tidegate_control::{
    ClassId, Timestamp,
    archive::{Stat, Window},
    controller::{Host as ControllerHost, Measure, Periodic, Turn},
    knobs::Value,
    meters::Meter,
};
use tidegate_sim::{
    Arrivals, Behaviour, Class, Clients, Collector, Counts, Database, Direct, Draw, Front, Gateway, Host,
    Population, ProcessorManager, RunResult, START, Scenario, Server, ServerView, Sharing, Switching, Tls,
    run, run_all,
};

use crate::worlds::{SECOND, gateway, open, patience, retrying, shop, site};

/// Good replies a second in the seconds `from..to`.
fn goodput(result: &RunResult, from: u64, to: u64) -> f64 {
    let rows = result.series.iter().filter(|row| (from + 1..=to).contains(&row.at.as_secs()));
    rows.map(tidegate_sim::Row::goodput).sum::<f64>() / (to - from) as f64
}

/// Twice the capacity, and clients that wait two seconds: without control nobody is served in time, since the server
/// works for those who have left.
#[test]
fn overload_collapses_without_control_and_not_behind_the_gateway() {
    let scenario = shop(vec![open(400.0, patience(2))], 40);
    let without = run(&scenario, &mut Direct);
    assert!(goodput(&without, 20, 40) < 10.0, "{}", goodput(&without, 20, 40));
    let total = without.total();
    assert!(total.wasted_s > 0.7 * total.work_s, "{} of {} s wasted", total.wasted_s, total.work_s);
    let with = run(&scenario, &mut gateway(&scenario));
    assert!(goodput(&with, 20, 40) > 0.9 * 200.0, "{}", goodput(&with, 20, 40));
    assert!(with.total().wasted_s < 0.05 * with.total().work_s);
    assert!(with.jain_fairness().unwrap() > 0.8);
}

/// Every attempt ends in one way.
#[test]
fn attempts_are_conserved() {
    for timeout in [1, 30] {
        let mut scenario = shop(vec![open(300.0, retrying(timeout))], 20);
        scenario.applications[0].classes[0].errors = 0.05;
        scenario.applications[0].server.backlog = Some(100);
        let crowd = Arrivals::Schedule { phases: vec![(SECOND * 10, 300.0)], repeat: false, poisson: true };
        let Population::Open { arrivals, .. } = &mut scenario.applications[0].clients[0].population else {
            unreachable!("it is open")
        };
        *arrivals = crowd;
        scenario.duration = SECOND * 200;
        let mut behind = gateway(&scenario);
        for front in [&mut Direct as &mut dyn Front, &mut behind] {
            let Counts { arrived, replied, errors, refused, timed_out, started, service, .. } =
                run(&scenario, front).total();
            let refused: u64 = refused.values().sum();
            // Errors for clients that had left are counted with those.
            let ended = replied + refused + timed_out;
            assert!(
                ended <= arrived && arrived <= ended + errors,
                "{arrived} arrived, {ended} and {errors} ended"
            );
            assert_eq!(service.count(), started, "what starts ends");
        }
        let levels = behind.levels();
        assert_eq!((levels.in_flight, levels.queued), (0, 0), "every permit came back");
        behind.admission().check_invariants();
    }
}

/// Four times the capacity for ten seconds, then half of it: retries keep the server down without control.
#[test]
fn a_retry_storm_outlasts_its_cause_without_control() {
    let mut scenario = shop(vec![open(1.0, retrying(1))], 60);
    let Population::Open { arrivals, .. } = &mut scenario.applications[0].clients[0].population else {
        unreachable!("it is open")
    };
    *arrivals = Arrivals::Schedule {
        phases: vec![(SECOND * 10, 800.0), (SECOND * 50, 100.0)],
        repeat: false,
        poisson: true,
    };
    let settled = |result: &RunResult| {
        result.settled(SECOND * 10, SECOND * 5, &(80.0..=f64::MAX), tidegate_sim::Row::goodput)
    };
    // A second in forty has fewer than 80 arrivals by chance, and begins the five anew.
    let mut settled_behind_gateway = Vec::new();
    for seed in 1..10 {
        scenario.seed = seed;
        let slow = settled(&run(&scenario, &mut Direct));
        assert!(slow.is_none_or(|time| time > SECOND * 20), "seed {seed}: {slow:?}");
        settled_behind_gateway
            .push(settled(&run(&scenario, &mut gateway(&scenario))).unwrap_or(Duration::MAX));
    }
    settled_behind_gateway.sort();
    // The storm's last try begins three pauses and three patiences of 1 s after its end: 0.5 + 1 + 2 + 3 s.
    let median = settled_behind_gateway[4];
    assert!(median <= Duration::from_millis(6500), "{settled_behind_gateway:?}");
}

/// More threads than processors, each with a working set: past the knee throughput falls although nobody leaves.
#[test]
fn switching_makes_throughput_fall_past_the_knee() {
    let throughput = |threads: u32| {
        let mut scenario = shop(vec![open(600.0, Behaviour::default())], 10);
        scenario.applications[0].server = Server {
            threads: Some(threads),
            switching: Some(Switching {
                quantum: Duration::from_millis(5),
                switch: Duration::from_micros(20),
                refill: Duration::from_millis(5),
                warm: 16,
            }),
            ..Server::default()
        };
        run(&scenario, &mut Direct).total().replied as f64 / 10.0
    };
    let (knee, past, far) = (throughput(4), throughput(40), throughput(400));
    assert!(knee > 190.0 && past < 0.75 * knee && far < 0.6 * knee, "{knee} {past} {far}");
}

/// Memory held by requests in progress leaves no room for garbage: the more there are, the more it collects.
#[test]
fn collections_make_throughput_fall_with_requests_in_progress() {
    let throughput = |threads: Option<u32>| {
        let mut scenario = shop(vec![open(300.0, Behaviour::default())], 10);
        scenario.applications[0].server = Server {
            threads,
            collector: Some(Collector {
                heap: 256 << 20,
                live: 32 << 20,
                held: 512 << 10,
                garbage: 1 << 20,
                rate: 4 << 30,
                room_min: 1 << 20,
            }),
            backlog: Some(0),
            ..Server::default()
        };
        run(&scenario, &mut Direct).total().replied as f64 / 10.0
    };
    let (few, many) = (throughput(Some(8)), throughput(None));
    assert!(few > 170.0 && many < 0.4 * few, "{few} {many}");
}

/// Full handshakes cost more than the requests: clients that give up in them begin them anew.
#[test]
fn repeated_handshakes_make_sessions_collapse() {
    let scenario = |per_s: f64| {
        let class = |name: &str| Class {
            name: name.to_owned(),
            work: Draw::Exponential { mean: 0.004 },
            ..Class::default()
        };
        let mut scenario = shop(
            vec![Clients {
                name: "visitors".to_owned(),
                population: Population::Sessions {
                    arrivals: Arrivals::Poisson { per_s },
                    site: site(ClassId(0), ClassId(1)),
                    think: Draw::Exponential { mean: 1.0 },
                },
                behaviour: retrying(2),
            }],
            60,
        );
        let shop = &mut scenario.applications[0];
        shop.classes = vec![class("home"), class("inside")];
        shop.server.threads = None;
        shop.tls = Some(Tls {
            full: Duration::from_millis(175),
            resumed: Duration::from_millis(2),
            keep_alive: SECOND * 10,
            requests_max: None,
            new_share: 1.0,
        });
        scenario
    };
    let fits = run(&scenario(12.0), &mut Direct);
    let over = run(&scenario(40.0), &mut Direct);
    assert!(fits.sessions.completed > fits.sessions.begun * 8 / 10, "{:?}", fits.sessions);
    // 4 processors make 22 handshakes a second; three times as many are wanted as sessions come.
    assert!(over.sessions.completed < fits.sessions.completed / 4, "{:?}", over.sessions);
    assert!(over.total().wasted_s > 0.5 * over.total().work_s);
}

/// The second tier is the bottleneck: so many connections by so many milliseconds.
#[test]
fn a_database_bounds_what_threads_can_do() {
    let mut scenario = shop(vec![open(400.0, Behaviour::default())], 20);
    let shop = &mut scenario.applications[0];
    shop.server = Server {
        threads: Some(100),
        database: Some(Database { connections: 5, processors: 5, switching: None }),
        ..Server::default()
    };
    shop.classes[0].work = Draw::Constant(0.002);
    shop.classes[0].database = Some(Draw::Exponential { mean: 0.05 });
    let result = run(&scenario, &mut Direct);
    let rate = result.total().replied as f64 / 20.0;
    assert!((95.0..105.0).contains(&rate), "{rate}");
    assert_eq!(result.series[10].threads_busy, 100);
}

/// Browsers refused at home load nothing more; those inside go on.
#[test]
fn a_refusal_at_the_entry_spares_the_pages_behind_it() {
    let class = |name: &str| Class { name: name.to_owned(), ..Class::default() };
    let mut scenario = shop(
        vec![Clients {
            name: "browsers".to_owned(),
            population: Population::Browsers {
                count: vec![(Duration::ZERO, 300), (SECOND * 20, 100)],
                site: site(ClassId(0), ClassId(1)),
                think: Draw::Exponential { mean: 1.0 },
            },
            behaviour: Behaviour::default(),
        }],
        40,
    );
    scenario.applications[0].classes = vec![class("home"), class("inside")];
    let whole = run(&scenario, &mut gateway(&scenario));
    let mut limited = gateway(&scenario);
    limited.set("shop/home/ingress.rate", "5/s").unwrap();
    let limited = run(&scenario, &mut limited);
    assert!(limited.classes[0].refused["ingress_rate"] > 1000);
    assert!(limited.classes[1].offered < whole.classes[1].offered / 2);
    assert!(limited.sessions.turned_away > 20 * limited.sessions.broken, "{:?}", limited.sessions);
    // Each browser asks about once a second; then two of three have gone.
    let (first, then) = (goodput(&whole, 10, 20), goodput(&whole, 30, 40));
    assert!((2.0..4.0).contains(&(first / then)), "{first} {then}");
}

/// The gateway's meters say what the run says.
#[test]
fn meters_agree_with_results() {
    let scenario = shop(vec![open(300.0, patience(2))], 30);
    let mut front = gateway(&scenario);
    let result = run(&scenario, &mut front);
    let total = result.total();
    let archive = front.archives().get("shop/default").unwrap();
    let window = Window { from: START, to: START + SECOND * 30, of: None };
    let read = |meter, stat| archive.value(meter, window, stat).unwrap().unwrap();
    assert_eq!(read(Meter::ARRIVED, Stat::Count) as u64, total.arrived);
    assert_eq!(read(Meter::STARTED, Stat::Count) as u64, total.started);
    assert_eq!(read(Meter::GOOD, Stat::Count) as u64, total.good);
    assert_eq!(read(Meter::REFUSED, Stat::Count) as u64, total.refused_total());
    let mean = total.response.mean().unwrap().as_secs_f64();
    assert!((read(Meter::RESPONSE_TIME, Stat::Mean) / mean - 1.0).abs() < 0.01);
}

/// A refusal is a response, as in the gateway; and an exchange counts how long it took also when its client has left.
#[test]
fn meters_count_what_the_gateway_counts() {
    let read = |front: &Gateway, meter, stat| {
        let measure = Measure { scope: "shop/default", meter, window: SECOND * 30, stat, of: None };
        ControllerHost::measure(front, &measure).unwrap().unwrap_or(0.0) as u64
    };
    let scenario = shop(vec![open(300.0, patience(2))], 30);
    let mut front = gateway(&scenario);
    front.set("shop/ingress.rate", "250/s").unwrap();
    let total = run(&scenario, &mut front).total();
    let (by_rate, all) = (total.refused["ingress_rate"], total.refused_total());
    assert!(by_rate > 1000 && all > by_rate + 1000, "{:?}", total.refused);
    assert_eq!(read(&front, "responses.4xx", Stat::Sum), by_rate);
    assert_eq!(read(&front, "responses.5xx", Stat::Sum), all - by_rate);
    assert_eq!(read(&front, "responses.2xx", Stat::Sum), read(&front, "response_time", Stat::Count));

    let impatient = Behaviour { timeout: Some(Duration::from_millis(1)), ..patience(2) };
    let scenario = shop(vec![open(20.0, impatient)], 30);
    let mut front = gateway(&scenario);
    let total = run(&scenario, &mut front).total();
    assert!(total.timed_out > 10 * total.replied, "{} left, {} did not", total.timed_out, total.replied);
    assert!(read(&front, "service_time", Stat::Count) > 4 * total.replied);
}

/// A law that runs in virtual time, sees the meters and turns a knob.
#[test]
fn a_control_law_sees_meters_and_sets_knobs() {
    let scenario = shop(vec![open(400.0, patience(2))], 30);
    let law = Periodic::new("half", SECOND * 5, |turn: &mut Turn<'_>| {
        let arrived = turn.measure("shop/default", "arrived", SECOND * 5, Stat::Mean)?.unwrap_or(0.0);
        turn.set("shop/default/ingress.rate", Value::Rate(arrived / 4.0), None)?;
        Ok(())
    });
    let mut front = gateway(&scenario).with_controller(Box::new(law));
    let result = run(&scenario, &mut front);
    assert!(result.total().refused["ingress_rate"] > 6_000, "{:?}", result.total().refused);
    let after = goodput(&result, 15, 30);
    assert!((90.0..110.0).contains(&after), "a quarter of 400 a second: {after}");
}

/// What contradicts another knob a gateway refuses, and so nothing of such a turn is set here.
#[test]
fn a_control_law_is_refused_what_a_gateway_refuses() {
    let scenario = shop(vec![open(40.0, patience(2))], 3);
    let law = Periodic::new("wrong", SECOND, |turn: &mut Turn<'_>| {
        turn.set("shop/default/ingress.rate", Value::Rate(1.0), None)?;
        turn.set("shop/in_flight.max", Value::Count(8), None)?;
        turn.set("shop/in_flight.min", Value::Count(9), None)?;
        Ok(())
    });
    let mut front = gateway(&scenario).with_controller(Box::new(law));
    let _ = run(&scenario, &mut front);
    let said = front.said().iter().map(|line| line.text.as_str()).collect::<Vec<_>>();
    assert!(
        said[0].contains("shop/in_flight.min: 9 is more than in_flight.max, which is 8: lower"),
        "{said:?}"
    );
    for path in ["shop/default/ingress.rate", "shop/in_flight.max", "shop/in_flight.min"] {
        let (knob, value) = front.knob(path).unwrap();
        assert_eq!(value, knob.default(), "{path}");
    }
    // Both at once, in whatever order, whatever lies between.
    front.set_all(&[("shop/in_flight.min", "5000"), ("shop/in_flight.max", "6000")]).unwrap();
    assert!(front.set("shop/in_flight.max", "4999").is_err());
}

/// Two applications on four processors, and a manager that gives the second one three after a while.
#[test]
fn a_manager_moves_processors_between_applications() {
    struct Later;
    impl ProcessorManager for Later {
        fn interval(&self) -> Duration {
            SECOND * 10
        }
        fn assign(&mut self, now: Timestamp, applications: &[ServerView]) -> Vec<Vec<u16>> {
            assert!(now >= START + SECOND * 10 && applications.iter().all(|view| view.utilisation() > 0.95));
            vec![vec![0], vec![1, 2, 3]]
        }
    }
    let one = shop(vec![open(400.0, patience(2))], 20);
    let mut application = one.applications[0].clone();
    application.server = Server { processors: Some(vec![0, 1]), ..Server::default() };
    let mut other = application.clone();
    other.name = "other".to_owned();
    other.server.processors = Some(vec![2, 3]);
    let scenario = Scenario {
        host: Host { processors: 4, sharing: Sharing::Threads, ..Host::default() },
        applications: vec![application, other],
        ..one
    };
    let (mut first, mut second) = (Direct, Direct);
    let results = run_all(&scenario, vec![&mut first, &mut second], Some(&mut Later));
    let busy = |number: usize, at: usize| results[number].series[at].busy;
    assert!((busy(0, 5) - 2.0).abs() < 1e-6 && (busy(1, 5) - 2.0).abs() < 1e-6);
    assert!((busy(0, 15) - 1.0).abs() < 1e-6 && (busy(1, 15) - 3.0).abs() < 1e-6);
}
