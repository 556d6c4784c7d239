//! The archives against a naive reference that keeps every reading, and what the reference cannot show.

use std::{collections::BTreeMap, time::Duration};

use proptest::prelude::*;

use super::{sums::CountSums, *};
use crate::meters::{Distribution, Meter, MeterKind, bucket_bounds};

const S: u64 = 1_000_000_000;

fn at(seconds: f64) -> Timestamp {
    Timestamp::from_nanos((seconds * 1e9).round() as u64)
}

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn layout(resolutions: &[(u64, u64)]) -> Layout {
    let resolutions: Vec<_> =
        resolutions.iter().map(|(step, keep)| Resolution { step: secs(*step), keep: secs(*keep) }).collect();
    Layout::new(&resolutions, Layout::POINT_BYTES).unwrap()
}

fn query(meter: Meter, from: f64, to: f64, stat: Stat) -> Query {
    Query { meter, label: None, from: at(from), to: at(to), step: None, stat, of: None }
}

fn one(archive: &Archive, query: &Query) -> Option<f64> {
    archive.query(query).unwrap().points[0].value
}

/// A class's reading with some arrivals.
fn arrived(n: u64) -> Reading {
    let mut reading = Reading::new(Scope::Class);
    reading.add(Meter::ARRIVED, n);
    reading
}

/// Every reading there was, and the answers they make, by the words of the documentation.
#[derive(Default)]
struct Naive {
    ticks: Vec<Tick>,
}

struct Tick {
    /// Start of the point of the finest resolution, in seconds.
    at_s: u64,
    measured_us: u64,
    reading: Reading,
}

impl Naive {
    fn record(&mut self, from: Timestamp, to: Timestamp, reading: &Reading) {
        let middle = u64::midpoint(from.as_nanos(), to.as_nanos());
        let at_s = (middle / S).max(self.ticks.last().map_or(0, |tick| tick.at_s));
        let measured_us = to.since(from).as_micros() as u64;
        self.ticks.push(Tick { at_s, measured_us, reading: reading.clone() });
    }

    fn value(&self, query: &Query, of: Option<Duration>, from: Timestamp, to: Timestamp) -> Option<f64> {
        let inside = |tick: &&Tick| (from.as_nanos()..to.as_nanos()).contains(&(tick.at_s * S));
        let Some(of) = of else {
            return self.of(query, query.stat, &self.ticks.iter().filter(inside).collect::<Vec<_>>());
        };
        let mut spans: BTreeMap<u64, Vec<&Tick>> = BTreeMap::new();
        for tick in self.ticks.iter().filter(inside) {
            spans.entry(tick.at_s / of.as_secs()).or_default().push(tick);
        }
        let means = spans.values().filter_map(|ticks| self.of(query, Stat::Mean, ticks));
        match query.stat {
            Stat::Max => means.reduce(f64::max),
            _ => means.reduce(f64::min),
        }
    }

