//! Strict priority with anti-starvation: the highest priority first, of equal ones the first to arrive.
//!
//! Order: the top priority; then what has waited longer than `starvation.max`, the oldest
//! first; then by priority; within a priority by arrival over all classes.
//!
//! Source: Dyachuk & Deters, the priority queue of the dispatcher. Deviations:
//!
//! 1. Anti-starvation: without it a class is starved for as long as higher ones fill the machine,
//!    which is what the paper wants of its critical class and nobody wants of the rest.
//! 2. The highest that waits holds the room: while it does not fit, no lighter one of lower rank
//!    starts (the paper's text starts "the one of highest priority if w <= R", as here).

use std::cmp::Reverse;

use super::Candidate;
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
        (0..candidates.len()).min_by_key(|position| {
            let candidate = &candidates[*position];
            let top = candidate.priority >= TOP_PRIORITY;
            let priority = if candidate.starving && !top { 0 } else { candidate.priority };
            (Reverse(top), Reverse(candidate.starving), Reverse(priority), candidate.sequence)
        })
    }
}
