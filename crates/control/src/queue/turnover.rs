//! How long a queue takes to turn over: what a newcomer would wait in order of arrival.
//!
//! Of the classes' queues, and of the gateway's TLS handshakes, by which adaptive LIFO turns.

use std::time::Duration;

use super::Exit;
use crate::Timestamp;

/// One newcomer is followed at a time: it counts who was there when it came, itself among them, and has
/// waited when as many have started, whichever they were, or no more than it has counted are left. The
/// next is followed from that moment. So a queue that is never empty but moves fast (more clients than
/// the limit, each at once asking again) is told from one that stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turnover {
    since: Timestamp,
    /// How many have to start.
    ahead: usize,
    /// What the one followed before this waited.
    last: Duration,
}

impl Turnover {
    /// The first comes to an empty queue.
    #[must_use]
    pub(super) const fn new(now: Timestamp) -> Self {
        Self { since: now, ahead: 1, last: Duration::ZERO }
    }

    /// One has left the queue, `left` remain.
    pub(super) fn removed(&mut self, exit: Exit, left: usize, now: Timestamp) {
        self.ahead = (self.ahead - usize::from(exit == Exit::Started)).min(left);
        if self.ahead == 0 {
            *self = Self { since: now, ahead: left, last: now.since(self.since) };
        }
    }

    /// Whether the queue takes `span` or longer to turn over: the last time, or already this time.
    #[must_use]
    pub(super) fn at_least(&self, span: Duration, now: Timestamp) -> bool {
        self.last >= span || self.since + span <= now
    }

    /// Since when the present one is followed.
    #[must_use]
    pub(super) const fn since(&self) -> Timestamp {
        self.since
    }
}
