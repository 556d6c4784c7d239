//! What survives the process, and what of it was not written.

use super::*;

#[test]
fn what_is_promised_survives_the_process() {
    let mut room = room_of(&settings(), 10.0);
    let out = ask(&mut room, START, 100);
    let bytes = room.snapshot(s(0.5)).to_bytes();
    assert!(bytes.len() < 1_000, "{} bytes for ten slots", bytes.len());
    // Ten more, of which nothing is written.
    let lost = ask(&mut room, s(0.9), 10);
    let mut next = Room::new(&settings(), [3, 4], s(3.2));
    tell(&mut next, s(3.2), 10.0);
    next.restore(s(3.2), &RoomSnapshot::from_bytes(&bytes).unwrap());
    let newcomer = ask(&mut next, s(3.2), 1)[0];
    assert!(
        newcomer.at > lost.iter().map(|promise| promise.at).max().unwrap(),
        "the unwritten second is full"
    );
    for promise in out.iter().chain(&lost).filter(|promise| promise.at > s(3.2)) {
        assert_eq!(how(next.come_back(promise.at, ONE, promise)), Some(How::Kept));
    }
    assert_eq!(RoomSnapshot::from_bytes(&[9]), Err(SnapshotFault::Version { found: 9 }));
    assert!(matches!(RoomSnapshot::from_bytes(&bytes[..20]), Err(SnapshotFault::Damaged { .. })));
    // As the sixth wrote it, without the one class's name and lane, the fourth without passes, too, and the first without the fifth
    // number and lanes.
    let sixth = &bytes[..bytes.len() - 8 - 24];
    let of =
        |version: u8, parts: &[&[u8]]| RoomSnapshot::from_bytes(&[&[version], &parts.concat()[..]].concat());
    let read = of(6, &[&sixth[1..]]);
    assert_eq!(read.as_ref().map(RoomSnapshot::at), Ok(s(0.5)));
    let end = sixth.len() - 8;
    assert_eq!(of(4, &[&bytes[1..end]]), read);
    assert_eq!(of(1, &[&bytes[1..33], &bytes[41..end - 8 * LANES_MAX]]), read);
}

/// Who is drawn while no capacity is known is laid into one slot that takes any number, and of a longer one two and a half times that.
#[test]
fn doors_that_opened_without_a_capacity_survive_longer_slots_and_the_process() {
    let settings = RoomSettings { method: RoomMethod::Event, opens_at: Some(s(1.0)), ..settings() };
    let mut room = Room::new(&settings, [1, 2], START);
    room.observe(START, Capacity::default(), std::iter::empty());
    let lots = ask(&mut room, START, 14);
    room.observe(s(1.0), Capacity::default(), std::iter::empty());
    let longer = RoomSettings { slot: Duration::from_millis(2500), ..settings };
    room.configure(s(2.0), &longer);
    let bytes = room.snapshot(s(2.0)).to_bytes();
    let mut next = Room::new(&longer, [3, 4], s(3.0));
    next.observe(s(3.0), Capacity::default(), std::iter::empty());
    next.restore(s(3.0), &RoomSnapshot::from_bytes(&bytes).expect("what was written reads back"));
    for lot in &lots {
        assert_eq!(how(next.come_back(s(3.5), ONE, lot)), Some(How::Unconcerned));
    }
}

#[test]
fn the_second_that_was_not_written_protects_each_class_with_a_share() {
    for shares in [[0.5, 0.5], [0.2, 0.3]] {
        let with = shares.map(|share| ClassRoom { share: Some(share), ..ClassRoom::default() });
        let settings = RoomSettings { classes: [&[ClassRoom::default()][..], &with].concat(), ..settings() };
        for class in [ClassId(1), ClassId(2)] {
            let mut room = room_of(&settings, 10.0);
            let told = (0..60).filter_map(|_| promise(room.ask(START, class))).count();
            assert!(told >= 50, "{told} wait");
            let bytes = room.snapshot(s(0.5)).to_bytes();
            // As many in the second of which nothing is written.
            let lost: Vec<Promise> = (0..40).filter_map(|_| promise(room.ask(s(0.9), class))).collect();
            let mut next = Room::new(&settings, [3, 4], s(3.2));
            tell(&mut next, s(3.2), 10.0);
            next.restore(s(3.2), &RoomSnapshot::from_bytes(&bytes).unwrap());
            let newcomer = promise(next.ask(s(3.2), class)).expect("he waits");
            assert!(
                newcomer.at >= lost[39].at,
                "{shares:?} {class:?}: {} before {}",
                newcomer.at,
                lost[39].at
            );
        }
    }
}

