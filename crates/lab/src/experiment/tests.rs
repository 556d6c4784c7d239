//! Experiments that come with the program are sound; faults in one's own are told with place and mend.

mod secure;

use super::*;
use crate::metrics;

const SOUND: &str = r#"
title = "t"
vary = { load = [0.5, 2] }
load = { arrivals = "poisson" }
[[class]]
name = "home"
work = "10ms"
[[arm]]
name = "a"
front = "gateway"
settings = { "in_flight.limit" = 2, "home/queue.max" = 3 }
"#;

/// Faults of a text, as they are shown.
fn faults(text: &str) -> String {
    Experiment::parse("mine", text).expect_err("faults").to_string()
}

#[test]
fn every_builtin_experiment_is_sound_and_says_what_it_rests_on() {
    for builtin in builtin::ALL {
        let experiment = builtin.experiment().unwrap_or_else(|faults| panic!("{faults}"));
        assert!(!experiment.about.is_empty() && !experiment.checks.is_empty(), "{}", builtin.name);
        assert!(!experiment.plots.is_empty(), "{}", builtin.name);
        assert!(
            experiment.run.seeds >= 30 || experiment.is_live_only(),
            "{}: simulated figures come with 30 seeds",
            builtin.name
        );
        if let Some(live) = &experiment.live {
            assert!(live.repetitions >= 5, "{}: live figures come with 5 repetitions", builtin.name);
        }
    }
}

#[test]
fn what_is_not_written_has_its_default() {
    let experiment = Experiment::parse("mine", SOUND).unwrap_or_else(|faults| panic!("{faults}"));
    assert_eq!((experiment.run.seeds, experiment.loads.as_slice()), (30, &[0.5, 2.0][..]));
    let Subject::Web(web) = &experiment.subject else { panic!("clients and a server") };
    assert_eq!((web.classes[0].path.as_str(), web.load.timeout), ("/home", Duration::from_secs(2)));
    assert_eq!(experiment.arms[0].settings[1], ("home/queue.max".to_owned(), "3".to_owned()));
}

/// What is changed in a sound text, and what must be said about it.
#[test]
fn faults_name_place_key_and_mend() {
    for (from, to, said) in [
        (
            "work = \"10ms\"",
            "wrk = \"10ms\"",
            "mine.toml:7:1: class[0].wrk: there is no such key: did you mean work?",
        ),
        (
            "[0.5, 2]",
            "[0.5, -2]",
            "mine.toml:3:23: vary.load[1]: -2 is not allowed here: expected a number from 0.01 to 100",
        ),
        ("[0.5, 2]", "[0.5, 1e9]", "1e9 is not allowed here"),
        ("[0.5, 2]", "[2, 0.5]", "vary.load: is not in order"),
        (
            "work = \"10ms\"",
            "work = \"10\"",
            "class[0].work: \"10\" is not allowed here: expected a span of time",
        ),
        (
            "front = \"gateway\"",
            "front = \"gatway\"",
            "arm[0].front: \"gatway\" is not allowed here: expected one of \"direct\", \"gateway\"",
        ),
        (
            "\"in_flight.limit\" = 2",
            "\"in_flight.limt\" = 2",
            "there is no such knob of an application: did you mean in_flight.limit?",
        ),
        (
            "home/queue.max",
            "queue.max",
            "there is no such knob of an application: it belongs to a class: write home/queue.max",
        ),
        (
            "home/queue.max",
            "home/in_flight.limit",
            "there is no such knob of a class: it belongs to an application: write in_flight.limit",
        ),
        (
            "home/queue.max",
            "connections.max",
            "it belongs to a host: leave it out, since no experiment sets these",
        ),
        ("\"in_flight.limit\" = 2", "\"in_flight.limit\" = 0", "expected a whole number from 1"),
        (
            "\"in_flight.limit\" = 2",
            "\"in_flight.min\" = 9, \"in_flight.max\" = 3",
            "arm[0].settings.in_flight.min: 9 is more than in_flight.max, which is 3",
        ),
        ("home/queue.max", "shop/queue.max", "there is no class shop: write one of home"),
        ("title = \"t\"", "title = t", "not TOML"),
        ("name = \"a\"", "name = \"a\"\ncontroller = \"nowhere.lua\"", "cannot read nowhere.lua"),
        ("arrivals = \"poisson\"", "arrivals = \"poisson\", timeout = \"0s\"", "load.timeout"),
        ("name = \"home\"", "name = \"ho me\"", "\"ho me\" is no name of a class"),
        ("work = \"10ms\"", "work = \"10ms\"\npath = \"/a?b\"", "\"/a?b\" is no path"),
    ] {
        let text = SOUND.replacen(from, to, 1);
        assert_ne!(text, SOUND, "{from} is in the text");
        let faults = faults(&text);
        assert!(faults.contains(said), "{to}: {faults}");
        assert!(faults.starts_with("mine.toml:"), "{faults}");
    }
}

