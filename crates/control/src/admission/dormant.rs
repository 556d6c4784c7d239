//! Exchanges that stay in flight and take nothing of the server: long polls, and what waits there for somebody else's answer.
//!
//! An adaptive limit is as much weight as keeps the server full. An exchange that stays and takes nothing would hold
//! a place in it all the same, and a few of them all places, while the server stands idle. Such an exchange is *dormant*: it counts
//! no more, and the limit in force is higher by its weight, up to `in_flight.dormant.max` in all and never above
//! `in_flight.max`. In the order of their starts, one is dormant when it has been in flight for
//!
//! ```text
//! stay = max(0.25 s, 12 · m)       m: median time in flight of what ended well
//! ```
//!
//! and either
//!
//! - 20 exchanges that began after it have ended well, or
//! - nothing has ended well for as long, in which the limit kept something waiting: it may be full of such exchanges.
//!
//! It cannot be seen from here what an exchange takes. One that stays because it is heavy is dormant as well, and so is what a
//! server holds that hangs; the bound is what they can cost.
//!
//! When it ends, it is a sample of the time for which it counted: so Little's law holds for what is counted.
//!
//! The median is found by stochastic approximation (Robbins & Monro 1951): `m ← m·1.1` after a longer time, `m/1.1` after a
//! shorter one.

use std::time::Duration;

use super::{AdmissionSettings, Outcome};
use crate::{
    ClassId, Timestamp,
    knobs::{Algorithm, Mode},
    roster::{Place, Roster},
};

/// No exchange is found dormant sooner.
const STAY_MIN: Duration = Duration::from_millis(250);
/// Nor before so many times the median.
const STAY: f64 = 12.0;
/// Steps of the median.
const STEP: f64 = 1.1;
const STEP_BACK: f64 = 1.0 / STEP;
/// So many later exchanges have ended well.
pub(super) const OVERTAKEN: u64 = 20;

/// How long a dormant exchange has stayed in flight at least.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Stay {
    /// Nanoseconds; 0: nothing has ended well yet.
    median: f64,
}

impl Stay {
    /// An exchange has ended well that counted for so long.
    pub(super) fn note(&mut self, time: Duration) {
        let time = time.as_secs_f64() * 1e9;
        if self.median <= 0.0 {
            self.median = time.max(1.0);
        } else {
            let step = if time > self.median { STEP } else { STEP_BACK };
            self.median = (self.median * step).max(1.0);
        }
    }

    /// `None` while nothing is known.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "`as` saturates")]
    pub(super) fn span(self) -> Option<Duration> {
        (self.median > 0.0).then(|| Duration::from_nanos((STAY * self.median) as u64).max(STAY_MIN))
    }
}

/// What is in flight in the order of starts, and what of it is dormant. Every call is O(1), but for [`settle`](Self::settle), which
/// is O(exchanges found dormant).
#[derive(Clone, Debug)]
pub(super) struct Dormant {
    /// Whether exchanges that begin are followed.
    follows: bool,
    /// Weight units that may be dormant, and the most that may be in flight.
    max: u64,
    in_flight_max: u32,
    stay: Stay,
    /// Exchanges that have ended well before they were dormant, and the end of the last that ended well.
    ended: u64,
    last_end: Timestamp,
    /// When the limit last kept nothing waiting.
    unheld: Timestamp,
    /// What is followed; in the list, oldest first, what is not dormant.
    roster: Roster<Entry>,
    /// Weight that is dormant, in all and dense by class.
    total: u64,
    classes: Vec<u64>,
    /// What counts, dense by class; kept for its memory.
    counting: Vec<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    class: ClassId,
    weight: u32,
    /// Since when it is followed: its start, or when its permit was collected.
    since: Timestamp,
    /// Once as many have ended well as this and [`OVERTAKEN`], so many of them have begun later.
    mark: u64,
    dormant: Option<Timestamp>,
}

impl Dormant {
    pub(super) fn new(now: Timestamp) -> Self {
        Self {
            follows: false,
            max: 0,
            in_flight_max: 0,
            stay: Stay::default(),
            ended: 0,
            last_end: now,
            unheld: now,
            roster: Roster::new(),
            total: 0,
            classes: Vec::new(),
            counting: Vec::new(),
        }
    }

    /// What is dormant stays so until it ends.
    pub(super) fn configure(&mut self, settings: &AdmissionSettings) {
        self.follows = follows(settings);
        self.max = if self.follows { u64::from(settings.dormant_max) } else { 0 };
        self.in_flight_max = settings.limit.max;
        if self.follows {
            self.roster.reserve(self.in_flight_max);
        }
        if settings.classes.len() > self.classes.len() {
            self.classes.resize(settings.classes.len(), 0);
        }
    }

    /// Weight that is dormant.
    pub(super) const fn total(&self) -> u64 {
        self.total
    }

