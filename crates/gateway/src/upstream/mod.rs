//! Servers as one core sees them: choosing one, sending a request there, bringing the response back.
//!
//! [`Upstreams::choose`] asks `control`'s balancer, [`Upstreams::send`] takes a connection from the
//! server's pool or opens one, and the [`UpstreamBody`] that comes back gives the connection to the
//! pool at the end of the message. [`Upstreams::maintain`] is what runs beside requests: names are
//! resolved, servers probed, idle connections closed.

mod balance;
mod body;
mod buffers;
mod connect;
mod encode;
mod error;
mod http1;
mod http2;
mod io;
mod maintain;
mod outgoing;
mod patience;
mod plan;
mod pool;
mod probe;
mod proxy_header;
mod resolve;
mod response;
mod send;
mod servers;
#[cfg(test)]
mod tests;
mod tls;

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    sync::Arc,
};

use tidegate_config::{UpstreamProtocol, UpstreamTls};
use tidegate_runtime::{Core, CoreApplication};
use tokio::sync::Notify;

pub(crate) use self::{
    balance::ChooseHint,
    body::{UpstreamBody, UpstreamUpgraded},
    plan::is_http1_only,
    tls::fault as tls_fault,
};
use self::{
    plan::Plan,
    resolve::{Lookup, SystemLookup},
    servers::CoreServers,
    tls::TlsClient,
};
use crate::exhaustion;

/// Every application's servers, as one core knows them.
pub(crate) struct Upstreams {
    core: Rc<Core>,
    /// Dense by application id.
    applications: RefCell<Vec<Option<Rc<CoreServers>>>>,
    tls_clients: RefCell<Vec<Rc<TlsClient>>>,
    /// State of the random numbers for balancing and tracing.
    random: Cell<u64>,
    lookup: Rc<dyn Lookup>,
    /// Tells the background tasks that settings have changed.
    changed: Notify,
    /// That connections could not be opened for want of something of our own.
    exhaustion: exhaustion::Said,
}

impl Upstreams {
    /// The servers as worker `core` sees them. Names are looked up by the system's resolver.
    pub(crate) fn new(core: Rc<Core>) -> Rc<Self> {
        Self::with_lookup(core, Rc::new(SystemLookup))
    }

    /// The same with another way to look names up.
    pub(crate) fn with_lookup(core: Rc<Core>, lookup: Rc<dyn Lookup>) -> Rc<Self> {
        // Only a seed: what it is does not matter, as long as cores differ.
        let seed = getrandom::u64().unwrap_or(core.index() as u64);
        Rc::new(Self {
            core,
            applications: RefCell::default(),
            tls_clients: RefCell::default(),
            random: Cell::new(seed),
            lookup,
            changed: Notify::new(),
            exhaustion: exhaustion::Said::default(),
        })
    }

    /// The application's servers, under the settings of `application`.
    fn servers(&self, application: &CoreApplication) -> Rc<CoreServers> {
        let snapshot = &application.application;
        let index = snapshot.id.index();
        if let Some(Some(known)) = self.applications.borrow().get(index)
            && known.is_of(snapshot)
        {
            return Rc::clone(known);
        }
        let tls = snapshot.settings.upstream.tls.as_ref();
        let tls = tls.map(|tls| self.tls_client(tls, snapshot.settings.upstream.protocol));
        let plan = Rc::new(Plan::new(&snapshot.settings, tls));
        let mut applications = self.applications.borrow_mut();
        if applications.len() <= index {
            applications.resize_with(index + 1, || None);
        }
        let entry = &mut applications[index];
        let servers = match entry {
            Some(known) => {
                known.configure(Arc::clone(snapshot), plan);
                known
            }
            None => entry.insert(CoreServers::new(Arc::clone(snapshot), plan)),
        };
        Rc::clone(servers)
    }

    /// The TLS client of these settings; shared, so that sessions and what was read are kept.
    fn tls_client(&self, settings: &UpstreamTls, protocol: UpstreamProtocol) -> Rc<TlsClient> {
        let mut clients = self.tls_clients.borrow_mut();
        // Those no plan uses any more go.
        clients.retain(|client| Rc::strong_count(client) > 1 || client.is_of(settings, protocol));
        if let Some(known) = clients.iter().find(|client| client.is_of(settings, protocol)) {
            known.recheck();
            return Rc::clone(known);
        }
        let client = Rc::new(TlsClient::new(settings, protocol));
        clients.push(Rc::clone(&client));
        client
    }

    /// Says, once a minute, that no connection to a server could be opened for want of something of our own.
    fn say_exhausted(&self, why: &str) {
        if self.exhaustion.is_due() {
            tracing::error!(
                "connecting to a server failed, which does not count against it: {why}: with too few open files, raise \
                 LimitNOFILE or `ulimit -n`, or lower connections.max; with no local port left, have connections to \
                 servers kept (upstream.keep_alive, upstream.idle.max) or widen net.ipv4.ip_local_port_range"
            );
        }
    }

    /// SplitMix64: quick, good enough to spread load, and no number comes twice in a row of 2^64.
    pub(crate) fn random(&self) -> u64 {
        let state = self.random.get().wrapping_add(0x9E37_79B9_7F4A_7C15);
        self.random.set(state);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}

impl std::fmt::Debug for Upstreams {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Upstreams").field("core", &self.core.index()).finish_non_exhaustive()
    }
}
