//! Permits: who holds one, who does not, and that each comes back.

use std::{
    io::{Read, Write},
    net::TcpListener,
    time::{Duration, Instant},
};

use tidegate_control::{ApplicationId, ClassId, Refusal, meters::Meter};
use tidegate_runtime::Subject;

use crate::{
    request_house::{House, Origin, take},
    support::{eventually, read_head, read_response},
};

/// One request at a time.
const ONE: &str = "in_flight.algorithm = \"fixed\"\nin_flight.limit = 1\n[application.app.class.default]\nqueue.wait.max = \"none\"\n";

const GET: &[u8] = b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n";
const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";

#[test]
fn a_second_request_waits_for_the_first() {
    let house = House::new(ONE);
    let (mut first, mut second) = (house.connect(), house.connect());
    first.write_all(GET).unwrap();
    let mut at_server = house.origin.next();
    second.write_all(b"GET /b HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    house.queued(1);
    assert!(house.origin.is_quiet());
    at_server.send(OK);
    assert_eq!(read_response(&mut first).unwrap().status, 200);
    let mut at_server = house.origin.next();
    assert_eq!(at_server.request.target, "/b");
    at_server.send(OK);
    assert_eq!(read_response(&mut second).unwrap().status, 200);
    drop((first, second));
    let counted = house.finish();
    assert_eq!(counted.counts(Meter::GOOD), [2]);
    assert_eq!(counted.counts(Meter::STARTED), [2]);
    assert_eq!(counted.distribution(Meter::WAITING_TIME).count(), 2);
}

#[test]
fn who_is_next_is_at_the_server_before_the_response_that_made_room_is_at_its_client() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let house = House::new(&format!("servers = \"http://{}\"\n{ONE}", listener.local_addr().unwrap()));
    let (mut first, mut second) = (house.connect(), house.connect());
    first.write_all(GET).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    read_head(&mut server).unwrap();
    for _ in 0..20 {
        second.write_all(GET).unwrap();
        house.queued(1);
        server.write_all(OK.as_bytes()).unwrap();
        assert_eq!(read_response(&mut first).unwrap().status, 200);
        server.set_nonblocking(true).unwrap();
        assert!(server.peek(&mut [0]).is_ok(), "the server has to wait for its next request");
        server.set_nonblocking(false).unwrap();
        read_head(&mut server).unwrap();
        std::mem::swap(&mut first, &mut second);
    }
    server.write_all(OK.as_bytes()).unwrap();
    assert_eq!(read_response(&mut first).unwrap().status, 200);
    drop((first, second));
    house.finish();
}

