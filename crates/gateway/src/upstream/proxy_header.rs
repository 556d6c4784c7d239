//! The PROXY header we send: which client a connection to a server is for.

use std::net::SocketAddr;

use tidegate_config::ProxyVersion;

use crate::facts::ConnectionFacts;

/// The two ends a PROXY header names. A connection serves one such pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ends {
    client: SocketAddr,
    local: SocketAddr,
}

impl Ends {
    /// The ends of a client's connection; `None` where it has no IP addresses (a Unix socket) or
    /// they are of two families, which the header cannot say.
    pub(super) fn of(facts: &ConnectionFacts) -> Option<Self> {
        let canonical = |address: SocketAddr| SocketAddr::new(address.ip().to_canonical(), address.port());
        let (client, local) = (canonical(facts.client?), canonical(facts.local?));
        (client.is_ipv4() == local.is_ipv4()).then_some(Self { client, local })
    }
}

/// The header's bytes; without ends it says that nothing is known.
pub(super) fn header(version: ProxyVersion, ends: Option<Ends>) -> Vec<u8> {
    match version {
        ProxyVersion::V1 => match ends {
            Some(Ends { client, local }) => {
                ppp::v1::Addresses::from((client, local)).to_string().into_bytes()
            }
            None => b"PROXY UNKNOWN\r\n".to_vec(),
        },
        ProxyVersion::V2 => {
            use ppp::v2::{Addresses, Builder, Command, Protocol, Version};
            let builder = match ends {
                Some(Ends { client, local }) => {
                    Builder::with_addresses(Version::Two | Command::Proxy, Protocol::Stream, (client, local))
                }
                None => Builder::with_addresses(
                    Version::Two | Command::Local,
                    Protocol::Unspecified,
                    Addresses::Unspecified,
                ),
            };
            // Fails only for a length over 64 KiB; addresses take 36 bytes at most.
            builder.build().unwrap_or_default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(client: &str, local: &str) -> Option<Ends> {
        let address = |text: &str| text.parse().expect("an address");
        Some(Ends { client: address(client), local: address(local) })
    }

    #[test]
    fn version_1_is_text() {
        let v4 = header(ProxyVersion::V1, ends("192.0.2.1:5", "198.51.100.2:443"));
        assert_eq!(v4, b"PROXY TCP4 192.0.2.1 198.51.100.2 5 443\r\n");
        let v6 = header(ProxyVersion::V1, ends("[2001:db8::1]:5", "[::1]:443"));
        assert_eq!(v6, b"PROXY TCP6 2001:db8::1 ::1 5 443\r\n");
        assert_eq!(header(ProxyVersion::V1, None), b"PROXY UNKNOWN\r\n");
    }

    #[test]
    fn version_2_is_binary() {
        let v4 = header(ProxyVersion::V2, ends("192.0.2.1:5", "198.51.100.2:443"));
        let mut expected = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c".to_vec();
        expected.extend([192, 0, 2, 1, 198, 51, 100, 2, 0, 5, 1, 187]);
        assert_eq!(v4, expected);
        assert_eq!(header(ProxyVersion::V2, None), b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0");
    }
}
