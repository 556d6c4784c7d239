//! Sessions: passes, what they cost the capacity, and how they end.

use super::*;

#[test]
fn sessions_are_counted_within_the_capacity() {
    let sessions = SessionSettings { idle: Duration::from_secs(60), total: Duration::from_secs(600) };
    let settings = RoomSettings { sessions: Some(sessions), ..settings() };
    let mut room = room_of(&settings, 100.0);
    let mut passes: Vec<(Timestamp, Pass)> = Vec::new();
    let mut out: Vec<Promise> = Vec::new();
    let mut load = Vec::new();
    // Everybody makes four more requests, one each 10 s: five units a session, so 20 sessions a second.
    for second in 0..1_500_u32 {
        let now = s(f64::from(second));
        tell(&mut room, now, 100.0);
        let mut work = 0;
        passes.retain(|(begun, pass)| {
            let age = now.since(*begun).as_secs();
            if age > 0 && age.is_multiple_of(10) {
                assert!(matches!(room.pass(now, ONE, pass), PassAnswer::Enter { .. }));
                work += 1;
            }
            age < 40
        });
        let end = now + Duration::from_millis(999);
        let (due, rest): (Vec<_>, Vec<_>) = out.into_iter().partition(|promise| promise.at <= end);
        out = rest;
        let mut answers: Vec<Answer> =
            due.iter().map(|promise| room.come_back(promise.at, ONE, promise)).collect();
        answers.extend((0..60).map(|_| room.ask(end, ONE)));
        for answer in answers {
            match answer {
                Answer::Enter(entry) => {
                    work += 1;
                    // Whoever is taken for one who comes again, one in a thousand or two, gets none.
                    passes.extend(entry.pass.map(|pass| (now, pass)));
                }
                Answer::Wait(place) => out.push(place.promise),
                _ => {}
            }
        }
        load.push(work);
    }
    let mean = load[1_000..].iter().sum::<usize>() / 500;
    assert!((85..=112).contains(&mean), "{mean} requests a second of 100");
}

#[test]
fn who_has_a_pass_and_was_not_served_comes_again_before_all_newcomers() {
    let sessions = SessionSettings { idle: Duration::from_secs(60), total: Duration::from_secs(600) };
    let settings = RoomSettings { sessions: Some(sessions), ..settings() };
    let mut room = room_of(&settings, 10.0);
    let Answer::Enter(Entry { pass: Some(pass), .. }) = room.ask(START, ONE) else { panic!("there is room") };
    assert_eq!(slots(&ask(&mut room, START, 1000)).last(), Some(&100), "a long line");
    assert!(matches!(room.pass(s(2.0), ONE, &pass), PassAnswer::Enter { .. }));
    room.drain_counts(|_, _, _| {});
    let again = promise(room.missed_with_pass(s(2.5), ONE)).expect("a time");
    assert!(again.at.since(START) <= Duration::from_secs(4), "{}", again.at);
    // He comes by his pass: no promise is left that nobody comes for.
    assert!(matches!(room.pass(again.at, ONE, &pass), PassAnswer::Enter { .. }));
    let mut counted = Vec::new();
    room.drain_counts(|_, what, count| counted.push((what, count)));
    assert_eq!(counted, [(RoomCount::Passed, 1)]);
    // Where the room does not concern him he is refused like everybody.
    room.configure(s(4.0), &RoomSettings { method: RoomMethod::Off, ..settings });
    assert_eq!(how(room.missed_with_pass(s(4.0), ONE)), Some(How::Unconcerned));
}

#[test]
fn who_was_let_in_and_not_served_began_no_session() {
    let sessions = SessionSettings { idle: Duration::from_secs(60), total: Duration::from_secs(600) };
    let settings = RoomSettings { sessions: Some(sessions), ..settings() };
    // Of those let in half are not served and come again; each then does four requests more.
    let follow = |missed: usize| {
        let mut room = room_of(&settings, 1000.0);
        for second in 0..300 {
            let now = s(f64::from(second));
            for _ in 0..10 {
                let Answer::Enter(Entry { pass: Some(pass), .. }) = room.ask(now, ONE) else {
                    panic!("there is room")
                };
                for _ in 0..4 {
                    assert!(matches!(room.pass(now, ONE, &pass), PassAnswer::Enter { .. }));
                }
            }
            for _ in 0..missed {
                let Answer::Enter(Entry { pass: Some(pass), .. }) = room.ask(now, ONE) else {
                    panic!("there is room")
                };
                let _ = room.missed(now, ONE, None);
                assert!(matches!(room.pass(now, ONE, &pass), PassAnswer::Enter { .. }));
                let _ = room.missed_with_pass(now, ONE);
            }
        }
        room.advance(s(300.0));
        room.follow()
    };
    assert_eq!(follow(10), follow(0));
    assert!((3900..4000).contains(&follow(0)), "{}", follow(0));
}

