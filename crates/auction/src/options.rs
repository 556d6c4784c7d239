//! What a site can be told, and why it may not start.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use crate::Interaction;

/// How a site is to run. `Options::default()` is a site of 33,000 items on a free port of loopback, with a worker a
/// core and no cost on top of its pages.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where to listen; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Threads that work on requests, each on one at a time. Default: one a core.
    pub workers: NonZeroUsize,
    /// Processor time added to each page that asks the database. Default: none.
    pub page_cost: Duration,
    /// Processor time of single interactions, instead of `page_cost`; static pages have none unless named here.
    pub page_costs: BTreeMap<Interaction, Duration>,
    /// Requests that may wait for a worker; one more is answered 503. Default 10,000, about what Tomcat lets in
    /// (`maxConnections` 8,192 and an unbounded queue behind it): many times what a client has patience for.
    pub queue_max: usize,
    /// Connections held at once; further ones wait in the kernel's backlog. Default 10,000.
    pub connections_max: usize,
    /// The kernel's backlog of connections not yet accepted. Default 1,000 (the system's limit applies).
    pub backlog: u32,
    /// Items on sale at the first start, 1 to 1,000,000. Default 33,000, as in RUBiS.
    pub items: u32,
    /// People registered at the first start, 1 to 1,000,000. Default 10,000.
    pub users: u32,
    /// From which the content is generated: the same seed, items and users give the same content.
    pub seed: u64,
    /// Where the database is kept. `None`: in a temporary folder, removed at the end.
    pub directory: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            workers: std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN),
            page_cost: Duration::ZERO,
            page_costs: BTreeMap::new(),
            queue_max: 10_000,
            connections_max: 10_000,
            backlog: 1_000,
            items: 33_000,
            users: 10_000,
            seed: 1,
            directory: None,
        }
    }
}

/// Why a site could not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {source}; choose another address or port 0 for a free one")]
    Listen {
        /// The address asked for.
        address: SocketAddr,
        /// What the system said.
        source: std::io::Error,
    },
    /// A number is out of its range.
    #[error("{option} is {value}: it must be from 1 to 1000000")]
    OutOfRange {
        /// Which option.
        option: &'static str,
        /// What was given.
        value: u32,
    },
    /// The directory holds a site generated otherwise.
    #[error(
        "{path} holds a site of {found}, and {wanted} was asked for; give the same options or another directory"
    )]
    OtherSite {
        /// The database file.
        path: PathBuf,
        /// Items, users and seed in the file.
        found: String,
        /// Items, users and seed asked for.
        wanted: String,
    },
    /// The directory cannot be used.
    #[error("cannot use {path} for the database: {source}")]
    Directory {
        /// The directory or file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// SQLite failed while the site was opened or generated.
    #[error("database {path}: {source}")]
    Database {
        /// The database file.
        path: PathBuf,
        /// What SQLite said.
        source: rusqlite::Error,
    },
    /// A thread or its runtime could not be started.
    #[error("cannot start a thread of the site: {0}")]
    Thread(std::io::Error),
}
