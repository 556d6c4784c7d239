//! The clock: the only place outside tests where the present time is read.
//!
//! Time begins at the wall clock's and is driven by the monotonic clock; from then on it is drawn
//! towards the wall clock at a bounded rate, so that it never jumps and never runs backwards, whatever
//! is done to the wall clock, and does not drift away from it over months either.

use std::{
    sync::atomic::{AtomicI64, AtomicU64, Ordering, fence},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use tidegate_control::Timestamp;

/// Fastest that time is drawn towards the wall clock, nanoseconds a second: what ntpd takes.
const SLEW_MAX_NS_PER_S: i64 = 500_000;

/// An error is made up for over this time, as far as [`SLEW_MAX_NS_PER_S`] allows.
const SLEW_OVER: Duration = Duration::from_secs(16);

/// Gives [`Timestamp`]s: monotone within a process, near the wall clock. Cheap to copy; copies are the
/// same clock.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// Lives as long as the process: there is one clock in it.
    state: &'static State,
}

#[derive(Debug)]
struct State {
    start: Instant,
    line: SharedLine,
}

impl Clock {
    /// A clock anchored at the present wall-clock time. A process starts one and copies it: what it
    /// takes is never given back.
    #[must_use]
    pub fn start() -> Self {
        let start = Instant::now();
        let line = SharedLine::new(Line::from(wall()));
        Self { state: Box::leak(Box::new(State { start, line })) }
    }

    /// The present time. Read it after taking a lock, or time runs backwards between cores.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        let State { start, line } = self.state;
        line.read(|line| line.at(start.elapsed()))
    }

    /// The monotonic instant of `at`, for timers.
    #[must_use]
    pub fn instant(&self, at: Timestamp) -> Instant {
        let State { start, line } = self.state;
        *start + line.read(|line| line.when(at))
    }

    /// Draws time towards the wall clock; gives by how much the wall clock is ahead, in nanoseconds. One
    /// thread calls it every second or so; without it time goes as the monotonic clock does.
    pub fn steer(&self) -> i64 {
        let State { start, line } = self.state;
        let mut ahead = 0;
        line.write(|line| {
            let elapsed = start.elapsed();
            let wall = wall();
            ahead = line.error(elapsed, wall);
            line.steer(elapsed, wall)
        });
        ahead
    }
}

fn wall() -> Timestamp {
    Timestamp::EPOCH + SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO)
}

/// Time as a line over the monotonic clock: at `from` it was `time`, and it goes `1 + slope · 2⁻⁴⁰` as
/// fast. (In powers of two, since time is read several times a request and division is dear.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Line {
    /// Monotonic time since the start, nanoseconds.
    from: u64,
    time: u64,
    slope: i64,
}

impl Line {
    /// From the start on, as fast as the monotonic clock.
    const fn from(time: Timestamp) -> Self {
        Self { from: 0, time: time.as_nanos(), slope: 0 }
    }

    fn at(&self, elapsed: Duration) -> Timestamp {
        let since = nanos(elapsed).saturating_sub(self.from);
        let drawn = (i128::from(since) * i128::from(self.slope)) >> SLOPE_BITS;
        let drawn = i64::try_from(drawn).unwrap_or(0);
        Timestamp::from_nanos(self.time.saturating_add(since).saturating_add_signed(drawn))
    }

    /// When it is `at`; the beginning of the line if that is past. Never early: rounded up.
    fn when(&self, at: Timestamp) -> Duration {
        let gone = at.as_nanos().saturating_sub(self.time);
        let (slope, speed) = (self.slope, ONE_I64 + self.slope);
        // gone / (1 + slope): what it would be without the slope, less what the slope makes up for meanwhile. In 64 bits where that
        // is enough: it is asked once a request, of times that are near.
        let drawn = match i64::try_from(gone).ok().and_then(|gone| gone.checked_mul(slope)) {
            Some(product) => product.div_euclid(speed),
            None => {
                let product = i128::from(gone) * i128::from(slope);
                i64::try_from(product.div_euclid(i128::from(speed))).unwrap_or(0)
            }
        };
        Duration::from_nanos(self.from.saturating_add(gone.saturating_add_signed(drawn.saturating_neg())))
    }

    /// By how many nanoseconds the wall clock is ahead.
    fn error(&self, elapsed: Duration, wall: Timestamp) -> i64 {
        let error = i128::from(wall.as_nanos()) - i128::from(self.at(elapsed).as_nanos());
        i64::try_from(error).unwrap_or(if error > 0 { i64::MAX } else { i64::MIN })
    }

    /// The line that goes on where this one is at `elapsed`, drawn towards the wall clock.
    fn steer(&self, elapsed: Duration, wall: Timestamp) -> Self {
        let error = i128::from(self.error(elapsed, wall));
        let wanted = error * ONE / i128::from(nanos(SLEW_OVER));
        let most = i128::from(SLEW_MAX_NS_PER_S) * ONE / BILLION;
        let slope = i64::try_from(wanted.clamp(-most, most)).unwrap_or(0);
        Self { from: nanos(elapsed), time: self.at(elapsed).as_nanos(), slope }
    }
}

const BILLION: i128 = 1_000_000_000;
const SLOPE_BITS: u32 = 40;
const ONE_I64: i64 = 1 << SLOPE_BITS;
const ONE: i128 = ONE_I64 as i128;

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

/// A line that one thread replaces and all read, without a lock (a seqlock).
///
/// Why time read through it never runs backwards, on whichever threads: who reads looks at the
/// monotonic clock between two looks at the version, and takes what it computed only if the version
/// was the same and even both times. So every reading by an old line was made before the version
/// became odd, and the new line begins after that, at a value the old line had.
#[derive(Debug)]
struct SharedLine {
    /// Odd while the line is being replaced.
    version: AtomicU64,
    from: AtomicU64,
    time: AtomicU64,
    slope: AtomicI64,
}

impl SharedLine {
    const fn new(line: Line) -> Self {
        Self {
            version: AtomicU64::new(0),
            from: AtomicU64::new(line.from),
            time: AtomicU64::new(line.time),
            slope: AtomicI64::new(line.slope),
        }
    }

    fn read<R>(&self, compute: impl Fn(&Line) -> R) -> R {
        /// Looks after which whoever replaces the line has been taken off its processor.
        const SPINS: u32 = 100;
        let mut spins = 0;
        loop {
            let version = self.version.load(Ordering::Acquire);
            if version.is_multiple_of(2) {
                let result = compute(&self.load());
                fence(Ordering::Acquire);
                if self.version.load(Ordering::Relaxed) == version {
                    return result;
                }
            }
            spins += 1;
            if spins < SPINS { std::hint::spin_loop() } else { std::thread::yield_now() }
        }
    }

    /// Replaces the line, unless another thread is doing so.
    fn write(&self, replace: impl FnOnce(&Line) -> Line) {
        let version = self.version.load(Ordering::Relaxed);
        let begins = version.is_multiple_of(2)
            && self
                .version
                .compare_exchange(version, version + 1, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok();
        if !begins {
            return;
        }
        fence(Ordering::Release);
        let line = replace(&self.load());
        self.from.store(line.from, Ordering::Relaxed);
        self.time.store(line.time, Ordering::Relaxed);
        self.slope.store(line.slope, Ordering::Relaxed);
        self.version.store(version + 2, Ordering::Release);
    }

    fn load(&self) -> Line {
        Line {
            from: self.from.load(Ordering::Relaxed),
            time: self.time.load(Ordering::Relaxed),
            slope: self.slope.load(Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests;
