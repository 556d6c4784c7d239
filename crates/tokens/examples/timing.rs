//! Whether the time a check takes tells how much of a made-up tag is right: `cargo run --release -p tidegate-tokens --example
//! timing`, on a machine that does nothing else.
//!
//! Checks of two kinds of forged tokens are timed in random order: those whose tag is wrong from its first byte on, and those
//! of which only the last byte is wrong. Where the means differ by more than chance, Welch's t grows beyond 4.5. Beside it
//! stands a comparison that stops at the first difference, to show that one would be found.
//!
//! Source: O. Reparaz, J. Balasch, I. Verbauwhede, Dude, is my code constant time?, DATE 2017 (t-test on cropped times).

mod sample;

use std::{hint::black_box, time::Instant};

use sample::BINDING;

/// Times taken, each of so many checks.
const TIMES: usize = 200_000;
const CHECKS: usize = 16;
/// Times above this percentile of all are an interrupt's, not the check's.
const CROP: usize = 90;
const SIGNIFICANT: f64 = 4.5;

fn main() {
    let (signer, promise) = (sample::signer(), sample::promise());
    let good = signer.place(&promise, BINDING);
    // The tag begins within character 42 and ends with character 63.
    let wrong_at = |from: usize| {
        let mut text = good.as_bytes().to_vec();
        for byte in &mut text[from..] {
            *byte = if *byte == b'A' { b'B' } else { b'A' };
        }
        text
    };
    let kinds = [wrong_at(43), wrong_at(63)];
    tell("check of a token", &kinds, |text| {
        let _ = black_box(signer.read_place(black_box(text), BINDING));
    });
    tell("comparison that stops early", &kinds, |text| {
        let pairs = black_box(text).iter().zip(good.as_bytes());
        black_box(pairs.take_while(|(one, other)| black_box(one) == other).count());
    });
}

fn tell(what: &str, kinds: &[Vec<u8>; 2], check: impl Fn(&[u8])) {
    let mut random = 88_172_645_463_325_252_u64;
    let times: Vec<(usize, f64)> = (0..TIMES)
        .map(|_| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let kind = usize::from(random & 1 == 1);
            let start = Instant::now();
            (0..CHECKS).for_each(|_| check(&kinds[kind]));
            (kind, start.elapsed().as_secs_f64() * 1e9 / CHECKS as f64)
        })
        .collect();
    let mut sorted: Vec<f64> = times.iter().map(|(_, time)| *time).collect();
    sorted.sort_by(f64::total_cmp);
    let most = sorted[TIMES * CROP / 100];
    let of = |kind: usize| -> Vec<f64> {
        times.iter().filter(|(of, time)| *of == kind && *time <= most).map(|(_, time)| *time).collect()
    };
    let (first, last) = (of(0), of(1));
    let (one, other) = (moments(&first), moments(&last));
    let t = (one.0 - other.0) / (one.1 / first.len() as f64 + other.1 / last.len() as f64).sqrt();
    let verdict = if t.abs() > SIGNIFICANT { "they differ" } else { "no difference found" };
    println!("{what}: {:.2} and {:.2} ns, t = {t:.1}: {verdict}", one.0, other.0);
}

/// Mean and variance.
fn moments(times: &[f64]) -> (f64, f64) {
    let count = times.len() as f64;
    let mean = times.iter().sum::<f64>() / count;
    (mean, times.iter().map(|time| (time - mean).powi(2)).sum::<f64>() / (count - 1.0))
}
