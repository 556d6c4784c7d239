//! Draws: places for those who came before doors opened, or within one round, all at once and without a list of them.
//!
//! Whoever comes gets a lot: a number, signed like a promise. At the end of the round the work of all its lots is laid
//! into the slot table as one stretch from slot `s` on, of which a slot takes `b`. A lot's place in it follows from
//! its number alone, whenever it is asked for:
//!
//! ```text
//! position = hash(number, secret) / 2⁶⁴ · work      shuffled
//! position = work of those who came before          in order
//! slot     = s + ⌊position / b⌋
//! ```
//!
//! Shuffled positions are independent of each other, so a slot takes `b` of work in the mean: with n people a slot the number
//! has a standard deviation of √n, which the short queue evens out.
//!
//! Memory: one entry a round, 16 rounds at most; a lot of a round that is no longer known is treated like one who comes late.
//!
//! Source: none; a keyed hash in place of a permutation is folklore.

use std::collections::VecDeque;

use super::{mix, slot_table::Work};
use crate::{Timestamp, knobs::RoomOrder};

/// Rounds remembered.
pub(super) const ROUNDS_MAX: usize = 16;

/// The rounds.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Draws {
    pub(super) rounds: VecDeque<Round>,
}

/// Lots that are drawn together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Round {
    /// By which its lots name it: when it was to be drawn, as was said first.
    pub(super) key: Timestamp,
    /// When it is drawn.
    pub(super) closes: Timestamp,
    pub(super) order: RoomOrder,
    pub(super) work: Work,
    pub(super) people: u64,
    pub(super) drawn: Option<Drawn>,
}

/// Where a drawn round lies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Drawn {
    pub(super) slot: u64,
    /// Work a slot takes.
    pub(super) budget: Work,
}

/// What there is to say of a lot.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Lot {
    /// It is drawn then.
    Pending(Timestamp),
    /// Its slot, and where in it, millionths.
    Drawn(u64, u32),
    /// Its round is forgotten.
    Unknown,
}

impl Draws {
    /// The round that is open and closes at `closes`; begins one if there is none.
    pub(super) fn open(&mut self, closes: Timestamp, order: RoomOrder) -> &mut Round {
        let is_open = self.rounds.back().is_some_and(|round| round.drawn.is_none());
        if !is_open {
            if self.rounds.len() >= ROUNDS_MAX {
                self.rounds.pop_front();
            }
            // Two rounds of one name: doors that opened and were closed again. Downwards, since doors without a time open
            // at the end of time, after which there is none.
            let mut key = closes;
            while self.rounds.iter().any(|round| round.key == key) {
                key = key - std::time::Duration::from_millis(1);
            }
            self.rounds.push_back(Round { key, closes, order, work: 0, people: 0, drawn: None });
        }
        let last = self.rounds.len() - 1;
        &mut self.rounds[last]
    }

    /// The round that is open.
    pub(super) fn pending(&mut self) -> Option<&mut Round> {
        self.rounds.back_mut().filter(|round| round.drawn.is_none())
    }

    /// When the open round is drawn.
    pub(super) fn closes(&self) -> Option<Timestamp> {
        self.rounds.back().filter(|round| round.drawn.is_none()).map(|round| round.closes)
    }

    /// People with lots that are not drawn.
    pub(super) fn people(&self) -> u64 {
        self.rounds.back().filter(|round| round.drawn.is_none()).map_or(0, |round| round.people)
    }

    /// What there is to say of a lot.
    pub(super) fn lot(&self, key: Timestamp, number: u64, secret: u64) -> Lot {
        let Some(round) = self.rounds.iter().find(|round| round.key == key) else { return Lot::Unknown };
        let Some(drawn) = round.drawn else { return Lot::Pending(round.closes) };
        let position = match round.order {
            RoomOrder::InOrder => number.min(round.work),
            RoomOrder::Shuffled => {
                let share = u128::from(mix(number ^ secret));
                u64::try_from((share * u128::from(round.work)) >> 64).unwrap_or(round.work)
            }
        };
        let budget = drawn.budget.max(1);
        let offset = u128::from(position % budget) * 1_000_000 / u128::from(budget);
        Lot::Drawn(drawn.slot + position / budget, u32::try_from(offset).unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::waiting_room::room::whole_ms;

    #[test]
    fn rounds_that_close_at_one_time_have_a_name_each_also_at_the_end_of_time() {
        for closes in [whole_ms(Timestamp::FAR_FUTURE), Timestamp::from_nanos(1_000_000_000)] {
            let mut draws = Draws::default();
            for _ in 0..3 * ROUNDS_MAX {
                draws.open(closes, RoomOrder::Shuffled).drawn = Some(Drawn { slot: 1, budget: 1 });
                let mut keys: Vec<Timestamp> = draws.rounds.iter().map(|round| round.key).collect();
                assert!(keys.iter().all(|key| whole_ms(*key) == *key), "as tokens carry them: {keys:?}");
                keys.sort_unstable();
                keys.dedup();
                assert_eq!(keys.len(), draws.rounds.len());
            }
        }
    }
}
