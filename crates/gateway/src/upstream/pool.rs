//! A core's connections to one server: idle ones of HTTP/1, shared ones of HTTP/2, and those being opened.

use std::{
    cell::{Cell, RefCell},
    rc::{Rc, Weak},
    time::Duration,
};

use tidegate_config::UpstreamProtocol;
use tidegate_control::{Timestamp, meters::UpstreamError};
use tidegate_runtime::servers::Server;
use tokio::{sync::Notify, time::Instant};

use super::{
    connect::{self, Spoken},
    error::Failure,
    http1::Http1,
    http2::{self, Http2},
    plan::Plan,
    proxy_header::Ends,
};
use crate::facts::ConnectionFacts;

/// Connections a core opens to one server at once. A burst beyond waits for these, or for
/// connections that come back meanwhile: a server that has just started is not greeted by a
/// thousand handshakes.
const OPENING_MAX: usize = 64;

/// A connection idle for no longer is still open, as good as surely: no server in use closes one sooner. One idle for
/// longer the server may be closing while a request is on its way to it, and a request that is not idempotent could then
/// not be sent again (RFC 9112, section 9.3.1).
pub(super) const SURELY_OPEN: Duration = Duration::from_secs(1);

/// A core's connections to one server.
#[derive(Default)]
pub(super) struct Pool {
    /// Last in, first out: those least used grow old and are closed.
    #[expect(clippy::vec_box, reason = "a connection keeps its box from one exchange to the next")]
    idle: RefCell<Vec<Box<Http1>>>,
    /// Those that have an owner, serve nobody else and end with it.
    #[expect(clippy::vec_box, reason = "as above")]
    owned: RefCell<Vec<Box<Http1>>>,
    shared: RefCell<Vec<Rc<Http2>>>,
    /// For whom connections are being opened.
    opening: RefCell<Vec<Option<Ends>>>,
    /// What the server spoke last; `None` before the first connection.
    spoken: Cell<Option<Spoken>>,
    /// Tells who waits that a connection came back, or that another may be opened.
    turn: Rc<Notify>,
}

/// A connection for one exchange.
pub(super) enum Lease {
    Http1(Box<Http1>),
    Http2(http2::Stream),
}

/// What a connection is wanted for.
#[derive(Clone, Copy)]
pub(super) struct Wanted<'a> {
    pub(super) ends: Option<Ends>,
    /// The client's connection.
    pub(super) client: &'a ConnectionFacts,
    /// One of HTTP/1 has been idle for less.
    pub(super) idle_max: Duration,
    /// Whether the request has a body.
    pub(super) uploads: bool,
}

/// A connection being opened; counted while it lives.
struct Opening<'a> {
    pool: &'a Pool,
    ends: Option<Ends>,
}

impl Pool {
    /// A connection that is open already.
    pub(super) fn reuse(&self, plan: &Rc<Plan>, wanted: Wanted<'_>, now: Timestamp) -> Option<Lease> {
        if let Some(http1) = self.pop_idle(plan, wanted, now) {
            return Some(Lease::Http1(http1));
        }
        let shared = self.shared.borrow();
        let fits = |http2: &&Rc<Http2>| {
            let is_free = !wanted.uploads || !http2.holds_uploads_up();
            is_free && http2.ends == wanted.ends && is_of(&http2.plan, plan)
        };
        shared.iter().filter(fits).find_map(Http2::stream).map(Lease::Http2)
    }

    /// A connection, by opening one unless one comes back first.
    ///
    /// `opened` is called when one was opened.
    pub(super) async fn acquire(
        &self,
        server: &Server,
        plan: &Rc<Plan>,
        wanted: Wanted<'_>,
        now: impl Fn() -> Timestamp,
        opened: impl Fn(),
    ) -> Result<Lease, Failure> {
        let deadline = Instant::now() + plan.connect_timeout;
        loop {
            // Registered before looking, so that nothing is missed in between.
            let mut turn = std::pin::pin!(self.turn.notified());
            turn.as_mut().enable();
            if let Some(opening) = self.open(plan, wanted.ends) {
                let left = deadline.saturating_duration_since(Instant::now());
                let lease = self.connect(server, plan, wanted.ends, left, &now).await?;
                drop(opening);
                opened();
                return Ok(lease);
            }
            if tokio::time::timeout_at(deadline, turn).await.is_err() {
                return Err(Failure::new(
                    UpstreamError::ConnectTimeout,
                    format!(
                        "{}: as many connections as may be are being opened already ({})",
                        server.endpoint(),
                        self.opening.borrow().len()
                    ),
                ));
            }
            if let Some(lease) = self.reuse(plan, wanted, now()) {
                return Ok(lease);
            }
        }
    }

