//! Modes up and tight: whether there is more above the working limit, and whether the headroom pays.
//!
//! Both compare a short block at another limit with the base block just before it, not with the long
//! mean. With `y = ln(X / X_base)` and `g = ln(L / L_base)`:
//!
//! - *up*, half again the limit, every 5 s of saturation where the limit may be higher and once 24 have departed in base (10 after a rise): `y > 0.4·g + 1.6·se`
//!   begins a new search, and one that may come to that goes on for six response times (1 s at least). Before slow requests one look is too short
//!   to tell: `y/g`, pooled over all of them with weight `g²/se²`, begins a search by the same rule, and while it is not a standard deviation below 0.4 the next
//!   one comes after twice the time that one took (40 times once it is). `y > g + 2·se` is no growth with the limit, which is in
//!   proportion at most, but a server that has become faster meanwhile; `y > max(0.04, 2.5·se)` takes `X` over as
//!   the capacity, and the limit is at least midway between the two from then on, `√(L·L_base)`: by the knee that is known it would
//!   be where less departed. After a rise the time between two begins at five response times (0.7 s at least), after a search, which
//!   has looked above just now, at 3 s, and grows. Where less departs by more than `se`, the next one comes after as
//!   long as what is beyond `se` is a sixtieth of. From a mean response time on, also while its limit settles, it ends as soon as less has departed than
//!   `Ĉ` by 2.5 standard deviations: where the server collapses there, waiting for a sample would take longest;
//! - *tight*, the knee itself: the elasticity `e = y/g`, pooled over probes with weight `g²/se²`, is what the
//!   headroom gains. Below 0.3 the headroom shrinks by three tenths, above it grows by a quarter.
//!   Where the rate falls in proportion (`e − 2·se > 0.5`), nothing queues at the knee, nor in base: `R` is longer than was known,
//!   and the probe is a sample of it. The next one comes after 12 response times, 2 s at least, and as long as what is lost in one is a
//!   hundredth of: lost by `e`, since what a single one loses is mostly chance. Where the headroom does not pay and is the least
//!   already, ten times later. With one in flight, as before a single worker, it is not made: `1/R` departs then, and `R` is known. After a
//!   search or a change the first one comes when the estimate is good, and after the low one.
//!
//! `se²` is `F·(1/a + 1/a_base)`, `a` being departures, and, where the two blocks are of different mixes, what the costs are uncertain by.

use super::{
    Cause, Counted, KneeTrack, Mode, PerClass, Span,
    change::Alarm,
    start::{DECIDED, Step},
};

/// Elasticity of the departure rate to the limit that headroom must pay.
const ELASTICITY: f64 = 0.3;
/// And from which on it is held to grow in proportion, as in a search.
const PROPORTION: f64 = 0.5;
/// Seconds from one look upwards to the next, once nothing is new.
const UP_GAP: f64 = 5.0;
/// Limit of a look upwards, of that of base: far enough to see growth, and not where a server that does less with more in flight
/// collapses.
const LOOK: f64 = 1.5;
/// Between looks, seconds, from which on the time they take counts for it, too; and after a search, which has looked above just now.
const RARE_GAP: f64 = 3.0;
/// A look upwards that seems to show growth is longer until that is sure: so many response times, seconds at least.
const LOOK_TURNS: f64 = 6.0;
const LOOK_S: f64 = 1.0;
/// Departures of base, at least, with which a probe compares, and a look upwards where nothing has risen just now.
const SAMPLE: f64 = 10.0;
const LOOK_SAMPLE: f64 = 24.0;
/// Elasticity from which on what departs is held to grow with the limit.
const GROWTH: f64 = 0.4;
/// Times as long as a look took, until the next one: while all of them together do not say that nothing grows, and once they do.
const REST_UNSURE: f64 = 2.0;
const REST: f64 = 40.0;
/// Standard deviations by which more departs than growth in proportion explains, so that the server has become faster; and by which more
/// departs at all.
const FASTER: f64 = 2.0;
const MORE: f64 = 2.5;
/// Standard deviations by which less departs than the server is known to do, so that a look upwards ends.
const LESS: f64 = 2.5;
/// No probe looks at so many times the limit of base.
const FAR_ABOVE: f64 = 3.0;
const BETA_MIN: f64 = 0.5;
const BETA_MAX: f64 = 8.0;
/// Where the headroom does not pay and is the least already, a tight probe can only find that it pays after all: the next one comes
/// so many times later.
const RESTED: f64 = 10.0;
/// Without a departure for so many response times, and as long as so many departures take: the server pauses.
const PAUSE_TURNS: f64 = 2.0;
const PAUSE_DEPARTURES: f64 = 12.0;
/// Departures, times the dispersion `F`, by which an estimate is within 3 %, since the relative error of counting `n` of
/// them is `√(F/n)`; and the time after which it is asked no more of it in any case, in response times, and in seconds at least and at most.
const COUNTED: f64 = 1100.0;
const COUNTED_TURNS: f64 = 150.0;
const COUNTED_S: f64 = 8.0;
const COUNTED_S_MAX: f64 = 30.0;

