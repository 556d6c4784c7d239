//! Named fields of a request as rules see them: query parameters, cookies and conditions on their values.

use std::borrow::Cow;

use regex::bytes::Regex;

use super::path::escape;

/// A condition on a field's value, compiled.
#[derive(Clone, Debug)]
pub(super) enum ValueCondition {
    Present,
    Absent,
    Exact(Box<[u8]>),
    Prefix(Box<[u8]>),
    Regex(Regex),
}

impl ValueCondition {
    /// Whether the condition holds for a field with these values.
    pub(super) fn holds<'a>(&self, mut values: impl Iterator<Item = Cow<'a, [u8]>>) -> bool {
        match self {
            Self::Present => values.next().is_some(),
            Self::Absent => values.next().is_none(),
            Self::Exact(wanted) => values.any(|value| *value == **wanted),
            Self::Prefix(wanted) => values.any(|value| value.starts_with(wanted)),
            Self::Regex(regex) => values.any(|value| regex.is_match(&value)),
        }
    }
}

/// Values of the query parameter `name`, in order, decoded as
/// `application/x-www-form-urlencoded` (WHATWG URL, section 5.1): pairs end at `&`, the name at
/// the first `=`; `+` is a space and `%` begins an escape, or stands for itself where none follows.
///
/// Allocates only for values of that name that hold `+` or `%`.
pub fn query_values<'a>(query: &'a str, name: &'a str) -> impl Iterator<Item = Cow<'a, [u8]>> + 'a {
    query.split('&').filter(|pair| !pair.is_empty()).filter_map(move |pair| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        decoded(key.as_bytes()).eq(name.bytes()).then(|| {
            if value.bytes().any(|byte| matches!(byte, b'+' | b'%')) {
                Cow::Owned(decoded(value.as_bytes()).collect())
            } else {
                Cow::Borrowed(value.as_bytes())
            }
        })
    })
}

/// Values of the cookie `name` in one `Cookie` field line, in order (RFC 6265, section 4.2.1):
/// pairs end at `;`, the name at the first `=`, blanks around both go. Quotes belong to the value,
/// as for browsers; a pair without `=` is no cookie. Names are case-sensitive.
pub fn cookie_values<'a>(line: &'a [u8], name: &'a str) -> impl Iterator<Item = &'a [u8]> + 'a {
    line.split(|&byte| byte == b';').filter_map(move |pair| {
        let equals = pair.iter().position(|&byte| byte == b'=')?;
        let (key, value) = pair.split_at(equals);
        (key.trim_ascii() == name.as_bytes()).then(|| value.get(1..).unwrap_or_default().trim_ascii())
    })
}

/// The octets that a form-encoded text stands for.
fn decoded(text: &[u8]) -> impl Iterator<Item = u8> + '_ {
    let mut rest = text;
    std::iter::from_fn(move || {
        let (&byte, tail) = rest.split_first()?;
        rest = tail;
        Some(match byte {
            b'+' => b' ',
            b'%' => escape(tail).map_or(b'%', |octet| {
                rest = &tail[2..];
                octet
            }),
            other => other,
        })
    })
}

#[cfg(test)]
mod tests;
