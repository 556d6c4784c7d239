//! Promises that come twice: replayed by cheats, or brought by two tabs of one browser at once.

use super::*;

#[test]
fn one_promise_lets_one_in() {
    let mut room = room_of(&settings(), 200.0);
    let out = ask(&mut room, START, 500);
    let mut kept = 0;
    let mut again = 0;
    for promise in out.iter().filter(|promise| promise.at < s(2.0)) {
        for n in 0..50 {
            match how(room.come_back(s(1.5), ONE, promise)) {
                Some(How::Kept) => kept += 1,
                Some(How::Replayed) => again += 1,
                None => assert!(n > 0, "the first time he is let in"),
                other => panic!("{other:?}"),
            }
        }
    }
    assert_eq!(kept, 200);
    assert!(again <= 2, "{again}: at most a hundredth of the slot's places, behind everybody");
}

#[test]
fn expired_and_replayed_promises_by_the_hundred_thousand_let_nobody_in() {
    let mut room = room_of(&settings(), 1000.0);
    let out = ask(&mut room, START, 101_000);
    let mut mistaken = 0;
    for promise in &out {
        // Used at their time …
        match how(room.come_back(promise.at, ONE, promise)) {
            Some(How::Kept) => {}
            Some(How::Replayed) => mistaken += 1,
            other => panic!("{other:?}"),
        }
    }
    assert!(mistaken < 130, "{mistaken} of 100,000 taken for used ones: 0.06 % are 57");
    let now = s(102.0);
    // … while there is no room for newcomers …
    ask(&mut room, now, 5_000);
    let mut entered = 0;
    for promise in &out {
        // … and again, within the grace or after it.
        entered +=
            u32::from(matches!(how(room.come_back(now, ONE, promise)), Some(how) if how != How::Replayed));
    }
    assert_eq!(entered, 0);
}

/// What is known of slots to come as they come within reach, while the capacity is searched for, is less than what comes.
#[test]
fn nobody_is_taken_for_another_once_the_capacity_turns_out_to_be_larger() {
    let mut room = room_of(&settings(), 8.0);
    tell(&mut room, s(2.0), 2000.0);
    let out = ask(&mut room, s(2.0), 40_000);
    let mistaken = out.iter().filter(|promise| {
        let taken_for = how(room.come_back(promise.at, ONE, promise));
        assert!(!matches!(taken_for, Some(How::Late | How::Direct)), "{taken_for:?}");
        taken_for != Some(How::Kept)
    });
    let mistaken = mistaken.count();
    assert!(mistaken < 100, "{mistaken} of {} taken for used ones: 0.06 % are 23", out.len());
}

#[test]
fn a_second_tab_at_the_same_second_comes_in_by_the_pass_of_the_first() {
    let sessions = SessionSettings { idle: Duration::from_secs(60), total: Duration::from_secs(600) };
    let mut room = room_of(&RoomSettings { sessions: Some(sessions), ..settings() }, 20.0);
    let out = ask(&mut room, START, 200);
    let due: Vec<&Promise> = out.iter().filter(|promise| promise.at < s(2.0)).collect();
    assert!(due.len() >= 5, "{} are due in the first second", due.len());
    room.advance(s(1.9));
    let waiting = room.standing(s(1.9)).waiting;
    let (mut behind, mut passes) = (0, Vec::new());
    for promise in &due {
        let Answer::Enter(Entry { how: How::Kept, pass: Some(pass), .. }) =
            room.come_back(s(1.9), ONE, promise)
        else {
            panic!("the first tab comes in")
        };
        passes.push(pass);
        match room.come_back(s(1.9), ONE, promise) {
            Answer::Enter(entry) => {
                assert_eq!((entry.how, entry.priority, entry.pass), (How::Replayed, Some(0), None));
                behind += 1;
                // If the short queue has no room for him, he comes again like the others.
                comes_again(room.not_again(s(1.9), ONE, promise), promise);
            }
            answer => comes_again(answer, promise),
        }
    }
    assert_eq!(behind, 1, "a hundredth of the places, and one of them at once");
    assert_eq!(room.standing(s(1.9)).waiting, waiting, "nobody was given another place");
    for pass in &passes {
        assert_eq!(room.pass(s(2.9), ONE, pass), PassAnswer::Enter { renewed: None }, "and is in then");
    }
    // Who has no pass of a first tab gains nothing by coming again and again while others wait: a hundredth of a hundred places is
    // one each five seconds …
    for second in 3..6 {
        let now = s(f64::from(second));
        assert_eq!(how(room.come_back(now, ONE, due[1])), None, "{now}");
    }
    // … and is held off no longer than a newcomer.
    let mut newcomers = room.clone();
    let Answer::Enter(newcomer) = newcomers.ask(s(12.0), ONE) else { panic!("nobody waits any more") };
    let Answer::Enter(entry) = room.come_back(s(12.0), ONE, due[1]) else {
        panic!("he is held off an empty room")
    };
    assert_eq!((entry.how, entry.priority), (newcomer.how, newcomer.priority));
    let pass = entry.pass.expect("one he can go on with");
    assert_eq!(room.pass(s(13.0), ONE, &pass), PassAnswer::Enter { renewed: None });
    // As often as newcomers may, and no more often.
    let more = |room: &mut Room, mut f: Box<dyn FnMut(&mut Room) -> Answer>| {
        (0..50).take_while(|_| matches!(how(f(room)), Some(How::Direct))).count()
    };
    let _ = newcomers.ask(s(13.0), ONE);
    let used = *due[1];
    let of_newcomers = more(&mut newcomers, Box::new(|room| room.ask(s(14.0), ONE)));
    let of_him = more(&mut room, Box::new(move |room| room.come_back(s(14.0), ONE, &used)));
    assert!(
        of_him > 0 && of_him <= of_newcomers,
        "{of_him} entries with one token, of newcomers {of_newcomers}"
    );
}

