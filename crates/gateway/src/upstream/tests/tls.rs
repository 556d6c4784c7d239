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
        let mut params = CertificateParams::new(vec![name.to_owned()]).expect("parameters");
        if expired {
            params.not_before = rcgen::date_time_ymd(2000, 1, 1);
            params.not_after = rcgen::date_time_ymd(2001, 1, 1);
        }
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        (certificate.pem(), key.serialize_pem())
    }

    fn acceptor(&self, name: &str, expired: bool, alpn: &[&[u8]], wants_client: bool) -> TlsAcceptor {
        let (chain, key) = self.issue(name, expired);
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
) -> (Bench, Result<Response<UpstreamBody>, SendError>, Option<TlsStream<TcpStream>>) {
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
