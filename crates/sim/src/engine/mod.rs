//! The engine: takes what is due next and lets it happen.
//!
//! # One request's way
//!
//! A client sends ([`World::send`]); after the network's latency the request reaches the front
//! ([`World::reach`]), which lets its handshake be worked on, starts it, makes it wait or refuses it.
//! What starts gets a thread or waits for one in the backlog ([`World::start`]), works, waits for
//! the database, works again ([`World::worked`]), and ends ([`World::end`]); the reply travels back
//! ([`World::reply`]). Beside that runs the client's patience ([`World::give_up`]): when it has
//! given up, the news travels to the front, and the server goes on for nobody.
//!
//! # Order
//!
//! Of what is due at the same moment, work ends first, then comes what the calendar holds in the order
//! in which it was noted, then patience ends, then the fronts' own times. After each, fronts are
//! asked what they have decided, until that is nothing.

mod arrivals;
mod attempts;
mod calendar;
mod handshakes;
mod ledger;
mod population;
mod processors;
mod server;
mod users;

use std::time::Duration;

use tidegate_control::Timestamp;

use self::{
    attempts::{Attempts, Phase},
    calendar::{Calendar, Event},
    handshakes::Handshakes,
    ledger::Ledger,
    population::{Source, User},
    processors::Processors,
    server::{ServerState, Taken},
};
use crate::{
    ProcessorManager, Random, RunResult,
    clients::Population,
    front::{Done, End, Front, Hello, ServerView, Verdict},
    scenario::{Application, START, Scenario},
    trace::Trace,
};

/// Calls of one front at one moment after which it is taken to be stuck.
const FRONT_CALLS_MAX: u32 = 1_000_000;

/// An application in a run.
struct State<'s> {
    application: &'s Application,
    server: ServerState<'s>,
    /// Handshakes of a front that makes them itself.
    handshakes: Option<Handshakes>,
    sources: Vec<Source<'s>>,
    users: Vec<User>,
    ended_users: Vec<u32>,
    sessions: u32,
    ledger: Ledger,
    latency: Random,
    returns: Random,
    /// Processor seconds at the last tick, and at the manager's last look.
    busy_at_tick: f64,
    busy_at_look: f64,
    /// Hellos since the last tick, and since the manager's last look: resumed, new.
    hellos_of_tick: [u64; 2],
    hellos_of_look: [u64; 2],
}

/// Everything there is in a run.
pub(crate) struct World<'s, 'f> {
    scenario: &'s Scenario,
    now: Timestamp,
    end: Timestamp,
    calendar: Calendar,
    processors: Processors,
    attempts: Attempts,
    states: Vec<State<'s>>,
    fronts: Vec<&'f mut dyn Front>,
    manager: Option<&'f mut dyn ProcessorManager>,
    trace: Trace,
    decided: Vec<(u64, Verdict)>,
    /// Times in a row a front's own time was due at this very moment.
    front_calls: u32,
}

/// What is due next.
#[derive(Clone, Copy)]
enum Due {
    Work,
    Database(usize),
    Calendar,
    Patience(usize, usize),
    Front(usize),
}

/// What happens, as the trace writes it.
#[derive(Clone, Copy)]
enum Mark {
    Sent = 1,
    Started,
    Waits,
    Refused,
    Begun,
    Ended,
    Replied,
    GaveUp,
    Left,
    Told,
}

impl<'s, 'f> World<'s, 'f> {
    pub(crate) fn new(
        scenario: &'s Scenario,
        fronts: Vec<&'f mut dyn Front>,
        manager: Option<&'f mut dyn ProcessorManager>,
    ) -> Self {
        assert_eq!(fronts.len(), scenario.applications.len(), "a front for each application");
        let mut world = Self {
            scenario,
            now: START,
            end: START + scenario.duration,
            calendar: Calendar::default(),
            processors: Processors::new(scenario.host.processors, scenario.host.sharing, START),
            attempts: Attempts::default(),
            states: Vec::new(),
            fronts,
            manager,
            trace: Trace::default(),
            decided: Vec::new(),
            front_calls: 0,
        };
        for (number, application) in (0..).zip(&scenario.applications) {
            world.add(number, application);
        }
        for (change, entry) in (0..).zip(&scenario.host.speed) {
            world.calendar.note(START + entry.at, Event::Speed { change });
        }
        if let Some(manager) = &world.manager {
            world.calendar.note(START + manager.interval(), Event::Manager);
        }
        world.calendar.note(START + scenario.tick, Event::Tick);
        world
    }

