//! What was amiss in cells: the same in many is told once, with the cells.

use std::collections::BTreeMap;

/// What was said of cells.
#[derive(Debug, Default)]
pub(super) struct Notes {
    /// Without its figures, what was said first and how often of which cell.
    said: Vec<Said>,
}

#[derive(Debug)]
struct Said {
    kind: String,
    first: String,
    /// Repetitions, by arm and load.
    cells: BTreeMap<(usize, usize), u32>,
}

impl Notes {
    /// Something was amiss in a repetition of the cell of that arm and load.
    pub(super) fn add(&mut self, arm: usize, load: usize, note: String) {
        let kind: String = note.chars().filter(|letter| !letter.is_ascii_digit()).collect();
        let at = self.said.iter().position(|said| said.kind == kind).unwrap_or_else(|| {
            self.said.push(Said { kind, first: note, cells: BTreeMap::new() });
            self.said.len() - 1
        });
        *self.said[at].cells.entry((arm, load)).or_default() += 1;
    }

    /// One line for each kind: the first of it, and where it was.
    pub(super) fn lines(
        &self,
        arms: &[String],
        loads: &[f64],
        repetitions: u32,
    ) -> impl Iterator<Item = String> {
        self.said.iter().map(move |Said { first, cells, .. }| {
            let at = cells.iter().map(|((arm, load), count)| {
                format!("{} at {} ({count} of {repetitions})", arms[*arm], loads[*load])
            });
            format!("{first} [the first of: {}]", at.collect::<Vec<_>>().join(", "))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_in_its_figures_only_is_told_once() {
        let mut notes = Notes::default();
        notes.add(1, 0, "began more than 6.3 ms late".to_owned());
        notes.add(0, 1, "began more than 12.9 ms late".to_owned());
        notes.add(1, 0, "began more than 7.0 ms late".to_owned());
        notes.add(0, 0, "the gateway said: no".to_owned());
        let lines: Vec<String> =
            notes.lines(&["none".to_owned(), "knee".to_owned()], &[1.0, 2.5], 5).collect();
        assert_eq!(
            lines,
            [
                "began more than 6.3 ms late [the first of: none at 2.5 (1 of 5), knee at 1 (2 of 5)]",
                "the gateway said: no [the first of: none at 1 (1 of 5)]",
            ]
        );
    }
}
