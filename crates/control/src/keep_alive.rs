//! Keep-alive towards a server: whether its connections are kept from one request to the next.
//!
//! To keep them saves a connection a request. But servers that give a thread to a connection, not to a request (Puma up to 6,
//! Apache prefork, many of Python's), hold it while the connection is idle: for 0.2 s, for 5 s. A gateway's idle connections then
//! occupy the threads for which its requests wait.
//!
//! It shows in who waits. A request on a connection that was in use a moment ago finds the thread on it; one on a new connection,
//! or on one that was idle for longer, waits until a thread is free. So the response times of both are compared: as geometric means,
//! so that a few long ones say little, and divided by the requests in flight at the server when each was sent, since the more
//! there are, the deeper the pool is reached into, and the longer everybody waits. Where the others take three times as long in two
//! windows in a row, connections are closed after each request, and stay so if requests then take less than two thirds of what the
//! others took: more, and it is a new connection that takes long. A minute later they are kept again and looked at; each time that
//! shows the same makes the next five times as far, up to half an hour.
//!
//! Source: our own; the effect: puma/puma issue 3487 (2024), mended in Puma 7.

use std::time::Duration;

/// A connection idle for no longer was in use a moment ago.
pub const RECENTLY: Duration = Duration::from_millis(100);

/// Requests of either kind with which a window ends.
const WINDOW: u32 = 10;
/// Looks after which what a window has so far is forgotten.
const LOOKS_MAX: u32 = 60;
/// So many times as long as those on connections just used, the others take where threads wait on idle connections.
const LONGER: f64 = 3.0;
/// And by so much, seconds: below this a connection a request costs more than it wins.
const LONGER_BY: f64 = 0.02;
/// Closed connections stay where all requests take so much of what the others took.
const SHORTER: f64 = 0.67;
/// Windows in a row that show it.
const WINDOWS: u32 = 2;
/// Requests a second above which a connection each would use up the ports of this host.
const RATE_MAX: u32 = 400;
/// Looks after closing within which what was sent before comes back.
const SETTLE: u32 = 2;
/// Looks until connections are kept again, to see whether they still should not be.
const REST_FIRST: u32 = 60;
const REST_GROWTH: u32 = 5;
const REST_MAX: u32 = 1800;

/// Decides whether one server's connections are kept: see the head of its file.
///
/// ```
/// use std::time::Duration;
/// use tidegate_control::keep_alive::{KeepAlive, Waits};
///
/// let mut server = KeepAlive::default();
/// let mut changed = None;
/// while changed.is_none() {
///     let mut waits = Waits::default();
///     for request in 0..50 {
///         // Where connections are kept, four in five requests find one that was just in use; the others wait.
///         let is_recent = server.keeps() && request % 5 != 0;
///         let took = Duration::from_millis(if server.keeps() && !is_recent { 300 } else { 25 });
///         waits.add(is_recent, took, 4);
///     }
///     changed = server.look(waits);
/// }
/// assert!(!server.keeps() && !changed.is_some_and(|finding| finding.keeps));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct KeepAlive {
    state: State,
    window: Waits,
    /// Looks the window has lasted.
    looks: u32,
    /// Looks for which nothing is asked.
    rest: u32,
    next_rest: u32,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    /// Kept; so many windows in a row say that they should not be.
    Kept(u32),
    /// Closed, for what that gives to be seen.
    Tried {
        recent: Sum,
        others: Sum,
    },
    Closed,
}

/// How long requests to a server took, from sending until the head of the response came, or until whoever asked gave up.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Waits {
    recent: Sum,
    others: Sum,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Sum {
    count: u32,
    seconds: f64,
    /// Of the logarithms of seconds for each request in flight.
    logarithms: f64,
}

/// Connections are kept, or closed, from now on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Finding {
    /// Whether they are kept.
    pub keeps: bool,
    /// Mean response time on connections used a moment before.
    pub recent: Duration,
    /// On others, while connections were kept.
    pub others: Duration,
    /// On closed ones, where they were tried.
    pub closed: Option<Duration>,
}

impl Waits {
    /// A request took so long on a connection that was (`is_recent`) in use within [`RECENTLY`], or on another; so many were in
    /// flight at the server when it was sent, it included.
    pub fn add(&mut self, is_recent: bool, took: Duration, in_flight: u32) {
        let sum = if is_recent { &mut self.recent } else { &mut self.others };
        let seconds = took.as_secs_f64();
        sum.count += 1;
        sum.seconds += seconds;
        // Nothing takes less than a microsecond.
        sum.logarithms += (seconds.max(1e-6) / f64::from(in_flight.max(1))).ln();
    }

