//! Limits: how much weight may be in flight, found from how exchanges end.
//!
//! A [`Limit`] receives a [`Sample`] for each exchange that ends and answers with the limit that
//! should hold from now on. It estimates; admission admits. All state is plain data.

mod aimd;
mod baseline;
mod fixed;
mod gradient2;
#[cfg(test)]
mod tests;
mod vegas;
mod window;
mod windowed;

use std::time::Duration;

pub use aimd::Aimd;
pub use fixed::Fixed;
pub use gradient2::Gradient2;
pub use vegas::Vegas;

use crate::{
    ClassId, Timestamp,
    admission::Outcome,
    capacity::{CapacityBounds, CapacityEvent, Found, KneeTrack, Pace, PowerRatio, PowerRatioSettings},
    knobs::Algorithm,
};

/// An exchange that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// When it ended.
    pub now: Timestamp,
    /// Its class.
    pub class: ClassId,
    /// Time for which it counted in flight: until its end, or until it was found dormant.
    pub response_time: Duration,
    /// Weight in flight just after its start, itself included, without what was dormant.
    pub in_flight: u32,
    /// Whether, while it was in flight, the limit kept something waiting.
    pub limit_utilised: bool,
    /// How it ended. [`Outcome::Ignore`] is no sample.
    pub outcome: Outcome,
    /// Its weight.
    pub weight: u32,
}

impl Sample {
    /// When it started.
    #[must_use]
    pub fn started(&self) -> Timestamp {
        self.now - self.response_time
    }

    fn response_ns(&self) -> f64 {
        self.response_time.as_secs_f64() * 1e9
    }
}

/// How things have stood since the last look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load<'a> {
    /// Weight in flight, dense by class, without what is dormant.
    pub in_flight: &'a [u64],
    /// Exchanges ever started, dense by class.
    pub started: &'a [u64],
    /// Whether the limit keeps something waiting.
    pub limit_holds: bool,
    /// Whether the limit's rate does ([`Limit::rate`]).
    pub rate_holds: bool,
}

/// Where the limit starts and between what it may move, weight units, each at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitBounds {
    /// The fixed limit; where an adaptive one starts.
    pub initial: u32,
    /// An adaptive limit never goes below.
    pub min: u32,
    /// An adaptive limit never goes above.
    pub max: u32,
}

impl LimitBounds {
    /// Puts `limit` between `min` and `max`; `min` wins if they cross.
    #[must_use]
    pub fn clamp(&self, limit: f64) -> f64 {
        limit.min(f64::from(self.max)).max(f64::from(self.min)).max(1.0)
    }
}

/// An algorithm that finds the in-flight limit.
pub trait Limit {
    /// The limit, weight units, at least 1.
    #[must_use]
    fn limit(&self) -> u32;

    /// Starts a second that there may be besides, if it limits those.
    #[must_use]
    fn rate(&self) -> Option<f64> {
        None
    }

    /// Time has passed, in which things stood like this. Comes before every change of what is in flight. False if limit and
    /// rate are surely what they were.
    fn advance(&mut self, _now: Timestamp, _load: &Load<'_>) -> bool {
        false
    }

    /// When it wants to be told again that time has passed, though nothing else happens.
    #[must_use]
    fn next_tick(&self) -> Option<Timestamp> {
        None
    }

    /// Learns from an exchange that has ended.
    fn sample(&mut self, sample: &Sample);

    /// Moves the limit into new bounds; what was learnt stays.
    fn set_bounds(&mut self, bounds: LimitBounds);
}

/// One of the algorithms, chosen by the knob `in_flight.algorithm`.
#[derive(Clone, Debug, PartialEq)]
pub enum Limiter {
    /// As set by hand.
    Fixed(Fixed),
    /// Additive increase, multiplicative decrease.
    Aimd(Aimd),
    /// TCP Vegas on response times.
    Vegas(Vegas),
    /// Gradient of short- against long-term response times.
    Gradient2(Gradient2),
    /// The knee of the departure rate.
    KneeTrack(Box<KneeTrack>),
    /// WebQ's peak of goodput over response time; limits by rate.
    PowerRatio(Box<PowerRatio>),
}

/// Runs an expression on whichever algorithm it is.
macro_rules! each {
    ($limiter:expr, $limit:ident => $run:expr) => {
        match $limiter {
            Limiter::Fixed($limit) => $run,
            Limiter::Aimd($limit) => $run,
            Limiter::Vegas($limit) => $run,
            Limiter::Gradient2($limit) => $run,
            Limiter::KneeTrack($limit) => $run,
            Limiter::PowerRatio($limit) => $run,
        }
    };
}

impl Limiter {
    /// An algorithm in its first state.
    #[must_use]
    pub fn new(algorithm: Algorithm, bounds: LimitBounds) -> Self {
        match algorithm {
            Algorithm::Fixed => Self::Fixed(Fixed::new(bounds)),
            Algorithm::Aimd => Self::Aimd(Aimd::new(bounds)),
            Algorithm::Vegas => Self::Vegas(Vegas::new(bounds)),
            Algorithm::Gradient2 => Self::Gradient2(Gradient2::new(bounds)),
            Algorithm::KneeTrack => Self::KneeTrack(Box::new(KneeTrack::new(bounds))),
            Algorithm::PowerRatio => {
                Self::PowerRatio(Box::new(PowerRatio::new(bounds, PowerRatioSettings::default())))
            }
        }
    }

