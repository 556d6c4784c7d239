//! Memory for bodies read ahead: one budget over all exchanges.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

/// The budget; cheap to clone.
#[derive(Clone, Debug)]
pub struct SpoolBudget {
    shared: Arc<Budget>,
}

#[derive(Debug)]
struct Budget {
    used: AtomicU64,
    total: AtomicU64,
}

/// Bytes taken from the budget; given back when dropped.
#[derive(Debug)]
pub struct Spooled {
    budget: SpoolBudget,
    bytes: u64,
}

impl SpoolBudget {
    /// A budget of `total` bytes.
    #[must_use]
    pub fn new(total: u64) -> Self {
        Self { shared: Arc::new(Budget { used: AtomicU64::new(0), total: AtomicU64::new(total) }) }
    }

    /// Changes the total; what is taken beyond it drains away.
    pub fn set_total(&self, total: u64) {
        self.shared.total.store(total, Ordering::Relaxed);
    }

    /// Bytes in use.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.shared.used.load(Ordering::Relaxed)
    }

    /// An account that holds nothing yet.
    #[must_use]
    pub fn account(&self) -> Spooled {
        Spooled { budget: self.clone(), bytes: 0 }
    }
}

impl Spooled {
    /// Takes `bytes` more; false, and nothing taken, if the budget has no room.
    #[must_use]
    pub fn grow(&mut self, bytes: u64) -> bool {
        let Budget { used, total } = &*self.budget.shared;
        let before = used.fetch_add(bytes, Ordering::Relaxed);
        if before.saturating_add(bytes) > total.load(Ordering::Relaxed) {
            used.fetch_sub(bytes, Ordering::Relaxed);
            return false;
        }
        self.bytes += bytes;
        true
    }

    /// Gives `bytes` back, at most what is held.
    pub fn shrink(&mut self, bytes: u64) {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        self.budget.shared.used.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Bytes held.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for Spooled {
    fn drop(&mut self) {
        self.shrink(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_is_bounded_and_comes_back() {
        let budget = SpoolBudget::new(10);
        let (mut first, mut second) = (budget.account(), budget.account());
        assert!(first.grow(6));
        assert!(!second.grow(5));
        assert!(second.grow(4));
        first.shrink(100);
        drop(second);
        assert_eq!(budget.used(), 0);
    }
}
