//! What a queue of a given bound can do at best: M/D/1/K by its embedded Markov chain.

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

#[cfg(test)]
mod tests {
    use super::md1k_throughput;

    #[test]
    fn with_room_for_one_it_is_erlangs_loss() {
        for rho in [0.5, 1.0, 2.0] {
            assert!((md1k_throughput(rho, 1) - rho / (1.0 + rho)).abs() < 1e-12);
        }
    }

    #[test]
    fn it_agrees_with_a_plain_simulation() {
        // Deterministic uniform numbers (a linear congruential generator), one service a unit time.
        let mut state = 7_u64;
        let mut uniform = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((state >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
        };
        for (rho, k) in [(0.9, 5), (1.2, 3), (2.0, 5)] {
            let (mut now, mut free_at, mut served) = (0.0_f64, 0.0_f64, 0_u64);
            for _ in 0..400_000 {
                now -= uniform().ln() / rho;
                let backlog = (free_at - now).max(0.0);
                // Requests present: whole services left, the one in progress rounded up.
                if (backlog.ceil() as usize) < k {
                    free_at = now.max(free_at) + 1.0;
                    served += 1;
                }
            }
            let simulated = served as f64 / now;
            assert!((md1k_throughput(rho, k) - simulated).abs() < 0.01, "{rho} {k} {simulated}");
        }
    }
}
