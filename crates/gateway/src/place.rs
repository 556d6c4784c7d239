//! A connection's place among those the gateway may hold, given back on every path.

use std::sync::Arc;

use tidegate_control::{Refusal, connections::Judgement};
use tidegate_runtime::Shared;

/// A place; given back when dropped.
pub(crate) struct Place {
    shared: Arc<Shared>,
    held: Held,
}

enum Held {
    /// Accepted, its client not known.
    Preface,
    /// Let in, under this client.
    Open(u64),
    /// Refused.
    Nothing,
}

impl Place {
    /// Takes a place for a connection of which nothing has been read.
    ///
    /// # Errors
    ///
    /// The reason, when there is none.
    pub(crate) fn accept(shared: &Arc<Shared>) -> Result<Self, Refusal> {
        match shared.with_connections(|connections, _| connections.accept()) {
            Judgement::In => Ok(Self { shared: Arc::clone(shared), held: Held::Preface }),
            Judgement::Refuse(refusal) => Err(refusal),
        }
    }

    /// Asks whether the connection is let in, its client known.
    ///
    /// # Errors
    ///
    /// The reason, when it is not; its place is given back.
    pub(crate) fn arrive(&mut self, client: u64) -> Result<(), Refusal> {
        match self.shared.with_connections(|connections, now| connections.arrive(now, client)) {
            Judgement::In => {
                self.held = Held::Open(client);
                Ok(())
            }
            Judgement::Refuse(refusal) => {
                self.held = Held::Nothing;
                Err(refusal)
            }
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        match self.held {
            Held::Preface => self.shared.with_connections(|connections, _| connections.abandon()),
            Held::Open(client) => {
                self.shared.with_connections(|connections, now| connections.depart(now, client));
            }
            Held::Nothing => {}
        }
    }
}