/// When probes are due, seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Schedule {
    pub(super) low: f64,
    pub(super) up: f64,
    pub(super) up_gap: f64,
    tight: f64,
    /// The last search or fall.
    changed: f64,
}

/// `β`, and what probes have said of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Headroom {
    pub(super) beta: f64,
    /// From the knee to the limit of base.
    tight: Elasticity,
    /// From the limit of base upwards.
    up: Elasticity,
}

/// By how much the logarithm of the departure rate changes with that of the limit, as several probes have it together.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Elasticity {
    /// Of each probe, times its weight.
    sum: f64,
    /// Reciprocal variance.
    weight: f64,
}

/// The base block just before a probe.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Reference {
    /// Work a second.
    rate: f64,
    departed: PerClass,
    /// Requests.
    pub(super) level: f64,
    /// When the probe began, seconds.
    probed: f64,
}

impl Default for Headroom {
    fn default() -> Self {
        Self { beta: super::HEADROOM, tight: Elasticity::default(), up: Elasticity::default() }
    }
}

impl Elasticity {
    /// A probe more; older ones fade.
    fn add(&mut self, elasticity: f64, weight: f64) {
        self.fade(0.93);
        self.weight += weight;
        self.sum += weight * elasticity;
    }

    fn fade(&mut self, keep: f64) {
        self.weight *= keep;
        self.sum *= keep;
    }

    /// 0 of none.
    fn mean(&self) -> f64 {
        if self.weight > 0.0 { self.sum / self.weight } else { 0.0 }
    }

    /// Standard deviation of the mean.
    fn deviation(&self) -> f64 {
        self.weight.sqrt().recip()
    }
}

impl Headroom {
    fn learn(&mut self, elasticity: f64, weight: f64) {
        self.tight.add(elasticity, weight);
        let (mean, deviation) = (self.tight.mean(), self.tight.deviation());
        let factor = if mean + deviation < ELASTICITY {
            0.7
        } else if mean - deviation > ELASTICITY {
            1.25
        } else {
            return;
        };
        self.beta = (self.beta * factor).clamp(BETA_MIN, BETA_MAX);
        self.tight.fade(0.6);
    }

    /// Whether all looks upwards together say that the rate grows with the limit.
    fn grows(&self) -> bool {
        self.up.mean() - DECIDED * self.up.deviation() > GROWTH
    }

    /// Whether it may.
    fn may_grow(&self) -> bool {
        self.up.mean() + self.up.deviation() > GROWTH
    }

    /// Part of the work that is not done, by all probes, where the limit's logarithm changes by `growth`; 0 to 1.
    fn loss(&self, growth: f64) -> f64 {
        (1.0 - (self.tight.mean() * growth).exp()).max(0.0)
    }

    /// As it was found to pay before.
    pub(super) fn of(beta: f64) -> Self {
        Self { beta: beta.clamp(BETA_MIN, BETA_MAX), ..Self::default() }
    }

    /// There is more above: the headroom is not less than at first, nor than `beta`.
    fn reopen(&mut self, beta: f64) {
        *self = Self::of(self.beta.max(super::HEADROOM).max(beta));
    }
}

