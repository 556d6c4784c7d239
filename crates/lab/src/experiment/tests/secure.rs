//! TLS, sites with pictures, several applications on one host.

use tidegate_control::processors::{Policy, Sharing};
use tidegate_sim::{Arrivals, Population as Simulated};

use super::*;
use crate::{Outcome, simulated, site};

/// Two applications of a secure site: two requests a page, four pages a visit.
const SECURE: &str = r#"
title = "t"
run = { measured = "20s", seeds = 1 }
server = { threads = 100, processors = 4 }
tls = { full = "100ms", resumed = "2ms", keep_alive = "7s" }
load = { arrivals = "poisson", unit = "sessions/s", think = "7s", pages_max = 100, page = [{ name = "home", class = "home", embedded = 1, embedded_class = "image", next = { home = 0.75 } }] }
[[class]]
name = "home"
work = "10ms"
[[class]]
name = "image"
work = "2ms"
[[application]]
name = "first"
phase = [{ load = 4, for = "20s" }]
[[application]]
name = "second"
phase = [{ load = 1, for = "20s" }]
[[zone]]
name = "B"
from = "5s"
to = "15s"
[[arm]]
name = "shared"
front = "eac"
[[arm]]
name = "halves"
front = "gateway"
processors = "equal parts"
settings = { "tls.sessions.mode" = "enforce" }
[[arm]]
name = "managed"
front = "eac"
[arm.processors]
policy = "proportional"
sharing = "upwards"
interval = "1s"
priority = { first = 2 }
"#;

fn parsed(text: &str) -> Experiment {
    Experiment::parse("mine", text).unwrap_or_else(|faults| panic!("{faults}"))
}

fn web(experiment: &Experiment) -> &Web {
    let Subject::Web(web) = &experiment.subject else { panic!("clients and a server") };
    web
}

fn figure(outcome: &Outcome, arm: &str, metric: &str) -> f64 {
    let arm = outcome.arm(arm).expect("an arm");
    outcome.estimate(arm, outcome.loads.len() - 1, metric).map_or(f64::NAN, |estimate| estimate.value)
}

#[test]
fn what_is_written_is_what_runs() {
    let experiment = parsed(SECURE);
    let Division::Managed(manager) = &experiment.arms[2].processors else { panic!("managed") };
    assert_eq!((manager.policy, manager.sharing), (Policy::Proportional, Sharing::Upwards));
    assert_eq!((manager.interval, manager.priorities.as_slice()), (Duration::from_secs(1), &[2.0, 1.0][..]));
    assert_eq!(experiment.run.measured, Duration::from_secs(20), "as long as the phases");
    assert_eq!(experiment.axis, Axis::Sessions);
    let scenario = simulated::scenario(web(&experiment), 1.0, &experiment.run, 1);
    let names: Vec<&str> = scenario.applications.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["first", "second"]);
    for (application, per_s) in scenario.applications.iter().zip([4.0, 1.0]) {
        let Simulated::Sessions { arrivals, site, .. } = &application.clients[0].population else {
            panic!("visits")
        };
        let Arrivals::Schedule { phases, .. } = arrivals else { panic!("phases") };
        assert!((phases[0].1 - per_s).abs() < 1e-9, "{phases:?}");
        assert_eq!((site.pages_max, site.pages[0].embedded), (100, 1));
        assert_eq!(site.pages[0].embedded_class, tidegate_control::ClassId(1));
        assert_eq!(application.tls.map(|tls| tls.keep_alive), Some(Duration::from_secs(7)));
    }
}

/// Four pages of 12 ms, a full handshake of 100 ms, and 3 · e⁻¹ that resume, 2 ms each: 150.2 ms a visit of eight requests.
#[test]
fn a_visit_costs_its_requests_and_its_handshakes() {
    let experiment = parsed(SECURE);
    let web = web(&experiment);
    let resumed = 3.0 * (-1.0_f64).exp();
    let visit_s = 4.0 * 0.012 + 0.1 + resumed * 0.002;
    assert!((site::capacity(web) - 4.0 / visit_s * 8.0).abs() < 1e-6, "{}", site::capacity(web));
    let costs = site::connection_costs(web).expect("TLS");
    let requests_s = 0.048 / (1.0 + resumed);
    assert!((costs.new_s - 0.1 - requests_s).abs() < 1e-9, "{costs:?}");
    assert!((costs.resumed_s - 0.002 - requests_s).abs() < 1e-9, "{costs:?}");
}

#[test]
fn every_application_and_zone_has_its_figures() {
    let experiment = parsed(SECURE);
    let options = simulated::Options { seed: 1, seeds: None, progress: &|_, _| {} };
    let outcome = simulated::run(&experiment, options).expect("it runs");
    for arm in ["shared", "halves", "managed"] {
        for part in ["first", "second"] {
            for metric in metrics::OF_ZONES {
                let value = figure(&outcome, arm, &format!("{part}:{metric}@B"));
                assert!(value > 0.0, "{part}:{metric}@B of {arm}: {value}");
            }
        }
        assert!(figure(&outcome, arm, "first:goodput_per_s") > figure(&outcome, arm, "second:goodput_per_s"));
    }
    assert_eq!(figure(&outcome, "shared", "second:processors"), 4.0);
    assert_eq!(figure(&outcome, "halves", "second:processors@B"), 2.0);
    let given = figure(&outcome, "managed", "second:processors@B");
    assert!(given < 2.0, "one session a second needs little: {given}");
    let hashes: std::collections::BTreeSet<_> = outcome.runs.iter().map(|run| run.hash).collect();
    assert_eq!(hashes.len(), 3, "each arm lets other things happen: {hashes:?}");
    let runs = experiment.arms.len();
    assert_eq!(outcome.runs.iter().filter(|run| run.series.contains_key("first:processors")).count(), runs);
}

