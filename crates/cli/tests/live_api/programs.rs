//! Programs of other people and other languages against the admin interface.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use crate::{
    Front, path,
    stream::Stream,
    support::{
        Gateway, Start,
        admin::open_metrics,
        client::get,
        free_address,
        origin::{Origin, respond},
        signal,
    },
};

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// A program that `scripts/deps test` has installed.
fn installed(name: &str) -> PathBuf {
    let program = root().join("target/python/bin").join(name);
    assert!(program.exists(), "{} is not there: run scripts/deps test", program.display());
    program
}

/// A child that is stopped also when the test fails.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_controller_in_python_limits_a_flood_and_lets_go() {
    let (listen, admin) = (free_address(), free_address());
    let origin = Origin::start(|_, stream| {
        // A page that takes its time, so that a few visitors are more than the application can do.
        thread::sleep(Duration::from_millis(20));
        respond(stream, 200, b"page")
    });
    let configuration = format!(
        "admin = \"{admin}\"\n[[listener]]\naddress = \"{listen}\"\n[application.shop]\nservers = [\"{}\"]\n\
         in_flight.algorithm = \"fixed\"\nin_flight.limit = 1\n[application.shop.class.home]\nqueue.max = 1\n\
         [[application.shop.rule]]\npath = \"/home\"\nclass = \"home\"\n",
        origin.url()
    );
    let gateway = Gateway::run(&configuration, &Start::default());
    let mut events = Stream::open(admin, "kinds=knobs", None);
    let script = root().join("examples/controllers/home_limit.py");
    let program = Command::new("python3")
        .args([path(&script), "--admin", &format!("http://{admin}"), "--every", "1s"])
        .stdout(Stdio::null())
        .spawn()
        .expect("start Python");
    let mut program = Running(program);
    // Each is turned away when two are there already, and comes again at once.
    let over = Arc::new(AtomicBool::new(false));
    let flood = || {
        let over = Arc::clone(&over);
        thread::spawn(move || {
            while !over.load(Ordering::Relaxed) {
                get(listen, "/home").expect("an answer");
            }
        })
    };
    let visitors: Vec<_> = (0..6).map(|_| flood()).collect();
    let limited = events.next();
    over.store(true, Ordering::Relaxed);
    visitors.into_iter().for_each(|visitor| visitor.join().expect("a visitor"));
    assert_eq!((&limited.data["who"], &limited.data["why"]), (&"home_limit.py".into(), &"overloaded".into()));
    let change = &limited.data["changes"][0];
    assert_eq!((&change["path"], &change["from"]), (&"shop/home/ingress.rate".into(), &"none".into()));
    // It is quiet again; and what it holds at its end it gives back.
    let given_back = events.next_where("knobs", |data| data["changes"][0]["to"] == "none");
    assert_eq!(given_back.data["who"], "home_limit.py");
    signal(program.0.id(), "TERM");
    assert!(program.0.wait().expect("its end").success());
    gateway.stop_sound();
}

#[test]
fn a_controller_in_python_says_in_a_line_why_it_cannot_run() {
    let front = Front::start("", "", &[]);
    let nobody = free_address();
    for (admin, class, why) in [
        (front.admin, "app/nope", "there is no class app/nope, but app/default"),
        (front.admin, "nope/home", "there is no application nope"),
        (nobody, "app/default", "start the gateway, or give its address by --admin"),
    ] {
        let output = Command::new("python3")
            .arg(root().join("examples/controllers/home_limit.py"))
            .args(["--admin", &format!("http://{admin}"), "--every", "1s", "--class", class])
            .output()
            .expect("run Python");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), said.lines().count()), (Some(1), 1), "{class}: {said}");
        assert!(said.contains(why), "{class}: {said}");
    }
    front.gateway.stop_sound();
}

