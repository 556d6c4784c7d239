//! What is told of the capacity, and what servers lost or added change, before a server in virtual time.

use std::{collections::VecDeque, time::Duration};

use super::*;
use crate::{
    ClassId, Refusal, Ticket,
    admission::{Admission, AdmissionSettings, Arrival, Exchange, Outcome, OwnModes, Permit},
    knobs::{Algorithm, Knob, Mode, Scope, Value, Values},
    limit::LimitBounds,
};

const MS: Duration = Duration::from_millis(1);
/// What a request takes of a worker at first.
const SERVICE: Duration = Duration::from_millis(20);
/// Requests kept waiting, so that the limit always holds something back.
const WAITING: usize = 64;

/// Admission before a server of some workers, first come, first served, under load that never ends.
struct Bench {
    admission: Admission,
    now: Timestamp,
    workers: usize,
    /// What a request takes of one of them.
    service: Duration,
    /// Weight of each request.
    weight: u32,
    running: VecDeque<(Timestamp, Permit)>,
    pending: VecDeque<Permit>,
    waiting: Vec<Ticket>,
}

impl Bench {
    fn settings(algorithm: Algorithm, given: Option<f64>) -> AdmissionSettings {
        let mut application = Values::defaults(Scope::Application);
        if let Some(given) = given {
            application.set(Knob::CAPACITY_GIVEN, Value::Rate(given)).unwrap();
        }
        let mut class = Values::defaults(Scope::Class);
        class.set(Knob::QUEUE_DISCIPLINE, Value::Choice("fifo")).unwrap();
        class.set(Knob::QUEUE_WAIT_MAX, Value::Span(Duration::from_secs(3600))).unwrap();
        AdmissionSettings { algorithm, ..AdmissionSettings::from_values(&application, &[&class]) }
    }

    fn new(algorithm: Algorithm, workers: usize, given: Option<f64>) -> Self {
        let now = Timestamp::from_nanos(1_000_000_000_000);
        Self {
            admission: Admission::new(&Self::settings(algorithm, given), now),
            now,
            workers,
            service: SERVICE,
            weight: 1,
            running: VecDeque::new(),
            pending: VecDeque::new(),
            waiting: Vec::new(),
        }
    }

    /// Lets so many seconds pass.
    fn run(&mut self, seconds: u64) {
        for _ in 0..seconds * 1000 {
            self.step();
        }
    }

    fn step(&mut self) {
        while self.waiting.len() < WAITING {
            let weight = self.weight;
            let request = Exchange { class: ClassId(0), priority: 3, weight, deadline: None, bytes: 100 };
            match self.admission.arrive(self.now, request) {
                Arrival::Start(permit) => self.pending.push_back(permit),
                Arrival::Wait(ticket) => self.waiting.push(ticket),
                Arrival::Refuse(refusal) => panic!("nothing is refused here: {refusal:?}"),
            }
        }
        self.now = self.now + MS;
        self.admission.advance(self.now);
        while self.running.front().is_some_and(|(end, _)| *end <= self.now) {
            if let Some((_, permit)) = self.running.pop_front() {
                self.admission.depart(self.now, permit, Outcome::Success);
            }
        }
        let mut decided = Vec::new();
        self.admission.drain_decided(&mut decided);
        for ticket in decided {
            self.waiting.retain(|waiting| *waiting != ticket);
            let verdict: Option<Result<Permit, Refusal>> = self.admission.collect(self.now, ticket);
            self.pending.push_back(verdict.expect("decided").expect("granted"));
        }
        while self.running.len() < self.workers {
            let Some(permit) = self.pending.pop_front() else { break };
            self.running.push_back((self.now + self.service, permit));
        }
    }

    fn per_s(&self) -> Option<f64> {
        self.admission.capacity().per_s
    }

    fn causes(&mut self) -> Vec<Cause> {
        self.events().iter().map(|event| event.cause).collect()
    }

