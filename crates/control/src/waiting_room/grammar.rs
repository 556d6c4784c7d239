//! One grammar of operations on [`Room`], for property tests, fuzzing and simulation.
//!
//! Bytes become operations ([`Op::read`]); a [`Driver`] applies them as visitors would, keeps the promises and passes that
//! are out, and checks after each that the room keeps its word: nobody before his time, nobody turned away at it, nobody
//! twice, no number twice.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use super::{
    Answer, Capacity, ClassRoom, How, Kind, Pass, PassAnswer, Promise, Room, RoomCount, RoomSettings,
    SessionSettings, room::whole_ms,
};
use crate::{
    ClassId, Refusal, Timestamp,
    capacity::Pace,
    knobs::{ClassRoomMethod, RoomMethod, RoomOrder, RoomRole},
};

/// One operation. Positions count modulo what is there; with nothing there, nothing happens.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// Time passes.
    Advance(Duration),
    /// So many visitors come.
    Ask(u16, u8),
    /// One with a promise comes, whenever it is.
    ComeBack(usize),
    /// One comes at the moment he was promised.
    ComeOnTime(usize),
    /// One who was let in is not served within the hold.
    Missed(usize),
    /// One who was let in gets through.
    Served(usize),
    /// A promise that was used comes again.
    Replay(usize),
    /// A request comes with a pass.
    Pass(usize),
    /// A pass is revoked.
    Revoke(usize),
    /// Capacity, work units a second; found, and so many sixteenths more may come now, or given.
    Observe(Option<u16>, Option<u8>),
    /// Knobs change.
    Configure(Box<RoomSettings>),
    /// The process ends and another begins.
    Restart,
}

impl Op {
    /// Reads an operation; `None` at the end of the bytes. Any bytes are operations.
    pub fn read(bytes: &mut impl Iterator<Item = u8>) -> Option<Self> {
        let kind = bytes.next()?;
        let mut next = || bytes.next().unwrap_or(0);
        Some(match kind % 16 {
            0..=3 => Self::Ask(u16::from(next()), next() % 32),
            4 | 5 => Self::Advance(Duration::from_millis(u64::from(next()) * 20)),
            6 | 7 => Self::ComeBack(usize::from(next())),
            8..=10 => Self::ComeOnTime(usize::from(next())),
            11 => match next() % 2 {
                0 => Self::Missed(usize::from(next())),
                _ => Self::Served(usize::from(next())),
            },
            12 => Self::Replay(usize::from(next())),
            13 => match next() % 8 {
                0 => Self::Revoke(usize::from(next())),
                1 => Self::Advance(Duration::from_secs(u64::from(next()))),
                _ => Self::Pass(usize::from(next())),
            },
            14 => Self::Observe(Some(u16::from(next())).filter(|rate| *rate > 0), next().checked_sub(128)),
            _ => match next() % 4 {
                0 => Self::Restart,
                _ => Self::Configure(Box::new(settings(&mut next))),
            },
        })
    }
}

/// Reads settings with one to three classes; any bytes are settings.
pub fn settings(mut next: impl FnMut() -> u8) -> RoomSettings {
    let mut pick = |choices: &[u64]| choices[usize::from(next()) % choices.len()];
    let method = match pick(&[0, 0, 0, 0, 1, 2, 3, 4, 5]) {
        0 => RoomMethod::Fifo,
        1 => RoomMethod::Random,
        2 => RoomMethod::Event,
        3 => RoomMethod::Wait,
        4 => RoomMethod::Closed,
        _ => RoomMethod::Off,
    };
    RoomSettings {
        method,
        role: RoomRole::Both,
        slot: Duration::from_millis(pick(&[1000, 1000, 100, 2500])),
        horizon: Duration::from_secs(pick(&[20, 60, 300])),
        fill: 1.0,
        hold: Duration::from_secs(5),
        grace: Duration::from_secs(pick(&[0, 5, 30])),
        clock_tolerance: Duration::from_millis(pick(&[0, 250, 2000])),
        overbook_max: if pick(&[0, 1]) == 0 { 0.0 } else { 0.5 },
        extra: 0.05,
        opens_at: match pick(&[0, 40, 100]) {
            0 => None,
            after => Some(START + Duration::from_secs(after)),
        },
        order: if pick(&[0, 1]) == 0 { RoomOrder::InOrder } else { RoomOrder::Shuffled },
        round: Duration::from_secs(10),
        block: u32::try_from(pick(&[1, 1, 7])).unwrap_or(1),
        sessions: (pick(&[0, 1]) == 0)
            .then_some(SessionSettings { idle: Duration::from_secs(20), total: Duration::from_secs(90) }),
        report_timeout: Duration::from_secs(5),
        report_keep: Duration::from_secs(60),
        floor: None,
        classes: (0..=pick(&[0, 1, 2]))
            .map(|name| ClassRoom {
                queues: pick(&[0, 1, 1, 1]) == 1,
                name: name + 1,
                group: u16::try_from(pick(&[9, 9, 9, 0, 1, 2])).ok().filter(|id| *id < 9).map(ClassId),
                method: match pick(&[0, 0, 0, 0, 0, 1, 2, 3, 4, 5]) {
                    0 => None,
                    1 => Some(ClassRoomMethod::Fifo),
                    2 => Some(ClassRoomMethod::Wait),
                    3 => Some(ClassRoomMethod::Random),
                    4 => Some(ClassRoomMethod::Event),
                    _ => Some(ClassRoomMethod::Closed),
                },
                opens_at: match pick(&[0, 0, 20, 70]) {
                    0 => None,
                    after => Some(START + Duration::from_secs(after)),
                },
                order: match pick(&[0, 0, 1, 2]) {
                    0 => None,
                    1 => Some(RoomOrder::InOrder),
                    _ => Some(RoomOrder::Shuffled),
                },
                round: (pick(&[0, 0, 1]) == 1).then_some(Duration::from_secs(3)),
                share: match pick(&[0, 0, 1]) {
                    0 => None,
                    _ => Some(0.2),
                },
                weight: pick(&[1, 1, 5]),
            })
            .collect(),
    }
}

