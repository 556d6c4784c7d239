//! The admission control of a self-managed application server: every resumed TLS connection, and new ones while
//! processors are left.
//!
//! Source: Guitart, Carrera, Beltran, Torres & Ayguadé, "Dynamic CPU Provisioning for Self-Managed Secure Web
//! Applications in SMP Hosting Platforms", Computer Networks 52, 2008, sections 3.2.1 and 3.2.2, equations 2 to 5.
//!
//! ```text
//! Ô(k)  = a · Ô(k-1) + (1-a) · O(k-1),   a = 0.7;   Ô(2) = O(1)     resumed connections that come in interval k
//! AN(k) = (T · A(k) - Ô(k) · CTO) / CTN,   T = 2 s                  new ones that are let in
//! ```
//!
//! `CTO` and `CTN` are processor seconds of a resumed and a new connection, its handshake and all requests on it, profiled
//! beforehand; `A` are the application's processors. Deviations:
//!
//! 1. In the first interval, before anything is known, everyone is let in. The paper does not say.
//! 2. A part of a connection is carried over to the next interval: cut off, it would let nobody in where there is little.
//! 3. A negative `AN` lets in none.

use std::time::Duration;

use tidegate_control::Timestamp;
use tidegate_sim::{Front, Hello, Levels, Request, Verdict};

use super::{Assigned, Constant, Constants, SPAN, Surroundings, ratio};

pub(super) const CONSTANTS: &[Constant] = &[
    Constant { name: "interval", kind: SPAN, doc: "T, the time from one reckoning to the next; 2 s." },
    Constant {
        name: "smoothing",
        kind: ratio(0.0, 0.999),
        doc: "Weight of the past in the prediction; 0.7.",
    },
];

/// The admission control of one application.
#[derive(Clone, Debug)]
pub struct Eac {
    interval: Duration,
    smoothing: f64,
    processors: Assigned,
    resumed_s: f64,
    new_s: f64,
    /// Resumed connections in this interval, and as many as are predicted for one.
    resumed: f64,
    predicted: Option<f64>,
    /// AN, and what is left of it in this interval; `None`: no matter how many.
    limit: Option<f64>,
    left: f64,
    next: Option<Timestamp>,
    in_flight: u64,
}

impl Eac {
    /// With the published constants where none are set.
    ///
    /// # Panics
    ///
    /// Where connections cost nothing known: there is no TLS.
    #[must_use]
    pub fn new(constants: &Constants, surroundings: &Surroundings) -> Self {
        let costs = surroundings.connections.expect("an experiment with eac has TLS");
        Self {
            interval: constants.span("interval", Duration::from_secs(2)),
            smoothing: constants.ratio("smoothing", 0.7),
            processors: surroundings.processors.clone(),
            resumed_s: costs.resumed_s,
            new_s: costs.new_s,
            resumed: 0.0,
            predicted: None,
            limit: None,
            left: 0.0,
            next: None,
            in_flight: 0,
        }
    }

    fn reckon(&mut self) {
        let came = std::mem::take(&mut self.resumed);
        let predicted =
            self.predicted.map_or(came, |before| self.smoothing * before + (1.0 - self.smoothing) * came);
        let free_s = self.interval.as_secs_f64() * self.processors.get() - predicted * self.resumed_s;
        let limit = (free_s / self.new_s).max(0.0);
        self.predicted = Some(predicted);
        self.left = self.left.fract() + limit;
        self.limit = Some(limit);
    }
}

impl Front for Eac {
    fn connect(&mut self, now: Timestamp, request: &Request) -> bool {
        self.advance(now);
        match request.hello {
            Hello::Open => true,
            Hello::Resumed => {
                self.resumed += 1.0;
                true
            }
            Hello::New if self.limit.is_none() => true,
            Hello::New if self.left >= 1.0 => {
                self.left -= 1.0;
                true
            }
            Hello::New => false,
        }
    }

    fn arrive(&mut self, _now: Timestamp, _request: &Request) -> Verdict {
        self.in_flight += 1;
        Verdict::Start
    }

    fn depart(&mut self, _now: Timestamp, _request: &Request, _done: &tidegate_sim::Done) {
        self.in_flight -= 1;
    }

    fn next_timeout(&self) -> Option<Timestamp> {
        self.next
    }

    fn advance(&mut self, now: Timestamp) {
        let next = *self.next.get_or_insert(now + self.interval);
        if next <= now {
            self.next = Some(next + self.interval);
            self.reckon();
        }
    }

    fn levels(&self) -> Levels {
        Levels { in_flight: self.in_flight, limit: self.limit, ..Levels::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        baselines::testing::{request, surroundings},
        site::ConnectionCosts,
    };

    const SECOND: Duration = Duration::from_secs(1);

    fn eac() -> Eac {
        let connections = Some(ConnectionCosts { new_s: 0.5, resumed_s: 0.1 });
        let processors = Assigned::new(4.0);
        Eac::new(&Constants::default(), &Surroundings { processors, connections, ..surroundings() })
    }

    /// So many connections of a kind; how many of them are let in.
    fn admitted(eac: &mut Eac, now: Timestamp, hello: Hello, count: u32) -> usize {
        (0..count).filter(|client| eac.connect(now, &Request { hello, ..request(*client, now) })).count()
    }

    #[test]
    fn new_ones_are_let_in_by_the_equation() {
        let start = Timestamp::from_nanos(1_000_000_000_000);
        let mut eac = eac();
        // Nothing is known: all are.
        assert_eq!(admitted(&mut eac, start, Hello::New, 100), 100);
        assert_eq!(admitted(&mut eac, start + SECOND, Hello::Resumed, 20), 20);
        // (2 · 4 - 20 · 0.1) / 0.5.
        assert_eq!(admitted(&mut eac, start + 2 * SECOND, Hello::New, 100), 12);
        // Next: 0.7 · 20 + 0.3 · 0 = 14 are predicted, (8 - 1.4) / 0.5 = 13.2; then (8 - 0.98) / 0.5 = 14.04, and
        // (8 - 0.686) / 0.5 = 14.628: with the parts left of those before 14.868, and (8 - 0.4802) / 0.5 = 15.0396 more.
        for (after, count) in [(4, 13), (6, 14), (8, 14), (10, 15)] {
            assert_eq!(admitted(&mut eac, start + after * SECOND, Hello::New, 100), count, "after {after} s");
        }
    }

    #[test]
    fn whoever_resumes_is_let_in_and_takes_the_place_of_new_ones() {
        let start = Timestamp::from_nanos(1_000_000_000_000);
        let mut eac = eac();
        assert_eq!(admitted(&mut eac, start, Hello::Resumed, 200), 200);
        assert_eq!(admitted(&mut eac, start + 2 * SECOND, Hello::New, 100), 0);
        assert_eq!(admitted(&mut eac, start + 2 * SECOND, Hello::Resumed, 10), 10);
    }
}
