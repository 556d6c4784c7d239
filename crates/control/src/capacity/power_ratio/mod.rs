//! Power ratio: WebQ's discovery of the capacity, by the load at which goodput over response time peaks.
//!
//! Time is divided into epochs of `τ`; in epoch `i` the load offered to the server is `c_i` requests a second. At
//! its end goodput `g_i` and mean response time `r_i` give one observation of the power ratio, `γ_i = g_i / r_i`,
//! and a cubic is fitted to all observations `(c, γ)` of the discovery. An epoch is *close* if
//! `|g_i − c_i| / g_i < ε`.
//!
//! ```text
//! coarse     c ← α·c after each close epoch, from c₀, until the cubic's maximum over (c₀, c_i) lies inside it;
//!            C̄ is then the present load
//! cool-down  c = β·C̄ until N_s epochs in a row are close; their observations are dropped
//! fine       c ← c + δ·C̄ after each close epoch, until the maximum has been inside, and then for N_f epochs more
//! cool-down  c = C, the maximum of the last fit, until N_s epochs in a row are close
//! found      c = C; an observation further from the fit than twice the largest error of the discovery is a change:
//!            above the curve a discovery begins at the present load, below it at c₀; old observations are dropped
//! ```
//!
//! Source: WebQ (IWQoS 2015), section IV: A (power ratio, cubic, epochs), B (coarse and fine), C (cool-down, closeness),
//! D (changes). α 1.15, β 0.8, δ 0.02, τ 8 s, ε 0.1, N_s 2, N_f 7, c₀ 15/s and the factor of 2 are the paper's, all
//! of them settings. Where the text is silent:
//!
//! 1. An epoch in which the rate held nothing back was not offered `c_i`: it is no observation, does not move the load,
//!    and shows no change. (The paper says only that discovery pauses; an observation at a load that was never
//!    offered would bend the fit.)
//! 2. An epoch held back that is not close is an observation, and the load stays: at overload goodput never comes
//!    near `c` again, and only the power that falls with the queue can move the maximum inside.
//! 3. "The maximum inside" is strictly between `c₀` of this discovery and `c_i`, the highest of all values there.
//! 4. The `N_f` further epochs are in a row; one with the maximum outside begins the count anew.
//! 5. An epoch without a reply says nothing.
//! 6. Nothing is fitted before there are four different loads.
//! 7. Of the observations the latest 512 are kept.
//!
//! It seeks the peak of power over offered load, which queueing theory has at 50 % of the capacity for M/M/1, 59 % for
//! M/D/1, 67 % for M/M/4 and 88 % for M/M/40. It is the baseline of comparisons.

mod cubic;
#[cfg(test)]
mod tests;

use std::{collections::VecDeque, mem, time::Duration};

use self::cubic::{Cubic, Peak};
use super::{CapacityBounds, CapacityEvent, Cause};
use crate::{
    Timestamp,
    admission::Outcome,
    limit::{Limit, LimitBounds, Load, Sample},
};

const OBSERVATIONS_MAX: usize = 512;
const EVENTS_MAX: usize = 64;

/// The constants of the algorithm. [`PowerRatioSettings::default`] is the paper's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PowerRatioSettings {
    /// `c₀`, requests a second.
    pub initial_per_s: f64,
    /// `α`, over 1: growth of the load in the coarse phase.
    pub growth: f64,
    /// `β`, below 1: where the fine phase begins, of the coarse one's end.
    pub back_off: f64,
    /// `δ`: step of the fine phase, of the coarse one's end.
    pub step: f64,
    /// `τ`.
    pub epoch: Duration,
    /// `ε`: how far goodput may be from the load, of the goodput.
    pub close: f64,
    /// `N_s`: close epochs in a row that end a cool-down.
    pub stable_epochs: u32,
    /// `N_f`: epochs that confirm the maximum.
    pub confirm_epochs: u32,
    /// A change is an observation this many times the largest error off.
    pub change_errors: f64,
}

impl Default for PowerRatioSettings {
    fn default() -> Self {
        Self {
            initial_per_s: 15.0,
            growth: 1.15,
            back_off: 0.8,
            step: 0.02,
            epoch: Duration::from_secs(8),
            close: 0.1,
            stable_epochs: 2,
            confirm_epochs: 7,
            change_errors: 2.0,
        }
    }
}

