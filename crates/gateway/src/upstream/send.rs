//! Sends a request over a pooled or new connection, and again where a pooled one proves stale.

use std::{cell::Cell, time::Duration};

use http::{
    Response,
    header::{AUTHORIZATION, HOST, UPGRADE},
};
use tidegate_config::UpstreamProtocol;
use tidegate_control::{
    Timestamp,
    keep_alive::RECENTLY,
    knobs::KeepAlivePolicy,
    meters::{Meter, UpstreamError},
};
use tidegate_runtime::Clock;
use tokio::time::Instant;

use super::{
    Upstreams,
    balance::Chosen,
    body::{Exchange, Message, UpstreamBody},
    error::{Failure, SendError},
    http1::{Http1, Unanswered},
    pool::{Lease, Pool, SURELY_OPEN, Wanted},
    proxy_header::Ends,
    response,
    servers::CoreServer,
};
use crate::{
    body::{Outbound, RequestBody},
    facts::ConnectionFacts,
};

/// Times one request is sent to one server: over connections that were stale and one that is new.
const TRIES_MAX: u32 = 4;
/// Times beside these that a connection may go away before it comes to the request, as HTTP/2 servers do that end theirs
/// after so many requests: it has served others meanwhile.
const MOVES_MAX: u32 = 16;
/// A server that has closed an idle connection says so as soon as a request meets it. One that goes away later has taken the
/// request up: what comes of that is a matter of `retries.max` and `retries.budget`.
pub(super) const STALE_WITHIN: Duration = Duration::from_secs(1);

