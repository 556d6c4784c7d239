//! Schema of everything live in one answer.

use serde_json::{Value as Json, json};
use tidegate_control::knobs::{ChoiceSet as _, Mode};

use super::{described, list, maybe, object, schema};

pub(super) fn overview() -> Json {
    let listener = object(&[
        ("name", of("string")),
        ("address", of("string")),
        ("tls", of("boolean")),
        ("application", described(maybe("string"), "The only one it serves; null: by host.")),
    ]);
    object(&[
        ("at", of("number")),
        ("version", of("integer")),
        ("window_s", of("number")),
        ("gateway", gateway()),
        ("listeners", list(listener)),
        ("applications", list(application())),
        ("controllers", list(controller())),
    ])
}

fn gateway() -> Json {
    let waited =
        || described(maybe("number"), "Share of the time in which something on the host waited for it.");
    object(&[
        ("version", of("string")),
        ("ready", of("boolean")),
        ("started_at", of("number")),
        ("connections_open", of("integer")),
        ("connections_parked", of("integer")),
        ("spooled_bytes", described(of("integer"), "In use for bodies read ahead.")),
        ("connections_accepted", maybe("number")),
        ("connections_refused", rates()),
        ("tls_handshakes", rates()),
        ("broken_prefaces", maybe("number")),
        ("bad_requests", rates()),
        ("events_lost", maybe("number")),
        ("cpu", described(maybe("number"), "Processors that the gateway uses.")),
        ("host_cpu", described(maybe("number"), "Processors in use on the host, by whatever.")),
        ("memory_bytes", maybe("integer")),
        ("memory_available_bytes", maybe("integer")),
        ("cpu_pressure", waited()),
        ("memory_pressure", waited()),
        ("io_pressure", waited()),
        ("recording", schema("recording")),
    ])
}

fn application() -> Json {
    let hosts = json!({
        "type": ["array", "null"], "items": of("string"), "description": "Null: whatever host no other application names.",
    });
    let modes = described(
        modes(&["client", "ingress", "queue", "in_flight", "egress", "long_streams", "tls_sessions"]),
        "Of its own controls, in force; null: that one is not set. Of queue: of the classes that have no mode of their own.",
    );
    let ahead = object(&[("from", of("number")), ("step_s", of("number")), ("waiting", list(of("integer")))]);
    let room = json!({
        "type": ["object", "null"],
        "description": "As in waiting_room, of all classes together, with who waits from now on in at most 60 bars; null: there is none.",
        "properties": { "ahead": ahead },
    });
    let would_wait = "Requests that would be waiting, had what only watches acted; null: nothing watches.";
    let capacity = "Work units a second; a request of the class default is one.";
    let estimate = "As in capacity, without costs, servers and events.";
    let own = [
        ("name", of("string")),
        ("hosts", hosts),
        ("mode", json!({ "type": "string", "enum": Mode::NAMES })),
        ("algorithm", of("string")),
        ("modes", modes),
        ("refusing", list(of("string"))),
        ("in_flight", of("integer")),
        ("in_flight_limit", of("integer")),
        ("in_flight_dormant", of("integer")),
        ("capacity", described(maybe("number"), capacity)),
        ("estimate", described(of("object"), estimate)),
        ("room", room),
        ("queued", of("integer")),
        ("would_wait", described(maybe("integer"), would_wait)),
        ("long_streams", of("integer")),
        ("awaiting_server", of("integer")),
        ("lingering", of("integer")),
        ("tls_sessions", tls_sessions()),
        ("processors", processors()),
        ("classes", list(class())),
        ("servers", list(server())),
        ("unresolved", list(schema("unresolved"))),
    ];
    object(&[&own[..], &counts()].concat())
}

