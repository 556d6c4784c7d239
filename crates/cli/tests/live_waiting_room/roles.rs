//! The room in two processes, as the examples configure it: one gives times, one checks them and reports.

use std::{net::SocketAddr, path::Path, thread, time::Duration};

use serde_json::{Value as Json, json};

use super::{
    browser::Browser,
    support::{
        Gateway, Start,
        client::{Client, Response, get},
        free_address,
        origin::Origin,
    },
    visitor::{browser, program},
};

const GENERATE: &str = include_str!("../../../../examples/waiting-room-generate.toml");
const CHECK: &str = include_str!("../../../../examples/waiting-room-check.toml");
/// How long anything may take that nothing announces.
const PATIENCE: Duration = Duration::from_secs(30);

/// The tokens of the generator's admin interface.
const REPORTS: &str = "a-token-for-reports-of-the-check-and-nothing-else";
const OTHER_REPORTS: &str = "a-token-for-reports-of-another-check-and-nothing-else";
const LOOKS: &str = "a-token-for-those-who-look-and-change-nothing";
const CHANGES: &str = "a-token-for-those-who-look-and-change-everything";
const REPORTS_OF_TICKETS: &str = "a-token-for-reports-of-the-check-of-tickets-alone";

/// Another application of the generator.
const TICKETS: &str = "\n[application.tickets]\nhosts = \"tickets.example\"\nservers = [\"http://127.0.0.1:8082\"]\n\
                       waiting_room.method = \"fifo\"\nwaiting_room.role = \"generate\"\n";

/// The process that gives times, for a shop whose servers take 20 requests a second, and where the other one is.
struct Pair {
    generate: Gateway,
    queue: SocketAddr,
    shop: SocketAddr,
    admin: SocketAddr,
    check_configuration: String,
    origin: Origin,
}

impl Pair {
    /// Both, once they know each other; the one that checks can be killed.
    fn start(report_keep: &str) -> (Self, Gateway) {
        Self::with(report_keep, "")
    }

    /// As [`start`](Self::start), with more of the application in both.
    fn with(report_keep: &str, more: &str) -> (Self, Gateway) {
        let pair = Self::without_check(report_keep, more);
        let check = pair.check();
        pair.until("the capacity is heard of", |room| room["work_per_s"] == 20.0);
        (pair, check)
    }

    /// The one that gives times, which has heard of no check yet.
    fn without_check(report_keep: &str, more: &str) -> Self {
        let (origin, _) = super::application();
        let [queue, shop, admin, check_admin] = [(); 4].map(|()| free_address());
        let directory = tempfile::tempdir().expect("a directory");
        for (name, token) in [
            ("check", REPORTS),
            ("other", OTHER_REPORTS),
            ("tickets", REPORTS_OF_TICKETS),
            ("reader", LOOKS),
            ("operator", CHANGES),
        ] {
            write_token(directory.path(), name, token);
        }
        let people = "[[admin_token]]\nname = \"other\"\nfile = \"other.token\"\nrole = \"check\"\n\
                      [[admin_token]]\nname = \"tickets\"\nfile = \"tickets.token\"\nrole = \"check\"\n\
                      applications = \"tickets\"\n\
                      [[admin_token]]\nname = \"reader\"\nfile = \"reader.token\"\nrole = \"read\"\n\
                      [[admin_token]]\nname = \"operator\"\nfile = \"operator.token\"\nrole = \"operator\"\n[[listener]]";
        let configuration = changed(
            GENERATE,
            &[
                ("127.0.0.1:9900", &admin.to_string()),
                ("[::]:8080", &queue.to_string()),
                ("/var/lib/tidegate", "state"),
                ("http://127.0.0.1:8081", &format!("http://{shop}")),
                ("https://shop.example", &format!("http://{shop}")),
                ("timeout = \"5s\"", "timeout = \"2s\""),
                ("keep = \"1min\"", &format!("keep = \"{report_keep}\"")),
                ("capacity.floor = \"20/s\"", "capacity.floor = \"3/s\""),
                ("[[listener]]", people),
            ],
        );
        let generate = Gateway::run_in(directory, &(configuration + more + TICKETS), &Start::default());
        let check_configuration = check_of([shop, check_admin, queue, admin], &origin, "20/s") + more;
        Self { generate, queue, shop, admin, check_configuration, origin }
    }

