//! An experiment in virtual time: its scenarios, their runs on all processors, and the figures of each.

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

use tidegate_control::ClassId;
use tidegate_scripts::{Engine, Limits};
use tidegate_sim::{
    Application, Arrivals, Backoff, Behaviour, Change, Clients, Counts, Direct, Draw, Front, Gateway, Host,
    RunResult, Scenario,
};

use crate::{
    LabError,
    baselines::Surroundings,
    experiment::{
        self, Arm, Axis, Class, Experiment, Mode, Phase, Population, RunLength, Shape, Subject, Web, Work,
        pairs,
    },
    outcome::{Figures, Outcome, Run, Series},
    shape::settled_after,
    site,
    statistics::mean,
};

/// Seconds of a search whose goodput counts, and of those whose starts do: as in the measurements the bars come from.
const SEARCH_S: usize = 10;
const OVERSHOOT_S: usize = 40;
/// How long after a change that the front believed in its cost is looked for.
const AFTER_CHANGE: Duration = Duration::from_secs(10);

/// The name of the application in knobs and scripts, simulated and live.
pub const APPLICATION: &str = "shop";

/// How an experiment is simulated.
#[derive(Clone, Copy)]
pub struct Options<'p> {
    /// The first seed.
    pub seed: u64,
    /// Seeds; `None`: as the experiment says.
    pub seeds: Option<u32>,
    /// Told how many of how many runs are done.
    pub progress: &'p (dyn Fn(usize, usize) + Sync),
}

/// Runs every cell of an experiment with every seed.
///
/// # Errors
///
/// A scenario the simulator refuses, or a script that does not load.
pub fn run(experiment: &Experiment, options: Options<'_>) -> Result<Outcome, LabError> {
    let seeds = options.seeds.unwrap_or(experiment.run.seeds);
    match &experiment.subject {
        Subject::Truth { requests } => Ok(truth(&experiment.loads, *requests, seeds, options)),
        Subject::Web(web) => cells(experiment, web, seeds, options),
    }
}

/// Queues that theory knows. The arms are the simulator's.
fn truth(loads: &[f64], requests: u32, seeds: u32, options: Options<'_>) -> Outcome {
    let found = in_parallel(seeds as usize, options.progress, |repetition| {
        tidegate_sim::queueing_truth(loads, options.seed + repetition as u64, 1, requests)
    });
    let mut arms: Vec<String> = Vec::new();
    let mut runs = Vec::new();
    for (repetition, truths) in (0..).zip(found) {
        for truth in truths {
            let arm = arms.iter().position(|arm| arm == truth.queue).unwrap_or_else(|| {
                arms.push(truth.queue.to_owned());
                arms.len() - 1
            });
            let figures = [
                ("mean_ms", truth.simulated_s * 1e3),
                ("theory_ms", truth.theory_s * 1e3),
                ("over_theory", truth.simulated_s / truth.theory_s),
            ];
            runs.push(Run {
                arm,
                load: loads.iter().position(|load| *load == truth.load).unwrap_or_default(),
                repetition,
                seed: options.seed + u64::from(repetition),
                figures: figures.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
                series: Series::new(),
                hash: None,
            });
        }
    }
    runs.sort_by_key(|run| (run.arm, run.load, run.repetition));
    Outcome {
        mode: Mode::Simulated,
        seed: options.seed,
        repetitions: seeds,
        arms,
        loads: loads.to_vec(),
        capacity_per_s: None,
        runs,
        notes: Vec::new(),
    }
}

