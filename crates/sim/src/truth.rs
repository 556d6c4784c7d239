//! The simulator beside queueing theory: the same queues by formula and by simulation.
//!
//! Some queues are the server's own; those marked "gateway" queue in Tidegate's admission before a server that takes
//! one request a worker, so that theory judges admission as well.

use std::time::Duration;

use tidegate_control::ClassId;

use crate::{
    Application, Arrivals, Behaviour, Class, Clients, Direct, Draw, Front, Gateway, Host, Population,
    Scenario, Server, run, theory,
};

/// Mean service time of the paper's figures.
const SERVICE_S: f64 = 0.4;

/// A queue at one load, by theory and by simulation.
#[derive(Clone, Debug, PartialEq)]
pub struct Truth {
    /// Which queue; of two classes, which.
    pub queue: &'static str,
    /// Load: work that arrives over work that can be done.
    pub load: f64,
    /// Mean response time by theory, seconds.
    pub theory_s: f64,
    /// Mean response time over all runs, seconds.
    pub simulated_s: f64,
}

impl Truth {
    /// Deviation of the simulation from theory, as a share.
    #[must_use]
    pub fn error(&self) -> f64 {
        (self.simulated_s / self.theory_s - 1.0).abs()
    }
}

/// Runs every queue at every load, `runs` times from `seed` on. At load one half a run is of so many `requests` (of the
/// rarer class), at other loads of as many as give the same precision: `requests · (0.5 / (1 - load))²`.
///
/// The mean over 200,000 requests in all runs together then has a standard error of 0.6 % (M/M/1), and each queue and
/// load costs a tenth of a second in a release build, 25 times that at load 0.9.
#[must_use]
pub fn queueing_truth(loads: &[f64], seed: u64, runs: u32, requests: u32) -> Vec<Truth> {
    let mut truths = Vec::new();
    for &load in loads {
        for queue in QUEUES {
            truths.extend(queue.truth(load, seed, runs, requests));
        }
    }
    truths
}

/// A queue: what it is called by class, how it is built, what theory says.
struct Queue {
    names: &'static [&'static str],
    scenario: fn(f64) -> Scenario,
    /// Behind admission: its fixed limit.
    limit: Option<u32>,
    theory: fn(f64) -> [f64; 2],
}

const QUEUES: &[Queue] = &[
    Queue { names: &["M/M/1"], scenario: |load| one(load, exponential(), 1), limit: None, theory: mm1 },
    Queue {
        names: &["M/M/1, gateway"],
        scenario: |load| one(load, exponential(), 1),
        limit: Some(1),
        theory: mm1,
    },
    Queue { names: &["M/M/4"], scenario: |load| one(load, exponential(), 4), limit: None, theory: mm4 },
    Queue {
        names: &["M/M/4, gateway"],
        scenario: |load| one(load, exponential(), 4),
        limit: Some(4),
        theory: mm4,
    },
    Queue {
        names: &["M/D/1"],
        scenario: |load| one(load, Draw::Constant(SERVICE_S), 1),
        limit: None,
        theory: |load| [theory::md1(load / SERVICE_S, SERVICE_S), 0.0],
    },
    Queue { names: &["M/M/1-PS"], scenario: |load| sharing(load, exponential()), limit: None, theory: mm1 },
    Queue {
        names: &["M/G/1-PS, lognormal"],
        scenario: |load| sharing(load, lognormal()),
        limit: None,
        theory: mm1,
    },
    Queue {
        names: &["M/G/1, lognormal"],
        scenario: |load| one(load, lognormal(), 1),
        limit: None,
        theory: |load| [theory::mg1(load / SERVICE_S, SERVICE_S, lognormal().second_moment()), 0.0],
    },
    Queue {
        names: &["preemptive, critical", "preemptive, regular"],
        scenario: |load| two(load, true),
        limit: None,
        theory: |load| theory::preemptive(CRITICAL_PER_S, regular_per_s(load), SERVICE_S),
    },
    Queue {
        names: &["non-preemptive, gateway, critical", "non-preemptive, gateway, regular"],
        scenario: |load| two(load, false),
        limit: Some(1),
        theory: |load| theory::non_preemptive(CRITICAL_PER_S, regular_per_s(load), SERVICE_S),
    },
];

/// Critical requests of fig. 4: a fifth of the capacity.
const CRITICAL_PER_S: f64 = 0.5;

fn regular_per_s(load: f64) -> f64 {
    (load / SERVICE_S - CRITICAL_PER_S).max(0.0)
}

fn mm1(load: f64) -> [f64; 2] {
    [theory::mm1(load / SERVICE_S, SERVICE_S), 0.0]
}

fn mm4(load: f64) -> [f64; 2] {
    [theory::mmk(4.0 * load / SERVICE_S, SERVICE_S, 4), 0.0]
}

const fn exponential() -> Draw {
    Draw::Exponential { mean: SERVICE_S }
}

