//! Schemas of what the check of a waiting room tells the generator, and hears of other checks.

use serde_json::{Value as Json, json};

use super::{closed, described, object};

/// What the check of a waiting room tells the generator.
pub(super) fn room_report() -> Json {
    let most = 1e15;
    let rate =
        |about: &str| described(json!({ "type": ["number", "null"], "minimum": 0, "maximum": most }), about);
    let by_class = |about: &str| {
        let values = json!({ "type": "number", "minimum": 0, "maximum": most });
        let all =
            json!({ "type": ["object", "null"], "maxProperties": 1024, "additionalProperties": values });
        described(all, about)
    };
    let people = |more: Option<(&str, Json)>| {
        let mut entry = object(&[
            ("at_ns", json!({ "type": "integer", "minimum": 0, "maximum": i64::MAX })),
            ("class", json!({ "type": "string" })),
            ("people", json!({ "type": "integer", "minimum": 0, "maximum": u32::MAX })),
        ]);
        if let Some((name, schema)) = more {
            entry["properties"][name] = schema;
            if let Some(required) = entry["required"].as_array_mut() {
                required.push(name.into());
            }
        }
        json!({ "type": ["array", "null"], "maxItems": 1024, "items": entry })
    };
    let moment = |about: &str| {
        described(json!({ "type": ["integer", "null"], "minimum": 0, "maximum": i64::MAX }), about)
    };
    let work = json!({ "type": "number", "minimum": 0, "maximum": most });
    let (returned, again) = (people(None), people(Some(("work", work))));
    closed(
        &[],
        &[
            ("at_ns", moment("When it was made, by the check's clock, in nanoseconds since 1970.")),
            (
                "first_told_ns",
                moment(
                    "When what is in its lists was first told, in nanoseconds since 1970: a report that was not answered is told \
                     again with the same lists, which count once.",
                ),
            ),
            ("capacity_per_s", rate("Work units a second; null: not known.")),
            ("pace_per_s", rate("Work units a second that may come now.")),
            ("departs_per_s", rate("Work units a second that depart now.")),
            ("standing", rate("Work units that stand in the short queue beyond what it is to hold.")),
            ("error", rate("Relative standard error of the capacity, of what has been counted.")),
            ("costs", by_class("Work units of a request, by class.")),
            ("follow", rate("Work units that a session does after its first request.")),
            ("excess_per_s", rate("Work units a second that passes do beyond what was charged.")),
            (
                "returned",
                described(
                    returned,
                    "People who came at their time since the last report: a moment in their slot, in nanoseconds since 1970.",
                ),
            ),
            ("kept", by_class("Promises kept since the last report, by class.")),
            ("missed", by_class("Promises missed since the last report, by class.")),
            (
                "again",
                described(
                    again,
                    "New times given to these: a moment in their slot, and the work units of all of them.",
                ),
            ),
            ("used", described(used_tokens(), "Promises used since the last report.")),
            ("revoked", described(revoked_passes(), "Passes revoked since the last report.")),
            (
                "heard",
                described(heard(), "What the last answer had; null: all that is known is to be heard."),
            ),
        ],
    )
}

/// Promises that were used, by slot: their numbers one after another.
pub(super) fn used_tokens() -> Json {
    let entry = object(&[
        ("at_ns", json!({ "type": "integer", "minimum": 0, "maximum": i64::MAX })),
        ("numbers", json!({ "type": "string", "pattern": "^([0-9a-f]{16})*$" })),
    ]);
    json!({ "type": ["array", "null"], "maxItems": 1024, "items": entry })
}

pub(super) fn revoked_passes() -> Json {
    let entry = object(&[
        ("number", json!({ "type": "string", "pattern": "^[0-9a-f]{16}$" })),
        ("until_ns", json!({ "type": "integer", "minimum": 0, "maximum": i64::MAX })),
    ]);
    json!({ "type": ["array", "null"], "maxItems": 1024, "items": entry })
}

/// How far a check has heard what others have told.
pub(super) fn heard() -> Json {
    let count = json!({ "type": "integer", "minimum": 0, "maximum": i64::MAX });
    let mut mark = object(&[
        ("list", json!({ "type": "string", "pattern": "^[0-9a-f]{16}$" })),
        ("revoked", count.clone()),
        ("used", count),
    ]);
    mark["type"] = json!(["object", "null"]);
    mark
}
