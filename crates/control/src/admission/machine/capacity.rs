//! What admission is told of the capacity, and what it tells of it.

use std::time::Duration;

use super::Admission;
use crate::{
    Timestamp,
    capacity::{CapacityEvent, CapacityState, Cause, Found, Given, Pace},
    knobs::Mode,
};

/// Tellings of the capacity kept until somebody asks.
const TELLINGS_MAX: usize = 64;

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
        self.bound_capacity();
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

    /// How fast work may come and goes now, so that the short queue neither runs dry nor stands, if the limiter says
    /// so: what the waiting room lets in without a promise. `held_back`: whether [that room has made newcomers
    /// wait](crate::waiting_room::Room::holds_back). It goes by the time since the last call; to be asked some ten times a
    /// second.
    pub fn pace(&mut self, now: Timestamp, held_back: bool) -> Option<Pace> {
        self.advance(now);
        let passed = self.now.since(std::mem::replace(&mut self.paced, self.now));
        // That of the shadows, if the limit holds for them alone.
        let shadows = self.shadows.as_deref().filter(|_| self.modes.in_flight == Mode::Watch);
        let path = shadows.unwrap_or(&self.path);
        let queued: usize = path.queued().map(|(_, queued)| queued).sum();
        self.limiter.pace(queued, passed, held_back)
    }

    /// Moves what has happened to the capacity since the last call to `out`.
    pub fn drain_capacity_events(&mut self, out: &mut Vec<CapacityEvent>) {
        self.limiter.drain_events(out);
        out.extend(self.tellings.drain(..));
    }

    pub(super) fn bound_capacity(&mut self) {
        let before = self.capacity_per_s();
        self.bounds = self.told.map_or(self.capacity, |told| told.bounds(self.now, self.capacity));
        self.limiter.set_capacity_bounds(self.bounds);
        let after = self.capacity_per_s();
        if before != after {
            if self.tellings.len() == TELLINGS_MAX {
                self.tellings.pop_front();
            }
            self.tellings.push_back(CapacityEvent { at: self.now, cause: Cause::Given, before, after });
        }
    }

    /// Requests a second of the present mix, as found or given.
    pub(super) fn capacity_per_s(&self) -> Option<f64> {
        self.limiter.capacity().or_else(|| self.bounds.given())
    }
}
