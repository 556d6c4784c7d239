//! What is read off a simulated run: the table of metrics, and its course second by second.

use std::time::Duration;

use tidegate_sim::{Counts, RunResult};

use crate::{
    experiment::{Population, Web, Zone, pairs},
    metrics::OF_ZONE,
    outcome::{Figures, Series},
    shape::{of_phases, settled_after},
    site,
    statistics::mean,
};

/// Seconds of a search whose goodput counts, and of those whose starts do: as in the measurements the bars come from.
const SEARCH_S: usize = 10;
const OVERSHOOT_S: usize = 40;
/// How long after a change that the front believed in its cost is looked for.
const AFTER_CHANGE: Duration = Duration::from_secs(10);

/// The table of metrics, filled from a run. `seeks_capacity`: whether the front is one that finds the server's capacity.
pub(super) fn figures(
    result: &RunResult,
    web: &Web,
    load: f64,
    seeks_capacity: bool,
    given: &Given,
) -> Figures {
    let mut figures = Figures::new();
    let capacity = site::capacity(web);
    let seconds = result.measured.as_secs_f64();
    let total = result.total();
    of_counts(&mut figures, "", &total, seconds);
    for (class, counts) in web.classes.iter().zip(&result.classes) {
        of_counts(&mut figures, &format!("{}:", class.name), counts, seconds);
    }
    let goodput = ratio(total.good, 1) / seconds;
    let offered = ratio(total.offered, 1) / seconds;
    let mut put = |name: &str, value: f64| {
        figures.insert(name.to_owned(), value);
    };
    put("goodput_share", goodput / offered.min(capacity));
    put("goodput_of_capacity", goodput / capacity);
    if total.work_s > 0.0 {
        put("wasted_share", total.wasted_s / total.work_s);
    }
    let (busy, there) = processors(result);
    put("work_of_capacity", busy / there.max(f64::MIN_POSITIVE));
    put("processors_used", busy);
    let end = end_of(result);
    put("processors", mean_between(result, given, end.saturating_sub(result.measured), end));
    for zone in &web.zones {
        of_zone(&mut put, result, given, zone);
    }
    of_returns(&mut put, &total);
    let visits = result.sessions;
    let ended = visits.completed + visits.turned_away + visits.broken;
    if ended > 0 {
        put("broken_share", ratio(visits.broken, ended));
    }
    if visits.begun > 0 {
        put("sessions_completed_per_s", ratio(visits.completed, 1) / seconds);
        put("sessions_timed_out_per_s", ratio(visits.timed_out, 1) / seconds);
        let refused = visits.turned_away + visits.broken - visits.timed_out;
        put("sessions_refused_per_s", ratio(refused, 1) / seconds);
    }
    of_estimate(&mut put, result, web, seeks_capacity);
    let good: Vec<f64> = result.series.iter().map(tidegate_sim::Row::goodput).collect();
    let offered: Vec<f64> = result.series.iter().map(|row| per_s(row.total().offered, row.length)).collect();
    if let Population::Open { phases, repeat: false, .. } = &web.load.population {
        // Nothing, evenly shared, is no fairness.
        let index = result.jain_fairness().filter(|_| total.good > 0);
        figures.extend(index.map(|index| ("fairness".to_owned(), index)));
        of_phases(&mut figures, &pairs(phases), capacity, &offered, &good);
        if phases.is_empty() {
            figures.insert(
                "settle_s".to_owned(),
                settled_after(&good, 0.9 * site::offered_per_s(web, load, capacity).min(capacity)),
            );
        }
    }
    figures
}

/// Processors of an application, row by row of its series.
pub(super) struct Given(Vec<f64>);

impl Given {
    /// As a manager told, from when on, or else as many as it might use.
    pub(super) fn of(result: &RunResult, told: Option<&[(Duration, f64)]>) -> Self {
        let told = told.unwrap_or_default();
        let of = |row: &tidegate_sim::Row| {
            let until = told.partition_point(|(at, _)| *at < row.at);
            until.checked_sub(1).map_or(row.processors, |last| told[last].1)
        };
        Self(result.series.iter().map(of).collect())
    }
}

/// When a run ended.
fn end_of(result: &RunResult) -> Duration {
    result.series.last().map_or(Duration::ZERO, |row| row.at)
}

