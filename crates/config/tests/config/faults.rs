//! Bad files: each with the exact lines that are reported.

use std::{fs, path::Path};

fn faults(text: &str) -> Vec<String> {
    match tidegate_config::parse(text, Path::new("/etc/tidegate"), "t.toml") {
        Ok(settings) => panic!("no fault was found in\n{text}\n{settings:?}"),
        Err(faults) => faults.to_string().lines().map(str::to_owned).collect(),
    }
}

/// One file with a fault in almost every line. After a change of words:
/// `UPDATE_DOCS=1 cargo test -p tidegate-config faults`, and read the difference.
#[test]
fn the_golden_file_of_faults() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let text = fs::read_to_string(golden.join("bad.toml")).unwrap();
    let found = faults(&text).join("\n") + "\n";
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(golden.join("bad.faults"), &found).unwrap();
    }
    let expected = fs::read_to_string(golden.join("bad.faults")).unwrap_or_default();
    for (found, expected) in found.lines().zip(expected.lines()) {
        assert_eq!(found, expected);
    }
    assert_eq!(found.lines().count(), expected.lines().count());
}

#[test]
fn controllers_have_a_file_a_name_of_their_own_and_bounds() {
    let gateway =
        "[[listener]]\naddress = \"[::]:8080\"\n[application.shop]\nservers = [\"http://127.0.0.1:8000\"]\n";
    let controllers = r#"[[controller]]
name = "a"
[[controller]]
file = "laws/home.lua"
strikes = 0
every.min = "1ms"
turn = { steps = 10, time = "2min" }
memory = "1KiB"
on_failure = "ignore"
[[controller]]
file = "other/home.lua"
[[controller]]
file = "home.lua"
"#;
    assert_eq!(
        faults(&format!("{gateway}{controllers}")),
        [
            "t.toml:5:1: controller[0].file: is missing: write file = \"home-limit.lua\"",
            "t.toml:9:11: controller[1].strikes: 0 is not allowed here: expected a whole number from 1 to 1000",
            "t.toml:10:13: controller[1].every.min: \"1ms\" is not allowed here: expected a span of time from 10ms to 1h, such as \"250ms\"",
            "t.toml:11:18: controller[1].turn.steps: 10 is not allowed here: expected a whole number from 1000 to 1000000000",
            "t.toml:11:29: controller[1].turn.time: \"2min\" is not allowed here: expected a span of time from 1ms to 1min, such as \"250ms\"",
            "t.toml:12:10: controller[1].memory: \"1KiB\" is not allowed here: expected a size from 1MiB to 1GiB, such as \"10MiB\"",
            "t.toml:13:14: controller[1].on_failure: \"ignore\" is not allowed here: expected one of \"keep\", \"revert\"",
            "t.toml:16:1: controller[3].name: \"home.lua\" is taken (line 14): give each a name of its own",
        ]
    );
}

#[test]
fn an_empty_file_lacks_listener_and_application() {
    assert_eq!(
        faults(""),
        [
            "t.toml:1:1: application: is missing: write [application.NAME] with servers = [\"http://127.0.0.1:8000\"]",
            "t.toml:1:1: listener: is missing: write [[listener]] with address = \"[::]:8080\"",
        ]
    );
    assert_eq!(
        faults("listener = []\napplication = {}"),
        [
            "t.toml:1:1: listener: is empty: write [[listener]] with address = \"[::]:8080\"",
            "t.toml:2:1: application: is empty: write [application.NAME] with servers",
        ]
    );
}

#[test]
fn errors_of_syntax_are_all_reported_and_hide_what_they_may_have_caused() {
    let text = "admin = \nconnections.max = 0\nheaders.max = 1 2\nadmn = 1\n[[listener]\naddress = \"8080\"\n[[listener]]\naddress = \"8080\"\nname = \"x\n";
    assert_eq!(
        faults(text),
        [
            "t.toml:1:9: not TOML: string values must be quoted, expected literal string",
            "t.toml:2:19: connections.max: 0 is not allowed here: expected a whole number from 1 to 10000000",
            "t.toml:3:15: not TOML: string values must be quoted, expected literal string",
            "t.toml:4:1: admn: there is no such key: did you mean admin?",
            "t.toml:5:12: not TOML: unclosed array table, expected `]`",
            "t.toml:8:11: listener[0].address: \"8080\" is not allowed here: expected an IP address and port such as \"[::]:443\", or a Unix socket's path such as \"unix:/run/tidegate.sock\"",
            "t.toml:9:10: not TOML: invalid basic string, expected `\"`",
        ]
    );
}

#[test]
fn a_key_written_twice_is_a_fault_however_it_is_written() {
    let text =
        "[[listener]]\naddress = \"[::]:1\"\n[application.a]\nin_flight.limit = 8\n\"in_flight.limit\" = 9\n";
    assert_eq!(
        faults(text),
        ["t.toml:5:1: application.a.\"in_flight.limit\": is written twice: keep one of them"]
    );
    let text =
        "[[listener]]\naddress = \"[::]:1\"\n[application.a]\nin_flight.limit = 8\nin_flight.limit = 9\n";
    assert_eq!(faults(text), ["t.toml:5:11: not TOML: duplicate key"]);
}

#[test]
fn counts_are_bounded() {
    let mut text =
        "[[listener]]\naddress = \"[::]:1\"\n[application.a]\nhosts = \"a\"\nrule = [\n".to_owned();
    text.push_str(&"{},\n".repeat(4097));
    text.push_str("]\n[application.a.class]\n");
    for class in 0..257 {
        text.push_str(&format!("c{class} = {{}}\n"));
    }
    assert_eq!(
        faults(&text),
        [
            "t.toml:5:1: application.a.rule: has 4097 entries: at most 4096 are allowed",
            "t.toml:4104:16: application.a.class: has 257 entries: at most 256 are allowed",
        ]
    );
}

#[test]
fn no_more_faults_are_shown_than_anybody_reads() {
    let text: String = (0..5000).map(|number| format!("unknown{number} = 1\n")).collect();
    let lines = faults(&text);
    assert_eq!(lines.len(), tidegate_config::FAULTS_MAX + 1);
    assert_eq!(lines.last().unwrap(), "t.toml: 4002 more faults are not shown");
}
