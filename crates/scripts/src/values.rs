//! Values of the language and what they mean as knobs, spans of time and names.

use std::time::Duration;

use mlua::{Lua, Table, Value as LuaValue};
use tidegate_control::knobs::{Kind, Knob, Value};

/// Bytes of a path, a name or a span of time.
const NAME_BYTES_MAX: usize = 512;

const SPAN: Kind = Kind::Span { min: Duration::ZERO, max: Duration::MAX };

/// A short text.
pub(crate) fn name(value: &LuaValue, what: &str) -> Result<String, String> {
    let LuaValue::String(text) = value else {
        return Err(format!("{what}: expected a text, not {}", described(value)));
    };
    if text.as_bytes().len() > NAME_BYTES_MAX {
        return Err(format!("{what}: longer than {NAME_BYTES_MAX} bytes"));
    }
    text.to_str().map(|text| text.to_owned()).map_err(|_| format!("{what}: not UTF-8"))
}

/// A span of time: `"5s"`, or a number of seconds.
pub(crate) fn span(value: &LuaValue, what: &str) -> Result<Duration, String> {
    let expected =
        || format!("{what}: expected a span of time such as \"5s\" or \"1min\", not {}", described(value));
    let span = match (number(value), value) {
        (Some(seconds), _) => Duration::try_from_secs_f64(seconds).ok(),
        (None, LuaValue::String(_)) => match SPAN.parse(&name(value, what)?) {
            Ok(Value::Span(span)) => Some(span),
            _ => None,
        },
        (None, _) => None,
    };
    span.filter(|span| !span.is_zero()).ok_or_else(expected)
}

/// A number, if it is one.
pub(crate) fn number(value: &LuaValue) -> Option<f64> {
    match value {
        #[expect(clippy::cast_precision_loss, reason = "the language's numbers are doubles")]
        LuaValue::Integer(n) => Some(*n as f64),
        LuaValue::Number(x) => Some(*x),
        _ => None,
    }
}

/// What a script writes, as a value of a knob: a number in the knob's unit, or text as in the
/// configuration. Whole numbers are rounded; ranges are not judged here.
pub(crate) fn to_knob(knob: Knob, value: &LuaValue) -> Result<Value, String> {
    let unfit = || format!("{} is not allowed here: expected {}", described(value), knob.expected());
    if let LuaValue::String(_) = value {
        return knob.parse(&name(value, "value")?).map_err(|fault| fault.to_string());
    }
    if let LuaValue::Boolean(flag) = value {
        return if knob.kind() == Kind::Flag { Ok(Value::Flag(*flag)) } else { Err(unfit()) };
    }
    let number = number(value).filter(|number| number.is_finite()).ok_or_else(unfit)?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the cast saturates")]
    let whole = number.round() as u64;
    Ok(match knob.kind() {
        Kind::Count { .. } => Value::Count(whole),
        Kind::Size { .. } => Value::Size(whole),
        Kind::Rate { .. } => Value::Rate(number),
        Kind::Ratio { .. } => Value::Ratio(number),
        Kind::Span { .. } => {
            let span = Duration::try_from_secs_f64(number.max(0.0));
            Value::Span(span.unwrap_or(Duration::MAX))
        }
        Kind::Flag | Kind::Choice(_) => return Err(unfit()),
    })
}

/// A knob's value as a script reads it.
pub(crate) fn from_knob(lua: &Lua, value: Value) -> mlua::Result<LuaValue> {
    #[expect(clippy::cast_precision_loss, reason = "the language's numbers are doubles")]
    Ok(match value {
        Value::None => LuaValue::Nil,
        Value::Count(n) | Value::Size(n) => LuaValue::Number(n as f64),
        Value::Rate(x) | Value::Ratio(x) => LuaValue::Number(x),
        Value::Span(span) => LuaValue::Number(span.as_secs_f64()),
        Value::Flag(flag) => LuaValue::Boolean(flag),
        Value::Choice(name) => LuaValue::String(lua.create_string(name)?),
    })
}

/// Options in a table: each key must be one of `known`.
pub(crate) struct Options(Option<Table>);

impl Options {
    pub(crate) fn new(value: &LuaValue, known: &[&str]) -> Result<Self, String> {
        let table = match value {
            LuaValue::Nil => return Ok(Self(None)),
            LuaValue::Table(table) => table,
            other => return Err(format!("options: expected a table, not {}", described(other))),
        };
        for pair in table.pairs::<LuaValue, LuaValue>() {
            let (key, _) = pair.map_err(|error| error.to_string())?;
            let key = name(&key, "options")?;
            if !known.contains(&key.as_str()) {
                return Err(format!("options: \"{key}\" is none: there is \"{}\"", known.join("\", \"")));
            }
        }
        Ok(Self(Some(table.clone())))
    }

    fn get(&self, key: &str) -> Result<LuaValue, String> {
        match &self.0 {
            None => Ok(LuaValue::Nil),
            Some(table) => table.raw_get(key).map_err(|error| error.to_string()),
        }
    }

    pub(crate) fn span(&self, key: &str) -> Result<Option<Duration>, String> {
        match self.get(key)? {
            LuaValue::Nil => Ok(None),
            value => span(&value, key).map(Some),
        }
    }

    /// A number that is not negative.
    pub(crate) fn number(&self, key: &str) -> Result<Option<f64>, String> {
        match self.get(key)? {
            LuaValue::Nil => Ok(None),
            value => match number(&value).filter(|number| *number >= 0.0) {
                Some(number) => Ok(Some(number)),
                None => Err(format!("{key}: expected a number from 0, not {}", described(&value))),
            },
        }
    }
}

/// A value in a message: short, and without calling anything of the script's.
pub(crate) fn described(value: &LuaValue) -> String {
    const BYTES_SHOWN: usize = 40;
    match value {
        LuaValue::Nil => "nil".to_owned(),
        LuaValue::Boolean(flag) => flag.to_string(),
        LuaValue::Integer(n) => n.to_string(),
        LuaValue::Number(x) => x.to_string(),
        LuaValue::String(text) => {
            let bytes = text.as_bytes();
            let shown = bytes.get(..BYTES_SHOWN).unwrap_or(&bytes);
            let dots = if shown.len() < bytes.len() { "…" } else { "" };
            format!("{:?}{dots}", String::from_utf8_lossy(shown))
        }
        other => format!("a {}", other.type_name()),
    }
}
