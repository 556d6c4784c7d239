//! One grammar of operations on [`Admission`], for property tests, fuzzing and simulation.
//!
//! Bytes become operations ([`Op::read`]); a [`Driver`] applies them as a correct caller would, holds the
//! permits and tickets that are out, and checks after each that everything is consistent: permits
//! conserved, nobody lost, nobody served twice, nobody started late.

use std::time::Duration;

use super::{
    Admission, AdmissionSettings, Arrival, ClassSettings, Departure, Exchange, Outcome, OwnModes, Permit,
    Rate, StreamPermit,
};
use crate::{
    ClassId, Refusal, Ticket, Timestamp,
    capacity::{CapacityBounds, PowerRatioSettings},
    knobs::{Algorithm, Discipline, Mode, SchedulerKind},
    limit::LimitBounds,
    queue::QueueSettings,
    share::Share,
};

/// One operation. Positions count modulo what is there; with nothing there, nothing happens.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// Time passes, and what is due is fired.
    Advance(Duration),
    /// A request arrives; its deadline is so far away.
    Arrive {
        /// Whether it was admitted before and gave its permit back.
        again: bool,
        /// Counts modulo the classes.
        class: u16,
        /// 0 to 7.
        priority: u8,
        /// Weight units.
        weight: u32,
        /// From now.
        deadline: Option<Duration>,
        /// Size of its head.
        bytes: u32,
    },
    /// A waiting request's verdict is asked for.
    Collect(usize),
    /// A waiting request's client leaves.
    Leave(usize),
    /// An exchange ends.
    Depart(usize, Outcome),
    /// The client of an exchange leaves.
    Abandon(usize),
    /// An exchange becomes a long stream.
    Stream(usize, Outcome),
    /// A long stream ends.
    EndStream,
    /// Knobs change.
    Configure(Box<AdmissionSettings>),
}

/// What an operation led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// There was nothing to do, or nothing to see.
    Nothing,
    /// The request started, with so much weight in flight just after.
    Started(u32),
    /// It waits.
    Waits,
    /// It was refused.
    Refused(Refusal),
    /// The client left the queue.
    Left,
    /// The exchange became a stream.
    Streams,
    /// The client left its exchange; what only watches has refused it for that reason.
    Abandoned(Option<Refusal>),
    /// The exchange ended; what only watches would have refused it for that reason.
    Ended(Option<Refusal>),
}

/// What can be seen from outside after an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// Weight in flight.
    pub in_flight: u64,
    /// The limit.
    pub limit: u32,
    /// Long streams open.
    pub long_streams: u64,
    /// Requests waiting, by class.
    pub queued: Vec<usize>,
    /// Requests that would wait, by class; empty while nothing watches.
    pub would_wait: Vec<usize>,
    /// Numbers, by order of beginning to wait, of the requests decided.
    pub decided: Vec<u64>,
    /// What would have been refused.
    pub would_refuse: Vec<(ClassId, Refusal, u64)>,
    /// When something is due next.
    pub next_timeout: Option<Timestamp>,
}

impl Op {
    /// Reads an operation; `None` at the end of the bytes. Any bytes are operations.
    pub fn read(bytes: &mut impl Iterator<Item = u8>) -> Option<Self> {
        let kind = bytes.next()?;
        let mut next = || bytes.next().unwrap_or(0);
        Some(match kind % 16 {
            0..=5 => Self::Arrive {
                again: kind >= 224,
                class: u16::from(next()),
                priority: next() % 8,
                weight: u32::from(next() % 4).max(1) + if next() % 16 == 0 { 20 } else { 0 },
                deadline: pick(next(), &[None, None, None, Some(0), Some(7), Some(40)]).map(millis),
                bytes: u32::from(next()),
            },
            6 | 7 => Self::Advance(Duration::from_micros(u64::from(next()) * 100)),
            8 => Self::Collect(usize::from(next())),
            9 => Self::Leave(usize::from(next())),
            13 if kind >= 128 => Self::Abandon(usize::from(next())),
            10..=13 => Self::Depart(usize::from(next()), outcome(next())),
            14 => match next() % 4 {
                0 => Self::EndStream,
                1 => Self::Stream(usize::from(next()), outcome(next())),
                _ => Self::Advance(Duration::from_millis(u64::from(next()) * 20)),
            },
            _ => Self::Configure(Box::new(settings(&mut next))),
        })
    }
}

fn outcome(byte: u8) -> Outcome {
    pick(byte, &[Outcome::Success, Outcome::Success, Outcome::Ignore, Outcome::Drop])
}

