//! Mode base: saturated at the working limit, every departure is a sample of the capacity.
//!
//! After half a second of saturation (a shorter one is a biased sample: it lasts while departures happen to be
//! slow) each tick adds to the accumulated work, which fades over 40 s or `4,000·F` departures, whichever is longer, and
//! to the sums that detect a change ([`super::change`]). What departs in mode up, which keeps the server as full, counts, too,
//! unless it is less ([`super::counted`]): an estimate is as good as the departures that are counted are many. Once
//! settled, each tick also adds to the windows from which dispersion and costs are learnt (what is seen while a change seems to begin
//! is of two servers), and the limit follows the mix and the estimate.
//!
//! An alarm is first held against the costs: if their uncertainty for the mix of the alarm's span
//! explains the deviation, they are to blame and are fitted again, and the capacity stays. Work of which a few requests are most is as
//! dispersed as these are few, `E[θ²]/E[θ]²`, and takes an alarm as much more. Else the capacity has
//! changed to what was seen: counting begins anew with half of that, the knee is kept ([`super::low`]), and after a rise a look upwards
//! comes soon.

use super::{
    Cause, Counted, KneeTrack, Mode, PerClass, Span, TICK,
    change::{Alarm, Expected},
    costs::Costs,
    probe,
};

/// Seconds over which saturated work fades, at least and at most.
const MEMORY: f64 = 40.0;
const MEMORY_MAX: f64 = 600.0;
/// Departures, times the dispersion `F`, over which it fades where that takes longer: counting that many leaves an error of
/// `√(1/4,000)`, 1.6 %.
const MEMORY_COUNTED: f64 = 4000.0;

impl KneeTrack {
    /// Every tick in which the limit keeps something waiting: counts what departs while the server is as full as the limit
    /// of base makes it, or fuller, and looks for a change. True if there was one.
    ///
    /// After a probe below the limit, counting goes on once base has settled.
    pub(super) fn count_saturated(&mut self, t: f64, departed: &PerClass) -> bool {
        let was_full = self.is_full;
        self.is_full = match self.mode {
            Mode::Base => was_full || self.settling.is_none(),
            Mode::Up => was_full,
            Mode::Start | Mode::Low | Mode::Tight => false,
        };
        if self.is_full && !was_full {
            self.full_since = t;
        }
        if !self.is_full || self.saturated_for(t) < self.biased_for() {
            return false;
        }
        let allowed = self.part_allowed();
        if allowed < 1.0 {
            return self.count_below_ceiling(t, departed, allowed);
        }
        if self.mode == Mode::Up {
            self.counted.add_above(departed, TICK);
            self.counted.hold(self.saturated_rho(), self.error());
            return false;
        }
        let counted = self.saturated_work();
        if counted.seconds > 2.0 {
            self.counted.fade(1.0 - TICK / self.memory(&counted));
        }
        self.counted.add(departed, TICK);
        self.counted.hold(self.saturated_rho(), self.error());
        let Some(expected) = self.expected() else { return false };
        let work = self.costs.as_ref().map_or(0.0, |costs| costs.work(departed));
        let Some(alarm) = self.cusums.tick(departed, work, &expected) else { return false };
        self.change(t, &alarm);
        true
    }

    /// While a ceiling holds the limit below what the server can do, only that it can do less than the ceiling is noticed.
    fn count_below_ceiling(&mut self, t: f64, departed: &PerClass, allowed: f64) -> bool {
        let (Some(expected), Some(costs)) = (self.expected(), &self.costs) else { return false };
        let expected = Expected { rho: expected.rho * allowed, ..expected };
        let work = costs.work(departed);
        let Some(alarm) = self.cusums.tick(departed, work, &expected) else { return false };
        if costs.work(&alarm.departed) / alarm.seconds >= expected.rho {
            self.cusums.reset();
            return false;
        }
        self.change(t, &alarm);
        true
    }

    /// Seconds over which saturated work fades.
    fn memory(&self, counted: &Span) -> f64 {
        let counted = MEMORY_COUNTED * self.dispersion * counted.seconds / counted.departed.sum().max(1.0);
        counted.clamp(MEMORY, MEMORY_MAX)
    }

    /// What departs of a server that has not changed.
    pub(super) fn expected(&self) -> Option<Expected> {
        let costs = self.costs.as_ref()?;
        let Span { departed, seconds } = self.saturated_work();
        let work = costs.work(&departed);
        (work > 0.0 && seconds > 0.0).then(|| Expected {
            rho: work / seconds,
            mean: work / departed.sum().max(1.0),
            dispersion: self.dispersion_of_work(costs),
        })
    }

