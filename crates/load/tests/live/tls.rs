//! TLS versions, ALPN, trust, and handshakes counted by what was negotiated.

use std::time::Duration;

use tempfile::TempDir;
use tidegate_load::{
    ErrorKind, Plan, Protocol, Report, TlsPlan, TlsVersions,
    origin::{Origin, Settings},
    run_blocking,
};

use super::class;

/// An HTTPS origin and the directory with its self-signed certificate for `localhost`.
fn secure_origin() -> (Origin, TempDir) {
    let directory = tempfile::tempdir().expect("a directory");
    let signed = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    let (chain, key) = (directory.path().join("chain.pem"), directory.path().join("key.pem"));
    std::fs::write(&chain, signed.cert.pem()).expect("written");
    std::fs::write(&key, signed.signing_key.serialize_pem()).expect("written");
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
    }
}
