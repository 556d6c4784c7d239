//! Breakwater: clients send what they have credits for, and the server grants credits by its queueing delay.
//!
//! Source: Cho et al., "Overload control for µs-scale RPCs with Breakwater", OSDI 2020, section 3; α and β
//! from section 5.1.
//!
//! ```text
//! each round-trip time, d being the queueing delay, n the clients:
//!   C += max(0.001 n, …)                          if d < target             (3.2, eq. 1)
//!   C *= max(1 - 0.02 (d - target)/target, 0.5)   otherwise                 (3.2, eq. 2)
//! with each reply to client x:
//!   o  = max((C - issued)/n, 1)                                             (overcommitment, 3.3)
//!   c  = min(pending + demand + o, c + C - issued)       while issued < C
//!        c - 1                                           while issued > C
//! a request that meets a queue of more than twice the target is dropped     (3.4)
//! a client drops what has waited too long for a credit                      (3.4)
//! ```
//!
//! Deviations:
//!
//! 1. Target, round-trip time and the client's patience, microseconds in the paper, are multiples of the
//!    mean work of a request: 5, 0.1 and 1, as the authors' configuration has them for their longest work
//!    (100 µs: 500 µs, 10 µs) and, for the patience, their usual one (10 µs: 10 µs).
//! 2. Credits and demand travel in no time, as the simulated network does.
//! 3. Clients without credit that have sent nothing for as long as the patience, and whose demand is
//!    therefore unknown, are served in the order in which they ran dry (the authors' two lists).
//! 4. Additive increase accumulates fractions of a credit, as the authors' program does.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque, btree_map::Entry},
    time::Duration,
};

use tidegate_control::Timestamp;
use tidegate_sim::{Done, Front, Levels, Request, Verdict};

use super::{Constant, Constants, SPAN, Surroundings, ratio};

pub(super) const CONSTANTS: &[Constant] = &[
    Constant {
        name: "target",
        kind: SPAN,
        doc: "Queueing delay up to which credits grow; five times the mean work.",
    },
    Constant { name: "round_trip", kind: SPAN, doc: "Time between adjustments; a tenth of the mean work." },
    Constant {
        name: "patience",
        kind: SPAN,
        doc: "How long a request waits at its client for a credit; the mean work.",
    },
    Constant {
        name: "alpha",
        kind: ratio(0.0, 1.0),
        doc: "Credits added a round trip for each client; 0.001.",
    },
    Constant { name: "beta", kind: ratio(0.0, 1.0), doc: "Weight of the multiplicative decrease; 0.02." },
];

/// The server's pool and its clients.
#[derive(Clone, Debug)]
pub struct Breakwater {
    target_s: f64,
    round_trip: Duration,
    patience: Duration,
    alpha: f64,
    beta: f64,
    /// At least one credit a thread.
    pool_min: f64,
    pool: f64,
    issued: f64,
    clients: BTreeMap<u32, Client>,
    /// Clients without credit that have demand: the last first (they surely still have it).
    drained_with_demand: Vec<u32>,
    /// Clients without credit of whose demand nothing is known: the first first.
    drained: VecDeque<u32>,
    /// Requests that wait at clients, by when they are dropped.
    expiring: BTreeSet<(Timestamp, u64, u32)>,
    /// Sent on and not begun, with their start.
    queue: BTreeMap<u64, Timestamp>,
    adjust_at: Option<Timestamp>,
    decided: Vec<(u64, Verdict)>,
    in_flight: u64,
}

#[derive(Clone, Debug, Default)]
struct Client {
    credits: f64,
    /// Sent and not answered.
    pending: u32,
    /// Waiting for a credit: when dropped, and id.
    waiting: VecDeque<(Timestamp, u64)>,
    is_drained: bool,
    /// Whether it stands among those with demand.
    is_listed: bool,
}

impl Breakwater {
    /// With the published constants where none are set.
    #[must_use]
    pub fn new(constants: &Constants, surroundings: &Surroundings) -> Self {
        let work = surroundings.work;
        let pool_min = f64::from(surroundings.threads.max(1));
        Self {
            target_s: constants.span("target", work * 5).as_secs_f64(),
            round_trip: constants.span("round_trip", work / 10),
            patience: constants.span("patience", work),
            alpha: constants.ratio("alpha", 0.001),
            beta: constants.ratio("beta", 0.02),
            pool_min,
            pool: pool_min,
            issued: 0.0,
            clients: BTreeMap::new(),
            drained_with_demand: Vec::new(),
            drained: VecDeque::new(),
            expiring: BTreeSet::new(),
            queue: BTreeMap::new(),
            adjust_at: None,
            decided: Vec::new(),
            in_flight: 0,
        }
    }

    fn delay_s(&self, now: Timestamp) -> f64 {
        self.queue.first_key_value().map_or(0.0, |(_, since)| now.since(*since).as_secs_f64())
    }

