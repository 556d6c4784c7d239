//! The JSON result keeps its form: keys may be added to this list, none renamed or removed.

use std::collections::BTreeSet;

use serde_json::Value;
use tidegate_load::{FollowPlan, Plan, Report, SessionModel, html_page, run_blocking};

use super::{class, origin};

const CLASS: &[&str] = &[
    "name",
    "offered",
    "sent",
    "good",
    "refused",
    "timeouts",
    "errors",
    "statuses",
    "retries",
    "gave_up",
    "overruns",
    "unfinished",
    "body_bytes",
    "offered_per_s",
    "goodput_per_s",
    "fairness",
];
const SERIES: &[&str] = &[
    "offered",
    "sent",
    "good",
    "good_by_start",
    "refused",
    "timeouts",
    "failed",
    "promised",
    "waiting",
    "sessions_started",
    "sessions_completed",
    "sessions_refused",
    "sessions_abandoned",
    "p50_ms",
    "p95_ms",
    "p99_ms",
];
const SESSIONS: &[&str] =
    &["started", "completed", "refused", "refused_at_entry", "abandoned", "unfinished", "completed_per_s"];
const PAGE: &[&str] = &["name", "requests", "good", "refused", "timeouts", "failed"];
const WAITS: &[&str] = &[
    "redirects",
    "promises",
    "returned",
    "kept",
    "broken",
    "left",
    "waiting_most",
    "by_returns",
    "overtaken",
];
const SUMMARY: &[&str] =
    &["count", "mean", "stddev", "min", "p50", "p75", "p90", "p95", "p99", "p999", "max"];

const PAGES: &str = "entry = \"A\"\n[page.A]\npath = \"/\"\nend = 1.0\n";

fn stable_paths() -> BTreeSet<String> {
    let mut paths = BTreeSet::new();
    let mut add = |prefix: &str, keys: &[&str]| paths.extend(keys.iter().map(|key| format!("{prefix}{key}")));
    add(
        "",
        &[
            "schema",
            "url",
            "seed",
            "began_unix_ms",
            "warmup_s",
            "cooldown_s",
            "measured_s",
            "elapsed_s",
            "stopped_early",
            "plan",
        ],
    );
    add(
        "generator.",
        &[
            "threads",
            "cpu_s",
            "cpu_share",
            "cpu_share_max",
            "lag_bound_ms",
            "overruns",
            "bottleneck",
            "reasons",
        ],
    );
    add("generator.send_lag_ms.", SUMMARY);
    let counts = ["opened_http1", "opened_http2", "failed", "reuses", "closed_while_idle"];
    add("connections.", &counts);
    add("connections.", &["tls_full", "tls_resumed", "tls12", "tls13"]);
    add("connections.setup_ms.", SUMMARY);
    for class in ["total.", "classes.*."] {
        add(class, CLASS);
        add(&format!("{class}series."), SERIES);
        add(&format!("{class}good_latency_ms."), SUMMARY);
        add(&format!("{class}refused_latency_ms."), SUMMARY);
        add(&format!("{class}sessions."), SESSIONS);
        add(&format!("{class}sessions.length_ms."), SUMMARY);
        add(&format!("{class}sessions.images."), PAGE);
        add(&format!("{class}sessions.images.good_latency_ms."), SUMMARY);
        add(&format!("{class}waits."), WAITS);
        for times in ["promised_ms", "return_lag_ms", "overdue_ms", "from_return_ms"] {
            add(&format!("{class}waits.{times}."), SUMMARY);
        }
    }
    // Several classes have no pages in common, so their total has none.
    add("total.sessions.", &["pages"]);
    add("classes.*.sessions.pages.*.", PAGE);
    add("classes.*.sessions.pages.*.good_latency_ms.", SUMMARY);
    paths
}

/// Maps from status, phase or kind to a count are leaves: their keys are data.
fn collect(value: &Value, path: &str, paths: &mut BTreeSet<String>) {
    let last = path.rsplit('.').next().unwrap_or_default();
    match value {
        Value::Object(object)
            if !["timeouts", "errors", "statuses", "by_returns", "plan"].contains(&last) =>
        {
            for (key, value) in object {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                collect(value, &path, paths);
            }
        }
        // What a class has nothing of.
        Value::Null => {}
        Value::Array(items) if last == "classes" || (last == "pages" && !items.is_empty()) => {
            for item in items {
                collect(item, &format!("{path}.*"), paths);
            }
        }
        _ => {
            paths.insert(path.to_owned());
        }
    }
}

#[test]
fn the_json_result_has_the_documented_keys() {
    let origin = origin();
    let plan = Plan::new(origin.url())
        .class(class("good", "20/s:1s").path("/bytes/10").clients(3).header("authorization", "Bearer 1"))
        .class(class("refused", "20/s:1s").path("/status/429"))
        .class(class("sessions", "20/s:1s").sessions(SessionModel::from_toml(PAGES).expect("a model")))
        .class(class("waits", "20/s:1s").path("/redirect").follow(FollowPlan::default()));
    let report = run_blocking(plan).expect("a run");
    let text = serde_json::to_string(&report).expect("JSON");
    let value: Value = serde_json::from_str(&text).expect("own output");
    let mut paths = BTreeSet::new();
    collect(&value, "", &mut paths);
    assert_eq!(paths, stable_paths());
    assert_eq!(value["schema"], "tidegate-load/1");
    assert_eq!(value["classes"][1]["statuses"]["429"], 20);

    // The plan is what was run, but for what proves who somebody is.
    assert_eq!(value["plan"]["class"][0]["arrivals"], "20/s:1s");
    assert_eq!(value["plan"]["class"][0]["headers"]["authorization"], "(hidden)");
    let page = html_page(&report);
    assert!(page.contains("<td>20/s:1s</td>") && !page.contains("Bearer"), "{page}");
    let (_, plan) = page.split_once("<pre>").expect("the plan");
    let plan = plan.split_once("</pre>").expect("its end").0.replace("&quot;", "\"");
    assert_eq!(Plan::from_toml(&plan).expect("a plan").classes.len(), 4);

    let read: Report = serde_json::from_str(&text).expect("own output");
    assert_eq!(read.total.good, 60);
    assert_eq!(read.percentile(95.0), report.total.good_latency_ms.p95);
    assert!(read.class("refused").expect("class").refused_percentile(100.0) > 0.0);
}

/// The page that documents the result names every key of it.
#[test]
fn the_documentation_names_every_key() {
    let page = include_str!("../../../../docs/load.md");
    for path in stable_paths() {
        let key = path.rsplit('.').next().expect("a key");
        assert!(page.contains(&format!("`{key}`")), "docs/load.md does not name `{key}` ({path})");
    }
}
