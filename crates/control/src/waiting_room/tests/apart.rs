//! Generator and checks as processes of their own.

use std::collections::BTreeMap;

use super::*;

fn of(role: RoomRole) -> RoomSettings {
    RoomSettings { role, ..settings() }
}

/// A generator and the checks that report to it.
struct Apart {
    generator: Room,
    checks: Vec<Room>,
    /// Whether answers to reports arrive.
    hears: bool,
}

impl Apart {
    /// Each with so many work units a second.
    fn new(per_s: &[f64]) -> Self {
        Self::hearing(per_s, true)
    }

    fn hearing(per_s: &[f64], hears: bool) -> Self {
        let generator = Room::new(&of(RoomRole::Generate), [7, 8], START);
        let checks = (10..).zip(per_s);
        let checks = checks.map(|(secret, per_s)| {
            let mut check = Room::new(&of(RoomRole::Check), [secret, 8], START);
            tell(&mut check, START, *per_s);
            check
        });
        let mut apart = Self { generator, checks: checks.collect(), hears };
        apart.report(START);
        apart
    }

    /// All report, and hear the answers.
    fn report(&mut self, now: Timestamp) {
        for number in 0..self.checks.len() {
            self.report_of(now, number);
        }
    }

    fn report_of(&mut self, now: Timestamp, number: usize) {
        let check = &mut self.checks[number];
        let answered = self.generator.heed(now, &format!("check {number}"), &check.report(now));
        let owed = &answered.owed;
        assert!(owed.is_sorted_by_key(|owed| owed.slot) && owed.len() <= 64, "{owed:?}");
        let nothing = Answered::default();
        check.hear(now, if self.hears { &answered } else { &nothing });
        check.check_invariants();
        self.generator.check_invariants();
    }

    fn for_newcomers(&self, now: Timestamp) -> f64 {
        (self.generator.standing(now).for_newcomers * 10.0).round() / 10.0
    }
}

/// From 20 to 10 a second while 120 people have a time, as in one process: the same as there, with so many checks between
/// which people are spread evenly. When the last one is served, and seconds with room before though people waited.
fn falls_to_half(checks: u32, hears: bool) -> (u64, Vec<u64>) {
    let (before, after) = (20.0 / f64::from(checks), 10 / usize::try_from(checks).unwrap());
    let mut apart = Apart::hearing(&vec![before; usize::try_from(checks).unwrap()], hears);
    let mut waiting = ask(&mut apart.generator, START, 120);
    assert_eq!(waiting.len(), 120);
    for check in &mut apart.checks {
        tell(check, START, before / 2.0);
    }
    apart.report(START);
    let mut came: BTreeMap<u64, usize> = BTreeMap::new();
    let mut missed: Vec<Promise> = Vec::new();
    let mut second = 0_u32;
    while !waiting.is_empty() {
        second += 1;
        assert!(second < 300, "{} still wait: {came:?}", waiting.len());
        let begin = f64::from(second);
        let (mut due, rest): (Vec<_>, Vec<_>) =
            waiting.into_iter().partition(|promise| promise.at < s(begin + 1.0));
        due.sort_by_key(|promise| promise.at);
        waiting = rest;
        let mut served = vec![0; apart.checks.len()];
        let mut reported = false;
        for (number, due) in due.iter().enumerate() {
            if due.at >= s(begin + 0.5) && !reported {
                apart.report(s(begin + 0.5));
                reported = true;
            }
            let at = number % apart.checks.len();
            let check = &mut apart.checks[at];
            assert!(how(check.come_back(due.at, ONE, due)).is_some(), "what was promised is kept");
            if served[at] < after {
                served[at] += 1;
                continue;
            }
            let new = promise(check.missed(due.at, ONE, Some(due))).expect("a new time");
            missed.push(new);
            waiting.push(new);
        }
        came.insert(u64::from(second), served.iter().sum());
        apart.report(s(begin + 0.98));
        if second <= 20 {
            let newcomers = ask(&mut apart.generator, s(begin + 0.99), 5);
            assert_eq!(newcomers.len(), 5, "the generator lets nobody in by itself");
            waiting.extend(newcomers);
        }
    }
    assert!(missed.len() >= 50, "half of those who had a time could not be served: {}", missed.len());
    let last = *came.keys().last().unwrap();
    let idle = came.range(..last).filter(|(_, busy)| **busy < 9).map(|(second, _)| *second);
    (last, idle.collect())
}

