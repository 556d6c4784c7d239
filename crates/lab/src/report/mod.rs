//! What is left of an experiment: a folder with page, pictures, figures and raw data.
//!
//! | file | holds |
//! |---|---|
//! | `index.html` | everything a reader needs, pictures included; refers to nothing outside itself |
//! | `result.json` | checks and series, as `lab run --json` prints them |
//! | `runs.csv` | every figure of every run: arm, load, repetition, seed, metric, value |
//! | `series.csv` | every series of every run, second by second |
//! | `said.csv` | what scripts said in the first simulated run of each cell, if they said something |
//! | `plot-N.svg` | the pictures |
//! | `experiment.toml` | the experiment's file |
//! | `arms/` | scripts and configurations of its arms, where it has some |

mod html;
mod json;
mod machine;

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

pub use json::json;
pub use machine::Machine;

use crate::{
    LabError,
    experiment::Experiment,
    outcome::{Outcome, Said},
    plot,
    verdict::Verdict,
};

/// The name of the folder's JSON.
const RESULT: &str = "result.json";
/// The folder of what arms ran with.
const ARMS: &str = "arms";

/// Refuses a place that holds something other than an earlier report, before any work is done.
///
/// # Errors
///
/// The folder is there and is no report, or its parent is not there.
pub fn check_place(folder: &Path) -> Result<(), LabError> {
    let shown = folder.display();
    if folder.exists() {
        let empty = fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_none());
        if !empty && !folder.join(RESULT).is_file() {
            return Err(LabError::input(
                format!("--report {shown}: is there and is no report"),
                "name a folder that does not exist yet, or an earlier report to replace",
            ));
        }
    }
    let parent = parent(folder);
    if !parent.is_dir() {
        return Err(LabError::input(
            format!("--report {shown}: {} is no folder", parent.display()),
            "create it first",
        ));
    }
    // Better now than after an hour of runs.
    match Unfinished::new(folder) {
        Ok(_) => Ok(()),
        Err(error) => {
            Err(LabError::input(format!("--report {shown}: {error}"), "name a place you may write to"))
        }
    }
}

/// Writes a report: beside its place first, and there in one step once it is whole.
///
/// # Errors
///
/// What the file system said, or a picture that could not be drawn.
pub fn write(
    folder: &Path,
    experiment: &Experiment,
    outcome: &Outcome,
    verdicts: &[Verdict],
) -> Result<(), LabError> {
    let machine = Machine::here();
    let mut pictures = Vec::new();
    for plot in &experiment.plots {
        pictures.push(plot::draw(experiment, plot, outcome).map_err(LabError::Run)?);
    }
    let unfinished = Unfinished::new(folder)?;
    let put = |name: &str, text: &str| {
        let path = unfinished.path.join(name);
        fs::write(&path, text).map_err(|source| LabError::File { path, attempt: "write", source })
    };
    put("experiment.toml", &experiment.text)?;
    let carried = carried(experiment);
    if !carried.is_empty() {
        let path = unfinished.path.join(ARMS);
        fs::create_dir(&path).map_err(|source| LabError::File { path, attempt: "create", source })?;
    }
    for file in &carried {
        put(&format!("{ARMS}/{}", file.name), file.text)?;
    }
    put(RESULT, &format!("{:#}\n", json(experiment, outcome, verdicts, &machine)))?;
    put("runs.csv", &runs_csv(outcome))?;
    put("series.csv", &series_csv(outcome))?;
    if !outcome.said.is_empty() {
        put("said.csv", &said_csv(outcome))?;
    }
    for (number, picture) in pictures.iter().enumerate() {
        if let Some(picture) = picture {
            put(&format!("plot-{}.svg", number + 1), picture)?;
        }
    }
    put("index.html", &html::page(experiment, outcome, verdicts, &machine, &pictures, &carried))?;
    unfinished.finish(folder)
}

/// A script or configuration that arms ran with.
struct Carried<'e> {
    /// Unique among them.
    name: String,
    text: &'e str,
    arms: Vec<&'e str>,
}

/// Each of them once.
fn carried(experiment: &Experiment) -> Vec<Carried<'_>> {
    let mut all: Vec<Carried<'_>> = Vec::new();
    for arm in &experiment.arms {
        let script = arm.controller.as_ref().map(|script| (&script.name, &script.text));
        let configuration = arm.configuration.as_ref().map(|template| (&template.name, &template.text));
        for (path, text) in script.into_iter().chain(configuration) {
            if let Some(known) = all.iter_mut().find(|known| known.text == text) {
                known.arms.push(&arm.name);
                continue;
            }
            let base =
                Path::new(path).file_name().map_or_else(|| "file".into(), |name| name.to_string_lossy());
            let mut name = base.clone().into_owned();
            let mut number = 2;
            while all.iter().any(|known| known.name == name) {
                name = format!("{number}-{base}");
                number += 1;
            }
            all.push(Carried { name, text, arms: vec![&arm.name] });
        }
    }
    all
}

