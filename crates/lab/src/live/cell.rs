//! One cell of a live experiment: its run and its figures.

use std::time::Duration;

use tidegate_load::{
    ClassReport, Report,
    report::{PageReport, WaitReport},
};
use tidegate_sim::Draw;

use super::{load, stand::Stand};
use crate::{
    LabError,
    experiment::{Arm, Class, Front, Live, Page, Population, RunLength, Shape, Web, Work},
    metrics,
    outcome::{Figures, Series},
    shape, simulated,
};

/// What is run.
pub(super) struct Cell<'c> {
    pub(super) arm: &'c Arm,
    pub(super) web: &'c Web,
    pub(super) live: &'c Live,
    pub(super) load: f64,
    pub(super) capacity: f64,
    /// Time on the way there and back, in the simulator.
    pub(super) on_the_way: Duration,
    /// Whether clients come when they are told to.
    pub(super) follows: bool,
    pub(super) seed: u64,
}

/// What came of it.
pub(super) struct Measured {
    pub(super) figures: Figures,
    pub(super) series: Series,
    pub(super) notes: Vec<String>,
    pub(super) script_stopped: bool,
}

impl Cell<'_> {
    pub(super) fn run(&self, stand: &Stand<'_>) -> Result<Measured, LabError> {
        let pair = stand.pair(self.arm, self.capacity)?;
        let (plan, phases) = load::plan(self.web, self.live, self.load, self.capacity, &pair.url)?;
        let plan = if self.follows { load::followed(plan) } else { plan };
        let plan = plan.seed(self.seed).cpus(stand.processors.rest.clone());
        let report = stand.interrupt.run(&plan)?;
        let mut figures = self.figures(&report, &phases);
        if let Some(wasted) = pair.wasted_share() {
            figures.insert("wasted_share".to_owned(), wasted);
        }
        if let Some(service) = pair.service_ms() {
            figures.insert("service_p50_ms".to_owned(), service);
        }
        if self.live.simulated_too {
            self.beside_simulation(&mut figures)?;
        }
        let mut notes = report.generator.reasons.clone();
        notes.extend(pair.fault().map(|fault| format!("the gateway said: {fault}")));
        let script_stopped = pair.has_stopped_script();
        Ok(Measured { figures, series: self.series(&report), notes, script_stopped })
    }

    fn figures(&self, report: &Report, phases: &[(Duration, f64)]) -> Figures {
        let mut figures = Figures::new();
        of_class(&mut figures, "", &report.total);
        for class in &report.classes {
            of_class(&mut figures, &format!("{}:", class.name), class);
        }
        if let Population::Browsers { pages, .. } = &self.web.load.population {
            of_pages(&mut figures, &self.web.classes, pages, report);
        }
        let total = &report.total;
        if let Some(waits) = &total.waits {
            of_waits(&mut figures, total, waits);
        }
        let mut put = |name: &str, value: f64| figures.insert(name.to_owned(), value);
        put("goodput_share", total.goodput_per_s / total.offered_per_s.min(self.capacity));
        put("goodput_of_capacity", total.goodput_per_s / self.capacity);
        if let Some(index) = total.fairness {
            put("fairness", index);
        }
        let (offered, good) = (per_second(&total.series.offered), per_second(&total.series.good));
        shape::of_phases(&mut figures, phases, self.capacity, &offered, &good);
        if phases.is_empty() {
            // The drain after the last arrival is no part of the load.
            let end = (self.live.warm_up + self.live.measured).as_secs();
            let good =
                good.get(..usize::try_from(end).unwrap_or(good.len()).min(good.len())).unwrap_or(&good);
            let level = 0.9 * self.capacity * self.load.min(1.0);
            figures.insert("settle_s".to_owned(), shape::settled_after(good, level));
        }
        figures
    }

    fn series(&self, report: &Report) -> Series {
        let mut series = Series::new();
        let classes = report.classes.iter().map(|class| (format!("{}:", class.name), class));
        for (prefix, class) in std::iter::once((String::new(), &report.total)).chain(classes) {
            let of = &class.series;
            let all = [
                ("offered", &of.offered),
                ("goodput", &of.good),
                ("refused", &of.refused),
                ("timed_out", &of.timeouts),
            ];
            for (name, counts) in all {
                series.insert(format!("{prefix}{name}"), per_second(counts));
            }
        }
        series
    }

    /// The same cell in the simulator, with the work that makes the capacity found and the way as long as found; and
    /// the ratios.
    fn beside_simulation(&self, figures: &mut Figures) -> Result<(), LabError> {
        if matches!(self.arm.front, Front::Peer(_)) {
            return Ok(());
        }
        let mut web = self.web.clone();
        let scale = crate::site::capacity(&web) / self.capacity;
        for class in &mut web.classes {
            class.work = Work { mean: class.work.mean.mul_f64(scale), shape: Shape::Constant };
        }
        let run = RunLength { warm_up: self.live.warm_up, measured: self.live.measured, seeds: 1 };
        let mut simulated = Vec::new();
        for seed in 0..10 {
            let mut scenario = simulated::scenario(&web, self.load, &run, self.seed * 1000 + seed);
            for application in &mut scenario.applications {
                application.network.latency = Draw::Constant(self.on_the_way.as_secs_f64() / 2.0);
            }
            simulated.push(simulated::simulate(self.arm, &web, scenario, self.load)?.figures);
        }
        let ratios: Vec<(String, f64)> = figures
            .iter()
            .filter_map(|(name, live)| {
                let values: Vec<f64> = simulated.iter().filter_map(|run| run.get(name).copied()).collect();
                let simulated = crate::statistics::mean(&values)?;
                (simulated > 0.0).then(|| (format!("{name}{}", metrics::BESIDE_SIMULATION), live / simulated))
            })
            .collect();
        figures.extend(ratios);
        Ok(())
    }
}

