//! Instruction counts of what every request passes on its way to a server: rules, client rate, balancer.
//!
//! `cargo bench -p tidegate-control --bench classify`; needs Valgrind and gungraun-runner of the
//! version of the gungraun crate. Each benchmark is warm: its setup has made the same call before.
#![expect(missing_docs, reason = "the macros of the benchmark harness generate public items")]

use std::{
    hint::black_box,
    net::{IpAddr, Ipv4Addr},
    time::Duration,
};

use gungraun::prelude::*;
use tidegate_control::{
    ClassId, ServerId, Timestamp,
    balance::{Balancer, Candidate},
    classify::{
        Classifier, FieldSpec, PathSpec, RequestFacts, RuleSpec, TlsFacts, ValueSpec, Verdict, VerdictSpec,
    },
    client_rate::{ClientRateSettings, ClientRates, RetryAfter},
    knobs::BalancePolicy,
};

/// A browser's request.
struct Head {
    path: &'static str,
}

const HEADERS: [(&str, &[u8]); 8] = [
    ("host", b"www.example.org"),
    ("user-agent", b"Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0"),
    ("accept", b"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"),
    ("accept-language", b"en-GB,en;q=0.5"),
    ("accept-encoding", b"gzip, deflate, br, zstd"),
    ("cookie", b"session=4b0f0b7c9d3e; theme=dark; consent=yes"),
    ("priority", b"u=1, i"),
    ("referer", b"https://www.example.org/catalogue?page=2"),
];

impl RequestFacts for Head {
    fn method(&self) -> &str {
        "GET"
    }

    fn host(&self) -> &str {
        "www.example.org"
    }

    fn path(&self) -> &str {
        self.path
    }

    fn query(&self) -> Option<&str> {
        Some("page=3&sort=price&view=grid")
    }

    fn header_values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> + 'a {
        HEADERS.iter().filter(move |(field, _)| *field == name).map(|(_, value)| *value)
    }

    fn client(&self) -> Option<IpAddr> {
        Some(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 7)))
    }

    fn tls(&self) -> Option<TlsFacts<'_>> {
        Some(TlsFacts { server_name: Some("www.example.org"), resumed: true, client_certificate: false })
    }
}

/// `count` rules of every kind in turn, none of which holds for `Head`.
fn rules(count: usize) -> Classifier {
    let field = |name: &str, value| vec![FieldSpec { name: name.into(), value }];
    let rules: Vec<_> = (0..count)
        .map(|at| match at % 10 {
            0 => RuleSpec { paths: vec![PathSpec::Exact(format!("/checkout{at}"))], ..RuleSpec::default() },
            1..=4 => RuleSpec { paths: vec![PathSpec::Prefix(format!("/area{at}"))], ..RuleSpec::default() },
            5 => {
                RuleSpec { paths: vec![PathSpec::Glob(format!("/static/*/v{at}/**"))], ..RuleSpec::default() }
            }
            6 => RuleSpec {
                paths: vec![PathSpec::Regex(format!("/items/[0-9]+/{at}"))],
                ..RuleSpec::default()
            },
            7 => RuleSpec { methods: vec!["POST".into(), "PUT".into()], ..RuleSpec::default() },
            8 => RuleSpec {
                cookies: field("tier", ValueSpec::Exact(format!("gold{at}"))),
                ..RuleSpec::default()
            },
            _ => RuleSpec {
                headers: field("x-tenant", ValueSpec::Exact(format!("t{at}"))),
                ..RuleSpec::default()
            },
        })
        .collect();
    Classifier::compile(&rules, |_| None).expect("sound rules")
}

fn examined(count: usize, path: &'static str) -> (Classifier, Head) {
    let (rules, head) = (rules(count), Head { path });
    assert_eq!(rules.classify(&head).rule, None);
    (rules, head)
}

/// One rule that holds and lets the `Priority` field count.
fn with_priority_header() -> (Classifier, Head) {
    let rule = RuleSpec {
        paths: vec![PathSpec::Prefix("/catalogue".into())],
        verdict: VerdictSpec { priority_header: true, ..VerdictSpec::default() },
        ..RuleSpec::default()
    };
    let rules = Classifier::compile(&[rule], |_| Some(ClassId(0))).expect("sound rule");
    (rules, Head { path: "/catalogue/garden/chairs" })
}

#[library_benchmark]
#[bench::rules_0(examined(0, "/catalogue/garden/chairs"))]
#[bench::rules_10(examined(10, "/catalogue/garden/chairs"))]
#[bench::rules_60(examined(60, "/catalogue/garden/chairs"))]
#[bench::rules_10_path_escaped(examined(10, "/catalogue/%67arden/../chairs"))]
#[bench::rule_1_priority_header(with_priority_header())]
fn classify(input: (Classifier, Head)) -> (Verdict, (Classifier, Head)) {
    let verdict = black_box(&input.0).classify(black_box(&input.1));
    (black_box(verdict), input)
}

const NOW: Timestamp = Timestamp::from_nanos(1 << 60);

/// A table of 10,000 places with this many clients in it.
fn tracked(clients: u64) -> ClientRates {
    let settings = ClientRateSettings { rate_per_s: Some(10.0), burst: 20.0, tracked_max: 10_000 };
    let mut rates = ClientRates::new(NOW, settings);
    for key in 0..clients {
        assert_eq!(rates.take(NOW, key.wrapping_mul(0x9E37_79B9_7F4A_7C15)), Ok(()));
    }
    rates
}

#[library_benchmark]
#[bench::known(tracked(5_000), 17_u64.wrapping_mul(0x9E37_79B9_7F4A_7C15))]
#[bench::new(tracked(5_000), 3)]
#[bench::evicting(tracked(10_000), 3)]
fn client_rate(mut rates: ClientRates, key: u64) -> (Result<(), RetryAfter>, ClientRates) {
    let taken = black_box(&mut rates).take(black_box(NOW), black_box(key));
    (black_box(taken), rates)
}

fn ten_servers(policy: BalancePolicy) -> (Balancer, Vec<Candidate>) {
    let candidates: Vec<_> = (0..10)
        .map(|id| Candidate {
            id: ServerId(id),
            key: u64::from(id),
            weight: 100,
            in_flight: u32::from(id % 3),
            in_flight_max: Some(50),
            ewma: Duration::from_millis(5 + u64::from(id)),
        })
        .collect();
    let mut balancer = Balancer::new(policy);
    assert!(balancer.choose(1, &candidates, 1, 1).is_some());
    (balancer, candidates)
}

#[library_benchmark]
#[bench::round_robin(ten_servers(BalancePolicy::RoundRobin))]
#[bench::least_in_flight(ten_servers(BalancePolicy::LeastInFlight))]
#[bench::power_of_two(ten_servers(BalancePolicy::PowerOfTwo))]
#[bench::consistent_hash(ten_servers(BalancePolicy::ConsistentHash))]
fn balance(input: (Balancer, Vec<Candidate>)) -> (Option<ServerId>, (Balancer, Vec<Candidate>)) {
    let (mut balancer, candidates) = input;
    let chosen =
        balancer.choose(1, black_box(&candidates), black_box(0x5EED), black_box(0x1234_5678_9ABC_DEF0));
    (black_box(chosen), (balancer, candidates))
}

library_benchmark_group!(name = request, benchmarks = [classify, client_rate, balance]);
main!(library_benchmark_groups = request);
