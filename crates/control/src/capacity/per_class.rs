//! A small fixed table of numbers, one for each class of which a cost is kept.

use std::ops::{Index, IndexMut};

use crate::ClassId;

/// Classes of which a cost is kept. Those beyond share the last place.
pub const COST_CLASSES: usize = 16;

/// One number a class.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct PerClass([f64; COST_CLASSES]);

impl PerClass {
    pub(super) const ZERO: Self = Self([0.0; COST_CLASSES]);

    /// The same number for the first `classes`.
    pub(super) fn all(value: f64, classes: usize) -> Self {
        let mut result = Self::ZERO;
        result.0[..classes].fill(value);
        result
    }

    pub(super) fn sum(&self) -> f64 {
        self.0.iter().sum()
    }

    /// `Σ aᵢ·bᵢ`.
    pub(super) fn dot(&self, other: &Self) -> f64 {
        self.0.iter().zip(&other.0).map(|(one, other)| one * other).sum()
    }

    pub(super) fn add(&mut self, other: &Self) {
        for (one, other) in self.0.iter_mut().zip(&other.0) {
            *one += other;
        }
    }

    pub(super) fn scale(&mut self, factor: f64) {
        for one in &mut self.0 {
            *one *= factor;
        }
    }

    pub(super) fn scaled(mut self, factor: f64) -> Self {
        self.scale(factor);
        self
    }
}

impl Index<usize> for PerClass {
    type Output = f64;

    fn index(&self, place: usize) -> &f64 {
        &self.0[place]
    }
}

impl IndexMut<usize> for PerClass {
    fn index_mut(&mut self, place: usize) -> &mut f64 {
        &mut self.0[place]
    }
}

/// The place of a class in the tables.
pub(super) fn place(class: ClassId) -> usize {
    class.index().min(COST_CLASSES - 1)
}
