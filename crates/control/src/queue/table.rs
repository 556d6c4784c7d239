//! The table of requests that wait or whose verdict has not been collected.
//!
//! A [`Ticket`] is an index into it and the generation of that entry, so that a ticket used twice or
//! too late is recognised. Entries are reused; the table is as large as the most that ever waited at
//! once, which the queues bound.

use crate::{ClassId, Refusal, Ticket, Timestamp, roster::Place};

/// No entry.
pub(crate) const NIL: u32 = u32::MAX;

/// What has become of a waiting request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The entry is free; `next` is the free list.
    Free,
    /// It waits in its class's queue.
    Waiting,
    /// It may start; its permit is held here until it is collected.
    Granted {
        /// When.
        started: Timestamp,
        /// Weight in flight just after.
        in_flight: u32,
        /// Where its class finds it.
        place: Place,
    },
    /// It was refused; nobody has been told yet.
    Refused(Refusal),
}

/// A request that waits.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    generation: u32,
    pub(crate) phase: Phase,
    pub(crate) class: ClassId,
    /// At most 7.
    pub(crate) priority: u8,
    /// Whether somebody holds its ticket and is to be told of the verdict.
    pub(crate) announced: bool,
    /// Of a shadow: whether the request it stands for has started in truth.
    pub(crate) begun: bool,
    /// Of a request in truth: its shadow, if it has one.
    pub(crate) shadow: Option<Ticket>,
    /// Of a request in truth: what only watches would have refused it already.
    pub(crate) would_refuse: Option<Refusal>,
    pub(crate) weight: u32,
    pub(crate) bytes: u32,
    pub(crate) arrived: Timestamp,
    pub(crate) deadline: Option<Timestamp>,
    /// Number of the arrival: unique, so that no decision depends on ties.
    pub(crate) sequence: u64,
    /// Neighbours in the list of its priority; `next` is the free list if the entry is free.
    pub(crate) previous: u32,
    pub(crate) next: u32,
    /// Position among its class's deadlines; [`NIL`] if it has none.
    pub(crate) deadline_position: u32,
}

/// What is known of a request when it begins to wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Newcomer {
    pub(crate) class: ClassId,
    pub(crate) priority: u8,
    pub(crate) weight: u32,
    pub(crate) bytes: u32,
    pub(crate) arrived: Timestamp,
    pub(crate) deadline: Option<Timestamp>,
    pub(crate) sequence: u64,
    pub(crate) begun: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct WaitTable {
    entries: Vec<Entry>,
    free: u32,
    used: u32,
}

impl WaitTable {
    pub(crate) const fn new() -> Self {
        Self { entries: Vec::new(), free: NIL, used: 0 }
    }

    /// Takes an entry; `None` when 2³²−1 are in use.
    pub(crate) fn insert(&mut self, newcomer: Newcomer) -> Option<u32> {
        let entry = |generation| Entry {
            generation,
            phase: Phase::Waiting,
            class: newcomer.class,
            priority: newcomer.priority,
            announced: false,
            begun: newcomer.begun,
            shadow: None,
            would_refuse: None,
            weight: newcomer.weight,
            bytes: newcomer.bytes,
            arrived: newcomer.arrived,
            deadline: newcomer.deadline,
            sequence: newcomer.sequence,
            previous: NIL,
            next: NIL,
            deadline_position: NIL,
        };
        let index = if self.free == NIL {
            let index = u32::try_from(self.entries.len()).ok().filter(|index| *index != NIL)?;
            self.entries.push(entry(0));
            index
        } else {
            let index = self.free;
            let slot = &mut self.entries[index as usize];
            self.free = slot.next;
            *slot = entry(slot.generation);
            index
        };
        self.used += 1;
        Some(index)
    }

    /// Frees an entry that is in no list any more. Its tickets become stale.
    pub(crate) fn remove(&mut self, index: u32) {
        let entry = &mut self.entries[index as usize];
        debug_assert!(entry.phase != Phase::Free && entry.deadline_position == NIL);
        entry.phase = Phase::Free;
        entry.generation = entry.generation.wrapping_add(1);
        entry.previous = NIL;
        entry.next = self.free;
        self.free = index;
        self.used -= 1;
    }

    pub(crate) fn ticket(&self, index: u32) -> Ticket {
        Ticket { index, generation: self[index].generation }
    }

    /// The entry of a ticket; `None` if the ticket is stale.
    pub(crate) fn find(&self, ticket: Ticket) -> Option<u32> {
        let entry = self.entries.get(ticket.index as usize)?;
        (entry.generation == ticket.generation && entry.phase != Phase::Free).then_some(ticket.index)
    }

    /// Entries in use.
    pub(crate) const fn used(&self) -> u32 {
        self.used
    }

    /// Entries in use, by index.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Entry)> {
        (0..).zip(&self.entries).filter(|(_, entry)| entry.phase != Phase::Free)
    }
}

impl std::ops::Index<u32> for WaitTable {
    type Output = Entry;

    fn index(&self, index: u32) -> &Entry {
        &self.entries[index as usize]
    }
}

impl std::ops::IndexMut<u32> for WaitTable {
    fn index_mut(&mut self, index: u32) -> &mut Entry {
        &mut self.entries[index as usize]
    }
}
