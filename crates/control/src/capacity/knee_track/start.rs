//! Mode start: the limit is doubled while the departure rate grows with it.
//!
//! The second step is half of the first: where half of it gives as much, the knee is below, no more is tried than at first, and half
//! of that is looked at, until it gives less: the server is full all the while, and what it does counts. Where the search has passed
//! limits by, and what was in flight at the first of them says that it has grown since ([`bursts`](super::bursts)), half is not looked at: they are slow and served side by side, and under half of the limit half
//! would depart. From then on each step is above those before it. The rate `X` of a step at limit `L` is compared with the rate
//! per request in flight of all steps below:
//!
//! ```text
//! z = [ ln(X / (L · ΣX·T/ΣL·T)) + ½·ln(L/L_before) ] / √(F·(1/a + 1/a_before))
//! ```
//!
//! in which `a` are departures: it asks whether more than half of the growth of the limit came out. It decides at
//! `|z| > 1.6` (at `z > 0.5` or `z < −1` below the first step, where a step holds back most; going down by chance costs more than going up) or once the
//! step has lasted long enough. Once it grows no more, the capacity is taken from the step with the best lower confidence
//! bound, `X·(1 − 1.5·√(F/a))`, among the last three, together with those within 15 % of it, or within `√(F·(1/a + 1/a_best))`.
//! Where limits above the highest of these gave less, as before a server that collapses, the limit is no higher than that one while the knee
//! is kept ([`super::low`]).
//! In the search a limit is settled once one limit's worth has departed: by two it would take twice as long to get to where slow
//! servers of many workers are full.
//!
//! A break in the load does not end a search: what it had counted at a limit counts on once the load is back. Nor is a limit settled
//! anew after a break in which half of it stayed in flight: where it is far too high, a limit's worth takes longer to depart than a
//! load of few requests a second goes on without a break.
//!
//! While costs are known (a change is being followed), the limit grows by half and `X` is in work. Before, `F` is the squared coefficient of
//! variation of the response times, between 1 and 5 and drawn to 1 as if ten had said so: a mean over the limits, each by itself.

use super::{Block, Cause, Counted, KneeTrack, Mode, PerClass, Span, costs::Costs, knee::Kept, low::FULL};

/// Steps a search has at most: from 1 to 10⁶ by halves again and more.
pub(super) const STEPS_MAX: usize = 40;
pub(super) const DECIDED: f64 = 1.6;
/// Below the first step: back up, and further down.
const DECIDED_UP: f64 = 0.5;
const DECIDED_DOWN: f64 = 1.0;
/// Of the highest steps, how many may have been full.
const RECENT: usize = 3;

/// What one limit gave.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Step {
    pub(super) level: f64,
    /// Departures a second; work a second once costs are known.
    pub(super) rate: f64,
    pub(super) departed: PerClass,
    pub(super) seconds: f64,
    pub(super) in_flight_s: PerClass,
}

/// What had been measured at a limit when the load went away.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Interrupted {
    level: f64,
    seconds: f64,
    block: Block,
}

impl KneeTrack {
    pub(super) fn tick_start(&mut self, t: f64, seconds: f64) {
        let departed = self.block.area.departed;
        let count = departed.sum();
        if (!self.is_sample(seconds) && seconds < (4.0 * self.response).max(2.0)) || count < 1.0 {
            return;
        }
        let rate = self.costs.as_ref().map_or(count, |costs| costs.work(&departed)) / seconds;
        // Those that queue take as long as the limit makes them.
        let least =
            |least: f64, step: &Step| least.min(step.in_flight_s.sum() / step.departed.sum().max(1.0));
        let response = self.steps.iter().fold(self.response, least);
        let long = (seconds >= (3.0 * response).max(0.8) && count >= 16.0)
            || seconds > (6.0 * response).max(2.0)
            || count >= 400.0 * self.dispersion;
        if self.costs.is_none() {
            self.guess_dispersion();
        }
        let in_flight_s = self.block.area.in_flight_s;
        let here = Step { level: self.level, rate, departed, seconds, in_flight_s };
        let is_below = self.is_below_first();
        let (grows, decided) = match &self.steps[..] {
            [] => (None, count >= 16.0 * self.dispersion),
            [lowest, ..] if is_below => {
                let z = self.growth(lowest, &[here]);
                (Some(z > 0.0), !(-DECIDED_DOWN..DECIDED_UP).contains(&z))
            }
            below => {
                let z = self.growth(&here, below);
                (Some(z > 0.0), z.abs() >= DECIDED)
            }
        };
        if !decided && !long {
            return;
        }
        if self.costs.is_none() {
            self.first_variation.add(&self.block.responses);
        }
        // In the order of their limits.
        self.steps.insert(if is_below { 0 } else { self.steps.len() }, here);
        let highest = self.steps.last().map_or(here.level, |step| step.level);
        let half = (here.level / 2.0).floor().max(self.level_min());
        let has_grown = self.has_grown_from_passed(&here);
        let goes_down = grows.map_or(!has_grown, |grows| is_below && !grows);
        let is_second = self.steps.len() <= 2;
        let goes_up = grows != Some(false) && (!is_below || is_second);
        if goes_down && half < here.level {
            self.set_level(half);
            self.begin(Mode::Start, t);
        } else if goes_up && highest < self.level_max() && self.steps.len() < STEPS_MAX {
            let known = self.costs.is_some();
            self.set_level(if known { (1.5 * highest).ceil() } else { 2.0 * highest });
            self.begin(Mode::Start, t);
        } else {
            self.set_level(highest);
            self.end_start(t, is_below);
        }
    }

