//! Consistent hash: the same client at the same server, by weighted rendezvous.

use super::Candidate;
use crate::ServerId;

/// Chooses the open server whose draw for `hash` is earliest.
///
/// Each server draws for each hash an exponential time of rate `weight`, `-ln(u) / weight`
/// with `u` uniform from (0, 1) by `hash` and the server's key; the earliest wins. The minimum of
/// exponentials falls to each with probability `weight / sum of weights`, so shares are exact
/// (Thaler & Ravishankar 1998, "Using Name-Based Mappings to Increase Hit Rates"; weights after
/// Schindelhauer & Schomaker 2005, "Weighted Distributed Hash Tables", the logarithmic method).
/// A draw depends on nothing but hash, key and weight: who leaves frees its own clients only, who
/// joins takes only what will be its share, and slow start moves clients one by one. A full
/// server's clients go to their next choice, each to its own, and come back after.
///
/// Why not a ring, jump hash or Maglev's table: a ring needs hundreds of points a server for
/// even shares and is built anew at every change of weight; jump hash can remove only the last
/// server; Maglev's table moves clients of servers that stay. Rendezvous has no state at all and
/// costs O(n), nothing against a request's life for the tens of servers an application has. Nor
/// bounded loads (Mirrokni, Thorup & Zadimoghaddam 2018): at few requests in flight they send a
/// client's second concurrent request elsewhere, which whoever asks for consistent hashing asked
/// not to have; the bound is each server's `in_flight.max`.
pub(super) fn choose(candidates: &[Candidate], hash: u64) -> Option<ServerId> {
    candidates
        .iter()
        .filter(|candidate| candidate.is_open())
        .map(|candidate| (draw(hash, candidate), candidate))
        .min_by(|a, b| a.0.total_cmp(&b.0).then_with(|| a.1.key.cmp(&b.1.key)))
        .map(|(_, candidate)| candidate.id)
}

/// The server's time for this hash: exponential with rate `weight`.
fn draw(hash: u64, candidate: &Candidate) -> f64 {
    // 53 bits and one more at the end: uniform in (0, 1), never 0.
    let uniform = ((mix(hash ^ mix(candidate.key)) >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
    -uniform.ln() / f64::from(candidate.weight)
}

/// SplitMix64's step and finaliser (Steele, Lea & Flood 2014, "Fast Splittable Pseudorandom Number
/// Generators", figure 17): every bit of the input moves every bit of the output.
const fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}
