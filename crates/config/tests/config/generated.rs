//! Properties over generated settings, knobs and texts.

use std::{net::SocketAddr, path::Path, time::Duration};

use proptest::{collection::vec, option, prelude::*, sample::select};
use tidegate_config::*;
use tidegate_control::{
    archive::{Layout, Resolution},
    classify::{FieldSpec, PathSpec, RouteSpec, RuleSpec, TlsSpec, ValueSpec, VerdictSpec},
    controller::OnFailure,
    knobs::{Kind, Knob, Scope, Value, Values, keys},
};

/// A value that the row allows, chosen by two numbers.
fn value(knob: Knob, whole: u64, real: f64) -> Value {
    if knob.is_optional() && whole.is_multiple_of(5) {
        return Value::None;
    }
    match knob.kind() {
        Kind::Count { min, max } => Value::Count(min + whole % (max - min + 1)),
        Kind::Size { min, max } => Value::Size(min + whole % (max - min + 1)),
        Kind::Span { min, max } => {
            let room = u64::try_from((max - min).as_nanos()).unwrap();
            Value::Span(min + Duration::from_nanos(whole % (room + 1)))
        }
        Kind::Rate { min, max } => Value::Rate(min + real * (max - min)),
        Kind::Ratio { min, max } => Value::Ratio(min + real * (max - min)),
        Kind::Flag => Value::Flag(whole.is_multiple_of(2)),
        Kind::Choice(names) => Value::Choice(names[usize::try_from(whole).unwrap() % names.len()]),
    }
}

fn knobs_of(scope: Scope) -> impl Strategy<Value = Values> {
    let knobs: Vec<_> = Knob::ALL.iter().copied().filter(move |knob| knob.scope() == scope).collect();
    vec(option::of((any::<u64>(), 0.0..=1.0)), knobs.len()).prop_map(move |numbers| {
        let mut values = Values::defaults(scope);
        for (knob, numbers) in knobs.iter().zip(numbers) {
            if let Some((whole, real)) = numbers {
                values.set(*knob, value(*knob, whole, real)).unwrap();
            }
        }
        // What must agree, does.
        for (low, high) in [
            (Knob::IN_FLIGHT_MIN, Knob::IN_FLIGHT_MAX),
            (Knob::QUEUE_CODEL_TARGET, Knob::QUEUE_CODEL_INTERVAL),
            (Knob::CAPACITY_FLOOR, Knob::CAPACITY_CEILING),
        ] {
            if low.scope() == scope {
                values.set(low, values.value(high)).unwrap();
            }
        }
        values
    })
}

fn file() -> impl Strategy<Value = std::path::PathBuf> {
    "/[a-zé \"'\\\\#]{1,12}".prop_map(Into::into)
}

fn certificate() -> impl Strategy<Value = Certificate> {
    (file(), file()).prop_map(|(chain, key)| Certificate { chain, key })
}

fn client_key() -> impl Strategy<Value = ClientKey> {
    prop_oneof![
        (0..=32_u8, 0..=128_u8).prop_map(|(v4, v6)| ClientKey::Network { v4, v6 }),
        "x-[a-z]{1,8}".prop_map(ClientKey::Header),
        "[a-zA-Z_.!]{1,8}".prop_map(ClientKey::Cookie),
    ]
}

fn networks() -> impl Strategy<Value = Vec<ipnet::IpNet>> {
    vec(select(vec!["10.0.0.0/8", "192.0.2.7/32", "fd00::/8", "::1/128"]), 0..3)
        .prop_map(|texts| texts.into_iter().map(|text| text.parse().unwrap()).collect())
}

fn tls() -> impl Strategy<Value = ListenerTls> {
    let client_auth = prop_oneof![
        Just(ClientAuth::Off),
        file().prop_map(ClientAuth::Optional),
        file().prop_map(ClientAuth::Required)
    ];
    let min_version = select(vec![TlsVersion::V12, TlsVersion::V13]);
    let cipher_order = select(vec![CipherOrder::Gateway, CipherOrder::Client]);
    (vec(certificate(), 1..3), client_auth, min_version, cipher_order, any::<bool>()).prop_map(
        |(certificates, client_auth, min_version, cipher_order, http2)| ListenerTls {
            certificates,
            client_auth,
            min_version,
            cipher_order,
            http2,
        },
    )
}

