//! The room: who asks, who comes back and who has a pass, and what each is answered.

use std::{ops::Range, time::Duration};

use super::{
    ALL_COUNTS, Again, Answer, BYPASS_MAX, Block, Bypass, Capacity, Entry, Estimate, How, Kind, LANES_MAX,
    Pass, PassAnswer, Place, Promise, Report, Returned, RoomCount, RoomSettings, SessionSettings, SlotTable,
    Work,
    between::{Learned, Untold},
    calls::Calls,
    checks::Check,
    draws::{Draws, Lot},
    no_shows::NoShows,
    pass_lasts,
    replay::Replay,
    report::RETURNED_MAX,
    sessions::Sessions,
    spent::Spent,
};
pub(super) use crate::time::nanos;
use crate::{
    ClassId, Refusal, Timestamp,
    knobs::{RoomMethod, RoomOrder, RoomRole},
};

/// Thousandths of a work unit that a request takes of which nothing is known.
pub(super) const UNIT: Work = 1000;

/// Of those whose promise seems to have been used, a hundredth of the places is let in; so many hundredths are one of them.
pub(super) const PERSON: u64 = 100;

/// Those who were given a new time go before all but the top priority.
const OWED_PRIORITY: u8 = 6;

/// Whose promise seems to have been used is to come again after this long: a second tab has the pass of the first by then.
const AGAIN: Duration = Duration::from_secs(1);

