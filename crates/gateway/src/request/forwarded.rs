//! Whence a request came: `X-Forwarded-*` and `Forwarded` (RFC 7239), believed from trusted peers only.
//!
//! A trusted peer's values are kept and ours appended; anybody else's are thrown away. A server
//! that takes the last value of each therefore never reads what a client made up.
//!
//! Some servers go by `X-Forwarded-*`, others by `Forwarded` first. What a peer says in one of the two ways we do not
//! contradict in the other, where all we know is how that peer came.

use std::net::{IpAddr, SocketAddr};

use http::{HeaderMap, HeaderName, HeaderValue, header};
use ipnet::IpNet;

use super::{head::Head, request_id};
use crate::facts::{ConnectionFacts, ForwardingFields};

pub(super) const FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
pub(super) const PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
pub(super) const HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
pub(super) const PORT: HeaderName = HeaderName::from_static("x-forwarded-port");

/// Addresses of a chain looked at, from its near end.
const CHAIN_MAX: usize = 32;

/// The client's address: the connection's, or the nearest one of a trusted peer's chain that is not
/// itself trusted.
pub(super) fn client(facts: &ConnectionFacts, headers: &HeaderMap) -> Option<IpAddr> {
    let near = facts.client_ip();
    if !facts.trusted {
        return near;
    }
    let trusted = |address: IpAddr| is_trusted(&facts.listener.trusted, address);
    let mut farthest = near;
    let chain = |name: &HeaderName, read: fn(&[u8]) -> Option<IpAddr>| {
        let mut seen = None;
        let lines = headers.get_all(name).iter().rev();
        for part in lines.flat_map(|value| elements(name, value).rev()).take(CHAIN_MAX) {
            // Beyond what cannot be read nothing can be believed.
            let address = read(part)?;
            seen = Some(address);
            if !trusted(address) {
                break;
            }
        }
        seen
    };
    if headers.contains_key(&FOR) {
        farthest = chain(&FOR, node).or(farthest);
    } else if headers.contains_key(header::FORWARDED) {
        farthest = chain(&header::FORWARDED, forwarded_for).or(farthest);
    }
    farthest
}

/// Whether the client itself came over TLS: to us, or as a trusted peer says to the first proxy before us.
pub(super) fn is_secure(facts: &ConnectionFacts, headers: &HeaderMap) -> bool {
    if !facts.trusted {
        return facts.is_secure();
    }
    let scheme = said(headers, &PROTO, b"proto=");
    scheme.map_or(facts.is_secure(), |scheme| scheme.eq_ignore_ascii_case(b"https"))
}

/// The host that the client asked for, as written: as a trusted peer says, or of the request itself; empty where none was.
pub(super) fn host<'a>(facts: &ConnectionFacts, head: Head<'a>) -> &'a str {
    let said = || said(head.headers, &HOST, b"host=");
    let said = facts.trusted.then(said).flatten().and_then(|host| str::from_utf8(host).ok());
    let own = || head.headers.get(header::HOST)?.to_str().ok();
    let of_target = || head.uri.authority().map(http::uri::Authority::as_str);
    said.or_else(own).or_else(of_target).unwrap_or_default()
}

