//! The number by which a request is found again in every log it passes.

use std::cell::RefCell;

use bytes::BytesMut;
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::facts::ConnectionFacts;

pub(super) const FIELD: HeaderName = HeaderName::from_static("x-request-id");

/// Longest id believed of a trusted peer.
const LENGTH_MAX: usize = 128;

/// Ids that share an allocation.
const IDS_PER_BLOCK: usize = 32;

/// Makes request ids: 16 random digits of this core, then 16 digits of a counter.
#[derive(Debug)]
pub(super) struct RequestIds {
    state: RefCell<State>,
}

#[derive(Debug)]
struct State {
    last: [u8; 32],
    /// Where ids are written one after another, so that most of them allocate nothing.
    block: BytesMut,
}

impl RequestIds {
    /// Ids that begin with `prefix`, which should be random.
    pub(super) fn new(prefix: u64) -> Self {
        let mut last = [b'0'; 32];
        for (position, digit) in last[..16].iter_mut().rev().enumerate() {
            *digit = b"0123456789abcdef"[(prefix >> (4 * position)) as usize & 15];
        }
        Self {
            state: RefCell::new(State { last, block: BytesMut::with_capacity(last.len() * IDS_PER_BLOCK) }),
        }
    }

    /// The id of a request that does not go on: a trusted peer's, else the next.
    pub(super) fn of(&self, facts: &ConnectionFacts, headers: &HeaderMap) -> HeaderValue {
        given(facts, headers).cloned().unwrap_or_else(|| self.next())
    }

    /// The next id.
    pub(super) fn next(&self) -> HeaderValue {
        let State { last, block } = &mut *self.state.borrow_mut();
        count_up(&mut last[16..]);
        // Once the block is full, another as large.
        block.reserve(last.len());
        block.extend_from_slice(last);
        HeaderValue::from_maybe_shared(block.split().freeze())
            .unwrap_or_else(|_| HeaderValue::from_static("-"))
    }
}

/// Adds one to a hexadecimal number.
fn count_up(digits: &mut [u8]) {
    for digit in digits.iter_mut().rev() {
        *digit = match *digit {
            b'9' => b'a',
            b'f' => b'0',
            other => other + 1,
        };
        if *digit != b'0' {
            return;
        }
    }
}

/// The id that a trusted peer has given.
pub(super) fn given<'a>(facts: &ConnectionFacts, headers: &'a HeaderMap) -> Option<&'a HeaderValue> {
    headers.get(FIELD).filter(|id| facts.trusted && is_acceptable(id))
}

/// Whether an id of a trusted peer is taken over: short, and nothing that would need quoting in a log.
fn is_acceptable(id: &HeaderValue) -> bool {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.:/+=@".contains(byte);
    !id.is_empty() && id.len() <= LENGTH_MAX && id.as_bytes().iter().all(plain)
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
        let mut digits = *b"0000";
        for expected in 1..5000 {
            count_up(&mut digits);
            assert_eq!(digits, *format!("{expected:04x}").as_bytes());
        }
    }

    #[test]
    fn ids_that_could_forge_a_log_line_are_not_taken_over() {
        for id in ["", "a b", "a\"b", "a\\b", "a\tb", &"a".repeat(129)] {
            assert!(!is_acceptable(&HeaderValue::from_str(id).unwrap()), "{id}");
        }
    }
}