    fn events(&mut self) -> Vec<CapacityEvent> {
        let mut events = Vec::new();
        self.admission.drain_capacity_events(&mut events);
        events
    }
}

fn near(found: Option<f64>, wanted: f64, tolerance: f64) -> bool {
    found.is_some_and(|found| (found / wanted - 1.0).abs() < tolerance)
}

#[test]
fn a_server_lost_changes_the_capacity_at_once_and_it_stays_right() {
    let mut bench = Bench::new(Algorithm::KneeTrack, 8, None);
    bench.run(20);
    assert!(near(bench.per_s(), 400.0, 0.05), "8 workers of 20 ms: {:?}", bench.per_s());
    assert!(bench.events().iter().any(|event| event.cause == Cause::Found));

    let (before, limit) = (bench.per_s().unwrap(), bench.admission.levels().limit);
    bench.workers = 4;
    bench.admission.resize(bench.now, 0.5);
    assert!(near(bench.per_s(), before / 2.0, 0.01), "at once: {:?}", bench.per_s());
    assert!(bench.admission.levels().limit < limit, "the limit goes with it");
    let [event] = bench.events()[..] else { panic!("one event") };
    assert_eq!((event.cause, event.before, event.after), (Cause::Servers, Some(before), bench.per_s()));

    bench.run(20);
    assert!(near(bench.per_s(), 200.0, 0.05), "as measured: {:?}", bench.per_s());
    // And back: what was announced is true, so nothing has to be searched.
    bench.workers = 8;
    bench.admission.resize(bench.now, 2.0);
    bench.run(20);
    assert!(near(bench.per_s(), 400.0, 0.05), "as measured: {:?}", bench.per_s());
}

#[test]
fn factors_that_say_nothing_change_nothing() {
    for algorithm in [Algorithm::KneeTrack, Algorithm::PowerRatio] {
        let mut bench = Bench::new(algorithm, 4, None);
        bench.run(10);
        let (before, _) = (bench.per_s(), bench.events());
        for factor in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            bench.admission.resize(bench.now, factor);
        }
        assert_eq!((bench.per_s(), bench.events().len()), (before, 0), "{algorithm:?}");
    }
}

#[test]
fn what_is_told_holds_for_its_time_and_then_what_is_found() {
    let mut bench = Bench::new(Algorithm::KneeTrack, 8, None);
    bench.run(20);
    let found = bench.per_s();
    let _ = bench.events();
    bench.admission.tell_capacity(bench.now, Some(150.0), Some(Duration::from_secs(2)));
    assert_eq!(bench.per_s(), Some(150.0));
    assert_eq!(bench.causes(), [Cause::Given]);
    assert!(bench.admission.next_timeout().is_some_and(|at| at <= bench.now + Duration::from_secs(2)));
    bench.run(3);
    assert_eq!(bench.admission.capacity().told, None);
    assert!(near(bench.per_s(), found.unwrap(), 0.1), "found {found:?}, then {:?}", bench.per_s());
    assert!(bench.causes().contains(&Cause::Given), "its end is an event, too");
}

#[test]
fn who_finds_no_capacity_has_the_one_that_is_given() {
    let mut bench = Bench::new(Algorithm::Gradient2, 4, None);
    assert_eq!((bench.per_s(), bench.admission.levels().capacity), (None, None));
    bench.admission.tell_capacity(bench.now, Some(80.0), None);
    assert_eq!((bench.per_s(), bench.admission.levels().capacity), (Some(80.0), Some(80.0)));
    bench.admission.tell_capacity(bench.now, None, None);
    assert_eq!(bench.per_s(), None);
    let moves: Vec<_> = bench.events().iter().map(|event| (event.before, event.after)).collect();
    assert_eq!(moves, [(None, Some(80.0)), (Some(80.0), None)]);

    let bench = Bench::new(Algorithm::Fixed, 4, Some(35.0));
    assert_eq!(bench.admission.levels().capacity, Some(35.0), "by the knob");
}

