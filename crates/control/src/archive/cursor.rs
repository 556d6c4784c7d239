//! What the archives of one subject say of one meter, point by point, the open ones last.

use std::ops::Range;

use super::{
    subject::Archive,
    sums::{CountSums, LevelSums, Sums},
    track::{Points, Track},
};
use crate::meters::{Distribution, Meter, MeterKind};

/// A place among the points of one resolution, closed and open.
#[derive(Debug)]
pub(super) struct Cursor<'a> {
    meter: Meter,
    /// Positions of the meter's counts that are asked for.
    cells: Range<usize>,
    finest_us: u64,
    closed: Points<'a>,
    /// The resolution's open point, and the finest one's where it has not been handed on yet.
    open: [Option<Open<'a>>; 2],
}

/// A point that is still added to.
#[derive(Clone, Copy, Debug)]
struct Open<'a> {
    at_us: u64,
    is_finest: bool,
    sums: &'a Sums,
}

/// What the points of several subjects that begin at one time say of a meter, added up.
#[derive(Debug, Default)]
pub(super) struct Moment {
    /// Time measured, and that in which the meter was, in microseconds: subjects are measured side by side, so the
    /// longest of any.
    pub(super) measured_us: u64,
    pub(super) told_us: u64,
    /// Extremes are those of the last subject.
    pub(super) count: CountSums,
    /// Samples are taken side by side, too. Extremes are those of the last subject.
    pub(super) level: LevelSums,
}

impl<'a> Cursor<'a> {
    /// At the first point from `from_us` on, a multiple of the step, of the resolution at `index`.
    pub(super) fn new(
        archive: &'a Archive,
        index: usize,
        meter: Meter,
        cells: Range<usize>,
        from_us: u64,
    ) -> Self {
        let (finest, track) = (&archive.tracks()[0], &archive.tracks()[index]);
        let section = match meter.kind() {
            MeterKind::Count | MeterKind::Level => 0,
            MeterKind::Distribution => 1 + meter.offset(),
        };
        let open = |track: &'a Track| {
            let (slot, sums) = track.open()?;
            let at_us = slot * track.step_us();
            (at_us >= from_us).then_some(Open { at_us, is_finest: track.is_finest(), sums })
        };
        Self {
            meter,
            cells,
            finest_us: finest.step_us(),
            closed: track.points_from(from_us / track.step_us(), section),
            open: [open(track), if track.is_finest() { None } else { open(finest) }],
        }
    }

    /// Where the next point begins, in microseconds.
    pub(super) fn at_us(&self) -> Option<u64> {
        self.closed.at_us().or_else(|| self.open.iter().flatten().next().map(|open| open.at_us))
    }

    /// Adds the next point to what others say of the same time; of a distribution, to `distribution`.
    pub(super) fn read(&mut self, moment: &mut Moment, distribution: &mut Distribution) {
        let is_closed = self.closed.at_us().is_some();
        match (self.meter.kind(), is_closed) {
            (MeterKind::Count, true) => {
                let (measured_us, count) = self.closed.read_count(&self.cells);
                moment.add_count(measured_us, count);
            }
            (MeterKind::Level, true) => {
                let (measured_us, level) = self.closed.read_level(self.meter.offset());
                moment.add_level(measured_us, level);
            }
            (MeterKind::Distribution, true) => moment.measure(self.closed.add_distribution(distribution)),
            (_, false) => self.read_open(moment, distribution),
        }
    }

    fn read_open(&mut self, moment: &mut Moment, distribution: &mut Distribution) {
        let Some(open) = self.open.iter_mut().find_map(Option::take) else { return };
        let (measured_us, sums) = (open.sums.measured_us, open.sums);
        match self.meter.kind() {
            MeterKind::Count => {
                let mut count = sums.count(self.cells.clone());
                if open.is_finest {
                    // It has no extremes yet.
                    count = count.map(|count| CountSums::settled(count.sum, measured_us, self.finest_us));
                }
                moment.add_count(measured_us, count);
            }
            MeterKind::Level => moment.add_level(measured_us, sums.levels[self.meter.offset()]),
            MeterKind::Distribution => {
                let ours = &sums.distributions[self.meter.offset()];
                distribution.merge(ours.buckets(), ours.sum_nanos());
                moment.measure(measured_us);
            }
        }
    }
}

impl Moment {
    fn measure(&mut self, measured_us: u64) {
        self.measured_us = self.measured_us.max(measured_us);
        self.told_us = self.told_us.max(measured_us);
    }

    fn add_count(&mut self, measured_us: u64, count: Option<CountSums>) {
        let Some(count) = count else {
            self.measured_us = self.measured_us.max(measured_us);
            return;
        };
        self.measure(measured_us);
        self.count = CountSums { sum: self.count.sum.saturating_add(count.sum), ..count };
    }

    fn add_level(&mut self, measured_us: u64, level: LevelSums) {
        self.measure(measured_us);
        if level.samples > 0 {
            let (samples, sum) =
                (self.level.samples.max(level.samples), self.level.sum.saturating_add(level.sum));
            self.level = LevelSums { samples, sum, ..level };
        }
    }
}
