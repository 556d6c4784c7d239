//! Tests of TLS sessions: beside the formula over a list of all that ever happened.

use proptest::prelude::*;

use super::*;

const START: Timestamp = Timestamp::from_nanos(1_000_000_000_000);

/// Comes, and is let in if there is room.
fn come(sessions: &mut TlsSessions, now: Timestamp, session: Session, is_held: bool) -> bool {
    let has_room = sessions.arrive(now, session, is_held);
    if has_room {
        sessions.begin(session);
    } else {
        sessions.refuse();
    }
    has_room
}

#[derive(Clone, Debug)]
enum Operation {
    /// While requests wait for the limit, or do not.
    Come(Session, bool),
    Work(Session, f64),
    Elsewhere(f64),
    /// An interval that has lasted so many times T ends, with such a supply.
    Interval(u32, Option<f64>, bool),
}

fn session() -> impl Strategy<Value = Session> {
    prop_oneof![Just(Session::New), Just(Session::Resumed)]
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        8 => (session(), any::<bool>()).prop_map(|(session, held)| Operation::Come(session, held)),
        8 => (session(), 0.0..50.0).prop_map(|(session, units)| Operation::Work(session, units)),
        2 => (0.0..50.0).prop_map(Operation::Elsewhere),
        3 => (1..4_u32, prop::option::of(0.0..200.0), any::<bool>())
            .prop_map(|(times, capacity, given)| Operation::Interval(times, capacity, given)),
    ]
}

/// What an interval has seen.
#[derive(Clone, Copy, Default)]
struct Seen {
    /// Connections let in and work asked for, by kind: new, resumed.
    kinds: [(f64, f64); 2],
    elsewhere: f64,
    refused: u64,
    hellos: u32,
    held: u32,
    times: u32,
    is_given: bool,
}

/// Connections and work of a kind, over all intervals: one fades with each that follows in which any came.
fn known(intervals: &[Seen], kind: usize) -> (f64, f64) {
    let (mut connections, mut work) = (0.0, 0.0);
    for (index, interval) in intervals.iter().enumerate() {
        let ended = &intervals[index..intervals.len() - 1];
        let faded = ended.iter().filter(|seen| seen.kinds.iter().any(|kind| kind.0 > 0.0)).count();
        let weight = 0.98_f64.powi(i32::try_from(faded).unwrap());
        connections += interval.kinds[kind].0 * weight;
        work += interval.kinds[kind].1 * weight;
    }
    (connections, work)
}

/// What is expected a second after intervals that have ended, of something that was counted in each.
fn expected(intervals: &[Seen], counted: impl Fn(&Seen) -> f64) -> f64 {
    let per_s = |seen: &Seen| counted(seen) / (2.0 * f64::from(seen.times));
    let Some((first, more)) = intervals.split_first() else { return 0.0 };
    // As if it had been so over as many intervals as each lasted.
    more.iter().fold(per_s(first), |before, seen| {
        (0..seen.times).fold(before, |before, _| 0.7 * before + 0.3 * per_s(seen))
    })
}

/// The rate by the formula, after intervals that have ended.
fn rate(intervals: &[Seen], capacity: Option<f64>) -> Option<f64> {
    let mut boost = 1.0_f64;
    for seen in intervals {
        let grows =
            seen.refused > 0 && !seen.is_given && f64::from(seen.held) < 0.8 * f64::from(seen.hellos) - 1e-9;
        boost = if grows { (boost * 1.002).min(2.0) } else { (boost / 1.002).max(1.0) };
    }
    let [(new, new_work), (resumed, resumed_work)] = [0, 1].map(|kind| known(intervals, kind));
    if new == 0.0 || new_work == 0.0 {
        return None;
    }
    let arrivals = expected(intervals, |seen| seen.kinds[1].0);
    let of_resumed = if resumed > 0.0 { arrivals * resumed_work / resumed } else { 0.0 };
    let elsewhere = expected(intervals, |seen| seen.elsewhere);
    let capacity = capacity?;
    let left = |slack: f64| (slack * capacity * boost - elsewhere - of_resumed).max(0.0) * new / new_work;
    let last = intervals.last().unwrap();
    let asked = (last.kinds[0].1 + last.kinds[1].1 + last.elsewhere) / (2.0 * f64::from(last.times));
    let in_all = (capacity * boost - elsewhere).max(0.0) * new / (new_work + resumed_work);
    Some(if asked < 0.7 * capacity { left(1.0) } else { left(1.2).min(in_all) })
}

