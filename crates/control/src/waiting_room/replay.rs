//! Replay: whether a promise has been used before, by a Bloom filter a slot.
//!
//! A filter has 16 bits for each place of its slot, at most 2²³ bits (1 MiB), and sets 8 of them for each promise that
//! is used. With as many promises used as there are places it takes a new one for a used one with probability
//!
//! ```text
//! (1 − e^(−8/16))⁸ = 0.00057
//! ```
//!
//! Where more come than a filter was made for, as when the capacity turns out to be larger than it was known to be while the slot
//! was still to come, a larger one is begun beside it. A promise is looked for in both, and each errs as often at most. Of
//! eight times the size each, they take 1.2 MiB at most.
//!
//! Filters of the slots in which a promise may be used are kept: the grace, the present and what clocks may differ.
//! They are forgotten with the process: what was used shortly before a restart can be used once more after it.
//!
//! That takes hashes that know nothing of each other: of two alone, with which large filters do as well (A. Kirsch and
//! M. Mitzenmacher, Less hashing, same performance, ESA 2006), two promises share all 8 bits of a filter of 1,024 once in
//! 2¹⁸ pairs, which is 100 times as often as such a filter errs otherwise.
//!
//! Source: B. H. Bloom, Space/time trade-offs in hash coding with allowable errors, CACM 13(7), 1970.

/// Bits set by a promise.
const HASHES: u64 = 8;
/// Between a promise's hashes; odd, and not that of the numbers themselves.
const STEP: u64 = 0xD1B5_4A32_D192_ED03;
/// Bits for a place.
const BITS_PER_PLACE: u64 = 16;
const BITS_MIN: u64 = 1 << 10;
const BITS_MAX: u64 = 1 << 23;
const WORDS_MAX: usize = (BITS_MAX / 64) as usize;
/// How much larger a filter is that is begun beside one that is full, at least.
const GROWTH: usize = 8;

/// Filters of the last slots.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Replay {
    filters: Vec<Filter>,
}

/// That of a slot.
#[derive(Clone, Debug, Default, PartialEq)]
struct Filter {
    slot: u64,
    /// The last one takes what is used now; those before are full.
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq)]
struct Part {
    bits: Vec<u64>,
    used: u64,
}

impl Replay {
    /// For so many slots at once.
    pub(super) fn new(slots: u64) -> Self {
        let slots = usize::try_from(slots).unwrap_or(usize::MAX).clamp(1, 100_000);
        Self { filters: vec![Filter::default(); slots] }
    }

    /// Memory for so many people in each slot, where there is none yet.
    pub(super) fn reserve(&mut self, places: u64) {
        for filter in self.filters.iter_mut().filter(|filter| filter.parts.is_empty()) {
            filter.parts.push(Part::new(words(places)));
        }
    }

    /// Slot `slot` can be used from now on, by about so many people. The one it takes the place of is over.
    pub(super) fn open(&mut self, slot: u64, places: u64) {
        let words = words(places);
        let filter = self.filter(slot);
        filter.slot = slot;
        // Memory is kept unless it is far too much.
        let kept = filter.parts.pop().filter(|part| (words..=words * 4).contains(&part.bits.len()));
        filter.parts.clear();
        filter.parts.push(kept.map_or_else(|| Part::new(words), Part::emptied));
    }

    /// Slot `slot` can be used by about so many people, more than was known. One of which something was used stays as it is.
    pub(super) fn widen(&mut self, slot: u64, places: u64) {
        let filter = self.filter(slot);
        if filter.slot != slot || filter.parts.iter().all(|part| part.used == 0) {
            self.open(slot, places);
        }
    }

    /// Notes that a promise of a slot with so many places is used; false if it was before, or seems so.
    #[must_use]
    pub(super) fn is_new(&mut self, slot: u64, places: u64, number: u64) -> bool {
        if self.filter(slot).slot != slot || self.filter(slot).parts.is_empty() {
            // Slots that were never open: before the process began, or further back than is remembered.
            self.open(slot, places);
        }
        let filter = self.filter(slot);
        if filter.knows(number) {
            return false;
        }
        let full = filter.parts.last().filter(|part| part.is_full()).map(|part| part.bits.len());
        if let Some(full) = full {
            filter.parts.push(Part::new(words(places).max(GROWTH * full).min(WORDS_MAX)));
        }
        if let Some(part) = filter.parts.last_mut() {
            part.note(number);
        }
        true
    }

    /// Whether a promise of a slot is used, or seems so. Notes nothing.
    pub(super) fn knows(&self, slot: u64, number: u64) -> bool {
        let filter = &self.filters[self.index(slot)];
        filter.slot == slot && filter.knows(number)
    }

    fn filter(&mut self, slot: u64) -> &mut Filter {
        let at = self.index(slot);
        &mut self.filters[at]
    }

    fn index(&self, slot: u64) -> usize {
        usize::try_from(slot % self.filters.len() as u64).unwrap_or(0)
    }
}

impl Filter {
    fn knows(&self, number: u64) -> bool {
        self.parts.iter().any(|part| part.knows(number))
    }
}

impl Part {
    fn new(words: usize) -> Self {
        Self { bits: vec![0; words], used: 0 }
    }

    fn emptied(mut self) -> Self {
        self.bits.fill(0);
        self.used = 0;
        self
    }

    /// Whether it has taken as many as it was made for, and there may be a larger one.
    fn is_full(&self) -> bool {
        let bits = self.bits.len() as u64 * 64;
        self.used >= bits / BITS_PER_PLACE && bits < BITS_MAX
    }

