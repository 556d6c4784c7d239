//! Sessions that have begun beside newcomers: three times what the application can do of visitors who come once, each with a full
//! TLS handshake, and people in the midst of their visits. `examples/sessions.toml` is what lets the latter finish.

use std::{sync::PoisonError, thread};

use serde_json::json;
use tidegate_load::Plan;

use super::{
    Checks, Extent, Figure, REST_CPU, TURN, bench_origin, capacity, run, save,
    support::{Gateway, Start, free_address, write_certificate},
};

const EXAMPLE: &str = include_str!("../../../../examples/sessions.toml");

/// When people begin and how long their visits are; the flood begins once all have begun.
struct Visits {
    begin_s: u64,
    people: u64,
    pages: u32,
    think_ms: u64,
    flood_s: u64,
}

impl Visits {
    fn people(&self, url: &str, seed: u64) -> Plan {
        let Self { begin_s, people, pages, think_ms, flood_s } = *self;
        let all_s = begin_s + flood_s;
        let rate = people as f64 / begin_s as f64;
        self.plan(
            url,
            seed,
            &format!("requests_per_connection = 2\nduration = \"{all_s}s\"\ndrain = \"30s\"\n"),
            &format!(
                "name = \"people\"\narrivals = \"{rate}/s:{begin_s}s\"\n[class.sessions]\nentry = \"Home\"\n\
                 think = \"{think_ms}ms\"\ninteractions_max = {pages}\n\
                 [class.sessions.page.Home]\npath = \"/cookie/JSESSIONID/begun\"\nnext = {{ Page = 1.0 }}\n\
                 [class.sessions.page.Page]\npath = \"/\"\nnext = {{ Page = 1.0 }}\n"
            ),
        )
    }

    fn flood(&self, url: &str, seed: u64, per_s: f64, resumes: bool) -> Plan {
        let Self { begin_s, flood_s, .. } = *self;
        let all_s = begin_s + flood_s;
        self.plan(
            url,
            seed,
            &format!(
                "keep_alive = false\ntls.resume = {resumes}\nwarmup = \"{begin_s}s\"\nduration = \"{all_s}s\"\n\
                 cooldown = \"2s\"\n"
            ),
            &format!("name = \"flood\"\narrivals = \"poisson:0/s:{begin_s}s,{per_s:.1}/s:{flood_s}s\"\n"),
        )
    }

    fn plan(&self, url: &str, seed: u64, keys: &str, class: &str) -> Plan {
        let text =
            format!("url = \"{url}\"\n{keys}tls.insecure = true\n[[class]]\ntimeout = \"2s\"\n{class}");
        Plan::from_toml(&text)
            .unwrap_or_else(|fault| panic!("{fault}:\n{text}"))
            .seed(seed)
            .cpus(vec![REST_CPU])
    }
}

/// What of the example is in force.
#[derive(Clone, Copy)]
struct Parts {
    by_cookie: bool,
    by_resumption: bool,
    admits_sessions: bool,
}

impl Parts {
    const NONE: Self = Self { by_cookie: false, by_resumption: false, admits_sessions: false };
    const ALL: Self = Self { by_cookie: true, by_resumption: true, admits_sessions: true };
}

/// The example, at addresses of the test's, as far as `parts` go.
fn configuration(listen: &str, server: &str, parts: Parts) -> String {
    let rule = |name: &str| {
        let begin = EXAMPLE.find(name).and_then(|at| EXAMPLE[..at].rfind("[[application.shop.rule]]"));
        let begin = begin.unwrap_or_else(|| panic!("the example has a rule by {name}"));
        let len = EXAMPLE[begin..].find("\n\n").map_or(EXAMPLE.len() - begin, |len| len + 1);
        &EXAMPLE[begin..begin + len]
    };
    let mode = EXAMPLE.lines().find(|line| line.starts_with("tls.sessions.mode")).expect("the mode");
    let leaves_out = [
        (parts.by_cookie, rule("cookie")),
        (parts.by_resumption, rule("resumed =")),
        (parts.admits_sessions, mode),
    ];
    let text = leaves_out.into_iter().filter(|(stays, _)| !stays);
    let text = text.fold(EXAMPLE.to_owned(), |text, (_, part)| text.replace(part, ""));
    let text = text
        .replace("[::]:443", listen)
        .replace("certs/shop.pem", "chain.pem")
        .replace("certs/shop.key", "key.pem")
        .replace("http://127.0.0.1:8000", server);
    format!("admin = \"none\"\n{text}")
}

/// A gateway as the example has it, and its URL.
fn gateway(server: &str, parts: Parts) -> (Gateway, String) {
    let listen = free_address();
    let directory = tempfile::tempdir().expect("a directory");
    write_certificate(directory.path());
    let text = configuration(&listen.to_string(), server, parts);
    let gateway = Gateway::run_in(directory, &text, &Start { cpus: &[REST_CPU], ..Start::default() });
    (gateway, format!("https://{listen}/"))
}

