//! What clients do: arrive, go from page to page, try again, end.

use std::time::Duration;

use tidegate_control::{ApplicationId, ClassId, Timestamp, waiting_room::Promise};

use super::{
    World,
    attempts::{Attempt, NOBODY, Phase},
    calendar::Event,
    population::{Connection, User, next_page},
};
use crate::{
    clients::Population,
    front::{Hello, Request},
    scenario::START,
};

/// A browser that waits asks how things stand no more and no less often than this.
const LOOK_MIN: Duration = Duration::from_secs(1);
const LOOK_MAX: Duration = Duration::from_secs(20);

/// For whom an attempt is made.
#[derive(Clone, Copy)]
struct Errand {
    application: u16,
    source: u16,
    user: u32,
    client: u32,
    session: Option<u32>,
    hello: Hello,
}

impl World<'_, '_> {
    /// An arrival is due.
    pub(super) fn arrival(&mut self, application: u16, source: u16) {
        let state = &mut self.states[usize::from(application)];
        let from = &mut state.sources[usize::from(source)];
        let class = from.due_class;
        if let Some(at) = from.next_arrival() {
            self.calendar.note(at, Event::Arrival { application, source });
        }
        if let Population::Open { clients, .. } = &from.clients.population {
            let class = class.unwrap_or_else(|| from.class());
            let client = from.choices.below(u64::from(*clients));
            let client = u32::try_from(client).unwrap_or(0);
            let hello = match &state.application.tls {
                None => Hello::Open,
                Some(tls) if from.choices.chance(tls.new_share) => Hello::New,
                Some(_) => Hello::Resumed,
            };
            let id =
                self.make(Errand { application, source, user: NOBODY, client, session: None, hello }, class);
            self.send(id);
        } else {
            let user = self.user(application, source);
            self.begin_session(application, user);
        }
    }

    /// The number of browsers changes.
    pub(super) fn browsers(&mut self, application: u16, source: u16, step: u32) {
        let from = &mut self.states[usize::from(application)].sources[usize::from(source)];
        let Population::Browsers { count, .. } = &from.clients.population else { return };
        let Some((_, wanted)) = count.get(step as usize) else { return };
        from.wanted = *wanted;
        while from_of(self, application, source).active < *wanted {
            let from = from_of(self, application, source);
            from.active += 1;
            let user = match from.stopped.pop() {
                Some(user) => user,
                None => self.user(application, source),
            };
            self.think(application, user);
        }
    }

    /// A user has thought.
    pub(super) fn thought(&mut self, application: u16, number: u32) {
        let state = &mut self.states[usize::from(application)];
        let user = &mut state.users[number as usize];
        let from = &mut state.sources[usize::from(user.source)];
        if matches!(from.clients.population, Population::Browsers { .. }) && from.active > from.wanted {
            user.begun = false;
            from.active -= 1;
            from.stopped.push(number);
        } else if user.begun {
            self.open_page(application, number);
        } else {
            self.begin_session(application, number);
        }
    }

    /// An attempt has failed: its client tries again, or that was it.
    pub(super) fn failed(&mut self, attempt: &Attempt, timed_out: bool) {
        let request = &attempt.request;
        let state = &mut self.states[request.application.index()];
        if let Some(user) = state.users.get_mut(attempt.user as usize)
            && (timed_out || attempt.refused == Some("connection"))
        {
            user.connection.closed();
        }
        let source = &mut state.sources[usize::from(attempt.source)];
        let Some(after) = source.retries(attempt, timed_out) else {
            if let Some(user) = state.users.get_mut(attempt.user as usize) {
                user.timed_out |= timed_out;
            }
            self.answered(request.application, attempt.user, false);
            return;
        };
        let hello = match (&state.application.tls, request.hello) {
            // It has a ticket from before; or an open connection.
            (Some(_), Hello::Open) if timed_out => Hello::Resumed,
            (_, hello) => hello,
        };
        let errors = state.application.classes[request.class.index()].errors;
        let id = self.attempts.insert(Attempt {
            request: Request { attempt: request.attempt + 1, hello, ..*request },
            phase: Phase::Travelling,
            client_done: false,
            known_gone: false,
            has_thread: false,
            // It asks for the same, but what went wrong need not go wrong again.
            fails: source.chance(errors),
            refused: None,
            begun: None,
            ..attempt.clone()
        });
        self.calendar.note(self.now + after, Event::Send(id));
    }

