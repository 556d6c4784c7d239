//! TLS towards servers: who is believed, what is shown, and files that change.

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::{RootCertStore, ServerConfig, server::WebPkiClientVerifier};
use rustls_pki_types::{PrivateKeyDer, pem::PemObject};
use tempfile::TempDir;
use tidegate_config::{Certificate, UpstreamProtocol, UpstreamTls};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

use super::*;

/// A certificate authority and a directory for its files.
struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    directory: TempDir,
}

impl Authority {
    fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("parameters");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        let key = KeyPair::generate().expect("a key");
        let issuer = CertifiedIssuer::self_signed(params, key).expect("a certificate");
        let directory = tempfile::tempdir().expect("a directory");
        std::fs::write(directory.path().join("ca.pem"), issuer.pem()).expect("to be written");
        Self { issuer, directory }
    }

    fn issue(&self, name: &str, expired: bool) -> (String, String) {
        let params = params(name, expired);
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        (certificate.pem(), key.serialize_pem())
    }

    fn acceptor(&self, name: &str, expired: bool, alpn: &[&[u8]], wants_client: bool) -> TlsAcceptor {
        self.acceptor_with(self.issue(name, expired), alpn, wants_client)
    }

    /// Shows that certificate.
    fn acceptor_with(
        &self,
        (chain, key): (String, String),
        alpn: &[&[u8]],
        wants_client: bool,
    ) -> TlsAcceptor {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .expect("versions");
        let builder = if wants_client {
            let mut roots = RootCertStore::empty();
            roots.add(self.issuer.der().clone()).expect("an authority");
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                .build()
                .expect("a verifier");
            builder.with_client_cert_verifier(verifier)
        } else {
            builder.with_no_client_auth()
        };
        let chain = rustls_pki_types::CertificateDer::pem_slice_iter(chain.as_bytes())
            .collect::<Result<Vec<_>, _>>()
            .expect("a chain");
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).expect("a key");
        let mut config = builder.with_single_cert(chain, key).expect("a certificate");
        config.alpn_protocols = alpn.iter().map(|protocol| protocol.to_vec()).collect();
        TlsAcceptor::from(Arc::new(config))
    }

    fn settings(&self) -> UpstreamTls {
        UpstreamTls {
            server_name: Some("app.test".to_owned()),
            ca: Some(self.directory.path().join("ca.pem")),
            certificate: None,
            insecure: false,
        }
    }
}

fn params(name: &str, expired: bool) -> CertificateParams {
    let mut params = CertificateParams::new(vec![name.to_owned()]).expect("parameters");
    if expired {
        params.not_before = rcgen::date_time_ymd(2000, 1, 1);
        params.not_after = rcgen::date_time_ymd(2001, 1, 1);
    }
    params
}

fn speaks_tls(app: &mut Application, tls: UpstreamTls) {
    app.upstream.tls = Some(tls);
}

async fn serve(raw: &Raw, acceptor: &TlsAcceptor) -> Option<TlsStream<TcpStream>> {
    let peer = raw.accept().await;
    let mut stream = acceptor.accept(peer.stream).await.ok()?;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if stream.read_buf(&mut head).await.ok()? == 0 {
            return None;
        }
    }
    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nsecret").await.ok()?;
    Some(stream)
}

/// One request to a server with such a certificate, by such settings.
async fn once(
    acceptor: &TlsAcceptor,
    tls: UpstreamTls,
) -> (Bench, Result<Response<UpstreamBody>, Box<SendError>>, Option<TlsStream<TcpStream>>) {
    let raw = Raw::bind().await;
    let bench = Bench::new(&[raw.address()], |app| speaks_tls(app, tls));
    let (sent, served) = tokio::join!(bench.get("/"), serve(&raw, acceptor));
    (bench, sent, served)
}

#[test]
fn a_server_whose_certificate_our_authority_signed_is_believed() {
    run(async {
        let authority = Authority::new("ours");
        let acceptor = authority.acceptor("app.test", false, &[], false);
        let (_, sent, served) = once(&acceptor, authority.settings()).await;
        assert_eq!(text(sent.expect("a head").into_body()).await.expect("a body"), "secret");
        let served = served.expect("a connection");
        assert_eq!(served.get_ref().1.server_name(), Some("app.test"));
    });
}

