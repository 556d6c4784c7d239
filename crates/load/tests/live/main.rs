//! The generator against servers whose behaviour is known: what it reports is what happened.

mod arrivals;
mod faults;
mod schema;
mod tls;

use tidegate_load::{
    Arrivals,
    origin::{Origin, Settings},
};

fn origin() -> Origin {
    Origin::start(&Settings::default()).expect("an origin on a free port")
}

fn pattern(text: &str) -> Arrivals {
    text.parse().expect(text)
}
