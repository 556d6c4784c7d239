//! What a row of the table of structure says: a key's name, what may be written, and what holds if it is not.

use tidegate_control::knobs::{Kind, Knob, Scope};

use crate::rows::CONDITION_EXPECTED;

/// A kind of table of the file.
#[derive(Debug)]
pub(crate) struct Table {
    /// How the reference names it: `[application.NAME]`.
    pub(crate) title: &'static str,
    /// What it is, in a sentence or two.
    pub(crate) doc: &'static str,
    /// Whose knobs may be written in it.
    pub(crate) scope: Option<Scope>,
    /// Its keys that are not knobs; a dot goes down one table.
    pub(crate) rows: &'static [Row],
}

/// A key that is not a knob.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    /// Name within its table, such as `tls.http2`.
    pub(crate) name: &'static str,
    /// What may be written.
    pub(crate) shape: Shape,
    /// What holds when it is not written.
    pub(crate) absent: Absent,
    /// One line of documentation.
    pub(crate) doc: &'static str,
}

/// What holds when a key is not written.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Absent {
    /// It must be written; with an example of what to write.
    Required(&'static str),
    /// This value, as the file would write it.
    Value(&'static str),
    /// What these words say.
    Means(&'static str),
}

/// What may be written as the value of a key.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Shape {
    /// `true` or `false`.
    Flag,
    /// A whole number.
    Whole {
        /// Smallest allowed.
        min: u64,
        /// Largest allowed.
        max: u64,
    },
    /// A string; what it says, in words.
    Text(&'static str),
    /// One of these strings.
    Choice(&'static [&'static str]),
    /// A string or a list of strings; what each says, in words.
    Texts {
        /// What each says.
        each: &'static str,
        /// How many at most.
        max: usize,
    },
    /// A number, rate, span or size, written as a knob's.
    Value(Kind),
    /// One table.
    Table(&'static Table),
    /// A list of tables.
    Tables {
        /// Each of them.
        table: &'static Table,
        /// How many at most.
        max: usize,
    },
    /// A list whose items are tables, or strings that stand for a table with that key only.
    TablesOrTexts {
        /// Each of them.
        table: &'static Table,
        /// The key a string stands for.
        key: &'static str,
        /// How many at most.
        max: usize,
    },
    /// Tables by name.
    Named {
        /// Each of them.
        table: &'static Table,
        /// How many at most.
        max: usize,
    },
    /// Conditions on fields by name.
    Conditions {
        /// How many at most.
        max: usize,
    },
}

impl Table {
    /// The row of that name.
    pub(crate) fn row(&self, name: &str) -> Option<&'static Row> {
        self.rows.iter().find(|row| row.name == name)
    }

    /// The knobs that may be written here, in table order.
    pub(crate) fn knobs(&self) -> impl Iterator<Item = Knob> + use<> {
        let scope = self.scope;
        Knob::ALL.iter().copied().filter(move |knob| Some(knob.scope()) == scope)
    }

    /// Every key that may be written here.
    pub(crate) fn names(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.rows.iter().map(|row| row.name).chain(self.knobs().map(Knob::name))
    }
}

impl Shape {
    /// What may be written, in words.
    pub(crate) fn expected(&self) -> String {
        match self {
            Self::Flag => "true or false".to_owned(),
            Self::Whole { min, max } => format!("a whole number from {min} to {max}"),
            Self::Text(words) => (*words).to_owned(),
            Self::Choice(names) => format!("one of \"{}\"", names.join("\", \"")),
            Self::Texts { each, .. } => format!("{each}, or a list of such"),
            Self::Value(kind) => kind.expected(),
            Self::Table(table) => format!("a table: {}", table.title),
            Self::Tables { table, .. } => format!("a list of tables: {}", table.title),
            Self::TablesOrTexts { table, key, .. } => {
                format!("a {key}, or a list, each item a {key} or a table: {}", table.title)
            }
            Self::Named { table, .. } => format!("tables by name: {}", table.title),
            Self::Conditions { .. } => format!("a table of conditions by name, each {CONDITION_EXPECTED}"),
        }
    }
}