/// Writes what the server shall know of the request's way. `host` is what the client asked for,
/// where the server is told another.
pub(super) fn write(headers: &mut HeaderMap, facts: &ConnectionFacts, host: Option<HeaderValue>) {
    let believed = |name: &HeaderName| facts.trusted && !name.as_str().contains('_');
    remove_where(headers, |name| says_whence(name) && !believed(name));
    let ours = facts.forwarding.get_or_init(|| ForwardingFields::of(facts));
    let says = |name: &HeaderName| headers.contains_key(name);
    let (says_forwarded, says_others) = (says(&header::FORWARDED), [FOR, PROTO, HOST, PORT].iter().any(says));
    if facts.trusted && (says_forwarded || says_others) {
        // What the first proxy saw counts, not what we see of that proxy: also of its port nothing is made up.
        let secure = is_secure(facts, headers);
        let host =
            said(headers, &HOST, b"host=").and_then(|host| HeaderValue::from_bytes(host).ok()).or(host);
        if says_forwarded {
            let of_client = client(facts, headers).filter(|address| Some(*address) != facts.client_ip());
            if let (Some(address), false) = (of_client, headers.contains_key(&FOR))
                && let Ok(address) = HeaderValue::try_from(address.to_string())
            {
                headers.insert(FOR, address);
            }
            append(headers, header::FORWARDED, &ours.element);
        }
        append(headers, FOR, &ours.address);
        headers.entry(PROTO).or_insert(HeaderValue::from_static(scheme(secure)));
        if let Some(host) = host {
            headers.entry(HOST).or_insert(host);
        }
    } else {
        headers.insert(FOR, ours.address.clone());
        headers.insert(header::FORWARDED, ours.element.clone());
        headers.insert(PROTO, ours.scheme.clone());
        if let Some(port) = &ours.port {
            headers.insert(PORT, port.clone());
        }
        if let Some(host) = host {
            headers.insert(HOST, host);
        }
    }
}

/// What the first proxy says by a field, or else by that parameter of `Forwarded`.
fn said<'v>(headers: &'v HeaderMap, name: &HeaderName, parameter_name: &[u8]) -> Option<&'v [u8]> {
    let first = |name: &HeaderName| elements(name, headers.get(name)?).next();
    first(name).or_else(|| parameter(first(&header::FORWARDED)?, parameter_name))
}

const fn scheme(secure: bool) -> &'static str {
    if secure { "https" } else { "http" }
}

/// Removes all fields of such names.
pub(super) fn remove_where(headers: &mut HeaderMap, is_unwanted: impl Fn(&HeaderName) -> bool) {
    let names: Vec<_> = headers.keys().filter(|name| is_unwanted(name)).cloned().collect();
    for name in names {
        headers.remove(name);
    }
}

/// Whether a field is of `X-Forwarded-*`, or is `X-Request-Id` in another spelling.
pub(super) fn says_whence(name: &HeaderName) -> bool {
    const ALL: &str = "x-forwarded-";
    let begin = name.as_str().get(..ALL.len());
    begin.is_some_and(|begin| are_alike(begin, ALL))
        || *name != request_id::FIELD && are_alike(name.as_str(), request_id::FIELD.as_str())
}

/// Whether two names of fields are one to a server that hands them on as CGI does (RFC 3875, section 4.1.18), where `-` becomes
/// `_`.
pub(super) fn are_alike(one: &str, other: &str) -> bool {
    let plain = |byte: u8| if byte == b'_' { b'-' } else { byte.to_ascii_lowercase() };
    one.len() == other.len() && one.bytes().map(plain).eq(other.bytes().map(plain))
}

/// Joins the lines of a field and ours into one.
fn append(headers: &mut HeaderMap, name: HeaderName, ours: &HeaderValue) {
    let mut joined = Vec::new();
    for value in headers.get_all(&name) {
        joined.extend_from_slice(value.as_bytes());
        joined.extend_from_slice(b", ");
    }
    joined.extend_from_slice(ours.as_bytes());
    // Joined valid values are valid.
    headers.insert(name, HeaderValue::from_bytes(&joined).unwrap_or_else(|_| ours.clone()));
}

impl ForwardingFields {
    fn of(facts: &ConnectionFacts) -> Self {
        let scheme = scheme(facts.is_secure());
        // An address that is not known is said to be so (RFC 7239, section 6).
        let (address, node) = match facts.client_ip() {
            None => ("unknown".to_owned(), "unknown".to_owned()),
            Some(IpAddr::V4(address)) => (address.to_string(), address.to_string()),
            Some(IpAddr::V6(address)) => (address.to_string(), format!("\"[{address}]\"")),
        };
        let value = |text: String| {
            HeaderValue::try_from(text).unwrap_or_else(|_| HeaderValue::from_static("unknown"))
        };
        Self {
            address: value(address),
            scheme: HeaderValue::from_static(scheme),
            port: facts.local.map(|local| HeaderValue::from(local.port())),
            element: value(format!("for={node};proto={scheme}")),
        }
    }
}

