//! Values of knobs: kinds, ranges, human units, and the typed view of them.

use std::{fmt, marker::PhantomData, time::Duration};

use super::{ChoiceSet, Knob};

/// What a knob holds, with its inclusive range.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// A whole number without unit.
    Count {
        /// Smallest value allowed.
        min: u64,
        /// Largest value allowed.
        max: u64,
    },
    /// Events per second, written `"35/s"` (also `/min`, `/h`).
    Rate {
        /// Smallest value allowed, per second.
        min: f64,
        /// Largest value allowed, per second.
        max: f64,
    },
    /// A span of time, written `"250ms"`.
    Span {
        /// Smallest value allowed.
        min: Duration,
        /// Largest value allowed.
        max: Duration,
    },
    /// A size in bytes, written `"10MiB"`.
    Size {
        /// Smallest value allowed, bytes.
        min: u64,
        /// Largest value allowed, bytes.
        max: u64,
    },
    /// A plain number without unit.
    Ratio {
        /// Smallest value allowed.
        min: f64,
        /// Largest value allowed.
        max: f64,
    },
    /// `true` or `false`.
    Flag,
    /// One of the names.
    Choice(&'static [&'static str]),
}

/// The value of a knob. Small and `Copy`, so that it can be passed under locks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// "none": an optional knob that is off.
    None,
    /// A whole number.
    Count(u64),
    /// Per second.
    Rate(f64),
    /// A span of time.
    Span(Duration),
    /// Bytes.
    Size(u64),
    /// A plain number.
    Ratio(f64),
    /// Yes or no.
    Flag(bool),
    /// The name chosen, one of the row's.
    Choice(&'static str),
}

/// A value that a knob's row does not allow; says what would be allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{found} is not allowed here: expected {expected}")]
pub struct Fault {
    /// What was given.
    pub found: String,
    /// What the row allows, in words.
    pub expected: String,
}

/// A knob together with the Rust type of its value.
#[derive(Debug)]
pub struct Key<T> {
    knob: Knob,
    marker: PhantomData<fn() -> T>,
}

impl<T> Clone for Key<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Key<T> {}

impl<T> Key<T> {
    /// Used by the table only, which checks that `T` and the row's kind agree (by test).
    pub(super) const fn new(knob: Knob) -> Self {
        Self { knob, marker: PhantomData }
    }

    /// The row.
    #[must_use]
    pub const fn knob(self) -> Knob {
        self.knob
    }
}

/// A Rust type in which knobs can be read.
pub trait ValueType: Sized {
    /// Reads the value.
    ///
    /// # Panics
    ///
    /// If the value is of another kind, which the table's test and [`Knob::check`] rule out.
    fn from_value(value: Value) -> Self;
}

macro_rules! value_type {
    ($type:ty, $variant:ident) => {
        impl ValueType for $type {
            fn from_value(value: Value) -> Self {
                match value {
                    Value::$variant(inner) => inner,
                    other => unreachable!("a {} knob holds {other:?}", stringify!($variant)),
                }
            }
        }
    };
}

/// Rust type of a [`Kind::Count`].
pub(super) type Count = u64;
value_type!(Count, Count);
/// Rust type of a [`Kind::Span`].
pub(super) type Span = Duration;
value_type!(Span, Span);
value_type!(bool, Flag);

/// Events per second.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct PerSecond(pub f64);

impl ValueType for PerSecond {
    fn from_value(value: Value) -> Self {
        match value {
            Value::Rate(rate) => Self(rate),
            other => unreachable!("a Rate knob holds {other:?}"),
        }
    }
}

/// A size in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bytes(pub u64);

impl ValueType for Bytes {
    fn from_value(value: Value) -> Self {
        match value {
            Value::Size(bytes) => Self(bytes),
            other => unreachable!("a Size knob holds {other:?}"),
        }
    }
}

impl ValueType for f64 {
    fn from_value(value: Value) -> Self {
        match value {
            Value::Ratio(ratio) => ratio,
            other => unreachable!("a Ratio knob holds {other:?}"),
        }
    }
}

