//! An experiment's file as an [`Experiment`]: keys, ranges, and that names refer to something.

mod claims;
mod subject;

use std::{
    ops::RangeInclusive,
    path::{Path, PathBuf},
    time::Duration,
};

use tidegate_config::{
    ClassWaitingRoom, Fault, Faults, ServerUrl,
    section::{self, Entry, Section, describe},
};
use tidegate_control::{
    knobs::{Knob, Scope},
    processors::{Policy, Sharing},
};
use tidegate_sim::{Returns, StandardServer};
use toml::de::DeValue;

use self::claims::Context;
use super::{
    Arm, Axis, Class, Division, Experiment, Front, Live, Manager, Phase, Population, RunLength, Script,
    Subject, Template, Unit, Web, builtin,
};
use crate::{
    baselines::Law,
    live::{Peer, configuration},
    simulated::APPLICATION,
};

/// Largest load in multiples of capacity: beyond it a cell takes minutes and says nothing new.
const LOAD_MAX: f64 = 100.0;
const LOADS: RangeInclusive<f64> = 0.01..=LOAD_MAX;
/// Requests a second a server can do.
const CAPACITIES: RangeInclusive<f64> = 0.1..=1e6;
const SPANS: RangeInclusive<Duration> = Duration::from_micros(1)..=Duration::from_secs(3600);
/// No run, simulated or live, measures longer than this.
const MEASURED_MAX: Duration = Duration::from_secs(24 * 3600);
const MEASURED_MIN: Duration = Duration::from_secs(1);
const LIVE_MAX: Duration = Duration::from_secs(600);
const CELLS_MAX: usize = 2_000;

/// Where files named by an experiment are looked for.
pub(super) enum Files {
    /// Beside the built-in experiments.
    Builtin,
    /// In this folder.
    Folder(PathBuf),
}

pub(super) fn parse(name: &str, origin: &str, text: &str, files: &Files) -> Result<Experiment, Faults> {
    let experiment = section::read(origin, text, |top| Reader { files }.experiment(name, text, top))?;
    let contradictions = contradictions(&experiment);
    if !contradictions.is_empty() {
        return Err(Faults { origin: origin.to_owned(), faults: contradictions, more: 0 });
    }
    Ok(experiment)
}

struct Reader<'f> {
    files: &'f Files,
}