/// A server whose certificate is signed by itself and an authority's, as `openssl req -x509` makes them, and
/// settings that name it.
fn signed_by_itself(directory: &Authority, name: &str, expired: bool) -> (TlsAcceptor, UpstreamTls) {
    let mut params = params(name, expired);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().expect("a key");
    let certificate = params.self_signed(&key).expect("a certificate");
    let ca = directory.directory.path().join("itself.pem");
    std::fs::write(&ca, certificate.pem()).expect("to be written");
    let acceptor = directory.acceptor_with((certificate.pem(), key.serialize_pem()), &[], false);
    (acceptor, UpstreamTls { ca: Some(ca), ..directory.settings() })
}

#[test]
fn a_server_whose_own_certificate_we_were_given_is_believed_by_its_name_and_in_its_time() {
    run(async {
        let authority = Authority::new("ours");
        let (impostor, _) = signed_by_itself(&authority, "app.test", false);
        for (name, expired, says) in [
            ("other.test", false, "not valid for name"),
            ("app.test", true, "expired"),
            ("app.test", false, ""),
        ] {
            let (acceptor, tls) = signed_by_itself(&authority, name, expired);
            let (_, sent, _) = once(&acceptor, tls.clone()).await;
            if says.is_empty() {
                assert!(sent.is_ok(), "{sent:?}");
            } else {
                let error = sent.expect_err(says);
                assert!(error.message.contains(says), "{}", error.message);
            }
            let (_, sent, _) = once(&impostor, tls).await;
            let error = sent.expect_err("another's");
            assert_eq!(error.kind, UpstreamError::Tls);
            assert!(error.message.contains("upstream.tls.ca"), "{}", error.message);
        }
        // One that an authority signed which nobody named.
        let issued = authority.issue("app.test", false);
        let ca = authority.directory.path().join("issued.pem");
        std::fs::write(&ca, &issued.0).expect("to be written");
        let tls = UpstreamTls { ca: Some(ca), ..authority.settings() };
        let (_, sent, _) = once(&authority.acceptor_with(issued, &[], false), tls).await;
        assert!(sent.is_ok(), "{sent:?}");
    });
}

#[test]
fn wrong_names_expired_certificates_and_strange_authorities_are_refused() {
    run(async {
        let (authority, stranger) = (Authority::new("ours"), Authority::new("stranger"));
        for (acceptor, says) in [
            (authority.acceptor("other.test", false, &[], false), "not valid for name"),
            (authority.acceptor("app.test", true, &[], false), "expired"),
            (stranger.acceptor("app.test", false, &[], false), "UnknownIssuer"),
        ] {
            let (bench, sent, served) = once(&acceptor, authority.settings()).await;
            let error = sent.expect_err(says);
            assert_eq!(error.kind, UpstreamError::Tls);
            assert!(error.message.contains(says), "{}", error.message);
            assert!(error.request.is_some(), "nothing of it has gone out");
            assert!(served.is_none());
            assert_eq!(bench.errors(UpstreamError::Tls), 1);
            // Unless told to accept anything.
            let (_, sent, _) = once(&acceptor, UpstreamTls { insecure: true, ..authority.settings() }).await;
            assert!(sent.is_ok(), "{says}: {sent:?}");
        }
    });
}

#[test]
fn a_server_that_does_not_speak_tls_or_never_ends_the_handshake_fails_as_that() {
    run(async {
        let authority = Authority::new("ours");
        let raw = Raw::bind().await;
        let bench = Bench::new(&[raw.address()], |app| {
            speaks_tls(app, authority.settings());
            set(&mut app.values, "upstream.connect.timeout", ms(2000));
        });
        let server = async {
            let mut peer = raw.accept().await;
            peer.write("HTTP/1.1 400 Bad Request\r\n\r\n").await;
            peer
        };
        let (sent, _peer) = tokio::join!(bench.get("/"), server);
        assert_eq!(sent.expect_err("no TLS").kind, UpstreamError::Tls);
        let (sent, _peer) = tokio::join!(bench.get("/"), raw.accept());
        assert_eq!(sent.expect_err("no answer").kind, UpstreamError::ConnectTimeout);
    });
}

