//! What an experiment gave: figures of every run, and what is made of them over repetitions.

use std::{collections::BTreeMap, time::Duration};

use tidegate_control::controller::Level;

use crate::{
    experiment::{BEFORE, Mode, OverRuns, Span},
    statistics::Estimate,
};

/// Figures of one run, by metric.
pub type Figures = BTreeMap<String, f64>;

/// Second by second, by series.
pub type Series = BTreeMap<String, Vec<f64>>;

/// One run of one cell.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// Position of its arm.
    pub arm: usize,
    /// Position of its load.
    pub load: usize,
    /// Number of the repetition, from 0.
    pub repetition: u32,
    /// Its seed.
    pub seed: u64,
    /// Its figures; infinite where something never came about.
    pub figures: Figures,
    /// Second by second, by series.
    pub series: Series,
    /// Hash of its trace; of simulated runs.
    pub hash: Option<u64>,
    /// Whether its arm's script was stopped on the way, so that its figures are not the law's.
    pub script_stopped: bool,
}

/// A line that the script of an arm has said in the simulator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// Position of its arm.
    pub arm: usize,
    /// Position of the load.
    pub load: usize,
    /// When, from the start of the run.
    pub at: Duration,
    /// How much it matters.
    pub level: Level,
    /// What.
    pub text: String,
}

/// All runs of an experiment.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// How it was run.
    pub mode: Mode,
    /// The first seed.
    pub seed: u64,
    /// Repetitions of each cell.
    pub repetitions: u32,
    /// Names of the arms.
    pub arms: Vec<String>,
    /// Loads, in multiples of capacity.
    pub loads: Vec<f64>,
    /// Requests a second the server can do: given in simulated runs, measured in live ones.
    pub capacity_per_s: Option<f64>,
    /// The runs, by arm, load and repetition.
    pub runs: Vec<Run>,
    /// What scripts have said in the first simulated run of each cell.
    pub said: Vec<Said>,
    /// What the reader must know, such as that the generator was the bottleneck.
    pub notes: Vec<String>,
    /// Programs not ours that took part, and what they say of their version.
    pub programs: BTreeMap<&'static str, String>,
}

impl Outcome {
    /// A metric of a cell over its repetitions; `None` if no run has it.
    #[must_use]
    pub fn estimate(&self, arm: usize, load: usize, metric: &str) -> Option<Estimate> {
        self.summary(&self.values(arm, load, metric))
    }

    /// The same with what a check wants to be made of simulated repetitions.
    #[must_use]
    pub fn estimate_over(&self, over: OverRuns, arm: usize, load: usize, metric: &str) -> Option<Estimate> {
        match over {
            OverRuns::Mean => self.estimate(arm, load, metric),
            OverRuns::Median => Estimate::of_median(&self.values(arm, load, metric)),
        }
    }

    /// A metric of a cell, repetition by repetition.
    #[must_use]
    pub fn values(&self, arm: usize, load: usize, metric: &str) -> Vec<f64> {
        self.cell(arm, load).filter_map(|run| run.figures.get(metric).copied()).collect()
    }

    /// What is said of repeated values: means with intervals of simulated runs, medians of live ones.
    #[must_use]
    pub fn summary(&self, values: &[f64]) -> Option<Estimate> {
        match self.mode {
            Mode::Simulated => Estimate::of_mean(values),
            Mode::Live => Estimate::of_median(values),
        }
    }

    /// The mean over repetitions of a series of a cell, second by second.
    #[must_use]
    pub fn mean_series(&self, arm: usize, load: usize, series: &str) -> Vec<f64> {
        let all: Vec<&Vec<f64>> = self.cell(arm, load).filter_map(|run| run.series.get(series)).collect();
        let length = all.iter().map(|values| values.len()).min().unwrap_or(0);
        (0..length)
            .map(|second| {
                let known: Vec<f64> =
                    all.iter().map(|values| values[second]).filter(|v| v.is_finite()).collect();
                crate::statistics::mean(&known).unwrap_or(f64::NAN)
            })
            .collect()
    }

    /// Every metric any run has, in order.
    #[must_use]
    pub fn metrics(&self) -> Vec<String> {
        let mut names: Vec<String> = self.runs.iter().flat_map(|run| run.figures.keys().cloned()).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Positions of an arm before every server it stands before.
    #[must_use]
    pub fn arms_of(&self, name: &str) -> Vec<usize> {
        let is_it = |arm: &String| {
            arm.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with(BEFORE))
        };
        self.arms.iter().enumerate().filter(|(_, arm)| is_it(arm)).map(|(position, _)| position).collect()
    }

    /// Position of an arm.
    #[must_use]
    pub fn arm(&self, name: &str) -> Option<usize> {
        self.arms.iter().position(|arm| arm == name)
    }

    /// Positions of the loads in a span.
    pub fn loads_in(&self, span: Span) -> impl Iterator<Item = usize> + '_ {
        let inside = move |load: &f64| *load >= span.from - 1e-9 && *load <= span.to + 1e-9;
        self.loads.iter().enumerate().filter(move |(_, load)| inside(load)).map(|(position, _)| position)
    }

    fn cell(&self, arm: usize, load: usize) -> impl Iterator<Item = &Run> {
        self.runs.iter().filter(move |run| run.arm == arm && run.load == load)
    }
}
