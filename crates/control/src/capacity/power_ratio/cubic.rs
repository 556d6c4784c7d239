//! The cubic fitted to (load, power ratio) by least squares, and its maximum over a range.

/// `p₀ + p₁·u + p₂·u² + p₃·u³` with `u = (x − centre) / scale`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Cubic {
    coefficients: [f64; 4],
    centre: f64,
    scale: f64,
}

/// Where a cubic is highest over a range.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Peak {
    /// Between the ends.
    Inside(f64),
    /// At an end: the range does not hold it.
    AtEnd,
}

impl Cubic {
    /// The least squares fit; `None` with fewer than four different loads, which no cubic is fitted to.
    pub(super) fn fit(points: &[(f64, f64)]) -> Option<Self> {
        let low = points.iter().map(|point| point.0).fold(f64::INFINITY, f64::min);
        let high = points.iter().map(|point| point.0).fold(f64::NEG_INFINITY, f64::max);
        let (centre, scale) = (f64::midpoint(low, high), (high - low) / 2.0);
        if points.is_empty() || scale <= 0.0 {
            return None;
        }
        let top = points.iter().map(|point| point.1.abs()).fold(0.0, f64::max);
        if top <= 0.0 {
            return None;
        }
        // Normal equations, in loads from -1 to 1 and powers up to 1: well conditioned for degree 3.
        let mut matrix = [[0.0; 5]; 4];
        for (load, power) in points {
            let u = (load - centre) / scale;
            let powers = [1.0, u, u * u, u * u * u];
            for (row, left) in matrix.iter_mut().zip(powers) {
                for (cell, right) in row.iter_mut().zip(powers) {
                    *cell += left * right;
                }
                row[4] += left * power / top;
            }
        }
        let coefficients = solve(matrix)?.map(|coefficient| coefficient * top);
        Some(Self { coefficients, centre, scale })
    }

    /// The value at a load.
    pub(super) fn at(&self, x: f64) -> f64 {
        let u = (x - self.centre) / self.scale;
        self.coefficients.iter().rev().fold(0.0, |sum, coefficient| sum * u + coefficient)
    }

    /// Where it is highest from `low` to `high`.
    pub(super) fn peak(&self, low: f64, high: f64) -> Peak {
        let [_, b, c, d] = self.coefficients;
        // b + 2c·u + 3d·u² = 0
        let roots = if d.abs() > 1e-12 * (b.abs() + c.abs()) {
            let discriminant = c * c - 3.0 * d * b;
            if discriminant < 0.0 {
                return Peak::AtEnd;
            }
            let root = discriminant.sqrt();
            [(-c + root) / (3.0 * d), (-c - root) / (3.0 * d)]
        } else {
            [-b / (2.0 * c), f64::NAN]
        };
        let ends = self.at(low).max(self.at(high));
        roots
            .into_iter()
            .map(|u| u * self.scale + self.centre)
            .filter(|x| *x > low && *x < high && self.at(*x) > ends)
            .map(Peak::Inside)
            .next()
            .unwrap_or(Peak::AtEnd)
    }
}

/// Elimination with pivots of four equations; the right side is the fifth column.
fn solve(mut matrix: [[f64; 5]; 4]) -> Option<[f64; 4]> {
    for i in 0..4 {
        let pivot = (i..4).max_by(|a, b| matrix[*a][i].abs().total_cmp(&matrix[*b][i].abs()))?;
        matrix.swap(i, pivot);
        // With fewer than four different loads the equations have no single solution.
        if matrix[i][i].abs() < 1e-9 {
            return None;
        }
        let chosen = matrix[i];
        for row in (0..4).filter(|row| *row != i) {
            let factor = matrix[row][i] / chosen[i];
            for (cell, other) in matrix[row].iter_mut().zip(chosen) {
                *cell -= factor * other;
            }
        }
    }
    Some([0, 1, 2, 3].map(|i| matrix[i][4] / matrix[i][i]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cubic_through_its_own_points_is_found() {
        let curve = |x: f64| 3.0 + 2.0 * x - 0.04 * x * x + 0.0001 * x * x * x;
        let points: Vec<_> = (1..=10_u32).map(|n| f64::from(n) * 7.0).map(|x| (x, curve(x))).collect();
        let cubic = Cubic::fit(&points).unwrap();
        assert!(points.iter().all(|(x, y)| (cubic.at(*x) - y).abs() < 1e-9 * y.abs()));
        // 2 - 0.08·x + 0.0003·x² = 0 at x = 27.92 and 238.7; the first is the maximum.
        let Peak::Inside(peak) = cubic.peak(7.0, 70.0) else { panic!("it has one") };
        assert!((peak - 27.92).abs() < 0.01, "{peak}");
        assert_eq!(cubic.peak(7.0, 27.0), Peak::AtEnd);
        assert_eq!(cubic.peak(30.0, 70.0), Peak::AtEnd);
    }

    #[test]
    fn fewer_than_four_loads_fit_none() {
        assert_eq!(Cubic::fit(&[]), None);
        assert_eq!(Cubic::fit(&[(1.0, 1.0); 9]), None);
        assert_eq!(Cubic::fit(&[(1.0, 1.0), (2.0, 3.0), (3.0, 2.0), (3.0, 2.5), (1.0, 0.9)]), None);
        assert!(Cubic::fit(&[(1.0, 1.0), (2.0, 3.0), (3.0, 2.0), (4.0, 0.5)]).is_some());
    }
}
