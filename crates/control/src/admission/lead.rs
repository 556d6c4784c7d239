//! When the next request of a class may start a little before one under way ends, so that it is at the server when that is free.
//!
//! Between the end of one exchange and the begin of the next lies the way of an answer back and of a request there, and a server that is
//! kept to as many requests as it can work on is idle for as long. With a lead L (knob `in_flight.lead`) a request that nothing but its
//! class's `in_flight.max` M holds back may start all the same, if
//!
//! ```text
//! W ≤ M                        W: weight of the class in flight
//! W − f + w ≤ M, or W = f      w: its weight; f: weight of the first under way: when that has ended, it fits
//! n ≥ 8 and m ≥ ¾·n            n = |{ x : x > t }|,  m = |{ x : t < x ≤ t + L }|
//! ```
//!
//! where t is how long the server could have been at the first, and x are the last 32 times of the class's exchanges that
//! ended well: of those that took longer than the first has by now, at least three in four were over within the lead. The first
//! condition makes it one at a time, whatever the weights.
//!
//! - A *time* is from when the server could begin with an exchange to its end: from its start, or, where it started with a lead, from
//!   the next end of another of the class. Who fails, is given up, becomes a stream or has been dormant is none.
//! - The *first* is the one with which the server could begin first, of those that have not outlasted too much for the rule
//!   (`n < 8`) when last one of the class ended. So one that hangs holds up nobody's lead.
//!
//! The rule asks how surely the end is near and not when it is expected, since the two mistakes cost differently: who comes late
//! wastes what is wasted without a lead, and who comes early stands before everybody who comes after, those of higher priority too. Times
//! that hardly vary are over within the lead of their end nearly always, and their spread may be some half of it. Exponential times never are
//! (the chance is 1 − e^(−L/mean) however long one has taken), so there nobody starts early.
//!
//! # Time
//!
//! Times and t stand still with the clock. When it jumps ahead, what is under way has outlasted all there is, and the next end is no
//! worse than any other long time.
//!
//! # Cost
//!
//! Without a lead nothing. With one a start is O(1); an end moves at most 32 times, and forgets each exchange that has outlasted
//! the others once; while the class is full and one of its requests waits, a search among 32 times.
//!
//! Source: our own; "critical requests at their bare service time" on a machine that the others fill is the aim of Dyachuk & Deters.

use std::time::Duration;

use crate::{
    Timestamp,
    roster::{Place, Roster},
};

/// Times that are remembered.
const TIMES: usize = 32;
/// So many of them must have been longer, or nothing is known.
const LONGER_MIN: usize = TIMES / 4;

/// The lead of one class: what it is, its exchanges under way, and how long those before them took.
#[derive(Clone, Debug)]
pub(super) struct Lead {
    /// `None`: it does not hold.
    span: Option<Duration>,
    times: Times,
    /// In the list those whose end may be expected, in the order in which the server could begin with them.
    under_way: Roster<UnderWay>,
    /// Who has started with a lead, until another of the class has ended.
    early: Place,
}

#[derive(Clone, Copy, Debug)]
struct UnderWay {
    weight: u32,
    /// From when the server could be at it; `None`: it has started with a lead.
    since: Option<Timestamp>,
}

impl Lead {
    pub(super) const fn new() -> Self {
        Self { span: None, times: Times::new(), under_way: Roster::new(), early: Place::NOWHERE }
    }

    /// A new span, or none, under a bound of the class of so much weight. Times are kept.
    pub(super) fn configure(&mut self, now: Timestamp, span: Option<Duration>, max: u32) {
        self.span = span;
        if span.is_some() {
            self.under_way.reserve(max.saturating_add(1));
        }
        self.follow(now);
    }

    /// An exchange starts; `early`: before its class's bound has room for it.
    #[inline]
    pub(super) fn begin(&mut self, now: Timestamp, weight: u32, early: bool) -> Place {
        if self.span.is_none() {
            return Place::NOWHERE;
        }
        let place = self.under_way.insert(UnderWay { weight, since: (!early).then_some(now) });
        if early {
            self.early = place;
        } else {
            self.under_way.list(place);
        }
        place
    }

