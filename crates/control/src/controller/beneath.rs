//! What knobs were before controllers set them, whichever of several did.

use std::collections::BTreeMap;

use crate::knobs::Value;

/// What knobs were before controllers set them. The host of several controllers keeps one for all: when a second one sets
/// what a first has set, what it gives back later is what was before both.
#[derive(Debug, Default)]
pub struct Beneath {
    knobs: BTreeMap<String, Set>,
}

/// A knob that a controller has set.
#[derive(Debug)]
struct Set {
    before: Value,
    /// What it was set to; another value now means that somebody else has changed it since.
    to: Value,
}

impl Beneath {
    /// What a knob whose value is `present` was before controllers set it; `None` if none of them set that.
    #[must_use]
    pub fn value(&self, path: &str, present: Value) -> Option<Value> {
        self.knobs.get(path).filter(|set| set.to == present).map(|set| set.before)
    }

    /// A controller has set a knob, whose value was `present`.
    pub fn changed(&mut self, path: &str, present: Value, to: Value) {
        let before = self.value(path, present).unwrap_or(present);
        match before == to {
            true => drop(self.knobs.remove(path)),
            false => drop(self.knobs.insert(path.to_owned(), Set { before, to })),
        }
    }
}
