//! Strict priority with anti-starvation: the highest priority first, classes of equal priority as if they had one queue.
//!
//! Order: the top priority; then what has waited longer than `starvation.max`, the oldest
//! first; then by priority; within a priority by arrival over all classes. Where one of these gives its
//! newest first, the newest of all goes: by age each newest would stand behind older ones of a class of which less comes, which
//! would get all it asks for, and late. Not where one of them is first come, first served for good, which would get nothing.
//! A lighter one that is newer passes one that waits for room, which serves fewer heavy ones and more in all; holding the room
//! for the heavy one instead leaves a fixed limit idle (0.84 of the capacity for 0.98 before four workers, weights 1 and 10).
//! Who wants equal shares takes the weighted scheduler.
//!
//! Source: Dyachuk & Deters, the priority queue of the dispatcher. Deviations:
//!
//! 1. Anti-starvation: without it a class is starved for as long as higher ones fill the machine,
//!    which is what the paper wants of its critical class and nobody wants of the rest.
//! 2. The highest that waits holds the room: while it does not fit, no lighter one of lower rank
//!    starts (the paper's text starts "the one of highest priority if w <= R", as here).

use std::cmp::Reverse;

use super::{Candidate, Order};
use crate::in_flight::TOP_PRIORITY;

/// Strict priority. Without state; time enters through [`Candidate::starving`]. O(classes) a pick.
///
/// ```
/// use tidegate_control::{ClassId, scheduler::{Candidate, Strict}};
///
/// let low_but_first = Candidate::new(ClassId(0), 2, 1, 10);
/// let high = Candidate::new(ClassId(1), 5, 1, 11);
/// assert_eq!(Strict.pick(&[low_but_first, high]), Some(1));
/// let starving = Candidate { starving: true, ..low_but_first };
/// assert_eq!(Strict.pick(&[starving, high]), Some(0));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Strict;

impl Strict {
    /// The position of the candidate to start next.
    #[must_use]
    pub fn pick(&self, candidates: &[Candidate]) -> Option<usize> {
        let first = candidates.iter().map(rank).min()?;
        let equal = (0..candidates.len()).filter(|position| rank(&candidates[*position]) == first);
        let orders = || equal.clone().map(|position| candidates[position].order);
        let is_lifo =
            orders().any(|order| order == Order::Lifo) && orders().all(|order| order != Order::Fifo);
        let sequence = |position: &usize| candidates[*position].sequence;
        if is_lifo { equal.max_by_key(sequence) } else { equal.min_by_key(sequence) }
    }
}

/// Less is better.
fn rank(candidate: &Candidate) -> (Reverse<bool>, Reverse<bool>, Reverse<u8>) {
    let top = candidate.priority >= TOP_PRIORITY;
    let priority = if candidate.starving && !top { 0 } else { candidate.priority };
    (Reverse(top), Reverse(candidate.starving), Reverse(priority))
}
