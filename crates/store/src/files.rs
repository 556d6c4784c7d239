//! Files beside the database, each replaced as a whole.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, ErrorKind, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::Path,
};

use crate::Error;

/// Largest file read.
const BYTES_MAX: u64 = 16 * 1024 * 1024;

/// What a file holds, if there is one.
pub(crate) fn read(file: &Path) -> Result<Option<Vec<u8>>, Error> {
    let fail = |source| Error::Directory { path: file.to_owned(), source };
    match fs::metadata(file) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(fail(error)),
        Ok(found) if found.len() > BYTES_MAX => {
            return Err(fail(io::Error::new(ErrorKind::InvalidData, "is too large")));
        }
        Ok(_) => {}
    }
    fs::read(file).map(Some).map_err(fail)
}

/// Makes the state directory, if it is not there, for its owner alone: who changed what is nobody else's business.
pub(crate) fn make(directory: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(directory)
}

/// Writes a file beside and puts it in place of the old one, so that there is always one whole.
pub(crate) fn replace(directory: &Path, name: &str, bytes: &[u8], on_disk: bool) -> Result<(), Error> {
    let (file, fresh) = (directory.join(name), directory.join(format!("{name}.{}.new", std::process::id())));
    let put = || {
        make(directory)?;
        let mut written =
            OpenOptions::new().create(true).write(true).truncate(true).mode(0o600).open(&fresh)?;
        written.write_all(bytes)?;
        if on_disk {
            written.sync_all()?;
        }
        fs::rename(&fresh, &file)?;
        if on_disk { File::open(directory)?.sync_all() } else { Ok(()) }
    };
    put().map_err(|source| {
        // Of what is there half nobody has any use, and on a full disk it takes room.
        let _ = fs::remove_file(&fresh);
        Error::Directory { path: file.clone(), source }
    })
}

/// Removes a file, if there is one.
pub(crate) fn remove(file: &Path) -> Result<(), Error> {
    match fs::remove_file(file) {
        Err(source) if source.kind() != ErrorKind::NotFound => {
            Err(Error::Directory { path: file.to_owned(), source })
        }
        _ => Ok(()),
    }
}
