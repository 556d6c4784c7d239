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

use crate::{Timestamp, admission::Outcome, knobs::Algorithm};

/// An exchange that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// When it ended.
    pub now: Timestamp,
    /// Time in flight.
    pub response_time: Duration,
    /// Weight in flight just after its start, itself included.
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
        }
    }
}

impl Limit for Limiter {
    fn limit(&self) -> u32 {
        match self {
            Self::Fixed(limit) => limit.limit(),
            Self::Aimd(limit) => limit.limit(),
            Self::Vegas(limit) => limit.limit(),
            Self::Gradient2(limit) => limit.limit(),
        }
    }

    fn sample(&mut self, sample: &Sample) {
        match self {
            Self::Fixed(limit) => limit.sample(sample),
            Self::Aimd(limit) => limit.sample(sample),
            Self::Vegas(limit) => limit.sample(sample),
            Self::Gradient2(limit) => limit.sample(sample),
        }
    }

    fn set_bounds(&mut self, bounds: LimitBounds) {
        match self {
            Self::Fixed(limit) => limit.set_bounds(bounds),
            Self::Aimd(limit) => limit.set_bounds(bounds),
            Self::Vegas(limit) => limit.set_bounds(bounds),
            Self::Gradient2(limit) => limit.set_bounds(bounds),
        }
    }
}

/// Whole weight units of a limit kept as a real number between 1 and 2³².
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped; `as` saturates")]
fn whole(limit: f64) -> u32 {
    (limit.max(1.0) as u32).max(1)
}
