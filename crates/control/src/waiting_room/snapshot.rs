//! What of the room survives the process: who is promised what, slot by slot, and what was measured.
//!
//! Written once a second or so. What was promised after the last writing is not in it: its second counts as full, that
//! is, as much work is taken for promised as was ever promised in one slot. Promises that were used shortly before the end
//! are not in it either: within the grace they can be used once more.
//!
//! As bytes: a version, then numbers of fixed width, little-endian. Length: 48 bytes and 8 a lane and class for each slot
//! in which somebody is promised something, 24 for each class, and 16 for each pass that was revoked and would not be over yet.

use std::time::Duration;

use super::{
    LANES_MAX, Revoked, Room, Work,
    budget::units,
    draws::{ALL_ROUNDS_MAX, Draws, Lately, Round},
    lines::Was,
    sessions::REVOKED_MAX,
    settings::Group,
    slot_table::SLOTS_MAX,
    stretch::Stretch,
};
use crate::{ClassId, Timestamp, capacity::COST_CLASSES, knobs::RoomOrder};

const VERSION: u8 = 7;
/// Older versions are read too: the first is without the work of slots that are over, the second without whose a round is,
/// which was everybody's, the third without whose lane it was that work was promised to lately, which counts as everybody's, the
/// fourth without passes that were revoked, the fifth without what drawn rounds take more from a later slot on, the
/// sixth without the names of the classes, which are taken to be in the same order.
const FIRST: u8 = 1;
const SECOND: u8 = 2;
const THIRD: u8 = 3;
const FOURTH: u8 = 4;
const FIFTH: u8 = 5;
const SIXTH: u8 = 6;

/// The room's state, as plain data.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RoomSnapshot {
    at: Timestamp,
    slot: Duration,
    /// Of a slot, and the most work promised in one to classes of each lane.
    budget: Work,
    issued_work_lately: [Work; LANES_MAX],
    /// Of slots that are over which they could not do.
    over: Work,
    follow: (f64, f64),
    /// Came and absent, by class.
    no_shows: Vec<(f64, f64)>,
    slots: Vec<SlotRow>,
    /// With the name of the class whose group it is of; 0 is everybody's.
    rounds: Vec<(u64, Round)>,
    /// Passes, the first first.
    revoked: Vec<Revoked>,
    classes: Vec<ClassRow>,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct SlotRow {
    number: u64,
    people: u32,
    lanes: Vec<Work>,
    classes: Vec<(u32, u32)>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct ClassRow {
    name: u64,
    lane: usize,
    /// Whether that is by its own share, not by that of its group.
    leads: bool,
}

/// Bytes that are no snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotFault {
    /// Written by another version of the program.
    #[error(
        "the waiting room's state was written in version {found}, and this program reads {VERSION}; it begins anew"
    )]
    Version {
        /// Which.
        found: u8,
    },
    /// They end too early, or hold what cannot be.
    #[error("the waiting room's state is damaged at byte {at}; it begins anew")]
    Damaged {
        /// Where.
        at: usize,
    },
}

impl Room {
    /// What is to survive.
    #[must_use]
    pub fn snapshot(&self, now: Timestamp) -> RoomSnapshot {
        let present = self.table.present();
        let slots = self
            .table
            .iter()
            .map(|(number, _, _)| SlotRow {
                number,
                people: u32::try_from(self.table.ahead(number + 1) - self.table.ahead(number))
                    .unwrap_or(u32::MAX),
                lanes: self.table.lanes(number).collect(),
                classes: self.no_shows.of(number).collect(),
            })
            .filter(|row| row.number >= present)
            .collect();
        let now = now.max(self.now);
        RoomSnapshot {
            at: now,
            slot: self.table.length(),
            budget: self.table.budget(),
            issued_work_lately: self.issued_work_lately(),
            over: self.table.over(),
            follow: self.sessions.sums(),
            no_shows: self.no_shows.sums().collect(),
            slots,
            rounds: self.draws.rounds().map(|round| (self.name_of(round.group), *round)).collect(),
            revoked: self.revoked().filter(|revoked| revoked.until > now).collect(),
            classes: self.class_rows(),
        }
    }