#[test]
fn after_a_fall_no_slot_stays_empty_also_in_two_processes_or_three() {
    for checks in [1, 2] {
        let (last, idle) = falls_to_half(checks, true);
        assert_eq!(idle, [], "{checks}: seconds with room though people waited");
        assert!((20..=25).contains(&last), "{checks}: 120 and 100 newcomers at ten a second: {last} s");
    }
    // Without the answers everybody is served too, but later.
    let (last, idle) = falls_to_half(1, false);
    assert!(last > 30 && idle.len() > 5, "{last} s, {idle:?}");
}

#[test]
fn new_times_given_since_a_report_are_not_given_twice() {
    let mut apart = Apart::new(&[10.0]);
    let out = ask(&mut apart.generator, START, 40);
    tell(&mut apart.checks[0], START, 5.0);
    apart.report(START);
    let check = &mut apart.checks[0];
    let due: Vec<&Promise> = out.iter().filter(|promise| promise.at < s(2.0)).collect();
    assert_eq!(due.len(), 10);
    // Three before the report, two on its way, five after the answer.
    let mut new = Vec::new();
    let mut miss = |check: &mut Room, due: &[&Promise]| {
        for due in due {
            assert_eq!(how(check.come_back(s(1.9), ONE, due)), Some(How::Kept));
            new.extend(promise(check.missed(s(1.9), ONE, Some(due))));
        }
    };
    miss(check, &due[..3]);
    let report = check.report(s(1.9));
    assert_eq!(
        report
            .again
            .iter()
            .map(|again| (again.people, again.work))
            .fold((0, 0), |sum, next| (sum.0 + next.0, sum.1 + next.1)),
        (3, 3000)
    );
    miss(check, &due[3..5]);
    let answered = apart.generator.heed(s(1.9), "check 0", &report);
    check.hear(s(1.9), &answered);
    miss(check, &due[5..]);
    // Seconds 1 to 4 are full of promises, five of whose ten people are to be served in 5 to 8.
    assert_eq!(slots(&new), [vec![5; 6], vec![6; 4]].concat());
}

#[test]
fn what_a_check_cannot_promise_is_not_taken_for_room() {
    let mut check =
        Room::new(&RoomSettings { horizon: Duration::from_secs(10), ..of(RoomRole::Check) }, [1, 2], START);
    tell(&mut check, START, 10.0);
    let due =
        Promise { kind: Kind::Place, class: ONE, since: START, at: START, work: 1000, renewed: 0, number: 1 };
    let owed = |seconds: &[u64]| {
        let owed =
            seconds.iter().map(|second| Owed { slot: s(0.0) + Duration::from_secs(*second), work: 1500 });
        Answered { owed: owed.collect(), ..Answered::default() }
    };
    // Beyond its horizon, and over.
    check.hear(START, &owed(&[0, 11, 1_000_000]));
    let extra = promise(check.missed(START, ONE, Some(&due))).expect("a new time");
    assert_eq!(slots(&[extra]), [1], "a part of each slot is kept for that");
    check.hear(START, &owed(&[7, 10]));
    let told: Vec<_> = (0..4).filter_map(|_| promise(check.missed(START, ONE, Some(&due)))).collect();
    assert_eq!(slots(&told), [7, 7, 10, 10]);
    // The rest of it is worth nothing once slots are of another length.
    check.hear(START, &owed(&[8]));
    check.configure(START, &RoomSettings { slot: Duration::from_millis(100), ..check.settings.clone() });
    let next = promise(check.missed(START, ONE, Some(&due))).expect("a new time");
    assert!(next.at < s(8.0), "{}", next.at);
    check.check_invariants();
}

