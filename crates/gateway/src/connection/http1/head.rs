//! A request's head off the wire: what it asks, how its body comes, and whether the connection lasts beyond it.
//!
//! The grammar is httparse's without any of its leniences. What of a head could be meant in two ways is refused in
//! [`crate::request`], by the same rules as over HTTP/2; here is what decides where a message ends (RFC 9112,
//! sections 6 and 9).

use std::mem::MaybeUninit;

use bytes::{Buf, BytesMut};
use http::{
    HeaderName, HeaderValue, Method, Request, Uri, Version, header, request::Parts, uri::PathAndQuery,
};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

use crate::{
    connection::Limits,
    http1::{Decoder, Room, members, name},
    request::{HeadFault, content_length},
};

/// Fields there is room for without asking for memory.
const FIELDS_ON_STACK: usize = 100;
/// The longest target that [`Uri`] takes.
const TARGET_MAX: usize = u16::MAX as usize - 1;

/// A request's head.
pub(in crate::connection) struct Head {
    pub(in crate::connection) parts: Box<Parts>,
    /// How the body comes.
    pub(super) body: Decoder,
    /// Whether the client waits for a word before it sends that.
    pub(super) expects_continue: bool,
    /// Whether the client takes trailers.
    pub(super) takes_trailers: bool,
    /// Whether the connection lasts beyond the exchange, as far as the client goes.
    pub(super) is_lasting: bool,
}

/// Bounds of a head.
#[derive(Clone, Copy, Debug)]
pub(in crate::connection) struct Bounds {
    bytes_max: usize,
    fields_max: usize,
}

impl Bounds {
    pub(in crate::connection) fn of(limits: &Limits) -> Self {
        Self { bytes_max: limits.head_bytes_max, fields_max: limits.headers_max }
    }

    /// Why so many bytes can be no whole head, if they cannot.
    pub(super) fn exceeded(self, bytes: &[u8]) -> Option<HeadFault> {
        (bytes.len() >= self.bytes_max).then(|| HeadFault::too_large(bytes, self.bytes_max))
    }
}

/// Takes a head out of what was read; `None` while it is not whole.
pub(super) fn parse(
    input: &mut BytesMut,
    room: &mut Room,
    bounds: Bounds,
) -> Result<Option<Head>, HeadFault> {
    Ok(read(input, room, bounds)?.map(|(head, len)| {
        input.advance(len);
        head
    }))
}

/// Whether a head may begin so: with its method, or with empty lines before it.
pub(in crate::connection) const fn may_begin(byte: u8) -> bool {
    byte.is_ascii_graphic() || matches!(byte, b'\r' | b'\n')
}

/// Whether a head may end in what has come since `looked_at` bytes were looked at.
pub(in crate::connection) fn may_end(bytes: &[u8], looked_at: usize) -> bool {
    // An end can lie across what was looked at before.
    let new = &bytes[looked_at.saturating_sub(3)..];
    let ends = |line_end: &[u8]| new.windows(line_end.len()).any(|window| window == line_end);
    ends(b"\n\r\n") || ends(b"\n\n")
}

/// The head that bytes begin with, and its length; `None` while it is not whole.
pub(in crate::connection) fn read(
    input: &[u8],
    room: &mut Room,
    bounds: Bounds,
) -> Result<Option<(Head, usize)>, HeadFault> {
    if bounds.fields_max <= FIELDS_ON_STACK {
        let mut fields = [const { MaybeUninit::uninit() }; FIELDS_ON_STACK];
        read_with(input, room, bounds.bytes_max, &mut fields[..bounds.fields_max])
    } else {
        read_with(input, room, bounds.bytes_max, &mut vec![MaybeUninit::uninit(); bounds.fields_max])
    }
}

