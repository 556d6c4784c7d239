//! Response heads that say one thing only: what is ambiguous is refused, not passed on.

use http::{
    HeaderMap, HeaderValue, Response, StatusCode, Version,
    header::{CONTENT_LENGTH, TRANSFER_ENCODING},
};
use hyper::upgrade::OnUpgrade;

/// Checks what the codec lets pass and puts the head in order.
///
/// The codec refuses conflicting and malformed `Content-Length`s, obsolete line folding, bytes that
/// no field may have, `Transfer-Encoding` under HTTP/1.0 and HTTP/0.9. It lets `Transfer-Encoding`
/// win over `Content-Length` and reads an encoding it does not know to the end of the
/// connection; a client or cache behind us may read either differently (RFC 9112, sections 6.1
/// and 6.3), so we refuse both.
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
