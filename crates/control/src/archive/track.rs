//! The points of one resolution: the closed ones as bytes, in chunks, and the open one.

use std::{
    collections::{VecDeque, vec_deque},
    ops::Range,
    slice,
    sync::Arc,
};

use super::{
    codec::{self, Reader, Scalar},
    layout::Resolution,
    sums::{CountSums, LevelSums, Sums},
};
use crate::{
    knobs::Scope,
    meters::{Distribution, Meter, MeterKind},
};

/// Points of a chunk. The oldest points go a chunk at a time.
const CHUNK_POINTS: usize = 60;

/// Bytes after which a chunk is full whatever its points.
const CHUNK_BYTES: usize = 16 * 1024;
/// Most sections of a chunk: scalars and distributions.
const SECTIONS_MAX: usize = 8;

/// Points of one resolution, oldest first.
#[derive(Clone, Debug)]
pub(super) struct Track {
    scope: Scope,
    step_us: u64,
    is_finest: bool,
    points_max: usize,
    bytes_max: usize,
    /// Shared with clones: full ones do not change any more.
    chunks: VecDeque<Arc<Chunk>>,
    points: usize,
    /// Bytes of all chunks but the last.
    full_bytes: usize,
    open: Option<u64>,
    sums: Sums,
}

/// Consecutive points. Counts and levels of all are together, and so is each distribution of all,
/// so that a query reads only what it asks for.
#[derive(Clone, Debug)]
struct Chunk {
    heads: Vec<Head>,
    /// Scalars, then each distribution.
    sections: Box<[Vec<u8>]>,
}

#[derive(Clone, Copy, Debug)]
struct Head {
    slot: u64,
    measured_us: u32,
}

/// A closed point, as [`Track::close`] gives it to be kept elsewhere.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClosedPoint<'a> {
    pub(super) slot: u64,
    pub(super) bytes: &'a [u8],
}

impl Track {
    pub(super) fn new(scope: Scope, resolution: &Resolution, point_bytes: usize, is_finest: bool) -> Self {
        Self {
            scope,
            step_us: u64::try_from(resolution.step.as_micros()).unwrap_or(u64::MAX),
            is_finest,
            points_max: resolution.points(),
            bytes_max: resolution.points().saturating_mul(point_bytes),
            chunks: VecDeque::new(),
            points: 0,
            full_bytes: 0,
            open: None,
            sums: Sums::new(scope),
        }
    }

    /// Length of a point in microseconds.
    pub(super) const fn step_us(&self) -> u64 {
        self.step_us
    }

    /// Whether it is the finest resolution, whose extremes are not kept.
    pub(super) const fn is_finest(&self) -> bool {
        self.is_finest
    }

    /// The point that is being added to.
    pub(super) fn open(&self) -> Option<(u64, &Sums)> {
        self.open.map(|slot| (slot, &self.sums))
    }

    /// The sums of the point at `slot`, to add to. Any other must have been closed.
    pub(super) fn open_at(&mut self, slot: u64) -> &mut Sums {
        self.open = Some(slot);
        &mut self.sums
    }

    /// The last closed point.
    pub(super) fn last_closed(&self) -> Option<u64> {
        Some(self.chunks.back()?.heads.last()?.slot)
    }

    /// The first point there is.
    pub(super) fn oldest(&self) -> Option<u64> {
        self.chunks.front().and_then(|chunk| chunk.heads.first()).map(|head| head.slot).or(self.open)
    }