fn cells(experiment: &Experiment, web: &Web, seeds: u32, options: Options<'_>) -> Result<Outcome, LabError> {
    let arms = rows(experiment, web);
    for row in &arms {
        // Said once and before any run.
        drop(front(
            row.arm,
            &row.web,
            &scenario(&row.web, 1.0, &experiment.run, options.seed),
            options.seed,
        )?);
    }
    let mut cells = Vec::new();
    // The heaviest first, so that no processor is left with one of them at the end.
    for load in (0..experiment.loads.len()).rev() {
        let seeds = match &experiment.axis {
            Axis::Load => seeds,
            Axis::Capacity(runs) => runs[load].seeds.min(seeds),
        };
        for repetition in 0..seeds {
            cells.extend((0..arms.len()).map(|arm| (arm, load, repetition)));
        }
    }
    let found = in_parallel(cells.len(), options.progress, |position| {
        let (arm, at, repetition) = cells[position];
        let seed = options.seed + u64::from(repetition);
        let (web, load, run) = cell(experiment, &arms[arm].web, at);
        let scenario = scenario(&web, load, run, seed);
        let (figures, series, hash) = simulate(arms[arm].arm, &web, &scenario, load)?;
        Ok(Run { arm, load: at, repetition, seed, figures, series, hash: Some(hash) })
    });
    let mut runs = found.into_iter().collect::<Result<Vec<Run>, LabError>>()?;
    runs.sort_by_key(|run| (run.arm, run.load, run.repetition));
    Ok(Outcome {
        mode: Mode::Simulated,
        seed: options.seed,
        repetitions: seeds,
        arms: arms.into_iter().map(|row| row.name).collect(),
        loads: experiment.loads.clone(),
        capacity_per_s: experiment.servers.is_empty().then(|| site::capacity(web)),
        runs,
        notes: Vec::new(),
    })
}

/// An arm and the server it stands before.
struct Row<'e> {
    name: String,
    arm: &'e Arm,
    web: Web,
}

/// Every arm before every server.
fn rows<'e>(experiment: &'e Experiment, web: &Web) -> Vec<Row<'e>> {
    let arms = experiment.arms.iter().filter(|arm| arm.front.is_simulated());
    arms.flat_map(|arm| {
        let before = experiment.servers.iter().map(|server| Row {
            name: arm.name_before(server.name),
            arm,
            web: Web { stand_in: Some(server.clone()), ..web.clone() },
        });
        let alone =
            experiment.servers.is_empty().then(|| Row { name: arm.name.clone(), arm, web: web.clone() });
        before.chain(alone)
    })
    .collect()
}

/// What is run at a place of the x axis: the server, the load and for how long.
fn cell<'e>(experiment: &'e Experiment, web: &Web, at: usize) -> (Web, f64, &'e RunLength) {
    let x = experiment.loads[at];
    match &experiment.axis {
        Axis::Load => (web.clone(), x, &experiment.run),
        Axis::Capacity(runs) => {
            let stand_in = web.stand_in.as_ref().map(|server| server.at_capacity(x));
            (Web { stand_in, ..web.clone() }, 1.0, &runs[at])
        }
    }
}

/// One run: its figures, series and trace.
pub(crate) fn simulate(
    arm: &Arm,
    web: &Web,
    scenario: &Scenario,
    load: f64,
) -> Result<(Figures, Series, u64), LabError> {
    scenario.check().map_err(|fault| LabError::Run(format!("scenario: {fault}")))?;
    let mut front = front(arm, web, scenario, scenario.seed)?;
    let result = tidegate_sim::run(scenario, front.as_mut());
    Ok((figures(&result, web, load), series(&result, web), result.hash))
}