#[test]
fn used_promises_take_a_hundredth_of_the_smallest_capacity_too() {
    let sessions = SessionSettings { idle: Duration::from_secs(60), total: Duration::from_secs(600) };
    let mut room = room_of(&RoomSettings { sessions: Some(sessions), ..settings() }, 2.0);
    let (mut out, mut again) = (ask(&mut room, START, 20), 0);
    for second in 1..=500 {
        let now = s(f64::from(second));
        out.extend(ask(&mut room, now, 3));
        let due = out.iter().position(|promise| promise.at > now).unwrap_or(out.len());
        for promise in out.drain(..due) {
            assert!(matches!(how(room.come_back(now, ONE, &promise)), Some(How::Kept | How::Late)));
            for _ in 0..5 {
                again += u32::from(how(room.come_back(now, ONE, &promise)) == Some(How::Replayed));
            }
        }
    }
    assert!((8..=11).contains(&again), "{again} of a thousand places");
}

#[test]
fn what_was_used_stays_used_though_the_capacity_is_forgotten_meanwhile() {
    let mut room = room_of(&settings(), 20.0);
    let out = ask(&mut room, START, 60);
    let due = out.iter().find(|promise| promise.at >= s(1.0)).expect("somebody waits");
    assert_eq!(how(room.come_back(s(1.5), ONE, due)), Some(How::Kept));
    room.observe(s(1.6), Capacity::default(), std::iter::empty());
    tell(&mut room, s(1.7), 20.0);
    assert_ne!(how(room.come_back(s(1.8), ONE, due)), Some(How::Kept));
}

fn comes_again(answer: Answer, promise: &Promise) {
    let Answer::Wait(place) = answer else { panic!("{answer:?}: he is to come again") };
    assert_eq!(place.promise, *promise, "it is no other place");
    assert_eq!(place.estimate.at, Some(s(2.9)), "a second later");
}

#[test]
fn without_passes_a_second_tab_is_a_newcomer() {
    let mut room = room_of(&settings(), 10.0);
    let out = ask(&mut room, START, 100);
    for _ in 0..2 {
        assert!(how(room.come_back(out[0].at, ONE, &out[0])).is_some(), "once, and once behind everybody");
    }
    let end = out[out.len() - 1].at;
    for answer in [room.come_back(s(1.9), ONE, &out[0]), room.not_again(s(1.9), ONE, &out[0])] {
        assert!(promise(answer).is_some_and(|place| place.at > end), "{answer:?}");
    }
}

#[test]
fn a_used_promise_has_no_credit_when_it_comes_late() {
    for kind in [Kind::Place, Kind::Lot] {
        let doors = if kind == Kind::Lot { RoomMethod::Random } else { RoomMethod::Fifo };
        let mut room = room_of(&RoomSettings { method: doors, ..settings() }, 2.0);
        let given = ask(&mut room, START, 200);
        let told = s(20.0);
        let due = |promise: &&Promise| promise.kind == kind || promise.at < told;
        let used: Vec<Promise> = given.iter().filter(due).copied().take(20).collect();
        let mut let_in = Vec::new();
        for second in 1..=200 {
            let now = s(f64::from(second));
            // Newcomers come faster than they may.
            ask(&mut room, now, 4);
            for promise in &used {
                if !let_in.contains(promise) && how(room.come_back(now, ONE, promise)) == Some(How::Kept) {
                    let_in.push(*promise);
                }
            }
        }
        assert_eq!(let_in.len(), used.len(), "{kind:?}: all of them were let in");
        let end = s(290.0);
        let newcomer = promise(room.ask(end, ONE)).expect("there is no room");
        for used in &used {
            let again = promise(room.come_back(end, ONE, used)).expect("there is no room");
            assert!(again.at >= newcomer.at, "{kind:?}: {again:?} before {newcomer:?}");
            assert_eq!(again.since, end, "{kind:?}: who has used it is a newcomer");
        }
    }
}

