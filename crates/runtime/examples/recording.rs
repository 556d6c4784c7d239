//! What recording costs a request: all that a served one is counted and timed by, and the flush each second besides.
//!
//! `cargo run --release -p tidegate-runtime --example recording`

use std::{
    io::{self, Write},
    time::{Duration, Instant},
};

use tidegate_control::{ApplicationId, ClassId, ServerId, meters::Meter};
use tidegate_runtime::{CoreMeters, Subject, Totals};

const REQUESTS: u32 = 10_000_000;
/// Requests between two flushes: a busy core's of a second.
const A_SECOND: u32 = 20_000;

fn main() -> io::Result<()> {
    let best = (0..3).map(|_| round()).min().unwrap_or_default();
    let nanos = best.as_secs_f64() * 1e9 / f64::from(REQUESTS);
    writeln!(io::stdout().lock(), "{nanos:.1} ns a request, best of three rounds of {REQUESTS}")
}

/// As `gateway::request` records a request that is served, of times that differ from one to the next.
fn round() -> Duration {
    let (meters, totals) = (CoreMeters::default(), Totals::default());
    let application = ApplicationId(0);
    let class = meters.cells(Subject::Class(application, ClassId(0)));
    let server = meters.cells(Subject::Server(application, ServerId(0)));
    let began = Instant::now();
    for request in 0..REQUESTS {
        let time = Duration::from_nanos(u64::from(request.wrapping_mul(2_654_435_761)) / 64);
        class.add(Meter::ARRIVED, 1);
        class.add(Meter::STARTED, 1);
        class.record(Meter::WAITING_TIME, time / 16);
        server.add(Meter::SERVER_REQUESTS, 1);
        class.record(Meter::SERVICE_TIME, time);
        class.add_labelled(Meter::RESPONSES, 1, 1);
        class.record(Meter::RESPONSE_TIME, time + time / 16);
        class.add(Meter::GOOD, 1);
        class.add(Meter::BYTES_IN, 100);
        class.add(Meter::BYTES_OUT, 1000);
        if request % A_SECOND == 0 {
            meters.flush(&totals);
        }
    }
    began.elapsed()
}