/// The scenario of a cell.
pub(crate) fn scenario(web: &Web, load: f64, run: &RunLength, seed: u64) -> Scenario {
    let capacity = site::capacity(web);
    let server = &web.server;
    let retry = web.load.retry.map(|retry| tidegate_sim::Retry {
        attempts: retry.attempts,
        after_refusal: retry.after_refusal,
        after_timeout: true,
        backoff: Backoff::Exponential {
            first: retry.first,
            factor: retry.factor,
            max: retry.max,
            jitter: retry.jitter,
        },
    });
    let mut application = Application {
        name: APPLICATION.to_owned(),
        classes: web.classes.iter().map(class).collect(),
        server: tidegate_sim::Server {
            threads: server.threads,
            backlog: server.backlog,
            switching: server.switching.map(|switching| tidegate_sim::Switching {
                quantum: switching.quantum,
                switch: switching.switch,
                refill: switching.refill,
                warm: switching.warm,
            }),
            ..tidegate_sim::Server::default()
        },
        clients: populations(web, load, capacity)
            .into_iter()
            .map(|population| Clients {
                name: "visitors".to_owned(),
                population,
                behaviour: Behaviour { timeout: Some(web.load.timeout), retry: retry.clone() },
            })
            .collect(),
        returns: web.load.returns,
        ..Application::default()
    };
    let duration = run.warm_up + run.measured;
    let mut processors = server.processors;
    if let Some(stand_in) = &web.stand_in {
        processors = stand_in.processors();
        application.server = stand_in.server(duration);
        for (class, known) in application.classes.iter_mut().zip(stand_in.classes()) {
            class.work = known.work.clone();
            class.database = known.database.clone();
        }
    }
    Scenario {
        seed,
        duration,
        warm_up: run.warm_up,
        host: Host {
            processors,
            speed: server.speed.iter().map(|(at, to)| Change { at: *at, to: *to }).collect(),
            ..Host::default()
        },
        applications: vec![application],
        ..Scenario::default()
    }
}

fn class(class: &Class) -> tidegate_sim::Class {
    tidegate_sim::Class {
        name: class.name.clone(),
        priority: class.priority,
        weight: class.weight,
        good_within: class.within,
        work: draw(class.work),
        ..tidegate_sim::Class::default()
    }
}

fn draw(work: Work) -> Draw {
    let mean = work.mean.as_secs_f64();
    match work.shape {
        Shape::Constant => Draw::Constant(mean),
        Shape::Exponential => Draw::Exponential { mean },
        Shape::Lognormal(cv) => Draw::LogNormal { mean, cv },
    }
}

/// Who comes: of open arrivals one population for each mix.
fn populations(web: &Web, load: f64, capacity: f64) -> Vec<tidegate_sim::Population> {
    let class = |position: usize| ClassId(u16::try_from(position).unwrap_or(u16::MAX));
    match &web.load.population {
        Population::Open { poisson, phases, repeat, clients } => {
            let own: Vec<f64> = web.classes.iter().map(|class| class.share).collect();
            let shares = |phase: &Phase| phase.shares.clone().unwrap_or_else(|| own.clone());
            let mut mixes: Vec<Vec<f64>> = Vec::new();
            for mix in phases.iter().map(&shares).chain(phases.is_empty().then(|| own.clone())) {
                if !mixes.contains(&mix) {
                    mixes.push(mix);
                }
            }
            let of_mix = |mix: &Vec<f64>| {
                let per_s = |phase: &Phase| {
                    if shares(phase) == *mix { phase.load * site::capacity_for(web, mix) } else { 0.0 }
                };
                let arrivals = if !phases.is_empty() {
                    let phases = phases.iter().map(|phase| (phase.length, per_s(phase))).collect();
                    Arrivals::Schedule { phases, repeat: *repeat, poisson: *poisson }
                } else if *poisson {
                    Arrivals::Poisson { per_s: load * capacity }
                } else {
                    Arrivals::Constant { per_s: load * capacity }
                };
                let mix = mix.iter().enumerate().map(|(n, share)| (class(n), *share)).collect();
                tidegate_sim::Population::Open { arrivals, mix, clients: *clients }
            };
            mixes.iter().map(of_mix).collect()
        }
        Population::Browsers { think, pages } => {
            let page = |page: &experiment::Page| tidegate_sim::Page {
                name: page.name.clone(),
                class: class(page.class),
                embedded: 0,
                embedded_class: class(0),
                next: page.next.clone(),
            };
            let site =
                tidegate_sim::Site { entry: 0, pages: pages.iter().map(page).collect(), pages_max: u32::MAX };
            let think = Draw::Exponential { mean: think.as_secs_f64() };
            let count = vec![(Duration::ZERO, site::browsers(web, load))];
            vec![tidegate_sim::Population::Browsers { count, site, think }]
        }
    }
}

