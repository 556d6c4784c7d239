//! The host's processors once an interval: what was used, what each needs, how many it gets, and which.

use std::{collections::BTreeMap, time::Duration};

use serde::{Deserialize, Serialize};
use tidegate_control::{
    Timestamp,
    processors::{Halves, Need, allocate, place},
};

use crate::{
    error::Error,
    list::List,
    settings::{Settings, Spare},
    target::Threads,
};

/// Every application, and the processors it has.
#[derive(Debug)]
pub(crate) struct Host {
    settings: Settings,
    /// In the order of the settings.
    applications: Vec<Application>,
    /// Processors that nobody has.
    spare: List,
}

#[derive(Debug)]
struct Application {
    threads: Threads,
    need: Need,
    /// Those it has by right, as they were placed last.
    has: Vec<u32>,
    given: Halves,
    runs: bool,
    fault: Option<String>,
    /// In the interval that ended last.
    had: Halves,
    used: Duration,
    interval: Duration,
}

/// What one application has, as it is told to whoever asks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Holding {
    /// Its name.
    pub application: String,
    /// What its need weighs.
    pub priority: f64,
    /// Processors it needs, 0 while it does not run.
    pub need: f64,
    /// Processors it has asked for, while that holds.
    pub asked: Option<f64>,
    /// Processors it was given, in steps of a half; 0 while it does not run.
    pub given: f64,
    /// Which, such as "0-2"; another application may have one of them too, where the last is a half.
    pub processors: String,
    /// Processors it used in the last interval, on average; those that nobody has are among them.
    pub used: f64,
    /// Why it is given nothing, or was not moved.
    pub fault: Option<String>,
}

/// What everyone has.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// The processors that are divided, such as "0-3".
    pub processors: String,
    /// Those nobody has.
    pub spare: String,
    /// Each application, in the order of the file.
    pub applications: Vec<Holding>,
}

/// One application's interval, for the account.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spent<'h> {
    pub(crate) application: &'h str,
    pub(crate) priority: f64,
    /// Processors.
    pub(crate) need: f64,
    pub(crate) given: f64,
    /// Of it.
    pub(crate) used: Duration,
}

impl Host {
    pub(crate) fn new(settings: Settings) -> Self {
        let mut host = Self { settings, applications: Vec::new(), spare: List::default() };
        host.applications = host.settings.applications.iter().map(|it| host.application(it)).collect();
        host
    }

