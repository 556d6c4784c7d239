//! TLS from clients: versions, certificates by name, resumption, client certificates.

use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

use rcgen::{CertificateParams, DnType, Issuer, KeyPair};
use rustls::{
    CipherSuite, ClientConfig, ClientConnection, HandshakeKind, NamedGroup, ProtocolVersion, RootCertStore,
    SignatureScheme, StreamOwned, SupportedProtocolVersion,
    client::{
        ClientSessionMemoryCache, ClientSessionStore, ResolvesClientCert, Resumption,
        Tls12ClientSessionValue, Tls13ClientSessionValue,
    },
    crypto::{
        ActiveKeyExchange, CryptoProvider, SharedSecret, SupportedKxGroup, aws_lc_rs::kx_group::X25519,
    },
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
    sign::CertifiedKey,
    version::{TLS12, TLS13},
};

use tidegate_control::classify::{PathSpec, RouteSpec};

use crate::support::{Bed, connect, get, rest, write_certificate};

/// A gateway with a listener `https` and certificates for one.example, two.example and
/// *.wild.example.
pub(crate) struct Tls {
    pub(crate) bed: Bed,
}

impl Tls {
    /// Knobs of the host, and lines for the listener.
    pub(crate) fn new(host: &str, listener: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        write_certificate(directory.path(), "one", &["one.example"]);
        write_certificate(directory.path(), "two", &["two.example", "*.wild.example"]);
        write_certificate(directory.path(), "client", &["client.example"]);
        write_certificate(directory.path(), "ca", &["ca.example"]);
        let listeners = format!(
            "[[listener]]\nname = \"https\"\naddress = \"127.0.0.1:0\"\n\
             tls.certificates = [{{ chain = \"one.pem\", key = \"one.key\" }}, {{ chain = \"two.pem\", key = \"two.key\" }}]\n{listener}\n"
        );
        Self { bed: Bed::in_directory(directory, host, &listeners, "") }
    }

    pub(crate) fn path(&self) -> &Path {
        self.bed.directory.path()
    }

    /// A client's certificate that the authority in `ca.pem` vouches for during that time.
    fn issue(&self, time: Duration) -> Arc<CertifiedKey> {
        let authority = KeyPair::from_pem(&fs::read_to_string(self.path().join("ca.key")).unwrap()).unwrap();
        let issuer = Issuer::new(CertificateParams::new(Vec::new()).unwrap(), authority);
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["client.example".to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, "client");
        let since_1970 = std::time::UNIX_EPOCH.elapsed().unwrap();
        params.not_after = rcgen::date_time_ymd(1970, 1, 1) + since_1970 + time;
        let chain = vec![params.signed_by(&key, &issuer).unwrap().der().clone()];
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let key = rustls::crypto::aws_lc_rs::sign::any_supported_type(&key).unwrap();
        Arc::new(CertifiedKey::new(chain, key))
    }

    pub(crate) fn connect(&self) -> TcpStream {
        connect(self.bed.running.address("https").unwrap())
    }

    pub(crate) fn client(
        &self,
        config: &Arc<ClientConfig>,
        name: &str,
    ) -> StreamOwned<ClientConnection, TcpStream> {
        self.client_through(config, name, self.connect())
    }

    pub(crate) fn client_through<S: Read + Write>(
        &self,
        config: &Arc<ClientConfig>,
        name: &str,
        stream: S,
    ) -> StreamOwned<ClientConnection, S> {
        let name = ServerName::try_from(name.to_owned()).unwrap();
        StreamOwned::new(ClientConnection::new(Arc::clone(config), name).unwrap(), stream)
    }
}

/// A client that trusts the certificates in the directory as they are now.
pub(crate) fn client_config(tls: &Tls, alpn: &[&str]) -> Arc<ClientConfig> {
    config_for(tls, &[&TLS13, &TLS12], alpn)
}

