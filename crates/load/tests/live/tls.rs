//! TLS versions, ALPN, trust, and handshakes counted by what was negotiated.

use std::time::Duration;

use tempfile::TempDir;
use tidegate_load::{
    ErrorKind, Plan, Protocol, Report, Signatures, TlsPlan, TlsVersions,
    origin::{Origin, Settings},
    run_blocking,
};

use super::class;

/// An HTTPS origin and the directory with its self-signed certificate for `localhost`.
pub(super) fn secure_origin() -> (Origin, TempDir) {
    secure_origin_with(&rcgen::PKCS_ECDSA_P256_SHA256)
}

fn secure_origin_with(algorithm: &'static rcgen::SignatureAlgorithm) -> (Origin, TempDir) {
    let directory = tempfile::tempdir().expect("a directory");
    let signing_key = rcgen::KeyPair::generate_for(algorithm).expect("a key");
    let parameters = rcgen::CertificateParams::new(["localhost".to_owned()]).expect("a name");
    let cert = parameters.self_signed(&signing_key).expect("a certificate");
    let (chain, key) = (directory.path().join("chain.pem"), directory.path().join("key.pem"));
    std::fs::write(&chain, cert.pem()).expect("written");
    std::fs::write(&key, signing_key.serialize_pem()).expect("written");
    let origin =
        Origin::start(&Settings { tls: Some((chain, key)), ..Settings::default() }).expect("an origin");
    (origin, directory)
}

/// Ten requests one after another.
fn ten(plan: Plan) -> Report {
    let all = class("all", "closed:1").path("/bytes/10").requests_max(10);
    run_blocking(plan.class(all).duration(Duration::from_secs(60))).expect("a run")
}

fn insecure() -> TlsPlan {
    TlsPlan { insecure: true, ..TlsPlan::default() }
}

#[test]
fn new_connections_resume_unless_told_not_to() {
    let (origin, _directory) = secure_origin();
    for versions in [TlsVersions::Only12, TlsVersions::Only13] {
        let tls = TlsPlan { versions, ..insecure() };
        let report = ten(Plan::new(origin.url()).tls(tls.clone()).keep_alive(false));
        let connections = &report.connections;
        assert_eq!((report.total.good, connections.opened_http1), (10, 10), "{report}");
        assert_eq!((connections.tls_full, connections.tls_resumed), (1, 9), "{versions:?}: {report}");
        let by_version = (connections.tls12, connections.tls13);
        assert_eq!(by_version, if versions == TlsVersions::Only12 { (10, 0) } else { (0, 10) });

        let report = ten(Plan::new(origin.url()).tls(TlsPlan { resume: false, ..tls }).keep_alive(false));
        assert_eq!((report.connections.tls_full, report.connections.tls_resumed), (10, 0), "{versions:?}");
    }
}

#[test]
fn alpn_chooses_among_what_is_offered() {
    let (origin, _directory) = secure_origin();
    for (protocol, opened) in [(Protocol::Http1, (1, 0)), (Protocol::Http2, (0, 1)), (Protocol::Auto, (0, 1))]
    {
        let report = ten(Plan::new(origin.url()).tls(insecure()).protocol(protocol));
        assert_eq!(report.total.good, 10, "{report}");
        assert_eq!(
            (report.connections.opened_http1, report.connections.opened_http2),
            opened,
            "{protocol:?}"
        );
    }
}

#[test]
fn trust_is_checked_against_the_given_authority_and_name() {
    let (origin, directory) = secure_origin();
    let ca = Some(directory.path().join("chain.pem"));
    let localhost = Some("localhost".to_owned());
    let right = TlsPlan { ca: ca.clone(), server_name: localhost.clone(), ..TlsPlan::default() };
    assert_eq!(ten(Plan::new(origin.url()).tls(right)).total.good, 10);

    let (_other, other_directory) = secure_origin();
    let wrong_name = TlsPlan { ca, server_name: Some("elsewhere".to_owned()), ..TlsPlan::default() };
    let stranger = TlsPlan {
        ca: Some(other_directory.path().join("chain.pem")),
        server_name: localhost,
        ..TlsPlan::default()
    };
    for tls in [wrong_name, stranger] {
        let report = ten(Plan::new(origin.url()).tls(tls));
        assert_eq!(report.total.errors.get(&ErrorKind::Tls), Some(&10), "{report}");
        assert!(report.to_string().contains("TLS fault: invalid peer certificate"), "{report}");
    }
}

#[test]
fn a_share_of_the_connections_resumes() {
    let (origin, _directory) = secure_origin();
    for versions in [TlsVersions::Only12, TlsVersions::Only13] {
        let tls = TlsPlan { versions, resume_share: 0.5, ..insecure() };
        let all = class("all", "closed:1").path("/bytes/10").requests_max(60);
        let plan = Plan::new(origin.url()).tls(tls).keep_alive(false).class(all);
        let report = run_blocking(plan.duration(Duration::from_secs(60))).expect("a run");
        let connections = &report.connections;
        assert_eq!(connections.tls_full + connections.tls_resumed, 60, "{report}");
        // 29.5 expected, standard deviation 3.8; the seed is the same each time.
        assert!((15..=44).contains(&connections.tls_resumed), "{versions:?}: {report}");
    }
}

#[test]
fn a_connection_is_replaced_after_so_many_requests() {
    let (origin, _directory) = secure_origin();
    for protocol in [Protocol::Http1, Protocol::Http2] {
        let mut plan = Plan::new(origin.url()).tls(insecure()).protocol(protocol);
        plan.requests_per_connection = Some(4);
        let report = ten(plan);
        let connections = &report.connections;
        assert_eq!(connections.opened_http1 + connections.opened_http2, 3, "{protocol:?}: {report}");
        assert_eq!((connections.tls_full, connections.tls_resumed), (1, 2), "{protocol:?}: {report}");
    }
}

#[test]
fn signatures_are_those_asked_for() {
    let (ecdsa, _one) = secure_origin();
    let (rsa, _other) = secure_origin_with(&rcgen::PKCS_RSA_SHA256);
    for versions in [TlsVersions::Only12, TlsVersions::Only13] {
        for (signatures, by_ecdsa, by_rsa) in
            [(Signatures::Any, 10, 10), (Signatures::Ecdsa, 10, 0), (Signatures::Rsa, 0, 10)]
        {
            let good = |origin: &Origin| {
                let tls = TlsPlan { versions, signatures, ..insecure() };
                ten(Plan::new(origin.url()).tls(tls)).total.good
            };
            assert_eq!((good(&ecdsa), good(&rsa)), (by_ecdsa, by_rsa), "{versions:?} {signatures:?}");
        }
    }
}
