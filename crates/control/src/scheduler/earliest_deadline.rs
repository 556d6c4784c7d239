//! Earliest deadline first: the request whose latest start is nearest.
//!
//! Requests without a deadline come after all that have one, in order of arrival. Under this
//! scheduler a class offers the earliest deadline it holds instead of its discipline's next; the
//! discipline orders those without one. Priority counts only at the top.
//!
//! Source: Liu & Layland, "Scheduling Algorithms for Multiprogramming in a Hard-Real-Time
//! Environment", JACM 20(1), 1973, section 7. Deviation:
//!
//! 1. Under overload plain EDF serves late what it can no longer serve in time; admission refuses a
//!    request at its deadline, so what is served is never late.

use super::Candidate;

/// Earliest deadline first. Without state. O(classes) a pick, on top of the O(log n) of the heap of
/// deadlines.
///
/// ```
/// use tidegate_control::{ClassId, Timestamp, scheduler::{Candidate, EarliestDeadline}};
///
/// let due = |at| Some(Timestamp::from_nanos(at));
/// let later = Candidate { deadline: due(500), ..Candidate::new(ClassId(0), 6, 1, 1) };
/// let sooner = Candidate { deadline: due(400), ..Candidate::new(ClassId(1), 0, 1, 2) };
/// let never = Candidate::new(ClassId(2), 3, 1, 0);
/// assert_eq!(EarliestDeadline.pick(&[later, sooner, never]), Some(1));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EarliestDeadline;

impl EarliestDeadline {
    /// The position of the candidate to start next.
    #[must_use]
    pub fn pick(&self, candidates: &[Candidate]) -> Option<usize> {
        (0..candidates.len()).min_by_key(|position| {
            let candidate = &candidates[*position];
            (candidate.deadline.is_none(), candidate.deadline, candidate.sequence)
        })
    }
}
