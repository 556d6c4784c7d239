//! How much may be promised: what is known of the capacity, less what sessions take.

use std::time::Duration;

use super::{Capacity, Room, Work, room::UNIT};
use crate::{ClassId, Timestamp, capacity::Pace, knobs::RoomRole};

/// The budget follows the capacity in steps of this.
const STEP: f64 = 0.005;

/// Of a capacity, what is less than it by so many of its standard errors is sure: it is more with a probability of 0.98.
const ERRORS: f64 = 2.0;

/// Newcomers have this share of the capacity at least, whatever sessions take.
const NEWCOMERS_MIN: f64 = 0.01;

/// Of what departs, this share is promised before the capacity is known: it varies from one moment to the next.
const PROVEN: f64 = 0.9;

/// Newcomers were made to wait so short a time ago: more would come now than may.
const LATELY: Duration = Duration::from_secs(1);

impl Capacity {
    /// Work units a second that can be promised. While the capacity is being searched for, what may come now is more than
    /// that, unless as much departs.
    pub(super) fn promised(&self) -> Option<f64> {
        let of_pace = |pace: Pace| (pace.may_come_per_s / 2.0).max(pace.departs_per_s * PROVEN);
        self.per_s.or(self.pace.map(of_pace))
    }
}

impl Room {
    /// Takes what admission knows: its capacity, and what a request of each class costs where one of the default class
    /// costs 1. To be called at least once a second.
    pub fn observe(
        &mut self,
        now: Timestamp,
        capacity: Capacity,
        costs: impl Iterator<Item = (ClassId, Option<f64>)>,
    ) {
        self.advance(now);
        // A generator goes by what the check says of its own.
        if self.settings.role != RoomRole::Generate {
            self.is_told = true;
            self.capacity = capacity;
            for (class, cost) in costs {
                if let (Some(known), Some(cost)) = (self.costs.get_mut(class.index()), cost) {
                    *known = thousandths(cost.clamp(0.001, 1e6)).max(1);
                }
            }
        }
        self.set_budget(false);
        self.reach_out();
    }

    /// Whether it has been told what admission knows. What a check reports before says nothing.
    #[must_use]
    pub const fn is_told(&self) -> bool {
        self.is_told
    }

    /// Whether newcomers have been made to wait within the last second, and not for a door alone: more would have come than
    /// may. Role `check`: what was heard of it last.
    #[must_use]
    pub fn holds_back(&self, now: Timestamp) -> bool {
        if self.settings.role == RoomRole::Check {
            return self.untold.held_back;
        }
        self.held_back.is_some_and(|last| now.since(last) < LATELY)
    }

    pub(super) const fn knows_capacity(&self) -> bool {
        self.capacity.per_s.is_some() || self.capacity.pace.is_some()
    }

    pub(super) fn cost(&self, class: ClassId) -> Work {
        self.costs.get(class.index()).copied().unwrap_or(UNIT)
    }

    /// What a session does after its first request.
    pub(super) fn follow(&self) -> Work {
        if self.settings.sessions.is_none() {
            return 0;
        }
        if self.settings.role == RoomRole::Generate { self.reported_follow } else { self.sessions.follow() }
    }

    /// Work due in a slot beyond which nobody is given a place there who is owed one. The check's own table holds
    /// nothing else: what newcomers are promised is in the generator's.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a share of a budget; `as` saturates"
    )]
    pub(super) fn owed_most(&self) -> Work {
        let budget = self.table.budget();
        let extra = (budget as f64 * self.settings.extra) as Work;
        if self.settings.role == RoomRole::Check { extra.max(1) } else { budget.saturating_add(extra) }
    }

    /// Capacity that may be counted on, work units a second. A generator has its floor where no check knows of one, and
    /// where none reports.
    pub(super) fn counted_on(&self) -> Option<f64> {
        let told = self.capacity.promised();
        match self.settings.role {
            RoomRole::Generate if self.is_lost(self.now) => {
                self.settings.floor.or_else(|| told.map(|per_s| per_s / 2.0))
            }
            RoomRole::Generate => told.or(self.settings.floor),
            RoomRole::Both | RoomRole::Check => told,
        }
    }

    /// Role `generate`: there are checks, none of which knows of a limit, and neither do we: everybody is sent there at once.
    pub(super) fn sends_at_once(&self) -> bool {
        self.settings.role == RoomRole::Generate && !self.checks.is_empty() && self.counted_on().is_none()
    }

    /// What of a budget is surely there, as far as newcomers may have it before who waits.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a share of a budget; `as` saturates"
    )]
    fn sure_of(&self, budget: Work) -> Work {
        if !self.newcomers_go_first() {
            return 0;
        }
        let error = self.capacity.pace.map_or(0.0, |pace| pace.error);
        (budget as f64 * (1.0 - ERRORS * error)) as Work
    }

    pub(super) fn set_budget(&mut self, whatever: bool) {
        self.gather();
        let length_s = self.table.length().as_secs_f64();
        let Some(capacity) = self.counted_on() else {
            self.table.set_budget(0, 0, 0);
            return;
        };
        let excess = self.sessions.excess_per_s() + self.reported_excess;
        let newcomers = (capacity - excess).max(capacity * NEWCOMERS_MIN);
        let wanted = newcomers * self.settings.fill * length_s;
        let was = self.table.budget();
        // By what was wanted then, since of a small budget its last digit is more than a step.
        let moved = (wanted - self.wanted).abs() > self.wanted * STEP;
        let budget = if whatever || was == 0 || moved {
            self.wanted = wanted;
            thousandths(wanted).max(1)
        } else {
            was
        };
        let present = match (self.capacity.pace, self.capacity.per_s) {
            (None, _) => budget,
            (Some(pace), known) => {
                let pace = pace.may_come_per_s;
                let may_come = thousandths((pace - excess).max(pace * NEWCOMERS_MIN) * length_s).max(1);
                // What the capacity leaves beside what was promised is nobody's, or newcomers would have it before all
                // who wait.
                let is_steady = known.is_some_and(|known| pace <= known * (1.0 + STEP));
                if is_steady { may_come.min(budget) } else { may_come }
            }
        };
        self.table.set_budget(budget, self.sure_of(budget), present);
        if was == 0 {
            self.open_filters();
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "work for people to look at, or for a ratio")]
pub(super) fn units(work: Work) -> f64 {
    work as f64 / 1e3
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "not negative; `as` saturates")]
pub(super) fn thousandths(units: f64) -> Work {
    (units * 1e3).round() as Work
}
