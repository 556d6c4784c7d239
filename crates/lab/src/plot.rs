//! Pictures of an outcome, as SVG.
//!
//! Legends stand beside the data, never over them. Arms are told apart by colour and by marker, so
//! that a picture printed in grey can be read.

use std::error::Error;

use plotters::{
    coord::{
        combinators::WithKeyPoints,
        ranged1d::{AsRangedCoord, Ranged, ValueFormatter},
    },
    prelude::*,
};

use crate::{
    experiment::{Axis, Experiment, Over, Plot},
    metrics,
    outcome::Outcome,
};

const WIDTH: u32 = 1000;
const HEIGHT: u32 = 520;
const LEGEND: u32 = 270;
/// Distinguishable with the common colour blindnesses (Okabe & Ito), and darker ones after.
const COLOURS: &[RGBColor] = &[
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(120, 94, 10),
    RGBColor(86, 180, 233),
    RGBColor(230, 159, 0),
    RGBColor(90, 90, 90),
    RGBColor(128, 0, 0),
    RGBColor(72, 61, 139),
    RGBColor(0, 100, 0),
    RGBColor(199, 21, 133),
];

/// x, y, and the ends of the interval around y.
type Point = (f64, f64, f64, f64);

/// A line of a picture.
struct Line {
    name: String,
    /// Position of its arm, by which colour and marker are the same in every picture of a report.
    arm: usize,
    /// Where it is drawn without a gap, from left to right.
    pieces: Vec<Vec<Point>>,
    /// For comparison: dashed and without marker.
    dashed: bool,
}

/// What is drawn, before it is drawn.
struct Picture<'p> {
    title: &'p str,
    x_label: &'p str,
    y_label: String,
    lines: Vec<Line>,
    log_x: bool,
    log_y: bool,
    y_min: Option<f64>,
    y_max: Option<f64>,
}

/// Draws a plot of an experiment.
///
/// `None` if nothing of it was measured, as of some plots in one kind of run.
///
/// # Errors
///
/// In words, if the drawing library fails.
pub fn draw(experiment: &Experiment, plot: &Plot, outcome: &Outcome) -> Result<Option<String>, String> {
    let picture = Picture::new(experiment, plot, outcome);
    if picture.lines.iter().all(|line| line.dashed) {
        return Ok(None);
    }
    let mut svg = String::new();
    {
        let arms = picture.lines.iter().filter(|line| !line.dashed).count();
        let rows = u32::try_from(arms + 1).unwrap_or_default();
        let height = HEIGHT.max(80 + 24 * rows);
        let root = SVGBackend::with_string(&mut svg, (WIDTH, height)).into_drawing_area();
        picture.draw(&root).map_err(|error| format!("plot {}: {error}", plot.title))?;
    }
    Ok(Some(svg))
}

impl<'p> Picture<'p> {
    fn new(experiment: &Experiment, plot: &'p Plot, outcome: &Outcome) -> Self {
        let shown = |arm: &usize| !plot.without.contains(&outcome.arms[*arm]);
        let arms: Vec<usize> = (0..outcome.arms.len()).filter(shown).collect();
        let mut lines: Vec<Line> = arms
            .iter()
            .map(|arm| Line {
                name: outcome.arms[*arm].clone(),
                arm: *arm,
                pieces: pieces(plot, outcome, *arm, &plot.metric),
                dashed: false,
            })
            .collect();
        if let Some(against) = &plot.against {
            lines.extend(against_lines(plot, outcome, &arms, against));
        }
        lines.retain(|line| !line.pieces.is_empty());
        let x_label = match (plot.over, &experiment.subject) {
            (Over::Time { .. }, _) => "time (s)",
            (Over::Load, _) if experiment.axis == Axis::Sessions => "new sessions (/s)",
            (Over::Load, _) if experiment.axis != Axis::Load => "capacity (/s)",
            (Over::Load, crate::experiment::Subject::Truth { .. }) => "utilisation",
            (Over::Load, crate::experiment::Subject::Web(web)) => match web.load.population {
                crate::experiment::Population::Open { .. } => "offered load / capacity",
                crate::experiment::Population::Browsers { .. } => "browsers / browsers that saturate",
            },
        };
        let spread = match (outcome.loads.first(), outcome.loads.last()) {
            (Some(first), Some(last)) => last / first,
            _ => 1.0,
        };
        Self {
            title: &plot.title,
            x_label,
            y_label: metrics::axis(&plot.metric),
            lines,
            log_x: plot.over == Over::Load && spread >= 20.0,
            log_y: plot.log_y,
            y_min: plot.y_min,
            y_max: plot.y_max,
        }
    }

