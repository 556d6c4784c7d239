//! The archives of one subject: what comes in is added to every resolution.

use super::{
    codec,
    layout::Layout,
    reading::Reading,
    sums::Sums,
    track::{ClosedPoint, Track},
};
use crate::{Timestamp, knobs::Scope};

/// Points of the finest resolution by which the clock may have been set back, as a restart can
/// find it: readings then go on in the next point. Set back by more, later points are forgotten.
const HELD_POINTS: u64 = 60;

/// The archives of one subject (a host, an application, a class or a server) at every resolution.
///
/// A point of the finest resolution holds what was read in its time; when it is over, it is added
/// to the open point of each coarser one. Time in which nothing was read has no points.
///
/// Cost: [`Archive::record`] is some additions for each meter and each bucket that is not empty,
/// for each resolution. Memory: see [`Archive::bytes_max`].
#[derive(Clone, Debug)]
pub struct Archive {
    scope: Scope,
    tracks: Vec<Track>,
    scratch: Vec<u8>,
}

/// A point that will not change any more, to be kept where it survives.
#[derive(Clone, Copy, Debug)]
pub struct Closed<'a> {
    /// Position of its resolution in the layout.
    pub resolution: usize,
    /// Its start in steps of its resolution since the epoch.
    pub slot: u64,
    /// The point as [`Archive::restore`] reads it.
    pub bytes: &'a [u8],
}

/// A kept point that cannot be taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the point is broken, or not later than the one before it")]
pub struct Broken;

impl Archive {
    /// Archives without points.
    #[must_use]
    pub fn new(scope: Scope, layout: &Layout) -> Self {
        let tracks = layout
            .resolutions()
            .iter()
            .enumerate()
            .map(|(index, resolution)| Track::new(scope, resolution, layout.point_bytes(), index == 0))
            .collect();
        Self { scope, tracks, scratch: Vec::new() }
    }

    /// What kind of subject it is of.
    #[must_use]
    pub const fn scope(&self) -> Scope {
        self.scope
    }

    /// Takes the reading of the tick `from..to`. Ticks follow one another; each counts where its
    /// middle lies.
    ///
    /// # Panics
    ///
    /// If the reading is of another scope.
    pub fn record(&mut self, from: Timestamp, to: Timestamp, reading: &Reading) {
        self.record_and(from, to, reading, |_| {});
    }

