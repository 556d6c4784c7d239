//! What trailers may say, in both directions (RFC 9110, section 6.5.1): nothing that has to be known before the body, since
//! some recipients take it from here in a head's place, and others take the message for malformed.

use bytes::Bytes;
use http::{HeaderName, header};
use http_body::Frame;

use super::{
    forwarded::{remove_where, says_whence},
    hop_by_hop, request_id,
};

/// A frame of a request's body without what its trailers may not say; beside that is what is believed of a head alone.
pub(super) fn of_request(frame: Frame<Bytes>) -> Frame<Bytes> {
    let is_believed = |name: &HeaderName| {
        says_whence(name) || [request_id::FIELD, header::FORWARDED, header::COOKIE].contains(name)
    };
    stripped(frame, |name| is_of_head(name) || is_believed(name))
}

/// A frame of a response's body without what its trailers may not say.
pub(super) fn of_response(frame: Frame<Bytes>) -> Frame<Bytes> {
    stripped(frame, is_of_head)
}

fn stripped(frame: Frame<Bytes>, is_unwanted: impl Fn(&HeaderName) -> bool) -> Frame<Bytes> {
    match frame.into_trailers() {
        Ok(mut trailers) => {
            hop_by_hop::remove(&mut trailers);
            remove_where(&mut trailers, is_unwanted);
            Frame::trailers(trailers)
        }
        Err(data) => data,
    }
}

/// Fields that frame or route a message, tell who sends it, or say how it is to be taken.
fn is_of_head(name: &HeaderName) -> bool {
    matches!(
        *name,
        header::CONTENT_LENGTH
            | header::TRAILER
            | header::HOST
            | header::TE
            | header::AUTHORIZATION
            | header::CACHE_CONTROL
            | header::CONTENT_ENCODING
            | header::CONTENT_RANGE
            | header::CONTENT_TYPE
            | header::MAX_FORWARDS
            | header::SET_COOKIE
    )
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderValue};

    use super::*;

    #[test]
    fn trailers_say_nothing_that_is_of_a_head() {
        let names = ["x-sum", "x-forwarded-for", "x_forwarded_proto", "x-request-id", "forwarded", "cookie"];
        let of_any_head = ["content-length", "host", "content-encoding", "authorization", "set-cookie", "te"];
        let of_this_hop = ["connection", "x-named", "keep-alive", "transfer-encoding"];
        let all = [&names[..], &of_any_head, &of_this_hop].concat();
        let value = HeaderValue::from_static("x-named");
        let trailers: HeaderMap =
            all.iter().map(|name| (HeaderName::from_static(name), value.clone())).collect();
        let left = |frame: Frame<Bytes>| {
            let mut left: Vec<_> =
                frame.into_trailers().unwrap().keys().map(|name| name.as_str().to_owned()).collect();
            left.sort();
            left
        };
        assert_eq!(left(of_request(Frame::trailers(trailers.clone()))), ["x-sum"]);
        let mut passed = names;
        passed.sort_unstable();
        assert_eq!(left(of_response(Frame::trailers(trailers))), passed);
    }
}
