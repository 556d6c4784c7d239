//! Metrics: the table of meters in OTLP's data model.

use opentelemetry_proto::tonic::{
    collector::metrics::v1::ExportMetricsServiceRequest,
    common::v1::KeyValue,
    metrics::v1::{
        AggregationTemporality, Gauge, Histogram, HistogramDataPoint, Metric, NumberDataPoint,
        ResourceMetrics, ScopeMetrics, Sum, metric::Data, number_data_point::Value,
    },
    resource::v1::Resource,
};
use tidegate_control::{
    Timestamp,
    knobs::Scope,
    meters::{Meter, MeterKind, Unit},
};
use tidegate_runtime::{Reading, Sample, Scrape, histogram, seconds};

use crate::attributes::{SCHEMA, scope, text};

/// The message that brings a scrape to the collector. Counts have been counted since `started`.
pub(crate) fn request(
    scrape: &Scrape,
    resource: Resource,
    started: Timestamp,
) -> ExportMetricsServiceRequest {
    let times = Times { started: started.as_nanos(), at: scrape.at().as_nanos() };
    let metrics = Meter::ALL.iter().filter_map(|meter| metric(*meter, scrape.samples(*meter), times));
    let of_scope =
        ScopeMetrics { scope: Some(scope()), metrics: metrics.collect(), schema_url: SCHEMA.to_owned() };
    ExportMetricsServiceRequest {
        resource_metrics: vec![ResourceMetrics {
            resource: Some(resource),
            scope_metrics: vec![of_scope],
            schema_url: SCHEMA.to_owned(),
        }],
    }
}

/// From when to when, nanoseconds since 1970.
#[derive(Clone, Copy)]
struct Times {
    started: u64,
    at: u64,
}

/// A meter with its series; `None` without any.
fn metric<'a>(meter: Meter, samples: impl Iterator<Item = Sample<'a>>, times: Times) -> Option<Metric> {
    let cumulative = AggregationTemporality::Cumulative.into();
    let data = match meter.kind() {
        MeterKind::Distribution => Data::Histogram(Histogram {
            data_points: samples.filter_map(|sample| distribution_point(&sample, times)).collect(),
            aggregation_temporality: cumulative,
        }),
        MeterKind::Level => {
            Data::Gauge(Gauge { data_points: samples.map(|sample| point(&sample, times)).collect() })
        }
        MeterKind::Count => Data::Sum(Sum {
            data_points: samples.map(|sample| point(&sample, times)).collect(),
            aggregation_temporality: cumulative,
            is_monotonic: true,
        }),
    };
    let is_empty = match &data {
        Data::Gauge(gauge) => gauge.data_points.is_empty(),
        Data::Sum(sum) => sum.data_points.is_empty(),
        Data::Histogram(histogram) => histogram.data_points.is_empty(),
        Data::ExponentialHistogram(_) | Data::Summary(_) => true,
    };
    (!is_empty).then(|| Metric {
        name: name(meter),
        description: meter.doc().to_owned(),
        unit: unit(meter.unit()).to_owned(),
        metadata: Vec::new(),
        data: Some(data),
    })
}

/// The name that becomes that of `/metrics` where dots become underlines and units are added.
fn name(meter: Meter) -> String {
    match meter.scope() {
        Scope::Host => format!("tidegate.{}", meter.name()),
        scope => format!("tidegate.{}.{}", scope.name(), meter.name()),
    }
}

/// The unit in UCUM's case-sensitive form.
const fn unit(unit: Unit) -> &'static str {
    match unit {
        Unit::None => "",
        Unit::Seconds => "s",
        Unit::Bytes => "By",
        Unit::Weight => "{weight}",
    }
}

fn attributes(sample: &Sample<'_>) -> Vec<KeyValue> {
    sample.labels().map(|(name, value)| text(name, value)).collect()
}

fn point(sample: &Sample<'_>, times: Times) -> NumberDataPoint {
    let whole = |number: u64| Value::AsInt(i64::try_from(number).unwrap_or(i64::MAX));
    let (value, start) = match sample.value {
        Reading::Count(count) => (whole(count), times.started),
        // What the system counts began before us, nobody knows when.
        Reading::Told(nanos) => (Value::AsDouble(seconds(u128::from(nanos))), 0),
        Reading::Level(level) => (whole(level), 0),
        Reading::Distribution(distribution) => (whole(distribution.count()), times.started),
    };
    NumberDataPoint {
        attributes: attributes(sample),
        start_time_unix_nano: start,
        time_unix_nano: times.at,
        value: Some(value),
        ..NumberDataPoint::default()
    }
}