    /// As [`Archive::record`]; `closed` gets every point that will not change any more.
    pub fn record_and(
        &mut self,
        from: Timestamp,
        to: Timestamp,
        reading: &Reading,
        mut closed: impl FnMut(Closed<'_>),
    ) {
        assert_eq!(reading.scope(), self.scope, "a reading of another scope");
        let to_us = to.as_nanos() / 1000;
        let measured_us = (to.since(from).as_nanos() / 1000).clamp(1, u128::from(u32::MAX)) as u64;
        let slot = to_us.saturating_sub(measured_us.div_ceil(2)) / self.step_us();
        self.open_for(slot, &mut closed).add_reading(reading, measured_us);
    }

    /// Adds a point of the finest resolution that other archives of the same scope and layout gave, as if
    /// its readings came now: one that begins before the last that is here ended goes on in the next.
    ///
    /// # Errors
    ///
    /// [`Broken`]; nothing changes.
    pub fn append(
        &mut self,
        slot: u64,
        bytes: &[u8],
        mut closed: impl FnMut(Closed<'_>),
    ) -> Result<(), Broken> {
        let mut sums = Sums::new(self.scope);
        codec::read_finest_point(bytes, &mut sums).ok_or(Broken)?;
        self.open_for(slot, &mut closed).add(&sums);
        Ok(())
    }

    /// The open point of the finest resolution for what was measured at `slot`.
    fn open_for(&mut self, mut slot: u64, closed: &mut impl FnMut(Closed<'_>)) -> &mut Sums {
        let next = self.next_slot();
        if slot < next {
            if next - slot <= HELD_POINTS {
                slot = next;
            } else {
                self.set_back(slot);
            }
        }
        if self.tracks[0].open().is_some_and(|(open, _)| open != slot) {
            self.close_finest(closed);
        }
        self.tracks[0].open_at(slot)
    }

    /// The earliest slot of the finest resolution that can still be added to.
    fn next_slot(&self) -> u64 {
        let finest = &self.tracks[0];
        finest.open().map(|(slot, _)| slot).or(finest.last_closed().map(|last| last + 1)).unwrap_or(0)
    }

    /// Closes the open point of the finest resolution and adds it to the coarser ones.
    fn close_finest(&mut self, closed: &mut impl FnMut(Closed<'_>)) {
        let step_us = self.step_us();
        let Some((finest, coarser)) = self.tracks.split_first_mut() else { return };
        let Some((slot, _)) = finest.open() else { return };
        finest.open_at(slot).settle(step_us);
        for (index, track) in coarser.iter_mut().enumerate() {
            let Some((_, sums)) = finest.open() else { return };
            track.add(slot * step_us, sums, &mut self.scratch, |point| {
                closed(Closed { resolution: index + 1, slot: point.slot, bytes: point.bytes });
            });
        }
        finest.close(&mut self.scratch, |point| {
            closed(Closed { resolution: 0, slot: point.slot, bytes: point.bytes });
        });
    }

    /// The clock was set back to `slot` of the finest resolution: what is later never happened.
    fn set_back(&mut self, slot: u64) {
        let at_us = slot * self.step_us();
        for track in &mut self.tracks {
            let from = at_us / track.step_us();
            track.forget_from(from);
        }
        self.resume();
    }

    /// Takes back a point that [`Archive::record_and`] gave, oldest first; [`Archive::resume`] when
    /// all are back.
    ///
    /// # Errors
    ///
    /// [`Broken`]; nothing changes.
    pub fn restore(&mut self, resolution: usize, slot: u64, bytes: &[u8]) -> Result<(), Broken> {
        self.tracks.get_mut(resolution).and_then(|track| track.push(slot, bytes)).ok_or(Broken)
    }

    /// Closes the open point of the finest resolution, so that `closed` has everything: for an end
    /// in good order. Readings of the same time go on in the next point.
    pub fn finish(&mut self, mut closed: impl FnMut(Closed<'_>)) {
        self.close_finest(&mut closed);
    }

    /// Makes the open points of the coarser resolutions, which nobody keeps, from the points of
    /// the finer ones.
    pub fn resume(&mut self) {
        for index in 1..self.tracks.len() {
            let (finer, rest) = self.tracks.split_at_mut(index);
            let (Some(track), Some(finest)) = (rest.first_mut(), finer.first()) else { return };
            let Some(last) = finest.last_closed() else { return };
            let slot = last * finest.step_us() / track.step_us();
            if track.last_closed().is_some_and(|closed| closed >= slot) {
                continue;
            }
            let at_us = slot * track.step_us();
            track.abandon();
            let sums = track.open_at(slot);
            let reaches =
                |finer: &&Track| finer.oldest().is_some_and(|oldest| oldest * finer.step_us() <= at_us);
            let source = finer.iter().find(reaches).unwrap_or(finest);
            source.sums_from(at_us / source.step_us(), |_, point| sums.add(point));
            if let Some((_, open)) = source.open().filter(|_| !source.is_finest()) {
                sums.add(open);
            }
        }
    }

    /// Memory held, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + self.scratch.capacity() + self.tracks.iter().map(Track::bytes).sum::<usize>()
    }

    /// Memory that archives of this scope and layout never exceed, in bytes.
    #[must_use]
    pub fn bytes_max(scope: Scope, layout: &Layout) -> usize {
        let tracks: usize = layout
            .resolutions()
            .iter()
            .map(|resolution| Track::bytes_max(scope, resolution, layout.point_bytes()))
            .sum();
        size_of::<Self>() + 2 * codec::point_bytes_max(scope) + tracks
    }

    /// Closed points of a resolution.
    #[must_use]
    pub fn points(&self, resolution: usize) -> usize {
        self.tracks.get(resolution).map_or(0, Track::len)
    }

    pub(super) fn tracks(&self) -> &[Track] {
        &self.tracks
    }

    fn step_us(&self) -> u64 {
        self.tracks[0].step_us()
    }
}

impl Track {
    /// Adds a point of the finest resolution that begins at `at_us`; what it shows to be over is closed.
    fn add(&mut self, at_us: u64, sums: &Sums, scratch: &mut Vec<u8>, closed: impl FnOnce(ClosedPoint<'_>)) {
        let slot = at_us / self.step_us();
        if self.open().is_some_and(|(open, _)| open != slot) {
            self.close(scratch, closed);
        }
        self.open_at(slot).add(sums);
    }
}
