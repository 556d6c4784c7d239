//! Pictures of a report, as SVG: legends beside the data, colours that colour-blind readers tell apart.

use std::error::Error;

use plotters::{
    coord::{
        Shift,
        ranged1d::{AsRangedCoord, Ranged, ValueFormatter},
    },
    prelude::*,
};

const WIDTH: u32 = 960;
const HEIGHT: u32 = 340;
const LEGEND: u32 = 180;
/// More points than this are not told apart at this width.
const POINTS_MAX: usize = 1_500;
/// After Okabe and Ito.
pub(super) const BLUE: RGBColor = RGBColor(0, 114, 178);
pub(super) const RED: RGBColor = RGBColor(213, 94, 0);
pub(super) const GREEN: RGBColor = RGBColor(0, 158, 115);
pub(super) const PINK: RGBColor = RGBColor(204, 121, 167);
pub(super) const BROWN: RGBColor = RGBColor(120, 94, 10);
pub(super) const GREY: RGBColor = RGBColor(110, 110, 110);
/// For lines that have no colour of their own.
pub(super) const COLOURS: [RGBColor; 6] = [BLUE, RED, GREEN, PINK, BROWN, GREY];

/// Some lines over one x axis.
pub(super) struct Picture<'a> {
    pub(super) x_label: &'a str,
    pub(super) y_label: &'a str,
    pub(super) log_y: bool,
    pub(super) x_text: fn(f64) -> String,
    /// About so many numbers on the x axis.
    pub(super) x_labels: usize,
    pub(super) lines: Vec<Line>,
}

/// One line; it has gaps where a `None` is.
pub(super) struct Line {
    pub(super) name: String,
    pub(super) colour: RGBColor,
    pub(super) points: Vec<(f64, Option<f64>)>,
}

impl Line {
    /// One value a second, thinned by taking the mean of neighbours.
    pub(super) fn rate(name: &str, colour: RGBColor, counts: &[u64]) -> Self {
        let values = counts.iter().map(|count| Some(*count as f64));
        Self::over_time(name, colour, values, |some| some.iter().sum::<f64>() / some.len() as f64)
    }

    /// One percentile a second, thinned by taking the highest of neighbours.
    pub(super) fn percentile(name: &str, colour: RGBColor, values: &[Option<f64>]) -> Self {
        Self::over_time(name, colour, values.iter().copied(), |some| some.iter().copied().fold(0.0, f64::max))
    }

    fn over_time(
        name: &str,
        colour: RGBColor,
        values: impl Iterator<Item = Option<f64>>,
        join: fn(&[f64]) -> f64,
    ) -> Self {
        let values: Vec<_> = values.collect();
        let step = values.len().div_ceil(POINTS_MAX).max(1);
        let points = values.chunks(step).enumerate().map(|(index, chunk)| {
            let some: Vec<f64> = chunk.iter().copied().flatten().collect();
            ((index * step) as f64, (!some.is_empty()).then(|| join(&some)))
        });
        Self { name: name.to_owned(), colour, points: points.collect() }
    }

    fn values(&self) -> impl Iterator<Item = f64> {
        self.points.iter().filter_map(|(_, y)| *y)
    }
}

