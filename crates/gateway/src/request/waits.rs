//! Who keeps an exchange waiting: its client or its server. It rests while that is its client.
//!
//! ```text
//! rests once its client was waited for  1 s in all since it counts
//! counts once its server was waited for 0.1 s in all since it rests
//! ```
//!
//! In all, since a client that takes or sends a little now and then is slow all the same. A second is longer than a network
//! stutters and shorter than anybody waits in a queue for long. What works for it is to be counted sooner, but not at each
//! millisecond in which a server on the same network gets the next piece ready. Both are of how exchanges go on and not of
//! a site, so that they are no knobs.

use std::time::Duration;

use tokio::time::Instant;

use super::in_flight::{AGAIN, Standing};

/// For so long a client is waited for in all before its exchange rests.
const CLIENT: Duration = Duration::from_secs(1);

/// For so long a server is waited for in all before an exchange that rests counts.
const SERVER: Duration = Duration::from_millis(100);

/// The side that is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Client,
    Server,
}

/// For how long each side has been waited for since the exchange last changed how it stands.
#[derive(Clone, Debug, Default)]
pub(super) struct Waits {
    /// Who is waited for now, and since when.
    now: Option<(Side, Instant)>,
    client: Duration,
    server: Duration,
    /// A change that was not to be had is not tried again before.
    again: Option<Instant>,
}

impl Waits {
    /// Nobody is waited for.
    pub(super) fn go_on(&mut self, now: Instant) {
        match self.now.take() {
            Some((Side::Client, since)) => self.client += now.duration_since(since),
            Some((Side::Server, since)) => self.server += now.duration_since(since),
            None => {}
        }
    }

    /// This side is waited for from now on, if it has not been already.
    pub(super) fn begin(&mut self, side: Side, now: Instant) {
        if self.now.is_none_or(|(present, _)| present != side) {
            self.go_on(now);
            self.now = Some((side, now));
        }
    }

    /// When an exchange that stands so is to change that, if the same side is waited for until then.
    pub(super) fn due(&self, standing: Standing) -> Option<Instant> {
        let (side, since) = self.now?;
        let left = match (standing, side) {
            (Standing::Counts, Side::Client) => CLIENT.saturating_sub(self.client),
            (Standing::Rests, Side::Server) => SERVER.saturating_sub(self.server),
            _ => return None,
        };
        Some(self.again.map_or(since + left, |again| again.max(since + left)))
    }

    /// It has changed how it stands; gives how long its client was waited for.
    pub(super) fn change(&mut self, now: Instant) -> Duration {
        let side = self.now.map(|(side, _)| side);
        self.go_on(now);
        let client = self.client;
        *self = Self { now: side.map(|side| (side, now)), ..Self::default() };
        client
    }

    /// It was to change and could not.
    pub(super) fn defer(&mut self, now: Instant) {
        self.again = Some(now + AGAIN);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_what_a_side_was_waited_for_in_all() {
        let began = Instant::now();
        let at = |ms| began + Duration::from_millis(ms);
        let mut waits = Waits::default();
        assert_eq!(waits.due(Standing::Counts), None);
        for round in 0..9 {
            waits.begin(Side::Client, at(1000 * round));
            waits.begin(Side::Client, at(1000 * round + 50));
            waits.begin(Side::Server, at(1000 * round + 100));
            assert_eq!(waits.due(Standing::Counts), None);
            waits.go_on(at(1000 * round + 500));
        }
        waits.begin(Side::Client, at(9000));
        assert_eq!(waits.due(Standing::Counts), Some(at(9100)));
        assert_eq!((waits.due(Standing::Rests), waits.due(Standing::Streams)), (None, None));
        // Asked for in vain, again a second later; and once it has changed everything begins anew.
        waits.defer(at(9100));
        assert_eq!(waits.due(Standing::Counts), Some(at(10_100)));
        assert_eq!(waits.change(at(10_100)), Duration::from_secs(2));
        assert_eq!(waits.due(Standing::Rests), None);
        waits.begin(Side::Server, at(10_200));
        assert_eq!(waits.due(Standing::Rests), Some(at(10_300)));
    }
}
