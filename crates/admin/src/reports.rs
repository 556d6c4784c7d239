//! `POST /api/v1/applications/{application}/waiting-room/report`: what a check of a waiting room tells the process that
//! gives the times, and what it has for an answer: the keys, where it may give new times itself, and what other checks have told.
//!
//! A check goes by the name of its token or certificate, so that none can speak for another. Both sides' JSON is here. Classes go by
//! their names, since the two processes may know them in another order; numbers of tokens are 16 hexadecimal digits, since
//! many a reader of JSON has no whole numbers of 64 bits.

use std::{collections::BTreeMap, fmt::Write as _};

use http::StatusCode;
use serde_json::{Map, Value as Json, json};
use tidegate_config::Class;
use tidegate_control::{
    ClassId, Timestamp,
    capacity::Pace,
    knobs::{ChoiceSet as _, RoomRole, keys},
    waiting_room::{Again, Answered, Mark, Owed, Report, Returned, Revoked, Used},
};
use tidegate_runtime::Shared;
use tidegate_tokens::{ApplicationKey, SECRET_LEN};

use crate::{
    access::Caller,
    body::object,
    parameters::{application_of, bad},
    problem::Problem,
};

const MEMBERS: &[&str] = &[
    "at_ns",
    "first_told_ns",
    "capacity_per_s",
    "pace_per_s",
    "departs_per_s",
    "standing",
    "error",
    "costs",
    "follow",
    "excess_per_s",
    "returned",
    "kept",
    "missed",
    "again",
    "used",
    "revoked",
    "heard",
];
/// Entries of a list: more than any check keeps.
const ENTRIES_MAX: usize = 1024;
/// Digits of a number.
const DIGITS: usize = 16;
/// Keys in an answer: more than there ever are.
const KEYS_MAX: usize = 16;

/// Takes a report of who asks, and gives the keys by which the application's tokens are signed.
pub(crate) fn take(
    shared: &Shared,
    application: &str,
    body: &[u8],
    caller: &Caller,
) -> Result<Json, Problem> {
    if !caller.reports_of(application) {
        let why = format!("the applications of this token in [[admin_token]] are others than {application}");
        return Err(Problem::new(StatusCode::FORBIDDEN, why));
    }
    let snapshot = shared.snapshot();
    let found = application_of(&snapshot, application)?;
    let role = found.settings.values.get(keys::ROOM_ROLE).0;
    if role != RoomRole::Generate {
        return Err(Problem::new(
            StatusCode::CONFLICT,
            format!(
                "waiting_room.role of {application} is {:?} here: reports go to one that is \"generate\"",
                role.name()
            ),
        ));
    }
    let report = read(body, &found.classes)?;
    let check = caller.who(None);
    let answered = found.state.waiting_room().with(|room, now| room.heed(now, &check, &report));
    Ok(write_answer(&shared.room_keys().of_application(application), &answered))
}

/// A report as it is sent.
pub(crate) fn write(report: &Report, classes: &[Class]) -> Json {
    let name = |at: usize| classes.get(at).map(|class| class.name.clone());
    let by_class = |values: &[u64], scale: f64| -> Map<String, Json> {
        let named = values.iter().enumerate().filter_map(|(at, value)| Some((name(at)?, value)));
        named.map(|(name, value)| (name, json!(*value as f64 / scale))).collect()
    };
    let returned: Vec<Json> = report
        .returned
        .iter()
        .filter_map(|entry| {
            let class = name(entry.class.index())?;
            Some(json!({ "at_ns": entry.slot.as_nanos(), "class": class, "people": entry.people }))
        })
        .collect();
    let again: Vec<Json> = report
        .again
        .iter()
        .filter_map(|entry| {
            let (class, work) = (name(entry.class.index())?, entry.work as f64 / 1e3);
            Some(json!({ "at_ns": entry.slot.as_nanos(), "class": class, "people": entry.people, "work": work }))
        })
        .collect();
    json!({
        "at_ns": report.at.map(Timestamp::as_nanos),
        "first_told_ns": report.first_told.map(Timestamp::as_nanos),
        "capacity_per_s": report.capacity,
        "pace_per_s": report.pace.map(|pace| pace.may_come_per_s),
        "departs_per_s": report.pace.map(|pace| pace.departs_per_s),
        "standing": report.pace.map(|pace| pace.standing),
        "error": report.pace.map(|pace| pace.error),
        "costs": by_class(&report.costs, 1e3),
        "follow": report.follow as f64 / 1e3,
        "excess_per_s": report.excess,
        "returned": returned,
        "kept": by_class(&report.kept, 1.0),
        "missed": by_class(&report.missed, 1.0),
        "again": again,
        "used": write_used(&report.used),
        "revoked": write_revoked(&report.revoked),
        "heard": report.heard.map(write_mark),
    })
}

