//! Clients who wait: for a promised time, for a retry, or because they think.
//!
//! A waiting client is a boxed visitor and an entry of a heap, no task, no timer and, when it was told
//! to come back, no connection: a few hundred bytes, most of them the URL and the cookies it was given.

use std::{
    cell::RefCell,
    cmp::Reverse,
    collections::BinaryHeap,
    time::{Duration, Instant},
};

use tokio::sync::Notify;

use super::visitor::Visitor;

/// What a parked visitor waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// The pause before its next request, which belongs to the run.
    Think,
    /// The pause before a retry.
    Retry,
    /// The time it was told to come back at.
    Promise,
}

/// Visitors by when they go on.
pub(super) struct Parked {
    begin: Instant,
    heap: RefCell<BinaryHeap<Reverse<Entry>>>,
    /// Somebody goes on earlier than was known.
    pub(super) earlier: Notify,
}

struct Entry {
    due_ns: u64,
    why: Why,
    visitor: Box<Visitor>,
}

impl Parked {
    pub(super) fn new(begin: Instant) -> Self {
        Self { begin, heap: RefCell::default(), earlier: Notify::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.heap.borrow().len()
    }

    pub(super) fn push(&self, due: Instant, why: Why, visitor: Box<Visitor>) {
        let since = due.saturating_duration_since(self.begin);
        let due_ns = u64::try_from(since.as_nanos()).unwrap_or(u64::MAX);
        let mut heap = self.heap.borrow_mut();
        if heap.peek().is_none_or(|Reverse(first)| due_ns < first.due_ns) {
            self.earlier.notify_one();
        }
        heap.push(Reverse(Entry { due_ns, why, visitor }));
    }

    /// When the next one goes on.
    pub(super) fn next_due(&self) -> Option<Instant> {
        let heap = self.heap.borrow();
        heap.peek().map(|Reverse(first)| self.begin + Duration::from_nanos(first.due_ns))
    }

    /// Somebody who goes on by `now`, with when that was meant to be.
    pub(super) fn pop_due(&self, now: Instant) -> Option<(Instant, Why, Box<Visitor>)> {
        let due = self.next_due().filter(|due| *due <= now)?;
        let Reverse(entry) = self.heap.borrow_mut().pop()?;
        Some((due, entry.why, entry.visitor))
    }

    /// Takes out everyone, or only those who think.
    pub(super) fn take(&self, everyone: bool) -> Vec<(Why, Box<Visitor>)> {
        let mut heap = self.heap.borrow_mut();
        let (gone, stay): (Vec<_>, Vec<_>) =
            heap.drain().partition(|Reverse(entry)| everyone || entry.why == Why::Think);
        *heap = BinaryHeap::from(stay);
        gone.into_iter().map(|Reverse(entry)| (entry.why, entry.visitor)).collect()
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.due_ns == other.due_ns
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.due_ns.cmp(&other.due_ns)
    }
}