/// A listener at a port or socket of its own.
fn listener(number: u16) -> impl Strategy<Value = Listener> {
    let address = prop_oneof![
        any::<[u8; 4]>().prop_map(move |ip| Address::Tcp(SocketAddr::from((ip, 1000 + number)))),
        any::<[u16; 8]>().prop_map(move |ip| Address::Tcp(SocketAddr::from((ip, 1000 + number)))),
        Just(Address::Unix(format!("/run/{number} x.sock").into())),
    ];
    let application = option::of(Just("app-0".to_owned()));
    (address, option::of(tls()), any::<bool>(), networks(), option::of(1..=u16::MAX), application).prop_map(
        move |(address, tls, proxy_protocol, trusted, redirect, application)| Listener {
            name: format!("listener-{number}"),
            address,
            group: "group".to_owned(),
            proxy_protocol: proxy_protocol && !trusted.is_empty(),
            trusted,
            redirect_to_https: redirect.filter(|_| tls.is_none()),
            tls,
            application,
        },
    )
}

fn server(number: u16) -> impl Strategy<Value = Server> {
    let address = prop_oneof![
        ("[a-z][a-z0-9-]{0,8}[.]example", 1..=u16::MAX)
            .prop_map(|(host, port)| ServerAddress::Host { host, port }),
        any::<std::net::Ipv6Addr>().prop_map(|host| ServerAddress::Host { host: host.to_string(), port: 80 }),
        file().prop_map(ServerAddress::Unix),
    ];
    (address, knobs_of(Scope::Server)).prop_map(move |(address, values)| Server {
        name: format!("[s]:{number}"),
        address,
        values,
    })
}

fn upstream() -> impl Strategy<Value = Upstream> {
    let tls =
        (option::of("[a-z]{1,8}[.]example"), option::of(file()), option::of(certificate()), any::<bool>())
            .prop_map(|(server_name, ca, certificate, insecure)| UpstreamTls {
                server_name,
                ca,
                certificate,
                insecure,
            });
    let protocol = select(vec![UpstreamProtocol::Http1, UpstreamProtocol::Http2, UpstreamProtocol::Auto]);
    let proxy = option::of(select(vec![ProxyVersion::V1, ProxyVersion::V2]));
    let host = option::of("[a-z]{1,8}[.]example(:[1-9][0-9]{0,3})?");
    (option::of(tls), protocol, proxy, host, option::of("[a-z]{1,8}"), client_key(), "/[a-z?=&/]{0,8}")
        .prop_map(|(tls, protocol, proxy_protocol, host, sticky_cookie, hash, probe_path)| Upstream {
            tls,
            protocol,
            proxy_protocol,
            host,
            sticky_cookie,
            hash,
            probe_path,
        })
}

fn header_edits() -> impl Strategy<Value = Vec<HeaderEdit>> {
    let (name, value) = (|| "x-[a-z0-9]{1,8}", || "[ -~]{0,12}");
    vec(
        prop_oneof![
            (name(), value()).prop_map(|(name, value)| HeaderEdit::Set { name, value }),
            (name(), value()).prop_map(|(name, value)| HeaderEdit::Add { name, value }),
            name().prop_map(|name| HeaderEdit::Remove { name }),
        ],
        0..3,
    )
}

fn response_edits() -> impl Strategy<Value = Vec<ResponseEdit>> {
    let always = |edit| {
        let may_be = !matches!(edit, HeaderEdit::Remove { .. });
        any::<bool>().prop_map(move |always| ResponseEdit { edit: edit.clone(), always: always && may_be })
    };
    header_edits().prop_flat_map(move |edits| edits.into_iter().map(always).collect::<Vec<_>>())
}

fn fields() -> impl Strategy<Value = Vec<FieldSpec>> {
    let value = prop_oneof![
        Just(ValueSpec::Present),
        Just(ValueSpec::Absent),
        "[ -~é]{0,8}".prop_map(ValueSpec::Exact),
        "[ -~é]{0,8}".prop_map(ValueSpec::Prefix),
        "[a-z\"']{0,4}[(][a-z]+[)][*]".prop_map(ValueSpec::Regex),
    ];
    vec(value, 0..3).prop_map(|values| {
        let named = values.into_iter().enumerate();
        named.map(|(at, value)| FieldSpec { name: format!("x.{at}"), value }).collect()
    })
}