    /// What several cores saw.
    pub fn merge(&mut self, more: Self) {
        self.recent.merge(more.recent);
        self.others.merge(more.others);
    }

    /// Requests on connections just used, and on others.
    #[must_use]
    pub const fn counts(&self) -> [u32; 2] {
        [self.recent.count, self.others.count]
    }
}

impl Sum {
    fn merge(&mut self, more: Self) {
        self.count += more.count;
        self.seconds += more.seconds;
        self.logarithms += more.logarithms;
    }

    /// Geometric mean of seconds for each request in flight; without requests nothing is said of it.
    fn geometric(self) -> f64 {
        (self.logarithms / f64::from(self.count)).exp()
    }

    fn mean(self) -> f64 {
        if self.count == 0 { 0.0 } else { self.seconds / f64::from(self.count) }
    }
}

impl Default for KeepAlive {
    fn default() -> Self {
        Self { state: State::Kept(0), window: Waits::default(), looks: 0, rest: 0, next_rest: REST_FIRST }
    }
}

impl KeepAlive {
    /// Whether connections are kept now.
    #[must_use]
    pub const fn keeps(&self) -> bool {
        matches!(self.state, State::Kept(_))
    }

    /// A second has passed, in which requests took so long.
    pub fn look(&mut self, waits: Waits) -> Option<Finding> {
        if waits.counts().iter().sum::<u32>() > RATE_MAX {
            if self.keeps() {
                self.forget();
            } else {
                self.turn(State::Kept(0), REST_MAX);
            }
            return None;
        }
        if self.rest > 0 {
            self.rest -= 1;
            if self.rest == 0 && self.state == State::Closed {
                // One window is enough to close them again.
                self.turn(State::Kept(WINDOWS - 1), 0);
            }
            return None;
        }
        self.window.merge(waits);
        self.looks += 1;
        if self.looks > LOOKS_MAX {
            self.forget();
        }
        match self.state {
            State::Kept(windows) => self.judge(windows),
            State::Tried { recent, others } => self.compare(recent, others),
            State::Closed => None,
        }
    }

    /// Whether those on idle and new connections wait.
    fn judge(&mut self, windows: u32) -> Option<Finding> {
        let Waits { recent, others } = self.window;
        if recent.count.min(others.count) < WINDOW {
            return None;
        }
        self.forget();
        let do_wait =
            others.geometric() > LONGER * recent.geometric() && others.mean() > recent.mean() + LONGER_BY;
        match (do_wait, windows + 1 < WINDOWS) {
            (true, true) => self.state = State::Kept(windows + 1),
            (true, false) => self.turn(State::Tried { recent, others }, SETTLE),
            (false, _) => {
                self.state = State::Kept(0);
                if std::mem::replace(&mut self.next_rest, REST_FIRST) > REST_FIRST {
                    return Some(Finding::of(true, recent, others, None));
                }
            }
        }
        None
    }

    /// Whether requests take less where connections are closed.
    fn compare(&mut self, recent: Sum, others: Sum) -> Option<Finding> {
        let closed = self.window.others;
        if closed.count < 2 * WINDOW {
            return None;
        }
        if closed.mean() > SHORTER * others.mean() {
            // A connection is what takes long.
            self.turn(State::Kept(0), REST_MAX);
            return None;
        }
        let is_news = self.next_rest == REST_FIRST;
        self.turn(State::Closed, self.next_rest);
        self.next_rest = (REST_GROWTH * self.next_rest).min(REST_MAX);
        is_news.then(|| Finding::of(false, recent, others, Some(closed)))
    }

    fn turn(&mut self, state: State, rest: u32) {
        (self.state, self.rest) = (state, rest);
        self.forget();
    }

    fn forget(&mut self) {
        (self.window, self.looks) = (Waits::default(), 0);
    }
}

