//! Hellos of real rustls clients, whole, split and broken.

use std::sync::Arc;

use proptest::prelude::*;
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection, SupportedProtocolVersion,
    crypto::aws_lc_rs::Ticketer,
    pki_types::{PrivateKeyDer, ServerName},
    server::ProducesTickets,
    version::{TLS12, TLS13},
};

use super::*;

const NAME: &str = "Shop.Example.org";

struct Peers {
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
    ticketer: Arc<dyn ProducesTickets>,
}

impl Peers {
    fn new(versions: &[&'static SupportedProtocolVersion]) -> Self {
        let certified = rcgen::generate_simple_self_signed([NAME.to_ascii_lowercase()]).unwrap();
        let key = PrivateKeyDer::Pkcs8(certified.signing_key.serialize_der().into());
        let mut roots = RootCertStore::empty();
        roots.add(certified.cert.der().clone()).unwrap();
        let mut client = ClientConfig::builder_with_protocol_versions(versions)
            .with_root_certificates(roots)
            .with_no_client_auth();
        client.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let mut server = ServerConfig::builder_with_protocol_versions(versions)
            .with_no_client_auth()
            .with_single_cert(vec![certified.cert.der().clone()], key)
            .unwrap();
        server.alpn_protocols = vec![b"h2".to_vec()];
        let ticketer = Ticketer::new().unwrap();
        server.ticketer = Arc::clone(&ticketer);
        server.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
        Self { client: Arc::new(client), server: Arc::new(server), ticketer }
    }

    fn connect(&self) -> ClientConnection {
        ClientConnection::new(Arc::clone(&self.client), ServerName::try_from(NAME).unwrap()).unwrap()
    }

    /// The first flight of a client that has no ticket, or of one that has.
    fn hello(&self, resumed: bool) -> Vec<u8> {
        if resumed {
            self.handshake();
        }
        first_flight(&mut self.connect())
    }

    fn handshake(&self) {
        let mut client = self.connect();
        let mut server = ServerConnection::new(Arc::clone(&self.server)).unwrap();
        while client.is_handshaking() || server.is_handshaking() || server.wants_write() {
            pump(&mut client, &mut server);
        }
    }
}

fn pump(client: &mut ClientConnection, server: &mut ServerConnection) {
    let mut bytes = Vec::new();
    while client.wants_write() {
        client.write_tls(&mut bytes).unwrap();
    }
    let mut input = bytes.as_slice();
    while !input.is_empty() {
        server.read_tls(&mut input).unwrap();
        server.process_new_packets().unwrap();
    }
    bytes.clear();
    while server.wants_write() {
        server.write_tls(&mut bytes).unwrap();
    }
    let mut input = bytes.as_slice();
    while !input.is_empty() {
        client.read_tls(&mut input).unwrap();
        client.process_new_packets().unwrap();
    }
}

fn first_flight(client: &mut ClientConnection) -> Vec<u8> {
    let mut bytes = Vec::new();
    client.write_tls(&mut bytes).unwrap();
    bytes
}

fn hello(bytes: &[u8]) -> Hello {
    match read(bytes) {
        Reading::Hello(hello) => *hello,
        other => panic!("{other:?}"),
    }
}

/// The hello's message in records of at most `len` bytes.
fn in_records_of(bytes: &[u8], len: usize) -> Vec<u8> {
    let mut split = Vec::new();
    for content in bytes[RECORD_HEADER..].chunks(len) {
        split.extend_from_slice(&bytes[..3]);
        split.extend_from_slice(&u16::try_from(content.len()).unwrap().to_be_bytes());
        split.extend_from_slice(content);
    }
    split
}

#[test]
fn a_new_client_is_read_and_is_not_resumable() {
    for (versions, wanted) in [(&[&TLS13][..], vec![0x0304]), (&[&TLS12][..], vec![0x0303])] {
        let peers = Peers::new(versions);
        let hello = hello(&peers.hello(false));
        assert_eq!(hello.server_name.as_deref(), Some("shop.example.org"));
        assert_eq!(hello.alpn, [b"h2".to_vec(), b"http/1.1".to_vec()]);
        assert_eq!(hello.versions, wanted);
        // Also where a TLS 1.3 hello brings a random session id.
        assert!(!resumable(&hello, |ticket| peers.ticketer.decrypt(ticket).is_some()));
    }
}

#[test]
fn a_ticket_of_ours_resumes_and_a_foreign_one_does_not() {
    for versions in [&[&TLS13][..], &[&TLS12][..]] {
        let (ours, foreign) = (Peers::new(versions), Peers::new(versions));
        let hello = hello(&ours.hello(true));
        assert!(hello.ticket.is_some() || !hello.identities.is_empty());
        assert!(resumable(&hello, |ticket| ours.ticketer.decrypt(ticket).is_some()));
        assert!(!resumable(&hello, |ticket| foreign.ticketer.decrypt(ticket).is_some()));
    }
}

#[test]
fn a_tls12_ticket_is_of_no_use_where_tls13_is_spoken() {
    let hello =
        Hello { versions: vec![0x0304, 0x0303], ticket: Some(b"ticket".to_vec()), ..Hello::default() };
    assert!(!resumable(&hello, |_| true));
}

#[test]
fn a_hello_cut_anywhere_wants_more() {
    for versions in [&[&TLS13][..], &[&TLS12][..]] {
        let bytes = Peers::new(versions).hello(true);
        for cut in 0..bytes.len() {
            assert_eq!(read(&bytes[..cut]), Reading::NeedMore, "cut at {cut}");
        }
    }
}

#[test]
fn a_hello_split_over_records_is_the_same_hello() {
    let peers = Peers::new(&[&TLS13]);
    let bytes = peers.hello(true);
    let whole = hello(&bytes);
    for len in 1.max(bytes.len() / RECORDS_MAX + 1)..bytes.len() {
        let split = in_records_of(&bytes, len);
        assert_eq!(hello(&split), whole, "records of {len}");
        assert_eq!(read(&split[..split.len() - 1]), Reading::NeedMore);
    }
    assert!(resumable(&whole, |ticket| peers.ticketer.decrypt(ticket).is_some()));
}

#[test]
fn what_follows_the_hello_is_left_alone() {
    let mut bytes = Peers::new(&[&TLS13]).hello(false);
    let whole = hello(&bytes);
    bytes.extend_from_slice(b"\x14\x03\x03\x00\x01\x01anything");
    assert_eq!(hello(&bytes), whole);
}

#[test]
fn other_protocols_are_not_tls_from_the_first_byte_on() {
    for bytes in
        [&b"G"[..], b"GET / HTTP/1.1\r\n", b"PRI * HTTP/2.0\r\n", b"\x16\x02", b"\x15\x03\x01", b"\0"]
    {
        assert_eq!(read(bytes), Reading::NotTls);
    }
}

#[test]
fn everything_is_bounded() {
    let too_long = [&b"\x16\x03\x01\x40\x00\x01\x00\x80\x01"[..], &[0; 100]].concat();
    assert!(matches!(read(&too_long), Reading::Malformed(_)));
    assert!(matches!(read(b"\x16\x03\x01\x00\x00"), Reading::Malformed(_)));
    assert!(matches!(read(b"\x16\x03\x01\xff\xff\x01"), Reading::Malformed(_)));
    assert!(matches!(read(b"\x16\x03\x01\x00\x05\x02"), Reading::Malformed(_)));
    let mut fine = b"\x16\x03\x01\x00\x01\x01".to_vec();
    for _ in 0..RECORDS_MAX {
        fine.extend_from_slice(b"\x16\x03\x01\x00\x01\x00");
    }
    assert!(matches!(read(&fine), Reading::Malformed(_)));
    let other_kind = b"\x16\x03\x01\x00\x01\x01\x17\x03\x01\x00\x01\x00";
    assert!(matches!(read(other_kind), Reading::Malformed(_)));
}

#[test]
fn what_is_as_long_as_may_be_is_read() {
    let longest_record = MAX_RECORD_LEN.to_be_bytes();
    let begun = |[a, b]: [u8; 2]| read(&[0x16, 3, 1, a, b, 1]);
    assert_eq!(begun(longest_record), Reading::NeedMore);
    assert!(matches!(begun((MAX_RECORD_LEN + 1).to_be_bytes()), Reading::Malformed(_)));
    let begun = |len: usize| {
        let [.., a, b, c] = len.to_be_bytes();
        read(&[0x16, 3, 1, 0x40, 0, 1, a, b, c])
    };
    assert_eq!(begun(MESSAGE_BYTES_MAX), Reading::NeedMore);
    assert!(matches!(begun(MESSAGE_BYTES_MAX + 1), Reading::Malformed(_)));
}

#[test]
fn a_name_is_a_hosts_and_printable() {
    assert_eq!(host_name(0, b"Shop.Example.").as_deref(), Some("shop.example"));
    assert_eq!(host_name(1, b"shop.example"), None, "of a kind that nobody knows");
    for name in [&b"shop example"[..], b"shop\n.example", b"shop\xff", b".", b""] {
        assert_eq!(host_name(0, name), None, "{name:?}");
    }
}

#[test]
fn at_most_so_many_tickets_are_tried() {
    let mut offered = Vec::new();
    for _ in 0..100 {
        offered.extend_from_slice(b"\x00\x01t\0\0\0\0");
    }
    let mut list = u16::try_from(offered.len()).unwrap().to_be_bytes().to_vec();
    list.append(&mut offered);
    assert_eq!(identities(&list).unwrap().len(), TICKETS_MAX);
}

proptest! {
    /// One byte changed in a real hello, and cut: never a panic, and what wants more stays bounded.
    #[test]
    fn broken_hellos_do_no_harm(resumed: bool, at: prop::sample::Index, byte: u8, cut: prop::sample::Index) {
        static PEERS: std::sync::OnceLock<[Vec<u8>; 2]> = std::sync::OnceLock::new();
        let hellos = PEERS.get_or_init(|| {
            let peers = Peers::new(&[&TLS13, &TLS12]);
            [peers.hello(false), peers.hello(true)]
        });
        let mut bytes = hellos[usize::from(resumed)].clone();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if let Reading::Hello(hello) = read(&bytes) {
            let _ = resumable(&hello, |_| false);
        }
        let _ = read(&bytes[..cut.index(bytes.len())]);
    }
}

#[test]
fn no_bytes_make_it_panic_or_ask_without_end() {
    bolero::check!().with_iterations(20_000).for_each(|bytes: &[u8]| {
        let _ = read(bytes);
        // Behind the header of a record, so that the parsers inside are reached.
        let record = |content: &[u8]| {
            let len = u16::try_from(content.len()).unwrap_or(u16::MAX).to_be_bytes();
            [&[0x16, 3, 1, len[0], len[1]], content].concat()
        };
        let _ = read(&record(bytes));
        let len = u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_be_bytes();
        let message = [&[1, len[1], len[2], len[3]], bytes].concat();
        if let Reading::Hello(hello) = read(&record(&message)) {
            let _ = resumable(&hello, |_| false);
        }
        let _ = identities(bytes);
    });
    let endless = [&b"\x16\x03\x01\x40\x00\x01\x00\x80\x00"[..], &[0; BYTES_MAX]].concat();
    assert_ne!(read(&endless[..BYTES_MAX]), Reading::NeedMore);
}
