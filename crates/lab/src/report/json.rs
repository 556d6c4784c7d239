//! The result as JSON: the stable form of `lab run --json`.
//!
//! ```json
//! {"experiment", "mode", "seed", "repetitions", "loads", "capacity_per_s",
//!  "checks": [{"name", "value", "low", "high", "bar", "op", "pass", "paper", "worst"}],
//!  "series": {"METRIC": {"ARM": [{"load", "value", "low", "high", "count"}]}},
//!  "machine": {"commit", "version", "kernel", "processor", "processors", "memory_mib", "optimised"},
//!  "notes": [], "hashes": {"ARM": [["LOAD", "SEED", "HASH"]]}}
//! ```
//!
//! Keys are added, never renamed or removed. What is infinite (never recovered) or was not measured
//! is `null`.

use serde_json::{Map, Value, json};

use super::Machine;
use crate::{experiment::Experiment, outcome::Outcome, statistics::Estimate, verdict::Verdict};

/// The result of an experiment.
#[must_use]
pub fn json(experiment: &Experiment, outcome: &Outcome, verdicts: &[Verdict], machine: &Machine) -> Value {
    let checks: Vec<Value> = verdicts.iter().map(check).collect();
    let mut series = Map::new();
    for metric in outcome.metrics() {
        let mut arms = Map::new();
        for (arm, name) in outcome.arms.iter().enumerate() {
            let points: Vec<Value> = (0..outcome.loads.len())
                .filter_map(|load| {
                    let Estimate { value, low, high, count } = outcome.estimate(arm, load, &metric)?;
                    Some(json!({
                        "load": outcome.loads[load], "value": finite(value),
                        "low": finite(low), "high": finite(high), "count": count,
                    }))
                })
                .collect();
            if !points.is_empty() {
                arms.insert(name.clone(), points.into());
            }
        }
        series.insert(metric, arms.into());
    }
    json!({
        "experiment": experiment.name,
        "mode": outcome.mode.name(),
        "seed": outcome.seed,
        "repetitions": outcome.repetitions,
        "loads": outcome.loads,
        "capacity_per_s": outcome.capacity_per_s,
        "checks": checks,
        "series": series,
        "machine": {
            "commit": machine.commit, "version": machine.version, "kernel": machine.kernel,
            "processor": machine.processor, "processors": machine.processors,
            "memory_mib": machine.memory_mib, "optimised": machine.optimised,
        },
        "notes": outcome.notes,
        "hashes": hashes(outcome),
    })
}

fn check(verdict: &Verdict) -> Value {
    json!({
        "name": verdict.name,
        "value": verdict.value.and_then(|estimate| finite(estimate.value)),
        "low": verdict.value.and_then(|estimate| finite(estimate.low)),
        "high": verdict.value.and_then(|estimate| finite(estimate.high)),
        "bar": verdict.bar,
        "op": verdict.op.symbol(),
        "pass": verdict.pass,
        "paper": verdict.paper,
        "worst": verdict.worst,
    })
}

/// Traces of simulated runs, by which a reader can tell that he has repeated the very same runs.
fn hashes(outcome: &Outcome) -> Value {
    let mut arms = Map::new();
    for run in &outcome.runs {
        if let Some(hash) = run.hash {
            let list = arms.entry(outcome.arms[run.arm].clone()).or_insert_with(|| json!([]));
            if let Value::Array(list) = list {
                list.push(json!([outcome.loads[run.load], run.seed, format!("{hash:016x}")]));
            }
        }
    }
    arms.into()
}

fn finite(value: f64) -> Option<f64> {
    value.is_finite().then_some(value)
}
