//! What of waiting rooms outlives the process: secrets before their first use, promises each second. Keys give way to
//! new ones by age.

use std::{
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use tidegate_control::{
    Timestamp,
    knobs::keys as knob,
    waiting_room::{BYPASS_MAX, RoomSnapshot},
};
use tidegate_runtime::{RoomSecrets, Shared};
use tidegate_store::{
    Error, RoomKey, StoredSecrets, has_room_secrets, read_room, read_room_secrets, write_room,
    write_room_secrets,
};
use tidegate_tokens::{Key, Keys};

/// How long a key is kept after another has taken its place. Nothing that it signed holds for longer: tokens to pass
/// by 31 days, passes a week, promises a day and what one may be late.
const KEY_KEPT: Duration = BYPASS_MAX;
/// Keys at once. A week at least between two of them by age, no more than 6 are needed.
const KEYS_MAX: usize = 8;
/// What errors of keys that are in no file are said to be of.
const KEYS: &str = "waiting-room.keys";

/// What a process signs and draws with: what its state directory holds, else new secrets that are written there first.
/// Without a state directory they end with the process.
///
/// # Errors
///
/// [`Error`] if the secrets there cannot be read or new ones not be written: with others, promises that are out would
/// be broken.
pub fn room_secrets(directory: Option<&Path>, now: Timestamp) -> Result<RoomSecrets, Error> {
    let Some(directory) = directory else { return Ok(RoomSecrets::of_this_process(now)) };
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
    change_key(shared, Some(directory), |_| true)
}

/// Puts a new key in place of the one that signs, if that `is_due`; gives the number of the one that signs then.
fn change_key(
    shared: &Shared,
    directory: Option<&Path>,
    is_due: impl FnOnce(&RoomKey) -> bool,
) -> Result<u8, Error> {
    // What is written counts: a process before this one may have changed it since.
    let read = directory.map(read_room_secrets).transpose()?.flatten();
    let mut stored = match read {
        Some(read) => read,
        None => present(shared),
    };
    if stored.keys.first().is_none_or(is_due) {
        let now = shared.clock().now();
        let id = stored.keys.first().map_or(0, |newest| newest.id.wrapping_add(1));
        begin(&mut stored.keys, new_key(id, now)?);
        if let Some(directory) = directory {
            write_room_secrets(directory, &stored)?;
        }
    }
    let id = stored.keys.first().map_or(0, |newest| newest.id);
    shared.set_room_keys(keys(&stored)?).map_err(|error| other(Path::new(KEYS), error.to_string()))?;
    Ok(id)
}

/// `fresh` begins to sign. Of the others those go whose tokens have all ended.
fn begin(keys: &mut Vec<RoomKey>, fresh: RoomKey) {
    let now = fresh.made;
    keys.insert(0, fresh);
    // A key signs until the one before it in the list is made.
    let mut ended = now;
    keys.retain(|key| {
        let may_be_out = now.since(ended) < KEY_KEPT;
        ended = key.made;
        may_be_out
    });
    keys.truncate(KEYS_MAX);
}

/// Puts new keys in place of those that have signed for `waiting_room.key.age.max`.
#[derive(Debug, Default)]
pub(crate) struct Rotation {
    /// Whether the last try failed: it is said once.
    failing: AtomicBool,
    stopped: AtomicBool,
}

impl Rotation {
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// To be called each second or so.
    pub(crate) fn look(&self, shared: &Shared, directory: Option<&Path>) {
        let Some(age_max) = shared.snapshot().settings.host.get(knob::ROOM_KEY_AGE_MAX) else { return };
        let now = shared.clock().now();
        let is_old = |made: Timestamp| now.since(made) >= age_max;
        let is_due = shared.room_keys().list().first().is_some_and(|newest| is_old(newest.made));
        if !is_due || self.stopped.load(Ordering::Relaxed) {
            return;
        }
        match change_key(shared, directory, |newest| is_old(newest.made)) {
            Ok(id) => {
                self.failing.store(false, Ordering::Relaxed);
                tracing::info!(id, ?age_max, "tokens of waiting rooms are signed with a new key, by age");
            }
            Err(error) if !self.failing.swap(true, Ordering::Relaxed) => {
                tracing::error!(%error, "tokens of waiting rooms are still signed with a key that is too old");
            }
            Err(_) => {}
        }
    }
}

/// The secrets of this process, as they are kept.
fn present(shared: &Shared) -> StoredSecrets {
    let RoomSecrets { keys, draw } = shared.room_secrets();
    let keep = |key: &Key| RoomKey { id: key.id, secret: key.secret, made: key.made };
    StoredSecrets { keys: keys.list().iter().map(keep).collect(), draw }
}

/// Writes the secrets of this process again if their file has gone: the next process would break what is promised.
fn keep_secrets(shared: &Shared, directory: &Path) -> Result<(), Error> {
    if has_room_secrets(directory) {
        return Ok(());
    }
    write_room_secrets(directory, &present(shared))?;
    tracing::warn!(directory = %directory.display(), "the keys of waiting rooms had gone and are written again");
    Ok(())
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
            Err(fault) => {
                tracing::error!(application = name, %fault, "what a waiting room may have promised is not taken over")
            }
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

    /// Writes it; `is_last`: nothing is promised any more.
    pub(crate) fn keep(&self, shared: &Shared, directory: &Path, is_last: bool) {
        if self.stopped.load(Ordering::Relaxed) {
            return;
        }
        let (mut failure, mut promises) = (None, false);
        for application in &shared.snapshot().applications {
            let room = application.state.waiting_room();
            if !room.is_on() {
                continue;
            }
            promises = true;
            let snapshot = room.snapshot();
            let bytes = if is_last { snapshot.last() } else { snapshot }.to_bytes();
            if let Err(error) = write_room(directory, &application.settings.name, &bytes) {
                failure = Some(error);
            }
        }
        if promises && let Err(error) = keep_secrets(shared, directory) {
            failure = Some(error);
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
    let mut keys = stored.keys.iter().map(|key| Key { id: key.id, secret: key.secret, made: key.made });
    let newest = keys.next();
    let older: Vec<Key> = keys.collect();
    let keys = newest.map(|newest| Keys::new(newest, &older));
    match keys {
        Some(Ok(keys)) => Ok(keys),
        Some(Err(fault)) => Err(other(Path::new(KEYS), fault.to_string())),
        None => Err(other(Path::new(KEYS), "holds no key".to_owned())),
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

#[cfg(test)]
mod tests {
    use tidegate_control::{ClassId, waiting_room::Bypass};
    use tidegate_runtime::Clock;

    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);
    const DAY: Duration = Duration::from_secs(86_400);

    fn key(number: u16, made: Timestamp) -> RoomKey {
        let mut secret = [0; 32];
        secret[..2].copy_from_slice(&number.to_be_bytes());
        RoomKey { id: u8::try_from(number % 256).unwrap(), secret, made }
    }

    /// Six years, hour by hour, with the shortest age and a restart each day: whatever was signed holds until it ends.
    #[test]
    fn what_an_old_key_signed_holds_as_long_as_it_may_and_keys_are_few() {
        let directory = tempfile::tempdir().unwrap();
        let (start, age_max) = (Timestamp::from_nanos(1_795_262_400_000_000_000), 7 * DAY);
        let mut stored = StoredSecrets { keys: vec![key(0, start)], draw: 1 };
        write_room_secrets(directory.path(), &stored).unwrap();
        let (mut out, mut made): (Vec<(Timestamp, String)>, u16) = (Vec::new(), 1);
        for hour in 0..6 * 366 * 24 {
            let now = start + HOUR * hour;
            if now.since(stored.keys[0].made) >= age_max {
                begin(&mut stored.keys, key(made, now));
                made += 1;
                write_room_secrets(directory.path(), &stored).unwrap();
            }
            if hour % 24 > 0 {
                continue;
            }
            let read = read_room_secrets(directory.path()).unwrap().unwrap();
            assert_eq!(read, stored, "a restart changes nothing");
            assert!(read.keys.len() <= 6, "{} keys", read.keys.len());
            let signer = keys(&read).unwrap().for_application("shop", &["default"]);
            let until = now + BYPASS_MAX;
            let bypass = Bypass { class: ClassId(0), issued: now, until, number: 1 };
            out.push((until, signer.bypass(&bypass).to_string()));
            out.retain(|(until, _)| *until > now);
            for (until, text) in &out {
                assert_eq!(signer.read_bypass(text.as_bytes()).map(|read| read.until), Ok(*until));
            }
        }
        assert!(made > 300, "numbers of keys were used again: {made} keys");
    }

    #[test]
    fn a_key_goes_when_all_that_it_signed_has_ended() {
        let start = Timestamp::from_nanos(1_795_262_400_000_000_000);
        let mut keys = vec![key(1, start)];
        begin(&mut keys, key(2, start + 10 * DAY));
        // The first one signed until then: 31 days later it goes.
        begin(&mut keys, key(3, start + 40 * DAY));
        assert_eq!(keys.iter().map(|key| key.id).collect::<Vec<_>>(), [3, 2, 1]);
        begin(&mut keys, key(4, start + 41 * DAY));
        assert_eq!(keys.iter().map(|key| key.id).collect::<Vec<_>>(), [4, 3, 2]);
        (5..30).for_each(|id| begin(&mut keys, key(id, start + 41 * DAY)));
        assert_eq!(keys.len(), KEYS_MAX, "however often it is changed by hand");
    }

    #[test]
    fn secrets_whose_file_has_gone_are_written_again_as_they_are() {
        let directory = tempfile::tempdir().unwrap();
        let now = Clock::start().now();
        let secrets = room_secrets(Some(directory.path()), now).unwrap();
        let written = read_room_secrets(directory.path()).unwrap();
        let text = "[[listener]]\naddress = \"127.0.0.1:0\"\n[application.shop]\n\
                    servers = [\"http://127.0.0.1:1\"]\nwaiting_room.method = \"fifo\"\n";
        let settings = tidegate_config::parse(text, Path::new("/"), "test");
        let shared = Shared::with_secrets(settings.unwrap(), secrets).unwrap();
        std::fs::remove_dir_all(directory.path()).unwrap();
        Keeper::default().keep(&shared, directory.path(), false);
        assert!(written.is_some());
        assert_eq!(read_room_secrets(directory.path()).unwrap(), written);
    }
}
