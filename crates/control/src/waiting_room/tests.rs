//! Tests of the waiting room: by its grammar, and case by case.

mod apart;
mod between;
mod calls;
mod groups;
mod places;
mod restart;
mod sessions;
mod twice;

use std::time::Duration;

use proptest::prelude::*;

use super::{
    grammar::{Driver, Op, START, settings as any_settings},
    *,
};
use crate::knobs::{ClassRoomMethod, Knob, RoomMethod, RoomOrder, RoomRole, Scope, Value, Values};

const ONE: ClassId = ClassId(0);

fn s(seconds: f64) -> Timestamp {
    START + Duration::from_secs_f64(seconds)
}

fn settings() -> RoomSettings {
    let mut application = Values::defaults(Scope::Application);
    for (knob, value) in [
        (Knob::ROOM_METHOD, Value::Choice("fifo")),
        (Knob::ROOM_FILL, Value::Ratio(1.0)),
        (Knob::ROOM_SESSIONS, Value::Flag(false)),
        (Knob::ROOM_CLOCK_TOLERANCE, Value::Span(Duration::ZERO)),
    ] {
        application.set(knob, value).unwrap();
    }
    RoomSettings::from_values(&application, &[&Values::defaults(Scope::Class)])
}

fn room_of(settings: &RoomSettings, per_s: f64) -> Room {
    let mut room = Room::new(settings, [1, 2], START);
    tell(&mut room, START, per_s);
    room
}

fn tell(room: &mut Room, now: Timestamp, per_s: f64) {
    room.observe(now, Capacity { per_s: Some(per_s), pace: None }, std::iter::empty());
}

/// Asks so often; the promises that come of it.
fn ask(room: &mut Room, now: Timestamp, people: usize) -> Vec<Promise> {
    (0..people).filter_map(|_| promise(room.ask(now, ONE))).collect()
}

fn promise(answer: Answer) -> Option<Promise> {
    match answer {
        Answer::Wait(place) => Some(place.promise),
        _ => None,
    }
}

fn how(answer: Answer) -> Option<How> {
    match answer {
        Answer::Enter(entry) => Some(entry.how),
        _ => None,
    }
}