#[test]
fn who_leaves_while_waiting_never_reaches_the_server() {
    // On a connection's first request, on a later one, with more pipelined behind it, and with a
    // body that is still unread.
    let post = "POST /b HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nhello";
    for (warm, request) in [
        (false, "GET /b HTTP/1.1\r\nHost: a\r\n\r\n".to_owned()),
        (true, "GET /b HTTP/1.1\r\nHost: a\r\n\r\n".to_owned()),
        (false, "GET /b HTTP/1.1\r\nHost: a\r\n\r\n".repeat(3)),
        (true, "GET /b HTTP/1.1\r\nHost: a\r\n\r\n".repeat(3)),
        (false, post.to_owned()),
        (true, post.to_owned()),
    ] {
        let house = House::new(&format!("half_closed = \"gone\"\n{ONE}"));
        let mut leaver = house.connect();
        if warm {
            leaver.write_all(GET).unwrap();
            house.origin.next().send(OK);
            assert_eq!(read_response(&mut leaver).unwrap().status, 200);
        }
        let mut first = house.connect();
        first.write_all(GET).unwrap();
        let mut at_server = house.origin.next();
        leaver.write_all(request.as_bytes()).unwrap();
        house.queued(1);
        drop(leaver);
        house.queued(0);
        at_server.send(OK);
        assert_eq!(read_response(&mut first).unwrap().status, 200);
        first.write_all(b"GET /last HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        let mut at_server = house.origin.next();
        assert_eq!(at_server.request.target, "/last", "{request:?}");
        at_server.send(OK);
        assert_eq!(read_response(&mut first).unwrap().status, 200);
        drop(first);
        let counted = house.finish();
        assert_eq!(counted.counts(Meter::LEFT), [1], "{request:?}");
        assert_eq!(counted.counts(Meter::STARTED), [2 + u64::from(warm)]);
    }
}

#[test]
fn who_leaves_behind_a_body_that_is_still_to_be_read_never_reaches_the_server() {
    let house = House::new(&format!("half_closed = \"gone\"\n{ONE}"));
    let mut first = house.connect();
    first.write_all(GET).unwrap();
    let mut at_server = house.origin.next();
    let mut leaver = house.connect();
    // Its own kernel holds what has no room at ours, and says that it has left after that.
    socket2::SockRef::from(&leaver).set_send_buffer_size(1 << 20).unwrap();
    let body = [b'x'; 200_000];
    write!(leaver, "POST /leaver HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", body.len()).unwrap();
    leaver.write_all(&body).unwrap();
    house.queued(1);
    drop(leaver);
    assert_eq!(house.gate().levels().queued[0], 1, "its departure shows already");
    let mut last = house.connect();
    last.write_all(b"GET /last HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    house.queued(2);
    at_server.send(OK);
    assert_eq!(read_response(&mut first).unwrap().status, 200);
    let mut at_server = house.origin.next();
    assert_eq!(at_server.request.target, "/last");
    at_server.send(OK);
    assert_eq!(read_response(&mut last).unwrap().status, 200);
    drop((first, last));
    let counted = house.finish();
    assert_eq!((counted.counts(Meter::LEFT), counted.counts(Meter::STARTED)), (&[1][..], &[2][..]));
}

#[test]
fn a_slow_uploader_holds_no_permit() {
    let house = House::new(ONE);
    // gRPC, of which nothing is gathered, is over HTTP/2 only.
    let grpc = "Content-Type: application/grpc\r\nContent-Length: 10";
    for framing in ["Content-Length: 10", "Transfer-Encoding: chunked", grpc] {
        let chunked = framing.starts_with('T');
        let mut slow = house.connect();
        write!(slow, "POST /slow HTTP/1.1\r\nHost: a\r\n{framing}\r\n\r\n").unwrap();
        slow.write_all(if chunked { b"5\r\nhello\r\n" } else { b"hello" }).unwrap();
        // It was admitted, and gave its permit back: others pass it.
        for _ in 0..3 {
            let mut other = house.connect();
            other.write_all(GET).unwrap();
            let mut at_server = house.origin.next();
            assert_eq!(at_server.request.target, "/a");
            at_server.send(OK);
            assert_eq!(read_response(&mut other).unwrap().status, 200);
        }
        house.held(0);
        slow.write_all(if chunked { b"5\r\nworld\r\n0\r\n\r\n" } else { b"world" }).unwrap();
        let mut at_server = house.origin.next();
        assert_eq!(at_server.request.body, b"helloworld");
        // It is one body now, with a length.
        assert_eq!(at_server.request.one("content-length"), Some("10"));
        assert_eq!(house.gate().held(), 1);
        at_server.send(OK);
        assert_eq!(read_response(&mut slow).unwrap().status, 200);
    }
    house.finish();
}

#[test]
fn a_slow_upload_is_charged_to_the_rates_once() {
    let house = House::new(
        "ingress = { rate = \"0.001/s\", burst = 2 }\n[application.app.class.default]\n\
         ingress = { rate = \"0.001/s\", burst = 2 }\n",
    );
    let mut slow = house.connect();
    slow.write_all(b"POST /slow HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhello").unwrap();
    // It was admitted and gave its permit back.
    eventually("admitted", || {
        let class = Subject::Class(ApplicationId(0), ClassId(0));
        let totals = house.shared.totals().read();
        totals.get(&class).is_some_and(|readings| readings.counts(Meter::ARRIVED) == [1])
    });
    house.held(0);
    slow.write_all(b"world").unwrap();
    house.origin.next().send(OK);
    assert_eq!(read_response(&mut slow).unwrap().status, 200);
    // One of the two tokens is left.
    for expected in [200, 429] {
        slow.write_all(GET).unwrap();
        if expected == 200 {
            house.origin.next().send(OK);
        }
        assert_eq!(read_response(&mut slow).unwrap().status, expected);
    }
    drop(slow);
    house.finish();
}

#[test]
fn an_uploader_that_leaves_halfway_leaves_nothing_behind() {
    let house = House::new(ONE);
    let mut slow = house.connect();
    slow.write_all(b"POST /slow HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhello").unwrap();
    let mut other = house.connect();
    other.write_all(GET).unwrap();
    house.origin.next().send(OK);
    assert_eq!(read_response(&mut other).unwrap().status, 200);
    drop(slow);
    other.write_all(GET).unwrap();
    let mut at_server = house.origin.next();
    assert_eq!(at_server.request.target, "/a");
    at_server.send(OK);
    assert_eq!(read_response(&mut other).unwrap().status, 200);
    drop(other);
    let counted = house.finish();
    assert_eq!(counted.counts(Meter::STARTED), [2]);
}

#[test]
fn a_slow_reader_holds_no_permit() {
    // More than the sockets in between hold, less than is read ahead.
    let body = "x".repeat(30 << 20);
    let house = House::new(&format!("spool = \"64MiB\"\n{ONE}"));
    let mut slow = house.connect();
    slow.write_all(GET).unwrap();
    let mut at_server = house.origin.next();
    assert_eq!(house.gate().held(), 1);
    at_server.ok(&body);
    // Nothing of it was read by the client, and the permit is back.
    house.held(0);
    assert!(house.shared.spool().used() > 0);
    let mut other = house.connect();
    other.write_all(GET).unwrap();
    house.origin.next().send(OK);
    assert_eq!(read_response(&mut other).unwrap().status, 200);
    let response = read_response(&mut slow).unwrap();
    assert!(response.body == body, "{} bytes", response.body.len());
    drop((slow, other));
    house.finish();
}

#[test]
fn beyond_what_is_read_ahead_a_slow_reader_holds_the_server_back() {
    let house = House::new(&format!("spool = \"64KiB\"\n{ONE}"));
    let body = "x".repeat(30 << 20);
    let mut slow = house.connect();
    slow.write_all(GET).unwrap();
    let mut at_server = house.origin.next();
    let length = body.len();
    let answering = std::thread::spawn(move || at_server.ok(&body));
    take(&mut slow, 1000);
    assert!(house.shared.spool().used() <= 1 << 20);
    let mut rest = vec![0; 1 << 16];
    let mut got = 1000;
    while got < length {
        got += slow.read(&mut rest).unwrap();
    }
    answering.join().unwrap();
    drop(slow);
    house.finish();
}

#[test]
fn without_memory_bodies_go_in_step() {
    let house = House::with(|_| {
        (
            "spool.total = \"1MiB\"\n".to_owned(),
            crate::support::PLAIN.to_owned(),
            format!("spool = \"1GiB\"\n{ONE}"),
        )
    });
    let body = "y".repeat(20 << 20);
    let mut slow = house.connect();
    slow.write_all(GET).unwrap();
    let mut at_server = house.origin.next();
    let expected = body.clone();
    let answering = std::thread::spawn(move || at_server.ok(&body));
    eventually("read ahead", || house.shared.spool().used() > 0);
    let response = read_response(&mut slow).unwrap();
    assert!(response.body == expected);
    answering.join().unwrap();
    drop(slow);
    house.finish();
}

/// How a client leaves: for good, or in a way that only looks so where half closed means gone.
fn leave(client: std::net::TcpStream, reset: bool) {
    if reset {
        socket2::SockRef::from(&client).set_linger(Some(std::time::Duration::ZERO)).unwrap();
    }
}

fn half_closed(reset: bool) -> &'static str {
    if reset { "half_closed = \"waits\"\n" } else { "half_closed = \"gone\"\n" }
}

#[test]
fn the_permit_of_a_client_that_left_lingers_until_the_server_has_answered() {
    for reset in [false, true] {
        let house = House::new(&format!("{}{ONE}", half_closed(reset)));
        let mut leaver = house.connect();
        leaver.write_all(GET).unwrap();
        let mut at_server = house.origin.next();
        let mut other = house.connect();
        other.write_all(b"GET /b HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        house.queued(1);
        leave(leaver, reset);
        let state = std::sync::Arc::clone(&house.shared.snapshot().applications[0].state);
        eventually("lingering", || state.lingering().read() == 1);
        // The server is still busy with what nobody wants any more: nothing else starts.
        assert_eq!((house.gate().held(), house.gate().levels().queued[0]), (1, 1));
        assert!(house.origin.is_quiet());
        at_server.ok("too late");
        let mut at_server = house.origin.next();
        assert_eq!((at_server.request.target.as_str(), state.lingering().read()), ("/b", 0));
        at_server.send(OK);
        assert_eq!(read_response(&mut other).unwrap().status, 200);
        drop(other);
        let counted = house.finish();
        assert_eq!(counted.counts(Meter::ABANDONED), [1]);
    }
}

#[test]
fn a_lingering_permit_comes_back_when_the_server_takes_too_long() {
    for reset in [false, true] {
        let house =
            House::new(&format!("upstream.response.timeout = \"100ms\"\n{}{ONE}", half_closed(reset)));
        let mut leaver = house.connect();
        leaver.write_all(GET).unwrap();
        let mut at_server = house.origin.next();
        leave(leaver, reset);
        house.held(0);
        // The connection to the server was given up.
        let mut byte = [0];
        assert!(matches!(at_server.stream.read(&mut byte), Ok(0) | Err(_)));
        house.finish();
    }
}

/// Else what takes long would be started again and again by whoever does not wait for it.
#[test]
fn permits_linger_longer_where_servers_are_seen_to_take_longer() {
    const LONG: Duration = Duration::from_millis(100);
    let house = House::new(&format!("{}{ONE}", half_closed(true)));
    let mut client = house.connect();
    client.write_all(GET).unwrap();
    house.origin.next().send(OK);
    assert_eq!(read_response(&mut client).unwrap().status, 200);
    drop(client);
    let mut in_a_row = 0;
    for _ in 0..1000 {
        let mut leaver = house.connect();
        leaver.write_all(GET).unwrap();
        let at_server = house.origin.next();
        let began = Instant::now();
        leave(leaver, true);
        house.held(0);
        drop(at_server);
        // A machine that halts makes one or the other long.
        in_a_row = if began.elapsed() < LONG { 0 } else { in_a_row + 1 };
        if in_a_row == 3 {
            house.finish();
            return;
        }
    }
    panic!("never");
}

#[test]
fn a_request_whose_client_has_left_is_not_tried_again() {
    let servers = [(); 2].map(|()| Origin::start());
    let [first, second] = servers.each_ref().map(|server| server.address);
    for reset in [false, true] {
        let house = House::new(&format!(
            "servers = [\"http://{first}\", \"http://{second}\"]\nretries.max = 1\n\
             health.failures.max = \"none\"\n{}",
            half_closed(reset)
        ));
        let mut leaver = house.connect();
        leaver.write_all(GET).unwrap();
        let mut at_server = None;
        eventually("a request at a server", || {
            at_server = servers.iter().find_map(Origin::there);
            at_server.is_some()
        });
        leave(leaver, reset);
        let state = std::sync::Arc::clone(&house.shared.snapshot().applications[0].state);
        eventually("lingering", || state.lingering().read() == 1);
        // The server gives up what it may well be asked again.
        let at_server = at_server.expect("a request");
        at_server.stream.shutdown(std::net::Shutdown::Both).unwrap();
        house.held(0);
        assert!(servers.iter().all(Origin::is_quiet));
        let counted = house.finish();
        assert_eq!([counted.counts(Meter::ABANDONED), counted.counts(Meter::RETRIES)], [[1], [0]]);
    }
}

#[test]
fn a_download_that_is_given_up_lingers_and_ends() {
    for reset in [false, true] {
        let house = House::new(&format!("{}{ONE}", half_closed(reset)));
        let mut leaver = house.connect();
        leaver.write_all(GET).unwrap();
        let mut at_server = house.origin.next();
        at_server.send("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhello");
        let mut head = Vec::new();
        while !head.ends_with(b"hello") {
            head.extend(take(&mut leaver, 1));
        }
        leave(leaver, reset);
        let state = std::sync::Arc::clone(&house.shared.snapshot().applications[0].state);
        eventually("lingering", || state.lingering().read() == 1);
        assert_eq!(house.gate().held(), 1);
        at_server.send("world");
        house.held(0);
        let counted = house.finish();
        assert_eq!(counted.counts(Meter::ABANDONED), [1]);
    }
}

#[test]
fn server_sent_events_are_no_exchange_but_a_long_stream() {
    for reset in [false, true] {
        let house = House::new(&format!("long_streams.max = 1\n{}{ONE}", half_closed(reset)));
        let mut listener = house.connect();
        listener.write_all(GET).unwrap();
        let mut at_server = house.origin.next();
        at_server
            .send("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n\r\ndata: 1\n\n");
        let mut got = Vec::new();
        while !got.ends_with(b"data: 1\n\n\r\n") {
            got.extend(take(&mut listener, 1));
        }
        assert_eq!((house.gate().held(), house.gate().levels().long_streams), (0, 1));
        // One more is one too many.
        let mut second = house.connect();
        second.write_all(GET).unwrap();
        house.origin.next().send("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: 1\n\n");
        let response = read_response(&mut second).unwrap();
        assert_eq!((response.status, response.field("tidegate-reason")), (503, Some("long_streams")));
        leave(listener, reset);
        // Nothing lingers: nobody works for it any more.
        eventually("closed", || house.gate().levels().long_streams == 0);
        drop(second);
        let counted = house.finish();
        assert_eq!(counted.counts(Meter::REFUSED)[Refusal::LongStreams.index()], 1);
    }
}

#[test]
fn a_response_that_goes_on_and_on_becomes_a_long_stream() {
    let house = House::new(&format!("long_streams.after = \"1s\"\n{ONE}"));
    let mut client = house.connect();
    client.write_all(GET).unwrap();
    let mut at_server = house.origin.next();
    at_server.send("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nx");
    eventually("long", || house.gate().levels().long_streams == 1);
    assert_eq!(house.gate().held(), 0);
    at_server.send("y");
    assert_eq!(read_response(&mut client).unwrap().body, "xy");
    drop(client);
    house.finish();
}

#[test]
fn a_response_that_found_the_bound_full_becomes_a_long_stream_once_there_is_room() {
    let house = House::new(&format!("long_streams = {{ max = 1, after = \"1s\" }}\n{ONE}"));
    let mut listener = house.connect();
    listener.write_all(GET).unwrap();
    let mut events = house.origin.next();
    events.send("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: 1\n\n");
    eventually("a stream", || house.gate().levels().long_streams == 1);
    let mut client = house.connect();
    let began = Instant::now();
    client.write_all(GET).unwrap();
    let mut at_server = house.origin.next();
    at_server.send("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nx");
    // That it has asked in vain is not to be seen from here.
    eventually("long", || began.elapsed() > Duration::from_millis(1200));
    assert_eq!((house.gate().held(), house.gate().levels().long_streams), (1, 1));
    drop((listener, events));
    eventually("the other stream", || (house.gate().held(), house.gate().levels().long_streams) == (0, 1));
    at_server.send("y");
    assert_eq!(read_response(&mut client).unwrap().body, "xy");
    drop(client);
    house.finish();
}

#[test]
fn who_waits_for_a_full_server_keeps_its_permit_and_never_starts_once_its_client_has_left() {
    let origin = Origin::start();
    let house = House::new(&format!(
        "in_flight.algorithm = \"fixed\"\nin_flight.limit = 10\n\
         servers = [{{ name = \"only\", url = \"http://{}\", in_flight.max = 1 }}]\n\
         [application.app.class.default]\nqueue.wait.max = \"none\"\n",
        origin.address
    ));
    let snapshot = house.shared.snapshot();
    let awaiting = snapshot.applications[0].state.awaiting_server();
    let (mut first, mut leaver, mut last) = (house.connect(), house.connect(), house.connect());
    first.write_all(GET).unwrap();
    let mut at_server = origin.next();
    leaver.write_all(b"GET /leaver HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    last.write_all(b"GET /last HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    eventually("awaiting", || awaiting.read() == 2);
    assert_eq!(house.gate().held(), 3);
    drop(leaver);
    eventually("left", || awaiting.read() == 1);
    house.held(2);
    at_server.send(OK);
    assert_eq!(read_response(&mut first).unwrap().status, 200);
    let mut at_server = origin.next();
    assert_eq!((at_server.request.target.as_str(), awaiting.read()), ("/last", 0));
    at_server.send(OK);
    assert_eq!(read_response(&mut last).unwrap().status, 200);
    drop((first, last, snapshot));
    let counted = house.finish();
    assert_eq!(counted.counts(Meter::ABANDONED), [1]);
}

/// Ten requests at a time, before a server that takes one.
fn before_one(origin: &Origin, classes: &str) -> House {
    House::new(&format!(
        "in_flight.algorithm = \"fixed\"\nin_flight.limit = 10\n\
         servers = [{{ name = \"only\", url = \"http://{}\", in_flight.max = 1 }}]\n{classes}",
        origin.address
    ))
}

#[test]
fn a_deadline_passes_while_a_full_server_is_waited_for() {
    let origin = Origin::start();
    for (classes, field) in [
        ("[application.app.class.default]\nqueue.wait.max = \"none\"\ndeadline = \"50ms\"\n", ""),
        (
            "[application.app.class.default]\nqueue.wait.max = \"none\"\n\
             [[application.app.rule]]\ndeadline_header = \"x-timeout-ms\"\n",
            "X-Timeout-Ms: 50\r\n",
        ),
    ] {
        let house = before_one(&origin, classes);
        let (mut first, mut late) = (house.connect(), house.connect());
        first.write_all(GET).unwrap();
        let mut at_server = origin.next();
        write!(late, "GET /late HTTP/1.1\r\nHost: a\r\n{field}\r\n").unwrap();
        let refused = read_response(&mut late).unwrap();
        assert_eq!((refused.status, refused.field("tidegate-reason")), (503, Some("deadline_passed")));
        at_server.send(OK);
        assert_eq!(read_response(&mut first).unwrap().status, 200);
        first.write_all(b"GET /last HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        let mut at_server = origin.next();
        assert_eq!(at_server.request.target, "/last");
        at_server.send(OK);
        assert_eq!(read_response(&mut first).unwrap().status, 200);
        drop((first, late));
        assert_eq!(house.finish().counts(Meter::REFUSED)[Refusal::DeadlinePassed.index()], 1);
    }
}

#[test]
fn a_server_that_has_room_again_takes_the_highest_priority_first() {
    let origin = Origin::start();
    let house = before_one(
        &origin,
        "[application.app.class.default]\nqueue.wait.max = \"none\"\n\
         [[application.app.rule]]\npath_prefix = \"/high\"\npriority = 6\n\
         [[application.app.rule]]\npath_prefix = \"/low\"\npriority = 1\n",
    );
    let snapshot = house.shared.snapshot();
    let awaiting = snapshot.applications[0].state.awaiting_server();
    let mut first = house.connect();
    first.write_all(GET).unwrap();
    let mut at_server = origin.next();
    let mut waiting = Vec::new();
    for (n, path) in (1..).zip(["/low", "/a", "/b", "/high"]) {
        let mut client = house.connect();
        write!(client, "GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        eventually("awaiting", || awaiting.read() == n);
        waiting.push(client);
    }
    for path in ["/high", "/a", "/b", "/low"] {
        at_server.send(OK);
        at_server = origin.next();
        assert_eq!(at_server.request.target, path);
    }
    at_server.send(OK);
    for client in &mut waiting {
        assert_eq!(read_response(client).unwrap().status, 200);
    }
    drop((first, waiting, snapshot));
    house.finish();
}
