//! A steady load of small requests, each with an id of its own, that counts what became of every one.

#![allow(dead_code, reason = "each test program uses its part")]

use std::{
    io,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use super::{client::Client, origin::ID};

/// Clients at work, until stopped.
pub(crate) struct Load {
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicUsize>,
    threads: Vec<JoinHandle<Tally>>,
}

/// How clients use their connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Connections {
    /// Each request on one of its own.
    Fresh,
    /// Each client keeps one, and a connection that ends is a failure.
    Kept,
    /// Each client keeps one; when it turns out closed before a byte of the response came, the client asks again
    /// on a new one, as browsers do.
    Reopened,
}

/// What became of the requests.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Ids answered with 200.
    pub(crate) answered: Vec<String>,
    /// Ids of requests sent on a kept connection that was closed without an answer.
    pub(crate) unanswered: Vec<String>,
    /// Everything else, with what happened.
    pub(crate) failed: Vec<String>,
    /// Connections refused; the client then stops.
    pub(crate) refused: usize,
}

impl Load {
    pub(crate) fn start(
        name: &str,
        address: SocketAddr,
        clients: usize,
        connections: Connections,
        path: &str,
    ) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let answered = Arc::new(AtomicUsize::new(0));
        let threads = (0..clients)
            .map(|index| {
                let worker = Worker {
                    prefix: format!("{name}-{index}"),
                    address,
                    connections,
                    path: path.to_owned(),
                    stop: Arc::clone(&stop),
                    answered: Arc::clone(&answered),
                };
                thread::spawn(move || worker.run())
            })
            .collect();
        Self { stop, answered, threads }
    }

    /// Waits until this many more requests have been answered.
    pub(crate) fn await_more(&self, requests: usize) {
        let wanted = self.answered.load(Ordering::Relaxed) + requests;
        for _ in 0..3_000 {
            if self.answered.load(Ordering::Relaxed) >= wanted {
                return;
            }
            thread::sleep(Duration::from_millis(10));
        }
        panic!("{} answered, {wanted} awaited", self.answered.load(Ordering::Relaxed));
    }

    /// Ends the load and adds up.
    pub(crate) fn stop(self) -> Tally {
        self.stop.store(true, Ordering::Relaxed);
        self.join()
    }

    /// Waits until every client has met a refused connection, and adds up.
    pub(crate) fn join(self) -> Tally {
        let mut all = Tally::default();
        for thread in self.threads {
            let tally = thread.join().expect("a client");
            all.answered.extend(tally.answered);
            all.unanswered.extend(tally.unanswered);
            all.failed.extend(tally.failed);
            all.refused += tally.refused;
        }
        all
    }
}

struct Worker {
    prefix: String,
    address: SocketAddr,
    connections: Connections,
    path: String,
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicUsize>,
}

impl Worker {
    fn run(self) -> Tally {
        let mut tally = Tally::default();
        let mut kept: Option<Client> = None;
        let mut number = 0;
        while !self.stop.load(Ordering::Relaxed) && tally.failed.len() < 20 {
            number += 1;
            let id = format!("{}-{number}", self.prefix);
            let mut client = match kept.take().map_or_else(|| Client::connect(self.address), Ok) {
                Ok(client) => client,
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                    tally.refused += 1;
                    return tally;
                }
                Err(error) => {
                    tally.failed.push(format!("{id}: connect: {error}"));
                    continue;
                }
            };
            let close = if self.connections == Connections::Fresh { "connection: close\r\n" } else { "" };
            match client.get(&self.path, &format!("{ID}: {id}\r\n{close}")) {
                Ok(response) if response.status == 200 => {
                    self.answered.fetch_add(1, Ordering::Relaxed);
                    tally.answered.push(id);
                    if !response.closes() {
                        kept = Some(client);
                    }
                }
                Ok(response) => tally.failed.push(format!("{id}: {} {}", response.status, response.text())),
                // Closed while idle: the request crossed the close on the wire.
                Err(_)
                    if self.connections == Connections::Reopened
                        && client.responses > 0
                        && client.is_clean() =>
                {
                    tally.unanswered.push(id);
                }
                Err(error) => {
                    tally.failed.push(format!("{id}: after {} responses: {error}", client.responses))
                }
            }
        }
        tally
    }
}
