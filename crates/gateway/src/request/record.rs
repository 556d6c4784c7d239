//! What is counted and logged of one request, on every path exactly once.
//!
//! Every request that arrived ends as one of: answered, if only in part by a server that broke off; left while it
//! waited; abandoned after it had started. So for each class `arrived = left + abandoned + responses`, once nothing is under way.

use std::{
    cell::{Cell, RefCell},
    net::IpAddr,
    rc::Rc,
    sync::Arc,
    time::Duration,
};

use http::{HeaderValue, Method, StatusCode, Uri, Version, header};
use tidegate_control::{
    ClassId, Refusal, Timestamp,
    admission::Shadow,
    knobs::keys,
    meters::{Meter, SpansLost},
};
use tidegate_runtime::{Cells, CoreApplication, TraceIds, TracedRequest, servers::Server};

use super::{Service, access_log::Entry, error::ClientFault, head::Head, intake::Received};
use crate::{body::BodyError, connection::Connection};

/// The reason where a client left after its request had started.
const ABANDONED: &str = "abandoned";

/// One request's account. Dropped unfinished, it counts as left or abandoned.
pub(super) struct Record {
    service: Rc<Service>,
    application: Rc<CoreApplication>,
    class: ClassId,
    arrived: Timestamp,
    /// When it asked for admission the last time.
    asked: Timestamp,
    /// When it was sent on to a server.
    started: Option<Timestamp>,
    /// When that was, of a request that was refused after it.
    sent_on: Option<Timestamp>,
    /// Its shadow, if that waited then.
    shadow: Option<Shadow>,
    /// When the server's head came.
    answered: Option<Timestamp>,
    /// When the server's message ended.
    served: Option<Timestamp>,
    gathering: Duration,
    status: Option<StatusCode>,
    /// What has come of its body, while that is read by another.
    received: Option<Rc<Received>>,
    /// Bytes of it that were read besides.
    bytes_in: u64,
    bytes_out: u64,
    finished: bool,
    /// Whether its response ended before its end, by the server's fault.
    broken: bool,
    log: Option<Box<LogFacts>>,
}

/// Who sent a request, and what.
pub(super) struct Sender<'a> {
    pub(super) connection: &'a Rc<Connection>,
    pub(super) head: Head<'a>,
    pub(super) client: Option<IpAddr>,
    /// Who the request is in its trace, if it is traced.
    pub(super) trace: Option<Box<TraceIds>>,
}

/// What only the access log and traces want to know.
struct LogFacts {
    /// Whether the access log does.
    is_logged: bool,
    trace: Option<Box<TraceIds>>,
    connection: Rc<Connection>,
    client: Option<IpAddr>,
    head: LoggedHead,
    request_id: Option<HeaderValue>,
    tried: Rc<Tried>,
    connect_time: Option<Duration>,
    reason: Option<&'static str>,
    detail: Option<String>,
}

/// What is noted of a request under way: the servers it went to, and what only watches and would have refused it.
#[derive(Default)]
pub(super) struct Tried {
    last: RefCell<Option<Arc<Server>>>,
    count: Cell<u32>,
    would_refuse: Cell<Option<Refusal>>,
}

impl Tried {
    /// It goes to this one now.
    pub(super) fn note(&self, server: &Arc<Server>) {
        self.last.replace(Some(Arc::clone(server)));
        self.count.set(self.count.get().saturating_add(1));
    }

    /// That would have refused it, if anything; the first that did is told.
    pub(super) fn note_would_refuse(&self, refusal: Option<Refusal>) {
        self.would_refuse.set(self.would_refuse.get().or(refusal));
    }

    fn would_refuse(&self) -> Option<&'static str> {
        self.would_refuse.get().map(Refusal::name)
    }

    fn server(&self) -> Option<Arc<Server>> {
        self.last.borrow().clone()
    }
}

/// What is logged of a head.
struct LoggedHead {
    method: Method,
    uri: Uri,
    version: Version,
    host: Option<HeaderValue>,
    user_agent: Option<HeaderValue>,
    referer: Option<HeaderValue>,
}

