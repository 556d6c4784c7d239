//! Spread: where in its slot a place lies, so that those of one slot come one after another and not together.
//!
//! ```text
//! offset = (booked - full)/(budget - full)
//! ```
//!
//! `booked` is the work that is in the slot before it, `full` the budget under which the slot was last full, 0 before it is so.
//! Whom a full slot has already are spread over all of it; where the budget rises and makes room there, so are those who come in
//! addition. By `booked/budget` they would all come at its end, behind who came evenly: the servers idle in the first part of the
//! slot, and the short queue stands from then on.
//!
//! Source: our own.

use super::Work;

/// Offsets of the places of a table.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Spread {
    /// Budget under which a slot was last full, by lane, each a ring of slots.
    full: Vec<Vec<Work>>,
}

impl Spread {
    pub(super) fn new(lanes: usize, slots: usize) -> Self {
        Self { full: vec![vec![0; slots]; lanes] }
    }

    /// Where in a slot `work` lies that is taken after `booked` of `budget`, and how far the next like it lies behind it;
    /// millionths of the slot's length.
    pub(super) fn place(&self, lane: usize, at: usize, work: Work, booked: Work, budget: Work) -> [u32; 2] {
        // Who has gone has left room among them.
        let full = Some(self.full[lane][at]).filter(|full| *full <= booked).unwrap_or(0);
        let whole = budget.saturating_sub(full);
        [booked - full, work].map(|part| millionths(part, whole))
    }

    /// A slot is full.
    pub(super) fn fill(&mut self, lane: usize, at: usize, budget: Work) {
        self.full[lane][at] = budget;
    }

    /// A slot is over.
    pub(super) fn clear(&mut self, at: usize) {
        for lane in &mut self.full {
            lane[at] = 0;
        }
    }
}

fn millionths(part: Work, whole: Work) -> u32 {
    let share = u128::from(part) * 1_000_000 / u128::from(whole.max(1));
    u32::try_from(share).unwrap_or(999_999).min(999_999)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Offsets of places of 10 that are taken one after another until `budget` is booked.
    fn taken(spread: &mut Spread, booked: Work, budget: Work) -> Vec<u32> {
        let offsets =
            (booked..budget).step_by(10).map(|booked| spread.place(0, 0, 10, booked, budget)[0]).collect();
        spread.fill(0, 0, budget);
        offsets
    }

    #[test]
    fn each_rise_spreads_who_comes_in_addition_over_the_whole_slot() {
        let mut spread = Spread::new(1, 1);
        assert_eq!(taken(&mut spread, 0, 20), [0, 500_000]);
        assert_eq!(taken(&mut spread, 20, 60), [0, 250_000, 500_000, 750_000]);
        assert_eq!(taken(&mut spread, 60, 80), [0, 500_000]);
        // Of a slot that is over nothing is known.
        spread.clear(0);
        assert_eq!(taken(&mut spread, 0, 20), [0, 500_000]);
    }

    #[test]
    fn whom_a_full_slot_has_lost_is_followed_by_who_comes_at_his_time() {
        let mut spread = Spread::new(1, 1);
        spread.fill(0, 0, 100);
        assert_eq!(spread.place(0, 0, 10, 80, 100), [800_000, 100_000]);
    }

    #[test]
    fn an_offset_lies_within_the_slot_whatever_is_booked() {
        let mut spread = Spread::new(1, 1);
        for (full, booked, budget) in [(0, 0, 0), (5, 7, 3), (u64::MAX, u64::MAX, 1), (1, u64::MAX, u64::MAX)]
        {
            spread.fill(0, 0, full);
            assert!(spread.place(0, 0, u64::MAX, booked, budget).iter().all(|part| *part < 1_000_000));
        }
    }
}
