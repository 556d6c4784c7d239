//! A key that was written: its value, read as what its row says it may be.

use std::{borrow::Cow, ops::Range};

use tidegate_control::knobs::{self, Kind, Value};
use toml::{Spanned, de::DeValue};

use crate::{
    document::{Document, Section, join},
    print::quoted_key,
    shape::Table,
};

/// A key that was written.
#[derive(Clone)]
pub(crate) struct Entry<'d> {
    document: &'d Document<'d>,
    /// Its full path.
    pub(crate) key: String,
    /// Where its value stands.
    pub(crate) span: Range<usize>,
    value: &'d DeValue<'d>,
}

impl<'d> Entry<'d> {
    /// The member `name` of a table; `key` is its full path.
    pub(crate) fn new(
        document: &'d Document<'d>,
        key: String,
        name: &Spanned<Cow<'_, str>>,
        value: &'d Spanned<DeValue<'d>>,
    ) -> Self {
        Self { document, key, span: place_of(name, value), value: value.get_ref() }
    }

    /// Reports a fault of the value.
    pub(crate) fn fault(&self, what: impl Into<String>, mend: impl Into<String>) {
        self.document.fault(&self.key, &self.span, what, mend);
    }

    /// Reports that the value is not what was expected.
    pub(crate) fn wrong<T>(&self, expected: &str) -> Option<T> {
        self.fault(format!("{} is not allowed here", describe(self.value)), format!("expected {expected}"));
        None
    }

    /// The value as written.
    pub(crate) fn value(&self) -> &'d DeValue<'d> {
        self.value
    }

    /// A string without control characters.
    pub(crate) fn text(&self, expected: &str) -> Option<&'d str> {
        let text = self.value.as_str().or_else(|| self.wrong(expected))?;
        if text.chars().any(char::is_control) {
            self.fault("has a control character", "write printable characters only");
            return None;
        }
        Some(text)
    }

    /// This entry as a section.
    pub(crate) fn section(&self, table: &'static Table) -> Option<Section<'d>> {
        match self.value {
            DeValue::Table(inner) => {
                Some(Section::new(self.document, table, self.key.clone(), self.span.clone(), inner))
            }
            _ => self.wrong(&format!("a table: {}", table.title)),
        }
    }

    /// The items of a list, or this entry alone if it is a string.
    pub(crate) fn items_or_one(self, max: usize) -> Vec<Self> {
        if self.value.is_str() { vec![self] } else { self.items(max) }
    }

    /// The items of a list, at most `max` of them.
    pub(crate) fn items(&self, max: usize) -> Vec<Entry<'d>> {
        let DeValue::Array(items) = self.value else {
            self.wrong::<()>("a list");
            return Vec::new();
        };
        self.bound(items.len(), max);
        items
            .iter()
            .take(max)
            .enumerate()
            .map(|(position, item)| Entry {
                document: self.document,
                key: format!("{}[{position}]", self.key),
                span: item.span(),
                value: item.get_ref(),
            })
            .collect()
    }

    /// The members of a table, at most `max` of them, in the order in which they are written.
    pub(crate) fn members(&self, max: usize, expected: &str) -> Vec<(&'d str, Entry<'d>)> {
        let DeValue::Table(table) = self.value else {
            self.wrong::<()>(expected);
            return Vec::new();
        };
        self.bound(table.len(), max);
        let mut members: Vec<_> = table.iter().collect();
        members.sort_by_key(|(name, _)| name.span().start);
        members
            .into_iter()
            .take(max)
            .map(|(name, value)| {
                let key = join(&self.key, &quoted_key(name.get_ref()));
                let entry = Entry::new(self.document, key, name, value);
                (&**name.get_ref(), entry)
            })
            .collect()
    }

    fn bound(&self, count: usize, max: usize) {
        if count > max {
            self.fault(format!("has {count} entries"), format!("at most {max} are allowed"));
        }
    }

    /// A knob's value of this kind, checked against its range.
    pub(crate) fn knob(&self, kind: Kind, optional: bool) -> Option<Value> {
        let expected = || {
            let mut words = kind.expected();
            if optional {
                words.push_str(", or \"none\"");
            }
            words
        };
        let value = match (self.value, kind) {
            (DeValue::String(text), _) if optional && text == "none" => return Some(Value::None),
            (
                DeValue::String(text),
                Kind::Rate { .. } | Kind::Span { .. } | Kind::Size { .. } | Kind::Choice(_),
            ) => kind.parse(text).ok(),
            (DeValue::Integer(integer), Kind::Count { .. }) => {
                u64::from_str_radix(integer.as_str(), integer.radix()).ok().map(Value::Count)
            }
            (DeValue::Integer(integer), Kind::Ratio { .. }) if integer.radix() == 10 => {
                kind.parse(integer.as_str()).ok()
            }
            (DeValue::Float(float), Kind::Ratio { .. }) => kind.parse(float.as_str()).ok(),
            (DeValue::Boolean(flag), Kind::Flag) => Some(Value::Flag(*flag)),
            _ => None,
        };
        value.filter(|value| kind.admits(*value)).or_else(|| self.wrong(&expected()))
    }

    /// Reports a value that a knob's row does not allow.
    pub(crate) fn fault_knob(&self, fault: &knobs::Fault) {
        self.fault(format!("{} is not allowed here", fault.found), format!("expected {}", fault.expected));
    }
}

/// Where a fault of a value is shown: at the value, or at the name of what may span many lines.
fn place_of(name: &Spanned<Cow<'_, str>>, value: &Spanned<DeValue<'_>>) -> Range<usize> {
    if value.get_ref().is_table() || value.get_ref().is_array() { name.span() } else { value.span() }
}

/// A value as a fault shows it, cut where it is long.
pub(crate) fn describe(value: &DeValue<'_>) -> String {
    const SHOWN: usize = 60;
    match value {
        DeValue::String(text) if text.chars().count() > SHOWN => {
            format!("\"{}…\"", text.chars().take(SHOWN).collect::<String>().escape_debug())
        }
        DeValue::String(text) => format!("\"{}\"", text.escape_debug()),
        DeValue::Integer(integer) => integer.to_string().chars().take(SHOWN).collect(),
        DeValue::Float(float) => float.to_string().chars().take(SHOWN).collect(),
        DeValue::Boolean(flag) => flag.to_string(),
        DeValue::Datetime(time) => time.to_string(),
        DeValue::Array(_) => "a list".to_owned(),
        DeValue::Table(_) => "a table".to_owned(),
    }
}
