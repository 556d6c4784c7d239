//! HTTP/2 messages that stop before their end: only END_STREAM ends one (RFC 9113, section 8.1).

use std::{
    io::{ErrorKind, Read, Write},
    net::{TcpListener, TcpStream},
    sync::mpsc::{Receiver, channel},
};

use tidegate_control::{ApplicationId, ServerId, meters::Meter};
use tidegate_runtime::Subject;

use crate::{
    frames::{
        ACK, DATA, END_HEADERS, END_STREAM, Frames, HEADERS, PING, REQUEST, RST_STREAM, SETTINGS,
        WINDOW_UPDATE, frame,
    },
    request_house::{House, take},
    request_log::{house, lines, member},
    support::{PATIENCE, connect, read_response},
};

const NO_ERROR: &[u8] = &[0; 4];
const CANCEL: &[u8] = &[0, 0, 0, 8];

/// `POST / HTTP/2` of host `a`, with other fields in HPACK behind.
fn post(fields: &[u8]) -> Vec<u8> {
    [&[0x83], &REQUEST[1..], fields].concat()
}

/// Fields without an index in HPACK; both short.
fn field(name: &str, value: &str) -> Vec<u8> {
    let text = |text: &str| [&[u8::try_from(text.len()).unwrap()], text.as_bytes()].concat();
    [vec![0], text(name), text(value)].concat()
}

/// Goes on once the gateway has read everything that was sent.
fn settle(client: &mut Frames) {
    client.send(PING, 0, 0, &[0; 8]).unwrap();
    while !matches!(client.receive().unwrap(), (PING, flags, ..) if flags & ACK != 0) {}
}

#[test]
fn an_upload_that_is_reset_never_goes_to_the_server_as_a_whole() {
    for length in [field("content-length", "100"), vec![]] {
        for reset in [NO_ERROR, CANCEL] {
            for at_once in [true, false] {
                let house = house("", "");
                let mut client = Frames::new(house.connect());
                let head = frame(HEADERS, END_HEADERS, 1, &post(&length));
                let data = frame(DATA, 0, 1, b"first half");
                let reset = frame(RST_STREAM, 0, 1, reset);
                if at_once {
                    client.stream.write_all(&[head, data, reset].concat()).unwrap();
                } else {
                    client.stream.write_all(&[head, data].concat()).unwrap();
                    settle(&mut client);
                    client.stream.write_all(&reset).unwrap();
                }
                settle(&mut client);
                let line = &lines(&house, 1)[0];
                assert_eq!(member(line, "reason"), Some("body_broken"), "{line}");
                assert_eq!(member(line, "bytes_in"), Some("10"), "{line}");
                // The connection goes on, and what comes next is the first the server sees.
                client.send(HEADERS, END_STREAM | END_HEADERS, 3, REQUEST).unwrap();
                let mut at_server = house.origin.next();
                assert_eq!(at_server.request.method, "GET");
                at_server.ok("");
                assert_eq!(client.until(HEADERS).2, 3);
                drop(client);
                house.finish();
            }
        }
    }
}

const PIECE: [u8; 16_384] = [b'x'; 16_384];

/// Sends the rest of a body of so many pieces on stream 1, of which one is out, as its window lets it.
fn upload(client: &mut Frames, pieces: usize) {
    let mut window: usize = 65_535 - PIECE.len();
    for piece in 1..pieces {
        while window < PIECE.len() {
            match client.receive().unwrap() {
                (WINDOW_UPDATE, _, 1, by) => {
                    window += usize::try_from(u32::from_be_bytes(by.try_into().unwrap())).unwrap();
                }
                (RST_STREAM, _, 1, code) => panic!("reset: {code:?}"),
                _ => {}
            }
        }
        client.send(DATA, u8::from(piece + 1 == pieces) * END_STREAM, 1, &PIECE).unwrap();
        window -= PIECE.len();
    }
}