fn is_trusted(networks: &[IpNet], address: IpAddr) -> bool {
    let address = address.to_canonical();
    networks.iter().any(|network| network.contains(&address))
}

/// The elements of a field. Only `Forwarded` knows quotes.
fn elements<'v>(name: &HeaderName, value: &'v HeaderValue) -> impl DoubleEndedIterator<Item = &'v [u8]> {
    listed(value.as_bytes(), *name == header::FORWARDED).into_iter()
}

/// The elements of a comma-separated list. Commas within quotes separate nothing, if there are quotes in such a list. A
/// quote that nobody closes is none: its sender is not to hide what the proxies behind him have appended.
pub(super) fn listed(bytes: &[u8], knows_quotes: bool) -> Vec<&[u8]> {
    let is_quoted = |(quoted, escaped): (bool, bool), byte: u8| match byte {
        _ if escaped => (quoted, false),
        b'\\' => (quoted, quoted),
        b'"' => (!quoted, false),
        _ => (quoted, false),
    };
    let ends_quoted = bytes.iter().fold((false, false), |at, byte| is_quoted(at, *byte)).0;
    let knows_quotes = knows_quotes && !ends_quoted;
    let mut at = (false, false);
    bytes
        .split(|byte| {
            let separates = *byte == b',' && !at.0;
            if knows_quotes {
                at = is_quoted(at, *byte);
            }
            separates
        })
        .map(<[u8]>::trim_ascii)
        .filter(|part| !part.is_empty())
        .collect()
}

/// The address of a `Forwarded` element's `for`.
fn forwarded_for(element: &[u8]) -> Option<IpAddr> {
    node(parameter(element, b"for=")?)
}

/// A parameter of a `Forwarded` element, without quotes; `name` with its sign.
fn parameter<'a>(element: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    element.split(|byte| *byte == b';').find_map(|pair| {
        let (found, value) = pair.trim_ascii().split_at_checked(name.len())?;
        let unquoted = || value.strip_prefix(b"\"")?.strip_suffix(b"\"");
        found.eq_ignore_ascii_case(name).then(|| unquoted().unwrap_or(value))
    })
}

/// A node: an address, in brackets if IPv6 with a port, with or without a port. An IPv4 one is given as such.
fn node(text: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(text).ok()?;
    let bracketed = || text.strip_prefix('[')?.strip_suffix(']')?.parse().ok().map(IpAddr::V6);
    let with_port = || text.parse::<SocketAddr>().ok().map(|address| address.ip());
    let address = text.parse::<IpAddr>().ok().or_else(bracketed).or_else(with_port)?;
    Some(address.to_canonical())
}

#[cfg(test)]
mod tests {
    use std::{
        cell::{Cell, OnceCell},
        sync::Arc,
    };

    use tidegate_config::{Address, Listener};

    use super::*;

    fn facts(client: &str, trusted: bool) -> ConnectionFacts {
        let client: SocketAddr = client.parse().unwrap();
        ConnectionFacts {
            id: 1,
            listener: Arc::new(Listener {
                name: "main".into(),
                address: Address::Tcp(client),
                group: "default".into(),
                tls: None,
                proxy_protocol: false,
                trusted: vec!["10.0.0.0/8".parse().unwrap()],
                redirect_to_https: None,
                application: None,
            }),
            transport_peer: Some(client),
            client: Some(client),
            local: Some("192.0.2.1:8080".parse().unwrap()),
            tls: None,
            trusted,
            requests: Cell::new(0),
            forwarding: OnceCell::new(),
            presence: OnceCell::new(),
        }
    }