#[test]
fn what_is_told_ends_in_every_mode() {
    let mut bench = Bench::new(Algorithm::Gradient2, 4, None);
    let class = Values::defaults(Scope::Class);
    let off = AdmissionSettings {
        mode: Mode::Off,
        ..AdmissionSettings::from_values(&Values::defaults(Scope::Application), &[&class])
    };
    bench.admission.configure(bench.now, &off);
    bench.admission.tell_capacity(bench.now, Some(80.0), Some(MS));
    bench.admission.advance(bench.now + MS * 2);
    assert_eq!(bench.per_s(), None);
}

#[test]
fn floor_and_ceiling_hold_and_a_search_begins_on_command() {
    let mut bench = Bench::new(Algorithm::KneeTrack, 8, None);
    bench.run(20);
    let class = Values::defaults(Scope::Class);
    for (floor, ceiling, expected) in [(Some(500.0), None, 500.0), (None, Some(100.0), 100.0)] {
        let settings = AdmissionSettings {
            algorithm: Algorithm::KneeTrack,
            capacity: CapacityBounds { floor, ceiling },
            ..AdmissionSettings::from_values(&Values::defaults(Scope::Application), &[&class])
        };
        bench.admission.configure(bench.now, &settings);
        assert_eq!(bench.per_s(), Some(expected));
    }
    let free = AdmissionSettings {
        algorithm: Algorithm::KneeTrack,
        ..AdmissionSettings::from_values(
            &Values::defaults(Scope::Application),
            &[&{
                let mut class = class.clone();
                class.set(Knob::QUEUE_DISCIPLINE, Value::Choice("fifo")).unwrap();
                class.set(Knob::QUEUE_WAIT_MAX, Value::Span(Duration::from_secs(3600))).unwrap();
                class
            }],
        )
    };
    bench.admission.configure(bench.now, &free);
    let _ = bench.events();
    bench.admission.rediscover(bench.now);
    assert_eq!(bench.per_s(), None, "as on the first day");
    assert_eq!(bench.causes(), [Cause::Told]);
    bench.run(20);
    assert!(near(bench.per_s(), 400.0, 0.05), "found again: {:?}", bench.per_s());
}

#[test]
fn causes_are_counted_by_their_position_and_told_apart_by_name() {
    for (position, cause) in Cause::ALL.iter().enumerate() {
        assert_eq!(cause.index(), position);
        assert_eq!(Cause::ALL.iter().filter(|other| other.name() == cause.name()).count(), 1);
    }
    assert_eq!(Cause::ALL.len(), Cause::Restored.index() + 1);
}

/// What may come grows while newcomers are held back although nothing is queued, and at no other time: after a quiet hour
/// a burst meets no other pace than after a quiet second.
#[test]
fn what_may_come_grows_only_while_newcomers_are_held_back() {
    let mut bench = Bench::new(Algorithm::KneeTrack, 1, None);
    let mut pace_after = |seconds: u64, held_back: bool| {
        let asked = (0..seconds * 10).map(|_| {
            bench.now = bench.now + 100 * MS;
            bench.admission.supply(bench.now, held_back).pace.expect("it has one").may_come_per_s
        });
        asked.last().expect("it was asked")
    };
    let first = pace_after(1, false);
    assert_eq!(pace_after(3600, false).to_bits(), first.to_bits());
    assert!(pace_after(10, true) > 10.0 * first);
    assert_eq!(pace_after(5, false).to_bits(), first.to_bits());
}

/// What is given by hand holds the door, however dry the server's queue is: with nothing known, and with people waiting for
/// long.
#[test]
fn no_more_may_come_than_the_ceiling() {
    for most in [5.0, 30.0] {
        let mut bench = Bench::new(Algorithm::KneeTrack, 1, Some(most));
        for tenth in 0..100 {
            bench.now = bench.now + 100 * MS;
            let pace = bench.admission.supply(bench.now, true).pace.expect("it has one").may_come_per_s;
            assert!(pace <= most, "{pace}/s of {most}/s after {tenth} tenths of a second");
        }
    }
}