fn config_for(tls: &Tls, versions: &[&'static SupportedProtocolVersion], alpn: &[&str]) -> Arc<ClientConfig> {
    let mut config = ClientConfig::builder_with_protocol_versions(versions)
        .with_root_certificates(roots(tls))
        .with_no_client_auth();
    config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
    Arc::new(config)
}

fn roots(tls: &Tls) -> RootCertStore {
    let mut roots = RootCertStore::empty();
    for name in ["one.pem", "two.pem"] {
        roots.add(CertificateDer::from_pem_file(tls.path().join(name)).unwrap()).unwrap();
    }
    roots
}

/// The first flight of a client of one.example.
pub(crate) fn hello_bytes(config: &Arc<ClientConfig>) -> Vec<u8> {
    let name = ServerName::try_from("one.example").unwrap();
    let mut client = ClientConnection::new(Arc::clone(config), name).unwrap();
    let mut bytes = Vec::new();
    client.write_tls(&mut bytes).unwrap();
    bytes
}

/// Whether a fresh client that asks for `name` gets the certificate of that file.
pub(crate) fn serves(tls: &Tls, name: &str, file: &str) -> bool {
    let mut client = tls.client(&client_config(tls, &[]), name);
    // The name need not be in the certificate: then the handshake fails at our side only.
    let _ = client.flush();
    let wanted = CertificateDer::from_pem_file(tls.path().join(file)).unwrap();
    client.conn.peer_certificates().is_some_and(|chain| chain[0] == wanted)
}

#[test]
fn the_certificate_is_the_one_of_the_name() {
    let tls = Tls::new("", "");
    for (name, file) in [
        ("one.example", "one.pem"),
        ("two.example", "two.pem"),
        ("TWO.example", "two.pem"),
        ("any.wild.example", "two.pem"),
    ] {
        let mut client = tls.client(&client_config(&tls, &[]), name);
        assert_eq!(get(&mut client, "/").status, 200, "{name}");
        assert!(serves(&tls, name, file), "{name}");
    }
    // Nobody's name, and no name at all: the first.
    let config = client_config(&tls, &[]);
    for name in ["other.example", "a.b.wild.example", "127.0.0.1"] {
        let mut client = tls.client(&config, name);
        let error = client.flush().unwrap_err().to_string();
        assert!(error.contains("only valid for DnsName(\"one.example\")"), "{name}: {error}");
    }
}

#[test]
fn both_versions_are_spoken_and_the_older_can_be_refused() {
    let tls = Tls::new("", "");
    for (version, expected) in [(&TLS12, ProtocolVersion::TLSv1_2), (&TLS13, ProtocolVersion::TLSv1_3)] {
        let mut client = tls.client(&config_for(&tls, &[version], &[]), "one.example");
        assert_eq!(get(&mut client, "/").status, 200);
        assert_eq!(client.conn.protocol_version(), Some(expected));
    }
    let tls = Tls::new("", "tls.min_version = \"1.3\"");
    let mut client = tls.client(&config_for(&tls, &[&TLS12], &[]), "one.example");
    assert!(client.flush().is_err());
}

#[test]
fn the_gateways_order_of_cipher_suites_counts_unless_the_client_wants_chacha20() {
    use rustls::CipherSuite::{
        TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256 as OLD_128,
        TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384 as OLD_256,
        TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256 as OLD_CHACHA, TLS13_AES_128_GCM_SHA256 as NEW_128,
        TLS13_AES_256_GCM_SHA384 as NEW_256, TLS13_CHACHA20_POLY1305_SHA256 as NEW_CHACHA,
    };
    let suite_of = |tls: &Tls, offered: &[CipherSuite]| {
        let mut provider = rustls::crypto::aws_lc_rs::default_provider();
        let known = provider.cipher_suites;
        let suite = |offered: &CipherSuite| *known.iter().find(|suite| suite.suite() == *offered).unwrap();
        provider.cipher_suites = offered.iter().map(suite).collect();
        let config = ClientConfig::builder_with_provider(Arc::new(provider))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots(tls))
            .with_no_client_auth();
        let config = Arc::new(config);
        let kinds = [(); 2].map(|()| {
            let mut client = tls.client(&config, "one.example");
            assert_eq!(get(&mut client, "/").status, 200);
            (client.conn.negotiated_cipher_suite().unwrap().suite(), client.conn.handshake_kind().unwrap())
        });
        assert_eq!(kinds.map(|(_, kind)| kind), [HandshakeKind::Full, HandshakeKind::Resumed]);
        assert_eq!(kinds[0].0, kinds[1].0);
        kinds[0].0
    };
    let ours = Tls::new("", "");
    assert_eq!(suite_of(&ours, &[NEW_256, NEW_CHACHA, NEW_128]), NEW_128);
    assert_eq!(suite_of(&ours, &[NEW_256, NEW_CHACHA]), NEW_256);
    assert_eq!(suite_of(&ours, &[NEW_CHACHA, NEW_128, NEW_256]), NEW_CHACHA);
    assert_eq!(suite_of(&ours, &[OLD_256, OLD_CHACHA, OLD_128]), OLD_128);
    assert_eq!(suite_of(&ours, &[OLD_CHACHA, OLD_128]), OLD_CHACHA);
    let theirs = Tls::new("", "tls.cipher_order = \"client\"");
    assert_eq!(suite_of(&theirs, &[NEW_256, NEW_128]), NEW_256);
    assert_eq!(suite_of(&theirs, &[OLD_256, OLD_128]), OLD_256);
}

