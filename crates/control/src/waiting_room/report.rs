//! What the check tells the generator where they are two processes.

use crate::{ClassId, Timestamp};

/// Capacity, costs and who came, since the last report. Plain data.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// Work units a second; `None`: not known.
    pub capacity: Option<f64>,
    /// Work units a second that may come now.
    pub pace: Option<f64>,
    /// What a request of each class costs, thousandths of a work unit, dense by class.
    pub costs: Vec<u64>,
    /// Work expected of a session after its first request, thousandths of a work unit.
    pub follow: u64,
    /// Work units a second that passes do beyond what was charged.
    pub excess: f64,
    /// Who came, by slot and class; the newest 256 entries.
    pub returned: Vec<Returned>,
}

/// People who came with promises of one slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Returned {
    /// A moment in the slot.
    pub slot: Timestamp,
    /// Their class.
    pub class: ClassId,
    /// How many.
    pub people: u32,
}

/// Entries of [`Report::returned`] kept until they are reported.
pub(super) const RETURNED_MAX: usize = 256;
