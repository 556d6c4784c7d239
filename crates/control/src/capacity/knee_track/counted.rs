//! What has departed of a full server: the sample of its capacity.
//!
//! Departures in mode base and those in mode up are kept apart. A server is as full above its working limit as at it, so that
//! both count, unless less departs there (collapse):
//!
//! ```text
//! z = ln(X_above / X_base) / √(F·(1/a_above + 1/a_base))     above counts unless z < −1.6
//! ```
//!
//! in which `X` is work a second and `a` are departures. One probe at a low rate is too short to tell; all of them
//! together are not, and what they said of the capacity until then is taken back.

use super::{PerClass, Span, costs::Costs, start::DECIDED};

/// Departures of a full server and their time, fading.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Counted {
    base: Span,
    above: Span,
}

impl Counted {
    /// What counts from now on.
    pub(super) fn of(base: Span) -> Self {
        Self { base, above: Span::default() }
    }

    pub(super) fn add(&mut self, departed: &PerClass, seconds: f64) {
        self.base.add(departed, seconds);
    }

    pub(super) fn add_above(&mut self, departed: &PerClass, seconds: f64) {
        self.above.add(departed, seconds);
    }

    pub(super) fn fade(&mut self, keep: f64) {
        for span in [&mut self.base, &mut self.above] {
            span.departed.scale(keep);
            span.seconds *= keep;
        }
    }

    /// All that counts.
    pub(super) fn span(&self, costs: &Costs, dispersion: f64) -> Span {
        let mut span = self.base;
        if self.above.seconds > 0.0 && !self.is_less_above(costs, dispersion) {
            span.add(&self.above.departed, self.above.seconds);
        }
        span
    }

    fn is_less_above(&self, costs: &Costs, dispersion: f64) -> bool {
        let Self { base, above } = self;
        let rate = |span: &Span| costs.work(&span.departed) / span.seconds;
        if base.seconds <= 0.0 || rate(base) <= 0.0 {
            return false;
        }
        let variance =
            dispersion * (1.0 / above.departed.sum().max(1.0) + 1.0 / base.departed.sum().max(1.0));
        (rate(above) / rate(base)).max(1e-9).ln() < -DECIDED * variance.sqrt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn departed(count: f64) -> PerClass {
        let mut departed = PerClass::ZERO;
        departed[0] = count;
        departed
    }

    fn rate(counted: &Counted) -> f64 {
        let mut cost = PerClass::ZERO;
        cost[0] = 0.05;
        let span = counted.span(&Costs::new(cost, 1), 1.0);
        span.departed.sum() / span.seconds
    }

    /// Before a server of 20/s that does 12/s above: the first probe of a second could be chance, four could not.
    #[test]
    fn what_departs_above_counts_until_all_probes_say_that_it_is_less() {
        let mut counted = Counted::of(Span { departed: departed(20.0), seconds: 1.0 });
        counted.add_above(&departed(12.0), 1.0);
        assert!((rate(&counted) - 16.0).abs() < 1e-9);
        for _ in 0..3 {
            counted.add(&departed(20.0), 1.0);
            counted.add_above(&departed(12.0), 1.0);
        }
        assert!((rate(&counted) - 20.0).abs() < 1e-9);
        // Fading keeps the rate and forgets the evidence.
        counted.fade(0.1);
        assert!((rate(&counted) - 16.0).abs() < 1e-9);
    }
}
