//! Response heads that say one thing only: what is ambiguous is refused, not passed on.

use std::mem::MaybeUninit;

use bytes::{Buf, BytesMut};
use http::{
    HeaderMap, HeaderValue, Response, StatusCode, Version,
    header::{CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING, WWW_AUTHENTICATE},
};
use hyper::upgrade::OnUpgrade;

use crate::http1::{Decoder, Room, ends_here, is_name, members, name, number};

/// Bytes and fields of a response's head.
pub(super) const HEAD_MAX: usize = 64 * 1024;
const FIELDS_MAX: usize = 1000;
/// Fields there is room for without asking for memory.
const FIELDS_ON_STACK: usize = 100;

/// Takes a head of HTTP/1 out of what was read; `None` while it is not whole.
///
/// The grammar is httparse's without any of its leniences: no HTTP/0.9, no folded lines, no blanks before a colon,
/// no bytes that no field may have. `Connection: keep-alive` is left out: it says nothing here, most servers write
/// it, and it would only have to be taken out again.
pub(super) fn parse(input: &mut BytesMut, room: &mut Room) -> Result<Option<Response<()>>, String> {
    let mut fields = [const { MaybeUninit::uninit() }; FIELDS_ON_STACK];
    let mut more_fields;
    let mut head = httparse::Response::new(&mut []);
    let parser = httparse::ParserConfig::default();
    let mut parsed = parser.parse_response_with_uninit_headers(&mut head, input, &mut fields);
    if parsed == Err(httparse::Error::TooManyHeaders) {
        more_fields = vec![MaybeUninit::uninit(); FIELDS_MAX];
        head = httparse::Response::new(&mut []);
        parsed = parser.parse_response_with_uninit_headers(&mut head, input, &mut more_fields);
    }
    let len = match parsed {
        Ok(httparse::Status::Complete(len)) if len <= HEAD_MAX => len,
        Ok(httparse::Status::Partial) if input.len() < HEAD_MAX => return Ok(None),
        Ok(_) => return Err(format!("a head of more than {HEAD_MAX} bytes")),
        Err(httparse::Error::TooManyHeaders) => {
            return Err(format!("a head of more than {FIELDS_MAX} fields"));
        }
        Err(error) => return Err(format!("no response of HTTP: {error}")),
    };
    let status = head.code.and_then(|code| StatusCode::from_u16(code).ok()).ok_or("no status of HTTP")?;
    let version = if head.version == Some(1) { Version::HTTP_11 } else { Version::HTTP_10 };
    let copied = room.copy(&input[..len]);
    let mut headers = room.fields(head.headers.len());
    for field in head.headers.iter().filter(|field| !is_keep_alive(field)) {
        let name = name(field.name.as_bytes()).map_err(|error| error.to_string())?;
        let value =
            HeaderValue::from_maybe_shared(copied.of(field.value)).map_err(|error| error.to_string())?;
        headers.append(name, value);
    }
    input.advance(len);
    let mut response = Response::new(());
    (*response.status_mut(), *response.version_mut(), *response.headers_mut()) = (status, version, headers);
    Ok(Some(response))
}

fn is_keep_alive(field: &httparse::Header<'_>) -> bool {
    field.name.eq_ignore_ascii_case("connection") && field.value.eq_ignore_ascii_case(b"keep-alive")
}

/// What a head's fields say of its message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Framing {
    /// Bytes of the body.
    pub(super) length: Option<u64>,
    /// Whether the body comes in chunks.
    pub(super) is_chunked: bool,
    /// Whether the connection ends with the message.
    pub(super) closes: bool,
    /// Whether who speaks on the connection is known to the server from now on.
    pub(super) binds: bool,
    /// Whether any field ends at this hop.
    pub(super) ends_here: bool,
}

impl Framing {
    /// How the body comes behind a head of that status.
    pub(super) fn decoder(self, answers_head: bool, status: StatusCode) -> Decoder {
        let has_none = answers_head
            || status.is_informational()
            || matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
        match self.length {
            _ if has_none => Decoder::Ended,
            _ if self.is_chunked => Decoder::Size,
            Some(0) => Decoder::Ended,
            Some(length) => Decoder::Length(length),
            None => Decoder::ToEnd,
        }
    }
}