impl Schedule {
    pub(super) fn new() -> Self {
        Self { up_gap: UP_GAP, ..Self::default() }
    }

    /// After a rise, or with what another process has found: soon a look upwards, since an estimate too low hides what would
    /// disprove it.
    pub(super) fn anew(&mut self, t: f64, response: f64) {
        self.fell(t);
        self.look_soon(t, response);
    }

    /// A look upwards soon, and the next ones at first.
    pub(super) fn look_soon(&mut self, t: f64, response: f64) {
        self.up_gap = (5.0 * response).clamp(0.7, UP_GAP);
        self.up = t + 0.5;
    }

    /// After a search, which has looked above just now: a look upwards that mends an error of its last step.
    pub(super) fn searched(&mut self, t: f64) {
        self.fell(t);
        self.up_gap = RARE_GAP;
        self.up = t + 1.0;
        self.low = t + COUNTED_S;
    }

    /// After a fall: what is above is as it was.
    pub(super) fn fell(&mut self, t: f64) {
        self.changed = t;
        self.tight = t + 3.0;
    }
}

impl KneeTrack {
    /// Begins the probe that is due.
    pub(super) fn probe_when_due(&mut self, t: f64, seconds: f64, saturated_for: f64) {
        let lasting = self.is_lasting(saturated_for);
        let count = self.block.area.departed.sum();
        if self.probe_low_when_due(t, saturated_for) {
            return;
        }
        let enough = if self.schedule.up_gap < RARE_GAP { SAMPLE } else { LOOK_SAMPLE };
        if t >= self.schedule.up
            && count >= enough
            && seconds > self.response
            && self.level < self.level_max()
        {
            self.refer(t, seconds);
            self.set_level((LOOK * self.level).ceil().max(self.level + 1.0));
            self.begin(Mode::Up, t);
            // What departs counts from its beginning on: see `ends_up`.
            self.zero(t);
        } else if lasting
            && self.tight_is_due(t)
            && seconds > (2.0 * self.response).max(0.4)
            && count >= SAMPLE
        {
            let level = self.level_at(self.find_knee(), 0.0);
            if level < self.level && level <= 1.0 {
                self.know_tight(t);
            } else if level < self.level {
                self.refer(t, seconds);
                self.set_level(level);
                self.begin(Mode::Tight, t);
            }
        }
    }

    /// Begins a low probe if one is due.
    pub(super) fn probe_low_when_due(&mut self, t: f64, saturated_for: f64) -> bool {
        let is_time = self.kept.map_or(t >= self.schedule.low, |kept| self.is_counted(t, kept.since));
        let is_due = self.is_lasting(saturated_for) && is_time;
        if is_due {
            self.go_low(t, if self.kept.is_some() { 3 } else { 0 });
        }
        is_due
    }

    /// Those that cost goodput come in lasting saturation only, and not while a change seems to begin: nothing is counted in them.
    fn is_lasting(&self, saturated_for: f64) -> bool {
        saturated_for > (4.0 * self.own_response()).max(4.0) && !self.cusums.seem()
    }

    fn tight_is_due(&self, t: f64) -> bool {
        self.is_counted(t, self.schedule.changed) && t >= self.schedule.tight
    }

    /// Departures below the limit do not count as samples of the capacity, so the estimate comes first.
    fn is_counted(&self, t: f64, since: f64) -> bool {
        self.saturated_work().departed.sum() >= COUNTED * self.dispersion
            || t - since >= self.patience_counted()
    }

    /// After how long an estimate is asked no more of, seconds.
    pub(super) fn patience_counted(&self) -> f64 {
        (COUNTED_TURNS * self.own_response()).clamp(COUNTED_S, COUNTED_S_MAX)
    }

    /// Whether the server does nothing for so long that it is no chance: a garbage collector's pause. Short blocks would lay it at
    /// their limit's door.
    pub(super) fn is_paused(&self, t: f64) -> bool {
        let response = self.response.max(self.mean_unqueued());
        let silent = t - self.last_reply.max(self.block.began);
        silent > PAUSE_TURNS * response + PAUSE_DEPARTURES / self.rate.max(1e-9)
    }