fn slots(promises: &[Promise]) -> Vec<u64> {
    promises.iter().map(|promise| promise.at.since(START).as_secs()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn whatever_happens_promises_are_kept(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        let mut bytes = bytes.into_iter();
        let mut driver = Driver::new(&any_settings(|| bytes.next().unwrap_or(0)));
        driver.apply(&Op::Observe(Some(20), None));
        while let Some(op) = Op::read(&mut bytes) {
            driver.apply(&op);
        }
    }

    #[test]
    fn at_a_steady_capacity_nobody_is_let_in_before_those_who_wait_for_more_than_a_slot(
        per_s in 0.3_f64..300.0,
        fill in 0.5_f64..1.0,
        first_ms in 0_u64..1000,
        visits in prop::collection::vec((0_u64..400, 1_usize..80), 1..60),
    ) {
        let mut room = room_of(&RoomSettings { fill, ..settings() }, per_s);
        let mut now = START + Duration::from_millis(first_ms);
        let (mut out, mut direct): (Vec<Promise>, usize) = (Vec::new(), 0);
        for (later_ms, people) in visits {
            now = now + Duration::from_millis(later_ms);
            // A capacity that seems to move a little is no other one.
            tell(&mut room, now, per_s * (1.0 + 0.004 * (later_ms as f64 / 400.0 - 0.5)));
            let present = now.since(START).as_secs();
            out.retain(|promise| promise.at.since(START).as_secs() > present);
            for _ in 0..people {
                let last = out.iter().map(|promise| promise.at.since(START).as_secs()).max();
                match room.ask(now, ONE) {
                    Answer::Enter(_) => {
                        direct += 1;
                        prop_assert!(last.is_none_or(|last| last <= present + 1), "{last:?} at {now}");
                    }
                    Answer::Wait(place) => {
                        let at = place.promise.at.since(START).as_secs();
                        prop_assert!(last.is_none_or(|last| last <= at), "{last:?}, then {at}");
                        out.push(place.promise);
                    }
                    other => prop_assert_eq!(other, Answer::Refuse(Refusal::HorizonFull)),
                }
            }
        }
        // As much as can be done until now, a quarter of a slot besides, and one of each slot.
        let slots = (now.since(START).as_secs() + 1) as f64;
        prop_assert!(direct > 0 && direct as f64 <= per_s * 1.002 * (slots + 0.25) + slots, "{direct}");
    }
}

/// What is taken for a snapshot is written as it is read, and a room that goes on with it goes on.
#[test]
fn any_bytes_are_a_snapshot_or_none() {
    let room = {
        let mut room = room_of(&settings(), 10.0);
        ask(&mut room, START, 35);
        room.snapshot(s(0.5)).to_bytes()
    };
    bolero::check!().with_iterations(5_000).with_type::<(Vec<u8>, Vec<(u16, u8)>)>().for_each(
        |(bytes, slips)| {
            let mut slipped = room.clone();
            for (at, octet) in slips.iter().take(3) {
                let at = usize::from(*at) % slipped.len();
                slipped[at] = *octet;
            }
            let versions = (1..=5).map(|version| [&[version], &bytes[..]].concat());
            for bytes in versions.chain([slipped]) {
                let Ok(snapshot) = RoomSnapshot::from_bytes(&bytes) else { continue };
                assert_eq!(RoomSnapshot::from_bytes(&snapshot.to_bytes()).as_ref(), Ok(&snapshot));
                let mut room = room_of(&settings(), 10.0);
                room.restore(s(1.0), &snapshot);
                let _ = room.ask(s(2.0), ONE);
            }
        },
    );
}

#[test]
fn the_same_grammar_is_fuzzed() {
    bolero::check!().with_iterations(2_000).for_each(|bytes: &[u8]| {
        let mut bytes = bytes.iter().copied();
        let mut driver = Driver::new(&any_settings(|| bytes.next().unwrap_or(0)));
        while let Some(op) = Op::read(&mut bytes) {
            driver.apply(&op);
        }
    });
}

#[test]
fn a_burst_is_laid_into_the_next_seconds_in_order() {
    let mut room = room_of(&settings(), 10.0);
    let promises = ask(&mut room, START, 35);
    assert_eq!(slots(&promises), [&[1; 10][..], &[2; 10], &[3; 5]].concat(), "ten go on at once");
    assert!(promises.is_sorted_by_key(|promise| promise.at), "and within a second evenly");
    for promise in &promises {
        assert_eq!(how(room.come_back(promise.at, ONE, promise)), Some(How::Kept));
    }
}

#[test]
fn early_on_time_late_and_too_late() {
    let mut room = room_of(&settings(), 1.0);
    let out = ask(&mut room, START, 20);
    let seventh = &out[6];
    assert_eq!(promise(room.come_back(s(3.0), ONE, seventh)), Some(*seventh), "early: the same again");
    assert_eq!(how(room.come_back(s(7.9), ONE, seventh)), Some(How::Kept));
    assert_eq!(how(room.come_back(s(10.0), ONE, &out[7])), Some(How::Late));
    // The second is over and 30 s of grace with it. Twelve more wait then, and he has waited longer than that.
    let late = promise(room.come_back(s(33.5), ONE, &out[1]));
    assert_eq!(late, None, "nobody waits any more: he is let in");
    let mut room = room_of(&settings(), 1.0);
    let out = ask(&mut room, START, 200);
    let late = promise(room.come_back(s(35.0), ONE, &out[2])).unwrap();
    let newcomer = ask(&mut room, s(35.0), 1)[0];
    assert!(late.at < newcomer.at && late.since == out[2].since, "he has credit for 3 s");
    // The same token again is a newcomer's.
    let again = promise(room.come_back(s(35.0), ONE, &out[2])).unwrap();
    assert!(again.at >= newcomer.at);
}

#[test]
fn of_several_promises_the_one_counts_that_lets_in_first() {
    let mut room = room_of(&settings(), 1.0);
    let out = ask(&mut room, START, 200);
    let from = |room: &Room, now: f64, promise: &Promise| room.lets_in_from(s(now), promise);
    for promise in &out {
        assert_eq!(from(&room, 0.5, promise), Some(promise.at), "nobody came yet");
    }
    assert_eq!(how(room.come_back(s(7.9), ONE, &out[6])), Some(How::Kept));
    assert_eq!(from(&room, 7.9, &out[6]), None, "used");
    assert_eq!(from(&room, 7.9, &out[7]), Some(out[7].at));
    // The second and 30 s of grace are over.
    assert_eq!((from(&room, 32.9, &out[1]), from(&room, 33.0, &out[1])), (Some(out[1].at), None));
    let mut event =
        room_of(&RoomSettings { method: RoomMethod::Event, opens_at: Some(s(60.0)), ..settings() }, 1.0);
    let lot = ask(&mut event, START, 1)[0];
    assert_eq!(from(&event, 0.5, &lot), Some(s(60.0)));
    event.advance(s(60.5));
    let drawn = promise(event.come_back(s(60.5), ONE, &lot)).map_or(s(60.5), |place| place.at);
    assert!(from(&event, 60.5, &lot) <= Some(drawn));
    let unknown = Promise { at: s(1.0), ..lot };
    assert_eq!(from(&event, 60.5, &unknown), None, "of a draw that is not known");
}

#[test]
fn slots_are_filled_beyond_by_those_who_do_not_come() {
    let mut room = room_of(&settings(), 100.0);
    let mut came = Vec::new();
    let mut out: Vec<Promise> = Vec::new();
    for second in 0..300_u32 {
        let now = s(f64::from(second));
        tell(&mut room, now, 100.0);
        let mut due: Vec<Promise> = Vec::new();
        out.retain(|promise| {
            let is_due = promise.at < now + Duration::from_secs(1);
            due.extend(is_due.then_some(*promise));
            !is_due
        });
        // One in four does not come.
        let here: Vec<_> = due.iter().filter(|promise| !promise.number.is_multiple_of(4)).collect();
        for promise in &here {
            assert!(how(room.come_back(promise.at, ONE, promise)).is_some());
        }
        came.push(here.len());
        out.extend(ask(&mut room, s(f64::from(second) + 0.999), 200));
    }
    let late: usize = came[150..].iter().sum();
    let per_s = late / 150;
    assert!((94..=106).contains(&per_s), "{per_s} of 100 a second come");
    assert!((room.standing(s(300.0)).no_show - 0.25).abs() < 0.04);
}

#[test]
fn doors_open_and_those_who_came_before_come_in_by_lot_or_in_order() {
    for order in [RoomOrder::Shuffled, RoomOrder::InOrder] {
        let opens = s(60.0);
        let settings = RoomSettings { method: RoomMethod::Event, opens_at: Some(opens), order, ..settings() };
        let mut room = room_of(&settings, 10.0);
        let lots: Vec<Promise> = (0..300).flat_map(|n| ask(&mut room, s(f64::from(n) / 10.0), 1)).collect();
        assert!(lots.iter().all(|lot| lot.kind == Kind::Lot && lot.at == opens));
        assert_eq!(promise(room.come_back(s(59.0), ONE, &lots[0])), Some(lots[0]));
        let newcomer = ask(&mut room, s(60.1), 1)[0];
        assert!(newcomer.at >= s(90.0), "after all who came before: {}", newcomer.at);
        let places: Vec<Promise> = lots
            .iter()
            .map(|lot| promise(room.come_back(s(60.2), ONE, lot)).unwrap_or(Promise { at: s(60.2), ..*lot }))
            .collect();
        // Asked again, a lot says the same.
        assert_eq!(
            promise(room.come_back(s(60.3), ONE, &lots[299])),
            promise(room.come_back(s(60.3), ONE, &lots[299]))
        );
        assert!(places.iter().all(|place| place.at < s(92.0)));
        let in_order = places.is_sorted_by_key(|place| place.at);
        assert_eq!(in_order, order == RoomOrder::InOrder);
        for place in places.iter().filter(|place| place.at > s(61.0)) {
            assert!(
                how(room.come_back(place.at.max(s(60.3)), ONE, place))
                    .is_some_and(|how| how != How::Replayed)
                    || place.at < s(92.0)
            );
        }
    }
}

#[test]
fn rounds_are_shuffled_and_nobody_is_lost() {
    let settings = RoomSettings { method: RoomMethod::Random, ..settings() };
    let mut room = room_of(&settings, 10.0);
    let lots = ask(&mut room, s(0.1), 200);
    assert!(lots.len() >= 190 && lots.iter().all(|lot| lot.kind == Kind::Lot));
    let drawn = lots[0].at + Duration::from_millis(10);
    let mut places: Vec<Timestamp> = lots
        .iter()
        .map(|lot| promise(room.come_back(drawn, ONE, lot)).map_or(drawn, |place| place.at))
        .collect();
    assert!(!places.is_sorted(), "they are shuffled");
    places.sort_unstable();
    let span = places[places.len() - 1].since(places[0]);
    assert!((18..=21).contains(&span.as_secs()), "200 people, 10 a second: {span:?}");
}

#[test]
fn the_next_one_is_said_to_wait_for_the_draw_where_he_would_get_a_lot() {
    let of = |method| ClassRoom { method, ..ClassRoom::default() };
    let classes = vec![of(None), of(Some(ClassRoomMethod::Random))];
    let settings = RoomSettings { method: RoomMethod::Random, classes, ..settings() };
    let mut room = room_of(&settings, 2.0);
    let round = settings.round.as_secs_f64();
    let mut had_to_wait = 0;
    // Nobody; lots that wait for their draw; people who were drawn; and nobody again.
    for (at, people) in [(0.0, 0), (0.1, 40), (1.2, 0), (round + 1.2, 0), (round + 9.3, 2), (round * 6.0, 0)]
    {
        let now = s(at);
        tell(&mut room, now, 2.0);
        ask(&mut room, now, people);
        let group = room.groups(now).next().and_then(|group| group.next);
        for (class, said) in [(ONE, room.standing(now).next), (ClassId(1), group)] {
            let meets = match room.clone().ask(now, class) {
                Answer::Wait(place) => place.estimate.at.map(|at| at.since(now)),
                Answer::Enter(_) => Some(Duration::ZERO),
                other => panic!("{other:?}"),
            };
            had_to_wait += usize::from(meets > Some(Duration::ZERO));
            assert_eq!(said, meets, "{class:?} at {now}");
        }
    }
    assert!((4..12).contains(&had_to_wait), "{had_to_wait}");
}

#[test]
fn methods_are_switched_live() {
    let mut room = room_of(&settings(), 10.0);
    let out = ask(&mut room, START, 30);
    let with = |method| RoomSettings { method, ..settings() };
    room.configure(s(0.5), &with(RoomMethod::Closed));
    assert_eq!(room.ask(s(0.5), ONE), Answer::Refuse(Refusal::RoomClosed));
    assert_eq!(how(room.come_back(out[0].at, ONE, &out[0])), Some(How::Kept), "what was promised is kept");
    room.configure(s(1.2), &with(RoomMethod::Off));
    assert_eq!(how(room.ask(s(1.2), ONE)), Some(How::Unconcerned));
    room.configure(s(1.3), &with(RoomMethod::Wait));
    assert!(promise(room.ask(s(1.3), ONE)).is_some_and(|promise| promise.at >= s(2.0)));
    // Doors that will never open do not keep those who have a lot.
    room.configure(s(1.4), &with(RoomMethod::Event));
    let lot = promise(room.ask(s(1.4), ONE)).unwrap();
    assert_eq!(lot.kind, Kind::Lot);
    room.configure(s(1.5), &with(RoomMethod::Fifo));
    assert!(promise(room.come_back(s(1.6), ONE, &lot)).is_none_or(|place| place.kind == Kind::Place));
}

/// Newcomers are let in with the next slot then: who has a lot is not to be the last.
#[test]
fn who_has_a_lot_comes_in_where_everybody_is_to_wait_for_the_next_slot() {
    let with = |method| RoomSettings { method, ..settings() };
    for capacity in [None, Some(10.0)] {
        let mut room = Room::new(&with(RoomMethod::Event), [1, 2], START);
        room.observe(START, Capacity { per_s: capacity, pace: None }, std::iter::empty());
        let lots = ask(&mut room, START, 5);
        assert_eq!(lots.len(), 5);
        room.configure(s(0.5), &with(RoomMethod::Wait));
        for lot in &lots {
            assert!(room.look(s(0.6), lot).at.is_some_and(|at| at < s(2.0)));
            let how = how(room.come_back(s(1.9), ONE, lot));
            assert!(matches!(how, Some(How::Kept | How::Late)), "{how:?} at {capacity:?}");
        }
    }
}

/// A capacity that is known afterwards is for those who come then, not for lots whose holders went in long ago.
#[test]
fn lots_of_doors_that_opened_without_a_capacity_are_before_nobody() {
    let settings = RoomSettings { method: RoomMethod::Event, opens_at: Some(s(1.0)), ..settings() };
    let mut room = Room::new(&settings, [1, 2], START);
    room.observe(START, Capacity::default(), std::iter::empty());
    let lots = ask(&mut room, START, 300);
    room.observe(s(1.0), Capacity::default(), std::iter::empty());
    for lot in &lots {
        assert_eq!(how(room.come_back(s(1.5), ONE, lot)), Some(How::Unconcerned));
    }
    assert_eq!((room.standing(s(2.0)).waiting, room.standing(s(2.0)).opens), (0, None));
    tell(&mut room, s(60.0), 10.0);
    assert_eq!(room.standing(s(60.0)).next, Some(Duration::ZERO));
    assert_eq!(how(room.ask(s(60.0), ONE)), Some(How::Direct));
}

/// What was written is read before admission has said anything: lots that were due meanwhile wait for that.
#[test]
fn lots_are_not_drawn_before_it_is_known_whether_there_is_a_capacity() {
    let settings = RoomSettings { method: RoomMethod::Event, opens_at: Some(s(1.0)), ..settings() };
    let mut room = Room::new(&settings, [1, 2], START);
    let lots = ask(&mut room, START, 300);
    room.advance(s(2.0));
    tell(&mut room, s(2.0), 10.0);
    room.advance(s(2.1));
    assert!(lots.iter().any(|lot| room.look(s(2.1), lot).at.is_some_and(|at| at > s(30.0))));
}

/// Newcomers go on then: who waits is not to be the last.
#[test]
fn who_waits_hears_that_nobody_is_held_any_more() {
    let passing =
        RoomSettings { classes: vec![ClassRoom { queues: false, ..ClassRoom::default() }], ..settings() };
    let unknown = |room: &mut Room| room.observe(s(0.5), Capacity::default(), std::iter::empty());
    for role in [RoomRole::Both, RoomRole::Generate] {
        let held = RoomSettings { role, floor: Some(1.0), ..settings() };
        let mut room = room_of(&held, 1.0);
        let last = ask(&mut room, START, 30)[20];
        assert_eq!(room.look(s(0.5), &last).at, Some(last.at));
        let mut without_capacity = room.clone();
        unknown(&mut without_capacity);
        let mut without_room = room;
        without_room.configure(s(0.5), &RoomSettings { role, floor: Some(1.0), ..passing.clone() });
        for mut room in [without_capacity, without_room] {
            let at = if role == RoomRole::Generate { last.at } else { s(0.5) };
            assert_eq!(room.look(s(0.5), &last).at, Some(at), "{role:?}");
            if role == RoomRole::Both {
                assert_eq!(how(room.come_back(s(0.5), ONE, &last)), Some(How::Unconcerned));
            }
        }
    }
    // Doors hold whatever the capacity is, and one that is not told yet may be there.
    let mut room = room_of(&settings(), 1.0);
    let last = ask(&mut room, START, 30)[20];
    room.configure(s(0.5), &RoomSettings { method: RoomMethod::Closed, ..settings() });
    unknown(&mut room);
    assert_eq!(room.look(s(0.5), &last).at, Some(last.at));
    let room = Room::new(&settings(), [1, 2], START);
    assert_eq!(room.look(s(0.5), &last).at, Some(last.at));
}

#[test]
fn who_comes_late_is_not_let_in_before_doors_open() {
    for role in [RoomRole::Both, RoomRole::Generate] {
        let fifo = RoomSettings { role, floor: Some(10.0), grace: Duration::from_secs(1), ..settings() };
        let mut room = room_of(&fifo, 10.0);
        let out = ask(&mut room, START, 30);
        let opens = s(100.0);
        room.configure(s(1.0), &RoomSettings { method: RoomMethod::Event, opens_at: Some(opens), ..fifo });
        for late in &out[..10] {
            let lot = promise(room.come_back(s(20.0), ONE, late)).expect("doors hold him, too");
            assert_eq!((lot.kind, lot.at), (Kind::Lot, opens), "{role:?}");
        }
    }
}

#[test]
fn who_comes_late_to_closed_doors_has_his_credit_when_they_are_open() {
    let mut room = room_of(&settings(), 1.0);
    let out = ask(&mut room, START, 200);
    let late = &out[2];
    room.configure(s(34.0), &RoomSettings { method: RoomMethod::Closed, ..settings() });
    for second in [35.0, 36.0] {
        assert_eq!(room.come_back(s(second), ONE, late), Answer::Refuse(Refusal::RoomClosed));
    }
    room.configure(s(37.0), &settings());
    let again = promise(room.come_back(s(38.0), ONE, late)).expect("everything is promised");
    let newcomer = ask(&mut room, s(38.0), 1)[0];
    assert!(again.at < newcomer.at && again.since == late.since, "{again:?}, {newcomer:?}");
    // Once.
    let twice = promise(room.come_back(s(38.0), ONE, late)).expect("as a newcomer");
    assert!(twice.at >= newcomer.at, "{twice:?}, {newcomer:?}");
}

#[test]
fn a_full_horizon_refuses_and_a_class_has_its_share() {
    let mut settings = RoomSettings { horizon: Duration::from_secs(10), ..settings() };
    settings.classes = vec![ClassRoom::default(), ClassRoom { share: Some(0.2), ..ClassRoom::default() }];
    let mut room = Room::new(&settings, [1, 2], START);
    tell(&mut room, START, 10.0);
    let promises = ask(&mut room, START, 200);
    assert_eq!(promises.len(), 80, "eight a second, and the share of the other");
    assert_eq!(room.ask(START, ONE), Answer::Refuse(Refusal::HorizonFull));
    let other: Vec<_> = (0..4).filter_map(|_| promise(room.ask(START, ClassId(1)))).collect();
    assert_eq!(slots(&other), [1, 1, 2, 2]);
}

#[test]
fn a_heavy_class_takes_by_its_weight_of_a_capacity_that_is_given_and_else_what_is_learnt() {
    let heavy = ClassId(1);
    let room_with = |algorithm: &'static str, weight: u64| {
        let mut application = Values::defaults(Scope::Application);
        for (knob, value) in [
            (Knob::IN_FLIGHT_ALGORITHM, Value::Choice(algorithm)),
            (Knob::ROOM_METHOD, Value::Choice("wait")),
            (Knob::ROOM_FILL, Value::Ratio(1.0)),
            (Knob::ROOM_SESSIONS, Value::Flag(false)),
        ] {
            application.set(knob, value).unwrap();
        }
        let classes = [2, weight].map(|weight| {
            let mut class = Values::defaults(Scope::Class);
            class.set(Knob::WEIGHT, Value::Count(weight)).unwrap();
            class
        });
        RoomSettings::from_values(&application, &classes.each_ref())
    };
    let work = |room: &mut Room| promise(room.ask(s(0.5), heavy)).expect("a time").work;
    for (algorithm, expected) in
        [("fixed", 10_000), ("gradient2", 10_000), ("power_ratio", 1_000), ("knee_track", 1_000)]
    {
        let mut room = room_of(&room_with(algorithm, 20), 10.0);
        assert_eq!(work(&mut room), expected, "{algorithm}");
        room.configure(s(0.1), &room_with(algorithm, 4));
        assert_eq!(work(&mut room), expected.min(2_000), "{algorithm}");
        let costs = [(ONE, Some(1.0)), (heavy, Some(3.0))];
        room.observe(s(0.2), Capacity { per_s: Some(10.0), pace: None }, costs.into_iter());
        assert_eq!(work(&mut room), 3_000, "{algorithm}");
    }
}