/// What has departed while the limit only watched is of a time in which nothing is counted.
#[test]
fn what_departs_while_it_only_watches_proves_nothing_afterwards() {
    for seconds in [4, 60] {
        let mut bench = Bench::new(Algorithm::KneeTrack, 8, None);
        bench.run(20);
        let enforced = Bench::settings(Algorithm::KneeTrack, None);
        let modes = OwnModes { in_flight: Some(Mode::Watch), ..OwnModes::default() };
        bench.admission.configure(bench.now, &AdmissionSettings { modes, ..enforced.clone() });
        let _ = bench.events();
        let request = Exchange { class: ClassId(0), priority: 3, weight: 1, deadline: None, bytes: 100 };
        for _ in 0..seconds * 300 {
            let Arrival::Start(permit) = bench.admission.arrive(bench.now, request) else {
                panic!("nothing holds anybody")
            };
            bench.now = bench.now + Duration::from_micros(3333);
            bench.admission.depart(bench.now, permit, Outcome::Success);
        }
        bench.admission.configure(bench.now, &enforced);
        for second in 0..10 {
            bench.run(1);
            assert!(near(bench.per_s(), 400.0, 0.1), "second {second} after {seconds}: {:?}", bench.per_s());
        }
        assert!(!bench.causes().contains(&Cause::Proof), "after {seconds} s");
    }
}

/// A server that becomes three times as fast: what departed until that was noticed proves no more than that.
#[test]
fn what_showed_a_rise_does_not_prove_another() {
    let mut bench = Bench::new(Algorithm::KneeTrack, 8, None);
    bench.run(20);
    let _ = bench.events();
    bench.service = 7 * MS;
    let mut most: f64 = 0.0;
    for _ in 0..5000 {
        bench.step();
        most = most.max(bench.per_s().expect("it is known"));
    }
    let causes = bench.causes();
    assert!(causes.contains(&Cause::Rise) && !causes.contains(&Cause::Proof), "{causes:?}");
    assert!(
        near(bench.per_s(), 8000.0 / 7.0, 0.05) && most < 1.1 * 8000.0 / 7.0,
        "{most}, {:?}",
        bench.per_s()
    );
}

/// Where one request weighs more than the search begins at, there is never less in flight than the limit.
#[test]
fn requests_that_weigh_more_than_the_first_limit_are_searched_for_too() {
    let mut bench = Bench::new(Algorithm::KneeTrack, 4, None);
    bench.weight = 10;
    bench.run(20);
    assert!(near(bench.per_s(), 200.0, 0.05), "4 workers of 20 ms: {:?}", bench.per_s());
    assert!(bench.admission.levels().limit >= 40);
}

/// What the limit keeps a server from doing is no fall, and no look upwards goes beyond what is allowed.
#[test]
fn a_ceiling_holds_the_limit_and_what_was_found_outlives_it() {
    let mut bench = Bench::new(Algorithm::KneeTrack, 8, None);
    bench.run(20);
    let found = bench.per_s().unwrap();
    let _ = bench.events();
    bench.admission.tell_capacity(bench.now, Some(100.0), None);
    bench.run(2);
    let mut highest = 0;
    for _ in 0..60_000 {
        bench.step();
        highest = highest.max(bench.admission.levels().limit);
    }
    // The knee at 100 a second is 2, and β is at most 1.5 here.
    assert!(highest <= 4, "{highest} in flight");
    bench.admission.tell_capacity(bench.now, None, None);
    assert!(near(bench.per_s(), found, 1e-6), "{:?}, found {found}", bench.per_s());
    assert_eq!(bench.causes(), [Cause::Given, Cause::Given]);
    bench.run(10);
    assert!(near(bench.per_s(), 400.0, 0.05), "{:?}", bench.per_s());
}

