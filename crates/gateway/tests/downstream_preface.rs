//! What comes before the first request: bounds on connections, PROXY headers, TLS hellos.

use std::{
    io::{Read, Write},
    net::TcpStream,
};

use tidegate_control::meters::Meter;
use tidegate_runtime::Subject;

use crate::{
    downstream_tls::{Tls, client_config, hello_bytes},
    support::{Bed, PLAIN, eventually, get, rest},
};

const PROXY: &str = "proxy_protocol = true\ntrusted = \"127.0.0.0/8\"\n";

fn proxied(host: &str) -> Bed {
    Bed::new(host, &format!("{PLAIN}{PROXY}"))
}

fn count(bed: &Bed, meter: Meter) -> u64 {
    bed.shared.totals().read().get(&Subject::Host).map_or(0, |host| host.counts(meter).iter().sum())
}

#[test]
fn a_connection_too_many_is_reset_unread_and_its_place_comes_back() {
    let bed = Bed::plain("connections.max = 2\n");
    let mut first = bed.connect();
    assert_eq!(get(&mut first, "/").status, 200);
    let mut second = bed.connect();
    assert_eq!(get(&mut second, "/").status, 200);
    assert_eq!(rest(&mut bed.connect()), b"");
    eventually("counted", || count(&bed, Meter::CONNECTIONS_REFUSED) == 1);
    drop(first);
    eventually("given back", || bed.shared.with_connections(|c, _| c.open()) == 1);
    assert_eq!(get(&mut bed.connect(), "/").status, 200);
}

#[test]
fn a_client_has_only_so_many_connections() {
    let bed = Bed::plain("connections.per_client.max = 1\n");
    let mut first = bed.connect();
    assert_eq!(get(&mut first, "/").status, 200);
    assert_eq!(rest(&mut bed.connect()), b"");
    drop(first);
    eventually("given back", || bed.shared.with_connections(|c, _| c.open()) == 0);
    assert_eq!(get(&mut bed.connect(), "/").status, 200);
}

#[test]
fn a_proxy_header_names_the_client() {
    let bed = proxied("");
    let v2 = [
        &b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x11"[..],
        &[192, 0, 2, 7, 198, 51, 100, 1, 0x12, 0x67, 0x01, 0xbb],
        // An extension, to be skipped.
        &[0x04, 0, 2, 1, 2],
    ]
    .concat();
    for header in [b"PROXY TCP4 192.0.2.7 198.51.100.1 4711 443\r\n".to_vec(), v2] {
        let mut client = bed.connect();
        client.write_all(&header).unwrap();
        let response = get(&mut client, "/");
        assert_eq!(response.status, 200);
        assert!(response.body.contains("192.0.2.7"), "{}", response.body);
    }
}

#[test]
fn an_ipv4_address_in_ipv6_is_of_the_networks_of_ipv4() {
    let networks = "proxy_protocol = true\ntrusted = [\"127.0.0.0/8\", \"10.0.0.0/8\"]\n";
    let bed = Bed::new("", &format!("{PLAIN}{networks}"));
    let mut client = bed.connect();
    client.write_all(b"PROXY TCP6 ::ffff:10.0.0.5 ::ffff:10.0.0.1 4711 443\r\n").unwrap();
    let request = "GET / HTTP/1.1\r\nhost: a\r\nx-forwarded-for: 203.0.113.9\r\n\r\n";
    let response = crate::support::exchange(&mut client, request);
    assert!(response.body.contains("203.0.113.9, 10.0.0.5"), "{}", response.body);
}

#[test]
fn a_proxy_header_may_come_in_pieces_and_with_the_request() {
    let bed = proxied("");
    let bytes = "PROXY TCP4 192.0.2.7 198.51.100.1 4711 443\r\nGET / HTTP/1.1\r\nhost: a\r\n\r\n";
    for step in [1, 7, bytes.len()] {
        let mut client = bed.connect();
        client.set_nodelay(true).unwrap();
        for piece in bytes.as_bytes().chunks(step) {
            client.write_all(piece).unwrap();
        }
        assert_eq!(crate::support::read_response(&mut client).unwrap().status, 200);
    }
}

/// The balancer itself is believed, as without a header; a client that it does not know is not.
#[test]
fn a_proxy_header_without_addresses_leaves_the_socket_s() {
    let bed = proxied("");
    let unknown = b"\r\n\r\n\0\r\nQUIT\n\x21\0\0\0";
    let local = b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0";
    let request = "GET / HTTP/1.1\r\nhost: a\r\nx-forwarded-for: 203.0.113.9\r\n\r\n";
    for (header, says) in [
        (&b"PROXY UNKNOWN\r\n"[..], "x-forwarded-for: 127.0.0.1"),
        (unknown, "x-forwarded-for: 127.0.0.1"),
        (local, "x-forwarded-for: 203.0.113.9, 127.0.0.1"),
    ] {
        let mut client = bed.connect();
        client.write_all(header).unwrap();
        let response = crate::support::exchange(&mut client, request);
        assert!(response.body.to_ascii_lowercase().contains(says), "{}", response.body);
    }
}

