//! Tidegate as a front: the admission and the client rates that the gateway drives, driven in virtual time.
//!
//! What the gateway does between a socket and [`Admission`] is done here for a request that is already
//! there: the client's rate, admission with its queue, the permit that lingers when a client leaves,
//! the server's response timeout. Knobs are the gateway's, by their paths.

mod host;
mod measured;
mod room;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

use host::Law;
pub use host::Line;
use measured::{Measured, Standing};
use room::{Before, Entered, Hall};

use tidegate_control::{
    ClassId, Refusal, Ticket, Timestamp,
    admission::{Admission, AdmissionSettings, Arrival, Departure, Exchange, Greeting, Outcome, Permit},
    archive::Archives,
    capacity::{CapacityEvent, Cause},
    client_rate::{ClientRateSettings, ClientRates},
    knobs::{Algorithm, Fault, Knob, Mode, Scope, Value, Values, keys},
    meters::Distribution,
    tls_sessions::Session,
    waiting_room::{Promise, Room},
};

use crate::{
    Done, End, Front, Hello, Levels, Request, ServerView, Verdict,
    front::slot,
    scenario::{Application, START},
};

/// Bytes of a request's head while it waits.
const HEAD_BYTES: u32 = 400;

/// The reason in results of an exchange that took longer than `upstream.response.timeout`.
pub const RESPONSE_TIMEOUT: &str = "response_timeout";

/// A permit of a client that has left is held for this long at least.
const LINGER_MIN: Duration = Duration::from_millis(10);

/// Tidegate before an application.
#[derive(Debug)]
pub struct Gateway {
    name: String,
    application: Values,
    classes: Vec<Class>,
    admission: Admission,
    clients: ClientRates,
    now: Timestamp,
    /// By the slot of a request.
    held: Vec<Held>,
    /// Ids of what waits, by the index of its ticket.
    waiting: Vec<u64>,
    tickets: Vec<Ticket>,
    decided: Vec<(u64, Verdict)>,
    /// When exchanges have taken too long, by start.
    timeouts: VecDeque<(Timestamp, u64)>,
    /// When permits of clients that left are given back, by slot.
    lingering: BTreeSet<(Timestamp, u64)>,
    queued: u64,
    measured: Measured,
    /// Times admission has taken the capacity to have changed.
    changes: u64,
    capacity_events: Vec<CapacityEvent>,
    law: Law,
    hall: Hall,
    /// As what the connection of each client was let in, while TLS sessions are looked at, and whether a request has come on it.
    greeted: BTreeMap<u32, (Session, bool)>,
}

#[derive(Debug)]
struct Class {
    name: String,
    values: Values,
    group: Option<ClassId>,
    service_times: Distribution,
    linger: Option<Duration>,
}

/// What the gateway holds for a request.
#[derive(Debug, Default)]
enum Held {
    #[default]
    Nothing,
    Place {
        ticket: Ticket,
        class: ClassId,
        arrived: Timestamp,
        promise: Option<Promise>,
        entered: Entered,
    },
    Permit {
        id: u64,
        permit: Permit,
        arrived: Timestamp,
    },
}

/// A knob that cannot be set so.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KnobError {
    /// There is no such knob of this application.
    #[error(
        "{path}: there is no such knob of {application} (a path is application/knob or application/class/knob)"
    )]
    Unknown {
        /// As given.
        path: String,
        /// Whose knobs there are.
        application: String,
    },
    /// The knob does not take that value.
    #[error("{path}: {fault}")]
    Value {
        /// As given.
        path: String,
        /// What the row allows.
        fault: Fault,
    },
    /// The value contradicts that of another knob.
    #[error("{path}: {what}: {mend}")]
    Disagrees {
        /// The lower of the two.
        path: String,
        /// What it contradicts.
        what: String,
        /// What to do about it.
        mend: String,
    },
}