#[test]
fn what_a_class_leaves_of_its_share_is_for_newcomers_only_where_they_overtake_nobody() {
    let mut settings = settings();
    settings.classes = vec![ClassRoom::default(), ClassRoom { share: Some(0.5), ..ClassRoom::default() }];
    let mut room = Room::new(&settings, [1, 2], START);
    tell(&mut room, START, 10.0);
    let early = ask(&mut room, START, 25);
    assert_eq!(early.len(), 15, "ten at once, whoever's share it is");
    assert_eq!(slots(&early), [1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3]);
    // The other's half of the next slot is free, and people wait: newcomers come behind them.
    let later = ask(&mut room, s(1.1), 2);
    assert_eq!(slots(&later), [4, 4]);
    assert_eq!(how(room.ask(s(1.2), ClassId(1))), Some(How::Direct), "he overtakes nobody of his own");
    // Nobody waits any more.
    assert_eq!(how(room.ask(s(4.1), ONE)), Some(How::Direct));
    for _ in 0..6 {
        assert_eq!(how(room.ask(s(5.1), ONE)), Some(How::Direct), "more than a half of the slot");
    }
    // Where nobody can wait, nobody is overtaken.
    settings.classes[1].share = Some(1.0);
    let mut room = Room::new(&settings, [1, 2], START);
    tell(&mut room, START, 10.0);
    assert_eq!(ask(&mut room, START, 10).len(), 0);
    assert_eq!(room.ask(START, ONE), Answer::Refuse(Refusal::HorizonFull));
    assert_eq!(how(room.ask(s(1.0), ONE)), Some(How::Direct));
}

