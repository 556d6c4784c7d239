//! The door of the waiting room: who passes it by, what the application sees then and may say, and what is left of a room
//! that was switched off.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::Write,
    net::TcpStream,
    thread,
    time::Duration,
};

use serde_json::Value as Json;
use tidegate_control::knobs::{Knob, Value};
use tidegate_runtime::Shared;

use crate::{
    request_house::{House, take},
    support::{Bed, PLAIN, Response, eventually, exchange, get, read_response},
};

const ASK: &str = "/.well-known/tidegate/turn";

/// A capacity at which nobody waits.
const GIVEN: &str = "capacity.given = \"1000/s\"\nin_flight.algorithm = \"fixed\"\n";

pub(crate) fn set(shared: &Shared, knob: Knob, choice: &'static str) {
    shared
        .edit(|settings| settings.applications[0].values.set(knob, Value::Choice(choice)).unwrap())
        .unwrap();
}

/// A GET with everything that a visitor may carry.
fn carrying(path: &str) -> String {
    format!(
        "GET {path} HTTP/1.1\r\nhost: app.example\r\ncookie: a=b; tidegate_turn=C; tidegate_turn_x=C; tidegate_pass=P\r\n\
         tidegate-turn: F\r\ntidegate-pass: F\r\n\r\n"
    )
}

/// Newcomers meet nobody; assets pass.
fn closed() -> Bed {
    Bed::with_application("", PLAIN, "waiting_room.method = \"closed\"")
}

/// What a server takes for a page is no asset, however it is written: servlet containers cut parameters of a path.
#[test]
fn a_page_is_no_asset_by_its_parameters() {
    let bed = closed();
    let mut client = bed.connect();
    for path in ["/checkout", "/checkout;x.css", "/checkout;a=1;b=.css", "/;.css", "/x.css/;y.css"] {
        assert_eq!(get(&mut client, path).status, 503, "{path}");
    }
    for path in ["/a.css", "/a.css;v=1", "/a.css?v=1", "/a/b/../c.%63ss", "/x;y=1/a.css"] {
        let answer = get(&mut client, path);
        assert_eq!(answer.status, 200, "{path}");
        assert!(answer.body.starts_with(&format!("GET {path} ")), "as it came: {}", answer.body);
    }
}

/// Who comes as the process begins is no different from who comes later: he has a place, and a pass with it.
#[test]
fn the_first_request_of_a_process_meets_the_room() {
    for _ in 0..20 {
        let bed = Bed::with_application("", PLAIN, &format!("waiting_room.method = \"fifo\"\n{GIVEN}"));
        for _ in 0..4 {
            let answer = get(&mut bed.connect(), "/");
            assert_eq!(
                (answer.status, answer.field("tidegate-pass").is_some()),
                (200, true),
                "{}",
                answer.head
            );
        }
    }
}

/// A room that is switched on knows the capacity from its first request on.
#[test]
fn a_room_that_is_switched_on_holds_at_once() {
    let bed = Bed::with_application("", PLAIN, GIVEN);
    set(&bed.shared, Knob::ROOM_METHOD, "fifo");
    let answer = get(&mut bed.connect(), "/");
    assert_eq!((answer.status, answer.field("tidegate-pass").is_some()), (200, true), "{}", answer.head);
}

/// Where a server runs `/index.php` for `/index.php/a.css`, nothing is to pass by its ending.
#[test]
fn without_endings_nothing_passes_by_them() {
    let bed = Bed::with_application(
        "",
        PLAIN,
        "waiting_room.method = \"closed\"\nwaiting_room.assets = []\n\
         [application.app.class.assets]\nwaiting_room.queues = false\n\
         [[application.app.rule]]\nclass = \"assets\"\npath_prefix = \"/static\"",
    );
    for (path, status) in [
        ("/index.php/a.css", 503),
        ("/static/a.css", 200),
        // Of which of the two it is depends on the server.
        ("/static/../index.php/a.css", 400),
        ("/static/..;/index.php/a.css", 400),
    ] {
        assert_eq!(get(&mut bed.connect(), path).status, status, "{path}");
    }
}