#[test]
fn the_capacity_is_that_of_all_checks_and_the_loss_of_one_takes_away_its_part() {
    let mut apart = Apart::new(&[10.0, 30.0]);
    assert_eq!(apart.for_newcomers(s(0.1)), 40.0);
    let parts: Vec<_> =
        apart.generator.checks(s(0.1)).map(|check| (check.name, check.capacity, check.lost)).collect();
    assert_eq!(parts, [("check 0".to_owned(), Some(10.0), false), ("check 1".to_owned(), Some(30.0), false)]);
    // The second one falls silent: overdue after 5 s, lost after a minute more.
    let standing = |apart: &mut Apart, second: u32| {
        let now = s(f64::from(second));
        apart.report_of(now, 0);
        let standing = apart.generator.standing(now);
        (standing.overdue, standing.lost, apart.for_newcomers(now))
    };
    assert_eq!(standing(&mut apart, 4), (false, false, 40.0));
    assert_eq!(standing(&mut apart, 6), (true, false, 40.0));
    assert_eq!(standing(&mut apart, 64), (true, false, 40.0));
    assert_eq!(standing(&mut apart, 66), (true, false, 10.0), "its part alone, and one is missing");
    let lost: Vec<_> = apart.generator.checks(s(66.0)).map(|check| check.lost).collect();
    assert_eq!(lost, [false, true]);
    // It comes back.
    apart.report_of(s(67.0), 1);
    assert_eq!(apart.for_newcomers(s(67.0)), 40.0);
    // Both are silent, one for half a second longer: half of what they told last, in the end.
    apart.report_of(s(67.5), 0);
    apart.generator.advance(s(140.0));
    let standing = apart.generator.standing(s(140.0));
    assert!(standing.overdue && standing.lost, "{standing:?}");
    assert_eq!((apart.for_newcomers(s(140.0)), standing.capacity), (20.0, Some(20.0)), "what holds is said");
    let floor = RoomSettings { floor: Some(15.0), ..of(RoomRole::Generate) };
    apart.generator.configure(s(140.0), &floor);
    assert_eq!(apart.for_newcomers(s(140.0)), 15.0, "the floor is that of all together");
    assert_eq!(apart.generator.standing(s(140.0)).capacity, Some(15.0));
    // One goes on without the other: an hour after that was lost nothing is known of it.
    apart.report_of(s(3700.0), 0);
    assert!(apart.generator.standing(s(3700.0)).overdue);
    apart.report_of(s(3800.0), 0);
    assert!(!apart.generator.standing(s(3800.0)).overdue);
    assert_eq!(apart.generator.checks(s(3800.0)).count(), 1);
}

#[test]
fn costs_and_sessions_are_the_mean_of_the_checks_by_their_capacities() {
    let mut settings = of(RoomRole::Generate);
    settings.classes.push(ClassRoom::default());
    settings.sessions =
        Some(SessionSettings { idle: Duration::from_secs(60), total: Duration::from_secs(600) });
    let mut generator = Room::new(&settings, [1, 2], START);
    let report = |per_s: Option<f64>, cost: u64, follow: u64, excess: f64| Report {
        capacity: per_s,
        costs: vec![1000, cost],
        follow,
        excess,
        ..Report::default()
    };
    let _ = generator.heed(START, "a", &report(Some(10.0), 2000, 400, 1.0));
    let _ = generator.heed(START, "b", &report(Some(30.0), 6000, 0, 2.0));
    // One that knows nothing yet takes nothing away, and adds nothing.
    let _ = generator.heed(START, "c", &report(None, 1000, 0, 0.0));
    let standing = generator.standing(START);
    assert_eq!(standing.capacity, Some(40.0));
    assert!(
        (standing.for_newcomers - 37.0).abs() < 1e-6,
        "what sessions do beyond is added up: {standing:?}"
    );
    let of_class = |generator: &mut Room, class| promise(generator.ask(START, ClassId(class))).unwrap().work;
    assert_eq!(of_class(&mut generator, 1), 5000 + 100);
    assert_eq!(of_class(&mut generator, 0), 1000 + 100);
}