    fn draw(
        &self,
        root: &DrawingArea<SVGBackend<'_>, plotters::coord::Shift>,
    ) -> Result<(), Box<dyn Error + '_>> {
        root.fill(&WHITE)?;
        let (chart, legend) = root.split_horizontally(WIDTH - LEGEND);
        let (x, y) = (self.x_range(), self.y_range());
        match (self.log_x, self.log_y) {
            (false, false) => self.chart(&chart, x.0..x.1, y.0..y.1)?,
            (true, false) => self.chart(&chart, logarithmic(x), y.0..y.1)?,
            (false, true) => self.chart(&chart, x.0..x.1, logarithmic(y))?,
            (true, true) => self.chart(&chart, logarithmic(x), logarithmic(y))?,
        }
        self.legend(&legend)?;
        root.present()?;
        Ok(())
    }

    fn chart<X, Y>(
        &self,
        area: &DrawingArea<SVGBackend<'_>, plotters::coord::Shift>,
        x: X,
        y: Y,
    ) -> Result<(), Box<dyn Error + '_>>
    where
        X: AsRangedCoord<Value = f64>,
        Y: AsRangedCoord<Value = f64>,
        X::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
        Y::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
    {
        let (_, y_top) = self.y_range();
        let mut chart = ChartBuilder::on(area)
            .caption(self.title, ("sans-serif", 20))
            .margin(12)
            .x_label_area_size(48)
            .y_label_area_size(72)
            .build_cartesian_2d(x, y)?;
        chart
            .configure_mesh()
            .x_desc(self.x_label)
            .y_desc(self.y_label.as_str())
            .x_label_formatter(&|value| short(*value))
            .y_label_formatter(&|value| short(*value))
            .axis_desc_style(("sans-serif", 15))
            .label_style(("sans-serif", 13))
            .light_line_style(RGBColor(245, 245, 245))
            .bold_line_style(RGBColor(225, 225, 225))
            .draw()?;
        for line in &self.lines {
            let colour = colour(line.arm);
            // Beyond the frame is drawn at its edge, so that a line that leaves it is seen to.
            let inside = |y: f64| y.min(y_top);
            let crowded = line.points().count() > 60;
            for piece in &line.pieces {
                let path = piece.iter().map(|(x, y, ..)| (*x, inside(*y)));
                if line.dashed {
                    let style = BLACK.mix(0.6).stroke_width(2);
                    chart.draw_series(DashedLineSeries::new(path, 6, 5, style))?;
                    continue;
                }
                chart.draw_series(LineSeries::new(path, colour.stroke_width(2)))?;
                if crowded && piece.len() > 1 {
                    continue;
                }
                for (x, y, low, high) in piece {
                    let (low, high) = (inside(*low), inside(*high));
                    if high > low && low.is_finite() {
                        chart.draw_series([PathElement::new(
                            vec![(*x, low), (*x, high)],
                            colour.stroke_width(1),
                        )])?;
                    }
                    chart.draw_series([
                        EmptyElement::at((*x, inside(*y))) + marker(line.arm, (0, 0), colour)
                    ])?;
                }
            }
        }
        Ok(())
    }

    fn legend(
        &self,
        area: &DrawingArea<SVGBackend<'_>, plotters::coord::Shift>,
    ) -> Result<(), Box<dyn Error + '_>> {
        // Dashed lines stand beside those of the arms and mean the same: one entry for all.
        let dashed = self.lines.iter().position(|line| line.dashed);
        let shown = self.lines.iter().enumerate().filter(|(at, line)| !line.dashed || Some(*at) == dashed);
        for (position, line) in shown {
            let y = 60 + 24 * i32::try_from(position)?;
            let colour = colour(line.arm);
            if line.dashed {
                let style = BLACK.mix(0.6).stroke_width(2);
                area.draw(&PathElement::new(vec![(8, y), (18, y)], style))?;
                area.draw(&PathElement::new(vec![(24, y), (34, y)], style))?;
            } else {
                area.draw(&PathElement::new(vec![(8, y), (34, y)], colour.stroke_width(2)))?;
                area.draw(&(EmptyElement::at((21, y)) + marker(line.arm, (0, 0), colour)))?;
            }
            let style = ("sans-serif", 13).into_font().color(&BLACK);
            area.draw(&Text::new(line.name.clone(), (42, y - 7), style))?;
        }
        Ok(())
    }

    fn x_range(&self) -> (f64, f64) {
        let xs = self.lines.iter().flat_map(|line| line.points().map(|(x, ..)| *x));
        let (low, high) = extremes(xs).unwrap_or((0.0, 1.0));
        if self.log_x {
            (low / 1.1, high * 1.1)
        } else if high > low {
            (low.min(0.0), high + (high - low) * 0.02)
        } else {
            (low - 0.5, high + 0.5)
        }
    }

    fn y_range(&self) -> (f64, f64) {
        let ys = self.lines.iter().flat_map(|line| line.points().map(|(_, y, ..)| *y));
        let (low, high) = extremes(ys.filter(|y| !self.log_y || *y > 0.0)).unwrap_or((0.0, 1.0));
        let high = self.y_max.unwrap_or(if self.log_y { high * 1.3 } else { high * 1.08 });
        let (low, high) =
            if self.log_y { (low / 1.3, high.max(low * 2.0)) } else { (low.min(0.0), high.max(low + 1e-9)) };
        (self.y_min.unwrap_or(low), high)
    }
}