    fn of(&self, query: &Query, stat: Stat, ticks: &[&Tick]) -> Option<f64> {
        let first = query.meter.offset();
        match query.meter.kind() {
            MeterKind::Count => {
                let cells = match query.label {
                    Some(label) => first + label..first + label + 1,
                    None => first..first + query.meter.cells(),
                };
                let mut points: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
                for tick in ticks.iter().filter(|tick| tick.reading.unmeasured >> first & 1 == 0) {
                    let point = points.entry(tick.at_s).or_default();
                    point.0 += tick.measured_us;
                    point.1 += tick.reading.counts[cells.clone()].iter().sum::<u64>();
                }
                let measured: u64 = points.values().map(|(measured, _)| measured).sum();
                let sum: u64 = points.values().map(|(_, sum)| sum).sum();
                let rates = points.values().map(|(us, sum)| (*sum as f64 * 1e6 / *us as f64).round());
                (measured > 0).then_some(())?;
                match stat {
                    Stat::Max => rates.reduce(f64::max),
                    Stat::Min => rates.reduce(f64::min),
                    Stat::Sum | Stat::Count => Some(sum as f64),
                    _ => Some(sum as f64 * 1e6 / measured as f64),
                }
            }
            MeterKind::Level => {
                let samples: Vec<f64> =
                    ticks.iter().filter_map(|tick| tick.reading.levels[first]).map(|n| n as f64).collect();
                match stat {
                    Stat::Max => samples.into_iter().reduce(f64::max),
                    Stat::Min => samples.into_iter().reduce(f64::min),
                    Stat::Count => (!samples.is_empty()).then_some(samples.len() as f64),
                    _ => (!samples.is_empty()).then(|| samples.iter().sum::<f64>() / samples.len() as f64),
                }
            }
            MeterKind::Distribution => {
                (!ticks.is_empty()).then_some(())?;
                let mut values = Distribution::default();
                for tick in ticks {
                    let other = &tick.reading.distributions[first];
                    values.merge(other.buckets(), other.sum_nanos());
                }
                let measured_us: u64 = ticks.iter().map(|tick| tick.measured_us).sum();
                let count = values.count() as f64;
                match stat {
                    Stat::Mean => (count > 0.0).then(|| values.sum_nanos() as f64 / 1e9 / count),
                    Stat::Max => values.buckets().last().map(|(b, _)| bucket_bounds(b).1 as f64 / 1e9),
                    Stat::Min => values.buckets().next().map(|(b, _)| bucket_bounds(b).0 as f64 / 1e9),
                    Stat::Sum => Some(values.sum_nanos() as f64 / 1e9),
                    Stat::Rate => Some(count * 1e6 / measured_us as f64),
                    Stat::Count => Some(count),
                    Stat::Quantile(q) => values.quantile(q).map(|nanos| nanos as f64 / 1e9),
                }
            }
        }
    }
}

#[derive(Clone, Debug)]
struct Step {
    /// Time nobody measured before the tick, and the tick's length, in milliseconds.
    gap_ms: u64,
    tick_ms: u64,
    arrived: u64,
    refused: Vec<(usize, u64)>,
    queued: Option<u64>,
    waits: Vec<u64>,
    counted: bool,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let gap = prop_oneof![8 => Just(0_u64), 1 => 0..3000_u64, 1 => 0..90_000_u64];
    let tick = prop_oneof![4 => Just(1000_u64), 2 => 950..1050_u64, 1 => 1..3000_u64];
    let step = (
        (gap, tick, prop_oneof![0..3_u64, 0..5000_u64]),
        prop::collection::vec((0..crate::Refusal::ALL.len(), 1..50_u64), 0..3),
        prop::option::of(0..100_u64),
        prop::collection::vec(0..1_u64 << 36, 0..6),
        prop::bool::weighted(0.9),
    );
    let step = step.prop_map(|((gap_ms, tick_ms, arrived), refused, queued, waits, counted)| Step {
        gap_ms,
        tick_ms,
        arrived,
        refused,
        queued,
        waits,
        counted,
    });
    prop::collection::vec(step, 1..150)
}

fn run(steps: &[Step], mut each: impl FnMut(Timestamp, Timestamp, &Reading)) -> Timestamp {
    let mut now = at(1000.0);
    for step in steps {
        let from = now + Duration::from_millis(step.gap_ms);
        now = from + Duration::from_millis(step.tick_ms);
        let mut reading = arrived(step.arrived);
        for (reason, n) in &step.refused {
            reading.add_labelled(Meter::REFUSED, *reason, *n);
        }
        if let Some(queued) = step.queued {
            reading.level(Meter::QUEUED, queued);
        }
        for nanos in &step.waits {
            reading.record(Meter::WAITING_TIME, Duration::from_nanos(*nanos));
        }
        // A host tells something or does not; it does not change its mind.
        if !steps[0].counted {
            reading.unmeasured(Meter::ARRIVED);
        }
        each(from, now, &reading);
    }
    now
}

/// Everything in it so many times, and a wait of so many milliseconds.
fn several_times(reading: &Reading, times: u64) -> Reading {
    let mut other = reading.clone();
    for _ in 1..times {
        add(&mut other, reading);
    }
    other.record(Meter::WAITING_TIME, Duration::from_millis(times));
    other
}