fn read_with<'a>(
    input: &'a [u8],
    room: &mut Room,
    bytes_max: usize,
    fields: &mut [MaybeUninit<httparse::Header<'a>>],
) -> Result<Option<(Head, usize)>, HeadFault> {
    let mut head = httparse::Request::new(&mut []);
    let len = match head.parse_with_uninit_headers(input, fields) {
        Ok(httparse::Status::Complete(len)) if len <= bytes_max => len,
        Ok(httparse::Status::Partial) if input.len() < bytes_max => return Ok(None),
        Ok(_) => return Err(HeadFault::too_large(input, bytes_max)),
        Err(httparse::Error::TooManyHeaders) => return Err(HeadFault::TooLarge),
        Err(_) => return Err(HeadFault::Malformed),
    };
    let (Some(method), Some(target), Some(version)) = (head.method, head.path, head.version) else {
        return Err(HeadFault::Malformed);
    };
    if target.len() > TARGET_MAX {
        return Err(HeadFault::TargetTooLong);
    }
    let mut request = Request::new(());
    *request.version_mut() = if version == 1 { Version::HTTP_11 } else { Version::HTTP_10 };
    *request.method_mut() = malformed(Method::from_bytes(method.as_bytes()))?;
    let copied = room.copy(&input[..len]);
    *request.uri_mut() = match Uri::from_maybe_shared(copied.of(target.as_bytes())) {
        Ok(uri) => uri,
        Err(_) => malformed(Uri::try_from(escaped(target)))?,
    };
    if *request.method() == Method::OPTIONS && is_pathless(request.uri(), target) {
        let mut parts = request.uri().clone().into_parts();
        parts.path_and_query = Some(PathAndQuery::from_static("*"));
        *request.uri_mut() = malformed(Uri::from_parts(parts))?;
    }
    let mut framing = Framing::of(request.version());
    let mut headers = room.fields(head.headers.len());
    for field in head.headers.iter() {
        let name = malformed(name(field.name.as_bytes()))?;
        let value = malformed(HeaderValue::from_maybe_shared(copied.of(field.value)))?;
        if framing.read(&name, &value)? {
            headers.append(name, value);
        }
    }
    let body = framing.body()?;
    if framing.coding.is_some() && headers.remove(header::CONTENT_LENGTH).is_some() {
        framing.has_both = true;
    }
    *request.headers_mut() = headers;
    let head = Head {
        parts: Box::new(request.into_parts().0),
        body,
        expects_continue: framing.expects_continue && version == 1 && body != Decoder::Ended,
        takes_trailers: framing.takes_trailers,
        is_lasting: framing.is_lasting && !framing.has_both,
    };
    Ok(Some((head, len)))
}

fn malformed<T, E>(result: Result<T, E>) -> Result<T, HeadFault> {
    result.map_err(|_| HeadFault::Malformed)
}

/// Whether a target is an absolute form with neither path nor query, to which [`Uri`] adds one: with OPTIONS it means `*` (RFC 9112,
/// section 3.2.4).
fn is_pathless(uri: &Uri, target: &str) -> bool {
    let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else { return false };
    target.len() == scheme.len() + "://".len() + authority.as_str().len()
}

/// A target with what programs write in it though no URI has it, such as JSON in a query, as browsers send that (URL, section 1.3).
fn escaped(target: &str) -> String {
    const IN_PATH: &AsciiSet = &CONTROLS.add(b'<').add(b'>').add(b'`');
    const IN_QUERY: &AsciiSet = &CONTROLS.add(b'"').add(b'<').add(b'>');
    let (path, query) = target.split_at(target.find('?').unwrap_or(target.len()));
    format!("{}{}", utf8_percent_encode(path, IN_PATH), utf8_percent_encode(query, IN_QUERY))
}

/// What a head's fields say of its message.
struct Framing {
    is_http10: bool,
    length: Option<u64>,
    /// Whether the last transfer coding is `chunked`; `None` without any.
    coding: Option<bool>,
    /// Whether a length stood beside a transfer coding. What goes by the coding then, and the connection ends with
    /// it (RFC 9112, section 6.1).
    has_both: bool,
    is_lasting: bool,
    says_close: bool,
    expects_continue: bool,
    takes_trailers: bool,
}