    /// An exchange of the class has ended; `is_time`: what it took says what others will take.
    pub(super) fn end(&mut self, now: Timestamp, place: Place, is_time: bool) {
        if place == self.early {
            self.early = Place::NOWHERE;
        } else {
            self.follow(now);
        }
        let since = self.under_way.remove(place).and_then(|ended| ended.since);
        if let Some(since) = since.filter(|_| is_time) {
            self.times.note(now.since(since));
        }
        while let Some((place, elapsed)) = self.first(now).map(|(place, _, elapsed)| (place, elapsed))
            && self.times.longer(elapsed).len() < LONGER_MIN
        {
            self.under_way.unlist(place);
        }
    }

    /// Whether a request of that weight may start before the bound has room for it, with so much of the class in flight.
    pub(super) fn lets_start(&self, now: Timestamp, in_flight: u64, max: u32, weight: u32) -> bool {
        let max = u64::from(max);
        let Some((span, (_, first, elapsed))) = self.span.zip(self.first(now)) else { return false };
        let after = in_flight.saturating_sub(u64::from(first));
        in_flight <= max
            && (after == 0 || after + u64::from(weight) <= max)
            && self.times.end_within(elapsed, span)
    }

    /// When it is next that a request may start so, or may no more, by which another class's turn may come; later than `now`.
    /// `None`: not before another has ended.
    pub(super) fn turns(&self, now: Timestamp, in_flight: u64, max: u32) -> Option<Timestamp> {
        let (span, (_, _, elapsed)) = self.span.zip(self.first(now))?;
        let next = self.times.next_turn(elapsed, span).filter(|_| in_flight <= u64::from(max))?;
        Some(now + (next - elapsed))
    }

    /// Whoever started with a lead has the server now.
    fn follow(&mut self, now: Timestamp) {
        let place = std::mem::replace(&mut self.early, Place::NOWHERE);
        if let Some(early) = self.under_way.get_mut(place) {
            early.since = Some(now);
            self.under_way.list(place);
        }
    }

    /// Whose end is expected first: its place, its weight, and how long the server could have been at it.
    fn first(&self, now: Timestamp) -> Option<(Place, u32, Duration)> {
        let (place, first) = self.under_way.first()?;
        Some((place, first.weight, now.since(first.since?)))
    }

    /// Panics if something is inconsistent.
    pub(super) fn check_invariants(&self) {
        self.under_way.check_invariants();
        assert!(
            self.under_way.iter().map(|one| one.since).is_sorted(),
            "in the order in which the server could begin"
        );
        assert!(self.times.sorted[..self.times.known].is_sorted(), "times are sorted");
    }
}

/// The last times, as they came and sorted.
#[derive(Clone, Debug)]
struct Times {
    recent: [Duration; TIMES],
    sorted: [Duration; TIMES],
    known: usize,
    oldest: usize,
}

impl Times {
    const fn new() -> Self {
        Self { recent: [Duration::ZERO; TIMES], sorted: [Duration::ZERO; TIMES], known: 0, oldest: 0 }
    }

    fn note(&mut self, time: Duration) {
        let forgotten = std::mem::replace(&mut self.recent[self.oldest], time);
        self.oldest = (self.oldest + 1) % TIMES;
        if self.known == TIMES {
            let gap = self.sorted.partition_point(|known| *known < forgotten);
            self.sorted.copy_within(gap + 1.., gap);
        } else {
            self.known += 1;
        }
        let others = self.known - 1;
        let gap = self.sorted[..others].partition_point(|known| *known < time);
        self.sorted.copy_within(gap..others, gap + 1);
        self.sorted[gap] = time;
    }

    /// Those longer than that.
    fn longer(&self, elapsed: Duration) -> &[Duration] {
        let known = &self.sorted[..self.known];
        &known[known.partition_point(|time| *time <= elapsed)..]
    }

    /// Whether what has taken so long is over within that span, as three of four of those were that took longer.
    fn end_within(&self, elapsed: Duration, span: Duration) -> bool {
        let longer = self.longer(elapsed);
        let within = longer.partition_point(|time| *time <= elapsed + span);
        longer.len() >= LONGER_MIN && 4 * within >= 3 * longer.len()
    }