    /// Takes the present base block as what a probe is compared with.
    fn refer(&mut self, t: f64, seconds: f64) {
        let departed = self.block.area.departed;
        self.reference =
            Reference { rate: self.work(&departed) / seconds, departed, level: self.level, probed: t };
    }

    /// Whether the limit is so far above that of base that it goes by a capacity which was given and is given no more.
    pub(super) fn is_probe_far_above_base(&self) -> bool {
        matches!(self.mode, Mode::Up | Mode::Tight)
            && self.level > FAR_ABOVE * self.level_at(self.find_knee(), self.headroom.beta)
    }

    /// Whether a look upwards has just ended, settled or not, since less departs in it than chance makes of what is known.
    pub(super) fn ends_up(&mut self, t: f64) -> bool {
        let ends = self.mode == Mode::Up && self.does_less(t - self.block.began);
        if ends {
            self.rest_from_up(t);
            self.go_base(t);
        }
        ends
    }

    /// Whether the block says that the server does less than it is known to do. What began together ends together: before a mean response
    /// time is over it says nothing.
    fn does_less(&self, seconds: f64) -> bool {
        let Some(expected) = self.expected() else { return false };
        let per_s = expected.rho / expected.mean;
        let count = per_s * seconds;
        let seen = self.work(&self.block.area.departed) / expected.mean;
        let variance = expected.dispersion * count + (self.error() * count).powi(2);
        seconds * per_s > self.reference.level && count - seen > LESS * variance.sqrt()
    }

    pub(super) fn tick_up(&mut self, t: f64, seconds: f64) {
        let departed = self.block.area.departed;
        let count = departed.sum();
        if count < 8.0 || self.block.left < 0.7 * self.level || seconds < self.response.max(0.06) {
            return;
        }
        let before = self.reference;
        let rate = self.work(&departed) / seconds;
        let growth = (self.level / before.level).ln();
        let gain = (rate / before.rate).max(1e-9).ln();
        let error = self.variance_of_gain(&departed).sqrt();
        let long = seconds >= (2.0 * self.response).max(0.2) || count >= 300.0 * self.dispersion;
        let surplus = gain - GROWTH * growth;
        if !long && surplus.abs() <= 2.0 * error {
            return;
        }
        let longest = seconds >= (LOOK_TURNS * self.response).max(LOOK_S) || count >= 300.0 * self.dispersion;
        let beyond = gain - growth;
        let is_unsure = |excess: f64, sure: f64| excess > 0.0 && excess <= sure * error;
        if (is_unsure(surplus, DECIDED) || is_unsure(beyond, FASTER)) && !longest {
            return;
        }
        if beyond > FASTER * error {
            // Unless costs explain it: then the limit follows them.
            self.schedule.up = t + self.schedule.up_gap;
            self.change(t, &Alarm { departed, seconds });
            return;
        }
        // Not where `in_flight.max` has come down meanwhile.
        if growth > 0.0 {
            self.headroom.up.add(gain / growth, (growth / error).powi(2));
        }
        if surplus > DECIDED * error || self.headroom.grows() {
            let work = self.saturated_work();
            let known = [
                Step {
                    level: before.level,
                    rate: before.rate,
                    departed: work.departed,
                    seconds: work.seconds,
                    in_flight_s: self.even_area(before.level, work.seconds),
                },
                Step { level: self.level, rate, departed, seconds, in_flight_s: self.block.area.in_flight_s },
            ];
            let capacity = self.capacity();
            self.headroom.up = Elasticity::default();
            self.note_at(t, Cause::Search, capacity);
            self.restart(t, &known);
            return;
        }
        if gain > (MORE * error).max(0.04) {
            // More, but not in proportion: the probe is the better sample of the capacity.
            let capacity = self.capacity();
            self.counted = Counted::of(Span { departed, seconds });
            self.open_to((before.level * self.level).sqrt());
            self.cusums.reset();
            self.note_at(t, Cause::More, capacity);
        }
        self.schedule.up_gap = (self.schedule.up_gap * 1.7).min(UP_GAP);
        let rest = if self.headroom.may_grow() { REST_UNSURE } else { REST };
        let spacing = if self.schedule.up_gap >= RARE_GAP { rest * (t - before.probed) } else { 0.0 };
        // A server that does less above its knee pays for being looked at there.
        let loss = (1.0 - rate / before.rate.max(1e-9) - error).max(0.0);
        self.schedule.up = t + self.schedule.up_gap.max(spacing).max(60.0 * loss * seconds);
        self.go_base(t);
    }