#[test]
fn who_has_begun_finishes_while_newcomers_flood_in() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let extent = Extent::of_environment();
    let visits = if extent.full {
        Visits { begin_s: 4, people: 40, pages: 12, think_ms: 1_000, flood_s: 14 }
    } else {
        Visits { begin_s: 2, people: 10, pages: 8, think_ms: 500, flood_s: 6 }
    };
    // Who was refused can resume the TLS session, too, and so can a flood.
    let rules = Parts { admits_sessions: false, ..Parts::ALL };
    let arms = [
        ("everybody alike", Parts::NONE, false),
        ("by the rules of examples/sessions.toml", rules, false),
        ("as examples/sessions.toml, the flood resumes", Parts::ALL, true),
    ];
    let mut figures = arms.map(|_| (Vec::new(), Vec::new()));
    for repetition in 1..=extent.repetitions {
        let capacity = capacity();
        for ((_, parts, flood_resumes), (completed, served)) in arms.iter().zip(&mut figures) {
            let origin = bench_origin();
            let (gateway, url) = gateway(&origin.url(), *parts);
            let flood = visits.flood(&url, repetition, 3.0 * capacity, *flood_resumes);
            let flood = thread::spawn(move || run(flood));
            let people = run(visits.people(&url, repetition));
            let flood = flood.join().expect("the flood");
            gateway.stop_sound();
            let visits = people.total.sessions.as_ref().expect("sessions");
            // Whoever thinks when the run ends has lost nothing.
            let ended = visits.started - visits.unfinished;
            completed.push(visits.completed as f64 / ended.max(1) as f64);
            served.push(flood.total.goodput_per_s / capacity);
        }
    }
    let mut checks = Checks::default();
    for ((name, parts, _), (completed, served)) in arms.iter().zip(&figures) {
        let (completed, served) = (Figure::of(completed), Figure::of(served));
        println!("{name}: newcomers served, of capacity {:.3}", served.median);
        if parts.by_cookie {
            checks.state(&format!("{name}: visits completed, of those that ended"), completed, ">=", 0.99);
            assert!(completed.median > 0.5, "{name}: visits completed {}", completed.median);
        } else {
            println!("{name}: visits completed, of those that ended {:.3}", completed.median);
        }
    }
    save("sessions.json", &json!({ "experiment": "sessions", "checks": checks.told }));
    checks.hold(&extent);
}

/// Visits: their pages and their thinking, how many come at first, and when more begin to.
struct Shopping {
    pages: u32,
    think_ms: u64,
    quiet_s: u64,
    flood_s: u64,
}

impl Shopping {
    /// Two fifths of the capacity at first, then three times that; those that begin in the last half of the flood are measured.
    fn plan(&self, url: &str, seed: u64, capacity: f64) -> Plan {
        let Self { pages, think_ms, quiet_s, flood_s } = *self;
        let [quiet, flood] = [0.4, 3.0].map(|times| times * capacity / f64::from(pages));
        let (warmup_s, all_s) = (quiet_s + flood_s / 2, quiet_s + flood_s);
        let text = format!(
            "url = \"{url}\"\nrequests_per_connection = 2\nwarmup = \"{warmup_s}s\"\nduration = \"{all_s}s\"\n\
             drain = \"30s\"\ntls.insecure = true\n[[class]]\nname = \"visitors\"\n\
             arrivals = \"poisson:{quiet:.2}/s:{quiet_s}s,{flood:.2}/s:{flood_s}s\"\ntimeout = \"2s\"\n\
             retry = {{ retries = 2, backoff = \"500ms\" }}\n[class.sessions]\nentry = \"Page\"\n\
             think = \"{think_ms}ms\"\ninteractions_max = {pages}\n\
             [class.sessions.page.Page]\npath = \"/\"\nnext = {{ Page = 1.0 }}\n"
        );
        Plan::from_toml(&text)
            .unwrap_or_else(|fault| panic!("{fault}:\n{text}"))
            .seed(seed)
            .cpus(vec![REST_CPU])
    }
}

/// What an overloaded shop does is worth something where visits come to their end.
#[test]
#[ignore = "visits take a while: 8 minutes a repetition; \
            TIDEGATE_LIVE=3 cargo test --workspace --test live_overload -- --ignored whole_visits"]
fn what_is_served_are_whole_visits() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let extent = Extent::of_environment();
    let shopping = Shopping { pages: 10, think_ms: 2_000, quiet_s: 60, flood_s: 80 };
    let resumed_first = Parts { by_resumption: true, ..Parts::NONE };
    let arms = [
        ("everybody alike", Parts::NONE),
        ("who resumes first", resumed_first),
        (
            "who resumes first, new sessions as there is room",
            Parts { admits_sessions: true, ..resumed_first },
        ),
    ];
    let mut figures = arms.map(|_| (Vec::new(), Vec::new()));
    for repetition in 1..=extent.repetitions {
        let capacity = capacity();
        for ((_, parts), (whole, good)) in arms.iter().zip(&mut figures) {
            let origin = bench_origin();
            let (gateway, url) = gateway(&origin.url(), *parts);
            let report = run(shopping.plan(&url, repetition, capacity));
            gateway.stop_sound();
            let visits = report.total.sessions.as_ref().expect("sessions");
            whole.push(visits.completed_per_s * f64::from(shopping.pages) / capacity);
            good.push(report.total.goodput_per_s / capacity);
        }
    }
    let figures = figures.map(|(whole, good)| [whole, good].map(|values| Figure::of(&values).median));
    for ((name, _), [whole, good]) in arms.iter().zip(&figures) {
        println!("{name}: pages in time, of capacity {good:.3}, of whole visits {whole:.3}");
    }
    let told = arms.iter().zip(&figures).map(|((name, _), [whole, good])| {
        json!({ "arm": name, "pages_of_capacity": good, "pages_of_whole_visits_of_capacity": whole })
    });
    save("whole-visits.json", &json!({ "experiment": "whole-visits", "arms": told.collect::<Vec<_>>() }));
    let [_, [resumed_first, _], [admitted, _]] = figures;
    assert!(admitted > 2.0 * resumed_first, "of whole visits {admitted}, without admission {resumed_first}");
}
