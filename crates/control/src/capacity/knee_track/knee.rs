//! What follows from what was counted: capacity, knee and limit.

use super::{KneeTrack, PerClass, Span, costs::Costs};

/// A change that shows so soon, seconds, after the server is full again was there before.
const AT_ONCE: f64 = 0.2;
/// Of the time for which the knee is kept, what is over at most once a rise has been seen.
const OVER: f64 = 1.0 / 3.0;
/// Another mix makes the knee that is kept so many times what it is, or that part of it, at most: costs learnt of few departures may be
/// far off.
const MIXED: f64 = 2.0;

/// What is counted makes it so many times what it is, at most.
const GROWN: f64 = 1.25;

/// What the knee is taken for, whatever is counted, until a full low probe says what it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Kept {
    /// Requests.
    pub(super) knee: f64,
    /// No limit is higher, requests: of those above it a search has seen less.
    pub(super) highest: f64,
    /// Of this mix.
    mix: PerClass,
    /// Since when, seconds.
    from: f64,
    /// When the time began after which the probe comes, seconds.
    pub(super) since: f64,
}

impl Kept {
    pub(super) const fn new(knee: f64, highest: f64, mix: PerClass, t: f64) -> Self {
        Self { knee, highest, mix, from: t, since: t }
    }

    /// A rise is seen at `t`: two thirds of `patience` are left, so that it is counted first; for twice as long in all at most, however often
    /// the server changes.
    fn anew(self, t: f64, patience: f64) -> Self {
        let since = (t - OVER * patience).min(self.from + patience);
        Self { since: self.since.max(since), ..self }
    }
}

impl KneeTrack {
    /// What counts of what has departed of the full server.
    pub(super) fn saturated_work(&self) -> Span {
        self.costs.as_ref().map_or_else(Span::default, |costs| self.counted.span(costs, self.dispersion))
    }

    /// `ρ`.
    pub(super) fn saturated_rho(&self) -> f64 {
        let Span { departed, seconds } = self.saturated_work();
        match &self.costs {
            Some(costs) if seconds > 0.0 => costs.work(&departed) / seconds,
            _ => 1.0,
        }
    }

    /// `ρ` as it is told: [held](super::counted) against chance.
    pub(super) fn told_rho(&self) -> f64 {
        self.counted.told(self.saturated_rho(), self.error())
    }

    /// Relative standard error of the capacity: `√(F/n)`, `n` departures counted.
    pub(super) fn error(&self) -> f64 {
        (self.dispersion / self.saturated_work().departed.sum().max(1.0)).sqrt()
    }

    /// Capacity for a mix, requests a second, where work departs at `rho`.
    pub(super) fn capacity_at(rho: f64, costs: &Costs, mix: &PerClass) -> f64 {
        let mean = if mix.sum() > 0.0 { costs.theta().dot(mix) / mix.sum() } else { costs.theta()[0] };
        if mean > 0.0 { rho / mean } else { 0.0 }
    }

    /// Which part of what is found the bounds leave, at most 1: where it is less, the limit keeps the server from being full, and
    /// what departs is no sample of its capacity.
    pub(super) fn part_allowed(&self) -> f64 {
        let found = self.found_capacity();
        if found > 0.0 { (self.capacity_bounds.clamp(found) / found).min(1.0) } else { 1.0 }
    }

    /// The mean over the present mix.
    pub(super) fn mean(&self, values: &PerClass) -> f64 {
        let sum = self.mix.sum();
        if sum > 0.0 { values.dot(&self.mix) / sum } else { values[0] }
    }

    /// Sets the limit, requests.
    pub(super) fn set_level(&mut self, level: f64) {
        self.level = level.round_ties_even().min(self.level_max()).max(self.level_min());
    }

    /// The lowest limit there may be, requests, at least 1.
    pub(super) fn level_min(&self) -> f64 {
        self.weights.requests(self.bounds.min).floor().max(1.0)
    }