/// Checks what may pass by the grammar, puts the head in order and says what follows it.
///
/// `Content-Length`s that are no numbers or disagree are refused. So are `Transfer-Encoding` beside
/// `Content-Length`, under HTTP/1.0, or of another kind than `chunked`: a client or cache behind us may read
/// each of them in another way (RFC 9112, sections 6.1 and 6.3).
pub(super) fn check<B>(response: &mut Response<B>, asked_upgrade: bool) -> Result<Framing, &'static str> {
    let (status, version) = (response.status(), response.version());
    if status == StatusCode::SWITCHING_PROTOCOLS {
        // What the codec put there for its own way of upgrading.
        response.extensions_mut().remove::<OnUpgrade>();
        return if asked_upgrade {
            Ok(Framing::default())
        } else {
            Err("101 without having been asked for an upgrade")
        };
    }
    let headers = response.headers_mut();
    let (mut lengths, mut encodings) = (Few::None, Few::None);
    // Under HTTP/1.0 a body of unknown length is not told from a whole one.
    let (mut closes, mut binds) = (version < Version::HTTP_11, false);
    let mut any_ends_here = false;
    // To go once over the fields that are there costs less than to hash the names of these.
    for (name, value) in &*headers {
        match *name {
            CONTENT_LENGTH => lengths.add(value),
            TRANSFER_ENCODING => encodings.add(value),
            CONNECTION => closes |= says_close(value),
            WWW_AUTHENTICATE => binds |= is_of_connections(value),
            _ if version == Version::HTTP_2 && !is_name(name) => return Err("a field's name that is none"),
            _ => {}
        }
        any_ends_here |= ends_here(name);
    }
    let is_chunked = version < Version::HTTP_2 && !matches!(encodings, Few::None);
    if is_chunked {
        if !matches!(lengths, Few::None) {
            return Err("both Transfer-Encoding and Content-Length");
        }
        if version < Version::HTTP_11 {
            return Err("Transfer-Encoding under HTTP/1.0");
        }
        if !matches!(encodings, Few::One(encoding) if encoding.as_bytes().eq_ignore_ascii_case(b"chunked")) {
            return Err("a Transfer-Encoding other than chunked");
        }
    }
    let length = match lengths {
        Few::None => None,
        Few::One(value) => match number(value.as_bytes()) {
            None => Some(one_content_length(headers)?),
            length => length,
        },
        Few::More => Some(one_content_length(headers)?),
    };
    Ok(Framing { length, is_chunked, closes, binds, ends_here: any_ends_here })
}

/// The lines of a field of which there should be one at most.
enum Few<'a> {
    None,
    One(&'a HeaderValue),
    More,
}

impl<'a> Few<'a> {
    fn add(&mut self, value: &'a HeaderValue) {
        *self = match self {
            Self::None => Self::One(value),
            Self::One(_) | Self::More => Self::More,
        };
    }
}

/// Whether `Connection` says that the connection does not outlast the message.
fn says_close(connection: &HeaderValue) -> bool {
    members(connection).any(|option| option.eq_ignore_ascii_case(b"close"))
}

/// Whether a field's value, of a challenge or an answer to one, names a scheme by which a server knows whoever speaks on
/// the connection, and not who sends a request (RFC 4559, section 6): a connection that others use would be theirs, too.
pub(super) fn is_of_connections(value: &HeaderValue) -> bool {
    let mut schemes = members(value).filter_map(|member| member.split(|byte| *byte == b' ').next());
    schemes.any(|scheme| [&b"NTLM"[..], b"Negotiate"].iter().any(|other| scheme.eq_ignore_ascii_case(other)))
}

