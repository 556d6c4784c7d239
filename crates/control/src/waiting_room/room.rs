//! The room: asks and returns, all parts together.

use std::time::Duration;

use super::{
    ALL_COUNTS, Answer, Block, Capacity, Entry, Estimate, How, Kind, Pass, PassAnswer, Place, Places,
    Promise, Report, Returned, RoomCount, RoomSettings, SessionSettings, SlotTable, Work,
    draws::{Draws, Lot, Round},
    mix,
    no_shows::NoShows,
    replay::Replay,
    report::RETURNED_MAX,
    sessions::Sessions,
};
use crate::{
    ClassId, Refusal, Timestamp,
    knobs::{RoomMethod, RoomOrder, RoomRole},
};

/// Thousandths of a work unit that a request takes of which nothing is known.
pub(super) const UNIT: Work = 1000;

/// The present slot takes so much over capacity while people wait, if the short queue runs dry.
const FEED: f64 = 1.1;

/// The budget follows the capacity in steps of this.
const STEP: f64 = 0.005;

/// Newcomers have this share of the capacity at least, whatever sessions take.
const NEWCOMERS_MIN: f64 = 0.01;

/// Who comes later than this after his time has no credit.
const CREDIT_EPOCH: Duration = Duration::from_secs(900);
const CREDIT_EPOCHS: u64 = 4;
/// People who come too late in such a time, for which the filter is made.
const LATE_PLACES: u64 = 1 << 16;

/// Those who were given a new time go before all but the top priority.
const OWED_PRIORITY: u8 = 6;

/// When doors are to open at a time not yet known, people are to look again after this long.
const LOOK_AGAIN: Duration = Duration::from_secs(60);