#[test]
fn late_ones_have_credit_though_their_neighbours_have_used_theirs() {
    let mut room = room_of(&settings(), 100.0);
    let out = ask(&mut room, START, 100 * 60);
    let (mut absent, mut credited) = (Vec::new(), 0);
    for (n, promise) in out.iter().enumerate() {
        if n % 10 == 0 {
            absent.push(*promise);
        } else {
            assert!(how(room.come_back(promise.at, ONE, promise)).is_some());
        }
    }
    let end = s(100.0);
    ask(&mut room, end, 20_000);
    for late in absent.iter().filter(|promise| promise.at > s(10.0)) {
        credited +=
            usize::from(promise(room.come_back(end, ONE, late)).is_some_and(|now| now.since == late.since));
    }
    let all = absent.iter().filter(|promise| promise.at > s(10.0)).count();
    assert!(credited + 5 >= all, "{credited} of {all}; 0.06 % are taken for used ones");
}

#[test]
fn a_live_change_forgets_neither_what_was_used_nor_who_is_to_come() {
    let base = RoomSettings { grace: Duration::from_secs(10), ..settings() };
    let seconds = Duration::from_secs;
    for changed in [
        RoomSettings { grace: seconds(60), ..base.clone() },
        RoomSettings { grace: seconds(5), ..base.clone() },
        RoomSettings { horizon: seconds(20), ..base.clone() },
        RoomSettings { horizon: seconds(7_200), ..base.clone() },
        RoomSettings { clock_tolerance: seconds(2), ..base.clone() },
        RoomSettings { slot: Duration::from_millis(500), ..base.clone() },
    ] {
        let mut room = room_of(&base, 2.0);
        let out = ask(&mut room, START, 62);
        for used in &out[..10] {
            assert_eq!(how(room.come_back(used.at, ONE, used)), Some(How::Kept));
            room.served(used.at, ONE);
        }
        let now = s(9.0);
        room.configure(now, &changed);
        for used in &out[..10] {
            let again = how(room.come_back(now, ONE, used));
            assert!(!matches!(again, Some(How::Kept | How::Late)), "{again:?}: {changed:?}");
        }
        for late in &out[10..13] {
            assert!(
                matches!(how(room.come_back(now, ONE, late)), Some(How::Kept | How::Late)),
                "{changed:?}"
            );
            room.served(now, ONE);
        }
        if changed.slot != base.slot {
            continue;
        }
        // The second time, with what the first has moved.
        room.configure(s(9.2), &base);
        for due in out.iter().filter(|due| due.at > s(25.0)) {
            assert_eq!(how(room.come_back(due.at, ONE, due)), Some(How::Kept));
            room.served(due.at, ONE);
        }
        room.advance(s(200.0));
        let mut counted = std::collections::BTreeMap::new();
        room.drain_counts(|_, what, count| *counted.entry(what).or_default() += count);
        let of = |what| counted.get(&what).copied().unwrap_or(0_u64);
        let ends = of(RoomCount::Kept) + of(RoomCount::Missed) + of(RoomCount::NoShow);
        assert_eq!(of(RoomCount::Promised), ends, "{counted:?} {changed:?}");
    }
}

/// The filter of his slot is gone by then, and what is known of others who were promised it is not.
#[test]
fn who_has_come_and_comes_again_after_the_grace_does_not_pass_for_another() {
    let mut room = room_of(&RoomSettings { grace: Duration::ZERO, ..settings() }, 2.0);
    let out = ask(&mut room, START, 4);
    let [used, _other] = out[..] else { panic!("two go on, two are promised the next second: {out:?}") };
    assert_eq!(how(room.come_back(s(1.0), ONE, &used)), Some(How::Kept));
    assert_eq!(room.no_shows.unseen(), 1);
    // Nobody is held back where no capacity is known.
    room.observe(s(1.1), Capacity::default(), std::iter::empty());
    assert_eq!(how(room.come_back(s(3.0), ONE, &used)), Some(How::Unconcerned));
    assert_eq!(room.no_shows.unseen(), 1, "the other one has not come");
    room.advance(s(9.0));
    let mut absent = 0;
    room.drain_counts(|_, what, count| absent += if what == RoomCount::NoShow { count } else { 0 });
    assert_eq!(absent, 1);
}