/// When tests that use this grammar begin.
pub const START: Timestamp = Timestamp::from_nanos(1_000_000_000_000);

/// Applies operations as visitors would.
#[derive(Debug)]
pub struct Driver {
    /// What is driven.
    pub room: Room,
    settings: RoomSettings,
    /// The settings since the promises that are out were made are these.
    unchanged: bool,
    now: Timestamp,
    waiting: Vec<Promise>,
    /// Let in at their time, and not yet served: what `missed` is for.
    inside: Vec<Promise>,
    used: Vec<Promise>,
    passes: Vec<Pass>,
    numbers: BTreeSet<u64>,
    counted: BTreeMap<RoomCount, u64>,
    /// Promises whose owners went on while nobody was held back.
    gone_on: u64,
    has_lots: bool,
    restarts: u64,
    capacity: Capacity,
}

impl Driver {
    /// Begins at [`START`].
    #[must_use]
    pub fn new(settings: &RoomSettings) -> Self {
        Self {
            room: Room::new(settings, [1, 2], START),
            settings: settings.clone(),
            unchanged: true,
            now: START,
            waiting: Vec::new(),
            inside: Vec::new(),
            used: Vec::new(),
            passes: Vec::new(),
            numbers: BTreeSet::new(),
            counted: BTreeMap::new(),
            has_lots: false,
            restarts: 0,
            gone_on: 0,
            capacity: Capacity::default(),
        }
    }

