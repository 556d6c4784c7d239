//! Controllers in a running gateway: they change knobs under load, are changed while running, and a hostile one harms nobody.

#[path = "../support/mod.rs"]
mod support;

use std::{fs, net::SocketAddr, path::Path, process::Command};

use support::{
    Gateway, Start,
    admin::{Metrics, api, await_metrics},
    client::{Client, get},
    free_address,
    origin::Origin,
};

/// Limits the application while more than 20 requests a second arrive.
const LAW: &str = r#"every("200ms", function()
  if (mean("app", "arrived", "2s") or 0) > 20 then
    set("app/ingress.rate", 1)
    set("app/ingress.burst", 1)
  else
    clear("app/ingress.rate")
    clear("app/ingress.burst")
  end
end)
"#;

struct Front {
    gateway: Gateway,
    listen: SocketAddr,
    admin: SocketAddr,
    _origin: Origin,
}

impl Front {
    /// A gateway with these scripts as controllers.
    fn start(scripts: &[(&str, &str)]) -> Self {
        let (listen, admin, origin) = (free_address(), free_address(), Origin::hello());
        let directory = tempfile::tempdir().expect("a directory for the test");
        let mut configuration = format!(
            "admin = \"{admin}\"\n[[listener]]\naddress = \"{listen}\"\n[application.app]\nservers = [\"{}\"]\n",
            origin.url()
        );
        for (name, source) in scripts {
            fs::write(directory.path().join(name), source).expect("write a script");
            configuration += &format!("[[controller]]\nfile = \"{name}\"\n");
        }
        let gateway = Gateway::run_in(directory, &configuration, &Start::default());
        Self { gateway, listen, admin, _origin: origin }
    }

    /// Changes knobs as somebody does, and waits until it has been done: the state directory may still be being read.
    fn change(&self, body: &str) {
        let done = (0..600).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(50));
            api(self.admin, "PATCH", "/api/v1/knobs", body).status == 200
        });
        assert!(done, "{body}");
    }

    /// Replaces a script, whole or not at all.
    fn write(&self, name: &str, source: &str) {
        let directory = self.gateway.directory.path();
        fs::write(directory.join("new"), source).expect("write a script");
        fs::rename(directory.join("new"), directory.join(name)).expect("put it in its place");
    }

    /// So many events of a kind from the first on, in words.
    fn events(&self, kind: &str, count: u32) -> String {
        let told = Command::new(env!("CARGO_BIN_EXE_tidegate"))
            .args(["events", "--all", "--kinds", kind, "--count", &count.to_string()])
            .args(["--admin", &self.admin.to_string()])
            .output()
            .expect("it runs");
        String::from_utf8(told.stdout).expect("text")
    }

    /// Requests, one after the other, until one is answered with this status.
    fn until(&self, status: u16) {
        let mut client = Client::connect(self.listen).expect("connect");
        for _ in 0..1_000_000 {
            if client.get("/", "").expect("an answer").status == status {
                return;
            }
        }
        panic!("no answer {status}");
    }
}

#[test]
fn a_script_limits_a_flood_and_lets_go() {
    let front = Front::start(&[("law.lua", LAW)]);
    assert_eq!(get(front.listen, "/").expect("an answer").status, 200);
    front.until(429);
    front.gateway.log.await_line("app/ingress.rate: none -> 1/s", 1);
    assert!(front.gateway.log.lines_with("none -> 1/s")[0].contains("law.lua:3"), "the line is told");
    await_metrics(front.admin, "refusals", |metrics: &Metrics| {
        metrics.sum("class_refused", &[("reason", "ingress_rate")]) > 0.0
    });
    let listed = get(front.admin, "/api/v1/controllers").expect("an answer").text();
    assert!(listed.contains("\"name\":\"law.lua\"") && listed.contains("\"running\""), "{listed}");
    // Nobody asks any more: the last two seconds are quiet.
    front.gateway.log.await_line("app/ingress.rate: 1/s -> none", 1);
    assert_eq!(get(front.listen, "/").expect("an answer").status, 200);
    front.gateway.stop_sound();
}