impl Line {
    fn points(&self) -> impl Iterator<Item = &Point> {
        self.pieces.iter().flatten()
    }
}

/// What was measured, with a gap where a value is infinite, missing or not to be shown on the axis.
fn pieces(plot: &Plot, outcome: &Outcome, arm: usize, metric: &str) -> Vec<Vec<Point>> {
    let shown = |y: f64| y.is_finite() && (!plot.log_y || y > 0.0);
    let points: Vec<Option<Point>> = match plot.over {
        Over::Load => (0..outcome.loads.len())
            .map(|load| {
                let found = outcome.estimate(arm, load, metric)?;
                shown(found.value).then_some((outcome.loads[load], found.value, found.low, found.high))
            })
            .collect(),
        Over::Time { load } => {
            let span = crate::experiment::Span { from: load, to: load };
            let Some(load) = outcome.loads_in(span).next() else { return Vec::new() };
            let series = outcome.mean_series(arm, load, metric);
            let mut second = 0.0;
            series
                .into_iter()
                .map(|y| {
                    second += 1.0;
                    shown(y).then_some((second, y, y, y))
                })
                .collect()
        }
    };
    let pieces = points.split(Option::is_none);
    pieces.filter(|piece| !piece.is_empty()).map(|piece| piece.iter().flatten().copied().collect()).collect()
}

/// Lines for comparison: one if all arms agree, as they do on what is offered; else one for each arm.
fn against_lines(plot: &Plot, outcome: &Outcome, arms: &[usize], metric: &str) -> Vec<Line> {
    let label = metrics::find(metric).map_or(metric, |(_, metric)| metric.label);
    let line = |arm: &usize| Line {
        name: label.to_owned(),
        arm: *arm,
        pieces: pieces(plot, outcome, *arm, metric),
        dashed: true,
    };
    let mut all: Vec<Line> = arms.iter().map(line).filter(|line| !line.pieces.is_empty()).collect();
    let Some(first) = all.first() else { return Vec::new() };
    let near = |other: &Line| {
        other.points().count() == first.points().count()
            && other.points().zip(first.points()).all(|(a, b)| (a.1 - b.1).abs() <= 0.05 * b.1.abs())
    };
    if all.iter().all(near) {
        all.truncate(1);
    }
    all
}

/// A logarithmic axis, labelled at 1, 2 and 5 of each decade, or of many decades at 1 alone.
fn logarithmic((low, high): (f64, f64)) -> WithKeyPoints<LogCoord<f64>> {
    let (first, last) = (low.log10().floor(), high.log10().ceil());
    let many = last - first > 4.0;
    let (mut labelled, mut lines) = (Vec::new(), Vec::new());
    let mut exponent = first;
    while exponent <= last {
        for digit in [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0] {
            let value = digit * 10f64.powf(exponent);
            if !(low..=high).contains(&value) {
                continue;
            }
            lines.push(value);
            if digit < 1.5 || (!many && (digit < 2.5 || (4.5..5.5).contains(&digit))) {
                labelled.push(value);
            }
        }
        exponent += 1.0;
    }
    if labelled.len() < 2 {
        labelled.clone_from(&lines);
    }
    (low..high).log_scale().with_key_points(labelled).with_light_points(lines)
}

fn colour(arm: usize) -> RGBColor {
    COLOURS[arm % COLOURS.len()]
}

