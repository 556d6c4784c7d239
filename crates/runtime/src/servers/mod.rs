//! An application's upstream servers: a dynamic set whose members keep their ids.

mod server;
#[cfg(test)]
mod tests;
mod vacancy;

use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use tokio::sync::{Notify, futures::Notified};

use tidegate_config::{self as config, ServerAddress};
use tidegate_control::{
    ApplicationId, ServerId, Timestamp,
    health::HealthSettings,
    knobs::{Values, keys},
};

use server::Ties;
pub use server::{Endpoint, Server, ServerStatus, Standing};
use vacancy::Vacancies;
pub use vacancy::Vacancy;

use crate::Clock;

/// The servers of one application.
///
/// A server as configured stands for each address its name resolves to; each address is a member
/// of its own, with a [`ServerId`] that is given out once per (server name, address) and never
/// again for another. Who leaves the set (removed from the settings, or its address from DNS) gets
/// nothing new; what runs there ends.
///
/// Cores compare [`ServerSet::version`] (one load) and fetch [`ServerSet::members`] when it has
/// changed. Addresses come from [`ServerSet::resolved`]: looking names up is the caller's.
#[derive(Debug)]
pub struct ServerSet {
    application: ApplicationId,
    clock: Clock,
    /// Shared with the members, whose health and knobs are part of what a version stands for.
    version: Arc<AtomicU64>,
    /// Shared with the members: who waits until one of them has room again.
    vacancies: Arc<Vacancies>,
    /// Tells who follows what is in service that it may have changed.
    changed: Arc<Notify>,
    locked: Mutex<Locked>,
}

/// A server that takes requests now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InService {
    /// Which.
    pub(crate) id: ServerId,
    /// Its configured share among its peers.
    pub(crate) weight: u32,
    /// Live requests it has answered; wraps around.
    pub(crate) answered: u32,
}

/// A host name to be looked up.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostPort {
    /// The name.
    pub host: String,
    /// The port that goes with each of its addresses.
    pub port: u16,
}

/// A server that is configured by a name which has no address yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unresolved {
    /// The server's name in the settings.
    pub name: String,
    /// Host name and port.
    pub address: String,
    /// What the last lookup said, and when; `None` before the first has ended.
    pub failed: Option<(String, Timestamp)>,
}

#[derive(Debug)]
struct Locked {
    configured: Vec<config::Server>,
    health: HealthSettings,
    /// The last good answer for each name looked up.
    addresses: BTreeMap<HostPort, Vec<IpAddr>>,
    /// Why the last lookup of a name failed, and when.
    failed: BTreeMap<HostPort, (String, Timestamp)>,
    /// Every server there ever was, dense by id.
    known: Vec<Arc<Server>>,
    members: Arc<[Arc<Server>]>,
}

impl ServerSet {
    /// Addresses of one name that are used; further ones are left out.
    pub const ADDRESSES_MAX: usize = 256;

    /// The servers of `settings`. Those given by IP address or Unix socket are members at once,
    /// those given by name once they are [`ServerSet::resolved`].
    #[must_use]
    pub fn new(application: ApplicationId, clock: Clock, settings: &config::Application) -> Self {
        let set = Self {
            application,
            clock,
            version: Arc::new(AtomicU64::new(0)),
            vacancies: Arc::default(),
            changed: Arc::new(Notify::new()),
            locked: Mutex::new(Locked {
                configured: Vec::new(),
                health: health_settings(&settings.values),
                addresses: BTreeMap::new(),
                failed: BTreeMap::new(),
                known: Vec::new(),
                members: Arc::new([]),
            }),
        };
        set.configure(settings);
        set
    }

    /// Takes over new settings. Who stays keeps its id, health and what is in flight.
    pub fn configure(&self, settings: &config::Application) {
        let mut locked = self.lock();
        let now = self.clock.now();
        let health = health_settings(&settings.values);
        if locked.configured == settings.servers && locked.health == health {
            // Nothing here has changed, and no core has to look at it anew.
            return;
        }
        locked.configured.clone_from(&settings.servers);
        locked.health = health;
        for server in &locked.known {
            server.configure_health(now, locked.health);
        }
        let names = locked.names();
        locked.addresses.retain(|name, _| names.contains(name));
        locked.failed.retain(|name, _| names.contains(name));
        self.rebuild(&mut locked, now);
    }

