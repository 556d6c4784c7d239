//! A head that waits holds its own bytes only, not the buffers of the connection it came from.
//!
//! HTTP/2 decodes a head into slices of what it has read, so that each request that waits would hold
//! kilobytes of that. On HTTP/1 there is nothing to gain: what is read there through a codec lies in a buffer
//! that the codec itself keeps, and what waits before it has a codec is compact anyway.

use bytes::BytesMut;
use http::{HeaderMap, HeaderValue, Uri, request::Parts};

/// Moves the values of a head into one allocation that is as long as they are.
pub(super) fn compact(head: &mut Parts) {
    compact_values(&mut head.headers);
    if let Some(uri) = compact_uri(&head.uri) {
        head.uri = uri;
    }
}

fn compact_values(headers: &mut HeaderMap) {
    let mut bytes = BytesMut::with_capacity(headers.values().map(HeaderValue::len).sum());
    for value in headers.values_mut() {
        bytes.extend_from_slice(value.as_bytes());
        let Ok(mut own) = HeaderValue::from_maybe_shared(bytes.split().freeze()) else { continue };
        own.set_sensitive(value.is_sensitive());
        *value = own;
    }
}

fn compact_uri(uri: &Uri) -> Option<Uri> {
    // What cannot be written in one piece stays as it is.
    Uri::try_from(uri.to_string()).ok().filter(|own| own == uri)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_compact_head_says_the_same() {
        for uri in ["https://a.example/b?c=d", "/b?c", "*", "http://a.example:80"] {
            let mut head = http::Request::builder()
                .uri(uri)
                .header("a", "first")
                .header("b", "")
                .header("a", HeaderValue::from_bytes(b"\xff second").unwrap())
                .body(())
                .unwrap()
                .into_parts()
                .0;
            let mut secret = HeaderValue::from_static("secret");
            secret.set_sensitive(true);
            head.headers.insert("authorization", secret);
            let (before, uri) = (head.headers.clone(), head.uri.clone());
            compact(&mut head);
            assert_eq!((&head.headers, &head.uri), (&before, &uri));
            assert!(head.headers["authorization"].is_sensitive());
        }
    }
}
