//! The fast path of admission allocates nothing: arrive and depart with nothing waiting, and, once its
//! tables have grown, waiting too. Nor does the waiting room for anybody, once its filters have grown.

#[path = "../examples/allocations/mod.rs"]
mod allocations;

use std::{collections::VecDeque, time::Duration};

use allocations::{allocations, held};
use tidegate_control::{
    ClassId, Timestamp,
    admission::{Admission, AdmissionSettings, Arrival, Exchange, Outcome, Rate},
    capacity::Capacity,
    knobs::{Algorithm, Knob, Scope, Value, Values},
    waiting_room::{Answer, Room, RoomSettings},
};

const REQUEST: Exchange = Exchange { class: ClassId(1), priority: 3, weight: 1, deadline: None, bytes: 400 };

fn at(ms: u64) -> Timestamp {
    Timestamp::from_nanos(1_000_000_000_000) + Duration::from_millis(ms)
}

fn admission(algorithm: Algorithm) -> Admission {
    let mut class = Values::defaults(Scope::Class);
    class.set(Knob::QUEUE_DISCIPLINE, Value::Choice("fifo")).unwrap();
    class.set(Knob::QUEUE_WAIT_MAX, Value::Span(Duration::from_secs(1))).unwrap();
    let mut settings = AdmissionSettings {
        algorithm,
        ..AdmissionSettings::from_values(&Values::defaults(Scope::Application), &[&class; 3])
    };
    let rate = Some(Rate { per_s: 1e6, burst: 1e6 });
    (settings.ingress, settings.egress) = (rate, rate);
    (settings.classes[1].ingress, settings.classes[1].egress) = (rate, rate);
    Admission::new(&settings, at(0))
}

#[test]
fn the_counter_counts() {
    assert_eq!(allocations(|| drop(std::hint::black_box(Box::new(1)))), 1);
    let before = held();
    let bytes = std::hint::black_box(vec![0_u8; 1000]);
    assert_eq!(held().wrapping_sub(before), 1000);
    drop(bytes);
    assert_eq!(held(), before);
}

#[test]
fn arrive_and_depart_allocate_nothing() {
    for algorithm in
        [Algorithm::Fixed, Algorithm::Aimd, Algorithm::Vegas, Algorithm::Gradient2, Algorithm::KneeTrack]
    {
        let mut admission = admission(algorithm);
        let allocated = allocations(|| {
            for n in 0..10_000 {
                let Arrival::Start(permit) = admission.arrive(at(n), REQUEST) else {
                    panic!("there is room")
                };
                admission.depart(at(n + 1), permit, Outcome::Success);
            }
        });
        assert_eq!(allocated, 0, "{algorithm:?}");
    }
}

#[test]
fn waiting_allocates_nothing_once_the_tables_have_grown() {
    let mut admission = admission(Algorithm::Fixed);
    let mut permits = Vec::new();
    while let Arrival::Start(permit) = admission.arrive(at(0), REQUEST) {
        permits.push(permit);
    }
    // The last arrival waits already. Each round one more waits, one departs, and one is granted.
    let mut tickets = Vec::with_capacity(16);
    let mut round = |now| {
        let Arrival::Wait(_) = admission.arrive(at(now), REQUEST) else { panic!("it is full") };
        admission.depart(at(now), permits.remove(0), Outcome::Success);
        admission.drain_decided(&mut tickets);
        for ticket in tickets.drain(..) {
            let Some(Ok(permit)) = admission.collect(at(now), ticket) else { panic!("it was granted") };
            permits.push(permit);
        }
    };
    (1..10).for_each(&mut round);
    assert_eq!(allocations(|| (10..10_000).for_each(&mut round)), 0);
}

/// One starts with a lead of a millisecond each ten, and another waits.
#[test]
fn a_lead_allocates_nothing_once_the_tables_have_grown() {
    let class = Values::defaults(Scope::Class);
    let mut settings = AdmissionSettings {
        algorithm: Algorithm::Fixed,
        ..AdmissionSettings::from_values(&Values::defaults(Scope::Application), &[&class; 3])
    };
    settings.classes[1].in_flight_max = Some(1);
    settings.classes[1].in_flight_lead = Some(Duration::from_millis(1));
    let mut admission = Admission::new(&settings, at(0));
    let mut permits = VecDeque::with_capacity(4);
    let mut tickets = Vec::with_capacity(16);
    let mut early = 0;
    let Arrival::Start(first) = admission.arrive(at(0), REQUEST) else { panic!("there is room") };
    permits.push_back(first);
    let mut round = |n: u64| {
        let Arrival::Wait(_) = admission.arrive(at(10 * n), REQUEST) else { panic!("it is full") };
        for (now, ends) in [(10 * n + 9, false), (10 * n + 10, true)] {
            admission.advance(at(now));
            if ends {
                admission.depart(at(now), permits.pop_front().expect("one is under way"), Outcome::Success);
            }
            admission.drain_decided(&mut tickets);
            for ticket in tickets.drain(..) {
                let Some(Ok(permit)) = admission.collect(at(now), ticket) else { panic!("it was granted") };
                permits.push_back(permit);
                early += u64::from(!ends);
            }
        }
    };
    (0..20).for_each(&mut round);
    assert_eq!(allocations(|| (20..10_000).for_each(&mut round)), 0);
    assert!(early > 9_980, "{early}");
}

