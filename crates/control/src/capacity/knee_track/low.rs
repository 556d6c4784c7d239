//! Mode low: the response time without a queue, from a limit of six tenths of the knee.
//!
//! `R` is requests in flight over time, divided by departures: by Little's law the mean response time, and unlike
//! a mean over responses not biased by which of them happen to end inside the block. The smallest response
//! time would be merely the cheapest request's.
//!
//! A *full* probe (after a search, a change, or a contradiction) takes `80·F` departures, or `24·F` where their response times are
//! even (a squared coefficient of variation of at most 0.15), or eight of its response times: before one worker, to which the probe
//! gives one request at a time, each departure is a turnaround for which it idles, and of even times few say as much. It lets
//! what was known count for 8, and is repeated, three times at most, while the knee comes out more than 20 % lower than the one its
//! limit was made from: that limit was not low then. A *routine* probe, every `max(5 s, 60·(2·rt + 0.15 s))` of lasting saturation,
//! takes `12·F`; if it contradicts what is known (over 3 standard deviations and 15 %), a full one follows.
//!
//! Where a full probe has more than tripled the knee (the server may have been busy with what was left from before), or the knee came out
//! lower after the last repetition still, the next routine probe comes after `max(5 s, 10·(2·R + 0.15 s))`, with the probe's own `R`.
//!
//! A full probe that brings the knee down by more than 20 % is soon followed by a look upwards: a server whose response times have become shorter
//! may have become faster altogether, and would be held at what it did before.
//!
//! Where of half of the mix nothing is known without a queue, since a class is new, a full probe begins at half of the limit, as where
//! nothing is known at all: by the response times of the other classes the knee may be a tenth of what it is.
//!
//! What passes the limit (the top priority) can keep the server full at a probe, too: over 1.05 of the limit in flight, nine
//! tenths of the capacity departing. Longer times than are known are a queue then, and are no sample: the limit would grow with the
//! queue of those who pass it, and let more of the others in before them. So it is where `in_flight.min` is above the limit that a probe
//! would have.
//!
//! After a first search that went down, or up from limits of which fewer than `80·F` departed, a change or a proof the knee is *kept*:
//! it is taken for what it was (of the present mix, a quarter more at most) until a full probe has measured it, which comes when the estimate is good (`1,100·F` departures, or 150 response times, 8 s at least and 30 s at most). A server that
//! has become slower or faster, or does requests that cost more or less, is full at the limit it was full at, since `R` changes as `1/Ĉ`
//! does; only where servers were lost that is too high for so long. `R` is what makes that knee of what is counted, also when the probe begins: by an
//! alarm of a few departures it could be ten times what it is, while counting mends `Ĉ`, and the limit would be ten times too high. A probe at once would give work away, and count nothing, when the
//! estimate needs departures most; and a knee that followed an estimate which still falls would hold the server below what it can do,
//! and so prove itself right. If a probe has measured `R` since the change began, the knee is what follows from that. Further changes keep the same knee, and a rise seen
//! meanwhile leaves at least two thirds of that time for it, up to twice the time in all. After a first
//! search downwards the knee is by the lowest of its limits, and no higher than one that was full. After one upwards `R` is
//! known from the limits of a quarter of the highest and less, and where enough departed of them, a routine probe follows. A search from a
//! look upwards is followed by a full probe at once.

use super::{Area, KneeTrack, LIMIT_FIRST, LOW, Mode};

/// Departures after which older low samples fade.
const MEMORY: f64 = 600.0;
/// A knee this much below the one the probe's limit was made from: there was a queue in it.
const REPEAT: f64 = 0.8;
/// A knee this much above it: the server may have been busy with what it still had to do from before.
const LONGER: f64 = 3.0;
/// Probes' lengths from one to the next.
const SPACING: f64 = 60.0;
/// And where the last one is to be looked at again soon.
const SPACING_SOON: f64 = 10.0;
/// Departures, times `F`, of a full probe, of one whose response times are even, and of a routine one.
pub(super) const FULL: f64 = 80.0;
const FULL_EVEN: f64 = 24.0;
const ROUTINE: f64 = 12.0;
/// Squared coefficient of variation up to which response times are even: far below what chance makes of times that are not, since a
/// probe that ended whenever the long ones have not come yet would take the server for a faster one.
const EVEN: f64 = 0.15;
/// Departures for which what was known counts after a change.
const LITTLE: f64 = 8.0;
/// Over so many times the limit in flight, and of the capacity this part departs: what passes the limit keeps the server full.
const PASSED: f64 = 1.05;
const NEARLY_ALL: f64 = 0.9;
/// Departures of the average class by which a class's own `R` is drawn to it.
const SHRINK: f64 = 4.0;

