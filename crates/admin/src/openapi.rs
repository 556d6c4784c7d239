//! `/api/v1/openapi.json`: what the API takes and answers, in OpenAPI 3.1.

mod overview;
mod room_report;

use overview::{controller, overview};
use room_report::{heard, revoked_passes, room_report, used_tokens};
use serde_json::{Map, Value as Json, json};
use tidegate_config::Role;
use tidegate_control::{capacity::Cause, knobs::ChoiceSet as _, waiting_room::ROOM_COUNTS};

use crate::{
    events::Kind,
    record::{Action, WHO_MAX, WHY_MAX},
};

/// The document, of which docs/openapi.json is a copy.
#[must_use]
pub fn openapi() -> Json {
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Tidegate",
            "version": "v1",
            "description": "The admin interface of a running gateway. Times are seconds since 1970 or spans in seconds; rates are per second. \
                What is refused is answered with a problem document (RFC 9457) whose detail says what is wrong and how to mend it.",
            "license": { "name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0" },
        },
        "servers": [{ "url": "http://127.0.0.1:9900" }],
        "security": [{}, { "token": [] }],
        "paths": paths(),
        "components": {
            "securitySchemes": { "token": {
                "type": "http", "scheme": "bearer",
                "description": "Asked for where [[admin_token]] or admin_tls.client_ca is configured. The role read may GET; all else needs the role operator, and is answered 403 without it.",
            } },
            "responses": { "problem": {
                "description": "What is wrong, and how to mend it",
                "content": { "application/problem+json": { "schema": schema("problem") } },
            } },
            "schemas": schemas(),
        },
    })
}