impl Framing {
    fn of(version: Version) -> Self {
        let is_http10 = version == Version::HTTP_10;
        Self {
            is_http10,
            length: None,
            coding: None,
            has_both: false,
            is_lasting: !is_http10,
            says_close: false,
            expects_continue: false,
            takes_trailers: false,
        }
    }

    /// Takes a field in; whether it is to be kept.
    fn read(&mut self, name: &HeaderName, value: &HeaderValue) -> Result<bool, HeadFault> {
        match *name {
            header::TRANSFER_ENCODING => {
                if self.is_http10 {
                    return Err(HeadFault::Malformed);
                }
                let is_chunked =
                    members(value).last().is_some_and(|coding| coding.eq_ignore_ascii_case(b"chunked"));
                self.coding = Some(is_chunked);
            }
            header::CONTENT_LENGTH if self.coding.is_some() => {
                self.has_both = true;
                return Ok(false);
            }
            header::CONTENT_LENGTH => {
                let length = content_length(value).ok_or(HeadFault::Malformed)?;
                return match self.length.replace(length) {
                    None => Ok(true),
                    // One line says it.
                    Some(other) if other == length => Ok(false),
                    Some(_) => Err(HeadFault::Malformed),
                };
            }
            header::CONNECTION => {
                self.says_close |= members(value).any(|option| option.eq_ignore_ascii_case(b"close"));
                let keeps = members(value).any(|option| option.eq_ignore_ascii_case(b"keep-alive"));
                self.is_lasting = (self.is_lasting || keeps) && !self.says_close;
            }
            header::EXPECT => self.expects_continue = value.as_bytes().eq_ignore_ascii_case(b"100-continue"),
            header::TE => {
                self.takes_trailers |= members(value).any(|coding| coding.eq_ignore_ascii_case(b"trailers"));
            }
            _ => {}
        }
        Ok(true)
    }