impl KneeTrack {
    /// Mean response time of a class without a queue, seconds, drawn to the mean of all.
    pub(super) fn unqueued(&self, class: usize) -> f64 {
        let (departed, in_flight_s) = (self.low.departed.sum(), self.low.in_flight_s.sum());
        if departed <= 0.0 {
            return self.response;
        }
        (self.low.in_flight_s[class] + SHRINK * in_flight_s / departed) / (self.low.departed[class] + SHRINK)
    }

    pub(super) fn add_low(&mut self, area: Area) {
        let sum = self.low.departed.sum();
        if sum >= MEMORY {
            self.fade_low(MEMORY / sum);
        }
        self.low.departed.add(&area.departed);
        self.low.in_flight_s.add(&area.in_flight_s);
    }

    fn fade_low(&mut self, keep: f64) {
        self.low.departed.scale(keep);
        self.low.in_flight_s.scale(keep);
    }

    /// What was known of the response times counts for little, and is taken to be `factor` times what it was.
    pub(super) fn doubt_low(&mut self, factor: f64) {
        self.fade_low((LITTLE / self.low.departed.sum().max(1.0)).min(1.0));
        self.low.in_flight_s.scale(factor);
    }

    /// A low probe: full if `repeats` is not 0.
    pub(super) fn go_low(&mut self, t: f64, repeats: u32) {
        self.low_repeats = repeats;
        self.doubt_by_kept();
        let knee = if self.knows_unqueued() { self.find_knee() } else { (self.level / 2.0).max(1.0) };
        self.knee = Some(knee);
        self.set_level(self.low_level(knee));
        self.begin(Mode::Low, t);
    }

    /// Whether response times without a queue are known of at least half of the present mix.
    fn knows_unqueued(&self) -> bool {
        let known = (0..self.classes).filter(|class| self.low.departed[*class] >= 1.0);
        let of_mix: f64 = known.map(|class| self.mix[class]).sum();
        self.low.departed.sum() > 0.0 && of_mix >= 0.5 * self.mix.sum()
    }

    /// The limit of a probe, wherever `in_flight.min` is.
    fn low_level(&self, knee: f64) -> f64 {
        let own = if self.knows_unqueued() { self.own_knee(knee) } else { knee };
        (LOW * own).min(0.8 * self.level_cap).floor().max(1.0)
    }

    /// `in_flight.min` was higher, so many requests. A search that it held up begins where others do, and response times that may have
    /// been measured in a queue are looked at again.
    pub(super) fn leave_minimum(&mut self, before: f64) {
        let first = LIMIT_FIRST.min(f64::from(self.bounds.initial));
        if self.costs.is_some() {
            if self.knee.is_some_and(|knee| before > self.low_level(knee)) {
                self.schedule.low = self.last;
            }
        } else if self.level <= before && self.level > first {
            self.steps.clear();
            self.set_level(first);
            self.begin(Mode::Start, self.last);
        }
        if self.mode == Mode::Base && self.costs.is_some() {
            self.set_base_level();
        }
    }

    /// Of a knee by a floor that says more than the server can do, what it can: with a queue in it the response time, and with
    /// that the limit, would grow without end.
    pub(super) fn own_knee(&self, knee: f64) -> f64 {
        match self.capacity_bounds.floor {
            Some(_) => knee.min(self.knee_at(self.found_capacity())),
            None => knee,
        }
    }