#[test]
fn a_check_whose_clock_differs_is_known() {
    let tolerance = Duration::from_millis(250);
    let settings = RoomSettings { clock_tolerance: tolerance, ..of(RoomRole::Generate) };
    let mut generator = Room::new(&settings, [1, 2], START);
    let mut clock = |at: Option<Timestamp>| {
        let _ = generator.heed(s(100.0), "check", &Report { at, ..Report::default() });
        let clock = generator.checks(s(103.0)).next().expect("the check").clock;
        clock.map(|clock| (clock.by.as_millis(), clock.is_ahead, clock.is_too_far))
    };
    assert_eq!(clock(None), None, "an older check does not tell");
    assert_eq!(clock(Some(s(100.0))), Some((0, false, false)));
    assert_eq!(clock(Some(s(101.25))), Some((1250, true, false)));
    assert_eq!(clock(Some(s(101.5))), Some((1500, true, true)));
    assert_eq!(clock(Some(s(98.75))), Some((1250, false, false)), "it may have been under way");
    assert_eq!(clock(Some(s(40.0))), Some((60_000, false, true)));
}

#[test]
fn so_many_checks_are_known_and_no_more() {
    let mut generator = Room::new(&of(RoomRole::Generate), [1, 2], START);
    let report = Report { capacity: Some(1.0), ..Report::default() };
    for number in 0..100_u32 {
        let _ = generator.heed(s(f64::from(number) / 100.0), &number.to_string(), &report);
    }
    let names: Vec<String> = generator.checks(s(1.0)).map(|check| check.name).collect();
    assert_eq!(names.len(), 64);
    assert!(names.contains(&"99".to_owned()) && !names.contains(&"35".to_owned()), "{names:?}");
    assert_eq!(generator.standing(s(1.0)).capacity, Some(64.0));
}

/// A check is known, but no more than that: whatever it says, times are given.
#[test]
fn a_check_may_say_whatever_can_be_said() {
    let moments = [0, START.as_nanos(), s(3.0).as_nanos(), u64::MAX].map(Timestamp::from_nanos);
    let mut generator = Room::new(&of(RoomRole::Generate), [1, 2], START);
    for second in 0..5_u32 {
        let now = s(f64::from(second));
        for slot in moments {
            let again = Again { slot, class: ONE, people: u32::MAX, work: u64::MAX / 4 };
            let report = Report {
                at: Some(slot),
                capacity: Some(1e15),
                follow: u64::MAX,
                excess: 1e15,
                costs: vec![u64::MAX],
                returned: vec![Returned { slot, class: ONE, people: u32::MAX }; 2],
                kept: vec![u64::MAX],
                missed: vec![u64::MAX],
                again: vec![again; 256],
                used: vec![Used { slot, number: 7 }],
                revoked: vec![Revoked { number: 7, until: slot }],
                ..Report::default()
            };
            let _ = generator.heed(now, "check", &report);
            let _ = generator.ask(now, ONE);
            let _ = generator.standing(now);
        }
    }
    generator.check_invariants();
}

#[test]
fn generator_and_check_apart_and_the_loss_of_the_reports() {
    let mut check = room_of(&of(RoomRole::Check), 10.0);
    let mut generator = Room::new(&of(RoomRole::Generate), [3, 4], START);
    assert!(generator.standing(START).overdue, "nothing was heard yet");
    let answered = generator.heed(s(0.1), "check", &check.report(s(0.1)));
    check.hear(s(0.1), &answered);
    assert!(!generator.standing(s(0.1)).overdue);
    assert_eq!(check.ask(s(0.1), ONE), Answer::Elsewhere { with_promise: false });
    let out = ask(&mut generator, s(0.1), 40);
    assert_eq!(out.len(), 40, "a generator lets nobody in by itself");
    for promise in out.iter().filter(|promise| promise.at < s(3.0)) {
        assert_eq!(how(check.come_back(promise.at, ONE, promise)), Some(How::Kept));
    }
    let report = check.report(s(3.0));
    assert_eq!(report.returned.iter().map(|entry| entry.people).sum::<u32>(), 20);
    let _ = generator.heed(s(3.0), "check", &report);
    generator.advance(s(6.0));
    assert!(generator.standing(s(6.0)).no_show < 0.2, "20 of 40 have come, 10 of those due have not");
    // Lost: the last capacity, then half of it.
    assert!((generator.standing(s(40.0)).for_newcomers - 10.0).abs() < 0.1);
    generator.advance(s(80.0));
    let standing = generator.standing(s(80.0));
    assert!(standing.overdue && (standing.for_newcomers - 5.0).abs() < 0.1, "{standing:?}");
}

