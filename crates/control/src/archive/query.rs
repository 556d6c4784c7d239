//! Questions to the archives of one subject, or of several as one: any meter, window, step and statistic.

use std::{fmt, str::FromStr, time::Duration};

use super::{
    cursor::{Cursor, Moment},
    subject::Archive,
    sums::LevelSums,
    track::Track,
};
use crate::{
    Timestamp,
    knobs::Scope,
    meters::{Distribution, Meter, MeterKind, Unit, bucket_bounds},
};

/// Most points of an answer.
pub const ANSWER_POINTS_MAX: usize = 100_000;

/// A question.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Query {
    /// What was measured.
    pub meter: Meter,
    /// Position of one of the meter's labels; `None`: all of them added up.
    pub label: Option<usize>,
    /// Start of the time asked for.
    pub from: Timestamp,
    /// Its end.
    pub to: Timestamp,
    /// Length of the answer's points, which begin at multiples of it; `None`: one point for all.
    pub step: Option<Duration>,
    /// What is asked of each point.
    pub stat: Stat,
    /// For [`Stat::Max`] and [`Stat::Min`]: extremes of means over spans of this length, which begin
    /// at multiples of it. `None`: of single readings, and of single values of a distribution.
    pub of: Option<Duration>,
}

/// A time asked for as a whole.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Window {
    /// Its start.
    pub from: Timestamp,
    /// Its end.
    pub to: Timestamp,
    /// As [`Query::of`].
    pub of: Option<Duration>,
}

/// A statistic.
///
/// | | of a count | of a level | of a distribution |
/// |---|---|---|---|
/// | mean | events per second measured | mean of samples | mean of values |
/// | max, min | extremes of events per second | extremes of samples | largest, smallest value within 5 % |
/// | sum | events | | sum of values |
/// | rate | events per second measured | | values per second measured |
/// | count | events | samples | values |
/// | p0 to p100 | | | percentile within 5 % |
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Stat {
    /// The mean.
    Mean,
    /// The maximum.
    Max,
    /// The minimum.
    Min,
    /// The sum.
    Sum,
    /// Per second measured.
    Rate,
    /// How many.
    Count,
    /// The value below which this share (0 to 1) lies.
    Quantile(f64),
}

/// What the archives know.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// Length of the points in the archive that answered: the finest that reaches back to the
    /// start of the question.
    pub resolution: Duration,
    /// Length of the answer's points: as asked, but at least the resolution and a multiple of it;
    /// the whole time if no step was asked for.
    pub step: Duration,
    /// Length of the spans of whose means maxima and minima are; `None`: of single readings or values.
    pub of: Option<Duration>,
    /// The points, oldest first, without gaps: a time in which nothing was measured has no value.
    pub points: Vec<Point>,
}

/// A point of an answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Its start.
    pub from: Timestamp,
    /// Its end.
    pub to: Timestamp,
    /// Its value, in seconds, bytes, weight units, things, or those per second. `None`: nothing
    /// was measured, or no value came of which there could be a mean, a percentile or an extreme.
    pub value: Option<f64>,
    /// How much of its time was measured.
    pub measured: Duration,
}

/// A question that cannot be answered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QueryFault {
    /// The meter is of another scope.
    #[error("{meter} is no meter of {}: it has {}", scope.one(), names(*scope))]
    Scope {
        /// The meter's name.
        meter: &'static str,
        /// The scope of what was asked.
        scope: Scope,
    },
    /// The meter has no such label.
    #[error("{meter} has no label {label}")]
    Label {
        /// The meter's name.
        meter: &'static str,
        /// The position asked for.
        label: usize,
    },
    /// The statistic says nothing of such a meter.
    #[error("{stat} of {meter}: that is a {kind}, of which there is {}", stats(kind))]
    Stat {
        /// The meter's name.
        meter: &'static str,
        /// The statistic.
        stat: String,
        /// What the meter is.
        kind: &'static str,
    },
    /// The end is not after the start.
    #[error("the time asked for ends before it begins")]
    Window,
    /// A step or span of zero.
    #[error("a step of no length: give one, such as 5s")]
    Step,
    /// More points than are answered.
    #[error("{0} points: at most {ANSWER_POINTS_MAX} are answered; ask for a shorter time or a longer step")]
    Points(usize),
}

impl Archive {
    /// One number for a time; `None` if nothing was measured in it.
    ///
    /// # Errors
    ///
    /// [`QueryFault`].
    pub fn value(&self, meter: Meter, window: Window, stat: Stat) -> Result<Option<f64>, QueryFault> {
        let Window { from, to, of } = window;
        let answer = self.query(&Query { meter, label: None, from, to, step: None, stat, of })?;
        Ok(answer.points.first().and_then(|point| point.value))
    }