fn write_used(used: &[Used]) -> Json {
    let mut by_slot: BTreeMap<u64, String> = BTreeMap::new();
    for used in used {
        // Writing to a text cannot fail.
        let _ = write!(by_slot.entry(used.slot.as_nanos()).or_default(), "{:016x}", used.number);
    }
    by_slot.into_iter().map(|(slot, numbers)| json!({ "at_ns": slot, "numbers": numbers })).collect()
}

fn write_revoked(revoked: &[Revoked]) -> Json {
    let entry = |revoked: &Revoked| json!({ "number": format!("{:016x}", revoked.number), "until_ns": revoked.until.as_nanos() });
    revoked.iter().map(entry).collect()
}

fn write_mark(mark: Mark) -> Json {
    json!({ "list": format!("{:016x}", mark.list), "revoked": mark.revoked, "used": mark.used })
}

fn read(body: &[u8], classes: &[Class]) -> Result<Report, Problem> {
    let mut told = object(body, MEMBERS)?;
    // A class that is not known here is taken for the default class.
    let position = |name: &str| classes.iter().position(|class| class.name == name);
    let mut by_class = |name: &'static str, absent: u64, scale: f64| -> Result<Vec<u64>, Problem> {
        let mut values = vec![absent; classes.len()];
        for (class, value) in members(told.remove(name), name)? {
            let value = whole(number(&value, name)? * scale);
            let is_sum = absent == 0;
            let at = position(&class).or(is_sum.then_some(0));
            if let Some(known) = at.and_then(|at| values.get_mut(at)) {
                *known = if is_sum { known.saturating_add(value) } else { value };
            }
        }
        Ok(values)
    };
    let costs = by_class("costs", 1000, 1e3)?;
    let (kept, missed) = (by_class("kept", 0, 1.0)?, by_class("missed", 0, 1.0)?);
    // Slot, class and people of an entry.
    let people = |entry: &Json| {
        let people = u32::try_from(entry["people"].as_u64()?).ok()?;
        let class = position(entry["class"].as_str()?).unwrap_or(0);
        Some((Timestamp::from_nanos(entry["at_ns"].as_u64()?), ClassId(u16::try_from(class).ok()?), people))
    };
    let mut returned = Vec::new();
    for entry in list(told.remove("returned"), "returned")? {
        let Some((slot, class, people)) = people(&entry) else {
            return Err(bad(
                "returned: each is {\"at_ns\": 1795262400000000000, \"class\": \"default\", \"people\": 3}",
            ));
        };
        returned.push(Returned { slot, class, people });
    }
    let mut again = Vec::new();
    for entry in list(told.remove("again"), "again")? {
        let Some((slot, class, people)) = people(&entry) else {
            return Err(bad(
                "again: each is {\"at_ns\": 1795262400000000000, \"class\": \"default\", \"people\": 3, \"work\": 3.5}",
            ));
        };
        let work = whole(number(&entry["work"], "again, work")? * 1e3);
        again.push(Again { slot, class, people, work });
    }
    let used = list(told.remove("used"), "used")?;
    let used = read_used(&used).ok_or_else(|| {
        bad(format!(
            "used: each is {{\"at_ns\": 1795262400000000000, \"numbers\": \"00c0ffee00c0ffee\"}}, numbers having {DIGITS} \
             hexadecimal digits each"
        ))
    })?;
    let revoked = list(told.remove("revoked"), "revoked")?;
    let revoked = revoked.iter().map(read_revoked).collect::<Option<_>>().ok_or_else(|| {
        bad("revoked: each is {\"number\": \"00c0ffee00c0ffee\", \"until_ns\": 1795262400000000000}")
    })?;
    let heard = match told.remove("heard") {
        None | Some(Json::Null) => None,
        Some(mark) => Some(
            read_mark(&mark)
                .ok_or_else(|| bad("heard: give what the last answer had as \"heard\", or null"))?,
        ),
    };
    let mut moment = |name: &'static str| match told.remove(name) {
        None | Some(Json::Null) => Ok(None),
        Some(at) => at.as_u64().map(Timestamp::from_nanos).map(Some).ok_or_else(|| {
            bad(format!("{name}: {at} is not allowed here: expected whole nanoseconds since 1970"))
        }),
    };
    let (at, first_told) = (moment("at_ns")?, moment("first_told_ns")?);
    let mut optional = |name: &'static str| match told.remove(name) {
        None | Some(Json::Null) => Ok(None),
        Some(value) => number(&value, name).map(Some),
    };
    let departs_per_s = optional("departs_per_s")?.unwrap_or(0.0);
    let standing = optional("standing")?.unwrap_or(0.0);
    let error = optional("error")?.unwrap_or(0.0);
    Ok(Report {
        at,
        first_told,
        capacity: optional("capacity_per_s")?,
        pace: optional("pace_per_s")?.map(|may_come_per_s| Pace {
            may_come_per_s,
            departs_per_s,
            standing,
            error,
        }),
        follow: whole(optional("follow")?.unwrap_or(0.0) * 1e3),
        excess: optional("excess_per_s")?.unwrap_or(0.0),
        costs,
        returned,
        kept,
        missed,
        again,
        used,
        revoked,
        heard,
    })
}

