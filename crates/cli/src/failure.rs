//! How a command fails: what is printed and the exit code.

use std::{fmt, process::ExitCode};

/// A command that did not do what it was asked.
#[derive(Debug)]
pub(crate) struct Failure {
    message: String,
    code: u8,
}

impl Failure {
    /// The input was at fault: exit code 2.
    pub(crate) fn input(message: impl fmt::Display) -> Self {
        Self { message: message.to_string(), code: 2 }
    }

    /// The work failed: exit code 1.
    pub(crate) fn work(message: impl fmt::Display) -> Self {
        Self { message: message.to_string(), code: 1 }
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.code)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tidegate: {}", self.message)
    }
}
