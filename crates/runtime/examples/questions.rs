//! What questions to full archives cost, and for how long the archives are held for one: 60 classes of one application,
//! a month of points in all default resolutions.
//!
//! `cargo run --release -p tidegate-runtime --example questions`

use std::{
    io::{self, Write},
    time::{Duration, Instant},
};

use tidegate_control::{
    Timestamp,
    archive::{Archives, Layout, Query, Reading, Stat},
    knobs::Scope,
    meters::Meter,
};

const CLASSES: u64 = 60;
const DAY: Duration = Duration::from_secs(86_400);
const ROUNDS: u32 = 5;

fn main() -> io::Result<()> {
    let (archives, now) = month();
    let mut out = io::stdout().lock();
    writeln!(out, "{CLASSES} classes, {} MiB", archives.bytes() >> 20)?;
    for (path, meter, stat, span, step) in [
        ("shop/class-7", Meter::GOOD, Stat::Mean, DAY / 144, None),
        ("shop/class-7", Meter::GOOD, Stat::Max, DAY, None),
        ("shop/class-7", Meter::RESPONSE_TIME, Stat::Quantile(0.99), DAY, Some(60)),
        ("shop/class-7", Meter::RESPONSE_TIME, Stat::Quantile(0.99), DAY * 30, Some(600)),
        ("shop", Meter::GOOD, Stat::Max, DAY * 30, None),
        ("shop", Meter::RESPONSE_TIME, Stat::Quantile(0.99), DAY, Some(60)),
        ("shop", Meter::RESPONSE_TIME, Stat::Quantile(0.99), DAY * 30, Some(600)),
    ] {
        let step = step.map(Duration::from_secs);
        let query = Query { meter, label: None, from: now - span, to: now, step, stat, of: None };
        let mut points = 0;
        let took = best(|| points = archives.query(path, &query).map_or(0, |answer| answer.points.len()));
        let (hours, meter) = (span.as_secs_f64() / 3600.0, meter.name());
        writeln!(out, "{stat} of {meter} of {path} over {hours:.1} h, {points} points: {took:.1?}")?;
    }
    let mut copy = None;
    let held = best(|| copy = Some(archives.clone()));
    writeln!(out, "held for a question, whichever it is: {held:.1?}")?;
    let mut archives = archives;
    let began = Instant::now();
    second(&mut archives, now, now + Duration::from_secs(1));
    writeln!(out, "recording a second while one is answered: {:.1?}", began.elapsed())?;
    drop(copy);
    let now = now + Duration::from_secs(1);
    let began = Instant::now();
    second(&mut archives, now, now + Duration::from_secs(1));
    writeln!(out, "recording a second else: {:.1?}", began.elapsed())
}

fn best(mut f: impl FnMut()) -> Duration {
    let round = |_| {
        let began = Instant::now();
        f();
        began.elapsed()
    };
    (0..ROUNDS).map(round).min().unwrap_or_default()
}

/// A month: ticks as long as the points of the resolution that still has them, so that it does not take one to make.
fn month() -> (Archives, Timestamp) {
    let layout = Layout::default();
    let mut archives = Archives::new(layout.clone());
    let end = Timestamp::EPOCH + DAY * 20_000;
    let mut now = end - DAY * 30;
    for (index, resolution) in layout.resolutions().iter().enumerate().rev() {
        let finer = index.checked_sub(1).and_then(|finer| layout.resolutions().get(finer));
        let until = finer.map_or(end, |finer| end - finer.keep);
        while now < until {
            second(&mut archives, now, now + resolution.step);
            now = now + resolution.step;
        }
    }
    (archives, now)
}

/// Records a tick of every class, of times that differ from one to the next.
fn second(archives: &mut Archives, from: Timestamp, to: Timestamp) {
    let mut reading = Reading::new(Scope::Class);
    for class in 0..CLASSES {
        reading.clear();
        reading.add(Meter::ARRIVED, 30);
        reading.add(Meter::STARTED, 30);
        reading.add(Meter::GOOD, 20 + class % 10);
        reading.add_labelled(Meter::RESPONSES, 1, 30);
        for request in 0..30 {
            let time = Duration::from_micros(1000 << ((request * 7 + class) % 8));
            reading.record(Meter::WAITING_TIME, time / 16);
            reading.record(Meter::SERVICE_TIME, time);
            reading.record(Meter::RESPONSE_TIME, time + time / 16);
        }
        archives.record(&format!("shop/class-{class}"), from, to, &reading);
    }
}