/// Reads settings with one to four classes; any bytes are settings.
pub fn settings(mut next: impl FnMut() -> u8) -> AdmissionSettings {
    AdmissionSettings {
        mode: pick(next(), &[Mode::Enforce, Mode::Enforce, Mode::Enforce, Mode::Watch, Mode::Off]),
        algorithm: pick(
            next(),
            &[
                Algorithm::Fixed,
                Algorithm::Fixed,
                Algorithm::Fixed,
                Algorithm::Aimd,
                Algorithm::Vegas,
                Algorithm::Gradient2,
                Algorithm::KneeTrack,
                Algorithm::KneeTrack,
                Algorithm::PowerRatio,
            ],
        ),
        capacity: CapacityBounds {
            floor: pick(next(), &[None, None, Some(3.0), Some(500.0)]),
            ceiling: pick(next(), &[None, None, Some(50.0), Some(1000.0)]),
        },
        power_ratio: PowerRatioSettings {
            initial_per_s: pick(next(), &[15.0, 200.0, 2000.0]),
            epoch: millis(pick(next(), &[5, 100])),
            ..PowerRatioSettings::default()
        },
        limit: LimitBounds {
            initial: u32::from(next() % 8) + 1,
            min: u32::from(next() % 3) + 1,
            max: u32::from(next() % 16) + 3,
        },
        dormant_max: pick(next(), &[0, 3, 20]),
        scheduler: pick(
            next(),
            &[
                SchedulerKind::Strict,
                SchedulerKind::RoundRobin,
                SchedulerKind::Weighted,
                SchedulerKind::EarliestDeadline,
            ],
        ),
        starvation_max: pick(next(), &[None, Some(5), Some(50)]).map(millis),
        ingress: rate(&mut next),
        egress: rate(&mut next),
        long_streams_max: u64::from(next() % 3),
        long_streams_mode: pick(next(), &[Mode::Enforce, Mode::Enforce, Mode::Watch, Mode::Off]),
        tls_sessions: Mode::Off,
        share: share(next()),
        classes: (0..=next() % 4).map(|_| class(&mut next)).collect(),
        modes: own_modes(&mut next),
    }
}

/// Mostly everything; else a part, one of which ends soon after the tests begin and one before.
fn share(byte: u8) -> Share {
    let part = |index, until| Share::WHOLE.part(index, 3, until);
    match byte % 16 {
        0 => part(0, Timestamp::FAR_FUTURE),
        1 => part(2, Timestamp::FAR_FUTURE),
        2 => part(1, START + millis(500)),
        3 => part(1, START),
        _ => Share::WHOLE,
    }
}

fn class(next: &mut impl FnMut() -> u8) -> ClassSettings {
    let bounds = [(None, None), (None, Some(2)), (Some(2), None), (Some(2), Some(2)), (Some(1), Some(30))];
    let (in_flight_max, lead) = pick(next(), &bounds);
    ClassSettings {
        ingress: rate(next),
        egress: rate(next),
        queue: QueueSettings {
            max: pick(next(), &[0, 1, 3, 10, 1000]),
            bytes_max: pick(next(), &[100, 1000, 100_000]),
            wait_max: pick(next(), &[None, Some(3), Some(30), Some(300)]).map(millis),
            discipline: pick(next(), &[Discipline::Fifo, Discipline::Lifo, Discipline::AdaptiveLifo]),
            stands_after: millis(pick(next(), &[1, 10])),
            codel: pick(next(), &[None, None, Some((millis(2), millis(10)))]),
        },
        deadline: pick(next(), &[None, None, Some(20)]).map(millis),
        in_flight_max,
        in_flight_lead: lead.map(millis),
        share: u32::from(next() % 4) + 1,
        modes: own_modes(next),
    }
}

/// Mostly none.
fn own_modes(next: &mut impl FnMut() -> u8) -> OwnModes {
    let mut own = || {
        let modes = [None, None, None, None, None, Some(Mode::Enforce), Some(Mode::Watch), Some(Mode::Off)];
        pick(next(), &modes)
    };
    OwnModes { ingress: own(), in_flight: own(), queue: own(), egress: own() }
}

fn rate(next: &mut impl FnMut() -> u8) -> Option<Rate> {
    pick(
        next(),
        &[
            None,
            None,
            None,
            None,
            Some(Rate { per_s: 100.0, burst: 1.0 }),
            Some(Rate { per_s: 1000.0 / 3.0, burst: 5.5 }),
        ],
    )
}

fn pick<T: Copy>(byte: u8, choices: &[T]) -> T {
    choices[usize::from(byte) % choices.len()]
}

