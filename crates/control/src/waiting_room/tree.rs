//! A ring of counts of which the sum of any stretch is O(log n): a Fenwick tree.
//!
//! Source: P. M. Fenwick, A new data structure for cumulative frequency tables, 1994.

/// So many counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tree {
    counts: Vec<u32>,
    /// Sums, from 1; entry `i` covers the `i & -i` counts that end at `i - 1`.
    sums: Vec<u64>,
    all: u64,
}

impl Tree {
    /// So many zeros.
    pub(super) fn new(length: usize) -> Self {
        Self { counts: vec![0; length], sums: vec![0; length + 1], all: 0 }
    }

    /// The count at a position.
    pub(super) fn at(&self, position: usize) -> u32 {
        self.counts[position]
    }

    /// The sum of all.
    pub(super) const fn all(&self) -> u64 {
        self.all
    }

    /// The sum of those before a position.
    pub(super) fn before(&self, position: usize) -> u64 {
        let (mut sum, mut at) = (0, position);
        while at > 0 {
            sum += self.sums[at];
            at &= at - 1;
        }
        sum
    }

    /// Adds to a count, which stops at its largest number.
    pub(super) fn add(&mut self, position: usize, count: u32) {
        let count = count.min(u32::MAX - self.counts[position]);
        self.counts[position] += count;
        self.all += u64::from(count);
        self.shift(position, |sum| sum + u64::from(count));
    }

    /// One less, where there is any.
    pub(super) fn take(&mut self, position: usize) {
        if self.counts[position] > 0 {
            self.counts[position] -= 1;
            self.all -= 1;
            self.shift(position, |sum| sum - 1);
        }
    }

    /// Sets a count to nothing.
    pub(super) fn clear(&mut self, position: usize) {
        let count = u64::from(std::mem::take(&mut self.counts[position]));
        if count > 0 {
            self.all -= count;
            self.shift(position, |sum| sum - count);
        }
    }

    fn shift(&mut self, position: usize, change: impl Fn(u64) -> u64) {
        let mut at = position + 1;
        while at < self.sums.len() {
            self.sums[at] = change(self.sums[at]);
            at += at & at.wrapping_neg();
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Tree;

    proptest! {
        #[test]
        fn sums_are_those_of_the_counts(changes in prop::collection::vec((0..37_usize, 0..5_u32), 0..200)) {
            let mut tree = Tree::new(37);
            let mut naive = vec![0_u64; 37];
            for (position, count) in changes {
                if count == 0 {
                    tree.clear(position);
                    naive[position] = 0;
                } else {
                    tree.add(position, count);
                    naive[position] += u64::from(count);
                }
            }
            prop_assert_eq!(tree.all(), naive.iter().sum::<u64>());
            for position in 0..37 {
                prop_assert_eq!(tree.before(position), naive[..position].iter().sum::<u64>());
            }
        }
    }
}
