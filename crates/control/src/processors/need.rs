//! How many processors an application needs, by what it uses or by what it asks for.
//!
//! ```text
//! u(k) = processor time used in interval k / its length
//! U(k) = max(u(k), a · U(k-1) + (1-a) · u(k)),   a = 0.7
//! R(k) = what was asked for, while that holds; else U(k) / utilisation
//! ```
//!
//! Source: Guitart et al. 2008, section 3.2: the smoothing by a = 0.7, and the request `R` of an application for itself.
//! Deviations:
//!
//! 1. Who asks for nothing is given by what it uses, so that an application need not know of the manager. What is used
//!    says nothing of what would be used beyond it: therefore `utilisation` leaves room to show more.
//! 2. A rise counts at once, only a fall is smoothed: too few processors for an interval cost more than too many.
//! 3. What was asked for ends by itself, so that the request of a process that has died does not hold for ever.

use std::time::Duration;

use crate::Timestamp;

const SMOOTHING: f64 = 0.7;

/// The need of one application.
///
/// ```
/// use std::time::Duration;
/// use tidegate_control::{Timestamp, processors::Need};
///
/// let now = Timestamp::EPOCH;
/// let mut need = Need::new(0.8);
/// need.used(Duration::from_secs(4), Duration::from_secs(2));
/// // 4 s of processor time in 2 s are 2 processors, which are 80 % of 2.5.
/// assert_eq!(need.processors(now), 2.5);
/// // Idle: 0.7 · 2 = 1.4 processors, 80 % of 1.75.
/// need.used(Duration::ZERO, Duration::from_secs(2));
/// assert!((need.processors(now) - 1.75).abs() < 1e-9);
/// // Asked for, until the second 10.
/// need.ask(3.0, Timestamp::from_nanos(10_000_000_000));
/// assert_eq!(need.processors(now), 3.0);
/// assert!((need.processors(Timestamp::from_nanos(10_000_000_000)) - 1.75).abs() < 1e-9);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Need {
    utilisation: f64,
    /// U, processors.
    usage: f64,
    asked: Option<Asked>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Asked {
    processors: f64,
    until: Timestamp,
}

impl Need {
    /// The need of an application of which nothing is known yet: none.
    ///
    /// - `utilisation`: how much of its processors it shall use, 0.1 to 1, default 0.8; a value outside is moved to
    ///   the nearest allowed.
    #[must_use]
    pub fn new(utilisation: f64) -> Self {
        Self { utilisation: utilisation.clamp(0.1, 1.0), usage: 0.0, asked: None }
    }

    /// Changes the utilisation; what was seen stays.
    pub fn set_utilisation(&mut self, utilisation: f64) {
        self.utilisation = utilisation.clamp(0.1, 1.0);
    }

    /// Notes the processor time of an interval. An interval without length says nothing.
    pub fn used(&mut self, time: Duration, interval: Duration) {
        if interval.is_zero() {
            return;
        }
        let usage = time.as_secs_f64() / interval.as_secs_f64();
        self.usage = usage.max(SMOOTHING * self.usage + (1.0 - SMOOTHING) * usage);
    }

    /// Asks for so many processors, until the given time; what is no number or below 0 asks for none.
    pub fn ask(&mut self, processors: f64, until: Timestamp) {
        self.asked = Some(Asked { processors: processors.max(0.0), until });
    }

    /// What was asked for, while it holds, in processors.
    #[must_use]
    pub fn asked(&self, now: Timestamp) -> Option<f64> {
        self.asked.filter(|asked| now < asked.until).map(|asked| asked.processors)
    }

    /// R, in processors.
    #[must_use]
    pub fn processors(&self, now: Timestamp) -> f64 {
        self.asked(now).unwrap_or(self.usage / self.utilisation)
    }
}
