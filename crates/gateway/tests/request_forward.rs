//! What a server gets of a request, and a client of a response.

use std::io::{Read, Write};

use tidegate_control::meters::Meter;

use crate::{
    request_house::{House, take},
    request_log::{house, lines, member},
    support::{PLAIN, eventually, exchange, read_response, rest},
};

/// Sends a request, answers it, and gives what the server saw and the client got.
fn round(
    house: &House,
    request: &str,
    response: &str,
) -> (crate::request_house::Received, crate::support::Response) {
    let mut client = house.connect();
    client.write_all(request.as_bytes()).unwrap();
    let mut at_server = house.origin.next();
    at_server.send(response);
    (at_server.request, read_response(&mut client).unwrap())
}

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";

#[test]
fn fields_of_one_hop_end_there_in_both_directions() {
    let house = House::new("");
    let (request, response) = round(
        &house,
        "GET / HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, X-Secret\r\nX-Secret: 1\r\nKeep-Alive: timeout=5\r\n\
         Proxy-Connection: x\r\nProxy-Authorization: Basic eA==\r\nTE: gzip, trailers\r\nUpgrade: h2c\r\nX-Kept: 2\r\n\r\n",
        "HTTP/1.1 200 OK\r\nconnection: x-internal\r\nx-internal: 1\r\nkeep-alive: timeout=1\r\nserver: mine\r\n\
         date: Thu, 01 Jan 1970 00:00:00 GMT\r\nx-kept: 3\r\ncontent-length: 0\r\n\r\n",
    );
    for gone in ["x-secret", "keep-alive", "proxy-connection", "proxy-authorization", "upgrade"] {
        assert_eq!(request.one(gone), None, "{gone}");
    }
    assert_eq!((request.one("te"), request.one("x-kept")), (Some("trailers"), Some("2")));
    // It is for the next hop only, too.
    assert_eq!(request.one("connection"), Some("te"));
    for gone in ["x-internal", "keep-alive", "connection"] {
        assert_eq!(response.field(gone), None, "{gone}");
    }
    assert_eq!((response.field("server"), response.field("x-kept")), (Some("mine"), Some("3")));
    assert_eq!(response.field("date"), Some("Thu, 01 Jan 1970 00:00:00 GMT"));
    house.finish();
}

#[test]
fn a_stranger_cannot_say_whence_it_comes() {
    let house = House::new("");
    let (request, response) = round(
        &house,
        "GET / HTTP/1.1\r\nHost: Shop.example\r\nX-Forwarded-For: 9.9.9.9\r\nX-Forwarded-Proto: https\r\n\
         X-Forwarded-Host: evil\r\nX-Forwarded-Port: 1\r\nForwarded: for=9.9.9.9\r\nX-Request-Id: mine\r\n\r\n",
        OK,
    );
    assert_eq!(request.one("x-forwarded-for"), Some("127.0.0.1"));
    assert_eq!(request.one("x-forwarded-proto"), Some("http"));
    assert_eq!(request.one("x-forwarded-host"), Some("Shop.example"));
    assert_eq!(request.one("x-forwarded-port"), Some(&*house.address().port().to_string()));
    assert_eq!(request.one("forwarded"), Some("for=127.0.0.1;proto=http"));
    let id = request.one("x-request-id").unwrap();
    assert!(id.len() == 32 && id.bytes().all(|b| b.is_ascii_hexdigit()), "{id}");
    assert_eq!(response.field("x-request-id"), Some(id));
    house.finish();
}

#[test]
fn a_trusted_peer_is_believed_and_we_are_added() {
    let listener = format!("{PLAIN}trusted = \"127.0.0.0/8\"\n");
    let house = House::with(|_| (String::new(), listener, String::new()));
    let (request, _) = round(
        &house,
        "GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 9.9.9.9\r\nX-Forwarded-Proto: https\r\n\
         Forwarded: for=9.9.9.9\r\nX-Request-Id: mine\r\n\r\n",
        OK,
    );
    assert_eq!(request.one("x-forwarded-for"), Some("9.9.9.9, 127.0.0.1"));
    assert_eq!(request.one("x-forwarded-proto"), Some("https"));
    assert_eq!(request.one("forwarded"), Some("for=9.9.9.9, for=127.0.0.1;proto=http"));
    assert_eq!(request.one("x-request-id"), Some("mine"));
    house.finish();
}

