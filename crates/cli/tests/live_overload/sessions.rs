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

/// The example, at addresses of the test's; `rules` says whether it tells sessions from newcomers.
fn configuration(listen: &str, server: &str, rules: bool) -> String {
    let end = if rules { EXAMPLE.len() } else { EXAMPLE.find("[[application.shop.rule]]").expect("rules") };
    let text = EXAMPLE
        .replace("[::]:443", listen)
        .replace("certs/shop.pem", "chain.pem")
        .replace("certs/shop.key", "key.pem")
        .replace("http://127.0.0.1:8000", server);
    let end = end + text.len() - EXAMPLE.len();
    format!("admin = \"none\"\n{}", &text[..end])
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
    let arms = [
        ("everybody alike", false, false),
        ("as examples/sessions.toml", true, false),
        ("as examples/sessions.toml, the flood resumes", true, true),
    ];
    let mut figures = arms.map(|_| (Vec::new(), Vec::new()));
    for repetition in 1..=extent.repetitions {
        let capacity = capacity();
        for ((_, rules, resumes), (completed, served)) in arms.iter().zip(&mut figures) {
            let origin = bench_origin();
            let listen = free_address();
            let directory = tempfile::tempdir().expect("a directory");
            write_certificate(directory.path());
            let text = configuration(&listen.to_string(), &origin.url(), *rules);
            let gateway = Gateway::run_in(directory, &text, &Start { cpus: &[REST_CPU], ..Start::default() });
            let url = format!("https://{listen}/");
            let flood = visits.flood(&url, repetition, 3.0 * capacity, *resumes);
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
    for ((arm, rules, _), (completed, served)) in arms.iter().zip(&figures) {
        let (completed, served) = (Figure::of(completed), Figure::of(served));
        println!("{arm}: newcomers served, of capacity {:.3}", served.median);
        if *rules {
            checks.state(&format!("{arm}: visits completed, of those that ended"), completed, ">=", 0.99);
            assert!(completed.median > 0.5, "{arm}: visits completed {}", completed.median);
        } else {
            println!("{arm}: visits completed, of those that ended {:.3}", completed.median);
        }
    }
    save("sessions.json", &json!({ "experiment": "sessions", "checks": checks.told }));
    checks.hold(&extent);
}
