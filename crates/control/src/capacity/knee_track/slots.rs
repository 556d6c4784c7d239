//! Slots: how many places a second the waiting room may promise.
//!
//! Between the room and the server stands the short queue; the room lets it hold up to a quarter of a second's work (and
//! at least four limits, enough to fill a probe):
//!
//! ```text
//! target = max(c/4, 4·L)     rate = c · boost · (1 + clamp((target − queued)/c, −0.7, e))
//! ```
//!
//! `L` is the limit, during a look upwards that from which it is taken, since a part of what is queued fills it; before anything
//! is known `c/4` at most, since it may be far above the knee then. `e` is the estimate's relative standard error, 0.5 at most
//! and before anything is known: by one that is too low the short queue would run empty, and of a server that is not full nothing
//! is counted.
//!
//! `c` is the capacity by all that is [counted](super::counted): what is told of it stays where it is until chance is excluded, and
//! within a second half a minute may be promised. While less than a limit's worth is queued, at least the rate that departs now, which is
//! served without a queue and so is proof of that much. While it is so although the room makes newcomers wait, `boost` grows,
//! by 30 % a second up to 3 (while nothing is known by 100 % up to 50); else it shrinks, twice as fast as time passes.
//! Without it a room that obeys the estimate starves the search: an estimate too low would feed itself. While the short queue
//! holds enough nothing comes above the capacity: whoever came would overtake all who have a time.
//! A ceiling of the capacity bounds it all, one that is given above all.

use super::{super::Pace, KneeTrack, Mode};

/// At most so much more than the estimate comes to fill the short queue, as a share of it.
const FEED_MAX: f64 = 0.5;
/// A rate at least, before anything is known, places a second.
const RATE_MIN: f64 = 20.0;

impl KneeTrack {
    /// How fast requests may come and go now, with `queued` requests in the short queue, `passed` seconds after
    /// the last call (a quarter of a second counts at most); `held_back`: whether the room makes newcomers
    /// wait.
    pub fn pace(&mut self, queued: f64, passed: f64, held_back: bool) -> Pace {
        let passed = passed.clamp(0.0, 0.25);
        let known = self.costs.is_some();
        let mut capacity = if known { self.counted_capacity().unwrap_or(0.0) } else { self.rate };
        // A limit that is still searched for may be far above the knee: it counts for a quarter of a second's work at most.
        let level =
            if known { self.level_without_look() } else { self.level.min(capacity.max(RATE_MIN) / 4.0) };
        let short = queued < level;
        if short {
            capacity = capacity.max(self.rate);
        }
        if !known {
            capacity = capacity.max(RATE_MIN);
        }
        self.boost = if short && held_back {
            let (growth, most) = if known { (0.3, 3.0) } else { (1.0, 50.0) };
            (self.boost * (1.0 + passed * growth)).min(most)
        } else {
            (self.boost * (1.0 - 2.0 * passed)).max(1.0)
        };
        let target = (capacity / 4.0).max(4.0 * level);
        let feed = if known { self.error().min(FEED_MAX) } else { FEED_MAX };
        let may_come_per_s = capacity * self.boost * (1.0 + ((target - queued) / capacity).clamp(-0.7, feed));
        Pace {
            // A ceiling is there for what the server's own pace does not show: a database behind it, a partner who is paid.
            may_come_per_s: may_come_per_s.min(self.capacity_bounds.clamp(f64::INFINITY)),
            departs_per_s: self.rate,
            standing: (queued - target).max(0.0),
            error: if known && self.capacity_bounds.given().is_none() { self.error() } else { 0.0 },
        }
    }

    /// The limit, or that from which a look upwards is taken, requests.
    fn level_without_look(&self) -> f64 {
        if self.mode == Mode::Up { self.reference.level } else { self.level }
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{Costs, Counted, PerClass, Span},
        *,
    };
    use crate::limit::{LimitBounds, Limiter};

    fn departed(count: f64, seconds: f64) -> Span {
        Span { departed: PerClass::all(count, 1), seconds }
    }

    /// A search has ended before a server of 100/s.
    fn found(first: Span) -> KneeTrack {
        let mut knee = KneeTrack::new(LimitBounds { initial: 20, min: 1, max: 1000 });
        knee.make_place(0);
        knee.costs = Some(Costs::new(PerClass::all(0.01, 1), 1));
        knee.counted = Counted::of(first);
        knee.counted.hold(knee.saturated_rho(), knee.error());
        (knee.mode, knee.level) = (Mode::Base, 7.0);
        knee
    }

    #[test]
    fn what_is_promised_goes_by_all_that_is_counted_and_what_is_told_waits_until_chance_is_excluded() {
        let mut knee = found(departed(27.0, 0.26));
        let second = departed(100.0, 1.0);
        knee.counted.add(&second.departed, second.seconds);
        assert!((knee.capacity().unwrap() - 27.0 / 0.26).abs() < 1e-9);
        let counted = 127.0 / 1.26;
        // The short queue holds what it is to hold.
        assert!((knee.pace(28.0, 0.1, true).may_come_per_s - counted).abs() < 1e-9);
        let mut limiter = Limiter::KneeTrack(Box::new(knee));
        assert!((limiter.promised(true).unwrap() - counted).abs() < 1e-9);
    }

    #[test]
    fn the_short_queue_holds_no_more_for_a_look_upwards() {
        let mut knee = found(departed(1000.0, 10.0));
        knee.reference.level = knee.level;
        (knee.mode, knee.level) = (Mode::Up, 11.0);
        let pace = knee.pace(40.0, 0.1, true);
        assert!((pace.standing - 12.0).abs() < 1e-9, "{pace:?}");
    }
}
