//! An experiment's file as an [`Experiment`]: keys, ranges, and that names refer to something.

use std::{ops::RangeInclusive, path::PathBuf, time::Duration};

use tidegate_config::Faults;
use tidegate_control::knobs::{Knob, Scope};
use tidegate_sim::{Returns, StandardServer};
use toml::de::{DeTable, DeValue};

use super::{
    Arm, Axis, Check, Class, Experiment, Front, Live, Load, Mode, Op, Over, OverRuns, Page, Phase, Plot,
    Population, Relative, Retry, RunLength, Script, Server, Shape, Span, Subject, Switching, Take, Template,
    Web, Work, builtin,
    section::{Document, Entry, Section, describe},
};
use crate::{baselines::Law, live::Peer, metrics};

/// Largest load in multiples of capacity: beyond it a cell takes minutes and says nothing new.
const LOAD_MAX: f64 = 100.0;
const LOADS: RangeInclusive<f64> = 0.01..=LOAD_MAX;
/// Requests a second a server can do.
const CAPACITIES: RangeInclusive<f64> = 0.1..=1e6;
const SPANS: RangeInclusive<Duration> = Duration::from_micros(1)..=Duration::from_secs(3600);
/// No run, simulated or live, measures longer than this.
const MEASURED_MAX: Duration = Duration::from_secs(24 * 3600);
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
    let (table, errors) = DeTable::parse_recoverable(text);
    let document = Document::new(origin, text, &errors);
    if !errors.is_empty() {
        // What was recovered is not what was meant: the syntax first.
        document.into_result()?;
        unreachable!("there are errors");
    }
    let top = Section::top(&document, &table);
    let experiment = Reader { files }.experiment(name, text, &top);
    top.finish();
    document.into_result()?;
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
        let subject = subject(top);
        let (servers, mut axis) = (standard_servers(top), Axis::Load);
        let mut loads = Vec::new();
        if let Some(vary) = top.table("vary") {
            loads = increasing(&vary, "load");
            vary.has("server");
            let (capacities, runs): (Vec<f64>, Vec<RunLength>) =
                vary.tables("capacity").iter().map(at_capacity).unzip();
            if !capacities.is_empty() {
                check_capacities(&vary, &capacities, &loads, &servers);
                (loads, axis) = (capacities, Axis::Capacity(runs));
            }
            vary.finish();
        }
        let run = top.table("run").map_or_else(RunLength::default, |section| run_length(&section));
        let live = top.table("live").map(|section| live(&section, &loads));
        let arms: Vec<Arm> = top.tables("arm").iter().map(|section| self.arm(section, &subject)).collect();
        if let Subject::Web(web) = &subject {
            check_web(top, web, if axis == Axis::Load { &loads } else { &[] }, &arms);
            if live.is_some() {
                check_live(top, web, &servers);
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
        let mut names: Vec<String> = arms.iter().map(|arm| arm.name.clone()).collect();
        for server in &servers {
            names.extend(arms.iter().map(|arm| arm.name_before(server.name)));
        }
        let live_loads = live.as_ref().map_or(&[] as &[f64], |live| &live.loads);
        let context = Context {
            classes: class_names(&subject),
            arms: &names,
            loads: [&loads, live_loads].concat(),
            subject: &subject,
        };
        let checks = top.tables("check").iter().map(|section| check(section, &context)).collect();
        let plots = top.tables("plot").iter().map(|section| plot(section, &context)).collect();
        Experiment {
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
            checks,
            plots,
            text: text.to_owned(),
        }
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
        section.finish();
        Arm { name, front, settings, controller, configuration }
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

impl Default for RunLength {
    fn default() -> Self {
        Self { warm_up: Duration::from_secs(5), measured: Duration::from_secs(20), seeds: 30 }
    }
}

fn subject(top: &Section<'_>) -> Subject {
    if let Some(section) = top.table("truth") {
        let requests = section.whole("requests", 1_000..=100_000_000).unwrap_or(20_000);
        section.finish();
        return Subject::Truth { requests };
    }
    let server = top.table("server").map_or_else(Server::default, |section| server(&section));
    let mut classes: Vec<Class> = top.tables("class").iter().map(class).collect();
    if classes.is_empty() {
        top.missing("class", "[[class]] with name = \"default\" and work = \"10ms\"");
        classes.push(Class::named("default"));
    }
    let load = match top.table("load") {
        Some(section) => load(&section, &classes),
        None => {
            top.missing("load", "[load] with arrivals = \"poisson\"");
            Load {
                population: Population::open(),
                timeout: Duration::from_secs(2),
                retry: None,
                returns: Returns::default(),
            }
        }
    };
    Subject::Web(Box::new(Web { server, stand_in: None, classes, load }))
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
fn at_capacity(section: &Section<'_>) -> (f64, RunLength) {
    if !section.has("per_s") {
        section.missing("per_s", "{ per_s = 100, seeds = 30, measured = \"60s\" }");
    }
    (section.number("per_s", CAPACITIES).unwrap_or(1.0), run_length(section))
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

impl Population {
    fn open() -> Self {
        Self::Open { poisson: true, phases: Vec::new(), repeat: false, clients: 100 }
    }
}

impl Default for Server {
    fn default() -> Self {
        Self { threads: Some(1), processors: 1, backlog: None, switching: None, speed: Vec::new() }
    }
}

impl Class {
    fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            share: 1.0,
            work: Work { mean: Duration::from_millis(10), shape: Shape::Constant },
            within: Duration::from_secs(10),
            priority: 3,
            weight: 1,
            path: "/".to_owned(),
        }
    }
}

fn server(section: &Section<'_>) -> Server {
    let default = Server::default();
    let threads = match section.entry("threads") {
        Some(entry) if entry.value.as_str() == Some("one a request") => None,
        Some(entry) => entry.whole(1..=100_000),
        None => default.threads,
    };
    let switching = section.table("switching").map(|inner| {
        let small = Duration::ZERO..=Duration::from_secs(1);
        let switching = Switching {
            quantum: inner.span("quantum", SPANS).unwrap_or(Duration::from_millis(5)),
            switch: inner.span("switch", small.clone()).unwrap_or(Duration::from_micros(10)),
            refill: inner.span("refill", small).unwrap_or_default(),
            warm: inner.whole("warm", 1..=1_000_000).unwrap_or(1),
        };
        inner.finish();
        switching
    });
    let server = Server {
        threads,
        processors: section.whole("processors", 1..=1_000).and_then(|n| u16::try_from(n).ok()).unwrap_or(1),
        backlog: section.whole("backlog", 0..=10_000_000),
        switching,
        speed: section
            .tables("speed")
            .into_iter()
            .filter_map(|change| {
                let at = change.span("at", SPANS);
                let to = change.number("to", 0.001..=1000.0);
                if !change.has("at") || !change.has("to") {
                    change.missing("at", "a moment and a factor: { at = \"60s\", to = 0.5 }");
                }
                change.finish();
                Some((at?, to?))
            })
            .collect(),
    };
    section.finish();
    server
}

fn class(section: &Section<'_>) -> Class {
    let name = section.required_text("name", "name = \"home\"");
    let default = Class::named(&name);
    let work = match section.entry("work") {
        Some(entry) => work(&entry).unwrap_or(default.work),
        None => {
            section.missing("work", "work = \"10ms\" or work = { exponential = \"10ms\" }");
            default.work
        }
    };
    let path = section.text("path").unwrap_or_else(|| format!("/{name}"));
    if !path.starts_with('/') {
        section.fault("path", format!("\"{path}\" is no path"), "begin it with a slash");
    }
    let class = Class {
        share: section.number("share", 0.0..=1e6).unwrap_or(default.share),
        work,
        within: section.span("within", SPANS).unwrap_or(default.within),
        priority: section.whole("priority", 0..=7).and_then(|n| u8::try_from(n).ok()).unwrap_or(3),
        weight: section.whole("weight", 1..=100_000).unwrap_or(1),
        path,
        name,
    };
    section.finish();
    class
}

fn work(entry: &Entry<'_>) -> Option<Work> {
    if entry.value.is_str() {
        return Some(Work { mean: entry.span(SPANS)?, shape: Shape::Constant });
    }
    let section = entry.section()?;
    let work = if let Some(mean) = section.span("exponential", SPANS) {
        Some(Work { mean, shape: Shape::Exponential })
    } else if let Some(mean) = section.span("lognormal", SPANS) {
        let cv = section.number("cv", 0.01..=20.0).unwrap_or(1.0);
        Some(Work { mean, shape: Shape::Lognormal(cv) })
    } else {
        let mean = section.span("constant", SPANS);
        if mean.is_none() {
            entry.fault(
                "names no distribution",
                "write { exponential = \"10ms\" }, { lognormal = \"10ms\", cv = 2 } or \"10ms\"",
            );
        }
        mean.map(|mean| Work { mean, shape: Shape::Constant })
    };
    section.finish();
    work
}

fn load(section: &Section<'_>, classes: &[Class]) -> Load {
    let population = if section.has("page") {
        browsers(section, classes)
    } else {
        let poisson = section.choice("arrivals", &[("poisson", true), ("constant", false)]).unwrap_or(true);
        let phases = section
            .tables("phase")
            .into_iter()
            .filter_map(|phase| {
                let load = phase.number("load", 0.0..=LOAD_MAX);
                let length = phase.span("for", Duration::from_millis(100)..=MEASURED_MAX);
                let shares = phase.entry("shares").map(|entry| shares(&entry, classes));
                if !phase.has("load") || !phase.has("for") {
                    phase.missing("for", "a load and a length: { load = 4, for = \"10s\" }");
                }
                phase.finish();
                Some(Phase { length: length?, load: load?, shares })
            })
            .collect();
        let repeat = section.flag("repeat").unwrap_or(false);
        let clients = section.whole("clients", 1..=100_000).unwrap_or(100);
        Population::Open { poisson, phases, repeat, clients }
    };
    let timeout = section.span("timeout", SPANS).unwrap_or(Duration::from_secs(2));
    let retry = section.table("retry").map(|inner| {
        let retry = Retry {
            attempts: inner.whole("attempts", 1..=100).unwrap_or(3),
            first: inner.span("first", SPANS).unwrap_or(Duration::from_millis(200)),
            factor: inner.number("factor", 1.0..=10.0).unwrap_or(2.0),
            max: inner.span("max", SPANS).unwrap_or(Duration::from_secs(60)),
            jitter: inner.flag("jitter").unwrap_or(false),
            after_refusal: inner.flag("after_refusal").unwrap_or(true),
        };
        inner.finish();
        retry
    });
    let returns = section.table("returns").map_or_else(Returns::default, |inner| {
        let share = |key| inner.number(key, 0.0..=1.0).unwrap_or(0.0);
        let returns = Returns { no_show: share("no_show"), early: share("early"), cheat: share("cheat") };
        inner.finish();
        returns
    });
    section.finish();
    Load { population, timeout, retry, returns }
}

/// The share of each class in a phase; of one that is not named, none.
fn shares(entry: &Entry<'_>, classes: &[Class]) -> Vec<f64> {
    let mut shares = vec![0.0; classes.len()];
    for (name, item) in entry.members() {
        match classes.iter().position(|class| class.name == name) {
            Some(position) => shares[position] = item.number(0.0..=1e6).unwrap_or(0.0),
            None => {
                let known: Vec<&str> = classes.iter().map(|class| class.name.as_str()).collect();
                item.fault(format!("there is no class {name}"), format!("write one of {}", known.join(", ")));
            }
        }
    }
    if shares.iter().sum::<f64>() <= 0.0 {
        entry.fault("no class has a share", "give one a share above 0");
    }
    shares
}

fn browsers(section: &Section<'_>, classes: &[Class]) -> Population {
    let think = section.span("think", SPANS).unwrap_or(Duration::from_secs(7));
    let sections = section.tables("page");
    let names: Vec<String> =
        sections.iter().map(|page| page.required_text("name", "name = \"home\"")).collect();
    let position = |name: &str| names.iter().position(|known| known == name);
    let mut pages = Vec::new();
    for (page, name) in sections.into_iter().zip(&names) {
        let class = page.text("class").unwrap_or_else(|| "default".to_owned());
        let class = classes.iter().position(|known| known.name == class).unwrap_or_else(|| {
            let known: Vec<&str> = classes.iter().map(|class| class.name.as_str()).collect();
            page.fault(
                "class",
                format!("there is no class {class}"),
                format!("write one of {}", known.join(", ")),
            );
            0
        });
        let mut next = Vec::new();
        if let Some(entry) = page.entry("next") {
            for (target, item) in entry.members() {
                let Some(share) = item.number(0.0..=1.0) else { continue };
                match position(&target) {
                    Some(target) => next.push((target, share)),
                    None => item.fault(
                        "leads to a page that is not there",
                        format!("write one of {}", names.join(", ")),
                    ),
                }
            }
            let sum: f64 = next.iter().map(|(_, share)| share).sum();
            if sum > 1.000_001 {
                entry.fault(format!("probabilities add up to {sum:.4}"), "make them 1 or less");
            }
        }
        page.finish();
        pages.push(Page { name: name.clone(), class, next });
    }
    Population::Browsers { think, pages }
}

fn run_length(section: &Section<'_>) -> RunLength {
    let default = RunLength::default();
    let run = RunLength {
        warm_up: section.span("warm_up", Duration::ZERO..=MEASURED_MAX).unwrap_or(default.warm_up),
        measured: section.span("measured", Duration::from_secs(1)..=MEASURED_MAX).unwrap_or(default.measured),
        seeds: section.whole("seeds", 1..=1_000).unwrap_or(default.seeds),
    };
    section.finish();
    run
}

fn live(section: &Section<'_>, loads: &[f64]) -> Live {
    let mut own = increasing(section, "load");
    if own.is_empty() {
        own = if loads.is_empty() { vec![1.0] } else { loads.to_vec() };
    }
    let server = section.text("server");
    if let Some(url) = &server
        && !(url.starts_with("http://") || url.starts_with("https://"))
    {
        section.fault("server", format!("\"{url}\" is no URL"), "write http://host:port/path");
    }
    let live = Live {
        loads: own,
        warm_up: section.span("warm_up", Duration::ZERO..=LIVE_MAX).unwrap_or(Duration::from_secs(2)),
        measured: section
            .span("measured", Duration::from_millis(500)..=LIVE_MAX)
            .unwrap_or(Duration::from_secs(8)),
        repetitions: section.whole("repetitions", 1..=100).unwrap_or(5),
        server,
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
            let all = Knob::ALL.iter().filter(|knob| knob.scope() == scope).map(|knob| knob.name());
            let mend = tidegate_config::closest(name, all).map_or_else(
                || format!("docs/knobs.md lists the knobs of a {}", scope.name()),
                |meant| format!("did you mean {meant}?"),
            );
            item.fault(format!("there is no such knob of a {}", scope.name()), mend);
        }
    }
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
    }
    if let Population::Open { phases, .. } = &web.load.population {
        if !phases.is_empty() && !loads.is_empty() {
            top.fault("vary", "the load has phases of its own", "leave out [vary] or [[load.phase]]");
        }
        if web.classes.iter().all(|class| class.share <= 0.0) {
            top.fault("class", "no class has a share of the load", "give one a share above 0");
        }
    }
}

