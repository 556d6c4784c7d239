//! Tests of balancing: naive references, shares by counting, and what a change of the set moves.

use std::{collections::BTreeMap, time::Duration};

use proptest::prelude::*;

use super::*;
use crate::{Timestamp, knobs::BalancePolicy as Policy};

/// Knuth's MMIX generator, its high bits: random numbers that are the same on every run.
struct Lcg(u64);

impl Lcg {
    fn next(&mut self) -> u64 {
        let mut half = || {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            self.0 >> 32
        };
        half() << 32 | half()
    }
}

fn server(id: u16, weight: u32) -> Candidate {
    Candidate {
        id: ServerId(id),
        key: u64::from(id) + 1000,
        weight,
        in_flight: 0,
        in_flight_max: None,
        ewma: Duration::ZERO,
    }
}

fn servers(weights: &[u32]) -> Vec<Candidate> {
    (0..).zip(weights).map(|(id, &weight)| server(id, weight)).collect()
}

/// How often each server is chosen of `count` times, with a fresh hash and random number each.
fn shares(policy: Policy, candidates: &[Candidate], count: u32) -> BTreeMap<ServerId, u32> {
    let (mut balancer, mut lcg) = (Balancer::new(policy), Lcg(7));
    let mut chosen = BTreeMap::new();
    for _ in 0..count {
        let id = balancer.choose(1, candidates, lcg.next(), lcg.next()).expect("one is open");
        *chosen.entry(id).or_default() += 1;
    }
    chosen
}

const POLICIES: [Policy; 4] =
    [Policy::RoundRobin, Policy::LeastInFlight, Policy::PowerOfTwo, Policy::ConsistentHash];

fn candidates() -> impl Strategy<Value = Vec<Candidate>> {
    let one = (0..4_u32, 0..4_u32, prop::option::of(1..4_u32), 0..3_u64);
    prop::collection::vec(one, 0..8).prop_map(|all| {
        (0..)
            .zip(all)
            .map(|(id, (weight, in_flight, in_flight_max, ewma_ms))| Candidate {
                in_flight,
                in_flight_max,
                ewma: Duration::from_millis(ewma_ms),
                ..server(id, weight * 50)
            })
            .collect()
    })
}