    /// How long it will have taken, more than that, when that is next so, or not so any more: it becomes so only when another time
    /// comes within the span, and ends only when one is passed.
    fn next_turn(&self, elapsed: Duration, span: Duration) -> Option<Duration> {
        if self.end_within(elapsed, span) {
            return self.longer(elapsed).iter().copied().find(|time| !self.end_within(*time, span));
        }
        let openings = self.longer(elapsed + span).iter().map(|time| *time - span);
        openings.into_iter().find(|opening| self.end_within(*opening, span))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn times(all: impl IntoIterator<Item = u32>) -> Times {
        let mut times = Times::new();
        all.into_iter().for_each(|time| times.note(MS * time));
        times
    }

    #[test]
    fn steady_times_open_a_lead_before_their_end() {
        let times = times([10; 40]);
        assert_eq!(times.next_turn(Duration::ZERO, MS), Some(MS * 9));
        assert!(!times.end_within(MS * 8, MS) && times.end_within(MS * 9, MS));
        assert!(!times.end_within(MS * 10, MS), "of what takes longer than all nothing is known");
        // A lead as long as they take, and nobody has to wait.
        assert!(times.end_within(Duration::ZERO, MS * 10));
    }

    /// 24 times of 10 ms and 8 of 30: of those that took longer than 9 ms exactly three in four are over at 10 ms; with one more
    /// that takes long too few are. Those that then go on take 30 ms, all of them.
    #[test]
    fn three_in_four_must_be_over_within_the_lead() {
        let mut times = times([10; 24].into_iter().chain([30; 8]));
        assert_eq!(times.next_turn(Duration::ZERO, MS), Some(MS * 9));
        times.note(MS * 30);
        assert_eq!(times.next_turn(Duration::ZERO, MS), Some(MS * 29));
        // Seven of them are too few.
        let few = self::times([10; 25].into_iter().chain([30; 7]));
        assert_eq!(few.next_turn(MS * 10, MS), None);
    }

    /// Quantiles of the exponential distribution with a mean of 10 ms, at (i + ½)/32.
    #[test]
    fn exponential_times_never_open() {
        let quantile = |i: u32| -10_000.0 * (1.0 - (f64::from(i) + 0.5) / 32.0).ln();
        let mut times = Times::new();
        (0..32).for_each(|i| times.note(Duration::from_secs_f64(quantile(i) / 1e6)));
        for ms in [1, 2, 3] {
            assert!(!times.end_within(Duration::ZERO, MS * ms));
            assert_eq!(times.next_turn(Duration::ZERO, MS * ms), None, "{ms} ms");
        }
    }

    /// The one under way and the two orders of the end: who started with a lead counts from the end of another, and not at all if he
    /// was faster.
    #[test]
    fn who_starts_with_a_lead_counts_from_the_end_of_another() {
        let at = |ms| Timestamp::from_nanos(0) + MS * ms;
        let mut lead = Lead::new();
        lead.configure(at(0), Some(MS), 1);
        let (first, second) = (lead.begin(at(0), 1, false), lead.begin(at(9), 1, true));
        lead.end(at(10), first, true);
        lead.end(at(17), second, true);
        assert_eq!(lead.times.longer(Duration::ZERO), [MS * 7, MS * 10]);

        let (first, second) = (lead.begin(at(20), 1, false), lead.begin(at(29), 1, true));
        lead.end(at(30), second, true);
        lead.end(at(33), first, true);
        assert_eq!(lead.times.longer(Duration::ZERO), [MS * 7, MS * 10, MS * 13]);
        lead.check_invariants();
    }

    #[test]
    fn what_failed_is_no_time_and_what_hangs_is_not_the_first() {
        let at = |ms| Timestamp::from_nanos(0) + MS * ms;
        let mut lead = Lead::new();
        lead.configure(at(0), Some(MS), 2);
        let hangs = lead.begin(at(0), 1, false);
        for n in 0..8 {
            let place = lead.begin(at(10 * n), 1, false);
            lead.end(at(10 * n + 1), place, false);
            let place = lead.begin(at(10 * n), 1, false);
            lead.end(at(10 * n + 10), place, true);
        }
        assert_eq!(lead.times.longer(Duration::ZERO), [MS * 10; 8]);
        lead.begin(at(80), 1, false);
        assert_eq!(lead.turns(at(80), 2, 2), Some(at(89)), "of the second");
        assert!(!lead.lets_start(at(88), 2, 2, 1) && lead.lets_start(at(89), 2, 2, 1));
        assert!(!lead.lets_start(at(89), 2, 2, 2), "it would not fit when that has ended");
        assert!(!lead.lets_start(at(89), 3, 2, 1), "one is beyond the bound already");
        lead.end(at(90), hangs, true);
        assert_eq!(lead.turns(at(90), 1, 2), None);
    }
}
