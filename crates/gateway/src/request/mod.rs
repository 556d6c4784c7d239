//! One request's walk, from its head to the last byte of its response.
//!
//! [`Service::serve`] reads like the walk, each step has its file:
//!
//! 1. `head`, `host`: what is ambiguous ends here;
//! 2. `judgement`: the application, the class, the client's rate, `waiting_room`, admission; the request waits as its
//!    head alone, and is dropped the moment its client leaves;
//! 3. `intake`: the body is gathered, without a permit if the client is slow;
//! 4. `forward`, `hop_by_hop`, `forwarded`, `request_id`, `trace_context`: the head that a server gets;
//!    `trailers`: what may come behind a body, either way;
//! 5. `dispatch`: a server is chosen and tried, and another; `in_flight` holds the permit meanwhile,
//!    `linger` if the client leaves;
//! 6. `response`, `read_ahead`, `response_body`, `upgrade`: the answer, brought off the server faster
//!    than a slow client takes it; `turn`: when a short one goes out;
//! 7. `answer`, `refusal`, `accept`, `error`, `unread`: what a client sees instead;
//! 8. `record`, `access_log`: what is counted and logged, on every path exactly once.

mod accept;
mod access_log;
mod answer;
mod client_key;
mod compact;
mod dispatch;
mod error;
mod forward;
mod forwarded;
mod frames;
mod head;
mod hop_by_hop;
mod host;
mod in_flight;
mod intake;
mod judgement;
mod linger;
mod read_ahead;
mod record;
mod refusal;
mod request_id;
mod response;
mod response_body;
mod service_time;
mod trace_context;
mod trailers;
mod turn;
mod unread;
mod upgrade;
mod upstreaming;
mod waiting_room;
mod waits;

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
};

use bytes::Bytes;
use http::{HeaderMap, Response, Version, request::Parts};
use http_body::Body;
use http_body_util::BodyExt;
use tidegate_control::{
    ApplicationId, ClassId, Refusal, Timestamp,
    admission::Outcome,
    knobs::{HalfClosed, keys},
    meters::Meter,
    retry_budget::RetryBudget,
};
use tidegate_runtime::{Core, CoreApplication, Entry, Held, SpoolBudget, Spooled, Waiting};
use tokio::time::Instant;

pub(crate) use self::{
    access_log::AccessLog,
    head::length as content_length,
    judgement::Judged,
    read_ahead::InStep,
    response_body::ResponseBody,
    unread::{HeadFault, stalled},
};
use self::{
    answer::{bad_body, fail, refuse},
    dispatch::{Errand, Unserved},
    error::ClientFault,
    head::Head,
    in_flight::InFlight,
    intake::{Gathering, Intake, Received},
    judgement::{Arrived, Refused, Ruling},
    linger::Awaited,
    record::Record,
    refusal::Asked,
    request_id::RequestIds,
    response::Unanswered,
    service_time::ServiceTime,
    upstreaming::Uploading,
    waiting_room::{Kept, Shut, Visit, Visitor},
};
use crate::{
    body::{ClientBody, Outbound, RequestBody},
    connection::{Connection, Protocol},
    facts::ConnectionFacts,
    upstream::{Upstreams, is_http1_only},
};

/// Bytes of a body that waits for its turn to be written.
const SHORT_MAX: u64 = 8 * 1024;

/// Serves requests on one core.
pub(crate) struct Service {
    core: Rc<Core>,
    upstreams: Rc<Upstreams>,
    access_log: AccessLog,
    ids: RequestIds,
    /// Dense by application id.
    locals: RefCell<Vec<Local>>,
    /// Share of a line that is due in the access log.
    sampled: Cell<f64>,
}

/// What a core keeps of an application for itself.
struct Local {
    retry_budget: RetryBudget,
    /// Dense by class id.
    service_times: Vec<ServiceTime>,
}

impl Service {
    /// The service of worker `core`.
    pub(crate) fn new(core: Rc<Core>, upstreams: Rc<Upstreams>, access_log: AccessLog) -> Rc<Self> {
        // Without randomness ids still differ within the process.
        let prefix = getrandom::u64().unwrap_or(core.index() as u64);
        Rc::new(Self {
            core,
            upstreams,
            access_log,
            ids: RequestIds::new(prefix),
            locals: RefCell::default(),
            sampled: Cell::new(0.0),
        })
    }

