//! What knobs were before controllers set them, whichever of several did.

use std::collections::BTreeMap;

use crate::knobs::Value;

/// What knobs were before controllers set them. The host of several controllers keeps one for all: when a second one sets
/// what a first has set, what it gives back later is what was before both.
#[derive(Debug, Default)]
pub struct Beneath {
    knobs: BTreeMap<String, Set>,
}

/// What a knob was before controllers set it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Before {
    /// As it is configured, whatever that is by now.
    Configured,
    /// Changed to this by somebody.
    Changed(Value),
}

/// A knob that a controller has set.
#[derive(Debug)]
struct Set {
    before: Before,
    /// What it was set to; another value now means that somebody else has changed it since.
    to: Value,
}

impl Beneath {
    /// What a knob whose value is `present` was before controllers set it; `None` if none of them set that.
    #[must_use]
    pub fn before(&self, path: &str, present: Value) -> Option<Before> {
        self.knobs.get(path).filter(|set| set.to == present).map(|set| set.before)
    }

    /// A controller has changed a knob from `present`, and `before` if no controller had set that.
    pub fn changed(&mut self, path: &str, present: Value, before: Before, to: Value) {
        let before = self.before(path, present).unwrap_or(before);
        if before == Before::Changed(to) {
            return self.given_back(path);
        }
        self.knobs.insert(path.to_owned(), Set { before, to });
    }

    /// A knob is again as it was before controllers set it.
    pub fn given_back(&mut self, path: &str) {
        self.knobs.remove(path);
    }
}