fn paths() -> Json {
    let window = text_parameter(
        "window",
        "Over which rates and percentiles are, 1s to 10min.",
        "^[0-9.]+(ms|s|m|min|h)$",
    );
    let format =
        json!({ "name": "format", "in": "query", "schema": { "type": "string", "enum": ["json", "csv"] } });
    let limit = json!({ "name": "limit", "in": "query", "schema": { "type": "integer", "minimum": 1, "maximum": 1000 } });
    let before = json!({
        "name": "before", "in": "query", "description": "Only changes before the one of this number; those that are yet to be written have negative ones.",
        "schema": { "type": "integer", "format": "int64", "minimum": i64::MIN, "maximum": i64::MAX, "not": { "const": 0 } },
    });
    let below = json!({
        "name": "below", "in": "query", "schema": { "type": "boolean" },
        "description": "false: those of the gateway, application, class or server at path alone, nothing below it.",
    });
    let changed = json!({ "name": "changed", "in": "query", "schema": { "type": "boolean" } });
    let query = |name: &str, about: &str| text_parameter(name, about, "");
    let kinds: Vec<_> = Kind::ALL.iter().map(|kind| kind.name()).collect();
    let last = json!({
        "name": "Last-Event-ID", "in": "header", "description": "As after, and before it.", "schema": { "type": "string" },
    });
    json!({
        "/healthz": { "get": open(operation("healthz", "Whether the process lives.", &[], None, &[("200", plain())])) },
        "/readyz": { "get": open(operation(
            "readyz", "Whether listeners accept and draining has not begun.", &[], None, &[("200", plain()), ("503", plain())],
        )) },
        "/metrics": { "get": operation(
            "metrics", "Every meter, for Prometheus: OpenMetrics where it is accepted, else the text format.", &[], None,
            &[("200", content("Every meter of everything", &["application/openmetrics-text", "text/plain"]))],
        ) },
        "/api/v1/openapi.json": { "get": operation(
            "openapi", "This document.", &[], None, &[("200", answer("This document", json!({ "type": "object" }))), problem("400")],
        ) },
        "/api/v1/session": { "get": operation(
            "session", "Who asks, and what they may.", &[], None,
            &[("200", answer("Who asks", schema("session"))), problem("400")],
        ) },
        "/api/v1/overview": { "get": operation(
            "overview", "Everything live in one answer.", &[window], None,
            &[("200", answer("Everything live", schema("overview"))), problem("400")],
        ) },
        "/api/v1/events": { "get": operation(
            "events",
            "What happens, as server-sent events, until the reader leaves. The kinds lost, slow, withdrawn and meters have no id.",
            &[
                query("after", "Begins after the event of this id; 0: with all that is remembered."),
                query("kinds", &format!("Only these, with commas: {}.", kinds.join(", "))),
                text_parameter("meters", "Sends the overview as event meters this often, 1s to 1min.", "^[0-9.]+(ms|s|m|min|h)$"),
                last,
            ],
            None,
            &[("200", content("Events", &["text/event-stream"])), problem("400"), problem("503")],
        ) },
        "/api/v1/measurements": { "get": operation(
            "measurements", "A meter over any time; docs/measurements.md says how.",
            &[
                json!({
                    "name": "meter", "in": "query", "required": true,
                    "description": "Its name, or name.label of one that is split.", "schema": { "type": "string" },
                }),
                query("scope", "A path: shop, shop/home, shop/servers/NAME; instead of the three below."),
                query("application", "Of an application."),
                query("class", "Of a class, APPLICATION/CLASS."),
                query("server", "Of a server, APPLICATION/NAME."),
                query("from", "-10m, seconds since 1970, or now."),
                query("to", "As from."),
                query("step", "Length of the answer's points, such as 5s."),
                query("stat", "Up to eight with commas: mean, max, min, sum, rate, count, p50, p99."),
                query("of", "Extremes of means over spans of this length."),
                format,
            ],
            None,
            &[("200", either_answer()), problem("400"), problem("404")],
        ) },
        "/api/v1/archives": { "get": operation(
            "archives", "What is measured of whom, and how long it is kept.", &[], None,
            &[("200", answer("Meters, subjects, resolutions", schema("archives"))), problem("400")],
        ) },
        "/api/v1/knobs": {
            "get": operation(
                "knobs", "Every knob with its value, range and drift.",
                &[query("path", "Only those whose path is this or below it."), below, changed], None,
                &[("200", answer("Knobs", schema("knobs"))), problem("400"), problem("404")],
            ),
            "patch": operation(
                "change_knobs", "Changes several knobs as one, or none.", &[], Some(schema("change")),
                &with_body(&[("200", answer("What was changed, or would be", schema("changed"))), problem("409")]),
            ),
        },
        "/api/v1/knobs/changes": { "get": operation(
            "changes", "The record of changes of knobs, capacities, servers and keys, the latest first.", &[limit, before], None,
            &[("200", answer("Changes", schema("changes"))), problem("400")],
        ) },
        "/api/v1/knobs/revert": { "post": operation(
            "revert", "Takes a recorded change of knobs back, unless they were changed since.", &[], Some(schema("revert")),
            &with_body(&[("200", answer("What was changed, or would be", schema("changed"))), problem("404"), problem("409")]),
        ) },
        "/api/v1/controllers": { "get": operation(
            "controllers", "How each controller stands.", &[], None,
            &[("200", answer("Controllers", schema("controllers"))), problem("400")],
        ) },
        "/api/v1/applications": { "get": operation(
            "applications", "Names of the applications.", &[], None,
            &[("200", answer("Names", schema("applications"))), problem("400")],
        ) },
        "/api/v1/applications/{application}/servers": {
            "parameters": [path_parameter("application")],
            "get": operation(
                "servers", "Servers of an application.", &[], None,
                &[("200", answer("Servers", schema("servers"))), problem("400"), problem("404")],
            ),
            "post": operation(
                "add_server", "Adds a server; it is gone after a restart.", &[], Some(schema("new_server")),
                &with_body(&[("200", answer("Servers", schema("servers_changed"))), problem("404"), problem("409")]),
            ),
        },
        "/api/v1/applications/{application}/servers/{server}": {
            "parameters": [path_parameter("application"), path_parameter("server")],
            "patch": operation(
                "change_server", "Changes knobs of a server, as PATCH of /api/v1/knobs does.", &[], Some(schema("server_knobs")),
                &with_body(&[("200", answer("Servers", schema("servers_changed"))), problem("404")]),
            ),
            "delete": operation(
                "remove_server", "Removes a server; what runs there ends.",
                &[query("who", "Who does it, for the record."), query("why", "Why, for the record.")], None,
                &[
                    ("200", answer("Servers", schema("servers_changed"))),
                    problem("400"), problem("404"), problem("500"),
                ],
            ),
        },
        "/api/v1/capacity": { "get": operation(
            "capacities", "What the servers of each application can do.", &[], None,
            &[("200", answer("Capacities", schema("capacities"))), problem("400")],
        ) },
        "/api/v1/applications/{application}/capacity": {
            "parameters": [path_parameter("application")],
            "get": operation(
                "capacity", "What an application's servers can do, each server's part, what classes cost, and why it moved.",
                &[], None, &[("200", answer("The capacity", schema("capacity"))), problem("400"), problem("404")],
            ),
            "post": operation(
                "tell_capacity", "Tells the capacity, for a time or until it is told anew, in place of what is found.", &[],
                Some(schema("told_capacity")),
                &with_body(&[("200", answer("The capacity", schema("capacity"))), problem("404")]),
            ),
        },
        "/api/v1/applications/{application}/capacity/rediscover": {
            "parameters": [path_parameter("application")],
            "post": operation(
                "rediscover_capacity", "Forgets the capacity that was found and searches anew.", &[], Some(schema("reasons")),
                &with_body(&[("200", answer("The capacity", schema("capacity"))), problem("404"), problem("409")]),
            ),
        },
        "/api/v1/waiting-rooms": { "get": operation(
            "waiting_rooms", "Who waits at each application, and what the next visitor is told.", &[], None,
            &[("200", answer("Waiting rooms", schema("waiting_rooms"))), problem("400")],
        ) },
        "/api/v1/waiting-rooms/keys": { "post": operation(
            "rotate_waiting_room_key", "Signs tokens with a new key from now on; those of the last seven hold.", &[],
            Some(schema("reasons")),
            &with_body(&[("200", answer("The new key", schema("waiting_room_key"))), problem("409")]),
        ) },
        "/api/v1/applications/{application}/waiting-room": {
            "parameters": [path_parameter("application")],
            "get": operation(
                "waiting_room", "Who waits at an application, by the times that were promised.", &[], None,
                &[("200", answer("The waiting room", schema("waiting_room"))), problem("400"), problem("404")],
            ),
        },
        "/api/v1/applications/{application}/waiting-room/bypass": {
            "parameters": [path_parameter("application")],
            "post": operation(
                "make_waiting_room_bypass", "Makes a token by which programs of partners pass the room by; it is told once.",
                &[], Some(schema("new_bypass")),
                &with_body(&[("200", answer("The token", schema("bypass"))), problem("404")]),
            ),
        },
        "/api/v1/applications/{application}/waiting-room/report": {
            "parameters": [path_parameter("application")],
            "post": operation(
                "report_of_waiting_room", "Takes a report of the check, where waiting_room.role is generate. The role check may do this alone.",
                &[], Some(schema("room_report")),
                &with_body(&[
                    ("200", answer("The keys by which the application's tokens are signed", schema("room_keys"))),
                    problem("404"), problem("409"),
                ]),
            ),
        },
    })
}

