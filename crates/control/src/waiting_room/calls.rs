//! Calls: who is next in line comes before his time where the servers can do more than was promised.
//!
//! Where the capacity is found, more may come now than was promised while the short queue runs dry ([`Pace`]); and once an estimate
//! has risen, slots have room that were promised by the one before. Newcomers who fill that overtake all who wait, some of them
//! by minutes. So those go first whose time is near: who asks how things stand, or comes, is *called* if his slot begins within the
//! *reach* and the present slot has room for him. He takes his work along from his own slot, and what is free there is for who
//! is called next.
//!
//! ```text
//! reach    the next slot, and 3 s more for each second in which there is room that nobody has taken, up to 16 s; less by as much else
//! takes    share of the room that those who are called take: takes ← takes + (1 − takes)·work/room with each of them,
//!          takes·e^(−t/1 s) while there is room that nobody has taken
//! ```
//!
//! Not everybody can be called: a program does not ask. Where those who are called take a fifth of the room, newcomers get none
//! of it; where they take less, what is left in the second half of a slot; where nobody is ever called, all of it. Nobody is called
//! where the capacity is given: there is no more than was promised then.
//!
//! Source: our own.

use std::time::Duration;

use super::{ClassId, Room, Timestamp, Work, room::UNIT};
use crate::{capacity::Pace, knobs::RoomRole};

/// Seconds by which the reach grows and shrinks in a second.
const GROWTH: f64 = 3.0;
/// The reach at most.
const REACH_MAX: Duration = Duration::from_secs(16);
/// Slots it holds at most.
const SLOTS_MAX: u64 = 64;
/// Memory of what those take who are called, seconds in which there is room.
const MEMORY_S: f64 = 1.0;
/// Where those who are called take so much of the room, newcomers get none of it.
const MOST: f64 = 0.2;
/// Where they take less than this, nobody is there to be called.
const NOBODY: f64 = 0.05;
/// Time between two looks that counts at most, seconds.
const LOOK_MAX_S: f64 = 0.25;

/// Who is called.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Calls {
    /// Beyond the next slot, seconds.
    reach_s: f64,
    looked: Timestamp,
    /// Share of the room that those who are called take.
    takes: f64,
}

impl Room {
    /// Some time has passed. To be called when the present slot's budget is known.
    pub(super) fn reach_out(&mut self) {
        let passed = self.now.since(self.calls.looked).as_secs_f64().min(LOOK_MAX_S);
        self.calls.looked = self.now;
        if !self.calls_people() {
            self.calls = Calls { looked: self.now, ..Calls::default() };
            return;
        }
        let is_left = self.table.waiting() > 0 && self.table.room(self.now, 0) >= UNIT;
        let Calls { reach_s, takes, .. } = &mut self.calls;
        let growth = if is_left { GROWTH } else { -GROWTH };
        *reach_s = (*reach_s + growth * passed).clamp(0.0, REACH_MAX.as_secs_f64());
        if is_left {
            *takes *= (-passed / MEMORY_S).exp();
        }
    }

    /// Slots after the present one from which somebody may be called.
    pub(super) fn call_slots(&self) -> u64 {
        let reach = if self.settings.role == RoomRole::Both { REACH_MAX } else { Duration::ZERO };
        slots_in(reach, self.table.length())
    }

    /// Whether there may be more room than was promised.
    fn calls_people(&self) -> bool {
        let is_found = |pace: Pace| self.capacity.per_s.is_none() || pace.error > 0.0;
        self.settings.role == RoomRole::Both && self.capacity.pace.is_some_and(is_found)
    }

    /// Whether who is promised a place in a later `slot` may come now.
    pub(super) fn is_called(&self, now: Timestamp, slot: u64, class: ClassId, work: u32) -> bool {
        let reach = Duration::from_secs_f64(self.calls.reach_s);
        slot <= self.table.present() + slots_in(reach, self.table.length())
            && self.calls_people()
            && !self.holds_everybody(class)
            && self.table.room(now, self.lane(class)) >= Work::from(work)
    }

    /// Lets somebody into the present slot who is promised a later one.
    pub(super) fn call(&mut self, slot: u64, class: ClassId, work: u32) {
        let work = Work::from(work);
        self.calls.takes += (1.0 - self.calls.takes) * part(work, self.table.offered());
        self.table.call(slot, self.lane(class), work);
    }

    /// Whether newcomers are let in before who waits, at least where nobody else takes the room.
    pub(super) fn newcomers_go_first(&self) -> bool {
        self.calls.takes < MOST
    }

    /// Whether a newcomer may take room of the present slot.
    pub(super) fn newcomer_may(&self, now: Timestamp, lane: usize) -> bool {
        let is_second_half = || now.since(self.table.begin(self.table.present())) >= self.table.length() / 2;
        // Nobody is overtaken where the next place is in the next slot.
        self.calls.takes < NOBODY
            || self.table.next(lane) == Some(1)
            || (self.newcomers_go_first() && is_second_half())
    }
}

/// The next slot, and those that begin within `reach` of it.
fn slots_in(reach: Duration, length: Duration) -> u64 {
    let slots = reach.as_nanos() / length.as_nanos().max(1);
    u64::try_from(slots).unwrap_or(SLOTS_MAX).min(SLOTS_MAX) + 1
}

#[expect(clippy::cast_precision_loss, reason = "a ratio")]
fn part(work: Work, of: Work) -> f64 {
    (work as f64 / of.max(1) as f64).min(1.0)
}