fn add(sum: &mut Reading, other: &Reading) {
    for (count, more) in sum.counts.iter_mut().zip(&other.counts) {
        *count += more;
    }
    for (level, more) in sum.levels.iter_mut().zip(&other.levels) {
        *level = level.zip(*more).map(|(level, more)| level + more);
    }
    for (distribution, more) in sum.distributions.iter_mut().zip(&other.distributions) {
        distribution.merge(more.buckets(), more.sum_nanos());
    }
}

fn questions() -> impl Strategy<Value = (Meter, Option<usize>, Stat)> {
    let count = prop_oneof![
        Just(Stat::Mean),
        Just(Stat::Rate),
        Just(Stat::Sum),
        Just(Stat::Count),
        Just(Stat::Max),
        Just(Stat::Min)
    ];
    let level = prop_oneof![Just(Stat::Mean), Just(Stat::Max), Just(Stat::Min), Just(Stat::Count)];
    let any = prop_oneof![
        (0.0..=1.0_f64).prop_map(Stat::Quantile),
        Just(Stat::Mean),
        Just(Stat::Max),
        Just(Stat::Min),
        Just(Stat::Sum),
        Just(Stat::Rate),
        Just(Stat::Count)
    ];
    let label = prop::option::of(0..crate::Refusal::ALL.len());
    prop_oneof![
        count.clone().prop_map(|stat| (Meter::ARRIVED, None, stat)),
        (label, count).prop_map(|(label, stat)| (Meter::REFUSED, label, stat)),
        level.prop_map(|stat| (Meter::QUEUED, None, stat)),
        any.prop_map(|stat| (Meter::WAITING_TIME, None, stat)),
    ]
}

fn is_close(a: Option<f64>, b: Option<f64>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => (a - b).abs() <= 1e-9 * a.abs().max(b.abs()).max(1e-9),
        (a, b) => a == b,
    }
}

