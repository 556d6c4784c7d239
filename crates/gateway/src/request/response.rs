//! A server's answer on its way to the client: its head edited, its body brought off the server.

use std::{
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, Waker},
};

use http::{HeaderMap, HeaderValue, Response, StatusCode, Version, header, response::Parts};
use http_body::Body;
use tidegate_control::{admission::Outcome, knobs::keys, meters::UpstreamError};
use tidegate_runtime::{Application, Spooled};

use super::{
    Service,
    dispatch::Answered,
    error::Failure,
    forward::{self, Forwarded},
    frames::{Frames, length},
    hop_by_hop,
    in_flight::InFlight,
    intake::Bounds,
    read_ahead::{ReadAhead, Reading},
    record::Record,
    request_id,
    response_body::ResponseBody,
    upgrade::Tunnel,
};
use crate::{
    body::BodyError,
    connection::{Connection, Protocol},
    upstream::UpstreamBody,
};

/// Bytes of a response that are read ahead without asking for memory; about what a codec holds anyway.
const FREE_BYTES: u64 = 16 * 1024;

/// A request that has no answer to relay.
pub(super) struct Unanswered {
    pub(super) record: Box<Record>,
    pub(super) failure: Failure,
}

impl Unanswered {
    pub(super) fn new(record: Box<Record>, failure: Failure) -> Box<Self> {
        Box::new(Self { record, failure })
    }
}

impl Service {
    /// Makes a server's answer the client's response.
    ///
    /// What is there of the body is read at once. If that is all of it, the permit goes back before
    /// the client has seen a byte; else the rest is read in step with the client, or ahead of it.
    pub(super) fn relay(
        self: &Rc<Self>,
        connection: &Rc<Connection>,
        mut record: Box<Record>,
        in_flight: InFlight,
        answered: Box<Answered>,
        forwarded: &Forwarded,
    ) -> Result<Response<ResponseBody>, Box<Unanswered>> {
        let Answered { response, sticky } = *answered;
        let (mut head, upstream) = response.into_parts();
        let application = Rc::clone(record.application());
        let status = head.status;
        record.answer(upstream.answered_at(), upstream.connect_time());
        if status == StatusCode::SWITCHING_PROTOCOLS {
            return tunnel(connection, record, in_flight, head, upstream, forwarded, sticky.as_deref());
        }
        let wanted = protocols_wanted(connection, &head);
        if upstream.ends_here() {
            hop_by_hop::remove(&mut head.headers);
        }
        edit(&mut head, &application.application, forwarded, sticky.as_deref());
        if !wanted.is_empty() {
            head.headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
            for protocol in wanted {
                head.headers.append(header::UPGRADE, protocol);
            }
        }
        let values = &application.application.settings.values;
        if is_event_stream(&head.headers)
            && let Err(refusal) = in_flight.become_stream()
        {
            in_flight.fail(Outcome::Ignore);
            return Err(Unanswered::new(record, Failure::Refused(refusal)));
        }
        let bytes_max = values.get(keys::SPOOL).0;
        let mut read = Read { frames: Frames::default(), bytes: 0, spooled: self.spool().account() };
        let mut upstream = upstream;
        let body = match read.what_is_there(&mut upstream, bytes_max) {
            Ok(true) => {
                drop(upstream);
                record.serve(in_flight.finish(status));
                ResponseBody::pieces(read.frames, read.spooled)
            }
            Ok(false) => ResponseBody::read_ahead(ReadAhead::new(Reading {
                upstream,
                in_flight,
                status,
                connection: Rc::clone(connection),
                half_closed: values.get(keys::HALF_CLOSED).0,
                bytes_max,
                bounds: Bounds::of_response(&self.core.view().snapshot.settings.host),
                frames: read.frames,
                spooled: read.spooled,
            })),
            Err(error) => {
                let failure = match error {
                    BodyError::Upstream(_) => {
                        Failure::Upstream { kind: UpstreamError::Body, message: error.to_string() }
                    }
                    error => Failure::Client(error.into()),
                };
                in_flight.fail(failure.outcome());
                return Err(Unanswered::new(record, failure));
            }
        };
        record.set_status(status);
        Ok(Response::from_parts(head, body.with_record(record)))
    }
}

/// What has been read of a body.
struct Read {
    frames: Frames,
    bytes: u64,
    spooled: Spooled,
}

