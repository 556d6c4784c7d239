//! What becomes of a request, by its head alone: who serves it, as what class, now, later or not.

use std::{
    future::Future,
    net::IpAddr,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, ready},
    time::Duration,
};

use http::{Version, request::Parts};
use tidegate_config::Listener;
use tidegate_control::{
    Refusal,
    admission::Exchange,
    classify::{RequestFacts, TlsFacts},
    client_rate::{ClientRateSettings, RetryAfter},
    knobs::{BalancePolicy, Mode, Values, keys},
    meters::Meter,
};
use tidegate_runtime::{CoreApplication, Entry, Held, Snapshot, View, Waiting};

use super::{
    Service, client_key,
    error::ClientFault,
    forwarded,
    head::{BadHead, Examined, Head},
    intake::Bounds,
    record::{Record, Sender},
    trace_context,
    waiting_room::{self, Door, Shut, Visit, Visitor},
};
use crate::{connection::Connection, facts::ConnectionFacts};

/// A request that has arrived at an application and was classified.
pub(super) struct Arrived {
    pub(super) record: Box<Record>,
    pub(super) exchange: Exchange,
    /// Key for consistent hashing; 0 where another policy balances.
    pub(super) hash: u64,
    /// Whether any field that ends at this hop is there.
    pub(super) ends_here: bool,
    /// Whether the client asks for another protocol.
    pub(super) wants_upgrade: bool,
    pub(super) bounds: Bounds,
    /// How it was let in, where there is a waiting room.
    pub(super) visit: Option<Box<Visit>>,
}

/// What was decided of a head.
pub(super) enum Ruling {
    /// It starts now.
    Start(Arrived, Held),
    /// It waits.
    Wait(Arrived, Waiting),
    /// It is refused.
    Refuse(Arrived, Refused),
    /// The waiting room does not let it in.
    Shut(Arrived, Box<Shut>),
    /// Its body is too large already by its length.
    BadBody(Arrived, ClientFault),
    /// It never came to an application.
    Turn(Turn),
}

/// A refusal, and when to come back if that is known.
#[derive(Clone, Copy, Debug)]
pub(super) struct Refused {
    pub(super) refusal: Refusal,
    pub(super) retry_after: Option<Duration>,
}

/// How a request is answered that no application ever saw.
#[derive(Clone, Copy, Debug)]
pub(super) enum Turn {
    /// Its head is refused.
    Bad(BadHead),
    /// It is sent on to HTTPS at this port.
    Redirect(u16),
    /// It asks for what is said here: it goes no further.
    Last,
    /// No application serves the host.
    Unknown,
    /// The connection was opened for another application's name.
    Misdirected,
}

impl Service {
    /// Decides on a request. Everything that costs the client's rate or a place happens here, once.
    pub(super) fn rule(self: &Rc<Self>, connection: &Rc<Connection>, head: Head<'_>) -> Ruling {
        let facts = &connection.facts;
        let examined = match head.examine(facts.is_secure()) {
            Ok(examined) => examined,
            Err(bad) => return Ruling::Turn(Turn::Bad(bad)),
        };
        if let Some(port) = facts.listener.redirect_to_https {
            return Ruling::Turn(if examined.host.name.is_empty() {
                Turn::Unknown
            } else {
                Turn::Redirect(port)
            });
        }
        let view = self.core.view();
        if head.version == Version::HTTP_2 {
            connection.carry(examined.bytes);
            if is_too_large(&examined, &view.snapshot.settings.host) {
                return Ruling::Turn(Turn::Bad(BadHead::TooLarge));
            }
        }
        let client = forwarded::client(facts, head.headers);
        let seen = Seen { head, host: &examined.host.name, client, facts };
        match find_application(&view, &seen) {
            Ok(_) if head.is_last_hop() => Ruling::Turn(Turn::Last),
            Ok(application) => self.admit(connection, application, &seen, &examined, &view),
            Err(turn) => Ruling::Turn(turn),
        }
    }