fn distribution_point(sample: &Sample<'_>, times: Times) -> Option<HistogramDataPoint> {
    let Reading::Distribution(distribution) = sample.value else { return None };
    Some(HistogramDataPoint {
        attributes: attributes(sample),
        start_time_unix_nano: times.started,
        time_unix_nano: times.at,
        count: distribution.count(),
        sum: Some(seconds(distribution.sum_nanos())),
        bucket_counts: histogram(distribution).to_vec(),
        explicit_bounds: Scrape::BOUNDS.to_vec(),
        ..HistogramDataPoint::default()
    })
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, path::Path};

    use tidegate_control::meters::Distribution;
    use tidegate_runtime::Shared;

    use super::*;

    const TIMES: Times = Times { started: 5, at: 9 };

    /// What OpenTelemetry allows as an instrument's name.
    fn is_valid(name: &str) -> bool {
        name.len() <= 255
            && name.starts_with(|first: char| first.is_ascii_alphabetic())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || "_.-/".contains(c))
    }

    #[test]
    fn every_meter_has_its_kind_a_valid_name_and_its_attributes() {
        let mut distribution = Distribution::default();
        distribution.record(30_000_000, 2);
        let subject = [("application", "shop".to_owned()), ("class", "home".to_owned())];
        let mut names = BTreeSet::new();
        for meter in Meter::ALL.iter().copied() {
            let value = match meter.kind() {
                MeterKind::Count => Reading::Count(7),
                MeterKind::Level => Reading::Level(3),
                MeterKind::Distribution => Reading::Distribution(&distribution),
            };
            let label = meter.labels().first().map(|label| (meter.label(), *label));
            let sample = Sample { subject: &subject, label, value };
            let metric = metric(meter, [sample].into_iter(), TIMES).expect("a metric");
            assert!(is_valid(&metric.name), "{}", metric.name);
            assert!(names.insert(metric.name.clone()), "{} stands twice", metric.name);
            assert_eq!(metric.description, meter.doc());
            let attributes = match metric.data.expect("data") {
                Data::Sum(sum) => {
                    assert_eq!(meter.kind(), MeterKind::Count);
                    assert!(sum.is_monotonic);
                    assert_eq!(sum.aggregation_temporality, AggregationTemporality::Cumulative as i32);
                    let point = sum.data_points[0].clone();
                    assert_eq!(point.value, Some(Value::AsInt(7)));
                    assert_eq!((point.start_time_unix_nano, point.time_unix_nano), (5, 9));
                    point.attributes
                }
                Data::Gauge(gauge) => {
                    assert_eq!(meter.kind(), MeterKind::Level);
                    let point = gauge.data_points[0].clone();
                    assert_eq!((point.value, point.time_unix_nano), (Some(Value::AsInt(3)), 9));
                    point.attributes
                }
                Data::Histogram(histogram) => {
                    assert_eq!(meter.kind(), MeterKind::Distribution);
                    let point = histogram.data_points[0].clone();
                    assert_eq!((point.count, point.sum), (2, Some(0.06)));
                    assert_eq!(point.bucket_counts.len(), point.explicit_bounds.len() + 1);
                    // Two values of 30 ms lie between 25 and 50 ms.
                    assert_eq!(point.bucket_counts[5], 2, "{:?}", point.bucket_counts);
                    assert_eq!(point.bucket_counts.iter().sum::<u64>(), 2);
                    point.attributes
                }
                other => panic!("{}: {other:?}", metric.name),
            };
            let mut expected = vec![text("application", "shop"), text("class", "home")];
            expected.extend(label.map(|(name, value)| text(name, value)));
            assert_eq!(attributes, expected, "{}", metric.name);
        }
    }

    #[test]
    fn names_and_units_are_those_of_metrics() {
        let of = |meter| (name(meter), unit(Meter::unit(meter)));
        assert_eq!(of(Meter::CONNECTIONS_OPEN), ("tidegate.connections_open".to_owned(), ""));
        assert_eq!(of(Meter::ARRIVED), ("tidegate.class.arrived".to_owned(), ""));
        assert_eq!(of(Meter::WAITING_TIME), ("tidegate.class.waiting_time".to_owned(), "s"));
        assert_eq!(of(Meter::BYTES_OUT), ("tidegate.class.bytes_out".to_owned(), "By"));
        assert_eq!(of(Meter::IN_FLIGHT), ("tidegate.application.in_flight".to_owned(), "{weight}"));
        assert_eq!(of(Meter::SERVER_UP), ("tidegate.server.up".to_owned(), ""));
    }

    #[test]
    fn a_scrape_becomes_one_resource_with_the_series_there_are() {
        let text = "[[listener]]\naddress = \"127.0.0.1:8080\"\n[application.shop]\n\
                    servers = [\"http://127.0.0.1:8000\"]\n[application.shop.class.home]\n";
        let settings = tidegate_config::parse(text, Path::new("/"), "test").unwrap();
        let shared = Shared::new(settings).unwrap();
        let started = shared.clock().now();
        let message = request(&Scrape::read(&shared), Resource::default(), started);
        let metrics = &message.resource_metrics[0].scope_metrics[0].metrics;
        let find = |name: &str| metrics.iter().find(|metric| metric.name == name);
        let Some(Data::Sum(refused)) = find("tidegate.class.refused").and_then(|m| m.data.clone()) else {
            panic!("{metrics:?}")
        };
        // Two classes, each with every reason.
        assert_eq!(refused.data_points.len(), 2 * Meter::REFUSED.labels().len());
        assert!(refused.data_points.iter().all(|point| point.start_time_unix_nano == started.as_nanos()));
        // No waiting room, so nothing is said of one.
        assert!(find("tidegate.application.room_waiting").is_none());
        // Processor time began before we did.
        let Some(Data::Sum(cpu)) = find("tidegate.gateway_cpu").and_then(|m| m.data.clone()) else {
            panic!("{metrics:?}")
        };
        assert_eq!(cpu.data_points[0].start_time_unix_nano, 0);
    }
}