    /// There is more above: the limit is at least `level` from now on.
    fn open_to(&mut self, level: f64) {
        let knee = self.find_knee();
        self.headroom.reopen((level - knee) / knee.sqrt());
        if let Some(kept) = &mut self.kept {
            kept.highest = kept.highest.max(level);
        }
    }

    /// Variance of the logarithm of what departs in a probe over what departed in base before it: by counting them, and, as far as
    /// they are of other classes, by what their costs are uncertain.
    fn variance_of_gain(&self, departed: &PerClass) -> f64 {
        let before = &self.reference.departed;
        let counted = 1.0 / departed.sum().max(1.0) + 1.0 / before.sum().max(1.0);
        let Some(costs) = &self.costs else { return self.dispersion * counted };
        let part = |departed: &PerClass| departed.scaled(1.0 / costs.work(departed).max(f64::MIN_POSITIVE));
        let mut other = part(departed);
        other.add(&part(before).scaled(-1.0));
        self.dispersion_of_work(costs) * counted + costs.variance(&other)
    }

    /// The probe did harm, or was [futile](super::futility): the next one comes after as long as if nothing at all had departed.
    pub(super) fn rest_from_up(&mut self, t: f64) {
        self.schedule.up_gap = UP_GAP;
        self.schedule.up = t + UP_GAP.max(60.0 * (t - self.reference.probed));
    }

    pub(super) fn tick_tight(&mut self, t: f64, seconds: f64) {
        let departed = self.block.area.departed;
        let count = departed.sum();
        if count < 8.0 || !(seconds >= (3.0 * self.response).max(0.5) || count >= 1000.0) {
            return;
        }
        let before = self.reference;
        let growth = (self.level / before.level).ln();
        let rate = self.work(&departed) / seconds;
        let variance = self.variance_of_gain(&departed);
        let mut pays = false;
        if growth != 0.0 {
            let elasticity = (rate / before.rate).max(1e-9).ln() / growth;
            self.headroom.learn(elasticity, growth * growth / variance);
            pays = elasticity > ELASTICITY;
            if elasticity - 2.0 * variance.sqrt() / growth.abs() > PROPORTION {
                // What was known of the headroom was of another knee.
                self.doubt_low(1.0);
                self.add_low(self.block.area);
                self.low_measured = t;
                self.headroom = Headroom::default();
            }
        }
        self.go_base(t);
        let is_least = self.headroom.beta <= BETA_MIN;
        let rest = if is_least && !pays { RESTED } else { 1.0 };
        let lost = self.headroom.loss(growth) * seconds;
        self.schedule.tight = t + rest * (12.0 * self.response).max(2.0).max(100.0 * lost);
    }

    /// What a tight probe with one in flight would find: `1/R` departs then, of `Ĉ = N/R`, and `R` was measured with as many.
    fn know_tight(&mut self, t: f64) {
        let growth = self.level.ln();
        let counted = [self.low.departed.sum(), self.saturated_work().departed.sum()];
        let variance: f64 = counted.iter().map(|count| self.dispersion / count.max(1.0)).sum();
        self.headroom.learn(self.find_knee().ln() / growth, growth * growth / variance);
        self.schedule.tight = t + (6.0 * self.response).max(1.0);
    }

    pub(super) fn work(&self, departed: &super::PerClass) -> f64 {
        self.costs.as_ref().map_or(0.0, |costs| costs.work(departed))
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{Area, TICK, costs::Costs, knee::Kept},
        *,
    };
    use crate::{capacity::CapacityBounds, limit::LimitBounds};

