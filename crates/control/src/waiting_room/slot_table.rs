//! The slot table: how much work is promised to each slot of the future, and the earliest slot with room.
//!
//! Time is cut into slots of one length; a slot can do a *budget* of work, in thousandths of a work unit. A place is
//! taken as work is poured: it begins in the earliest slot that is not full and flows over into the next ones, so
//! that no slot ever holds more than its budget and work that is larger than a slot needs no case of its own.
//!
//! ```text
//! due[i]     work of the promises made for slot i
//! over       work of slots that are over which they could not do: over ← max(0, over + due[i] - budget) at the end of i,
//!            and not less than what stands in the short queue then
//! booked     due, poured forward: booked[i] = min(budget, due[i] + rest[i-1]), rest[i] = the remainder, rest before the
//!            present slot = over
//! earliest   the smallest i with booked[i] < budget, and none before the last that was given
//! ```
//!
//! Nobody is overtaken in his line: whatever becomes free before the last slot that a newcomer was given is for who is called,
//! until the budget has surely risen or nobody waits.
//!
//! Where the budget rises, `booked` falls back to `due` and earlier slots have room again, which newcomers get where it has
//! surely risen by a tenth: else it may be chance, and they would overtake all who wait. Where it falls, what is
//! promised beyond it flows towards the end of the line, so that newcomers come after `T' = T·C/C'`, and no promise is
//! changed. Who comes at his time and is given another one takes his work along: it was counted as flowing on already, so
//! that newcomers come no later for it and no slot stays empty. A part of each slot may be kept for a group of classes, a
//! *lane*; what of it nobody has taken when the slot is there is anybody's, as long as newcomers overtake nobody by it. What is
//! over stays with the lanes that had more due than their parts ([`over`](super::over)).
//!
//! Cost: a place is O(1) amortised (the search goes on where the last one ended), a change of the budget
//! O(horizon), and so is a new slot while work is over; people before a slot O(log horizon). Memory: 24 bytes a slot and lane, 16 a slot, nothing a visitor.
//!
//! Source: WebQ, section III-D (array `L`, smallest `i` with `L[i] < C`, circular). Departures:
//!
//! 1. Work units instead of requests, poured instead of counted, for requests of different cost.
//! 2. What of the present slot has gone by unused is lost: a slot's capacity cannot be used at its end. A quarter of a
//!    slot may be taken at once.

use std::{array, time::Duration};

use super::{order::Order, over::Over, spread::Spread, stretch::Stretch, tree::Tree};
use crate::Timestamp;

/// Thousandths of a work unit.
pub type Work = u64;

/// Slots there may be at most.
pub const SLOTS_MAX: u64 = 86_400;

/// Slots in which a place is looked for that is owed, beyond those known to be full.
const LOOK_AHEAD: u64 = 64;

/// Lanes there may be at most, that of everybody included.
pub const LANES_MAX: usize = 9;

/// Places of one slot, taken at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Number of the slot, counted from the Unix epoch.
    pub slot: u64,
    /// Where in the slot the first of them lies, millionths of its length.
    pub offset: u32,
    /// How far the next one lies behind each, millionths of its length.
    pub apart: u32,
    /// How many.
    pub places: u32,
    /// Work of each.
    pub work: Work,
    /// The lane they were taken of.
    pub lane: usize,
}

/// Where places come from: this process's own table, or one that several gateways share.
pub trait Places {
    /// Takes up to `most` places of `work` each for `lane`, in the earliest slot after the present one with room;
    /// fewer if that slot has not room for all. `None`: there is no room within the horizon.
    fn take(&mut self, lane: usize, work: Work, most: u32) -> Option<Block>;

    /// Gives back what of a block nobody has got.
    fn give_back(&mut self, block: &Block);
}

/// What newcomers find of the present slot.
struct Left {
    /// What has gone by unused and was not known to have.
    unused: Work,
    room: Work,
    /// Whether there is room for no part of a place: others wait, whom who took more than there is would overtake.
    is_whole: bool,
    /// What may be taken of the next slot where there is no room; `None`: nothing, however little.
    borrowable: Option<Work>,
}

impl Left {
    fn holds(&self, work: Work) -> bool {
        let least = if self.is_whole { work.max(1) } else { 1 };
        self.room >= least || self.borrowable.is_some_and(|most| work <= most)
    }
}

