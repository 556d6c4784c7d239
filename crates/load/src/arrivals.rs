//! When requests are meant to start: open arrivals (constant or Poisson, over a schedule of
//! rates), closed loops, and the times of an access log.
//!
//! # Grammar
//!
//! ```text
//! arrivals = [ "constant:" | "poisson:" ] [ "repeat:" ] segment { "," segment }
//!          | "closed:" connections [ ":think=" duration ]
//!          | "trace:" file [ ":speed=" factor ]
//! segment  = rate [ ":" duration ]        the duration may be left out only in a lone segment
//! ```
//!
//! `60/s` is one request each 16.7 ms until the run ends; `60/s:30s,600/s:4s,3/s:32s` a schedule;
//! `poisson:repeat:600/s:2s,0/s:4s` on/off bursts; `trace:access.log:speed=2` an access log at twice
//! its pace ([`crate::plan`] reads the file).
//!
//! # Method
//!
//! Both processes come from time rescaling: with Λ(t) the integral of the rate, the constant
//! process arrives where Λ(t) = 0, 1, 2, …, and the Poisson process where Λ(t) is a sum of
//! independent exponentials of mean 1. So a change of rate needs no special case: a segment that
//! ends between two arrivals carries its fraction into the next.

use std::{fmt, str::FromStr, time::Duration};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

use crate::{
    random::SplitMix64,
    units::{DURATION_MAX, Rate, UnitError, format_duration, parse_duration},
};

/// The most segments a schedule may have.
pub const SEGMENTS_MAX: usize = 1_000;

/// The most connections a closed loop may have.
pub const CONNECTIONS_MAX: usize = 100_000;

const MEND: &str = "write `60/s`, `poisson:60/s`, a schedule `60/s:30s,600/s:4s`, bursts \
                    `poisson:repeat:600/s:2s,0/s:4s`, a closed loop `closed:64:think=1s`, or a trace \
                    `trace:access.log`";

/// The fastest and, inverted, the slowest replay of a trace.
const SPEED_MAX: f64 = 1_000.0;

/// The arrival pattern of one class.
#[derive(Clone, Debug, PartialEq)]
pub enum Arrivals {
    /// Requests start at their times whatever the server does.
    Open(Schedule),
    /// Each of a fixed number of clients starts its next request when the last has ended. With a think time, its own
    /// or its sessions', each begins after a pause drawn like those between: who all began at once would be a burst
    /// of their number, and go on in step for a long time.
    Closed {
        /// Clients that run at once, 1 to [`CONNECTIONS_MAX`].
        connections: usize,
        /// Mean of the exponential pause between a reply and the next request, and before the first; zero for none.
        think: Duration,
    },
    /// Paths and times of an access log.
    Trace {
        /// The log.
        file: String,
        /// So many times the log's own pace, 0.001 to 1,000.
        speed: f64,
    },
}

impl Arrivals {
    /// Evenly spaced requests until the run ends.
    #[must_use]
    pub fn constant(rate: Rate) -> Self {
        Self::Open(Schedule::lone(Process::Constant, rate))
    }

    /// A Poisson process until the run ends.
    #[must_use]
    pub fn poisson(rate: Rate) -> Self {
        Self::Open(Schedule::lone(Process::Poisson, rate))
    }

    /// A closed loop without think time.
    #[must_use]
    pub fn closed(connections: usize) -> Self {
        Self::Closed { connections, think: Duration::ZERO }
    }

    /// How long the pattern itself lasts; `None` if it goes on until the run ends, or is a trace,
    /// which nobody has read yet.
    #[must_use]
    pub fn length(&self) -> Option<Duration> {
        match self {
            Self::Open(schedule) => schedule.length(),
            Self::Closed { .. } | Self::Trace { .. } => None,
        }
    }
}

/// How arrivals fall within a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Process {
    /// Evenly spaced.
    Constant,
    /// Independent exponential gaps.
    Poisson,
}

/// Rates over time, and the process that draws arrivals from them.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    process: Process,
    repeat: bool,
    segments: Vec<Segment>,
}

/// One rate and how long it holds; `None` holds until the run ends.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Segment {
    rate: Rate,
    length: Option<Duration>,
}

impl Schedule {
    /// The offsets from the start of the run at which requests are meant to start, in order.
    #[must_use]
    pub fn offsets(&self, seed: u64, purpose: u64) -> Offsets {
        Offsets {
            schedule: self.clone(),
            random: SplitMix64::stream(seed, purpose),
            segment: 0,
            segment_start_s: 0.0,
            lambda_at_segment_start: 0.0,
            next_lambda: None,
        }
    }

    fn lone(process: Process, rate: Rate) -> Self {
        Self { process, repeat: false, segments: vec![Segment { rate, length: None }] }
    }

    fn length(&self) -> Option<Duration> {
        if self.repeat {
            return None;
        }
        self.segments.iter().map(|segment| segment.length).sum()
    }
}

/// An endless or finite iterator of intended start offsets; see [`Schedule::offsets`].
#[derive(Clone, Debug)]
pub struct Offsets {
    schedule: Schedule,
    random: SplitMix64,
    segment: usize,
    segment_start_s: f64,
    lambda_at_segment_start: f64,
    next_lambda: Option<f64>,
}