/// A server that becomes slower than a ceiling lets it do is known to be.
#[test]
fn a_fall_below_a_ceiling_is_found() {
    let mut bench = Bench::new(Algorithm::KneeTrack, 8, None);
    bench.run(20);
    bench.admission.tell_capacity(bench.now, Some(200.0), None);
    bench.run(10);
    bench.service = 160 * MS;
    bench.run(20);
    bench.admission.tell_capacity(bench.now, None, None);
    bench.run(10);
    assert!(near(bench.per_s(), 50.0, 0.05), "{:?}, {:?}", bench.per_s(), bench.causes());
}

/// With a queue in the response time that the limit goes by, the limit would make the queue longer, and so on.
#[test]
fn a_floor_above_what_the_server_can_do_does_not_raise_the_limit_without_end() {
    let mut bench = Bench::new(Algorithm::KneeTrack, 8, None);
    bench.run(20);
    bench.admission.tell_capacity(bench.now, Some(1000.0), None);
    bench.run(120);
    // 1,000 a second of 20 ms, with its headroom.
    let limit = bench.admission.levels().limit;
    assert!((20..=27).contains(&limit), "{limit}");
}

/// The highest limit of the first search.
fn highest_of_search(workers: usize) -> u32 {
    let mut bench = Bench::new(Algorithm::KneeTrack, workers, None);
    let mut highest = 0;
    for _ in 0..10_000 {
        highest = highest.max(bench.admission.levels().limit);
        if bench.admission.found().is_some() {
            return highest;
        }
        bench.step();
    }
    panic!("nothing was found before {workers} workers within ten seconds");
}

#[test]
fn a_search_goes_higher_than_it_begins_only_where_half_of_that_gives_less() {
    assert_eq!(highest_of_search(2), 8);
    assert_eq!(highest_of_search(32), 64);
}

/// What a search finds before `workers` workers.
fn found_before(workers: usize) -> (Found, Option<f64>) {
    let mut bench = Bench::new(Algorithm::KneeTrack, workers, None);
    assert_eq!(bench.admission.found(), None, "nothing is known at first");
    bench.run(20);
    (bench.admission.found().unwrap(), bench.per_s())
}

#[test]
fn the_next_process_begins_with_what_was_found() {
    let (found, per_s) = found_before(8);
    assert!(near(Some(found.per_s()), per_s.unwrap(), 1e-9));
    let mut bench = Bench::new(Algorithm::KneeTrack, 8, None);
    bench.admission.restore_found(bench.now, &found);
    assert!(near(bench.per_s(), per_s.unwrap(), 1e-9));
    assert!((8..=16).contains(&bench.admission.levels().limit), "the knee is 8");
    let [event] = bench.events()[..] else { panic!("one event") };
    assert_eq!((event.cause, event.before, event.after), (Cause::Restored, None, bench.per_s()));
    for second in 0..20 {
        bench.run(1);
        assert!(near(bench.per_s(), 400.0, 0.1), "second {second}: {:?}", bench.per_s());
    }
    assert_eq!(bench.causes(), [], "nothing was searched for");
}

#[test]
fn what_was_found_of_another_server_is_soon_forgotten() {
    let (found, _) = found_before(8);
    for workers in [2, 32] {
        let mut bench = Bench::new(Algorithm::KneeTrack, workers, None);
        bench.admission.restore_found(bench.now, &found);
        bench.run(15);
        let wanted = 50.0 * workers as f64;
        assert!(near(bench.per_s(), wanted, 0.08), "{workers} workers: {:?}", bench.per_s());
    }
}