/// An application never sees what is of the room, whether that is on or was switched off meanwhile; people who wait hear
/// that they may come.
#[test]
fn a_room_switched_off_leaves_nothing_to_the_application() {
    for (knob, choice) in [(Knob::ROOM_METHOD, "off"), (Knob::MODE, "off"), (Knob::MODE, "watch")] {
        let bed = closed();
        let mut client = bed.connect();
        assert_eq!(get(&mut client, "/").status, 503);
        assert_eq!(get(&mut client, ASK).status, 404, "there is a room, and no token");
        set(&bed.shared, knob, choice);
        let answer = exchange(&mut client, &carrying("/a?x=1&tidegate_turn=Q"));
        assert_eq!(answer.status, 200);
        assert!(answer.body.starts_with("GET /a?x=1 HTTP/1.1"), "{choice}: {}", answer.body);
        assert!(
            answer.body.contains("a=b") && !answer.body.contains("tidegate"),
            "{choice}: {}",
            answer.body
        );
        let standing = exchange(&mut client, &carrying(ASK));
        assert_eq!(
            (standing.status, standing.field("content-type")),
            (200, Some("application/json")),
            "{choice}: {}",
            standing.body
        );
        assert!(standing.body.contains("\"left_ms\":0"), "{choice}: {}", standing.body);
        set(&bed.shared, Knob::MODE, "enforce");
        set(&bed.shared, Knob::ROOM_METHOD, "closed");
        assert_eq!(get(&mut client, "/").status, 503, "{choice}");
    }
}

/// Who goes on before his time, since nobody is held now, is no no-show: slots are not filled beyond for him later.
#[test]
fn who_goes_on_because_nobody_is_held_is_no_no_show() {
    for (knob, choice) in [(Knob::ROOM_METHOD, "off"), (Knob::MODE, "off"), (Knob::MODE, "watch")] {
        let application = "capacity.given = \"1/s\"\nwaiting_room.method = \"fifo\"\n";
        let bed = Bed::with_application("", PLAIN, application);
        let mut client = bed.connect();
        let mut ask = |cookie: &str| {
            exchange(&mut client, &format!("GET / HTTP/1.1\r\nhost: app.example\r\ncookie: {cookie}\r\n\r\n"))
        };
        let mut cookies = Vec::new();
        eventually("a line", || {
            let answer = ask("a=b");
            if answer.status == 503 {
                cookies.push(answer.field("set-cookie").unwrap().split(';').next().unwrap().to_owned());
            }
            cookies.len() >= 100
        });
        set(&bed.shared, knob, choice);
        for cookie in &cookies {
            assert_eq!(ask(cookie).status, 200, "{choice}");
            // In mode `watch` a newcomer who would be told to wait goes on, too.
            assert_eq!(ask("a=b").status, 200, "{choice}");
        }
        let no_show = bed.shared.snapshot().applications[0].state.waiting_room().with(|room, now| {
            let end = now + Duration::from_secs(300);
            room.advance(end);
            room.standing(end).no_show
        });
        assert!(no_show < 0.01, "{choice}: {no_show}");
    }
}

/// Where there never was a room, what is called as ours are is the application's.
#[test]
fn without_a_room_requests_go_on_as_they_came() {
    let bed = Bed::plain("");
    let mut client = bed.connect();
    let path = format!("{ASK}?tidegate_turn=Q");
    let answer = exchange(&mut client, &carrying(&path));
    assert!(answer.body.starts_with(&format!("GET {path} ")), "{}", answer.body);
    assert!(answer.body.contains("tidegate_pass=P"), "{}", answer.body);
}

/// A visitor with a pass, whose application ends visits at `/leave…`.
struct Member {
    house: House,
    client: TcpStream,
    pass: String,
}

impl Member {
    fn new(application: &str) -> Self {
        let house = House::new(&format!(
            "capacity.given = \"1000/s\"\nin_flight.algorithm = \"fixed\"\nwaiting_room.method = \"fifo\"\n{application}"
        ));
        let client = house.connect();
        let mut member = Self { house, client, pass: String::new() };
        // There is none before the room has heard of the capacity.
        eventually("a pass", || {
            let answer = member.get("/");
            member.pass = answer.field("tidegate-pass").unwrap_or_default().to_owned();
            !member.pass.is_empty()
        });
        member
    }

    fn get(&mut self, path: &str) -> Response {
        let more = if path.starts_with("/leave") { "tidegate-pass: revoke\r\n" } else { "" };
        self.ask(path, "", more)
    }

    fn asking(&self, path: &str, fields: &str) -> String {
        let pass = &self.pass;
        format!("GET {path} HTTP/1.1\r\nhost: app.example\r\ntidegate-pass: {pass}\r\n{fields}\r\n")
    }

    /// The status of a request that no server sees.
    fn refused(&mut self, path: &str, fields: &str) -> u16 {
        let request = self.asking(path, fields);
        exchange(&mut self.client, &request).status
    }

    /// A request with more fields, which the server answers with more.
    fn ask(&mut self, path: &str, fields: &str, more: &str) -> Response {
        let request = self.asking(path, fields);
        self.served(&request, more)
    }

