//! Open and closed load: every intended request is accounted for, whatever the server does.

use std::{sync::Arc, time::Duration};

use tidegate_load::{
    Live, Plan, Protocol, RetryPlan, origin::Settings, run, run_blocking, run_blocking_with,
};

use super::{Origin, class, origin};

#[test]
fn every_request_of_a_schedule_is_offered_and_answered() {
    let origin = origin();
    let plan = Plan::new(origin.url())
        .class(class("small", "poisson:200/s:1s,400/s:1s").path("/bytes/1000"))
        .class(class("even", "50/s:2s").path("/status/204"));
    let report = run_blocking(plan).expect("a run");
    let even = report.class("even").expect("class");
    assert_eq!((even.offered, even.good), (100, 100));
    assert_eq!(even.series.offered[..2], [50, 50]);
    let small = report.class("small").expect("class");
    assert_eq!(small.good, small.offered);
    assert_eq!(small.body_bytes, 1000 * small.good);
    assert_eq!(origin.stats().requests, even.sent + small.sent);
    assert_eq!(report.total.unfinished, 0);
    assert_eq!(report.total.series.good.iter().sum::<u64>(), report.total.good);
}

/// The server has one worker, and one request takes it for a second. A closed loop would record
/// that single slow request; who was meant to start meanwhile must count with the full wait.
#[test]
fn a_stall_of_the_server_shows_in_the_percentiles() {
    let origin = origin();
    let plan = Plan::new(origin.url())
        .class(class("steady", "100/s:3s").path("/?cost_ms=0.1"))
        .class(class("stall", "0/s:1s,1/s:1s").path("/?cost_ms=1000"));
    let report = run_blocking(plan).expect("a run");
    let steady = report.class("steady").expect("class");
    assert_eq!((steady.offered, steady.good), (300, 300));
    assert_eq!(steady.series.offered[..3], [100, 100, 100], "the schedule is kept while the server stalls");
    // At least a second of CPU time is at least a second of wall time, so 100 of the 300 wait for
    // 1 s to 0 s: 50 of them, a sixth of all, for more than 500 ms.
    assert!(steady.percentile(85.0) >= 500.0, "{}", report);
    assert!(steady.percentile(99.6) >= 980.0, "{}", report);
}

/// Twice the capacity with impatient clients: the origin works for those who have left, as a
/// thread-pool server does.
#[test]
fn an_overloaded_origin_works_for_clients_who_have_left() {
    let origin = Origin::start(&Settings { cost: Duration::from_millis(10), ..Settings::default() })
        .expect("an origin");
    let all = class("all", "200/s:6s").timeout(Duration::from_millis(200));
    let report = run_blocking(Plan::new(origin.url()).class(all)).expect("a run");
    assert_eq!(report.total.offered, 1200);
    assert!(report.total.timed_out() > 0, "{report}");
    assert_eq!(report.total.good + report.total.timed_out(), 1200, "{report}");
    let stats = origin.stats();
    assert!(stats.work_for_nobody > 0, "{stats:?}");
    // A reply can be on its way when its client's patience ends: served here, timed out there.
    assert!(stats.work_completed - stats.work_for_nobody >= report.total.good, "{stats:?}");
    assert!(stats.work_cpu_us >= stats.work_completed * 10_000, "{stats:?}");
    assert!(stats.work_p50_us >= 100_000, "with the time they waited for a worker: {stats:?}");
}

#[test]
fn threads_share_the_same_arrivals() {
    let origin = origin();
    let offered = |threads| {
        let all = class("all", "poisson:300/s:1s").path("/status/200");
        run_blocking(Plan::new(origin.url()).class(all).threads(threads)).expect("a run").total.offered
    };
    assert_eq!(offered(1), offered(3));
}

#[test]
fn a_closed_loop_keeps_to_its_connections_and_its_number_of_requests() {
    let origin = origin();
    let all = class("loop", "closed:4:think=1ms").path("/bytes/100").requests_max(101);
    let plan = Plan::new(origin.url()).class(all).duration(Duration::from_secs(30)).threads(2);
    let report = run_blocking(plan).expect("a run");
    assert_eq!((report.total.offered, report.total.good), (101, 101));
    assert!(origin.stats().connections <= 4, "{report}");
    assert!(report.elapsed_s < 30.0, "ends with its last request");
}