/// The slot table of one process.
#[derive(Clone, Debug, PartialEq)]
pub struct SlotTable {
    /// Nanoseconds.
    length: u64,
    /// Slots ahead of the present one.
    horizon: u64,
    /// Number of the present slot.
    present: u64,
    /// Shares of the lanes, the first being everybody's; together 1.
    shares: Vec<f64>,
    /// Budget of a slot that is to come, by lane.
    budgets: Vec<Work>,
    /// Of the present slot, over all lanes.
    present_budget: Work,
    /// Work let into the present slot without a promise, and what has gone by unused.
    direct: Work,
    /// What of it has gone by unused.
    lost: Work,
    /// Work let in without a promise that is due in the next slot.
    borrowed: Work,
    /// Work of slots that are over which they could not do.
    over: Over,
    /// Budget over all lanes of slots to come.
    budget: Work,
    /// Work due, lane by lane, each a ring of slots.
    due: Vec<Vec<Work>>,
    booked: Vec<Vec<Work>>,
    spread: Spread,
    /// No slot of the lane after the present one and before this has room.
    cursors: Vec<u64>,
    order: Order,
    /// Where the next place of those who are owed one is looked for.
    owed: u64,
    /// People promised, by slot.
    people: Tree,
    /// Somebody was called out of a slot since slots were poured.
    has_called: bool,
}

impl SlotTable {
    /// An empty table without capacity. Slots last whole milliseconds, one at least.
    #[must_use]
    pub fn new(length: Duration, horizon: Duration, shares: &[f64], now: Timestamp) -> Self {
        let length = u64::try_from(length.as_millis()).unwrap_or(u64::MAX).clamp(1, 1 << 32) * 1_000_000;
        let horizon = u64::try_from(horizon.as_nanos() / u128::from(length)).unwrap_or(SLOTS_MAX);
        let horizon = horizon.clamp(1, SLOTS_MAX);
        let slots = usize::try_from(horizon + 1).unwrap_or(usize::MAX);
        let kept: Vec<f64> = shares.iter().copied().take(LANES_MAX - 1).map(|share| share.max(0.0)).collect();
        let sum: f64 = kept.iter().sum();
        let over = sum.max(1.0);
        let lanes = kept.len() + 1;
        let mut all = vec![(1.0 - sum / over).max(0.0)];
        all.extend(kept.iter().map(|share| share / over));
        let present = now.as_nanos() / length;
        Self {
            length,
            horizon,
            present,
            shares: all,
            budgets: vec![0; lanes],
            present_budget: 0,
            direct: 0,
            lost: 0,
            borrowed: 0,
            over: Over::default(),
            budget: 0,
            due: vec![vec![0; slots]; lanes],
            booked: vec![vec![0; slots]; lanes],
            spread: Spread::new(lanes, slots),
            cursors: vec![present + 1; lanes],
            order: Order::new(present + 1),
            owed: present + 1,
            people: Tree::new(slots),
            has_called: false,
        }
    }

    /// The slot in which `at` lies.
    #[must_use]
    pub const fn slot_of(&self, at: Timestamp) -> u64 {
        at.as_nanos() / self.length
    }

    /// When a slot begins.
    #[must_use]
    pub const fn begin(&self, slot: u64) -> Timestamp {
        Timestamp::from_nanos(slot.saturating_mul(self.length))
    }

    /// A moment within a slot; `offset` in millionths of its length.
    #[must_use]
    pub fn within(&self, slot: u64, offset: u32) -> Timestamp {
        self.begin(slot) + Duration::from_nanos(self.length / 1_000_000 * u64::from(offset.min(999_999)))
    }

    /// Number of the present slot.
    #[must_use]
    pub const fn present(&self) -> u64 {
        self.present
    }

    /// Slots ahead of the present one.
    #[must_use]
    pub const fn horizon(&self) -> u64 {
        self.horizon
    }

    /// Length of a slot.
    #[must_use]
    pub const fn length(&self) -> Duration {
        Duration::from_nanos(self.length)
    }

    /// Work a slot that is to come can do.
    #[must_use]
    pub const fn budget(&self) -> Work {
        self.budget
    }

