//! Chance, from a seed: xoshiro256++ streams that mean the same for ever and on every machine.
//!
//! Each part of a simulation that needs chance has a stream of its own, named for it, so that a
//! change in one part (another admission control, say) leaves the draws of the others as they were:
//! arms of an experiment meet the very same arrivals and the very same work.
//!
//! Logarithms and exponentials come from `libm`, not from the platform's C library, whose last digit
//! differs between machines.

use rand_xoshiro::{
    Xoshiro256PlusPlus,
    rand_core::{Rng, SeedableRng},
};

/// A stream of chance. Cheap to draw from; never used for anything that must be secret.
///
/// ```
/// use tidegate_sim::Random;
///
/// let (mut one, mut same) = (Random::new(7, "arrivals"), Random::new(7, "arrivals"));
/// let mut other = Random::new(7, "work");
/// let first = one.bits();
/// assert_eq!(first, same.bits());
/// assert_ne!(first, other.bits());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Random(Xoshiro256PlusPlus);

impl Random {
    /// The stream of that name under that seed.
    #[must_use]
    pub fn new(seed: u64, stream: &str) -> Self {
        // FNV-1a of the name; `seed_from_u64` spreads the sum over the whole state.
        let name = stream.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Self(Xoshiro256PlusPlus::seed_from_u64(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ name))
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Uniform in 0 (included) to 1 (excluded), with 53 bits.
    #[expect(clippy::cast_precision_loss, reason = "53 bits fit")]
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
    }

    /// Uniform in 0 to `n - 1`; 0 for `n` 0. The bias is below n / 2⁶⁴.
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(n)) >> 64) as u64
    }

    /// True with probability `p`.
    pub fn chance(&mut self, p: f64) -> bool {
        p > 0.0 && self.unit() < p
    }

    /// One of the choices, uniformly.
    ///
    /// # Panics
    ///
    /// If there are none.
    pub fn pick<T: Clone>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize].clone()
    }

    /// Exponential with mean 1, by inversion.
    pub fn exponential(&mut self) -> f64 {
        -libm::log(1.0 - self.unit())
    }

    /// Normal with mean 0 and variance 1 (Box and Muller; the second of the pair is not kept).
    pub fn normal(&mut self) -> f64 {
        let radius = libm::sqrt(2.0 * self.exponential());
        radius * libm::cos(std::f64::consts::TAU * self.unit())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A seed must mean the same for ever: these are the values of the first release.
    #[test]
    fn a_seed_means_what_it_always_meant() {
        let mut random = Random::new(1, "pin");
        assert_eq!([random.bits(), random.bits()], [17_935_857_777_049_813_854, 10_974_074_926_387_811_626]);
    }

    #[test]
    fn moments_are_those_of_the_distributions() {
        let mut random = Random::new(3, "moments");
        let n = 200_000;
        let (mut exponential, mut normal, mut square) = (0.0, 0.0, 0.0);
        for _ in 0..n {
            exponential += random.exponential();
            let z = random.normal();
            normal += z;
            square += z * z;
            assert!(random.below(3) < 3);
        }
        let n = f64::from(n);
        assert!((exponential / n - 1.0).abs() < 0.01);
        assert!((normal / n).abs() < 0.01 && (square / n - 1.0).abs() < 0.02);
    }
}
