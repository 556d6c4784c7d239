//! What knobs were before controllers set them, whichever of several did.

use std::collections::BTreeMap;

/// What knobs were before controllers set them. The host of several controllers keeps one for all: when a second one sets
/// what a first has set, what it gives back later is what was before both. `C` is what its host knows of a change: its
/// value and whose it is, since of the same value it may be somebody else's.
#[derive(Debug)]
pub struct Beneath<C> {
    knobs: BTreeMap<String, Set<C>>,
}

/// What a knob was before controllers set it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Before<C> {
    /// As it is configured, whatever that is by now.
    Configured,
    /// Changed by somebody.
    Changed(C),
}

/// A knob that a controller has set.
#[derive(Debug)]
struct Set<C> {
    before: Before<C>,
    /// What it was set to; another change now means that somebody else has changed it since.
    to: C,
}

impl<C> Default for Beneath<C> {
    fn default() -> Self {
        Self { knobs: BTreeMap::new() }
    }
}

impl<C: Clone + PartialEq> Beneath<C> {
    /// What a knob that was changed by `present` was before controllers set it; `None` if none of them did that.
    #[must_use]
    pub fn before(&self, path: &str, present: &C) -> Option<&Before<C>> {
        self.knobs.get(path).filter(|set| set.to == *present).map(|set| &set.before)
    }

    /// A controller has changed a knob, which was `before` any of them had set it.
    pub fn changed(&mut self, path: &str, before: Before<C>, to: C) {
        self.knobs.insert(path.to_owned(), Set { before, to });
    }

    /// A knob is again as it was before controllers set it.
    pub fn given_back(&mut self, path: &str) {
        self.knobs.remove(path);
    }
}
