//! What a request carries of the waiting room: a session pass, the token of a time, a token to pass by; and the request
//! without them.
//!
//! | what | in a field | in a cookie | in the query |
//! |---|---|---|---|
//! | token of a time | `Tidegate-Turn` | `tidegate_turn` | `tidegate_turn` |
//! | session pass | `Tidegate-Pass` | `tidegate_pass` | |
//! | token to pass the room by | `Tidegate-Bypass` | | |

use http::{HeaderMap, HeaderName, HeaderValue, Uri, header, uri::PathAndQuery};
use tidegate_control::classify::cookie_values;

/// Field, and by the same name cookie and parameter, of a token.
pub(in crate::request) const TURN_FIELD: HeaderName = HeaderName::from_static("tidegate-turn");
pub(in crate::request) const TURN: &str = "tidegate_turn";
/// Field and cookie of a pass.
pub(in crate::request) const PASS_FIELD: HeaderName = HeaderName::from_static("tidegate-pass");
pub(in crate::request) const PASS: &str = "tidegate_pass";

/// Field of a token by which programs of partners pass the room by.
pub(super) const BYPASS_FIELD: HeaderName = HeaderName::from_static("tidegate-bypass");

/// What a request carries, as it came.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Carried<'a> {
    pub(super) pass: Option<&'a [u8]>,
    pub(super) turn: Option<&'a [u8]>,
    pub(super) bypass: Option<&'a [u8]>,
    /// Whether the token is in the query.
    pub(super) in_query: bool,
}

impl<'a> Carried<'a> {
    /// Fields go before cookies and those before the query: who writes a field means it.
    pub(super) fn of(uri: &'a Uri, headers: &'a HeaderMap) -> Self {
        let field = |name: &HeaderName| headers.get(name).map(HeaderValue::as_bytes);
        let cookie = |name: &'static str| {
            let mut lines = headers.get_all(header::COOKIE).iter();
            lines.find_map(|line| cookie_values(line.as_bytes(), name).next())
        };
        let in_query = uri.query().and_then(parameter);
        Self {
            pass: field(&PASS_FIELD).or_else(|| cookie(PASS)),
            turn: field(&TURN_FIELD).or_else(|| cookie(TURN)).or(in_query),
            bypass: field(&BYPASS_FIELD),
            in_query: in_query.is_some(),
        }
    }
}

/// The token's parameter in a query.
fn parameter(query: &str) -> Option<&[u8]> {
    query.split('&').find_map(|pair| pair.strip_prefix(TURN)?.strip_prefix('=')).map(str::as_bytes)
}

/// A target without the token's parameter.
pub(super) fn without_turn(uri: &Uri) -> Option<Uri> {
    let query = uri.query()?;
    parameter(query)?;
    let is_ours = |pair: &&str| pair.strip_prefix(TURN).is_some_and(|rest| rest.starts_with('='));
    let rest: Vec<&str> = query.split('&').filter(|pair| !is_ours(pair)).collect();
    let target = match rest.is_empty() {
        true => uri.path().to_owned(),
        false => format!("{}?{}", uri.path(), rest.join("&")),
    };
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(PathAndQuery::try_from(target).ok()?);
    Uri::from_parts(parts).ok()
}

/// Takes out of a request's fields what is for us alone.
pub(super) fn strip(headers: &mut HeaderMap) {
    headers.remove(TURN_FIELD);
    headers.remove(PASS_FIELD);
    headers.remove(BYPASS_FIELD);
    let is_ours = |line: &HeaderValue| {
        let has = |name| cookie_values(line.as_bytes(), name).next().is_some();
        has(TURN) || has(PASS)
    };
    if !headers.get_all(header::COOKIE).iter().any(is_ours) {
        return;
    }
    let lines: Vec<HeaderValue> = headers.get_all(header::COOKIE).iter().cloned().collect();
    headers.remove(header::COOKIE);
    for line in lines {
        let kept = cookies_of_others(line.as_bytes());
        if !kept.is_empty()
            && let Ok(kept) = HeaderValue::from_bytes(&kept)
        {
            headers.append(header::COOKIE, kept);
        }
    }
}