#[test]
fn alpn_chooses_the_version_of_http() {
    for (listener, offered, chosen) in [
        ("", &["h2", "http/1.1"][..], Some(&b"h2"[..])),
        ("", &["http/1.1"], Some(b"http/1.1")),
        ("", &[], None),
        ("tls.http2 = false", &["h2", "http/1.1"], Some(b"http/1.1")),
    ] {
        let tls = Tls::new("", listener);
        let mut client = tls.client(&client_config(&tls, offered), "one.example");
        client.flush().unwrap();
        assert_eq!(client.conn.alpn_protocol(), chosen);
    }
}

#[test]
fn requests_follow_one_another_also_when_parked_in_between() {
    let tls = Tls::new("park.after = \"20ms\"\n", "");
    let mut client = tls.client(&client_config(&tls, &[]), "one.example");
    for n in 0..3 {
        assert_eq!(get(&mut client, &format!("/{n}")).status, 200);
        crate::support::eventually("parked", || tls.bed.shared.parked().read() == 1);
    }
}

#[test]
fn sessions_resume_on_whichever_core() {
    for version in [&TLS13, &TLS12] {
        let tls = Tls::new("", "");
        let config = config_for(&tls, &[version], &[]);
        let mut kinds = Vec::new();
        // Two workers: with so many connections both have had some.
        for _ in 0..16 {
            let mut client = tls.client(&config, "one.example");
            // The response comes after the tickets.
            assert_eq!(get(&mut client, "/").status, 200);
            kinds.push(client.conn.handshake_kind().unwrap());
        }
        assert_ne!(kinds[0], HandshakeKind::Resumed);
        assert!(kinds[1..].iter().all(|kind| *kind == HandshakeKind::Resumed), "{kinds:?}");
    }
}

