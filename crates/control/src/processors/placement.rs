//! Which processors each application gets, so that they overlap only where one is shared, and few threads move.
//!
//! Whole processors first: of those an application had before as many as it may keep, then free ones in their order.
//! Then the halves: on a processor the application had before, else on one that has a half to give, else on a free one.
//! What is left is spare.
//!
//! Source: Guitart et al. 2008, section 3.1.2: the manager decides which processors too, so that allocations do not
//! overlap except where a processor is shared. Which of them is not published; to keep what one has is ours.

use super::Halves;

/// Which processors each application has, and which are left.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// Those of each application, in its order, by number and ascending.
    pub of: Vec<Vec<u32>>,
    /// Those nobody has, ascending.
    pub spare: Vec<u32>,
}

/// Places amounts on processors.
///
/// - `amounts`: of each application, at most two halves a processor together. Where it is more, those placed last share
///   the processors that have least on them.
/// - `processors`: the numbers of those there are, each once, at least one.
/// - `before`: those each application had, in the same order; what is not there any more is left out of account.
///
/// Costs the product of processors and halves.
///
/// ```
/// use tidegate_control::processors::{Halves, place};
///
/// // 1.5 and 0.5 on processors 4 and 5: the second is shared.
/// let placed = place(&[Halves::new(3), Halves::new(1)], &[4, 5], &[vec![], vec![]]);
/// assert_eq!(placed.of, [vec![4, 5], vec![5]]);
/// // The second grows to one and keeps what it had.
/// let placed = place(&[Halves::new(2), Halves::new(2)], &[4, 5], &placed.of);
/// assert_eq!(placed.of, [vec![4], vec![5]]);
/// assert!(placed.spare.is_empty());
/// ```
#[must_use]
pub fn place(amounts: &[Halves], processors: &[u32], before: &[Vec<u32>]) -> Placement {
    let mut load = vec![0_u32; processors.len()];
    let mut of: Vec<Vec<usize>> = vec![Vec::new(); amounts.len()];
    let had = |application: usize, slot: usize| {
        before.get(application).is_some_and(|had| had.contains(&processors[slot]))
    };
    // Those that one application alone had come first, so that a shared one stays with who is left on it.
    let holders = |slot: usize| before.iter().filter(|had| had.contains(&processors[slot])).count();
    for (application, amount) in amounts.iter().enumerate() {
        let mut kept: Vec<usize> =
            (0..processors.len()).filter(|&slot| load[slot] == 0 && had(application, slot)).collect();
        kept.sort_by_key(|&slot| holders(slot));
        for slot in kept.into_iter().take((amount.count() / 2) as usize) {
            load[slot] = 2;
            of[application].push(slot);
        }
    }
    for (application, amount) in amounts.iter().enumerate() {
        let lacking = (amount.count() / 2) as usize - of[application].len();
        for _ in 0..lacking {
            // Free ones that nobody had are nobody's to lose.
            let place = (0..processors.len())
                .filter(|slot| !of[application].contains(slot))
                .min_by_key(|&slot| (load[slot], holders(slot)));
            let Some(slot) = place else { break };
            load[slot] += 2;
            of[application].push(slot);
        }
    }
    for (application, amount) in amounts.iter().enumerate() {
        if amount.count() % 2 == 0 {
            continue;
        }
        let place =
            (0..processors.len()).filter(|slot| !of[application].contains(slot)).min_by_key(|&slot| {
                (load[slot] > 1, !had(application, slot), if load[slot] == 1 { 0 } else { load[slot] + 1 })
            });
        if let Some(slot) = place {
            load[slot] += 1;
            of[application].push(slot);
        }
    }
    let numbers = |slots: Vec<usize>| {
        let mut numbers: Vec<u32> = slots.into_iter().map(|slot| processors[slot]).collect();
        numbers.sort_unstable();
        numbers
    };
    Placement {
        of: of.into_iter().map(numbers).collect(),
        spare: numbers((0..processors.len()).filter(|&slot| load[slot] == 0).collect()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Amounts that fit `processors`.
    fn fitting(processors: u32) -> impl Strategy<Value = Vec<Halves>> {
        prop::collection::vec(1..=2 * processors, 1..=processors as usize).prop_map(move |mut amounts| {
            while amounts.iter().sum::<u32>() > 2 * processors {
                let most = amounts.iter_mut().max().expect("there is one");
                *most -= 1;
            }
            amounts.into_iter().map(Halves::new).collect()
        })
    }

    proptest! {
        /// Everyone has what it was given, no processor is given away twice, and spare is what is left.
        #[test]
        fn all_are_placed_and_nothing_twice(
            rounds in (2_u32..12).prop_flat_map(|n| (Just(n), prop::collection::vec(fitting(n), 1..8))),
        ) {
            let (count, rounds) = rounds;
            let processors: Vec<u32> = (0..count).map(|n| 3 * n + 1).collect();
            let mut placed = Placement::default();
            for amounts in rounds {
                let before = placed.of.clone();
                placed = place(&amounts, &processors, &before);
                for (of, amount) in placed.of.iter().zip(&amounts) {
                    prop_assert_eq!(of.len(), amount.count().div_ceil(2) as usize);
                    prop_assert!(of.is_sorted());
                }
                let mut sharers = 0;
                for processor in &processors {
                    let holders = placed.of.iter().filter(|of| of.contains(processor)).count();
                    prop_assert!(holders <= 2, "{} hold {processor}", holders);
                    sharers += usize::from(holders == 2);
                    prop_assert_eq!(placed.spare.contains(processor), holders == 0);
                }
                // Only halves share: no more processors than pairs of them.
                let halves = amounts.iter().filter(|amount| amount.count() % 2 == 1).count();
                prop_assert!(sharers <= halves / 2);
                // The same amounts again move nobody.
                prop_assert_eq!(&place(&amounts, &processors, &placed.of).of, &placed.of);
            }
        }

        /// Whoever keeps or loses processors takes none it had not.
        #[test]
        fn who_gets_no_more_moves_nowhere(
            first in 2_u32..10, second in 1_u32..10, less in 0_u32..10,
        ) {
            let processors: Vec<u32> = (0..16).collect();
            let before = place(&[Halves::whole(first), Halves::whole(second)], &processors, &[]).of;
            let kept = Halves::new(Halves::whole(first).count().saturating_sub(less).max(1));
            let after = place(&[kept, Halves::whole(second.min(6))], &processors, &before).of;
            prop_assert!(after[0].iter().all(|processor| before[0].contains(processor)));
            prop_assert!(after[1].iter().all(|processor| before[1].contains(processor)));
        }
    }

    #[test]
    fn halves_meet_on_one_processor() {
        let placed = place(&[Halves::new(1); 4], &[0, 1, 2], &[]);
        assert_eq!(placed.of, [vec![0], vec![0], vec![1], vec![1]]);
        assert_eq!(placed.spare, [2]);
    }

    #[test]
    fn a_processor_that_has_gone_is_replaced() {
        let placed = place(&[Halves::whole(1), Halves::whole(1)], &[1, 2], &[vec![0], vec![1]]);
        assert_eq!(placed.of, [vec![2], vec![1]]);
    }

    #[test]
    fn more_than_there_are_share_what_has_least_on_it() {
        let placed = place(&[Halves::whole(1); 3], &[0, 1], &[]);
        assert_eq!(placed.of, [vec![0], vec![1], vec![0]]);
    }
}