    fn map(fields: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(*name, HeaderValue::from_str(value).unwrap());
        }
        headers
    }

    #[test]
    fn a_stranger_s_fields_are_replaced() {
        let facts = facts("[2001:db8::7]:999", false);
        let mut headers = map(&[
            ("x-forwarded-for", "1.1.1.1"),
            ("x-forwarded-for", "2.2.2.2"),
            ("x-forwarded-proto", "https"),
            ("x-forwarded-host", "evil.example"),
            ("x-forwarded-prefix", "/evil"),
            ("x_forwarded_for", "3.3.3.3"),
            ("x-forwarded_ssl", "on"),
            ("x_request-id", "mine"),
            ("forwarded", "for=1.1.1.1"),
        ]);
        assert_eq!(client(&facts, &headers), facts.client_ip());
        write(&mut headers, &facts, None);
        assert_eq!(
            headers,
            map(&[
                ("x-forwarded-for", "2001:db8::7"),
                ("x-forwarded-proto", "http"),
                ("x-forwarded-port", "8080"),
                ("forwarded", "for=\"[2001:db8::7]\";proto=http"),
            ])
        );
    }

    #[test]
    fn a_trusted_peer_s_fields_are_kept_and_ours_appended() {
        let facts = facts("10.0.0.2:999", true);
        let mut headers = map(&[
            ("x-forwarded-for", "1.1.1.1"),
            ("x-forwarded-for", "2.2.2.2, 10.0.0.9"),
            ("x-forwarded-proto", "https"),
            ("x-forwarded-prefix", "/shop"),
            ("x_forwarded_for", "3.3.3.3"),
            ("x-request-id", "its"),
        ]);
        assert_eq!(client(&facts, &headers), Some("2.2.2.2".parse().unwrap()));
        write(&mut headers, &facts, Some(HeaderValue::from_static("shop.example")));
        assert_eq!(
            headers,
            map(&[
                ("x-forwarded-for", "1.1.1.1, 2.2.2.2, 10.0.0.9, 10.0.0.2"),
                ("x-forwarded-proto", "https"),
                ("x-forwarded-prefix", "/shop"),
                ("x-forwarded-host", "shop.example"),
                ("x-request-id", "its"),
            ])
        );
    }

    /// Servers that go by the other way would take the peer for the client, and its scheme and port for the client's.
    #[test]
    fn what_a_trusted_peer_says_in_one_way_is_not_contradicted_in_the_other() {
        let facts = facts("10.0.0.2:999", true);
        let element = "for=1.1.1.1;host=\"shop.example\";proto=https";
        let both = format!("{element}, for=10.0.0.2;proto=http");
        let ours = "for=10.0.0.2;proto=http";
        for (came, goes) in [
            (
                &[("x-forwarded-proto", "https")][..],
                &[
                    ("x-forwarded-for", "10.0.0.2"),
                    ("x-forwarded-proto", "https"),
                    ("x-forwarded-host", "asked"),
                ][..],
            ),
            (
                &[("x-forwarded-for", "1.1.1.1"), ("x-forwarded-port", "443")],
                &[
                    ("x-forwarded-for", "1.1.1.1, 10.0.0.2"),
                    ("x-forwarded-proto", "http"),
                    ("x-forwarded-port", "443"),
                    ("x-forwarded-host", "asked"),
                ],
            ),
            (
                &[("forwarded", element)],
                &[
                    ("x-forwarded-for", "1.1.1.1, 10.0.0.2"),
                    ("x-forwarded-proto", "https"),
                    ("x-forwarded-host", "shop.example"),
                    ("forwarded", &both),
                ],
            ),
            (
                &[("forwarded", "for=_hidden"), ("x-forwarded-proto", "https")],
                &[
                    ("x-forwarded-for", "10.0.0.2"),
                    ("x-forwarded-proto", "https"),
                    ("x-forwarded-host", "asked"),
                    ("forwarded", "for=_hidden, for=10.0.0.2;proto=http"),
                ],
            ),
            // It speaks for itself.
            (
                &[],
                &[
                    ("x-forwarded-for", "10.0.0.2"),
                    ("x-forwarded-proto", "http"),
                    ("x-forwarded-port", "8080"),
                    ("x-forwarded-host", "asked"),
                    ("forwarded", ours),
                ],
            ),
        ] {
            let mut headers = map(came);
            write(&mut headers, &facts, Some(HeaderValue::from_static("asked")));
            assert_eq!(headers, map(goes), "{came:?}");
        }
    }

    #[test]
    fn a_trusted_peer_says_whether_the_client_came_over_tls() {
        for (trusted, fields, is) in [
            (true, &[("x-forwarded-proto", "https")][..], true),
            (true, &[("x-forwarded-proto", "HTTPS, http")], true),
            (true, &[("x-forwarded-proto", "http"), ("forwarded", "proto=https")], false),
            (true, &[("forwarded", "for=1.1.1.1; Proto=\"https\", for=10.0.0.9;proto=http")], true),
            (true, &[("forwarded", "for=1.1.1.1")], false),
            (true, &[], false),
            (false, &[("x-forwarded-proto", "https"), ("forwarded", "proto=https")], false),
        ] {
            assert_eq!(is_secure(&facts("10.0.0.2:999", trusted), &map(fields)), is, "{trusted} {fields:?}");
        }
    }

    #[test]
    fn the_client_is_the_nearest_address_that_is_not_trusted() {
        let facts = facts("10.0.0.2:999", true);
        for (name, value, found) in [
            ("x-forwarded-for", "1.1.1.1, 10.1.1.1", "1.1.1.1"),
            ("x-forwarded-for", "10.1.1.1", "10.1.1.1"),
            ("x-forwarded-for", "1.1.1.1, nonsense", "10.0.0.2"),
            ("x-forwarded-for", "1.1.1.1:55", "1.1.1.1"),
            ("x-forwarded-for", "", "10.0.0.2"),
            ("forwarded", "for=1.1.1.1;proto=http, for=\"[2001:db8::1]:5\";by=x", "2001:db8::1"),
            ("forwarded", "For=1.1.1.1", "1.1.1.1"),
            ("forwarded", "for=\"a,b\", for=_hidden", "10.0.0.2"),
            ("forwarded", "for=unknown", "10.0.0.2"),
            // What a client has written hides nothing of what was appended to it.
            ("x-forwarded-for", "\", 1.1.1.1", "1.1.1.1"),
            ("x-forwarded-for", "\"9.9.9.9, 1.1.1.1, 10.1.1.1", "1.1.1.1"),
            ("forwarded", "for=\", for=1.1.1.1", "1.1.1.1"),
            ("forwarded", "for=\"x, for=\"[2001:db8::1]\"", "2001:db8::1"),
            ("forwarded", "for=\"x\\\", for=1.1.1.1", "1.1.1.1"),
        ] {
            assert_eq!(
                client(&facts, &map(&[(name, value)])),
                Some(found.parse().unwrap()),
                "{name}: {value}"
            );
        }
    }

    #[test]
    fn any_chain_of_a_trusted_peer_gives_an_address_and_grows_by_one() {
        bolero::check!().for_each(|bytes: &[u8]| {
            let facts = facts("10.0.0.2:999", true);
            let Ok(value) = HeaderValue::from_bytes(bytes) else { return };
            for name in [FOR, header::FORWARDED] {
                let mut headers = HeaderMap::from_iter([(name.clone(), value.clone())]);
                assert!(client(&facts, &headers).is_some());
                write(&mut headers, &facts, None);
                let written = headers.get_all(&name).iter().next_back().unwrap();
                assert!(written.as_bytes().starts_with(bytes) && written.len() > bytes.len());
            }
        });
    }
}
