//! Groups of classes: doors, draws and shares of their own.

use std::collections::BTreeMap;

use super::{places::Naive, *};
use crate::knobs::RoomOrder;

const SHOP: ClassId = ClassId(0);
const TICKETS: ClassId = ClassId(1);
const NEWS: ClassId = ClassId(2);
const BALCONY: ClassId = ClassId(3);

fn of(method: ClassRoomMethod) -> ClassRoom {
    ClassRoom { method: Some(method), ..ClassRoom::default() }
}

fn event(opens: f64, order: RoomOrder) -> ClassRoom {
    ClassRoom { opens_at: Some(s(opens)), order: Some(order), ..of(ClassRoomMethod::Event) }
}

/// Everybody first come, first served, and these: shop, tickets, news, and the balcony's tickets.
fn with(tickets: ClassRoom, news: ClassRoom) -> RoomSettings {
    let balcony = ClassRoom { group: Some(TICKETS), ..ClassRoom::default() };
    let classes = [ClassRoom::default(), tickets, news, balcony];
    let classes = (1..).zip(classes).map(|(name, class)| ClassRoom { name, ..class });
    RoomSettings { classes: classes.collect(), ..settings() }
}

fn ask_as(room: &mut Room, now: Timestamp, class: ClassId, people: usize) -> Vec<Promise> {
    (0..people).filter_map(|_| promise(room.ask(now, class))).collect()
}

