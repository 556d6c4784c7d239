//! The PROXY header, versions 1 and 2, at the start of a connection from a trusted load balancer.

use std::net::SocketAddr;

use ppp::{v1, v2};

/// Longest header read, in bytes. Version 2 allows 64 KiB of extensions; load balancers send less
/// than one.
pub(crate) const HEADER_BYTES_MAX: usize = 4096;

/// Longest header of version 1, line end included (specification, section 2.1).
const V1_BYTES_MAX: usize = 107;

const V1_PREFIX: &[u8] = b"PROXY ";

const MALFORMED: Reading = Reading::Malformed("a malformed PROXY header");

/// What the bytes so far are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    /// The beginning of a header; never for [`HEADER_BYTES_MAX`] bytes or more.
    NeedMore,
    /// No header, or a broken one, and why.
    Malformed(&'static str),
    /// A header of `len` bytes.
    Header {
        /// Bytes it takes.
        len: usize,
        /// Who speaks.
        speaker: Speaker,
    },
}

/// Who speaks on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Speaker {
    /// A client.
    Client(Addresses),
    /// A client whose address the header does not say (UNKNOWN, a Unix socket): the socket's own holds.
    Unknown,
    /// Whoever sent the header, for itself (LOCAL), as where it looks whether we are well.
    Balancer,
}

/// The addresses a header names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Addresses {
    /// The client.
    pub(crate) source: SocketAddr,
    /// What it connected to.
    pub(crate) destination: SocketAddr,
}

/// Reads the bytes received so far, from the first.
pub(crate) fn read(bytes: &[u8]) -> Reading {
    if begins(bytes, v2::PROTOCOL_PREFIX) {
        return read_v2(bytes);
    }
    if begins(bytes, V1_PREFIX) {
        return read_v1(bytes);
    }
    Reading::Malformed("no PROXY header")
}

/// Whether `bytes` may become, or are, something that begins with `prefix`.
fn begins(bytes: &[u8], prefix: &[u8]) -> bool {
    bytes.iter().zip(prefix).all(|(byte, expected)| byte == expected)
}

fn read_v1(bytes: &[u8]) -> Reading {
    let line = &bytes[..bytes.len().min(V1_BYTES_MAX)];
    let Some(end) = line.windows(2).position(|pair| pair == b"\r\n") else {
        return if bytes.len() < V1_BYTES_MAX { Reading::NeedMore } else { MALFORMED };
    };
    let len = end + 2;
    let Ok(header) = v1::Header::try_from(&line[..len]) else { return MALFORMED };
    let speaker = match header.addresses {
        v1::Addresses::Unknown => Speaker::Unknown,
        v1::Addresses::Tcp4(a) => Speaker::Client(Addresses {
            source: (a.source_address, a.source_port).into(),
            destination: (a.destination_address, a.destination_port).into(),
        }),
        v1::Addresses::Tcp6(a) => Speaker::Client(Addresses {
            source: (a.source_address, a.source_port).into(),
            destination: (a.destination_address, a.destination_port).into(),
        }),
    };
    Reading::Header { len, speaker }
}

fn read_v2(bytes: &[u8]) -> Reading {
    /// Prefix, version and command, family and protocol, length.
    const FIXED: usize = 16;
    if let Some(&[high, low]) = bytes.get(FIXED - 2..FIXED)
        && FIXED + usize::from(u16::from_be_bytes([high, low])) > HEADER_BYTES_MAX
    {
        return Reading::Malformed("a PROXY header longer than 4096 bytes");
    }
    let header = match v2::Header::try_from(bytes) {
        Ok(header) => header,
        Err(v2::ParseError::Incomplete(_) | v2::ParseError::Partial(..)) => return Reading::NeedMore,
        Err(_) => return MALFORMED,
    };
    if header.command == v2::Command::Local {
        return Reading::Header { len: header.len(), speaker: Speaker::Balancer };
    }
    if let Err(reason) = check_extensions(&header) {
        return Reading::Malformed(reason);
    }
    let is_stream = header.protocol == v2::Protocol::Stream;
    let speaker = match header.addresses {
        v2::Addresses::IPv4(a) if is_stream => Speaker::Client(Addresses {
            source: (a.source_address, a.source_port).into(),
            destination: (a.destination_address, a.destination_port).into(),
        }),
        v2::Addresses::IPv6(a) if is_stream => Speaker::Client(Addresses {
            source: (a.source_address, a.source_port).into(),
            destination: (a.destination_address, a.destination_port).into(),
        }),
        _ => Speaker::Unknown,
    };
    Reading::Header { len: header.len(), speaker }
}