fn front(arm: &Arm, web: &Web, scenario: &Scenario, seed: u64) -> Result<Box<dyn Front>, LabError> {
    let fault = |what: String| LabError::input(format!("arm {}: {what}", arm.name), "see docs/lab.md");
    match arm.front {
        experiment::Front::Direct => Ok(Box::new(Direct)),
        experiment::Front::Gateway => {
            let mut gateway = Gateway::of(&scenario.applications[0]);
            for (path, text) in &arm.settings {
                gateway
                    .set(&format!("{APPLICATION}/{path}"), text)
                    .map_err(|error| fault(error.to_string()))?;
            }
            if let Some(script) = &arm.controller {
                let limits = Limits { seed, ..Limits::default() };
                let engine = Engine::new(&script.name, &script.text, limits)
                    .map_err(|error| LabError::input(error.to_string(), "mend the script"))?;
                gateway = gateway.with_controller(Box::new(engine));
            }
            Ok(Box::new(gateway))
        }
        experiment::Front::Law(law) => {
            let constants = law.read(&arm.settings).map_err(|setting| fault(setting.what))?;
            let surroundings = Surroundings {
                seed,
                work: Duration::from_secs_f64(site::mean_work_s(web)),
                threads: scenario.applications[0]
                    .server
                    .threads
                    .unwrap_or(u32::from(scenario.host.processors)),
            };
            Ok(law.front(&constants, surroundings))
        }
        experiment::Front::Peer(peer) => Err(fault(format!("{} runs live only", peer.name()))),
    }
}

/// The table of metrics, filled from a run.
fn figures(result: &RunResult, web: &Web, load: f64) -> Figures {
    let mut figures = Figures::new();
    let capacity = site::capacity(web);
    let seconds = result.measured.as_secs_f64();
    let total = result.total();
    of_counts(&mut figures, "", &total, seconds);
    for (class, counts) in web.classes.iter().zip(&result.classes) {
        of_counts(&mut figures, &format!("{}:", class.name), counts, seconds);
    }
    let goodput = ratio(total.good, 1) / seconds;
    let offered = ratio(total.offered, 1) / seconds;
    let mut put = |name: &str, value: f64| {
        figures.insert(name.to_owned(), value);
    };
    put("goodput_share", goodput / offered.min(capacity));
    put("goodput_of_capacity", goodput / capacity);
    if total.work_s > 0.0 {
        put("wasted_share", total.wasted_s / total.work_s);
    }
    put("work_of_capacity", worked(result));
    of_returns(&mut put, &total);
    of_estimate(&mut put, result, web);
    let good: Vec<f64> = result.series.iter().map(tidegate_sim::Row::goodput).collect();
    let offered: Vec<f64> = result.series.iter().map(|row| per_s(row.total().offered, row.length)).collect();
    if let Population::Open { phases, repeat: false, .. } = &web.load.population {
        // Nothing, evenly shared, is no fairness.
        let index = result.jain_fairness().filter(|_| total.good > 0);
        figures.extend(index.map(|index| ("fairness".to_owned(), index)));
        crate::shape::of_phases(&mut figures, &pairs(phases), capacity, &offered, &good);
        if phases.is_empty() {
            figures.insert("settle_s".to_owned(), settled_after(&good, 0.9 * capacity * load.min(1.0)));
        }
    }
    figures
}

/// Share of the processors that worked in the measured time, for whomever.
fn worked(result: &RunResult) -> f64 {
    let end = result.series.last().map_or(Duration::ZERO, |row| row.at);
    let rows = result.series.iter().filter(|row| row.at > end.saturating_sub(result.measured));
    let (busy, there) = rows.fold((0.0, 0.0), |(busy, there), row| {
        let length = row.length.as_secs_f64();
        (busy + row.busy * length, there + row.processors * length)
    });
    busy / f64::max(there, f64::MIN_POSITIVE)
}

