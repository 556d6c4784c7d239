//! `/api/v1/applications/{application}/capacity`: what is known of the capacity and why it moved, told and searched anew.

use std::{convert::Infallible, time::Duration};

use http::{Method, StatusCode};
use serde_json::{Map, Value as Json, json};
use tidegate_control::{
    ServerId, Timestamp,
    capacity::CapacityEvent,
    knobs::{Algorithm, ChoiceSet, Kind, Knob, Value, keys},
};
use tidegate_runtime::{Application, Shared};

use crate::{
    access::Caller,
    body::object,
    measurements::number,
    parameters::{application_of, bad},
    problem::Problem,
    record::{Action, Done, Reasons, Record},
};

/// For how long something may be told.
const VALID_FOR: Kind = Kind::Span { min: Duration::from_millis(1), max: Duration::from_hours(24) };

/// Answers a request for the capacity of `application`; `rest` are the segments behind it.
pub(crate) async fn handle(
    shared: &Shared,
    record: &Record,
    method: &Method,
    (application, rest): (&str, &[&str]),
    body: &[u8],
    caller: &Caller,
) -> Result<Json, Problem> {
    let snapshot = shared.snapshot();
    let found = application_of(&snapshot, application)?;
    let act: Act<'_> = match (method, rest) {
        (&Method::GET, []) => return Ok(describe(found, shared.clock().now())),
        (&Method::POST, []) => tell(found, body, caller)?,
        (&Method::POST, ["rediscover"]) => rediscover(found, body, caller)?,
        _ => {
            return Err(Problem::new(
                StatusCode::METHOD_NOT_ALLOWED,
                "GET and POST for the capacity of an application; POST for capacity/rediscover",
            ));
        }
    };
    let path = format!("{}/capacity", found.settings.name);
    let done = || {
        let now = shared.clock().now();
        let from_to = (act.act)(now);
        Ok::<_, Infallible>(Done::action(act.action, &path, from_to, &act.reasons, (shared.version(), now)))
    };
    let Ok(recorded) = record.write(done).await;
    let mut answer = describe(found, shared.clock().now());
    answer["change"] = recorded.id.into();
    Ok(answer)
}

/// `GET /api/v1/capacity`: of every application.
pub(crate) fn list(shared: &Shared) -> Json {
    let now = shared.clock().now();
    let all: Vec<Json> =
        shared.snapshot().applications.iter().map(|application| describe(application, now)).collect();
    json!({ "capacity": all })
}

/// Something to be done.
struct Act<'a> {
    action: Action,
    reasons: Reasons,
    /// Does it, and says from what to what.
    act: Box<dyn FnOnce(Timestamp) -> [String; 2] + Send + 'a>,
}

/// `{"per_s": "120/s" or null, "valid_for"?: "30s", "who"?, "why"?}`.
fn tell<'a>(application: &'a Application, body: &[u8], caller: &Caller) -> Result<Act<'a>, Problem> {
    let mut asked = object(body, &["per_s", "valid_for", "who", "why"])?;
    let per_s = match asked.remove("per_s") {
        Some(Json::Null) => None,
        Some(Json::String(text)) => match Knob::CAPACITY_GIVEN.parse(&text) {
            Ok(Value::Rate(per_s)) => Some(per_s),
            Ok(_) => None,
            Err(fault) => return Err(bad(format!("per_s: {fault}"))),
        },
        Some(other) => return Err(bad(format!("per_s: {other}: give a text such as \"120/s\", or null"))),
        None => {
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
    let reasons = Reasons::read(&mut asked, caller)?;
    let gate = application.state.gate();
    let act = move |now| {
        let before = gate.capacity().told.and_then(|told| told.per_s(now));
        gate.tell_capacity(per_s, valid_for);
        let text = |per_s: Option<f64>| per_s.map_or(Value::None, Value::Rate).to_string();
        let lasts = per_s.and(valid_for).map(|span| format!(" for {}", Value::Span(span)));
        [text(before), text(per_s) + &lasts.unwrap_or_default()]
    };
    Ok(Act { action: Action::Capacity, reasons, act: Box::new(act) })
}

/// `{"who"?, "why"?}`.
fn rediscover<'a>(application: &'a Application, body: &[u8], caller: &Caller) -> Result<Act<'a>, Problem> {
    let mut asked = object(body, &["who", "why"])?;
    let reasons = Reasons::read(&mut asked, caller)?;
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
    let gate = application.state.gate();
    let act = move |_| {
        let before = gate.capacity().per_s;
        gate.rediscover();
        let before = before.map_or_else(|| Value::None.to_string(), |per_s| format!("{per_s:.1}/s"));
        [before, "searched anew".to_owned()]
    };
    Ok(Act { action: Action::Search, reasons, act: Box::new(act) })
}