#[test]
fn heads_are_edited_and_paths_rewritten() {
    let house = House::new(
        "request_headers = [{ set = \"x-set\", value = \"1\" }, { remove = \"x-gone\" }]\n\
         response_headers = [{ add = \"x-added\", value = \"2\" }, { remove = \"x-powered-by\" }]\n\
         rewrites = [{ pattern = \"/shop/([^/]+)\", replacement = \"/v2/$1\" }]\n\
         upstream.host = \"inner.example:81\"\n",
    );
    let (request, response) = round(
        &house,
        "GET /shop/de/cart?q=%20 HTTP/1.1\r\nHost: a\r\nX-Set: 0\r\nX-Set: 00\r\nX-Gone: 1\r\n\r\n",
        "HTTP/1.1 200 OK\r\nx-powered-by: x\r\ncontent-length: 0\r\n\r\n",
    );
    assert_eq!(request.target, "/v2/de/cart?q=%20");
    assert_eq!((request.one("x-set"), request.one("x-gone")), (Some("1"), None));
    assert_eq!((request.one("host"), request.one("x-forwarded-host")), (Some("inner.example:81"), Some("a")));
    assert_eq!((response.field("x-added"), response.field("x-powered-by")), (Some("2"), None));
    house.finish();
}

#[test]
fn a_continue_is_sent_when_the_body_is_wanted() {
    let house = House::new("body.bytes.max = \"10B\"\n");
    let mut client = house.connect();
    client
        .write_all(b"POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n")
        .unwrap();
    assert_eq!(take(&mut client, 25), b"HTTP/1.1 100 Continue\r\n\r\n");
    client.write_all(b"hello").unwrap();
    let mut at_server = house.origin.next();
    assert_eq!((at_server.request.one("expect"), &*at_server.request.body), (None, &b"hello"[..]));
    at_server.send(OK);
    assert_eq!(read_response(&mut client).unwrap().status, 200);
    // Never for a request that is refused.
    client
        .write_all(b"POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 11\r\n\r\n")
        .unwrap();
    assert_eq!(read_response(&mut client).unwrap().status, 413);
    assert_eq!(rest(&mut client), b"");
    house.finish();
}

#[test]
fn interim_responses_go_on_at_once_to_who_understands_them() {
    const HINTS: &str =
        "HTTP/1.1 103 Early Hints\r\nlink: </a.css>; rel=preload\r\nconnection: x-here\r\nx-here: 1\r\n\r\n";
    let house = House::new("");
    let mut client = house.connect();
    for pipelined in [false, true] {
        let request = "GET / HTTP/1.1\r\nHost: a\r\n\r\n".repeat(1 + usize::from(pipelined));
        client.write_all(request.as_bytes()).unwrap();
        for _ in 0..=usize::from(pipelined) {
            let mut at_server = house.origin.next();
            at_server.send("HTTP/1.1 100 Continue\r\n\r\n");
            at_server.send(HINTS);
            let seen = b"HTTP/1.1 103 Early Hints\r\nlink: </a.css>; rel=preload\r\n\r\n";
            assert_eq!(take(&mut client, seen.len()), seen);
            at_server.send(&format!("HTTP/1.1 102 Processing\r\n\r\n{OK}"));
            assert_eq!(take(&mut client, 27), b"HTTP/1.1 102 Processing\r\n\r\n");
            assert_eq!(read_response(&mut client).unwrap().status, 200);
        }
    }
    client.write_all(b"GET / HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n\r\n").unwrap();
    house.origin.next().send(&format!("{HINTS}{OK}"));
    assert_eq!(read_response(&mut client).unwrap().status, 200);
    house.finish();
}

