//! The parameters of a request, from its query and its form, read strictly.

use percent_encoding::percent_decode_str;

use crate::fault::Fault;

/// Names and values, decoded.
#[derive(Debug, Default)]
pub(crate) struct Parameters(Vec<(String, String)>);

/// More parameters than any form here has.
const MAX: usize = 64;

impl Parameters {
    /// Reads `application/x-www-form-urlencoded` text; bytes that are not UTF-8 once decoded are a fault.
    pub(crate) fn read(&mut self, text: &str) -> Result<(), Fault> {
        for pair in text.split('&').filter(|pair| !pair.is_empty()) {
            if self.0.len() == MAX {
                return Err(Fault::bad(format!("more than {MAX} parameters")));
            }
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            self.0.push((decode(name)?, decode(value)?));
        }
        Ok(())
    }

    /// The value of a parameter, if it is there and not empty.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_str())
            .filter(|value| !value.is_empty())
    }

    /// Text of 1 to `max` characters without control characters (but line ends).
    pub(crate) fn text(&self, name: &'static str, max: usize) -> Result<&str, Fault> {
        let value = self.get(name).map(str::trim).filter(|value| !value.is_empty());
        let value = value.ok_or_else(|| Fault::bad(format!("{name} is missing")))?;
        if value.chars().count() > max {
            return Err(Fault::bad(format!("{name} is longer than {max} characters")));
        }
        if value.chars().any(|char| char.is_control() && !matches!(char, '\n' | '\r' | '\t')) {
            return Err(Fault::bad(format!("{name} has control characters")));
        }
        Ok(value)
    }

    /// The number of a row, at least 1.
    pub(crate) fn id(&self, name: &'static str) -> Result<i64, Fault> {
        self.number(name, 1, i64::MAX)
    }

    /// A whole number in a range.
    pub(crate) fn number(&self, name: &'static str, min: i64, max: i64) -> Result<i64, Fault> {
        let value = self.get(name).ok_or_else(|| Fault::bad(format!("{name} is missing")))?;
        let number = value.parse::<i64>().ok().filter(|number| (min..=max).contains(number));
        number.ok_or_else(|| match max {
            i64::MAX => Fault::bad(format!("{name} must be a whole number of at least {min}")),
            _ => Fault::bad(format!("{name} must be a whole number from {min} to {max}")),
        })
    }

    /// A whole number in a range, or `default` where it is left out.
    pub(crate) fn number_or(
        &self,
        name: &'static str,
        min: i64,
        max: i64,
        default: i64,
    ) -> Result<i64, Fault> {
        if self.get(name).is_none() { Ok(default) } else { self.number(name, min, max) }
    }

    /// An amount of money such as `12`, `12.5` or `12.50`, in cents, up to ten million; `None` where it is left out.
    pub(crate) fn cents(&self, name: &'static str) -> Result<Option<i64>, Fault> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let fault = || Fault::bad(format!("{name} must be an amount such as 12.50, up to 10000000.00"));
        let (whole, part) = value.split_once('.').unwrap_or((value, "00"));
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        if !digits(whole) || !digits(part) || whole.len() > 8 || part.len() > 2 {
            return Err(fault());
        }
        let whole: i64 = whole.parse().map_err(|_| fault())?;
        let cents: i64 = format!("{part:0<2}").parse().map_err(|_| fault())?;
        Some(whole * 100 + cents).filter(|cents| *cents <= 1_000_000_000).ok_or_else(fault).map(Some)
    }
}

fn decode(text: &str) -> Result<String, Fault> {
    let spaced = text.replace('+', " ");
    let decoded = percent_decode_str(&spaced).decode_utf8();
    Ok(decoded.map_err(|_| Fault::bad("a parameter is not UTF-8".into()))?.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Parameters {
        let mut parameters = Parameters::default();
        parameters.read(text).expect("readable");
        parameters
    }

    #[test]
    fn decodes_pluses_percents_and_utf8() {
        let parameters = of("a=1+2%2B3&b=%C3%A4&empty=&flag");
        assert_eq!(parameters.get("a"), Some("1 2+3"));
        assert_eq!(parameters.get("b"), Some("ä"));
        assert_eq!(
            (parameters.get("empty"), parameters.get("flag"), parameters.get("none")),
            (None, None, None)
        );
    }

    #[test]
    fn refuses_what_is_not_utf8_too_much_or_out_of_range() {
        assert!(Parameters::default().read("a=%ff").is_err());
        assert!(Parameters::default().read(&"a=1&".repeat(65)).is_err());
        let parameters = of("zero=0&huge=99999999999999999999&word=x&nul=a%00b&long=abcdef");
        for name in ["zero", "huge", "word", "none"] {
            assert!(parameters.id(name).is_err(), "{name}");
        }
        assert!(parameters.text("nul", 10).is_err() && parameters.text("long", 5).is_err());
        assert_eq!(parameters.text("long", 6).ok(), Some("abcdef"));
    }

    #[test]
    fn reads_money_exactly() {
        let parameters = of("a=12&b=12.5&c=0.07&d=10000000.00&e=10000000.01&f=-1&g=1.234&h=.5&i=1e3");
        assert_eq!(parameters.cents("a").ok(), Some(Some(1_200)));
        assert_eq!(parameters.cents("b").ok(), Some(Some(1_250)));
        assert_eq!(parameters.cents("c").ok(), Some(Some(7)));
        assert_eq!(parameters.cents("d").ok(), Some(Some(1_000_000_000)));
        assert_eq!(parameters.cents("none").ok(), Some(None));
        for name in ["e", "f", "g", "h", "i"] {
            assert!(parameters.cents(name).is_err(), "{name}");
        }
    }
}
