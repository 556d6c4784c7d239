//! Reads and writes that go on where a signal broke them off.

use std::io::{self, ErrorKind::Interrupted, Read, Write};

/// A stream whose reads and writes are begun anew when they are interrupted. On a socket with a timeout, Linux breaks
/// off a read also when the process is stopped and continued, or its control group is frozen and thawed; what calls
/// `read` itself, as WebSocket libraries do, takes that for the end.
pub(crate) struct Unbroken<S>(pub(crate) S);

impl<S: Read> Read for Unbroken<S> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        unbroken(|| self.0.read(into))
    }
}

impl<S: Write> Write for Unbroken<S> {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        unbroken(|| self.0.write(from))
    }

    fn flush(&mut self) -> io::Result<()> {
        unbroken(|| self.0.flush())
    }
}

/// What `call` gives once no signal breaks it off.
pub(crate) fn unbroken<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == Interrupted => {}
            done => return done,
        }
    }
}
