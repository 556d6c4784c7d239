//! What admission shows of a moment.

use super::path::Path;
use crate::{ClassId, limit::Limiter, tls_sessions::TlsSessions};

/// Levels at one moment, for meters.
#[derive(Clone, Copy, Debug)]
pub struct Levels<'a> {
    /// Weight in flight.
    pub in_flight: u64,
    /// The in-flight limit in force, weight units: what is dormant is on top of what was found.
    pub limit: u32,
    /// Weight in flight that is dormant: it stays, and takes nothing of what was found.
    pub dormant: u64,
    /// Capacity as found or given, work units a second; one is what a request of the default class costs.
    pub capacity: Option<f64>,
    /// Long streams open.
    pub long_streams: u64,
    /// TLS sessions; `None` while nothing looks at them.
    pub tls_sessions: Option<&'a TlsSessions>,
    pub(super) path: &'a Path,
    pub(super) shadows: Option<&'a Path>,
    pub(super) limiter: &'a Limiter,
}

impl Levels<'_> {
    /// Requests waiting, by class.
    pub fn queued(&self) -> impl Iterator<Item = (ClassId, usize)> + '_ {
        self.path.queued()
    }

    /// Requests that would be waiting, had what only watches acted, by class; nothing while nothing watches.
    pub fn would_wait(&self) -> impl Iterator<Item = (ClassId, usize)> + '_ {
        self.shadows.into_iter().flat_map(Path::queued)
    }

    /// What a request of each class costs, where one of the default class costs 1; `None`: not known.
    pub fn costs(&self) -> impl Iterator<Item = (ClassId, Option<f64>)> + '_ {
        self.path.queued().map(|(class, _)| (class, self.limiter.cost(class)))
    }
}
