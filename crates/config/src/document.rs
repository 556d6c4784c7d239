//! The file's text as sections: tables whose keys have been matched against their rows.
//!
//! A [`Section`] is a table flattened to dotted names, so that `in_flight.limit = 8` and
//! `in_flight = { limit = 8 }` are one. What matches no row and no knob is a fault here; what a
//! value means is judged by whoever reads it, through the methods below, each of which reports a
//! value of the wrong type and answers `None`.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    path::{Path, PathBuf},
};

use tidegate_control::knobs::{ChoiceSet, Knob, Scope, Value, Values};
use toml::de::{DeTable, DeValue};

use crate::{
    entry::{Entry, describe},
    faults::{Fault, FaultList, Lines, Place, closest},
    print::quoted_key,
    shape::{Absent, Row, Shape, Table},
};

/// A text being read: where faults are put, and which files it names.
pub(crate) struct Document<'d> {
    lines: Lines<'d>,
    base_directory: &'d Path,
    /// Lines whose syntax is at fault: what was recovered there is not judged.
    broken: BTreeSet<usize>,
    faults: RefCell<FaultList>,
    files: RefCell<Vec<NamedFile>>,
}

/// A file that the configuration names and that must be there.
#[derive(Debug)]
pub(crate) struct NamedFile {
    /// Its path.
    pub(crate) path: PathBuf,
    /// The key that names it.
    pub(crate) key: String,
    /// Where it is named.
    pub(crate) place: Place,
}

/// A table of the file, its keys matched against their rows.
pub(crate) struct Section<'d> {
    document: &'d Document<'d>,
    table: &'static Table,
    /// Key path of the table itself; empty at top level.
    pub(crate) key: String,
    /// Where it begins.
    pub(crate) span: Range<usize>,
    is_empty: bool,
    entries: BTreeMap<&'static str, Entry<'d>>,
    /// Where tables such as `tls` were written in this one, by dotted name, even if empty.
    groups: BTreeMap<String, Range<usize>>,
}

impl<'d> Document<'d> {
    /// A document of this text, whose syntax has these errors.
    pub(crate) fn new(text: &'d str, base_directory: &'d Path, errors: &[toml::de::Error]) -> Self {
        let lines = Lines::new(text);
        let mut broken = BTreeSet::new();
        let mut faults = FaultList::default();
        for error in errors {
            let place = lines.place(&error.span().unwrap_or(text.len()..text.len()));
            if broken.insert(place.line) && lines.is_header(place.line) {
                // Keys below a broken header have landed in another table: until the next header.
                let below = place.line + 1..=lines.count();
                broken.extend(below.take_while(|line| !lines.is_header(*line)));
            }
            faults.add(Fault {
                place: Some(place),
                key: String::new(),
                what: format!("not TOML: {}", error.message()),
                mend: String::new(),
            });
        }
        Self { lines, base_directory, broken, faults: RefCell::new(faults), files: RefCell::new(Vec::new()) }
    }

    /// Whether nothing had to be recovered, so that what is absent or contradictory was meant so.
    pub(crate) fn is_whole(&self) -> bool {
        self.broken.is_empty()
    }

    /// Reports a fault, unless the line's syntax is at fault already.
    pub(crate) fn fault(
        &self,
        key: &str,
        span: &Range<usize>,
        what: impl Into<String>,
        mend: impl Into<String>,
    ) {
        let place = self.lines.place(span);
        if !self.broken.contains(&place.line) {
            let (key, what, mend) = (key.to_owned(), what.into(), mend.into());
            self.faults.borrow_mut().add(Fault { place: Some(place), key, what, mend });
        }
    }

    /// Whether no more faults will be shown.
    fn is_full(&self) -> bool {
        self.faults.borrow().is_full()
    }

    /// A path as written, from the configuration's directory.
    pub(crate) fn path(&self, written: impl AsRef<Path>) -> PathBuf {
        self.base_directory.join(written)
    }

    /// The line in which a span begins.
    pub(crate) fn line(&self, span: &Range<usize>) -> usize {
        self.lines.place(span).line
    }

    /// Everything found: faults, and files that must be there.
    pub(crate) fn finish(self) -> (FaultList, Vec<NamedFile>) {
        (self.faults.into_inner(), self.files.into_inner())
    }
}

