//! What waiting rooms must not lose: the keys that sign their tokens, and how many were promised each slot.
//!
//! Files of their own beside the database, each replaced as a whole: a process that takes another's place reads them
//! while that one still holds the database, and a copy of the database holds no secret.

use std::{fmt, path::Path};

use tidegate_control::Timestamp;

use crate::{
    Error,
    files::{read, replace},
};

const KEYS: &str = "waiting-room.keys";
/// First line of the file of keys.
const VERSION: &str = "tidegate waiting room keys 1";
/// Keys kept; the oldest go.
const KEYS_MAX: usize = 8;

/// A key that signs tokens, as it is kept.
#[derive(Clone, PartialEq, Eq)]
pub struct RoomKey {
    /// Its number in tokens.
    pub id: u8,
    /// The secret.
    pub secret: [u8; 32],
    /// When it was made.
    pub made: Timestamp,
}

impl fmt::Debug for RoomKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RoomKey").field("id", &self.id).field("made", &self.made).finish_non_exhaustive()
    }
}

/// What waiting rooms sign with and draw by.
#[derive(Clone, PartialEq, Eq)]
pub struct StoredSecrets {
    /// The keys, the newest first; at most 8 are kept.
    pub keys: Vec<RoomKey>,
    /// From which draws follow.
    pub draw: u64,
}

impl fmt::Debug for StoredSecrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoredSecrets").field("keys", &self.keys).finish_non_exhaustive()
    }
}

/// The secrets in a state directory; `None` if there are none yet.
///
/// # Errors
///
/// [`Error`] if they cannot be read, or are none.
pub fn read_room_secrets(directory: &Path) -> Result<Option<StoredSecrets>, Error> {
    let Some(bytes) = read(&directory.join(KEYS))? else { return Ok(None) };
    parse(&bytes).map(Some).ok_or_else(|| Error::NoKeys { path: directory.join(KEYS) })
}

/// Whether there are any; so, too, where that cannot be told.
#[must_use]
pub fn has_room_secrets(directory: &Path) -> bool {
    directory.join(KEYS).try_exists().unwrap_or(true)
}

/// Replaces the secrets of a state directory; they are on the disk when this returns.
///
/// # Errors
///
/// [`Error`]; the old ones are still there.
pub fn write_room_secrets(directory: &Path, secrets: &StoredSecrets) -> Result<(), Error> {
    replace(directory, KEYS, print(secrets).as_bytes(), true)
}

/// What was written last of an application's room, if anything was.
///
/// # Errors
///
/// [`Error`] if it cannot be read.
pub fn read_room(directory: &Path, application: &str) -> Result<Option<Vec<u8>>, Error> {
    read(&directory.join(file_of(application)))
}

/// Replaces what is kept of an application's room. It survives a kill of the process; the disk is not waited for.
///
/// # Errors
///
/// [`Error`]; what was written before is still there.
pub fn write_room(directory: &Path, application: &str, bytes: &[u8]) -> Result<(), Error> {
    replace(directory, &file_of(application), bytes, false)
}

/// Names of applications are letters, digits, `_`, `-` and `.`.
fn file_of(application: &str) -> String {
    format!("waiting-room-{application}.state")
}

fn print(secrets: &StoredSecrets) -> String {
    let mut text = format!("{VERSION}\n{:016x}\n", secrets.draw);
    for RoomKey { id, secret, made } in secrets.keys.iter().take(KEYS_MAX) {
        let secret: String = secret.iter().map(|byte| format!("{byte:02x}")).collect();
        text.push_str(&format!("{id} {} {secret}\n", made.as_nanos()));
    }
    text
}

fn parse(bytes: &[u8]) -> Option<StoredSecrets> {
    let mut lines = std::str::from_utf8(bytes).ok()?.lines();
    if lines.next()? != VERSION {
        return None;
    }
    let draw = u64::from_str_radix(lines.next()?, 16).ok()?;
    let keys: Vec<RoomKey> = lines.take(KEYS_MAX).map(parse_key).collect::<Option<_>>()?;
    (!keys.is_empty()).then_some(StoredSecrets { keys, draw })
}

