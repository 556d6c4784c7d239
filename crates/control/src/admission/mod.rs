//! Admission of one application's requests: whether each starts now, waits, or is refused.
//!
//! MASTH's path (section 2): ingress bucket -> the class's queue -> scheduler over classes ->
//! egress bucket, joined with the weighted in-flight limit `R0` of Dyachuk & Deters. [`Admission`]
//! is the composition; each part has its own file: [`crate::token_bucket`], [`crate::queue`],
//! [`crate::scheduler`], [`crate::in_flight`], [`crate::limit`].

mod class;
mod dormant;
pub mod grammar;
mod ingress;
mod lead;
mod levels;
mod machine;
mod path;
pub mod reference;
mod settings;
mod shadow;
mod streams;
#[cfg(test)]
mod tests;

use std::time::Duration;

pub use levels::Levels;
pub use machine::Admission;
pub use settings::{AdmissionSettings, ClassSettings, Modes, OwnModes, Rate};

use streams::Opened;

use crate::{ClassId, Refusal, Ticket, Timestamp, roster::Place};

/// What admission needs to know of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// Its class.
    pub class: ClassId,
    /// 0 (least) to 7; 7 passes the in-flight limit. Usually the class's.
    pub priority: u8,
    /// Weight units it takes of the in-flight limit, at least 1. Usually the class's.
    pub weight: u32,
    /// It must start before this: the client's deadline. The class's own is added by admission.
    pub deadline: Option<Timestamp>,
    /// Bytes held while it waits (its compact head).
    pub bytes: u32,
}

/// The answer to an arrival.
#[must_use]
#[derive(Debug)]
pub enum Arrival {
    /// Starts now.
    Start(Permit),
    /// Waits; the verdict comes for this ticket.
    Wait(Ticket),
    /// Refused.
    Refuse(Refusal),
}

/// The right of one exchange to be in flight: weight that is out until [`Permit`] is returned
/// through `depart`. Not `Clone`, so that it is given back once.
#[must_use = "a permit that is not given back is weight lost for ever"]
#[derive(Debug, PartialEq, Eq)]
pub struct Permit {
    class: ClassId,
    weight: u32,
    started: Timestamp,
    /// Weight in flight just after the start, this exchange included, without what is dormant.
    in_flight: u32,
    /// Where it is found again among what may become dormant, and by its class.
    place: Place,
    in_class: Place,
    standing: Standing,
    would_refuse: Option<Refusal>,
}

/// How a permit stands on the path of shadows, if there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// Its weight is counted there as well, and there its class finds it in that spell; in a later one, where it was in truth.
    Counted { place: Place, spell: u32 },
    /// Its shadow waited when it began.
    Shadow(Shadow),
    /// It is none of those there, whose shadow was refused or has ended. Holds in that spell only.
    Outside { spell: u32 },
}

/// The shadow of an exchange that began while its shadow waited; of that spell of watching only. See
/// [`Admission::abandon`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shadow {
    ticket: Ticket,
    spell: u32,
}

/// An upgraded connection or long stream that is open. Not `Clone`, so that it is closed once.
#[must_use = "a stream that is not closed is a place lost for ever"]
#[derive(Debug, PartialEq, Eq)]
pub struct StreamPermit {
    class: ClassId,
    would_refuse: Option<Refusal>,
    opened: Opened,
}

/// The answer to a client that leaves while its request waits.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub enum Departure {
    /// It left the queue; its work never starts.
    Left,
    /// It had just been granted: the permit must be given back (`depart` with [`Outcome::Ignore`]).
    AlreadyGranted(Permit),
    /// It had just been refused; nothing is left to do.
    AlreadyRefused(Refusal),
}

/// What becomes of a TLS session before its handshake.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Greeting {
    /// It is let in.
    Admit,
    /// It is let in; what only watches would have refused it.
    WouldRefuse,
    /// It is refused.
    Refuse,
}

/// How an exchange ended, as limit algorithms see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// Completed: its time in flight is a sample.
    Success,
    /// Says nothing of the server's load: not sent, cancelled early, the client's fault.
    Ignore,
    /// Timed out, or the server refused or failed: a sign of overload.
    Drop,
}

impl Permit {
    /// The class it was granted to.
    #[must_use]
    pub const fn class(&self) -> ClassId {
        self.class
    }

    /// Weight units held.
    #[must_use]
    pub const fn weight(&self) -> u32 {
        self.weight
    }

    /// When it was granted.
    #[must_use]
    pub const fn started(&self) -> Timestamp {
        self.started
    }

    /// What would have refused it, if something that only watches would have, as far as is known by now:
    /// [`Admission::depart`] knows all.
    #[must_use]
    pub const fn would_refuse(&self) -> Option<Refusal> {
        self.would_refuse
    }

    /// Its shadow, if that waited when the exchange began.
    #[must_use]
    pub const fn shadow(&self) -> Option<Shadow> {
        match self.standing {
            Standing::Shadow(shadow) => Some(shadow),
            Standing::Counted { .. } | Standing::Outside { .. } => None,
        }
    }

    /// Time in flight at `now`.
    #[must_use]
    pub const fn age(&self, now: Timestamp) -> Duration {
        now.since(self.started)
    }
}

impl StreamPermit {
    /// The class of the exchange it began as.
    #[must_use]
    pub const fn class(&self) -> ClassId {
        self.class
    }

    /// What would have refused it, if something that only watches would have.
    #[must_use]
    pub const fn would_refuse(&self) -> Option<Refusal> {
        self.would_refuse
    }
}
