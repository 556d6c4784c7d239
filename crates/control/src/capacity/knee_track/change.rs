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

use super::{super::per_class::PerClass, TICK};

/// Shifts looked for, as ratios of the capacity.
const SHIFTS: [f64; 4] = [0.7, 0.87, 1.15, 1.4];
const ALARM: f64 = 12.0;
/// An alarm's samples cover this much time at least, seconds.
const SPAN_MIN: f64 = 0.3;
/// What time without departures can add.
const GAP_MAX: f64 = 4.0;

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

impl Cusums {
    pub(super) fn reset(&mut self) {
        *self = Self::default();
    }

    /// The highest of the sums.
    pub(super) fn score(&self) -> f64 {
        self.sums.iter().map(|sum| sum.score).fold(0.0, f64::max)
    }

    /// A tick in which `departed` departed, `work` in all. The alarm of the shortest span, if any.
    pub(super) fn tick(&mut self, departed: &PerClass, work: f64, expected: &Expected) -> Option<Alarm> {
        let nothing = departed.sum() <= 0.0;
        if !nothing {
            self.gap = 0.0;
        }
        let Expected { rho, mean, dispersion } = *expected;
        let mut alarm: Option<Alarm> = None;
        for (index, (sum, shift)) in self.sums.iter_mut().zip(SHIFTS).enumerate() {
            let mut gain = (work / mean * shift.ln() + rho / mean * TICK * (1.0 - shift)) / dispersion;
            if nothing && gain > 0.0 {
                if self.gap > GAP_MAX {
                    gain = 0.0;
                } else if index == 0 {
                    self.gap += gain;
                }
            }
            if sum.score + gain <= 0.0 {
                *sum = Cusum::default();
            } else {
                sum.score += gain;
                sum.seconds += TICK;
                sum.departed.add(departed);
            }
            let (score, seconds) = (sum.score, sum.seconds);
            if score > ALARM && seconds >= SPAN_MIN && alarm.is_none_or(|alarm| seconds < alarm.seconds) {
                alarm = Some(Alarm { departed: sum.departed, seconds });
            }
        }
        alarm
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server of 1,000/s; departures come evenly at `per_s`. Seconds until the alarm, and the rate it saw.
    fn detect(per_s: f64) -> Option<(f64, f64)> {
        let expected = Expected { rho: 1.0, mean: 0.001, dispersion: 1.0 };
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