#[test]
fn newcomers_come_later_for_the_sessions_that_stand_in_the_short_queue() {
    let sessions = SessionSettings { idle: Duration::from_secs(60), total: Duration::from_secs(600) };
    let settings = RoomSettings { sessions: Some(sessions), ..settings() };
    let next = |standing: f64, requests: usize| {
        let mut room = room_of(&settings, 100.0);
        for second in 0..60 {
            let now = s(f64::from(second));
            for _ in 0..10 {
                let Answer::Enter(Entry { pass: Some(pass), .. }) = room.ask(now, ONE) else {
                    panic!("there is room")
                };
                for _ in 0..requests {
                    assert!(matches!(room.pass(now, ONE, &pass), PassAnswer::Enter { .. }));
                }
            }
        }
        let pace =
            crate::capacity::Pace { may_come_per_s: 100.0, departs_per_s: 100.0, standing, error: 0.0 };
        room.observe(s(60.0), Capacity { per_s: Some(100.0), pace: Some(pace) }, std::iter::empty());
        room.advance(s(61.0));
        ask(&mut room, s(61.0), 200).last().map(|promise| promise.at.since(s(61.0)).as_secs())
    };
    assert_eq!(next(0.0, 0), Some(1));
    // 50 requests are half a slot.
    assert_eq!(next(50.0, 0), Some(2));
    // 50 sessions of five requests each are two and a half.
    let (before, after) = (next(0.0, 4).expect("a time"), next(50.0, 4).expect("a time"));
    assert!((2..=3).contains(&(after - before)), "{before}, {after}");
}

#[test]
fn a_pass_slides_ends_and_is_revoked() {
    let sessions = SessionSettings { idle: Duration::from_secs(60), total: Duration::from_secs(100) };
    let settings = RoomSettings { sessions: Some(sessions), ..settings() };
    let mut room = room_of(&settings, 100.0);
    let Answer::Enter(Entry { pass: Some(pass), .. }) = room.ask(START, ONE) else { panic!("there is room") };
    assert_eq!(room.pass(s(3.0), ONE, &pass), PassAnswer::Enter { renewed: None });
    let PassAnswer::Enter { renewed: Some(longer) } = room.pass(s(50.0), ONE, &pass) else {
        panic!("it slides")
    };
    assert_eq!(longer.until, s(100.0), "no longer than in all");
    assert_eq!(room.pass(s(63.75), ONE, &pass), PassAnswer::Over, "used at 3 s, and a little longer");
    assert_eq!(room.pass(s(100.0), ONE, &longer), PassAnswer::Over);
    room.revoke(s(90.0), &longer);
    assert_eq!(room.pass(s(90.0), ONE, &longer), PassAnswer::Over);
}

#[test]
fn a_pass_lasts_its_idle_time_from_its_last_use() {
    let idle = Duration::from_secs(60);
    let sessions = SessionSettings { idle, total: Duration::from_secs(6_000) };
    for used_ms in [1_000_u64, 20_000, 28_000, 31_000, 59_000] {
        let mut room = room_of(&RoomSettings { sessions: Some(sessions), ..settings() }, 100.0);
        let Answer::Enter(Entry { pass: Some(mut pass), .. }) = room.ask(START, ONE) else {
            panic!("there is room")
        };
        let mut now = START;
        for _ in 0..5 {
            for pause in [Duration::from_millis(used_ms), Duration::from_millis(59_990)] {
                now = now + pause;
                match room.pass(now, ONE, &pass) {
                    PassAnswer::Enter { renewed } => pass = renewed.unwrap_or(pass),
                    PassAnswer::Over => panic!("{pause:?} after its last use, at {now}: {pass:?}"),
                }
            }
        }
        assert_eq!(room.pass(now + idle + idle / 8, ONE, &pass), PassAnswer::Over, "and hardly longer");
    }
}

#[test]
fn a_pass_that_was_revoked_stays_so_over_a_restart_until_it_would_be_over() {
    let idle = Duration::from_secs(60);
    let of_sessions = |role| RoomSettings {
        sessions: Some(SessionSettings { idle, total: Duration::from_secs(600) }),
        role,
        ..settings()
    };
    let both = of_sessions(RoomRole::Both);
    let pass = |number| Pass { class: ONE, begun: START, until: s(60.0), number };
    let mut room = room_of(&both, 10.0);
    room.revoke(START, &Pass { begun: START - Duration::from_secs(590), until: s(5.0), ..pass(1) });
    room.revoke(s(1.0), &pass(2));
    let bytes = room.snapshot(s(20.0)).to_bytes();
    let restored = |settings: &RoomSettings| {
        let mut next = Room::new(settings, [3, 4], s(21.0));
        next.restore(s(21.0), &RoomSnapshot::from_bytes(&bytes).unwrap());
        next
    };
    let mut next = restored(&both);
    assert_eq!(next.pass(s(22.0), ONE, &pass(2)), PassAnswer::Over);
    assert!(matches!(next.pass(s(22.0), ONE, &pass(3)), PassAnswer::Enter { .. }), "another goes on");
    let both_kept = room.snapshot(s(2.0)).to_bytes().len();
    assert_eq!(bytes.len() + 16, both_kept, "the first is over and kept no more");

    // A check that has been started anew, too, hears it of the generator.
    let mut generator = restored(&of_sessions(RoomRole::Generate));
    let mut check = Room::new(&of_sessions(RoomRole::Check), [5, 6], s(22.0));
    let report = check.report(s(22.0));
    let answered = generator.heed(s(22.0), "check", &report);
    check.hear(s(22.0), &answered);
    assert_eq!(check.pass(s(23.0), ONE, &pass(2)), PassAnswer::Over);
}