fn schemas() -> Json {
    let (number, text, flag, whole) = (
        json!({ "type": "number" }),
        json!({ "type": "string" }),
        json!({ "type": "boolean" }),
        json!({ "type": "integer" }),
    );
    let words = text.clone();
    let line = |max: usize| json!({ "type": ["string", "null"], "maxLength": max, "pattern": LINE });
    let (who, why) = (line(WHO_MAX), line(WHY_MAX));
    let value = json!({ "type": ["string", "number", "boolean", "null"] });
    let actions: Vec<_> = Action::ALL.iter().map(|action| action.name()).collect();
    let change = json!({
        "type": "object", "required": ["path", "from", "to"],
        "properties": {
            "path": text, "from": text, "to": text,
            "what": { "type": "string", "enum": actions, "description": "What was done, if no knob was changed." },
            "was_changed": { "type": "boolean", "description": "Of a knob: whether what it was before had been set by a change, too." },
            "lasted": { "type": "boolean", "description": "Of a knob: whether what it was before had been set to outlast the process." },
            "lasts": { "type": "boolean", "description": "Of a knob: whether what it was changed to outlasts the process." },
            "cleared": { "type": "boolean", "description": "Of a knob: whether a change was taken back." },
            "beneath": { "type": "string", "description": "Of a knob that had been set to end with the process: what it would have been in the next one, by a change before." },
        },
    });
    let causes: Vec<_> = Cause::ALL.iter().map(|cause| cause.name()).collect();
    let counts = json!({
        "type": "object", "required": ROOM_COUNTS,
        "properties": ROOM_COUNTS.iter().map(|what| ((*what).to_owned(), whole.clone())).collect::<Map<_, _>>(),
    });
    json!({
        "problem": object(&[("title", text.clone()), ("status", whole.clone()), ("detail", text.clone())]),
        "session": object(&[
            ("role", json!({ "type": "string", "enum": Role::NAMES })),
            ("by", json!({ "type": "string", "enum": ["loopback", "token", "certificate"] })),
            ("who", maybe("string")),
        ]),
        "overview": overview(),
        "recording": json!({
            "type": "object", "required": ["kept"], "properties": { "kept": flag, "why": text },
        }),
        "measurements": object(&[
            ("scope", text.clone()), ("meter", text.clone()), ("label", maybe("string")), ("kind", text.clone()),
            ("unit", text.clone()), ("from", maybe("number")), ("to", maybe("number")), ("resolution_s", number.clone()),
            ("step_s", number.clone()), ("of_s", maybe("number")),
            ("points", described(list(json!({
                "type": "object", "required": ["at", "measured_s"], "properties": { "at": number, "measured_s": number },
                "additionalProperties": maybe("number"),
            })), "Besides when each begins and how much of it was measured, each statistic by its name; null: nothing was measured.")),
        ]),
        "archives": object(&[
            ("resolutions", list(object(&[("step_s", number.clone()), ("keep_s", number.clone())]))),
            ("bytes", whole.clone()), ("state", schema("recording")),
            ("subjects", list(object(&[
                ("path", text.clone()), ("scope", text.clone()), ("bytes", whole.clone()),
                ("points", described(list(whole.clone()), "Kept of each resolution.")),
            ]))),
            ("meters", list(object(&[
                ("name", text.clone()), ("scope", text.clone()), ("kind", text.clone()), ("unit", text.clone()),
                ("labels", list(text.clone())), ("doc", text.clone()),
            ]))),
        ]),
        "knobs": object(&[("version", whole.clone()), ("knobs", list(with_more(object(&[
            ("path", text.clone()), ("value", text.clone()), ("configured", text.clone()), ("default", text.clone()),
            ("drift", flag.clone()), ("kind", text.clone()), ("optional", flag.clone()), ("allowed", text.clone()),
            ("doc", text.clone()),
        ]), &[
            ("choices", described(list(text.clone()), "Of a knob of kind choice: what it may be.")),
            ("min", described(text.clone(), "Of a knob that has a range: its smallest value.")),
            ("max", described(text.clone(), "And its largest.")),
            ("changed", described(object(&[
            ("who", text.clone()), ("why", text.clone()), ("at", number.clone()), ("lasting", flag.clone()),
            ("value", text.clone()), ("in_force", flag.clone()),
        ]), "Of a knob that was changed: by whom, and to what. Not in force: it does not fit what is configured, or what it belongs to is configured no more.")),
        ])))]),
        "change": closed(&["changes"], &[
            ("changes", json!({
                "type": "object", "minProperties": 1, "maxProperties": 1000, "additionalProperties": value,
                "description": "Paths of knobs and their new values; null takes a change back.",
                "examples": [{ "app/in_flight.min": 2 }],
            })),
            ("who", who.clone()), ("why", why.clone()), ("lasting", flag.clone()), ("dry_run", flag.clone()),
        ]),
        "changed": json!({
            "type": "object", "required": ["version", "changes"],
            "properties": { "id": maybe("integer"), "dry_run": flag, "version": whole, "changes": list(change.clone()) },
        }),
        "changes": object(&[("changes", list(object(&[
            ("id", whole.clone()), ("at", number.clone()), ("who", text.clone()), ("why", text.clone()),
            ("lasting", flag.clone()), ("revertible", flag.clone()), ("changes", list(change)),
        ])))]),
        "revert": closed(&["id"], &[
            ("id", json!({ "type": "integer", "format": "int64", "minimum": i64::MIN, "maximum": i64::MAX })),
            ("who", who.clone()), ("why", why.clone()), ("dry_run", flag.clone()),
        ]),
        "controllers": object(&[("controllers", list(controller()))]),
        "applications": object(&[("applications", list(text.clone()))]),
        "server": object(&[
            ("name", text.clone()), ("address", text.clone()), ("condition", text.clone()), ("member", flag.clone()),
            ("draining", flag.clone()), ("in_flight", whole.clone()), ("weight", whole.clone()),
            ("keep_alive", flag.clone()), ("response_time_ms", maybe("number")),
        ]),
        "unresolved": described(object(&[
            ("name", text.clone()), ("address", text.clone()), ("error", maybe("string")), ("tried_at", maybe("number")),
        ]), "A server whose name has no address yet: what the last lookup said, and when."),
        "servers": object(&[("servers", list(schema("server"))), ("unresolved", list(schema("unresolved")))]),
        "servers_changed": object(&[
            ("servers", list(schema("server"))), ("unresolved", list(schema("unresolved"))), ("change", changed_as()),
        ]),
        "new_server": json!({
            "type": "object", "required": ["url"],
            "properties": {
                "url": { "type": "string", "examples": ["http://127.0.0.1:8000"] },
                "name": { "type": ["string", "null"], "maxLength": 64, "pattern": "^[A-Za-z0-9_.:\\[\\]-]+$" },
                "who": who, "why": why,
            },
            "additionalProperties": value,
            "description": "Its address, its name, and knobs of servers.",
        }),
        "server_knobs": json!({
            "type": "object", "properties": { "who": who, "why": why }, "additionalProperties": value,
            "examples": [{ "drain": true }],
            "description": "Knobs of servers and their values; null takes a change back.",
        }),
        "reasons": closed(&[], &[("who", who.clone()), ("why", why.clone())]),
        "told_capacity": closed(&["per_s"], &[
            ("per_s", json!({
                "type": ["string", "null"], "examples": ["120/s", "90/min"],
                "description": "Requests per time; null takes back what was told.",
            })),
            ("valid_for", json!({
                "type": ["string", "null"], "examples": ["30s"],
                "description": "1ms to 1d; until it is told anew if left away.",
            })),
            ("who", who), ("why", why),
        ]),
        "capacities": object(&[("capacity", list(schema("capacity")))]),
        "capacity": with_more(object(&[
            ("application", text.clone()), ("algorithm", text.clone()),
            ("capacity_per_s", described(maybe("number"), "Requests a second of the present mix; null: not known.")),
            ("work_per_s", described(maybe("number"), "Work units a second; a request of the class default is one.")),
            ("in_flight_limit", whole.clone()), ("in_flight_dormant", whole.clone()),
            ("limit_holds", described(flag.clone(), "Whether the limit keeps something waiting.")),
            ("given_per_s", maybe("number")), ("floor_per_s", maybe("number")), ("ceiling_per_s", maybe("number")),
            ("told", json!({
                "type": ["object", "null"], "required": ["per_s", "until"],
                "properties": { "per_s": number, "until": maybe("number") },
                "description": "What was told and is in force.",
            })),
            ("costs", json!({
                "type": "object", "additionalProperties": maybe("number"),
                "description": "Work units of a request of each class; null: not learnt yet.",
            })),
            ("moved", json!({ "type": ["object", "null"], "description": "As in events, the last of them." })),
            ("servers", list(object(&[
                ("name", text.clone()), ("address", text.clone()),
                ("share", described(maybe("number"), "Its part of the whole, 0 to 1.")), ("capacity_per_s", maybe("number")),
            ]))),
            ("events", described(list(object(&[
                ("at", number.clone()), ("cause", json!({ "type": "string", "enum": causes })),
                ("before_per_s", maybe("number")), ("after_per_s", maybe("number")),
            ])), "The last 256 moves, the latest last.")),
        ]), &[("change", changed_as())]),
        "waiting_rooms": object(&[("waiting_rooms", list(schema("waiting_room")))]),
        "waiting_room": with_more(object(&[
            ("application", text.clone()), ("method", text.clone()), ("role", text), ("waiting", whole.clone()),
            ("next_wait_s", described(maybe("number"), "What the next visitor is told; null: nothing can be promised.")),
            ("work_per_s", described(maybe("number"), "What can be done, and of role generate what holds: after the loss of all reports the floor, or half of the last.")),
            ("work_for_newcomers_per_s", number.clone()),
            ("work_of_sessions_per_s", number.clone()), ("no_show_share", number.clone()),
            ("opens_at", described(maybe("number"), "When doors open or the round is drawn, of everybody who is of no group.")),
            ("groups", described(list(object(&[
                ("class", described(words.clone(), "The class that has what is the group's.")), ("classes", list(words.clone())),
                ("method", words.clone()), ("opens_at", maybe("number")),
                ("closed_message", described(maybe("string"), "What visitors are told while its doors are closed; null: a sentence of ours.")),
                ("share", described(maybe("number"), "Share of each slot kept for it, 0 to 1; null: it is let in with everybody.")),
                ("waiting", described(maybe("integer"), "People with a time to come, or a lot; null: not told apart from other classes, of which there are more than 16.")),
                ("lots", described(whole.clone(), "Of them, those with a lot that is not drawn.")), ("next_wait_s", maybe("number")),
            ])), "Groups of classes that have doors or a share of their own.")),
            ("reported_at", described(maybe("number"), "Role generate: when the check reported last that has been silent for longest.")),
            ("report_overdue", described(flag.clone(), "Role generate: it has not in time, and its last capacity counts.")),
            ("report_lost", described(flag.clone(), "Role generate: no check has for so long that the floor holds.")),
            ("counts", json!({
                "type": "object", "additionalProperties": counts, "description": "What happened since the start, by class.",
            })),
            ("checks", described(list(object(&[
                ("name", words.clone()), ("reported_at", number.clone()), ("work_per_s", maybe("number")),
                ("clock_ahead_s", described(maybe("number"), "By how much its clock was ahead of this one's when it reported last, less what the report was under way; below 0: behind. Null: it does not tell.")),
                ("clock_differs", described(flag.clone(), "Whether that is more than waiting_room.clock_tolerance and a second: people come too late or too early. Set both clocks by NTP.")),
                ("overdue", flag.clone()), ("lost", flag),
            ])), "Role generate: the checks that report, by the names of their tokens.")),
        ]), &[("slots", described(list(object(&[
            ("at", number.clone()), ("waiting", whole.clone()), ("work", number),
        ])), "Slots that somebody waits for, the next first, 3,600 at most; only of one room."))]),
        "waiting_room_key": object(&[("id", whole.clone()), ("change", changed_as())]),
        "new_bypass": closed(&["valid_for"], &[
            ("class", described(line(64), "For requests of which class; the default class if left away.")),
            ("valid_for", json!({ "type": "string", "description": "A span of 1s to 31d.", "examples": ["30d"] })),
            ("who", line(64)), ("why", line(500)),
        ]),
        "bypass": object(&[
            ("token", words.clone()), ("field", words.clone()), ("application", words.clone()), ("class", words.clone()),
            ("until", json!({ "type": "number" })), ("change", changed_as()),
        ]),
        "room_report": room_report(),
        "room_keys": object(&[
            ("keys", list(object(&[
                ("id", whole), ("secret", described(words, "In hexadecimal: whoever has it signs for this application.")),
            ]))),
            ("owed", described(list(object(&[
                ("at_ns", json!({ "type": "integer", "minimum": 0 })), ("work", json!({ "type": "number" })),
            ])), "Where there is room for people whose promise this check missed: slots by when they begin, in nanoseconds since 1970, and work units.")),
            ("used", described(used_tokens(), "Promises used at other checks.")),
            ("revoked", described(revoked_passes(), "Passes revoked at other checks.")),
            ("heard", described(heard(), "To be sent with the next report, which hears what comes after.")),
            ("part", described(maybe("number"), "The check's part in the capacity of all.")),
            (
                "held_back",
                described(json!({ "type": "boolean" }), "Whether newcomers have been made to wait of late."),
            ),
        ]),
    })
}

