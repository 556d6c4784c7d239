//! New and resumed TLS sessions: how many new ones are let in.
//!
//! Whoever resumes is let in. Once an interval of T = 2 s it is reckoned what is left for new ones:
//!
//! ```text
//! Ô(k) = a · Ô(k-1) + (1-a) · O(k-1),   a = 0.7;   Ô(2) = O(1)         resumed connections that come, a second
//! Ê                                                                    likewise: work asked for elsewhere, a second
//! c    = work / connections                                            of each kind, over the last minute or so
//! s    = work on connections of both kinds / new connections
//! left = max(0, C · b − Ê − Ô · c_resumed) / c_new
//! rate = left                                                          new ones a second, while work comes at less than 0.7 · C
//! rate = min(max(0, C · b − Ê) / s, left with 1.2 · C)                 at 0.7 · C and more
//! ```
//!
//! `C` is the application's capacity in work units a second, `work` what is asked for on connections of a kind. Elsewhere is
//! where no session was asked whether there is room: without TLS, or on a connection to another application's name. The rate fills a
//! token bucket that holds an interval's worth. Where no capacity is known, or new connections have asked for nothing yet,
//! all are let in.
//!
//! Source: Guitart, Carrera, Beltran, Torres & Ayguadé, "Dynamic CPU Provisioning for Self-Managed Secure Web
//! Applications in SMP Hosting Platforms", Computer Networks 52, 2008, sections 3.2.1 (the "eDragon Load Monitor") and 3.2.2 (the
//! "eDragon Admission Control"): `AN = (T · A − Ô · CTO) / CTN`; with what is assigned as what there is, "Session-Based Adaptive
//! Overload Control for Secure Dynamic Web Applications", ICPP 2005, section 4. Deviations:
//!
//! 1. What there is is the capacity that was found, in units of work, and not a number of processors: it holds for whatever is
//!    scarce at the application.
//! 2. What a connection brings is learnt while it runs, not profiled before.
//! 3. New ones are let in evenly over an interval, not the first ones at once, and parts of a connection are carried over.
//! 4. Never less than none.
//! 5. `b`, 1 to 2: who admits no more than he takes the capacity to be never learns that it is more. Where it is found and not given,
//!    after an interval in which new ones were refused, and fewer than four in five connections found requests waiting for the limit,
//!    it grows by 0.2 %; after any other it shrinks as much.
//! 6. `s`, what a new session brings in all, with the connections by which it goes on. These come seconds and minutes after it, so that
//!    by what is left at the moment alone too many would be let in for a while, and then nobody until they have gone. Beside it
//!    what is left, a small difference of large numbers that chance moves, counts with a fifth of the capacity more.
//! 7. Ê: the paper's site is reached by TLS only.

use std::time::Duration;

use crate::{Timestamp, token_bucket::TokenBucket};

/// T.
pub const INTERVAL: Duration = Duration::from_secs(2);
/// The share of an interval's value that the next keeps, a.
const SMOOTHING: f64 = 0.7;
/// What an interval leaves of the connections and the work known before: half of them after 69 s.
const REMEMBERED: f64 = 0.98;
/// While less than this share of the capacity is asked for, what new sessions will bring later bounds nothing.
const BUSY: f64 = 0.7;
/// What is left is taken for as much more, in capacities, where what new sessions will bring bounds them too.
const SLACK: f64 = 0.2;
/// b at most, and how it moves: slowly, since what is let in brings most of its work minutes later.
const BOOST_MAX: f64 = 2.0;
const BOOST_STEP: f64 = 1.002;
/// Where fewer than so many of so many find requests waiting for the limit, there may be room for more.
const HELD: (u64, u64) = (4, 5);
/// The rate where nothing bounds it, new connections a second.
const UNBOUNDED: f64 = 1e9;

/// Whether a TLS session is new to this server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Session {
    /// By a full handshake.
    New,
    /// From one that there was before.
    Resumed,
}

/// What an interval goes by.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Supply {
    /// The application's capacity, work units a second; `None`: not known.
    pub capacity: Option<f64>,
    /// Whether somebody has given it: then it is no more than that.
    pub is_given: bool,
}

