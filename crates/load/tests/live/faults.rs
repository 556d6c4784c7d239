//! Servers that misbehave, and clients that leave.

use std::{
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::Arc,
    thread,
    time::Duration,
};

use tidegate_load::{
    ErrorKind, FollowPlan, Live, LoadError, Phase, Plan, Report, run_blocking, run_blocking_with,
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
