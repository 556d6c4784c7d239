//! Tests of rules: tables of cases, every fault, and a naive evaluator of rules as written.

use std::{net::IpAddr, time::Duration};

use proptest::prelude::*;

use super::*;
use crate::ClassId;

mod naive;

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

    fn header(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        self.headers.push((name.into(), value.as_ref().into()));
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

fn classifier(rules: &[RuleSpec]) -> Classifier {
    Classifier::compile(rules, |name| name.strip_prefix('c')?.parse().ok().map(ClassId)).expect("sound rules")
}

fn holds(rule: RuleSpec, request: &Request) -> bool {
    classifier(&[rule]).classify(request).rule.is_some()
}

fn on_path(path: PathSpec) -> RuleSpec {
    RuleSpec { paths: vec![path], ..RuleSpec::default() }
}

fn field(name: &str, value: ValueSpec) -> Vec<FieldSpec> {
    vec![FieldSpec { name: name.into(), value }]
}

fn into(class: &str) -> VerdictSpec {
    VerdictSpec { class: class.into(), ..VerdictSpec::default() }
}

#[test]
fn the_first_rule_that_holds_decides_and_without_one_the_default_class() {
    assert_eq!(Classifier::default().classify(&Request::get("/")), Verdict::default());
    let rules = classifier(&[
        RuleSpec { verdict: into("c1"), ..on_path(PathSpec::Prefix("/a".into())) },
        RuleSpec { verdict: into("c2"), ..on_path(PathSpec::Prefix("/a/b".into())) },
        RuleSpec { verdict: into("c3"), ..on_path(PathSpec::Exact("/c".into())) },
    ]);
    let decided = |path| {
        let verdict = rules.classify(&Request::get(path));
        (verdict.class.0, verdict.rule)
    };
    assert_eq!(decided("/a/b"), (1, Some(0)));
    assert_eq!(decided("/c"), (3, Some(2)));
    assert_eq!(decided("/d"), (0, None));
    // A rule without conditions always holds, and without class names the default class.
    assert_eq!(classifier(&[RuleSpec::default()]).classify(&Request::get("/")).rule, Some(0));
}

#[test]
fn spellings_do_not_evade_a_rule() {
    for path in [
        PathSpec::Exact("/admin/keys".into()),
        PathSpec::Exact("//admin/./k%65ys".into()),
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

/// A server that leaves dot segments where they are reads a path otherwise; where rules care, so do they.
#[test]
fn dot_segments_evade_no_rule_of_a_server_that_keeps_them() {
    let search = RuleSpec { verdict: into("c1"), ..on_path(PathSpec::Prefix("/search".into())) };
    let rules = classifier(&[search]);
    for (path, expected) in [
        ("/search/..", true),
        ("/search/a/../../b", true),
        ("/x/../search", true),
        ("/%73earch/../b", true),
        ("/search/a/../b", false),
        ("/search/.", false),
        ("/a/../b", false),
        ("/search/...", false),
        ("/search//b", false),
        ("/b", false),
    ] {
        let request = Request::get(path);
        assert_eq!(rules.is_two_ways(&request, rules.classify(&request)), expected, "{path}");
    }
    let none = classifier(&[]);
    assert!(!none.is_two_ways(&Request::get("/a/../b"), none.classify(&Request::get("/a/../b"))));
}

/// The first segment as servers see it that keep dot segments, and as those that remove them, with empty segments left out or
/// not; parameters belong to a name for all of them, until one is looked up.
fn first_segments(path: &str) -> Vec<String> {
    let removed = |without_empty: bool| {
        let mut kept = Vec::new();
        for segment in path.split('/').skip(1).filter(|segment| !(without_empty && segment.is_empty())) {
            match segment {
                "." => {}
                ".." => drop(kept.pop()),
                name => kept.push(name),
            }
        }
        kept.first().copied().unwrap_or_default().to_owned()
    };
    let left = path.split('/').nth(1).unwrap_or_default().to_owned();
    let cut = |name: String| name.split(';').next().unwrap_or_default().to_owned();
    [left, removed(true), removed(false)].map(cut).to_vec()
}

proptest! {
    #[test]
    fn whatever_a_server_does_with_dot_segments_no_rule_is_evaded(
        segments in prop::collection::vec(
            prop::sample::select(vec!["search", "search;x", "a", "", ";x", ".", "..", ".;", "..;x"]), 1..9
        ),
    ) {
        let search = RuleSpec { verdict: into("c1"), ..on_path(PathSpec::Prefix("/search".into())) };
        let (rules, path) = (classifier(&[search]), format!("/{}", segments.join("/")));
        let request = Request::get(&path);
        let verdict = rules.classify(&request);
        let is_refused = is_ambiguous_path(&path) || rules.is_two_ways(&request, verdict);
        for first in first_segments(&path) {
            prop_assert!(first != "search" || verdict.class == ClassId(1) || is_refused, "{}", path);
        }
    }
}

#[test]
fn path_conditions_match_whole_paths() {
    let (exact, prefix) = (|p: &str| PathSpec::Exact(p.into()), |p: &str| PathSpec::Prefix(p.into()));
    let (glob, regex) = (|p: &str| PathSpec::Glob(p.into()), |p: &str| PathSpec::Regex(p.into()));
    for (condition, path, expected) in [
        (exact("/a"), "/a/", false),
        (exact("*"), "*", true),
        (exact("/é"), "/%c3%a9", true),
        (prefix("/"), "/anything", true),
        (prefix("/a"), "/a", true),
        (prefix("/a"), "/a/b", true),
        (prefix("/a"), "/ab", false),
        (prefix("/a/"), "/a", false),
        (prefix("/a/"), "/a/", true),
        (glob("/a/*/c"), "/a/b/c", true),
        (glob("/a/*/c"), "/a/b/b/c", false),
        (glob("/a/**/c"), "/a/b/b/c", true),
        (glob("/a/**/c"), "/a/c", true),
        (glob("/a/**"), "/a", false),
        (glob("/a/**"), "/a/", true),
        (glob("/a/**"), "/a/b/c", true),
        (glob("**/*.png"), "/x/y.png", true),
        (glob("/*.{png,jpg}"), "/y.jpg", true),
        (glob("/*.{png,jpg}"), "/x/y.jpg", false),
        (glob("/a"), "/b/a", false),
        (regex("/a|/b"), "/b", true),
        (regex("/a|/b"), "/bc", false),
        (regex("/a|/b"), "/x/b", false),
        (regex("/items/[0-9]+"), "/items/17", true),
        (regex("/a.*"), "/a%FF%0A", true),
        (regex("(?i)/a"), "/A", true),
    ] {
        assert_eq!(holds(on_path(condition.clone()), &Request::get(path)), expected, "{condition:?} {path}");
    }
}

#[test]
fn hosts_match_without_final_dot_and_wildcards_any_subdomain() {
    for (pattern, host, expected) in [
        ("example.org", "example.org", true),
        ("example.org", "example.org.", true),
        ("example.org.", "example.org", true),
        ("example.org", "www.example.org", false),
        ("*.example.org", "www.example.org", true),
        ("*.example.org", "a.b.example.org.", true),
        ("*.example.org", "example.org", false),
        ("*.example.org", ".example.org", false),
        ("*.example.org", "badexample.org", false),
        ("[::1]", "[::1]", true),
        ("127.0.0.1", "127.0.0.1", true),
        ("example.org", "", false),
    ] {
        let rule = RuleSpec { hosts: vec![pattern.into()], ..RuleSpec::default() };
        let request = Request { host: host.into(), ..Request::get("/") };
        assert_eq!(holds(rule, &request), expected, "{pattern} {host}");
    }
}

#[test]
fn clients_match_by_network_with_ipv4_unwrapped() {
    for (network, client, expected) in [
        ("10.0.0.0/8", Some("10.1.2.3"), true),
        ("10.0.0.0/8", Some("::ffff:10.1.2.3"), true),
        ("::ffff:10.0.0.0/104", Some("10.1.2.3"), true),
        ("10.0.0.0/8", Some("11.0.0.1"), false),
        ("0.0.0.0/0", Some("2001:db8::1"), false),
        ("2001:db8::/32", Some("2001:db8::1"), true),
        ("0.0.0.0/0", None, false),
    ] {
        let rule = RuleSpec { clients: vec![network.parse().unwrap()], ..RuleSpec::default() };
        let request = Request { client: client.map(|text| text.parse().unwrap()), ..Request::get("/") };
        assert_eq!(holds(rule, &request), expected, "{network} {client:?}");
    }
}

#[test]
fn tls_conditions_hold_only_over_tls() {
    let plain = Request::get("/");
    let tls = |name: Option<&str>, resumed, certificate| Request {
        tls: Some((name.map(Into::into), resumed, certificate)),
        ..Request::get("/")
    };
    let rule = |tls| RuleSpec { tls, ..RuleSpec::default() };
    let secure = |wanted| rule(TlsSpec { secure: Some(wanted), ..TlsSpec::default() });
    assert!(holds(secure(false), &plain) && !holds(secure(true), &plain));
    assert!(holds(secure(true), &tls(None, false, false)) && !holds(secure(false), &tls(None, false, false)));
    for wanted in [false, true] {
        let resumed = || rule(TlsSpec { resumed: Some(wanted), ..TlsSpec::default() });
        assert!(!holds(resumed(), &plain));
        assert!(holds(resumed(), &tls(None, wanted, !wanted)));
        assert!(!holds(resumed(), &tls(None, !wanted, wanted)));
        let certificate = || rule(TlsSpec { client_certificate: Some(wanted), ..TlsSpec::default() });
        assert!(!holds(certificate(), &plain));
        assert!(holds(certificate(), &tls(None, !wanted, wanted)));
        assert!(!holds(certificate(), &tls(None, wanted, !wanted)));
    }
    let name = || rule(TlsSpec { server_names: vec!["*.example.org".into()], ..TlsSpec::default() });
    assert!(holds(name(), &tls(Some("a.example.org"), false, false)));
    assert!(!holds(name(), &tls(None, false, false)) && !holds(name(), &plain));
}

#[test]
fn one_of_the_values_of_a_field_suffices_and_absent_wants_none() {
    let two = Request::get("/").header("x", " first ").header("x", b"sec\xFFond\n");
    for (value, of_two, of_none) in [
        (ValueSpec::Present, true, false),
        (ValueSpec::Absent, false, true),
        (ValueSpec::Exact("first".into()), true, false),
        (ValueSpec::Exact("fir".into()), false, false),
        (ValueSpec::Prefix("sec".into()), true, false),
        (ValueSpec::Prefix("irst".into()), false, false),
        // Octets that are no text do not evade `.`.
        (ValueSpec::Regex("sec.*".into()), true, false),
        (ValueSpec::Regex("irst|sec".into()), false, false),
    ] {
        let rule = RuleSpec { headers: field("x", value.clone()), ..RuleSpec::default() };
        assert_eq!(holds(rule.clone(), &two), of_two, "{value:?}");
        assert_eq!(holds(rule, &Request::get("/")), of_none, "{value:?}");
    }
}

#[test]
fn query_and_cookies_are_fields() {
    let request = Request { query: Some("a=1&%62=x+y".into()), ..Request::get("/") }
        .header("cookie", "s=1; t=2")
        .header("cookie", "s=3");
    let query = |name: &str, value| RuleSpec { query: field(name, value), ..RuleSpec::default() };
    let cookie = |name: &str, value| RuleSpec { cookies: field(name, value), ..RuleSpec::default() };
    assert!(holds(query("b", ValueSpec::Exact("x y".into())), &request));
    assert!(!holds(query("b", ValueSpec::Exact("x+y".into())), &request));
    assert!(holds(query("c", ValueSpec::Absent), &request));
    assert!(holds(query("c", ValueSpec::Absent), &Request::get("/")));
    assert!(holds(cookie("s", ValueSpec::Exact("3".into())), &request));
    assert!(!holds(cookie("t", ValueSpec::Exact("3".into())), &request));
    // All must hold.
    let both = RuleSpec {
        query: [field("a", ValueSpec::Present), field("z", ValueSpec::Present)].concat(),
        ..RuleSpec::default()
    };
    assert!(!holds(both, &request));
}

#[test]
fn the_earliest_deadline_counts_and_garbage_does_not() {
    let rule = |deadline| RuleSpec {
        verdict: VerdictSpec { deadline, deadline_header: Some("x-wait".into()), ..VerdictSpec::default() },
        ..RuleSpec::default()
    };
    let ms = Duration::from_millis;
    for (of_rule, said, expected) in [
        (None, &[][..], None),
        (None, &["250"], Some(ms(250))),
        (Some(ms(100)), &["250"], Some(ms(100))),
        (Some(ms(100)), &[" 50 ", "70"], Some(ms(50))),
        (Some(ms(100)), &["0"], Some(ms(0))),
        (Some(ms(100)), &["+5", "-5", "5ms", "", "1e1", "0x1", "99999999999999999999"], Some(ms(100))),
    ] {
        let request = said.iter().fold(Request::get("/"), |request, value| request.header("x-wait", value));
        assert_eq!(classifier(&[rule(of_rule)]).classify(&request).deadline, expected, "{said:?}");
    }
}

#[test]
fn urgency_moves_the_priority_only_where_the_rule_lets_it() {
    let rule = |priority, priority_header| RuleSpec {
        verdict: VerdictSpec { priority, priority_header, ..VerdictSpec::default() },
        ..RuleSpec::default()
    };
    let urgent = Request::get("/").header("priority", "u=0");
    let verdict = classifier(&[rule(None, true)]).classify(&urgent);
    assert_eq!((verdict.priority, verdict.steps, verdict.priority_over(2)), (None, 3, 5));
    assert_eq!(classifier(&[rule(Some(4), true)]).classify(&urgent).priority_over(2), 6);
    assert_eq!(classifier(&[rule(Some(4), false)]).classify(&urgent).priority_over(2), 4);
    assert_eq!(classifier(&[rule(Some(4), true)]).classify(&Request::get("/")).priority_over(2), 4);
}

#[test]
fn urgency_makes_nobody_critical_nor_anybody_worse_than_asked() {
    for base in 0..=7_u8 {
        for steps in -4..=3_i8 {
            let moved = Verdict { steps, ..Verdict::default() }.priority_over(base);
            match steps {
                0 => assert_eq!(moved, base),
                1.. => assert!(moved >= base && moved <= base.max(6), "{base} {steps} {moved}"),
                _ => assert!(moved <= base && moved >= base.min(1), "{base} {steps} {moved}"),
            }
        }
    }
}

#[test]
fn every_fault_is_found_at_once_with_its_place() {
    let faults = Classifier::compile(
        &[
            RuleSpec {
                methods: vec!["GET".into(), "get".into(), "G T".into(), String::new()],
                hosts: ["Example.org", "*", "a.b:80", "*a.b", "a b", "[::1]:80"].map(String::from).to_vec(),
                paths: vec![
                    PathSpec::Exact("a".into()),
                    PathSpec::Prefix("/a?b".into()),
                    PathSpec::Exact("/a;b".into()),
                    PathSpec::Glob("a/*".into()),
                    PathSpec::Glob("/a/[".into()),
                    PathSpec::Glob("/é".into()),
                    PathSpec::Regex("/(".into()),
                    PathSpec::Regex("/a)|(/b".into()),
                    PathSpec::Regex("/%7Euser".into()),
                    PathSpec::Regex("/%2f".into()),
                    PathSpec::Regex("/((a{100}){100}){100}".into()),
                ],
                ..RuleSpec::default()
            },
            RuleSpec::default(),
            RuleSpec {
                headers: field("X-Upper", ValueSpec::Regex("(".into())),
                query: field("", ValueSpec::Present),
                cookies: field("a;b", ValueSpec::Present),
                tls: TlsSpec {
                    secure: Some(false),
                    resumed: Some(true),
                    server_names: vec!["".into()],
                    ..TlsSpec::default()
                },
                verdict: VerdictSpec {
                    class: "nowhere".into(),
                    priority: Some(8),
                    weight: Some(0),
                    deadline_header: Some("X".into()),
                    ..VerdictSpec::default()
                },
                ..RuleSpec::default()
            },
        ],
        |_| None,
    )
    .unwrap_err();
    let mut places: Vec<_> = faults.iter().map(|fault| format!("{}.{}", fault.rule, fault.field)).collect();
    places.sort_unstable();
    let mut expected: Vec<String> = ["methods[1]", "methods[2]", "methods[3]"]
        .iter()
        .map(|place| format!("0.{place}"))
        .chain((0..6).map(|at| format!("0.hosts[{at}]")))
        .chain((0..11).map(|at| format!("0.paths[{at}]")))
        .chain(
            [
                "headers[0].name",
                "headers[0].value",
                "query[0].name",
                "cookies[0].name",
                "tls.secure",
                "tls.server_names[0]",
                "verdict.class",
                "verdict.priority",
                "verdict.weight",
                "verdict.deadline_header",
            ]
            .iter()
            .map(|place| format!("2.{place}")),
        )
        .collect();
    expected.sort_unstable();
    assert_eq!(places, expected);
    let upper = faults.iter().find(|fault| fault.field == "methods[1]").unwrap();
    assert_eq!(upper.to_string(), "rules[0].methods[1]: \"get\": methods are upper case: write GET");
    let escaped = faults.iter().find(|fault| fault.field == "paths[8]").unwrap();
    assert!(escaped.message.ends_with("paths are matched with %7E as ~: write that"), "{escaped}");
}

proptest! {
    #[test]
    fn rules_mean_what_the_naive_evaluator_reads(
        rules in prop::collection::vec(naive::rule_spec(), 0..24),
        requests in prop::collection::vec(naive::request(), 1..12),
    ) {
        let compiled = classifier(&rules);
        for request in &requests {
            prop_assert_eq!(compiled.classify(request).rule, naive::first(&rules, request), "{:?}", request);
        }
    }
}

#[test]
fn fuzz_classifier() {
    bolero::check!().with_iterations(2_000).with_type::<(String, String, Vec<u8>)>().for_each(
        |(pattern, path, line)| {
            let fields = |value| field("a", value);
            let request = Request { query: Some(path.clone()), ..Request::get(path) }
                .header("cookie", line)
                .header("priority", line);
            for rule in [
                on_path(PathSpec::Exact(pattern.clone())),
                on_path(PathSpec::Prefix(pattern.clone())),
                on_path(PathSpec::Glob(format!("/{pattern}"))),
                on_path(PathSpec::Regex(pattern.clone())),
                RuleSpec { query: fields(ValueSpec::Regex(pattern.clone())), ..RuleSpec::default() },
                RuleSpec { cookies: fields(ValueSpec::Prefix(pattern.clone())), ..RuleSpec::default() },
                RuleSpec { hosts: vec![pattern.clone()], ..RuleSpec::default() },
                RuleSpec {
                    verdict: VerdictSpec { priority_header: true, ..VerdictSpec::default() },
                    ..RuleSpec::default()
                },
            ] {
                match Classifier::compile(&[rule], |_| None) {
                    Ok(rules) => assert_eq!(rules.classify(&request).class, ClassId(0)),
                    Err(faults) => assert!(!faults.is_empty()),
                }
            }
        },
    );
}

fn route(application: &str, path: PathSpec) -> RouteSpec {
    RouteSpec { paths: vec![path], verdict: application.into(), ..RouteSpec::default() }
}

#[test]
fn the_first_route_that_holds_names_the_application() {
    let router = Router::compile(&[
        route("static", PathSpec::Glob("/api/**/*.css".into())),
        route("api", PathSpec::Prefix("/api".into())),
        route("api", PathSpec::Prefix("/rpc".into())),
    ])
    .expect("sound routes");
    let led = |path: &str| {
        router.route(&Request::get(path)).and_then(|at| router.applications().get(at)).map(String::as_str)
    };
    for (path, application) in [
        ("/", None),
        ("/apis", None),
        ("/api", Some("api")),
        ("/api/a/b.css", Some("static")),
        ("/rpc/x", Some("api")),
        ("/%61pi/x", Some("api")),
        ("/x/../api", Some("api")),
    ] {
        assert_eq!(led(path), application, "{path}");
    }
    assert!(Router::default().is_empty() && Router::default().route(&Request::get("/api")).is_none());
}

/// Two applications may read the same path differently: one of them serves what was meant for the other.
#[test]
fn a_path_that_two_servers_read_as_two_applications_is_told() {
    let routes =
        [route("api", PathSpec::Prefix("/api".into())), route("api", PathSpec::Prefix("/rpc".into()))];
    let router = Router::compile(&routes).expect("sound routes");
    for (path, two_ways) in [
        ("/api/../x", true),
        ("/x/../api", true),
        ("/api/../rpc", false),
        ("/api/x", false),
        ("/a/../b", false),
    ] {
        let request = Request::get(path);
        assert_eq!(router.is_two_ways(&request, router.route(&request)), two_ways, "{path}");
    }
}

#[test]
fn faults_of_routes_have_their_place() {
    let bad = route("api", PathSpec::Regex("(".into()));
    let faults = Router::compile(&[route("api", PathSpec::Prefix("/a".into())), bad]).unwrap_err();
    assert_eq!(
        faults.iter().map(|fault| (fault.rule, fault.field.as_str())).collect::<Vec<_>>(),
        [(1, "paths[0]")]
    );
}
