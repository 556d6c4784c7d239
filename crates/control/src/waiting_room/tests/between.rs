//! Checks that hear of each other: used promises, revoked passes.

use super::{super::between::REVOKED_TOLD_MAX, *};

fn of(role: RoomRole) -> RoomSettings {
    let sessions = SessionSettings { idle: Duration::from_secs(60), total: Duration::from_secs(600) };
    RoomSettings { role, sessions: Some(sessions), ..settings() }
}

fn generator(secret: u64) -> Room {
    Room::new(&of(RoomRole::Generate), [secret, 8], START)
}

fn check(secret: u64, per_s: f64) -> Room {
    let mut check = Room::new(&of(RoomRole::Check), [secret, 8], START);
    tell(&mut check, START, per_s);
    check
}

/// A check reports and hears the answer.
fn report(generator: &mut Room, name: &str, check: &mut Room, now: Timestamp) -> Answered {
    let answered = generator.heed(now, name, &check.report(now));
    check.hear(now, &answered);
    check.check_invariants();
    generator.check_invariants();
    answered
}

fn pass(number: u64) -> Pass {
    Pass { class: ONE, begun: START, until: s(60.0), number }
}

fn holds(room: &mut Room, now: Timestamp, number: u64) -> bool {
    room.pass(now, ONE, &pass(number)) != PassAnswer::Over
}

#[test]
fn a_pass_revoked_at_one_check_is_over_at_all_and_stays_so() {
    let mut generator = generator(1);
    let (mut here, mut there) = (check(2, 10.0), check(3, 10.0));
    report(&mut generator, "here", &mut here, START);
    report(&mut generator, "there", &mut there, START);
    here.revoke(s(1.0), &pass(7));
    assert!(!holds(&mut here, s(1.0), 7) && holds(&mut there, s(1.0), 7));
    let own = report(&mut generator, "here", &mut here, s(1.1));
    assert!(own.revoked.is_empty(), "it is not told what it has told");
    assert!(!holds(&mut generator, s(1.1), 7));
    report(&mut generator, "there", &mut there, s(1.2));
    assert!(!holds(&mut there, s(1.2), 7) && holds(&mut there, s(1.2), 8), "that one and no other");
    assert!(report(&mut generator, "there", &mut there, s(1.7)).revoked.is_empty(), "once");

    // A copy that was renewed elsewhere before the news came is none either.
    let renewed = Pass { until: s(120.0), ..pass(7) };
    assert_eq!(there.pass(s(100.0), ONE, &renewed), PassAnswer::Over);

    // A check that is started anew hears what it had told itself, too.
    let mut again = check(4, 10.0);
    report(&mut generator, "here", &mut again, s(2.0));
    assert!(!holds(&mut again, s(2.0), 7));
    // A generator that is started anew hears all of it from those that know.
    let mut generator = self::generator(5);
    let first = report(&mut generator, "there", &mut there, s(3.0));
    assert_eq!(first.mark.map(|mark| mark.revoked), Some(0), "{first:?}");
    report(&mut generator, "there", &mut there, s(3.5));
    let mut newcomer = check(6, 10.0);
    report(&mut generator, "newcomer", &mut newcomer, s(4.0));
    assert!(!holds(&mut newcomer, s(4.0), 7));
}

#[test]
fn a_promise_used_at_one_check_is_used_at_all_once_both_have_reported() {
    let mut generator = generator(1);
    let (mut here, mut there) = (check(2, 10.0), check(3, 10.0));
    report(&mut generator, "here", &mut here, START);
    report(&mut generator, "there", &mut there, START);
    let out = ask(&mut generator, START, 60);
    let due: Vec<&Promise> = out.iter().filter(|promise| promise.at < s(2.0)).collect();
    assert!(due.len() >= 10, "{}", due.len());
    for promise in &due {
        assert_eq!(how(here.come_back(s(1.9), ONE, promise)), Some(How::Kept));
    }
    // The window that is left: until both have reported.
    assert_eq!(how(there.clone().come_back(s(1.9), ONE, due[0])), Some(How::Kept));
    let lost = here.report(s(1.95));
    assert_eq!(lost.used.len(), due.len());
    assert_eq!(report(&mut generator, "here", &mut here, s(2.0)).used, [], "its own");
    let heard = report(&mut generator, "there", &mut there, s(2.1));
    assert_eq!(heard.used.len(), due.len());
    let mut stranger = check(4, 10.0);
    report(&mut generator, "stranger", &mut stranger, s(2.2));
    for room in [&mut there, &mut stranger] {
        let met: Vec<_> =
            due.iter().filter_map(|promise| how(room.come_back(s(2.3), ONE, promise))).collect();
        assert!(met.iter().all(|how| *how == How::Replayed) && met.len() <= 1, "{met:?}");
        // Who was not in comes in.
        let next = out.iter().find(|promise| promise.at >= s(2.0) && promise.at < s(2.3)).expect("somebody");
        assert_eq!(how(room.come_back(s(2.3), ONE, next)), Some(How::Kept));
    }
    // What is told of slots in which nothing can be used takes no filter away.
    let far = (20..500_u32).map(|second| Used { slot: s(f64::from(second)), number: 1 });
    there.hear(s(2.3), &Answered { used: far.collect(), ..Answered::default() });
    assert_ne!(how(there.come_back(s(2.3), ONE, due[0])), Some(How::Kept));
    there.check_invariants();
}