#[test]
fn classes_that_were_not_there_begin_with_the_mean() {
    let class = |cost_s, unqueued_s, part| Some(FoundClass { cost_s, unqueued_s, part });
    let mut found = Found { headroom: 1.5, dispersion: 1.0, classes: [None; COST_CLASSES] };
    found.classes[1] = class(0.010, 0.1, 0.75);
    found.classes[3] = class(0.002, 0.02, 0.25);
    let mut knee = KneeTrack::new(LimitBounds { initial: 20, min: 1, max: 1000 });
    knee.restore(&found);
    // 0.75 · 10 ms + 0.25 · 2 ms; of classes 0 and 2 no more than that is known.
    assert!(near(knee.capacity(), 125.0, 1e-9) && near(knee.cost(ClassId(0), ClassId(2)), 1.0, 1e-9));
    assert!(near(knee.cost(ClassId(1), ClassId(3)), 5.0, 1e-9));
    // Each class's response time is drawn to the mean, 80 ms, as after any probe.
    assert!(near(knee.knee(), 125.0 * 0.08, 0.05), "{:?}", knee.knee());
    let again = knee.found().unwrap();
    assert!(
        near(Some(again.per_s()), 125.0, 1e-9) && again.classes[2].is_some_and(|class| class.part == 0.0)
    );
}

#[test]
fn what_cannot_have_been_found_is_not_begun_with() {
    let sound = FoundClass { cost_s: 0.01, unqueued_s: 0.1, part: 1.0 };
    let of = |headroom, dispersion, class| {
        let mut classes = [None; COST_CLASSES];
        classes[0] = class;
        Found { headroom, dispersion, classes }
    };
    for unsound in [
        of(1.5, 1.0, None),
        of(f64::NAN, 1.0, Some(sound)),
        of(1.5, 0.0, Some(sound)),
        of(1.5, 1.0, Some(FoundClass { cost_s: 0.0, ..sound })),
        of(1.5, 1.0, Some(FoundClass { unqueued_s: f64::INFINITY, ..sound })),
        of(1.5, 1.0, Some(FoundClass { part: 0.0, ..sound })),
        of(1.5, 1.0, Some(FoundClass { part: 1.5, ..sound })),
    ] {
        let mut knee = KneeTrack::new(LimitBounds { initial: 20, min: 1, max: 1000 });
        let fresh = knee.clone();
        knee.restore(&unsound);
        assert_eq!(knee, fresh, "{unsound:?}");
    }
}

/// Counting `n` departures leaves an error of `√(F/n)`; what is given has none.
#[test]
fn an_estimate_is_the_surer_the_more_has_been_counted() {
    let error = |bench: &mut Bench| bench.admission.supply(bench.now, true).pace.expect("it has one").error;
    let mut found = Bench::new(Algorithm::KneeTrack, 10, None);
    assert_eq!(error(&mut found), 0.0, "nothing is known");
    found.run(3);
    let early = error(&mut found);
    found.run(27);
    let late = error(&mut found);
    assert!(late > 0.0 && late < early / 1.5, "{early}, then {late}");
    let mut given = Bench::new(Algorithm::KneeTrack, 10, Some(400.0));
    given.run(10);
    assert_eq!(error(&mut given), 0.0);
}

/// The room promises by what `power_ratio` tries, before it has found anything, too; the meters show what is found.
#[test]
fn the_load_that_is_tried_can_be_promised() {
    let mut bench = Bench::new(Algorithm::PowerRatio, 10, None);
    let promised = |bench: &mut Bench| bench.admission.supply(bench.now, false).per_s;
    assert_eq!(promised(&mut bench), Some(15.0));
    bench.run(9);
    let tried = promised(&mut bench).expect("it tries the next one");
    assert!((tried - 15.0 * 1.15).abs() < 1e-9, "{tried}");
    assert_eq!(bench.admission.levels().capacity, None);
    let mut vegas = Bench::new(Algorithm::Vegas, 10, None);
    vegas.run(9);
    assert_eq!(promised(&mut vegas), None);
}

