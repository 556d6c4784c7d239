//! The line on the terminal while a run lasts.

use std::{
    io::{self, Write as _},
    sync::mpsc,
    time::{Duration, Instant},
};

use crate::live::{Live, LiveCounts};

/// One line a second on the terminal until the run is over.
pub(super) fn show_progress(live: &Live, length: Duration, finished: &mpsc::Receiver<()>) {
    let begin = Instant::now();
    let mut before = LiveCounts::default();
    while let Err(mpsc::RecvTimeoutError::Timeout) = finished.recv_timeout(Duration::from_secs(1)) {
        let now = live.read().into_iter().fold(LiveCounts::default(), |mut sum, class| {
            sum.offered += class.offered;
            sum.good += class.good;
            sum.refused += class.refused;
            sum.timeouts += class.timeouts;
            sum.failed += class.failed;
            sum.in_flight += class.in_flight;
            sum.waiting += class.waiting;
            sum.sessions_started += class.sessions_started;
            sum.sessions_completed += class.sessions_completed;
            sum.good_latency_us += class.good_latency_us;
            sum
        });
        let good = now.good - before.good;
        let mean_ms = (now.good_latency_us - before.good_latency_us) as f64 / 1e3 / good.max(1) as f64;
        // The line is for the eye only.
        let _ = write!(
            io::stderr(),
            "\r\x1b[K{:>4.0}/{:.0} s  offered {}/s  good {good}/s ({mean_ms:.1} ms)  refused {}/s  \
             timeouts {}/s  failed {}/s  in flight {}{}",
            begin.elapsed().as_secs_f64(),
            length.as_secs_f64(),
            now.offered - before.offered,
            now.refused - before.refused,
            now.timeouts - before.timeouts,
            now.failed - before.failed,
            now.in_flight,
            Extra(&now),
        );
        before = now;
    }
    let _ = write!(io::stderr(), "\r\x1b[K");
}

/// What only some runs have: clients who wait, and sessions.
struct Extra<'a>(&'a LiveCounts);

impl std::fmt::Display for Extra<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let LiveCounts { waiting, sessions_started, sessions_completed, .. } = self.0;
        if *waiting > 0 {
            write!(f, "  waiting {waiting}")?;
        }
        if *sessions_started > 0 {
            write!(f, "  sessions {sessions_completed} of {sessions_started}")?;
        }
        Ok(())
    }
}