    /// Serves a request: whatever happens becomes a response, or a body that fails to break the
    /// connection off.
    pub(crate) async fn serve(
        self: Rc<Self>,
        connection: Rc<Connection>,
        mut parts: Box<Parts>,
        mut incoming: ClientBody,
        judged: Option<Judged>,
    ) -> Response<ResponseBody> {
        let ruling = judged.and_then(Judged::into_ruling);
        let (arrived, held) = match ruling.unwrap_or_else(|| self.rule(&connection, Head::of(&parts))) {
            Ruling::Start(arrived, held) => (arrived, held),
            // Boxed, so that a request that starts at once carries nothing of it along.
            ruling => match Box::pin(self.admitted(&connection, &mut parts, &mut incoming, ruling)).await {
                Admitted::Start(arrived, held) => (arrived, held),
                Admitted::Answer(response) => {
                    incoming.done();
                    return response;
                }
            },
        };
        let asked = Asked::of(&parts.method, &parts.headers);
        let Arrived { mut record, exchange, hash, ends_here, wants_upgrade, bounds, visit } = arrived;
        let application = Rc::clone(record.application());
        let snapshot = &application.application;
        // Before servers that speak HTTP/1 it is no call, whatever it calls itself: it would only keep its permit for longer.
        let converses = Head::of(&parts).is_grpc() && !is_http1_only(&snapshot.settings.upstream);
        let has_body = !incoming.is_end_stream();
        let (body, held) = if !has_body {
            (RequestBody::Empty, held)
        } else {
            let bounds = if converses { bounds.of_conversation() } else { bounds };
            let intake = Intake::new(incoming, *self.core.shared().clock(), bounds);
            record.receive(intake.received());
            // Boxed, so that a request without a body carries nothing of it along.
            match Box::pin(self.gather(&connection, &mut record, intake, held, exchange, converses)).await {
                Ok(gathered) => gathered,
                Err(Ungathered::Left) => return broken(),
                Err(Ungathered::Refused(refusal, mut body)) => {
                    let head = Head::of(&parts);
                    return match owed(&connection, &record, visit.as_deref(), refusal, head) {
                        Some(shut) => {
                            Box::pin(self.shut_out(&connection, record, shut, &parts, &mut *body, None)).await
                        }
                        None => {
                            let id = self.ids.of(&connection.facts, &parts.headers);
                            let visit = visit.as_deref().filter(|_| !refusal.is_overload());
                            let refused = Refused { refusal, retry_after: None };
                            let mut response = refuse(record, refused, &asked, id);
                            used_up(&connection.facts, &application, visit, &parts.headers, &mut response);
                            response
                        }
                    };
                }
                Err(Ungathered::Failed) => {
                    let fault = record.received().and_then(Received::fault).unwrap_or(ClientFault::Broken);
                    let id = self.ids.of(&connection.facts, &parts.headers);
                    let mut response = bad_body(record, fault, &asked, id);
                    let visit = visit.as_deref();
                    used_up(&connection.facts, &application, visit, &parts.headers, &mut response);
                    return response;
                }
            }
        };
        if held.started() > record.arrived() {
            if has_body {
                // Behind what was read only now, its departure shows after a turn of the event loop.
                tokio::task::yield_now().await;
            }
            if connection.has_departed(half_closed(&record)).await {
                return broken();
            }
        }
        // As it came, to be told to come again if no server can be reached.
        let mut came = None;
        if let Some(visit) = &visit {
            came = visit.may_be_owed().then(|| parts.clone());
            visit.strip(&mut parts);
        }
        let takes_interim = parts.version == Version::HTTP_11;
        // Before the operator's edits, which have the last word.
        if let Some(ids) = record.trace() {
            trace_context::write(ids, &mut parts.headers);
        }
        let mut forwarded =
            forward::request(&mut parts, &connection.facts, snapshot, &self.ids, (ends_here, wants_upgrade));
        forwarded.visit = visit;
        forward::announce(&mut parts, &body);
        record.set_request_id(&forwarded.request_id);
        let in_flight = InFlight::begin(&self, &mut record, held, exchange);
        let body = match body {
            RequestBody::Stream(_) => {
                let long_at = converses.then(|| in_flight.long_stream_at());
                let long_at = long_at.map(|at| Instant::from_std(self.core.shared().clock().instant(at)));
                RequestBody::Stream(Box::pin(Uploading::new(body, in_flight.upstreaming(), long_at)))
            }
            body => body,
        };
        let left = Rc::new(Cell::new(false));
        let errand = Errand {
            service: Rc::clone(&self),
            application: Rc::clone(&application),
            exchange,
            asked: record.asked(),
            connection: Rc::clone(&connection),
            hash,
            started: in_flight.started(),
            takes_interim,
            left: Rc::clone(&left),
            tried: record.tried(),
        };
        let exchange = Box::pin(errand.run(Outbound { head: parts, body }));
        let awaited = Awaited::new(exchange, in_flight, left);
        let (answered, in_flight) = tokio::select! {
            biased;
            answered = awaited => answered,
            // The codec does not look while it has a request under way.
            () = connection.departed(half_closed(&record)) => {
                waiting_room::served(&application, record.class(), forwarded.visit.as_deref());
                return broken();
            }
        };
        let relayed = match answered {
            Ok(answered) => {
                waiting_room::served(&application, record.class(), forwarded.visit.as_deref());
                self.relay(&connection, record, in_flight, answered, &forwarded)
            }
            Err(unserved) => {
                let Unserved { failure, unsent } = *unserved;
                in_flight.fail(failure.outcome());
                let visit = forwarded.visit.as_deref();
                if let (Some(came), Some(mut body)) = (came, unsent)
                    && let Some(shut) = missed(&connection, &record, visit, Head::of(&came))
                {
                    let detail = Some(failure.to_string());
                    return Box::pin(self.shut_out(&connection, record, shut, &came, &mut body, detail))
                        .await;
                }
                waiting_room::served(&application, record.class(), visit);
                Err(Unanswered::new(record, failure))
            }
        };
        let response = relayed.unwrap_or_else(|unanswered| {
            let Unanswered { record, failure } = *unanswered;
            let mut response = fail(record, failure, &asked, forwarded.request_id.clone());
            // His turn is used up all the same: he is to come again as one who is in.
            if let Some(visit) = &forwarded.visit {
                visit.finish(snapshot, response.headers_mut(), forwarded.is_secure);
            }
            response
        });
        // Of one that is here as a whole the permit has gone back. What is long goes out at once, while the processor's cache
        // holds it.
        if response.body().size_hint().upper().is_some_and(|bytes| bytes <= SHORT_MAX) {
            turn::others_first().await;
        }
        response
    }