    /// Takes over what a process before this one had promised. To be called before anybody is promised anything.
    pub fn restore(&mut self, now: Timestamp, snapshot: &RoomSnapshot) {
        self.advance(now);
        let length = super::room::nanos(snapshot.slot).max(1);
        let classes = self.were_in(snapshot);
        let places = || classes.iter().map(|was| was.now.map(|class| class.index().min(COST_CLASSES - 1)));
        for row in &snapshot.slots {
            let begin = Timestamp::from_nanos(row.number.saturating_mul(length));
            let slot = self.table.slot_of(begin);
            if slot < self.table.present() {
                continue;
            }
            let made = row.classes.iter().map(|(made, _)| *made);
            self.lay(slot, row.people, row.lanes.iter().copied(), made, &classes);
            for (place, (made, unseen)) in places().zip(&row.classes) {
                if let Some(place) = place {
                    self.no_shows.put(slot, place, *made, *unseen);
                }
            }
        }
        for (place, (came, absent)) in places().zip(&snapshot.no_shows) {
            if let Some(place) = place {
                self.no_shows.put_sums(place, *came, *absent);
            }
        }
        self.sessions.put_sums(snapshot.follow.0, snapshot.follow.1);
        self.restore_revoked(&snapshot.revoked);
        let rounds = snapshot.rounds.iter().map(|(name, round)| Round {
            group: self.named(*name),
            work: snapshot.work_of(round),
            lately: Lately::default(),
            ..*round
        });
        self.draws = Draws::of(rounds);
        self.draws.lay_into(&self.table, snapshot.slot);
        self.set_doors();
        for (lane, work) in snapshot.issued_work_lately.into_iter().enumerate() {
            self.issued_work_lately[self.lane_since(lane, &classes)] += work;
        }
        // Nobody has done it meanwhile.
        self.table.go_on_with(snapshot.over);
        // Promised after the last writing: at the end of each line, as much as in a busy slot before it.
        if self.table.budget() == 0 {
            self.table.set_budget(snapshot.budget, snapshot.budget, 0);
            self.wanted = units(snapshot.budget);
        } else {
            self.table.pour();
        }
        self.table.close_line();
        for (lane, work) in self.issued_work_lately.into_iter().enumerate().filter(|(_, work)| *work > 0) {
            let stretch = self.table.stretch(lane, false);
            self.table.fill(lane, &stretch, work, 0);
        }
        // What this second has let in already is not known either.
        let present = self.table.present();
        self.table.put(present, 0, snapshot.budget, 0);
        self.table.pour();
    }

    /// The most work that was promised in a slot, lane by lane, halved with each slot since: as much may be promised before the next
    /// snapshot is written.
    pub(super) fn issued_work_lately(&self) -> [Work; LANES_MAX] {
        std::array::from_fn(|lane| self.issued_work[lane].max(self.issued_work_lately[lane] / 2))
    }

    /// The classes of a process before this one; where it has not named them, they are taken to be the same.
    fn were_in(&self, snapshot: &RoomSnapshot) -> Vec<Was> {
        if snapshot.classes.is_empty() {
            return self.were(&self.settings, &self.lanes);
        }
        let of = |class: &ClassRow| Was { lane: class.lane, leads: class.leads, now: self.named(class.name) };
        snapshot.classes.iter().map(of).collect()
    }

    /// The class with a name that a process before this one has written.
    fn named(&self, name: u64) -> Option<ClassId> {
        let known = (0..).zip(&self.settings.classes).find(|(_, class)| class.name == name && name > 0);
        known.map(|(id, _)| ClassId(id))
    }

    /// None where classes have no names.
    fn class_rows(&self) -> Vec<ClassRow> {
        let classes = self.settings.classes.iter().zip(&self.lanes);
        let all = classes.map(|(class, lane)| ClassRow {
            name: class.name,
            lane: *lane,
            leads: class.group.is_none(),
        });
        if self.settings.classes.iter().all(|class| class.name > 0) { all.collect() } else { Vec::new() }
    }

    fn name_of(&self, group: Group) -> u64 {
        group.and_then(|class| self.settings.classes.get(class.index())).map_or(0, |class| class.name)
    }
}

