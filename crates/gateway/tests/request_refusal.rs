//! What a client sees of a refusal.

use std::{io::Write, sync::Arc};

use tidegate_control::{
    Refusal,
    meters::{BadRequest, Meter},
};
use tidegate_runtime::Subject;

use crate::{
    request_house::House,
    request_log::member,
    support::{Response, eventually, exchange, read_response, rest},
};

/// One request at a time, and nobody waits.
const FULL: &str = "in_flight.algorithm = \"fixed\"\nin_flight.limit = 1\n";
const NO_QUEUE: &str = "[application.app.class.default]\nqueue.max = 0\n";

/// Refused, for another request is under way.
fn refused(house: &House, method: &str, accept: &str) -> Response {
    let mut busy = house.connect();
    busy.write_all(b"GET /busy HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    let mut at_server = house.origin.next();
    let mut client = house.connect();
    let request = format!("{method} / HTTP/1.1\r\nHost: a\r\nAccept: {accept}\r\n\r\n");
    let response = if method == "HEAD" {
        client.write_all(request.as_bytes()).unwrap();
        let head = crate::support::read_head(&mut client).unwrap();
        Response { status: head[9..12].parse().unwrap(), head, body: String::new() }
    } else {
        exchange(&mut client, &request)
    };
    at_server.ok("");
    assert_eq!(read_response(&mut busy).unwrap().status, 200);
    response
}

#[test]
fn a_refusal_comes_in_the_form_the_client_likes() {
    let house = House::new(&format!("{FULL}refusal.retry_after = \"7s\"\n{NO_QUEUE}"));
    for (accept, media, part) in [
        ("*/*", "application/problem+json", "\"reason\":\"queue_full\",\"retry_after\":7"),
        ("application/json", "application/problem+json", "\"status\":503"),
        ("text/html,*/*;q=0.8", "text/html; charset=utf-8", "<h1>Service Unavailable</h1>"),
        ("text/plain", "text/plain; charset=utf-8", "Reason: queue_full"),
    ] {
        let response = refused(&house, "GET", accept);
        assert_eq!((response.status, response.field("content-type")), (503, Some(media)));
        assert_eq!(response.field("tidegate-reason"), Some("queue_full"));
        assert_eq!(
            (response.field("retry-after"), response.field("cache-control")),
            (Some("7"), Some("no-store"))
        );
        assert!(response.body.contains(part), "{}", response.body);
    }
    let head = refused(&house, "HEAD", "text/html");
    assert_eq!(head.status, 503);
    assert!(head.field("content-length").is_some_and(|length| length != "0"));
    let counted = house.finish();
    assert_eq!(counted.counts(Meter::REFUSED)[Refusal::QueueFull.index()], 5);
    assert_eq!(counted.counts(Meter::REFUSED).iter().sum::<u64>(), 5);
    assert_eq!(counted.counts(Meter::RESPONSES), [0, 5, 0, 0, 5]);
    // Refusals are no goodput and no response times.
    assert_eq!(counted.counts(Meter::GOOD), [5]);
    assert_eq!(counted.distribution(Meter::RESPONSE_TIME).count(), 5);
}

#[test]
fn the_status_of_overload_is_a_matter_of_taste() {
    let house = House::new(&format!("{FULL}refusal.status = \"429\"\n{NO_QUEUE}"));
    assert_eq!(refused(&house, "GET", "*/*").status, 429);
    house.finish();
}

#[test]
fn a_client_has_a_rate_of_its_own() {
    let house = House::new("client.rate = \"4/h\"\nclient.burst = 2\nclient.key = \"header:x-key\"\n");
    let mut client = house.connect();
    let mut ask = |key: &str, is_served: bool| {
        write!(client, "GET / HTTP/1.1\r\nHost: a\r\nX-Key: {key}\r\n\r\n").unwrap();
        if is_served {
            house.origin.next().ok("");
        }
        read_response(&mut client).unwrap()
    };
    // The first on the connection is judged before a codec has seen it: that counts once.
    assert_eq!([ask("a", true).status, ask("a", true).status], [200, 200]);
    let refused = ask("a", false);
    assert_eq!((refused.status, refused.field("tidegate-reason")), (429, Some("client_rate")));
    let retry_after: u64 = refused.field("retry-after").unwrap().parse().unwrap();
    assert!((600..=900).contains(&retry_after), "{retry_after}");
    assert_eq!(ask("b", true).status, 200);
    drop(client);
    let counted = house.finish();
    assert_eq!(counted.counts(Meter::REFUSED)[Refusal::ClientRate.index()], 1);
}

#[test]
fn maintenance_shows_a_page() {
    let house = House::with(|directory| {
        std::fs::write(directory.join("page.html"), "<p>Back at noon.</p>").unwrap();
        let application = "maintenance = true\nmaintenance_page = \"page.html\"\n";
        (String::new(), crate::support::PLAIN.to_owned(), application.to_owned())
    });
    let mut client = house.connect();
    let page = exchange(&mut client, "GET / HTTP/1.1\r\nHost: a\r\nAccept: text/html\r\n\r\n");
    assert_eq!((page.status, page.body.as_str()), (503, "<p>Back at noon.</p>"));
    let problem = exchange(&mut client, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(problem.body.contains("\"reason\":\"maintenance\""), "{}", problem.body);
    drop(client);
    house.finish();
}

#[test]
fn answers_of_our_own_have_the_fields_that_are_always_there_and_keep_theirs() {
    let edits = "response_headers = [{ set = \"access-control-allow-origin\", value = \"*\", always = true },\n\
         { add = \"vary\", value = \"origin\", always = true }, { set = \"x-of-servers\", value = \"1\" },\n\
         { set = \"cache-control\", value = \"public\", always = true }]\n";
    let ours = |response: &Response| {
        assert_eq!(response.field("access-control-allow-origin"), Some("*"));
        assert_eq!(response.field("vary"), Some("origin"));
        assert_eq!(response.field("x-of-servers"), None);
        assert_eq!(response.field("cache-control"), Some("no-store"));
    };
    for application in ["maintenance = true\n", "waiting_room.method = \"closed\"\n"] {
        let house = House::new(&format!("{application}{edits}"));
        let answer = exchange(&mut house.connect(), "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(answer.status, 503, "{application}");
        ours(&answer);
        house.finish();
    }
    let house = House::new(&format!("health.failures.max = \"none\"\n{edits}"));
    let mut client = house.connect();
    client.write_all(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n").unwrap();
    house.origin.next().stream.shutdown(std::net::Shutdown::Both).unwrap();
    let answer = read_response(&mut client).unwrap();
    assert_eq!(answer.status, 502);
    ours(&answer);
    client.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    house.origin.next().ok("");
    let served = read_response(&mut client).unwrap();
    assert_eq!((served.field("cache-control"), served.field("x-of-servers")), (Some("public"), Some("1")));
    drop(client);
    house.finish();
}

#[test]
fn an_answer_of_our_own_has_the_id_that_the_log_has() {
    let hosts = "hosts = [\"a\"]\n";
    for (application, host, status) in [
        ("maintenance = true\n", "a", 503),
        ("waiting_room.method = \"closed\"\n", "a", 503),
        ("client.rate = \"4/h\"\nclient.burst = 1\nservers = []\n", "a", 429),
        ("body.bytes.max = \"1B\"\n", "a", 413),
        ("servers = []\n", "a", 503),
        ("", "b", 404),
    ] {
        // One that a trusted peer has given stays, as on the way to a server.
        for (trusted, given) in [("trusted = [\"127.0.0.1\"]\n", Some("given-1")), ("", None)] {
            let house = House::with(|directory| {
                let log = format!("access_log.target = \"{}\"\n", directory.join("access.log").display());
                let listeners = format!("{}{trusted}", crate::support::PLAIN);
                (log, listeners, format!("{hosts}{application}"))
            });
            let mut client = house.connect();
            let request = format!(
                "POST / HTTP/1.1\r\nHost: {host}\r\nX-Request-Id: given-1\r\nContent-Length: 2\r\n\r\nab"
            );
            if status == 429 {
                assert_eq!(exchange(&mut client, &request).status, 503);
            }
            let answer = exchange(&mut client, &request);
            assert_eq!(answer.status, status, "{application}");
            let id = answer.field("x-request-id");
            assert!(given.map_or(id.is_some_and(|id| id.len() == 32), |given| id == Some(given)), "{id:?}");
            let log =
                || std::fs::read_to_string(house.directory.path().join("access.log")).unwrap_or_default();
            let lines = 1 + usize::from(status == 429);
            eventually("logged", || log().lines().count() == lines);
            assert_eq!(member(log().lines().next_back().unwrap(), "request_id"), id, "{}", log());
            drop(client);
            house.finish();
        }
    }
}

#[test]
fn a_client_that_waits_in_vain_is_told() {
    let house = House::new(&format!("{FULL}[application.app.class.default]\nqueue.wait.max = \"50ms\"\n"));
    let mut busy = house.connect();
    busy.write_all(b"GET /busy HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    let mut at_server = house.origin.next();
    let mut client = house.connect();
    let refused = exchange(&mut client, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!((refused.status, refused.field("tidegate-reason")), (503, Some("wait_too_long")));
    at_server.ok("");
    assert_eq!(read_response(&mut busy).unwrap().status, 200);
    // The connection goes on.
    client.write_all(b"GET /again HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    house.origin.next().ok("again");
    assert_eq!(read_response(&mut client).unwrap().body, "again");
    drop((busy, client));
    house.finish();
}

#[test]
fn without_a_server_there_is_nobody_to_answer() {
    let house = House::new("servers = []\n");
    let mut client = house.connect();
    let refused = exchange(&mut client, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!((refused.status, refused.field("tidegate-reason")), (503, Some("no_server")));
    drop(client);
    // No server's time is in it.
    let counted = house.finish();
    assert_eq!(counted.counts(Meter::STARTED), [1]);
    assert_eq!(counted.distribution(Meter::RESPONSE_TIME).count(), 0);
}

#[test]
fn what_is_no_request_gets_a_problem_document_and_is_counted_and_logged_by_reason() {
    let good = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    let many = (0..200).map(|n| format!("x-{n}: y\r\n")).collect::<String>();
    let long = format!("GET / HTTP/1.1\r\nHost: a\r\nx: {}", "y".repeat(40_000));
    let cases = [
        ("GET / HTTP/1.1\r\nno colon\r\n\r\n".to_owned(), 400, BadRequest::BadHead),
        ("\x16\x03\x01\x02\0\x01\0\x01".to_owned(), 400, BadRequest::BadHead),
        (format!("GET / HTTP/1.1\r\nHost: a\r\n{many}\r\n"), 431, BadRequest::HeadTooLarge),
        (long, 431, BadRequest::HeadTooLarge),
        (format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "y".repeat(70_000)), 414, BadRequest::TargetTooLong),
        (format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "y".repeat(40_000)), 414, BadRequest::TargetTooLong),
        (
            format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", u64::MAX),
            400,
            BadRequest::BadHead,
        ),
        ("GET / HTTP/1.1\r\nHos".to_owned(), 408, BadRequest::HeadLate),
        ("TRACE / HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(), 501, BadRequest::Method),
    ];
    for (text, status, reason) in cases {
        // As the first of a connection, as a later one, and right behind another.
        for (apart, before) in [(true, ""), (true, good), (false, good)] {
            let house = House::with(|directory| {
                let log = directory.join("access.log");
                let bytes_max = if text.len() > 65_536 { "1MiB" } else { "32KiB" };
                // Only what is late is to be late.
                let head_timeout = if status == 408 { "200ms" } else { "30s" };
                let host = format!(
                    "head.timeout = \"{head_timeout}\"\nhead.bytes.max = \"{bytes_max}\"\n\
                     access_log.target = \"{}\"\naccess_log.sample = 0.0\n",
                    log.display()
                );
                (host, crate::support::PLAIN.to_owned(), String::new())
            });
            let mut client = house.connect();
            let (now, then) = if apart { (before, &*text) } else { ("", &*[before, &text].concat()) };
            if !now.is_empty() {
                client.write_all(now.as_bytes()).unwrap();
                house.origin.next().ok("good");
                assert_eq!(read_response(&mut client).unwrap().body, "good");
            }
            client.write_all(then.as_bytes()).unwrap();
            if !apart {
                house.origin.next().ok("good");
                assert_eq!(read_response(&mut client).unwrap().body, "good");
            }
            let response = read_response(&mut client).unwrap();
            assert_eq!(response.status, status, "{}", response.head);
            assert_eq!(response.field("content-type"), Some("application/problem+json"), "{}", response.head);
            assert_eq!(response.field("tidegate-reason"), Some(reason.name()));
            assert_eq!(response.field("connection"), Some("close"));
            assert!(
                response.body.contains(&format!("\"reason\":\"{}\"", reason.name())),
                "{}",
                response.body
            );
            assert_eq!(rest(&mut client), b"", "nothing follows, once");
            drop(client);
            let (shared, directory) = (Arc::clone(&house.shared), house.directory.path().to_owned());
            let line = || std::fs::read_to_string(directory.join("access.log")).unwrap_or_default();
            eventually("logged", || line().contains(&format!("\"reason\":\"{}\"", reason.name())));
            assert_eq!(
                member(&line(), "bytes_out"),
                Some(response.body.len().to_string().as_str()),
                "{}",
                line()
            );
            assert_eq!(line().lines().count(), 1, "{}", line());
            assert_eq!(member(&line(), "request_id"), response.field("x-request-id"), "{}", line());
            assert_eq!(response.field("x-request-id").map(str::len), Some(32));
            assert_eq!(house.finish().counts(Meter::LEFT), [0]);
            let totals = shared.totals().read();
            let counted = totals[&Subject::Host].counts(Meter::BAD_REQUESTS);
            assert_eq!((counted[reason as usize], counted.iter().sum::<u64>()), (1, 1));
        }
    }
}
