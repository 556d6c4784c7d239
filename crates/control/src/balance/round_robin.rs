//! Smooth weighted round robin: each server in turn, in proportion to weights and evenly spread.

use super::Candidate;
use crate::ServerId;

/// Nginx's smooth weighted round robin (M. Dounin 2012, `ngx_http_upstream_round_robin.c`).
///
/// At each choice every open server's credit grows by its weight; the one with the most credit
/// is chosen and pays the sum of the weights. Over a cycle of constant weights each server is
/// chosen exactly in proportion, and a heavy one never in a lump: weights 5, 1, 1 give
/// `a a b a c a a`. Full servers and those of weight 0 neither earn nor pay.
#[derive(Clone, Debug)]
pub(super) struct SmoothRoundRobin {
    version: Option<u64>,
    /// In the candidates' order.
    credits: Vec<(ServerId, i64)>,
}

impl SmoothRoundRobin {
    pub(super) const fn new() -> Self {
        Self { version: None, credits: Vec::new() }
    }

    pub(super) fn choose(&mut self, version: u64, candidates: &[Candidate], random: u64) -> Option<ServerId> {
        if self.version != Some(version) || self.credits.len() != candidates.len() {
            let is_first = self.version.is_none();
            self.align(version, candidates);
            if is_first {
                // Cores that begin together would go through the servers in step.
                let turns = random % candidates.len().clamp(1, 64) as u64;
                for _ in 0..turns {
                    self.turn(candidates);
                }
            }
        }
        self.turn(candidates)
    }

    fn turn(&mut self, candidates: &[Candidate]) -> Option<ServerId> {
        let mut total = 0;
        let mut best: Option<(ServerId, &mut i64)> = None;
        for (candidate, (_, credit)) in candidates.iter().zip(&mut self.credits) {
            if !candidate.is_open() {
                continue;
            }
            let weight = i64::from(candidate.weight);
            total += weight;
            *credit += weight;
            if best.as_ref().is_none_or(|(_, most)| *credit > **most) {
                best = Some((candidate.id, credit));
            }
        }
        let (chosen, credit) = best?;
        *credit -= total;
        Some(chosen)
    }

    /// Takes over a changed set: who stays keeps its credit, who is new has none.
    fn align(&mut self, version: u64, candidates: &[Candidate]) {
        let mut old = std::mem::take(&mut self.credits);
        old.sort_unstable_by_key(|entry| entry.0);
        self.credits = candidates
            .iter()
            .map(|candidate| {
                let kept = old.binary_search_by_key(&candidate.id, |entry| entry.0);
                (candidate.id, kept.ok().and_then(|at| old.get(at)).map_or(0, |entry| entry.1))
            })
            .collect();
        self.version = Some(version);
        // Who has left took its credit along; the others share the difference, so that credits
        // sum to zero again and stay bounded however often the set changes.
        let count = self.credits.len() as i64;
        if count > 0 {
            let sum: i64 = self.credits.iter().map(|entry| entry.1).sum();
            for (position, entry) in self.credits.iter_mut().enumerate() {
                entry.1 -= sum.div_euclid(count) + i64::from((position as i64) < sum.rem_euclid(count));
            }
        }
    }

    pub(super) fn check_invariants(&self) {
        assert_eq!(self.credits.iter().map(|entry| entry.1).sum::<i64>(), 0, "credits are conserved");
    }
}
