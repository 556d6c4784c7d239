//! Mean response times of queues that theory knows. Seconds, and rates a second.
//!
//! Sources: Kleinrock, "Queueing Systems" I (1975) and II (1976); Bolch, Greiner, de Meer & Trivedi, "Queueing
//! Networks and Markov Chains", 2nd ed., 2006, which Dyachuk & Deters (OTM 2009) take theirs from: with 400 ms of service
//! [`mm1`] is their fig. 1, and [`preemptive`] and [`non_preemptive`] with 0.5 critical requests a second
//! are their fig. 4.
//!
//! All hold below full load and are infinite from there on.

/// M/M/1, first come, first served or processor sharing: `s / (1 - ρ)` (Kleinrock I, eq. 3.27).
///
/// ```
/// // 400 ms of service, one request a second: load 0.4, 0.4 / 0.6.
/// assert!((tidegate_sim::theory::mm1(1.0, 0.4) - 0.6667).abs() < 1e-4);
/// ```
#[must_use]
pub fn mm1(per_s: f64, service_s: f64) -> f64 {
    stable(per_s * service_s, service_s / (1.0 - per_s * service_s))
}

/// M/M/k, first come, first served: `s + C(k, a) · s / (k - a)` with `a = λs` and Erlang's
/// `C = (aᵏ/k! · k/(k - a)) / (Σᵢ₌₀ᵏ⁻¹ aⁱ/i! + aᵏ/k! · k/(k - a))` (Kleinrock I, eq. 3.40).
///
/// ```
/// // One server is M/M/1.
/// assert!((tidegate_sim::theory::mmk(1.0, 0.4, 1) - tidegate_sim::theory::mm1(1.0, 0.4)).abs() < 1e-12);
/// ```
#[must_use]
pub fn mmk(per_s: f64, service_s: f64, servers: u32) -> f64 {
    let (offered, servers_f) = (per_s * service_s, f64::from(servers));
    let (mut term, mut sum) = (1.0, 0.0);
    for i in 0..servers {
        sum += term;
        term *= offered / f64::from(i + 1);
    }
    let all_busy = term * servers_f / (servers_f - offered);
    let waits = all_busy / (sum + all_busy);
    stable(offered / servers_f, service_s + waits * service_s / (servers_f - offered))
}

/// M/G/1 under processor sharing: `s / (1 - ρ)` whatever the distribution of service (Kleinrock II, eq. 4.17).
#[must_use]
pub fn mg1_processor_sharing(per_s: f64, service_s: f64) -> f64 {
    mm1(per_s, service_s)
}

/// M/G/1, first come, first served, by Pollaczek and Khinchine: `s + λ·E[S²] / (2·(1 - ρ))` (Kleinrock I, eq. 5.69).
#[must_use]
pub fn mg1(per_s: f64, service_s: f64, second_moment: f64) -> f64 {
    let load = per_s * service_s;
    stable(load, service_s + per_s * second_moment / (2.0 * (1.0 - load)))
}

/// M/D/1: `s + ρ·s / (2·(1 - ρ))`, [`mg1`] with `E[S²] = s²`.
///
/// ```
/// // Load one half: half a service time of waiting.
/// assert_eq!(tidegate_sim::theory::md1(0.5, 1.0), 1.5);
/// ```
#[must_use]
pub fn md1(per_s: f64, service_s: f64) -> f64 {
    mg1(per_s, service_s, service_s * service_s)
}

/// Two classes with exponential service of mean `service_s` on one server, the first preempting the second, which
/// resumes: `Tₖ = s/(1 - σₖ₋₁) + Rₖ / ((1 - σₖ₋₁)(1 - σₖ))` with `σₖ` the load of the classes up to k and
/// `Rₖ = Σᵢ₌₁ᵏ λᵢ·E[Sᵢ²]/2` (Kleinrock II, section 3.4; Bolch et al., section 6.4).
#[must_use]
pub fn preemptive(critical_per_s: f64, regular_per_s: f64, service_s: f64) -> [f64; 2] {
    let [critical, all] = loads(critical_per_s, regular_per_s, service_s);
    // E[S²] = 2s², so that λ·E[S²]/2 = ρ·s.
    let second = service_s / (1.0 - critical) + all * service_s / ((1.0 - critical) * (1.0 - all));
    [mm1(critical_per_s, service_s), stable(all, second)]
}

/// The same without preemption (Cobham, Operations Research 2(1), 1954): `Tₖ = s + R / ((1 - σₖ₋₁)(1 - σₖ))` with
/// `R = Σᵢ λᵢ·E[Sᵢ²]/2` over both.
#[must_use]
pub fn non_preemptive(critical_per_s: f64, regular_per_s: f64, service_s: f64) -> [f64; 2] {
    let [critical, all] = loads(critical_per_s, regular_per_s, service_s);
    let left = all * service_s;
    [
        stable(all, service_s + left / (1.0 - critical)),
        stable(all, service_s + left / ((1.0 - critical) * (1.0 - all))),
    ]
}

fn loads(critical_per_s: f64, regular_per_s: f64, service_s: f64) -> [f64; 2] {
    [critical_per_s * service_s, (critical_per_s + regular_per_s) * service_s]
}

fn stable(load: f64, response: f64) -> f64 {
    if load < 1.0 { response } else { f64::INFINITY }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_regular_load_priority_changes_nothing() {
        for formula in [preemptive, non_preemptive] {
            let [critical, _] = formula(0.5, 0.0, 0.4);
            assert!((critical - mm1(0.5, 0.4)).abs() < 1e-12);
        }
    }

    /// Priority moves waiting from one class to the other: by load, it stays what it is without (Kleinrock's
    /// conservation law, II, eq. 3.16).
    #[test]
    fn non_preemptive_priority_conserves_waiting() {
        let [critical, regular] = non_preemptive(0.5, 1.5, 0.4);
        let waiting = 0.25 * (critical - 0.4) + 0.75 * (regular - 0.4);
        assert!((waiting - (mm1(2.0, 0.4) - 0.4)).abs() < 1e-12);
    }

    #[test]
    fn a_full_server_never_answers() {
        for response in [mm1(2.5, 0.4), mmk(10.0, 0.4, 4), md1(3.0, 0.4), preemptive(0.5, 2.0, 0.4)[1]] {
            assert!(response.is_infinite());
        }
        // Known: two servers at load one half wait a third of a service time.
        assert!((mmk(1.0, 1.0, 2) - 4.0 / 3.0).abs() < 1e-12);
    }
}
