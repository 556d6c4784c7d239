//! What tells one client from another: a network prefix, a header or a cookie, as a hash.

use std::{
    hash::{BuildHasher, RandomState},
    net::IpAddr,
    sync::LazyLock,
};

use http::header;
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

/// What a client is, for signatures: its network's address, or the value of a header or cookie.
pub(super) fn identity(key: &ClientKey, client: Option<IpAddr>, head: Head<'_>) -> Vec<u8> {
    let value = match key {
        ClientKey::Header(name) => head.values(name).next(),
        ClientKey::Cookie(name) => cookie(head, name),
        ClientKey::Network { .. } => None,
    };
    if let Some(value) = value {
        return [b"v".as_slice(), value].concat();
    }
    let (v4, v6) = match key {
        ClientKey::Network { v4, v6 } => (*v4, *v6),
        ClientKey::Header(_) | ClientKey::Cookie(_) => WHOLE_NETWORK,
    };
    match client.map(|address| address.to_canonical()) {
        None => Vec::new(),
        Some(IpAddr::V4(address)) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(v4.min(32))).unwrap_or(0);
            [&b"4"[..], &(address.to_bits() & mask).to_be_bytes()].concat()
        }
        Some(IpAddr::V6(address)) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(v6.min(128))).unwrap_or(0);
            [&b"6"[..], &(address.to_bits() & mask).to_be_bytes()].concat()
        }
    }
}

fn cookie<'a>(head: Head<'a>, name: &'a str) -> Option<&'a [u8]> {
    let lines = head.headers.get_all(header::COOKIE).iter();
    lines.flat_map(|line| cookie_values(line.as_bytes(), name)).next()
}

/// Where a header or cookie is missing: one address, or one IPv6 network as handed out to a site.
const WHOLE_NETWORK: (u8, u8) = (32, 64);

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn asking(field: Option<(&str, &str)>) -> Request<()> {
        field
            .into_iter()
            .fold(Request::builder(), |head, (name, value)| head.header(name, value))
            .body(())
            .unwrap()
    }

    fn key(key: &ClientKey, address: &str, cookie: &str) -> u64 {
        let request = asking(Some(("cookie", cookie)).filter(|_| !cookie.is_empty()));
        rate_key(key, Some(address.parse().unwrap()), Head::of(&request))
    }

    #[test]
    fn an_identity_is_of_the_network_or_of_the_value() {
        let of = |key: &ClientKey, address: &str, request: &Request<()>| {
            identity(key, Some(address.parse().unwrap()), Head::of(request))
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
    fn the_host_is_the_same_over_both_versions() {
        let host = ClientKey::Header("Host".into());
        let one = asking(Some(("host", "a.test")));
        let two = |uri| Request::get(uri).version(http::Version::HTTP_2).body(()).unwrap();
        let (same, other) = (two("http://a.test/"), two("http://b.test/"));
        let client = Some(IpAddr::from([1, 1, 1, 1]));
        for of in [rate_key, balance_key] {
            assert_eq!(of(&host, client, Head::of(&one)), of(&host, client, Head::of(&same)));
            assert_ne!(of(&host, client, Head::of(&one)), of(&host, client, Head::of(&other)));
        }
        assert_eq!(identity(&host, client, Head::of(&one)), identity(&host, client, Head::of(&same)));
        assert_ne!(identity(&host, client, Head::of(&one)), identity(&host, client, Head::of(&other)));
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