#[test]
fn without_a_capacity_only_doors_hold_people_and_those_who_are_to_wait_come_in_with_the_next_slot() {
    let with = |method| RoomSettings { method, ..settings() };
    for method in [RoomMethod::Fifo, RoomMethod::Random] {
        let mut room = Room::new(&with(method), [1, 2], START);
        room.observe(START, Capacity::default(), std::iter::empty());
        assert_eq!(how(room.ask(START, ONE)), Some(How::Unconcerned));
        // Refused by admission, he is told why, and nothing of a line there is not.
        assert_eq!(how(room.missed(START, ONE, None)), Some(How::Unconcerned));
    }
    let mut room = Room::new(&with(RoomMethod::Closed), [1, 2], START);
    assert_eq!(room.ask(START, ONE), Answer::Refuse(Refusal::RoomClosed));
    let mut room = Room::new(&with(RoomMethod::Event), [1, 2], START);
    assert_eq!(promise(room.ask(START, ONE)).map(|lot| lot.kind), Some(Kind::Lot));

    let sessions = SessionSettings { idle: Duration::from_secs(60), total: Duration::from_secs(600) };
    let settings = RoomSettings { sessions: Some(sessions), ..with(RoomMethod::Wait) };
    let mut room = Room::new(&settings, [1, 2], START);
    room.observe(START, Capacity::default(), std::iter::empty());
    let promises = ask(&mut room, START, 1000);
    assert_eq!(slots(&promises), [1; 1000]);
    assert_eq!(room.standing(START).next, Some(settings.slot));
    assert_eq!(promise(room.come_back(s(0.5), ONE, &promises[0])), Some(promises[0]), "not before");
    for promise in &promises {
        // A filter for so few places takes many for used.
        let Answer::Enter(entry) = room.come_back(s(1.1), ONE, promise) else { panic!("he is let in") };
        assert!(matches!(entry.how, How::Kept | How::Unconcerned) && entry.pass.is_some(), "{entry:?}");
    }
    // Once there is a capacity it holds, for him too who cannot be served.
    tell(&mut room, s(1.2), 10.0);
    assert_eq!(slots(&ask(&mut room, s(1.2), 20)).last(), Some(&3));
    room.check_invariants();
}

