//! Names of servers, looked up again and again: who appears joins, who vanishes leaves.

use std::{
    collections::{BTreeMap, BTreeSet},
    future::Future,
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket},
    pin::Pin,
    rc::Rc,
    time::Duration,
};

use rustix::io::Errno;
use tidegate_runtime::servers::{HostPort, ServerSet};
use tokio::task::{Id, JoinSet};

/// Longest that one lookup may take; then it has failed.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(10);

/// The addresses of a name, some time.
pub(crate) type Answer = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>>>>;

/// A way to look names up.
pub(crate) trait Lookup {
    /// Looks a name up.
    fn lookup(&self, name: &HostPort) -> Answer;
}

/// The system's resolver, which honours `/etc/hosts` and `nsswitch.conf`.
#[derive(Debug)]
pub(crate) struct SystemLookup;

impl Lookup for SystemLookup {
    fn lookup(&self, name: &HostPort) -> Answer {
        let name = (name.host.clone(), name.port);
        Box::pin(async move {
            let found = tokio::net::lookup_host(name).await?.map(|address| address.ip()).collect();
            Ok(with_route(found, has_route))
        })
    }
}

/// Those of the addresses that `has_route` leads to, as IPv6 ones do not where a host speaks IPv4 alone; all where it leads to none.
fn with_route(addresses: Vec<IpAddr>, has_route: impl Fn(IpAddr) -> bool) -> Vec<IpAddr> {
    let reached: Vec<IpAddr> = addresses.iter().copied().filter(|address| has_route(*address)).collect();
    if reached.is_empty() { addresses } else { reached }
}

/// Whether this host knows where to send to an address. Nothing is sent.
fn has_route(address: IpAddr) -> bool {
    let any: IpAddr = match address {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let asked = UdpSocket::bind((any, 0)).and_then(|socket| socket.connect((address, 9)));
    let without = [Errno::AFNOSUPPORT, Errno::ADDRNOTAVAIL, Errno::NETUNREACH, Errno::HOSTUNREACH];
    !asked.is_err_and(|error| Errno::from_io_error(&error).is_some_and(|errno| without.contains(&errno)))
}

/// What is remembered of one application's names between lookups, and the lookups that are under way.
#[derive(Debug, Default)]
pub(super) struct Names {
    answered: BTreeSet<HostPort>,
    /// Those whose last lookup failed: said once, not every time.
    failing: BTreeSet<HostPort>,
    lookups: JoinSet<io::Result<Vec<IpAddr>>>,
    /// What each of them looks up.
    asked: BTreeMap<Id, HostPort>,
}

impl Names {
    /// Begins to look up every name of the set, all at once, or only those never answered so far. A name whose lookup is under
    /// way waits for that one.
    pub(super) fn begin(&mut self, set: &ServerSet, lookup: &Rc<dyn Lookup>, only_new: bool) {
        let names: BTreeSet<HostPort> = set.names().into_iter().collect();
        self.answered.retain(|name| names.contains(name));
        self.failing.retain(|name| names.contains(name));
        let is_asked = |name: &HostPort| self.asked.values().any(|asked| asked == name);
        let wanted = |name: &HostPort| !(is_asked(name) || only_new && self.answered.contains(name));
        for name in names.into_iter().filter(wanted).collect::<Vec<_>>() {
            let answer = lookup.lookup(&name);
            let task = self.lookups.spawn_local(async move {
                match tokio::time::timeout(LOOKUP_TIMEOUT, answer).await {
                    Ok(answer) => answer,
                    Err(_) => Err(io::Error::from(io::ErrorKind::TimedOut)),
                }
            });
            self.asked.insert(task.id(), name);
        }
    }

    /// Gives the set what is answered, until nothing is under way. A name that cannot be looked up keeps its last good
    /// addresses. Safe to drop and call again.
    pub(super) async fn settle(&mut self, set: &ServerSet) {
        while let Some(done) = self.lookups.join_next_with_id().await {
            let (id, answer) = match done {
                Ok((id, answer)) => (id, Some(answer)),
                // A lookup that panicked, or the runtime going away: nothing is known.
                Err(error) => (error.id(), None),
            };
            if let (Some(name), Some(answer)) = (self.asked.remove(&id), answer) {
                self.answered(set, name, answer);
            }
        }
    }

    fn answered(&mut self, set: &ServerSet, name: HostPort, answer: io::Result<Vec<IpAddr>>) {
        match answer {
            Ok(addresses) if !addresses.is_empty() => {
                if set.resolved(&name, &addresses) {
                    tracing::info!(host = name.host, ?addresses, "resolved");
                }
                self.failing.remove(&name);
                self.answered.insert(name);
            }
            answer => {
                let why = answer.map_or_else(|error| error.to_string(), |_| "no addresses".to_owned());
                set.unresolvable(&name, why.clone());
                if self.failing.insert(name.clone()) {
                    let kept = if self.answered.contains(&name) {
                        "last addresses stay in use"
                    } else {
                        "no address known"
                    };
                    tracing::warn!(host = name.host, "cannot be resolved: {why}; {kept}");
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_without_a_route_are_left_out_unless_that_is_all_of_them() {
        let addresses = |texts: &[&str]| -> Vec<IpAddr> {
            texts.iter().map(|text| text.parse().expect("an address")).collect()
        };
        let both = addresses(&["192.0.2.1", "2001:db8::1", "192.0.2.2"]);
        let without_ipv6 = with_route(both.clone(), |address| address.is_ipv4());
        assert_eq!(without_ipv6, addresses(&["192.0.2.1", "192.0.2.2"]));
        assert_eq!(with_route(both.clone(), |_| false), both);
        assert!(has_route(Ipv4Addr::LOCALHOST.into()));
    }
}
