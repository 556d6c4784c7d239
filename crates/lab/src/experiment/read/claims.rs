//! What an experiment claims and draws: checks and plots, and that what they refer to is run.

use tidegate_config::section::Section;

use super::{
    super::{
        Arm, BEFORE, Check, Experiment, Front, Mode, Op, Over, OverRuns, Plot, Relative, Span, Subject, Take,
    },
    CAPACITIES, class_names,
};
use crate::metrics::{self, Parts};

/// What checks and plots may refer to.
pub(super) struct Context<'e> {
    parts: Parts,
    /// Names of arms, also before each server.
    names: Vec<String>,
    arms: &'e [Arm],
    /// The modes there are, and the x values of each.
    modes: Vec<(Mode, &'e [f64])>,
    /// The truth has arms and loads of its own.
    is_web: bool,
}

impl<'e> Context<'e> {
    pub(super) fn new(experiment: &'e Experiment) -> Self {
        let mut names: Vec<String> = experiment.arms.iter().map(|arm| arm.name.clone()).collect();
        for server in &experiment.servers {
            names.extend(experiment.arms.iter().map(|arm| arm.name_before(server.name)));
        }
        let mut modes = Vec::new();
        if experiment.has(Mode::Simulated) {
            modes.push((Mode::Simulated, experiment.loads.as_slice()));
        }
        if let Some(live) = &experiment.live {
            modes.push((Mode::Live, live.loads.as_slice()));
        }
        Self {
            parts: parts(&experiment.subject),
            names,
            arms: &experiment.arms,
            modes,
            is_web: matches!(experiment.subject, Subject::Web(_)),
        }
    }

    pub(super) fn check(&self, section: &Section<'_>) -> Check {
        let name = section.required_text("name", "name = \"what is claimed\"");
        let metric = self.metric(section, "metric");
        let arm = self.arm(section, "arm");
        let most = *CAPACITIES.end();
        let at = match section.number("at", 0.01..=most) {
            Some(load) => Span { from: load, to: load },
            None => Span {
                from: section.number("from", 0.0..=most).unwrap_or(0.0),
                to: section.number("to", 0.0..=most).unwrap_or(most),
            },
        };
        let relative_to = self.relative(section).unwrap_or(Relative::Absolute);
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
        if self.is_web {
            self.check_is_measured(section, &check);
        }
        check
    }

    pub(super) fn plot(&self, section: &Section<'_>) -> Plot {
        let title = section.required_text("title", "title = \"Goodput over load\"");
        let over = match section.number("over_time_at", 0.01..=*CAPACITIES.end()) {
            Some(load) => {
                let loads = self.modes.iter().flat_map(|(_, loads)| loads.iter());
                if self.is_web && !loads.clone().any(|one| *one == load) {
                    section.fault(
                        "over_time_at",
                        format!("nothing runs at load {load}"),
                        format!("write one of {}", listed(loads)),
                    );
                }
                Over::Time { load }
            }
            None => Over::Load,
        };
        let metric = match over {
            Over::Load => self.metric(section, "metric"),
            Over::Time { .. } => {
                let name = section.required_text("metric", "metric = \"goodput\"");
                if let Err(mend) = metrics::check_series(&name, &self.parts) {
                    section.fault("metric", format!("there is no series {name}"), mend);
                }
                name
            }
        };
        let plot = Plot {
            title,
            metric,
            against: section.has("against").then(|| self.metric(section, "against")),
            over,
            log_y: section.flag("log_y").unwrap_or(false),
            y_min: section.number("y_min", 1e-9..=1e12),
            y_max: section.number("y_max", 1e-9..=1e12),
            without: section.texts("without"),
        };
        if let (Some(low), Some(high)) = (plot.y_min, plot.y_max)
            && low >= high
        {
            section.fault("y_max", format!("{high} is not above y_min, {low}"), "raise it, or leave one out");
        }
        for name in plot.without.iter().filter(|name| self.is_web && !self.names.contains(name)) {
            section.fault(
                "without",
                format!("there is no arm {name}"),
                format!("write one of {}", self.names.join(", ")),
            );
        }
        section.finish();
        plot
    }

    fn metric(&self, section: &Section<'_>, key: &'static str) -> String {
        let name = section.required_text(key, "metric = \"goodput_share\"");
        if name.is_empty() {
            return name;
        }
        if let Err(mend) = metrics::check(&name, &self.parts) {
            section.fault(key, format!("there is no metric {name}"), mend);
        }
        name
    }

    /// Arms of the truth are the simulator's; those of other experiments must be written.
    fn arm(&self, section: &Section<'_>, key: &'static str) -> Option<String> {
        let name = section.text(key)?;
        if self.is_web && !self.names.contains(&name) {
            section.fault(
                key,
                format!("there is no arm {name}"),
                format!("write one of {}", self.names.join(", ")),
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

    /// What is not measured does not pass: a check of it would miss whenever it is judged.
    fn check_is_measured(&self, section: &Section<'_>, check: &Check) {
        let has_load = |loads: &[f64]| loads.iter().any(|load| (check.at.from..=check.at.to).contains(load));
        if !self.modes.iter().any(|(_, loads)| has_load(loads)) {
            let all = self.modes.iter().flat_map(|(_, loads)| loads.iter());
            section.fault(
                "at",
                "no load of the experiment lies there",
                format!("its x axis has {}", listed(all)),
            );
            return;
        }
        if let Some(mode) = check.mode.filter(|mode| !self.modes.iter().any(|(known, _)| known == mode)) {
            section.fault("mode", format!("there are no {} runs", mode.name()), "leave it out");
        }
        for (mode, loads) in self.modes.iter().filter(|(mode, _)| check.mode.is_none_or(|only| only == *mode))
        {
            let other = match mode {
                Mode::Simulated => Mode::Live,
                Mode::Live => Mode::Simulated,
            };
            let mend = format!("write mode = \"{}\"", other.name());
            if !has_load(loads) {
                section.fault(
                    "at",
                    format!("no load of {} runs lies there", mode.name()),
                    format!("they have {}; or {mend}", listed(loads.iter())),
                );
            }
            let relative_to = match &check.relative_to {
                Relative::Arm(name) => Some(name),
                Relative::Absolute | Relative::Peak => None,
            };
            for (key, name) in [("arm", check.arm.as_ref()), ("relative_to", relative_to)] {
                if let Some(name) = name.filter(|name| self.is_left_out(name, *mode)) {
                    section.fault(key, format!("{name} is no arm of {} runs", mode.name()), mend.clone());
                }
            }
        }
    }

    /// Whether the arm is there, but not in this mode.
    fn is_left_out(&self, name: &str, mode: Mode) -> bool {
        let is_it = |arm: &&Arm| {
            name.strip_prefix(arm.name.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(BEFORE))
        };
        let is_run = |front: Front| match mode {
            Mode::Simulated => front.is_simulated(),
            Mode::Live => front.is_live(),
        };
        self.arms.iter().find(is_it).is_some_and(|arm| !is_run(arm.front))
    }
}

/// What figures there are of.
fn parts(subject: &Subject) -> Parts {
    let Subject::Web(web) = subject else { return Parts::default() };
    Parts {
        classes: class_names(subject),
        applications: web.applications.iter().map(|application| application.name.clone()).collect(),
        zones: web.zones.iter().map(|zone| zone.name.clone()).collect(),
    }
}

/// Numbers in order, each once.
fn listed<'l>(loads: impl Iterator<Item = &'l f64>) -> String {
    let mut loads: Vec<f64> = loads.copied().collect();
    loads.sort_by(f64::total_cmp);
    loads.dedup();
    loads.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
