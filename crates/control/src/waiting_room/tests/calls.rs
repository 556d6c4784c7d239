//! Calls: who is next in line comes before newcomers where there is more room than was promised.

use super::*;
use crate::capacity::Pace;

/// A capacity that is found, and how fast people may come now.
fn find(room: &mut Room, now: Timestamp, per_s: f64, may_come_per_s: f64) {
    let pace = Pace { may_come_per_s, departs_per_s: per_s, standing: 0.0, error: 0.01 };
    room.observe(now, Capacity { per_s: Some(per_s), pace: Some(pace) }, std::iter::empty());
}

/// Fifty who wait for the five slots after the first one, at ten a second that are found.
fn line() -> (Room, Vec<Promise>) {
    let mut room = Room::new(&settings(), [1, 2], START);
    find(&mut room, START, 10.0, 10.0);
    let promises = ask(&mut room, START, 60);
    assert_eq!(slots(&promises), [1, 2, 3, 4, 5].map(|slot| [slot; 10]).concat());
    (room, promises)
}

fn is_called(room: &Room, now: Timestamp, promise: &Promise) -> bool {
    room.look(now, promise).at.is_some_and(|at| at <= now)
}

#[test]
fn who_is_next_in_line_comes_before_newcomers() {
    let (mut room, mut line) = line();
    assert!(!line.iter().any(|promise| is_called(&room, s(0.0), promise)), "no more room than was promised");
    // Half as many more may come, in the slot of the first ten.
    find(&mut room, s(1.0), 10.0, 15.0);
    let next: Vec<Promise> = line.drain(10..20).collect();
    assert!(next.iter().all(|promise| is_called(&room, s(1.0), promise)));
    assert!(!line[10..].iter().any(|promise| is_called(&room, s(1.0), promise)), "one slot after the other");
    for promise in &next[..5] {
        assert_eq!(how(room.come_back(s(1.0), ONE, promise)), Some(How::Kept));
    }
    assert!(!is_called(&room, s(1.0), &next[5]), "that was the room");
    let early = room.come_back(s(1.0), ONE, &next[5]);
    assert!(matches!(early, Answer::Wait(place) if place.promise == next[5]), "he keeps his time: {early:?}");
    assert_eq!(room.look(s(1.0), &line[10]).ahead, 15, "five of them are in");
    // Those who were called are let in once.
    assert_ne!(how(room.come_back(s(2.0), ONE, &next[0])), Some(How::Kept));
    // Promises are kept to who comes at his time.
    find(&mut room, s(2.0), 10.0, 15.0);
    for promise in &next[5..] {
        assert_eq!(how(room.come_back(s(2.0), ONE, promise)), Some(How::Kept));
    }
    // The five who are in left their room: with it ten more are called, and no newcomer is let in.
    assert!(promise(room.ask(s(2.0), ONE)).is_some_and(|told| told.at >= s(6.0)), "behind everybody");
    let called = line[10..].iter().filter(|promise| how(room.come_back(s(2.0), ONE, promise)).is_some());
    assert_eq!(called.count(), 10);
    assert!(promise(room.ask(s(2.0), ONE)).is_some_and(|told| told.at >= s(6.0)), "behind everybody");
    room.check_invariants();
}

#[test]
fn the_reach_grows_while_there_is_room_that_nobody_takes() {
    let (mut room, line) = line();
    let reach =
        |room: &Room, now| line[10..].iter().filter(|promise| is_called(room, now, promise)).count() / 10;
    let mut reached = Vec::new();
    for tenths in 10..20 {
        let now = START + Duration::from_millis(100 * tenths);
        find(&mut room, now, 10.0, 15.0);
        reached.push(reach(&room, now));
    }
    assert_eq!((reached[0], reached[4], reached[8]), (1, 2, 4), "{reached:?}");
    assert!(reached.is_sorted());
}

/// Nobody asks: newcomers fill the room, as much of it as there is.
#[test]
fn where_nobody_can_be_called_newcomers_come_in() {
    let (mut room, _) = line();
    find(&mut room, s(1.0), 10.0, 15.0);
    let direct = (0..20).filter(|_| how(room.ask(s(1.0), ONE)) == Some(How::Direct)).count();
    assert_eq!(direct, 5);
}