/// A text of one line.
const LINE: &str = "^[^\\u0000-\\u001f\\u007f-\\u009f]*$";

/// Of answers to what was recorded.
fn changed_as() -> Json {
    described(
        json!({ "type": ["integer", "null"] }),
        "Its number in the record of changes; null until that is on the disk.",
    )
}

/// Of that type, or null.
fn maybe(name: &str) -> Json {
    json!({ "type": [name, "null"] })
}

fn list(items: Json) -> Json {
    json!({ "type": "array", "items": items })
}

fn described(mut schema: Json, about: &str) -> Json {
    schema["description"] = about.into();
    schema
}

/// Members that are not always there.
fn with_more(mut object: Json, members: &[(&str, Json)]) -> Json {
    for (name, schema) in members {
        object["properties"][*name] = schema.clone();
    }
    object
}

fn operation(
    id: &str,
    summary: &str,
    parameters: &[Json],
    body: Option<Json>,
    answers: &[(&str, Json)],
) -> Json {
    let mut responses: Map<String, Json> =
        answers.iter().map(|(status, answer)| ((*status).to_owned(), answer.clone())).collect();
    for (status, answer) in [problem("401"), problem("403"), problem("429")] {
        responses.insert(status.to_owned(), answer);
    }
    let mut operation = json!({ "operationId": id, "summary": summary, "responses": responses });
    if !parameters.is_empty() {
        operation["parameters"] = parameters.into();
    }
    if let Some(schema) = body {
        operation["requestBody"] =
            json!({ "required": true, "content": { "application/json": { "schema": schema } } });
    }
    operation
}

