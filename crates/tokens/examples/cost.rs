//! What it costs to sign and to check a token: `cargo run --release -p tidegate-tokens --example cost`.

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use tidegate_control::{
    ClassId, Timestamp,
    waiting_room::{Kind, Promise},
};
use tidegate_tokens::{Key, Keys};

const TIMES: u32 = 200_000;

fn main() {
    let made = Timestamp::from_nanos(1_795_262_400_000_000_000);
    let keys = Keys::new(Key { id: 1, secret: [7; 32], made }, &[]).expect("one key has no double");
    let signer = keys.for_application("shop", &["default"]);
    let promise = Promise {
        kind: Kind::Place,
        class: ClassId(0),
        since: made,
        at: Timestamp::from_nanos(1_795_262_460_000_000_000),
        work: 1000,
        renewed: 0,
        number: 1,
    };
    let good = signer.place(&promise, b"192.0.2");
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
        black_box(signer.place(black_box(&promise), b"192.0.2"));
    });
    each("check, ours", &mut || {
        let _ = black_box(signer.read_place(black_box(good.as_bytes()), b"192.0.2"));
    });
    each("check, forged", &mut || {
        let _ = black_box(signer.read_place(black_box(&forged), b"192.0.2"));
    });
}
