//! Tests of classification: tables of cases, properties, and a naive matcher to compare with.

use std::net::IpAddr;

use super::*;
use crate::ClassId;

/// A request written out for tests.
#[derive(Clone, Debug, Default)]
struct Request {
    method: String,
    host: String,
    path: String,
    query: Option<String>,
    headers: Vec<(String, Vec<u8>)>,
    client: Option<IpAddr>,
    tls: Option<(Option<String>, bool, bool)>,
}

impl Request {
    fn get(path: &str) -> Self {
        Self { method: "GET".into(), host: "www.example.org".into(), path: path.into(), ..Self::default() }
    }

    fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }
}

impl RequestFacts for Request {
    fn method(&self) -> &str {
        &self.method
    }

    fn host(&self) -> &str {
        &self.host
    }

    fn path(&self) -> &str {
        &self.path
    }

    fn query(&self) -> Option<&str> {
        self.query.as_deref()
    }

    fn header_values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> + 'a {
        self.headers.iter().filter(move |(field, _)| field == name).map(|(_, value)| value.as_slice())
    }

    fn client(&self) -> Option<IpAddr> {
        self.client
    }

    fn tls(&self) -> Option<TlsFacts<'_>> {
        self.tls.as_ref().map(|(server_name, resumed, client_certificate)| TlsFacts {
            server_name: server_name.as_deref(),
            resumed: *resumed,
            client_certificate: *client_certificate,
        })
    }
}

fn holds(rule: RuleSpec, request: &Request) -> bool {
    let rules = Classifier::compile(&[rule], |_| None).expect("sound rule");
    rules.classify(request).rule.is_some()
}

fn on_path(path: PathSpec) -> RuleSpec {
    RuleSpec { paths: vec![path], ..RuleSpec::default() }
}

#[test]
fn paths_have_one_canonical_form() {
    for (written, canonical) in [
        ("/", "/"),
        ("", "/"),
        ("*", "*"),
        ("/a/b", "/a/b"),
        ("/a/b/", "/a/b/"),
        ("/a.b/..c/...", "/a.b/..c/..."),
        ("/a/./b/../c", "/a/c"),
        ("/a/..", "/"),
        ("/a/.", "/a/"),
        ("/..", "/"),
        ("/../../a", "/a"),
        ("/%2e%2E/a", "/a"),
        ("//a///b//", "/a/b/"),
        ("/a//../b", "/b"),
        ("/%61dmin", "/admin"),
        ("/%7euser/%40me", "/~user/@me"),
        ("/a%2fb%3Bc%25%3f%23", "/a%2Fb%3Bc%25%3F%23"),
        ("/a%00%0a", "/a%00%0A"),
        ("/a%2", "/a%252"),
        ("/a%zz", "/a%25zz"),
        ("/%%36%31", "/%2561"),
        ("/é", "/%C3%A9"),
        ("/%c3%a9", "/%C3%A9"),
        ("/shop;jsessionid=1/cart;x", "/shop/cart"),
        ("/static/..;/admin", "/admin"),
        ("/a/;x/b", "/a/b"),
        ("/a b", "/a%20b"),
        ("/a/%2e", "/a/"),
        ("/a/.;x", "/a/"),
    ] {
        assert_eq!(canonical_path(written), canonical, "{written}");
    }
}

#[test]
fn no_rules_give_the_default_class() {
    let rules = Classifier::default();
    assert_eq!(rules.classify(&Request::get("/")), Verdict::default());
}

#[test]
fn spellings_do_not_evade_a_rule() {
    for path in [
        PathSpec::Exact("/admin/keys".into()),
        PathSpec::Prefix("/admin".into()),
        PathSpec::Prefix("/admin/".into()),
        PathSpec::Glob("/admin/*".into()),
        PathSpec::Glob("/{admin,root}/**".into()),
        PathSpec::Regex("/admin/[a-z]+".into()),
    ] {
        for spelling in [
            "/admin/keys",
            "/%61dmin/keys",
            "//admin/keys",
            "/x/../admin/keys",
            "/x/%2e%2e/admin/./keys",
            "/x/..;v=1/admin;v=2/keys",
            "/admin//keys",
            "/admin/ke%79s",
        ] {
            assert!(holds(on_path(path.clone()), &Request::get(spelling)), "{path:?} {spelling}");
        }
        for other in ["/", "/administrator/keys", "/x/admin/keys", "/admin%2Fkeys", "/Admin/keys"] {
            assert!(!holds(on_path(path.clone()), &Request::get(other)), "{path:?} {other}");
        }
    }
}
