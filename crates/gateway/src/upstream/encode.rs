//! A request on the wire: its head, and its body by its length or in chunks (RFC 9112).

use std::io::{IoSlice, Write};

use bytes::{Buf, Bytes};
use http::{
    HeaderMap, HeaderName, Request,
    header::{self, CONNECTION, CONTENT_LENGTH, TRAILER, TRANSFER_ENCODING},
};
use http_body::Frame;

use crate::body::{BodyError, RequestBody};

/// Room kept from one request to the next.
const KEPT: usize = 8 * 1024;

/// What of a request is still to be written.
#[derive(Debug, Default)]
pub(super) struct Encoder {
    /// The head, or the size of a chunk; comes before the piece.
    lead: Vec<u8>,
    /// Bytes of it that are written.
    led: usize,
    piece: Bytes,
    /// Comes after the piece.
    tail: &'static [u8],
    rest: Rest,
}

/// What is still to come of the body.
#[derive(Debug, Default)]
enum Rest {
    #[default]
    Nothing,
    /// So many bytes.
    Length(u64),
    /// Chunks, and then those trailers that were announced.
    Chunks { announced: Vec<HeaderName> },
}

impl Encoder {
    /// Begins with the head of a request, whose body is `body`. What is in memory goes along at once.
    ///
    /// `is_last`: the connection is to be closed after it.
    pub(super) fn begin(&mut self, request: &Request<RequestBody>, body: &RequestBody, is_last: bool) {
        self.lead.clear();
        self.lead.shrink_to(KEPT);
        self.led = 0;
        self.tail = b"";
        let target = request.uri().path_and_query().map_or("/", |target| target.as_str());
        for part in [request.method().as_str(), " ", target, " HTTP/1.1\r\n"] {
            self.lead.extend_from_slice(part.as_bytes());
        }
        let streams = matches!(body, RequestBody::Stream(_));
        let mut length = None;
        for (name, value) in request.headers() {
            match *name {
                // How the body goes is said below.
                TRANSFER_ENCODING => continue,
                CONTENT_LENGTH => {
                    length = value.to_str().ok().and_then(|text| text.parse().ok()).or(length);
                    continue;
                }
                _ => {}
            }
            field(&mut self.lead, name.as_str().as_bytes(), value.as_bytes());
        }
        // One that asks to upgrade has said what becomes of its connection.
        if is_last && !request.headers().contains_key(CONNECTION) {
            field(&mut self.lead, b"connection", b"close");
        }
        let (piece, rest, told) = match body {
            RequestBody::Empty => (Bytes::new(), Rest::Nothing, length.map(|_: u64| 0)),
            RequestBody::Whole(bytes) => (bytes.clone(), Rest::Nothing, Some(bytes.len() as u64)),
            RequestBody::Stream(_) => match length {
                Some(length) => (Bytes::new(), Rest::Length(length), Some(length)),
                None => (Bytes::new(), Rest::Chunks { announced: announced(request.headers()) }, None),
            },
        };
        (self.piece, self.rest) = (piece, rest);
        match told {
            // Writing to memory does not fail.
            Some(length) => drop(write!(self.lead, "content-length: {length}\r\n")),
            None if streams => field(&mut self.lead, b"transfer-encoding", b"chunked"),
            None => {}
        }
        self.lead.extend_from_slice(b"\r\n");
    }

    /// Whether something waits to be written.
    pub(super) fn has_bytes(&self) -> bool {
        self.led < self.lead.len() || !self.piece.is_empty() || !self.tail.is_empty()
    }

    /// Whether more of the body is wanted, once what waits is written.
    pub(super) const fn wants_more(&self) -> bool {
        !matches!(self.rest, Rest::Nothing)
    }

    /// What waits to be written.
    pub(super) fn slices(&self) -> [IoSlice<'_>; 3] {
        [IoSlice::new(&self.lead[self.led..]), IoSlice::new(&self.piece), IoSlice::new(self.tail)]
    }

    /// So many bytes are written.
    pub(super) fn advance(&mut self, mut written: usize) {
        let of_lead = written.min(self.lead.len() - self.led);
        self.led += of_lead;
        written -= of_lead;
        let of_piece = written.min(self.piece.len());
        self.piece.advance(of_piece);
        written -= of_piece;
        self.tail = self.tail.get(written..).unwrap_or_default();
        if self.piece.is_empty() {
            // What it is a part of may be given back.
            self.piece = Bytes::new();
        }
    }

    /// Nothing more of it is written.
    pub(super) fn abandon(&mut self) {
        self.led = self.lead.len();
        (self.piece, self.tail, self.rest) = (Bytes::new(), b"", Rest::Nothing);
    }