#[test]
fn our_certificate_is_shown_and_its_files_are_read_again_when_they_change() {
    run(async {
        let authority = Authority::new("ours");
        let acceptor = authority.acceptor("app.test", false, &[], true);
        let (sent, served) = {
            let (_, sent, served) = once(&acceptor, authority.settings()).await;
            (sent, served)
        };
        assert!(served.is_none(), "no certificate, no service");
        // Under TLS 1.3 the refusal arrives when we already believe to be connected.
        assert!(matches!(sent.expect_err("refused").kind, UpstreamError::Tls | UpstreamError::Reset));

        let path = |name: &str| authority.directory.path().join(name);
        let write = |name: &str| {
            let (chain, key) = authority.issue(name, false);
            std::fs::write(path("client.pem"), chain).expect("to be written");
            std::fs::write(path("client.key"), key).expect("to be written");
        };
        write("gateway-one.test");
        let certificate = Certificate { chain: path("client.pem"), key: path("client.key") };
        let tls = UpstreamTls { certificate: Some(certificate), ..authority.settings() };
        let raw = Raw::bind().await;
        // No connection is kept, so that each request shakes hands.
        let bench = Bench::new(&[raw.address()], |app| {
            speaks_tls(app, tls);
            set(&mut app.values, "upstream.keep_alive", Value::Choice("never"));
        });
        let shown = async || {
            let (sent, served) = tokio::join!(bench.get("/"), serve(&raw, &acceptor));
            text(sent.expect("a head").into_body()).await.expect("a body");
            let served = served.expect("a connection");
            served.get_ref().1.peer_certificates().expect("a certificate")[0].to_vec()
        };
        let contains =
            |leaf: &[u8], name: &str| leaf.windows(name.len()).any(|window| window == name.as_bytes());
        assert!(contains(&shown().await, "gateway-one.test"));
        write("gateway-the-second.test");
        assert!(contains(&shown().await, "gateway-one.test"), "not looked at for every connection");
        bench.reload();
        assert!(contains(&shown().await, "gateway-the-second.test"));
        // A file that turns bad leaves what was read before in use.
        std::fs::write(path("client.key"), "nonsense").expect("to be written");
        bench.reload();
        assert!(contains(&shown().await, "gateway-the-second.test"));
    });
}

#[test]
fn an_upgrade_goes_by_http1_where_the_server_would_choose_http2() {
    run(async {
        let authority = Authority::new("ours");
        let upgrade = || {
            let request = Request::get("/").header("host", "app.test").header("connection", "upgrade");
            request.header("upgrade", "websocket").body(RequestBody::Empty).expect("a request")
        };
        let both = authority.acceptor("app.test", false, &[b"h2", b"http/1.1"], false);
        let raw = Raw::bind().await;
        let bench = Bench::new(&[raw.address()], |app| speaks_tls(app, authority.settings()));
        let (sent, served) = tokio::join!(bench.send(upgrade()), serve(&raw, &both));
        assert_eq!(sent.expect("a head").version(), http::Version::HTTP_11);
        assert_eq!(served.expect("a connection").get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));

        // One that speaks HTTP/2 alone is asked all the same.
        let two = authority.acceptor("app.test", false, &[b"h2"], false);
        let raw = Raw::bind().await;
        let bench = Bench::new(&[raw.address()], |app| speaks_tls(app, authority.settings()));
        let server = async {
            assert!(two.accept(raw.accept().await.stream).await.is_err(), "nothing in common");
            let stream = two.accept(raw.accept().await.stream).await.expect("a handshake");
            super::http2::answer_all(stream, "two").await;
        };
        let client = async {
            let response = bench.send(upgrade()).await.expect("a head");
            assert_eq!(text(response.into_body()).await.expect("a body"), "two");
            assert_eq!(bench.errors(UpstreamError::Tls), 0);
        };
        tokio::select! { () = client => {}, () = server => panic!("closed") };
    });
}