    /// Before a server of so many a second, each of which takes so long, seconds, as 40 s have shown.
    fn known(per_s: f64, response_s: f64) -> KneeTrack {
        let mut knee = KneeTrack::new(LimitBounds { initial: 20, min: 1, max: 1000 });
        knee.costs = Some(Costs::new(PerClass::all(1.0 / per_s, 1), 1));
        knee.counted = Counted::of(Span { departed: PerClass::all(40.0 * per_s, 1), seconds: 40.0 });
        knee.low =
            Area { departed: PerClass::all(100.0, 1), in_flight_s: PerClass::all(100.0 * response_s, 1) };
        knee.response = response_s;
        knee
    }

    /// A break may have been long, and the server is another one, or has a queue that nobody held back.
    #[test]
    fn a_probe_ends_with_the_load_since_it_compares_with_what_was_before() {
        for mode in [Mode::Up, Mode::Tight] {
            let mut knee = KneeTrack::new(LimitBounds { initial: 20, min: 1, max: 1000 });
            knee.costs = Some(Costs::new(PerClass::all(0.01, 1), 1));
            (knee.mode, knee.settling, knee.saturation.holds) = (mode, None, true);
            knee.pause(10.0);
            knee.tick(20.0, 1.0, true);
            assert_eq!(knee.mode, Mode::Base, "after {mode:?}");
        }
    }

    /// Before a server of 400/s and 10 ms each, of which nothing has departed for so long in a probe at its knee: whether it goes on.
    fn goes_on_after(silent: f64) -> bool {
        let mut knee = known(400.0, 0.01);
        (knee.mode, knee.settling, knee.saturation.holds, knee.level) = (Mode::Tight, None, true, 4.0);
        knee.rate = 400.0;
        knee.block.began = 10.0;
        knee.block.area.departed = PerClass::all(40.0, 1);
        knee.last_reply = 10.1;
        knee.tick(10.1 + silent, 4.0, true);
        assert_eq!(knee.mode, Mode::Tight);
        knee.block.began == 10.0
    }

    /// What a look upwards by half leads to that gave so many times what base did: the mode, and whether the server is taken for a changed one.
    fn after_up(gain: f64) -> (Mode, bool) {
        let mut knee = known(400.0, 0.01);
        (knee.mode, knee.level) = (Mode::Up, 11.0);
        let rate = knee.work(&PerClass::all(400.0, 1));
        knee.reference = Reference { rate, departed: PerClass::all(400.0, 1), level: 7.0, probed: 99.0 };
        (knee.block.area.departed, knee.block.left) = (PerClass::all(200.0 * gain, 1), 200.0 * gain);
        knee.tick_up(100.0, 0.5);
        (knee.mode, knee.kept.is_some())
    }

    #[test]
    fn more_than_in_proportion_to_the_limit_is_no_growth_but_a_faster_server() {
        assert_eq!(after_up(1.0), (Mode::Base, false));
        assert_eq!(after_up(1.5), (Mode::Start, false));
        assert_eq!(after_up(2.0), (Mode::Base, true));
    }

    /// Looks upwards by half before a server of 100/s, each of 50 departures beside 100, that gave so many times what base did: the mode after
    /// the last, and seconds until the next one.
    fn after_looks(gains: &[f64]) -> (Mode, f64) {
        let mut knee = known(100.0, 0.04);
        for gain in gains {
            (knee.mode, knee.level) = (Mode::Up, 6.0);
            let rate = knee.work(&PerClass::all(100.0, 1));
            knee.reference = Reference { rate, departed: PerClass::all(100.0, 1), level: 4.0, probed: 99.0 };
            (knee.block.area.departed, knee.block.left) = (PerClass::all(100.0 * gain, 1), 50.0);
            knee.tick_up(100.0, 1.0);
        }
        (knee.mode, knee.schedule.up - 100.0)
    }