impl Picture<'_> {
    /// Draws it; `None` if there is nothing to draw.
    pub(super) fn draw(&self) -> Option<String> {
        let lines: Vec<&Line> = self.lines.iter().filter(|line| line.values().any(|y| y > 0.0)).collect();
        let x_max = lines.iter().flat_map(|line| line.points.last()).map(|(x, _)| *x).fold(1.0, f64::max);
        let y_max = lines.iter().flat_map(|line| line.values()).fold(f64::MIN, f64::max);
        if lines.is_empty() {
            return None;
        }
        let mut svg = String::new();
        let drawn = {
            let root = SVGBackend::with_string(&mut svg, (WIDTH, HEIGHT)).into_drawing_area();
            if self.log_y {
                let least = lines.iter().flat_map(|line| line.values()).filter(|y| *y > 0.0);
                let y_min = least.fold(f64::MAX, f64::min).min(y_max / 10.0);
                let decades = 10f64.powf(y_min.log10().floor())..10f64.powf(y_max.log10().ceil());
                self.draw_on(&root, &lines, 0.0..x_max, decades.log_scale(), y_min)
            } else {
                self.draw_on(&root, &lines, 0.0..x_max, 0.0..y_max * 1.05, 0.0)
            }
        };
        // Drawing into a string fails only if the library does.
        drawn.ok().map(|()| scalable(&svg))
    }

    fn draw_on<X, Y>(
        &self,
        root: &DrawingArea<SVGBackend<'_>, Shift>,
        lines: &[&Line],
        x: X,
        y: Y,
        y_min: f64,
    ) -> Result<(), Box<dyn Error + '_>>
    where
        X: AsRangedCoord<Value = f64>,
        Y: AsRangedCoord<Value = f64>,
        X::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
        Y::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
    {
        let failed = |error: &dyn Error| -> Box<dyn Error> { error.to_string().into() };
        let (chart_area, legend_area) = root.split_horizontally(WIDTH - LEGEND);
        let mut chart = ChartBuilder::on(&chart_area)
            .margin(10)
            .x_label_area_size(44)
            .y_label_area_size(72)
            .build_cartesian_2d(x, y)
            .map_err(|error| failed(&error))?;
        let text = |value: &f64| (self.x_text)(*value);
        chart
            .configure_mesh()
            .x_desc(self.x_label)
            .y_desc(self.y_label)
            .x_labels(self.x_labels)
            .max_light_lines(4)
            .x_label_formatter(&text)
            .y_label_formatter(&|value| short(*value))
            .label_style(("sans-serif", 13))
            .axis_desc_style(("sans-serif", 14))
            .light_line_style(RGBColor(242, 242, 242))
            .bold_line_style(RGBColor(222, 222, 222))
            .axis_style(RGBColor(120, 120, 120))
            .draw()
            .map_err(|error| failed(&error))?;
        for (row, line) in lines.iter().enumerate() {
            let style = line.colour.stroke_width(2);
            for run in line.points.split(|(_, y)| y.is_none()) {
                let run: Vec<_> =
                    run.iter().filter_map(|(x, y)| Some((*x, y.as_ref()?.max(y_min)))).collect();
                if let [(x, y)] = run[..] {
                    let dot = Circle::new((x, y), 2, line.colour.filled());
                    chart.draw_series([dot]).map_err(|error| failed(&error))?;
                } else if !run.is_empty() {
                    chart.draw_series([PathElement::new(run, style)]).map_err(|error| failed(&error))?;
                }
            }
            let y = 24 + 22 * i32::try_from(row).unwrap_or_default();
            let dash = PathElement::new(vec![(4, y), (30, y)], line.colour.stroke_width(3));
            legend_area.draw(&dash).map_err(|error| failed(&error))?;
            let name = Text::new(line.name.clone(), (38, y - 7), ("sans-serif", 14));
            legend_area.draw(&name).map_err(|error| failed(&error))?;
        }
        root.present().map_err(|error| failed(&error))?;
        Ok(())
    }
}

/// Fixed width and height become a view box, so that the page's width decides.
fn scalable(svg: &str) -> String {
    let fixed = format!("width=\"{WIDTH}\" height=\"{HEIGHT}\"");
    svg.replacen(&fixed, "role=\"img\" style=\"width:100%;height:auto\"", 1)
}

/// A number on an axis.
pub(super) fn short(value: f64) -> String {
    let (value, unit) = match value.abs() {
        size if size >= 1e6 => (value / 1e6, " M"),
        size if size >= 1e4 => (value / 1e3, " k"),
        _ => (value, ""),
    };
    let text = if value.abs() >= 100.0 { format!("{value:.0}") } else { format!("{value:.2}") };
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_on_axes_are_short() {
        let texts = [0.0, 0.05, 2.5, 40.0, 100.0, 9999.0, 10_000.0, 12_500.0, 2e6].map(short);
        assert_eq!(texts, ["0", "0.05", "2.5", "40", "100", "9999", "10 k", "12.5 k", "2 M"]);
    }

    #[test]
    fn a_long_run_is_thinned_and_gaps_stay() {
        let line = Line::rate("good", BLUE, &vec![5; 36_000]);
        assert!(line.points.len() <= POINTS_MAX && line.values().all(|y| y == 5.0));
        let mut values = vec![Some(1.0); 3_000];
        values[10] = Some(7.0);
        values[100..110].fill(None);
        let line = Line::percentile("p99", BLUE, &values);
        assert_eq!(line.points.iter().filter(|(_, y)| y.is_none()).count(), 5);
        assert_eq!(line.values().fold(0.0, f64::max), 7.0);
    }

    #[test]
    fn lines_without_a_value_are_left_out() {
        let picture = |counts: &[u64]| Picture {
            x_label: "time (s)",
            y_label: "a second",
            log_y: false,
            x_text: short,
            x_labels: 10,
            lines: vec![Line::rate("refused", RED, counts)],
        };
        assert_eq!(picture(&[0, 0]).draw(), None);
        let svg = picture(&[0, 3]).draw().expect("a picture");
        assert!(svg.starts_with("<svg") && svg.contains("refused") && svg.contains("viewBox"), "{svg}");
    }
}
