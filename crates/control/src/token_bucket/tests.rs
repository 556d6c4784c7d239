//! The token bucket beside one that walks through time a nanosecond a step.

use std::time::Duration;

use proptest::prelude::*;

use super::*;

fn at(nanos: u64) -> Timestamp {
    Timestamp::from_nanos(nanos)
}

/// The obvious bucket: one nanosecond a step, in units.
struct Naive {
    rate: u128,
    capacity: u128,
    level: u128,
    at: u64,
}

impl Naive {
    fn take(&mut self, now: u64) -> bool {
        while self.at < now {
            self.at += 1;
            self.level = (self.level + self.rate).min(self.capacity);
        }
        let ready = self.level >= TOKEN;
        if ready {
            self.level -= TOKEN;
        }
        ready
    }
}

proptest! {
    #[test]
    fn as_the_naive_bucket(
        rate in prop_oneof![1e5..1e9_f64, Just(3.0e8), Just(1e9)],
        burst in 1.0..20.0_f64,
        steps in prop::collection::vec(0_u64..400, 1..80),
    ) {
        let mut bucket = TokenBucket::new(at(0), rate, burst);
        let mut naive = Naive { rate: u128::from(bucket.rate), capacity: bucket.capacity, level: bucket.level, at: 0 };
        let mut now = 0;
        for step in steps {
            now += step;
            prop_assert_eq!(bucket.try_take(at(now)), naive.take(now));
        }
    }

    #[test]
    fn many_small_steps_are_one_large_step(
        rate in 0.001..1e9_f64,
        steps in prop::collection::vec(0_u64..1_000_000_000_000, 1..100),
    ) {
        let mut small = TokenBucket::new(at(0), rate, 1e9);
        small.level = 0;
        let mut large = small.clone();
        let mut now = 0;
        for step in steps {
            now += step;
            let _ = small.is_ready(at(now));
        }
        let _ = large.is_ready(at(now));
        prop_assert_eq!(small, large);
    }

    #[test]
    fn next_is_the_first_moment_with_a_token(rate in 0.001..1e9_f64, burst in 1.0..100.0_f64, took in 0_u32..100) {
        let start = at(5_000_000_000);
        let mut bucket = TokenBucket::new(start, rate, burst);
        for _ in 0..took {
            let _ = bucket.try_take(start);
        }
        let next = bucket.next(start);
        prop_assert!(bucket.clone().is_ready(next));
        if next > start {
            prop_assert!(!bucket.clone().is_ready(next - Duration::from_nanos(1)));
        }
    }
}

#[test]
fn the_slowest_and_the_fastest_rate_are_exact() {
    let mut slow = TokenBucket::new(at(0), 0.001, 1.0);
    assert!(slow.try_take(at(0)));
    assert_eq!(slow.next(at(0)), at(1_000_000_000_000));
    let mut fast = TokenBucket::new(at(0), 1e9, 1.0);
    assert!(fast.try_take(at(0)) && !fast.try_take(at(0)) && fast.try_take(at(1)));
}

#[test]
fn a_change_keeps_what_accrued_at_the_old_rate() {
    let mut bucket = TokenBucket::new(at(0), 1.0, 1.0);
    assert!(bucket.try_take(at(0)));
    bucket.configure(at(500_000_000), 1000.0, 5.0); // half a token at 1/s
    assert_eq!(bucket.next(at(500_000_000)), at(500_500_000)); // the other half at 1000/s
    bucket.configure(at(9_000_000_000), 1000.0, 2.0);
    assert_eq!(bucket.tokens(at(9_000_000_000)), 2);
}

#[test]
fn time_that_jumps_back_or_far_ahead_neither_gives_nor_breaks() {
    let mut bucket = TokenBucket::new(at(1_000_000_000), 10.0, 1.0);
    assert!(bucket.try_take(at(1_000_000_000)));
    assert!(!bucket.try_take(at(0)));
    assert_eq!(bucket.next(at(0)), at(1_100_000_000));
    assert!(bucket.try_take(Timestamp::FAR_FUTURE));
    assert_eq!(bucket.next(Timestamp::FAR_FUTURE), Timestamp::FAR_FUTURE);
}