    /// Applies an operation.
    ///
    /// # Panics
    ///
    /// If the room breaks its word.
    pub fn apply(&mut self, op: &Op) {
        match *op {
            Op::Advance(span) => {
                self.now = self.now + span;
                self.room.advance(self.now);
            }
            Op::Ask(class, people) => (0..people).for_each(|_| {
                let class = self.class(class);
                let answer = self.room.ask(self.now, class);
                self.answered(class, answer, None);
            }),
            Op::ComeBack(position) => {
                if let Some(position) = position.checked_rem(self.waiting.len()) {
                    let promise = self.waiting.swap_remove(position);
                    self.comes(promise);
                }
            }
            Op::ComeOnTime(position) => {
                if let Some(position) = position.checked_rem(self.waiting.len())
                    && self.waiting[position].at >= self.now
                    && self.waiting[position].at < Timestamp::FAR_FUTURE - Duration::from_secs(1)
                {
                    let promise = self.waiting.swap_remove(position);
                    self.now = promise.at;
                    self.comes(promise);
                }
            }
            Op::Missed(position) => {
                if let Some(position) = position.checked_rem(self.inside.len()) {
                    let promise = self.inside.swap_remove(position);
                    let answer = self.room.missed(self.now, promise.class, Some(&promise));
                    if let Answer::Wait(place) = answer {
                        assert!(place.promise.renewed > promise.renewed, "it was missed once more");
                        assert_eq!(place.promise.since, promise.since, "the time waited is not forgotten");
                        assert!(place.promise.at > self.now, "the new time is to come");
                    }
                    self.answered(promise.class, answer, None);
                }
            }
            Op::Served(position) => {
                if let Some(position) = position.checked_rem(self.inside.len()) {
                    let promise = self.inside.swap_remove(position);
                    self.room.served(self.now, promise.class);
                }
            }
            Op::Replay(position) => {
                if let Some(position) = position.checked_rem(self.used.len()) {
                    let promise = self.used[position];
                    // What one with nothing in his hand would be answered at this moment.
                    let newcomer = self.room.clone().ask(self.now, promise.class);
                    let answer = self.room.come_back(self.now, promise.class, &promise);
                    if let Answer::Enter(entry) = answer
                        && self.restarts == 0
                        && self.unchanged
                        && promise.kind == Kind::Place
                    {
                        assert_ne!(entry.how, How::Kept, "nobody comes in twice with one promise");
                        let gains = entry.how == How::Direct && !matches!(newcomer, Answer::Enter(_));
                        assert!(!gains, "he is in where a newcomer is not: {newcomer:?}");
                    }
                    assert!(
                        !matches!(newcomer, Answer::Enter(_))
                            || !matches!(answer, Answer::Wait(place) if !place.estimate.early),
                        "a newcomer would go on, and he is held: {answer:?}"
                    );
                    if let Answer::Wait(place) = answer
                        && self.restarts == 0
                        && self.unchanged
                        && promise.kind == Kind::Place
                        && place.promise.number != promise.number
                    {
                        assert_eq!(place.promise.since, whole_ms(self.now), "nor has he credit afterwards");
                    }
                    if let Answer::Wait(place) = answer
                        && place.promise == promise
                        && !place.estimate.early
                    {
                        assert!(
                            place.estimate.at.is_some_and(|at| at > self.now),
                            "he is to come again, with a pass by then"
                        );
                        // He keeps what he has, and it is used.
                        self.room.check_invariants();
                        return self.each_promise_has_one_end();
                    }
                    self.answered(promise.class, answer, Some(promise));
                }
            }
            Op::Pass(position) => {
                if let Some(position) = position.checked_rem(self.passes.len()) {
                    let pass = self.passes[position];
                    match self.room.pass(self.now, pass.class, &pass) {
                        PassAnswer::Enter { renewed } => {
                            assert!(self.now < pass.until, "a pass that is over lets nobody in");
                            if let Some(renewed) = renewed {
                                assert_eq!((renewed.begun, renewed.number), (pass.begun, pass.number));
                                assert!(renewed.until > pass.until);
                                self.passes[position] = renewed;
                            }
                        }
                        PassAnswer::Over => drop(self.passes.swap_remove(position)),
                    }
                }
            }
            Op::Revoke(position) => {
                if let Some(position) = position.checked_rem(self.passes.len()) {
                    let pass = self.passes[position];
                    self.room.revoke(self.now, &pass);
                    assert_eq!(self.room.pass(self.now, pass.class, &pass), PassAnswer::Over);
                }
            }
            Op::Observe(per_s, more) => {
                let per_s = per_s.map(f64::from);
                let pace = |more| Pace {
                    may_come_per_s: per_s.unwrap_or(20.0) * (1.0 + f64::from(more) / 16.0),
                    departs_per_s: 10.0,
                    standing: 0.0,
                    error: if per_s.is_some() { 0.02 } else { 0.0 },
                };
                self.capacity = Capacity { per_s, pace: more.map(pace) };
                self.observe();
            }
            Op::Configure(ref settings) => {
                self.unchanged = false;
                self.settings = settings.as_ref().clone();
                self.room.configure(self.now, settings);
            }
            Op::Restart => {
                self.restarts += 1;
                let bytes = self.room.snapshot(self.now).to_bytes();
                let snapshot = super::RoomSnapshot::from_bytes(&bytes).expect("what was written reads back");
                self.room = Room::new(&self.settings, [self.restarts * 2 + 1, 2], self.now);
                self.observe();
                self.room.restore(self.now, &snapshot);
            }
        }
        self.room.check_invariants();
        self.each_promise_has_one_end();
    }

    /// What was promised is kept, missed, a no-show, to come, in the short queue, or its owner went on while nobody was held
    /// back. Lots are promised and not waited for; what
    /// was over before a restart is forgotten.
    fn each_promise_has_one_end(&mut self) {
        let counted = &mut self.counted;
        self.room.drain_counts(|_, what, count| *counted.entry(what).or_default() += count);
        if self.restarts > 0 || !self.unchanged || self.has_lots {
            return;
        }
        let of = |what| self.counted.get(&what).copied().unwrap_or(0);
        let [promised, kept, missed, absent] =
            [RoomCount::Promised, RoomCount::Kept, RoomCount::Missed, RoomCount::NoShow].map(of);
        let (to_come, inside) = (self.room.no_shows.unseen(), self.inside.len() as u64);
        assert_eq!(
            promised,
            kept + missed + absent + to_come + inside + self.gone_on,
            "{kept}+{missed}+{absent}+{to_come}+{inside}+{}",
            self.gone_on
        );
    }

