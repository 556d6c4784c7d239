//! What can be wrong with a scenario: the first fault, with its place.

use std::time::Duration;

use tidegate_control::ClassId;

use crate::{Application, Arrivals, Backoff, Clients, Draw, Population, Scenario, Site, Switching, Trouble};

/// A fault of a scenario.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{at}: {what}")]
pub struct ScenarioFault {
    /// Where, as `applications[0].clients[1].arrivals`.
    pub at: String,
    /// What is wrong and what would be right.
    pub what: String,
}

type Checked = Result<(), ScenarioFault>;

const LONGEST: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

impl Scenario {
    /// Whether it can be run.
    ///
    /// # Errors
    ///
    /// Its first fault.
    pub fn check(&self) -> Checked {
        let ms = Duration::from_millis(1);
        require("duration", (ms..=LONGEST).contains(&self.duration), "must be between 1 ms and 10 years")?;
        require("warm_up", self.warm_up < self.duration, "must be shorter than the duration")?;
        require("tick", self.tick >= ms, "must be 1 ms at least")?;
        let rows = self.duration.as_nanos() / self.tick.as_nanos().max(1);
        require("tick", rows <= 10_000_000, "must leave at most ten million rows")?;
        require("host.processors", (1..=1024).contains(&self.host.processors), "must be 1 to 1024")?;
        for (number, change) in self.host.speed.iter().enumerate() {
            let sound = change.to.is_finite() && (0.0..=1e6).contains(&change.to);
            require(&format!("host.speed[{number}].to"), sound, "must be 0 to 10^6")?;
        }
        require("applications", !self.applications.is_empty(), "must not be empty")?;
        for (number, application) in self.applications.iter().enumerate() {
            self.application(application).map_err(|fault| ScenarioFault {
                at: format!("applications[{number}].{}", fault.at),
                ..fault
            })?;
        }
        Ok(())
    }

    fn application(&self, application: &Application) -> Checked {
        require("classes", !application.classes.is_empty(), "the default class must be there")?;
        for (number, class) in application.classes.iter().enumerate() {
            let at = |field: &str| format!("classes[{number}].{field}");
            require(&at("priority"), class.priority <= 7, "must be 0 to 7")?;
            require(&at("level"), class.level <= 7, "must be 0 to 7")?;
            require(&at("weight"), class.weight >= 1, "must be 1 at least")?;
            if let Some(group) = class.group {
                let leads = application.classes.get(group.index()).is_some_and(|named| named.group.is_none());
                require(
                    &at("group"),
                    leads,
                    "must be a class of the application that is of no other's group",
                )?;
            }
            require(&at("errors"), is_share(class.errors), "must be a share, 0 to 1")?;
            draw(&at("work"), &class.work)?;
            if let Some(database) = &class.database {
                draw(&at("database"), database)?;
                let there = application.server.database.is_some();
                require(&at("database"), there, "needs a server with a database")?;
            }
        }
        self.server(application)?;
        draw("network.latency", &application.network.latency)?;
        require("network.lost", is_share(application.network.lost), "must be a share, 0 to 1")?;
        if let Some(tls) = &application.tls {
            require("tls.new_share", is_share(tls.new_share), "must be a share, 0 to 1")?;
            require("tls.requests_max", tls.requests_max != Some(0), "must be 1 at least")?;
        }
        let returns = application.returns;
        let shares = [returns.no_show, returns.early, returns.cheat];
        let sound = shares.iter().all(|share| is_share(*share)) && shares.iter().sum::<f64>() <= 1.0 + 1e-9;
        require("returns", sound, "must be shares that add up to 1 at most")?;
        for (number, clients) in application.clients.iter().enumerate() {
            check_clients(clients, application.classes.len()).map_err(|fault| ScenarioFault {
                at: format!("clients[{number}] ({}).{}", clients.name, fault.at),
                ..fault
            })?;
        }
        Ok(())
    }

    fn server(&self, application: &Application) -> Checked {
        let server = &application.server;
        require("server.threads", server.threads != Some(0), "must be 1 at least")?;
        require("server.share", server.share >= 1, "must be 1 at least")?;
        if let Some(set) = &server.processors {
            let inside = !set.is_empty() && set.iter().all(|number| *number < self.host.processors);
            require("server.processors", inside, "must name processors of the host, 0 and up")?;
        }
        switching("server.switching", server.switching.as_ref())?;
        if let Some(database) = &server.database {
            require("server.database.connections", database.connections >= 1, "must be 1 at least")?;
            require("server.database.processors", database.processors >= 1, "must be 1 at least")?;
            switching("server.database.switching", database.switching.as_ref())?;
        }
        if let Some(collector) = &server.collector {
            require("server.collector.rate", collector.rate >= 1, "must be 1 byte a second at least")?;
            require("server.collector.room_min", collector.room_min >= 1, "must be 1 byte at least")?;
        }
        for (number, fault) in server.faults.iter().enumerate() {
            let sound = match fault.what {
                Trouble::Stall => true,
                Trouble::Slow(pace) => pace.is_finite() && (0.0..=1e3).contains(&pace),
                Trouble::Errors(share) => is_share(share),
            };
            require(&format!("server.faults[{number}].what"), sound, "must be 0 or more, a share at most 1")?;
        }
        Ok(())
    }
}