/// Whether a header's extensions fit into it, and it is what its checksum says, if it has one (specification, sections 2.2 and
/// 2.2.3).
fn check_extensions(header: &v2::Header<'_>) -> Result<(), &'static str> {
    const CRC_32C: u8 = 3;
    let bytes = header.as_bytes();
    let mut at = bytes.len() - header.tlv_bytes().len();
    for extension in header.tlvs() {
        let Ok(extension) = extension else {
            // Addresses of no family may be anything, and are read as extensions here.
            let is_addresses = matches!(header.addresses, v2::Addresses::Unspecified);
            return if is_addresses { Ok(()) } else { Err("a PROXY header shorter than its extensions") };
        };
        // Its kind and length come before it.
        let value = at + 3..at + 3 + extension.value.len();
        if extension.kind == CRC_32C {
            let zeroed =
                bytes.iter().enumerate().map(|(at, byte)| if value.contains(&at) { 0 } else { *byte });
            if *extension.value != crc_32c(zeroed).to_be_bytes() {
                return Err("a PROXY header that is not what its checksum says");
            }
        }
        at = value.end;
    }
    Ok(())
}

/// The checksum of Castagnoli (RFC 3720, appendix B.4), bit by bit.
fn crc_32c(bytes: impl Iterator<Item = u8>) -> u32 {
    const POLYNOMIAL: u32 = 0x82f6_3b78;
    !bytes.fold(u32::MAX, |sum, byte| {
        (0..8).fold(sum ^ u32::from(byte), |sum, _| (sum >> 1) ^ (POLYNOMIAL & 0_u32.wrapping_sub(sum & 1)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const V1: &[u8] = b"PROXY TCP4 192.0.2.7 198.51.100.1 4711 443\r\n";

    fn v2(command: u8, family: u8, payload: &[u8]) -> Vec<u8> {
        let len = u16::try_from(payload.len()).unwrap().to_be_bytes();
        [v2::PROTOCOL_PREFIX, &[0x20 | command, family], &len, payload].concat()
    }

    fn addresses(source: &str, destination: &str) -> Speaker {
        Speaker::Client(Addresses {
            source: source.parse().unwrap(),
            destination: destination.parse().unwrap(),
        })
    }

    /// Every proper beginning wants more, and what follows the header is left alone.
    fn expect(header: &[u8], expected: Speaker) {
        for cut in 0..header.len() {
            assert_eq!(read(&header[..cut]), Reading::NeedMore, "cut at {cut}");
        }
        let followed = [header, b"GET / HTTP/1.1\r\n"].concat();
        for bytes in [header, &followed] {
            assert_eq!(read(bytes), Reading::Header { len: header.len(), speaker: expected });
        }
    }

    #[test]
    fn version_1() {
        expect(V1, addresses("192.0.2.7:4711", "198.51.100.1:443"));
        expect(
            b"PROXY TCP6 2001:db8::7 2001:db8::1 4711 443\r\n",
            addresses("[2001:db8::7]:4711", "[2001:db8::1]:443"),
        );
        expect(b"PROXY UNKNOWN\r\n", Speaker::Unknown);
        expect(b"PROXY UNKNOWN ffff:f...f:ffff ffff:f...f:ffff 65535 65535\r\n", Speaker::Unknown);
    }

    #[test]
    fn version_2() {
        let v4 = [192, 0, 2, 7, 198, 51, 100, 1, 0x12, 0x67, 0x01, 0xbb];
        let expected = addresses("192.0.2.7:4711", "198.51.100.1:443");
        expect(&v2(1, 0x11, &v4), expected);
        let with_extensions = [&v4[..], &[0x04, 0, 3, 1, 2, 3, 0x20, 0, 1, 9]].concat();
        expect(&v2(1, 0x11, &with_extensions), expected);
        let mut v6 = [0; 36];
        v6[15] = 7;
        v6[31] = 1;
        v6[32..].copy_from_slice(&[0x12, 0x67, 0x01, 0xbb]);
        expect(&v2(1, 0x21, &v6), addresses("[::7]:4711", "[::1]:443"));
        expect(&v2(0, 0x11, &v4), Speaker::Balancer);
        expect(&v2(0, 0, &[]), Speaker::Balancer);
        expect(&v2(1, 0, &[]), Speaker::Unknown);
        expect(&v2(1, 0x12, &v4), Speaker::Unknown);
        expect(&v2(1, 0x31, &[b'x'; 216]), Speaker::Unknown);
    }

    #[test]
    fn a_header_of_version_2_with_a_checksum_is_what_that_says() {
        // RFC 3720, appendix B.4: 32 bytes of zeros.
        assert_eq!(crc_32c([0; 32].into_iter()), 0x8a91_36aa);
        let ends = [192, 0, 2, 7, 198, 51, 100, 1, 0x12, 0x67, 0x01, 0xbb];
        let with = |sum: &[u8]| {
            let len = u8::try_from(sum.len()).unwrap();
            v2(1, 0x11, &[&ends[..], &[0x04, 0, 1, 0, 0x03, 0, len], sum, &[0x04, 0, 1, 0]].concat())
        };
        let sum = crc_32c(with(&[0; 4]).into_iter());
        expect(&with(&sum.to_be_bytes()), addresses("192.0.2.7:4711", "198.51.100.1:443"));
        for wrong in [&(sum ^ 1).to_be_bytes()[..], &[0; 3]] {
            let reason = "a PROXY header that is not what its checksum says";
            assert_eq!(read(&with(wrong)), Reading::Malformed(reason));
        }
    }

    #[test]
    fn a_header_of_version_2_holds_the_whole_of_its_extensions() {
        for beyond in [&[0x04, 0, 5, 1][..], &[0x04, 0, 1, 1, 0x04, 0], &[0x04]] {
            for (family, ends) in [(0x11, 12), (0x21, 36), (0x31, 216)] {
                let header = v2(1, family, &[&[1; 216][..ends], beyond].concat());
                let reason = "a PROXY header shorter than its extensions";
                assert_eq!(read(&header), Reading::Malformed(reason), "{family:x} {beyond:?}");
            }
            expect(&v2(0, 0x11, &[&[1; 12], beyond].concat()), Speaker::Balancer);
            expect(&v2(1, 0, beyond), Speaker::Unknown);
        }
    }

    #[test]
    fn anything_else_is_malformed() {
        let long = [&b"PROXY TCP4 "[..], &[b'1'; V1_BYTES_MAX]].concat();
        let cases: [&[u8]; 9] = [
            b"GET / HTTP/1.1\r\n",
            b"\x16\x03\x01",
            b"PROXY TCP4 192.0.2.7 198.51.100.1 4711\r\n",
            b"PROXY TCP4 999.0.2.7 198.51.100.1 4711 443\r\n",
            b"PROXY TCP4 192.0.2.7 198.51.100.1 4711 443 \n\r\n",
            &long,
            &v2(7, 0x11, &[0; 12]),
            &v2(1, 0x11, &[0; 11]),
            &v2(1, 0x11, &[0; HEADER_BYTES_MAX]),
        ];
        for bytes in cases {
            assert!(matches!(read(bytes), Reading::Malformed(_)), "{}", bytes.escape_ascii());
        }
    }

    #[test]
    fn no_bytes_make_it_panic_or_ask_without_end() {
        bolero::check!().with_iterations(20_000).for_each(|bytes: &[u8]| {
            for prefix in [&b""[..], V1_PREFIX, v2::PROTOCOL_PREFIX] {
                let bytes = [prefix, bytes].concat();
                match read(&bytes) {
                    Reading::NeedMore => assert!(bytes.len() < HEADER_BYTES_MAX),
                    Reading::Header { len, .. } => assert!(len <= bytes.len()),
                    Reading::Malformed(_) => {}
                }
            }
        });
    }
}
