//! Hand-computed walks through the path.

mod dormant;
mod lead;
mod modes;

use std::{collections::VecDeque, time::Duration};

use super::*;
use crate::{
    knobs::{Algorithm, Discipline, Knob, Mode, SchedulerKind, Scope, Value, Values},
    limit::{Limit, LimitBounds, Limiter},
};

const MS: Duration = Duration::from_millis(1);

fn at(ms: u64) -> Timestamp {
    Timestamp::from_nanos(1_000_000_000_000) + MS * u32::try_from(ms).unwrap()
}

/// A fixed limit, `classes` classes with the knobs' defaults.
fn settings(limit: u32, classes: usize) -> AdmissionSettings {
    let mut class = Values::defaults(Scope::Class);
    class.set(Knob::QUEUE_DISCIPLINE, Value::Choice("fifo")).unwrap();
    class.set(Knob::QUEUE_WAIT_MAX, Value::Span(Duration::from_secs(1))).unwrap();
    AdmissionSettings {
        algorithm: Algorithm::Fixed,
        limit: LimitBounds { initial: limit, min: 1, max: 1000 },
        ..AdmissionSettings::from_values(&Values::defaults(Scope::Application), &vec![&class; classes])
    }
}

fn request(class: u16, priority: u8, weight: u32) -> Exchange {
    Exchange { class: ClassId(class), priority, weight, deadline: None, bytes: 100 }
}

/// An application and the permits that are out.
struct Bench {
    admission: Admission,
    permits: Vec<Permit>,
}

impl Bench {
    fn new(settings: &AdmissionSettings) -> Self {
        Self { admission: Admission::new(settings, at(0)), permits: Vec::new() }
    }

    fn start(&mut self, now: u64, exchange: Exchange) {
        match self.admission.arrive(at(now), exchange) {
            Arrival::Start(permit) => self.permits.push(permit),
            other => panic!("it should start: {other:?}"),
        }
        self.admission.check_invariants();
    }

    fn wait(&mut self, now: u64, exchange: Exchange) -> Ticket {
        match self.admission.arrive(at(now), exchange) {
            Arrival::Wait(ticket) => ticket,
            other => panic!("it should wait: {other:?}"),
        }
    }

    fn refused(&mut self, now: u64, exchange: Exchange) -> Refusal {
        match self.admission.arrive(at(now), exchange) {
            Arrival::Refuse(refusal) => refusal,
            other => panic!("it should be refused: {other:?}"),
        }
    }

    /// Ends the exchange that has been in flight longest.
    fn depart(&mut self, now: u64) {
        let permit = self.permits.remove(0);
        self.admission.depart(at(now), permit, Outcome::Success);
        self.admission.check_invariants();
    }

    fn decided(&mut self) -> Vec<Ticket> {
        let mut out = Vec::new();
        self.admission.drain_decided(&mut out);
        out
    }

    fn granted(&mut self, now: u64, ticket: Ticket) {
        match self.admission.collect(at(now), ticket) {
            Some(Ok(permit)) => self.permits.push(permit),
            other => panic!("it should be granted: {other:?}"),
        }
    }

    fn refusal(&mut self, now: u64, ticket: Ticket) -> Refusal {
        match self.admission.collect(at(now), ticket) {
            Some(Err(refusal)) => refusal,
            other => panic!("it should be refused: {other:?}"),
        }
    }
}

#[test]
fn first_come_first_served_within_the_limit() {
    let mut bench = Bench::new(&settings(2, 1));
    bench.start(0, request(0, 3, 1));
    bench.start(0, request(0, 3, 1));
    let (a, b) = (bench.wait(1, request(0, 3, 1)), bench.wait(2, request(0, 3, 1)));
    bench.depart(10);
    assert_eq!(bench.decided(), [a]);
    bench.granted(10, a);
    assert!(bench.admission.collect(at(10), b).is_none());
    bench.depart(11);
    assert_eq!(bench.decided(), [b]);
    assert_eq!(bench.admission.levels().in_flight, 2, "a grant holds its weight before it is collected");
    assert_eq!(
        bench.admission.leave(at(11), b),
        Departure::AlreadyGranted(Permit {
            class: ClassId(0),
            weight: 1,
            started: at(11),
            in_flight: 2,
            place: Place::NOWHERE,
            in_class: Place::NOWHERE,
            standing: Standing::Counted { place: Place::NOWHERE, spell: 0 },
            would_refuse: None,
        })
    );
}

