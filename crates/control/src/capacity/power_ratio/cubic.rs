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
    use proptest::prelude::*;

    use super::*;

    /// Where a curve is highest between `low` and `high`, by its slope alone: where that turns from up to down.
    fn peak_by_slope(curve: impl Fn(f64) -> f64, low: f64, high: f64) -> Option<f64> {
        const CELLS: u32 = 2000;
        let width = (high - low) / f64::from(CELLS);
        let rises = |x: f64| curve(x + width * 1e-3) > curve(x - width * 1e-3);
        let turns = (0..CELLS).map(|cell| low + width * f64::from(cell)).filter_map(|from| {
            let (mut left, mut right) = (from, from + width);
            if !rises(left) || rises(right) {
                return None;
            }
            for _ in 0..60 {
                let middle = f64::midpoint(left, right);
                if rises(middle) { left = middle } else { right = middle }
            }
            Some(left)
        });
        turns
            .filter(|x| curve(*x) > curve(low).max(curve(high)))
            .max_by(|a, b| curve(*a).total_cmp(&curve(*b)))
    }

    proptest! {
        /// Of all cubics the fit has the least squares: what is left of the points is orthogonal to every power up to the third.
        #[test]
        fn no_cubic_is_nearer_to_the_points(
            first in 0.1..1000.0_f64,
            points in prop::collection::vec((0.01..50.0_f64, 0.0..1e5_f64), 4..40),
        ) {
            let mut load = first;
            let points: Vec<_> = points.into_iter().map(|(step, power)| { load += step; (load, power) }).collect();
            let cubic = Cubic::fit(&points).expect("so many loads");
            let (low, high) = (points[0].0, load);
            for power in 0..4 {
                let scaled = |x: f64| ((2.0 * x - low - high) / (high - low)).powi(power);
                let left: f64 = points.iter().map(|(x, y)| (y - cubic.at(*x)) * scaled(*x)).sum();
                let size: f64 = points.iter().map(|(x, y)| (y * scaled(*x)).abs()).sum();
                prop_assert!(left.abs() <= 1e-6 * size.max(1.0), "{left} of {size} is left along x^{power}");
            }
        }

        #[test]
        fn its_peak_is_where_its_slope_turns(
            [a, b, c, d] in prop::array::uniform4(-10.0..10.0_f64),
            (from, to) in (0.0..0.4_f64, 0.6..1.0_f64),
        ) {
            let cubic = Cubic { coefficients: [a, b, c, d], centre: 50.0, scale: 40.0 };
            let (low, high) = (10.0 + 80.0 * from, 10.0 + 80.0 * to);
            let found = match cubic.peak(low, high) {
                Peak::Inside(x) => Some(x),
                Peak::AtEnd => None,
            };
            match (found, peak_by_slope(|x| cubic.at(x), low, high)) {
                (None, None) => {}
                (Some(found), Some(expected)) => prop_assert!((found - expected).abs() < 0.02, "{found}, {expected}"),
                // A bump that is hardly there, or so near an end.
                (found, expected) => {
                    let x = found.or(expected).expect("one of them");
                    let above = cubic.at(x) - cubic.at(low).max(cubic.at(high));
                    prop_assert!(above.abs() < 1e-4, "{found:?}, {expected:?}: {above} above");
                }
            }
        }
    }

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
