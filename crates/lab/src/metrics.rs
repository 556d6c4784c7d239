//! The figures a run gives: names, units and what they mean.
//!
//! A figure of one class, or of one of several applications, has it before its name: `home:goodput_per_s`; of a zone, behind:
//! `first:goodput_per_s@B`. A figure of a live run
//! beside its simulation has a suffix: `goodput_per_s/simulated` is the ratio of both.

/// A row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// Its name.
    pub name: &'static str,
    /// Its unit, for axes; empty for a ratio.
    pub unit: &'static str,
    /// Axis label.
    pub label: &'static str,
    /// What it is.
    pub doc: &'static str,
    /// Whether each class has it too.
    pub by_class: bool,
}

macro_rules! metrics {
    ($($name:literal, $unit:literal, $by_class:literal, $label:literal, $doc:literal;)+) => {
        /// Every metric.
        pub const ALL: &[Metric] = &[
            $(Metric { name: $name, unit: $unit, label: $label, doc: $doc, by_class: $by_class },)+
        ];
    };
}

metrics! {
    "offered_per_s", "/s", true, "offered", "Requests offered a second, retries not counted.";
    "goodput_per_s", "/s", true, "goodput", "Good replies a second: without error and within the class's `within`, counted from the first try.";
    "goodput_share", "", false, "goodput / min(offered, capacity)", "Goodput over the lesser of what was offered and capacity.";
    "goodput_of_capacity", "", false, "goodput / capacity", "Goodput over capacity.";
    "served_share", "", true, "good / offered", "Good replies over requests offered.";
    "refused_share", "", true, "refused / tries", "Tries refused over tries.";
    "timed_out_share", "", true, "timed out / tries", "Tries whose client gave up over tries.";
    "response_mean_ms", "ms", true, "mean response time", "Mean response time of replies, from when the first try was meant to be sent.";
    "response_p50_ms", "ms", true, "median response time", "Median response time of replies.";
    "response_p95_ms", "ms", true, "95th percentile of response time", "95th percentile of the response time of replies.";
    "response_p99_ms", "ms", true, "99th percentile of response time", "99th percentile of the response time of replies.";
    "wasted_share", "", false, "work for nobody", "Share of the server's work done for clients who had left, or that ended in an error.";
    "fairness", "", false, "Jain's index over clients", "Jain's index over the share of its requests for which each client got a good reply; absent for browsers and where nobody got one.";
    "settle_s", "s", false, "time to settle", "From the start of the load until goodput, as a mean over 5 s, stays at 90 % of the lesser of offered and capacity; infinite if it does not.";
    "recover_s", "s", false, "time to recover", "From the start of the last phase of the load until goodput is 95 % of what that phase offers, as a mean over 3 s and as one over all that follows; infinite if it never is.";
    "storm_goodput_of_capacity", "", false, "goodput in the first phase / capacity", "Goodput during the first phase of the load, its first 2 s left out, over capacity.";
    "work_of_capacity", "", false, "work done / capacity", "Share of the server's processors that worked in the measured time, for whomever.";
    "told_share", "", false, "told a time / offered", "Visitors told to come later over requests offered.";
    "served_of_comers", "", false, "served / who came", "Replies over requests offered less those who did not come at their time.";
    "broken_share", "", false, "visits broken off / visits", "Visits that ended because a request after the first was not answered, over visits that ended.";
    "sessions_completed_per_s", "/s", false, "sessions completed", "Visits begun in the measured time of which every request was answered, until they ended by themselves before the run did, a second.";
    "sessions_refused_per_s", "/s", false, "sessions refused", "Visits begun in the measured time that ended because a connection or a request was refused, a second.";
    "sessions_timed_out_per_s", "/s", false, "sessions timed out", "Visits begun in the measured time that ended because their client gave up, a second.";
    "processors", "", false, "processors given", "Processors the application had in the mean: as many as the CPU manager of the arm gave it, or else as many as it may use.";
    "processors_used", "", false, "processors used", "Processors that worked in the measured time, for whomever.";
    "overtaken_share", "", false, "overtaken / started", "Starts of requests that were overtaken by more than a second by somebody who first asked later.";
    "overtaken_mean_ms", "ms", false, "mean time overtaken by", "By how much later the last of those who had started over a second before had first asked, as a mean over all starts; 0 of who was not overtaken.";
    "return_p50_ms", "ms", false, "median from return to reply", "Median time from coming at the promised time until the reply, the short queue included.";
    "return_p99_ms", "ms", false, "99th percentile from return to reply", "99th percentile of the time from coming at the promised time until the reply.";
    "service_p50_ms", "ms", false, "median at the server", "Median time from the start at the front until the server's end.";
    "cheat_gain", "", false, "mean time of all / of cheats", "Mean time from first asking to the reply of everybody over that of those who made a promise up; over 1 they gained.";
    "found_within_5_s", "s", false, "time until within 5 %", "From the beginning, or the last change of the server's speed, until the front's estimate of the capacity is within 5 % and stays there for 10 s; infinite if it does not.";
    "found_within_3_s", "s", false, "time until within 3 %", "The same within 3 %.";
    "reached_within_5_s", "s", false, "time until within 5 % for 3 s", "As found_within_5_s, but the estimate need stay there for 3 s only: where the counting of departures alone scatters it by a few percent, 10 s in a row are a matter of luck.";
    "reached_within_3_s", "s", false, "time until within 3 % for 3 s", "The same within 3 %.";
    "regained_s", "s", false, "time until 90 % of capacity", "From the beginning, or the last change of the server's speed, until goodput, as a mean over 5 s, stays at 90 % of the capacity there is then; infinite if it does not.";
    "overshoot", "", false, "most started a second / capacity", "Most requests started in any second over the capacity there is at the end.";
    "search_overshoot", "", false, "most started a second while searching / capacity", "The same over the 40 s after the beginning or the last change of the server's speed, over the capacity there is then.";
    "search_goodput", "", false, "goodput while searching / capacity", "Goodput in the 10 s after the beginning, or the last change of the server's speed, over the capacity there is then.";
    "changes_per_h", "/h", false, "changes believed in", "Times an hour the front took the capacity to have fallen, risen or been more than it seemed, in the measured time.";
    "lost_to_changes", "", false, "lost to changes believed in", "Share of the goodput that is missing because of the 10 s after each of these, compared with the rest of the measured time.";
    "mean_ms", "ms", false, "mean response time", "Of the truth: mean response time as simulated.";
    "theory_ms", "ms", false, "mean by theory", "Of the truth: mean response time by theory.";
    "over_theory", "", false, "simulated / theory", "Of the truth: mean response time as simulated over theory's.";
}