    /// The one that checks.
    fn check(&self) -> Gateway {
        let directory = tempfile::tempdir().expect("a directory");
        write_token(directory.path(), "check", REPORTS);
        Gateway::run_in(directory, &self.check_configuration, &Start::default())
    }

    /// A second check, of other servers that take 10 requests a second, and where it is.
    fn another_check(&self) -> (Gateway, SocketAddr, String) {
        let [shop, admin] = [(); 2].map(|()| free_address());
        let configuration = check_of([shop, admin, self.queue, self.admin], &self.origin, "10/s");
        let directory = tempfile::tempdir().expect("a directory");
        write_token(directory.path(), "check", OTHER_REPORTS);
        (Gateway::run_in(directory, &configuration, &Start::default()), shop, configuration)
    }

    fn room(&self) -> Json {
        let told = ask(self.admin, "GET", "/api/v1/applications/shop/waiting-room", LOOKS, "");
        assert_eq!(told.status, 200, "{}", told.text());
        serde_json::from_str(&told.text()).expect("JSON")
    }

    /// Waits until the generator's room is so. Nothing tells when it is.
    fn until(&self, what: &str, holds: impl Fn(&Json) -> bool) {
        let deadline = std::time::Instant::now() + PATIENCE;
        loop {
            let room = self.room();
            if holds(&room) {
                return;
            }
            assert!(std::time::Instant::now() < deadline, "{what}: {room:#}");
            thread::sleep(Duration::from_millis(50));
        }
    }

    fn until_counted(&self, what: &str, count: u64) {
        self.until_counted_of("default", what, count);
    }

    fn until_counted_of(&self, class: &str, what: &str, count: u64) {
        self.until(what, |room| room["counts"][class][what].as_u64() >= Some(count));
    }

    /// Changes knobs of the one that gives times.
    fn set(&self, changes: &Json) {
        let body = json!({ "changes": changes }).to_string();
        let changed = ask(self.admin, "PATCH", "/api/v1/knobs", CHANGES, &body);
        assert_eq!(changed.status, 200, "{}", changed.text());
    }

    /// What one is told who asks for a time, or with a token how it stands with that.
    fn told(&self, path: &str, token: Option<&Json>) -> Json {
        let token = token.map(|token| token.as_str().expect("a token"));
        let header = token.map_or_else(String::new, |token| format!("tidegate-turn: {token}\r\n"));
        let told = program(self.queue).get_with(path, &header);
        assert_eq!(told.status, 503, "{}", told.text());
        serde_json::from_str(&told.text()).expect("a document")
    }

    /// Whether somebody was given a time, at which he is to go to the check.
    fn has_time(&self, told: &Json) -> bool {
        told["to"].as_str().is_some_and(|to| to.starts_with(&format!("http://{}", self.shop)))
    }

    /// Waits until the check of that name has begun a report after this, and heard the answer.
    fn until_it_has_reported(&self, name: &str) {
        let reported_at = |room: &Json| {
            let checks = room["checks"].as_array().into_iter().flatten();
            checks.filter(|check| check["name"] == name).find_map(|check| check["reported_at"].as_f64())
        };
        // The first may have been under way, and the next one but one comes after the answer to the next.
        for _ in 0..3 {
            let before = reported_at(&self.room());
            self.until("another report", |room| reported_at(room) > before);
        }
    }

    /// So many come at once: what each is told.
    fn burst(&self, people: usize) -> Vec<Json> {
        (0..people)
            .map(|number| {
                let told = program(self.queue).get(&format!("/item/{number}?a=b"));
                assert_eq!(told.status, 503, "{}", told.text());
                let told: Json = serde_json::from_str(&told.text()).expect("a document");
                let wanted = format!("http://{}/item/{number}?a=b&tidegate_turn=", self.shop);
                assert!(told["to"].as_str().is_some_and(|to| to.starts_with(&wanted)), "{told:#}");
                told
            })
            .collect()
    }