/// What a lot has become.
fn place(room: &mut Room, now: Timestamp, lot: &Promise) -> Timestamp {
    match room.come_back(now, lot.class, lot) {
        Answer::Wait(place) if place.promise.kind == Kind::Place => place.promise.at,
        Answer::Enter(_) => now,
        other => panic!("it is drawn: {other:?}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Doors of some groups open at once, before slots that are promised to others in part. Something of each slot is
    /// everybody's.
    #[test]
    fn draws_lie_where_a_naive_table_has_room(
        groups in prop::collection::vec((0..60_usize, prop::option::of(1..=2_u8), 0..3_usize), 1..5),
        (before, members) in (0..100_usize, 0..20_usize),
        per_s in 1..30_u32,
    ) {
        const HORIZON: usize = 600;
        // The first class waits whatever happens; each of the others is a group, or of the group of one before it.
        let own = |share: Option<u8>| {
            let share = share.map(|tenths| f64::from(tenths) / 10.0);
            ClassRoom { share, ..event(60.0, RoomOrder::InOrder) }
        };
        let mut classes = vec![ClassRoom::default()];
        let mut leaders = vec![0];
        for (at, (_, share, with)) in groups.iter().enumerate() {
            let leader = if *with == 0 { leaders[at] } else { at + 1 };
            let group = (leader > 0 && leader != at + 1).then(|| ClassId(u16::try_from(leader).unwrap()));
            leaders.push(if group.is_some() { leader } else { at + 1 });
            classes.push(ClassRoom { group, ..own(*share) });
        }
        let id = |at: usize| ClassId(u16::try_from(at).unwrap());
        let horizon = Duration::from_secs(HORIZON as u64);
        let settings = RoomSettings { method: RoomMethod::Wait, horizon, classes: classes.clone(), ..settings() };
        let mut room = room_of(&settings, f64::from(per_s));

        // Lanes, as their documentation says.
        let budget = u64::from(per_s) * 1000;
        let mut lanes = vec![0; classes.len()];
        let mut budgets = vec![budget];
        let kept: Vec<usize> = (1..classes.len())
            .filter(|at| leaders[*at] == *at && classes[*at].share.is_some())
            .collect();
        let shares: Vec<f64> = kept.iter().filter_map(|at| classes[*at].share).collect();
        let sum = shares.iter().sum::<f64>().max(1.0);
        for (lane, (at, share)) in (1..).zip(kept.iter().zip(&shares)) {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, reason = "small")]
            budgets.push((budget as f64 * (share / sum)) as Work);
            lanes[*at] = lane;
        }
        for at in 1..classes.len() {
            lanes[at] = lanes[leaders[at]];
        }
        budgets[0] -= budgets[1..].iter().sum::<Work>();
        let mut naive = Naive::new(budgets, HORIZON + 1);

        // Lots, in turn, so that classes of a group mix; then people who are promised a time.
        let mut lots: Vec<Promise> = Vec::new();
        for turn in 0..60 {
            for (at, (people, _, _)) in (1..).zip(&groups) {
                if turn < *people {
                    lots.extend(promise(room.ask(START, id(at))));
                }
            }
        }
        room.advance(s(59.0));
        let mut waiting = 0;
        for _ in 0..before + members {
            let slot = naive.earliest(0).unwrap();
            naive.take(0, 0, slot, 1000);
            let told = promise(room.ask(s(59.0), id(0))).unwrap();
            prop_assert_eq!(told.at.since(s(59.0)).as_secs(), slot as u64);
            waiting += usize::from(slot > 1);
        }
        room.advance(s(60.0));
        naive.advance();

        // From when on, how much of a slot is a group's, and from when on how much more.
        let mut pace_of: BTreeMap<usize, [(usize, Work); 2]> = BTreeMap::new();
        for lane in 0..naive.budgets.len() {
            let here: Vec<usize> = lots.iter().map(|lot| leaders[lot.class.index()]).filter(|at| lanes[*at] == lane).collect();
            let all = here.len() as Work * 1000;
            if all == 0 {
                continue;
            }
            let first = |lane| match naive.earliest(lane).unwrap_or(HORIZON) {
                1 if waiting == 0 => 0,
                slot => slot,
            };
            let own = (first(lane), naive.budgets[lane]);
            let common = (own.0.max(first(0)), if lane == 0 { 0 } else { naive.budgets[0] });
            let mut left = all;
            for due in own.0..=HORIZON {
                for (lane, (from, pace)) in [(lane, own), (0, common)] {
                    let part = if due < from { 0 } else { left.min(pace) };
                    naive.due[lane][due] += part;
                    left -= part;
                }
            }
            prop_assert_eq!(left, 0);
            for group in here.iter().copied() {
                let part = here.iter().filter(|other| **other == group).count() as Work * 1000;
                pace_of.insert(group, [own, common].map(|(from, pace)| (from, (pace * part).div_ceil(all))));
            }
        }
        let mut work_before: BTreeMap<usize, Work> = BTreeMap::new();
        for lot in &lots {
            let group = leaders[lot.class.index()];
            let before = work_before.entry(group).or_default();
            let of = |slot: usize| pace_of[&group].iter().filter(|(from, _)| *from <= slot).map(|(_, pace)| pace).sum::<Work>();
            let mut held = 0;
            let expected = (0..).find(|slot| { held += of(*slot); held > *before }).unwrap();
            *before += u64::from(lot.work);
            let found = place(&mut room, s(60.0), lot).since(s(60.0)).as_secs();
            prop_assert_eq!(found, expected as u64, "{:?} in {:?}", lot, pace_of);
        }
        for (lane, at) in [(0, 0)].into_iter().chain((1..).zip(kept)) {
            let expected = naive.next(lane);
            // Doors are open: the next one is told a time, or goes on in the present slot.
            let next = promise(room.ask(s(60.0), id(at))).map(|told| told.at.since(s(60.0)).as_secs());
            if let (Some(next), Some((expected, part))) = (next, expected) {
                prop_assert_eq!(next, expected as u64, "lane {}", lane);
                naive.take(lane, part, expected, 1000);
            }
        }
        room.check_invariants();
    }
}

#[test]
fn where_all_is_kept_for_groups_everybody_else_is_drawn_too() {
    for shares in [[0.1, 0.3, 0.3, 0.3], [0.7, 0.7, 0.1, 0.1]] {
        let everybody = event(60.0, RoomOrder::InOrder);
        let groups = shares.map(|share| ClassRoom { share: Some(share), ..everybody });
        let settings = RoomSettings { classes: [&[everybody][..], &groups].concat(), ..settings() };
        let mut room = room_of(&settings, 1.0);
        let lots = ask(&mut room, START, 20);
        assert_eq!(lots.len(), 20);
        room.advance(s(60.0));
        let last = lots.iter().map(|lot| place(&mut room, s(60.0), lot)).max().unwrap();
        assert_eq!(last.since(s(60.0)).as_secs(), 19, "{shares:?}: one a second");
    }
}

