//! The generator's only source of randomness: SplitMix64, seeded, the same on every machine.
//!
//! Arrival times and think times need good equidistribution and reproducibility, not secrecy.
//! SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA
//! 2014, fig. 16) passes BigCrush in 10 lines, and its streams are stable for ever, which no
//! crate promises across major versions.

/// A SplitMix64 generator.
#[derive(Clone, Debug)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// A stream of its own for each pair of seed and purpose.
    #[must_use]
    pub fn stream(seed: u64, purpose: u64) -> Self {
        let mut mixed = Self(seed);
        let first = mixed.next_u64();
        Self(first ^ Self(purpose).next_u64())
    }

    /// 64 uniform bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform in (0, 1], so that its logarithm is finite.
    pub fn unit(&mut self) -> f64 {
        // 53 bits fill an f64's mantissa exactly.
        ((self.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }

    /// Uniform in a range of whole numbers, both ends included (Lemire, "Fast random integer
    /// generation in an interval", 2019; the bias of at most range / 2⁶⁴ is left in).
    pub fn between(&mut self, from: u64, to: u64) -> u64 {
        let span = u128::from(to.saturating_sub(from)) + 1;
        from + u64::try_from((u128::from(self.next_u64()) * span) >> 64).unwrap_or_default()
    }

    /// Exponentially distributed with mean 1 (by inversion).
    pub fn exponential(&mut self) -> f64 {
        -self.unit().ln()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first outputs for seed 1234567, from the reference implementation by Vigna
    /// (splitmix64.c).
    #[test]
    fn agrees_with_the_reference_vector() {
        let mut generator = SplitMix64(1_234_567);
        let first: Vec<u64> = (0..5).map(|_| generator.next_u64()).collect();
        assert_eq!(
            first,
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423,
                4_593_380_528_125_082_431,
                16_408_922_859_458_223_821
            ]
        );
    }

    #[test]
    fn unit_stays_in_its_range_and_streams_differ() {
        let mut one = SplitMix64::stream(1, 0);
        let mut other = SplitMix64::stream(1, 1);
        assert!((0..10_000).all(|_| {
            let value = one.unit();
            value > 0.0 && value <= 1.0
        }));
        assert_ne!(SplitMix64::stream(1, 0).next_u64(), other.next_u64());
    }

    #[test]
    fn a_range_is_drawn_evenly_to_both_ends() {
        let mut generator = SplitMix64::stream(1, 0);
        let mut counts = [0u32; 6];
        for _ in 0..60_000 {
            counts[usize::try_from(generator.between(5, 10) - 5).expect("in range")] += 1;
        }
        // 10,000 each, standard deviation 91.
        assert!(counts.iter().all(|count| count.abs_diff(10_000) < 400), "{counts:?}");
        assert_eq!(generator.between(3, 3), 3);
        let _ = generator.between(0, u64::MAX);
    }
}
