//! `tidegate load` as people run it: sessions on the auction site, and what it says when it cannot run.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader},
    net::TcpListener,
    path::Path,
    process::{Command, Output, Stdio},
};

use serde_json::Value;
use tidegate_auction::{Auction, Method, Options, Running, SPECS, Spec};
use tidegate_load::SessionModel;

const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/load/auction-bidding.toml");

fn load(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .arg("load")
        .args(arguments)
        .output()
        .expect("the program runs")
}

fn site() -> Running {
    Auction::start(Options::default()).expect("the auction site")
}

/// The path and form a page of the example is to have.
fn as_in_the_table(spec: &Spec) -> (String, Option<String>) {
    match spec.method {
        Method::Get if spec.parameters.is_empty() => (spec.path.to_owned(), None),
        Method::Get => (format!("{}?{}", spec.path, spec.parameters), None),
        Method::Post => (spec.path.to_owned(), Some(spec.parameters.to_owned())),
    }
}

#[test]
fn the_example_asks_for_the_pages_the_site_has() {
    let text = std::fs::read_to_string(EXAMPLE).expect("the example");
    let model = SessionModel::from_toml(&text).expect("a model");
    assert_eq!(model.page.len(), SPECS.len());
    for spec in SPECS {
        let page = &model.page[spec.name];
        assert_eq!((page.path.clone(), page.form.clone()), as_in_the_table(spec), "{}", spec.name);
    }
    for (name, most) in [
        ("category", Spec::CATEGORIES),
        ("region", Spec::REGIONS),
        ("item", u64::from(Options::default().items)),
        ("user", u64::from(Options::default().users)),
    ] {
        let range = &model.parameters[name];
        assert_eq!((range.from, range.to), (Some(1), Some(most)), "{name}");
    }
}

#[test]
fn sessions_on_the_auction_site_complete_and_leave_a_report() {
    let site = site();
    let url = format!("http://{}/", site.address());
    let directory = tempfile::tempdir().expect("a directory");
    let page = directory.path().join("run.html");
    let output = load(&[
        &url,
        "-a",
        "closed:6",
        "-n",
        "12",
        "-d",
        "300s",
        "--timeout",
        "60s",
        "--sessions",
        EXAMPLE,
        "--think",
        "1ms",
        "--json",
        "--report",
        page.to_str().expect("a path"),
    ]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{said}");
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let class = &report["classes"][0];
    let sessions = &class["sessions"];
    assert_eq!((&sessions["started"], &sessions["completed"]), (&12.into(), &12.into()), "{said}");
    let visits: BTreeMap<&str, u64> = sessions["pages"]
        .as_array()
        .expect("pages")
        .iter()
        .map(|page| (page["name"].as_str().expect("a name"), page["requests"].as_u64().expect("a number")))
        .collect();
    assert_eq!((visits.len(), visits["Home"] >= 12), (26, true), "{visits:?}");
    let writes: u64 = ["RegisterUser", "StoreBuyNow", "StoreBid", "StoreComment", "RegisterItem"]
        .map(|page| visits[page])
        .iter()
        .sum();
    assert!(writes > 0, "{visits:?}");
    // What is not 200 is the site's answer to a bid on what has been sold meanwhile.
    let statuses = class["statuses"].as_object().expect("statuses");
    let good = statuses["200"].as_u64().expect("a number");
    let all: u64 = statuses.values().filter_map(Value::as_u64).sum();
    assert!(good * 10 > all * 9, "{statuses:?}");
    assert!(statuses.keys().all(|status| ["200", "404", "409"].contains(&status.as_str())), "{statuses:?}");

    let html = std::fs::read_to_string(&page).expect("the page");
    assert!(html.contains("<svg") && html.contains("StoreBid") && html.ends_with("</html>"));
    let here: Vec<_> = std::fs::read_dir(directory.path()).expect("the directory").collect();
    assert_eq!(here.len(), 1, "the page and nothing beside it: {here:?}");
}

#[test]
fn what_cannot_be_run_ends_with_two_and_says_what_to_do() {
    let nobody = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port");
    let nobody = format!("http://{nobody}/");
    let directory = tempfile::tempdir().expect("a directory");
    let file = |name: &str, text: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).expect("written");
        path.to_str().expect("a path").to_owned()
    };
    let key = file("key.toml", "entry = \"A\"\nthnk = \"1s\"\n[page.A]\npath = \"/\"\nend = 1.0\n");
    let sum = file("sum.toml", "entry = \"A\"\n[page.A]\npath = \"/\"\nend = 0.9\n");
    let plan = file("plan.toml", "url = \"http://x/\"\nrate = 5\nclass = []\n");
    let log = file(
        "access.log",
        "1.1.1.1 - - [20/Nov/2026:23:42:01 +0000] \"GET / HTTP/1.1\" 200 5\nwhat is this\n",
    );
    let trace = format!("trace:{log}");
    let report = directory.path().join("report.html");
    let report = report.to_str().expect("a path");
    for (arguments, said) in [
        (&[nobody.as_str(), "--report", report][..], "start the server or correct the URL"),
        (&["http://no-such-host.invalid/"], "correct the host in the URL"),
        (&[&nobody, "-a", "99999999/s"], "arrival pattern"),
        (&[&nobody, "-a", "poisson:0/s"], "above zero"),
        (&[&nobody, "-a", &trace], "access.log: line 2: has no time in brackets"),
        (&[&nobody, "--sessions", &key], "unknown field `thnk`"),
        (&[&nobody, "--sessions", &sum], "page.A: next and end sum to 0.9"),
        (&[&nobody, "--sessions", "/no/such/file.toml"], "/no/such/file.toml: No such file"),
        (&["--plan", &plan], "unknown field `rate`"),
        (&["https://localhost/"], "needs trust"),
        (&["https://localhost/", "--ca", "/no/such/ca.pem"], "/no/such/ca.pem"),
        (&[&nobody, "--report", "/no/such/directory/run.html"], "start the server"),
        (&[&nobody, "--resume-share", "2"], "tls.resume_share"),
        (&[&nobody, "--entry", "Home"], "--sessions"),
    ] {
        let output = load(arguments);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {stderr}");
        assert!(stderr.contains(said), "{arguments:?} does not say `{said}`: {stderr}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
    }
    assert!(!Path::new(report).exists(), "no report of what was not run");
}

#[test]
fn the_auction_site_alone_says_where_it_is_and_ends_at_a_signal() {
    let mut site = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(["auction", "--listen", "127.0.0.1:0", "--workers", "1", "--page-cost", "1ms"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program runs");
    let mut line = String::new();
    let mut out = BufReader::new(site.stdout.take().expect("a pipe"));
    out.read_line(&mut line).expect("its first line");
    let url = line.split_whitespace().find(|word| word.starts_with("http://")).expect("an address");
    let output = load(&[url, "-a", "50/s", "-d", "1s", "--timeout", "60s", "--json"]);
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(report["classes"][0]["good"], 50, "{report}");
    let ended = Command::new("kill").args(["-TERM", &site.id().to_string()]).status().expect("kill");
    assert!(ended.success() && site.wait().expect("it ends").success());
}

/// A release is laid out by it: something of each part has to be done, or the script says what was not.
#[test]
fn the_work_that_a_release_is_laid_out_by_is_done() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/bench/train.py");
    let mut command = Command::new("python3");
    let done =
        command.args([script, "--tidegate", env!("CARGO_BIN_EXE_tidegate"), "--seconds", "0.3"]).output();
    let done = done.expect("start python3: run scripts/deps test");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}
