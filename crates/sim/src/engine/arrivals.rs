//! Moments of arrival, one after the other, from a description of them.

use std::time::Duration;

use tidegate_control::{ClassId, Timestamp};

use crate::{Random, clients::Arrivals, draw::seconds, scenario::START};

/// Phases without an arrival after which there are none to come.
const EMPTY_PHASES_MAX: u32 = 100_000;

/// Where a process of arrivals stands.
#[derive(Debug)]
pub(super) struct Clock<'s> {
    arrivals: &'s Arrivals,
    random: Random,
    at: Timestamp,
    /// The present phase or spell: number, begin, end; and arrivals in it.
    phase: usize,
    begin: Timestamp,
    end: Timestamp,
    arrived: u64,
}

impl<'s> Clock<'s> {
    pub(super) fn new(arrivals: &'s Arrivals, random: Random) -> Self {
        let mut clock = Self { arrivals, random, at: START, phase: 0, begin: START, end: START, arrived: 0 };
        clock.end = clock.length().map_or(Timestamp::FAR_FUTURE, |length| START + length);
        clock
    }

    /// The next arrival, and its class if the process says that; `None`: there are no more.
    pub(super) fn next(&mut self) -> Option<(Timestamp, Option<ClassId>)> {
        if let Arrivals::Trace(entries) = self.arrivals {
            let (offset, class) = entries.get(self.phase)?;
            self.phase += 1;
            return Some((START + *offset, Some(*class)));
        }
        for _ in 0..EMPTY_PHASES_MAX {
            let candidate = self.candidate();
            if candidate <= self.end && candidate < Timestamp::FAR_FUTURE {
                self.at = candidate;
                self.arrived += 1;
                return Some((candidate, None));
            }
            // Exponential times have no memory: what would have come later is drawn again.
            self.at = self.end;
            self.begin = self.end;
            self.arrived = 0;
            self.phase += 1;
            self.end = self.begin + self.length()?;
        }
        None
    }

    /// Length of the present phase; `None`: there is no such phase, or no end to it.
    fn length(&mut self) -> Option<Duration> {
        match self.arrivals {
            Arrivals::Constant { .. } | Arrivals::Poisson { .. } | Arrivals::Trace(_) => None,
            Arrivals::OnOff { on, off, .. } => {
                Some(if self.phase.is_multiple_of(2) { on } else { off }.span(&mut self.random))
            }
            Arrivals::Schedule { phases, repeat, .. } => {
                let position = if *repeat { self.phase % phases.len().max(1) } else { self.phase };
                phases.get(position).map(|(length, _)| *length)
            }
        }
    }

    /// The next arrival if the present phase went on for ever.
    fn candidate(&mut self) -> Timestamp {
        let (rate, is_poisson) = match self.arrivals {
            Arrivals::Constant { per_s } => (*per_s, false),
            Arrivals::Poisson { per_s } => (*per_s, true),
            Arrivals::OnOff { per_s, idle_per_s, .. } => {
                (if self.phase.is_multiple_of(2) { *per_s } else { *idle_per_s }, true)
            }
            Arrivals::Schedule { phases, poisson, .. } => {
                (phases.get(self.phase % phases.len().max(1)).map_or(0.0, |(_, rate)| *rate), *poisson)
            }
            Arrivals::Trace(_) => (0.0, false),
        };
        if rate <= 0.0 {
            return Timestamp::FAR_FUTURE;
        }
        if is_poisson {
            return self.at + seconds(self.random.exponential() / rate);
        }
        // From the phase's begin, so that nothing adds up.
        #[expect(clippy::cast_precision_loss, reason = "a number of arrivals")]
        let offset = (self.arrived + 1) as f64 / rate;
        self.begin + seconds(offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Draw;

    fn moments(arrivals: &Arrivals, until_s: u64) -> Vec<f64> {
        let mut clock = Clock::new(arrivals, Random::new(1, "arrivals"));
        let mut moments = Vec::new();
        while let Some((at, _)) = clock.next() {
            let offset = at.since(START);
            if offset > Duration::from_secs(until_s) {
                break;
            }
            moments.push(offset.as_secs_f64());
        }
        moments
    }

    #[test]
    fn a_schedule_has_its_rates_in_its_phases() {
        let phases =
            vec![(Duration::from_secs(2), 5.0), (Duration::from_secs(1), 0.0), (Duration::from_secs(1), 2.0)];
        let once = Arrivals::Schedule { phases: phases.clone(), repeat: false, poisson: false };
        let expected = [0.2, 0.4, 0.6, 0.8, 1.0, 1.2, 1.4, 1.6, 1.8, 2.0, 3.5, 4.0];
        assert_eq!(moments(&once, 100), expected);
        let again = Arrivals::Schedule { phases, repeat: true, poisson: false };
        assert_eq!(moments(&again, 8).len(), 24);
    }

    #[test]
    fn rates_are_kept_on_the_average() {
        let poisson = Arrivals::Poisson { per_s: 50.0 };
        assert!((9_700..10_300).contains(&moments(&poisson, 200).len()));
        let spells = Arrivals::OnOff {
            on: Draw::Constant(1.0),
            off: Draw::Constant(3.0),
            per_s: 100.0,
            idle_per_s: 10.0,
        };
        let moments = moments(&spells, 400);
        assert!((12_500..13_500).contains(&moments.len()), "{}", moments.len());
        let on = moments.iter().filter(|at| at.rem_euclid(4.0) < 1.0).count();
        assert!((9_700..10_300).contains(&on), "{on}");
    }

    #[test]
    fn a_process_without_arrivals_ends() {
        let never =
            Arrivals::Schedule { phases: vec![(Duration::from_secs(1), 0.0)], repeat: true, poisson: true };
        assert_eq!(Clock::new(&never, Random::new(1, "a")).next(), None);
        assert_eq!(Clock::new(&Arrivals::Poisson { per_s: 0.0 }, Random::new(1, "a")).next(), None);
    }
}
