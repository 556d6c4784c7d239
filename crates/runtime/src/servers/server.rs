//! One upstream server as all cores share it: what is in flight there, how fast it answers, how well it is.

use std::{
    fmt,
    net::SocketAddr,
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
    time::Duration,
};

use tidegate_config::{self as config, ServerAddress};
use tidegate_control::{
    ServerId, Timestamp,
    balance::{Candidate, PeakEwma},
    health::{Condition, Health, HealthSettings},
    keep_alive::{Finding, KeepAlive, Waits},
    knobs::{KeepAlivePolicy, Values, keys},
};
use tokio::sync::Notify;

use super::vacancy::Vacancies;

/// One address of a server.
#[derive(Debug)]
pub struct Server {
    id: ServerId,
    name: String,
    host: Option<String>,
    endpoint: Endpoint,
    key: u64,
    token: String,
    ties: Ties,
    in_flight: AtomicU32,
    /// Live requests answered.
    answered: AtomicU32,
    keep_alive: Mutex<Keeping>,
    keeps_connections: AtomicBool,
    /// `u32::MAX`: no bound.
    in_flight_max: AtomicU32,
    weight: AtomicU32,
    is_member: AtomicBool,
    is_draining: AtomicBool,
    ewma: Mutex<PeakEwma>,
    /// The value of `ewma` at the last observation or refresh, so that choosing needs no lock.
    ewma_nanos: AtomicU64,
    health: Mutex<Health>,
    /// Whether a live success would change the health; without it, none takes the lock.
    is_troubled: AtomicBool,
}

/// Whether connections are kept, and what is seen until the next look at it.
#[derive(Debug, Default)]
struct Keeping {
    machine: KeepAlive,
    waits: Waits,
}

/// What a server shares with its set.
#[derive(Debug)]
pub(super) struct Ties {
    /// The set's version, moved on whenever a server's health changes.
    pub(super) version: Arc<AtomicU64>,
    /// Who waits until a server that is full has room again.
    pub(super) vacancies: Arc<Vacancies>,
    /// Told when a server's health changes: who follows what is in service.
    pub(super) changed: Arc<Notify>,
}

/// Where a server's socket is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Endpoint {
    /// IP address and port.
    Tcp(SocketAddr),
    /// A Unix socket's path.
    Unix(PathBuf),
}

/// A server as people and the API see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerStatus {
    /// Its id.
    pub id: ServerId,
    /// Its name in the settings; several members share it when a host name has several addresses.
    pub name: String,
    /// Its address.
    pub endpoint: Endpoint,
    /// Whether it is part of the set; if not, it only ends what it has begun.
    pub is_member: bool,
    /// Whether it is set to drain.
    pub is_draining: bool,
    /// Its share among its peers.
    pub weight: u32,
    /// Requests in flight.
    pub in_flight: u32,
    /// Requests it may have in flight at once.
    pub in_flight_max: Option<u32>,
    /// Its peak EWMA response time as it was at its last answer; `None` before the first.
    pub response_time: Option<Duration>,
    /// Whether connections are kept from one request to the next.
    pub keeps_connections: bool,
    /// Its health.
    pub condition: Condition,
}

impl Server {
    pub(super) fn new(
        id: ServerId,
        settings: &config::Server,
        endpoint: Endpoint,
        now: Timestamp,
        health: HealthSettings,
        ties: Ties,
    ) -> Self {
        let key = fnv1a(&[settings.name.as_bytes(), endpoint.to_string().as_bytes()]);
        let server = Self {
            id,
            name: settings.name.clone(),
            host: match &settings.address {
                ServerAddress::Host { host, .. } => Some(host.clone()),
                ServerAddress::Unix(_) => None,
            },
            endpoint,
            key,
            token: format!("{key:016x}"),
            ties,
            in_flight: AtomicU32::new(0),
            answered: AtomicU32::new(0),
            keep_alive: Mutex::default(),
            keeps_connections: AtomicBool::new(true),
            in_flight_max: AtomicU32::new(u32::MAX),
            weight: AtomicU32::new(0),
            is_member: AtomicBool::new(true),
            is_draining: AtomicBool::new(false),
            ewma: Mutex::new(PeakEwma::new(now, PeakEwma::TAU)),
            ewma_nanos: AtomicU64::new(0),
            health: Mutex::new(Health::new(now, health)),
            is_troubled: AtomicBool::new(false),
        };
        server.configure(now, &settings.values);
        server
    }

    /// Its id.
    #[must_use]
    pub const fn id(&self) -> ServerId {
        self.id
    }

    /// Its name in the settings.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The host as written in the settings, which is what a TLS certificate is checked against;
    /// `None` for a Unix socket.
    #[must_use]
    pub fn host(&self) -> Option<&str> {
        self.host.as_deref()
    }

    /// Where its socket is.
    #[must_use]
    pub const fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// What a sticky cookie says instead of name or address: 16 characters, the same in every
    /// process.
    #[must_use]
    pub fn token(&self) -> &str {
        &self.token
    }

