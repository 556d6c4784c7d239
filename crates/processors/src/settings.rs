//! The manager's file: which applications there are, and how processors are divided among them.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use tidegate_config::{
    FILE_BYTES_MAX, Faults, is_class_name,
    section::{self, Section},
};
use tidegate_control::processors::{Claim, Halves, Policy, Sharing};

use crate::{error::Error, list::List, target::Target};

/// Applications of one manager.
const APPLICATIONS_MAX: usize = 1000;
const INTERVALS: std::ops::RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(60);
const PERIODS: std::ops::RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(24 * 3600);

/// Who may run on processors that nobody has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Spare {
    /// Every application, so that what comes suddenly finds room before the next interval: the default.
    #[default]
    All,
    /// Nobody, as published.
    Nobody,
}

/// What the manager's file says.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The processors that are divided.
    pub processors: List,
    /// How often, 100 ms to 60 s; default 2 s, as published.
    pub interval: Duration,
    /// How much of its processors an application shall use, 0.1 to 1; default 0.8.
    pub utilisation: f64,
    /// How to divide processors that do not suffice.
    pub policy: Policy,
    /// Whether two applications may share a processor.
    pub sharing: Sharing,
    /// Who may run on processors that nobody has.
    pub spare: Spare,
    /// How long what an application asks for holds, 1 s to a day; default 10 s.
    pub request_holds: Duration,
    /// Where applications ask; `None`: nowhere.
    pub socket: Option<PathBuf>,
    /// The file to which the account is appended; `None`: none is kept.
    pub account: Option<PathBuf>,
    /// How often a line of each application is appended, 1 s to a day; default 1 min.
    pub account_every: Duration,
    /// In the order written, at least one.
    pub applications: Vec<Application>,
}

/// An application and what it may have.
#[derive(Clone, Debug, PartialEq)]
pub struct Application {
    /// Its name, unique in the file.
    pub name: String,
    /// Where its threads are.
    pub target: Target,
    /// What its need weighs, 0.01 to 100; default 1.
    pub priority: f64,
    /// The least it has while it runs; default half a processor.
    pub min: Halves,
    /// The most it has; default all there are.
    pub max: Halves,
}

impl Application {
    /// What it claims, with so much need in processors.
    #[must_use]
    pub fn claim(&self, need: f64) -> Claim {
        Claim { priority: self.priority, need, min: self.min, max: self.max }
    }
}

impl Settings {
    /// Reads the manager's file. `here` are the processors that can be divided: those this process may run on.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or every fault in it at once, with key path, line and mend.
    pub fn load(path: &Path, here: &List) -> Result<Self, Error> {
        const MEND: &str = "name a file of the CPU manager";
        let read = |path: &Path| {
            if fs::metadata(path)?.len() > FILE_BYTES_MAX {
                return Err(io::Error::other(format!("larger than {FILE_BYTES_MAX} bytes")));
            }
            fs::read_to_string(path)
        };
        let text = read(path).map_err(|source| Error::file(path, source, MEND))?;
        Ok(Self::parse(&text, &path.display().to_string(), here)?)
    }

    /// Reads the text of such a file; `origin` is the name under which faults are shown.
    ///
    /// # Errors
    ///
    /// Every fault at once, with key path, line and mend.
    pub fn parse(text: &str, origin: &str, here: &List) -> Result<Self, Faults> {
        section::read(origin, text, |top| settings(top, here))
    }
}

fn settings(top: &Section<'_>, here: &List) -> Settings {
    let processors = processors(top, here);
    let sharing = top
        .choice(
            "sharing",
            &[("halves", Sharing::Halves), ("upwards", Sharing::Upwards), ("none", Sharing::None)],
        )
        .unwrap_or_default();
    let all = Halves::whole(u32::try_from(processors.numbers().len()).unwrap_or(u32::MAX));
    let applications: Vec<Application> = top
        .named_tables("application")
        .into_iter()
        .map(|(name, section)| application(name, &section, all))
        .collect();
    if !top.has("application") || applications.is_empty() {
        top.missing("application", "[application.NAME] with unit, cgroup or pid_file");
    }
    if applications.len() > APPLICATIONS_MAX {
        top.fault("application", format!("there are more than {APPLICATIONS_MAX}"), "write fewer");
    }
    let account = top.table("account");
    let settings = Settings {
        interval: top.span("interval", INTERVALS).unwrap_or(Duration::from_secs(2)),
        utilisation: top.number("utilisation", 0.1..=1.0).unwrap_or(0.8),
        policy: top
            .choice("policy", &[("max-min", Policy::MaxMin), ("proportional", Policy::Proportional)])
            .unwrap_or_default(),
        sharing,
        spare: top.choice("spare", &[("all", Spare::All), ("nobody", Spare::Nobody)]).unwrap_or_default(),
        request_holds: top.span("request_holds", PERIODS).unwrap_or(Duration::from_secs(10)),
        socket: path(top, "socket"),
        account: account.as_ref().and_then(|account| {
            let file = path(account, "file");
            if file.is_none() {
                account.missing("file", "file = \"/var/lib/tidegate-processors/account.jsonl\"");
            }
            file
        }),
        account_every: account
            .as_ref()
            .and_then(|account| account.span("every", PERIODS))
            .unwrap_or(Duration::from_secs(60)),
        processors,
        applications,
    };
    if let Some(account) = account {
        account.finish();
    }
    suffices(top, &settings);
    settings
}