    pub(super) fn tick_low(&mut self, t: f64, seconds: f64) {
        let full = self.low_repeats > 0;
        let count = self.block.area.departed.sum();
        // The probe's own, since what departed before it may have queued.
        let response = self.block.area.in_flight_s.sum() / count.max(1.0);
        let (need, turns, span_max) = if full {
            let is_even = self.block.responses.variation() <= EVEN;
            (if is_even { FULL_EVEN } else { FULL }, 4.0, (8.0 * response).max(0.6))
        } else {
            (ROUTINE, 2.0, (2.0 * response).max(0.15))
        };
        let enough = count >= need * self.dispersion.max(0.5) && seconds >= turns * response;
        if count < 4.0 || !(enough || seconds >= span_max) {
            return;
        }
        if self.is_full_all_the_same(seconds) {
            self.end_low(t);
            return;
        }
        if !full && self.contradiction().is_some() {
            self.go_low(t, 3);
            return;
        }
        if full {
            // Something has changed: what was known counts for little.
            self.doubt_low(1.0);
            self.low_measured = t;
            self.kept = None;
        }
        self.add_low(self.block.area);
        let (old, new) = (self.knee.unwrap_or(1.0), self.find_knee());
        let is_lower = full && new < REPEAT * old;
        if is_lower {
            self.schedule.look_soon(t, response);
        }
        if is_lower && self.low_repeats > 1 {
            self.go_low(t, self.low_repeats - 1);
            return;
        }
        let is_in_doubt = is_lower || full && new > LONGER * old;
        self.end_low(t);
        if is_in_doubt {
            self.schedule.low = t + spacing(SPACING_SOON, response);
        }
    }

    /// Back to base; the next one comes after a while.
    fn end_low(&mut self, t: f64) {
        self.kept = None;
        self.schedule.low = t + spacing(SPACING, self.response);
        self.go_base(t);
    }

    /// Whether there was a queue in the probe, since what passes the limit, or `in_flight.min`, has kept the server full.
    fn is_full_all_the_same(&self, seconds: f64) -> bool {
        let Area { departed, in_flight_s } = &self.block.area;
        let known: f64 = (0..self.classes).map(|class| departed[class] * self.unqueued(class)).sum();
        let level = self.knee.map_or(self.level, |knee| self.low_level(knee).min(self.level));
        self.low.departed.sum() > 0.0
            && in_flight_s.sum() > PASSED * level * seconds
            && in_flight_s.sum() > known
            && self.work(departed) > NEARLY_ALL * self.saturated_rho() * seconds
    }

    /// How many times as long as was known its requests take, if the block is another server's than the one known.
    pub(super) fn contradiction(&self) -> Option<f64> {
        if self.low.departed.sum() <= 0.0 {
            return None;
        }
        let area = &self.block.area;
        let expected: f64 = (0..self.classes).map(|class| area.departed[class] * self.unqueued(class)).sum();
        let ratio = area.in_flight_s.sum() / expected.max(1e-12);
        let spread =
            self.dispersion.max(1.0) * (1.0 / area.departed.sum() + 1.0 / self.low.departed.sum().max(1.0));
        let contradicts = (ratio.max(1e-9).ln() / spread.sqrt()).abs() > 3.0 && (ratio - 1.0).abs() > 0.15;
        contradicts.then_some(ratio)
    }

    /// Back to mode base.
    pub(super) fn go_base(&mut self, t: f64) {
        self.schedule.up = self.schedule.up.max(t + 0.5);
        self.set_base_level();
        self.begin(Mode::Base, t);
    }
}

/// Seconds from one probe to the next.
fn spacing(lengths: f64, response: f64) -> f64 {
    (lengths * (2.0 * response + 0.15)).max(5.0)
}

#[cfg(test)]
mod tests {
    use super::{
        super::{Block, Counted, PerClass, Span, costs::Costs},
        *,
    };
    use crate::limit::LimitBounds;

