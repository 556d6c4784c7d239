//! What a request costs admission, its arrival and departure with nothing waiting, and admission itself: time, allocations and
//! bytes, by algorithm.
//! `make bench` runs it; alone: `cargo run --release -p tidegate-control --example admission_cost`.
#![expect(clippy::disallowed_methods, reason = "it is measured how long decisions take")]

mod allocations;

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use allocations::{allocations, held};
use tidegate_control::{
    ClassId, Timestamp,
    admission::{Admission, AdmissionSettings, Arrival, Exchange, Outcome, Rate},
    knobs::{Algorithm, ChoiceSet as _, Scope, Values},
};

const TIMES: u32 = 500_000;
const ROUNDS: usize = 7;
/// Between arrivals, each of which departs half-way to the next.
const EVERY: Duration = Duration::from_micros(100);
const START: Timestamp = Timestamp::from_nanos(1_000_000_000_000);
const REQUEST: Exchange = Exchange { class: ClassId(1), priority: 3, weight: 1, deadline: None, bytes: 400 };

fn main() {
    for algorithm in
        [Algorithm::Fixed, Algorithm::Aimd, Algorithm::Vegas, Algorithm::Gradient2, Algorithm::KneeTrack]
    {
        let before = held();
        let mut admission = admission(algorithm);
        let mut now = START;
        // The first round is not counted: what is adaptive has found its place by then.
        serve(&mut admission, &mut now);
        let bytes = held() - before;
        let mut nanos = Vec::with_capacity(ROUNDS);
        let allocated = allocations(|| {
            for _ in 0..ROUNDS {
                let begun = Instant::now();
                serve(&mut admission, &mut now);
                nanos.push(begun.elapsed().as_nanos() as f64 / f64::from(TIMES));
            }
        });
        nanos.sort_by(f64::total_cmp);
        println!(
            "arrive and depart, {}: {:.0} ns ({:.0} to {:.0}), {allocated} allocations in {} requests; {bytes} bytes of ten classes",
            algorithm.name(),
            nanos[ROUNDS / 2],
            nanos[0],
            nanos[ROUNDS - 1],
            TIMES as usize * ROUNDS,
        );
    }
}

/// Ten classes, with rates at both ends, of the application and of the class.
fn admission(algorithm: Algorithm) -> Admission {
    let class = Values::defaults(Scope::Class);
    let mut settings = AdmissionSettings {
        algorithm,
        ..AdmissionSettings::from_values(&Values::defaults(Scope::Application), &[&class; 10])
    };
    let rate = Some(Rate { per_s: 1e6, burst: 1e6 });
    (settings.ingress, settings.egress) = (rate, rate);
    (settings.classes[1].ingress, settings.classes[1].egress) = (rate, rate);
    Admission::new(&settings, START)
}

fn serve(admission: &mut Admission, now: &mut Timestamp) {
    for _ in 0..TIMES {
        let Arrival::Start(permit) = admission.arrive(*now, black_box(REQUEST)) else {
            unreachable!("nothing else is in flight")
        };
        admission.depart(*now + EVERY / 2, permit, Outcome::Success);
        *now = *now + EVERY;
    }
}
