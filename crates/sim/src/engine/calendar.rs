//! The calendar: what is to happen, by time; of equal times, what was noted first.

use std::{cmp::Reverse, collections::BinaryHeap};

use tidegate_control::Timestamp;

/// Something that is to happen. Attempts are named by their id, so that what has gone is recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    /// The next arrival of a source.
    Arrival { application: u16, source: u16 },
    /// A client sends.
    Send(u64),
    /// The browser of who waits asks how things stand.
    Look(u64),
    /// A request reaches the front.
    Reach(u64),
    /// The news that a client has closed reaches the front.
    Gone(u64),
    /// A reply reaches its client.
    Reply(u64),
    /// A user has thought.
    Thought { application: u16, user: u32 },
    /// The number of browsers changes.
    Browsers { application: u16, source: u16, step: u32 },
    /// A fault of a server begins or ends.
    Fault { application: u16, fault: u16, begins: bool },
    /// A collection of memory is over.
    Collected { application: u16 },
    /// The host's speed changes.
    Speed { change: u16 },
    /// Processors are assigned anew.
    Manager,
    /// A tick is over.
    Tick,
}

#[derive(Debug, Default)]
pub(super) struct Calendar {
    heap: BinaryHeap<Reverse<(Timestamp, u64, Event)>>,
    noted: u64,
}

impl Calendar {
    pub(super) fn note(&mut self, at: Timestamp, event: Event) {
        self.noted += 1;
        self.heap.push(Reverse((at, self.noted, event)));
    }

    /// When the next is due.
    pub(super) fn next(&self) -> Timestamp {
        self.heap.peek().map_or(Timestamp::FAR_FUTURE, |Reverse((at, ..))| *at)
    }

    pub(super) fn take(&mut self) -> Option<Event> {
        self.heap.pop().map(|Reverse((.., event))| event)
    }
}
