//! What was found, to begin with in another process, or once `in_flight.max` no longer holds the limit below it: from costs,
//! response times without a queue and headroom follow capacity and limit.
//!
//! The server may be another one by then. So what was found counts like `200·F` departures, an error of 7 %: what departs soon
//! counts more, a change is noticed as at any time, and a look upwards comes soon, as after a search.

use super::{Area, COST_CLASSES, Cause, Counted, KneeTrack, Mode, PerClass, Span, costs::Costs, probe};

/// Departures, times the dispersion `F`, for which what was found counts.
const COUNTED: f64 = 200.0;
/// Departures for which its response times count: as many as a full low probe takes.
const LOW_COUNTED: f64 = 40.0;
/// Starts for which its mix counts.
const MIX: f64 = 20.0;

/// What was found of an application's servers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Found {
    /// `β`, over the knee in its square root; 0.5 to 8.
    pub headroom: f64,
    /// `F`, of the work that departs; 0.3 to 15.
    pub dispersion: f64,
    /// Dense by class, those that are known; the last is also for the classes after it.
    pub classes: [Option<FoundClass>; COST_CLASSES],
}

/// What was found of a class.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FoundClass {
    /// Seconds of what all servers can do together that a request takes, above 0.
    pub cost_s: f64,
    /// Mean response time without a queue, seconds, above 0.
    pub unqueued_s: f64,
    /// Its part of the requests, 0 to 1; together 1.
    pub part: f64,
}

impl Found {
    /// Capacity of the mix, requests a second: `1 / Σ part·cost`.
    #[must_use]
    pub fn per_s(&self) -> f64 {
        self.mean(|class| class.cost_s).recip()
    }

    /// Whether it can be begun with: some class has a part, and every number is in its range.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        let is_positive = |value: f64| value.is_finite() && value > 0.0;
        let is_of = |class: &FoundClass| {
            is_positive(class.cost_s) && is_positive(class.unqueued_s) && (0.0..=1.0).contains(&class.part)
        };
        is_positive(self.headroom)
            && is_positive(self.dispersion)
            && self.known().all(|(_, class)| is_of(class))
            && self.known().any(|(_, class)| class.part > 0.0)
    }

    /// The servers are `factor` times what they were.
    pub(super) fn speed_up(&mut self, factor: f64) {
        for class in self.classes.iter_mut().flatten() {
            class.cost_s /= factor;
        }
    }

    fn known(&self) -> impl Iterator<Item = (usize, &FoundClass)> {
        self.classes.iter().enumerate().filter_map(|(place, class)| Some((place, class.as_ref()?)))
    }

    fn mean(&self, of: impl Fn(&FoundClass) -> f64) -> f64 {
        let parts: f64 = self.known().map(|(_, class)| class.part).sum();
        self.known().map(|(_, class)| class.part * of(class)).sum::<f64>() / parts
    }

    /// One number for each of `classes`; those not known get the mean.
    fn dense(&self, classes: usize, of: impl Fn(&FoundClass) -> f64) -> PerClass {
        let mut values = PerClass::all(self.mean(&of), classes);
        for (place, class) in self.known() {
            values[place] = of(class);
        }
        values
    }
}

impl KneeTrack {
    /// What has been found; `None` while nothing is known.
    #[must_use]
    pub fn found(&self) -> Option<Found> {
        let costs = self.costs.as_ref()?;
        let (theta, rho, starts) = (costs.theta(), self.saturated_rho(), self.mix.sum());
        let mut classes = [None; COST_CLASSES];
        for (class, known) in classes.iter_mut().enumerate().take(self.classes) {
            *known = Some(FoundClass {
                cost_s: theta[class] / rho,
                unqueued_s: self.unqueued(class),
                part: if starts > 0.0 { self.mix[class] / starts } else { 0.0 },
            });
        }
        let (headroom, dispersion) = (self.headroom.beta, self.dispersion);
        Some(Found { headroom, dispersion, classes }).filter(Found::is_sound)
    }

    /// Begins with what was found before, in place of a search. What is not [sound](Found::is_sound) changes nothing.
    pub fn restore(&mut self, found: &Found) {
        if !found.is_sound() {
            return;
        }
        let before = self.capacity();
        let mut parts = PerClass::ZERO;
        for (place, class) in found.known() {
            parts[place] = class.part;
            self.classes = self.classes.max(place + 1);
        }
        let parts = parts.scaled(parts.sum().recip());
        let theta = found.dense(self.classes, |class| class.cost_s);
        self.dispersion = found.dispersion.clamp(0.3, 15.0);
        self.headroom = probe::Headroom::of(found.headroom);
        self.mix = parts.scaled(MIX);
        let departed = parts.scaled(COUNTED * self.dispersion);
        self.counted = Counted::of(Span { departed, seconds: theta.dot(&departed) });
        self.costs = Some(Costs::new(theta, self.classes));
        let unqueued = found.dense(self.classes, |class| class.unqueued_s);
        let departed = parts.scaled(LOW_COUNTED);
        let mut in_flight_s = PerClass::ZERO;
        for class in 0..self.classes {
            in_flight_s[class] = departed[class] * unqueued[class];
        }
        self.low = Area { departed, in_flight_s };
        self.response = in_flight_s.sum() / LOW_COUNTED;
        self.steps.clear();
        self.forget_windows();
        self.is_full = false;
        self.kept = None;
        self.level_cap = self.level_max();
        self.set_base_level();
        self.level_cap = (1.25 * self.level).max(4.0);
        self.schedule.anew(self.last, self.response);
        self.begin(Mode::Base, self.last);
        self.note(Cause::Restored, before);
    }

    /// `in_flight.max` is lower now: keeps what has been `found` if its limit is above that.
    pub(super) fn keep_above_maximum(&mut self, found: Option<Found>) {
        let wanted = self.level_at(self.find_knee(), self.headroom.beta);
        if self.above_maximum.is_none() && wanted > self.level_max() {
            self.above_maximum = found;
        }
    }

    /// `in_flight.max` is higher now than `before`, in requests. Goes on with what had been found when it was set below that limit; where
    /// nothing had, and looks upwards went no further, the next one comes soon.
    pub(super) fn leave_maximum(&mut self, before: f64) {
        if let Some(found) = self.above_maximum.take() {
            self.restore(&found);
            if self.level >= self.level_max() {
                self.above_maximum = Some(found);
            }
        } else if self.costs.is_some() && 2.0 * self.level > before {
            self.schedule.anew(self.last, self.response);
        }
    }
}
