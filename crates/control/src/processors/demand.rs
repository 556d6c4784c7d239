//! How many processors an application would need for all that is asked of it.
//!
//! ```text
//! x̂(k) = a · x̂(k-1) + (1-a) · x(k),   a = 0.7;   x̂(1) = x(1)        for each of used, served and offered
//! R(k) = offered^(k) · used^(k) / served^(k) / utilisation
//! ```
//!
//! `used^ / served^` is what a unit of work costs in processors. What is offered is what was served, what was refused and
//! what clients left: an application that is kept from overload uses no more than it has, and shows by this alone what it
//! lacks.
//!
//! Source: Guitart et al. 2008, section 3.2.1 (the "eDragon Load Monitor"): `R = (O^ · CTO + N^ · CTN) / T`, with the
//! numbers of resumed and new TLS connections that arrive, refused ones included, and what each costs. Deviations:
//!
//! 1. Requests are counted instead of connections, each class by its own cost, so that it holds for what comes without
//!    TLS, and for connections that live long.
//! 2. The cost of a unit is measured while it runs, not profiled before.
//! 3. A part of the processors is left free (`utilisation`): with none, requests would wait without end.

/// The share of an interval's value that the next keeps.
const SMOOTHING: f64 = 0.7;

/// The demand for one application.
///
/// ```
/// use tidegate_control::processors::Demand;
///
/// let mut demand = Demand::new(0.8);
/// // 300 units of work a second are asked for, 100 are served, by 2 processors: 300 need 6, which are 80 % of 7.5.
/// demand.interval(300.0, 100.0, 2.0);
/// assert_eq!(demand.processors(), Some(7.5));
/// // Nothing was ever served: what a unit costs is not known.
/// let mut unknown = Demand::new(0.8);
/// unknown.interval(300.0, 0.0, 0.0);
/// assert_eq!(unknown.processors(), None);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Demand {
    utilisation: f64,
    smoothed: Option<Rates>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Rates {
    offered: f64,
    served: f64,
    used: f64,
}

impl Demand {
    /// Nothing is known yet.
    ///
    /// - `utilisation`: how much of its processors the application shall use, 0.1 to 1; a value outside is moved to the
    ///   nearest allowed.
    #[must_use]
    pub fn new(utilisation: f64) -> Self {
        Self { utilisation: utilisation.clamp(0.1, 1.0), smoothed: None }
    }

    /// Notes an interval: work offered and served in units per second, and processors used for it. What is no number or
    /// below 0 counts as 0.
    pub fn interval(&mut self, offered: f64, served: f64, used: f64) {
        let [offered, served, used] = [offered, served, used].map(|rate| rate.max(0.0));
        let next = |before: f64, rate: f64| SMOOTHING * before + (1.0 - SMOOTHING) * rate;
        self.smoothed = Some(match self.smoothed {
            None => Rates { offered, served, used },
            Some(before) => Rates {
                offered: next(before.offered, offered),
                served: next(before.served, served),
                used: next(before.used, used),
            },
        });
    }

    /// R, in processors; `None` while nothing was served.
    #[must_use]
    pub fn processors(&self) -> Option<f64> {
        let rates = self.smoothed.filter(|rates| rates.served > 0.0)?;
        Some(rates.offered * rates.used / rates.served / self.utilisation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_followed_by_seven_tenths() {
        let mut demand = Demand::new(1.0);
        demand.interval(100.0, 100.0, 1.0);
        for interval in 1..10 {
            demand.interval(200.0, 100.0, 1.0);
            let expected = 2.0 - 0.7_f64.powi(interval);
            let processors = demand.processors().expect("is known");
            assert!((processors - expected).abs() < 1e-9, "{processors} for {expected}");
        }
    }

    #[test]
    fn what_a_unit_costs_does_not_change_with_how_much_is_served() {
        let mut demand = Demand::new(1.0);
        for served in [100.0, 50.0, 10.0, 80.0] {
            demand.interval(400.0, served, served / 100.0);
        }
        assert!((demand.processors().expect("is known") - 4.0).abs() < 1e-9);
    }

    #[test]
    fn an_idle_application_needs_none_and_bad_numbers_count_as_none() {
        let mut demand = Demand::new(0.8);
        demand.interval(f64::NAN, 10.0, -1.0);
        assert_eq!(demand.processors(), Some(0.0));
    }
}