#[test]
fn a_certificate_that_is_refused_is_told_so_whatever_came_after_it() {
    let tls = Tls::new("", "tls.client_certificates = \"required\"\ntls.client_ca = \"client.pem\"\n");
    let chain = CertificateDer::from_pem_file(tls.path().join("one.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_file(tls.path().join("one.key")).unwrap();
    let config = ClientConfig::builder_with_protocol_versions(&[&TLS13])
        .with_root_certificates(roots(&tls))
        .with_client_auth_cert(vec![chain], key)
        .unwrap();
    let StreamOwned { mut conn, mut sock } = tls.client(&Arc::new(config), "one.example");
    while conn.is_handshaking() {
        if conn.wants_write() {
            conn.write_tls(&mut sock).unwrap();
        } else {
            conn.read_tls(&mut sock).unwrap();
            conn.process_new_packets().unwrap();
        }
    }
    // The client believes to be connected, and sends more than is read before its certificate is.
    conn.writer().write_all(&[b'x'; 60 * 1024]).unwrap();
    let mut flight = Vec::new();
    while conn.wants_write() {
        conn.write_tls(&mut flight).unwrap();
    }
    sock.write_all(&flight).unwrap();
    sock.shutdown(std::net::Shutdown::Write).unwrap();
    let mut answer = Vec::new();
    sock.read_to_end(&mut answer).expect("an end in good order");
    conn.read_tls(&mut answer.as_slice()).unwrap();
    let error = conn.process_new_packets().unwrap_err();
    assert!(matches!(error, rustls::Error::AlertReceived(_)), "{error}");
}

#[test]
fn a_server_name_may_end_with_a_dot() {
    let tls = Tls::new("hello.timeout = \"1s\"\n", "");
    // In the older version certificates can be read on the way.
    let config = config_for(&tls, &[&TLS12], &[]);
    let name = ServerName::try_from("two.examplex").unwrap();
    let mut hello = Vec::new();
    ClientConnection::new(config, name).unwrap().write_tls(&mut hello).unwrap();
    let at = hello.windows(12).position(|window| window == b"two.examplex").unwrap();
    hello[at + 11] = b'.';
    let mut client = tls.connect();
    client.write_all(&hello).unwrap();
    let answer = rest(&mut client);
    let wanted = CertificateDer::from_pem_file(tls.path().join("two.pem")).unwrap();
    assert!(answer.windows(wanted.len()).any(|window| window == &wanted[..]));
}

#[test]
fn client_certificates_are_asked_for() {
    for (kind, without) in [("optional", true), ("required", false)] {
        let listener = format!("tls.client_certificates = \"{kind}\"\ntls.client_ca = \"client.pem\"\n");
        let tls = Tls::new("", &listener);
        let chain = CertificateDer::from_pem_file(tls.path().join("client.pem")).unwrap();
        let key = PrivateKeyDer::from_pem_file(tls.path().join("client.key")).unwrap();
        let with = ClientConfig::builder()
            .with_root_certificates(roots(&tls))
            .with_client_auth_cert(vec![chain], key)
            .unwrap();
        let mut client = tls.client(&Arc::new(with), "one.example");
        assert_eq!(get(&mut client, "/").status, 200, "{kind}");

        let mut client = tls.client(&client_config(&tls, &[]), "one.example");
        let answered = client.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").is_ok()
            && client.flush().is_ok()
            && client.read(&mut [0; 1]).is_ok_and(|len| len == 1);
        assert_eq!(answered, without, "{kind}");
    }
}

/// A store that offers whatever session it has to whichever server, and knows no server's groups.
#[derive(Debug)]
struct Indiscriminate(ClientSessionMemoryCache);

const NAME: &str = "one.example";

impl ClientSessionStore for Indiscriminate {
    fn set_kx_hint(&self, _: ServerName<'static>, _: NamedGroup) {}
    fn kx_hint(&self, _: &ServerName<'_>) -> Option<NamedGroup> {
        None
    }
    fn set_tls12_session(&self, _: ServerName<'static>, session: Tls12ClientSessionValue) {
        self.0.set_tls12_session(ServerName::try_from(NAME).unwrap(), session);
    }
    fn tls12_session(&self, _: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        self.0.tls12_session(&ServerName::try_from(NAME).unwrap())
    }
    fn remove_tls12_session(&self, _: &ServerName<'static>) {
        self.0.remove_tls12_session(&ServerName::try_from(NAME).unwrap());
    }
    fn insert_tls13_ticket(&self, _: ServerName<'static>, session: Tls13ClientSessionValue) {
        self.0.insert_tls13_ticket(ServerName::try_from(NAME).unwrap(), session);
    }
    fn take_tls13_ticket(&self, _: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        self.0.take_tls13_ticket(&ServerName::try_from(NAME).unwrap())
    }
}

#[test]
fn a_ticket_that_opens_and_does_not_serve_leads_to_a_full_handshake() {
    for version in [&TLS13, &TLS12] {
        let tls = Tls::new("", "");
        let mut config = ClientConfig::builder_with_protocol_versions(&[version])
            .with_root_certificates(roots(&tls))
            .with_no_client_auth();
        let store = Indiscriminate(ClientSessionMemoryCache::new(32));
        config.resumption = Resumption::store(Arc::new(store));
        let config = Arc::new(config);
        // A session belongs to the name it was begun with.
        for (name, resumed) in [("one.example", false), ("one.example", true), ("two.example", false)] {
            let mut client = tls.client(&config, name);
            assert_eq!(get(&mut client, "/").status, 200, "{name}");
            let kind = client.conn.handshake_kind().unwrap();
            assert_eq!(kind == HandshakeKind::Resumed, resumed, "{name} {version:?}: {kind:?}");
        }
    }
}

/// A group that the gateway does not have, first in a client's hello: it is asked to try another.
#[derive(Debug)]
struct Foreign;

struct ForeignShare(Box<dyn ActiveKeyExchange>);

impl SupportedKxGroup for Foreign {
    fn start(&self) -> Result<Box<dyn ActiveKeyExchange>, rustls::Error> {
        Ok(Box::new(ForeignShare(X25519.start()?)))
    }
    fn name(&self) -> NamedGroup {
        NamedGroup::secp521r1
    }
}

impl ActiveKeyExchange for ForeignShare {
    fn complete(self: Box<Self>, peer: &[u8]) -> Result<SharedSecret, rustls::Error> {
        self.0.complete(peer)
    }
    fn pub_key(&self) -> &[u8] {
        self.0.pub_key()
    }
    fn group(&self) -> NamedGroup {
        NamedGroup::secp521r1
    }
}

#[test]
fn a_ticket_that_opens_is_judged_also_where_another_key_share_is_asked_for() {
    let tls = Tls::new("", "");
    let provider =
        CryptoProvider { kx_groups: vec![&Foreign, X25519], ..rustls::crypto::aws_lc_rs::default_provider() };
    let mut config = ClientConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(&[&TLS13])
        .unwrap()
        .with_root_certificates(roots(&tls))
        .with_no_client_auth();
    config.resumption = Resumption::store(Arc::new(Indiscriminate(ClientSessionMemoryCache::new(32))));
    let config = Arc::new(config);
    let full = HandshakeKind::FullWithHelloRetryRequest;
    for (name, expected) in
        [("one.example", full), ("one.example", HandshakeKind::Resumed), ("two.example", full)]
    {
        let mut client = tls.client(&config, name);
        assert_eq!(get(&mut client, "/").status, 200, "{name}");
        assert_eq!(client.conn.handshake_kind(), Some(expected), "{name}");
    }
}

/// Shows the certificate it has at present.
#[derive(Debug)]
struct Renewable(Mutex<Arc<CertifiedKey>>);

impl ResolvesClientCert for Renewable {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0.lock().unwrap()))
    }
    fn has_certs(&self) -> bool {
        true
    }
}