impl<T: ValueType> ValueType for Option<T> {
    fn from_value(value: Value) -> Self {
        match value {
            Value::None => None,
            some => Some(T::from_value(some)),
        }
    }
}

/// A choice read as its Rust enum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chosen<C>(pub C);

impl<C: ChoiceSet> ValueType for Chosen<C> {
    fn from_value(value: Value) -> Self {
        match value {
            Value::Choice(name) => {
                Self(C::from_name(name).unwrap_or_else(|| unreachable!("{name} is in no row of that choice")))
            }
            other => unreachable!("a Choice knob holds {other:?}"),
        }
    }
}

impl Kind {
    /// What is allowed, in words: `"a rate from 0.001/s to 1000000000/s, such as \"35/s\""`.
    #[must_use]
    pub fn expected(&self) -> String {
        let range = |from: Value, to: Value| format!("from {from} to {to}");
        match *self {
            Self::Count { min, max } => {
                format!("a whole number {}", range(Value::Count(min), Value::Count(max)))
            }
            Self::Rate { min, max } => {
                format!("a rate {}, such as \"35/s\"", range(Value::Rate(min), Value::Rate(max)))
            }
            Self::Span { min, max } => {
                format!("a span of time {}, such as \"250ms\"", range(Value::Span(min), Value::Span(max)))
            }
            Self::Size { min, max } => {
                format!("a size {}, such as \"10MiB\"", range(Value::Size(min), Value::Size(max)))
            }
            Self::Ratio { min, max } => format!("a number {}", range(Value::Ratio(min), Value::Ratio(max))),
            Self::Flag => "true or false".to_owned(),
            Self::Choice(names) => format!("one of \"{}\"", names.join("\", \"")),
        }
    }

    /// Whether `value` is of this kind and in range. NaN is in no range.
    #[must_use]
    pub fn admits(&self, value: Value) -> bool {
        match (*self, value) {
            (Self::Count { min, max }, Value::Count(n)) | (Self::Size { min, max }, Value::Size(n)) => {
                (min..=max).contains(&n)
            }
            (Self::Rate { min, max }, Value::Rate(x)) | (Self::Ratio { min, max }, Value::Ratio(x)) => {
                (min..=max).contains(&x)
            }
            (Self::Span { min, max }, Value::Span(span)) => (min..=max).contains(&span),
            (Self::Flag, Value::Flag(_)) => true,
            (Self::Choice(names), Value::Choice(name)) => names.contains(&name),
            _ => false,
        }
    }

    /// The value of this kind nearest to `value`: a number beyond the range becomes the end of the
    /// range. `None` if it is of another kind, NaN, or a name that is not one of the row's.
    #[must_use]
    pub fn nearest(&self, value: Value) -> Option<Value> {
        let nearest = match (*self, value) {
            (Self::Count { min, max }, Value::Count(n)) => Value::Count(n.clamp(min, max)),
            (Self::Size { min, max }, Value::Size(n)) => Value::Size(n.clamp(min, max)),
            (Self::Rate { min, max }, Value::Rate(x)) => Value::Rate(x.clamp(min, max)),
            (Self::Ratio { min, max }, Value::Ratio(x)) => Value::Ratio(x.clamp(min, max)),
            (Self::Span { min, max }, Value::Span(span)) => Value::Span(span.clamp(min, max)),
            _ => value,
        };
        self.admits(nearest).then_some(nearest)
    }