#[test]
fn each_group_draws_by_itself_when_its_own_doors_open() {
    let mut room = room_of(&with(event(60.0, RoomOrder::InOrder), event(120.0, RoomOrder::Shuffled)), 10.0);
    let tickets: Vec<Promise> =
        (0..40).flat_map(|n| ask_as(&mut room, START, [TICKETS, BALCONY][n % 2], 1)).collect();
    let news = ask_as(&mut room, START, NEWS, 100);
    assert!(
        tickets.iter().all(|lot| lot.kind == Kind::Lot && lot.at == s(60.0)),
        "both classes of the group"
    );
    assert!(news.iter().all(|lot| lot.kind == Kind::Lot && lot.at == s(120.0)));
    assert_eq!(how(room.ask(START, SHOP)), Some(How::Direct), "everybody else waits for no doors");
    let standing = room.standing(START);
    assert_eq!((standing.waiting, standing.opens), (140, None), "everybody else has no doors");
    let second = Duration::from_secs(1);
    let view = |class, opens: u32, lots| GroupView {
        class,
        method: RoomMethod::Event,
        opens: Some(s(f64::from(opens))),
        share: None,
        waiting: Some(lots),
        lots,
        next: Some(second * opens),
    };
    assert_eq!(room.groups(START).collect::<Vec<_>>(), [view(TICKETS, 60, 40), view(NEWS, 120, 100)]);
    assert_eq!((room.look(START, &tickets[0]).ahead, room.look(START, &news[0]).ahead), (40, 100));

    let now = s(60.0);
    let drawn: Vec<Timestamp> = tickets.iter().map(|lot| place(&mut room, now, lot)).collect();
    assert!(drawn.is_sorted(), "in the order in which they came, whichever class: {drawn:?}");
    assert!(*drawn.last().unwrap() < s(65.0), "40 at ten a second");
    for (second, left) in [(60.0, 30), (61.0, 20), (62.0, 10), (63.0, 0)] {
        let mut later = room.clone();
        later.advance(s(second));
        let waiting: Vec<_> = later.groups(later.now).map(|group| (group.waiting, group.lots)).collect();
        assert_eq!(waiting, [(Some(left), 0), (Some(100), 100)], "{second}");
        assert_eq!(later.standing(s(second)).waiting, left + 100, "{second}");
    }
    assert_eq!(promise(room.come_back(now, NEWS, &news[0])), Some(news[0]), "theirs have not opened");

    room.advance(s(120.0));
    let drawn: Vec<Timestamp> = news.iter().map(|lot| place(&mut room, s(120.0), lot)).collect();
    assert!(!drawn.is_sorted() && drawn.iter().all(|at| *at < s(131.0)), "{drawn:?}");
}

/// Also where a slot has less than a place.
#[test]
fn everybody_who_was_drawn_is_counted() {
    let (method, order) = (RoomMethod::Event, RoomOrder::InOrder);
    let doors = RoomSettings { method, order, opens_at: Some(s(60.0)), ..settings() };
    for per_s in [0.4, 1.5, 9.5] {
        let mut room = room_of(&doors, per_s);
        let lots = ask(&mut room, START, 57);
        assert_eq!(room.standing(START).waiting, 57);
        room.advance(s(60.0));
        let present =
            lots.iter().filter(|lot| place(&mut room.clone(), s(60.0), lot) < s(61.0)).count() as u64;
        let waiting = room.standing(s(60.0)).waiting;
        assert!(waiting.abs_diff(57 - present) <= 1, "{waiting} of {per_s}/s, {present} are in");
        let ahead = lots.iter().map(|lot| room.look(s(60.0), lot).ahead).max();
        assert!(ahead.is_some_and(|ahead| (45..57).contains(&ahead)), "{ahead:?} of {per_s}/s");
        room.check_invariants();
    }
}

