//! How the room stands, for meters and people: what was counted, who waits, the wait of the next one.

use std::time::Duration;

use super::{ALL_COUNTS, Room, RoomCount, budget::units};
use crate::{ClassId, Timestamp, knobs::RoomMethod};

/// How things stand.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Standing {
    /// People with a time to come, or a lot.
    pub waiting: u64,
    /// Wait of the next visitor of the default class; `None`: the horizon is full, or doors are closed.
    pub next: Option<Duration>,
    /// Capacity, work units a second.
    pub capacity: Option<f64>,
    /// Of it, what is promised to newcomers a second.
    pub for_newcomers: f64,
    /// Work units a second done with passes.
    pub sessions_per_s: f64,
    /// Largest share of no-shows of any class.
    pub no_show: f64,
    /// When doors open, or the round is drawn.
    pub opens: Option<Timestamp>,
    /// Role `generate`: when the check last reported that has been silent for longest, if any ever did.
    pub reported: Option<Timestamp>,
    /// Role `generate`: a check has not reported in time. Its last capacity counts.
    pub overdue: bool,
    /// Role `generate`: no check has reported for so long that the floor holds.
    pub lost: bool,
}

/// One slot, as people look at it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SlotView {
    /// When it begins.
    pub at: Timestamp,
    /// People promised.
    pub waiting: u32,
    /// Work expected of them, work units.
    pub work: f64,
}

impl Room {
    /// Counts what only the gateway sees.
    pub fn count(&mut self, class: ClassId, what: RoomCount) {
        self.count_many(class, what, 1);
    }

    /// Tells what has been counted since the last call.
    pub fn drain_counts(&mut self, mut f: impl FnMut(ClassId, RoomCount, u64)) {
        for (class, counts) in (0..).zip(&mut self.counts) {
            for (what, count) in ALL_COUNTS.iter().zip(counts) {
                if *count > 0 {
                    f(ClassId(class), *what, std::mem::take(count));
                }
            }
        }
    }

    /// How things stand.
    #[must_use]
    pub fn standing(&self, now: Timestamp) -> Standing {
        let length = self.table.length();
        let is_closed = self.settings.method_of(ClassId(0)) == RoomMethod::Closed;
        let next = match self.table.next(self.lanes.first().copied().unwrap_or(0)) {
            _ if is_closed => None,
            _ if !self.knows_capacity() => Some(Duration::ZERO),
            // Nobody waits, and the next one would not either.
            Some(1) if self.table.waiting() == 0 => Some(Duration::ZERO),
            Some(slots) => Some(length.saturating_mul(u32::try_from(slots).unwrap_or(u32::MAX))),
            None => None,
        };
        Standing {
            waiting: self.table.waiting() + self.draws.people(),
            next,
            capacity: self.capacity.per_s,
            for_newcomers: units(self.table.budget()) / length.as_secs_f64(),
            sessions_per_s: self.sessions.per_s(),
            no_show: self.no_shows.shares().fold(0.0, f64::max),
            opens: self.draws.closes().filter(|closes| *closes < Timestamp::FAR_FUTURE),
            reported: self.reported(),
            overdue: self.is_overdue(now.max(self.now)),
            lost: self.is_lost(now.max(self.now)),
        }
    }

    /// Who waits, slot by slot, of slots that have anybody.
    pub fn slots(&self) -> impl Iterator<Item = SlotView> + '_ {
        self.table.iter().map(|(slot, work, people)| SlotView {
            at: self.table.begin(slot),
            waiting: people,
            work: units(work),
        })
    }

    pub(super) fn count_many(&mut self, class: ClassId, what: RoomCount, count: u64) {
        if let Some(counts) = self.counts.get_mut(class.index()) {
            counts[what as usize] += count;
        }
    }
}
