//! `/api/v1/overview`: everything live in one answer, for pages and terminals.

use std::time::Duration;

use serde_json::{Map, Value as Json, json};
use tidegate_config::{self as config, Address, Listener};
use tidegate_control::{
    Timestamp,
    admission::{AdmissionSettings, Modes},
    archive::{Archive, Archives, Query, Stat},
    client_rate::ClientRateSettings,
    knobs::{ChoiceSet as _, Mode, keys},
    meters::Meter,
};
use tidegate_runtime::{Application, HostSample, Recorder};

use crate::{
    capacity,
    events::seconds,
    measurements::{number, read_span, recording},
    parameters::Parameters,
    problem::Problem,
    server::Api,
    servers::unresolved,
    waiting_rooms,
};

/// Time over which rates and percentiles are, unless asked otherwise.
pub(crate) const WINDOW: Duration = Duration::from_secs(5);
const WINDOW_MAX: Duration = Duration::from_secs(600);

/// The window asked for.
pub(crate) fn window(query: Option<&str>) -> Result<Duration, Problem> {
    let parameters = Parameters::read(query, &["window"])?;
    let window = parameters.parsed("window", "a span of time from 1s to 10min", |text| {
        read_span(text).filter(|span| (Duration::from_secs(1)..=WINDOW_MAX).contains(span))
    })?;
    Ok(window.unwrap_or(WINDOW))
}

impl Api {
    /// Everything, with rates over the last whole seconds of `window`.
    pub(crate) async fn overview(&self, window: Duration) -> Result<Json, Problem> {
        let api = self.clone();
        self.overviews.answer(move || api.everything(window)).await
    }

    fn everything(&self, window: Duration) -> Json {
        let shared = &*self.shared;
        let snapshot = shared.snapshot();
        let now = shared.clock().now();
        let to = Recorder::recorded(now);
        let lately = Lately { archives: &shared.measured(), from: to - window, to };
        let mut applications: Vec<Json> =
            snapshot.applications.iter().map(|application| self.application(application, &lately)).collect();
        let gateway = self.gateway(&lately);
        for (row, application) in applications.iter_mut().zip(&snapshot.applications) {
            row["estimate"] = capacity::standing(application, now);
            row["room"] = waiting_rooms::live(shared, application, now);
        }
        json!({
            "at": seconds(now),
            "version": snapshot.version,
            "window_s": window.as_secs_f64(),
            "gateway": gateway,
            "listeners": snapshot.settings.listeners.iter().map(listener).collect::<Vec<_>>(),
            "applications": applications,
            "controllers": self.controllers.describe()["controllers"],
        })
    }

    fn gateway(&self, lately: &Lately<'_>) -> Json {
        let shared = &*self.shared;
        let host = HostSample::read();
        let level = |meter| host.levels().iter().find(|(other, _)| *other == meter).map(|(_, level)| *level);
        let of = lately.of("");
        json!({
            "version": env!("CARGO_PKG_VERSION"),
            "ready": self.is_ready(),
            "started_at": seconds(self.started),
            "connections_open": shared.with_connections(|connections, _| connections.open()),
            "connections_parked": shared.parked().read(),
            "spooled_bytes": shared.spool().used(),
            "connections_accepted": of.rate(Meter::CONNECTIONS_ACCEPTED),
            "connections_refused": of.split(Meter::CONNECTIONS_REFUSED),
            "tls_handshakes": of.split(Meter::HANDSHAKES),
            "broken_prefaces": of.rate(Meter::BROKEN_PREFACES),
            "bad_requests": of.split(Meter::BAD_REQUESTS),
            "events_lost": of.rate(Meter::EVENTS_LOST),
            "cpu": of.rate(Meter::GATEWAY_CPU),
            "host_cpu": of.rate(Meter::HOST_CPU),
            "memory_bytes": level(Meter::GATEWAY_MEMORY),
            "memory_available_bytes": level(Meter::MEMORY_AVAILABLE),
            "cpu_pressure": of.rate(Meter::CPU_PRESSURE),
            "memory_pressure": of.rate(Meter::MEMORY_PRESSURE),
            "io_pressure": of.rate(Meter::IO_PRESSURE),
            "recording": recording(&self.state),
        })
    }