    fn admit(
        self: &Rc<Self>,
        connection: &Rc<Connection>,
        application: &Rc<CoreApplication>,
        seen: &Seen<'_>,
        examined: &Examined<'_>,
        view: &View,
    ) -> Ruling {
        let Seen { head, client, .. } = *seen;
        let snapshot = &application.application;
        let values = &snapshot.settings.values;
        let verdict = snapshot.classifier.classify(seen);
        if snapshot.classifier.is_two_ways(seen, verdict) {
            return Ruling::Turn(Turn::Bad(BadHead::Target));
        }
        let class = snapshot.class_values(verdict.class);
        let of_class = u8::try_from(class.get(keys::PRIORITY)).unwrap_or(u8::MAX);
        let mut exchange = Exchange {
            class: verdict.class,
            priority: verdict.priority_over(of_class),
            weight: verdict
                .weight
                .unwrap_or_else(|| u32::try_from(class.get(keys::WEIGHT)).unwrap_or(u32::MAX)),
            deadline: verdict.deadline.map(|deadline| self.now() + deadline),
            bytes: examined.bytes,
        };
        if values.get(keys::TLS_SESSIONS_MODE).0 != Mode::Off {
            let greeted = connection.facts.tls.as_ref().and_then(|tls| tls.greeted);
            let session = greeted.filter(|(id, _)| *id == snapshot.id).map(|(_, session)| session);
            application.gate.note_session_work(session, verdict.class);
        }
        let hash = match values.get(keys::BALANCE).0 {
            BalancePolicy::ConsistentHash => {
                client_key::balance_key(&snapshot.settings.upstream.hash, client, head)
            }
            _ => 0,
        };
        let bounds = Bounds::new(&view.snapshot.settings.host, values);
        let mut visit = None;
        let mut would_refuse = None;
        let decision = if values.get(keys::MAINTENANCE) {
            Decision::Refuse(Refusal::Maintenance, None)
        } else if let Err(RetryAfter(after)) = self
            .charge(application, &exchange, head, client)
            .map(|by_what_watches| would_refuse = by_what_watches)
        {
            Decision::Refuse(Refusal::ClientRate, Some(after))
        } else if !bounds.admit(examined.length) {
            Decision::BadBody(ClientFault::TooLarge)
        } else {
            let is_secure = forwarded::is_secure(&connection.facts, head.headers);
            let host = forwarded::host(&connection.facts, head);
            let visitor = Visitor { head, client, class: verdict.class, host, is_secure };
            match waiting_room::ask(application, visitor) {
                Door::Shut(shut) => Decision::Shut(shut),
                Door::Open(let_in) => {
                    visit = let_in;
                    let priority = visit.as_ref().and_then(|visit| visit.priority());
                    exchange.priority = priority.unwrap_or(exchange.priority);
                    Decision::Ask(application.gate.arrive(exchange))
                }
            }
        };
        let now = match &decision {
            // The clock was read a moment ago.
            Decision::Ask(Entry::Start(held)) => held.started(),
            _ => self.now(),
        };
        let random = || self.upstreams.random();
        let trace = trace_context::begin(&view.snapshot.settings, &connection.facts, head.headers, random);
        let sender = Sender { connection, head, client, trace };
        let arrived = Arrived {
            record: Record::new(self, application, verdict.class, now, sender),
            exchange,
            hash,
            ends_here: examined.ends_here,
            wants_upgrade: examined.upgrade,
            bounds,
            visit,
        };
        arrived.record.note_would_refuse(would_refuse);
        match decision {
            Decision::Ask(Entry::Start(held)) => Ruling::Start(arrived, held),
            Decision::Ask(Entry::Wait(waiting)) => Ruling::Wait(arrived, waiting),
            Decision::Ask(Entry::Refuse(refusal)) => {
                Ruling::Refuse(arrived, Refused { refusal, retry_after: None })
            }
            Decision::Refuse(refusal, retry_after) => {
                Ruling::Refuse(arrived, Refused { refusal, retry_after })
            }
            Decision::Shut(shut) => Ruling::Shut(arrived, shut),
            Decision::BadBody(fault) => Ruling::BadBody(arrived, fault),
        }
    }

