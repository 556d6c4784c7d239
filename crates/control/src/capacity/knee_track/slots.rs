//! Slots: how many places a second the waiting room may promise.
//!
//! Between the room and the server stands the short queue; the room lets it hold up to a quarter of a second's work (and
//! at least four limits, enough to fill a probe):
//!
//! ```text
//! target = max(c/4, 4·L)     rate = c · boost · (1 + clamp((target − queued)/c, −0.7, e))
//! ```
//!
//! `L` is the limit; before anything is known `c/4` at most, since it may be far above the knee then. `e` is the estimate's relative
//! standard error, 0.5 at most and before anything is known: by one that is too low the short queue would run empty, and of a
//! server that is not full nothing is counted.
//!
//! `c` is the capacity; while less than a limit's worth is queued, at least the rate that departs now, which is
//! served without a queue and so is proof of that much. While it is so although the room makes newcomers wait, `boost` grows,
//! by 30 % a second up to 3 (while nothing is known by 100 % up to 50); else it shrinks, twice as fast as time passes.
//! Without it a room that obeys the estimate starves the search: an estimate too low would feed itself. While the short queue
//! holds enough nothing comes above the capacity: whoever came would overtake all who have a time.
//! A ceiling of the capacity bounds it all, one that is given above all.

use super::{super::Pace, KneeTrack};

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
        let mut capacity = if known { self.capacity().unwrap_or(0.0) } else { self.rate };
        // A limit that is still searched for may be far above the knee: it counts for a quarter of a second's work at most.
        let level = if known { self.level } else { self.level.min(capacity.max(RATE_MIN) / 4.0) };
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
}
