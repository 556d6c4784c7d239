//! An outcome as people read it: tables of text for the terminal.

use std::fmt::Write as _;

use crate::{
    experiment::{Experiment, Mode, Over},
    metrics,
    outcome::Outcome,
    statistics::Estimate,
    verdict::Verdict,
};

/// What `lab run` prints: one table for each metric that is drawn or checked, then the checks.
#[must_use]
pub(crate) fn text(experiment: &Experiment, outcome: &Outcome, verdicts: &[Verdict]) -> String {
    let mut out = format!("{}: {} ({})\n", experiment.name, experiment.title, outcome.mode.name());
    let _ = writeln!(out, "{}", made_of(outcome));
    for metric in shown(experiment, outcome) {
        let _ =
            write!(out, "\n{}\n{}", metrics::axis(&metric), grid(outcome, &metric, experiment.axis.name()));
    }
    for note in &outcome.notes {
        let _ = writeln!(out, "\nnote: {note}");
    }
    if !verdicts.is_empty() {
        let _ = write!(out, "\n{}", checks(verdicts));
    }
    out
}

/// How the figures came about, in one line.
pub(crate) fn made_of(outcome: &Outcome) -> String {
    let capacity = outcome.capacity_per_s.map(|c| format!("; capacity {c:.1}/s")).unwrap_or_default();
    match outcome.mode {
        Mode::Simulated if outcome.repetitions == 1 => {
            format!("1 run of each cell, seed {}{capacity}", outcome.seed)
        }
        Mode::Simulated => format!(
            "means of {} runs, seeds {} to {}, ± half a 95 % interval{capacity}",
            outcome.repetitions,
            outcome.seed,
            outcome.seed + u64::from(outcome.repetitions) - 1
        ),
        Mode::Live => format!("medians of {} interleaved repetitions{capacity}", outcome.repetitions),
    }
}

/// Metrics that are drawn or checked, in that order, each once.
pub(crate) fn shown(experiment: &Experiment, outcome: &Outcome) -> Vec<String> {
    let drawn = experiment.plots.iter().filter(|plot| plot.over == Over::Load);
    let drawn = drawn.flat_map(|plot| [Some(plot.metric.clone()), plot.against.clone()]).flatten();
    let checked = experiment.checks.iter().map(|check| check.metric.clone());
    let measured = outcome.metrics();
    let mut names = Vec::new();
    for name in drawn.chain(checked) {
        if measured.contains(&name) && !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

fn grid(outcome: &Outcome, metric: &str, x: &str) -> String {
    let head = std::iter::once(x.to_owned()).chain(outcome.loads.iter().map(ToString::to_string)).collect();
    let rows = outcome.arms.iter().enumerate().map(|(arm, name)| {
        let cells =
            (0..outcome.loads.len()).map(|load| cell(outcome.estimate(arm, load, metric), outcome.mode));
        std::iter::once(name.clone()).chain(cells).collect()
    });
    aligned(std::iter::once(head).chain(rows).collect())
}

/// A figure with what is known of its spread.
pub(crate) fn cell(estimate: Option<Estimate>, mode: Mode) -> String {
    let Some(Estimate { value, low, high, count }) = estimate else { return "-".to_owned() };
    if !value.is_finite() {
        return "never".to_owned();
    }
    let digits = if value.abs() >= 100.0 {
        0
    } else if value.abs() >= 10.0 {
        1
    } else {
        3
    };
    match mode {
        Mode::Simulated if count > 1 => format!("{value:.digits$} ±{:.digits$}", (high - low) / 2.0),
        Mode::Live if count > 1 && high.is_finite() => {
            format!("{value:.digits$} [{low:.digits$} {high:.digits$}]")
        }
        _ => format!("{value:.digits$}"),
    }
}

fn checks(verdicts: &[Verdict]) -> String {
    let mut rows = vec![["", "check", "found", "stated", "paper"].map(str::to_owned).to_vec()];
    rows.extend(verdicts.iter().map(|verdict| {
        let found = match verdict.value {
            None => "not measured".to_owned(),
            Some(Estimate { value, .. }) if !value.is_finite() => "never".to_owned(),
            Some(Estimate { value, low, high, .. }) => format!("{value:.4} [{low:.4} {high:.4}]"),
        };
        let name = match &verdict.worst {
            Some(worst) => format!("{} (worst: {worst})", verdict.name),
            None => verdict.name.clone(),
        };
        vec![
            if verdict.pass { "pass" } else { "MISS" }.to_owned(),
            name,
            found,
            format!("{} {}", verdict.op.symbol(), verdict.bar),
            verdict.paper.clone().unwrap_or_default(),
        ]
    }));
    aligned(rows)
}

/// Rows of cells in columns; the first row is the head.
fn aligned(rows: Vec<Vec<String>>) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut out = String::new();
    for row in &rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            let _ = write!(line, "  {cell}{}", " ".repeat(width - cell.chars().count()));
        }
        let _ = writeln!(out, "{}", line.trim_end());
    }
    out
}
