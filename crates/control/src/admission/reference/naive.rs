//! Slow and obvious parts of the reference: a bucket, CoDel, deficit round robin.

use std::time::Duration;

use crate::Timestamp;

/// A token bucket that adds up what came in and what went out.
#[derive(Clone, Debug)]
pub(super) struct NaiveBucket {
    /// 10⁻¹⁸ tokens a nanosecond.
    rate: u128,
    /// 10⁻¹⁸ tokens.
    burst: u128,
    held: u128,
    since: Timestamp,
}

const TOKEN: u128 = 10_u128.pow(18);

impl NaiveBucket {
    pub(super) fn new(now: Timestamp, per_s: f64, burst: f64) -> Self {
        let burst = billionths(burst, 1.0) * 10_u128.pow(9);
        Self { rate: billionths(per_s, 1e-9), burst, held: burst, since: now }
    }

    pub(super) fn configure(&mut self, now: Timestamp, per_s: f64, burst: f64) {
        let held = self.holds(now);
        *self = Self::new(now.max(self.since), per_s, burst);
        self.held = held.min(self.burst);
    }

    pub(super) fn is_ready(&mut self, now: Timestamp) -> bool {
        self.holds(now) >= TOKEN
    }

    pub(super) fn try_take(&mut self, now: Timestamp) -> bool {
        let held = self.holds(now);
        if held < TOKEN {
            return false;
        }
        (self.held, self.since) = (held - TOKEN, now.max(self.since));
        true
    }

    /// The first nanosecond with a token, found by halving.
    pub(super) fn next(&mut self, now: Timestamp) -> Timestamp {
        let (mut none, mut some) = (now, Timestamp::FAR_FUTURE);
        if self.is_ready(none) {
            return none;
        }
        while some.since(none) > Duration::from_nanos(1) {
            let middle = Timestamp::from_nanos(u64::midpoint(none.as_nanos(), some.as_nanos()));
            if self.is_ready(middle) { some = middle } else { none = middle }
        }
        some
    }

    fn holds(&self, now: Timestamp) -> u128 {
        (self.held + now.since(self.since).as_nanos() * self.rate).min(self.burst)
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and 10^18")]
fn billionths(value: f64, least: f64) -> u128 {
    ((value * 1e9).round() as u128).clamp((least * 1e9).round() as u128, TOKEN)
}

/// RFC 8289 for one candidate after the other: what is to be done with the next one is the state.
#[derive(Clone, Debug)]
pub(super) struct NaiveCodel {
    target: Duration,
    interval: Duration,
    /// Waits are over the target; when they will have been for an interval.
    over: Option<Timestamp>,
    next: Next,
    /// When the last drop of the law was due.
    drop_next: Timestamp,
    count: u32,
    last_count: u32,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Next {
    /// Dropped if waits have been over the target for an interval.
    Judged,
    /// Let pass: the one before it began the dropping.
    Passes,
    /// Dropped if the law's time has come.
    ByTheLaw,
    /// The same, the law's next time being set first: the one before it was dropped by it.
    ByTheLawAgain,
}

impl NaiveCodel {
    pub(super) const fn new(target: Duration, interval: Duration) -> Self {
        Self {
            target,
            interval,
            over: None,
            next: Next::Judged,
            drop_next: Timestamp::EPOCH,
            count: 0,
            last_count: 0,
        }
    }

    pub(super) fn configure(&mut self, target: Duration, interval: Duration) {
        (self.target, self.interval) = (target, interval);
    }

    pub(super) fn emptied(&mut self) {
        (self.over, self.next) = (None, Next::Judged);
    }

    pub(super) fn drops(&mut self, now: Timestamp, wait: Duration, behind: usize) -> bool {
        let stands = wait >= self.target && behind > 0;
        let long = stands && self.over.is_some_and(|moment| now >= moment);
        self.over = stands.then(|| self.over.unwrap_or(now + self.interval));
        match self.next {
            Next::Passes => {
                self.next = Next::ByTheLaw;
                false
            }
            Next::Judged if long => {
                let before = self.count - self.last_count.min(self.count);
                let lately = now < self.drop_next + self.interval * 16;
                self.count = if before > 1 && lately { before } else { 1 };
                self.last_count = self.count;
                self.drop_next = now + self.law();
                self.next = Next::Passes;
                true
            }
            Next::ByTheLaw | Next::ByTheLawAgain if long => {
                if self.next == Next::ByTheLawAgain {
                    self.drop_next = self.drop_next + self.law();
                }
                let due = self.drop_next <= now;
                self.count += u32::from(due);
                self.next = if due { Next::ByTheLawAgain } else { Next::ByTheLaw };
                due
            }
            _ => {
                self.next = Next::Judged;
                false
            }
        }
    }

    fn law(&self) -> Duration {
        self.interval.div_f64(f64::from(self.count).sqrt())
    }
}

/// Deficit round robin as the paper writes it: turn by turn.
#[derive(Clone, Debug, Default)]
pub(crate) struct NaiveDeficitRoundRobin {
    shares: Vec<u64>,
    deficits: Vec<u64>,
    turn: usize,
    paid: bool,
}

impl NaiveDeficitRoundRobin {
    pub(crate) fn set_shares(&mut self, shares: &[u32]) {
        for (class, share) in shares.iter().enumerate() {
            if class == self.shares.len() {
                self.shares.push(0);
                self.deficits.push(0);
            }
            self.shares[class] = u64::from(*share);
        }
    }

    /// The class to serve of those that offer a weight; charges it.
    pub(crate) fn next(&mut self, offers: &[(usize, u32)]) -> Option<usize> {
        if offers.is_empty() {
            return None;
        }
        loop {
            if let Some(&(class, weight)) = offers.iter().find(|(class, _)| *class == self.turn) {
                if !self.paid {
                    self.deficits[class] += self.shares[class];
                    self.paid = true;
                }
                if self.deficits[class] >= u64::from(weight) {
                    self.deficits[class] -= u64::from(weight);
                    return Some(class);
                }
            }
            self.turn = (self.turn + 1) % self.shares.len();
            self.paid = false;
        }
    }

    pub(crate) fn emptied(&mut self, class: usize) {
        self.deficits[class] = 0;
        if self.turn == class {
            self.turn = (self.turn + 1) % self.shares.len();
            self.paid = false;
        }
    }
}
