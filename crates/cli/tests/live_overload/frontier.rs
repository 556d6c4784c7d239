//! What a queue of a given bound can do at best: M/D/1/K, its throughput by the embedded Markov chain, its times in the
//! system by simulation.

use tidegate_load::random::SplitMix64;

/// Share of capacity that an M/D/1/K queue carries at an offered load of `rho` (1: capacity), with
/// room for `k` requests, the one in service included.
///
/// Theory: the number left behind at departures of M/G/1/K is a Markov chain on 0..k-1, whose
/// steps are the Poisson arrivals within one service time; with `p0` its share of departures that
/// leave nobody, the throughput is `1 / (p0 + rho)` of the arrival rate (Gross & Harris,
/// Fundamentals of Queueing Theory, section 5.1.8).
pub(crate) fn md1k_throughput(rho: f64, k: usize) -> f64 {
    // Arrivals within a service time: Poisson with mean rho.
    let mut arrivals = vec![(-rho).exp()];
    for n in 1..k {
        let before = arrivals[n - 1];
        arrivals.push(before * rho / n as f64);
    }
    // Unnormalised shares, from the balance of each state but the last.
    let mut left = vec![1.0_f64];
    for state in 0..k.saturating_sub(1) {
        let from_empty = left[0] * arrivals[state];
        let from_others: f64 = (1..=state).map(|i| left[i] * arrivals[state - i + 1]).sum();
        left.push((left[state] - from_empty - from_others) / arrivals[0]);
    }
    let p0 = left[0] / left.iter().sum::<f64>();
    // Carried per service time: one service per (service time + idle time where nobody was left).
    1.0 / (1.0 + p0 / rho)
}

/// The largest throughput, as [`md1k_throughput`] has it, of any such queue whose 95th percentile of the time in the
/// system is at most `p95`, in service times; that of no queue at all if none is so fast.
pub(crate) fn md1k_throughput_within(rho: f64, p95: f64) -> f64 {
    let rooms = (1..=ROOM_MAX).take_while(|k| *k == 1 || simulated(rho, *k).1 <= p95);
    rooms.map(|k| md1k_throughput(rho, k)).fold(0.0, f64::max)
}

/// Rooms beyond this do not serve more at the loads in question.
const ROOM_MAX: usize = 100;

/// Throughput, and 95th percentile of the time in the system in service times, of a run with a fixed seed.
fn simulated(rho: f64, k: usize) -> (f64, f64) {
    let mut random = SplitMix64::stream(7, 0);
    let (mut now, mut free_at, mut times) = (0.0_f64, 0.0_f64, Vec::new());
    for _ in 0..200_000 {
        now += random.exponential() / rho;
        // Requests present: whole services left, the one in progress rounded up.
        if ((free_at - now).max(0.0).ceil() as usize) < k {
            free_at = now.max(free_at) + 1.0;
            times.push(free_at - now);
        }
    }
    times.sort_by(f64::total_cmp);
    (times.len() as f64 / now, times[times.len() * 95 / 100])
}

#[cfg(test)]
mod tests {
    use super::{md1k_throughput, md1k_throughput_within, simulated};

    #[test]
    fn with_room_for_one_it_is_erlangs_loss() {
        for rho in [0.5, 1.0, 2.0] {
            assert!((md1k_throughput(rho, 1) - rho / (1.0 + rho)).abs() < 1e-12);
        }
    }

    #[test]
    fn it_agrees_with_a_plain_simulation() {
        for (rho, k) in [(0.9, 5), (1.2, 3), (2.0, 5)] {
            let served = simulated(rho, k).0;
            assert!((md1k_throughput(rho, k) - served).abs() < 0.01, "{rho} {k} {served}");
        }
    }

    #[test]
    fn who_may_take_longer_serves_more() {
        assert!((md1k_throughput_within(1.0, 0.5) - 0.5).abs() < 1e-12, "one, or none");
        let of_five = simulated(1.0, 5).1;
        assert!((md1k_throughput_within(1.0, of_five) - md1k_throughput(1.0, 5)).abs() < 1e-12);
        assert!(md1k_throughput_within(0.9, 100.0) > 0.89, "as good as unbounded");
    }
}
