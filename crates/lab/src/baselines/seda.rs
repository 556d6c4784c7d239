//! SEDA's stage controller: a token bucket whose rate follows the 90th percentile of response times.
//!
//! Source: Welsh & Culler, "Adaptive overload control for busy Internet servers", USITS 2003, section
//! 3.2 and its table of parameters.
//!
//! ```text
//! each 100 requests, or 1 s:
//!   cur  = 0.7 cur + 0.3 p90                          (of the requests completed)
//!   err  = (cur - target) / target
//!   rate = rate / 1.2                     if err > 0.0
//!          rate - 2.0 (err - (-0.1))      if err < -0.5
//!   0.05 <= rate <= 5000
//! ```
//!
//! The target is the operator's; 1 s unless set. Deviations:
//!
//! 1. The bucket holds 10 tokens and the rate begins at 10/s, as in the authors' program; the paper
//!    does not say.
//! 2. What finds no token is refused at once. The paper leaves it to the stage before.

use std::time::Duration;

use tidegate_control::{Timestamp, knobs::Kind};
use tidegate_sim::{Done, Front, Levels, Request, Verdict};

use super::{Constant, Constants, SPAN, ratio};

pub(super) const CONSTANTS: &[Constant] = &[
    Constant {
        name: "target",
        kind: SPAN,
        doc: "Target of the 90th percentile of response time; the operator's, 1 s.",
    },
    Constant {
        name: "window_requests",
        kind: Kind::Count { min: 1, max: 100_000 },
        doc: "Requests between adjustments; 100.",
    },
    Constant { name: "window", kind: SPAN, doc: "Longest time between adjustments; 1 s." },
    Constant {
        name: "smoothing",
        kind: ratio(0.0, 0.999),
        doc: "Weight of the past in the moving average; 0.7.",
    },
    Constant {
        name: "error_increase",
        kind: ratio(-1.0, 0.0),
        doc: "Error below which the rate grows; -0.5.",
    },
    Constant { name: "error_decrease", kind: ratio(0.0, 10.0), doc: "Error above which it shrinks; 0.0." },
    Constant { name: "increase", kind: ratio(0.0, 1e6), doc: "Additive growth; 2.0." },
    Constant { name: "increase_weight", kind: ratio(-1.0, 0.0), doc: "Weight on the growth; -0.1." },
    Constant { name: "decrease", kind: ratio(1.0, 100.0), doc: "Divisor when it shrinks; 1.2." },
    Constant { name: "rate_start", kind: ratio(0.05, 1e6), doc: "Rate at the start; 10." },
];

const RATE_MIN: f64 = 0.05;
const RATE_MAX: f64 = 5000.0;
const BURST: f64 = 10.0;

/// The controller of one stage.
#[derive(Clone, Debug)]
pub struct Seda {
    target_s: f64,
    window_requests: usize,
    window: Duration,
    smoothing: f64,
    error_increase: f64,
    error_decrease: f64,
    increase: f64,
    increase_weight: f64,
    decrease: f64,
    rate: f64,
    tokens: f64,
    filled: Option<Timestamp>,
    /// Response times of the window, in seconds.
    times: Vec<f64>,
    /// The moving average of their 90th percentile.
    current_s: f64,
    adjust_at: Option<Timestamp>,
    in_flight: u64,
}

impl Seda {
    /// With the published constants where none are set.
    #[must_use]
    pub fn new(constants: &Constants) -> Self {
        Self {
            target_s: constants.span("target", Duration::from_secs(1)).as_secs_f64(),
            window_requests: usize::try_from(constants.count("window_requests", 100)).unwrap_or(100),
            window: constants.span("window", Duration::from_secs(1)),
            smoothing: constants.ratio("smoothing", 0.7),
            error_increase: constants.ratio("error_increase", -0.5),
            error_decrease: constants.ratio("error_decrease", 0.0),
            increase: constants.ratio("increase", 2.0),
            increase_weight: constants.ratio("increase_weight", -0.1),
            decrease: constants.ratio("decrease", 1.2),
            rate: constants.ratio("rate_start", 10.0).min(RATE_MAX),
            tokens: BURST,
            filled: None,
            times: Vec::new(),
            current_s: 0.0,
            adjust_at: None,
            in_flight: 0,
        }
    }

