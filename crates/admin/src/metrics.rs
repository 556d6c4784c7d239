//! `/metrics`: the table of meters as OpenMetrics text, or in the older format of Prometheus.

use std::fmt;

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet, text},
    metrics::MetricType,
    registry::{Registry, Unit as PrometheusUnit},
};
use tidegate_control::{
    knobs::Scope,
    meters::{Meter, MeterKind, Unit},
};
use tidegate_runtime::{Reading, Sample, Scrape, Shared, histogram, seconds};

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Every meter of every subject as `accept` wants it, and its content type: OpenMetrics for who asks for that, as Prometheus
/// does, else its older text format, which everybody reads.
pub(crate) fn answer(shared: &Shared, accept: Option<&str>) -> (&'static str, String) {
    let page = render(shared);
    if accept.is_some_and(takes_open_metrics) {
        return (OPEN_METRICS, page);
    }
    (PROMETHEUS, in_text_format(&page))
}

/// Whether it is among what is asked for, with a quality other than none (RFC 9110, section 12.4.2).
fn takes_open_metrics(accept: &str) -> bool {
    accept.split(',').any(|range| {
        let mut parts = range.split(';').map(str::trim);
        let is_it =
            parts.next().is_some_and(|media| media.eq_ignore_ascii_case("application/openmetrics-text"));
        let quality =
            parts.filter_map(|part| part.split_once('=')).find(|(name, _)| name.eq_ignore_ascii_case("q"));
        is_it && quality.is_none_or(|(_, quality)| quality.parse() != Ok(0.0))
    })
}

/// OpenMetrics in the older format, in which a counter's family has the name of its series.
fn in_text_format(page: &str) -> String {
    let mut text = String::with_capacity(page.len());
    let mut family = Vec::new();
    for line in page.lines() {
        if ["# TYPE ", "# UNIT "].iter().any(|word| line.starts_with(word)) {
            family.push(line);
            continue;
        }
        // A family begins with its help, and one may have no series.
        head_of(&mut text, &family);
        family.clear();
        if line.starts_with("# HELP ") {
            family.push(line);
        } else if line != "# EOF" {
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}

/// Help and type of a family; the older format has no units.
fn head_of(text: &mut String, lines: &[&str]) {
    let is_counter = lines.iter().any(|line| line.starts_with("# TYPE ") && line.ends_with(" counter"));
    for line in lines.iter().filter(|line| !line.starts_with("# UNIT ")) {
        let mut words = line.splitn(4, ' ');
        let (hash, word, name) = (words.next(), words.next(), words.next());
        for part in [hash, word, name].into_iter().flatten() {
            text.push_str(part);
            if is_counter && Some(part) == name {
                text.push_str("_total");
            }
            text.push(' ');
        }
        text.push_str(words.next().unwrap_or_default());
        text.push('\n');
    }
}

fn render(shared: &Shared) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Page(Scrape::read(shared))));
    let mut page = String::new();
    // Writing to a String does not fail; what it holds is the page either way.
    let _ = text::encode(&mut page, &registry);
    page
}

/// Everything a scrape shows.
#[derive(Debug)]
struct Page(Scrape);

impl Collector for Page {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        for meter in Meter::ALL.iter().copied() {
            let kind = match meter.kind() {
                MeterKind::Count => MetricType::Counter,
                MeterKind::Level => MetricType::Gauge,
                MeterKind::Distribution => MetricType::Histogram,
            };
            let unit = match meter.unit() {
                Unit::None => None,
                unit => Some(PrometheusUnit::Other(unit.name().to_owned())),
            };
            let name = match meter.scope() {
                Scope::Host => format!("tidegate_{}", meter.name()),
                scope => format!("tidegate_{}_{}", scope.name(), meter.name()),
            };
            let mut family =
                encoder.encode_descriptor(&name, meter.doc().trim_end_matches('.'), unit.as_ref(), kind)?;
            for sample in self.0.samples(meter) {
                encode(&sample, &mut family)?;
            }
        }
        Ok(())
    }
}

fn encode(sample: &Sample<'_>, family: &mut MetricEncoder<'_>) -> Result<(), fmt::Error> {
    let labels: Vec<(&str, &str)> = sample.labels().collect();
    let mut series = family.encode_family(&labels)?;
    match sample.value {
        Reading::Count(count) => series.encode_counter::<NoLabelSet, u64, f64>(&count, None),
        Reading::Told(nanos) => {
            series.encode_counter::<NoLabelSet, f64, f64>(&seconds(u128::from(nanos)), None)
        }
        Reading::Level(level) => series.encode_gauge(&i64::try_from(level).unwrap_or(i64::MAX)),
        Reading::Distribution(distribution) => {
            let bounds = Scrape::BOUNDS.iter().copied().chain([f64::INFINITY]);
            let buckets: Vec<(f64, u64)> = bounds.zip(histogram(distribution)).collect();
            let (sum, count) = (seconds(distribution.sum_nanos()), distribution.count());
            series.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_older_format_names_counters_by_their_series() {
        let page = "# HELP a_b What: it counts.\n# TYPE a_b counter\na_b_total{x=\"y\"} 3\n# HELP c Bytes.\n# TYPE c gauge\n\
                    # UNIT c bytes\nc 1\n# HELP d Nothing yet.\n# TYPE d counter\n# EOF\n";
        assert_eq!(
            in_text_format(page),
            "# HELP a_b_total What: it counts.\n# TYPE a_b_total counter\na_b_total{x=\"y\"} 3\n# HELP c Bytes.\n\
             # TYPE c gauge\nc 1\n# HELP d_total Nothing yet.\n# TYPE d_total counter\n"
        );
    }

    #[test]
    fn open_metrics_are_for_who_asks_for_them() {
        for (accept, wanted) in [
            ("application/openmetrics-text;version=1.0.0;q=0.5,text/plain;q=0.3", true),
            ("text/plain, Application/OpenMetrics-Text", true),
            ("application/openmetrics-text; q=0, */*", false),
            ("application/openmetrics-text;version=1.0.0; Q=0.000", false),
            ("application/openmetrics-textual", false),
            ("*/*", false),
            ("", false),
        ] {
            assert_eq!(takes_open_metrics(accept), wanted, "{accept}");
        }
    }
}