    /// Opens a connection that is not the pool's, and speaks `protocol`.
    pub(super) async fn connect_apart(
        server: &Server,
        plan: &Rc<Plan>,
        protocol: UpstreamProtocol,
        ends: Option<Ends>,
        timeout: Duration,
        now: Timestamp,
    ) -> Result<Lease, Failure> {
        let deadline = Instant::now() + timeout;
        let (io, spoken) = connect::connect(server, plan, protocol, ends, timeout).await?;
        match spoken {
            Spoken::Http1 => Ok(Lease::Http1(Http1::start(io, Rc::clone(plan), ends))),
            Spoken::Http2 => {
                let http2 =
                    Http2::start(server, io, Rc::clone(plan), ends, Rc::default(), now, deadline).await?;
                http2.stream().map(Lease::Http2).ok_or_else(|| {
                    Failure::new(UpstreamError::Garbage, format!("{}: allows no stream", server.endpoint()))
                })
            }
        }
    }

    /// Takes back a connection that has ended an exchange, if it is good for another.
    pub(super) fn put_back(&self, mut http1: Box<Http1>, now: Timestamp) {
        if http1.is_reusable() {
            http1.give_room_back();
            http1.idle_since = now;
            let of_its_like = if http1.owner.is_some() { &self.owned } else { &self.idle };
            let mut idle = of_its_like.borrow_mut();
            if idle.len() >= http1.plan.idle_max {
                // The oldest goes.
                drop(idle.remove(0));
            }
            idle.push(http1);
            drop(idle);
            self.turn.notify_one();
        }
    }

    /// Closes what has been idle for too long, is closed already, has lost its owner, or was opened by other settings.
    pub(super) fn sweep(&self, plan: &Rc<Plan>, now: Timestamp) {
        let is_fresh = |idle_since: Timestamp| now.since(idle_since) < plan.idle_timeout;
        // Taken out meanwhile: closing runs code that is not ours.
        for kept in [&self.idle, &self.owned] {
            let mut idle = kept.take();
            idle.retain_mut(|http1| {
                let has_left = http1.owner.as_ref().is_some_and(|owner| owner.strong_count() == 0);
                !has_left && is_fresh(http1.idle_since) && is_of(&http1.plan, plan) && http1.is_open()
            });
            kept.replace(idle);
        }
        let mut shared = self.shared.take();
        shared.retain(|http2| {
            if !http2.is_idle() {
                http2.idle_since.set(now);
            }
            let is_wanted = is_fresh(http2.idle_since.get());
            is_wanted && http2.is_open() && is_of(&http2.plan, plan)
        });
        close_beyond(plan.idle_max, &mut shared);
        self.shared.replace(shared);
    }

    /// Closes everything idle.
    pub(super) fn clear(&self) {
        self.clear_idle();
        drop(self.shared.take());
    }

    /// Closes the idle connections of HTTP/1.
    pub(super) fn clear_idle(&self) {
        drop(self.idle.take());
        drop(self.owned.take());
    }

    /// Idle HTTP/1 connections.
    #[cfg(test)]
    pub(super) fn idle(&self) -> usize {
        self.idle.borrow().len()
    }

    /// Idle connections that have an owner.
    #[cfg(test)]
    pub(super) fn owned(&self) -> usize {
        self.owned.borrow().len()
    }

