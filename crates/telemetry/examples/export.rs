//! What tracing costs a request: its worker, to note and hand it over, and the exporter's thread, to make spans of it
//! and send them.
//!
//! `cargo run --release -p tidegate-telemetry --example export`

use std::{
    error::Error,
    io::{self, BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use rustix::time::{ClockId, clock_gettime};
use tidegate_control::{ClassId, Timestamp};
use tidegate_runtime::{Shared, TraceIds, TracedRequest};
use tidegate_telemetry::Telemetry;

const ROUNDS: u64 = 50;
/// Fewer than are kept while the exporter is busy.
const REQUESTS: u64 = 4000;

fn main() -> Result<(), Box<dyn Error>> {
    let collector = TcpListener::bind("127.0.0.1:0")?;
    let settings = format!(
        "[telemetry]\nendpoint = \"http://{}\"\nmetrics.interval = \"none\"\ntraces.sample = 1.0\n\
         [[listener]]\naddress = \"127.0.0.1:8080\"\n\
         [application.shop]\nservers = [{{ name = \"one\", url = \"http://127.0.0.1:8000\" }}]\n",
        collector.local_addr()?
    );
    let (came, sink_nanos) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let counted = (Arc::clone(&came), Arc::clone(&sink_nanos));
    thread::spawn(move || {
        for stream in collector.incoming() {
            // It is over when the exporter closes it.
            let _ = stream.and_then(|stream| swallow(stream, &counted.0, &counted.1));
        }
    });
    let settings = tidegate_config::parse(&settings, Path::new("/"), "example")?;
    let shared = Shared::new(settings)?;
    let telemetry = Telemetry::start(&shared)?;

    let cpu_before = nanos(ClockId::ProcessCPUTime);
    let here_before = nanos(ClockId::ThreadCPUTime);
    let (mut handing_over, mut lost) = (Duration::ZERO, 0);
    for _ in 0..ROUNDS {
        let began = Instant::now();
        for request in 0..REQUESTS {
            lost += u64::from(!shared.spans().offer(Box::new(traced(&shared, request))));
        }
        handing_over += began.elapsed();
        thread::sleep(Duration::from_millis(500));
    }
    // Sends what there is.
    drop(telemetry);
    let here = nanos(ClockId::ThreadCPUTime) - here_before;
    let exporting = nanos(ClockId::ProcessCPUTime) - cpu_before - here - sink_nanos.load(Ordering::Relaxed);
    let requests = ROUNDS * REQUESTS;
    let each = |all: u64, of: u64| all as f64 / of as f64;
    writeln!(
        io::stdout().lock(),
        "of {requests} requests of three spans, {lost} lost: {:.0} ns each to note and hand over, {:.0} ns of the \
         exporter's processor, {:.0} bytes sent",
        each(handing_over.as_nanos() as u64, requests),
        each(exporting, requests - lost),
        each(came.load(Ordering::Relaxed), requests - lost),
    )?;
    Ok(())
}

/// As `gateway::request::record` notes a request that waited and was served.
fn traced(shared: &Shared, number: u64) -> TracedRequest {
    let at =
        |millis: u64| Timestamp::from_nanos(1_700_000_000_000_000_000 + (number * 7 + millis) * 1_000_000);
    let application = Arc::clone(&shared.snapshot().applications[0]);
    let server = application.state.servers().members().iter().next().map(Arc::clone);
    TracedRequest {
        ids: TraceIds {
            trace_id: u128::from(number + 1).to_be_bytes(),
            span_id: (number + 1).to_be_bytes(),
            exchange_id: (number + 2).to_be_bytes(),
            waiting_id: (number + 3).to_be_bytes(),
            parent_id: None,
            trace_state: String::new(),
        },
        application,
        class: ClassId(0),
        arrived: at(0),
        started: Some(at(5)),
        connect_time: None,
        answered: Some(at(40)),
        served: Some(at(41)),
        ended: at(42),
        gathering: Duration::ZERO,
        method: "GET".to_owned(),
        scheme: "https",
        path: "/catalogue/item".to_owned(),
        query: Some("id=1234&page=2".to_owned()),
        version: "2",
        host: Some("shop.example".to_owned()),
        user_agent: Some("Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0".to_owned()),
        client: Some([127, 0, 0, 1].into()),
        request_id: Some("01890f3a6b7c-4d5e".to_owned()),
        server,
        tries: 1,
        status: Some(200),
        reason: None,
        would_refuse: None,
        bytes_in: 0,
        bytes_out: 14_000,
    }
}

/// A collector that takes everything: counts bytes of bodies, and notes the processor time of its thread.
fn swallow(stream: TcpStream, came: &AtomicU64, spent: &AtomicU64) -> io::Result<()> {
    let mut answers = stream.try_clone()?;
    let mut stream = BufReader::new(stream);
    let mut length = 0;
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line)? == 0 {
            return Ok(());
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().map_err(io::Error::other)?;
        }
        if line == "\r\n" {
            came.fetch_add(io::copy(&mut stream.by_ref().take(length), &mut io::sink())?, Ordering::Relaxed);
            spent.store(nanos(ClockId::ThreadCPUTime), Ordering::Relaxed);
            answers.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")?;
        }
    }
}

fn nanos(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    u64::try_from(time.tv_sec * 1_000_000_000 + time.tv_nsec).unwrap_or(0)
}
