//! Traced requests made by hand, as the spans they become.

use std::{path::Path, sync::Arc};

use opentelemetry_proto::tonic::common::v1::any_value::Value;
use tidegate_control::ClassId;
use tidegate_runtime::{Shared, TraceIds};

use super::*;

/// A request that came at second 10, started after 2 s, was answered after 3 and served after 4, and ended after 5.
fn traced(shared: &Shared) -> TracedRequest {
    let at = |seconds: u64| Timestamp::from_nanos(seconds * 1_000_000_000);
    let application = Arc::clone(&shared.snapshot().applications[0]);
    let server = application.state.servers().members().iter().next().map(Arc::clone);
    TracedRequest {
        ids: TraceIds {
            trace_id: [1; 16],
            span_id: [2; 8],
            exchange_id: [3; 8],
            waiting_id: [4; 8],
            parent_id: Some([5; 8]),
            trace_state: "a=1".to_owned(),
        },
        application,
        class: ClassId(0),
        arrived: at(10),
        started: Some(at(12)),
        connect_time: None,
        answered: Some(at(13)),
        served: Some(at(14)),
        ended: at(15),
        gathering: Duration::ZERO,
        method: "GET".to_owned(),
        scheme: "https",
        path: "/a".to_owned(),
        query: None,
        version: "2",
        host: Some("[::1]:8443".to_owned()),
        user_agent: None,
        client: None,
        request_id: Some("7".to_owned()),
        server,
        tries: 2,
        status: Some(200),
        reason: None,
        would_refuse: None,
        bytes_in: 0,
        bytes_out: 6,
    }
}

fn shared() -> Arc<Shared> {
    let text = "[[listener]]\naddress = \"127.0.0.1:8080\"\n[application.shop]\n\
                servers = [{ name = \"one\", url = \"http://127.0.0.1:8000\" }]\n";
    Shared::new(tidegate_config::parse(text, Path::new("/"), "test").unwrap()).unwrap()
}

fn value(span: &Span, key: &str) -> Option<Value> {
    span.attributes.iter().find(|attribute| attribute.key == key)?.value.clone()?.value
}

fn is_text(span: &Span, key: &str, text: &str) -> bool {
    value(span, key) == Some(Value::StringValue(text.to_owned()))
}

#[test]
fn a_request_that_waited_and_was_served_is_three_spans() {
    let shared = shared();
    let spans: Vec<Span> = spans(&traced(&shared)).collect();
    let [served, queued, exchange] = &spans[..] else { panic!("{spans:?}") };
    let seconds =
        |span: &Span| (span.start_time_unix_nano / 1_000_000_000, span.end_time_unix_nano / 1_000_000_000);
    assert_eq!((seconds(served), seconds(queued), seconds(exchange)), ((10, 15), (10, 12), (12, 14)));
    assert_eq!(served.name, "GET shop/default");
    assert_eq!((served.parent_span_id.as_slice(), served.flags), (&[5; 8][..], 0x301));
    for below in [queued, exchange] {
        assert_eq!((below.parent_span_id.as_slice(), below.flags), (&[2; 8][..], 0x101));
        assert_eq!((&below.trace_id, &below.trace_state), (&served.trace_id, &served.trace_state));
    }
    assert_eq!(value(served, "tidegate.waiting_time"), Some(Value::DoubleValue(2.0)));
    assert!(is_text(served, "server.address", "::1"));
    assert_eq!(value(served, "server.port"), Some(Value::IntValue(8443)));
    assert!(is_text(exchange, "network.peer.address", "127.0.0.1"));
    assert_eq!(value(exchange, "http.request.resend_count"), Some(Value::IntValue(1)));
    assert_eq!(value(exchange, "tidegate.first_byte_time"), Some(Value::DoubleValue(1.0)));
    assert_eq!(value(exchange, "tidegate.connect_time"), None);
    assert!(spans.iter().all(|span| span.status.is_none()), "nothing failed: {spans:?}");
    let connected = TracedRequest { connect_time: Some(Duration::from_millis(250)), ..traced(&shared) };
    let exchange = self::spans(&connected).last().unwrap();
    assert_eq!(value(&exchange, "tidegate.connect_time"), Some(Value::DoubleValue(0.25)));
}

#[test]
fn who_failed_is_told_by_the_status_of_spans() {
    let shared = shared();
    let error = |span: &Span| span.status.as_ref().is_some_and(|s| s.code == StatusCode::Error as i32);
    // Refused after waiting: the gateway's error, and no exchange.
    let refused = TracedRequest {
        started: None,
        answered: None,
        served: None,
        server: None,
        status: Some(503),
        reason: Some("wait_too_long"),
        ..traced(&shared)
    };
    let refused: Vec<Span> = spans(&refused).collect();
    assert_eq!(
        refused.iter().map(|span| span.name.as_str()).collect::<Vec<_>>(),
        ["GET shop/default", "queued"]
    );
    assert!(error(&refused[0]) && is_text(&refused[0], "error.type", "wait_too_long"), "{refused:?}");
    // The client's error: the server span has none, the client span has one.
    let missing = TracedRequest { status: Some(404), ..traced(&shared) };
    let missing: Vec<Span> = spans(&missing).collect();
    assert_eq!((error(&missing[0]), error(&missing[2])), (false, true));
    assert!(is_text(&missing[2], "error.type", "404"));
    // A server that did not answer.
    let failed = TracedRequest {
        answered: None,
        served: None,
        status: Some(502),
        reason: Some("reset"),
        ..traced(&shared)
    };
    let failed: Vec<Span> = spans(&failed).collect();
    assert!(error(&failed[0]) && error(&failed[2]), "{failed:?}");
    assert!(is_text(&failed[2], "error.type", "reset"));
    assert_eq!(value(&failed[2], "http.response.status_code"), None, "there was none");
    // A client that left.
    let left = TracedRequest { status: None, reason: Some("abandoned"), ..traced(&shared) };
    let left: Vec<Span> = spans(&left).collect();
    assert!(!error(&left[0]) && is_text(&left[0], "tidegate.reason", "abandoned"));
}

#[test]
fn what_only_watches_and_would_have_refused_it_is_told_and_no_error() {
    let shared = shared();
    let would = TracedRequest { would_refuse: Some("queue_full"), ..traced(&shared) };
    let would: Vec<Span> = spans(&would).collect();
    assert!(is_text(&would[0], "tidegate.would_refuse", "queue_full"), "{would:?}");
    assert!(would.iter().all(|span| span.status.is_none()), "it was served: {would:?}");
    let unwatched: Vec<Span> = spans(&traced(&shared)).collect();
    assert_eq!(value(&unwatched[0], "tidegate.would_refuse"), None);
}

#[test]
fn what_clients_write_does_not_become_a_name() {
    let shared = shared();
    let odd = TracedRequest { method: "BREW".to_owned(), ..traced(&shared) };
    let odd: Vec<Span> = spans(&odd).collect();
    assert_eq!(odd[0].name, "HTTP shop/default");
    assert!(is_text(&odd[0], "http.request.method", "_OTHER"));
    assert!(is_text(&odd[0], "http.request.method_original", "BREW"));
}

#[test]
fn values_in_queries_are_hidden() {
    for (query, told) in [
        ("a=1&Signature=x%20y&sig=&b=1=2", "a=REDACTED&Signature=REDACTED&sig=REDACTED&b=REDACTED"),
        // A parameter without a name may be a token.
        ("8f14e45f&&x=1", "REDACTED&&x=REDACTED"),
        ("", ""),
    ] {
        assert_eq!(without_values(query), told);
    }
}