    /// Requests in flight.
    #[must_use]
    pub fn in_flight(&self) -> u32 {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// Live requests answered since the start; wraps around.
    pub(crate) fn answered(&self) -> u32 {
        self.answered.load(Ordering::Relaxed)
    }

    /// Its configured share among its peers.
    pub(super) fn weight(&self) -> u32 {
        self.weight.load(Ordering::Relaxed)
    }

    /// Whether it is part of the set.
    #[must_use]
    pub fn is_member(&self) -> bool {
        self.is_member.load(Ordering::Relaxed)
    }

    /// Whether it may get new requests as far as settings go.
    #[must_use]
    pub fn is_in_service(&self) -> bool {
        self.is_member() && !self.is_draining.load(Ordering::Relaxed)
    }

    /// Counts one more request in flight, unless it is full.
    #[must_use]
    pub fn try_begin(&self) -> bool {
        let max = self.in_flight_max.load(Ordering::Relaxed);
        if max == u32::MAX {
            self.in_flight.fetch_add(1, Ordering::Relaxed);
            return true;
        }
        self.in_flight
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| (n < max).then_some(n + 1))
            .is_ok()
    }

    /// Counts one request less, and tells who waits if the server was full until now.
    pub fn end(&self) {
        let before = self.in_flight.fetch_sub(1, Ordering::Relaxed);
        if before >= self.in_flight_max.load(Ordering::Relaxed) {
            self.ties.vacancies.call_next();
        }
    }

    /// It answered a live request in `response_time`.
    pub fn on_success(&self, now: Timestamp, response_time: Duration) {
        self.answered.fetch_add(1, Ordering::Relaxed);
        // Another core is at it: one observation more or less does not matter.
        if let Ok(mut ewma) = self.ewma.try_lock() {
            ewma.observe(now, response_time);
            self.publish_ewma(&ewma, now);
        }
        if self.is_troubled.load(Ordering::Relaxed) {
            self.with_health(now, None, |health| health.on_success(now));
        }
    }

    /// A live request failed there by its fault.
    pub fn on_failure(&self, now: Timestamp) {
        self.with_health(now, None, |health| health.on_failure(now));
    }

    /// A probe was answered well, or was not: what was wrong.
    pub fn on_probe(&self, now: Timestamp, fault: Option<&str>) {
        self.with_health(now, fault, |health| health.on_probe(now, fault.is_none()));
    }

    /// Lets the response time decay while nothing is observed. Once a second is enough.
    pub fn refresh(&self, now: Timestamp) {
        if let Ok(ewma) = self.ewma.try_lock() {
            self.publish_ewma(&ewma, now);
        }
    }

    /// Whether connections are kept from one request to the next; where not, each is closed after its first.
    #[must_use]
    pub fn keeps_connections(&self) -> bool {
        self.keeps_connections.load(Ordering::Relaxed)
    }

    /// How long requests took there, as one core saw it.
    pub fn saw(&self, waits: Waits) {
        self.keep_alive.lock().unwrap_or_else(PoisonError::into_inner).waits.merge(waits);
    }

    /// Decides whether connections are kept, once a second, by one caller.
    pub fn judge_keep_alive(&self, policy: KeepAlivePolicy) {
        let mut keeping = self.keep_alive.lock().unwrap_or_else(PoisonError::into_inner);
        let keeps = match policy {
            KeepAlivePolicy::Auto => {
                let waits = std::mem::take(&mut keeping.waits);
                if let Some(found) = keeping.machine.look(waits) {
                    self.tell(found);
                }
                keeping.machine.keeps()
            }
            KeepAlivePolicy::Always | KeepAlivePolicy::Never => {
                *keeping = Keeping::default();
                policy == KeepAlivePolicy::Always
            }
        };
        self.keeps_connections.store(keeps, Ordering::Relaxed);
    }

    fn tell(&self, found: Finding) {
        let Finding { keeps, recent, others, closed } = found;
        let what = match keeps {
            true => "connections are kept again: requests on idle ones wait no longer than others",
            false => {
                "connections are closed after each request: idle ones hold the threads for which requests wait"
            }
        };
        tracing::info!(server = self.name, at = %self.endpoint, ?recent, ?others, ?closed, "{what}");
    }

    /// The server as the balancer sees it; what changes with every request is
    /// [`Server::refresh_candidate`]'s.
    #[must_use]
    pub fn candidate(&self, now: Timestamp) -> Candidate {
        let factor = self.health.lock().unwrap_or_else(PoisonError::into_inner).weight_factor(now);
        let weight = f64::from(self.weight.load(Ordering::Relaxed)) * factor;
        let max = self.in_flight_max.load(Ordering::Relaxed);
        let mut candidate = Candidate {
            id: self.id,
            key: self.key,
            // At least 1: 0 would mean never. At most 10,000, so the conversion is exact.
            weight: (weight.round() as u32).max(1),
            in_flight: 0,
            in_flight_max: (max != u32::MAX).then_some(max),
            ewma: Duration::ZERO,
        };
        self.refresh_candidate(&mut candidate);
        candidate
    }