    /// Share of each slot that is a lane's, 0 to 1.
    #[must_use]
    pub fn share(&self, lane: usize) -> f64 {
        self.shares[self.lane(lane)]
    }

    /// Goes to the slot of `now`; slots that are over are forgotten. Newcomers come later by what is `standing` in the short
    /// queue beyond what it is to hold.
    pub fn advance(&mut self, now: Timestamp, standing: Work) {
        let slot = self.slot_of(now);
        if slot > self.present {
            let was_over = self.over.all();
            let gone = (slot - self.present).min(self.horizon + 1);
            for number in self.present..self.present + gone {
                let at = self.index(number);
                let due = array::from_fn(|lane| self.due.get(lane).map_or(0, |due| due[at]));
                self.over.carry(due, &self.budgets, 1);
                for lane in 0..self.due.len() {
                    self.due[lane][at] = 0;
                    self.booked[lane][at] = 0;
                }
                self.people.clear(at);
                self.spread.clear(at);
            }
            let last = self.present + self.horizon;
            self.over.carry([0; LANES_MAX], &self.budgets, slot - self.present - gone);
            if self.budget == 0 {
                // Nobody is held back, and nothing is over.
                self.over = Over::default();
            }
            // Who came without a promise is in it, too.
            self.over.stands(standing);
            self.present = slot;
            (self.direct, self.lost, self.borrowed) = (0, 0, 0);
            for cursor in &mut self.cursors {
                *cursor = (*cursor).max(slot + 1);
            }
            self.owed = self.owed.max(slot + 1);
            // What is over flows on, and what did not fit into the horizon; who was called has left room.
            let at = self.index(last);
            let is_full = || (0..self.booked.len()).any(|lane| self.booked[lane][at] > self.budgets[lane]);
            if self.over.all() > 0 || was_over > 0 || self.has_called || (last >= slot && is_full()) {
                self.pour();
            }
        }
    }

    /// Sets what a slot can do, how much of it is sure, and what the present one can do. Everything promised stays.
    pub fn set_budget(&mut self, budget: Work, sure: Work, present: Work) {
        self.present_budget = present;
        if budget != self.budget || self.order.has_risen(sure) {
            let first = self.present + 1;
            let mut ends = [first; LANES_MAX];
            for (lane, end) in ends.iter_mut().enumerate().take(self.budgets.len()) {
                // Nobody waits for what there is none of.
                if self.budgets[lane] > 0 {
                    *end = self.search(lane).unwrap_or(first + self.horizon);
                }
            }
            self.order.keep(budget, sure, ends, first);
            self.budget = budget;
            self.split();
            self.pour();
        }
    }

    /// Pours what is due over the slots anew: after the budget has changed, or promises were made elsewhere.
    pub fn pour(&mut self) {
        for lane in 0..self.due.len() {
            let budget = self.budgets[lane];
            let mut rest = self.over.of(lane);
            for slot in self.present..=self.present + self.horizon {
                let at = self.index(slot);
                let all = self.due[lane][at].saturating_add(rest);
                // What the present slot holds too much is served in the short queue.
                let held = all.min(budget);
                self.booked[lane][at] = held;
                rest = all - held;
            }
            // What flows beyond the horizon stays in its last slot: that is full, and nobody gets a place there.
            let last = self.index(self.present + self.horizon);
            self.booked[lane][last] = self.booked[lane][last].saturating_add(rest);
            self.cursors[lane] = self.present + 1;
            self.order.look_again(lane, self.present + 1);
        }
        self.owed = self.present + 1;
        self.has_called = false;
    }

    /// What may come in the present slot beside what was promised.
    pub(super) fn offered(&self) -> Work {
        let at = self.index(self.present);
        self.present_budget.saturating_sub(self.booked.iter().map(|lane| lane[at]).sum::<Work>())
    }

    /// What a lane's people find of the present slot beside what was promised.
    pub(super) fn room(&self, now: Timestamp, lane: usize) -> Work {
        self.left(now, lane).room
    }

