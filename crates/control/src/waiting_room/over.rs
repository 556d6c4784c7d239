//! Over: work that slots could not do and that goes on into the next ones, by lane.
//!
//! What is over stays with the lanes that had more due than their parts, so that none lives at the cost of others. Where some had
//! less due, it is less by what they left, in proportion:
//!
//! ```text
//! all         max(0, over + due - budget)                     over all lanes
//! rest[lane]  max(0, over[lane] + due[lane] - budget[lane])
//! over[lane]  all · rest[lane] / Σ rest
//! ```
//!
//! What stands in the short queue beyond that is everybody's, lane 0.
//!
//! Source: none.

use super::{LANES_MAX, Work};

/// What is over, by lane.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Over([Work; LANES_MAX]);

impl Over {
    /// So much, of everybody.
    pub(super) const fn of_everybody(work: Work) -> Self {
        let mut over = [0; LANES_MAX];
        over[0] = work;
        Self(over)
    }

    /// Of a lane.
    pub(super) const fn of(&self, lane: usize) -> Work {
        self.0[lane]
    }

    /// Of all lanes.
    pub(super) fn all(&self) -> Work {
        self.0.iter().fold(0, |sum, over| sum.saturating_add(*over))
    }

    /// So many slots are over, in which so much was `due` by lane and so much could be done.
    pub(super) fn carry(&mut self, due: [Work; LANES_MAX], budgets: &[Work], slots: u64) {
        let all = due.iter().fold(self.all(), |sum, due| sum.saturating_add(*due));
        let budget = budgets.iter().fold(0, |sum: Work, budget| sum.saturating_add(*budget));
        let mut left = all.saturating_sub(budget.saturating_mul(slots));
        for (lane, budget) in budgets.iter().enumerate() {
            self.0[lane] =
                self.0[lane].saturating_add(due[lane]).saturating_sub(budget.saturating_mul(slots));
        }
        // The rest of it was done by lanes that had less to do than their parts.
        let mut rests = self.all();
        for rest in &mut self.0 {
            let part = u128::from(*rest) * u128::from(left) / u128::from(rests.max(1));
            let part = u64::try_from(part).unwrap_or(*rest);
            rests = rests.saturating_sub(*rest);
            left = left.saturating_sub(part);
            *rest = part;
        }
    }

    /// So much stands in the short queue, whoever it is of.
    pub(super) fn stands(&mut self, standing: Work) {
        let more = standing.saturating_sub(self.all());
        self.0[0] = self.0[0].saturating_add(more);
    }

    /// Takes up to `work` of it, everybody's first; how much is left to take.
    pub(super) fn take(&mut self, work: Work) -> Work {
        self.0.iter_mut().fold(work, |rest, over| {
            let part = rest.min(*over);
            *over -= part;
            rest - part
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_had_too_much_due_has_it_over_less_by_what_others_left() {
        let lanes = |lanes: [Work; 3]| std::array::from_fn(|lane| lanes.get(lane).copied().unwrap_or(0));
        let mut over = Over::default();
        // Of ten each all is done but 3 and 1.
        over.carry(lanes([13, 10, 11]), &[10, 10, 10], 1);
        assert_eq!([0, 1, 2].map(|lane| over.of(lane)), [3, 0, 1]);
        // 3 + 8, 9 and 1 + 20: rests of 1, 0 and 11; the second lane leaves 1, so 11 are over.
        over.carry(lanes([8, 9, 20]), &[10, 10, 10], 1);
        assert_eq!([0, 1, 2].map(|lane| over.of(lane)), [0, 0, 11]);
        over.stands(15);
        assert_eq!((over.of(0), over.all(), over.take(20)), (4, 15, 5));
        over.carry(lanes([Work::MAX; 3]), &[Work::MAX; 3], 2);
        assert_eq!(over.all(), 0, "sums that are too large are the largest");
    }
}