    /// Whether this step is below the first.
    fn is_below_first(&self) -> bool {
        self.mode == Mode::Start && self.steps.last().is_some_and(|step| step.level > self.level)
    }

    /// By how many standard deviations more than half of the growth of the limit from those `below` to `above` came out: `z`.
    pub(super) fn growth(&self, above: &Step, below: &[Step]) -> f64 {
        let (mut rates, mut levels, mut count) = (0.0, 0.0, 0.0);
        for step in below {
            rates += step.rate * step.seconds;
            levels += step.level * step.seconds;
            count += step.departed.sum();
        }
        let before = below.last().map_or(above.level, |step| step.level);
        let growth =
            (above.rate.max(1e-9) / (above.level * rates / levels)).ln() + 0.5 * (above.level / before).ln();
        growth / (self.dispersion * (1.0 / above.departed.sum() + 1.0 / count.max(1.0))).sqrt()
    }

    /// The load goes away: keeps what the search, or a full low probe, has measured at this limit.
    pub(super) fn interrupt(&mut self, t: f64) {
        let is_kept = self.mode == Mode::Start || self.mode == Mode::Low && self.low_repeats > 0;
        if is_kept && self.settling.is_none() {
            let (level, seconds) = (self.level, t - self.block.began);
            self.interrupted = Some(Interrupted { level, seconds, block: self.block });
        }
    }

    /// The load is back and the limit settled: goes on where the search was interrupted at it, so that a load that comes
    /// in short bursts is learnt from, too.
    pub(super) fn resume(&mut self, t: f64) {
        let level = self.level;
        let interrupted = self.interrupted.take().filter(|interrupted| interrupted.level == level);
        if let Some(Interrupted { seconds, block, .. }) = interrupted {
            self.block = Block { began: t - seconds, ..block };
        }
    }

    /// Begins a search from the present limit, which gave this.
    pub(super) fn restart(&mut self, t: f64, known: &[Step]) {
        self.steps.clear();
        self.steps.extend_from_slice(known);
        self.set_level((1.5 * self.level).ceil());
        self.begin(Mode::Start, t);
    }

    /// `F` before anything is known of the departures: the squared coefficient of variation of the response times, of each limit by
    /// itself, since from one to the next they differ by what is in flight.
    fn guess_dispersion(&mut self) {
        let mut variation = self.first_variation;
        variation.add(&self.block.responses);
        let (count, mean) = (variation.count(), variation.mean());
        if count > 8.0 {
            self.dispersion = ((10.0 + count * mean) / (10.0 + count)).clamp(1.0, 5.0);
        }
    }

    /// The search ends; it `went_down` from its first step, or up.
    fn end_start(&mut self, t: f64, went_down: bool) {
        let before = self.capacity();
        let last_level = self.steps.last().map_or(self.level, |step| step.level);
        let lowest_is_full = match &self.steps[..] {
            [lowest, above, ..] => self.growth(above, &[*lowest]) <= 0.0,
            _ => true,
        };
        let recent = if went_down {
            &self.steps[usize::from(!lowest_is_full)..]
        } else {
            &self.steps[self.steps.len().saturating_sub(RECENT)..]
        };
        let lowest_full = recent.first().map_or(last_level, |step| step.level);
        let used = self.pooled(recent);
        let highest = self.highest_full();
        self.level_cap = (1.25 * last_level).max(4.0);
        let is_first = self.costs.is_none();
        if is_first {
            self.costs = Some(Costs::new(self.guess_costs(&used), self.classes));
        }
        if let Some(costs) = &mut self.costs {
            costs.learn(&used.departed, used.seconds, self.dispersion);
        }
        self.counted = Counted::of(used);
        self.schedule.searched(t);
        self.low = super::Area::default();
        for index in 0..self.steps.len() {
            let step = self.steps[index];
            // Downwards all but the lowest were full.
            let is_low =
                if went_down { index == 0 } else { step.level <= last_level / 4.0 || step.level <= 1.0 };
            if is_low {
                self.add_low(super::Area { departed: step.departed, in_flight_s: step.in_flight_s });
            }
        }
        self.steps.clear();
        self.cusums.reset();
        self.kept = None;
        self.note_at(t, Cause::Found, before);
        if !is_first || self.low.departed.sum() <= 0.0 {
            self.go_low(t, 3);
            return;
        }
        // Where few departed at low limits, as before a small server, `R` is in doubt.
        if went_down || self.low.departed.sum() < FULL * self.dispersion {
            let knee = self.find_knee();
            // Downwards the knee is no higher than where it was full.
            let kept = if went_down { knee.min(lowest_full) } else { knee };
            self.kept = Some(Kept::new(kept, highest, self.mix, t));
            self.doubt_by_kept();
        }
        self.go_base(t);
    }