fn processors(top: &Section<'_>, here: &List) -> List {
    let Some(text) = top.text("processors") else { return here.clone() };
    let list = match text.parse::<List>() {
        Ok(list) if list.numbers().is_empty() => Err("names none".to_owned()),
        Ok(list) => match list.numbers().iter().find(|number| !here.numbers().contains(number)) {
            Some(number) => Err(format!("{number} is none of {here}, where this process may run")),
            None => Ok(list),
        },
        Err(what) => Err(what),
    };
    list.unwrap_or_else(|what| {
        top.fault("processors", what, format!("write some of \"{here}\""));
        here.clone()
    })
}

fn application(name: String, section: &Section<'_>, all: Halves) -> Application {
    if !is_class_name(&name) {
        section.fault(
            "",
            format!("\"{}\" is no name", name.escape_debug()),
            "write a name of a-z, 0-9, - and _",
        );
    }
    let targets = [
        section.text("unit").map(Target::Unit),
        path(section, "cgroup").map(Target::Cgroup),
        path(section, "pid_file").map(Target::PidFile),
    ];
    let mut targets = targets.into_iter().flatten();
    let target = targets.next();
    if target.is_none() {
        section.missing(
            "pid_file",
            "unit = \"NAME.service\", cgroup = \"/sys/fs/cgroup/…\" or pid_file = \"/run/…\"",
        );
    }
    if targets.next().is_some() {
        section.fault("", "unit, cgroup and pid_file name one thing in two ways", "write one of them");
    }
    let halves = |key: &'static str, default: Halves| {
        let Some(number) = section.number(key, 0.5..=1024.0) else { return default };
        if (number * 2.0).fract() != 0.0 {
            section.fault(key, format!("{number} is no number of halves"), "write 0.5, 1, 1.5 and so on");
        }
        Halves::holding(number)
    };
    let application = Application {
        target: target.unwrap_or_else(|| Target::PidFile(PathBuf::new())),
        priority: section.number("priority", 0.01..=100.0).unwrap_or(1.0),
        min: halves("min", Halves::ONE),
        max: halves("max", all),
        name,
    };
    if application.max < application.min {
        section.fault("max", "is below min", "write max at least as large as min");
    }
    section.finish();
    application
}

/// That each application can have its least, all at once.
fn suffices(top: &Section<'_>, settings: &Settings) {
    let unit = if settings.sharing == Sharing::Halves { 1 } else { 2 };
    let least = |application: &Application| application.min.count().div_ceil(unit) * unit;
    let together: u32 = settings.applications.iter().map(least).fold(0, u32::saturating_add);
    let there_are = settings.processors.numbers().len();
    if together as usize > 2 * there_are {
        top.fault(
            "application",
            format!("their least come to {} processors, of {there_are}", Halves::new(together).processors()),
            "lower a min, name fewer applications, or have them share processors by sharing = \"halves\"",
        );
    }
    let mut targets = BTreeMap::new();
    for application in &settings.applications {
        if let Some(other) = targets.insert(&application.target, &application.name) {
            top.fault(
                "application",
                format!("{other} and {} are both {}", application.name, application.target),
                "write one of them",
            );
        }
    }
}

fn path(section: &Section<'_>, key: &'static str) -> Option<PathBuf> {
    let text = section.text(key)?;
    if !text.starts_with('/') {
        section.fault(
            key,
            format!("\"{}\" is not absolute", text.escape_debug()),
            "write the path from / on",
        );
    }
    Some(PathBuf::from(text))
}