    /// Lets somebody with so much work into the present slot who was promised `slot`.
    pub(super) fn call(&mut self, slot: u64, lane: usize, work: Work) {
        self.direct += work;
        if slot <= self.present || !self.holds(slot) {
            return;
        }
        // What becomes free there is for nobody who comes later.
        for lane in 0..self.budgets.len() {
            let end = self.search(lane).unwrap_or(self.present + self.horizon + 1);
            self.order.close(lane, end);
        }
        let at = self.index(slot);
        let mut rest = work;
        for lane in [self.lane(lane), 0] {
            let part = rest.min(self.due[lane][at]);
            self.due[lane][at] -= part;
            rest -= part;
        }
        self.people.take(at);
        self.has_called = true;
        if self.waiting() == 0 {
            self.order = Order::new(self.present + 1);
            self.pour();
        }
    }

    /// Newcomers are given no place before the last slot for which somebody of their lane was promised one: after promises were
    /// put there that were made before, among which there may be room.
    pub(super) fn close_line(&mut self) {
        for lane in 0..self.due.len() {
            let slots = self.present + 1..=self.present + self.horizon;
            if let Some(last) = slots.rev().find(|slot| self.due[lane][self.index(*slot)] > 0) {
                self.order.give(lane, lane, last);
            }
        }
    }

    /// Takes a place in the present slot, whichever lane's budget it is where nobody waits before whom he would come in;
    /// false if it has no room for anything now. What has gone by unused is lost, but as much, a quarter of a slot at most,
    /// may be borrowed of the next slot as long as that has room: nobody is promised a later one then. Work beyond what
    /// the slot can do is due in the next.
    #[must_use]
    pub fn take_now(&mut self, now: Timestamp, lane: usize, work: Work) -> bool {
        let left = self.left(now, lane);
        self.direct += left.unused;
        self.lost += left.unused;
        if !left.holds(work) {
            return false;
        }
        let over = work.saturating_sub(left.room);
        self.direct += work - over;
        if over > 0 {
            let (lane, next) = (self.lane(lane), self.present + 1);
            let at = self.index(next);
            self.borrowed = self.borrowed.saturating_add(over);
            self.due[lane][at] = self.due[lane][at].saturating_add(over);
            self.pour_into(lane, next, over);
        }
        true
    }

    /// Whether [`take_now`](Self::take_now) would find a place. Changes nothing.
    #[must_use]
    pub fn has_room_now(&self, now: Timestamp, lane: usize, work: Work) -> bool {
        self.left(now, lane).holds(work)
    }

    fn left(&self, now: Timestamp, lane: usize) -> Left {
        let at = self.index(self.present);
        let used = self.booked.iter().map(|lane| lane[at]).sum::<Work>() + self.direct;
        let elapsed = now.as_nanos().saturating_sub(self.begin(self.present).as_nanos());
        let part = |nanos: u64| {
            let work = u128::from(self.present_budget) * u128::from(nanos) / u128::from(self.length);
            u64::try_from(work).unwrap_or(u64::MAX)
        };
        let unused = part(elapsed).saturating_sub(used);
        let next = self.next(lane);
        // Where all is kept for groups nobody else waits: there is no line for them.
        let has_line = self.budgets[0] > 0 || self.budgets[self.lane(lane)] > 0;
        let kept = if has_line && next != Some(1) { self.kept_for_others(lane) } else { 0 };
        let room = self.present_budget.saturating_sub(used + unused).saturating_sub(kept);
        let most = (self.lost + unused).min(part(self.length / 4));
        let borrowable = (next == Some(1)).then(|| most.checked_sub(self.borrowed)).flatten();
        Left { unused, room, is_whole: next != Some(1), borrowable }
    }

    /// Of the present slot, what is kept for other groups and nobody of theirs has taken.
    fn kept_for_others(&self, lane: usize) -> Work {
        let at = self.index(self.present);
        let others = (1..self.budgets.len()).filter(|other| *other != self.lane(lane));
        others.map(|other| self.budgets[other].saturating_sub(self.booked[other][at])).sum()
    }

    /// The wait of the next visitor of a lane: slots from the present one; `None`: the horizon is full.
    #[must_use]
    pub fn next(&self, lane: usize) -> Option<u64> {
        let lane = self.lane(lane);
        let given = self.order.given(lane);
        [0, lane]
            .into_iter()
            .filter_map(|part| self.search_from(part, given))
            .min()
            .map(|slot| slot - self.present)
    }

