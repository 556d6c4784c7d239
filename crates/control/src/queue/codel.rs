//! CoDel: drops from a queue whose waits stay over a target, ever more often until they do not.
//!
//! A request that is about to start has waited `s`. Once every wait has been at or over `target` for a
//! whole `interval`, one is dropped; while that goes on, the n-th drop follows the one before it
//! after `interval / √n`.
//!
//! Source: RFC 8289, section 5 (pseudo-code `dequeue`, `dodequeue`, `control_law`). Deviations:
//!
//! 1. Requests instead of packets: "at most one MTU in the queue" becomes "nothing waits behind it".
//! 2. The pseudo-code drops several packets in one call of `dequeue`; here each candidate is judged
//!    by itself, and the call ends at the next candidate that may pass, which may come later if
//!    there is no room for it now.
//! 3. The caller does not ask for the top priority, which waits for nothing.

use std::time::Duration;

use crate::Timestamp;

/// State of the control law. Plain data.
///
/// - `target`: a span of time, 1 ms to 1 h, default 20 ms (the RFC's 5 ms is for packets);
/// - `interval`: a span of time, 1 ms to 1 h, default 200 ms; should be over the longest service time.
///
/// When time stands still nothing is dropped twice for one point of time except what the control
/// law is behind by; when it jumps ahead, `n` drops catch up with it one by one. O(1), one square root a drop.
///
/// ```
/// use std::time::Duration;
/// use tidegate_control::{Timestamp, queue::Codel};
///
/// let ms = |n: u64| Timestamp::from_nanos(n * 1_000_000);
/// let wait = Duration::from_millis(30);
/// let mut codel = Codel::new(Duration::from_millis(20), Duration::from_millis(100));
/// assert!(!codel.drops(ms(0), wait, 9)); // over the target: the interval begins
/// assert!(!codel.drops(ms(99), wait, 9));
/// assert!(codel.drops(ms(100), wait, 9)); // a whole interval over it: the first drop
/// assert!(!codel.drops(ms(100), wait, 8)); // the next passes
/// assert!(!codel.drops(ms(199), wait, 9));
/// assert!(codel.drops(ms(200), wait, 9)); // 100 ms / √1 after the first
/// assert!(!codel.drops(ms(200), wait, 9));
/// assert!(codel.drops(ms(271), wait, 9)); // 100 ms / √2 = 70.7 ms after the second
/// assert!(!codel.drops(ms(271), Duration::from_millis(19), 9)); // under the target: it ends
/// assert!(!codel.drops(ms(400), wait, 9));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Codel {
    target: Duration,
    interval: Duration,
    /// When waits will have been over the target for an interval.
    first_above: Option<Timestamp>,
    dropping: bool,
    /// The last candidate was dropped to begin dropping: the next passes whatever it is.
    entered: bool,
    /// The last candidate was dropped by the law: the time of the next drop is still to be set.
    behind: bool,
    next_drop: Timestamp,
    count: u32,
    last_count: u32,
}

impl Codel {
    /// A queue in good order.
    #[must_use]
    pub const fn new(target: Duration, interval: Duration) -> Self {
        Self {
            target,
            interval,
            first_above: None,
            dropping: false,
            entered: false,
            behind: false,
            next_drop: Timestamp::EPOCH,
            count: 0,
            last_count: 0,
        }
    }

    /// Changes the parameters; the state stays.
    pub fn configure(&mut self, target: Duration, interval: Duration) {
        self.target = target;
        self.interval = interval;
    }

    /// Whether to drop the request that is about to start after a wait of `wait`, with `behind` more
    /// waiting behind it.
    #[must_use]
    pub fn drops(&mut self, now: Timestamp, wait: Duration, behind: usize) -> bool {
        let over = self.stays_over(now, wait, behind);
        if std::mem::take(&mut self.entered) {
            return false;
        }
        if !self.dropping {
            if over {
                self.begin(now);
            }
            return over;
        }
        let law_dropped_last = std::mem::take(&mut self.behind);
        if !over {
            self.dropping = false;
            return false;
        }
        if law_dropped_last {
            self.next_drop = self.after(self.next_drop);
        }
        self.behind = now >= self.next_drop;
        if self.behind {
            self.count = self.count.saturating_add(1);
        }
        self.behind
    }

    /// Nothing waits any more: it ends, as it does when the pseudo-code finds no packet.
    pub fn emptied(&mut self) {
        self.first_above = None;
        self.dropping = false;
        self.entered = false;
        self.behind = false;
    }

    /// `dodequeue` of the RFC: whether waits have been over the target for an interval.
    fn stays_over(&mut self, now: Timestamp, wait: Duration, behind: usize) -> bool {
        if wait < self.target || behind == 0 {
            self.first_above = None;
            return false;
        }
        match self.first_above {
            None => {
                self.first_above = Some(now + self.interval);
                false
            }
            Some(moment) => now >= moment,
        }
    }

    /// Begins to drop: near the rate that was needed if it ended a short while ago.
    fn begin(&mut self, now: Timestamp) {
        let needed = self.count.saturating_sub(self.last_count);
        let recent = now.since(self.next_drop) < self.interval.saturating_mul(16);
        self.count = if needed > 1 && recent { needed } else { 1 };
        self.last_count = self.count;
        self.next_drop = self.after(now);
        self.dropping = true;
        self.entered = true;
    }

    /// `control_law` of the RFC: `t + interval / √count`.
    fn after(&self, from: Timestamp) -> Timestamp {
        from + self.interval.div_f64(f64::from(self.count.max(1)).sqrt())
    }
}
