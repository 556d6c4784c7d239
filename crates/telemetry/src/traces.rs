//! Traces: a traced request as spans, named and described by OpenTelemetry's conventions for HTTP.
//!
//! One span of kind server from arrival to the last byte; below it `queued` if the request waited, and one of kind
//! client for its exchange with a server, which is the parent of what the server traces.

use std::time::Duration;

use opentelemetry_proto::tonic::{
    collector::trace::v1::ExportTraceServiceRequest,
    common::v1::KeyValue,
    resource::v1::Resource,
    trace::v1::{ResourceSpans, ScopeSpans, Span, Status, span::SpanKind, status::StatusCode},
};
use tidegate_control::Timestamp;
use tidegate_runtime::{TracedRequest, servers::Endpoint};

use crate::attributes::{SCHEMA, number, scope, text, whole};

/// A request that waited for less has no span of its waiting.
const WAITED_MIN: Duration = Duration::from_millis(1);

/// The sampled flag (W3C Trace Context, section 3.2.2.5), and that it is known whether the parent is remote.
const SAMPLED: u32 = 0x101;
/// That the parent is of another process.
const IS_REMOTE: u32 = 0x200;

/// Methods whose names do not come from clients (RFC 9110, section 9.3, and RFC 5789).
const METHODS: &[&str] = &["GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"];

/// The message that brings traced requests to the collector.
pub(crate) fn request<'a>(
    requests: impl IntoIterator<Item = &'a TracedRequest>,
    resource: Resource,
) -> ExportTraceServiceRequest {
    let of_scope = ScopeSpans {
        scope: Some(scope()),
        spans: requests.into_iter().flat_map(spans).collect(),
        schema_url: SCHEMA.to_owned(),
    };
    ExportTraceServiceRequest {
        resource_spans: vec![ResourceSpans {
            resource: Some(resource),
            scope_spans: vec![of_scope],
            schema_url: SCHEMA.to_owned(),
        }],
    }
}

/// One to three spans.
fn spans(request: &TracedRequest) -> impl Iterator<Item = Span> {
    [Some(served(request)), waiting(request), exchange(request)].into_iter().flatten()
}

/// The span of the request as a whole.
fn served(request: &TracedRequest) -> Span {
    let TracedRequest { ids, application, class, .. } = request;
    let (application, class) = (&application.settings.name, application.class_name(*class));
    let method = method(request);
    let mut attributes = method.attributes;
    attributes.extend([
        text("url.scheme", request.scheme),
        text("url.path", &request.path),
        text("network.protocol.name", "http"),
        text("network.protocol.version", request.version),
        text("tidegate.application", application),
        text("tidegate.class", class),
        number("tidegate.waiting_time", waited(request).as_secs_f64()),
        whole("http.request.body.size", request.bytes_in),
        whole("http.response.body.size", request.bytes_out),
    ]);
    attributes.extend(request.query.as_deref().map(|query| text("url.query", without_values(query))));
    if let Some(host) = request.host.as_deref() {
        attributes.extend(server_address(host));
    }
    attributes.extend(request.client.map(|client| text("client.address", client.to_string())));
    attributes.extend(request.user_agent.as_ref().map(|agent| text("user_agent.original", agent)));
    attributes.extend(request.request_id.as_ref().map(|id| text("tidegate.request_id", id)));
    if !request.gathering.is_zero() {
        attributes.push(number("tidegate.gathering_time", request.gathering.as_secs_f64()));
    }
    attributes.extend(request.status.map(|status| whole("http.response.status_code", status)));
    attributes.extend(request.reason.map(|reason| text("tidegate.reason", reason)));
    attributes.extend(request.would_refuse.map(|reason| text("tidegate.would_refuse", reason)));
    // What a client did wrong is no error of the server's (conventions for HTTP server spans).
    let error = request
        .status
        .filter(|status| *status >= 500)
        .map(|status| request.reason.map_or_else(|| status.to_string(), str::to_owned));
    let (error, status) = failure(error);
    attributes.extend(error);
    Span {
        span_id: ids.span_id.to_vec(),
        parent_span_id: ids.parent_id.map(|id| id.to_vec()).unwrap_or_default(),
        flags: SAMPLED | if ids.parent_id.is_some() { IS_REMOTE } else { 0 },
        name: format!("{} {application}/{class}", method.name),
        kind: SpanKind::Server.into(),
        status,
        ..span(request, request.arrived, request.ended, attributes)
    }
}

