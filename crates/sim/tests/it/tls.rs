//! Handshakes: who makes them, and how many at once.

use std::time::Duration;

use tidegate_control::ClassId;
use tidegate_sim::{
    Arrivals, Behaviour, Clients, Direct, Draw, Front, Population, Request, RunResult, Scenario, Tls,
    Verdict, run,
};

use crate::worlds::{SECOND, shop, site};

/// Makes handshakes itself and lets all go on.
struct Secure;

impl Front for Secure {
    fn makes_handshakes(&self) -> bool {
        true
    }

    fn arrive(&mut self, _now: tidegate_control::Timestamp, _request: &Request) -> Verdict {
        Verdict::Start
    }
}

/// So many visits of one page a second on four processors, each with a handshake of 100 ms; nobody waits longer than a second.
fn visits(per_s: f64, threads: u32, backlog: Option<u32>) -> Scenario {
    let mut site = site(ClassId(0), ClassId(0));
    site.pages_max = 1;
    let clients = Clients {
        name: "visitors".to_owned(),
        population: Population::Sessions {
            arrivals: Arrivals::Constant { per_s },
            site,
            think: Draw::Constant(1.0),
        },
        behaviour: Behaviour { timeout: Some(SECOND), retry: None },
    };
    let mut scenario = shop(vec![clients], 20);
    scenario.host.processors = 4;
    let shop = &mut scenario.applications[0];
    shop.classes[0].work = Draw::Constant(0.001);
    shop.server.threads = Some(threads);
    shop.server.backlog = backlog;
    shop.tls = Some(Tls {
        full: Duration::from_millis(100),
        resumed: Duration::from_millis(2),
        keep_alive: SECOND,
        requests_max: None,
        new_share: 1.0,
    });
    scenario
}

fn replies(result: &RunResult) -> u64 {
    result.total().replied
}

#[test]
fn a_handshake_has_a_thread_until_its_request_is_done() {
    // One comes each 50 ms and takes 101 ms: one thread, without a backlog, has each third.
    let result = run(&visits(20.0, 1, Some(0)), &mut Direct);
    assert!((132..=134).contains(&replies(&result)), "{}", replies(&result));
    let under_way = result.total().arrived - result.total().refused["server"] - replies(&result);
    assert!(under_way <= 1, "{under_way} at the end");
    assert_eq!(result.sessions.timed_out, 0);
    // With one they wait, and give up.
    let result = run(&visits(20.0, 1, None), &mut Direct);
    assert_eq!(result.total().refused_total(), 0);
    assert!(result.sessions.timed_out > 150, "{:?}", result.sessions);
    assert_eq!(result.sessions.turned_away, result.sessions.timed_out, "at their first page");
    // Two threads have twice as many.
    let two = replies(&run(&visits(20.0, 2, Some(0)), &mut Direct));
    assert!((265..=268).contains(&two), "{two}");
}

#[test]
fn a_front_makes_one_handshake_at_once_for_two_processors() {
    // Two at once: 20 a second, of 60 that come; the server's one thread has next to nothing to do.
    let result = run(&visits(60.0, 1, Some(0)), &mut Secure);
    assert!((380..=400).contains(&replies(&result)), "{}", replies(&result));
    let share = result.series.iter().map(|row| row.busy).sum::<f64>() / result.series.len() as f64;
    assert!((1.9..=2.1).contains(&share), "{share} processors work");
    // The newest go first: who is served has not waited long.
    let median = result.total().response.quantile(0.5).expect("replies");
    assert!(median < Duration::from_millis(250), "{median:?}");
}
