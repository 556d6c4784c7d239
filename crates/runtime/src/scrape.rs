//! Everything measured, read once so that its series belong together: what metrics show, in whatever format.

use tidegate_control::{
    Timestamp,
    meters::{Distribution, Meter, MeterKind, bucket_bounds},
};

use crate::{HostSample, Readings, Served, Shared};

/// One reading of every meter of every subject.
#[derive(Debug)]
pub struct Scrape {
    at: Timestamp,
    series: Vec<Series>,
    certificates: Vec<Certificate>,
    /// What a distribution is before anything was recorded.
    none: Distribution,
}

#[derive(Debug)]
struct Series {
    served: Served,
    readings: Option<Readings>,
}

#[derive(Debug)]
struct Certificate {
    labels: [(&'static str, String); 1],
    seconds_left: u64,
}

/// One series of a meter: whose it is, and what was read.
#[derive(Clone, Copy, Debug)]
pub struct Sample<'a> {
    /// What names its subject.
    pub subject: &'a [(&'static str, String)],
    /// Where on the meter's own dimension it lies, if the meter is split.
    pub label: Option<(&'static str, &'static str)>,
    /// The value.
    pub value: Reading<'a>,
}

/// The value of one series.
#[derive(Clone, Copy, Debug)]
pub enum Reading<'a> {
    /// Events counted since the process began.
    Count(u64),
    /// Nanoseconds that the system has counted since a beginning of its own.
    Told(u64),
    /// A level now.
    Level(u64),
    /// A distribution of nanoseconds since the process began.
    Distribution(&'a Distribution),
}

impl Scrape {
    /// Upper bounds of histograms in seconds; the archives keep finer ones.
    pub const BOUNDS: &'static [f64] =
        &[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0];

    /// Reads them now.
    #[must_use]
    pub fn read(shared: &Shared) -> Self {
        let totals = shared.totals().read();
        let series = shared
            .served(&HostSample::read())
            .into_iter()
            .map(|served| Series { readings: totals.get(&served.subject).cloned(), served })
            .collect();
        let at = shared.clock().now();
        let certificates = shared.certificates().into_iter().map(|certificate| Certificate {
            labels: [("file", certificate.file)],
            seconds_left: certificate.at.since(at).as_secs(),
        });
        Self { at, series, certificates: certificates.collect(), none: Distribution::default() }
    }

    /// When they were read.
    #[must_use]
    pub const fn at(&self) -> Timestamp {
        self.at
    }

    /// The series of a meter. What the host does not tell, or a subject does not have, has none; each file of certificates
    /// has one of its own.
    pub fn samples(&self, meter: Meter) -> impl Iterator<Item = Sample<'_>> {
        let of_files = meter == Meter::CERTIFICATE_SECONDS_LEFT;
        let of_scope = move |series: &&Series| !of_files && series.served.subject.scope() == meter.scope();
        let certificates = self.certificates.iter().filter(move |_| of_files).map(|certificate| Sample {
            subject: &certificate.labels,
            label: None,
            value: Reading::Level(certificate.seconds_left),
        });
        let series = self.series.iter().filter(of_scope);
        series.flat_map(move |series| series.samples(meter, &self.none)).chain(certificates)
    }
}

impl Series {
    fn samples<'a>(&'a self, meter: Meter, none: &'a Distribution) -> Vec<Sample<'a>> {
        let sample = |value| Sample { subject: &self.served.labels, label: None, value };
        let count = |index| self.readings.as_ref().map_or(0, |readings| readings.counts(meter)[index]);
        match meter.kind() {
            MeterKind::Count if Served::TOLD.contains(&meter) => {
                self.served.told(meter).map(|nanos| sample(Reading::Told(nanos))).into_iter().collect()
            }
            MeterKind::Count if meter.labels().is_empty() => vec![sample(Reading::Count(count(0)))],
            MeterKind::Count => {
                let labels = meter.labels().iter().enumerate();
                let labelled = |(index, label): (usize, &&'static str)| Sample {
                    label: Some((meter.label(), *label)),
                    ..sample(Reading::Count(count(index)))
                };
                labels.map(labelled).collect()
            }
            MeterKind::Level => {
                let level = self.served.levels.iter().find(|(other, _)| *other == meter);
                level.map(|(_, level)| sample(Reading::Level(*level))).into_iter().collect()
            }
            MeterKind::Distribution => {
                let distribution =
                    self.readings.as_ref().map_or(none, |readings| readings.distribution(meter));
                vec![sample(Reading::Distribution(distribution))]
            }
        }
    }
}

impl<'a> Sample<'a> {
    /// What tells the series from the meter's others.
    pub fn labels(&self) -> impl Iterator<Item = (&'static str, &'a str)> {
        self.subject.iter().map(|(name, value)| (*name, value.as_str())).chain(self.label)
    }
}

/// Seconds of a count of nanoseconds.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "nanoseconds shown in seconds")]
pub const fn seconds(nanos: u128) -> f64 {
    nanos as f64 / 1e9
}

/// Counts by [`Scrape::BOUNDS`], the last for everything above. A bucket counts where its middle lies.
#[must_use]
pub fn histogram(distribution: &Distribution) -> [u64; Scrape::BOUNDS.len() + 1] {
    let mut counts = [0; Scrape::BOUNDS.len() + 1];
    for (bucket, n) in distribution.buckets() {
        let (low, high) = bucket_bounds(bucket);
        let middle = seconds(u128::from(u64::midpoint(low, high)));
        counts[Scrape::BOUNDS.partition_point(|bound| *bound < middle)] += n;
    }
    counts
}
