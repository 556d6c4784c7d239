//! What becomes of the room as time passes: slots that begin and end, filters that open, rounds that are drawn.

use super::{
    Kind, LANES_MAX, Places, Promise, Room, RoomCount, Work,
    budget::thousandths,
    draws::{AT_ONCE, Round},
    room::{PERSON, UNIT, nanos},
    settings::Group,
    slot_table::SLOTS_MAX,
    stretch::Stretch,
};
use crate::{
    Timestamp,
    knobs::{RoomMethod, RoomRole},
};

impl Room {
    /// Fires what is due: slots that are over, doors that open.
    pub fn advance(&mut self, now: Timestamp) {
        self.now = self.now.max(now);
        let (from, to) = (self.table.present(), self.table.slot_of(self.now));
        if to > from {
            // A long sleep: what lies between is over, and no step of it would see anything.
            let first = to.saturating_sub(self.table.horizon() + self.behind() + 8).max(from);
            for slot in first + 1..=to {
                self.slot_begins(slot);
            }
            self.table.advance(self.now, self.standing_work());
            if self.settings.is_on() {
                self.spent.open(self.now, self.filter_places(to), self.table.length());
            }
            self.give_back_blocks(to);
            let idle = u32::try_from(to - from - 1).unwrap_or(u32::MAX);
            self.issued_work_lately =
                self.issued_work_lately().map(|work| work.checked_shr(idle).unwrap_or(0));
            self.issued_work = [0; LANES_MAX];
            self.set_budget(false);
        }
        self.draw();
    }

    /// Places up to a slot that nobody has got are anybody's, where nobody waits before whom he would come in.
    fn give_back_blocks(&mut self, last: u64) {
        for block in self.blocks.iter_mut().filter_map(|block| block.take_if(|block| block.slot <= last)) {
            if self.table.waiting() == 0 {
                self.table.give_back(&block);
            }
        }
    }

    /// Work by which newcomers come later for what stands in the short queue. Whose request stands there goes on with his session,
    /// so that it is no longer before so many fewer sessions have begun.
    fn standing_work(&self) -> Work {
        // A check has no newcomers who could come later for it.
        if self.settings.role == RoomRole::Check {
            return 0;
        }
        let standing = self.capacity.pace.map_or(0, |pace| thousandths(pace.standing));
        standing.saturating_mul(UNIT + self.follow()) / UNIT
    }

