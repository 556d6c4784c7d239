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
//!
//! The rate that is *told* moves only as far as the counted one, `X`, has gone more than half of its standard error from it:
//!
//! ```text
//! X_told ← min(max(X_told, X·(1 − ½·√(F/n))), X·(1 + ½·√(F/n)))     n departures counted
//! ```
//!
//! What the mean does within that is chance. What is told is as good an estimate, and people who go by it need not go to and fro
//! (the knee, and the slots of the waiting room, go by `X`): of
//! two hundred Poisson streams of 20/s its error after 20 s is 5.3 %, the mean's 5.2; it is within 5 % for 10 s in a row from 10 s
//! on, the mean from 19 (medians; the test below).

use super::{PerClass, Span, costs::Costs, start::DECIDED};

/// Departures of a full server and their time, fading.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Counted {
    base: Span,
    above: Span,
    /// Work a second; `None` until something more is counted than it was made of.
    told: Option<f64>,
}

/// How far the rate that is told may be from the counted one, in standard errors.
const HELD: f64 = 0.5;

impl Counted {
    /// What counts from now on.
    pub(super) fn of(base: Span) -> Self {
        Self { base, ..Self::default() }
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

    /// The rate that is told, work a second, where all that is counted says `rate` with a relative standard error of `error`.
    pub(super) fn told(&self, rate: f64, error: f64) -> f64 {
        let play = HELD * error * rate;
        self.told.map_or(rate, |told| told.max(rate - play).min(rate + play))
    }

    /// Something more has been counted, so that what is told may have to move.
    pub(super) fn hold(&mut self, rate: f64, error: f64) {
        self.told = Some(self.told(rate, error));
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
        let Self { base, above, .. } = self;
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
    use proptest::{
        prelude::Rng,
        test_runner::{RngAlgorithm, TestRng},
    };

    use super::{super::TICK, *};

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

    /// Departures in each tick of a minute, of a Poisson stream of 20/s.
    fn stream(seed: u8) -> Vec<f64> {
        let mut random = TestRng::from_seed(RngAlgorithm::ChaCha, &[seed; 32]);
        let mut gap = || -((f64::from(random.next_u32()) + 0.5) / 2f64.powi(32)).ln() / 20.0;
        let mut next = gap();
        let mut tick = |end: f64| {
            let mut count = 0.0;
            while next < end {
                (next, count) = (next + gap(), count + 1.0);
            }
            count
        };
        (1..=3000).map(|tick_no| tick(TICK * f64::from(tick_no))).collect()
    }

    /// Seconds from which on it stays within 5 % of 20 for 10 s; a minute if it does not.
    fn stays_from(rates: &[f64]) -> f64 {
        let within = rates.windows(500).position(|rates| rates.iter().all(|rate| (rate - 20.0).abs() <= 1.0));
        within.map_or(60.0, |tick| tick as f64 * TICK)
    }

    #[test]
    fn what_is_told_comes_to_rest_before_the_mean_does_and_is_as_near() {
        let mut rest = [vec![], vec![]];
        let mut squares = [0.0; 2];
        for seed in 0..200 {
            let (mut counted, mut sum) = (Counted::default(), 0.0);
            let [mut means, mut told] = [vec![], vec![]];
            for (count, ticks) in stream(seed).into_iter().zip(1..) {
                sum += count;
                let mean = sum / (TICK * f64::from(ticks));
                counted.hold(mean, 1.0 / f64::max(sum, 1.0).sqrt());
                means.push(mean);
                told.push(counted.told(mean, 1.0 / f64::max(sum, 1.0).sqrt()));
            }
            for (index, rates) in [means, told].iter().enumerate() {
                rest[index].push(stays_from(rates));
                squares[index] += (rates[999] - 20.0).powi(2);
            }
        }
        let [mean, told] = rest.map(|mut from| {
            from.sort_by(f64::total_cmp);
            from[100]
        });
        assert!(told < 0.8 * mean, "told from {told} s on, the mean from {mean}");
        let worse = (squares[1] / squares[0]).sqrt();
        assert!(worse < 1.1, "its error is {worse} times the mean's after 20 s");
    }
}