/// Where the points of a resolution begin, if there were earlier ones since `began`.
fn forgotten_until(archive: &Archive, resolution: Duration, began: Timestamp) -> Option<Timestamp> {
    let step_us = resolution.as_micros() as u64;
    let oldest = archive.tracks().iter().find(|track| track.step_us() == step_us)?.oldest()?;
    (oldest > began.as_nanos() / 1000 / step_us).then(|| Timestamp::from_nanos(oldest * step_us * 1000))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn every_answer_is_that_of_the_reference(
        steps in steps(),
        (meter, label, stat) in questions(),
        back in prop::option::of(0..400_u64),
        length in 1..300_u64,
        step in prop::option::of(1..40_u64),
        of in prop::option::of(1..40_u64),
    ) {
        let layout = layout(&[(1, 60), (5, 300), (20, 3600)]);
        let (mut archive, mut naive) = (Archive::new(Scope::Class, &layout), Naive::default());
        let end = run(&steps, |from, to, reading| {
            archive.record(from, to, reading);
            naive.record(from, to, reading);
        });
        let from = back.map_or(at(900.0), |back| end - secs(back));
        let (step, of) = (step.map(secs), of.map(secs));
        let query = Query { meter, label, from, to: from + secs(length), step, stat, of };
        let answer = archive.query(&query).unwrap();

        // What every resolution keeps at least.
        let resolution = answer.resolution.as_secs();
        let keep = layout.resolutions().iter().find(|r| r.step == answer.resolution).unwrap().points();
        let mut starts: Vec<_> = naive.ticks.iter().map(|tick| tick.at_s / resolution * resolution).collect();
        starts.dedup();
        let oldest = starts[starts.len().saturating_sub(keep)];
        let has_all = starts.len() <= keep;

        prop_assert_eq!(answer.step.as_nanos() % answer.resolution.as_nanos(), 0);
        if let Some(step) = step {
            prop_assert!(answer.step >= step && answer.step < step + answer.resolution);
        }
        let is_extreme = matches!(stat, Stat::Max | Stat::Min);
        prop_assert!(is_extreme || answer.of.is_none());
        prop_assert!(!is_extreme || of.is_none() || answer.of >= of);
        prop_assert!(answer.points[0].from <= query.from);
        prop_assert!(answer.points.last().unwrap().to >= query.to);
        for pair in answer.points.windows(2) {
            prop_assert_eq!(pair[0].to, pair[1].from);
        }
        let mut compared = 0;
        for point in &answer.points {
            prop_assert_eq!(point.to.since(point.from), answer.step);
            if has_all || point.from.as_nanos() >= oldest * S {
                let expected = naive.value(&query, answer.of, point.from, point.to);
                prop_assert!(is_close(point.value, expected), "{:?}: expected {:?}", point, expected);
                compared += 1;
            }
        }
        // The finest that reaches back was chosen, so everything was there to be compared with.
        let finest_has = naive.ticks.len() <= 60;
        prop_assert!(!finest_has || (answer.resolution == secs(1) && compared == answer.points.len()));
    }

    #[test]
    fn what_is_restored_answers_the_same(
        steps in steps(), (meter, label, stat) in questions(), back in 0..2000_u64, step in prop::option::of(1..40_u64),
    ) {
        let layout = layout(&[(1, 60), (5, 300), (20, 3600)]);
        let mut kept = Vec::new();
        let mut keep = |point: Closed<'_>| kept.push((point.resolution, point.slot, point.bytes.to_vec()));
        let mut archive = Archive::new(Scope::Class, &layout);
        let end = run(&steps, |from, to, reading| archive.record_and(from, to, reading, &mut keep));
        archive.finish(&mut keep);
        let mut back_again = Archive::new(Scope::Class, &layout);
        for (resolution, slot, bytes) in &kept {
            back_again.restore(*resolution, *slot, bytes).unwrap();
        }
        back_again.resume();
        let query =
            Query { meter, label, from: end - secs(back), to: end, step: step.map(secs), stat, of: None };
        // The end may lie before the point that is held.
        prop_assume!(back > 0);
        prop_assert_eq!(archive.query(&query), back_again.query(&query));
    }

    /// A process goes on where another ended, often within a second, and reads only later what that one kept.
    #[test]
    fn what_another_archive_goes_on_with_is_as_if_one_had_measured_it_all(
        steps in steps(), split in any::<prop::sample::Index>(), (meter, label, stat) in questions(),
        back in 1..2000_u64, step in prop::option::of(1..40_u64),
    ) {
        let layout = layout(&[(1, 60), (5, 300), (20, 3600)]);
        let split = split.index(steps.len());
        let kept = std::cell::RefCell::new(Vec::new());
        let keep = |point: Closed<'_>| kept.borrow_mut().push((point.resolution, point.slot, point.bytes.to_vec()));
        let (mut whole, mut first) = (Archive::new(Scope::Class, &layout), Archive::new(Scope::Class, &layout));
        let (mut second, mut later) = (Archive::new(Scope::Class, &layout), Vec::new());
        let mut later_points = |point: Closed<'_>| {
            if point.resolution == 0 {
                later.push((point.slot, point.bytes.to_vec()));
            }
        };
        let mut n = 0;
        let end = run(&steps, |from, to, reading| {
            if n == split {
                whole.finish(|_| {});
            }
            whole.record(from, to, reading);
            if n < split {
                first.record_and(from, to, reading, keep);
            } else {
                second.record_and(from, to, reading, &mut later_points);
            }
            n += 1;
        });
        first.finish(keep);
        second.finish(later_points);
        whole.finish(|_| {});
        let restored = || {
            let mut archive = Archive::new(Scope::Class, &layout);
            for (resolution, slot, bytes) in &*kept.borrow() {
                archive.restore(*resolution, *slot, bytes).unwrap();
            }
            archive.resume();
            archive
        };
        let mut joined = restored();
        for (slot, bytes) in &later {
            joined.append(*slot, bytes, keep).unwrap();
        }
        joined.finish(keep);
        let query =
            Query { meter, label, from: end - secs(back), to: end, step: step.map(secs), stat, of: None };
        prop_assert_eq!(joined.query(&query), whole.query(&query));
        prop_assert_eq!(restored().query(&query), whole.query(&query), "what was kept of both");
    }

    /// The classes of an application, some of which began later, answer as one that had all of their readings.
    #[test]
    fn parts_asked_as_one_are_as_one(
        steps in steps(), starts in prop::collection::vec(0..150_usize, 0..3), (meter, label, stat) in questions(),
        back in 1..2000_u64, length in 1..600_u64, step in prop::option::of(1..40_u64), of in prop::option::of(1..40_u64),
    ) {
        let layout = layout(&[(1, 60), (5, 300), (20, 3600)]);
        let mut archives = Archives::new(layout.clone());
        let mut one = Archive::new(Scope::Class, &layout);
        let mut began = BTreeMap::new();
        let mut n = 0;
        let end = run(&steps, |from, to, reading| {
            let mut sum = reading.clone();
            archives.record("shop/first", from, to, reading);
            began.entry("shop/first".to_owned()).or_insert(from);
            for (index, _) in starts.iter().enumerate().filter(|(_, start)| **start <= n) {
                let other = several_times(reading, index as u64 + 2);
                let path = format!("shop/{index}");
                archives.record(&path, from, to, &other);
                began.entry(path).or_insert(from);
                add(&mut sum, &other);
            }
            // What is not asked.
            archives.record("shopping/first", from, to, reading);
            one.record(from, to, &sum);
            n += 1;
        });
        let from = end - secs(back);
        let query = Query { meter, label, from, to: from + secs(length), step: step.map(secs), stat, of: of.map(secs) };
        let answer = archives.query("shop", &query).unwrap();
        // Extremes of a sum are those of its spans.
        let several = starts.iter().any(|start| *start < steps.len()) && meter.kind() != MeterKind::Distribution;
        prop_assert!(!several || answer.of.is_some() || !matches!(stat, Stat::Max | Stat::Min));
        // Where its points begin decides when a part forgets them: it may reach back less than one of all readings.
        let parts =
            || archives.iter().filter_map(|(path, archive)| began.get(path).map(|began| (archive, *began)));
        let alone = Query { of: answer.of, ..query };
        let of_all = one.query(&alone).unwrap();
        let resolution = parts().map(|(part, _)| part.query(&alone).unwrap().resolution).max();
        prop_assert_eq!(Some(answer.resolution), resolution);
        prop_assert!(of_all.resolution <= answer.resolution);
        let kept_from = parts()
            .chain([(&one, began["shop/first"])])
            .filter_map(|(archive, began)| forgotten_until(archive, answer.resolution, began))
            .max();
        if of_all.resolution == answer.resolution {
            prop_assert_eq!((answer.step, answer.of, answer.points.len()), (of_all.step, of_all.of, of_all.points.len()));
            for (point, expected) in answer.points.iter().zip(&of_all.points) {
                if kept_from.is_none_or(|from| point.from >= from) {
                    prop_assert_eq!(point, expected);
                }
            }
        }
        if starts.is_empty() {
            prop_assert_eq!(&answer, &of_all);
            prop_assert_eq!(&answer, &archives.query("shop/first", &query).unwrap());
        }
    }
}