#[test]
fn doors_of_a_group_are_switched_live_and_others_stay_as_they_are() {
    let later = || event(120.0, RoomOrder::InOrder);
    let mut room = room_of(&with(event(60.0, RoomOrder::InOrder), later()), 10.0);
    let tickets = ask_as(&mut room, START, BALCONY, 10);
    let news = ask_as(&mut room, START, NEWS, 10);
    // Put off by half a minute.
    room.configure(s(50.0), &with(event(90.0, RoomOrder::InOrder), later()));
    assert_eq!(promise(room.come_back(s(61.0), BALCONY, &tickets[0])), Some(tickets[0]));
    assert_eq!(room.groups(s(61.0)).next().map(|group| group.opens), Some(Some(s(90.0))));
    // Opened at once.
    room.configure(s(62.0), &with(of(ClassRoomMethod::Fifo), later()));
    assert!(place(&mut room, s(62.0), &tickets[9]) < s(64.0));
    assert_eq!(promise(room.come_back(s(62.0), NEWS, &news[0])), Some(news[0]));
    // Closed, with all of the group.
    room.configure(s(70.0), &with(of(ClassRoomMethod::Closed), later()));
    for class in [TICKETS, BALCONY] {
        assert_eq!(room.ask(s(70.0), class), Answer::Refuse(Refusal::RoomClosed));
    }
    let closed = room.groups(s(70.0)).next().unwrap();
    assert_eq!((closed.method, closed.opens, closed.next), (RoomMethod::Closed, None, None));
    assert_eq!(how(room.ask(s(70.0), SHOP)), Some(How::Direct));
    // Doors that open at a time not known yet.
    room.configure(s(75.0), &with(of(ClassRoomMethod::Event), later()));
    let unknown = ask_as(&mut room, s(75.0), TICKETS, 3);
    let group = room.groups(s(75.0)).next().unwrap();
    assert_eq!((unknown.len(), group.lots, group.opens, group.next), (3, 3, None, None));
    // They have no doors of their own any more: those of everybody, for those with a lot too.
    room.configure(s(80.0), &with(of(ClassRoomMethod::Closed), ClassRoom::default()));
    assert!(place(&mut room, s(80.0), &news[0]) < s(82.0));
}

#[test]
fn who_waits_is_told_by_group_where_classes_are_counted_by_themselves() {
    let closed = of(ClassRoomMethod::Closed);
    let waiting = |classes: usize, at: usize| {
        let mut all = vec![ClassRoom::default(); classes];
        all[at] = closed;
        let room = room_of(&RoomSettings { classes: all, ..settings() }, 10.0);
        room.groups(START).map(|group| group.waiting).collect::<Vec<_>>()
    };
    assert_eq!(waiting(16, 15), [Some(0)]);
    assert_eq!((waiting(17, 14), waiting(17, 15), waiting(17, 16)), (vec![Some(0)], vec![None], vec![None]));
}

#[test]
fn rounds_of_one_group_go_on_while_another_waits_for_its_doors() {
    let random = ClassRoom { round: Some(Duration::from_secs(5)), ..of(ClassRoomMethod::Random) };
    let mut room = room_of(&with(event(3600.0, RoomOrder::Shuffled), random), 10.0);
    let tickets = ask_as(&mut room, START, TICKETS, 50);
    let mut rounds = 0;
    for minute in 0..30_u32 {
        let now = s(f64::from(minute) * 60.0 + 1.0);
        let lots = ask_as(&mut room, now, NEWS, 100);
        assert!(lots.len() >= 90, "as long as nobody of its own has a lot, one goes on: {}", lots.len());
        assert!(lots.iter().all(|lot| lot.at <= now + Duration::from_secs(5)));
        let then = now + Duration::from_secs(6);
        let mut places: Vec<Timestamp> = lots.iter().map(|lot| place(&mut room, then, lot)).collect();
        assert!(!places.is_sorted());
        places.sort_unstable();
        assert!(places[places.len() - 1] < then + Duration::from_secs(12), "{places:?}");
        rounds += 1;
        assert_eq!(
            promise(room.come_back(then, TICKETS, &tickets[0])),
            Some(tickets[0]),
            "{rounds} rounds later"
        );
    }
    assert!(rounds > 16, "more than are remembered of one group");
}

#[test]
fn doors_that_open_together_let_in_both_groups_at_once_by_their_numbers() {
    let mut room = room_of(&with(event(60.0, RoomOrder::InOrder), event(60.0, RoomOrder::InOrder)), 10.0);
    let tickets = ask_as(&mut room, START, TICKETS, 300);
    let news = ask_as(&mut room, START, NEWS, 100);
    let keys = [tickets[0].at, news[0].at];
    assert_ne!(keys[0], keys[1], "each draw has a name of its own");
    let mut by_second: BTreeMap<u64, [u32; 2]> = BTreeMap::new();
    for (group, lots) in [tickets, news].iter().enumerate() {
        for lot in lots {
            let second = place(&mut room, s(60.0), lot).since(s(60.0)).as_secs();
            by_second.entry(second).or_default()[group] += 1;
        }
    }
    assert_eq!(by_second.len(), 40, "400 people, ten a second: {by_second:?}");
    for (second, people) in by_second {
        assert!((7..=8).contains(&people[0]) && (2..=3).contains(&people[1]), "{second}: {people:?}");
    }
}

