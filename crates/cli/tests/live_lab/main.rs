//! The lab at the command line: what it lists, its worked example simulated and live, and bad input.

mod parity;
#[path = "../support/mod.rs"]
mod support;

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;

fn lab(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tidegate")).arg("lab").args(arguments).output().expect("start tidegate")
}

/// The result that a run printed; whatever its checks say.
fn result(output: &Output) -> Value {
    let said = String::from_utf8_lossy(&output.stderr);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"))
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn example() -> String {
    root().join("examples/lab/pressure.toml").display().to_string()
}

#[test]
fn the_list_names_every_experiment_with_its_modes() {
    let output = lab(&["list", "--json"]);
    assert!(output.status.success());
    let list = result(&output);
    let names: Vec<&str> =
        list.as_array().expect("a list").iter().filter_map(|row| row["experiment"].as_str()).collect();
    for name in ["queueing-truth", "overload-knee", "retry-storm", "masth-home-limit", "peers", "parity"] {
        assert!(names.contains(&name), "{name} in {names:?}");
    }
    let page = fs::read_to_string(root().join("docs/lab.md")).expect("read");
    for name in names {
        assert!(page.contains(&format!("| `{name}` |")), "docs/lab.md has a row for {name}");
    }
}

#[test]
fn the_worked_example_gives_simulated_results_and_a_report_that_repeats() {
    let place = tempfile::tempdir().expect("a folder");
    let folder = place.path().join("report");
    let example = example();
    let run = |folder: &Path| {
        lab(&["run", &example, "--seeds", "3", "--json", "--report", folder.to_str().expect("UTF-8")])
    };
    let output = run(&folder);
    let first = result(&output);
    assert!(output.status.success(), "{first:#}");
    assert_eq!((first["experiment"].as_str(), first["mode"].as_str()), (Some("pressure"), Some("simulated")));
    assert_eq!(first["checks"][0]["pass"], true);
    let files = ["index.html", "result.json", "runs.csv", "series.csv", "plot-1.svg", "experiment.toml"];
    for file in files.into_iter().chain(["arms/pressure.lua"]) {
        let size = fs::metadata(folder.join(file)).unwrap_or_else(|error| panic!("{file}: {error}")).len();
        assert!(size > 100, "{file} has {size} bytes");
    }
    let page = fs::read_to_string(folder.join("index.html")).expect("the page");
    assert!(page.contains("<svg") && !page.contains("src=") && !page.contains("href="), "self-contained");
    let second = result(&run(&folder));
    assert_eq!(first["trace"], second["trace"], "the same seeds give the same runs");
    assert_eq!(fs::read_dir(place.path()).expect("read").count(), 1, "nothing is left beside the report");
}

/// docs/lab.md says so.
#[test]
fn the_worked_example_has_fewer_than_fifty_lines() {
    let lines = |name: &str| {
        let text = fs::read_to_string(root().join("examples/lab").join(name)).expect("the example");
        text.lines().count()
    };
    assert!(lines("pressure.toml") + lines("pressure.lua") < 50);
}

#[test]
fn the_worked_example_gives_live_results() {
    let output =
        lab(&["run", &example(), "--live", "--repetitions", "1", "--duration-scale", "0.1", "--json"]);
    let result = result(&output);
    assert_eq!(result["mode"], "live", "{result:#}");
    assert!(result["capacity_per_s"].as_f64().is_some_and(|capacity| capacity > 1.0), "{result:#}");
    for arm in ["none", "pressure"] {
        let points = result["series"]["goodput_per_s"][arm].as_array().expect("a series");
        assert_eq!(points.len(), 2, "both loads of {arm} were run");
        assert!(points.iter().all(|point| point["value"].as_f64().is_some()), "{points:?}");
    }
}

/// Three times what the server can do for a second, before a waiting room and without one.
const BURST: &str = r#"
title = "A burst"
[live]
origin = "waits"
phase = [{ load = 6, for = "1s" }, { load = 0.1, for = "1s" }]
[server]
threads = 2
processors = 2
[[class]]
name = "default"
work = "20ms"
within = "1h"
[load]
arrivals = "constant"
timeout = "30s"
[[arm]]
name = "none"
front = "direct"
[[arm]]
name = "room"
front = "gateway"
[arm.settings]
capacity.given = "80/s"
waiting_room.method = "fifo"
waiting_room.session.pass = false
"#;

#[test]
fn visitors_of_live_runs_come_when_they_are_told_to() {
    let place = tempfile::tempdir().expect("a folder");
    let file = place.path().join("burst.toml");
    fs::write(&file, BURST).expect("write");
    let file = file.to_str().expect("UTF-8");
    let result = result(&lab(&["run", file, "--live", "--repetitions", "1", "--json"]));
    let of = |metric: &str, arm: &str| {
        let points = result["series"][metric][arm].as_array();
        points.and_then(|points| points.first()?["value"].as_f64())
    };
    assert!(of("told_share", "room") > Some(0.3), "most have to wait: {result:#}");
    assert_eq!(of("served_of_comers", "room"), Some(1.0), "{result:#}");
    assert!(of("return_p50_ms", "room") >= Some(20.0), "{result:#}");
    assert!(of("return_p99_ms", "room") >= of("return_p50_ms", "room"), "{result:#}");
    // 20 ms each, and without the room those who wait for one of two workers.
    assert!(of("service_p50_ms", "room") >= Some(20.0), "{result:#}");
    assert!(of("service_p50_ms", "none") > of("service_p50_ms", "room"), "{result:#}");
    assert!(of("overtaken_share", "room").is_some(), "{result:#}");
    assert_eq!((of("told_share", "none"), of("return_p50_ms", "none")), (Some(0.0), None), "{result:#}");
    assert_eq!(of("served_of_comers", "none"), Some(1.0), "{result:#}");
}

/// What is at fault, and what must be said: place and mend. Nothing is left behind.
#[test]
fn bad_input_is_told_with_place_and_mend_and_leaves_no_report() {
    let place = tempfile::tempdir().expect("a folder");
    let sound = fs::read_to_string(example()).expect("the example");
    fs::copy(PathBuf::from(example()).with_file_name("pressure.lua"), place.path().join("pressure.lua"))
        .expect("copy");
    let file = place.path().join("mine.toml");
    let file = file.to_str().expect("UTF-8");
    let report = place.path().join("report");
    let report = report.to_str().expect("UTF-8");
    let absent = support::free_address();
    let server = format!("server = \"http://{absent}/\", load = [0.5, 2]");
    let cases: &[(&str, &str, &[&str], &[&str])] = &[
        ("within", "withn", &[], &["mine.toml:10:1", "class[0].withn", "did you mean within?"]),
        ("[0.5, 2, 4]", "[0.5, 2, 1e12]", &[], &["mine.toml:2:22", "vary.load[2]", "from 0.01 to 100"]),
        ("\"in_flight.limit\" = 20", "\"in_flight.limit\" = -1", &[], &["in_flight.limit", "a whole number"]),
        (
            "pressure.lua",
            "absent.lua",
            &[],
            &["arm[1].controller", "absent.lua", "name a file that is there"],
        ),
        (
            "load = [0.5, 2]",
            &server,
            &["--live"],
            &["live.server", &absent.to_string(), "start the server first"],
        ),
    ];
    for (from, to, more, said) in cases {
        fs::write(file, sound.replacen(from, to, 1)).expect("write");
        let arguments = [&["run", file, "--report", report][..], more].concat();
        let output = lab(&arguments);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{to}: {error}");
        for part in *said {
            assert!(error.contains(part), "{to}: {part} in {error}");
        }
        assert!(!Path::new(report).exists(), "{to}: no report");
    }
    let output = lab(&["run", "overload-kne"]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("did you mean overload-knee?"), "{error}");
    assert_eq!(lab(&["run", "peers"]).status.code(), Some(2), "it is live only");
    let output = lab(&["run", place.path().to_str().expect("UTF-8")]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("cannot be read: Is a directory"), "{error}");
}

/// A disk that is full at the end takes the report, not the result of all the runs.
#[test]
fn a_report_that_cannot_be_written_leaves_the_result() {
    let place = tempfile::tempdir().expect("a folder");
    let report = place.path().join("report");
    let output = Command::new("sh")
        // No file may be longer than a block.
        .args(["-c", "trap '' XFSZ; ulimit -f 1; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_tidegate")])
        .args(["lab", "run", &example(), "--seeds", "1", "--json", "--report"])
        .arg(&report)
        .output()
        .expect("start tidegate");
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("cannot write"), "{error}");
    assert_eq!(result(&output)["experiment"], "pressure");
    assert_eq!(fs::read_dir(place.path()).expect("read").count(), 0, "nothing is left of the report");
}

