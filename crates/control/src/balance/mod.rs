//! Balancing: which upstream server gets a request.

mod consistent_hash;
mod least_in_flight;
mod peak_ewma;
mod power_of_two;
mod round_robin;

#[cfg(test)]
mod tests;

use std::time::Duration;

pub use peak_ewma::PeakEwma;

use self::round_robin::SmoothRoundRobin;
use crate::{ServerId, knobs::BalancePolicy};

/// A server as it stands at the moment of choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Its id.
    pub id: ServerId,
    /// A hash of its name (or address), the same in every process: consistent hashing draws from
    /// it, so that cores, gateways and restarts agree.
    pub key: u64,
    /// Its share among its peers, slow start already applied; 0: takes nothing.
    pub weight: u32,
    /// Requests in flight at it.
    pub in_flight: u32,
    /// Requests it may have in flight at once; `None`: any number.
    pub in_flight_max: Option<u32>,
    /// Its peak EWMA response time; zero: not known yet.
    pub ewma: Duration,
}

impl Candidate {
    /// Whether it may get a request.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.weight > 0 && self.in_flight_max.is_none_or(|max| self.in_flight < max)
    }
}

/// Chooses servers by a policy; each core has its own.
///
/// No policy ever chooses a server of weight 0 or one that is full.
///
/// | policy | choice | cost in `n` servers |
/// |---|---|---|
/// | [`BalancePolicy::RoundRobin`] | smooth weighted round robin | O(n) |
/// | [`BalancePolicy::LeastInFlight`] | fewest in flight for its weight, ties at random | O(n) |
/// | [`BalancePolicy::PowerOfTwo`] | the better of two drawn by weight, by peak EWMA | O(n), two draws |
/// | [`BalancePolicy::ConsistentHash`] | weighted rendezvous | O(n), a logarithm each |
///
/// Memory: 16 bytes a server under round robin, nothing under the others.
///
/// ```
/// use std::time::Duration;
/// use tidegate_control::{ServerId, balance::{Balancer, Candidate}, knobs::BalancePolicy};
///
/// let server = |id, weight, in_flight| Candidate {
///     id: ServerId(id), key: u64::from(id), weight, in_flight, in_flight_max: Some(4), ewma: Duration::ZERO,
/// };
/// let mut balancer = Balancer::new(BalancePolicy::LeastInFlight);
/// // (1 + 1) / 100 against (2 + 1) / 300: the second is less loaded for its weight.
/// assert_eq!(balancer.choose(1, &[server(0, 100, 1), server(1, 300, 2)], 0, 0), Some(ServerId(1)));
/// // Full: never.
/// assert_eq!(balancer.choose(1, &[server(0, 100, 4), server(1, 300, 4)], 0, 0), None);
/// ```
#[derive(Clone, Debug)]
pub struct Balancer {
    policy: BalancePolicy,
    /// State of round robin, for the set of this version.
    turns: SmoothRoundRobin,
}

impl Balancer {
    /// A balancer by `policy`.
    #[must_use]
    pub const fn new(policy: BalancePolicy) -> Self {
        Self { policy, turns: SmoothRoundRobin::new() }
    }

    /// The policy.
    #[must_use]
    pub const fn policy(&self) -> BalancePolicy {
        self.policy
    }

    /// Changes the policy.
    pub fn configure(&mut self, policy: BalancePolicy) {
        if policy != self.policy {
            *self = Self::new(policy);
        }
    }

    /// The server for a request; `None` if no candidate is open.
    ///
    /// - `version`: changes whenever servers are added, removed or reordered in `candidates`;
    ///   round robin aligns its state to it.
    /// - `candidates`: at most 65,536, each id once.
    /// - `hash`: of what consistent hashing keeps together (client, header, cookie).
    /// - `random`: a uniform random number, fresh for each call.
    #[must_use]
    pub fn choose(
        &mut self,
        version: u64,
        candidates: &[Candidate],
        hash: u64,
        random: u64,
    ) -> Option<ServerId> {
        match self.policy {
            BalancePolicy::RoundRobin => self.turns.choose(version, candidates, random),
            BalancePolicy::LeastInFlight => least_in_flight::choose(candidates, random),
            BalancePolicy::PowerOfTwo => power_of_two::choose(candidates, random),
            BalancePolicy::ConsistentHash => consistent_hash::choose(candidates, hash),
        }
    }

    /// Checks what must hold between calls.
    ///
    /// # Panics
    ///
    /// If it does not: a mistake in this program.
    pub fn check_invariants(&self) {
        self.turns.check_invariants();
    }
}

/// Scales a random number to `0..bound` (Lemire 2019, "Fast Random Integer Generation in an
/// Interval", without its rejection: the bias is below `bound` / 2^32).
const fn below(random: u32, bound: u64) -> u64 {
    ((random as u128 * bound as u128) >> 32) as u64
}