impl RoomSnapshot {
    /// When it was taken.
    #[must_use]
    pub const fn at(&self) -> Timestamp {
        self.at
    }

    /// The last one of its process: nothing is promised after it.
    #[must_use]
    pub fn last(mut self) -> Self {
        self.rounds.iter_mut().for_each(|(_, round)| round.lately = Lately::default());
        Self { issued_work_lately: [0; LANES_MAX], ..self }
    }

    /// Work of a round's lots, with those that may have been given after the last writing: whoever comes later has a place behind them.
    fn work_of(&self, round: &Round) -> Work {
        let unwritten = if round.drawn.is_none() { round.lately.most(self.at) } else { 0 };
        round.work.saturating_add(unwritten)
    }

    /// As bytes.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        let mut put = |number: u64| out.extend_from_slice(&number.to_le_bytes());
        let work = |work: Work| work.min(WORK_MAX);
        put(self.at.as_nanos());
        put(super::room::nanos(self.slot));
        put(work(self.budget));
        let [of_all, of_lanes @ ..] = self.issued_work_lately.map(work);
        put(of_all);
        put(work(self.over));
        put(self.follow.0.to_bits());
        put(self.follow.1.to_bits());
        put(self.no_shows.len() as u64);
        for (came, absent) in &self.no_shows {
            put(came.to_bits());
            put(absent.to_bits());
        }
        put(self.slots.len() as u64);
        for row in &self.slots {
            put(row.number);
            put(u64::from(row.people));
            put(row.lanes.len() as u64);
            row.lanes.iter().for_each(|lane| put(work(*lane)));
            put(row.classes.len() as u64);
            row.classes.iter().for_each(|(made, unseen)| put(u64::from(*made) << 32 | u64::from(*unseen)));
        }
        put(self.rounds.len() as u64);
        for (name, round) in &self.rounds {
            put(*name);
            put(round.key.as_nanos());
            put(round.closes.as_nanos());
            put(u64::from(round.order == RoomOrder::InOrder));
            put(work(self.work_of(round)));
            put(round.people);
            let drawn = round.drawn.unwrap_or(Stretch::even(u64::MAX, 0));
            let drawn = [drawn.slot, work(drawn.budget), drawn.more_from, work(drawn.more)];
            drawn.into_iter().for_each(&mut put);
        }
        put(of_lanes.len() as u64);
        of_lanes.into_iter().for_each(&mut put);
        put(self.revoked.len() as u64);
        for Revoked { number, until } in &self.revoked {
            put(*number);
            put(until.as_nanos());
        }
        put(self.classes.len() as u64);
        for class in &self.classes {
            put(class.name);
            put(class.lane as u64);
            put(u64::from(class.leads));
        }
        out
    }

    /// From bytes.
    ///
    /// # Errors
    ///
    /// Another version, or bytes that end too early, go on too long, or hold what cannot be.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, SnapshotFault> {
        let (version, rest) = bytes.split_first().ok_or(SnapshotFault::Damaged { at: 0 })?;
        if !(FIRST..=VERSION).contains(version) {
            return Err(SnapshotFault::Version { found: *version });
        }
        let mut reader = Reader { all: rest.len(), rest };
        let at = reader.time()?;
        let slot = reader.slot()?;
        let budget = reader.work()?;
        let mut issued_work_lately = [0; LANES_MAX];
        issued_work_lately[0] = reader.work()?;
        let over = if *version == FIRST { 0 } else { reader.work()? };
        let follow = (reader.sum()?, reader.sum()?);
        let mut no_shows = Vec::new();
        for _ in 0..reader.count(COST_CLASSES as u64)? {
            no_shows.push((reader.sum()?, reader.sum()?));
        }
        let mut slots = Vec::new();
        for _ in 0..reader.count(SLOTS_MAX + 1)? {
            let (number, people) = (reader.number()?, reader.small()?);
            let mut row = SlotRow { number, people, ..SlotRow::default() };
            for _ in 0..reader.count(LANES_MAX as u64)? {
                row.lanes.push(reader.work()?);
            }
            for _ in 0..reader.count(COST_CLASSES as u64)? {
                let both = reader.number()?;
                let half = |number: u64| u32::try_from(number & 0xFFFF_FFFF).unwrap_or(0);
                row.classes.push((half(both >> 32), half(both)));
            }
            slots.push(row);
        }
        let mut rounds = Vec::new();
        for _ in 0..reader.count(ALL_ROUNDS_MAX as u64)? {
            let name = if *version <= SECOND { 0 } else { reader.number()? };
            let (key, closes) = (reader.time()?, reader.time()?);
            let order = if reader.number()? == 1 { RoomOrder::InOrder } else { RoomOrder::Shuffled };
            let (work, people) = (reader.work()?, reader.number()?);
            let (slot, budget) = (reader.number()?, reader.work()?);
            let (more_from, more) =
                if *version <= FIFTH { (slot, 0) } else { (reader.number()?, reader.work()?) };
            if more_from < slot {
                return Err(reader.damaged());
            }
            let drawn = (slot != u64::MAX).then_some(Stretch { slot, budget, more_from, more });
            let lately = Lately::default();
            rounds.push((name, Round { key, closes, order, group: None, work, people, drawn, lately }));
        }
        let lanes = if *version <= THIRD { 0 } else { reader.count(LANES_MAX as u64 - 1)? };
        for work in issued_work_lately.iter_mut().skip(1).take(usize::try_from(lanes).unwrap_or(0)) {
            *work = reader.work()?;
        }
        let mut revoked = Vec::new();
        let count = if *version <= FOURTH { 0 } else { reader.count(REVOKED_MAX as u64)? };
        for _ in 0..count {
            revoked.push(Revoked { number: reader.number()?, until: reader.time()? });
        }
        let mut classes = Vec::new();
        let count = if *version <= SIXTH { 0 } else { reader.count(u64::from(u16::MAX))? };
        for _ in 0..count {
            let (name, lane) = (reader.number()?, reader.count(LANES_MAX as u64 - 1)?);
            let lane = usize::try_from(lane).unwrap_or(0);
            classes.push(ClassRow { name, lane, leads: reader.number()? == 1 });
        }
        if !reader.rest.is_empty() {
            return Err(reader.damaged());
        }
        Ok(Self {
            at,
            slot,
            budget,
            issued_work_lately,
            over,
            follow,
            no_shows,
            slots,
            rounds,
            revoked,
            classes,
        })
    }
}

