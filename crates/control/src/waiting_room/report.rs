//! What a check tells the generator where they are two processes, and what it hears of it.
//!
//! Who came at his time and cannot be served gets a new one from the check. Only the generator knows which slots have
//! room for that: after a fall of capacity it keeps newcomers out of those in which the work that did not fit is to be
//! done. So its answer to a report holds the earliest of them ([`Owed`]), each check's part of the room; the check gives
//! new times there, and tells with the next report what it has given ([`Again`]), which the generator's table takes for the
//! same work ([`SlotTable::take_again_in`](super::SlotTable::take_again_in)). A check that hears nothing gives
//! `waiting_room.extra` of each slot.

use super::{
    Kind, Place, Promise, Room, RoomCount, Work,
    between::{Answered, Mark, Revoked, Used},
    draws::Lot,
};
use crate::{ClassId, Timestamp, capacity::Pace, knobs::RoomRole};

/// Capacity, costs and who came, since the last report. Plain data.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// When it was made, by the check's clock; `None`: a check that does not tell.
    pub at: Option<Timestamp>,
    /// When what is in its lists was first told, by the check's clock: a report that was not answered is told again with the
    /// same lists. `None`: a check that does not tell.
    pub first_told: Option<Timestamp>,
    /// Work units a second; `None`: not known.
    pub capacity: Option<f64>,
    /// How fast work may come and goes now.
    pub pace: Option<Pace>,
    /// What a request of each class costs, thousandths of a work unit, dense by class.
    pub costs: Vec<u64>,
    /// Work expected of a session after its first request, thousandths of a work unit.
    pub follow: u64,
    /// Work units a second that passes do beyond what was charged.
    pub excess: f64,
    /// Who came, by slot and class; 256 entries at most, those of the last few slots.
    pub returned: Vec<Returned>,
    /// People who came at their time and got through, dense by class.
    pub kept: Vec<u64>,
    /// People who came at their time and had to be given another, dense by class.
    pub missed: Vec<u64>,
    /// The times they were given, by slot and class; 256 entries at most.
    pub again: Vec<Again>,
    /// Promises used, [`USED_MAX`](super::USED_MAX) at most.
    pub used: Vec<Used>,
    /// Passes revoked, 512 at most; more of them are in the next reports.
    pub revoked: Vec<Revoked>,
    /// How far it has heard what others have told; `None`: nothing yet.
    pub heard: Option<Mark>,
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

/// People who were given a new time in one slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Again {
    /// A moment in the slot.
    pub slot: Timestamp,
    /// Their class.
    pub class: ClassId,
    /// How many.
    pub people: u32,
    /// Work of all of them, thousandths of a work unit.
    pub work: Work,
}

/// Room in one slot for people who are owed a new time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owed {
    /// When the slot begins.
    pub slot: Timestamp,
    /// Thousandths of a work unit.
    pub work: Work,
}

/// Entries of [`Report::returned`], and of [`Report::again`], kept until they are reported.
pub(super) const RETURNED_MAX: usize = 256;
/// Slots of an answer that a check looks at.
const OWED_MAX: usize = 64;

impl Room {
    /// What the check tells the generator: everything since the last report. The same once more while no answer to that has been
    /// [heard](Self::hear): whether it has arrived is not known then.
    pub fn report(&mut self, now: Timestamp) -> Report {
        self.advance(now);
        let lists = match self.unanswered.take() {
            Some(lists) => lists,
            None => self.lists_to_tell(),
        };
        let report = Report {
            at: Some(self.now),
            capacity: self.capacity.per_s,
            pace: self.capacity.pace,
            costs: self.costs.clone(),
            follow: self.sessions.follow(),
            excess: self.sessions.excess_per_s(),
            heard: self.heard(),
            ..lists
        };
        self.unanswered = Some(report.clone());
        report
    }

    fn lists_to_tell(&mut self) -> Report {
        let (revoked, used) = self.take_untold();
        Report {
            first_told: Some(self.now),
            returned: std::mem::take(&mut self.returned),
            kept: self.kept.iter_mut().map(std::mem::take).collect(),
            missed: self.missed.iter_mut().map(std::mem::take).collect(),
            again: std::mem::take(&mut self.again),
            revoked,
            used,
            ..Report::default()
        }
    }

    /// The check hears where there is room for people who are owed a new time, and of the other checks; the answer to its
    /// last report.
    pub fn hear(&mut self, now: Timestamp, answered: &Answered) {
        self.advance(now);
        self.unanswered = None;
        self.hear_of_others(answered);
        let table = &self.table;
        let last = table.present() + table.horizon();
        let owed = answered.owed.iter().map(|owed| (table.slot_of(owed.slot), owed.work));
        self.owed = owed.filter(|(slot, _)| *slot <= last).take(OWED_MAX).collect();
        // What was given since that report is not in the answer.
        for entry in &self.again {
            let slot = table.slot_of(entry.slot);
            if let Some((_, room)) = self.owed.iter_mut().find(|(known, _)| *known == slot) {
                *room = room.saturating_sub(entry.work);
            }
        }
    }

