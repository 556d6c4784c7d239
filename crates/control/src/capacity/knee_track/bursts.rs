//! Mode start before bursts of slow requests, which end before the search can count anything.
//!
//! Where requests take longer than anybody waits, all who wait in a burst have been refused before the first of those in
//! flight departs: nothing is held back any more when there is something to count. What is in flight then is still
//! as much as the limit lets in, and by Little's law `L/R` would depart a second if it stayed so, with `R` the mean response time
//! of what is in flight at that moment. The next burst is let in at twice the limit, and again as long as more than half of the
//! growth comes out:
//!
//! ```text
//! R(b) < √(b/a) · R(a)      a, b: in flight in two bursts
//! ```
//!
//! Otherwise, or where less than nine tenths have ended well once nothing is in flight or the next burst comes, the limit goes
//! back, and the next look upwards is eleven bursts later. A burst that does not fill the new limit is held against the one before
//! as well, from half as much again on. No capacity is taken from bursts; a load that lasts is measured as any other.
//!
//! The same comparison tells a search under a load that lasts, which has passed limits by without waiting for them, on which side
//! of the knee it is: from what was in flight at the first of them to what is at the limit that it measures. Where that has not
//! nearly all ended well by then, requests are slow, and nothing is known by it that would keep the search from going up. What came in
//! beside the first has slowed them down, too, where processors are shared: so that what departed while limits were passed by has to be
//! less as well, as in the search itself.

use super::{KneeTrack, Mode, PATIENCE, PATIENCE_SHARE, PerClass, start::Step};
use crate::{Timestamp, admission::Outcome, limit::Sample};

/// Of what was in flight, how much has to have ended well.
const WHOLE: f64 = 0.9;
/// What does not fill a new limit is compared from so many times the one before it on.
const ABOVE: f64 = 1.5;
/// Bursts at a limit that was gone back to before the next look upwards.
const REST: u32 = 10;

/// What bursts have told.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Bursts {
    /// What is followed on.
    last: Option<Burst>,
    /// The last at the highest limit up to which it has grown.
    known: Option<Burst>,
    rest: u32,
    /// What was in flight when a search first passed its limit by.
    passed: Option<Burst>,
    /// All that left while limits were passed by.
    passing: Passing,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Passing {
    departed: f64,
    seconds: f64,
    /// Limits over time.
    level_s: f64,
}

/// The most that was in flight in a burst.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Burst {
    /// Requests in flight.
    in_flight: f64,
    /// When that was.
    at: Timestamp,
    /// Whether somebody was refused because of it.
    is_full: bool,
    /// Of those that have ended well since, how many.
    replied: f64,
    /// Their response times, seconds.
    response_s: f64,
}

impl Passing {
    fn step(&self) -> Step {
        Step {
            level: self.level_s / self.seconds,
            rate: self.departed / self.seconds,
            departed: PerClass::all(self.departed, 1),
            seconds: self.seconds,
            in_flight_s: PerClass::all(self.level_s, 1),
        }
    }
}

impl Burst {
    /// Whether nearly all of it has ended well.
    fn is_whole(&self) -> bool {
        self.replied >= WHOLE * self.in_flight
    }

    /// Whether more than half of the growth from `below` came out.
    fn grows_from(&self, below: &Self) -> bool {
        let response = |burst: &Self| burst.response_s / burst.replied;
        response(self) < (self.in_flight / below.in_flight).sqrt() * response(below)
    }
}

impl KneeTrack {
    /// The limit keeps nobody waiting any more. Where nothing has departed, or little in a long time, who waited was refused, and did
    /// not start in the place of somebody else.
    pub(super) fn end_burst(&mut self, t: f64, in_flight: f64) {
        let turned = self.settling.map_or(f64::INFINITY, |settling| settling.turned);
        let is_long = t - self.saturation.since >= PATIENCE;
        let is_slow = turned == 0.0 || is_long && turned < PATIENCE_SHARE * self.level;
        if is_slow && in_flight >= self.level {
            self.follow_burst(self.level, true);
        }
    }

    /// Nobody is kept waiting: looks for what comes above the limit that is known, and whether a burst is over.
    pub(super) fn look_for_burst(&mut self, in_flight: f64) {
        if in_flight == 0.0
            && let Some(burst) = self.bursts.last.take()
        {
            self.judge_burst(burst);
        }
        let Bursts { known, last, .. } = &self.bursts;
        let most = last.map_or(0.0, |last| last.in_flight);
        if known.is_some_and(|known| known.in_flight < self.level && in_flight > ABOVE * known.in_flight)
            && in_flight > most
        {
            self.follow_burst(in_flight, false);
        }
    }

