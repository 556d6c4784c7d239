//! How the room stands, for meters and people: what was counted, who waits, the wait of the next one.

use std::time::Duration;

use super::{
    ALL_COUNTS, Estimate, Kind, Promise, Room, RoomCount,
    budget::units,
    draws::Lot,
    room::{nanos, whole_ms},
    settings::Group,
};
use crate::{
    ClassId, Timestamp,
    capacity::COST_CLASSES,
    knobs::{RoomMethod, RoomRole},
};

/// When a draw waits for a check to be heard of, people are to look again after this long.
const DRAWN_SOON: Duration = Duration::from_secs(5);

/// Where doors open at a time not known yet, people are to look again after this long.
const LOOK_AGAIN: Duration = Duration::from_secs(60);

/// How things stand.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Standing {
    /// People with a time to come, or a lot.
    pub waiting: u64,
    /// Wait of the next visitor of the default class, at least; method `random`: until the draw he would be in. `None`: the horizon is full, or doors are closed or open at
    /// a time not known yet.
    pub next: Option<Duration>,
    /// Capacity, work units a second. Role `generate`: the one that holds, also without word from any check.
    pub capacity: Option<f64>,
    /// Of it, what is promised to newcomers a second.
    pub for_newcomers: f64,
    /// Work units a second done with passes.
    pub sessions_per_s: f64,
    /// Largest share of no-shows of any class.
    pub no_show: f64,
    /// When the doors open of everybody who is of no group, or their round is drawn.
    pub opens: Option<Timestamp>,
    /// Role `generate`: when the check last reported that has been silent for longest, if any ever did.
    pub reported: Option<Timestamp>,
    /// Role `generate`: a check has not reported in time. Its last capacity counts.
    pub overdue: bool,
    /// Role `generate`: no check has reported for so long that the floor holds.
    pub lost: bool,
}

/// A group of classes, which has doors or a share of its own.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GroupView {
    /// The class that has what is the group's.
    pub class: ClassId,
    /// Who of it gets which place.
    pub method: RoomMethod,
    /// When its doors open, or its round is drawn.
    pub opens: Option<Timestamp>,
    /// Share of each slot that is kept for it, 0 to 1; `None`: it is let in with everybody.
    pub share: Option<f64>,
    /// Its people with a time to come, or a lot. `None`: one of its classes is the sixteenth or later of more than sixteen,
    /// whose people are counted together.
    pub waiting: Option<u64>,
    /// Of them, those with lots that are not drawn.
    pub lots: u64,
    /// As [`Standing::next`], of its next visitor.
    pub next: Option<Duration>,
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

impl Estimate {
    /// Until he is to come, or to look again where it is not known when.
    #[must_use]
    pub fn left(&self, now: Timestamp) -> Duration {
        self.at.map_or(LOOK_AGAIN, |at| at.since(now))
    }
}

impl Room {
    /// How things stand for somebody who waits and asks: his time is now if he is called, or if nobody is held any more. Changes
    /// nothing.
    #[must_use]
    pub fn look(&self, now: Timestamp, promise: &Promise) -> Estimate {
        let now = now.max(self.now);
        let mut estimate = self.estimate(now, promise);
        // Who has a time of a generator's would be early at the check; and a process that begins is told of its capacity soon.
        let may_go_on = self.is_told && self.settings.role != RoomRole::Generate;
        if may_go_on && !self.concerns(self.known(promise.class)) {
            return Estimate { at: Some(now), undrawn: false, ahead: 0, behind: 0, ..estimate };
        }
        let is_called = |slot| self.is_called(now, slot, self.known(promise.class), promise.work);
        if estimate.early && promise.kind == Kind::Place && is_called(self.table.slot_of(promise.at)) {
            estimate.at = Some(now);
        }
        estimate
    }