    /// The check gives a new time where the generator says there is room.
    pub(super) fn take_where_told(&mut self, work: Work) -> Option<u64> {
        let present = self.table.present();
        let (slot, room) = self.owed.iter_mut().find(|(slot, room)| *slot > present && *room > 0)?;
        *room = room.saturating_sub(work);
        self.table.owe(*slot, work, 0);
        Some(*slot)
    }

    /// The generator takes the report of the check of that name.
    #[must_use]
    pub fn heed(&mut self, now: Timestamp, check: &str, report: &Report) -> Answered {
        self.advance(now);
        let before = self.last_report_of(check);
        if self.note_check(check, report) {
            self.count_report(report);
        }
        self.set_budget(false);
        let (most, part) = (self.owed_most(), self.part_of(check));
        let room: Vec<_> = self.table.room_owed(most).collect();
        let owed = |(slot, room)| Owed { slot: self.table.begin(slot), work: share(room, part) };
        let owed = room.into_iter().map(owed).filter(|owed| owed.work > 0).collect();
        let mut answered = Answered { owed, held_back: self.holds_back(self.now), ..Answered::default() };
        self.pass_on(check, before, report, &mut answered);
        answered
    }

    /// Who came, and who was given a new time.
    fn count_report(&mut self, report: &Report) {
        // First of all: some of them may have come since.
        for entry in report.again.iter().take(RETURNED_MAX) {
            let class = self.known(entry.class);
            let slot = self.table.take_again_in(self.table.slot_of(entry.slot), entry.work, entry.people);
            self.no_shows.promised(slot, class, entry.people);
            self.count_many(class, RoomCount::Promised, u64::from(entry.people));
            // Places that are owed lie in everybody's lane.
            self.issued_work[0] = self.issued_work[0].saturating_add(entry.work);
        }
        let present = self.table.present();
        for entry in report.returned.iter().take(RETURNED_MAX) {
            let class = self.known(entry.class);
            let slot = self.table.slot_of(entry.slot).min(present + 1);
            self.no_shows.came(slot, class, present, entry.people);
        }
        for (what, counts) in [(RoomCount::Kept, &report.kept), (RoomCount::Missed, &report.missed)] {
            (0..).zip(counts).for_each(|(class, count)| self.count_many(ClassId(class), what, *count));
        }
    }

    /// Somebody with a promise goes on whatever his time is, since nobody is held back now: he has come, unless he came for it
    /// before or comes after the grace, when nobody knows any more whether he did.
    pub fn goes_on(&mut self, now: Timestamp, promise: &Promise) {
        self.advance(now);
        let slot = match promise.kind {
            Kind::Place => self.table.slot_of(promise.at),
            Kind::Lot => match self.draws.lot(promise.at, promise.number, self.secrets[1]) {
                Lot::Drawn(slot, _) => slot,
                Lot::Pending(..) | Lot::Unknown => return,
            },
        };
        let ends = self.table.begin(slot.saturating_add(1));
        if self.now >= ends + self.settings.clock_tolerance + self.settings.grace {
            return;
        }
        let is_used =
            self.replay.knows(slot, promise.number) || self.was_used_before(self.table.begin(slot), promise);
        if !is_used {
            self.returned(slot, self.known(promise.class));
        }
    }

    /// Role `generate`, where nobody is held back since the room is off or only watches: a check asks for a time whatever is so
    /// here, so everybody is told to be there now. Whose time has come has it already.
    pub fn sends_on(&mut self, now: Timestamp, class: ClassId, promise: Option<&Promise>) -> Place {
        self.advance(now);
        let class = self.known(class);
        let (mut since, mut renewed) = (self.now, 0);
        if let Some(promise) = promise {
            let slot = self.table.slot_of(promise.at);
            let ends = self.table.begin(slot.saturating_add(1));
            let is_due = self.opens(slot) <= self.now
                && self.now < ends + self.settings.clock_tolerance + self.settings.grace;
            if promise.kind == Kind::Place && promise.class == class && is_due {
                return self.place(*promise);
            }
            self.goes_on(now, promise);
            (since, renewed) = (promise.since, promise.renewed);
        }
        let (present, work) = (self.table.present(), self.cost(class) + self.follow());
        let promise = self.new_promise(class, present, 0, work, since, renewed);
        self.place(promise)
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

    /// The check gives somebody a new time.
    pub(super) fn note_again(&mut self, new: Again) {
        let is_same = |entry: &Again| entry.slot == new.slot && entry.class == new.class;
        if let Some(entry) = self.again.iter_mut().rfind(|entry| is_same(entry)) {
            entry.people = entry.people.saturating_add(new.people);
            entry.work = entry.work.saturating_add(new.work);
        } else if self.again.len() < RETURNED_MAX {
            self.again.push(new);
        }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a part of a slot's work; `as` saturates"
)]
fn share(work: Work, part: f64) -> Work {
    (work as f64 * part) as Work
}
