//! The order of the line: before which slot newcomers are given no place, lest they overtake those who wait for later ones.

use super::{LANES_MAX, Work};

/// A budget that is surely so many times what it was opens slots before the end of the line. Else it may be chance: an estimate
/// is never quite the same, and one that rests on few departures may be far off.
const RISE: f64 = 1.1;

/// The ends of a line, by lane.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Order {
    /// No place of the lane is looked for before this slot.
    ends: [u64; LANES_MAX],
    /// No slot of the lane from there to before this has room.
    looked: [u64; LANES_MAX],
    /// The last slot that one of the lane's people was given, be it in everybody's part.
    given: [u64; LANES_MAX],
    /// The least budget since slots before that were last opened.
    opened: Work,
}

impl Order {
    /// All slots from `first` on are open.
    pub(super) const fn new(first: u64) -> Self {
        Self { ends: [first; LANES_MAX], looked: [first; LANES_MAX], given: [first; LANES_MAX], opened: 0 }
    }

    /// The slot from which on a place of the lane is looked for.
    pub(super) fn begin(&self, lane: usize) -> u64 {
        self.ends[lane].max(self.looked[lane])
    }

    /// No slot of the lane that is open has room before this one; whether that is so of all from `cursor` on.
    pub(super) fn look(&mut self, lane: usize, slot: u64, cursor: u64) -> bool {
        self.looked[lane] = slot;
        self.ends[lane] <= cursor
    }

    /// Newcomers of a lane are given no place before `end`.
    pub(super) fn close(&mut self, lane: usize, end: u64) {
        self.ends[lane] = self.ends[lane].max(end);
    }

    /// One of a lane's people is given a slot, of that lane's part or of everybody's: nobody comes before him who is of the lane,
    /// or takes of that part.
    pub(super) fn give(&mut self, of: usize, part: usize, slot: u64) {
        self.given[of] = self.given[of].max(slot);
        self.close(part, slot);
    }

    /// The last slot that one of a lane's people was given.
    pub(super) fn given(&self, lane: usize) -> u64 {
        self.given[lane]
    }

    /// Slots have been poured anew.
    pub(super) fn look_again(&mut self, lane: usize, first: u64) {
        self.looked[lane] = first;
    }

    /// Whether a budget of which so much is sure opens slots.
    #[expect(clippy::cast_precision_loss, reason = "a ratio of budgets")]
    pub(super) fn has_risen(&self, sure: Work) -> bool {
        sure as f64 > self.opened as f64 * RISE
    }

    /// The budget becomes another, of which so much is sure. `ends`: the earliest slots with room under the one before, of which `first` is the next.
    pub(super) fn keep(&mut self, budget: Work, sure: Work, ends: [u64; LANES_MAX], first: u64) {
        let nobody_waits = ends.iter().all(|end| *end == first);
        if nobody_waits || self.has_risen(sure) {
            self.opened = budget;
            self.ends.fill(first);
            self.given.fill(first);
        } else {
            self.opened = self.opened.min(budget);
            self.ends = ends;
        }
    }
}