impl Read {
    /// Reads what is there, as far as `bytes_max` and memory allow; whether that was all.
    fn what_is_there(&mut self, upstream: &mut UpstreamBody, bytes_max: u64) -> Result<bool, BodyError> {
        // Whoever reads the rest asks again first, and is woken then.
        let mut quiet = Context::from_waker(Waker::noop());
        loop {
            if upstream.is_end_stream() {
                return Ok(self.is_whole());
            }
            if self.bytes >= bytes_max || (self.bytes >= FREE_BYTES && !self.is_granted()) {
                return Ok(false);
            }
            match Pin::new(&mut *upstream).poll_frame(&mut quiet) {
                Poll::Ready(Some(frame)) => {
                    let frame = frame?;
                    self.bytes += length(&frame);
                    self.frames.push(frame);
                }
                Poll::Ready(None) => return Ok(self.is_whole()),
                Poll::Pending => return Ok(false),
            }
        }
    }

    /// All of it is here, also where that is more than was asked for: it is accounted for as far as there is memory.
    fn is_whole(&mut self) -> bool {
        if self.bytes > FREE_BYTES {
            let _ = self.is_granted();
        }
        true
    }

    /// Whether memory is granted for what was read so far.
    fn is_granted(&mut self) -> bool {
        let missing = self.bytes.saturating_sub(self.spooled.bytes());
        missing == 0 || self.spooled.grow(missing)
    }
}

/// Server-sent events stream for as long as anybody listens.
fn is_event_stream(headers: &HeaderMap) -> bool {
    let Some(media) = hop_by_hop::find(headers, &header::CONTENT_TYPE) else { return false };
    let media = media.as_bytes().split(|byte| *byte == b';').next().unwrap_or_default();
    media.trim_ascii().eq_ignore_ascii_case(b"text/event-stream")
}

/// Makes the server's head, without the fields that end here, the client's.
fn edit(head: &mut Parts, application: &Application, forwarded: &Forwarded, sticky: Option<&str>) {
    // The codec writes the version its client speaks.
    head.version = Version::HTTP_11;
    // Meant for the codec that put them there.
    head.extensions.clear();
    if head.status == StatusCode::NO_CONTENT {
        // Of nothing, which it must not have (RFC 9110, section 8.6): clients of HTTP/2 miss the body then.
        head.headers.remove(header::CONTENT_LENGTH);
    }
    head.headers.insert(request_id::FIELD, forwarded.request_id.clone());
    if let (Some(value), Some(name)) = (sticky, &application.settings.upstream.sticky_cookie) {
        let secure = if forwarded.is_secure { "; Secure" } else { "" };
        let cookie = format!("{name}={value}; Path=/; HttpOnly; SameSite=Lax{secure}");
        if let Ok(cookie) = HeaderValue::try_from(cookie) {
            head.headers.append(header::SET_COOKIE, cookie);
        }
    }
    if let Some(visit) = &forwarded.visit {
        visit.finish(application, &mut head.headers, forwarded.is_secure);
    }
    forward::edit(&mut head.headers, application.settings.response_headers.iter().map(|edit| &edit.edit));
}

/// What a server asks to go on with: a 426 says it, and would say nothing without (RFC 9110, section 15.5.22). HTTP/2 has no
/// such field.
fn protocols_wanted(connection: &Connection, head: &Parts) -> Vec<HeaderValue> {
    if head.status != StatusCode::UPGRADE_REQUIRED || connection.protocol() == Protocol::Http2 {
        return Vec::new();
    }
    head.headers.get_all(header::UPGRADE).iter().cloned().collect()
}

/// Joins both sides after a 101.
fn tunnel(
    connection: &Connection,
    mut record: Box<Record>,
    in_flight: InFlight,
    mut head: Parts,
    upstream: UpstreamBody,
    forwarded: &Forwarded,
    sticky: Option<&str>,
) -> Result<Response<ResponseBody>, Box<Unanswered>> {
    let protocol = head.headers.get(header::UPGRADE).cloned();
    let asked = forwarded.upgrade.as_ref();
    let was_asked = asked.zip(protocol.as_ref()).is_some_and(|(asked, to)| hop_by_hop::is_among(to, asked));
    let (Some(upstream), Some(protocol), true) = (upstream.into_upgraded(), protocol, was_asked) else {
        in_flight.fail(Outcome::Drop);
        let message = "a change to a protocol that nobody asked for, or that it does not name".to_owned();
        return Err(Unanswered::new(record, Failure::Upstream { kind: UpstreamError::Garbage, message }));
    };
    if let Err(refusal) = in_flight.become_stream() {
        in_flight.fail(Outcome::Ignore);
        return Err(Unanswered::new(record, Failure::Refused(refusal)));
    }
    hop_by_hop::remove(&mut head.headers);
    edit(&mut head, &Rc::clone(record.application()).application, forwarded, sticky);
    head.headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    head.headers.insert(header::UPGRADE, protocol);
    record.set_status(head.status);
    connection.set_upgrade(Box::new(Tunnel { upstream, stream: in_flight, record }));
    Ok(Response::from_parts(head, ResponseBody::empty()))
}