/// Processors the application had in a time, in the mean.
fn mean_between(result: &RunResult, given: &Given, from: Duration, to: Duration) -> f64 {
    let rows = result.series.iter().zip(&given.0).filter(|(row, _)| row.at > from && row.at <= to);
    let given: Vec<f64> = rows.map(|(_, given)| *given).collect();
    mean(&given).unwrap_or(f64::NAN)
}

/// The figures of a zone.
fn of_zone(put: &mut impl FnMut(&str, f64), result: &RunResult, given: &Given, zone: &Zone) {
    let rows: Vec<&tidegate_sim::Row> =
        result.series.iter().filter(|row| row.at > zone.from && row.at <= zone.to).collect();
    let mut put_mean = |name: &str, of: &dyn Fn(&tidegate_sim::Row) -> f64| {
        let values: Vec<f64> = rows.iter().map(|row| of(row)).collect();
        if let Some(mean) = mean(&values) {
            put(&format!("{name}{OF_ZONE}{}", zone.name), mean);
        }
    };
    put_mean("goodput_per_s", &tidegate_sim::Row::goodput);
    put_mean("offered_per_s", &|row| per_s(row.total().offered, row.length));
    put_mean("processors_used", &|row| row.busy);
    put(&format!("processors{OF_ZONE}{}", zone.name), mean_between(result, given, zone.from, zone.to));
}

/// Processors that worked in the measured time, for whomever, and those there were.
fn processors(result: &RunResult) -> (f64, f64) {
    let end = result.series.last().map_or(Duration::ZERO, |row| row.at);
    let rows = result.series.iter().filter(|row| row.at > end.saturating_sub(result.measured));
    let (busy, there) = rows.fold((0.0, 0.0), |(busy, there), row| {
        let length = row.length.as_secs_f64();
        (busy + row.busy * length, there + row.processors * length)
    });
    let seconds = result.measured.as_secs_f64().max(f64::MIN_POSITIVE);
    (busy / seconds, there / seconds)
}

/// Who was told a time, and how he fared.
fn of_returns(put: &mut impl FnMut(&str, f64), total: &Counts) {
    put("told_share", ratio(total.told, total.offered));
    put("served_of_comers", ratio(total.replied, total.offered - total.no_shows));
    put("overtaken_share", ratio(total.overtaken, total.started));
    put("overtaken_mean_ms", 1e3 * total.overtaken_s / total.started.max(1) as f64);
    let mut put_ms = |name: &str, time: Option<Duration>| {
        if let Some(time) = time {
            put(name, time.as_secs_f64() * 1e3);
        }
    };
    put_ms("return_p50_ms", total.from_return.quantile(0.5));
    put_ms("return_p99_ms", total.from_return.quantile(0.99));
    put_ms("service_p50_ms", total.service.quantile(0.5));
    if let (Some(cheated), Some(all)) = (total.cheated.mean(), total.response.mean()) {
        put("cheat_gain", all.as_secs_f64() / cheated.as_secs_f64().max(1e-9));
    }
}

/// How long after the last change of the server's speed, or the beginning, the estimate of the capacity and goodput took.
fn of_estimate(put: &mut impl FnMut(&str, f64), result: &RunResult, web: &Web, seeks_capacity: bool) {
    let (from, speed) = web.server.speed.last().copied().unwrap_or((Duration::ZERO, 1.0));
    let capacity = site::capacity(web) * speed;
    let within = |share: f64, hold_s: u64| {
        let band = capacity * (1.0 - share)..=capacity * (1.0 + share);
        let hold = Duration::from_secs(hold_s);
        let found = result.settled(from, hold, &band, |row| row.capacity.unwrap_or(f64::NAN));
        found.map_or(f64::INFINITY, |time| time.as_secs_f64())
    };
    // A search that has come to no estimate at all has not found it; left out, it would flatter the mean of the others.
    if seeks_capacity || result.series.iter().any(|row| row.capacity.is_some()) {
        put("found_within_5_s", within(0.05, 10));
        put("found_within_3_s", within(0.03, 10));
        put("reached_within_5_s", within(0.05, 3));
        put("reached_within_3_s", within(0.03, 3));
    }
    let rows: Vec<_> = result.series.iter().filter(|row| row.at > from).collect();
    let good: Vec<f64> = rows.iter().map(|row| row.goodput()).collect();
    put("regained_s", settled_after(&good, 0.9 * capacity));
    if good.len() >= SEARCH_S {
        put("search_goodput", good[..SEARCH_S].iter().sum::<f64>() / SEARCH_S as f64 / capacity);
    }
    let started = |row: &tidegate_sim::Row| per_s(row.total().started, row.length) / capacity;
    put("overshoot", result.series.iter().map(started).fold(0.0, f64::max));
    put("search_overshoot", rows.iter().take(OVERSHOOT_S).map(|row| started(row)).fold(0.0, f64::max));
    of_changes(put, result);
}

