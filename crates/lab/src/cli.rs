//! `tidegate lab`: list, run, swarm.

use std::{
    io::{self, IsTerminal, Write as _},
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::{Args, Subcommand};

use crate::{
    LabError,
    experiment::{Arm, Division, Experiment, Front, Mode, Script, Subject, builtin},
    live, report, simulated, table, verdict,
};

/// Experiments on overload control, simulated or live.
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Lists the experiments that are built in.
    List {
        /// As one JSON array.
        #[arg(long)]
        json: bool,
    },
    /// Runs an experiment, in virtual time unless --live.
    Run(RunArguments),
    /// Runs randomised scenarios against a shadow model of the decisions, seed by seed.
    Swarm(SwarmArguments),
}

#[derive(Debug, Args)]
struct RunArguments {
    /// A built-in experiment, or the path of an experiment's TOML file.
    experiment: String,
    /// Start real servers and real load on this machine.
    #[arg(long)]
    live: bool,
    /// The first seed; runs use it and those after it.
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u64).range(..=SEED_MAX))]
    seed: u64,
    /// Simulated runs of each cell, in place of the experiment's number (30); where capacities have numbers of their own, in
    /// place of the highest of them, and fewer of the others in proportion.
    #[arg(long, value_name = "N", conflicts_with = "live", value_parser = clap::value_parser!(u32).range(1..=1000))]
    seeds: Option<u32>,
    /// Live runs of each cell, in place of the experiment's number (5).
    #[arg(long, value_name = "N", requires = "live", conflicts_with = "seeds", value_parser = clap::value_parser!(u32).range(1..=100))]
    repetitions: Option<u32>,
    /// Live runs last so many times as long as the experiment says, such as 0.2 to see that all works.
    #[arg(long, value_name = "FACTOR", requires = "live", conflicts_with = "seeds", default_value_t = 1.0, value_parser = scale)]
    duration_scale: f64,
    /// A control law: runs in the arms that have a script, in place of theirs, or else in one more arm.
    #[arg(long, value_name = "FILE")]
    controller: Option<PathBuf>,
    /// Print the result as one JSON object, and nothing else.
    #[arg(long)]
    json: bool,
    /// Leave page, pictures and raw figures in this folder.
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
}

/// The largest whole number that is the same in every reader of JSON.
const SEED_MAX: u64 = (1 << 53) - 1;

#[derive(Debug, Args)]
struct SwarmArguments {
    /// The first seed; without --seeds it alone is run, and its last steps are shown if it fails.
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    /// Seeds in a row.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    seeds: Option<u64>,
}

fn scale(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(factor) if (0.01..=100.0).contains(&factor) => Ok(factor),
        _ => Err("give a number from 0.01 to 100".to_owned()),
    }
}

/// Runs the command; `tidegate` is the program that live experiments start as the gateway. The
/// exit code is 1 if a check missed, a script was stopped or a seed failed, 2 for bad input.
#[must_use]
pub fn run(arguments: &Arguments, tidegate: &Path) -> ExitCode {
    let done = match &arguments.command {
        Command::List { json } => list(*json),
        Command::Run(arguments) => run_experiment(arguments, tidegate),
        Command::Swarm(arguments) => swarm(arguments),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            // Who has closed standard error still has the code.
            let _ = writeln!(io::stderr(), "tidegate: {error}");
            error.exit_code()
        }
    }
}

fn list(json: bool) -> Result<bool, LabError> {
    let mut all = Vec::new();
    for builtin in builtin::ALL {
        all.push(builtin.experiment()?);
    }
    let modes = |experiment: &Experiment| {
        [Mode::Simulated, Mode::Live]
            .into_iter()
            .filter(|mode| experiment.has(*mode))
            .map(Mode::name)
            .collect::<Vec<_>>()
    };
    let text = if json {
        let rows: Vec<serde_json::Value> = all
            .iter()
            .map(|experiment| {
                serde_json::json!({
                    "experiment": experiment.name, "title": experiment.title, "modes": modes(experiment),
                    "arms": experiment.arms.iter().map(|arm| &arm.name).collect::<Vec<_>>(),
                    "checks": experiment.checks.len(),
                })
            })
            .collect();
        format!("{:#}\n", serde_json::Value::from(rows))
    } else {
        let width = all.iter().map(|experiment| experiment.name.len()).max().unwrap_or(0);
        let line = |experiment: &Experiment| {
            format!(
                "{:width$}  {:<15}  {}\n",
                experiment.name,
                modes(experiment).join(", "),
                experiment.title
            )
        };
        all.iter().map(line).collect()
    };
    print(&text)?;
    Ok(true)
}

