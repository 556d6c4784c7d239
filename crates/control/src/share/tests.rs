//! Shares: nothing is lost or held twice, however the whole is divided.

use proptest::prelude::*;

use super::*;
use crate::{
    ClassId,
    admission::{Admission, Arrival, Exchange, Outcome, Permit},
    knobs::{Algorithm, Knob, Scope, Value, Values},
    token_bucket::TokenBucket,
};

const UNTIL: Timestamp = Timestamp::FAR_FUTURE;

fn parts(share: Share, parts: u32) -> Vec<Share> {
    (0..parts).map(|index| share.part(index, parts, UNTIL)).collect()
}

fn settings(limit: u64, algorithm: &'static str) -> AdmissionSettings {
    let mut application = Values::defaults(Scope::Application);
    application.set(Knob::IN_FLIGHT_ALGORITHM, Value::Choice(algorithm)).unwrap();
    application.set(Knob::IN_FLIGHT_LIMIT, Value::Count(limit)).unwrap();
    AdmissionSettings::from_values(&application, &[&Values::defaults(Scope::Class)])
}

fn request(priority: u8) -> Exchange {
    Exchange { class: ClassId(0), priority, weight: 1, deadline: None, bytes: 1 }
}

proptest! {
    #[test]
    fn parts_of_parts_hold_exactly_the_whole(
        whole in 0..=u64::from(u32::MAX),
        gateways in 1..40u32,
        cores in 1..130u32,
    ) {
        let mut sum = 0;
        for gateway in parts(Share::WHOLE, gateways) {
            let own: u64 = parts(gateway, cores).into_iter().map(|core| core.units(whole)).sum();
            prop_assert_eq!(own, gateway.units(whole));
            prop_assert!(own.abs_diff(whole / u64::from(gateways)) <= 2, "even, as far as units and cuts go");
            sum += own;
        }
        prop_assert_eq!(sum, whole);
    }

    /// Holders that each keep to their own share never let more pass than one bucket for all would,
    /// but for the one event each may always have at once.
    #[test]
    fn buckets_of_holders_let_no_more_pass_than_one_for_all(
        rate in 1.0..5000.0f64,
        burst in 1.0..100.0f64,
        holders in 1..20u32,
        asked in prop::collection::vec((0..20usize, 0..2_000_000u64), 1..400),
    ) {
        let mut now = Timestamp::from_nanos(1_000_000_000);
        let start = now;
        let whole = Rate { per_s: rate, burst };
        let mut buckets: Vec<TokenBucket> = parts(Share::WHOLE, holders)
            .into_iter()
            .map(|share| share.rate(whole))
            .map(|rate| TokenBucket::new(now, rate.per_s, rate.burst))
            .collect();
        let mut passed = 0.0;
        for (holder, nanos) in asked {
            now = now + Duration::from_nanos(nanos);
            let count = buckets.len();
            passed += f64::from(u8::from(buckets[holder % count].try_take(now)));
        }
        let most = burst + f64::from(holders) + rate * now.since(start).as_secs_f64();
        prop_assert!(passed <= most + 1e-6, "{passed} of {most}");
    }
}

#[test]
fn rates_of_parts_add_up() {
    let whole = Rate { per_s: 1000.0 / 3.0, burst: 7.0 };
    let sum: f64 = parts(Share::WHOLE, 7).into_iter().map(|share| share.rate(whole).per_s).sum();
    assert!((sum - whole.per_s).abs() < 1e-8, "{sum}");
    assert_eq!(Share::WHOLE.rate(whole), whole);
    assert_eq!(Share::WHOLE.part(0, 7, UNTIL).rate(whole).burst, 1.0);
    assert_eq!(Share::WHOLE.part(0, 70, UNTIL).rate(whole).burst, 1.0, "less than one event is of no use");
}

#[test]
fn what_lies_beyond_the_last_part_holds_nothing() {
    assert_eq!(Share::WHOLE.part(3, 3, UNTIL).units(u64::MAX), 0);
    assert_eq!(Share::WHOLE.part(0, 0, UNTIL).units(u64::MAX), 0);
    assert_eq!(Share::WHOLE.units(u64::MAX), u64::MAX);
}

/// Starts as much as there is room for; gives the permits.
fn fill(admission: &mut Admission, now: Timestamp) -> Vec<Permit> {
    let mut permits = Vec::new();
    while permits.len() < 1000 {
        match admission.arrive(now, request(3)) {
            Arrival::Start(permit) => permits.push(permit),
            Arrival::Wait(_) | Arrival::Refuse(_) => break,
        }
    }
    permits
}

#[test]
fn admissions_with_parts_start_together_what_one_would() {
    let now = Timestamp::from_nanos(1_000_000_000);
    for (limit, holders) in [(100, 7), (5, 7), (1, 3), (64, 64)] {
        let sum: usize = parts(Share::WHOLE, holders)
            .into_iter()
            .map(|share| {
                let settings = AdmissionSettings { share, ..settings(limit, "fixed") };
                let mut admission = Admission::new(&settings, now);
                let started = fill(&mut admission, now).len();
                admission.check_invariants();
                assert_eq!(started as u64, share.units(limit));
                started
            })
            .sum();
        assert_eq!(sum as u64, limit);
    }
}

#[test]
fn an_expired_share_starts_nothing_but_the_top_priority_until_it_is_renewed() {
    let now = Timestamp::from_nanos(1_000_000_000);
    let until = now + Duration::from_secs(5);
    let mut settings = settings(4, "fixed");
    settings.share = Share::WHOLE.part(0, 2, until);
    let mut admission = Admission::new(&settings, now);
    let permits = fill(&mut admission, now);
    assert_eq!((permits.len(), admission.levels().limit), (2, 2));
    assert_eq!(settings.share.lasts(now), Duration::from_secs(5));
    for permit in permits {
        admission.depart(until, permit, Outcome::Success);
    }
    admission.check_invariants();
    let waiting_at_start = admission.levels().queued().map(|(_, queued)| queued).sum::<usize>();
    assert_eq!(admission.levels().limit, 0);
    assert!(matches!(admission.arrive(until, request(3)), Arrival::Wait(_)));
    let Arrival::Start(top) = admission.arrive(until, request(7)) else { panic!("it passes every limit") };
    admission.depart(until, top, Outcome::Success);
    // Renewed, it starts what waits.
    settings.share = Share::WHOLE.part(0, 2, until + Duration::from_secs(5));
    admission.configure(until, &settings);
    assert_eq!(admission.levels().limit, 2);
    let waiting = admission.levels().queued().map(|(_, queued)| queued).sum::<usize>();
    assert_eq!(waiting, (waiting_at_start + 1).saturating_sub(2));
    admission.check_invariants();
}

#[test]
fn an_adaptive_limit_moves_within_its_share() {
    let now = Timestamp::from_nanos(1_000_000_000);
    for algorithm in [Algorithm::Aimd, Algorithm::Vegas, Algorithm::Gradient2] {
        let share = Share::WHOLE.part(1, 10, UNTIL);
        let settings = AdmissionSettings { share, algorithm, ..settings(5, "fixed") };
        let admission = Admission::new(&settings, now);
        // A tenth of 5 units to start from is one at most, and at least: it finds more by itself.
        assert_eq!(admission.levels().limit, 1, "{algorithm:?}");
    }
}
