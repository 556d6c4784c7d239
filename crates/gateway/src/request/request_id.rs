//! The number by which a request is found again in every log it passes.

use std::cell::Cell;

use http::{HeaderName, HeaderValue};

pub(super) const FIELD: HeaderName = HeaderName::from_static("x-request-id");

/// Longest id believed of a trusted peer.
const LENGTH_MAX: usize = 128;

/// Makes request ids: 16 random digits of this core, then 16 digits of a counter.
#[derive(Debug)]
pub(super) struct RequestIds {
    prefix: u64,
    count: Cell<u64>,
}

impl RequestIds {
    /// Ids that begin with `prefix`, which should be random.
    pub(super) const fn new(prefix: u64) -> Self {
        Self { prefix, count: Cell::new(0) }
    }

    /// The next id.
    pub(super) fn next(&self) -> HeaderValue {
        let count = self.count.get().wrapping_add(1);
        self.count.set(count);
        let mut digits = [0; 32];
        write_hex(&mut digits[..16], self.prefix);
        write_hex(&mut digits[16..], count);
        HeaderValue::from_bytes(&digits).unwrap_or_else(|_| HeaderValue::from_static("-"))
    }
}

/// Whether an id of a trusted peer is taken over: short, and nothing that would need quoting in a log.
pub(super) fn is_acceptable(id: &HeaderValue) -> bool {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.:/+=@".contains(byte);
    !id.is_empty() && id.len() <= LENGTH_MAX && id.as_bytes().iter().all(plain)
}

fn write_hex(digits: &mut [u8], number: u64) {
    for (position, digit) in digits.iter_mut().rev().enumerate() {
        *digit = b"0123456789abcdef"[(number >> (4 * position)) as usize & 15];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_counted_behind_a_prefix() {
        let ids = RequestIds::new(0xab);
        assert_eq!(ids.next(), "00000000000000ab0000000000000001");
        assert_eq!(ids.next(), "00000000000000ab0000000000000002");
        assert!(is_acceptable(&ids.next()));
    }

    #[test]
    fn ids_that_could_forge_a_log_line_are_not_taken_over() {
        for id in ["", "a b", "a\"b", "a\\b", "a\tb", &"a".repeat(129)] {
            assert!(!is_acceptable(&HeaderValue::from_str(id).unwrap()), "{id}");
        }
    }
}