#[test]
fn classes_of_a_group_have_one_share_together_and_draw_within_it() {
    let tickets = ClassRoom { share: Some(0.2), ..of(ClassRoomMethod::Fifo) };
    let mut room = room_of(&with(tickets, ClassRoom::default()), 10.0);
    ask_as(&mut room, START, SHOP, 400);
    let both: Vec<Promise> =
        (0..6).flat_map(|n| ask_as(&mut room, START, [TICKETS, BALCONY][n % 2], 1)).collect();
    assert_eq!(slots(&both), [1, 1, 2, 2, 3, 3], "two a second are kept for both together");
    let group = room.groups(START).next().unwrap();
    assert_eq!((group.share, group.waiting, group.lots), (Some(0.2), Some(6), 0), "both classes");
    room.advance(START + Duration::from_secs(2));
    assert_eq!(
        room.groups(room.now).next().unwrap().waiting,
        Some(2),
        "who is to come after the present second"
    );

    // Their doors open while all else is promised to others: their lots lie in what is kept for them.
    let mut room = room_of(
        &with(ClassRoom { share: Some(0.2), ..event(60.0, RoomOrder::InOrder) }, ClassRoom::default()),
        10.0,
    );
    let lots = ask_as(&mut room, START, BALCONY, 20);
    ask_as(&mut room, s(59.5), SHOP, 800);
    let drawn: Vec<u64> =
        lots.iter().map(|lot| place(&mut room, s(60.0), lot).since(s(60.0)).as_secs()).collect();
    assert_eq!(drawn, (0..20).map(|n| n / 2 + 1).collect::<Vec<_>>(), "two a second from the next second on");
    let next = ask_as(&mut room, s(60.0), SHOP, 20)[0];
    assert!(next.at >= s(159.0), "and nobody else is promised later for it: {}", next.at);

    // Nobody else waits: they have all of it.
    let mut room = room_of(
        &with(ClassRoom { share: Some(0.2), ..event(60.0, RoomOrder::InOrder) }, ClassRoom::default()),
        10.0,
    );
    let lots = ask_as(&mut room, START, TICKETS, 100);
    let last = place(&mut room, s(60.0), &lots[99]);
    assert!(last < s(70.0), "{last}");
    let next = ask_as(&mut room, s(60.1), SHOP, 20);
    assert!(next.iter().all(|promise| promise.at >= s(69.0)), "{:?}", slots(&next));
}

#[test]
fn a_pass_opens_its_own_doors_and_where_there_are_none() {
    let sessions = SessionSettings { idle: Duration::from_secs(600), total: Duration::from_secs(3600) };
    let with_passes = |settings| RoomSettings { sessions: Some(sessions), ..settings };
    let pass = |room: &mut Room, now, class| match room.ask(now, class) {
        Answer::Enter(Entry { pass: Some(pass), .. }) => pass,
        other => panic!("there is room: {other:?}"),
    };
    let holds = |room: &mut Room, class, pass: &Pass| {
        matches!(room.pass(s(61.0), class, pass), PassAnswer::Enter { .. })
    };
    let doors = with_passes(with(event(60.0, RoomOrder::Shuffled), event(120.0, RoomOrder::Shuffled)));
    let mut room = room_of(&doors, 10.0);
    let of_shop = pass(&mut room, START, SHOP);
    let of_tickets = pass(&mut room, s(60.5), BALCONY);
    let held = [SHOP, TICKETS, BALCONY, NEWS].map(|class| holds(&mut room, class, &of_shop));
    assert_eq!(held, [true, false, false, false], "the shop's lets nobody past the doors of others");
    let held = [SHOP, TICKETS, BALCONY, NEWS].map(|class| holds(&mut room, class, &of_tickets));
    assert_eq!(held, [true, true, true, false], "who is in goes where he likes, but through other doors");
    // Doors that close are closed for newcomers.
    room.configure(s(61.0), &with_passes(with(of(ClassRoomMethod::Closed), of(ClassRoomMethod::Fifo))));
    let held = [SHOP, TICKETS, BALCONY, NEWS].map(|class| holds(&mut room, class, &of_tickets));
    assert_eq!(held, [true; 4]);
    let held = [SHOP, TICKETS, BALCONY, NEWS].map(|class| holds(&mut room, class, &of_shop));
    assert_eq!(held, [true, false, false, true]);
    // A share is no door.
    let members = ClassRoom { share: Some(0.2), ..ClassRoom::default() };
    let all = RoomSettings { method: RoomMethod::Event, opens_at: Some(s(1.0)), ..with(members, members) };
    room.configure(s(61.0), &with_passes(all));
    assert!([SHOP, TICKETS, NEWS].into_iter().all(|class| holds(&mut room, class, &of_shop)));
}