/// Points as the state directory may have them; what is taken up has answers.
#[test]
fn any_bytes_are_restored_or_refused() {
    let mut point = Vec::new();
    let mut archives = Archives::new(Layout::default());
    archives.record("a/b", at(100.0), at(101.0), &arrived(3));
    archives.finish(|_, _, closed| point = closed.bytes.to_vec());
    assert!(!point.is_empty());
    bolero::check!().with_type::<(u64, Vec<u8>, Vec<(u16, u8)>)>().for_each(|(slot, bytes, slips)| {
        let mut slipped = point.clone();
        for (at, octet) in slips.iter().take(3) {
            let at = usize::from(*at) % slipped.len();
            slipped[at] = *octet;
        }
        for bytes in [bytes, &slipped] {
            let mut archives = Archives::new(Layout::default());
            let slot = slot % (1 << 40);
            for resolution in 0..2 {
                let _ = archives.restore("a/b", Scope::Class, resolution, slot, bytes);
            }
            let _ = archives.append("a/c", Scope::Class, slot, bytes, |_| {});
            archives.resume();
            let end = Timestamp::from_nanos(slot.saturating_mul(S)) + secs(100);
            for stat in [Stat::Mean, Stat::Max, Stat::Sum] {
                let query = Query { from: end - secs(200), to: end, ..query(Meter::ARRIVED, 0.0, 1.0, stat) };
                for path in ["a/b", "a/c"] {
                    let _ = archives.query(path, &query);
                }
            }
        }
    });
}

