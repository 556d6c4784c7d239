//! Clients who are told where and when to go.

use std::{collections::BTreeMap, time::Duration};

use tidegate_load::{ErrorKind, FollowPlan, Plan, Protocol, Report, report::WaitReport, run_blocking};

use super::{class, origin};

fn of(report: &Report) -> &WaitReport {
    report.classes[0].waits.as_ref().expect("waits")
}

fn run(url: &str, path: &str, requests: u64, follow: FollowPlan) -> Report {
    let all = class("visitors", "100/s").path(path).follow(follow).requests_max(requests);
    run_blocking(Plan::new(url).class(all).duration(Duration::from_secs(60))).expect("a run")
}

#[test]
fn a_client_comes_back_at_the_promised_time_as_often_as_it_is_told() {
    let origin = origin();
    let report = run(&origin.url(), "/refresh?s=1&again=1&to=/bytes/10&status=503", 5, FollowPlan::default());
    let waits = of(&report);
    assert_eq!((waits.promises, waits.returned, waits.kept, waits.broken), (10, 10, 5, 5), "{report}");
    assert_eq!(waits.by_returns, BTreeMap::from([(2, 5)]));
    assert_eq!(report.total.statuses, BTreeMap::from([(200, 5), (503, 10)]), "each is told so: {report}");
    assert_eq!((waits.left, waits.redirects), (0, 0));
    assert_eq!(waits.promised_ms.count, 10);
    assert!((waits.promised_ms.mean - 1000.0).abs() < 1.0, "{report}");
    // Promised after one second, served after two.
    assert!(waits.overdue_ms.count == 5 && waits.overdue_ms.min >= 999.0, "{report}");
    assert_eq!(waits.from_return_ms.count, 5);
    assert!(waits.from_return_ms.max <= waits.overdue_ms.max - 999.0, "of the second return alone: {report}");
    assert_eq!(waits.overtaken, 0, "each waited as long as the others");
    assert_eq!((report.total.good, report.total.refused, report.total.gave_up), (5, 0, 0), "{report}");
    assert_eq!(report.total.good_latency_ms.count, 5);
    assert!(report.total.good_latency_ms.min >= 1999.0, "{report}");
    assert_eq!(report.total.series.promised.iter().sum::<u64>(), 10);
    assert_eq!(report.total.series.waiting.last(), Some(&0), "{report}");
    assert!(report.elapsed_s < 60.0, "ends with its last client");
}

/// As of a gateway that is asked for one of its hosts by address.
#[test]
fn the_host_that_a_request_asks_for_is_where_it_stays() {
    let origin = origin();
    let path = "/redirect?to=http://shop.example:81/bytes/7";
    for protocol in [Protocol::Http1, Protocol::Http2] {
        let all = class("visitors", "100/s").path(path).follow(FollowPlan::default()).requests_max(2);
        let plan = Plan::new(origin.url()).protocol(protocol).duration(Duration::from_secs(60));
        let report = run_blocking(plan.class(all.header("Host", "shop.example:81"))).expect("a run");
        assert_eq!((report.total.good, report.total.statuses.get(&302)), (2, Some(&2)), "{report}");
    }
}

#[test]
fn redirects_are_followed_at_once_or_after_their_pause_with_the_cookies_they_set() {
    let origin = origin();
    let report =
        run(&origin.url(), "/redirect?after=1&status=303&to=/redirect?to=/bytes/7", 3, FollowPlan::default());
    let waits = of(&report);
    assert_eq!((waits.promises, waits.kept, waits.redirects), (3, 3, 3), "{report}");
    assert_eq!((report.total.good, report.total.statuses.get(&302)), (3, Some(&3)), "{report}");

    let looped = run(&origin.url(), "/redirect?to=/redirect?to=/redirect", 1, FollowPlan::default());
    assert_eq!(looped.total.good, 1, "the last one leads to `/`: {looped}");
    let elsewhere = run(&origin.url(), "/redirect?to=http://elsewhere.invalid/", 2, FollowPlan::default());
    assert_eq!(elsewhere.total.errors.get(&ErrorKind::Elsewhere), Some(&2), "{elsewhere}");
}

#[test]
fn clients_who_would_wait_too_long_or_do_not_come_back_leave() {
    let origin = origin();
    let path = "/refresh?s=1&to=/bytes/10";
    let impatient = FollowPlan { wait_max: Duration::from_millis(500), ..FollowPlan::default() };
    let report = run(&origin.url(), path, 4, impatient);
    assert_eq!((of(&report).promises, of(&report).left, report.total.gave_up), (4, 4, 4), "{report}");
    let half = FollowPlan { returning: 0.5, ..FollowPlan::default() };
    let report = run(&origin.url(), path, 40, half);
    let waits = of(&report);
    assert_eq!((waits.left + waits.kept, waits.returned), (40, waits.kept), "{report}");
    assert!(waits.left > 5 && waits.kept > 5, "{report}");
    let twice = FollowPlan { returns_max: 2, ..FollowPlan::default() };
    let report = run(&origin.url(), "/refresh?s=1&again=9&to=/", 2, twice);
    assert_eq!((of(&report).returned, of(&report).broken, of(&report).left), (4, 4, 2), "{report}");
}
