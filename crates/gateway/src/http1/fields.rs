//! Fields of heads: what numbers and lists in them are, and room for them, kept from one head to the next.

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderValue};

/// Bytes and fields there is room kept for.
const BYTES_KEPT: usize = 4 * 1024;
const FIELDS_KEPT: usize = 64;

/// A number of digits only, so that `+5`, `0x5` and `5, 5` are none.
pub(crate) fn number(digits: &[u8]) -> Option<u64> {
    let (first, others) = digits.split_first()?;
    let digit = |byte: u8| byte.is_ascii_digit().then(|| u64::from(byte - b'0'));
    others.iter().try_fold(digit(*first)?, |number, byte| number.checked_mul(10)?.checked_add(digit(*byte)?))
}

/// The members of a list, without the blanks around them.
pub(crate) fn members(value: &HeaderValue) -> impl Iterator<Item = &[u8]> {
    value.as_bytes().split(|byte| *byte == b',').map(<[u8]>::trim_ascii)
}

/// Room for a head.
#[derive(Debug, Default)]
pub(crate) struct Room {
    /// Its bytes: values last as long as anybody wants them, an HTTP/2 connection those it refers back to, and are not
    /// to keep all that was read along with them.
    bytes: BytesMut,
    fields: HeaderMap,
}

/// A copy of a head: one does for all that is taken out of it.
#[derive(Debug)]
pub(crate) struct Copied {
    bytes: Bytes,
    /// Where the head lies that was copied.
    start: usize,
}

impl Room {
    /// Takes over the room of fields that are not needed any more.
    pub(crate) fn refill(&mut self, mut fields: HeaderMap) {
        fields.clear();
        // That of an uncommonly large head is given back.
        self.fields = if fields.capacity() > FIELDS_KEPT { HeaderMap::new() } else { fields };
    }

    /// Copies a head.
    pub(crate) fn copy(&mut self, head: &[u8]) -> Copied {
        self.bytes.extend_from_slice(head);
        let bytes = self.bytes.split().freeze();
        if head.len() > BYTES_KEPT {
            self.bytes = BytesMut::new();
        }
        Copied { bytes, start: head.as_ptr().addr() }
    }

    /// An empty map with room for so many fields.
    pub(crate) fn fields(&mut self, fields: usize) -> HeaderMap {
        let mut map = std::mem::take(&mut self.fields);
        map.reserve(fields);
        map
    }
}

impl Copied {
    /// The copy of a part of the head.
    pub(crate) fn of(&self, part: &[u8]) -> Bytes {
        let at = part.as_ptr().addr().saturating_sub(self.start);
        if part.is_empty() { Bytes::new() } else { self.bytes.slice(at..at + part.len()) }
    }
}