/// Those who could be called are all in, or do not come: who comes then is not kept waiting for what they have left.
#[test]
fn who_comes_after_everybody_was_called_goes_straight_in() {
    for stays_away in [false, true] {
        let (mut room, mut line) = line();
        if stays_away {
            line = line.into_iter().step_by(2).collect();
        }
        for tenths in 10..50 {
            let now = START + Duration::from_millis(100 * tenths);
            find(&mut room, now, 10.0, 60.0);
            line.retain(|promise| {
                !is_called(&room, now, promise) || how(room.come_back(now, ONE, promise)) != Some(How::Kept)
            });
        }
        assert_eq!(line, [], "everybody who asks is in");
        assert_eq!(room.standing(s(4.9)).waiting > 0, stays_away);
        assert_eq!(how(room.ask(s(4.9), ONE)), Some(How::Direct));
    }
}

#[test]
fn nobody_is_called_where_the_capacity_is_given() {
    let (mut room, line) = line();
    let pace = Pace { may_come_per_s: 15.0, departs_per_s: 10.0, standing: 0.0, error: 0.0 };
    room.observe(s(1.0), Capacity { per_s: Some(10.0), pace: Some(pace) }, std::iter::empty());
    assert!(!line[10..].iter().any(|promise| is_called(&room, s(1.0), promise)));
    // Nor before doors that are closed.
    let (mut room, line) = self::line();
    room.configure(s(0.5), &RoomSettings { method: RoomMethod::Closed, ..settings() });
    find(&mut room, s(1.0), 10.0, 15.0);
    assert!(!line[10..].iter().any(|promise| is_called(&room, s(1.0), promise)));
}

/// What those who were called have left of their slots is nobody's who comes later, after a restart and after knobs that lay slots
/// anew, too.
#[test]
fn what_they_leave_stays_closed_over_restarts_and_other_slots() {
    let (mut room, line) = line();
    find(&mut room, s(1.0), 10.0, 15.0);
    for promise in &line[10..15] {
        assert_eq!(how(room.come_back(s(1.0), ONE, promise)), Some(How::Kept));
    }
    let bytes = room.snapshot(s(1.1)).to_bytes();
    let mut next = Room::new(&settings(), [3, 4], s(1.2));
    next.restore(s(1.2), &RoomSnapshot::from_bytes(&bytes).unwrap());
    find(&mut next, s(1.2), 10.0, 10.0);
    room.configure(s(1.2), &RoomSettings { slot: Duration::from_millis(500), ..settings() });
    find(&mut room, s(1.2), 10.0, 10.0);
    for room in [&mut next, &mut room] {
        let told = ask(room, s(1.3), 1)[0];
        assert!(told.at >= s(5.0), "before those who were told {}", told.at);
    }
}

/// A promise is used, whatever slots and filters are after it: who was called comes in once.
#[test]
fn who_was_called_is_not_let_in_again_after_a_live_change() {
    let seconds = Duration::from_secs;
    for changed in [
        RoomSettings { grace: seconds(60), ..settings() },
        RoomSettings { horizon: seconds(7_200), ..settings() },
        RoomSettings { slot: Duration::from_millis(500), ..settings() },
        RoomSettings { role: RoomRole::Check, ..settings() },
    ] {
        let (mut room, mut line) = line();
        let mut called = Vec::new();
        for tenths in 10..30 {
            let now = START + Duration::from_millis(100 * tenths);
            find(&mut room, now, 10.0, 40.0);
            called.extend(line.extract_if(.., |promise| {
                is_called(&room, now, promise) && how(room.come_back(now, ONE, promise)) == Some(How::Kept)
            }));
        }
        assert!(called.iter().any(|promise| promise.at >= s(5.0)), "by seconds: {called:?}");
        room.configure(s(3.0), &changed);
        for promise in called {
            let now = promise.at.max(s(3.0));
            find(&mut room, now, 10.0, 10.0);
            let again = how(room.come_back(now, ONE, &promise));
            assert!(!matches!(again, Some(How::Kept | How::Late)), "{again:?} at {now}: {changed:?}");
        }
    }
}

/// A check's filters need not reach as far as those of a room that calls people.
#[test]
fn filters_reach_far_enough_after_another_role() {
    for role in [RoomRole::Check, RoomRole::Generate] {
        let mut room = Room::new(&RoomSettings { role, ..settings() }, [1, 2], START);
        room.configure(START, &settings());
        find(&mut room, START, 10.0, 10.0);
        let used = ask(&mut room, START, 20)[0];
        assert_eq!(how(room.come_back(used.at, ONE, &used)), Some(How::Kept));
        for second in 2..30 {
            let now = s(f64::from(second));
            find(&mut room, now, 10.0, 10.0);
            let again = how(room.come_back(now, ONE, &used));
            assert!(!matches!(again, Some(How::Kept | How::Late)), "{again:?} at {now}");
        }
    }
}
