//! A table of a TOML file other than the configuration while it is read: typed values, every fault with place and mend.
//!
//! Whoever reads a table asks for its keys one by one and ends with [`Section::finish`], which
//! reports what was written and not asked for. A value at fault is reported and replaced by one in
//! range, so that reading goes on and all faults come at once.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    ops::{Range, RangeInclusive},
    time::Duration,
};

use tidegate_control::knobs::{Kind, Value};
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use crate::faults::{FAULTS_MAX, Fault, Faults, Lines, closest};

/// The file, and what was found wrong in it.
pub struct Document<'t> {
    origin: &'t str,
    lines: Lines<'t>,
    faults: RefCell<BTreeSet<Fault>>,
}

/// A table.
pub struct Section<'t> {
    document: &'t Document<'t>,
    key: String,
    span: Range<usize>,
    table: &'t DeTable<'t>,
    asked: RefCell<BTreeSet<&'static str>>,
}

/// A value, where a reader has to look at it himself.
pub struct Entry<'t> {
    document: &'t Document<'t>,
    /// Its full path.
    pub key: String,
    span: Range<usize>,
    /// As written.
    pub value: &'t DeValue<'t>,
}

/// Reads the text of a file called `origin` by asking its top level for its keys.
///
/// # Errors
///
/// Every fault at once, with key path, line and mend.
pub fn read<T>(origin: &str, text: &str, ask: impl FnOnce(&Section<'_>) -> T) -> Result<T, Faults> {
    let (table, errors) = DeTable::parse_recoverable(text);
    let document = Document::new(origin, text, &errors);
    if !errors.is_empty() {
        // What was recovered is not what was meant: the syntax first.
        document.into_result()?;
        unreachable!("there are errors");
    }
    let top = Section::top(&document, &table);
    let read = ask(&top);
    top.finish();
    document.into_result()?;
    Ok(read)
}

impl<'t> Document<'t> {
    /// The file called `origin`, with what the TOML parser found wrong in it.
    fn new(origin: &'t str, text: &'t str, errors: &[toml::de::Error]) -> Self {
        let lines = Lines::new(text);
        let faults = errors
            .iter()
            .map(|error| Fault {
                place: Some(lines.place(&error.span().unwrap_or(text.len()..text.len()))),
                key: String::new(),
                what: format!("not TOML: {}", error.message()),
                mend: String::new(),
            })
            .collect();
        Self { origin, lines, faults: RefCell::new(faults) }
    }

    /// Reports a fault of a key, at a place.
    pub fn fault(&self, key: &str, span: &Range<usize>, what: impl Into<String>, mend: impl Into<String>) {
        let place = Some(self.lines.place(span));
        let fault = Fault { place, key: key.to_owned(), what: what.into(), mend: mend.into() };
        let mut faults = self.faults.borrow_mut();
        if faults.len() < FAULTS_MAX {
            faults.insert(fault);
        }
    }

    /// Whether all is well.
    ///
    /// # Errors
    ///
    /// Every fault that was reported.
    fn into_result(self) -> Result<(), Faults> {
        let faults: Vec<Fault> = self.faults.into_inner().into_iter().collect();
        if faults.is_empty() {
            Ok(())
        } else {
            Err(Faults { origin: self.origin.to_owned(), faults, more: 0 })
        }
    }
}

impl<'t> Section<'t> {
    /// The file's top level.
    fn top(document: &'t Document<'t>, table: &'t Spanned<DeTable<'t>>) -> Self {
        Self::new(document, String::new(), 0..0, table.get_ref())
    }

    fn new(document: &'t Document<'t>, key: String, span: Range<usize>, table: &'t DeTable<'t>) -> Self {
        Self { document, key, span, table, asked: RefCell::default() }
    }

    /// Reports keys nobody asked for.
    pub fn finish(&self) {
        let asked = self.asked.borrow();
        for (name, _) in self.table {
            let written: &str = name.get_ref();
            if !asked.contains(written) {
                let mend = closest(written, asked.iter().copied()).map_or_else(
                    || format!("known here: {}", asked.iter().copied().collect::<Vec<_>>().join(", ")),
                    |meant| format!("did you mean {meant}?"),
                );
                self.document.fault(&join(&self.key, written), &name.span(), "there is no such key", mend);
            }
        }
    }

    /// Whether the key is written.
    pub fn has(&self, key: &'static str) -> bool {
        self.asked.borrow_mut().insert(key);
        self.table.contains_key(key)
    }

    /// Reports a fault of a key: at its value, or else where the table begins; with "" of the table itself.
    pub fn fault(&self, key: &str, what: impl Into<String>, mend: impl Into<String>) {
        let span = self
            .table
            .iter()
            .find(|(name, _)| name.get_ref() == key)
            .map(|(name, value)| if value.get_ref().is_table() { name.span() } else { value.span() });
        self.document.fault(&join(&self.key, key), &span.unwrap_or_else(|| self.span.clone()), what, mend);
    }

    /// Reports a key that must be written.
    pub fn missing(&self, key: &str, example: &str) {
        self.fault(key, "is missing", format!("write {example}"));
    }

    /// The key's value, if it is written.
    pub fn entry(&self, key: &'static str) -> Option<Entry<'t>> {
        self.asked.borrow_mut().insert(key);
        let (name, value) = self.table.get_key_value(key)?;
        let span = if value.get_ref().is_table() { name.span() } else { value.span() };
        Some(Entry { document: self.document, key: join(&self.key, key), span, value: value.get_ref() })
    }

    /// A text.
    pub fn text(&self, key: &'static str) -> Option<String> {
        self.entry(key)?.text()
    }

    /// A text that must be written; empty where it is not.
    pub fn required_text(&self, key: &'static str, example: &str) -> String {
        if !self.has(key) {
            self.missing(key, example);
        }
        self.text(key).unwrap_or_default()
    }

    /// A text, or a list of them.
    pub fn texts(&self, key: &'static str) -> Vec<String> {
        let Some(entry) = self.entry(key) else { return Vec::new() };
        entry.items().iter().filter_map(Entry::text).collect()
    }

    /// A number of a range.
    pub fn number(&self, key: &'static str, range: RangeInclusive<f64>) -> Option<f64> {
        self.entry(key)?.number(range)
    }

    /// A number of a range, or a list of them.
    pub fn numbers(&self, key: &'static str, range: RangeInclusive<f64>) -> Vec<f64> {
        let Some(entry) = self.entry(key) else { return Vec::new() };
        entry.items().iter().filter_map(|item| item.number(range.clone())).collect()
    }

    /// A whole number of a range.
    pub fn whole(&self, key: &'static str, range: RangeInclusive<u32>) -> Option<u32> {
        self.entry(key)?.whole(range)
    }

    /// true or false.
    pub fn flag(&self, key: &'static str) -> Option<bool> {
        let entry = self.entry(key)?;
        match entry.value {
            DeValue::Boolean(flag) => Some(*flag),
            _ => entry.wrong("true or false"),
        }
    }

    /// A span of time of a range, such as "250ms".
    pub fn span(&self, key: &'static str, range: RangeInclusive<Duration>) -> Option<Duration> {
        self.entry(key)?.span(range)
    }

    /// One of a set of names.
    pub fn choice<T: Copy>(&self, key: &'static str, names: &[(&'static str, T)]) -> Option<T> {
        self.entry(key)?.choice(names)
    }

    /// A table.
    pub fn table(&self, key: &'static str) -> Option<Self> {
        self.entry(key)?.section()
    }

    /// The tables of a table, each with the name it is written under, in the order written.
    pub fn named_tables(&self, key: &'static str) -> Vec<(String, Self)> {
        let Some(entry) = self.entry(key) else { return Vec::new() };
        let DeValue::Table(table) = entry.value else {
            entry.wrong::<()>("a table of tables");
            return Vec::new();
        };
        let mut found: Vec<_> = table.iter().collect();
        found.sort_by_key(|(name, _)| name.span().start);
        let section = |(name, value): (&'t Spanned<_>, &'t Spanned<DeValue<'t>>)| {
            let name: &str = AsRef::<str>::as_ref(name.get_ref());
            let entry = Entry {
                document: self.document,
                key: join(&entry.key, name),
                span: value.span(),
                value: value.get_ref(),
            };
            Some((name.to_owned(), entry.section()?))
        };
        found.into_iter().filter_map(section).collect()
    }

    /// A table, or a list of them.
    pub fn tables(&self, key: &'static str) -> Vec<Self> {
        let Some(entry) = self.entry(key) else { return Vec::new() };
        entry.items().into_iter().filter_map(|item| item.section()).collect()
    }
}