    fn pop_idle(&self, plan: &Rc<Plan>, wanted: Wanted<'_>, now: Timestamp) -> Option<Box<Http1>> {
        let mut http1 = match self.pop_owned(wanted.client) {
            Some(owned) => owned,
            None if plan.is_per_client() => {
                let mut idle = self.idle.borrow_mut();
                let position = idle.iter().rposition(|http1| http1.ends == wanted.ends)?;
                idle.remove(position)
            }
            None => self.idle.borrow_mut().pop()?,
        };
        // Else another takes its place.
        if now.since(http1.idle_since) >= wanted.idle_max || !is_of(&http1.plan, plan) {
            return None;
        }
        if !Rc::ptr_eq(&http1.plan, plan) {
            // Opened before the settings changed in what does not concern the connection.
            http1.plan = Rc::clone(plan);
        }
        Some(http1)
    }

    /// The connection that serves this client's alone.
    fn pop_owned(&self, client: &ConnectionFacts) -> Option<Box<Http1>> {
        let mut owned = self.owned.borrow_mut();
        let is_its = |owner: &Weak<()>| client.is(owner);
        let position = owned.iter().rposition(|http1| http1.owner.as_ref().is_some_and(is_its))?;
        Some(owned.remove(position))
    }

    /// Leave to open one more connection, for these ends.
    fn open(&self, plan: &Plan, ends: Option<Ends>) -> Option<Opening<'_>> {
        let mut opening = self.opening.borrow_mut();
        // Where the server may turn out to speak HTTP/2, one connection may serve all who wait for the like of it.
        let may_be_shared = match self.spoken.get() {
            Some(spoken) => spoken == Spoken::Http2,
            None => !plan.is_http1_only,
        };
        if opening.len() >= OPENING_MAX || may_be_shared && opening.contains(&ends) {
            return None;
        }
        opening.push(ends);
        Some(Opening { pool: self, ends })
    }

    async fn connect(
        &self,
        server: &Server,
        plan: &Rc<Plan>,
        ends: Option<Ends>,
        timeout: Duration,
        now: &impl Fn() -> Timestamp,
    ) -> Result<Lease, Failure> {
        let deadline = Instant::now() + timeout;
        let (io, spoken) = connect::connect(server, plan, plan.protocol, ends, timeout).await?;
        self.spoken.set(Some(spoken));
        match spoken {
            Spoken::Http1 => Ok(Lease::Http1(Http1::start(io, Rc::clone(plan), ends))),
            Spoken::Http2 => {
                let (idle_max, turn) = (plan.idle_max, Rc::clone(&self.turn));
                let http2 = Http2::start(server, io, Rc::clone(plan), ends, turn, now(), deadline).await?;
                let stream = http2.stream().ok_or_else(|| {
                    Failure::new(UpstreamError::Garbage, format!("{}: allows no stream", server.endpoint()))
                })?;
                let mut shared = self.shared.take();
                shared.push(http2);
                close_beyond(idle_max, &mut shared);
                self.shared.replace(shared);
                self.turn.notify_waiters();
                Ok(Lease::Http2(stream))
            }
        }
    }
}

impl Drop for Opening<'_> {
    fn drop(&mut self) {
        let mut opening = self.pool.opening.borrow_mut();
        if let Some(position) = opening.iter().position(|ends| *ends == self.ends) {
            opening.swap_remove(position);
        }
        drop(opening);
        if self.ends.is_some() {
            // One alone may be of a client for whom another is being opened.
            self.pool.turn.notify_waiters();
        } else {
            self.pool.turn.notify_one();
        }
    }
}

/// Closes those that have been idle longest, beyond so many idle ones.
fn close_beyond(idle_max: usize, shared: &mut Vec<Rc<Http2>>) {
    let idle = shared.iter().filter(|http2| http2.is_idle());
    let mut since: Vec<Timestamp> = idle.map(|http2| http2.idle_since.get()).collect();
    let mut beyond = since.len().saturating_sub(idle_max);
    if beyond == 0 {
        return;
    }
    since.sort_unstable();
    let last = since[beyond - 1];
    shared.retain(|http2| {
        let goes = beyond > 0 && http2.is_idle() && http2.idle_since.get() <= last;
        beyond -= usize::from(goes);
        !goes
    });
}

/// Whether a connection opened by `opened` may be used under `present`.
fn is_of(opened: &Rc<Plan>, present: &Rc<Plan>) -> bool {
    Rc::ptr_eq(opened, present) || opened.is_alike(present)
}