#[test]
fn a_session_does_not_outlive_its_client_s_certificate() {
    let another_share = vec![&Foreign as &dyn SupportedKxGroup, X25519];
    for (version, groups, renews) in
        [(&TLS13, vec![X25519], true), (&TLS12, vec![X25519], true), (&TLS13, another_share, false)]
    {
        let tls = Tls::new("", "tls.client_certificates = \"required\"\ntls.client_ca = \"ca.pem\"\n");
        let issue = |seconds: u64| tls.issue(Duration::from_secs(seconds));
        let shown = Arc::new(Renewable(Mutex::new(issue(3600))));
        let provider = CryptoProvider { kx_groups: groups, ..rustls::crypto::aws_lc_rs::default_provider() };
        let mut config = ClientConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(&[version])
            .unwrap()
            .with_root_certificates(roots(&tls))
            .with_client_cert_resolver(shown.clone());
        let mut anew = config.clone();
        anew.resumption = Resumption::disabled();
        config.resumption = Resumption::store(Arc::new(Indiscriminate(ClientSessionMemoryCache::new(32))));
        let (config, anew) = (Arc::new(config), Arc::new(anew));
        let answered = |config: &Arc<ClientConfig>| {
            let mut client = tls.client(config, NAME);
            let answered = client.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").is_ok()
                && client.flush().is_ok()
                && client.read(&mut [0; 1]).is_ok_and(|len| len == 1);
            answered.then(|| client.conn.handshake_kind().unwrap())
        };
        // A machine that halts may be too slow for one.
        crate::support::eventually("served while the certificate holds", || {
            *shown.0.lock().unwrap() = issue(2);
            answered(&config).is_some()
        });
        crate::support::eventually("the certificate has expired", || answered(&anew).is_none());
        assert_eq!(answered(&config), None, "{version:?}");
        if renews {
            *shown.0.lock().unwrap() = issue(3600);
            assert_eq!(answered(&config), Some(HandshakeKind::Full), "{version:?}");
            assert_eq!(answered(&config), Some(HandshakeKind::Resumed), "{version:?}");
        }
    }
}