#[test]
fn what_was_not_measured_has_no_value_and_is_not_nought() {
    let mut archive = Archive::new(Scope::Class, &Layout::default());
    archive.record(at(100.0), at(101.0), &arrived(0));
    archive.record(at(104.0), at(105.0), &arrived(8));
    let mut query = query(Meter::ARRIVED, 100.0, 106.0, Stat::Mean);
    query.step = Some(secs(1));
    let values: Vec<_> = archive.query(&query).unwrap().points.iter().map(|point| point.value).collect();
    assert_eq!(values, [Some(0.0), None, None, None, Some(8.0), None]);
    // Two seconds were measured, not six.
    query.step = None;
    let answer = archive.query(&query).unwrap();
    assert_eq!((answer.points[0].value, answer.points[0].measured), (Some(4.0), secs(2)));
    // Nobody came, so there is no percentile of waits.
    assert_eq!(
        one(&archive, &Query { meter: Meter::WAITING_TIME, stat: Stat::Quantile(0.5), ..query }),
        None
    );
    assert_eq!(one(&archive, &Query { meter: Meter::WAITING_TIME, stat: Stat::Count, ..query }), Some(0.0));
    // No level was given.
    assert_eq!(one(&archive, &Query { meter: Meter::QUEUED, ..query }), None);
}

#[test]
fn a_clock_set_back_a_little_is_held_and_set_back_far_forgets_the_future() {
    let mut archive = Archive::new(Scope::Class, &Layout::default());
    for second in 0..300_u32 {
        archive.record(at(f64::from(second)), at(f64::from(second + 1)), &arrived(1));
    }
    // Half a minute back: the reading goes on in the open point.
    archive.record(at(270.0), at(271.0), &arrived(1000));
    let sum = |archive: &Archive, from, to| one(archive, &query(Meter::ARRIVED, from, to, Stat::Sum));
    assert_eq!(sum(&archive, 0.0, 400.0), Some(1300.0));
    assert_eq!(sum(&archive, 299.0, 300.0), Some(1001.0));
    // Back to 130: what is later has not happened, at any resolution.
    archive.record(at(129.5), at(130.5), &arrived(7));
    assert_eq!(sum(&archive, 0.0, 400.0), Some(130.0 + 7.0));
    for step in [5, 60, 600] {
        let coarse = Archive::new(Scope::Class, &layout(&[(1, 600), (step, 86_400)]));
        let mut coarse = coarse;
        for second in 0..300_u32 {
            coarse.record(at(f64::from(second)), at(f64::from(second + 1)), &arrived(1));
        }
        coarse.record(at(129.5), at(130.5), &arrived(7));
        // Long after, only the coarse points are left.
        for second in 1000..1700_u32 {
            coarse.record(at(f64::from(second)), at(f64::from(second + 1)), &arrived(0));
        }
        assert_eq!(sum(&coarse, 0.0, 1700.0), Some(137.0), "at {step} s");
    }
}

#[test]
fn two_processes_within_one_second_lose_nothing() {
    let mut archives = Archives::new(Layout::default());
    let mut kept = Vec::new();
    for (from, to, n) in [(10.0, 10.3, 3), (10.3, 11.0, 10)] {
        let mut process = Archives::new(Layout::default());
        process.record("a/b", at(from), at(to), &arrived(n));
        process.finish(|_, _, point| kept.push((point.slot, point.bytes.to_vec())));
    }
    let [(slot, first), (same_slot, second)] = kept.as_slice() else { panic!("{kept:?}") };
    assert_eq!(slot, same_slot);
    archives.restore("a/b", Scope::Class, 0, *slot, first).unwrap();
    archives.append("a/b", Scope::Class, *slot, second, |_| {}).unwrap();
    let archive = archives.get("a/b").unwrap();
    assert_eq!(one(archive, &query(Meter::ARRIVED, 0.0, 20.0, Stat::Sum)), Some(13.0));
}

