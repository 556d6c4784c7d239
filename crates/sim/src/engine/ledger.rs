//! The ledger of one application: counts, times and rows, as they come.

use std::{collections::VecDeque, time::Duration};

use tidegate_control::{ClassId, Timestamp, meters::Distribution};

use super::attempts::Attempt;
use crate::{
    front::{Levels, ServerView},
    result::{ClientCounts, Counts, Row, RunResult, Sessions, Tick},
    scenario::{Application, START, Scenario},
};

const SECOND: Duration = Duration::from_secs(1);

/// Clients that have totals of their own.
const CLIENTS_MAX: usize = 100_000;

#[derive(Debug)]
pub(super) struct Ledger {
    classes: Vec<Counts>,
    good_within: Vec<Duration>,
    clients: Vec<ClientCounts>,
    pub(super) sessions: Sessions,
    series: Vec<Row>,
    tick: Vec<Tick>,
    responses: Vec<Distribution>,
    tick_began: Timestamp,
    /// The newest first asking of those started until then, by time of start, over the last second.
    newest: VecDeque<(Timestamp, Timestamp)>,
    newest_before: Timestamp,
}

impl Ledger {
    pub(super) fn new(application: &Application) -> Self {
        let classes = application.classes.len();
        Self {
            classes: vec![Counts::default(); classes],
            good_within: application.classes.iter().map(|class| class.good_within).collect(),
            clients: Vec::new(),
            sessions: Sessions::default(),
            series: Vec::new(),
            tick: vec![Tick::default(); classes],
            responses: vec![Distribution::default(); classes],
            tick_began: START,
            newest: VecDeque::new(),
            newest_before: Timestamp::EPOCH,
        }
    }

    /// A client sends an attempt.
    pub(super) fn sent(&mut self, attempt: &Attempt) {
        let first = attempt.request.attempt == 0;
        let tick = &mut self.tick[class(attempt)];
        tick.arrived += 1;
        tick.offered += u64::from(first);
        if attempt.measured {
            let counts = &mut self.classes[class(attempt)];
            counts.arrived += 1;
            if first {
                counts.offered += 1;
                if let Some(client) = client(&mut self.clients, attempt) {
                    client.offered += 1;
                }
            }
        }
    }

    /// Its client is gone without anybody being told.
    pub(super) fn lost(&mut self, attempt: &Attempt) {
        if attempt.measured {
            self.classes[class(attempt)].lost += 1;
        }
    }

    /// Its client is told a time for the first time.
    pub(super) fn told(&mut self, attempt: &Attempt) {
        if attempt.measured {
            self.classes[class(attempt)].told += 1;
        }
    }

    /// He will not come.
    pub(super) fn no_show(&mut self, attempt: &Attempt) {
        if attempt.measured {
            self.classes[class(attempt)].no_shows += 1;
        }
    }

    /// It goes on to the server.
    pub(super) fn started(&mut self, attempt: &Attempt, now: Timestamp) {
        self.tick[class(attempt)].started += 1;
        while let Some((_, newest)) = self.newest.pop_front_if(|(at, _)| *at + SECOND < now) {
            self.newest_before = self.newest_before.max(newest);
        }
        let first = attempt.request.first_sent;
        let overtaken = self.newest_before > first;
        if self.newest.back().is_none_or(|(_, newest)| *newest < first) {
            self.newest.push_back((now, first));
        }
        if attempt.measured {
            let counts = &mut self.classes[class(attempt)];
            counts.started += 1;
            counts.overtaken += u64::from(overtaken);
            counts.overtaken_s += self.newest_before.since(first).as_secs_f64();
            counts.waiting.record(now.since(attempt.arrived));
        }
    }

    /// It is refused.
    pub(super) fn refused(&mut self, attempt: &Attempt, reason: &'static str) {
        self.tick[class(attempt)].refused += 1;
        if attempt.measured {
            *self.classes[class(attempt)].refused.entry(reason).or_default() += 1;
        }
    }