#[test]
fn a_request_that_a_server_takes_over_http1_only_goes_by_that() {
    run(async {
        let authority = Authority::new("ours");
        let both = authority.acceptor("app.test", false, &[b"h2", b"http/1.1"], false);
        let raw = Raw::bind().await;
        let bench = Bench::new(&[raw.address()], |app| speaks_tls(app, authority.settings()));
        let (client, body) = stream();
        client.send(Ok("begun, ".into())).expect("taken");
        let server = async {
            let stream = both.accept(raw.accept().await.stream).await.expect("a handshake");
            let refusing = super::http2::refuse_all(stream, h2::Reason::HTTP_1_1_REQUIRED);
            tokio::task::spawn_local(refusing);
            let mut stream = both.accept(raw.accept().await.stream).await.expect("a handshake");
            assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));
            let mut request = Vec::new();
            while !request.ends_with(b"ended\r\n0\r\n\r\n") {
                assert_ne!(stream.read_buf(&mut request).await.expect("more to read"), 0);
            }
            assert!(request.windows(9).any(|bytes| bytes == b"begun, \r\n"));
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\none").await.expect("to be taken");
            // And so does the next one, on the same connection.
            request.clear();
            while !request.ends_with(b"\r\n\r\n") {
                assert_ne!(stream.read_buf(&mut request).await.expect("more to read"), 0);
            }
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\ntwo").await.expect("to be taken");
            std::future::pending::<()>().await;
        };
        let asking = async {
            let upload = async {
                client.send(Ok("ended".into())).expect("taken");
                drop(client);
            };
            let post = bench.send(request(Method::POST, "/", body));
            let response = tokio::join!(post, upload).0.expect("a head");
            assert_eq!(text(response.into_body()).await.expect("a body"), "one");
            let response = bench.get("/").await.expect("a head");
            assert_eq!(text(response.into_body()).await.expect("a body"), "two");
            assert_eq!(bench.count(Meter::UPSTREAM_ERRORS).iter().sum::<u64>(), 0);
        };
        tokio::select! { () = asking => {}, () = server => panic!("closed") };
    });
}

#[test]
fn a_server_that_wants_http1_and_does_not_speak_it_fails() {
    run(async {
        let authority = Authority::new("ours");
        let two = authority.acceptor("app.test", false, &[b"h2"], false);
        let raw = Raw::bind().await;
        let bench = Bench::new(&[raw.address()], |app| speaks_tls(app, authority.settings()));
        let server = async {
            loop {
                if let Ok(stream) = two.accept(raw.accept().await.stream).await {
                    let refusing = super::http2::refuse_all(stream, h2::Reason::HTTP_1_1_REQUIRED);
                    tokio::task::spawn_local(refusing);
                }
            }
        };
        let client = async { bench.get("/").await.expect_err("no protocol in common").kind };
        let kind =
            tokio::select! { kind = client => kind, () = server => unreachable!("it serves for ever") };
        assert_eq!(kind, UpstreamError::Reset);
    });
}

#[test]
fn files_that_cannot_be_read_are_named() {
    run(async {
        let authority = Authority::new("ours");
        let acceptor = authority.acceptor("app.test", false, &[], false);
        let missing = authority.directory.path().join("missing.pem");
        let (_, sent, _) =
            once(&acceptor, UpstreamTls { ca: Some(missing.clone()), ..authority.settings() }).await;
        let error = sent.expect_err("no authority");
        assert_eq!(error.kind, UpstreamError::Tls);
        assert!(error.message.contains(&missing.display().to_string()), "{}", error.message);
    });
}

#[test]
fn alpn_chooses_the_version_and_a_server_without_http2_is_refused_where_that_is_wanted() {
    run(async {
        let authority = Authority::new("ours");
        let both = authority.acceptor("app.test", false, &[b"h2", b"http/1.1"], false);
        let raw = Raw::bind().await;
        let bench = Bench::new(&[raw.address()], |app| speaks_tls(app, authority.settings()));
        let server = async {
            let stream = both.accept(raw.accept().await.stream).await.expect("a handshake");
            assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
            super::http2::answer_all(stream, "two").await;
        };
        let client = async {
            let response = bench.get("/").await.expect("a head");
            assert_eq!(response.version(), http::Version::HTTP_2);
            assert_eq!(text(response.into_body()).await.expect("a body"), "two");
        };
        tokio::select! { () = client => {}, () = server => panic!("closed") };

        let one = authority.acceptor("app.test", false, &[b"http/1.1"], false);
        let (_, sent, _) = once(&one, authority.settings()).await;
        assert_eq!(sent.expect("a head").version(), http::Version::HTTP_11);
        // A server without ALPN, asked for HTTP/2.
        let none = authority.acceptor("app.test", false, &[], false);
        let bench = Bench::new(&[raw.address()], |app| {
            speaks_tls(app, authority.settings());
            app.upstream.protocol = UpstreamProtocol::Http2;
        });
        let (sent, _) = tokio::join!(bench.get("/"), serve(&raw, &none));
        let error = sent.expect_err("no HTTP/2");
        assert_eq!(error.kind, UpstreamError::Tls);
        assert!(error.message.contains("HTTP/2"), "{}", error.message);
    });
}
