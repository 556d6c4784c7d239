//! The generator against its own origin: what it claims to measure is what happened.

use std::time::Duration;

use tidegate_load::{
    Arrivals, ClassPlan, Plan, RetryPlan,
    origin::{Origin, Settings},
    run_blocking,
};

fn origin() -> Origin {
    Origin::start(&Settings::default()).expect("an origin on a free port")
}

fn arrivals(pattern: &str) -> Arrivals {
    pattern.parse().expect(pattern)
}

#[test]
fn every_request_of_a_schedule_is_offered_and_answered() {
    let origin = origin();
    let plan = Plan::new(origin.url())
        .class(ClassPlan::new("small", arrivals("poisson:200/s:1s,400/s:1s")).path("/bytes/1000"))
        .class(ClassPlan::new("even", arrivals("50/s:2s")).path("/status/204"));
    let report = run_blocking(plan).expect("a run");
    println!("{report}");
    let even = report.class("even").expect("class");
    assert_eq!((even.offered, even.good), (100, 100));
    let small = report.class("small").expect("class");
    assert_eq!(small.good, small.offered);
    assert_eq!(small.body_bytes, 1000 * small.good);
    assert_eq!(origin.stats().requests, even.sent + small.sent);
    assert_eq!(report.total.unfinished, 0);
}

#[test]
fn a_client_whose_patience_ends_closes_its_connection() {
    let origin = origin();
    let plan = Plan::new(origin.url()).class(
        ClassPlan::new("slow", arrivals("20/s:500ms"))
            .path("/slow?ms=60000")
            .timeout(Duration::from_millis(200)),
    );
    let report = run_blocking(plan).expect("a run");
    assert_eq!(report.total.timed_out(), 10);
    assert_eq!(report.total.good, 0);
    assert_eq!(report.connections.opened_http1, 10, "none is used again");
    assert_eq!(origin.stats().connections, 10);
}

#[test]
fn retries_are_bounded_and_counted() {
    let origin = origin();
    let plan = Plan::new(origin.url()).class(
        ClassPlan::new("refused", arrivals("50/s:200ms"))
            .path("/status/503")
            .retry(RetryPlan { backoff: Duration::from_millis(1), ..RetryPlan::new(3) }),
    );
    let report = run_blocking(plan).expect("a run");
    let class = &report.total;
    assert_eq!((class.offered, class.sent, class.retries), (10, 40, 30));
    assert_eq!((class.refused, class.gave_up, class.good), (40, 10, 0));
    assert_eq!(origin.stats().requests, 40);
}
