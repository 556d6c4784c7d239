//! The trace of a run as one number: equal runs have equal ones.

/// A hash over everything that happens, word by word.
///
/// Multiply, rotate, add: enough to tell runs apart, and two nanoseconds a word. Not for anything hostile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Trace(u64);

impl Default for Trace {
    fn default() -> Self {
        Self(0x243f_6a88_85a3_08d3)
    }
}

impl Trace {
    pub(crate) const fn add(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(23) ^ word).wrapping_mul(0x9fb2_1c65_1e98_df25);
    }

    pub(crate) const fn hash(self) -> u64 {
        self.0 ^ (self.0 >> 29)
    }
}