/// A millisecond passes from one request's end to the next one's start, which one in flight loses and two do not.
#[test]
fn headroom_that_is_the_least_already_is_seldom_tried_without() {
    let mut bench = Bench::new(Algorithm::KneeTrack, 1, None);
    bench.run(20);
    assert_eq!(bench.admission.levels().limit, 2, "one worker, and one who waits for it");
    let mut without_ms = 0;
    for _ in 0..60_000 {
        bench.step();
        without_ms += u64::from(bench.admission.levels().limit == 1);
    }
    assert!(without_ms > 0, "the response time without a queue is still measured");
    assert!(without_ms < 6_000, "{without_ms} ms of a minute were spent without headroom");
}

/// A setting of `in_flight.min` and `in_flight.max` while it runs.
fn bound(bench: &mut Bench, min: u32, max: u32) {
    let limit = LimitBounds { initial: 20, min, max };
    let settings = AdmissionSettings { limit, ..Bench::settings(Algorithm::KneeTrack, None) };
    bench.admission.configure(bench.now, &settings);
}

#[test]
fn a_minimum_far_above_the_knee_leaves_nothing_behind() {
    // Of what was known, nothing is taken for a response time without a queue meanwhile.
    let mut bench = Bench::new(Algorithm::KneeTrack, 4, None);
    bench.run(20);
    bound(&mut bench, 60, 1000);
    assert_eq!(bench.admission.levels().limit, 60);
    bench.run(30);
    bound(&mut bench, 1, 1000);
    bench.run(2);
    let limit = bench.admission.levels().limit;
    assert!(limit <= 9, "4 workers: {limit}");
    assert!(near(bench.per_s(), 200.0, 0.05), "{:?}", bench.per_s());

    // Where nothing was, it was a queue, and is soon looked at again.
    let mut bench = Bench::new(Algorithm::KneeTrack, 4, None);
    bound(&mut bench, 60, 1000);
    bench.run(30);
    bound(&mut bench, 1, 1000);
    bench.run(30);
    let limit = bench.admission.levels().limit;
    assert!(limit <= 20, "4 workers: {limit}");
}

#[test]
fn a_search_that_a_minimum_held_up_begins_below_once_that_is_gone() {
    let mut bench = Bench::new(Algorithm::KneeTrack, 1, None);
    bound(&mut bench, 60, 1000);
    bench.run(1);
    bench.service = Duration::from_secs(1000);
    bench.run(1);
    assert_eq!((bench.per_s(), bench.admission.levels().limit), (None, 60));
    bound(&mut bench, 1, 1000);
    assert_eq!(bench.admission.levels().limit, 8);
}

/// Capacity and limit before a maximum of 1, and 2 s after it is gone again; what `meanwhile` does goes on under it.
fn over_a_maximum(meanwhile: impl Fn(&mut Bench)) -> [(f64, u32); 2] {
    let mut bench = Bench::new(Algorithm::KneeTrack, 40, None);
    bench.service = 200 * MS;
    let state = |bench: &Bench| (bench.per_s().unwrap(), bench.admission.levels().limit);
    bench.run(40);
    let before = state(&bench);
    bound(&mut bench, 1, 1);
    meanwhile(&mut bench);
    bench.run(20);
    assert!(near(bench.per_s(), 5.0, 0.1), "one in flight: {:?}", bench.per_s());
    bound(&mut bench, 1, 1000);
    bench.run(2);
    [before, state(&bench)]
}

#[test]
fn what_was_found_before_a_maximum_holds_again_after_it() {
    let [(before, limit), (after, limit_after)] = over_a_maximum(|_| ());
    assert!(near(Some(before), 200.0, 0.05) && near(Some(after), 200.0, 0.08), "{before}, {after}");
    assert!(limit_after + 4 >= limit, "{limit}, {limit_after}");

    let halved = |bench: &mut Bench| {
        bench.workers = 20;
        bench.admission.resize(bench.now, 0.5);
    };
    let [_, (after, _)] = over_a_maximum(halved);
    assert!(near(Some(after), 100.0, 0.1), "half of the servers: {after}");
}
