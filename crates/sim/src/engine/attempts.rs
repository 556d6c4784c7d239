//! The table of attempts: requests that are somewhere between their client and the end of their work.

use tidegate_control::{Timestamp, waiting_room::Promise};

use crate::front::{Request, SLOT_BITS, SLOTS, slot};

/// Nobody: an attempt of open arrivals has no user.
pub(super) const NOBODY: u32 = u32::MAX;

/// Where an attempt is, as the server's side sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Not sent, or on its way to the front.
    Travelling,
    /// Its handshake waits, for a thread of the server or for its turn at the front.
    HandshakeBacklog,
    /// Its handshake is worked on.
    Handshake,
    /// It waits at the front.
    Waiting,
    /// It waits for a thread.
    Backlog,
    /// Its thread works, before the database if there is one.
    Work,
    /// It waits for a connection to the database, or the database works.
    Database,
    /// Its thread works, after the database.
    Rest,
    /// The server's side is done with it.
    Ended,
}

/// An attempt.
#[derive(Clone, Debug)]
pub(super) struct Attempt {
    pub(super) request: Request,
    pub(super) phase: Phase,
    pub(super) source: u16,
    /// The user it is sent for, or [`NOBODY`].
    pub(super) user: u32,
    /// Whether it is in the totals.
    pub(super) measured: bool,
    /// Its client has its answer or has given up.
    pub(super) client_done: bool,
    /// Its client has given up, and the front's side knows.
    pub(super) known_gone: bool,
    /// It has a thread of the server since its handshake, which goes on with it if it starts.
    pub(super) has_thread: bool,
    /// It ends as an error.
    pub(super) fails: bool,
    /// Its client is refused or answered with an error, once the reply is there.
    pub(super) refused: Option<&'static str>,
    /// Processor seconds, and seconds of a database connection.
    pub(super) work: f64,
    pub(super) database: f64,
    /// When it reached the front, started there, got a thread.
    pub(super) arrived: Timestamp,
    pub(super) started: Timestamp,
    pub(super) begun: Option<Timestamp>,
    /// The time its client was promised first, and whether he tried something else.
    pub(super) promised: Option<Promise>,
    pub(super) cheated: bool,
}

/// Attempts by id. An id names a place, which is used again, and a number, which is not.
#[derive(Debug, Default)]
pub(super) struct Attempts {
    entries: Vec<Attempt>,
    free: Vec<u32>,
    numbered: u64,
}

impl Attempts {
    /// Takes an attempt in and gives it its id.
    pub(super) fn insert(&mut self, mut attempt: Attempt) -> u64 {
        self.numbered += 1;
        let slot = self.free.pop().map_or(self.entries.len() as u64, u64::from);
        assert!(slot < SLOTS, "more than 2^28 requests are under way at once: the scenario has no bound");
        let id = (self.numbered << SLOT_BITS) | slot;
        attempt.request.id = id;
        match self.entries.get_mut(attempt.request.slot()) {
            Some(entry) => *entry = attempt,
            None => self.entries.push(attempt),
        }
        id
    }

    /// The attempt of that id, unless it is gone.
    pub(super) fn get(&self, id: u64) -> Option<&Attempt> {
        self.entries.get(slot(id)).filter(|attempt| attempt.request.id == id)
    }

    pub(super) fn get_mut(&mut self, id: u64) -> Option<&mut Attempt> {
        self.entries.get_mut(slot(id)).filter(|attempt| attempt.request.id == id)
    }

    /// Forgets it.
    pub(super) fn remove(&mut self, id: u64) {
        if let Some(attempt) = self.get_mut(id) {
            attempt.request.id = 0;
            self.free.push(u32::try_from(slot(id)).unwrap_or(u32::MAX));
        }
    }

    /// How many there have been.
    pub(super) const fn numbered(&self) -> u64 {
        self.numbered
    }
}
