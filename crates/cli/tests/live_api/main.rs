//! The admin interface as programs use it: events, the overview, tokens and certificates, the command line.

#[path = "../support/mod.rs"]
mod support;

mod access;
mod changes;
mod disk;
mod programs;
mod record;
mod stream;

use std::{
    collections::BTreeSet,
    fs,
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use serde_json::{Value as Json, json};
use stream::Stream;
use support::{
    Gateway, Start,
    admin::api,
    client::{Client, get},
    free_address,
    origin::{Latch, Origin, respond},
};

/// A gateway before an origin that greets.
pub(crate) struct Front {
    pub(crate) gateway: Gateway,
    pub(crate) listen: SocketAddr,
    pub(crate) admin: SocketAddr,
    origin: Origin,
}

impl Front {
    /// With more configuration at the top and at the end, and more files beside it.
    pub(crate) fn start(top: &str, end: &str, files: &[(&str, &str)]) -> Self {
        Self::before(Origin::hello(), top, end, files)
    }

    /// The same before this one.
    pub(crate) fn before(origin: Origin, top: &str, end: &str, files: &[(&str, &str)]) -> Self {
        let (listen, admin) = (free_address(), free_address());
        let directory = tempfile::tempdir().expect("a directory for the test");
        for (name, text) in files {
            fs::write(directory.path().join(name), text).expect("write a file");
        }
        let configuration = format!(
            "admin = \"{admin}\"\n{top}\n[[listener]]\nname = \"web\"\naddress = \"{listen}\"\n\
             [application.app]\nservers = [\"{}\"]\n{end}",
            origin.url()
        );
        let gateway = Gateway::run_in(directory, &configuration, &Start::default());
        Self { gateway, listen, admin, origin }
    }

    pub(crate) fn change(&self, body: &str) -> Json {
        let answer = api(self.admin, "PATCH", "/api/v1/knobs", body);
        assert_eq!(answer.status, 200, "{body}: {}", answer.text());
        serde_json::from_str(&answer.text()).expect("JSON")
    }

    pub(crate) fn ask(&self, path: &str) -> Json {
        let answer = get(self.admin, path).expect("ask");
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        serde_json::from_str(&answer.text()).expect("JSON")
    }
}

/// Runs the program; its exit code, and what it said on standard output and error.
pub(crate) fn tidegate(arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_tidegate")).args(arguments).output().expect("it runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

fn path(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

#[test]
fn what_happens_is_told_as_it_happens_and_again_to_who_was_away() {
    let law = "every(\"100ms\", function()\n  log(\"looked\")\n  set(\"app/in_flight.min\", 2)\nend)";
    let front = Front::start("", "[[controller]]\nfile = \"law.lua\"\n", &[("law.lua", law)]);
    let mut events = Stream::open(front.admin, "after=0", None);
    // The controller's change is recorded as anybody's.
    let change = events.next_of("knobs");
    assert_eq!(change.data["who"], "controller law.lua");
    assert_eq!(change.data["changes"][0]["path"], "app/in_flight.min");
    let recorded = &front.ask("/api/v1/knobs/changes")["changes"][0];
    assert_eq!((&recorded["who"], &recorded["id"]), (&change.data["who"], &change.data["id"]));
    let said = events.next_of("controller");
    assert_eq!((&said.data["name"], &said.data["what"]), (&"law.lua".into(), &"log".into()));

    let change = front.change(r#"{"changes": {"app/in_flight.max": 900}, "dry_run": true}"#);
    assert_eq!(change["dry_run"], true);
    let change = front.change(r#"{"changes": {"app/in_flight.max": 900}, "who": "ada", "why": "test"}"#);
    let told = events.next_where("knobs", |data| data["who"] == "ada");
    assert_eq!((&told.data["id"], &told.data["why"]), (&change["id"], &"test".into()));

    // A server that nobody is at fails its first requests and is out of service.
    let servers = "/api/v1/applications/app/servers";
    let dead = free_address();
    let added =
        api(front.admin, "POST", servers, &format!("{{\"url\": \"http://{dead}\", \"name\": \"dead\"}}"));
    assert_eq!(added.status, 200, "{}", added.text());
    let server = |what: &'static str| move |data: &Json| data["server"] == "dead" && data["what"] == what;
    events.next_where("server", server("added"));
    let mut client = Client::connect(front.listen).expect("connect");
    while front.ask(servers)["servers"]
        .as_array()
        .is_some_and(|all| all.iter().any(|server| server["name"] == "dead" && server["condition"] == "up"))
    {
        client.get("/", "").expect("an answer");
    }
    let out = events.next_where("server", |data| data["server"] == "dead" && data["what"] != "added");
    assert!(["paused", "on_trial"].contains(&out.data["what"].as_str().expect("a word")), "{:?}", out.data);
    assert_eq!(api(front.admin, "DELETE", &format!("{servers}/dead"), "").status, 200);
    let gone = events.next_where("server", server("removed"));

    front.change(r#"{"changes": {"app/ingress.rate": "1/min", "app/ingress.burst": 1}}"#);
    while client.get("/", "").expect("an answer").status != 429 {}
    let begun = events.next_of("refusals");
    assert_eq!(
        (&begun.data["class"], &begun.data["reason"], &begun.data["began"]),
        (&"default".into(), &"ingress_rate".into(), &true.into())
    );
    assert!(
        front.ask("/api/v1/overview")["applications"][0]["refusing"].to_string().contains("ingress_rate")
    );
    assert_eq!(events.next_of("refusals").data["began"], false);

    // Who was away from before that gets the same again, and only what was asked for.
    let mut again = Stream::open(front.admin, "kinds=refusals", Some(&gone.id));
    let (first, second) = (again.next(), again.next());
    assert_eq!((first.id.as_str(), &first.data), (begun.id.as_str(), &begun.data));
    assert_eq!((second.name.as_str(), &second.data["began"]), ("refusals", &false.into()));
    assert_eq!(Stream::open(front.admin, "", Some("1-7")).next().name, "lost");
    let refused = get(front.admin, "/api/v1/events?after=never").expect("an answer");
    assert_eq!(refused.status, 400, "{}", refused.text());

    let (code, said, _) = tidegate(&[
        "events",
        "--all",
        "--kinds",
        "refusals",
        "--count",
        "1",
        "--admin",
        &front.admin.to_string(),
    ]);
    assert_eq!(code, Some(0));
    assert!(said.contains("refusals app/default: refusals by ingress_rate begin"), "{said}");

    let Front { mut gateway, .. } = front;
    gateway.signal("TERM");
    events.next_of("ending");
    assert_eq!(gateway.ended(), Some(0));
    gateway.log.assert_no_panic();
}

#[test]
fn every_fault_of_a_change_of_knobs_is_said() {
    let front = Front::start("", "", &[]);
    let body = r#"{"changes": {"app/mode": "bogus", "app/nope": 1, "nope/mode": "off", "head.timeout": "1ns", "nope/mixed/priority": "x", "app/default/queue.max": 7, "other/mode": null}}"#;
    let answer = api(front.admin, "PATCH", "/api/v1/knobs", body);
    assert_eq!(answer.status, 400, "{}", answer.text());
    let said: Json = serde_json::from_str(&answer.text()).expect("JSON");
    let said: Vec<_> = said["detail"].as_str().expect("a detail").lines().collect();
    for (path, fault) in [
        ("app/mode", "bogus"),
        ("app/nope", "no such knob"),
        ("nope/mode", "no application \"nope\""),
        ("head.timeout", "1ns"),
        ("nope/mixed/priority", "no application \"nope\""),
        ("nope/mixed/priority", "\"x\""),
        ("other/mode", "no application \"other\""),
    ] {
        let is_it = |line: &&str| line.starts_with(&format!("{path}: ")) && line.contains(fault);
        assert!(said.iter().any(is_it), "{path}, {fault}: {said:#?}");
    }
    assert_eq!(said.len(), 7, "and nothing else: {said:#?}");
    assert_eq!(front.ask("/api/v1/knobs?path=app&changed=true")["knobs"], json!([]), "none is made");
    front.gateway.stop_sound();
}

#[test]
fn the_knobs_of_one_place_can_be_asked_for_without_those_below_it() {
    let front = Front::start("", "", &[]);
    let paths = |query: &str| -> Vec<String> {
        let answer = front.ask(&format!("/api/v1/knobs?{query}"));
        let knobs = answer["knobs"].as_array().expect("knobs");
        knobs.iter().map(|knob| knob["path"].as_str().expect("a path").to_owned()).collect()
    };
    for (place, prefix) in [("", ""), ("app", "app/"), ("app/default", "app/default/")] {
        let mut own = paths(&format!("path={place}"));
        own.retain(|path| path.strip_prefix(prefix).is_some_and(|name| !name.contains('/')));
        assert!(!own.is_empty());
        assert_eq!(paths(&format!("path={place}&below=false")), own, "of {place:?}");
    }
    let answer = get(front.admin, "/api/v1/knobs?path=app/mode&below=false").expect("an answer");
    assert!(answer.status == 404 && answer.text().contains("none is below it"), "{}", answer.text());
    let answer = get(front.admin, "/api/v1/knobs?path=app/defualt").expect("an answer");
    assert!(
        answer.status == 404 && answer.text().contains("no application, class or server"),
        "{}",
        answer.text()
    );
    front.gateway.stop_sound();
}

#[test]
fn a_parameter_that_is_none_is_refused_everywhere() {
    let front = Front::start("", "", &[]);
    let status = |method: &str, path: &str, body: &str| api(front.admin, method, path, body).status;
    let reads = [
        "session",
        "overview",
        "measurements?meter=host_cpu",
        "archives",
        "controllers",
        "knobs",
        "knobs/changes",
        "events",
        "capacity",
        "applications",
        "applications/app/servers",
        "applications/app/capacity",
        "waiting-rooms",
        "applications/app/waiting-room",
        "openapi.json",
    ];
    for path in reads {
        let and = if path.contains('?') { '&' } else { '?' };
        assert_eq!(status("GET", &format!("/api/v1/{path}{and}nonsense=1"), ""), 400, "{path}");
    }
    // Else somebody who means to try it out has done it.
    let change = r#"{"changes": {"app/mode": "off"}}"#;
    assert_eq!(status("PATCH", "/api/v1/knobs?dry_run=true", change), 400);
    assert_eq!(status("POST", "/api/v1/applications/app/capacity/rediscover?why=x", "{}"), 400);
    assert_eq!(status("POST", "/api/v1/applications/app/servers?drain=true", "{}"), 400);
    assert_eq!(status("GET", "/api/v1/knobs/changes?before=0", ""), 400);
    assert_eq!(status("GET", "/api/v1/knobs/changes?before=1", ""), 200);
    front.gateway.stop_sound();
}

/// What of an answer the document does not name. What it says is as in another answer is not looked into.
fn unnamed(document: &Json, schema: &Json, answer: &Json, path: &str, found: &mut BTreeSet<String>) {
    let schema = match schema["$ref"].as_str() {
        Some(name) => document.pointer(name.trim_start_matches('#')).expect("a schema"),
        None => schema,
    };
    if schema["description"].as_str().is_some_and(|about| about.starts_with("As in ")) {
        return;
    }
    match answer {
        Json::Object(members) => {
            for (name, member) in members {
                let path = format!("{path}.{name}");
                match schema["properties"].get(name).or_else(|| schema.get("additionalProperties")) {
                    Some(schema) => unnamed(document, schema, member, &path, found),
                    None => drop(found.insert(path)),
                }
            }
        }
        Json::Array(items) => {
            items.iter().for_each(|item| unnamed(document, &schema["items"], item, path, found));
        }
        _ => {}
    }
}

#[test]
fn the_document_names_all_that_is_answered() {
    let controller = "[[controller]]\nfile = \"quiet.lua\"\n";
    let script = ("quiet.lua", "every(\"1h\", function() end)\n");
    let room = "capacity.given = \"100/s\"\nwaiting_room.method = \"fifo\"\n";
    let front = Front::start(controller, room, &[script]);
    assert_eq!(get(front.listen, "/").expect("an answer").status, 200);
    front.change(r#"{"changes": {"app/mode": "watch"}}"#);
    let document = front.ask("/api/v1/openapi.json");
    let mut found = BTreeSet::new();
    let mut asked = 0;
    for (path, operations) in document["paths"].as_object().expect("paths") {
        let schema = &operations["get"]["responses"]["200"]["content"]["application/json"]["schema"];
        if schema.is_null() || path.ends_with("/openapi.json") {
            continue;
        }
        let query = if path.ends_with("/measurements") { "?meter=goodput&stat=mean,max" } else { "" };
        let answer = front.ask(&format!("{}{query}", path.replace("{application}", "app")));
        unnamed(&document, schema, &answer, path, &mut found);
        asked += 1;
    }
    assert!(asked > 10, "{asked}");
    assert_eq!(found, BTreeSet::new());
    front.gateway.stop_sound();
}

#[test]
fn what_is_of_another_kind_is_not_called_missing() {
    let front = Front::start("", "", &[]);
    for (method, path, name, given) in [
        ("POST", "applications/app/servers", "url", "7"),
        ("POST", "applications/app/waiting-room/bypass", "valid_for", "30"),
        ("POST", "knobs/revert", "id", "1.5"),
        ("PATCH", "knobs", "changes", "[]"),
    ] {
        let path = format!("/api/v1/{path}");
        let wrong = api(front.admin, method, &path, &format!("{{\"{name}\": {given}}}"));
        let is_told = wrong.text().contains(&format!("{name}: {given} is not allowed here: give "));
        assert!(wrong.status == 400 && is_told, "{path}: {}", wrong.text());
        let none = api(front.admin, method, &path, "{}");
        assert!(none.status == 400 && none.text().contains("is missing: give "), "{path}: {}", none.text());
    }
    front.gateway.stop_sound();
}

#[test]
fn a_server_whose_name_does_not_resolve_is_shown_with_the_reason() {
    let front = Front::start("", "", &[]);
    let servers = "/api/v1/applications/app/servers";
    let added = api(front.admin, "POST", servers, r#"{"url": "http://nowhere.invalid:80", "name": "lost"}"#);
    assert_eq!(added.status, 200, "{}", added.text());
    let deadline = Instant::now() + Duration::from_secs(20);
    let lost = loop {
        let listed: Json = serde_json::from_str(&api(front.admin, "GET", servers, "").text()).expect("JSON");
        let lost = listed["unresolved"][0].clone();
        assert_eq!(
            (&lost["name"], &lost["address"]),
            (&"lost".into(), &"nowhere.invalid:80".into()),
            "{listed}"
        );
        if lost["error"].is_string() {
            break lost;
        }
        assert!(Instant::now() < deadline, "{listed}");
        // Each second it is looked whether there are new names; nothing tells of it.
        std::thread::sleep(Duration::from_millis(50));
    };
    assert!(lost["tried_at"].as_f64().is_some_and(|at| at > 1.7e9), "{lost}");
    let overview: Json =
        serde_json::from_str(&api(front.admin, "GET", "/api/v1/overview", "").text()).expect("JSON");
    assert_eq!(overview["applications"][0]["unresolved"][0]["name"], "lost", "{overview}");
    front.gateway.stop_sound();
}

#[test]
fn what_answers_get_answers_head_without_a_body() {
    let front = Front::start("", "", &[]);
    let ask = |method: &str, path: &str| {
        let mut stream = TcpStream::connect(front.admin).expect("connect");
        let request =
            format!("{method} {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\r\n", front.admin);
        stream.write_all(request.as_bytes()).expect("send");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        (head.to_ascii_lowercase(), body.len())
    };
    for path in ["knobs", "applications/app/servers", "capacity", "openapi.json", "applications/app/capacity"]
    {
        let path = format!("/api/v1/{path}");
        let ((got, length), (head, rest)) = (ask("GET", &path), ask("HEAD", &path));
        assert!(got.starts_with("http/1.1 200 ") && length > 0, "{path}: {got}");
        assert!(head.starts_with("http/1.1 200 "), "{path}: {head}");
        assert!(head.contains("\r\ncontent-length: "), "{path}: {head}");
        assert_eq!(rest, 0, "{path}: no body");
    }
    // It does not end for GET.
    let (head, rest) = ask("HEAD", "/api/v1/events");
    assert!(head.starts_with("http/1.1 200 ") && head.contains("text/event-stream"), "{head}");
    assert_eq!(rest, 0);
    let (head, _) = ask("HEAD", "/api/v1/knobs/revert");
    assert!(head.starts_with("http/1.1 405 ") && head.contains("\r\nallow: post\r\n"), "{head}");
    let (head, _) = ask("PUT", "/api/v1/applications/app/servers");
    assert!(head.contains("\r\nallow: get, head, post\r\n"), "{head}");
    front.gateway.stop_sound();
}

#[test]
fn a_head_without_end_is_refused() {
    let front = Front::start("", "", &[]);
    let mut stream = TcpStream::connect(front.admin).expect("connect");
    let head = format!("GET /healthz HTTP/1.1\r\nhost: {}\r\nx: {}", front.admin, "a".repeat(64 * 1024));
    // It may not all be taken.
    let _ = stream.write_all(head.as_bytes());
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).expect("an answer before the head has ended");
    assert_eq!(&answer, b"HTTP/1.1 431");
    front.gateway.stop_sound();
}

#[test]
fn the_overview_shows_what_was_served() {
    let front = Front::start("", "", &[]);
    let mut events = Stream::open(front.admin, "meters=1s&kinds=ending", None);
    let mut client = Client::connect(front.listen).expect("connect");
    let overview = loop {
        assert_eq!(client.get("/", "").expect("an answer").status, 200);
        if let Some(meters) = events.poll()
            && meters.name == "meters"
            && meters.data["applications"][0]["goodput"].as_f64().is_some_and(|rate| rate > 0.0)
        {
            break meters.data;
        }
    };
    let application = &overview["applications"][0];
    let class = &application["classes"][0];
    assert_eq!((&application["name"], &class["path"]), (&"app".into(), &"app/default".into()));
    assert_eq!(application["goodput"], class["goodput"]);
    let within = |value: &Json, low: f64, high: f64| {
        assert!(
            value.as_f64().is_some_and(|value| (low..=high).contains(&value)),
            "{value} in {low} to {high}"
        );
    };
    within(&class["response_time"]["p50"], 0.0, 30.0);
    assert!(class["response_time"]["p50"].as_f64() <= class["response_time"]["p99"].as_f64());
    within(&class["responses"]["2xx"], 0.1, 1e6);
    within(&application["servers"][0]["requests"], 0.1, 1e6);
    within(&overview["gateway"]["connections_open"], 1.0, 1.0);
    within(&overview["gateway"]["cpu"], 0.0, 1024.0);
    assert_eq!(overview["gateway"]["recording"]["kept"], false);
    assert_eq!(overview["listeners"][0]["name"], "web");

    let (code, shown, said) = tidegate(&["top", "--once", "--admin", &front.admin.to_string()]);
    assert_eq!(code, Some(0), "{said}");
    assert!(shown.contains("app (enforce)") && shown.contains("  default "), "{shown}");
    assert!(!shown.contains('\u{1b}'), "no orders to a terminal: {shown:?}");
    let (code, _, said) =
        tidegate(&["top", "--once", "--application", "shop", "--admin", &front.admin.to_string()]);
    assert_eq!(code, Some(2));
    assert!(said.contains("there is no \"shop\", but app"), "{said}");
    front.gateway.stop_sound();
}

#[test]
fn the_overview_shows_the_mode_of_each_control_that_is_set_and_who_would_wait() {
    let latch = Latch::default();
    let held = latch.clone();
    let origin = Origin::start(move |_, stream| {
        held.wait();
        respond(stream, 200, b"")
    });
    let modes = "mode = \"watch\"\nclient = { rate = \"1000/s\", mode = \"off\" }\n\
                 in_flight = { algorithm = \"fixed\", limit = 1 }\negress.rate = \"1000/s\"\n\
                 [application.app.class.default]\nqueue.wait.max = \"none\"\n\
                 [application.app.class.search]\ningress.rate = \"500/s\"\n\
                 in_flight = { max = 5, mode = \"enforce\" }\nqueue.mode = \"off\"\n";
    let front = Front::before(origin, "", modes, &[]);
    let clients: Vec<Client> = (0..3)
        .map(|_| {
            let mut client = Client::connect(front.listen).expect("connect");
            client.send_get("/", "").expect("ask");
            client
        })
        .collect();
    front.origin.await_requests(clients.len());
    let seen = |overview: &Json| {
        let application = &overview["applications"][0];
        let class = |name| {
            let classes = application["classes"].as_array().expect("a list");
            classes.iter().find(|class| class["name"] == name).expect("it is there").clone()
        };
        let fields = |row: &Json| json!([row["modes"], row["queued"], row["would_wait"]]);
        [fields(application), fields(&class("search")), fields(&class("default"))]
    };
    let unset = Json::Null;
    let watched = json!({ "ingress": unset, "queue": "watch", "in_flight": unset, "egress": unset });
    assert_eq!(
        seen(&front.ask("/api/v1/overview")),
        [
            json!([
                { "client": "off", "ingress": unset, "queue": "watch", "in_flight": "watch", "egress": "watch",
                  "long_streams": "watch", "tls_sessions": unset }, 0, 2
            ]),
            json!([{ "ingress": "watch", "queue": "off", "in_flight": "enforce", "egress": unset }, 0, 0]),
            json!([watched, 0, 2]),
        ]
    );
    let (_, shown, _) = tidegate(&["top", "--once", "--admin", &front.admin.to_string()]);
    for line in [
        "app (watch) · 3 in flight · 0 waiting",
        "  watch only: ingress · queue (class default) · in_flight (of all together) · egress · long_streams",
        "  off: client · queue (class search)",
        "  would be waiting: 2",
    ] {
        assert!(shown.contains(line), "{line}: {shown}");
    }
    front.change(r#"{"changes": {"app/mode": "enforce"}}"#);
    let [application, _, class] = seen(&front.ask("/api/v1/overview"));
    assert_eq!((&application[0]["egress"], &application[2]), (&"enforce".into(), &unset), "nothing watches");
    assert_eq!(class[2], unset);
    latch.open();
    for mut client in clients {
        assert_eq!(client.response().expect("an answer").status, 200);
    }
    front.gateway.stop_sound();
}