/// How the capacity stands, with the last time it moved.
pub(crate) fn standing(application: &Application, now: Timestamp) -> Json {
    let capacity = application.state.gate().capacity();
    let told = capacity.told.and_then(|told| {
        let until = (told.until() != Timestamp::FAR_FUTURE).then(|| seconds(told.until()));
        Some(json!({ "per_s": told.per_s(now)?, "until": until }))
    });
    json!({
        "capacity_per_s": capacity.per_s.map(number),
        "work_per_s": capacity.work_per_s.map(number),
        "limit_holds": capacity.limit_holds,
        "given_per_s": capacity.bounds.given(),
        "floor_per_s": capacity.bounds.floor,
        "ceiling_per_s": capacity.bounds.ceiling,
        "told": told,
        "moved": application.state.capacity_events().last().map(event),
    })
}

fn describe(application: &Application, now: Timestamp) -> Json {
    let (settings, state) = (&application.settings, &application.state);
    let levels = state.gate().levels();
    let costs: Map<String, Json> = application
        .classes
        .iter()
        .zip(levels.costs.iter().chain(std::iter::repeat(&None)))
        .map(|(class, cost)| (class.name.clone(), json!(cost.map(|cost| cost as f64 / 1e3))))
        .collect();
    let mut described = standing(application, now);
    let per_s = described["capacity_per_s"].as_f64();
    described["application"] = settings.name.as_str().into();
    described["algorithm"] = settings.values.get(keys::IN_FLIGHT_ALGORITHM).0.name().into();
    described["in_flight_limit"] = levels.limit.into();
    described["in_flight_dormant"] = levels.dormant.into();
    described["costs"] = costs.into();
    described["servers"] = servers(application, per_s).into();
    described["events"] = state.capacity_events().iter().map(event).collect();
    described
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

#[cfg(test)]
mod tests {
    use std::sync::{Arc, LazyLock};

    use super::*;
    use crate::fuzz::{Slip, gateway, slipped};

    /// What is taken for a capacity is one that the knob may have, and is in force once it is told.
    #[test]
    fn a_capacity_with_slips_is_told_or_refused() {
        static GATEWAY: LazyLock<Arc<Shared>> = LazyLock::new(gateway);
        let texts = [
            r#"{"per_s":"120/s","valid_for":"30s","who":"ann"}"#,
            r#"{"per_s":null,"why":"as found"}"#,
            r#"{"per_s":"90/min","valid_for":null}"#,
        ];
        bolero::check!().with_iterations(5_000).with_type::<(usize, Vec<Slip>)>().for_each(
            |(choice, slips)| {
                let application = &GATEWAY.snapshot().applications[0];
                let text = slipped(&texts, *choice, slips);
                let Ok(act) = tell(application, text.as_bytes(), &Caller::anyone()) else { return };
                let now = GATEWAY.clock().now();
                let [_, to] = (act.act)(now);
                let told = application.state.gate().capacity().told.and_then(|told| told.per_s(now));
                assert_eq!(told.is_none(), to == "none", "{text}: {to}");
                assert!(
                    told.is_none_or(|per_s| Knob::CAPACITY_GIVEN.check(Value::Rate(per_s)).is_ok()),
                    "{text}"
                );
            },
        );
    }
}