    fn knows(&self, number: u64) -> bool {
        let is_set = |(word, bit): (usize, u64)| self.bits.get(word).is_some_and(|word| word & bit != 0);
        places_of(number, self.bits.len()).all(is_set)
    }

    fn note(&mut self, number: u64) {
        for (word, bit) in places_of(number, self.bits.len()) {
            if let Some(word) = self.bits.get_mut(word) {
                *word |= bit;
            }
        }
        self.used += 1;
    }
}

/// Of a filter for so many people, 64 bits each.
fn words(places: u64) -> usize {
    let bits = places.saturating_mul(BITS_PER_PLACE).clamp(BITS_MIN, BITS_MAX).next_power_of_two();
    usize::try_from(bits / 64).unwrap_or(1)
}

/// The bits of a promise in a filter of so many words, a power of two: word and mask.
fn places_of(number: u64, words: usize) -> impl Iterator<Item = (usize, u64)> {
    let mask = (words as u64).saturating_mul(64).wrapping_sub(1);
    (0..HASHES).map(move |n| {
        let bit = super::mix(number.wrapping_add(n.wrapping_mul(STEP))) & mask;
        (usize::try_from(bit / 64).unwrap_or(0), 1 << (bit % 64))
    })
}

#[cfg(test)]
mod tests {
    use super::Replay;

    #[test]
    fn what_is_used_is_known_and_what_is_not_is_mostly_not_taken_for_it() {
        let mut replay = Replay::new(3);
        replay.open(7, 10_000);
        let number = |n: u64| super::super::mix(n ^ 0x5EED);
        let taken = (0..10_000).filter(|n| !replay.is_new(7, 0, number(*n))).count();
        // While it fills, the chance is below that of a full filter; 2^18 bits here, which is 26 a place.
        assert!(taken < 10, "{taken} new ones were taken for used ones");
        assert!(!replay.knows(7, number(10_000)) && !replay.knows(8, number(1)), "looking notes nothing");
        assert!((0..10_000).all(|n| replay.knows(7, number(n))), "what was used is known");
        assert!((0..10_000).all(|n| !replay.is_new(7, 0, number(n))), "what was used is known");
    }

    #[test]
    fn a_full_filter_errs_as_often_as_it_says() {
        // 65,536 places fill 2^20 bits with exactly 16 a place.
        let mut replay = Replay::new(1);
        replay.open(0, 1 << 16);
        let mut wrong = 0;
        for n in 0..1_u64 << 16 {
            wrong += u32::from(!replay.is_new(0, 0, super::super::mix(n)));
        }
        // The next ones meet a full filter, and fill it further by a tenth.
        let mut more = 0;
        for n in 0..6_554_u64 {
            more += u32::from(!replay.is_new(0, 0, super::super::mix(n + (1 << 40))));
        }
        assert!(wrong <= 20, "{wrong} while it filled");
        assert!((1..=20).contains(&more), "{more} of 6554, 0.06 to 0.1 % is 4 to 7");
    }

    /// As that of a slot to come is while the capacity is searched for.
    #[test]
    fn a_filter_that_was_made_for_few_takes_many() {
        // 0.06 % are 28, of each that was full or is.
        for (made_for, known, most) in [(8, 50_000, 60), (8, 8, 150), (1000, 50_000, 60)] {
            let mut replay = Replay::new(2);
            replay.open(7, made_for);
            let number = |n: u64| super::super::mix(n ^ 0x5EED);
            let taken = (0..50_000).filter(|n| !replay.is_new(7, known, number(*n))).count();
            assert!(taken < most, "{taken} new ones were taken for used ones, made for {made_for}");
            assert!((0..50_000).all(|n| replay.knows(7, number(n))), "what was used is known");
            assert!((0..50_000).all(|n| !replay.is_new(7, known, number(n))), "what was used is known");
            let words: usize = replay.filter(7).parts.iter().map(|part| part.bits.len()).sum();
            assert!(words <= 8 * super::words(50_000), "{words}");
            replay.open(9, 8);
            assert_eq!(replay.filter(9).parts.len(), 1);
            assert!(replay.is_new(9, 8, number(1)), "of another slot nothing is known");
        }
    }

    #[test]
    fn a_small_filter_errs_no_more_often_than_its_bits_say() {
        // Thirty promises in each of 20,000 filters of 2^10 bits: 1.8e-5 a filter are 0.4 in all.
        let mut replay = Replay::new(1);
        let taken = (0..20_000_u64).map(|slot| {
            replay.open(slot, 30);
            let number = |n: u64| super::super::mix(slot * 30 + n);
            (0..30).filter(|n| !replay.is_new(slot, 30, number(*n))).count()
        });
        let taken = taken.sum::<usize>();
        assert!(taken <= 5, "{taken} new ones were taken for used ones");
    }

    #[test]
    fn a_slot_that_takes_the_place_of_another_knows_nothing_of_it() {
        let mut replay = Replay::new(2);
        replay.open(4, 10);
        assert!(replay.is_new(4, 0, 1));
        replay.open(6, 10);
        assert!(replay.is_new(6, 0, 1));
        assert!(!replay.is_new(6, 0, 1));
        replay.widen(6, 1_000_000);
        assert!(!replay.is_new(6, 0, 1), "what was used stays used");
        replay.widen(7, 10);
        assert!(replay.is_new(7, 0, 1));
    }
}
