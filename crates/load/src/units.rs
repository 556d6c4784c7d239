//! Human units in and out: durations (`"250ms"`) and rates (`"60/s"`).

use std::{fmt, str::FromStr, time::Duration};

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{Error as _, Visitor},
};

/// The longest duration that is accepted anywhere: ten days.
pub const DURATION_MAX: Duration = Duration::from_secs(10 * 24 * 3600);

/// The highest rate that is accepted, per second.
pub const RATE_PER_S_MAX: f64 = 10_000_000.0;

/// A text that is no duration, rate or arrival pattern; says what was found and what is wanted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{found}` is not {thing}: {mend}")]
pub struct UnitError {
    /// What the text was meant to be, with its article: `a duration`.
    pub thing: &'static str,
    /// The text itself, cut to 80 characters.
    pub found: String,
    /// What to write instead.
    pub mend: &'static str,
}

impl UnitError {
    pub(crate) fn new(thing: &'static str, found: &str, mend: &'static str) -> Self {
        Self { thing, found: found.chars().take(80).collect(), mend }
    }
}

/// Reads a duration: a decimal number and one of `us`, `ms`, `s`, `m`, `h`; `0` needs no unit.
///
/// # Errors
/// The text has no such form, is negative or exceeds [`DURATION_MAX`].
pub fn parse_duration(text: &str) -> Result<Duration, UnitError> {
    let fault = || {
        UnitError::new(
            "a duration",
            text,
            "write a number and its unit (us, ms, s, m, h), at most 240h, such as `250ms`",
        )
    };
    let trimmed = text.trim();
    if trimmed == "0" {
        return Ok(Duration::ZERO);
    }
    let unit_at = trimmed.find(|c: char| c.is_ascii_alphabetic()).ok_or_else(fault)?;
    let (number, unit) = trimmed.split_at(unit_at);
    let seconds_per_unit = match unit {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err(fault()),
    };
    let seconds = plain_decimal(number).ok_or_else(fault)? * seconds_per_unit;
    let span = Duration::try_from_secs_f64(seconds).map_err(|_| fault())?;
    if span > DURATION_MAX { Err(fault()) } else { Ok(span) }
}

/// Writes a duration so that [`parse_duration`] reads the same back, to a nanosecond.
#[must_use]
pub fn format_duration(span: Duration) -> String {
    let nanos = span.as_nanos();
    match nanos {
        0 => "0s".to_owned(),
        _ if nanos.is_multiple_of(1_000_000_000) => format!("{}s", nanos / 1_000_000_000),
        _ if nanos.is_multiple_of(1_000_000) => format!("{}ms", nanos / 1_000_000),
        _ if nanos.is_multiple_of(1_000) => format!("{}us", nanos / 1_000),
        _ => format!("{}.{:03}us", nanos / 1_000, nanos % 1_000),
    }
}

/// A rate in events a second: finite, not negative, at most [`RATE_PER_S_MAX`].
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Rate(f64);

impl Rate {
    /// No events at all.
    pub const ZERO: Self = Self(0.0);

    /// From events a second.
    ///
    /// # Errors
    /// Negative, not finite, or above [`RATE_PER_S_MAX`].
    pub fn per_s(events_per_s: f64) -> Result<Self, UnitError> {
        if events_per_s.is_finite() && (0.0..=RATE_PER_S_MAX).contains(&events_per_s) {
            Ok(Self(events_per_s))
        } else {
            Err(UnitError::new(
                "a rate",
                &events_per_s.to_string(),
                "give events a second from 0 to 10000000",
            ))
        }
    }

    /// Events a second.
    #[must_use]
    pub const fn as_per_s(self) -> f64 {
        self.0
    }
}

impl FromStr for Rate {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let fault =
            || UnitError::new("a rate", text, "write a number and `/s`, `/min` or `/h`, such as `60/s`");
        let (number, unit) = text.trim().split_once('/').ok_or_else(fault)?;
        let seconds = match unit {
            "s" => 1.0,
            "min" => 60.0,
            "h" => 3600.0,
            _ => return Err(fault()),
        };
        Self::per_s(plain_decimal(number).ok_or_else(fault)? / seconds).map_err(|_| fault())
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/s", self.0)
    }
}

/// A decimal without sign, exponent, `inf` or `NaN`, all of which `f64::from_str` would take.
fn plain_decimal(text: &str) -> Option<f64> {
    let text = text.trim_end();
    let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    if plain { text.parse().ok() } else { None }
}

/// Text; another value is told with what is wanted instead.
pub(crate) fn text<'de, D: Deserializer<'de>>(from: D, wanted: &'static str) -> Result<String, D::Error> {
    struct Text(&'static str);

    impl Visitor<'_> for Text {
        type Value = String;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }

        fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<String, E> {
            Ok(text.to_owned())
        }
    }

    from.deserialize_str(Text(wanted))
}

/// A duration as it is written.
struct Written(Duration);

impl<'de> Deserialize<'de> for Written {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = text(from, "a duration in quotes, such as \"250ms\"")?;
        parse_duration(&text).map(Self).map_err(D::Error::custom)
    }
}

/// For `#[serde(with = "duration")]`: a duration as human text.
pub(crate) mod duration {
    use super::{Deserialize, Deserializer, Duration, Serializer, Written};

    pub(crate) fn serialize<S: Serializer>(span: &Duration, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&super::format_duration(*span))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        Written::deserialize(from).map(|Written(span)| span)
    }
}

/// For `#[serde(with = "optional_duration")]`: a duration as human text, or nothing.
pub(crate) mod optional_duration {
    use super::{Deserialize, Deserializer, Duration, Serializer, Written};

    pub(crate) fn serialize<S: Serializer>(span: &Option<Duration>, to: S) -> Result<S::Ok, S::Error> {
        match span {
            Some(span) => to.serialize_some(&super::format_duration(*span)),
            None => to.serialize_none(),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
        Ok(Option::<Written>::deserialize(from)?.map(|Written(span)| span))
    }
}

impl Serialize for Rate {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Rate {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        text(from, "a rate in quotes, such as \"60/s\"")?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn units_are_read_and_faults_name_the_mend() {
        assert_eq!(parse_duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(parse_duration("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(parse_duration("2m"), Ok(Duration::from_secs(120)));
        assert_eq!(parse_duration("0"), Ok(Duration::ZERO));
        assert_eq!("60/min".parse(), Rate::per_s(1.0));
        for bad in ["", "s", "5", "-1s", "1e9s", "NaNs", "infs", "1 day", "241h", "1..2s", "٣s"] {
            let fault = parse_duration(bad).expect_err(bad);
            assert!(fault.to_string().contains("250ms"), "{fault}");
        }
        for bad in ["", "/s", "60", "60/", "60/d", "-1/s", "inf/s", "1e3/s", "10000001/s"] {
            assert!(bad.parse::<Rate>().is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn a_duration_survives_being_written(nanos in prop_oneof![0u64..864_000_000_000_000, 0u64..5000]) {
            let span = Duration::from_nanos(nanos);
            let read = parse_duration(&format_duration(span)).expect("own output");
            // The number passes through f64: at most a nanosecond is lost.
            prop_assert!(read.abs_diff(span) <= Duration::from_nanos(1));
        }

        #[test]
        fn no_text_panics(text in "\\PC{0,40}") {
            let _ = parse_duration(&text);
            let _ = text.parse::<Rate>();
        }
    }
}