impl Upstreams {
    /// Sends a request, in the form of HTTP/1 (origin-form target, `Host`), to the chosen server and
    /// waits for the response's head.
    ///
    /// A pooled connection that proves stale before anything was answered, within a second, is replaced by a fresh
    /// one, unseen, if the request did not reach the server or is idempotent and can be had again. One that is not, or can
    /// not, goes on a connection used within the last second, or on a new one.
    ///
    /// `now` is the present time; the caller has just read it. `interim` is given the interim responses of servers
    /// that speak HTTP/1.
    ///
    /// Dropping the future closes the connection; on HTTP/2 it resets the stream.
    ///
    /// # Errors
    ///
    /// [`SendError`], already told to the server's health and meters.
    pub(crate) async fn send(
        &self,
        chosen: Chosen,
        request: Outbound,
        client: &ConnectionFacts,
        now: Timestamp,
        interim: &dyn Fn(Response<()>),
    ) -> Result<Response<UpstreamBody>, Box<SendError>> {
        let clock = *self.core.shared().clock();
        let (mut asked_upgrade, mut authenticates, mut names_host) = (false, false, false);
        for (name, value) in &request.head.headers {
            match *name {
                UPGRADE => asked_upgrade = true,
                HOST => names_host = !value.is_empty(),
                AUTHORIZATION => authenticates |= response::is_of_connections(value),
                _ => {}
            }
        }
        let ends = if chosen.plan.is_per_client() { Ends::of(client) } else { None };
        let server = &chosen.server;
        let own_host = (!names_host).then(|| chosen.plan.host_at(&server.shared));
        server.cells.add(Meter::SERVER_REQUESTS, 1);
        let mut sent_at = now;
        // Of the last connection that was opened for it.
        let mut connect_time = None;
        let mut request = request;
        // What could not be sent again goes where it is sure to arrive.
        let can_again =
            request.head.method.is_idempotent() && !matches!(request.body, RequestBody::Stream(_));
        let idle_max = if can_again { Duration::MAX } else { SURELY_OPEN };
        let uploads = !matches!(request.body, RequestBody::Empty);
        let wanted = Wanted { ends, client, idle_max, uploads };
        // HTTP/2 knows no upgrade.
        let mut apart = asked_upgrade && chosen.plan.lets_server_choose();
        let mut takes_http1 = true;
        let (mut tries, mut moves) = (0, 0);
        let (response, message, answered_at) = loop {
            tries += 1;
            // A second try is for a fresh connection: where one was stale, its like may be too.
            let pooled =
                if tries == 1 && !apart { server.pool.reuse(&chosen.plan, wanted, now) } else { None };
            let lease = match pooled {
                Some(lease) => lease,
                None => {
                    let is_new = Cell::new(false);
                    let opened = || {
                        server.cells.add(Meter::CONNECTS, 1);
                        is_new.set(true);
                    };
                    let begun = clock.now();
                    // Boxed, as all that happens rarely: every exchange is moved about and held with room
                    // for whatever it may come to wait for.
                    let now = || clock.now();
                    let acquired = if apart {
                        let (plan, http1) = (&chosen.plan, UpstreamProtocol::Http1);
                        let opening = Pool::connect_apart(
                            &server.shared,
                            plan,
                            http1,
                            ends,
                            plan.connect_timeout,
                            now(),
                        );
                        Box::pin(opening).await.inspect(|_| opened())
                    } else {
                        let opening = server.pool.acquire(&server.shared, &chosen.plan, wanted, now, opened);
                        Box::pin(opening).await
                    };
                    sent_at = clock.now();
                    match acquired {
                        Ok(lease) => {
                            connect_time = is_new.get().then(|| sent_at.since(begun));
                            lease
                        }
                        // It may speak HTTP/2 alone, and answers without the upgrade then.
                        Err(failure) if apart && failure.kind == UpstreamError::Tls => {
                            (apart, takes_http1, tries) = (false, false, 0);
                            continue;
                        }
                        Err(failure) => {
                            server.failed(failure.kind, sent_at);
                            if failure.kind == UpstreamError::Exhausted {
                                self.say_exhausted(&failure.message);
                            }
                            return Err(Box::new(SendError {
                                kind: failure.kind,
                                message: failure.message,
                                request: Some(request),
                                replay: None,
                                client: None,
                            }));
                        }
                    }
                }
            };
            let sent = Instant::from_std(clock.instant(sent_at));
            // The failure comes with whether the connection may just have been stale.
            let is_soon = || clock.now().since(sent_at) <= STALE_WITHIN;
            let (unanswered, may_be_stale, has_gone) = match lease {
                Lease::Http1(mut http1) => {
                    let was_used = http1.is_used;
                    let wait = Wait::begin(&chosen, &http1, sent_at, clock);
                    let is_last = !server.shared.keeps_connections();
                    match http1.send(request, sent, is_last, own_host.as_deref(), interim).await {
                        Ok(response) => {
                            let now = clock.now();
                            wait.end(now);
                            if authenticates {
                                http1.own_by(client);
                            }
                            break (response, Message::Http1(http1), now);
                        }
                        Err(unanswered) => {
                            wait.cancel();
                            let may_be_stale = was_used && (!unanswered.has_reached || is_soon());
                            let has_gone = unanswered.has_reached;
                            (unanswered, may_be_stale, has_gone)
                        }
                    }
                }
                Lease::Http2(stream) => {
                    let was_used = stream.is_used();
                    match Box::pin(stream.send(request, sent)).await {
                        Ok(response) => {
                            let (head, incoming) = response.into_parts();
                            let message = Message::Http2(stream, incoming);
                            break (Response::from_parts(head, ()), message, clock.now());
                        }
                        // What it refuses it may take on another, and ends none by that.
                        Err(unanswered) => {
                            let may_be_stale = !unanswered.has_reached || (was_used && is_soon());
                            (unanswered, may_be_stale, true)
                        }
                    }
                }
            };
            apart |= unanswered.wants_http1 && takes_http1;
            let is_worth_it = if unanswered.has_moved {
                moves += 1;
                moves < MOVES_MAX
            } else {
                may_be_stale && tries - moves < TRIES_MAX
            };
            match if is_worth_it { again(unanswered) } else { Err(unanswered) } {
                Ok(back) => {
                    server.cells.add(Meter::RESENDS, u64::from(has_gone));
                    request = back;
                }
                Err(unanswered) => return Err(give_up(&chosen, unanswered, clock.now())),
            }
        };
        // The time to connect is part of it: a server that is slow to accept is slow.
        self.answered(chosen, response, message, client, ([now, answered_at], connect_time), asked_upgrade)
    }

