//! The access log as an operator reads it.

use std::{io::Write, path::Path};

use tidegate_control::meters::Meter;
use tidegate_runtime::Subject;

use crate::{
    frames::{DATA, END_HEADERS, END_STREAM, Frames, HEADERS, REQUEST},
    request_house::House,
    support::{PLAIN, eventually, exchange, read_response, rest},
};

/// A house whose access log is kept, with lines for the application and the host.
pub(crate) fn house(application: &str, log: &str) -> House {
    House::with(|directory| {
        let target = directory.join("access.log");
        let host = format!("access_log.target = \"{}\"\n{log}", target.display());
        (host, PLAIN.to_owned(), application.to_owned())
    })
}

/// The lines, once there are `n`.
pub(crate) fn lines(house: &House, n: usize) -> Vec<String> {
    let path = house.directory.path().join("access.log");
    let read = |path: &Path| std::fs::read_to_string(path).unwrap_or_default();
    eventually("lines", || read(&path).lines().count() >= n);
    let lines: Vec<String> = read(&path).lines().map(str::to_owned).collect();
    assert_eq!(lines.len(), n, "{lines:?}");
    lines
}

/// The value of a member as it is written.
pub(crate) fn member<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = line.split_once(&format!("\"{name}\":"))?;
    match rest.strip_prefix('"') {
        Some(text) => text.split('"').next(),
        None => rest.split([',', '}']).next(),
    }
}

#[test]
fn a_line_tells_what_was_served_and_how_long_each_stage_took() {
    let house = house("", "");
    let mut client = house.connect();
    client
        .write_all(b"POST /a?b=c HTTP/1.1\r\nHost: shop.example\r\nUser-Agent: x\"\\y\r\nContent-Length: 5\r\n\r\nhello")
        .unwrap();
    let mut at_server = house.origin.next();
    let id = at_server.request.one("x-request-id").unwrap().to_owned();
    at_server.ok("served");
    assert_eq!(read_response(&mut client).unwrap().status, 200);
    let line = &lines(&house, 1)[0];
    for (name, value) in [
        ("client", "127.0.0.1"),
        ("method", "POST"),
        ("target", "/a?b=c"),
        ("protocol", "HTTP/1.1"),
        ("host", "shop.example"),
        ("status", "200"),
        ("application", "app"),
        ("class", "default"),
        ("server", &house.origin.address.to_string()),
        ("bytes_in", "5"),
        ("bytes_out", "6"),
        ("request_id", &id),
    ] {
        assert_eq!(member(line, name), Some(value), "{name} in {line}");
    }
    assert!(line.contains("\"user_agent\":\"x\\\"\\\\y\""), "{line}");
    let seconds =
        |name| member(line, name).unwrap_or_else(|| panic!("{name} in {line}")).parse::<f64>().unwrap();
    assert!(seconds("first_byte_time") <= seconds("service_time"));
    assert!(seconds("waiting_time") + seconds("service_time") <= seconds("total_time") + 1e-6, "{line}");
    drop(client);
    house.finish();
}

#[test]
fn the_time_to_connect_is_told_of_requests_for_which_a_connection_was_opened() {
    let house = house("", "");
    let mut client = house.connect();
    for _ in 0..2 {
        client.write_all(b"GET / HTTP/1.1\r\nHost: shop.example\r\n\r\n").unwrap();
        house.origin.next().ok("served");
        assert_eq!(read_response(&mut client).unwrap().status, 200);
    }
    let lines = lines(&house, 2);
    let seconds = |line, name| member(line, name).map(|text| text.parse::<f64>().unwrap());
    let (connect, first_byte) = (seconds(&lines[0], "connect_time"), seconds(&lines[0], "first_byte_time"));
    assert!(connect > Some(0.0) && connect <= first_byte, "{lines:?}");
    assert_eq!(seconds(&lines[1], "connect_time"), None, "{lines:?}");
    drop(client);
    house.finish();
}

