//! Keep-alive towards a server: whether its connections are kept from one request to the next, found by trying.
//!
//! To keep them saves a connection a request. But servers that give a thread to a connection, not to a request (Puma up to 6,
//! Apache prefork, many of Python's), hold it while the connection is idle: for 0.2 s, for 5 s. A gateway's idle connections then
//! occupy the threads for which its requests wait.
//!
//! Whether a server does so is tried, where it answers slowly enough for a connection to cost next to nothing: in windows of two
//! seconds, the first not counted, in turn the other way and the present one. The power of both is compared (responses a second over
//! their mean time; Kleinrock 1979): at a given load it tells which way is faster, under a limit in flight which gets more done.
//! The first pair of windows that bears out the present way ends the trial; three pairs against it change it. Closed ones
//! must have 1.5 times the power of kept ones. The next trial is a minute later, and each that changes nothing
//! makes it five times as long, up to half an hour.
//!
//! Source: our own; the effect: puma/puma issue 3487 (2024), mended in Puma 7.

use std::time::Duration;

/// Looks a second apart with enough load before a trial begins.
const READY: u32 = 3;
/// Responses a second with which a trial begins: few where threads are held by idle connections.
const ANSWERED_MIN: u32 = 5;
/// Responses with which a pair of windows tells something.
const PAIR_MIN: u32 = 20;
/// Above this a connection a request would use up the ports of this host.
const ANSWERED_MAX: u32 = 400;
/// A server that answers faster loses more by a connection a request than it can win.
const RESPONSE_MIN: Duration = Duration::from_millis(5);
/// Looks a window has; only the last counts.
const LOOKS: u32 = 2;
/// Pairs of windows that change the way.
const PAIRS: u32 = 3;
/// Connections are closed where that gives so many times the power.
const GAIN: f64 = 1.5;
/// Looks until the next trial.
const REST_FIRST: u32 = 60;
const REST_GROWTH: u32 = 5;
const REST_MAX: u32 = 1800;

/// Decides whether one server's connections are kept: see the head of its file.
///
/// ```
/// use std::time::Duration;
/// use tidegate_control::keep_alive::KeepAlive;
///
/// let mut server = KeepAlive::default();
/// let mut changed = None;
/// while changed.is_none() {
///     // 50 responses a second, each in 200 ms where connections are kept, in 25 ms where they are closed.
///     let each = Duration::from_millis(if server.keeps() { 200 } else { 25 });
///     changed = server.look(50, each * 50);
/// }
/// assert!(!server.keeps() && !changed.is_some_and(|finding| finding.keeps));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct KeepAlive {
    /// The present way.
    keeps: bool,
    ready: u32,
    /// Looks until the next trial may begin.
    rest: u32,
    next_rest: u32,
    trial: Option<Trial>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Trial {
    looks: u32,
    /// Pairs of windows so far, all against the present way.
    pairs: u32,
    /// What the other way gave, once its window of this pair is over.
    other: Option<Seen>,
}

/// What a window gave.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Seen {
    answered: u32,
    /// Mean response time.
    mean: Duration,
}

/// The way was changed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Finding {
    /// Whether connections are kept from now on.
    pub keeps: bool,
    /// Mean response time with connections kept, in the last window that tried it.
    pub kept: Duration,
    /// The same with connections closed after each request.
    pub closed: Duration,
}

impl Default for KeepAlive {
    fn default() -> Self {
        Self { keeps: true, ready: 0, rest: 0, next_rest: REST_FIRST, trial: None }
    }
}

impl KeepAlive {
    /// Whether connections are kept now.
    #[must_use]
    pub const fn keeps(&self) -> bool {
        match self.trial {
            Some(Trial { other: None, .. }) => !self.keeps,
            _ => self.keeps,
        }
    }

    /// A second has passed, in which so many responses came, which took so long in sum, each until its head.
    pub fn look(&mut self, answered: u32, total: Duration) -> Option<Finding> {
        let seen = Seen { answered, mean: total.checked_div(answered).unwrap_or_default() };
        self.rest = self.rest.saturating_sub(1);
        let Some(trial) = &mut self.trial else {
            if answered > ANSWERED_MAX {
                self.keeps = true;
            }
            let is_ready = (ANSWERED_MIN..=ANSWERED_MAX).contains(&answered) && seen.mean >= RESPONSE_MIN;
            self.ready = if is_ready { self.ready + 1 } else { 0 };
            if self.rest == 0 && self.ready >= READY {
                self.trial = Some(Trial::default());
            }
            return None;
        };
        trial.looks += 1;
        if trial.looks < LOOKS {
            return None;
        }
        trial.looks = 0;
        let Some(other) = trial.other.take() else {
            trial.other = Some(seen);
            return None;
        };
        if seen.answered + other.answered < PAIR_MIN || seen.answered.max(other.answered) > ANSWERED_MAX {
            self.end_trial(REST_FIRST);
            return None;
        }
        trial.pairs += 1;
        let pairs = trial.pairs;
        let (kept, closed) = if self.keeps { (seen, other) } else { (other, seen) };
        if self.keeps != (closed.power() > GAIN * kept.power()) {
            self.end_trial(self.next_rest);
            self.next_rest = (REST_GROWTH * self.next_rest).min(REST_MAX);
            return None;
        }
        if pairs < PAIRS {
            return None;
        }
        self.keeps = !self.keeps;
        self.end_trial(REST_FIRST);
        self.next_rest = REST_GROWTH * REST_FIRST;
        Some(Finding { keeps: self.keeps, kept: kept.mean, closed: closed.mean })
    }