#[test]
fn a_group_of_classes_has_doors_of_its_own() {
    let of = |method| ClassRoom { method, ..ClassRoom::default() };
    let with = |method, own: [Option<ClassRoomMethod>; 2]| {
        let classes = vec![of(None), of(own[0]), of(own[1])];
        RoomSettings { method, opens_at: Some(s(60.0)), classes, ..settings() }
    };
    let (shop, tickets, news) = (ClassId(0), ClassId(1), ClassId(2));
    // Tickets wait for the doors with everybody; for news there are none.
    let mut room = room_of(&with(RoomMethod::Event, [None, Some(ClassRoomMethod::Fifo)]), 10.0);
    for class in [shop, tickets] {
        assert_eq!(promise(room.ask(START, class)).map(|lot| lot.kind), Some(Kind::Lot));
    }
    assert_eq!(how(room.ask(START, news)), Some(How::Direct));
    let due: Vec<Promise> = (0..30).filter_map(|_| promise(room.ask(START, news))).collect();
    assert!(due.iter().all(|promise| promise.kind == Kind::Place) && due.len() >= 20, "{}", due.len());
    // News are closed for newcomers: promises that are out are kept, and the others go on.
    room.configure(START, &with(RoomMethod::Fifo, [None, Some(ClassRoomMethod::Closed)]));
    assert_eq!(room.ask(START, news), Answer::Refuse(Refusal::RoomClosed));
    assert_eq!(how(room.come_back(due[0].at, news, &due[0])), Some(How::Kept));
    assert!(promise(room.ask(s(1.0), shop)).is_some() && promise(room.ask(s(1.0), tickets)).is_some());
    // Two classes that say the same are one group.
    let closed = Some(ClassRoomMethod::Closed);
    room.configure(s(2.0), &with(RoomMethod::Fifo, [closed, closed]));
    for class in [tickets, news] {
        assert_eq!(room.ask(s(2.0), class), Answer::Refuse(Refusal::RoomClosed));
    }
    // All are closed but them.
    let open = Some(ClassRoomMethod::Fifo);
    room.configure(s(20.0), &with(RoomMethod::Closed, [open, Some(ClassRoomMethod::Wait)]));
    assert_eq!(room.ask(s(20.0), shop), Answer::Refuse(Refusal::RoomClosed));
    assert!(how(room.ask(s(20.0), tickets)).is_some(), "there is room");
    assert!(promise(room.ask(s(20.0), news)).is_some(), "for the next slot at least");
    assert_eq!(room.standing(s(20.0)).next, None, "of the default class");
    // Where there is no room, there is none for them.
    room.configure(s(30.0), &with(RoomMethod::Off, [closed, closed]));
    assert_eq!(how(room.ask(s(30.0), news)), Some(How::Unconcerned));
    room.check_invariants();
}

