//! The state of one application's server: threads, backlog, database, memory, faults.

use std::collections::VecDeque;

use tidegate_control::Timestamp;

use super::processors::Processors;
use crate::{
    Random,
    scenario::{Server, Sharing, Trouble},
};

/// What became of a request that came to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// It has a thread.
    Thread,
    /// It waits for one.
    Backlog,
    /// There was no place.
    Refused,
}

#[derive(Debug)]
pub(super) struct ServerState<'s> {
    pub(super) settings: &'s Server,
    pub(super) threads_busy: u32,
    pub(super) backlog: VecDeque<u64>,
    /// The database's processors; one group.
    pub(super) database: Option<Processors>,
    connections_busy: u32,
    connections_waited_for: VecDeque<(u64, f64)>,
    /// Bytes of garbage since the last collection.
    garbage: u64,
    collecting: bool,
    /// Faults that are present.
    stalls: u32,
    slow: Vec<f64>,
    errors: Vec<f64>,
    random: Random,
}

impl<'s> ServerState<'s> {
    pub(super) fn new(settings: &'s Server, random: Random, now: Timestamp) -> Self {
        Self {
            settings,
            threads_busy: 0,
            backlog: VecDeque::new(),
            database: settings.database.map(|database| {
                let mut processors = Processors::new(database.processors, Sharing::Threads, now);
                processors.group(None, 1, database.switching);
                processors
            }),
            connections_busy: 0,
            connections_waited_for: VecDeque::new(),
            garbage: 0,
            collecting: false,
            stalls: 0,
            slow: Vec::new(),
            errors: Vec::new(),
            random,
        }
    }

    /// A request comes.
    pub(super) fn take(&mut self, id: u64) -> Taken {
        if self.settings.threads.is_none_or(|threads| self.threads_busy < threads) {
            self.threads_busy += 1;
            return Taken::Thread;
        }
        if self.settings.backlog.is_some_and(|max| self.backlog.len() >= max as usize) {
            return Taken::Refused;
        }
        self.backlog.push_back(id);
        Taken::Backlog
    }

    /// A thread is done: the request it takes next from the backlog keeps it busy.
    pub(super) fn next(&mut self) -> Option<u64> {
        let next = self.backlog.pop_front();
        if next.is_none() {
            self.threads_busy -= 1;
        }
        next
    }

    /// Whether a fault makes the request that begins now an error.
    pub(super) fn fails(&mut self) -> bool {
        let random = &mut self.random;
        self.errors.iter().any(|share| random.chance(*share))
    }

    /// A request begins: it makes garbage. If that fills the heap, how many seconds a collection takes.
    #[expect(clippy::cast_precision_loss, reason = "bytes as seconds")]
    pub(super) fn allocate(&mut self) -> Option<f64> {
        let collector = self.settings.collector?;
        let held = (u64::from(self.threads_busy) + self.backlog.len() as u64) * collector.held;
        let live = collector.live + held;
        let room = collector.heap.saturating_sub(live).max(collector.room_min);
        self.garbage += collector.garbage;
        if self.collecting || self.garbage < room {
            return None;
        }
        self.garbage = 0;
        self.collecting = true;
        Some(live as f64 / collector.rate.max(1) as f64)
    }

    /// A collection is over.
    pub(super) fn collected(&mut self) {
        self.collecting = false;
    }

    /// A fault begins or ends.
    pub(super) fn trouble(&mut self, what: Trouble, begins: bool) {
        let change = |list: &mut Vec<f64>, value: f64| {
            if begins {
                list.push(value);
            } else if let Some(position) = list.iter().position(|other| other.to_bits() == value.to_bits()) {
                list.remove(position);
            }
        };
        match what {
            Trouble::Stall if begins => self.stalls += 1,
            Trouble::Stall => self.stalls -= 1,
            Trouble::Slow(pace) => change(&mut self.slow, pace),
            Trouble::Errors(share) => change(&mut self.errors, share),
        }
    }

    /// Share of its speed at which it works.
    pub(super) fn pace(&self) -> f64 {
        if self.stalls > 0 || self.collecting { 0.0 } else { self.slow.iter().product() }
    }

    /// A request comes to the database for so many seconds.
    pub(super) fn query(&mut self, now: Timestamp, id: u64, work: f64) {
        let (Some(database), Some(settings)) = (&mut self.database, self.settings.database) else { return };
        if self.connections_busy < settings.connections {
            self.connections_busy += 1;
            database.begin(now, 0, 0, work, id);
        } else {
            self.connections_waited_for.push_back((id, work));
        }
    }

    /// The database is done with the request that was due now; another takes its connection.
    pub(super) fn queried(&mut self, now: Timestamp) -> Option<u64> {
        let database = self.database.as_mut()?;
        let id = database.end(now)?;
        match self.connections_waited_for.pop_front() {
            Some((next, work)) => database.begin(now, 0, 0, work, next),
            None => self.connections_busy -= 1,
        }
        Some(id)
    }
}