impl Gateway {
    /// Knobs as given: the application's, and by class its name and knobs, the default class first.
    ///
    /// # Panics
    ///
    /// If there is no class, or values belong to other scopes.
    #[must_use]
    pub fn new(name: &str, application: Values, classes: Vec<(String, Values)>) -> Self {
        let classes: Vec<Class> = classes
            .into_iter()
            .map(|(name, values)| Class {
                name,
                values,
                group: None,
                service_times: Distribution::default(),
                linger: None,
            })
            .collect();
        let admission = Admission::new(&settings(&application, &classes), START);
        let clients = ClientRates::new(START, ClientRateSettings::from_values(&application));
        let hall = Hall::new(&room::settings(&application, &classes));
        let measured = Measured::new(name, classes.iter().map(|class| class.name.as_str()));
        Self {
            name: name.to_owned(),
            application,
            classes,
            admission,
            clients,
            now: START,
            held: Vec::new(),
            waiting: Vec::new(),
            tickets: Vec::new(),
            decided: Vec::new(),
            timeouts: VecDeque::new(),
            lingering: BTreeSet::new(),
            queued: 0,
            measured,
            changes: 0,
            capacity_events: Vec::new(),
            law: Law::default(),
            hall,
            greeted: BTreeMap::new(),
        }
    }

    /// Knobs at their defaults, but priority, weight and `goodput.within` as the scenario's classes have them, and those of one
    /// group in the waiting room.
    ///
    /// # Panics
    ///
    /// If the scenario's values are outside the knobs' ranges.
    #[must_use]
    pub fn of(application: &Application) -> Self {
        let classes = application.classes.iter().map(|class| {
            let mut values = Values::defaults(Scope::Class);
            for (knob, value) in [
                (Knob::PRIORITY, Value::Count(u64::from(class.priority))),
                (Knob::WEIGHT, Value::Count(u64::from(class.weight))),
                (Knob::GOODPUT_WITHIN, Value::Span(class.good_within)),
            ] {
                values.set(knob, value).unwrap_or_else(|fault| panic!("class {}: {fault}", class.name));
            }
            (class.name.clone(), values)
        });
        let values = Values::defaults(Scope::Application);
        let mut gateway = Self::new(&application.name, values, classes.collect());
        for (class, own) in gateway.classes.iter_mut().zip(&application.classes) {
            class.group = own.group;
        }
        gateway.set_room();
        gateway
    }

    /// Sets a knob by its path, `shop/in_flight.limit` or `shop/home/ingress.rate`, to a value as people write it.
    ///
    /// # Errors
    ///
    /// As [`apply`](Self::apply).
    pub fn set(&mut self, path: &str, text: &str) -> Result<(), KnobError> {
        self.set_all(&[(path, text)])
    }

    /// Sets knobs from text, as one change.
    ///
    /// # Errors
    ///
    /// As [`apply`](Self::apply).
    pub fn set_all(&mut self, changes: &[(&str, &str)]) -> Result<(), KnobError> {
        let mut read = Vec::with_capacity(changes.len());
        for (path, text) in changes {
            let (knob, _) = self.knob(path)?;
            let value =
                knob.parse(text).map_err(|fault| KnobError::Value { path: (*path).to_owned(), fault })?;
            read.push((*path, value));
        }
        self.apply(&read)
    }

    /// The row of a knob and its present value.
    ///
    /// # Errors
    ///
    /// An unknown path.
    pub fn knob(&self, path: &str) -> Result<(Knob, Value), KnobError> {
        let (values, knob) = self.find(path)?;
        let values = values.map_or(&self.application, |class| &self.classes[class].values);
        Ok((knob, values.value(knob)))
    }

    /// Whether its algorithm is one that finds the server's capacity.
    #[must_use]
    pub fn seeks_capacity(&self) -> bool {
        let algorithm = self.application.get(keys::IN_FLIGHT_ALGORITHM).0;
        matches!(algorithm, Algorithm::KneeTrack | Algorithm::PowerRatio)
    }

