//! The result as JSON: the stable form of `lab run --json`.
//!
//! ```json
//! {"experiment", "mode", "seed", "repetitions", "loads", "axis", "capacity_per_s",
//!  "checks": [{"name", "value", "low", "high", "bar", "op", "pass", "paper", "worst"}],
//!  "series": {"METRIC": {"ARM": [{"load", "value", "low", "high", "count"}]}},
//!  "machine": {"commit", "version", "kernel", "processor", "processors", "memory_mib", "optimised", "programs": {}},
//!  "notes": [], "trace"}
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
        "axis": experiment.axis.name(),
        "capacity_per_s": outcome.capacity_per_s,
        "checks": checks,
        "series": series,
        "machine": {
            "commit": machine.commit, "version": machine.version, "kernel": machine.kernel,
            "processor": machine.processor, "processors": machine.processors,
            "memory_mib": machine.memory_mib, "optimised": machine.optimised,
            "programs": outcome.programs,
        },
        "notes": outcome.notes,
        "trace": trace(outcome),
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

/// One hash of the traces of all simulated runs, by which a reader can tell that he has repeated the
/// very same runs; null of live ones. FNV-1a over the runs' hashes in their order.
fn trace(outcome: &Outcome) -> Option<String> {
    let hashes: Vec<u64> = outcome.runs.iter().filter_map(|run| run.hash).collect();
    let bytes = hashes.iter().flat_map(|hash| hash.to_le_bytes());
    let all = bytes
        .fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    (!hashes.is_empty()).then(|| format!("{all:016x}"))
}

fn finite(value: f64) -> Option<f64> {
    value.is_finite().then_some(value)
}
