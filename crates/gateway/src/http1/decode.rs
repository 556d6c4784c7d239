//! A body off the wire: by its length, in chunks, or to the end of the connection (RFC 9112,
//! sections 6 and 7).

use bytes::{Buf, Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue};
use http_body::Frame;

/// Bytes of a line that says a chunk's size, with its extensions.
const SIZE_LINE_MAX: usize = 4 * 1024;
/// Bytes and fields of a trailer section.
const TRAILERS_MAX: usize = 16 * 1024;
const TRAILER_FIELDS_MAX: usize = 100;

/// What is still to come of a body. It holds no bytes: those that belong to no frame yet stay where they were
/// read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decoder {
    /// Nothing.
    Ended,
    /// So many bytes.
    Length(u64),
    /// Whatever comes until the connection ends.
    ToEnd,
    /// In chunks: next the line with the size of one.
    Size,
    /// So many bytes of a chunk.
    Chunk(u64),
    /// The end of a chunk's line.
    ChunkEnd,
    /// Trailers, or the empty line in their place.
    Trailers,
}

/// What the bytes read so far give.
#[derive(Debug)]
pub(crate) enum Decoded {
    /// Something of the body.
    Frame(Frame<Bytes>),
    /// Nothing more: the body has ended.
    End,
    /// Nothing until more is read.
    More,
}

/// Why bytes are no body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Malformed(&'static str);

impl Decoder {
    /// Takes the next frame out of what was read.
    ///
    /// # Errors
    ///
    /// [`Malformed`] if the chunks are not as they must be. Asked again, it says the same.
    pub(crate) fn decode(&mut self, input: &mut BytesMut) -> Result<Decoded, Malformed> {
        self.skip_framing(input)?;
        let frame = match self {
            Self::Ended => return Ok(Decoded::End),
            Self::Size | Self::ChunkEnd => return Ok(Decoded::More),
            Self::Trailers => return self.trailers(input),
            _ if input.is_empty() => return Ok(Decoded::More),
            Self::ToEnd => input.split(),
            Self::Length(left) => {
                let data = take(left, input);
                if *left == 0 {
                    *self = Self::Ended;
                }
                data
            }
            Self::Chunk(left) => {
                let data = take(left, input);
                if *left == 0 {
                    *self = Self::ChunkEnd;
                }
                data
            }
        };
        // So that the last frame is known to be the last. What is wrong here comes up next time.
        let _ = self.skip_framing(input);
        Ok(Decoded::Frame(Frame::data(frame.freeze())))
    }

    /// The connection has ended.
    ///
    /// # Errors
    ///
    /// [`Malformed`] if the body has not.
    pub(crate) fn end(&mut self) -> Result<(), Malformed> {
        match self {
            Self::Ended => Ok(()),
            Self::ToEnd => {
                *self = Self::Ended;
                Ok(())
            }
            _ => Err(Malformed("the connection ended within the body")),
        }
    }

    /// Bytes that are worth making room for at least; `most` if it cannot be known.
    pub(crate) fn wanted(&self, least: usize, most: usize) -> usize {
        match self {
            Self::Length(left) | Self::Chunk(left) => {
                usize::try_from(*left).unwrap_or(most).saturating_add(least).min(most)
            }
            _ => least,
        }
    }

    /// Goes over what stands between the data of two chunks, and behind the last.
    fn skip_framing(&mut self, input: &mut BytesMut) -> Result<(), Malformed> {
        loop {
            match self {
                Self::ChunkEnd => match &input[..] {
                    [b'\r', b'\n', ..] => {
                        input.advance(2);
                        *self = Self::Size;
                    }
                    [] | [b'\r'] => return Ok(()),
                    _ => return Err(Malformed("a chunk longer than its size")),
                },
                Self::Size => match size(input)? {
                    None => return Ok(()),
                    Some((len, size)) => {
                        input.advance(len);
                        *self = if size == 0 { Self::Trailers } else { Self::Chunk(size) };
                    }
                },
                Self::Trailers if input.starts_with(b"\r\n") => {
                    input.advance(2);
                    *self = Self::Ended;
                }
                _ => return Ok(()),
            }
        }
    }