proptest! {
    #[test]
    fn the_rate_is_that_of_the_formula(operations in prop::collection::vec(operation(), 0..150)) {
        let mut now = START;
        let mut sessions = TlsSessions::new(now);
        let mut intervals = vec![Seen::default()];
        for operation in operations {
            let seen = intervals.last_mut().unwrap();
            let kind = |session| usize::from(session == Session::Resumed);
            match operation {
                Operation::Come(session, is_held) => {
                    let has_room = come(&mut sessions, now, session, is_held);
                    seen.hellos += 1;
                    seen.held += u32::from(is_held);
                    prop_assert!(has_room || session == Session::New, "who resumes is let in");
                    seen.kinds[kind(session)].0 += f64::from(u8::from(has_room));
                    seen.refused += u64::from(!has_room);
                }
                Operation::Work(session, units) => {
                    sessions.work(session, units);
                    seen.kinds[kind(session)].1 += units;
                }
                Operation::Elsewhere(units) => {
                    sessions.work_elsewhere(units);
                    seen.elsewhere += units;
                }
                Operation::Interval(times, capacity, is_given) => {
                    now = now + INTERVAL * times - Duration::from_nanos(1);
                    prop_assert_eq!(sessions.is_due(now), times > 1);
                    now = now + Duration::from_nanos(1);
                    prop_assert!(sessions.is_due(now));
                    sessions.interval(now, Supply { capacity, is_given });
                    (seen.times, seen.is_given) = (times, is_given);
                    match (sessions.rate(), rate(&intervals, capacity)) {
                        (None, None) => {}
                        (Some(is), Some(by_formula)) => {
                            prop_assert!((is - by_formula).abs() <= 1e-6 * by_formula.max(1e-3), "{} for {}", is, by_formula);
                        }
                        (is, by_formula) => prop_assert!(false, "{:?} for {:?}", is, by_formula),
                    }
                    intervals.push(Seen::default());
                }
            }
        }
    }

    /// What is let in of a flood is the rate, and an interval's worth at once after a quiet spell.
    #[test]
    fn a_flood_is_let_in_at_the_rate(capacity in 1.0..500.0, cost in 0.5..50.0, seconds in 1..30_u32) {
        let mut now = START;
        let mut sessions = TlsSessions::new(now);
        prop_assert!(come(&mut sessions, now, Session::New, true));
        sessions.work(Session::New, cost);
        now = now + INTERVAL;
        sessions.interval(now, Supply { capacity: Some(capacity), is_given: true });
        let rate = capacity / cost;
        let at_once = (rate * INTERVAL.as_secs_f64()).max(1.0);
        let mut admitted = 0.0;
        for _ in 0..seconds * 1000 {
            now = now + Duration::from_millis(1);
            admitted += f64::from(u8::from(sessions.arrive(now, Session::New, true)));
        }
        let expected = rate.min(1000.0) * f64::from(seconds);
        prop_assert!(admitted <= expected + at_once + 1.0, "{} of {}", admitted, expected);
        prop_assert!(admitted >= expected - 1.0, "{} of {}", admitted, expected);
    }
}

#[test]
fn who_resumes_leaves_less_for_newcomers_and_at_last_nothing() {
    let mut now = START;
    let mut sessions = TlsSessions::new(now);
    let mut rates = Vec::new();
    for resumed_per_interval in [0, 10, 40] {
        for _ in 0..60 {
            if come(&mut sessions, now, Session::New, true) {
                sessions.work(Session::New, 8.0);
            }
            for _ in 0..resumed_per_interval {
                assert!(come(&mut sessions, now, Session::Resumed, true));
                sessions.work(Session::Resumed, 10.0);
            }
            now = now + INTERVAL;
            sessions.interval(now, Supply { capacity: Some(130.0), is_given: true });
        }
        rates.push(sessions.rate().expect("is known"));
    }
    for (rate, expected) in rates.iter().zip([130.0 / 8.0, 80.0 / 8.0, 0.0]) {
        assert!((rate - expected).abs() < 1e-3, "{rates:?}");
    }
    assert!(!come(&mut sessions, now, Session::New, true), "not even the one token that a bucket holds");
}

#[test]
fn what_was_refused_counts_as_what_newcomers_bring() {
    let mut sessions = TlsSessions::new(START);
    assert!(come(&mut sessions, START, Session::New, true));
    sessions.work(Session::New, 12.0);
    let now = START + INTERVAL;
    sessions.interval(now, Supply { capacity: Some(0.0), is_given: true });
    for _ in 0..3 {
        assert!(!come(&mut sessions, now, Session::New, true));
    }
    assert!((sessions.refused_work() - 36.0).abs() < 1e-9);
}

/// Else what is taken for the capacity would be all there ever is.
#[test]
fn while_nobody_waits_more_than_the_capacity_is_tried() {
    let mut now = START;
    let mut sessions = TlsSessions::new(now);
    let mut rates = Vec::new();
    for is_held in [false, true] {
        for _ in 0..1000 {
            for _ in 0..100 {
                if come(&mut sessions, now, Session::New, is_held) {
                    sessions.work(Session::New, 10.0);
                }
            }
            now = now + INTERVAL;
            sessions.interval(now, Supply { capacity: Some(100.0), is_given: false });
        }
        rates.push(sessions.rate().expect("is known"));
    }
    for (rate, expected) in rates.iter().zip([20.0, 10.0]) {
        assert!((rate - expected).abs() < 1e-6, "{rates:?}");
    }
}

/// Else as many are let in at once as there is room for their first pages, and nobody while they go on.
#[test]
fn what_a_session_brings_later_is_kept_for_it() {
    const PAGES: usize = 10;
    let mut now = START;
    let mut sessions = TlsSessions::new(now);
    // A page an interval, each on a connection of its own; by the pages that are left.
    let mut under_way = [0_u32; PAGES];
    let mut loads = Vec::new();
    for _ in 0..400 {
        let mut load = 0.0;
        for left in 0..PAGES - 1 {
            under_way[left] = under_way[left + 1];
            for _ in 0..under_way[left] {
                assert!(come(&mut sessions, now, Session::Resumed, true));
                sessions.work(Session::Resumed, 1.0);
                load += 1.0;
            }
        }
        under_way[PAGES - 1] = 0;
        for _ in 0..60 {
            if come(&mut sessions, now, Session::New, true) {
                sessions.work(Session::New, 1.0);
                under_way[PAGES - 1] += 1;
                load += 1.0;
            }
            now = now + INTERVAL / 60;
        }
        sessions.interval(now, Supply { capacity: Some(40.0), is_given: true });
        loads.push(load / 2.0);
    }
    let settled = &loads[200..];
    let mean = settled.iter().sum::<f64>() / settled.len() as f64;
    let most = settled.iter().copied().fold(0.0, f64::max);
    assert!((36.0..=42.0).contains(&mean) && most < 48.0, "mean {mean}, most {most}: {settled:?}");
}