/// Who was told a time, and how he fared.
fn of_returns(put: &mut impl FnMut(&str, f64), total: &Counts) {
    put("told_share", ratio(total.told, total.offered));
    put("served_of_comers", ratio(total.replied, total.offered - total.no_shows));
    put("overtaken_share", ratio(total.overtaken, total.started));
    let mut put_ms = |name: &str, time: Option<Duration>| {
        if let Some(time) = time {
            put(name, time.as_secs_f64() * 1e3);
        }
    };
    put_ms("return_p50_ms", total.from_return.quantile(0.5));
    put_ms("return_p99_ms", total.from_return.quantile(0.99));
    put_ms("service_p50_ms", total.service.quantile(0.5));
    if let (Some(cheated), Some(all)) = (total.cheated.mean(), total.response.mean()) {
        put("cheat_gain", all.as_secs_f64() / cheated.as_secs_f64().max(1e-9));
    }
}

/// How long after the last change of the server's speed, or the beginning, the estimate of the capacity and goodput took.
fn of_estimate(put: &mut impl FnMut(&str, f64), result: &RunResult, web: &Web) {
    let (from, speed) = web.server.speed.last().copied().unwrap_or((Duration::ZERO, 1.0));
    let capacity = site::capacity(web) * speed;
    let within = |share: f64, hold_s: u64| {
        let band = capacity * (1.0 - share)..=capacity * (1.0 + share);
        let hold = Duration::from_secs(hold_s);
        let found = result.settled(from, hold, &band, |row| row.capacity.unwrap_or(f64::NAN));
        found.map_or(f64::INFINITY, |time| time.as_secs_f64())
    };
    if result.series.iter().any(|row| row.capacity.is_some()) {
        put("found_within_5_s", within(0.05, 10));
        put("found_within_3_s", within(0.03, 10));
        put("reached_within_5_s", within(0.05, 3));
        put("reached_within_3_s", within(0.03, 3));
    }
    let rows: Vec<_> = result.series.iter().filter(|row| row.at > from).collect();
    let good: Vec<f64> = rows.iter().map(|row| row.goodput()).collect();
    put("regained_s", settled_after(&good, 0.9 * capacity));
    if good.len() >= SEARCH_S {
        put("search_goodput", good[..SEARCH_S].iter().sum::<f64>() / SEARCH_S as f64 / capacity);
    }
    let started = |row: &tidegate_sim::Row| per_s(row.total().started, row.length) / capacity;
    put("overshoot", result.series.iter().map(started).fold(0.0, f64::max));
    put("search_overshoot", rows.iter().take(OVERSHOOT_S).map(|row| started(row)).fold(0.0, f64::max));
    of_changes(put, result);
}

/// What the seconds after each change cost that the front took for one, in a run in which the server did not change.
fn of_changes(put: &mut impl FnMut(&str, f64), result: &RunResult) {
    let end = result.series.last().map_or(Duration::ZERO, |row| row.at);
    let from = end.saturating_sub(result.measured);
    let (mut after, mut else_where) = (Vec::new(), Vec::new());
    let (mut before, mut until, mut changes) = (0, Duration::ZERO, 0);
    for row in &result.series {
        let new = row.changes - before;
        before = row.changes;
        if new > 0 {
            until = row.at + AFTER_CHANGE;
        }
        if row.at > from {
            changes += new;
            if row.at <= until { &mut after } else { &mut else_where }.push(row.goodput());
        }
    }
    put("changes_per_h", ratio(changes, 1) / result.measured.as_secs_f64() * 3600.0);
    let (Some(usual), Some(all)) = (mean(&else_where), mean(&[after.as_slice(), &else_where].concat()))
    else {
        return;
    };
    // Chance makes it negative as often as positive; cut off at nothing it would add up.
    put("lost_to_changes", if usual > 0.0 { 1.0 - all / usual } else { 0.0 });
}