impl<'d> Section<'d> {
    /// Matches the keys of `written` against `table`.
    pub(crate) fn new(
        document: &'d Document<'d>,
        table: &'static Table,
        key: String,
        span: Range<usize>,
        written: &'d DeTable<'d>,
    ) -> Self {
        let is_empty = written.is_empty();
        let (entries, groups) = (BTreeMap::new(), BTreeMap::new());
        let mut section = Self { document, table, key, span, is_empty, entries, groups };
        section.match_keys(&section.key.clone(), "", written);
        section
    }

    fn match_keys(&mut self, parent: &str, prefix: &str, written: &'d DeTable<'d>) {
        for (name, value) in written {
            let dotted = join(prefix, name.get_ref());
            let key = join(parent, &quoted_key(name.get_ref()));
            let below = format!("{dotted}.");
            if let Some(known) = self.table.names().find(|known| *known == dotted) {
                let entry = Entry::new(self.document, key.clone(), name, value);
                if self.entries.insert(known, entry).is_some() {
                    self.document.fault(&key, &name.span(), "is written twice", "keep one of them");
                }
            } else if self.table.names().any(|known| known.starts_with(&below)) {
                if let DeValue::Table(inner) = value.get_ref() {
                    self.groups.insert(dotted.clone(), name.span());
                    self.match_keys(&key, &dotted, inner);
                } else {
                    let inside: Vec<_> =
                        self.table.names().filter(|known| known.starts_with(&below)).collect();
                    self.document.fault(
                        &key,
                        &value.span(),
                        format!("{} is not allowed here", describe(value.get_ref())),
                        format!("expected a table with {}", inside.join(", ")),
                    );
                }
            } else {
                self.unknown(&key, &dotted, &name.span(), value.get_ref());
            }
        }
    }

    /// Reports a key that no row knows, with the name that was most likely meant.
    fn unknown(&self, key: &str, dotted: &str, span: &Range<usize>, value: &DeValue<'_>) {
        const WHAT: &str = "there is no such key";
        if self.document.is_full() {
            // It is counted only, and looking for what was meant costs 30 us.
            return self.document.fault(key, span, WHAT, "");
        }
        let names: BTreeSet<&str> =
            self.table.names().flat_map(|name| prefixes(name).chain(std::iter::once(name))).collect();
        let elsewhere = |is_meant: &dyn Fn(&str) -> bool| {
            let knob = Knob::ALL.iter().find(|knob| is_meant(knob.name()))?;
            Some(format!("it belongs to {}", home(knob.scope())))
        };
        let below = format!("{dotted}.");
        let mend = elsewhere(&|name| name == dotted || name.starts_with(&below))
            .or_else(|| closest(dotted, names.iter().copied()).map(|name| format!("did you mean {name}?")))
            .or_else(|| {
                // As somebody writes who takes a scope's knobs to be in a table of its name.
                let DeValue::Table(inner) = value else { return None };
                let is_known = inner.iter().any(|(name, _)| names.contains(&**name.get_ref()));
                is_known
                    .then(|| format!("write what is in it without [{key}], as keys of {}", self.table.title))
            })
            .unwrap_or_else(|| format!("docs/configuration.md lists the keys of {}", self.table.title));
        self.document.fault(key, span, WHAT, mend);
    }