fn run_experiment(arguments: &RunArguments, tidegate: &Path) -> Result<bool, LabError> {
    let mut experiment = Experiment::find(&arguments.experiment)?;
    let mut changes = Vec::new();
    if let Some(file) = &arguments.controller {
        changes.push(with_controller(&mut experiment, file)?);
    }
    let mode = if arguments.live { Mode::Live } else { Mode::Simulated };
    if !experiment.has(mode) {
        let (what, mend) = match mode {
            Mode::Simulated => ("runs live only", "add --live"),
            Mode::Live => ("has no live runs", "leave out --live, or add [live] to its file"),
        };
        return Err(LabError::input(format!("{}: {what}", experiment.name), mend));
    }
    if let Some(folder) = &arguments.report {
        report::check_place(folder)?;
    }
    let progress = progress();
    let mut outcome = match mode {
        Mode::Simulated => simulated::run(
            &experiment,
            simulated::Options { seed: arguments.seed, seeds: arguments.seeds, progress: &progress },
        )?,
        Mode::Live => live::run(
            &experiment,
            live::Options {
                seed: arguments.seed,
                repetitions: arguments.repetitions,
                scale: arguments.duration_scale,
                tidegate,
                progress: &progress,
            },
        )?,
    };
    outcome.notes.splice(0..0, changes);
    let verdicts = verdict::judge(&experiment, &outcome);
    // First what needs no place: a disk that is full by now takes the report and not the result.
    if arguments.json {
        let result = report::json(&experiment, &outcome, &verdicts, &report::Machine::here());
        print(&format!("{result:#}\n"))?;
    } else {
        print(&table::text(&experiment, &outcome, &verdicts))?;
    }
    if let Some(folder) = &arguments.report {
        report::write(folder, &experiment, &outcome, &verdicts)?;
        if !arguments.json {
            print(&format!("\nreport: {}\n", folder.join("index.html").display()))?;
        }
    }
    let script_stopped = outcome.runs.iter().any(|run| run.script_stopped);
    Ok(!script_stopped && verdicts.iter().all(|verdict| verdict.pass))
}

/// Arms that have a script run this one; if none has, one more arm does. Tells what has become of the experiment.
fn with_controller(experiment: &mut Experiment, file: &Path) -> Result<String, LabError> {
    let shown = file.display();
    if !matches!(experiment.subject, Subject::Web(_)) {
        return Err(LabError::input(
            format!("--controller {shown}: {} has no gateway that a script could control", experiment.name),
            "leave it out, or run another experiment",
        ));
    }
    let text = std::fs::read_to_string(file)
        .map_err(|error| LabError::input(format!("--controller {shown}: {error}"), "name a script"))?;
    let name =
        file.file_name().map_or_else(|| "controller".into(), |name| name.to_string_lossy().into_owned());
    let script = Script { name, text };
    let mut scripted = Vec::new();
    for arm in experiment.arms.iter_mut().filter(|arm| arm.controller.is_some()) {
        arm.controller = Some(script.clone());
        scripted.push(arm.name.clone());
    }
    if !scripted.is_empty() {
        return Ok(format!("{shown} runs in place of the file's script in: {}", scripted.join(", ")));
    }
    let mut name = script.name.clone();
    while experiment.arms.iter().any(|arm| arm.name == name) {
        name.push_str(" (--controller)");
    }
    let told = format!("the arm {name} is not in the file: {shown} with the gateway's defaults");
    experiment.arms.push(Arm {
        name,
        front: Front::Gateway,
        settings: Vec::new(),
        controller: Some(script),
        configuration: None,
        processors: Division::default(),
    });
    Ok(told)
}

fn swarm(arguments: &SwarmArguments) -> Result<bool, LabError> {
    let first = arguments.seed.unwrap_or(1);
    let Some(seeds) = arguments.seeds.or(arguments.seed.is_none().then_some(1000)) else {
        return match tidegate_sim::swarm::one(first) {
            Ok(steps) => {
                print(&format!("seed {first}: {steps} steps, nothing found\n"))?;
                Ok(true)
            }
            Err(failure) => {
                let trail = failure.trail.join("\n  ");
                print(&format!("seed {first}, step {}: {}\n  {trail}\n", failure.step, failure.message))?;
                Ok(false)
            }
        };
    };
    let progress = progress();
    let total = usize::try_from(seeds).unwrap_or(usize::MAX);
    let report = tidegate_sim::swarm::swarm(first, seeds, |done| {
        progress(usize::try_from(done).unwrap_or(usize::MAX), total);
    });
    for failure in &report.failures {
        print(&format!("seed {}: {}\n", failure.seed, failure.message))?;
    }
    let found = match report.failures.len() {
        0 => "nothing found".to_owned(),
        failed => format!("{failed} failed; `tidegate lab swarm --seed S` shows one with its last steps"),
    };
    print(&format!("{} seeds from {first}, {} steps: {found}\n", report.seeds, report.steps))?;
    Ok(report.failures.is_empty())
}

/// A line that is written over, on a terminal; nothing in a pipe.
fn progress() -> impl Fn(usize, usize) + Sync {
    let shown = io::stderr().is_terminal();
    move |done, total| {
        let step = (total / 200).max(1);
        if shown && (done.is_multiple_of(step) || done == total) {
            let end = if done == total { "\r\x1b[K" } else { "" };
            // The line is for the eye only.
            let _ = write!(io::stderr(), "\r{done} of {total} runs{end}");
        }
    }
}

fn print(text: &str) -> Result<(), LabError> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        // A reader that has closed the pipe has seen what it wanted.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(LabError::Output(error)),
        _ => Ok(()),
    }
}
