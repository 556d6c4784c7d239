//! Sessions: what those who were let in cost afterwards, so that they are counted within the capacity.
//!
//! Whoever is let in goes on with a pass, without waiting. A place is charged for the whole of what its session is
//! expected to do, not for its first request only:
//!
//! ```text
//! follow  = work done on passes / sessions begun            both forgotten over 300 s
//! excess  = max(0, work done on passes − work charged)      both a second, over 60 s
//! budget  = capacity − excess
//! ```
//!
//! In the steady state as many sessions begin as the capacity carries with all they do. While `follow` is not known yet
//! or has become too small, what passes do beyond what was charged is taken off the budget of newcomers.
//!
//! Passes are not listed; those that the application revokes are until they would be over, 65,536 at most: of more than
//! that, those revoked first are forgotten.
//!
//! Source: none; sessions in equilibrium are Little's law.

use std::collections::{BTreeMap, VecDeque};

use super::slot_table::Work;
use crate::Timestamp;

const FOLLOW_S: f64 = 300.0;
const RATE_S: f64 = 60.0;
/// Sessions begun, before anything is known, that did nothing more.
const PRIOR: f64 = 20.0;
pub(super) const REVOKED_MAX: usize = 65_536;

/// What is known of sessions.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Sessions {
    /// Thousandths of work units, and sessions, forgotten over [`FOLLOW_S`].
    work: f64,
    begun: f64,
    /// A second, over [`RATE_S`].
    used_per_s: f64,
    charged_per_s: f64,
    /// Since the last step.
    used: f64,
    charged: f64,
    began: f64,
    /// Numbers of passes that are revoked, and until when they would last.
    revoked: BTreeMap<u64, Timestamp>,
    /// The same numbers in the order in which they were revoked.
    revoked_order: VecDeque<u64>,
}

#[expect(clippy::cast_precision_loss, reason = "work of a second")]
impl Sessions {
    /// Work expected of a session after its first request.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "not negative; `as` saturates"
    )]
    pub(super) fn follow(&self) -> Work {
        (self.work / (self.begun + PRIOR)) as Work
    }

    /// A session begins; `charged` was taken from its slot beyond its first request.
    pub(super) const fn began(&mut self, charged: Work) {
        self.began += 1.0;
        self.charged += charged as f64;
    }

    /// A session that began has not: its first request was refused.
    pub(super) const fn did_not_begin(&mut self, charged: Work) {
        self.began -= 1.0;
        self.charged -= charged as f64;
    }

    /// A request came with a pass.
    pub(super) const fn used(&mut self, work: Work) {
        self.used += work as f64;
    }

    /// A request that came with a pass was refused.
    pub(super) const fn was_not_done(&mut self, work: Work) {
        self.used -= work as f64;
    }

    /// So many seconds are over.
    pub(super) fn step(&mut self, seconds: f64) {
        let (follow, rate) = ((-seconds / FOLLOW_S).exp(), (-seconds / RATE_S).exp());
        // What was taken back had faded by then.
        self.work = (self.work * follow + self.used).max(0.0);
        self.begun = (self.begun * follow + self.began).max(0.0);
        self.used_per_s = self.used_per_s * rate + self.used / seconds * (1.0 - rate);
        self.charged_per_s = self.charged_per_s * rate + self.charged / seconds * (1.0 - rate);
        (self.used, self.charged, self.began) = (0.0, 0.0, 0.0);
    }

    /// Work units a second that passes do now.
    pub(super) fn per_s(&self) -> f64 {
        self.used_per_s / 1e3
    }

    /// Of these, beyond what was charged, work units a second.
    pub(super) fn excess_per_s(&self) -> f64 {
        (self.used_per_s - self.charged_per_s).max(0.0) / 1e3
    }

    /// A pass does not hold any more; whether that is new.
    pub(super) fn revoke(&mut self, now: Timestamp, number: u64, until: Timestamp) -> bool {
        if let Some(known) = self.revoked.get_mut(&number) {
            *known = until.max(*known);
            return false;
        }
        // Those that were revoked first are over first, more or less.
        while let Some(first) = self.revoked_order.front() {
            let is_over = self.revoked.get(first).is_none_or(|until| *until <= now);
            if !is_over && self.revoked.len() < REVOKED_MAX {
                break;
            }
            self.revoked.remove(first);
            self.revoked_order.pop_front();
        }
        self.revoked.insert(number, until);
        self.revoked_order.push_back(number);
        true
    }

    /// Numbers of passes that were revoked, the first first, and until when they would last.
    pub(super) fn revoked(&self) -> impl Iterator<Item = (u64, Timestamp)> + '_ {
        self.revoked_order.iter().filter_map(|number| Some((*number, *self.revoked.get(number)?)))
    }

    /// Whether a pass was revoked.
    pub(super) fn is_revoked(&self, number: u64) -> bool {
        self.revoked.contains_key(&number)
    }

    /// What survives a restart: the two sums.
    pub(super) const fn sums(&self) -> (f64, f64) {
        (self.work, self.begun)
    }

    /// Puts the sums back.
    pub(super) const fn put_sums(&mut self, work: f64, begun: f64) {
        self.work = work;
        self.begun = begun;
    }
}