    /// Charges the client's rate, where there is one. Tells if it would refuse the request, but only watches.
    fn charge(
        &self,
        application: &CoreApplication,
        exchange: &Exchange,
        head: Head<'_>,
        client: Option<IpAddr>,
    ) -> Result<Option<Refusal>, RetryAfter> {
        let snapshot = &application.application;
        let values = &snapshot.settings.values;
        if values.get(keys::CLIENT_RATE).is_none() {
            return Ok(None);
        }
        let mode = ClientRateSettings::mode(values);
        if mode == Mode::Off {
            return Ok(None);
        }
        let key = client_key::rate_key(&snapshot.settings.client_key, client, head);
        let taken = snapshot.state.with_clients(|clients, now| clients.take(now, key));
        if taken.is_err() && mode != Mode::Enforce {
            let class = application.class(exchange.class);
            class.add_labelled(Meter::WOULD_REFUSE, Refusal::ClientRate.index(), 1);
            return Ok(Some(Refusal::ClientRate));
        }
        taken.map(|()| None)
    }
}

/// Whether a head is larger than allowed, where no codec has measured it.
fn is_too_large(examined: &Examined<'_>, host: &Values) -> bool {
    u64::from(examined.bytes) > host.get(keys::HEAD_BYTES_MAX).0
        || examined.fields as u64 > host.get(keys::HEADERS_MAX)
}

/// What was decided of a request, before its account is opened.
enum Decision {
    Ask(Entry),
    Refuse(Refusal, Option<Duration>),
    Shut(Box<Shut>),
    BadBody(ClientFault),
}

/// The application that serves a request: the listener's, else by host, unless a route leads elsewhere. Over
/// TLS the name the connection was opened for must belong to the same one by host (RFC 9110, section 7.4).
fn find_application<'v>(view: &'v View, seen: &Seen<'_>) -> Result<&'v Rc<CoreApplication>, Turn> {
    let snapshot = &view.snapshot;
    let at = |position: usize| view.applications.get(position).ok_or(Turn::Unknown);
    if let Some(only) = only_application(snapshot, &seen.facts.listener)? {
        return at(only);
    }
    let found = snapshot.application_for_host(seen.host);
    if let Some(name) = seen.facts.tls.as_ref().and_then(|tls| tls.server_name.as_deref())
        && *name != *seen.host
        && snapshot.application_for_host(name) != found
    {
        return Err(Turn::Misdirected);
    }
    let by_host = found.ok_or(Turn::Unknown)?;
    let router = &snapshot.router;
    if router.is_empty() {
        return at(by_host);
    }
    if let Some(asked_of) = waiting_room::asked_of(seen.head.uri) {
        let target = asked_of.and_then(|name| router.applications().iter().position(|known| known == name));
        return at(target.and_then(|target| snapshot.routed(target)).unwrap_or(by_host));
    }
    let target = router.route(seen);
    if router.is_two_ways(seen, target) {
        return Err(Turn::Bad(BadHead::Target));
    }
    at(target.and_then(|target| snapshot.routed(target)).unwrap_or(by_host))
}

/// The application that alone is served at a connection's listener, if there is one.
fn only_application(snapshot: &Snapshot, accepted_by: &Listener) -> Result<Option<usize>, Turn> {
    let Some(name) = &accepted_by.application else { return Ok(None) };
    let known = snapshot.application_named(name);
    if known.is_some() {
        return Ok(known);
    }
    // Renamed or taken out since the listener's settings were read, which lasts as long as the connection does.
    let now = snapshot.settings.listeners.iter().find(|listener| listener.name == accepted_by.name);
    match &now.ok_or(Turn::Unknown)?.application {
        Some(name) => snapshot.application_named(name).ok_or(Turn::Unknown).map(Some),
        None => Ok(None),
    }
}

/// A request as rules see it.
struct Seen<'a> {
    head: Head<'a>,
    host: &'a str,
    client: Option<IpAddr>,
    facts: &'a ConnectionFacts,
}

