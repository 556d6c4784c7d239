//! `/api/v1/applications/{application}/waiting-room`: who waits, what was promised and kept, what the next visitor is told.

use std::time::Duration;

use http::StatusCode;
use serde_json::{Map, Value as Json, json};
use tidegate_config::Class;
use tidegate_control::{
    ClassId, Timestamp,
    knobs::{ChoiceSet, keys},
    meters::Meter,
    waiting_room::{ClockDifference, GroupView, ROOM_COUNTS, SlotView},
};
use tidegate_runtime::{Application, Readings, Shared, Subject};

use crate::{
    access::Caller,
    body::object,
    events::seconds,
    parameters::application_of,
    problem::Problem,
    record::{Action, Done, Reasons, Record},
    recording::State,
    rooms,
};

/// Bars in which the overview shows who waits.
const BARS_MAX: u64 = 60;

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
    let found = application_of(&snapshot, application)?;
    let mut room = describe(shared, found);
    let slots: Vec<Json> = found.state.waiting_room().slots().iter().map(slot).collect();
    room.insert("slots".to_owned(), Json::Array(slots));
    Ok(Json::Object(room))
}

/// `POST /api/v1/waiting-rooms/keys`: signs with a new key; tokens of the last seven hold.
pub(crate) async fn rotate(
    shared: &Shared,
    state: &State,
    record: &Record,
    body: &[u8],
    caller: &Caller,
) -> Result<Json, Problem> {
    let mut asked = object(body, &["who", "why"])?;
    let reasons = Reasons::read(&mut asked, caller)?;
    let Some(directory) = state.directory() else {
        return Err(Problem::new(
            StatusCode::CONFLICT,
            "keys are kept in a state_directory, and the configuration names none",
        ));
    };
    let mut id = 0;
    let done = || {
        id = rooms::rotate(shared, directory)
            .map_err(|error| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?;
        let from_to = [id.wrapping_sub(1), id].map(|id| format!("key {id}"));
        let at = (shared.version(), shared.clock().now());
        Ok::<_, Problem>(Done::action(Action::RoomKey, "waiting_room.keys", from_to, &reasons, at))
    };
    let recorded = record.write(done).await?;
    Ok(json!({ "id": id, "change": recorded.id }))
}

/// Of one, for the overview: what happened in all its classes, and who waits in few bars; null where there is none.
pub(crate) fn live(shared: &Shared, application: &Application, now: Timestamp) -> Json {
    let room = application.state.waiting_room();
    if !room.is_on() {
        return Json::Null;
    }
    let mut live = standing(application);
    let totals = shared.totals().read();
    let counted = |at: usize| -> u64 {
        let of = |readings: &Readings| readings.counts(Meter::ROOM).get(at).copied().unwrap_or(0);
        class_ids(application).filter_map(|id| totals.get(&Subject::Class(application.id, id))).map(of).sum()
    };
    let counts = ROOM_COUNTS.iter().enumerate().map(|(at, what)| ((*what).to_owned(), json!(counted(at))));
    live.insert("counts".to_owned(), Json::Object(counts.collect()));
    let length = application.settings.values.get(keys::ROOM_SLOT);
    live.insert("ahead".to_owned(), bars(&room.slots(), length, now));
    Json::Object(live)
}

fn describe(shared: &Shared, application: &Application) -> Map<String, Json> {
    let totals = shared.totals().read();
    let counts: Map<String, Json> = application
        .classes
        .iter()
        .zip(class_ids(application))
        .map(|(class, id)| (class.name.clone(), counts(totals.get(&Subject::Class(application.id, id)))))
        .collect();
    let mut room = standing(application);
    room.insert("application".to_owned(), application.settings.name.as_str().into());
    room.insert("counts".to_owned(), Json::Object(counts));
    let checks = application.state.waiting_room().with(|room, now| {
        let checks = room.checks(now).map(|check| {
            json!({
                "name": check.name,
                "reported_at": seconds(check.reported),
                "work_per_s": check.capacity,
                "clock_ahead_s": check.clock.map(ahead_s),
                "clock_differs": check.clock.is_some_and(|clock| clock.is_too_far),
                "overdue": check.overdue,
                "lost": check.lost,
            })
        });
        checks.collect()
    });
    room.insert("checks".to_owned(), Json::Array(checks));
    room
}

/// How far a check's clock is ahead of ours, seconds; less than 0 if it is behind.
fn ahead_s(clock: ClockDifference) -> f64 {
    let by = clock.by.as_secs_f64();
    if clock.is_ahead { by } else { 0.0 - by }
}

fn class_ids(application: &Application) -> impl Iterator<Item = ClassId> {
    (0..application.classes.len()).map(|index| ClassId(u16::try_from(index).unwrap_or(u16::MAX)))
}

fn standing(application: &Application) -> Map<String, Json> {
    let values = &application.settings.values;
    let standing = application.state.waiting_room().standing();
    let standing = json!({
        "method": values.get(keys::ROOM_METHOD).0.name(),
        "role": values.get(keys::ROOM_ROLE).0.name(),
        "waiting": standing.waiting,
        "next_wait_s": standing.next.map(|wait| wait.as_secs_f64()),
        "work_per_s": standing.capacity,
        "work_for_newcomers_per_s": standing.for_newcomers,
        "work_of_sessions_per_s": standing.sessions_per_s,
        "no_show_share": standing.no_show,
        "opens_at": standing.opens.map(seconds),
        "groups": groups(application),
        "reported_at": standing.reported.map(seconds),
        "report_overdue": standing.overdue,
        "report_lost": standing.lost,
    });
    match standing {
        Json::Object(standing) => standing,
        _ => Map::new(),
    }
}

/// Groups of classes that are configured, with their classes.
fn groups(application: &Application) -> Json {
    let configured = |name: &str| application.settings.classes.iter().find(|class| class.name == name);
    let views: Vec<GroupView> = application.state.waiting_room().with(|room, now| room.groups(now).collect());
    let describe = |group: &GroupView| {
        let name = &configured(application.class_name(group.class))?.name;
        let is_of = |class: &&Class| class.name == *name || class.waiting_room.group.as_ref() == Some(name);
        let classes: Vec<&str> =
            application.settings.classes.iter().filter(is_of).map(|class| class.name.as_str()).collect();
        Some(json!({
            "class": name,
            "classes": classes,
            "method": group.method.name(),
            "opens_at": group.opens.map(seconds),
            "closed_message": application.closed_message(group.class),
            "share": group.share,
            "waiting": group.waiting,
            "lots": group.lots,
            "next_wait_s": group.next.map(|wait| wait.as_secs_f64()),
        }))
    };
    Json::Array(views.iter().filter_map(describe).collect())
}

/// Who waits for slots to come, from now on, added up to at most [`BARS_MAX`] spans of the same length.
fn bars(slots: &[SlotView], length: Duration, now: Timestamp) -> Json {
    let nanos = u64::try_from(length.as_nanos()).unwrap_or(u64::MAX).max(1);
    let slots: Vec<&SlotView> = slots.iter().filter(|slot| slot.at > now).collect();
    let (Some(first), Some(last)) = (slots.first(), slots.last()) else {
        return json!({ "from": seconds(now), "step_s": length.as_secs_f64(), "waiting": [] });
    };
    let first_nanos = first.at.as_nanos();
    let from = first_nanos - first_nanos.saturating_sub(now.as_nanos()) / nanos * nanos;
    let each = ((last.at.as_nanos() - from) / nanos + 1).div_ceil(BARS_MAX) * nanos;
    let mut waiting = vec![0_u64; usize::try_from((last.at.as_nanos() - from) / each + 1).unwrap_or(0)];
    for slot in slots {
        let bar = usize::try_from((slot.at.as_nanos() - from) / each).unwrap_or(usize::MAX);
        if let Some(bar) = waiting.get_mut(bar) {
            *bar += u64::from(slot.waiting);
        }
    }
    json!({
        "from": seconds(Timestamp::from_nanos(from)),
        "step_s": Duration::from_nanos(each).as_secs_f64(),
        "waiting": waiting,
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    fn slots(of: &[(u64, u32)]) -> Vec<SlotView> {
        let slot = |&(second, waiting): &(u64, u32)| SlotView {
            at: Timestamp::from_nanos(second * 1_000_000_000),
            waiting,
            work: f64::from(waiting),
        };
        of.iter().map(slot).collect()
    }

    #[test]
    fn who_waits_is_shown_from_now_on_in_few_bars() {
        let (second, now) = (Duration::from_secs(1), Timestamp::from_nanos(100_400_000_000));
        let show = |of: &[(u64, u32)]| bars(&slots(of), second, now);
        assert_eq!(show(&[]), json!({ "from": 100.4, "step_s": 1.0, "waiting": [] }));
        assert_eq!(
            show(&[(103, 2), (104, 7)]),
            json!({ "from": 101.0, "step_s": 1.0, "waiting": [0, 0, 2, 7] })
        );
        // People of the slot that is now come in.
        assert_eq!(show(&[(99, 1), (100, 3)])["waiting"], json!([]));
        assert_eq!(show(&[(99, 1), (100, 3), (101, 4)])["waiting"], json!([4]));
        let many: Vec<(u64, u32)> = (101..3701).map(|at| (at, 2)).collect();
        let shown = show(&many);
        assert_eq!((&shown["step_s"], shown["waiting"].as_array().map(Vec::len)), (&json!(60.0), Some(60)));
        assert_eq!(shown["waiting"][59], 120);
        assert_eq!(show(&[(101, 1), (1_000_101, 5)])["waiting"].as_array().map(Vec::len), Some(60));
    }
}
