//! What the check tells the generator where they are two processes.

use super::{Capacity, Room, room::UNIT};
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
    /// Who came, by slot and class; the newest 256 entries.
    pub returned: Vec<Returned>,
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
    /// What the check tells the generator: everything since the last report.
    pub fn report(&mut self, now: Timestamp) -> Report {
        self.advance(now);
        Report {
            capacity: self.capacity.per_s,
            pace: self.capacity.pace_per_s,
            costs: self.costs.clone(),
            follow: self.sessions.follow(),
            excess: self.sessions.excess_per_s(),
            returned: std::mem::take(&mut self.returned),
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
        }
        self.set_budget(false);
    }

    pub(super) fn returned(&mut self, slot: u64, class: ClassId) {
        self.no_shows.came(slot, class, self.table.present(), 1);
        if self.settings.role != RoomRole::Check {
            return;
        }
        let at = self.table.begin(slot);
        let known = self.returned.iter().rposition(|entry| entry.slot == at && entry.class == class);
        if let Some(entry) = known.and_then(|known| self.returned.get_mut(known)) {
            entry.people = entry.people.saturating_add(1);
        } else if self.returned.len() < RETURNED_MAX {
            self.returned.push(Returned { slot: at, class, people: 1 });
        }
    }

    pub(super) fn is_overdue(&self, now: Timestamp) -> bool {
        self.settings.role == RoomRole::Generate
            && self.reported.is_none_or(|at| now.since(at) >= self.settings.report_timeout)
    }
}