fn of_counts(figures: &mut Figures, prefix: &str, counts: &Counts, seconds: f64) {
    let mut put = |name: &str, value: f64| {
        figures.insert(format!("{prefix}{name}"), value);
    };
    put("offered_per_s", ratio(counts.offered, 1) / seconds);
    put("goodput_per_s", ratio(counts.good, 1) / seconds);
    put("served_share", ratio(counts.good, counts.offered));
    put("refused_share", ratio(counts.refused_total(), counts.arrived));
    put("timed_out_share", ratio(counts.timed_out, counts.arrived));
    let mut put_ms = |name: &str, time: Option<Duration>| {
        if let Some(time) = time {
            figures.insert(format!("{prefix}{name}"), time.as_secs_f64() * 1e3);
        }
    };
    put_ms("response_mean_ms", counts.response.mean());
    put_ms("response_p50_ms", counts.response.quantile(0.5));
    put_ms("response_p95_ms", counts.response.quantile(0.95));
    put_ms("response_p99_ms", counts.response.quantile(0.99));
}

fn series(result: &RunResult, web: &Web) -> Series {
    let mut series = Series::new();
    let mut push = |name: String, value: f64| series.entry(name).or_default().push(value);
    for row in &result.series {
        let names = web.classes.iter().map(|class| format!("{}:", class.name));
        let total = row.total();
        for (prefix, tick) in std::iter::once((String::new(), &total)).chain(names.zip(&row.classes)) {
            push(format!("{prefix}offered"), per_s(tick.offered, row.length));
            push(format!("{prefix}goodput"), per_s(tick.good, row.length));
            push(format!("{prefix}refused"), per_s(tick.refused, row.length));
            push(format!("{prefix}timed_out"), per_s(tick.timed_out, row.length));
        }
        push("limit".to_owned(), row.limit.unwrap_or(f64::NAN));
        push("capacity".to_owned(), row.capacity.unwrap_or(f64::NAN));
        push("in_flight".to_owned(), ratio(row.in_flight, 1));
        push("queued".to_owned(), ratio(row.queued, 1));
    }
    series
}

fn per_s(count: u64, length: Duration) -> f64 {
    ratio(count, 1) / length.as_secs_f64().max(f64::MIN_POSITIVE)
}

/// A ratio of counts; 0 of nothing.
#[expect(clippy::cast_precision_loss, reason = "counts of a run")]
fn ratio(of: u64, over: u64) -> f64 {
    if over == 0 { 0.0 } else { of as f64 / over as f64 }
}

/// Does so many pieces of work on every processor there is, and answers in their order.
fn in_parallel<T: Send>(
    count: usize,
    progress: &(dyn Fn(usize, usize) + Sync),
    work: impl Fn(usize) -> T + Sync,
) -> Vec<T> {
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let panicked = AtomicBool::new(false);
    let found = Mutex::new(Vec::with_capacity(count));
    let threads = thread::available_parallelism().map_or(1, usize::from).min(count.max(1));
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while !panicked.load(Relaxed) {
                    let position = next.fetch_add(1, Relaxed);
                    if position >= count {
                        return;
                    }
                    // Others stop as well when one panics; the scope passes the panic on.
                    let guard = Panics(&panicked);
                    let value = work(position);
                    std::mem::forget(guard);
                    found.lock().unwrap_or_else(PoisonError::into_inner).push((position, value));
                    progress(done.fetch_add(1, Relaxed) + 1, count);
                }
            });
        }
    });
    let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    found.sort_by_key(|(position, _)| *position);
    found.into_iter().map(|(_, value)| value).collect()
}

/// Says that its thread panicked, unless it is forgotten.
struct Panics<'p>(&'p AtomicBool);

impl Drop for Panics<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}