#[test]
fn checks_and_plots_refer_to_what_is_there() {
    let with = |more: &str| faults(&format!("{SOUND}{more}"));
    let check = "[[check]]\nname = \"c\"\nmetric = \"goodput_share\"\nop = \">=\"\nbar = 1\n";
    assert!(Experiment::parse("mine", &format!("{SOUND}{check}")).is_ok());
    assert!(with(&check.replace("goodput_share", "goodput")).contains("did you mean goodput_share?"));
    assert!(with(&check.replace("goodput_share", "shop:goodput_per_s")).contains("there is no class shop"));
    assert!(
        with(&check.replace("bar = 1", "bar = 1\narm = \"b\"")).contains("there is no arm b: write one of a")
    );
    assert!(
        with(&check.replace("bar = 1", "bar = 1\nat = 7")).contains("no load of the experiment lies there")
    );
    assert!(with(&check.replace("bar = 1", "")).contains("check[0].bar: is missing"));
    assert!(with("[[plot]]\ntitle = \"p\"\nmetric = \"goodput\"\n").contains("there is no metric goodput"));
    assert!(
        with("[[plot]]\ntitle = \"p\"\nmetric = \"godput\"\nover_time_at = 2\n")
            .contains("there is no series")
    );
    assert!(
        with("[[plot]]\ntitle = \"p\"\nmetric = \"goodput\"\nover_time_at = 7\n")
            .contains("plot[0].over_time_at: nothing runs at load 7: write one of")
    );
    let plot = "[[plot]]\ntitle = \"p\"\nmetric = \"goodput_share\"\n";
    assert!(with(&format!("{plot}without = [\"b\"]\n")).contains("plot[0].without: there is no arm b"));
    assert!(
        with(&format!("{plot}y_min = 5\ny_max = 2\n")).contains("plot[0].y_max: 2 is not above y_min, 5")
    );
    let many = SOUND.replacen("\"poisson\"", "\"poisson\", returns = { no_show = 0.6, early = 0.6 }", 1);
    assert!(faults(&many).contains("returns.early: the shares add up to 1.2"), "{}", faults(&many));
}

#[test]
fn visits_arrive_as_their_requests_load_the_server() {
    let site = "arrivals = \"poisson\", think = \"1s\", page = [{ name = \"home\", class = \"home\", next = { home = 0.75 } }]";
    let text = SOUND.replacen("arrivals = \"poisson\"", site, 1);
    let experiment = Experiment::parse("mine", &text).unwrap_or_else(|faults| panic!("{faults}"));
    let Subject::Web(web) = &experiment.subject else { panic!("clients and a server") };
    let scenario = crate::simulated::scenario(web, 2.0, &experiment.run, 1);
    let [clients] = &scenario.applications[0].clients[..] else { panic!("one kind of clients") };
    let tidegate_sim::Population::Sessions { arrivals, .. } = &clients.population else { panic!("visits") };
    // Twice the hundred a second, four requests each.
    assert_eq!(*arrivals, tidegate_sim::Arrivals::Poisson { per_s: 50.0 });
    assert!(faults(&format!("{text}[live]\n")).contains("leave out load.arrivals, for browsers, or [live]"));
    let phases = text.replacen("vary = { load = [0.5, 2] }\n", "", 1).replacen(
        "think =",
        "phase = [{ load = 1, for = \"9s\", shares = { home = 1 } }], think =",
        1,
    );
    assert!(faults(&phases).contains("the pages of visits say"), "{}", faults(&phases));
}

