//! The generator against servers whose behaviour is known: what it reports is what happened.

mod arrivals;
mod clients;
mod faults;
mod schema;
mod sessions;
mod tls;
mod trace;
mod waiting;

use std::time::Duration;

use tidegate_load::{
    ClassPlan,
    origin::{Origin, Settings},
};

fn origin() -> Origin {
    Origin::start(&Settings::default()).expect("an origin on a free port")
}

/// Patient enough that a machine busy with other work changes nothing.
fn class(name: &str, arrivals: &str) -> ClassPlan {
    ClassPlan::new(name, arrivals.parse().expect(arrivals)).timeout(Duration::from_secs(30))
}