/// The most work that is written of one thing, which still adds up with a horizon of others: before a capacity of billions a second a
/// slot may have more.
const WORK_MAX: Work = 1 << 44;

struct Reader<'b> {
    all: usize,
    rest: &'b [u8],
}

impl Reader<'_> {
    const fn damaged(&self) -> SnapshotFault {
        SnapshotFault::Damaged { at: self.all - self.rest.len() + 1 }
    }

    fn number(&mut self) -> Result<u64, SnapshotFault> {
        let (head, rest) = self.rest.split_first_chunk::<8>().ok_or_else(|| self.damaged())?;
        self.rest = rest;
        Ok(u64::from_le_bytes(*head))
    }

    fn time(&mut self) -> Result<Timestamp, SnapshotFault> {
        self.number().map(Timestamp::from_nanos)
    }

    fn slot(&mut self) -> Result<Duration, SnapshotFault> {
        let nanos = self.number()?;
        if nanos < 1_000_000 { Err(self.damaged()) } else { Ok(Duration::from_nanos(nanos)) }
    }

    fn work(&mut self) -> Result<Work, SnapshotFault> {
        let work = self.number()?;
        if work > WORK_MAX { Err(self.damaged()) } else { Ok(work) }
    }

    fn small(&mut self) -> Result<u32, SnapshotFault> {
        let number = self.number()?;
        u32::try_from(number).map_err(|_| self.damaged())
    }

    fn sum(&mut self) -> Result<f64, SnapshotFault> {
        let sum = f64::from_bits(self.number()?);
        if sum.is_finite() && sum >= 0.0 { Ok(sum) } else { Err(self.damaged()) }
    }

    fn count(&mut self, most: u64) -> Result<u64, SnapshotFault> {
        let count = self.number()?;
        if count > most { Err(self.damaged()) } else { Ok(count) }
    }
}