#[test]
fn http2_streams_share_one_connection_and_timeouts_reset_only_streams() {
    let origin = origin();
    let plan = Plan::new(origin.url())
        .protocol(Protocol::Http2)
        .class(class("quick", "100/s:1s").path("/chunked/5000"))
        .class(class("slow", "20/s:500ms").path("/slow?ms=60000").timeout(Duration::from_millis(500)));
    let report = run_blocking(plan).expect("a run");
    let quick = report.class("quick").expect("class");
    assert_eq!((quick.good, quick.body_bytes), (100, 500_000), "{report}");
    assert_eq!(report.class("slow").expect("class").timed_out(), 10, "{report}");
    assert_eq!((report.connections.opened_http2, origin.stats().connections), (1, 1), "{report}");
}

#[test]
fn warm_up_is_left_out_of_totals_but_not_of_the_series() {
    let origin = origin();
    let all = class("all", "50/s:2s").path("/status/200");
    let plan = Plan::new(origin.url()).class(all).warmup(Duration::from_secs(1));
    let report = run_blocking(plan).expect("a run");
    assert_eq!((report.total.offered, report.total.sent, report.total.good), (50, 50, 50));
    assert_eq!(report.total.good_latency_ms.count, 50);
    assert_eq!(report.total.goodput_per_s, 50.0);
    assert_eq!(report.total.series.good.iter().sum::<u64>(), 100);
    assert_eq!(report.total.series.offered[..2], [50, 50]);
}

#[test]
fn cool_down_is_left_out_as_well() {
    let origin = origin();
    let all = class("all", "50/s:2s").path("/status/200");
    let plan = Plan::new(origin.url())
        .class(all)
        .warmup(Duration::from_millis(500))
        .cooldown(Duration::from_secs(1));
    let report = run_blocking(plan).expect("a run");
    assert_eq!((report.total.offered, report.total.good), (25, 25));
    assert_eq!((report.measured_s, report.total.goodput_per_s), (0.5, 50.0));
    assert_eq!(report.total.series.good.iter().sum::<u64>(), 100);
}

#[test]
fn requests_beyond_the_bound_in_flight_are_counted_and_the_generator_blamed() {
    let origin = origin();
    let all = class("slow", "100/s:200ms").path("/slow?ms=60000").timeout(Duration::from_secs(3));
    let mut plan = Plan::new(origin.url()).class(all);
    plan.in_flight_max = 5;
    let report = run_blocking(plan).expect("a run");
    assert_eq!((report.total.offered, report.total.sent, report.total.overruns), (20, 5, 15));
    assert!(report.generator.bottleneck);
    assert!(report.to_string().contains("15 requests were not sent"), "{report}");
}

#[test]
fn retries_are_bounded_and_counted() {
    let origin = origin();
    let all = class("refused", "50/s:200ms")
        .path("/status/503")
        .retry(RetryPlan { backoff: Duration::from_millis(1), ..RetryPlan::new(3) });
    let report = run_blocking(Plan::new(origin.url()).class(all)).expect("a run");
    let class = &report.total;
    assert_eq!((class.offered, class.sent, class.retries), (10, 40, 30));
    assert_eq!((class.refused, class.gave_up, class.good), (40, 10, 0));
    assert_eq!(class.refused_latency_ms.count, 40);
    assert_eq!(origin.stats().requests, 40);
}

#[test]
fn a_run_inside_a_runtime_can_be_watched_and_stopped() {
    let origin = origin();
    let all = class("all", "closed:1").path("/status/200");
    let plan = Plan::new(origin.url()).class(all).duration(Duration::from_secs(600));
    let live = Arc::new(Live::new(&plan));
    let watched = Arc::clone(&live);
    let (one, other) = std::thread::scope(|scope| {
        let stopper = scope.spawn(|| {
            while watched.read()[0].good < 10 {
                std::thread::yield_now();
            }
            watched.stop();
        });
        let report = run_blocking_with(&plan, &live).expect("a run");
        stopper.join().expect("watched");
        (report, live.read().remove(0))
    });
    assert!(one.stopped_early && one.total.good >= 10);
    assert_eq!((one.total.good, 0), (other.good, other.in_flight));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let plan = Plan::new(origin.url()).class(class("all", "50/s:100ms").path("/status/200"));
    assert_eq!(runtime.block_on(run(plan)).expect("a run").total.good, 5);
}

#[test]
fn a_run_that_ends_after_so_many_requests_has_its_rates_over_the_time_it_ran() {
    let origin = origin();
    let all = class("all", "200/s").path("/status/200").requests_max(20);
    let report =
        run_blocking(Plan::new(origin.url()).class(all).duration(Duration::from_secs(60))).expect("a run");
    assert_eq!(report.total.good, 20);
    assert_eq!(report.measured_s, report.elapsed_s);
    assert_eq!(report.total.goodput_per_s, 20.0 / report.elapsed_s);
}
