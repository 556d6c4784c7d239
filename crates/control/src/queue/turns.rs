//! Whose turn is next of those that wait for one of a few places and have neither class nor priority: the gateway's TLS handshakes.
//!
//! The order is that of adaptive LIFO: first come, first served while that is fast, and the newest first while it is not, since in
//! order of arrival each would have its turn about when its client gives up.

use std::{collections::BTreeMap, time::Duration};

use super::{Exit, Turnover};
use crate::Timestamp;

/// The newest go first while a newcomer would wait for this long in order of arrival: the default of `queue.stands_after`.
pub const STANDS_AFTER: Duration = Duration::from_millis(100);

/// Those that wait, each with what it waits with. A turn or a departure costs a logarithm of their number.
///
/// ```
/// use tidegate_control::{Timestamp, queue::{STANDS_AFTER, Turns}};
///
/// let came = Timestamp::from_nanos(1_000_000_000);
/// let mut turns = Turns::new(came);
/// (1..=4).for_each(|number| turns.add(came, number, ()));
/// assert_eq!(turns.next(came), Some((1, ())));
/// assert_eq!(turns.leave(came, 4), Some(()));
/// assert_eq!(turns.next(came + STANDS_AFTER), Some((3, ())));
/// ```
#[derive(Clone, Debug)]
pub struct Turns<T> {
    waiting: BTreeMap<u64, T>,
    turnover: Turnover,
}

impl<T> Turns<T> {
    /// Nobody waits.
    #[must_use]
    pub const fn new(now: Timestamp) -> Self {
        Self { waiting: BTreeMap::new(), turnover: Turnover::new(now) }
    }

    /// One comes and waits, under a number higher than any before.
    pub fn add(&mut self, now: Timestamp, number: u64, with: T) {
        if self.waiting.is_empty() {
            self.turnover = Turnover::new(now);
        }
        self.waiting.insert(number, with);
    }

    /// Takes out the one whose turn it is.
    pub fn next(&mut self, now: Timestamp) -> Option<(u64, T)> {
        let next = match self.turnover.at_least(STANDS_AFTER, now) {
            true => self.waiting.pop_last(),
            false => self.waiting.pop_first(),
        }?;
        self.turnover.removed(Exit::Started, self.waiting.len(), now);
        Some(next)
    }

    /// One leaves; `None`: it does not wait any more.
    pub fn leave(&mut self, now: Timestamp, number: u64) -> Option<T> {
        let left = self.waiting.remove(&number)?;
        self.turnover.removed(Exit::Gone, self.waiting.len(), now);
        Some(left)
    }

    /// How many wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether nobody waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}
