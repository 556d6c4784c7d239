//! Where and when a reply tells its client to go: `Refresh`, and redirects with `Retry-After`.

use std::time::Duration;

use http::{HeaderMap, Method, StatusCode, Uri, header, uri::Authority};

use crate::request::RequestTemplate;

/// What a client was told to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Onward {
    /// How long to wait first; zero for a plain redirect.
    pub(crate) after: Duration,
    /// The same to the millisecond, as a page's script knows it.
    pub(crate) exactly: Option<Duration>,
    pub(crate) place: Place,
    /// Whether the request is repeated as a `GET` without its body.
    pub(crate) as_get: bool,
}

/// Where the client was told to go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// To where it came from.
    Same,
    /// To another path of this server.
    Path(Box<str>),
    /// To another server, or to nowhere that can be read. The load is meant for one server.
    Elsewhere,
}

impl Onward {
    /// What a reply to a request for `path` says, if it says anything of the kind.
    pub(crate) fn read(
        status: StatusCode,
        headers: &HeaderMap,
        method: &Method,
        path: &str,
        authority: &Authority,
    ) -> Option<Self> {
        if let Some(value) = headers.get(header::REFRESH) {
            let (after, target) = parse_refresh(value.to_str().ok()?)?;
            let place = target.map_or(Place::Same, |target| locate(target, path, authority));
            return Some(Self { after, exactly: retry_after_ms(headers), place, as_get: true });
        }
        let as_get = match status.as_u16() {
            // What browsers do with a redirected POST (RFC 9110, sections 15.4.2 to 15.4.4).
            301 | 302 => *method == Method::POST,
            303 => *method != Method::HEAD,
            307 | 308 => false,
            _ => return None,
        };
        let location = headers.get(header::LOCATION)?;
        let place = location.to_str().map_or(Place::Elsewhere, |target| locate(target, path, authority));
        Some(Self { after: retry_after(headers).unwrap_or_default(), exactly: None, place, as_get })
    }
}

/// `Retry-After`, in seconds or as a date.
pub(crate) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse::<u32>() {
        return Some(Duration::from_secs(seconds.into()));
    }
    let date = httpdate::parse_http_date(text).ok()?;
    Some(date.duration_since(std::time::SystemTime::now()).unwrap_or_default())
}

/// `Retry-After-Ms`, in milliseconds.
fn retry_after_ms(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get("retry-after-ms")?.to_str().ok()?.trim();
    text.parse::<u32>().ok().map(|millis| Duration::from_millis(millis.into()))
}

/// `5`, `5; url=/x`, `5;URL='/x'`, `0.5,/x`: as HTML's meta refresh is read (HTML Living Standard,
/// "shared declarative refresh steps").
fn parse_refresh(text: &str) -> Option<(Duration, Option<&str>)> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, rest) = text.split_at(end);
    // Browsers drop the fraction; a promise is in whole seconds.
    let whole = number.split('.').next().unwrap_or_default();
    let seconds: u32 = if whole.is_empty() && number.starts_with('.') { 0 } else { whole.parse().ok()? };
    let rest = rest.trim_start();
    let rest = rest.strip_prefix([';', ',']).unwrap_or(rest).trim();
    let target = match rest.get(..3) {
        Some(url) if url.eq_ignore_ascii_case("url") => {
            let after = rest.get(3..).unwrap_or_default().trim_start();
            after.strip_prefix('=').map_or(rest, str::trim)
        }
        _ => rest,
    };
    let target = match target.chars().next() {
        Some(quote @ ('\'' | '"')) => {
            target.get(1..).unwrap_or_default().split(quote).next().unwrap_or_default()
        }
        _ => target,
    };
    Some((Duration::from_secs(seconds.into()), (!target.is_empty()).then_some(target)))
}

