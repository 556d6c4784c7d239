//! Least in flight: the server with the fewest requests in flight for its weight.

use super::{Candidate, below};
use crate::ServerId;

/// Chooses the least `(in_flight + 1) / weight`: the load each would have with the request; equals
/// share by chance, without which every core would send its next request to the same one.
pub(super) fn choose(candidates: &[Candidate], random: u64) -> Option<ServerId> {
    let open = || candidates.iter().filter(|candidate| candidate.is_open());
    let least = open().copied().reduce(|best, next| if is_less(&next, &best) { next } else { best })?;
    let ties = open().filter(|candidate| !is_less(&least, candidate));
    let place = below((random >> 32) as u32, ties.clone().count() as u64);
    ties.map(|candidate| candidate.id).nth(usize::try_from(place).ok()?)
}

/// Whether `a` is less loaded than `b` for its weight; multiplied out, so exact.
fn is_less(a: &Candidate, b: &Candidate) -> bool {
    (u64::from(a.in_flight) + 1) * u64::from(b.weight) < (u64::from(b.in_flight) + 1) * u64::from(a.weight)
}