#[test]
fn errors_are_written_whatever_the_sample() {
    let house = house(
        "hosts = \"a.example\"\nretries.max = 0\nhealth.failures.max = \"none\"\n",
        "access_log.sample = 0.5\n",
    );
    let mut client = house.connect();
    for _ in 0..4 {
        client.write_all(b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n").unwrap();
        house.origin.next().ok("");
        assert_eq!(read_response(&mut client).unwrap().status, 200);
    }
    let unknown = exchange(&mut client, "GET / HTTP/1.1\r\nHost: b.example\r\n\r\n");
    assert_eq!(unknown.status, 404);
    client.write_all(b"POST /broken HTTP/1.1\r\nHost: a.example\r\nContent-Length: 0\r\n\r\n").unwrap();
    house.origin.next().stream.shutdown(std::net::Shutdown::Both).unwrap();
    assert_eq!(read_response(&mut client).unwrap().status, 502);
    client.write_all(b"GET\r\n\r\n").unwrap();
    assert_eq!(read_response(&mut client).unwrap().status, 400);
    assert_eq!(rest(&mut client), b"");
    let lines = lines(&house, 5);
    let found: Vec<_> =
        lines.iter().map(|line| (member(line, "status").unwrap(), member(line, "reason"))).collect();
    assert_eq!(found[..2], [("200", None), ("200", None)]);
    assert_eq!(found[2], ("404", Some("no_application")));
    assert_eq!(member(&lines[2], "bytes_out"), Some(unknown.body.len().to_string().as_str()), "{}", lines[2]);
    assert_eq!(found[3], ("502", Some("reset")));
    assert_eq!(found[4].0, "400");
    // Why, in full, for the log only.
    assert!(
        member(&lines[3], "detail").is_some_and(|detail| detail.contains(&house.origin.address.to_string()))
    );
    house.finish();
}

#[test]
fn a_line_that_is_lost_is_counted_also_if_no_other_follows() {
    let host = "access_log.target = \"/dev/full\"\n";
    let house = House::with(|_| (host.to_owned(), PLAIN.to_owned(), String::new()));
    let mut client = house.connect();
    client.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    house.origin.next().ok("");
    assert_eq!(read_response(&mut client).unwrap().status, 200);
    eventually("counted", || {
        let totals = house.shared.totals().read();
        totals.get(&Subject::Host).is_some_and(|host| host.counts(Meter::EVENTS_LOST) == [1])
    });
    drop(client);
    house.finish();
}

#[test]
fn a_client_that_takes_nothing_of_its_response_has_left() {
    let house = house("spool = \"64KiB\"\n", "body.idle_timeout = \"200ms\"\n");
    let mut client = house.connect();
    client.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    let mut at_server = house.origin.next();
    // More than sockets hold, until the gateway takes no more of it.
    let answering = std::thread::spawn(move || {
        let head = b"HTTP/1.1 200 OK\r\ncontent-length: 1000000000\r\n\r\n";
        let mut sent = at_server.stream.write_all(head);
        while sent.is_ok() {
            sent = at_server.stream.write_all(&[b'x'; 1 << 16]);
        }
    });
    let line = &lines(&house, 1)[0];
    assert_eq!((member(line, "status"), member(line, "reason")), (Some("499"), Some("abandoned")), "{line}");
    answering.join().unwrap();
    drop(client);
    let counted = house.finish();
    assert_eq!(counted.counts(Meter::ABANDONED), [1]);
}

/// The end of a message may come in another read than its last bytes: chunked, or until the server closes.
#[test]
fn a_response_whose_end_comes_later_is_whole() {
    let house = house("", "");
    let mut client = Frames::new(house.connect());
    for (n, (length, end)) in
        [("transfer-encoding: chunked", "0\r\n\r\n"), ("connection: close", "")].iter().enumerate()
    {
        let stream = u32::try_from(2 * n + 1).unwrap();
        client.send(HEADERS, END_STREAM | END_HEADERS, stream, REQUEST).unwrap();
        let mut at_server = house.origin.next();
        at_server.send(&format!("HTTP/1.1 200 OK\r\n{length}\r\n\r\na\r\n0123456789\r\n"));
        let (_, flags, ..) = client.until(DATA);
        assert_eq!(flags & END_STREAM, 0, "the end is still to come");
        at_server.send(end);
        at_server.stream.shutdown(std::net::Shutdown::Both).unwrap();
        let (_, flags, _, rest) = client.until(DATA);
        assert_eq!((flags & END_STREAM, rest.len()), (END_STREAM, 0));
        let line = lines(&house, n + 1).pop().expect("a line");
        assert_eq!((member(&line, "status"), member(&line, "reason")), (Some("200"), None), "{line}");
    }
    drop(client);
    let counted = house.finish();
    assert_eq!(counted.counts(Meter::ABANDONED), [0]);
}
