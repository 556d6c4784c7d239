//! Clients with numbers: what the server is told of them, and how evenly they are served.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener},
    thread,
};

use tidegate_load::{Plan, run_blocking};

use super::class;

/// Refuses client 0 and serves all others; ends with the test.
fn partial_server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address");
    thread::spawn(move || {
        for connection in listener.incoming() {
            let Ok(mut connection) = connection else { return };
            let mut head = Vec::new();
            let mut byte = [0];
            while !head.ends_with(b"\r\n\r\n") && matches!(connection.read(&mut byte), Ok(1)) {
                head.push(byte[0]);
            }
            let head = String::from_utf8_lossy(&head);
            let status = if head.contains("x-client: 0\r\n") { "503 No" } else { "200 Yes" };
            let reply = format!("HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
            let _ = connection.write_all(reply.as_bytes());
        }
    });
    address
}

#[test]
fn how_evenly_numbered_clients_were_served_is_told() {
    let url = format!("http://{}/", partial_server());
    let report = |threads| {
        let mut all = class("all", "200/s:500ms").clients(4);
        all.client_header = Some("x-client".to_owned());
        run_blocking(Plan::new(&url).class(all).threads(threads)).expect("a run")
    };
    let one = report(1);
    // Shares of 0, 1, 1 and 1: 3² / (4 · 3).
    assert_eq!((one.total.fairness, one.classes[0].fairness), (Some(0.75), Some(0.75)), "{one}");
    assert!(one.total.refused > 5 && one.total.refused + one.total.good == 100, "{one}");
    assert_eq!(one.total.refused, report(3).total.refused, "the same arrivals are the same clients");
    assert!(one.to_string().contains("fairness 0.750"), "{one}");
}