/// The folder while it is written; removed again unless it is finished.
struct Unfinished {
    path: PathBuf,
}

impl Unfinished {
    fn new(folder: &Path) -> Result<Self, LabError> {
        let name =
            folder.file_name().map_or_else(|| "report".into(), |name| name.to_string_lossy().into_owned());
        let path = parent(folder).join(format!(".{name}.unfinished-{}", std::process::id()));
        fs::create_dir(&path).map_err(|source| LabError::File {
            path: path.clone(),
            attempt: "create",
            source,
        })?;
        Ok(Self { path })
    }

    fn finish(mut self, folder: &Path) -> Result<(), LabError> {
        let fault = |attempt| {
            let path = folder.to_owned();
            move |source| LabError::File { path, attempt, source }
        };
        if folder.exists() {
            fs::remove_dir_all(folder).map_err(fault("replace"))?;
        }
        fs::rename(&self.path, folder).map_err(fault("write"))?;
        self.path = PathBuf::new();
        Ok(())
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if self.path != Path::new("") {
            // There is an error already, which is what matters.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

fn parent(folder: &Path) -> PathBuf {
    match folder.parent() {
        Some(parent) if parent != Path::new("") => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

fn runs_csv(outcome: &Outcome) -> String {
    let mut csv = String::from("arm,load,repetition,seed,metric,value\n");
    for run in &outcome.runs {
        let (arm, load) = (quoted(&outcome.arms[run.arm]), outcome.loads[run.load]);
        for (metric, value) in &run.figures {
            let _ = writeln!(csv, "{arm},{load},{},{},{metric},{value}", run.repetition, run.seed);
        }
    }
    csv
}

fn series_csv(outcome: &Outcome) -> String {
    let mut csv = String::from("arm,load,repetition,seed,series,second,value\n");
    for run in &outcome.runs {
        let (arm, load) = (quoted(&outcome.arms[run.arm]), outcome.loads[run.load]);
        for (series, values) in &run.series {
            for (second, value) in values.iter().enumerate().filter(|(_, value)| value.is_finite()) {
                let (repetition, seed) = (run.repetition, run.seed);
                let _ = writeln!(csv, "{arm},{load},{repetition},{seed},{series},{},{value}", second + 1);
            }
        }
    }
    csv
}

fn said_csv(outcome: &Outcome) -> String {
    let mut csv = String::from("arm,load,second,level,text\n");
    for Said { arm, load, at, level, text } in &outcome.said {
        let (arm, load) = (quoted(&outcome.arms[*arm]), outcome.loads[*load]);
        let _ = writeln!(csv, "{arm},{load},{},{},{}", at.as_secs_f64(), level.name(), quoted(text));
    }
    csv
}

/// A field of CSV (RFC 4180).
fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_finished_leaves_nothing() {
        let place = tempfile::tempdir().expect("a folder");
        let folder = place.path().join("report");
        let unfinished = Unfinished::new(&folder).expect("a place beside it");
        fs::write(unfinished.path.join("index.html"), "half").expect("write");
        drop(unfinished);
        assert_eq!(fs::read_dir(place.path()).expect("read").count(), 0);
    }

    #[test]
    fn only_an_earlier_report_is_replaced() {
        let place = tempfile::tempdir().expect("a folder");
        let folder = place.path().join("report");
        assert!(check_place(&folder).is_ok());
        fs::create_dir(&folder).expect("create");
        assert!(check_place(&folder).is_ok(), "an empty folder");
        fs::write(folder.join("thesis.tex"), "years of work").expect("write");
        assert!(check_place(&folder).is_err());
        fs::write(folder.join(RESULT), "{}").expect("write");
        assert!(check_place(&folder).is_ok());
        Unfinished::new(&folder).and_then(|unfinished| unfinished.finish(&folder)).expect("replaced");
        assert_eq!(fs::read_dir(&folder).expect("read").count(), 0);
        assert!(check_place(&place.path().join("absent/report")).is_err());
    }

    #[test]
    fn fields_with_commas_are_quoted() {
        assert_eq!(quoted("fixed limit"), "fixed limit");
        assert_eq!(quoted("a, \"b\""), "\"a, \"\"b\"\"\"");
    }
}
