//! What it costs to sign and to check a token. `make bench` runs it; alone: `cargo run --release -p tidegate-tokens --example cost`.

mod sample;

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use sample::BINDING;

const TIMES: u32 = 200_000;

fn main() {
    let (signer, promise) = (sample::signer(), sample::promise());
    let good = signer.place(&promise, BINDING);
    let mut forged = good.as_bytes().to_vec();
    forged[63] ^= 1;
    let each = |what: &str, f: &mut dyn FnMut()| {
        let mut best = Duration::MAX;
        for _ in 0..5 {
            let start = Instant::now();
            (0..TIMES).for_each(|_| f());
            best = best.min(start.elapsed() / TIMES);
        }
        println!("{what}: {} ns", best.as_nanos());
    };
    each("sign", &mut || {
        black_box(signer.place(black_box(&promise), BINDING));
    });
    each("check, ours", &mut || {
        let _ = black_box(signer.read_place(black_box(good.as_bytes()), BINDING));
    });
    each("check, forged", &mut || {
        let _ = black_box(signer.read_place(black_box(&forged), BINDING));
    });
}