#[test]
fn what_one_process_says_the_other_does() {
    let mut check = room_of(&of(RoomRole::Check), 100.0);
    let mut generator = Room::new(&of(RoomRole::Generate), [3, 4], START);
    assert_eq!(
        generator.ask(START, ONE),
        Answer::Refuse(Refusal::HorizonFull),
        "of the check nothing is known yet"
    );
    let _ = generator.heed(START, "check", &check.report(START));
    check.hear(START, &Answered::default());
    // What this process knows of servers of its own is not what the check says.
    tell(&mut generator, s(0.5), 7.0);
    assert_eq!(generator.standing(s(0.5)).capacity, Some(100.0));
    let out = ask(&mut generator, s(0.5), 500);

    // Whose time has come is sent on, as often as he asks, and is let in once where it is checked.
    let one = out[0];
    for _ in 0..3 {
        assert_eq!(promise(generator.come_back(one.at, ONE, &one)), Some(one));
    }
    assert_eq!(how(check.come_back(one.at, ONE, &one)), Some(How::Kept));
    check.served(one.at, ONE);
    let again: Vec<_> = (0..5).map(|_| check.come_back(one.at, ONE, &one)).collect();
    assert!(again.contains(&Answer::Elsewhere { with_promise: false }), "used: a newcomer, elsewhere");

    // Of a hundred whose time has come and who cannot be served, five a second are given a new one there.
    let due: Vec<Promise> = out.iter().filter(|promise| promise.at < s(2.0)).skip(1).copied().collect();
    for promise in &due {
        assert_eq!(how(check.come_back(s(1.9), ONE, promise)), Some(How::Kept));
    }
    let new: Vec<Promise> =
        due.iter().filter_map(|due| promise(check.missed(s(1.9), ONE, Some(due)))).collect();
    assert_eq!(new.len(), due.len());
    let most = (2..30).map(|slot| slots(&new).iter().filter(|at| **at == slot).count()).max();
    assert!(most <= Some(5), "{most:?} in a second: the rest of it is promised to others");

    // A report that is lost is told again, what comes meanwhile with the next one.
    let _lost = check.report(s(2.0));
    let report = check.report(s(2.5));
    assert_eq!(
        report.returned.iter().map(|entry| entry.people).sum::<u32>(),
        1 + u32::try_from(due.len()).unwrap()
    );
    assert_eq!((&report.kept[..], &report.missed[..]), (&[1][..], &[due.len() as u64][..]));
    let mut counted: std::collections::BTreeMap<RoomCount, u64> = std::collections::BTreeMap::new();
    generator.drain_counts(|_, _, _| {});
    // One whose answer is lost has arrived, and counts once.
    let _lost = generator.heed(s(2.5), "check", &report);
    let answered = generator.heed(s(2.6), "check", &check.report(s(2.6)));
    check.hear(s(2.6), &answered);
    let nothing_new = check.report(s(2.7));
    assert_eq!((nothing_new.returned.len(), &nothing_new.missed[..]), (0, &[0][..]));
    let _ = generator.heed(s(2.7), "check", &nothing_new);
    generator.drain_counts(|_, what, count| *counted.entry(what).or_default() += count);
    assert_eq!(counted[&RoomCount::Kept], 1, "the others were let in and not served");
    assert_eq!(counted[&RoomCount::Missed], due.len() as u64);
    assert_eq!(counted[&RoomCount::Promised], due.len() as u64, "new times");

    // Too late: he goes back with his promise, and has credit.
    let late = out[120];
    let now = late.at + Duration::from_secs(40);
    assert_eq!(check.come_back(now, ONE, &late), Answer::Elsewhere { with_promise: true });
    ask(&mut generator, now, 1_000);
    let newcomer = ask(&mut generator, now, 1)[0];
    assert!(promise(generator.come_back(now, ONE, &late)).is_some_and(|credit| credit.at < newcomer.at));

    // Where the check knows of no limit, everybody goes on at once.
    let mut unlimited = Room::new(&of(RoomRole::Check), [1, 2], START);
    let _ = generator.heed(s(60.0), "check", &unlimited.report(s(60.0)));
    assert!(ask(&mut generator, s(60.0), 1_000).iter().all(|promise| promise.at <= s(60.0)));
}

