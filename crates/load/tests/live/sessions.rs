//! Sessions against the origin: what a session asks for, how it ends, and what is counted of it.

use std::time::Duration;

use tidegate_load::{
    ClassPlan, Plan, RetryPlan, SessionModel, TlsPlan,
    report::{Report, SessionReport},
    run_blocking,
};

use super::{class, origin, tls::secure_origin};

fn model(text: &str) -> SessionModel {
    SessionModel::from_toml(text).unwrap_or_else(|fault| panic!("{fault}"))
}

/// Login, a page for members only with two images, a form, the end.
fn members() -> SessionModel {
    model(
        r#"
entry = "Login"
think = "2ms"
images = ["/bytes/10"]
[parameters]
user = { from = 1, to = 1000000, per = "session" }
[page.Login]
path = "/cookie/sid/{user}"
next = { Inside = 1.0 }
[page.Inside]
path = "/member/sid/{user}"
images = 2.0
next = { Form = 1.0 }
[page.Form]
path = "/upload"
form = "twelve bytes"
end = 1.0
"#,
    )
}

/// A page that leads to itself half the time, from `/status/200`.
fn wandering() -> SessionModel {
    let page = |to: &str| format!("path = \"/status/200\"\nnext = {{ A = 0.4, {to} = 0.4 }}\nend = 0.2\n");
    let (a, b) = (page("B"), page("B"));
    model(&format!("entry = \"A\"\nthink = \"1ms\"\n[page.A]\n{a}[page.B]\n{b}"))
}

fn of(report: &Report) -> &SessionReport {
    report.classes[0].sessions.as_ref().expect("sessions")
}

fn visits(report: &Report) -> Vec<(String, u64)> {
    of(report).pages.iter().map(|page| (page.name.clone(), page.requests)).collect()
}

#[test]
fn a_session_has_its_own_cookies_connection_and_values() {
    let origin = origin();
    let all = class("members", "20/s:500ms").sessions(members());
    let report =
        run_blocking(Plan::new(origin.url()).duration(Duration::from_secs(30)).class(all.requests_max(10)))
            .expect("a run");
    let sessions = of(&report);
    assert_eq!((sessions.started, sessions.completed, sessions.unfinished), (10, 10, 0), "{report}");
    let expected = ["Form", "Inside", "Login"].map(|name| (name.to_owned(), 10));
    assert_eq!(visits(&report), expected);
    // 403 for a member without his cookie would be an answer, but not a good one.
    assert!(sessions.pages.iter().all(|page| page.good == 10), "{report}");
    assert_eq!((sessions.images.requests, sessions.images.good), (20, 20));
    assert_eq!((report.total.offered, report.total.good), (50, 50));
    assert_eq!(origin.stats().body_bytes, 10 * "twelve bytes".len() as u64);
    assert_eq!(report.connections.opened_http1, 10, "{report}");
    assert_eq!(report.total.series.sessions_completed.iter().sum::<u64>(), 10);
    assert!(report.elapsed_s < 30.0, "ends with its last session");
}

#[test]
fn sessions_end_refused_abandoned_or_complete() {
    let origin = origin();
    let ending = |name: &str, first: &str, second: &str| {
        let text = format!(
            "entry = \"First\"\nthink = \"1ms\"\n[page.First]\npath = \"{first}\"\nnext = {{ Second = 1.0 }}\n\
             [page.Second]\npath = \"{second}\"\nend = 1.0\n"
        );
        ClassPlan::new(name, "20/s:500ms".parse().expect("arrivals"))
            .sessions(model(&text))
            .timeout(Duration::from_secs(30))
    };
    let plan = Plan::new(origin.url())
        .duration(Duration::from_secs(60))
        .class(ending("at entry", "/status/503", "/").requests_max(10))
        .class(ending("later", "/status/404", "/status/429").requests_max(10))
        .class(
            ending("slow", "/status/302", "/slow?ms=60000").requests_max(10).timeout(Duration::from_secs(2)),
        )
        .class(ending("broken", "/status/500", "/").requests_max(10))
        .class(
            ending("stubborn", "/", "/status/503")
                .requests_max(10)
                .retry(RetryPlan { backoff: Duration::from_millis(1), ..RetryPlan::new(2) }),
        );
    let report = run_blocking(plan).expect("a run");
    let ends = |name: &str| {
        let sessions = report.class(name).and_then(|class| class.sessions.as_ref()).expect("sessions");
        (sessions.completed, sessions.refused, sessions.refused_at_entry, sessions.abandoned)
    };
    assert_eq!(ends("at entry"), (0, 10, 10, 0), "{report}");
    assert_eq!(ends("later"), (0, 10, 0, 0), "{report}");
    assert_eq!(ends("slow"), (0, 0, 0, 10), "{report}");
    assert_eq!(ends("broken"), (0, 0, 0, 10), "{report}");
    assert_eq!(ends("stubborn"), (0, 10, 0, 0), "{report}");
    let stubborn = report.class("stubborn").expect("class");
    assert_eq!((stubborn.offered, stubborn.sent, stubborn.refused), (20, 40, 30), "{report}");
    assert_eq!(report.total.sessions.as_ref().expect("sessions").started, 50);
}

