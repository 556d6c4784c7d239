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
fn a_knob_in_the_wrong_table_is_sent_to_its_own_however_deep_its_name() {
    let text = "[[listener]]\naddress = \"[::]:8080\"\n[application.shop]\nservers = [\"http://127.0.0.1:8000\"]\n\
                queue.wait.max = \"10s\"\nhead.timeout = \"5s\"\n";
    assert_eq!(
        faults(text),
        [
            "t.toml:5:7: application.shop.queue.wait: there is no such key: it belongs to [application.NAME.class.CLASS]",
            "t.toml:6:1: application.shop.head: there is no such key: it belongs to the top level",
        ]
    );
}

#[test]
fn a_table_around_keys_that_stand_without_it_is_told_so() {
    let head = "[[listener]]\naddress = \"[::]:8080\"\n[application.shop]\n";
    assert_eq!(
        faults(&format!("{head}[host]\nconnections.max = 5\n")),
        ["t.toml:4:2: host: there is no such key: write what is in it without [host], as keys of top level"]
    );
    assert_eq!(
        faults(&format!("{head}[host]\nanything = 5\n")),
        ["t.toml:4:2: host: there is no such key: docs/configuration.md lists the keys of top level"]
    );
}

#[test]
fn a_condition_of_a_rule_names_something() {
    let head =
        "[[listener]]\naddress = \"[::]:8080\"\n[application.shop]\nservers = [\"http://127.0.0.1:8000\"]\n";
    let rule = "[application.shop.class.default]\n[[application.shop.rule]]\nclass = \"default\"\nclient = []\npath = []\n";
    let found = faults(&format!("{head}{rule}"));
    assert_eq!(found.len(), 2, "{found:#?}");
    for (line, key) in [(8, "client"), (9, "path")] {
        let start = format!("t.toml:{line}:");
        let said = format!("rule[0].{key}: names nothing: name at least one, or leave it out");
        assert!(found.iter().any(|fault| fault.starts_with(&start) && fault.ends_with(&said)), "{found:#?}");
    }
}