    /// Lets everything happen until the end.
    pub(crate) fn run(mut self) -> Vec<RunResult> {
        while let Some(due) = self.next() {
            match due {
                Due::Work => {
                    if let Some(id) = self.processors.end(self.now) {
                        self.worked(id);
                    }
                }
                Due::Database(state) => {
                    if let Some(id) = self.states[state].server.queried(self.now) {
                        self.worked(id);
                    }
                }
                Due::Calendar => {
                    if let Some(event) = self.calendar.take() {
                        self.happens(event);
                    }
                }
                Due::Patience(state, source) => {
                    if let Some((_, id)) = self.states[state].sources[source].timeouts.pop_front() {
                        self.give_up(id);
                    }
                }
                Due::Front(front) => self.fronts[front].advance(self.now),
            }
            self.settle();
        }
        let (scenario, hash, requests) = (self.scenario, self.trace.hash(), self.attempts.numbered());
        self.states.into_iter().map(|state| state.ledger.close(scenario, hash, requests)).collect()
    }

    fn add(&mut self, number: u16, application: &'s Application) {
        let seed = self.scenario.seed;
        let stream = |what: &str| Random::new(seed, &format!("{number}/{what}"));
        let server = &application.server;
        self.processors.group(server.processors.clone(), server.share, server.switching);
        for (fault, entry) in (0..).zip(&server.faults) {
            let note = |begins| Event::Fault { application: number, fault, begins };
            self.calendar.note(START + entry.at, note(true));
            self.calendar.note(START + entry.at + entry.lasts, note(false));
        }
        let mut sources = Vec::new();
        for (source, clients) in (0..).zip(&application.clients) {
            let mut state = Source::new(clients, seed, &format!("{number}/{source}"));
            if let Some(at) = state.next_arrival() {
                self.calendar.note(at, Event::Arrival { application: number, source });
            }
            if let Population::Browsers { count, .. } = &clients.population {
                for (step, (at, _)) in (0..).zip(count) {
                    self.calendar.note(START + *at, Event::Browsers { application: number, source, step });
                }
            }
            sources.push(state);
        }
        self.states.push(State {
            application,
            server: ServerState::new(server, stream("server"), START),
            handshakes: self.fronts[usize::from(number)]
                .makes_handshakes()
                .then(|| Handshakes::new(self.scenario.host.processors, START)),
            sources,
            users: Vec::new(),
            ended_users: Vec::new(),
            sessions: 0,
            ledger: Ledger::new(application),
            latency: stream("latency"),
            returns: stream("returns"),
            busy_at_tick: 0.0,
            busy_at_look: 0.0,
            hellos_of_tick: [0; 2],
            hellos_of_look: [0; 2],
        });
    }

    /// Moves to the next moment at which something is due; `None`: the run is over.
    fn next(&mut self) -> Option<Due> {
        let mut at = self.processors.next();
        let mut due = Due::Work;
        let mut earlier = |moment: Timestamp, what: Due| {
            if moment < at {
                (at, due) = (moment, what);
            }
        };
        for (number, state) in self.states.iter().enumerate() {
            if let Some(database) = &state.server.database {
                earlier(database.next(), Due::Database(number));
            }
        }
        earlier(self.calendar.next(), Due::Calendar);
        for (number, state) in self.states.iter().enumerate() {
            for (source, clients) in state.sources.iter().enumerate() {
                if let Some((moment, _)) = clients.timeouts.front() {
                    earlier(*moment, Due::Patience(number, source));
                }
            }
        }
        for (number, front) in self.fronts.iter().enumerate() {
            if let Some(moment) = front.next_timeout() {
                earlier(moment, Due::Front(number));
            }
        }
        if at > self.end {
            return None;
        }
        self.front_calls =
            if at <= self.now && matches!(due, Due::Front(_)) { self.front_calls + 1 } else { 0 };
        assert!(
            self.front_calls < FRONT_CALLS_MAX,
            "a front's next timeout stays at {at} although it was advanced"
        );
        // A front whose time is over is asked at once.
        self.now = self.now.max(at);
        Some(due)
    }