impl Reader<'_> {
    fn experiment(&self, name: &str, text: &str, top: &Section<'_>) -> Experiment {
        let title = top.required_text("title", "title = \"What is compared\"");
        let about = top.text("about").unwrap_or_default();
        let sources = top.texts("sources");
        let subject = subject::subject(top);
        let (servers, mut axis) = (standard_servers(top), Axis::Load);
        let mut loads = Vec::new();
        if let Some(vary) = top.table("vary") {
            loads = increasing(&vary, "load");
            vary.has("server");
            let (capacities, runs): (Vec<f64>, Vec<RunLength>) =
                vary.tables("capacity").iter().map(|section| at_capacity(section, &subject)).unzip();
            if !capacities.is_empty() {
                check_capacities(&vary, &capacities, &loads, &servers);
                (loads, axis) = (capacities, Axis::Capacity(runs));
            }
            vary.finish();
        }
        if let Subject::Web(web) = &subject
            && web.load.unit == Unit::Sessions
            && axis == Axis::Load
        {
            axis = Axis::Sessions;
        }
        let run = match top.table("run") {
            Some(section) => run_length(&section, &subject),
            None => RunLength::of(&subject),
        };
        let live = top.table("live").map(|section| live(&section, &loads, &subject));
        let arms: Vec<Arm> = top.tables("arm").iter().map(|section| self.arm(section, &subject)).collect();
        if let Subject::Web(web) = &subject {
            check_web(top, web, if matches!(axis, Axis::Capacity(_)) { &[] } else { &loads }, &arms);
            if let Some(live) = &live {
                check_live(top, web, live, &servers);
            }
        }
        let loads = if loads.is_empty() { vec![1.0] } else { loads };
        let live_loads: usize = live.as_ref().map_or(0, |live| live.loads.len());
        if arms.len() * servers.len().max(1) * loads.len().max(live_loads) > CELLS_MAX {
            top.fault(
                "vary",
                format!("makes more than {CELLS_MAX} cells of arms and loads"),
                "leave some out",
            );
        }
        let mut experiment = Experiment {
            name: name.to_owned(),
            title,
            about,
            sources,
            subject,
            loads,
            axis,
            servers,
            run,
            live,
            arms,
            checks: Vec::new(),
            plots: Vec::new(),
            text: text.to_owned(),
        };
        let context = Context::new(&experiment);
        let checks = top.tables("check").iter().map(|section| context.check(section)).collect();
        let plots = top.tables("plot").iter().map(|section| context.plot(section)).collect();
        (experiment.checks, experiment.plots) = (checks, plots);
        experiment
    }

    fn arm(&self, section: &Section<'_>, subject: &Subject) -> Arm {
        let name = section.required_text("name", "name = \"what it is called\"");
        if !section.has("front") {
            section.missing("front", "front = \"gateway\"");
        }
        let mut fronts = vec![("direct", Front::Direct), ("gateway", Front::Gateway)];
        fronts.extend(Law::ALL.iter().map(|law| (law.name(), Front::Law(*law))));
        fronts.extend(Peer::ALL.iter().map(|peer| (peer.name(), Front::Peer(*peer))));
        let front = section.choice("front", &fronts).unwrap_or(Front::Direct);
        let settings = match section.entry("settings") {
            Some(entry) => settings(&entry, front, &class_names(subject)),
            None => Vec::new(),
        };
        let controller = self.file(section, "controller").map(|(name, text)| Script { name, text });
        if controller.is_some() && front != Front::Gateway {
            section.fault(
                "controller",
                "controls a gateway, and this arm has none",
                "write front = \"gateway\"",
            );
        }
        let configuration = self.file(section, "configuration").map(|(name, text)| Template { name, text });
        match (front, &configuration) {
            (Front::Peer(_), None) => section.missing("configuration", "the path of its configuration file"),
            (Front::Direct | Front::Gateway | Front::Law(_), Some(_)) => section.fault(
                "configuration",
                "is for proxies that are not ours",
                "write what is to be changed under settings",
            ),
            _ => {}
        }
        let processors = division(section, subject);
        section.finish();
        Arm { name, front, settings, controller, configuration, processors }
    }

    /// A file that is named, and its text.
    fn file(&self, section: &Section<'_>, key: &'static str) -> Option<(String, String)> {
        let name = section.text(key)?;
        match self.files {
            Files::Builtin => match builtin::file(&name) {
                Some(text) => Some((name, text.to_owned())),
                None => {
                    section.fault(key, format!("{name} is not built in"), "add it to experiment/builtin.rs");
                    None
                }
            },
            Files::Folder(folder) => match std::fs::read_to_string(folder.join(&name)) {
                Ok(text) => Some((name, text)),
                Err(error) => {
                    section.fault(
                        key,
                        format!("cannot read {}: {error}", folder.join(&name).display()),
                        "name a file that is there, relative to this one",
                    );
                    None
                }
            },
        }
    }
}

/// How an arm divides the processors.
fn division(section: &Section<'_>, subject: &Subject) -> Division {
    let Some(entry) = section.entry("processors") else { return Division::default() };
    if !entry.value.is_table() {
        let known = [("shared", Division::Shared), ("equal parts", Division::Equal)];
        let named = known.iter().find(|(name, _)| entry.value.as_str() == Some(name));
        if named.is_none() {
            entry.fault(
                "is no way to divide processors",
                "write \"shared\", \"equal parts\" or a manager: { policy = \"max-min\" }",
            );
        }
        return named.map_or_else(Division::default, |(_, division)| division.clone());
    }
    let Some(inner) = entry.section() else { return Division::default() };
    let names: Vec<String> = match subject {
        Subject::Web(web) => web.each().into_iter().map(|(name, _)| name).collect(),
        Subject::Truth { .. } => Vec::new(),
    };
    let mut priorities = vec![1.0; names.len()];
    for (name, item) in inner.entry("priority").map(|entry| entry.members()).unwrap_or_default() {
        match names.iter().position(|known| *known == name) {
            Some(position) => priorities[position] = item.number(0.001..=1000.0).unwrap_or(1.0),
            None => item.fault(
                format!("there is no application {name}"),
                format!("write one of {}", names.join(", ")),
            ),
        }
    }
    let policies = [("max-min", Policy::MaxMin), ("proportional", Policy::Proportional)];
    let sharings = [("none", Sharing::None), ("halves", Sharing::Halves), ("upwards", Sharing::Upwards)];
    let shortest = Duration::from_millis(100);
    let manager = Manager {
        interval: inner.span("interval", shortest..=*SPANS.end()).unwrap_or(Duration::from_secs(2)),
        policy: inner.choice("policy", &policies).unwrap_or_default(),
        sharing: inner.choice("sharing", &sharings).unwrap_or_default(),
        priorities,
    };
    inner.finish();
    if let Subject::Web(web) = subject
        && web.tls.is_none()
    {
        entry.fault("a manager goes by TLS connections, and there are none", "write [tls], or leave it out");
    }
    Division::Managed(manager)
}

