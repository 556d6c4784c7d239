//! Processor time spent on purpose, measured by the thread's own clock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use crate::{Interaction, Kind, Options, SPECS};

/// The processor cost of each interaction on top of its page, settable while the site runs.
#[derive(Debug)]
pub struct Costs {
    nanos: [AtomicU64; SPECS.len()],
}

impl Costs {
    pub(crate) fn new(options: &Options) -> Self {
        let costs = Self { nanos: [const { AtomicU64::new(0) }; SPECS.len()] };
        costs.set_pages(options.page_cost);
        for (interaction, cost) in &options.page_costs {
            costs.set(*interaction, *cost);
        }
        costs
    }

    /// Sets the cost of every page that asks the database.
    pub fn set_pages(&self, cost: Duration) {
        for spec in SPECS.iter().filter(|spec| spec.kind != Kind::Static) {
            self.set(spec.interaction, cost);
        }
    }

    /// Sets the cost of one interaction. More than 584 years count as that.
    pub fn set(&self, interaction: Interaction, cost: Duration) {
        let nanos = u64::try_from(cost.as_nanos()).unwrap_or(u64::MAX);
        self.nanos[interaction as usize].store(nanos, Ordering::Relaxed);
    }

    /// The cost of one interaction.
    #[must_use]
    pub fn get(&self, interaction: Interaction) -> Duration {
        Duration::from_nanos(self.nanos[interaction as usize].load(Ordering::Relaxed))
    }
}

/// Computes until this thread has run for `cost` more. Time in which another thread has the core does not count, so
/// the work is the same however busy the machine is.
pub(crate) fn burn(cost: Duration) {
    if cost.is_zero() {
        return;
    }
    let end = thread_time() + cost;
    let mut state = 1_u64;
    while thread_time() < end {
        // About a microsecond between two looks at the clock.
        for _ in 0..1_000 {
            state = std::hint::black_box(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
        }
    }
}

/// Processor time this thread has used.
pub(crate) fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn burning_uses_processor_time_and_nothing_uses_none() {
        let before = thread_time();
        burn(Duration::from_millis(3));
        assert!(thread_time() - before >= Duration::from_millis(3));
        burn(Duration::ZERO);
    }

    #[test]
    fn single_costs_stand_over_the_page_cost_and_static_pages_are_free() {
        let options = Options {
            page_cost: Duration::from_millis(2),
            page_costs: [(Interaction::StoreBid, Duration::from_millis(20))].into(),
            ..Options::default()
        };
        let costs = Costs::new(&options);
        assert_eq!(costs.get(Interaction::ViewItem), Duration::from_millis(2));
        assert_eq!(costs.get(Interaction::StoreBid), Duration::from_millis(20));
        assert_eq!(costs.get(Interaction::Home), Duration::ZERO);
        costs.set_pages(Duration::from_millis(4));
        assert_eq!(costs.get(Interaction::StoreBid), Duration::from_millis(4));
    }
}
