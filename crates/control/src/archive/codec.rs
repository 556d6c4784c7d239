//! Points as bytes: sparse, every number as a variable-length integer (LEB128).
//!
//! ```text
//! scalars       unmeasured counts as bits
//!               each level: samples; if any: sum; if more than one: minimum, maximum
//!               each count that is not 0: distance from the one before (from 1), sum,
//!                   and but for the finest resolution: minimum, maximum
//!               0
//! distribution  number of buckets that are not empty; if any: sum in ns,
//!               each bucket: distance from the one before (from 0), count
//! ```

use super::sums::{CountSums, LevelSums, Sums};
use crate::{
    knobs::Scope,
    meters::{BUCKETS, Distribution, Meter, MeterKind},
};

/// Most bytes of a number.
const NUMBER_BYTES: usize = 10;

/// Most bytes of a point.
pub(super) const fn point_bytes_max(scope: Scope) -> usize {
    let counts = Meter::cells_of(scope, MeterKind::Count) * (1 + 3 * NUMBER_BYTES);
    let levels = Meter::cells_of(scope, MeterKind::Level) * 4 * NUMBER_BYTES;
    let distribution = 2 * NUMBER_BYTES + BUCKETS * (1 + NUMBER_BYTES);
    let distributions = Meter::cells_of(scope, MeterKind::Distribution) * distribution;
    2 * NUMBER_BYTES + counts + 1 + levels + distributions
}

/// Appends `n`.
pub(super) fn put(out: &mut Vec<u8>, mut n: u64) {
    while n >= 0x80 {
        #[expect(clippy::cast_possible_truncation, reason = "the low seven bits")]
        out.push(n as u8 | 0x80);
        n >>= 7;
    }
    #[expect(clippy::cast_possible_truncation, reason = "below 0x80")]
    out.push(n as u8);
}

/// Reads numbers from the front; `None` once the bytes end early or hold no number.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(super) const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// What has not been read.
    pub(super) const fn rest(&self) -> &'a [u8] {
        self.bytes
    }

    pub(super) fn number(&mut self) -> Option<u64> {
        let (first, rest) = self.bytes.split_first()?;
        self.bytes = rest;
        if *first < 0x80 {
            return Some(u64::from(*first));
        }
        let mut n = u64::from(*first & 0x7f);
        let mut shift = 7;
        loop {
            let (byte, rest) = self.bytes.split_first()?;
            self.bytes = rest;
            let bits = u64::from(*byte & 0x7f);
            if shift > 63 || (shift == 63 && bits > 1) {
                return None;
            }
            n |= bits << shift;
            if *byte < 0x80 {
                return Some(n);
            }
            shift += 7;
        }
    }
}

/// Appends counts and levels. `is_finest`: without extremes, since they are the sums.
pub(super) fn put_scalars(out: &mut Vec<u8>, sums: &Sums, is_finest: bool) {
    put(out, sums.unmeasured);
    for level in &sums.levels {
        put(out, level.samples);
        if level.samples > 0 {
            put(out, level.sum);
        }
        if level.samples > 1 {
            put(out, level.min);
            put(out, level.max);
        }
    }
    let mut before = -1_i64;
    for (cell, count) in (0_i64..).zip(&sums.counts) {
        if count.sum == 0 {
            continue;
        }
        put(out, (cell - before).unsigned_abs());
        put(out, count.sum);
        if !is_finest {
            put(out, count.min);
            put(out, count.max);
        }
        before = cell;
    }
    put(out, 0);
}

/// A piece of the scalars of a point.
pub(super) enum Scalar {
    /// Bits of counts that were not measured; comes first.
    Unmeasured(u64),
    /// The level at a position.
    Level(usize, LevelSums),
    /// The count at a position; those that are 0 are left out. In the finest resolution without extremes.
    Count(usize, CountSums),
}

/// Reads the scalars of one point; positions of counts may be any.
pub(super) fn read_scalars(
    reader: &mut Reader<'_>,
    levels: usize,
    is_finest: bool,
    mut see: impl FnMut(Scalar),
) -> Option<()> {
    see(Scalar::Unmeasured(reader.number()?));
    for position in 0..levels {
        let samples = reader.number()?;
        let sum = if samples > 0 { reader.number()? } else { 0 };
        let (min, max) = if samples > 1 { (reader.number()?, reader.number()?) } else { (sum, sum) };
        see(Scalar::Level(position, LevelSums { samples, sum, min, max }));
    }
    let mut next = 0_usize;
    loop {
        let distance = reader.number()?;
        if distance == 0 {
            return Some(());
        }
        next = next.checked_add(usize::try_from(distance).ok()?)?;
        let sum = reader.number()?;
        let (min, max) = if is_finest { (0, 0) } else { (reader.number()?, reader.number()?) };
        see(Scalar::Count(next - 1, CountSums { sum, min, max }));
    }
}