    /// What becomes of a request by what was decided; waits if that is to wait.
    async fn admitted(
        &self,
        connection: &Connection,
        parts: &mut Parts,
        body: &mut ClientBody,
        ruling: Ruling,
    ) -> Admitted {
        Admitted::Answer(match ruling {
            Ruling::Start(arrived, held) => return Admitted::Start(arrived, held),
            Ruling::Wait(mut arrived, waiting) => {
                if connection.protocol() == Protocol::Http2 {
                    compact::compact(parts);
                    arrived.record.retake(Head::of(parts));
                }
                match wait(connection, &arrived.record, waiting).await {
                    Some(Ok(held)) => return Admitted::Start(arrived, held),
                    Some(Err(refusal)) => {
                        let refused = Refused { refusal, retry_after: None };
                        self.turn_back(connection, arrived, refused, parts, body).await
                    }
                    None => broken(),
                }
            }
            Ruling::Refuse(arrived, refused) => {
                self.turn_back(connection, arrived, refused, parts, body).await
            }
            Ruling::Shut(arrived, shut) => {
                Box::pin(self.shut_out(connection, arrived.record, shut, parts, body, None)).await
            }
            Ruling::BadBody(arrived, fault) => {
                let id = self.ids.of(&connection.facts, &parts.headers);
                bad_body(arrived.record, fault, &Asked::of(&parts.method, &parts.headers), id)
            }
            Ruling::Turn(turn) => self.turn_away(&connection.facts, turn, Head::of(parts)),
        })
    }

