//! Requests that two parsers could read differently: refused or put in order, none passed on as it is.

use std::{
    io::{Read, Write},
    sync::Arc,
};

use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};

use crate::{
    request_house::{House, Received},
    support::{PLAIN, connect, read_response, rest, write_certificate},
};

/// What becomes of a request.
enum Fate {
    /// Answered with this status; the server never sees anything of it.
    Refused(u16),
    /// The server gets one clean request with this target and body.
    Passed(&'static str, &'static str),
}

use Fate::{Passed, Refused};

const HOST: &str = "Host: app.example\r\n";

/// Each case is sent on a connection of its own. `{H}` stands for the usual `Host`.
const CASES: &[(&str, &str, Fate)] = &[
    ("plain", "GET /a HTTP/1.1\r\n{H}\r\n", Passed("/a", "")),
    ("length", "POST /a HTTP/1.1\r\n{H}Content-Length: 5\r\n\r\nhello", Passed("/a", "hello")),
    (
        "chunked",
        "POST /a HTTP/1.1\r\n{H}Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        Passed("/a", "hello"),
    ),
    // Two lengths for one body.
    (
        "CL then TE",
        "POST /a HTTP/1.1\r\n{H}Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nZ\r\n0\r\n\r\n",
        Passed("/a", "Z"),
    ),
    (
        "TE then CL",
        "POST /a HTTP/1.1\r\n{H}Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n1\r\nZ\r\n0\r\n\r\n",
        Passed("/a", "Z"),
    ),
    (
        "CL.TE smuggle",
        "POST /a HTTP/1.1\r\n{H}Content-Length: 30\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\n\r\n",
        Passed("/a", ""),
    ),
    (
        "CLs that differ",
        "POST /a HTTP/1.1\r\n{H}Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
        Refused(400),
    ),
    (
        "CLs that agree",
        "POST /a HTTP/1.1\r\n{H}Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
        Passed("/a", "hello"),
    ),
    ("CL list", "POST /a HTTP/1.1\r\n{H}Content-Length: 5, 5\r\n\r\nhello", Refused(400)),
    ("CL plus", "POST /a HTTP/1.1\r\n{H}Content-Length: +5\r\n\r\nhello", Refused(400)),
    ("CL minus", "POST /a HTTP/1.1\r\n{H}Content-Length: -5\r\n\r\nhello", Refused(400)),
    ("CL hex", "POST /a HTTP/1.1\r\n{H}Content-Length: 0x5\r\n\r\nhello", Refused(400)),
    ("CL empty", "POST /a HTTP/1.1\r\n{H}Content-Length: \r\n\r\n", Refused(400)),
    ("CL huge", "POST /a HTTP/1.1\r\n{H}Content-Length: 99999999999999999999999\r\n\r\n", Refused(400)),
    ("CL of all ones", "POST /a HTTP/1.1\r\n{H}Content-Length: 18446744073709551615\r\n\r\n", Refused(400)),
    ("CL of nearly", "POST /a HTTP/1.1\r\n{H}Content-Length: 18446744073709551614\r\n\r\n", Refused(400)),
    ("CL blank inside", "POST /a HTTP/1.1\r\n{H}Content-Length: 1 0\r\n\r\nhello", Refused(400)),
    // Transfer codings.
    ("TE identity", "POST /a HTTP/1.1\r\n{H}Transfer-Encoding: identity\r\n\r\n", Refused(400)),
    (
        "TE gzip, chunked",
        "POST /a HTTP/1.1\r\n{H}Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        Refused(501),
    ),
    (
        "TE chunked, identity",
        "POST /a HTTP/1.1\r\n{H}Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
        Refused(400),
    ),
    (
        "TE twice",
        "POST /a HTTP/1.1\r\n{H}Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        Refused(501),
    ),
    (
        "TE x, chunked lines",
        "POST /a HTTP/1.1\r\n{H}Transfer-Encoding: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        Refused(501),
    ),
    (
        "TE with vertical tab",
        "POST /a HTTP/1.1\r\n{H}Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n",
        Refused(400),
    ),
    ("TE quoted", "POST /a HTTP/1.1\r\n{H}Transfer-Encoding: \"chunked\"\r\n\r\n0\r\n\r\n", Refused(400)),
    ("TE xchunked", "POST /a HTTP/1.1\r\n{H}Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", Refused(400)),
    ("TE in HTTP/1.0", "POST /a HTTP/1.0\r\n{H}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", Refused(400)),
    (
        "TE upper case",
        "POST /a HTTP/1.1\r\n{H}Transfer-Encoding: CHUNKED\r\n\r\n1\r\nZ\r\n0\r\n\r\n",
        Passed("/a", "Z"),
    ),
    // Lines and fields.
    ("blank before colon", "POST /a HTTP/1.1\r\n{H}Content-Length : 5\r\n\r\nhello", Refused(400)),
    (
        "tab before colon",
        "POST /a HTTP/1.1\r\n{H}Transfer-Encoding\t: chunked\r\n\r\n0\r\n\r\n",
        Refused(400),
    ),
    ("folded line", "GET /a HTTP/1.1\r\n{H}X-A: b\r\n c\r\n\r\n", Refused(400)),
    ("folded TE", "POST /a HTTP/1.1\r\n{H}Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n", Refused(400)),
    ("first field indented", "GET /a HTTP/1.1\r\n X-A: b\r\n{H}\r\n", Refused(400)),
    ("NUL in a value", "GET /a HTTP/1.1\r\n{H}X-A: b\0c\r\n\r\n", Refused(400)),
    ("CR in a value", "GET /a HTTP/1.1\r\n{H}X-A: b\rX-B: c\r\n\r\n", Refused(400)),
    ("NUL in a name", "GET /a HTTP/1.1\r\n{H}X\0A: b\r\n\r\n", Refused(400)),
    ("no colon", "GET /a HTTP/1.1\r\n{H}X-A\r\n\r\n", Refused(400)),
    ("empty name", "GET /a HTTP/1.1\r\n{H}: b\r\n\r\n", Refused(400)),
    ("bare LF", "GET /a HTTP/1.1\nHost: app.example\n\n", Passed("/a", "")),
    (
        "bare LF before TE",
        "POST /a HTTP/1.1\r\n{H}X-A: b\nTransfer-Encoding: chunked\r\n\r\n1\r\nZ\r\n0\r\n\r\n",
        Passed("/a", "Z"),
    ),
    ("empty lines first", "\r\n\r\nGET /a HTTP/1.1\r\n{H}\r\n", Passed("/a", "")),
    // Request lines.
    ("two blanks", "GET  /a HTTP/1.1\r\n{H}\r\n", Refused(400)),
    ("HTTP/1.2", "GET /a HTTP/1.2\r\n{H}\r\n", Refused(400)),
    ("HTTP/2.0 in text", "GET /a HTTP/2.0\r\n{H}\r\n", Refused(400)),
    ("no version", "GET /a\r\n{H}\r\n", Refused(400)),
    ("method with colon", "GE:T /a HTTP/1.1\r\n{H}\r\n", Refused(400)),
    ("fragment", "GET /a#b HTTP/1.1\r\n{H}\r\n", Passed("/a", "")),
    ("DEL in the path", "GET /a\x7f HTTP/1.1\r\n{H}\r\n", Refused(400)),
    ("tab in the path", "GET /a\tb HTTP/1.1\r\n{H}\r\n", Refused(400)),
    ("JSON in a query", "GET /a?{\"b\":[1]} HTTP/1.1\r\n{H}\r\n", Passed("/a?{%22b%22:[1]}", "")),
    ("no URI's characters", "GET /<`>\"?<é> HTTP/1.1\r\n{H}\r\n", Passed("/%3C%60%3E\"?%3C%C3%A9%3E", "")),
    ("relative path", "GET a HTTP/1.1\r\n{H}\r\n", Refused(400)),
    ("asterisk", "OPTIONS * HTTP/1.1\r\n{H}\r\n", Passed("*", "")),
    ("OPTIONS without a path", "OPTIONS http://app.example HTTP/1.1\r\n{H}\r\n", Passed("*", "")),
    ("OPTIONS of a path", "OPTIONS http://app.example/ HTTP/1.1\r\n{H}\r\n", Passed("/", "")),
    ("OPTIONS, query alone", "OPTIONS http://app.example?b HTTP/1.1\r\n{H}\r\n", Passed("/?b", "")),
    ("asterisk with GET", "GET * HTTP/1.1\r\n{H}\r\n", Refused(400)),
    ("CONNECT", "CONNECT app.example:443 HTTP/1.1\r\n{H}\r\n", Refused(501)),
    ("TRACE", "TRACE / HTTP/1.1\r\n{H}\r\n", Refused(501)),
    // Hosts.
    ("no host", "GET /a HTTP/1.1\r\n\r\n", Refused(400)),
    ("two hosts", "GET /a HTTP/1.1\r\n{H}{H}\r\n", Refused(400)),
    ("host with user", "GET /a HTTP/1.1\r\nHost: x@app.example\r\n\r\n", Refused(400)),
    ("host with path", "GET /a HTTP/1.1\r\nHost: app.example/x\r\n\r\n", Refused(400)),
    ("host with bad port", "GET /a HTTP/1.1\r\nHost: app.example:80x\r\n\r\n", Refused(400)),
    ("host list", "GET /a HTTP/1.1\r\nHost: a, b\r\n\r\n", Refused(400)),
    ("HTTP/1.0 without host", "GET /a HTTP/1.0\r\n\r\n", Passed("/a", "")),
    ("absolute form", "GET http://app.example/a?b HTTP/1.1\r\n{H}\r\n", Passed("/a?b", "")),
    ("absolute form without path", "GET http://app.example HTTP/1.1\r\n{H}\r\n", Passed("/", "")),
    ("absolute form, query alone", "GET http://app.example?b HTTP/1.1\r\n{H}\r\n", Passed("/?b", "")),
    ("query alone", "GET ?b HTTP/1.1\r\n{H}\r\n", Refused(400)),
    ("absolute form against host", "GET http://other.example/a HTTP/1.1\r\n{H}\r\n", Refused(400)),
    ("absolute form with user", "GET http://u@app.example/a HTTP/1.1\r\n{H}\r\n", Refused(400)),
    ("absolute form, other scheme", "GET ftp://app.example/a HTTP/1.1\r\n{H}\r\n", Refused(400)),
    // Chunks.
    (
        "chunk extension",
        "POST /a HTTP/1.1\r\n{H}Transfer-Encoding: chunked\r\n\r\n1;x=y\r\nZ\r\n0\r\n\r\n",
        Passed("/a", "Z"),
    ),
    (
        "chunk size 0x",
        "POST /a HTTP/1.1\r\n{H}Transfer-Encoding: chunked\r\n\r\n0x1\r\nZ\r\n0\r\n\r\n",
        Refused(400),
    ),
    (
        "chunk size minus",
        "POST /a HTTP/1.1\r\n{H}Transfer-Encoding: chunked\r\n\r\n-1\r\nZ\r\n0\r\n\r\n",
        Refused(400),
    ),
    (
        "chunk size overflow",
        "POST /a HTTP/1.1\r\n{H}Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\nZ\r\n0\r\n\r\n",
        Refused(400),
    ),
    (
        "chunk longer than said",
        "POST /a HTTP/1.1\r\n{H}Transfer-Encoding: chunked\r\n\r\n1\r\nZZ\r\n0\r\n\r\n",
        Refused(400),
    ),
    (
        "chunk end with LF",
        "POST /a HTTP/1.1\r\n{H}Transfer-Encoding: chunked\r\n\r\n1\nZ\r\n0\r\n\r\n",
        Refused(400),
    ),
    // What Connection names.
    (
        "Connection names Content-Length",
        "POST /a HTTP/1.1\r\n{H}Connection: content-length\r\nContent-Length: 5\r\n\r\nhello",
        Passed("/a", "hello"),
    ),
    ("Connection names Host", "GET /a HTTP/1.1\r\n{H}Connection: host\r\n\r\n", Passed("/a", "")),
    ("expectation", "GET /a HTTP/1.1\r\n{H}Expect: something\r\n\r\n", Refused(417)),
];

