//! Full handshakes that a front makes itself: a bounded number at once, beside the server's threads and on the same processors.
//!
//! Turns are those of the gateway: in order of arrival while that is fast, the newest first while it is not.

use std::{collections::BTreeSet, time::Duration};

use tidegate_control::{
    Timestamp,
    queue::{Exit, Turnover},
};

/// The newest go first while a newcomer would wait for this long in order of arrival.
const STANDS_AFTER: Duration = Duration::from_millis(100);

/// Handshakes that wait and how many are made.
#[derive(Debug)]
pub(super) struct Handshakes {
    at_once: u32,
    made: u32,
    /// By id, which is by arrival.
    waiting: BTreeSet<u64>,
    turnover: Turnover,
}

impl Handshakes {
    /// One at once for every two processors, as the gateway has it unless told otherwise.
    pub(super) fn new(processors: u16, now: Timestamp) -> Self {
        let at_once = u32::from(processors / 2).max(1);
        Self { at_once, made: 0, waiting: BTreeSet::new(), turnover: Turnover::new(now) }
    }

    /// One comes: whether it is made at once; else it waits.
    pub(super) fn add(&mut self, now: Timestamp, id: u64) -> bool {
        if self.made < self.at_once {
            self.made += 1;
            return true;
        }
        if self.waiting.is_empty() {
            self.turnover = Turnover::new(now);
        }
        self.waiting.insert(id);
        false
    }

    /// One is made: whose turn it is then.
    pub(super) fn next(&mut self, now: Timestamp) -> Option<u64> {
        let next = match self.turnover.at_least(STANDS_AFTER, now) {
            true => self.waiting.pop_last(),
            false => self.waiting.pop_first(),
        };
        match next {
            Some(_) => self.turnover.removed(Exit::Started, self.waiting.len(), now),
            None => self.made -= 1,
        }
        next
    }

    /// The client of one that waits has left: whether it did wait.
    pub(super) fn leave(&mut self, now: Timestamp, id: u64) -> bool {
        let waited = self.waiting.remove(&id);
        if waited {
            self.turnover.removed(Exit::Gone, self.waiting.len(), now);
        }
        waited
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_goes_first_once_they_stand() {
        let now = Timestamp::from_nanos(1_000_000_000);
        let mut handshakes = Handshakes::new(4, now);
        let made: Vec<bool> = (1..=6).map(|id| handshakes.add(now, id)).collect();
        assert_eq!(made, [true, true, false, false, false, false]);
        assert_eq!(handshakes.next(now), Some(3), "they have not waited long");
        let later = now + Duration::from_millis(200);
        assert!(handshakes.leave(later, 6) && !handshakes.leave(later, 6));
        assert_eq!(handshakes.next(later), Some(5));
        assert_eq!(handshakes.next(later), Some(4));
        assert_eq!(handshakes.next(later), None);
        assert!(handshakes.add(later, 7) && !handshakes.add(later, 8), "two are made at once");
    }
}
