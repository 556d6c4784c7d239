//! A proportional-integral controller of the queueing delay: PIE, with its chance of refusal.
//!
//! Source: Pan et al., RFC 8033, "Proportional Integral controller Enhanced (PIE)", 2017, sections 4 and
//! 5 and appendix A; constants as given there.
//!
//! ```text
//! every 15 ms:
//!   p += k (0.125 (delay - target) + 1.25 (delay - delay before))      in seconds; k by p: section 4.2
//!   p *= 0.98                       while there is no delay
//! refused with chance p, unless a burst of 150 ms is not used up, or delay before < target / 2 and p < 0.2,
//! or fewer than two requests wait
//! ```
//!
//! Deviations:
//!
//! 1. The target, 15 ms for packets, is five times the mean work of a request unless set: a delay below
//!    one service time cannot be kept.
//! 2. The delay is how long the oldest that waits has waited (section 5.2's time stamps), not the
//!    queue's length over an estimated rate.
//! 3. Neither explicit congestion marks (5.1) nor derandomisation (5.4).

use std::{collections::BTreeMap, time::Duration};

use tidegate_control::Timestamp;
use tidegate_sim::{Done, Front, Levels, Random, Request, Verdict};

use super::{Constant, Constants, SPAN, Surroundings, ratio};

pub(super) const CONSTANTS: &[Constant] = &[
    Constant {
        name: "target",
        kind: SPAN,
        doc: "The delay to be kept; 15 ms for packets, here five times the mean work.",
    },
    Constant { name: "interval", kind: SPAN, doc: "Time between updates; 15 ms." },
    Constant { name: "alpha", kind: ratio(0.0, 1000.0), doc: "Weight of the deviation, 1/s; 0.125." },
    Constant { name: "beta", kind: ratio(0.0, 1000.0), doc: "Weight of the trend, 1/s; 1.25." },
    Constant { name: "burst", kind: SPAN, doc: "Burst allowed without refusals; 150 ms." },
];

/// The controller of one queue.
#[derive(Clone, Debug)]
pub struct Pie {
    target_s: f64,
    interval: Duration,
    alpha: f64,
    beta: f64,
    burst_max: Duration,
    /// The chance of refusal.
    chance: f64,
    delay_before_s: f64,
    burst: Duration,
    update_at: Option<Timestamp>,
    /// Sent on and not begun, by id, with their start.
    waiting: BTreeMap<u64, Timestamp>,
    in_flight: u64,
    random: Random,
}

impl Pie {
    /// With the published constants where none are set.
    #[must_use]
    pub fn new(constants: &Constants, surroundings: &Surroundings) -> Self {
        let burst = constants.span("burst", Duration::from_millis(150));
        Self {
            target_s: constants.span("target", surroundings.work * 5).as_secs_f64(),
            interval: constants.span("interval", Duration::from_millis(15)),
            alpha: constants.ratio("alpha", 0.125),
            beta: constants.ratio("beta", 1.25),
            burst_max: burst,
            chance: 0.0,
            delay_before_s: 0.0,
            burst,
            update_at: None,
            waiting: BTreeMap::new(),
            in_flight: 0,
            random: Random::new(surroundings.seed, "pie"),
        }
    }

    fn delay_s(&self, now: Timestamp) -> f64 {
        self.waiting.first_key_value().map_or(0.0, |(_, since)| now.since(*since).as_secs_f64())
    }

    fn update(&mut self, now: Timestamp) {
        let delay = self.delay_s(now);
        let step = self.alpha * (delay - self.target_s) + self.beta * (delay - self.delay_before_s);
        let mut step = scale(self.chance) * step;
        // Section 5.5: not more than 2 % at once where the chance is high already.
        if self.chance >= 0.1 && step > 0.02 {
            step = 0.02;
        }
        self.chance = (self.chance + step).clamp(0.0, 1.0);
        if delay <= 0.0 && self.delay_before_s <= 0.0 {
            self.chance *= 0.98;
        }
        self.burst = self.burst.saturating_sub(self.interval);
        let half = self.target_s / 2.0;
        if self.chance == 0.0 && delay < half && self.delay_before_s < half {
            self.burst = self.burst_max;
        }
        self.delay_before_s = delay;
        self.update_at = Some(now + self.interval);
    }
}

/// Section 4.2: small steps while the chance is small.
fn scale(chance: f64) -> f64 {
    match chance {
        p if p < 0.000_001 => 1.0 / 2048.0,
        p if p < 0.000_01 => 1.0 / 512.0,
        p if p < 0.000_1 => 1.0 / 128.0,
        p if p < 0.001 => 1.0 / 32.0,
        p if p < 0.01 => 1.0 / 8.0,
        p if p < 0.1 => 1.0 / 2.0,
        _ => 1.0,
    }
}

impl Front for Pie {
    fn arrive(&mut self, now: Timestamp, request: &Request) -> Verdict {
        self.advance(now);
        if self.update_at.is_none() {
            self.update_at = Some(now + self.interval);
        }
        let spared = !self.burst.is_zero()
            || (self.delay_before_s < self.target_s / 2.0 && self.chance < 0.2)
            || self.waiting.len() <= 2;
        if !spared && self.random.chance(self.chance) {
            return Verdict::Refuse("chance");
        }
        self.waiting.insert(request.id, now);
        self.in_flight += 1;
        Verdict::Start
    }

    fn begun(&mut self, _now: Timestamp, request: &Request, _queued: Duration) {
        self.waiting.remove(&request.id);
    }

    fn depart(&mut self, _now: Timestamp, request: &Request, _done: &Done) {
        self.waiting.remove(&request.id);
        self.in_flight -= 1;
    }

    fn next_timeout(&self) -> Option<Timestamp> {
        self.update_at
    }

    fn advance(&mut self, now: Timestamp) {
        if self.update_at.is_some_and(|at| at <= now) {
            self.update(now);
        }
    }

    fn levels(&self) -> Levels {
        Levels { in_flight: self.in_flight, limit: Some(self.chance), queued: 0, ..Levels::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::baselines::testing::{request, surroundings};

    #[test]
    fn one_update_by_hand() {
        let start = Timestamp::from_nanos(1_000_000_000_000);
        let mut pie = Pie::new(&Constants::default(), &surroundings());
        pie.chance = 0.5;
        pie.delay_before_s = 0.08;
        let _ = pie.arrive(start, &request(1, start));
        // The oldest has waited 100 ms, the target is 5 · 10 ms: 0.125 · 0.05 + 1.25 · 0.02 = 0.03125, cut to 0.02.
        pie.update(start + Duration::from_millis(100));
        assert!((pie.chance - 0.52).abs() < 1e-9, "{}", pie.chance);
        // Nothing waits: 0.125 · (-0.05) + 1.25 · (-0.1) = -0.13125.
        pie.waiting.clear();
        pie.update(start + Duration::from_millis(115));
        assert!((pie.chance - 0.388_75).abs() < 1e-9, "{}", pie.chance);
    }

    #[test]
    fn a_burst_and_a_short_queue_are_spared() {
        let start = Timestamp::from_nanos(1_000_000_000_000);
        let mut pie = Pie::new(&Constants::default(), &surroundings());
        pie.chance = 1.0;
        for client in 0..5 {
            assert_eq!(pie.arrive(start, &request(client, start)), Verdict::Start, "within the burst");
        }
        pie.burst = Duration::ZERO;
        assert_eq!(pie.arrive(start, &request(9, start)), Verdict::Refuse("chance"));
        pie.waiting.clear();
        assert_eq!(pie.arrive(start, &request(10, start)), Verdict::Start, "fewer than two wait");
    }
}