    /// The row of a key. Keys are named by the program, so one without a row is its mistake.
    fn row(&self, name: &str) -> &'static Row {
        self.table.row(name).unwrap_or_else(|| unreachable!("{} has no row {name}", self.table.title))
    }

    /// The entry of a key, if it is written; a fault if it is not and must be.
    pub(crate) fn entry(&self, name: &str) -> Option<Entry<'d>> {
        let row = self.row(name);
        let entry = self.entries.get(name).cloned();
        if let (None, Absent::Required(example)) = (&entry, &row.absent)
            && self.document.is_whole()
        {
            self.document.fault(&self.key_of(name), &self.span, "is missing", format!("write {example}"));
        }
        entry
    }

    /// Full path of a key of this table.
    pub(crate) fn key_of(&self, name: &str) -> String {
        join(&self.key, name)
    }

    /// Where a key's value stands, or else where the table begins.
    pub(crate) fn span_of(&self, name: &str) -> Range<usize> {
        self.entries.get(name).map_or_else(|| self.span.clone(), |entry| entry.span.clone())
    }

    /// Reports a fault of a key: at its value, or else where the table begins.
    pub(crate) fn fault(&self, name: &str, what: impl Into<String>, mend: impl Into<String>) {
        self.document.fault(&self.key_of(name), &self.span_of(name), what, mend);
    }

    /// The document this belongs to.
    pub(crate) fn document(&self) -> &'d Document<'d> {
        self.document
    }

    /// Whether a table such as `tls` was written in this one, even if empty.
    pub(crate) fn has_group(&self, name: &str) -> bool {
        self.groups.contains_key(name)
    }

    /// Where such a table was written, or else where this one begins.
    pub(crate) fn group_span(&self, name: &str) -> Range<usize> {
        self.groups.get(name).cloned().unwrap_or_else(|| self.span.clone())
    }

    /// Whether a key is written.
    pub(crate) fn is_written(&self, name: &str) -> bool {
        self.entries.contains_key(name)
    }

    /// Whether nothing is written in it, known or not.
    pub(crate) fn is_empty(&self) -> bool {
        self.is_empty
    }

    /// What may be written as the value of a key, in words.
    pub(crate) fn expected(&self, name: &str) -> String {
        self.row(name).shape.expected()
    }

    /// The knobs of `scope`: their defaults and what is written here.
    pub(crate) fn knobs(&self, scope: Scope) -> Values {
        let mut values = Values::defaults(scope);
        for knob in self.table.knobs() {
            if let Some(entry) = self.entries.get(knob.name())
                && let Some(value) = entry.knob(knob.kind(), knob.is_optional())
                && let Err(fault) = values.set(knob, value)
            {
                entry.fault_knob(&fault);
            }
        }
        values
    }

    /// A flag; its default if it is not written.
    pub(crate) fn flag(&self, name: &str) -> Option<bool> {
        match self.entry(name) {
            Some(entry) => match entry.value() {
                DeValue::Boolean(flag) => Some(*flag),
                _ => entry.wrong(&self.expected(name)),
            },
            None => self.default_of(name).and_then(|text| text.parse().ok()),
        }
    }

    /// A whole number; `None` if it is not written.
    pub(crate) fn whole(&self, name: &str) -> Option<u64> {
        let entry = self.entry(name)?;
        let Shape::Whole { min, max } = self.row(name).shape else {
            unreachable!("{name} is no whole number")
        };
        match entry.value() {
            DeValue::Integer(integer) => u64::from_str_radix(integer.as_str(), integer.radix())
                .ok()
                .filter(|number| (min..=max).contains(number))
                .or_else(|| entry.wrong(&self.expected(name))),
            _ => entry.wrong(&self.expected(name)),
        }
    }

    /// A choice; its default if it is not written.
    pub(crate) fn choice<C: ChoiceSet>(&self, name: &str) -> Option<C> {
        match self.entry(name) {
            Some(entry) => {
                entry.value().as_str().and_then(C::from_name).or_else(|| entry.wrong(&self.expected(name)))
            }
            None => self.default_of(name).and_then(C::from_name),
        }
    }

    /// A value written as a knob's; its default if it is not written.
    pub(crate) fn value(&self, name: &str) -> Option<Value> {
        let Shape::Value(kind) = self.row(name).shape else { unreachable!("{name} is no such value") };
        match self.entry(name) {
            Some(entry) => entry.knob(kind, false),
            None => self.default_of(name).and_then(|text| kind.parse(text).ok()),
        }
    }

    /// A string; its default if it is not written.
    pub(crate) fn text(&self, name: &str) -> Option<&'d str> {
        match self.entry(name) {
            Some(entry) => entry.text(&self.expected(name)),
            None => self.default_of(name),
        }
    }

    /// A string that `read` understands; its default if it is not written.
    pub(crate) fn parsed<T>(&self, name: &str, read: impl FnOnce(&str) -> Option<T>) -> Option<T> {
        let text = self.text(name)?;
        read(text).or_else(|| {
            let entry = self.entries.get(name)?;
            entry.wrong(&self.expected(name))
        })
    }

    /// The path of a file that must be there; `None` if it is not written.
    pub(crate) fn file(&self, name: &str) -> Option<PathBuf> {
        let entry = self.entry(name)?;
        let path = self.path(name)?;
        self.document.files.borrow_mut().push(NamedFile {
            path: path.clone(),
            key: entry.key.clone(),
            place: self.document.lines.place(&entry.span),
        });
        Some(path)
    }

    /// A path; `None` if it is not written.
    pub(crate) fn path(&self, name: &str) -> Option<PathBuf> {
        let text = self.entry(name)?.text(&self.expected(name))?;
        if text.is_empty() {
            self.fault(name, "is empty", "write a path");
            return None;
        }
        Some(self.document.path(text))
    }

    /// A string or list of strings, each of which `read` understands; empty if not written.
    pub(crate) fn texts<T>(&self, name: &str, read: impl Fn(&str) -> Option<T>) -> Vec<T> {
        self.text_entries(name, read).into_iter().map(|(value, _)| value).collect()
    }

    /// As [`Section::texts`], each with its entry.
    pub(crate) fn text_entries<T>(
        &self,
        name: &str,
        read: impl Fn(&str) -> Option<T>,
    ) -> Vec<(T, Entry<'d>)> {
        let Some(entry) = self.entry(name) else { return Vec::new() };
        let Shape::Texts { each, max } = self.row(name).shape else { unreachable!("{name} is no list") };
        entry
            .items_or_one(max)
            .into_iter()
            .filter_map(|item| {
                let text = item.text(each)?;
                let value = read(text).or_else(|| item.wrong(each))?;
                Some((value, item))
            })
            .collect()
    }

    /// The one table below a key.
    pub(crate) fn table(&self, name: &str) -> Option<Section<'d>> {
        let Shape::Table(table) = self.row(name).shape else { unreachable!("{name} is no table") };
        self.entry(name)?.section(table)
    }

    /// The tables of a list.
    pub(crate) fn tables(&self, name: &str) -> Vec<Section<'d>> {
        let Shape::Tables { table, max } = self.row(name).shape else { unreachable!("{name} is no list") };
        let Some(entry) = self.entry(name) else { return Vec::new() };
        entry.items(max).into_iter().filter_map(|item| item.section(table)).collect()
    }

    /// The tables of a list in which a string stands for a table with one key; one string alone
    /// is a list of one.
    pub(crate) fn tables_or_texts(&self, name: &str) -> Vec<Section<'d>> {
        let Shape::TablesOrTexts { table, key, max } = self.row(name).shape else {
            unreachable!("{name} is no list")
        };
        let Some(entry) = self.entry(name) else { return Vec::new() };
        entry
            .items_or_one(max)
            .into_iter()
            .filter_map(|item| match item.value() {
                DeValue::String(_) => Some(Section {
                    document: self.document,
                    table,
                    key: item.key.clone(),
                    span: item.span.clone(),
                    is_empty: false,
                    entries: BTreeMap::from([(key, item)]),
                    groups: BTreeMap::new(),
                }),
                DeValue::Table(_) => item.section(table),
                _ => item.wrong(&self.expected(name)),
            })
            .collect()
    }

    /// Tables by name, in the order in which they are written.
    pub(crate) fn named(&self, name: &str) -> Vec<(&'d str, Section<'d>)> {
        let Shape::Named { table, max } = self.row(name).shape else { unreachable!("{name} has no names") };
        let Some(entry) = self.entry(name) else { return Vec::new() };
        entry
            .members(max, &self.expected(name))
            .into_iter()
            .filter_map(|(member, item)| Some((member, item.section(table)?)))
            .collect()
    }

    /// Entries by name below a key of conditions, in the order in which they are written.
    pub(crate) fn conditions(&self, name: &str) -> Vec<(&'d str, Entry<'d>)> {
        let Shape::Conditions { max, .. } = self.row(name).shape else {
            unreachable!("{name} has no conditions")
        };
        let Some(entry) = self.entry(name) else { return Vec::new() };
        entry.members(max, &self.expected(name))
    }

    fn default_of(&self, name: &str) -> Option<&'static str> {
        match self.row(name).absent {
            Absent::Value(text) => Some(text),
            Absent::Required(_) | Absent::Means(_) => None,
        }
    }
}

/// `prefix.name`, or `name` at top level.
pub(crate) fn join(prefix: &str, name: &str) -> String {
    if prefix.is_empty() { name.to_owned() } else { format!("{prefix}.{name}") }
}

/// The tables a dotted name lies in: `a`, `a.b` of `a.b.c`.
fn prefixes(name: &str) -> impl Iterator<Item = &str> {
    name.match_indices('.').map(|(at, _)| name.get(..at).unwrap_or(name))
}

/// Where knobs of a scope are written.
fn home(scope: Scope) -> &'static str {
    match scope {
        Scope::Host => "the top level",
        Scope::Application => "[application.NAME]",
        Scope::Class => "[application.NAME.class.CLASS]",
        Scope::Server => "an item of servers",
    }
}