fn parse_key(line: &str) -> Option<RoomKey> {
    let mut words = line.split(' ');
    let (id, made, text) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?, words.next()?);
    let mut secret = [0; 32];
    if text.len() != 2 * secret.len() || words.next().is_some() {
        return None;
    }
    for (at, byte) in secret.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok()?;
    }
    Some(RoomKey { id, secret, made: Timestamp::from_nanos(made) })
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt};

    use super::*;

    fn key(id: u8) -> RoomKey {
        RoomKey { id, secret: [id; 32], made: Timestamp::from_nanos(7_000 + u64::from(id)) }
    }

    #[test]
    fn keys_come_back_and_are_for_nobody_else() {
        let directory = tempfile::tempdir().unwrap();
        let state = directory.path().join("state");
        assert_eq!(read_room_secrets(&state).unwrap(), None);
        assert!(!has_room_secrets(&state));
        let secrets = StoredSecrets { keys: vec![key(2), key(1)], draw: 77 };
        write_room_secrets(&state, &secrets).unwrap();
        assert_eq!(read_room_secrets(&state).unwrap(), Some(secrets));
        assert!(has_room_secrets(&state));
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&state), mode(&state.join(KEYS))), (0o700, 0o600));
        assert!(!format!("{:?}", key(9)).contains("secret"), "no secret in logs");
        let many: Vec<_> = (0..40).map(key).collect();
        write_room_secrets(&state, &StoredSecrets { keys: many.clone(), draw: 1 }).unwrap();
        assert_eq!(read_room_secrets(&state).unwrap().unwrap().keys, many[..KEYS_MAX]);
    }

    #[test]
    fn what_is_no_file_of_keys_is_said_and_left() {
        let directory = tempfile::tempdir().unwrap();
        let first = format!("{VERSION}\n");
        for broken in [
            "",
            "x\n",
            &first,
            &format!("{first}1\n"),
            &format!("{first}1\n1 2 abc\n"),
            &format!("{first}x\n"),
        ] {
            fs::write(directory.path().join(KEYS), broken).unwrap();
            let error = read_room_secrets(directory.path()).unwrap_err().to_string();
            assert!(error.contains(KEYS) && error.contains("move it away"), "{broken:?}: {error}");
        }
    }

    #[test]
    fn a_room_is_replaced_as_a_whole() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(read_room(directory.path(), "shop").unwrap(), None);
        for bytes in [&b"first and longer"[..], b"second"] {
            write_room(directory.path(), "shop", bytes).unwrap();
            assert_eq!(read_room(directory.path(), "shop").unwrap().as_deref(), Some(bytes));
        }
        assert_eq!(read_room(directory.path(), "other").unwrap(), None);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "nothing is left beside it");
    }

    /// Whatever is taken for secrets is written as it is read.
    #[test]
    fn any_bytes_are_secrets_or_none() {
        let whole = print(&StoredSecrets { keys: vec![key(2), key(1)], draw: 77 });
        bolero::check!().with_type::<(Vec<(u16, u8)>, Vec<u8>)>().for_each(|(slips, bytes)| {
            let mut slipped = whole.clone().into_bytes();
            for (at, octet) in slips.iter().take(3) {
                let at = usize::from(*at) % slipped.len();
                slipped[at] = *octet;
            }
            for bytes in [slipped, [VERSION.as_bytes(), b"\n", bytes].concat()] {
                let Some(secrets) = parse(&bytes) else { continue };
                assert!((1..=KEYS_MAX).contains(&secrets.keys.len()));
                assert_eq!(parse(print(&secrets).as_bytes()), Some(secrets));
            }
        });
    }
}
