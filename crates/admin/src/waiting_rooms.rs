//! `/api/v1/applications/{application}/waiting-room`: who waits, what was promised and kept, what the next visitor is told.

use http::StatusCode;
use serde_json::{Map, Value as Json, json};
use tidegate_control::{
    ClassId,
    knobs::{ChoiceSet, keys},
    meters::Meter,
    waiting_room::{ROOM_COUNTS, SlotView},
};
use tidegate_runtime::{Application, Readings, Shared, Subject};

use crate::{
    knobs::{WHO_MAX, WHY_MAX, object, text},
    problem::Problem,
    recording::State,
    rooms,
};

/// `GET /api/v1/waiting-rooms`: of every application, without its slots.
pub(crate) fn list(shared: &Shared) -> Json {
    let snapshot = shared.snapshot();
    let rooms: Vec<Json> =
        snapshot.applications.iter().map(|application| Json::Object(describe(shared, application))).collect();
    json!({ "waiting_rooms": rooms })
}

/// `GET …/waiting-room`: of one, with its slots.
pub(crate) fn of(shared: &Shared, application: &str) -> Result<Json, Problem> {
    let snapshot = shared.snapshot();
    let found = snapshot.application_named(application).and_then(|at| snapshot.applications.get(at));
    let Some(found) = found else {
        return Err(Problem::new(StatusCode::NOT_FOUND, format!("no application is named {application:?}")));
    };
    let mut room = describe(shared, found);
    let slots: Vec<Json> = found.state.waiting_room().slots().iter().map(slot).collect();
    room.insert("slots".to_owned(), Json::Array(slots));
    Ok(Json::Object(room))
}

/// `POST /api/v1/waiting-rooms/keys`: signs with a new key; tokens of the last seven hold.
pub(crate) fn rotate(shared: &Shared, state: &State, body: &[u8]) -> Result<Json, Problem> {
    let mut asked = object(body, &["who", "why"])?;
    let who = text(&mut asked, "who", WHO_MAX)?.unwrap_or_else(|| "api".to_owned());
    let why = text(&mut asked, "why", WHY_MAX)?.unwrap_or_default();
    let Some(directory) = state.directory() else {
        return Err(Problem::new(
            StatusCode::CONFLICT,
            "keys are kept in a state_directory, and the configuration names none",
        ));
    };
    let id = rooms::rotate(shared, directory)
        .map_err(|error| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?;
    tracing::info!(id, who, why, "tokens of waiting rooms are signed with a new key");
    Ok(json!({ "id": id }))
}

fn describe(shared: &Shared, application: &Application) -> Map<String, Json> {
    let (settings, room) = (&application.settings, application.state.waiting_room());
    let standing = room.standing();
    let totals = shared.totals().read();
    let counts: Map<String, Json> = application
        .classes
        .iter()
        .enumerate()
        .map(|(index, class)| {
            let id = ClassId(u16::try_from(index).unwrap_or(u16::MAX));
            (class.name.clone(), counts(totals.get(&Subject::Class(application.id, id))))
        })
        .collect();
    let seconds = |span: std::time::Duration| span.as_secs_f64();
    let at = |at: tidegate_control::Timestamp| at.as_nanos() as f64 / 1e9;
    let room = json!({
        "application": settings.name,
        "method": settings.values.get(keys::ROOM_METHOD).0.name(),
        "role": settings.values.get(keys::ROOM_ROLE).0.name(),
        "waiting": standing.waiting,
        "next_wait_s": standing.next.map(seconds),
        "work_per_s": standing.capacity,
        "work_for_newcomers_per_s": standing.for_newcomers,
        "work_of_sessions_per_s": standing.sessions_per_s,
        "no_show_share": standing.no_show,
        "opens_at": standing.opens.map(at),
        "report_overdue": standing.overdue,
        "counts": counts,
    });
    match room {
        Json::Object(room) => room,
        _ => Map::new(),
    }
}

fn counts(readings: Option<&Readings>) -> Json {
    let counts = readings.map_or(&[][..], |readings| readings.counts(Meter::ROOM));
    let counted = |at: usize| counts.get(at).copied().unwrap_or(0);
    let counts = ROOM_COUNTS.iter().enumerate().map(|(at, what)| ((*what).to_owned(), json!(counted(at))));
    Json::Object(counts.collect())
}

fn slot(slot: &SlotView) -> Json {
    json!({ "at": slot.at.as_nanos() as f64 / 1e9, "waiting": slot.waiting, "work": slot.work })
}
