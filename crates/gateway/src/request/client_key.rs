//! What tells one client from another: a network prefix, a header or a cookie, as a hash.

use std::{
    hash::{BuildHasher, RandomState},
    net::IpAddr,
    sync::LazyLock,
};

use http::{HeaderMap, header};
use tidegate_config::ClientKey;
use tidegate_control::classify::cookie_values;

use super::head::Head;

/// One secret seed a process: all cores agree on a client, and nobody outside can make clients collide.
static SECRET: LazyLock<RandomState> = LazyLock::new(RandomState::new);

/// The key of a client for rates.
pub(super) fn rate_key(key: &ClientKey, client: Option<IpAddr>, head: Head<'_>) -> u64 {
    hash(&*SECRET, key, client, head)
}

/// The key of a client for consistent hashing: the same in every process, so that gateways beside
/// each other, and one after its restart, choose the same server.
pub(super) fn balance_key(key: &ClientKey, client: Option<IpAddr>, head: Head<'_>) -> u64 {
    hash(&foldhash::quality::FixedState::with_seed(0), key, client, head)
}

fn hash(hasher: &impl BuildHasher, key: &ClientKey, client: Option<IpAddr>, head: Head<'_>) -> u64 {
    let (v4, v6) = match key {
        ClientKey::Header(name) => match head.values(name).next() {
            Some(value) => return hasher.hash_one((1_u8, value)),
            None => WHOLE_NETWORK,
        },
        ClientKey::Cookie(name) => match cookie(head, name) {
            Some(value) => return hasher.hash_one((2_u8, value)),
            None => WHOLE_NETWORK,
        },
        ClientKey::Network { v4, v6 } => (*v4, *v6),
    };
    match client.map(|address| address.to_canonical()) {
        // All of a Unix socket's peers are one client.
        None => hasher.hash_one(3_u8),
        Some(IpAddr::V4(address)) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(v4.min(32))).unwrap_or(0);
            hasher.hash_one((4_u8, address.to_bits() & mask))
        }
        Some(IpAddr::V6(address)) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(v6.min(128))).unwrap_or(0);
            hasher.hash_one((6_u8, address.to_bits() & mask))
        }
    }
}

/// What a client is, for signatures: the value of a header or cookie, and its network's address, which counts where the value
/// is missing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Identity {
    value: Option<Vec<u8>>,
    network: Vec<u8>,
}

impl Identity {
    pub(super) fn of(key: &ClientKey, client: Option<IpAddr>, head: Head<'_>) -> Self {
        let (value, (v4, v6)) = match key {
            ClientKey::Header(name) => (head.values(name).next(), WHOLE_NETWORK),
            ClientKey::Cookie(name) => (cookie(head, name), WHOLE_NETWORK),
            ClientKey::Network { v4, v6 } => (None, (*v4, *v6)),
        };
        let network = match client.map(|address| address.to_canonical()) {
            None => Vec::new(),
            Some(IpAddr::V4(address)) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(v4.min(32))).unwrap_or(0);
                [&b"4"[..], &(address.to_bits() & mask).to_be_bytes()].concat()
            }
            Some(IpAddr::V6(address)) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(v6.min(128))).unwrap_or(0);
                [&b"6"[..], &(address.to_bits() & mask).to_be_bytes()].concat()
            }
        };
        Self { value: value.map(signed), network }
    }

    /// What is signed for it now.
    pub(super) fn now(&self) -> &[u8] {
        self.value.as_deref().unwrap_or(&self.network)
    }

    /// As what it may have been known when something was signed for it: before it had the value it went by its network.
    pub(super) fn all(&self) -> impl Iterator<Item = &[u8]> {
        self.value.as_deref().into_iter().chain([self.network.as_slice()])
    }

    /// Who it is once it has a response with these fields, if that gives it another cookie to go by, or takes it away.
    pub(super) fn after(&self, key: &ClientKey, response: &HeaderMap) -> Option<Self> {
        let ClientKey::Cookie(name) = key else { return None };
        let mut set =
            response.get_all(header::SET_COOKIE).iter().filter_map(|line| set_cookie(line.as_bytes(), name));
        let value = set.next_back()?.map(signed);
        (value != self.value).then(|| Self { value, network: self.network.clone() })
    }
}

/// A value as it is signed: no address looks like it.
fn signed(value: &[u8]) -> Vec<u8> {
    [b"v", value].concat()
}

/// What a `Set-Cookie` says of the cookie of this name: its value, or that it is taken away (RFC 6265, section 5.2).
fn set_cookie<'a>(line: &'a [u8], name: &'a str) -> Option<Option<&'a [u8]>> {
    let (pair, attributes) = line.split_at(line.iter().position(|byte| *byte == b';').unwrap_or(line.len()));
    let value = cookie_values(pair, name).next()?;
    let is_over = |attribute: &[u8]| {
        let said = str::from_utf8(attribute).ok().and_then(|said| said.split_once('='));
        let seconds = said.filter(|(name, _)| name.trim().eq_ignore_ascii_case("max-age"));
        seconds
            .and_then(|(_, seconds)| seconds.trim().parse::<i64>().ok())
            .is_some_and(|seconds| seconds <= 0)
    };
    let is_gone = value.is_empty() || attributes.split(|byte| *byte == b';').any(is_over);
    Some((!is_gone).then_some(value))
}

fn cookie<'a>(head: Head<'a>, name: &'a str) -> Option<&'a [u8]> {
    let lines = head.headers.get_all(header::COOKIE).iter();
    lines.flat_map(|line| cookie_values(line.as_bytes(), name)).next()
}

/// Where a header or cookie is missing: one address, or one IPv6 network as handed out to a site.
const WHOLE_NETWORK: (u8, u8) = (32, 64);

