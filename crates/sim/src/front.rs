//! What stands before a server: the trait that admission controls implement, and the one that controls nothing.

use std::time::Duration;

use tidegate_control::{ApplicationId, ClassId, Timestamp, waiting_room::Promise};

/// What a front is told of a request. Each attempt is a request of its own.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Request {
    /// Unique in the run, ascending.
    pub id: u64,
    /// The application it is for.
    pub application: ApplicationId,
    /// Its class.
    pub class: ClassId,
    /// 0 to 7.
    pub priority: u8,
    /// Weight units.
    pub weight: u32,
    /// Who sends it; the same over all its requests and retries.
    pub client: u32,
    /// The session it belongs to, if to one.
    pub session: Option<u32>,
    /// 0 at first, then counting retries.
    pub attempt: u32,
    /// When the first attempt was sent.
    pub first_sent: Timestamp,
    /// When this attempt was sent.
    pub sent: Timestamp,
    /// It must start before this.
    pub deadline: Option<Timestamp>,
    /// What its connection begins with.
    pub hello: Hello,
    /// The time it was promised, if it comes at one.
    pub promise: Option<Promise>,
    /// It comes with a promise that was made up.
    pub forged: bool,
}

impl Request {
    /// A small number no other request has while this one is there: an index for tables.
    #[must_use]
    pub const fn slot(&self) -> usize {
        slot(self.id)
    }
}

pub(crate) const fn slot(id: u64) -> usize {
    (id & SLOTS) as usize
}

/// Requests there can be at once, less one: the lower bits of an id.
pub(crate) const SLOTS: u64 = (1 << SLOT_BITS) - 1;
pub(crate) const SLOT_BITS: u32 = 28;

/// What a request's connection begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hello {
    /// It is open already, or there is no TLS.
    Open,
    /// A handshake that resumes.
    Resumed,
    /// A full handshake.
    New,
}

/// A decision on a request.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It goes on to the server.
    Start,
    /// It waits; [`Front::decided`] tells.
    Wait,
    /// Its client is promised a time and is to come again then.
    Later(Promise),
    /// It is refused, for a reason that names a row of the results.
    Refuse(&'static str),
}

/// How an exchange with the server ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Done {
    /// With what.
    pub end: End,
    /// From the start at the front until now.
    pub service_time: Duration,
    /// Of that, waiting for a thread.
    pub queued: Duration,
    /// Its client has given up meanwhile.
    pub abandoned: bool,
}

/// With what an exchange ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// A reply.
    Success,
    /// An error of the application.
    Error,
    /// The server's backlog was full.
    ServerRefused,
}

/// A look at a server, as its operator has it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ServerView {
    /// Threads that have a request.
    pub threads_busy: u32,
    /// Requests that wait for a thread.
    pub backlog: u32,
    /// Processors' worth of work done a second since the last look.
    pub busy: f64,
    /// Processors it may use.
    pub processors: f64,
    /// TLS connections that arrived since the last look, to resume and new.
    pub resumed: u64,
    /// New ones.
    pub new: u64,
}

impl ServerView {
    /// Share of its processors that worked, 0 to 1.
    #[must_use]
    pub fn utilisation(&self) -> f64 {
        if self.processors > 0.0 { (self.busy / self.processors).clamp(0.0, 1.0) } else { 0.0 }
    }
}

/// Levels of a front, for the series.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Levels {
    /// Weight, or requests, at the server.
    pub in_flight: u64,
    /// The limit on that, or the threshold, if it has one.
    pub limit: Option<f64>,
    /// Requests that wait at the front.
    pub queued: u64,
    /// The capacity it takes the server to have, work units a second, if it knows one.
    pub capacity: Option<f64>,
    /// Times it has taken the server's capacity to have changed, from the beginning.
    pub changes: u64,
}

/// What stands before a server and decides what goes on to it.
///
/// Time never runs backwards between calls. A front that needs chance has a [`Random`](crate::Random) of its own.
///
/// A client-side scheme fits as well: a request that its client holds back (for want of a credit, say)
/// is answered [`Verdict::Wait`], and what travels between client and server takes its time by
/// [`next_timeout`](Self::next_timeout).
///
/// ```
/// use tidegate_control::Timestamp;
/// use tidegate_sim::{Done, Front, Request, Verdict};
///
/// /// At most so many at the server.
/// struct AtMost(u32, u32);
///
/// impl Front for AtMost {
///     fn arrive(&mut self, _now: Timestamp, _request: &Request) -> Verdict {
///         if self.0 == self.1 {
///             return Verdict::Refuse("busy");
///         }
///         self.0 += 1;
///         Verdict::Start
///     }
///     fn depart(&mut self, _now: Timestamp, _request: &Request, _done: &Done) {
///         self.0 -= 1;
///     }
/// }
/// # let _: &dyn Front = &AtMost(0, 1);
/// ```
pub trait Front {
    /// A connection arrives, before its handshake. False: it is refused, and costs nothing.
    fn connect(&mut self, now: Timestamp, request: &Request) -> bool {
        let _ = (now, request);
        true
    }

    /// Whether it makes handshakes itself: full ones a bounded number at once, none of them by a thread of the server.
    fn makes_handshakes(&self) -> bool {
        false
    }

    /// A request arrives.
    fn arrive(&mut self, now: Timestamp, request: &Request) -> Verdict;

    /// When the holder of a promise may come, as his browser asks while he waits.
    fn look(&self, now: Timestamp, promise: &Promise) -> Timestamp {
        let _ = now;
        promise.at
    }

    /// The client of a request that waits has left; it is not to be decided any more.
    fn leave(&mut self, now: Timestamp, request: &Request) {
        let _ = (now, request);
    }

    /// The client of a request that has started has left. The server goes on, and [`depart`](Self::depart) follows.
    fn abandoned(&mut self, now: Timestamp, request: &Request) {
        let _ = (now, request);
    }

    /// The server has given it a thread, after so long in its backlog.
    fn begun(&mut self, now: Timestamp, request: &Request, queued: Duration) {
        let _ = (now, request, queued);
    }

    /// The server is done with it. Comes once for every start.
    fn depart(&mut self, now: Timestamp, request: &Request, done: &Done) {
        let _ = (now, request, done);
    }

    /// Adds what has been decided since the last call, by id: what waited starts or is refused. A refusal of
    /// what has started says that its client is answered with an error while the server goes on.
    fn decided(&mut self, out: &mut Vec<(u64, Verdict)>) {
        let _ = out;
    }

    /// When [`advance`](Self::advance) is to be called, if nothing else happens.
    fn next_timeout(&self) -> Option<Timestamp> {
        None
    }

    /// Fires what is due.
    fn advance(&mut self, now: Timestamp) {
        let _ = now;
    }

    /// A tick of the scenario.
    fn tick(&mut self, now: Timestamp, server: &ServerView) {
        let _ = (now, server);
    }

    /// Levels at this moment.
    fn levels(&self) -> Levels {
        Levels::default()
    }
}

/// No control: everything starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Direct;

impl Front for Direct {
    fn arrive(&mut self, _now: Timestamp, _request: &Request) -> Verdict {
        Verdict::Start
    }
}
