//! Who may use the admin interface.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Arc,
    time::Duration,
};

use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject};

use crate::{
    Front, path,
    support::{client::Client, free_address, write_certificate, write_pair},
    tidegate,
};

const ADA: &str = "ada-0123456789abcdef0123456789abcdef";
const EVE: &str = "eve-0123456789abcdef0123456789abcdef";
const TOKENS: &str = "[[admin_token]]\nname = \"ada\"\nfile = \"ada.token\"\nrole = \"operator\"\n\
                      [[admin_token]]\nname = \"eve\"\nfile = \"eve.token\"\n";

fn ask(front: &Front, method: &str, path: &str, headers: &str, body: &str) -> (u16, String) {
    let mut client = Client::connect(front.admin).expect("connect");
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: {}\r\n{headers}content-type: application/json\r\ncontent-length: {}\r\n\
         connection: close\r\n\r\n{body}",
        front.admin,
        body.len()
    );
    client.send(request.as_bytes()).expect("send");
    let answer = client.response().expect("an answer");
    (answer.status, answer.text())
}

#[test]
fn tokens_are_asked_for_roles_are_held_and_secrets_are_not_told() {
    let front = Front::start(TOKENS, "", &[("ada.token", ADA), ("eve.token", EVE)]);
    let with = |token: &str| format!("authorization: Bearer {token}\r\n");
    for open in ["/healthz", "/readyz", "/"] {
        assert_eq!(ask(&front, "GET", open, "", "").0, 200, "{open}");
    }
    for guarded in ["/metrics", "/api/v1/overview", "/api/v1/events", "/api/v1/knobs", "/nothing"] {
        assert_eq!(ask(&front, "GET", guarded, "", "").0, 401, "{guarded}");
        assert_eq!(ask(&front, "GET", guarded, &with("guess"), "").0, 401, "{guarded}");
    }
    let (status, session) = ask(&front, "GET", "/api/v1/session", &with(EVE), "");
    assert_eq!((status, session.trim()), (200, r#"{"by":"token","role":"read","who":"eve"}"#));
    let change = r#"{"changes": {"app/in_flight.min": 2}, "who": "deploy"}"#;
    let (status, said) = ask(&front, "PATCH", "/api/v1/knobs", &with(EVE), change);
    assert!(status == 403 && said.contains("operator"), "{said}");
    for (method, path) in [("POST", "/api/v1/knobs/revert"), ("DELETE", "/api/v1/applications/app/servers/x")]
    {
        assert_eq!(ask(&front, method, path, &with(EVE), "{}").0, 403, "{path}");
    }
    assert_eq!(ask(&front, "PATCH", "/api/v1/knobs", &with(ADA), change).0, 200);
    let (_, record) = ask(&front, "GET", "/api/v1/knobs/changes", &with(EVE), "");
    assert!(record.contains("\"who\":\"ada (deploy)\""), "{record}");

    let token_file = front.gateway.directory.path().join("ada.token");
    let admin = front.admin.to_string();
    let (code, shown, said) =
        tidegate(&["get", "app/in_flight.min", "--admin", &admin, "--token-file", path(&token_file)]);
    assert_eq!((code, shown.trim()), (Some(0), "app/in_flight.min = 2  (configured: 1)"), "{said}");
    let (code, _, said) = tidegate(&["get", "--admin", &admin]);
    assert!(code == Some(2) && said.contains("--token-file"), "{said}");

    // A new token is taken up as soon as its file is there.
    let fresh = "new-0123456789abcdef0123456789abcdef";
    fs::write(front.gateway.directory.path().join("new"), fresh).expect("write a token");
    fs::rename(front.gateway.directory.path().join("new"), &token_file).expect("put it in its place");
    front.gateway.log.await_line("files changed", 1);
    let until = std::time::Instant::now() + Duration::from_secs(20);
    while ask(&front, "GET", "/api/v1/session", &with(fresh), "").0 != 200 {
        assert!(std::time::Instant::now() < until, "the new token is not taken up");
        // Refused tries are slowed down; there is no event for who has no token.
        std::thread::sleep(Duration::from_millis(200));
    }
    assert_eq!(
        ask(&front, "GET", "/api/v1/session", &with(ADA), "").0 / 100,
        4,
        "the old one is worth nothing"
    );

    let config = front.gateway.directory.path().join("tidegate.toml");
    let (code, printed, _) = tidegate(&["check", "--print", path(&config)]);
    assert_eq!(code, Some(0));
    let mut told = front.gateway.log.lines_with("");
    told.extend([printed, record]);
    for path in ["/api/v1/knobs", "/api/v1/overview", "/metrics", "/api/v1/archives", "/api/v1/knobs/changes"]
    {
        told.push(ask(&front, "GET", path, &with(EVE), "").1);
    }
    for secret in [ADA, EVE, fresh] {
        assert!(told.iter().all(|text| !text.contains(secret)), "a token was told");
    }
    front.gateway.stop_sound();
}

#[test]
fn events_end_for_who_is_not_known_any_more_and_for_nobody_else() {
    let front = Front::start(TOKENS, "", &[("ada.token", ADA), ("eve.token", EVE)]);
    let follow = |token: &str| {
        let stream = TcpStream::connect(front.admin).expect("connect");
        stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a timeout");
        let asked = format!(
            "GET /api/v1/events?kinds=knobs HTTP/1.0\r\nhost: {}\r\nauthorization: Bearer {token}\r\n\r\n",
            front.admin
        );
        (&stream).write_all(asked.as_bytes()).expect("ask");
        let mut lines = BufReader::new(stream).lines().map(|line| line.expect("a line in time"));
        assert!(lines.any(|line| line.starts_with("retry:")), "it follows");
        lines
    };
    let (mut ada, eve) = (follow(ADA), follow(EVE));
    let directory = front.gateway.directory.path();
    fs::write(directory.join("new"), "new-0123456789abcdef0123456789abcdef").expect("write a token");
    fs::rename(directory.join("new"), directory.join("eve.token")).expect("put it in its place");
    // Every fifteen seconds there would be a line, and one more.
    let last: Vec<String> = eve.take(6).collect();
    assert!(last.len() < 6, "it ends: {last:?}");
    assert!(last.iter().any(|line| line == "event: withdrawn"), "and says why: {last:?}");
    let change = r#"{"changes": {"app/in_flight.min": 2}}"#;
    let with = format!("authorization: Bearer {ADA}\r\n");
    assert_eq!(ask(&front, "PATCH", "/api/v1/knobs", &with, change).0, 200);
    assert!(ada.any(|line| line.contains("in_flight.min")), "who is known hears on");
    front.gateway.stop_sound();
}

/// A session that is resumed would be believed for a certificate that has expired since.
#[test]
fn who_is_known_by_a_certificate_shows_it_on_each_connection() {
    let directory = tempfile::tempdir().expect("a directory for the test");
    let (chain, key) = write_certificate(directory.path());
    let known = directory.path().join("known");
    fs::create_dir(&known).expect("a directory");
    let (client_chain, client_key) = write_certificate(&known);
    let top = format!(
        "admin_tls.certificate = {{ chain = {chain:?}, key = {key:?} }}\nadmin_tls.client_ca = {client_chain:?}\n\
         admin_tls.client_role = \"read\"\n"
    );
    let front = Front::start(&top, "", &[]);
    front.gateway.log.await_line("API on https://", 1);
    let read = |file: &Path| CertificateDer::from_pem_file(file).expect("a certificate");
    for version in [&rustls::version::TLS13, &rustls::version::TLS12] {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(read(&chain)).expect("a root");
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[version])
            .expect("a version of TLS")
            .with_root_certificates(roots)
            .with_client_auth_cert(
                vec![read(&client_chain)],
                PrivateKeyDer::from_pem_file(&client_key).expect("a key"),
            )
            .expect("a certificate and its key");
        let config = Arc::new(config);
        for _ in 0..2 {
            let name = ServerName::try_from("localhost").expect("a name");
            let session = rustls::ClientConnection::new(Arc::clone(&config), name).expect("a TLS client");
            let stream = TcpStream::connect(front.admin).expect("connect");
            let mut client = rustls::StreamOwned::new(session, stream);
            let request =
                "GET /api/v1/knobs?path=app HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
            client.write_all(request.as_bytes()).expect("ask");
            let mut answer = String::new();
            client.read_to_string(&mut answer).expect("an answer");
            assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
            assert_eq!(client.conn.handshake_kind(), Some(rustls::HandshakeKind::Full));
        }
    }
    front.gateway.stop_sound();
}

#[test]
fn over_tls_a_certificate_is_as_good_as_a_token() {
    let directory = tempfile::tempdir().expect("a directory for the test");
    let (chain, key) = write_authority(directory.path());
    let known = directory.path().join("known");
    fs::create_dir(&known).expect("a directory");
    let (client_chain, client_key) = write_certificate(&known);
    // As some editors write them.
    for file in [&chain, &key, &client_chain, &client_key] {
        let marked = format!("\u{feff}{}", fs::read_to_string(file).expect("PEM"));
        fs::write(file, marked).expect("write PEM");
    }
    let top = format!(
        "admin_tls.certificate = {{ chain = {chain:?}, key = {key:?} }}\nadmin_tls.client_ca = {client_chain:?}\n\
         admin_tls.client_role = \"read\"\n{TOKENS}"
    );
    let front = Front::start(&top, "", &[("ada.token", ADA), ("eve.token", EVE)]);
    front.gateway.log.await_line("API on https://", 1);
    let admin = format!("https://{}", front.admin);
    let base = ["--admin", &admin, "--admin-ca", path(&chain)];
    let run = |command: &[&str], more: &[&str]| tidegate(&[command, &base, more].concat());
    let get: &[&str] = &["get", "app/mode"];
    let certificate = ["--admin-cert", path(&client_chain), "--admin-key", path(&client_key)];
    let (code, shown, said) = run(get, &certificate);
    assert_eq!((code, shown.trim()), (Some(0), "app/mode = enforce"), "{said}");
    let (code, _, said) = run(&["set", "app/mode=watch"], &certificate);
    assert!(code == Some(2) && said.contains("may look only"), "{said}");
    let token_file = front.gateway.directory.path().join("ada.token");
    let (code, shown, said) = run(&["set", "app/mode=watch"], &["--token-file", path(&token_file)]);
    assert_eq!((code, shown.trim()), (Some(0), "app/mode: enforce -> watch"), "{said}");
    let (code, _, said) = run(get, &[]);
    assert!(code == Some(2) && said.contains("a token is needed"), "{said}");
    // One that nobody vouches for is no certificate, and ours is not vouched for by the system.
    let (code, ..) = run(get, &["--admin-cert", path(&chain), "--admin-key", path(&key)]);
    assert_eq!(code, Some(1));
    let (code, _, said) = tidegate(&["get", "--admin", &admin]);
    assert!(code == Some(1) && said.contains("--admin-ca") && !said.contains("start it"), "{said}");
    // Who speaks TLS where it is not spoken, or does not where it is, is told so.
    let (code, _, said) = tidegate(&["get", "--admin", &front.admin.to_string()]);
    assert!(code == Some(1) && said.contains("https:// where it speaks TLS"), "{said}");
    let plain = Front::start("", "", &[]);
    let (code, _, said) = tidegate(&["get", "--admin", &format!("https://{}", plain.admin)]);
    assert!(code == Some(1) && said.contains("if it speaks plain HTTP"), "{said}");
    plain.gateway.stop_sound();
    let (code, _, said) = tidegate(&["get", "--admin", &admin, "--admin-ca", path(&key)]);
    assert!(code == Some(2) && said.contains("no certificate in PEM"), "{said}");

    // The end of the gateway is the end of its events, as without TLS.
    let mut events = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(["events", "--all"])
        .args(base)
        .args(certificate)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it runs");
    let mut out = BufReader::new(events.stdout.take().expect("piped"));
    let mut told = String::new();
    while !told.contains("app/mode: enforce -> watch") {
        assert_ne!(out.read_line(&mut told).expect("text"), 0, "it ended: {told}");
    }
    front.gateway.stop_sound();
    out.read_to_string(&mut told).expect("text");
    assert!(told.contains("the gateway drains and ends"), "{told}");
    let end = events.wait_with_output().expect("its end");
    assert_eq!(end.status.code(), Some(0), "{}", String::from_utf8_lossy(&end.stderr));
}

#[test]
fn elsewhere_than_on_loopback_nobody_is_let_in_unasked() {
    let directory = tempfile::tempdir().expect("a directory for the test");
    let file = directory.path().join("tidegate.toml");
    let rest =
        "[[listener]]\naddress = \"127.0.0.1:0\"\n[application.app]\nservers = [\"http://127.0.0.1:1\"]\n";
    let port = free_address().port();
    let check = |top: &str| {
        fs::write(&file, format!("admin = \"0.0.0.0:{port}\"\n{top}{rest}"))
            .expect("write the configuration");
        let (code, _, said) = tidegate(&["check", path(&file)]);
        (code, said)
    };
    let (code, said) = check("");
    assert!(code == Some(2) && said.contains("can be reached from elsewhere"), "{said}");
    let (code, said) = check(TOKENS);
    assert!(code == Some(2) && said.contains("ada.token cannot be read"), "{said}");
    for (name, token) in [("ada.token", ADA), ("eve.token", "too short")] {
        let token_file = directory.path().join(name);
        fs::write(&token_file, token).expect("write a token");
        fs::set_permissions(&token_file, fs::Permissions::from_mode(0o600)).expect("keep it to ourselves");
    }
    let (code, said) = check(TOKENS);
    assert!(code == Some(2) && said.contains("admin_token eve") && !said.contains("ada"), "{said}");
    let (code, _, said) = tidegate(&["run", path(&file)]);
    assert!(code == Some(1) && said.contains("admin_token eve") && !said.contains("too short"), "{said}");
}

/// A certificate that is signed by itself and an authority's, as `openssl req -x509` makes them, and its key.
fn write_authority(directory: &Path) -> (PathBuf, PathBuf) {
    let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
    let mut params = rcgen::CertificateParams::new(names).expect("names");
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let made = rcgen::KeyPair::generate().expect("a key");
    let certificate = params.self_signed(&made).expect("a certificate");
    write_pair(directory, &certificate, &made)
}
