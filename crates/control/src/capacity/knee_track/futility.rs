//! Futility: a limit at which hardly anybody is served, since clients give up before the server is done.
//!
//! The server works for those who have given up, too, and is ever further behind with the others. So a limit is *futile* where what
//! is in flight for over 0.4 s ends well for fewer than a quarter, of a limit's worth or 8 that have ended. By Little's law each is
//! in flight for the sum over time, over those that have ended.
//!
//! Once the response time without a queue is known, it has to be half longer than that, too: else a lower limit helps nobody.
//!
//! Where not a single one has ended well of two limits' worth that began since the limit was last lowered, 16 at least, for 0.2 s each, the limit
//! is futile whatever is known of the response time, also while nothing has settled and while nothing seems to wait: there is nothing
//! to lose, and what is known may be of a queue.
//!
//! The first search goes back by halves then, and waits from there on. Once the knee is known, the limit becomes that of a
//! full low probe ([`super::low`]), by halves again as long as that is futile, too. A permit is held for no less than the response
//! time without a queue, also where its client has left, so that six tenths of the capacity come at most and the server catches up.
//! The probe ends once enough ends well, also at the lowest limit, where it goes on however few that are: so times that have
//! become longer are found out. Without it an up probe, which waits for eight replies, would never end.

use super::{Block, KneeTrack, Mode, TICK, bursts::Bursts};

/// Seconds in flight, and which share of what has ended, has ended well.
const FUTILE_S: f64 = 0.4;
const FUTILE: f64 = 0.25;
/// And of the response time without a queue: who does not wait as long as that is served at no limit.
const QUEUED: f64 = 1.5;
/// Of how many, at least, it is judged.
const ENDED_MIN: f64 = 8.0;
/// Nobody is served of so many limits' worth, of so many at least, in flight for so long, seconds: less than what is not
/// [dormant](crate::admission) yet.
const UNANSWERED_TURNS: f64 = 2.0;
const UNANSWERED_MIN: f64 = 16.0;
const UNANSWERED_S: f64 = 0.2;

/// What has ended since some moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Ended {
    /// Requests in flight at its beginning, once that is known.
    before: Option<f64>,
    pub(super) started: f64,
    /// How many have ended well.
    pub(super) replied: f64,
    /// Requests in flight over time.
    in_flight_s: f64,
}

impl Ended {
    /// A tick with so many in flight; how many have ended.
    fn tick(&mut self, in_flight: f64) -> f64 {
        let before = *self.before.get_or_insert(in_flight);
        self.in_flight_s += in_flight * TICK;
        self.started + before - in_flight
    }

    /// Whether nobody at all is served at this limit, where none has ended well since the beginning; those in flight then do not count.
    fn is_everybody(&mut self, level: f64, in_flight: f64) -> bool {
        let ended = self.tick(in_flight);
        self.started - in_flight >= (UNANSWERED_TURNS * level).max(UNANSWERED_MIN)
            && self.in_flight_s > UNANSWERED_S * ended
    }
}

impl KneeTrack {
    /// Every tick: whether the limit that was found, or a probe's, has just turned out to be futile, and is lower now.
    pub(super) fn leave_futile(&mut self, t: f64, in_flight: f64) -> bool {
        if self.unanswered.is_everybody(self.level, in_flight) && self.level > self.level_min() {
            self.unanswered = Ended::default();
            self.ended = Ended::default();
            self.retreat(t);
            return true;
        }
        if self.costs.is_none() || self.settling.is_some() {
            self.ended = Ended::default();
            return false;
        }
        let ended = self.ended.tick(in_flight);
        if ended < self.level.max(ENDED_MIN) {
            return false;
        }
        let Ended { replied, in_flight_s, .. } = std::mem::take(&mut self.ended);
        let is_lowest = self.mode == Mode::Low && self.level <= self.level_min();
        let is_queued = in_flight_s > QUEUED * self.mean_unqueued() * ended;
        let is_futile = !is_lowest && is_queued && serves_nobody(ended, in_flight_s, replied);
        if is_futile {
            self.retreat(t);
        }
        is_futile
    }

    /// From a limit that is futile to one that may not be.
    fn retreat(&mut self, t: f64) {
        if self.costs.is_none() {
            self.turn_back(t);
        } else if self.mode == Mode::Low {
            self.set_level(self.level / 2.0);
            self.begin(Mode::Low, t);
        } else {
            if self.mode == Mode::Up {
                self.rest_from_up(t);
            }
            self.go_low(t, 3);
        }
    }

    /// Whether the first search serves hardly anybody: what it lets in stays long and ends badly. By Little's law each
    /// is in flight for the limit, over starts a second.
    pub(super) fn is_futile(&self, seconds: f64) -> bool {
        let Block { started, area, .. } = self.block;
        self.costs.is_none()
            && self.level > 1.0
            && started >= self.level.max(ENDED_MIN)
            && serves_nobody(started, self.level * seconds, area.departed.sum())
    }

    /// The same while nothing waits: of those who have given up room is made, and nobody sees that the server works for them still.
    pub(super) fn look_for_futility(&mut self, t: f64, in_flight: f64) {
        if self.mode != Mode::Start || self.costs.is_some() {
            return;
        }
        let before = *self.block.before.get_or_insert(in_flight);
        let Block { started, area, .. } = self.block;
        // What is in flight still, as a long poll is, may end well.
        let ended = started + before - in_flight;
        if ended < self.level.max(ENDED_MIN) {
            return;
        }
        let is_futile = serves_nobody(ended, area.in_flight_s.sum(), area.departed.sum());
        self.zero(t);
        if is_futile && self.level > 1.0 {
            self.turn_back(t);
        }
    }

    /// The first search has gone too far: back to half, and it waits from now on, and looks below.
    pub(super) fn turn_back(&mut self, t: f64) {
        self.patience = f64::INFINITY;
        self.bursts = Bursts::default();
        self.steps.clear();
        self.set_level(self.level / 2.0);
        self.begin(Mode::Start, t);
    }
}

/// Whether what has ended was in flight for long, and too little of it ended well.
fn serves_nobody(ended: f64, in_flight_s: f64, replied: f64) -> bool {
    in_flight_s > FUTILE_S * ended && replied < FUTILE * ended
}

#[cfg(test)]
mod tests {
    use super::{
        super::{Area, costs::Costs},
        *,
    };
    use crate::{capacity::per_class::PerClass, limit::LimitBounds};

    /// Before a server whose requests take so long without a queue: whether a second in flight each, of which one in ten ends well,
    /// lowers the limit.
    fn is_left(unqueued_s: f64) -> bool {
        let mut knee = KneeTrack::new(LimitBounds { initial: 20, min: 1, max: 1000 });
        knee.costs = Some(Costs::new(PerClass::all(0.01, 1), 1));
        knee.low =
            Area { departed: PerClass::all(100.0, 1), in_flight_s: PerClass::all(100.0 * unqueued_s, 1) };
        (knee.mode, knee.settling, knee.level) = (Mode::Base, None, 20.0);
        knee.ended = Ended { before: Some(20.0), started: 40.0, replied: 4.0, in_flight_s: 40.0 };
        let is_left = knee.leave_futile(1.0, 20.0);
        assert_eq!(knee.level < 20.0, is_left);
        is_left
    }

    #[test]
    fn a_limit_is_left_only_where_a_lower_one_helps() {
        assert!(is_left(0.3), "who is there after a second has waited at the server for most of it");
        assert!(!is_left(0.9), "a second is what it takes");
    }
}
