//! A log replayed: what it asked for, in its order and at its pace.

use std::time::Duration;

use tidegate_load::{LoadError, Plan, run_blocking};

use super::{class, origin};

const LOG: &str = r#"10.0.0.1 - - [20/Nov/2026:23:42:00 +0000] "GET /bytes/10 HTTP/1.1" 200 5 "-" "-"
10.0.0.1 - - [20/Nov/2026:23:42:01 +0000] "GET /bytes/100 HTTP/1.1" 200 5 "-" "-"
{"time":"2026-11-20T23:42:02.500Z","method":"POST","target":"/upload","status":200}
10.0.0.1 - - [20/Nov/2026:23:42:04 +0000] "GET /status/404 HTTP/1.1" 404 5 "-" "-"
"#;

#[test]
fn a_log_is_replayed_at_twice_its_pace_on_several_threads() {
    let origin = origin();
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("access.log");
    std::fs::write(&file, LOG).expect("written");
    let replay = class("replay", &format!("trace:{}:speed=2", file.display())).body_bytes(7);
    let report = run_blocking(Plan::new(origin.url()).class(replay).threads(2)).expect("a run");
    assert_eq!((report.total.offered, report.total.good), (4, 3), "{report}");
    assert_eq!(report.total.statuses.get(&404), Some(&1));
    assert_eq!(report.total.series.offered[..3], [2, 1, 1], "at 0, 0.5, 1.25 and 2 s");
    assert_eq!(report.measured_s, 3.0);
    assert_eq!(origin.stats().body_bytes, 7, "the POST carried the class's body");

    std::fs::write(&file, "nonsense\n").expect("written");
    let replay = class("replay", &format!("trace:{}", file.display()));
    let plan = Plan::new(origin.url()).class(replay).duration(Duration::from_secs(1));
    let fault = run_blocking(plan).expect_err("a bad line");
    assert!(matches!(fault, LoadError::Plan(_)) && fault.is_bad_input());
    assert!(fault.to_string().contains("access.log: line 1: has no time"), "{fault}");
}