    /// Three tenths more of half the limit more could be chance once; four times it is not. Until it is sure that nothing grows the next
    /// look comes soon.
    #[test]
    fn looks_that_are_too_short_to_tell_do_together() {
        let (once, soon) = after_looks(&[1.32]);
        assert_eq!((once, soon), (Mode::Base, 5.0));
        assert_eq!(after_looks(&[1.32; 4]).0, Mode::Start);
        let (never, late) = after_looks(&[1.0; 4]);
        assert_eq!((never, late), (Mode::Base, 40.0));
    }

    #[test]
    fn a_look_whose_limit_has_come_down_to_that_of_base_says_nothing_of_growth() {
        let mut knee = known(100.0, 0.04);
        (knee.mode, knee.level) = (Mode::Up, 4.0);
        let rate = knee.work(&PerClass::all(100.0, 1));
        knee.reference = Reference { rate, departed: PerClass::all(100.0, 1), level: 4.0, probed: 99.0 };
        (knee.block.area.departed, knee.block.left) = (PerClass::all(99.0, 1), 99.0);
        knee.tick_up(100.0, 1.0);
        assert_eq!((knee.mode, knee.headroom.up), (Mode::Base, Elasticity::default()));
    }

    /// Half as much again departs of another mix, whose requests are only thought to cost less.
    #[test]
    fn what_costs_may_explain_is_no_growth() {
        let variance = |heavy: f64| {
            let mut knee = KneeTrack::new(LimitBounds { initial: 20, min: 1, max: 1000 });
            knee.make_place(1);
            knee.costs = Some(Costs::new(PerClass::all(0.01, 2), 2));
            knee.mix = PerClass::all(0.5, 2);
            knee.reference.departed = PerClass::all(50.0, 2);
            let mut departed = PerClass::ZERO;
            (departed[0], departed[1]) = (100.0 - heavy, heavy);
            knee.variance_of_gain(&departed)
        };
        assert!((variance(50.0) - 0.02).abs() < 1e-9, "of the same mix only counting makes it uncertain");
        assert!(variance(90.0) > 0.5, "of another one it is whatever the costs are: {}", variance(90.0));
    }

    /// Seconds from tight probes that gave such parts of what base gives, one after the other, to the next one. Before 4 workers of 10 ms.
    fn next_tight_after(gains: &[f64]) -> f64 {
        let mut knee = known(400.0, 0.01);
        for gain in gains {
            let of_base = knee.work(&PerClass::all(400.0, 1));
            (knee.mode, knee.level) = (Mode::Tight, 4.0);
            knee.reference =
                Reference { rate: of_base, departed: PerClass::all(200.0, 1), level: 7.0, probed: 99.0 };
            knee.block.area.departed = PerClass::all(200.0 * gain, 1);
            knee.tick_tight(100.0, 0.5);
            assert_eq!(knee.mode, Mode::Base);
        }
        knee.schedule.tight - 100.0
    }

    /// A probe has seen a tenth less: that may be so, or chance, as those before it say.
    #[test]
    fn how_soon_a_tight_probe_comes_goes_by_what_all_of_them_lose() {
        let (once, chance, lasting) =
            (next_tight_after(&[0.9]), next_tight_after(&[1.1, 0.9]), next_tight_after(&[0.9, 0.9]));
        assert!((once - 5.0).abs() < 0.1 && (lasting - 5.0).abs() < 0.1, "{once} s, {lasting} s");
        assert_eq!(chance, 2.0);
    }

    #[test]
    fn what_departs_in_a_pause_is_no_sample_of_a_limit() {
        assert!(goes_on_after(0.04) && !goes_on_after(0.1));
    }

