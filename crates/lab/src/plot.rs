//! Pictures of an outcome, as SVG.
//!
//! Legends stand beside the data, never over them. Arms are told apart by colour and by marker, so
//! that a picture printed in grey can be read.

use std::error::Error;

use plotters::{
    coord::ranged1d::{AsRangedCoord, Ranged, ValueFormatter},
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

/// A line of a picture.
struct Line {
    name: String,
    /// x, y, and the ends of the interval around y.
    points: Vec<(f64, f64, f64, f64)>,
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
/// # Errors
///
/// In words, if the drawing library fails.
pub fn draw(experiment: &Experiment, plot: &Plot, outcome: &Outcome) -> Result<String, String> {
    let picture = Picture::new(experiment, plot, outcome);
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, (WIDTH, HEIGHT)).into_drawing_area();
        picture.draw(&root).map_err(|error| format!("plot {}: {error}", plot.title))?;
    }
    Ok(svg)
}

impl<'p> Picture<'p> {
    fn new(experiment: &Experiment, plot: &'p Plot, outcome: &Outcome) -> Self {
        let shown = |arm: &usize| !plot.without.contains(&outcome.arms[*arm]);
        let arms: Vec<usize> = (0..outcome.arms.len()).filter(shown).collect();
        let mut lines: Vec<Line> = arms
            .iter()
            .map(|arm| Line {
                name: outcome.arms[*arm].clone(),
                points: points(plot, outcome, *arm, &plot.metric),
                dashed: false,
            })
            .collect();
        if let Some(against) = &plot.against {
            lines.extend(against_lines(plot, outcome, &arms, against));
        }
        lines.retain(|line| !line.points.is_empty());
        let x_label = match (plot.over, &experiment.subject) {
            (Over::Time { .. }, _) => "time (s)",
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
            (true, false) => self.chart(&chart, (x.0..x.1).log_scale(), y.0..y.1)?,
            (false, true) => self.chart(&chart, x.0..x.1, (y.0..y.1).log_scale())?,
            (true, true) => self.chart(&chart, (x.0..x.1).log_scale(), (y.0..y.1).log_scale())?,
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
        for (position, line) in self.lines.iter().enumerate() {
            let colour = colour(position);
            // Beyond the frame is drawn at its edge, so that a line that leaves it is seen to.
            let inside = |y: f64| y.min(y_top);
            let path = line.points.iter().map(|(x, y, ..)| (*x, inside(*y)));
            if line.dashed {
                let style = BLACK.mix(0.6).stroke_width(2);
                chart.draw_series(DashedLineSeries::new(path, 6, 5, style))?;
                continue;
            }
            chart.draw_series(LineSeries::new(path, colour.stroke_width(2)))?;
            if line.points.len() > 60 {
                continue;
            }
            for (x, y, low, high) in &line.points {
                let (low, high) = (inside(*low), inside(*high));
                if high > low && low.is_finite() {
                    chart.draw_series([PathElement::new(
                        vec![(*x, low), (*x, high)],
                        colour.stroke_width(1),
                    )])?;
                }
                chart.draw_series([EmptyElement::at((*x, inside(*y))) + marker(position, (0, 0), colour)])?;
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
            let colour = colour(position);
            if line.dashed {
                let style = BLACK.mix(0.6).stroke_width(2);
                area.draw(&PathElement::new(vec![(8, y), (18, y)], style))?;
                area.draw(&PathElement::new(vec![(24, y), (34, y)], style))?;
            } else {
                area.draw(&PathElement::new(vec![(8, y), (34, y)], colour.stroke_width(2)))?;
                area.draw(&(EmptyElement::at((21, y)) + marker(position, (0, 0), colour)))?;
            }
            let style = ("sans-serif", 13).into_font().color(&BLACK);
            area.draw(&Text::new(line.name.clone(), (42, y - 7), style))?;
        }
        Ok(())
    }

    fn x_range(&self) -> (f64, f64) {
        let xs = self.lines.iter().flat_map(|line| line.points.iter().map(|(x, ..)| *x));
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
        let ys = self.lines.iter().flat_map(|line| line.points.iter().map(|(_, y, ..)| *y));
        let (low, high) = extremes(ys.filter(|y| !self.log_y || *y > 0.0)).unwrap_or((0.0, 1.0));
        let high = self.y_max.unwrap_or(if self.log_y { high * 1.3 } else { high * 1.08 });
        let (low, high) =
            if self.log_y { (low / 1.3, high.max(low * 2.0)) } else { (low.min(0.0), high.max(low + 1e-9)) };
        (self.y_min.unwrap_or(low), high)
    }
}

fn points(plot: &Plot, outcome: &Outcome, arm: usize, metric: &str) -> Vec<(f64, f64, f64, f64)> {
    match plot.over {
        Over::Load => (0..outcome.loads.len())
            .filter_map(|load| {
                let found = outcome.estimate(arm, load, metric)?;
                let drawn = found.value.is_finite() && (!plot.log_y || found.value > 0.0);
                drawn.then_some((outcome.loads[load], found.value, found.low, found.high))
            })
            .collect(),
        Over::Time { load } => {
            let span = crate::experiment::Span { from: load, to: load };
            let Some(load) = outcome.loads_in(span).next() else { return Vec::new() };
            let series = outcome.mean_series(arm, load, metric);
            let mut second = 0.0;
            series
                .into_iter()
                .filter_map(|y| {
                    second += 1.0;
                    (y.is_finite() && (!plot.log_y || y > 0.0)).then_some((second, y, y, y))
                })
                .collect()
        }
    }
}

/// Lines for comparison: one if all arms agree, as they do on what is offered; else one for each arm.
fn against_lines(plot: &Plot, outcome: &Outcome, arms: &[usize], metric: &str) -> Vec<Line> {
    let label = metrics::find(metric).map_or(metric, |(_, metric)| metric.label);
    let all: Vec<Vec<(f64, f64, f64, f64)>> = arms
        .iter()
        .map(|arm| points(plot, outcome, *arm, metric))
        .filter(|points| !points.is_empty())
        .collect();
    let Some(first) = all.first() else { return Vec::new() };
    let near = |other: &Vec<(f64, f64, f64, f64)>| {
        other.len() == first.len()
            && other.iter().zip(first).all(|(a, b)| (a.1 - b.1).abs() <= 0.05 * b.1.abs())
    };
    let shown = if all.iter().all(near) { 1 } else { all.len() };
    all.into_iter().take(shown).map(|points| Line { name: label.to_owned(), points, dashed: true }).collect()
}

fn colour(position: usize) -> RGBColor {
    COLOURS[position % COLOURS.len()]
}

/// Six forms in turn; with the colours no two of the first twelve lines are alike.
fn marker(position: usize, at: (i32, i32), colour: RGBColor) -> Polygon<(i32, i32)> {
    let corners: &[(i32, i32)] = match position % 6 {
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