    fn observe(&mut self) {
        self.room.observe(self.now, self.capacity, std::iter::empty());
    }

    fn class(&self, class: u16) -> ClassId {
        ClassId(class % u16::try_from(self.settings.classes.len()).unwrap_or(1))
    }

    fn comes(&mut self, promise: Promise) {
        let known = promise.class.index() < self.settings.classes.len();
        self.room.advance(self.now);
        let unseen = self.room.no_shows.unseen();
        let is_called = self.room.look(self.now, &promise).at.is_some_and(|at| at <= self.now);
        let seems_used = self.room.replay.knows(self.room.table.slot_of(promise.at), promise.number);
        let answer = self.room.come_back(self.now, promise.class, &promise);
        if matches!(answer, Answer::Enter(entry) if entry.how == How::Unconcerned) {
            self.gone_on += unseen - self.room.no_shows.unseen();
        }
        let table = &self.room.table;
        let slot = table.slot_of(promise.at);
        if known && promise.kind == Kind::Place && self.unchanged && self.settings.is_on() {
            let opens = table.begin(slot) - self.settings.clock_tolerance;
            let closes = table.begin(slot + 1) + self.settings.clock_tolerance + self.settings.grace;
            let queues = self.settings.classes[promise.class.index()].queues;
            match answer {
                Answer::Enter(entry) => {
                    let may_come = self.now >= opens || is_called;
                    assert!(may_come || !queues || entry.how == How::Unconcerned, "before his time");
                }
                Answer::Wait(place) if self.now < opens => {
                    assert!(!is_called || seems_used, "who was called comes in");
                    assert_eq!(place.promise, promise, "who is early gets his own time again");
                }
                other => assert!(
                    self.now >= closes || !queues || other == Answer::Refuse(Refusal::HorizonFull),
                    "a promise was broken: {promise:?} at {}: {other:?}",
                    self.now
                ),
            }
        }
        if known && promise.kind == Kind::Lot && self.unchanged && self.settings.is_on() {
            self.drawn_when_its_doors_open(&promise, answer);
        }
        self.answered(promise.class, answer, Some(promise));
    }

    /// A lot of an event waits for the doors of its own group, and for no others.
    fn drawn_when_its_doors_open(&self, lot: &Promise, answer: Answer) {
        let classes = &self.settings.classes;
        let class = &classes[lot.class.index()];
        let leader = class.group.and_then(|leader| classes.get(leader.index()));
        let doors = leader.filter(|leader| leader.group.is_none()).unwrap_or(class);
        let is_event = match doors.method {
            Some(method) => method == ClassRoomMethod::Event,
            None => self.settings.method == RoomMethod::Event,
        };
        if !class.queues || !is_event {
            return;
        }
        let opens = doors.opens_at.or(self.settings.opens_at);
        if opens.is_none_or(|opens| self.now < opens) {
            assert!(matches!(answer, Answer::Wait(place) if place.promise == *lot), "{opens:?}: {answer:?}");
        } else if self.room.table.budget() > 0 {
            let still = matches!(answer, Answer::Wait(place) if place.promise.kind == Kind::Lot);
            assert!(!still, "its doors have opened at {opens:?}: {answer:?}");
        }
    }

    fn answered(&mut self, class: ClassId, answer: Answer, came_with: Option<Promise>) {
        match answer {
            Answer::Enter(entry) => {
                if let Some(promise) = came_with
                    && matches!(entry.how, How::Kept | How::Late)
                {
                    self.inside.push(promise);
                    self.used.push(promise);
                }
                if let Some(pass) = entry.pass {
                    assert!(self.numbers.insert(pass.number), "numbers are unique");
                    assert!(pass.until > self.now);
                    self.passes.push(pass);
                }
            }
            Answer::Wait(place) => {
                let promise = place.promise;
                self.has_lots |= promise.kind == Kind::Lot;
                let is_new = came_with.is_none_or(|with| with.number != promise.number);
                // Lots in order go by the work before them.
                if is_new && promise.kind == Kind::Place {
                    assert!(self.numbers.insert(promise.number), "numbers are unique");
                }
                if promise.class == class && promise.kind == Kind::Place {
                    let last = self.room.table.present() + self.room.table.horizon();
                    assert!(
                        self.room.table.slot_of(promise.at) <= last || came_with.is_some(),
                        "within the horizon"
                    );
                }
                self.waiting.push(promise);
            }
            Answer::Refuse(refusal) => {
                assert!(matches!(refusal, Refusal::HorizonFull | Refusal::RoomClosed));
            }
            Answer::Elsewhere { .. } => assert_ne!(self.settings.role, RoomRole::Both),
        }
    }
}
