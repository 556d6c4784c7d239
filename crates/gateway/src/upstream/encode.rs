//! The head of a request on the wire, and how its body comes behind it.

use std::io::Write;

use bytes::Bytes;
use http::{
    header::{CONNECTION, CONTENT_LENGTH, HOST, TE, TRANSFER_ENCODING},
    request::Parts,
};

use crate::{
    body::RequestBody,
    http1::{Outgoing, Rest, announced_trailers, field},
};

/// Begins with the head of a request, whose body is `body`. What is in memory goes along at once.
///
/// `is_last`: the connection is to be closed after it. `own_host` is the server's own, for a request that names none, as those
/// of HTTP/1.0 may: servers such as nginx refuse an empty one.
pub(super) fn begin(
    out: &mut Outgoing,
    head: &Parts,
    body: &RequestBody,
    is_last: bool,
    own_host: Option<&str>,
) {
    let lead = out.head();
    let target = head.uri.path_and_query().map_or("/", |target| target.as_str());
    for part in [head.method.as_str(), " ", target, " HTTP/1.1\r\n"] {
        lead.extend_from_slice(part.as_bytes());
    }
    let streams = matches!(body, RequestBody::Stream(_));
    let (mut length, mut has_te) = (None, false);
    for (name, value) in &head.headers {
        match *name {
            // How the body goes is said below.
            TRANSFER_ENCODING => continue,
            CONTENT_LENGTH => {
                length = value.to_str().ok().and_then(|text| text.parse().ok()).or(length);
                continue;
            }
            TE => has_te = true,
            HOST if value.is_empty() => {
                field(lead, b"host", own_host.unwrap_or_default().as_bytes());
                continue;
            }
            _ => {}
        }
        field(lead, name.as_str().as_bytes(), value.as_bytes());
    }
    // One that asks to upgrade has said what becomes of its connection.
    if is_last && !head.headers.contains_key(CONNECTION) {
        field(lead, b"connection", b"close");
    }
    // Who sends it says that it ends at the next hop (RFC 9110, section 10.1.4).
    if has_te {
        field(lead, b"connection", b"te");
    }
    let (piece, rest, told) = match body {
        RequestBody::Empty => (Bytes::new(), Rest::Nothing, length.map(|_: u64| 0)),
        RequestBody::Whole(bytes) => (bytes.clone(), Rest::Nothing, Some(bytes.len() as u64)),
        RequestBody::Stream(_) => match length {
            Some(length) => (Bytes::new(), Rest::Length(length), Some(length)),
            None => {
                let announced = announced_trailers(&head.headers);
                (Bytes::new(), Rest::Chunks { announced }, None)
            }
        },
    };
    match told {
        // Writing to memory does not fail.
        Some(length) => drop(write!(lead, "content-length: {length}\r\n")),
        None if streams => field(lead, b"transfer-encoding", b"chunked"),
        None => {}
    }
    lead.extend_from_slice(b"\r\n");
    out.follow(piece, rest);
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderName, HeaderValue, Request};
    use http_body::Frame;

    use super::*;
    use crate::{body::Outbound, http1::OtherLength};

    /// What is written of a request whose body streams as `frames`, `step` bytes at a time.
    fn wire(request: &Outbound, frames: Vec<Frame<Bytes>>, step: usize) -> Result<String, OtherLength> {
        let (mut outgoing, mut out, mut frames) = (Outgoing::default(), Vec::new(), frames.into_iter());
        begin(&mut outgoing, &request.head, &request.body, false, None);
        loop {
            while outgoing.has_bytes() {
                let bytes: Vec<u8> =
                    outgoing.slices().iter().flat_map(|slice| slice.to_vec()).take(step).collect();
                outgoing.advance(bytes.len());
                out.extend(bytes);
            }
            if !outgoing.wants_more() {
                return Ok(String::from_utf8(out).expect("text"));
            }
            outgoing.push(frames.next(), false)?;
        }
    }

    fn request(fields: &[(&'static str, &'static str)], body: RequestBody) -> Outbound {
        let mut request = Request::put("/a?b").body(body).expect("a request");
        for (name, value) in fields {
            request.headers_mut().append(*name, HeaderValue::from_static(value));
        }
        request.into()
    }

    #[test]
    fn the_last_request_of_a_connection_says_so_unless_it_asks_to_upgrade() {
        let head = |fields: &[(&'static str, &'static str)]| {
            let request = request(fields, RequestBody::Empty);
            let mut outgoing = Outgoing::default();
            begin(&mut outgoing, &request.head, &request.body, true, None);
            String::from_utf8(outgoing.slices()[0].to_vec()).expect("text")
        };
        assert_eq!(head(&[("host", "a")]), "PUT /a?b HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
        assert_eq!(
            head(&[("te", "trailers")]),
            "PUT /a?b HTTP/1.1\r\nte: trailers\r\nconnection: close\r\nconnection: te\r\n\r\n"
        );
        let upgrade = head(&[("connection", "upgrade"), ("upgrade", "websocket")]);
        assert_eq!(upgrade, "PUT /a?b HTTP/1.1\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n");
    }

    fn streaming(fields: &[(&'static str, &'static str)]) -> Outbound {
        let body = http_body_util::Empty::new();
        request(
            fields,
            RequestBody::Stream(Box::pin(http_body_util::BodyExt::map_err(body, |never| match never {}))),
        )
    }

    fn data(text: &'static str) -> Frame<Bytes> {
        Frame::data(text.into())
    }

    #[test]
    fn a_body_in_memory_has_its_true_length_whatever_the_head_says() {
        for step in [1, 7, 1000] {
            let get = request(&[("host", "x"), ("accept", "a"), ("accept", "b")], RequestBody::Empty);
            let written = wire(&get, vec![], step).expect("written");
            assert_eq!(written, "PUT /a?b HTTP/1.1\r\nhost: x\r\naccept: a\r\naccept: b\r\n\r\n");
            let put = request(
                &[("content-length", "7"), ("transfer-encoding", "x")],
                RequestBody::Whole("abc".into()),
            );
            let written = wire(&put, vec![], step).expect("written");
            assert_eq!(written, "PUT /a?b HTTP/1.1\r\ncontent-length: 3\r\n\r\nabc");
            let empty = request(&[("content-length", "7")], RequestBody::Empty);
            let written = wire(&empty, vec![], step).expect("written");
            assert_eq!(written, "PUT /a?b HTTP/1.1\r\ncontent-length: 0\r\n\r\n");
        }
    }

    #[test]
    fn a_body_that_streams_goes_by_its_length_or_in_chunks() {
        for step in [1, 3, 1000] {
            let frames = || vec![data("abc"), data(""), data("0123456789abcdefg")];
            let written = wire(&streaming(&[("content-length", "20")]), frames(), step).expect("written");
            assert_eq!(written, "PUT /a?b HTTP/1.1\r\ncontent-length: 20\r\n\r\nabc0123456789abcdefg");
            let written = wire(&streaming(&[]), frames(), step).expect("written");
            assert_eq!(
                written,
                "PUT /a?b HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n11\r\n0123456789abcdefg\r\n0\r\n\r\n"
            );
        }
        for frames in [vec![data("ab")], vec![data("abcd")]] {
            assert!(wire(&streaming(&[("content-length", "3")]), frames, 10).is_err());
        }
    }

    #[test]
    fn trailers_go_on_if_they_were_announced() {
        let trailers = || {
            let fields = [("a", "1"), ("b", "2")];
            let map =
                fields.map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
            Frame::trailers(HeaderMap::from_iter(map))
        };
        let announcing = streaming(&[("trailer", "A")]);
        let written = wire(&announcing, vec![data("x"), trailers()], 5).expect("written");
        assert!(written.ends_with("\r\n\r\n1\r\nx\r\n0\r\na: 1\r\n\r\n"), "{written}");
        let written = wire(&streaming(&[]), vec![data("x"), trailers()], 5).expect("written");
        assert!(written.ends_with("1\r\nx\r\n0\r\n\r\n"), "{written}");
    }
}