    /// The highest limit there may be, requests, at least 1.
    pub(super) fn level_max(&self) -> f64 {
        self.weights.requests(self.bounds.max).floor().max(1.0)
    }

    /// Where other algorithms start, requests.
    pub(super) fn level_initial(&self) -> f64 {
        self.weights.requests(self.bounds.initial)
    }

    /// `⌈N + β·√N·min(1, N − ½) − ¼⌉`: below 2 there is one worker, and only `N − 1` of what it does is not work, so that
    /// less headroom keeps it busy.
    pub(super) fn level_at(&self, knee: f64, headroom: f64) -> f64 {
        // One worker's knee is 1, which with the least headroom is 1 in flight or 2 as the last digit says: 2.
        let level = knee + headroom * knee.sqrt() * (knee - 0.5).min(1.0) - 0.25 + 1e-6;
        level.ceil().max(1.0)
    }

    /// The limit of mode base.
    pub(super) fn set_base_level(&mut self) {
        let knee = self.find_knee();
        self.knee = Some(knee);
        // A floor may ask for more than is kept.
        let kept = self.kept.filter(|_| !self.is_raised_by_floor());
        let highest = kept.map_or(f64::INFINITY, |kept| kept.highest);
        self.set_level(self.level_at(knee, self.headroom.beta).min(self.level_cap).min(highest));
    }

    /// `N`.
    pub(super) fn find_knee(&self) -> f64 {
        if self.costs.is_none() {
            return 1.0;
        }
        let found = self.found_capacity();
        let allowed = self.capacity_bounds.clamp(found);
        let knee = self.knee_at(allowed);
        // Under a ceiling the limit is that of the ceiling, and a floor may ask for more than is kept.
        let Some(kept) = self.kept.filter(|_| allowed >= found) else { return knee };
        let kept = self.kept_knee(&kept);
        kept.max(if self.is_raised_by_floor() { knee } else { knee.min(GROWN * kept) })
    }

    /// The knee that is kept, of the present mix: `N ~ Σp·R / Σp·θ`, as far as that is known.
    fn kept_knee(&self, kept: &Kept) -> f64 {
        let Some(costs) = &self.costs else { return kept.knee };
        let of_mix = |mix: &PerClass| {
            let unqueued: f64 = (0..self.classes).map(|class| mix[class] * self.unqueued(class)).sum();
            unqueued / costs.theta().dot(mix).max(f64::MIN_POSITIVE)
        };
        let (here, there) = (of_mix(&self.mix), of_mix(&kept.mix));
        let factor = if here > 0.0 && there > 0.0 { here / there } else { 1.0 };
        kept.knee * factor.clamp(MIXED.recip(), MIXED)
    }

    /// The full server has become as fast as what departed in the last `seconds` says: requests take as much longer or shorter, and
    /// the limit at which it is full stays, until the estimate is good and a full low probe measures the response time. Where a probe
    /// has measured it meanwhile, that was the changed server's.
    pub(super) fn keep_knee(&mut self, t: f64, seconds: f64, is_rise: bool) {
        let patience = self.patience_counted();
        let kept = self.kept.take().map(|kept| if is_rise { kept.anew(t, patience) } else { kept });
        // What has departed since the server is full again, after a probe, is all of the changed one's.
        let is_measured = t - seconds - self.full_since < AT_ONCE
            && self.full_since - self.low_measured < (3.0 * self.response).max(1.0);
        self.kept = Some(match kept {
            Some(kept) if !is_measured => kept,
            _ => {
                let knee = self.knee.filter(|_| !is_measured).unwrap_or_else(|| self.find_knee());
                let new = Kept::new(knee, f64::INFINITY, self.mix, t);
                kept.map_or(new, |kept| Kept { from: kept.from, since: kept.since, ..new })
            }
        });
        if !is_measured {
            self.doubt_by_kept();
        }
    }