impl<'t> Entry<'t> {
    /// Reports a fault of the value.
    pub fn fault(&self, what: impl Into<String>, mend: impl Into<String>) {
        self.document.fault(&self.key, &self.span, what, mend);
    }

    /// Reports that the value is not what was expected.
    pub fn wrong<T>(&self, expected: &str) -> Option<T> {
        self.fault(format!("{} is not allowed here", describe(self.value)), format!("expected {expected}"));
        None
    }

    /// The value as a text.
    pub fn text(&self) -> Option<String> {
        self.value.as_str().map(str::to_owned).or_else(|| self.wrong("a text in quotes"))
    }

    /// The value as a number of a range.
    pub fn number(&self, range: RangeInclusive<f64>) -> Option<f64> {
        let number = match self.value {
            DeValue::Float(float) => float.as_str().replace('_', "").parse().ok(),
            DeValue::Integer(integer) if integer.radix() == 10 => {
                integer.as_str().replace('_', "").parse().ok()
            }
            _ => None,
        };
        number
            .filter(|number: &f64| range.contains(number))
            .or_else(|| self.wrong(&format!("a number from {} to {}", range.start(), range.end())))
    }

    /// The value as a whole number of a range.
    pub fn whole(&self, range: RangeInclusive<u32>) -> Option<u32> {
        let number = match self.value {
            DeValue::Integer(integer) => u32::from_str_radix(integer.as_str(), integer.radix()).ok(),
            _ => None,
        };
        number
            .filter(|number| range.contains(number))
            .or_else(|| self.wrong(&format!("a whole number from {} to {}", range.start(), range.end())))
    }

