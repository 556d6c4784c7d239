//! What was measured of one subject in one tick.

use std::time::Duration;

use crate::{
    knobs::Scope,
    meters::{Distribution, Meter, MeterKind},
};

/// The counts, levels and distributions of one subject in one tick, usually a second.
///
/// A new reading has counted nothing and has no levels: a level that is not given was not
/// measured, and a count that could not be is said by [`Reading::unmeasured`].
#[derive(Clone, Debug)]
pub struct Reading {
    scope: Scope,
    pub(super) counts: Box<[u64]>,
    /// Bits of counts that were not measured.
    pub(super) unmeasured: u64,
    pub(super) levels: Box<[Option<u64>]>,
    pub(super) distributions: Box<[Distribution]>,
}

// A bit for each count.
const _: () = {
    let mut i = 0;
    while i < Scope::ALL.len() {
        assert!(Meter::cells_of(Scope::ALL[i], MeterKind::Count) <= 64);
        i += 1;
    }
};

impl Reading {
    /// A reading of `scope` with nothing in it.
    #[must_use]
    pub fn new(scope: Scope) -> Self {
        Self {
            scope,
            counts: vec![0; Meter::cells_of(scope, MeterKind::Count)].into(),
            unmeasured: 0,
            levels: vec![None; Meter::cells_of(scope, MeterKind::Level)].into(),
            distributions: vec![Distribution::default(); Meter::cells_of(scope, MeterKind::Distribution)]
                .into(),
        }
    }

    /// What kind of subject it is of.
    #[must_use]
    pub const fn scope(&self) -> Scope {
        self.scope
    }

    /// Counts `n` more.
    ///
    /// # Panics
    ///
    /// As the other methods: if the meter is of another scope or kind, a mistake in the program.
    pub fn add(&mut self, meter: Meter, n: u64) {
        self.add_labelled(meter, 0, n);
    }

    /// Counts `n` more under the meter's label at `label`.
    pub fn add_labelled(&mut self, meter: Meter, label: usize, n: u64) {
        assert!(label < meter.cells(), "{} has no label {label}", meter.name());
        let cell = &mut self.counts[self.scope.position(meter, MeterKind::Count) + label];
        *cell = cell.saturating_add(n);
    }

    /// The meter's count could not be read. A point of which a part could be is taken for measured.
    pub fn unmeasured(&mut self, meter: Meter) {
        let first = self.scope.position(meter, MeterKind::Count);
        for cell in first..first + meter.cells() {
            self.unmeasured |= 1 << cell;
        }
    }

    /// The level at the end of the tick.
    pub fn level(&mut self, meter: Meter, value: u64) {
        self.levels[self.scope.position(meter, MeterKind::Level)] = Some(value);
    }

    /// Adds to the level at the end of the tick, where several things have one path.
    pub fn add_level(&mut self, meter: Meter, value: u64) {
        let level = &mut self.levels[self.scope.position(meter, MeterKind::Level)];
        *level = Some(level.unwrap_or(0).saturating_add(value));
    }

    /// Records one time.
    pub fn record(&mut self, meter: Meter, time: Duration) {
        self.distribution(meter).record(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), 1);
    }

    /// The distribution of a meter, to add to.
    pub fn distribution(&mut self, meter: Meter) -> &mut Distribution {
        &mut self.distributions[self.scope.position(meter, MeterKind::Distribution)]
    }

    /// Empties it for the next tick.
    pub fn clear(&mut self) {
        self.counts.fill(0);
        self.unmeasured = 0;
        self.levels.fill(None);
        self.distributions.iter_mut().for_each(Distribution::clear);
    }
}

impl Scope {
    /// Position of a meter's first cell among those of its kind.
    fn position(self, meter: Meter, kind: MeterKind) -> usize {
        assert!(
            meter.scope() == self && meter.kind() == kind,
            "{} is no {kind:?} of a {}",
            meter.name(),
            self.name()
        );
        meter.offset()
    }
}
