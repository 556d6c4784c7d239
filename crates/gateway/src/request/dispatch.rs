//! A request goes to a server, and to another if the first fails it and trying again is safe.

use std::{
    cell::Cell,
    future::{Future, poll_fn},
    pin::pin,
    rc::Rc,
    task::Poll,
};

use http::{HeaderMap, Response, StatusCode, header};
use tidegate_control::{
    Refusal, ServerId, Timestamp,
    admission::{Exchange, Modes},
    classify::cookie_values,
    knobs::{Mode, keys},
    meters::Meter,
};
use tidegate_runtime::CoreApplication;
use tokio::time::{Instant, timeout_at};

use super::{Service, error::Failure, hop_by_hop, record::Tried};
use crate::{
    body::{Outbound, RequestBody},
    connection::Connection,
    upstream::{ChooseHint, UpstreamBody},
};

/// A server's answer.
pub(super) struct Answered {
    pub(super) response: Response<UpstreamBody>,
    /// Value of the sticky cookie, if the client is to be given one.
    pub(super) sticky: Option<String>,
}

/// Why no server answered.
#[derive(Debug)]
pub(super) struct Unserved {
    pub(super) failure: Failure,
    /// The request's body, where no server has any work of it: it may come again whatever its method.
    pub(super) unsent: Option<RequestBody>,
}

impl Unserved {
    fn new(failure: Failure, unsent: Option<Outbound>) -> Box<Self> {
        Box::new(Self { failure, unsent: unsent.map(|request| request.body) })
    }
}

/// What a request needs beside itself on its way to a server.
pub(super) struct Errand {
    pub(super) service: Rc<Service>,
    pub(super) application: Rc<CoreApplication>,
    pub(super) exchange: Exchange,
    /// When it asked for its permit.
    pub(super) asked: Timestamp,
    pub(super) connection: Rc<Connection>,
    /// Key for consistent hashing.
    pub(super) hash: u64,
    /// When it was let in.
    pub(super) started: Timestamp,
    /// Whether its client understands interim responses.
    pub(super) takes_interim: bool,
    /// Set once the client has left.
    pub(super) left: Rc<Cell<bool>>,
    /// Where to note who is asked, if anybody wants to know.
    pub(super) tried: Option<Rc<Tried>>,
}

impl Errand {
    /// Sends the request until a server answers or nothing more is to be tried.
    ///
    /// A request of which nothing reached a server goes to another whatever its method; one that may
    /// have reached it only if its method is idempotent and the application's budget allows it. Both
    /// within `retries.max`, and only while the client is there.
    pub(super) async fn run(self, mut request: Outbound) -> Result<Box<Answered>, Box<Unserved>> {
        let settings = &self.application.application.settings;
        // RFC 9110, section 9.2.2.
        let idempotent = request.head.method.is_idempotent();
        let cookie = settings.upstream.sticky_cookie.as_deref();
        let visited = cookie.and_then(|name| value_of_cookie(&request.head.headers, name));
        let mut retries_left = settings.values.get(keys::RETRIES_MAX);
        let mut failed: Vec<ServerId> = Vec::new();
        let mut is_unsent = true;
        let mut failure = Failure::Refused(Refusal::NoServer);
        let mut now = self.started;
        self.local(|local| local.retry_budget.request(now));
        loop {
            let hint = ChooseHint { hash: self.hash, sticky: visited.as_deref(), exclude: &failed };
            let Some(chosen) = self.service.upstreams.choose(&self.application, hint) else {
                failure = match Box::pin(self.vacancy(&failed, failure)).await {
                    Ok(failure) => failure,
                    Err(failure) => return Err(Unserved::new(failure, is_unsent.then_some(request))),
                };
                now = self.service.now();
                continue;
            };
            let id = chosen.server().id();
            if let Some(tried) = &self.tried {
                tried.note(chosen.server());
            }
            let sticky = chosen.sticky_value();
            let interim = |head| self.pass_on(head);
            let sent =
                self.service.upstreams.send(chosen, request, &self.connection.facts, now, &interim).await;
            let error = match sent {
                Ok(response) => return Ok(Box::new(Answered { response, sticky })),
                Err(error) => error,
            };
            if let Some(client) = error.client {
                return Err(Unserved::new(Failure::Client(client.into()), None));
            }
            failure = Failure::Upstream { kind: error.kind, message: error.message };
            is_unsent &= error.request.is_some();
            if retries_left == 0 || self.left.get() {
                return Err(Unserved::new(failure, error.request.filter(|_| is_unsent)));
            }
            request = match (error.request, error.replay) {
                // No server has any work of it yet, so that servers get no more to do by this.
                (Some(unsent), _) => unsent,
                (None, Some(replay)) if idempotent && self.may_retry() => replay,
                _ => return Err(Unserved::new(failure, None)),
            };
            now = self.service.now();
            retries_left -= 1;
            failed.push(id);
            self.application.class(self.exchange.class).add(Meter::RETRIES, 1);
        }
    }