    /// What counts of a weight in flight, or of a limit in force.
    pub(super) fn without(&self, weight: u32) -> u32 {
        weight.saturating_sub(u32::try_from(self.total).unwrap_or(u32::MAX))
    }

    /// The limit with what is dormant on top.
    pub(super) fn raised(&self, limit: u32) -> u32 {
        if self.total == 0 || !self.follows {
            return limit;
        }
        let dormant = u32::try_from(self.total).unwrap_or(u32::MAX);
        limit.saturating_add(dormant).min(self.in_flight_max.max(limit))
    }

    /// What counts of what is in flight, dense by class.
    pub(super) fn counting<'a>(&'a mut self, in_flight: &'a [u64]) -> &'a [u64] {
        if self.total == 0 {
            return in_flight;
        }
        self.counting.clear();
        let dormant = self.classes.iter().chain(std::iter::repeat(&0));
        self.counting
            .extend(in_flight.iter().zip(dormant).map(|(all, dormant)| all.saturating_sub(*dormant)));
        &self.counting
    }

    /// An exchange begins.
    #[inline]
    pub(super) fn begin(&mut self, now: Timestamp, class: ClassId, weight: u32) -> Place {
        if !self.follows {
            return Place::NOWHERE;
        }
        let mark = self.ended + self.roster.listed() + 1;
        let place = self.roster.insert(Entry { class, weight, since: now, mark, dormant: None });
        self.roster.list(place);
        place
    }

    /// An exchange has ended that began at `started`; for how long it counted.
    #[inline]
    pub(super) fn end(
        &mut self,
        now: Timestamp,
        place: Place,
        started: Timestamp,
        outcome: Outcome,
    ) -> Duration {
        let Some(Entry { class, weight, dormant, .. }) = self.roster.remove(place) else {
            return now.since(started);
        };
        if dormant.is_some() {
            self.total -= u64::from(weight);
            self.classes[class.index()] -= u64::from(weight);
        }
        let counted = dormant.unwrap_or(now).since(started);
        if outcome == Outcome::Success {
            self.ended += u64::from(dormant.is_none());
            self.last_end = now;
            self.stay.note(counted);
        }
        counted
    }

    /// Finds what is dormant by now; `held`: whether the limit keeps something waiting. True if there is any.
    #[inline]
    pub(super) fn settle(&mut self, now: Timestamp, held: bool) -> bool {
        if !held {
            self.unheld = now;
        }
        let is_due = self.is_due(now);
        if is_due {
            self.let_go(now);
        }
        is_due
    }

    #[inline]
    fn is_due(&self, now: Timestamp) -> bool {
        // Asked for at every call, and nearly always of what has begun a moment ago.
        let begun = self.roster.first().map_or(Timestamp::FAR_FUTURE, |(_, first)| first.since);
        begun + STAY_MIN <= now && self.due().is_some_and(|due| due <= now)
    }

    #[inline(never)]
    fn let_go(&mut self, now: Timestamp) {
        while self.is_due(now) {
            self.let_go_first(now);
        }
    }

    /// When the first in the list is found dormant, if the limit goes on to keep something waiting and nothing ends; `None`:
    /// never.
    #[inline]
    pub(super) fn due(&self) -> Option<Timestamp> {
        let span = self.stay.span()?;
        let (_, first) = self.roster.first()?;
        if self.total + u64::from(first.weight) > self.max {
            return None;
        }
        let since = if self.ended >= first.mark + OVERTAKEN {
            first.since
        } else {
            first.since.max(self.last_end).max(self.unheld)
        };
        Some(since + span)
    }

    fn let_go_first(&mut self, now: Timestamp) {
        let Some((place, _)) = self.roster.first() else { return };
        self.roster.unlist(place);
        if let Some(entry) = self.roster.get_mut(place) {
            entry.dormant = Some(now);
            self.total += u64::from(entry.weight);
            self.classes[entry.class.index()] += u64::from(entry.weight);
        }
    }

    /// Panics if something is inconsistent.
    pub(super) fn check_invariants(&self) {
        self.roster.check_invariants();
        assert!(
            self.roster.iter().all(|entry| entry.dormant.is_none()),
            "what is dormant is not in the list"
        );
        assert_eq!(self.total, self.classes.iter().sum::<u64>(), "dormant is the sum over the classes");
    }
}

/// Whether exchanges that begin under these settings may be dormant: the limit is found by how they end.
pub(super) fn follows(settings: &AdmissionSettings) -> bool {
    let adapts = match settings.algorithm {
        Algorithm::Aimd | Algorithm::Vegas | Algorithm::Gradient2 | Algorithm::KneeTrack => true,
        Algorithm::Fixed | Algorithm::PowerRatio => false,
    };
    adapts && settings.modes_in_force().in_flight != Mode::Off
}
