//! Promises that are spent: their holder was let in, or was given another place for coming too late. Who comes late with
//! one of them has no credit.
//!
//! By the minute for which the promise was, since the filters of [`replay`](super::replay) are over with the grace: the last
//! 64 minutes, of which 60 may still have credit, each in a filter of the same kind, 16 bits for each place of its minute. So a
//! promise that is not spent is taken for one with probability 0.0006 where all of a minute are; beyond 524,288 a minute
//! more often. A lot whose draw is forgotten could have been for any of these minutes, and is looked for in all of them: up to 60
//! times as often.
//!
//! Memory: 512 KiB, and 8 MiB at 1,000 places a second, in a room that is on.
//!
//! They are forgotten with the process, as what was used is.

use std::time::Duration;

use super::{Kind, Promise, replay::Replay, room::nanos};
use crate::Timestamp;

/// What one filter is of.
const MINUTE: Duration = Duration::from_secs(60);
/// Who comes this many minutes late, or more, has no credit.
const CREDIT: u64 = 60;
/// Filters: those of the minutes that count, and of the next, in which people come early.
const FILTERS: u64 = 64;
/// Places of a minute for which a filter is made at least.
const PLACES_MIN: u64 = 1 << 12;

/// Filters of the last minutes.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Spent {
    filters: Replay,
}

impl Spent {
    pub(super) fn new() -> Self {
        Self { filters: Replay::new(FILTERS) }
    }

    /// Memory for all minutes, so that none is taken while people come.
    pub(super) fn reserve(&mut self, places: u64, length: Duration) {
        self.filters.reserve(of_minute(places, length));
    }

    /// Makes room for the promises of the minute of `now`; slots of `length` have about so many places.
    pub(super) fn open(&mut self, now: Timestamp, places: u64, length: Duration) {
        self.filters.widen(minute(now), of_minute(places, length));
    }

    /// Notes that a promise for `at` is spent; no slot has more than `places` of them. One that is too old, or of a time that
    /// cannot be yet, is nothing to note.
    pub(super) fn note(&mut self, now: Timestamp, at: Timestamp, places: u64, length: Duration, number: u64) {
        let last = minute(now) + FILTERS - CREDIT;
        if !is_old(now, at) && minute(at) <= last {
            // Whether it was known does not matter: it is now.
            let _ = self.filters.is_new(minute(at), of_minute(places, length), number);
        }
    }

    /// Whether a promise whose time is over has no credit: it is spent, or seems so, or is too old.
    pub(super) fn has_none(&self, now: Timestamp, promise: &Promise) -> bool {
        is_old(now, promise.at) || self.knows(now, promise)
    }

    /// Whether a promise is spent, or seems so.
    pub(super) fn knows(&self, now: Timestamp, promise: &Promise) -> bool {
        let (was, is) = (minute(promise.at), minute(now));
        let spent_in = match promise.kind {
            Kind::Place => was..=was,
            Kind::Lot => (is + 1).saturating_sub(CREDIT)..=is,
        };
        spent_in.into_iter().any(|minute| self.filters.knows(minute, promise.number))
    }
}

/// Whether a promise for `at` has no credit any more, whatever became of it.
fn is_old(now: Timestamp, at: Timestamp) -> bool {
    minute(at) + CREDIT <= minute(now)
}

fn minute(at: Timestamp) -> u64 {
    at.as_nanos() / nanos(MINUTE)
}

fn of_minute(places: u64, length: Duration) -> u64 {
    (u128::from(places) * MINUTE.as_nanos() / length.as_nanos().max(1))
        .try_into()
        .unwrap_or(u64::MAX)
        .max(PLACES_MIN)
}