/// A script at the command line: what it takes the place of is told, and its faults before anything is run.
#[test]
fn a_script_at_the_command_line_is_looked_at_first() {
    let place = tempfile::tempdir().expect("a folder");
    let script = place.path().join("broken.lua");
    fs::write(&script, "every(\"1s\", function( end)").expect("write");
    let script = script.to_str().expect("UTF-8");
    for mode in [&[][..], &["--live"][..]] {
        let output = lab(&[&["run", &example(), "--controller", script][..], mode].concat());
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains("broken.lua"), "{error}");
    }
    let output = lab(&["run", "queueing-truth", "--controller", script]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("has no gateway that a script could control"), "{error}");
}

/// A script that fails while it runs is told, since what was measured then is not its law.
#[test]
fn a_script_that_fails_in_the_simulator_is_told() {
    let place = tempfile::tempdir().expect("a folder");
    let script = place.path().join("failing.lua");
    fs::write(&script, "every(\"1s\", function()\n  log(\"warn\", \"hm\")\n  error(\"no idea, yet\")\nend)")
        .expect("write");
    let script = script.to_str().expect("UTF-8");
    let report = place.path().join("report");
    let report = report.to_str().expect("UTF-8");
    let arguments = ["run", &example(), "--seeds", "2", "--json", "--controller", script, "--report", report];
    let output = lab(&arguments);
    assert_eq!(output.status.code(), Some(1), "nothing was measured of a law that was stopped");
    let result = result(&output);
    let notes = result["notes"].to_string();
    assert!(notes.contains("no idea") && notes.contains("pressure"), "{notes}");
    assert!(notes.contains("failing.lua runs in place of the file's script"), "{notes}");
    let said = fs::read_to_string(Path::new(report).join("said.csv")).expect("what was said");
    let first = "pressure,0.5,1,warn,failing.lua:2: hm\npressure,0.5,1,error,\"failing.lua:3: no idea";
    assert!(said.starts_with(&format!("arm,load,second,level,text\n{first}")), "{said}");
}

