//! How many processors an application needs, by what it uses and waits for, or by what it asks for.
//!
//! ```text
//! u(k), w(k) = time its threads ran, and waited for a processor, in interval k / its length
//! r(k) = max(u / utilisation, min(u + w, 1.25 · A))                  A: the processors it had
//! R(k) = what was asked for, while that holds; else max(r(k), a · R(k-1) + (1-a) · r(k)),   a = 0.7
//! ```
//!
//! Source: Guitart et al. 2008, section 3.2: the smoothing by a = 0.7, and the request `R` of an application for itself.
//! Deviations:
//!
//! 1. Who asks for nothing is given by what it uses, so that an application need not know of the manager. What is used
//!    says nothing of what would be used beyond it: therefore `utilisation` leaves room to show more.
//! 2. Threads that wait are a need as well: whoever is kept from its processors, be it by somebody the manager does not
//!    know, uses little and needs more. How much more they do not say, since many threads may wait for one processor's
//!    work: so it is a quarter more than it had, until it waits no longer.
//! 3. A rise counts at once, only a fall is smoothed: too few processors for an interval cost more than too many.
//! 4. What was asked for ends by itself, so that the request of a process that has died does not hold for ever.

use std::time::Duration;

use crate::Timestamp;

const SMOOTHING: f64 = 0.7;
/// How much more than it had an application needs that waits.
const GROWTH: f64 = 1.25;

/// The need of one application.
///
/// ```
/// use std::time::Duration;
/// use tidegate_control::{Timestamp, processors::Need};
///
/// let now = Timestamp::EPOCH;
/// let (second, none) = (Duration::from_secs(1), Duration::ZERO);
/// let mut need = Need::new(0.8);
/// // 4 s of processor time in 2 s are 2 processors, which are 80 % of 2.5.
/// need.used(4 * second, none, 3.0, 2 * second);
/// assert_eq!(need.processors(now), 2.5);
/// // Idle: 0.7 · 2.5.
/// need.used(none, none, 3.0, 2 * second);
/// assert!((need.processors(now) - 1.75).abs() < 1e-9);
/// // It had two and could use a half of one, while three threads waited: a quarter more than two.
/// need.used(second, 6 * second, 2.0, 2 * second);
/// assert_eq!(need.processors(now), 2.5);
/// // Asked for, until the second 10.
/// need.ask(3.0, Timestamp::from_nanos(10_000_000_000));
/// assert_eq!(need.processors(now), 3.0);
/// assert_eq!(need.processors(Timestamp::from_nanos(10_000_000_000)), 2.5);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Need {
    utilisation: f64,
    /// R by use, processors.
    level: f64,
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
        Self { utilisation: utilisation.clamp(0.1, 1.0), level: 0.0, asked: None }
    }

    /// Changes the utilisation; what was seen stays.
    pub fn set_utilisation(&mut self, utilisation: f64) {
        self.utilisation = utilisation.clamp(0.1, 1.0);
    }

    /// Notes an interval: the time its threads ran, summed over them, the time they waited for a processor, and how many
    /// processors it had. An interval without length says nothing.
    pub fn used(&mut self, ran: Duration, waited: Duration, had: f64, interval: Duration) {
        if interval.is_zero() {
            return;
        }
        let [ran, waited] = [ran, waited].map(|time| time.as_secs_f64() / interval.as_secs_f64());
        let need = (ran / self.utilisation).max((ran + waited).min(GROWTH * had));
        self.level = need.max(SMOOTHING * self.level + (1.0 - SMOOTHING) * need);
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
        self.asked(now).unwrap_or(self.level)
    }
}
