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
//! it had when it went. Weights are shares among peers: where those that stay all have other ones, it is said in these what the
//! others weigh. The total is measured where all requests depart; only its parts come from here, so that an error of
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
        let new = |id| in_service.iter().find(|(other, _)| *other == id).map(|(_, weight)| sound(*weight));
        let scale = self.scale(new);
        for server in &mut self.servers {
            let weight = new(server.id);
            (server.was_in_service, server.in_service) = (server.in_service, weight.is_some());
            server.weight = weight.unwrap_or(server.weight * scale);
        }
        let per_weight = self.per_weight();
        for &(id, weight) in in_service {
            if !self.servers.iter().any(|server| server.id == id) {
                let weight = sound(weight);
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

    /// How many times what they weighed those weigh now that stay in service; 1 where none stays.
    fn scale(&self, new: impl Fn(ServerId) -> Option<f64>) -> f64 {
        let stay = self.servers.iter().filter(|server| server.in_service);
        let (before, after) = stay
            .filter_map(|server| Some((server.weight, new(server.id)?)))
            .fold((0.0, 0.0), |sum, (before, after)| (sum.0 + before, sum.1 + after));
        if before > 0.0 { after / before } else { 1.0 }
    }

    /// Mean departures for a unit of weight, of the servers that were in service.
    fn per_weight(&self) -> f64 {
        let known = self.servers.iter().filter(|server| server.was_in_service);
        let (departed, weight) =
            known.fold((0.0, 0.0), |sum, server| (sum.0 + server.departed, sum.1 + server.weight));
        if weight > 0.0 { departed / weight } else { 0.0 }
    }
}

/// A weight as it counts.
fn sound(weight: f64) -> f64 {
    if weight.is_finite() && weight > 0.0 { weight } else { f64::MIN_POSITIVE }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file in which `weight = 1` is gone, and a server is new or another one lost.
    #[test]
    fn other_weights_for_all_change_nothing() {
        let (a, b, c) = (ServerId(0), ServerId(1), ServerId(2));
        for departed in [0, 3000] {
            let two_at_1 = || {
                let mut shares = ServerShares::default();
                let _ = shares.set(&[(a, 1.0), (b, 1.0)]);
                shares.departed(a, departed);
                shares.departed(b, departed);
                shares
            };
            let factors =
                [&[(a, 100.0), (b, 100.0), (c, 100.0)][..], &[(a, 100.0), (c, 100.0)], &[(a, 100.0)]]
                    .map(|servers| two_at_1().set(servers));
            assert!(
                factors
                    .iter()
                    .zip([1.5, 1.0, 0.5])
                    .all(|(factor, expected)| (factor - expected).abs() < 1e-9),
                "added, replaced, lost: {factors:?}"
            );
        }
    }

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
