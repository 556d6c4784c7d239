//! What a request of each class costs, learnt from which classes departed while the server was full.
//!
//! A server that is full does one second of work a second. So every span of saturation is an equation,
//! `Σ θ_c · D_c = T`, in the unknown costs `θ` (seconds of the whole server's capacity a request), with a
//! variance that grows with the work done, `v = F · q² · Σ D`, where `q` is the mean cost and `F` the
//! dispersion. Weighted least squares over the last minute, with lower bounds and a weak prior:
//!
//! ```text
//! G ← f·G + D·Dᵀ/v     g ← f·g + D·T/v     f = 1 − min(0.2, T / 60 s)
//! (G + Λ) θ = g + Λ·prior,   Λ = diag(1 / (2·prior)²),   θ ≥ prior / 20
//! ```
//!
//! Before the mix varies costs cannot be told apart, and the prior (proportional to the response
//! times without a queue) holds; with I/O in them it is wrong until the first change of the mix.

use super::super::per_class::{COST_CLASSES, PerClass};

/// Seconds over which equations are forgotten.
const MEMORY: f64 = 60.0;
/// The prior's standard deviation, of itself.
const PRIOR_WIDTH: f64 = 2.0;
/// No cost goes below this share of its prior.
const LOWEST: f64 = 1.0 / 20.0;
const SWEEPS: u32 = 30;

type Matrix = [[f64; COST_CLASSES]; COST_CLASSES];

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Costs {
    classes: usize,
    /// Seconds of capacity a request.
    theta: PerClass,
    prior: PerClass,
    gram: Matrix,
    moment: PerClass,
}

impl Costs {
    /// A first guess for the first `classes` classes.
    pub(super) fn new(prior: PerClass, classes: usize) -> Self {
        Self {
            classes,
            theta: prior,
            prior,
            gram: [[0.0; COST_CLASSES]; COST_CLASSES],
            moment: PerClass::ZERO,
        }
    }

    /// Makes room for classes up to `classes` in number; the new ones cost `guess`.
    pub(super) fn grow(&mut self, classes: usize, guess: f64) {
        for place in self.classes..classes {
            self.theta[place] = guess;
            self.prior[place] = guess;
        }
        self.classes = self.classes.max(classes);
    }

    pub(super) const fn theta(&self) -> &PerClass {
        &self.theta
    }

    /// Seconds of capacity that these requests take.
    pub(super) fn work(&self, requests: &PerClass) -> f64 {
        self.theta.dot(requests)
    }

    /// Learns that `departed` took `seconds` of the full server.
    pub(super) fn learn(&mut self, departed: &PerClass, seconds: f64, dispersion: f64) {
        let count = departed.sum();
        if count < 1.0 || self.classes < 2 {
            return;
        }
        let mean = self.work(departed) / count;
        let variance = count * dispersion * mean * mean;
        if variance <= 0.0 {
            return;
        }
        let keep = 1.0 - (seconds / MEMORY).min(0.2);
        for i in 0..self.classes {
            self.moment[i] = self.moment[i] * keep + departed[i] * seconds / variance;
            for j in 0..self.classes {
                self.gram[i][j] = self.gram[i][j] * keep + departed[i] * departed[j] / variance;
            }
        }
        self.solve();
    }

    /// Whether the uncertainty of the costs is enough to explain that the server seems to work at
    /// another rate, off by `difference`, while `departed` took `seconds`: within three standard deviations,
    /// `√(Dᵀ G⁻¹ D) / T`, and 3 %.
    pub(super) fn explain(&self, difference: f64, departed: &PerClass, seconds: f64) -> bool {
        if self.classes < 2 {
            return false;
        }
        difference.abs() < 3.0 * self.variance(departed).sqrt() / seconds + 0.03
    }

    /// Variance of what these requests cost together, as the costs are uncertain: `Dᵀ G⁻¹ D`, seconds squared.
    pub(super) fn variance(&self, requests: &PerClass) -> f64 {
        let solved = solve(self.with_prior(), *requests, self.classes);
        requests.dot(&solved).max(0.0)
    }

    /// The whole server has become `ratio` times as fast: every request takes so much less of it.
    pub(super) fn speed_up(&mut self, ratio: f64) {
        self.theta.scale(1.0 / ratio);
        self.prior.scale(1.0 / ratio);
        self.moment.scale(ratio);
        for value in self.gram.iter_mut().flatten() {
            *value *= ratio * ratio;
        }
    }

