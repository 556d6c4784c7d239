//! Change detection: cumulative sums (CUSUM) on the work that departs from a full server.
//!
//! For each shift `r` of the capacity that is looked for, the log-likelihood ratio of "it is r times what it was"
//! against "it is what it was", of work `w` departed in time `dt` at a rate `ρ` of requests of mean cost `q`
//! with dispersion `F`:
//!
//! ```text
//! S ← max(0, S + [ (w/q)·ln r + (ρ/q)·dt·(1 − r) ] / F)      alarm: S > 12, over at least 0.3 s
//! ```
//!
//! Time without a single departure adds 4 at most, so that a pause alone (a garbage collector's) is no alarm.
//!
//! Source: Page, "Continuous inspection schemes", Biometrika 41, 1954; for Poisson counts Lucas, 1985.

use super::{super::per_class::PerClass, Cause, Counted, KneeTrack, Mode, Span, TICK};

/// Shifts looked for, as ratios of the capacity.
const SHIFTS: [f64; 6] = [0.5, 0.7, 0.87, 1.15, 1.4, 2.0];
const ALARM: f64 = 12.0;
/// From this sum on a change seems to begin.
const SEEMS: f64 = 5.0;
/// An alarm's samples cover this much time at least, seconds.
const SPAN_MIN: f64 = 0.3;
/// And a proof's: short jobs leave first.
const PROOF_SPAN_MIN: f64 = 1.0;
/// What time without departures can add.
const GAP_MAX: f64 = 4.0;

/// Rise looked for where the server is not known to be full, as a ratio. A waiting room that obeys an estimate lets in a tenth
/// more at first.
const PROOF: f64 = 1.06;

/// Whether more work departs than the estimate says, saturated or not: by how much does not matter, only that it lasts.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Proof(Cusum);

impl Proof {
    /// A tick; what departed since it began to be more, if that proves it.
    pub(super) fn tick(&mut self, departed: &PerClass, work: f64, expected: &Expected) -> Option<Alarm> {
        let gain = expected.gain(work, PROOF);
        self.0.add(departed, gain);
        let proved = self.0.score > ALARM && self.0.seconds >= PROOF_SPAN_MIN;
        proved.then(|| std::mem::take(&mut self.0).alarm())
    }

    pub(super) fn reset(&mut self) {
        *self = Self::default();
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Cusums {
    sums: [Cusum; SHIFTS.len()],
    gap: f64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Cusum {
    score: f64,
    departed: PerClass,
    seconds: f64,
}

/// The samples since the change began.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Alarm {
    pub(super) departed: PerClass,
    pub(super) seconds: f64,
}

/// What the sums compare with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Expected {
    /// Work a second.
    pub(super) rho: f64,
    /// Mean work of a request.
    pub(super) mean: f64,
    /// Dispersion.
    pub(super) dispersion: f64,
}

impl Expected {
    /// What a tick in which `work` departed says for a capacity `shift` times as high.
    fn gain(&self, work: f64, shift: f64) -> f64 {
        (work / self.mean * shift.ln() + self.rho / self.mean * TICK * (1.0 - shift)) / self.dispersion
    }
}

impl Cusum {
    fn add(&mut self, departed: &PerClass, gain: f64) {
        if self.score + gain <= 0.0 {
            *self = Self::default();
        } else {
            self.score += gain;
            self.seconds += TICK;
            self.departed.add(departed);
        }
    }

    const fn alarm(self) -> Alarm {
        Alarm { departed: self.departed, seconds: self.seconds }
    }
}

impl Cusums {
    pub(super) fn reset(&mut self) {
        *self = Self::default();
    }

    /// What has departed since it began to be more: of the greatest rise for which that is as long as a proof.
    fn risen(&self) -> Option<Alarm> {
        let rises = self.sums.iter().zip(SHIFTS).filter(|(_, shift)| *shift > 1.0);
        rises.map(|(sum, _)| sum).rfind(|sum| sum.seconds >= PROOF_SPAN_MIN).map(|sum| sum.alarm())
    }

    /// Whether a change seems to begin.
    pub(super) fn seem(&self) -> bool {
        self.score() >= SEEMS
    }

    /// The highest of the sums.
    fn score(&self) -> f64 {
        self.sums.iter().map(|sum| sum.score).fold(0.0, f64::max)
    }

