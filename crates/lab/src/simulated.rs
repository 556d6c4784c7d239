//! An experiment in virtual time: its scenarios, and their runs on all processors.

mod figures;
mod manager;

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

use tidegate_control::{ClassId, controller::Level};
use tidegate_scripts::{Engine, Limits};
use tidegate_sim::{
    Application, Arrivals, Backoff, Behaviour, Change, Clients, Direct, Draw, Front, Gateway, Host, Line,
    ProcessorManager, START, Scenario, StandardServer,
};

use self::{
    figures::{Given, figures, series},
    manager::Manager,
};
use crate::{
    LabError,
    baselines::{Assigned, Surroundings},
    experiment::{
        self, Arm, Axis, Class, Division, Experiment, Mode, Phase, Population, RunLength, Script, Shape,
        Subject, Web, Work,
    },
    outcome::{Figures, Outcome, Run, Said, Series},
    site,
};

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
    let seeds = options.seeds.unwrap_or_else(|| most_seeds(experiment));
    match &experiment.subject {
        Subject::Truth { requests } => Ok(truth(&experiment.loads, *requests, seeds, options)),
        Subject::Web(web) => cells(experiment, web, seeds, options),
    }
}

/// Runs of a cell as the experiment says; where capacities have numbers of their own, the highest of them.
fn most_seeds(experiment: &Experiment) -> u32 {
    match &experiment.axis {
        Axis::Load | Axis::Sessions => experiment.run.seeds,
        Axis::Capacity(runs) => runs.iter().map(|run| run.seeds).max().unwrap_or(experiment.run.seeds),
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
                script_stopped: false,
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
        said: Vec::new(),
        notes: Vec::new(),
        programs: [].into(),
    }
}

fn cells(experiment: &Experiment, web: &Web, seeds: u32, options: Options<'_>) -> Result<Outcome, LabError> {
    let arms = rows(experiment, web);
    for row in &arms {
        // Said once and before any run.
        drop(Standing::new(row.arm, &row.web, &scenario(&row.web, 1.0, &experiment.run, options.seed))?);
    }
    let mut cells = Vec::new();
    // The heaviest first, so that no processor is left with one of them at the end.
    for load in (0..experiment.loads.len()).rev() {
        let seeds = match &experiment.axis {
            Axis::Load | Axis::Sessions => seeds,
            // A run at a high capacity has as many departures as many at a low one, so that fewer do: in proportion.
            Axis::Capacity(runs) => (runs[load].seeds * seeds).div_ceil(most_seeds(experiment)),
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
        let Simulated { figures, series, hash, said, script_stopped } =
            simulate(arms[arm].arm, &web, scenario, load)?;
        let hash = Some(hash);
        Ok((Run { arm, load: at, repetition, seed, figures, series, hash, script_stopped }, said))
    });
    let mut found = found.into_iter().collect::<Result<Vec<_>, LabError>>()?;
    found.sort_by_key(|(run, _)| (run.arm, run.load, run.repetition));
    let notes = faults_of_scripts(&arms, &found);
    let of_run = |(run, lines): &(Run, Vec<Line>)| {
        let (arm, load) = (run.arm, run.load);
        let said = |Line { at, level, text }: &Line| Said {
            arm,
            load,
            at: at.since(START),
            level: *level,
            text: text.clone(),
        };
        lines.iter().map(said).collect::<Vec<_>>()
    };
    let said = found.iter().filter(|(run, _)| run.repetition == 0).flat_map(of_run).collect();
    let runs = found.into_iter().map(|(run, _)| run).collect();
    Ok(Outcome {
        mode: Mode::Simulated,
        seed: options.seed,
        repetitions: seeds,
        arms: arms.into_iter().map(|row| row.name).collect(),
        loads: experiment.loads.clone(),
        capacity_per_s: experiment.servers.is_empty().then(|| site::capacity(web)),
        runs,
        said,
        notes,
        programs: [].into(),
    })
}