    fn trailers(&mut self, input: &mut BytesMut) -> Result<Decoded, Malformed> {
        const BAD: Malformed = Malformed("malformed trailers");
        let mut fields = [httparse::EMPTY_HEADER; TRAILER_FIELDS_MAX];
        let (len, fields) = match httparse::parse_headers(input, &mut fields).map_err(|_| BAD)? {
            httparse::Status::Complete(parsed) => parsed,
            httparse::Status::Partial if input.len() < TRAILERS_MAX => return Ok(Decoded::More),
            httparse::Status::Partial => return Err(Malformed("trailers beyond every bound")),
        };
        let mut trailers = HeaderMap::with_capacity(fields.len());
        for field in fields {
            let name = HeaderName::from_bytes(field.name.as_bytes()).map_err(|_| BAD)?;
            trailers.append(name, HeaderValue::from_bytes(field.value).map_err(|_| BAD)?);
        }
        input.advance(len);
        *self = Self::Ended;
        Ok(Decoded::Frame(Frame::trailers(trailers)))
    }
}

/// At most `left` bytes of what was read.
fn take(left: &mut u64, input: &mut BytesMut) -> BytesMut {
    let len = usize::try_from(*left).unwrap_or(usize::MAX).min(input.len());
    *left -= len as u64;
    input.split_to(len)
}