    /// Which of the knob's choices it is.
    #[must_use]
    pub const fn algorithm(&self) -> Algorithm {
        match self {
            Self::Fixed(_) => Algorithm::Fixed,
            Self::Aimd(_) => Algorithm::Aimd,
            Self::Vegas(_) => Algorithm::Vegas,
            Self::Gradient2(_) => Algorithm::Gradient2,
            Self::KneeTrack(_) => Algorithm::KneeTrack,
            Self::PowerRatio(_) => Algorithm::PowerRatio,
        }
    }

    /// Capacity for the present mix, requests a second, if the algorithm finds one and has.
    #[must_use]
    pub fn capacity(&self) -> Option<f64> {
        match self {
            Self::KneeTrack(knee) => knee.capacity(),
            Self::PowerRatio(power) => power.capacity(),
            _ => None,
        }
    }

    /// What a request of `class` costs, where one of the default class costs 1, if the algorithm learns that.
    #[must_use]
    pub fn cost(&self, class: ClassId) -> Option<f64> {
        match self {
            Self::KneeTrack(knee) => knee.cost(class, ClassId(0)),
            _ => None,
        }
    }

    /// Capacity in work units a second: what a request of the default class costs is one. Where costs are not
    /// learnt, every request is.
    #[must_use]
    pub fn work_capacity(&self) -> Option<f64> {
        match self {
            Self::KneeTrack(knee) => knee.work_capacity(ClassId(0)),
            _ => self.capacity(),
        }
    }

    /// How fast work may come and goes, with so many requests queued and so long after the last call; whether the
    /// room holds newcomers back.
    #[expect(clippy::cast_precision_loss, reason = "a length of a queue")]
    pub fn pace(&mut self, queued: usize, passed: Duration, held_back: bool) -> Option<Pace> {
        let Self::KneeTrack(knee) = self else { return None };
        let pace = knee.pace(queued as f64, passed.as_secs_f64(), held_back);
        let units = match (knee.work_capacity(ClassId(0)), knee.capacity()) {
            (Some(work), Some(capacity)) if capacity > 0.0 => work / capacity,
            _ => 1.0,
        };
        Some(Pace {
            may_come_per_s: pace.may_come_per_s * units,
            departs_per_s: pace.departs_per_s * units,
            standing: pace.standing * units,
            error: pace.error,
        })
    }

    /// What the waiting room may promise, work units a second, if the algorithm says so: what is found, or what is being
    /// tried. That newcomers are held back there says to who tries that as much was offered.
    pub fn promised(&mut self, held_back: bool) -> Option<f64> {
        match self {
            Self::PowerRatio(power) => Some(power.slots(held_back)),
            Self::KneeTrack(knee) => knee.work_to_promise(ClassId(0)),
            _ => None,
        }
    }

    /// Between what the capacity is taken to be.
    pub fn set_capacity_bounds(&mut self, bounds: CapacityBounds) {
        match self {
            Self::KneeTrack(knee) => knee.set_capacity_bounds(bounds),
            Self::PowerRatio(power) => power.set_capacity_bounds(bounds),
            _ => {}
        }
    }

    /// The constants of `power_ratio`.
    pub fn set_power_ratio(&mut self, settings: PowerRatioSettings) {
        if let Self::PowerRatio(power) = self {
            power.set_settings(settings);
        }
    }

    /// Forgets the capacity found and searches again.
    pub fn rediscover(&mut self) {
        match self {
            Self::KneeTrack(knee) => knee.rediscover(),
            Self::PowerRatio(power) => power.rediscover(),
            _ => {}
        }
    }

    /// What has been found of the servers, if the algorithm finds that and has.
    #[must_use]
    pub fn found(&self) -> Option<Found> {
        match self {
            Self::KneeTrack(knee) => knee.found(),
            _ => None,
        }
    }

    /// Begins with what another process has found, in place of a search, if the algorithm can.
    pub fn restore(&mut self, found: &Found) {
        if let Self::KneeTrack(knee) = self {
            knee.restore(found);
        }
    }

    /// Servers were lost or added: the capacity is `factor` times what it was.
    pub fn resize(&mut self, factor: f64) {
        match self {
            Self::KneeTrack(knee) => knee.resize(factor),
            Self::PowerRatio(power) => power.resize(factor),
            _ => {}
        }
    }

    /// Moves what has happened to the capacity since the last call to `out`.
    pub fn drain_events(&mut self, out: &mut Vec<CapacityEvent>) {
        match self {
            Self::KneeTrack(knee) => knee.drain_events(out),
            Self::PowerRatio(power) => power.drain_events(out),
            _ => {}
        }
    }
}

impl Limit for Limiter {
    fn limit(&self) -> u32 {
        each!(self, limit => limit.limit())
    }

    fn rate(&self) -> Option<f64> {
        each!(self, limit => limit.rate())
    }

    fn advance(&mut self, now: Timestamp, load: &Load<'_>) -> bool {
        each!(self, limit => limit.advance(now, load))
    }

    fn next_tick(&self) -> Option<Timestamp> {
        each!(self, limit => limit.next_tick())
    }

    fn sample(&mut self, sample: &Sample) {
        each!(self, limit => limit.sample(sample));
    }

    fn set_bounds(&mut self, bounds: LimitBounds) {
        each!(self, limit => limit.set_bounds(bounds));
    }
}

/// Whole weight units of a limit kept as a real number between 1 and 2³².
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped; `as` saturates")]
pub(crate) fn whole(limit: f64) -> u32 {
    (limit.max(1.0) as u32).max(1)
}