    /// A place that is owed: ahead of all newcomers, in the earliest slot after `after` in which less than `most` is due.
    #[must_use]
    pub fn take_owed(&mut self, work: Work, most: Work, after: u64) -> Option<u64> {
        let slot = self.search_owed(most, after)?;
        self.owe(slot, work, 0);
        Some(slot)
    }

    /// As [`take_owed`](Self::take_owed), for somebody who came at his time and was not served: as far as it is his
    /// work that the present slot cannot do, it is counted already.
    #[must_use]
    pub fn take_again(&mut self, work: Work, most: Work) -> Option<u64> {
        let slot = self.search_owed(most, self.present)?;
        self.move_to(slot, work);
        Some(slot)
    }

    /// As [`take_again`](Self::take_again), for people to whom another process has promised that slot; one that is over
    /// by now counts as the present one. The slot.
    pub fn take_again_in(&mut self, slot: u64, work: Work, people: u32) -> u64 {
        let slot = slot.clamp(self.present, self.present + self.horizon);
        self.move_to(slot, work);
        self.people.add(self.index(slot), people);
        slot
    }

    /// Slots after the present one in which less than `most` is due, and how much less: the earliest of them.
    pub fn room_owed(&mut self, most: Work) -> impl Iterator<Item = (u64, Work)> + '_ {
        let first = self.search_owed(most, self.present).unwrap_or(self.present + self.horizon + 1);
        let end = first.saturating_add(LOOK_AHEAD).min(self.present + self.horizon + 1);
        (first..end)
            .map(move |slot| (slot, most.saturating_sub(self.due_in(slot))))
            .filter(|(_, room)| *room > 0)
    }

    /// Makes work due in a slot that the present one cannot do, or that is over.
    fn move_to(&mut self, slot: u64, work: Work) {
        let excess = self.over.all().saturating_add(self.due_in(self.present)).saturating_sub(self.budget);
        let counted = work.min(excess);
        let mut rest = self.over.take(counted);
        let at = self.index(self.present);
        for lane in &mut self.due {
            let part = rest.min(lane[at]);
            lane[at] -= part;
            rest -= part;
        }
        self.owe(slot, work, counted);
    }

    /// Where a lane has room for work that is promised at once: in its own part of slots, and in everybody's from where that is
    /// nobody's. Begins in the present slot where nobody waits.
    pub(super) fn stretch(&self, lane: usize, nobody_waits: bool) -> Stretch {
        let lane = self.laid_into(lane);
        let first = |lane| {
            let slot = self.search(lane).unwrap_or(self.present + self.horizon);
            if nobody_waits && slot == self.present + 1 { self.present } else { slot }
        };
        if lane == 0 && self.budgets[0] == 0 {
            // All is kept for lanes, but who is drawn has to go somewhere.
            let slot = (0..self.budgets.len()).map(first).min().unwrap_or(self.present);
            return Stretch::even(slot, self.budget);
        }
        let own = Stretch::even(first(lane), self.budgets[lane]);
        if lane == 0 {
            return own;
        }
        Stretch { more_from: own.slot.max(first(0)), more: self.budgets[0], ..own }
    }

    /// The lane in which the work of a lane lies: one that has nothing of a slot is everybody's.
    fn laid_into(&self, lane: usize) -> usize {
        Some(self.lane(lane)).filter(|lane| self.budgets[*lane] > 0).unwrap_or(0)
    }

    /// Promises a lane's `work` in all to the slots of its stretch, as much to each as it says, for `people`.
    pub(super) fn fill(&mut self, lane: usize, stretch: &Stretch, work: Work, people: u64) {
        // What flowed over from slots that are gone takes nothing of the next ones any more where other lanes left room for it: who
        // comes for what is free so would overtake all of his lane.
        self.close_line();
        let lane = self.laid_into(lane);
        let last = self.present + self.horizon;
        let (mut rest, mut told) = (work, 0);
        let mut slot = stretch.slot.max(self.present);
        while rest > 0 && slot <= last && stretch.in_slot(last) > 0 {
            let part = if slot == last { rest } else { rest.min(stretch.in_slot(slot)) };
            let own = part.min(stretch.budget);
            let at = self.index(slot);
            for (lane, part) in [(lane, own), (0, part - own)] {
                self.due[lane][at] = self.due[lane][at].saturating_add(part);
            }
            rest -= part;
            // By what has been laid until now, so that nobody is lost where a slot has less than a place.
            let until_now = u128::from(people) * u128::from(work - rest) / u128::from(work.max(1));
            let until_now = u64::try_from(until_now).unwrap_or(people);
            self.people.add(at, u32::try_from(until_now - told).unwrap_or(u32::MAX));
            told = until_now;
            slot += 1;
        }
        self.pour();
    }

    /// Notes people who are to come in a slot.
    pub fn note(&mut self, slot: u64, people: u32) {
        if self.holds(slot) {
            self.people.add(self.index(slot), people);
        }
    }

    /// People promised to slots before `slot`, the present one included.
    #[must_use]
    pub fn ahead(&self, slot: u64) -> u64 {
        let end = slot.clamp(self.present, self.present + self.horizon + 1);
        let (from, to) = (self.index(self.present), self.index(end));
        match end - self.present {
            0 => 0,
            n if n == self.horizon + 1 => self.people.all(),
            _ if from < to => self.people.before(to) - self.people.before(from),
            _ => self.people.all() - self.people.before(from) + self.people.before(to),
        }
    }

    /// People promised to slots after the present one.
    #[must_use]
    pub fn waiting(&self) -> u64 {
        self.people.all() - u64::from(self.people.at(self.index(self.present)))
    }

    /// Work due and people, by slot, of slots that have any.
    pub fn iter(&self) -> impl Iterator<Item = (u64, Work, u32)> + '_ {
        (self.present..=self.present + self.horizon).filter_map(|slot| {
            let (due, people) = (self.due_in(slot), self.people.at(self.index(slot)));
            (due > 0 || people > 0).then_some((slot, due, people))
        })
    }

    /// Work due in a slot, by lane.
    pub fn lanes(&self, slot: u64) -> impl Iterator<Item = Work> + '_ {
        let at = self.index(slot);
        self.due.iter().map(move |lane| lane[at])
    }

    /// Puts into a slot what was promised before, as after a restart; [`pour`](Self::pour) follows.
    pub fn put(&mut self, slot: u64, lane: usize, work: Work, people: u32) {
        let slot = slot.clamp(self.present, self.present + self.horizon);
        let (at, lane) = (self.index(slot), self.lane(lane));
        self.due[lane][at] = self.due[lane][at].saturating_add(work);
        self.people.add(at, people);
    }

    /// Work of slots that are over which they could not do.
    pub(super) fn over(&self) -> Work {
        self.over.all()
    }

    /// Goes on with the work that another table could not do, as everybody's; [`pour`](Self::pour) follows.
    pub(super) const fn go_on_with(&mut self, over: Work) {
        self.over = Over::of_everybody(over);
    }

    /// Panics if the table contradicts itself.
    pub fn check_invariants(&self) {
        for lane in 0..self.due.len() {
            for slot in self.present + 1..self.present + self.horizon {
                let at = self.index(slot);
                assert!(self.booked[lane][at] <= self.budgets[lane], "slot {slot} is overfull");
                if slot < self.cursors[lane] {
                    assert!(self.booked[lane][at] >= self.budgets[lane], "slot {slot} was passed over");
                }
            }
        }
        let people: u64 = (0..=self.horizon).map(|n| u64::from(self.people.at(self.index(n)))).sum();
        assert_eq!(people, self.people.all(), "nobody is lost");
    }

    const fn holds(&self, slot: u64) -> bool {
        slot >= self.present && slot <= self.present + self.horizon
    }

    fn lane(&self, lane: usize) -> usize {
        if lane < self.due.len() { lane } else { 0 }
    }

    #[expect(clippy::cast_possible_truncation, reason = "the remainder is below the number of slots")]
    const fn index(&self, slot: u64) -> usize {
        (slot % (self.horizon + 1)) as usize
    }

    fn due_in(&self, slot: u64) -> Work {
        let at = self.index(slot);
        self.due.iter().fold(0, |sum, lane| sum.saturating_add(lane[at]))
    }

    /// The earliest slot after `after` in which less than `most` is due.
    fn search_owed(&mut self, most: Work, after: u64) -> Option<u64> {
        let last = self.present + self.horizon;
        // Slots before the cursor have as much as they may take, as long as the budget stands.
        let mut slot = self.owed.max(self.present + 1);
        while slot <= last && self.due_in(slot) >= most {
            slot += 1;
        }
        self.owed = slot;
        slot = slot.max(after + 1);
        let end = slot.saturating_add(LOOK_AHEAD).min(last);
        while slot <= end && self.due_in(slot) >= most {
            slot += 1;
        }
        (slot <= end).then_some(slot)
    }

    /// Makes work due in a slot of which so much is booked already.
    pub(super) fn owe(&mut self, slot: u64, work: Work, booked: Work) {
        let at = self.index(slot);
        self.due[0][at] = self.due[0][at].saturating_add(work);
        // The rest takes the place of newcomers at the end of the line.
        self.pour_into(0, slot, work - booked);
    }

    /// The earliest slot of a lane after the present one with room.
    fn search(&self, lane: usize) -> Option<u64> {
        self.search_from(lane, 0)
    }

    /// The same from a slot on.
    fn search_from(&self, lane: usize, from: u64) -> Option<u64> {
        let last = self.present + self.horizon;
        let mut slot = self.cursors[lane].max(self.order.begin(lane)).max(from);
        while slot <= last && self.booked[lane][self.index(slot)] >= self.budgets[lane] {
            slot += 1;
        }
        (slot <= last).then_some(slot)
    }

    /// Pours work over a lane from a slot after the present one on.
    fn pour_into(&mut self, lane: usize, from: u64, work: Work) {
        let last = self.present + self.horizon;
        let (mut rest, mut slot) = (work, from.max(self.cursors[lane]).min(last));
        while rest > 0 && slot <= last {
            let at = self.index(slot);
            let room = self.budgets[lane].saturating_sub(self.booked[lane][at]);
            let part = if slot == last { rest } else { room.min(rest) };
            // The last slot takes whatever another process says that it has promised.
            self.booked[lane][at] = self.booked[lane][at].saturating_add(part);
            rest -= part;
            slot += 1;
        }
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "shares of a budget; `as` saturates"
    )]
    fn split(&mut self) {
        let mut left = self.budget;
        for lane in (1..self.shares.len()).rev() {
            let part = ((self.budget as f64 * self.shares[lane]) as u64).min(left);
            self.budgets[lane] = part;
            left -= part;
        }
        // Where all is kept for lanes, what rounding leaves is nobody's to wait for.
        if self.shares[0] < 1e-9
            && let Some(last) = self.budgets[1..].last_mut()
        {
            *last += std::mem::take(&mut left);
        }
        self.budgets[0] = left;
    }
}