    /// What departed at the best of these steps, and at those like it.
    fn pooled(&self, steps: &[Step]) -> Span {
        let best = self.best(steps);
        let mut pooled = Span::default();
        for step in steps.iter().filter(|step| best.is_none_or(|best| self.is_alike(step, best))) {
            pooled.add(&step.departed, step.seconds);
        }
        pooled
    }

    /// The one with the best lower confidence bound.
    fn best<'a>(&self, steps: &'a [Step]) -> Option<&'a Step> {
        let bound =
            |step: &Step| step.rate * (1.0 - 1.5 * (self.dispersion / step.departed.sum().max(1.0)).sqrt());
        steps
            .iter()
            .map(|step| (bound(step), step))
            .reduce(|best, step| if step.0 > best.0 { step } else { best })
            .map(|(_, step)| step)
    }

    /// The highest limit of which no less departed than of the best one; infinite where that is the highest of all.
    fn highest_full(&self) -> f64 {
        let best = self.best(&self.steps);
        let is_full =
            |step: &Step| best.is_none_or(|best| step.rate >= best.rate || self.is_alike(step, best));
        match self.steps.iter().rposition(is_full) {
            Some(full) if full + 1 < self.steps.len() => self.steps[full].level,
            _ => f64::INFINITY,
        }
    }

    /// Whether the block says something of its limit.
    fn is_sample(&self, seconds: f64) -> bool {
        self.block.area.departed.sum() >= 8.0 && self.block.left >= self.level && seconds >= 0.06
    }

    /// The most that the first search has seen until now, departures a second.
    pub(super) fn seen_in_search(&self) -> Option<f64> {
        if self.steps.is_empty() {
            let seconds = self.last - self.block.began;
            let is_sample = self.mode == Mode::Start && self.settling.is_none() && self.is_sample(seconds);
            return is_sample.then(|| self.block.area.departed.sum() / seconds);
        }
        let recent = &self.steps[self.steps.len().saturating_sub(RECENT)..];
        let pooled = self.pooled(recent);
        (pooled.seconds > 0.0).then(|| pooled.departed.sum() / pooled.seconds)
    }

    /// Whether a step's rate is that of the best one, by 15 % or by what chance makes of it.
    fn is_alike(&self, step: &Step, best: &Step) -> bool {
        let counted = 1.0 / step.departed.sum().max(1.0) + 1.0 / best.departed.sum().max(1.0);
        (step.rate / best.rate).ln().abs() < (self.dispersion * counted).sqrt().max(0.15)
    }

    /// Costs in proportion to the response times at the lowest limits, such that the server was full.
    fn guess_costs(&self, used: &Span) -> PerClass {
        let lowest = &self.steps[..self.steps.len().saturating_sub(2).max(1)];
        let (mut departed, mut in_flight_s) = (PerClass::ZERO, PerClass::ZERO);
        for step in lowest {
            departed.add(&step.departed);
            in_flight_s.add(&step.in_flight_s);
        }
        let mean = in_flight_s.sum() / departed.sum().max(1.0);
        let mut response = PerClass::ZERO;
        for class in 0..self.classes {
            response[class] = (in_flight_s[class] + 4.0 * mean) / (departed[class] + 4.0);
        }
        let sum = response.dot(&used.departed) / used.seconds.max(1e-9);
        response.scaled(1.0 / sum.max(1e-12))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limit::LimitBounds;

    fn step(level: f64, departed: f64, seconds: f64) -> Step {
        Step {
            level,
            rate: departed / seconds,
            departed: PerClass::all(departed, 1),
            seconds,
            in_flight_s: PerClass::all(level * seconds, 1),
        }
    }

    /// The search is not over, and its steps say nearly the same: what they say together, of any mix while there is but one class;
    /// before the first has ended, what it says until then.
    #[test]
    fn the_capacity_of_a_search_under_way_is_that_of_all_steps_that_are_alike() {
        let mut knee = KneeTrack::new(LimitBounds { initial: 20, min: 1, max: 1000 });
        assert_eq!((knee.capacity(), knee.capacity_for(&[1.0])), (None, None));
        knee.classes = 1;
        (knee.settling, knee.block.began, knee.last) = (None, 1.0, 1.07);
        (knee.block.area.departed[0], knee.block.left) = (7.0, 8.0);
        assert_eq!(knee.capacity(), None, "seven say nothing yet");
        (knee.block.area.departed[0], knee.last) = (8.0, 1.08);
        assert!(knee.capacity().is_some_and(|known| (known - 100.0).abs() < 1e-6));
        knee.steps = vec![step(2.0, 9.0, 0.08), step(4.0, 15.0, 0.16), step(8.0, 16.0, 0.16)];
        let known = knee.capacity().unwrap();
        assert!((known - 100.0).abs() < 1e-9, "{known}");
        assert_eq!(knee.capacity_for(&[1.0]), Some(known));
        knee.classes = 2;
        assert_eq!(knee.capacity_for(&[0.5, 0.5]), None);
    }

    /// The limit a first search goes on to from 4 in flight after 8 of which 16 a second departed, where of 4 so many a second did, for a second.
    fn from_half(rate: f64) -> f64 {
        let mut knee = KneeTrack::new(LimitBounds { initial: 20, min: 1, max: 1000 });
        knee.classes = 1;
        knee.steps = vec![step(8.0, 16.0, 1.0)];
        (knee.level, knee.settling, knee.response) = (4.0, None, 0.5);
        (knee.block.area.departed, knee.block.left) = (PerClass::all(rate, 1), rate);
        knee.block.area.in_flight_s = PerClass::all(4.0, 1);
        knee.tick_start(1.0, 1.0);
        knee.level
    }

    /// Downwards an error costs more than one upwards.
    #[test]
    fn a_search_goes_down_only_where_it_is_surer_than_to_go_up() {
        assert_eq!(from_half(9.0), 16.0);
        assert_eq!(from_half(15.0), 4.0, "it could be either");
        assert_eq!(from_half(18.0), 2.0);
    }

    /// Of 10 in flight 10 a second departed, of 5 fewer, and of 20 so many: the limit that follows.
    #[test]
    fn a_limit_of_which_less_departed_is_not_gone_back_to() {
        let level = |of_highest: f64| {
            let mut knee = KneeTrack::new(LimitBounds { initial: 20, min: 1, max: 1000 });
            knee.classes = 1;
            knee.steps = vec![step(5.0, 12.0, 2.0), step(10.0, 20.0, 2.0), step(20.0, of_highest, 2.0)];
            knee.end_start(1.0, true);
            knee.level
        };
        assert_eq!([level(20.0), level(2.0)], [13.0, 10.0]);
    }

    /// Ten departures of a limit that was thought to be low, since it gave less by chance: before one worker all of them queued.
    #[test]
    fn after_a_search_upwards_a_few_response_times_are_not_believed_for_long() {
        let is_kept = |departed: f64| {
            let mut knee = KneeTrack::new(LimitBounds { initial: 20, min: 1, max: 1000 });
            knee.classes = 1;
            knee.steps =
                vec![step(4.0, departed, departed / 80.0), step(8.0, 20.0, 0.2), step(16.0, 20.0, 0.2)];
            knee.end_start(1.0, false);
            assert_eq!(knee.mode, Mode::Base);
            knee.kept.is_some()
        };
        assert!(is_kept(10.0) && !is_kept(400.0));
    }

    /// Under a limit that is too high everything takes twenty times as long: that is no burst of work. One in ten that takes twenty
    /// times as long as the others is.
    #[test]
    fn response_times_differ_from_limit_to_limit_without_being_dispersed() {
        let guessed = |limits: &[&[(u32, f64)]]| {
            let mut knee = KneeTrack::new(LimitBounds { initial: 20, min: 1, max: 1000 });
            for limit in limits {
                knee.zero(0.0);
                for (count, response_s) in *limit {
                    (0..*count).for_each(|_| knee.block.responses.add(*response_s));
                }
                knee.first_variation.add(&knee.block.responses);
            }
            knee.zero(0.0);
            knee.guess_dispersion();
            knee.dispersion
        };
        assert_eq!(guessed(&[&[(30, 0.1)], &[(10, 2.0)]]), 1.0);
        let dispersed = guessed(&[&[(36, 0.1), (4, 2.0)], &[(36, 0.2), (4, 4.0)]]);
        assert!((dispersed - (10.0 + 80.0 * 3.86) / 90.0).abs() < 0.01, "{dispersed}");
    }
}