    /// What was known of the response times counts for little, and is taken to be what makes the knee that is kept of what is counted.
    pub(super) fn doubt_by_kept(&mut self) {
        if let Some(kept) = self.kept {
            let counted = self.capacity_bounds.clamp(self.found_capacity()) * self.mean_unqueued();
            self.doubt_low(self.kept_knee(&kept) / counted.max(f64::MIN_POSITIVE));
        }
    }

    /// Whether a floor says more than is found.
    fn is_raised_by_floor(&self) -> bool {
        let found = self.found_capacity();
        self.capacity_bounds.clamp(found) > found
    }

    /// Capacity for the present mix, whatever its bounds are, requests a second; 0: nothing is known.
    pub(super) fn found_capacity(&self) -> f64 {
        let rho = self.saturated_rho();
        self.costs.as_ref().map_or(0.0, |costs| Self::capacity_at(rho, costs, &self.mix))
    }

    /// `N` at a capacity.
    pub(super) fn knee_at(&self, capacity: f64) -> f64 {
        (capacity * self.mean_unqueued()).max(1.0)
    }

    /// The mean response time, seconds, as far as it is not a queue: under a limit far too high requests take long, and what waited for
    /// times of that length would never find it out.
    pub(super) fn own_response(&self) -> f64 {
        self.response.min(self.mean_unqueued())
    }

    /// `R` of the present mix, seconds.
    pub(super) fn mean_unqueued(&self) -> f64 {
        let mut unqueued = PerClass::ZERO;
        for class in 0..self.classes {
            unqueued[class] = self.unqueued(class);
        }
        self.mean(&unqueued)
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{Area, Counted},
        *,
    };
    use crate::limit::LimitBounds;

    /// 20 in flight are kept of a mix of which four fifths take 10 ms and cost 1, the others 40 ms and 10.
    #[test]
    fn the_knee_that_is_kept_follows_the_mix_and_hardly_what_is_counted() {
        let mut knee = KneeTrack::new(LimitBounds { initial: 20, min: 1, max: 1000 });
        knee.make_place(1);
        let per_class = |light: f64, heavy: f64| {
            let mut values = PerClass::ZERO;
            (values[0], values[1]) = (light, heavy);
            values
        };
        knee.costs = Some(Costs::new(per_class(0.001, 0.01), 2));
        knee.low = Area { departed: per_class(1e6, 1e6), in_flight_s: per_class(1e4, 4e4) };
        let mut found = |counted: f64, mix: PerClass| {
            knee.counted = Counted::of(Span { departed: per_class(counted, counted), seconds: 10.0 });
            knee.mix = mix;
            knee.kept = Some(Kept::new(20.0, f64::INFINITY, per_class(0.8, 0.2), 0.0));
            knee.find_knee()
        };
        for (counted, kept) in [(100.0, 20.0), (10_000.0, 25.0)] {
            assert!((found(counted, per_class(0.8, 0.2)) - kept).abs() < 1e-6);
            // R/θ is 16 ms of 2.8 there, 34 ms of 8.2 here.
            let other = kept * (0.034 / 0.0082) / (0.016 / 0.0028);
            assert!((found(counted, per_class(0.2, 0.8)) - other).abs() < 0.01);
        }
    }

    #[test]
    fn a_rise_keeps_the_knee_for_two_thirds_of_the_time_but_never_for_twice_as_long() {
        let (kept, patience) = (Kept::new(4.0, f64::INFINITY, PerClass::ZERO, 10.0), 30.0);
        let ends = |kept: Kept| kept.since + patience;
        assert_eq!(kept.anew(15.0, patience), kept, "more than that is left");
        let again = kept.anew(35.0, patience);
        assert_eq!(ends(again), 55.0);
        let last = again.anew(54.0, patience);
        assert_eq!(ends(last), 70.0);
        assert_eq!(last.anew(69.0, patience), last);
    }
}