    fn adjust(&mut self, now: Timestamp) {
        self.adjust_at = Some(now + self.window);
        // Without a completion there is nothing to go by.
        if self.times.is_empty() {
            return;
        }
        self.times.sort_by(f64::total_cmp);
        let sample = self.times[(self.times.len() * 9 / 10).min(self.times.len() - 1)];
        self.times.clear();
        self.current_s = self.smoothing * self.current_s + (1.0 - self.smoothing) * sample;
        let error = (self.current_s - self.target_s) / self.target_s;
        if error > self.error_decrease {
            self.rate /= self.decrease;
        } else if error < self.error_increase {
            self.rate -= (error - self.increase_weight) * self.increase;
        }
        self.rate = self.rate.clamp(RATE_MIN, RATE_MAX);
    }

    fn fill(&mut self, now: Timestamp) {
        let passed = self.filled.map_or(0.0, |filled| now.since(filled).as_secs_f64());
        self.tokens = (self.tokens + passed * self.rate).min(BURST);
        self.filled = Some(now);
    }
}

impl Front for Seda {
    fn arrive(&mut self, now: Timestamp, _request: &Request) -> Verdict {
        self.advance(now);
        if self.adjust_at.is_none() {
            self.adjust_at = Some(now + self.window);
        }
        self.fill(now);
        if self.tokens < 1.0 {
            return Verdict::Refuse("rate");
        }
        self.tokens -= 1.0;
        self.in_flight += 1;
        Verdict::Start
    }

    fn depart(&mut self, now: Timestamp, _request: &Request, done: &Done) {
        self.in_flight -= 1;
        self.times.push(done.service_time.as_secs_f64());
        if self.times.len() >= self.window_requests {
            self.fill(now);
            self.adjust(now);
        }
    }

    fn next_timeout(&self) -> Option<Timestamp> {
        self.adjust_at
    }

    fn advance(&mut self, now: Timestamp) {
        if self.adjust_at.is_some_and(|at| at <= now) {
            self.fill(now);
            self.adjust(now);
        }
    }

    fn levels(&self) -> Levels {
        Levels { in_flight: self.in_flight, limit: Some(self.rate), queued: 0, ..Levels::default() }
    }
}

#[cfg(test)]
mod tests {
    use tidegate_sim::End;

    use super::*;
    use crate::baselines::testing::request;

    fn after(seda: &mut Seda, response: Duration, at: Timestamp) -> f64 {
        for client in 0..100 {
            seda.in_flight += 1;
            let done =
                Done { end: End::Success, service_time: response, queued: Duration::ZERO, abandoned: false };
            seda.depart(at, &request(client, at), &done);
        }
        seda.rate
    }

    #[test]
    fn the_rate_follows_the_formulas_by_hand() {
        let now = Timestamp::from_nanos(1_000_000_000_000);
        let mut seda = Seda::new(&Constants::default());
        // All replies at once: cur 0, error -1, growth 2.0 · (1 - 0.1) = 1.8.
        assert!((after(&mut seda, Duration::ZERO, now) - 11.8).abs() < 1e-9);
        // p90 of 5 s: cur 0.3 · 5 = 1.5 s, error 0.5: divided by 1.2.
        assert!((after(&mut seda, Duration::from_secs(5), now) - 11.8 / 1.2).abs() < 1e-9);
        // Between the two bounds it stays: cur 0.7 · 1.5 + 0.3 · (-) … of 0.5 s is 1.2 s: still shrinking;
        // then 0.99 s: error -0.01.
        after(&mut seda, Duration::from_millis(500), now);
        let rate = seda.rate;
        assert!(
            (after(&mut seda, Duration::from_millis(500), now) - rate).abs() < 1e-9,
            "{}",
            seda.current_s
        );
    }

    #[test]
    fn what_finds_no_token_is_refused() {
        let now = Timestamp::from_nanos(1_000_000_000_000);
        let mut seda = Seda::new(&Constants::default());
        let started =
            (0..50).filter(|client| seda.arrive(now, &request(*client, now)) == Verdict::Start).count();
        assert_eq!(started, 10);
        let later = now + Duration::from_millis(500);
        let started =
            (0..50).filter(|client| seda.arrive(later, &request(*client, now)) == Verdict::Start).count();
        assert_eq!(started, 5, "ten a second for half a second");
    }
}
