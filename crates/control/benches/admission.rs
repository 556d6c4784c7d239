//! Instruction counts of admission: its parts and the ways a request can go.
//!
//! `cargo bench -p tidegate-control --bench admission`; needs Valgrind and gungraun-runner of the
//! version of the gungraun crate. Each benchmark is warm: its setup has been the same way before.
#![expect(missing_docs, reason = "the macros of the benchmark harness generate public items")]

use std::{hint::black_box, time::Duration};

use gungraun::prelude::*;
use tidegate_control::{
    ClassId, Ticket, Timestamp,
    admission::{Admission, AdmissionSettings, Arrival, Departure, Exchange, Outcome, Permit, Rate},
    knobs::{Algorithm, SchedulerKind, Scope, Values},
    limit::{Limit, LimitBounds, Limiter, Sample},
    queue::Codel,
    scheduler::{Candidate, Scheduler},
    token_bucket::TokenBucket,
};

const NOW: Timestamp = Timestamp::from_nanos(1 << 60);

fn bucket() -> TokenBucket {
    let mut bucket = TokenBucket::new(NOW, 1000.0, 10.0);
    assert!(bucket.try_take(NOW));
    bucket
}

#[library_benchmark]
#[bench::refill_and_take(bucket())]
fn token_bucket(mut bucket: TokenBucket) -> (bool, TokenBucket) {
    let taken = black_box(&mut bucket).try_take(black_box(NOW + Duration::from_micros(700)));
    (black_box(taken), bucket)
}

#[library_benchmark]
#[bench::passes(Codel::new(Duration::from_millis(20), Duration::from_millis(200)))]
fn codel(mut codel: Codel) -> (bool, Codel) {
    let drops = black_box(&mut codel).drops(black_box(NOW), black_box(Duration::from_millis(30)), 5);
    (black_box(drops), codel)
}

fn offers(kind: SchedulerKind, classes: u16) -> (Scheduler, Vec<Candidate>) {
    let mut scheduler = Scheduler::new(kind);
    scheduler.set_shares((1..=u32::from(classes)).map(|share| share * 10));
    let offers = (0..classes)
        .map(|class| Candidate {
            deadline: Some(NOW + Duration::from_millis(u64::from(class * 7 % 10))),
            ..Candidate::new(ClassId(class), u8::try_from(class % 7).unwrap_or(0), 3, u64::from(class))
        })
        .collect();
    (scheduler, offers)
}

#[library_benchmark]
#[bench::strict_10(offers(SchedulerKind::Strict, 10))]
#[bench::round_robin_10(offers(SchedulerKind::RoundRobin, 10))]
#[bench::weighted_10(offers(SchedulerKind::Weighted, 10))]
#[bench::weighted_2(offers(SchedulerKind::Weighted, 2))]
#[bench::earliest_deadline_10(offers(SchedulerKind::EarliestDeadline, 10))]
fn scheduler(input: (Scheduler, Vec<Candidate>)) -> (Option<usize>, (Scheduler, Vec<Candidate>)) {
    let (mut scheduler, offers) = input;
    let pick = scheduler.pick(black_box(&offers));
    if let Some(pick) = pick {
        scheduler.served(&offers, pick);
    }
    (black_box(pick), (scheduler, offers))
}

fn limiter(algorithm: Algorithm) -> (Limiter, Sample) {
    let mut limiter = Limiter::new(algorithm, LimitBounds { initial: 20, min: 1, max: 1000 });
    let sample = Sample {
        now: NOW,
        class: ClassId(0),
        response_time: Duration::from_millis(16),
        in_flight: 3,
        limit_utilised: false,
        outcome: Outcome::Success,
        weight: 1,
    };
    limiter.sample(&sample);
    (limiter, sample)
}

#[library_benchmark]
#[bench::aimd(limiter(Algorithm::Aimd))]
#[bench::vegas(limiter(Algorithm::Vegas))]
#[bench::gradient2(limiter(Algorithm::Gradient2))]
fn limit(input: (Limiter, Sample)) -> (u32, Limiter) {
    let (mut limiter, sample) = input;
    limiter.sample(black_box(&sample));
    (black_box(limiter.limit()), limiter)
}