/// The TLS sessions of one application.
///
/// ```
/// use std::time::Duration;
/// use tidegate_control::{
///     Timestamp,
///     tls_sessions::{Session, TlsSessions, Supply},
/// };
///
/// let mut now = Timestamp::from_nanos(1_000_000_000);
/// let mut sessions = TlsSessions::new(now);
/// // A new visitor asks for 10 units of work, and 40 a second come before an application of 100 units a second.
/// let mut admitted = 0;
/// for arrival in 0..4000 {
///     now = now + Duration::from_millis(25);
///     if sessions.is_due(now) {
///         sessions.interval(now, Supply { capacity: Some(100.0), is_given: true });
///     }
///     if sessions.arrive(now, Session::New, true) {
///         sessions.begin(Session::New);
///         sessions.work(Session::New, 10.0);
///         admitted += i32::from(arrival >= 2000);
///     }
/// }
/// // 10 a second, of the 40.
/// assert!((495..=505).contains(&admitted), "{admitted}");
/// ```
#[derive(Clone, Debug)]
pub struct TlsSessions {
    new: Cost,
    resumed: Cost,
    /// Connections that resume.
    arrivals: Expected,
    /// Work that is asked for elsewhere.
    elsewhere: Expected,
    /// Connections that came in this interval, and those that found requests waiting for the limit.
    hellos: [u32; 2],
    /// Work that was asked for in this interval.
    asked: f64,
    /// Whether new ones were refused in this interval.
    has_refused: bool,
    /// What all that were refused would have asked for.
    refused_work: f64,
    /// Whether any has begun in this interval.
    has_come: bool,
    boost: f64,
    /// New connections a second; `None`: as many as come.
    rate: Option<f64>,
    bucket: TokenBucket,
    /// When this interval began.
    began: Timestamp,
}

/// What comes in an interval, and what is expected of the next, a second.
#[derive(Clone, Copy, Debug, Default)]
struct Expected {
    seen: f64,
    per_s: Option<f64>,
}

/// Connections of a kind and the work that was asked for on them, lately.
#[derive(Clone, Copy, Debug, Default)]
struct Cost {
    connections: f64,
    work: f64,
}

impl TlsSessions {
    /// Nothing is known yet: everyone is let in.
    #[must_use]
    pub fn new(now: Timestamp) -> Self {
        Self {
            new: Cost::default(),
            resumed: Cost::default(),
            arrivals: Expected::default(),
            elsewhere: Expected::default(),
            hellos: [0; 2],
            asked: 0.0,
            has_refused: false,
            refused_work: 0.0,
            has_come: false,
            boost: 1.0,
            rate: None,
            bucket: TokenBucket::new(now, UNBOUNDED, 1.0),
            began: now,
        }
    }

    /// Whether [`interval`](Self::interval) is due: before anything else is asked.
    #[must_use]
    pub fn is_due(&self, now: Timestamp) -> bool {
        now.since(self.began) >= INTERVAL
    }

    /// The interval ends, and the next begins now. It may have lasted longer than [`INTERVAL`], where nothing came.
    pub fn interval(&mut self, now: Timestamp, supply: Supply) {
        let lasted = now.since(self.began).max(INTERVAL).as_secs_f64();
        self.arrivals.interval(lasted);
        self.elsewhere.interval(lasted);
        let [all, held] = std::mem::take(&mut self.hellos);
        let has_room = HELD.1 * u64::from(held) < HELD.0 * u64::from(all);
        self.boost = if std::mem::take(&mut self.has_refused) && has_room && !supply.is_given {
            (self.boost * BOOST_STEP).min(BOOST_MAX)
        } else {
            (self.boost / BOOST_STEP).max(1.0)
        };
        let asked = std::mem::take(&mut self.asked) / lasted;
        self.rate = supply.capacity.and_then(|capacity| self.reckon(capacity, asked));
        let rate = self.rate.unwrap_or(UNBOUNDED);
        self.bucket.configure(now, rate, rate * INTERVAL.as_secs_f64());
        // What is known fades as others come: a night without visitors leaves it as it is.
        if std::mem::take(&mut self.has_come) {
            for cost in [&mut self.new, &mut self.resumed] {
                cost.connections *= REMEMBERED;
                cost.work *= REMEMBERED;
            }
        }
        self.began = now;
    }