#[test]
fn the_top_priority_passes_the_limit_and_the_class_bound() {
    let mut settings = settings(1, 2);
    settings.classes[1].in_flight_max = Some(1);
    let mut bench = Bench::new(&settings);
    bench.start(0, request(0, 3, 1));
    bench.start(0, request(1, 7, 5));
    bench.start(0, request(1, 7, 5));
    assert_eq!(bench.admission.levels().in_flight, 11);
    let waits = bench.wait(0, request(0, 6, 1));
    bench.depart(1);
    bench.depart(1);
    assert_eq!(bench.decided(), [], "R is still 1 - 5");
    bench.depart(1);
    assert_eq!(bench.decided(), [waits]);
}

#[test]
fn a_heavy_one_holds_the_room_and_starts_alone() {
    let mut bench = Bench::new(&settings(4, 2));
    bench.start(0, request(0, 3, 2));
    let heavy = bench.wait(0, request(0, 3, 9));
    let light = bench.wait(0, request(1, 3, 1));
    bench.start(0, request(1, 4, 1)); // a higher rank passes
    bench.depart(1);
    assert_eq!(bench.decided(), [], "one is still in flight");
    bench.depart(2);
    assert_eq!(bench.decided(), [heavy]);
    bench.granted(2, heavy);
    bench.depart(3);
    assert_eq!(bench.decided(), [light]);
}

#[test]
fn when_the_one_that_held_the_room_leaves_the_next_starts() {
    let mut bench = Bench::new(&settings(4, 1));
    bench.start(0, request(0, 3, 2));
    let heavy = bench.wait(0, request(0, 3, 3));
    let light = bench.wait(0, request(0, 3, 2));
    assert_eq!(bench.admission.leave(at(1), heavy), Departure::Left);
    assert_eq!(bench.decided(), [light]);
}

#[test]
fn strict_priority_and_starvation() {
    let mut settings = settings(1, 2);
    settings.starvation_max = Some(MS * 50);
    let mut bench = Bench::new(&settings);
    bench.start(0, request(0, 3, 1));
    let low = bench.wait(0, request(0, 1, 1));
    let high = bench.wait(1, request(1, 5, 1));
    let high_2 = bench.wait(2, request(1, 5, 1));
    bench.depart(10);
    assert_eq!(bench.decided(), [high]);
    bench.granted(10, high);
    bench.depart(50);
    assert_eq!(bench.decided(), [low], "it has waited 50 ms");
    bench.granted(50, low);
    bench.depart(51);
    assert_eq!(bench.decided(), [high_2]);
}

#[test]
fn a_starving_light_one_starts_when_its_time_comes() {
    let mut settings = settings(4, 2);
    settings.starvation_max = Some(MS * 50);
    let mut bench = Bench::new(&settings);
    bench.start(0, request(0, 3, 3));
    let heavy = bench.wait(0, request(0, 5, 4));
    let light = bench.wait(0, request(1, 1, 1));
    // Both starve at 50 ms; the heavy one arrived first and still holds the room.
    bench.admission.advance(at(50));
    assert_eq!(bench.decided(), []);
    assert_eq!(bench.admission.leave(at(51), heavy), Departure::Left);
    assert_eq!(bench.decided(), [light]);
    let heavy = bench.wait(60, request(0, 5, 4));
    let light = bench.wait(59, request(1, 1, 1));
    assert!(bench.admission.next_timeout() <= Some(at(110)));
    assert_ne!(heavy, light);
}