/// Paths as rules hold them: kind by kind.
fn paths() -> impl Strategy<Value = Vec<PathSpec>> {
    let each = |make: fn(String) -> PathSpec| vec("/[a-z\"/]{0,6}".prop_map(make), 0..2);
    (each(PathSpec::Exact), each(PathSpec::Prefix), each(PathSpec::Glob), each(PathSpec::Regex))
        .prop_map(|(exact, prefix, glob, regex)| [exact, prefix, glob, regex].concat())
}

fn rule() -> impl Strategy<Value = RuleSpec> {
    let deadline = option::of((1_000_000..3_600_000_000_000_u64).prop_map(Duration::from_nanos));
    let verdict =
        (
            select(vec![String::new(), "class-0".to_owned()]),
            option::of(0..=7_u8),
            option::of(1..=100_000_u32),
            deadline,
            option::of("x-[a-z]{1,8}"),
            any::<bool>(),
        )
            .prop_map(|(class, priority, weight, deadline, deadline_header, priority_header)| {
                VerdictSpec { class, priority, weight, deadline, deadline_header, priority_header }
            });
    rule_with(verdict)
}

fn route() -> impl Strategy<Value = RouteSpec> {
    rule_with(select(vec!["app-0".to_owned(), "app-1".to_owned()]))
}

fn rule_with<V: std::fmt::Debug>(verdict: impl Strategy<Value = V>) -> impl Strategy<Value = RuleSpec<V>> {
    let hosts = || vec(select(vec!["a.example".to_owned(), "*.b.example".to_owned()]), 0..2);
    let tls = (option::of(Just(true)), option::of(any::<bool>()), option::of(any::<bool>()), hosts())
        .prop_map(|(secure, resumed, client_certificate, server_names)| TlsSpec {
            secure,
            resumed,
            client_certificate,
            server_names,
        });
    let methods = vec(select(vec!["GET".to_owned(), "BREW".to_owned()]), 0..2);
    (methods, hosts(), paths(), fields(), fields(), fields(), networks(), tls, verdict).prop_map(
        |(methods, hosts, paths, headers, query, cookies, clients, tls, verdict)| RuleSpec {
            methods,
            hosts,
            paths,
            headers,
            query,
            cookies,
            clients,
            tls,
            verdict,
        },
    )
}

fn classes() -> impl Strategy<Value = Vec<Class>> {
    let message = || option::of("[ -~]{1,20}");
    (vec((knobs_of(Scope::Class), message()), 1..3), any::<bool>()).prop_map(|(all, follows)| {
        let named = all.into_iter().enumerate();
        let class = |(at, (values, closed_message))| {
            let waiting_room = ClassWaitingRoom { group: None, closed_message };
            Class { name: format!("class-{at}"), values, waiting_room }
        };
        let mut classes: Vec<Class> = named.map(class).collect();
        if follows {
            let group = Some("class-0".to_owned());
            classes.push(Class {
                name: "follows".to_owned(),
                values: Values::defaults(Scope::Class),
                waiting_room: ClassWaitingRoom { group, closed_message: None },
            });
        }
        classes
    })
}

fn application(number: u16) -> impl Strategy<Value = Application> {
    let rewrites = vec(
        "[a-z\"]{0,6}"
            .prop_map(|text| Rewrite { pattern: format!("^/{text}(.*)"), replacement: "/$1".to_owned() }),
        0..2,
    );
    let servers = (server(0), server(1), 0..=2_usize).prop_map(|(a, b, count)| {
        let mut servers = vec![a, b];
        servers.truncate(count);
        servers
    });
    (
        (knobs_of(Scope::Application), classes(), vec(rule(), 0..3), servers, upstream(), client_key()),
        (
            header_edits(),
            response_edits(),
            rewrites,
            option::of(file()),
            waiting_room(),
            option::of(processors()),
        ),
    )
        .prop_map(
            move |(
                (values, classes, rules, servers, upstream, client_key),
                (request_headers, response_headers, rewrites, maintenance_page, waiting_room, processors),
            )| Application {
                name: format!("app-{number}"),
                hosts: match (number, values.get(keys::MAINTENANCE)) {
                    (0, _) => None,
                    (_, true) => Some(Vec::new()),
                    _ => Some(vec![format!("*.h{number}.example"), "[::1]".to_owned()]),
                },
                values,
                classes,
                rules,
                servers,
                upstream,
                client_key,
                request_headers,
                response_headers,
                rewrites,
                maintenance_page,
                waiting_room,
                processors,
            },
        )
}