/// The span of its waiting, queue and body together, if it waited.
fn waiting(request: &TracedRequest) -> Option<Span> {
    let end = request.started.unwrap_or(request.ended);
    (waited(request) >= WAITED_MIN).then(|| Span {
        span_id: request.ids.waiting_id.to_vec(),
        parent_span_id: request.ids.span_id.to_vec(),
        name: "queued".to_owned(),
        kind: SpanKind::Internal.into(),
        ..span(request, request.arrived, end, Vec::new())
    })
}

/// The span of its exchange with a server, if it was sent on to one.
fn exchange(request: &TracedRequest) -> Option<Span> {
    let (started, server) = request.started.zip(request.server.as_ref())?;
    let method = method(request);
    let mut attributes = method.attributes;
    attributes.push(text("tidegate.server", server.name()));
    match server.endpoint() {
        Endpoint::Tcp(address) => {
            attributes.push(text("network.peer.address", address.ip().to_string()));
            attributes.push(whole("network.peer.port", address.port()));
            attributes.push(text(
                "server.address",
                server.host().map_or_else(|| address.ip().to_string(), str::to_owned),
            ));
            attributes.push(whole("server.port", address.port()));
        }
        Endpoint::Unix(path) => {
            attributes.push(text("network.transport", "unix"));
            attributes.push(text("server.address", path.display().to_string()));
        }
    }
    if request.tries > 1 {
        attributes.push(whole("http.request.resend_count", request.tries - 1));
    }
    if let Some(time) = request.connect_time {
        attributes.push(number("tidegate.connect_time", time.as_secs_f64()));
    }
    let error = match request.answered {
        Some(answered) => {
            attributes.push(number("tidegate.first_byte_time", answered.since(started).as_secs_f64()));
            attributes.extend(request.status.map(|status| whole("http.response.status_code", status)));
            request.status.filter(|status| *status >= 400).map(|status| status.to_string())
        }
        None => Some(request.reason.unwrap_or("abandoned").to_owned()),
    };
    let (error, status) = failure(error);
    attributes.extend(error);
    Some(Span {
        span_id: request.ids.exchange_id.to_vec(),
        parent_span_id: request.ids.span_id.to_vec(),
        name: method.name.to_owned(),
        kind: SpanKind::Client.into(),
        status,
        ..span(request, started, request.served.unwrap_or(request.ended), attributes)
    })
}

fn span(request: &TracedRequest, start: Timestamp, end: Timestamp, attributes: Vec<KeyValue>) -> Span {
    Span {
        trace_id: request.ids.trace_id.to_vec(),
        trace_state: request.ids.trace_state.clone(),
        flags: SAMPLED,
        start_time_unix_nano: start.as_nanos(),
        end_time_unix_nano: end.max(start).as_nanos(),
        attributes,
        ..Span::default()
    }
}

fn waited(request: &TracedRequest) -> Duration {
    request.started.unwrap_or(request.ended).since(request.arrived)
}

/// A method with a bounded set of names.
struct Method {
    /// What spans are called by it.
    name: &'static str,
    attributes: Vec<KeyValue>,
}

fn method(request: &TracedRequest) -> Method {
    match METHODS.iter().find(|known| **known == request.method) {
        Some(known) => Method { name: known, attributes: vec![text("http.request.method", *known)] },
        None => Method {
            name: "HTTP",
            attributes: vec![
                text("http.request.method", "_OTHER"),
                text("http.request.method_original", &request.method),
            ],
        },
    }
}

/// The attribute and the status of a span that failed for that reason.
fn failure(reason: Option<String>) -> (Option<KeyValue>, Option<Status>) {
    match reason {
        Some(reason) => {
            let status = Status { message: String::new(), code: StatusCode::Error.into() };
            (Some(text("error.type", reason)), Some(status))
        }
        None => (None, None),
    }
}

/// Host and port of a `Host` field.
fn server_address(host: &str) -> Vec<KeyValue> {
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if !port.contains(']') => (name, port.parse::<u16>().ok()),
        _ => (host, None),
    };
    let name = name.trim_start_matches('[').trim_end_matches(']');
    let port = port.map(|port| whole("server.port", port));
    [text("server.address", name)].into_iter().chain(port).collect()
}

/// A query with the names of its parameters only: what people search for, session ids, tokens of links in mails and
/// signatures stand there, and nobody but the application knows which is which.
fn without_values(query: &str) -> String {
    let parts = query.split('&').map(|part| match part.split_once('=') {
        Some((name, _)) => format!("{name}=REDACTED"),
        None if part.is_empty() => String::new(),
        None => "REDACTED".to_owned(),
    });
    parts.collect::<Vec<_>>().join("&")
}

#[cfg(test)]
mod tests;