    /// Sets knobs, all or none, as one change.
    ///
    /// # Errors
    ///
    /// The first unknown path, value that a row does not allow, or contradiction to another knob, judged after all have
    /// been changed.
    pub fn apply(&mut self, changes: &[(&str, Value)]) -> Result<(), KnobError> {
        let mut application = self.application.clone();
        let mut classes: Vec<Values> = self.classes.iter().map(|class| class.values.clone()).collect();
        for (path, value) in changes {
            let (class, knob) = self.find(path)?;
            let values = class.map_or(&mut application, |class| &mut classes[class]);
            values.set(knob, *value).map_err(|fault| KnobError::Value { path: (*path).to_owned(), fault })?;
        }
        for (path, _) in changes {
            let (class, knob) = self.find(path)?;
            let values = class.map_or(&application, |class| &classes[class]);
            let wrong = values.disagreements().find(|(low, high)| knob == *low || knob == *high);
            if let Some((low, high)) = wrong {
                let (what, mend) = values.disagreement(low, high);
                let of = path.strip_suffix(knob.name()).unwrap_or_default();
                return Err(KnobError::Disagrees { path: format!("{of}{}", low.name()), what, mend });
            }
        }
        self.application = application;
        for (class, values) in self.classes.iter_mut().zip(classes) {
            class.values = values;
        }
        self.admission.configure(self.now, &settings(&self.application, &self.classes));
        self.clients.configure(self.now, ClientRateSettings::from_values(&self.application));
        self.set_room();
        Ok(())
    }

    fn set_room(&mut self) {
        let room = room::settings(&self.application, &self.classes);
        self.hall.configure(self.now, &room);
    }

    /// The waiting room as it stands.
    #[must_use]
    pub const fn room(&self) -> &Room {
        self.hall.room()
    }

    /// Admission as it stands.
    #[must_use]
    pub const fn admission(&self) -> &Admission {
        &self.admission
    }

    /// Leaves out the archives, for runs of many virtual seconds in which nobody asks what was: a second of them
    /// costs as much as some ten requests.
    #[must_use]
    pub fn without_archives(mut self) -> Self {
        self.measured.keep_nothing();
        self
    }

    /// What its meters read, second by second.
    #[must_use]
    pub const fn archives(&self) -> &Archives {
        self.measured.archives()
    }

    /// The scope of a path (`None`: the application) and its knob.
    fn find(&self, path: &str) -> Result<(Option<usize>, Knob), KnobError> {
        let unknown = || KnobError::Unknown { path: path.to_owned(), application: self.name.clone() };
        let rest =
            path.strip_prefix(&self.name).and_then(|rest| rest.strip_prefix('/')).ok_or_else(unknown)?;
        if let Some(knob) = Knob::find(Scope::Application, rest) {
            return Ok((None, knob));
        }
        let (class, knob) = rest.split_once('/').ok_or_else(unknown)?;
        let class = self.classes.iter().position(|known| known.name == class).ok_or_else(unknown)?;
        Ok((Some(class), Knob::find(Scope::Class, knob).ok_or_else(unknown)?))
    }

    fn hold(&mut self, slot: usize, held: Held) {
        if self.held.len() <= slot {
            self.held.resize_with(slot + 1, Held::default);
        }
        self.held[slot] = held;
    }

    fn started(&mut self, id: u64, permit: Permit, arrived: Timestamp) {
        let timeout = self.application.get(keys::RESPONSE_TIMEOUT);
        self.timeouts.push_back((self.now + timeout, id));
        self.measured.started(permit.class(), self.now.since(arrived));
        self.hold(slot(id), Held::Permit { id, permit, arrived });
    }

    /// Takes back what is held for a request, if it is a permit; and when it arrived.
    fn permit(&mut self, id: u64) -> Option<(Permit, Timestamp)> {
        if !self.holds_permit(id) {
            return None;
        }
        match std::mem::take(self.held.get_mut(slot(id))?) {
            Held::Permit { permit, arrived, .. } => Some((permit, arrived)),
            _ => None,
        }
    }