    /// Closes the open point: it becomes bytes, which are also given to `closed`.
    pub(super) fn close(&mut self, scratch: &mut Vec<u8>, closed: impl FnOnce(ClosedPoint<'_>)) {
        let Some(slot) = self.open.take() else { return };
        scratch.clear();
        codec::put(scratch, self.sums.measured_us);
        codec::put_scalars(scratch, &self.sums, self.is_finest);
        for distribution in &self.sums.distributions {
            codec::put_distribution(scratch, distribution);
        }
        self.sums.clear();
        // What was just written is sound.
        let _ = self.push(slot, scratch);
        closed(ClosedPoint { slot, bytes: scratch });
    }

    /// Forgets the open point.
    pub(super) fn abandon(&mut self) {
        self.open = None;
        self.sums.clear();
    }

    /// Appends a closed point; `None` if it is not later than the last, or its bytes are broken.
    pub(super) fn push(&mut self, slot: u64, bytes: &[u8]) -> Option<()> {
        if self.last_closed().is_some_and(|last| slot <= last) {
            return None;
        }
        let mut reader = Reader::new(bytes);
        let measured_us = u32::try_from(reader.number()?).unwrap_or(u32::MAX);
        let (levels, counts) = (self.sums.levels.len(), self.sums.counts.len());
        let mut ends = [0_usize; SECTIONS_MAX];
        let starts_at = bytes.len() - reader.rest().len();
        let sections = 1 + self.sums.distributions.len();
        let mut sound = true;
        codec::read_scalars(&mut reader, levels, self.is_finest, |scalar| {
            sound &= !matches!(scalar, Scalar::Count(cell, _) if cell >= counts);
        })?;
        ends[0] = bytes.len() - reader.rest().len();
        for end in ends.get_mut(1..sections)? {
            codec::read_distribution(&mut reader, |_, _| {})?;
            *end = bytes.len() - reader.rest().len();
        }
        if !sound || !reader.rest().is_empty() {
            return None;
        }
        if self.chunks.back().is_none_or(|last| last.is_full()) {
            if let Some(full) = self.chunks.back_mut() {
                Arc::make_mut(full).shrink();
                self.full_bytes += full.bytes();
            }
            self.chunks.push_back(Arc::new(Chunk::new(self.scope)));
        }
        let chunk = Arc::make_mut(self.chunks.back_mut()?);
        // A copy of one that is shared has no room yet.
        chunk.heads.reserve_exact(CHUNK_POINTS - chunk.heads.len());
        chunk.heads.push(Head { slot, measured_us });
        let mut from = starts_at;
        for (section, end) in chunk.sections.iter_mut().zip(ends) {
            section.extend_from_slice(bytes.get(from..end)?);
            from = end;
        }
        self.points += 1;
        self.evict();
        Some(())
    }

    /// Forgets the oldest chunks while there are more points or bytes than may be. The last stays.
    fn evict(&mut self) {
        while self.chunks.len() > 1 {
            let Some(oldest) = self.chunks.front() else { return };
            let enough = self.points - oldest.heads.len() >= self.points_max;
            if !enough && self.points_bytes() <= self.bytes_max {
                return;
            }
            self.points -= oldest.heads.len();
            self.full_bytes -= oldest.bytes();
            self.chunks.pop_front();
        }
    }

    /// Memory held, in bytes.
    pub(super) fn bytes(&self) -> usize {
        size_of::<Self>() + Sums::bytes(self.scope) + self.points_bytes()
    }

    /// Memory that such a track never exceeds.
    pub(super) fn bytes_max(scope: Scope, resolution: &Resolution, point_bytes: usize) -> usize {
        // The last chunk stays whatever it takes; what grows has up to twice the room it needs.
        let last = Chunk::new(scope).bytes() + 2 * (CHUNK_BYTES + codec::point_bytes_max(scope));
        size_of::<Self>() + Sums::bytes(scope) + resolution.points() * point_bytes + last
    }

    /// Memory of the closed points.
    fn points_bytes(&self) -> usize {
        let spare = self.chunks.capacity() - self.chunks.len();
        self.full_bytes + self.chunks.back().map_or(0, |last| last.bytes()) + spare * size_of::<Arc<Chunk>>()
    }

    /// Closed points.
    pub(super) const fn len(&self) -> usize {
        self.points
    }

    /// Forgets the points at `slot` and later, the open one too.
    pub(super) fn forget_from(&mut self, slot: u64) {
        if self.open.is_some_and(|open| open >= slot) {
            self.abandon();
        }
        while let Some(mut chunk) = self.chunks.pop_back() {
            self.points -= chunk.heads.len();
            let keep = chunk.heads.partition_point(|head| head.slot < slot);
            Arc::make_mut(&mut chunk).truncate(keep, self.sums.levels.len(), self.is_finest);
            if keep > 0 {
                self.points += keep;
                self.chunks.push_back(chunk);
                break;
            }
            // The one before is no full one any more.
            if let Some(last) = self.chunks.back() {
                self.full_bytes -= last.bytes();
            }
        }
    }

    /// The closed points from `slot` on, one after the other. Of each, one section is read: the scalars (0) or
    /// a distribution (from 1).
    pub(super) fn points_from(&self, slot: u64, section: usize) -> Points<'_> {
        let mut points = Points {
            track: self,
            section,
            chunks: self.chunks_from(slot),
            heads: slice::Iter::default(),
            reader: Reader::new(&[]),
            next: None,
        };
        points.go_on();
        while points.next.is_some_and(|head| head.slot < slot) {
            points.skip();
        }
        points
    }

    /// The closed points from `slot` on, read whole.
    pub(super) fn sums_from(&self, slot: u64, mut see: impl FnMut(u64, &Sums)) {
        let mut sums = self.sums.clone();
        for chunk in self.chunks_from(slot) {
            let mut readers: Vec<Reader<'_>> =
                chunk.sections.iter().map(|section| Reader::new(section)).collect();
            for head in &chunk.heads {
                sums.clear();
                sums.measured_us = u64::from(head.measured_us);
                let Some((scalars, distributions)) = readers.split_first_mut() else { return };
                // They were checked when they were pushed.
                let _ = codec::read_scalars_into(scalars, &mut sums, self.is_finest);
                for (reader, distribution) in distributions.iter_mut().zip(&mut sums.distributions) {
                    let _ = codec::read_distribution_into(reader, distribution);
                }
                if self.is_finest {
                    sums.settle(self.step_us);
                }
                if head.slot >= slot {
                    see(head.slot, &sums);
                }
            }
        }
    }

    fn chunks_from(&self, slot: u64) -> vec_deque::Iter<'_, Arc<Chunk>> {
        let first =
            self.chunks.partition_point(|chunk| chunk.heads.last().is_some_and(|head| head.slot < slot));
        self.chunks.range(first..)
    }
}

