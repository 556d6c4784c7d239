//! Servers that misbehave, and clients that leave.

use std::{
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::Arc,
    thread,
    time::Duration,
};

use tidegate_load::{
    ErrorKind, FollowPlan, Live, LoadError, Phase, Plan, Protocol, Report, run_blocking, run_blocking_with,
};

use super::{class, origin};

/// Answers each connection's first request with these bytes and closes; ends with the test.
fn raw_server(reply: &'static [u8]) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address");
    thread::spawn(move || {
        for connection in listener.incoming() {
            let Ok(mut connection) = connection else { return };
            if read_head(&mut connection) {
                let _ = connection.write_all(reply);
            }
            let _ = connection.shutdown(Shutdown::Both);
        }
    });
    address
}

fn read_head(connection: &mut TcpStream) -> bool {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        match connection.read(&mut byte) {
            Ok(1) => head.push(byte[0]),
            _ => return false,
        }
    }
    true
}

fn ten_requests(address: SocketAddr) -> Report {
    let all = class("all", "20/s:500ms");
    run_blocking(Plan::new(format!("http://{address}/")).class(all)).expect("a run")
}

#[test]
fn faults_are_told_apart() {
    // Of an address that nobody else binds: the port stays closed.
    let closed_port =
        TcpListener::bind("127.77.0.1:0").and_then(|listener| listener.local_addr()).expect("a port");
    for (address, kind) in [
        (closed_port, ErrorKind::ConnectRefused),
        (raw_server(b""), ErrorKind::Closed),
        (raw_server(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort"), ErrorKind::Closed),
        (raw_server(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab"), ErrorKind::Closed),
        (raw_server(b"this is no HTTP at all\r\n\r\n"), ErrorKind::Protocol),
        (raw_server(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"), ErrorKind::Protocol),
    ] {
        let report = ten_requests(address);
        assert_eq!(report.total.errors.get(&kind), Some(&10), "{kind:?}: {:?}", report.total.errors);
        assert_eq!((report.total.good, report.total.gave_up), (0, 10));
    }
}

#[test]
fn a_loop_of_redirects_ends() {
    let server = raw_server(b"HTTP/1.1 302 Found\r\nLocation: /\r\nContent-Length: 0\r\n\r\n");
    let all = class("all", "20/s:500ms").follow(FollowPlan::default());
    let report = run_blocking(Plan::new(format!("http://{server}/")).class(all)).expect("a run");
    assert_eq!(report.total.errors.get(&ErrorKind::Redirects), Some(&10), "{report}");
    assert_eq!(report.total.sent, 10 * 21, "{report}");
}

#[test]
fn a_reply_that_ends_with_its_connection_is_whole() {
    let report = ten_requests(raw_server(b"HTTP/1.1 200 OK\r\n\r\nall of it"));
    assert_eq!((report.total.good, report.total.body_bytes), (10, 90), "{report}");
}

/// The server promises keep-alive and closes all the same: no fault of the server, none shown.
#[test]
fn a_connection_closed_while_idle_is_replaced() {
    let report = ten_requests(raw_server(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"));
    assert_eq!((report.total.good, report.connections.opened_http1), (10, 10), "{report}");
    assert!(report.total.errors.is_empty(), "{report}");
}

/// An HTTP/2 server that answers so many streams a connection with 200 and says of the next, and of what comes with it, that
/// nothing was done; ends with the test.
fn going_away(after: u32) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address");
    thread::spawn(move || {
        for connection in listener.incoming() {
            let Ok(connection) = connection else { return };
            thread::spawn(move || answer_streams(connection, after));
        }
    });
    address
}

fn answer_streams(mut connection: TcpStream, after: u32) -> Option<()> {
    let frame = |connection: &mut TcpStream, kind: u8, flags: u8, stream: u32, payload: &[u8]| {
        let length = u32::try_from(payload.len()).expect("short").to_be_bytes();
        let bytes = [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat();
        connection.write_all(&bytes).ok()
    };
    connection.read_exact(&mut [0; 24]).ok()?;
    frame(&mut connection, 4, 0, 0, &[])?;
    loop {
        let mut head = [0; 9];
        connection.read_exact(&mut head).ok()?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        connection.read_exact(&mut vec![0; usize::try_from(length).expect("it fits")]).ok()?;
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        let last = (2 * after).saturating_sub(1);
        match head[3] {
            4 if head[4] == 0 => frame(&mut connection, 4, 1, 0, &[])?,
            // Indexed field 8 of HPACK: status 200.
            1 if stream <= last => frame(&mut connection, 1, 5, stream, &[0x88])?,
            1 => frame(&mut connection, 7, 0, 0, &[last.to_be_bytes(), [0; 4]].concat())?,
            _ => {}
        }
    }
}

/// What a server closes a connection before is no failure of its: many close after so many requests.
#[test]
fn what_an_http2_server_has_done_nothing_with_is_sent_again() {
    let plan = Plan::new(format!("http://{}/", going_away(3)))
        .protocol(Protocol::Http2)
        .class(class("one", "40/s:500ms").method("POST"));
    let report = run_blocking(plan).expect("a run");
    assert_eq!((report.total.good, report.total.errors.len()), (20, 0), "{report}");
    assert!(report.connections.opened_http2 >= 7 && report.connections.closed_while_idle >= 6, "{report}");
}

/// Nor is it tried for ever.
#[test]
fn a_server_that_does_nothing_is_a_failure() {
    let plan = Plan::new(format!("http://{}/", going_away(0)))
        .protocol(Protocol::Http2)
        .class(class("one", "10/s:500ms"));
    let report = run_blocking(plan).expect("a run");
    assert_eq!(report.total.errors.get(&ErrorKind::Closed), Some(&5), "{report}");
}

/// Only the server's seeing the connection end stops this run; else it would last a minute.
#[test]
fn a_client_whose_patience_ends_closes_its_connection_at_once() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address");
    let plan = Plan::new(format!("http://{address}/"))
        .class(class("one", "1/s").timeout(Duration::from_secs(5)).requests_max(1))
        .class(class("keeps the run going", "0/s:60s,1/s:1s"))
        .duration(Duration::from_secs(61));
    let live = Arc::new(Live::new(&plan));
    let stopper = Arc::clone(&live);
    let server = thread::spawn(move || {
        let (mut connection, _) = listener.accept().expect("a client");
        assert!(read_head(&mut connection));
        let end = connection.read(&mut [0]);
        stopper.stop();
        end
    });
    let report = run_blocking_with(&plan, &live).expect("a run");
    assert!(matches!(server.join().expect("no panic"), Ok(0)), "the server saw an orderly end");
    assert!(report.stopped_early && report.elapsed_s < 60.0);
    assert_eq!(report.total.timeouts.get(&Phase::Head), Some(&1), "{report}");
}

#[test]
fn timeouts_are_told_by_what_was_waited_for() {
    let origin = origin();
    let impatient = |name, path| class(name, "20/s:500ms").path(path).timeout(Duration::from_secs(5));
    let plan = Plan::new(origin.url())
        .class(impatient("head", "/slow?ms=60000"))
        .class(impatient("body", "/drip?bytes=100&ms=60000"));
    let report = run_blocking(plan).expect("a run");
    assert_eq!(report.class("head").expect("class").timeouts.get(&Phase::Head), Some(&10), "{report}");
    assert_eq!(report.class("body").expect("class").timeouts.get(&Phase::Body), Some(&10), "{report}");
}

#[test]
fn a_name_without_address_is_an_error_and_no_report() {
    let plan = Plan::new("http://no-such-host.invalid/").class(class("all", "1/s:1s"));
    let fault = run_blocking(plan).expect_err("no address");
    assert!(matches!(fault, LoadError::Resolve { .. }), "{fault}");
    assert!(fault.to_string().contains("no-such-host.invalid"), "{fault}");
}

#[test]
fn a_processor_that_is_not_there_is_a_fault_of_the_plan() {
    let origin = origin();
    // The highest number that the system takes, and the first that it does not.
    for cpu in [1023, 1024] {
        let plan = Plan::new(format!("http://{}/", origin.address())).cpus(vec![cpu]);
        let error = run_blocking(plan.class(class("all", "1/s:1s"))).expect_err("no such processor");
        assert!(error.is_bad_input(), "{error}");
        let said = error.to_string();
        assert!(said.contains(&format!("cpus: there is no processor {cpu} for this process")), "{said}");
    }
}