/// A million promises are out at once, and come: numbers by slot and the filters of the slots whose people may come now are all
/// that is held for them.
#[test]
fn a_million_promises_cost_memory_for_slots_only() {
    let mut application = Values::defaults(Scope::Application);
    application.set(Knob::ROOM_METHOD, Value::Choice("fifo")).unwrap();
    let settings = RoomSettings::from_values(&application, &[&Values::defaults(Scope::Class)]);
    let mut promises = Vec::with_capacity(1_000_000);
    let before = held();
    let held = || held() - before;
    let mut room = Room::new(&settings, [1, 2], at(0));
    let observe = |room: &mut Room, ms| {
        room.observe(at(ms), Capacity { per_s: Some(1000.0), pace: None }, std::iter::empty());
    };
    observe(&mut room, 0);
    let empty = held();
    assert_eq!(
        allocations(|| while promises.len() < 1_000_000 {
            if let Answer::Wait(place) = room.ask(at(0), ClassId(0)) {
                promises.push(place.promise);
            }
        }),
        0
    );
    assert_eq!(held(), empty, "promises that are out");
    let (mut most, mut entered) = (0, 0);
    let mut promises = promises.into_iter().peekable();
    for second in 1.. {
        observe(&mut room, 1000 * second);
        while let Some(promise) = promises.next_if(|promise| promise.at < at(1000 * (second + 1))) {
            entered +=
                u32::from(matches!(room.come_back(promise.at, ClassId(0), &promise), Answer::Enter(_)));
        }
        most = most.max(held());
        if promises.peek().is_none() {
            break;
        }
    }
    assert!(entered > 999_000, "{entered} came in");
    println!("{empty} bytes empty, {most} at most");
    // Less than a byte each.
    assert!(most - empty < 1_000_000, "{most} bytes while they come, {empty} without anybody");
}

#[test]
fn the_waiting_room_allocates_nothing_for_a_visitor() {
    let mut application = Values::defaults(Scope::Application);
    application.set(Knob::ROOM_METHOD, Value::Choice("fifo")).unwrap();
    let settings = RoomSettings::from_values(&application, &[&Values::defaults(Scope::Class); 3]);
    let mut room = Room::new(&settings, [1, 2], at(0));
    let class = ClassId(1);
    let mut waiting = VecDeque::with_capacity(100_000);
    let (mut entered, mut missed) = (0, 0);
    // Each second 300 come where 100 can be served: who must, waits, comes at his time and is let in; a few are not served
    // then and get another time.
    let mut second = |second: u64| {
        let now = at(1000 * second);
        room.observe(now, Capacity { per_s: Some(100.0), pace: None }, std::iter::empty());
        while let Some(promise) = waiting.pop_front_if(|(until, _)| *until <= now).map(|(_, promise)| promise)
        {
            let answer = match room.come_back(now, class, &promise) {
                Answer::Enter(entry) => {
                    entered += 1;
                    let pass = entry.pass.filter(|_| entered % 5 == 0);
                    if let Some(pass) = pass {
                        let _ = room.pass(now, class, &pass);
                    }
                    if entered % 10 > 0 {
                        continue;
                    }
                    missed += 1;
                    room.missed(now, class, Some(&promise))
                }
                other => other,
            };
            if let Answer::Wait(place) = answer {
                waiting.push_back((place.promise.at, place.promise));
            }
        }
        for _ in 0..300 {
            if let Answer::Wait(place) = room.ask(now, class) {
                let _ = room.look(now, &place.promise);
                waiting.push_back((place.promise.at, place.promise));
            }
        }
        room.drain_counts(|_, _, _| {});
    };
    (0..60).for_each(&mut second);
    assert_eq!(allocations(|| (60..200).for_each(&mut second)), 0);
    assert!(entered > 5_000 && missed > 500, "{entered} came in, {missed} got another time");
}