    /// Its client gives up.
    pub(super) fn timed_out(&mut self, attempt: &Attempt) {
        self.tick[class(attempt)].timed_out += 1;
        if attempt.measured {
            self.classes[class(attempt)].timed_out += 1;
        }
    }

    /// The front sees that it has left while it waited.
    pub(super) fn left(&mut self, attempt: &Attempt) {
        if attempt.measured {
            self.classes[class(attempt)].left += 1;
        }
    }

    /// Its handshake is complete.
    pub(super) fn shaken(&mut self, attempt: &Attempt, work_s: f64, in_vain: bool) {
        if attempt.measured {
            let counts = &mut self.classes[class(attempt)];
            counts.work_s += work_s;
            if in_vain {
                counts.wasted_s += work_s;
            }
        }
    }

    /// The server has ended it.
    pub(super) fn ended(&mut self, attempt: &Attempt, now: Timestamp, work_s: f64, in_vain: bool) {
        if !attempt.measured {
            return;
        }
        let counts = &mut self.classes[class(attempt)];
        counts.work_s += work_s;
        if in_vain {
            counts.wasted_s += work_s;
        }
        counts.errors += u64::from(attempt.fails);
        counts.service.record(now.since(attempt.started));
    }

    /// A reply without error is there.
    pub(super) fn replied(&mut self, attempt: &Attempt, now: Timestamp) {
        let response_time = now.since(attempt.request.first_sent);
        let good = response_time <= self.good_within[class(attempt)];
        let tick = &mut self.tick[class(attempt)];
        tick.replied += 1;
        tick.good += u64::from(good);
        self.responses[class(attempt)].record(nanos(response_time), 1);
        if attempt.measured {
            let counts = &mut self.classes[class(attempt)];
            counts.replied += 1;
            counts.good += u64::from(good);
            counts.response.record(response_time);
            if attempt.request.promise.is_some() {
                counts.from_return.record(now.since(attempt.request.sent));
            }
            if attempt.cheated {
                counts.cheated.record(response_time);
            }
            if good && let Some(client) = client(&mut self.clients, attempt) {
                client.good += 1;
            }
        }
    }

    /// A tick is over.
    pub(super) fn tick(&mut self, now: Timestamp, levels: &Levels, server: &ServerView) {
        for (tick, responses) in self.tick.iter_mut().zip(&mut self.responses) {
            if responses.count() > 0 {
                let mean = responses.sum_nanos() / u128::from(responses.count());
                tick.response_mean = Some(Duration::from_nanos(u64::try_from(mean).unwrap_or(u64::MAX)));
                tick.response_p95 = responses.quantile(0.95).map(Duration::from_nanos);
                *responses = Distribution::default();
            }
        }
        let classes = self.tick.len();
        self.series.push(Row {
            at: now.since(START),
            length: now.since(self.tick_began),
            classes: std::mem::replace(&mut self.tick, vec![Tick::default(); classes]),
            in_flight: levels.in_flight,
            limit: levels.limit,
            queued: levels.queued,
            capacity: levels.capacity,
            changes: levels.changes,
            backlog: server.backlog,
            threads_busy: server.threads_busy,
            busy: server.busy,
            processors: server.processors,
        });
        self.tick_began = now;
    }

    pub(super) fn close(self, scenario: &Scenario, hash: u64, requests: u64) -> RunResult {
        RunResult {
            measured: scenario.duration.saturating_sub(scenario.warm_up),
            classes: self.classes,
            clients: self.clients,
            sessions: self.sessions,
            series: self.series,
            hash,
            requests,
        }
    }
}

const fn class(attempt: &Attempt) -> usize {
    let ClassId(class) = attempt.request.class;
    class as usize
}

fn client<'c>(clients: &'c mut Vec<ClientCounts>, attempt: &Attempt) -> Option<&'c mut ClientCounts> {
    let client = attempt.request.client as usize;
    if client >= CLIENTS_MAX {
        return None;
    }
    if clients.len() <= client {
        clients.resize(client + 1, ClientCounts::default());
    }
    clients.get_mut(client)
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