    /// Each comes at his time: the statuses they meet at the check.
    fn come(&self, told: Vec<Json>) -> Vec<u16> {
        self.come_to(&[self.shop], told)
    }

    /// As [`come`](Self::come), spread over checks in turn.
    fn come_to(&self, checks: &[SocketAddr], told: Vec<Json>) -> Vec<u16> {
        let visits = told.into_iter().enumerate().map(|(number, told)| {
            let (path, check) = (self.path_of(&told), checks[number % checks.len()]);
            thread::spawn(move || {
                let visitor = &mut program(check);
                visitor.wait(told["left_ms"].as_u64().expect("a time"));
                visitor.get(&path).status
            })
        });
        let visits: Vec<_> = visits.collect();
        visits.into_iter().map(|visit| visit.join().expect("a visit")).collect()
    }

    /// Path and query with which somebody goes on at the check.
    fn path_of(&self, told: &Json) -> String {
        let to = told["to"].as_str().expect("where to go");
        to.trim_start_matches(&format!("http://{}", self.shop)).to_owned()
    }
}

impl Pair {
    /// Comes at his time, and goes to and fro as he is told until the check has heard of the key that signed his token.
    fn come_round(&self, mut told: Json) {
        let deadline = std::time::Instant::now() + PATIENCE;
        loop {
            program(self.shop).wait(told["left_ms"].as_u64().expect("a time"));
            let to = told["to"].as_str().expect("where to go");
            let met = program(self.shop).get(to.trim_start_matches(&format!("http://{}", self.shop)));
            if met.status == 200 {
                return;
            }
            let back = met.header("location").expect("sent back").to_owned();
            assert!(met.status == 307 && back.contains("tidegate_turn="), "with his token: {back}");
            let again = program(self.queue).get(back.trim_start_matches(&format!("http://{}", self.queue)));
            told = serde_json::from_str(&again.text()).expect("a document");
            assert!(std::time::Instant::now() < deadline, "the new key is not heard of: {told:#}");
        }
    }
}

/// The example of a check at `shop`, with its admin interface, that reports to a generator, with its admin interface.
fn check_of([shop, own_admin, queue, admin]: [SocketAddr; 4], origin: &Origin, capacity: &str) -> String {
    changed(
        CHECK,
        &[
            ("127.0.0.1:9901", &own_admin.to_string()),
            ("[::]:8081", &shop.to_string()),
            ("http://127.0.0.1:8000", &origin.url()),
            (
                "waiting_room.role",
                &format!(
                    "in_flight.algorithm = \"fixed\"\ncapacity.given = \"{capacity}\"\nwaiting_room.role"
                ),
            ),
            ("https://queue.example", &format!("http://{queue}")),
            ("http://127.0.0.1:9900", &format!("http://{admin}")),
        ],
    )
}

/// The text of an example with other values; each has to be there.
fn changed(example: &str, changes: &[(&str, &str)]) -> String {
    changes.iter().fold(example.to_owned(), |text, (from, to)| {
        assert!(text.contains(from), "the example has no {from}");
        text.replacen(from, to, 1)
    })
}

fn write_token(directory: &Path, name: &str, token: &str) {
    std::fs::write(directory.join(format!("{name}.token")), format!("{token}\n")).expect("write a token");
}

/// Asks an admin interface with a token.
fn ask(admin: SocketAddr, method: &str, path: &str, token: &str, body: &str) -> Response {
    let mut client = Client::connect(admin).expect("connect to the admin interface");
    let authorization = match token {
        "" => String::new(),
        token => format!("authorization: Bearer {token}\r\n"),
    };
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: {admin}\r\n{authorization}content-type: application/json\r\n\
         content-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    client.send(request.as_bytes()).expect("send");
    client.response().expect("an answer")
}