/// WebQ's capacity discovery: see the head of its file.
///
/// It limits by rate, not by what is in flight: [`Limit::rate`] is the load `c`. Epochs end at the first call
/// after their time; when time jumps, one long epoch gives one observation. One fit an epoch, O(observations).
///
/// ```
/// use tidegate_control::{capacity::{PowerRatio, PowerRatioSettings}, limit::{Limit, LimitBounds}};
///
/// let bounds = LimitBounds { initial: 20, min: 1, max: 1000 };
/// let power = PowerRatio::new(bounds, PowerRatioSettings::default());
/// assert_eq!(power.rate(), Some(15.0));
/// assert_eq!(power.capacity(), None);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct PowerRatio {
    settings: PowerRatioSettings,
    bounds: LimitBounds,
    capacity_bounds: CapacityBounds,
    phase: Phase,
    /// `c`, requests a second.
    load: f64,
    /// Where this discovery began.
    from: f64,
    observations: VecDeque<(f64, f64)>,
    found: Option<Found>,
    epoch: Option<Epoch>,
    now: Timestamp,
    events: VecDeque<CapacityEvent>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    Coarse,
    /// After the coarse phase, which ended at `coarse_end`.
    CoolDown {
        coarse_end: f64,
        stable: u32,
    },
    /// `inside`: epochs in a row that had the maximum inside.
    Fine {
        coarse_end: f64,
        inside: u32,
    },
    /// After the fine phase.
    LastCoolDown {
        stable: u32,
    },
    Found,
}

/// What a discovery ended with.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Found {
    capacity: f64,
    curve: Cubic,
    error_max: f64,
}

/// What is counted of the present epoch.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Epoch {
    began: Timestamp,
    good: u32,
    replies: u32,
    response_s: f64,
    held: bool,
}

impl PowerRatio {
    /// Begins a discovery at `c₀`.
    #[must_use]
    pub fn new(bounds: LimitBounds, settings: PowerRatioSettings) -> Self {
        let load = settings.initial_per_s;
        Self {
            settings,
            bounds,
            capacity_bounds: CapacityBounds::default(),
            phase: Phase::Coarse,
            load,
            from: load,
            observations: VecDeque::new(),
            found: None,
            epoch: None,
            now: Timestamp::EPOCH,
            events: VecDeque::new(),
        }
    }

    /// The capacity found, requests a second; while a new discovery is going on, the one before; `None` before the
    /// first has ended.
    #[must_use]
    pub fn capacity(&self) -> Option<f64> {
        self.found.map(|found| self.capacity_bounds.clamp(found.capacity))
    }

    /// What the slots of the present epoch hold, requests a second: its load `c`, in a discovery as later, so that whoever
    /// is too many for it has a time from the first moment on (section IV). `held_back`: whether somebody was made to wait
    /// for a slot, so that `c` was offered.
    pub fn slots(&mut self, held_back: bool) -> f64 {
        if let Some(epoch) = &mut self.epoch {
            epoch.held |= held_back;
        }
        self.load()
    }

    /// Bounds of load and capacity, from now on.
    pub fn set_capacity_bounds(&mut self, bounds: CapacityBounds) {
        self.capacity_bounds = bounds;
    }

    /// New constants, from the present epoch on.
    pub fn set_settings(&mut self, settings: PowerRatioSettings) {
        self.settings = settings;
    }

    /// Begins a discovery at `c₀`, as an administrator may at any time (section IV-D).
    pub fn rediscover(&mut self) {
        self.discover(self.settings.initial_per_s, Cause::Told);
    }

    /// Servers were lost or added: the load and what was found go with them at once, and discovery goes
    /// on from there. Observations of what was before are dropped.
    pub fn resize(&mut self, factor: f64) {
        if !(factor.is_finite() && factor > 0.0) || factor == 1.0 {
            return;
        }
        let before = self.capacity();
        if let Some(found) = &mut self.found {
            found.capacity *= factor;
        }
        let load = self.load() * factor;
        self.discover(load, Cause::Servers);
        if let Some(event) = self.events.back_mut() {
            event.before = before;
        }
    }

    /// Moves the events since the last call to `out`.
    pub fn drain_events(&mut self, out: &mut Vec<CapacityEvent>) {
        out.extend(self.events.drain(..));
    }

