//! Rules as written, evaluated as they are read, and rules and requests made at random to compare on.

use proptest::prelude::*;

use super::{super::*, Request};

fn value_holds(spec: &ValueSpec, values: &[String]) -> bool {
    match spec {
        ValueSpec::Present => !values.is_empty(),
        ValueSpec::Absent => values.is_empty(),
        ValueSpec::Exact(text) => values.contains(text),
        ValueSpec::Prefix(text) => values.iter().any(|value| value.starts_with(text)),
        ValueSpec::Regex(pattern) => {
            let regex = regex::Regex::new(&format!("^({pattern})$")).unwrap();
            values.iter().any(|value| regex.is_match(value))
        }
    }
}

/// `*` and `**` by trying every length.
fn glob_holds(glob: &str, path: &str) -> bool {
    if let Some(rest) = glob.strip_prefix("/**/") {
        return path.starts_with('/')
            && path.match_indices('/').any(|(at, _)| glob_holds(&format!("/{rest}"), &path[at..]));
    }
    if glob == "/**" {
        return path.starts_with('/');
    }
    if let Some(rest) = glob.strip_prefix('*') {
        let end = path.find('/').unwrap_or(path.len());
        return (0..=end).any(|at| glob_holds(rest, &path[at..]));
    }
    match (glob.chars().next(), path.chars().next()) {
        (None, None) => true,
        (Some(a), Some(b)) if a == b => glob_holds(&glob[1..], &path[1..]),
        _ => false,
    }
}

fn path_holds(spec: &PathSpec, path: &str) -> bool {
    match spec {
        PathSpec::Exact(text) => text == path,
        PathSpec::Prefix(text) => {
            path == text || path.starts_with(&format!("{}/", text.trim_end_matches('/')))
        }
        PathSpec::Glob(glob) => glob_holds(glob, path),
        PathSpec::Regex(pattern) => value_holds(&ValueSpec::Regex(pattern.clone()), &[path.into()]),
    }
}

fn host_holds(pattern: &str, host: &str) -> bool {
    match pattern.strip_prefix('*') {
        Some(suffix) => host.ends_with(suffix) && host != suffix,
        None => pattern == host,
    }
}

pub(super) fn first(rules: &[RuleSpec], request: &Request) -> Option<usize> {
    rules.iter().position(|rule| {
        let text = |value: &[u8]| String::from_utf8(value.to_vec()).unwrap();
        let headers = |name: &str| -> Vec<String> {
            request.headers.iter().filter(|(n, _)| n == name).map(|(_, v)| text(v)).collect()
        };
        let query: Vec<(String, String)> = request
            .query
            .iter()
            .flat_map(|query| query.split('&'))
            .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
            .map(|(name, value)| (name.into(), value.into()))
            .collect();
        let cookies: Vec<(String, String)> = headers("cookie")
            .iter()
            .flat_map(|line| line.split("; "))
            .filter_map(|pair| pair.split_once('='))
            .map(|(name, value)| (name.into(), value.into()))
            .collect();
        let of = |pairs: &[(String, String)], name: &str| -> Vec<String> {
            pairs.iter().filter(|(n, _)| n == name).map(|(_, v)| v.clone()).collect()
        };
        (rule.methods.is_empty() || rule.methods.contains(&request.method))
            && (rule.hosts.is_empty() || rule.hosts.iter().any(|h| host_holds(h, &request.host)))
            && (rule.paths.is_empty() || rule.paths.iter().any(|p| path_holds(p, &request.path)))
            && (rule.clients.is_empty()
                || request.client.is_some_and(|c| rule.clients.iter().any(|n| n.contains(&c))))
            && rule.headers.iter().all(|f| value_holds(&f.value, &headers(&f.name)))
            && rule.query.iter().all(|f| value_holds(&f.value, &of(&query, &f.name)))
            && rule.cookies.iter().all(|f| value_holds(&f.value, &of(&cookies, &f.name)))
            && match &request.tls {
                None => rule.tls == TlsSpec { secure: rule.tls.secure.filter(|s| !s), ..TlsSpec::default() },
                Some((name, resumed, certificate)) => {
                    rule.tls.secure != Some(false)
                        && [None, Some(*resumed)].contains(&rule.tls.resumed)
                        && [None, Some(*certificate)].contains(&rule.tls.client_certificate)
                        && (rule.tls.server_names.is_empty()
                            || name
                                .as_ref()
                                .is_some_and(|n| rule.tls.server_names.iter().any(|p| host_holds(p, n))))
                }
            }
    })
}

