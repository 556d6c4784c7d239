//! Places: the slot table against a naive one, and who gets which after capacity has risen or fallen.

use std::collections::{BTreeMap, VecDeque};

use super::*;
use crate::capacity::Pace;

/// The table as its documentation says it, without cursors.
pub(super) struct Naive {
    pub(super) budgets: Vec<Work>,
    pub(super) due: Vec<Vec<Work>>,
    pub(super) over: Vec<Work>,
    /// Slots from the present one before which no place is looked for, by lane.
    pub(super) ends: Vec<usize>,
    /// The last slot that one of a lane's people was given.
    given: Vec<usize>,
    /// The least budget since these were last the next one.
    pub(super) opened: Work,
}

impl Naive {
    pub(super) fn new(budgets: Vec<Work>, slots: usize) -> Self {
        let (lanes, opened) = (budgets.len(), budgets.iter().sum());
        let due = vec![vec![0; slots]; lanes];
        Self { budgets, due, over: vec![0; lanes], ends: vec![1; lanes], given: vec![1; lanes], opened }
    }

    /// Whether that opens slots before the end of the line.
    fn set_budgets(&mut self, budgets: Vec<Work>) -> bool {
        let budget: Work = budgets.iter().sum();
        if budgets == self.budgets {
            return false;
        }
        let end = |lane: usize| match self.budgets[lane] {
            0 => 1,
            _ => self.earliest(lane).unwrap_or(self.due[lane].len()),
        };
        let ends: Vec<usize> = (0..self.budgets.len()).map(end).collect();
        let opens = ends.iter().all(|end| *end == 1) || 10 * budget > 11 * self.opened;
        if opens {
            self.opened = budget;
            self.ends.fill(1);
            self.given.fill(1);
        } else {
            self.opened = self.opened.min(budget);
            self.ends = ends;
        }
        self.budgets = budgets;
        opens
    }

    /// Where a newcomer of a lane finds his place: the slot, and whether in the lane's part or in everybody's.
    pub(super) fn next(&self, of: usize) -> Option<(usize, usize)> {
        let room = |part: usize| {
            let booked = self.booked(part);
            (self.ends[part].max(self.given[of])..booked.len())
                .find(|slot| booked[*slot] < self.budgets[part])
        };
        [of, 0].into_iter().filter_map(|part| Some((room(part)?, part))).min_by_key(|(slot, _)| *slot)
    }

    /// He takes it: nobody after him comes before him who is of the lane, or takes of that part.
    pub(super) fn take(&mut self, of: usize, part: usize, slot: usize, work: Work) {
        self.due[part][slot] += work;
        self.ends[part] = self.ends[part].max(slot);
        self.given[of] = self.given[of].max(slot);
    }

    fn booked(&self, lane: usize) -> Vec<Work> {
        let mut rest = self.over[lane];
        let mut booked: Vec<Work> = self.due[lane]
            .iter()
            .map(|due| {
                let all = due + rest;
                let held = all.min(self.budgets[lane]);
                rest = all - held;
                held
            })
            .collect();
        *booked.last_mut().unwrap() += rest;
        booked
    }

    pub(super) fn earliest(&self, lane: usize) -> Option<usize> {
        let booked = self.booked(lane);
        (self.ends[lane]..booked.len()).find(|slot| booked[*slot] < self.budgets[lane])
    }

    fn excess(&self) -> Work {
        let due: Work = self.due.iter().map(|lane| lane[0]).sum();
        (self.over.iter().sum::<Work>() + due).saturating_sub(self.budgets.iter().sum())
    }

