//! The queue of one class: bounded, with an order within, deadlines, and removal from anywhere.
//!
//! A class has one queue, kept as eight lists by the requests' priority (rules and RFC 9218 can give
//! requests of one class different ones). The next request of a class is the highest priority's;
//! within a priority the discipline decides:
//!
//! - FIFO: the one that arrived first;
//! - LIFO: the one that arrived last;
//! - adaptive LIFO: FIFO while the queue turns over within `stands_after`, LIFO while it does not. (Facebook's,
//!   "Fail at Scale", ACM Queue 13(8), 2015; there the switch is by length, here by the time a newcomer would
//!   wait, which needs no knowledge of the rate.)
//!
//! The lists are doubly linked through the table of waiting requests: a request leaves from anywhere
//! in O(1), and O(log n) more if it has a deadline (a heap whose entries know their place). Each list is in order of arrival,
//! so the longest waiting is the oldest of at most eight heads.
//!
//! A queue need not be bounded (`queue.mode`): then nobody's wait or deadline ends, CoDel is not asked, and of lengths only
//! [`LEN_MAX`] and [`BYTES_MAX`] hold, for memory's sake. Deadlines stay an order ("earliest deadline first"). When it is
//! bounded again, nobody is refused for what was before: waits begin anew, and a deadline that has passed is forgotten.

mod codel;
mod deadlines;
mod table;
#[cfg(test)]
mod tests;
mod turnover;
mod turns;

use std::time::Duration;

pub use codel::Codel;
use deadlines::Deadlines;
pub(crate) use table::{Entry, NIL, Newcomer, Phase, WaitTable};
use turnover::Turnover;
pub use turns::{STANDS_AFTER, Turns};

use crate::{Timestamp, knobs::Discipline};

/// Priorities 0 to 7.
const PRIORITIES: usize = 8;

/// Requests of a class that wait at once at most while [`QueueSettings::max`] does not act, unless that is higher.
pub const LEN_MAX: usize = 100_000;

/// Bytes of their heads while [`QueueSettings::bytes_max`] does not act, unless that is higher.
pub const BYTES_MAX: u64 = 64 << 20;

/// Bounds and order of a class's queue; see the knobs `queue.*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueSettings {
    /// Requests waiting at once.
    pub max: usize,
    /// Bytes of their heads.
    pub bytes_max: u64,
    /// Longest wait.
    pub wait_max: Option<Duration>,
    /// Order within a priority.
    pub discipline: Discipline,
    /// Adaptive LIFO: the queue stands while it takes at least this long to turn over.
    pub stands_after: Duration,
    /// CoDel's target and interval; `None`: off.
    pub codel: Option<(Duration, Duration)>,
}

/// How one leaves a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// It starts.
    Started,
    /// It is refused, or its client has left.
    Gone,
}

#[derive(Clone, Copy, Debug)]
struct List {
    oldest: u32,
    newest: u32,
}

/// The queue of one class. Entries live in the [`WaitTable`] that is passed to each call.
#[derive(Clone, Debug)]
pub(crate) struct ClassQueue {
    settings: QueueSettings,
    /// Since when the bounds act; `None`: they do not.
    bounded_since: Option<Timestamp>,
    lists: [List; PRIORITIES],
    /// Bit p: the list of priority p is not empty.
    occupied: u8,
    len: usize,
    bytes: u64,
    turnover: Turnover,
    deadlines: Deadlines,
    codel: Option<Codel>,
}

impl ClassQueue {
    /// An empty queue whose bounds act.
    pub(crate) fn new(settings: QueueSettings) -> Self {
        Self {
            settings,
            bounded_since: Some(Timestamp::EPOCH),
            lists: [List { oldest: NIL, newest: NIL }; PRIORITIES],
            occupied: 0,
            len: 0,
            bytes: 0,
            turnover: Turnover::new(Timestamp::EPOCH),
            deadlines: Deadlines::default(),
            codel: settings.codel.map(|(target, interval)| Codel::new(target, interval)),
        }
    }