    fn with_prior(&self) -> Matrix {
        let mut gram = self.gram;
        for (place, row) in gram.iter_mut().enumerate().take(self.classes) {
            row[place] += self.prior_weight(place);
        }
        gram
    }

    fn prior_weight(&self, place: usize) -> f64 {
        (PRIOR_WIDTH * self.prior[place]).max(f64::MIN_POSITIVE.sqrt()).powi(-2)
    }

    /// Least squares with lower bounds, by coordinate descent from the present costs.
    fn solve(&mut self) {
        let gram = self.with_prior();
        for _ in 0..SWEEPS {
            for (i, row) in gram.iter().enumerate().take(self.classes) {
                let mut rest = self.moment[i] + self.prior_weight(i) * self.prior[i];
                for j in (0..self.classes).filter(|j| *j != i) {
                    rest -= row[j] * self.theta[j];
                }
                self.theta[i] = (rest / row[i]).max(self.prior[i] * LOWEST);
            }
        }
    }
}

/// `x` of `matrix · x = right`, by elimination with pivots, over the first `size` places.
fn solve(mut matrix: Matrix, mut right: PerClass, size: usize) -> PerClass {
    for i in 0..size {
        let pivot = (i..size).max_by(|a, b| matrix[*a][i].abs().total_cmp(&matrix[*b][i].abs())).unwrap_or(i);
        matrix.swap(i, pivot);
        (right[i], right[pivot]) = (right[pivot], right[i]);
        let chosen = matrix[i];
        for row in (0..size).filter(|row| *row != i) {
            let factor = matrix[row][i] / nonzero(chosen[i]);
            if factor != 0.0 {
                for (cell, other) in matrix[row].iter_mut().zip(chosen) {
                    *cell -= factor * other;
                }
                right[row] -= factor * right[i];
            }
        }
    }
    let mut solution = PerClass::ZERO;
    for i in 0..size {
        solution[i] = right[i] / nonzero(matrix[i][i]);
    }
    solution
}