    /// Reads a value as people write it: `64`, `35/s`, `250ms`, `10MiB`, `true`, a name.
    ///
    /// The range is not checked here but by [`Knob::check`].
    ///
    /// # Errors
    ///
    /// [`Fault`] naming what was expected.
    pub fn parse(&self, text: &str) -> Result<Value, Fault> {
        let text = text.trim();
        match *self {
            Self::Count { .. } => text.parse().ok().map(Value::Count),
            Self::Rate { .. } => parse_rate(text).map(Value::Rate),
            Self::Span { .. } => parse_span(text).map(Value::Span),
            Self::Size { .. } => parse_size(text).map(Value::Size),
            Self::Ratio { .. } => text.parse().ok().filter(|x: &f64| x.is_finite()).map(Value::Ratio),
            Self::Flag => text.parse().ok().map(Value::Flag),
            Self::Choice(names) => names.iter().find(|name| **name == text).map(|name| Value::Choice(name)),
        }
        .ok_or_else(|| Fault { found: format!("\"{text}\""), expected: self.expected() })
    }
}

/// `35/s`, `90/min`, `10/h`, as events per second.
fn parse_rate(text: &str) -> Option<f64> {
    let (number, unit) = text.split_once('/')?;
    let seconds = match unit.trim() {
        "s" => 1.0,
        "min" => 60.0,
        "h" => 3600.0,
        _ => return None,
    };
    let number = number.trim();
    if !number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        return None;
    }
    let rate = number.parse::<f64>().ok()? / seconds;
    rate.is_finite().then_some(rate)
}

/// `1.5s`, `250ms`, `10us`, `5min`, `2h`, `7d`.
fn parse_span(text: &str) -> Option<Duration> {
    let (number, unit) = number_and_unit(text)?;
    let nanos = match unit {
        "ns" => 1.0,
        "us" | "µs" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        "min" => 60e9,
        "h" => 3600e9,
        "d" => 86_400e9,
        _ => return None,
    };
    // Whole nanoseconds, and exact below 104 days, so that what is printed reads back the same.
    let span = (number * nanos).round();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "within the range")]
    (0.0..1.8e19).contains(&span).then(|| Duration::from_nanos(span as u64))
}

/// `512B`, `64KiB`, `10MiB`, `1GiB`, and the decimal kB, MB, GB.
fn parse_size(text: &str) -> Option<u64> {
    let (number, unit) = number_and_unit(text)?;
    let factor: f64 = match unit {
        "B" => 1.0,
        "KiB" => 1024.0,
        "MiB" => 1_048_576.0,
        "GiB" => 1_073_741_824.0,
        "TiB" => 1_099_511_627_776.0,
        "kB" => 1e3,
        "MB" => 1e6,
        "GB" => 1e9,
        _ => return None,
    };
    let bytes = number * factor;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "checked to be a whole number in range"
    )]
    (bytes.fract() == 0.0 && (0.0..9e15).contains(&bytes)).then_some(bytes as u64)
}

fn number_and_unit(text: &str) -> Option<(f64, &str)> {
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, unit) = text.split_at(split);
    Some((number.parse().ok()?, unit.trim_start()))
}

impl fmt::Display for Value {
    /// As [`Kind::parse`] reads it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::None => f.write_str("none"),
            Self::Count(n) => write!(f, "{n}"),
            Self::Rate(rate) => write!(f, "{rate}/s"),
            Self::Span(span) => {
                let nanos = span.as_nanos();
                let (unit, name) = [
                    (86_400_000_000_000, "d"),
                    (3_600_000_000_000, "h"),
                    (60_000_000_000, "min"),
                    (1_000_000_000, "s"),
                    (1_000_000, "ms"),
                    (1_000, "us"),
                ]
                .into_iter()
                .find(|(unit, _)| nanos > 0 && nanos.is_multiple_of(*unit))
                .unwrap_or((1, "ns"));
                write!(f, "{}{name}", nanos / unit)
            }
            Self::Size(bytes) => {
                let (unit, name) = [(1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")]
                    .into_iter()
                    .find(|(unit, _)| bytes > 0 && bytes.is_multiple_of(*unit))
                    .unwrap_or((1, "B"));
                write!(f, "{}{name}", bytes / unit)
            }
            Self::Ratio(ratio) => write!(f, "{ratio}"),
            Self::Flag(flag) => write!(f, "{flag}"),
            Self::Choice(name) => f.write_str(name),
        }
    }
}