/// Closed points one after the other: one asks where the next begins, and reads it.
#[derive(Debug)]
pub(super) struct Points<'t> {
    track: &'t Track,
    section: usize,
    chunks: vec_deque::Iter<'t, Arc<Chunk>>,
    heads: slice::Iter<'t, Head>,
    /// At the section of the next point.
    reader: Reader<'t>,
    next: Option<Head>,
}

impl Points<'_> {
    /// Where the next point begins, in microseconds.
    pub(super) fn at_us(&self) -> Option<u64> {
        self.next.map(|head| head.slot * self.track.step_us)
    }

    /// Reads the next point, which there must be: its measured time in microseconds and its counts at `cells`, added
    /// up, or `None` where they were not measured. Extremes are those of one cell.
    pub(super) fn read_count(&mut self, cells: &Range<usize>) -> (u64, Option<CountSums>) {
        let measured_us = self.measured_us();
        let (mut total, mut unmeasured) = (CountSums::default(), false);
        self.read_scalars(|scalar| match scalar {
            Scalar::Unmeasured(bits) => unmeasured = bits >> cells.start & 1 == 1,
            Scalar::Count(cell, count) if cells.contains(&cell) => {
                total.sum = total.sum.saturating_add(count.sum);
                (total.min, total.max) = (count.min, count.max);
            }
            _ => {}
        });
        if self.track.is_finest {
            total = CountSums::settled(total.sum, measured_us, self.track.step_us);
        }
        (measured_us, (!unmeasured).then_some(total))
    }

    /// Reads the next point: its measured time in microseconds and its level at `position`.
    pub(super) fn read_level(&mut self, position: usize) -> (u64, LevelSums) {
        let measured_us = self.measured_us();
        let mut level = LevelSums::default();
        self.read_scalars(|scalar| match scalar {
            Scalar::Level(other, sums) if other == position => level = sums,
            _ => {}
        });
        (measured_us, level)
    }

    /// Adds the next point's distribution to another; gives its measured time in microseconds.
    pub(super) fn add_distribution(&mut self, to: &mut Distribution) -> u64 {
        let measured_us = self.measured_us();
        let sum = codec::read_distribution(&mut self.reader, |bucket, n| to.add(bucket, n));
        debug_assert!(sum.is_some(), "checked when it was pushed");
        to.add_nanos(u128::from(sum.unwrap_or(0)));
        self.go_on();
        measured_us
    }

    fn measured_us(&self) -> u64 {
        self.next.map_or(0, |head| u64::from(head.measured_us))
    }

    fn read_scalars(&mut self, see: impl FnMut(Scalar)) {
        let track = self.track;
        let read = codec::read_scalars(&mut self.reader, track.sums.levels.len(), track.is_finest, see);
        debug_assert!(read.is_some(), "checked when it was pushed");
        self.go_on();
    }

    fn skip(&mut self) {
        if self.section == 0 {
            self.read_scalars(|_| {});
        } else {
            let _ = codec::read_distribution(&mut self.reader, |_, _| {});
            self.go_on();
        }
    }

    /// To the next point, which may be in the next chunk.
    fn go_on(&mut self) {
        self.next = self.heads.next().copied();
        while self.next.is_none()
            && let Some(chunk) = self.chunks.next()
        {
            self.heads = chunk.heads.iter();
            self.reader = Reader::new(&chunk.sections[self.section]);
            self.next = self.heads.next().copied();
        }
    }
}

impl Chunk {
    fn new(scope: Scope) -> Self {
        let sections = 1 + Meter::cells_of(scope, MeterKind::Distribution);
        Self { heads: Vec::with_capacity(CHUNK_POINTS), sections: vec![Vec::new(); sections].into() }
    }

    fn is_full(&self) -> bool {
        self.heads.len() >= CHUNK_POINTS || self.sections.iter().map(Vec::len).sum::<usize>() >= CHUNK_BYTES
    }

    fn shrink(&mut self) {
        self.sections.iter_mut().for_each(Vec::shrink_to_fit);
    }

    fn bytes(&self) -> usize {
        // Its place in the deque, and what an `Arc` counts by.
        size_of::<Arc<Self>>()
            + 2 * size_of::<usize>()
            + size_of::<Self>()
            + self.heads.capacity() * size_of::<Head>()
            + self.sections.iter().map(|section| size_of::<Vec<u8>>() + section.capacity()).sum::<usize>()
    }

    /// Keeps the first `keep` points.
    fn truncate(&mut self, keep: usize, levels: usize, is_finest: bool) {
        for (index, section) in self.sections.iter_mut().enumerate() {
            let mut reader = Reader::new(section);
            for _ in 0..keep {
                if index == 0 {
                    let _ = codec::read_scalars(&mut reader, levels, is_finest, |_| {});
                } else {
                    let _ = codec::read_distribution(&mut reader, |_, _| {});
                }
            }
            let length = section.len() - reader.rest().len();
            section.truncate(length);
        }
        self.heads.truncate(keep);
    }
}