    /// A search saw less above 7 in flight. Later a look upwards shows that there is more, or somebody gives what the server can do.
    #[test]
    fn a_limit_that_is_kept_low_is_raised_by_what_is_known_better() {
        let mut knee = known(100.0, 0.06);
        knee.level_cap = 1000.0;
        knee.kept = Some(Kept::new(6.0, 7.0, PerClass::ZERO, 0.0));
        let level = |knee: &mut KneeTrack| {
            knee.set_base_level();
            knee.level
        };
        assert_eq!(level(&mut knee), 7.0, "with headroom it would be 10");
        knee.set_capacity_bounds(CapacityBounds { floor: Some(1000.0), ceiling: None });
        assert!(level(&mut knee) > 60.0);
        knee.set_capacity_bounds(CapacityBounds::default());
        assert_eq!(level(&mut knee), 7.0);
        knee.resize(2.0);
        assert_eq!(level(&mut knee), 14.0, "as many servers again");
        knee.open_to(16.0);
        assert_eq!(level(&mut knee), 16.0);
    }

    /// Seconds that a look upwards goes on for, two at most, before a server of so many a second which was full with `level` in flight, where
    /// this part of that departs; while the new limit settles, or after.
    fn looks_for(per_s: f64, level: f64, part: f64, settling: bool) -> Option<f64> {
        let mut knee = known(per_s, level / per_s);
        (knee.mode, knee.level, knee.dispersion) = (Mode::Up, 1.5 * level, 0.3);
        (knee.saturation.holds, knee.last_reply, knee.block.began) = (true, 10.0, 10.0);
        knee.reference = Reference { rate: 1.0, departed: PerClass::all(40.0, 1), level, probed: 10.0 };
        if !settling {
            knee.settling = None;
        } else if let Some(settling) = &mut knee.settling {
            (settling.began, settling.earliest, settling.latest) = (10.0, 20.0, 20.0);
        }
        let ended = (1..100).map(|tick| f64::from(tick) * TICK).find(|seconds| {
            knee.block.area.departed[0] = part * per_s * seconds;
            knee.tick(10.0 + seconds, knee.level, true);
            knee.mode == Mode::Base
        });
        assert!(ended.is_none_or(|seconds| knee.schedule.up >= 10.0 + 61.0 * seconds - 1e-6));
        ended
    }

    /// Where a server collapses over the limit of base, eight departures would take longest.
    #[test]
    fn a_look_upwards_ends_where_less_departs() {
        for settling in [true, false] {
            let ended = looks_for(100.0, 4.0, 0.05, settling);
            assert!(ended.is_some_and(|seconds| seconds < 0.1), "{ended:?}");
            let goes_on = looks_for(100.0, 4.0, 0.8, settling);
            assert!(goes_on.is_none_or(|seconds| seconds > 0.3), "{goes_on:?}");
        }
    }

    /// Eight workers that begin together are done together, after a second.
    #[test]
    fn nothing_in_less_than_a_response_time_is_not_less() {
        let ended = looks_for(8.0, 8.0, 0.0, true);
        assert!(ended.is_some_and(|seconds| (1.0..1.1).contains(&seconds)), "{ended:?}");
    }

    /// Somebody gave ten times the capacity and takes it back, or gives what it is once more, while a probe looks upwards from there.
    #[test]
    fn a_probe_from_a_capacity_that_is_given_no_more_ends() {
        for (then, mode) in [(None, Mode::Base), (Some(1000.0), Mode::Up)] {
            let mut knee = KneeTrack::new(LimitBounds { initial: 20, min: 1, max: 1000 });
            let mut costs = Costs::new(PerClass::all(0.01, 1), 1);
            costs.learn(&PerClass::all(1000.0, 1), 10.0, 1.0);
            knee.costs = Some(costs);
            knee.counted = Counted::of(Span { departed: PerClass::all(1000.0, 1), seconds: 10.0 });
            knee.low = Area { departed: PerClass::all(100.0, 1), in_flight_s: PerClass::all(10.0, 1) };
            (knee.level_cap, knee.settling) = (1000.0, None);
            knee.set_capacity_bounds(CapacityBounds { floor: Some(1000.0), ceiling: None });
            knee.set_base_level();
            let given = knee.level;
            knee.set_level(1.5 * given);
            knee.begin(Mode::Up, 20.0);
            knee.set_capacity_bounds(CapacityBounds { floor: then, ceiling: None });
            assert_eq!(knee.mode, mode);
            assert_eq!(knee.level < 0.2 * given, then.is_none(), "{} of {given}", knee.level);
        }
    }
}