    fn holds_permit(&self, id: u64) -> bool {
        matches!(self.held.get(slot(id)), Some(Held::Permit { id: other, .. }) if *other == id)
    }

    /// Answers with a refusal.
    fn refuse(&mut self, class: ClassId, refusal: Refusal) -> Verdict {
        let status = self.application.get(keys::REFUSAL_STATUS).0.of(refusal);
        self.measured.refused(class, refusal, status);
        Verdict::Refuse(refusal.name())
    }

    /// Answers with a time to come again, as the waiting room does.
    fn put_off(&mut self, class: ClassId, promise: Promise) -> Verdict {
        self.measured.answered(class, 503);
        Verdict::Later(promise)
    }

    /// Counts what admission has come to believe of the capacity: that it fell, rose, or was never what it seemed. What
    /// a search finds, what costs explain and what is told are no changes.
    fn note_changes(&mut self) {
        self.admission.drain_capacity_events(&mut self.capacity_events);
        for CapacityEvent { cause, .. } in self.capacity_events.drain(..) {
            self.measured.capacity_changed(cause);
            let is_change =
                matches!(cause, Cause::Fall | Cause::Rise | Cause::Search | Cause::More | Cause::Proof);
            self.changes += u64::from(is_change);
        }
    }

    /// Closes the seconds that are over.
    fn measure(&mut self, now: Timestamp) {
        while self.measured.next().is_some_and(|moment| moment <= now) {
            let lingering = self.lingering.iter().filter(|(_, id)| self.holds_permit(*id)).count();
            let measured = &mut self.measured;
            self.admission.drain_would_refuse(|class, refusal, count| {
                measured.would_refuse(class, refusal, count);
            });
            self.hall.drain_counts(|class, what, count| measured.room(class, what, count));
            let levels = self.admission.levels();
            measured.close(&Standing {
                in_flight: levels.in_flight,
                limit: u64::from(levels.limit),
                dormant: levels.dormant,
                room: self.hall.standing(now).map(|standing| (standing.waiting, standing.next)),
                lingering: lingering as u64,
                capacity: levels.capacity.map(thousandths),
                costs: levels.costs().map(|(_, cost)| cost.map(thousandths)).collect(),
                queued: levels.queued().map(|(_, queued)| queued as u64).collect(),
                would_wait: levels.would_wait().map(|(_, waiting)| waiting as u64).collect(),
            });
        }
    }
}

impl Front for Gateway {
    fn connect(&mut self, now: Timestamp, request: &Request) -> bool {
        self.now = now;
        let session = match request.hello {
            Hello::Open => return true,
            Hello::Resumed => Session::Resumed,
            Hello::New => Session::New,
        };
        if self.application.get(keys::TLS_SESSIONS_MODE).0 == Mode::Off {
            return true;
        }
        let greeting = self.admission.greet(now, session);
        self.measured.greeted(session, greeting);
        if greeting == Greeting::Refuse {
            return false;
        }
        self.greeted.insert(request.client, (session, false));
        true
    }

    fn makes_handshakes(&self) -> bool {
        true
    }