    /// New settings, and whether the bounds act; what waits stays, also over a new bound.
    pub(crate) fn configure(
        &mut self,
        table: &mut WaitTable,
        settings: QueueSettings,
        is_bounded: bool,
        now: Timestamp,
    ) {
        self.settings = settings;
        match (is_bounded, self.bounded_since) {
            (false, _) => self.bounded_since = None,
            (true, Some(_)) => {}
            (true, None) => {
                self.bounded_since = Some(now);
                self.forget_passed(table, now);
            }
        }
        match (settings.codel.filter(|_| is_bounded), &mut self.codel) {
            (None, codel) => *codel = None,
            (Some((target, interval)), Some(codel)) => codel.configure(target, interval),
            (Some((target, interval)), codel) => *codel = Some(Codel::new(target, interval)),
        }
    }

    /// Forgets deadlines that have passed while they did not act.
    fn forget_passed(&mut self, table: &mut WaitTable, now: Timestamp) {
        while let Some(index) = self.deadlines.earliest()
            && table[index].deadline.is_some_and(|deadline| deadline <= now)
        {
            self.deadlines.remove(table, index);
            table[index].deadline = None;
        }
    }

    /// Whether the bounds act.
    pub(crate) const fn is_bounded(&self) -> bool {
        self.bounded_since.is_some()
    }

    /// Requests that may wait.
    pub(crate) fn len_max(&self) -> usize {
        if self.is_bounded() { self.settings.max } else { self.settings.max.max(LEN_MAX) }
    }

    /// Bytes of their heads.
    pub(crate) fn bytes_max(&self) -> u64 {
        if self.is_bounded() { self.settings.bytes_max } else { self.settings.bytes_max.max(BYTES_MAX) }
    }

    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Adds a newcomer; the bounds are the caller's to keep, since it may start at once.
    pub(crate) fn push(&mut self, table: &mut WaitTable, index: u32, now: Timestamp) {
        if self.len == 0 {
            self.turnover = Turnover::new(now);
        }
        let entry = &mut table[index];
        let priority = usize::from(entry.priority) % PRIORITIES;
        self.len += 1;
        self.bytes += u64::from(entry.bytes);
        self.occupied |= 1 << priority;
        let list = &mut self.lists[priority];
        entry.previous = list.newest;
        entry.next = NIL;
        if list.newest == NIL {
            list.oldest = index;
        } else {
            table[list.newest].next = index;
        }
        list.newest = index;
        self.deadlines.insert(table, index);
    }

    /// Takes a request out, wherever it stands.
    pub(crate) fn remove(&mut self, table: &mut WaitTable, index: u32, exit: Exit, now: Timestamp) {
        let entry = &mut table[index];
        let priority = usize::from(entry.priority) % PRIORITIES;
        let (previous, next) = (entry.previous, entry.next);
        entry.previous = NIL;
        entry.next = NIL;
        self.len -= 1;
        self.bytes -= u64::from(entry.bytes);
        let list = &mut self.lists[priority];
        if previous == NIL {
            list.oldest = next;
        } else {
            table[previous].next = next;
        }
        if next == NIL {
            list.newest = previous;
        } else {
            table[next].previous = previous;
        }
        if list.oldest == NIL {
            self.occupied &= !(1 << priority);
        }
        self.deadlines.remove(table, index);
        self.turnover.removed(exit, self.len, now);
        if self.len == 0
            && let Some(codel) = &mut self.codel
        {
            codel.emptied();
        }
    }

    /// Whether the order is last come, first served at `now`.
    pub(crate) fn is_lifo(&self, now: Timestamp) -> bool {
        match self.settings.discipline {
            Discipline::Fifo => false,
            Discipline::Lifo => true,
            Discipline::AdaptiveLifo => {
                self.len > 0 && self.turnover.at_least(self.settings.stands_after, now)
            }
        }
    }