/// Resolves a reference against the path of the request (RFC 3986, section 5.2, without its dot segments,
/// which are the server's to read).
fn locate(target: &str, path: &str, authority: &Authority) -> Place {
    let target = target.split('#').next().unwrap_or_default();
    let bare_path = path.split('?').next().unwrap_or_default();
    let reference = if target.is_empty() {
        return Place::Same;
    } else if target.starts_with('/') && !target.starts_with("//") {
        target.to_owned()
    } else if target.starts_with('?') {
        format!("{bare_path}{target}")
    } else if target.starts_with("//") || target.split(['/', '?']).next().is_some_and(|it| it.contains(':')) {
        let absolute = if target.starts_with("//") { format!("http:{target}") } else { target.to_owned() };
        let Ok(uri) = absolute.parse::<Uri>() else { return Place::Elsewhere };
        match uri.authority() {
            Some(other) if other == authority => RequestTemplate::origin_form(&uri),
            _ => return Place::Elsewhere,
        }
    } else {
        let directory = bare_path.rfind('/').and_then(|end| bare_path.get(..=end)).unwrap_or("/");
        format!("{directory}{target}")
    };
    match RequestTemplate::parse_target(&reference) {
        Some(target) => Place::Path(target.as_str().into()),
        None => Place::Elsewhere,
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use proptest::prelude::*;

    use super::*;

    fn authority() -> Authority {
        Authority::from_static("127.0.0.1:80")
    }

    fn read(status: u16, lines: &[(&'static str, &str)], method: &Method) -> Option<Onward> {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.insert(*name, HeaderValue::from_str(value).expect("a header"));
        }
        let status = StatusCode::from_u16(status).expect("a status");
        Onward::read(status, &headers, method, "/a/b?c", &authority())
    }

    fn path(text: &str) -> Place {
        Place::Path(text.into())
    }

    #[test]
    fn refresh_is_read_as_browsers_do() {
        for (text, seconds, place) in [
            ("5", 5, Place::Same),
            ("5;", 5, Place::Same),
            ("12; url=/x?t=1", 12, path("/x?t=1")),
            (" 7 ;URL = '/y' junk", 7, path("/y")),
            ("3;url=\"/z\"", 3, path("/z")),
            ("0.9,/w", 0, path("/w")),
            (".5;/w", 0, path("/w")),
            ("1;url=next", 1, path("/a/next")),
            ("1;url=?d", 1, path("/a/b?d")),
            ("1;url=http://127.0.0.1:80/q#f", 1, path("/q")),
            ("1;url=//127.0.0.1:80", 1, path("/")),
            ("1;url=http://127.0.0.1:80?t=1", 1, path("/?t=1")),
            ("1;url=http://elsewhere/q", 1, Place::Elsewhere),
            ("1;url=javascript:x", 1, Place::Elsewhere),
        ] {
            let onward = read(200, &[("refresh", text)], &Method::POST).expect(text);
            assert_eq!((onward.after, onward.place), (Duration::from_secs(seconds), place), "{text}");
            assert!(onward.as_get);
        }
        for text in ["", "soon", ";url=/x", "99999999999"] {
            assert_eq!(read(503, &[("refresh", text)], &Method::GET), None, "{text}");
        }
    }

    #[test]
    fn a_script_knows_the_time_to_the_millisecond() {
        for (text, millis) in [("8250", Some(8250)), (" 0 ", Some(0)), ("-1", None), ("soon", None)] {
            let headers = [("refresh", "9"), ("retry-after-ms", text)];
            let onward = read(503, &headers, &Method::GET).expect(text);
            assert_eq!(onward.after, Duration::from_secs(9));
            assert_eq!(onward.exactly, millis.map(Duration::from_millis), "{text}");
        }
    }

    #[test]
    fn redirects_keep_or_change_the_method_and_may_wait() {
        let to = ("location", "/next");
        let onward = |after, as_get| {
            Some(Onward { after: Duration::from_secs(after), exactly: None, place: path("/next"), as_get })
        };
        assert_eq!(read(302, &[to], &Method::POST), onward(0, true));
        assert_eq!(read(302, &[to], &Method::PUT), onward(0, false));
        assert_eq!(read(303, &[to, ("retry-after", "8")], &Method::PUT), onward(8, true));
        assert_eq!(read(307, &[to, ("retry-after", "8")], &Method::POST), onward(8, false));
        assert_eq!(read(304, &[to], &Method::GET), None);
        assert_eq!(read(503, &[to, ("retry-after", "8")], &Method::GET), None, "a refusal, not a redirect");
        assert_eq!(read(302, &[], &Method::GET), None);
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let after = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::RETRY_AFTER, HeaderValue::from_str(text).expect("a header"));
            retry_after(&headers)
        };
        assert_eq!(after(" 120 "), Some(Duration::from_secs(120)));
        assert_eq!(after("Thu, 01 Jan 1970 00:00:00 GMT"), Some(Duration::ZERO));
        let far = after("Fri, 31 Dec 9999 23:59:59 GMT").expect("a date");
        assert!(far > Duration::from_secs(1_000_000_000));
        assert_eq!(after("soon"), None);
    }

    proptest! {
        #[test]
        fn no_header_panics(text in "[0-9.]{0,4}[ -~]{0,40}") {
            let _ = read(302, &[("refresh", &text)], &Method::GET);
            let _ = read(302, &[("location", &text)], &Method::GET);
        }
    }
}