/// Whoever stood in the short queue when the check was killed has not been served, and has no pass.
#[test]
fn a_check_started_anew_takes_those_who_may_have_stood_in_its_short_queue() {
    let mut generator = generator(1);
    let mut here = check(2, 10.0);
    report(&mut generator, "here", &mut here, START);
    let out = ask(&mut generator, START, 120);
    let mut used = Vec::new();
    for second in 1..10_u32 {
        let now = s(f64::from(second) + 0.9);
        let due = out.iter().filter(|promise| promise.at < now && !used.contains(*promise));
        let due: Vec<Promise> = due.copied().collect();
        for promise in &due {
            assert!(matches!(how(here.come_back(now, ONE, promise)), Some(How::Kept | How::Late)));
        }
        used.extend(due);
        report(&mut generator, "here", &mut here, now);
    }
    // The last report was at 9.9 s; it held for 5 s whom it could not serve at once.
    let mut again = check(4, 10.0);
    let heard = report(&mut generator, "here", &mut again, s(12.0));
    let (served, standing): (Vec<Promise>, Vec<Promise>) =
        used.into_iter().partition(|promise| promise.at < s(3.9));
    assert!(served.len() >= 20 && standing.len() >= 50, "{} and {}", served.len(), standing.len());
    assert_eq!(heard.used.len(), served.len());
    for promise in &standing {
        assert_eq!(how(again.come_back(s(12.1), ONE, promise)), Some(How::Late), "{promise:?}");
        assert_ne!(how(again.come_back(s(12.1), ONE, promise)), Some(How::Late), "once");
    }
    for promise in &served {
        let met = how(again.come_back(s(12.1), ONE, promise));
        assert!(!matches!(met, Some(How::Kept | How::Late)), "{met:?}");
    }
    // Others have not lost whom they let in.
    let mut there = check(3, 10.0);
    report(&mut generator, "there", &mut there, s(12.2));
    assert_ne!(how(there.come_back(s(12.3), ONE, &standing[0])), Some(How::Late));
}

#[test]
fn the_filter_of_a_check_has_room_for_those_of_all() {
    let mut generator = generator(1);
    let mut checks: Vec<Room> = (2..10).map(|secret| check(secret, 1000.0)).collect();
    for second in 0..12 {
        for (name, check) in ["a", "b", "c", "d", "e", "f", "g", "h"].iter().zip(&mut checks) {
            let answered = report(&mut generator, name, check, s(f64::from(second)));
            assert!(answered.part.is_some());
        }
    }
    // Eight thousand are let in in one second, each of them anywhere.
    let slot = s(11.0);
    let promise = |number: u64| Promise {
        kind: Kind::Place,
        class: ONE,
        since: START,
        at: slot,
        work: 1000,
        renewed: 0,
        number: super::super::mix(number),
    };
    let used = (0..7000).map(|number| Used { slot, number: promise(number).number });
    let elsewhere = Answered { used: used.collect(), part: Some(0.125), ..Answered::default() };
    checks[0].hear(s(11.1), &elsewhere);
    let mistaken = (7000..8000)
        .filter(|number| how(checks[0].come_back(s(11.5), ONE, &promise(*number))) != Some(How::Kept))
        .count();
    assert!(
        mistaken < 10,
        "{mistaken} of 1000; 0.06 % are one, and most were with a filter for its own places alone"
    );
}