/// What only virtual time has.
fn check_live(top: &Section<'_>, web: &Web, servers: &[StandardServer]) {
    if !servers.is_empty() {
        top.fault("vary", "standard servers are the simulator's", "leave out vary.server or [live]");
    }
    if let Population::Open { phases, repeat, .. } = &web.load.population
        && (*repeat || phases.iter().any(|phase| phase.shares.is_some()))
    {
        top.fault("load", "live runs have one mix and go through their phases once", "leave out [live]");
    }
}

/// What checks and plots may refer to.
struct Context<'c> {
    classes: Vec<String>,
    arms: &'c [String],
    /// Of simulated and live runs.
    loads: Vec<f64>,
    subject: &'c Subject,
}

impl Context<'_> {
    fn metric(&self, section: &Section<'_>, key: &'static str) -> String {
        let name = section.required_text(key, "metric = \"goodput_share\"");
        if name.is_empty() {
            return name;
        }
        if let Err(mend) = metrics::check(&name, &self.classes) {
            section.fault(key, format!("there is no metric {name}"), mend);
        }
        name
    }

    /// Arms of the truth are the simulator's; those of other experiments must be written.
    fn arm(&self, section: &Section<'_>, key: &'static str) -> Option<String> {
        let name = section.text(key)?;
        if matches!(self.subject, Subject::Web(_)) && !self.arms.contains(&name) {
            section.fault(
                key,
                format!("there is no arm {name}"),
                format!("write one of {}", self.arms.join(", ")),
            );
        }
        Some(name)
    }

    fn relative(&self, section: &Section<'_>) -> Option<Relative> {
        match section.text("relative_to")?.as_str() {
            "peak" => Some(Relative::Peak),
            _ => self.arm(section, "relative_to").map(Relative::Arm),
        }
    }
}

