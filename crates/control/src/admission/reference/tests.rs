//! Admission beside the reference, under random operations.

use std::time::Duration;

use proptest::prelude::*;

use super::{
    super::grammar::{Driver, Op, START, settings},
    AdmissionSettings, Outcome, Reference,
};
use crate::{
    knobs::{Algorithm, Mode, SchedulerKind, Scope, Values},
    limit::LimitBounds,
};

/// Tells what was done when a test fails: the last settings and what came after.
struct Trail(Vec<Op>);

impl Drop for Trail {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let from = self.0.iter().rposition(|op| matches!(op, Op::Configure(_))).unwrap_or(0);
            let tail = self.0.len().saturating_sub(20).max(from + 1);
            eprintln!("{:?}\n... {:#?}", self.0[from], &self.0[tail..]);
        }
    }
}

/// Runs bytes through both and compares everything that can be seen after each operation.
fn compare(bytes: Vec<u8>) {
    let mut bytes = bytes.into_iter();
    let settings = settings(|| bytes.next().unwrap_or(0));
    compare_ops(settings, std::iter::from_fn(|| Op::read(&mut bytes)));
}

fn compare_ops(settings: AdmissionSettings, ops: impl IntoIterator<Item = Op>) {
    let mut driver = Driver::new(&settings, START);
    let mut reference = Reference::new(&settings, START);
    let mut trail = Trail(vec![Op::Configure(Box::new(settings))]);
    for op in ops {
        trail.0.push(op.clone());
        let (seen, expected) = (driver.apply(&op), reference.apply(&op));
        assert_eq!(seen, expected, "admission left, reference right");
    }
    driver.finish();
}

/// A fixed limit of one request, and so many classes of defaults.
fn one_in_flight(mode: Mode, classes: usize) -> AdmissionSettings {
    let class = Values::defaults(Scope::Class);
    AdmissionSettings {
        mode,
        algorithm: Algorithm::Fixed,
        limit: LimitBounds { initial: 1, min: 1, max: 10 },
        ..AdmissionSettings::from_values(&Values::defaults(Scope::Application), &vec![&class; classes])
    }
}

fn arrive(class: u16) -> Op {
    Op::Arrive { again: false, class, priority: 3, weight: 1, deadline: None, bytes: 100 }
}

/// Shadows leave in the order of their arrival, also where a later one has the place in memory of one that left: whose
/// turn it is at the weighted scheduler depends on it. Found by the swarm.
#[test]
fn the_turn_after_watching_is_that_of_the_reference() {
    let watching = one_in_flight(Mode::Watch, 2);
    let acting =
        AdmissionSettings { mode: Mode::Enforce, scheduler: SchedulerKind::Weighted, ..watching.clone() };
    let depart = || Op::Depart(0, Outcome::Success);
    let ops = [
        arrive(0),
        arrive(1),
        arrive(0),
        // The shadow of the second leaves its place to the next one.
        Op::Depart(1, Outcome::Success),
        arrive(1),
        Op::Configure(Box::new(acting)),
        arrive(0),
        arrive(1),
        depart(),
        depart(),
        depart(),
        depart(),
    ];
    compare_ops(watching, ops);
}

/// Who begins at the moment the mode is left has felt the limit until then: to the limiter that comes next it was in use.
#[test]
fn a_limit_holds_until_the_moment_it_is_switched_off() {
    let holding = one_in_flight(Mode::Enforce, 1);
    let off = AdmissionSettings { mode: Mode::Off, ..holding.clone() };
    let finding = AdmissionSettings {
        algorithm: Algorithm::Gradient2,
        limit: LimitBounds { initial: 8, min: 2, max: 10 },
        ..holding.clone()
    };
    let (mut driver, mut reference) = (Driver::new(&holding, START), Reference::new(&holding, START));
    let limits: Vec<u32> = [
        arrive(0),
        arrive(0),
        Op::Advance(Duration::from_millis(10)),
        Op::Configure(Box::new(off)),
        Op::Collect(0),
        Op::Configure(Box::new(finding)),
        Op::Depart(1, Outcome::Drop),
    ]
    .iter()
    .map(|op| {
        let (event, seen) = driver.apply(op);
        assert_eq!((event, seen.clone()), reference.apply(op), "admission left, reference right");
        seen.limit
    })
    .collect();
    driver.finish();
    // The last is that of a probe, which begins where the limit is in use.
    assert_eq!(limits, [1, 1, 1, 1, 1, 8, 2]);
}

/// Bytes as operations of a class that is kept to one or two in flight and has a lead, among them what ends well after nearly
/// the same time again and again, and the knobs change seldom.
fn with_a_lead(bytes: Vec<u8>) {
    let mut settings = one_in_flight(Mode::Enforce, 2);
    settings.limit.initial = 3 + u32::from(bytes[0] % 3);
    settings.mode = if bytes[1].is_multiple_of(4) { Mode::Watch } else { Mode::Enforce };
    settings.classes[0].in_flight_max = Some(1 + u32::from(bytes[2] % 2));
    settings.classes[0].in_flight_lead = Some(Duration::from_millis(1 + u64::from(bytes[3] % 4)));
    let ops = bytes.chunks(2).flat_map(|pair| {
        let (kind, byte) = (pair[0], usize::from(*pair.last().unwrap()));
        let millis = |ms| Op::Advance(Duration::from_millis(ms));
        match kind % 16 {
            0 => {
                vec![Op::Arrive { again: false, class: 0, priority: 3, weight: 2, deadline: None, bytes: 1 }]
            }
            1 => {
                vec![Op::Arrive { again: false, class: 0, priority: 7, weight: 1, deadline: None, bytes: 1 }]
            }
            2 => vec![arrive(1)],
            3 => vec![Op::Leave(byte)],
            4 => vec![Op::Depart(byte, Outcome::Drop)],
            5 => vec![Op::Depart(byte, Outcome::Success)],
            6 => vec![Op::Stream(byte, Outcome::Success), Op::EndStream],
            7 => vec![millis(byte as u64 % 16)],
            8 if byte < 20 => {
                let mut other = settings.clone();
                other.mode = [Mode::Enforce, Mode::Watch, Mode::Off][byte % 3];
                other.classes[0].in_flight_max = [None, Some(1), Some(3)][byte % 3];
                vec![Op::Configure(Box::new(other))]
            }
            9 | 10 => vec![arrive(0), Op::Collect(byte)],
            _ => {
                let steady = 8 + byte as u64 % 3;
                vec![
                    arrive(0),
                    millis(steady),
                    Op::Collect(0),
                    Op::Depart(0, Outcome::Success),
                    Op::Collect(0),
                ]
            }
        }
    });
    compare_ops(settings.clone(), ops);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, max_shrink_iters: 2000, ..ProptestConfig::default() })]

    #[test]
    fn a_lead_lets_start_whom_the_reference_does(bytes in prop::collection::vec(any::<u8>(), 40..400)) {
        with_a_lead(bytes);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, max_shrink_iters: 2000, ..ProptestConfig::default() })]

    #[test]
    fn admission_decides_as_the_reference(bytes in prop::collection::vec(any::<u8>(), 40..1500)) {
        compare(bytes);
    }
}