    fn happens(&mut self, event: Event) {
        match event {
            Event::Arrival { application, source } => self.arrival(application, source),
            Event::Send(id) => self.send(id),
            Event::Look(id) => self.look(id),
            Event::Reach(id) => self.reach(id),
            Event::Gone(id) => self.gone(id),
            Event::Reply(id) => self.reply(id),
            Event::Thought { application, user } => self.thought(application, user),
            Event::Browsers { application, source, step } => self.browsers(application, source, step),
            Event::Fault { application, fault, begins } => {
                let state = &mut self.states[usize::from(application)];
                let what = state.server.settings.faults[usize::from(fault)].what;
                state.server.trouble(what, begins);
                self.pace(application);
            }
            Event::Collected { application } => {
                self.states[usize::from(application)].server.collected();
                self.pace(application);
            }
            Event::Speed { change } => {
                let speed = self.scenario.host.speed[usize::from(change)].to;
                self.processors.set_speed(self.now, speed);
                for state in &mut self.states {
                    if let Some(database) = &mut state.server.database {
                        database.set_speed(self.now, speed);
                    }
                }
            }
            Event::Manager => self.manage(),
            Event::Tick => self.tick(),
        }
    }

    /// Asks fronts what they have decided, until that is nothing.
    fn settle(&mut self) {
        for number in 0..self.fronts.len() {
            loop {
                self.fronts[number].decided(&mut self.decided);
                if self.decided.is_empty() {
                    break;
                }
                let mut decided = std::mem::take(&mut self.decided);
                for (id, verdict) in decided.drain(..) {
                    self.decide(id, verdict);
                }
                self.decided = decided;
            }
        }
    }

    /// A client sends a request.
    fn send(&mut self, id: u64) {
        let Some(attempt) = self.attempts.get_mut(id) else { return };
        let state = &mut self.states[attempt.request.application.index()];
        let class = &state.application.classes[attempt.request.class.index()];
        attempt.request.sent = self.now;
        attempt.request.deadline = class.deadline.map(|span| self.now + span);
        if attempt.request.attempt == 0 {
            attempt.request.first_sent = self.now;
            attempt.measured = self.now >= START + self.scenario.warm_up;
        }
        let source = &mut state.sources[usize::from(attempt.source)];
        if let (Some(tls), Some(user)) = (&state.application.tls, state.users.get(attempt.user as usize)) {
            attempt.request.hello = user.connection.hello(self.now, tls);
        }
        state.ledger.sent(attempt);
        self.trace.add(self.now.as_nanos() ^ Mark::Sent as u64);
        self.trace.add(id);
        if let Some(patience) = source.clients.behaviour.timeout {
            source.timeouts.push_back((self.now + patience, id));
        }
        if source.chance(state.application.network.lost) {
            state.ledger.lost(attempt);
            attempt.client_done = true;
            let (application, user) = (attempt.request.application, attempt.user);
            self.travel(id, Event::Reach(id));
            self.answered(application, user, false);
            return;
        }
        self.travel(id, Event::Reach(id));
    }

    /// Lets something happen after the network's latency, at once if there is none.
    fn travel(&mut self, id: u64, event: Event) {
        let Some(attempt) = self.attempts.get(id) else { return };
        let state = &mut self.states[attempt.request.application.index()];
        let latency = state.application.network.latency.span(&mut state.latency);
        if latency.is_zero() {
            self.happens(event);
        } else {
            self.calendar.note(self.now + latency, event);
        }
    }

