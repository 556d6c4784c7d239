//! `/api/v1/applications/{application}/capacity`: what is known of the capacity and why it moved, told and searched anew.

use std::time::Duration;

use http::{Method, StatusCode};
use serde_json::{Map, Value as Json, json};
use tidegate_control::{
    ServerId, Timestamp,
    capacity::CapacityEvent,
    knobs::{Algorithm, ChoiceSet, Kind, Knob, Value, keys},
};
use tidegate_runtime::{Application, Shared};

use crate::{
    knobs::{WHO_MAX, WHY_MAX, object, text},
    parameters::bad,
    problem::Problem,
};

/// For how long something may be told.
const VALID_FOR: Kind = Kind::Span { min: Duration::from_millis(1), max: Duration::from_hours(24) };

/// Answers a request for the capacity of `application`; `rest` are the segments behind it.
pub(crate) fn handle(
    shared: &Shared,
    method: &Method,
    application: &str,
    rest: &[&str],
    body: &[u8],
) -> Result<Json, Problem> {
    let snapshot = shared.snapshot();
    let found = snapshot.application_named(application).and_then(|at| snapshot.applications.get(at));
    let Some(found) = found else {
        return Err(Problem::new(StatusCode::NOT_FOUND, format!("no application is named {application:?}")));
    };
    match (method, rest) {
        (&Method::GET, []) => {}
        (&Method::POST, []) => tell(found, body)?,
        (&Method::POST, ["rediscover"]) => rediscover(found, body)?,
        _ => {
            return Err(Problem::new(
                StatusCode::METHOD_NOT_ALLOWED,
                "GET and POST for the capacity of an application; POST for capacity/rediscover",
            ));
        }
    }
    Ok(describe(found, shared.clock().now()))
}

/// `GET /api/v1/capacity`: of every application.
pub(crate) fn list(shared: &Shared) -> Json {
    let now = shared.clock().now();
    let all: Vec<Json> =
        shared.snapshot().applications.iter().map(|application| describe(application, now)).collect();
    json!({ "capacity": all })
}

/// `{"per_s": "120/s" or null, "valid_for"?: "30s", "who"?, "why"?}`.
fn tell(application: &Application, body: &[u8]) -> Result<(), Problem> {
    let mut asked = object(body, &["per_s", "valid_for", "who", "why"])?;
    let per_s = match asked.remove("per_s") {
        Some(Json::Null) => None,
        Some(Json::String(text)) => match Knob::CAPACITY_GIVEN.parse(&text) {
            Ok(Value::Rate(per_s)) => Some(per_s),
            Ok(_) => None,
            Err(fault) => return Err(bad(format!("per_s: {fault}"))),
        },
        _ => {
            return Err(bad(
                "\"per_s\" is missing: give the capacity, such as \"120/s\", or null to take back what was told",
            ));
        }
    };
    let valid_for = match asked.remove("valid_for") {
        None | Some(Json::Null) => None,
        Some(Json::String(text)) => match VALID_FOR.parse(&text) {
            Ok(Value::Span(span)) if VALID_FOR.admits(Value::Span(span)) => Some(span),
            _ => return Err(bad(format!("valid_for: {text:?}: expected {}", VALID_FOR.expected()))),
        },
        Some(other) => return Err(bad(format!("valid_for: {other}: expected {}", VALID_FOR.expected()))),
    };
    let (who, why) = reasons(&mut asked)?;
    application.state.gate().tell_capacity(per_s, valid_for);
    let application = &application.settings.name;
    tracing::info!(application, per_s, ?valid_for, who, why, "capacity told, requests a second");
    Ok(())
}

/// `{"who"?, "why"?}`.
fn rediscover(application: &Application, body: &[u8]) -> Result<(), Problem> {
    let mut asked = object(body, &["who", "why"])?;
    let (who, why) = reasons(&mut asked)?;
    let algorithm = application.settings.values.get(keys::IN_FLIGHT_ALGORITHM).0;
    if !matches!(algorithm, Algorithm::KneeTrack | Algorithm::PowerRatio) {
        return Err(Problem::new(
            StatusCode::CONFLICT,
            format!(
                "in_flight.algorithm {} finds no capacity: set it to knee_track or power_ratio",
                algorithm.name()
            ),
        ));
    }
    application.state.gate().rediscover();
    tracing::info!(application = application.settings.name, who, why, "capacity is searched anew");
    Ok(())
}

fn reasons(asked: &mut Map<String, Json>) -> Result<(String, String), Problem> {
    let who = text(asked, "who", WHO_MAX)?.unwrap_or_else(|| "api".to_owned());
    Ok((who, text(asked, "why", WHY_MAX)?.unwrap_or_default()))
}

fn describe(application: &Application, now: Timestamp) -> Json {
    let (settings, state) = (&application.settings, &application.state);
    let capacity = state.gate().capacity();
    let levels = state.gate().levels();
    let told = capacity.told.and_then(|told| {
        let until = (told.until() != Timestamp::FAR_FUTURE).then(|| seconds(told.until()));
        Some(json!({ "per_s": told.per_s(now)?, "until": until }))
    });
    let costs: Map<String, Json> = application
        .classes
        .iter()
        .zip(levels.costs.iter().chain(std::iter::repeat(&None)))
        .map(|(class, cost)| (class.name.clone(), json!(cost.map(|cost| cost as f64 / 1e3))))
        .collect();
    json!({
        "application": settings.name,
        "algorithm": settings.values.get(keys::IN_FLIGHT_ALGORITHM).0.name(),
        "capacity_per_s": capacity.per_s,
        "work_per_s": capacity.work_per_s,
        "in_flight_limit": levels.limit,
        "limit_holds": capacity.limit_holds,
        "given_per_s": capacity.bounds.given(),
        "floor_per_s": capacity.bounds.floor,
        "ceiling_per_s": capacity.bounds.ceiling,
        "told": told,
        "costs": costs,
        "servers": servers(application, capacity.per_s),
        "events": state.capacity_events().iter().map(event).collect::<Vec<_>>(),
    })
}

fn servers(application: &Application, per_s: Option<f64>) -> Vec<Json> {
    let shares = application.state.capacity_shares();
    let share_of =
        |server: ServerId| shares.iter().find(|(other, _)| *other == server).map(|(_, share)| *share);
    let servers = application.state.servers().list();
    servers
        .into_iter()
        .map(|server| {
            let share = share_of(server.id);
            json!({
                "name": server.name,
                "address": server.endpoint.to_string(),
                "share": share,
                "capacity_per_s": per_s.zip(share).map(|(per_s, share)| per_s * share),
            })
        })
        .collect()
}

fn event(event: &CapacityEvent) -> Json {
    json!({
        "at": seconds(event.at), "cause": event.cause.name(), "before_per_s": event.before, "after_per_s": event.after,
    })
}

fn seconds(at: Timestamp) -> f64 {
    at.as_nanos() as f64 / 1e9
}
