//! The table of knobs: everything that can be changed while running is one row.
//!
//! Configuration file, HTTP API, `tidegate get` and `set`, scripts, dashboard and docs/knobs.md
//! all grow from [`Knob::ALL`]. A row has a scope; its full path is
//! `<knob>` for the host, `<application>/<knob>`, `<application>/<class>/<knob>` and
//! `<application>/servers/<server>/<knob>`.
//!
//! Listeners, rules, certificates and upstream addresses are structure, not knobs: they live in
//! the configuration file and in the API's own resources.

mod choices;
mod table;
mod value;

pub use choices::{
    Algorithm, BalancePolicy, ChoiceSet, ClassRoomMethod, Discipline, HalfClosed, KeepAlivePolicy, Mode,
    RefusalStatus, RoomCarry, RoomMethod, RoomOrder, RoomRole, SchedulerKind,
};
pub use table::{Knob, keys};
pub use value::{Bytes, Chosen, Fault, Key, Kind, PerSecond, Value, ValueType};

/// What a knob belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// The gateway as a whole.
    Host,
    /// One application.
    Application,
    /// One class of requests of an application.
    Class,
    /// One upstream server of an application.
    Server,
}

impl Scope {
    /// Every scope, widest first.
    pub const ALL: &'static [Self] = &[Self::Host, Self::Application, Self::Class, Self::Server];

    /// The scope itself, and those of what is in it: all is the host's, classes and servers are an application's.
    #[must_use]
    pub const fn parts(self) -> &'static [Self] {
        match self {
            Self::Host => Self::ALL,
            Self::Application => &[Self::Application, Self::Class, Self::Server],
            Self::Class => &[Self::Class],
            Self::Server => &[Self::Server],
        }
    }

    /// The scope's name in documentation and API.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Application => "application",
            Self::Class => "class",
            Self::Server => "server",
        }
    }

    /// One of it, in a sentence: `an application`.
    #[must_use]
    pub const fn one(self) -> &'static str {
        match self {
            Self::Host => "a host",
            Self::Application => "an application",
            Self::Class => "a class",
            Self::Server => "a server",
        }
    }
}

/// Pairs of knobs of one scope of which the first must not exceed the second.
const ORDERED: &[(Knob, Knob)] = &[
    (Knob::IN_FLIGHT_MIN, Knob::IN_FLIGHT_MAX),
    (Knob::QUEUE_CODEL_TARGET, Knob::QUEUE_CODEL_INTERVAL),
    (Knob::CAPACITY_FLOOR, Knob::CAPACITY_CEILING),
];

/// The present values of one scope instance (one class, one server, …), dense by knob.
#[derive(Clone, Debug, PartialEq)]
pub struct Values {
    scope: Scope,
    /// The first knob's place in the table.
    first: usize,
    values: Vec<Value>,
}

impl Values {
    /// The defaults of every knob of `scope`.
    #[must_use]
    pub fn defaults(scope: Scope) -> Self {
        let all = Knob::ALL.iter();
        Self {
            scope,
            first: all.clone().take_while(|knob| knob.scope() < scope).count(),
            values: all.filter(|knob| knob.scope() == scope).map(|knob| knob.default()).collect(),
        }
    }

    /// Which scope these values belong to.
    #[must_use]
    pub const fn scope(&self) -> Scope {
        self.scope
    }

    /// The value of a knob by its typed key.
    ///
    /// # Panics
    ///
    /// If `key` belongs to another scope: a mistake in the program, not in its input.
    #[must_use]
    #[inline]
    pub fn get<T: ValueType>(&self, key: Key<T>) -> T {
        T::from_value(self.value(key.knob()))
    }

    /// The untyped value of a knob.
    ///
    /// # Panics
    ///
    /// If `knob` belongs to another scope.
    #[must_use]
    #[inline]
    pub fn value(&self, knob: Knob) -> Value {
        self.values[self.index_of(knob)]
    }

    /// Where a knob's value is. Read for each request, so that one comparison says both that it is of this scope and that it
    /// is there: scopes stand one after the other in the table.
    #[inline]
    fn index_of(&self, knob: Knob) -> usize {
        let index = (knob as usize).wrapping_sub(self.first);
        assert!(index < self.values.len(), "{} is no {} knob", knob.name(), self.scope.name());
        index
    }

    /// Sets a knob after checking `value` against its row.
    ///
    /// # Errors
    ///
    /// [`Fault`] with the range when the value is outside it or of another kind; nothing changes.
    pub fn set(&mut self, knob: Knob, value: Value) -> Result<(), Fault> {
        let index = self.index_of(knob);
        knob.check(value)?;
        self.values[index] = value;
        Ok(())
    }

    /// The pairs of knobs that are in the wrong order: the first is more than the second, and must not be.
    pub fn disagreements(&self) -> impl Iterator<Item = (Knob, Knob)> + '_ {
        ORDERED.iter().copied().filter(|(low, high)| {
            low.scope() == self.scope
                && match (self.value(*low), self.value(*high)) {
                    (Value::Count(low), Value::Count(high)) => low > high,
                    (Value::Span(low), Value::Span(high)) => low > high,
                    (Value::Rate(low), Value::Rate(high)) => low > high,
                    _ => false,
                }
        })
    }

    /// What is wrong about such a pair, and the mend.
    #[must_use]
    pub fn disagreement(&self, low: Knob, high: Knob) -> (String, String) {
        (
            format!("{} is more than {}, which is {}", self.value(low), high.name(), self.value(high)),
            format!("lower {} or raise {}", low.name(), high.name()),
        )
    }

    /// Every knob of the scope with its present value, in table order.
    pub fn iter(&self) -> impl Iterator<Item = (Knob, Value)> + '_ {
        Knob::ALL.iter().copied().filter(|knob| knob.scope() == self.scope).zip(self.values.iter().copied())
    }
}

#[cfg(test)]
mod tests;