    fn arrive(&mut self, now: Timestamp, request: &Request) -> Verdict {
        self.now = now;
        self.measured.arrived(request.class);
        let session = self.greeted.get_mut(&request.client).map(|(session, has_begun)| {
            if !std::mem::replace(has_begun, true) {
                self.admission.begin_session(*session);
            }
            *session
        });
        self.admission.note_session_work(session, request.class);
        let of_clients = ClientRateSettings::mode(&self.application);
        if of_clients != Mode::Off
            && self.application.get(keys::CLIENT_RATE).is_some()
            && self.clients.take(now, u64::from(request.client)).is_err()
        {
            if of_clients == Mode::Enforce {
                return self.refuse(request.class, Refusal::ClientRate);
            }
            self.measured.would_refuse(request.class, Refusal::ClientRate, 1);
        }
        let mut entered = Entered::default();
        if self.hall.is_on() && self.application.get(keys::MODE).0 == Mode::Enforce {
            match self.hall.arrive(now, &mut self.admission, request) {
                Before::Enter(how) => entered = how,
                Before::Later(promise) => return self.put_off(request.class, promise),
                Before::Refuse(refusal) => return self.refuse(request.class, refusal),
            }
        }
        let class = &self.classes[request.class.index()].values;
        let exchange = Exchange {
            class: request.class,
            priority: entered
                .priority
                .unwrap_or_else(|| u8::try_from(class.get(keys::PRIORITY)).unwrap_or(u8::MAX)),
            weight: u32::try_from(class.get(keys::WEIGHT)).unwrap_or(u32::MAX),
            deadline: request.deadline,
            bytes: HEAD_BYTES,
        };
        match self.admission.arrive(now, exchange) {
            Arrival::Start(permit) => {
                self.hall.give(entered.pass);
                self.started(request.id, permit, now);
                Verdict::Start
            }
            Arrival::Wait(ticket) => {
                self.queued += 1;
                let index = ticket.index as usize;
                if self.waiting.len() <= index {
                    self.waiting.resize(index + 1, 0);
                }
                self.waiting[index] = request.id;
                let promise = request.promise;
                self.hold(
                    request.slot(),
                    Held::Place { ticket, class: request.class, arrived: now, promise, entered },
                );
                Verdict::Wait
            }
            Arrival::Refuse(refusal) => {
                match self.hall.missed(now, request.class, request.promise, entered, refusal) {
                    Some(promise) => self.put_off(request.class, promise),
                    None => self.refuse(request.class, refusal),
                }
            }
        }
    }

    fn look(&self, now: Timestamp, promise: &Promise) -> Timestamp {
        self.hall.room().look(now, promise).at.unwrap_or(promise.at)
    }

    fn leave(&mut self, now: Timestamp, request: &Request) {
        self.now = now;
        let Some(held) = self.held.get_mut(request.slot()) else { return };
        let Held::Place { ticket, class, .. } = std::mem::take(held) else { return };
        self.queued -= 1;
        self.measured.left(class);
        if let Departure::AlreadyGranted(permit) = self.admission.leave(now, ticket) {
            self.admission.depart(now, permit, Outcome::Ignore);
        }
    }

    fn abandoned(&mut self, now: Timestamp, request: &Request) {
        self.now = now;
        let Some(Held::Permit { permit, .. }) = self.held.get(request.slot()) else { return };
        self.measured.abandoned(permit.class());
        if let Some(shadow) = permit.shadow() {
            self.admission.abandon(now, shadow);
        }
        if let Some(linger) = self.classes[permit.class().index()].linger {
            self.lingering.insert((permit.started() + linger, request.id));
        }
    }

    fn depart(&mut self, now: Timestamp, request: &Request, done: &Done) {
        self.now = now;
        // Without: it was given back when it had lingered or the response had taken too long.
        let Some((permit, arrived)) = self.permit(request.id) else { return };
        let class = &mut self.classes[permit.class().index()];
        self.measured.served(permit.class(), done.service_time);
        if !done.abandoned {
            let within = class.values.get(keys::GOODPUT_WITHIN);
            let status = match done.end {
                End::Success => 200,
                End::Error => 500,
                End::ServerRefused => 503,
            };
            self.measured.responded(permit.class(), status, now.since(arrived), within);
        }
        let outcome = match done.end {
            End::Success => {
                let nanos = u64::try_from(done.service_time.as_nanos()).unwrap_or(u64::MAX);
                class.service_times.record(nanos, 1);
                Outcome::Success
            }
            // 500: it says nothing of load. 503: it does.
            End::Error => Outcome::Ignore,
            End::ServerRefused => Outcome::Drop,
        };
        self.admission.depart(now, permit, outcome);
        // Whoever is first may go.
        while let Some((_, id)) = self.timeouts.front() {
            if self.holds_permit(*id) {
                break;
            }
            self.timeouts.pop_front();
        }
    }

