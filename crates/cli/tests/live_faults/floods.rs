//! Floods of HTTP/2: CONTINUATION without end, rapid resets, settings and pings.

use std::{
    io::{self, Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use crate::{
    Front,
    support::{client::get, origin::Origin},
};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// More than any honest client sends in one go.
const FLOOD: u32 = 200_000;

const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const CONTINUATION: u8 = 9;

const END_STREAM_AND_HEADERS: u8 = 5;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a short payload").to_be_bytes();
    let mut frame = vec![length[1], length[2], length[3], kind, flags];
    frame.extend_from_slice(&stream.to_be_bytes());
    frame.extend_from_slice(payload);
    frame
}

/// `GET /` of a host, as indexed fields and one literal.
fn head() -> Vec<u8> {
    let mut block = vec![0x82, 0x86, 0x84, 0x41, 12];
    block.extend_from_slice(b"test.example");
    block
}

fn connect(address: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(address).expect("connect");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
    stream.set_write_timeout(Some(Duration::from_secs(20))).expect("a timeout");
    stream.write_all(PREFACE).expect("send the preface");
    stream.write_all(&frame(SETTINGS, 0, 0, b"")).expect("send settings");
    stream
}

/// Sends a flood until the gateway ends the connection. Answers are read on the side, so that the gateway is never
/// held up by them.
fn flood(address: SocketAddr, what: &str, frames: impl Iterator<Item = Vec<u8>>) {
    let mut stream = connect(address);
    let mut answers = stream.try_clone().expect("a second handle");
    let reader = std::thread::spawn(move || io::copy(&mut Read::by_ref(&mut answers), &mut io::sink()));
    let mut ended = false;
    for frame in frames {
        if stream.write_all(&frame).is_err() {
            ended = true;
            break;
        }
    }
    // What was sent last may have been taken by the system only.
    let closed = match reader.join().expect("the reader") {
        Ok(_) => true,
        Err(error) => error.kind() == io::ErrorKind::ConnectionReset,
    };
    assert!(ended || closed, "{what}: the gateway put up with {FLOOD} frames");
}

#[test]
fn floods_end_their_own_connection_and_nothing_else() {
    let origin = Origin::hello();
    let front = Front::start(&[origin.url()], "", "");
    assert_eq!(get(front.listen, "/").expect("an answer").status, 200);
    let before = front.gateway.resident_bytes();

    let header = [&[0x00, 0x03][..], b"x-a", &[0x7f, 0x21], &[b'v'; 160][..]].concat();
    flood(
        front.listen,
        "CONTINUATION without end",
        std::iter::once(frame(HEADERS, 1, 1, &head()))
            .chain((0..FLOOD).map(|_| frame(CONTINUATION, 0, 1, &header))),
    );
    flood(
        front.listen,
        "rapid reset",
        (0..FLOOD).map(|n| {
            let stream = 2 * n + 1;
            let mut frames = frame(HEADERS, END_STREAM_AND_HEADERS, stream, &head());
            frames.extend(frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes()));
            frames
        }),
    );
    assert_eq!(get(front.listen, "/").expect("an answer").status, 200, "others are served");

    // These cost their sender as much as the gateway, if their answers do not pile up: nobody reads them here.
    for (what, kind, payload) in [("settings", SETTINGS, &b""[..]), ("pings", PING, b"12345678")] {
        let mut stream = connect(front.listen);
        let frames = frame(kind, 0, 0, payload).repeat(1_000);
        stream.set_write_timeout(Some(Duration::from_secs(1))).expect("a timeout");
        for _ in 0..FLOOD / 1_000 {
            if stream.write_all(&frames).is_err() {
                break;
            }
        }
        assert_eq!(get(front.listen, "/").expect("an answer").status, 200, "{what}: others are served");
    }
    let grown = front.gateway.resident_bytes().saturating_sub(before);
    assert!(grown < 32 * 1024 * 1024, "memory grew by {grown} bytes");
    front.finish(4);
}
