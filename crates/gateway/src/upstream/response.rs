//! Response heads that say one thing only: what is ambiguous is refused, not passed on.

use std::{mem::MaybeUninit, ops::Range};

use bytes::BytesMut;
use http::{
    HeaderMap, HeaderName, HeaderValue, Response, StatusCode, Version,
    header::{CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING},
    response::Parts,
};
use hyper::upgrade::OnUpgrade;

/// Bytes and fields of a response's head.
const HEAD_MAX: usize = 64 * 1024;
const FIELDS_MAX: usize = 100;
/// Fields there is room kept for.
const FIELDS_KEPT: usize = 64;

/// Room for the fields of a head, kept from one to the next.
#[derive(Debug, Default)]
pub(super) struct Room {
    fields: HeaderMap,
    /// Where names and values lie among the bytes.
    places: Vec<(Range<usize>, Range<usize>)>,
}

impl Room {
    /// Takes over the room of fields that are not needed any more.
    pub(super) fn refill(&mut self, mut fields: HeaderMap) {
        fields.clear();
        // That of an uncommonly large head is given back.
        self.fields = if fields.capacity() > FIELDS_KEPT { HeaderMap::new() } else { fields };
    }
}

/// Takes a head of HTTP/1 out of what was read; `None` while it is not whole.
///
/// The grammar is httparse's without any of its leniences: no HTTP/0.9, no folded lines, no blanks before a colon,
/// no bytes that no field may have.
pub(super) fn parse(input: &mut BytesMut, room: &mut Room) -> Result<Option<Response<()>>, String> {
    let mut fields = [const { MaybeUninit::uninit() }; FIELDS_MAX];
    let mut head = httparse::Response::new(&mut []);
    let parsed =
        httparse::ParserConfig::default().parse_response_with_uninit_headers(&mut head, input, &mut fields);
    let len = match parsed.map_err(|error| format!("no response of HTTP: {error}"))? {
        httparse::Status::Complete(len) if len <= HEAD_MAX => len,
        httparse::Status::Partial if input.len() < HEAD_MAX => return Ok(None),
        _ => return Err(format!("a head of more than {HEAD_MAX} bytes")),
    };
    let status = head.code.and_then(|code| StatusCode::from_u16(code).ok()).ok_or("no status of HTTP")?;
    let version = if head.version == Some(1) { Version::HTTP_11 } else { Version::HTTP_10 };
    // Where names and values lie, for the bytes to be taken out without a copy.
    let start = input.as_ptr().addr();
    let place = |bytes: &[u8]| {
        let at = bytes.as_ptr().addr().saturating_sub(start);
        if bytes.is_empty() { 0..0 } else { at..at + bytes.len() }
    };
    room.places.clear();
    room.places.extend(head.headers.iter().map(|field| (place(field.name.as_bytes()), place(field.value))));
    let bytes = input.split_to(len).freeze();
    let mut headers = std::mem::take(&mut room.fields);
    headers.reserve(room.places.len());
    for (name, value) in room.places.drain(..) {
        let name = HeaderName::from_bytes(&bytes[name]).map_err(|error| error.to_string())?;
        let value = HeaderValue::from_maybe_shared(bytes.slice(value)).map_err(|error| error.to_string())?;
        headers.append(name, value);
    }
    let mut response = Response::new(());
    (*response.status_mut(), *response.version_mut(), *response.headers_mut()) = (status, version, headers);
    Ok(Some(response))
}

/// Whether the connection outlasts the response with this head.
pub(super) fn lasts(head: &Parts) -> bool {
    // Under HTTP/1.0 a body of unknown length is not told from a whole one.
    head.version == Version::HTTP_11
        && !head.headers.iter().filter(|(name, _)| **name == CONNECTION).any(|(_, value)| {
            value
                .as_bytes()
                .split(|byte| *byte == b',')
                .any(|token| token.trim_ascii().eq_ignore_ascii_case(b"close"))
        })
}

/// Checks what may pass by the grammar and puts the head in order.
///
/// `Content-Length`s that are no numbers or disagree are refused. So are `Transfer-Encoding` beside
/// `Content-Length`, under HTTP/1.0, or of another kind than `chunked`: a client or cache behind us may read
/// each of them in another way (RFC 9112, sections 6.1 and 6.3).
pub(super) fn check<B>(response: &mut Response<B>, asked_upgrade: bool) -> Result<(), &'static str> {
    let (status, version) = (response.status(), response.version());
    if status == StatusCode::SWITCHING_PROTOCOLS {
        // What the codec put there for its own way of upgrading.
        response.extensions_mut().remove::<OnUpgrade>();
        return if asked_upgrade { Ok(()) } else { Err("101 without having been asked for an upgrade") };
    }
    let headers = response.headers_mut();
    // To go over the fields that are there costs less than to hash the name of one.
    if version < Version::HTTP_2 && headers.keys().any(|name| *name == TRANSFER_ENCODING) {
        if headers.contains_key(CONTENT_LENGTH) {
            return Err("both Transfer-Encoding and Content-Length");
        }
        if version < Version::HTTP_11 {
            return Err("Transfer-Encoding under HTTP/1.0");
        }
        let mut encodings = headers.get_all(TRANSFER_ENCODING).iter();
        let only = encodings.next().filter(|_| encodings.next().is_none());
        if !only.is_some_and(|encoding| encoding.as_bytes().eq_ignore_ascii_case(b"chunked")) {
            return Err("a Transfer-Encoding other than chunked");
        }
    }
    one_content_length(headers)
}