    /// Answers a request that is refused: who was let in by the waiting room gets a new time instead.
    async fn turn_back(
        &self,
        connection: &Connection,
        arrived: Arrived,
        refused: Refused,
        parts: &Parts,
        body: &mut ClientBody,
    ) -> Response<ResponseBody> {
        let Arrived { record, visit, .. } = arrived;
        match owed(connection, &record, visit.as_deref(), refused.refusal, Head::of(parts)) {
            Some(shut) => Box::pin(self.shut_out(connection, record, shut, parts, body, None)).await,
            None => {
                let visit = visit.as_deref().filter(|_| !refused.refusal.is_overload());
                let application = Rc::clone(record.application());
                let id = self.ids.of(&connection.facts, &parts.headers);
                let asked = Asked::of(&parts.method, &parts.headers);
                let mut response = refuse(record, refused, &asked, id);
                used_up(&connection.facts, &application, visit, &parts.headers, &mut response);
                response
            }
        }
    }

    /// Tells a visitor when to come back; a form goes along with that, where there is memory for it. `detail`: what went wrong, for
    /// logs.
    async fn shut_out(
        &self,
        connection: &Connection,
        mut record: Box<Record>,
        mut shut: Box<Shut>,
        parts: &Parts,
        body: &mut (impl Body<Data = Bytes> + Unpin),
        detail: Option<String>,
    ) -> Response<ResponseBody> {
        let asked = Asked::of(&parts.method, &parts.headers);
        let mut spooled = self.spool().account();
        let form = match shut.wants_form(&asked) {
            Some(reader) => {
                let (form, bytes) = read_form(body, reader, &mut spooled).await;
                // What is read again has been counted.
                if record.received().is_none() {
                    record.add_bytes_in(bytes);
                }
                shut.is_told_at(record.application().application.state.waiting_room().now());
                form
            }
            None => None,
        };
        let id = self.ids.of(&connection.facts, &parts.headers);
        answer::shut(record, &shut, &asked, id, (form, spooled), detail)
    }

    /// Gathers a body, unless it `converses`; gives it with a permit to go on.
    async fn gather(
        self: &Rc<Self>,
        connection: &Connection,
        record: &mut Record,
        intake: Intake,
        held: Held,
        exchange: tidegate_control::admission::Exchange,
        converses: bool,
    ) -> Result<(RequestBody, Held), Ungathered> {
        let application = Rc::clone(record.application());
        let bytes_max = application.application.settings.values.get(keys::SPOOL).0;
        let mut gathering = Gathering::new(intake, bytes_max, self.spool().account());
        if gathering.glance().await.map_err(|_| Ungathered::Failed)? || converses {
            return Ok((gathering.into_body(), held));
        }
        // The client is slower than we are: nobody waits for it with a permit in hand.
        record.note_would_refuse(held.finish(Outcome::Ignore).would_refuse);
        let began = self.now();
        gathering.fill().await.map_err(|_| Ungathered::Failed)?;
        record.gathered(began, self.now());
        let held = match application.gate.arrive_again(exchange) {
            Entry::Start(held) => held,
            Entry::Refuse(refusal) => return Err(Ungathered::Refused(refusal, Box::new(gathering))),
            Entry::Wait(waiting) => match wait(connection, record, waiting).await {
                Some(Ok(held)) => held,
                Some(Err(refusal)) => return Err(Ungathered::Refused(refusal, Box::new(gathering))),
                None => return Err(Ungathered::Left),
            },
        };
        Ok((gathering.into_body(), held))
    }

    /// A head that broke the protocol or a bound before it became a request; gives the answer as it goes over the wire.
    pub(crate) fn bad_request(&self, connection: &Connection, fault: HeadFault) -> Vec<u8> {
        let id = self.ids.next();
        let answer = fault.answer(&id);
        self.unserved(&connection.facts, None, id, fault.status(), fault.reason(), fault.body_bytes());
        answer
    }

    fn log(&self, entry: access_log::Entry) {
        if !self.access_log.write(entry) {
            self.core.meters().host().add(Meter::EVENTS_LOST, 1);
        }
    }

    /// Counts lines of the access log that could not be written, once each.
    pub(crate) fn count_unwritten(&self) {
        self.core.meters().host().add(Meter::EVENTS_LOST, self.access_log.take_unwritten());
    }

    /// Whether the next line that is not written anyway is: exactly the share the knob says.
    fn samples(&self) -> bool {
        let share = self.core.view().snapshot.settings.host.get(keys::ACCESS_LOG_SAMPLE);
        let due = self.sampled.get() + share;
        let is_due = due >= 1.0;
        self.sampled.set(if is_due { due - 1.0 } else { due });
        is_due
    }