fn read_used(entries: &[Json]) -> Option<Vec<Used>> {
    let mut used = Vec::new();
    for entry in entries {
        let slot = Timestamp::from_nanos(entry["at_ns"].as_u64()?);
        let digits = entry["numbers"].as_str()?.as_bytes();
        if !digits.len().is_multiple_of(DIGITS) {
            return None;
        }
        for digits in digits.chunks_exact(DIGITS) {
            used.push(Used { slot, number: read_number(digits)? });
        }
    }
    Some(used)
}

fn read_revoked(entry: &Json) -> Option<Revoked> {
    let number = read_number(entry["number"].as_str()?.as_bytes())?;
    Some(Revoked { number, until: Timestamp::from_nanos(entry["until_ns"].as_u64()?) })
}

fn read_mark(mark: &Json) -> Option<Mark> {
    let list = read_number(mark["list"].as_str()?.as_bytes())?;
    Some(Mark { list, revoked: mark["revoked"].as_u64()?, used: mark["used"].as_u64()? })
}

fn read_number(digits: &[u8]) -> Option<u64> {
    let is_number = digits.len() == DIGITS && digits.iter().all(u8::is_ascii_hexdigit);
    let text = std::str::from_utf8(digits).ok().filter(|_| is_number)?;
    u64::from_str_radix(text, 16).ok()
}

fn members(value: Option<Json>, name: &str) -> Result<Map<String, Json>, Problem> {
    match value {
        None | Some(Json::Null) => Ok(Map::new()),
        Some(Json::Object(members)) if members.len() <= ENTRIES_MAX => Ok(members),
        Some(_) => Err(bad(format!("{name}: give an object of numbers by class"))),
    }
}

fn list(value: Option<Json>, name: &str) -> Result<Vec<Json>, Problem> {
    match value {
        None | Some(Json::Null) => Ok(Vec::new()),
        Some(Json::Array(entries)) if entries.len() <= ENTRIES_MAX => Ok(entries),
        Some(_) => Err(bad(format!("{name}: give a list of at most {ENTRIES_MAX}"))),
    }
}