    /// `F`, at least that of work in independent requests, some of which cost more than others: `E[θ²]/E[θ]²`, or that part of it which `F`
    /// is of 1. What departs in less than a response time is that, whatever longer windows say.
    pub(super) fn dispersion_of_work(&self, costs: &Costs) -> f64 {
        let theta = costs.theta();
        let mean = self.mean(theta);
        let mut squares = PerClass::ZERO;
        for class in 0..self.classes {
            squares[class] = theta[class] * theta[class];
        }
        let independent = self.mean(&squares) / (mean * mean).max(f64::MIN_POSITIVE);
        self.dispersion.max(self.dispersion.min(1.0) * independent)
    }

    fn saturated_for(&self, t: f64) -> f64 {
        t - self.saturation.since
    }

    /// How long saturation is a biased sample, seconds.
    fn biased_for(&self) -> f64 {
        (5.0 * self.own_response()).max(0.5)
    }

    pub(super) fn tick_base(&mut self, t: f64, seconds: f64, departed: &PerClass) {
        let cap = self.level_cap * (1.0 + 0.4 * TICK);
        self.level_cap = cap.max(self.level).min(self.level_max());
        let saturated_for = self.saturated_for(t);
        if saturated_for < self.biased_for() {
            return;
        }
        if self.part_allowed() < 1.0 {
            self.set_base_level();
            self.probe_low_when_due(t, saturated_for);
            return;
        }
        self.cost_window.add(departed, TICK);
        self.dispersion_window.add(departed, TICK);
        let Some(Expected { rho, mean, .. }) = self.expected() else { return };
        self.learn_dispersion(rho, mean);
        self.learn_costs();
        self.set_base_level();
        self.probe_when_due(t, seconds, saturated_for);
    }

    /// `F`: squared deviations of the work departing in 0.2 s, in units of a mean request, over what is expected.
    fn learn_dispersion(&mut self, rho: f64, mean: f64) {
        let window = self.dispersion_window;
        if window.seconds < (2.0 * self.response).max(0.2) {
            return;
        }
        let work = self.costs.as_ref().map_or(0.0, |costs| costs.work(&window.departed));
        let (expected, seen) = (window.seconds * rho / mean, work / mean);
        let [sum, count] = &mut self.dispersion_pending;
        *sum += ((seen - expected).powi(2) / expected).min(40.0);
        *count += 1.0;
        self.dispersion_window = Span::default();
        // Where a change seems to begin, what is seen counts once that has come to nothing.
        if !self.cusums.seem() {
            let [sum, count] = std::mem::take(&mut self.dispersion_pending);
            self.dispersion_windows = (self.dispersion_windows + count).min(60.0);
            self.dispersion += (sum - count * self.dispersion) / (self.dispersion_windows + 8.0).max(count);
            self.dispersion = self.dispersion.clamp(0.3, 15.0);
        }
    }

    fn learn_costs(&mut self) {
        if self.cost_window.seconds < (4.0 * self.response).max(0.4) {
            return;
        }
        let window = std::mem::take(&mut self.cost_window);
        // A window in which a change seems to begin would be laid at the costs' door.
        if !self.cusums.seem()
            && let Some(costs) = &mut self.costs
        {
            costs.learn(&window.departed, window.seconds, self.dispersion);
        }
    }

    /// The full server does what `alarm` says: its costs explain that and are learnt anew, or it has changed.
    pub(super) fn change(&mut self, t: f64, alarm: &Alarm) {
        let before = self.capacity();
        let (old, dispersion) = (self.saturated_rho(), self.dispersion);
        let Some(costs) = &mut self.costs else { return };
        let new = costs.work(&alarm.departed) / alarm.seconds;
        if costs.explain(new - old, &alarm.departed, alarm.seconds) {
            costs.learn(&alarm.departed, alarm.seconds, dispersion);
            self.forget_windows();
            self.note_at(t, Cause::Costs, before);
            self.begin(Mode::Base, t);
            return;
        }
        if self.part_allowed() < 1.0 {
            // The knee of a ceiling is not where the server is full.
            self.knee = Some(self.knee_at(self.found_capacity()));
        }
        let ratio = (new / old).clamp(0.05, 20.0);
        if let Some(costs) = &mut self.costs {
            costs.speed_up(ratio);
        }
        self.counted =
            Counted::of(Span { departed: alarm.departed.scaled(0.5), seconds: alarm.seconds * 0.5 });
        self.forget_windows();
        self.headroom = probe::Headroom::default();
        self.keep_knee(t, alarm.seconds, new > old);
        if new < old {
            self.note_at(t, Cause::Fall, before);
            self.schedule.fell(t);
        } else {
            self.note_at(t, Cause::Rise, before);
            self.schedule.anew(t, self.response);
        }
        self.go_base(t);
    }