    fn end_trial(&mut self, rest: u32) {
        (self.trial, self.ready, self.rest) = (None, 0, rest);
    }
}

impl Seen {
    /// Responses a second over the time each took.
    fn power(self) -> f64 {
        if self.answered == 0 { 0.0 } else { f64::from(self.answered) / self.mean.as_secs_f64() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks at a server for so many seconds; responses a second and their time, ms, by whether connections are kept.
    /// Seconds in which they were closed, and what was found.
    fn watch(machine: &mut KeepAlive, seconds: u32, gives: [(u32, u64); 2]) -> (u32, Vec<bool>) {
        let (mut closed, mut findings) = (0, Vec::new());
        for _ in 0..seconds {
            let keeps = machine.keeps();
            closed += u32::from(!keeps);
            let (answered, each) = gives[usize::from(keeps)];
            let found = machine.look(answered, Duration::from_millis(each) * answered);
            findings.extend(found.map(|finding| finding.keeps));
        }
        (closed, findings)
    }

    const PLAIN: [(u32, u64); 2] = [(50, 24), (50, 25)];
    const HOLDS_THREADS: [(u32, u64); 2] = [(50, 25), (50, 100)];

    #[test]
    fn a_server_that_gains_nothing_keeps_its_connections_and_is_tried_ever_more_rarely() {
        let mut machine = KeepAlive::default();
        assert_eq!(watch(&mut machine, 3 + 4, PLAIN), (2, vec![]));
        assert_eq!(watch(&mut machine, 59, PLAIN), (0, vec![]));
        // After 60 s, 300 s, 1500 s, 1800 s.
        assert_eq!(watch(&mut machine, 1 + 300 + 1500 + 1800 + 4 * 4, PLAIN), (4 * 2, vec![]));
        assert!(machine.keeps());
    }

    #[test]
    fn a_server_that_gains_has_its_connections_closed_until_it_gains_no_more() {
        let mut machine = KeepAlive::default();
        assert_eq!(watch(&mut machine, 3 + 12, HOLDS_THREADS), (6, vec![false]));
        // The trial a minute later keeps them for two seconds, and finds the same.
        assert_eq!(watch(&mut machine, 60 + 4, HOLDS_THREADS), (64 - 2, vec![]));
        // Another server stands there.
        assert_eq!(watch(&mut machine, 300 + 12, PLAIN), (312 - 6, vec![true]));
        assert!(machine.keeps());
    }

    #[test]
    fn under_a_limit_in_flight_it_is_what_gets_done_that_counts() {
        // A limit that has found one thread free of four answers each as fast, but no more of them.
        let mut machine = KeepAlive::default();
        assert_eq!(watch(&mut machine, 3 + 12, [(190, 30), (50, 20)]), (6, vec![false]));
    }

    #[test]
    fn few_responses_are_enough_where_the_other_way_gives_many() {
        let mut machine = KeepAlive::default();
        assert_eq!(watch(&mut machine, 3 + 12, [(100, 40), (5, 200)]), (6, vec![false]));
        // All threads are held: none answers.
        assert_eq!(watch(&mut machine, 60 + 4, [(100, 40), (0, 0)]), (64 - 2, vec![]));
    }

    #[test]
    fn without_load_or_with_too_much_of_it_nothing_is_tried() {
        for (answered, each) in [(0, 100), (ANSWERED_MIN - 1, 100), (ANSWERED_MAX + 1, 100), (100, 4)] {
            let gives = [(answered, each / 2), (answered, each)];
            assert_eq!(watch(&mut KeepAlive::default(), 100, gives), (0, vec![]));
        }
        // A trial with which nothing can be told.
        let few = [(ANSWERED_MIN, 25), (ANSWERED_MIN, 100)];
        assert_eq!(watch(&mut KeepAlive::default(), 60, few), (2, vec![]));
        let too_much = [(ANSWERED_MAX + 1, 25); 2];
        // A trial breaks off.
        let mut machine = KeepAlive::default();
        watch(&mut machine, 4, HOLDS_THREADS);
        assert!(!machine.keeps());
        assert_eq!(watch(&mut machine, 100, too_much), (1, vec![]));
        assert!(machine.keeps());
        // Connections that were closed are kept again, before there are no ports left.
        watch(&mut machine, 15, HOLDS_THREADS);
        assert!(!machine.keeps());
        assert_eq!(watch(&mut machine, 2, too_much), (1, vec![]));
        assert!(machine.keeps());
    }

    #[test]
    fn one_unlucky_pair_changes_nothing() {
        let mut machine = KeepAlive::default();
        watch(&mut machine, 3 + 8, HOLDS_THREADS);
        assert_eq!(watch(&mut machine, 4, PLAIN), (2, vec![]));
        assert!(machine.keeps());
        watch(&mut machine, 60 + 12, HOLDS_THREADS);
        assert!(!machine.keeps());
        watch(&mut machine, 60, HOLDS_THREADS);
        assert_eq!(watch(&mut machine, 8, PLAIN), (4, vec![]));
        assert_eq!(watch(&mut machine, 4, HOLDS_THREADS), (2, vec![]));
        assert!(!machine.keeps());
    }
}