#[test]
fn a_body_that_grows_too_large_is_answered_413() {
    let house = House::new("body.bytes.max = \"10B\"\n");
    let mut client = house.connect();
    client
        .write_all(
            b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nb\r\nhello world\r\n0\r\n\r\n",
        )
        .unwrap();
    assert_eq!(read_response(&mut client).unwrap().status, 413);
    drop(client);
    assert!(house.origin.is_quiet());
    house.finish();
}

#[test]
fn who_sends_much_more_than_is_taken_still_hears_why() {
    const CHUNK: usize = 64 * 1024;
    let house = House::new("body.bytes.max = \"10B\"\n");
    let mut client = house.connect();
    let chunk = [format!("{CHUNK:x}\r\n").as_bytes(), &[b'a'; CHUNK], b"\r\n"].concat();
    client.write_all(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n").unwrap();
    // 16 MiB are more than the kernel holds of a connection.
    for _ in 0..256 {
        client.write_all(&chunk).unwrap();
    }
    client.write_all(b"0\r\n\r\n").unwrap();
    assert_eq!(read_response(&mut client).unwrap().status, 413);
    drop(client);
    assert!(house.origin.is_quiet());
    house.finish();
}

#[test]
fn responses_without_a_body_have_none() {
    let house = House::new("");
    let mut client = house.connect();
    for (method, response, length) in [
        ("HEAD", "HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n", Some("1000")),
        ("HEAD", "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", None),
        ("GET", "HTTP/1.1 204 No Content\r\n\r\n", None),
        ("GET", "HTTP/1.1 304 Not Modified\r\netag: \"x\"\r\n\r\n", None),
    ] {
        client.write_all(format!("{method} / HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes()).unwrap();
        let mut at_server = house.origin.next();
        assert_eq!(at_server.request.method, method);
        at_server.send(response);
        let head = crate::support::read_head(&mut client).unwrap();
        assert!(head.starts_with(response.lines().next().unwrap()), "{head}");
        let found = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        assert_eq!(found, length, "{head}");
    }
    // Nothing was in the way of the next.
    let mut at_server = {
        client.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        house.origin.next()
    };
    at_server.ok("hello");
    assert_eq!(read_response(&mut client).unwrap().body, "hello");
    drop(client);
    house.finish();
}

#[test]
fn a_client_of_http_1_0_is_told_that_the_end_of_the_connection_ends_a_body_without_length() {
    let house = House::new("");
    let mut client = house.connect();
    for (answer, connection) in [
        ("content-length: 5\r\n\r\nhello", "keep-alive"),
        ("transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", "keep-alive"),
        // Not whole when its head goes on.
        ("transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n", "close"),
    ] {
        client.write_all(b"GET / HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n\r\n").unwrap();
        let mut at_server = house.origin.next();
        at_server.send(&format!("HTTP/1.1 200 OK\r\n{answer}"));
        let mut head = String::new();
        while !head.ends_with("\r\n\r\nhello") {
            head.push_str(std::str::from_utf8(&take(&mut client, 1)).unwrap());
        }
        assert!(head.contains(&format!("connection: {connection}\r\n")), "{head}");
        if connection == "close" {
            at_server.send("0\r\n\r\n");
        }
    }
    assert_eq!(rest(&mut client), b"");
    // What ends the connection for another reason says nothing else either.
    let mut client = house.connect();
    let refused = exchange(&mut client, "TRACE / HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n\r\n");
    assert_eq!((refused.status, refused.field("connection")), (501, Some("close")));
    house.finish();
}

/// As balancers ask that look whether we are well. nginx refuses an empty `Host`.
#[test]
fn a_request_that_names_no_host_asks_for_the_server_by_its_own_name() {
    let house = House::new("");
    let own = house.origin.address.to_string();
    for (request, host) in [
        ("OPTIONS / HTTP/1.0\r\n\r\n", &*own),
        ("GET / HTTP/1.1\r\nHost:\r\n\r\n", &*own),
        ("GET / HTTP/1.0\r\nHost: app.example\r\n\r\n", "app.example"),
    ] {
        let mut client = house.connect();
        client.write_all(request.as_bytes()).unwrap();
        let mut at_server = house.origin.next();
        assert_eq!(at_server.request.one("host"), Some(host), "{request}");
        at_server.ok("");
        assert_eq!(read_response(&mut client).unwrap().status, 200);
    }
    house.finish();
}

/// RFC 9110, section 7.6.2.
#[test]
fn options_go_as_many_hops_as_may_be() {
    let house = House::new("");
    let mut client = house.connect();
    for (request, left) in [
        ("OPTIONS * HTTP/1.1\r\nHost: app.example\r\nMax-Forwards: 1", "0"),
        ("OPTIONS /a HTTP/1.1\r\nHost: app.example\r\nMax-Forwards: 10", "9"),
        ("OPTIONS /a HTTP/1.1\r\nHost: app.example\r\nMax-Forwards: some", "some"),
        ("GET /a HTTP/1.1\r\nHost: app.example\r\nMax-Forwards: 0", "0"),
    ] {
        client.write_all(format!("{request}\r\n\r\n").as_bytes()).unwrap();
        let mut at_server = house.origin.next();
        assert_eq!(at_server.request.one("max-forwards"), Some(left), "{request}");
        at_server.ok("");
        assert_eq!(read_response(&mut client).unwrap().status, 200);
    }
    for target in ["*", "/a", "http://app.example"] {
        let last = format!("OPTIONS {target} HTTP/1.1\r\nHost: app.example\r\nMax-Forwards: 0\r\n\r\n");
        assert_eq!(exchange(&mut client, &last).status, 204, "no server is asked: {target}");
    }
    drop(client);
    house.finish();
}

#[test]
fn a_status_without_a_phrase_of_its_own_has_none() {
    let house = House::new("");
    let mut client = house.connect();
    client.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    house.origin.next().send("HTTP/1.1 299 Odd\r\ncontent-length: 0\r\n\r\n");
    let response = read_response(&mut client).unwrap();
    assert!(response.head.starts_with("HTTP/1.1 299 \r\n"), "{}", response.head);
    drop(client);
    house.finish();
}

#[test]
fn trailers_go_both_ways() {
    let house = House::new("");
    let mut client = house.connect();
    client
        .write_all(
            b"POST / HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nTrailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n\
              5\r\nhello\r\n0\r\nX-Sum: 7\r\n\r\n",
        )
        .unwrap();
    let mut at_server = house.origin.next();
    assert_eq!(at_server.request.body, b"hello");
    assert_eq!(at_server.request.trailers, [("x-sum".to_owned(), "7".to_owned())]);
    at_server.send(
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntrailer: x-sum\r\n\r\n2\r\nhi\r\n0\r\nx-sum: 8\r\n\r\n",
    );
    let mut text = Vec::new();
    while !text.ends_with(b"x-sum: 8\r\n\r\n") {
        text.extend(take(&mut client, 1));
    }
    assert!(String::from_utf8(text).unwrap().contains("2\r\nhi\r\n0\r\n"));
    drop(client);
    house.finish();
}

#[test]
fn a_mebibyte_goes_each_way() {
    let house = House::new("");
    let sent: Vec<u8> = (0..1 << 20).map(|i: u32| (i % 251) as u8).collect();
    for chunked in [false, true] {
        let mut client = house.connect();
        let mut writer = client.try_clone().unwrap();
        let body = sent.clone();
        let writing = std::thread::spawn(move || {
            if chunked {
                writer
                    .write_all(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
                    .unwrap();
                for chunk in body.chunks(10_000) {
                    write!(writer, "{:x}\r\n", chunk.len()).unwrap();
                    writer.write_all(chunk).unwrap();
                    writer.write_all(b"\r\n").unwrap();
                }
                writer.write_all(b"0\r\n\r\n").unwrap();
            } else {
                write!(writer, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", body.len())
                    .unwrap();
                writer.write_all(&body).unwrap();
            }
        });
        let mut at_server = house.origin.next();
        writing.join().unwrap();
        assert!(at_server.request.body == sent, "{} bytes arrived", at_server.request.body.len());
        let length = if chunked {
            "transfer-encoding: chunked".to_owned()
        } else {
            format!("content-length: {}", sent.len())
        };
        let body = sent.clone();
        let answering = std::thread::spawn(move || {
            at_server.send(&format!("HTTP/1.1 200 OK\r\n{length}\r\n\r\n"));
            for chunk in body.chunks(7000) {
                if chunked {
                    at_server.send(&format!("{:x}\r\n", chunk.len()));
                }
                at_server.stream.write_all(chunk).unwrap();
                if chunked {
                    at_server.send("\r\n");
                }
            }
            if chunked {
                at_server.send("0\r\n\r\n");
            }
        });
        crate::support::read_head(&mut client).unwrap();
        let mut got = Vec::new();
        if chunked {
            loop {
                let mut line = Vec::new();
                while !line.ends_with(b"\r\n") {
                    line.extend(take(&mut client, 1));
                }
                let n = usize::from_str_radix(std::str::from_utf8(&line).unwrap().trim(), 16).unwrap();
                got.extend(take(&mut client, n));
                take(&mut client, 2);
                if n == 0 {
                    break;
                }
            }
        } else {
            got = take(&mut client, sent.len());
        }
        assert!(got == sent, "{} bytes came back", got.len());
        answering.join().unwrap();
    }
    let counted = house.finish();
    assert_eq!(counted.counts(Meter::BYTES_IN), [2 << 20]);
    assert_eq!(counted.counts(Meter::BYTES_OUT), [2 << 20]);
}

#[test]
fn visitors_stay_at_their_server_by_a_cookie() {
    let house = House::new("upstream.sticky_cookie = \"visit\"\n");
    let (_, response) = round(&house, "GET / HTTP/1.1\r\nHost: a\r\n\r\n", OK);
    let cookie = response.field("set-cookie").unwrap().to_owned();
    let (pair, attributes) = cookie.split_once(';').unwrap();
    assert!(pair.starts_with("visit=") && attributes == " Path=/; HttpOnly; SameSite=Lax", "{cookie}");
    let (_, response) = round(&house, &format!("GET / HTTP/1.1\r\nHost: a\r\nCookie: {pair}\r\n\r\n"), OK);
    assert_eq!(response.field("set-cookie"), None);
    house.finish();
}

#[test]
fn a_cookie_of_who_comes_over_tls_to_a_trusted_peer_is_secure() {
    let listener = format!("{PLAIN}trusted = \"127.0.0.0/8\"\n");
    let house = House::with(|_| (String::new(), listener, "upstream.sticky_cookie = \"visit\"\n".to_owned()));
    for (scheme, is_secure) in [("https", true), ("http", false)] {
        let request = format!("GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-Proto: {scheme}\r\n\r\n");
        let (_, response) = round(&house, &request, OK);
        let cookie = response.field("set-cookie").unwrap();
        assert_eq!(cookie.ends_with("; Secure"), is_secure, "{cookie}");
    }
    house.finish();
}

#[test]
fn a_server_that_fails_is_left_for_another_if_that_is_safe() {
    let second = crate::request_house::Origin::start();
    // The first of the two: nobody listens there, nor will, at an address that nobody else binds.
    let dead = std::net::TcpListener::bind("127.77.0.1:0").unwrap().local_addr().unwrap();
    let house = House::new(&format!(
        "servers = [\"http://{dead}\", \"http://{}\"]\nbalance = \"round_robin\"\nretries.budget = 0.0\nretries.max = 1\n\
         health.failures.max = \"none\"\n",
        second.address
    ));
    for _ in 0..4 {
        let mut client = house.connect();
        client.write_all(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi").unwrap();
        let mut at_server = second.next();
        assert_eq!(at_server.request.body, b"hi");
        at_server.ok("served");
        assert_eq!(read_response(&mut client).unwrap().body, "served");
    }
    // What may have reached a server asks the budget, which has nothing.
    for _ in 0..2 {
        let mut client = house.connect();
        client.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        let mut at_server = second.next();
        at_server.send("HTTP/1.1");
        at_server.stream.shutdown(std::net::Shutdown::Both).unwrap();
        let response = read_response(&mut client).unwrap();
        assert_eq!((response.status, response.field("tidegate-reason")), (502, Some("reset")));
    }
    let counted = house.finish();
    assert!(counted.counts(Meter::RETRIES)[0] >= 1);
    assert_eq!(counted.counts(Meter::RESPONSES), [0, 4, 0, 0, 2]);
}

#[test]
fn what_goes_wrong_at_the_server_is_told_as_502_or_504() {
    // Longer than a machine halts before an answer that is there is read.
    let house =
        House::new("upstream.response.timeout = \"3s\"\nretries.max = 0\nhealth.failures.max = \"none\"\n");
    for (answer, status, reason) in [
        (None, 504, "response_timeout"),
        (Some("this is no HTTP\r\n\r\n"), 502, "garbage"),
        (Some("HTTP/1.1 200 OK\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n"), 502, "garbage"),
    ] {
        let mut client = house.connect();
        client.write_all(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n").unwrap();
        let mut at_server = house.origin.next();
        if let Some(answer) = answer {
            at_server.send(answer);
        }
        let response = read_response(&mut client).unwrap();
        assert_eq!((response.status, response.field("tidegate-reason")), (status, Some(reason)));
        assert!(!response.body.contains("127.0.0.1"), "{}", response.body);
    }
    // It breaks off without a word.
    let mut client = house.connect();
    client.write_all(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n").unwrap();
    house.origin.next().stream.shutdown(std::net::Shutdown::Both).unwrap();
    let response = read_response(&mut client).unwrap();
    assert_eq!((response.status, response.field("tidegate-reason")), (502, Some("reset")));
    drop(client);
    let counted = house.finish();
    assert_eq!(counted.counts(Meter::RESPONSES), [0, 0, 0, 0, 4]);
}

#[test]
fn a_body_that_breaks_off_breaks_off_at_the_client_too() {
    let house = house("", "");
    let mut client = house.connect();
    client.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    let mut at_server = house.origin.next();
    at_server.send("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhel");
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\nhel") {
        head.extend(take(&mut client, 1));
    }
    at_server.stream.shutdown(std::net::Shutdown::Both).unwrap();
    let mut more = Vec::new();
    // Whether by an end or by a reset: not the seven bytes that are missing.
    let _ = client.read_to_end(&mut more);
    assert_eq!(more, b"");
    // What its client saw: the client has not left.
    let line = &lines(&house, 1)[0];
    assert_eq!((member(line, "status"), member(line, "reason")), (Some("200"), Some("body")), "{line}");
    assert!(member(line, "detail").is_some_and(|detail| detail.starts_with("server: ")), "{line}");
    let counted = house.finish();
    assert_eq!(counted.counts(Meter::RESPONSES), [0, 1, 0, 0, 0]);
    assert_eq!([counted.counts(Meter::ABANDONED), counted.counts(Meter::GOOD)], [[0], [0]]);
    assert_eq!(counted.distribution(Meter::RESPONSE_TIME).count(), 0);
}

#[test]
fn a_listener_can_send_everybody_on_to_https() {
    let listener = format!("{PLAIN}redirect_to_https = 8443\n");
    let house = House::with(|_| (String::new(), listener, String::new()));
    let mut client = house.connect();
    let response =
        exchange(&mut client, "POST /a?b=c HTTP/1.1\r\nHost: Shop.example:80\r\nContent-Length: 0\r\n\r\n");
    assert_eq!((response.status, response.field("location")), (308, Some("https://shop.example:8443/a?b=c")));
    assert!(house.origin.is_quiet());
    drop(client);
    eventually("no request", || house.gate().held() == 0);
}
