//! Weights: the search counts requests, the limit is told in weight units.
//!
//! How busy a server is goes by how many requests it has, whatever they weigh: a request of weight 20 keeps one worker busy, not
//! twenty. What is in flight is therefore divided by the weights seen. A limit of `n` requests is the weight in flight, as much
//! again for those that are missing as they have in the mean of what is in flight, and so much more that the next may be the heaviest:
//!
//! ```text
//! L = W + (n − ΣW/w) · Σ p·R·w / Σ p·R + (max w − 1)
//! ```
//!
//! with `W` the weight in flight, `w` the weights, `p` the mix of what starts and `R` the response times. The mean alone would be
//! too little whenever few heavy ones have started by chance; then they would not fit, and so be fewer still. Without
//! the last term one that is heavier than the mean would wait until others have made room for all of it, and everybody behind it
//! too. Where all weigh the same, `w`, these are the same `n` requests as with 1.

use crate::capacity::per_class::{COST_CLASSES, PerClass};

/// What one departure counts for.
const GAIN: f64 = 0.05;
/// Of the mix, below which a class does not count as one that may be the next.
const PART_MIN: f64 = 0.001;

/// Weights of what departs, by class.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Weights {
    /// Mean response time, seconds.
    response: PerClass,
    /// Mean weight of what is in flight, 1 and more; 0: none has departed.
    mean: PerClass,
    /// Requests a weight unit in flight: 1 over that, 1 where none has departed.
    per_unit: PerClass,
    /// The heaviest of late.
    heaviest: PerClass,
    /// Mean weight of what is in flight.
    unit: f64,
    /// Weight units that the limit has beside so many times its requests.
    beside: f64,
}

impl Default for Weights {
    fn default() -> Self {
        Self {
            response: PerClass::ZERO,
            mean: PerClass::ZERO,
            per_unit: PerClass::all(1.0, COST_CLASSES),
            heaviest: PerClass::ZERO,
            unit: 1.0,
            beside: 0.0,
        }
    }
}

impl Weights {
    /// A request has left the server.
    pub(super) fn note(&mut self, class: usize, weight: f64, response: f64) {
        // Time counts for the mean of what is in flight; the first replies at once are some, too.
        let response = response.max(1e-6);
        if self.mean[class] == 0.0 {
            (self.response[class], self.mean[class]) = (response, weight);
        }
        self.response[class] += (response - self.response[class]) * GAIN;
        let gain = (GAIN * response / self.response[class]).min(1.0);
        self.mean[class] += (weight - self.mean[class]) * gain;
        let faded = self.heaviest[class] + (weight - self.heaviest[class]) * GAIN;
        self.heaviest[class] = faded.max(weight);
        self.per_unit[class] = self.mean[class].recip();
    }

    /// What starts is this mix, and so much weight is in flight by class: how many requests that are.
    pub(super) fn follow(&mut self, mix: &PerClass, in_flight: &[u64]) -> f64 {
        let (mut weight, mut seconds, mut heaviest) = (0.0, 0.0, 1.0_f64);
        let least = PART_MIN * mix.sum();
        for class in (0..COST_CLASSES).filter(|class| self.mean[*class] > 0.0 && mix[*class] > least) {
            let part = mix[class] * self.response[class];
            weight += part * self.mean[class];
            seconds += part;
            heaviest = heaviest.max(self.heaviest[class]);
        }
        if seconds > 0.0 {
            self.unit = weight / seconds;
        }
        let (mut weight, mut requests) = (0.0, 0.0);
        for (index, of_class) in in_flight.iter().enumerate() {
            weight += *of_class as f64;
            requests += self.requests_of(index.min(COST_CLASSES - 1), *of_class);
        }
        self.beside = weight - requests * self.unit + heaviest - 1.0;
        requests
    }

    /// Requests that so much weight in flight of a class are.
    pub(super) fn requests_of(&self, class: usize, weight: u64) -> f64 {
        weight as f64 * self.per_unit[class]
    }

    /// Requests that so much weight is in the mean.
    pub(super) fn requests(&self, weight: u32) -> f64 {
        f64::from(weight) / self.unit
    }

    /// Weight units that let in so many requests.
    pub(super) fn units(&self, requests: f64) -> f64 {
        requests * self.unit + self.beside
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Where all weigh the same, a limit of `n` requests lets in `n`, whatever is in flight and which classes ask.
        #[test]
        fn equal_weights_are_as_many_requests(
            weight in 1_u32..200,
            limit in 1_u32..500,
            departed in prop::collection::vec((0_usize..4, 0.0..3.0_f64), 1..60),
            in_flight in prop::array::uniform4(0_u64..100),
        ) {
            let mut weights = Weights::default();
            let mut mix = PerClass::ZERO;
            for (class, response) in departed {
                weights.note(class, f64::from(weight), response);
                mix[class] += 1.0;
            }
            let known = |class: usize| mix[class] > 0.0;
            let of_class = |class: usize| if known(class) { in_flight[class] * u64::from(weight) } else { 0 };
            let requests = weights.follow(&mix, &[0, 1, 2, 3].map(of_class));
            let expected = (0..4).filter(|class| known(*class)).map(|class| in_flight[class]).sum::<u64>();
            prop_assert!((requests - expected as f64).abs() < 1e-9 * (1.0 + requests));
            let units = weights.units(f64::from(limit));
            prop_assert_eq!((units / f64::from(weight) + 1e-6).floor(), f64::from(limit), "{}", units);
            if weight == 1 {
                prop_assert_eq!(units, f64::from(limit));
            }
        }

        /// As long as fewer than the limit are in flight, the heaviest that come fit, however few of them do.
        #[test]
        fn the_heaviest_fits_below_the_limit(
            heavy in 2_u32..200,
            light_per_heavy in 1_u32..200,
            in_flight in (0_u64..50, 0_u64..50),
            more in 1.0..50.0_f64,
        ) {
            let mut weights = Weights::default();
            let mut mix = PerClass::ZERO;
            (mix[0], mix[1]) = (f64::from(light_per_heavy), 1.0);
            weights.note(0, 1.0, 0.01);
            weights.note(1, f64::from(heavy), 0.2);
            let (light, heavies) = in_flight;
            let weight = light + heavies * u64::from(heavy);
            let requests = weights.follow(&mix, &[light, heavies * u64::from(heavy)]);
            let units = weights.units(requests + more);
            prop_assert!(units >= (weight + u64::from(heavy)) as f64 - 1e-6, "{units} for {weight}");
        }
    }
}
