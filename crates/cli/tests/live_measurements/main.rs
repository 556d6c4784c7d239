//! Measurements and knobs of a running gateway: asked, changed, killed, asked again.

#[path = "../support/mod.rs"]
mod support;

use std::{
    net::SocketAddr,
    path::Path,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value as Json, json};
use support::{
    Gateway, Start,
    admin::api,
    client::{Client, get},
    free_address,
    load::{Connections, Load},
    origin::Origin,
};

/// How long recording a second, or its being written, may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

struct Front {
    gateway: Gateway,
    listen: SocketAddr,
    admin: SocketAddr,
    configuration: String,
}

impl Front {
    fn start(origin: &Origin, state: Option<&Path>) -> Self {
        let (listen, admin) = (free_address(), free_address());
        let state = state.map_or_else(String::new, |path| format!("state_directory = {path:?}\n"));
        let configuration = format!(
            "admin = \"{admin}\"\n{state}[[listener]]\nname = \"web\"\naddress = \"{listen}\"\n\
             [application.shop]\nservers = [\"{}\"]\n[application.shop.class.front]\nqueue.max = 7\n\
             [[application.shop.rule]]\npath = \"/front\"\nclass = \"front\"\n",
            origin.url()
        );
        Self { gateway: Gateway::run(&configuration, &Start::default()), listen, admin, configuration }
    }

    /// Kills it as `kill -9` does, and starts it anew with the same files.
    fn kill_and_start(self) -> Self {
        let Self { mut gateway, listen, admin, configuration } = self;
        gateway.signal("KILL");
        assert_eq!(gateway.ended(), None, "killed, not ended");
        drop(gateway);
        let gateway = Gateway::run(&configuration, &Start::default());
        Self { gateway, listen, admin, configuration }
    }

    fn ask(&self, query: &str) -> Json {
        let path = format!("/api/v1/measurements?{query}");
        let answer = get(self.admin, &path).expect("ask");
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        serde_json::from_str(&answer.text()).expect("JSON")
    }

    /// One number of the class front over the last ten minutes.
    fn home(&self, meter: &str, stat: &str) -> Option<f64> {
        self.ask(&format!("meter={meter}&class=shop/front&from=-10m&stat={stat}"))["points"][0][stat].as_f64()
    }

    /// Waits until the archives know of so many arrivals.
    fn await_arrivals(&self, wanted: f64) -> f64 {
        self.await_sum("arrived", wanted)
    }

    /// Waits until the archives know of so much of a meter.
    fn await_sum(&self, meter: &str, wanted: f64) -> f64 {
        let until = Instant::now() + PATIENCE;
        loop {
            let seen = self.home(meter, "sum").unwrap_or(0.0);
            if seen >= wanted {
                return seen;
            }
            assert!(Instant::now() < until, "{seen} of {wanted}, {meter}, after {PATIENCE:?}");
            // Archives are polled by whoever asks them; there is no event to await.
            thread::sleep(Duration::from_millis(50));
        }
    }

    fn change(&self, body: &Json) -> (u16, Json) {
        self.send("PATCH", "/api/v1/knobs", body)
    }

    fn send(&self, method: &str, path: &str, body: &Json) -> (u16, Json) {
        let answer = api(self.admin, method, path, &body.to_string());
        (answer.status, serde_json::from_str(&answer.text()).expect("JSON"))
    }

    /// Makes a change that lasts: the state directory may still be being read, and a change then says so.
    fn change_to_last(&self, path: &str, value: impl Into<Json>) {
        let body = json!({ "changes": { path: value.into() }, "lasting": true });
        let until = Instant::now() + PATIENCE;
        loop {
            let (status, said) = self.change(&body);
            if status == 200 {
                return;
            }
            assert!(Instant::now() < until, "{said}");
        }
    }

    fn knob(&self, path: &str) -> Json {
        let answer = get(self.admin, &format!("/api/v1/knobs?path={path}")).expect("read a knob");
        let list: Json = serde_json::from_str(&answer.text()).expect("JSON");
        list["knobs"][0].clone()
    }