const REQUEST: Exchange = Exchange { class: ClassId(0), priority: 3, weight: 1, deadline: None, bytes: 400 };

/// `protect`'s settings with ten classes, with rates at both ends or without.
fn admission(algorithm: Algorithm, rates: bool) -> Admission {
    let class = Values::defaults(Scope::Class);
    let mut settings = AdmissionSettings {
        algorithm,
        ..AdmissionSettings::from_values(&Values::defaults(Scope::Application), &[&class; 10])
    };
    if rates {
        let rate = Some(Rate { per_s: 100_000.0, burst: 1000.0 });
        (settings.ingress, settings.egress) = (rate, rate);
        (settings.classes[0].ingress, settings.classes[0].egress) = (rate, rate);
    }
    let mut admission = Admission::new(&settings, NOW);
    let Arrival::Start(permit) = admission.arrive(NOW, REQUEST) else { unreachable!("nothing is in flight") };
    admission.depart(NOW, permit, Outcome::Success);
    admission
}

#[library_benchmark]
#[bench::fixed(admission(Algorithm::Fixed, false))]
#[bench::gradient2(admission(Algorithm::Gradient2, false))]
#[bench::gradient2_with_four_buckets(admission(Algorithm::Gradient2, true))]
fn arrive_and_depart(mut admission: Admission) -> Admission {
    let start = black_box(NOW + Duration::from_millis(1));
    if let Arrival::Start(permit) = admission.arrive(start, black_box(REQUEST)) {
        admission.depart(black_box(NOW + Duration::from_millis(17)), permit, Outcome::Success);
    }
    admission
}

/// Full, with `waiting` requests waiting in each of `classes` classes; one of the last class has waited and
/// been granted before.
fn full(waiting: usize, classes: u16) -> (Admission, Permit, Vec<Ticket>) {
    let mut admission = admission(Algorithm::Fixed, false);
    let mut permits = Vec::new();
    let mut tickets = Vec::new();
    while let Arrival::Start(permit) = admission.arrive(NOW, REQUEST) {
        permits.push(permit);
    }
    for class in 0..classes {
        for _ in 0..waiting {
            let class = ClassId(class);
            if let Arrival::Wait(ticket) = admission.arrive(NOW, Exchange { class, ..REQUEST }) {
                tickets.push(ticket);
            }
        }
    }
    let permit = permits.swap_remove(0);
    std::mem::forget(permits);
    (admission, permit, tickets)
}

// A request arrives and waits, one departs, the next is granted, told and departs in turn.
#[library_benchmark]
#[bench::one_class(full(10, 1))]
#[bench::ten_classes(full(10, 10))]
#[bench::long_queue(full(900, 1))]
fn arrive_wait_grant_depart(input: (Admission, Permit, Vec<Ticket>)) -> (Admission, Vec<Ticket>) {
    let (mut admission, permit, mut tickets) = input;
    let later = black_box(NOW + Duration::from_millis(1));
    if let Arrival::Wait(ticket) = admission.arrive(later, black_box(REQUEST)) {
        tickets.push(ticket);
    }
    admission.depart(later, permit, Outcome::Success);
    tickets.clear();
    admission.drain_decided(&mut tickets);
    if let Some(Ok(permit)) = tickets.first().and_then(|ticket| admission.collect(later, *ticket)) {
        admission.depart(later, permit, Outcome::Success);
    }
    (admission, tickets)
}

// A client in the middle of a queue leaves.
#[library_benchmark]
#[bench::of_10(full(10, 1))]
#[bench::of_900(full(900, 1))]
fn leave(input: (Admission, Permit, Vec<Ticket>)) -> (Departure, Admission, Permit) {
    let (mut admission, permit, tickets) = input;
    let departure = admission.leave(black_box(NOW), black_box(tickets[tickets.len() / 2]));
    (black_box(departure), admission, permit)
}

library_benchmark_group!(name = parts, benchmarks = [token_bucket, codel, scheduler, limit]);
library_benchmark_group!(name = ways, benchmarks = [arrive_and_depart, arrive_wait_grant_depart, leave]);
main!(library_benchmark_groups = [parts, ways]);