    fn now(&self) -> Timestamp {
        self.core.shared().clock().now()
    }

    fn spool(&self) -> &SpoolBudget {
        self.core.shared().spool()
    }

    /// Runs `f` on what this core keeps of an application.
    fn local<R>(&self, application: ApplicationId, f: impl FnOnce(&mut Local) -> R) -> R {
        let mut locals = self.locals.borrow_mut();
        let index = application.index();
        if locals.len() <= index {
            locals.resize_with(index + 1, || Local {
                retry_budget: RetryBudget::new(0.0),
                service_times: Vec::new(),
            });
        }
        f(&mut locals[index])
    }
}

impl Local {
    fn service_time(&mut self, class: ClassId) -> &mut ServiceTime {
        let index = class.index();
        if self.service_times.len() <= index {
            self.service_times.resize_with(index + 1, ServiceTime::default);
        }
        &mut self.service_times[index]
    }
}

/// What becomes of a request once its verdict is there.
enum Admitted {
    /// It is carried out.
    Start(Arrived, Held),
    /// It is over.
    Answer(Response<ResponseBody>),
}

/// No response at all: nobody is there to get it.
fn broken() -> Response<ResponseBody> {
    Response::new(ResponseBody::broken())
}

/// Why a request's body is not there.
enum Ungathered {
    /// It broke a bound or broke off.
    Failed,
    /// Asked again, admission refused it; with what was gathered, and the rest.
    Refused(Refusal, Box<Gathering>),
    /// The client has left.
    Left,
}

/// Who was let in by the waiting room and got no answer of a server's: his turn is used up all the same, and he is to come
/// again as one who is in.
fn used_up(
    facts: &ConnectionFacts,
    application: &CoreApplication,
    visit: Option<&Visit>,
    headers: &HeaderMap,
    response: &mut Response<ResponseBody>,
) {
    if let Some(visit) = visit {
        let is_secure = forwarded::is_secure(facts, headers);
        visit.finish(&application.application, response.headers_mut(), is_secure);
    }
}

/// What a visitor is told that the waiting room let in and admission refuses for overload.
fn owed(
    connection: &Connection,
    record: &Record,
    visit: Option<&Visit>,
    refusal: Refusal,
    head: Head<'_>,
) -> Option<Box<Shut>> {
    missed(connection, record, visit.filter(|_| refusal.is_overload()), head)
}

/// What a visitor is told that the waiting room let in, and of whose request no server has any work.
fn missed(
    connection: &Connection,
    record: &Record,
    visit: Option<&Visit>,
    head: Head<'_>,
) -> Option<Box<Shut>> {
    let facts = &connection.facts;
    let client = forwarded::client(facts, head.headers);
    let is_secure = forwarded::is_secure(facts, head.headers);
    let host = forwarded::host(facts, head);
    let visitor = Visitor { head, client, class: record.class(), host, is_secure };
    waiting_room::missed(record.application(), visitor, visit?)
}

/// A form that is whole within bounds of size, memory and time, and how much of it came.
async fn read_form(
    body: &mut (impl Body<Data = Bytes> + Unpin),
    mut reader: waiting_room::Reader,
    spooled: &mut Spooled,
) -> (Option<Kept>, u64) {
    let mut bytes = 0;
    let timeout = reader.timeout();
    let reading = async {
        while let Some(frame) = body.frame().await {
            let Ok(frame) = frame else { return false };
            let Some(data) = frame.data_ref() else { continue };
            bytes += data.len() as u64;
            if !reader.push(data) || !spooled.grow(reader.held().saturating_sub(spooled.bytes())) {
                return false;
            }
        }
        true
    };
    let is_whole = tokio::time::timeout(timeout, reading).await.unwrap_or(false);
    (if is_whole { reader.finish() } else { None }, bytes)
}

/// Waits for a verdict; `None` if the client leaves first, which also leaves the queue.
async fn wait(connection: &Connection, record: &Record, waiting: Waiting) -> Option<Result<Held, Refusal>> {
    connection.begin_to_wait();
    tokio::select! {
        biased;
        verdict = waiting => Some(verdict),
        () = connection.departed(half_closed(record)) => None,
    }
}

fn half_closed(record: &Record) -> HalfClosed {
    record.application().application.settings.values.get(keys::HALF_CLOSED).0
}