impl LoggedHead {
    fn of(head: Head<'_>) -> Self {
        let field = |name| head.headers.get(name).cloned();
        Self {
            method: head.method.clone(),
            uri: head.uri.clone(),
            version: head.version,
            host: head.host_asked(),
            user_agent: field(header::USER_AGENT),
            referer: field(header::REFERER),
        }
    }
}

impl Record {
    /// A request has arrived.
    pub(super) fn new(
        service: &Rc<Service>,
        application: &Rc<CoreApplication>,
        class: ClassId,
        arrived: Timestamp,
        sender: Sender<'_>,
    ) -> Box<Self> {
        application.class(class).add(Meter::ARRIVED, 1);
        let Sender { connection, head, client, trace } = sender;
        let is_logged = service.access_log.is_on();
        let log = (is_logged || trace.is_some()).then(|| {
            Box::new(LogFacts {
                is_logged,
                trace,
                connection: Rc::clone(connection),
                client,
                head: LoggedHead::of(head),
                request_id: None,
                tried: Rc::default(),
                connect_time: None,
                reason: None,
                detail: None,
            })
        });
        // Boxed, for it is handed on from step to step.
        Box::new(Self {
            service: Rc::clone(service),
            application: Rc::clone(application),
            class,
            arrived,
            asked: arrived,
            started: None,
            sent_on: None,
            shadow: None,
            answered: None,
            served: None,
            gathering: Duration::ZERO,
            status: None,
            received: None,
            bytes_in: 0,
            bytes_out: 0,
            finished: false,
            broken: false,
            log,
        })
    }

    pub(super) const fn application(&self) -> &Rc<CoreApplication> {
        &self.application
    }

    pub(super) const fn class(&self) -> ClassId {
        self.class
    }

    /// When it arrived.
    pub(super) const fn arrived(&self) -> Timestamp {
        self.arrived
    }

    pub(super) fn cells(&self) -> &Cells {
        self.application.class(self.class)
    }

    /// When it asked for the permit it is sent on with.
    pub(super) const fn asked(&self) -> Timestamp {
        self.asked
    }

    /// Its body was gathered meanwhile, and it asks again.
    pub(super) fn gathered(&mut self, from: Timestamp, to: Timestamp) {
        self.gathering = to.since(from);
        self.asked = to;
    }

    /// It is sent on; its shadow, if that waits.
    pub(super) fn start(&mut self, now: Timestamp, shadow: Option<Shadow>) {
        (self.started, self.shadow) = (Some(now), shadow);
        self.cells().add(Meter::STARTED, 1);
        self.cells().record(Meter::WAITING_TIME, now.since(self.arrived));
    }

    /// The server has begun to answer.
    pub(super) fn answer(&mut self, now: Timestamp, connect_time: Option<Duration>) {
        self.answered = Some(now);
        if let Some(log) = &mut self.log {
            log.connect_time = connect_time;
        }
    }

    /// The server has finished.
    pub(super) fn serve(&mut self, now: Timestamp) {
        self.served = Some(now);
    }

    /// The status of its response.
    pub(super) fn set_status(&mut self, status: StatusCode) {
        self.status = Some(status);
    }

    /// It is refused: no server answers it, also if it was on its way to one.
    pub(super) fn refuse(&mut self, refusal: Refusal) {
        self.sent_on = self.started.take();
        self.cells().add_labelled(Meter::REFUSED, refusal.index(), 1);
        self.explain(refusal.name(), None);
    }

    /// Something that only watches would have refused it.
    pub(super) fn note_would_refuse(&self, refusal: Option<Refusal>) {
        if let Some(log) = &self.log {
            log.tried.note_would_refuse(refusal);
        }
    }

    /// Why it was not served, for the log: a reason, and what nobody but the log may see.
    pub(super) fn explain(&mut self, reason: &'static str, detail: Option<String>) {
        if let Some(log) = &mut self.log {
            log.reason = Some(reason);
            log.detail = detail;
        }
    }