fn nonzero(value: f64) -> f64 {
    if value == 0.0 { 1e-30 } else { value }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Lower triangle `L` of `L·Lᵀ = matrix`.
    fn cholesky(matrix: &Matrix, size: usize) -> Matrix {
        let mut lower = [[0.0; COST_CLASSES]; COST_CLASSES];
        for i in 0..size {
            for j in 0..=i {
                let rest = matrix[i][j] - (0..j).map(|k| lower[i][k] * lower[j][k]).sum::<f64>();
                lower[i][j] = if i == j { rest.sqrt() } else { rest / lower[j][j] };
            }
        }
        lower
    }

    proptest! {
        /// Beside the equations written down one by one with their weights, and the conditions of their least squares (Karush,
        /// Kuhn & Tucker): a cost above its lowest has no slope, one at its lowest none downwards.
        #[test]
        fn costs_are_the_least_squares_of_all_equations(
            classes in 2..6_usize,
            windows in prop::collection::vec((prop::array::uniform6(0..100_u8), 0.2..2.0_f64), 1..60),
            priors in prop::array::uniform6(0.001..0.02_f64),
            dispersion in 0.3..5.0_f64,
        ) {
            let mut prior = PerClass::ZERO;
            for class in 0..classes {
                prior[class] = priors[class];
            }
            let mut costs = Costs::new(prior, classes);
            let mut equations: Vec<(PerClass, f64, f64)> = Vec::new();
            for (counts, seconds) in windows {
                let mut departed = PerClass::ZERO;
                for class in 0..classes {
                    departed[class] = f64::from(counts[class]);
                }
                if departed.sum() < 1.0 {
                    continue;
                }
                let mean = costs.theta().dot(&departed) / departed.sum();
                for (_, _, weight) in &mut equations {
                    *weight *= 1.0 - (seconds / 60.0_f64).min(0.2);
                }
                equations.push((departed, seconds, 1.0 / (dispersion * mean * mean * departed.sum())));
                costs.learn(&departed, seconds, dispersion);
            }
            // What is not settled yet would be by the next windows.
            for _ in 0..200 {
                costs.solve();
            }
            let theta = costs.theta();
            for class in 0..classes {
                let mut slope = (theta[class] - prior[class]) / (2.0 * prior[class]).powi(2);
                let mut size = 1.0 / prior[class];
                for (departed, seconds, weight) in &equations {
                    slope += weight * departed[class] * (theta.dot(departed) - seconds);
                    size += weight * departed[class] * seconds;
                }
                let lowest = prior[class] / 20.0;
                prop_assert!(theta[class] >= lowest * (1.0 - 1e-12));
                if theta[class] > lowest * 1.000_001 {
                    prop_assert!(slope.abs() < 1e-4 * size, "{class}: {slope} of {size} at {theta:?}");
                } else {
                    prop_assert!(slope > -1e-4 * size, "{class}: {slope} of {size} at {theta:?}");
                }
            }
            // What their uncertainty explains: 3·√(Dᵀ(G + Λ)⁻¹D)/T and 3 %.
            let mut gram = [[0.0; COST_CLASSES]; COST_CLASSES];
            for i in 0..classes {
                gram[i][i] += 1.0 / (2.0 * prior[i]).powi(2);
                for j in 0..classes {
                    gram[i][j] += equations.iter().map(|(d, _, weight)| weight * d[i] * d[j]).sum::<f64>();
                }
            }
            let lower = cholesky(&gram, classes);
            let mut departed = PerClass::ZERO;
            (departed[0], departed[1]) = (30.0, 7.0);
            // Forward substitution: DᵀG⁻¹D = |L⁻¹D|².
            let mut solved = PerClass::ZERO;
            for i in 0..classes {
                let rest = departed[i] - (0..i).map(|k| lower[i][k] * solved[k]).sum::<f64>();
                solved[i] = rest / lower[i][i];
            }
            let most = 3.0 * solved.dot(&solved).sqrt() / 0.5 + 0.03;
            prop_assert!(costs.explain(most * 0.999, &departed, 0.5) && !costs.explain(most * 1.001, &departed, 0.5));
        }
    }

    fn pair(one: f64, other: f64) -> PerClass {
        let mut pair = PerClass::ZERO;
        (pair[0], pair[1]) = (one, other);
        pair
    }

    /// Two mixes, two equations: 2 and 20 ms come out although the guess was 11 and 11 ms.
    #[test]
    fn two_mixes_tell_the_costs_apart() {
        let mut costs = Costs::new(pair(0.011, 0.011), 2);
        for _ in 0..50 {
            costs.learn(&pair(80.0, 20.0), 0.56, 1.0);
            costs.learn(&pair(20.0, 80.0), 1.64, 1.0);
        }
        let theta = costs.theta();
        assert!((theta[0] - 0.002).abs() < 0.0002 && (theta[1] - 0.020).abs() < 0.0002, "{theta:?}");
    }

    /// Of one mix alone only the sum is known, and the guess tells how it is divided.
    #[test]
    fn one_mix_leaves_the_guess() {
        let mut costs = Costs::new(pair(0.002, 0.020), 2);
        for _ in 0..100 {
            costs.learn(&pair(80.0, 20.0), 1.12, 1.0);
        }
        let theta = *costs.theta();
        assert!((costs.work(&pair(80.0, 20.0)) - 1.12).abs() < 0.01, "{theta:?}");
        assert!(theta[0] > 0.002 && theta[1] > 0.020, "both share the surplus: {theta:?}");
        // Another mix that departs from that is the costs' fault; the same mix would not be.
        assert!(costs.explain(0.3, &pair(20.0, 80.0), 1.0));
        assert!(!costs.explain(0.3, &pair(80.0, 20.0), 1.0));
    }

    #[test]
    fn a_faster_server_lowers_every_cost_and_the_equations_agree() {
        let mut costs = Costs::new(pair(0.010, 0.010), 2);
        costs.learn(&pair(80.0, 20.0), 1.0, 1.0);
        costs.learn(&pair(20.0, 80.0), 1.5, 1.0);
        let before = *costs.theta();
        costs.speed_up(2.0);
        costs.solve();
        let after = *costs.theta();
        assert!((after[0] * 2.0 - before[0]).abs() < 1e-9 && (after[1] * 2.0 - before[1]).abs() < 1e-9);
    }

    #[test]
    fn elimination_solves() {
        let mut matrix = [[0.0; COST_CLASSES]; COST_CLASSES];
        (matrix[0][0], matrix[0][1], matrix[1][0], matrix[1][1]) = (0.0, 2.0, 3.0, 1.0);
        let solution = solve(matrix, pair(4.0, 11.0), 2);
        assert!((solution[0] - 3.0).abs() < 1e-12 && (solution[1] - 2.0).abs() < 1e-12, "{solution:?}");
    }
}