    /// Answers a question. The time asked for is widened to whole points.
    ///
    /// # Errors
    ///
    /// [`QueryFault`].
    pub fn query(&self, query: &Query) -> Result<Answer, QueryFault> {
        query_all(self, &[], query)
    }

    /// Which resolution answers: the finest that reaches back to `from`, or as far as any does.
    fn track_for(&self, from: Timestamp) -> usize {
        let tracks = self.tracks();
        let from_us = from.as_nanos() / 1000;
        let reach =
            |track: &Track| track.oldest().map_or(u64::MAX, |slot| slot.saturating_mul(track.step_us()));
        let is_enough = |index: usize, track: &Track| {
            let oldest_us = reach(track);
            oldest_us <= from_us
                || tracks[index + 1..].iter().all(|coarser| {
                    // A coarser point begins earlier by itself; what counts is one before.
                    oldest_us / coarser.step_us() * coarser.step_us() <= reach(coarser)
                })
        };
        tracks.iter().enumerate().position(|(index, track)| is_enough(index, track)).unwrap_or(0)
    }
}

/// Answers a question to several subjects of one layout as if they were one: what they counted and what they hold is
/// added up, and their distributions are merged. Who was not there in a time counted nothing in it.
pub(super) fn query_all(first: &Archive, others: &[&Archive], query: &Query) -> Result<Answer, QueryFault> {
    let all = || std::iter::once(first).chain(others.iter().copied());
    for archive in all() {
        query.check(archive.scope())?;
    }
    // One that is younger may reach back in finer steps, and has the coarser ones as well.
    let index = all().map(|archive| archive.track_for(query.from)).max().unwrap_or(0);
    let (finest, track) = (&first.tracks()[0], &first.tracks()[index]);
    let plan = Plan::new(query, track, !others.is_empty())?;
    let mut groups = Groups::new(query, plan, finest.step_us());
    groups.walk(
        all().map(|archive| Cursor::new(archive, index, query.meter, query.cells(), plan.from_us)).collect(),
    );
    let micros = Duration::from_micros;
    Ok(Answer {
        resolution: micros(track.step_us()),
        step: micros(plan.step_us),
        of: plan.of_us.map(micros),
        points: groups.finish(),
    })
}

impl Query {
    fn check(&self, scope: Scope) -> Result<(), QueryFault> {
        let meter = self.meter.name();
        if self.meter.scope() != scope {
            return Err(QueryFault::Scope { meter, scope });
        }
        if let Some(label) = self.label.filter(|label| *label >= self.meter.labels().len()) {
            return Err(QueryFault::Label { meter, label });
        }
        let is_told = match self.meter.kind() {
            MeterKind::Count => !matches!(self.stat, Stat::Quantile(_)),
            MeterKind::Level => matches!(self.stat, Stat::Mean | Stat::Max | Stat::Min | Stat::Count),
            MeterKind::Distribution => true,
        };
        if !is_told {
            let kind = kind_name(self.meter.kind());
            return Err(QueryFault::Stat { meter, stat: self.stat.to_string(), kind });
        }
        if self.to <= self.from {
            return Err(QueryFault::Window);
        }
        if [self.step, self.of].into_iter().flatten().any(|span| span.as_micros() == 0) {
            return Err(QueryFault::Step);
        }
        Ok(())
    }

    /// Positions of the meter's counts that are asked for.
    const fn cells(&self) -> std::ops::Range<usize> {
        let first = self.meter.offset();
        match self.label {
            Some(label) => first + label..first + label + 1,
            None => first..first + self.meter.cells(),
        }
    }
}

/// The times of an answer.
#[derive(Clone, Copy, Debug)]
struct Plan {
    from_us: u64,
    to_us: u64,
    /// Length of a point; the whole time if no step was asked for.
    step_us: u64,
    /// Length of the spans within a point.
    of_us: Option<u64>,
}

impl Plan {
    fn new(query: &Query, track: &Track, of_several: bool) -> Result<Self, QueryFault> {
        let resolution = track.step_us();
        let whole = |span: Duration| {
            let span = u64::try_from(span.as_micros()).unwrap_or(u64::MAX / 4).min(u64::MAX / 4);
            span.div_ceil(resolution) * resolution
        };
        let is_extreme = matches!(query.stat, Stat::Max | Stat::Min);
        let mut of_us = query.of.filter(|_| is_extreme).map(whole);
        // Extremes of a sum are not those of its parts.
        let is_sum = match query.meter.kind() {
            MeterKind::Count => of_several || query.cells().len() > 1,
            MeterKind::Level => of_several,
            MeterKind::Distribution => false,
        };
        if is_extreme && is_sum && of_us.is_none() {
            of_us = Some(resolution);
        }
        let align = query.step.map_or(resolution, whole);
        let from_us = query.from.as_nanos() / 1000 / align * align;
        let to_us = (query.to.as_nanos() / 1000).div_ceil(align) * align;
        let step_us = if query.step.is_some() { align } else { to_us - from_us };
        let plan = Self { from_us, to_us, step_us, of_us };
        if plan.points() > ANSWER_POINTS_MAX {
            return Err(QueryFault::Points(plan.points()));
        }
        Ok(plan)
    }