/// What the seconds after each change cost that the front took for one, in a run in which the server did not change.
fn of_changes(put: &mut impl FnMut(&str, f64), result: &RunResult) {
    let end = result.series.last().map_or(Duration::ZERO, |row| row.at);
    let from = end.saturating_sub(result.measured);
    let (mut after, mut else_where) = (Vec::new(), Vec::new());
    let (mut before, mut until, mut changes) = (0, Duration::ZERO, 0);
    for row in &result.series {
        let new = row.changes - before;
        before = row.changes;
        if new > 0 {
            until = row.at + AFTER_CHANGE;
        }
        if row.at > from {
            changes += new;
            if row.at <= until { &mut after } else { &mut else_where }.push(row.goodput());
        }
    }
    put("changes_per_h", ratio(changes, 1) / result.measured.as_secs_f64() * 3600.0);
    let (Some(usual), Some(all)) = (mean(&else_where), mean(&[after.as_slice(), &else_where].concat()))
    else {
        return;
    };
    // Chance makes it negative as often as positive; cut off at nothing it would add up.
    put("lost_to_changes", if usual > 0.0 { 1.0 - all / usual } else { 0.0 });
}

fn of_counts(figures: &mut Figures, prefix: &str, counts: &Counts, seconds: f64) {
    let mut put = |name: &str, value: f64| {
        figures.insert(format!("{prefix}{name}"), value);
    };
    put("offered_per_s", ratio(counts.offered, 1) / seconds);
    put("goodput_per_s", ratio(counts.good, 1) / seconds);
    put("served_share", ratio(counts.good, counts.offered));
    put("refused_share", ratio(counts.refused_total(), counts.arrived));
    put("timed_out_share", ratio(counts.timed_out, counts.arrived));
    let mut put_ms = |name: &str, time: Option<Duration>| {
        if let Some(time) = time {
            figures.insert(format!("{prefix}{name}"), time.as_secs_f64() * 1e3);
        }
    };
    put_ms("response_mean_ms", counts.response.mean());
    put_ms("response_p50_ms", counts.response.quantile(0.5));
    put_ms("response_p95_ms", counts.response.quantile(0.95));
    put_ms("response_p99_ms", counts.response.quantile(0.99));
}

/// Second by second.
pub(super) fn series(result: &RunResult, web: &Web, given: &Given) -> Series {
    let mut series = Series::new();
    let mut push = |name: String, value: f64| series.entry(name).or_default().push(value);
    for (row, given) in result.series.iter().zip(&given.0) {
        let names = web.classes.iter().map(|class| format!("{}:", class.name));
        let total = row.total();
        for (prefix, tick) in std::iter::once((String::new(), &total)).chain(names.zip(&row.classes)) {
            push(format!("{prefix}offered"), per_s(tick.offered, row.length));
            push(format!("{prefix}goodput"), per_s(tick.good, row.length));
            push(format!("{prefix}refused"), per_s(tick.refused, row.length));
            push(format!("{prefix}timed_out"), per_s(tick.timed_out, row.length));
        }
        push("limit".to_owned(), row.limit.unwrap_or(f64::NAN));
        push("capacity".to_owned(), row.capacity.unwrap_or(f64::NAN));
        push("in_flight".to_owned(), ratio(row.in_flight, 1));
        push("queued".to_owned(), ratio(row.queued, 1));
        push("processors".to_owned(), *given);
    }
    series
}

fn per_s(count: u64, length: Duration) -> f64 {
    ratio(count, 1) / length.as_secs_f64().max(f64::MIN_POSITIVE)
}

/// A ratio of counts; 0 of nothing.
#[expect(clippy::cast_precision_loss, reason = "counts of a run")]
fn ratio(of: u64, over: u64) -> f64 {
    if over == 0 { 0.0 } else { of as f64 / over as f64 }
}