#[test]
fn waits_and_deadlines_end_at_their_instant() {
    let mut settings = settings(1, 2);
    settings.classes[0].queue.wait_max = Some(MS * 30);
    settings.classes[1].queue.wait_max = None;
    settings.classes[1].deadline = Some(MS * 20);
    let mut bench = Bench::new(&settings);
    bench.start(0, request(0, 3, 1));
    let waits = bench.wait(5, request(0, 3, 1));
    let due = bench.wait(6, request(1, 3, 1));
    let sooner = bench.wait(7, Exchange { deadline: Some(at(10)), ..request(1, 3, 1) });
    assert_eq!(bench.admission.next_timeout(), Some(at(10)));
    bench.admission.advance(at(10));
    assert_eq!(bench.decided(), [sooner]);
    assert_eq!(bench.refusal(10, sooner), Refusal::DeadlinePassed);
    assert_eq!(bench.admission.next_timeout(), Some(at(26)));
    bench.depart(35); // both are over by now, and neither starts late
    assert_eq!(bench.refusal(35, due), Refusal::DeadlinePassed);
    assert_eq!(bench.refusal(35, waits), Refusal::WaitTooLong);
    assert_eq!(bench.admission.next_timeout(), None);
    assert_eq!(
        bench.refused(40, Exchange { deadline: Some(at(40)), ..request(0, 3, 1) }),
        Refusal::DeadlinePassed
    );
}

#[test]
fn a_full_queue_refuses_the_newcomer_or_displaces_the_oldest() {
    let mut settings = settings(1, 2);
    for class in &mut settings.classes {
        class.queue.max = 2;
    }
    settings.classes[1].queue.discipline = Discipline::Lifo;
    let mut bench = Bench::new(&settings);
    bench.start(0, request(0, 3, 1));
    let a = bench.wait(1, request(0, 3, 1));
    let b = bench.wait(1, request(0, 3, 1));
    assert_eq!(bench.refused(1, request(0, 3, 1)), Refusal::QueueFull);
    let c = bench.wait(2, request(1, 4, 1));
    let d = bench.wait(2, request(1, 4, 1));
    let e = bench.wait(2, request(1, 4, 1));
    assert_eq!(bench.decided(), [c]);
    assert_eq!(bench.refusal(2, c), Refusal::QueueFull);
    for expected in [e, d, a, b] {
        bench.depart(3);
        assert_eq!(bench.decided(), [expected]);
        bench.granted(3, expected);
    }
}

#[test]
fn a_queue_without_places_still_lets_in_what_may_start() {
    let mut settings = settings(2, 2);
    settings.classes[0].queue.max = 0;
    let mut bench = Bench::new(&settings);
    bench.start(0, request(1, 3, 1));
    let _heavy = bench.wait(0, request(1, 3, 2));
    bench.start(0, request(0, 5, 1));
    assert_eq!(bench.refused(0, request(0, 5, 1)), Refusal::QueueFull);
}

#[test]
fn bytes_are_bounded_too() {
    let mut settings = settings(1, 1);
    settings.classes[0].queue.bytes_max = 250;
    settings.classes[0].queue.discipline = Discipline::Lifo;
    let mut bench = Bench::new(&settings);
    bench.start(0, request(0, 3, 1));
    let a = bench.wait(0, request(0, 3, 1));
    let b = bench.wait(0, request(0, 3, 1));
    let hopeless = Exchange { bytes: 251, ..request(0, 3, 1) };
    assert_eq!(bench.refused(0, hopeless), Refusal::QueueFull);
    let c = bench.wait(0, Exchange { bytes: 200, ..request(0, 3, 1) });
    assert_eq!(bench.decided(), [a, b]);
    assert!(bench.admission.collect(at(0), c).is_none());
}

#[test]
fn adaptive_lifo_turns_when_the_queue_stands() {
    let mut settings = settings(1, 1);
    settings.classes[0].queue.discipline = Discipline::AdaptiveLifo;
    settings.classes[0].queue.stands_after = MS * 100;
    let mut bench = Bench::new(&settings);
    bench.start(0, request(0, 3, 1));
    let tickets: Vec<_> = (0..5).map(|n| bench.wait(n, request(0, 3, 1))).collect();
    // 4 are there at 99: one who came then has not waited before they are gone, at 199 too long.
    for (now, expected) in [(99, 0), (198, 1), (199, 4), (200, 3), (201, 2)] {
        bench.depart(now);
        assert_eq!(bench.decided(), [tickets[expected]]);
        bench.granted(now, tickets[expected]);
    }
    // Empty since: first come, first served again.
    let again: Vec<_> = (0..2).map(|_| bench.wait(300, request(0, 3, 1))).collect();
    bench.depart(301);
    assert_eq!(bench.decided(), [again[0]]);
}

