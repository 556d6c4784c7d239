//! The overview of a gateway as lines of text, tables in 80 columns.

use std::fmt::Write as _;

use serde_json::Value as Json;

use super::modes::controls_in;

/// Between the parts of a line.
pub(super) const BETWEEN: &str = " · ";

/// A line and how it looks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) tone: Tone,
    pub(super) text: String,
}

/// How a line looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tone {
    /// The name of something.
    Title,
    /// The head of a table.
    Head,
    /// Figures.
    Row,
    /// Something a person should look at.
    Alarm,
    /// The gateway does not answer.
    Lost,
}

/// The lines of an overview, of all applications or one.
pub(super) fn lines(overview: &Json, address: &str, only: Option<&str>) -> Vec<Line> {
    let mut lines = gateway(overview, address);
    for application in each(&overview["applications"]) {
        if only.is_none_or(|only| application["name"] == only) {
            lines.push(row(Tone::Row, String::new()));
            lines.extend(of_application(application, overview["at"].as_f64().unwrap_or(0.0)));
        }
    }
    for controller in each(&overview["controllers"]) {
        if controller["state"] == "stopped" {
            let text =
                format!("controller {} is stopped: {}", word(&controller["name"]), word(&controller["why"]));
            lines.push(row(Tone::Alarm, text));
        }
    }
    lines
}

/// The same in so many columns: what is longer goes on in the next line, from one of the dots in it.
pub(super) fn fitted(lines: &[Line], width: usize) -> Vec<Line> {
    let mut all = Vec::with_capacity(lines.len());
    for line in lines {
        let mut text = String::new();
        for part in line.text.split(BETWEEN) {
            let length = text.chars().count();
            if length > 0 && length + BETWEEN.chars().count() + part.chars().count() > width {
                all.push(row(line.tone, std::mem::replace(&mut text, format!("    {part}"))));
            } else {
                if length > 0 {
                    text.push_str(BETWEEN);
                }
                text.push_str(part);
            }
        }
        all.push(row(line.tone, text));
    }
    all
}

fn gateway(overview: &Json, address: &str) -> Vec<Line> {
    let gateway = &overview["gateway"];
    let up = overview["at"].as_f64().unwrap_or(0.0) - gateway["started_at"].as_f64().unwrap_or(0.0);
    let mut lines = vec![
        row(
            Tone::Title,
            format!(
                "Tidegate {} on {address} · up {} · rates over {} s",
                word(&gateway["version"]),
                span(up),
                overview["window_s"]
            ),
        ),
        row(
            Tone::Row,
            format!(
                "{} connections, {} of them parked · {} CPUs of {} busy on the host · {} resident",
                whole(&gateway["connections_open"]),
                whole(&gateway["connections_parked"]),
                two(&gateway["cpu"]),
                two(&gateway["host_cpu"]),
                bytes(&gateway["memory_bytes"]),
            ),
        ),
    ];
    if gateway["ready"] == false {
        lines.push(row(Tone::Alarm, "not ready: starting or draining".to_owned()));
    }
    let why = word(&gateway["recording"]["why"]);
    if gateway["recording"]["kept"] == false && why != "no state_directory is configured" {
        lines.push(row(Tone::Alarm, format!("measured in memory only: {why}")));
    }
    lines
}

