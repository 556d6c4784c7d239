//! The table of docs/algorithms.md: KneeTrack before each standard server, and Gradient2 beside it.
//!
//! `cargo run --release -p tidegate-sim --example servers`

use std::{
    io::{self, Write},
    time::Duration,
};

use tidegate_sim::{Score, StandardServer};

const SEEDS: u64 = 10;
const SPAN: Duration = Duration::from_secs(40);

fn main() -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "| server | goodput | p95 | within 5 % after |\n|---|---|---|---|")?;
    for server in StandardServer::all() {
        let scores = |algorithm| -> Vec<Score> {
            (1..=SEEDS).map(|seed| server.score(algorithm, seed, 2.0, SPAN)).collect()
        };
        let (ours, other) = (scores("knee_track"), scores("gradient2"));
        writeln!(
            out,
            "| {} | {:.1} ({:.1}) | {:.1} ({:.1}) | {:.1} s |",
            server.name,
            100.0 * median(&ours, |score| score.goodput),
            100.0 * median(&other, |score| score.goodput),
            median(&ours, |score| score.service_p95),
            median(&other, |score| score.service_p95),
            median(&ours, |score| score.within_5_s.unwrap_or(f64::INFINITY)),
        )?;
    }
    Ok(())
}

fn median(scores: &[Score], value: impl Fn(&Score) -> f64) -> f64 {
    let mut values: Vec<f64> = scores.iter().map(value).collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
