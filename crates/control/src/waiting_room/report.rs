//! What the check tells the generator where they are two processes.

use std::time::Duration;

use super::{Capacity, Room, RoomCount, room::UNIT};
use crate::{ClassId, Timestamp, knobs::RoomRole};

/// Capacity, costs and who came, since the last report. Plain data.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// Work units a second; `None`: not known.
    pub capacity: Option<f64>,
    /// Work units a second that may come now.
    pub pace: Option<f64>,
    /// What a request of each class costs, thousandths of a work unit, dense by class.
    pub costs: Vec<u64>,
    /// Work expected of a session after its first request, thousandths of a work unit.
    pub follow: u64,
    /// Work units a second that passes do beyond what was charged.
    pub excess: f64,
    /// Who came, by slot and class; 256 entries at most, those of the last few slots.
    pub returned: Vec<Returned>,
    /// People who came at their time and had to be given another, dense by class.
    pub missed: Vec<u64>,
}

/// People who came with promises of one slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Returned {
    /// A moment in the slot.
    pub slot: Timestamp,
    /// Their class.
    pub class: ClassId,
    /// How many.
    pub people: u32,
}

/// Entries of [`Report::returned`] kept until they are reported.
pub(super) const RETURNED_MAX: usize = 256;

impl Room {
    /// What the check tells the generator: everything since the last report. One that does not arrive is to be
    /// [taken back](Self::take_back).
    pub fn report(&mut self, now: Timestamp) -> Report {
        self.advance(now);
        Report {
            capacity: self.capacity.per_s,
            pace: self.capacity.pace_per_s,
            costs: self.costs.clone(),
            follow: self.sessions.follow(),
            excess: self.sessions.excess_per_s(),
            returned: std::mem::take(&mut self.returned),
            missed: self.missed.iter_mut().map(std::mem::take).collect(),
        }
    }

    /// A report has not arrived: who came is told with the next one.
    pub fn take_back(&mut self, report: &Report) {
        for entry in &report.returned {
            self.note_returned(*entry);
        }
        for (missed, told) in self.missed.iter_mut().zip(&report.missed) {
            *missed = missed.saturating_add(*told);
        }
    }

    /// The generator takes a report.
    pub fn heed(&mut self, now: Timestamp, report: &Report) {
        self.advance(now);
        self.reported = Some(self.now);
        self.capacity = Capacity { per_s: report.capacity, pace_per_s: report.pace };
        self.reported_excess = if report.excess.is_finite() { report.excess.max(0.0) } else { 0.0 };
        self.reported_follow = report.follow.min(UNIT * 1_000_000);
        for (known, cost) in self.costs.iter_mut().zip(&report.costs) {
            *known = (*cost).clamp(1, UNIT * 1_000_000);
        }
        let present = self.table.present();
        for entry in report.returned.iter().take(RETURNED_MAX) {
            let class = self.known(entry.class);
            let slot = self.table.slot_of(entry.slot).min(present + 1);
            self.no_shows.came(slot, class, present, entry.people);
            self.count_many(class, RoomCount::Kept, u64::from(entry.people));
        }
        for (class, missed) in (0..).zip(&report.missed) {
            self.count_many(ClassId(class), RoomCount::Missed, *missed);
        }
        self.set_budget(false);
    }

    pub(super) fn returned(&mut self, slot: u64, class: ClassId) {
        self.no_shows.came(slot, class, self.table.present(), 1);
        if self.settings.role != RoomRole::Check {
            return;
        }
        self.note_returned(Returned { slot: self.table.begin(slot), class, people: 1 });
    }

    fn note_returned(&mut self, new: Returned) {
        let is_same = |entry: &Returned| entry.slot == new.slot && entry.class == new.class;
        let known = self.returned.iter().rposition(is_same);
        if let Some(entry) = known.and_then(|known| self.returned.get_mut(known)) {
            entry.people = entry.people.saturating_add(new.people);
        } else if self.returned.len() < RETURNED_MAX {
            self.returned.push(new);
        }
    }

    /// Role `generate`: whether the check says nothing any more.
    pub(super) fn is_overdue(&self, now: Timestamp) -> bool {
        self.is_silent_for(self.settings.report_timeout, now)
    }

    /// Role `generate`: whether the check has been silent for so long that its last word counts no more.
    pub(super) fn is_lost(&self, now: Timestamp) -> bool {
        self.is_silent_for(self.settings.report_timeout + self.settings.report_keep, now)
    }

    fn is_silent_for(&self, span: Duration, now: Timestamp) -> bool {
        self.settings.role == RoomRole::Generate && self.reported.is_none_or(|at| now.since(at) >= span)
    }
}
