//! What is wrong with a configuration: every fault at once, each with its place and mend.

use std::{collections::BTreeSet, fmt, ops::Range};

/// Faults reported of one configuration; what is beyond is counted only.
pub const FAULTS_MAX: usize = 1000;

/// Everything that is wrong with a configuration, in the order of its lines. Never empty.
///
/// Displays one line a fault:
///
/// ```text
/// tidegate.toml:12:3: application.shop.in_flight.limit: 0 is not allowed here: expected a whole number from 1 to 1000000
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Faults {
    /// Where the configuration came from: the file's name as given, or `command line`.
    pub origin: String,
    /// The faults, at most [`FAULTS_MAX`].
    pub faults: Vec<Fault>,
    /// How many more there are.
    pub more: usize,
}

/// One thing that is wrong. Ordered by place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fault {
    /// Where it is written; `None` if it is not of any one line.
    pub place: Option<Place>,
    /// Key path such as `application.shop.in_flight.limit`; empty if no key is at fault.
    pub key: String,
    /// What is wrong.
    pub what: String,
    /// What to do about it.
    pub mend: String,
}

/// A place in a text, both counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// Line.
    pub line: usize,
    /// Column, in characters.
    pub column: usize,
}

impl Faults {
    /// One fault of a whole file or command line.
    pub(crate) fn one(origin: &str, fault: Fault) -> Self {
        Self { origin: origin.to_owned(), faults: vec![fault], more: 0 }
    }
}

/// Faults while they are found: each once, and no more than can be shown.
#[derive(Debug, Default)]
pub(crate) struct FaultList {
    faults: BTreeSet<Fault>,
    more: usize,
}

impl FaultList {
    /// Adds a fault. One that is there already is not added again, so that a key may be read twice.
    pub(crate) fn add(&mut self, fault: Fault) {
        if !self.is_full() {
            self.faults.insert(fault);
        } else if !self.faults.contains(&fault) {
            self.more += 1;
        }
    }

    /// Whether further faults are counted only.
    pub(crate) fn is_full(&self) -> bool {
        self.faults.len() >= FAULTS_MAX
    }

    /// The faults in the order of their lines.
    ///
    /// # Errors
    ///
    /// [`Faults`] if there are any.
    pub(crate) fn into_result(self, origin: &str) -> Result<(), Faults> {
        if self.faults.is_empty() {
            return Ok(());
        }
        Err(Faults { origin: origin.to_owned(), faults: self.faults.into_iter().collect(), more: self.more })
    }
}

impl Fault {
    /// A fault of a key without a place: on the command line, or of the file as a whole.
    pub(crate) fn of(key: &str, what: impl Into<String>, mend: impl Into<String>) -> Self {
        Self { place: None, key: key.to_owned(), what: what.into(), mend: mend.into() }
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, fault) in self.faults.iter().enumerate() {
            if position > 0 {
                f.write_str("\n")?;
            }
            f.write_str(&self.origin)?;
            if let Some(place) = fault.place {
                write!(f, ":{}:{}", place.line, place.column)?;
            }
            write!(f, ": {fault}")?;
        }
        if self.more > 0 {
            write!(f, "\n{}: {} more faults are not shown", self.origin, self.more)?;
        }
        Ok(())
    }
}

impl fmt::Display for Fault {
    /// Key, what is wrong and the mend, without the place.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        f.write_str(&self.what)?;
        if !self.mend.is_empty() {
            write!(f, ": {}", self.mend)?;
        }
        Ok(())
    }
}

/// Translates byte offsets of a text into places.
#[derive(Debug)]
pub struct Lines<'t> {
    text: &'t str,
    /// Offset of each line's first byte.
    starts: Vec<usize>,
}

impl<'t> Lines<'t> {
    /// Finds where the lines of `text` begin.
    #[must_use]
    pub fn new(text: &'t str) -> Self {
        let mut starts = vec![0];
        starts.extend(text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at + 1));
        Self { text, starts }
    }

    /// The place where `span` begins. An offset beyond the text counts as its end.
    #[must_use]
    pub fn place(&self, span: &Range<usize>) -> Place {
        let at = span.start.min(self.text.len());
        let line = self.starts.partition_point(|start| *start <= at);
        let start = line.checked_sub(1).and_then(|before| self.starts.get(before)).copied().unwrap_or(0);
        let column = self.text.as_bytes().get(start..at).map_or(0, count_characters);
        Place { line, column: column + 1 }
    }

    /// How many lines there are.
    pub(crate) fn count(&self) -> usize {
        self.starts.len()
    }

    /// Whether a line, counted from 1, looks like the header of a table.
    pub(crate) fn is_header(&self, line: usize) -> bool {
        let start = line.checked_sub(1).and_then(|before| self.starts.get(before));
        let rest = start.and_then(|start| self.text.get(*start..));
        rest.is_some_and(|rest| rest.trim_start_matches([' ', '\t']).starts_with('['))
    }
}

/// Characters of UTF-8 text, wherever it was cut: every byte but continuations.
fn count_characters(bytes: &[u8]) -> usize {
    bytes.iter().filter(|byte| **byte & 0xC0 != 0x80).count()
}

/// The candidate that `name` was most likely meant to be, if one is close.
pub fn closest<'c>(name: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    candidates
        .into_iter()
        .map(|candidate| (strsim::jaro_winkler(name, candidate), candidate))
        .filter(|(likeness, _)| *likeness >= 0.85)
        .max_by(|(a, _), (b, _)| a.total_cmp(b))
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_count_characters_from_one() {
        let lines = Lines::new("a = 1\nµs = \"é\" x\n");
        assert_eq!(lines.place(&(0..1)), Place { line: 1, column: 1 });
        let x = "a = 1\nµs = \"é\" ".len();
        assert_eq!(lines.place(&(x..x + 1)), Place { line: 2, column: 10 });
        assert_eq!(lines.place(&(99..99)), Place { line: 3, column: 1 });
        assert_eq!(Lines::new("").place(&(0..0)), Place { line: 1, column: 1 });
    }

    #[test]
    fn closest_finds_slips_and_leaves_strangers_alone() {
        let names = ["in_flight.limit", "in_flight.max", "hosts", "servers"];
        assert_eq!(closest("in_flight.limt", names), Some("in_flight.limit"));
        assert_eq!(closest("host", names), Some("hosts"));
        assert_eq!(closest("sevrers", names), Some("servers"));
        assert_eq!(closest("colour", names), None);
    }

    #[test]
    fn faults_beyond_the_bound_are_counted() {
        let mut list = FaultList::default();
        for number in 0..FAULTS_MAX + 3 {
            list.add(Fault::of(&format!("{number:05}"), "b", "c"));
        }
        list.add(Fault::of("00000", "b", "c"));
        let faults = list.into_result("x").unwrap_err();
        assert_eq!((faults.faults.len(), faults.more), (FAULTS_MAX, 3));
        assert!(faults.to_string().ends_with("\nx: 3 more faults are not shown"));
    }
}