    /// Its head lies elsewhere now.
    pub(super) fn retake(&mut self, head: Head<'_>) {
        if let Some(log) = &mut self.log {
            log.head = LoggedHead::of(head);
        }
    }

    pub(super) fn set_request_id(&mut self, id: &HeaderValue) {
        if let Some(log) = &mut self.log {
            log.request_id = Some(id.clone());
        }
    }

    /// Where to note what becomes of it, if anybody wants to know.
    pub(super) fn tried(&self) -> Option<Rc<Tried>> {
        self.log.as_ref().map(|log| Rc::clone(&log.tried))
    }

    /// Who it is in its trace, if it is traced.
    pub(super) fn trace(&self) -> Option<&TraceIds> {
        self.log.as_ref()?.trace.as_deref()
    }

    /// Its body is read by another, who counts it there.
    pub(super) fn receive(&mut self, received: Rc<Received>) {
        self.received = Some(received);
    }

    /// What has come of its body, if it has one.
    pub(super) fn received(&self) -> Option<&Received> {
        self.received.as_deref()
    }

    fn bytes_in(&self) -> u64 {
        self.bytes_in + self.received().map_or(0, Received::bytes)
    }

    pub(super) const fn add_bytes_in(&mut self, bytes: u64) {
        self.bytes_in += bytes;
    }

    pub(super) const fn add_bytes_out(&mut self, bytes: u64) {
        self.bytes_out += bytes;
    }

    /// Its response breaks off, for this; whoever is there sees a part of it.
    pub(super) fn break_off(&mut self, error: &BodyError) {
        let reason = match error {
            BodyError::Upstream(_) => {
                self.broken = true;
                "body"
            }
            BodyError::Client(_) => ABANDONED,
            BodyError::TooLarge(_) => ClientFault::TooLarge.name(),
            BodyError::TooSlow => ClientFault::TooSlow.name(),
            BodyError::TakenTooSlowly => "response_too_slow",
        };
        self.explain(reason, Some(error.to_string()));
    }

    /// Whether the client was there to the end of what was sent.
    const fn is_answered(&self) -> bool {
        // What we answer by ourselves is over once it is decided; a server's answer once it is sent, or once the
        // server has broken off.
        self.finished || self.broken || self.started.is_none()
    }

    /// The whole response was handed to the client's connection.
    pub(super) fn finish(mut self) {
        self.finished = true;
        // Dropping does the rest, the same for every end.
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        let now = self.service.core.shared().clock().now();
        let (cells, total) = (self.cells(), now.since(self.arrived));
        match (self.is_answered(), self.status, self.started) {
            (true, Some(status), started) => {
                let class = usize::from(status.as_u16() / 100).saturating_sub(1).min(4);
                cells.add_labelled(Meter::RESPONSES, class, 1);
                if started.is_some() && !self.broken {
                    cells.record(Meter::RESPONSE_TIME, total);
                    let values = self.application.application.class_values(self.class);
                    if !status.is_server_error() && total <= values.get(keys::GOODPUT_WITHIN) {
                        cells.add(Meter::GOOD, 1);
                    }
                }
            }
            (_, _, None) => cells.add(Meter::LEFT, 1),
            (_, _, Some(_)) => {
                cells.add(Meter::ABANDONED, 1);
                // Its exchange may go on for long; nobody reads of what becomes of that.
                if let Some(shadow) = self.shadow {
                    self.note_would_refuse(self.application.gate.abandon(shadow));
                }
            }
        }
        let bytes_in = self.bytes_in();
        if bytes_in > 0 {
            cells.add(Meter::BYTES_IN, bytes_in);
        }
        if self.bytes_out > 0 {
            cells.add(Meter::BYTES_OUT, self.bytes_out);
        }
        if let Some(mut log) = self.log.take() {
            let status = self.status.filter(|_| self.is_answered());
            if let Some(ids) = log.trace.take() {
                self.export(*ids, &log, status, now);
            }
            if log.is_logged {
                self.write(*log, status, now);
            }
        }
    }
}

