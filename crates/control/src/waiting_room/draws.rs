//! Draws: places for those who came before doors opened, or within one round, all at once and without a list of them.
//!
//! Whoever comes gets a lot: a number, signed like a promise. At the end of the round the work of all its lots is laid
//! into the slot table as one stretch from slot `s` on, of which a slot takes `b`: a group with a share its own part, and from
//! slot `t` on, where nobody else has it, everybody's part `c` with it. A lot's place in it follows from its number alone,
//! whenever it is asked for:
//!
//! ```text
//! position = hash(number, secret) / 2⁶⁴ · work      shuffled
//! position = work of those who came before          in order: the last 44 bits of the number
//! slot     = s + ⌊position / b⌋                     below b · (t − s)
//!            t + ⌊(position − b · (t − s)) / (b + c)⌋
//! ```
//!
//! Shuffled positions are independent of each other, so a slot takes `b` of work in the mean: with n people a slot the number
//! has a standard deviation of √n, which the short queue evens out.
//!
//! Each group of classes draws by itself, since its doors are its own. Rounds that are drawn at one moment and are laid
//! into the same lane of the table are laid side by side, each with its part of `b` and `c`, so that no group goes before another.
//!
//! Memory: one entry a round, 16 drawn ones of a group at most and one that is open; a lot of a round that is no longer known
//! is treated like one who comes late.
//!
//! Source: none; a keyed hash in place of a permutation is folklore.

use std::{collections::VecDeque, time::Duration};

use super::{
    mix,
    settings::Group,
    slot_table::{SlotTable, Work},
    stretch::Stretch,
};
use crate::{Timestamp, knobs::RoomOrder};

/// Nanoseconds.
const SECOND: u64 = 1_000_000_000;
/// Drawn rounds of a group that are remembered.
const ROUNDS_MAX: usize = 16;
/// Groups that draw by themselves, besides everybody; as many as a configuration has classes.
pub(super) const GROUPS_MAX: usize = 256;
/// Rounds there are at most.
pub(super) const ALL_ROUNDS_MAX: usize = (GROUPS_MAX + 1) * (ROUNDS_MAX + 1);

/// Of the number of a lot that is drawn in order, what says the work before it: as much as a snapshot takes for possible.
const IN_ORDER: u64 = (1 << 44) - 1;

/// Of a slot that takes everybody.
pub(super) const AT_ONCE: Work = IN_ORDER + 1;

/// The rounds.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Draws {
    /// Not drawn yet, one of each group at most.
    open: Vec<Round>,
    /// The oldest first.
    drawn: VecDeque<Round>,
}

/// Lots that are drawn together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Round {
    /// By which its lots name it: when it was to be drawn, as was said first.
    pub(super) key: Timestamp,
    /// When it is drawn.
    pub(super) closes: Timestamp,
    pub(super) order: RoomOrder,
    /// Whose it is.
    pub(super) group: Group,
    pub(super) work: Work,
    pub(super) people: u64,
    /// Where it lies, once it is drawn.
    pub(super) drawn: Option<Stretch>,
    pub(super) lately: Lately,
}

/// Work of the lots that a round gave in a second, counted from the Unix epoch, and the most of the seconds before, halved with each
/// since.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Lately {
    second: u64,
    given: Work,
    before: Work,
}

impl Round {
    /// One more lot, of so much work.
    pub(super) fn add(&mut self, now: Timestamp, work: Work) {
        self.work = self.work.saturating_add(work);
        self.people += 1;
        self.lately.give(now, work);
    }

    /// The number of the next lot that is drawn in order: the work before it, and marks of the round and of the process by its
    /// `secret`. Promises of one slot are told apart by their numbers, and a process that was killed may have given lots of
    /// which the next one knows nothing.
    pub(super) fn next_in_order(&self, secret: u64) -> u64 {
        let marks = mix(self.key.as_nanos() ^ secret) & !IN_ORDER;
        marks | self.work.min(IN_ORDER)
    }
}

impl Lately {
    fn give(&mut self, now: Timestamp, work: Work) {
        let second = now.as_nanos() / SECOND;
        if second > self.second {
            *self = Self { second, given: 0, before: self.most(now) };
        }
        self.given = self.given.saturating_add(work);
    }

    /// As much may be given before the next snapshot is written.
    pub(super) fn most(&self, now: Timestamp) -> Work {
        let since = (now.as_nanos() / SECOND).saturating_sub(self.second);
        let halved =
            u32::try_from(since).ok().and_then(|since| self.given.max(self.before).checked_shr(since));
        halved.unwrap_or(0)
    }
}