/// More clients than the limit, each asking again at once: never empty, but nobody waits long.
#[test]
fn a_queue_that_moves_fast_does_not_stand() {
    let mut settings = settings(1, 1);
    settings.classes[0].queue.discipline = Discipline::AdaptiveLifo;
    settings.classes[0].queue.stands_after = MS * 100;
    let mut bench = Bench::new(&settings);
    bench.start(0, request(0, 3, 1));
    let mut waiting: VecDeque<_> = (0..10).map(|_| bench.wait(0, request(0, 3, 1))).collect();
    for now in (9..2000).step_by(9) {
        bench.depart(now);
        let next = waiting.pop_front().unwrap();
        assert_eq!(bench.decided(), [next], "at {now} ms");
        bench.granted(now, next);
        waiting.push_back(bench.wait(now, request(0, 3, 1)));
    }
    // It slows down: after 20 ms each a newcomer would wait 200 ms, and the order turns.
    let mut now = 2000;
    let turned = std::iter::repeat_with(|| {
        now += 20;
        bench.depart(now);
        let next = bench.decided()[0];
        bench.granted(now, next);
        let oldest = waiting.front() == Some(&next);
        waiting.retain(|ticket| *ticket != next);
        waiting.push_back(bench.wait(now, request(0, 3, 1)));
        !oldest
    });
    assert!(turned.take(20).any(|turned| turned), "the order never turned");
}

#[test]
fn rates_at_both_ends() {
    let mut settings = settings(100, 1);
    settings.ingress = Some(Rate { per_s: 1.0, burst: 3.0 });
    settings.classes[0].ingress = Some(Rate { per_s: 1.0, burst: 2.0 });
    settings.classes[0].egress = Some(Rate { per_s: 10.0, burst: 1.0 });
    let mut bench = Bench::new(&settings);
    bench.start(0, request(0, 3, 1));
    let waits = bench.wait(0, request(0, 7, 1)); // also the top priority waits for a token
    assert_eq!(bench.refused(0, request(0, 3, 1)), Refusal::IngressRate);
    assert_eq!(bench.admission.next_timeout(), Some(at(100)));
    bench.admission.advance(at(100));
    assert_eq!(bench.decided(), [waits]);
    // The class's refusal took nothing of the application's bucket: 3 - 2 + 0.9 of it are left.
    settings.classes[0].ingress = None;
    bench.admission.configure(at(900), &settings);
    bench.start(900, request(0, 3, 1));
    assert_eq!(bench.refused(900, request(0, 3, 1)), Refusal::IngressRate);
}

#[test]
fn an_egress_rate_of_the_application_is_shared_in_the_schedulers_order() {
    let mut settings = settings(100, 2);
    settings.egress = Some(Rate { per_s: 100.0, burst: 1.0 });
    settings.scheduler = SchedulerKind::RoundRobin;
    let mut bench = Bench::new(&settings);
    bench.start(0, request(0, 3, 1));
    let a = [bench.wait(0, request(0, 3, 1)), bench.wait(0, request(0, 3, 1))];
    let b = [bench.wait(0, request(1, 3, 1)), bench.wait(0, request(1, 3, 1))];
    let mut order = Vec::new();
    while let Some(next) = bench.admission.next_timeout() {
        bench.admission.advance(next);
        bench.admission.check_invariants();
        order.extend(bench.decided());
    }
    assert_eq!(order, [a[0], b[0], a[1], b[1]]);
}

#[test]
fn codel_refuses_what_stood_too_long_and_takes_no_token_for_it() {
    let mut settings = settings(1, 1);
    settings.classes[0].queue.codel = Some((MS * 20, MS * 100));
    settings.classes[0].queue.wait_max = None;
    let mut bench = Bench::new(&settings);
    bench.start(0, request(0, 3, 1));
    let tickets: Vec<_> = (0..6).map(|_| bench.wait(0, request(0, 3, 1))).collect();
    bench.depart(50); // over the target: the interval runs until 150
    assert_eq!(bench.decided(), [tickets[0]]);
    bench.granted(50, tickets[0]);
    bench.depart(160); // the first drop, and the next starts
    assert_eq!(bench.decided(), [tickets[1], tickets[2]]);
    assert_eq!(bench.refusal(160, tickets[1]), Refusal::Codel);
    bench.granted(160, tickets[2]);
    bench.depart(200);
    assert_eq!(bench.decided(), [tickets[3]]);
}