impl Finding {
    fn of(keeps: bool, recent: Sum, others: Sum, closed: Option<Sum>) -> Self {
        let mean = |sum: Sum| Duration::from_secs_f64(sum.mean());
        Self { keeps, recent: mean(recent), others: mean(others), closed: closed.map(mean) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Milliseconds that a request takes.
    #[derive(Clone, Copy)]
    struct Server {
        recent: u64,
        others: u64,
        closed: u64,
    }

    const PLAIN: Server = Server { recent: 25, others: 26, closed: 26 };
    const HOLDS_THREADS: Server = Server { recent: 25, others: 200, closed: 30 };

    fn second(server: Server, keeps: bool, rate: u32) -> Waits {
        let mut waits = Waits::default();
        for request in 0..rate {
            let is_recent = keeps && request % 5 != 0;
            let took = match (keeps, is_recent) {
                (false, _) => server.closed,
                (true, true) => server.recent,
                (true, false) => server.others,
            };
            waits.add(is_recent, Duration::from_millis(took), 4);
        }
        waits
    }

    /// Seconds of so many in which connections were closed, and what was found.
    fn watch(machine: &mut KeepAlive, seconds: u32, server: Server) -> (u32, Vec<bool>) {
        let (mut closed, mut findings) = (0, Vec::new());
        for _ in 0..seconds {
            closed += u32::from(!machine.keeps());
            findings.extend(machine.look(second(server, machine.keeps(), 50)).map(|finding| finding.keeps));
        }
        (closed, findings)
    }

    #[test]
    fn a_server_where_nobody_waits_for_connections_keeps_them() {
        assert_eq!(watch(&mut KeepAlive::default(), 10_000, PLAIN), (0, vec![]));
        // By twice as long, or by a few milliseconds, nobody is held up.
        for (recent, others) in [(50, 100), (2, 15)] {
            let server = Server { recent, others, closed: recent };
            assert_eq!(watch(&mut KeepAlive::default(), 1000, server), (0, vec![]));
        }
    }

    #[test]
    fn where_idle_connections_hold_threads_they_are_closed_until_they_do_no_more() {
        let mut machine = KeepAlive::default();
        // Two windows, settling, and what it gives.
        assert_eq!(watch(&mut machine, 2 + 2 + 1, HOLDS_THREADS), (3, vec![false]));
        // Kept again for a second after a minute, after five, after half an hour.
        let looked = 60 + 1 + 2 + 1 + 300 + 1 + 2 + 1 + 1500 + 1 + 2 + 1 + 1800;
        assert_eq!(watch(&mut machine, looked, HOLDS_THREADS), (looked - 3, vec![]));
        assert!(machine.keeps());
        // Another server stands there.
        assert_eq!(watch(&mut machine, 1000, PLAIN), (0, vec![true]));
    }

    #[test]
    fn where_a_new_connection_is_what_takes_long_they_are_kept() {
        let mut machine = KeepAlive::default();
        let server = Server { recent: 20, others: 150, closed: 150 };
        assert_eq!(watch(&mut machine, 1800, server), (3, vec![]));
    }

    #[test]
    fn a_window_that_says_otherwise_or_some_that_take_long_say_nothing() {
        let mut machine = KeepAlive::default();
        for _ in 0..100 {
            assert_eq!(watch(&mut machine, 1, HOLDS_THREADS), (0, vec![]));
            assert_eq!(watch(&mut machine, 1, PLAIN), (0, vec![]));
        }
        // A tenth of all requests take two seconds.
        for _ in 0..100 {
            let mut waits = Waits::default();
            for request in 0..50 {
                let took = if request % 5 == 1 || request == 5 { 2000 } else { 20 };
                waits.add(request % 5 != 0, Duration::from_millis(took), 4);
            }
            assert_eq!(machine.look(waits), None);
            assert!(machine.keeps());
        }
        // Those on deep connections wait behind all others.
        for _ in 0..100 {
            let mut waits = Waits::default();
            for in_flight in 1..50 {
                waits.add(in_flight < 30, Duration::from_millis(20 * u64::from(in_flight)), in_flight);
            }
            assert_eq!(machine.look(waits), None);
            assert!(machine.keeps());
        }
    }

    #[test]
    fn without_load_nothing_is_judged_and_with_too_much_of_it_connections_are_kept() {
        let mut machine = KeepAlive::default();
        for rate in [0, 1, RATE_MAX + 1] {
            let mut server = KeepAlive::default();
            for _ in 0..200 {
                assert_eq!(server.look(second(HOLDS_THREADS, true, rate)), None);
            }
            assert!(server.keeps());
        }
        watch(&mut machine, 5, HOLDS_THREADS);
        assert!(!machine.keeps());
        machine.look(second(HOLDS_THREADS, false, RATE_MAX + 1));
        assert!(machine.keeps());
        assert_eq!(watch(&mut machine, REST_MAX, HOLDS_THREADS), (0, vec![]));
    }

    #[test]
    fn what_cores_see_is_seen_together() {
        let (mut machine, mut seen) = (KeepAlive::default(), 0);
        while machine.keeps() {
            let mut waits = second(HOLDS_THREADS, true, 10);
            waits.merge(second(HOLDS_THREADS, true, 15));
            machine.look(waits);
            seen += 1;
        }
        // 5 of 25 a second are others, of which a window has ten.
        assert_eq!(seen, 4);
    }
}
