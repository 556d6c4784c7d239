//! A TLS ClientHello's bytes in; new, resumable or not TLS out.
//!
//! [`read`] takes the bytes a client has sent so far, from the first on, split over records and
//! segments as they may be, and tells whether they are a ClientHello ([`Reading`]). [`resumable`]
//! then says whether the client holds a ticket that this server can open, before any cryptography
//! of the handshake. The grammar is the crate `tls-parser`'s; the one extension it leaves opaque,
//! `pre_shared_key`, is read here (RFC 8446, section 4.2.11).
//!
//! Input is the network's: nothing here panics on any bytes, and everything is bounded.

use tls_parser::{
    MAX_RECORD_LEN, TlsExtension, TlsExtensionType, TlsHandshakeType, TlsMessageHandshake, TlsRecordType,
    parse_tls_client_hello_extension, parse_tls_extension_unknown, parse_tls_handshake_msg_client_hello,
    parse_tls_record_header,
};

/// Longest ClientHello read, in bytes of the handshake message. Hellos with post-quantum key
/// shares take about 2 KiB; the rest is room for tickets that carry a client's certificates.
pub const MESSAGE_BYTES_MAX: usize = 32 * 1024;

/// Most records a hello may be split over; no honest client splits so finely.
pub const RECORDS_MAX: usize = 1024;

/// [`read`] never asks for more once it has seen this many bytes: the longest message in as many
/// records as may be.
pub const BYTES_MAX: usize = HANDSHAKE_HEADER + MESSAGE_BYTES_MAX + RECORDS_MAX * RECORD_HEADER;

/// Tickets tried in one hello; more are as if they were not there.
pub const TICKETS_MAX: usize = 8;

const RECORD_HEADER: usize = 5;
const HANDSHAKE_HEADER: usize = 4;
const TLS13: u16 = 0x0304;

/// What the bytes so far are.
#[must_use]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reading {
    /// The beginning of a ClientHello; never for [`BYTES_MAX`] bytes or more.
    NeedMore,
    /// No TLS: the first bytes are not those of a handshake record.
    NotTls,
    /// TLS, but no ClientHello, or one that breaks the grammar or a bound.
    Malformed(&'static str),
    /// A ClientHello.
    Hello(Box<Hello>),
}

/// What a ClientHello says, as far as an admission or a choice of certificate asks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hello {
    /// The host name asked for, lower case, without a dot at its end.
    pub server_name: Option<String>,
    /// Application protocols offered, in the client's order.
    pub alpn: Vec<Vec<u8>>,
    /// Versions offered: of `supported_versions`, else the hello's own.
    pub versions: Vec<u16>,
    /// The session id; empty if there is none. A TLS 1.3 client sends a random one.
    pub session_id: Vec<u8>,
    /// The TLS 1.2 ticket (extension 35); `None` without one, or with an empty one, which only
    /// says that the client would like one.
    pub ticket: Option<Vec<u8>>,
    /// The identities of `pre_shared_key`: TLS 1.3 tickets, at most [`TICKETS_MAX`].
    pub identities: Vec<Vec<u8>>,
}

/// Reads the bytes a client has sent so far, from its first.
pub fn read(bytes: &[u8]) -> Reading {
    let mut message = Vec::new();
    let mut rest = bytes;
    for _ in 0..RECORDS_MAX {
        if !could_be_handshake(rest) {
            return if message.is_empty() {
                Reading::NotTls
            } else {
                Reading::Malformed("a record of another kind inside the hello")
            };
        }
        let Ok((content, header)) = parse_tls_record_header(rest) else { return Reading::NeedMore };
        debug_assert_eq!(header.record_type, TlsRecordType::Handshake);
        if header.len == 0 || header.len > MAX_RECORD_LEN {
            return Reading::Malformed("a record that is empty or too long");
        }
        let (content, next, complete) = match content.split_at_checked(usize::from(header.len)) {
            Some((content, next)) => (content, next, true),
            None => (content, &[][..], false),
        };
        message.extend_from_slice(content);
        match message_len(&message) {
            Err(reading) => return reading,
            Ok(Some(len)) if message.len() >= len => return parse(&message[..len]),
            Ok(_) => {}
        }
        if !complete {
            return Reading::NeedMore;
        }
        rest = next;
    }
    Reading::Malformed("split over too many records")
}

/// Whether a server that opens tickets with `open` can resume this client's session: TLS 1.3 by an
/// identity of `pre_shared_key`, TLS 1.2 by the session ticket. `open` is true for a ticket of
/// this server's own keys.
#[must_use]
pub fn resumable(hello: &Hello, mut open: impl FnMut(&[u8]) -> bool) -> bool {
    if hello.versions.contains(&TLS13) {
        // Where TLS 1.3 is spoken, a TLS 1.2 ticket beside it is of no use.
        return hello.identities.iter().any(|identity| open(identity));
    }
    hello.ticket.as_deref().is_some_and(open)
}