#[test]
fn maxima_are_of_the_resolution_asked_for() {
    let mut archive = Archive::new(Scope::Class, &Layout::default());
    for second in 0..60_u32 {
        // A second of 100 in each ten, else 10.
        let n = if second % 10 == 3 { 100 } else { 10 };
        archive.record(at(f64::from(second)), at(f64::from(second + 1)), &arrived(n));
    }
    let max = |of: Option<u64>| {
        one(&archive, &Query { of: of.map(secs), ..query(Meter::ARRIVED, 0.0, 60.0, Stat::Max) })
    };
    assert_eq!(max(None), Some(100.0));
    assert_eq!(max(Some(5)), Some(28.0));
    assert_eq!(max(Some(10)), Some(19.0));
}

#[test]
fn a_scope_is_asked_for_what_is_in_it_and_for_nothing_else() {
    let mut archives = Archives::new(Layout::default());
    let second = |path: &str, scope, meter, n, archives: &mut Archives| {
        let mut reading = Reading::new(scope);
        reading.level(meter, n);
        archives.record(path, at(10.0), at(11.0), &reading);
    };
    for (path, n) in [("a", 1), ("b", 10)] {
        second(path, Scope::Application, Meter::IN_FLIGHT, n, &mut archives);
    }
    for (path, n) in [("a/servers/x", 100), ("a/servers/y", 1000), ("b/servers/x", 10_000)] {
        second(path, Scope::Server, Meter::SERVER_IN_FLIGHT, n, &mut archives);
    }
    let ask = |path: &str, meter| {
        let answer = archives.query(path, &query(meter, 10.0, 11.0, Stat::Max));
        answer.map(|answer| answer.points[0].value)
    };
    assert_eq!(ask("a", Meter::IN_FLIGHT), Ok(Some(1.0)));
    assert_eq!(ask("", Meter::IN_FLIGHT), Ok(Some(11.0)));
    assert_eq!(ask("a", Meter::SERVER_IN_FLIGHT), Ok(Some(1100.0)));
    assert_eq!(ask("a/servers/x", Meter::SERVER_IN_FLIGHT), Ok(Some(100.0)));
    assert_eq!(ask("", Meter::SERVER_IN_FLIGHT), Ok(Some(11_100.0)));
    assert_eq!(ask("c", Meter::SERVER_IN_FLIGHT), Ok(None));
    assert!(ask("a/servers/x", Meter::IN_FLIGHT).is_err());
    // It says nothing when it is added up.
    assert!(ask("a", Meter::COST).is_err());
}

#[test]
fn the_finest_resolution_that_reaches_back_answers() {
    let mut archive = Archive::new(Scope::Class, &Layout::default());
    for second in 0..100_000_u32 {
        archive.record(at(f64::from(second)), at(f64::from(second + 1)), &arrived(2));
    }
    let resolution = |from: f64| {
        let answer = archive.query(&query(Meter::ARRIVED, from, 100_000.0, Stat::Mean)).unwrap();
        assert_eq!(answer.points[0].value, Some(2.0));
        answer.resolution.as_secs()
    };
    assert_eq!(resolution(99_500.0), 1);
    assert_eq!(resolution(97_000.0), 5);
    assert_eq!(resolution(20_000.0), 60);
    assert_eq!(resolution(1000.0), 600);
}

#[test]
fn memory_stays_within_its_bound_whatever_is_recorded() {
    let layout = layout(&[(1, 300), (5, 600), (60, 6000)]);
    let bound = Archive::bytes_max(Scope::Class, &layout);
    let mut archive = Archive::new(Scope::Class, &layout);
    let (mut busy, quiet) = (Reading::new(Scope::Class), arrived(1));
    for bucket in 0..crate::meters::BUCKETS {
        for meter in [Meter::WAITING_TIME, Meter::SERVICE_TIME, Meter::RESPONSE_TIME] {
            busy.distribution(meter).record(bucket_bounds(bucket).0, 1 << (bucket % 50));
        }
    }
    for reason in 0..crate::Refusal::ALL.len() {
        busy.add_labelled(Meter::REFUSED, reason, u64::MAX / 1_000_000);
    }
    for second in 0..1500_u32 {
        // Quiet first, then busy, then quiet again, so that points of all sizes make room.
        let reading = if (500..1000).contains(&second) { &busy } else { &quiet };
        archive.record(at(f64::from(second)), at(f64::from(second + 1)), reading);
        assert!(archive.bytes() <= bound, "{} bytes in second {second}, bound {bound}", archive.bytes());
    }
    assert!(archive.points(0) >= 300, "quiet points are all there again: {}", archive.points(0));
}

