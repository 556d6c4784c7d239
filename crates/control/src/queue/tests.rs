//! CoDel and the class queue beside slow and obvious ones.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;
use crate::ClassId;

/// RFC 8289's pseudo-code, over a queue of its own: `dequeue` returns what was dropped and what is sent.
#[derive(Default)]
struct Rfc8289 {
    queue: VecDeque<u64>,
    target: u64,
    interval: u64,
    first_above_time: u64,
    drop_next: u64,
    count: u32,
    lastcount: u32,
    dropping: bool,
}

impl Rfc8289 {
    fn dodequeue(&mut self, now: u64) -> (Option<u64>, bool) {
        let packet = self.queue.pop_front();
        let Some(arrived) = packet else {
            self.first_above_time = 0;
            return (None, false);
        };
        let mut ok_to_drop = false;
        if now - arrived < self.target || self.queue.is_empty() {
            self.first_above_time = 0;
        } else if self.first_above_time == 0 {
            self.first_above_time = now + self.interval;
        } else if now >= self.first_above_time {
            ok_to_drop = true;
        }
        (packet, ok_to_drop)
    }

    fn control_law(&self, t: u64) -> u64 {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "as the RFC writes it"
        )]
        let gap = (self.interval as f64 / f64::from(self.count).sqrt()).round() as u64;
        t + gap
    }

    fn dequeue(&mut self, now: u64) -> (Vec<u64>, Option<u64>) {
        let mut dropped = Vec::new();
        let (mut packet, mut ok_to_drop) = self.dodequeue(now);
        if self.dropping {
            if !ok_to_drop {
                self.dropping = false;
            }
            while now >= self.drop_next && self.dropping {
                dropped.extend(packet);
                self.count += 1;
                (packet, ok_to_drop) = self.dodequeue(now);
                if ok_to_drop {
                    self.drop_next = self.control_law(self.drop_next);
                } else {
                    self.dropping = false;
                }
            }
        } else if ok_to_drop {
            dropped.extend(packet);
            (packet, _) = self.dodequeue(now);
            self.dropping = true;
            let delta = self.count - self.lastcount;
            self.count = 1;
            if delta > 1 && now.saturating_sub(self.drop_next) < 16 * self.interval {
                self.count = delta;
            }
            self.drop_next = self.control_law(now);
            self.lastcount = self.count;
        }
        (dropped, packet)
    }
}

proptest! {
    /// Arrivals and dequeues at random times, with spells in which the queue stands and in which it drains.
    #[test]
    fn codel_drops_what_the_rfcs_pseudo_code_drops(
        steps in prop::collection::vec((0_u64..12_000_000, 0_u8..3), 1..800),
        target in 1_u64..30,
        interval in 20_u64..200,
    ) {
        let (target, interval) = (target * 1_000_000, interval * 1_000_000);
        let mut rfc = Rfc8289 { target, interval, ..Rfc8289::default() };
        let mut codel = Codel::new(Duration::from_nanos(target), Duration::from_nanos(interval));
        let mut queue: VecDeque<u64> = VecDeque::new();
        let mut now = 1_000_000_000_000;
        for (step, arrivals) in steps {
            now += step;
            for _ in 0..arrivals {
                rfc.queue.push_back(now);
                queue.push_back(now);
            }
            let mut dropped = Vec::new();
            let sent = loop {
                let Some(arrived) = queue.pop_front() else {
                    codel.emptied();
                    break None;
                };
                let wait = Duration::from_nanos(now - arrived);
                if !codel.drops(Timestamp::from_nanos(now), wait, queue.len()) {
                    break Some(arrived);
                }
                dropped.push(arrived);
            };
            prop_assert_eq!((dropped, sent), rfc.dequeue(now));
        }
    }

    /// Pushes and removals from anywhere, beside a plain list.
    #[test]
    fn the_class_queue_is_a_list_sorted_by_who_is_next(
        discipline in prop_oneof![Just(Discipline::Fifo), Just(Discipline::Lifo), Just(Discipline::AdaptiveLifo)],
        steps in prop::collection::vec((0_u64..30, any::<bool>(), 0_u8..8, any::<prop::sample::Index>(), 0_u64..60), 1..300),
    ) {
        let settings = QueueSettings {
            max: 1000,
            bytes_max: 1_000_000,
            wait_max: Some(Duration::from_millis(500)),
            discipline,
            stands_after: Duration::from_millis(100),
            codel: None,
        };
        let at = |ms: u64| Timestamp::from_nanos(ms * 1_000_000);
        let mut table = WaitTable::new();
        let mut queue = ClassQueue::new(settings);
        // (sequence, priority, arrived, deadline, index), in order of arrival.
        let mut naive: Vec<(u64, u8, u64, Option<u64>, u32)> = Vec::new();
        let (mut now, mut sequence) = (1000, 0);
        // Since when a newcomer is followed, how many have to start, and what the one before it waited.
        let mut followed = (0, 0, 0);
        for (step, push, priority, place, due) in steps {
            now += step;
            if push {
                let deadline = (due < 40).then_some(now + due);
                let newcomer = Newcomer {
                    class: ClassId(0),
                    priority,
                    weight: 1,
                    bytes: u32::from(priority) + 10,
                    arrived: at(now),
                    deadline: deadline.map(at),
                    sequence,
                    begun: false,
                };
                let index = table.insert(newcomer).unwrap();
                queue.push(&mut table, index, at(now));
                if naive.is_empty() {
                    followed = (now, 1, 0);
                }
                naive.push((sequence, priority, now, deadline, index));
                sequence += 1;
            } else if !naive.is_empty() {
                let index = naive.remove(place.index(naive.len())).4;
                let exit = if due % 2 == 0 { Exit::Started } else { Exit::Gone };
                queue.remove(&mut table, index, exit, at(now));
                followed.1 = naive.len().min(followed.1 - usize::from(due % 2 == 0));
                if followed.1 == 0 {
                    followed = (now, naive.len(), now - followed.0);
                }
                let ticket = table.ticket(index);
                table.remove(index);
                prop_assert_eq!(table.find(ticket), None, "the ticket is stale");
            }
            queue.check_invariants(&table);
            prop_assert_eq!(queue.len(), naive.len());
            prop_assert_eq!(queue.bytes(), naive.iter().map(|n| u64::from(n.1) + 10).sum::<u64>());
            let lifo = match discipline {
                Discipline::Fifo => false,
                Discipline::Lifo => true,
                Discipline::AdaptiveLifo => !naive.is_empty() && (followed.2 >= 100 || now >= followed.0 + 100),
            };
            prop_assert_eq!(queue.is_lifo(at(now)), lifo);
            let next = naive.iter().max_by_key(|n| (n.1, if lifo { n.0 } else { u64::MAX - n.0 }));
            prop_assert_eq!(queue.next(at(now)), next.map(|n| n.4));
            prop_assert_eq!(queue.oldest(&table), naive.first().map(|n| n.4));
            prop_assert_eq!(queue.least(), naive.iter().min_by_key(|n| (n.1, n.0)).map(|n| n.4));
            let due = naive.iter().filter(|n| n.3.is_some()).min_by_key(|n| (n.3, n.0));
            prop_assert_eq!(queue.earliest_deadline(), due.map(|n| n.4));
            let expires = naive.first().map(|n| (n.4, at(n.2 + 500)));
            prop_assert_eq!(queue.wait_expires(&table), expires);
        }
    }
}