/// A generator with a method, and a floor if there is one.
fn generator(method: RoomMethod, floor: Option<f64>) -> Room {
    let (round, opens_at) = (Duration::from_secs(10), Some(s(10.0)));
    Room::new(&RoomSettings { method, round, opens_at, floor, ..of(RoomRole::Generate) }, [3, 4], START)
}

/// What a lot has become: its time.
fn drawn(room: &mut Room, now: Timestamp, lot: &Promise) -> Timestamp {
    let place = promise(room.come_back(now, lot.class, lot)).expect("a generator lets nobody in by itself");
    assert_eq!(place.kind, Kind::Place, "it is drawn at {now}: {lot:?}");
    place.at
}

#[test]
fn before_a_check_is_heard_lots_are_drawn_within_the_floor() {
    for method in [RoomMethod::Random, RoomMethod::Event] {
        for heard in [false, true] {
            let mut room = generator(method, Some(5.0));
            if heard {
                let _ = room.heed(START, "check", &Report::default());
            }
            let lots = ask(&mut room, s(1.0), 40);
            assert!(lots.len() == 40 && lots.iter().all(|lot| lot.kind == Kind::Lot), "{method:?}");
            room.advance(s(10.0));
            let mut seconds = BTreeMap::new();
            for lot in &lots {
                let at = drawn(&mut room, s(10.0), lot).since(START).as_secs();
                *seconds.entry(at).or_insert(0) += 1;
            }
            // Shuffled places are independent of each other: five a second in the mean, over eight seconds or nine.
            assert!(seconds.keys().all(|second| (10..=18).contains(second)), "{method:?}: {seconds:?}");
            assert!(seconds.len() >= 5, "{method:?}: {seconds:?}");
            let newcomer = ask(&mut room, s(10.0), 1).remove(0);
            let at = if newcomer.kind == Kind::Lot {
                room.advance(s(20.0));
                drawn(&mut room, s(20.0), &newcomer)
            } else {
                newcomer.at
            };
            assert!(at >= s(17.0), "behind those who came before: {method:?}: {newcomer:?}");
        }
    }
}

#[test]
fn where_nothing_is_known_of_the_check_nobody_is_promised_a_draw_that_cannot_be_made() {
    let mut room = generator(RoomMethod::Random, None);
    assert_eq!(room.ask(START, ONE), Answer::Refuse(Refusal::HorizonFull), "as first come, first served");
    assert_eq!(room.standing(START).next, None);

    // A draw that was promised before waits for the check, and nobody goes before it.
    let mut room = generator(RoomMethod::Event, None);
    let lots = ask(&mut room, START, 20);
    assert_eq!(lots.len(), 20);
    let Answer::Wait(place) = room.come_back(s(12.0), ONE, &lots[0]) else { panic!("his lot is not lost") };
    assert_eq!(place.promise, lots[0]);
    assert!(place.estimate.at.is_some_and(|at| at > s(12.0)), "he is to look again: {:?}", place.estimate);
    assert_eq!(room.ask(s(12.0), ONE), Answer::Refuse(Refusal::HorizonFull));
    let _ = room.heed(s(13.0), "check", &Report { capacity: Some(10.0), ..Report::default() });
    for lot in &lots {
        let at = drawn(&mut room, s(13.0), lot);
        assert!((s(13.0)..s(16.0)).contains(&at), "ten a second: {at}");
    }
}