#[test]
fn two_processes_keep_their_promises_also_when_the_check_is_killed() {
    let (pair, check) = Pair::start("1h");
    let newcomer = get(pair.shop, "/a?b=c").expect("an answer");
    assert_eq!(newcomer.status, 307, "without a time he is sent to where it is given");
    assert_eq!(newcomer.header("location"), Some(format!("http://{}/a?b=c", pair.queue).as_str()));
    let forged = get(pair.shop, &format!("/a?tidegate_turn={}", "A".repeat(64))).expect("an answer");
    assert_eq!(forged.header("location"), Some(format!("http://{}/a", pair.queue).as_str()));

    // Three times what they can do in a second.
    let statuses = pair.come(pair.burst(60));
    assert_eq!(statuses, [200; 60], "everybody is served at his first return");
    pair.until_counted("kept", 60);
    assert_eq!(pair.room()["counts"]["default"]["missed"], 0);

    // A token is used once: its second user is a newcomer, without it.
    let told = pair.burst(1).remove(0);
    let to = pair.path_of(&told);
    assert_eq!(pair.come(vec![told]), [200]);
    let statuses: Vec<_> = (0..5).map(|_| get(pair.shop, &to).expect("an answer")).collect();
    assert!(
        statuses.iter().filter(|again| again.status == 307).all(|again| !again
            .header("location")
            .is_some_and(|location| location.contains("tidegate_turn"))),
        "a used token is not sent round in circles"
    );
    assert!(
        statuses.iter().filter(|again| again.status == 200).count() <= 1,
        "the filter may err once a slot"
    );

    // What it has not told yet is lost with it.
    pair.until_counted("kept", 61);
    // The check is killed while sixty wait. The generator says so and goes on with the last capacity.
    let before = pair.burst(60);
    let said = pair.generate.log.lines_with("does not report").len();
    let directory = check.kill();
    pair.generate.log.await_line("does not report", said + 1);
    pair.until("it is overdue", |room| room["report_overdue"] == true);
    let room = pair.room();
    assert_eq!(room["report_lost"], false, "{room:#}");
    assert!(room["work_for_newcomers_per_s"].as_f64() > Some(15.0), "{room:#}");
    let meanwhile = pair.burst(10);
    let check = Gateway::run_in(directory, &pair.check_configuration, &Start::default());
    check.log.await_line("the check of the waiting room reports", 1);
    pair.generate.log.await_line("the check of the waiting room reports", 2);
    let all: Vec<Json> = before.into_iter().chain(meanwhile).collect();
    assert_eq!(pair.come(all), [200; 70], "what was promised before the kill and after it is kept");
    pair.until_counted("kept", 131);
    check.stop_sound();
    pair.generate.stop_sound();
}

/// Who sends a form when his pass is over is sent to the generator with it, as browsers go on after a 307.
#[test]
fn a_form_sent_at_the_check_waits_at_the_generator_or_its_sender_is_led_back() {
    let (pair, check) = Pair::start("1h");
    let shop = format!("http://{}", pair.shop);
    let form = "content-type: application/x-www-form-urlencoded\r\nsec-fetch-site: cross-site\r\n";
    let from = |origin: &str| {
        let sent = browser(pair.shop).send("POST", "/buy?x=1", &format!("{form}origin: {shop}\r\n"), b"a=b");
        assert_eq!((sent.status, sent.header("location").is_some()), (307, true), "{}", sent.text());
        let told =
            browser(pair.queue).send("POST", "/buy?x=1", &format!("{form}origin: {origin}\r\n"), b"a=b");
        assert_eq!(told.status, 503);
        told
    };
    // The page sends it to the check, with the token.
    let kept = from(&shop);
    let token = kept.header("tidegate-turn").expect("a token").to_owned();
    let action = format!("action=\"{shop}/buy&#63;x&#61;1&#38;tidegate_turn&#61;{token}\"");
    assert!(kept.text().contains(&action) && kept.header("refresh").is_none(), "{}", kept.text());
    program(pair.shop).wait(kept.header("retry-after-ms").and_then(|ms| ms.parse().ok()).expect("a time"));
    let sent = browser(pair.shop).send(
        "POST",
        &format!("/buy?x=1&tidegate_turn={token}"),
        &format!("{form}origin: http://{}\r\n", pair.queue),
        b"a=b",
    );
    assert_eq!(sent.status, 200, "{}", sent.text());

    // What another site has sent is not collected here, and its sender comes in by GET.
    for origin in ["null", "http://evil.example"] {
        let lost = from(origin);
        assert!(!lost.text().contains("<form"), "{}", lost.text());
        let refresh = lost.header("refresh").expect("a way on").to_owned();
        let (_, way_on) = refresh.split_once("; url=").expect("a URL");
        assert!(way_on.starts_with(&format!("{shop}/buy?x=1&tidegate_turn=")), "{way_on}");
        program(pair.shop)
            .wait(lost.header("retry-after-ms").and_then(|ms| ms.parse().ok()).expect("a time"));
        let mut visitor = browser(pair.shop);
        assert_eq!(visitor.get(way_on.trim_start_matches(&shop)).status, 200);
        let again = visitor.send("POST", "/buy?x=1", &format!("{form}origin: {shop}\r\n"), b"a=b");
        assert_eq!(again.status, 200, "he has a pass: {}", again.text());
    }
    check.stop_sound();
    pair.generate.stop_sound();
}