    /// A tick in which `departed` departed, `work` in all. The alarm of the shortest span, if any.
    pub(super) fn tick(&mut self, departed: &PerClass, work: f64, expected: &Expected) -> Option<Alarm> {
        let nothing = departed.sum() <= 0.0;
        if !nothing {
            self.gap = 0.0;
        }
        let mut alarm: Option<Alarm> = None;
        for (index, (sum, shift)) in self.sums.iter_mut().zip(SHIFTS).enumerate() {
            let mut gain = expected.gain(work, shift);
            if nothing && gain > 0.0 {
                if self.gap > GAP_MAX {
                    gain = 0.0;
                } else if index == 0 {
                    self.gap += gain;
                }
            }
            sum.add(departed, gain);
            let (score, seconds) = (sum.score, sum.seconds);
            if score > ALARM && seconds >= SPAN_MIN && alarm.is_none_or(|alarm| seconds < alarm.seconds) {
                alarm = Some(sum.alarm());
            }
        }
        alarm
    }
}

impl KneeTrack {
    /// Work done beyond the estimate, saturated or not, proves that there is more: much more in a second, a little more over
    /// longer. While the server is known to be full, a little more moves the estimate by itself.
    pub(super) fn prove(&mut self, t: f64, departed: &PerClass) {
        let (Some(costs), Some(expected)) = (&self.costs, self.expected()) else { return };
        let work = costs.work(departed);
        self.work_rate += (work / TICK - self.work_rate) * 0.02;
        let margin = 1.06 + 2.5 * (self.dispersion / (2.0 * self.rate).max(10.0)).sqrt();
        if self.work_rate > margin * expected.rho {
            self.exceeding.add(departed, TICK);
        } else {
            self.exceeding = Span::default();
        }
        let Span { departed: exceeding, seconds } = self.exceeding;
        let before = self.capacity();
        // That of the last second may only fall more slowly than an estimate does.
        let exceeds = costs.work(&exceeding) > expected.rho * seconds;
        let proved = if seconds > PROOF_SPAN_MIN && exceeds {
            // What has departed since it became more, where that is known.
            self.cusums.risen().map_or_else(
                || {
                    let mut counted = self.saturated_work();
                    counted.departed.scale(self.work_rate / expected.rho);
                    counted.shorten(PROOF_SPAN_MIN);
                    counted
                },
                |alarm| Span { departed: alarm.departed, seconds: alarm.seconds },
            )
        } else {
            let alarm = if self.is_full { None } else { self.proof.tick(departed, work, &expected) };
            let Some(alarm) = alarm else { return };
            let new = costs.work(&alarm.departed) / alarm.seconds;
            if costs.explain(new - expected.rho, &alarm.departed, alarm.seconds) {
                return;
            }
            let mut proved = Span { departed: alarm.departed, seconds: alarm.seconds };
            proved.shorten(PROOF_SPAN_MIN);
            proved
        };
        self.counted = Counted::of(proved);
        // It was all in flight within the present limit: the knee is no higher until a low probe says so.
        self.keep_knee(t, proved.seconds, true);
        self.forget_windows();
        self.schedule.anew(t, self.response);
        self.note_at(t, Cause::Proof, before);
        if self.mode == Mode::Base {
            self.go_base(t);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{super::costs::Costs, *};
    use crate::limit::LimitBounds;

    proptest! {
        /// Beside one that keeps all there was and tries every moment at which the change may have begun.
        #[test]
        fn sums_are_those_of_the_likeliest_beginning(
            per_tick in prop::collection::vec(0..60_u8, 1..120),
            (dispersion, index) in (0.3..5.0_f64, 0..SHIFTS.len()),
        ) {
            let expected = Expected { rho: 1.0, mean: 0.001, dispersion };
            let shift = SHIFTS[index];
            let mut cusum = Cusum::default();
            let mut log_likelihoods = Vec::new();
            for (tick, count) in per_tick.iter().enumerate() {
                let mut departed = PerClass::ZERO;
                departed[0] = f64::from(*count);
                cusum.add(&departed, expected.gain(f64::from(*count) * 0.001, shift));
                // Of a Poisson stream of 1,000/s, `ln(p(count | shift·λ) / p(count | λ))` over F.
                let lambda = 1000.0 * TICK;
                log_likelihoods.push((f64::from(*count) * shift.ln() - lambda * (shift - 1.0)) / dispersion);
                let of = |began: usize| log_likelihoods[began..].iter().sum::<f64>();
                let best = (0..=tick).map(of).fold(0.0, f64::max);
                prop_assert!((cusum.score - best).abs() < 1e-9, "{} is {best}", cusum.score);
                // It began where that is reached with the shortest span.
                let began = (0..=tick + 1).rev().find(|began| of(*began) >= best - 1e-9).expect("there is one");
                prop_assert!((cusum.seconds - (tick + 1 - began) as f64 * TICK).abs() < 1e-9);
                let since: u32 = per_tick[began..=tick].iter().map(|count| u32::from(*count)).sum();
                prop_assert!((cusum.departed.sum() - f64::from(since)).abs() < 1e-9);
            }
        }
    }

    /// A server of 1,000/s; departures come evenly at `per_s`. Seconds until the alarm, and the rate it saw.
    fn detect(per_s: f64) -> Option<(f64, f64)> {
        detect_before(1000.0, per_s)
    }

    /// The same before a server of `known` a second.
    fn detect_before(known: f64, per_s: f64) -> Option<(f64, f64)> {
        let expected = Expected { rho: 0.001 * known, mean: 0.001, dispersion: 1.0 };
        let mut cusums = Cusums::default();
        let mut departed = PerClass::ZERO;
        departed[0] = per_s * TICK;
        (1..3000).find_map(|tick| {
            let alarm = cusums.tick(&departed, departed[0] * 0.001, &expected)?;
            Some((f64::from(tick) * TICK, alarm.departed.sum() / alarm.seconds))
        })
    }

    #[test]
    fn shifts_are_found_and_small_ones_are_not() {
        for per_s in [500.0, 1500.0] {
            let (after, rate) = detect(per_s).unwrap();
            assert!((0.29..0.4).contains(&after) && (rate - per_s).abs() < 1e-6, "{after} s, {rate}/s");
        }
        assert!(detect(1000.0).is_none() && detect(1050.0).is_none() && detect(950.0).is_none());
        assert!(detect(850.0).is_some_and(|(after, _)| after < 2.0));
    }

    /// Where few depart, by the shifts of 1.4 and 0.7 it would take 4.4 and 4.9 s.
    #[test]
    fn twice_and_half_as_many_are_found_by_shifts_of_their_own() {
        assert!(detect_before(10.0, 20.0).is_some_and(|(after, _)| after < 3.2));
        assert!(detect_before(20.0, 10.0).is_some_and(|(after, _)| after < 4.0));
    }

    /// What a room that lets in a tenth beyond the estimate shows is enough; the estimate itself is not.
    #[test]
    fn a_tenth_more_for_long_is_proof() {
        let expected = Expected { rho: 1.0, mean: 0.001, dispersion: 2.0 };
        let proved = |per_s: f64| {
            let (mut proof, mut departed) = (Proof::default(), PerClass::ZERO);
            departed[0] = per_s * TICK;
            (1..6000).find_map(|tick| {
                let alarm = proof.tick(&departed, departed[0] * 0.001, &expected)?;
                Some((f64::from(tick) * TICK, alarm.departed.sum() / alarm.seconds))
            })
        };
        assert!(proved(1100.0).is_some_and(|(after, rate)| after < 10.0 && (rate - 1100.0).abs() < 1e-6));
        assert!(proved(2000.0).is_some_and(|(after, _)| (0.99..1.1).contains(&after)));
        assert!(proved(1000.0).is_none() && proved(1025.0).is_none());
    }

    /// A server that is taken for one of 12/s now, and did 90 just before, does so many a second for a second and a half: what it is taken for then.
    fn known_after_a_fall(per_s: f64) -> f64 {
        let mut knee = KneeTrack::new(LimitBounds { initial: 20, min: 1, max: 1000 });
        knee.costs = Some(Costs::new(PerClass::all(0.01, 1), 1));
        knee.counted = Counted::of(Span { departed: PerClass::all(120.0, 1), seconds: 10.0 });
        (knee.mode, knee.is_full) = (Mode::Base, true);
        (knee.work_rate, knee.rate) = (0.9, per_s);
        (1..=75).for_each(|tick| knee.prove(f64::from(tick) * TICK, &PerClass::all(per_s * TICK, 1)));
        knee.found_capacity()
    }

    /// The mean over the last second falls more slowly than the estimate.
    #[test]
    fn what_departed_before_a_fall_proves_nothing() {
        assert!((known_after_a_fall(5.0) - 12.0).abs() < 1e-6);
        assert!(known_after_a_fall(45.0) > 40.0);
    }

    #[test]
    fn a_pause_is_no_alarm() {
        let expected = Expected { rho: 1.0, mean: 0.001, dispersion: 1.0 };
        let mut cusums = Cusums::default();
        for _ in 0..500 {
            assert!(cusums.tick(&PerClass::ZERO, 0.0, &expected).is_none());
        }
        assert!(cusums.score() > 0.0);
    }
}