fn cookies_of_others(line: &[u8]) -> Vec<u8> {
    let mut kept: Vec<u8> = Vec::with_capacity(line.len());
    for pair in line.split(|byte| *byte == b';').map(<[u8]>::trim_ascii) {
        let name = pair.split(|byte| *byte == b'=').next().unwrap_or_default().trim_ascii();
        if pair.is_empty() || name == TURN.as_bytes() || name == PASS.as_bytes() {
            continue;
        }
        if !kept.is_empty() {
            kept.extend_from_slice(b"; ");
        }
        kept.extend_from_slice(pair);
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(fields: &[(&'static str, &'static str)]) -> HeaderMap {
        let field = |(name, value): &(&'static str, &'static str)| {
            (name.parse::<HeaderName>().unwrap(), HeaderValue::from_static(value))
        };
        fields.iter().map(field).collect()
    }

    #[test]
    fn tokens_are_found_wherever_they_are() {
        let uri: Uri = "/a?x=1&tidegate_turn=Q".parse().unwrap();
        let fields = headers(&[("cookie", "a=b; tidegate_turn=C; tidegate_pass=P"), ("tidegate-turn", "F")]);
        let carried = Carried::of(&uri, &fields);
        assert_eq!((carried.turn, carried.pass), (Some(&b"F"[..]), Some(&b"P"[..])));
        let fields = headers(&[("cookie", "tidegate_turn=C")]);
        let carried = Carried::of(&uri, &fields);
        assert_eq!((carried.turn, carried.pass, carried.in_query), (Some(&b"C"[..]), None, true));
        assert_eq!(Carried::of(&uri, &HeaderMap::new()).turn, Some(&b"Q"[..]));
        let other: Uri = "/a?tidegate_turns=1&xtidegate_turn=2".parse().unwrap();
        assert_eq!(Carried::of(&other, &HeaderMap::new()).turn, None);
    }

    #[test]
    fn the_application_sees_nothing_of_them() {
        for (uri, without) in [
            ("/a?tidegate_turn=Q", "/a"),
            ("/a?x=1&tidegate_turn=Q&y=%20", "/a?x=1&y=%20"),
            ("http://h.example/a?tidegate_turn=Q&tidegate_turn=R&z", "http://h.example/a?z"),
        ] {
            let uri: Uri = uri.parse().unwrap();
            assert_eq!(without_turn(&uri).unwrap().to_string(), without);
        }
        assert_eq!(without_turn(&"/a?x=1".parse().unwrap()), None);
        assert_eq!(without_turn(&"/a".parse().unwrap()), None);

        let mut fields = headers(&[
            ("cookie", "tidegate_turn=C; a=b;tidegate_pass=P; c=d=e; "),
            ("cookie", "tidegate_pass=P"),
            ("cookie", "z=1"),
            ("tidegate-turn", "F"),
            ("tidegate-pass", "F"),
            ("tidegate-bypass", "F"),
        ]);
        strip(&mut fields);
        let cookies: Vec<_> =
            fields.get_all(header::COOKIE).iter().map(|line| line.to_str().unwrap()).collect();
        assert_eq!((cookies, fields.len()), (vec!["a=b; c=d=e", "z=1"], 2));
        let mut untouched = headers(&[("cookie", "a=b;  c=d")]);
        strip(&mut untouched);
        assert_eq!(untouched[header::COOKIE], "a=b;  c=d");
    }

    #[test]
    fn any_bytes_are_stripped() {
        bolero::check!().for_each(|bytes: &[u8]| {
            if let Ok(value) = HeaderValue::from_bytes(bytes) {
                let mut fields = HeaderMap::from_iter([(header::COOKIE, value)]);
                strip(&mut fields);
                let uri = Uri::from_static("/");
                let carried = Carried::of(&uri, &fields);
                assert_eq!((carried.pass, carried.turn), (None, None));
            }
        });
    }
}