#[cfg(test)]
mod tests {
    use http::{HeaderValue, Request, request::Parts};

    use super::*;

    fn asking(field: Option<(&str, &str)>) -> Parts {
        field
            .into_iter()
            .fold(Request::builder(), |head, (name, value)| head.header(name, value))
            .body(())
            .unwrap()
            .into_parts()
            .0
    }

    fn key(key: &ClientKey, address: &str, cookie: &str) -> u64 {
        let request = asking(Some(("cookie", cookie)).filter(|_| !cookie.is_empty()));
        rate_key(key, Some(address.parse().unwrap()), Head::of(&request))
    }

    #[test]
    fn an_identity_is_of_the_network_or_of_the_value() {
        let of = |key: &ClientKey, address: &str, request: &Parts| {
            Identity::of(key, Some(address.parse().unwrap()), Head::of(request)).now().to_vec()
        };
        let (network, none) = (ClientKey::Network { v4: 24, v6: 64 }, asking(None));
        assert_eq!(of(&network, "192.0.2.1", &none), of(&network, "::ffff:192.0.2.255", &none));
        assert_ne!(of(&network, "192.0.2.1", &none), of(&network, "192.0.3.1", &none));
        assert_eq!(of(&network, "2001:db8::1", &none), of(&network, "2001:db8::2", &none));
        let header = ClientKey::Header("x-client".into());
        let with = |value| asking(Some(("x-client", value)));
        assert_eq!(of(&header, "1.1.1.1", &with("a")), of(&header, "2.2.2.2", &with("a")));
        assert_ne!(of(&header, "1.1.1.1", &with("a")), of(&header, "1.1.1.1", &with("b")));
        assert_eq!(of(&header, "1.1.1.1", &none), of(&ClientKey::default(), "1.1.1.1", &none));
    }

    #[test]
    fn an_identity_goes_on_with_the_cookie_that_a_response_sets() {
        let session = ClientKey::Cookie("sid".into());
        let with = |cookie: &str| {
            let request = asking(Some(("cookie", cookie)).filter(|_| !cookie.is_empty()));
            Identity::of(&session, Some(IpAddr::from([1, 1, 1, 1])), Head::of(&request))
        };
        for (before, set, after) in [
            ("", &["sid=7; Path=/; HttpOnly"][..], Some("sid=7")),
            ("sid=7", &["a=b", "sid=8"], Some("sid=8")),
            ("sid=7", &["sid=8", " sid = 9 ;Max-Age=60"], Some("sid=9")),
            ("sid=7", &["sid=7; Path=/"], None),
            ("sid=7", &["sid=; Expires=Thu, 01 Jan 1970 00:00:00 GMT"], Some("")),
            ("sid=7", &["sid=deleted; max-age = 0"], Some("")),
            ("sid=7", &["sid=8; Max-Age=-1; Path=/"], Some("")),
            ("", &["sid=; Max-Age=0"], None),
            ("sid=7", &["asid=8", "a=sid=8", "b; sid=8", "sid"], None),
            ("sid=7", &[], None),
        ] {
            let lines = set.iter().map(|line| (header::SET_COOKIE, HeaderValue::from_static(line)));
            let response = HeaderMap::from_iter(lines);
            assert_eq!(with(before).after(&session, &response), after.map(with), "{before}: {set:?}");
            let network = ClientKey::default();
            assert_eq!(with(before).after(&network, &response), None, "what is no matter does not change it");
        }
        let (now, before) = (with("sid=7"), with(""));
        assert_eq!(
            now.all().collect::<Vec<_>>(),
            [now.now(), before.now()],
            "it was known by its network before"
        );
        assert_eq!(before.all().collect::<Vec<_>>(), [before.now()]);
    }

    #[test]
    fn the_host_is_the_same_over_both_versions() {
        let host = ClientKey::Header("Host".into());
        let one = asking(Some(("host", "a.test")));
        let two = |uri| Request::get(uri).version(http::Version::HTTP_2).body(()).unwrap().into_parts().0;
        let (same, other) = (two("http://a.test/"), two("http://b.test/"));
        let client = Some(IpAddr::from([1, 1, 1, 1]));
        for of in [rate_key, balance_key] {
            assert_eq!(of(&host, client, Head::of(&one)), of(&host, client, Head::of(&same)));
            assert_ne!(of(&host, client, Head::of(&one)), of(&host, client, Head::of(&other)));
        }
        let of = |request| Identity::of(&host, client, Head::of(request));
        assert_eq!(of(&one), of(&same));
        assert_ne!(of(&one), of(&other));
    }

    #[test]
    fn a_prefix_makes_one_client_of_a_network() {
        let network = ClientKey::Network { v4: 24, v6: 64 };
        let of = |address| key(&network, address, "");
        assert_eq!(of("192.0.2.1"), of("192.0.2.255"));
        assert_eq!(of("192.0.2.1"), of("::ffff:192.0.2.9"));
        assert_ne!(of("192.0.2.1"), of("192.0.3.1"));
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        let everyone = ClientKey::Network { v4: 0, v6: 0 };
        assert_eq!(key(&everyone, "1.1.1.1", ""), key(&everyone, "2.2.2.2", ""));
    }

    #[test]
    fn a_cookie_counts_wherever_it_comes_from_and_the_address_without_it() {
        let session = ClientKey::Cookie("sid".into());
        assert_eq!(key(&session, "1.1.1.1", "a=b; sid=7"), key(&session, "2.2.2.2", "sid=7"));
        assert_ne!(key(&session, "1.1.1.1", "sid=7"), key(&session, "1.1.1.1", "sid=8"));
        assert_ne!(key(&session, "1.1.1.1", ""), key(&session, "2.2.2.2", ""));
    }
}