#[test]
fn watching_starts_everything_and_counts_what_it_would_refuse() {
    let mut settings = settings(1, 1);
    settings.mode = Mode::Watch;
    settings.classes[0].queue.max = 1;
    settings.classes[0].queue.wait_max = Some(MS * 30);
    let mut bench = Bench::new(&settings);
    bench.start(0, request(0, 3, 1)); // would start
    bench.start(0, request(0, 3, 1)); // would wait
    bench.start(0, request(0, 3, 1)); // would be refused: queue full
    assert_eq!(bench.admission.levels().in_flight, 3);
    bench.depart(10); // the waiting shadow would start now
    bench.start(10, request(0, 3, 1)); // would wait
    bench.admission.advance(at(40)); // too long
    assert_eq!(bench.decided(), [], "nobody waits for shadows");
    let mut counts = Vec::new();
    bench.admission.drain_would_refuse(|class, refusal, count| counts.push((class.0, refusal, count)));
    assert_eq!(counts, [(0, Refusal::QueueFull, 1), (0, Refusal::WaitTooLong, 1)]);
    settings.mode = Mode::Enforce;
    bench.admission.configure(at(41), &settings);
    assert_eq!(bench.admission.levels().in_flight, 3, "the truth counts again");
    for _ in 0..3 {
        bench.depart(50);
    }
    assert_eq!(bench.admission.levels().in_flight, 0);
    bench.start(51, request(0, 3, 1));
}

#[test]
fn leaving_enforce_lets_everything_in() {
    let mut settings = settings(1, 1);
    let mut bench = Bench::new(&settings);
    bench.start(0, request(0, 3, 1));
    let tickets = [bench.wait(0, request(0, 3, 1)), bench.wait(0, request(0, 3, 1))];
    settings.mode = Mode::Watch;
    bench.admission.configure(at(1), &settings);
    assert_eq!(bench.decided(), tickets);
    settings.mode = Mode::Off;
    bench.admission.configure(at(2), &settings);
    bench.granted(2, tickets[0]);
    bench.granted(2, tickets[1]);
    bench.start(2, request(0, 3, 1));
    assert_eq!(bench.admission.levels().in_flight, 4);
    for _ in 0..4 {
        bench.depart(3);
    }
    assert_eq!(bench.admission.levels().in_flight, 0);
}

#[test]
fn long_streams_leave_the_limit_for_a_bound_of_their_own() {
    let mut settings = settings(1, 1);
    settings.long_streams_max = 1;
    let mut bench = Bench::new(&settings);
    bench.start(0, request(0, 3, 1));
    let permit = bench.permits.remove(0);
    let stream = bench.admission.begin_stream(at(1), permit, Outcome::Ignore).unwrap();
    bench.start(1, request(0, 3, 1));
    let permit = bench.permits.remove(0);
    let permit = bench.admission.begin_stream(at(2), permit, Outcome::Ignore).unwrap_err();
    assert_eq!((bench.admission.levels().in_flight, bench.admission.levels().long_streams), (1, 1));
    bench.admission.end_stream(stream);
    let stream = bench.admission.begin_stream(at(3), permit, Outcome::Ignore).unwrap();
    assert_eq!((bench.admission.levels().in_flight, bench.admission.levels().long_streams), (0, 1));
    bench.admission.end_stream(stream);
}

#[test]
fn what_becomes_a_long_stream_is_a_sample_if_that_is_its_outcome() {
    for (outcome, limit) in [(Outcome::Ignore, 1), (Outcome::Success, 2)] {
        let mut settings = settings(1, 1);
        (settings.algorithm, settings.long_streams_max) = (Algorithm::Aimd, 1);
        let mut bench = Bench::new(&settings);
        bench.start(0, request(0, 3, 1));
        let waiting = bench.admission.arrive(at(0), request(0, 3, 1));
        assert!(matches!(waiting, Arrival::Wait(_)), "{waiting:?}");
        let permit = bench.permits.remove(0);
        let stream = bench.admission.begin_stream(at(1), permit, outcome).unwrap();
        assert_eq!(bench.admission.levels().limit, limit);
        bench.admission.end_stream(stream);
    }
}

