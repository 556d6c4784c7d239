//! One client's cookies, as far as one server needs them (RFC 6265, sections 5.1.4 to 5.4).
//!
//! Name, value, `Path`, `Max-Age`, `Expires` and `Secure` count. `Domain` does not: a generator talks
//! to one host, whatever name it has there.

use std::time::{Duration, Instant, SystemTime};

use http::HeaderValue;

/// The most cookies a client keeps; the oldest goes first.
const COOKIES_MAX: usize = 50;
/// The longest name, value and path together, in bytes.
const COOKIE_BYTES_MAX: usize = 4096;

/// The cookies of one client.
#[derive(Debug, Default)]
pub(crate) struct Jar(Vec<Cookie>);

#[derive(Debug)]
struct Cookie {
    name: Box<str>,
    value: Box<str>,
    path: Box<str>,
    expires: Option<Instant>,
}

impl Jar {
    /// Takes in a `Set-Cookie` of a reply to a request for `path`.
    pub(crate) fn take_in(&mut self, header: &HeaderValue, path: &str, secure: bool, now: Instant) {
        let Some((cookie, is_gone)) = header.to_str().ok().and_then(|text| parse(text, path, secure, now))
        else {
            return;
        };
        let cookies = &mut self.0;
        let place = cookies.iter().position(|old| old.name == cookie.name && old.path == cookie.path);
        match (place, is_gone) {
            (Some(place), true) => {
                cookies.remove(place);
            }
            // In the place of the old: the order of creation stays (section 5.3, step 11.3).
            (Some(place), false) => {
                if let Some(old) = cookies.get_mut(place) {
                    *old = cookie;
                }
            }
            (None, true) => {}
            (None, false) => {
                if cookies.len() == COOKIES_MAX {
                    cookies.remove(0);
                }
                cookies.push(cookie);
            }
        }
    }

    /// The `Cookie` header of a request for `path`, if there is anything to send.
    pub(crate) fn header(&self, path: &str, now: Instant) -> Option<HeaderValue> {
        let mut matching: Vec<&Cookie> = self
            .0
            .iter()
            .filter(|cookie| cookie.expires.is_none_or(|expires| now < expires))
            .filter(|cookie| path_matches(path, &cookie.path))
            .collect();
        // Longer paths first; the sort is stable, so among equals the older (section 5.4, step 2).
        matching.sort_by_key(|cookie| std::cmp::Reverse(cookie.path.len()));
        let pairs: Vec<String> =
            matching.iter().map(|cookie| format!("{}={}", cookie.name, cookie.value)).collect();
        if pairs.is_empty() { None } else { HeaderValue::from_str(&pairs.join("; ")).ok() }
    }
}

/// A cookie, and whether it says that there is none any more.
fn parse(text: &str, request_path: &str, secure: bool, now: Instant) -> Option<(Cookie, bool)> {
    let mut parts = text.split(';');
    let (name, value) = parts.next()?.split_once('=')?;
    let (name, value) = (name.trim(), value.trim());
    if name.is_empty() {
        return None;
    }
    let mut path = default_path(request_path);
    let (mut max_age, mut expires) = (None, None);
    for attribute in parts {
        let (key, value) = attribute.split_once('=').unwrap_or((attribute, ""));
        let (key, value) = (key.trim(), value.trim());
        if key.eq_ignore_ascii_case("path") {
            path = if value.starts_with('/') { value } else { default_path(request_path) };
        } else if key.eq_ignore_ascii_case("max-age") {
            max_age = value.parse::<i64>().ok().or(max_age);
        } else if key.eq_ignore_ascii_case("expires") {
            expires = httpdate::parse_http_date(value).ok().or(expires);
        } else if key.eq_ignore_ascii_case("secure") && !secure {
            return None;
        }
    }
    if name.len() + value.len() + path.len() > COOKIE_BYTES_MAX {
        return None;
    }
    let left = match (max_age, expires) {
        (Some(seconds), _) => Some(Duration::from_secs(u64::try_from(seconds).unwrap_or(0))),
        (None, Some(date)) => Some(date.duration_since(SystemTime::now()).unwrap_or_default()),
        (None, None) => None,
    };
    let cookie = Cookie {
        name: name.into(),
        value: value.into(),
        path: path.into(),
        // A time beyond what the clock can hold is for ever.
        expires: left.and_then(|left| now.checked_add(left)),
    };
    Some((cookie, left.is_some_and(|left| left.is_zero())))
}