/// Figures second by second, for plots over time.
pub const SERIES: &[(&str, &str, &str)] = &[
    ("offered", "/s", "Requests offered."),
    ("goodput", "/s", "Good replies."),
    ("refused", "/s", "Refusals."),
    ("timed_out", "/s", "Tries given up."),
    ("limit", "", "The front's limit, if it has one."),
    ("capacity", "/s", "The capacity the front takes the server to have, work units a second."),
    ("in_flight", "", "Requests at the server."),
    ("queued", "", "Requests waiting at the front."),
    ("processors", "", "Processors the application has."),
];

/// The suffix of ratios of a live run to its simulation.
pub const BESIDE_SIMULATION: &str = "/simulated";

/// Before the name of the zone that a figure is of: `first:goodput_per_s@B`.
pub const OF_ZONE: char = '@';

/// The figures that zones have.
pub const OF_ZONES: &[&str] = &["offered_per_s", "goodput_per_s", "processors", "processors_used"];

/// What an experiment has figures of, beside the whole.
#[derive(Clone, Debug, Default)]
pub struct Parts {
    /// Its classes; where there are several applications these have no figures.
    pub classes: Vec<String>,
    /// Its applications, where there are several: everything is of one of them.
    pub applications: Vec<String>,
    /// Its zones.
    pub zones: Vec<String>,
}

impl Parts {
    /// What may stand before a figure, and what it is called.
    fn before(&self) -> (&'static str, &[String]) {
        if self.applications.is_empty() {
            ("class", &self.classes)
        } else {
            ("application", &self.applications)
        }
    }

    /// Whether this may stand before a figure; otherwise the mend.
    fn check(&self, part: Option<&str>) -> Result<(), String> {
        let (what, known) = self.before();
        match part {
            Some(part) if !known.iter().any(|one| one == part) => {
                Err(format!("there is no {what} {part}: write one of {}", known.join(", ")))
            }
            None if !self.applications.is_empty() => Err(format!(
                "it is of one application: write one of {} and a colon before it",
                known.join(", ")
            )),
            _ => Ok(()),
        }
    }
}

/// A figure's name taken apart: what it is of, its row's name, its zone.
fn apart(name: &str) -> (Option<&str>, &str, Option<&str>) {
    let name = name.strip_suffix(BESIDE_SIMULATION).unwrap_or(name);
    let (part, name) = name.split_once(':').map_or((None, name), |(part, name)| (Some(part), name));
    let (name, zone) = name.split_once(OF_ZONE).map_or((name, None), |(name, zone)| (name, Some(zone)));
    (part, name, zone)
}

