//! A distribution of times as log-linear buckets: mergeable, bounded, within 5 % of the value.
//!
//! Each octave (factor of two) from 2^10 ns (about 1 µs) to 2^46 ns (about 19.5 h) is cut into 11
//! equal buckets, 396 in all; the middle of a bucket is at most 4.6 % from any value in it. What
//! is below counts in the first bucket, what is above in the last.

use std::ops::Range;

const FIRST_OCTAVE: u32 = 10;
const OCTAVES: usize = 36;
const CUTS: u64 = 11;

/// Number of buckets of a distribution.
pub const BUCKETS: usize = OCTAVES * CUTS as usize;

/// The bucket of a value in nanoseconds, 0 to [`BUCKETS`]` - 1`.
///
/// ```
/// use tidegate_control::meters::{bucket, bucket_bounds};
///
/// // 16 ms lie in the octave from 2^23 ns (8.4 ms): (16_000_000 - 2^23) * 11 / 2^23 = 9.98,
/// // so bucket 9 of octave 23 - 10 = 13: 13 * 11 + 9.
/// assert_eq!(bucket(16_000_000), 152);
/// let (low, high) = bucket_bounds(152);
/// assert!(low <= 16_000_000 && 16_000_000 < high);
/// ```
#[must_use]
pub const fn bucket(nanos: u64) -> usize {
    if nanos < 1 << FIRST_OCTAVE {
        return 0;
    }
    let octave = nanos.ilog2();
    let index = (octave - FIRST_OCTAVE) as usize;
    if index >= OCTAVES {
        return BUCKETS - 1;
    }
    // Below 2^46 * 11, so nothing overflows.
    let cut = ((nanos - (1 << octave)) * CUTS) >> octave;
    index * CUTS as usize + cut as usize
}

/// The range of a bucket in nanoseconds: from (inclusive), to (exclusive).
#[must_use]
pub const fn bucket_bounds(bucket: usize) -> (u64, u64) {
    let (octave, cut) = (FIRST_OCTAVE + (bucket / CUTS as usize) as u32, bucket as u64 % CUTS);
    let base = 1_u64 << octave;
    // Rounded up: the smallest value that `bucket` puts there.
    (base + (cut * base).div_ceil(CUTS), base + ((cut + 1) * base).div_ceil(CUTS))
}

/// Counts by bucket, and the sum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Distribution {
    counts: Box<[u64; BUCKETS]>,
    /// From the first bucket that is not empty to behind the last, so that nobody walks the others.
    filled: Range<usize>,
    count: u64,
    sum_nanos: u128,
}

impl Default for Distribution {
    fn default() -> Self {
        Self { counts: Box::new([0; BUCKETS]), filled: 0..0, count: 0, sum_nanos: 0 }
    }
}

impl Distribution {
    /// Counts `n` values of `nanos`.
    pub fn record(&mut self, nanos: u64, n: u64) {
        self.add(bucket(nanos), n);
        self.sum_nanos += u128::from(nanos) * u128::from(n);
    }

    /// Adds what a shard has counted: counts by bucket and the sum in nanoseconds.
    pub fn merge(&mut self, counts: impl IntoIterator<Item = (usize, u64)>, sum_nanos: u128) {
        for (bucket, n) in counts {
            self.add(bucket, n);
        }
        self.sum_nanos += sum_nanos;
    }

    /// Counts `n` more in a bucket, whose values are added by [`Distribution::add_nanos`].
    pub(crate) fn add(&mut self, bucket: usize, n: u64) {
        if n == 0 {
            return;
        }
        self.counts[bucket] += n;
        self.count += n;
        if self.filled.is_empty() {
            self.filled = bucket..bucket + 1;
        } else {
            self.filled = self.filled.start.min(bucket)..self.filled.end.max(bucket + 1);
        }
    }

    /// Adds to the sum of the values, in nanoseconds.
    pub(crate) const fn add_nanos(&mut self, sum_nanos: u128) {
        self.sum_nanos += sum_nanos;
    }

    /// Adds what has come since `before`, an earlier state of `now`.
    pub fn merge_difference(&mut self, now: &Self, before: &Self) {
        for (bucket, n) in now.buckets() {
            self.add(bucket, n.saturating_sub(before.counts[bucket]));
        }
        self.sum_nanos += now.sum_nanos.saturating_sub(before.sum_nanos);
    }

    /// Forgets every value.
    pub fn clear(&mut self) {
        self.counts[self.filled.clone()].fill(0);
        self.filled = 0..0;
        self.count = 0;
        self.sum_nanos = 0;
    }

    /// Number of values.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Sum of the values in nanoseconds.
    #[must_use]
    pub const fn sum_nanos(&self) -> u128 {
        self.sum_nanos
    }

    /// Buckets that are not empty, in order: index and count.
    pub fn buckets(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        let first = self.filled.start;
        let filled = self.counts[self.filled.clone()].iter().copied().enumerate();
        filled.filter(|(_, n)| *n > 0).map(move |(at, n)| (first + at, n))
    }

    /// The value in nanoseconds below which a share `q` (0 to 1) of the values lies, as the middle
    /// of its bucket; `None` without values.
    #[must_use]
    pub fn quantile(&self, q: f64) -> Option<u64> {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "a rank among counted values"
        )]
        let rank = ((q.clamp(0.0, 1.0) * self.count as f64).ceil() as u64).max(1);
        let mut seen = 0;
        self.buckets().find_map(|(bucket, n)| {
            seen += n;
            (seen >= rank).then(|| {
                let (low, high) = bucket_bounds(bucket);
                u64::midpoint(low, high)
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn buckets_tile_the_range() {
        for b in 1..BUCKETS {
            assert_eq!(bucket_bounds(b - 1).1, bucket_bounds(b).0);
            assert_eq!(bucket(bucket_bounds(b).0), b);
            assert_eq!(bucket(bucket_bounds(b).1 - 1), b);
        }
        assert_eq!((bucket(0), bucket(u64::MAX)), (0, BUCKETS - 1));
    }

    proptest! {
        #[test]
        fn a_quantile_is_within_five_per_cent_of_the_sorted_values(
            mut values in prop::collection::vec(1024_u64..1 << 45, 1..200), q in 0.0..=1.0_f64,
        ) {
            let mut distribution = Distribution::default();
            for value in &values {
                distribution.record(*value, 1);
            }
            values.sort_unstable();
            let rank = ((q * values.len() as f64).ceil() as usize).clamp(1, values.len());
            let (exact, found) = (values[rank - 1] as f64, distribution.quantile(q).unwrap() as f64);
            prop_assert!((found - exact).abs() <= 0.05 * exact, "{found} for {exact}");
        }
    }
}