    fn fault(&self, query: &str) -> (u16, String) {
        let answer = get(self.admin, &format!("/api/v1/measurements?{query}")).expect("ask");
        let problem: Json = serde_json::from_str(&answer.text()).expect("a problem");
        (answer.status, problem["detail"].as_str().unwrap_or_default().to_owned())
    }
}

#[test]
fn what_was_measured_is_there_after_a_kill() {
    let (origin, state) = (Origin::hello(), tempfile::tempdir().expect("a directory"));
    let front = Front::start(&origin, Some(state.path()));
    let load = Load::start("home", front.listen, 2, Connections::Kept, "/front");
    load.await_more(300);
    // Some seconds of it.
    for _ in 0..5 {
        let before = front.home("arrived", "sum").unwrap_or(0.0);
        front.await_arrivals(before + 1.0);
    }
    let tally = load.stop();
    let sent = tally.answered.len() as f64;
    assert_eq!(front.await_arrivals(sent), sent, "each arrival once");
    // What is counted at the end of a request may be in the next second's.
    assert_eq!(front.await_sum("goodput", sent), sent);
    // Of their application classes are asked as one, and of the gateway everything; only the class front was asked.
    for whole in ["&application=shop", ""] {
        let of_all = |meter: &str, stat: &str| {
            front.ask(&format!("meter={meter}{whole}&from=-10m&stat={stat}"))["points"][0][stat].as_f64()
        };
        assert_eq!(of_all("arrived", "sum"), Some(sent), "{whole}");
        assert_eq!(of_all("response_time", "p99"), front.home("response_time", "p99"), "{whole}");
        assert_eq!(of_all("requests", "sum"), Some(sent), "of the server, {whole}");
    }
    let before: Vec<_> = ["p50", "p99", "max"].map(|stat| front.home("response_time", stat)).into();
    let (median, high) = (before[0].expect("a median"), before[1].expect("a 99th percentile"));
    assert!(median > 0.0 && high >= median && high < 60.0, "{median} s, {high} s");
    // The second after the load is closed, and with it everything before.
    let end = front.home("arrived", "rate").map(|_| Instant::now() + Duration::from_secs(5));
    while end.is_some_and(|end| Instant::now() < end) {
        thread::sleep(Duration::from_millis(50));
    }

    let front = front.kill_and_start();
    assert_eq!(front.await_arrivals(sent), sent, "nothing is lost that is five seconds old");
    let after: Vec<_> = ["p50", "p99", "max"].map(|stat| front.home("response_time", stat)).into();
    assert_eq!(after, before);
    // And it goes on.
    let tally = {
        let load = Load::start("again", front.listen, 1, Connections::Kept, "/front");
        load.await_more(10);
        load.stop()
    };
    let more = tally.answered.len() as f64;
    assert_eq!(front.await_arrivals(sent + more), sent + more);
    front.gateway.stop_sound();
}

#[test]
fn a_kill_under_load_loses_five_seconds_at_most() {
    let (origin, state) = (Origin::hello(), tempfile::tempdir().expect("a directory"));
    let front = Front::start(&origin, Some(state.path()));
    let load = Load::start("home", front.listen, 2, Connections::Kept, "/front");
    let seconds = |front: &Front| -> Vec<(f64, f64)> {
        let answer = front.ask("meter=arrived&class=shop/front&from=-10m&step=1s&stat=sum");
        let points = answer["points"].as_array().expect("points");
        points.iter().filter_map(|point| Some((point["at"].as_f64()?, point["sum"].as_f64()?))).collect()
    };
    // Some seconds more than may be lost.
    let until = Instant::now() + PATIENCE;
    while seconds(&front).len() < 9 {
        assert!(Instant::now() < until, "nine seconds were not measured in {PATIENCE:?}");
        load.await_more(1);
        thread::sleep(Duration::from_millis(100));
    }
    let known = seconds(&front);
    let (last, _) = *known.last().expect("a second");
    let front = front.kill_and_start();
    drop(load);
    front.gateway.log.await_line("state directory open", 1);
    let again = seconds(&front);
    let kept: Vec<_> = known.iter().filter(|(at, _)| *at <= last - 5.0).collect();
    assert!(kept.len() >= 3, "{known:?}");
    for second in kept {
        assert!(again.contains(second), "{second:?} is lost, killed in {last}: {again:?}");
    }
    front.gateway.stop_sound();
}

