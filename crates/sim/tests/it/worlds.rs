//! Scenarios that several tests have.

use std::time::Duration;

use tidegate_control::ClassId;
use tidegate_sim::{
    Application, Arrivals, Backoff, Behaviour, Class, Clients, Draw, Gateway, Host, Page, Population, Retry,
    Scenario, Server, Site,
};

pub(crate) const SECOND: Duration = Duration::from_secs(1);

pub(crate) fn open(per_s: f64, behaviour: Behaviour) -> Clients {
    Clients {
        name: "crowd".to_owned(),
        population: Population::Open {
            arrivals: Arrivals::Poisson { per_s },
            mix: vec![(ClassId(0), 1.0)],
            clients: 500,
        },
        behaviour,
    }
}

pub(crate) fn patience(seconds: u64) -> Behaviour {
    Behaviour { timeout: Some(SECOND * u32::try_from(seconds).unwrap()), retry: None }
}

pub(crate) fn retrying(seconds: u64) -> Behaviour {
    Behaviour {
        retry: Some(Retry {
            attempts: 4,
            after_refusal: true,
            after_timeout: true,
            backoff: Backoff::Exponential { first: SECOND / 2, factor: 2.0, max: SECOND * 8, jitter: true },
        }),
        ..patience(seconds)
    }
}

/// Four workers of 20 ms: 200 requests a second.
pub(crate) fn shop(clients: Vec<Clients>, seconds: u64) -> Scenario {
    let class = Class { work: Draw::Exponential { mean: 0.02 }, good_within: SECOND * 2, ..Class::default() };
    Scenario {
        duration: Duration::from_secs(seconds),
        host: Host { processors: 4, ..Host::default() },
        applications: vec![Application {
            classes: vec![class],
            server: Server { threads: Some(4), ..Server::default() },
            clients,
            ..Application::default()
        }],
        ..Scenario::default()
    }
}

/// One enters at home, goes on to a cheap or a dear page, and comes back or leaves.
pub(crate) fn site(home: ClassId, inside: ClassId) -> Site {
    let page = |name: &str, class, embedded, next| Page {
        name: name.to_owned(),
        class,
        embedded,
        embedded_class: inside,
        next,
    };
    Site {
        entry: 0,
        pages: vec![
            page("home", home, 1, vec![(1, 0.9)]),
            page("inside", inside, 0, vec![(1, 0.8), (0, 0.1)]),
        ],
        pages_max: 30,
    }
}

/// The gateway with its defaults.
pub(crate) fn gateway(scenario: &Scenario) -> Gateway {
    Gateway::of(&scenario.applications[0])
}
