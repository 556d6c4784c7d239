//! What admission is told of the capacity, and what it tells of it.

use std::time::Duration;

use super::Admission;
use crate::{
    Timestamp,
    capacity::{Capacity, CapacityBounds, CapacityEvent, CapacityState, Cause, Found, Given},
    knobs::Mode,
};

/// Tellings of the capacity kept until somebody asks.
const TELLINGS_MAX: usize = 64;

/// A capacity that somebody has given is that of the servers together: what is left of it when some of them are out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Giving {
    /// How often one was given.
    number: u64,
    /// Of the servers for which it was, the part that is in service, 0 to 1.
    part: f64,
}

impl Default for Giving {
    fn default() -> Self {
        Self { number: 0, part: 1.0 }
    }
}

impl Giving {
    const fn anew(&mut self) {
        *self = Self { number: self.number.wrapping_add(1), part: 1.0 };
    }
}

impl Admission {
    /// What is held of the capacity, for people.
    #[must_use]
    pub fn capacity(&self) -> CapacityState {
        CapacityState {
            per_s: self.capacity_per_s(),
            work_per_s: self.levels().capacity,
            bounds: self.capacity,
            told: self.told,
            limit_holds: self.path.is_held(),
        }
    }

    /// Somebody tells the capacity, requests a second, from now on for `valid_for` or until told otherwise; `None`
    /// takes it back. While it is in force it goes before the knobs.
    pub fn tell_capacity(&mut self, now: Timestamp, per_s: Option<f64>, valid_for: Option<Duration>) {
        self.advance(now);
        self.told = per_s.map(|per_s| Given::new(self.now, per_s, valid_for));
        let [_, by_telling] = &mut self.givings;
        by_telling.anew();
        self.bound_capacity(Cause::Given);
        self.settle();
    }

    /// Forgets the capacity found and searches again.
    pub fn rediscover(&mut self, now: Timestamp) {
        self.advance(now);
        self.limiter.rediscover();
        self.settle();
    }

    /// What has been found of the servers; `None` while nothing is, or the algorithm finds none.
    #[must_use]
    pub fn found(&self) -> Option<Found> {
        self.limiter.found()
    }

    /// Begins with what another process has found, in place of a search.
    pub fn restore_found(&mut self, now: Timestamp, found: &Found) {
        self.advance(now);
        self.limiter.restore(found);
        self.settle();
    }

    /// Servers were lost or added: the capacity is `factor` times what it was.
    pub fn resize(&mut self, now: Timestamp, factor: f64) {
        self.advance(now);
        self.limiter.resize(factor);
        self.settle();
    }

    /// How often a capacity was given by the knobs, and by [telling](Self::tell_capacity): each is that of all servers in service
    /// at that time.
    #[must_use]
    pub fn givings(&self) -> [u64; 2] {
        self.givings.map(|giving| giving.number)
    }

    /// Of the servers for which a capacity was given, [by either](Self::givings), these parts are in service now. What has been given
    /// anew meanwhile stays whole.
    pub fn serve_parts(&mut self, now: Timestamp, numbers: [u64; 2], parts: [f64; 2]) {
        self.advance(now);
        let before = self.givings;
        for ((giving, number), part) in self.givings.iter_mut().zip(numbers).zip(parts) {
            if giving.number == number {
                giving.part = part;
            }
        }
        if self.givings != before {
            self.bound_capacity(Cause::Servers);
            self.settle();
        }
    }

    /// What the waiting room goes by: what it may promise, and how fast work may come and goes now, so that the short queue
    /// neither runs dry nor stands, if the limiter says so: what it lets in without a promise. `held_back`: whether [that
    /// room has made newcomers wait](crate::waiting_room::Room::holds_back). It goes by the time since the last call; to be
    /// asked some ten times a second.
    pub fn supply(&mut self, now: Timestamp, held_back: bool) -> Capacity {
        self.advance(now);
        let passed = self.now.since(std::mem::replace(&mut self.paced, self.now));
        // That of the shadows, if the limit holds for them alone.
        let shadows = self.shadows.as_deref().filter(|_| self.modes.in_flight == Mode::Watch);
        let path = shadows.unwrap_or(&self.path);
        let queued: usize = path.queued().map(|(_, queued)| queued).sum();
        let per_s = self.limiter.promised(held_back).or_else(|| self.bounds.given());
        Capacity { per_s, pace: self.limiter.pace(queued, passed, held_back) }
    }

    /// Moves what has happened to the capacity since the last call to `out`.
    pub fn drain_capacity_events(&mut self, out: &mut Vec<CapacityEvent>) {
        self.limiter.drain_events(out);
        out.extend(self.tellings.drain(..));
    }

    /// The bounds that the knobs say.
    pub(super) fn give_by_knobs(&mut self, capacity: CapacityBounds) {
        if capacity.given() != self.capacity.given() {
            let [by_knobs, _] = &mut self.givings;
            by_knobs.anew();
        }
        self.capacity = capacity;
    }

    pub(super) fn bound_capacity(&mut self, cause: Cause) {
        let before = self.capacity_per_s();
        let [by_knobs, by_telling] = self.givings;
        let part_of = |bounds: CapacityBounds, giving: Giving| {
            bounds.given().map_or(bounds, |per_s| CapacityBounds::exactly(per_s * giving.part))
        };
        self.bounds = match self.told.filter(|told| told.per_s(self.now).is_some()) {
            Some(told) => part_of(told.bounds(self.now, self.capacity), by_telling),
            None => part_of(self.capacity, by_knobs),
        };
        self.limiter.set_capacity_bounds(self.bounds);
        let after = self.capacity_per_s();
        if before != after {
            if self.tellings.len() == TELLINGS_MAX {
                self.tellings.pop_front();
            }
            self.tellings.push_back(CapacityEvent { at: self.now, cause, before, after });
        }
    }

    /// Requests a second of the present mix, as found or given.
    pub(super) fn capacity_per_s(&self) -> Option<f64> {
        self.limiter.capacity().or_else(|| self.bounds.given())
    }
}
