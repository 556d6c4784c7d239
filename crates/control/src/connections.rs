//! Connections: whether a client's connection is let in, judged before any cryptography.

use crate::{
    Refusal, Timestamp,
    key_table::KeyTable,
    knobs::{Values, keys},
};

/// The bounds; knobs `connections.*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionSettings {
    /// Connections open at once, at least 1.
    pub max: u64,
    /// Connections of one client open at once, at least 1; `None`: any number.
    pub per_client_max: Option<u64>,
}

impl ConnectionSettings {
    /// The settings the gateway's knobs say.
    #[must_use]
    pub fn from_values(host: &Values) -> Self {
        Self {
            max: host.get(keys::CONNECTIONS_MAX),
            per_client_max: host.get(keys::CONNECTIONS_PER_CLIENT_MAX),
        }
    }
}

/// The answer to a connection.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// Let in.
    In,
    /// Refused.
    Refuse(Refusal),
}

/// The connections open, in all and of each client.
///
/// A connection holds one place of `max` from accept on, so that those that dawdle over their
/// preface are bounded too: [`Connections::accept`] takes the place before anything is read,
/// [`Connections::arrive`] judges it once its client is known (at once, but for a PROXY header), and then
/// [`Connections::depart`], or [`Connections::abandon`] before that judgement, gives the place back. A refusal
/// holds none. A client is known by a hash, with a secret seed, of its network prefix.
///
/// Lowered bounds close nothing; they refuse newcomers until enough have gone.
///
/// Memory: 32 bytes a client that has a connection open, for at most as many clients as connections;
/// reserved for `max` (or what is open, if that is more) when configured. Every call is O(1) but
/// [`Connections::configure`] where it changes `max`.
///
/// ```
/// use tidegate_control::{Refusal, Timestamp, connections::*};
///
/// let now = Timestamp::EPOCH;
/// let mut connections = Connections::new(ConnectionSettings { max: 3, per_client_max: Some(1) });
/// assert_eq!(connections.accept(), Judgement::In);
/// assert_eq!(connections.arrive(now, 1), Judgement::In);
/// // A second of the same client: its place is free again.
/// assert_eq!(connections.accept(), Judgement::In);
/// assert_eq!(connections.arrive(now, 1), Judgement::Refuse(Refusal::ClientConnections));
/// assert_eq!((connections.open(), connections.in_preface()), (1, 0));
/// ```
#[derive(Clone, Debug)]
pub struct Connections {
    settings: ConnectionSettings,
    /// Accepted and not judged yet.
    in_preface: u64,
    /// Let in.
    open: u64,
    /// Let in, by client; none at 0.
    clients: KeyTable<u64>,
}

impl Connections {
    /// With these bounds and no connection.
    #[must_use]
    pub fn new(settings: ConnectionSettings) -> Self {
        Self { settings, in_preface: 0, open: 0, clients: KeyTable::new(places(settings.max)) }
    }

    /// Takes over changed bounds. O(n) where `max` changes.
    pub fn configure(&mut self, settings: ConnectionSettings) {
        let wanted = places(settings.max).max(places(self.open + self.in_preface));
        if wanted != self.clients.capacity() {
            self.clients.resize(wanted);
        }
        self.settings = settings;
    }

    /// A connection was accepted: whether there is a place for it.
    pub fn accept(&mut self) -> Judgement {
        if self.in_preface + self.open >= self.settings.max {
            return Judgement::Refuse(Refusal::Connections);
        }
        self.in_preface += 1;
        Judgement::In
    }

    /// An accepted connection's client is known: whether it is let in. One that was not
    /// announced by [`Connections::accept`] is accepted now.
    pub fn arrive(&mut self, _now: Timestamp, client: u64) -> Judgement {
        if self.in_preface == 0
            && let refused @ Judgement::Refuse(_) = self.accept()
        {
            return refused;
        }
        self.in_preface -= 1;
        match self.clients.use_entry(client) {
            Some(count) if self.settings.per_client_max.is_some_and(|max| *count >= max) => {
                return Judgement::Refuse(Refusal::ClientConnections);
            }
            Some(count) => *count += 1,
            None => self.clients.insert(client, 1),
        }
        self.open += 1;
        Judgement::In
    }

    /// An accepted connection ended before its preface was complete.
    pub fn abandon(&mut self) {
        self.in_preface = self.in_preface.saturating_sub(1);
    }

    /// A connection that was let in has closed.
    pub fn depart(&mut self, _now: Timestamp, client: u64) {
        let Some(count) = self.clients.use_entry(client) else { return };
        *count -= 1;
        if *count == 0 {
            self.clients.remove(client);
        }
        self.open -= 1;
    }

    /// Connections let in and not closed yet.
    #[must_use]
    pub const fn open(&self) -> u64 {
        self.open
    }

    /// Connections accepted and not judged yet.
    #[must_use]
    pub const fn in_preface(&self) -> u64 {
        self.in_preface
    }

    /// Clients with a connection open.
    #[must_use]
    pub const fn clients(&self) -> usize {
        self.clients.len()
    }

    /// Checks what must hold between calls. O(n).
    ///
    /// # Panics
    ///
    /// If it does not: a mistake in this program.
    pub fn check_invariants(&self) {
        self.clients.check_invariants();
        let (counted, least) = self
            .clients
            .iter()
            .fold((0, u64::MAX), |(sum, least), (_, count)| (sum + count, count.min(least)));
        assert_eq!(counted, self.open, "every open connection is some client's");
        assert!(least > 0, "a client without connection is forgotten");
        assert!(self.clients.capacity() as u64 >= self.open, "every open connection's client has a place");
    }
}

fn places(connections: u64) -> usize {
    usize::try_from(connections).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests;
