//! The swarm as a program of its own, which builds without the gateway.
//!
//! `cargo run -p tidegate-sim --example swarm -- --seeds 1000 [--seed FIRST] [--first]`: runs so many seeds, `--first` until the
//! first failure; with `--seed` alone replays that one and tells its last operations. Exit 1 if anything was wrong.

use std::{
    io::{self, Write},
    process::ExitCode,
};

use tidegate_sim::swarm::{self, Failure};

fn main() -> io::Result<ExitCode> {
    let mut out = io::stdout().lock();
    let Some(plan) = Plan::read(std::env::args().skip(1)) else {
        writeln!(out, "usage: swarm [--seeds N] [--seed S] [--first]")?;
        return Ok(ExitCode::from(2));
    };
    // Failures are told below.
    std::panic::set_hook(Box::new(|_| ()));
    let (mut steps, mut failures) = (0, 0);
    for seed in (0..plan.seeds).map(|offset| plan.seed.wrapping_add(offset)) {
        match swarm::one(seed) {
            Ok(more) => steps += more,
            Err(failure) => {
                failures += 1;
                steps += failure.step;
                tell(&mut out, &failure, plan.seeds == 1)?;
                if plan.first_only {
                    break;
                }
            }
        }
    }
    writeln!(out, "{} seeds, {steps} steps, {failures} failures", plan.seeds)?;
    Ok(ExitCode::from(u8::from(failures > 0)))
}

struct Plan {
    seed: u64,
    seeds: u64,
    first_only: bool,
}

impl Plan {
    fn read(mut words: impl Iterator<Item = String>) -> Option<Self> {
        let (mut seed, mut seeds, mut first_only) = (None, None, false);
        while let Some(word) = words.next() {
            match word.as_str() {
                "--seed" => seed = Some(words.next()?.parse().ok()?),
                "--seeds" => seeds = Some(words.next()?.parse().ok()?),
                "--first" => first_only = true,
                _ => return None,
            }
        }
        let seeds = seeds.unwrap_or(if seed.is_some() { 1 } else { 1000 });
        Some(Self { seed: seed.unwrap_or(1), seeds, first_only })
    }
}

fn tell(out: &mut impl Write, failure: &Failure, whole: bool) -> io::Result<()> {
    writeln!(out, "seed {}: step {}: {}", failure.seed, failure.step, failure.message)?;
    if whole {
        for operation in &failure.trail {
            writeln!(out, "    {operation}")?;
        }
    }
    Ok(())
}