#[test]
fn faults_of_questions_are_named() {
    let origin = Origin::hello();
    let front = Front::start(&origin, None);
    let cases = [
        ("class=shop/front", 400, "meter is missing: a class has arrived, "),
        ("meter=arrivals", 400, "meter: a host has no \"arrivals\", but "),
        ("meter=cost&application=shop", 400, "meter: an application has no \"cost\", but "),
        (
            "meter=arrived&class=shop/frnot",
            404,
            "there is no class \"shop/frnot\", but shop/default, shop/front",
        ),
        ("meter=arrived&class=front", 400, "class: \"front\" is no class: write APPLICATION/CLASS"),
        ("meter=arrived&class=a/b&application=a", 400, "application and class: name one subject, in one way"),
        ("meter=arrived&class=shop/front&stat=p99", 400, "p99 of arrived: that is a count, "),
        ("meter=arrived&class=shop/front&stat=most", 400, "stat: \"most\" is no statistic"),
        ("meter=arrived&class=shop/front&from=tomorrow", 400, "from: \"tomorrow\" is not allowed here"),
        ("meter=refused.much&class=shop/front", 400, "meter: refused has no \"much\", but ingress_rate, "),
        ("meter=arrived&class=shop/front&form=csv", 400, "\"form\" is no parameter of this: it has meter, "),
    ];
    for (query, status, detail) in cases {
        let (found, said) = front.fault(query);
        assert_eq!(found, status, "{query}: {said}");
        assert!(said.starts_with(detail), "{query}: {said}");
    }
    let csv =
        get(front.admin, "/api/v1/measurements?meter=gateway_memory&stat=max,min&format=csv").expect("CSV");
    assert!(csv.text().starts_with("at,measured_s,max,min\n"), "{}", csv.text());
    front.gateway.stop_sound();
}