#[test]
fn what_slots_could_not_do_survives_the_process() {
    let mut room = room_of(&settings(), 20.0);
    ask(&mut room, START, 120);
    tell(&mut room, START, 10.0);
    room.advance(s(4.0));
    let bytes = room.snapshot(s(4.0)).to_bytes();
    let before = slots(&ask(&mut room, s(4.0), 1))[0];
    let mut next = Room::new(&settings(), [3, 4], s(4.0));
    tell(&mut next, s(4.0), 10.0);
    next.restore(s(4.0), &RoomSnapshot::from_bytes(&bytes).unwrap());
    let after = slots(&ask(&mut next, s(4.0), 1))[0];
    // So is a part of the 115 of the first second, which may have been followed by others like it.
    assert!(
        (before + 1..before + 3).contains(&after),
        "{before}, {after}: three seconds' people had no place, and are owed one"
    );
}

/// However often the process changes.
#[test]
fn what_is_not_written_is_no_more_than_was_promised_lately() {
    let mut room = room_of(&settings(), 10.0);
    ask(&mut room, START, 60);
    for round in 1..=20 {
        let now = s(f64::from(round) * 3.0);
        room.advance(now);
        let snapshot = room.snapshot(now);
        room = Room::new(&settings(), [3, 4], now);
        tell(&mut room, now, 10.0);
        room.restore(now, &snapshot);
    }
    // The 50 were in after five seconds; those who may have been promised times besides, soon after.
    assert_eq!(how(room.ask(s(61.5), ONE)), Some(How::Direct));
    // Of an orderly end everything is written.
    ask(&mut room, s(62.0), 60);
    let (before, last) = (room.standing(s(62.5)).next, room.snapshot(s(62.5)).last());
    let mut next = Room::new(&settings(), [3, 4], s(62.5));
    tell(&mut next, s(62.5), 10.0);
    next.restore(s(62.5), &RoomSnapshot::from_bytes(&last.to_bytes()).unwrap());
    assert_eq!(next.standing(s(62.5)).next, before);
}

/// Whoever got a lot in it comes in at his place, and so do those who get theirs from the next process.
#[test]
fn lots_of_the_second_that_was_not_written_have_places_of_their_own() {
    for order in [RoomOrder::InOrder, RoomOrder::Shuffled] {
        let settings =
            RoomSettings { method: RoomMethod::Event, opens_at: Some(s(60.0)), order, ..settings() };
        let mut room = room_of(&settings, 10.0);
        let mut lots = ask(&mut room, s(10.2), 50);
        let written = room.snapshot(s(10.5)).to_bytes();
        lots.extend(ask(&mut room, s(10.6), 50));
        let mut next = Room::new(&settings, [3, 2], s(11.0));
        tell(&mut next, s(11.0), 10.0);
        next.restore(s(11.0), &RoomSnapshot::from_bytes(&written).unwrap());
        lots.extend(ask(&mut next, s(11.5), 50));
        tell(&mut next, s(60.0), 10.0);
        let newcomer = ask(&mut next, s(60.0), 1)[0];
        assert!(newcomer.at >= s(75.0), "behind all of them: {}", newcomer.at);
        let mut people = [0; 15];
        let mut places: Vec<Promise> = Vec::new();
        for lot in &lots {
            match next.come_back(s(60.0), ONE, lot) {
                Answer::Enter(entry) => {
                    assert_eq!(entry.how, How::Kept, "{order:?}");
                    people[0] += 1;
                }
                Answer::Wait(place) => places.push(place.promise),
                other => panic!("{other:?}"),
            }
        }
        places.sort_by_key(|place| place.at);
        for place in &places {
            assert_eq!(how(next.come_back(place.at, ONE, place)), Some(How::Kept), "{order:?}");
            people[place.at.since(s(60.0)).as_secs() as usize] += 1;
        }
        if order == RoomOrder::InOrder {
            assert_eq!(people, [10; 15]);
        }
        // Of an orderly end everything is written.
        let last = room.snapshot(s(10.7)).last().to_bytes();
        let mut next = Room::new(&settings, [3, 2], s(11.0));
        tell(&mut next, s(11.0), 10.0);
        next.restore(s(11.0), &RoomSnapshot::from_bytes(&last).unwrap());
        tell(&mut next, s(60.0), 10.0);
        assert!(ask(&mut next, s(60.0), 1)[0].at < s(71.0), "{order:?}");
    }
}
