//! The state of clients: sources of requests, and users who go from page to page.

use std::{collections::VecDeque, time::Duration};

use tidegate_control::{ClassId, Timestamp};

use super::{arrivals::Clock, attempts::Attempt};
use crate::{
    Random,
    clients::{Backoff, Clients, Population, Site},
    draw::seconds,
    front::Hello,
    scenario::Tls,
};

/// A source of requests: one [`Clients`] and where it stands.
#[derive(Debug)]
pub(super) struct Source<'s> {
    pub(super) clients: &'s Clients,
    pub(super) clock: Option<Clock<'s>>,
    /// What the arrival that is due brings, if its process says so.
    pub(super) due_class: Option<ClassId>,
    /// Which classes, clients, pages.
    pub(super) choices: Random,
    /// What a request costs.
    pub(super) work: Random,
    pub(super) think: Random,
    /// Backoff, loss.
    chance: Random,
    /// When clients give up, in order, since all have the same patience.
    pub(super) timeouts: VecDeque<(Timestamp, u64)>,
    /// Browsers there should be, there are, and those who have stopped.
    pub(super) wanted: u32,
    pub(super) active: u32,
    pub(super) stopped: Vec<u32>,
    /// Running sum of the shares of the mix.
    shares: Vec<(f64, ClassId)>,
}

impl<'s> Source<'s> {
    pub(super) fn new(clients: &'s Clients, seed: u64, name: &str) -> Self {
        let stream = |what: &str| Random::new(seed, &format!("{name}/{what}"));
        let clock = match &clients.population {
            Population::Open { arrivals, .. } | Population::Sessions { arrivals, .. } => {
                Some(Clock::new(arrivals, stream("arrivals")))
            }
            Population::Browsers { .. } => None,
        };
        let mut sum = 0.0;
        let shares = match &clients.population {
            Population::Open { mix, .. } => mix
                .iter()
                .map(|(class, share)| {
                    sum += share;
                    (sum, *class)
                })
                .collect(),
            _ => Vec::new(),
        };
        Self {
            clients,
            clock,
            due_class: None,
            choices: stream("choices"),
            work: stream("work"),
            think: stream("think"),
            chance: stream("chance"),
            timeouts: VecDeque::new(),
            wanted: 0,
            active: 0,
            stopped: Vec::new(),
            shares,
        }
    }

    /// The next arrival's moment.
    pub(super) fn next_arrival(&mut self) -> Option<Timestamp> {
        let (at, class) = self.clock.as_mut()?.next()?;
        self.due_class = class;
        Some(at)
    }

    /// A class of the mix.
    pub(super) fn class(&mut self) -> ClassId {
        match self.shares.as_slice() {
            [] => ClassId::default(),
            [(_, class)] => *class,
            shares => {
                let point = self.choices.unit() * shares.last().map_or(0.0, |(sum, _)| *sum);
                let position = shares.partition_point(|(sum, _)| *sum <= point);
                shares.get(position).or(shares.last()).map_or(ClassId::default(), |(_, class)| *class)
            }
        }
    }

    /// The pages of its users.
    pub(super) fn site(&self) -> Option<&'s Site> {
        match &self.clients.population {
            Population::Open { .. } => None,
            Population::Sessions { site, .. } | Population::Browsers { site, .. } => Some(site),
        }
    }

    /// How long a user thinks.
    pub(super) fn thinks(&mut self) -> Duration {
        match &self.clients.population {
            Population::Open { .. } => Duration::ZERO,
            Population::Sessions { think, .. } | Population::Browsers { think, .. } => {
                think.span(&mut self.think)
            }
        }
    }

    pub(super) fn chance(&mut self, p: f64) -> bool {
        self.chance.chance(p)
    }

    /// How long after this failure the attempt's client tries again; `None`: it does not.
    pub(super) fn retries(&mut self, attempt: &Attempt, timed_out: bool) -> Option<Duration> {
        let retry = self.clients.behaviour.retry.as_ref()?;
        let wants = if timed_out { retry.after_timeout } else { retry.after_refusal };
        if !wants || attempt.request.attempt >= retry.attempts {
            return None;
        }
        Some(match retry.backoff {
            Backoff::Constant(span) => span,
            Backoff::Exponential { first, factor, max, jitter } => {
                let exponent = f64::from(attempt.request.attempt);
                let span = (first.as_secs_f64() * libm::pow(factor, exponent)).min(max.as_secs_f64());
                seconds(if jitter { span * self.chance.unit() } else { span })
            }
        })
    }
}

/// Someone who goes from page to page: a session or a browser.
#[derive(Clone, Debug)]
pub(super) struct User {
    pub(super) source: u16,
    pub(super) client: u32,
    pub(super) session: u32,
    pub(super) page: usize,
    /// Pages of the session so far.
    pub(super) pages: u32,
    /// Requests of the present page that are not answered.
    pub(super) outstanding: u32,
    /// What is outstanding is what the page shows; else the page itself.
    pub(super) embedding: bool,
    /// Something of the present page failed.
    pub(super) failed: bool,
    /// A client's patience ended in the present session.
    pub(super) timed_out: bool,
    /// Whether the session is in the totals.
    pub(super) measured: bool,
    /// Whether a session is under way; else it thinks before one.
    pub(super) begun: bool,
    pub(super) connection: Connection,
}

/// A user's connection and what it can resume from.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Connection {
    open_until: Timestamp,
    requests: u32,
    has_ticket: bool,
}

impl Connection {
    /// What the next request's connection begins with.
    pub(super) fn hello(&self, now: Timestamp, tls: &Tls) -> Hello {
        if now < self.open_until && tls.requests_max.is_none_or(|max| self.requests < max) {
            Hello::Open
        } else if self.has_ticket {
            Hello::Resumed
        } else {
            Hello::New
        }
    }

    /// A handshake is complete.
    pub(super) fn opened(&mut self, now: Timestamp, tls: &Tls) {
        *self = Self { open_until: now + tls.keep_alive, requests: 0, has_ticket: true };
    }

    /// A reply is there.
    pub(super) fn used(&mut self, now: Timestamp, tls: &Tls) {
        self.requests += 1;
        if self.open_until > Timestamp::EPOCH {
            self.open_until = now + tls.keep_alive;
        }
    }

    /// It is closed.
    pub(super) fn closed(&mut self) {
        self.open_until = Timestamp::EPOCH;
    }
}

/// Where a user goes from a page; `None`: the session ends.
pub(super) fn next_page(site: &Site, page: usize, random: &mut Random) -> Option<usize> {
    let mut point = random.unit();
    for (next, probability) in &site.pages.get(page)?.next {
        if point < *probability {
            return Some(*next);
        }
        point -= probability;
    }
    None
}
