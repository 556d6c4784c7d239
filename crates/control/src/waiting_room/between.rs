//! What checks tell each other through the generator: which promises were used, and which passes have been revoked.
//!
//! A check tells with each report what was used and revoked at it since the last one. The generator keeps the last
//! [`LOG_MAX`] of either in the order in which it learned of them, and its answer holds those that this check has not heard
//! yet: a [`Mark`] says how far it has. A check that has just been started has heard nothing, and hears all of them, its own
//! too, but for promises used at it so shortly before its last report that whoever brought them may have stood in the short
//! queue when it ended: he has been served by nobody, and has no pass. One that meets another list than it knows, since the
//! generator was started anew, tells all its revocations once more.
//!
//! So a promise used at one check can be used once more at another one only until both have reported. What does not
//! fit is not told: of more than [`USED_MAX`] promises used between two reports the rest is known where it was used alone.
//! Revocations that do not fit into one report, or answer, are in the next ones. They hold until the pass would be over
//! for good.
//!
//! What all checks have let in is in the filter of each, so that filters are made for as many places as all of them have
//! together: [`part`](Answered::part) of them are this check's.
//!
//! Memory, as it is needed: 4 MiB at a generator and 1 MiB at a check at most, and 3 MiB of revoked passes at either.
//!
//! Source: none; WebQ has one TokenCheck.

use std::{collections::VecDeque, time::Duration};

use super::{Owed, Pass, Report, Room, mix};
use crate::{Timestamp, knobs::RoomRole};

/// Promises that a check tells of in one report.
pub const USED_MAX: usize = 4096;
/// Promises, and passes, that a generator remembers.
const LOG_MAX: usize = 65_536;
/// Promises in one answer: what several checks tell in one report each.
const USED_HEARD_MAX: usize = 4 * USED_MAX;
/// Revocations in one report, and in one answer.
pub(super) const REVOKED_TOLD_MAX: usize = 512;
/// Revocations kept until they are told.
const UNTOLD_MAX: usize = 65_536;
/// Besides the time in the short queue, so long may somebody have been who was let in and is not served yet.
const UNDER_WAY: Duration = Duration::from_secs(1);
/// No pass lasts longer: the largest `waiting_room.session.total`.
const PASS_MAX: Duration = Duration::from_secs(7 * 86_400);
/// The smallest part of a check for which filters are made.
const PART_MIN: f64 = 1.0 / 64.0;

/// A promise that was used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Used {
    /// A moment in its slot.
    pub slot: Timestamp,
    /// Its number.
    pub number: u64,
}

/// A pass that does not hold any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Revoked {
    /// Its number.
    pub number: u64,
    /// When it would have been over for good.
    pub until: Timestamp,
}

/// How far a check has heard what others have told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Which generator's list; another one after each start.
    pub list: u64,
    /// Revocations it has heard of.
    pub revoked: u64,
    /// Used promises it has heard of.
    pub used: u64,
}

/// What the generator answers to a report. Plain data.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answered {
    /// Where this check may give new times to people whose promise it missed, the earliest first, 64 slots at most.
    pub owed: Vec<Owed>,
    /// Passes revoked elsewhere.
    pub revoked: Vec<Revoked>,
    /// Promises used elsewhere.
    pub used: Vec<Used>,
    /// To be told with the next report; `None`: the generator keeps no list.
    pub mark: Option<Mark>,
    /// The check's part in the capacity of all, 0 to 1; `None`: not known.
    pub part: Option<f64>,
    /// Whether newcomers have been made to wait of late.
    pub held_back: bool,
}

/// Role `generate`: what checks have told.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Learned {
    revoked: Log<Revoked>,
    used: Log<Used>,
}

/// Role `check`: what is to be told, and what was heard.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Untold {
    revoked: VecDeque<Revoked>,
    used: Vec<Used>,
    heard: Option<Mark>,
    part: Option<f64>,
    pub(super) held_back: bool,
}