/// There are clients that lose an answer to the reset that follows it while they are sending (curl 7.88).
#[test]
fn who_is_answered_within_an_upload_may_go_on_for_a_while() {
    let pieces = 20;
    for (knobs, is_announced, reason) in [
        ("maintenance = true\n", true, "maintenance"),
        ("body.bytes.max = \"8KiB\"\n", true, "body_too_large"),
        ("body.bytes.max = \"8KiB\"\n", false, "body_too_large"),
    ] {
        for goes_on in [true, false] {
            let house = house(knobs, "");
            let mut client = Frames::new(house.connect());
            client.stream.set_nodelay(true).unwrap();
            let length = field("content-length", &(pieces * PIECE.len()).to_string());
            let fields = if is_announced { &length[..] } else { &[] };
            client.send(HEADERS, END_HEADERS, 1, &post(fields)).unwrap();
            client.send(DATA, 0, 1, &PIECE).unwrap();
            let (_, flags, _, answer) = client.until(DATA);
            assert_eq!(flags & END_STREAM, END_STREAM);
            assert!(String::from_utf8(answer).unwrap().contains(reason));
            if goes_on {
                upload(&mut client, pieces);
                client.send(PING, 0, 0, &[0; 8]).unwrap();
            }
            // Who goes on is not stopped, and who comes to no end is told to.
            loop {
                match client.receive().unwrap() {
                    (RST_STREAM, _, 1, code) => {
                        break assert!(!goes_on && code == NO_ERROR, "{reason}: {code:?}");
                    }
                    (PING, flags, ..) if flags & ACK != 0 => break,
                    _ => {}
                }
            }
            drop(client);
            house.finish();
        }
    }
}

#[test]
fn an_upload_that_streams_and_is_reset_breaks_off_at_the_server() {
    for length in [field("content-length", "100000"), vec![]] {
        let house = house("spool = \"1KiB\"\nretries.max = 0\n", "");
        let mut client = Frames::new(house.connect());
        client.send(HEADERS, END_HEADERS, 1, &post(&length)).unwrap();
        client.send(DATA, 0, 1, &[b'x'; 4096]).unwrap();
        settle(&mut client);
        house.held(1);
        client.send(RST_STREAM, 0, 1, NO_ERROR).unwrap();
        let line = &lines(&house, 1)[0];
        assert_eq!(member(line, "reason"), Some("body_broken"), "{line}");
        assert_eq!(member(line, "bytes_in"), Some("4096"), "{line}");
        assert!(house.origin.any().request.fault.is_some(), "the server has a whole request");
        drop(client);
        house.finish();
    }
}

/// A server that speaks HTTP/2 in single frames, and its connections.
fn server() -> (String, Receiver<Frames>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let servers = format!(
        "servers = \"http://{}\"\nupstream.protocol = \"http2\"\nretries.max = 0\n",
        listener.local_addr().unwrap()
    );
    let (sender, connections) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            stream.set_nodelay(true).unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            if sender.send(Frames::serve(stream)).is_err() {
                break;
            }
        }
    });
    (servers, connections)
}

/// A request on its way to such a server; both ends and the stream.
fn asks(house: &House, connections: &Receiver<Frames>, request: &str) -> (TcpStream, Frames, u32) {
    let mut client = connect(house.address());
    client.write_all(request.as_bytes()).unwrap();
    let mut server = connections.recv_timeout(PATIENCE).unwrap();
    let (_, _, stream, _) = server.until(HEADERS);
    server.send(SETTINGS, ACK, 0, &[]).unwrap();
    (client, server, stream)
}

/// Indexed field 8: status 200.
const OK: &[u8] = &[0x88];

