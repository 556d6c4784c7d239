//! Work that is promised at once, laid into slots side by side: a drawn round, or what was promised after the last writing.

use super::Work;

/// Where work lies that is promised at once: from a slot on, so much of each, and more of each from a later one on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stretch {
    pub(super) slot: u64,
    pub(super) budget: Work,
    /// Not before `slot`.
    pub(super) more_from: u64,
    pub(super) more: Work,
}

impl Stretch {
    /// As much of each slot.
    pub(super) const fn even(slot: u64, budget: Work) -> Self {
        Self { slot, budget, more_from: slot, more: 0 }
    }

    /// Work that a slot takes.
    pub(super) const fn in_slot(&self, slot: u64) -> Work {
        let budget = if slot < self.slot { 0 } else { self.budget };
        if slot < self.more_from { budget } else { budget.saturating_add(self.more) }
    }

    /// Work that the slots before `slot` take.
    pub(super) fn before(&self, slot: u64) -> Work {
        let of = |budget: Work, from: u64| budget.saturating_mul(slot.saturating_sub(from));
        of(self.budget, self.slot).saturating_add(of(self.more, self.more_from))
    }

    /// The slot of what lies behind so much work, and where in it, millionths.
    pub(super) fn place(&self, position: Work) -> (u64, u32) {
        let first = self.before(self.more_from);
        let (from, position) =
            if position < first { (self.slot, position) } else { (self.more_from, position - first) };
        let budget = self.in_slot(from).max(1);
        let offset = u128::from(position % budget) * 1_000_000 / u128::from(budget);
        (from.saturating_add(position / budget), u32::try_from(offset).unwrap_or(0))
    }

    /// The part of it that is some work's of all that is laid into it side by side.
    pub(super) fn part(&self, work: Work, all: Work) -> Self {
        let of = |budget: Work| {
            let part = (u128::from(budget) * u128::from(work)).div_ceil(u128::from(all.max(1)));
            u64::try_from(part).unwrap_or(budget)
        };
        Self { budget: of(self.budget), more: of(self.more), ..*self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_position_lies_in_the_slot_that_takes_it() {
        for stretch in [
            Stretch::even(7, 3),
            Stretch { slot: 7, budget: 3, more_from: 9, more: 2 },
            Stretch { slot: 7, budget: 0, more_from: 9, more: 2 },
            Stretch { slot: 7, budget: 3, more_from: 7, more: 2 },
        ] {
            let mut slots = Vec::new();
            for slot in 7..30 {
                assert_eq!(stretch.before(slot), slots.len() as Work, "{stretch:?}");
                slots.extend((0..stretch.in_slot(slot)).map(|_| slot));
            }
            for (position, slot) in (0..).zip(slots) {
                assert_eq!(stretch.place(position).0, slot, "{stretch:?}, {position}");
            }
        }
    }
}