/// A script that fails leaves its figures to whatever it had set: nobody should take them for the law's.
fn faults_of_scripts(arms: &[Row<'_>], found: &[(Run, Vec<Line>)]) -> Vec<String> {
    let note = |(arm, row): (usize, &Row<'_>)| {
        let runs = found.iter().filter(|(run, _)| run.arm == arm);
        let faults: Vec<&String> = runs
            .clone()
            .filter_map(|(_, said)| said.iter().find(|line| line.level == Level::Error))
            .map(|line| &line.text)
            .collect();
        let first = faults.first()?;
        Some(format!("{}: its script failed in {} of {} runs: {first}", row.name, faults.len(), runs.count()))
    };
    arms.iter().enumerate().filter_map(note).collect()
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
        Axis::Load | Axis::Sessions => (web.clone(), x, &experiment.run),
        Axis::Capacity(runs) => {
            let stand_in = web.stand_in.as_ref().map(|server| server.at_capacity(x));
            (Web { stand_in, ..web.clone() }, 1.0, &runs[at])
        }
    }
}

/// What came of one run.
pub(crate) struct Simulated {
    pub(crate) figures: Figures,
    series: Series,
    hash: u64,
    /// What the arm's script has said.
    said: Vec<Line>,
    script_stopped: bool,
}

/// One run.
pub(crate) fn simulate(
    arm: &Arm,
    web: &Web,
    mut scenario: Scenario,
    load: f64,
) -> Result<Simulated, LabError> {
    if arm.processors == Division::Equal {
        divide_equally(&mut scenario);
    }
    scenario.check().map_err(|fault| LabError::Run(format!("scenario: {fault}")))?;
    let Standing { mut fronts, mut manager } = Standing::new(arm, web, &scenario)?;
    let results = {
        let fronts = fronts.iter_mut().map(Before::front).collect();
        let manager = manager.as_mut().map(|manager| manager as &mut dyn ProcessorManager);
        tidegate_sim::run_all(&scenario, fronts, manager)
    };
    let (mut all, mut course) = (Figures::new(), Series::new());
    let is_alone = results.len() == 1;
    let each = web.each().into_iter().zip(&results).zip(&fronts).enumerate();
    for (position, (((name, web), result), before)) in each {
        let given = Given::of(result, manager.as_ref().map(|manager| manager.given(position)));
        let prefix = if is_alone { String::new() } else { format!("{name}:") };
        let own = figures(result, &web, load, before.seeks_capacity(), &given);
        all.extend(own.into_iter().map(|(name, value)| (format!("{prefix}{name}"), value)));
        let own = series(result, &web, &given);
        course.extend(own.into_iter().map(|(name, values)| (format!("{prefix}{name}"), values)));
    }
    Ok(Simulated {
        figures: all,
        series: course,
        // That of the whole run, whichever application tells it.
        hash: results.first().map_or(0, |result| result.hash),
        said: fronts.iter().flat_map(|before| before.said().to_vec()).collect(),
        script_stopped: fronts.iter().any(Before::has_stopped_script),
    })
}

/// Gives each application as many processors of its own as any other.
fn divide_equally(scenario: &mut Scenario) {
    let count = u16::try_from(scenario.applications.len()).unwrap_or(u16::MAX);
    let each = scenario.host.processors / count.max(1);
    for (position, application) in (0..).zip(&mut scenario.applications) {
        application.server.processors = Some((position * each..(position + 1) * each).collect());
    }
}

/// What an arm puts before the servers of a run, and who divides their processors.
struct Standing {
    fronts: Vec<Before>,
    manager: Option<Manager>,
}

impl Standing {
    fn new(arm: &Arm, web: &Web, scenario: &Scenario) -> Result<Self, LabError> {
        let host = scenario.host.processors;
        let own = |application: &Application| {
            application.server.processors.as_ref().map_or(f64::from(host), |own| own.len() as f64)
        };
        let assigned: Vec<Assigned> =
            scenario.applications.iter().map(|application| Assigned::new(own(application))).collect();
        let fronts = web.each().into_iter().zip(&scenario.applications).zip(&assigned);
        let fronts = fronts
            .map(|(((_, web), application), assigned)| front(arm, &web, application, scenario, assigned))
            .collect::<Result<_, _>>()?;
        let manager = match (&arm.processors, site::connection_costs(&web.each()[0].1)) {
            (Division::Managed(manager), Some(costs)) => {
                Some(Manager::new(manager.clone(), host, costs, assigned))
            }
            _ => None,
        };
        Ok(Self { fronts, manager })
    }
}