#[test]
fn knobs_change_as_one_last_over_a_kill_and_are_taken_back() {
    let (origin, state) = (Origin::hello(), tempfile::tempdir().expect("a directory"));
    let front = Front::start(&origin, Some(state.path()));
    let (status, said) = front.change(&json!({
        "changes": { "shop/front/priority": 9, "shop/front/weihgt": 1, "shop/front/queue.max": 5 }
    }));
    let detail = said["detail"].as_str().unwrap_or_default();
    assert_eq!(status, 400);
    assert!(detail.contains("shop/front/priority: 9 is not allowed here"), "{detail}");
    assert!(detail.contains("did you mean weight?"), "{detail}");
    assert_eq!(front.knob("shop/front/queue.max")["value"], "7", "none changed");

    let body = json!({ "changes": { "shop/front/queue.max": 5 }, "dry_run": true });
    let (status, said) = front.change(&body);
    assert_eq!(
        (status, &said["changes"][0]["from"], &said["changes"][0]["to"]),
        (200, &json!("7"), &json!("5"))
    );
    assert_eq!(front.knob("shop/front/queue.max")["value"], "7", "a dry run changes nothing");

    // The state directory may still be being read; a lasting change then says so.
    let until = Instant::now() + PATIENCE;
    let lasting = json!({
        "changes": { "shop/front/queue.max": 5, "shop/front/ingress.rate": "35/s" },
        "who": "ada", "why": "sale", "lasting": true
    });
    let (status, said) = loop {
        let (status, said) = front.change(&lasting);
        if status == 200 || Instant::now() > until {
            break (status, said);
        }
    };
    assert_eq!(status, 200, "{said}");
    let passing =
        json!({ "changes": { "shop/front/weight": 3, "shop/front/queue.wait.max": "3s" }, "who": "ada" });
    assert_eq!(front.change(&passing).0, 200);

    let front = front.kill_and_start();
    let knob = front.knob("shop/front/queue.max");
    assert_eq!(
        (&knob["value"], &knob["configured"], &knob["drift"]),
        (&json!("5"), &json!("7"), &json!(true))
    );
    assert_eq!((&knob["changed"]["who"], &knob["changed"]["why"]), (&json!("ada"), &json!("sale")));
    assert_eq!(front.knob("shop/front/weight")["value"], "1", "it did not last, and was not to");

    let until = Instant::now() + PATIENCE;
    let changes = loop {
        let answer = get(front.admin, "/api/v1/knobs/changes").expect("the record");
        let changes: Json = serde_json::from_str(&answer.text()).expect("JSON");
        if changes["changes"].as_array().is_some_and(|changes| !changes.is_empty()) || Instant::now() > until
        {
            break changes;
        }
    };
    let passed = &changes["changes"][0];
    let knobs = ["shop/front/queue.wait.max", "shop/front/weight"];
    for (place, knob) in knobs.iter().enumerate() {
        assert_eq!(&passed["changes"][place]["path"], knob, "the latest first");
    }
    // All that stands in the way of a revert is said.
    let (status, said) = front.send("POST", "/api/v1/knobs/revert", &json!({ "id": passed["id"] }));
    let said = said.to_string();
    assert!(status == 409 && knobs.iter().all(|knob| said.contains(knob)), "{said}");
    let sale = &changes["changes"][1];
    assert_eq!((&sale["who"], &sale["why"], &sale["lasting"]), (&json!("ada"), &json!("sale"), &json!(true)));
    let (status, said) = front.send("POST", "/api/v1/knobs/revert", &json!({ "id": sale["id"] }));
    assert_eq!(status, 200, "{said}");
    let knob = front.knob("shop/front/queue.max");
    assert_eq!((&knob["value"], &knob["drift"], &knob["changed"]), (&json!("7"), &json!(false), &Json::Null));
    let (status, said) = front.send("POST", "/api/v1/knobs/revert", &json!({ "id": sale["id"] }));
    assert_eq!(status, 409, "{said}");
    // Nor when somebody has changed it to the same since.
    let again = json!({ "changes": { "shop/front/queue.max": 5 }, "who": "eve", "lasting": true });
    assert_eq!(front.change(&again).0, 200);
    let (status, said) = front.send("POST", "/api/v1/knobs/revert", &json!({ "id": sale["id"] }));
    assert_eq!(status, 409, "{said}");
    assert_eq!(front.knob("shop/front/queue.max")["value"], "5");
    front.gateway.stop_sound();
}

#[test]
fn what_a_revert_brings_back_lasts_if_it_did_before() {
    let (origin, state) = (Origin::hello(), tempfile::tempdir().expect("a directory"));
    let front = Front::start(&origin, Some(state.path()));
    let (passing, lasting) = ("shop/front/queue.max", "shop/front/weight");
    front.change_to_last(passing, 5);
    front.change_to_last(lasting, 3);
    let set = |path: &str, value: Json, lasts: bool| {
        let (status, said) = front.change(&json!({ "changes": { path: value }, "lasting": lasts }));
        assert_eq!(status, 200, "{said}");
        said["id"].clone()
    };
    let revert = |id: &Json| {
        let (status, said) = front.send("POST", "/api/v1/knobs/revert", &json!({ "id": id }));
        assert_eq!(status, 200, "{said}");
    };
    let told = |path: &str| {
        let knob = front.knob(path);
        (knob["value"].clone(), knob["changed"]["lasting"].clone())
    };
    // Over what is configured, and over what lasts.
    let alone = "shop/front/queue.wait.max";
    set(passing, json!(6), false);
    revert(&set(passing, json!(8), true));
    revert(&set(lasting, json!(4), false));
    set(alone, json!("4s"), false);
    revert(&set(alone, json!("9s"), true));
    // Taken back altogether, and that taken back.
    let (status, said) = front.change(&json!({ "changes": { passing: null } }));
    assert_eq!((status, told(passing)), (200, (json!("7"), Json::Null)), "{said}");
    revert(&said["id"]);
    assert_eq!(told(passing), (json!("6"), json!(false)));
    assert_eq!(told(lasting), (json!("3"), json!(true)));
    assert_eq!(told(alone), (json!("4s"), json!(false)));
    let configured = front.knob(alone)["configured"].clone();
    let front = front.kill_and_start();
    assert_eq!(front.knob(passing)["value"], "5", "what was to last is what it stood over");
    assert_eq!(front.knob(lasting)["value"], "3");
    assert_eq!(front.knob(alone)["value"], configured, "it was to end with the process");
    front.gateway.stop_sound();
}