/// Appends a distribution.
pub(super) fn put_distribution(out: &mut Vec<u8>, distribution: &Distribution) {
    let buckets = distribution.buckets().count();
    put(out, buckets as u64);
    if buckets == 0 {
        return;
    }
    put(out, u64::try_from(distribution.sum_nanos()).unwrap_or(u64::MAX));
    let mut next = 0;
    for (bucket, n) in distribution.buckets() {
        put(out, (bucket - next) as u64);
        put(out, n);
        next = bucket + 1;
    }
}

/// Reads the distribution of one point: each bucket with its count; gives the sum in nanoseconds.
pub(super) fn read_distribution(reader: &mut Reader<'_>, mut see: impl FnMut(usize, u64)) -> Option<u64> {
    let buckets = reader.number()?;
    if buckets == 0 {
        return Some(0);
    }
    let sum_nanos = reader.number()?;
    let mut next = 0_usize;
    for _ in 0..buckets {
        let bucket = next.checked_add(usize::try_from(reader.number()?).ok()?)?;
        if bucket >= BUCKETS {
            return None;
        }
        see(bucket, reader.number()?);
        next = bucket + 1;
    }
    Some(sum_nanos)
}

/// Reads the scalars of one point into `sums`, which are clear; `None` also if a count is none of theirs.
pub(super) fn read_scalars_into(reader: &mut Reader<'_>, sums: &mut Sums, is_finest: bool) -> Option<()> {
    let mut sound = true;
    read_scalars(reader, sums.levels.len(), is_finest, |scalar| match scalar {
        Scalar::Unmeasured(bits) => sums.unmeasured = bits,
        Scalar::Level(position, level) => sums.levels[position] = level,
        Scalar::Count(cell, count) => match sums.counts.get_mut(cell) {
            Some(sums) => *sums = count,
            None => sound = false,
        },
    })?;
    sound.then_some(())
}

/// Reads the distribution of one point into one that is clear.
pub(super) fn read_distribution_into(reader: &mut Reader<'_>, distribution: &mut Distribution) -> Option<()> {
    let mut buckets = Vec::new();
    let sum = read_distribution(reader, |bucket, n| buckets.push((bucket, n)))?;
    distribution.merge(buckets, u128::from(sum));
    Some(())
}

/// Reads a whole point of the finest resolution, as [`Closed`](super::Closed) has it, into `sums`, which
/// are clear.
pub(super) fn read_finest_point(bytes: &[u8], sums: &mut Sums) -> Option<()> {
    let mut reader = Reader::new(bytes);
    sums.measured_us = reader.number()?;
    read_scalars_into(&mut reader, sums, true)?;
    for distribution in &mut sums.distributions {
        read_distribution_into(&mut reader, distribution)?;
    }
    reader.rest().is_empty().then_some(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn numbers_read_back(numbers in prop::collection::vec(any::<u64>().prop_flat_map(|n| (0..64_u32).prop_map(move |s| n >> s)), 0..20)) {
            let mut bytes = Vec::new();
            for n in &numbers {
                put(&mut bytes, *n);
            }
            let mut reader = Reader::new(&bytes);
            for n in &numbers {
                prop_assert_eq!(reader.number(), Some(*n));
            }
            prop_assert_eq!(reader.number(), None);
        }

        #[test]
        fn distributions_read_back(values in prop::collection::vec((0..1_u64 << 40, 1..1000_u64), 0..60)) {
            let mut distribution = Distribution::default();
            for (nanos, n) in values {
                distribution.record(nanos, n);
            }
            let mut bytes = Vec::new();
            put_distribution(&mut bytes, &distribution);
            let (mut back, mut buckets) = (Distribution::default(), Vec::new());
            let mut reader = Reader::new(&bytes);
            let sum = read_distribution(&mut reader, |bucket, n| buckets.push((bucket, n))).unwrap();
            back.merge(buckets, sum.into());
            prop_assert_eq!(back, distribution);
            prop_assert!(reader.rest().is_empty());
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200), is_finest: bool) {
            let _ = read_scalars(&mut Reader::new(&bytes), 2, is_finest, |_| {});
            let _ = read_distribution(&mut Reader::new(&bytes), |bucket, _| assert!(bucket < BUCKETS));
        }
    }
}