    /// A request of a user is answered, or has failed for good.
    pub(super) fn answered(&mut self, application: ApplicationId, number: u32, good: bool) {
        let state = &mut self.states[application.index()];
        let Some(user) = state.users.get_mut(number as usize) else { return };
        if let Some(tls) = &state.application.tls
            && good
        {
            user.connection.used(self.now, tls);
        }
        user.failed |= !good;
        user.outstanding -= 1;
        if user.outstanding > 0 {
            return;
        }
        if user.failed {
            self.end_session(application.0, number, false);
            return;
        }
        let source = &mut state.sources[usize::from(user.source)];
        let Some(site) = source.site() else { return };
        let page = &site.pages[user.page];
        if !user.embedding && page.embedded > 0 {
            user.embedding = true;
            user.outstanding = page.embedded;
            for _ in 0..page.embedded {
                self.ask(application.0, number, page.embedded_class);
            }
            return;
        }
        let next =
            if user.pages < site.pages_max { next_page(site, user.page, &mut source.choices) } else { None };
        match next {
            Some(page) => {
                user.page = page;
                self.think(application.0, number);
            }
            None => self.end_session(application.0, number, true),
        }
    }

    /// Takes a user in.
    fn user(&mut self, application: u16, source: u16) -> u32 {
        let state = &mut self.states[usize::from(application)];
        let number =
            state.ended_users.pop().unwrap_or_else(|| u32::try_from(state.users.len()).unwrap_or(NOBODY));
        let user = User {
            source,
            client: number,
            session: 0,
            page: 0,
            pages: 0,
            outstanding: 0,
            embedding: false,
            failed: false,
            timed_out: false,
            measured: false,
            begun: false,
            connection: Connection::default(),
        };
        match state.users.get_mut(number as usize) {
            Some(place) => *place = user,
            None => state.users.push(user),
        }
        number
    }

    fn begin_session(&mut self, application: u16, number: u32) {
        let state = &mut self.states[usize::from(application)];
        let user = &mut state.users[number as usize];
        let source = &state.sources[usize::from(user.source)];
        let Some(site) = source.site() else { return };
        user.session = state.sessions;
        state.sessions = state.sessions.wrapping_add(1);
        if matches!(source.clients.population, Population::Sessions { .. }) {
            user.client = user.session;
        }
        user.begun = true;
        user.timed_out = false;
        user.pages = 0;
        user.page = site.entry;
        user.measured = self.now >= START + self.scenario.warm_up;
        state.ledger.sessions.begun += u64::from(user.measured);
        self.open_page(application, number);
    }

    fn open_page(&mut self, application: u16, number: u32) {
        let state = &mut self.states[usize::from(application)];
        let user = &mut state.users[number as usize];
        let Some(site) = state.sources[usize::from(user.source)].site() else { return };
        user.pages += 1;
        user.outstanding = 1;
        user.embedding = false;
        user.failed = false;
        let class = site.pages[user.page].class;
        self.ask(application, number, class);
    }

    fn end_session(&mut self, application: u16, number: u32, complete: bool) {
        let state = &mut self.states[usize::from(application)];
        let user = &mut state.users[number as usize];
        user.begun = false;
        let sessions = &mut state.ledger.sessions;
        let measured = u64::from(user.measured);
        sessions.timed_out += if complete { 0 } else { measured * u64::from(user.timed_out) };
        match (complete, user.pages) {
            (true, _) => sessions.completed += measured,
            (false, 0 | 1) => sessions.turned_away += measured,
            (false, _) => sessions.broken += measured,
        }
        if matches!(state.sources[usize::from(user.source)].clients.population, Population::Browsers { .. }) {
            self.think(application, number);
        } else {
            state.ended_users.push(number);
        }
    }

    fn think(&mut self, application: u16, user: u32) {
        let state = &mut self.states[usize::from(application)];
        let source = usize::from(state.users[user as usize].source);
        let span = state.sources[source].thinks();
        self.calendar.note(self.now + span, Event::Thought { application, user });
    }

    /// A user sends a request.
    fn ask(&mut self, application: u16, number: u32, class: ClassId) {
        let user = &self.states[usize::from(application)].users[number as usize];
        let errand = Errand {
            application,
            source: user.source,
            user: number,
            client: user.client,
            session: Some(user.session),
            // Known when it is sent.
            hello: Hello::Open,
        };
        let id = self.make(errand, class);
        self.send(id);
    }