    /// A request that reaches the server, which answers with more fields.
    fn served(&mut self, request: &str, more: &str) -> Response {
        let Self { house, client, .. } = self;
        thread::scope(|scope| {
            let answer = scope.spawn(|| exchange(client, request));
            let mut at_origin = house.origin.next();
            assert_eq!(at_origin.request.one("tidegate-pass"), None);
            at_origin.send(&format!("HTTP/1.1 200 OK\r\n{more}content-length: 0\r\n\r\n"));
            answer.join().unwrap()
        })
    }
}

/// The cookie that tokens are bound to may come with the first response and change with any: who has it now keeps what he was
/// given before.
#[test]
fn a_pass_goes_along_with_the_cookie_that_it_is_bound_to() {
    let mut member = Member::new("waiting_room.bind = \"cookie:sid\"\n");
    let of_the_network = member.pass.clone();
    let told = member.ask("/", "", "set-cookie: a=b\r\n");
    assert_eq!(told.field("tidegate-pass"), None, "what does not concern it changes nothing");
    let steps = [
        ("/", "", "sid=1; Path=/; HttpOnly", "cookie: sid=1\r\n"),
        ("/sign-in", "cookie: sid=1\r\n", "sid=2; Path=/", "cookie: sid=2\r\n"),
        ("/a.css", "cookie: sid=2\r\n", "sid=3; Path=/", "cookie: sid=3\r\n"),
        ("/sign-out", "cookie: sid=3\r\n", "sid=x; Path=/; Max-Age=0", ""),
    ];
    for (path, before, becomes, after) in steps {
        let told = member.ask(path, before, &format!("set-cookie: {becomes}\r\n"));
        let pass = told.field("tidegate-pass").unwrap_or_else(|| panic!("{path}: a pass for {becomes}"));
        member.pass = pass.to_owned();
        assert!(told.head.contains(&format!("tidegate_pass={pass}; ")), "{}", told.head);
        let shared = member.house.shared.clone();
        set(&shared, Knob::ROOM_METHOD, "closed");
        assert_eq!(member.ask("/again", after, "").status, 200, "{path}: he goes on");
        let others = ["cookie: sid=7\r\n", before].into_iter().filter(|_| !after.is_empty());
        for other in others {
            assert_eq!(member.refused("/again", other), 503, "{path}: nobody else does");
        }
        set(&shared, Knob::ROOM_METHOD, "fifo");
    }
    set(&member.house.shared, Knob::ROOM_METHOD, "closed");
    member.pass = of_the_network;
    assert_eq!(member.ask("/again", "cookie: sid=9\r\n", "").status, 200, "a page may have set it");
}

/// An application ends a visit by any response, also of a request that needed no pass.
#[test]
fn a_visit_is_ended_by_any_response() {
    let free = "[application.app.class.free]\nwaiting_room.queues = false\n\
                [[application.app.rule]]\nclass = \"free\"\npath_prefix = \"/leave/free\"";
    for (path, knob, choice) in [
        ("/leave", Knob::MODE, "enforce"),
        ("/leave.css", Knob::MODE, "enforce"),
        ("/leave/free", Knob::MODE, "enforce"),
        ("/leave", Knob::ROOM_METHOD, "off"),
        ("/leave", Knob::MODE, "off"),
    ] {
        let mut member = Member::new(free);
        let shared = member.house.shared.clone();
        set(&shared, Knob::ROOM_METHOD, "closed");
        assert_eq!(member.get("/again").status, 200, "who has a pass goes on");
        set(&shared, knob, choice);
        let left = member.get(path);
        assert_eq!((left.status, left.field("tidegate-pass")), (200, None), "{path}, {choice}");
        let cookie = left.field("set-cookie").unwrap_or_default();
        assert!(cookie.starts_with("tidegate_pass=; ") && cookie.contains("Max-Age=0"), "{path}: {cookie:?}");
        set(&shared, Knob::MODE, "enforce");
        set(&shared, Knob::ROOM_METHOD, "closed");
        let request =
            format!("GET /again HTTP/1.1\r\nhost: app.example\r\ntidegate-pass: {}\r\n\r\n", member.pass);
        assert_eq!(exchange(&mut member.client, &request).status, 503, "{path}, {choice}: his visit is over");
    }
}