/// Doors of a group with half of each slot open while others wait for ten seconds more: it has its half of those, and all after
/// them, so that nothing of a slot is left while people wait.
#[test]
fn a_group_that_is_drawn_leaves_nothing_of_its_part_before_the_end_of_others_lines() {
    let group = ClassRoom { share: Some(0.5), ..event(30.0, RoomOrder::InOrder) };
    let settings =
        RoomSettings { method: RoomMethod::Wait, classes: vec![ClassRoom::default(), group], ..settings() };
    let mut room = room_of(&settings, 10.0);
    let lots = ask_as(&mut room, START, TICKETS, 200);
    let others = ask(&mut room, s(20.0), 100);
    let last = others.last().expect("they wait").at;
    room.advance(s(30.0));
    let mut in_second = BTreeMap::new();
    for lot in &lots {
        *in_second.entry(place(&mut room, s(30.0), lot).since(START).as_secs()).or_insert(0) += 1;
    }
    let end = last.since(START).as_secs();
    assert!((35..45).contains(&end), "{end}");
    for (second, people) in &in_second {
        let room = if *second <= end { 5 } else { 10 };
        assert!(*people == room || second == in_second.keys().next_back().unwrap(), "{in_second:?}");
    }
    assert!((30..=31).contains(in_second.keys().next().unwrap()), "{in_second:?}");
    room.check_invariants();
}

#[test]
fn what_was_drawn_stays_where_it_was_drawn_when_slots_become_longer_or_shorter() {
    let doors = with(event(60.0, RoomOrder::InOrder), ClassRoom::default());
    let lots_and_room = || {
        let mut room = room_of(&doors, 10.0);
        let lots = ask_as(&mut room, START, TICKETS, 200);
        room.advance(s(60.0));
        (lots, room)
    };
    for slot_ms in [500_u64, 4000] {
        let slot = Duration::from_millis(slot_ms);
        let other = RoomSettings { slot, ..doors.clone() };
        let (lots, mut live) = lots_and_room();
        let bytes = live.snapshot(s(60.0)).to_bytes();
        live.configure(s(60.0), &other);
        let mut restarted = room_of(&other, 10.0);
        restarted.restore(s(60.0), &RoomSnapshot::from_bytes(&bytes).unwrap());
        for mut room in [live, restarted] {
            for (number, lot) in (0_u32..).zip(&lots).skip(50) {
                let at = place(&mut room, s(60.0), lot);
                let due = s(60.0 + f64::from(number) / 10.0);
                assert!(at <= due + slot && due <= at + slot, "{slot:?}, {number}: {at}");
            }
        }
    }
}