    /// Points of the answer.
    fn points(&self) -> usize {
        usize::try_from((self.to_us - self.from_us) / self.step_us).unwrap_or(usize::MAX)
    }

    /// The point in which a time lies.
    fn point(&self, at_us: u64) -> usize {
        usize::try_from((at_us - self.from_us) / self.step_us).unwrap_or(usize::MAX)
    }
}

/// Adds points up to the points of an answer. Points come in order.
struct Groups<'q> {
    query: &'q Query,
    plan: Plan,
    /// Length of the finest resolution's points, to which extremes of counts refer.
    finest_us: u64,
    points: Vec<Point>,
    /// The span that is being added to; the point if there are no spans.
    at_us: Option<u64>,
    group: Group,
    /// The extreme of the means of this point's earlier spans.
    extreme: Option<f64>,
    /// What of this point was measured.
    measured_us: u64,
}

/// Points added up.
#[derive(Debug, Default)]
struct Group {
    measured_us: u64,
    sum: u64,
    /// Extremes of a count in a step of the finest resolution.
    extremes: Option<(u64, u64)>,
    level: LevelSums,
    distribution: Distribution,
}

impl<'q> Groups<'q> {
    fn new(query: &'q Query, plan: Plan, finest_us: u64) -> Self {
        let points = Vec::with_capacity(plan.points());
        let group = Group::default();
        Self { query, plan, finest_us, points, at_us: None, group, extreme: None, measured_us: 0 }
    }

    /// Adds the points of each subject, those of one time together.
    fn walk(&mut self, mut cursors: Vec<Cursor<'_>>) {
        while let Some(at_us) = cursors.iter().filter_map(Cursor::at_us).min() {
            if at_us >= self.plan.to_us {
                return;
            }
            self.reach(at_us);
            let mut moment = Moment::default();
            for cursor in cursors.iter_mut().filter(|cursor| cursor.at_us() == Some(at_us)) {
                cursor.read(&mut moment, &mut self.group.distribution);
            }
            self.measured_us += moment.measured_us;
            self.group.add(&moment, self.query.meter.kind());
        }
    }

    /// Ends the points and spans that are over at `at_us`.
    fn reach(&mut self, at_us: u64) {
        let point = self.plan.point(at_us);
        if self.points.len() < point {
            self.close_point();
            while self.points.len() < point {
                self.push(None);
            }
        }
        if let Some(of_us) = self.plan.of_us {
            let span = at_us / of_us;
            if self.at_us.is_some_and(|at_us| at_us / of_us != span) {
                self.close_span();
            }
        }
        self.at_us = Some(at_us);
    }

    /// Takes the mean of the span into the extreme.
    fn close_span(&mut self) {
        let mean = self.group.value(Stat::Mean, self.query.meter, self.finest_us);
        self.extreme = match (self.extreme, mean) {
            (Some(extreme), Some(mean)) if self.query.stat == Stat::Max => Some(extreme.max(mean)),
            (Some(extreme), Some(mean)) => Some(extreme.min(mean)),
            (extreme, mean) => extreme.or(mean),
        };
        self.group.clear();
    }

    /// Ends the point that is being added to, if there is one.
    fn close_point(&mut self) {
        if self.at_us.take().is_none() {
            return;
        }
        let value = if self.plan.of_us.is_some() {
            self.close_span();
            self.extreme.take()
        } else {
            self.group.value(self.query.stat, self.query.meter, self.finest_us)
        };
        self.group.clear();
        self.push(value);
    }

    fn push(&mut self, value: Option<f64>) {
        let from_us = self.plan.from_us + self.points.len() as u64 * self.plan.step_us;
        self.points.push(Point {
            from: micros(from_us),
            to: micros(from_us + self.plan.step_us),
            value,
            measured: Duration::from_micros(std::mem::take(&mut self.measured_us)),
        });
    }

    fn finish(mut self) -> Vec<Point> {
        self.close_point();
        while self.points.len() < self.plan.points() {
            self.push(None);
        }
        self.points
    }
}

impl Group {
    fn clear(&mut self) {
        self.measured_us = 0;
        self.sum = 0;
        self.extremes = None;
        self.level = LevelSums::default();
        if self.distribution.count() > 0 {
            self.distribution.clear();
        }
    }