/// Who shops with a pass and meets a full queue comes again in a moment, however many wait: his pass lets him in.
#[test]
fn who_has_a_pass_and_is_not_served_is_not_put_behind_everybody() {
    let mut member = Member::new("in_flight.limit = 1\nwaiting_room.hold = \"50ms\"\n");
    let shared = member.house.shared.clone();
    let narrow = |settings: &mut tidegate_config::Settings| {
        let values = &mut settings.applications[0].values;
        values.set(Knob::CAPACITY_GIVEN, Value::Rate(1.0)).unwrap();
        values.set(Knob::ROOM_METHOD, Value::Choice("wait")).unwrap();
    };
    shared.edit(narrow).unwrap();
    let left_ms = |told: &Response| {
        let said: Json = serde_json::from_str(&told.body).unwrap();
        said["left_ms"].as_u64().unwrap()
    };
    let mut newcomer = member.house.connect();
    eventually("a long line", || left_ms(&get(&mut newcomer, "/")) > 60_000);
    let (slow, mut other) = (member.asking("/slow", ""), member.house.connect());
    thread::scope(|scope| {
        let served = scope.spawn(|| exchange(&mut other, &slow));
        let mut at_origin = member.house.origin.next();
        let cart = member.asking("/cart", "");
        let again = exchange(&mut member.client, &cart);
        assert_eq!((again.status, again.field("tidegate-reason")), (503, Some("waiting_room")));
        assert!(left_ms(&again) < 10_000, "{}", again.body);
        at_origin.ok("");
        assert_eq!(served.join().unwrap().status, 200);
    });
    assert_eq!(member.ask("/cart", "", "").status, 200, "he is in");
}

/// A form whose body comes after its head is in the page of who is not served as well, though it was gathered before.
#[test]
fn a_form_that_came_slowly_waits_with_its_fields() {
    let member = Member::new("in_flight.limit = 1\nwaiting_room.hold = \"50ms\"\n");
    let (mut sender, mut other) = (member.house.connect(), member.house.connect());
    let (body, go_on) = ("item=%3C7%3E", "HTTP/1.1 100 Continue\r\n\r\n");
    let head = format!(
        "POST /buy HTTP/1.1\r\nhost: app.example\r\ntidegate-pass: {}\r\naccept: text/html\r\norigin: http://app.example\r\n\
         content-type: application/x-www-form-urlencoded\r\ncontent-length: {}\r\nexpect: 100-continue\r\n\r\n",
        member.pass,
        body.len()
    );
    sender.write_all(head.as_bytes()).unwrap();
    assert_eq!(take(&mut sender, go_on.len()), go_on.as_bytes());
    let slow = member.asking("/slow", "");
    thread::scope(|scope| {
        // His permit went back, and another one has it.
        let served = scope.spawn(|| exchange(&mut other, &slow));
        let mut at_origin = member.house.origin.next();
        sender.write_all(body.as_bytes()).unwrap();
        let told = read_response(&mut sender).unwrap();
        assert_eq!((told.status, told.field("tidegate-reason")), (503, Some("waiting_room")));
        assert!(told.body.contains("name=\"item\" value=\"&#60;7&#62;\""), "{}", told.body);
        at_origin.ok("");
        assert_eq!(served.join().unwrap().status, 200);
    });
    drop((sender, other));
    member.house.finish();
}

/// So does he whose body is at fault, which is known only once he is in.
#[test]
fn who_is_let_in_and_sends_a_broken_body_has_his_pass() {
    for (body, status) in [("zz\r\n", 400), (BIG_CHUNK, 413)] {
        let mut member = Member::new("body.bytes.max = \"16B\"\n");
        let request =
            format!("POST /buy HTTP/1.1\r\nhost: app.example\r\ntransfer-encoding: chunked\r\n\r\n{body}");
        let answer = exchange(&mut member.house.connect(), &request);
        assert_eq!(answer.status, status, "{}", answer.head);
        member.pass = answer.field("tidegate-pass").expect("a pass").to_owned();
        set(&member.house.shared, Knob::ROOM_METHOD, "closed");
        assert_eq!(member.ask("/again", "", "").status, 200, "he is in");
    }
}

/// More than `body.bytes.max` of its test allows.
const BIG_CHUNK: &str = "20\r\n0123456789abcdef0123456789abcdef\r\n0\r\n\r\n";