#[test]
fn where_a_check_knows_of_no_limit_everybody_goes_on_at_once_whatever_the_method() {
    for method in [RoomMethod::Fifo, RoomMethod::Random, RoomMethod::Event] {
        let mut room = generator(method, None);
        let _ = room.heed(START, "check", &Report::default());
        let told = ask(&mut room, s(1.0), 1000);
        assert_eq!(told.len(), 1000);
        for promise in &told {
            assert_eq!(promise.kind == Kind::Lot, method == RoomMethod::Event, "for doors that are closed");
        }
        // Newcomers, and who has waited for the doors.
        let _ = room.heed(s(10.2), "check", &Report::default());
        let newcomers = ask(&mut room, s(10.3), 100);
        assert!(
            newcomers.len() == 100 && newcomers.iter().all(|promise| promise.at <= s(10.3)),
            "{method:?}"
        );
        for lot in told.iter().filter(|promise| promise.kind == Kind::Lot) {
            assert!(drawn(&mut room, s(10.3), lot) <= s(10.3));
        }
        assert_eq!((room.standing(s(10.3)).waiting, room.standing(s(10.3)).next), (0, Some(Duration::ZERO)));
        room.check_invariants();
        // Nothing of it is in the way of those who come once a capacity is known, and it survives.
        let snapshot = RoomSnapshot::from_bytes(&room.snapshot(s(10.4)).to_bytes()).unwrap();
        assert_eq!(snapshot.at(), s(10.4));
        let _ = room.heed(s(11.0), "check", &Report { capacity: Some(10.0), ..Report::default() });
        // A generator lets nobody in who would be in a draw.
        let next = if method == RoomMethod::Random { Duration::from_secs(9) } else { Duration::ZERO };
        assert_eq!(room.standing(s(11.0)).next, Some(next), "{method:?}");
    }
}

#[test]
fn a_generator_that_is_off_or_watches_sends_everybody_to_the_check_at_once_and_that_lets_them_in() {
    for method in [RoomMethod::Off, RoomMethod::Fifo] {
        let mut apart = Apart::new(&[1000.0]);
        let waits = ask(&mut apart.generator, START, 3_000);
        let far = waits[waits.len() - 1];
        assert!(far.at >= s(3.0), "{}", far.at);
        apart.generator.configure(s(0.4), &RoomSettings { method, ..of(RoomRole::Generate) });
        apart.report(s(0.4));
        let now = s(0.5);
        let meets = |apart: &mut Apart, with: Option<&Promise>| {
            let sent = apart.generator.sends_on(now, ONE, with).promise;
            assert_eq!(
                how(apart.checks[0].come_back(now, ONE, &sent)),
                Some(How::Kept),
                "{method:?}: {sent:?}"
            );
            sent
        };
        assert_eq!(meets(&mut apart, None).since, now);
        // Who was told a later time goes on now, too, and who is due with what he has.
        let sent = meets(&mut apart, Some(&far));
        assert!(sent.at <= now && sent.since == far.since && sent.number != far.number, "{sent:?}");
        let due = apart.generator.sends_on(now, ONE, None).promise;
        assert_eq!(meets(&mut apart, Some(&due)), due);
    }
}

/// A minute without a word, while people come as they did: nobody knows that they do, nor that they do not. Twenty count as absent
/// before that is noticed.
#[test]
fn who_is_not_told_of_does_not_count_as_absent_while_no_check_tells() {
    let mut apart = Apart::new(&[10.0]);
    let mut waiting = ask(&mut apart.generator, START, 200);
    for second in 0..180_u32 {
        let now = s(f64::from(second));
        let (due, rest): (Vec<_>, Vec<_>) =
            waiting.into_iter().partition(|promise| promise.at < s(f64::from(second) + 1.0));
        waiting = rest;
        for promise in &due {
            assert_eq!(how(apart.checks[0].come_back(promise.at, ONE, promise)), Some(How::Kept));
            apart.checks[0].served(promise.at, ONE);
        }
        if (60..120).contains(&second) {
            let _lost = apart.checks[0].report(now);
        } else {
            apart.report(now);
        }
        waiting.extend(ask(&mut apart.generator, now, 10));
        let absent = apart.generator.standing(now).no_show;
        assert!(absent < 0.06, "{absent} in second {second}");
    }
}