#[test]
fn a_change_of_what_is_configured_no_more_waits_for_it_and_can_be_taken_back() {
    let (origin, state) = (Origin::hello(), tempfile::tempdir().expect("a directory"));
    let mut front = Front::start(&origin, Some(state.path()));
    let path = "shop/front/queue.wait.max";
    front.change_to_last(path, "5s");
    let with = front.configuration.clone();
    let without = with.split("[application.shop.class.front]").next().expect("a part before it").to_owned();
    front.configuration.clone_from(&without);
    let mut front = front.kill_and_start();
    let changed = |front: &Front| {
        let answer = get(front.admin, "/api/v1/knobs?changed=true").expect("the changed knobs");
        let list: Json = serde_json::from_str(&answer.text()).expect("JSON");
        list["knobs"].as_array().cloned().unwrap_or_default()
    };
    let is_waiting = |front: &Front| {
        let list = changed(front);
        assert_eq!((list.len(), &list[0]["path"]), (1, &json!(path)), "{list:?}");
        let told = &list[0]["changed"];
        assert_eq!((&told["value"], &told["lasting"]), (&json!("5s"), &json!(true)), "{told}");
        told["in_force"] == false
    };
    let reload = |front: &Front, configuration: &str, times| {
        front.gateway.write_configuration(configuration);
        front.gateway.log.await_line("new configuration in force", times);
    };
    assert!(is_waiting(&front));
    reload(&front, &with, 1);
    assert!(!is_waiting(&front));
    assert_eq!(front.knob(path)["value"], "5s", "as after a restart");

    reload(&front, &without, 2);
    assert!(is_waiting(&front));
    let (status, said) = front.change(&json!({ "changes": { path: null } }));
    assert_eq!((status, &said["changes"][0]["from"]), (200, &json!("5s")), "{said}");
    assert_eq!(changed(&front), Vec::<Json>::new());
    front.configuration = with;
    let front = front.kill_and_start();
    let knob = front.knob(path);
    assert_eq!((&knob["value"], &knob["changed"]), (&knob["configured"], &Json::Null));
    front.gateway.stop_sound();
}

#[test]
fn a_change_is_in_force_at_once_and_outlives_a_reload() {
    let origin = Origin::hello();
    let front = Front::start(&origin, None);
    let status = || get(front.listen, "/front").expect("a request").status;
    assert_eq!(status(), 200);
    let (changed, said) = front.change(&json!({ "changes": { "shop/maintenance": true } }));
    assert_eq!((changed, status()), (200, 503), "{said}");
    front.gateway.write_configuration(&front.configuration.replace("queue.max = 7", "queue.max = 8"));
    front.gateway.log.await_line("new configuration in force", 1);
    assert_eq!(front.knob("shop/front/queue.max")["value"], "8");
    assert_eq!(status(), 503);
    let (changed, _) = front.change(&json!({ "changes": { "shop/maintenance": null } }));
    assert_eq!((changed, status()), (200, 200));
    let (changed, said) = front.change(&json!({ "changes": { "shop/mode": "watch" }, "lasting": true }));
    assert_eq!(changed, 409, "{said}");
    front.gateway.stop_sound();
}

