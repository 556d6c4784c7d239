//! What commands say on standard output, and beside it.

use std::{
    fmt::Display,
    io::{self, ErrorKind, Write as _},
};

use crate::{
    failure::Failure,
    journal::{self, Priority},
};

/// Says a line, and at once; whether anybody still reads. Who has closed the pipe has seen what he wanted.
pub(crate) fn say(line: impl Display) -> Result<bool, Failure> {
    let mut out = io::stdout().lock();
    match writeln!(out, "{line}").and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Failure::work(format!("standard output: {error}"))),
    }
}

/// Warns on standard error; who does not read it has not asked for it either.
pub(crate) fn warn(line: impl Display) {
    let _ = writeln!(io::stderr(), "{}", journal::lines(Priority::Warning, line));
}