fn tls_sessions() -> Json {
    let rates = described(rates(), "That came, a second and by what became of them before the handshake.");
    let rate = "New ones that are let in, a second; null: nothing bounds them.";
    let cost = "Work units that a connection with a new one asks for; null: none came.";
    let sessions = object(&[
        ("rates", rates),
        ("new_per_s", described(maybe("number"), rate)),
        ("new_cost", described(maybe("number"), cost)),
        ("resumed_cost", described(maybe("number"), "The same of one that resumes.")),
    ]);
    or_null(sessions, "New and resumed TLS sessions; null: tls.sessions.mode is off.")
}

fn processors() -> Json {
    let asked = "Asked for at the CPU manager for all that is offered; null: not known yet.";
    let processors = object(&[
        ("asked", described(maybe("number"), asked)),
        ("given", described(of("number"), "That it has given.")),
    ]);
    or_null(processors, "Null: no CPU manager is asked, or it does not answer.")
}

fn class() -> Json {
    let modes = described(
        modes(&["ingress", "queue", "in_flight", "egress"]),
        "Of its own controls, in force; null: that one is not set.",
    );
    let percentiles = || {
        json!({
            "type": ["object", "null"], "description": "Percentiles, seconds.",
            "properties": { "p50": of("number"), "p95": of("number"), "p99": of("number") },
        })
    };
    let own = [
        ("name", of("string")),
        ("path", of("string")),
        ("priority", of("integer")),
        ("weight", of("integer")),
        ("goodput_within_s", of("number")),
        ("cost", described(maybe("number"), "Work units of a request; null: not learnt yet.")),
        ("modes", modes),
        ("queued", maybe("integer")),
        ("would_wait", maybe("integer")),
        ("bytes_in", maybe("number")),
        ("bytes_out", maybe("number")),
        ("waiting_time", percentiles()),
        ("service_time", percentiles()),
        ("response_time", percentiles()),
    ];
    object(&[&own[..], &counts()].concat())
}

/// What is counted of a class, and summed of an application.
fn counts() -> [(&'static str, Json); 10] {
    let would_refuse = "Would be refused, had what only watches acted, a second and by reason.";
    [
        ("arrived", maybe("number")),
        ("started", maybe("number")),
        ("goodput", maybe("number")),
        ("left", maybe("number")),
        ("abandoned", maybe("number")),
        ("retries", maybe("number")),
        ("refused", rates()),
        ("would_refuse", described(rates(), would_refuse)),
        ("responses", rates()),
        ("room_rates", rates()),
    ]
}

fn server() -> Json {
    object(&[
        ("name", of("string")),
        ("address", of("string")),
        ("condition", of("string")),
        ("member", of("boolean")),
        ("draining", of("boolean")),
        ("weight", of("integer")),
        ("in_flight", of("integer")),
        ("in_flight_max", maybe("integer")),
        ("keep_alive", of("boolean")),
        ("response_time_s", maybe("number")),
        ("requests", maybe("number")),
        ("upstream_errors", rates()),
        ("connects", maybe("number")),
    ])
}

pub(super) fn controller() -> Json {
    object(&[
        ("name", of("string")),
        ("state", json!({ "type": "string", "enum": ["running", "stopped"] })),
        ("why", maybe("string")),
        ("turns", of("integer")),
        ("failures", of("integer")),
        ("steps", of("integer")),
        ("memory_bytes", of("integer")),
        ("held", of("integer")),
    ])
}

fn of(name: &str) -> Json {
    json!({ "type": name })
}

/// Per second, by label.
fn rates() -> Json {
    json!({ "type": "object", "additionalProperties": of("number") })
}

/// Modes of controls, each of which may not be set.
fn modes(controls: &[&str]) -> Json {
    let names: Vec<_> = Mode::NAMES.iter().map(Some).chain([None]).collect();
    let one = json!({ "type": ["string", "null"], "enum": names });
    object(&controls.iter().map(|control| (*control, one.clone())).collect::<Vec<_>>())
}

/// One that is not always there: what that means is said.
fn or_null(mut object: Json, about: &str) -> Json {
    object["type"] = json!(["object", "null"]);
    described(object, about)
}
