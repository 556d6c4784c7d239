//! Clients that are slow beyond what is read ahead of them, or gathered: their exchanges rest, without a permit.

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    sync::Arc,
    thread::JoinHandle,
};

use tidegate_control::meters::Meter;

use crate::{
    frames::{
        DATA, END_HEADERS, END_STREAM, Frames, HEADERS, PREFACE, REQUEST, RST_STREAM, SETTINGS, WINDOW_UPDATE,
    },
    request_house::{Exchange, House, take},
    request_log,
    support::{eventually, read_response},
};

const GET: &[u8] = b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n";

/// More than the sockets in between hold.
const LONG: usize = 30 << 20;

fn house(limit: usize, lines: &str) -> House {
    House::new(&format!(
        "spool = \"64KiB\"\nin_flight.algorithm = \"fixed\"\nin_flight.limit = {limit}\n{lines}\n\
         [application.app.class.default]\nqueue.wait.max = \"none\"\n"
    ))
}

/// Waits until so many hold a permit, and so many rest.
fn stand(house: &House, held: u64, resting: u64) {
    let gate = house.gate();
    eventually("stand", || (gate.held(), gate.levels().long_streams) == (held, resting));
}

fn is_served(house: &House) {
    let mut other = house.connect();
    other.write_all(b"GET /other HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    let mut at_server = house.origin.next();
    assert_eq!(at_server.request.target, "/other");
    at_server.ok("");
    assert_eq!(read_response(&mut other).unwrap().status, 200);
}

/// The server answers with this body, as fast as it is taken.
fn answering(mut at_server: Exchange, body: &Arc<str>) -> JoinHandle<()> {
    let body = Arc::clone(body);
    std::thread::spawn(move || at_server.ok(&body))
}

fn reader(house: &House, body: &Arc<str>) -> (TcpStream, JoinHandle<()>) {
    let mut client = house.connect();
    client.write_all(GET).unwrap();
    let answering = answering(house.origin.next(), body);
    (client, answering)
}

#[test]
fn readers_that_fill_the_limit_keep_nobody_out() {
    let house = house(3, "");
    let body: Arc<str> = "x".repeat(LONG).into();
    let readers: Vec<_> = (0..3).map(|_| reader(&house, &body)).collect();
    stand(&house, 0, 3);
    is_served(&house);
    for (mut client, answering) in readers {
        assert_eq!(read_response(&mut client).unwrap().body.len(), LONG);
        answering.join().unwrap();
    }
    stand(&house, 0, 0);
    let counted = house.finish();
    assert_eq!(counted.distribution(Meter::SERVICE_TIME).count(), 4);
}

#[test]
fn streams_whose_windows_stay_closed_keep_nobody_out() {
    let house = house(2, "");
    let body: Arc<str> = "x".repeat(LONG).into();
    let mut frames = Frames { stream: house.connect() };
    frames.stream.write_all(PREFACE).unwrap();
    frames.send(SETTINGS, 0, 0, &[]).unwrap();
    let mut answers = Vec::new();
    for stream in [1, 3] {
        frames.send(HEADERS, END_STREAM | END_HEADERS, stream, REQUEST).unwrap();
        answers.push(answering(house.origin.next(), &body));
    }
    stand(&house, 0, 2);
    is_served(&house);
    let all = u32::try_from(3 * LONG).unwrap();
    for stream in [0, 1, 3] {
        frames.send(WINDOW_UPDATE, 0, stream, &all.to_be_bytes()).unwrap();
    }
    let mut ended = 0;
    while ended < 2 {
        let (_, flags, ..) = frames.until(DATA);
        ended += flags & END_STREAM;
    }
    for answer in answers {
        answer.join().unwrap();
    }
    stand(&house, 0, 0);
    drop(frames);
    house.finish();
}

#[test]
fn a_response_that_rested_goes_on_within_the_limit_before_newcomers() {
    let house = house(1, "");
    let body = "x".repeat(LONG);
    let mut client = house.connect();
    client.write_all(GET).unwrap();
    let mut at_server = house.origin.next();
    let (go_on, may_go_on) = std::sync::mpsc::channel();
    let answering = std::thread::spawn(move || {
        at_server.send(&format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", LONG + 5));
        may_go_on.recv().unwrap();
        at_server.send("hello");
    });
    stand(&house, 0, 1);
    let mut other = house.connect();
    other.write_all(b"GET /other HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    let mut at_other = house.origin.next();
    let mut newcomer = house.connect();
    newcomer.write_all(b"GET /newcomer HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    house.queued(1);
    // All is taken that there was: the server is waited for, and works on another.
    let head = take(&mut client, 1000);
    let head = String::from_utf8_lossy(&head).find("\r\n\r\n").unwrap() + 4;
    take(&mut client, head + LONG - 1000);
    house.queued(2);
    assert_eq!((house.gate().held(), house.gate().levels().long_streams), (1, 1));
    at_other.ok("");
    assert_eq!(read_response(&mut other).unwrap().status, 200);
    stand(&house, 1, 0);
    house.queued(1);
    assert!(house.origin.is_quiet());
    go_on.send(()).unwrap();
    assert_eq!(take(&mut client, 5), b"hello");
    answering.join().unwrap();
    house.origin.next().ok("");
    assert_eq!(read_response(&mut newcomer).unwrap().status, 200);
    drop((client, other, newcomer));
    // What came before it rested was a sample, and what came then was none.
    let counted = house.finish();
    assert_eq!(counted.distribution(Meter::SERVICE_TIME).count(), 3);
}

#[test]
fn a_reader_that_leaves_while_its_exchange_rests_leaves_nothing_behind() {
    let house = house(1, "");
    let body = "x".repeat(LONG);
    let mut client = house.connect();
    client.write_all(GET).unwrap();
    let mut at_server = house.origin.next();
    let answering = std::thread::spawn(move || {
        // It is broken off.
        let _ = write!(at_server.stream, "HTTP/1.1 200 OK\r\ncontent-length: {LONG}\r\n\r\n{body}");
    });
    stand(&house, 0, 1);
    drop(client);
    stand(&house, 0, 0);
    answering.join().unwrap();
    let counted = house.finish();
    assert_eq!(counted.counts(Meter::ABANDONED), [1]);
}

#[test]
fn where_no_more_long_streams_may_be_the_permit_stays_until_there_may() {
    let house = house(2, "long_streams.max = 1");
    let body: Arc<str> = "x".repeat(LONG).into();
    let (mut first, answering_first) = reader(&house, &body);
    stand(&house, 0, 1);
    let (mut second, answering_second) = reader(&house, &body);
    stand(&house, 1, 1);
    is_served(&house);
    read_response(&mut first).unwrap();
    stand(&house, 0, 1);
    read_response(&mut second).unwrap();
    for answering in [answering_first, answering_second] {
        answering.join().unwrap();
    }
    drop((first, second));
    house.finish();
}

#[test]
fn who_takes_a_response_more_slowly_than_it_may_is_cut_off() {
    let rate = "response.rate.min = \"1GiB\"\nbody.idle_timeout = \"1h\"\n";
    let house = request_log::house("spool = \"64KiB\"\n", rate);
    let body = "x".repeat(LONG);
    let mut client = house.connect();
    client.write_all(GET).unwrap();
    let mut at_server = house.origin.next();
    let answering = std::thread::spawn(move || {
        // It is broken off.
        let _ = write!(at_server.stream, "HTTP/1.1 200 OK\r\ncontent-length: {LONG}\r\n\r\n{body}");
    });
    answering.join().unwrap();
    // It sees that once it takes something.
    assert!(std::io::copy(&mut client, &mut std::io::sink()).is_err());
    let line = &request_log::lines(&house, 1)[0];
    assert_eq!(request_log::member(line, "reason"), Some("response_too_slow"));
    let counted = house.finish();
    assert_eq!(counted.counts(Meter::ABANDONED), [1]);
}

/// What is on its way to it may be much at once: a large piece, of each of many streams on one slow line.
#[test]
fn a_stream_whose_client_takes_little_at_a_time_is_not_taken_for_one_that_takes_nothing() {
    const STEP: u32 = 8 << 10;
    let house = request_log::house("spool = \"64KiB\"\n", "body.idle_timeout = \"1s\"\n");
    let body: Arc<str> = "x".repeat(1 << 20).into();
    let mut frames = Frames { stream: house.connect() };
    frames.stream.write_all(PREFACE).unwrap();
    frames.send(SETTINGS, 0, 0, &[&[0, 4][..], &STEP.to_be_bytes()].concat()).unwrap();
    frames.send(WINDOW_UPDATE, 0, 0, &(1_u32 << 24).to_be_bytes()).unwrap();
    frames.send(HEADERS, END_STREAM | END_HEADERS, 1, REQUEST).unwrap();
    let answering = answering(house.origin.next(), &body);
    let (mut taken, mut granted, mut is_ended) = (0, STEP as usize, false);
    let mut take = |frames: &mut Frames, granted: usize| {
        while taken < granted {
            match frames.receive().unwrap() {
                (DATA, flags, _, data) => {
                    taken += data.len();
                    is_ended |= flags & END_STREAM == END_STREAM;
                }
                (RST_STREAM, .., code) => panic!("reset after {taken} bytes: {code:?}"),
                _ => {}
            }
        }
        is_ended
    };
    // Eighty thousand bytes a second, for longer than it may take nothing.
    for _ in 0..40 {
        take(&mut frames, granted);
        std::thread::sleep(std::time::Duration::from_millis(100));
        frames.send(WINDOW_UPDATE, 0, 1, &STEP.to_be_bytes()).unwrap();
        granted += STEP as usize;
    }
    frames.send(WINDOW_UPDATE, 0, 1, &(1_u32 << 24).to_be_bytes()).unwrap();
    assert!(take(&mut frames, body.len()) || frames.until(DATA).1 & END_STREAM == END_STREAM);
    answering.join().unwrap();
    drop(frames);
    let counted = house.finish();
    assert_eq!(counted.counts(Meter::RESPONSES), [0, 1, 0, 0, 0]);
}

/// An upload beyond what is gathered, of which something is still to come, and that.
fn upload(house: &House, chunked: bool) -> (TcpStream, Vec<u8>) {
    let mut client = house.connect();
    let part = "x".repeat(100_000);
    if chunked {
        write!(client, "POST /up HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n").unwrap();
        write!(client, "{:x}\r\n{part}\r\n", part.len()).unwrap();
        return (client, b"5\r\nhello\r\n0\r\n\r\n".to_vec());
    }
    write!(client, "POST /up HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n{part}", part.len() + 5)
        .unwrap();
    (client, b"hello".to_vec())
}

#[test]
fn uploads_that_fill_the_limit_keep_nobody_out() {
    let house = house(2, "");
    let uploads = [false, true].map(|chunked| upload(&house, chunked));
    stand(&house, 0, 2);
    is_served(&house);
    for (mut client, rest) in uploads {
        client.write_all(&rest).unwrap();
        let mut at_server = house.origin.next();
        assert_eq!(at_server.request.body.len(), 100_005);
        // Whole, it counts again.
        assert_eq!(house.gate().held(), 1);
        at_server.ok("");
        assert_eq!(read_response(&mut client).unwrap().status, 200);
    }
    let counted = house.finish();
    assert_eq!(counted.distribution(Meter::SERVICE_TIME).count(), 3);
}

#[test]
fn uploads_that_rested_are_whole_within_the_limit_only() {
    for chunked in [false, true] {
        let house = house(1, "");
        let (mut first, rest) = upload(&house, chunked);
        stand(&house, 0, 1);
        let (mut second, _) = upload(&house, chunked);
        stand(&house, 0, 2);
        let mut other = house.connect();
        other.write_all(GET).unwrap();
        let mut at_other = house.origin.next();
        for client in [&mut first, &mut second] {
            client.write_all(&rest).unwrap();
        }
        house.queued(2);
        assert!(house.origin.is_quiet());
        at_other.ok("");
        assert_eq!(read_response(&mut other).unwrap().status, 200);
        for left in [1, 0] {
            let mut at_server = house.origin.next();
            assert_eq!(at_server.request.body.len(), 100_005);
            assert_eq!((house.gate().held(), house.gate().levels().long_streams), (1, left));
            assert!(house.origin.is_quiet());
            at_server.ok("");
        }
        for client in [&mut first, &mut second] {
            assert_eq!(read_response(client).unwrap().status, 200);
        }
        drop((first, second, other));
        house.finish();
    }
}

/// Its server answers while it reads: the rest of the request waits for a permit, and the response for its client.
#[test]
fn who_takes_nothing_keeps_no_permit_that_the_rest_of_its_upload_has_got() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    server.set_nonblocking(true).unwrap();
    let next = || {
        let mut stream = None;
        eventually("a request at the server", || {
            stream = server.accept().ok();
            stream.is_some()
        });
        stream.unwrap().0
    };
    let end = |mut stream: TcpStream| {
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").unwrap();
    };
    let house = house(1, &format!("servers = \"http://{}\"", server.local_addr().unwrap()));
    let (mut client, rest) = upload(&house, false);
    let mut at_server = next();
    let mut answer = at_server.try_clone().unwrap();
    let answering = std::thread::spawn(move || {
        let body = "x".repeat(LONG);
        write!(answer, "HTTP/1.1 200 OK\r\ncontent-length: {LONG}\r\n\r\n{body}").unwrap();
    });
    let reading = std::thread::spawn(move || {
        let mut received = Vec::new();
        while !received.ends_with(b"hello") {
            let mut part = [0; 1024];
            let read = at_server.read(&mut part).unwrap();
            assert!(read > 0);
            received.extend_from_slice(&part[..read]);
        }
    });
    stand(&house, 0, 1);
    let mut other = house.connect();
    other.write_all(GET).unwrap();
    let at_other = next();
    client.write_all(&rest).unwrap();
    let head = take(&mut client, LONG / 2);
    let head = String::from_utf8_lossy(&head).find("\r\n\r\n").unwrap() + 4;
    house.queued(1);
    eventually("full", || house.shared.spool().used() >= 64 << 10);
    end(at_other);
    assert_eq!(read_response(&mut other).unwrap().status, 200);
    let mut newcomer = house.connect();
    newcomer.write_all(GET).unwrap();
    end(next());
    assert_eq!(read_response(&mut newcomer).unwrap().status, 200);
    take(&mut client, head + LONG - LONG / 2);
    for thread in [answering, reading] {
        thread.join().unwrap();
    }
    drop((client, other, newcomer));
    house.finish();
}

#[test]
fn an_uploader_that_leaves_while_its_exchange_rests_leaves_nothing_behind() {
    let house = house(1, "");
    let (client, _) = upload(&house, false);
    stand(&house, 0, 1);
    drop(client);
    stand(&house, 0, 0);
    // The server was told: it has half a request.
    assert!(house.origin.any().request.fault.is_some());
    house.finish();
}
