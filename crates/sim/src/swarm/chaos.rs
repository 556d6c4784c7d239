//! A random world for a seed: settings of admission, and clients and servers that bring it to its bounds.

use std::time::Duration;

use tidegate_control::{
    ClassId,
    admission::{AdmissionSettings, grammar},
    share::Share,
};

use crate::{
    Application, Arrivals, Backoff, Behaviour, Class, Clients, Draw, Fault, Host, Network, Page, Population,
    Random, Retry, Scenario, Server, Site, Trouble,
};

/// The world of a seed.
pub(super) fn world(seed: u64) -> (Scenario, AdmissionSettings) {
    let mut random = Random::new(seed, "world");
    let settings = settings(&mut random);
    let duration = Duration::from_millis(500 + random.below(2000));
    let processors = u16::try_from(1 + random.below(4)).unwrap_or(1);
    let mut application = Application {
        classes: vec![Class {
            work: work(&mut random),
            errors: random.pick(&[0.0, 0.0, 0.2]),
            ..Class::default()
        }],
        server: Server {
            threads: random.pick(&[None, Some(1), Some(3), Some(20)]),
            backlog: random.pick(&[None, Some(0), Some(5)]),
            drops_abandoned: random.chance(0.5),
            faults: faults(&mut random, duration),
            ..Server::default()
        },
        network: Network {
            latency: random.pick(&[Draw::ZERO, Draw::Constant(0.001), Draw::Exponential { mean: 0.003 }]),
            lost: random.pick(&[0.0, 0.0, 0.05]),
        },
        ..Application::default()
    };
    let sources = 1 + random.below(3);
    application.clients = (0..sources).map(|number| clients(&mut random, number)).collect();
    let host = Host { processors, ..Host::default() };
    let tick = Duration::from_millis(100);
    (
        Scenario { seed, duration, tick, host, applications: vec![application], ..Scenario::default() },
        settings,
    )
}

/// Settings of the grammar that fuzzing has.
pub(super) fn settings(random: &mut Random) -> AdmissionSettings {
    // Everything is ours: a scenario must come to its end by itself, also after a share would have.
    let settings = grammar::settings(|| random.bits().to_le_bytes()[0]);
    AdmissionSettings { share: Share::WHOLE, ..settings }
}

fn work(random: &mut Random) -> Draw {
    let mean = random.pick(&[0.0005, 0.002, 0.01, 0.03]);
    random.pick(&[
        Draw::Constant(mean),
        Draw::Exponential { mean },
        Draw::LogNormal { mean, cv: 2.0 },
        Draw::Uniform { low: 0.0, high: 2.0 * mean },
    ])
}

fn faults(random: &mut Random, duration: Duration) -> Vec<Fault> {
    (0..random.below(4))
        .map(|_| Fault {
            at: duration.mul_f64(random.unit()),
            lasts: Duration::from_millis(random.below(300)),
            what: random.pick(&[Trouble::Stall, Trouble::Slow(0.1), Trouble::Errors(0.7)]),
        })
        .collect()
}

fn clients(random: &mut Random, number: u64) -> Clients {
    let per_s = random.pick(&[20.0, 100.0, 400.0, 1000.0]);
    let arrivals = random.pick(&[
        Arrivals::Poisson { per_s },
        // Whole milliseconds: things happen at the very same moment.
        Arrivals::Constant { per_s },
        Arrivals::OnOff {
            on: Draw::Exponential { mean: 0.05 },
            off: Draw::Exponential { mean: 0.1 },
            per_s: 3.0 * per_s,
            idle_per_s: 0.0,
        },
    ]);
    let page = |next| Page {
        name: "page".to_owned(),
        class: ClassId(0),
        embedded: 2,
        embedded_class: ClassId(0),
        next: vec![(next, 0.7)],
    };
    let site = Site { entry: 0, pages: vec![page(1), page(0)], pages_max: 20 };
    let think = Draw::Exponential { mean: 0.05 };
    let population = match random.below(4) {
        0 => Population::Browsers {
            count: vec![
                (Duration::ZERO, 10),
                (Duration::from_millis(300), 40),
                (Duration::from_millis(900), 5),
            ],
            site,
            think,
        },
        1 => Population::Sessions { arrivals: Arrivals::Poisson { per_s: per_s / 5.0 }, site, think },
        _ => Population::Open { arrivals, mix: vec![(ClassId(0), 1.0)], clients: 10 },
    };
    let millis = Duration::from_millis;
    Clients {
        name: format!("clients {number}"),
        population,
        behaviour: Behaviour {
            timeout: random.pick(&[None, Some(millis(5)), Some(millis(20)), Some(millis(150))]),
            retry: random.chance(0.4).then(|| Retry {
                attempts: 3,
                after_refusal: random.chance(0.7),
                after_timeout: true,
                backoff: random.pick(&[
                    Backoff::Constant(Duration::ZERO),
                    Backoff::Exponential { first: millis(5), factor: 2.0, max: millis(50), jitter: true },
                ]),
            }),
        },
    }
}