/// Cookies know no ports: what another gateway has given under the same host name is read past and stays.
#[test]
fn two_gateways_under_one_host_name_leave_each_other_their_cookies() {
    let doors = "waiting_room.opens_at = 4102444800\n";
    let open =
        || Bed::with_application("", PLAIN, &format!("{GIVEN}waiting_room.method = \"fifo\"\n{doors}"));
    let gateways = [open(), open()];
    let ask = |bed: &Bed, jar: &BTreeMap<String, String>| {
        let cookies: Vec<String> = jar.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let request =
            format!("GET / HTTP/1.1\r\nhost: app.example\r\ncookie: {}\r\n\r\n", cookies.join("; "));
        exchange(&mut bed.connect(), &request)
    };
    let mut jar = BTreeMap::from([("a".to_owned(), "b".to_owned())]);
    for bed in &gateways {
        eventually("a pass", || {
            let answer = ask(bed, &jar);
            keep(&mut jar, &answer);
            answer.field("tidegate-pass").is_some()
        });
    }
    assert_eq!(jar.len(), 3, "a pass of each: {jar:?}");
    assert!(jar.contains_key("tidegate_pass"), "{jar:?}");
    for bed in &gateways {
        set(&bed.shared, Knob::ROOM_METHOD, "closed");
        let answer = ask(bed, &jar);
        assert_eq!(
            (answer.status, answer.field("set-cookie")),
            (200, None),
            "he is in at both: {}",
            answer.head
        );
        assert!(!answer.body.contains("tidegate"), "neither application sees any: {}", answer.body);
    }
    // The same with times, in another browser.
    let mut jar = BTreeMap::from([("a".to_owned(), "b".to_owned())]);
    let mut tokens = Vec::new();
    for bed in &gateways {
        set(&bed.shared, Knob::ROOM_METHOD, "event");
        let answer = ask(bed, &jar);
        keep(&mut jar, &answer);
        tokens.push(answer.field("tidegate-turn").expect("a token").to_owned());
    }
    assert_eq!(jar.len(), 3, "a token of each: {jar:?}");
    for (bed, token) in gateways.iter().zip(&tokens) {
        let answer = ask(bed, &jar);
        keep(&mut jar, &answer);
        assert_eq!(answer.field("tidegate-turn"), Some(token.as_str()), "the same lot again");
    }
    // Who is let in uses up his own alone.
    let [one, other] = &gateways;
    set(&one.shared, Knob::ROOM_METHOD, "fifo");
    eventually("his turn", || {
        let answer = ask(one, &jar);
        keep(&mut jar, &answer);
        answer.status == 200
    });
    assert!(!jar.values().any(|value| *value == tokens[0]), "{jar:?}");
    assert_eq!(ask(other, &jar).field("tidegate-turn"), Some(tokens[1].as_str()), "the other one's stays");
    let again = ask(one, &jar);
    assert_eq!(again.field("set-cookie"), None, "another's token is nothing to take away: {}", again.head);
}

/// Keeps a response's cookies as a browser does.
fn keep(jar: &mut BTreeMap<String, String>, answer: &Response) {
    for line in answer.head.lines() {
        let Some((name, cookie)) = line.split_once(": ") else { continue };
        if !name.eq_ignore_ascii_case("set-cookie") {
            continue;
        }
        let (name, value) = cookie.split(';').next().unwrap().split_once('=').unwrap();
        match value {
            "" => jar.remove(name),
            value => jar.insert(name.to_owned(), value.to_owned()),
        };
    }
}

const FULL: &str = "waiting_room.method = \"fifo\"\nwaiting_room.role = \"generate\"\n\
                    waiting_room.check_url = \"http://check.example\"\n";

/// Programs go by the status of refusals for overload; a page is 503 whatever that is.
#[test]
fn programs_are_answered_with_the_status_of_refusals_and_browsers_are_not() {
    let doors = "waiting_room.method = \"event\"\nwaiting_room.opens_at = 4102444800\n";
    let closed = "waiting_room.method = \"closed\"\n";
    for (application, reason, status) in
        [(doors, "waiting_room", 429), (FULL, "horizon_full", 429), (closed, "room_closed", 503)]
    {
        let bed = Bed::with_application("", PLAIN, &format!("{application}refusal.status = \"429\"\n"));
        let mut client = bed.connect();
        let told = get(&mut client, "/");
        assert_eq!((told.status, told.field("tidegate-reason")), (status, Some(reason)));
        assert_eq!(told.field("content-type"), Some("application/problem+json"), "{reason}");
        let said: Json = serde_json::from_str(&told.body).unwrap();
        assert_eq!(said["status"], status, "{said}");
        let page = exchange(&mut client, "GET / HTTP/1.1\r\nhost: app.example\r\naccept: text/html\r\n\r\n");
        assert_eq!((page.status, page.field("tidegate-reason")), (503, Some(reason)));
    }
}