/// The ways a head takes to a codec; the verdict is the same on each.
#[derive(Clone, Copy, Debug)]
enum Way {
    /// The first of a plain connection: judged before a codec has seen it.
    First,
    /// A later one, read by the codec.
    Later,
    /// Over TLS.
    Secure,
}

const WAYS: [Way; 3] = [Way::First, Way::Later, Way::Secure];

trait Stream: Read + Write {}

impl<S: Read + Write> Stream for S {}

impl Way {
    /// A client whose next request takes this way.
    fn client(self, house: &House) -> Box<dyn Stream> {
        match self {
            Self::First => Box::new(house.connect()),
            Self::Later => {
                let mut client = house.connect();
                client.write_all(b"GET /before HTTP/1.1\r\nHost: app.example\r\n\r\n").unwrap();
                house.origin.next().ok("before");
                assert_eq!(read_response(&mut client).unwrap().body, "before");
                Box::new(client)
            }
            Self::Secure => {
                let certificate = CertificateDer::from_pem_file(house.directory.path().join("one.pem"));
                let mut roots = RootCertStore::empty();
                roots.add(certificate.unwrap()).unwrap();
                let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
                let name = ServerName::try_from("app.example").unwrap();
                let client = ClientConnection::new(Arc::new(config), name).unwrap();
                Box::new(StreamOwned::new(client, connect(house.running.address("https").unwrap())))
            }
        }
    }
}