#[test]
fn what_does_not_fit_is_told_later_or_not_at_all() {
    let mut generator = generator(1);
    let (mut here, mut there) = (check(2, 20_000.0), check(3, 20_000.0));
    report(&mut generator, "here", &mut here, START);
    report(&mut generator, "there", &mut there, START);
    // Twice as many revocations as one report holds, and more.
    let count = REVOKED_TOLD_MAX as u64 * 2 + 1;
    (0..count).for_each(|number| here.revoke(START, &pass(number)));
    let lost = here.report(START);
    assert_eq!(here.report(START).revoked, lost.revoked, "what did not arrive is told again");
    for (reports, left) in [(1, REVOKED_TOLD_MAX + 1), (2, 1), (3, 0)] {
        report(&mut generator, "here", &mut here, START);
        report(&mut generator, "there", &mut there, START);
        let unheard = (0..count).filter(|number| holds(&mut there, START, *number)).count();
        assert_eq!(unheard, left, "after {reports} reports");
    }
    // More used than a report holds: the rest is told nowhere.
    for number in 0..USED_MAX as u64 + 100 {
        let due = Promise {
            kind: Kind::Place,
            class: ONE,
            since: START,
            at: START,
            work: 1000,
            renewed: 0,
            number: super::super::mix(number),
        };
        let _ = here.come_back(START, ONE, &due);
    }
    assert_eq!(here.report(START).used.len(), USED_MAX);
    report(&mut generator, "here", &mut here, START);
    assert_eq!(here.report(START).used.len(), 0);
    // The generator remembers so many, and tells who has missed some the rest.
    let mark = report(&mut generator, "there", &mut there, START).mark.expect("a mark");
    assert_eq!((mark.revoked, mark.used), (count, USED_MAX as u64));
    for number in 0..20_u64 {
        let used = (0..USED_MAX as u64).map(|n| Used { slot: START, number: number << 32 | n }).collect();
        let _ = generator.heed(START, "here", &Report { used, ..Report::default() });
    }
    let late = generator.heed(START, "there", &Report { heard: Some(mark), ..Report::default() });
    assert_eq!(late.used.len(), 4 * USED_MAX);
    assert_eq!(late.used[0].number, 4 << 32, "the first of those that are left: 16 reports of 4096");
    // A mark of what was never told is none.
    let made_up = Mark { used: u64::MAX, ..mark };
    let all = generator.heed(START, "there", &Report { heard: Some(made_up), ..Report::default() });
    assert_eq!(all.used[0].number, 4 << 32);
}

#[test]
fn more_revocations_than_are_kept_forget_the_first() {
    let mut room = check(2, 10.0);
    (0..65_537).for_each(|number| room.revoke(START, &pass(number)));
    assert!(holds(&mut room, START, 0) && !holds(&mut room, START, 1) && !holds(&mut room, START, 65_536));
    // Those that are over make room.
    let now = s(599.0);
    let young = |number: u64| Pass { begun: now, until: now + Duration::from_secs(60), ..pass(number) };
    room.revoke(now, &young(100_000));
    room.revoke(s(601.0), &young(100_001));
    for number in [100_000, 100_001] {
        assert_eq!(room.pass(s(601.0), ONE, &young(number)), PassAnswer::Over);
    }
}

#[test]
fn a_used_promise_that_comes_late_has_no_credit_at_checks_and_generator() {
    let mut generator = generator(1);
    let (mut here, mut there) = (check(2, 10.0), check(3, 10.0));
    report(&mut generator, "here", &mut here, START);
    report(&mut generator, "there", &mut there, START);
    let out = ask(&mut generator, START, 60);
    let (used, absent) = (out[0], out[1]);
    assert_eq!(how(here.come_back(used.at, ONE, &used)), Some(How::Kept));
    for second in 1..=60 {
        let now = s(f64::from(second));
        report(&mut generator, "here", &mut here, now);
        report(&mut generator, "there", &mut there, now);
        ask(&mut generator, now, 40);
    }
    let now = s(60.5);
    for check in [&mut here, &mut there] {
        assert_eq!(check.come_back(now, ONE, &used), Answer::Elsewhere { with_promise: false });
        assert_eq!(check.come_back(now, ONE, &absent), Answer::Elsewhere { with_promise: true });
    }
    let given = |answer| promise(answer).expect("there is no room").since;
    assert_eq!(given(generator.come_back(now, ONE, &used)), now, "a newcomer");
    assert_eq!(given(generator.come_back(now, ONE, &absent)), absent.since, "he has waited");
    assert_eq!(given(generator.come_back(now, ONE, &absent)), now, "once");
}