fn number(value: &Json, name: &str) -> Result<f64, Problem> {
    let number = value.as_f64().filter(|number| (0.0..=1e15).contains(number));
    number
        .ok_or_else(|| bad(format!("{name}: {value} is not allowed here: expected a number from 0 to 1e15")))
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "between 0 and 1e18; `as` saturates"
)]
fn whole(number: f64) -> u64 {
    number.round() as u64
}

fn write_answer(keys: &[ApplicationKey], answered: &Answered) -> Json {
    let hex = |secret: &[u8]| secret.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let keys: Vec<Json> =
        keys.iter().map(|key| json!({ "id": key.id, "secret": hex(&key.secret) })).collect();
    let owed = answered
        .owed
        .iter()
        .map(|owed| json!({ "at_ns": owed.slot.as_nanos(), "work": owed.work as f64 / 1e3 }));
    json!({
        "keys": keys,
        "owed": owed.collect::<Vec<_>>(),
        "used": write_used(&answered.used),
        "revoked": write_revoked(&answered.revoked),
        "heard": answered.mark.map(write_mark),
        "part": answered.part,
        "held_back": answered.held_back,
    })
}

/// What a check hears, of an answer; what is not understood is left out.
pub(crate) fn read_answer(answer: &Json) -> Answered {
    let entries = |name: &str| answer[name].as_array().map(Vec::as_slice).unwrap_or_default();
    let revoked = entries("revoked").iter().take(ENTRIES_MAX).filter_map(read_revoked);
    Answered {
        owed: read_owed(answer),
        used: read_used(entries("used")).unwrap_or_default(),
        revoked: revoked.collect(),
        mark: read_mark(&answer["heard"]),
        part: answer["part"].as_f64().filter(|part| (0.0..=1.0).contains(part)),
        held_back: answer["held_back"].as_bool().unwrap_or_default(),
    }
}

fn read_owed(answer: &Json) -> Vec<Owed> {
    let entries = answer["owed"].as_array().map(Vec::as_slice).unwrap_or_default();
    let owed = |entry: &Json| {
        let work = number(&entry["work"], "owed").ok()?;
        Some(Owed { slot: Timestamp::from_nanos(entry["at_ns"].as_u64()?), work: whole(work * 1e3) })
    };
    entries.iter().take(ENTRIES_MAX).filter_map(owed).collect()
}

