//! What is in flight on a path of the reference, and whom the leads of classes let start.

use std::time::Duration;

use super::{super::super::Exchange, World};
use crate::Timestamp;

/// An exchange in flight, granted ones that nobody has collected among them.
#[derive(Clone, Debug)]
pub(super) struct UnderWay {
    /// Of its request.
    pub(super) sequence: u64,
    pub(super) class: usize,
    pub(super) weight: u32,
    /// From when the server could be at it; `None`: it has started with a lead, or its class had none.
    pub(super) since: Option<Timestamp>,
    pub(super) is_early: bool,
    /// Whether its end may be expected.
    pub(super) is_expected: bool,
}

impl World {
    /// Weight in flight, of a class or of all.
    pub(in super::super) fn in_flight(&self, class: Option<usize>) -> u64 {
        let of_class = self.under_way.iter().filter(|one| class.is_none_or(|class| class == one.class));
        of_class.map(|one| u64::from(one.weight)).sum()
    }

    /// Whether the class's own bound has room, or will have within its lead.
    pub(super) fn has_room(&self, exchange: &Exchange) -> bool {
        let class = exchange.class.index();
        let Some(max) = self.classes[class].in_flight_max else { return true };
        self.fits(Some(class), Some(max), exchange)
            || self.fits(None, self.limit, exchange) && self.lead_lets_start(class, max, exchange.weight)
    }

    fn lead_lets_start(&self, class: usize, max: u32, weight: u32) -> bool {
        let (Some(lead), Some(first)) = (self.classes[class].in_flight_lead, self.expected_first(class))
        else {
            return false;
        };
        let in_flight = self.in_flight(Some(class));
        let after = in_flight - u64::from(first.weight);
        in_flight <= u64::from(max)
            && (after == 0 || after + u64::from(weight) <= u64::from(max))
            && self.ends_within(class, self.now.since(first.since.unwrap()), lead)
    }

    fn expected_first(&self, class: usize) -> Option<&UnderWay> {
        self.under_way.iter().find(|one| one.class == class && one.is_expected)
    }

    /// The last 32 times of the class that are longer.
    fn longer(&self, class: usize, elapsed: Duration) -> Vec<Duration> {
        self.times[class].iter().rev().take(32).copied().filter(|time| *time > elapsed).collect()
    }

    fn ends_within(&self, class: usize, elapsed: Duration, lead: Duration) -> bool {
        let longer = self.longer(class, elapsed);
        let within = longer.iter().filter(|time| **time <= elapsed + lead).count();
        longer.len() >= 8 && within as f64 / longer.len() as f64 >= 0.75
    }

    /// When the lead of a class begins to let somebody start, or ceases to.
    pub(super) fn lead_moments(&self, class: usize) -> Vec<Timestamp> {
        let settings = &self.classes[class];
        let (Some(max), Some(lead)) = (settings.in_flight_max, settings.in_flight_lead) else {
            return Vec::new();
        };
        let Some(first) = self.expected_first(class) else { return Vec::new() };
        if self.in_flight(Some(class)) > u64::from(max) {
            return Vec::new();
        }
        let recent = self.longer(class, Duration::ZERO);
        let since = first.since.unwrap();
        let elapsed = self.now.since(since);
        let is_open = self.ends_within(class, elapsed, lead);
        let turns = recent.iter().flat_map(|time| [time.saturating_sub(lead), *time]);
        let turns = turns.filter(|turn| *turn > elapsed && self.ends_within(class, *turn, lead) != is_open);
        turns.map(|turn| since + turn).collect()
    }

    /// Who of the class has started with a lead has the server now.
    pub(super) fn follow(&mut self, class: usize) {
        if let Some(position) = self.under_way.iter().position(|one| one.class == class && one.is_early) {
            let early = self.under_way.remove(position);
            self.under_way.push(UnderWay {
                since: Some(self.now),
                is_early: false,
                is_expected: true,
                ..early
            });
        }
    }

    /// An exchange is over; `is_time`: what it took says what others will take.
    pub(super) fn give_back(&mut self, sequence: u64, is_time: bool) {
        let position = self.under_way.iter().position(|one| one.sequence == sequence).unwrap();
        let ended = self.under_way.remove(position);
        if !ended.is_early {
            self.follow(ended.class);
        }
        self.times[ended.class].extend(ended.since.filter(|_| is_time).map(|since| self.now.since(since)));
        while let Some(first) = self.expected_first(ended.class)
            && self.longer(ended.class, self.now.since(first.since.unwrap())).len() < 8
        {
            let outlasts = first.sequence;
            self.under_way.iter_mut().find(|one| one.sequence == outlasts).unwrap().is_expected = false;
        }
    }
}