/// Who is shown that doors are closed, or that too many wait, sees without a hand of his own when that is over.
#[test]
fn the_page_of_who_gets_no_time_looks_again() {
    let closed = "waiting_room.method = \"closed\"\n";
    let slower = "waiting_room.method = \"closed\"\nrefusal.retry_after = \"10min\"\n";
    for (application, least) in [(closed, 60), (FULL, 60), (slower, 600)] {
        let bed = Bed::with_application("", PLAIN, application);
        let mut client = bed.connect();
        let mut ask = |head: &str| exchange(&mut client, &format!("{head}host: app.example\r\n\r\n"));
        let mut seconds = BTreeSet::new();
        for _ in 0..20 {
            let page = ask("GET /a?b=c HTTP/1.1\r\naccept: text/html\r\n");
            let again: u64 = page.field("refresh").expect("it looks again").parse().expect("where it is");
            assert!((least..least + 30).contains(&again), "{again}");
            seconds.insert(again);
        }
        assert!(seconds.len() > 1, "all at once: {seconds:?}");
        let sent = ask("POST /buy HTTP/1.1\r\naccept: text/html\r\ncontent-length: 0\r\n\
                        referer: http://app.example/cart\r\n");
        assert!(
            sent.field("refresh").is_some_and(|refresh| refresh.ends_with("; url=/cart")),
            "{}",
            sent.head
        );
        assert!(sent.body.contains("send it again"), "that what he sent is lost is said: {}", sent.body);
        assert_eq!(ask("GET / HTTP/1.1\r\n").field("refresh"), None, "a program decides by itself");
    }
}

/// With the token in the query the page names the address at which a reload keeps the place, unless it is there already.
#[test]
fn a_page_names_the_address_that_keeps_the_place() {
    let bed = Bed::with_application(
        "",
        PLAIN,
        "capacity.given = \"1000/s\"\nin_flight.algorithm = \"fixed\"\n\
         waiting_room.method = \"event\"\nwaiting_room.opens_at = 4102444800\nwaiting_room.carry = \"query\"",
    );
    let mut client = bed.connect();
    let mut page = |path: &str| {
        let request = format!("GET {path} HTTP/1.1\r\nhost: app.example\r\naccept: text/html\r\n\r\n");
        exchange(&mut client, &request)
    };
    let mut told = page("/p?q=1");
    // Everybody goes on before the room has heard of the capacity.
    eventually("a time", || {
        told = page("/p?q=1");
        told.status == 503
    });
    let token = told.field("tidegate-turn").expect("a token").to_owned();
    let stay = format!("data-stay=\"/p&#63;q&#61;1&#38;tidegate_turn&#61;{token}\"");
    assert!(
        told.body.contains(&stay) && told.body.contains("id=\"keep\" class=\"soft\" hidden>"),
        "{}",
        told.body
    );
    let there = page(&format!("/p?q=1&tidegate_turn={token}"));
    assert_eq!((there.status, there.field("tidegate-turn")), (503, Some(token.as_str())));
    assert!(there.body.contains("data-stay=\"\"") && !there.body.contains(" hidden>"), "{}", there.body);
}

/// Doors that open in years are not said to open in a minute.
#[test]
fn who_waits_for_doors_is_told_when_they_open_or_that_it_is_not_known() {
    let application = "capacity.given = \"1000/s\"\nwaiting_room.method = \"event\"\n";
    for (opens_at, time, shown, left) in [
        (
            "waiting_room.opens_at = 4102444800\n",
            Json::from("2100-01-01T00:00:00.000Z"),
            "2100-01-01 00:00:00 UTC",
            None,
        ),
        ("", Json::Null, "not known yet", Some("60")),
    ] {
        let bed = Bed::with_application("", PLAIN, &format!("{application}{opens_at}"));
        let mut client = bed.connect();
        let mut ask = |path: &str, fields: &str| {
            exchange(&mut client, &format!("GET {path} HTTP/1.1\r\nhost: app.example\r\n{fields}\r\n"))
        };
        let told = ask("/", "");
        let said: Json = serde_json::from_str(&told.body).unwrap();
        assert_eq!((told.status, &said["time"]), (503, &time), "{said}");
        let after = told.field("retry-after").unwrap();
        assert!(left.map_or(after.parse::<u64>().unwrap() > 1_000_000_000, |left| after == left), "{after}");
        let token = told.field("tidegate-turn").unwrap();
        let standing = ask(ASK, &format!("tidegate-turn: {token}\r\n")).body;
        assert_eq!(serde_json::from_str::<Json>(&standing).unwrap()["time"], time, "{standing}");
        let page = ask("/", "accept: text/html\r\n").body;
        assert!(page.contains(shown) && page.contains("Places are given"), "{page}");
    }
}