    /// Makes a first attempt, with the work it will cost.
    fn make(&mut self, errand: Errand, class: ClassId) -> u64 {
        let state = &mut self.states[usize::from(errand.application)];
        let settings = &state.application.classes[class.index()];
        let random = &mut state.sources[usize::from(errand.source)].work;
        let work = settings.work.sample(random);
        let database = match (&settings.database, &state.application.server.database) {
            (Some(draw), Some(_)) => draw.sample(random),
            _ => 0.0,
        };
        self.attempts.insert(Attempt {
            request: Request {
                id: 0,
                application: ApplicationId(errand.application),
                class,
                priority: settings.priority,
                weight: settings.weight,
                client: errand.client,
                session: errand.session,
                attempt: 0,
                first_sent: self.now,
                sent: self.now,
                deadline: None,
                hello: errand.hello,
                promise: None,
                forged: false,
            },
            phase: Phase::Travelling,
            source: errand.source,
            user: errand.user,
            measured: false,
            client_done: false,
            known_gone: false,
            has_thread: false,
            fails: random.chance(settings.errors),
            refused: None,
            work,
            database,
            arrived: Timestamp::EPOCH,
            started: Timestamp::EPOCH,
            begun: None,
            promised: None,
            cheated: false,
        })
    }

    /// The front tells a client to come later.
    pub(super) fn later(&mut self, id: u64, promise: Promise) {
        let Some(attempt) = self.attempts.get_mut(id) else { return };
        attempt.phase = Phase::Ended;
        let gone = std::mem::replace(&mut attempt.client_done, true);
        let attempt = attempt.clone();
        self.forget(id);
        if gone {
            return;
        }
        let state = &mut self.states[attempt.request.application.index()];
        let returns = state.application.returns;
        // Who was told before keeps what he had, if that is still to come.
        let known = attempt.promised.filter(|known| known.at > self.now && attempt.request.forged);
        let promise = known.unwrap_or(promise);
        let (mut at, mut sent, mut forged) = (promise.at, Some(promise), false);
        if attempt.promised.is_none() {
            state.ledger.told(&attempt);
            let chance = state.returns.unit();
            if chance < returns.no_show {
                state.ledger.no_show(&attempt);
                self.answered(attempt.request.application, attempt.user, false);
                return;
            }
            if chance < returns.no_show + returns.early {
                at = self.now + promise.at.since(self.now) / 2;
            } else if chance < returns.no_show + returns.early + returns.cheat {
                (at, sent, forged) = (self.now, None, true);
            }
        }
        let late = Duration::from_millis(state.returns.below(50));
        let polls = returns.polls > 0.0 && at == promise.at && state.returns.chance(returns.polls);
        let id = self.attempts.insert(Attempt {
            request: Request {
                attempt: attempt.request.attempt + 1,
                promise: sent,
                forged,
                ..attempt.request
            },
            phase: Phase::Travelling,
            client_done: false,
            known_gone: false,
            has_thread: false,
            refused: None,
            begun: None,
            promised: Some(promise),
            cheated: attempt.cheated || forged,
            ..attempt
        });
        if polls {
            self.look_later(id, at);
        } else {
            self.calendar.note(at.max(self.now) + late, Event::Send(id));
        }
    }

    /// Notes when the browser of who may come at `at` asks again, or comes.
    fn look_later(&mut self, id: u64, at: Timestamp) {
        let left = at.since(self.now);
        let pause = (left / 4).clamp(LOOK_MIN, LOOK_MAX);
        if left <= pause {
            self.calendar.note(at.max(self.now), Event::Send(id));
        } else {
            self.calendar.note(self.now + pause, Event::Look(id));
        }
    }

    /// The browser of who waits asks how things stand.
    pub(super) fn look(&mut self, id: u64) {
        let Some(attempt) = self.attempts.get(id) else { return };
        let Some(promise) = attempt.request.promise else { return };
        let front = attempt.request.application.index();
        let at = self.fronts[front].look(self.now, &promise);
        self.look_later(id, at);
    }
}

fn from_of<'w, 's>(
    world: &'w mut World<'s, '_>,
    application: u16,
    source: u16,
) -> &'w mut super::population::Source<'s> {
    &mut world.states[usize::from(application)].sources[usize::from(source)]
}