/// Of which nothing is asked, whoever asks.
fn open(mut operation: Json) -> Json {
    operation["security"] = json!([]);
    operation
}

/// What can be wrong with a body, besides.
fn with_body<'a>(answers: &[(&'a str, Json)]) -> Vec<(&'a str, Json)> {
    let more = [problem("400"), problem("408"), problem("413"), problem("415"), problem("500")];
    answers.iter().cloned().chain(more).collect()
}

fn problem(status: &str) -> (&str, Json) {
    (status, json!({ "$ref": "#/components/responses/problem" }))
}

fn answer(description: &str, schema: Json) -> Json {
    json!({ "description": description, "content": { "application/json": { "schema": schema } } })
}

fn either_answer() -> Json {
    json!({ "description": "Points", "content": {
        "application/json": { "schema": schema("measurements") },
        "text/csv": { "schema": { "type": "string" } },
    } })
}

fn content(description: &str, types: &[&str]) -> Json {
    let content: Map<String, Json> =
        types.iter().map(|name| ((*name).to_owned(), json!({ "schema": { "type": "string" } }))).collect();
    json!({ "description": description, "content": content })
}

fn plain() -> Json {
    content("One word", &["text/plain"])
}

fn text_parameter(name: &str, about: &str, pattern: &str) -> Json {
    let mut schema = json!({ "type": "string" });
    if !pattern.is_empty() {
        schema["pattern"] = pattern.into();
    }
    json!({ "name": name, "in": "query", "description": about, "schema": schema })
}

