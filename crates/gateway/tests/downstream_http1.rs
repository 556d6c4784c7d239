//! HTTP/1 from clients: keep-alive, parking, bounds, time.

use std::{
    io::{Read, Write},
    net::{Shutdown, TcpStream},
    time::Duration,
};

use socket2::{Domain, Socket, Type};

use crate::{
    request_house::House,
    support::{Bed, PATIENCE, eventually, exchange, get, read_response, rest},
};

/// Timeouts short enough to be met in a test, and far enough apart not to be confused.
const QUICK: &str = "park.after = \"20ms\"\n";

#[test]
fn requests_follow_one_another_on_a_connection() {
    let bed = Bed::plain("");
    let mut client = bed.connect();
    for path in ["/a", "/b", "/c"] {
        let response = get(&mut client, path);
        assert_eq!(response.status, 200);
        assert!(response.body.starts_with(&format!("GET {path} HTTP/1.1")), "{}", response.body);
    }
    let response = exchange(&mut client, "POST /d HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\n\r\nhello");
    assert!(response.body.contains("body: 5"), "{}", response.body);
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let bed = Bed::plain("");
    let mut client = bed.connect();
    let requests: String = (0..20).map(|n| format!("GET /{n} HTTP/1.1\r\nhost: a\r\n\r\n")).collect();
    client.write_all(requests.as_bytes()).unwrap();
    for n in 0..20 {
        let response = read_response(&mut client).unwrap();
        assert!(response.body.starts_with(&format!("GET /{n} ")), "{}", response.body);
    }
}