/// Six forms in turn, and one further each time the colours begin anew, so that of 72 arms no two look alike.
fn marker(arm: usize, at: (i32, i32), colour: RGBColor) -> Polygon<(i32, i32)> {
    let corners: &[(i32, i32)] = match (arm + arm / COLOURS.len()) % 6 {
        0 => &[(-3, -2), (-2, -3), (2, -3), (3, -2), (3, 2), (2, 3), (-2, 3), (-3, 2)],
        1 => &[(-3, -3), (3, -3), (3, 3), (-3, 3)],
        2 => &[(0, -5), (4, 3), (-4, 3)],
        3 => &[(0, -5), (5, 0), (0, 5), (-5, 0)],
        4 => &[(0, 5), (4, -3), (-4, -3)],
        _ => &[
            (-1, -5),
            (1, -5),
            (1, -1),
            (5, -1),
            (5, 1),
            (1, 1),
            (1, 5),
            (-1, 5),
            (-1, 1),
            (-5, 1),
            (-5, -1),
            (-1, -1),
        ],
    };
    Polygon::new(corners.iter().map(|(x, y)| (at.0 + x, at.1 + y)).collect::<Vec<_>>(), colour.filled())
}

fn extremes(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    values.filter(|value| value.is_finite()).fold(None, |found, value| {
        let (low, high) = found.unwrap_or((value, value));
        Some((low.min(value), high.max(value)))
    })
}

/// A number as an axis shows it.
fn short(value: f64) -> String {
    let rounded = format!("{value:.4}");
    let rounded = rounded.trim_end_matches('0').trim_end_matches('.');
    if rounded.is_empty() || rounded == "-0" { "0".to_owned() } else { rounded.to_owned() }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::{
        experiment::{Mode, builtin},
        outcome::{Figures, Run, Series},
    };

    /// One run of one arm at each load, with this metric.
    fn outcome(metric: &str, values: &[(f64, f64)]) -> Outcome {
        let runs = values.iter().enumerate().map(|(load, (_, value))| Run {
            arm: 0,
            load,
            repetition: 0,
            seed: 1,
            figures: Figures::from([(metric.to_owned(), *value)]),
            series: Series::new(),
            hash: None,
            script_stopped: false,
        });
        Outcome {
            mode: Mode::Live,
            seed: 1,
            repetitions: 1,
            arms: vec!["arm".to_owned()],
            loads: values.iter().map(|(load, _)| *load).collect(),
            capacity_per_s: None,
            runs: runs.collect(),
            said: Vec::new(),
            notes: Vec::new(),
            programs: BTreeMap::new(),
        }
    }

    fn knee() -> Experiment {
        let known = builtin::ALL.iter().find(|known| known.name == "overload-knee").expect("built in");
        known.experiment().unwrap_or_else(|faults| panic!("{faults}"))
    }

    #[test]
    fn a_line_is_not_drawn_across_what_never_came_about() {
        let experiment = knee();
        let plot = experiment.plots.iter().find(|plot| plot.metric == "settle_s").expect("a plot");
        let values = [(0.1, 3.0), (0.5, f64::INFINITY), (1.0, f64::INFINITY), (2.0, 1.0), (10.0, 2.0)];
        let found = pieces(plot, &outcome("settle_s", &values), 0, "settle_s");
        let xs: Vec<Vec<f64>> = found.iter().map(|piece| piece.iter().map(|(x, ..)| *x).collect()).collect();
        assert_eq!(xs, [vec![0.1], vec![2.0, 10.0]]);
    }

    #[test]
    fn what_was_not_measured_is_no_picture() {
        let experiment = knee();
        let plot = experiment.plots.iter().find(|plot| plot.metric == "settle_s").expect("a plot");
        let drawn = |metric| {
            draw(&experiment, plot, &outcome(metric, &[(0.1, 3.0), (10.0, 2.0)])).expect("a picture")
        };
        assert!(drawn("settle_s").is_some_and(|svg| svg.starts_with("<svg")));
        assert_eq!(drawn("goodput_per_s"), None);
    }

    #[test]
    fn a_logarithmic_axis_is_labelled_evenly() {
        let axis = logarithmic((0.09, 11.0));
        assert_eq!(axis.bold_points(), [0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0]);
        assert_eq!(logarithmic((0.5, 2e6)).bold_points().len(), 7, "decades alone");
        assert_eq!(logarithmic((3.5, 4.5)).bold_points(), [4.0], "whatever there is");
    }
}