proptest! {
    #[test]
    fn every_policy_chooses_an_open_server_if_there_is_one(
        sets in prop::collection::vec((candidates(), any::<u64>(), any::<u64>()), 1..20),
    ) {
        for policy in POLICIES {
            let mut balancer = Balancer::new(policy);
            for (version, (candidates, hash, random)) in (0..).zip(&sets) {
                let chosen = balancer.choose(version, candidates, *hash, *random);
                balancer.check_invariants();
                let open = |c: &&Candidate| c.weight > 0 && c.in_flight_max.is_none_or(|max| c.in_flight < max);
                match chosen {
                    Some(id) => {
                        prop_assert!(candidates.iter().filter(open).any(|c| c.id == id), "{policy:?}");
                    }
                    None => prop_assert_eq!(candidates.iter().filter(open).count(), 0, "{:?}", policy),
                }
            }
        }
    }

    #[test]
    fn least_in_flight_chooses_the_least_for_its_weight(candidates in candidates(), random in any::<u64>()) {
        let load = |c: &Candidate| f64::from(c.in_flight + 1) / f64::from(c.weight);
        if let Some(id) = Balancer::new(Policy::LeastInFlight).choose(1, &candidates, 0, random) {
            let chosen = load(&candidates[id.index()]);
            prop_assert!(candidates.iter().filter(|c| c.is_open()).all(|c| chosen <= load(c) * (1.0 + 1e-12)));
        }
    }

    #[test]
    fn power_of_two_never_chooses_the_one_worst(
        candidates in candidates(), random in any::<u64>(), worst in any::<prop::sample::Index>(),
    ) {
        let mut candidates = candidates;
        let count = candidates.len() as u16;
        candidates.extend([server(count, 100), server(count + 1, 100)]);
        let open: Vec<_> = (0..candidates.len()).filter(|at| candidates[*at].is_open()).collect();
        let worst = *worst.get(&open);
        candidates[worst].in_flight_max = None;
        candidates[worst].in_flight = 1_000_000;
        candidates[worst].ewma = Duration::from_secs(3600);
        // What has no known time and a request already is worse still.
        for candidate in &mut candidates {
            candidate.ewma = candidate.ewma.max(Duration::from_millis(1));
        }
        let chosen = Balancer::new(Policy::PowerOfTwo).choose(1, &candidates, 0, random);
        prop_assert_ne!(chosen, Some(ServerId(worst as u16)));
    }

    /// Over a whole cycle each server has exactly its share, and never runs ahead or behind by a turn.
    #[test]
    fn round_robin_shares_are_exact(weights in prop::collection::vec(1..9_u32, 1..6), random in any::<u64>()) {
        let candidates = servers(&weights);
        let total: u32 = weights.iter().sum();
        let mut balancer = Balancer::new(Policy::RoundRobin);
        let mut chosen = vec![0_u32; weights.len()];
        // The random start is part of a cycle already: a whole one from anywhere is exact.
        for turn in 1..=total {
            let id = balancer.choose(1, &candidates, 0, random).unwrap();
            balancer.check_invariants();
            chosen[id.index()] += 1;
            for (count, weight) in chosen.iter().zip(&weights) {
                let due = f64::from(turn * weight) / f64::from(total);
                prop_assert!((f64::from(*count) - due).abs() <= weights.len() as f64);
            }
        }
        prop_assert_eq!(chosen, weights);
    }

    /// However the set changes, nobody is starved or flooded for long.
    #[test]
    fn round_robin_is_fair_after_any_changes(
        sets in prop::collection::vec((prop::sample::subsequence((0..8_u16).collect::<Vec<_>>(), 1..8), 1..30_u32), 1..20),
    ) {
        let mut balancer = Balancer::new(Policy::RoundRobin);
        for (version, (ids, turns)) in (0..).zip(sets) {
            let candidates: Vec<_> = ids.iter().map(|id| server(*id, 100)).collect();
            let mut chosen = BTreeMap::new();
            for _ in 0..turns {
                let id = balancer.choose(version, &candidates, 0, 0).unwrap();
                balancer.check_invariants();
                *chosen.entry(id).or_insert(0_u32) += 1;
            }
            for id in ids.iter().map(|id| ServerId(*id)) {
                let (count, due) = (f64::from(*chosen.get(&id).unwrap_or(&0)), f64::from(turns) / ids.len() as f64);
                prop_assert!((count - due).abs() <= 8.0, "{count} of {due}");
            }
        }
    }

    /// Who leaves frees its own clients only; the others stay where they are.
    #[test]
    fn consistent_hash_moves_only_the_clients_of_who_leaves(
        weights in prop::collection::vec(1..4_u32, 2..8),
        leaves in any::<prop::sample::Index>(),
        hashes in prop::collection::vec(any::<u64>(), 50),
    ) {
        let mut balancer = Balancer::new(Policy::ConsistentHash);
        let all = servers(&weights);
        let gone = leaves.index(all.len());
        // Removed, of weight 0, and full are the same.
        let mut removed = all.clone();
        removed.remove(gone);
        removed.reverse();
        let mut idle = all.clone();
        idle[gone].weight = 0;
        let mut full = all.clone();
        full[gone].in_flight_max = Some(0);
        for hash in hashes {
            let before = balancer.choose(1, &all, hash, 0).unwrap();
            let after = balancer.choose(2, &removed, hash, 0).unwrap();
            prop_assert!(after == before || before == all[gone].id);
            prop_assert_eq!(balancer.choose(3, &idle, hash, 0), Some(after));
            prop_assert_eq!(balancer.choose(4, &full, hash, 0), Some(after));
        }
    }

    /// A server whose weight grows only wins clients, and only it does.
    #[test]
    fn consistent_hash_moves_clients_one_by_one_as_weights_grow(
        weights in prop::collection::vec(1..4_u32, 2..8),
        grows in any::<prop::sample::Index>(),
        hashes in prop::collection::vec(any::<u64>(), 50),
    ) {
        let mut balancer = Balancer::new(Policy::ConsistentHash);
        let all = servers(&weights);
        let at = grows.index(all.len());
        let mut grown = all.clone();
        grown[at].weight += 1;
        for hash in hashes {
            let before = balancer.choose(1, &all, hash, 0).unwrap();
            let after = balancer.choose(2, &grown, hash, 0).unwrap();
            prop_assert!(after == before || after == all[at].id);
        }
    }
}

#[test]
fn smooth_round_robin_spreads_a_heavy_server() {
    let candidates = servers(&[5, 1, 1]);
    let mut balancer = Balancer::new(Policy::RoundRobin);
    let turns: Vec<_> = (0..7).map(|_| balancer.choose(1, &candidates, 0, 0).unwrap().0).collect();
    // As in nginx's own description of the algorithm: a a b a c a a.
    assert_eq!(turns, [0, 0, 1, 0, 2, 0, 0]);
}

#[test]
fn cores_begin_round_robin_at_different_servers() {
    let candidates = servers(&[100; 10]);
    let mut lcg = Lcg(1);
    let first: std::collections::BTreeSet<_> = (0..40)
        .map(|_| Balancer::new(Policy::RoundRobin).choose(1, &candidates, 0, lcg.next()).unwrap())
        .collect();
    assert!(first.len() >= 8, "{first:?}");
}

#[test]
fn equals_share_by_chance() {
    // Servers 1, 2 and 4 are equally idle; the bands are five standard deviations.
    let mut candidates = servers(&[100; 5]);
    candidates[0].in_flight = 3;
    candidates[3].in_flight = 1;
    let chosen = shares(Policy::LeastInFlight, &candidates, 30_000);
    assert_eq!(chosen.keys().map(|id| id.0).collect::<Vec<_>>(), [1, 2, 4]);
    for (id, count) in chosen {
        assert!((9_600..10_400).contains(&count), "{id:?}: {count}");
    }
}