/// A reset would destroy what is still on its way of the response before.
#[test]
fn a_response_that_breaks_off_leaves_the_one_before_it_whole() {
    for (framing, part) in [("content-length: 100", "hel"), ("transfer-encoding: chunked", "3\r\nhel\r\n")] {
        let house = House::new("");
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        // So that the first is not there yet.
        socket.set_recv_buffer_size(4096).unwrap();
        socket.connect(&house.address().into()).unwrap();
        let mut client = TcpStream::from(socket);
        client.set_read_timeout(Some(PATIENCE)).unwrap();
        client.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        let body = "x".repeat(100_000);
        house.origin.next().ok(&body);
        let mut at_server = house.origin.next();
        // Of an event stream it shows that its head has come.
        at_server
            .send(&format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n{framing}\r\n\r\n{part}"));
        let gate = house.gate();
        eventually("begun", || gate.levels().long_streams == 1);
        at_server.stream.shutdown(Shutdown::Both).unwrap();
        eventually("broken off", || gate.levels().long_streams == 0);
        assert_eq!(read_response(&mut client).unwrap().body.len(), body.len());
        let broken = String::from_utf8(rest(&mut client)).unwrap();
        assert!(broken.ends_with(part), "{broken}");
        house.finish();
    }
}

#[test]
fn a_parked_connection_goes_on_as_if_nothing_had_been() {
    let bed = Bed::plain(QUICK);
    let mut client = bed.connect();
    for n in 0..3 {
        eventually("parked", || bed.shared.parked().read() == 1);
        assert_eq!(get(&mut client, &format!("/{n}")).status, 200);
    }
    eventually("parked", || bed.shared.parked().read() == 1);
    drop(client);
    eventually("gone", || bed.shared.parked().read() == 0);
    eventually("given back", || bed.shared.with_connections(|c, _| c.open() + c.in_preface()) == 0);
}

#[test]
fn a_head_that_comes_byte_by_byte_is_a_head() {
    let bed = Bed::plain(QUICK);
    let mut client = bed.connect();
    client.set_nodelay(true).unwrap();
    for n in 0..2 {
        for byte in format!("GET /slow{n} HTTP/1.1\r\nhost: a\r\n\r\n").as_bytes() {
            client.write_all(&[*byte]).unwrap();
        }
        let response = read_response(&mut client).unwrap();
        assert!(response.body.starts_with(&format!("GET /slow{n} ")), "{}", response.body);
    }
}

#[test]
fn a_head_that_never_ends_is_answered_408() {
    for first in ["", "GET / HTTP/1.1\r\nhost: a\r\n\r\n"] {
        let bed = Bed::plain("head.timeout = \"100ms\"\n");
        let mut client = bed.connect();
        if !first.is_empty() {
            assert_eq!(exchange(&mut client, first).status, 200);
        }
        client.write_all(b"GET / HTTP/1.1\r\nhos").unwrap();
        assert_eq!(read_response(&mut client).unwrap().status, 408);
        assert_eq!(rest(&mut client), b"");
    }
}

#[test]
fn a_byte_a_moment_does_not_keep_a_head_going() {
    let bed = Bed::plain("head.timeout = \"200ms\"\n");
    let mut client = bed.connect();
    let mut writer = client.try_clone().unwrap();
    let writing = std::thread::spawn(move || {
        let bytes = b"GET / HTTP/1.1\r\nx: ".iter().chain(std::iter::repeat(&b'a'));
        // Until the gateway closes.
        for byte in bytes {
            if writer.write_all(&[*byte]).is_err() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    assert_eq!(read_response(&mut client).unwrap().status, 408);
    client.shutdown(Shutdown::Both).unwrap();
    writing.join().unwrap();
}

#[test]
fn an_idle_connection_is_closed_in_the_end() {
    for park in ["20ms", "1h"] {
        let bed = Bed::plain(&format!("keep_alive.timeout = \"2s\"\npark.after = \"{park}\"\n"));
        let mut fresh = bed.connect();
        let mut used = bed.connect();
        assert_eq!(get(&mut used, "/").status, 200);
        assert_eq!(rest(&mut fresh), b"");
        assert_eq!(rest(&mut used), b"");
    }
}

#[test]
fn a_body_that_stops_coming_is_answered_408() {
    let bed = Bed::plain("body.idle_timeout = \"200ms\"\n");
    let mut client = bed.connect();
    client.write_all(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 10\r\n\r\nhel").unwrap();
    assert_eq!(read_response(&mut client).unwrap().status, 408);
    assert_eq!(rest(&mut client), b"");
}

#[test]
fn a_slow_server_runs_into_none_of_the_clients_timeouts() {
    let bed = Bed::plain(
        "head.timeout = \"1s\"\nkeep_alive.timeout = \"1s\"\nbody.idle_timeout = \"1s\"\npark.after = \"20ms\"\n",
    );
    let mut client = bed.connect();
    assert_eq!(get(&mut client, "/sleep/3000").status, 200);
}

#[test]
fn heads_beyond_the_bounds_are_answered_431() {
    let bed = Bed::plain("head.bytes.max = \"4KiB\"\nheaders.max = 20\n");
    let many: String = (0..21).map(|n| format!("x-{n}: y\r\n")).collect();
    let long = "y".repeat(5000);
    for fields in [many, format!("x: {long}\r\n")] {
        let mut client = bed.connect();
        let response = exchange(&mut client, &format!("GET / HTTP/1.1\r\nhost: a\r\n{fields}\r\n"));
        assert_eq!(response.status, 431, "{}", response.head);
        assert_eq!(rest(&mut client), b"");
    }
    // Beside the bounds, also where the head comes in two parts.
    let just: String = (0..15).map(|n| format!("x-{n}: {}\r\n", "y".repeat(200))).collect();
    let mut client = bed.connect();
    client.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n").unwrap();
    assert_eq!(exchange(&mut client, &format!("{just}\r\n")).status, 200);
}

#[test]
fn a_million_header_fields_are_refused_long_before_the_last() {
    let bed = Bed::plain("");
    let mut client = bed.connect();
    client.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n").unwrap();
    let fields = "x: y\r\n".repeat(1000);
    // The gateway closes at some point, and then writing fails.
    for _ in 0..1000 {
        if client.write_all(fields.as_bytes()).is_err() {
            break;
        }
    }
    let mut first = [0; 12];
    // The reset that our own unread bytes provoke can be faster than the response.
    if client.read_exact(&mut first).is_ok() {
        assert_eq!(&first, b"HTTP/1.1 431");
    }
    assert_eq!(get(&mut bed.connect(), "/").status, 200);
}

#[test]
fn what_is_no_request_is_answered_400() {
    let bed = Bed::plain("");
    for bytes in [
        "\x16\x03\x01\x02\r\n\r\n",
        "GET\r\n\r\n",
        "GET / HTTP/1.1\r\nno colon\r\n\r\n",
        "GET / HTTP/7\r\n\r\n",
    ] {
        let mut client = bed.connect();
        assert_eq!(exchange(&mut client, bytes).status, 400, "{bytes:?}");
        assert_eq!(rest(&mut client), b"");
    }
}

#[test]
fn a_client_that_says_close_is_closed() {
    let bed = Bed::plain("");
    let mut client = bed.connect();
    let response = exchange(&mut client, "GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
    assert_eq!((response.status, response.field("connection")), (200, Some("close")));
    assert_eq!(rest(&mut client), b"");
    let mut client = bed.connect();
    assert_eq!(exchange(&mut client, "GET / HTTP/1.0\r\nhost: a\r\n\r\n").status, 200);
    assert_eq!(rest(&mut client), b"");
}
