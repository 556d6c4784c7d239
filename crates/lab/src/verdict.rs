//! Whether what was stated holds.

use crate::{
    experiment::{Check, Experiment, Op, Relative, Take},
    outcome::Outcome,
    statistics::Estimate,
};

/// A check and what became of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// What was claimed.
    pub name: String,
    /// What was found; `None` if nothing was measured.
    pub value: Option<Estimate>,
    /// The arm, where the check is of the worst of several.
    pub worst: Option<String>,
    /// The claim's direction.
    pub op: Op,
    /// Its bound.
    pub bar: f64,
    /// Whether it holds. What was not measured does not.
    pub pass: bool,
    /// What the paper says, if one does.
    pub paper: Option<String>,
}

/// Judges every check of an experiment that is of the outcome's mode.
#[must_use]
pub fn judge(experiment: &Experiment, outcome: &Outcome) -> Vec<Verdict> {
    let of_mode = |check: &&Check| check.mode.is_none_or(|mode| mode == outcome.mode);
    experiment.checks.iter().filter(of_mode).map(|check| verdict(check, outcome)).collect()
}

fn verdict(check: &Check, outcome: &Outcome) -> Verdict {
    let arms: Vec<usize> = match &check.arm {
        Some(name) => outcome.arms_of(name),
        None => (0..outcome.arms.len()).collect(),
    };
    let of_arms = arms.iter().map(|arm| (*arm, value(check, outcome, *arm)));
    // Nothing is worse than what was not measured.
    let worst = of_arms.min_by(|(_, a), (_, b)| match (a, b) {
        (Some(a), Some(b)) if check.op == Op::AtLeast => a.value.total_cmp(&b.value),
        (Some(a), Some(b)) => b.value.total_cmp(&a.value),
        _ => a.is_some().cmp(&b.is_some()),
    });
    let value = worst.and_then(|(_, estimate)| estimate);
    Verdict {
        name: check.name.clone(),
        value,
        worst: worst
            .filter(|_| check.arm.is_none() || arms.len() > 1)
            .map(|(arm, _)| outcome.arms[arm].clone()),
        op: check.op,
        bar: check.bar,
        pass: value.is_some_and(|estimate| check.op.holds(estimate.value, check.bar)),
        paper: check.paper.clone(),
    }
}

/// The check's value of one arm; `None` if it was not measured at one of the loads. Repetitions come first, so that the worst of several loads is the
/// worst in the mean and not the one that chance disturbed most.
fn value(check: &Check, outcome: &Outcome, arm: usize) -> Option<Estimate> {
    let read = |arm, load| outcome.estimate_over(check.over_runs, arm, load, &check.metric);
    let peak = (0..outcome.loads.len())
        .filter_map(|load| read(arm, load))
        .map(|estimate| estimate.value)
        .max_by(f64::total_cmp);
    let values = outcome.loads_in(check.at).map(|load| {
        let value = read(arm, load)?;
        let divisor = match &check.relative_to {
            Relative::Absolute => 1.0,
            Relative::Peak => peak?,
            Relative::Arm(other) => read(outcome.arm(other)?, load)?.value,
        };
        Some(value.over(divisor))
    });
    let values = values.collect::<Option<Vec<_>>>()?;
    match check.take {
        Take::Min => values.into_iter().min_by(|a, b| a.value.total_cmp(&b.value)),
        Take::Max => values.into_iter().max_by(|a, b| a.value.total_cmp(&b.value)),
        Take::Mean => Estimate::mean_of(&values),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        experiment::{Mode, OverRuns, Span},
        outcome::Run,
    };

    /// Two arms at loads 1 and 2, two repetitions; the second arm falls off.
    fn outcome() -> Outcome {
        let mut runs = Vec::new();
        for (arm, goodput) in [[100.0, 98.0], [100.0, 40.0]].into_iter().enumerate() {
            for (load, goodput) in goodput.into_iter().enumerate() {
                for repetition in 0..2 {
                    let value = goodput + f64::from(repetition);
                    runs.push(Run {
                        arm,
                        load,
                        repetition,
                        seed: 1,
                        figures: [("goodput_per_s".to_owned(), value)].into(),
                        series: [].into(),
                        hash: None,
                        script_stopped: false,
                    });
                }
            }
        }
        Outcome {
            mode: Mode::Simulated,
            seed: 1,
            repetitions: 2,
            arms: vec!["a".to_owned(), "b".to_owned()],
            loads: vec![1.0, 2.0],
            capacity_per_s: Some(100.0),
            runs,
            said: Vec::new(),
            notes: Vec::new(),
            programs: [].into(),
        }
    }

    fn check(arm: Option<&str>, relative_to: Relative, op: Op, bar: f64) -> Check {
        Check {
            name: "holds".to_owned(),
            metric: "goodput_per_s".to_owned(),
            arm: arm.map(str::to_owned),
            at: Span { from: 0.0, to: 100.0 },
            over_runs: OverRuns::Mean,
            take: if op == Op::AtLeast { Take::Min } else { Take::Max },
            relative_to,
            op,
            bar,
            paper: None,
            mode: None,
        }
    }

    #[test]
    fn the_worst_load_and_the_worst_arm_count() {
        let outcome = outcome();
        let of_one = verdict(&check(Some("a"), Relative::Peak, Op::AtLeast, 0.95), &outcome);
        assert!(of_one.pass && of_one.worst.is_none(), "{of_one:?}");
        let of_all = verdict(&check(None, Relative::Peak, Op::AtLeast, 0.95), &outcome);
        assert!(!of_all.pass && of_all.worst.as_deref() == Some("b"), "{of_all:?}");
        let relative = verdict(&check(Some("b"), Relative::Arm("a".to_owned()), Op::AtMost, 1.0), &outcome);
        assert!(relative.pass && relative.value.unwrap().value == 1.0, "{relative:?}");
    }

    #[test]
    fn what_was_not_measured_does_not_pass() {
        let mut missing = check(Some("a"), Relative::Absolute, Op::AtMost, 1e9);
        missing.metric = "fairness".to_owned();
        assert!(!verdict(&missing, &outcome()).pass);
        missing.arm = Some("c".to_owned());
        assert_eq!(verdict(&missing, &outcome()).value, None);
    }

    /// An arm that answers nobody at the highest load has no response time there: at the others it may be short.
    #[test]
    fn what_was_not_measured_at_one_load_does_not_pass() {
        let mut outcome = outcome();
        for run in outcome.runs.iter_mut().filter(|run| run.arm == 1 && run.load == 1) {
            run.figures.clear();
        }
        for take in [Take::Min, Take::Max, Take::Mean] {
            let of = |arm, from, to| {
                let at = Span { from, to };
                let check = Check { take, at, ..check(arm, Relative::Absolute, Op::AtMost, 1e9) };
                verdict(&check, &outcome)
            };
            assert!(of(Some("b"), 1.0, 1.0).pass && of(Some("a"), 1.0, 2.0).pass);
            assert_eq!(of(Some("b"), 1.0, 2.0).value, None, "{take:?}");
            let of_all = of(None, 1.0, 2.0);
            assert!(!of_all.pass && of_all.worst.as_deref() == Some("b"), "{of_all:?}");
        }
    }
}
