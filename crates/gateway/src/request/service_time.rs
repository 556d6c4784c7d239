//! An estimate of a class's 99th percentile of service time: how long a permit may linger.
//!
//! Stochastic approximation of a quantile (Robbins and Monro, 1951) with steps in proportion to the
//! estimate, so that it needs one number and follows services of any speed:
//! after a time above the estimate `q <- q * (1 + STEP * 0.99)`, after one below
//! `q <- q * (1 - STEP * 0.01)`. It stands still where 1 % of the times lie above. That a time lies above is known before it is
//! over: so what is not waited for to its end counts, too.

use std::time::Duration;

/// Relative step. 5 % finds a tenfold change in about 50 slow answers, and wanders by a few percent.
const STEP: f64 = 0.05;

/// The first estimate, times the first service time seen.
const FIRST: f64 = 4.0;

/// A running estimate; nothing is known at first.
#[derive(Debug, Default)]
pub(super) struct ServiceTime {
    nanos: f64,
}

impl ServiceTime {
    /// Takes up a service time.
    pub(super) fn record(&mut self, time: Duration) {
        let time = time.as_secs_f64() * 1e9;
        let estimate = self.nanos;
        self.nanos = if estimate == 0.0 {
            (FIRST * time).max(1.0)
        } else if time > estimate {
            estimate * (1.0 + STEP * 0.99)
        } else {
            estimate * (1.0 - STEP * 0.01)
        };
    }

    /// Takes up a service time that is longer than it was [waited for](Self::linger).
    pub(super) fn exceed(&mut self, longest: Duration) {
        // What was waited for as long as anything is need not lie above.
        if self.linger(longest) < longest {
            self.nanos *= 1.0 + STEP * 0.99;
        }
    }

    /// How long a permit lingers whose client has left: the 99th percentile from its start, at least
    /// [`ServiceTime::LINGER_MIN`], never longer than `longest`.
    pub(super) fn linger(&self, longest: Duration) -> Duration {
        let estimate = self.nanos;
        let known = if estimate == 0.0 {
            longest
        } else {
            Duration::try_from_secs_f64(estimate / 1e9).unwrap_or(longest)
        };
        known.max(Self::LINGER_MIN).min(longest)
    }

    /// Below this a timer is not worth its while.
    pub(super) const LINGER_MIN: Duration = Duration::from_millis(10);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_estimate_settles_where_one_in_a_hundred_lies_above() {
        let mut times = ServiceTime::default();
        let longest = Duration::from_secs(60);
        assert_eq!(times.linger(longest), longest);
        // 1 to 1000 ms in a fixed, well-mixed order: the 99th percentile is 990 ms.
        for round in 0..200_u64 {
            for i in 0..1000 {
                times.record(Duration::from_millis(1 + (i * 617 + round * 13) % 1000));
            }
        }
        let found = times.linger(longest);
        assert!((900..1100).contains(&found.as_millis()), "{found:?}");
        assert_eq!(times.linger(Duration::from_millis(5)), Duration::from_millis(5));
    }

    #[test]
    fn what_was_not_waited_for_counts() {
        let mut times = ServiceTime::default();
        let (longest, light) = (Duration::from_secs(60), Duration::from_millis(10));
        times.exceed(longest);
        assert_eq!(times.linger(longest), longest, "nothing is known yet");
        times.record(light);
        // One in fifty takes longer than is waited for: that is more than one in a hundred.
        for _ in 0..1000 {
            (0..49).for_each(|_| times.record(light));
            times.exceed(longest);
        }
        assert!(times.linger(longest) > longest / 2);
        // However often that was: it comes back.
        for _ in 0..10_000 {
            times.exceed(longest);
        }
        for _ in 0..20_000 {
            times.record(light);
        }
        assert!(times.linger(longest) < 2 * light);
    }
}