impl Record {
    /// Why it was not served, or not to its end. `status` is what its client saw.
    fn reason(&self, log: &LogFacts, status: Option<StatusCode>) -> Option<&'static str> {
        log.reason.or(match (status, self.started) {
            (Some(_), _) => None,
            // Its departure may be seen before the end of its body is.
            (None, _) if self.received().is_some_and(|body| !body.is_whole()) => {
                Some(ClientFault::Broken.name())
            }
            (None, Some(_)) => Some(ABANDONED),
            (None, None) => Some("left"),
        })
    }

    /// Hands it to the exporter.
    fn export(&self, ids: TraceIds, log: &LogFacts, status: Option<StatusCode>, now: Timestamp) {
        let LoggedHead { method, uri, version, host, user_agent, .. } = &log.head;
        let host = host.as_ref().map(HeaderValue::as_bytes);
        let traced = Box::new(TracedRequest {
            ids,
            application: Arc::clone(&self.application.application),
            class: self.class,
            arrived: self.arrived,
            started: self.started,
            connect_time: log.connect_time,
            answered: self.answered,
            served: self.served,
            ended: now,
            gathering: self.gathering,
            method: cut(method.as_str().as_bytes()),
            scheme: if log.connection.facts.is_secure() { "https" } else { "http" },
            path: cut(uri.path().as_bytes()),
            query: uri.query().map(|query| cut(query.as_bytes())),
            version: match *version {
                Version::HTTP_10 => "1.0",
                Version::HTTP_2 => "2",
                _ => "1.1",
            },
            host: host.map(cut),
            user_agent: user_agent.as_ref().map(|agent| cut(agent.as_bytes())),
            client: log.client,
            request_id: log.request_id.as_ref().map(|id| cut(id.as_bytes())),
            server: log.tried.server(),
            tries: log.tried.count.get(),
            status: status.map(|status| status.as_u16()),
            reason: self.reason(log, status),
            would_refuse: log.tried.would_refuse(),
            bytes_in: self.bytes_in(),
            bytes_out: self.bytes_out,
        });
        if !self.service.core.shared().spans().offer(traced) {
            let host = self.service.core.meters().host();
            host.add_labelled(Meter::SPANS_LOST, SpansLost::Queue as usize, 1);
        }
    }

    fn write(&self, log: LogFacts, status: Option<StatusCode>, now: Timestamp) {
        let reason = self.reason(&log, status);
        let would_refuse = log.tried.would_refuse();
        let plain = log.reason.is_none()
            && would_refuse.is_none()
            && status.is_some_and(|status| !status.is_server_error());
        if plain && !self.service.samples() {
            return;
        }
        let LoggedHead { method, uri, version, host, user_agent, referer } = log.head;
        let since = |to: Option<Timestamp>, from: Option<Timestamp>| Some(to?.since(from?));
        let entry = Entry {
            at: self.arrived,
            client: log.client,
            connection: log.connection.facts.id,
            method: Some(method),
            target: Some(uri),
            version,
            host,
            user_agent,
            referer,
            request_id: log.request_id,
            tls: log.connection.facts.tls.clone(),
            application: Some(Arc::clone(&self.application.application)),
            class: self.class,
            server: log.tried.server(),
            // A client that left sees no status; 499 stands for that, as elsewhere.
            status: status.map_or(499, |status| status.as_u16()),
            reason,
            detail: log.detail,
            would_refuse,
            bytes_in: self.bytes_in(),
            bytes_out: self.bytes_out,
            waiting: self.started.or(self.sent_on).unwrap_or(now).since(self.arrived),
            gathering: self.gathering,
            connect: log.connect_time,
            first_byte: since(self.answered, self.started),
            service: since(self.served, self.started),
            total: now.since(self.arrived),
        };
        self.service.log(entry);
    }
}

/// What a trace takes along of something a client sent: text, and not too much of it.
fn cut(bytes: &[u8]) -> String {
    const BYTES_MAX: usize = 512;
    String::from_utf8_lossy(&bytes[..bytes.len().min(BYTES_MAX)]).into_owned()
}
