//! TLS from clients: certificates by name, reloading them, resumption, client certificates.

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

use tidegate_config::{AdminTls, Certificate, Settings};
use tidegate_control::{
    classify::{PathSpec, RouteSpec},
    meters::Meter,
};

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

    fn path(&self) -> &Path {
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
fn serves(tls: &Tls, name: &str, file: &str) -> bool {
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
fn new_certificates_are_served_and_bad_ones_are_not() {
    let tls = Tls::new("", "");
    let old = fs::read(tls.path().join("one.pem")).unwrap();
    let mut open = tls.client(&client_config(&tls, &[]), "one.example");
    assert_eq!(get(&mut open, "/").status, 200);

    write_certificate(tls.path(), "one", &["one.example"]);
    assert!(!serves(&tls, "one.example", "one.pem"));
    assert!(tls.bed.running.reload_certificates().is_empty());
    assert!(serves(&tls, "one.example", "one.pem"));
    assert_eq!(get(&mut open, "/").status, 200);

    let good = fs::read(tls.path().join("one.pem")).unwrap();
    for (file, content, complaint) in [
        ("one.pem", &b"nonsense"[..], "no certificate in PEM"),
        (
            "one.pem",
            b"-----BEGIN CERTIFICATE-----\nbm9uc2Vuc2U=\n-----END CERTIFICATE-----\n",
            "no certificate of TLS",
        ),
        ("one.pem", &old, "not that of the certificate"),
        ("one.key", b"", "no private key in PEM"),
    ] {
        let before = fs::read(tls.path().join(file)).unwrap();
        fs::write(tls.path().join(file), content).unwrap();
        let errors = tls.bed.running.reload_certificates();
        assert_eq!(errors.len(), 1, "{file}");
        let message = errors[0].to_string();
        assert!(message.contains(complaint), "{message}");
        assert!(message.contains(file) && message.contains("https"), "{message}");
        fs::write(tls.path().join(file), before).unwrap();
        // The old one stays.
        fs::write(tls.path().join("one.pem"), &good).unwrap();
        assert!(serves(&tls, "one.example", "one.pem"));
    }
}

#[test]
fn what_is_broken_keeps_its_old_state_and_holds_up_the_renewal_of_nothing_else() {
    let listener = "tls.client_certificates = \"optional\"\ntls.client_ca = \"client.pem\"\n";
    let tls = Tls::new("", listener);
    write_certificate(tls.path(), "two", &["two.example"]);
    for file in ["one.key", "client.pem"] {
        fs::write(tls.path().join(file), b"half").unwrap();
    }
    assert!(!serves(&tls, "two.example", "two.pem"));
    let errors: Vec<_> = tls.bed.running.reload_certificates().iter().map(ToString::to_string).collect();
    assert!(
        errors.len() == 2 && errors[0].contains("one.key") && errors[1].contains("client.pem"),
        "{errors:?}"
    );
    for (name, file) in [("one.example", "one.pem"), ("two.example", "two.pem")] {
        assert!(serves(&tls, name, file), "{name}");
    }
    // A name that the new certificate no longer has goes with the old one.
    assert!(!serves(&tls, "any.wild.example", "two.pem"));
}

/// Settings with an application whose servers speak TLS, and files `ca.pem`, `gateway.pem` and `gateway.key` for it.
fn speaks_tls_to_servers() -> Tls {
    let directory = tempfile::tempdir().unwrap();
    write_certificate(directory.path(), "one", &["one.example"]);
    write_certificate(directory.path(), "ca", &["ca.example"]);
    write_certificate(directory.path(), "gateway", &["gateway.example"]);
    let application = "[application.other]\nhosts = \"other.example\"\nservers = \"https://127.0.0.1:1\"\n\
                       upstream.tls.ca = \"ca.pem\"\n\
                       upstream.tls.certificate = { chain = \"gateway.pem\", key = \"gateway.key\" }\n";
    Tls { bed: Bed::in_directory(directory, "", crate::support::PLAIN, application) }
}

#[test]
fn what_is_wrong_with_certificates_towards_servers_is_said_before_a_request_finds_it() {
    let tls = speaks_tls_to_servers();
    let settings = tls.bed.shared.snapshot().settings.clone();
    assert!(tidegate_gateway::check_certificates(&settings).is_ok());
    assert!(tls.bed.running.reload_certificates().is_empty());
    let one_key = fs::read(tls.path().join("one.key")).unwrap();
    for (file, content, complaint) in [
        ("ca.pem", &b""[..], "no certificate"),
        ("gateway.pem", b"-----BEGIN CERTIFICATE-----\nbm9u", "gateway.pem"),
        ("gateway.key", &one_key, "not that of the certificate"),
    ] {
        let before = fs::read(tls.path().join(file)).unwrap();
        fs::write(tls.path().join(file), content).unwrap();
        let checked = tidegate_gateway::check_certificates(&settings).unwrap_err();
        let reloaded = tls.bed.running.reload_certificates();
        let said: Vec<_> =
            checked.iter().map(ToString::to_string).chain(reloaded.iter().map(ToString::to_string)).collect();
        assert_eq!(said.len(), 2, "{said:?}");
        for said in said {
            assert!(
                said.contains("application other") && said.contains(file) && said.contains(complaint),
                "{said}"
            );
        }
        fs::write(tls.path().join(file), before).unwrap();
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
fn a_check_says_what_is_wrong_with_a_listener_once_and_which_certificate_is_served_to_nobody() {
    let directory = tempfile::tempdir().unwrap();
    for (name, names) in
        [("one", "one.example"), ("two", "192.0.2.1"), ("three", "192.0.2.2"), ("client", "c")]
    {
        write_certificate(directory.path(), name, &[names]);
    }
    let pairs = |names: [&str; 2]| {
        let pair = |name| format!("{{ chain = \"{name}.pem\", key = \"{name}.key\" }}");
        format!(
            "[[listener]]\nname = \"https\"\naddress = \"127.0.0.1:0\"\ntls.certificates = [{}, {}]\n\
             tls.client_certificates = \"optional\"\ntls.client_ca = \"client.pem\"\n",
            pair(names[0]),
            pair(names[1])
        )
    };
    let bed = Bed::in_directory(directory, "", &pairs(["two", "one"]), "");
    let check = || tidegate_gateway::check_certificates(&bed.shared.snapshot().settings);
    // The first serves who asks for no name.
    assert!(check().is_ok());
    fs::write(bed.directory.path().join("client.pem"), b"nonsense").unwrap();
    let faults = check().unwrap_err();
    assert!(faults.len() == 1 && faults[0].to_string().contains("client.pem"), "{faults:?}");
    bed.publish(&pairs(["two", "three"]));
    let faults = check().unwrap_err();
    assert!(faults.len() == 2 && faults[0].to_string().contains("three.pem"), "{faults:?}");
}

#[test]
fn a_check_says_what_is_wrong_with_each_certificate() {
    let tls = Tls::new("", "");
    let settings = tls.bed.shared.snapshot().settings.clone();
    assert!(tidegate_gateway::check_certificates(&settings).is_ok());
    fs::write(tls.path().join("one.key"), b"").unwrap();
    fs::write(tls.path().join("two.pem"), b"nonsense").unwrap();
    let errors = tidegate_gateway::check_certificates(&settings).unwrap_err();
    let said: Vec<_> = errors.iter().map(ToString::to_string).collect();
    assert!(said.len() == 2 && said[0].contains("one.key") && said[1].contains("two.pem"), "{said:?}");
}

#[test]
fn a_certificate_that_clients_will_not_accept_now_is_told() {
    let tls = Tls::new("", "");
    let settings = tls.bed.shared.snapshot().settings.clone();
    assert!(tidegate_gateway::certificate_doubts(&settings).is_empty());
    let write = |file: &str, from: i32, to: i32| {
        let mut params = rcgen::CertificateParams::new(vec!["one.example".to_owned()]).unwrap();
        (params.not_before, params.not_after) =
            (rcgen::date_time_ymd(from, 1, 1), rcgen::date_time_ymd(to, 1, 1));
        let key = rcgen::KeyPair::generate().unwrap();
        fs::write(tls.path().join(file), params.self_signed(&key).unwrap().pem()).unwrap();
    };
    write("one.pem", 2019, 2020);
    write("two.pem", 3000, 3001);
    let said = tidegate_gateway::certificate_doubts(&settings);
    assert!(said.len() == 2, "{said:?}");
    assert!(said[0].contains("one.pem") && said[0].contains("expired on Wed, 01 Jan 2020"), "{said:?}");
    assert!(said[1].contains("two.pem") && said[1].contains("before Wed, 01 Jan 3000"), "{said:?}");
    // Nor of one that is in its time, but sent along with one that is not.
    write("new.pem", 2019, 3000);
    let mut chain = fs::read(tls.path().join("new.pem")).unwrap();
    chain.extend(fs::read(tls.path().join("one.pem")).unwrap());
    fs::write(tls.path().join("one.pem"), chain).unwrap();
    let said = tidegate_gateway::certificate_doubts(&settings);
    assert!(said[0].contains("a certificate of its chain has expired"), "{said:?}");
}

#[test]
fn a_meter_shows_how_long_the_first_certificate_lasts() {
    let tls = Tls::new("", "");
    let left = || {
        let host = tidegate_runtime::HostSample::default();
        let served = tls.bed.shared.served(&host);
        let is_it = |(meter, _): &&(Meter, u64)| *meter == Meter::CERTIFICATE_SECONDS_LEFT;
        served[0].levels.iter().find(is_it).map(|(_, seconds)| *seconds)
    };
    let write = |until: i32| {
        let mut params = rcgen::CertificateParams::new(vec!["two.example".to_owned()]).unwrap();
        params.not_after = rcgen::date_time_ymd(until, 1, 1);
        let key = rcgen::KeyPair::generate().unwrap();
        fs::write(tls.path().join("two.pem"), params.self_signed(&key).unwrap().pem()).unwrap();
        fs::write(tls.path().join("two.key"), key.serialize_pem()).unwrap();
        assert!(tls.bed.running.reload_certificates().is_empty());
    };
    const YEAR: u64 = 365 * 24 * 3600;
    assert!(left().unwrap() > 100 * YEAR);
    write(2500);
    assert!((300 * YEAR..500 * YEAR).contains(&left().unwrap()));
    write(2020);
    assert_eq!(left(), Some(0));
    // Metrics tell which one it is.
    let scrape = tidegate_runtime::Scrape::read(&tls.bed.shared);
    let samples = scrape.samples(Meter::CERTIFICATE_SECONDS_LEFT).map(|sample| {
        let tidegate_runtime::Reading::Level(seconds) = sample.value else { panic!("{sample:?}") };
        let labels: Vec<_> = sample.labels().map(|(name, value)| (name, value.to_owned())).collect();
        (labels, seconds > 0)
    });
    let of = |file: &str| vec![("file", tls.path().join(file).display().to_string())];
    assert_eq!(samples.collect::<Vec<_>>(), [(of("two.pem"), false), (of("one.pem"), true)]);
    // Of one that cannot be used, what was read before stays in force.
    fs::write(tls.path().join("two.pem"), "").unwrap();
    assert!(!tls.bed.running.reload_certificates().is_empty());
    assert_eq!(left(), Some(0));
    assert_eq!(Bed::plain("").shared.certificates(), []);
}

#[test]
fn the_admin_interfaces_certificate_counts_as_those_of_listeners() {
    let bed = Bed::plain("");
    let directory = tempfile::tempdir().unwrap();
    let files =
        Certificate { chain: directory.path().join("admin.pem"), key: directory.path().join("admin.key") };
    let mut params = rcgen::CertificateParams::new(vec!["admin.example".to_owned()]).unwrap();
    params.not_after = rcgen::date_time_ymd(2020, 1, 1);
    let made = params.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap();
    bed.running.set_admin_certificate(Some((files.clone(), vec![made.der().clone()])));
    let first = bed.shared.certificates().into_iter().next().unwrap();
    assert_eq!(first.at.as_nanos() / 1_000_000_000, 1_577_836_800);
    assert_eq!(first.file, files.chain.display().to_string());
    bed.running.set_admin_certificate(None);
    assert_eq!(bed.shared.certificates(), []);

    fs::write(&files.chain, made.pem()).unwrap();
    let mut settings = Settings::clone(&bed.shared.snapshot().settings);
    settings.admin_access.tls = Some(AdminTls { certificate: files, clients: None });
    let said = tidegate_gateway::certificate_doubts(&settings);
    assert!(said.len() == 1 && said[0].contains("admin.pem: the certificate has expired"), "{said:?}");
}

/// To which nobody writes.
#[test]
fn a_pipe_in_a_certificates_place_leaves_the_old_one_in_force() {
    let tls = Tls::new("", "");
    fs::copy(tls.path().join("one.pem"), tls.path().join("before.pem")).unwrap();
    let pipe = tls.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    fs::rename(pipe, tls.path().join("one.pem")).unwrap();
    let faults = tls.bed.running.reload_certificates();
    assert!(faults.len() == 1 && faults[0].to_string().contains("nobody has written"), "{faults:?}");
    fs::rename(tls.path().join("before.pem"), tls.path().join("one.pem")).unwrap();
    assert!(serves(&tls, "one.example", "one.pem"));
}

#[test]
fn a_byte_order_mark_hides_no_certificate() {
    let tls = Tls::new("", "tls.client_certificates = \"optional\"\ntls.client_ca = \"client.pem\"\n");
    for file in ["one.pem", "one.key", "client.pem"] {
        let mut marked = b"\xef\xbb\xbf".to_vec();
        marked.extend(fs::read(tls.path().join(file)).unwrap());
        fs::write(tls.path().join(file), marked).unwrap();
    }
    let settings = tls.bed.shared.snapshot().settings.clone();
    assert!(tidegate_gateway::check_certificates(&settings).is_ok());
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
