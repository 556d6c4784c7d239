//! What of waiting rooms outlives the process: secrets before their first use, promises each second.

use std::{
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
};

use tidegate_control::{Timestamp, waiting_room::RoomSnapshot};
use tidegate_runtime::{RoomSecrets, Shared};
use tidegate_store::{
    Error, RoomKey, StoredSecrets, read_room, read_room_secrets, write_room, write_room_secrets,
};
use tidegate_tokens::{Key, Keys};

/// What a process signs and draws with: what its state directory holds, else new secrets that are written there first.
/// Without a state directory they end with the process.
///
/// # Errors
///
/// [`Error`] if the secrets there cannot be read or new ones not be written: with others, promises that are out would
/// be broken.
pub fn room_secrets(directory: Option<&Path>, now: Timestamp) -> Result<RoomSecrets, Error> {
    let Some(directory) = directory else { return Ok(RoomSecrets::of_this_process()) };
    let stored = match read_room_secrets(directory)? {
        Some(stored) => stored,
        None => {
            let fresh = StoredSecrets { keys: vec![new_key(0, now)?], draw: random_u64()? };
            write_room_secrets(directory, &fresh)?;
            fresh
        }
    };
    Ok(RoomSecrets { keys: keys(&stored)?, draw: stored.draw })
}

/// Signs with a new key from now on; tokens of the last seven hold. It is written before its first use.
pub(crate) fn rotate(shared: &Shared, directory: &Path) -> Result<u8, Error> {
    let now = shared.clock().now();
    let mut stored = match read_room_secrets(directory)? {
        Some(stored) => stored,
        None => StoredSecrets { keys: Vec::new(), draw: random_u64()? },
    };
    let id = stored.keys.first().map_or(0, |newest| newest.id.wrapping_add(1));
    stored.keys.insert(0, new_key(id, now)?);
    stored.keys.truncate(8);
    write_room_secrets(directory, &stored)?;
    shared.set_room_keys(keys(&stored)?).map_err(|error| other(directory, error.to_string()))?;
    Ok(id)
}

/// Takes over what was promised before.
pub(crate) fn restore(shared: &Shared, directory: &Path) {
    for application in &shared.snapshot().applications {
        let name = &application.settings.name;
        let read = read_room(directory, name).map_err(|error| error.to_string()).and_then(|bytes| {
            bytes.map(|bytes| RoomSnapshot::from_bytes(&bytes)).transpose().map_err(|fault| fault.to_string())
        });
        match read {
            Ok(None) => {}
            Ok(Some(snapshot)) => {
                application.state.waiting_room().restore(&snapshot);
                tracing::info!(application = name, "promises of the waiting room are taken over");
            }
            Err(fault) => tracing::error!(application = name, %fault, "the waiting room begins empty"),
        }
    }
}

/// Writes what rooms have promised.
#[derive(Debug, Default)]
pub(crate) struct Keeper {
    /// Whether the last writing failed: it is said once.
    failing: AtomicBool,
    stopped: AtomicBool,
}

impl Keeper {
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    pub(crate) fn keep(&self, shared: &Shared, directory: &Path) {
        if self.stopped.load(Ordering::Relaxed) {
            return;
        }
        let mut failure = None;
        for application in &shared.snapshot().applications {
            let room = application.state.waiting_room();
            if !room.is_on() {
                continue;
            }
            let bytes = room.snapshot().to_bytes();
            if let Err(error) = write_room(directory, &application.settings.name, &bytes) {
                failure = Some(error);
            }
        }
        let was_failing = self.failing.swap(failure.is_some(), Ordering::Relaxed);
        match failure {
            Some(error) if !was_failing => {
                tracing::error!(%error, "promises of waiting rooms are not kept over a restart");
            }
            None if was_failing => tracing::info!("promises of waiting rooms are written again"),
            _ => {}
        }
    }
}

fn keys(stored: &StoredSecrets) -> Result<Keys, Error> {
    let mut keys = stored.keys.iter().map(|key| Key { id: key.id, secret: key.secret });
    let newest = keys.next();
    let older: Vec<Key> = keys.collect();
    let keys = newest.map(|newest| Keys::new(newest, &older));
    match keys {
        Some(Ok(keys)) => Ok(keys),
        Some(Err(fault)) => Err(other(Path::new("waiting-room.keys"), fault.to_string())),
        None => Err(other(Path::new("waiting-room.keys"), "holds no key".to_owned())),
    }
}

fn new_key(id: u8, made: Timestamp) -> Result<RoomKey, Error> {
    let mut secret = [0; 32];
    getrandom::fill(&mut secret).map_err(|error| other(Path::new("getrandom"), error.to_string()))?;
    Ok(RoomKey { id, secret, made })
}

fn random_u64() -> Result<u64, Error> {
    getrandom::u64().map_err(|error| other(Path::new("getrandom"), error.to_string()))
}

fn other(path: &Path, what: String) -> Error {
    Error::Directory { path: path.to_owned(), source: std::io::Error::other(what) }
}
