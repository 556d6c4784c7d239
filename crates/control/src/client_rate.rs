//! A rate limit for each client, in bounded memory.

use std::time::Duration;

use crate::{
    Timestamp,
    key_table::KeyTable,
    knobs::{Mode, Values, keys},
};

/// The limit; knobs `client.*`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClientRateSettings {
    /// Requests per second of one client, above 0; `None`: no limit, and nobody is remembered.
    pub rate_per_s: Option<f64>,
    /// Requests one client may send at once after a quiet spell, at least 1.
    pub burst: f64,
    /// Clients remembered at once, at least 1.
    pub tracked_max: usize,
}

impl ClientRateSettings {
    /// The settings an application's knobs say.
    #[must_use]
    pub fn from_values(application: &Values) -> Self {
        Self {
            rate_per_s: application.get(keys::CLIENT_RATE).map(|rate| rate.0),
            burst: application.get(keys::CLIENT_BURST),
            tracked_max: usize::try_from(application.get(keys::CLIENTS_MAX)).unwrap_or(usize::MAX),
        }
    }

    /// Whether an application's limit acts.
    #[must_use]
    pub fn mode(application: &Values) -> Mode {
        application.get(keys::CLIENT_MODE).unwrap_or_else(|| application.get(keys::MODE)).0
    }
}

/// A refused request would be taken after this long, if nothing else is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryAfter(pub Duration);

/// Decides for each request whether its client stays within its rate.
///
/// The generic cell rate algorithm in its virtual scheduling form (ITU-T I.371, annex A; ATM Forum
/// Traffic Management 4.1, section 4.4.2): each client has one theoretical arrival time `TAT`, when
/// its next request would come at exactly the rate. With `T` = 1 / rate, a request at `now` is
/// taken if `max(TAT, now) + T <= now + burst · T`, and then moves `TAT` on by `T`. That is
/// a token bucket of `burst` tokens, with one number a client instead of two, and no refilling.
///
/// # Memory
///
/// At most `tracked_max` clients, 32 bytes each and 4 to 8 more for finding it, reserved when the
/// limit is switched on. When all places are taken, a newcomer takes over the one longest unseen
/// **with the debt left on it**: forgetting favours nobody. An evicted client that comes back loses
/// its own debt but finds that of whoever it evicts in turn; over any time `t` all clients
/// together are admitted at most `tracked_max · (burst + t / T)` requests, however many there
/// are and whatever addresses they use. The price is paid by newcomers while more than `tracked_max`
/// clients arrive within `burst · T`; else the debt of the longest unseen is long paid.
///
/// # Edges
///
/// `T` is rounded to whole nanoseconds (0.05 % at a million a second). A change of rate keeps debts
/// in time, cut to the new `burst · T`. Where time runs backwards no debt exceeds `burst · T` either.
/// Every call is O(1) but [`ClientRates::configure`]; none else allocates. Keys are hashes with a secret seed.
///
/// ```
/// use std::time::Duration;
/// use tidegate_control::{Timestamp, client_rate::{ClientRateSettings, ClientRates, RetryAfter}};
///
/// let now = Timestamp::from_nanos(1_000_000_000);
/// let settings = ClientRateSettings { rate_per_s: Some(10.0), burst: 2.0, tracked_max: 100 };
/// let mut rates = ClientRates::new(now, settings);
/// // T is 100 ms. TAT moves to now + 100 ms, then to now + 200 ms = now + burst · T.
/// assert_eq!(rates.take(now, 7), Ok(()));
/// assert_eq!(rates.take(now, 7), Ok(()));
/// // now + 300 ms would be 100 ms too far; 30 ms later it is 70 ms.
/// assert_eq!(rates.take(now + Duration::from_millis(30), 7), Err(RetryAfter(Duration::from_millis(70))));
/// // Another client has its own.
/// assert_eq!(rates.take(now, 8), Ok(()));
/// ```
#[derive(Clone, Debug)]
pub struct ClientRates {
    limit: Option<Limit>,
    /// Theoretical arrival times.
    clients: KeyTable<Timestamp>,
}

impl ClientRates {
    /// With these settings, and nobody seen yet.
    #[must_use]
    pub fn new(now: Timestamp, settings: ClientRateSettings) -> Self {
        let mut rates = Self { limit: None, clients: KeyTable::new(0) };
        rates.configure(now, settings);
        rates
    }

    /// Takes over changed settings. Clients are kept; where `tracked_max` shrinks, those most
    /// recently seen. O(n).
    pub fn configure(&mut self, now: Timestamp, settings: ClientRateSettings) {
        self.limit = settings.rate_per_s.map(|rate_per_s| Limit::new(rate_per_s, settings.burst));
        if let Some(limit) = self.limit {
            let latest = now + limit.span;
            self.clients.values_mut().for_each(|arrival| *arrival = (*arrival).min(latest));
        }
        let places = if self.limit.is_some() { settings.tracked_max.max(1) } else { 0 };
        if places != self.clients.capacity() {
            self.clients.resize(places);
        }
    }

    /// Takes a request of client `key`.
    ///
    /// # Errors
    ///
    /// [`RetryAfter`] if the client is over its rate; the request costs it nothing then.
    pub fn take(&mut self, now: Timestamp, key: u64) -> Result<(), RetryAfter> {
        let Some(limit) = self.limit else { return Ok(()) };
        if let Some(arrival) = self.clients.use_entry(key) {
            *arrival = limit.next(now, *arrival)?;
            return Ok(());
        }
        let arrival = if self.clients.is_full() {
            let Some((oldest, debt)) = self.clients.oldest() else { return Ok(()) };
            let arrival = limit.next(now, debt)?;
            self.clients.remove(oldest);
            arrival
        } else {
            limit.next(now, now)?
        };
        self.clients.insert(key, arrival);
        Ok(())
    }

    /// Clients remembered.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.clients.len()
    }

    /// Whether nobody is remembered.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Checks what must hold between calls. O(n).
    ///
    /// # Panics
    ///
    /// If it does not: a mistake in this program.
    pub fn check_invariants(&self) {
        self.clients.check_invariants();
        assert!(self.limit.is_some() || self.is_empty(), "without a limit nobody is remembered");
    }
}

/// A rate and a burst as times.
#[derive(Clone, Copy, Debug)]
struct Limit {
    /// `T`, at least 1 ns.
    interval: Duration,
    /// `burst · T`, at least `T`.
    span: Duration,
}

impl Limit {
    fn new(rate_per_s: f64, burst: f64) -> Self {
        // Casts saturate: a rate near 0 gives intervals of centuries, which additions survive.
        let interval_ns = ((1e9 / rate_per_s).round() as u64).max(1);
        let span_ns = (interval_ns as f64 * burst) as u64;
        Self {
            interval: Duration::from_nanos(interval_ns),
            span: Duration::from_nanos(span_ns.max(interval_ns)),
        }
    }

    /// The theoretical arrival time after a request at `now`.
    fn next(self, now: Timestamp, arrival: Timestamp) -> Result<Timestamp, RetryAfter> {
        let latest = now + self.span;
        let next = arrival.clamp(now, latest) + self.interval;
        if next <= latest { Ok(next) } else { Err(RetryAfter(next.since(latest))) }
    }
}

#[cfg(test)]
mod tests;
