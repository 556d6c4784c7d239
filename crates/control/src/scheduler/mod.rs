//! Schedulers: which class is served next.
//!
//! Each class offers one candidate, the next of its queue. A scheduler picks one of them and is told
//! when the pick has started; a pick that does not fit the room in flight is held: nothing of a
//! lower rank passes it, so that heavy requests are not starved by light ones that come later. The top
//! priority is served before any scheduler is asked.

mod deficit_round_robin;
mod earliest_deadline;
mod round_robin;
mod strict;
#[cfg(test)]
mod tests;

use crate::{ClassId, Timestamp, knobs::SchedulerKind};
pub use deficit_round_robin::DeficitRoundRobin;
pub use earliest_deadline::EarliestDeadline;
pub use round_robin::RoundRobin;
pub use strict::Strict;

/// The request a class would serve next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Its class. At most one candidate a class.
    pub class: ClassId,
    /// 0 (least) to 7.
    pub priority: u8,
    /// Weight units, at least 1.
    pub weight: u32,
    /// Number of its arrival, unique: a lower one arrived earlier.
    pub sequence: u64,
    /// How its class chose it.
    pub order: Order,
    /// The latest start its client or class allows.
    pub deadline: Option<Timestamp>,
    /// It has waited longer than anti-starvation allows.
    pub starving: bool,
    /// Where its owner finds it again; means nothing to a scheduler.
    pub index: u32,
}

/// The order within a class, as it is at present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// First come, first served, always.
    Fifo,
    /// First come, first served, while the queue turns over.
    FifoUntilStanding,
    /// Last come, first served.
    Lifo,
}

impl Candidate {
    /// A candidate of `class` with `weight`, as its `sequence`-th arrival, first come, first served.
    #[must_use]
    pub const fn new(class: ClassId, priority: u8, weight: u32, sequence: u64) -> Self {
        Self {
            class,
            priority,
            weight,
            sequence,
            order: Order::Fifo,
            deadline: None,
            starving: false,
            index: 0,
        }
    }
}

/// One of the schedulers, chosen by the knob `scheduler`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scheduler {
    /// The highest priority first.
    Strict(Strict),
    /// Each class in turn.
    RoundRobin(RoundRobin),
    /// By shares of weight.
    Weighted(DeficitRoundRobin),
    /// The earliest deadline first.
    EarliestDeadline(EarliestDeadline),
}

impl Scheduler {
    /// A scheduler of that kind in its first state.
    #[must_use]
    pub fn new(kind: SchedulerKind) -> Self {
        match kind {
            SchedulerKind::Strict => Self::Strict(Strict),
            SchedulerKind::RoundRobin => Self::RoundRobin(RoundRobin::default()),
            SchedulerKind::Weighted => Self::Weighted(DeficitRoundRobin::default()),
            SchedulerKind::EarliestDeadline => Self::EarliestDeadline(EarliestDeadline),
        }
    }

    /// Which of the knob's choices it is.
    #[must_use]
    pub const fn kind(&self) -> SchedulerKind {
        match self {
            Self::Strict(_) => SchedulerKind::Strict,
            Self::RoundRobin(_) => SchedulerKind::RoundRobin,
            Self::Weighted(_) => SchedulerKind::Weighted,
            Self::EarliestDeadline(_) => SchedulerKind::EarliestDeadline,
        }
    }

    /// Sets the shares of the classes, dense by id, at least 1 each. Only the weighted one reads them.
    pub fn set_shares(&mut self, shares: impl Iterator<Item = u32>) {
        if let Self::Weighted(drr) = self {
            drr.set_shares(shares);
        }
    }

    /// The position of the candidate that is to start next; `None` if there is none.
    #[must_use]
    pub fn pick(&self, candidates: &[Candidate]) -> Option<usize> {
        match self {
            Self::Strict(strict) => strict.pick(candidates),
            Self::RoundRobin(round_robin) => round_robin.pick(candidates),
            Self::Weighted(drr) => drr.pick(candidates),
            Self::EarliestDeadline(edf) => edf.pick(candidates),
        }
    }

    /// The pick has started.
    pub fn served(&mut self, candidates: &[Candidate], pick: usize) {
        match self {
            Self::RoundRobin(round_robin) => round_robin.served(candidates, pick),
            Self::Weighted(drr) => drr.served(candidates, pick),
            Self::Strict(_) | Self::EarliestDeadline(_) => {}
        }
    }

    /// Nothing of the class waits any more.
    pub fn emptied(&mut self, class: ClassId) {
        if let Self::Weighted(drr) = self {
            drr.emptied(class);
        }
    }
}