fn check(section: &Section<'_>, context: &Context<'_>) -> Check {
    let name = section.required_text("name", "name = \"what is claimed\"");
    let metric = context.metric(section, "metric");
    let arm = context.arm(section, "arm");
    let most = *CAPACITIES.end();
    let at = match section.number("at", 0.01..=most) {
        Some(load) => Span { from: load, to: load },
        None => Span {
            from: section.number("from", 0.0..=most).unwrap_or(0.0),
            to: section.number("to", 0.0..=most).unwrap_or(most),
        },
    };
    if matches!(context.subject, Subject::Web(_))
        && !context.loads.iter().any(|load| (at.from..=at.to).contains(load))
    {
        let all: Vec<String> = context.loads.iter().map(ToString::to_string).collect();
        section.fault(
            "at",
            "no load of the experiment lies there",
            format!("its x axis has {}", all.join(", ")),
        );
    }
    let relative_to = context.relative(section).unwrap_or(Relative::Absolute);
    let take = section.choice("take", &[("min", Take::Min), ("max", Take::Max), ("mean", Take::Mean)]);
    let op = section.choice("op", &[(">=", Op::AtLeast), ("<=", Op::AtMost)]);
    if op.is_none() && !section.has("op") {
        section.missing("op", "op = \">=\" or op = \"<=\"");
    }
    let op = op.unwrap_or(Op::AtLeast);
    if !section.has("bar") {
        section.missing("bar", "bar = 0.95");
    }
    let check = Check {
        name,
        metric,
        arm,
        at,
        over_runs: section
            .choice("over_runs", &[("mean", OverRuns::Mean), ("median", OverRuns::Median)])
            .unwrap_or_default(),
        take: take.unwrap_or(if op == Op::AtLeast { Take::Min } else { Take::Max }),
        relative_to,
        op,
        bar: section.number("bar", -1e12..=1e12).unwrap_or(0.0),
        paper: section.text("paper"),
        mode: section.choice("mode", &[("simulated", Mode::Simulated), ("live", Mode::Live)]),
    };
    section.finish();
    check
}

fn plot(section: &Section<'_>, context: &Context<'_>) -> Plot {
    let title = section.required_text("title", "title = \"Goodput over load\"");
    let over = match section.number("over_time_at", 0.01..=*CAPACITIES.end()) {
        Some(load) => Over::Time { load },
        None => Over::Load,
    };
    let metric = match over {
        Over::Load => context.metric(section, "metric"),
        Over::Time { .. } => {
            let name = section.required_text("metric", "metric = \"goodput\"");
            if let Err(mend) = metrics::check_series(&name, &context.classes) {
                section.fault("metric", format!("there is no series {name}"), mend);
            }
            name
        }
    };
    let plot = Plot {
        title,
        metric,
        against: section.has("against").then(|| context.metric(section, "against")),
        over,
        log_y: section.flag("log_y").unwrap_or(false),
        y_min: section.number("y_min", 1e-9..=1e12),
        y_max: section.number("y_max", 1e-9..=1e12),
        without: section.texts("without"),
    };
    section.finish();
    plot
}
