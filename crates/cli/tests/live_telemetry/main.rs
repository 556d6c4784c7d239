//! Metrics and traces of a running gateway at an OpenTelemetry collector: values, parents, losses, secrets.

#[path = "../support/mod.rs"]
mod support;

mod collector;

use std::{
    collections::BTreeSet,
    fs,
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener},
    process::Command,
    sync::{Arc, Mutex, PoisonError},
};

use collector::{Collector, Received, carries, text};
use opentelemetry_proto::tonic::metrics::v1::{Metric, metric::Data};
use support::{
    Gateway, Start,
    admin::{Metrics, api, await_metrics, open_metrics},
    client::{Client, get},
    free_address,
    origin::{Origin, respond},
    write_certificate,
};

/// A caller's span, sampled, and its trace.
const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

/// What no log, answer or page may show.
const SECRET: &str = "Bearer hush-hush-hush";

/// A gateway before an origin that keeps what it was told of the trace.
struct Front {
    gateway: Gateway,
    listen: SocketAddr,
    admin: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
    _origin: Origin,
    /// What stands behind the first table in the file.
    rest: String,
}

/// Path, `traceparent` and `tracestate` of a request at the origin.
type Seen = (String, Option<String>, Option<String>);

impl Front {
    fn start(telemetry: &str, files: &[(&str, &str)]) -> Self {
        let (listen, admin) = (free_address(), free_address());
        let seen = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&seen);
        let origin = Origin::start(move |request, stream| {
            let field = |name| request.header(name).map(str::to_owned);
            let entry = (request.path.clone(), field("traceparent"), field("tracestate"));
            noted.lock().unwrap_or_else(PoisonError::into_inner).push(entry);
            respond(stream, if request.path == "/missing" { 404 } else { 200 }, b"hello\n")
        });
        let directory = tempfile::tempdir().expect("a directory for the test");
        for (name, text) in files {
            fs::write(directory.path().join(name), text).expect("write a file");
        }
        // One worker, so that spans come in the order of requests.
        let rest = format!(
            "[[workers]]\nthreads = 1\n[[listener]]\nname = \"web\"\naddress = \"{listen}\"\n\
             [application.shop]\nservers = [{{ name = \"one\", url = \"{}\" }}]\n",
            origin.url()
        );
        let configuration = format!("admin = \"{admin}\"\n{telemetry}\n{rest}");
        let gateway = Gateway::run_in(directory, &configuration, &Start::default());
        Self { gateway, listen, admin, seen, _origin: origin, rest }
    }

    /// Puts other telemetry in force.
    fn reload(&self, telemetry: &str, times: usize) {
        self.gateway.write_configuration(&format!("admin = \"{}\"\n{telemetry}\n{}", self.admin, self.rest));
        self.gateway.log.await_line("new configuration in force", times);
    }

    /// What the origin was told with the last request to a path.
    fn seen(&self, path: &str) -> Seen {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.iter().rev().find(|seen| seen.0 == path).cloned().expect("it came")
    }

    fn set(&self, knob: &str, value: &str) {
        let body = format!("{{\"changes\": {{\"{knob}\": {value}}}}}");
        let answer = api(self.admin, "PATCH", "/api/v1/knobs", &body);
        assert_eq!(answer.status, 200, "{body}: {}", answer.text());
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn metrics_arrive_with_the_values_that_were_counted() {
    let collector = Collector::start();
    let telemetry = format!(
        "[telemetry]\nendpoint = \"{}\"\nservice_name = \"edge\"\nmetrics.interval = \"1s\"\n\
         resource = [\"deployment.environment.name=test\"]\n\
         [[telemetry.header]]\nname = \"authorization\"\nfile = \"collector.token\"\n",
        collector.url()
    );
    let front = Front::start(&telemetry, &[("collector.token", SECRET)]);
    let mut client = Client::connect(front.listen).expect("connect");
    for path in ["/", "/", "/missing", "/", "/"] {
        client.get(path, "").expect("an answer");
    }
    let class = [("application", "shop"), ("class", "default")];
    let answered = |received: &Received, status| {
        received.value("tidegate.class.responses", &[class[0], class[1], ("status", status)])
    };
    collector.wait_for("five responses counted", |received| {
        let (fine, missing) = (answered(received, "2xx")?, answered(received, "4xx")?);
        (fine + missing == 5.0).then_some(())
    });
    let received = collector.received();
    assert_eq!(
        ["2xx", "4xx", "5xx"].map(|status| answered(&received, status)),
        [Some(4.0), Some(1.0), Some(0.0)]
    );
    assert_eq!(received.value("tidegate.class.arrived", &class), Some(5.0));
    assert_eq!(received.value("tidegate.class.goodput", &class), Some(5.0));
    let server = received.metric("tidegate.server.requests").expect("of servers");
    let Some(Data::Sum(requests)) = &server.data else { panic!("{server:?}") };
    let name = text(&requests.data_points[0].attributes, "server").expect("its server");
    assert!(name.starts_with("one@127.0.0.1:"), "{name}");
    let waits = received.metric("tidegate.class.waiting_time").expect("a distribution");
    assert_eq!(waits.unit, "s");
    let Some(Data::Histogram(waits)) = &waits.data else { panic!("{waits:?}") };
    let point = waits.data_points.iter().find(|point| carries(&point.attributes, &class)).expect("the class");
    assert_eq!((point.count, point.bucket_counts.iter().sum::<u64>()), (5, 5));
    assert!(point.start_time_unix_nano > 0 && point.start_time_unix_nano < point.time_unix_nano);
    assert!(carries(
        received.resource(),
        &[
            ("service.name", "edge"),
            ("deployment.environment.name", "test"),
            ("service.version", env!("CARGO_PKG_VERSION"))
        ]
    ));
    assert!(text(received.resource(), "host.name").is_some_and(|host| !host.is_empty()));
    assert_eq!(received.headers["authorization"], SECRET);
    assert_eq!(received.headers["content-type"], "application/x-protobuf");
    drop(received);

    // The same meters as at /metrics, by the same names; some come to be read only after a while.
    let exported = collector.wait_for("the families of /metrics", |received| {
        let scopes = received.metrics.iter().flat_map(|message| &message.resource_metrics);
        let metrics = scopes.flat_map(|of| &of.scope_metrics).flat_map(|of| &of.metrics);
        let exported: BTreeSet<String> = metrics.map(family).collect();
        (exported == families(&open_metrics(front.admin))).then_some(exported)
    });
    assert!(exported.len() > 40, "{exported:?}");

    // The secret is nowhere else.
    let file = front.gateway.directory.path().join("tidegate.toml");
    let printed = Command::new(env!("CARGO_BIN_EXE_tidegate")).args(["check", "--print"]).arg(&file).output();
    let printed = String::from_utf8(printed.expect("it runs").stdout).expect("UTF-8");
    assert!(printed.contains("telemetry.header") && printed.contains("collector.token"), "{printed}");
    let answers = ["/api/v1/overview", "/api/v1/knobs", "/metrics"].map(|path| get(front.admin, path));
    let answers = answers.map(|answer| answer.expect("an answer").text());
    for shown in answers.iter().chain([&printed]) {
        assert!(!shown.contains("hush"), "{shown}");
    }
    assert_eq!(front.gateway.log.lines_with("hush").len(), 0);
    front.gateway.stop_sound();
}

/// The name that a metric has at `/metrics`.
fn family(metric: &Metric) -> String {
    let name = metric.name.replace('.', "_");
    match metric.unit.as_str() {
        "" => name,
        "s" => format!("{name}_seconds"),
        "By" => format!("{name}_bytes"),
        unit => format!("{name}_{}", unit.trim_matches(['{', '}'])),
    }
}

/// The families of an OpenMetrics page that have a series.
fn families(page: &str) -> BTreeSet<String> {
    let mut families = BTreeSet::new();
    let mut family = String::new();
    for line in page.lines() {
        match line.strip_prefix("# TYPE ").and_then(|rest| rest.split(' ').next()) {
            Some(name) => family = name.to_owned(),
            None if !line.starts_with('#') => drop(families.insert(family.clone())),
            None => {}
        }
    }
    families
}

#[test]
fn a_trace_goes_on_through_the_gateway_and_what_is_not_sampled_is_left_alone() {
    let collector = Collector::start();
    let telemetry = |parent: &str, sample: &str| {
        format!(
            "[telemetry]\nendpoint = \"{}\"\nmetrics.interval = \"none\"\ntraces.parent = \"{parent}\"\n\
             traces.sample = {sample}\n",
            collector.url()
        )
    };
    let front = Front::start(&telemetry("all", "0.0"), &[]);
    let mut client = Client::connect(front.listen).expect("connect");
    let mut ask = |path: &str, headers: &str| client.get(path, headers).expect("an answer").status;
    // Nobody is drawn, and who is not sampled by its caller is not either; its headers go on as they came.
    assert_eq!(ask("/none/1", ""), 200);
    assert_eq!(front.seen("/none/1"), ("/none/1".to_owned(), None, None));
    let unsampled = PARENT.replace("-01", "-00");
    assert_eq!(ask("/none/2", &format!("traceparent: {unsampled}\r\ntracestate: a=1\r\n")), 200);
    assert_eq!(front.seen("/none/2"), ("/none/2".to_owned(), Some(unsampled), Some("a=1".to_owned())));

    let more = format!("traceparent: {PARENT}\r\ntracestate: a=1\r\nuser-agent: test/1\r\n");
    assert_eq!(ask("/traced?q=1&sig=hush", &more), 200);
    let spans = collector.wait_for("the spans of a request", |received| {
        (!received.served("/traced").is_empty()).then(|| received.spans.clone())
    });
    assert!(spans.iter().all(|span| hex(&span.trace_id) == TRACE), "only what was sampled: {spans:?}");
    let [served, exchange] = &spans[..] else { panic!("two spans: {spans:?}") };
    assert_eq!(hex(&served.parent_span_id), "00f067aa0ba902b7");
    assert_eq!(
        (served.name.as_str(), served.kind, served.trace_state.as_str()),
        ("GET shop/default", 2, "a=1")
    );
    assert!(
        carries(
            &served.attributes,
            &[
                ("http.request.method", "GET"),
                ("url.path", "/traced"),
                ("url.query", "q=REDACTED&sig=REDACTED"),
                ("url.scheme", "http"),
                ("http.response.status_code", "200"),
                ("http.response.body.size", "6"),
                ("network.protocol.version", "1.1"),
                ("client.address", "127.0.0.1"),
                ("server.address", "127.0.0.1"),
                ("user_agent.original", "test/1"),
                ("tidegate.application", "shop"),
                ("tidegate.class", "default"),
            ]
        ),
        "{served:?}"
    );
    assert!(text(&served.attributes, "tidegate.waiting_time").is_some(), "{served:?}");
    assert_eq!((exchange.kind, &exchange.parent_span_id), (3, &served.span_id));
    assert!(carries(&exchange.attributes, &[("tidegate.server", "one"), ("server.address", "127.0.0.1")]));
    assert!(served.start_time_unix_nano <= exchange.start_time_unix_nano);
    assert!(exchange.end_time_unix_nano <= served.end_time_unix_nano);
    // The origin's parent is our exchange with it.
    let (_, parent, state) = front.seen("/traced?q=1&sig=hush");
    assert_eq!(parent, Some(format!("00-{TRACE}-{}-01", hex(&exchange.span_id))));
    assert_eq!(state.as_deref(), Some("a=1"));

    // A knob changes the share while it runs; a refusal says why.
    front.set("telemetry.traces.sample", "1.0");
    front.set("shop/maintenance", "true");
    assert_eq!(ask("/refused", ""), 503);
    let refused = collector.wait_for("the span of a refusal", |received| {
        received.served("/refused").first().map(|span| (*span).clone())
    });
    assert!(
        carries(
            &refused.attributes,
            &[
                ("tidegate.reason", "maintenance"),
                ("error.type", "maintenance"),
                ("http.response.status_code", "503")
            ]
        ),
        "{refused:?}"
    );
    assert_eq!((refused.status.map(|status| status.code), refused.parent_span_id.len()), (Some(2), 0));
    front.set("shop/maintenance", "false");

    // What only watches lets it go on, and its span says what it would have done.
    front.set("shop/ingress.mode", "\"watch\"");
    front.set("shop/ingress.burst", "1");
    front.set("shop/ingress.rate", "\"1/min\"");
    assert_eq!([ask("/first", ""), ask("/would", "")], [200, 200]);
    let would = collector.wait_for("the span of a request over the rate", |received| {
        received.served("/would").first().map(|span| (*span).clone())
    });
    assert!(carries(&would.attributes, &[("tidegate.would_refuse", "ingress_rate")]), "{would:?}");
    assert!(would.status.is_none(), "{would:?}");

    // Strangers are not gone by: a trace of our own, and nothing of theirs beside it.
    front.reload(&telemetry("trusted", "1.0"), 1);
    let mut client = Client::connect(front.listen).expect("connect");
    assert_eq!(client.get("/stranger", &more).expect("an answer").status, 200);
    let stranger = collector.wait_for("the span of a stranger's request", |received| {
        received.served("/stranger").first().map(|span| (*span).clone())
    });
    assert_ne!(hex(&stranger.trace_id), TRACE);
    assert_eq!((stranger.parent_span_id.len(), stranger.trace_state.as_str()), (0, ""));
    let (_, parent, state) = front.seen("/stranger");
    assert!(parent.is_some_and(|parent| parent.contains(&hex(&stranger.trace_id))), "one trace");
    assert_eq!(state, None);
    assert!(collector.received().served("/none").is_empty());
    front.gateway.stop_sound();
}

/// Requests that wait at the exporter: those in its channel, and a batch that is being sent.
const HELD_MAX: usize = 4096 + 512;

#[test]
fn without_a_collector_requests_are_served_and_what_it_misses_is_bounded_and_counted() {
    let address = free_address();
    let telemetry = format!(
        "[telemetry]\nendpoint = \"http://{address}\"\nmetrics.interval = \"1s\"\ntraces.sample = 1.0\n"
    );
    let front = Front::start(&telemetry, &[]);
    front.gateway.log.await_line("the collector does not take metrics", 1);
    let mut client = Client::connect(front.listen).expect("connect");
    let sent = HELD_MAX + 400;
    for _ in 0..sent {
        assert_eq!(client.get("/lost", "").expect("an answer").status, 200);
    }
    front.gateway.log.await_line("the collector does not take traces", 1);
    let lost = |metrics: &Metrics| metrics.sum("spans_lost", &[("where", "queue")]);
    let counted = |metrics: &Metrics| metrics.sum("class_responses", &[]) == sent as f64;
    let metrics = await_metrics(front.admin, "every response counted", counted);
    let lost = lost(&metrics) as usize;
    assert!((400..=sent - 4096).contains(&lost), "{lost} of {sent} lost");

    // Once it comes, it gets what was kept, and what is counted goes on from where it was.
    let collector = Collector::start_at(address);
    let kept = sent - lost;
    collector.wait_for("what was kept", |received| (received.served("/lost").len() >= kept).then_some(()));
    assert_eq!(collector.received().served("/lost").len(), kept, "each once");
    let class = [("application", "shop"), ("class", "default")];
    collector.wait_for("what was counted meanwhile", |received| {
        (received.value("tidegate.class.arrived", &class)? == sent as f64).then_some(())
    });
    let lost_there = collector.received().value("tidegate.spans_lost", &[("where", "queue")]);
    assert_eq!(lost_there, Some(lost as f64));
    for what in ["metrics", "traces"] {
        front.gateway.log.await_line(&format!("the collector takes {what} again"), 1);
        let said = front.gateway.log.lines_with(&format!("the collector does not take {what}"));
        assert_eq!(said.len(), 1, "said once: {said:?}");
    }

    // What it will never take is not kept.
    collector.answer_with(400);
    assert_eq!(client.get("/bad", "").expect("an answer").status, 200);
    await_metrics(front.admin, "the loss is counted", |metrics| {
        metrics.sum("spans_lost", &[("where", "collector")]) == 1.0
    });
    collector.answer_with(200);
    assert_eq!(client.get("/good", "").expect("an answer").status, 200);
    collector.wait_for("the next one", |received| (!received.served("/good").is_empty()).then_some(()));
    assert!(collector.received().served("/bad").is_empty());
    front.gateway.stop_sound();
}

/// As where the port is that for gRPC, which speaks HTTP/2 alone.
#[test]
fn what_speaks_no_http1_is_said_to_be_perhaps_the_other_port() {
    let other = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let address = other.local_addr().expect("its address");
    std::thread::spawn(move || {
        for mut stream in other.incoming().map_while(Result::ok) {
            let _ = stream.read(&mut [0; 4096]);
            // Settings, and then it goes away.
            let _ = stream.write_all(b"\0\0\0\x04\0\0\0\0\0\0\0\x08\x07\0\0\0\0\0\0\0\0\0\0\0\x01");
        }
    });
    let telemetry = format!("[telemetry]\nendpoint = \"http://{address}\"\nmetrics.interval = \"1s\"\n");
    let front = Front::start(&telemetry, &[]);
    front.gateway.log.await_line("4318", 1);
    front.gateway.stop_sound();
}

/// As of something in between that answers with pages of its own.
#[test]
fn an_answer_that_is_too_long_says_by_its_status_what_became_of_the_message() {
    let collector = Collector::start();
    let telemetry = format!(
        "[telemetry]\nendpoint = \"{}\"\nmetrics.interval = \"1s\"\ntraces.sample = 1.0\n",
        collector.url()
    );
    let front = Front::start(&telemetry, &[]);
    collector.received().answer_bytes = 200_000;
    for path in ["/first", "/second"] {
        assert_eq!(get(front.listen, path).expect("an answer").status, 200);
        collector.wait_for("it came", |received| (!received.served(path).is_empty()).then_some(()));
    }
    assert_eq!(collector.received().served("/first").len(), 1, "sent once");
    collector.answer_with(400);
    assert_eq!(get(front.listen, "/bad").expect("an answer").status, 200);
    await_metrics(front.admin, "the loss is counted", |metrics| {
        metrics.sum("spans_lost", &[("where", "collector")]) == 1.0
    });
    front.gateway.stop_sound();
}

#[test]
fn a_collector_behind_tls_is_checked_and_the_last_counts_reach_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let (chain, key) = write_certificate(directory.path());
    let collector = Collector::start_tls(&chain, &key);
    // With a byte order mark, as some editors write it.
    let certificate = format!("\u{feff}{}", fs::read_to_string(&chain).expect("the certificate"));
    let telemetry = |ca: &str| {
        format!("[telemetry]\nendpoint = \"{}\"\nmetrics.interval = \"1h\"\n{ca}", collector.url())
    };
    // Another authority first, which has not signed for this collector.
    let other = tempfile::tempdir().expect("a directory");
    let other = fs::read_to_string(write_certificate(other.path()).0).expect("the certificate");
    let files = [("ca.pem", certificate.as_str()), ("other.pem", other.as_str())];
    let front = Front::start(&telemetry("ca = \"other.pem\"\n"), &files);
    front.gateway.log.await_line("the collector does not take metrics", 1);
    assert_eq!(collector.received().messages, 0, "nothing is told to a stranger");
    front.reload(&telemetry("ca = \"ca.pem\"\n"), 1);
    collector.wait_for("metrics", |received| received.metrics.as_ref().map(drop));
    assert_eq!(get(front.listen, "/").expect("an answer").status, 200);
    front.gateway.stop_sound();
    let class = [("application", "shop"), ("class", "default")];
    collector.wait_for("the last counts", |received| {
        (received.value("tidegate.class.arrived", &class)? == 1.0).then_some(())
    });
}

#[test]
fn a_secret_that_is_missing_is_said_before_anything_starts() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("tidegate.toml");
    let configuration = "[telemetry]\nendpoint = \"http://127.0.0.1:4318\"\n[[telemetry.header]]\n\
                         name = \"authorization\"\nenvironment = \"COLLECTOR_TOKEN_OF_THIS_TEST\"\n\
                         [[listener]]\naddress = \"127.0.0.1:0\"\n[application.shop]\n\
                         servers = [\"http://127.0.0.1:8000\"]\n";
    fs::write(&file, configuration).expect("write the configuration");
    let check = |value: Option<&str>| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        command.arg("check").arg(&file).envs(value.map(|value| ("COLLECTOR_TOKEN_OF_THIS_TEST", value)));
        let output = command.output().expect("it runs");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, said) = check(None);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("the environment has no COLLECTOR_TOKEN_OF_THIS_TEST"), "{said}");
    assert_eq!(check(Some(SECRET)).0, Some(0));
    let (code, said) = check(Some("two\nlines"));
    assert_eq!(code, Some(2), "{said}");
    assert!(!said.contains("lines: "), "{said}");
}