#[test]
fn a_changed_script_begins_anew_with_what_the_old_one_held_and_a_broken_one_does_not() {
    let front =
        Front::start(&[("law.lua", "every(\"100ms\", function() set(\"app/in_flight.min\", 7) end)")]);
    let log = &front.gateway.log;
    log.await_line("app/in_flight.min: 1 -> 7", 1);
    front.write("law.lua", "every(\"100ms\", function()\n  clear(\"app/in_flight.min\"\nend)");
    log.await_line("law.lua:3:", 1);
    assert!(front.events("controller", 2).contains("failed law.lua:3:"));
    front.write("law.lua", "every(\"100ms\", function() clear(\"app/in_flight.min\") end)");
    log.await_line("app/in_flight.min: 7 -> 1", 1);
    // Out of the configuration: nothing is left of it.
    front.write("law.lua", "every(\"100ms\", function() set(\"app/in_flight.min\", 5) end)");
    log.await_line("app/in_flight.min: 1 -> 5", 1);
    let file = front.gateway.directory.path().join("tidegate.toml");
    let configuration = fs::read_to_string(file).expect("the configuration");
    front.gateway.write_configuration(&format!("admins = true\n{configuration}"));
    log.await_line("the configuration has faults", 1);
    let told = front.events("configuration", 1);
    assert!(told.contains("not taken up: ") && told.contains("admins"), "{told}");
    let without = configuration.split("[[controller]]").next().expect("a part before it");
    front.gateway.write_configuration(without);
    log.await_line("app/in_flight.min: 5 -> 1", 1);
    front.gateway.stop_sound();
}

#[test]
fn what_scripts_leave_is_what_is_configured_by_then() {
    let five = "every(\"100ms\", function() if not state.done then state.done = set(\"app/in_flight.min\", 5) end end)";
    let front = Front::start(&[("five.lua", five), ("six.lua", &five.replace("5)", "6)"))]);
    let log = &front.gateway.log;
    log.await_line("app/in_flight.min: 1 -> 5", 1);
    log.await_line("app/in_flight.min: 5 -> 6", 1);
    let file = front.gateway.directory.path().join("tidegate.toml");
    let configuration = fs::read_to_string(file).expect("the configuration");
    let edited = configuration.replace("[application.app]", "[application.app]\nin_flight.min = 2");
    front.gateway.write_configuration(&edited);
    log.await_line("new configuration in force", 1);
    front.gateway.write_configuration(edited.split("[[controller]]").next().expect("a part before it"));
    log.await_line("app/in_flight.min: 6 -> 2", 1);
    front.gateway.stop_sound();
}