impl RequestFacts for Seen<'_> {
    fn method(&self) -> &str {
        self.head.method.as_str()
    }

    fn host(&self) -> &str {
        self.host
    }

    fn path(&self) -> &str {
        self.head.uri.path()
    }

    fn query(&self) -> Option<&str> {
        self.head.uri.query()
    }

    fn header_values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> + 'a {
        self.head.values(name)
    }

    fn client(&self) -> Option<IpAddr> {
        self.client
    }

    fn tls(&self) -> Option<TlsFacts<'_>> {
        self.facts.tls.as_ref().map(|tls| TlsFacts {
            server_name: tls.server_name.as_deref(),
            resumed: tls.resumed,
            client_certificate: tls.client_certificate.is_some(),
        })
    }
}

/// The verdict on a head that no codec has seen yet.
pub(crate) enum Judged {
    /// It goes to a codec now: it holds its permit, or is answered without one.
    Start(Judgement),
    /// It waits; await the verdict. Dropping it leaves the queue.
    Wait(JudgedWaiting),
    /// It is refused; a codec brings the client the answer.
    Refuse(Judgement),
}

/// What was decided, for [`Service::serve`] to go on with.
pub(crate) struct Judgement {
    /// `None`: nothing was asked of anybody, `serve` decides afresh.
    pub(super) ruling: Option<Box<Ruling>>,
}

/// A place in the queue of a request that no codec has seen yet.
pub(crate) struct JudgedWaiting {
    waiting: Waiting,
    arrived: Option<Box<Arrived>>,
}

impl Service {
    /// Judges a head that no codec has seen yet: the first request of a new or parked plain HTTP/1
    /// connection. [`Service::serve`] goes on with the same verdict.
    pub(crate) fn judge(self: &Rc<Self>, connection: &Rc<Connection>, head: &Parts) -> Judged {
        match self.rule(connection, Head::of(head)) {
            Ruling::Turn(_) => Judged::Start(Judgement { ruling: None }),
            Ruling::Wait(arrived, waiting) => {
                Judged::Wait(JudgedWaiting { waiting, arrived: Some(Box::new(arrived)) })
            }
            ruling @ Ruling::Start(..) => Judged::Start(Judgement { ruling: Some(Box::new(ruling)) }),
            ruling @ (Ruling::Refuse(..) | Ruling::Shut(..) | Ruling::BadBody(..)) => {
                Judged::Refuse(Judgement { ruling: Some(Box::new(ruling)) })
            }
        }
    }
}

impl Judged {
    /// What was decided, to go on with; `None` if nothing was.
    pub(super) fn into_ruling(self) -> Option<Ruling> {
        match self {
            Self::Start(judgement) | Self::Refuse(judgement) => judgement.ruling.map(|ruling| *ruling),
            Self::Wait(JudgedWaiting { waiting, arrived }) => Some(Ruling::Wait(*arrived?, waiting)),
        }
    }

    /// The final verdict, waited for if need be; `None` if the client leaves first.
    pub(crate) async fn settled(self, connection: &Connection) -> Option<Self> {
        match self {
            Self::Wait(waiting) => {
                let half_closed =
                    waiting.arrived.as_ref().map(|arrived| super::half_closed(&arrived.record))?;
                tokio::select! {
                    biased;
                    judged = waiting => Some(judged),
                    () = connection.departed(half_closed) => None,
                }
            }
            settled => Some(settled),
        }
    }
}

impl Future for JudgedWaiting {
    type Output = Judged;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Judged> {
        let verdict = ready!(Pin::new(&mut self.waiting).poll(context));
        // Polled again after it was ready.
        let Some(arrived) = self.arrived.take() else { return Poll::Pending };
        Poll::Ready(match verdict {
            Ok(held) => Judged::Start(Judgement { ruling: Some(Box::new(Ruling::Start(*arrived, held))) }),
            Err(refusal) => Judged::Refuse(Judgement {
                ruling: Some(Box::new(Ruling::Refuse(*arrived, Refused { refusal, retry_after: None }))),
            }),
        })
    }
}