#[test]
fn what_a_browser_could_be_made_to_send_is_refused() {
    let origin = Origin::hello();
    let front = Front::start(&origin, None);
    let body = json!({ "changes": { "shop/maintenance": true } }).to_string();
    let send = |headers: &str| {
        let mut client = Client::connect(front.admin).expect("connect");
        let request = format!(
            "PATCH /api/v1/knobs HTTP/1.1\r\n{headers}content-length: {}\r\nconnection: close\r\n\r\n{body}",
            body.len()
        );
        client.send(request.as_bytes()).expect("send");
        client.response().expect("an answer").status
    };
    let admin = front.admin;
    assert_eq!(send("host: evil.example\r\ncontent-type: application/json\r\n"), 403);
    let foreign =
        format!("host: {admin}\r\norigin: http://evil.example\r\ncontent-type: application/json\r\n");
    assert_eq!(send(&foreign), 403);
    assert_eq!(send(&format!("host: {admin}\r\ncontent-type: text/plain\r\n")), 415);
    let own = format!("host: {admin}\r\norigin: http://{admin}\r\ncontent-type: application/json\r\n");
    assert_eq!(send(&own), 200);
    front.gateway.stop_sound();
}

#[test]
fn a_state_directory_that_cannot_be_used_is_said_and_measuring_goes_on() {
    let (origin, state) = (Origin::hello(), tempfile::tempdir().expect("a directory"));
    let file = state.path().join("file");
    std::fs::write(&file, "not a directory").expect("write a file");
    let front = Front::start(&origin, Some(&file));
    front.gateway.log.await_line("archives and changes are kept in memory only", 1);
    assert_eq!(get(front.listen, "/front").expect("a request").status, 200);
    front.await_arrivals(1.0);
    let answer = get(front.admin, "/api/v1/archives").expect("the archives");
    let archives: Json = serde_json::from_str(&answer.text()).expect("JSON");
    assert_eq!(archives["state"]["kept"], false, "{}", archives["state"]);
    // Once it can be, it is taken up with what was measured meanwhile.
    std::fs::remove_file(&file).expect("remove the file");
    front.gateway.log.await_line("state directory open", 1);
    let front = front.kill_and_start();
    front.await_arrivals(1.0);
    front.gateway.stop_sound();
}

#[test]
fn the_command_line_gets_and_sets() {
    let origin = Origin::hello();
    let front = Front::start(&origin, None);
    let admin = front.admin.to_string();
    let run = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_tidegate"))
            .args(arguments)
            .args(["--admin", &admin])
            .output()
            .expect("run tidegate");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let (code, said, _) = run(&["set", "shop/front/queue.max=9", "shop/ingress.rate=35/s", "--why", "sale"]);
    assert_eq!(code, Some(0));
    assert_eq!(said, "shop/front/queue.max: 7 -> 9\nshop/ingress.rate: none -> 35/s\n");
    let (code, said, _) = run(&["get", "shop/front/queue.max"]);
    assert_eq!((code, said.as_str()), (Some(0), "shop/front/queue.max = 9  (configured: 7)\n"));
    let (_, said, _) = run(&["get", "--changed"]);
    assert_eq!(said.lines().count(), 2, "{said}");
    let (code, said, _) = run(&["set", "shop/front/queue.max="]);
    assert_eq!((code, said.as_str()), (Some(0), "shop/front/queue.max: 9 -> 7\n"));
    let (code, _, fault) = run(&["set", "shop/front/queue.max=many"]);
    assert_eq!(code, Some(2));
    assert!(fault.contains("shop/front/queue.max: \"many\" is not allowed here"), "{fault}");
    let (code, _, fault) = run(&["get", "shop/frnot"]);
    assert_eq!(code, Some(2), "{fault}");
    front.gateway.stop_sound();
}