/// What is changed, and what must be said about it.
#[test]
fn faults_of_secure_sites_and_hosts_are_told() {
    let check = "[[check]]\nname = \"c\"\nmetric = \"first:goodput_per_s@B\"\nop = \">=\"\nbar = 1\n";
    let sound = format!("{SECURE}{check}");
    parsed(&sound);
    for (from, to, said) in [
        ("arrivals = \"poisson\", ", "", "tls: connections are those of visits"),
        ("arrivals = \"poisson\", ", "", "load.unit: sessions are visits"),
        ("arrivals = \"poisson\", ", "", "browsers go from page to page for ever"),
        ("\"sessions/s\"", "\"sessions\"", "expected one of \"capacity\", \"sessions/s\""),
        ("embedded_class = \"image\"", "embedded_class = \"img\"", "there is no class img"),
        ("tls = {", "title2 = {", "shared: eac goes by TLS connections, and there are none"),
        ("tls = {", "title2 = {", "arm[2].processors: a manager goes by TLS connections"),
        ("keep_alive = \"7s\"", "keep_alive = \"0s\"", "tls.keep_alive"),
        ("load = 1, for = \"20s\"", "load = 1, for = \"21s\"", "their loads last [20s, 21s]"),
        ("name = \"second\"", "name = \"first\"", "application: two are called first"),
        ("name = \"second\"", "name = \"fi rst\"", "\"fi rst\" is no name"),
        ("phase = [{ load = 1, for = \"20s\" }]", "", "application[1].phase: is missing"),
        ("to = \"15s\"", "to = \"5s\"", "zone[0].to: a zone ends after it begins"),
        ("to = \"15s\"", "", "zone[0].to: is missing"),
        ("\"equal parts\"", "\"equal\"", "arm[1].processors: is no way to divide processors"),
        (
            "priority = { first = 2 }",
            "priority = { third = 2 }",
            "no application third: write one of first, second",
        ),
        ("sharing = \"upwards\"", "sharing = \"up\"", "expected one of \"none\", \"halves\", \"upwards\""),
        ("first:goodput_per_s@B", "goodput_per_s@B", "write one of first, second and a colon before it"),
        ("first:goodput_per_s@B", "first:goodput_per_s@C", "there is no zone C: write one of B"),
        ("unit = \"sessions/s\", ", "unit = \"sessions/s\", repeat = true, ", "its own phases once"),
        ("title = \"t\"", "title = \"t\"\nlive = {}", "tls: is simulated only"),
        ("title = \"t\"", "title = \"t\"\nlive = {}", "application: is simulated only"),
        ("title = \"t\"", "title = \"t\"\nvary = { load = [1, 2] }", "vary: the load has phases of its own"),
    ] {
        let text = sound.replacen(from, to, 1);
        assert_ne!(text, sound, "{from} is in the text");
        let faults = faults(&text);
        assert!(faults.contains(said), "{to}: {faults}");
    }
}

/// Short, at two loads, and once: what thirty runs give is `tidegate lab run`.
#[test]
fn new_sessions_drown_the_original_and_not_those_who_count_them() {
    let mut experiment = Experiment::find("eac-sessions").expect("built in");
    experiment.loads = vec![4.0, 35.0];
    experiment.run =
        RunLength { warm_up: Duration::from_secs(300), measured: Duration::from_secs(200), seeds: 1 };
    let options = simulated::Options { seed: 1, seeds: None, progress: &|_, _| {} };
    let outcome = simulated::run(&experiment, options).expect("it runs");
    let replies = |arm| figure(&outcome, arm, "goodput_per_s");
    let capacity = outcome.capacity_per_s.expect("is known");
    assert!((capacity / site::requests_a_session(web(&experiment)) - 3.0).abs() < 0.02, "{capacity}");
    assert!(replies("original") < 0.35 * capacity, "{}", replies("original"));
    assert!(replies("EAC as published") > 0.9 * capacity, "{}", replies("EAC as published"));
    assert!(replies("Tidegate") > 0.6 * capacity, "{}", replies("Tidegate"));
    assert!(replies("Tidegate, capacity given") > 0.9 * capacity);
}

/// Zone E alone, and once.
#[test]
fn the_manager_gives_by_priority_and_admission_follows() {
    let mut experiment = Experiment::find("ecm-two-servers").expect("built in");
    let Subject::Web(web) = &mut experiment.subject else { panic!("clients and a server") };
    for application in &mut web.applications {
        application.phases.retain(|phase| phase.load == 10.0);
    }
    web.zones.retain(|zone| zone.name == "E");
    web.zones[0] =
        Zone { from: Duration::from_secs(200), to: Duration::from_secs(400), ..web.zones[0].clone() };
    experiment.run = RunLength { warm_up: Duration::ZERO, measured: Duration::from_secs(400), seeds: 1 };
    let options = simulated::Options { seed: 1, seeds: None, progress: &|_, _| {} };
    let outcome = simulated::run(&experiment, options).expect("it runs");
    let of = |arm, metric| figure(&outcome, arm, metric);
    let alone = of("the operating system alone", "first:goodput_per_s@E");
    let equal = of("ECM, equal priority", "first:goodput_per_s@E");
    assert!(equal > 2.0 * alone, "{equal} against {alone}");
    assert_eq!(of("ECM, equal priority", "second:processors@E"), 2.0);
    assert_eq!(of("ECM, 2:1", "first:processors@E"), 3.0);
    assert_eq!(of("ECM, 2:1", "second:processors@E"), 1.0);
    assert!(of("ECM, 2:1", "second:goodput_per_s@E") < 0.6 * equal);
    assert_eq!(of("max-min, 2:1", "first:processors@E"), 2.5);
}