#[test]
fn a_browser_waits_at_one_and_comes_in_at_the_other() {
    let (pair, check) = Pair::start("1h");
    let mut browser = Browser::start();
    // Longer than a slow machine takes to load the page.
    drop(pair.burst(300));
    browser.open(&format!("http://{}/item?a=b", pair.queue));
    assert_eq!(browser.value("document.getElementById('at') !== null"), true, "he waits");
    let shop = format!("http://{}/", pair.shop);
    browser.until_page(&format!("location.href.startsWith({})", json!(shop)));
    let there = browser.text("location.pathname + location.search");
    assert!(there.starts_with("/item?a=b&tidegate_turn="), "{there}");
    assert!(browser.cookie(&shop, "tidegate_pass").is_some(), "he has a pass there");
    browser.reload();
    assert_eq!(browser.text("location.pathname + location.search"), there, "a reload is by the pass");
    pair.until_counted("kept", 1);
    check.stop_sound();
    pair.generate.stop_sound();
}

#[test]
fn a_check_by_another_clock_is_named_once_and_nobody_goes_to_and_fro_without_a_pause() {
    let (pair, check) = Pair::start("1h");
    let report = "/api/v1/applications/shop/waiting-room/report";
    let of_other = |room: &Json, key: &str| {
        let checks = room["checks"].as_array().into_iter().flatten();
        checks.filter(|check| check["name"] == "other").map(|check| check[key].clone()).next()
    };
    for (ahead, differs) in
        [(Duration::from_mins(1), true), (Duration::from_mins(1), true), (Duration::ZERO, false)]
    {
        // What the other's clock shows when it sends, not when the test began: the first turn of this loop waits a second.
        let at_ns = (std::time::UNIX_EPOCH.elapsed().expect("after 1970") + ahead).as_nanos();
        let body = format!("{{\"capacity_per_s\": 10, \"at_ns\": {at_ns}}}");
        let heard = ask(pair.admin, "POST", report, OTHER_REPORTS, &body);
        assert_eq!(heard.status, 200, "{}", heard.text());
        let room = pair.room();
        assert_eq!(of_other(&room, "clock_differs"), Some(json!(differs)), "{room:#}");
        let ahead_s = of_other(&room, "clock_ahead_s").and_then(|ahead| ahead.as_f64());
        assert_eq!(ahead_s > Some(50.0), differs, "{room:#}");
        // Once a second it is looked at.
        let line = if differs { "set both clocks by NTP" } else { "agrees again" };
        pair.generate.log.await_line(line, 1);
    }
    assert_eq!(pair.generate.log.lines_with("set both clocks by NTP").len(), 1);
    assert!(pair.room()["checks"][0]["clock_ahead_s"].as_f64().is_some(), "a check of today tells");

    // Whom a check has sent back whose time has come goes there again, but not at once.
    let told = pair.burst(40).pop().expect("the last one");
    program(pair.queue).wait(told["left_ms"].as_u64().expect("a time"));
    let again = pair.told("/item", Some(&told["token"]));
    assert!(pair.has_time(&again) && again["left_ms"].as_u64() >= Some(900), "{again:#}");
    check.stop_sound();
    pair.generate.stop_sound();
}

