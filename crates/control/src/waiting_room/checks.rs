//! The checks that report to a generator: what each has told, and what that is together.
//!
//! A generator promises what the servers behind all its checks can do:
//!
//! ```text
//! capacity = Σ cᵢ    over the checks that are not lost; if all are, the floor, or half of Σ cᵢ
//! cost     = Σ cᵢ·costᵢ / Σ cᵢ, class by class, and so the work that follows a first request
//! ```
//!
//! A check is *overdue* when it has said nothing for `report_timeout`: its last capacity still counts. After
//! `report_keep` more it is *lost*: its part is taken away. An hour later it is forgotten with the next report of another
//! one: until then it is told that one is missing. One that knows of no capacity yet adds nothing while others do; if none
//! knows of any, the floor holds, and without one there is no limit.
//!
//! Promises are times, so that the clocks of both have to agree: a check that is further ahead than promises may be late sends
//! everybody back. Each report says when it was made, and [`CheckView::clock`] how far that is from the generator's clock.
//!
//! A check goes by the name under which it may report. Bound: [`CHECKS_MAX`] of them; one more takes the place of the one
//! that has been silent for longest.
//!
//! Source: none; WebQ has one TokenCheck.

use std::time::Duration;

use super::{Capacity, Report, Room, Work, budget::thousandths, room::UNIT};
use crate::{Timestamp, capacity::Pace, knobs::RoomRole};

/// Checks that report to one generator.
const CHECKS_MAX: usize = 64;

/// A lost check is known for so long: was it taken out of service, that is long enough to be told of it.
const KNOWN_LOST: Duration = Duration::from_secs(3600);

/// A report may be under way for so long, and seem to be of a clock behind.
const ON_THE_WAY: Duration = Duration::from_secs(1);

/// What is known of one check.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Check {
    name: String,
    reported: Timestamp,
    told_at: Option<Timestamp>,
    first_told: Option<Timestamp>,
    capacity: Capacity,
    costs: Vec<Work>,
    follow: Work,
    excess: f64,
}

/// One check, as people look at it.
#[derive(Clone, Debug, PartialEq)]
pub struct CheckView {
    /// The name under which it reports.
    pub name: String,
    /// When it reported last.
    pub reported: Timestamp,
    /// Its capacity, work units a second.
    pub capacity: Option<f64>,
    /// How far its clock is from ours, if it told.
    pub clock: Option<ClockDifference>,
    /// It has not reported in time. Its last capacity counts.
    pub overdue: bool,
    /// It has not reported for so long that it counts no more.
    pub lost: bool,
}

/// How far the clock of a check is from the generator's, by its last report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockDifference {
    /// How far.
    pub by: Duration,
    /// Whether it is ahead of ours.
    pub is_ahead: bool,
    /// Whether that is more than `waiting_room.clock_tolerance` and what a report may be under way.
    pub is_too_far: bool,
    /// Whether it is at most half of that.
    pub agrees: bool,
}

impl Check {
    fn clock(&self, tolerance: Duration) -> Option<ClockDifference> {
        let told = self.told_at?;
        let by = told.since(self.reported).max(self.reported.since(told));
        let most = tolerance + ON_THE_WAY;
        let (is_too_far, agrees) = (by > most, by <= most / 2);
        Some(ClockDifference { by, is_ahead: told > self.reported, is_too_far, agrees })
    }

    /// Work units a second that may be promised for it.
    fn per_s(&self) -> Option<f64> {
        self.capacity.promised()
    }
}