fn of_application(application: &Json, at: f64) -> Vec<Line> {
    let capacity = match application["capacity"].as_f64() {
        Some(capacity) => format!(" · capacity {capacity:.1}/s"),
        None => String::new(),
    };
    // A limit that does not act bounds nothing.
    let limit = match application["modes"]["in_flight"].as_str() {
        Some("watch" | "off") => String::new(),
        _ => format!(" of {}", whole(&application["in_flight_limit"])),
    };
    let dormant = match application["in_flight_dormant"].as_u64() {
        Some(dormant) if dormant > 0 => format!(" ({dormant} dormant)"),
        _ => String::new(),
    };
    let mut lines = vec![
        row(
            Tone::Title,
            format!(
                "{} ({}) · {}{limit} in flight{dormant}{capacity} · {} waiting",
                word(&application["name"]),
                word(&application["mode"]),
                whole(&application["in_flight"]),
                whole(&application["queued"]),
            ),
        ),
        row(
            Tone::Row,
            format!(
                "  {}/s arrived · {}/s started · {}/s good · {}/s left · {}/s abandoned",
                one(&application["arrived"]),
                one(&application["started"]),
                one(&application["goodput"]),
                one(&application["left"]),
                one(&application["abandoned"]),
            ),
        ),
    ];
    lines.extend(capacity_of(application, at));
    lines.extend(processors_of(application));
    lines.extend(sessions_of(application));
    lines.extend(room_of(application, at));
    let refused = split(&application["refused"]);
    if !refused.is_empty() {
        lines.push(row(Tone::Alarm, format!("  refused each second: {refused}")));
    }
    lines.extend(resting(application));
    lines.push(row(
        Tone::Head,
        format!(
            "  {:<12} {:>7} {:>7} {:>7} {:>7} {:>6} {:>8} {:>8} {:>8}",
            "class, per s",
            "arrived",
            "started",
            "good",
            "refused",
            "waits",
            "wait p95",
            "resp.p50",
            "resp.p95"
        ),
    ));
    for class in each(&application["classes"]) {
        let refused = sum(&class["refused"]);
        lines.push(row(
            Tone::Row,
            format!(
                "  {:<12} {:>7} {:>7} {:>7} {refused:>7.1} {:>6} {:>8} {:>8} {:>8}",
                cut(&word(&class["name"]), 12),
                one(&class["arrived"]),
                one(&class["started"]),
                one(&class["goodput"]),
                whole(&class["queued"]),
                time(&class["waiting_time"]["p95"]),
                time(&class["response_time"]["p50"]),
                time(&class["response_time"]["p95"]),
            ),
        ));
    }
    lines.push(row(
        Tone::Head,
        format!(
            "  {:<20} {:>11} {:>9} {:>10} {:>9} {:>10}",
            "server", "state", "in flight", "requests/s", "errors/s", "response"
        ),
    ));
    for server in each(&application["servers"]) {
        let draining = server["draining"] == true || server["member"] == false;
        let state = if draining { "draining".to_owned() } else { word(&server["condition"]) };
        let errors = sum(&server["upstream_errors"]);
        let tone = if matches!(state.as_str(), "up" | "draining") { Tone::Row } else { Tone::Alarm };
        lines.push(row(
            tone,
            format!(
                "  {:<20} {state:>11} {:>9} {:>10} {errors:>9.1} {:>10}",
                cut(&word(&server["name"]), 20),
                whole(&server["in_flight"]),
                one(&server["requests"]),
                time(&server["response_time_s"]),
            ),
        ));
    }
    if each(&application["servers"]).next().is_none() {
        lines.push(row(Tone::Alarm, "  no server: every request is refused".to_owned()));
    }
    lines
}

/// What does not act, and what that comes to which only watches.
fn resting(application: &Json) -> Vec<Line> {
    let mut parts = Vec::new();
    parts.extend(controls_in(application, "watch").map(|controls| format!("watch only: {controls}")));
    parts.extend(controls_in(application, "off").map(|controls| format!("off: {controls}")));
    let would = split(&application["would_refuse"]);
    if !would.is_empty() {
        parts.push(format!("would be refused each second: {would}"));
    }
    let waiting = application["would_wait"].as_u64().filter(|waiting| *waiting > 0);
    parts.extend(waiting.map(|waiting| format!("would be waiting: {waiting}")));
    parts.into_iter().map(|part| row(Tone::Alarm, format!("  {part}"))).collect()
}

/// Where the capacity comes from, and why it moved last.
fn capacity_of(application: &Json, at: f64) -> Option<Line> {
    let estimate = &application["estimate"];
    let mut parts = Vec::new();
    let rate = |value: &Json| value.as_f64().map(|per_s| format!("{per_s:.1}/s"));
    if let Some(told) = rate(&estimate["told"]["per_s"]) {
        let ends = estimate["told"]["until"].as_f64();
        let ends = ends.map_or_else(String::new, |until| format!(" for {}", span(until - at)));
        parts.push(format!("told {told}{ends}"));
    }
    if let Some(given) = rate(&estimate["given_per_s"]) {
        parts.push(format!("given {given}"));
    } else {
        parts.extend(rate(&estimate["floor_per_s"]).map(|floor| format!("floor {floor}")));
        parts.extend(rate(&estimate["ceiling_per_s"]).map(|ceiling| format!("ceiling {ceiling}")));
    }
    let moved = &estimate["moved"];
    if let Some(when) = moved["at"].as_f64() {
        let known = |value: &Json| rate(value).unwrap_or_else(|| "unknown".to_owned());
        parts.push(format!(
            "moved {} ago by {}: {} -> {}",
            span(at - when),
            word(&moved["cause"]),
            known(&moved["before_per_s"]),
            known(&moved["after_per_s"])
        ));
    }
    (!parts.is_empty()).then(|| row(Tone::Row, format!("  capacity: {}", parts.join(" · "))))
}