#[test]
fn the_same_seed_makes_the_same_sessions_with_any_number_of_threads() {
    let origin = origin();
    let walked = |threads, seed| {
        let all = class("wanderers", "poisson:200/s:500ms").sessions(wandering());
        let plan =
            Plan::new(origin.url()).class(all).threads(threads).seed(seed).duration(Duration::from_secs(60));
        let mut plan = plan;
        plan.classes[0].requests_max = Some(50);
        let report = run_blocking(plan).expect("a run");
        assert_eq!(of(&report).completed, 50, "{report}");
        visits(&report)
    };
    assert_eq!(walked(1, 5), walked(3, 5));
    assert_ne!(walked(1, 5), walked(1, 6));
}

#[test]
fn browsers_of_a_closed_loop_begin_session_after_session() {
    let origin = origin();
    let all = class("browsers", "closed:3").sessions(members()).requests_max(9);
    let plan = Plan::new(origin.url()).class(all).duration(Duration::from_secs(60)).threads(2);
    let report = run_blocking(plan).expect("a run");
    let sessions = of(&report);
    assert_eq!((sessions.started, sessions.completed), (9, 9), "{report}");
    assert_eq!(report.connections.opened_http1, 9, "each session is somebody else: {report}");
    assert!(report.elapsed_s < 60.0);
}

/// All at once would be a burst of 2,000, and a crowd that goes on in step.
#[test]
fn clients_who_think_begin_spread_over_their_think_time() {
    let origin = origin();
    let page = "entry = \"A\"\nthink = \"100s\"\n[page.A]\npath = \"/status/200\"\nnext = { A = 1.0 }\n";
    let plan = Plan::new(origin.url())
        .duration(Duration::from_secs(2))
        .class(class("browsers", "closed:2000").sessions(model(page)))
        .class(class("single requests", "closed:2000:think=100s").path("/status/200"))
        .threads(2);
    let report = run_blocking(plan).expect("a run");
    for class in &report.classes {
        // Of 2,000 exponential pauses with a mean of 100 s, 39.6 are shorter than 2 s.
        assert!((15..=70).contains(&class.offered), "{}: {report}", class.name);
        assert_eq!(class.good, class.offered, "{report}");
    }
}

#[test]
fn who_still_thinks_at_the_end_is_unfinished() {
    let origin = origin();
    let text = "entry = \"A\"\nthink = \"1h\"\n[page.A]\npath = \"/status/200\"\nnext = { A = 1.0 }\n";
    let all = class("slow thinkers", "50/s").sessions(model(text)).requests_max(10);
    let report =
        run_blocking(Plan::new(origin.url()).class(all).duration(Duration::from_secs(1))).expect("a run");
    let sessions = of(&report);
    assert_eq!((sessions.started, sessions.unfinished), (10, 10), "{report}");
    assert_eq!((report.total.offered, report.total.good, report.total.unfinished), (10, 10, 0), "{report}");
}

#[test]
fn each_session_handshakes_in_full_once_and_then_resumes() {
    let (origin, _directory) = secure_origin();
    let all = class("members", "20/s").sessions(members()).requests_max(4);
    let mut plan = Plan::new(origin.url())
        .class(all)
        .duration(Duration::from_secs(60))
        .tls(TlsPlan { insecure: true, ..TlsPlan::default() });
    plan.requests_per_connection = Some(2);
    let report = run_blocking(plan).expect("a run");
    // Five requests on two, two and one.
    assert_eq!((of(&report).completed, report.connections.opened_http1), (4, 12), "{report}");
    assert_eq!((report.connections.tls_full, report.connections.tls_resumed), (4, 8), "{report}");
}