    /// The rate, at so much work asked for a second.
    fn reckon(&self, capacity: f64, asked: f64) -> Option<f64> {
        let of_new = self.new.each().filter(|cost| *cost > 0.0)?;
        let resumed = self.arrivals.expected() * self.resumed.each().unwrap_or(0.0);
        let elsewhere = self.elsewhere.expected();
        let at_most = capacity * self.boost;
        let left = |at_most: f64| (at_most - elsewhere - resumed).max(0.0) / of_new;
        let rate = if asked < BUSY * capacity {
            left(at_most)
        } else {
            let brought = self.new.work + self.resumed.work;
            let in_all = (at_most - elsewhere).max(0.0) * self.new.connections / brought;
            in_all.min(left(at_most * (1.0 + SLACK)))
        };
        Some(rate.min(UNBOUNDED))
    }

    /// A connection comes, before its handshake: whether there is room for it. Who resumes finds always some. `is_held`: whether
    /// requests wait for the limit in flight at this moment.
    #[must_use]
    pub fn arrive(&mut self, now: Timestamp, session: Session, is_held: bool) -> bool {
        let [all, held] = &mut self.hellos;
        *all = all.saturating_add(1);
        *held = held.saturating_add(u32::from(is_held));
        match (session, self.rate) {
            (Session::Resumed, _) => {
                self.arrivals.seen += 1.0;
                true
            }
            (Session::New, None) => true,
            (Session::New, Some(rate)) => rate > 0.0 && self.bucket.try_take(now),
        }
    }

    /// One that was let in, be there room or not, has done its handshake. Who never does brings nothing, and says nothing of
    /// what others bring.
    pub fn begin(&mut self, session: Session) {
        self.has_come = true;
        self.cost_mut(session).connections += 1.0;
    }

    /// A new one is refused.
    pub fn refuse(&mut self) {
        self.has_refused = true;
        self.refused_work += self.new.each().unwrap_or(0.0);
    }

    /// So many units of work are asked for on a connection that has [begun](Self::begin), be it that they are refused.
    pub fn work(&mut self, session: Session, units: f64) {
        let units = units.max(0.0);
        self.asked += units;
        self.cost_mut(session).work += units;
    }

    /// So many units of work are asked for where no session was asked whether there is room.
    pub fn work_elsewhere(&mut self, units: f64) {
        let units = units.max(0.0);
        self.asked += units;
        self.elsewhere.seen += units;
    }

    /// What a connection asks for, work units; `None` before any came.
    #[must_use]
    pub fn cost(&self, session: Session) -> Option<f64> {
        match session {
            Session::New => self.new.each(),
            Session::Resumed => self.resumed.each(),
        }
    }

    /// New connections a second that are let in; `None`: as many as come.
    #[must_use]
    pub const fn rate(&self) -> Option<f64> {
        self.rate
    }

    /// What all those who were refused would have asked for, work units since the beginning.
    #[must_use]
    pub const fn refused_work(&self) -> f64 {
        self.refused_work
    }

    fn cost_mut(&mut self, session: Session) -> &mut Cost {
        match session {
            Session::New => &mut self.new,
            Session::Resumed => &mut self.resumed,
        }
    }
}

impl Expected {
    /// An interval of so many seconds ends.
    fn interval(&mut self, lasted: f64) {
        let seen = std::mem::take(&mut self.seen) / lasted;
        self.per_s = Some(self.per_s.map_or(seen, |before| {
            let kept = SMOOTHING.powf(lasted / INTERVAL.as_secs_f64());
            kept * before + (1.0 - kept) * seen
        }));
    }

    fn expected(self) -> f64 {
        self.per_s.unwrap_or(0.0)
    }
}

impl Cost {
    fn each(&self) -> Option<f64> {
        (self.connections > 0.0).then(|| self.work / self.connections)
    }
}

#[cfg(test)]
mod tests;