/// The last [`LOG_MAX`] things learned, each with whom it was learned from, and when.
#[derive(Clone, Debug, PartialEq)]
struct Log<T> {
    /// The number of the first one that is left.
    first: u64,
    entries: VecDeque<(u64, Timestamp, T)>,
}

impl<T> Default for Log<T> {
    fn default() -> Self {
        Self { first: 0, entries: VecDeque::new() }
    }
}

impl<T: Copy> Log<T> {
    fn push(&mut self, from: u64, now: Timestamp, entry: T) {
        if self.entries.len() == LOG_MAX {
            self.entries.pop_front();
            self.first += 1;
        }
        self.entries.push_back((from, now, entry));
    }

    fn end(&self) -> u64 {
        self.first + self.entries.len() as u64
    }

    /// What was learned after a mark from others than `own`, `most` at most, and the mark after that. Who has no mark hears
    /// his own, too, that were learned by `own_until`.
    fn after(&self, mark: Option<u64>, own: u64, own_until: Timestamp, most: usize) -> (Vec<T>, u64) {
        let mark = mark.filter(|mark| *mark <= self.end());
        let mut next = mark.unwrap_or(self.first).max(self.first);
        let mut found = Vec::new();
        let skipped = usize::try_from(next - self.first).unwrap_or(usize::MAX);
        for (from, learned, entry) in self.entries.iter().skip(skipped) {
            if found.len() == most {
                break;
            }
            next += 1;
            if *from != own || (mark.is_none() && *learned <= own_until) {
                found.push(*entry);
            }
        }
        (found, next)
    }
}

impl Room {
    /// The application says that a pass is over.
    pub fn revoke(&mut self, now: Timestamp, pass: &Pass) {
        self.advance(now);
        // It may have been renewed meanwhile, here or elsewhere: no copy of it lasts longer than this.
        let longest = self.settings.sessions.map_or(PASS_MAX, |sessions| sessions.total);
        let until = (pass.begun + longest).max(pass.until);
        let revoked = Revoked { number: pass.number, until };
        if !self.sessions.revoke(self.now, revoked.number, revoked.until) {
            return;
        }
        match self.settings.role {
            RoomRole::Both => {}
            RoomRole::Generate => self.learned.revoked.push(0, self.now, revoked),
            RoomRole::Check => self.untold.revoke(revoked),
        }
    }

    /// Somebody was let in by a promise of that slot.
    pub(super) fn note_used(&mut self, slot: u64, number: u64) {
        self.spend(self.table.begin(slot), number);
        if self.settings.role == RoomRole::Check && self.untold.used.len() < USED_MAX {
            self.untold.used.push(Used { slot: self.table.begin(slot), number });
        }
    }

    /// What the check tells others with its next report.
    pub(super) fn take_untold(&mut self) -> (Vec<Revoked>, Vec<Used>) {
        let count = self.untold.revoked.len().min(REVOKED_TOLD_MAX);
        let revoked = self.untold.revoked.drain(..count).collect();
        (revoked, std::mem::take(&mut self.untold.used))
    }

    /// How far the check has heard what others have told.
    pub(super) const fn heard(&self) -> Option<Mark> {
        self.untold.heard
    }

    /// The check hears of others.
    pub(super) fn hear_of_others(&mut self, answered: &Answered) {
        self.untold.held_back = answered.held_back;
        for revoked in answered.revoked.iter().take(REVOKED_TOLD_MAX) {
            self.note_revoked(*revoked);
        }
        for used in answered.used.iter().take(USED_HEARD_MAX) {
            self.spend(used.slot, used.number);
            if let Some(slot) = self.usable(used.slot) {
                // Whether it was known does not matter: it is now.
                let places = self.filter_places(slot.max(self.table.present()));
                let _ = self.replay.is_new(slot, places, used.number);
            }
        }
        let lists = (self.untold.heard.map(|mark| mark.list), answered.mark.map(|mark| mark.list));
        if let (Some(before), Some(now)) = lists
            && before != now
        {
            // What it was told by us is gone with the generator that was there before.
            self.untold.revoked = self.revoked().take(UNTOLD_MAX).collect();
        }
        (self.untold.heard, self.untold.part) = (answered.mark, answered.part);
    }

