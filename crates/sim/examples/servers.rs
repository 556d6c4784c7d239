//! The tables of docs/algorithms.md: KneeTrack before each standard server, Gradient2 beside it, and how soon a fall and a rise
//! are followed.
//!
//! `cargo run --release -p tidegate-sim --example servers`

use std::{
    io::{self, Write},
    time::Duration,
};

use tidegate_sim::{Followed, Score, StandardServer};

const SEEDS: u64 = 200;
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
    writeln!(
        out,
        "\n| server | fall, within 10 % | fall, goodput | rise, within 10 % | rise, goodput |\n|---|---|---|---|---|"
    )?;
    for server in StandardServer::all() {
        let followed: Vec<[Followed; 2]> =
            (1..=SEEDS).map(|seed| server.follow("knee_track", seed)).collect();
        write!(out, "| {} |", server.name)?;
        for change in 0..2 {
            for value in [|it: &Followed| it.within_10_s, |it: &Followed| it.goodput_s] {
                let of = |changes: &[Followed; 2]| value(&changes[change]).unwrap_or(f64::INFINITY);
                let [median, worst] = [median(&followed, of), worst(&followed, of)].map(seconds);
                write!(out, " {median} ({worst}) |")?;
            }
        }
        writeln!(out)?;
    }
    Ok(())
}

fn seconds(value: f64) -> String {
    if value.is_finite() { format!("{value:.1}") } else { "never".to_owned() }
}

fn worst<T>(runs: &[T], value: impl Fn(&T) -> f64) -> f64 {
    runs.iter().map(value).fold(0.0, f64::max)
}

fn median<T>(runs: &[T], value: impl Fn(&T) -> f64) -> f64 {
    let mut values: Vec<f64> = runs.iter().map(value).collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