/// Repeated lengths that agree become one, which is all that may be passed on.
fn one_content_length(headers: &mut HeaderMap) -> Result<u64, &'static str> {
    const NO_NUMBER: &str = "a Content-Length that is no number, or too large";
    let mut length = None;
    for value in headers.get_all(CONTENT_LENGTH) {
        for part in members(value) {
            let part = number(part).ok_or(NO_NUMBER)?;
            if *length.get_or_insert(part) != part {
                return Err("Content-Lengths that disagree");
            }
        }
    }
    let length = length.ok_or(NO_NUMBER)?;
    headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
    Ok(length)
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
    fn a_head_may_have_a_thousand_fields_and_no_more() {
        let of = |fields| {
            let fields: String = (0..fields).map(|at| format!("x-{at}: {at}\r\n")).collect();
            parsed(format!("HTTP/1.1 200 OK\r\n{fields}\r\nbody").as_bytes())
        };
        for fields in [100, 101, 1000] {
            let (head, rest) = of(fields);
            let head = head.unwrap().unwrap();
            assert_eq!((head.headers().len(), &rest[..]), (fields, &b"body"[..]));
            assert_eq!(head.headers()["x-99"], "99");
        }
        assert_eq!(of(1001).0.unwrap_err(), "a head of more than 1000 fields");
    }

    #[test]
    fn a_value_kept_keeps_nothing_else_of_what_was_read() {
        let mut input = BytesMut::with_capacity(64 * 1024);
        let place = input.as_ptr();
        input.extend_from_slice(b"HTTP/1.1 200 OK\r\nserver: x\r\n\r\n");
        let head = parse(&mut input, &mut Room::default()).unwrap().unwrap();
        assert!(input.is_empty() && input.try_reclaim(64 * 1024));
        assert_eq!(input.as_ptr(), place);
        assert_eq!(head.headers()["server"], "x");
    }

    #[test]
    fn keep_alive_is_left_out_and_nothing_else() {
        let (head, _) = parsed(
            b"HTTP/1.1 200 OK\r\nconnection: Keep-Alive\r\nConnection: keep-alive, x\r\nKeep-Alive: timeout=5\r\n\r\n",
        );
        let head = head.unwrap().unwrap();
        let fields: Vec<_> = head.headers().iter().map(|(name, value)| (name.as_str(), value)).collect();
        assert_eq!(
            fields,
            [
                ("connection", &HeaderValue::from_static("keep-alive, x")),
                ("keep-alive", &HeaderValue::from_static("timeout=5")),
            ]
        );
    }

    #[test]
    fn a_connection_lasts_unless_the_head_says_otherwise() {
        let closes = |version, connection: &'static str| {
            let mut response = response(200, &[("connection", connection)]);
            *response.version_mut() = version;
            check(&mut response, false).unwrap().closes
        };
        assert!(!closes(Version::HTTP_11, "keep-alive"));
        assert!(closes(Version::HTTP_11, "x, Close"));
        assert!(closes(Version::HTTP_10, "keep-alive"));
    }

    #[test]
    fn a_head_says_how_its_body_comes() {
        let of = |fields| check(&mut response(200, fields), false);
        assert_eq!(of(&[]), Ok(Framing::default()));
        let ten = Framing { length: Some(10), ..Framing::default() };
        assert_eq!(of(&[("content-length", "10")]), Ok(ten));
        assert_eq!(of(&[("content-length", "10"), ("content-length", "010")]), Ok(ten));
        let chunked = Framing { is_chunked: true, ends_here: true, ..Framing::default() };
        assert_eq!(of(&[("transfer-encoding", "chunked")]), Ok(chunked));
        let most = Framing { length: Some(u64::MAX), ..Framing::default() };
        assert_eq!(of(&[("content-length", "18446744073709551615")]), Ok(most));
        assert!(of(&[("content-length", "18446744073709551616")]).is_err());
    }

    #[test]
    fn schemes_that_authenticate_connections_are_known() {
        for (challenge, binds) in [
            ("NTLM", true),
            ("negotiate oRQwEqADCgEB", true),
            ("Basic realm=\"a\", Negotiate", true),
            ("Basic realm=\"NTLM\"", false),
            ("Bearer", false),
        ] {
            let framing = check(&mut response(401, &[("www-authenticate", challenge)]), false).unwrap();
            assert_eq!(framing.binds, binds, "{challenge}");
        }
    }

    #[test]
    fn status_and_method_say_whether_there_is_a_body() {
        let of = |answers_head, status: u16, length, is_chunked| {
            let framing = Framing { length, is_chunked, ..Framing::default() };
            framing.decoder(answers_head, StatusCode::from_u16(status).expect("a status"))
        };
        assert_eq!(of(false, 200, Some(10), false), Decoder::Length(10));
        assert_eq!(of(false, 200, Some(0), false), Decoder::Ended);
        assert_eq!(of(false, 200, None, true), Decoder::Size);
        assert_eq!(of(false, 200, None, false), Decoder::ToEnd);
        for (answers_head, status) in [(true, 200), (false, 204), (false, 304), (false, 101)] {
            assert_eq!(of(answers_head, status, Some(10), false), Decoder::Ended);
        }
    }

    /// A head is whole or not, and what is behind it stays; whether it may pass is always said.
    #[test]
    fn any_bytes_are_a_head_or_none() {
        bolero::check!().for_each(|bytes: &[u8]| {
            let bytes = [b"HTTP/1.1 200 OK\r\n", bytes].concat();
            let (head, rest) = parsed(&bytes);
            let Ok(Some(mut head)) = head else { return };
            assert!(bytes.ends_with(&rest) && rest.len() < bytes.len());
            if let Ok(framing) = check(&mut head, false) {
                let lengths = head.headers().get_all(CONTENT_LENGTH).iter().count();
                assert_eq!(lengths, usize::from(framing.length.is_some()));
                assert!(!(framing.is_chunked && framing.length.is_some()));
                assert_eq!(framing.is_chunked, head.headers().contains_key(TRANSFER_ENCODING));
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
    fn what_the_codec_of_http2_takes_for_a_name_and_is_none_is_refused() {
        let mut response = response(200, &[]);
        *response.version_mut() = Version::HTTP_2;
        let name = http::HeaderName::from_lowercase(b"x\"a").expect("a name to the codec");
        response.headers_mut().insert(name, HeaderValue::from_static("1"));
        assert!(check(&mut response, false).is_err());
    }

    #[test]
    fn what_is_clear_passes() {
        assert!(check(&mut response(101, &[]), true).is_ok());
        assert!(check(&mut response(200, &[("transfer-encoding", "Chunked")]), false).is_ok());
        for fields in
            [&[("content-length", "3"), ("content-length", "3")][..], &[("content-length", "3, 03")]]
        {
            let mut repeated = response(200, fields);
            assert!(check(&mut repeated, false).is_ok());
            let lengths: Vec<_> = repeated.headers().get_all(CONTENT_LENGTH).iter().collect();
            assert_eq!(lengths, ["3"], "{fields:?}");
        }
    }
}