    fn answered(
        &self,
        chosen: Chosen,
        mut response: Response<()>,
        mut message: Message,
        client: &ConnectionFacts,
        ([started, now], connect_time): ([Timestamp; 2], Option<Duration>),
        asked_upgrade: bool,
    ) -> Result<Response<UpstreamBody>, Box<SendError>> {
        let clock = *self.core.shared().clock();
        let framing = match response::check(&mut response, asked_upgrade) {
            Ok(framing) => framing,
            Err(fault) => {
                let failure = Failure::new(UpstreamError::Garbage, fault);
                let unanswered = Unanswered {
                    failure,
                    request: None,
                    has_moved: false,
                    wants_http1: false,
                    has_reached: true,
                    is_silent: false,
                    client: None,
                };
                return Err(give_up(&chosen, unanswered, now));
            }
        };
        let (head, ()) = response.into_parts();
        if let Message::Http1(http1) = &mut message {
            http1.expect(head.status, framing);
            if framing.binds {
                http1.own_by(client);
            }
        }
        let exchange = Exchange { chosen, clock, connect_time, response_time: now.since(started) };
        let body = UpstreamBody::new(exchange, message, head.status, now, framing.ends_here);
        Ok(Response::from_parts(head, body))
    }
}

/// How long a request on a connection of HTTP/1 takes until it is answered, or given up by whoever asked, is told when it is
/// dropped.
struct Wait<'a> {
    /// `None` once it was told, or where nobody asks.
    server: Option<&'a CoreServer>,
    clock: Clock,
    began: Timestamp,
    is_recent: bool,
    /// Requests at the server when it began.
    in_flight: u32,
}

impl<'a> Wait<'a> {
    fn begin(chosen: &'a Chosen, http1: &Http1, began: Timestamp, clock: Clock) -> Self {
        let is_asked = chosen.plan.keep_alive == KeepAlivePolicy::Auto;
        Self {
            server: is_asked.then_some(&*chosen.server),
            clock,
            began,
            is_recent: http1.is_used && began.since(http1.idle_since) < RECENTLY,
            in_flight: chosen.server.shared.in_flight(),
        }
    }

    /// It was answered.
    fn end(mut self, now: Timestamp) {
        self.tell(now);
    }

    /// It failed for another reason than how long it took.
    fn cancel(mut self) {
        self.server = None;
    }

    fn tell(&mut self, now: Timestamp) {
        if let Some(server) = self.server.take() {
            let mut waits = server.waits.get();
            waits.add(self.is_recent, now.since(self.began), self.in_flight);
            server.waits.set(waits);
        }
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        if self.server.is_some() {
            self.tell(self.clock.now());
        }
    }
}

/// The request, if it may go out once more: nothing of it reached the server, or nothing came back
/// and a second time does no harm.
fn again(mut unanswered: Unanswered) -> Result<Outbound, Unanswered> {
    if unanswered.client.is_some() {
        return Err(unanswered);
    }
    match unanswered.request.take() {
        Some(request)
            if !unanswered.has_reached || (unanswered.is_silent && request.head.method.is_idempotent()) =>
        {
            Ok(request)
        }
        request => Err(Unanswered { request, ..unanswered }),
    }
}

fn give_up(chosen: &Chosen, unanswered: Unanswered, now: Timestamp) -> Box<SendError> {
    let Unanswered { failure, request, has_reached, client, .. } = unanswered;
    if client.is_none() {
        chosen.server.failed(failure.kind, now);
    }
    let (request, replay) = if has_reached { (None, request) } else { (request, None) };
    let message = format!("{}: {}", chosen.endpoint(), failure.message);
    Box::new(SendError { kind: failure.kind, message, request, replay, client })
}
