//! DAGOR: a threshold of business and user priority that follows the queueing time.
//!
//! Source: Zhou et al., "Overload control for scaling WeChat microservices", SoCC 2018, section 4;
//! constants as given there (4.1 and 4.2.3).
//!
//! ```text
//! level(request) = (B, U)          B: business priority; U: user priority, a hash of the user, 0..=127
//! admitted       = level <= level*
//! each window (1 s or 2000 requests, whichever is first):
//!   overloaded   = mean queueing time > 20 ms
//!   N_exp        = (1 - 0.05) N_admitted          if overloaded
//!                  N_admitted + 0.01 N            otherwise
//!   level*       = the last level up to which N_exp requests of the window lie
//! ```
//!
//! Deviations:
//!
//! 1. Business priority is the class's priority, 7 being the most important.
//! 2. The hash of the user does not change every hour: runs are shorter.
//! 3. There is one hop, so nothing upstream learns the level and sheds early (4.2.4).

use std::time::Duration;

use tidegate_control::{Timestamp, knobs::Kind};
use tidegate_sim::{Done, Front, Levels, Request, Verdict};

use super::{Constant, Constants, SPAN, ratio};

pub(super) const CONSTANTS: &[Constant] = &[
    Constant {
        name: "threshold",
        kind: SPAN,
        doc: "Mean queueing time over which the server counts as overloaded; 20 ms.",
    },
    Constant { name: "window", kind: SPAN, doc: "Longest window; 1 s." },
    Constant {
        name: "window_requests",
        kind: Kind::Count { min: 1, max: 1_000_000 },
        doc: "A window ends after so many requests; 2000.",
    },
    Constant {
        name: "alpha",
        kind: ratio(0.0, 0.99),
        doc: "Share by which the admitted are cut when overloaded; 0.05.",
    },
    Constant {
        name: "beta",
        kind: ratio(0.0, 1.0),
        doc: "Share of the arrived by which the admitted grow otherwise; 0.01.",
    },
];

/// User priorities (4.2.2).
const USERS: usize = 128;
const LEVELS: usize = 8 * USERS;

/// The law at one server.
#[derive(Clone, Debug)]
pub struct Dagor {
    threshold: Duration,
    window: Duration,
    window_requests: u64,
    alpha: f64,
    beta: f64,
    /// The last level admitted.
    level: usize,
    /// The window's requests by level.
    histogram: Box<[u64; LEVELS]>,
    arrived: u64,
    admitted: u64,
    queued: Duration,
    begun: u32,
    window_ends: Option<Timestamp>,
    in_flight: u64,
}

impl Dagor {
    /// With the published constants where none are set.
    #[must_use]
    pub fn new(constants: &Constants) -> Self {
        Self {
            threshold: constants.span("threshold", Duration::from_millis(20)),
            window: constants.span("window", Duration::from_secs(1)),
            window_requests: constants.count("window_requests", 2000),
            alpha: constants.ratio("alpha", 0.05),
            beta: constants.ratio("beta", 0.01),
            level: LEVELS - 1,
            histogram: Box::new([0; LEVELS]),
            arrived: 0,
            admitted: 0,
            queued: Duration::ZERO,
            begun: 0,
            window_ends: None,
            in_flight: 0,
        }
    }

    fn end_window(&mut self, now: Timestamp) {
        let overloaded = self.begun > 0 && self.queued / self.begun > self.threshold;
        #[expect(clippy::cast_precision_loss, reason = "counts of one window")]
        let (arrived, admitted) = (self.arrived as f64, self.admitted as f64);
        let expected =
            if overloaded { (1.0 - self.alpha) * admitted } else { admitted + self.beta * arrived };
        self.level = level_of(&self.histogram, expected);
        self.histogram.fill(0);
        (self.arrived, self.admitted, self.queued, self.begun) = (0, 0, Duration::ZERO, 0);
        self.window_ends = Some(now + self.window);
    }
}

/// The last level such that at most `expected` requests lie up to it; the first is always admitted, or
/// nothing would ever tell that the overload is over.
#[expect(clippy::cast_precision_loss, reason = "counts of one window")]
fn level_of(histogram: &[u64; LEVELS], expected: f64) -> usize {
    let mut prefix = 0.0;
    for (level, count) in histogram.iter().enumerate() {
        prefix += *count as f64;
        if prefix > expected {
            return level.saturating_sub(1);
        }
    }
    LEVELS - 1
}

/// Position in the order of importance, 0 the most important.
fn level(request: &Request) -> usize {
    let business = 7 - usize::from(request.priority.min(7));
    // Fibonacci hashing: the upper bits of the product are well mixed.
    let user = request.client.wrapping_mul(0x9e37_79b1) >> 25;
    business * USERS + user as usize
}

impl Front for Dagor {
    fn arrive(&mut self, now: Timestamp, request: &Request) -> Verdict {
        self.advance(now);
        if self.window_ends.is_none() {
            self.window_ends = Some(now + self.window);
        }
        let level = level(request);
        self.histogram[level] += 1;
        self.arrived += 1;
        let verdict = if level <= self.level {
            self.admitted += 1;
            self.in_flight += 1;
            Verdict::Start
        } else {
            Verdict::Refuse("admission_level")
        };
        if self.arrived >= self.window_requests {
            self.end_window(now);
        }
        verdict
    }

    fn begun(&mut self, _now: Timestamp, _request: &Request, queued: Duration) {
        self.queued += queued;
        self.begun += 1;
    }

    fn depart(&mut self, _now: Timestamp, _request: &Request, _done: &Done) {
        self.in_flight -= 1;
    }

    fn next_timeout(&self) -> Option<Timestamp> {
        self.window_ends
    }

    fn advance(&mut self, now: Timestamp) {
        if self.window_ends.is_some_and(|ends| ends <= now) {
            self.end_window(now);
        }
    }

    fn levels(&self) -> Levels {
        #[expect(clippy::cast_precision_loss, reason = "at most 1024")]
        Levels { in_flight: self.in_flight, limit: Some(self.level as f64), queued: 0, ..Levels::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_level_cuts_the_histogram_at_what_is_expected() {
        let mut histogram = [0; LEVELS];
        (histogram[0], histogram[5], histogram[9]) = (10, 10, 10);
        // 95 % of 20 admitted: the second ten do not fit whole.
        assert_eq!(level_of(&histogram, 19.0), 4);
        assert_eq!(level_of(&histogram, 20.0), 8);
        assert_eq!(level_of(&histogram, 30.0), LEVELS - 1);
        assert_eq!(level_of(&histogram, 0.0), 0, "the most important level stays");
    }

    #[test]
    fn a_window_of_long_queueing_lowers_the_level_and_a_quiet_one_raises_it() {
        let mut dagor = Dagor::new(&Constants::default());
        let at = |ms: u64| Timestamp::from_nanos(1_000_000_000_000 + ms * 1_000_000);
        let request = |client| crate::baselines::testing::request(client, at(0));
        for client in 0..1000 {
            assert_eq!(dagor.arrive(at(0), &request(client)), Verdict::Start);
            dagor.begun(at(1), &request(client), Duration::from_millis(50));
        }
        dagor.advance(at(1000));
        let after = dagor.level;
        assert!(after < LEVELS - 1, "{after}");
        let admitted =
            (0..1000).filter(|client| dagor.arrive(at(1001), &request(*client)) == Verdict::Start).count();
        // 95 % of the admitted, to the grain of a level's users.
        assert!((930..=950).contains(&admitted), "{admitted}");
        dagor.advance(at(2000));
        assert!(dagor.level >= after, "nothing queued: one per cent more");
    }
}