#[test]
fn no_request_is_passed_on_ambiguously() {
    let house = House::with(|directory| {
        write_certificate(directory, "one", &["app.example"]);
        let secure = "[[listener]]\nname = \"https\"\naddress = \"127.0.0.1:0\"\n\
                      tls.certificates = [{ chain = \"one.pem\", key = \"one.key\" }]\n";
        (String::new(), format!("{PLAIN}{secure}"), "health.failures.max = \"none\"\n".to_owned())
    });
    let mut wrong = Vec::new();
    for ((name, text, fate), way) in CASES.iter().flat_map(|case| WAYS.map(|way| (case, way))) {
        let name = format!("{name}, {way:?}");
        let mut client = way.client(&house);
        client.write_all(text.replace("{H}", HOST).as_bytes()).unwrap();
        let found = match fate {
            Passed(target, body) => {
                let mut exchange = house.origin.next();
                let Received { target: got, body: got_body, .. } = exchange.request.clone();
                exchange.ok("fine");
                let status = read_response(&mut client).map(|response| response.status).ok();
                (got == *target && got_body == body.as_bytes() && status == Some(200))
                    .then_some(())
                    .ok_or(format!("{got} {got_body:?} {status:?}"))
            }
            Refused(status) => match read_response(&mut client) {
                Ok(response) if response.status == *status => {
                    // Nothing more is read of a connection on which one request was ambiguous.
                    let more = rest(&mut client);
                    more.is_empty().then_some(()).ok_or(format!("{more:?}"))
                }
                Ok(response) => Err(format!("{}", response.status)),
                Err(error) => Err(error.to_string()),
            },
        };
        drop(client);
        if let Err(found) = found {
            wrong.push(format!("{name}: {found}"));
        }
        // Whatever was smuggled would come to the server before this, or in place of it.
        let mut client = house.connect();
        client.write_all(b"GET /next HTTP/1.1\r\nHost: app.example\r\n\r\n").unwrap();
        let mut exchange = house.origin.next();
        if exchange.request.target != "/next" {
            wrong.push(format!("{name}: the server got {:?}", exchange.request));
        }
        exchange.ok("next");
        assert_eq!(read_response(&mut client).unwrap().body, "next", "{name}");
    }
    let cases = CASES.len() * WAYS.len();
    assert!(wrong.is_empty(), "{} of {cases}:\n{}", wrong.len(), wrong.join("\n"));
    house.finish();
}

/// The listener by SNI and the requests by Host: see the TLS tests; here by Host alone.
#[test]
fn an_unknown_host_is_answered_404() {
    let house = House::new("hosts = \"app.example\"\n");
    let mut client = house.connect();
    client.write_all(b"GET / HTTP/1.1\r\nHost: other.example\r\nAccept: text/plain\r\n\r\n").unwrap();
    let response = read_response(&mut client).unwrap();
    assert_eq!(response.status, 404);
    assert!(response.body.contains("No application serves this host."), "{}", response.body);
    // The connection goes on.
    client.write_all(b"GET / HTTP/1.1\r\nHost: APP.example:80\r\n\r\n").unwrap();
    house.origin.next().ok("served");
    assert_eq!(read_response(&mut client).unwrap().body, "served");
    drop(client);
    house.finish();
}