/// A cookie that is left of another time, or of another path, comes beside the one that holds.
#[test]
fn what_does_not_hold_hides_nothing_that_does() {
    let application =
        "capacity.given = \"1000/s\"\nwaiting_room.method = \"fifo\"\nwaiting_room.opens_at = 4102444800\n";
    let bed = Bed::with_application("", PLAIN, application);
    let mut client = bed.connect();
    let mut ask = |path: &str, cookies: &str| {
        let request = format!("GET {path} HTTP/1.1\r\nhost: app.example\r\ncookie: {cookies}\r\n\r\n");
        exchange(&mut client, &request)
    };
    let mut pass = None;
    eventually("a pass", || {
        pass = ask("/", "a=b").field("tidegate-pass").map(str::to_owned);
        pass.is_some()
    });
    set(&bed.shared, Knob::ROOM_METHOD, "closed");
    let cookies = format!("tidegate_pass=old; tidegate_pass={}", pass.unwrap());
    assert_eq!(ask("/", "tidegate_pass=old").status, 503);
    assert_eq!(ask("/", &cookies).status, 200);
    set(&bed.shared, Knob::ROOM_METHOD, "event");
    let token = ask("/", "a=b").field("tidegate-turn").expect("a token").to_owned();
    for (path, cookies) in [
        ("/".to_owned(), format!("tidegate_turn=old; tidegate_turn={token}")),
        (format!("/?tidegate_turn={token}"), "tidegate_turn=old".to_owned()),
    ] {
        assert_eq!(ask(&path, &cookies).field("tidegate-turn"), Some(token.as_str()), "{path} {cookies}");
    }
}

/// What a neighbour has set for the whole domain comes first, however much and whatever it is: passes and tokens that were signed
/// here once and are over, too.
#[test]
fn what_a_neighbour_sets_hides_nothing_that_holds() {
    let with = |cookies: &str| format!("GET / HTTP/1.1\r\nhost: app.example\r\ncookie: {cookies}\r\n\r\n");
    let mut member = Member::new("");
    let shared = member.house.shared.clone();
    let ended = format!("tidegate_pass={}; ", member.pass);
    assert_eq!(member.get("/leave").status, 200);
    let mine = member.served(&with("a=b"), "").field("tidegate-pass").expect("a pass").to_owned();
    set(&shared, Knob::ROOM_METHOD, "closed");
    assert_eq!(exchange(&mut member.client, &with(&ended)).status, 503);
    for before in [ended, "tidegate_pass=x; ".repeat(150), "tidegate_pass~0123abcd=x; ".repeat(150)] {
        let cookies = format!("{before}tidegate_pass={mine}");
        assert_eq!(member.served(&with(&cookies), "").status, 200, "{before}");
    }

    // Everybody waits for the next slot.
    set(&shared, Knob::ROOM_METHOD, "wait");
    let mut token = || {
        let told = exchange(&mut member.client, &with("a=b"));
        let left_ms: u64 = told.field("retry-after-ms").expect("a time").parse().unwrap();
        (format!("tidegate_turn={}", told.field("tidegate-turn").expect("a token")), left_ms)
    };
    // Mine is of the same slot or of a later one.
    let ((theirs, _), (mine, left_ms)) = (token(), token());
    // His time is a point of the wall clock: nothing announces it.
    thread::sleep(Duration::from_millis(left_ms + 1));
    assert_eq!(member.served(&with(&theirs), "").status, 200);
    let entered = member.served(&with(&format!("{theirs}; {mine}")), "");
    assert!(entered.field("tidegate-pass").is_some(), "what is used hides nothing: {}", entered.head);
}

/// A page asks how things stand and is not loaded again for hours: where doors are put off, the cookie of its lot lasts on.
#[test]
fn a_lot_is_kept_by_who_only_asks_how_it_stands() {
    let class =
        "[application.app.class.sale]\n[[application.app.rule]]\nclass = \"sale\"\npath_prefix = \"/sale\"\n";
    let doors = format!("waiting_room.method = \"event\"\nwaiting_room.opens_at = 4102444800\n{class}");
    let bed = Bed::with_application("", PLAIN, &doors);
    let mut client = bed.connect();
    let told = get(&mut client, "/sale");
    let cookie = told.field("set-cookie").unwrap();
    let (pair, lasts_s) = lot_of(cookie);
    let opens = Value::Count(4_102_444_800 + 86_400);
    bed.shared
        .edit(|settings| settings.applications[0].values.set(Knob::ROOM_OPENS_AT, opens).unwrap())
        .unwrap();
    let ask = |cookie: &str| {
        format!("GET {ASK}?class=sale HTTP/1.1\r\nhost: app.example\r\ncookie: {cookie}\r\n\r\n")
    };
    let standing = exchange(&mut client, &ask(&pair));
    let (again, lasts_on_s) = lot_of(standing.field("set-cookie").expect("his lot is kept"));
    assert_eq!(again, pair, "the same lot, in the cookie of its class");
    assert!((86_000..=86_400).contains(&(lasts_on_s - lasts_s)), "{lasts_s}, {lasts_on_s}");
    assert_eq!(exchange(&mut client, &ask("tidegate_turn_sale=C")).field("set-cookie"), None);
}