#[test]
fn draws_of_groups_survive_the_process_and_what_the_second_version_wrote_is_read() {
    let before = with(event(60.0, RoomOrder::InOrder), event(120.0, RoomOrder::Shuffled));
    let mut room = room_of(&before, 10.0);
    let (tickets, news) = (ask_as(&mut room, START, BALCONY, 30), ask_as(&mut room, START, NEWS, 30));
    let bytes = room.snapshot(s(1.0)).last().to_bytes();
    let snapshot = RoomSnapshot::from_bytes(&bytes).unwrap();
    // The next process knows the classes by other numbers: tickets and news have changed places.
    let mut after = before.clone();
    after.classes.swap(1, 2);
    after.classes[3].group = Some(NEWS);
    let mut next = room_of(&after, 10.0);
    next.restore(s(2.0), &snapshot);
    assert_eq!(next.standing(s(2.0)).waiting, 60);
    let as_now =
        |lot: &Promise| Promise { class: if lot.class == NEWS { TICKETS } else { lot.class }, ..*lot };
    for lot in &tickets {
        assert!(place(&mut next, s(60.0), lot) < s(65.0));
    }
    assert_eq!(promise(next.come_back(s(61.0), TICKETS, &as_now(&news[0]))), Some(as_now(&news[0])));
    for lot in &news {
        assert!(place(&mut next, s(120.0), &as_now(lot)) < s(124.0));
    }

    // As the second version wrote it: one round, which was everybody's.
    let doors = RoomSettings { method: RoomMethod::Event, opens_at: Some(s(60.0)), ..settings() };
    let mut room = room_of(&doors, 10.0);
    let lots = ask(&mut room, START, 30);
    let bytes = room.snapshot(s(1.0)).to_bytes();
    // The last round's nine numbers come after its group's name, the last two since the sixth version, and the lanes, passes and
    // the one class after them.
    let sixth = &bytes[..bytes.len() - 8 - 24];
    let end = sixth.len() - 8 - 8 * LANES_MAX;
    let name = end - 8 * 10;
    assert_eq!(bytes[name..name + 8], [0; 8], "everybody's");
    let second = [&[2], &bytes[1..name], &bytes[name + 8..end - 16]].concat();
    let read = RoomSnapshot::from_bytes(&second).unwrap();
    assert_eq!(read, RoomSnapshot::from_bytes(&[&[6], &sixth[1..]].concat()).unwrap());
    let mut next = room_of(&doors, 10.0);
    next.restore(s(2.0), &read);
    assert_eq!(promise(next.come_back(s(3.0), ONE, &lots[0])), Some(lots[0]));
    assert!(place(&mut next, s(60.0), &lots[29]) < s(64.0));
}

/// The next process has a class more before the others, in another order, and one less.
#[test]
fn lines_stay_with_their_classes_over_a_restart() {
    let share = |share| ClassRoom { share: Some(share), ..ClassRoom::default() };
    let before = with(share(0.5), share(0.3));
    let mut room = room_of(&before, 10.0);
    let tickets = ask_as(&mut room, START, TICKETS, 100);
    let news = ask_as(&mut room, START, NEWS, 60);
    let waits = |room: &mut Room, class| promise(room.ask(s(1.0), class)).map(|promise| promise.at);
    room.advance(s(1.0));
    let bytes = room.snapshot(s(1.0)).last().to_bytes();
    let expected = [TICKETS, NEWS].map(|class| waits(&mut room.clone(), class));
    let mut after = before.clone();
    let [shop, tickets_room, news_room, _] = &before.classes[..] else { unreachable!("as many") };
    let new = ClassRoom { name: 9, ..share(0.1) };
    after.classes = vec![*shop, new, *news_room, *tickets_room];
    let mut next = room_of(&after, 10.0);
    next.restore(s(1.0), &RoomSnapshot::from_bytes(&bytes).unwrap());
    assert_eq!(next.standing(s(1.0)).waiting, room.standing(s(1.0)).waiting);
    // The present second counts as full after a restart.
    for (class, expected) in [(ClassId(3), expected[0]), (ClassId(2), expected[1])] {
        let (now, then) = (waits(&mut next, class).unwrap(), expected.unwrap());
        assert!(then <= now && now <= then + Duration::from_secs(2), "{class:?}: {now} instead of {then}");
    }
    let last = |promises: &[Promise]| promises.last().unwrap().at;
    let new = waits(&mut next, ClassId(1));
    assert!(new.is_none_or(|at| at < last(&tickets).min(last(&news))), "it has nobody's line: {new:?}");
}

#[test]
fn doors_that_have_opened_hold_nobody_back_while_no_capacity_is_known() {
    let mut room = Room::new(&with(event(60.0, RoomOrder::InOrder), ClassRoom::default()), [1, 2], START);
    let lots = ask_as(&mut room, START, TICKETS, 3);
    assert_eq!(lots.len(), 3, "doors that are closed need no capacity");
    assert_eq!(promise(room.come_back(s(59.0), TICKETS, &lots[0])), Some(lots[0]));
    for lot in &lots {
        assert_eq!(how(room.come_back(s(60.0), TICKETS, lot)), Some(How::Unconcerned));
    }
    assert_eq!(how(room.ask(s(60.0), TICKETS)), Some(How::Unconcerned), "as everybody else");
}