/// A few seeds: what all of them give is `tidegate lab run`.
#[test]
fn the_waiting_room_keeps_its_word_in_virtual_time() {
    for name in ["webq-burst", "webq-visits"] {
        let experiment = Experiment::find(name).expect("built in");
        let options = crate::simulated::Options { seed: 1, seeds: Some(3), progress: &|_, _| {} };
        let outcome = crate::simulated::run(&experiment, options).expect("it runs");
        for verdict in crate::verdict::judge(&experiment, &outcome) {
            assert!(verdict.pass, "{name}: {verdict:?}");
        }
    }
}

/// A run too short for any estimate counts as one that has not found the capacity; a front that seeks none has no such figure.
#[test]
fn a_capacity_that_is_sought_and_never_estimated_was_not_found() {
    for (algorithm, found) in
        [("knee_track", Some(f64::INFINITY)), ("power_ratio", Some(f64::INFINITY)), ("fixed", None)]
    {
        let text = SOUND.replace(
            r#"{ "in_flight.limit" = 2, "#,
            &format!(r#"{{ "in_flight.algorithm" = "{algorithm}", "#),
        ) + "[run]\nwarm_up = \"0s\"\nmeasured = \"12s\"\n";
        let text = text.replace("\"10ms\"", "\"1s\"");
        let experiment = Experiment::parse("mine", &text).expect("sound");
        let options = crate::simulated::Options { seed: 1, seeds: Some(2), progress: &|_, _| {} };
        let outcome = crate::simulated::run(&experiment, options).expect("it runs");
        for metric in ["found_within_5_s", "found_within_3_s", "reached_within_5_s", "reached_within_3_s"] {
            let value = outcome.estimate(0, 0, metric).map(|estimate| estimate.value);
            assert_eq!(value, found, "{metric} of {algorithm}");
        }
    }
}

/// What only one kind of run can do is a fault where the other is asked for too, not a figure that never comes.
#[test]
fn live_runs_are_asked_for_what_they_can_do_alone() {
    let live = format!("{SOUND}[live]\nload = [0.5]\n");
    let with = |more: &str| faults(&format!("{live}{more}"));
    let check = "[[check]]\nname = \"c\"\nmetric = \"goodput_share\"\nop = \">=\"\nbar = 1\n";
    assert!(Experiment::parse("mine", &format!("{live}{check}")).is_ok());
    let at_two = format!("{check}at = 2\n");
    assert!(with(&at_two).contains("no load of live runs lies there"), "{}", with(&at_two));
    assert!(Experiment::parse("mine", &format!("{live}{at_two}mode = \"simulated\"\n")).is_ok());
    assert!(with("[server]\nspeed = [{ at = \"1s\", to = 0.5 }]\n").contains("in virtual time only"));
    let server = |url: &str| faults(&format!("{SOUND}[live]\nserver = \"{url}\"\n"));
    assert!(server("https://127.0.0.1:1").contains("is not plain HTTP"));
    assert!(server("nowhere").contains("live.server"));
    let cheats = SOUND.replacen("\"poisson\"", "\"poisson\", returns = { cheat = 0.1 }", 1);
    assert!(faults(&format!("{cheats}[live]\n")).contains("is simulated only"));
    let phases =
        |more: &str| faults(&format!("{SOUND}[live]\nphase = [{{ load = 6, for = \"4s\"{more} }}]\n"));
    assert!(phases(", shares = { home = 1 }").contains("live runs have one mix"));
    assert!(phases(", fro = 1").contains("live.phase[0].fro"), "{}", phases(", fro = 1"));
    let waits = format!("{SOUND}[live]\norigin = \"waits\"\n");
    assert!(Experiment::parse("mine", &waits).is_ok());
    assert!(faults(&format!("{waits}[server]\nthreads = 4\n")).contains("the same number"));
    assert!(
        faults(&format!("{waits}server = \"http://127.0.0.1:9\"\n")).contains("live.origin: is the lab's")
    );
    let short = SOUND.replacen("\"10ms\"", "\"10ms\"\nwithin = \"100ms\"", 1);
    assert!(faults(&format!("{short}[live]\n")).contains("whatever a client waited for is good"));
}

#[test]
fn an_arm_has_a_room_if_it_says_how() {
    let has_room = |settings: &str| {
        let text = SOUND.replacen("\"in_flight.limit\" = 2", settings, 1);
        Experiment::parse("mine", &text).unwrap_or_else(|faults| panic!("{faults}")).arms[0].has_room()
    };
    assert!(has_room("waiting_room.method = \"fifo\""));
    assert!(!has_room("waiting_room.method = \"off\""));
    assert!(!has_room("waiting_room.hold = \"1s\""));
}

#[test]
fn classes_of_one_group_go_by_the_class_that_has_what_is_the_groups() {
    let boxes = |group: &str| {
        format!("{SOUND}[[class]]\nname = \"boxes\"\nwork = \"10ms\"\nwaiting_room.group = \"{group}\"\n")
    };
    let experiment = Experiment::parse("mine", &boxes("home")).unwrap_or_else(|faults| panic!("{faults}"));
    let Subject::Web(web) = &experiment.subject else { panic!("clients and a server") };
    let scenario = crate::simulated::scenario(web, 1.0, &experiment.run, 1);
    let groups: Vec<_> = scenario.applications[0].classes.iter().map(|class| class.group).collect();
    assert_eq!(groups, [None, Some(tidegate_control::ClassId(0))]);
    for wrong in ["boxes", "shop"] {
        let said = faults(&boxes(wrong));
        assert!(said.contains("no class without a group of its own: write one of home"), "{said}");
    }
    let own = boxes("home").replacen("home/queue.max\" = 3", "boxes/waiting_room.share\" = 0.5", 1);
    assert!(faults(&own).contains("write home/waiting_room.share"), "{}", faults(&own));
}

/// Every figure that can be asked for has its row.
#[test]
fn the_page_explains_every_metric_and_series() {
    let page = include_str!("../../../../docs/lab.md");
    let names = metrics::ALL.iter().map(|metric| metric.name);
    for name in names.chain(metrics::SERIES.iter().map(|(name, ..)| *name)) {
        assert!(page.contains(&format!("`{name}`")), "docs/lab.md: {name}");
    }
}

#[test]
fn several_faults_come_at_once_in_the_order_of_their_lines() {
    let text = SOUND.replace("10ms", "10").replace("[0.5, 2]", "[]").replace("title", "titel");
    let faults = faults(&text);
    let lines: Vec<&str> = faults.lines().collect();
    assert!(lines.len() >= 3, "{faults}");
    let numbers: Vec<usize> = lines.iter().filter_map(|line| line.split(':').nth(1)?.parse().ok()).collect();
    assert!(numbers.is_sorted(), "{faults}");
}

#[test]
fn an_experiment_that_is_not_there_is_told_with_what_is() {
    let fault = Experiment::find("overload-kne").expect_err("no such").to_string();
    assert!(fault.contains("did you mean overload-knee?"), "{fault}");
    let fault = Experiment::find("xyz.toml").expect_err("no such").to_string();
    assert!(fault.contains("queueing-truth"), "{fault}");
}

/// A run that ended before the last phase would tell that nothing ever recovers in it.
#[test]
fn a_run_is_as_long_as_the_phases_of_its_load() {
    let phases = "load = { phase = [{ load = 4, for = \"10s\" }, { load = 0.5, for = \"60s\" }] }";
    let sound = SOUND.replacen("vary = { load = [0.5, 2] }\n", "", 1);
    let with = |run: &str, load: &str| {
        let text = sound.replacen("load = { arrivals = \"poisson\" }", &format!("{load}\n{run}"), 1);
        Experiment::parse("mine", &text)
            .map(|experiment| (experiment.run.warm_up.as_secs(), experiment.run.measured.as_secs()))
    };
    assert_eq!(with("", "load = {}"), Ok((5, 20)));
    assert_eq!(with("", phases), Ok((0, 70)));
    assert_eq!(with("run = { warm_up = \"10s\" }", phases), Ok((10, 60)));
    assert_eq!(with("run = { measured = \"20s\" }", phases), Ok((0, 20)));
    assert_eq!(with("", &phases.replacen("[{", "[{ load = 1, for = \"1s\" }, {", 1)), Ok((0, 71)));
    assert_eq!(with("", &phases.replacen("load = {", "load = { repeat = true,", 1)), Ok((5, 20)));
    let faults =
        with("run = { warm_up = \"0s\", measured = \"10s\" }", phases).expect_err("too short").to_string();
    assert!(faults.contains("run.measured: the last phase of the load begins after 10s"), "{faults}");
}

/// Live, a class is told by the path of its requests.
#[test]
fn classes_of_live_runs_do_not_take_each_others_requests() {
    let class = |name: &str, path: &str| {
        format!("[[class]]\nname = \"{name}\"\nwork = \"10ms\"\npath = \"{path}\"\n")
    };
    let text = |classes: &[(&str, &str)]| {
        let classes: String = classes.iter().map(|(name, path)| class(name, path)).collect();
        format!(
            "title = \"t\"\nload = {{}}\nlive = {{}}\n{classes}[[arm]]\nname = \"a\"\nfront = \"gateway\"\n"
        )
    };
    for (classes, said) in [
        (&[("home", "/"), ("list", "/list")][..], None),
        (&[("home", "/home"), ("deep", "/list/deep"), ("list", "/list")], None),
        (&[("home", "/home"), ("list", "/list"), ("lists", "/lists")], None),
        (&[("home", "/"), ("list", "/")], Some("home: live, its requests are of list")),
        (&[("home", "/list/home"), ("list", "/list/")], Some("home: live, its requests are of list")),
        (
            &[("home", "/home"), ("list", "/list"), ("deep", "/list/deep")],
            Some("deep: live, its requests are of list"),
        ),
    ] {
        match (said, Experiment::parse("mine", &text(classes))) {
            (None, Ok(_)) => {}
            (Some(said), Err(faults)) => assert!(faults.to_string().contains(said), "{faults}"),
            (_, found) => panic!("{classes:?}: {found:?}"),
        }
    }
    let simulated = text(&[("home", "/"), ("list", "/")]).replacen("live = {}\n", "", 1);
    assert!(Experiment::parse("mine", &simulated).is_ok(), "the simulator asks for no path");
}

/// What may stand behind a key, mostly wrong there.
const VALUES: [&str; 16] = [
    "0",
    "1",
    "-1",
    "0.5",
    "1e300",
    "nan",
    "-inf",
    "9223372036854775807",
    "true",
    "\"\"",
    "\"1us\"",
    "\"99999999999999999999h\"",
    "\"/\"",
    "[]",
    "[[], {}, 3]",
    "{ at = \"1s\", to = 1e300, for = \"0s\", load = -1 }",
];

const TEXTS: [&str; 9] = [
    SOUND,
    include_str!("../../../../experiments/overload-knee.toml"),
    include_str!("../../../../experiments/masth-home-limit.toml"),
    include_str!("../../../../experiments/peers.toml"),
    include_str!("../../../../experiments/eac-sessions.toml"),
    include_str!("../../../../experiments/ecm-two-servers.toml"),
    include_str!("../../../../experiments/webq-discovery-servers.toml"),
    include_str!("../../../../experiments/webq-mix.toml"),
    include_str!("../../../../experiments/webq-people.toml"),
];

/// Whatever stands in a file, it is an experiment or has faults, each with its place.
#[test]
fn any_text_is_an_experiment_or_has_faults_with_a_place() {
    type Slips = (usize, Vec<(u16, u8)>, Vec<(u16, u8, bool)>);
    bolero::check!().with_iterations(2_000).with_type::<Slips>().for_each(|(choice, values, octets)| {
        let mut lines: Vec<String> = TEXTS[choice % TEXTS.len()].lines().map(str::to_owned).collect();
        for (line, value) in values.iter().take(4) {
            let count = lines.len();
            let line = &mut lines[usize::from(*line) % count];
            if let Some((key, _)) = line.split_once(" = ") {
                *line = format!("{key} = {}", VALUES[usize::from(*value) % VALUES.len()]);
            }
        }
        let mut text = lines.join("\n").into_bytes();
        for (at, octet, is_new) in octets.iter().take(choice / TEXTS.len() % 3) {
            let at = usize::from(*at) % text.len();
            text.splice(at..at + usize::from(!is_new), [*octet]);
        }
        let text = String::from_utf8_lossy(&text);
        if let Err(faults) = Experiment::parse("mine", &text) {
            let told = faults.to_string();
            assert!(told.contains("mine.toml:"), "{told}");
        }
    });
}