    /// The value as a span of time of a range.
    pub fn span(&self, range: RangeInclusive<Duration>) -> Option<Duration> {
        let kind = Kind::Span { min: *range.start(), max: *range.end() };
        match self.value.as_str().map(|text| kind.parse(text)) {
            Some(Ok(Value::Span(span))) if range.contains(&span) => Some(span),
            _ => self.wrong(&kind.expected()),
        }
    }

    /// The value as one of a set of names.
    pub fn choice<T: Copy>(&self, names: &[(&'static str, T)]) -> Option<T> {
        let chosen = self.value.as_str().and_then(|text| names.iter().find(|(name, _)| *name == text));
        match chosen {
            Some((_, value)) => Some(*value),
            None => {
                let all: Vec<&str> = names.iter().map(|(name, _)| *name).collect();
                self.wrong(&format!("one of \"{}\"", all.join("\", \"")))
            }
        }
    }

    /// The items of a list; a value that is no list is a list of one.
    pub fn items(&self) -> Vec<Self> {
        let DeValue::Array(items) = self.value else {
            return vec![Self {
                document: self.document,
                key: self.key.clone(),
                span: self.span.clone(),
                value: self.value,
            }];
        };
        items
            .iter()
            .enumerate()
            .map(|(position, item)| Self {
                document: self.document,
                key: format!("{}[{position}]", self.key),
                span: item.span(),
                value: item.get_ref(),
            })
            .collect()
    }

    /// Tables flattened to dotted names, so that `a.b = 1` and `"a.b" = 1` are one, in the order written.
    pub fn members(&self) -> Vec<(String, Self)> {
        let DeValue::Table(table) = self.value else {
            self.wrong::<()>("a table");
            return Vec::new();
        };
        let mut found = BTreeMap::new();
        self.flatten("", table, &mut found);
        found.into_values().collect()
    }

    fn flatten(&self, prefix: &str, table: &'t DeTable<'t>, found: &mut BTreeMap<usize, (String, Self)>) {
        for (name, value) in table {
            let dotted = join(prefix, name.get_ref());
            match value.get_ref() {
                DeValue::Table(inner) => self.flatten(&dotted, inner, found),
                inner => {
                    let entry = Self {
                        document: self.document,
                        key: join(&self.key, &dotted),
                        span: value.span(),
                        value: inner,
                    };
                    found.insert(name.span().start, (dotted, entry));
                }
            }
        }
    }

    /// The value as a table.
    pub fn section(&self) -> Option<Section<'t>> {
        match self.value {
            DeValue::Table(table) => {
                Some(Section::new(self.document, self.key.clone(), self.span.clone(), table))
            }
            _ => self.wrong("a table"),
        }
    }
}

fn join(prefix: &str, name: &str) -> String {
    match (prefix, name) {
        ("", key) | (key, "") => key.to_owned(),
        _ => format!("{prefix}.{name}"),
    }
}

/// A value as a fault shows it, cut where it is long.
pub fn describe(value: &DeValue<'_>) -> String {
    const SHOWN: usize = 60;
    let text = match value {
        DeValue::String(text) => format!("\"{}\"", text.escape_debug()),
        DeValue::Integer(integer) => integer.to_string(),
        DeValue::Float(float) => float.to_string(),
        DeValue::Boolean(flag) => flag.to_string(),
        DeValue::Datetime(time) => time.to_string(),
        DeValue::Array(_) => "a list".to_owned(),
        DeValue::Table(_) => "a table".to_owned(),
    };
    if text.chars().count() > SHOWN { text.chars().take(SHOWN).chain(['…']).collect() } else { text }
}