fn path_parameter(name: &str) -> Json {
    json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string", "minLength": 1 } })
}

fn schema(name: &str) -> Json {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

/// An object of an answer: these members are always there, and more may come with later versions.
fn object(members: &[(&str, Json)]) -> Json {
    let required: Vec<_> = members.iter().map(|(name, _)| *name).collect();
    json!({ "type": "object", "required": required, "properties": properties(members) })
}

/// An object of a request: others are refused.
fn closed(required: &[&str], members: &[(&str, Json)]) -> Json {
    json!({
        "type": "object", "required": required, "properties": properties(members), "additionalProperties": false,
    })
}

fn properties(members: &[(&str, Json)]) -> Map<String, Json> {
    members.iter().map(|(name, schema)| ((*name).to_owned(), schema.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::openapi;

    #[test]
    fn the_copy_in_docs_is_this_one() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/openapi.json");
        let wanted = format!("{}\n", serde_json::to_string_pretty(&openapi()).unwrap());
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(file, &wanted).unwrap();
        }
        let found = std::fs::read_to_string(file).unwrap_or_default();
        assert!(
            found == wanted,
            "docs/openapi.json is not what the code says: UPDATE_DOCS=1 cargo test --workspace --lib openapi"
        );
    }

    #[test]
    fn every_reference_leads_somewhere() {
        fn references<'j>(json: &'j serde_json::Value, found: &mut Vec<&'j str>) {
            match json {
                serde_json::Value::Object(members) => {
                    found.extend(members.get("$ref").and_then(serde_json::Value::as_str));
                    members.values().for_each(|member| references(member, found));
                }
                serde_json::Value::Array(items) => items.iter().for_each(|item| references(item, found)),
                _ => {}
            }
        }
        let document = openapi();
        let mut found = Vec::new();
        references(&document, &mut found);
        assert!(found.len() > 50, "found only {}", found.len());
        for reference in found {
            assert!(document.pointer(reference.trim_start_matches('#')).is_some(), "{reference}");
        }
    }
}