fn check_clients(clients: &Clients, classes: usize) -> Checked {
    let known = |class: &ClassId| class.index() < classes;
    match &clients.population {
        Population::Open { arrivals, mix, clients } => {
            check_arrivals(arrivals)?;
            if let Arrivals::Trace(entries) = arrivals {
                let sound = entries.iter().all(|(_, class)| known(class));
                require("arrivals", sound, "must name classes of the application")?;
            } else {
                let sound = mix.iter().all(|(class, share)| known(class) && is_rate(*share))
                    && mix.iter().map(|(_, share)| share).sum::<f64>() > 0.0;
                require("mix", sound, "must name classes of the application with shares, one over 0")?;
            }
            require("clients", *clients >= 1, "must be 1 at least")?;
        }
        Population::Sessions { arrivals, site, think } => {
            check_arrivals(arrivals)?;
            require(
                "arrivals",
                !matches!(arrivals, Arrivals::Trace(_)),
                "a trace is of requests, not of sessions",
            )?;
            check_site(site, classes)?;
            draw("think", think)?;
        }
        Population::Browsers { count, site, think } => {
            require("count", count.is_sorted_by_key(|(at, _)| *at), "must be in order of time")?;
            let most = count.iter().map(|(_, browsers)| *browsers).max().unwrap_or(0);
            require("count", most <= 10_000_000, "must be ten million at most")?;
            check_site(site, classes)?;
            draw("think", think)?;
        }
    }
    if let Some(timeout) = clients.behaviour.timeout {
        require("behaviour.timeout", !timeout.is_zero(), "must be over 0")?;
    }
    if let Some(retry) = &clients.behaviour.retry
        && let Backoff::Exponential { factor, .. } = retry.backoff
    {
        let sound = factor.is_finite() && (1.0..=1e3).contains(&factor);
        require("behaviour.retry.backoff.factor", sound, "must be 1 to 1000")?;
    }
    Ok(())
}

fn check_arrivals(arrivals: &Arrivals) -> Checked {
    match arrivals {
        Arrivals::Constant { per_s } | Arrivals::Poisson { per_s } => {
            require("arrivals.per_s", is_rate(*per_s), "must be a rate, 0 to 10^9 a second")
        }
        Arrivals::OnOff { on, off, per_s, idle_per_s } => {
            draw("arrivals.on", on)?;
            draw("arrivals.off", off)?;
            require("arrivals.on", on.mean() + off.mean() > 1e-6, "spells must have a length")?;
            let sound = is_rate(*per_s) && is_rate(*idle_per_s);
            require("arrivals.per_s", sound, "must be a rate, 0 to 10^9 a second")
        }
        Arrivals::Schedule { phases, repeat, .. } => {
            let rates = phases.iter().all(|(_, rate)| is_rate(*rate));
            require("arrivals.phases", rates, "must have rates of 0 to 10^9 a second")?;
            let length: Duration = phases.iter().map(|(length, _)| *length).sum();
            let sound = !repeat || length >= Duration::from_micros(1);
            require("arrivals.phases", sound, "must have a length if they repeat")
        }
        Arrivals::Trace(entries) => {
            require("arrivals", entries.is_sorted_by_key(|(at, _)| *at), "must be in order of time")
        }
    }
}

fn check_site(site: &Site, classes: usize) -> Checked {
    require("site.entry", site.entry < site.pages.len(), "must be one of the pages")?;
    require("site.pages_max", site.pages_max >= 1, "must be 1 at least")?;
    for page in &site.pages {
        let at = format!("site.pages ({})", page.name);
        let known =
            page.class.index() < classes && (page.embedded == 0 || page.embedded_class.index() < classes);
        require(&at, known, "must name classes of the application")?;
        require(&at, page.embedded <= 10_000, "must embed 10,000 at most")?;
        let ways = page.next.iter().all(|(next, p)| *next < site.pages.len() && is_share(*p));
        let sum: f64 = page.next.iter().map(|(_, p)| p).sum();
        require(
            &at,
            ways && sum <= 1.0 + 1e-9,
            "must lead to pages, with probabilities of 1 together at most",
        )?;
    }
    Ok(())
}

fn switching(at: &str, switching: Option<&Switching>) -> Checked {
    let sound = switching.is_none_or(|switching| !switching.quantum.is_zero() && switching.warm >= 1);
    require(at, sound, "needs a quantum over 0 and one warm thread at least")
}

fn draw(at: &str, draw: &Draw) -> Checked {
    match draw.fault() {
        None => Ok(()),
        Some(what) => Err(ScenarioFault { at: at.to_owned(), what: format!("{draw:?}: {what}") }),
    }
}

fn require(at: &str, holds: bool, what: &str) -> Checked {
    if holds { Ok(()) } else { Err(ScenarioFault { at: at.to_owned(), what: what.to_owned() }) }
}

fn is_share(value: f64) -> bool {
    value.is_finite() && (0.0..=1.0).contains(&value)
}

fn is_rate(value: f64) -> bool {
    value.is_finite() && (0.0..=1e9).contains(&value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_named_with_their_place() {
        let sound = Scenario::default();
        assert_eq!(sound.check(), Ok(()));
        let mut scenario = sound.clone();
        scenario.applications[0].clients.push(Clients {
            name: "crowd".to_owned(),
            population: Population::Open {
                arrivals: Arrivals::Poisson { per_s: -1.0 },
                mix: vec![(ClassId(0), 1.0)],
                clients: 1,
            },
            behaviour: crate::Behaviour::default(),
        });
        let fault = scenario.check().unwrap_err();
        assert_eq!(fault.at, "applications[0].clients[0] (crowd).arrivals.per_s");
        let mut scenario = sound.clone();
        scenario.applications[0].server.processors = Some(vec![3]);
        assert_eq!(scenario.check().unwrap_err().at, "applications[0].server.processors");
        let mut scenario = sound;
        scenario.applications[0].classes[0].work = Draw::Exponential { mean: f64::NAN };
        assert_eq!(scenario.check().unwrap_err().at, "applications[0].classes[0].work");
    }
}