/// What stands before the server of a run.
enum Before {
    Gateway(Box<Gateway>),
    Other(Box<dyn Front>),
}

impl Before {
    fn front(&mut self) -> &mut dyn Front {
        match self {
            Self::Gateway(gateway) => gateway.as_mut(),
            Self::Other(front) => front.as_mut(),
        }
    }

    /// What a script has said.
    fn said(&self) -> &[Line] {
        match self {
            Self::Gateway(gateway) => gateway.said(),
            Self::Other(_) => &[],
        }
    }

    fn has_stopped_script(&self) -> bool {
        match self {
            Self::Gateway(gateway) => gateway.has_stopped_law(),
            Self::Other(_) => false,
        }
    }

    fn seeks_capacity(&self) -> bool {
        match self {
            Self::Gateway(gateway) => gateway.seeks_capacity(),
            Self::Other(_) => false,
        }
    }
}

/// The scenario of a cell.
pub(crate) fn scenario(web: &Web, load: f64, run: &RunLength, seed: u64) -> Scenario {
    let duration = run.warm_up + run.measured;
    let speed = web.server.speed.iter().map(|(at, to)| Change { at: *at, to: *to }).collect();
    let processors = web.stand_in.as_ref().map_or(web.server.processors, StandardServer::processors);
    Scenario {
        seed,
        duration,
        warm_up: run.warm_up,
        host: Host { processors, speed, ..Host::default() },
        applications: web
            .each()
            .into_iter()
            .map(|(name, web)| application(name, &web, load, duration))
            .collect(),
        ..Scenario::default()
    }
}

/// An application of a cell.
fn application(name: String, web: &Web, load: f64, duration: Duration) -> Application {
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
        name,
        classes: web.classes.iter().map(|own| class(own, &web.classes)).collect(),
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
        tls: web.tls.map(|tls| tidegate_sim::Tls {
            full: tls.full,
            resumed: tls.resumed,
            keep_alive: tls.keep_alive,
            requests_max: None,
            new_share: 1.0,
        }),
        returns: web.load.returns,
        ..Application::default()
    };
    if let Some(stand_in) = &web.stand_in {
        application.server = stand_in.server(duration);
        for (class, known) in application.classes.iter_mut().zip(stand_in.classes()) {
            class.work = known.work.clone();
            class.database = known.database.clone();
        }
    }
    application
}