impl RunLength {
    /// What is not written: as long as the load's phases, where it goes through some once.
    fn of(subject: &Subject) -> Self {
        let usual = Self { warm_up: Duration::from_secs(5), measured: Duration::from_secs(20), seeds: 30 };
        match once_through(subject) {
            [] => usual,
            phases => {
                let length =
                    phases.iter().fold(Duration::ZERO, |sum, phase| sum.saturating_add(phase.length));
                Self { warm_up: Duration::ZERO, measured: length.clamp(MEASURED_MIN, MEASURED_MAX), ..usual }
            }
        }
    }
}

/// The phases of a load that goes through them once; else none.
fn once_through(subject: &Subject) -> &[Phase] {
    match subject {
        Subject::Web(web) if !web.applications.is_empty() => &web.applications[0].phases,
        Subject::Web(web) => match &web.load.population {
            Population::Open { phases, repeat: false, .. } => phases,
            Population::Open { .. } | Population::Browsers { .. } => &[],
        },
        Subject::Truth { .. } => &[],
    }
}

/// Standard servers of the simulator, by name.
fn standard_servers(top: &Section<'_>) -> Vec<StandardServer> {
    let Some(entry) = top.table("vary").and_then(|vary| vary.entry("server")) else { return Vec::new() };
    let known = || StandardServer::all().into_iter().filter(|server| server.classes().len() == 1);
    entry
        .items()
        .iter()
        .filter_map(|item| {
            let name = item.text()?;
            let found = known().find(|server| server.name == name);
            if found.is_none() {
                let names: Vec<&str> = known().map(|server| server.name).collect();
                item.fault(
                    format!("there is no standard server {name}"),
                    format!("write one of {}", names.join(", ")),
                );
            }
            found
        })
        .collect()
}

/// A capacity and the runs at it.
fn at_capacity(section: &Section<'_>, subject: &Subject) -> (f64, RunLength) {
    if !section.has("per_s") {
        section.missing("per_s", "{ per_s = 100, seeds = 30, measured = \"60s\" }");
    }
    (section.number("per_s", CAPACITIES).unwrap_or(1.0), run_length(section, subject))
}

fn check_capacities(vary: &Section<'_>, capacities: &[f64], loads: &[f64], servers: &[StandardServer]) {
    if capacities.windows(2).any(|pair| pair[0] >= pair[1]) {
        vary.fault("capacity", "is not in order", "write each capacity once, the smallest first");
    }
    if !loads.is_empty() {
        vary.fault("load", "capacity is the x axis", "leave it out and give the load in phases");
    }
    if servers.is_empty() {
        vary.fault("capacity", "is of standard servers", "name some: server = [\"ps4\"]");
    }
}