#[test]
fn who_may_pass_by_does_until_the_end_of_it_whatever_the_method() {
    let mut settings = settings();
    settings.classes.push(ClassRoom::default());
    let mut room = room_of(&settings, 1.0);
    let bypass = Bypass { class: ClassId(1), issued: START, until: s(60.0), number: 7 };
    for method in [RoomMethod::Fifo, RoomMethod::Wait, RoomMethod::Closed, RoomMethod::Event] {
        room.configure(START, &RoomSettings { method, ..settings.clone() });
        for _ in 0..100 {
            assert!(room.bypass(s(1.0), ClassId(1), &bypass), "{method:?}");
        }
        assert!(!room.bypass(s(1.0), ONE, &bypass), "{method:?}: it is of another class");
    }
    assert_eq!(room.standing(s(1.0)).waiting, 0, "it takes nobody's place");
    assert!(room.bypass(s(59.999), ClassId(1), &bypass));
    assert!(!room.bypass(s(60.0), ClassId(1), &bypass), "it is over");
    let long = Bypass { until: START + BYPASS_MAX + Duration::from_secs(1), ..bypass };
    assert!(!room.bypass(s(60.0), ClassId(1), &long), "nothing of ours lasts so long");
}

#[test]
fn a_million_are_promised_in_order() {
    let mut room = room_of(&settings(), 1000.0);
    let mut last = START;
    for _ in 0..1_000_000 {
        if let Answer::Wait(place) = room.ask(START, ONE) {
            assert!(place.promise.at >= last, "nobody is overtaken");
            last = place.promise.at;
        }
    }
    assert_eq!(last.since(START).as_secs(), 999);
    assert_eq!(room.standing(START).waiting, 999_000);
    room.check_invariants();
}

#[test]
fn a_small_capacity_that_seems_to_move_a_little_gives_no_place_besides() {
    // 164.1 and 164.6 thousandths of a work unit a second: one more after rounding, which is more than half a percent.
    let mut room = room_of(&settings(), 0.1641);
    assert_eq!(how(room.ask(START, ONE)), Some(How::Direct));
    tell(&mut room, s(0.2), 0.1646);
    assert!(promise(room.ask(s(0.2), ONE)).is_some(), "the second one waits");
    tell(&mut room, s(0.3), 0.166);
    assert_eq!(room.standing(s(0.3)).for_newcomers, 0.166, "a capacity that has moved");
}
