//! What is experimented on: the server, its classes, the load.

use std::time::Duration;

use tidegate_config::{
    is_class_name,
    section::{Entry, Section},
};
use tidegate_sim::Returns;

use super::{
    super::{
        Application, Class, Load, Page, Phase, Population, Retry, Server, Shape, Subject, Switching, Tls,
        Unit, Visit, Web, Work, Zone,
    },
    LOAD_MAX, MEASURED_MAX, SPANS,
};

pub(super) fn subject(top: &Section<'_>) -> Subject {
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
                unit: Unit::default(),
                timeout: Duration::from_secs(2),
                retry: None,
                returns: Returns::default(),
            }
        }
    };
    let tls = top.table("tls").map(|section| tls(&section));
    if tls.is_some() && !load.population.has_visits() {
        top.fault(
            "tls",
            "connections are those of visits",
            "write load.arrivals and [[load.page]], or leave out [tls]",
        );
    }
    let applications =
        top.tables("application").iter().map(|section| application(section, &classes)).collect();
    let zones = top.tables("zone").iter().map(zone).collect();
    let web = Web { server, stand_in: None, classes, tls, load, applications, zones };
    check_applications(top, &web);
    Subject::Web(Box::new(web))
}

fn application(section: &Section<'_>, classes: &[Class]) -> Application {
    let application = Application {
        name: section.required_text("name", "name = \"first\""),
        phases: phases(section, classes),
    };
    if application.phases.is_empty() {
        section.missing("phase", "phase = [{ load = 0.5, for = \"60s\" }]");
    }
    section.finish();
    application
}

fn zone(section: &Section<'_>) -> Zone {
    let moment = |key| {
        if !section.has(key) {
            section.missing(key, "a moment of the run: from = \"60s\", to = \"120s\"");
        }
        section.span(key, Duration::ZERO..=MEASURED_MAX).unwrap_or_default()
    };
    let zone =
        Zone { name: section.required_text("name", "name = \"A\""), from: moment("from"), to: moment("to") };
    if section.has("from") && section.has("to") && zone.from >= zone.to {
        section.fault("to", "a zone ends after it begins", "make it later than from");
    }
    section.finish();
    zone
}

/// Names that tell applications and zones apart, and loads that end together.
fn check_applications(top: &Section<'_>, web: &Web) {
    let applications: Vec<&str> = web.applications.iter().map(|one| one.name.as_str()).collect();
    let zones: Vec<&str> = web.zones.iter().map(|zone| zone.name.as_str()).collect();
    for (key, names) in [("application", applications), ("zone", zones)] {
        for (position, name) in names.iter().enumerate() {
            if names[..position].contains(name) {
                top.fault(key, format!("two are called {name}"), "rename one");
            }
            if !name.is_empty() && !is_class_name(name) {
                let what = format!("\"{}\" is no name", name.escape_debug());
                top.fault(key, what, "write up to 64 letters, digits, \"_\", \"-\" and \".\"");
            }
        }
    }
    if web.applications.is_empty() {
        return;
    }
    match &web.load.population {
        Population::Open { phases, repeat: false, .. } if phases.is_empty() => {}
        _ => top.fault(
            "load",
            "each application goes through its own phases once",
            "leave out load.phase and load.repeat, and give browsers load.arrivals",
        ),
    }
    let lengths = web.applications.iter().map(|one| one.phases.iter().map(|phase| phase.length).sum());
    let lengths: Vec<Duration> = lengths.collect();
    if lengths.windows(2).any(|pair| pair[0] != pair[1]) {
        top.fault(
            "application",
            format!("their loads last {lengths:?}"),
            "make them as long as each other; a load may be 0",
        );
    }
}

fn tls(section: &Section<'_>) -> Tls {
    let time = |key, default| {
        let small = Duration::ZERO..=Duration::from_secs(10);
        section.span(key, small).unwrap_or(Duration::from_millis(default))
    };
    let tls = Tls {
        full: time("full", 1),
        resumed: time("resumed", 0),
        keep_alive: section.span("keep_alive", SPANS).unwrap_or(Duration::from_secs(60)),
    };
    section.finish();
    tls
}

impl Population {
    fn open() -> Self {
        Self::Open { poisson: true, phases: Vec::new(), repeat: false, clients: 100, visit: None }
    }