    fn follow_burst(&mut self, in_flight: f64, is_full: bool) {
        if self.mode != Mode::Start
            || self.costs.is_some()
            || !self.steps.is_empty()
            || self.patience.is_infinite()
        {
            self.bursts = Bursts::default();
            return;
        }
        if let Some(before) = self.bursts.last.filter(|before| before.is_full && is_full) {
            self.judge_burst(before);
        }
        let at = self.next_tick;
        self.bursts.last = Some(Burst { in_flight, at, is_full, replied: 0.0, response_s: 0.0 });
    }

    /// The search passes its limit by, of which so many `departed` in so many `seconds`: what is in flight will tell how long requests take
    /// there.
    pub(super) fn pass_by(&mut self, in_flight: f64, departed: f64, seconds: f64) {
        let passing = &mut self.bursts.passing;
        passing.departed += departed;
        passing.seconds += seconds;
        passing.level_s += self.level * seconds;
        let at = self.next_tick;
        let here = Burst { in_flight, at, is_full: true, replied: 0.0, response_s: 0.0 };
        self.bursts.passed.get_or_insert(here);
    }

    /// Whether more than half of the growth came out, from the limits passed by to this one, as far as is known; `false` where none was
    /// passed by.
    pub(super) fn has_grown_from_passed(&self, step: &Step) -> bool {
        let response_s = step.in_flight_s.sum() / step.departed.sum();
        self.bursts.passed.is_some_and(|passed| {
            let here = Burst { in_flight: step.level, replied: 1.0, response_s, ..passed };
            let is_faster = !passed.is_whole() || here.grows_from(&passed);
            is_faster && self.growth(step, &[self.bursts.passing.step()]) > 0.0
        })
    }

    /// An exchange has ended.
    pub(super) fn note_burst(&mut self, sample: &Sample) {
        if sample.outcome != Outcome::Success {
            return;
        }
        let Bursts { last, passed, .. } = &mut self.bursts;
        for burst in [last.as_mut(), passed.as_mut()].into_iter().flatten() {
            if sample.started() < burst.at {
                burst.replied += 1.0;
                burst.response_s += sample.response_time.as_secs_f64();
            }
        }
        let Some(burst) = &self.bursts.last else { return };
        if burst.is_whole()
            && let Some(burst) = self.bursts.last.take()
        {
            self.judge_burst(burst);
        }
    }

    /// Sets the limit of the next burst by what one has told.
    fn judge_burst(&mut self, burst: Burst) {
        let Bursts { known, rest, .. } = &mut self.bursts;
        match *known {
            Some(below)
                if below.in_flight < burst.in_flight && !(burst.is_whole() && burst.grows_from(&below)) =>
            {
                *rest = REST;
                self.set_level(below.in_flight);
            }
            _ if burst.is_whole() && burst.is_full && burst.in_flight == self.level => {
                *known = Some(burst);
                *rest = rest.saturating_sub(1);
                if *rest == 0 {
                    self.set_level(2.0 * self.level);
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limit::LimitBounds;

    /// Four processors shared have passed 8 and 16 by, slowly. What was in flight at 8 took long, since more came in beside it: only what
    /// departed meanwhile tells that nothing grows any more.
    #[test]
    fn a_search_goes_up_from_limits_passed_by_only_where_they_gave_less() {
        let has_grown = |departed: f64| {
            let mut knee = KneeTrack::new(LimitBounds { initial: 20, min: 1, max: 1000 });
            let at = knee.next_tick;
            let passed = Burst { in_flight: 8.0, at, is_full: true, replied: 8.0, response_s: 32.0 };
            let passing = Passing { departed, seconds: 1.2, level_s: 8.0 * 0.4 + 16.0 * 0.8 };
            knee.bursts = Bursts { passed: Some(passed), passing, ..Bursts::default() };
            knee.has_grown_from_passed(&Step {
                level: 20.0,
                rate: 9.0,
                departed: PerClass::all(18.0, 1),
                seconds: 2.0,
                in_flight_s: PerClass::all(40.0, 1),
            })
        };
        assert!(has_grown(0.0) && has_grown(2.0) && !has_grown(9.0));
    }
}