    /// The next frame of the body, once what waited is written; `None` at its end.
    ///
    /// # Errors
    ///
    /// [`BodyError::Client`] if it is not as long as was said.
    pub(super) fn push(&mut self, frame: Option<Frame<Bytes>>) -> Result<(), BodyError> {
        self.lead.clear();
        self.led = 0;
        let data = match frame.map(Frame::into_data) {
            Some(Ok(data)) => data,
            Some(Err(frame)) => return self.finish(frame.into_trailers().ok()),
            None => return self.finish(None),
        };
        match &mut self.rest {
            Rest::Nothing => return Err(other_length()),
            Rest::Length(left) => {
                *left = left.checked_sub(data.len() as u64).ok_or_else(other_length)?;
                if *left == 0 {
                    self.rest = Rest::Nothing;
                }
            }
            // An empty chunk would be the last.
            Rest::Chunks { .. } if data.is_empty() => return Ok(()),
            Rest::Chunks { .. } => {
                // Writing to memory does not fail.
                let _ = write!(self.lead, "{:x}\r\n", data.len());
                self.tail = b"\r\n";
            }
        }
        self.piece = data;
        Ok(())
    }

    fn finish(&mut self, trailers: Option<HeaderMap>) -> Result<(), BodyError> {
        match std::mem::take(&mut self.rest) {
            Rest::Nothing | Rest::Length(0) => Ok(()),
            Rest::Length(_) => Err(other_length()),
            Rest::Chunks { announced } => {
                self.lead.extend_from_slice(b"0\r\n");
                for (name, value) in trailers.iter().flatten().filter(|(name, _)| announced.contains(name)) {
                    field(&mut self.lead, name.as_str().as_bytes(), value.as_bytes());
                }
                self.tail = b"\r\n";
                Ok(())
            }
        }
    }
}

fn field(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    out.reserve(name.len() + value.len() + 4);
    for part in [name, b": ", value, b"\r\n"] {
        out.extend_from_slice(part);
    }
}

/// The trailers a head announces, but for those that would change what the message is (RFC 9110, section 6.5.1).
fn announced(headers: &HeaderMap) -> Vec<HeaderName> {
    let lines = headers.get_all(TRAILER).iter();
    let names = lines.flat_map(|value| value.as_bytes().split(|byte| *byte == b','));
    names
        .filter_map(|name| HeaderName::from_bytes(name.trim_ascii()).ok())
        .filter(|name| {
            !matches!(
                *name,
                TRANSFER_ENCODING
                    | CONTENT_LENGTH
                    | TRAILER
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
        })
        .collect()
}

fn other_length() -> BodyError {
    BodyError::Client("the body is not as long as its Content-Length".into())
}

#[cfg(test)]
mod tests {
    use http::{HeaderValue, Method};

    use super::*;

    /// What is written of a request whose body streams as `frames`, `step` bytes at a time.
    fn wire(
        request: &Request<RequestBody>,
        frames: Vec<Frame<Bytes>>,
        step: usize,
    ) -> Result<String, BodyError> {
        let (mut encoder, mut out, mut frames) = (Encoder::default(), Vec::new(), frames.into_iter());
        encoder.begin(request, request.body(), false);
        loop {
            while encoder.has_bytes() {
                let bytes: Vec<u8> =
                    encoder.slices().iter().flat_map(|slice| slice.to_vec()).take(step).collect();
                encoder.advance(bytes.len());
                out.extend(bytes);
            }
            if !encoder.wants_more() {
                return Ok(String::from_utf8(out).expect("text"));
            }
            encoder.push(frames.next())?;
        }
    }

    fn request(fields: &[(&'static str, &'static str)], body: RequestBody) -> Request<RequestBody> {
        let mut request = Request::new(body);
        *request.method_mut() = Method::PUT;
        *request.uri_mut() = "/a?b".parse().expect("a target");
        for (name, value) in fields {
            request.headers_mut().append(*name, HeaderValue::from_static(value));
        }
        request
    }

    #[test]
    fn the_last_request_of_a_connection_says_so_unless_it_asks_to_upgrade() {
        let head = |fields: &[(&'static str, &'static str)]| {
            let request = request(fields, RequestBody::Empty);
            let mut encoder = Encoder::default();
            encoder.begin(&request, request.body(), true);
            String::from_utf8(encoder.slices()[0].to_vec()).expect("text")
        };
        assert_eq!(head(&[("host", "a")]), "PUT /a?b HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
        let upgrade = head(&[("connection", "upgrade"), ("upgrade", "websocket")]);
        assert_eq!(upgrade, "PUT /a?b HTTP/1.1\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n");
    }

    fn streaming(fields: &[(&'static str, &'static str)]) -> Request<RequestBody> {
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
    fn trailers_go_on_if_they_were_announced_and_change_nothing_else() {
        let trailers = || {
            let fields = [("a", "1"), ("b", "2"), ("content-length", "3")];
            let map =
                fields.map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
            Frame::trailers(HeaderMap::from_iter(map))
        };
        let announcing = streaming(&[("trailer", "A, content-length")]);
        let written = wire(&announcing, vec![data("x"), trailers()], 5).expect("written");
        assert!(written.ends_with("\r\n\r\n1\r\nx\r\n0\r\na: 1\r\n\r\n"), "{written}");
        let written = wire(&streaming(&[]), vec![data("x"), trailers()], 5).expect("written");
        assert!(written.ends_with("1\r\nx\r\n0\r\n\r\n"), "{written}");
    }
}
