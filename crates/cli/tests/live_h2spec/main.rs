//! h2spec against the gateway, over TLS and in the clear: every test passes but those explained, and every one
//! explained still fails.

#[path = "../support/mod.rs"]
mod support;

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Command,
};

use support::{
    Gateway, Start,
    admin::await_rest,
    free_address,
    origin::{Origin, respond},
    write_certificate,
};

/// `LISTENER TEST: REASON` a line; LISTENER is `tls`, `h2c` or `both`.
const EXPLAINED: &str = include_str!("explained.txt");
/// h2spec has 145; fewer mean that it stopped in the middle.
const TESTS: usize = 145;

#[test]
fn h2spec_passes_but_what_is_explained() {
    // Some tests need a body longer than the windows they set.
    let origin = Origin::start(|_, stream| respond(stream, 200, &[b'x'; 4096]));
    let directory = tempfile::tempdir().expect("a directory for the test");
    write_certificate(directory.path());
    let (tls, h2c, admin) = (free_address(), free_address(), free_address());
    let configuration = format!(
        "admin = \"{admin}\"\n\
         [[listener]]\naddress = \"{tls}\"\n\
         tls.certificates = [{{ chain = \"chain.pem\", key = \"key.pem\" }}]\n\
         [[listener]]\naddress = \"{h2c}\"\n\
         [application.app]\nservers = [\"{}\"]\n",
        origin.url()
    );
    let gateway = Gateway::run_in(directory, &configuration, &Start::default());

    let mut wrong = Vec::new();
    for (listener, address, options) in [("tls", tls, &["-t", "-k"][..]), ("h2c", h2c, &[])] {
        let report = gateway.directory.path().join(format!("{listener}.xml"));
        let results = h2spec(address, options, &report);
        let explained = explained(listener);
        println!(
            "{listener}: {} tests, {} failed, {} explained",
            results.len(),
            results.values().filter(|failure| failure.is_some()).count(),
            explained.len()
        );
        assert_eq!(results.len(), TESTS, "{listener}: tests run");
        for (test, failure) in &results {
            match (failure, explained.contains(test.as_str())) {
                (Some(failure), false) => wrong.push(format!("{listener} {test}: failed: {failure}")),
                (None, true) => {
                    wrong.push(format!("{listener} {test}: explained, but passes now: take it out"))
                }
                _ => {}
            }
        }
        for test in explained.iter().filter(|test| !results.contains_key(**test)) {
            wrong.push(format!("{listener} {test}: explained, but there is no such test"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    await_rest(admin);
    gateway.stop_sound();
}

/// Runs every test; gives what failed or was skipped and how, by the test's section and name.
fn h2spec(address: SocketAddr, options: &[&str], report: &Path) -> BTreeMap<String, Option<String>> {
    let output = Command::new(program())
        .args(options)
        .args(["-h", "127.0.0.1", "-p", &address.port().to_string(), "-o", "20", "-j"])
        .arg(report)
        .output()
        .unwrap_or_else(|error| panic!("h2spec cannot be run ({error}): run scripts/deps test"));
    let text = fs::read_to_string(report).unwrap_or_else(|error| {
        panic!("h2spec wrote no report ({error}): {}", String::from_utf8_lossy(&output.stdout))
    });
    read_report(&text)
}

/// The test cases of h2spec's JUnit report.
fn read_report(text: &str) -> BTreeMap<String, Option<String>> {
    let mut results = BTreeMap::new();
    for case in text.split("<testcase ").skip(1) {
        let case = case.split("</testcase>").next().unwrap_or_default();
        let (head, content) = case.split_once('>').unwrap_or((case, ""));
        let test = format!("{} {}", attribute(head, "package"), attribute(head, "classname"));
        let failure = (!content.trim().is_empty()).then(|| {
            let words: Vec<_> = content.split(['<', '>']).flat_map(str::split_whitespace).collect();
            words.join(" ")
        });
        let before = results.insert(test.clone(), failure);
        assert!(before.is_none(), "two tests are named {test:?}");
    }
    results
}

fn attribute(head: &str, name: &str) -> String {
    let value = head.split_once(&format!("{name}=\"")).and_then(|(_, rest)| rest.split('"').next());
    let value = value.unwrap_or_default();
    value.replace("&#39;", "'").replace("&#34;", "\"").replace("&lt;", "<").replace("&gt;", ">")
}

fn explained(listener: &str) -> BTreeSet<&'static str> {
    EXPLAINED
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .filter_map(|line| {
            let (place, rest) = line.split_once(' ').unwrap_or_else(|| panic!("explained.txt: {line}"));
            let (test, reason) = rest.rsplit_once(": ").unwrap_or_else(|| panic!("explained.txt: {line}"));
            assert!(reason.len() > 20, "explained.txt: a reason is a sentence: {line}");
            assert!(["tls", "h2c", "both"].contains(&place), "explained.txt: {line}");
            (place == listener || place == "both").then_some(test)
        })
        .collect()
}

/// Where `scripts/deps test` puts h2spec, unless it is on the path.
fn program() -> PathBuf {
    let cargo = env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let places = [cargo.map(|cargo| cargo.join("bin/h2spec")), Some(home.join(".cargo/bin/h2spec"))];
    places.into_iter().flatten().find(|place| place.exists()).unwrap_or_else(|| PathBuf::from("h2spec"))
}