/// The waiting room of one application.
///
/// Time never runs backwards between calls; a `now` that does is taken for the last one. Every call is O(1) amortised
/// or O(log horizon), allocates nothing, and takes `now` first.
///
/// ```
/// use tidegate_control::{
///     ClassId, Timestamp,
///     capacity::Capacity,
///     knobs::{Knob, Scope, Value, Values},
///     waiting_room::{Answer, How, Room, RoomSettings},
/// };
///
/// let mut application = Values::defaults(Scope::Application);
/// application.set(Knob::ROOM_METHOD, Value::Choice("fifo")).unwrap();
/// application.set(Knob::ROOM_FILL, Value::Ratio(1.0)).unwrap();
/// let settings = RoomSettings::from_values(&application, &[&Values::defaults(Scope::Class)]);
///
/// let start = Timestamp::from_nanos(1_000_000_000_000);
/// let mut room = Room::new(&settings, [1, 2], start);
/// // Two work units a second: two go on at once, the next two are promised the next second, and so on.
/// room.observe(start, Capacity { per_s: Some(2.0), pace: None }, std::iter::empty());
/// let mut seconds = Vec::new();
/// for _ in 0..6 {
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
    pub(super) lanes: Vec<usize>,
    pub(super) secrets: [u64; 2],
    pub(super) now: Timestamp,
    pub(super) capacity: Capacity,
    /// Whether admission has told it what it knows.
    pub(super) is_told: bool,
    /// Work units of a slot for which the budget was set.
    pub(super) wanted: f64,
    /// What a request of each class takes.
    pub(super) costs: Vec<Work>,
    pub(super) table: SlotTable,
    pub(super) calls: Calls,
    /// Places taken and not yet given, by class.
    pub(super) blocks: Vec<Option<Block>>,
    pub(super) no_shows: NoShows,
    pub(super) replay: Replay,
    pub(super) spent: Spent,
    /// Hundredths of a person: used promises that may be let in all the same.
    pub(super) replayed: u64,
    /// Promises for earlier may have been used while slots and their filters were others.
    pub(super) laid_anew: Timestamp,
    pub(super) draws: Draws,
    pub(super) sessions: Sessions,
    pub(super) counts: Vec<[u64; ALL_COUNTS.len()]>,
    pub(super) issued: u64,
    /// When newcomers were made to wait last.
    pub(super) held_back: Option<Timestamp>,
    /// Work promised in the present slot to classes of each lane, and [`issued_work_lately`](Self::issued_work_lately) at its
    /// begin.
    pub(super) issued_work: [Work; LANES_MAX],
    pub(super) issued_work_lately: [Work; LANES_MAX],
    /// Role `generate`: the checks that report, and what they say together of sessions.
    pub(super) checks: Vec<Check>,
    pub(super) reported_excess: f64,
    pub(super) reported_follow: Work,
    pub(super) returned: Vec<Returned>,
    /// Role `check`: promises kept and missed since the last report, by class, and the new times given for these.
    pub(super) kept: Vec<u64>,
    pub(super) missed: Vec<u64>,
    pub(super) again: Vec<Again>,
    /// Role `check`: the last report, until its answer is heard.
    pub(super) unanswered: Option<Report>,
    /// Role `check`: slots with room for more of these, and how much.
    pub(super) owed: Vec<(u64, Work)>,
    /// What checks tell each other, and which list of it this is.
    pub(super) learned: Learned,
    pub(super) untold: Untold,
    pub(super) lists: u64,
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
            is_told: false,
            wanted: 0.0,
            costs: Vec::new(),
            no_shows: NoShows::new(settings.classes.len(), table.horizon(), 0),
            replay: Replay::new(1),
            spent: Spent::new(),
            replayed: PERSON,
            laid_anew: Timestamp::EPOCH,
            draws: Draws::default(),
            sessions: Sessions::default(),
            counts: Vec::new(),
            blocks: Vec::new(),
            issued: 0,
            held_back: None,
            issued_work: [0; LANES_MAX],
            issued_work_lately: [0; LANES_MAX],
            checks: Vec::new(),
            reported_excess: 0.0,
            reported_follow: 0,
            returned: Vec::with_capacity(RETURNED_MAX),
            kept: Vec::new(),
            missed: Vec::new(),
            again: Vec::with_capacity(RETURNED_MAX),
            unanswered: None,
            owed: Vec::new(),
            learned: Learned::default(),
            untold: Untold::default(),
            lists: 0,
            table,
            calls: Calls::default(),
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
        let (was_behind, was_ahead) = (self.behind(), self.ahead());
        let old = std::mem::replace(&mut self.settings, settings.clone());
        if old.role != settings.role {
            (self.checks, self.reported_excess) = (Vec::new(), 0.0);
            self.forget_others();
        }
        if !old.weights().eq(settings.weights()) {
            self.expect_costs();
        }
        // Told of slots as they were.
        self.owed.clear();
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
            let old_lanes = std::mem::replace(&mut self.lanes, lanes);
            // Also by who was called before his time.
            self.laid_anew = self.laid_anew.max(was.begin(was.present() + was_ahead + 1));
            self.table = SlotTable::new(settings.slot, settings.horizon, &shares, self.now);
            self.table.go_on_with(was.over());
            self.draws.lay_into(&self.table, was.length());
            self.make();
            let classes = self.were(&old, &old_lanes);
            for (slot, _, people) in was.iter() {
                let at = self.table.slot_of(was.begin(slot));
                let made = no_shows.of(slot).map(|(made, _)| made);
                self.lay(at, people, was.lanes(slot), made, &classes);
            }
            self.remember(&no_shows, no_shows.known(was.present(), was_behind), |slot| was.begin(slot));
            for (place, (came, absent)) in no_shows.sums().enumerate() {
                self.no_shows.put_sums(place, came, absent);
            }
        } else if self.ahead() != was_ahead {
            // Filters reach as far as somebody is called from.
            self.laid_anew = self.laid_anew.max(self.table.begin(self.table.present() + was_ahead + 1));
            self.replay = Replay::new(self.behind() + self.ahead() + 2);
            self.open_filters();
        }
        self.set_doors();
        self.set_budget(true);
        if !same_table {
            self.table.close_line();
        }
        self.draw();
    }

    /// A visitor without promise or pass.
    pub fn ask(&mut self, now: Timestamp, class: ClassId) -> Answer {
        self.advance(now);
        let class = self.known(class);
        if !self.concerns(class) {
            return self.enter(class, How::Unconcerned, false);
        }
        if self.settings.role == RoomRole::Check {
            return Answer::Elsewhere { with_promise: false };
        }
        let doors = self.settings.doors_of(Some(class));
        match doors.method {
            RoomMethod::Closed => {
                self.count(class, RoomCount::Closed);
                Answer::Refuse(Refusal::RoomClosed)
            }
            RoomMethod::Event if doors.opens_at.is_none_or(|opens| self.now < opens) => {
                self.lot(class, doors.opens_at.unwrap_or(Timestamp::FAR_FUTURE), doors.order)
            }
            _ if self.goes_straight_in(class) => self.enter(class, How::Direct, true),
            RoomMethod::Random if self.counted_on().is_some() => {
                self.held_back = Some(self.now);
                self.lot(class, self.round_closes(doors.round, self.now), RoomOrder::Shuffled)
            }
            // Nobody is given a lot that may never be drawn.
            RoomMethod::Off
            | RoomMethod::Fifo
            | RoomMethod::Event
            | RoomMethod::Wait
            | RoomMethod::Random => self.book(class, self.now, 0),
        }
    }

    /// A browser that asks in advance for what its visitor may never look at, without promise or pass: it is let in as a visitor
    /// would be who need not wait, and else takes no place.
    pub fn ask_in_advance(&mut self, now: Timestamp, class: ClassId) -> Answer {
        self.advance(now);
        let class = self.known(class);
        if !self.concerns(class) {
            return self.enter(class, How::Unconcerned, false);
        }
        if self.goes_straight_in(class) {
            return self.enter(class, How::Direct, true);
        }
        Answer::Refuse(Refusal::Prefetch)
    }

    /// A visitor with a promise whose signature holds.
    pub fn come_back(&mut self, now: Timestamp, class: ClassId, promise: &Promise) -> Answer {
        self.advance(now);
        let class = self.known(class);
        if !self.concerns(class) {
            self.goes_on(now, promise);
            return self.enter(class, How::Unconcerned, false);
        }
        if promise.class != class {
            self.count(class, RoomCount::Forged);
            return self.ask(now, class);
        }
        let at = match promise.kind {
            Kind::Place => promise.at,
            Kind::Lot => match self.draws.lot(promise.at, promise.number, self.secrets[1]) {
                Lot::Pending(..) => return self.early(promise),
                // Nobody has waited for longer than until now.
                Lot::Unknown => {
                    return self.comes_late(class, &Promise { at: promise.at.min(self.now), ..*promise });
                }
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
        let is_early = self.opens(slot) > self.now;
        if is_early && !self.is_called(self.now, slot, class, promise.work) {
            return self.early(promise);
        }
        let ends = self.table.begin(slot + 1);
        if self.now >= ends + self.settings.clock_tolerance + self.settings.grace {
            return self.comes_late(class, &Promise { at, ..*promise });
        }
        if self.settings.role == RoomRole::Generate {
            // His time has come: he is to go where it is checked.
            return self.wait(Promise { kind: Kind::Place, at, ..*promise });
        }
        if self.was_used_before(at, promise)
            || !self.replay.is_new(slot, self.filter_places(slot.max(self.table.present())), promise.number)
        {
            // Where there is no limit nothing is gained by using one twice, and filters are small.
            return match self.is_limited() {
                true => self.seems_used(class, promise),
                false => self.enter_owed(class, How::Unconcerned, false),
            };
        }
        self.note_used(slot, promise.number);
        self.returned(slot, class);
        if is_early {
            self.call(slot, class, promise.work);
        }
        let punctual = self.now < ends + self.settings.clock_tolerance;
        let how = if punctual { How::Kept } else { How::Late };
        self.enter_owed(class, how, promise.renewed > 0)
    }

    /// Somebody who was let in as [`How::Kept`] or [`How::Late`] has got through the short queue to a server: his promise is kept.
    pub fn served(&mut self, now: Timestamp, class: ClassId) {
        self.advance(now);
        let class = self.known(class);
        self.count(class, RoomCount::Kept);
        if self.settings.role == RoomRole::Check
            && let Some(kept) = self.kept.get_mut(class.index())
        {
            *kept = kept.saturating_add(1);
        }
    }

    /// Somebody who was let in, and not by a pass, has waited in the short queue as long as he may, or was refused there, or no
    /// server could be reached: a new time, ahead of all newcomers for one who had a promise.
    pub fn missed(&mut self, now: Timestamp, class: ClassId, promise: Option<&Promise>) -> Answer {
        self.advance(now);
        let class = self.known(class);
        let is_check = self.settings.role == RoomRole::Check;
        if promise.is_none() && !is_check && !self.concerns(class) {
            // Who is no concern of the room is refused like everybody without one.
            return self.enter(class, How::Unconcerned, false);
        }
        if self.settings.sessions.is_some() {
            self.sessions.did_not_begin(self.follow());
        }
        if promise.is_none() && !is_check {
            return self.book(class, self.now, 0);
        }
        if promise.is_some() {
            self.count(class, RoomCount::Missed);
            if is_check && let Some(missed) = self.missed.get_mut(class.index()) {
                *missed = missed.saturating_add(1);
            }
        }
        let (work, since, renewed) = match promise {
            Some(promise) => {
                (Work::from(promise.work).max(1), promise.since, promise.renewed.saturating_add(1))
            }
            None => (self.cost(class), self.now, 1),
        };
        let told = if is_check { self.take_where_told(work) } else { None };
        match told.or_else(|| self.table.take_again(work, self.owed_most())) {
            Some(slot) => {
                if is_check {
                    self.note_again(Again { slot: self.table.begin(slot), class, people: 1, work });
                }
                self.promise_in(class, slot, 0, work, since, renewed)
            }
            None if is_check => {
                self.count(class, RoomCount::HorizonFull);
                Answer::Refuse(Refusal::HorizonFull)
            }
            None => self.book(class, since, renewed),
        }
    }

    /// A request with a pass has waited in the short queue as long as it may, or was refused there, or no server could be reached:
    /// it is to come again ahead of all newcomers. Nothing is promised, since its pass lets it in whenever it comes.
    pub fn missed_with_pass(&mut self, now: Timestamp, class: ClassId) -> Answer {
        self.advance(now);
        let class = self.known(class);
        if !self.concerns(class) {
            return self.enter(class, How::Unconcerned, false);
        }
        let work = self.cost(class);
        self.sessions.was_not_done(work);
        let next = self.table.present() + 1;
        let slot = self.table.take_again(work, self.owed_most()).unwrap_or(next);
        let promise = self.unnoted(class, slot, 0, work, self.now, 0);
        self.wait(promise)
    }

    /// Somebody who was let in as [`How::Replayed`] was refused in the short queue: it is no missed promise, and gains
    /// him nothing.
    pub fn not_again(&mut self, now: Timestamp, class: ClassId, promise: &Promise) -> Answer {
        self.advance(now);
        let class = self.known(class);
        match (self.settings.sessions, self.settings.role) {
            (Some(_), _) => self.again(promise),
            (None, RoomRole::Check) => Answer::Elsewhere { with_promise: false },
            (None, RoomRole::Both | RoomRole::Generate) => self.book(class, self.now, 0),
        }
    }

    /// A request with a pass whose signature holds.
    pub fn pass(&mut self, now: Timestamp, class: ClassId, pass: &Pass) -> PassAnswer {
        self.advance(now);
        let class = self.known(class);
        let Some(SessionSettings { idle, total }) = self.settings.sessions else { return PassAnswer::Over };
        let last = pass.begun + total;
        let is_over = self.now >= pass.until.min(last) || self.sessions.is_revoked(pass.number);
        if is_over || !self.settings.holds_for(self.known(pass.class), class) {
            return PassAnswer::Over;
        }
        self.sessions.used(self.cost(class));
        self.count(class, RoomCount::Passed);
        let until = whole_ms((self.now + pass_lasts(idle)).min(last));
        let is_due = pass.until < self.now + idle;
        let renewed = (is_due && until > pass.until).then_some(Pass { until, ..*pass });
        PassAnswer::Enter { renewed }
    }

    /// Whether a request of a class may pass the room by, with a token for that whose signature holds. Whatever the
    /// method, it costs no place.
    pub fn bypass(&mut self, now: Timestamp, class: ClassId, bypass: &Bypass) -> bool {
        self.advance(now);
        let class = self.known(class);
        let is_ours = bypass.class == class && bypass.until.since(bypass.issued) <= BYPASS_MAX;
        if !is_ours {
            self.count(class, RoomCount::Forged);
            return false;
        }
        let holds = self.now < bypass.until;
        if holds {
            self.count(class, RoomCount::Bypassed);
        }
        holds
    }

    /// Panics if the room contradicts itself.
    pub fn check_invariants(&self) {
        self.table.check_invariants();
    }

    /// Memory that depends on the horizon and the classes; sized once and at changes of knobs.
    fn make(&mut self) {
        let classes = self.settings.classes.len().max(1);
        if self.costs.len() != classes {
            self.expect_costs();
        }
        self.kept.resize(classes, 0);
        self.missed.resize(classes, 0);
        self.blocks = vec![None; classes];
        if self.counts.len() < classes {
            self.counts.resize(classes, [0; ALL_COUNTS.len()]);
        }
        self.no_shows = NoShows::new(classes, self.table.horizon(), self.behind());
        self.replay = Replay::new(self.behind() + self.ahead() + 2);
    }

    /// What requests take until admission has told what they cost, if it does.
    fn expect_costs(&mut self) {
        let default = self.settings.weights().next().unwrap_or(1).max(1);
        self.costs = self.settings.weights().map(|weight| (UNIT * weight / default).max(1)).collect();
        self.costs.resize(self.settings.classes.len().max(1), UNIT);
    }

    /// Goes on with what is known of promises in slots that lay otherwise and begin as `begin` says.
    fn remember(&mut self, of: &NoShows, slots: Range<u64>, begin: impl Fn(u64) -> Timestamp) {
        let is_known = |slot: &u64| of.of(*slot).any(|(made, _)| made > 0);
        let last =
            slots.clone().filter(is_known).map(|slot| self.table.slot_of(begin(slot))).max().unwrap_or(0);
        // Those promised further ahead than is promised now are still to come.
        let ahead = self.table.horizon().max(last.saturating_sub(self.table.present()));
        let behind = self.behind();
        self.no_shows = NoShows::new(self.settings.classes.len().max(1), ahead, behind);
        let known = self.no_shows.known(self.table.present(), behind);
        for slot in slots {
            let at = self.table.slot_of(begin(slot));
            for (place, (made, unseen)) in of.of(slot).enumerate() {
                if known.contains(&at) {
                    self.no_shows.put(at, place, made, unseen);
                } else if let Some(counts) = self.counts.get_mut(place) {
                    // Too late by now.
                    counts[RoomCount::NoShow as usize] += u64::from(unseen);
                }
            }
        }
    }

    /// Whether people of a class are held, or would be if they were more than there is room for.
    pub(super) fn concerns(&self, class: ClassId) -> bool {
        self.settings.is_on()
            && self.settings.classes.get(class.index()).is_some_and(|class| class.queues)
            && (self.holds_everybody(class) || self.is_limited())
    }

    /// Whether doors let in nobody who was not promised it, whatever room there is.
    pub(super) fn holds_everybody(&self, class: ClassId) -> bool {
        let doors = self.settings.doors_of(Some(class));
        match doors.method {
            RoomMethod::Wait | RoomMethod::Closed => true,
            RoomMethod::Event => doors.opens_at.is_none_or(|opens| self.now < opens),
            RoomMethod::Off | RoomMethod::Fifo | RoomMethod::Random => false,
        }
    }

    /// Whether there is a capacity within which places are given. Times that are given elsewhere are kept whatever it is.
    pub(super) const fn is_limited(&self) -> bool {
        self.knows_capacity() || !matches!(self.settings.role, RoomRole::Both)
    }

    /// The class of that id, or the default class if there is no such class.
    pub(super) fn known(&self, class: ClassId) -> ClassId {
        if class.index() < self.settings.classes.len() { class } else { ClassId(0) }
    }

    pub(super) fn lane(&self, class: ClassId) -> usize {
        self.lanes.get(class.index()).copied().unwrap_or(0)
    }

    /// Takes a place of the present slot for a newcomer, where doors are open and nobody waits before whom he would come in.
    fn goes_straight_in(&mut self, class: ClassId) -> bool {
        let doors = self.settings.doors_of(Some(class));
        let is_open = match doors.method {
            RoomMethod::Closed | RoomMethod::Wait => false,
            RoomMethod::Event => doors.opens_at.is_some_and(|opens| self.now >= opens),
            RoomMethod::Random => self.counted_on().is_some() && self.nobody_is_before(class),
            RoomMethod::Off | RoomMethod::Fifo => true,
        };
        is_open && self.take_now(class)
    }

    fn take_now(&mut self, class: ClassId) -> bool {
        let (lane, work) = (self.lane(class), self.cost(class) + self.follow());
        self.lets_newcomers_in(self.now, lane) && self.table.take_now(self.now, lane, work)
    }

    pub(super) fn has_room_now(&self, class: ClassId, now: Timestamp) -> bool {
        let (lane, work) = (self.lane(class), self.cost(class) + self.follow());
        self.lets_newcomers_in(now, lane) && self.table.has_room_now(now, lane, work)
    }

    /// A check has no newcomers, and a generator lets nobody in.
    fn lets_newcomers_in(&self, now: Timestamp, lane: usize) -> bool {
        matches!(self.settings.role, RoomRole::Both) && self.newcomer_may(now, lane)
    }

    fn early(&mut self, promise: &Promise) -> Answer {
        self.count(promise.class, RoomCount::Early);
        self.wait(*promise)
    }

    pub(super) fn wait(&self, promise: Promise) -> Answer {
        Answer::Wait(self.place(promise))
    }

    pub(super) fn place(&self, promise: Promise) -> Place {
        Place { promise, estimate: self.estimate(self.now, &promise) }
    }

    /// After the grace: a new place, as far ahead of newcomers as he has waited already.
    fn comes_late(&mut self, class: ClassId, promise: &Promise) -> Answer {
        let has_credit = !self.is_spent(promise);
        if self.settings.role == RoomRole::Check {
            return Answer::Elsewhere { with_promise: has_credit };
        }
        if !has_credit {
            return self.ask(self.now, class);
        }
        let answer = self.place_of_late(class, promise);
        // Who is refused comes again with it: when doors are open, or a time is left.
        if !matches!(answer, Answer::Refuse(_)) {
            self.spend(promise.at, promise.number);
            self.count(class, RoomCount::Late);
        }
        answer
    }

    fn place_of_late(&mut self, class: ClassId, promise: &Promise) -> Answer {
        if self.holds_everybody(class) {
            // Late is not a promise any more.
            return self.ask(self.now, class);
        }
        if self.take_now(class) {
            // He is promised this very moment.
            self.count(class, RoomCount::Promised);
            return self.enter(class, How::Late, true);
        }
        let credit = nanos(promise.at.since(promise.since)) / nanos(self.table.length());
        let ahead = self.table.next(self.lane(class)).unwrap_or(self.table.horizon());
        let target = ahead.saturating_sub(credit).max(1);
        let work = self.booked(class);
        if target < ahead
            && let Some(slot) =
                self.table.take_owed(work, self.owed_most(), self.table.present() + target - 1)
        {
            return self.promise_in(class, slot, 0, work, promise.since, promise.renewed);
        }
        self.book(class, promise.since, promise.renewed)
    }

    /// A promise that seems to have been used. Where a newcomer would go on now, so does he: he may have left, or got no answer,
    /// before he had his pass. Else a few are let in behind everybody, since the filter errs now and then. More of them come
    /// again in a moment where the first one got a pass, which another tab of that browser has then too; without passes they
    /// are newcomers.
    fn seems_used(&mut self, class: ClassId, promise: &Promise) -> Answer {
        self.count(class, RoomCount::Replayed);
        if self.goes_straight_in(class) {
            return self.enter(class, How::Direct, true);
        }
        if let Some(left) = self.replayed.checked_sub(PERSON) {
            self.replayed = left;
            let hold = self.settings.hold;
            return Answer::Enter(Entry { how: How::Replayed, hold, priority: Some(0), pass: None });
        }
        if self.settings.sessions.is_some() { self.again(promise) } else { self.ask(self.now, class) }
    }

    /// With the same promise, which gives no place a second time.
    fn again(&self, promise: &Promise) -> Answer {
        let estimate = Estimate { at: Some(self.now + AGAIN), ..self.estimate(self.now, promise) };
        Answer::Wait(Place { promise: *promise, estimate })
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
            let until = whole_ms(begun + pass_lasts(sessions.idle).min(sessions.total));
            Pass { class, begun, until, number: self.number() }
        });
        let priority = owed.then_some(OWED_PRIORITY);
        Answer::Enter(Entry { how, hold: self.settings.hold, priority, pass })
    }
}

pub(super) const fn whole_ms(at: Timestamp) -> Timestamp {
    Timestamp::from_nanos(at.as_nanos() / 1_000_000 * 1_000_000)
}