/// The directory of the request's path (section 5.1.4).
fn default_path(request_path: &str) -> &str {
    match request_path.rfind('/') {
        Some(0) | None => "/",
        Some(end) => request_path.get(..end).unwrap_or("/"),
    }
}

fn path_matches(request: &str, cookie: &str) -> bool {
    request
        .strip_prefix(cookie)
        .is_some_and(|rest| rest.is_empty() || cookie.ends_with('/') || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn jar(lines: &[&str], now: Instant) -> Jar {
        let mut jar = Jar::default();
        for line in lines {
            jar.take_in(&HeaderValue::from_str(line).expect("a header"), "/shop/cart", false, now);
        }
        jar
    }

    fn sent(jar: &Jar, path: &str, now: Instant) -> String {
        jar.header(path, now).map_or_else(String::new, |value| value.to_str().expect("text").to_owned())
    }

    #[test]
    fn paths_decide_what_is_sent_and_in_which_order() {
        let now = Instant::now();
        let jar = jar(&["a=1; Path=/", "b=2", "c=3; path=/shop/cart/", "d=4; Path=elsewhere"], now);
        assert_eq!(sent(&jar, "/", now), "a=1");
        assert_eq!(sent(&jar, "/shop", now), "b=2; d=4; a=1");
        assert_eq!(sent(&jar, "/shopping", now), "a=1");
        assert_eq!(sent(&jar, "/shop/cart", now), "b=2; d=4; a=1");
        assert_eq!(sent(&jar, "/shop/cart/x", now), "c=3; b=2; d=4; a=1");
    }

    #[test]
    fn cookies_change_age_and_go() {
        let now = Instant::now();
        let later = |seconds| now + Duration::from_secs(seconds);
        let jar = jar(
            &[
                "a=1; Path=/; Max-Age=10; Expires=Thu, 01 Jan 1970 00:00:00 GMT",
                "b=2; Path=/",
                "gone=x; Path=/",
                "gone=; Path=/; Max-Age=0",
                "old=x; Path=/",
                "old=; Path=/; Expires=Thu, 01 Jan 1970 00:00:00 GMT",
                "b=3; Path=/",
                "c==4=; Path=/; HttpOnly; SameSite=Lax",
                "safe=5; Path=/; Secure",
                "=6",
                "no equals sign",
            ],
            now,
        );
        assert_eq!(sent(&jar, "/", later(9)), "a=1; b=3; c==4=");
        assert_eq!(sent(&jar, "/", later(10)), "b=3; c==4=");
    }

    #[test]
    fn a_jar_is_bounded() {
        let now = Instant::now();
        let lines: Vec<String> = (0..=COOKIES_MAX).map(|n| format!("n{n}={n}; Path=/")).collect();
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let text = sent(&jar(&lines, now), "/", now);
        assert_eq!(text.split("; ").count(), COOKIES_MAX);
        assert!(text.starts_with("n1=1; "));
        assert_eq!(sent(&jar(&[&format!("big={}", "x".repeat(5000))], now), "/", now), "");
    }

    proptest! {
        #[test]
        fn no_header_panics(line in "[ -~]{0,80}", path in "/[ -~]{0,20}") {
            let now = Instant::now();
            let mut jar = Jar::default();
            jar.take_in(&HeaderValue::from_str(&line).expect("printable"), &path, true, now);
            let _ = jar.header(&path, now);
        }
    }
}
