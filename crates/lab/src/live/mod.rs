//! An experiment on this machine: real servers and real load, in interleaved repetitions that end by themselves.
//!
//! The origin's worker has a processor to itself; proxy, load and everything else share the others.
//! Every cell begins with a fresh origin and a fresh proxy, so that none inherits a backlog.

mod cell;
pub(crate) mod configuration;
mod interrupt;
mod load;
mod notes;
mod peer;
mod process;
mod stand;

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

pub use peer::Peer;
use rustix::thread::{CpuSet, sched_getaffinity};

use self::{
    cell::Cell,
    notes::Notes,
    stand::{Processors, Stand},
};
use crate::{
    LabError,
    experiment::{Arm, Experiment, Live, Mode, Population, Subject, Web},
    outcome::{Outcome, Run},
};

/// Share of what the work alone would allow, below which something else than the origin was on its processor.
const BUSY: f64 = 0.8;

/// How an experiment is run live.
#[derive(Clone, Copy)]
pub struct Options<'p> {
    /// Seed of the first repetition's arrivals.
    pub seed: u64,
    /// Repetitions; `None`: as the experiment says.
    pub repetitions: Option<u32>,
    /// Every span is so many times as long as the experiment says.
    pub scale: f64,
    /// The program that is run as the gateway.
    pub tidegate: &'p Path,
    /// Told how many of how many cells are done.
    pub progress: &'p (dyn Fn(usize, usize) + Sync),
}

/// Runs every live cell of an experiment, in as many rounds as there are repetitions.
///
/// # Errors
///
/// A program or server that is not there is bad input; what failed while running is not.
pub fn run(experiment: &Experiment, options: Options<'_>) -> Result<Outcome, LabError> {
    let (Some(live), Subject::Web(web)) = (&experiment.live, &experiment.subject) else {
        return Err(LabError::input(
            format!("{}: has no live runs", experiment.name),
            "run it without --live, or add [live] to its file",
        ));
    };
    let arms: Vec<&Arm> = experiment.arms.iter().filter(|arm| arm.front.is_live()).collect();
    if arms.is_empty() {
        return Err(LabError::input(
            format!("{}: no arm can be run live", experiment.name),
            "add one with front = \"direct\" or \"gateway\"",
        ));
    }
    let (live, web) = (&scaled(live, options.scale), &with_phases_of(web, live, options.scale));
    // Who is told to come later does so, in every arm alike.
    let follows = arms.iter().any(|arm| arm.has_room());
    let stand = Stand::new(web, live, &arms, options.tidegate)?;
    let capacity = stand.capacity()?;
    let on_the_way = if live.simulated_too { stand.on_the_way()? } else { Duration::ZERO };
    let mut notes = stand.notes();
    let by_work = f64::from(workers(web, live)) / crate::site::mean_work_s(web);
    if live.server.is_none() && capacity < BUSY * by_work {
        notes.push(format!(
            "the origin alone did {capacity:.1} requests/s where its work allows {by_work:.1}: this machine was busy with \
             something else, and the figures are of both"
        ));
    }
    if live.simulated_too {
        notes.push(format!(
            "there and back, beyond the origin's work: {:.2} ms",
            on_the_way.as_secs_f64() * 1e3
        ));
    }
    if (options.scale - 1.0).abs() > f64::EPSILON {
        notes.push(format!(
            "every span of time was {} times as long as the experiment says; clients, limits and scripts kept their pace",
            options.scale
        ));
    }
    let repetitions = options.repetitions.unwrap_or(live.repetitions);
    let count = repetitions as usize * live.loads.len() * arms.len();
    let (mut runs, mut amiss) = (Vec::with_capacity(count), Notes::default());
    for repetition in 0..repetitions {
        for (load, factor) in live.loads.iter().enumerate() {
            for turn in 0..arms.len() {
                // Each round begins with another arm, so that none is always first after a pause.
                let arm = (turn + repetition as usize) % arms.len();
                let seed = options.seed + u64::from(repetition);
                let cell =
                    Cell { arm: arms[arm], web, live, load: *factor, capacity, on_the_way, follows, seed };
                let measured = cell.run(&stand)?;
                for note in measured.notes {
                    amiss.add(arm, load, note);
                }
                runs.push(Run {
                    arm,
                    load,
                    repetition,
                    seed,
                    figures: measured.figures,
                    series: measured.series,
                    hash: None,
                    script_stopped: measured.script_stopped,
                });
                (options.progress)(runs.len(), count);
            }
        }
    }
    runs.sort_by_key(|run| (run.arm, run.load, run.repetition));
    let arms: Vec<String> = arms.iter().map(|arm| arm.name.clone()).collect();
    notes.extend(amiss.lines(&arms, &live.loads, repetitions));
    Ok(Outcome {
        mode: Mode::Live,
        seed: options.seed,
        repetitions,
        arms,
        loads: live.loads.clone(),
        capacity_per_s: Some(capacity),
        runs,
        said: Vec::new(),
        notes,
        programs: stand.programs,
    })
}

/// Everything as much longer or shorter; at least long enough to mean something.
fn scaled(live: &Live, scale: f64) -> Live {
    let span = |span: Duration, least: f64| Duration::from_secs_f64((span.as_secs_f64() * scale).max(least));
    Live { warm_up: span(live.warm_up, 0.0), measured: span(live.measured, 0.5), ..live.clone() }
}

fn with_phases_of(web: &Web, live: &Live, scale: f64) -> Web {
    let mut web = web.clone();
    if let Population::Open { phases, .. } = &mut web.load.population {
        if !live.phases.is_empty() {
            phases.clone_from(&live.phases);
        }
        for phase in phases {
            phase.length = Duration::from_secs_f64((phase.length.as_secs_f64() * scale).max(1.0));
        }
    }
    web
}

/// A program by name: in the search path, or where `scripts/deps lab` puts it.
fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let usual = ["/usr/sbin", "/usr/local/sbin", "target/lab/bin"].map(PathBuf::from);
    let found = std::env::split_paths(&path)
        .chain(usual)
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())?;
    // It is started from another folder.
    std::path::absolute(found).ok()
}

impl Processors {
    /// One for the origin's worker and one for everything else, if there are two.
    fn here() -> Self {
        let allowed: Vec<usize> = sched_getaffinity(None)
            .map(|set| (0..CpuSet::MAX_CPU).filter(|processor| set.is_set(*processor)).take(2).collect())
            .unwrap_or_default();
        // A quota may leave less than the mask allows.
        let usable = std::thread::available_parallelism().map_or(1, usize::from);
        match allowed[..] {
            [origin, rest] if usable > 1 => Self { origin: vec![origin], rest: vec![rest] },
            _ => Self { origin: Vec::new(), rest: Vec::new() },
        }
    }
}

/// Requests that the lab's origin works on at once.
fn workers(web: &Web, live: &Live) -> u32 {
    if live.waits { web.server.threads.unwrap_or(1) } else { 1 }
}

/// What a web experiment's origin does for a request, whatever its distribution: the mean.
fn cost(web: &Web, class: usize) -> Duration {
    web.classes.get(class).map_or(Duration::ZERO, |class| class.work.mean)
}
