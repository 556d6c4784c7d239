//! HTTP/2 from clients: by prior knowledge and over TLS, streams, floods, time.

use std::io::{self, Write};

use http::Response;
use http_body_util::{BodyExt, Full};
use hyper::{body::Incoming, client::conn::http2::SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};

use tidegate_control::meters::{BadRequest, Meter};
use tidegate_runtime::Subject;

use crate::{
    downstream_tls::{Tls, client_config},
    frames::{
        ACK, CONTINUATION, DATA, END_HEADERS, END_STREAM, Frames, GOAWAY, HEADERS, PING, PREFACE, REQUEST,
        RST_STREAM, SETTINGS, WINDOW_UPDATE, frame,
    },
    request_house::House,
    support::{Bed, PATIENCE, PLAIN, eventually, rest},
};

fn run<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(PATIENCE, future).await.expect("in time") })
}

async fn client(bed: &Bed) -> SendRequest<Full<bytes::Bytes>> {
    speak(tokio::net::TcpStream::connect(bed.running.address("http").unwrap()).await.unwrap()).await
}

async fn speak(stream: tokio::net::TcpStream) -> SendRequest<Full<bytes::Bytes>> {
    let (client, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    client
}

fn request(path: &str, body: &'static [u8]) -> http::Request<Full<bytes::Bytes>> {
    http::Request::post(format!("http://app.example{path}")).body(Full::new(body.into())).unwrap()
}

#[test]
fn prior_knowledge_is_understood() {
    let bed = Bed::plain("park.after = \"20ms\"\n");
    run(async {
        let mut client = client(&bed).await;
        for n in 0..3 {
            let response = client.send_request(request(&format!("/{n}"), b"hello")).await.unwrap();
            assert_eq!(response.status(), 200);
            let body = response.into_body().collect().await.unwrap().to_bytes();
            let body = String::from_utf8(body.to_vec()).unwrap();
            assert!(body.starts_with(&format!("POST /{n} ")) && body.contains("body: 5"), "{body}");
        }
        let many = (0..50).map(|n| client.send_request(request(&format!("/{n}"), b"")));
        for response in many.collect::<Vec<_>>() {
            assert_eq!(response.await.unwrap().status(), 200);
        }
    });
}

#[test]
fn the_preface_may_come_byte_by_byte() {
    let bed = Bed::plain("");
    let mut client = bed.connect();
    client.set_nodelay(true).unwrap();
    for byte in PREFACE {
        client.write_all(&[*byte]).unwrap();
    }
    let mut frames = Frames { stream: client };
    frames.send(SETTINGS, 0, 0, &[]).unwrap();
    frames.send(HEADERS, END_STREAM | END_HEADERS, 1, REQUEST).unwrap();
    let (.., stream, head) = frames.until(HEADERS);
    // Indexed field 8: status 200.
    assert_eq!((stream, head[0]), (1, 0x88));
}

/// A server of HTTP/1 would get what is no field, and some take all of the head for malformed.
#[test]
fn a_name_that_http1_does_not_know_is_refused() {
    let bed = Bed::plain("");
    let mut frames = Frames::new(bed.connect());
    // A literal field that is not to be indexed.
    let fields = [REQUEST, b"\x00\x03x\"a\x011"].concat();
    frames.send(HEADERS, END_STREAM | END_HEADERS, 1, &fields).unwrap();
    let (.., head) = frames.until(HEADERS);
    // Indexed field 12: status 400.
    assert_eq!(head[0], 0x8c);
}

#[test]
fn a_client_that_agrees_on_http2_and_does_not_begin_it_has_as_long_as_for_its_hello() {
    // The handshake has to be done within it, on a busy machine too.
    let tls = Tls::new("hello.timeout = \"1s\"\n", "");
    let opens = || {
        let mut client = tls.client(&client_config(&tls, &["h2"]), "one.example");
        client.flush().unwrap();
        assert_eq!(client.conn.alpn_protocol(), Some(&b"h2"[..]));
        client
    };
    for begun in [0, 1, PREFACE.len()] {
        let mut client = opens();
        client.write_all(&PREFACE[..begun]).unwrap();
        client.flush().unwrap();
        rest(&mut client);
    }
    // One that has begun it may be idle for longer.
    let mut frames = Frames { stream: opens() };
    frames.stream.write_all(PREFACE).unwrap();
    frames.send(SETTINGS, 0, 0, &[]).unwrap();
    frames.stream.flush().unwrap();
    std::thread::sleep(std::time::Duration::from_secs(2));
    frames.send(HEADERS, END_STREAM | END_HEADERS, 1, REQUEST).unwrap();
    frames.until(HEADERS);
}

#[test]
fn the_bounds_are_announced() {
    let bed = Bed::plain("h2.streams.max = 7\nhead.bytes.max = \"4KiB\"\n");
    let mut frames = Frames::new(bed.connect());
    let (_, _, _, settings) = frames.until(SETTINGS);
    let value = |id: u8| {
        let setting = settings.chunks(6).find(|setting| setting[1] == id).unwrap();
        u32::from_be_bytes([setting[2], setting[3], setting[4], setting[5]])
    };
    // Streams, window, header list (RFC 9113, section 6.5.2).
    assert_eq!((value(3), value(4), value(6)), (7, 64 * 1024, 2 * 4096 + 100 * 32));
}

#[test]
fn heads_beyond_the_bounds_are_answered_431_and_counted() {
    let bed = Bed::plain("head.bytes.max = \"4KiB\"\nheaders.max = 20\n");
    let long = "y".repeat(4096);
    let crumbs = vec![("cookie", "a=b"); 200];
    let cases = [
        (vec![("x", long.as_str())], 431),
        (vec![("x", "y"); 21], 431),
        // As many bytes as are taken of HTTP/1.
        (vec![("x", &long[..3900])], 200),
        // Browsers split their cookies.
        (crumbs, 200),
    ];
    run(async {
        let mut client = client(&bed).await;
        for (fields, status) in cases {
            let mut request = request("/", b"");
            for (name, value) in &fields {
                request.headers_mut().append(*name, value.parse().unwrap());
            }
            let response = client.send_request(request).await.unwrap();
            assert_eq!(response.status(), status, "{} fields", fields.len());
            let reason = response.headers().get("tidegate-reason").map(|reason| reason.to_str().unwrap());
            assert_eq!(reason, (status == 431).then_some("head_too_large"));
        }
    });
    eventually("counted", || {
        let totals = bed.shared.totals().read();
        let counted = totals.get(&Subject::Host).map(|host| host.counts(Meter::BAD_REQUESTS).to_vec());
        counted.is_some_and(|counted| counted[BadRequest::HeadTooLarge as usize] == 2)
    });
}

/// RFC 9113, section 8.2.1: over HTTP/1 blanks around a value belong to the line, here they would be part of it.
#[test]
fn a_value_with_a_blank_at_either_end_is_refused() {
    let bed = Bed::plain("");
    run(async {
        let mut client = client(&bed).await;
        for (value, status) in
            [(" y", 400), ("y ", 400), ("\ty", 400), ("y\t", 400), (" ", 400), ("y z", 200), ("", 200)]
        {
            let mut request = request("/", b"");
            request.headers_mut().append("x", http::HeaderValue::from_static(value));
            let response = client.send_request(request).await.unwrap();
            assert_eq!(response.status(), status, "{value:?}");
            let reason = response.headers().get("tidegate-reason").map(|reason| reason.to_str().unwrap());
            assert_eq!(reason, (status == 400).then_some("bad_head"), "{value:?}");
        }
    });
}

#[test]
fn rapid_reset_ends_the_connection() {
    let bed = Bed::plain("h2.resets.max = 20\n");
    let mut frames = Frames::new(bed.connect());
    for stream in (1..4001).step_by(2) {
        let sent = frames
            .send(HEADERS, END_STREAM | END_HEADERS, stream, REQUEST)
            .and_then(|()| frames.send(RST_STREAM, 0, stream, &[0, 0, 0, 8]));
        if sent.is_err() {
            break;
        }
    }
    frames.until_closed();
    eventually("given back", || bed.shared.with_connections(|c, _| c.open()) == 0);
    let held = || bed.shared.snapshot().applications[0].state.gate().held();
    eventually("permits given back", || held() == 0);
}

#[test]
fn resets_with_time_between_them_end_it_too() {
    let bed = Bed::plain("h2.resets.max = 20\n");
    let mut frames = Frames::new(bed.connect());
    for n in 0..200 {
        // A ping between the two: the stream has begun when it is reset.
        let path_sleeps = [&[0x82, 0x86, 0x04, 0x0a][..], b"/sleep/500", &[0x41, 0x01, b'a']].concat();
        let stream = 2 * n + 1;
        let sent = frames
            .send(HEADERS, END_STREAM | END_HEADERS, stream, &path_sleeps)
            .and_then(|()| frames.send(PING, 0, 0, &[0; 8]));
        let ponged = sent.is_ok()
            && loop {
                match frames.receive() {
                    Ok((PING, ..)) => break true,
                    Ok(_) => {}
                    Err(_) => break false,
                }
            };
        if !ponged || frames.send(RST_STREAM, 0, stream, &[0, 0, 0, 8]).is_err() {
            break;
        }
    }
    frames.until_closed();
}

#[test]
fn a_header_section_without_end_ends_the_connection() {
    let bed = Bed::plain("head.bytes.max = \"4KiB\"\n");
    let mut frames = Frames::new(bed.connect());
    frames.send(HEADERS, END_STREAM, 1, REQUEST).unwrap();
    // A literal field of 100 bytes, again and again, and never END_HEADERS.
    let field = [&[0, 1, b'x', 96][..], &[b'y'; 96]].concat();
    let mut sent = 0;
    while frames.send(CONTINUATION, 0, 1, &field.repeat(10)).is_ok() {
        sent += 1;
        assert!(sent < 100_000, "still taken after {sent} frames");
    }
    frames.until_closed();
}

#[test]
fn floods_of_settings_and_pings_are_bounded_by_their_answers() {
    for kind in [SETTINGS, PING] {
        let bed = Bed::plain("body.idle_timeout = \"300ms\"\n");
        let mut frames = Frames::new(bed.connect());
        frames.stream.set_write_timeout(Some(std::time::Duration::from_millis(500))).unwrap();
        let payload: &[u8] = if kind == PING { &[0; 8] } else { &[] };
        // We never read: at some point answers find no room, and then nothing more is read.
        let mut sent = 0;
        while frames.send(kind, 0, 0, payload).is_ok() {
            sent += 1;
            assert!(sent < 5_000_000, "all {sent} taken");
        }
    }
}

/// Answers that are taken bound nothing: what carries nothing is bounded by itself.
#[test]
fn floods_of_settings_and_pings_whose_answers_are_taken_end_the_connection() {
    for (kind, payload) in [(SETTINGS, &[][..]), (PING, &[0; 8])] {
        let bed = Bed::plain("");
        let mut frames = Frames::new(bed.connect());
        let mut answers = frames.stream.try_clone().unwrap();
        let taking = std::thread::spawn(move || io::copy(&mut answers, &mut io::sink()));
        let many = frame(kind, 0, 0, payload).repeat(1000);
        let mut sent = 0;
        while frames.stream.write_all(&many).is_ok() {
            sent += many.len();
            assert!(sent < 1 << 30, "{sent} bytes taken");
        }
        drop(taking.join().unwrap());
        eventually("given back", || bed.shared.with_connections(|c, _| c.open()) == 0);
    }
}

#[test]
fn what_is_uploaded_is_no_flood() {
    // Looked at each few milliseconds, and so while the second is served.
    let bed = Bed::plain("park.after = \"20ms\"\n");
    static BODY: [u8; 10 << 20] = [b'x'; 10 << 20];
    run(async {
        let stream = tokio::net::TcpStream::connect(bed.running.address("http").unwrap()).await.unwrap();
        stream.set_nodelay(true).unwrap();
        let mut client = speak(stream).await;
        for (path, body) in [("/", &BODY[..]), ("/sleep/200", b"")] {
            let response = client.send_request(request(path, body)).await.unwrap();
            assert_eq!(response.status(), 200);
            let answer = response.into_body().collect().await.unwrap().to_bytes();
            assert!(answer.ends_with(format!("body: {}\r\n", body.len()).as_bytes()));
        }
    });
}

#[test]
fn an_idle_connection_is_told_and_closed() {
    let bed = Bed::plain("keep_alive.timeout = \"2s\"\n");
    let mut frames = Frames::new(bed.connect());
    frames.send(HEADERS, END_STREAM | END_HEADERS, 1, REQUEST).unwrap();
    frames.until(HEADERS);
    // Answers the ping with which a graceful end begins.
    loop {
        match frames.receive() {
            Ok((PING, flags, _, payload)) if flags & ACK == 0 => {
                frames.send(PING, ACK, 0, &payload).unwrap();
            }
            Ok((GOAWAY, ..)) => break,
            Ok(_) => {}
            Err(error) => panic!("{error}"),
        }
    }
    loop {
        match frames.receive() {
            Ok((PING, flags, _, payload)) if flags & ACK == 0 => {
                let _ = frames.send(PING, ACK, 0, &payload);
            }
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => panic!("still open"),
            Err(_) => return,
        }
    }
}

/// Settings of a client: the window of each stream in bytes.
fn window(bytes: u32) -> Vec<u8> {
    [&[0, 4][..], &bytes.to_be_bytes()].concat()
}

#[test]
fn a_stream_whose_client_takes_nothing_is_reset_and_the_others_go_on() {
    for bytes in [0, 1000] {
        let house =
            House::with(|_| ("body.idle_timeout = \"200ms\"\n".to_owned(), PLAIN.to_owned(), String::new()));
        let mut frames = Frames { stream: house.connect() };
        frames.stream.write_all(PREFACE).unwrap();
        frames.send(SETTINGS, 0, 0, &window(bytes)).unwrap();
        frames.send(HEADERS, END_STREAM | END_HEADERS, 1, REQUEST).unwrap();
        let mut at_server = house.origin.next();
        // More than is read ahead, so that it is cut into several frames.
        let body = "x".repeat(1 << 20);
        let answering = std::thread::spawn(move || {
            // The gateway may break it off.
            let _ =
                write!(at_server.stream, "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        });
        let (_, _, stream, code) = frames.until(RST_STREAM);
        assert_eq!((stream, code), (1, vec![0, 0, 0, 8]), "CANCEL");
        answering.join().unwrap();
        // The connection goes on.
        frames.send(HEADERS, END_STREAM | END_HEADERS, 3, REQUEST).unwrap();
        house.origin.next().ok("");
        let (_, _, stream, head) = frames.until(HEADERS);
        assert_eq!((stream, head[0]), (3, 0x88));
        drop(frames);
        let counted = house.finish();
        assert_eq!(counted.counts(Meter::ABANDONED), [1]);
    }
}

#[test]
fn a_slow_server_is_not_taken_for_a_client_that_takes_nothing() {
    let house =
        House::with(|_| ("body.idle_timeout = \"100ms\"\n".to_owned(), PLAIN.to_owned(), String::new()));
    let mut frames = Frames { stream: house.connect() };
    frames.stream.write_all(PREFACE).unwrap();
    frames.send(SETTINGS, 0, 0, &[]).unwrap();
    frames.send(HEADERS, END_STREAM | END_HEADERS, 1, REQUEST).unwrap();
    let mut at_server = house.origin.next();
    at_server.send("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhello");
    assert_eq!(frames.until(DATA).3, b"hello");
    // Three times as long as a client may take.
    std::thread::sleep(std::time::Duration::from_millis(300));
    at_server.send("world");
    assert_eq!(frames.until(DATA).3, b"world");
    drop(frames);
    house.finish();
}

/// Asks for `/` on a thread of its own: what is taken of the answer.
fn asking<T: Send + 'static>(
    house: &House,
    take: impl AsyncFnOnce(Response<Incoming>) -> T + Send + 'static,
) -> std::thread::JoinHandle<T> {
    let stream = house.connect();
    stream.set_nonblocking(true).unwrap();
    std::thread::spawn(|| {
        run(async {
            let mut client = speak(tokio::net::TcpStream::from_std(stream).unwrap()).await;
            take(client.send_request(request("/", b"")).await.unwrap()).await
        })
    })
}

/// Clients by nghttp2, as curl is, take a length for a body that is missing.
#[test]
fn an_answer_without_content_says_no_length_of_it() {
    let house = House::new("");
    let asking = asking(&house, async |response| {
        (response.status().as_u16(), response.headers().contains_key("content-length"))
    });
    house.origin.next().send("HTTP/1.1 204 No Content\r\ncontent-length: 5\r\n\r\n");
    assert_eq!(asking.join().unwrap(), (204, false));
    house.finish();
}

/// A message with fields of a hop is malformed over HTTP/2, and the codec breaks it off; one of another length is to some clients.
#[test]
fn of_trailers_what_ends_at_the_hop_before_or_is_of_a_head_goes_no_further() {
    let house = House::new("");
    let asking = asking(&house, async |response| {
        let trailers = response.into_body().collect().await.unwrap().trailers().cloned().unwrap();
        trailers.iter().map(|(name, value)| format!("{name}: {value:?}")).collect::<Vec<_>>()
    });
    let trailers = "connection: x-other\r\nx-other: 1\r\nkeep-alive: 1\r\ntransfer-encoding: chunked\r\ncontent-length: 7\r\nx-sum: 2";
    house.origin.next().send(&format!(
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n{trailers}\r\n\r\n"
    ));
    assert_eq!(asking.join().unwrap(), ["x-sum: \"2\""]);
    house.finish();
}

/// All but the piece that the codec holds: what clients do not take is bounded by `spool.total`, however many streams they open.
#[test]
fn what_is_kept_for_a_client_that_takes_nothing_is_accounted_for() {
    const BYTES: u64 = 100_000;
    const PIECE: u64 = 16 * 1024;
    let house = House::new("");
    let mut client = Frames { stream: house.connect() };
    client.stream.write_all(PREFACE).unwrap();
    // No window for any stream.
    client.send(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 0]).unwrap();
    client.send(HEADERS, END_STREAM | END_HEADERS, 1, REQUEST).unwrap();
    house.origin.next().ok(&"x".repeat(usize::try_from(BYTES).unwrap()));
    client.until(HEADERS);
    let used = || house.shared.spool().used();
    eventually("kept", || (BYTES - PIECE..=BYTES).contains(&used()));
    let opened = u32::try_from(BYTES).unwrap().to_be_bytes();
    client.send(WINDOW_UPDATE, 0, 1, &opened).unwrap();
    client.send(WINDOW_UPDATE, 0, 0, &opened).unwrap();
    let mut taken = 0;
    while taken < BYTES {
        taken += client.until(DATA).3.len() as u64;
    }
    assert_eq!(used(), 0);
    drop(client);
    house.finish();
}