    /// Seconds from a full probe, in which requests took so long, to the next one, and to the next look upwards, where they took 10 ms
    /// before.
    fn next_after(response_s: f64) -> [f64; 2] {
        let mut knee = KneeTrack::new(LimitBounds { initial: 20, min: 1, max: 1000 });
        let area = |response_s: f64| Area {
            departed: PerClass::all(100.0, 1),
            in_flight_s: PerClass::all(100.0 * response_s, 1),
        };
        knee.costs = Some(Costs::new(PerClass::all(0.01, 1), 1));
        (knee.low, knee.knee) = (area(0.01), Some(4.0));
        (knee.mode, knee.low_repeats, knee.settling) = (Mode::Low, 1, None);
        (knee.level, knee.response) = (2.0, 2.0 * response_s);
        knee.block = Block { area: area(response_s), ..Block::default() };
        knee.schedule.up = 120.0;
        knee.tick_low(100.0, 100.0);
        assert_eq!(knee.mode, Mode::Base);
        [knee.schedule.low - 100.0, knee.schedule.up - 100.0]
    }

    #[test]
    fn response_times_that_have_become_much_longer_are_soon_looked_at_again() {
        // By its own response times, not by those of what was there before.
        let ([longer, _], [hardly, _]) = (next_after(5.0), next_after(0.06));
        assert!((longer - 10.0 * (2.0 * 5.0 + 0.15)).abs() < 1e-6, "{longer}");
        assert!((hardly - 60.0 * (2.0 * 0.12 + 0.15)).abs() < 1e-6, "{hardly}");
    }

    /// Its capacity may have risen with that, which under the limit that follows nobody would see.
    #[test]
    fn response_times_that_have_become_shorter_are_followed_by_a_look_upwards() {
        assert_eq!([0.004, 0.06].map(|response_s| next_after(response_s)[1]), [0.5, 20.0]);
    }

    /// Before 20 workers, where nobody asks for what takes a tenth of a second any more, but for what takes a second and is new: the limit
    /// of the probe after the fall.
    #[test]
    fn a_probe_after_a_fall_goes_by_no_response_times_of_other_classes() {
        let level = |mix: [f64; 2]| {
            let mut knee = KneeTrack::new(LimitBounds { initial: 20, min: 1, max: 1000 });
            knee.make_place(1);
            knee.costs = Some(Costs::new(PerClass::all(1.0, 2), 2));
            (knee.level, knee.level_cap) = (24.0, 1000.0);
            let mut departed = PerClass::ZERO;
            departed[0] = 100.0;
            knee.low = Area { departed, in_flight_s: departed.scaled(0.1) };
            knee.counted = Counted::of(Span { departed: departed.scaled(0.2), seconds: 1.0 });
            (knee.mix[0], knee.mix[1]) = (mix[0], mix[1]);
            knee.go_low(100.0, 3);
            knee.level
        };
        assert_eq!(level([1.0, 0.0]), 1.0, "20 a second of a tenth of a second each");
        assert_eq!(level([0.0, 1.0]), 7.0, "six tenths of half of what is in flight");
    }

    /// Departures of a full probe before it ends, a thousand at most, each in flight for one of these times, ms, in turn; `F` is 1, and it
    /// is looked at after each.
    fn departures_of_full(times_ms: &[u8]) -> f64 {
        let mut knee = KneeTrack::new(LimitBounds { initial: 20, min: 1, max: 1000 });
        knee.costs = Some(Costs::new(PerClass::all(0.01, 1), 1));
        (knee.mode, knee.low_repeats, knee.knee, knee.level) = (Mode::Low, 1, Some(1.0), 1.0);
        let (mut seconds, mut departed) = (0.0, 0.0);
        for time_ms in times_ms.iter().cycle().take(1000) {
            let time_s = f64::from(*time_ms) / 1000.0;
            (seconds, departed) = (seconds + time_s, departed + 1.0);
            knee.block.area.departed[0] = departed;
            knee.block.area.in_flight_s[0] = seconds;
            knee.block.responses.add(time_s);
            // Too short for eight of them, or 0.6 s, to end it.
            knee.tick_low(100.0, seconds.min(0.5));
            if knee.mode == Mode::Base {
                break;
            }
        }
        departed
    }

    #[test]
    fn a_full_probe_takes_fewer_of_response_times_that_are_even() {
        assert_eq!(departures_of_full(&[10]), 24.0);
        // Every fourth takes 37 times as long. The first three are even, and too few to say so.
        assert_eq!(departures_of_full(&[1, 1, 1, 37]), 80.0);
        assert_eq!(departures_of_full(&[4, 16]), 80.0);
    }
}
