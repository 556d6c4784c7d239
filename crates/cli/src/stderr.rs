//! Lines on standard error that nobody waits for: cores write the log, too, and whoever reads it may have stopped or gone.
//!
//! A reader that takes nothing is waited for once, [`PATIENCE`]. From then on lines are lost and counted until it takes some again,
//! which it is told first. A reader that has gone is no error either.

use std::{io, os::fd::AsFd, time::Duration};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
};

/// How long a reader is waited for that has taken all so far.
const PATIENCE: Duration = Duration::from_millis(50);

/// So much a pipe takes at once that takes anything (`PIPE_BUF`).
const PIECE: usize = 4096;

/// Writes lines to `F`, one a call.
pub(crate) struct Lines<F> {
    to: F,
    /// The line that says how many were lost.
    told: fn(u64) -> String,
    /// Lines that were lost since one was written.
    lost: u64,
    /// Whether what was written last ended in the middle of a line.
    is_torn: bool,
}

impl<F: AsFd> Lines<F> {
    pub(crate) const fn new(to: F, told: fn(u64) -> String) -> Self {
        Self { to, told, lost: 0, is_torn: false }
    }

    /// Whether it was written as a whole.
    fn put(&mut self, line: &[u8]) -> bool {
        let patience = if self.lost == 0 { PATIENCE } else { Duration::ZERO };
        let mut written = 0;
        while written < line.len() && self.is_ready(patience) {
            let piece = &line[written..line.len().min(written + PIECE)];
            match rustix::io::write(&self.to, piece) {
                Ok(taken) => written += taken,
                Err(Errno::INTR) => {}
                Err(_) => break,
            }
        }
        self.is_torn = if written == 0 { self.is_torn } else { written < line.len() };
        written == line.len()
    }

    /// What comes after it begins on a line of its own.
    fn put_line(&mut self, line: &[u8]) -> bool {
        (!self.is_torn || self.put(b"\n")) && self.put(line)
    }

    fn is_ready(&self, patience: Duration) -> bool {
        let mut waited = [PollFd::new(&self.to, PollFlags::OUT)];
        // A signal meanwhile is as good as the end of patience.
        let patience = Timespec::try_from(patience).unwrap_or_default();
        poll(&mut waited, Some(&patience)).is_ok_and(|ready| ready > 0)
    }
}

impl<F: AsFd> io::Write for Lines<F> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.lost > 0 && self.put_line((self.told)(self.lost).as_bytes()) {
            self.lost = 0;
        }
        if self.lost > 0 || !self.put_line(line) {
            self.lost += 1;
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    fn told(lost: u64) -> String {
        format!("{lost} lost\n")
    }

    #[test]
    fn a_reader_that_has_stopped_loses_lines_and_is_told_how_many() {
        let (mut reader, writer) = io::pipe().unwrap();
        let mut lines = Lines::new(writer, told);
        let line = [&[b'x'; 9_999][..], b"\n"].concat();
        // Of a hundred such lines a pipe, of 64 KiB, has no room for most: they are lost, and the first alone is waited for.
        for _ in 0..100 {
            lines.write_all(&line).unwrap();
        }
        let lost = lines.lost;
        assert!(lost > 80, "{lost}");
        // All that is in it.
        let held = reader.read(&mut [0; 64 * 1024]).unwrap();
        assert!(held > 2 * line.len(), "{held}");
        lines.write_all(b"again\n").unwrap();
        assert_eq!(lines.lost, 0);
        drop(lines);
        let mut rest = String::new();
        reader.read_to_string(&mut rest).unwrap();
        let last: Vec<_> = rest.lines().rev().take(2).collect();
        assert_eq!(last, ["again".to_owned(), format!("{lost} lost")]);
    }

    #[test]
    fn a_reader_that_has_gone_is_no_error() {
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        let mut lines = Lines::new(writer, told);
        for lost in 1..=3 {
            lines.write_all(b"line\n").unwrap();
            assert_eq!(lines.lost, lost);
        }
    }

    #[test]
    fn a_line_of_any_length_is_written_as_a_whole() {
        let (mut reader, writer) = io::pipe().unwrap();
        let mut lines = Lines::new(writer, told);
        let line = [&[b'x'; 50_000][..], b"\n"].concat();
        lines.write_all(&line).unwrap();
        drop(lines);
        let mut all = Vec::new();
        reader.read_to_end(&mut all).unwrap();
        assert_eq!(all, line);
    }
}
