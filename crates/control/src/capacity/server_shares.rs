//! Server shares: which part of an application's capacity each server has, so that one lost or added is
//! known at once.
//!
//! ```text
//! share of server s = x_s / Σ x,    x_s = departures of s in saturation, fading over 40 s,
//!                                        plus a prior of PRIOR departures spread by the weights of the servers
//!                                        in service after or before
//! capacity after / before = Σ_(in service after) x / Σ_(in service before) x
//! ```
//!
//! A server never seen has the mean `x` per weight of those that are known. A server that comes back has what
//! it had when it went. The total is measured where all requests depart; only its parts come from here, so that an error of
//! the shares is one of the moment and is measured away.

use crate::ServerId;

/// Seconds over which departures fade.
const MEMORY: f64 = 40.0;
/// Departures' worth of belief in the weights.
const PRIOR: f64 = 50.0;

/// Parts of the capacity by server. Every call is O(servers).
///
/// ```
/// use tidegate_control::{ServerId, capacity::ServerShares};
///
/// let mut shares = ServerShares::default();
/// let (a, b, c) = (ServerId(0), ServerId(1), ServerId(2));
/// assert_eq!(shares.set(&[(a, 100.0), (b, 100.0)]), 1.0); // the first servers change nothing
/// assert_eq!(shares.set(&[(a, 100.0), (b, 100.0), (c, 100.0)]), 1.5);
/// // a does twice what b and c do, each of them a quarter.
/// for (server, requests) in [(a, 2000), (b, 1000), (c, 1000)] {
///     shares.departed(server, requests);
/// }
/// assert!((shares.share(a) - 0.5).abs() < 0.01);
/// assert!((shares.set(&[(b, 100.0), (c, 100.0)]) - 0.5).abs() < 0.01); // a is lost
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServerShares {
    servers: Vec<Server>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Server {
    id: ServerId,
    weight: f64,
    departed: f64,
    in_service: bool,
    was_in_service: bool,
}

impl ServerShares {
    /// These servers are in service now, with their weights (any unit, above 0). Answers the factor by which the capacity has
    /// changed with that; 1 for the first, and where none are left: then there is nothing to say.
    #[must_use]
    pub fn set(&mut self, in_service: &[(ServerId, f64)]) -> f64 {
        let first = self.servers.is_empty();
        let per_weight = self.per_weight();
        for server in &mut self.servers {
            (server.was_in_service, server.in_service) = (server.in_service, false);
        }
        for &(id, weight) in in_service {
            let weight = if weight.is_finite() && weight > 0.0 { weight } else { f64::MIN_POSITIVE };
            if let Some(server) = self.servers.iter_mut().find(|server| server.id == id) {
                (server.weight, server.in_service) = (weight, true);
            } else {
                let departed = per_weight * weight;
                self.servers.push(Server { id, weight, departed, in_service: true, was_in_service: false });
            }
        }
        let before = self.sum_of(|server| server.was_in_service);
        let after = self.sum_of(|server| server.in_service);
        if first || before <= 0.0 || after <= 0.0 { 1.0 } else { after / before }
    }

    /// So many requests departed from a server while the limit kept something waiting.
    pub fn departed(&mut self, server: ServerId, requests: u64) {
        if let Some(server) = self.servers.iter_mut().find(|known| known.id == server) {
            server.departed += requests as f64;
        }
    }

    /// `seconds` of saturation have passed.
    pub fn fade(&mut self, seconds: f64) {
        let keep = (-seconds / MEMORY).exp();
        for server in self.servers.iter_mut().filter(|server| server.in_service) {
            server.departed *= keep;
        }
    }

    /// The part of one server, 0 to 1.
    #[must_use]
    pub fn share(&self, server: ServerId) -> f64 {
        let all = self.sum_of(|known| known.in_service);
        if all > 0.0 { self.sum_of(|known| known.in_service && known.id == server) / all } else { 0.0 }
    }

    fn sum_of(&self, which: impl Fn(&Server) -> bool) -> f64 {
        // Of addresses that are gone for good there may be any number.
        let counts = |server: &&Server| server.in_service || server.was_in_service;
        let weights: f64 = self.servers.iter().filter(counts).map(|server| server.weight).sum();
        let part = |server: &Server| server.departed + PRIOR * server.weight / weights.max(f64::MIN_POSITIVE);
        self.servers.iter().filter(|server| which(server)).map(part).sum()
    }

    /// Mean departures for a unit of weight, of the servers in service.
    fn per_weight(&self) -> f64 {
        let known = self.servers.iter().filter(|server| server.in_service);
        let (departed, weight) =
            known.fold((0.0, 0.0), |sum, server| (sum.0 + server.departed, sum.1 + server.weight));
        if weight > 0.0 { departed / weight } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As behind a name that stands for other addresses after each release: the prior stays what it is.
    #[test]
    fn servers_that_are_gone_take_nothing_of_the_prior() {
        let mut shares = ServerShares::default();
        for release in 0..100_u16 {
            let two = [0, 1].map(|n| (ServerId(2 * release + n), 100.0));
            assert!((shares.set(&two) - 1.0).abs() < 1e-9, "two as good as those before");
        }
        // Of four, two of them gone by now, each has a quarter of the prior.
        shares.departed(ServerId(198), 50);
        assert!((shares.share(ServerId(198)) - 62.5 / 75.0).abs() < 1e-9);
    }
}
