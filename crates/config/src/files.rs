//! Reading the files that the configuration names: within bounds, and without waiting for what may never come.

use std::{
    fs::File,
    io::{self, Read as _},
    os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _},
    path::Path,
    time::Duration,
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::{OFlags, fcntl_setfl},
    io::retry_on_intr,
};

/// How long a named pipe may have nobody who writes to it.
const WRITER_PATIENCE: Duration = Duration::from_secs(3);
/// Size of the largest file of certificates that is read, bytes: far more than all authorities of a system.
const PEM_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// Before the text in files of some editors; PEM's first line would not be seen behind it.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Opens a file. A named pipe is not waited for that nobody has open to write to it; those of `<(command)` and of standard
/// input somebody has.
///
/// # Errors
///
/// Those of [`File::open`], and for a pipe to which nobody has written within three seconds.
pub fn open_file(path: &Path) -> io::Result<File> {
    open_within(path, WRITER_PATIENCE)
}

/// Reads a whole file of not more than `bytes_max`.
///
/// # Errors
///
/// As [`open_file`], those of reading, and for a file that is larger.
pub fn read_file(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_file(path)?.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes)?;
    match u64::try_from(bytes.len()).is_ok_and(|length| length <= bytes_max) {
        true => Ok(bytes),
        false => {
            Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("it is larger than {bytes_max} bytes")))
        }
    }
}

/// Reads a file of certificates or a key, without a byte order mark before it.
///
/// # Errors
///
/// As [`read_file`].
pub fn read_pem(path: &Path) -> io::Result<Vec<u8>> {
    let mut pem = read_file(path, PEM_BYTES_MAX)?;
    if pem.starts_with(BYTE_ORDER_MARK) {
        pem.drain(..BYTE_ORDER_MARK.len());
    }
    Ok(pem)
}

fn open_within(path: &Path, patience: Duration) -> io::Result<File> {
    if !path.metadata()?.file_type().is_fifo() {
        return File::open(path);
    }
    let nonblocking = OFlags::NONBLOCK.bits().cast_signed();
    let file = File::options().read(true).custom_flags(nonblocking).open(path)?;
    let timeout = Timespec::try_from(patience).map_err(io::Error::other)?;
    let heard = retry_on_intr(|| poll(&mut [PollFd::new(&file, PollFlags::IN)], Some(&timeout)))?;
    // Who has it open and is slow, as the command of `<(command)`, is waited for; nobody at all reads as its end.
    if heard == 0 && (&file).read(&mut [0]).is_ok() {
        let why = format!("it is a pipe to which nobody has written within {patience:?}");
        return Err(io::Error::new(io::ErrorKind::TimedOut, why));
    }
    fcntl_setfl(&file, OFlags::empty())?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use std::{fs, io::Write as _, os::fd::AsRawFd as _, process::Command};

    use super::*;

    #[test]
    fn a_pipe_is_read_if_somebody_writes_and_else_a_fault() {
        let directory = tempfile::tempdir().unwrap();
        let pipe = directory.path().join("pipe");
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let fault = open_within(&pipe, Duration::from_millis(1)).unwrap_err();
        assert!(fault.to_string().contains("nobody has written"), "{fault}");
        let writing = std::thread::spawn({
            let pipe = pipe.clone();
            move || fs::write(pipe, "whole")
        });
        assert_eq!(read_file(&pipe, 5).unwrap(), b"whole");
        writing.join().unwrap().unwrap();
    }

    /// As a command that thinks before it says something.
    #[test]
    fn a_pipe_that_somebody_has_open_is_waited_for() {
        let (reader, mut writer) = io::pipe().unwrap();
        let path = format!("/proc/self/fd/{}", reader.as_raw_fd());
        let mut file = open_within(Path::new(&path), Duration::from_millis(1)).unwrap();
        let reading = std::thread::spawn(move || {
            let mut text = String::new();
            file.read_to_string(&mut text).map(|_| text)
        });
        writer.write_all(b"late").unwrap();
        drop(writer);
        assert_eq!(reading.join().unwrap().unwrap(), "late");
    }

    #[test]
    fn what_is_too_large_or_no_file_is_a_fault() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        fs::write(&file, "12345").unwrap();
        assert_eq!(read_file(&file, 5).unwrap(), b"12345");
        assert!(read_file(&file, 4).unwrap_err().to_string().contains("larger than 4"));
        assert!(read_pem(Path::new("/dev/zero")).unwrap_err().to_string().contains("larger than"));
        assert!(read_file(directory.path(), 5).is_err());
    }
}