    /// A request, or its connection, reaches the front.
    fn reach(&mut self, id: u64) {
        let Some(attempt) = self.attempts.get_mut(id) else { return };
        attempt.arrived = self.now;
        let application = attempt.request.application.index();
        let state = &mut self.states[application];
        if attempt.known_gone {
            self.forget(id);
            return;
        }
        if handshakes::cost(state.application, attempt).is_none() {
            self.arrive(id);
            return;
        }
        let kind = usize::from(attempt.request.hello == Hello::New);
        state.hellos_of_tick[kind] += 1;
        state.hellos_of_look[kind] += 1;
        if !self.fronts[application].connect(self.now, &attempt.request) {
            self.refuse(id, "connection");
            return;
        }
        self.secure(id);
    }

    fn arrive(&mut self, id: u64) {
        let Some(attempt) = self.attempts.get(id) else { return };
        let request = attempt.request;
        let verdict = self.fronts[request.application.index()].arrive(self.now, &request);
        self.decide(id, verdict);
    }

    fn decide(&mut self, id: u64, verdict: Verdict) {
        let Some(attempt) = self.attempts.get_mut(id) else { return };
        let mark = match verdict {
            Verdict::Start => Mark::Started,
            Verdict::Wait => Mark::Waits,
            Verdict::Refuse(_) => Mark::Refused,
            Verdict::Later(_) => Mark::Told,
        };
        self.trace.add(self.now.as_nanos() ^ mark as u64);
        self.trace.add(id);
        if verdict != Verdict::Start && std::mem::take(&mut attempt.has_thread) {
            let application = attempt.request.application.index();
            self.leave_thread(application);
        }
        let Some(attempt) = self.attempts.get_mut(id) else { return };
        match verdict {
            Verdict::Start => self.start(id),
            Verdict::Wait => attempt.phase = Phase::Waiting,
            Verdict::Refuse(reason) => self.refuse(id, reason),
            Verdict::Later(promise) => self.later(id, promise),
        }
    }

    /// The front refuses, or answers with an error while the server goes on.
    fn refuse(&mut self, id: u64, reason: &'static str) {
        let Some(attempt) = self.attempts.get_mut(id) else { return };
        attempt.refused = Some(reason);
        self.states[attempt.request.application.index()].ledger.refused(attempt, reason);
        if matches!(attempt.phase, Phase::Travelling | Phase::Waiting) {
            attempt.phase = Phase::Ended;
        }
        self.answer(id);
    }

    /// The front starts it: it goes to the server.
    fn start(&mut self, id: u64) {
        let Some(attempt) = self.attempts.get_mut(id) else { return };
        attempt.started = self.now;
        let state = &mut self.states[attempt.request.application.index()];
        state.ledger.started(attempt, self.now);
        if std::mem::take(&mut attempt.has_thread) {
            self.begin(id);
            return;
        }
        match state.server.take(id) {
            Taken::Thread => self.begin(id),
            Taken::Backlog => attempt.phase = Phase::Backlog,
            Taken::Refused => {
                attempt.refused = Some("server");
                state.ledger.refused(attempt, "server");
                self.depart(id, End::ServerRefused, 0.0);
            }
        }
    }

    /// It has a thread, which begins to work.
    fn begin(&mut self, id: u64) {
        let Some(attempt) = self.attempts.get_mut(id) else { return };
        let application = attempt.request.application.index();
        let state = &mut self.states[application];
        attempt.begun = Some(self.now);
        let queued = self.now.since(attempt.started);
        self.trace.add(self.now.as_nanos() ^ Mark::Begun as u64);
        self.trace.add(id);
        self.fronts[application].begun(self.now, &attempt.request, queued);
        if state.server.fails() {
            attempt.fails = true;
            attempt.work = 0.0;
            attempt.database = 0.0;
        }
        attempt.phase = Phase::Work;
        let level = state.application.classes[attempt.request.class.index()].level;
        let work = if attempt.database > 0.0 { attempt.work / 2.0 } else { attempt.work };
        self.processors.begin(self.now, application, level, work, id);
        if let Some(pause) = state.server.allocate() {
            let over = self.now + crate::draw::seconds(pause);
            let application = attempt.request.application.0;
            self.calendar.note(over, Event::Collected { application });
            self.pace(application);
        }
    }