fn processors() -> impl Strategy<Value = Processors> {
    (file(), "[a-z]{1,8}").prop_map(|(socket, name)| Processors { socket, name })
}

fn waiting_room() -> impl Strategy<Value = WaitingRoom> {
    let assets = prop_oneof![Just(WaitingRoom::default().assets), vec("[.][a-z\"]{1,4}", 0..3),];
    let words = (option::of(file()), option::of("[ -~]{1,20}"), option::of(client_key()), assets);
    let origin = || "https?://[a-z]{1,5}:[1-9][0-9]{1,3}";
    let report = (origin(), option::of(file()), option::of(file()), option::of(certificate()))
        .prop_map(|(to, token_file, ca, certificate)| RoomReport { to, token_file, ca, certificate });
    (words, option::of(origin()), option::of(origin()), option::of(report)).prop_map(
        |((page, closed_message, bind, assets), check_url, generate_url, report)| WaitingRoom {
            page,
            closed_message,
            bind,
            assets,
            check_url,
            generate_url,
            report,
        },
    )
}

fn controller() -> impl Strategy<Value = Controller> {
    let on_failure = select(vec![OnFailure::Keep, OnFailure::Revert]);
    let span = |from: u64| (from..1000).prop_map(Duration::from_millis);
    let counts = (1..1000_u32, 1000..1_000_000_u64, 1_u64 << 20..1 << 30, 0..1_u64 << 60);
    ("[a-z]{1,8}", file(), on_failure, counts, span(10), span(1)).prop_map(
        |(name, file, on_failure, (strikes, turn_steps, memory, seed), every_min, turn_time)| Controller {
            name,
            file,
            on_failure,
            strikes,
            every_min,
            turn_steps,
            turn_time,
            memory,
            seed,
        },
    )
}

fn admin_access() -> impl Strategy<Value = AdminAccess> {
    let role = || select(vec![Role::Check, Role::Read, Role::Operator]);
    let clients = (file(), role()).prop_map(|(authorities, role)| AdminClients { authorities, role });
    let tls = (certificate(), option::of(clients))
        .prop_map(|(certificate, clients)| AdminTls { certificate, clients });
    let token = (file(), role(), any::<bool>()).prop_map(|(file, role, of_one)| {
        let applications = if of_one && role == Role::Check { vec!["app-0".to_owned()] } else { Vec::new() };
        AdminToken { name: "ada".to_owned(), file, role, applications }
    });
    (vec("[a-z]{1,8}", 0..3), vec(token, 0..=1), option::of(tls))
        .prop_map(|(hosts, tokens, tls)| AdminAccess { hosts, tokens, tls })
}

fn telemetry() -> impl Strategy<Value = Telemetry> {
    let endpoint = (any::<bool>(), "[a-z]{1,8}[.]example", 1..=u16::MAX, select(vec!["", "/otlp", "/a/b"]))
        .prop_map(|(tls, host, port, prefix)| CollectorUrl { tls, host, port, prefix: prefix.to_owned() });
    let place =
        prop_oneof![file().prop_map(SecretPlace::File), "[A-Z_]{1,8}".prop_map(SecretPlace::Environment)];
    let header = place.prop_map(|value| TelemetryHeader { name: "x-tenant".to_owned(), value });
    let resource = vec(("[a-z]{1,4}[.][a-z_]{1,4}", "[a-zé\"=]{1,8}"), 0..3);
    let times = (10..=60_000_u64, option::of(1..=3600_u64));
    let parent = select(vec![TraceParent::Trusted, TraceParent::All, TraceParent::None]);
    (endpoint, "[a-z\"]{1,8}", resource, vec(header, 0..=1), option::of(file()), times, parent).prop_map(
        |(endpoint, service_name, resource, headers, ca, (timeout, interval), parent)| Telemetry {
            endpoint,
            service_name,
            resource,
            headers,
            ca,
            timeout: Duration::from_millis(timeout),
            metrics_interval: interval.map(Duration::from_secs),
            parent,
        },
    )
}

