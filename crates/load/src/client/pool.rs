//! The connections a client keeps: one thread's clients share a pool, a session has its own.

use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
};

use tokio::sync::Mutex;

use super::{Destination, http1::Http1, http2::Http2};
use crate::{plan::Protocol, tls::TlsClient};

/// Idle HTTP/1 connections, shared HTTP/2 ones, and what their TLS resumes with.
pub(crate) struct Pool {
    /// Used most recently at the back: those that stay idle long enough for a server to close them
    /// are the ones that are not needed.
    idle: RefCell<VecDeque<Http1>>,
    /// The lock lets one request connect while the others wait.
    shared: Box<[Mutex<Option<Http2>>]>,
    next_shared: Cell<usize>,
    /// Set when ALPN chose HTTP/1.1 though HTTP/2 was offered.
    alpn_chose_http1: Cell<bool>,
    /// Connections that were to resume and had nothing to resume yet; later ones make up for them.
    resumptions_owed: Cell<u32>,
    tls: Option<TlsClient>,
}

impl Pool {
    /// For all clients of a thread.
    pub(crate) fn shared(destination: &Destination) -> Self {
        Self::new(destination, destination.h2_connections, destination.tls.clone())
    }

    /// For one session: no ticket yet, and one connection where they are shared.
    pub(crate) fn of_its_own(destination: &Destination) -> Self {
        Self::new(destination, 1, destination.tls.as_ref().map(TlsClient::of_its_own))
    }

    fn new(destination: &Destination, h2_connections: usize, tls: Option<TlsClient>) -> Self {
        let slots = match (destination.protocol, &tls) {
            (Protocol::Http1, _) | (Protocol::Auto, None) => 0,
            _ => h2_connections,
        };
        Self {
            idle: RefCell::default(),
            shared: (0..slots).map(|_| Mutex::new(None)).collect(),
            next_shared: Cell::new(0),
            alpn_chose_http1: Cell::new(false),
            resumptions_owed: Cell::new(0),
            tls,
        }
    }

    /// Closes all connections and keeps the tickets, as somebody does who goes away for a while.
    pub(crate) fn close(&self) {
        // What was never used costs nothing; an emptied queue gives its memory back.
        drop(self.idle.take());
        for slot in &self.shared {
            if let Ok(mut slot) = slot.try_lock() {
                *slot = None;
            }
        }
    }

    pub(super) fn uses_http2(&self) -> bool {
        !self.shared.is_empty() && !self.alpn_chose_http1.get()
    }

    pub(super) fn note_alpn_chose_http1(&self) {
        self.alpn_chose_http1.set(true);
    }

    pub(super) fn tls(&self) -> Option<&TlsClient> {
        self.tls.as_ref()
    }

    pub(super) fn owes_resumptions(&self) -> bool {
        self.resumptions_owed.get() > 0
    }

    /// What came of a handshake that was, or was not, drawn to resume.
    pub(super) fn note_handshake(&self, drawn: bool, resumed: bool) {
        let owed = self.resumptions_owed.get();
        self.resumptions_owed.set(match (drawn, resumed) {
            (true, false) => owed.saturating_add(1),
            (false, true) => owed.saturating_sub(1),
            _ => owed,
        });
    }

    pub(super) fn take_idle(&self) -> Option<Http1> {
        self.idle.borrow_mut().pop_back()
    }

    pub(super) fn give_back(&self, connection: Http1) {
        self.idle.borrow_mut().push_back(connection);
    }

    /// The slots of shared connections, in turn.
    pub(super) fn next_slot(&self) -> Option<&Mutex<Option<Http2>>> {
        let index = self.next_shared.get();
        self.next_shared.set((index + 1) % self.shared.len().max(1));
        self.shared.get(index)
    }
}