/// The waiting room of one application.
///
/// Time never runs backwards between calls; a `now` that does is taken for the last one. Every call is O(1) amortised
/// or O(log horizon), allocates nothing, and takes `now` first.
///
/// ```
/// use tidegate_control::{
///     ClassId, Timestamp,
///     knobs::{Knob, Scope, Value, Values},
///     waiting_room::{Answer, Capacity, How, Room, RoomSettings},
/// };
///
/// let mut application = Values::defaults(Scope::Application);
/// application.set(Knob::ROOM_METHOD, Value::Choice("fifo")).unwrap();
/// application.set(Knob::ROOM_FILL, Value::Ratio(1.0)).unwrap();
/// let settings = RoomSettings::from_values(&application, &[&Values::defaults(Scope::Class)]);
///
/// let start = Timestamp::from_nanos(1_000_000_000_000);
/// let mut room = Room::new(&settings, [1, 2], start);
/// // Two work units a second: one goes on at once, the next two are promised the next second, and so on.
/// room.observe(start, Capacity { per_s: Some(2.0), pace_per_s: None }, std::iter::empty());
/// let mut seconds = Vec::new();
/// for _ in 0..5 {
///     match room.ask(start, ClassId(0)) {
///         Answer::Enter(entry) => assert_eq!(entry.how, How::Direct),
///         Answer::Wait(place) => seconds.push(place.promise.at.since(start).as_millis()),
///         other => panic!("{other:?}"),
///     }
/// }
/// assert_eq!(seconds, [1000, 1500, 2000, 2500]);
/// ```
#[derive(Clone, Debug)]
pub struct Room {
    pub(super) settings: RoomSettings,
    /// Lane of each class.
    lanes: Vec<usize>,
    secrets: [u64; 2],
    pub(super) now: Timestamp,
    capacity: Capacity,
    /// What a request of each class takes.
    costs: Vec<Work>,
    pub(super) table: SlotTable,
    /// Places taken and not yet given, by class.
    blocks: Vec<Option<Block>>,
    pub(super) no_shows: NoShows,
    replay: Replay,
    /// Promises that came too late, by quarters of an hour.
    late: Replay,
    pub(super) draws: Draws,
    pub(super) sessions: Sessions,
    counts: Vec<[u64; ALL_COUNTS.len()]>,
    issued: u64,
    /// Work promised in the present slot, and the most in any.
    issued_work: Work,
    pub(super) issued_work_max: Work,
    /// When the check last reported, in role `generate`, and what it said of sessions.
    reported: Option<Timestamp>,
    reported_excess: f64,
    reported_follow: Work,
    returned: Vec<Returned>,
}

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
    /// Role `generate`: the check is lost.
    pub overdue: bool,
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
    /// A room nobody waits in. `secrets` come from a source of chance: numbers of promises follow from the first, draws
    /// from the second.
    #[must_use]
    pub fn new(settings: &RoomSettings, secrets: [u64; 2], now: Timestamp) -> Self {
        let (shares, lanes) = settings.lanes();
        let table = SlotTable::new(settings.slot, settings.horizon, &shares, now);
        let mut room = Self {
            lanes,
            secrets,
            now,
            capacity: Capacity::default(),
            costs: Vec::new(),
            no_shows: NoShows::new(settings.classes.len(), table.horizon(), 0),
            replay: Replay::new(1),
            late: Replay::new(CREDIT_EPOCHS),
            draws: Draws::default(),
            sessions: Sessions::default(),
            counts: Vec::new(),
            blocks: Vec::new(),
            issued: 0,
            issued_work: 0,
            issued_work_max: 0,
            reported: None,
            reported_excess: 0.0,
            reported_follow: 0,
            returned: Vec::with_capacity(RETURNED_MAX),
            table,
            settings: settings.clone(),
        };
        room.make();
        room
    }

    /// New knobs. Promises that are out stay; what was booked for them is laid into the new slots.
    pub fn configure(&mut self, now: Timestamp, settings: &RoomSettings) {
        self.advance(now);
        if *settings == self.settings {
            return;
        }
        let old = std::mem::replace(&mut self.settings, settings.clone());
        let (shares, lanes) = settings.lanes();
        let same_table = old.slot == settings.slot
            && old.horizon == settings.horizon
            && old.grace == settings.grace
            && old.clock_tolerance == settings.clock_tolerance
            && old.lanes() == (shares.clone(), lanes.clone())
            && old.classes.len() == settings.classes.len();
        if !same_table {
            let was = self.table.clone();
            let no_shows = self.no_shows.clone();
            self.lanes = lanes;
            self.table = SlotTable::new(settings.slot, settings.horizon, &shares, self.now);
            self.make();
            for (slot, work, people) in was.iter() {
                let at = self.table.slot_of(was.begin(slot));
                self.table.put(at, 0, work, people);
                for (place, (made, unseen)) in no_shows.of(slot).enumerate() {
                    self.no_shows.put(at, place, made, unseen);
                }
            }
            for (place, (came, absent)) in no_shows.sums().enumerate() {
                self.no_shows.put_sums(place, came, absent);
            }
        }
        let (method, opens_at) = (settings.method, settings.opens_at);
        if let Some(round) = self.draws.pending() {
            match method {
                RoomMethod::Event => round.closes = opens_at.unwrap_or(Timestamp::FAR_FUTURE),
                RoomMethod::Random => round.closes = round.closes.min(self.now + settings.round),
                RoomMethod::Closed | RoomMethod::Wait => {}
                // Who has a lot is not left waiting for doors that will not open.
                RoomMethod::Off | RoomMethod::Fifo => round.closes = self.now,
            }
        }
        self.set_budget(true);
        self.draw();
    }

    /// Takes what admission knows: its capacity, and what a request of each class costs where one of the default class
    /// costs 1. To be called at least once a second.
    pub fn observe(
        &mut self,
        now: Timestamp,
        capacity: Capacity,
        costs: impl Iterator<Item = (ClassId, Option<f64>)>,
    ) {
        self.advance(now);
        self.capacity = capacity;
        for (class, cost) in costs {
            if let (Some(known), Some(cost)) = (self.costs.get_mut(class.index()), cost) {
                *known = thousandths(cost.clamp(0.001, 1e6)).max(1);
            }
        }
        self.set_budget(false);
    }

    /// A visitor without promise or pass.
    pub fn ask(&mut self, now: Timestamp, class: ClassId) -> Answer {
        self.advance(now);
        let class = self.known(class);
        if !self.concerns(class) {
            return self.enter(class, How::Unconcerned, false);
        }
        if self.settings.role == RoomRole::Check {
            return Answer::Elsewhere;
        }
        match self.settings.method {
            RoomMethod::Closed => {
                self.count(class, RoomCount::Closed);
                Answer::Refuse(Refusal::RoomClosed)
            }
            RoomMethod::Event if self.settings.opens_at.is_none_or(|opens| now < opens) => {
                let closes = self.settings.opens_at.unwrap_or(Timestamp::FAR_FUTURE);
                self.lot(class, closes, self.settings.order)
            }
            RoomMethod::Random => {
                let nobody_waits = self.table.waiting() == 0 && self.draws.people() == 0;
                if nobody_waits && self.take_now(class) {
                    return self.enter(class, How::Direct, true);
                }
                let round = nanos(self.settings.round).max(1);
                let closes = Timestamp::from_nanos((self.now.as_nanos() / round + 1).saturating_mul(round));
                self.lot(class, closes, RoomOrder::Shuffled)
            }
            RoomMethod::Wait => self.book(class, self.now, 0),
            RoomMethod::Off | RoomMethod::Fifo | RoomMethod::Event => {
                if self.take_now(class) {
                    self.enter(class, How::Direct, true)
                } else {
                    self.book(class, self.now, 0)
                }
            }
        }
    }

    /// A visitor with a promise whose signature holds.
    pub fn come_back(&mut self, now: Timestamp, class: ClassId, promise: &Promise) -> Answer {
        self.advance(now);
        let class = self.known(class);
        if !self.concerns(class) {
            return self.enter(class, How::Unconcerned, false);
        }
        if promise.class != class {
            self.count(class, RoomCount::Forged);
            return self.ask(now, class);
        }
        let at = match promise.kind {
            Kind::Place => promise.at,
            Kind::Lot => match self.draws.lot(promise.at, promise.number, self.secrets[1]) {
                Lot::Pending(_) => return self.early(promise),
                Lot::Unknown => return self.comes_late(class, promise),
                Lot::Drawn(slot, offset) => {
                    let at = whole_ms(self.table.within(slot, offset));
                    if self.opens(slot) > self.now {
                        // Told once more whenever it is asked: the same lot, the same time.
                        return self.wait(Promise { kind: Kind::Place, at, ..*promise });
                    }
                    at
                }
            },
        };
        let slot = self.table.slot_of(at);
        if self.opens(slot) > self.now {
            return self.early(promise);
        }
        let ends = self.table.begin(slot + 1);
        if self.now >= ends + self.settings.clock_tolerance + self.settings.grace {
            return self.comes_late(class, &Promise { at, ..*promise });
        }
        if !self.replay.is_new(slot, self.places(slot.max(self.table.present())), promise.number) {
            return self.seems_used(class, slot);
        }
        self.returned(slot, class);
        self.count(class, RoomCount::Kept);
        let punctual = self.now < ends + self.settings.clock_tolerance;
        let how = if punctual { How::Kept } else { How::Late };
        self.enter_owed(class, how, promise.renewed > 0)
    }

    /// Somebody who was let in has waited in the short queue as long as he may, or was refused there: a new time, ahead
    /// of all newcomers for one who had a promise.
    pub fn missed(&mut self, now: Timestamp, class: ClassId, promise: Option<&Promise>) -> Answer {
        self.advance(now);
        let class = self.known(class);
        let Some(promise) = promise else { return self.book(class, self.now, 0) };
        self.count(class, RoomCount::Missed);
        let work = Work::from(promise.work).max(1);
        let renewed = promise.renewed.saturating_add(1);
        match self.table.take_owed(work, self.settings.extra, self.table.present()) {
            Some(slot) => self.promise_in(class, slot, 0, work, promise.since, renewed),
            None => self.book(class, promise.since, renewed),
        }
    }

    /// How things stand for somebody who waits. Changes nothing.
    #[must_use]
    pub fn look(&self, now: Timestamp, promise: &Promise) -> Estimate {
        let now = now.max(self.now);
        let waited = now.since(promise.since);
        let lot = match promise.kind {
            Kind::Place => None,
            Kind::Lot => match self.draws.lot(promise.at, promise.number, self.secrets[1]) {
                Lot::Pending(closes) => {
                    let at = closes.min(now + LOOK_AGAIN);
                    return Estimate { at, ahead: self.draws.people(), behind: 0, waited, early: true };
                }
                Lot::Drawn(slot, offset) => Some(whole_ms(self.table.within(slot, offset))),
                Lot::Unknown => Some(now),
            },
        };
        let at = lot.unwrap_or(promise.at);
        let slot = self.table.slot_of(at);
        let ahead = self.table.ahead(slot);
        let behind = self.table.ahead(u64::MAX) - self.table.ahead(slot.saturating_add(1));
        Estimate { at, ahead, behind, waited, early: self.opens(slot) > now }
    }

    /// A request with a pass whose signature holds.
    pub fn pass(&mut self, now: Timestamp, class: ClassId, pass: &Pass) -> PassAnswer {
        self.advance(now);
        let class = self.known(class);
        let Some(SessionSettings { idle, total }) = self.settings.sessions else { return PassAnswer::Over };
        let last = pass.begun + total;
        if self.now >= pass.until.min(last) || self.sessions.is_revoked(pass.number) {
            return PassAnswer::Over;
        }
        self.sessions.used(self.cost(class));
        self.count(class, RoomCount::Passed);
        let until = whole_ms((self.now + idle).min(last));
        let renewed =
            (pass.until.since(self.now) < idle / 2 && until > pass.until).then_some(Pass { until, ..*pass });
        PassAnswer::Enter { renewed }
    }

    /// The application says that a pass is over.
    pub fn revoke(&mut self, now: Timestamp, pass: &Pass) {
        self.advance(now);
        self.sessions.revoke(self.now, pass.number, pass.until);
    }

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
            self.table.advance(self.now);
            for block in &mut self.blocks {
                if block.is_some_and(|block| block.slot <= to) {
                    *block = None;
                }
            }
            self.issued_work_max = self.issued_work_max.max(self.issued_work);
            self.issued_work = 0;
            self.set_budget(false);
        }
        self.draw();
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
        let is_closed = self.settings.method == RoomMethod::Closed;
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
            overdue: self.is_overdue(now.max(self.now)),
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

    /// Panics if the room contradicts itself.
    pub fn check_invariants(&self) {
        self.table.check_invariants();
    }

    /// Memory that depends on the horizon and the classes; sized once and at changes of knobs.
    fn make(&mut self) {
        let classes = self.settings.classes.len().max(1);
        self.costs.resize(classes, UNIT);
        self.blocks = vec![None; classes];
        if self.counts.len() < classes {
            self.counts.resize(classes, [0; ALL_COUNTS.len()]);
        }
        self.no_shows = NoShows::new(classes, self.table.horizon(), self.behind());
        self.replay = Replay::new(self.behind() + self.ahead() + 2);
    }

    /// Makes room for those who may come from now on: once the capacity is known, which says how many.
    fn open_filters(&mut self) {
        let present = self.table.present();
        for slot in present..=present + self.ahead() {
            self.replay.open(slot, self.places(slot));
        }
    }

    /// Slots after its own in which a promise may be used.
    fn behind(&self) -> u64 {
        let late = nanos(self.settings.grace + self.settings.clock_tolerance);
        late.div_ceil(nanos(self.table.length())).min(super::SLOTS_MAX)
    }

    /// Slots before its own in which a promise may be used.
    fn ahead(&self) -> u64 {
        nanos(self.settings.clock_tolerance).div_ceil(nanos(self.table.length())).min(1000) + 1
    }

    /// People there may be in a slot.
    fn places(&self, slot: u64) -> u64 {
        let people = self.table.ahead(slot + 1) - self.table.ahead(slot);
        let least = self.costs.iter().min().copied().unwrap_or(UNIT).max(1);
        people.max(self.table.budget() / least)
    }

    fn slot_begins(&mut self, slot: u64) {
        let length_s = self.table.length().as_secs_f64();
        let behind = self.behind();
        let counts = &mut self.counts;
        self.no_shows.advance(slot, behind, length_s, |class, people| {
            if let Some(counts) = counts.get_mut(class) {
                counts[RoomCount::NoShow as usize] += u64::from(people);
            }
        });
        self.sessions.step(length_s);
        let opens = slot + self.ahead();
        let places = self.places(opens);
        self.replay.open(opens, places);
        let epoch = nanos(CREDIT_EPOCH);
        let (was, is) =
            (self.table.begin(slot - 1).as_nanos() / epoch, self.table.begin(slot).as_nanos() / epoch);
        if is != was {
            self.late.open(is, LATE_PLACES);
        }
    }

    /// Draws the round whose time has come.
    fn draw(&mut self) {
        let now = self.now;
        let Some(Round { closes, work, people, .. }) = self.draws.pending().map(|round| *round) else {
            return;
        };
        let budget = self.table.budget();
        if closes > now || budget == 0 {
            return;
        }
        let ahead = match self.table.next(0) {
            Some(1) if self.table.waiting() == 0 => 0,
            ahead => ahead.unwrap_or(self.table.horizon()),
        };
        let slot = self.table.present() + ahead;
        if let Some(round) = self.draws.pending() {
            round.drawn = Some(super::draws::Drawn { slot, budget });
        }
        self.table.fill(slot, work, people);
    }

    fn concerns(&self, class: ClassId) -> bool {
        self.settings.is_on()
            && self.settings.classes.get(class.index()).is_some_and(|class| class.queues)
            && (self.knows_capacity()
                || matches!(self.settings.method, RoomMethod::Wait | RoomMethod::Closed | RoomMethod::Event)
                || self.settings.role != RoomRole::Both)
    }

    const fn knows_capacity(&self) -> bool {
        self.capacity.per_s.is_some() || self.capacity.pace_per_s.is_some()
    }

    /// The class of that id, or the default class if there is no such class.
    fn known(&self, class: ClassId) -> ClassId {
        if class.index() < self.settings.classes.len() { class } else { ClassId(0) }
    }

    fn lane(&self, class: ClassId) -> usize {
        self.lanes.get(class.index()).copied().unwrap_or(0)
    }

    fn cost(&self, class: ClassId) -> Work {
        self.costs.get(class.index()).copied().unwrap_or(UNIT)
    }

    /// What a session does after its first request.
    fn follow(&self) -> Work {
        if self.settings.sessions.is_none() {
            return 0;
        }
        if self.settings.role == RoomRole::Generate { self.reported_follow } else { self.sessions.follow() }
    }

    /// When a promise of a slot may be used.
    fn opens(&self, slot: u64) -> Timestamp {
        self.table.begin(slot) - self.settings.clock_tolerance
    }

    fn take_now(&mut self, class: ClassId) -> bool {
        if self.settings.role == RoomRole::Generate {
            return false;
        }
        let work = self.cost(class) + self.follow();
        self.table.take_now(self.now, self.lane(class), work)
    }

    /// A newcomer's place, or one at the end of the line.
    fn book(&mut self, class: ClassId, since: Timestamp, renewed: u8) -> Answer {
        let share = self.no_shows.share(class).min(self.settings.overbook_max);
        let work = expected(self.cost(class) + self.follow(), share);
        let Some(block) = self.place_of(class, work) else {
            self.count(class, RoomCount::HorizonFull);
            return Answer::Refuse(Refusal::HorizonFull);
        };
        self.promise_in(class, block.slot, block.offset, block.work, since, renewed)
    }

    /// One place, from the block at hand or from a new one.
    fn place_of(&mut self, class: ClassId, work: Work) -> Option<Block> {
        let lane = self.lane(class);
        if self.settings.block <= 1 {
            return self.table.take(lane, work, 1);
        }
        let kept = self.blocks[class.index()].take().filter(|block| block.places > 0);
        let mut block = match kept {
            Some(block) => block,
            None => self.table.take(lane, work, self.settings.block)?,
        };
        let place = Block { places: 1, ..block };
        block.places -= 1;
        let step = u128::from(block.work) * 1_000_000 / u128::from(self.table.budget().max(1));
        block.offset = block.offset.saturating_add(u32::try_from(step).unwrap_or(999_999)).min(999_999);
        self.blocks[class.index()] = Some(block);
        Some(place)
    }

    fn promise_in(
        &mut self,
        class: ClassId,
        slot: u64,
        offset: u32,
        work: Work,
        since: Timestamp,
        renewed: u8,
    ) -> Answer {
        self.table.note(slot);
        self.no_shows.promised(slot, class, 1);
        self.issued_work = self.issued_work.saturating_add(work);
        if renewed == 0 {
            self.count(class, RoomCount::Promised);
        }
        let promise = Promise {
            kind: Kind::Place,
            class,
            since: whole_ms(since),
            at: whole_ms(self.table.within(slot, offset)).max(self.table.begin(slot)),
            work: u32::try_from(work).unwrap_or(u32::MAX),
            renewed,
            number: self.number(),
        };
        self.wait(promise)
    }

    fn lot(&mut self, class: ClassId, closes: Timestamp, order: RoomOrder) -> Answer {
        let share = self.no_shows.share(class).min(self.settings.overbook_max);
        let work = expected(self.cost(class) + self.follow(), share);
        // Between a draw that could not be made for want of capacity and the next, lots go on into the same round.
        let closes = whole_ms(closes);
        let drawn = self.number();
        let round = self.draws.open(closes, order);
        let (number, at) = match round.order {
            RoomOrder::InOrder => (round.work, round.key),
            RoomOrder::Shuffled => (drawn, round.key),
        };
        round.work = round.work.saturating_add(work);
        round.people += 1;
        self.count(class, RoomCount::Promised);
        self.wait(Promise {
            kind: Kind::Lot,
            class,
            since: whole_ms(self.now),
            at,
            work: u32::try_from(work).unwrap_or(u32::MAX),
            renewed: 0,
            number,
        })
    }

    fn early(&mut self, promise: &Promise) -> Answer {
        self.count(promise.class, RoomCount::Early);
        self.wait(*promise)
    }

    fn wait(&self, promise: Promise) -> Answer {
        Answer::Wait(Place { promise, estimate: self.look(self.now, &promise) })
    }

    /// After the grace: a new place, as far ahead of newcomers as he has waited already.
    fn comes_late(&mut self, class: ClassId, promise: &Promise) -> Answer {
        let epoch = nanos(CREDIT_EPOCH);
        let (was, is) = (promise.at.as_nanos() / epoch, self.now.as_nanos() / epoch);
        let is_known = was + CREDIT_EPOCHS > is;
        if !is_known || !self.late.is_new(was, LATE_PLACES, promise.number) {
            return self.ask(self.now, class);
        }
        self.count(class, RoomCount::Late);
        if matches!(self.settings.method, RoomMethod::Closed | RoomMethod::Wait) {
            // Late is not a promise any more.
            return self.ask(self.now, class);
        }
        if self.take_now(class) {
            return self.enter(class, How::Late, true);
        }
        let credit = nanos(promise.at.since(promise.since)) / nanos(self.table.length());
        let ahead = self.table.next(self.lane(class)).unwrap_or(self.table.horizon());
        let target = ahead.saturating_sub(credit).max(1);
        let share = self.no_shows.share(class).min(self.settings.overbook_max);
        let work = expected(self.cost(class) + self.follow(), share);
        if target < ahead
            && let Some(slot) =
                self.table.take_owed(work, self.settings.extra, self.table.present() + target - 1)
        {
            return self.promise_in(class, slot, 0, work, promise.since, promise.renewed);
        }
        self.book(class, promise.since, promise.renewed)
    }

    /// A promise that seems to have been used: a few are let in behind everybody, since the filter errs now and then; more
    /// of them are newcomers.
    fn seems_used(&mut self, class: ClassId, slot: u64) -> Answer {
        self.count(class, RoomCount::Replayed);
        let most =
            u32::try_from(self.places(slot.max(self.table.present())) / 100).unwrap_or(u32::MAX).max(1);
        if !self.replay.lets_again(slot, most) {
            return self.ask(self.now, class);
        }
        Answer::Enter(Entry { how: How::Replayed, hold: self.settings.hold, priority: Some(0), pass: None })
    }

    fn returned(&mut self, slot: u64, class: ClassId) {
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

    fn enter(&mut self, class: ClassId, how: How, counts: bool) -> Answer {
        if counts && how == How::Direct {
            self.count(class, RoomCount::Direct);
        }
        if how == How::Unconcerned {
            let hold = self.settings.hold;
            return Answer::Enter(Entry { how, hold, priority: None, pass: None });
        }
        self.enter_owed(class, how, false)
    }

    fn enter_owed(&mut self, class: ClassId, how: How, owed: bool) -> Answer {
        let pass = self.settings.sessions.map(|sessions| {
            self.sessions.began(self.follow());
            let begun = whole_ms(self.now);
            let until = whole_ms(begun + sessions.idle.min(sessions.total));
            Pass { class, begun, until, number: self.number() }
        });
        let priority = owed.then_some(OWED_PRIORITY);
        Answer::Enter(Entry { how, hold: self.settings.hold, priority, pass })
    }

    fn count_many(&mut self, class: ClassId, what: RoomCount, count: u64) {
        if let Some(counts) = self.counts.get_mut(class.index()) {
            counts[what as usize] += count;
        }
    }

    fn number(&mut self) -> u64 {
        self.issued += 1;
        mix(self.secrets[0].wrapping_add(self.issued.wrapping_mul(0x9E37_79B9_7F4A_7C15)))
    }

    fn is_overdue(&self, now: Timestamp) -> bool {
        self.settings.role == RoomRole::Generate
            && self.reported.is_none_or(|at| now.since(at) >= self.settings.report_timeout)
    }

    /// Capacity that may be counted on, work units a second.
    fn counted_on(&self) -> Option<f64> {
        // While the capacity is being searched for, what may come now is more than what can be promised.
        let told = self.capacity.per_s.or(self.capacity.pace_per_s.map(|pace| pace / 2.0));
        let lost = self.settings.role == RoomRole::Generate
            && self.reported.is_none_or(|at| {
                self.now.since(at) >= self.settings.report_timeout + self.settings.report_keep
            });
        if !lost {
            return told;
        }
        self.settings.floor.or_else(|| told.map(|per_s| per_s / 2.0))
    }

    fn set_budget(&mut self, whatever: bool) {
        let length_s = self.table.length().as_secs_f64();
        let Some(capacity) = self.counted_on() else {
            self.table.set_budget(0, 0);
            return;
        };
        let excess = self.sessions.excess_per_s() + self.reported_excess;
        let newcomers = (capacity - excess).max(capacity * NEWCOMERS_MIN);
        let budget = thousandths(newcomers * self.settings.fill * length_s).max(1);
        let pace = self.capacity.pace_per_s.unwrap_or(capacity * self.settings.fill);
        let pace = if self.capacity.per_s.is_some() && self.table.waiting() > 0 {
            pace.min(capacity * FEED)
        } else {
            pace
        };
        let present = thousandths((pace - excess).max(pace * NEWCOMERS_MIN) * length_s).max(1);
        let was = self.table.budget();
        let moved = budget.abs_diff(was);
        let budget = if whatever || was == 0 || units(moved) > units(was) * STEP { budget } else { was };
        self.table.set_budget(budget, present);
        if was == 0 {
            self.open_filters();
        }
    }
}

/// Work to be expected of somebody who does not come with probability `share`.
fn expected(work: Work, share: f64) -> Work {
    thousandths(units(work) * (1.0 - share.clamp(0.0, 0.99))).max(1)
}

pub(super) const fn whole_ms(at: Timestamp) -> Timestamp {
    Timestamp::from_nanos(at.as_nanos() / 1_000_000 * 1_000_000)
}

pub(super) fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

#[expect(clippy::cast_precision_loss, reason = "work for people to look at, or for a ratio")]
fn units(work: Work) -> f64 {
    work as f64 / 1e3
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "not negative; `as` saturates")]
fn thousandths(units: f64) -> Work {
    (units * 1e3).round() as Work
}
