//! What commands say on standard output, and beside it.

use std::{
    fmt::Display,
    io::{self, ErrorKind, Write as _},
    process::ExitCode,
};

use crate::{
    failure::Failure,
    journal::{self, Priority},
};

/// Says a line, and at once; whether anybody still reads. Who has closed the pipe has seen what he wanted.
pub(crate) fn say(line: impl Display) -> Result<bool, Failure> {
    let mut out = io::stdout().lock();
    written(writeln!(out, "{line}").and_then(|()| out.flush()))
}

/// Says what clap answers instead of a command: help and the version on standard output, faults of the command line on
/// standard error.
pub(crate) fn answer(answer: &clap::Error) -> Result<ExitCode, Failure> {
    let printed = answer.print().and_then(|()| io::stdout().flush());
    // Who has closed standard error still has the code.
    if !answer.use_stderr() {
        written(printed)?;
    }
    Ok(u8::try_from(answer.exit_code()).map_or(ExitCode::FAILURE, ExitCode::from))
}

/// Whether anybody still reads standard output.
fn written(result: io::Result<()>) -> Result<bool, Failure> {
    match result {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Failure::work(format!("standard output: {error}"))),
    }
}

/// Warns on standard error; who does not read it has not asked for it either.
pub(crate) fn warn(line: impl Display) {
    let _ = writeln!(io::stderr(), "{}", journal::lines(Priority::Warning, line));
}
