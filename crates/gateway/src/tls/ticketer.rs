//! Session tickets of our own: sealed by keys that all cores share and that change every few hours.
//!
//! A ticket is `key name (8 bytes) | nonce (12) | sealed session | tag (16)`, sealed by
//! AES-256-GCM-SIV, which stays safe should a random nonce ever come twice. The scope (what was
//! asked of client certificates) is authenticated with it, so that a session begun on a listener
//! that asks for none is not resumed on one that does.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use arc_swap::ArcSwap;
use aws_lc_rs::aead::{AES_256_GCM_SIV, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use rustls::server::ProducesTickets;
use tidegate_control::Timestamp;
use tidegate_runtime::Clock;

/// How long one key seals.
const PERIOD: Duration = Duration::from_secs(6 * 3600);
/// Keys that still open after they no longer seal.
const KEPT: u32 = 2;
/// How long a ticket can be resumed at least, told to clients.
const LIFETIME: Duration = Duration::from_secs(KEPT as u64 * PERIOD.as_secs());

const NAME_LEN: usize = 8;
const SECRET_LEN: usize = 32;
const PLACE_LEN: usize = 8 + NAME_LEN + SECRET_LEN;

/// The keys of tickets; one for the whole process.
pub(crate) struct Ticketer {
    clock: Clock,
    keys: ArcSwap<Keys>,
    /// Held while a new key is made.
    rotating: Mutex<()>,
}

/// No random numbers, or keys that another process handed over and that are not keys.
#[derive(Debug, thiserror::Error)]
#[error("the keys of session tickets cannot be made")]
pub struct TicketerError;

/// The tickets of listeners that ask the same of clients.
#[derive(Clone, Debug)]
pub(crate) struct Scope {
    ticketer: Arc<Ticketer>,
    context: [u8; 32],
}

impl Ticketer {
    /// With a fresh key.
    pub(crate) fn new(clock: Clock) -> Result<Arc<Self>, TicketerError> {
        let keys = vec![Arc::new(Key::random(clock.now())?)];
        Ok(Self::with(clock, keys))
    }

    /// With the keys another process handed over ([`Ticketer::to_bytes`]).
    pub(crate) fn from_bytes(clock: Clock, bytes: &[u8]) -> Result<Arc<Self>, TicketerError> {
        let (places, rest) = bytes.as_chunks::<PLACE_LEN>();
        if places.is_empty() || places.len() > 1 + KEPT as usize || !rest.is_empty() {
            return Err(TicketerError);
        }
        let keys = places.iter().map(|place| Key::from_bytes(place).map(Arc::new));
        Ok(Self::with(clock, keys.collect::<Result<_, _>>()?))
    }

    fn with(clock: Clock, keys: Vec<Arc<Key>>) -> Arc<Self> {
        Arc::new(Self { clock, keys: ArcSwap::from_pointee(Keys(keys)), rotating: Mutex::new(()) })
    }

    /// The keys as bytes, for the process that takes over. Secret.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        self.keys.load().0.iter().flat_map(|key| key.to_bytes()).collect()
    }

    /// The tickets of one scope.
    pub(crate) fn scope(self: &Arc<Self>, context: [u8; 32]) -> Scope {
        Scope { ticketer: Arc::clone(self), context }
    }

    /// The key that seals now.
    fn sealing(&self) -> Option<Arc<Key>> {
        let now = self.clock.now();
        let present = self.keys.load();
        let newest = present.0.first()?;
        if now.since(newest.made) < PERIOD {
            return Some(Arc::clone(newest));
        }
        let _rotating = self.rotating.lock().unwrap_or_else(PoisonError::into_inner);
        let present = self.keys.load_full();
        let newest = present.0.first()?;
        if now.since(newest.made) < PERIOD {
            // Another core was faster.
            return Some(Arc::clone(newest));
        }
        let key = Arc::new(Key::random(now).ok()?);
        let kept = present.0.iter().filter(|key| key.opens_at(now)).take(KEPT as usize);
        self.keys.store(Arc::new(Keys(std::iter::once(&key).chain(kept).cloned().collect())));
        Some(key)
    }

    fn opening(&self, name: &[u8]) -> Option<Arc<Key>> {
        let now = self.clock.now();
        self.keys.load().0.iter().find(|key| key.name == name && key.opens_at(now)).cloned()
    }
}

impl fmt::Debug for Ticketer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticketer").field("keys", &self.keys.load().0.len()).finish_non_exhaustive()
    }
}

impl ProducesTickets for Scope {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        u32::try_from(LIFETIME.as_secs()).unwrap_or(u32::MAX)
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        let key = self.ticketer.sealing()?;
        let mut sealed = plain.to_vec();
        let nonce = key.sealer.seal_in_place_append_tag(self.aad(&key.name), &mut sealed).ok()?;
        Some([&key.name[..], nonce.as_ref(), &sealed].concat())
    }

    fn decrypt(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        let (name, rest) = ticket.split_at_checked(NAME_LEN)?;
        let (nonce, sealed) = rest.split_at_checked(NONCE_LEN)?;
        let key = self.ticketer.opening(name)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let mut plain = sealed.to_vec();
        let len = key.sealer.open_in_place(nonce, self.aad(&key.name), &mut plain).ok()?.len();
        plain.truncate(len);
        Some(plain)
    }
}

/// The same tickets, none of which opens: for handshakes that are to be full.
#[derive(Debug)]
pub(super) struct SealsOnly(pub(super) Scope);

impl ProducesTickets for SealsOnly {
    fn enabled(&self) -> bool {
        self.0.enabled()
    }

