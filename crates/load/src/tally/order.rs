//! Who was overtaken: served more than a second after somebody who had come later.

use std::{collections::VecDeque, time::Duration};

const SECOND: Duration = Duration::from_secs(1);

/// The order in which those of one class are served, as one thread sees it. Bound: the replies of a second.
#[derive(Clone, Debug, Default)]
pub(crate) struct Order {
    /// Replies of the last second, each to a request that came later than those before it: when, and when that had come.
    newest: VecDeque<(Duration, Duration)>,
    /// When the latest request had come that was served more than a second ago.
    before: Duration,
}

impl Order {
    /// A request that came at `came` is served at `now`; whether it was overtaken. Both since the start of the run; `now`
    /// does not run backwards.
    pub(crate) fn is_overtaken(&mut self, now: Duration, came: Duration) -> bool {
        while let Some((_, newest)) = self.newest.pop_front_if(|(at, _)| *at + SECOND < now) {
            self.before = self.before.max(newest);
        }
        if self.newest.back().is_none_or(|(_, newest)| *newest < came) {
            self.newest.push_back((now, came));
        }
        self.before > came
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn a_second_after_somebody_who_came_later() {
        let mut order = Order::default();
        assert!(!order.is_overtaken(ms(1000), ms(900)), "nobody was served before");
        assert!(!order.is_overtaken(ms(1500), ms(100)), "by half a second");
        assert!(!order.is_overtaken(ms(2000), ms(200)), "by a second and no more");
        assert!(order.is_overtaken(ms(2001), ms(300)));
        assert!(!order.is_overtaken(ms(2001), ms(901)), "that one came later than both");
        assert!(order.is_overtaken(ms(9000), ms(900)));
        assert!(!order.is_overtaken(ms(9000), ms(901)));
        // Who was served last counts, however many there were in between.
        for at in 10_000..10_900 {
            assert!(!order.is_overtaken(ms(at), ms(at)));
        }
        assert!(!order.is_overtaken(ms(10_950), ms(10_500)));
        assert!(order.is_overtaken(ms(11_501), ms(10_499)));
        assert!(!order.is_overtaken(ms(11_501), ms(10_501)));
    }
}