/// The same of a live run, whose figures alone would pass: there is no check.
#[test]
fn a_script_that_fails_in_a_live_run_is_told() {
    let place = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| {
        let file = place.path().join(name);
        fs::write(&file, text).expect("write");
        file.to_str().expect("UTF-8").to_owned()
    };
    let burst = write("burst.toml", BURST);
    let ends = |script: &str| {
        lab(&["run", &burst, "--live", "--repetitions", "1", "--json", "--controller", script])
    };
    let output = ends(&write("failing.lua", "every(\"100ms\", function()\n  error(\"no idea, yet\")\nend)"));
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    let notes = result(&output)["notes"].to_string();
    assert!(notes.contains("no idea"), "{notes}");
    let output = ends(&write("idle.lua", "every(\"100ms\", function() end)"));
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
}

/// A signal ends a live run, and with it every server it has started and every file of its own.
#[test]
fn a_signal_ends_a_live_run_and_leaves_nothing() {
    let place = tempfile::tempdir().expect("a folder");
    let report = place.path().join("report");
    let child = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(["lab", "run", &example(), "--live", "--report", report.to_str().expect("UTF-8")])
        .env("TMPDIR", place.path())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("start tidegate");
    // Once a front has its configuration, origin and load are up or about to be.
    let deadline = Instant::now() + Duration::from_secs(60);
    let has_begun = || {
        let folders = fs::read_dir(place.path()).expect("read").map_while(Result::ok);
        folders.map(|folder| folder.path().join("tidegate.toml")).any(|file| file.exists())
    };
    while !has_begun() {
        assert!(Instant::now() < deadline, "a gateway was started");
        thread::sleep(Duration::from_millis(20));
    }
    support::signal(child.id(), "INT");
    let output = child.wait_with_output().expect("its end");
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("ended by a signal"), "{error}");
    let left: Vec<PathBuf> =
        fs::read_dir(place.path()).expect("read").map_while(Result::ok).map(|entry| entry.path()).collect();
    assert!(left.is_empty(), "{left:?}");
    let here = place.path().to_str().expect("UTF-8");
    let commands = fs::read_dir("/proc").expect("read").map_while(Result::ok);
    let still: Vec<String> = commands
        .filter_map(|process| fs::read_to_string(process.path().join("cmdline")).ok())
        .filter(|command| command.contains(here))
        .collect();
    assert!(still.is_empty(), "{still:?}");
}

#[test]
fn the_swarm_runs_seeds_and_one_alone() {
    let many = lab(&["swarm", "--seeds", "3", "--seed", "5"]);
    assert!(many.status.success(), "{}", String::from_utf8_lossy(&many.stdout));
    assert!(String::from_utf8_lossy(&many.stdout).contains("3 seeds from 5"));
    let one = lab(&["swarm", "--seed", "5"]);
    assert!(one.status.success() && String::from_utf8_lossy(&one.stdout).contains("seed 5"));
}