/// Whether `bytes`, of which there may be none yet, can begin a record of a handshake.
fn could_be_handshake(bytes: &[u8]) -> bool {
    let expected = [u8::from(TlsRecordType::Handshake), 3];
    bytes.iter().zip(expected).all(|(byte, expected)| *byte == expected)
}

/// The length of the handshake message that begins here, header included, once that is known.
fn message_len(message: &[u8]) -> Result<Option<usize>, Reading> {
    let [kind, length @ ..] = message else { return Ok(None) };
    if TlsHandshakeType(*kind) != TlsHandshakeType::ClientHello {
        return Err(Reading::Malformed("a handshake that does not begin with a hello"));
    }
    let [a, b, c, ..] = length else { return Ok(None) };
    let len = usize::from(*a) << 16 | usize::from(*b) << 8 | usize::from(*c);
    if len > MESSAGE_BYTES_MAX {
        return Err(Reading::Malformed("longer than a hello may be"));
    }
    Ok(Some(len + HANDSHAKE_HEADER))
}

/// Reads a whole handshake message.
fn parse(message: &[u8]) -> Reading {
    // The parser takes the message behind its type and length.
    let content = message.get(HANDSHAKE_HEADER..).unwrap_or_default();
    let Ok((&[], TlsMessageHandshake::ClientHello(contents))) = parse_tls_handshake_msg_client_hello(content)
    else {
        return Reading::Malformed("not by the grammar of a hello");
    };
    let mut hello = Hello {
        session_id: contents.session_id.unwrap_or_default().to_vec(),
        versions: vec![contents.version.0],
        ..Hello::default()
    };
    let mut extensions = contents.ext.unwrap_or_default();
    while !extensions.is_empty() {
        let Ok((rest, TlsExtension::Unknown(kind, _))) = parse_tls_extension_unknown(extensions) else {
            return Reading::Malformed("extensions not by the grammar");
        };
        let extension = &extensions[..extensions.len() - rest.len()];
        extensions = rest;
        if is_of_interest(kind) && read_extension(&mut hello, extension).is_none() {
            return Reading::Malformed("an extension not by its grammar");
        }
    }
    Reading::Hello(Box::new(hello))
}

fn is_of_interest(kind: TlsExtensionType) -> bool {
    matches!(
        kind,
        TlsExtensionType::ServerName
            | TlsExtensionType::ApplicationLayerProtocolNegotiation
            | TlsExtensionType::SupportedVersions
            | TlsExtensionType::SessionTicketTLS
            | TlsExtensionType::PreSharedKey
    )
}

fn read_extension(hello: &mut Hello, extension: &[u8]) -> Option<()> {
    let (_, extension) = parse_tls_client_hello_extension(extension).ok()?;
    match extension {
        TlsExtension::SNI(names) => {
            hello.server_name = names.iter().find_map(|(kind, name)| host_name(kind.0, name));
        }
        TlsExtension::ALPN(protocols) => {
            hello.alpn = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        }
        TlsExtension::SupportedVersions(versions) => {
            hello.versions = versions.iter().map(|version| version.0).collect();
        }
        TlsExtension::SessionTicket(ticket) => {
            hello.ticket = (!ticket.is_empty()).then(|| ticket.to_vec());
        }
        TlsExtension::PreSharedKey(offered) => hello.identities = identities(offered)?,
        _ => {}
    }
    Some(())
}

fn host_name(kind: u8, name: &[u8]) -> Option<String> {
    const HOST_NAME: u8 = 0;
    let printable = name.iter().all(u8::is_ascii_graphic);
    let name = std::str::from_utf8(name).ok().filter(|_| kind == HOST_NAME && printable)?;
    let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
    (!name.is_empty()).then_some(name)
}

/// The identities of `OfferedPsks` (RFC 8446, section 4.2.11): a list, each an opaque string and
/// the ticket's obfuscated age in four bytes; the binders behind the list are rustls's business.
fn identities(offered: &[u8]) -> Option<Vec<Vec<u8>>> {
    let (mut list, _binders) = take_vector(offered)?;
    let mut identities = Vec::new();
    while !list.is_empty() && identities.len() < TICKETS_MAX {
        let (identity, rest) = take_vector(list)?;
        let (_age, rest) = rest.split_at_checked(4)?;
        identities.push(identity.to_vec());
        list = rest;
    }
    Some(identities)
}

/// Splits off a vector with a length of two bytes.
fn take_vector(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = bytes.split_first_chunk::<2>()?;
    rest.split_at_checked(usize::from(u16::from_be_bytes(*len)))
}

#[cfg(test)]
mod tests;