#[test]
fn an_answer_that_is_reset_is_never_taken_as_a_whole() {
    for length in [field("content-length", "100"), vec![]] {
        let head = [OK, &length].concat();
        for after_its_head in [true, false] {
            let (servers, connections) = server();
            let house = house(&servers, "");
            let (mut client, mut server, stream) =
                asks(&house, &connections, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
            let head = frame(HEADERS, END_HEADERS, stream, &head);
            let data = frame(DATA, 0, stream, b"first half");
            let reset = frame(RST_STREAM, 0, stream, NO_ERROR);
            let mut status = Vec::new();
            if after_its_head {
                server.stream.write_all(&[head, data].concat()).unwrap();
                status = take(&mut client, 12);
                assert_eq!(status, b"HTTP/1.1 200");
                server.stream.write_all(&reset).unwrap();
            } else {
                server.stream.write_all(&[head, data, reset].concat()).unwrap();
            }
            // Before its head has gone out there is still time for a status that says so.
            match read_response(&mut status.as_slice().chain(&mut client)) {
                Ok(response) => {
                    assert!(!after_its_head);
                    assert_eq!((response.status, response.field("tidegate-reason")), (502, Some("body")));
                }
                Err(error) => assert_ne!(error.kind(), ErrorKind::WouldBlock, "{error}"),
            }
            let line = &lines(&house, 1)[0];
            assert_eq!(member(line, "reason"), Some("body"), "{line}");
            if after_its_head {
                assert_eq!(member(line, "status"), Some("200"), "{line}");
            }
            drop((client, server));
            let counted = house.finish();
            assert_eq!(counted.counts(Meter::GOOD), [0]);
        }
    }
}

#[test]
fn who_leaves_with_all_that_was_announced_has_had_a_whole_answer() {
    let (servers, connections) = server();
    let house = house(&servers, "");
    let (mut client, mut server, stream) = asks(&house, &connections, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let head = frame(HEADERS, END_HEADERS, stream, &[OK, &field("content-length", "5")].concat());
    server.stream.write_all(&[head, frame(DATA, 0, stream, b"hello")].concat()).unwrap();
    assert_eq!(read_response(&mut client).unwrap().body, "hello");
    drop(client);
    let line = &lines(&house, 1)[0];
    assert_eq!((member(line, "status"), member(line, "reason")), (Some("200"), None), "{line}");
    server.stream.write_all(&frame(DATA, END_STREAM, stream, b"")).unwrap();
    house.held(0);
    drop(server);
    let counted = house.finish();
    assert_eq!(counted.counts(Meter::GOOD), [1]);
    assert_eq!(counted.counts(Meter::ABANDONED), [0]);
}

/// The same over HTTP/2, where a task reads ahead from the start.
#[test]
fn a_stream_given_up_with_all_that_was_announced_has_had_a_whole_answer() {
    let (servers, connections) = server();
    let house = house(&servers, "");
    let mut client = Frames::new(house.connect());
    client.send(HEADERS, END_STREAM | END_HEADERS, 1, REQUEST).unwrap();
    let mut server = connections.recv_timeout(PATIENCE).unwrap();
    let (_, _, stream, _) = server.until(HEADERS);
    server.send(SETTINGS, ACK, 0, &[]).unwrap();
    let head = frame(HEADERS, END_HEADERS, stream, &[OK, &field("content-length", "5")].concat());
    server.stream.write_all(&[head, frame(DATA, 0, stream, b"hello")].concat()).unwrap();
    assert_eq!(client.until(DATA).3, b"hello");
    client.send(RST_STREAM, 0, 1, CANCEL).unwrap();
    let line = &lines(&house, 1)[0];
    assert_eq!((member(line, "status"), member(line, "reason")), (Some("200"), None), "{line}");
    assert_eq!(member(line, "host"), Some("a"), "{line}");
    server.stream.write_all(&frame(DATA, END_STREAM, stream, b"")).unwrap();
    house.held(0);
    drop((client, server));
    let counted = house.finish();
    assert_eq!(counted.counts(Meter::GOOD), [1]);
}

#[test]
fn an_answer_before_the_end_of_its_request_is_whole() {
    let (servers, connections) = server();
    let house = house(&format!("{servers}spool = \"1KiB\"\n"), "");
    let upload = format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n{}", "x".repeat(4096));
    let (mut client, mut server, stream) = asks(&house, &connections, &upload);
    let head = frame(HEADERS, END_HEADERS, stream, OK);
    let data = frame(DATA, END_STREAM, stream, b"enough");
    let reset = frame(RST_STREAM, 0, stream, NO_ERROR);
    server.stream.write_all(&[head, data, reset].concat()).unwrap();
    let response = read_response(&mut client).unwrap();
    assert_eq!((response.status, response.body.as_str()), (200, "enough"));
    let line = &lines(&house, 1)[0];
    assert_eq!((member(line, "status"), member(line, "reason")), (Some("200"), None), "{line}");
    drop((client, server));
    let counted = house.finish();
    assert_eq!(counted.counts(Meter::GOOD), [1]);
}

/// Of what has no content the head is all, in whatever frame the server ends it.
#[test]
fn an_answer_without_content_is_whole_with_its_head() {
    // Indexed fields 9 and 11: 204 and 304.
    for (method, head, status) in [
        ("HEAD", [OK, &field("content-length", "100")].concat(), "200"),
        ("GET", vec![0x89], "204"),
        ("GET", [&[0x8b], &field("content-length", "100")[..]].concat(), "304"),
    ] {
        let (servers, connections) = server();
        let house = house(&servers, "");
        let (mut client, mut server, stream) =
            asks(&house, &connections, &format!("{method} / HTTP/1.1\r\nHost: a\r\n\r\n"));
        server.send(HEADERS, END_HEADERS, stream, &head).unwrap();
        crate::support::read_head(&mut client).unwrap();
        let line = &lines(&house, 1)[0];
        assert_eq!((member(line, "status"), member(line, "reason")), (Some(status), None), "{line}");
        server.send(DATA, END_STREAM, stream, b"").unwrap();
        house.held(0);
        drop((client, server));
        let counted = house.finish();
        assert_eq!([counted.counts(Meter::GOOD), counted.counts(Meter::ABANDONED)], [[1], [0]]);
    }
}

/// As clients of gRPC do with a call that they need no more.
#[test]
fn a_call_that_its_client_cancels_is_no_failure_of_its_server() {
    let (servers, connections) = server();
    let house = house(&servers, "");
    let mut client = Frames::new(house.connect());
    client.send(HEADERS, END_HEADERS, 1, &post(&field("content-type", "application/grpc"))).unwrap();
    client.send(DATA, 0, 1, b"hello").unwrap();
    let mut server = connections.recv_timeout(PATIENCE).unwrap();
    let (_, _, stream, _) = server.until(HEADERS);
    server.send(SETTINGS, ACK, 0, &[]).unwrap();
    assert_eq!(server.until(DATA).3, b"hello");
    server.send(HEADERS, END_HEADERS, stream, OK).unwrap();
    assert_eq!(client.until(HEADERS).2, 1);
    client.send(RST_STREAM, 0, 1, CANCEL).unwrap();
    assert_eq!(server.until(RST_STREAM).2, stream);
    house.held(0);
    drop((client, server));
    let shared = std::sync::Arc::clone(&house.shared);
    let counted = house.finish();
    assert_eq!(counted.counts(Meter::ABANDONED), [1]);
    let totals = shared.totals().read();
    let at_server = &totals[&Subject::Server(ApplicationId(0), ServerId(0))];
    assert_eq!(at_server.counts(Meter::UPSTREAM_ERRORS).iter().sum::<u64>(), 0);
}

#[test]
fn an_upload_whose_client_leaves_is_told_with_what_came_of_it() {
    let (servers, connections) = server();
    let house = house(&format!("{servers}spool = \"1KiB\"\n"), "");
    let upload = format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n{}", "x".repeat(4096));
    let (client, mut server, _) = asks(&house, &connections, &upload);
    let mut come = 0;
    while come < 4096 {
        come += server.until(DATA).3.len();
    }
    drop(client);
    let line = &lines(&house, 1)[0];
    assert_eq!(member(line, "reason"), Some("body_broken"), "{line}");
    assert_eq!(member(line, "bytes_in"), Some("4096"), "{line}");
    drop(server);
    house.finish();
}