/// The row of a metric, with the class or application if it is of one.
#[must_use]
pub fn find(name: &str) -> Option<(Option<&str>, &'static Metric)> {
    let (part, base, _) = apart(name);
    ALL.iter().find(|metric| metric.name == base).map(|metric| (part, metric))
}

/// What an axis says of a metric.
#[must_use]
pub fn axis(name: &str) -> String {
    let Some((class, metric)) = find(name) else {
        let unit = SERIES.iter().find(|(series, _, _)| *series == name).map_or("", |(_, unit, _)| unit);
        return with_unit(name, unit);
    };
    let label = match class {
        Some(class) => format!("{} of {class}", metric.label),
        None => metric.label.to_owned(),
    };
    let (.., zone) = apart(name);
    let label = zone.map_or_else(|| label.clone(), |zone| format!("{label}, zone {zone}"));
    if name.ends_with(BESIDE_SIMULATION) {
        format!("{label}, live over simulated")
    } else {
        with_unit(&label, metric.unit)
    }
}

fn with_unit(label: &str, unit: &str) -> String {
    let label = label.replace('_', " ");
    if unit.is_empty() { label } else { format!("{label} ({unit})") }
}

/// Whether there is such a metric of such a part; otherwise the mend.
pub(crate) fn check(name: &str, parts: &Parts) -> Result<(), String> {
    let (part, base, zone) = apart(name);
    parts.check(part)?;
    if let Some(zone) = zone {
        if !parts.zones.iter().any(|known| known == zone) {
            return Err(format!("there is no zone {zone}: write one of {}", parts.zones.join(", ")));
        }
        if !OF_ZONES.contains(&base) {
            return Err(format!("zones have {}", OF_ZONES.join(", ")));
        }
    }
    let of_class = parts.applications.is_empty() && part.is_some();
    if find(name).is_some_and(|(_, metric)| metric.by_class || !of_class) {
        return Ok(());
    }
    Err(tidegate_config::closest(base, ALL.iter().map(|metric| metric.name)).map_or_else(
        || "docs/lab.md lists them".to_owned(),
        |meant| format!("did you mean {meant}? docs/lab.md lists them"),
    ))
}

/// Whether there is such a series; otherwise the mend.
pub(crate) fn check_series(name: &str, parts: &Parts) -> Result<(), String> {
    let (part, base) = name.split_once(':').map_or((None, name), |(part, base)| (Some(part), base));
    parts.check(part)?;
    let names: Vec<&str> = SERIES.iter().map(|(name, _, _)| *name).collect();
    if names.contains(&base) { Ok(()) } else { Err(format!("write one of {}", names.join(", "))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_found() {
        for metric in ALL {
            assert_eq!(ALL.iter().filter(|other| other.name == metric.name).count(), 1, "{}", metric.name);
            assert!(find(metric.name).is_some() && metric.doc.ends_with('.'), "{}", metric.name);
        }
        let parts = Parts { classes: vec!["home".to_owned()], ..Parts::default() };
        assert_eq!(check("home:goodput_per_s", &parts), Ok(()));
        assert_eq!(check("goodput_per_s/simulated", &parts), Ok(()));
        assert!(check("home:fairness", &parts).is_err());
        assert!(check("shop:goodput_per_s", &parts).is_err());
        assert!(check("godput_share", &parts).is_err_and(|mend| mend.contains("goodput_share")));
    }

    #[test]
    fn figures_of_several_applications_and_zones_name_them() {
        let parts = Parts {
            applications: vec!["first".to_owned(), "second".to_owned()],
            zones: vec!["B".to_owned()],
            ..Parts::default()
        };
        assert_eq!(check("first:fairness", &parts), Ok(()));
        assert_eq!(check("second:processors@B", &parts), Ok(()));
        assert!(check("processors@B", &parts).is_err_and(|mend| mend.contains("first, second")));
        assert!(check("third:processors", &parts).is_err_and(|mend| mend.contains("first, second")));
        assert!(check("first:processors@C", &parts).is_err_and(|mend| mend.contains("one of B")));
        assert!(check("first:fairness@B", &parts).is_err_and(|mend| mend.contains("goodput_per_s")));
        assert_eq!(check_series("first:processors", &parts), Ok(()));
        assert!(check_series("processors", &parts).is_err());
        assert_eq!(axis("first:goodput_per_s@B"), "goodput of first, zone B (/s)");
    }

    #[test]
    fn axes_name_class_and_unit() {
        assert_eq!(axis("home:goodput_per_s"), "goodput of home (/s)");
        assert_eq!(axis("goodput_share"), "goodput / min(offered, capacity)");
        assert_eq!(axis("timed_out"), "timed out (/s)");
    }
}
