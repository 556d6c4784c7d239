//! Clients that send one byte a second, never read, leave while they wait, or send a head without end.

use std::{
    io::{self, Write},
    net::Shutdown,
    thread,
    time::Duration,
};

use crate::{
    Front,
    support::{
        admin::await_metrics,
        client::{Client, Response, get},
        origin::{ID, Latch, Origin, Then, respond},
    },
};

const SECOND: Duration = Duration::from_secs(1);
const FIXED_ONE: &str = "in_flight.algorithm = \"fixed\"\nin_flight.limit = 1";
/// Shorter than a slow client takes until it is cut off.
const SHORT_QUEUE: &str = "[application.app.class.default]\nqueue.wait.max = \"2s\"";
const LONG_QUEUE: &str = "[application.app.class.default]\nqueue.wait.max = \"60s\"";

/// Sends a byte a second until the gateway ends the connection; gives what it answered.
fn drip(client: &mut Client, bytes: &[u8]) -> Option<Response> {
    client.stream.set_read_timeout(Some(SECOND)).expect("a timeout");
    for byte in bytes {
        // A second passes while an answer is awaited.
        match client.response() {
            Ok(response) => return Some(response),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {}
            Err(_) => return None,
        }
        if client.send(&[*byte]).is_err() {
            return None;
        }
    }
    panic!("the gateway put up with {} s of one byte a second", bytes.len());
}

#[test]
fn slow_heads_are_cut_off_and_hold_nobody_up() {
    const DRIPS: usize = 20;
    let origin = Origin::hello();
    let host = "head.timeout = \"3s\"\nhello.timeout = \"3s\"";
    // Good clients take turns at the one permit, also where the machine halts for a moment.
    let front = Front::start(&[origin.url()], host, &format!("{FIXED_ONE}\n{SHORT_QUEUE}"));
    let listen = front.listen;
    let drips: Vec<_> = (0..DRIPS)
        .map(|index| {
            thread::spawn(move || {
                let mut client = Client::connect(listen).expect("connect");
                // Every other one has been a good client before.
                if index % 2 == 0 {
                    assert_eq!(client.get("/", "").expect("an answer").status, 200);
                }
                drip(&mut client, b"GET / HTTP/1.1\r\nhost: test.example\r\n\r\n")
            })
        })
        .collect();
    while !drips.iter().all(thread::JoinHandle::is_finished) {
        assert_eq!(get(listen, "/").expect("an answer").status, 200);
    }
    for drip in drips {
        if let Some(response) = drip.join().expect("a client that is cut off") {
            assert_eq!(response.status, 408);
        }
    }
    front.finish(DRIPS / 2);
}

#[test]
fn slow_bodies_hold_no_permit_and_are_cut_off() {
    let origin = Origin::hello();
    let knobs = format!("{FIXED_ONE}\n{SHORT_QUEUE}");
    let front = Front::start(&[origin.url()], "body.rate.min = \"64B\"", &knobs);
    let listen = front.listen;
    let drips: Vec<_> = (0..10)
        .map(|index| {
            thread::spawn(move || {
                let mut client = Client::connect(listen).expect("connect");
                let head = format!(
                    "POST / HTTP/1.1\r\nhost: test.example\r\n{ID}: drip-{index}\r\ncontent-length: 100\r\n\r\n"
                );
                client.send(head.as_bytes()).expect("send a head");
                drip(&mut client, &[b'x'; 60])
            })
        })
        .collect();
    let mut served = 0;
    while !drips.iter().all(thread::JoinHandle::is_finished) {
        assert_eq!(get(listen, "/").expect("an answer").status, 200, "with a limit of one");
        served += 1;
    }
    assert!(served > 100, "others were served meanwhile: {served}");
    for drip in drips {
        if let Some(response) = drip.join().expect("a client that is cut off") {
            assert_eq!(response.status, 408);
        }
    }
    for index in 0..10 {
        assert_eq!(
            origin.times(&format!("drip-{index}")),
            0,
            "a body that never came never reached the server"
        );
    }
    front.finish(10 + served);
}

#[test]
fn clients_that_never_read_are_cut_off_and_cost_bounded_memory() {
    const CLIENTS: usize = 30;
    const BODY: usize = 64 * 1024 * 1024;
    let origin = Origin::start(|request, stream| {
        if request.path != "/big" {
            return respond(stream, 200, b"hello\n");
        }
        write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: {BODY}\r\n\r\n")?;
        let block = vec![b'x'; 1024 * 1024];
        for _ in 0..BODY / block.len() {
            stream.write_all(&block)?;
        }
        Ok(Then::KeepAlive)
    });
    let knobs = "in_flight.algorithm = \"fixed\"\nin_flight.limit = 40";
    let front = Front::start(&[origin.url()], "body.idle_timeout = \"2s\"", knobs);
    assert_eq!(get(front.listen, "/").expect("an answer").status, 200);
    let before = front.gateway.resident_bytes();
    let mut clients: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let mut client = Client::connect(front.listen).expect("connect");
            client.send_get("/big", "").expect("send");
            client
        })
        .collect();
    origin.await_requests(1 + CLIENTS);
    assert_eq!(get(front.listen, "/").expect("an answer").status, 200, "others are served");
    // The gateway gives them up though they never say anything.
    await_metrics(front.admin, "clients that never read are cut off", |metrics| {
        let grown = front.gateway.resident_bytes().saturating_sub(before);
        assert!(
            grown < 64 * 1024 * 1024,
            "memory grew by {grown} bytes for {CLIENTS} clients that do not read"
        );
        metrics.sum("application_in_flight", &[]) == 0.0 && metrics.sum("connections_open", &[]) <= 1.0
    });
    for client in &mut clients {
        assert!(client.response().is_err(), "the response is cut off, not ended as if complete");
    }
    front.finish(2 + CLIENTS);
}