const fn millis(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// When tests that use this grammar begin.
pub const START: Timestamp = Timestamp::from_nanos(1_000_000_000_000);

/// Applies operations as a correct caller would.
#[derive(Debug)]
pub struct Driver {
    /// What is driven.
    pub admission: Admission,
    settings: AdmissionSettings,
    now: Timestamp,
    classes: u16,
    permits: Vec<Permit>,
    streams: Vec<StreamPermit>,
    waiting: Vec<Waiting>,
    waited: u64,
}

#[derive(Debug)]
struct Waiting {
    ticket: Ticket,
    number: u64,
    class: ClassId,
    /// Of a request whose queue has been bounded all the time.
    deadline: Option<Timestamp>,
    decided: bool,
}

impl Driver {
    /// Begins at `now`.
    #[must_use]
    pub fn new(settings: &AdmissionSettings, now: Timestamp) -> Self {
        Self {
            admission: Admission::new(settings, now),
            settings: settings.clone(),
            now,
            classes: u16::try_from(settings.classes.len()).unwrap_or(u16::MAX),
            permits: Vec::new(),
            streams: Vec::new(),
            waiting: Vec::new(),
            waited: 0,
        }
    }

    /// Applies an operation.
    ///
    /// # Panics
    ///
    /// If admission breaks one of its promises.
    pub fn apply(&mut self, op: &Op) -> (Event, View) {
        let event = self.act(op);
        let view = self.view();
        self.check();
        (event, view)
    }

    /// Ends every exchange, again and again, until nobody waits and nothing is in flight.
    ///
    /// # Panics
    ///
    /// If somebody is lost, or a permit.
    pub fn finish(mut self) {
        // Who waits for a share that has ended would wait for ever.
        let whole = AdmissionSettings { share: Share::WHOLE, ..self.settings.clone() };
        self.apply(&Op::Configure(Box::new(whole)));
        while !(self.waiting.is_empty() && self.permits.is_empty() && self.streams.is_empty()) {
            let before = (self.waiting.len(), self.permits.len(), self.streams.len());
            // Only who is decided: a queue without bounds may be long, and each look goes through all of it.
            for position in (0..self.waiting.len()).rev() {
                if self.waiting[position].decided {
                    self.apply(&Op::Collect(position));
                }
            }
            self.apply(&Op::EndStream);
            self.apply(&Op::Depart(0, Outcome::Success));
            if before == (self.waiting.len(), self.permits.len(), self.streams.len()) {
                let next = self.admission.next_timeout().expect("who waits is waiting for something");
                assert!(next > self.now, "nothing is overdue");
                self.apply(&Op::Advance(next.since(self.now)));
            }
        }
        let levels = self.admission.levels();
        assert_eq!((levels.in_flight, levels.long_streams), (0, 0), "everything came back");
        assert_eq!(levels.queued().map(|(_, queued)| queued).sum::<usize>(), 0, "nobody waits");
        assert_eq!(self.admission.next_timeout(), None, "nothing is left to do");
    }

    fn act(&mut self, op: &Op) -> Event {
        match *op {
            Op::Advance(span) => {
                self.now = self.now + span;
                self.admission.advance(self.now);
                Event::Nothing
            }
            Op::Arrive { again, class, priority, weight, deadline, bytes } => {
                let deadline = deadline.map(|span| self.now + span);
                let class = ClassId(class % self.classes);
                self.arrive(Exchange { class, priority, weight, deadline, bytes }, again)
            }
            Op::Collect(position) => self.collect(position),
            Op::Leave(position) => self.leave(position),
            Op::Depart(position, outcome) => {
                let Some(position) = position.checked_rem(self.permits.len()) else { return Event::Nothing };
                let permit = self.permits.swap_remove(position);
                Event::Ended(self.admission.depart(self.now, permit, outcome))
            }
            Op::Abandon(position) => {
                let Some(position) = position.checked_rem(self.permits.len()) else { return Event::Nothing };
                let shadow = self.permits[position].shadow();
                Event::Abandoned(shadow.and_then(|shadow| self.admission.abandon(self.now, shadow)))
            }
            Op::Stream(position, outcome) => self.stream(position, outcome),
            Op::EndStream => {
                if !self.streams.is_empty() {
                    self.admission.end_stream(self.streams.remove(0));
                }
                Event::Nothing
            }
            Op::Configure(ref settings) => {
                self.admission.configure(self.now, settings);
                // A class that is missing keeps what it had.
                let known = std::mem::replace(&mut self.settings, settings.as_ref().clone()).classes;
                let missing = known.into_iter().skip(settings.classes.len());
                self.settings.classes.extend(missing);
                self.classes = self.classes.max(u16::try_from(settings.classes.len()).unwrap_or(u16::MAX));
                let settings = &self.settings;
                for waits in self.waiting.iter_mut().filter(|waits| !is_bounded(settings, waits.class)) {
                    waits.deadline = None;
                }
                Event::Nothing
            }
        }
    }

    fn arrive(&mut self, exchange: Exchange, again: bool) -> Event {
        let arrival = match again {
            false => self.admission.arrive(self.now, exchange),
            true => self.admission.arrive_again(self.now, exchange),
        };
        match arrival {
            Arrival::Start(permit) => {
                let in_flight = permit.in_flight;
                assert_eq!((permit.class(), permit.weight()), (exchange.class, exchange.weight));
                self.permits.push(permit);
                Event::Started(in_flight)
            }
            Arrival::Wait(ticket) => {
                assert!(self.waiting.iter().all(|waits| waits.ticket != ticket), "tickets are unique");
                self.waiting.push(Waiting {
                    ticket,
                    number: self.waited,
                    class: exchange.class,
                    deadline: exchange.deadline.filter(|_| is_bounded(&self.settings, exchange.class)),
                    decided: false,
                });
                self.waited += 1;
                Event::Waits
            }
            Arrival::Refuse(refusal) => Event::Refused(refusal),
        }
    }

    fn collect(&mut self, position: usize) -> Event {
        let Some(position) = position.checked_rem(self.waiting.len()) else { return Event::Nothing };
        let verdict = self.admission.collect(self.now, self.waiting[position].ticket);
        assert_eq!(
            verdict.is_some(),
            self.waiting[position].decided,
            "who is decided is told, and only who is"
        );
        match verdict {
            None => Event::Waits,
            Some(Ok(permit)) => {
                let waits = self.waiting.swap_remove(position);
                self.granted(&waits, permit)
            }
            Some(Err(refusal)) => {
                self.waiting.swap_remove(position);
                Event::Refused(refusal)
            }
        }
    }

    fn leave(&mut self, position: usize) -> Event {
        let Some(position) = position.checked_rem(self.waiting.len()) else { return Event::Nothing };
        let waits = self.waiting.swap_remove(position);
        match self.admission.leave(self.now, waits.ticket) {
            Departure::Left => {
                assert!(!waits.decided);
                Event::Left
            }
            Departure::AlreadyGranted(permit) => self.granted(&waits, permit),
            Departure::AlreadyRefused(refusal) => Event::Refused(refusal),
        }
    }

    fn granted(&mut self, waits: &Waiting, permit: Permit) -> Event {
        assert!(waits.deadline.is_none_or(|deadline| permit.started() < deadline), "nothing starts late");
        let in_flight = permit.in_flight;
        self.permits.push(permit);
        Event::Started(in_flight)
    }

    fn stream(&mut self, position: usize, outcome: Outcome) -> Event {
        let Some(position) = position.checked_rem(self.permits.len()) else { return Event::Nothing };
        let permit = self.permits.swap_remove(position);
        match self.admission.begin_stream(self.now, permit, outcome) {
            Ok(stream) => {
                self.streams.push(stream);
                Event::Streams
            }
            Err(permit) => {
                self.permits.push(permit);
                Event::Nothing
            }
        }
    }

    fn view(&mut self) -> View {
        let mut tickets = Vec::new();
        self.admission.drain_decided(&mut tickets);
        let mut decided = Vec::new();
        for ticket in tickets {
            if let Some(waits) = self.waiting.iter_mut().find(|waits| waits.ticket == ticket) {
                assert!(!waits.decided, "nobody is decided twice");
                waits.decided = true;
                decided.push(waits.number);
            }
        }
        let mut would_refuse = Vec::new();
        self.admission.drain_would_refuse(|class, refusal, count| would_refuse.push((class, refusal, count)));
        let levels = self.admission.levels();
        View {
            in_flight: levels.in_flight,
            limit: levels.limit,
            long_streams: levels.long_streams,
            queued: levels.queued().map(|(_, queued)| queued).collect(),
            would_wait: levels.would_wait().map(|(_, waiting)| waiting).collect(),
            decided,
            would_refuse,
            next_timeout: self.admission.next_timeout(),
        }
    }

    fn check(&self) {
        self.admission.check_invariants();
        let out: u64 = self.permits.iter().map(|permit| u64::from(permit.weight())).sum();
        let levels = self.admission.levels();
        assert_eq!(levels.in_flight, out + self.admission.uncollected(), "permits are conserved");
        assert_eq!(levels.long_streams, self.streams.len() as u64, "streams are conserved");
    }
}

/// Whether the bounds of a class's queue act, deadlines among them.
fn is_bounded(settings: &AdmissionSettings, class: ClassId) -> bool {
    let own = settings.classes[class.index()].modes;
    own.over(settings.modes_in_force()).queue == Mode::Enforce
}