/// A cookie without its attributes, and how many seconds it lasts.
fn lot_of(cookie: &str) -> (String, i64) {
    let (pair, attributes) = cookie.split_once(';').unwrap();
    let lasts_s = attributes.split("; ").find_map(|attribute| attribute.strip_prefix("Max-Age="));
    (pair.to_owned(), lasts_s.unwrap().parse().unwrap())
}

/// TLS may end at a proxy before us: cookies are for TLS all the same, and pages and forms of the host are known as its own.
#[test]
fn who_comes_over_tls_to_a_trusted_peer_is_told_as_over_tls() {
    let listener = format!("{PLAIN}trusted = \"127.0.0.0/8\"\n");
    let doors = "waiting_room.method = \"event\"\nwaiting_room.opens_at = 4102444800\n";
    let bed = Bed::with_application("", &listener, doors);
    let post = |scheme: &str, origin: &str| {
        let request = format!(
            "POST /buy HTTP/1.1\r\nhost: app.example\r\nx-forwarded-proto: {scheme}\r\naccept: text/html\r\n\
             origin: {origin}\r\nreferer: https://app.example/cart\r\n\
             content-type: application/x-www-form-urlencoded\r\ncontent-length: 3\r\n\r\na=b"
        );
        exchange(&mut bed.connect(), &request)
    };
    let kept = post("https", "https://app.example");
    assert!(kept.body.contains("<form id=\"form\""), "{}", kept.body);
    assert!(kept.field("set-cookie").unwrap().ends_with("; Secure"), "{}", kept.head);
    let lost = post("https", "null");
    assert!(lost.field("refresh").unwrap().ends_with("; url=/cart"), "{}", lost.head);
    let plain = post("http", "https://app.example");
    assert!(
        !plain.body.contains("<form") && !plain.field("set-cookie").unwrap().contains("Secure"),
        "{}",
        plain.head
    );
}

/// A page of the operator's may hold what he likes; those of ours for who need not wait are fenced in all the same.
#[test]
fn only_the_operators_own_page_goes_without_a_policy() {
    let directory = tempfile::tempdir().unwrap();
    let page = directory.path().join("wait.html");
    std::fs::write(&page, "<p>{{left}}</p><script>mine()</script>").unwrap();
    let doors = "opens_at = 4102444800\nwaiting_room.method = \"event\"";
    for (method, is_mine) in [(doors, true), ("method = \"closed\"", false)] {
        let application = format!("waiting_room.page = {page:?}\nwaiting_room.{method}\n");
        let bed = Bed::with_application("", PLAIN, &application);
        let told =
            exchange(&mut bed.connect(), "GET / HTTP/1.1\r\nhost: app.example\r\naccept: text/html\r\n\r\n");
        let is_fenced = told.field("content-security-policy").is_some();
        assert_eq!((told.body.contains("mine()"), is_fenced), (is_mine, !is_mine), "{}", told.head);
    }
}

/// Without a capacity everybody goes on, but for those whom doors hold out; who is to wait whatever comes is given a time.
#[test]
fn without_a_capacity_only_doors_hold_people() {
    for (method, reason) in [
        ("fifo", None),
        ("random", None),
        ("wait", Some("waiting_room")),
        ("event", Some("waiting_room")),
        ("closed", Some("room_closed")),
    ] {
        let application = format!("in_flight.algorithm = \"fixed\"\nwaiting_room.method = \"{method}\"\n");
        let bed = Bed::with_application("", PLAIN, &application);
        let mut client = bed.connect();
        let told = get(&mut client, "/");
        assert_eq!(told.field("tidegate-reason"), reason, "{method}: {}", told.body);
        if method == "wait" {
            let token = told.field("tidegate-turn").expect("a token").to_owned();
            let request = format!("GET / HTTP/1.1\r\nhost: app.example\r\ntidegate-turn: {token}\r\n\r\n");
            eventually("his time", || exchange(&mut client, &request).status == 200);
        }
    }
}