#[test]
fn no_proxy_header_no_connection() {
    let bed = proxied("hello.timeout = \"300ms\"\n");
    for bytes in [&b"GET / HTTP/1.1\r\nhost: a\r\n\r\n"[..], b"PROXY TCP4 nonsense\r\n", b"PROXY TCP"] {
        let mut client = bed.connect();
        // On a machine that halts the time may be over before.
        let _ = client.write_all(bytes);
        assert_eq!(rest(&mut client), b"");
    }
    eventually("counted", || count(&bed, Meter::BROKEN_PREFACES) == 3);
    eventually("given back", || bed.shared.with_connections(|c, _| c.open() + c.in_preface()) == 0);
}

#[test]
fn a_proxy_header_of_anybody_is_not_believed() {
    let bed = Bed::new("", &format!("{PLAIN}proxy_protocol = true\ntrusted = \"192.0.2.0/24\"\n"));
    let mut client = bed.connect();
    // Writing may fail already: the connection is reset unread.
    let _ =
        client.write_all(b"PROXY TCP4 192.0.2.7 198.51.100.1 4711 443\r\nGET / HTTP/1.1\r\nhost: a\r\n\r\n");
    assert_eq!(rest(&mut client), b"");
}

#[test]
fn a_hello_that_does_not_come_in_time_ends_the_connection() {
    let tls = Tls::new("hello.timeout = \"200ms\"\n", "");
    let hello = hello_bytes(&client_config(&tls, &[]));
    for len in [0, 1, 5, 100, hello.len() - 1] {
        let mut client = tls.connect();
        // On a machine that halts the time may be over before.
        let _ = client.write_all(&hello[..len]);
        assert_eq!(rest(&mut client), b"");
    }
    eventually("given back", || tls.bed.shared.with_connections(|c, _| c.open() + c.in_preface()) == 0);
}

#[test]
fn a_handshake_that_is_not_done_in_time_has_failed() {
    let tls = Tls::new("hello.timeout = \"1s\"\n", "");
    let mut client = tls.connect();
    client.write_all(&hello_bytes(&client_config(&tls, &[]))).unwrap();
    rest(&mut client);
    eventually("counted", || count(&tls.bed, Meter::HANDSHAKES) == 1);
    assert_eq!(count(&tls.bed, Meter::BROKEN_PREFACES), 0);
}

#[test]
fn a_hello_cut_anywhere_is_a_hello() {
    let tls = Tls::new("", "");
    let config = client_config(&tls, &[]);
    let len = hello_bytes(&config).len();
    for cut in (1..len).step_by(len / 16) {
        let mut client = tls.client_through(&config, "one.example", Split { stream: tls.connect(), cut });
        assert_eq!(get(&mut client, "/").status, 200, "cut at {cut}");
    }
}

/// Writes the first bytes in two parts, with time for the first to arrive alone.
struct Split {
    stream: TcpStream,
    cut: usize,
}

impl Write for Split {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.cut == 0 || self.cut >= bytes.len() {
            return self.stream.write(bytes);
        }
        self.stream.set_nodelay(true)?;
        let cut = std::mem::take(&mut self.cut);
        self.stream.write_all(&bytes[..cut])?;
        std::thread::sleep(std::time::Duration::from_millis(3));
        self.stream.write_all(&bytes[cut..])?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.stream.flush()
    }
}

impl Read for Split {
    fn read(&mut self, bytes: &mut [u8]) -> std::io::Result<usize> {
        self.stream.read(bytes)
    }
}

#[test]
fn plain_http_on_a_tls_port_is_told_so() {
    let tls = Tls::new("", "");
    let response = get(&mut tls.connect(), "/");
    assert_eq!(response.status, 400);
    assert!(response.body.contains("HTTPS"));
}

#[test]
fn a_client_that_says_nothing_has_only_so_many_connections_either() {
    let tls = Tls::new("connections.per_client.max = 1\n", "");
    let silent = tls.connect();
    eventually("counted", || tls.bed.shared.with_connections(|c, _| c.open()) == 1);
    assert_eq!(rest(&mut tls.connect()), b"");
    drop(silent);
    eventually("given back", || tls.bed.shared.with_connections(|c, _| c.open()) == 0);
    let mut second = tls.client(&client_config(&tls, &[]), "one.example");
    assert_eq!(get(&mut second, "/").status, 200);
}

#[test]
fn what_is_no_hello_is_told_so() {
    let tls = Tls::new("", "");
    let mut client = tls.connect();
    client.write_all(b"\x16\x03\x01\x00\x05\x02\x00\x00\x01\x00").unwrap();
    assert_eq!(rest(&mut client), [0x15, 3, 3, 0, 2, 2, 50]);
}