    fn application(&self, application: &Application, lately: &Lately<'_>) -> Json {
        let (settings, state) = (&application.settings, &application.state);
        let name = &settings.name;
        let levels = state.gate().levels();
        let modes = Modes::of_application(&settings.values);
        // Those that are configured no more have ids still, and nothing to show.
        let configured = |class: &str| settings.classes.iter().any(|other| other.name == class);
        let classes: Vec<Json> = application
            .classes
            .iter()
            .enumerate()
            .filter(|(_, class)| configured(&class.name))
            .map(|(index, class)| {
                let path = format!("{name}/{}", class.name);
                let of = lately.of(&path);
                let mut row = json!({
                    "name": class.name,
                    "path": path,
                    "priority": class.values.get(keys::PRIORITY),
                    "weight": class.values.get(keys::WEIGHT),
                    "goodput_within_s": class.values.get(keys::GOODPUT_WITHIN).as_secs_f64(),
                    "modes": modes_of_class(modes, class),
                    "queued": levels.queued.get(index),
                    "would_wait": levels.would_wait.get(index),
                    "cost": levels.costs.get(index).copied().flatten().map(units),
                });
                for (field, meter) in SUMMED {
                    row[*field] = of.rate(*meter);
                }
                for (field, meter) in SPLIT {
                    row[*field] = of.split(*meter);
                }
                row["bytes_in"] = of.rate(Meter::BYTES_IN);
                row["bytes_out"] = of.rate(Meter::BYTES_OUT);
                row["waiting_time"] = of.percentiles(Meter::WAITING_TIME);
                row["service_time"] = of.percentiles(Meter::SERVICE_TIME);
                row["response_time"] = of.percentiles(Meter::RESPONSE_TIME);
                row
            })
            .collect();
        let mut row = json!({
            "name": name,
            "hosts": settings.hosts,
            "mode": settings.values.value(keys::MODE.knob()).to_string(),
            "modes": modes_of_application(modes, settings),
            "algorithm": settings.values.value(keys::IN_FLIGHT_ALGORITHM.knob()).to_string(),
            "refusing": self.watch.refusing(name),
            "in_flight": levels.in_flight,
            "in_flight_limit": levels.limit,
            "in_flight_dormant": levels.dormant,
            "capacity": levels.capacity.map(units),
            "queued": levels.queued.iter().sum::<u64>(),
            // Without shadows there is nothing to count.
            "would_wait": (!levels.would_wait.is_empty()).then(|| levels.would_wait.iter().sum::<u64>()),
            "long_streams": levels.long_streams,
            "awaiting_server": state.awaiting_server().read(),
            "lingering": state.lingering().read(),
        });
        for (field, _) in SUMMED {
            row[*field] = sum(classes.iter().map(|class| &class[*field]));
        }
        for (field, _) in SPLIT {
            row[*field] = sum_split(classes.iter().map(|class| &class[*field]));
        }
        row["tls_sessions"] = levels.tls_sessions.map_or(Json::Null, |sessions| {
            json!({
                "rates": lately.of(name).split(Meter::TLS_SESSIONS),
                "new_per_s": sessions.new_rate.map(units),
                "new_cost": sessions.new_cost.map(units),
                "resumed_cost": sessions.resumed_cost.map(units),
            })
        });
        row["processors"] = state
            .processors()
            .map_or(Json::Null, |processors| json!({ "asked": processors.asked, "given": processors.given }));
        row["classes"] = classes.into();
        row["servers"] = servers(application, lately).into();
        row["unresolved"] = unresolved(application).into();
        row
    }
}

/// The modes in force of an application's own controls; null where one is not set.
fn modes_of_application(modes: Modes, settings: &config::Application) -> Json {
    let values = &settings.values;
    let sessions = values.get(keys::TLS_SESSIONS_MODE).0;
    json!({
        "client": values.get(keys::CLIENT_RATE).map(|_| ClientRateSettings::mode(values).name()),
        "ingress": values.get(keys::APPLICATION_INGRESS_RATE).map(|_| modes.ingress.name()),
        "queue": modes.queue.name(),
        "in_flight": modes.in_flight.name(),
        "egress": values.get(keys::APPLICATION_EGRESS_RATE).map(|_| modes.egress.name()),
        "long_streams": AdmissionSettings::long_streams_mode(values).name(),
        // Off unless it is written.
        "tls_sessions": (sessions != Mode::Off).then(|| sessions.name()),
    })
}

/// The same of a class's, in an application with those modes.
fn modes_of_class(above: Modes, class: &config::Class) -> Json {
    let (modes, values) = (above.of_class(&class.values), &class.values);
    json!({
        "ingress": values.get(keys::INGRESS_RATE).map(|_| modes.ingress.name()),
        "queue": modes.queue.name(),
        "in_flight": values.get(keys::CLASS_IN_FLIGHT_MAX).map(|_| modes.in_flight.name()),
        "egress": values.get(keys::EGRESS_RATE).map(|_| modes.egress.name()),
    })
}

