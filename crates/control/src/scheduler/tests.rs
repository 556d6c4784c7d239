//! The schedulers beside slow and obvious ones.

use proptest::prelude::*;

use super::*;
use crate::admission::reference::NaiveDeficitRoundRobin;

fn candidates(offers: &[(usize, u32)]) -> Vec<Candidate> {
    offers
        .iter()
        .map(|(class, weight)| {
            Candidate::new(ClassId(u16::try_from(*class).unwrap()), 3, *weight, *class as u64)
        })
        .collect()
}

proptest! {
    /// Classes come and go, offer weights far over their shares, and become empty.
    #[test]
    fn deficit_round_robin_skips_rounds_as_if_it_walked_them(
        shares in prop::collection::vec(1_u32..20, 1..6),
        steps in prop::collection::vec((any::<u8>(), prop::collection::vec(1_u32..200, 6), any::<bool>()), 1..100),
    ) {
        let mut drr = DeficitRoundRobin::default();
        drr.set_shares(shares.iter().copied());
        let mut naive = NaiveDeficitRoundRobin::default();
        naive.set_shares(&shares);
        for (waiting, weights, empties) in steps {
            let offers: Vec<(usize, u32)> = (0..shares.len())
                .filter(|class| waiting & (1 << class) != 0)
                .map(|class| (class, weights[class]))
                .collect();
            let candidates = candidates(&offers);
            let pick = drr.pick(&candidates);
            let class = pick.map(|pick| candidates[pick].class.index());
            prop_assert_eq!(class, naive.next(&offers));
            if let (Some(pick), Some(class)) = (pick, class) {
                drr.served(&candidates, pick);
                if empties {
                    drr.emptied(ClassId(u16::try_from(class).unwrap()));
                    naive.emptied(class);
                }
            }
        }
    }

    #[test]
    fn round_robin_serves_who_was_served_longest_ago(steps in prop::collection::vec(1_u8.., 1..100)) {
        let mut turns = RoundRobin::default();
        // Classes in the order in which they are to be served next.
        let mut order: Vec<usize> = (0..8).collect();
        for waiting in steps {
            let offers: Vec<(usize, u32)> =
                (0..8).filter(|class| waiting & (1 << class) != 0).map(|class| (class, 1)).collect();
            let candidates = candidates(&offers);
            let pick = turns.pick(&candidates).unwrap();
            let next = order.iter().position(|class| waiting & (1 << class) != 0).unwrap();
            prop_assert_eq!(candidates[pick].class.index(), order[next]);
            order.rotate_left(next + 1);
            turns.served(&candidates, pick);
        }
    }
}

#[test]
fn shares_are_kept_over_time_whatever_the_weights() {
    let waiting = [
        Candidate::new(ClassId(0), 3, 7, 0),
        Candidate::new(ClassId(1), 3, 1, 1),
        Candidate::new(ClassId(2), 3, 90_000, 2),
    ];
    let mut drr = DeficitRoundRobin::default();
    drr.set_shares([50, 20, 30].into_iter());
    let mut served = [0_u64; 3];
    while served[2] < 9_000_000 {
        let pick = drr.pick(&waiting).unwrap();
        drr.served(&waiting, pick);
        served[pick] += u64::from(waiting[pick].weight);
    }
    let total: u64 = served.iter().sum();
    for (class, percent) in [(0, 50), (1, 20), (2, 30)] {
        let share = served[class] * 1000 / total;
        assert!((percent * 10 - 10..=percent * 10 + 10).contains(&share), "{served:?}");
    }
}

#[test]
fn nothing_to_pick_from() {
    for kind in [
        SchedulerKind::Strict,
        SchedulerKind::RoundRobin,
        SchedulerKind::Weighted,
        SchedulerKind::EarliestDeadline,
    ] {
        let mut scheduler = Scheduler::new(kind);
        assert_eq!(scheduler.kind(), kind);
        assert_eq!(scheduler.pick(&[]), None);
        scheduler.emptied(ClassId(3));
    }
}

/// Twice as many come as are served, one of four of another class.
#[test]
fn classes_of_equal_priority_that_give_their_newest_share_as_one_queue() {
    let (mut waiting, mut served) = ([Vec::new(), Vec::new()], [0, 0]);
    for sequence in 0..4000_u64 {
        let is_rarer = sequence.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 62 == 3;
        waiting[usize::from(is_rarer)].push(sequence);
        if sequence % 2 == 1 {
            let newest = (0..2_u16).filter_map(|class| {
                let sequence = *waiting[usize::from(class)].last()?;
                Some(Candidate { order: Order::Lifo, ..Candidate::new(ClassId(class), 3, 1, sequence) })
            });
            let newest: Vec<_> = newest.collect();
            let class = newest[Strict.pick(&newest).unwrap()].class.index();
            waiting[class].pop();
            served[class] += 1;
        }
    }
    assert!((400..600).contains(&served[1]), "{served:?}");
}

#[test]
fn a_class_that_is_first_come_first_served_for_good_is_not_passed_by_newer_ones() {
    let of = |class, sequence, order| Candidate { order, ..Candidate::new(ClassId(class), 3, 1, sequence) };
    let (old, new) = (of(0, 1, Order::Fifo), of(1, 2, Order::Lifo));
    assert_eq!(Strict.pick(&[old, new]), Some(0));
    let (old, new) = (of(0, 1, Order::FifoUntilStanding), of(1, 2, Order::Lifo));
    assert_eq!(Strict.pick(&[old, new]), Some(1));
    let (old, new) = (of(0, 1, Order::FifoUntilStanding), of(1, 2, Order::FifoUntilStanding));
    assert_eq!(Strict.pick(&[old, new]), Some(0));
}
