//! A request rebuilt from what the codec wrote of it, to be sent again on another connection.

use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri, Version};

use crate::body::RequestBody;

/// Header fields of a request that is rebuilt; as many as a client may send, and what we add.
const HEADERS_MAX: usize = 1100;

/// The request of which `written` is what was to go over the wire, with its body given anew.
///
/// `None` if the head is not whole, which happens only if it was not recorded whole.
pub(super) fn rebuild(written: &[u8], body: RequestBody) -> Option<Request<RequestBody>> {
    let mut fields = vec![httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut head = httparse::Request::new(&mut fields);
    if !head.parse(written).ok()?.is_complete() {
        return None;
    }
    let mut request = Request::new(body);
    *request.method_mut() = Method::from_bytes(head.method?.as_bytes()).ok()?;
    *request.uri_mut() = head.path?.parse::<Uri>().ok()?;
    *request.version_mut() = Version::HTTP_11;
    let mut headers = HeaderMap::with_capacity(head.headers.len());
    for field in head.headers.iter() {
        let name = HeaderName::from_bytes(field.name.as_bytes()).ok()?;
        headers.append(name, HeaderValue::from_bytes(field.value).ok()?);
    }
    *request.headers_mut() = headers;
    Some(request)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_comes_back() {
        let written = b"PUT /a?b=c HTTP/1.1\r\nhost: x\r\naccept: a\r\naccept: b\r\nx-raw: \xff\r\ncontent-length: 2\r\n\r\nhi";
        let request = rebuild(written, RequestBody::Whole("hi".into())).expect("a whole head");
        assert_eq!(request.method(), Method::PUT);
        assert_eq!(request.uri(), "/a?b=c");
        let accept: Vec<_> = request.headers().get_all("accept").iter().collect();
        assert_eq!(accept, ["a", "b"]);
        assert_eq!(request.headers()["x-raw"].as_bytes(), b"\xff");
        assert!(rebuild(&written[..40], RequestBody::Empty).is_none());
        assert!(rebuild(b"", RequestBody::Empty).is_none());
    }
}