fn class(class: &Class, all: &[Class]) -> tidegate_sim::Class {
    let of_name = |name: &String| (0..).zip(all).find(|(_, other)| other.name == *name);
    tidegate_sim::Class {
        name: class.name.clone(),
        priority: class.priority,
        weight: class.weight,
        group: class.group.as_ref().and_then(of_name).map(|(id, _)| ClassId(id)),
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

fn class_id(position: usize) -> ClassId {
    ClassId(u16::try_from(position).unwrap_or(u16::MAX))
}

/// Pages, and the pause between one and the next.
fn site_of(
    think: Duration,
    pages: &[experiment::Page],
    pages_max: Option<u32>,
) -> (tidegate_sim::Site, Draw) {
    let page = |page: &experiment::Page| tidegate_sim::Page {
        name: page.name.clone(),
        class: class_id(page.class),
        embedded: page.embedded,
        embedded_class: class_id(page.embedded_class),
        next: page.next.clone(),
    };
    let pages_max = pages_max.unwrap_or(u32::MAX);
    let site = tidegate_sim::Site { entry: 0, pages: pages.iter().map(page).collect(), pages_max };
    (site, Draw::Exponential { mean: think.as_secs_f64() })
}

/// Who comes: of open arrivals one population for each mix.
fn populations(web: &Web, load: f64, capacity: f64) -> Vec<tidegate_sim::Population> {
    match &web.load.population {
        Population::Open { poisson, phases, repeat, clients, visit } => {
            let own: Vec<f64> = web.classes.iter().map(|class| class.share).collect();
            let shares = |phase: &Phase| phase.shares.clone().unwrap_or_else(|| own.clone());
            let mut mixes: Vec<Vec<f64>> = Vec::new();
            for mix in phases.iter().map(&shares).chain(phases.is_empty().then(|| own.clone())) {
                if !mixes.contains(&mix) {
                    mixes.push(mix);
                }
            }
            let requests = site::requests_a_session(web);
            let of_mix = |mix: &Vec<f64>| {
                let capacity = if visit.is_some() { capacity } else { site::capacity_for(web, mix) };
                let rate = |load| site::offered_per_s(web, load, capacity) / requests;
                let per_s = |phase: &Phase| {
                    if shares(phase) == *mix { rate(phase.load) } else { 0.0 }
                };
                let arrivals = if !phases.is_empty() {
                    let phases = phases.iter().map(|phase| (phase.length, per_s(phase))).collect();
                    Arrivals::Schedule { phases, repeat: *repeat, poisson: *poisson }
                } else if *poisson {
                    Arrivals::Poisson { per_s: rate(load) }
                } else {
                    Arrivals::Constant { per_s: rate(load) }
                };
                if let Some(experiment::Visit { think, pages, pages_max }) = visit {
                    let (site, think) = site_of(*think, pages, *pages_max);
                    return tidegate_sim::Population::Sessions { arrivals, site, think };
                }
                let mix = mix.iter().enumerate().map(|(n, share)| (class_id(n), *share)).collect();
                tidegate_sim::Population::Open { arrivals, mix, clients: *clients }
            };
            mixes.iter().map(of_mix).collect()
        }
        Population::Browsers { think, pages } => {
            let (site, think) = site_of(*think, pages, None);
            let count = vec![(Duration::ZERO, site::browsers(web, load))];
            vec![tidegate_sim::Population::Browsers { count, site, think }]
        }
    }
}

fn front(
    arm: &Arm,
    web: &Web,
    application: &Application,
    scenario: &Scenario,
    assigned: &Assigned,
) -> Result<Before, LabError> {
    let seed = scenario.seed;
    let fault = |what: String| LabError::input(format!("arm {}: {what}", arm.name), "see docs/lab.md");
    match arm.front {
        experiment::Front::Direct => Ok(Before::Other(Box::new(Direct))),
        experiment::Front::Gateway => {
            let mut gateway = Gateway::of(application);
            let settings: Vec<(String, &str)> = arm
                .settings
                .iter()
                .map(|(path, text)| (format!("{}/{path}", application.name), text.as_str()))
                .collect();
            let settings: Vec<(&str, &str)> =
                settings.iter().map(|(path, text)| (path.as_str(), *text)).collect();
            gateway.set_all(&settings).map_err(|error| fault(error.to_string()))?;
            if let Some(script) = &arm.controller {
                gateway = gateway.with_controller(Box::new(engine(script, seed)?));
            }
            Ok(Before::Gateway(Box::new(gateway)))
        }
        experiment::Front::Law(law) => {
            let constants = law.read(&arm.settings).map_err(|setting| fault(setting.what))?;
            let surroundings = Surroundings {
                seed,
                work: Duration::from_secs_f64(site::mean_work_s(web)),
                threads: application.server.threads.unwrap_or(u32::from(scenario.host.processors)),
                connections: site::connection_costs(web),
                processors: assigned.clone(),
            };
            Ok(Before::Other(law.front(&constants, surroundings)))
        }
        experiment::Front::Peer(peer) => Err(fault(format!("{} runs live only", peer.name()))),
    }
}

/// A script ready to run.
pub(crate) fn engine(script: &Script, seed: u64) -> Result<Engine, LabError> {
    let limits = Limits { seed, ..Limits::default() };
    Engine::new(&script.name, &script.text, limits)
        .map_err(|error| LabError::input(error.to_string(), "mend the script"))
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