#[test]
fn many_full_handshakes_are_computed_one_after_the_other() {
    let tls = Tls::new("tls.handshakes.max = 1\n", "");
    std::thread::scope(|scope| {
        for _ in 0..20 {
            scope.spawn(|| {
                let mut client = tls.client(&client_config(&tls, &[]), "one.example");
                assert_eq!(get(&mut client, "/").status, 200);
            });
        }
    });
}

#[test]
fn a_host_of_another_application_is_misdirected() {
    let directory = tempfile::tempdir().unwrap();
    write_certificate(directory.path(), "one", &["one.example", "alias.example"]);
    write_certificate(directory.path(), "two", &["two.example"]);
    let listener = "[[listener]]\nname = \"https\"\naddress = \"127.0.0.1:0\"\n\
                    tls.certificates = [{ chain = \"one.pem\", key = \"one.key\" }, { chain = \"two.pem\", key = \"two.key\" }]\n";
    let application = "hosts = [\"one.example\", \"alias.example\"]\n\
                       [application.other]\nhosts = \"two.example\"\nservers = []\n";
    let tls = Tls { bed: Bed::in_directory(directory, "", listener, application) };
    let mut client = tls.client(&client_config(&tls, &[]), "one.example");
    for (host, status) in
        [("one.example", 200), ("two.example", 421), ("alias.example", 200), ("nobody.example", 421)]
    {
        let request = format!("GET / HTTP/1.1\r\nhost: {host}\r\n\r\n");
        let response = crate::support::exchange(&mut client, &request);
        assert_eq!(response.status, status, "{host}");
        let reason = (status == 421).then_some("misdirected");
        assert_eq!(response.field("tidegate-reason"), reason, "{host}");
    }
    // Opened for the other application, it is that one's.
    let mut client = tls.client(&client_config(&tls, &[]), "two.example");
    let response = crate::support::exchange(&mut client, "GET / HTTP/1.1\r\nhost: two.example\r\n\r\n");
    assert_eq!((response.status, response.field("tidegate-reason")), (503, Some("no_server")));
    // A route leads there from the first one's connection, and none from a host of the other.
    tls.bed
        .shared
        .edit(|settings| {
            let path = PathSpec::Prefix("/two".to_owned());
            settings.routes =
                vec![RouteSpec { paths: vec![path], verdict: "other".to_owned(), ..RouteSpec::default() }];
        })
        .unwrap();
    let mut client = tls.client(&client_config(&tls, &[]), "one.example");
    for (host, path, status) in
        [("one.example", "/two/x", 503), ("one.example", "/one", 200), ("two.example", "/two/x", 421)]
    {
        let request = format!("GET {path} HTTP/1.1\r\nhost: {host}\r\n\r\n");
        assert_eq!(crate::support::exchange(&mut client, &request).status, status, "{host}{path}");
    }
    // A name that no application serves ends at the hello.
    let mut client = tls.client(&client_config(&tls, &[]), "nobody.example");
    assert!(client.flush().unwrap_err().to_string().contains("UnrecognisedName"));
}
