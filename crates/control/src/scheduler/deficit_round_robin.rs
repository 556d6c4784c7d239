//! Deficit round robin: weight units in proportion to the classes' shares.
//!
//! Classes have turns in order of their ids. At the begin of its turn a class's deficit grows by its
//! share; it is served while its next request's weight is at most its deficit, which shrinks by that
//! weight; then the turn passes on. A class of which nothing waits loses its deficit.
//!
//! Source: Shreedhar & Varghese, "Efficient Fair Queueing using Deficit Round Robin", SIGCOMM 1995,
//! section 3. Deviations:
//!
//! 1. Rounds in which nobody can be served are skipped by arithmetic instead of walked, since a
//!    weight may be 100,000 times a share.
//! 2. A class that waits but may not start now (its own rate or bound) is passed over and keeps its
//!    deficit without growing it.

use super::Candidate;
use crate::ClassId;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Account {
    share: u32,
    /// Weight units it may still start.
    deficit: u64,
}

/// Deficit round robin. Does not depend on time. O(classes) a pick.
///
/// - share of a class: 1 to 100,000, default 1;
/// - weight of a request: 1 to 100,000.
///
/// ```
/// use tidegate_control::{ClassId, scheduler::{Candidate, DeficitRoundRobin}};
///
/// // Shares 3 and 1, weights 2 and 1, both classes always waiting.
/// let waiting = [Candidate::new(ClassId(0), 3, 2, 1), Candidate::new(ClassId(1), 3, 1, 2)];
/// let mut drr = DeficitRoundRobin::default();
/// drr.set_shares([3, 1].into_iter());
/// let mut order = Vec::new();
/// for _ in 0..6 {
///     let pick = drr.pick(&waiting).unwrap();
///     drr.served(&waiting, pick);
///     order.push(waiting[pick].class.0);
/// }
/// // Turn of 0: deficit 3, one served, 1 left. Turn of 1: one. Turn of 0: 1 + 3 = 4, two served, 0 left.
/// assert_eq!(order, [0, 1, 0, 0, 1, 0]);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeficitRoundRobin {
    accounts: Vec<Account>,
    /// The class whose turn it is.
    turn: usize,
    /// Whether it has received its share for this turn.
    paid: bool,
}

impl DeficitRoundRobin {
    /// Sets the shares, dense by class id. Deficits stay.
    pub fn set_shares(&mut self, shares: impl Iterator<Item = u32>) {
        for (class, share) in shares.enumerate() {
            let share = share.max(1);
            match self.accounts.get_mut(class) {
                Some(account) => account.share = share,
                None => self.accounts.push(Account { share, deficit: 0 }),
            }
        }
    }

    /// The position of the candidate to start next.
    #[must_use]
    pub fn pick(&self, candidates: &[Candidate]) -> Option<usize> {
        (0..candidates.len()).min_by_key(|position| self.turns_until(&candidates[*position]))
    }

    /// Pays every candidate's class the turns that pass until the pick's, and charges the pick.
    pub fn served(&mut self, candidates: &[Candidate], pick: usize) {
        let chosen = candidates[pick];
        if chosen.class.index() >= self.accounts.len() {
            return;
        }
        let end = self.turns_until(&chosen);
        for candidate in candidates {
            let turns = self.turns_within(candidate.class, end);
            if let Some(account) = self.accounts.get_mut(candidate.class.index()) {
                account.deficit += turns * u64::from(account.share);
            }
        }
        self.turn = chosen.class.index();
        self.paid = true;
        if let Some(account) = self.accounts.get_mut(self.turn) {
            account.deficit = account.deficit.saturating_sub(u64::from(chosen.weight));
        }
    }

    /// Nothing of the class waits any more: it loses its deficit, and its turn ends.
    pub fn emptied(&mut self, class: ClassId) {
        if let Some(account) = self.accounts.get_mut(class.index()) {
            account.deficit = 0;
        }
        if self.turn == class.index() {
            self.turn = (self.turn + 1) % self.accounts.len().max(1);
            self.paid = false;
        }
    }

    /// How many turns lie before the one in which the candidate is served, walking all classes.
    fn turns_until(&self, candidate: &Candidate) -> u64 {
        let class = candidate.class.index();
        let Some(account) = self.accounts.get(class) else { return u64::MAX };
        let missing = u64::from(candidate.weight).saturating_sub(account.deficit);
        let payments = missing.div_ceil(u64::from(account.share));
        if class == self.turn && self.paid {
            return payments * self.classes();
        }
        self.distance(class) + payments.saturating_sub(1) * self.classes()
    }

    /// How often the class is paid until turn `end`, inclusive.
    fn turns_within(&self, class: ClassId, end: u64) -> u64 {
        let distance = self.distance(class.index());
        if end < distance {
            return 0;
        }
        (end - distance) / self.classes() + u64::from(!(class.index() == self.turn && self.paid))
    }

    /// Turns from the present one to the class's next.
    fn distance(&self, class: usize) -> u64 {
        ((class + self.accounts.len() - self.turn) % self.accounts.len().max(1)) as u64
    }

    fn classes(&self) -> u64 {
        self.accounts.len() as u64
    }
}
