//! How many requests a second the simulator gets through on one core: of wall time, and of processor time, which does
//! not depend on what else the machine does.
//!
//! `cargo run --release -p tidegate-sim --example speed`

#![expect(clippy::disallowed_methods, reason = "wall time is what is measured")]

use std::{
    io::{self, Write},
    time::{Duration, Instant},
};

use tidegate_control::ClassId;
use tidegate_sim::{
    Application, Arrivals, Behaviour, Class, Clients, Direct, Draw, Front, Gateway, Host, Population,
    Scenario, Server, run,
};

fn main() -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "requests per second of wall time, and of processor time, one core, best of three")?;
    let plain = scenario(0.7, None);
    let crowded = scenario(3.0, Some(Duration::from_secs(1)));
    report(&mut out, "plain case, no front", &plain, &mut || Box::new(Direct))?;
    report(&mut out, "plain case, through control and its meters", &plain, &mut || {
        Box::new(gateway(&plain))
    })?;
    report(&mut out, "three times capacity, clients that give up, control", &crowded, &mut || {
        Box::new(gateway(&crowded))
    })
}

/// Poisson arrivals to 16 workers of 1 ms, for two million requests.
fn scenario(load: f64, timeout: Option<Duration>) -> Scenario {
    let per_s = 16_000.0 * load;
    let class = Class { work: Draw::Exponential { mean: 0.001 }, ..Class::default() };
    let application = Application {
        classes: vec![class],
        server: Server { threads: Some(16), ..Server::default() },
        clients: vec![Clients {
            name: "visitors".to_owned(),
            population: Population::Open {
                arrivals: Arrivals::Poisson { per_s },
                mix: vec![(ClassId(0), 1.0)],
                clients: 1000,
            },
            behaviour: Behaviour { timeout, retry: None },
        }],
        ..Application::default()
    };
    Scenario {
        duration: Duration::from_secs_f64(2_000_000.0 / per_s),
        host: Host { processors: 16, ..Host::default() },
        applications: vec![application],
        ..Scenario::default()
    }
}

fn gateway(scenario: &Scenario) -> Gateway {
    Gateway::of(&scenario.applications[0])
}

fn report(
    out: &mut impl Write,
    name: &str,
    scenario: &Scenario,
    front: &mut dyn FnMut() -> Box<dyn Front>,
) -> io::Result<()> {
    let (mut best, mut best_on_cpu) = (f64::MAX, f64::MAX);
    let mut requests = 0;
    for _ in 0..3 {
        let mut front = front();
        let (began, on_cpu) = (Instant::now(), processor_time());
        let result = run(scenario, front.as_mut());
        best = best.min(began.elapsed().as_secs_f64());
        best_on_cpu = best_on_cpu.min(processor_time() - on_cpu);
        requests = result.requests;
    }
    #[expect(clippy::cast_precision_loss, reason = "a count as a rate")]
    let requests = requests as f64;
    writeln!(out, "{:>10.0} {:>10.0}  {name} ({requests} requests)", requests / best, requests / best_on_cpu)
}

/// Seconds this thread has been on a processor, as Linux tells; elsewhere nothing, and the rate is infinite.
fn processor_time() -> f64 {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    told.split(' ').next().and_then(|nanos| nanos.parse::<f64>().ok()).map_or(0.0, |nanos| nanos * 1e-9)
}
