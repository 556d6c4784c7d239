//! What was found of applications' capacities: a file each, so that a process that takes another's place reads it while that one
//! still holds the database.

use std::path::{Path, PathBuf};

use crate::{Error, files};

/// The file of an application's capacity; it need not be there.
#[must_use]
pub fn capacity_file(directory: &Path, application: &str) -> PathBuf {
    directory.join(name_of(application))
}

/// What was written last of an application's capacity, if anything was.
///
/// # Errors
///
/// [`Error`] if it cannot be read.
pub fn read_capacity(directory: &Path, application: &str) -> Result<Option<Vec<u8>>, Error> {
    files::read(&capacity_file(directory, application))
}

/// Replaces what is kept of an application's capacity; `None`: nothing is known any more. It survives a kill of the process; the
/// disk is not waited for.
///
/// # Errors
///
/// [`Error`]; what was written before is still there.
pub fn write_capacity(directory: &Path, application: &str, bytes: Option<&[u8]>) -> Result<(), Error> {
    match bytes {
        Some(bytes) => files::replace(directory, &name_of(application), bytes, false),
        None => files::remove(&capacity_file(directory, application)),
    }
}

/// Names of applications are letters, digits, `_`, `-` and `.`.
fn name_of(application: &str) -> String {
    format!("capacity-{application}.json")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_capacity_is_replaced_and_removed_as_a_whole() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        assert_eq!(read_capacity(path, "shop").unwrap(), None);
        write_capacity(path, "shop", None).unwrap();
        for bytes in [&b"first and longer"[..], b"second"] {
            write_capacity(path, "shop", Some(bytes)).unwrap();
            assert_eq!(read_capacity(path, "shop").unwrap().as_deref(), Some(bytes));
        }
        assert_eq!(read_capacity(path, "other").unwrap(), None);
        assert_eq!(std::fs::read_dir(path).unwrap().count(), 1, "nothing is left beside it");
        write_capacity(path, "shop", None).unwrap();
        assert_eq!(read_capacity(path, "shop").unwrap(), None);
    }
}
