//! Keys: the one that signs, and those before it whose tokens still hold.

use std::fmt;

use aws_lc_rs::hmac::{self, HMAC_SHA256};
use tidegate_control::Timestamp;

use crate::Signer;

/// Bytes of a secret.
pub const SECRET_LEN: usize = 32;

/// Keys there may be at once.
const KEYS_MAX: usize = 8;

/// A secret and the number by which tokens name it.
#[derive(Clone, PartialEq, Eq)]
pub struct Key {
    /// Its number. A number is used again after 256 keys, when no token of the first is out any more.
    pub id: u8,
    /// From a source of chance, and written down before it is used: a token outlives the process.
    pub secret: [u8; SECRET_LEN],
    /// When it was made, and began to sign.
    pub made: Timestamp,
}

/// A key of one application: HMAC-SHA-256 of its name, by the secret of a [`Key`]. Nothing of other applications follows
/// from it.
#[derive(Clone, PartialEq, Eq)]
pub struct ApplicationKey {
    /// The number of the key it comes of.
    pub id: u8,
    /// What signs.
    pub secret: [u8; SECRET_LEN],
}

/// Keys, the newest of which signs.
#[derive(Clone, Debug)]
pub struct Keys {
    keys: Vec<Key>,
}

/// Keys that cannot be used together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// Two have one number.
    #[error("two keys have the number {id}: give each a number of its own")]
    SameId {
        /// Which.
        id: u8,
    },
    /// There are too many.
    #[error("{found} keys at once: keep {KEYS_MAX} at most, the newest first")]
    TooMany {
        /// How many.
        found: usize,
    },
}

impl Keys {
    /// The key that signs, and older ones whose tokens still hold.
    ///
    /// # Errors
    ///
    /// Two of one number, or more than eight.
    pub fn new(newest: Key, older: &[Key]) -> Result<Self, KeyError> {
        let mut keys = vec![newest];
        for key in older {
            if keys.iter().any(|known| known.id == key.id) {
                return Err(KeyError::SameId { id: key.id });
            }
            keys.push(key.clone());
        }
        if keys.len() > KEYS_MAX {
            return Err(KeyError::TooMany { found: keys.len() });
        }
        Ok(Self { keys })
    }

    /// All of them, the newest first.
    #[must_use]
    pub fn list(&self) -> &[Key] {
        &self.keys
    }

    /// The keys of one application, the newest first.
    #[must_use]
    pub fn of_application(&self, application: &str) -> Vec<ApplicationKey> {
        let derive = |key: &Key| {
            let mut context = hmac::Context::with_key(&hmac::Key::new(HMAC_SHA256, &key.secret));
            context.update(b"tidegate waiting room, application ");
            context.update(application.as_bytes());
            let mut secret = [0; SECRET_LEN];
            secret.copy_from_slice(context.sign().as_ref());
            ApplicationKey { id: key.id, secret }
        };
        self.keys.iter().map(derive).collect()
    }

    /// What signs and checks for one application, whose classes have these names, dense by id.
    #[must_use]
    pub fn for_application(&self, application: &str, classes: &[&str]) -> Signer {
        Signer::new(&self.of_application(application), &[], classes)
    }
}

impl fmt::Debug for ApplicationKey {
    /// Without the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApplicationKey").field("id", &self.id).finish_non_exhaustive()
    }
}

impl fmt::Debug for Key {
    /// Without the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key").field("id", &self.id).finish_non_exhaustive()
    }
}
