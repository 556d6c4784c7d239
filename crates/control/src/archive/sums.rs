//! Readings added up over one point.

use std::ops::Range;

use super::reading::Reading;
use crate::{
    knobs::Scope,
    meters::{BUCKETS, Distribution, Meter, MeterKind},
};

/// What is known of one point.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Sums {
    /// Time measured, in microseconds.
    pub(super) measured_us: u64,
    /// Bits of counts that no reading had measured.
    pub(super) unmeasured: u64,
    pub(super) counts: Box<[CountSums]>,
    pub(super) levels: Box<[LevelSums]>,
    pub(super) distributions: Box<[Distribution]>,
}

/// A count over one point.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct CountSums {
    pub(super) sum: u64,
    /// Fewest events in a point of the finest resolution, as if that had been measured for its
    /// whole step.
    pub(super) min: u64,
    /// Most events, likewise.
    pub(super) max: u64,
}

/// A level over one point; nothing was sampled while `samples` is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LevelSums {
    pub(super) samples: u64,
    pub(super) sum: u64,
    pub(super) min: u64,
    pub(super) max: u64,
}

impl Sums {
    /// Nothing measured.
    pub(super) fn new(scope: Scope) -> Self {
        Self {
            measured_us: 0,
            unmeasured: u64::MAX,
            counts: vec![CountSums::default(); Meter::cells_of(scope, MeterKind::Count)].into(),
            levels: vec![LevelSums::default(); Meter::cells_of(scope, MeterKind::Level)].into(),
            distributions: vec![Distribution::default(); Meter::cells_of(scope, MeterKind::Distribution)]
                .into(),
        }
    }

    /// Memory of the sums of a subject, in bytes.
    pub(super) const fn bytes(scope: Scope) -> usize {
        size_of::<Self>()
            + Meter::cells_of(scope, MeterKind::Count) * size_of::<CountSums>()
            + Meter::cells_of(scope, MeterKind::Level) * size_of::<LevelSums>()
            + Meter::cells_of(scope, MeterKind::Distribution) * (size_of::<Distribution>() + BUCKETS * 8)
    }

    /// The counts at `cells`, added up; `None` where they were not measured. Extremes are those of
    /// one cell.
    pub(super) fn count(&self, cells: Range<usize>) -> Option<CountSums> {
        if self.unmeasured >> cells.start & 1 == 1 {
            return None;
        }
        self.counts.get(cells).map(|counts| {
            counts.iter().fold(CountSums::default(), |total, count| CountSums {
                sum: total.sum.saturating_add(count.sum),
                ..*count
            })
        })
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.measured_us = 0;
        self.unmeasured = u64::MAX;
        self.counts.fill(CountSums::default());
        self.levels.fill(LevelSums::default());
        self.distributions.iter_mut().for_each(Distribution::clear);
    }

    /// Adds a reading of `measured_us` to a point of the finest resolution, whose extremes are
    /// those of its sum.
    pub(super) fn add_reading(&mut self, reading: &Reading, measured_us: u64) {
        self.measured_us = self.measured_us.saturating_add(measured_us);
        self.unmeasured &= reading.unmeasured;
        for (sums, n) in self.counts.iter_mut().zip(&reading.counts) {
            sums.sum = sums.sum.saturating_add(*n);
        }
        for (sums, value) in self.levels.iter_mut().zip(&reading.levels) {
            if let Some(value) = *value {
                sums.add(LevelSums { samples: 1, sum: value, min: value, max: value });
            }
        }
        for (sums, other) in self.distributions.iter_mut().zip(&reading.distributions) {
            if other.count() > 0 {
                sums.merge(other.buckets(), other.sum_nanos());
            }
        }
    }

    /// Sets the extremes of the counts of a point of the finest resolution from their sums.
    pub(super) fn settle(&mut self, step_us: u64) {
        for count in &mut self.counts {
            *count = CountSums::settled(count.sum, self.measured_us, step_us);
        }
    }

    /// Adds a later point, whose extremes are settled.
    pub(super) fn add(&mut self, other: &Self) {
        let is_first = self.measured_us == 0;
        self.measured_us = self.measured_us.saturating_add(other.measured_us);
        for (cell, (sums, count)) in self.counts.iter_mut().zip(&other.counts).enumerate() {
            if other.unmeasured >> cell & 1 == 1 {
                continue;
            }
            if is_first || self.unmeasured >> cell & 1 == 1 {
                (sums.min, sums.max) = (count.min, count.max);
            } else {
                (sums.min, sums.max) = (sums.min.min(count.min), sums.max.max(count.max));
            }
            sums.sum = sums.sum.saturating_add(count.sum);
        }
        self.unmeasured &= other.unmeasured;
        for (sums, level) in self.levels.iter_mut().zip(&other.levels) {
            sums.add(*level);
        }
        for (sums, distribution) in self.distributions.iter_mut().zip(&other.distributions) {
            if distribution.count() > 0 {
                sums.merge(distribution.buckets(), distribution.sum_nanos());
            }
        }
    }
}

impl CountSums {
    /// A count of one point of the finest resolution: its extremes are its sum, as if the whole
    /// step had been measured.
    pub(super) fn settled(sum: u64, measured_us: u64, step_us: u64) -> Self {
        let measured = u128::from(measured_us.max(1));
        let whole = (u128::from(sum) * u128::from(step_us) + measured / 2) / measured;
        let whole = u64::try_from(whole).unwrap_or(u64::MAX);
        Self { sum, min: whole, max: whole }
    }
}

impl LevelSums {
    pub(super) fn add(&mut self, other: Self) {
        if other.samples == 0 {
            return;
        }
        (self.min, self.max) = if self.samples == 0 {
            (other.min, other.max)
        } else {
            (self.min.min(other.min), self.max.max(other.max))
        };
        self.samples = self.samples.saturating_add(other.samples);
        self.sum = self.sum.saturating_add(other.sum);
    }
}
