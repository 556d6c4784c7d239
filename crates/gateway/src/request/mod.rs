//! One request's walk, from its head to the last byte of its response.
//!
//! [`Service::serve`] reads like the walk, each step has its file:
//!
//! 1. `head`, `host`: what is ambiguous ends here;
//! 2. `judgement`: the application, the class, the client's rate, admission; the request waits as its
//!    head alone, and is dropped the moment its client leaves;
//! 3. `intake`: the body is gathered, without a permit if the client is slow;
//! 4. `forward`, `hop_by_hop`, `forwarded`, `request_id`: the head that a server gets;
//! 5. `dispatch`: a server is chosen and tried, and another; `in_flight` holds the permit meanwhile,
//!    `linger` if the client leaves;
//! 6. `response`, `read_ahead`, `response_body`, `upgrade`: the answer, brought off the server faster
//!    than a slow client takes it;
//! 7. `refusal`, `accept`, `error`: what a client sees instead;
//! 8. `record`, `access_log`: what is counted and logged, on every path exactly once.

mod accept;
mod access_log;
mod client_key;
mod dispatch;
mod error;
mod forward;
mod forwarded;
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
mod upgrade;

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    time::Duration,
};

use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body::Body;
use hyper::body::Incoming;
use tidegate_control::{
    ApplicationId, ClassId, Refusal, Timestamp,
    admission::Outcome,
    knobs::{HalfClosed, RefusalStatus, keys},
    meters::Meter,
    retry_budget::RetryBudget,
};
use tidegate_runtime::{Core, Entry, Held, SpoolBudget, Waiting};