    /// Brings in-flight count and response time up to date; two loads.
    pub fn refresh_candidate(&self, candidate: &mut Candidate) {
        candidate.in_flight = self.in_flight();
        candidate.ewma = Duration::from_nanos(self.ewma_nanos.load(Ordering::Relaxed));
    }

    /// Its health, and when that changes by itself.
    #[must_use]
    pub fn standing(&self, now: Timestamp) -> Standing {
        let health = self.health.lock().unwrap_or_else(PoisonError::into_inner);
        Standing {
            is_up: health.is_up(now),
            is_probed_down: health.is_probed_down(),
            is_growing: health.weight_factor(now) < 1.0,
            next_change: health.next_timeout().filter(|at| *at > now),
        }
    }

    pub(super) fn status(&self, now: Timestamp) -> ServerStatus {
        let max = self.in_flight_max.load(Ordering::Relaxed);
        ServerStatus {
            id: self.id,
            name: self.name.clone(),
            endpoint: self.endpoint.clone(),
            is_member: self.is_member(),
            is_draining: self.is_draining.load(Ordering::Relaxed),
            weight: self.weight.load(Ordering::Relaxed),
            in_flight: self.in_flight(),
            in_flight_max: (max != u32::MAX).then_some(max),
            keeps_connections: self.keeps_connections(),
            response_time: self.ewma.lock().unwrap_or_else(PoisonError::into_inner).at_last_observation(),
            condition: self.health.lock().unwrap_or_else(PoisonError::into_inner).condition(now),
        }
    }

    /// Takes over the server's own knobs.
    pub(super) fn configure(&self, now: Timestamp, values: &Values) {
        let count = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
        self.weight.store(count(values.get(keys::SERVER_WEIGHT)), Ordering::Relaxed);
        let max = values.get(keys::SERVER_IN_FLIGHT_MAX).map_or(u32::MAX, count);
        self.in_flight_max.store(max, Ordering::Relaxed);
        let is_draining = values.get(keys::SERVER_DRAIN);
        if self.is_draining.swap(is_draining, Ordering::Relaxed) && !is_draining {
            self.with_health(now, None, |health| health.on_return(now));
        }
    }

    pub(super) fn configure_health(&self, now: Timestamp, settings: HealthSettings) {
        self.with_health(now, None, |health| health.configure(now, settings));
    }

    /// It joins again after having left: as good as new.
    pub(super) fn renew(&self, now: Timestamp, settings: HealthSettings) {
        self.with_health(now, None, |health| *health = Health::new(now, settings));
    }

    pub(super) fn set_member(&self, is_member: bool) {
        self.is_member.store(is_member, Ordering::Relaxed);
    }

    fn publish_ewma(&self, ewma: &PeakEwma, now: Timestamp) {
        let nanos = u64::try_from(ewma.value(now).as_nanos()).unwrap_or(u64::MAX);
        self.ewma_nanos.store(nanos, Ordering::Relaxed);
    }

    fn with_health(&self, now: Timestamp, fault: Option<&str>, change: impl FnOnce(&mut Health)) {
        let mut health = self.health.lock().unwrap_or_else(PoisonError::into_inner);
        let before = health.condition(now);
        change(&mut health);
        let after = health.condition(now);
        self.is_troubled.store(health.is_troubled(), Ordering::Relaxed);
        drop(health);
        if before != after {
            self.ties.version.fetch_add(1, Ordering::Release);
            // One that is back may have room.
            self.ties.vacancies.call_all();
            self.ties.changed.notify_one();
            match after {
                Condition::Up => tracing::info!(server = self.name, at = %self.endpoint, "in service again"),
                Condition::OnTrial => {}
                Condition::Paused(_) => {
                    tracing::warn!(server = self.name, at = %self.endpoint, "out of service: requests failed there");
                }
                Condition::ProbedDown => {
                    tracing::warn!(server = self.name, at = %self.endpoint, fault, "out of service: probes failed");
                }
            }
        }
    }
}

/// A server's health at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Whether it takes requests.
    pub is_up: bool,
    /// Whether probes hold it out: then it stays out even when every other is out too.
    pub is_probed_down: bool,
    /// Whether its weight still grows by slow start.
    pub is_growing: bool,
    /// When it comes back by itself.
    pub next_change: Option<Timestamp>,
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// FNV-1a, 64 bits (Fowler, Noll & Vo, draft-eastlake-fnv): short, and the same in every version
/// and process, which the hashers of libraries do not promise. Parts are told apart by a zero byte.
fn fnv1a(parts: &[&[u8]]) -> u64 {
    let bytes = parts.iter().flat_map(|part| part.iter().chain(&[0]));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    #[test]
    fn fnv1a_is_the_published_function() {
        // Test vectors of the draft's appendix, of inputs that end in a zero byte.
        assert_eq!(super::fnv1a(&[]), 0xcbf2_9ce4_8422_2325);
        assert_eq!(super::fnv1a(&[b"foobar"]), 0x34531ca7168b8f38);
    }
}