    /// Waits until one of the servers, all of which are full, has room again; gives `failure` back then.
    /// The wait is bounded as the one for a permit is, by the deadline too.
    ///
    /// The permit stays with it: given back it would only let another come and wait here. And the wait
    /// is part of the exchange's time, so that an adaptive limit shrinks to what the servers take,
    /// and who waits does so in the queue of its class, where order and bounds are.
    async fn vacancy(&self, failed: &[ServerId], failure: Failure) -> Result<Failure, Failure> {
        let snapshot = &self.application.application;
        let (values, class) = (&snapshot.settings.values, snapshot.class_values(self.exchange.class));
        let is_bounded = Modes::of_application(values).of_class(class).queue == Mode::Enforce;
        let longest = class.get(keys::QUEUE_WAIT_MAX).unwrap_or_else(|| values.get(keys::RESPONSE_TIMEOUT));
        let wait_ends = self.service.now() + longest;
        let of_class = class.get(keys::DEADLINE).map(|span| self.asked + span);
        let deadline = self.exchange.deadline.into_iter().chain(of_class).min();
        let (ends, refusal) = match deadline.filter(|deadline| is_bounded && *deadline <= wait_ends) {
            Some(deadline) => (deadline, Refusal::DeadlinePassed),
            None => (wait_ends, Refusal::WaitTooLong),
        };
        let ends = Instant::from_std(self.service.core.shared().clock().instant(ends));
        let _counted = snapshot.state.awaiting_server().enter();
        let mut vacancy =
            pin!(self.service.upstreams.vacancy(&self.application, failed, self.exchange.priority));
        // Whose client leaves meanwhile never starts.
        let vacancy = poll_fn(|context| match self.left.get() {
            true => Poll::Ready(false),
            false => vacancy.as_mut().poll(context),
        });
        match timeout_at(ends, vacancy).await {
            Ok(true) => {}
            Ok(false) => return Err(failure),
            Err(_) => return Err(Failure::Refused(refusal)),
        }
        if self.connection.has_departed(values.get(keys::HALF_CLOSED).0).await {
            snapshot.state.servers().leave_room();
            // Who serves it sees that too, and gives it up.
            poll_fn(|_| if self.left.get() { Poll::Ready(()) } else { Poll::Pending }).await;
            return Err(failure);
        }
        Ok(failure)
    }

    /// Passes an interim response on, but for 100: a body is asked for by whoever gathers it.
    fn pass_on(&self, head: Response<()>) {
        if !self.takes_interim || head.status() == StatusCode::CONTINUE || self.left.get() {
            return;
        }
        let (head, ()) = head.into_parts();
        let mut headers = head.headers;
        hop_by_hop::remove(&mut headers);
        self.connection.say_meanwhile(head.status, &headers);
    }

    fn may_retry(&self) -> bool {
        let (now, ratio) =
            (self.service.now(), self.application.application.settings.values.get(keys::RETRIES_BUDGET));
        self.local(|local| {
            local.retry_budget.set_ratio(ratio);
            local.retry_budget.try_retry(now)
        })
    }

    fn local<R>(&self, f: impl FnOnce(&mut super::Local) -> R) -> R {
        self.service.local(self.application.application.id, f)
    }
}

fn value_of_cookie(headers: &HeaderMap, name: &str) -> Option<String> {
    let mut lines = headers.get_all(header::COOKIE).iter();
    let value = lines.find_map(|line| cookie_values(line.as_bytes(), name).next())?;
    std::str::from_utf8(value).ok().map(str::to_owned)
}
