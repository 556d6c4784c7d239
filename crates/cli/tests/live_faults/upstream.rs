//! Servers that refuse, reset, answer garbage, lie about length, or never answer.

use std::{
    io::{self, Write},
    net::TcpStream,
    time::{Duration, Instant},
};

use crate::{
    Front,
    support::{
        client::{Client, get},
        free_address,
        origin::{ID, Origin, Request, Then, respond},
    },
};

/// What a client must see of a fault.
#[derive(Clone, Copy, Debug)]
enum Seen {
    Status(u16),
    /// The response begins well and is cut off, so that nobody takes it for complete.
    /// 502 where the fault came before the head was passed on.
    Cut,
    /// This body, and nothing of what follows it.
    Body(&'static str),
}

/// Path, what the client sees, label of the error's count.
type Fault = (&'static str, Seen, Option<&'static str>);

const FAULTS: &[Fault] = &[
    ("/close", Seen::Status(502), Some("reset")),
    ("/reset", Seen::Status(502), Some("reset")),
    ("/half-head", Seen::Status(502), Some("reset")),
    ("/garbage", Seen::Status(502), Some("garbage")),
    ("/two-lengths", Seen::Status(502), Some("garbage")),
    ("/nul", Seen::Status(502), Some("garbage")),
    ("/bad-chunk", Seen::Cut, Some("body")),
    ("/silent", Seen::Status(504), Some("response_timeout")),
    ("/reset-body", Seen::Cut, Some("body")),
    ("/reset-chunked", Seen::Cut, Some("body")),
    ("/short", Seen::Cut, Some("body")),
    ("/stalls", Seen::Cut, Some("body")),
    ("/long", Seen::Body("hello"), None),
    ("/good", Seen::Body("good"), None),
];

fn misbehave(request: &Request, stream: &mut TcpStream) -> io::Result<Then> {
    const BEGUN: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\nbegun";
    let (bytes, then): (&[u8], _) = match request.path.as_str() {
        "/close" => (b"", Then::Close),
        "/reset" => (b"", Then::Reset),
        "/half-head" => (b"HTTP/1.1 200 OK\r\ncontent-le", Then::Close),
        "/garbage" => (b"\x16\x03\x01 this is not HTTP\r\n\r\n", Then::Close),
        "/two-lengths" => {
            (b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 7\r\n\r\nhello", Then::Close)
        }
        "/nul" => (b"HTTP/1.1 200 OK\r\nx: a\0b\r\ncontent-length: 5\r\n\r\nhello", Then::Close),
        "/bad-chunk" => {
            (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\nzz\r\n", Then::Close)
        }
        "/silent" => return gone(stream),
        "/reset-body" => (BEGUN, Then::Reset),
        "/reset-chunked" => {
            (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n", Then::Reset)
        }
        "/short" => (BEGUN, Then::Close),
        "/stalls" => {
            stream.write_all(BEGUN)?;
            return gone(stream);
        }
        "/long" => (
            b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhelloHTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\npoison",
            Then::KeepAlive,
        ),
        _ => return respond(stream, 200, b"good"),
    };
    stream.write_all(bytes)?;
    Ok(then)
}

/// Says nothing until the gateway has gone.
fn gone(stream: &mut TcpStream) -> io::Result<Then> {
    io::copy(stream, &mut io::sink())?;
    Ok(Then::Close)
}

#[test]
fn each_fault_of_a_server_is_told_from_a_good_response() {
    // Of them only those that say nothing more are known by the time they take, each by its own.
    let timeouts = [("/silent", "upstream.response.timeout"), ("/stalls", "upstream.body.idle_timeout")];
    let is_timed = |path: &str| timeouts.iter().any(|(timed, _)| *timed == path);
    let others: Vec<_> = FAULTS.iter().copied().filter(|(path, ..)| !is_timed(path)).collect();
    each_is_told(&others, "");
    for (path, timeout) in timeouts {
        let timed: Vec<_> = FAULTS.iter().copied().filter(|(fault, ..)| *fault == path).collect();
        each_is_told(&timed, &format!("{timeout} = \"400ms\"\n"));
    }
}

fn each_is_told(faults: &[Fault], timeouts: &str) {
    const ROUNDS: usize = 3;
    let origin = Origin::start(misbehave);
    let knobs = format!(
        "health.failures.max = \"none\"\nretries.max = 0\nin_flight.algorithm = \"fixed\"\n\
         in_flight.limit = 2\n{timeouts}"
    );
    let front = Front::start(&[origin.url()], "", &knobs);
    let mut client = Client::connect(front.listen).expect("connect");
    let mut sent = Vec::new();
    for round in 0..ROUNDS {
        for (path, seen, _) in faults {
            for method in ["GET", "POST"] {
                let id = format!("{method}{path}-{round}");
                let header = format!("{ID}: {id}\r\n");
                let answer = match method {
                    "GET" => client.get(path, &header),
                    _ => client.post(path, &header, b"a body"),
                };
                let closes = answer.as_ref().map_or(true, super::support::client::Response::closes);
                match (seen, answer) {
                    (Seen::Status(status), Ok(answer)) => {
                        assert_eq!(answer.status, *status, "{id}: {}", answer.text());
                    }
                    (Seen::Body(body), Ok(answer)) => {
                        assert_eq!((answer.status, answer.text().as_str()), (200, *body), "{id}");
                    }
                    (Seen::Cut, Ok(answer)) => assert_eq!(answer.status, 502, "{id}: {}", answer.text()),
                    (Seen::Cut, Err(error)) => {
                        let kinds = [io::ErrorKind::UnexpectedEof, io::ErrorKind::ConnectionReset];
                        assert!(kinds.contains(&error.kind()), "{id}: {error}");
                    }
                    (seen, answer) => panic!("{id}: {seen:?} expected, seen {answer:?}"),
                }
                if closes {
                    client = Client::connect(front.listen).expect("connect");
                }
                sent.push(id);
            }
        }
    }
    drop(client);
    for id in &sent {
        // A pooled connection closed without a word may have been stale: an idempotent request is sent again.
        let most = if ["GET/close-", "GET/reset-"].iter().any(|path| id.starts_with(path)) { 2 } else { 1 };
        let times = origin.times(id);
        assert!((1..=most).contains(&times), "{id}: reached the server {times} times");
    }
    let metrics = front.finish(sent.len());
    let mut expected = std::collections::BTreeMap::new();
    for kind in faults.iter().filter_map(|(_, _, kind)| *kind) {
        *expected.entry(kind).or_insert(0) += 2 * ROUNDS;
    }
    for (kind, count) in expected {
        let counted = metrics.sum("server_upstream_errors", &[("kind", kind)]);
        assert!(
            (counted - f64::from(u32::try_from(count).expect("small"))).abs() < 0.5,
            "{kind}: {counted}, not {count}"
        );
    }
}

#[test]
fn a_server_that_refuses_is_taken_out_and_comes_back() {
    let address = free_address();
    let good = Origin::hello();
    let knobs =
        "health.failures.max = 3\nhealth.failures.pause = \"4s\"\nretries.max = 0\nbalance = \"round_robin\"";
    let front = Front::start(&[format!("http://{address}"), good.url()], "", knobs);
    let ask = || get(front.listen, "/").expect("an answer").status;
    let mut asked = 0;
    let mut failed = 0;
    while failed < 3 {
        asked += 1;
        failed += usize::from(ask() == 502);
        assert!(asked < 100, "every other request meets the server that refuses: {failed} of {asked}");
    }
    for number in 0..50 {
        assert_eq!(ask(), 200, "request {number} after the server was taken out");
    }
    assert_eq!(get(front.admin, "/readyz").expect("an answer").status, 200);

    // The same address now answers.
    let back = Origin::hello_at(address);
    let deadline = Instant::now() + Duration::from_secs(30);
    while back.requests() == 0 {
        assert!(Instant::now() < deadline, "the server is used again");
        assert_eq!(ask(), 200);
    }
    front.finish(asked + 50);
}

#[test]
fn idempotent_requests_go_to_another_server_and_others_are_never_sent_twice() {
    let bad = Origin::start(|_, _| Ok(Then::Reset));
    let good = Origin::hello();
    let knobs =
        "health.failures.max = \"none\"\nretries.max = 1\nretries.budget = 1.0\nbalance = \"round_robin\"";
    let front = Front::start(&[bad.url(), good.url()], "", knobs);
    let mut posts_failed = 0;
    for number in 0..100 {
        let mut client = Client::connect(front.listen).expect("connect");
        let answer = client.get("/", &format!("{ID}: get-{number}\r\n")).expect("an answer");
        assert_eq!(answer.status, 200, "get-{number}: {}", answer.text());
        // Two, so that each server has its turn whatever the retry did to the order.
        for half in 0..2 {
            let id = format!("post-{number}-{half}");
            let answer = client.post("/", &format!("{ID}: {id}\r\n"), b"a body").expect("an answer");
            assert!([200, 502].contains(&answer.status), "{id}: {}", answer.text());
            assert_eq!(bad.times(&id) + good.times(&id), 1, "{id}: sent once");
            assert_eq!(good.times(&id) == 1, answer.status == 200, "{id}");
            posts_failed += usize::from(answer.status == 502);
        }
    }
    assert!(posts_failed > 0, "the bad server was used");
    assert!(good.repeated().is_empty(), "served twice: {:?}", good.repeated());
    front.finish(300);
}

#[test]
fn pooled_connections_that_the_server_closes_are_not_the_clients_concern() {
    // Closes after each response without a word, as many servers do when a connection has been idle.
    let origin = Origin::start(|_, stream| respond(stream, 200, b"hello\n").map(|_| Then::Close));
    let front = Front::start(&[origin.url()], "", "health.failures.max = \"none\"\nretries.max = 0");
    let mut client = Client::connect(front.listen).expect("connect");
    for number in 0..300 {
        let id = format!("get-{number}");
        let answer = client.get("/", &format!("{ID}: {id}\r\n")).expect("an answer");
        assert_eq!(answer.status, 200, "{id}: {}", answer.text());
        assert_eq!(origin.times(&id), 1, "{id}");
    }
    drop(client);
    front.finish(300);
}