/// The keys of an answer; `None`: it holds none.
pub(crate) fn read_keys(answer: &Json) -> Option<Vec<ApplicationKey>> {
    let keys = answer["keys"].as_array().filter(|keys| (1..=KEYS_MAX).contains(&keys.len()))?;
    keys.iter()
        .map(|key| {
            let id = u8::try_from(key["id"].as_u64()?).ok()?;
            let text = key["secret"].as_str().filter(|text| text.len() == 2 * SECRET_LEN)?;
            let mut secret = [0; SECRET_LEN];
            for (at, byte) in secret.iter_mut().enumerate() {
                *byte = u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok()?;
            }
            Some(ApplicationKey { id, secret })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, LazyLock};

    use tidegate_config::ClassWaitingRoom;
    use tidegate_control::knobs::{Scope, Values};

    use super::*;
    use crate::fuzz::{Slip, gateway, slipped};

    fn classes(names: &[&str]) -> Vec<Class> {
        let class = |name: &&str| Class {
            name: (*name).to_owned(),
            values: Values::defaults(Scope::Class),
            waiting_room: ClassWaitingRoom::default(),
        };
        names.iter().map(class).collect()
    }

    /// Of two slots.
    fn used(slot: Timestamp) -> Vec<Used> {
        let of = |slot, number| Used { slot, number };
        let next = Timestamp::from_nanos(slot.as_nanos() + 1_000_000_000);
        vec![of(slot, 0xC0FF_EE00_0000_0001), of(slot, u64::MAX), of(next, 0)]
    }

    #[test]
    fn a_report_reads_back_whatever_the_order_of_the_classes() {
        let slot = Timestamp::from_nanos(1_795_262_400_333_333_333);
        let report = Report {
            at: Some(slot),
            first_told: Some(Timestamp::from_nanos(1)),
            capacity: Some(120.5),
            pace: Some(Pace { may_come_per_s: 60.0, departs_per_s: 98.5, standing: 12.25, error: 0.015 }),
            costs: vec![1000, 2500],
            follow: 1_750,
            excess: 0.25,
            returned: vec![
                Returned { slot, class: ClassId(1), people: 3 },
                Returned { slot, class: ClassId(0), people: 1 },
            ],
            kept: vec![1, 3],
            missed: vec![0, 2],
            again: vec![Again { slot, class: ClassId(1), people: 2, work: 5_001 }],
            used: used(slot),
            revoked: vec![Revoked { number: u64::MAX, until: slot }, Revoked { number: 0, until: slot }],
            heard: Some(Mark { list: u64::MAX - 1, revoked: 3, used: 70_000 }),
        };
        let sent = write(&report, &classes(&["default", "search"])).to_string();
        assert_eq!(read(sent.as_bytes(), &classes(&["default", "search"])).unwrap(), report);
        let turned = read(sent.as_bytes(), &classes(&["search", "default", "new"])).unwrap();
        assert_eq!((turned.costs, turned.missed), (vec![2500, 1000, 1000], vec![2, 0, 0]));
        assert_eq!(turned.kept, [3, 1, 0]);
        assert_eq!((turned.returned[0].class, turned.again[0].class), (ClassId(0), ClassId(0)));
        let fewer = read(sent.as_bytes(), &classes(&["default"])).unwrap();
        assert_eq!(read(b"{}", &classes(&["default"])).unwrap().at, None, "of an older check");
        assert_eq!((fewer.costs, fewer.kept, fewer.missed), (vec![1000], vec![4], vec![2]));
        assert!(fewer.returned.iter().all(|entry| entry.class == ClassId(0)));
    }

    #[test]
    fn what_is_no_report_is_said() {
        for (body, said) in [
            ("", "no JSON object"),
            ("{\"capacity\": 1}", "\"capacity\" is not known here"),
            ("{\"capacity_per_s\": -1}", "capacity_per_s: -1"),
            ("{\"at_ns\": 1.5}", "at_ns: 1.5"),
            ("{\"follow\": \"x\"}", "follow: \"x\""),
            ("{\"costs\": [1]}", "costs: give an object"),
            ("{\"costs\": {\"default\": null}}", "costs: null"),
            ("{\"returned\": {}}", "returned: give a list"),
            ("{\"returned\": [{\"at_ns\": 1, \"people\": 1}]}", "returned: each is"),
            ("{\"again\": 1}", "again: give a list"),
            ("{\"again\": [{\"at_ns\": 1, \"class\": \"x\"}]}", "again: each is"),
            ("{\"again\": [{\"at_ns\": 1, \"class\": \"x\", \"people\": 1}]}", "again, work: null"),
            ("{\"used\": [{\"at_ns\": 1, \"numbers\": \"00c0ffee\"}]}", "used: each is"),
            ("{\"used\": [{\"at_ns\": 1, \"numbers\": \"+0c0ffee00c0ffee\"}]}", "used: each is"),
            ("{\"used\": [{\"at_ns\": 1, \"numbers\": \"éééééééé\"}]}", "used: each is"),
            ("{\"revoked\": [{\"number\": 7, \"until_ns\": 1}]}", "revoked: each is"),
            ("{\"revoked\": {}}", "revoked: give a list"),
            ("{\"heard\": {\"list\": \"x\", \"revoked\": 0, \"used\": 0}}", "heard: give what"),
        ] {
            let problem = read(body.as_bytes(), &classes(&["default"])).unwrap_err();
            assert!(problem.to_string().contains(said), "{body}: {problem}");
        }
    }

    #[test]
    fn an_answer_reads_back() {
        let at = |seconds: u64| Timestamp::from_nanos(1_795_262_400_000_000_000 + seconds * 1_000_000_000);
        let owed = vec![Owed { slot: at(0), work: 1 }, Owed { slot: at(7), work: 12_345 }];
        let answered = Answered {
            owed: owed.clone(),
            used: used(at(3)),
            revoked: vec![Revoked { number: 7, until: at(60) }],
            mark: Some(Mark { list: 1, revoked: 2, used: 3 }),
            part: Some(0.25),
            held_back: true,
        };
        let mut answer = write_answer(&[], &answered);
        assert_eq!(read_answer(&answer), answered);
        answer["owed"][0]["work"] = json!(-1);
        answer["part"] = json!(2);
        answer["heard"]["list"] = json!(1);
        let damaged = read_answer(&answer);
        assert_eq!((damaged.owed.as_slice(), damaged.part, damaged.mark), (&owed[1..], None, None));
        assert_eq!(read_answer(&json!({ "keys": [] })), Answered::default(), "of one that tells keys alone");
    }

    #[test]
    fn keys_read_back_or_not_at_all() {
        let keys = vec![
            ApplicationKey { id: 255, secret: [0xA5; SECRET_LEN] },
            ApplicationKey { id: 0, secret: [7; SECRET_LEN] },
        ];
        assert_eq!(read_keys(&write_answer(&keys, &Answered::default())), Some(keys));
        for answer in [
            json!({}),
            json!({ "keys": [] }),
            json!({ "keys": [{ "id": 256, "secret": "00".repeat(32) }] }),
            json!({ "keys": [{ "id": 1, "secret": "00".repeat(31) }] }),
            json!({ "keys": [{ "id": 1, "secret": "zz".repeat(32) }] }),
            json!({ "keys": [{ "id": 1, "secret": "é".repeat(32) }] }),
        ] {
            assert_eq!(read_keys(&answer), None, "{answer}");
        }
    }

    const REPORT: &str = r#"{"at_ns":1795262400000000000,"capacity_per_s":120.5,"pace_per_s":60,"departs_per_s":98.5,
        "standing":12.25,"error":0.015,"costs":{"default":1,"search":2.5},"follow":1.75,"excess_per_s":0.25,
        "returned":[{"at_ns":1795262400000000000,"class":"search","people":3}],"kept":{"default":1},"missed":{"search":2},
        "again":[{"at_ns":1795262400000000000,"class":"search","people":2,"work":5.001}],
        "used":[{"at_ns":1795262400000000000,"numbers":"c0ffee0000000001ffffffffffffffff"}],
        "revoked":[{"number":"00c0ffee00c0ffee","until_ns":1795262400000000000}],
        "heard":{"list":"00c0ffee00c0ffee","revoked":3,"used":7}}"#;
    const ANSWER: &str = r#"{"keys":[{"id":7,"secret":"a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5"}],
        "owed":[{"at_ns":1795262400000000000,"work":12.345}],"used":[{"at_ns":1,"numbers":"c0ffee0000000001"}],
        "revoked":[{"number":"00c0ffee00c0ffee","until_ns":1795262400000000000}],
        "heard":{"list":"00c0ffee00c0ffee","revoked":3,"used":7},"part":0.25,"held_back":true}"#;

    /// Every report that a check can have reads back.
    #[test]
    fn any_report_reads_back() {
        type Entries = Vec<(u64, bool, u32, u32)>;
        type Numbers = Vec<(u64, u64)>;
        type Said = (Option<u64>, [Option<u32>; 2], [u32; 8], Entries, Numbers, Option<(u64, u64, u64)>);
        bolero::check!().with_type::<Said>().for_each(|(at, rates, sums, entries, numbers, heard)| {
            let exact = |value: u32| f64::from(value) / 8.0;
            let slot = |nanos: u64| Timestamp::from_nanos(nanos);
            let class = |second: bool| ClassId(u16::from(second));
            let entries = || entries.iter().take(ENTRIES_MAX);
            let numbers: BTreeMap<u64, u64> = numbers.iter().copied().take(ENTRIES_MAX).collect();
            let sums = sums.map(u64::from);
            let report = Report {
                at: at.map(slot),
                first_told: at.map(|at| slot(at / 2)),
                capacity: rates[0].map(exact),
                pace: rates[1].map(|pace| Pace {
                    may_come_per_s: exact(pace),
                    departs_per_s: exact(pace / 2),
                    standing: exact(pace / 3),
                    error: exact(pace / 5),
                }),
                costs: sums[..2].to_vec(),
                follow: sums[2],
                excess: exact(rates[0].unwrap_or(1)),
                returned: entries()
                    .map(|(at, second, people, _)| Returned {
                        slot: slot(*at),
                        class: class(*second),
                        people: *people,
                    })
                    .collect(),
                kept: sums[3..5].to_vec(),
                missed: sums[5..7].to_vec(),
                again: entries()
                    .map(|(at, second, people, work)| Again {
                        slot: slot(*at),
                        class: class(*second),
                        people: *people,
                        work: (*work).into(),
                    })
                    .collect(),
                used: numbers.iter().map(|(at, number)| Used { slot: slot(*at), number: *number }).collect(),
                revoked: numbers
                    .iter()
                    .map(|(at, number)| Revoked { number: *number, until: slot(*at) })
                    .collect(),
                heard: heard.map(|(list, revoked, used)| Mark { list, revoked, used }),
            };
            let classes = classes(&["default", "search"]);
            assert_eq!(read(write(&report, &classes).to_string().as_bytes(), &classes).unwrap(), report);
        });
    }

    /// Whatever is taken for a report has its bounds, and a room bears it.
    #[test]
    fn a_report_with_slips_is_read_or_refused() {
        static GATEWAY: LazyLock<Arc<Shared>> = LazyLock::new(gateway);
        bolero::check!().with_iterations(5_000).with_type::<(usize, Vec<Slip>)>().for_each(
            |(choice, slips)| {
                let text = slipped(&[REPORT, "{}"], *choice, slips);
                let application = &GATEWAY.snapshot().applications[0];
                let Ok(report) = read(text.as_bytes(), &application.classes) else { return };
                assert_eq!(
                    [&report.costs, &report.kept, &report.missed].map(Vec::len),
                    [application.classes.len(); 3]
                );
                let entries = [report.returned.len(), report.again.len(), report.revoked.len()];
                assert!(
                    entries.iter().all(|len| *len <= ENTRIES_MAX) && report.used.len() * DIGITS <= text.len()
                );
                let pace = report
                    .pace
                    .map_or([0.0; 3], |pace| [pace.may_come_per_s, pace.departs_per_s, pace.standing]);
                let numbers = pace.into_iter().chain([report.capacity.unwrap_or(0.0), report.excess]);
                assert!(numbers.into_iter().all(|number| (0.0..=1e15).contains(&number)));
                let _ = application.state.waiting_room().with(|room, now| room.heed(now, "check", &report));
            },
        );
    }

    #[test]
    fn an_answer_with_slips_is_read_as_far_as_it_goes() {
        static GATEWAY: LazyLock<Arc<Shared>> = LazyLock::new(gateway);
        bolero::check!().with_iterations(5_000).with_type::<(usize, Vec<Slip>)>().for_each(
            |(choice, slips)| {
                let Ok(answer) = serde_json::from_str::<Json>(&slipped(&[ANSWER], *choice, slips)) else {
                    return;
                };
                let answered = read_answer(&answer);
                assert!(answered.owed.len().max(answered.revoked.len()) <= ENTRIES_MAX);
                assert!(answered.part.is_none_or(|part| (0.0..=1.0).contains(&part)));
                GATEWAY.snapshot().applications[0]
                    .state
                    .waiting_room()
                    .with(|room, now| room.hear(now, &answered));
                if let Some(keys) = read_keys(&answer) {
                    assert_eq!(read_keys(&write_answer(&keys, &answered)), Some(keys));
                }
            },
        );
    }
}
