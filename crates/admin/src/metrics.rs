//! `/metrics`: the table of meters as OpenMetrics text.

use std::fmt;

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet, text},
    metrics::MetricType,
    registry::{Registry, Unit as PrometheusUnit},
};
use tidegate_control::{
    knobs::Scope,
    meters::{Distribution, Meter, MeterKind, Unit, bucket_bounds},
};
use tidegate_runtime::{HostSample, Readings, Served, Shared};

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Upper bounds of the histograms in seconds; the archives keep finer ones.
const BOUNDS: &[f64] =
    &[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0];

/// Every meter of every subject as `accept` wants it, and its content type: OpenMetrics, or the older text
/// format of Prometheus for who asks for that only.
pub(crate) fn answer(shared: &Shared, accept: Option<&str>) -> (&'static str, String) {
    let page = render(shared);
    let accepts = |name: &str| accept.is_some_and(|accept| accept.contains(name));
    if accepts("text/plain") && !accepts("application/openmetrics-text") && !accepts("*/*") {
        return (PROMETHEUS, in_text_format(&page));
    }
    (OPEN_METRICS, page)
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
    registry.register_collector(Box::new(Scrape::new(shared)));
    let mut page = String::new();
    // Writing to a String does not fail; what it holds is the page either way.
    let _ = text::encode(&mut page, &registry);
    page
}

/// Everything a scrape shows, read once so that its series belong together.
#[derive(Debug)]
struct Scrape {
    series: Vec<Series>,
}

#[derive(Debug)]
struct Series {
    served: Served,
    readings: Option<Readings>,
}

impl Scrape {
    fn new(shared: &Shared) -> Self {
        let totals = shared.totals().read();
        let series = shared
            .served(&HostSample::read())
            .into_iter()
            .map(|served| Series { readings: totals.get(&served.subject).cloned(), served })
            .collect();
        Self { series }
    }
}

impl Collector for Scrape {
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
            for series in self.series.iter().filter(|series| series.served.subject.scope() == meter.scope()) {
                series.encode(meter, &mut family)?;
            }
        }
        Ok(())
    }
}

impl Series {
    fn encode(&self, meter: Meter, family: &mut MetricEncoder<'_>) -> Result<(), fmt::Error> {
        let labels: Vec<(&str, &str)> =
            self.served.labels.iter().map(|(name, value)| (*name, value.as_str())).collect();
        match meter.kind() {
            MeterKind::Count if Served::TOLD.contains(&meter) => match self.served.told(meter) {
                #[expect(clippy::cast_precision_loss, reason = "nanoseconds shown in seconds")]
                Some(nanos) => family
                    .encode_family(&labels)?
                    .encode_counter::<NoLabelSet, f64, f64>(&(nanos as f64 / 1e9), None),
                None => Ok(()),
            },
            MeterKind::Count if meter.labels().is_empty() => {
                let count = self.readings.as_ref().map_or(0, |readings| readings.counts(meter)[0]);
                family.encode_family(&labels)?.encode_counter::<NoLabelSet, u64, f64>(&count, None)
            }
            MeterKind::Count => {
                for (index, label) in meter.labels().iter().enumerate() {
                    let count = self.readings.as_ref().map_or(0, |readings| readings.counts(meter)[index]);
                    let labels: Vec<_> = labels.iter().copied().chain([(meter.label(), *label)]).collect();
                    family.encode_family(&labels)?.encode_counter::<NoLabelSet, u64, f64>(&count, None)?;
                }
                Ok(())
            }
            MeterKind::Level => match self.served.levels.iter().find(|(other, _)| *other == meter) {
                Some((_, level)) => {
                    let level = i64::try_from(*level).unwrap_or(i64::MAX);
                    family.encode_family(&labels)?.encode_gauge(&level)
                }
                None => Ok(()),
            },
            MeterKind::Distribution => {
                let none = Distribution::default();
                let distribution =
                    self.readings.as_ref().map_or(&none, |readings| readings.distribution(meter));
                #[expect(clippy::cast_precision_loss, reason = "a sum of nanoseconds shown in seconds")]
                let sum = distribution.sum_nanos() as f64 / 1e9;
                let buckets = histogram(distribution);
                family.encode_family(&labels)?.encode_histogram::<NoLabelSet>(
                    sum,
                    distribution.count(),
                    &buckets,
                    None,
                )
            }
        }
    }
}

/// Counts by [`BOUNDS`], the last for everything above. A bucket counts where its middle lies.
fn histogram(distribution: &Distribution) -> Vec<(f64, u64)> {
    let mut counts: Vec<(f64, u64)> =
        BOUNDS.iter().copied().chain([f64::INFINITY]).map(|bound| (bound, 0)).collect();
    for (bucket, n) in distribution.buckets() {
        let (low, high) = bucket_bounds(bucket);
        #[expect(clippy::cast_precision_loss, reason = "nanoseconds shown in seconds")]
        let middle = u64::midpoint(low, high) as f64 / 1e9;
        let position = BOUNDS.partition_point(|bound| *bound < middle);
        counts[position].1 += n;
    }
    counts
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
}