pub(crate) use self::{access_log::AccessLog, judgement::Judged, response_body::ResponseBody};
use self::{
    dispatch::Errand,
    error::{ClientFault, Failure},
    head::Head,
    in_flight::InFlight,
    intake::{Gathering, Intake, Received},
    judgement::{Arrived, Refused, Ruling, Turn},
    linger::Awaited,
    record::Record,
    refusal::{Asked, Message},
    request_id::RequestIds,
    service_time::ServiceTime,
};
use crate::{body::RequestBody, connection::Connection, facts::ConnectionFacts, upstream::Upstreams};

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
        request: Request<Incoming>,
        judged: Option<Judged>,
    ) -> Response<ResponseBody> {
        let ruling = match judged {
            Some(Judged::Start(judgement) | Judged::Refuse(judgement)) => judgement.ruling,
            Some(judged @ Judged::Wait(_)) => match judged.settled(&connection).await {
                Some(Judged::Start(judgement) | Judged::Refuse(judgement)) => judgement.ruling,
                Some(Judged::Wait(_)) | None => return Response::new(ResponseBody::broken()),
            },
            None => None,
        };
        let ruling = ruling.unwrap_or_else(|| self.rule(&connection, Head::of(&request)));
        let asked = Asked::of(request.method(), request.headers());
        let (arrived, held) = match ruling {
            Ruling::Start(arrived, held) => (arrived, held),
            Ruling::Wait(arrived, waiting) => match wait(&connection, &arrived.record, waiting).await {
                Some(Ok(held)) => (arrived, held),
                Some(Err(refusal)) => {
                    return refuse(arrived.record, Refused { refusal, retry_after: None }, &asked);
                }
                None => return Response::new(ResponseBody::broken()),
            },
            Ruling::Refuse(arrived, refused) => return refuse(arrived.record, refused, &asked),
            Ruling::BadBody(arrived, fault) => return bad_body(arrived.record, fault, &asked),
            Ruling::Turn(turn) => return self.turn_away(&connection.facts, turn, Head::of(&request)),
        };
        self.carry_out(connection, request, arrived, held, asked).await
    }

    /// Carries out a request that was admitted.
    async fn carry_out(
        self: Rc<Self>,
        connection: Rc<Connection>,
        request: Request<Incoming>,
        arrived: Arrived,
        held: Held,
        asked: Asked,
    ) -> Response<ResponseBody> {
        let (mut parts, incoming) = request.into_parts();
        let Arrived { mut record, exchange, hash, ends_here, wants_upgrade, bounds } = arrived;
        let application = Rc::clone(record.application());
        let snapshot = &application.application;
        let mut received = None;
        let (body, held) = if incoming.is_end_stream() {
            (RequestBody::Empty, held)
        } else {
            let intake = Intake::new(incoming, *self.core.shared().clock(), bounds);
            let counts = intake.received();
            let gathered = self.gather(&connection, &mut record, intake, held, exchange).await;
            match gathered {
                Ok(gathered) => {
                    received = Some(counts);
                    gathered
                }
                Err(Ungathered::Left) => return Response::new(ResponseBody::broken()),
                Err(Ungathered::Refused(refusal)) => {
                    record.add_bytes_in(counts.bytes());
                    let refused = Refused { refusal, retry_after: None };
                    return refuse(record, refused, &asked);
                }
                Err(Ungathered::Failed) => {
                    record.add_bytes_in(counts.bytes());
                    let fault = counts.fault().unwrap_or(ClientFault::Broken);
                    return bad_body(record, fault, &asked);
                }
            }
        };
        let forwarded =
            forward::request(&mut parts, &connection.facts, snapshot, &self.ids, (ends_here, wants_upgrade));
        forward::announce(&mut parts, &body);
        record.set_request_id(&forwarded.request_id);
        let in_flight = InFlight::begin(&self, &mut record, held);
        let left = Rc::new(Cell::new(false));
        let errand = Errand {
            service: Rc::clone(&self),
            application: Rc::clone(&application),
            class: record.class(),
            connection: Rc::clone(&connection),
            hash,
            left: Rc::clone(&left),
        };
        let exchange = Box::pin(errand.run(Request::from_parts(parts, body)));
        let (answered, in_flight) = Awaited::new(exchange, in_flight, left).await;
        if let Some(received) = &received {
            record.add_bytes_in(received.bytes());
        }
        let relayed = match answered {
            Ok(answered) => self.relay(&connection, record, in_flight, answered, &forwarded).await,
            Err(failure) => {
                in_flight.fail(failure.outcome());
                Err((record, failure))
            }
        };
        relayed.unwrap_or_else(|(record, failure)| {
            let mut response = fail(record, failure, received.as_deref(), &asked);
            response.headers_mut().insert(request_id::FIELD, forwarded.request_id.clone());
            response
        })
    }

    /// Gathers a body; gives it with a permit to go on.
    async fn gather(
        self: &Rc<Self>,
        connection: &Connection,
        record: &mut Record,
        intake: Intake,
        held: Held,
        exchange: tidegate_control::admission::Exchange,
    ) -> Result<(RequestBody, Held), Ungathered> {
        let application = Rc::clone(record.application());
        let bytes_max = application.application.settings.values.get(keys::SPOOL).0;
        let mut gathering = Gathering::new(intake, bytes_max, self.spool().account());
        if gathering.glance().await.map_err(|_| Ungathered::Failed)? {
            return Ok((gathering.into_body(), held));
        }
        // The client is slower than we are: nobody waits for it with a permit in hand.
        held.finish(Outcome::Ignore);
        let began = self.now();
        gathering.fill().await.map_err(|_| Ungathered::Failed)?;
        record.gathered(self.now().since(began));
        let held = match application.gate.arrive(exchange) {
            Entry::Start(held) => held,
            Entry::Refuse(refusal) => return Err(Ungathered::Refused(refusal)),
            Entry::Wait(waiting) => match wait(connection, record, waiting).await {
                Some(verdict) => verdict.map_err(Ungathered::Refused)?,
                None => return Err(Ungathered::Left),
            },
        };
        Ok((gathering.into_body(), held))
    }

    /// A head that broke the protocol or a bound before it became a request: the codec has answered.
    pub(crate) fn bad_request(&self, connection: &Connection, status: StatusCode, reason: &'static str) {
        self.unserved(&connection.facts, None, status, reason);
    }

    /// Answers a request that no application ever saw.
    fn turn_away(&self, facts: &ConnectionFacts, turn: Turn, head: Head<'_>) -> Response<ResponseBody> {
        let (status, reason, public) = match turn {
            Turn::Bad(bad) => (bad.status(), bad.name(), bad.public()),
            Turn::Redirect(port) => return self.redirect(facts, port, head),
            Turn::Unknown => (StatusCode::NOT_FOUND, "no_application", "No application serves this host."),
            Turn::Misdirected => (
                StatusCode::MISDIRECTED_REQUEST,
                "misdirected",
                "This connection was opened for another host.",
            ),
        };
        self.unserved(facts, Some(head), status, reason);
        let message = Message { status, reason, public, retry_after_s: None, page: None };
        let mut response = message.response(&Asked::of(head.method, head.headers));
        if matches!(turn, Turn::Bad(_)) {
            // Where one request was ambiguous, so is where the next begins.
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }

    /// Sends a client on to HTTPS, with the same method and body (308).
    fn redirect(&self, facts: &ConnectionFacts, port: u16, head: Head<'_>) -> Response<ResponseBody> {
        let mut response = Response::new(ResponseBody::empty());
        *response.status_mut() = StatusCode::PERMANENT_REDIRECT;
        let host = head.examine(facts.is_secure()).map(|examined| examined.host.name.into_owned());
        let port = if port == 443 { String::new() } else { format!(":{port}") };
        let target = head.uri.path_and_query().map_or("/", |target| target.as_str());
        let target = if target == "*" { "/" } else { target };
        let location = format!("https://{}{port}{target}", host.unwrap_or_default());
        if let Ok(location) = HeaderValue::try_from(location) {
            response.headers_mut().insert(header::LOCATION, location);
        }
        self.log_unserved(facts, Some(head), StatusCode::PERMANENT_REDIRECT, None);
        response
    }

    fn unserved(
        &self,
        facts: &ConnectionFacts,
        head: Option<Head<'_>>,
        status: StatusCode,
        reason: &'static str,
    ) {
        self.core.meters().host().add(Meter::BAD_REQUESTS, 1);
        self.log_unserved(facts, head, status, Some(reason));
    }

    fn log_unserved(
        &self,
        facts: &ConnectionFacts,
        head: Option<Head<'_>>,
        status: StatusCode,
        reason: Option<&'static str>,
    ) {
        if !self.access_log.is_on() || (reason.is_none() && !self.samples()) {
            return;
        }
        let field = |name| head.and_then(|head| head.headers.get(name).cloned());
        self.log(access_log::Entry {
            at: self.now(),
            client: facts.client_ip(),
            connection: facts.id,
            method: head.map(|head| head.method.clone()),
            target: head.map(|head| head.uri.clone()),
            version: head.map_or(http::Version::HTTP_11, |head| head.version),
            host: field(header::HOST),
            user_agent: field(header::USER_AGENT),
            referer: field(header::REFERER),
            request_id: None,
            tls: facts.tls.clone(),
            application: None,
            class: ClassId::default(),
            server: None,
            status: status.as_u16(),
            reason,
            detail: None,
            bytes_in: 0,
            bytes_out: 0,
            waiting: Duration::ZERO,
            gathering: Duration::ZERO,
            first_byte: None,
            service: None,
            total: Duration::ZERO,
        });
    }

    fn log(&self, entry: access_log::Entry) {
        if !self.access_log.write(entry) {
            self.core.meters().host().add(Meter::EVENTS_LOST, 1);
        }
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

/// Why a request's body is not there.
enum Ungathered {
    /// It broke a bound or broke off.
    Failed,
    /// Asked again, admission refused it.
    Refused(Refusal),
    /// The client has left.
    Left,
}

/// Waits for a verdict; `None` if the client leaves first, which also leaves the queue.
async fn wait(connection: &Connection, record: &Record, waiting: Waiting) -> Option<Result<Held, Refusal>> {
    tokio::select! {
        biased;
        verdict = waiting => Some(verdict),
        () = connection.departed(half_closed(record)) => None,
    }
}

fn half_closed(record: &Record) -> HalfClosed {
    record.application().application.settings.values.get(keys::HALF_CLOSED).0
}

/// The response to a refused request.
fn refuse(mut record: Record, refused: Refused, asked: &Asked) -> Response<ResponseBody> {
    let Refused { refusal, retry_after } = refused;
    record.refuse(refusal);
    let snapshot = &record.application().application;
    let values = &snapshot.settings.values;
    let by_reason = StatusCode::from_u16(refusal.status()).unwrap_or(StatusCode::SERVICE_UNAVAILABLE);
    let status = match values.get(keys::REFUSAL_STATUS).0 {
        RefusalStatus::TooManyRequests if refusal.is_overload() => StatusCode::TOO_MANY_REQUESTS,
        RefusalStatus::ServiceUnavailable if refusal.is_overload() => StatusCode::SERVICE_UNAVAILABLE,
        _ => by_reason,
    };
    let after = retry_after.unwrap_or_else(|| values.get(keys::REFUSAL_RETRY_AFTER));
    let page = match refusal {
        Refusal::Maintenance => snapshot.maintenance_page.clone(),
        _ => None,
    };
    let message = Message {
        status,
        reason: refusal.name(),
        public: refusal.public(),
        // Whole seconds, rounded up: nobody is to come back too early.
        retry_after_s: Some(after.as_secs() + u64::from(after.subsec_nanos() > 0)),
        page: page.as_deref(),
    };
    let response = message.response(asked);
    record.set_status(status);
    response.map(|body| body.with_record(record))
}

/// The response to a request whose body is at fault.
fn bad_body(mut record: Record, fault: ClientFault, asked: &Asked) -> Response<ResponseBody> {
    let (status, reason) = (fault.status(), fault.name());
    record.explain(reason, None);
    record.set_status(status);
    let message = Message { status, reason, public: fault.public(), retry_after_s: None, page: None };
    let mut response = message.response(asked);
    // The rest of the body is not waited for.
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response.map(|body| body.with_record(record))
}

/// The response to a request whose exchange with a server failed.
fn fail(
    mut record: Record,
    failure: Failure,
    received: Option<&Received>,
    asked: &Asked,
) -> Response<ResponseBody> {
    match failure {
        Failure::Client(fault) => {
            let fault = received.and_then(Received::fault).unwrap_or(fault);
            bad_body(record, fault, asked)
        }
        Failure::Refused(refusal) => refuse(record, Refused { refusal, retry_after: None }, asked),
        Failure::Upstream { kind, message: detail } => {
            let (status, reason, public) = error::upstream(kind);
            record.explain(reason, Some(detail));
            record.set_status(status);
            let message = Message { status, reason, public, retry_after_s: None, page: None };
            let response = message.response(asked);
            response.map(|body| body.with_record(record))
        }
    }
}