fn run_length(section: &Section<'_>, subject: &Subject) -> RunLength {
    let default = RunLength::of(subject);
    let warm_up = section.span("warm_up", Duration::ZERO..=MEASURED_MAX).unwrap_or(default.warm_up);
    let phases = once_through(subject);
    let rest = if phases.is_empty() { default.measured } else { default.measured.saturating_sub(warm_up) };
    let run = RunLength {
        warm_up,
        measured: section.span("measured", MEASURED_MIN..=MEASURED_MAX).unwrap_or(rest.max(MEASURED_MIN)),
        seeds: section.whole("seeds", 1..=1_000).unwrap_or(default.seeds),
    };
    if let [before @ .., _] = phases {
        let (begins, ends) =
            (before.iter().map(|phase| phase.length).sum::<Duration>(), run.warm_up + run.measured);
        if begins >= ends {
            section.fault(
                "measured",
                format!("the last phase of the load begins after {begins:?}, and a run ends after {ends:?}"),
                "make it longer, or leave it out: a run is then as long as the phases",
            );
        }
    }
    section.finish();
    run
}

fn live(section: &Section<'_>, loads: &[f64], subject: &Subject) -> Live {
    let mut own = increasing(section, "load");
    if own.is_empty() {
        own = if loads.is_empty() { vec![1.0] } else { loads.to_vec() };
    }
    let server = section.text("server");
    if let Some(url) = &server {
        let fault = match ServerUrl::parse(url) {
            Ok(known) if known.tls == Some(false) => None,
            Ok(_) => Some(("is not plain HTTP".to_owned(), "write http://host:port".to_owned())),
            Err(fault) => Some((fault.what, fault.mend)),
        };
        if let Some((what, mend)) = fault {
            section.fault("server", format!("{url}: {what}"), mend);
        }
    }
    let waits = section.choice("origin", &[("computes", false), ("waits", true)]);
    if server.is_some() && waits.is_some() {
        section.fault("origin", "is the lab's, and there is another server", "leave out origin or server");
    }
    let classes: &[Class] = match subject {
        Subject::Truth { .. } => &[],
        Subject::Web(web) => &web.classes,
    };
    let live = Live {
        loads: own,
        phases: subject::phases(section, classes),
        warm_up: section.span("warm_up", Duration::ZERO..=LIVE_MAX).unwrap_or(Duration::from_secs(2)),
        measured: section
            .span("measured", Duration::from_millis(500)..=LIVE_MAX)
            .unwrap_or(Duration::from_secs(8)),
        repetitions: section.whole("repetitions", 1..=100).unwrap_or(5),
        server,
        waits: waits.unwrap_or(false),
        simulated_too: section.flag("simulated_too").unwrap_or(false),
    };
    section.finish();
    live
}

/// Loads, each larger than the one before.
fn increasing(section: &Section<'_>, key: &'static str) -> Vec<f64> {
    let loads = section.numbers(key, LOADS);
    if loads.windows(2).any(|pair| pair[0] >= pair[1]) {
        section.fault(key, "is not in order", "write each load once, the smallest first");
    }
    loads
}

/// Settings of an arm, each checked against what it sets.
fn settings(entry: &Entry<'_>, front: Front, classes: &[String]) -> Vec<(String, String)> {
    entry
        .members()
        .into_iter()
        .filter_map(|(path, item)| {
            let text = match item.value {
                DeValue::String(text) => text.to_string(),
                DeValue::Array(_) | DeValue::Table(_) | DeValue::Datetime(_) => {
                    return item.wrong("a text, a number, true or false");
                }
                other => describe(other),
            };
            match front {
                Front::Gateway => check_knob(&path, &text, classes, &item),
                Front::Law(law) => {
                    if let Err(fault) = law.check_setting(&path, &text) {
                        item.fault(fault.what, fault.mend);
                    }
                }
                Front::Peer(_) if path == "capacity_factor" => {
                    item.number(0.01..=100.0);
                }
                Front::Peer(_) => {
                    item.fault(
                        "there is no such setting of a proxy",
                        "write capacity_factor, or change its configuration",
                    );
                }
                Front::Direct => {
                    item.fault("this front has no settings", "leave it out, or choose front = \"gateway\"");
                }
            }
            Some((path, text))
        })
        .collect()
}

/// `in_flight.limit` of the application, `home/queue.max` of a class.
fn check_knob(path: &str, text: &str, classes: &[String], item: &Entry<'_>) {
    let (scope, name) = match path.split_once('/') {
        Some((class, name)) => {
            if !classes.iter().any(|known| known == class) {
                item.fault(
                    format!("there is no class {class}"),
                    format!("write one of {}", classes.join(", ")),
                );
                return;
            }
            (Scope::Class, name)
        }
        None => (Scope::Application, path),
    };
    match Knob::find(scope, name) {
        Some(knob) => {
            if let Err(fault) = knob.parse(text) {
                item.fault(
                    format!("{} is not allowed here", fault.found),
                    format!("expected {}", fault.expected),
                );
            }
        }
        None => {
            item.fault(format!("there is no such knob of {}", scope.one()), mend_knob(scope, name, classes));
        }
    }
}