    /// When [`advance`](Self::advance) is to be called, if nothing else happens.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Timestamp> {
        if !self.settings.is_on() {
            return None;
        }
        let next = self.table.begin(self.table.present() + 1);
        Some(self.draws.closes().map_or(next, |closes| closes.min(next)))
    }

    /// Makes room for those who may come from now on: once the capacity is known, which says how many.
    pub(super) fn open_filters(&mut self) {
        let present = self.table.present();
        for slot in present..=present + self.ahead() {
            self.replay.widen(slot, self.filter_places(slot));
        }
        if self.settings.is_on() {
            let (places, length) = (self.filter_places(present), self.table.length());
            self.spent.reserve(places, length);
            self.spent.open(self.now, places, length);
        }
    }

    /// Slots after its own in which a promise may be used.
    pub(super) fn behind(&self) -> u64 {
        let late = nanos(self.settings.grace + self.settings.clock_tolerance);
        late.div_ceil(nanos(self.table.length())).min(SLOTS_MAX)
    }

    /// Slots before its own in which a promise may be used.
    pub(super) fn ahead(&self) -> u64 {
        self.tolerated() + self.call_slots()
    }

    /// Of them, those for which clocks may differ.
    fn tolerated(&self) -> u64 {
        nanos(self.settings.clock_tolerance).div_ceil(nanos(self.table.length())).min(1000)
    }

    /// People there may be in a slot.
    pub(super) fn places(&self, slot: u64) -> u64 {
        let people = self.table.ahead(slot + 1) - self.table.ahead(slot);
        let least = self.costs.iter().min().copied().unwrap_or(UNIT).max(1);
        people.max(self.table.budget() / least)
    }

    /// When a promise of a slot may be used.
    pub(super) fn opens(&self, slot: u64) -> Timestamp {
        self.table.begin(slot) - self.settings.clock_tolerance
    }

    pub(super) fn slot_begins(&mut self, slot: u64) {
        let length_s = self.table.length().as_secs_f64();
        let (behind, is_known) = (self.behind(), !self.waits_for_word());
        let counts = &mut self.counts;
        self.no_shows.advance(slot, behind, length_s, is_known, |class, people| {
            if let Some(counts) = counts.get_mut(class) {
                counts[RoomCount::NoShow as usize] += u64::from(people);
            }
        });
        self.sessions.step(length_s);
        let places = self.places(slot);
        self.replayed = (self.replayed + places).min(places.max(PERSON));
        let opens = slot + self.ahead();
        let places = self.filter_places(opens);
        self.replay.open(opens, places);
        // It is known by now how many people come.
        for slot in slot..=slot + self.tolerated() {
            self.replay.widen(slot, self.filter_places(slot));
        }
    }

    /// A promise for that moment is good for nothing more.
    pub(super) fn spend(&mut self, at: Timestamp, number: u64) {
        let places = self.filter_places(self.table.present());
        self.spent.note(self.now, self.begin_of(at), places, self.table.length(), number);
    }

    /// Whether a promise whose time is over has no credit.
    pub(super) fn is_spent(&self, promise: &Promise) -> bool {
        self.spent.has_none(self.now, &Promise { at: self.begin_of(promise.at), ..*promise })
    }

    /// Whether a promise for `at` was used before knobs changed and filters of slots began anew.
    pub(super) fn was_used_before(&self, at: Timestamp, promise: &Promise) -> bool {
        let of_slot = Promise { kind: Kind::Place, at: self.begin_of(at), ..*promise };
        at < self.laid_anew && self.spent.knows(self.now, &of_slot)
    }

    /// Reports name promises by their slots: so do filters.
    fn begin_of(&self, at: Timestamp) -> Timestamp {
        self.table.begin(self.table.slot_of(at))
    }

    /// Draws the rounds whose time has come, each into the lane of its group.
    pub(super) fn draw(&mut self) {
        let now = self.now;
        if self.draws.closes().is_none_or(|closes| closes > now) {
            return;
        }
        if self.table.budget() == 0 {
            // Without a capacity nobody is held once doors are open: lots that were left undrawn would be people before
            // everybody who comes after a capacity is known, though their holders have gone in.
            if self.sends_at_once() || (self.is_told && !self.is_limited()) {
                let due = |round: &Round| round.closes <= now;
                let (present, (_, people)) = (self.table.present(), self.draws.sum(due));
                self.draws.draw(&Stretch::even(present, AT_ONCE), due);
                self.table.note(present, u32::try_from(people).unwrap_or(u32::MAX));
            }
            return;
        }
        let nobody_waits = self.table.waiting() == 0;
        for lane in 0..LANES_MAX {
            let lanes = &self.lanes;
            let lane_of =
                |group: Group| group.and_then(|class| lanes.get(class.index()).copied()).unwrap_or(0);
            let due = |round: &Round| round.closes <= now && lane_of(round.group) == lane;
            let (work, people) = self.draws.sum(due);
            if work > 0 {
                let stretch = self.table.stretch(lane, nobody_waits);
                self.draws.draw(&stretch, due);
                self.table.fill(lane, &stretch, work, people);
            }
        }
    }

    /// Open rounds are drawn when doors open as they are set now.
    pub(super) fn set_doors(&mut self) {
        let (now, settings) = (self.now, &self.settings);
        for round in self.draws.pending() {
            let doors = settings.doors_of(round.group);
            match doors.method {
                RoomMethod::Event => round.closes = doors.opens_at.unwrap_or(Timestamp::FAR_FUTURE),
                RoomMethod::Random => round.closes = round.closes.min(now + doors.round),
                RoomMethod::Closed => {}
                // Who has a lot is not left waiting for doors that will not open, while newcomers are let in.
                RoomMethod::Off | RoomMethod::Fifo | RoomMethod::Wait => round.closes = now,
            }
        }
    }
}