impl Iterator for Offsets {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let target = match (self.schedule.process, self.next_lambda) {
            (Process::Constant, None) => 0.0,
            (Process::Constant, Some(last)) => last + 1.0,
            (Process::Poisson, last) => last.unwrap_or(0.0) + self.random.exponential(),
        };
        self.next_lambda = Some(target);
        loop {
            if self.segment == 0 && self.schedule.repeat {
                self.skip_whole_periods(target);
            }
            if self.segment_start_s > DURATION_MAX.as_secs_f64() {
                return None;
            }
            let segment = self.schedule.segments.get(self.segment)?;
            let rate = segment.rate.as_per_s();
            let within_s =
                if rate > 0.0 { (target - self.lambda_at_segment_start) / rate } else { f64::INFINITY };
            let length_s = segment.length.map_or(f64::INFINITY, |length| length.as_secs_f64());
            if within_s < length_s {
                return Duration::try_from_secs_f64(self.segment_start_s + within_s).ok();
            }
            if length_s.is_infinite() {
                return None;
            }
            self.segment_start_s += length_s;
            self.lambda_at_segment_start += rate * length_s;
            self.segment += 1;
            if self.schedule.repeat && self.segment == self.schedule.segments.len() {
                self.segment = 0;
            }
        }
    }
}

impl Offsets {
    /// Steps over periods that end before `target`, so that a schedule of rare arrivals in short
    /// periods costs no more than a dense one.
    fn skip_whole_periods(&mut self, target: f64) {
        let (mut length_s, mut lambda) = (0.0, 0.0);
        for segment in &self.schedule.segments {
            let segment_s = segment.length.map_or(0.0, |length| length.as_secs_f64());
            length_s += segment_s;
            lambda += segment.rate.as_per_s() * segment_s;
        }
        // One period less than fits: rounding must not step past the target's own.
        let periods = ((target - self.lambda_at_segment_start) / lambda).floor() - 1.0;
        if periods >= 1.0 {
            self.segment_start_s += periods * length_s;
            self.lambda_at_segment_start += periods * lambda;
        }
    }
}

impl FromStr for Arrivals {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let fault = |mend| UnitError::new("an arrival pattern", text, mend);
        let trimmed = text.trim();
        if let Some(rest) = trimmed.strip_prefix("closed:") {
            let (connections, think) = match rest.split_once(":think=") {
                Some((connections, think)) => (connections, parse_duration(think)?),
                None => (rest, Duration::ZERO),
            };
            return match connections.parse() {
                Ok(connections @ 1..=CONNECTIONS_MAX) => Ok(Self::Closed { connections, think }),
                _ => Err(fault("a closed loop has 1 to 100000 connections, such as `closed:64`")),
            };
        }
        if let Some(rest) = trimmed.strip_prefix("trace:") {
            let (file, speed) = match rest.rsplit_once(":speed=") {
                Some((file, speed)) => (file, speed.parse().ok()),
                None => (rest, Some(1.0)),
            };
            return match speed {
                Some(speed) if !file.is_empty() && (1.0 / SPEED_MAX..=SPEED_MAX).contains(&speed) => {
                    Ok(Self::Trace { file: file.to_owned(), speed })
                }
                _ => Err(fault(
                    "a trace has a file and a speed from 0.001 to 1000, such as `trace:access.log:speed=2`",
                )),
            };
        }
        let (process, rest) = match trimmed.split_once(':') {
            Some(("poisson", rest)) => (Process::Poisson, rest),
            Some(("constant", rest)) => (Process::Constant, rest),
            _ => (Process::Constant, trimmed),
        };
        let (repeat, rest) = match rest.strip_prefix("repeat:") {
            Some(rest) => (true, rest),
            None => (false, rest),
        };
        let mut segments = Vec::new();
        for part in rest.split(',') {
            if segments.len() == SEGMENTS_MAX {
                return Err(fault("a schedule has at most 1000 segments"));
            }
            let (rate, length) = match part.split_once(':') {
                Some((rate, length)) => (rate, Some(parse_duration(length)?)),
                None => (part, None),
            };
            let rate = rate.parse().map_err(|_| fault(MEND))?;
            if length == Some(Duration::ZERO) {
                return Err(fault("a segment lasts longer than zero"));
            }
            segments.push(Segment { rate, length });
        }
        if segments.iter().any(|segment| segment.length.is_none()) && (segments.len() > 1 || repeat) {
            return Err(fault("each segment of a schedule needs its duration, such as `60/s:30s`"));
        }
        if segments.iter().all(|segment| segment.rate == Rate::ZERO) {
            return Err(fault("at least one rate must be above zero"));
        }
        Ok(Self::Open(Schedule { process, repeat, segments }))
    }
}

impl fmt::Display for Arrivals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let schedule = match self {
            Self::Open(schedule) => schedule,
            Self::Closed { connections, think } if think.is_zero() => {
                return write!(f, "closed:{connections}");
            }
            Self::Closed { connections, think } => {
                return write!(f, "closed:{connections}:think={}", format_duration(*think));
            }
            #[expect(clippy::float_cmp, reason = "1 is the speed that is left out")]
            Self::Trace { file, speed } if *speed == 1.0 => return write!(f, "trace:{file}"),
            Self::Trace { file, speed } => return write!(f, "trace:{file}:speed={speed}"),
        };
        if schedule.process == Process::Poisson {
            f.write_str("poisson:")?;
        }
        if schedule.repeat {
            f.write_str("repeat:")?;
        }
        for (index, segment) in schedule.segments.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(f, "{comma}{}", segment.rate)?;
            if let Some(length) = segment.length {
                write!(f, ":{}", format_duration(length))?;
            }
        }
        Ok(())
    }
}

impl Serialize for Arrivals {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Arrivals {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = crate::units::text(from, "an arrival pattern in quotes, such as \"poisson:60/s\"")?;
        text.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests;