    /// The application is configured no more: every server leaves.
    pub fn retire(&self) {
        let mut locked = self.lock();
        locked.configured.clear();
        locked.addresses.clear();
        locked.failed.clear();
        self.rebuild(&mut locked, self.clock.now());
    }

    /// Which application's servers these are.
    #[must_use]
    pub const fn application(&self) -> ApplicationId {
        self.application
    }

    /// Changes whenever members, their knobs or their health do.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// The members, draining and unhealthy ones included.
    #[must_use]
    pub fn members(&self) -> Arc<[Arc<Server>]> {
        Arc::clone(&self.lock().members)
    }

    /// The server of this id, whether it is a member or was one.
    pub(crate) fn server(&self, id: ServerId) -> Option<Arc<Server>> {
        self.lock().known.get(usize::from(id.0)).cloned()
    }

    /// The id of the server with this name in the settings and this address.
    pub(crate) fn id_of(&self, name: &str, address: &str) -> Option<ServerId> {
        let locked = self.lock();
        let is_it = |server: &&Arc<Server>| server.name() == name && server.endpoint().to_string() == address;
        locked.known.iter().find(is_it).map(|server| server.id())
    }

    /// A place among those who wait, from now on; it resolves when a member that was full has room for it, or the set
    /// has changed.
    pub fn vacancy(&self, priority: u8) -> Vacancy<'_> {
        self.vacancies.wait(priority)
    }

    /// Room that somebody was called for, who has left his place, is not taken after all: the next is called.
    pub fn leave_room(&self) {
        self.vacancies.call_next();
    }

    /// Resolves when what is in service may have changed since the last time; for one follower.
    pub(crate) fn changed(&self) -> Notified<'_> {
        self.changed.notified()
    }

    /// Who takes requests now, and when that changes by itself.
    pub(crate) fn in_service(&self) -> (Vec<InService>, Option<Timestamp>) {
        let now = self.clock.now();
        let (mut in_service, mut until) = (Vec::new(), None::<Timestamp>);
        for server in self.members().iter().filter(|server| server.is_in_service()) {
            let standing = server.standing(now);
            if let Some(change) = standing.next_change {
                until = Some(until.map_or(change, |until| until.min(change)));
            }
            if standing.is_up {
                let (id, weight, answered) = (server.id(), server.weight(), server.answered());
                in_service.push(InService { id, weight, answered });
            }
        }
        (in_service, until)
    }

    /// The host names whose addresses are wanted, each once.
    #[must_use]
    pub fn names(&self) -> Vec<HostPort> {
        self.lock().names()
    }

    /// Says which addresses a name has now. Members whose address is gone leave, new ones join;
    /// an answer without addresses changes nothing, as does a name that is not wanted.
    ///
    /// Returns whether anything changed.
    pub fn resolved(&self, name: &HostPort, addresses: &[IpAddr]) -> bool {
        let mut locked = self.lock();
        if addresses.is_empty() || !locked.names().contains(name) {
            return false;
        }
        locked.failed.remove(name);
        let mut addresses = addresses.to_vec();
        addresses.sort_unstable();
        addresses.dedup();
        addresses.truncate(Self::ADDRESSES_MAX);
        if locked.addresses.get(name) == Some(&addresses) {
            return false;
        }
        locked.addresses.insert(name.clone(), addresses);
        self.rebuild(&mut locked, self.clock.now());
        true
    }

    /// Says why a name could not be resolved just now; the addresses it had stay.
    pub fn unresolvable(&self, name: &HostPort, why: String) {
        let mut locked = self.lock();
        if locked.names().contains(name) {
            locked.failed.insert(name.clone(), (why, self.clock.now()));
        }
    }

    /// Those that are configured and no member, since their names have no address.
    #[must_use]
    pub fn unresolved(&self) -> Vec<Unresolved> {
        let locked = self.lock();
        let without_address =
            locked.configured.iter().filter(|server| locked.endpoints(&server.address).is_empty());
        without_address
            .map(|server| Unresolved {
                name: server.name.clone(),
                address: server.address.to_string(),
                failed: host_name(&server.address).and_then(|name| locked.failed.get(&name)).cloned(),
            })
            .collect()
    }

    /// Every member, and who has left but is not done yet.
    #[must_use]
    pub fn list(&self) -> Vec<ServerStatus> {
        let locked = self.lock();
        let now = self.clock.now();
        locked
            .known
            .iter()
            .map(|server| server.status(now))
            .filter(|status| status.is_member || status.in_flight > 0)
            .collect()
    }

    /// Brings the members in line with settings and addresses.
    fn rebuild(&self, locked: &mut Locked, now: Timestamp) {
        let mut members = Vec::new();
        for server in &std::mem::take(&mut locked.configured) {
            for endpoint in locked.endpoints(&server.address) {
                if let Some(member) = self.member(locked, server, endpoint, now) {
                    members.push(member);
                }
            }
            locked.configured.push(server.clone());
        }
        for server in &locked.known {
            server.set_member(members.iter().any(|member| member.id() == server.id()));
        }
        locked.members = members.into();
        self.version.fetch_add(1, Ordering::Release);
        self.vacancies.call_all();
        self.changed.notify_one();
    }

    /// The server of that name and address, known or new, with its present knobs.
    fn member(
        &self,
        locked: &mut Locked,
        settings: &config::Server,
        endpoint: Endpoint,
        now: Timestamp,
    ) -> Option<Arc<Server>> {
        let known = locked.known.iter().find(|s| s.name() == settings.name && *s.endpoint() == endpoint);
        if let Some(server) = known {
            if !server.is_member() {
                server.renew(now, locked.health);
            }
            server.configure(now, &settings.values);
            return Some(Arc::clone(server));
        }
        let Ok(id) = u16::try_from(locked.known.len()) else {
            tracing::error!(
                server = settings.name,
                "not used: {} addresses of this application's servers have been seen since the start, which is \
                 all that can be told apart; restart the gateway",
                locked.known.len()
            );
            return None;
        };
        let ties = Ties {
            version: Arc::clone(&self.version),
            vacancies: Arc::clone(&self.vacancies),
            changed: Arc::clone(&self.changed),
        };
        let server = Arc::new(Server::new(ServerId(id), settings, endpoint, now, locked.health, ties));
        locked.known.push(Arc::clone(&server));
        Some(server)
    }

    fn lock(&self) -> MutexGuard<'_, Locked> {
        self.locked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Locked {
    fn names(&self) -> Vec<HostPort> {
        let mut names: Vec<HostPort> =
            self.configured.iter().filter_map(|server| host_name(&server.address)).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// The endpoints an address stands for, as far as they are known.
    fn endpoints(&self, address: &ServerAddress) -> Vec<Endpoint> {
        match address {
            ServerAddress::Unix(path) => vec![Endpoint::Unix(path.clone())],
            ServerAddress::Host { host, port } => match host.parse() {
                Ok(ip) => vec![Endpoint::Tcp(SocketAddr::new(ip, *port))],
                Err(_) => self
                    .addresses
                    .get(&HostPort { host: host.clone(), port: *port })
                    .into_iter()
                    .flatten()
                    .map(|ip| Endpoint::Tcp(SocketAddr::new(*ip, *port)))
                    .collect(),
            },
        }
    }
}

/// The name that is to be looked up for an address.
fn host_name(address: &ServerAddress) -> Option<HostPort> {
    match address {
        ServerAddress::Host { host, port } if host.parse::<IpAddr>().is_err() => {
            Some(HostPort { host: host.clone(), port: *port })
        }
        _ => None,
    }
}

fn health_settings(values: &Values) -> HealthSettings {
    let count = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
    HealthSettings {
        failures_max: values.get(keys::FAILURES_MAX).map(count),
        pause: values.get(keys::FAILURES_PAUSE),
        probed: values.get(keys::PROBE_INTERVAL).is_some(),
        rise: count(values.get(keys::PROBE_RISE)),
        fall: count(values.get(keys::PROBE_FALL)),
        slow_start: values.get(keys::SLOW_START),
    }
}