fn value_spec() -> impl Strategy<Value = ValueSpec> {
    prop_oneof![
        Just(ValueSpec::Present),
        Just(ValueSpec::Absent),
        "[xy]{0,2}".prop_map(ValueSpec::Exact),
        "[xy]{0,2}".prop_map(ValueSpec::Prefix),
        prop::sample::select(vec!["x|y", "x.*", "y+", ""]).prop_map(|p| ValueSpec::Regex(p.into())),
    ]
}

fn path_spec() -> impl Strategy<Value = PathSpec> {
    prop_oneof![
        "(/[ab]{1,2}){1,3}/?".prop_map(PathSpec::Exact),
        "(/[ab]{1,2}){1,2}/?".prop_map(PathSpec::Prefix),
        "(/a|/b|/\\*|/a\\*|/\\*\\*/b){1,3}(/\\*\\*)?".prop_map(PathSpec::Glob),
        prop::sample::select(vec![
            "/a|/b",
            "/[ab]+/.*",
            "/a.b?",
            "/ab*(/.*)?",
            "/ab?/b",
            "/a{2}.*",
            "(?i)/A+",
            "/b/+a",
            "/ba"
        ])
        .prop_map(|p| PathSpec::Regex(p.into())),
    ]
}

fn fields() -> impl Strategy<Value = Vec<FieldSpec>> {
    prop::collection::vec(
        (prop::sample::select(vec!["f", "g"]), value_spec())
            .prop_map(|(name, value)| FieldSpec { name: name.into(), value }),
        0..2,
    )
}

fn some_of(names: &'static [&'static str]) -> impl Strategy<Value = Vec<String>> {
    prop_oneof![
        2 => Just(Vec::new()),
        1 => prop::sample::subsequence(names, 1..=names.len())
            .prop_map(|names| names.into_iter().map(Into::into).collect()),
    ]
}

prop_compose! {
    pub(super) fn rule_spec()(
        methods in some_of(&["GET", "POST"]),
        hosts in some_of(&["a.org", "*.a.org", "b.a.org"]),
        paths in prop::collection::vec(path_spec(), 0..3),
        headers in fields(),
        query in fields(),
        cookies in fields(),
        clients in some_of(&["10.0.0.0/8", "10.1.0.0/16", "2001:db8::/32"]),
        secure in prop::option::weighted(0.2, any::<bool>()),
        resumed in prop::option::weighted(0.1, any::<bool>()),
        client_certificate in prop::option::weighted(0.1, any::<bool>()),
        server_names in some_of(&["a.org", "*.a.org"]),
    ) -> RuleSpec {
        // A rule that asks for TLS and for its absence is refused.
        let plain = secure == Some(false);
        RuleSpec {
            methods, hosts, paths, headers, query, cookies,
            clients: clients.iter().map(|network| network.parse().unwrap()).collect(),
            tls: TlsSpec {
                secure,
                resumed: resumed.filter(|_| !plain),
                client_certificate: client_certificate.filter(|_| !plain),
                server_names: if plain { Vec::new() } else { server_names },
            },
            verdict: VerdictSpec::default(),
        }
    }
}

prop_compose! {
    pub(super) fn request()(
        method in prop::sample::select(vec!["GET", "POST", "PUT"]),
        host in prop::sample::select(vec!["a.org", "b.a.org", "c.b.a.org", "d.org"]),
        path in "(/[ab]{1,2}){1,4}/?",
        query in prop::option::of("[fg]=[xy]{0,2}(&[fg]=[xy]{0,2})?"),
        headers in prop::collection::vec(("[fg]", "[xy]{0,2}"), 0..3),
        cookie in prop::option::of("[fg]=[xy]{0,2}(; [fg]=[xy]{0,2})?"),
        client in prop::option::of(prop::sample::select(vec!["10.1.2.3", "10.2.3.4", "2001:db8::1", "::1"])),
        tls in prop::option::of((
            prop::option::of(prop::sample::select(vec!["a.org", "b.a.org"])), any::<bool>(), any::<bool>(),
        )),
    ) -> Request {
        let cookie = cookie.map(|line| ("cookie".to_owned(), line.into_bytes()));
        Request {
            method: method.into(),
            host: host.into(),
            path,
            query,
            headers: headers.into_iter().map(|(n, v)| (n, v.into_bytes())).chain(cookie).collect(),
            client: client.map(|text| text.parse().unwrap()),
            tls: tls.map(|(name, resumed, certificate)| (name.map(Into::into), resumed, certificate)),
        }
    }
}
