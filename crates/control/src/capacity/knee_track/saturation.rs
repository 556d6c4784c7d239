//! Saturation: whether the server is as full as the limit makes it, and what is learnt where it is not.

use super::{KneeTrack, LOW, Mode, TICK};

/// For how much of a response time a server is still full after something last waited for it.
const STILL_FULL: f64 = 0.25;

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Saturation {
    pub(super) holds: bool,
    pub(super) since: f64,
    /// When the limit last kept something waiting.
    pub(super) last_held: f64,
    /// Since when little has been in flight, while it does not hold.
    pub(super) quiet_since: f64,
    /// Whether, since it held, half of the limit has been in flight all the while: what a search has settled is so still.
    pub(super) stays_busy: bool,
}

impl KneeTrack {
    /// Whether the server is as full as before although nothing waits any more: a place that becomes free where few ask is not
    /// taken at once. For a quarter of a response time, or of the time without a reply, as long as half of the limit is in flight.
    pub(super) fn is_still_full(&mut self, t: f64, in_flight: f64) -> bool {
        let Saturation { holds, since, last_held, .. } = self.saturation;
        if !holds {
            return false;
        }
        if t - last_held < 1.5 * TICK {
            self.end_burst(t, in_flight);
        }
        let response = self.response.max(t - self.last_reply.max(since));
        t - last_held < STILL_FULL * response && in_flight >= 0.5 * self.level
    }

    /// Below capacity: the limit stays, and low samples are free.
    pub(super) fn unsaturated(&mut self, t: f64, in_flight: f64) {
        if self.saturation.holds {
            self.interrupt(t);
            self.pause(t);
        }
        self.saturation.stays_busy &= in_flight >= 0.5 * self.level;
        self.look_for_burst(in_flight);
        self.look_for_futility(t, in_flight);
        let (Some(knee), true) = (self.knee, self.costs.is_some()) else { return };
        if in_flight > LOW * self.own_knee(knee) {
            self.saturation.quiet_since = t;
            self.zero(t);
        } else if t - self.saturation.quiet_since > 2.0 * self.response
            && self.block.area.departed.sum() > 20.0
        {
            // Longer than was known may be a queue, if the knee is less than it is taken for: what comes of that would have no end.
            if self.contradiction().is_none_or(|ratio| ratio < 1.0) {
                self.add_low(self.block.area);
            }
            self.zero(t);
        }
    }

    /// Saturation is over.
    pub(super) fn pause(&mut self, t: f64) {
        self.saturation.holds = false;
        self.is_full = false;
        self.saturation.quiet_since = t;
        // A search's goes on, unless the server empties.
        if self.mode != Mode::Start {
            self.settling = None;
        }
        self.zero(t);
        self.cusums.reset();
    }
}