impl Room {
    /// Role `generate`: the checks heard of.
    pub fn checks(&self, now: Timestamp) -> impl Iterator<Item = CheckView> + '_ {
        let now = now.max(self.now);
        self.checks.iter().map(move |check| CheckView {
            name: check.name.clone(),
            reported: check.reported,
            capacity: check.capacity.per_s,
            clock: check.clock(self.settings.clock_tolerance),
            overdue: now.since(check.reported) >= self.settings.report_timeout,
            lost: now.since(check.reported) >= self.lost_after(),
        })
    }

    /// When a check reported last.
    pub(super) fn last_report_of(&self, name: &str) -> Option<Timestamp> {
        self.checks.iter().find(|check| check.name == name).map(|check| check.reported)
    }

    /// Notes what a check tells of itself; whether what is in its report's lists is new.
    pub(super) fn note_check(&mut self, name: &str, report: &Report) -> bool {
        let (now, known_for) = (self.now, self.lost_after() + KNOWN_LOST);
        self.checks.retain(|check| check.name == name || now.since(check.reported) < known_for);
        let mut costs = report.costs.clone();
        costs.truncate(self.costs.len());
        costs.iter_mut().for_each(|cost| *cost = (*cost).clamp(1, UNIT * 1_000_000));
        let heard = Check {
            name: name.to_owned(),
            reported: now,
            told_at: report.at,
            first_told: report.first_told,
            capacity: Capacity { per_s: report.capacity, pace: report.pace },
            costs,
            follow: report.follow.min(UNIT * 1_000_000),
            excess: if report.excess.is_finite() { report.excess.max(0.0) } else { 0.0 },
        };
        if let Some(known) = self.checks.iter_mut().find(|check| check.name == name) {
            let is_new = heard.first_told.is_none() || heard.first_told != known.first_told;
            *known = heard;
            return is_new;
        }
        if self.checks.len() < CHECKS_MAX {
            self.checks.push(heard);
        } else if let Some(silent) = self.checks.iter_mut().min_by_key(|check| check.reported) {
            *silent = heard;
        }
        true
    }

    /// Makes one capacity of what the checks have told, and one cost of each class.
    pub(super) fn gather(&mut self) {
        if self.settings.role != RoomRole::Generate {
            return;
        }
        let counted = || self.counted();
        // Where one knows its pace and another one its capacity only, that is its pace.
        let pace_of = |check: &Check| {
            let by_capacity =
                |per_s| Pace { may_come_per_s: per_s, departs_per_s: 0.0, standing: 0.0, error: 0.0 };
            check.capacity.pace.or(check.capacity.per_s.map(by_capacity))
        };
        let knows_pace = counted().any(|check| check.capacity.pace.is_some());
        let capacity = Capacity {
            per_s: counted().filter_map(|check| check.capacity.per_s).reduce(|sum, more| sum + more),
            pace: counted().filter(|_| knows_pace).filter_map(pace_of).reduce(|sum, more| Pace {
                may_come_per_s: sum.may_come_per_s + more.may_come_per_s,
                departs_per_s: sum.departs_per_s + more.departs_per_s,
                standing: sum.standing + more.standing,
                error: sum.error.max(more.error),
            }),
        };
        let excess = counted().map(|check| check.excess).sum();
        let follow = self.mean(|check| Some(check.follow));
        let costs: Vec<_> =
            (0..self.costs.len()).map(|class| self.mean(|check| check.costs.get(class).copied())).collect();
        (self.capacity, self.reported_excess) = (capacity, excess);
        self.reported_follow = follow.unwrap_or(0);
        for (known, cost) in self.costs.iter_mut().zip(costs) {
            *known = cost.unwrap_or(*known).max(1);
        }
    }

    /// The part of a check in the capacity of all, 0 to 1.
    pub(super) fn part_of(&self, name: &str) -> f64 {
        let (mut own, mut all) = (0.0, 0.0);
        for check in self.counted() {
            let weight = weight(check);
            all += weight;
            own += if check.name == name { weight } else { 0.0 };
        }
        if all > 0.0 { own / all } else { 0.0 }
    }

    /// When the check reported last that has been silent for longest.
    pub(super) fn reported(&self) -> Option<Timestamp> {
        self.checks.iter().map(|check| check.reported).min()
    }

    /// Role `generate`: whether a check says nothing any more.
    pub(super) fn is_overdue(&self, now: Timestamp) -> bool {
        let timeout = self.settings.report_timeout;
        self.settings.role == RoomRole::Generate && self.reported().is_none_or(|at| now.since(at) >= timeout)
    }

    /// Role `generate`: whether a check that counts has not reported in time, or none does, so that nobody knows who has come.
    pub(super) fn waits_for_word(&self) -> bool {
        let timeout = self.settings.report_timeout;
        self.settings.role == RoomRole::Generate
            && (self.is_lost(self.now)
                || self.counted().any(|check| self.now.since(check.reported) >= timeout))
    }

    /// Role `generate`: whether all checks have been silent for so long that their last word counts no more.
    pub(super) fn is_lost(&self, now: Timestamp) -> bool {
        self.settings.role == RoomRole::Generate && !self.checks.iter().any(|check| self.is_live(check, now))
    }

    /// The checks that count: those that are not lost; if all are, all of them.
    fn counted(&self) -> impl Iterator<Item = &Check> {
        let all = self.is_lost(self.now);
        self.checks.iter().filter(move |check| all || self.is_live(check, self.now))
    }

    fn is_live(&self, check: &Check, now: Timestamp) -> bool {
        now.since(check.reported) < self.lost_after()
    }

    fn lost_after(&self) -> Duration {
        self.settings.report_timeout + self.settings.report_keep
    }

    /// The mean of what the checks tell, by their capacities.
    #[expect(clippy::cast_precision_loss, reason = "a mean of a few costs")]
    fn mean(&self, of: impl Fn(&Check) -> Option<Work>) -> Option<Work> {
        let (mut sum, mut weights) = (0.0, 0.0);
        for check in self.counted() {
            if let Some(value) = of(check) {
                sum += weight(check) * (value as f64 / 1e3);
                weights += weight(check);
            }
        }
        (weights > 0.0).then(|| thousandths(sum / weights))
    }
}

/// How much a check counts beside others; one that knows of no capacity hardly.
fn weight(check: &Check) -> f64 {
    check.per_s().unwrap_or(0.0).max(1e-9)
}
