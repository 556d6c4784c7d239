//! Power of two choices: the better of two servers drawn at random, by peak EWMA.

use super::{Candidate, below};
use crate::ServerId;

/// What a server costs whose response time is not known yet and that already has a request: more
/// than any known one. So it is tried at once, and then not again before its first answer
/// (Finagle, `PeakEwma.scala`: its penalty).
const UNKNOWN: f64 = 1e18;

/// Chooses between two different open servers, drawn in proportion to weight, the one of less
/// `ewma · (in_flight + 1) / weight`.
///
/// Two choices make the longest queue exponentially shorter than one (Mitzenmacher 2001, "The
/// Power of Two Choices in Randomized Load Balancing", section 1), and unlike the best of all
/// they do not let every core run to the same server on the same stale news. The cost is
/// Finagle's and Linkerd's peak EWMA; drawing by weight is ours: a server at the start of its
/// slow start is seldom drawn, let alone chosen.
pub(super) fn choose(candidates: &[Candidate], random: u64) -> Option<ServerId> {
    let total: u64 = open(candidates).map(|candidate| u64::from(candidate.weight)).sum();
    let first = draw(candidates, None, below((random >> 32) as u32, total))?;
    let rest = total - u64::from(first.weight);
    let Some(second) = draw(candidates, Some(first.id), below(random as u32, rest)) else {
        return Some(first.id);
    };
    Some(if cost(second) < cost(first) { second.id } else { first.id })
}

/// The open server, `without` one, within whose weight the point `at` of all their weights lies.
fn draw(candidates: &[Candidate], without: Option<ServerId>, mut at: u64) -> Option<&Candidate> {
    open(candidates).filter(|candidate| Some(candidate.id) != without).find(|candidate| {
        let weight = u64::from(candidate.weight);
        let is_within = at < weight;
        at = at.saturating_sub(weight);
        is_within
    })
}

fn open(candidates: &[Candidate]) -> impl Iterator<Item = &Candidate> {
    candidates.iter().filter(|candidate| candidate.is_open())
}

fn cost(candidate: &Candidate) -> f64 {
    let pending = f64::from(candidate.in_flight);
    let of_one = match candidate.ewma.as_nanos() {
        0 if candidate.in_flight == 0 => 0.0,
        0 => UNKNOWN,
        nanos => nanos as f64,
    };
    of_one * (pending + 1.0) / f64::from(candidate.weight)
}