    /// A piece of its work is done.
    fn worked(&mut self, id: u64) {
        let Some(attempt) = self.attempts.get_mut(id) else { return };
        let application = attempt.request.application.index();
        let state = &mut self.states[application];
        match attempt.phase {
            Phase::Handshake => self.shaken(id),
            Phase::Work if attempt.database > 0.0 => {
                attempt.phase = Phase::Database;
                state.server.query(self.now, id, attempt.database);
            }
            Phase::Database => {
                attempt.phase = Phase::Rest;
                let level = state.application.classes[attempt.request.class.index()].level;
                self.processors.begin(self.now, application, level, attempt.work / 2.0, id);
            }
            _ => self.end(id),
        }
    }

    /// The server ends it, and its thread takes the next.
    fn end(&mut self, id: u64) {
        let Some(attempt) = self.attempts.get(id) else { return };
        let application = attempt.request.application.index();
        let end = if attempt.fails { End::Error } else { End::Success };
        let work = attempt.work + attempt.database;
        self.depart(id, end, work);
        self.leave_thread(application);
    }

    /// A thread is done and takes what is next in the backlog.
    fn leave_thread(&mut self, application: usize) {
        while let Some(next) = self.states[application].server.next() {
            let drops = self.states[application].server.settings.drops_abandoned;
            let Some(attempt) = self.attempts.get_mut(next) else { continue };
            match attempt.phase {
                Phase::HandshakeBacklog if drops && attempt.client_done => self.drop_hello(next),
                Phase::HandshakeBacklog => {
                    attempt.has_thread = true;
                    return self.shake(next);
                }
                _ if drops && attempt.client_done => self.depart(next, End::Error, 0.0),
                _ => return self.begin(next),
            }
        }
    }

    /// The server's side is done with it.
    fn depart(&mut self, id: u64, end: End, work: f64) {
        let Some(attempt) = self.attempts.get_mut(id) else { return };
        let application = attempt.request.application.index();
        let queued = attempt.begun.unwrap_or(self.now).since(attempt.started);
        attempt.phase = Phase::Ended;
        let in_vain = attempt.client_done || attempt.refused.is_some() || end != End::Success;
        self.states[application].ledger.ended(attempt, self.now, work, in_vain);
        self.trace.add(self.now.as_nanos() ^ Mark::Ended as u64);
        self.trace.add(id);
        let done = Done {
            end,
            service_time: self.now.since(attempt.started),
            queued,
            abandoned: attempt.known_gone,
        };
        let request = attempt.request;
        self.fronts[application].depart(self.now, &request, &done);
        self.answer(id);
    }

    /// Sends the answer there is to the client, if it is still there; else forgets what is over.
    fn answer(&mut self, id: u64) {
        let Some(attempt) = self.attempts.get(id) else { return };
        if attempt.client_done {
            if attempt.phase == Phase::Ended {
                self.forget(id);
            }
        } else {
            self.travel(id, Event::Reply(id));
        }
    }

    /// The answer is there.
    fn reply(&mut self, id: u64) {
        let Some(attempt) = self.attempts.get_mut(id) else { return };
        if !attempt.client_done {
            attempt.client_done = true;
            self.trace.add(self.now.as_nanos() ^ Mark::Replied as u64);
            self.trace.add(id);
            if attempt.refused.is_none() && !attempt.fails {
                self.states[attempt.request.application.index()].ledger.replied(attempt, self.now);
                let (application, user) = (attempt.request.application, attempt.user);
                self.answered(application, user, true);
            } else {
                let attempt = attempt.clone();
                self.failed(&attempt, false);
            }
        }
        if self.attempts.get(id).is_some_and(|attempt| attempt.phase == Phase::Ended) {
            self.forget(id);
        }
    }

