//! Round robin: each class that waits in turn, one request a turn.
//!
//! Source: MASTH, section 2 (multi-queue scheduling); Nagle, RFC 970. No deviations.

use super::Candidate;

/// Round robin by class id. Does not depend on time. O(classes) a pick.
///
/// ```
/// use tidegate_control::{ClassId, scheduler::{Candidate, RoundRobin}};
///
/// let waiting = [Candidate::new(ClassId(0), 3, 1, 1), Candidate::new(ClassId(4), 3, 1, 2)];
/// let mut turns = RoundRobin::default();
/// let mut order = Vec::new();
/// for _ in 0..3 {
///     let pick = turns.pick(&waiting).unwrap();
///     turns.served(&waiting, pick);
///     order.push(waiting[pick].class.0);
/// }
/// assert_eq!(order, [0, 4, 0]);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RoundRobin {
    /// The class whose turn it is.
    turn: u16,
}

impl RoundRobin {
    /// The position of the candidate to start next: the first class at or after the turn.
    #[must_use]
    pub fn pick(&self, candidates: &[Candidate]) -> Option<usize> {
        (0..candidates.len()).min_by_key(|position| candidates[*position].class.0.wrapping_sub(self.turn))
    }

    /// The turn passes to the class after the pick's.
    pub fn served(&mut self, candidates: &[Candidate], pick: usize) {
        self.turn = candidates[pick].class.0.wrapping_add(1);
    }
}