    fn end_epoch(&mut self, epoch: &Epoch, seconds: f64) {
        if epoch.replies == 0 || !epoch.held {
            return;
        }
        let goodput = f64::from(epoch.good) / seconds;
        let response = epoch.response_s / f64::from(epoch.replies);
        if response <= 0.0 {
            return;
        }
        let power = goodput / response;
        let load = self.load();
        let close = goodput > 0.0 && (goodput - load).abs() / goodput < self.settings.close;
        match self.phase {
            Phase::Coarse => {
                self.observe(power);
                if let Some((Peak::Inside(_), _)) = self.peak() {
                    self.phase = Phase::CoolDown { coarse_end: load, stable: 0 };
                    self.load = self.settings.back_off * load;
                } else if close {
                    self.load = load * self.settings.growth;
                }
            }
            Phase::CoolDown { coarse_end, stable } => {
                let stable = if close { stable + 1 } else { 0 };
                self.phase = if stable >= self.settings.stable_epochs {
                    Phase::Fine { coarse_end, inside: 0 }
                } else {
                    Phase::CoolDown { coarse_end, stable }
                };
            }
            Phase::Fine { coarse_end, inside } => {
                self.observe(power);
                let peak = self.peak();
                let inside = if matches!(peak, Some((Peak::Inside(_), _))) { inside + 1 } else { 0 };
                // The epoch that first has it inside, and so many further ones.
                if let (Some((Peak::Inside(capacity), curve)), true) =
                    (peak, inside > self.settings.confirm_epochs)
                {
                    self.conclude(capacity, curve);
                    return;
                }
                self.phase = Phase::Fine { coarse_end, inside };
                if close {
                    self.load = load + self.settings.step * coarse_end;
                }
            }
            Phase::LastCoolDown { stable } => {
                let stable = if close { stable + 1 } else { 0 };
                self.phase = if stable >= self.settings.stable_epochs {
                    Phase::Found
                } else {
                    Phase::LastCoolDown { stable }
                };
            }
            Phase::Found => {
                let Some(found) = self.found else { return };
                let off = power - found.curve.at(load);
                if off.abs() > self.settings.change_errors * found.error_max {
                    if off > 0.0 {
                        self.discover(load, Cause::Rise);
                    } else {
                        self.discover(self.settings.initial_per_s, Cause::Fall);
                    }
                }
            }
        }
    }

    fn observe(&mut self, power: f64) {
        if self.observations.len() == OBSERVATIONS_MAX {
            self.observations.pop_front();
        }
        self.observations.push_back((self.load(), power));
    }

    /// The fit over this discovery's observations, and its maximum between where it began and the present load.
    fn peak(&mut self) -> Option<(Peak, Cubic)> {
        let curve = Cubic::fit(self.observations.make_contiguous())?;
        Some((curve.peak(self.from, self.load()), curve))
    }

    fn conclude(&mut self, capacity: f64, curve: Cubic) {
        let error_max =
            self.observations.iter().map(|(load, power)| (curve.at(*load) - power).abs()).fold(0.0, f64::max);
        let before = self.capacity();
        self.found = Some(Found { capacity, curve, error_max });
        self.load = capacity;
        self.phase = Phase::LastCoolDown { stable: 0 };
        self.note(Cause::Found, before, self.capacity());
    }

    fn discover(&mut self, from: f64, cause: Cause) {
        self.note(cause, self.capacity(), None);
        (self.load, self.from, self.phase) = (from, from, Phase::Coarse);
        self.observations.clear();
    }

    fn note(&mut self, cause: Cause, before: Option<f64>, after: Option<f64>) {
        if self.events.len() == EVENTS_MAX {
            self.events.pop_front();
        }
        self.events.push_back(CapacityEvent { at: self.now, cause, before, after });
    }

    /// `c`, within the capacity's bounds.
    fn load(&self) -> f64 {
        self.capacity_bounds.clamp(self.load)
    }
}

impl Limit for PowerRatio {
    /// It does not limit what is in flight: the highest allowed.
    fn limit(&self) -> u32 {
        self.bounds.max.max(self.bounds.min)
    }

    fn rate(&self) -> Option<f64> {
        Some(self.load())
    }

    fn sample(&mut self, sample: &Sample) {
        let Some(epoch) = &mut self.epoch else { return };
        epoch.good += u32::from(sample.outcome == Outcome::Success);
        epoch.replies += 1;
        epoch.response_s += sample.response_time.as_secs_f64();
    }

    fn advance(&mut self, now: Timestamp, load: &Load<'_>) -> bool {
        let held = load.rate_holds;
        self.now = self.now.max(now);
        let fresh = Epoch { began: now, good: 0, replies: 0, response_s: 0.0, held };
        let Some(epoch) = &mut self.epoch else {
            self.epoch = Some(fresh);
            return false;
        };
        epoch.held |= held;
        let passed = now.since(epoch.began);
        let is_over = passed >= self.settings.epoch && !passed.is_zero();
        if is_over {
            let epoch = mem::replace(epoch, fresh);
            self.end_epoch(&epoch, passed.as_secs_f64());
        }
        is_over
    }

    fn next_tick(&self) -> Option<Timestamp> {
        self.epoch.map(|epoch| epoch.began + self.settings.epoch)
    }

    fn set_bounds(&mut self, bounds: LimitBounds) {
        self.bounds = bounds;
    }
}