    fn body(&self) -> Result<Decoder, HeadFault> {
        match (self.coding, self.length) {
            (Some(true), _) => Ok(Decoder::Size),
            // Where such a body ends nobody can tell (RFC 9112, section 6.3).
            (Some(false), _) => Err(HeadFault::Malformed),
            (None, None | Some(0)) => Ok(Decoder::Ended),
            (None, Some(length)) => Ok(Decoder::Length(length)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds { bytes_max: 4096, fields_max: 100 };

    fn parsed(bytes: &[u8]) -> (Result<Option<Head>, HeadFault>, BytesMut) {
        let mut input = BytesMut::from(bytes);
        (parse(&mut input, &mut Room::default(), BOUNDS), input)
    }

    fn head(fields: &str) -> Result<Head, HeadFault> {
        let text = format!("POST /a HTTP/1.1\r\n{fields}\r\n");
        parsed(text.as_bytes()).0.map(|head| head.expect("a whole head"))
    }

    #[test]
    fn a_head_is_taken_out_of_what_was_read() {
        let (head, rest) = parsed(b"\r\nPUT /a?b HTTP/1.0\r\nA: 1\r\nempty:\r\na:  \xff 2 \r\n\r\nbody");
        let head = head.unwrap().unwrap().parts;
        assert_eq!(
            (head.method, head.uri, head.version),
            (Method::PUT, "/a?b".parse().unwrap(), Version::HTTP_10)
        );
        let all: Vec<_> = head.headers.get_all("a").iter().map(HeaderValue::as_bytes).collect();
        assert_eq!(all, [b"1", &b"\xff 2"[..]]);
        assert_eq!((&head.headers["empty"], &rest[..]), (&HeaderValue::from_static(""), &b"body"[..]));
        assert!(parsed(b"GET / HTTP/1.1\r\na: 1\r\n").0.unwrap().is_none());
    }

    #[test]
    fn a_head_says_how_its_body_comes() {
        for (fields, body) in [
            ("", Decoder::Ended),
            ("content-length: 0\r\n", Decoder::Ended),
            ("content-length: 5\r\n", Decoder::Length(5)),
            ("content-length: 5\r\ncontent-length: 5\r\n", Decoder::Length(5)),
            ("transfer-encoding: Chunked\r\n", Decoder::Size),
            ("transfer-encoding: gzip, chunked\r\n", Decoder::Size),
            ("transfer-encoding: chunked\r\ncontent-length: 5\r\n", Decoder::Size),
        ] {
            let head = head(fields).unwrap();
            assert_eq!(head.body, body, "{fields}");
            let lengths = head.parts.headers.get_all(header::CONTENT_LENGTH).iter().count();
            assert_eq!(lengths > 0, fields.contains("length") && body != Decoder::Size, "{fields}");
            assert!(lengths <= 1, "{fields}");
        }
        for fields in [
            "content-length: 5\r\ncontent-length: 6\r\n",
            "content-length: x\r\n",
            "transfer-encoding: chunked, gzip\r\n",
            "transfer-encoding: chunked\r\ntransfer-encoding: gzip\r\n",
            "transfer-encoding:\r\n",
        ] {
            assert_eq!(head(fields).err(), Some(HeadFault::Malformed), "{fields}");
        }
    }

    #[test]
    fn a_head_says_whether_its_connection_lasts() {
        let lasts = |version, fields| {
            let text = format!("GET / HTTP/{version}\r\n{fields}\r\n");
            parsed(text.as_bytes()).0.unwrap().unwrap().is_lasting
        };
        for (version, fields, expected) in [
            ("1.1", "", true),
            ("1.1", "connection: x, Close\r\n", false),
            ("1.1", "connection: close\r\nconnection: keep-alive\r\n", false),
            ("1.1", "transfer-encoding: chunked\r\ncontent-length: 5\r\n", false),
            ("1.1", "content-length: 5\r\ntransfer-encoding: chunked\r\n", false),
            ("1.0", "", false),
            ("1.0", "connection: Keep-Alive\r\n", true),
        ] {
            assert_eq!(lasts(version, fields), expected, "{version} {fields}");
        }
    }

    #[test]
    fn bounds_hold_and_say_what_was_beyond_them() {
        let fault = |text: String| parsed(text.as_bytes()).0.err();
        let long = "x".repeat(5000);
        assert_eq!(fault(format!("GET /{long} HTTP/1.1\r\n\r\n")), Some(HeadFault::TargetTooLong));
        assert_eq!(fault(format!("GET /{long}")), Some(HeadFault::TargetTooLong));
        assert_eq!(fault(format!("GET / HTTP/1.1\r\na: {long}\r\n\r\n")), Some(HeadFault::TooLarge));
        assert_eq!(fault(format!("GET / HTTP/1.1\r\na: {long}")), Some(HeadFault::TooLarge));
        let many = "a: b\r\n".repeat(101);
        assert_eq!(fault(format!("GET / HTTP/1.1\r\n{many}\r\n")), Some(HeadFault::TooLarge));
        let wide = Bounds { fields_max: 200, ..BOUNDS };
        let mut input = BytesMut::from(format!("GET / HTTP/1.1\r\n{many}\r\n").as_bytes());
        assert!(parse(&mut input, &mut Room::default(), wide).is_ok_and(|head| head.is_some()));
    }

    /// However bytes are cut, a head is found at the same place or not at all; where it may end is never overlooked.
    #[test]
    fn any_bytes_are_a_head_or_none() {
        bolero::check!().with_type::<(Vec<u8>, usize)>().for_each(|(bytes, cut)| {
            let bytes = [b"GET / HTTP/1.1\r\n", &bytes[..]].concat();
            let (whole, rest) = parsed(&bytes);
            assert!(bytes.ends_with(&rest));
            let cut = cut % bytes.len();
            let (begun, _) = parsed(&bytes[..cut]);
            if let (Ok(None), Ok(Some(head))) = (begun, whole) {
                assert!(may_end(&bytes[..bytes.len() - rest.len()], cut));
                assert!(head.parts.headers.get_all(header::CONTENT_LENGTH).iter().count() <= 1);
            }
        });
    }
}