impl Places for SlotTable {
    fn take(&mut self, lane: usize, work: Work, most: u32) -> Option<Block> {
        let (work, own) = (work.max(1), self.lane(lane));
        let end = self.present + self.horizon + 1;
        let given = self.order.given(own);
        let [own_slot, common_slot] = [own, 0].map(|part| {
            let slot = self.search_from(part, given).unwrap_or(end);
            let is_first = given <= self.cursors[part].max(self.order.begin(part));
            if is_first && self.order.look(part, slot, self.cursors[part]) {
                self.cursors[part] = slot;
            }
            slot
        });
        let (slot, lane) = if own_slot <= common_slot { (own_slot, own) } else { (common_slot, 0) };
        if slot >= end {
            return None;
        }
        let at = self.index(slot);
        self.order.give(own, lane, slot);
        let (booked, budget) = (self.booked[lane][at], self.budgets[lane]);
        let room = (budget - booked).div_ceil(work);
        let places = u32::try_from(room).unwrap_or(u32::MAX).min(most.max(1));
        let all = work.saturating_mul(u64::from(places));
        let [offset, apart] = self.spread.place(lane, at, work, booked, budget);
        self.due[lane][at] = self.due[lane][at].saturating_add(all);
        self.pour_into(lane, slot, all);
        if self.booked[lane][at] >= budget {
            self.spread.fill(lane, at, budget);
        }
        Some(Block { slot, offset, apart, places, work, lane })
    }

    fn give_back(&mut self, block: &Block) {
        if !self.holds(block.slot) {
            return;
        }
        let (at, lane) = (self.index(block.slot), self.lane(block.lane));
        let work = block.work.saturating_mul(u64::from(block.places));
        self.due[lane][at] = self.due[lane][at].saturating_sub(work);
        self.pour();
    }
}