fn settings() -> impl Strategy<Value = Settings> {
    let loopback = select(vec![std::net::IpAddr::from([127, 0, 0, 1]), std::net::Ipv6Addr::LOCALHOST.into()]);
    let admin = option::of((loopback, any::<u16>()).prop_map(SocketAddr::from));
    let target = prop_oneof![Just(LogTarget::Stdout), file().prop_map(LogTarget::File)];
    let format = select(vec![LogFormat::Json, LogFormat::Common, LogFormat::CommonTimed]);
    let log = option::of((target, format).prop_map(|(target, format)| AccessLog { target, format }));
    let threads = option::of(1..=1024_usize);
    (
        (
            knobs_of(Scope::Host),
            (admin, admin_access()),
            threads,
            log,
            vec(controller(), 0..=1),
            (option::of(file()), 16_u64..4096, archives()),
            option::of(telemetry()),
        ),
        (listener(0), listener(1)),
        (application(0), application(1), vec(route(), 0..3)),
    )
        .prop_map(
            |((host, admin, threads, access_log, controllers, state, telemetry), listeners, applications)| {
                Settings {
                    host,
                    admin: admin.0,
                    admin_access: admin.1,
                    workers: vec![WorkerGroup { name: "group".to_owned(), threads }],
                    listeners: <[_; 2]>::from(listeners).into(),
                    applications: vec![applications.0, applications.1],
                    routes: applications.2,
                    access_log,
                    telemetry,
                    controllers,
                    state_directory: state.0,
                    state_bytes_max: state.1 << 20,
                    archives: state.2,
                }
            },
        )
}

fn archives() -> impl Strategy<Value = Layout> {
    let resolutions = (1..10_000_u64, vec((2..9_u32, 1..50_u32), 1..4)).prop_map(|(first_ms, rest)| {
        let mut resolutions: Vec<Resolution> = Vec::new();
        let mut step = Duration::from_millis(first_ms);
        for (factor, points) in rest {
            resolutions.push(Resolution { step, keep: step * factor.max(points) });
            step *= factor;
        }
        resolutions
    });
    resolutions.prop_filter_map("a layout", |resolutions| Layout::new(&resolutions, Layout::POINT_BYTES).ok())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_printed_reads_back(settings in settings()) {
        let printed = print(&settings);
        match parse(&printed, Path::new("/"), "printed") {
            Ok(again) => prop_assert_eq!(again, settings),
            Err(faults) => prop_assert!(false, "{}\n{}", faults, printed),
        }
    }

    #[test]
    fn every_knob_reads_back_dotted_and_nested(whole in any::<u64>(), real in 0.0..=1.0) {
        for knob in Knob::ALL.iter().copied() {
            // Such that the knobs that must agree do: the higher one first.
            let value = match knob {
                Knob::IN_FLIGHT_MIN => Value::Count(7),
                Knob::IN_FLIGHT_MAX => Value::Count(1 + whole % 1_000_000),
                Knob::QUEUE_CODEL_TARGET => Value::Span(Duration::from_millis(7)),
                Knob::QUEUE_CODEL_INTERVAL => Value::Span(Duration::from_millis(20 + whole % 1000)),
                _ => value(knob, whole, real),
            };
            let written = match value {
                Value::Count(_) | Value::Ratio(_) | Value::Flag(_) => value.to_string(),
                _ => format!("\"{value}\""),
            };
            let (folder, leaf) = knob.name().rsplit_once('.').map_or((None, knob.name()), |(f, l)| (Some(f), l));
            let forms = [
                Some(format!("{} = {written}", knob.name())),
                folder.map(|folder| format!("{folder} = {{ {leaf} = {written} }}")),
            ];
            for form in forms.into_iter().flatten() {
                let line = |scope| if scope == knob.scope() { form.as_str() } else { "" };
                let server = line(Scope::Server);
                let text = format!(
                    "{}\n[[listener]]\naddress = \"[::]:80\"\n[application.a]\n{}\nservers = [{{ name = \"s\", url = \"http://h\"{}{server} }}]\n[application.a.class.c]\n{}\n",
                    line(Scope::Host),
                    line(Scope::Application),
                    if server.is_empty() { "" } else { ", " },
                    line(Scope::Class),
                );
                let settings = parse(&text, Path::new("/"), "text").unwrap_or_else(|faults| panic!("{faults}\n{text}"));
                let path = match knob.scope() {
                    Scope::Host => knob.name().to_owned(),
                    Scope::Application => format!("a/{}", knob.name()),
                    Scope::Class => format!("a/c/{}", knob.name()),
                    Scope::Server => format!("a/servers/s/{}", knob.name()),
                };
                prop_assert_eq!(settings.get(&KnobPath::parse(&path).unwrap()), Ok(value), "{}", form);
            }
        }
    }
}