#[test]
fn power_of_two_draws_by_weight_where_all_else_is_equal() {
    // All cost nothing, so the first drawn wins: by weight, 1 : 2 : 3 : 4.
    let chosen = shares(Policy::PowerOfTwo, &servers(&[10, 20, 30, 40]), 100_000);
    for (id, count) in chosen {
        let due = 10_000 * (u32::from(id.0) + 1);
        assert!(count.abs_diff(due) < 800, "{id:?}: {count} of {due}");
    }
}

#[test]
fn power_of_two_never_chooses_the_slowest_of_idle_servers() {
    // It would have to be drawn twice, and the two drawn differ.
    let mut candidates = servers(&[100; 4]);
    for (candidate, ms) in candidates.iter_mut().zip([10, 10, 10, 11]) {
        candidate.ewma = Duration::from_millis(ms);
    }
    let chosen = shares(Policy::PowerOfTwo, &candidates, 10_000);
    assert_eq!(chosen.get(&ServerId(3)), None);
}

#[test]
fn a_server_of_unknown_speed_is_tried_once_and_then_not_before_it_answers() {
    let mut candidates = servers(&[100, 100]);
    candidates[0].ewma = Duration::from_millis(50);
    let mut balancer = Balancer::new(Policy::PowerOfTwo);
    assert_eq!(balancer.choose(1, &candidates, 0, 5), Some(ServerId(1)));
    candidates[1].in_flight = 1;
    candidates[0].in_flight = 100;
    assert_eq!(balancer.choose(1, &candidates, 0, 5), Some(ServerId(0)));
}

#[test]
fn consistent_hash_shares_follow_weights() {
    let chosen = shares(Policy::ConsistentHash, &servers(&[10, 20, 30, 40]), 100_000);
    for (id, count) in chosen {
        let due = 10_000 * (u32::from(id.0) + 1);
        assert!(count.abs_diff(due) < 800, "{id:?}: {count} of {due}");
    }
    // Hashes that differ little, too, such as numbers in sequence.
    let (candidates, mut balancer) = (servers(&[100; 4]), Balancer::new(Policy::ConsistentHash));
    let mut counts = [0; 4];
    for hash in 0..40_000 {
        counts[balancer.choose(1, &candidates, hash, 0).unwrap().index()] += 1;
    }
    assert!(counts.iter().all(|count| (9_500..10_500).contains(count)), "{counts:?}");
}

#[test]
fn consistent_hash_is_the_same_in_every_process() {
    // Pinned: a change would move every client of every installation at its upgrade.
    let (candidates, mut balancer) = (servers(&[100, 200, 300]), Balancer::new(Policy::ConsistentHash));
    let chosen: Vec<_> = (0..16).map(|hash| balancer.choose(1, &candidates, hash, 0).unwrap().0).collect();
    assert_eq!(chosen, [1, 2, 2, 1, 2, 0, 0, 2, 1, 0, 1, 0, 2, 0, 2, 2]);
}

#[test]
fn a_changed_policy_begins_afresh() {
    let mut balancer = Balancer::new(Policy::RoundRobin);
    let _ = balancer.choose(1, &servers(&[1, 1]), 0, 0);
    balancer.configure(Policy::LeastInFlight);
    assert_eq!(balancer.policy(), Policy::LeastInFlight);
    assert_eq!(balancer.choose(1, &servers(&[0, 0]), 0, 0), None);
}

proptest! {
    /// Beside the formula over the whole history: the last peak, or what the mixture since gives.
    #[test]
    fn peak_ewma_believes_peaks_at_once_and_good_news_slowly(
        steps in prop::collection::vec((0..5_000_u64, 1..1_000_u64), 1..50),
    ) {
        let mut now = Timestamp::from_nanos(1 << 60);
        let mut ewma = PeakEwma::new(now, Duration::from_secs(2));
        prop_assert_eq!(ewma.value(now), Duration::ZERO);
        let mut naive: f64 = 0.0;
        for (passed_ms, rtt_ms) in steps {
            now = now + Duration::from_millis(passed_ms);
            let rtt = Duration::from_millis(rtt_ms);
            let kept = (-(passed_ms as f64) / 2000.0).exp();
            naive = if rtt.as_secs_f64() >= naive {
                rtt.as_secs_f64()
            } else {
                naive * kept + rtt.as_secs_f64() * (1.0 - kept)
            };
            ewma.observe(now, rtt);
            prop_assert!((ewma.value(now).as_secs_f64() - naive).abs() < 1e-6);
            prop_assert!(ewma.value(now) + Duration::from_nanos(1) >= rtt);
            // Decays while nothing is seen, but never to "unknown".
            prop_assert!(ewma.value(now + Duration::from_secs(1)) <= ewma.value(now));
            prop_assert!(ewma.value(now + Duration::from_secs(3600)) > Duration::ZERO);
        }
    }
}