/// Which TLS sessions come, and how many new ones are let in.
fn sessions_of(application: &Json) -> Option<Line> {
    let sessions = application["tls_sessions"].as_object()?;
    let per_s = |what: &str| sum_of(&sessions["rates"], &[what]) + 0.0;
    let mut parts = vec![format!("{:.1}/s new", per_s("new")), format!("{:.1}/s resumed", per_s("resumed"))];
    parts.extend(sessions["new_per_s"].as_f64().map(|rate| format!("new ones at most {rate:.1}/s")));
    let turned_away = [("refused", "refused"), ("would_refuse", "would be refused")];
    let turned_away = turned_away.into_iter().filter(|(what, _)| per_s(what) > 0.0);
    parts.extend(turned_away.map(|(what, said)| format!("{:.1}/s {said}", per_s(what))));
    let tone = if per_s("refused") > 0.0 { Tone::Alarm } else { Tone::Row };
    Some(row(tone, format!("  TLS sessions: {}", parts.join(" · "))))
}

/// What the CPU manager was asked for, and what it has given.
fn processors_of(application: &Json) -> Option<Line> {
    let processors = &application["processors"];
    let given = processors["given"].as_f64()?;
    let asked = processors["asked"].as_f64();
    let asked = asked.map_or_else(String::new, |asked| format!(" of {asked:.2} asked for"));
    Some(row(Tone::Row, format!("  processors: {given:.2}{asked}")))
}

/// Who waits, what the next visitor is told, and what became of promises.
fn room_of(application: &Json, at: f64) -> Vec<Line> {
    let room = &application["room"];
    if !room.is_object() {
        return Vec::new();
    }
    let next = next_at(room, at);
    let per_s = |what: &str| application["room_rates"][what].as_f64().unwrap_or(0.0);
    let counts = |what: &str| whole(&room["counts"][what]);
    let no_shows = room["no_show_share"].as_f64().unwrap_or(0.0) * 100.0;
    let mut lines = vec![row(
        Tone::Row,
        format!(
            "  waiting room ({}): {} wait · {next} · {:.1}/s told a time · {:.1}/s came in time",
            word(&room["method"]),
            whole(&room["waiting"]),
            per_s("promised"),
            per_s("kept"),
        ),
    )];
    let missed = format!(
        "  promises since the start: {} kept, {} missed · {} did not come (expected of {no_shows:.0} %)",
        counts("kept"),
        counts("missed"),
        counts("no_show"),
    );
    let tone = if per_s("missed") > 0.0 { Tone::Alarm } else { Tone::Row };
    lines.push(row(tone, missed));
    lines.extend(each(&room["groups"]).map(|group| of_group(group, application, at)));
    if room["report_overdue"] == true {
        lines.push(row(Tone::Alarm, "  waiting room: the check does not report".to_owned()));
    }
    lines
}

/// Whose doors and share are a group's own: who waits there, and who is let in.
fn of_group(group: &Json, application: &Json, at: f64) -> Line {
    let is_of = |class: &&Json| each(&group["classes"]).any(|name| *name == class["name"]);
    let let_in = |class: &Json| sum_of(&class["room_rates"], &["direct", "kept"]);
    let let_in: f64 = each(&application["classes"]).filter(is_of).map(let_in).sum();
    let said = group["closed_message"].as_str().filter(|_| group["method"] == "closed");
    let said = said.map_or_else(String::new, |_| format!(": {}", word(&group["closed_message"])));
    let share = group["share"].as_f64();
    let share = share.map_or_else(String::new, |share| format!(" · {:.0} % of each slot", share * 100.0));
    let text = format!(
        "  group {} ({}): {} wait · {}{said}{share} · {:.1}/s let in",
        word(&group["class"]),
        word(&group["method"]),
        whole(&group["waiting"]),
        next_at(group, at),
        let_in + 0.0,
    );
    row(Tone::Row, text)
}