const fn lognormal() -> Draw {
    Draw::LogNormal { mean: SERVICE_S, cv: 1.0 }
}

impl Queue {
    fn truth(&self, load: f64, seed: u64, runs: u32, requests: u32) -> Vec<Truth> {
        let mut means = vec![Vec::new(); self.names.len()];
        for run_number in 0..runs {
            let mut scenario = (self.scenario)(load);
            scenario.seed = seed.wrapping_add(u64::from(run_number));
            let application = &scenario.applications[0];
            let rarest =
                application.clients.iter().map(rate).filter(|rate| *rate > 0.0).fold(f64::MAX, f64::min);
            let needed = f64::from(requests) * (0.5 / (1.0 - load).max(0.001)).powi(2);
            let span = Duration::from_secs_f64(needed / rarest);
            scenario.warm_up = span / 20;
            scenario.duration = span + scenario.warm_up;
            scenario.tick = span;
            let mut gateway = self.limit.map(|limit| gateway(application, limit));
            let front: &mut dyn Front = match &mut gateway {
                Some(gateway) => gateway,
                None => &mut Direct,
            };
            let result = run(&scenario, front);
            for (means, class) in means.iter_mut().zip(&result.classes) {
                means.extend(class.response.mean().map(|mean| mean.as_secs_f64()));
            }
        }
        let theory = (self.theory)(load);
        let rows = self.names.iter().zip(theory).zip(means);
        rows.filter(|(_, means)| !means.is_empty())
            .map(|((queue, theory_s), means)| {
                #[expect(clippy::cast_precision_loss, reason = "a number of runs")]
                let simulated_s = means.iter().sum::<f64>() / means.len() as f64;
                Truth { queue, load, theory_s, simulated_s }
            })
            .collect()
    }
}

/// One class on so many workers, each with a processor.
fn one(load: f64, work: Draw, workers: u16) -> Scenario {
    let class = Class { work, ..Class::default() };
    let server = Server { threads: Some(u32::from(workers)), ..Server::default() };
    scenario(vec![class], server, workers, &[f64::from(workers) * load / SERVICE_S])
}

/// One class on one processor that all share.
fn sharing(load: f64, work: Draw) -> Scenario {
    scenario(vec![Class { work, ..Class::default() }], Server::default(), 1, &[load / SERVICE_S])
}

/// A critical and a regular class: by preemption of threads, or by admission's order.
fn two(load: f64, is_preemptive: bool) -> Scenario {
    let level = u8::from(is_preemptive);
    let critical =
        Class { name: "critical".to_owned(), priority: 6, level, work: exponential(), ..Class::default() };
    let regular = Class { name: "regular".to_owned(), priority: 2, work: exponential(), ..Class::default() };
    scenario(vec![critical, regular], Server::default(), 1, &[CRITICAL_PER_S, regular_per_s(load)])
}

fn scenario(classes: Vec<Class>, server: Server, processors: u16, rates: &[f64]) -> Scenario {
    let clients = (0..)
        .map(ClassId)
        .zip(rates)
        .map(|(class, per_s)| Clients {
            name: format!("{class:?}"),
            population: Population::Open {
                arrivals: Arrivals::Poisson { per_s: *per_s },
                mix: vec![(class, 1.0)],
                clients: 1,
            },
            behaviour: Behaviour::default(),
        })
        .collect();
    Scenario {
        host: Host { processors, ..Host::default() },
        applications: vec![Application { classes, server, clients, ..Application::default() }],
        ..Scenario::default()
    }
}

fn rate(clients: &Clients) -> f64 {
    match &clients.population {
        Population::Open { arrivals: Arrivals::Poisson { per_s }, .. } => *per_s,
        _ => 0.0,
    }
}

/// Admission that does nothing but queue: first come, first served, within priorities, for as long as it takes.
fn gateway(application: &Application, limit: u32) -> Gateway {
    let mut gateway = Gateway::of(application).without_archives();
    let limit = limit.to_string();
    for (knob, value) in [
        ("in_flight.algorithm", "fixed"),
        ("in_flight.limit", limit.as_str()),
        ("upstream.response.timeout", "24h"),
    ] {
        gateway.set(&format!("{}/{knob}", application.name), value).expect("a knob of the table");
    }
    for class in &application.classes {
        for (knob, value) in [
            ("queue.max", "10000000"),
            ("queue.bytes.max", "1GiB"),
            ("queue.wait.max", "none"),
            ("queue.discipline", "fifo"),
        ] {
            let path = format!("{}/{}/{knob}", application.name, class.name);
            gateway.set(&path, value).expect("a knob of the table");
        }
    }
    gateway
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_are_within_two_per_cent_of_theory() {
        let mut worst: f64 = 0.0;
        for truth in queueing_truth(&[0.5], 1, 2, 100_000) {
            assert!(truth.error() < 0.02, "{truth:?}: {:.2} % off", 100.0 * truth.error());
            worst = worst.max(truth.error());
        }
        assert!(worst > 0.0, "simulation is no formula");
    }
}