    #[expect(clippy::cast_precision_loss, reason = "a number of clients")]
    fn clients(&self) -> f64 {
        (self.clients.len() as f64).max(1.0)
    }

    /// Equations 1 and 2, and credits for clients that have none.
    fn adjust(&mut self, now: Timestamp) {
        let delay = self.delay_s(now);
        if delay < self.target_s {
            self.pool += self.alpha * self.clients();
        } else {
            let over = (delay - self.target_s) / self.target_s;
            let factor = (1.0 - self.beta * over).max(0.5);
            self.pool = (self.pool * factor).min(self.pool - 1.0);
        }
        self.pool = self.pool.max(self.pool_min);
        while self.issued + 1.0 <= self.pool {
            let Some(client) = self.next_drained() else { break };
            self.grant(now, client, 1.0);
        }
        self.adjust_at = Some(now + self.round_trip);
    }

    fn next_drained(&mut self) -> Option<u32> {
        loop {
            let number = match self.drained_with_demand.pop() {
                Some(number) => {
                    if let Some(client) = self.clients.get_mut(&number) {
                        client.is_listed = false;
                    }
                    number
                }
                None => self.drained.pop_front()?,
            };
            // One may stand in both lists, or have got credits with a reply.
            if let Some(client) = self.clients.get_mut(&number)
                && client.is_drained
            {
                client.is_drained = false;
                return Some(number);
            }
        }
    }

    /// Sets a client's credits and lets go what it may now send.
    fn grant(&mut self, now: Timestamp, number: u32, credits: f64) {
        let Some(client) = self.clients.get_mut(&number) else { return };
        self.issued += credits - client.credits;
        client.credits = credits;
        while f64::from(client.pending) < client.credits
            && let Some((expires, id)) = client.waiting.pop_front()
        {
            self.expiring.remove(&(expires, id, number));
            client.pending += 1;
            self.queue.insert(id, now);
            self.in_flight += 1;
            self.decided.push((id, Verdict::Start));
        }
        if client.credits < 1.0 && !client.is_drained {
            client.is_drained = true;
            if client.waiting.is_empty() {
                self.drained.push_back(number);
            } else if !client.is_listed {
                client.is_listed = true;
                self.drained_with_demand.push(number);
            }
        }
    }

    /// What a reply to a client brings it.
    fn credits_with_reply(&self, client: &Client) -> f64 {
        let unused = self.pool - self.issued;
        let over = (unused / self.clients()).max(1.0);
        #[expect(clippy::cast_precision_loss, reason = "requests of one client")]
        let wanted = f64::from(client.pending) + client.waiting.len() as f64 + over;
        let credits = if unused > 0.0 {
            wanted.min(client.credits + unused)
        } else if unused < 0.0 {
            client.credits - 1.0
        } else {
            client.credits
        };
        credits.min(wanted).max(f64::from(client.pending)).floor()
    }

    fn answered(&mut self, now: Timestamp, request: &Request) {
        if let Some(client) = self.clients.get_mut(&request.client) {
            client.pending = client.pending.saturating_sub(1);
        }
        if let Some(client) = self.clients.get(&request.client) {
            let credits = self.credits_with_reply(client);
            self.grant(now, request.client, credits);
        }
    }
}

impl Front for Breakwater {
    fn arrive(&mut self, now: Timestamp, request: &Request) -> Verdict {
        self.advance(now);
        if self.adjust_at.is_none() {
            self.adjust_at = Some(now + self.round_trip);
        }
        if let Entry::Vacant(place) = self.clients.entry(request.client) {
            // A new client registers and gets a credit if there is one.
            place.insert(Client::default());
            let credit = if self.issued + 1.0 <= self.pool { 1.0 } else { 0.0 };
            self.grant(now, request.client, credit);
        }
        let dropped = self.delay_s(now) > 2.0 * self.target_s;
        let Some(client) = self.clients.get_mut(&request.client) else { return Verdict::Refuse("credits") };
        if client.waiting.is_empty() && f64::from(client.pending) < client.credits {
            if dropped {
                return Verdict::Refuse("queueing_delay");
            }
            client.pending += 1;
            self.queue.insert(request.id, now);
            self.in_flight += 1;
            return Verdict::Start;
        }
        let expires = now + self.patience;
        client.waiting.push_back((expires, request.id));
        self.expiring.insert((expires, request.id, request.client));
        if client.is_drained && !client.is_listed {
            client.is_listed = true;
            self.drained_with_demand.push(request.client);
        }
        Verdict::Wait
    }

    fn leave(&mut self, _now: Timestamp, request: &Request) {
        let Some(client) = self.clients.get_mut(&request.client) else { return };
        if let Some(position) = client.waiting.iter().position(|(_, id)| *id == request.id)
            && let Some((expires, id)) = client.waiting.remove(position)
        {
            self.expiring.remove(&(expires, id, request.client));
        }
    }