    /// A limit in flight for a time, as if every class had the same part.
    #[expect(clippy::cast_precision_loss, reason = "at most 16")]
    pub(super) fn even_area(&self, level: f64, seconds: f64) -> PerClass {
        PerClass::all(level * seconds / self.classes as f64, self.classes)
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{Area, costs::Costs},
        *,
    };
    use crate::{capacity::CapacityBounds, limit::LimitBounds};

    /// Before a server of 100/s and 40 ms each, which is known and full.
    fn full() -> KneeTrack {
        let mut knee = KneeTrack::new(LimitBounds { initial: 20, min: 1, max: 1000 });
        let mut costs = Costs::new(PerClass::all(0.01, 1), 1);
        costs.learn(&PerClass::all(4000.0, 1), 40.0, 1.0);
        knee.costs = Some(costs);
        knee.counted = Counted::of(Span { departed: PerClass::all(4000.0, 1), seconds: 40.0 });
        knee.low = Area { departed: PerClass::all(100.0, 1), in_flight_s: PerClass::all(4.0, 1) };
        (knee.mode, knee.settling, knee.response, knee.is_full) = (Mode::Base, None, 0.04, true);
        (knee.saturation.holds, knee.saturation.since) = (true, -100.0);
        (knee.schedule.low, knee.schedule.up) = (1000.0, 1000.0);
        (knee.level_cap, knee.dispersion_windows) = (1000.0, 60.0);
        knee.schedule.fell(0.0);
        knee.set_base_level();
        knee
    }

    /// So many of them depart in each tick from second `from` on, until `until` says so; when that was, seconds.
    fn run(knee: &mut KneeTrack, from: f64, per_s: f64, until: impl Fn(&KneeTrack) -> bool) -> Option<f64> {
        (1..3000).map(|tick| f64::from(tick).mul_add(TICK, from)).find(|t| {
            knee.tick_departed = PerClass::all(per_s * TICK, 1);
            if let Some(settling) = &mut knee.settling {
                settling.turned += per_s * TICK;
            }
            knee.block.area.departed[0] += per_s * TICK;
            knee.integrate(*t, &[knee.level as u64]);
            knee.tick(*t, knee.level, true);
            until(knee)
        })
    }

    /// It has become half as fast, which is not seen at once: the limit at which it was full stays, while the estimate falls further, until
    /// what was counted or the time is enough; then the response time is measured.
    #[test]
    fn after_a_fall_the_limit_stays_until_the_estimate_is_good() {
        let mut knee = full();
        let level = knee.level;
        assert_eq!(level, 7.0, "4 in flight, and headroom");
        let known =
            run(&mut knee, 0.0, 60.0, |knee| knee.capacity().unwrap() < 80.0).expect("a fall is seen");
        assert!(known < 2.0 && knee.kept.is_some_and(|kept| (kept.knee - 4.0).abs() < 0.1), "{known} s");
        let probed = run(&mut knee, known, 50.0, |knee| {
            assert!(knee.mode == Mode::Low || knee.level >= level, "{} of {level}", knee.level);
            knee.mode == Mode::Low
        });
        let waited = probed.expect("it is measured in the end") - known;
        assert!((8.0..32.0).contains(&waited), "{waited} s");
        assert!((knee.found_capacity() - 50.0).abs() < 1.0 && knee.low_repeats > 0);
        let told = knee.capacity().unwrap();
        assert!((told - 50.0).abs() < 1.0 + 0.5 * knee.error() * 50.0, "{told}");
    }

    /// Hardly anything departs for a third of a second, by chance, which is taken for a fall to a tenth; then as much departs as ever. The
    /// response time, which was taken to be ten times as long, was not; 5 in flight with headroom are 9.
    #[test]
    fn a_fall_that_was_none_raises_the_limit_by_little() {
        let mut knee = full();
        knee.change(0.0, &Alarm { departed: PerClass::all(3.0, 1), seconds: 0.3 });
        assert!(knee.capacity().is_some_and(|told| told < 11.0));
        let probed = run(&mut knee, 0.0, 100.0, |knee| {
            assert!(knee.level <= 9.0 || knee.mode == Mode::Up, "{}", knee.level);
            knee.mode == Mode::Low
        });
        assert!(probed.is_some() && (knee.mean_unqueued() - 0.04).abs() < 0.005, "{}", knee.mean_unqueued());
    }