    fn lifetime(&self) -> u32 {
        self.0.lifetime()
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        self.0.encrypt(plain)
    }

    fn decrypt(&self, _: &[u8]) -> Option<Vec<u8>> {
        None
    }
}

impl Scope {
    fn aad(&self, name: &[u8; NAME_LEN]) -> Aad<[u8; NAME_LEN + 32]> {
        let mut aad = [0; NAME_LEN + 32];
        let (to_name, to_context) = aad.split_at_mut(NAME_LEN);
        to_name.copy_from_slice(name);
        to_context.copy_from_slice(&self.context);
        Aad::from(aad)
    }
}

/// The newest first; never empty.
struct Keys(Vec<Arc<Key>>);

struct Key {
    name: [u8; NAME_LEN],
    made: Timestamp,
    secret: [u8; SECRET_LEN],
    sealer: RandomizedNonceKey,
}

impl Key {
    fn random(made: Timestamp) -> Result<Self, TicketerError> {
        let (mut name, mut secret) = ([0; NAME_LEN], [0; SECRET_LEN]);
        aws_lc_rs::rand::fill(&mut name).map_err(|_| TicketerError)?;
        aws_lc_rs::rand::fill(&mut secret).map_err(|_| TicketerError)?;
        Self::new(name, made, secret)
    }

    fn new(name: [u8; NAME_LEN], made: Timestamp, secret: [u8; SECRET_LEN]) -> Result<Self, TicketerError> {
        let sealer = RandomizedNonceKey::new(&AES_256_GCM_SIV, &secret).map_err(|_| TicketerError)?;
        Ok(Self { name, made, secret, sealer })
    }

    fn opens_at(&self, now: Timestamp) -> bool {
        now.since(self.made) < PERIOD + LIFETIME
    }

    fn to_bytes(&self) -> Vec<u8> {
        [&self.made.as_nanos().to_be_bytes()[..], &self.name, &self.secret].concat()
    }

    fn from_bytes(bytes: &[u8; PLACE_LEN]) -> Result<Self, TicketerError> {
        let (made, rest) = bytes.split_first_chunk::<8>().ok_or(TicketerError)?;
        let (name, rest) = rest.split_first_chunk::<NAME_LEN>().ok_or(TicketerError)?;
        let secret = rest.first_chunk::<SECRET_LEN>().ok_or(TicketerError)?;
        Self::new(*name, Timestamp::from_nanos(u64::from_be_bytes(*made)), *secret)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope() -> Scope {
        Ticketer::new(Clock::start()).unwrap().scope([0; 32])
    }

    #[test]
    fn a_ticket_opens_again_and_a_changed_one_does_not() {
        let scope = scope();
        let ticket = scope.encrypt(b"session").unwrap();
        assert_eq!(scope.decrypt(&ticket).as_deref(), Some(&b"session"[..]));
        for at in 0..ticket.len() {
            let mut changed = ticket.clone();
            changed[at] ^= 1;
            assert_eq!(scope.decrypt(&changed), None, "byte {at}");
            assert_eq!(scope.decrypt(&ticket[..at]), None, "cut at {at}");
        }
    }

    #[test]
    fn a_ticket_of_another_scope_or_process_does_not_open() {
        let scope = scope();
        let ticket = scope.encrypt(b"session").unwrap();
        assert_eq!(scope.ticketer.scope([1; 32]).decrypt(&ticket), None);
        assert_eq!(self::scope().decrypt(&ticket), None);
    }

    #[test]
    fn keys_handed_over_open_what_was_sealed_before() {
        let scope = scope();
        let ticket = scope.encrypt(b"session").unwrap();
        let next = Ticketer::from_bytes(Clock::start(), &scope.ticketer.to_bytes()).unwrap().scope([0; 32]);
        assert_eq!(next.decrypt(&ticket).as_deref(), Some(&b"session"[..]));
        for bytes in [&b""[..], b"no keys", &[0; PLACE_LEN * 4]] {
            assert!(Ticketer::from_bytes(Clock::start(), bytes).is_err());
        }
    }

    #[test]
    fn a_key_seals_for_one_period_and_opens_for_two_more() {
        let clock = Clock::start();
        let old = |age: Duration| Arc::new(Key::random(clock.now() - age).unwrap());
        let (fresh, aged, ancient) = (old(PERIOD / 2), old(PERIOD * 2), old(PERIOD * 4));
        let ticketer = Ticketer::with(clock, vec![fresh.clone(), aged.clone(), ancient.clone()]);
        assert_eq!(ticketer.sealing().unwrap().name, fresh.name);
        assert!(ticketer.opening(&aged.name).is_some());
        assert!(ticketer.opening(&ancient.name).is_none());

        let ticketer = Ticketer::with(clock, vec![aged.clone(), ancient]);
        assert_ne!(ticketer.sealing().unwrap().name, aged.name);
        assert!(ticketer.opening(&aged.name).is_some());
        assert_eq!(ticketer.keys.load().0.len(), 2);
    }

    /// What a predecessor hands over is taken as it is, or refused.
    #[test]
    fn any_bytes_are_keys_or_none() {
        let clock = Clock::start();
        bolero::check!().for_each(|bytes: &[u8]| {
            let whole = &bytes[..bytes.len() - bytes.len() % PLACE_LEN];
            for bytes in [bytes, whole] {
                if let Ok(ticketer) = Ticketer::from_bytes(clock, bytes) {
                    assert_eq!(ticketer.to_bytes(), bytes);
                }
            }
        });
    }
}