#[test]
fn a_script_that_ends_while_what_it_set_is_not_configured_leaves_nothing_for_later() {
    let (listen, admin, origin) = (free_address(), free_address(), Origin::hello());
    let plain = format!(
        "admin = \"{admin}\"\n[[listener]]\naddress = \"{listen}\"\n[application.app]\nservers = [\"{}\"]\n",
        origin.url()
    );
    let class = "[application.app.class.robots]\n";
    let law = "[[controller]]\nfile = \"law.lua\"\n";
    // The class's queue is set by somebody first, the rest by nobody.
    let source = "every(\"100ms\", function()\n  if state.done or get(\"app/robots/queue.max\") ~= 12 then return end\n  \
                  set(\"app/robots/queue.max\", 5)\n  set(\"app/robots/share\", 7)\n  \
                  set(\"app/in_flight.min\", 9)\n  state.done = true\nend)";
    let directory = tempfile::tempdir().expect("a directory for the test");
    fs::write(directory.path().join("law.lua"), source).expect("write a script");
    let gateway = Gateway::run_in(directory, &format!("{plain}{class}{law}"), &Start::default());
    let front = Front { gateway, listen, admin, _origin: origin };
    let log = &front.gateway.log;
    front.change(r#"{"changes": {"app/robots/queue.max": 12}, "who": "ada"}"#);
    log.await_line("app/in_flight.min: 1 -> 9", 1);
    // The class goes, and the minimum fits no more: both wait.
    let without = format!("{plain}in_flight.max = 8\n");
    front.gateway.write_configuration(&format!("{without}{law}"));
    log.await_line("new configuration in force", 1);
    front.gateway.write_configuration(&without);
    log.await_line("app/robots/queue.max: 5 -> 12", 1);
    log.await_line("app/in_flight.min: 9 -> 1", 1);
    log.await_line("app/robots/share: 7 -> 1", 1);
    front.gateway.write_configuration(&format!("{plain}{class}"));
    log.await_line("new configuration in force", 3);
    let changed = get(admin, "/api/v1/knobs?changed=true").expect("an answer").text();
    let changed: serde_json::Value = serde_json::from_str(&changed).expect("JSON");
    let knobs = changed["knobs"].as_array().expect("a list");
    assert_eq!(knobs.len(), 1, "{changed}");
    assert_eq!((&knobs[0]["path"], &knobs[0]["value"]), (&"app/robots/queue.max".into(), &"12".into()));
    assert_eq!(knobs[0]["changed"]["who"], "ada");
    front.gateway.stop_sound();
}

#[test]
fn two_scripts_that_set_one_knob_are_told_of_once_each() {
    let sets = |value: u32| format!("every(\"100ms\", function() set(\"app/in_flight.min\", {value}) end)");
    let front = Front::start(&[("five.lua", &sets(5)), ("six.lua", &sets(6))]);
    let log = &front.gateway.log;
    log.await_line("app/in_flight.min: 5 -> 6", 4);
    for (one, other) in [("five", "six"), ("six", "five")] {
        let said = format!(
            "{one}.lua: app/in_flight.min is set by controller {other}.lua as well: the last one to set it counts"
        );
        assert_eq!(log.lines_with(&said).len(), 1, "{said}");
    }
    front.gateway.stop_sound();
}

#[test]
fn what_somebody_has_set_is_theirs_and_lasts_whatever_a_script_makes_of_it() {
    let state = tempfile::tempdir().expect("a directory");
    // Seen at 5, it is set to what is configured for a time; the other knob is set until the script is another.
    let law = "every(\"100ms\", function()\n  set(\"app/in_flight.max\", 70)\n  set(\"app/in_flight.limit\", 60)\n  \
               if get(\"app/in_flight.min\") == 5 and not state.done then\n    \
               state.done = set(\"app/in_flight.min\", 1, { lasts = \"1s\" })\n  end\nend)";
    let configuration = |admin, listen, url: &str| {
        format!(
            "admin = \"{admin}\"\nstate_directory = {:?}\n[[listener]]\naddress = \"{listen}\"\n[application.app]\nservers = [\"{url}\"]\n",
            state.path()
        )
    };
    let (listen, admin, origin) = (free_address(), free_address(), Origin::hello());
    let plain = configuration(admin, listen, &origin.url());
    let directory = tempfile::tempdir().expect("a directory for the test");
    fs::write(directory.path().join("law.lua"), law).expect("write a script");
    let with_law = format!("{plain}[[controller]]\nfile = \"law.lua\"\n");
    let gateway = Gateway::run_in(directory, &with_law, &Start::default());
    let mut front = Front { gateway, listen, admin, _origin: origin };
    let log = &front.gateway.log;
    log.await_line("app/in_flight.max: 1000 -> 70", 1);
    front.change(r#"{"changes": {"app/in_flight.min": 5}, "who": "ada", "lasting": true}"#);
    log.await_line("app/in_flight.min: 5 -> 1", 1);
    // By ada, and then by who gives it back.
    log.await_line("app/in_flight.min: 1 -> 5", 2);
    let changed = || get(admin, "/api/v1/knobs?path=app&changed=true").expect("an answer").text();
    let theirs = r#""who":"ada""#;
    assert!(changed().contains(theirs) && changed().contains("\"lasting\":true"), "{}", changed());

    // Pinned at what the script had made of it, it stays when the script lets go.
    front.change(r#"{"changes": {"app/in_flight.max": 70}, "who": "ada"}"#);
    front.write(
        "law.lua",
        "every(\"100ms\", function() clear(\"app/in_flight.max\") clear(\"app/in_flight.limit\") end)",
    );
    log.await_line("app/in_flight.limit: 60 -> ", 1);
    assert!(log.lines_with("app/in_flight.max: 70 -> 1000").is_empty());
    assert_eq!(changed().matches(theirs).count(), 2, "{}", changed());

    front.gateway.signal("KILL");
    assert_eq!(front.gateway.ended(), None, "killed, not ended");
    drop(front.gateway);
    let gateway = Gateway::run(&plain, &Start::default());
    assert!(
        changed().contains(r#""path":"app/in_flight.min","#) && changed().contains(theirs),
        "{}",
        changed()
    );
    gateway.stop_sound();
}

#[test]
fn hostile_scripts_are_stopped_and_nobody_else_notices() {
    let looping =
        "every(\"50ms\", function()\n  while true do pcall(function() while true do end end) end\nend)";
    let hungry = "every(\"50ms\", function()\n  local t = {} while true do t[#t + 1] = (\"x\"):rep(1000) .. #t end\nend)";
    let good = "every(\"100ms\", function() state.n = (state.n or 0) + 1 set(\"app/in_flight.min\", 1 + state.n % 2) end)";
    let front = Front::start(&[("looping.lua", looping), ("hungry.lua", hungry), ("good.lua", good)]);
    let log = &front.gateway.log;
    for name in ["looping.lua", "hungry.lua"] {
        // Such short periods are refused; with one that is allowed they run.
        log.await_line(&format!("{name}: stopped"), 1);
    }
    for name in ["looping.lua", "hungry.lua"] {
        front.write(
            name,
            &fs::read_to_string(front.gateway.directory.path().join(name))
                .expect("it is there")
                .replace("50ms", "100ms"),
        );
    }
    for name in ["looping.lua", "hungry.lua"] {
        log.await_line(&format!("{name}: stopped"), 2);
        let said = log.lines_with(&format!("{name}: stopped"));
        assert!(said[1].contains(&format!("{name}:2")) || said[1].contains("memory"), "{said:?}");
    }
    let stopped = |count: f64| {
        await_metrics(front.admin, "controllers stopped", |metrics: &Metrics| {
            metrics.sum("controllers_stopped", &[]) == count
        });
    };
    stopped(2.0);
    let before = log.lines_with("app/in_flight.min: ").len();
    log.await_line("app/in_flight.min: ", before + 4);
    // One that is mended is none of them any more.
    front.write("hungry.lua", "every(\"100ms\", function() end)");
    stopped(1.0);
    assert_eq!(get(front.listen, "/").expect("an answer").status, 200);
    front.gateway.stop_sound();
}

#[test]
fn check_says_what_is_wrong_with_a_script() {
    let directory = tempfile::tempdir().expect("a directory for the test");
    let configuration = "[[listener]]\naddress = \"[::]:8080\"\n[application.app]\nservers = [\"http://127.0.0.1:1\"]\n[[controller]]\nfile = \"law.lua\"\n[[controller]]\nfile = \"other.lua\"\n";
    fs::write(directory.path().join("tidegate.toml"), configuration).expect("write the configuration");
    fs::write(directory.path().join("law.lua"), "every(\"1s\", function()\n  if then\nend)")
        .expect("write a script");
    fs::write(directory.path().join("other.lua"), "x = = 1").expect("write a script");
    let (code, said) = check(&directory.path().join("tidegate.toml"));
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("controller law.lua: law.lua:2:") && said.contains("other.lua:1:"), "{said}");
    fs::write(directory.path().join("law.lua"), LAW).expect("write a script");
    fs::write(directory.path().join("other.lua"), LAW).expect("write a script");
    assert_eq!(check(&directory.path().join("tidegate.toml")).0, Some(0));
}

/// What a script does wrong while nothing has been measured shows before it is started.
#[test]
fn check_tries_a_script_and_warns_of_what_it_would_do_wrong() {
    let directory = tempfile::tempdir().expect("a directory for the test");
    let file = directory.path().join("tidegate.toml");
    let configuration = "[[listener]]\naddress = \"[::]:8080\"\n[application.app]\nservers = [\"http://127.0.0.1:1\"]\n[[controller]]\nfile = \"law.lua\"\nstrikes = 1\n";
    fs::write(&file, configuration).expect("write the configuration");
    let told = |source: &str| {
        fs::write(directory.path().join("law.lua"), source).expect("write a script");
        let (code, said) = check(&file);
        assert_eq!(code, Some(0), "{source}: a start need not stop for it");
        said
    };
    let contradiction =
        "every(\"1s\", function() set(\"app/in_flight.min\", 9) set(\"app/in_flight.max\", 3) end)";
    for (source, said) in [
        (
            "evry(\"1s\", function() end)",
            "law.lua:1: attempt to call a nil value: evry(\"1s\", function() end)",
        ),
        ("every(\"1s\", function()\n  set(\"app/ingres.rate\", 5)\nend)", "law.lua:2: "),
        (
            "every(\"1h\", function()\n  x = p95(\"app\", \"response_time\", \"5s\") > 1\nend)",
            "law.lua:2: attempt to compare",
        ),
        ("every(\"1s\", function() while true do end end)", "law.lua:1: ran over its 200000 steps"),
        (contradiction, "in_flight.min"),
    ] {
        let told = told(source);
        assert!(
            told.starts_with("warning: controller law.lua: law.lua:") && told.contains(said),
            "{source}: {told}"
        );
        assert_eq!(told.lines().count(), 1, "{told}");
    }
    assert_eq!(told(LAW), "");
}

#[test]
fn check_warns_of_a_knob_that_two_scripts_set() {
    let directory = tempfile::tempdir().expect("a directory for the test");
    let file = directory.path().join("tidegate.toml");
    let configuration = "[[listener]]\naddress = \"[::]:8080\"\n[application.app]\nservers = [\"http://127.0.0.1:1\"]\n[[controller]]\nfile = \"one.lua\"\n[[controller]]\nfile = \"other.lua\"\n";
    fs::write(&file, configuration).expect("write the configuration");
    let sets = |name: &str, knob: &str| {
        let source = format!("every(\"1s\", function() set(\"{knob}\", 5) set(\"{knob}\", 6) end)");
        fs::write(directory.path().join(name), source).expect("write a script");
    };
    sets("one.lua", "app/in_flight.min");
    sets("other.lua", "app/in_flight.max");
    assert_eq!(check(&file), (Some(0), String::new()));
    sets("other.lua", "app/in_flight.min");
    let (code, said) = check(&file);
    assert_eq!((code, said.lines().count()), (Some(0), 1), "{said}");
    assert!(
        said.starts_with(
            "warning: controller other.lua: app/in_flight.min is set by controller one.lua as well: "
        ),
        "{said}"
    );
}

fn check(file: &Path) -> (Option<i32>, String) {
    let output =
        Command::new(env!("CARGO_BIN_EXE_tidegate")).arg("check").arg(file).output().expect("it runs");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}