#[test]
fn a_token_names_applications_that_there_are_to_report_of() {
    let gateway =
        "[[listener]]\naddress = \"[::]:8080\"\n[application.shop]\nservers = [\"http://127.0.0.1:8000\"]\n";
    let token = |name: &str, rest: &str| {
        format!("[[admin_token]]\nname = \"{name}\"\nfile = \"{name}.token\"\n{rest}\n")
    };
    let check = token("a", "role = \"check\"\napplications = [\"shop\", \"shpo\"]");
    let reader = token("b", "applications = \"shop\"");
    assert_eq!(
        faults(&(gateway.to_owned() + &check + &reader)),
        [
            "t.toml:9:1: admin_token[0].applications: there is no application \"shpo\": did you mean \"shop\"?",
            "t.toml:13:16: admin_token[1].applications: is for role = \"check\": who may look may look at all of them: \
             leave it out, or write role = \"check\"",
        ]
    );
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
fn the_default_class_is_one_that_has_a_table_or_default() {
    let file = |inside: &str| {
        format!(
            "[[listener]]\naddress = \"[::]:8080\"\n[application.shop]\nservers = [\"http://127.0.0.1:8000\"]\n{inside}\n"
        )
    };
    let parse = |inside: &str| tidegate_config::parse(&file(inside), Path::new("/etc/tidegate"), "t.toml");
    for inside in
        ["", "default_class = \"default\"", "default_class = \"default\"\n[application.shop.class.home]"]
    {
        let settings = parse(inside).unwrap_or_else(|faults| panic!("{inside}: {faults}"));
        assert_eq!(settings.applications[0].classes[0].name, "default", "{inside}");
    }
    let there_is = "there is \"default\"";
    assert_eq!(
        faults(&file("default_class = \"nocls\"\nrule = [{ class = \"items\" }, { class = \"nocls\" }]")),
        [
            format!("t.toml:5:17: application.shop.default_class: there is no class \"nocls\": {there_is}"),
            format!("t.toml:6:19: application.shop.rule[0].class: there is no class \"items\": {there_is}"),
            format!("t.toml:6:40: application.shop.rule[1].class: there is no class \"nocls\": {there_is}"),
        ]
    );
    assert_eq!(
        faults(&file("default_class = \"none\"\n[application.shop.class.home]")),
        [
            "t.toml:5:17: application.shop.default_class: there is no class \"none\": there is \"home\", \"default\""
        ]
    );
}

#[test]
fn of_many_names_some_are_shown_and_the_others_counted() {
    let classes: String = (0..11).map(|n| format!("[application.shop.class.c{n:02}]\n")).collect();
    let text = format!(
        "[[listener]]\naddress = \"[::]:8080\"\n[application.shop]\nservers = [\"http://127.0.0.1:8000\"]\n\
         rule = [{{ class = \"tickets\" }}]\n{classes}"
    );
    assert_eq!(
        faults(&text),
        [
            "t.toml:5:19: application.shop.rule[0].class: there is no class \"tickets\": there is \"default\", \"c00\", \"c01\", \
          \"c02\", \"c03\", \"c04\", \"c05\", \"c06\" and 4 more"
        ]
    );
}

#[test]
fn without_an_application_a_listener_names_none() {
    assert_eq!(
        faults("[[listener]]\naddress = \"[::]:8080\"\napplication = \"shop\"\n"),
        [
            "t.toml:1:1: application: is missing: write [application.NAME] with servers = [\"http://127.0.0.1:8000\"]",
            "t.toml:3:15: listener[0].application: there is no application \"shop\": leave it out, since there is none",
        ]
    );
}

#[test]
fn a_certificate_that_is_no_list_is_one_fault() {
    let said = faults(
        "[[listener]]\naddress = \"[::]:443\"\ntls.certificates = { chain = \"a.pem\", key = \"a.key\" }\n[application.a]\n",
    );
    assert!(said.len() == 1 && said[0].contains("expected a list"), "{said:?}");
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

#[test]
fn telemetry_has_a_collector_and_its_secrets_stand_elsewhere() {
    let gateway =
        "[[listener]]\naddress = \"[::]:8080\"\n[application.shop]\nservers = [\"http://127.0.0.1:8000\"]\n";
    let telemetry = r#"[telemetry]
endpoint = "https://me:hush@otlp.example"
resource = ["team", "region=eu"]
metrics.interval = "5ms"
timeout = "none"
traces.parent = "some"
traces.sample = 2.0
[[telemetry.header]]
name = "authorization"
[[telemetry.header]]
name = "x-tenant"
file = "tenant"
environment = "TENANT"
[[telemetry.header]]
name = "X-Tenant"
value = "hush"
[[telemetry.header]]
name = "host"
environment = "HOST"
"#;
    let found = faults(&format!("{telemetry}{gateway}"));
    assert_eq!(
        found,
        [
            "t.toml:2:12: telemetry.endpoint: holds a user or password: leave them out and send them by [[telemetry.header]] with name = \"authorization\"",
            "t.toml:3:13: telemetry.resource[0]: \"team\" is not allowed here: expected NAME=VALUE such as \"deployment.environment.name=production\"",
            "t.toml:4:20: telemetry.metrics.interval: \"5ms\" is not allowed here: expected a span of time from 1s to 1h, such as \"15s\", or \"none\"",
            "t.toml:5:11: telemetry.timeout: \"none\" is not allowed here: expected a span of time from 10ms to 1min, such as \"250ms\"",
            "t.toml:6:17: telemetry.traces.parent: \"some\" is not allowed here: expected one of \"trusted\", \"all\", \"none\"",
            "t.toml:7:17: telemetry.traces.sample: 2.0 is not allowed here: expected a number from 0 to 1, or \"none\"",
            "t.toml:9:8: telemetry.header[0].name: has no value: write either file = \"collector.token\" or environment = \"COLLECTOR_TOKEN\"",
            "t.toml:11:8: telemetry.header[1].name: has two values: write either file = \"collector.token\" or environment = \"COLLECTOR_TOKEN\"",
            "t.toml:15:8: telemetry.header[2].name: \"x-tenant\" is taken (line 11): give each a name of its own",
            "t.toml:15:8: telemetry.header[2].name: has no value: write either file = \"collector.token\" or environment = \"COLLECTOR_TOKEN\"",
            "t.toml:16:1: telemetry.header[2].value: there is no such key: docs/configuration.md lists the keys of [[telemetry.header]]",
            "t.toml:18:8: telemetry.header[3].name: \"host\" is set by Tidegate itself: leave it out",
        ]
    );
    assert!(!found.concat().contains("hush"), "{found:?}");
    assert_eq!(
        faults(&format!("telemetry.service_name = \"edge\"\n{gateway}")),
        [
            "t.toml:1:26: telemetry.service_name: is written without telemetry.endpoint, so nothing is exported: write telemetry.endpoint = \"http://127.0.0.1:4318\""
        ]
    );
    // The share alone is a knob, which is there whether it has somewhere to go or not.
    let alone = format!("telemetry.traces.sample = 0.5\n{gateway}");
    assert!(tidegate_config::parse(&alone, Path::new("/"), "t.toml").is_ok_and(|it| it.telemetry.is_none()));
}

#[test]
fn what_proves_who_somebody_is_is_hidden_in_print_and_asked_for_where_that_is_read() {
    let text = "[[listener]]\naddress = \"[::]:80\"\n[application.a]\nservers = \"http://h\"\nrequest_headers = [\n\
        { set = \"Authorization\", value = \"Basic c2VjcmV0\" },\n{ add = \"x-api-key\", value = \"c2VjcmV0\" },\n\
        { set = \"x-role\", value = \"(hidden)\" },\n]\n";
    let settings = tidegate_config::parse(text, Path::new("/"), "t.toml").unwrap();
    let printed = tidegate_config::print(&settings);
    assert!(!printed.contains("c2VjcmV0") && printed.contains("x-role"), "{printed}");
    let asked = faults(&printed);
    assert!(
        asked.len() == 2 && asked.iter().all(|fault| fault.contains("write the value itself")),
        "{asked:?}"
    );
}