#[test]
fn metrics_are_what_prometheus_reads() {
    let front = Front::start("", "", &[]);
    assert_eq!(get(front.listen, "/").expect("an answer").status, 200);
    let script = "
import sys, urllib.request
from prometheus_client import openmetrics, parser
import prometheus_client.openmetrics.parser
def read(accept):
    request = urllib.request.Request(sys.argv[1], headers={'Accept': accept})
    with urllib.request.urlopen(request) as answer:
        return answer.headers['Content-Type'], answer.read().decode()
new, page = read('application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1')
assert new.startswith('application/openmetrics-text'), new
modern = {family.name: family for family in openmetrics.parser.text_string_to_metric_families(page)}
for accept in ('text/plain;version=0.0.4', '*/*'):
    old, page = read(accept)
    assert old.startswith('text/plain; version=0.0.4'), old
    older = {family.name: family for family in parser.text_string_to_metric_families(page)}
    assert modern.keys() == older.keys(), modern.keys() ^ older.keys()
for name, family in modern.items():
    assert family.type == older[name].type, (name, family.type, older[name].type)
    assert name.startswith('tidegate_') and family.documentation, name
    # https://prometheus.io/docs/practices/naming: base units last, and no unit of another size.
    for unit in ('ms', 'milliseconds', 'kb', 'minutes', 'percent'):
        assert unit not in name.split('_'), name
    if family.unit:
        assert name.endswith('_' + family.unit), name
print(len(modern))
";
    let output = Command::new(installed("python"))
        .args(["-c", script, &format!("http://{}/metrics", front.admin)])
        .output()
        .expect("run Python");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let families: usize = String::from_utf8_lossy(&output.stdout).trim().parse().expect("a number");
    assert!(families > 40, "{families}");
    front.gateway.stop_sound();
}

#[test]
fn schemathesis_finds_no_answer_that_the_document_does_not_say() {
    // What is changed at random must not be what the test stands on.
    let front = Front::start("state_directory = \"state\"", "in_flight.algorithm = \"knee_track\"\n", &[]);
    let document = front.gateway.directory.path().join("openapi.json");
    let mut described = front.ask("/api/v1/openapi.json");
    // With the name of the application that there is, so that more than the answer 404 is looked at.
    for (path, operations) in described["paths"].as_object_mut().expect("paths") {
        if let Some(parameter) = operations.pointer_mut("/parameters/0/schema") {
            assert!(path.starts_with("/api/v1/applications/{application}/"), "{path}");
            parameter["enum"] = serde_json::json!(["app"]);
        }
    }
    fs::write(&document, described.to_string()).expect("write the document");
    let output = Command::new(installed("st"))
        .args(["run", path(&document), "--url", &format!("http://{}", front.admin), "--seed", "1"])
        .args([
            "--max-examples",
            "10",
            "--phases",
            "examples,coverage,fuzzing",
            "--workers",
            "1",
            "--request-timeout",
            "20",
            "--no-color",
        ])
        // It never ends; tests of ours read it.
        .args(["--exclude-path", "/api/v1/events"])
        // Which names exist and which values they take, the configuration says, and no document can.
        .args(["--exclude-checks", "positive_data_acceptance"])
        .current_dir(front.gateway.directory.path())
        .env("HYPOTHESIS_STORAGE_DIRECTORY", front.gateway.directory.path())
        .output()
        .expect("run schemathesis");
    let said = String::from_utf8_lossy(&output.stdout);
    println!("{said}");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(get(front.admin, "/healthz").expect("it still answers").status, 200);
    front.gateway.stop_sound();
}

#[test]
fn the_dashboard_for_grafana_names_meters_that_exist() {
    let front = Front::start("", "", &[]);
    let page = open_metrics(front.admin);
    let file = root().join("examples/grafana/tidegate.json");
    let dashboard: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(file).expect("it is there")).expect("JSON");
    let families: Vec<&str> =
        page.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect();
    let mut named = Vec::new();
    for panel in dashboard["panels"].as_array().expect("panels") {
        for target in panel["targets"].as_array().into_iter().flatten() {
            let query = target["expr"].as_str().expect("a query");
            let words = query.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            named.extend(words.filter(|word| word.starts_with("tidegate_")).map(str::to_owned));
        }
    }
    assert!(named.len() > 15, "{named:?}");
    for name in named {
        let base = ["_total", "_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end));
        let family = base.unwrap_or(&name);
        assert!(families.contains(&family), "{name}: there is no such meter");
    }
    front.gateway.stop_sound();
}
