//! Peak EWMA: a server's response time that believes bad news at once and good news slowly.

use std::time::Duration;

use crate::Timestamp;

/// An exponentially weighted moving average of response times with peaks kept.
///
/// A response time above the average replaces it; one below is mixed in with
/// `w = exp(-Δt / τ)`: `average · w + rtt · (1 - w)`, `Δt` being the time since the last
/// observation. While nothing is observed the value decays towards zero by the same `w`, so that
/// a server shunned for one slow answer is tried again.
///
/// Source: Finagle, `PeakEwma.scala`, and Linkerd 2, `peak_ewma.rs`, after R. Marton, "Beyond
/// Round Robin: Load Balancing for Latency", 2016. Deviation: the value of an observed server never
/// decays to zero, which would say "unknown", but to 1 ns.
///
/// Time that stands still or runs backwards counts as no time. Cost: at most one exponential a call. `exp`
/// is the platform's; its last bit may differ between platforms.
///
/// ```
/// use std::time::Duration;
/// use tidegate_control::{Timestamp, balance::PeakEwma};
///
/// let start = Timestamp::from_nanos(0);
/// let mut ewma = PeakEwma::new(start, Duration::from_secs(10));
/// ewma.observe(start, Duration::from_millis(100));
/// // ln 2 · 10 s later w is 1/2: 100 / 2 + 20 / 2 = 60 ms.
/// let later = start + Duration::from_secs_f64(10.0 * std::f64::consts::LN_2);
/// ewma.observe(later, Duration::from_millis(20));
/// assert_eq!((ewma.value(later).as_secs_f64() * 1e3).round(), 60.0);
/// // A peak is believed at once.
/// ewma.observe(later, Duration::from_millis(500));
/// assert_eq!(ewma.value(later), Duration::from_millis(500));
/// // Left alone, it is half of that ln 2 · 10 s later, and was 500 ms.
/// let idle = later + Duration::from_secs_f64(10.0 * std::f64::consts::LN_2);
/// assert_eq!((ewma.value(idle).as_secs_f64() * 1e3).round(), 250.0);
/// assert_eq!(ewma.at_last_observation(), Some(Duration::from_millis(500)));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct PeakEwma {
    tau_ns: f64,
    observed: Timestamp,
    /// 0 before the first observation.
    average_ns: f64,
}

impl PeakEwma {
    /// Finagle's time constant.
    pub const TAU: Duration = Duration::from_secs(10);

    /// Without observation; `tau` is the time after which an observation counts 1/e, at least 1 ns.
    #[must_use]
    pub fn new(now: Timestamp, tau: Duration) -> Self {
        Self { tau_ns: (tau.as_secs_f64() * 1e9).max(1.0), observed: now, average_ns: 0.0 }
    }

    /// Takes a response time into account.
    pub fn observe(&mut self, now: Timestamp, rtt: Duration) {
        let rtt_ns = (rtt.as_secs_f64() * 1e9).max(1.0);
        self.average_ns = if rtt_ns >= self.average_ns {
            rtt_ns
        } else {
            let kept = self.kept(now);
            self.average_ns * kept + rtt_ns * (1.0 - kept)
        };
        self.observed = self.observed.max(now);
    }

    /// The response time to expect; zero before the first observation.
    #[must_use]
    pub fn value(&self, now: Timestamp) -> Duration {
        if self.average_ns == 0.0 {
            return Duration::ZERO;
        }
        // Saturates at 584 years.
        Duration::from_nanos(((self.average_ns * self.kept(now)) as u64).max(1))
    }

    /// The average as it was at the last observation, for who shows it: decayed, it says how long nothing was observed.
    /// `None` before the first.
    #[must_use]
    pub fn at_last_observation(&self) -> Option<Duration> {
        (self.average_ns > 0.0).then(|| Duration::from_nanos(self.average_ns.round() as u64))
    }

    /// The weight that what was observed still has.
    fn kept(&self, now: Timestamp) -> f64 {
        let age = now.since(self.observed);
        if age.is_zero() { 1.0 } else { (-age.as_secs_f64() * 1e9 / self.tau_ns).exp() }
    }
}
