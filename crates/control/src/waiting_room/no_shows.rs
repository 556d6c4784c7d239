//! No-shows: the share of people who were promised a time and do not come, measured class by class.
//!
//! A promise is looked at two slots after its own is over: who has come by then was there, who has not is a no-show
//! until he comes after all, within the grace. The share is
//!
//! ```text
//! n = absent / (absent + came + 50)
//! ```
//!
//! over sums that are forgotten with a time constant of 120 s; 50 people who came are taken for granted, so that it takes
//! more than a few absences to fill slots beyond. What is looked at while no check tells who has come counts for neither.
//! Slots are filled by the work to be expected, `(1 − n)` of a place's.
//!
//! Memory: 8 bytes a slot and class, of the first [`COST_CLASSES`] classes; those beyond share the last place.
//!
//! Source: none; overbooking by a measured share is folklore of airlines.

use crate::{ClassId, capacity::COST_CLASSES};

/// Forgotten in this many seconds, by a factor of e.
const MEMORY_S: f64 = 120.0;
/// People who came, before anything is known.
const PRIOR: f64 = 50.0;
/// Slots after its own at which a promise is looked at.
pub(super) const SETTLE: u64 = 2;

/// The shares, and what is out.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct NoShows {
    classes: usize,
    /// Slots the rings hold.
    slots: u64,
    /// Promises by slot and class, and those of which nobody has come.
    made: Vec<u32>,
    unseen: Vec<u32>,
    came: Vec<f64>,
    absent: Vec<f64>,
}

impl NoShows {
    /// For promises up to `ahead` slots ahead that are remembered `behind` slots.
    pub(super) fn new(classes: usize, ahead: u64, behind: u64) -> Self {
        let classes = classes.clamp(1, COST_CLASSES);
        let slots = ahead + behind + SETTLE + 2;
        let cells = usize::try_from(slots).unwrap_or(usize::MAX).saturating_mul(classes);
        Self {
            classes,
            slots,
            made: vec![0; cells],
            unseen: vec![0; cells],
            came: vec![0.0; classes],
            absent: vec![0.0; classes],
        }
    }

    /// The share of a class, 0 to 1.
    pub(super) fn share(&self, class: ClassId) -> f64 {
        let class = self.place(class);
        self.absent[class] / (self.absent[class] + self.came[class] + PRIOR)
    }

    /// The shares of the classes.
    pub(super) fn shares(&self) -> impl Iterator<Item = f64> + '_ {
        (0..self.classes).map(|class| self.absent[class] / (self.absent[class] + self.came[class] + PRIOR))
    }

    /// So many were promised a slot.
    pub(super) fn promised(&mut self, slot: u64, class: ClassId, people: u32) {
        let at = self.index(slot, self.place(class));
        self.made[at] = self.made[at].saturating_add(people);
        self.unseen[at] = self.unseen[at].saturating_add(people);
    }

    /// So many who were promised a slot have come, in slot `now`.
    pub(super) fn came(&mut self, slot: u64, class: ClassId, now: u64, people: u32) {
        let place = self.place(class);
        if slot + self.slots <= now + 1 {
            return;
        }
        let at = self.index(slot, place);
        let people = people.min(self.unseen[at]);
        self.unseen[at] -= people;
        if now > slot + SETTLE && self.made[at] > 0 {
            let people = f64::from(people);
            self.absent[place] = (self.absent[place] - people).max(0.0);
            self.came[place] += people;
        }
    }

    /// Slot `now` begins, slots of `length_s`: those that are due are looked at, if it is known who has come. Told of what nobody of
    /// a slot `behind` slots back has come: the class's place and how many.
    pub(super) fn advance(
        &mut self,
        now: u64,
        behind: u64,
        length_s: f64,
        is_known: bool,
        mut gone: impl FnMut(usize, u32),
    ) {
        let keep = (-length_s / MEMORY_S).exp();
        for place in 0..self.classes {
            self.came[place] *= keep;
            self.absent[place] *= keep;
            if let Some(slot) = now.checked_sub(SETTLE + 1) {
                let at = self.index(slot, place);
                let (made, unseen) = (self.made[at], self.unseen[at]);
                if is_known {
                    self.came[place] += f64::from(made - unseen);
                    self.absent[place] += f64::from(unseen);
                } else {
                    // Who is told of later counts for neither, too.
                    self.made[at] = 0;
                }
            }
            if let Some(slot) = now.checked_sub(behind + SETTLE + 1) {
                let at = self.index(slot, place);
                if self.unseen[at] > 0 {
                    gone(place, self.unseen[at]);
                }
                self.made[at] = 0;
                self.unseen[at] = 0;
            }
        }
    }

    /// Slots of which something may be known in slot `now`, where a promise is remembered `behind` slots.
    pub(super) fn known(&self, now: u64, behind: u64) -> std::ops::Range<u64> {
        let first = now.saturating_sub(behind + SETTLE + 1);
        first..first + self.slots
    }

    /// Promises of a slot by class: made, and of which nobody has come.
    pub(super) fn of(&self, slot: u64) -> impl Iterator<Item = (u32, u32)> + '_ {
        (0..self.classes).map(move |place| {
            let at = self.index(slot, place);
            (self.made[at], self.unseen[at])
        })
    }

    /// People of whom it is not known yet whether they come.
    pub(super) fn unseen(&self) -> u64 {
        self.unseen.iter().map(|people| u64::from(*people)).sum()
    }

    /// Puts back what was known of a slot and class.
    pub(super) fn put(&mut self, slot: u64, place: usize, made: u32, unseen: u32) {
        if place < self.classes {
            let at = self.index(slot, place);
            self.made[at] = self.made[at].saturating_add(made);
            self.unseen[at] = self.unseen[at].saturating_add(unseen.min(made));
        }
    }

    /// Came and absent, class by class.
    pub(super) fn sums(&self) -> impl Iterator<Item = (f64, f64)> + '_ {
        self.came.iter().copied().zip(self.absent.iter().copied())
    }

    /// Puts back the sums of a class.
    pub(super) fn put_sums(&mut self, place: usize, came: f64, absent: f64) {
        if place < self.classes {
            self.came[place] = came;
            self.absent[place] = absent;
        }
    }

    fn place(&self, class: ClassId) -> usize {
        class.index().min(self.classes - 1)
    }

    fn index(&self, slot: u64, place: usize) -> usize {
        usize::try_from(slot % self.slots).unwrap_or(0) * self.classes + place
    }
}