    fn decided(&mut self, out: &mut Vec<(u64, Verdict)>) {
        out.append(&mut self.decided);
        self.admission.drain_decided(&mut self.tickets);
        let mut tickets = std::mem::take(&mut self.tickets);
        for ticket in tickets.drain(..) {
            let Some(&id) = self.waiting.get(ticket.index as usize) else { continue };
            // A client that has left may be among them.
            let slot = slot(id);
            let Some(&Held::Place { ticket: own, class, arrived, promise, entered }) = self.held.get(slot)
            else {
                continue;
            };
            if own != ticket {
                continue;
            }
            match self.admission.collect(self.now, ticket) {
                Some(Ok(permit)) => {
                    self.queued -= 1;
                    self.hall.give(entered.pass);
                    self.started(id, permit, arrived);
                    out.push((id, Verdict::Start));
                }
                Some(Err(refusal)) => {
                    self.queued -= 1;
                    self.held[slot] = Held::Nothing;
                    let verdict = match self.hall.missed(self.now, class, promise, entered, refusal) {
                        Some(promise) => self.put_off(class, promise),
                        None => self.refuse(class, refusal),
                    };
                    out.push((id, verdict));
                }
                None => {}
            }
        }
        self.tickets = tickets;
    }

    fn next_timeout(&self) -> Option<Timestamp> {
        let own = self.timeouts.front().map(|(moment, _)| *moment);
        let lingers = self.lingering.first().map(|(moment, _)| *moment);
        let second = self.measured.next();
        [self.admission.next_timeout(), own, lingers, second, self.law.next(), self.hall.next()]
            .into_iter()
            .flatten()
            .min()
    }

    fn advance(&mut self, now: Timestamp) {
        self.now = now;
        while let Some((_, id)) = self.timeouts.front().copied().filter(|(moment, _)| *moment <= now) {
            self.timeouts.pop_front();
            if let Some((permit, arrived)) = self.permit(id) {
                self.measured.responded(permit.class(), 504, now.since(arrived), Duration::MAX);
                self.admission.depart(now, permit, Outcome::Drop);
                self.decided.push((id, Verdict::Refuse(RESPONSE_TIMEOUT)));
            }
        }
        while let Some((_, id)) = self.lingering.first().copied().filter(|(moment, _)| *moment <= now) {
            self.lingering.pop_first();
            if let Some((permit, _)) = self.permit(id) {
                self.admission.depart(now, permit, Outcome::Ignore);
            }
        }
        self.admission.advance(now);
        self.note_changes();
        self.hall.advance(now, &mut self.admission);
        self.measure(now);
        self.control();
    }

    fn tick(&mut self, now: Timestamp, _server: &ServerView) {
        self.now = now;
        let longest = self.application.get(keys::RESPONSE_TIMEOUT);
        for class in &mut self.classes {
            let known = class.service_times.quantile(0.99).map(Duration::from_nanos);
            class.linger = known.map(|time| time.max(LINGER_MIN).min(longest));
        }
    }

    fn levels(&self) -> Levels {
        let levels = self.admission.levels();
        Levels {
            in_flight: levels.in_flight,
            limit: Some(f64::from(levels.limit)),
            queued: self.queued,
            capacity: levels.capacity,
            changes: self.changes,
        }
    }
}

fn settings(application: &Values, classes: &[Class]) -> AdmissionSettings {
    let values: Vec<&Values> = classes.iter().map(|class| &class.values).collect();
    AdmissionSettings::from_values(application, &values)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "not negative; `as` saturates")]
fn thousandths(value: f64) -> u64 {
    (value * 1000.0).round() as u64
}