    fn has_visits(&self) -> bool {
        matches!(self, Self::Open { visit: Some(_), .. })
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
            group: None,
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
    // Both stand in the configuration of a gateway.
    if !name.is_empty() && !is_class_name(&name) {
        section.fault(
            "name",
            format!("\"{}\" is no name of a class", name.escape_debug()),
            "write up to 64 letters, digits, \"_\", \"-\" and \".\"",
        );
    }
    let is_plain = |c: char| c.is_ascii_graphic() && !"\"\\?#".contains(c);
    if !path.starts_with('/') || !path.chars().all(is_plain) {
        section.fault(
            "path",
            format!("\"{}\" is no path", path.escape_debug()),
            "begin it with a slash, without query and blanks",
        );
    }
    let class = Class {
        share: section.number("share", 0.0..=1e6).unwrap_or(default.share),
        work,
        within: section.span("within", SPANS).unwrap_or(default.within),
        priority: section.whole("priority", 0..=7).and_then(|n| u8::try_from(n).ok()).unwrap_or(3),
        weight: section.whole("weight", 1..=100_000).unwrap_or(1),
        group: section.table("waiting_room").and_then(|inner| {
            let group = inner.text("group");
            inner.finish();
            group
        }),
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
    let has_pages = section.has("page");
    let population = if has_pages && !section.has("arrivals") {
        let Visit { think, pages, pages_max } = pages(section, classes);
        if pages_max.is_some() || pages.iter().any(|page| page.embedded > 0) {
            section.fault(
                "page",
                "browsers go from page to page for ever, one request each",
                "write load.arrivals, for visits, or leave out pages_max and embedded",
            );
        }
        Population::Browsers { think, pages }
    } else {
        let poisson = section.choice("arrivals", &[("poisson", true), ("constant", false)]).unwrap_or(true);
        let phases = phases(section, classes);
        let repeat = section.flag("repeat").unwrap_or(false);
        let visit = has_pages.then(|| pages(section, classes));
        let clients = if has_pages { None } else { section.whole("clients", 1..=100_000) };
        Population::Open { poisson, phases, repeat, clients: clients.unwrap_or(100), visit }
    };
    let units = [("capacity", Unit::Capacity), ("sessions/s", Unit::Sessions)];
    let unit = section.choice("unit", &units).unwrap_or_default();
    if unit == Unit::Sessions && !population.has_visits() {
        section.fault("unit", "sessions are visits", "write load.arrivals and [[load.page]]");
    }
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
        let returns = Returns {
            no_show: share("no_show"),
            early: share("early"),
            cheat: share("cheat"),
            polls: share("polls"),
        };
        let sum = returns.no_show + returns.early + returns.cheat;
        if sum > 1.0 + 1e-9 {
            let last =
                ["cheat", "early", "no_show"].into_iter().find(|key| inner.has(key)).unwrap_or("cheat");
            inner.fault(last, format!("the shares add up to {sum}"), "write such as add up to 1 at most");
        }
        inner.finish();
        returns
    });
    section.finish();
    Load { population, unit, timeout, retry, returns }
}

/// Loads, each for a time.
pub(super) fn phases(section: &Section<'_>, classes: &[Class]) -> Vec<Phase> {
    let phase = |phase: Section<'_>| {
        let load = phase.number("load", 0.0..=LOAD_MAX);
        let length = phase.span("for", Duration::from_millis(100)..=MEASURED_MAX);
        let shares = phase.entry("shares").map(|entry| shares(&entry, classes));
        if !phase.has("load") || !phase.has("for") {
            phase.missing("for", "a load and a length: { load = 4, for = \"10s\" }");
        }
        phase.finish();
        Some(Phase { length: length?, load: load?, shares })
    };
    section.tables("phase").into_iter().filter_map(phase).collect()
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

fn pages(section: &Section<'_>, classes: &[Class]) -> Visit {
    let think = section.span("think", SPANS).unwrap_or(Duration::from_secs(7));
    let sections = section.tables("page");
    let names: Vec<String> =
        sections.iter().map(|page| page.required_text("name", "name = \"home\"")).collect();
    let position = |name: &str| names.iter().position(|known| known == name);
    let mut pages = Vec::new();
    for (page, name) in sections.into_iter().zip(&names) {
        let class_of = |key| {
            let class = page.text(key).unwrap_or_else(|| "default".to_owned());
            classes.iter().position(|known| known.name == class).unwrap_or_else(|| {
                let known: Vec<&str> = classes.iter().map(|class| class.name.as_str()).collect();
                page.fault(
                    key,
                    format!("there is no class {class}"),
                    format!("write one of {}", known.join(", ")),
                );
                0
            })
        };
        let class = class_of("class");
        let embedded = page.whole("embedded", 0..=100).unwrap_or(0);
        let is_other = embedded > 0 || page.has("embedded_class");
        let embedded_class = if is_other { class_of("embedded_class") } else { class };
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
        pages.push(Page { name: name.clone(), class, embedded, embedded_class, next });
    }
    Visit { think, pages, pages_max: section.whole("pages_max", 1..=100_000) }
}