    /// Adds what was told of a time; a distribution is here already.
    fn add(&mut self, moment: &Moment, kind: MeterKind) {
        self.measured_us += moment.told_us;
        match kind {
            MeterKind::Count if moment.told_us > 0 => {
                let count = moment.count;
                self.sum = self.sum.saturating_add(count.sum);
                let (min, max) = self.extremes.unwrap_or((count.min, count.max));
                self.extremes = Some((min.min(count.min), max.max(count.max)));
            }
            MeterKind::Level => self.level.add(moment.level),
            MeterKind::Count | MeterKind::Distribution => {}
        }
    }

    fn value(&self, stat: Stat, meter: Meter, finest_us: u64) -> Option<f64> {
        if self.measured_us == 0 {
            return None;
        }
        let measured_s = self.measured_us as f64 / 1e6;
        // Times are recorded in nanoseconds.
        let unit = if meter.unit() == Unit::Seconds { 1e-9 } else { 1.0 };
        match meter.kind() {
            MeterKind::Count => {
                let (min, max) = self.extremes?;
                let per_step = unit * 1e6 / finest_us as f64;
                Some(match stat {
                    Stat::Mean | Stat::Rate => self.sum as f64 * unit / measured_s,
                    Stat::Max => max as f64 * per_step,
                    Stat::Min => min as f64 * per_step,
                    Stat::Sum | Stat::Count | Stat::Quantile(_) => self.sum as f64 * unit,
                })
            }
            MeterKind::Level => {
                let level = self.level;
                (level.samples > 0).then(|| match stat {
                    Stat::Max => level.max as f64 * unit,
                    Stat::Min => level.min as f64 * unit,
                    Stat::Count => level.samples as f64,
                    _ => level.sum as f64 * unit / level.samples as f64,
                })
            }
            MeterKind::Distribution => {
                let values = &self.distribution;
                let count = values.count() as f64;
                match stat {
                    Stat::Mean => (count > 0.0).then(|| values.sum_nanos() as f64 * unit / count),
                    Stat::Max => values.buckets().last().map(|(b, _)| bucket_bounds(b).1 as f64 * unit),
                    Stat::Min => values.buckets().next().map(|(b, _)| bucket_bounds(b).0 as f64 * unit),
                    Stat::Sum => Some(values.sum_nanos() as f64 * unit),
                    Stat::Rate => Some(count / measured_s),
                    Stat::Count => Some(count),
                    Stat::Quantile(q) => values.quantile(q).map(|nanos| nanos as f64 * unit),
                }
            }
        }
    }
}

const fn micros(us: u64) -> Timestamp {
    Timestamp::from_nanos(us.saturating_mul(1000))
}

const fn kind_name(kind: MeterKind) -> &'static str {
    match kind {
        MeterKind::Count => "count",
        MeterKind::Level => "level",
        MeterKind::Distribution => "distribution",
    }
}

/// Statistics there are of a kind of meter, in words.
fn stats(kind: &str) -> &'static str {
    match kind {
        "count" => "mean, max, min, sum, rate and count",
        "level" => "mean, max, min and count",
        _ => "mean, max, min, sum, rate, count and p0 to p100",
    }
}

fn names(scope: Scope) -> String {
    let names: Vec<_> = Meter::ALL.iter().filter(|m| m.scope() == scope).map(|m| m.name()).collect();
    names.join(", ")
}

/// Words that name no statistic.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no statistic: write mean, max, min, sum, rate, count, or a percentile from p0 to p100 such as p99.9"
)]
pub struct NoStat(String);

impl FromStr for Stat {
    type Err = NoStat;

    fn from_str(text: &str) -> Result<Self, NoStat> {
        let no_stat = || NoStat(text.to_owned());
        Ok(match text {
            "mean" => Self::Mean,
            "max" => Self::Max,
            "min" => Self::Min,
            "sum" => Self::Sum,
            "rate" => Self::Rate,
            "count" => Self::Count,
            _ => {
                let digits = text.strip_prefix('p').ok_or_else(no_stat)?;
                let is_plain = digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
                let percent: f64 = digits.parse().ok().filter(|_| is_plain).ok_or_else(no_stat)?;
                if percent > 100.0 {
                    return Err(no_stat());
                }
                Self::Quantile(percent / 100.0)
            }
        })
    }
}

impl fmt::Display for Stat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mean => f.write_str("mean"),
            Self::Max => f.write_str("max"),
            Self::Min => f.write_str("min"),
            Self::Sum => f.write_str("sum"),
            Self::Rate => f.write_str("rate"),
            Self::Count => f.write_str("count"),
            // Rounded, since 0.999 * 100 is not 99.9.
            Self::Quantile(q) => write!(f, "p{}", (q * 1e11).round() / 1e9),
        }
    }
}
