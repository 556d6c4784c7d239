//! Tests of the per-client limit: beside token buckets in a list, and the bound on all clients together.

use proptest::prelude::*;

use super::*;

/// A token bucket for each client, none ever forgotten: slow and obvious.
struct Naive {
    rate_per_s: f64,
    burst: f64,
    buckets: Vec<(u64, f64, Timestamp)>,
}

impl Naive {
    /// Tokens the client has; `None` too near to a whole one to say under rounding: of these sums, and of the interval, which is
    /// whole or half nanoseconds there.
    fn take(&mut self, now: Timestamp, key: u64, taken: bool) -> Option<bool> {
        let place = self.buckets.iter().position(|(k, ..)| *k == key);
        let place = place.unwrap_or_else(|| {
            self.buckets.push((key, self.burst, now));
            self.buckets.len() - 1
        });
        let (_, tokens, at) = &mut self.buckets[place];
        *tokens = (*tokens + now.since(*at).as_secs_f64() * self.rate_per_s).min(self.burst);
        *at = now;
        let has = *tokens;
        if taken {
            *tokens -= 1.0;
        }
        let rounding = 1e-6 + self.burst * self.rate_per_s * 1e-9;
        ((has - 1.0).abs() > rounding).then_some(has >= 1.0)
    }
}

proptest! {
    #[test]
    fn is_a_token_bucket_for_each_client(
        rate_per_s in prop_oneof![0.1..10.0, 10.0..10_000.0_f64],
        burst in 1.0..20.0_f64,
        steps in prop::collection::vec((0..6_u64, 0.0..3.0_f64), 1..300),
    ) {
        let mut now = Timestamp::from_nanos(1 << 60);
        let mut rates = ClientRates::new(now, ClientRateSettings {
            rate_per_s: Some(rate_per_s), burst, tracked_max: 6,
        });
        let mut naive = Naive { rate_per_s, burst, buckets: Vec::new() };
        for (key, intervals) in steps {
            now = now + Duration::from_secs_f64(intervals / rate_per_s);
            let answer = rates.take(now, key);
            rates.check_invariants();
            if let Some(expected) = naive.take(now, key, answer.is_ok()) {
                prop_assert_eq!(answer.is_ok(), expected);
            }
            if let Err(RetryAfter(wait)) = answer {
                // Exactly then, and not a nanosecond before.
                prop_assert!(!wait.is_zero() && wait <= Duration::from_secs_f64(1.1 / rate_per_s));
                prop_assert!(rates.clone().take(now + wait, key).is_ok());
                prop_assert!(rates.clone().take(now + (wait - Duration::from_nanos(1)), key).is_err());
            }
        }
    }

    /// However many clients come, and whatever is forgotten of them.
    #[test]
    fn all_clients_together_are_bounded_by_what_is_remembered(
        tracked_max in 1..6_usize,
        burst in 1..5_u32,
        steps in prop::collection::vec((0..40_u64, 0..3_u64), 1..400),
    ) {
        let start = Timestamp::from_nanos(1 << 60);
        let mut now = start;
        let settings = ClientRateSettings { rate_per_s: Some(1000.0), burst: burst.into(), tracked_max };
        let mut rates = ClientRates::new(now, settings);
        let mut taken = 0;
        for (key, passed_ms) in steps {
            now = now + Duration::from_millis(passed_ms);
            taken += u64::from(rates.take(now, key).is_ok());
            rates.check_invariants();
            prop_assert!(rates.len() <= tracked_max);
            let passed_ms = u64::try_from(now.since(start).as_millis()).unwrap();
            prop_assert!(taken <= tracked_max as u64 * (u64::from(burst) + passed_ms));
        }
    }

    #[test]
    fn any_settings_at_any_time_neither_panic_nor_lock_out(
        steps in prop::collection::vec(
            (prop::option::of(1e-3..1e9_f64), 1.0..1e9_f64, 1..20_usize, any::<u64>(), 0..30_u64), 1..100,
        ),
    ) {
        let mut rates = ClientRates::new(Timestamp::EPOCH, ClientRateSettings {
            rate_per_s: None, burst: 1.0, tracked_max: 1,
        });
        for (rate_per_s, burst, tracked_max, nanos, key) in steps {
            let now = Timestamp::from_nanos(nanos);
            rates.configure(now, ClientRateSettings { rate_per_s, burst, tracked_max });
            rates.check_invariants();
            if let Err(RetryAfter(wait)) = rates.take(now, key) {
                // Whatever was owed under other settings or at another time, one interval is enough.
                prop_assert!(wait.as_secs_f64() <= 1.01 / rate_per_s.unwrap() + 1e-9);
                prop_assert!(rates.clone().take(now + wait, key).is_ok());
            }
            rates.check_invariants();
            prop_assert!(rates.len() <= tracked_max);
        }
    }
}

#[test]
fn a_newcomer_to_a_full_table_takes_over_the_debt_of_the_longest_unseen() {
    let now = Timestamp::from_nanos(1 << 60);
    let settings = ClientRateSettings { rate_per_s: Some(1.0), burst: 2.0, tracked_max: 2 };
    let mut rates = ClientRates::new(now, settings);
    assert_eq!(rates.take(now, 1), Ok(()));
    assert_eq!(rates.take(now, 1), Ok(()));
    assert_eq!(rates.take(now, 2), Ok(()));
    // 1 is the longest unseen and owes both its tokens.
    assert_eq!(rates.take(now, 3), Err(RetryAfter(Duration::from_secs(1))));
    // Refused, it was not remembered in the other's place; and 1, seen again, is the newest now.
    assert_eq!(rates.take(now, 1), Err(RetryAfter(Duration::from_secs(1))));
    // So 3 now takes the place of 2, who owes one.
    assert_eq!(rates.take(now, 3), Ok(()));
    assert_eq!(rates.take(now, 3), Err(RetryAfter(Duration::from_secs(1))));
    assert_eq!(rates.len(), 2);
}