#[test]
fn a_bound_of_long_streams_that_watches_counts_those_that_would_not_be_open() {
    let mut settings = settings(1, 10);
    (settings.long_streams_max, settings.long_streams_mode) = (1, Mode::Watch);
    let mut bench = Bench::new(&settings);
    let open = |bench: &mut Bench| {
        bench.start(0, request(0, 3, 1));
        let permit = bench.permits.remove(0);
        bench.admission.begin_stream(at(1), permit, Outcome::Ignore).unwrap()
    };
    let (within, beyond) = (open(&mut bench), open(&mut bench));
    assert_eq!([within.would_refuse(), beyond.would_refuse()], [None, Some(Refusal::LongStreams)]);
    assert_eq!(bench.admission.levels().long_streams, 2);
    // There is room for one as soon as the first has ended, though two are open.
    bench.admission.end_stream(within);
    let within = open(&mut bench);
    assert_eq!(within.would_refuse(), None);
    let mut counted = Vec::new();
    bench.admission.drain_would_refuse(|class, refusal, count| counted.push((class, refusal, count)));
    assert_eq!(counted, [(ClassId(0), Refusal::LongStreams, 1)]);
    // Once it acts, all that are open count.
    settings.long_streams_mode = Mode::Enforce;
    bench.admission.configure(at(2), &settings);
    bench.admission.end_stream(within);
    bench.start(3, request(0, 3, 1));
    let permit = bench.permits.remove(0);
    let permit = bench.admission.begin_stream(at(3), permit, Outcome::Ignore).unwrap_err();
    bench.admission.end_stream(beyond);
    let last = bench.admission.begin_stream(at(4), permit, Outcome::Ignore).unwrap();
    bench.admission.end_stream(last);
}

#[test]
fn a_class_that_is_added_while_running_works_and_a_missing_one_drains() {
    let mut bench = Bench::new(&settings(1, 2));
    bench.start(0, request(1, 3, 1));
    let waits = bench.wait(0, request(1, 3, 1));
    bench.admission.configure(at(1), &settings(1, 1));
    bench.depart(2);
    assert_eq!(bench.decided(), [waits]);
    bench.granted(2, waits);
    bench.admission.configure(at(3), &settings(2, 3));
    bench.start(3, request(2, 3, 1));
}

#[test]
fn who_comes_again_takes_no_ingress_token_and_waits_like_a_newcomer() {
    let mut settings = settings(1, 1);
    settings.ingress = Some(Rate { per_s: 0.001, burst: 2.0 });
    settings.classes[0].ingress = Some(Rate { per_s: 0.001, burst: 2.0 });
    let mut bench = Bench::new(&settings);
    // A slow upload: admitted, its permit given back, and admitted again; then one more may come.
    bench.start(0, request(0, 3, 1));
    bench.depart(1);
    let Arrival::Start(permit) = bench.admission.arrive_again(at(2), request(0, 3, 1)) else {
        panic!("there is room")
    };
    let first = bench.wait(3, request(0, 3, 1));
    assert_eq!(bench.refused(3, request(0, 3, 1)), Refusal::IngressRate);
    let Arrival::Wait(again) = bench.admission.arrive_again(at(3), request(0, 3, 1)) else {
        panic!("the limit holds for it as for others")
    };
    bench.admission.depart(at(4), permit, Outcome::Success);
    assert_eq!(bench.decided(), [first]);
    assert!(bench.admission.collect(at(4), again).is_none());
}

/// A fuzz target: whatever a correct caller does, every promise is kept (the driver checks after each
/// operation), and in the end everything has come back.
#[test]
fn any_bytes_are_operations_that_break_no_promise() {
    bolero::check!().with_iterations(2_000).with_max_len(4096).for_each(|bytes: &[u8]| {
        let mut bytes = bytes.iter().copied();
        let settings = grammar::settings(|| bytes.next().unwrap_or(0));
        let mut driver = grammar::Driver::new(&settings, grammar::START);
        while let Some(op) = grammar::Op::read(&mut bytes) {
            let _ = driver.apply(&op);
        }
        driver.finish();
    });
}