#[test]
fn a_check_with_a_wrong_token_is_refused_and_the_floor_holds_meanwhile() {
    let (pair, check) = Pair::start("1s");
    write_token(check.directory.path(), "check", "another-token-that-nobody-knows-at-all");
    check.log.await_line("not known", 1);
    let said = check.log.lines_with("not known").concat();
    assert!(said.contains("cannot report"), "{said}");
    pair.until("capacity.floor holds", |room| {
        room["report_lost"] == true && room["work_for_newcomers_per_s"].as_f64() < Some(3.1)
    });
    pair.generate.log.await_line("what=\"lost\"", 1);
    let metrics = ask(pair.admin, "GET", "/metrics", LOOKS, "").text();
    assert!(metrics.contains("tidegate_application_room_report_age"), "{metrics}");

    write_token(check.directory.path(), "check", REPORTS);
    pair.until("it is back", |room| room["report_overdue"] == false && room["work_per_s"] == 20.0);

    // Who may do what: the check reports and nothing else, who looks does not report.
    let report = "/api/v1/applications/shop/waiting-room/report";
    let bypass = "/api/v1/applications/shop/waiting-room/bypass";
    for (method, path, token, body, status) in [
        ("POST", report, "", "{}", 401),
        ("POST", report, "a-token-that-was-made-up-by-somebody", "{}", 401),
        ("POST", report, LOOKS, "{}", 403),
        // A token of one application does not speak for another, nor hear its keys.
        ("POST", report, REPORTS_OF_TICKETS, "{\"capacity_per_s\": 1}", 403),
        ("POST", "/api/v1/applications/tickets/waiting-room/report", REPORTS_OF_TICKETS, "{}", 200),
        ("POST", report, CHANGES, "{\"capacity_per_s\": \"x\"}", 400),
        ("POST", "/api/v1/applications/nobody/waiting-room/report", REPORTS, "{}", 404),
        ("GET", "/api/v1/knobs", REPORTS, "", 403),
        ("GET", "/metrics", REPORTS, "", 403),
        ("POST", bypass, REPORTS, "{\"valid_for\": \"1h\"}", 403),
        ("POST", "/api/v1/waiting-rooms/keys", REPORTS, "{}", 403),
        ("POST", bypass, CHANGES, "{\"valid_for\": \"1h\"}", 200),
    ] {
        let answer = ask(pair.admin, method, path, token, body);
        assert_eq!(answer.status, status, "{method} {path} {body}: {}", answer.text());
    }
    // A new key is heard, and what it signs is taken.
    assert_eq!(ask(pair.admin, "POST", "/api/v1/waiting-rooms/keys", CHANGES, "{}").status, 200);
    for told in pair.burst(25) {
        pair.come_round(told);
    }
    check.stop_sound();
    pair.generate.stop_sound();
}

/// What a generator says of the second check.
const OTHER_IS_SILENT: &str = "does not report application=\"shop\" check=\"other\"";

