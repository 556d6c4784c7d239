//! Room for large pieces of bodies, in which the connections of a core take turns: what was used last is used next,
//! while the processor's cache still holds it, and connections that are idle or wait hold none.

use std::cell::RefCell;

use bytes::BytesMut;

/// Buffers kept on a core. A connection fills one while it writes another; the rest is for clients that are a little
/// slower than their servers.
const KEPT: usize = 4;

thread_local! {
    static FREE: RefCell<Vec<BytesMut>> = const { RefCell::new(Vec::new()) };
}

/// An empty buffer with room for `bytes`.
pub(super) fn take(bytes: usize) -> BytesMut {
    FREE.with_borrow_mut(|free| {
        // What was read into a buffer and is still on its way to a client keeps its place.
        match free.iter_mut().rposition(|buffer| buffer.try_reclaim(bytes)) {
            Some(position) => free.remove(position),
            None => BytesMut::with_capacity(bytes),
        }
    })
}

/// Takes a buffer back. What was read into it may still be on its way to a client.
pub(super) fn give(mut buffer: BytesMut) {
    buffer.clear();
    FREE.with_borrow_mut(|free| {
        if free.len() == KEPT {
            // The one not used for longest: the others may serve without it.
            free.remove(0);
        }
        free.push(buffer);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_used_last_is_used_next_unless_it_is_still_on_its_way() {
        let mut first = take(100);
        let place = first.as_ptr();
        first.resize(100, 1);
        let on_its_way = first.split().freeze();
        give(first);
        let mut second = take(100);
        assert_ne!(second.as_ptr(), place);
        second.resize(100, 2);
        give(second);
        assert!(on_its_way.iter().all(|byte| *byte == 1));
        drop(on_its_way);
        let (third, fourth) = (take(100), take(100));
        assert!(third.is_empty() && third.as_ptr() != place);
        assert_eq!(fourth.as_ptr(), place);
    }

    #[test]
    fn no_more_are_kept_than_that() {
        let all: Vec<_> = (0..=KEPT).map(|_| take(100)).collect();
        all.into_iter().for_each(give);
        assert_eq!(FREE.with_borrow(Vec::len), KEPT);
    }
}
