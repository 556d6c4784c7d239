//! The host a request names: the grammar of `Host` and `:authority`, as strict as routing needs.

use std::{borrow::Cow, net::Ipv6Addr};

/// A host name or address, with its port if one is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Host<'a> {
    /// Lower case, without a final dot; an IPv6 address keeps its brackets. Empty if nothing was
    /// named.
    pub(super) name: Cow<'a, str>,
    /// The port as written.
    pub(super) port: Option<u16>,
}

impl<'a> Host<'a> {
    /// No host at all.
    pub(super) const NONE: Self = Self { name: Cow::Borrowed(""), port: None };

    /// Reads a `Host` or `:authority`; `None` if it is not a name or address with an optional port.
    ///
    /// RFC 3986 would allow any sub-delimiter and percent-encoding in a name. Nothing that is served
    /// is called so, and two parsers need not agree on what is: letters, digits, `-`, `.` and `_`
    /// are taken, and whole IPv6 addresses in brackets. User information is refused.
    pub(super) fn parse(bytes: &'a [u8]) -> Option<Self> {
        let text = std::str::from_utf8(bytes).ok()?;
        if text.is_empty() {
            return Some(Self::NONE);
        }
        let (name, port, has_capitals) = match text.strip_prefix('[') {
            Some(rest) => {
                let end = rest.find(']')?;
                rest[..end].parse::<Ipv6Addr>().ok()?;
                let (name, port) = text.split_at(end + 2);
                (name, port, name.bytes().any(|byte| byte.is_ascii_uppercase()))
            }
            None => {
                let (end, has_capitals) = end_of_name(bytes)?;
                let (name, port) = text.split_at(end);
                (name.strip_suffix('.').unwrap_or(name), port, has_capitals)
            }
        };
        let port = match port.strip_prefix(':') {
            None if port.is_empty() => None,
            None => return None,
            // An empty port is the scheme's own (RFC 3986, section 3.2.3).
            Some("") => None,
            Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => Some(digits.parse().ok()?),
            Some(_) => return None,
        };
        let name = if has_capitals { Cow::Owned(name.to_ascii_lowercase()) } else { Cow::Borrowed(name) };
        Some(Self { name, port })
    }

    /// Whether both name the same place; a port that is not written is `default_port`.
    pub(super) fn agrees(&self, other: &Host<'_>, default_port: u16) -> bool {
        self.name == other.name && self.port.unwrap_or(default_port) == other.port.unwrap_or(default_port)
    }
}

/// What a byte is to a name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Small,
    Capital,
    Dot,
    Other,
}

const KINDS: [Kind; 256] = {
    let mut kinds = [Kind::Other; 256];
    let mut byte = 0_u8;
    while byte < 128 {
        kinds[byte as usize] = match byte {
            b'.' => Kind::Dot,
            b'A'..=b'Z' => Kind::Capital,
            b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' => Kind::Small,
            _ => Kind::Other,
        };
        byte += 1;
    }
    kinds
};

/// Where a name ends that has labels of at least one character with dots between them, and one at its end perhaps; and
/// whether there are capitals in it. `None` if there is none, or more than 255 characters, or it does not end there or with a
/// colon.
fn end_of_name(bytes: &[u8]) -> Option<(usize, bool)> {
    let mut before = Kind::Dot;
    let mut has_capitals = false;
    let mut end = bytes.len();
    for (position, byte) in bytes.iter().enumerate() {
        let kind = KINDS[usize::from(*byte)];
        match kind {
            Kind::Small => {}
            Kind::Capital => has_capitals = true,
            Kind::Dot if before == Kind::Dot => return None,
            Kind::Dot => {}
            Kind::Other if *byte == b':' => {
                end = position;
                break;
            }
            Kind::Other => return None,
        }
        before = kind;
    }
    let length = end - usize::from(end > 0 && before == Kind::Dot);
    (1..=255).contains(&length).then_some((end, has_capitals))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Option<(String, Option<u16>)> {
        Host::parse(text.as_bytes()).map(|host| (host.name.into_owned(), host.port))
    }

    #[test]
    fn names_and_addresses_are_read_in_canonical_form() {
        for (text, name, port) in [
            ("example.com", "example.com", None),
            ("Example.COM:8080", "example.com", Some(8080)),
            ("example.com.", "example.com", None),
            ("example.com.:1", "example.com", Some(1)),
            ("example.com:", "example.com", None),
            ("127.0.0.1:80", "127.0.0.1", Some(80)),
            ("[::1]:443", "[::1]", Some(443)),
            ("[2001:DB8::1]", "[2001:db8::1]", None),
            ("a_b.example", "a_b.example", None),
            ("", "", None),
        ] {
            assert_eq!(parse(text), Some((name.to_owned(), port)), "{text}");
        }
    }

    #[test]
    fn what_is_ambiguous_is_refused() {
        for text in [
            "user@example.com",
            "example.com/",
            "example.com#x",
            "example.com?x",
            "a b",
            "a,b",
            "a\tb",
            "a%2eb",
            "example.com:80:80",
            "example.com:-1",
            "example.com:+1",
            "example.com:65536",
            "example.com:8o",
            ":80",
            "[::1",
            "[::1]x",
            "[::g]",
            "::1",
            ".",
            "..",
            ".a",
            "a..b",
            "a..",
            "a..:80",
            "é.example",
            "a\u{0}b",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn agreement_is_of_name_and_port() {
        let host = |text: &'static str| Host::parse(text.as_bytes()).unwrap();
        assert!(host("A.example:80").agrees(&host("a.example"), 80));
        assert!(!host("a.example:81").agrees(&host("a.example"), 80));
        assert!(!host("b.example").agrees(&host("a.example"), 80));
    }

    #[test]
    fn whatever_is_read_reads_the_same_again() {
        bolero::check!().for_each(|bytes: &[u8]| {
            if let Some(host) = Host::parse(bytes) {
                assert!(
                    !host.name.bytes().any(|b| b.is_ascii_uppercase() || b <= b' ' || b == b'@' || b == b'/')
                );
                let written = match host.port {
                    Some(port) => format!("{}:{port}", host.name),
                    None => host.name.to_string(),
                };
                assert_eq!(Host::parse(written.as_bytes()), Some(host));
            }
        });
    }
}