    /// The generator takes what a check tells that reported `before` the last time, and has for it what the others have told.
    pub(super) fn pass_on(
        &mut self,
        check: &str,
        before: Option<Timestamp>,
        report: &Report,
        answered: &mut Answered,
    ) {
        let from = fingerprint(check);
        for revoked in report.revoked.iter().take(REVOKED_TOLD_MAX) {
            if self.note_revoked(*revoked) {
                self.learned.revoked.push(from, self.now, *revoked);
            }
        }
        for used in report.used.iter().take(USED_MAX) {
            self.learned.used.push(from, self.now, *used);
            self.spend(used.slot, used.number);
        }
        let list = self.list();
        let heard = report.heard.filter(|mark| mark.list == list);
        let Learned { revoked, used } = &self.learned;
        let (revoked, revoked_next) =
            revoked.after(heard.map(|mark| mark.revoked), from, self.now, REVOKED_TOLD_MAX);
        let served = before.unwrap_or(self.now) - (self.settings.hold + UNDER_WAY);
        let (used, used_next) = used.after(heard.map(|mark| mark.used), from, served, USED_HEARD_MAX);
        (answered.revoked, answered.used) = (revoked, used);
        answered.mark = Some(Mark { list, revoked: revoked_next, used: used_next });
        answered.part = Some(self.part_of(check));
    }

    /// Another role: nothing of it holds.
    pub(super) fn forget_others(&mut self) {
        (self.learned, self.untold) = (Learned::default(), Untold::default());
        self.unanswered = None;
        self.lists += 1;
    }

    /// Places of a slot for which its filter is made: those of all checks.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a number of people; `as` saturates"
    )]
    pub(super) fn filter_places(&self, slot: u64) -> u64 {
        let own = self.places(slot);
        match self.untold.part {
            Some(part) if part < 1.0 => (own as f64 / part.max(PART_MIN)) as u64,
            _ => own,
        }
    }

    /// By which marks are known to be of this list and no other.
    fn list(&self) -> u64 {
        mix(self.secrets[0].wrapping_sub(self.lists))
    }

    /// Passes that have been revoked, the first first.
    pub(super) fn revoked(&self) -> impl Iterator<Item = Revoked> + '_ {
        self.sessions.revoked().map(|(number, until)| Revoked { number, until })
    }

    /// What a process before this one knew of. Checks do not hear of it from each other any more.
    pub(super) fn restore_revoked(&mut self, revoked: &[Revoked]) {
        for revoked in revoked {
            if self.note_revoked(*revoked) && self.settings.role == RoomRole::Generate {
                self.learned.revoked.push(0, self.now, *revoked);
            }
        }
    }

    fn note_revoked(&mut self, revoked: Revoked) -> bool {
        let until = revoked.until.min(self.now + PASS_MAX);
        until > self.now && self.sessions.revoke(self.now, revoked.number, until)
    }

    /// The slot of a promise that may be used now, or may have been until a moment ago.
    fn usable(&self, at: Timestamp) -> Option<u64> {
        let (slot, present) = (self.table.slot_of(at), self.table.present());
        (slot + self.behind() >= present && slot <= present + self.ahead()).then_some(slot)
    }
}

impl Untold {
    fn revoke(&mut self, revoked: Revoked) {
        if self.revoked.len() == UNTOLD_MAX {
            self.revoked.pop_front();
        }
        self.revoked.push_back(revoked);
    }
}

/// A name, of a check or a class, as a number; 0 is none's.
pub(super) fn fingerprint(name: &str) -> u64 {
    name.bytes().fold(mix(name.len() as u64), |sum, byte| mix(sum ^ u64::from(byte))) | 1
}
