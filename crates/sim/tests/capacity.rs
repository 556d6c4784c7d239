//! Limits and capacity found before the standard servers, by the very admission the gateway drives.

use std::time::Duration;

use tidegate_control::ClassId;
use tidegate_sim::{
    Application, Arrivals, Behaviour, Change, Class, Clients, Draw, Followed, Gateway, Host, Population, Row,
    RunResult, Scenario, Score, Server, StandardServer, run,
};

const SPAN: Duration = Duration::from_secs(40);

fn median<T>(runs: &[T], value: impl Fn(&T) -> f64) -> f64 {
    let mut values: Vec<f64> = runs.iter().map(value).collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Twice the capacity from a cold start, three seeds.
fn scores(server: &StandardServer, algorithm: &str) -> Vec<Score> {
    // What a mix gives, which turns over while it is learnt, spreads more from seed to seed.
    let seeds = if server.name.starts_with("mix") { 9 } else { 3 };
    (1..=seeds).map(|seed| server.score(algorithm, seed, 2.0, SPAN)).collect()
}

/// Goodput after ten seconds, how long a request is at the server, and how good the estimate is in the end.
#[test]
fn knee_track_keeps_every_server_at_its_peak() {
    let mut faults = Vec::new();
    for server in StandardServer::all() {
        let scores = scores(&server, "knee_track");
        let (goodput, p95) =
            (median(&scores, |score| score.goodput), median(&scores, |score| score.service_p95));
        let error = median(&scores, |score| score.error.unwrap_or(f64::INFINITY));
        let within = median(&scores, |score| score.within_10_s.unwrap_or(f64::INFINITY));
        println!("{:<8} {goodput:.3} {p95:.2} {error:.3} {within:.1}", server.name);
        // What a class costs is known after the mix has turned over a few times, not after one.
        let error_max = if server.name.starts_with("mix") { 0.35 } else { 0.06 };
        if goodput < 0.92 || p95 > 2.2 || error > error_max || within > 20.0 {
            faults.push(format!(
                "{}: goodput {goodput:.3}, p95 {p95:.2}, error {error:.3}, 10 % after {within:.1} s",
                server.name
            ));
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
}

/// Half the speed, and all of it again: medians of three runs, in seconds after the change.
#[test]
fn knee_track_follows_a_fall_and_a_rise() {
    let mut faults = Vec::new();
    for server in StandardServer::all() {
        let runs: Vec<_> = (1..=3).map(|seed| server.follow("knee_track", seed)).collect();
        for (change, name) in ["fall", "rise"].into_iter().enumerate() {
            let median = |value: fn(&Followed) -> Option<f64>| {
                median(&runs, |run| value(&run[change]).unwrap_or(f64::INFINITY))
            };
            let (estimate, goodput) = (median(|it| it.within_10_s), median(|it| it.goodput_s));
            println!("{:<8} {name}: within 10 % {estimate:.1}, goodput {goodput:.1}", server.name);
            if estimate > 12.0 || goodput > 4.0 {
                faults.push(format!("{}, {name}: {estimate:.1} and {goodput:.1} s", server.name));
            }
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
}

/// Where response times say little of the queue (I/O, processor sharing, two classes) a limit that goes by them lets the queue
/// grow or gives work away.
#[test]
fn knee_track_is_nearer_the_peak_than_gradient2() {
    for (name, less_goodput, longer) in
        [("ps4", 0.0, 5.0), ("cs4io", 0.1, 2.0), ("mix4", 0.0, 5.0), ("io1ln", 0.0, 3.0)]
    {
        let server = StandardServer::named(name).expect("there is one");
        let (knee, gradient) = (scores(&server, "knee_track"), scores(&server, "gradient2"));
        let goodput = |scores: &[Score]| median(scores, |score| score.goodput);
        let p95 = |scores: &[Score]| median(scores, |score| score.service_p95);
        let row = format!(
            "{name}: goodput {:.3} against {:.3}, p95 {:.2} against {:.2}",
            goodput(&knee),
            goodput(&gradient),
            p95(&knee),
            p95(&gradient)
        );
        println!("{row}");
        assert!(goodput(&knee) > goodput(&gradient) + less_goodput - 0.05, "{row}");
        assert!(p95(&knee) * longer < p95(&gradient), "{row}");
    }
}

/// A probe after the fall that has luck takes response times for half of what they are, and the limit for the knee of those: what
/// departs then grows with the limit still. In these two runs it had; the limit stayed there for half a minute.
#[test]
fn response_times_taken_too_short_are_found_out() {
    let server = StandardServer::named("cs4io").expect("it is a standard server");
    for seed in [1021, 1149] {
        let [fall, _] = server.follow("knee_track", seed);
        assert!(fall.goodput_s.is_some_and(|after| after < 10.0), "seed {seed}: {fall:?}");
    }
}

/// Twice what a server of so many requests a second can do, for so many seconds from a cold start: mean goodput and 95th percentile of so many
/// seeds.
fn slow_means(name: &str, per_s: f64, seconds: u64, seeds: u32) -> [f64; 2] {
    let server = StandardServer::named(name).expect("it is a standard server").at_capacity(per_s);
    let mut means = [0.0; 2];
    for seed in 1..=seeds {
        let score = server.score("knee_track", u64::from(seed), 2.0, Duration::from_secs(seconds));
        means[0] += score.goodput / f64::from(seeds);
        means[1] += score.service_p95 / f64::from(seeds);
    }
    means
}

/// Forty processors and 0.4 s a request: a first search that has eight departures to go by ends at a tenth of the limit at times, and
/// each look upwards from there is too short to be sure.
#[test]
fn a_search_that_ended_far_too_low_does_not_last() {
    let [goodput, _] = slow_means("ps40", 100.0, 150, 60);
    assert!(goodput > 0.95, "{goodput:.3}");
}

/// A mix that turns over while its costs are hardly known, a quarter of a second of waiting in each request: an alarm of a few departures makes
/// neither the response time nor the limit ten times what it is.
#[test]
fn changes_that_are_none_do_not_add_up_to_a_limit_without_end() {
    let [goodput, p95] = slow_means("mix4io", 100.0, 150, 60);
    assert!(goodput > 0.85 && p95 < 2.5, "{goodput:.3}, p95 {p95:.2}");
}

/// 0.4 s a request, and a collapse over 12 in flight: neither what a first search has found there, nor a look upwards, keeps the server in it.
/// What is lost besides has waited for over two seconds.
#[test]
fn a_collapse_that_was_seen_is_not_stayed_in() {
    let [goodput, p95] = slow_means("cs4", 10.0, 60, 200);
    assert!(goodput > 0.79 && p95 < 2.6, "{goodput:.3}, p95 {p95:.2}");
}

/// One worker, 150 ms a request, clients that give up after two seconds, eight times what it can do: at twenty
/// in flight, where other algorithms start, everybody's turn comes too late, for ever. A search from there
/// turns back. With work so uneven and so slow single seeds go from 0.2 to 1.1: the median counts.
#[test]
fn a_cold_search_that_serves_nobody_turns_back() {
    let slow = Slow { load: 8.0, workers: 1, work_s: 0.15, patience_s: 2.0, duration_s: 90 };
    assert!(slow.median_share("knee_track") > 0.75);
    assert!(slow.share("gradient2", 1) < 0.05, "the case is no longer the hard one");
}

/// Four workers, 300 ms a request, clients that give up after half a second, twice what it can do. At the limit of an up probe nobody's
/// turn comes in time, and the server works for those who have left: a probe that waited for replies would last for ever. Nor may a
/// limit stay at which nobody is served, whatever is known: in four of these runs one did.
#[test]
fn a_probe_that_serves_nobody_ends() {
    let slow = Slow { load: 2.0, workers: 4, work_s: 0.3, patience_s: 0.5, duration_s: 120 };
    let mut shares: Vec<f64> = (1..=100).map(|seed| slow.share("knee_track", seed)).collect();
    shares.sort_by(f64::total_cmp);
    assert!(shares[0] > 0.2 && shares[4] > 0.3, "the least: {:.3?}", &shares[..8]);
}

/// The top priority passes the limit. Where it asks for nearly all there is, a probe has its queue in flight, and is no sample
/// of the response time without one: the limit was 40 before one worker and 38 before four processors, and what may wait was
/// let in as often, before those who may not.
#[test]
fn the_queue_of_the_top_priority_does_not_raise_the_limit() {
    for (processors, threads, work_s) in [(1, Some(1), 0.01), (4, None, 0.04)] {
        let capacity = f64::from(processors) / work_s;
        let class = |name: &str, priority| Class {
            name: name.to_owned(),
            priority,
            work: Draw::Exponential { mean: work_s },
            ..Class::default()
        };
        let clients = |class, share: f64| Clients {
            name: format!("{class}"),
            population: Population::Open {
                arrivals: Arrivals::Poisson { per_s: share * capacity },
                mix: vec![(ClassId(class), 1.0)],
                clients: 1000,
            },
            behaviour: Behaviour { timeout: Some(Duration::from_secs(2)), retry: None },
        };
        let application = Application {
            classes: vec![class("others", 3), class("critical", 7)],
            server: Server { threads, ..Server::default() },
            clients: vec![clients(0, 1.5), clients(1, 0.95)],
            ..Application::default()
        };
        let runs: Vec<_> = (1..=9)
            .map(|seed| {
                let scenario = Scenario {
                    seed,
                    duration: Duration::from_secs(200),
                    host: Host { processors, ..Host::default() },
                    applications: vec![application.clone()],
                    ..Scenario::default()
                };
                run(&scenario, &mut Gateway::of(&application))
            })
            .collect();
        let limit = median(&runs, |run| {
            let limits: Vec<f64> = run.series[20..].iter().filter_map(|row| row.limit).collect();
            limits.iter().sum::<f64>() / limits.len() as f64
        });
        assert!(limit < 25.0, "{limit:.1} before {processors}");
    }
}

/// Where few ask, the queue of those who wait for half a second is empty now and then, and who has given up makes room while
/// the server works for him still: the limit seems to keep nobody waiting, and everybody's turn comes too late.
#[test]
fn servers_of_few_requests_a_second_are_learnt_from() {
    for (load, work_s, patience_s, bar) in [(1.3, 0.1, 2.0, 0.8), (1.5, 0.2, 2.0, 0.8), (1.5, 2.0, 10.0, 0.4)]
    {
        let slow = Slow { load, workers: 1, work_s, patience_s, duration_s: 600 };
        let share = slow.median_share("knee_track");
        assert!(share > bar, "{share:.3} of {:.1} a second", 1.0 / work_s);
    }
}

/// Slow workers, and clients that give up.
struct Slow {
    /// Of their capacity.
    load: f64,
    workers: u16,
    /// Mean work of a request.
    work_s: f64,
    patience_s: f64,
    duration_s: u64,
}

impl Slow {
    fn median_share(&self, algorithm: &str) -> f64 {
        let mut shares: Vec<f64> = (1..=9).map(|seed| self.share(algorithm, seed)).collect();
        shares.sort_by(f64::total_cmp);
        println!("{shares:.3?}");
        shares[4]
    }

    /// Requests a second.
    fn capacity(&self) -> f64 {
        f64::from(self.workers) / self.work_s
    }

    /// Goodput after twenty seconds as a share of capacity.
    fn share(&self, algorithm: &str, seed: u64) -> f64 {
        let patience = Duration::from_secs_f64(self.patience_s);
        let clients = Clients {
            name: "everybody".to_owned(),
            population: Population::Open {
                arrivals: Arrivals::Poisson { per_s: self.load * self.capacity() },
                mix: vec![(ClassId(0), 1.0)],
                clients: 1000,
            },
            behaviour: Behaviour { timeout: Some(patience), retry: None },
        };
        let scenario = Scenario {
            seed,
            duration: Duration::from_secs(self.duration_s),
            warm_up: Duration::from_secs(20),
            host: Host { processors: self.workers, ..Host::default() },
            applications: vec![Application {
                classes: vec![Class {
                    work: Draw::Exponential { mean: self.work_s },
                    good_within: patience,
                    ..Class::default()
                }],
                server: Server { threads: Some(self.workers.into()), ..Server::default() },
                clients: vec![clients],
                ..Application::default()
            }],
            ..Scenario::default()
        };
        let mut gateway = Gateway::of(&scenario.applications[0]);
        gateway.set("shop/in_flight.algorithm", algorithm).expect("there is such an algorithm");
        run(&scenario, &mut gateway).goodput() / self.capacity()
    }
}

/// Where a search had luck, requests take long because of the limit. What waits for times of that length then, which a load of few
/// requests a second does not last without a break, never finds it out: it was ten seconds in flight for as long as the load lasted.
#[test]
fn a_limit_far_too_high_does_not_keep_itself_from_being_found_out() {
    let works = [Draw::Exponential { mean: 0.005 }, Draw::Exponential { mean: 0.5 }];
    let runs = runs_of_ten_minutes(4, Some(4), &works, 1.5);
    let stays = runs.iter().map(|run| run.total().service.quantile(0.95).expect("some were served"));
    let worst = stays.max().expect("there are five");
    assert!(worst < Duration::from_secs(5), "{worst:?}");
}

/// Under a limit far too high a load of few requests a second breaks off before a limit's worth has departed. Where each break began the
/// settling anew, 18 of 40 such searches did not end within ten minutes.
#[test]
fn a_search_ends_although_the_load_has_breaks() {
    let runs = runs_of_ten_minutes(1, Some(1), &[Draw::LogNormal { mean: 0.125, cv: 2.0 }], 1.1);
    let found_s = median(&runs, found_s);
    assert!(found_s < 300.0, "{found_s}");
}

/// Where half of a limit has not departed in 0.4 s, a search goes up without waiting for it. From there it looks at half, too: before
/// one worker each step upwards takes twice as long as the one before, and what it finds there it had found below.
#[test]
fn a_search_looks_below_also_where_requests_are_slow() {
    let runs = runs_of_ten_minutes(1, Some(1), &[Draw::LogNormal { mean: 0.5, cv: 2.0 }], 2.0);
    let found_s = median(&runs, found_s);
    assert!(found_s < 100.0, "{found_s}");
}

/// Where they are slow since many are served side by side, half of the limit would be half of the goodput.
#[test]
fn a_search_does_not_look_below_before_many_slow_workers() {
    let runs = runs_of_ten_minutes(40, Some(40), &[Draw::Exponential { mean: 2.0 }], 1.5);
    let lowest = median(&runs, |run| {
        let first = run.series.iter().filter(|row| (2..20).contains(&row.at.as_secs()));
        first.map(|row| row.limit.unwrap_or(f64::INFINITY)).fold(f64::INFINITY, f64::min)
    });
    assert_eq!(lowest, 20.0, "where limits are passed by without waiting up to");
}

/// When a capacity was known.
fn found_s(run: &RunResult) -> f64 {
    run.series.iter().find(|row| row.capacity.is_some()).map_or(f64::INFINITY, |row| row.at.as_secs_f64())
}

/// Ten minutes before a server of few requests a second, of which each work is asked for as often: of five seeds.
fn runs_of_ten_minutes(processors: u16, threads: Option<u32>, works: &[Draw], load: f64) -> Vec<RunResult> {
    let mean = works.iter().map(Draw::mean).sum::<f64>() / works.len() as f64;
    let per_s = load * f64::from(processors) / mean;
    let classes = works.iter().enumerate();
    let application = Application {
        classes: classes
            .map(|(index, work)| Class { name: format!("c{index}"), work: work.clone(), ..Class::default() })
            .collect(),
        server: Server { threads, ..Server::default() },
        clients: vec![Clients {
            name: "everybody".to_owned(),
            population: Population::Open {
                arrivals: Arrivals::Poisson { per_s },
                mix: (0..).map(ClassId).zip(works.iter().map(|_| 1.0)).collect(),
                clients: 1000,
            },
            behaviour: Behaviour { timeout: Some(Duration::from_secs(10)), retry: None },
        }],
        ..Application::default()
    };
    (1..=5)
        .map(|seed| {
            let scenario = Scenario {
                seed,
                duration: Duration::from_secs(600),
                warm_up: Duration::from_secs(20),
                host: Host { processors, ..Host::default() },
                applications: vec![application.clone()],
                ..Scenario::default()
            };
            run(&scenario, &mut Gateway::of(&application))
        })
        .collect()
}

/// A limit that is as high as it may be is not looked above: what chance shows there began a search every half minute.
#[test]
fn a_limit_at_its_highest_is_steady() {
    let clients = Clients {
        name: "everybody".to_owned(),
        population: Population::Open {
            arrivals: Arrivals::Poisson { per_s: 600.0 },
            mix: vec![(ClassId(0), 1.0)],
            clients: 1000,
        },
        behaviour: Behaviour::default(),
    };
    let scenario = Scenario {
        duration: Duration::from_secs(300),
        host: Host { processors: 40, ..Host::default() },
        applications: vec![Application {
            classes: vec![Class { work: Draw::Exponential { mean: 0.1 }, ..Class::default() }],
            server: Server { threads: Some(40), ..Server::default() },
            clients: vec![clients],
            ..Application::default()
        }],
        ..Scenario::default()
    };
    let mut gateway = Gateway::of(&scenario.applications[0]);
    gateway.set("shop/in_flight.max", "20").expect("there is such a knob");
    let result = run(&scenario, &mut gateway);
    let changes = result.series.last().expect("there are rows").changes;
    assert!(changes <= 3, "{changes} changes of a server that does not change");
    assert!(result.goodput() > 190.0, "{} of 200 a second", result.goodput());
}

/// 32 workers of 50 ms, and sixty requests in a hundredth of a second every two: each burst ends before the search has
/// counted enough at one limit, and none of them would be refused were the limit known.
#[test]
fn a_load_that_comes_in_short_bursts_is_learnt_from() {
    let (goodput, _) = at_once(60.0, 2.0, 32, 0.05);
    assert!((goodput - 30.0).abs() < 0.1, "{goodput} of 30 a second");
}

/// 64 workers of a second, and sixty requests at once every three: who waits has been refused before the first departs.
#[test]
fn bursts_of_requests_that_take_longer_than_anybody_waits_are_learnt_from() {
    let (goodput, _) = at_once(60.0, 3.0, 64, 1.0);
    assert!((goodput - 20.0).abs() < 0.1, "{goodput} of 20 a second");
}

/// Where twice the limit only makes them take longer, the limit goes back, but for one burst in eleven: also where the burst does
/// not fill the new one.
#[test]
fn a_limit_that_only_makes_bursts_take_longer_is_gone_back_from() {
    for (requests, gap_s, workers, work_s) in [(60.0, 6.0, 8, 1.0), (30.0, 12.0, 1, 0.3)] {
        let (_, limits) = at_once(requests, gap_s, workers, work_s);
        let above = limits.iter().filter(|limit| **limit > 16.0).count();
        assert!((1..=4).contains(&above), "{limits:?}");
    }
}

/// Sixty requests in a hundredth of a second every `gap_s` before workers that take `work_s` seconds each: goodput a second
/// of the later of eighty bursts, and the limit after each burst of them.
fn at_once(requests: f64, gap_s: f64, workers: u16, work_s: f64) -> (f64, Vec<f64>) {
    let span = |bursts: f64| Duration::from_secs_f64(bursts * gap_s);
    let burst = Duration::from_millis(10);
    let clients = Clients {
        name: "everybody".to_owned(),
        population: Population::Open {
            arrivals: Arrivals::Schedule {
                phases: vec![(burst, requests / burst.as_secs_f64()), (span(1.0) - burst, 0.0)],
                repeat: true,
                poisson: false,
            },
            mix: vec![(ClassId(0), 1.0)],
            clients: 60,
        },
        behaviour: Behaviour { timeout: None, retry: None },
    };
    let scenario = Scenario {
        duration: span(80.0),
        warm_up: span(40.0),
        tick: span(1.0),
        host: Host { processors: workers, ..Host::default() },
        applications: vec![Application {
            classes: vec![Class {
                work: Draw::Constant(work_s),
                good_within: Duration::from_secs(2),
                ..Class::default()
            }],
            server: Server { threads: Some(workers.into()), ..Server::default() },
            clients: vec![clients],
            ..Application::default()
        }],
        ..Scenario::default()
    };
    let mut gateway = Gateway::of(&scenario.applications[0]);
    gateway.set("shop/in_flight.algorithm", "knee_track").expect("there is such an algorithm");
    let result = run(&scenario, &mut gateway);
    let limits = result.series.iter().map(|row| row.limit.expect("there is a limit"));
    (result.goodput(), limits.skip(40).collect())
}

/// How many requests keep a server busy does not go by their weight: with few heavy ones among light ones, and where all are as
/// heavy, it gets as much done as without weights.
#[test]
fn weights_do_not_keep_the_server_from_being_full() {
    for (heavy_part, weights) in [(1.0 / 21.0, [1, 20]), (0.0, [20, 20]), (1.0 / 21.0, [1, 1])] {
        let mut shares: Vec<f64> = (1..=5).map(|seed| share_of_work(heavy_part, weights, seed)).collect();
        shares.sort_by(f64::total_cmp);
        println!("{heavy_part:.2} of weight {weights:?}: {shares:.3?}");
        assert!(shares[2] > 0.95, "{heavy_part:.2} of weight {weights:?}: {shares:.3?}");
    }
}

/// Work done within two seconds, of what four workers can do, at 1.5 times that: light requests of 10 ms and heavy ones of 200.
fn share_of_work(heavy_part: f64, weights: [u32; 2], seed: u64) -> f64 {
    let work_s = [0.01, 0.2];
    let parts = [1.0 - heavy_part, heavy_part];
    let mean_s: f64 = parts.iter().zip(work_s).map(|(part, work_s)| part * work_s).sum();
    let class = |index: usize| Class {
        name: ["light", "heavy"][index].to_owned(),
        weight: weights[index],
        work: Draw::Exponential { mean: work_s[index] },
        good_within: Duration::from_secs(2),
        ..Class::default()
    };
    let clients = Clients {
        name: "everybody".to_owned(),
        population: Population::Open {
            arrivals: Arrivals::Poisson { per_s: 1.5 * 4.0 / mean_s },
            mix: (0..).map(ClassId).zip(parts).collect(),
            clients: 1000,
        },
        behaviour: Behaviour { timeout: Some(Duration::from_secs(2)), retry: None },
    };
    let scenario = Scenario {
        seed,
        duration: Duration::from_secs(60),
        warm_up: Duration::from_secs(20),
        host: Host { processors: 4, ..Host::default() },
        applications: vec![Application {
            classes: vec![class(0), class(1)],
            server: Server { threads: Some(4), ..Server::default() },
            clients: vec![clients],
            ..Application::default()
        }],
        ..Scenario::default()
    };
    let mut gateway = Gateway::of(&scenario.applications[0]);
    gateway.set("shop/in_flight.algorithm", "knee_track").expect("there is such an algorithm");
    let result = run(&scenario, &mut gateway);
    let done: f64 =
        result.classes.iter().zip(work_s).map(|(counts, work_s)| counts.good as f64 * work_s).sum();
    done / (4.0 * result.measured.as_secs_f64())
}

/// A server that collapses over twelve in flight, of 100 requests a second once it has become twice as fast, behind a waiting
/// room: neither does the room starve the search, which believes too little then, nor does the limit grow with the estimate
/// into the collapse.
#[test]
fn a_rise_is_found_behind_a_waiting_room() {
    let speed = [(Duration::from_millis(1), 0.5), (Duration::from_secs(30), 1.0)];
    let goodput = goodput_behind_a_room("cs4", 100.0, &speed, 40..90);
    assert!(goodput > 0.95, "{goodput:.3}");
}

/// Goodput of these seconds behind a waiting room at 1.3 times the capacity, as a share of capacity; mean of nine seeds.
fn goodput_behind_a_room(
    name: &str,
    per_s: f64,
    speed: &[(Duration, f64)],
    seconds: std::ops::Range<u16>,
) -> f64 {
    let server = StandardServer::named(name).expect("there is one").at_capacity(per_s);
    let duration = Duration::from_secs(seconds.end.into());
    let shares: Vec<f64> = (1..=9)
        .map(|seed| {
            let clients = Clients {
                name: "everybody".to_owned(),
                population: Population::Open {
                    arrivals: Arrivals::Poisson { per_s: 1.3 * per_s },
                    mix: vec![(ClassId(0), 1.0)],
                    clients: 1000,
                },
                behaviour: Behaviour { timeout: Some(Duration::from_secs(30)), retry: None },
            };
            let scenario = Scenario {
                seed,
                duration,
                warm_up: Duration::ZERO,
                host: Host {
                    processors: server.processors(),
                    speed: speed.iter().map(|(at, to)| Change { at: *at, to: *to }).collect(),
                    ..Host::default()
                },
                applications: vec![Application {
                    classes: vec![Class {
                        good_within: Duration::from_secs(3600),
                        ..server.classes()[0].clone()
                    }],
                    server: server.server(duration),
                    clients: vec![clients],
                    ..Application::default()
                }],
                ..Scenario::default()
            };
            let mut gateway = Gateway::of(&scenario.applications[0]);
            for (knob, value) in [
                ("in_flight.algorithm", "knee_track"),
                ("waiting_room.method", "fifo"),
                ("waiting_room.session.pass", "false"),
            ] {
                gateway.set(&format!("shop/{knob}"), value).expect("there is such a knob");
            }
            let result = run(&scenario, &mut gateway);
            let rows = &result.series[seconds.start.into()..seconds.end.into()];
            rows.iter().map(Row::goodput).sum::<f64>() / f64::from(seconds.end - seconds.start) / per_s
        })
        .collect();
    shares.iter().sum::<f64>() / 9.0
}