    fn begun(&mut self, _now: Timestamp, request: &Request, _queued: Duration) {
        self.queue.remove(&request.id);
    }

    fn depart(&mut self, now: Timestamp, request: &Request, _done: &Done) {
        self.queue.remove(&request.id);
        self.in_flight -= 1;
        self.answered(now, request);
    }

    fn decided(&mut self, out: &mut Vec<(u64, Verdict)>) {
        out.append(&mut self.decided);
    }

    fn next_timeout(&self) -> Option<Timestamp> {
        let expires = self.expiring.first().map(|(expires, ..)| *expires);
        [expires, self.adjust_at].into_iter().flatten().min()
    }

    fn advance(&mut self, now: Timestamp) {
        while let Some((expires, id, number)) = self.expiring.first().copied()
            && expires <= now
        {
            self.expiring.pop_first();
            if let Some(client) = self.clients.get_mut(&number) {
                client.waiting.retain(|(_, waiting)| *waiting != id);
            }
            self.decided.push((id, Verdict::Refuse("credits")));
        }
        if self.adjust_at.is_some_and(|at| at <= now) {
            self.adjust(now);
        }
    }

    fn levels(&self) -> Levels {
        Levels {
            in_flight: self.in_flight,
            limit: Some(self.pool),
            queued: self.expiring.len() as u64,
            ..Levels::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use tidegate_sim::End;

    use super::*;
    use crate::baselines::testing::{request, surroundings};

    const START: Timestamp = Timestamp::from_nanos(1_000_000_000_000);

    fn after_ms(ms: u64) -> Timestamp {
        START + Duration::from_millis(ms)
    }

    #[test]
    fn the_pool_follows_the_equations_by_hand() {
        let mut law = Breakwater::new(&Constants::default(), &surroundings());
        for client in 0..100 {
            let _ = law.arrive(START, &request(client, START));
        }
        law.queue.clear();
        law.pool = 20.0;
        // Nothing queues: 100 clients · 0.001.
        law.adjust(START);
        assert!((law.pool - 20.1).abs() < 1e-9, "{}", law.pool);
        // 150 ms where 50 are to be: 1 - 0.02 · 2 = 0.96, but a credit at least.
        law.queue.insert(1, START);
        law.adjust(after_ms(150));
        assert!((law.pool - 19.1).abs() < 1e-9, "{}", law.pool);
        law.pool = 100.0;
        law.adjust(after_ms(150));
        assert!((law.pool - 96.0).abs() < 1e-9, "{}", law.pool);
    }

    #[test]
    fn without_a_credit_a_request_waits_and_is_dropped_at_the_client() {
        let mut law = Breakwater::new(&Constants::default(), &surroundings());
        assert_eq!(law.arrive(START, &request(1, START)), Verdict::Start, "the first of one credit");
        assert_eq!(law.arrive(START, &request(2, START)), Verdict::Wait);
        law.advance(after_ms(10));
        let mut decided = Vec::new();
        law.decided(&mut decided);
        assert_eq!(decided, [(2, Verdict::Refuse("credits"))]);
    }

    #[test]
    fn credits_are_never_lost_nor_made() {
        let mut law = Breakwater::new(&Constants::default(), &surroundings());
        let done = Done {
            end: End::Success,
            service_time: Duration::ZERO,
            queued: Duration::ZERO,
            abandoned: false,
        };
        let mut running: VecDeque<Request> = VecDeque::new();
        let mut known = BTreeMap::new();
        let mut decided = Vec::new();
        for step in 0..20_000_u64 {
            let now = START + Duration::from_millis(step);
            let mut arriving = request(u32::try_from(step * 7919 % 50).unwrap(), now);
            arriving.id = step;
            known.insert(step, arriving);
            if law.arrive(now, &arriving) == Verdict::Start {
                running.push_back(arriving);
            }
            if step % 3 == 0
                && let Some(request) = running.pop_front()
            {
                law.depart(now, &request, &done);
            }
            law.decided(&mut decided);
            for (id, verdict) in decided.drain(..) {
                if verdict == Verdict::Start {
                    running.push_back(known[&id]);
                }
            }
            let issued: f64 = law.clients.values().map(|client| client.credits).sum();
            assert!((issued - law.issued).abs() < 1e-6, "step {step}");
            let pending: u32 = law.clients.values().map(|client| client.pending).sum();
            assert_eq!(
                (pending as usize, law.in_flight as usize),
                (running.len(), running.len()),
                "step {step}"
            );
            assert!(
                law.clients.values().all(|client| f64::from(client.pending) <= client.credits),
                "step {step}"
            );
        }
    }
}