/// What to write instead of a knob that a scope does not have.
fn mend_knob(scope: Scope, name: &str, classes: &[String]) -> String {
    let elsewhere = Knob::ALL.iter().find(|knob| knob.name() == name).map(|knob| knob.scope());
    if let Some(of) = elsewhere {
        let write = match of {
            Scope::Class => format!("write {}/{name}", classes.first().map_or("CLASS", String::as_str)),
            Scope::Application => format!("write {name}"),
            Scope::Host | Scope::Server => "leave it out, since no experiment sets these".to_owned(),
        };
        return format!("it belongs to {}: {write}", of.one());
    }
    let all = Knob::ALL.iter().filter(|knob| knob.scope() == scope).map(|knob| knob.name());
    tidegate_config::closest(name, all).map_or_else(
        || format!("docs/knobs.md lists the knobs of {}", scope.one()),
        |meant| format!("did you mean {meant}?"),
    )
}

fn class_names(subject: &Subject) -> Vec<String> {
    match subject {
        Subject::Truth { .. } => Vec::new(),
        Subject::Web(web) => web.classes.iter().map(|class| class.name.clone()).collect(),
    }
}

/// What only shows when the parts are looked at together.
fn check_web(top: &Section<'_>, web: &Web, loads: &[f64], arms: &[Arm]) {
    if arms.is_empty() {
        top.missing("arm", "[[arm]] with name = \"none\" and front = \"direct\"");
    }
    for (position, arm) in arms.iter().enumerate() {
        if arms.iter().take(position).any(|other| other.name == arm.name) {
            top.fault("arm", format!("two arms are called {}", arm.name), "rename one");
        }
    }
    for (position, class) in web.classes.iter().enumerate() {
        if web.classes.iter().take(position).any(|other| other.name == class.name) {
            top.fault("class", format!("two classes are called {}", class.name), "rename one");
        }
        if let Some(group) = &class.group {
            check_group(top, &class.name, group, web, arms);
        }
    }
    let of_connections = arms.iter().find(|arm| arm.front == Front::Law(Law::Eac));
    if let Some(arm) = of_connections.filter(|_| web.tls.is_none()) {
        let what = format!("{}: eac goes by TLS connections, and there are none", arm.name);
        top.fault("arm", what, "write [tls], or another front");
    }
    if let Population::Open { phases, visit, .. } = &web.load.population {
        if visit.is_some() && phases.iter().any(|phase| phase.shares.is_some()) {
            top.fault(
                "load",
                "the pages of visits say how many requests are of which class",
                "leave out shares",
            );
        }
        let has_phases = !phases.is_empty() || !web.applications.is_empty();
        if has_phases && !loads.is_empty() {
            top.fault("vary", "the load has phases of its own", "leave out [vary] or [[load.phase]]");
        }
        if visit.is_none() && web.classes.iter().all(|class| class.share <= 0.0) {
            top.fault("class", "no class has a share of the load", "give one a share above 0");
        }
    }
}

/// A group of the waiting room goes by the class that has what is the group's.
fn check_group(top: &Section<'_>, class: &str, group: &str, web: &Web, arms: &[Arm]) {
    let leaders: Vec<&str> =
        web.classes.iter().filter(|class| class.group.is_none()).map(|class| class.name.as_str()).collect();
    if !leaders.contains(&group) {
        let what =
            format!("{class}: waiting_room.group is {group}, which is no class without a group of its own");
        return top.fault("class", what, format!("write one of {}", leaders.join(", ")));
    }
    for (path, _) in arms.iter().flat_map(|arm| &arm.settings) {
        if let Some((of, knob)) = path.split_once('/')
            && of == class
            && ClassWaitingRoom::OF_GROUP.iter().any(|known| known.name() == knob)
        {
            top.fault(
                "arm",
                format!("{path} is that of the group of {group}"),
                format!("write {group}/{knob}"),
            );
        }
    }
}