#[test]
fn two_checks_report_to_one_generator_and_the_loss_of_one_takes_away_its_part() {
    let (pair, check) = Pair::start("1s");
    let (other, other_shop, configuration) = pair.another_check();
    pair.until("both are heard", |room| room["work_per_s"] == 30.0);
    let room = pair.room();
    let names: Vec<_> =
        room["checks"].as_array().expect("checks").iter().map(|check| &check["name"]).collect();
    assert_eq!(names, ["check", "other"], "{room:#}");

    // Twenty of thirty a second come to the one, ten to the other.
    let both = [pair.shop, other_shop, pair.shop];
    let told = pair.burst(90);
    let used = pair.path_of(&told[0]);
    assert_eq!(pair.come_to(&both, told), [200; 90], "everybody is served at his first return");
    pair.until_counted("kept", 90);
    assert_eq!(pair.room()["counts"]["default"]["missed"], 0);

    // What was used at one is used at the other one, once both have reported.
    for name in ["check", "other"] {
        pair.until_it_has_reported(name);
    }
    let again = |_| get(other_shop, &used).expect("an answer").status;
    let let_in = (0..4).map(again).filter(|status| *status == 200).count();
    assert!(let_in <= 1, "once behind everybody: {let_in}");

    // A visit that the application ends at one is over at the other one.
    let told = pair.burst(1).remove(0);
    let mut visitor = program(pair.shop);
    visitor.wait(told["left_ms"].as_u64().expect("a time"));
    let entered = visitor.get(&pair.path_of(&told));
    let pass = format!("tidegate-pass: {}\r\n", entered.header("tidegate-pass").expect("a pass"));
    let elsewhere = || program(other_shop).get_with("/next", &pass).status;
    assert_eq!(elsewhere(), 200, "it holds at both");
    assert_eq!(program(pair.shop).get_with("/leave", &pass).status, 200);
    for name in ["check", "other"] {
        pair.until_it_has_reported(name);
    }
    assert_eq!(elsewhere(), 307);

    // The other one is lost: its capacity holds for a while, and is taken away then.
    let said = pair.generate.log.lines_with(OTHER_IS_SILENT).len();
    let directory = other.kill();
    pair.generate.log.await_line(OTHER_IS_SILENT, said + 1);
    pair.until("its part is taken away", |room| {
        let lost: Vec<_> =
            room["checks"].as_array().expect("checks").iter().map(|check| &check["lost"]).collect();
        let one_is_missed = room["report_overdue"] == true && room["report_lost"] == false;
        lost == [&json!(false), &json!(true)] && one_is_missed && room["work_per_s"] == 20.0
    });
    pair.generate.log.await_line("what=\"lost\"", 1);
    assert_eq!(
        pair.come(pair.burst(40)),
        [200; 40],
        "who is promised a time now is served at the one that is left"
    );

    let other = Gateway::run_in(directory, &configuration, &Start::default());
    pair.until("it is back", |room| room["work_per_s"] == 30.0);
    for gateway in [other, check, pair.generate] {
        gateway.stop_sound();
    }
}

/// Tickets and boxes are one group, whose doors are closed.
const GROUPS: &str = "[application.shop.class.tickets]\n\
     waiting_room = { method = \"closed\", closed_message = \"Sold out.\" }\n\
     [application.shop.class.boxes]\nwaiting_room.group = \"tickets\"\n\
     [[application.shop.rule]]\nclass = \"tickets\"\npath_prefix = \"/tickets\"\n\
     [[application.shop.rule]]\nclass = \"boxes\"\npath_prefix = \"/boxes\"\n";