/// The line with a chunk's size: its length and what it says; `None` while it is not whole.
fn size(input: &[u8]) -> Result<Option<(usize, u64)>, Malformed> {
    const BAD: Malformed = Malformed("a malformed chunk size");
    match input.first() {
        None => return Ok(None),
        // The parser takes an empty line for a zero.
        Some(digit) if !digit.is_ascii_hexdigit() => return Err(BAD),
        Some(_) => {}
    }
    match httparse::parse_chunk_size(input) {
        // It lets a bare LF pass within extensions, which others take for the end of the line.
        Ok(httparse::Status::Complete((len, _))) if input[..len - 1].contains(&b'\n') => Err(BAD),
        Ok(httparse::Status::Complete((len, _))) if len > SIZE_LINE_MAX => Err(BAD),
        Ok(httparse::Status::Complete(line)) => Ok(Some(line)),
        Ok(httparse::Status::Partial) if input.len() < SIZE_LINE_MAX => Ok(None),
        Ok(httparse::Status::Partial) | Err(_) => Err(BAD),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Data, trailers, bytes left over.
    type Taken = (Vec<u8>, Option<HeaderMap>, Vec<u8>);

    /// What comes of bytes that arrive cut as `cut` says.
    fn decoded(
        mut decoder: Decoder,
        bytes: &[u8],
        mut cut: impl FnMut() -> usize,
    ) -> Result<Taken, Malformed> {
        let (mut input, mut rest) = (BytesMut::new(), bytes);
        let (mut data, mut trailers) = (Vec::new(), None);
        loop {
            match decoder.decode(&mut input)? {
                Decoded::End => return Ok((data, trailers, [&input[..], rest].concat())),
                Decoded::Frame(frame) => match frame.into_data() {
                    Ok(bytes) => {
                        assert!(!bytes.is_empty(), "a frame says something");
                        data.extend_from_slice(&bytes);
                    }
                    Err(frame) => trailers = frame.into_trailers().ok(),
                },
                Decoded::More if rest.is_empty() => decoder.end()?,
                Decoded::More => {
                    let (piece, others) = rest.split_at(cut().clamp(1, rest.len()));
                    input.extend_from_slice(piece);
                    rest = others;
                }
            }
        }
    }

    fn whole(decoder: Decoder, bytes: &[u8]) -> Result<Taken, Malformed> {
        decoded(decoder, bytes, || usize::MAX)
    }

    #[test]
    fn each_kind_ends_where_it_says() {
        let of = |data: &[u8], rest: &[u8]| Ok((data.to_vec(), None, rest.to_vec()));
        assert_eq!(whole(Decoder::Length(3), b"abcdef"), of(b"abc", b"def"));
        assert!(whole(Decoder::Length(3), b"ab").is_err());
        assert_eq!(whole(Decoder::ToEnd, b"abc"), of(b"abc", b""));
        assert_eq!(whole(Decoder::Size, b"3\r\nabc\r\n2;x=\"y\"\r\nde\r\n0\r\n\r\nf"), of(b"abcde", b"f"));
        let (data, trailers, rest) =
            whole(Decoder::Size, b"a \r\n0123456789\r\n00\r\nx: 1\r\nx: 2\r\n\r\nz").unwrap();
        assert_eq!((&data[..], &rest[..]), (&b"0123456789"[..], &b"z"[..]));
        assert_eq!(trailers.unwrap().get_all("x").iter().collect::<Vec<_>>(), ["1", "2"]);
    }

    #[test]
    fn the_last_frame_is_known_to_be_the_last() {
        let mut decoder = Decoder::Size;
        let mut input = BytesMut::from(&b"3\r\nabc\r\n0\r\n\r\n"[..]);
        assert!(matches!(decoder.decode(&mut input), Ok(Decoded::Frame(_))));
        assert_eq!((decoder, input.len()), (Decoder::Ended, 0));
    }

    #[test]
    fn what_two_could_read_differently_is_malformed() {
        for bytes in [
            &b"\r\nabc"[..],
            b" 3\r\nabc\r\n0\r\n\r\n",
            b"3\nabc\r\n0\r\n\r\n",
            b"0x3\r\nabc\r\n0\r\n\r\n",
            b"+3\r\nabc\r\n0\r\n\r\n",
            b"3 3\r\nabc\r\n0\r\n\r\n",
            b"3;a\nb\r\nabc\r\n0\r\n\r\n",
            b"3\r\nabcd\r\n0\r\n\r\n",
            b"3\r\nabc\n0\r\n\r\n",
            b"3\r\nabc0\r\n\r\n",
            b"3\r\nabc\r\n",
            b"3\r\nabc\r\n0\r\n",
            b"0\r\nno colon\r\n\r\n",
            b"0\r\nx: a\r\n folded\r\n\r\n",
            b"10000000000000000\r\n",
        ] {
            assert!(whole(Decoder::Size, bytes).is_err(), "{:?}", String::from_utf8_lossy(bytes));
        }
        assert!(whole(Decoder::Size, &[&b"1;"[..], &[b'x'; SIZE_LINE_MAX]].concat()).is_err());
        assert!(whole(Decoder::Size, &[&b"0\r\nx:"[..], &[b'x'; TRAILERS_MAX]].concat()).is_err());
    }

    /// However bytes are cut on their way, the same comes of them; and what is well-formed comes out as it went in.
    #[test]
    fn cuts_change_nothing() {
        bolero::check!().with_type::<(Vec<u8>, Vec<u8>, u8)>().for_each(|(bytes, cuts, kind)| {
            let mut at = 0;
            let mut cut = || {
                at += 1;
                usize::from(cuts.get(at % cuts.len().max(1)).copied().unwrap_or(1))
            };
            let decoder = match kind % 3 {
                0 => Decoder::Length(u64::from(*kind) + 1),
                1 => Decoder::ToEnd,
                _ => Decoder::Size,
            };
            assert_eq!(decoded(decoder, bytes, &mut cut), whole(decoder, bytes));
            let mut wire = Vec::new();
            for piece in bytes.chunks(usize::from(*kind).max(1)) {
                wire.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
                wire.extend_from_slice(piece);
                wire.extend_from_slice(b"\r\n");
            }
            wire.extend_from_slice(b"0\r\n\r\n");
            assert_eq!(decoded(Decoder::Size, &wire, &mut cut), Ok((bytes.clone(), None, Vec::new())));
        });
    }
}