    /// A client's patience is at its end.
    fn give_up(&mut self, id: u64) {
        let Some(attempt) = self.attempts.get_mut(id) else { return };
        if attempt.client_done {
            return;
        }
        attempt.client_done = true;
        self.states[attempt.request.application.index()].ledger.timed_out(attempt);
        self.trace.add(self.now.as_nanos() ^ Mark::GaveUp as u64);
        self.trace.add(id);
        let attempt = attempt.clone();
        self.travel(id, Event::Gone(id));
        self.failed(&attempt, true);
    }

    /// The news that a client has closed reaches the front.
    fn gone(&mut self, id: u64) {
        let Some(attempt) = self.attempts.get_mut(id) else { return };
        attempt.known_gone = true;
        let application = attempt.request.application.index();
        let request = attempt.request;
        match attempt.phase {
            Phase::HandshakeBacklog => {
                let handshakes = self.states[application].handshakes.as_mut();
                if handshakes.is_some_and(|handshakes| handshakes.leave(self.now, id)) {
                    attempt.phase = Phase::Ended;
                    self.forget(id);
                }
            }
            // It is on its way, or its handshake is worked on: it ends there.
            Phase::Travelling | Phase::Handshake => {}
            Phase::Waiting => {
                attempt.phase = Phase::Ended;
                self.states[application].ledger.left(attempt);
                self.trace.add(self.now.as_nanos() ^ Mark::Left as u64);
                self.trace.add(id);
                self.fronts[application].leave(self.now, &request);
                self.forget(id);
            }
            Phase::Backlog | Phase::Work | Phase::Database | Phase::Rest => {
                self.fronts[application].abandoned(self.now, &request);
            }
            Phase::Ended => self.forget(id),
        }
    }

    /// Forgets an attempt whose client and server are both done with it.
    fn forget(&mut self, id: u64) {
        let Some(attempt) = self.attempts.get(id) else { return };
        let state = &mut self.states[attempt.request.application.index()];
        let source = &mut state.sources[usize::from(attempt.source)];
        self.attempts.remove(id);
        // Patience that waits for nobody goes when its turn comes.
        while source.timeouts.front().is_some_and(|(_, waits)| self.attempts.get(*waits).is_none()) {
            source.timeouts.pop_front();
        }
    }

    /// Takes an attempt's application to its present pace.
    fn pace(&mut self, application: u16) {
        let group = usize::from(application);
        let pace = self.states[group].server.pace();
        self.processors.set_pace(self.now, group, pace);
    }

    fn tick(&mut self) {
        for (number, front) in self.fronts.iter_mut().enumerate() {
            let state = &mut self.states[number];
            let busy = self.processors.busy(self.now, number);
            let view = look(
                state,
                busy - state.busy_at_tick,
                self.scenario.tick,
                self.processors.usable(number),
                state.hellos_of_tick,
            );
            state.busy_at_tick = busy;
            state.hellos_of_tick = [0; 2];
            state.ledger.tick(self.now, &front.levels(), &view);
            front.tick(self.now, &view);
        }
        self.calendar.note(self.now + self.scenario.tick, Event::Tick);
    }

    fn manage(&mut self) {
        let Some(manager) = &mut self.manager else { return };
        let interval = manager.interval();
        let mut views = Vec::new();
        for (number, state) in self.states.iter_mut().enumerate() {
            let busy = self.processors.busy(self.now, number);
            let usable = self.processors.usable(number);
            views.push(look(state, busy - state.busy_at_look, interval, usable, state.hellos_of_look));
            state.busy_at_look = busy;
            state.hellos_of_look = [0; 2];
        }
        for (number, set) in manager.assign(self.now, &views).into_iter().enumerate().take(views.len()) {
            self.processors.set_affinity(self.now, number, Some(set));
        }
        self.calendar.note(self.now + interval, Event::Manager);
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "a backlog of 2^32 requests does not fit the table of attempts"
)]
fn look(state: &State<'_>, busy_s: f64, span: Duration, processors: f64, hellos: [u64; 2]) -> ServerView {
    ServerView {
        threads_busy: state.server.threads_busy,
        backlog: state.server.backlog.len() as u32,
        busy: busy_s / span.as_secs_f64().max(f64::MIN_POSITIVE),
        processors,
        resumed: hellos[0],
        new: hellos[1],
    }
}