    fn application(&self, it: &crate::Application) -> Application {
        Application {
            threads: Threads::of(&it.target),
            need: Need::new(self.settings.utilisation),
            has: Vec::new(),
            given: Halves::default(),
            runs: false,
            fault: None,
            had: Halves::default(),
            used: Duration::ZERO,
            interval: Duration::ZERO,
        }
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Takes other settings. Applications that are the same go on with what they have and what is known of them; those
    /// that are no more may run anywhere.
    pub(crate) async fn change(&mut self, settings: Settings, all: &List) {
        let before = std::mem::replace(&mut self.settings, settings);
        let mut known: BTreeMap<_, _> = before
            .applications
            .into_iter()
            .map(|it| (it.name, it.target))
            .zip(std::mem::take(&mut self.applications))
            .collect();
        self.applications = Vec::with_capacity(self.settings.applications.len());
        for it in &self.settings.applications {
            let mut application =
                known.remove(&(it.name.clone(), it.target.clone())).unwrap_or_else(|| self.application(it));
            application.need.set_utilisation(self.settings.utilisation);
            self.applications.push(application);
        }
        for ((name, _), mut gone) in known {
            release(&name, &mut gone, all).await;
        }
    }

    /// Notes what an application asks for, in processors.
    pub(crate) fn ask(&mut self, name: &str, processors: f64, now: Timestamp) {
        let holds = u64::try_from(self.settings.request_holds.as_nanos()).unwrap_or(u64::MAX);
        let until = Timestamp::from_nanos(now.as_nanos().saturating_add(holds));
        let position = self.settings.applications.iter().position(|it| it.name == name);
        if let Some(position) = position {
            self.applications[position].need.ask(processors, until);
        }
    }

    /// Ends an interval of that length and divides the processors for the next.
    pub(crate) async fn divide(&mut self, now: Timestamp, interval: Duration) {
        for (it, application) in self.settings.applications.iter().zip(&mut self.applications) {
            application.interval = interval;
            application.had = application.given;
            let times = application.threads.times().await;
            application.runs = times.is_ok();
            if let Err(error) = &times {
                // What does not run has nothing.
                application.given = Halves::default();
                application.tell(&it.name, Some(error));
            }
            let times = times.unwrap_or_default();
            application.used = times.ran;
            application.need.used(times.ran, times.waited, application.had.processors(), interval);
        }
        let running: Vec<usize> =
            (0..self.applications.len()).filter(|&i| self.applications[i].runs).collect();
        let claims: Vec<_> = running
            .iter()
            .map(|&i| self.settings.applications[i].claim(self.applications[i].need.processors(now)))
            .collect();
        let processors = self.settings.processors.numbers();
        let count = u32::try_from(processors.len()).unwrap_or(u32::MAX);
        let amounts = allocate(self.settings.policy, self.settings.sharing, count, &claims);
        let before: Vec<Vec<u32>> = running.iter().map(|&i| self.applications[i].has.clone()).collect();
        let placed = place(&amounts, processors, &before);
        self.spare = List::new(placed.spare);
        for ((&i, amount), has) in running.iter().zip(amounts).zip(placed.of) {
            let open = match self.settings.spare {
                Spare::All => self.spare.numbers(),
                Spare::Nobody => &[],
            };
            let may_run_on = List::new(has.iter().chain(open).copied());
            let application = &mut self.applications[i];
            application.given = amount;
            application.has = has;
            let confined = application.threads.confine(&may_run_on).await;
            application.tell(&self.settings.applications[i].name, confined.err().as_ref());
        }
    }

    /// What each spent in the interval that ended last.
    pub(crate) fn spent(&self, now: Timestamp) -> impl Iterator<Item = Spent<'_>> {
        self.settings.applications.iter().zip(&self.applications).map(move |(it, application)| Spent {
            application: &it.name,
            priority: it.priority,
            need: application.need.processors(now),
            given: application.had.processors(),
            used: application.used,
        })
    }

    pub(crate) fn status(&self, now: Timestamp) -> Status {
        let holding = |(it, application): (&crate::Application, &Application)| {
            let runs = application.runs;
            Holding {
                application: it.name.clone(),
                priority: it.priority,
                need: if runs { application.need.processors(now) } else { 0.0 },
                asked: application.need.asked(now),
                given: application.given.processors(),
                processors: if runs {
                    List::new(application.has.iter().copied()).to_string()
                } else {
                    String::new()
                },
                used: if application.interval.is_zero() {
                    0.0
                } else {
                    application.used.as_secs_f64() / application.interval.as_secs_f64()
                },
                fault: application.fault.clone(),
            }
        };
        Status {
            processors: self.settings.processors.to_string(),
            spare: self.spare.to_string(),
            applications: self.settings.applications.iter().zip(&self.applications).map(holding).collect(),
        }
    }

    /// Lets everyone run where it might without us.
    pub(crate) async fn release(&mut self, all: &List) {
        for (it, application) in self.settings.applications.iter().zip(&mut self.applications) {
            release(&it.name, application, all).await;
        }
    }
}

impl Application {
    /// Says what has become of an application, once.
    fn tell(&mut self, name: &str, error: Option<&Error>) {
        let fault = error.map(ToString::to_string);
        if fault != self.fault {
            match &fault {
                Some(fault) => tracing::warn!("application {name}: {fault}"),
                None => tracing::info!("application {name}: is given processors"),
            }
            self.fault = fault;
        }
    }
}

async fn release(name: &str, application: &mut Application, all: &List) {
    match application.threads.release(all).await {
        // What does not run is nowhere.
        Ok(()) | Err(Error::Absent { .. }) => {}
        Err(error) => tracing::warn!("application {name}: still has its processors: {error}"),
    }
}