/// The figures of docs/measurements.md.
#[test]
fn documented_memory_of_each_scope() {
    let page = include_str!("../../../../docs/measurements.md");
    let line = |scope: &Scope| {
        let bytes = Archive::bytes_max(*scope, &Layout::default());
        format!("| {} | {:.1} MiB |", scope.name(), bytes as f64 / f64::from(1 << 20))
    };
    let missing: Vec<_> = Scope::ALL.iter().map(line).filter(|line| !page.contains(line.as_str())).collect();
    assert!(missing.is_empty(), "docs/measurements.md should have these lines: {missing:#?}");
}

#[test]
fn subjects_are_bounded_and_the_one_unseen_for_longest_makes_room() {
    let mut archives = Archives::new(layout(&[(1, 100)]));
    let reading = Reading::new(Scope::Host);
    archives.record("", at(0.0), at(1.0), &reading);
    let server = Reading::new(Scope::Server);
    for n in 0..SUBJECTS_MAX + 10 {
        archives.record(&format!("a/servers/{n}"), at(2.0), at(3.0), &server);
    }
    assert_eq!(archives.iter().count(), SUBJECTS_MAX);
    assert!(archives.get("").is_none() && archives.get("a/servers/0").is_some());
    // All unseen for longer than any point is kept.
    archives.record("", at(200.0), at(201.0), &reading);
    assert_eq!(archives.iter().count(), 1);
}

#[test]
fn paths_have_scopes() {
    let of = Archives::scope_of;
    assert_eq!(of(""), Some(Scope::Host));
    assert_eq!(of("shop"), Some(Scope::Application));
    assert_eq!(of("shop/home"), Some(Scope::Class));
    assert_eq!(of("shop/servers/10.0.0.2:80"), Some(Scope::Server));
    for none in ["/", "shop/", "shop/servers", "shop/front/x", "shop/servers/", "shop/servers/a/b"] {
        assert_eq!(of(none), None, "{none}");
    }
}

#[test]
fn faults_name_what_is_wrong() {
    let archive = Archive::new(Scope::Class, &Layout::default());
    let fault = |query: Query| archive.query(&query).unwrap_err().to_string();
    let good = query(Meter::GOOD, 0.0, 10.0, Stat::Mean);
    assert!(
        fault(Query { meter: Meter::SPOOLED, ..good })
            .starts_with("spooled is no meter of a class: it has arrived,")
    );
    assert_eq!(
        fault(Query { stat: Stat::Quantile(0.999), ..good }),
        "p99.9 of goodput: that is a count, of which there is mean, max, min, sum, rate and count"
    );
    assert_eq!(fault(Query { to: good.from, ..good }), "the time asked for ends before it begins");
    assert_eq!(fault(Query { label: Some(0), ..good }), "goodput has no label 0");
    assert_eq!(
        fault(Query { step: Some(Duration::ZERO), ..good }),
        "a step of no length: give one, such as 5s"
    );
    assert_eq!(
        fault(Query { to: at(1e6), step: Some(secs(1)), ..good }),
        "1000000 points: at most 100000 are answered; ask for a shorter time or a longer step"
    );
}

#[test]
fn statistics_read_back() {
    for text in ["mean", "max", "min", "sum", "rate", "count", "p0", "p50", "p99", "p99.9", "p99.99", "p100"]
    {
        assert_eq!(text.parse::<Stat>().unwrap().to_string(), text);
    }
    for text in ["", "p", "p101", "p-1", "pinf", "p1e1", "median"] {
        assert!(text.parse::<Stat>().is_err(), "{text}");
    }
}

#[test]
fn a_count_of_a_second_that_was_longer_is_scaled_in_its_extremes() {
    assert_eq!(CountSums::settled(150, 1_500_000, 1_000_000), CountSums { sum: 150, min: 100, max: 100 });
}
