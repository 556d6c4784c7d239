//! A level: how many of something there are now, counted by guards that take themselves off.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

/// A count of what is inside; cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Level {
    count: Arc<AtomicU64>,
}

/// One more on a [`Level`] until dropped.
#[must_use = "dropping it takes it off the level"]
#[derive(Debug)]
pub struct Inside {
    level: Level,
}

impl Level {
    /// Counts one more.
    pub fn enter(&self) -> Inside {
        self.count.fetch_add(1, Ordering::Relaxed);
        Inside { level: self.clone() }
    }

    /// Counts one more if fewer than `max` are inside.
    pub fn enter_below(&self, max: u64) -> Option<Inside> {
        let before = self.count.fetch_add(1, Ordering::Relaxed);
        let inside = Inside { level: self.clone() };
        // Dropping `inside` takes it off again.
        (before < max).then_some(inside)
    }

    /// How many are inside.
    #[must_use]
    pub fn read(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        self.level.count.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::Level;

    #[test]
    fn a_full_level_lets_nobody_in_until_one_leaves() {
        let level = Level::default();
        let first = level.enter_below(1).unwrap();
        assert!(level.enter_below(1).is_none());
        assert_eq!(level.read(), 1);
        drop(first);
        assert!(level.enter_below(1).is_some());
        assert_eq!(level.read(), 0);
    }
}