/// What is drawn fills the table anew. Each line goes on at its end: what rounding leaves of its slots is nobody's who comes later.
#[test]
fn nobody_is_overtaken_in_his_own_line_when_doors_of_others_open() {
    let tickets = ClassRoom { share: Some(0.3), ..event(20.0, RoomOrder::Shuffled) };
    let news = ClassRoom { share: Some(0.33), ..ClassRoom::default() };
    let mut room = room_of(&RoomSettings { overbook_max: 0.0, ..with(tickets, news) }, 39.6);
    let mut last = BTreeMap::new();
    for tenths in 0..400_u32 {
        let now = s(f64::from(tenths) / 10.0);
        tell(&mut room, now, 39.6);
        let rush = if tenths < 200 { 4 } else { 1 };
        let lots = if tenths == 0 { 5 } else { 0 };
        for (class, people) in [(SHOP, rush), (NEWS, 2), (TICKETS, lots)] {
            for _ in 0..people {
                let at = match room.ask(now, class) {
                    Answer::Enter(_) => now,
                    Answer::Wait(place) if place.promise.kind == Kind::Place => place.promise.at,
                    Answer::Wait(_) => continue,
                    other => panic!("{other:?}"),
                };
                let last = last.entry(class).or_insert(at);
                let slots = [at, *last].map(|at| at.since(START).as_secs());
                assert!(
                    slots[0] + 1 >= slots[1],
                    "{class:?} at {now}: let in at {at}, before those of {last}"
                );
                *last = at.max(*last);
            }
        }
    }
    assert!(last[&SHOP] > s(45.0), "they wait to the end: {last:?}");
    room.check_invariants();
}

/// What is promised stays in the lane of whom it is promised to: lines go on where they ended, also in the next process.
#[test]
fn nobody_is_overtaken_in_his_own_line_when_slots_are_laid_anew() {
    let seconds = Duration::from_secs;
    let of = |tickets, news| {
        let [tickets, news] = [tickets, news].map(|share| ClassRoom { share, ..ClassRoom::default() });
        RoomSettings { overbook_max: 0.0, ..with(tickets, news) }
    };
    for before in [of(Some(0.5), Some(0.2)), of(Some(0.5), Some(0.5)), of(Some(0.5), None)] {
        for changed in [
            RoomSettings { grace: seconds(60), ..before.clone() },
            RoomSettings { clock_tolerance: seconds(1), ..before.clone() },
            RoomSettings { horizon: seconds(7200), ..before.clone() },
            RoomSettings { slot: seconds(2), ..before.clone() },
            of(Some(0.4), Some(0.2)),
            of(Some(0.4), None),
            of(None, Some(0.2)),
        ] {
            let mut room = room_of(&before, 10.0);
            let classes = [TICKETS, NEWS, BALCONY];
            let ends = classes.map(|class| ask_as(&mut room, START, class, 200).pop().expect("they wait").at);
            room.advance(s(4.0));
            let bytes = room.snapshot(s(4.0)).last().to_bytes();
            room.configure(s(4.0), &changed);
            let mut restarted = room_of(&changed, 10.0);
            restarted.restore(s(4.0), &RoomSnapshot::from_bytes(&bytes).unwrap());
            for mut room in [room, restarted] {
                room.check_invariants();
                for (class, end) in classes.into_iter().zip(ends) {
                    // What a part that is less now leaves of the present slot is anybody's.
                    let next = ask_as(&mut room, s(4.0), class, 10);
                    assert!(
                        next.len() >= 5 && next.iter().all(|next| next.at + changed.slot >= end),
                        "{class:?}: {:?}, before {end}: {before:?}, {changed:?}",
                        slots(&next)
                    );
                }
            }
        }
    }
}

#[test]
fn who_would_not_wait_has_no_wait_though_others_do() {
    let [tickets, news] = [0.5, 0.2].map(|share| ClassRoom { share: Some(share), ..ClassRoom::default() });
    let mut room = room_of(&with(tickets, news), 10.0);
    assert!(ask_as(&mut room, START, TICKETS, 200).len() > 100, "they wait");
    let wait_of_news = |room: &Room| {
        room.groups(s(1.0))
            .find(|group| group.class == NEWS)
            .and_then(|group| group.next)
            .map(|next| next.as_secs())
    };
    room.advance(s(1.0));
    for direct in [true, true, false] {
        assert_eq!(wait_of_news(&room), Some(u64::from(!direct)));
        assert_eq!(how(room.ask(s(1.0), NEWS)).is_some(), direct);
    }
}