    /// How things stand for somebody who is told to wait.
    pub(super) fn estimate(&self, now: Timestamp, promise: &Promise) -> Estimate {
        let waited = now.since(promise.since);
        let lot = match promise.kind {
            Kind::Place => None,
            Kind::Lot => match self.draws.lot(promise.at, promise.number, self.secrets[1]) {
                Lot::Pending(closes, people) => {
                    let closes = if closes <= now { now + DRAWN_SOON } else { closes };
                    return Estimate {
                        at: is_known(closes).then_some(closes),
                        undrawn: true,
                        ahead: people,
                        behind: 0,
                        waited,
                        early: true,
                    };
                }
                Lot::Drawn(slot, offset) => Some(whole_ms(self.table.within(slot, offset))),
                Lot::Unknown => Some(now),
            },
        };
        let at = lot.unwrap_or(promise.at);
        let slot = self.table.slot_of(at);
        let ahead = self.table.ahead(slot);
        let behind = self.table.ahead(u64::MAX) - self.table.ahead(slot.saturating_add(1));
        let early = self.opens(slot) > now;
        Estimate { at: Some(at), undrawn: false, ahead, behind, waited, early }
    }

    /// From when on a promise lets its holder in; `None`: it does not any more, since he is too late or it seems to be used.
    /// Who shows several is to come in by the one that does first. Changes nothing.
    #[must_use]
    pub fn lets_in_from(&self, now: Timestamp, promise: &Promise) -> Option<Timestamp> {
        let now = now.max(self.now);
        let at = match promise.kind {
            Kind::Place => promise.at,
            Kind::Lot => match self.draws.lot(promise.at, promise.number, self.secrets[1]) {
                Lot::Pending(closes, _) => return Some(closes.max(now)),
                Lot::Drawn(slot, offset) => whole_ms(self.table.within(slot, offset)),
                Lot::Unknown => return None,
            },
        };
        let slot = self.table.slot_of(at);
        let ends = self.table.begin(slot + 1) + self.settings.clock_tolerance + self.settings.grace;
        let is_used = self.was_used_before(at, promise) || self.replay.knows(slot, promise.number);
        (now < ends && !is_used).then_some(at)
    }

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
        let now = now.max(self.now);
        let length = self.table.length();
        Standing {
            waiting: self.table.waiting() + self.draws.people(),
            next: self.next_of(ClassId(0), now),
            capacity: match self.settings.role {
                RoomRole::Generate => self.counted_on(),
                RoomRole::Both | RoomRole::Check => self.capacity.per_s,
            },
            for_newcomers: units(self.table.budget()) / length.as_secs_f64(),
            sessions_per_s: self.sessions.per_s(),
            no_show: self.no_shows.shares().fold(0.0, f64::max),
            opens: self.opens_of(None, now),
            reported: self.reported(),
            overdue: self.is_overdue(now),
            lost: self.is_lost(now),
        }
    }

    /// How groups stand, by the class that has what is the group's.
    pub fn groups(&self, now: Timestamp) -> impl Iterator<Item = GroupView> + '_ {
        let now = now.max(self.now);
        let leaders: Vec<ClassId> =
            self.class_ids().filter(|class| self.settings.group_of(*class) == Some(*class)).collect();
        let promised = if leaders.is_empty() { [0; COST_CLASSES] } else { self.promised() };
        leaders.into_iter().map(move |class| {
            let lane = self.lanes.get(class.index()).copied().unwrap_or(0);
            GroupView {
                class,
                method: self.settings.method_of(class),
                opens: self.opens_of(Some(class), now),
                share: (lane > 0).then(|| self.table.share(lane)),
                waiting: self.waiting_of(class, &promised),
                lots: self.draws.people_of(Some(class)),
                next: self.next_of(class, now),
            }
        })
    }

    fn class_ids(&self) -> impl Iterator<Item = ClassId> + '_ {
        (0..).zip(&self.settings.classes).map(|(id, _)| ClassId(id))
    }

    /// People who were told a time after the present slot other than by a draw, by their class's place in the no-shows.
    fn promised(&self) -> [u64; COST_CLASSES] {
        let mut promised = [0; COST_CLASSES];
        for (slot, ..) in
            self.table.iter().filter(|(slot, _, people)| *slot > self.table.present() && *people > 0)
        {
            for (sum, (made, _)) in promised.iter_mut().zip(self.no_shows.of(slot)) {
                *sum += u64::from(made);
            }
        }
        promised
    }

    fn waiting_of(&self, leader: ClassId, promised: &[u64; COST_CLASSES]) -> Option<u64> {
        let is_shared =
            |class: ClassId| self.settings.classes.len() > COST_CLASSES && class.index() + 1 >= COST_CLASSES;
        let group = Some(leader);
        let with_lots = self.draws.people_of(group) + self.draws.drawn_after(group, self.table.present());
        self.class_ids().filter(|class| self.settings.group_of(*class) == group).try_fold(
            with_lots,
            |sum, class| {
                let own = promised.get(class.index()).filter(|_| !is_shared(class))?;
                Some(sum + own)
            },
        )
    }

    fn next_of(&self, class: ClassId, now: Timestamp) -> Option<Duration> {
        let doors = self.settings.doors_of(Some(class));
        match (doors.method, self.table.next(self.lanes.get(class.index()).copied().unwrap_or(0))) {
            (RoomMethod::Closed, _) => None,
            (RoomMethod::Event, _) if doors.opens_at.is_none_or(|opens| now < opens) => {
                doors.opens_at.map(|opens| opens.since(now))
            }
            _ if self.sends_at_once() => Some(Duration::ZERO),
            (RoomMethod::Wait, _) if !self.is_limited() => Some(self.table.length()),
            _ if !self.knows_capacity() && self.settings.role != RoomRole::Generate => Some(Duration::ZERO),
            (RoomMethod::Random, _) if self.counted_on().is_some() => {
                let straight_in = self.nobody_is_before(class) && self.has_room_now(class, now);
                let closes = self.draws.closes_of(self.settings.group_of(class));
                let closes = closes.unwrap_or_else(|| self.round_closes(doors.round, now));
                Some(if straight_in { Duration::ZERO } else { closes.since(now) })
            }
            // Nobody waits, and the next one would not either.
            (_, Some(1)) if self.table.waiting() == 0 => Some(Duration::ZERO),
            // Others do, and he would not.
            (RoomMethod::Fifo | RoomMethod::Event, Some(1)) if self.has_room_now(class, now) => {
                Some(Duration::ZERO)
            }
            (_, Some(slots)) => {
                Some(self.table.length().saturating_mul(u32::try_from(slots).unwrap_or(u32::MAX)))
            }
            (_, None) => None,
        }
    }

    /// Method `random`: whether nobody waits for a draw or for what was drawn, before whom one would come in.
    pub(super) fn nobody_is_before(&self, class: ClassId) -> bool {
        self.table.waiting() == 0 && self.draws.people_of(self.settings.group_of(class)) == 0
    }

    /// Method `random`: when a round ends that begins at `now`.
    pub(super) fn round_closes(&self, round: Duration, now: Timestamp) -> Timestamp {
        let round = nanos(round).max(1);
        Timestamp::from_nanos((now.as_nanos() / round + 1).saturating_mul(round))
    }

    fn opens_of(&self, group: Group, now: Timestamp) -> Option<Timestamp> {
        let doors = self.settings.doors_of(group);
        let set = doors.opens_at.filter(|opens| doors.method == RoomMethod::Event && *opens > now);
        self.draws.closes_of(group).filter(|closes| is_known(*closes)).or(set)
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
            counts[what as usize] = counts[what as usize].saturating_add(count);
        }
    }
}

/// Whether doors open at a time that is known: it is named in tokens to a millisecond.
fn is_known(closes: Timestamp) -> bool {
    closes < whole_ms(Timestamp::FAR_FUTURE)
}