    /// Nine of ten cost a hundredth of what the tenth costs: three tenths of a second without one of these are nothing.
    #[test]
    fn work_is_as_dispersed_as_costs_make_it() {
        let mut knee = full();
        knee.make_place(1);
        let mut costs = PerClass::ZERO;
        (costs[0], costs[1]) = (0.001, 0.1);
        (knee.mix[0], knee.mix[1]) = (0.9, 0.1);
        let costs = Costs::new(costs, 2);
        // E[θ²] is 0.001 s², E[θ] is 0.0109 s.
        assert!((knee.dispersion_of_work(&costs) - 8.42).abs() < 0.01);
        knee.dispersion = 0.5;
        assert!((knee.dispersion_of_work(&costs) - 4.21).abs() < 0.01);
        knee.dispersion = 12.0;
        assert_eq!(knee.dispersion_of_work(&costs), 12.0);
    }

    /// A probe has measured the response time of the slower server before the fall was seen: that is not made longer once more.
    #[test]
    fn a_response_time_that_is_measured_since_a_fall_is_that_of_the_slower_server() {
        let kept = |measured: f64| {
            let mut knee = full();
            knee.low = Area { departed: PerClass::all(100.0, 1), in_flight_s: PerClass::all(8.0, 1) };
            (knee.low_measured, knee.full_since) = (measured, 0.0);
            knee.set_base_level();
            run(&mut knee, 0.0, 50.0, |knee| knee.capacity().unwrap() < 80.0).expect("a fall is seen");
            knee.kept.unwrap().knee
        };
        assert!((kept(0.0) - 4.0).abs() < 0.2, "half as many of twice the time: {}", kept(0.0));
        assert!((kept(-100.0) - 8.0).abs() < 0.2, "it was that before: {}", kept(-100.0));
    }

    /// Windows of two servers scatter, but not since one of them does.
    #[test]
    fn a_change_is_no_dispersion() {
        let mut knee = full();
        run(&mut knee, 0.0, 200.0, |knee| knee.kept.is_some()).expect("a rise is seen");
        assert!(knee.dispersion <= 1.0, "{}", knee.dispersion);
    }

    /// Before a server of 100/s and a second each: what is known in the first 0.9 s after something has let in more, while 100 a
    /// second depart as before.
    fn known_after(more: impl Fn(&mut KneeTrack)) -> f64 {
        let mut knee = KneeTrack::new(LimitBounds { initial: 20, min: 1, max: 1000 });
        knee.costs = Some(Costs::new(PerClass::all(0.01, 1), 1));
        knee.counted = Counted::of(Span { departed: PerClass::all(400.0, 1), seconds: 4.0 });
        knee.low = Area { departed: PerClass::all(100.0, 1), in_flight_s: PerClass::all(100.0, 1) };
        (knee.mode, knee.settling, knee.response, knee.is_full) = (Mode::Base, None, 1.0, true);
        (knee.saturation.holds, knee.saturation.since) = (true, -100.0);
        (knee.schedule.low, knee.schedule.up) = (1000.0, 1000.0);
        knee.set_base_level();
        more(&mut knee);
        for tick in 1..=45 {
            knee.tick_departed = PerClass::all(100.0 * TICK, 1);
            knee.tick(f64::from(tick) * TICK, knee.level, true);
        }
        knee.capacity().unwrap_or(0.0)
    }

    #[test]
    fn what_departs_before_a_higher_limit_has_settled_is_no_fall() {
        let added = known_after(|knee| knee.resize(2.0));
        assert!((added - 200.0).abs() < 1.0, "as many servers again: {added}");

        let ceiling = |per_s| CapacityBounds { floor: None, ceiling: per_s };
        let freed = known_after(|knee| {
            knee.counted = Counted::of(Span { departed: PerClass::all(800.0, 1), seconds: 4.0 });
            knee.set_capacity_bounds(ceiling(Some(100.0)));
            knee.set_capacity_bounds(ceiling(None));
        });
        assert!((freed - 200.0).abs() < 1.0, "a ceiling is gone: {freed}");
    }
}
