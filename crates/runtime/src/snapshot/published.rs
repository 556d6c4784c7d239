//! A value that is replaced whole: whoever has an older one learns it by one atomic.

use std::sync::{Arc, atomic::Ordering};

use super::sync::{ArcSwap, AtomicU64};

/// What carries the number of its publication, which grows.
pub(crate) trait Versioned {
    /// Its number.
    fn version(&self) -> u64;
}

/// The present value. Nobody who reads it waits, and nobody sees a part of one and a part of another.
#[derive(Debug)]
pub(crate) struct Published<T> {
    version: AtomicU64,
    present: ArcSwap<T>,
}

impl<T: Versioned> Published<T> {
    pub(crate) fn new(first: T) -> Self {
        Self { version: AtomicU64::new(first.version()), present: ArcSwap::from_pointee(first) }
    }

    /// The number of the present value: what [`Published::load`] gives after it is that one or a later one.
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// The present value.
    pub(crate) fn load(&self) -> Arc<T> {
        self.present.load_full()
    }

    /// Puts another in its place. One at a time, which is the caller's to see to.
    pub(crate) fn store(&self, next: T) {
        let version = next.version();
        self.present.store(Arc::new(next));
        self.version.store(version, Ordering::Release);
    }
}