#[test]
fn doors_of_a_group_are_where_times_are_given_and_its_tokens_hold_for_their_class_at_the_check() {
    let (pair, check) = Pair::with("1h", GROUPS);
    let redirected = |path: &str, header: &str| {
        let met = program(pair.shop).get_with(path, header);
        assert_eq!(met.status, 307, "{path}: {}", met.text());
        met.header("location").expect("sent elsewhere").to_owned()
    };
    let queue = |path: &str| format!("http://{}{path}", pair.queue);

    // Closed for one group, in its own words; everybody else comes in.
    for path in ["/tickets", "/boxes"] {
        assert_eq!(redirected(path, ""), queue(path), "he asks where times are given");
        let told = pair.told(path, None);
        assert_eq!((&told["reason"], &told["detail"]), (&json!("room_closed"), &json!("Sold out.")));
    }
    let mut customers = pair.burst(5);
    let customer = customers.remove(0);
    assert_eq!(pair.come(customers), [200; 4]);
    let customer_pass = {
        program(pair.shop).wait(customer["left_ms"].as_u64().expect("a time"));
        let token = customer["token"].as_str().expect("a token");
        let turn = format!("tidegate-turn: {token}\r\n");
        // His time is for no other class, and not lost by trying.
        assert_eq!(redirected("/tickets", &turn), queue("/tickets"));
        let entered = program(pair.shop).get_with("/item", &turn);
        assert_eq!(entered.status, 200, "{}", entered.text());
        format!("tidegate-pass: {}\r\n", entered.header("tidegate-pass").expect("a pass"))
    };
    assert_eq!(program(pair.shop).get_with("/next", &customer_pass).status, 200);
    assert_eq!(redirected("/tickets", &customer_pass), queue("/tickets"), "closed for who came in elsewhere");
    pair.until_counted("kept", 5);

    // Doors that open at a time not known yet: everybody of the group has a lot, and asks here.
    pair.set(&json!({ "shop/tickets/waiting_room.method": "event" }));
    let paths = ["/tickets", "/boxes"];
    let lots = paths.map(|path| pair.told(path, None));
    for (path, lot) in paths.iter().zip(&lots) {
        let again = pair.told(path, Some(&lot["token"]));
        assert!(again["token"] == lot["token"] && !pair.has_time(&again), "the same lot: {again:#}");
    }
    // They open: both classes are drawn, and go to the check.
    pair.set(&json!({ "shop/tickets/waiting_room.opens_at": 1 }));
    let times = [0, 1].map(|at| pair.told(paths[at], Some(&lots[at]["token"])));
    assert!(times.iter().all(|told| pair.has_time(told)), "{times:#?}");
    let [stalls, balcony] = &times;
    for (told, own, others) in
        [(stalls, "/tickets", ["/item", "/boxes"]), (balcony, "/boxes", ["/item", "/tickets"])]
    {
        program(pair.shop).wait(told["left_ms"].as_u64().expect("a time"));
        let turn = format!("tidegate-turn: {}\r\n", told["token"].as_str().expect("a token"));
        for other in others {
            assert_eq!(redirected(other, &turn), queue(other), "without the token");
        }
        let entered = program(pair.shop).get_with(own, &turn);
        assert_eq!(entered.status, 200, "{own}: {}", entered.text());
        let pass = format!("tidegate-pass: {}\r\n", entered.header("tidegate-pass").expect("a pass"));
        for path in ["/tickets", "/boxes", "/item"] {
            assert_eq!(program(pair.shop).get_with(path, &pass).status, 200, "who is in goes on: {path}");
        }
    }
    // The check has told who came, by class; the doors stay open there for newcomers.
    for class in ["tickets", "boxes"] {
        pair.until_counted_of(class, "kept", 1);
        assert_eq!(pair.room()["counts"][class]["missed"], 0);
    }
    let newcomer = pair.told("/boxes", None);
    assert!(pair.has_time(&newcomer), "{newcomer:#}");
    check.stop_sound();
    pair.generate.stop_sound();
}

#[test]
fn lots_are_drawn_within_the_floor_before_any_check_is_heard() {
    let pair = Pair::without_check("1h", "");
    pair.set(&json!({ "shop/waiting_room.method": "random", "shop/waiting_room.round": "1s" }));
    let lots: Vec<Json> = (0..3).map(|_| pair.told("/item", None)).collect();
    let mut times = Vec::new();
    for mut told in lots {
        let token = told["token"].clone();
        // Up to a second, and then he is to have a time.
        program(pair.queue).wait(told["left_ms"].as_u64().expect("when it is drawn"));
        told = pair.told("/item", Some(&token));
        assert!(pair.has_time(&told), "{told:#}");
        times.push(told);
    }
    let per_s = pair.room()["work_for_newcomers_per_s"].as_f64();
    assert!(per_s > Some(2.9) && per_s < Some(3.1), "capacity.floor: {per_s:?}");
    // The first check ever finds them on their way.
    let check = pair.check();
    check.log.await_line("the check of the waiting room reports", 1);
    assert_eq!(pair.come(times), [200; 3]);
    check.stop_sound();
    pair.generate.stop_sound();
}