/// What holds of every text: it is read, and then reads back, or refused with places in it.
fn holds(text: &str) {
    match parse(text, Path::new("/"), "text") {
        Ok(settings) => {
            let printed = print(&settings);
            // Who reads back what was hidden is asked for it.
            if !printed.contains("\"(hidden)\"") {
                assert_eq!(parse(&printed, Path::new("/"), "printed"), Ok(settings), "{printed}");
            }
        }
        Err(faults) => {
            let lines = text.split('\n').count();
            for fault in &faults.faults {
                let place = fault.place.expect("a fault of a text has a place");
                assert!(place.line >= 1 && place.column >= 1 && place.line <= lines, "{fault:?}");
                assert!(!fault.to_string().contains('\n'), "one line a fault: {fault:?}");
            }
        }
    }
}

/// What names a knob, and what is written of its value, reads back.
#[test]
fn fuzz_paths_and_values_of_knobs() {
    let places = ["", "a/", "a/c/", "a/servers/s/"];
    type Said = (usize, usize, String, (u32, u32, String));
    bolero::check!().with_type::<Said>().for_each(|(place, knob, of, (whole, part, text))| {
        let knob = Knob::ALL[knob % Knob::ALL.len()];
        let place = places[place % places.len()];
        for path in [format!("{place}{}", knob.name()), format!("{of}/{}", knob.name()), of.clone()] {
            let Ok(path) = KnobPath::parse(&path) else { continue };
            assert_eq!(KnobPath::parse(&path.to_string()).as_ref(), Ok(&path));
            for value in [text.clone(), format!("{}", whole % 2000), format!("{}.{part}", whole % 100)] {
                for unit in ["", "/s", "/min", "ms", "d", "KiB", "GB"] {
                    let Ok(read) = path.read(&format!("{value}{unit}")) else { continue };
                    assert!(path.knob.check(read).is_ok());
                    assert_eq!(path.read(&read.to_string()), Ok(read), "{path}: {value}{unit}");
                }
            }
        }
    });
}

#[test]
fn fuzz_any_text() {
    bolero::check!().with_iterations(2000).for_each(|bytes: &[u8]| holds(&String::from_utf8_lossy(bytes)));
}

/// Files that people could have written, with a few octets changed.
#[test]
fn fuzz_a_file_with_slips() {
    let files = [
        include_str!("../golden/bad.toml"),
        include_str!("../../../../examples/classes.toml"),
        include_str!("../../../../examples/several-applications.toml"),
        include_str!("../../../../examples/tls.toml"),
    ];
    let slips = bolero::generator::produce::<Vec<(u16, u8, bool)>>().with().len(0..6_usize);
    bolero::check!().with_iterations(500).with_generator((0..files.len(), slips)).for_each(
        |(file, slips)| {
            let mut text = files[*file].as_bytes().to_vec();
            for (at, byte, insert) in slips {
                let at = usize::from(*at) % text.len();
                if *insert {
                    text.insert(at, *byte);
                } else {
                    text[at] = *byte;
                }
            }
            holds(&String::from_utf8_lossy(&text));
        },
    );
}
