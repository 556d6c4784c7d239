//! Counts and latencies second by second.
//!
//! A histogram of three digits takes 190 KB; one for each second of an hour and of each class would
//! not do. A second that is over is kept as its occupied buckets only: 32 to an octave, so a
//! percentile is at most 1.6 % off (half a bucket).

use std::{collections::BTreeMap, time::Duration};

/// Counts per second since the start of the run; the index is the second.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PerSecond(pub(crate) Vec<u64>);

impl PerSecond {
    /// The plan bounds a run to ten days and its drain, so this vector to 7 MB.
    pub(crate) fn count(&mut self, since_start: Duration) {
        let second = index_of(since_start);
        if self.0.len() <= second {
            self.0.resize(second + 1, 0);
        }
        if let Some(count) = self.0.get_mut(second) {
            *count += 1;
        }
    }

    pub(crate) fn add(&mut self, other: &Self) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            *mine += theirs;
        }
    }
}

/// Seconds whose latencies are kept; later ones have counts only.
const SECONDS_MAX: usize = 36_000;
/// Buckets in a doubling of the latency.
const PER_OCTAVE_BITS: u32 = 5;

/// Latencies per second since the start of the run.
#[derive(Clone, Debug, Default)]
pub(crate) struct LatencyPerSecond {
    /// Seconds that are over, and those of other threads.
    over: Vec<Buckets>,
    /// The second under way.
    now: BTreeMap<u16, u32>,
    now_is: usize,
}

/// Occupied buckets and how many latencies fell into each.
type Buckets = Box<[(u16, u32)]>;

impl LatencyPerSecond {
    pub(crate) fn record(&mut self, since_start: Duration, latency: Duration) {
        let second = index_of(since_start);
        if second >= SECONDS_MAX {
            return;
        }
        if second != self.now_is {
            self.close();
            self.now_is = second;
        }
        let micros = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX);
        *self.now.entry(bucket(micros)).or_default() += 1;
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.close();
        let mut other = other.clone();
        other.close();
        if self.over.len() < other.over.len() {
            self.over.resize(other.over.len(), Buckets::default());
        }
        for (mine, theirs) in self.over.iter_mut().zip(&other.over) {
            if !theirs.is_empty() {
                *mine = merge(mine, theirs);
            }
        }
    }

    /// Percentiles (0 to 1) of a second in milliseconds, `None` where nothing was recorded.
    pub(crate) fn percentiles<const N: usize>(&self, second: usize, shares: [f64; N]) -> Option<[f64; N]> {
        let buckets = self.over.get(second).filter(|buckets| !buckets.is_empty())?;
        let total: u64 = buckets.iter().map(|(_, count)| u64::from(*count)).sum();
        Some(shares.map(|share| {
            // The smallest latency that so many of all do not exceed.
            let rank = ((total as f64 * share).ceil() as u64).max(1);
            let mut below = 0;
            let found = buckets.iter().find(|(_, count)| {
                below += u64::from(*count);
                below >= rank
            });
            found.or(buckets.last()).map_or(0.0, |(bucket, _)| middle_us(*bucket) / 1e3)
        }))
    }

    fn close(&mut self) {
        if self.now.is_empty() {
            return;
        }
        if self.over.len() <= self.now_is {
            self.over.resize(self.now_is + 1, Buckets::default());
        }
        let now: Buckets = std::mem::take(&mut self.now).into_iter().collect();
        if let Some(kept) = self.over.get_mut(self.now_is) {
            *kept = merge(kept, &now);
        }
    }
}

fn merge(one: &[(u16, u32)], other: &[(u16, u32)]) -> Buckets {
    let mut sum: BTreeMap<u16, u32> = one.iter().copied().collect();
    for (bucket, count) in other {
        let kept = sum.entry(*bucket).or_default();
        *kept = kept.saturating_add(*count);
    }
    sum.into_iter().collect()
}

fn index_of(since_start: Duration) -> usize {
    usize::try_from(since_start.as_secs()).unwrap_or(usize::MAX).min(1_000_000)
}

/// Exact below 64 µs, then 32 to an octave.
fn bucket(micros: u64) -> u16 {
    let linear = 2u64 << PER_OCTAVE_BITS;
    if micros < linear {
        return u16::try_from(micros).unwrap_or_default();
    }
    let octave = micros.ilog2() - PER_OCTAVE_BITS;
    let within = micros >> octave;
    u16::try_from(u64::from(octave) << PER_OCTAVE_BITS).unwrap_or(u16::MAX)
        + u16::try_from(within).unwrap_or_default()
}

fn middle_us(bucket: u16) -> f64 {
    let linear = 2u16 << PER_OCTAVE_BITS;
    if bucket < linear {
        return f64::from(bucket);
    }
    let octave = (bucket >> PER_OCTAVE_BITS) - 1;
    let within = bucket - (octave << PER_OCTAVE_BITS);
    (f64::from(within) + 0.5) * 2f64.powi(i32::from(octave))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn a_second_keeps_its_percentiles_whatever_thread_recorded_them() {
        let (mut all, mut one, mut other) =
            (LatencyPerSecond::default(), LatencyPerSecond::default(), LatencyPerSecond::default());
        for n in 1..=100 {
            let at = ms(if n <= 50 { 2_100 } else { 4_000 + n });
            all.record(at, ms(n));
            (if n % 2 == 0 { &mut one } else { &mut other }).record(at, ms(n));
        }
        let mut merged = LatencyPerSecond::default();
        merged.add(&one);
        merged.add(&other);
        let mut whole = LatencyPerSecond::default();
        whole.add(&all);
        for second in 0..6 {
            assert_eq!(merged.percentiles(second, [0.5, 0.99]), whole.percentiles(second, [0.5, 0.99]));
        }
        assert_eq!(merged.percentiles(0, [0.5]), None);
        let [p50, p100] = merged.percentiles(2, [0.5, 1.0]).expect("recorded");
        assert!((p50 - 25.0).abs() < 0.5 && (p100 - 50.0).abs() < 1.0, "{p50} {p100}");
    }

    proptest! {
        #[test]
        fn a_bucket_is_within_its_promise(micros in 0u64..90_000_000_000) {
            let middle = middle_us(bucket(micros));
            prop_assert!((middle - micros as f64).abs() <= 0.016 * micros as f64, "{micros} as {middle}");
        }

        #[test]
        fn buckets_keep_the_order(one in 0u64..90_000_000_000, more in 0u64..90_000_000_000) {
            prop_assert!(bucket(one) <= bucket(one + more));
            let _ = bucket(u64::MAX);
        }
    }
}