    /// Adaptive LIFO: when the order turns if nobody goes until then, if that is after `now`.
    pub(crate) fn turns_at(&self, now: Timestamp) -> Option<Timestamp> {
        (self.settings.discipline == Discipline::AdaptiveLifo && self.len > 0 && !self.is_lifo(now))
            .then(|| self.turnover.since() + self.settings.stands_after)
    }

    /// The next request by priority and discipline.
    pub(crate) fn next(&self, now: Timestamp) -> Option<u32> {
        let priority = self.occupied.checked_ilog2()?;
        let list = self.lists[priority as usize];
        Some(if self.is_lifo(now) { list.newest } else { list.oldest })
    }

    /// The request that has waited longest.
    pub(crate) fn oldest(&self, table: &WaitTable) -> Option<u32> {
        self.lists
            .iter()
            .map(|list| list.oldest)
            .filter(|index| *index != NIL)
            .min_by_key(|index| table[*index].sequence)
    }

    /// The request with the earliest deadline, if any has one.
    pub(crate) fn earliest_deadline(&self) -> Option<u32> {
        self.deadlines.earliest()
    }

    /// The request that goes when a later one displaces it: the oldest of the lowest priority.
    pub(crate) fn least(&self) -> Option<u32> {
        (self.occupied != 0).then(|| self.lists[self.occupied.trailing_zeros() as usize].oldest)
    }

    /// When the oldest has waited as long as it may.
    pub(crate) fn wait_expires(&self, table: &WaitTable) -> Option<(u32, Timestamp)> {
        let (wait_max, since) = (self.settings.wait_max?, self.bounded_since?);
        let oldest = self.oldest(table)?;
        Some((oldest, table[oldest].arrived.max(since) + wait_max))
    }

    /// When the first deadline passes, if deadlines act.
    pub(crate) fn deadline_passes(&self, table: &WaitTable) -> Option<(u32, Timestamp)> {
        let index = self.deadlines.earliest().filter(|_| self.is_bounded())?;
        Some((index, table[index].deadline?))
    }

    /// Whether CoDel drops this request, which is about to start.
    pub(crate) fn codel_drops(&mut self, entry: &Entry, now: Timestamp) -> bool {
        let behind = self.len - 1;
        self.codel.as_mut().is_some_and(|codel| codel.drops(now, now.since(entry.arrived), behind))
    }

    /// Requests in order of arrival within each priority.
    pub(crate) fn iter<'t>(&'t self, table: &'t WaitTable) -> impl Iterator<Item = u32> + 't {
        self.lists.iter().flat_map(|list| {
            std::iter::successors(Some(list.oldest).filter(|i| *i != NIL), |index| {
                Some(table[*index].next).filter(|i| *i != NIL)
            })
        })
    }

    pub(crate) fn check_invariants(&self, table: &WaitTable) {
        let (mut len, mut bytes, mut deadlines) = (0, 0, 0);
        for (priority, list) in self.lists.iter().enumerate() {
            assert_eq!(
                list.oldest != NIL,
                self.occupied & (1 << priority) != 0,
                "occupied tells empty lists"
            );
            let (mut previous, mut index) = (NIL, list.oldest);
            while index != NIL {
                let entry = &table[index];
                assert_eq!(entry.phase, Phase::Waiting, "what is queued waits");
                assert_eq!(entry.previous, previous, "links go both ways");
                assert_eq!(usize::from(entry.priority), priority, "in the list of its priority");
                assert!(previous == NIL || table[previous].sequence < entry.sequence, "in order of arrival");
                assert_eq!(entry.deadline.is_some(), entry.deadline_position != NIL, "deadlines are kept");
                len += 1;
                bytes += u64::from(entry.bytes);
                deadlines += usize::from(entry.deadline.is_some());
                (previous, index) = (index, entry.next);
            }
            assert_eq!(list.newest, previous, "the list ends at its newest");
        }
        assert_eq!((self.len, self.bytes, self.deadlines.len()), (len, bytes, deadlines), "counts are true");
        self.deadlines.check_invariants(table);
    }
}