/// Counts of classes that an application shows added up.
const SUMMED: &[(&str, Meter)] = &[
    ("arrived", Meter::ARRIVED),
    ("started", Meter::STARTED),
    ("goodput", Meter::GOOD),
    ("left", Meter::LEFT),
    ("abandoned", Meter::ABANDONED),
    ("retries", Meter::RETRIES),
];

/// The same of those that are split.
const SPLIT: &[(&str, Meter)] = &[
    ("refused", Meter::REFUSED),
    ("would_refuse", Meter::WOULD_REFUSE),
    ("responses", Meter::RESPONSES),
    ("room_rates", Meter::ROOM),
];

fn servers(application: &Application, lately: &Lately<'_>) -> Vec<Json> {
    let row = |server: tidegate_runtime::servers::ServerStatus| {
        let path = format!("{}/servers/{}", application.settings.name, server.name);
        let of = lately.of(&path);
        json!({
            "name": server.name,
            "address": server.endpoint.to_string(),
            "condition": server.condition.name(),
            "member": server.is_member,
            "draining": server.is_draining,
            "weight": server.weight,
            "in_flight": server.in_flight,
            "in_flight_max": server.in_flight_max,
            "keep_alive": server.keeps_connections,
            "response_time_s": server.response_time.map(|time| time.as_secs_f64()),
            "requests": of.rate(Meter::SERVER_REQUESTS),
            "upstream_errors": of.split(Meter::UPSTREAM_ERRORS),
            "connects": of.rate(Meter::CONNECTS),
        })
    };
    application.state.servers().list().into_iter().map(row).collect()
}

fn listener(listener: &Listener) -> Json {
    let address = match &listener.address {
        Address::Tcp(address) => address.to_string(),
        Address::Unix(path) => format!("unix:{}", path.display()),
    };
    json!({
        "name": listener.name, "address": address, "tls": listener.tls.is_some(), "application": listener.application,
    })
}

/// The archives, over the time shown.
struct Lately<'a> {
    archives: &'a Archives,
    from: Timestamp,
    to: Timestamp,
}

impl<'a> Lately<'a> {
    fn of(&self, path: &str) -> Of<'_> {
        Of { lately: self, archive: self.archives.get(path) }
    }
}

/// One subject over the time shown; every answer is null where nothing was measured.
struct Of<'a> {
    lately: &'a Lately<'a>,
    archive: Option<&'a Archive>,
}

impl Of<'_> {
    /// Per second.
    fn rate(&self, meter: Meter) -> Json {
        self.ask(meter, None, Stat::Rate).map_or(Json::Null, number)
    }

    /// Per second and label, of those that came.
    fn split(&self, meter: Meter) -> Json {
        let mut split = Map::new();
        if self.ask(meter, None, Stat::Rate).is_some_and(|all| all > 0.0) {
            for (index, label) in meter.labels().iter().enumerate() {
                if let Some(rate) = self.ask(meter, Some(index), Stat::Rate).filter(|rate| *rate > 0.0) {
                    split.insert((*label).to_owned(), number(rate));
                }
            }
        }
        Json::Object(split)
    }

    fn percentiles(&self, meter: Meter) -> Json {
        let quantile = |share| self.ask(meter, None, Stat::Quantile(share)).map(number);
        match quantile(0.5) {
            None => Json::Null,
            Some(median) => json!({ "p50": median, "p95": quantile(0.95), "p99": quantile(0.99) }),
        }
    }

    fn ask(&self, meter: Meter, label: Option<usize>, stat: Stat) -> Option<f64> {
        let Lately { from, to, .. } = *self.lately;
        let query = Query { meter, label, from, to, step: None, stat, of: None };
        let answer = self.archive?.query(&query).ok()?;
        answer.points.first()?.value
    }
}

fn sum<'j>(rates: impl Iterator<Item = &'j Json>) -> Json {
    let mut measured = rates.filter_map(Json::as_f64).peekable();
    if measured.peek().is_none() { Json::Null } else { number(measured.sum()) }
}

fn sum_split<'j>(split: impl Iterator<Item = &'j Json>) -> Json {
    let mut all: Map<String, Json> = Map::new();
    for (label, rate) in split.filter_map(Json::as_object).flatten() {
        let before = all.get(label).and_then(Json::as_f64).unwrap_or(0.0);
        all.insert(label.clone(), number(before + rate.as_f64().unwrap_or(0.0)));
    }
    Json::Object(all)
}

/// Of what meters count in thousandths.
#[expect(clippy::cast_precision_loss, reason = "shown with some digits")]
fn units(thousandths: u64) -> f64 {
    thousandths as f64 / 1e3
}