/// What only virtual time has.
fn check_live(top: &Section<'_>, web: &Web, live: &Live, servers: &[StandardServer]) {
    if !servers.is_empty() {
        top.fault("vary", "standard servers are the simulator's", "leave out vary.server or [live]");
    }
    if !web.server.speed.is_empty() {
        top.fault("server", "its speed changes in virtual time only", "leave out server.speed or [live]");
    }
    for (key, is_there) in [
        ("tls", web.tls.is_some()),
        ("application", !web.applications.is_empty()),
        ("zone", !web.zones.is_empty()),
    ] {
        if is_there {
            top.fault(key, "is simulated only", format!("leave out {key} or [live]"));
        }
    }
    if web.load.returns != Returns::default() {
        top.fault(
            "load",
            "who does not come, cheats or asks while he waits is simulated only",
            "leave out load.returns or [live]",
        );
    }
    check_paths(top, &web.classes);
    let longest = web.load.longest_wait();
    for class in web.classes.iter().filter(|class| class.within < longest) {
        top.fault(
            "class",
            format!(
                "{}: live, whatever a client waited for is good, and it may wait {longest:?}",
                class.name
            ),
            "make `within` as long as that, load.timeout shorter, or leave out [live]",
        );
    }
    if let Population::Open { phases, repeat, visit, .. } = &web.load.population {
        if visit.is_some() {
            top.fault(
                "load",
                "visits that arrive whatever becomes of others are simulated only",
                "leave out load.arrivals, for browsers, or [live]",
            );
        }
        let phases = if live.phases.is_empty() { phases } else { &live.phases };
        if *repeat || phases.iter().any(|phase| phase.shares.is_some()) {
            top.fault("load", "live runs have one mix and go through their phases once", "leave out [live]");
        }
    } else if !live.phases.is_empty() {
        top.fault("live", "browsers come and go by themselves", "leave out live.phase");
    }
    let threads = web.server.threads.filter(|threads| *threads == u32::from(web.server.processors));
    if live.waits && threads.is_none() {
        top.fault(
            "live",
            "an origin that waits has workers only, each as good as a processor",
            "give server.threads and server.processors the same number, or write origin = \"computes\"",
        );
    }
}

/// Live, a class is told by its path: the first rule that holds decides, and the first class has none.
fn check_paths(top: &Section<'_>, classes: &[Class]) {
    let lies_below = |path: &str, prefix: &str| {
        let rest = path.strip_prefix(prefix.trim_end_matches('/'));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    for (position, class) in classes.iter().enumerate() {
        let before = if position == 0 { classes.len() } else { position };
        let taken = classes.iter().take(before).skip(1).find(|other| lies_below(&class.path, &other.path));
        if let Some(other) = taken {
            top.fault(
                "class",
                format!(
                    "{}: live, its requests are of {}, whose path {} holds {} too",
                    class.name, other.name, other.path, class.path
                ),
                "write the class with the longer path first, or give it another path",
            );
        }
    }
}

/// Settings that are sound one by one and that no gateway would start with, as `in_flight.min` above `in_flight.max`.
fn contradictions(experiment: &Experiment) -> Vec<Fault> {
    let Subject::Web(web) = &experiment.subject else { return Vec::new() };
    let of_application = format!("application.{APPLICATION}.");
    let mut faults = Vec::new();
    for (number, arm) in experiment.arms.iter().enumerate().filter(|(_, arm)| arm.front == Front::Gateway) {
        let arm = Arm { controller: None, ..arm.clone() };
        let text = configuration::of(web, &arm, ([127, 0, 0, 1], 8080).into(), "http://127.0.0.1:9/");
        let found = tidegate_config::parse(&text, Path::new(""), "")
            .map_or_else(|faults| faults.faults, |_| Vec::new());
        faults.extend(found.into_iter().map(|Fault { key, what, mend, .. }| {
            let knob = key.strip_prefix(&of_application).unwrap_or(&key);
            let key = format!("arm[{number}].settings.{knob}");
            Fault { place: None, key, what, mend }
        }));
    }
    faults
}