/// What the next visitor is told, and when doors open.
fn next_at(doors: &Json, at: f64) -> String {
    let next = match (doors["next_wait_s"].as_f64(), doors["method"].as_str()) {
        (Some(wait), _) if wait > 0.0 => format!("the next waits {}", span(wait)),
        (Some(_), _) => "the next goes on at once".to_owned(),
        (None, Some("closed")) => "doors are closed".to_owned(),
        (None, _) => "no time can be promised to the next".to_owned(),
    };
    let opens = doors["opens_at"].as_f64().filter(|opens| *opens > at);
    let opens = opens.map_or_else(String::new, |opens| format!(" · opens in {}", span(opens - at)));
    format!("{next}{opens}")
}

const fn row(tone: Tone, text: String) -> Line {
    Line { tone, text }
}

pub(super) fn each(list: &Json) -> impl Iterator<Item = &Json> {
    list.as_array().into_iter().flatten()
}

/// A text without what a terminal would take for orders.
pub(super) fn word(text: &Json) -> String {
    text.as_str().unwrap_or("-").chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

fn cut(text: &str, length: usize) -> String {
    if text.chars().count() <= length {
        return text.to_owned();
    }
    text.chars().take(length - 1).chain(['…']).collect()
}

fn whole(number: &Json) -> String {
    number.as_u64().map_or("-".to_owned(), |number| number.to_string())
}

fn one(number: &Json) -> String {
    number.as_f64().map_or("-".to_owned(), |number| format!("{number:.1}"))
}

fn two(number: &Json) -> String {
    number.as_f64().map_or("-".to_owned(), |number| format!("{number:.2}"))
}

fn time(seconds: &Json) -> String {
    match seconds.as_f64() {
        None => "-".to_owned(),
        Some(seconds) if seconds < 1.0 => format!("{:.1} ms", seconds * 1e3),
        Some(seconds) => format!("{seconds:.2} s"),
    }
}

fn bytes(number: &Json) -> String {
    number.as_f64().map_or("-".to_owned(), |bytes| format!("{:.0} MiB", bytes / 1_048_576.0))
}

/// All labels of a rate together. The sum of nothing is -0 for floating point numbers, and shown as 0.
fn sum(rates: &Json) -> f64 {
    rates.as_object().into_iter().flatten().filter_map(|(_, rate)| rate.as_f64()).sum::<f64>() + 0.0
}

/// Some labels of a rate together.
fn sum_of(rates: &Json, labels: &[&str]) -> f64 {
    labels.iter().filter_map(|label| rates[*label].as_f64()).sum()
}

/// `58.9 queue_full, 0.4 codel`.
fn split(rates: &Json) -> String {
    let mut text = String::new();
    for (label, rate) in rates.as_object().into_iter().flatten() {
        let comma = if text.is_empty() { "" } else { ", " };
        let _ = write!(text, "{comma}{} {label}", one(rate));
    }
    text
}

fn span(seconds: f64) -> String {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "not negative, whole seconds shown"
    )]
    let seconds = seconds.max(0.0) as u64;
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    match (days, hours) {
        (0, 0) => format!("{minutes} min {} s", seconds % 60),
        (0, _) => format!("{hours} h {minutes} min"),
        _ => format!("{days} d {hours} h"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_matters_is_shown_and_what_is_unknown_is_a_dash() {
        let overview = json!({
            "at": 4000.0, "window_s": 2.0,
            "gateway": { "version": "1", "started_at": 100.0, "ready": true, "connections_open": 5, "connections_parked": 2,
                "cpu": 0.314, "host_cpu": null, "memory_bytes": 10_485_760, "recording": { "kept": false, "why": "disk full" } },
            "applications": [{ "name": "shop", "mode": "enforce", "in_flight": 3, "in_flight_limit": 8, "in_flight_dormant": 2, "queued": 1,
                "capacity": 143.21, "arrived": 9.0, "refused": { "queue_full": 58.94 }, "would_refuse": {},
                "classes": [{ "name": "a-class-with-a-very-long-name", "arrived": 9.0, "refused": { "queue_full": 58.94 },
                    "queued": 1, "waiting_time": { "p95": 0.0123 }, "response_time": null }],
                "servers": [{ "name": "s\u{1b}[2J", "condition": "paused", "member": true, "draining": false, "in_flight": 0 }] }],
            "controllers": [{ "name": "law.lua", "state": "stopped", "why": "law.lua:3: no" }],
        });
        let lines = lines(&overview, "127.0.0.1:9900", None);
        let alarms: Vec<_> =
            lines.iter().filter(|line| line.tone == Tone::Alarm).map(|line| line.text.as_str()).collect();
        assert_eq!(alarms[0], "measured in memory only: disk full");
        assert_eq!(alarms[1], "  refused each second: 58.9 queue_full");
        assert!(
            alarms[2].contains("s?[2J") && alarms[2].contains("paused"),
            "no orders to the terminal: {alarms:?}"
        );
        assert_eq!(alarms[3], "controller law.lua is stopped: law.lua:3: no");
        let all: Vec<_> = lines.iter().map(|line| line.text.as_str()).collect();
        let all = all.join("\n");
        for part in [
            "up 1 h 5 min",
            "0.31 CPUs of - busy",
            "3 of 8 in flight (2 dormant) · capacity 143.2/s",
            "a-class-wit…",
            "12.3 ms",
        ] {
            assert!(all.contains(part), "{part}: {all}");
        }
        assert!(!all.contains("-0.0"), "{all}");
        let tables = lines.iter().skip_while(|line| line.tone != Tone::Head);
        assert!(
            tables.clone().count() > 3 && tables.clone().all(|line| line.text.chars().count() <= 80),
            "{all}"
        );
        assert!(super::lines(&overview, "x", Some("other")).len() < 6);
        assert!(
            !all.contains("waiting room") && !all.contains("capacity:"),
            "nothing of what there is not: {all}"
        );
    }

    #[test]
    fn capacity_and_waiting_room_have_their_lines() {
        let mut overview = json!({
            "at": 4000.0, "window_s": 2.0, "gateway": {}, "applications": [{ "name": "shop",
                "estimate": { "told": { "per_s": 120.0, "until": 4030.0 }, "given_per_s": null, "floor_per_s": 20.0,
                    "moved": { "at": 3988.0, "cause": "fall", "before_per_s": 150.0, "after_per_s": null } },
                "room": { "method": "fifo", "waiting": 250, "next_wait_s": 62.0, "no_show_share": 0.2, "opens_at": null,
                    "counts": { "kept": 40, "missed": 3, "no_show": 7 },
                    "groups": [
                        { "class": "tickets", "classes": ["tickets", "boxes"], "method": "event", "opens_at": 4090.0,
                          "closed_message": "Sold out.", "share": 0.4, "waiting": 120, "lots": 120, "next_wait_s": 90.0 },
                        { "class": "archive", "classes": ["archive"], "method": "closed", "opens_at": null,
                          "closed_message": "In \u{1b}January.", "share": null, "waiting": null, "lots": 0, "next_wait_s": null },
                    ] },
                "classes": [{ "name": "boxes", "room_rates": { "direct": 1.0, "kept": 2.5, "promised": 7.0 } },
                    { "name": "tickets", "room_rates": { "kept": 1.0 } }, { "name": "default", "room_rates": { "kept": 9.0 } }],
                "room_rates": { "promised": 10.0, "kept": 4.0 } }],
        });
        let told = |overview: &Json| {
            let lines = lines(overview, "x", None);
            lines.into_iter().map(|line| (line.tone, line.text)).collect::<Vec<_>>()
        };
        let all = told(&overview);
        for line in [
            "  capacity: told 120.0/s for 0 min 30 s · floor 20.0/s · moved 0 min 12 s ago by fall: 150.0/s -> unknown",
            "  waiting room (fifo): 250 wait · the next waits 1 min 2 s · 10.0/s told a time · 4.0/s came in time",
            "  promises since the start: 40 kept, 3 missed · 7 did not come (expected of 20 %)",
            "  group tickets (event): 120 wait · the next waits 1 min 30 s · opens in 1 min 30 s · 40 % of each slot · 4.5/s let in",
            "  group archive (closed): - wait · doors are closed: In ?January. · 0.0/s let in",
        ] {
            assert!(all.contains(&(Tone::Row, line.to_owned())), "{line}: {all:#?}");
        }
        let narrow = fitted(&lines(&overview, "x", None), 80);
        let narrow: Vec<&str> = narrow.iter().map(|line| line.text.as_str()).collect();
        assert!(narrow.iter().all(|line| line.chars().count() <= 80), "{narrow:#?}");
        assert!(
            narrow.contains(&"    moved 0 min 12 s ago by fall: 150.0/s -> unknown"),
            "what is too long goes on below: {narrow:#?}"
        );
        let room = &mut overview["applications"][0]["room"];
        (room["method"], room["next_wait_s"], room["report_overdue"]) =
            ("closed".into(), Json::Null, true.into());
        overview["applications"][0]["room_rates"] = json!({ "missed": 0.5 });
        let all = told(&overview);
        assert!(all.iter().any(|(_, text)| text.contains("doors are closed")), "{all:#?}");
        assert_eq!(
            all.iter().filter(|(tone, _)| *tone == Tone::Alarm).count(),
            3,
            "missed, overdue, no server: {all:#?}"
        );
    }

    #[test]
    fn tls_sessions_and_processors_are_told_where_something_looks_at_them() {
        let mut overview = json!({ "at": 4000.0, "window_s": 2.0, "gateway": {}, "applications": [
            { "name": "shop", "tls_sessions": null, "processors": null },
        ] });
        let told = |overview: &Json| {
            let lines = lines(overview, "x", None).into_iter();
            let those = lines.filter(|line| line.text.contains("TLS") || line.text.contains("processors"));
            those.map(|line| (line.tone, line.text)).collect::<Vec<_>>()
        };
        assert_eq!(told(&overview), []);
        let application = &mut overview["applications"][0];
        application["tls_sessions"] = json!({ "rates": {}, "new_per_s": null });
        application["processors"] = json!({ "asked": null, "given": 1.5 });
        let expected = ["  processors: 1.50", "  TLS sessions: 0.0/s new · 0.0/s resumed"];
        assert_eq!(told(&overview), expected.map(|text| (Tone::Row, text.to_owned())));
        let application = &mut overview["applications"][0];
        let rates = json!({ "new": 2.04, "resumed": 30.0, "refused": 11.0 });
        application["tls_sessions"] = json!({ "rates": rates, "new_per_s": 2.1 });
        application["processors"]["asked"] = json!(3.25);
        let sessions = "  TLS sessions: 2.0/s new · 30.0/s resumed · new ones at most 2.1/s · 11.0/s refused";
        assert_eq!(
            told(&overview),
            [
                (Tone::Row, "  processors: 1.50 of 3.25 asked for".to_owned()),
                (Tone::Alarm, sessions.to_owned())
            ]
        );
    }

    #[test]
    fn what_only_watches_is_told_with_what_it_would_do() {
        let class = json!({ "name": "search", "modes": { "ingress": "watch", "queue": "enforce" } });
        let mut overview = json!({
            "at": 4000.0, "window_s": 2.0, "gateway": {}, "applications": [{ "name": "shop",
                "modes": { "client": "off", "queue": "enforce", "in_flight": "watch" }, "classes": [class],
                "would_refuse": { "ingress_rate": 12.04 }, "would_wait": 3, "in_flight": 9, "in_flight_limit": 1, "servers": [{ "condition": "up" }] }],
        });
        let told = |overview: &Json| {
            let lines = lines(overview, "x", None);
            let alarms = lines.into_iter().filter(|line| line.tone == Tone::Alarm);
            alarms.map(|line| line.text).collect::<Vec<_>>()
        };
        assert_eq!(
            told(&overview),
            [
                "  watch only: ingress · in_flight",
                "  off: client",
                "  would be refused each second: 12.0 ingress_rate",
                "  would be waiting: 3",
            ]
        );
        let title = |overview: &Json| lines(overview, "x", None).swap_remove(3).text;
        assert!(title(&overview).contains(" 9 in flight"), "{}", title(&overview));
        let application = &mut overview["applications"][0];
        application["modes"] = json!({ "client": "enforce", "queue": "enforce", "in_flight": "enforce" });
        application["classes"] = json!([]);
        (application["would_refuse"], application["would_wait"]) = (json!({}), Json::Null);
        assert!(told(&overview).is_empty(), "all acts: {:?}", told(&overview));
        assert!(title(&overview).contains(" 9 of 1 in flight"), "{}", title(&overview));
    }
}
