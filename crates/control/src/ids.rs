//! Small dense numbers by which hot paths know applications, classes, servers and waiting requests.
//!
//! Ids are given out in order and never reused within a process, so that an id resolved under one
//! settings snapshot still means the same thing under the next.

use std::fmt;

macro_rules! dense_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u16);

        impl $name {
            /// The id as an index into dense tables.
            #[must_use]
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }
    };
}

dense_id! {
    /// An application behind the gateway, dense over the process.
    ApplicationId
}
dense_id! {
    /// A class of requests, dense within its application; 0 is the default class, which always exists.
    ClassId
}
dense_id! {
    /// An upstream server, dense within its application.
    ServerId
}

/// A request that waits: an index into the admission's table of waiting requests and the
/// generation of that entry, so that a stale ticket is recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket {
    /// Entry in the table; dense, reused after the request is collected or has left.
    pub index: u32,
    /// How often the entry has been used before.
    pub generation: u32,
}

impl fmt::Display for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.index, self.generation)
    }
}