fn of_class(figures: &mut Figures, prefix: &str, class: &ClassReport) {
    let mut put = |name: &str, value: f64| figures.insert(format!("{prefix}{name}"), value);
    put("offered_per_s", class.offered_per_s);
    put("goodput_per_s", class.goodput_per_s);
    put("served_share", ratio(class.good, class.offered));
    put("refused_share", ratio(class.refused, class.sent));
    put("timed_out_share", ratio(class.timed_out(), class.sent));
    let times = &class.good_latency_ms;
    if times.count > 0 {
        put("response_mean_ms", times.mean);
        put("response_p50_ms", times.p50);
        put("response_p95_ms", times.p95);
        put("response_p99_ms", times.p99);
    }
}

/// Who was told a time, and how he fared.
fn of_waits(figures: &mut Figures, total: &ClassReport, waits: &WaitReport) {
    let mut put = |name: &str, value: f64| figures.insert(name.to_owned(), value);
    put("told_share", ratio(waits.by_returns.values().sum(), total.offered));
    put("served_of_comers", ratio(total.good, total.offered.saturating_sub(waits.left)));
    put("overtaken_share", ratio(waits.overtaken, total.good));
    if waits.from_return_ms.count > 0 {
        put("return_p50_ms", waits.from_return_ms.p50);
        put("return_p99_ms", waits.from_return_ms.p99);
    }
}

/// Figures of each class of browsers' requests, who are one class to the generator: those of its pages together.
#[expect(clippy::cast_precision_loss, reason = "counts of a run")]
fn of_pages(figures: &mut Figures, classes: &[Class], pages: &[Page], report: &Report) {
    for (position, class) in classes.iter().enumerate() {
        let is_of_it =
            |page: &&PageReport| pages.iter().any(|known| known.class == position && known.name == page.name);
        let visited = report.classes.iter().filter_map(|class| class.sessions.as_ref());
        let visited = visited.flat_map(|sessions| &sessions.pages).filter(is_of_it);
        let (mut requests, mut good, mut response_ms) = (0, 0, 0.0);
        for page in visited {
            requests += page.requests;
            good += page.good;
            response_ms += page.good as f64 * page.good_latency_ms.mean;
        }
        let mut put = |name: &str, value: f64| figures.insert(format!("{}:{name}", class.name), value);
        put("goodput_per_s", good as f64 / report.measured_s);
        put("served_share", ratio(good, requests));
        if good > 0 {
            put("response_mean_ms", response_ms / good as f64);
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts of a second")]
fn per_second(counts: &[u64]) -> Vec<f64> {
    counts.iter().map(|count| *count as f64).collect()
}

/// A ratio of counts; 0 of nothing.
#[expect(clippy::cast_precision_loss, reason = "counts of a run")]
fn ratio(of: u64, over: u64) -> f64 {
    if over == 0 { 0.0 } else { of as f64 / over as f64 }
}

#[cfg(test)]
mod tests {
    use tidegate_load::{
        origin::{Origin, Settings},
        run_blocking,
    };

    use super::*;
    use crate::experiment::{Subject, builtin};

    #[test]
    fn classes_of_browsers_have_the_figures_of_their_pages() {
        let known = builtin::ALL.iter().find(|known| known.name == "masth-home-limit").expect("built in");
        let experiment = known.experiment().unwrap_or_else(|faults| panic!("{faults}"));
        let (Some(live), Subject::Web(web)) = (&experiment.live, &experiment.subject) else { panic!("live") };
        let (mut web, mut live) = (web.clone(), live.clone());
        if let Population::Browsers { think, .. } = &mut web.load.population {
            *think = Duration::from_millis(100);
        }
        (live.warm_up, live.measured) = (Duration::ZERO, Duration::from_secs(5));
        let origin = Origin::start(&Settings::default()).expect("an origin");
        let (plan, _) = load::plan(&web, &live, 1.0, 100.0, &origin.url()).expect("a plan");
        let report = run_blocking(plan).expect("a run");
        let Population::Browsers { pages, .. } = &web.load.population else { panic!("browsers") };
        let mut figures = Figures::new();
        of_pages(&mut figures, &web.classes, pages, &report);
        let (home, other) = (figures["home:goodput_per_s"], figures["other:goodput_per_s"]);
        assert!(home > 0.0 && other > 0.0, "{figures:?}");
        assert!((home + other - report.total.goodput_per_s).abs() < 1e-6, "{figures:?}");
        assert!((figures["home:served_share"] - 1.0).abs() < 1e-9, "{figures:?}");
        let mean = (home * figures["home:response_mean_ms"] + other * figures["other:response_mean_ms"])
            / (home + other);
        assert!((mean / report.total.good_latency_ms.mean - 1.0).abs() < 0.01, "{mean}");
    }
}
