//! Whom the admin interface answers.

use std::{fs, net::Ipv4Addr};

use http::Request;
use tidegate_config::{AdminClients, AdminTls, AdminToken, Certificate};

use super::*;

const ADA: &str = "ada-0123456789abcdef0123456789abcdef";
const EVE: &str = "eve-0123456789abcdef0123456789abcdef";

/// Ada operates, Eve reads; those with a certificate read.
fn access(directory: &Path) -> (Access, AdminAccess) {
    let token = |name: &str, secret: &str, role| {
        let file = directory.join(name);
        fs::write(&file, format!("{secret}\n")).unwrap();
        AdminToken { name: name.to_owned(), file, role, applications: Vec::new() }
    };
    let files = Certificate { chain: "c".into(), key: "k".into() };
    let clients = Some(AdminClients { authorities: "a".into(), role: Role::Read });
    let settings = AdminAccess {
        hosts: vec!["gate.example".to_owned()],
        tokens: vec![token("ada", ADA, Role::Operator), token("eve", EVE, Role::Read)],
        tls: Some(AdminTls { certificate: files, clients }),
    };
    (Access::new(&settings, Clock::start()).unwrap(), settings)
}

fn peer(certificate: Option<&str>) -> Peer {
    Peer { address: Ipv4Addr::new(192, 0, 2, 7).into(), certificate: certificate.map(str::to_owned) }
}

fn head(method: &str, headers: &[(&str, &str)]) -> Parts {
    let mut request = Request::builder().method(method).uri("/api/v1/knobs");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(()).unwrap().into_parts().0
}

#[test]
fn roles_are_held() {
    let directory = tempfile::tempdir().unwrap();
    let (access, _) = access(directory.path());
    let ask = |method: &str, token: Option<&str>, certificate: Option<&str>| {
        let token = token.map(|token| format!("bearer {token}"));
        let headers: Vec<_> = token.iter().map(|token| ("authorization", token.as_str())).collect();
        let caller = access.identify(&peer(certificate), &head(method, &headers));
        caller.map(|caller| (caller.by, caller.who(Some("x".to_owned())))).map_err(|problem| problem.status())
    };
    assert_eq!(ask("PATCH", Some(ADA), None), Ok(("token", "ada (x)".to_owned())));
    assert_eq!(ask("GET", Some(EVE), None), Ok(("token", "eve (x)".to_owned())));
    assert_eq!(ask("PATCH", Some(EVE), None), Err(StatusCode::FORBIDDEN));
    assert_eq!(ask("GET", None, Some("0123456789abcdef01")).unwrap().1, "certificate 0123456789abcdef (x)");
    assert_eq!(ask("DELETE", None, Some("0123456789abcdef01")), Err(StatusCode::FORBIDDEN));
    // A token goes before a certificate, also one that is wrong.
    assert_eq!(ask("PATCH", Some(ADA), Some("0123456789abcdef01")).unwrap().0, "token");
    for wrong in ["", "ada", &ADA[..ADA.len() - 1], &format!("{ADA}x"), &ADA.to_uppercase()] {
        assert_eq!(ask("GET", Some(wrong), Some("01")), Err(StatusCode::UNAUTHORIZED), "{wrong}");
    }
    assert_eq!(ask("GET", None, None), Err(StatusCode::UNAUTHORIZED));
    let other = head("GET", &[("authorization", &format!("Basic {ADA}"))]);
    assert!(access.identify(&peer(None), &other).is_err());
    assert!(!format!("{access:?}").contains(&ADA[..8]), "no secret in what is shown");
}

#[test]
fn guessing_is_slowed_and_counted_by_client() {
    let directory = tempfile::tempdir().unwrap();
    let (access, _) = access(directory.path());
    let guess = |address: IpAddr| {
        let head = head("GET", &[("authorization", "Bearer guess")]);
        access.identify(&Peer { address, certificate: None }, &head).unwrap_err().status()
    };
    let one: IpAddr = "2001:db8::1".parse().unwrap();
    let guesses: Vec<_> = (0..40).map(|_| guess(one)).collect();
    assert_eq!(guesses[..20], [StatusCode::UNAUTHORIZED; 20]);
    assert!(guesses.contains(&StatusCode::TOO_MANY_REQUESTS));
    assert_eq!(guess("2001:db8:0:1::1".parse().unwrap()), StatusCode::UNAUTHORIZED);
    // Who has a token is not kept out by others of the same address.
    let with = head("GET", &[("authorization", &format!("Bearer {ADA}"))]);
    assert!(access.identify(&Peer { address: one, certificate: None }, &with).is_ok());
}

#[test]
fn foreign_names_origins_and_types_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let (access, _) = access(directory.path());
    let admit = |method: &str, headers: &[(&str, &str)]| {
        access.admit(&peer(None), &head(method, headers)).map_err(|problem| problem.status())
    };
    for host in ["127.0.0.1:9900", "[::1]:9900", "localhost", "LOCALHOST:1", "gate.example:9900"] {
        assert_eq!(admit("GET", &[("host", host)]), Ok(()), "{host}");
        let origin = format!("http://{host}");
        assert_eq!(admit("GET", &[("host", host), ("origin", &origin)]), Ok(()), "{host}");
        assert_eq!(
            admit("GET", &[("host", host), ("origin", "http://evil.example")]),
            Err(StatusCode::FORBIDDEN)
        );
        assert_eq!(admit("GET", &[("host", host), ("origin", "null")]), Err(StatusCode::FORBIDDEN));
    }
    for host in ["evil.example", "127.0.0.1.evil.example", "", "a b", "gate.example.evil.example"] {
        assert_eq!(admit("GET", &[("host", host)]), Err(StatusCode::FORBIDDEN), "{host}");
    }
    let post = |content_type: &str| admit("PATCH", &[("host", "localhost"), ("content-type", content_type)]);
    assert_eq!(post("Application/JSON; charset=utf-8"), Ok(()));
    assert_eq!(post("text/plain"), Err(StatusCode::UNSUPPORTED_MEDIA_TYPE));
}

#[test]
fn files_are_read_again_and_a_bad_one_changes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let (access, settings) = access(directory.path());
    let is_known = |token: &str| {
        let head = head("GET", &[("authorization", &format!("Bearer {token}"))]);
        access.identify(&peer(None), &head).is_ok()
    };
    let file = &settings.tokens[0].file;
    fs::write(file, "short").unwrap();
    let said = access.reload(&settings).unwrap_err().to_string();
    assert!(said.starts_with("admin_token ada: ") && said.contains("holds no token"), "{said}");
    assert!(is_known(ADA) && access.is_demanded());
    fs::write(file, "x".repeat(TOKEN_MAX + 1)).unwrap();
    assert!(access.reload(&settings).is_err());
    fs::write(file, "with a blank, 0123456789abcdef0123456789abcdef").unwrap();
    assert!(access.reload(&settings).is_err());
    fs::write(file, "new-0123456789abcdef0123456789abcdef\r\n").unwrap();
    access.reload(&settings).unwrap();
    assert!(!is_known(ADA) && is_known("new-0123456789abcdef0123456789abcdef"));
    fs::remove_file(file).unwrap();
    assert!(access.reload(&settings).unwrap_err().to_string().contains("cannot be read"));
}
