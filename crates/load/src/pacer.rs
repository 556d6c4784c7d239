//! Waiting for an intended start time to the microsecond.
//!
//! tokio's timers round up to whole milliseconds, which would add up to a millisecond to each
//! latency. A timerfd is exact; one belongs to each class on each thread.

use std::{
    io,
    os::fd::OwnedFd,
    time::{Duration, Instant},
};

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use tokio::io::{Interest, unix::AsyncFd};

/// A timer of nanosecond resolution on the current tokio runtime.
#[derive(Debug)]
pub(crate) struct Pacer {
    timer: AsyncFd<OwnedFd>,
}

impl Pacer {
    pub(crate) fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let descriptor = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        #[expect(
            deprecated,
            reason = "its successor is unsafe; an OwnedFd keeps the promise that it asks for"
        )]
        let timer = AsyncFd::with_interest(descriptor, Interest::READABLE)?;
        Ok(Self { timer })
    }

    /// Returns when `instant` has come, at once if it has passed.
    pub(crate) async fn wait_until(&self, instant: Instant) -> io::Result<()> {
        loop {
            let left = instant.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            // Setting the timer takes back an expiry nobody has read, so it need never be read:
            // the next expiry is a new edge.
            timerfd_settime(self.timer.get_ref(), TimerfdTimerFlags::empty(), &once_after(left))?;
            self.timer.readable().await?.clear_ready();
        }
    }
}

fn once_after(span: Duration) -> Itimerspec {
    Itimerspec {
        it_interval: Timespec { tv_sec: 0, tv_nsec: 0 },
        it_value: Timespec {
            tv_sec: i64::try_from(span.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: span.subsec_nanos().into(),
        },
    }
}
