//! Schema of everything live in one answer.

use serde_json::{Value as Json, json};
use tidegate_control::knobs::{ChoiceSet as _, Mode};

use super::{described, list, maybe, object, schema};

pub(super) fn overview() -> Json {
    let (number, text, flag, whole) = (
        json!({ "type": "number" }),
        json!({ "type": "string" }),
        json!({ "type": "boolean" }),
        json!({ "type": "integer" }),
    );
    let rates = json!({ "type": "object", "additionalProperties": { "type": "number" } });
    let mode = json!({ "type": "string", "enum": Mode::NAMES });
    let modes = |of: &[&str]| {
        let names: Vec<_> = Mode::NAMES.iter().map(Some).chain([None]).collect();
        let one = json!({ "type": ["string", "null"], "enum": names });
        object(&of.iter().map(|control| (*control, one.clone())).collect::<Vec<_>>())
    };
    let share_waited =
        described(maybe("number"), "Share of the time in which something on the host waited for it.");
    let percentiles = json!({
        "type": ["object", "null"], "properties": { "p50": number, "p95": number, "p99": number },
        "description": "Percentiles, seconds.",
    });
    object(&[
        ("at", number.clone()),
        ("version", whole.clone()),
        ("window_s", number.clone()),
        (
            "gateway",
            object(&[
                ("version", text.clone()),
                ("ready", flag.clone()),
                ("started_at", number.clone()),
                ("connections_open", whole.clone()),
                ("connections_parked", whole.clone()),
                ("spooled_bytes", described(whole.clone(), "In use for bodies read ahead.")),
                ("connections_accepted", maybe("number")),
                ("connections_refused", rates.clone()),
                ("tls_handshakes", rates.clone()),
                ("broken_prefaces", maybe("number")),
                ("bad_requests", rates.clone()),
                ("events_lost", maybe("number")),
                ("cpu", described(maybe("number"), "Processors that the gateway uses.")),
                ("host_cpu", described(maybe("number"), "Processors in use on the host, by whatever.")),
                ("memory_bytes", maybe("integer")),
                ("memory_available_bytes", maybe("integer")),
                ("cpu_pressure", share_waited.clone()),
                ("memory_pressure", share_waited.clone()),
                ("io_pressure", share_waited),
                ("recording", schema("recording")),
            ]),
        ),
        (
            "listeners",
            list(object(&[
                ("name", text.clone()),
                ("address", text.clone()),
                ("tls", flag.clone()),
                ("application", described(maybe("string"), "The only one it serves; null: by host.")),
            ])),
        ),
        (
            "applications",
            list(object(&[
                ("name", text.clone()),
                (
                    "hosts",
                    json!({
                        "type": ["array", "null"], "items": text, "description": "Null: whatever host no other application names.",
                    }),
                ),
                ("mode", mode.clone()),
                ("algorithm", text.clone()),
                (
                    "modes",
                    described(
                        modes(&[
                            "client",
                            "ingress",
                            "queue",
                            "in_flight",
                            "egress",
                            "long_streams",
                            "tls_sessions",
                        ]),
                        "Of its own controls, in force; null: that one is not set. Of queue: of the classes that have no mode of their own.",
                    ),
                ),
                ("refusing", list(text.clone())),
                ("in_flight", whole.clone()),
                ("in_flight_limit", whole.clone()),
                ("in_flight_dormant", whole.clone()),
                (
                    "capacity",
                    described(maybe("number"), "Work units a second; a request of the class default is one."),
                ),
                (
                    "estimate",
                    described(
                        json!({ "type": "object" }),
                        "As in capacity, without costs, servers and events.",
                    ),
                ),
                (
                    "room",
                    json!({
                        "type": ["object", "null"],
                        "description": "As in waiting_room, of all classes together, with who waits from now on in at most 60 bars; null: there is none.",
                        "properties": { "ahead": object(&[
                            ("from", number.clone()), ("step_s", number.clone()), ("waiting", list(whole.clone())),
                        ]) },
                    }),
                ),
                ("queued", whole.clone()),
                ("arrived", maybe("number")),
                ("started", maybe("number")),
                ("goodput", maybe("number")),
                ("left", maybe("number")),
                ("abandoned", maybe("number")),
                ("retries", maybe("number")),
                ("long_streams", whole.clone()),
                ("awaiting_server", whole.clone()),
                ("lingering", whole.clone()),
                (
                    "would_wait",
                    described(
                        maybe("integer"),
                        "Requests that would be waiting, had what only watches acted; null: nothing watches.",
                    ),
                ),
                ("refused", rates.clone()),
                (
                    "would_refuse",
                    described(
                        rates.clone(),
                        "Would be refused, had what only watches acted, a second and by reason.",
                    ),
                ),
                ("responses", rates.clone()),
                ("room_rates", rates.clone()),
                (
                    "tls_sessions",
                    or_null(
                        object(&[
                            (
                                "rates",
                                described(
                                    rates.clone(),
                                    "That came, a second and by what became of them before the handshake.",
                                ),
                            ),
                            (
                                "new_per_s",
                                described(
                                    maybe("number"),
                                    "New ones that are let in, a second; null: nothing bounds them.",
                                ),
                            ),
                            (
                                "new_cost",
                                described(
                                    maybe("number"),
                                    "Work units that a connection with a new one asks for; null: none came.",
                                ),
                            ),
                            ("resumed_cost", described(maybe("number"), "The same of one that resumes.")),
                        ]),
                        "New and resumed TLS sessions; null: tls.sessions.mode is off.",
                    ),
                ),
                (
                    "processors",
                    or_null(
                        object(&[
                            (
                                "asked",
                                described(
                                    maybe("number"),
                                    "Asked for at the CPU manager for all that is offered; null: not known yet.",
                                ),
                            ),
                            ("given", described(number.clone(), "That it has given.")),
                        ]),
                        "Null: no CPU manager is asked, or it does not answer.",
                    ),
                ),
                (
                    "classes",
                    list(object(&[
                        ("name", text.clone()),
                        ("path", text.clone()),
                        ("priority", whole.clone()),
                        ("weight", whole.clone()),
                        ("goodput_within_s", number.clone()),
                        (
                            "cost",
                            described(maybe("number"), "Work units of a request; null: not learnt yet."),
                        ),
                        (
                            "modes",
                            described(
                                modes(&["ingress", "queue", "in_flight", "egress"]),
                                "Of its own controls, in force; null: that one is not set.",
                            ),
                        ),
                        ("queued", maybe("integer")),
                        ("would_wait", maybe("integer")),
                        ("arrived", maybe("number")),
                        ("started", maybe("number")),
                        ("goodput", maybe("number")),
                        ("left", maybe("number")),
                        ("abandoned", maybe("number")),
                        ("retries", maybe("number")),
                        ("refused", rates.clone()),
                        ("would_refuse", rates.clone()),
                        ("responses", rates.clone()),
                        ("room_rates", rates.clone()),
                        ("bytes_in", maybe("number")),
                        ("bytes_out", maybe("number")),
                        ("waiting_time", percentiles.clone()),
                        ("service_time", percentiles.clone()),
                        ("response_time", percentiles),
                    ])),
                ),
                (
                    "servers",
                    list(object(&[
                        ("name", text.clone()),
                        ("address", text.clone()),
                        ("condition", text.clone()),
                        ("member", flag.clone()),
                        ("draining", flag.clone()),
                        ("weight", whole.clone()),
                        ("in_flight", whole.clone()),
                        ("in_flight_max", maybe("integer")),
                        ("keep_alive", flag.clone()),
                        ("response_time_s", maybe("number")),
                        ("requests", maybe("number")),
                        ("upstream_errors", rates),
                        ("connects", maybe("number")),
                    ])),
                ),
                ("unresolved", list(schema("unresolved"))),
            ])),
        ),
        ("controllers", list(controller())),
    ])
}

/// One that is not always there: what that means is said.
fn or_null(mut object: Json, about: &str) -> Json {
    object["type"] = json!(["object", "null"]);
    described(object, about)
}

pub(super) fn controller() -> Json {
    let (text, whole) = (json!({ "type": "string" }), json!({ "type": "integer" }));
    object(&[
        ("name", text.clone()),
        ("state", json!({ "type": "string", "enum": ["running", "stopped"] })),
        ("why", maybe("string")),
        ("turns", whole.clone()),
        ("failures", whole.clone()),
        ("steps", whole.clone()),
        ("memory_bytes", whole.clone()),
        ("held", whole),
    ])
}