#[test]
fn clients_that_leave_while_they_wait_are_never_served() {
    const EACH: usize = 10;
    let latch = Latch::default();
    let opened = latch.clone();
    let origin = Origin::start(move |request, stream| {
        if request.path == "/hold" {
            opened.wait();
        }
        respond(stream, 200, b"hello\n")
    });
    let front =
        Front::start(&[origin.url()], "", &format!("{FIXED_ONE}\nhalf_closed = \"gone\"\n{LONG_QUEUE}"));
    let listen = front.listen;
    let mut clients: Vec<_> = (0..4 * EACH).map(|_| Client::connect(listen).expect("connect")).collect();
    // Every fifth has been served before on its connection.
    let served = clients.iter_mut().step_by(5).map(|client| client.get("/", "").expect("an answer")).count();
    let holder = thread::spawn(move || get(listen, "/hold").map(|answer| answer.status));
    origin.await_requests(served + 1);

    let mut leavers = Vec::new();
    for (index, mut client) in clients.into_iter().enumerate() {
        let bytes: &[u8] = match index % 4 {
            // With a second request behind it that nobody reads.
            0 => b"GET /leaves HTTP/1.1\r\nhost: test.example\r\n\r\nGET /leaves-too HTTP/1.1\r\nhost: test.example\r\n\r\n",
            // With a body that nobody has asked for.
            1 => b"POST /leaves HTTP/1.1\r\nhost: test.example\r\ncontent-length: 200000\r\n\r\nunfinished",
            _ => b"GET /leaves HTTP/1.1\r\nhost: test.example\r\n\r\n",
        };
        client.send(bytes).expect("send");
        leavers.push((index % 4, client));
    }
    let waiting = leavers.len();
    await_metrics(front.admin, "all wait", |metrics| metrics.sum("class_queued", &[]) == count(waiting));
    for (kind, client) in leavers {
        if kind == 3 {
            client.reset();
        } else {
            drop(client);
        }
    }
    await_metrics(front.admin, "those who left wait no more", |metrics| {
        metrics.sum("class_queued", &[]) == 0.0 && metrics.sum("class_left", &[]) == count(waiting)
    });
    assert_eq!(origin.requests(), served + 1, "nothing of those who left was begun");
    latch.open();
    assert_eq!(holder.join().expect("the holder").expect("an answer"), 200);
    assert_eq!(origin.requests(), served + 1);
    front.finish(served + 1 + 4 * EACH);
}

#[test]
fn a_client_that_only_stops_sending_is_served() {
    let latch = Latch::default();
    let opened = latch.clone();
    let origin = Origin::start(move |request, stream| {
        if request.path == "/hold" {
            opened.wait();
        }
        respond(stream, 200, b"hello\n")
    });
    let front =
        Front::start(&[origin.url()], "", &format!("{FIXED_ONE}\nhalf_closed = \"waits\"\n{LONG_QUEUE}"));
    let listen = front.listen;
    let holder = thread::spawn(move || get(listen, "/hold").map(|answer| answer.status));
    origin.await_requests(1);
    let mut client = Client::connect(listen).expect("connect");
    client.send_get("/stays", "").expect("send");
    client.stream.shutdown(Shutdown::Write).expect("half-close");
    await_metrics(front.admin, "it waits", |metrics| metrics.sum("class_queued", &[]) == 1.0);
    latch.open();
    assert_eq!(holder.join().expect("the holder").expect("an answer"), 200);
    assert_eq!(client.response().expect("an answer").status, 200);
    drop(client);
    front.finish(2);
}

#[test]
fn heads_without_end_are_refused() {
    let origin = Origin::hello();
    let front = Front::start(&[origin.url()], "", "");
    assert_eq!(get(front.listen, "/").expect("an answer").status, 200);
    let before = front.gateway.resident_bytes();
    let floods: [(&str, Vec<u8>); 3] = [
        ("a million headers", b"x-header: value\r\n".repeat(1_000_000)),
        ("one header of 16 MiB", vec![b'x'; 16 * 1024 * 1024]),
        ("a million short headers", b"a:\r\n".repeat(1_000_000)),
    ];
    for (what, bytes) in floods {
        let mut client = Client::connect(front.listen).expect("connect");
        client.send(b"GET / HTTP/1.1\r\nhost: test.example\r\n").expect("send");
        // The gateway answers and closes long before the end.
        let sent = client.send(&bytes);
        match client.response() {
            Ok(response) => assert_eq!(response.status, 431, "{what}"),
            Err(error) => {
                assert_eq!(error.kind(), io::ErrorKind::ConnectionReset, "{what}: {error} after {sent:?}")
            }
        }
    }
    // More fields than allowed, in a head that is complete.
    let mut client = Client::connect(front.listen).expect("connect");
    let response = client.get("/", &"a: b\r\n".repeat(101)).expect("an answer");
    assert_eq!(response.status, 431);
    drop(client);
    let grown = front.gateway.resident_bytes().saturating_sub(before);
    assert!(grown < 16 * 1024 * 1024, "memory grew by {grown} bytes");
    assert_eq!(origin.requests(), 1);
    front.finish(1);
}

#[expect(clippy::cast_precision_loss, reason = "small counts compared with readings in floating point")]
fn count(n: usize) -> f64 {
    n as f64
}