/// Repeated lengths that agree become one, which is all that may be passed on.
fn one_content_length(headers: &mut HeaderMap) -> Result<(), &'static str> {
    let mut lengths = headers.iter().filter(|(name, _)| **name == CONTENT_LENGTH);
    let Some((_, first)) = lengths.next() else { return Ok(()) };
    if lengths.next().is_none() && first.as_bytes().iter().all(u8::is_ascii_digit) && !first.is_empty() {
        return Ok(());
    }
    let mut length = None;
    for value in headers.get_all(CONTENT_LENGTH) {
        for part in value.as_bytes().split(|byte| *byte == b',') {
            let part: Option<u64> = std::str::from_utf8(part.trim_ascii())
                .ok()
                .filter(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()))
                .and_then(|digits| digits.parse().ok());
            let Some(part) = part else { return Err("a Content-Length that is no number") };
            if *length.get_or_insert(part) != part {
                return Err("Content-Lengths that disagree");
            }
        }
    }
    if let Some(length) = length {
        headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(status: u16, fields: &[(&'static str, &'static str)]) -> Response<()> {
        let mut response = Response::new(());
        *response.status_mut() = StatusCode::from_u16(status).expect("a status");
        for (name, value) in fields {
            response.headers_mut().append(*name, HeaderValue::from_static(value));
        }
        response
    }

    fn parsed(bytes: &[u8]) -> (Result<Option<Response<()>>, String>, BytesMut) {
        let mut input = BytesMut::from(bytes);
        (parse(&mut input, &mut Room::default()), input)
    }

    #[test]
    fn a_head_is_taken_out_of_what_was_read() {
        let (head, rest) = parsed(b"HTTP/1.0 404 Not here\r\nA: 1\r\nempty:\r\na:  \xff 2 \r\n\r\nbody");
        let head = head.unwrap().unwrap();
        assert_eq!((head.status(), head.version()), (StatusCode::NOT_FOUND, Version::HTTP_10));
        let all: Vec<_> = head.headers().get_all("a").iter().map(HeaderValue::as_bytes).collect();
        assert_eq!(all, [b"1", &b"\xff 2"[..]]);
        assert_eq!((&head.headers()["empty"], &rest[..]), (&HeaderValue::from_static(""), &b"body"[..]));
        assert!(parsed(b"HTTP/1.1 200 OK\r\na: 1\r\n").0.unwrap().is_none());
        assert!(parsed(b"HTTP/1.1 099 x\r\n\r\n").0.is_err());
    }

    #[test]
    fn a_connection_lasts_unless_the_head_says_otherwise() {
        let last = |version, connection: &'static str| {
            let mut response = response(200, &[("connection", connection)]);
            *response.version_mut() = version;
            lasts(&response.into_parts().0)
        };
        assert!(last(Version::HTTP_11, "keep-alive"));
        assert!(!last(Version::HTTP_11, "x, Close"));
        assert!(!last(Version::HTTP_10, "keep-alive"));
    }

    /// A head is whole or not, and what is behind it stays; whether it may pass is always said.
    #[test]
    fn any_bytes_are_a_head_or_none() {
        bolero::check!().for_each(|bytes: &[u8]| {
            let bytes = [b"HTTP/1.1 200 OK\r\n", bytes].concat();
            let (head, rest) = parsed(&bytes);
            let Ok(Some(mut head)) = head else { return };
            assert!(bytes.ends_with(&rest) && rest.len() < bytes.len());
            if check(&mut head, false).is_ok() {
                let head = head.into_parts().0;
                let lengths = head.headers.get_all(CONTENT_LENGTH).iter().count();
                assert!(lengths <= 1 && (lengths == 0 || !head.headers.contains_key(TRANSFER_ENCODING)));
                let _ = (lasts(&head), super::super::decode::Decoder::of(false, head.status, &head.headers));
            }
        });
    }

    #[test]
    fn what_is_ambiguous_is_refused() {
        for fields in [
            &[("transfer-encoding", "chunked"), ("content-length", "3")][..],
            &[("transfer-encoding", "gzip, chunked")],
            &[("transfer-encoding", "gzip")],
            &[("transfer-encoding", "chunked"), ("transfer-encoding", "chunked")],
            &[("transfer-encoding", "chunked, identity")],
            &[("transfer-encoding", "")],
            &[("content-length", "3"), ("content-length", "4")],
            &[("content-length", "3, 4")],
            &[("content-length", "+3")],
            &[("content-length", "")],
        ] {
            for status in [200, 204, 304] {
                assert!(check(&mut response(status, fields), false).is_err(), "{status} {fields:?}");
            }
        }
        assert!(check(&mut response(101, &[]), false).is_err());
    }

    #[test]
    fn what_is_clear_passes() {
        assert_eq!(check(&mut response(101, &[]), true), Ok(()));
        assert_eq!(check(&mut response(200, &[("transfer-encoding", "Chunked")]), false), Ok(()));
        for fields in
            [&[("content-length", "3"), ("content-length", "3")][..], &[("content-length", "3, 03")]]
        {
            let mut repeated = response(200, fields);
            assert_eq!(check(&mut repeated, false), Ok(()));
            let lengths: Vec<_> = repeated.headers().get_all(CONTENT_LENGTH).iter().collect();
            assert_eq!(lengths, ["3"], "{fields:?}");
        }
    }
}
