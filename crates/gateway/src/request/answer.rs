//! Answers of our own: what is sent to a client whose request no server answered.

use std::time::Duration;

use http::{HeaderValue, Response, StatusCode, header};
use http_body::Body;
use tidegate_control::{
    ClassId, Refusal,
    knobs::keys,
    meters::{BadRequest, Meter},
};
use tidegate_runtime::Spooled;

use super::{
    Service, access_log,
    error::{self, ClientFault, Failure},
    forward,
    head::Head,
    intake::Received,
    judgement::{Refused, Turn},
    record::Record,
    refusal::{Asked, Message},
    request_id,
    response_body::ResponseBody,
    waiting_room::{Kept, Shut},
};
use crate::facts::ConnectionFacts;

impl Service {
    /// Answers a request that no application ever saw.
    pub(super) fn turn_away(
        &self,
        facts: &ConnectionFacts,
        turn: Turn,
        head: Head<'_>,
    ) -> Response<ResponseBody> {
        let (status, reason, public) = match turn {
            Turn::Bad(bad) => (bad.status(), bad.reason(), bad.public()),
            Turn::Redirect(port) => return self.redirect(facts, port, head),
            Turn::Last => return self.answer_here(facts, head),
            Turn::Unknown => {
                (StatusCode::NOT_FOUND, BadRequest::NoApplication, "No application serves this host.")
            }
            Turn::Misdirected => (
                StatusCode::MISDIRECTED_REQUEST,
                BadRequest::Misdirected,
                "This connection was opened for another host.",
            ),
        };
        let message = Message { status, reason: reason.name(), public, retry_after_s: None, page: None };
        let mut response = message.response(&Asked::of(head.method, head.headers));
        let bytes_out = response.body().size_hint().lower();
        let id = self.ids.of(facts, head.headers);
        response.headers_mut().insert(request_id::FIELD, id.clone());
        self.unserved(facts, Some(head), id, status, reason, bytes_out);
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
        let id = self.ids.of(facts, head.headers);
        response.headers_mut().insert(request_id::FIELD, id.clone());
        self.log_unserved(facts, Some(head), id, StatusCode::PERMANENT_REDIRECT, None, 0);
        response
    }

    /// Says that there is somebody here, to who asks for that alone (204).
    fn answer_here(&self, facts: &ConnectionFacts, head: Head<'_>) -> Response<ResponseBody> {
        let mut response = Response::new(ResponseBody::empty());
        *response.status_mut() = StatusCode::NO_CONTENT;
        let id = self.ids.of(facts, head.headers);
        response.headers_mut().insert(request_id::FIELD, id.clone());
        self.log_unserved(facts, Some(head), id, StatusCode::NO_CONTENT, None, 0);
        response
    }

    pub(super) fn unserved(
        &self,
        facts: &ConnectionFacts,
        head: Option<Head<'_>>,
        id: HeaderValue,
        status: StatusCode,
        reason: BadRequest,
        bytes_out: u64,
    ) {
        self.core.meters().host().add_labelled(Meter::BAD_REQUESTS, reason as usize, 1);
        self.log_unserved(facts, head, id, status, Some(reason.name()), bytes_out);
    }

    fn log_unserved(
        &self,
        facts: &ConnectionFacts,
        head: Option<Head<'_>>,
        id: HeaderValue,
        status: StatusCode,
        reason: Option<&'static str>,
        bytes_out: u64,
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
            host: head.and_then(Head::host_asked),
            user_agent: field(header::USER_AGENT),
            referer: field(header::REFERER),
            request_id: Some(id),
            tls: facts.tls.clone(),
            application: None,
            class: ClassId::default(),
            server: None,
            status: status.as_u16(),
            reason,
            detail: None,
            would_refuse: None,
            bytes_in: 0,
            bytes_out,
            waiting: Duration::ZERO,
            gathering: Duration::ZERO,
            connect: None,
            first_byte: None,
            service: None,
            total: Duration::ZERO,
        });
    }
}

/// The response to a refused request.
pub(super) fn refuse(
    mut record: Box<Record>,
    refused: Refused,
    asked: &Asked,
    id: HeaderValue,
) -> Response<ResponseBody> {
    let Refused { refusal, retry_after } = refused;
    record.refuse(refusal);
    let snapshot = &record.application().application;
    let values = &snapshot.settings.values;
    let status = values.get(keys::REFUSAL_STATUS).0.of(refusal);
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::SERVICE_UNAVAILABLE);
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
    own(record, response, id)
}

/// The response to a request that the waiting room does not let in, or tells to come again, with its form if it was wanted and is
/// whole. `detail`: what went wrong, for logs.
pub(super) fn shut(
    mut record: Box<Record>,
    shut: &Shut,
    asked: &Asked,
    id: HeaderValue,
    (form, spooled): (Option<Kept>, Spooled),
    detail: Option<String>,
) -> Response<ResponseBody> {
    match shut.refusal() {
        Some(refusal) => record.refuse(refusal),
        None => record.explain(shut.reason(), detail),
    }
    let response = shut.response(asked, form, spooled);
    record.set_status(response.status());
    own(record, response, id)
}

/// The response to a request whose body is at fault.
pub(super) fn bad_body(
    mut record: Box<Record>,
    fault: ClientFault,
    asked: &Asked,
    id: HeaderValue,
) -> Response<ResponseBody> {
    let (status, reason) = (fault.status(), fault.name());
    record.explain(reason, None);
    record.set_status(status);
    let message = Message { status, reason, public: fault.public(), retry_after_s: None, page: None };
    let mut response = message.response(asked);
    // The rest of the body is not waited for.
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    own(record, response, id)
}

/// The response to a request whose exchange with a server failed.
pub(super) fn fail(
    mut record: Box<Record>,
    failure: Failure,
    asked: &Asked,
    id: HeaderValue,
) -> Response<ResponseBody> {
    match failure {
        Failure::Client(fault) => {
            let fault = record.received().and_then(Received::fault).unwrap_or(fault);
            bad_body(record, fault, asked, id)
        }
        Failure::Refused(refusal) => refuse(record, Refused { refusal, retry_after: None }, asked, id),
        Failure::Upstream { kind, message: detail } => {
            let (status, reason, public) = error::upstream(kind);
            record.explain(reason, Some(detail));
            record.set_status(status);
            let message = Message { status, reason, public, retry_after_s: None, page: None };
            let response = message.response(asked);
            own(record, response, id)
        }
    }
}

/// An answer of our own about a request of an application.
fn own(
    mut record: Box<Record>,
    mut response: Response<ResponseBody>,
    id: HeaderValue,
) -> Response<ResponseBody> {
    record.set_request_id(&id);
    response.headers_mut().insert(request_id::FIELD, id);
    let settings = &record.application().application.settings;
    forward::edit_own(response.headers_mut(), &settings.response_headers);
    response.map(|body| body.with_record(record))
}
