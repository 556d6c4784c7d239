//! Running a plan: threads of its own, and one report from what they bring home.

use std::{
    io,
    net::{SocketAddr, ToSocketAddrs},
    sync::Arc,
    thread,
    time::{Duration, Instant, SystemTime},
};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::{runtime::LocalRuntime, sync::oneshot};

use crate::{
    client::Destination,
    error::LoadError,
    live::Live,
    origin::pin,
    pacer::Pacer,
    plan::{ClassTemplate, Plan, Resolved},
    report::Report,
    tally::{ClassTally, ThreadTally},
    worker::Worker,
};

/// Time between the start of the threads and the first intended start, in which they get ready.
const LEAD: Duration = Duration::from_millis(20);

/// Runs the plan on threads of its own and waits for the report.
///
/// # Errors
/// See [`LoadError`]; whatever the server does ends up in the report instead.
pub fn run_blocking(plan: Plan) -> Result<Report, LoadError> {
    let live = Live::new(&plan);
    run_blocking_with(&plan, &Arc::new(live))
}

/// The same as [`run_blocking`], with counters to watch and a way to stop early.
///
/// # Errors
/// As [`run_blocking`]; also if `live` was made for another plan.
pub fn run_blocking_with(plan: &Plan, live: &Arc<Live>) -> Result<Report, LoadError> {
    run_resolved(plan, &plan.resolve()?, live)
}

/// Runs a plan whose texts and files have been read.
pub(crate) fn run_resolved(plan: &Plan, resolved: &Resolved, live: &Arc<Live>) -> Result<Report, LoadError> {
    if !live.matches(plan) {
        return Err(LoadError::Plan(vec![
            "live: was made for another plan; use Live::new(&plan)".to_owned(),
        ]));
    }
    let destination = destination(plan, resolved)?;
    let has_sessions = resolved.classes.iter().any(|class| class.chain.is_some());
    // A session that thinks keeps its connection.
    raise_descriptor_limit(plan.in_flight_max + if has_sessions { plan.waiting_max } else { 0 });
    let begin = Instant::now() + LEAD;
    let began_at = SystemTime::now() + LEAD;
    let mut threads = Vec::new();
    for index in 0..plan.threads {
        let setup = Setup {
            index,
            begin,
            plan: plan.clone(),
            length: resolved.length,
            templates: resolved.classes.clone(),
            destination: destination.clone(),
            live: Arc::clone(live),
        };
        let spawned = thread::Builder::new().name(format!("load-{index}")).spawn(move || setup.run());
        match spawned {
            Ok(handle) => threads.push(handle),
            Err(source) => {
                live.stop();
                return Err(LoadError::System { attempt: format!("start thread {index}"), source });
            }
        }
    }
    let mut merged =
        ThreadTally { classes: vec![ClassTally::default(); plan.classes.len()], ..ThreadTally::default() };
    let mut failure = None;
    for handle in threads {
        match handle.join() {
            Ok(Ok(tally)) => {
                merged.connections.add(&tally.connections);
                merged.cpu += tally.cpu;
                merged.cpu_max = merged.cpu_max.max(tally.cpu_max);
                for (class, theirs) in merged.classes.iter_mut().zip(&tally.classes) {
                    class.add(theirs);
                }
            }
            Ok(Err(error)) => failure = Some(error),
            Err(_) => failure = Some(LoadError::Panicked),
        }
    }
    match failure {
        Some(error) => Err(error),
        None => Ok(Report::new(plan, resolved, began_at, begin.elapsed(), merged, live)),
    }
}

/// Runs the plan on threads of its own without blocking the caller's runtime. Dropping the future
/// stops the run.
///
/// # Errors
/// As [`run_blocking`].
pub async fn run(plan: Plan) -> Result<Report, LoadError> {
    let live = Arc::new(Live::new(&plan));
    run_with(plan, live).await
}

/// The same as [`run`], with counters to watch and a way to stop early.
///
/// # Errors
/// As [`run_blocking_with`].
pub async fn run_with(plan: Plan, live: Arc<Live>) -> Result<Report, LoadError> {
    let (done, report) = oneshot::channel();
    let mut guard = StopOnDrop(Some(Arc::clone(&live)));
    thread::Builder::new()
        .name("load".to_owned())
        .spawn(move || {
            // A receiver that is gone has stopped the run; nobody wants this report.
            let _ = done.send(run_blocking_with(&plan, &live));
        })
        .map_err(|source| LoadError::System { attempt: "start a thread".to_owned(), source })?;
    let report = report.await.unwrap_or(Err(LoadError::Panicked));
    guard.0 = None;
    report
}

/// Stops the run whose future was dropped; disarmed when it has ended.
struct StopOnDrop(Option<Arc<Live>>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        if let Some(live) = &self.0 {
            live.stop();
        }
    }
}

fn destination(plan: &Plan, resolved: &Resolved) -> Result<Destination, LoadError> {
    let target = &resolved.target;
    let addresses: Vec<SocketAddr> = (target.host.as_str(), target.port)
        .to_socket_addrs()
        .map_err(|source| LoadError::Resolve { host: target.host.clone(), source })?
        .collect();
    Ok(Destination {
        addresses,
        scheme: target.scheme(),
        authority: target.authority.clone(),
        tls: resolved.tls.clone(),
        protocol: plan.protocol,
        keep_alive: plan.keep_alive,
        requests_per_connection: plan.requests_per_connection,
        h2_connections: plan.h2_connections,
    })
}

/// A request in flight may need a descriptor, and so does a session. What the system does not grant shows as
/// `local_limit` errors in the report.
fn raise_descriptor_limit(connections_max: usize) {
    let limit = getrlimit(Resource::Nofile);
    let wanted = u64::try_from(connections_max).unwrap_or(u64::MAX).saturating_add(1024);
    let grantable = limit.maximum.map_or(wanted, |maximum| maximum.min(wanted));
    if limit.current.is_some_and(|current| current < grantable) {
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(grantable), maximum: limit.maximum });
    }
}

/// What one thread starts with.
pub(crate) struct Setup {
    pub(crate) index: usize,
    pub(crate) begin: Instant,
    pub(crate) plan: Plan,
    pub(crate) length: Duration,
    pub(crate) templates: Vec<ClassTemplate>,
    pub(crate) destination: Destination,
    pub(crate) live: Arc<Live>,
}

impl Setup {
    fn run(self) -> Result<ThreadTally, LoadError> {
        let system = |attempt: &str| {
            let attempt = format!("{attempt} on generator thread {}", self.index);
            move |source| LoadError::System { attempt, source }
        };
        if !self.plan.cpus.is_empty() {
            let cpu = self.plan.cpus.get(self.index % self.plan.cpus.len()).copied().unwrap_or_default();
            pin(Some(cpu)).map_err(|source| match source.kind() {
                io::ErrorKind::InvalidInput => LoadError::Plan(vec![format!("cpus: {source}")]),
                _ => system(&format!("pin to processor {cpu}"))(source),
            })?;
        }
        let runtime = LocalRuntime::new().map_err(system("start an event loop"))?;
        let entered = runtime.enter();
        let mut pacers = Vec::new();
        for _ in &self.plan.classes {
            pacers.push(Pacer::new().map_err(system("create a timer"))?);
        }
        let waking = Pacer::new().map_err(system("create a timer"))?;
        drop(entered);
        runtime.block_on(Worker::new(self).run(pacers, waking))
    }
}