/// What there is to say of a lot.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Lot {
    /// It is drawn then, with those of so many people.
    Pending(Timestamp, u64),
    /// Its slot, and where in it, millionths.
    Drawn(u64, u32),
    /// Its round is forgotten.
    Unknown,
}

impl Draws {
    /// The rounds of another process.
    pub(super) fn of(rounds: impl Iterator<Item = Round>) -> Self {
        let (drawn, open): (Vec<_>, Vec<_>) = rounds.partition(|round| round.drawn.is_some());
        Self { open, drawn: drawn.into() }
    }

    /// All of them.
    pub(super) fn rounds(&self) -> impl Iterator<Item = &Round> {
        self.drawn.iter().chain(&self.open)
    }

    /// The open round of a group; begins one that closes at `closes` if there is none.
    pub(super) fn open(&mut self, group: Group, closes: Timestamp, order: RoomOrder) -> &mut Round {
        let known = self.open.iter().position(|round| round.group == group);
        let at = known.unwrap_or_else(|| {
            // Two rounds of one name: those of two groups, or doors that opened and were closed again. Downwards, since
            // doors without a time open at the end of time, after which there is none.
            let mut key = closes;
            while self.rounds().any(|round| round.key == key) {
                key = key - Duration::from_millis(1);
            }
            let lately = Lately::default();
            self.open.push(Round { key, closes, order, group, work: 0, people: 0, drawn: None, lately });
            self.open.len() - 1
        });
        &mut self.open[at]
    }

    /// The rounds that are open.
    pub(super) fn pending(&mut self) -> impl Iterator<Item = &mut Round> {
        self.open.iter_mut()
    }

    /// When the next open round is drawn.
    pub(super) fn closes(&self) -> Option<Timestamp> {
        self.open.iter().map(|round| round.closes).min()
    }

    /// When the open round of a group is drawn.
    pub(super) fn closes_of(&self, group: Group) -> Option<Timestamp> {
        self.open.iter().find(|round| round.group == group).map(|round| round.closes)
    }

    /// Work and people of the rounds that are `due`.
    pub(super) fn sum(&self, due: impl Fn(&Round) -> bool) -> (Work, u64) {
        let due = self.open.iter().filter(|round| due(round));
        due.fold((0, 0), |(work, people), round| (round.work.saturating_add(work), round.people + people))
    }

    /// Draws the rounds that are `due`, side by side into a stretch.
    pub(super) fn draw(&mut self, stretch: &Stretch, due: impl Fn(&Round) -> bool) {
        let (all, _) = self.sum(&due);
        let Self { open, drawn } = self;
        for round in open.extract_if(.., |round| due(round)) {
            let of_group = |other: &&Round| other.group == round.group;
            if drawn.iter().filter(of_group).count() >= ROUNDS_MAX
                && let Some(oldest) = drawn.iter().position(|other| other.group == round.group)
            {
                drawn.remove(oldest);
            }
            drawn.push_back(Round { drawn: Some(stretch.part(round.work, all)), ..round });
        }
    }

    /// Drawn rounds lie in a table whose slots are of another length than `before`.
    pub(super) fn lay_into(&mut self, table: &SlotTable, before: Duration) {
        let (was, is) = (before.as_nanos().max(1), table.length().as_nanos());
        for drawn in self.drawn.iter_mut().filter_map(|round| round.drawn.as_mut()).filter(|_| was != is) {
            let slot =
                |slot: u64| u64::try_from(was.saturating_mul(u128::from(slot)) / is).unwrap_or(u64::MAX);
            let work = |work: Work| u64::try_from(u128::from(work).saturating_mul(is) / was).unwrap_or(work);
            *drawn = Stretch {
                slot: slot(drawn.slot),
                budget: work(drawn.budget).max(1),
                more_from: slot(drawn.more_from),
                more: work(drawn.more),
            };
        }
    }

    /// People with lots of a group that are not drawn.
    pub(super) fn people_of(&self, group: Group) -> u64 {
        self.sum(|round| round.group == group).1
    }

    /// People with lots of a group that are drawn into slots after `present`, as they are laid into the table.
    pub(super) fn drawn_after(&self, group: Group, present: u64) -> u64 {
        let after = |round: &Round| {
            let over = u128::from(round.drawn?.before(present + 1).min(round.work));
            let over = over * u128::from(round.people) / u128::from(round.work.max(1));
            Some(round.people.saturating_sub(u64::try_from(over).unwrap_or(u64::MAX)))
        };
        self.drawn.iter().filter(|round| round.group == group).filter_map(after).sum()
    }