    pub(super) fn advance(&mut self) {
        let (mut excess, lanes) = (self.excess(), 0..self.budgets.len());
        let too_much = |lane: usize| (self.over[lane] + self.due[lane][0]).saturating_sub(self.budgets[lane]);
        let rests: Vec<Work> = lanes.clone().map(too_much).collect();
        // In proportion, rounded down, but for the last of them.
        for lane in lanes {
            let all: Work = rests[lane..].iter().sum();
            self.over[lane] = (excess * rests[lane]).checked_div(all).unwrap_or(0);
            excess -= self.over[lane];
        }
        for lane in &mut self.due {
            lane.remove(0);
            lane.push(0);
        }
        for end in self.ends.iter_mut().chain(&mut self.given) {
            *end = (*end - 1).max(1);
        }
    }

    /// Work of the present slot that it cannot do becomes due elsewhere.
    fn take_again(&mut self, slot: usize, work: Work) {
        for _ in 0..work.min(self.excess()) {
            if let Some(over) = self.over.iter_mut().find(|over| **over > 0) {
                *over -= 1;
            } else if let Some(lane) = self.due.iter_mut().find(|lane| lane[0] > 0) {
                lane[0] -= 1;
            }
        }
        self.due[0][slot] += work;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn places_are_those_of_the_naive_table(
        ops in prop::collection::vec((0..14_u8, 0..60_u64, 0..3_usize), 1..120),
        budget in 1..40_u64,
    ) {
        const SLOTS: u64 = 12;
        let second = Duration::from_secs(1);
        let mut table = SlotTable::new(second, second * 12, &[0.25, 0.25], START);
        table.set_budget(budget, budget, 0);
        let split = |budget: Work| {
            let quarter = budget / 4;
            vec![budget - 2 * quarter, quarter, quarter]
        };
        let slots = usize::try_from(SLOTS + 1).unwrap();
        let mut naive = Naive::new(split(budget), slots);
        let mut now = START;
        // The last slot that somebody of a lane was given.
        let mut line = [0; 3];
        for (kind, number, lane) in ops {
            let most = table.budget() + table.budget() / 20;
            match kind {
                0..=7 => {
                    let work = number + 1;
                    let expected = naive.next(lane);
                    let block = table.take(lane, work, 1);
                    let found = block.map(|block| (usize::try_from(block.slot - table.present()).unwrap(), block.lane));
                    prop_assert_eq!(found, expected);
                    if let Some((slot, from)) = expected {
                        prop_assert!(slot >= line[lane], "a newcomer before one of his lane for {}", line[lane]);
                        line[lane] = slot;
                        naive.take(lane, from, slot, work);
                    }
                }
                8 => {
                    now = now + second;
                    table.advance(now, 0);
                    naive.advance();
                    line = line.map(|slot: usize| slot.saturating_sub(1));
                    // What had flowed out of the slot that is over stays where it flowed to until the next pouring.
                    table.pour();
                }
                9 => {
                    table.set_budget(number + 1, number + 1, 0);
                    table.pour();
                    if naive.set_budgets(split(number + 1)) {
                        line = [0; 3];
                    }
                }
                10 => {
                    if let Some(slot) = table.take_owed(number + 1, most, table.present()) {
                        naive.due[0][usize::try_from(slot - table.present()).unwrap()] += number + 1;
                    }
                }
                11 => {
                    if let Some(slot) = table.take_again(number + 1, most) {
                        naive.take_again(usize::try_from(slot - table.present()).unwrap(), number + 1);
                        // What was booked stays so until the next pouring.
                        table.check_invariants();
                        table.pour();
                    }
                }
                12 => {
                    let free: Vec<_> = table.room_owed(most).collect();
                    for (slot, room) in &free {
                        let at = usize::try_from(slot - table.present()).unwrap();
                        let due: Work = naive.due.iter().map(|lane| lane[at]).sum();
                        prop_assert_eq!((at > 0, *room), (true, most - due));
                    }
                    let slot = table.present() + number % SLOTS;
                    prop_assert_eq!(table.take_again_in(slot, number + 1, 1), slot);
                    naive.take_again(usize::try_from(slot - table.present()).unwrap(), number + 1);
                    table.check_invariants();
                    table.pour();
                }
                _ => {
                    let from = table.present() + 1 + number % SLOTS;
                    table.put(from, lane, number, 1);
                    naive.due[lane][usize::try_from(from - table.present()).unwrap()] += number;
                    table.pour();
                }
            }
            table.check_invariants();
        }
    }
}

proptest! {
    /// However large requests are for the part of their lane, and whether slots are poured anew or not: nobody is overtaken by who
    /// comes later to the same lane.
    #[test]
    fn nobody_is_overtaken_in_his_lane_as_slots_go_by(
        steps in prop::collection::vec((0..3_usize, 1..3000_u64, 0..5_u8), 1..200),
        budget in 500..5000_u64,
    ) {
        let mut table = SlotTable::new(Duration::from_secs(1), Duration::from_secs(600), &[0.3, 0.05], START);
        table.set_budget(budget, budget, 0);
        let mut now = START;
        let mut line = [0; 3];
        for (lane, work, passes) in steps {
            if passes == 0 {
                now = now + Duration::from_secs(1);
                table.advance(now, 0);
                table.check_invariants();
            }
            if let Some(block) = table.take(lane, work, 1) {
                prop_assert!(block.slot >= line[lane], "{} after {}", block.slot, line[lane]);
                line[lane] = block.slot;
            }
        }
    }
}

/// A lane has a hundredth of ten places a second, and everybody the rest: each place of it takes ten slots of that.
#[test]
fn a_lane_has_no_more_than_its_part_while_everybody_waits() {
    let second = Duration::from_secs(1);
    let mut table = SlotTable::new(second, second * 60, &[0.01], START);
    table.set_budget(10_000, 10_000, 0);
    let mut of_lane = 0;
    for slot in 1..=200 {
        table.advance(START + second * slot, 0);
        while table.next(0).is_some_and(|slots| slots < 20) {
            assert!(table.take(0, 1000, 1).is_some());
        }
        while table.next(1) == Some(1) {
            of_lane += table.take(1, 1000, 1).map_or(0, |block| block.places);
        }
    }
    assert!((19..=21).contains(&of_lane), "{of_lane} places in two hundred slots");
}

#[test]
fn when_capacity_rises_earlier_places_fill_first_and_when_it_falls_newcomers_come_after() {
    let mut room = room_of(&settings(), 10.0);
    let first = ask(&mut room, START, 65);
    assert_eq!((first.len(), slots(&first).last()), (55, Some(&6)));
    // To twice: the places of seconds 0 to 5 that are new.
    tell(&mut room, START, 20.0);
    let more = ask(&mut room, START, 60);
    assert_eq!(slots(&more)[..10], [1; 10]);
    assert_eq!(slots(&more)[49], 5);
    // Now 20 are due in each of 1 to 5 and 5 in 6. To half: T' = 105/10 = 10.5, so the next one is promised second 11.
    tell(&mut room, START, 10.0);
    let next = ask(&mut room, START, 1);
    assert_eq!(slots(&next), [11]);
}

#[test]
fn who_was_promised_and_finds_no_place_is_given_a_new_time_before_all_newcomers() {
    let mut room = room_of(&settings(), 20.0);
    let out = ask(&mut room, START, 120);
    tell(&mut room, START, 10.0);
    let newcomer = ask(&mut room, START, 1)[0];
    // Half of each second's people cannot be served; they are put after what is promised and before the newcomer.
    let mut again = Vec::new();
    for (number, promise) in out.iter().enumerate() {
        assert_eq!(how(room.come_back(promise.at, ONE, promise)), Some(How::Kept));
        if number % 2 == 1 {
            let Answer::Wait(place) = room.missed(promise.at, ONE, Some(promise)) else {
                panic!("a new time")
            };
            assert!(place.promise.at < newcomer.at, "{} is not before {}", place.promise.at, newcomer.at);
            assert_eq!((place.promise.since, place.promise.renewed), (promise.since, 1));
            again.push(place.promise);
        }
    }
    let most = (0..15).map(|second| slots(&again).iter().filter(|slot| **slot == second).count()).max();
    assert!(most <= Some(11), "they are spread: {most:?} in one second");
}

/// From 20 to 10 a second while 120 people have a time; whoever finds the servers busy is given a new one at once.
#[test]
fn after_a_fall_no_slot_stays_empty_while_people_wait() {
    let mut room = room_of(&settings(), 20.0);
    let mut waiting = ask(&mut room, START, 135);
    assert_eq!(waiting.len(), 115);
    tell(&mut room, START, 10.0);
    let mut came: BTreeMap<u64, usize> = BTreeMap::new();
    let mut second = 0_u32;
    while !waiting.is_empty() {
        second += 1;
        assert!(second < 60, "{} still wait: {came:?}", waiting.len());
        let (due, rest): (Vec<_>, Vec<_>) =
            waiting.into_iter().partition(|promise| promise.at < s(f64::from(second) + 1.0));
        waiting = rest;
        for (number, due) in due.iter().enumerate() {
            assert!(how(room.come_back(due.at, ONE, due)).is_some(), "what was promised is kept");
            if number >= 10 {
                waiting.extend(promise(room.missed(due.at, ONE, Some(due))));
            }
        }
        let mut busy = due.len().min(10);
        // Newcomers take what is left of the second, if they may.
        let newcomers = if second <= 20 { 5 } else { 0 };
        for _ in 0..newcomers {
            match room.ask(s(f64::from(second) + 0.99), ONE) {
                Answer::Enter(_) => busy += 1,
                Answer::Wait(place) => waiting.push(place.promise),
                other => panic!("{other:?}"),
            }
        }
        came.insert(u64::from(second), busy);
        room.check_invariants();
    }
    let last = *came.keys().last().unwrap();
    let idle: Vec<_> = came.range(..last).filter(|(_, busy)| **busy < 9).collect();
    assert!(idle.is_empty(), "seconds with room though people waited: {idle:?} of {came:?}");
    assert!((20..=25).contains(&last), "115 and 100 newcomers at ten a second: {last} s");
}

#[test]
fn a_room_holds_back_while_newcomers_are_made_to_wait_not_while_people_wait() {
    let mut room = room_of(&settings(), 10.0);
    assert!(!room.holds_back(s(0.0)), "nobody came");
    ask(&mut room, s(0.0), 5);
    assert!(!room.holds_back(s(0.0)), "who came went on");
    ask(&mut room, s(0.0), 50);
    assert!(room.holds_back(s(0.9)));
    tell(&mut room, s(1.0), 10.0);
    assert!(!room.holds_back(s(1.0)), "nobody came since");
    assert!(room.table.waiting() > 0);
}

/// Before a capacity is known, what departs is proof of nearly as much; without that half of what may come is promised.
#[test]
fn what_departs_is_promised_before_the_capacity_is_known() {
    for (departs_per_s, expected) in [(0.0, 20), (100.0, 90)] {
        let mut room = Room::new(&settings(), [1, 2], START);
        let pace = Some(Pace { may_come_per_s: 40.0, departs_per_s, standing: 0.0, error: 0.0 });
        room.observe(START, Capacity { per_s: None, pace }, std::iter::empty());
        let promises = ask(&mut room, s(0.0), 400);
        let in_slot = |second: f64| {
            let slot = s(second)..s(second + 1.0);
            promises.iter().filter(|promise| slot.contains(&promise.at)).count()
        };
        assert_eq!((in_slot(1.0), in_slot(2.0)), (expected, expected), "{departs_per_s} depart");
    }
}

/// What stands in the short queue is work that slots could not do, whoever it is of: newcomers come so much later, and it is
/// not counted again with each slot.
#[test]
fn what_stands_in_the_short_queue_puts_newcomers_later() {
    let tell_standing = |room: &mut Room, now, standing| {
        let pace = Some(Pace { may_come_per_s: 10.0, departs_per_s: 10.0, standing, error: 0.0 });
        room.observe(now, Capacity { per_s: Some(10.0), pace }, std::iter::empty());
    };
    for (standing, expected) in [(0.0, 6.0), (20.0, 8.0)] {
        let mut room = room_of(&settings(), 10.0);
        let out = ask(&mut room, s(0.0), 60);
        assert_eq!(out.len(), 50, "until the end of the sixth second");
        for second in 0..3 {
            tell_standing(&mut room, s(f64::from(second) + 0.9), standing);
            room.advance(s(f64::from(second) + 1.0));
        }
        let newcomer = ask(&mut room, s(3.0), 1)[0];
        assert_eq!(newcomer.at, s(expected), "{standing} stand");
        room.check_invariants();
    }
}

#[test]
fn each_time_that_is_promised_is_kept_or_missed_or_nobody_comes_once() {
    let mut room = room_of(&settings(), 10.0);
    let mut counted = std::collections::BTreeMap::new();
    let out = ask(&mut room, START, 110);
    // Of a hundred with a time fifty are served, thirty are not and are given another, and twenty do not come.
    let mut again = Vec::new();
    for (n, due) in out.iter().enumerate().filter(|(n, _)| n % 10 < 8) {
        assert_eq!(how(room.come_back(due.at, ONE, due)), Some(How::Kept));
        if n % 10 < 5 {
            room.served(due.at, ONE);
        } else {
            again.push(promise(room.missed(due.at, ONE, Some(due))).expect("a new time"));
        }
    }
    room.drain_counts(|_, what, count| *counted.entry(what).or_default() += count);
    let now = |what: RoomCount| counted.get(&what).copied().unwrap_or(0);
    let all = out.len() as u64;
    assert_eq!((now(RoomCount::Promised), all), (130, 100), "new times count as promised");
    assert_eq!((now(RoomCount::Kept), now(RoomCount::Missed), now(RoomCount::NoShow)), (50, 30, 0));
    for due in again {
        let at = due.at.max(out[out.len() - 1].at);
        assert!(matches!(how(room.come_back(at, ONE, &due)), Some(How::Kept | How::Late)));
        room.served(at, ONE);
    }
    room.advance(s(100.0));
    room.drain_counts(|_, what, count| *counted.entry(what).or_default() += count);
    let now = |what: RoomCount| counted.get(&what).copied().unwrap_or(0);
    assert_eq!((now(RoomCount::Kept), now(RoomCount::Missed), now(RoomCount::NoShow)), (80, 30, 20));
    assert_eq!(now(RoomCount::Promised), 80 + 30 + 20);
}

/// What a steady capacity leaves beside what was promised is nobody's while people wait, however little a slot holds.
#[test]
fn while_people_wait_at_a_steady_capacity_newcomers_come_after_all_of_them() {
    for per_s in [0.4, 2.0, 10.0, 333.0] {
        let steady = |room: &mut Room, now| {
            let pace = Pace { may_come_per_s: per_s, departs_per_s: per_s, standing: 0.0, error: 0.0 };
            room.observe(now, Capacity { per_s: Some(per_s), pace: Some(pace) }, std::iter::empty());
        };
        let mut room = Room::new(&RoomSettings { fill: 0.99, ..settings() }, [1, 2], START);
        steady(&mut room, START);
        let mut line = VecDeque::from(ask(&mut room, START, (per_s * 60.0) as usize));
        assert!(line.len() > 10, "{per_s}/s");
        for tenth in 0..300 {
            let now = s(f64::from(tenth) / 10.0);
            steady(&mut room, now);
            while line.front().is_some_and(|promise| promise.at <= now)
                && let Some(due) = line.pop_front()
            {
                assert!(matches!(how(room.come_back(now, ONE, &due)), Some(How::Kept | How::Late)));
            }
            let newcomer =
                promise(room.ask(now, ONE)).unwrap_or_else(|| panic!("{per_s}/s: overtakes at {now:?}"));
            let last = line.back().expect("people wait").at;
            assert!(newcomer.at >= last, "{per_s}/s: {:?} before {last:?}", newcomer.at);
            line.push_back(newcomer);
        }
        room.check_invariants();
    }
}

/// An estimate is never quite the same: what it rises by less than a tenth opens no place before those who wait.
#[test]
fn a_capacity_that_rises_by_chance_opens_no_slot_before_the_end_of_the_line() {
    for (rises, is_opened) in [(&[10.3, 9.9, 10.8][..], false), (&[12.0], true), (&[9.0, 10.5], true)] {
        let mut room = room_of(&settings(), 10.0);
        let last = ask(&mut room, START, 100).last().expect("people wait").at;
        for per_s in rises {
            tell(&mut room, START, *per_s);
        }
        let overtakes = ask(&mut room, START, 1).first().is_none_or(|newcomer| newcomer.at < last);
        assert_eq!(overtakes, is_opened, "{rises:?}");
        room.check_invariants();
        // Once nobody waits any more, all slots are open.
        tell(&mut room, s(100.0), 10.9);
        assert_eq!(how(room.ask(s(100.0), ONE)), Some(How::Direct));
    }
}

/// What a few departures say of the capacity may be far off: newcomers would fill every slot before the end of the line with
/// people for whom there is no time.
#[test]
fn a_rise_opens_slots_before_the_end_of_the_line_once_enough_is_counted() {
    let mut room = room_of(&settings(), 10.0);
    let counted = |room: &mut Room, per_s: f64, error: f64| {
        let pace = Pace { may_come_per_s: per_s, departs_per_s: per_s, standing: 0.0, error };
        room.observe(START, Capacity { per_s: Some(per_s), pace: Some(pace) }, std::iter::empty());
    };
    let last = ask(&mut room, START, 100).last().expect("people wait").at;
    for (error, is_opened) in [(0.2, false), (0.08, false), (0.07, true)] {
        counted(&mut room, 13.0, error);
        let newcomer = ask(&mut room, START, 4).pop().expect("waits");
        assert_eq!(newcomer.at < last, is_opened, "{error}: {:?}, {last:?}", newcomer.at);
    }
    room.check_invariants();
}

/// Of places that are taken at once, those that nobody has got are free when their slot comes.
#[test]
fn places_nobody_has_got_keep_nobody_out() {
    let mut room = room_of(&RoomSettings { block: 100, ..settings() }, 10.0);
    // Ten go on, ten are promised the next second, and one the one after it, with nine places beside him.
    assert_eq!(slots(&ask(&mut room, START, 21)), [[1; 10].as_slice(), &[2]].concat());
    for second in 2..8 {
        let newcomer = room.ask(s(f64::from(second) + 0.5), ONE);
        assert_eq!(how(newcomer), Some(How::Direct), "in second {second}: {newcomer:?}");
    }
    room.check_invariants();
}

/// Ten people a second have their times, and the room is told twice as much: the ten that come in addition are spread over each
/// second as evenly, whether places are taken one by one or in blocks. By what the second holds they would all come in its
/// second half, where five are already, while the servers idle in the first.
#[test]
fn who_comes_in_addition_after_a_rise_is_spread_over_the_slot_as_well() {
    for block in [1, 10] {
        let mut room = room_of(&RoomSettings { block, ..settings() }, 10.0);
        let mut out = ask(&mut room, START, 60);
        tell(&mut room, START, 20.0);
        out.extend(ask(&mut room, START, 60));
        for second in 1..=5 {
            let halves = [0, 500].map(|from| {
                let half = s(f64::from(second)) + Duration::from_millis(from);
                let is_in =
                    |promise: &&Promise| promise.at >= half && promise.at < half + Duration::from_millis(500);
                out.iter().filter(is_in).count()
            });
            assert_eq!(halves, [10, 10], "second {second}, blocks of {block}");
        }
        room.check_invariants();
    }
}
