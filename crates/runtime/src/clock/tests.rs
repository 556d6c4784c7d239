//! The clock, with the monotonic and the wall clock played.

use std::sync::{
    Arc, Barrier,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use super::*;

const S: Duration = Duration::from_secs(1);
const WALL: Timestamp = Timestamp::from_nanos(1_700_000_000_000_000_000);

/// Steers once a second for `seconds`, with the wall clock `skew(second)` nanoseconds off; gives
/// the error at the end. Time is monotone, at most [`SLEW_MAX_NS_PER_S`] faster or slower, on the way.
fn steered(line: &mut Line, from: u64, seconds: u64, skew: impl Fn(u64) -> i64) -> i64 {
    let wall_at = |second: u64| {
        let nanos = i128::from(WALL.as_nanos()) + i128::from(second) * BILLION + i128::from(skew(second));
        Timestamp::from_nanos(u64::try_from(nanos).unwrap())
    };
    for second in from..from + seconds {
        let now = S * u32::try_from(second).unwrap();
        let before = line.at(now);
        *line = line.steer(now, wall_at(second));
        assert_eq!(line.at(now), before, "no jump");
        let gone = line.at(now + S).since(before);
        let most = Duration::from_nanos(SLEW_MAX_NS_PER_S.unsigned_abs());
        assert!(gone >= S - most && gone <= S + most, "{gone:?} in a second");
    }
    let end = from + seconds;
    line.error(S * u32::try_from(end).unwrap(), wall_at(end))
}

#[test]
fn a_small_error_is_made_up_for_and_a_steady_drift_is_followed() {
    let mut line = Line::from(WALL);
    // 3 ms off: within a minute less than a tenth of it is left.
    let left = steered(&mut line, 0, 60, |_| 3_000_000);
    assert!(left.abs() < 300_000, "{left} ns");
    // The computer's crystal is 50 ppm off, which is much.
    let left = steered(&mut line, 60, 600, |second| 3_000_000 + 50_000 * (second as i64 - 60));
    assert!(left.abs() < 1_000_000, "{left} ns");
}

#[test]
fn however_far_the_wall_clock_jumps_time_is_drawn_after_it_slowly() {
    for jump in [3600 * 1_000_000_000, -3600 * 1_000_000_000, i64::MIN / 8, i64::MAX / 8] {
        let mut line = Line::from(WALL);
        let left = steered(&mut line, 0, 100, |_| jump);
        // At the bound for 99 s or 100, the rest remains.
        let drawn = (jump - left).abs();
        assert!((49_000_000..=50_000_000).contains(&drawn), "{drawn} ns");
        assert_eq!(drawn.signum() * jump.signum(), (jump - left).signum());
    }
}

#[test]
fn the_instant_of_a_time_is_the_first_at_which_it_is_that_time() {
    let mut line = Line::from(WALL);
    for skew in [0, 7_000_000_001, -7_000_000_001] {
        line = line.steer(S * 5, Timestamp::from_nanos((WALL + S * 5).as_nanos().wrapping_add_signed(skew)));
        for after in [0, 1, 999, 1_000_000_007, 86_400_000_000_000] {
            let at = line.at(S * 5) + Duration::from_nanos(after);
            let when = line.when(at);
            assert!(line.at(when) >= at, "not early");
            let early = when.saturating_sub(Duration::from_nanos(2));
            assert!(after < 2 || line.at(early) < at, "nor late: {skew} {after}");
        }
        assert_eq!(line.when(Timestamp::EPOCH), S * 5, "what is past is due at once");
    }
}

#[test]
fn the_clock_starts_at_the_wall_clock() {
    let before = wall();
    let clock = Clock::start();
    let now = clock.now();
    let after = wall();
    // Nobody sets the wall clock back during a test but by minutes or more.
    if after >= before {
        assert!(now >= before && now <= after + S, "{before} {now} {after}");
    }
    assert!(clock.instant(now) <= Instant::now());
    assert!(clock.instant(now + S) > Instant::now());
}

/// Readers on several threads while the line is replaced as fast as can be, by lines of extreme slopes:
/// no reading is below one that was complete before it began.
#[test]
fn time_never_runs_backwards_between_threads() {
    let clock = Clock::start();
    let (latest, done) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    // All of them have begun to read before anything is written.
    let begun = Arc::new(Barrier::new(4));
    let readers: Vec<_> = (0..3)
        .map(|_| {
            let (latest, done, begun) = (Arc::clone(&latest), Arc::clone(&done), Arc::clone(&begun));
            std::thread::spawn(move || {
                let _ = clock.now();
                begun.wait();
                while !done.load(Ordering::Relaxed) {
                    let before = latest.load(Ordering::SeqCst);
                    let now = clock.now().as_nanos();
                    assert!(now >= before, "{now} after {before}");
                    latest.fetch_max(now, Ordering::SeqCst);
                }
            })
        })
        .collect();
    let State { start, line } = clock.state;
    begun.wait();
    for n in 0..100_000_u64 {
        line.write(|line| {
            let elapsed = start.elapsed();
            let far = if n % 2 == 0 { S * 3600 } else { Duration::ZERO };
            line.steer(elapsed, line.at(elapsed) + far - S * 1800)
        });
    }
    done.store(true, Ordering::Relaxed);
    for reader in readers {
        reader.join().unwrap();
    }
}