    /// People with lots that are not drawn.
    pub(super) fn people(&self) -> u64 {
        self.sum(|_| true).1
    }

    /// What there is to say of a lot.
    pub(super) fn lot(&self, key: Timestamp, number: u64, secret: u64) -> Lot {
        let Some(round) = self.rounds().find(|round| round.key == key) else { return Lot::Unknown };
        let Some(drawn) = round.drawn else { return Lot::Pending(round.closes, round.people) };
        let position = match round.order {
            // Behind the end of the round where more was given before a kill than is reckoned with.
            RoomOrder::InOrder => number & IN_ORDER,
            RoomOrder::Shuffled => {
                let share = u128::from(mix(number ^ secret));
                u64::try_from((share * u128::from(round.work)) >> 64).unwrap_or(round.work)
            }
        };
        let (slot, offset) = drawn.place(position);
        Lot::Drawn(slot, offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ClassId, waiting_room::room::whole_ms};

    #[test]
    fn rounds_that_close_at_one_time_have_a_name_each_also_at_the_end_of_time() {
        for closes in [whole_ms(Timestamp::FAR_FUTURE), Timestamp::from_nanos(1_000_000_000)] {
            let mut draws = Draws::default();
            for _ in 0..3 * ROUNDS_MAX {
                for group in [None, Some(ClassId(0)), Some(ClassId(1))] {
                    draws.open(group, closes, RoomOrder::Shuffled).work += 1;
                }
                let mut keys: Vec<Timestamp> = draws.rounds().map(|round| round.key).collect();
                assert!(keys.iter().all(|key| whole_ms(*key) == *key), "as tokens carry them: {keys:?}");
                assert!(keys.len() <= 3 * (ROUNDS_MAX + 1), "so many are known, and no more");
                keys.sort_unstable();
                keys.dedup();
                assert_eq!(keys.len(), draws.rounds().count());
                draws.draw(&Stretch::even(1, 1), |_| true);
            }
        }
    }

    /// Whatever the secret, numbers as a room gives them one after another lie evenly, and who came first does not matter.
    #[test]
    fn a_shuffled_round_is_even_and_knows_no_order() {
        const PEOPLE: u32 = 20_000;
        for secret in [0, 1, 77, u64::MAX, 0x9E37_79B9_7F4A_7C15] {
            let mut draws = Draws::default();
            let closes = Timestamp::from_nanos(1_000_000_000);
            draws.open(None, closes, RoomOrder::Shuffled).work = u64::from(PEOPLE);
            draws.draw(&Stretch::even(0, 1), |_| true);
            let places: Vec<f64> = (0..u64::from(PEOPLE))
                .map(|n| mix(secret.wrapping_add(n.wrapping_mul(0x9E37_79B9_7F4A_7C15))))
                .map(|number| match draws.lot(closes, number, secret) {
                    Lot::Drawn(slot, _) => f64::from(u32::try_from(slot).unwrap()) / f64::from(PEOPLE),
                    other => panic!("{other:?}"),
                })
                .collect();
            let mut tenths = [[0.0; 10]; 10];
            for (came, place) in places.iter().enumerate() {
                tenths[came / 2000][(place * 10.0) as usize] += 1.0;
            }
            // Chi squared over the hundred cells: 100 in the mean, over 170 once in 10,000 secrets.
            let deviation: f64 =
                tenths.iter().flatten().map(|count: &f64| (count - 200.0).powi(2) / 200.0).sum();
            assert!((40.0..170.0).contains(&deviation), "{deviation} by secret {secret}");
        }
    }

    #[test]
    fn rounds_drawn_at_one_moment_lie_side_by_side() {
        let mut draws = Draws::default();
        let closes = Timestamp::from_nanos(1_000_000_000);
        for (group, work) in [(None, 900), (Some(ClassId(1)), 100)] {
            draws.open(group, closes, RoomOrder::InOrder).work = work;
        }
        let keys: Vec<Timestamp> = draws.rounds().map(|round| round.key).collect();
        draws.draw(&Stretch::even(7, 10), |_| true);
        // Both have their last in the hundredth slot, since ten of a thousand are in each.
        for (key, last) in keys.into_iter().zip([899, 99]) {
            assert_eq!(draws.lot(key, 0, 0), Lot::Drawn(7, 0));
            assert!(matches!(draws.lot(key, last, 0), Lot::Drawn(106, _)), "{:?}", draws.lot(key, last, 0));
        }
    }
}
