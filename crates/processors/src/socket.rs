//! The socket on which applications ask for processors and see what they have: a line of JSON each way.
//!
//! ```text
//! {"request":{"application":"shop","processors":2.5}}   notes what it needs and answers what it has
//! {"assigned":{"application":"shop"}}                   answers what it has
//! {"status":{}}                                         answers what everyone has
//! ```
//!
//! Source: Guitart et al. 2008, section 3.1: `cpus_request(n)` and `cpus_assigned()`, there in shared memory.

use std::{
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
    os::unix::net::UnixStream,
    path::Path,
    time::Duration,
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{
    error::Error,
    host::{Holding, Status},
};

/// Most processors that may be asked for.
pub const PROCESSORS_MAX: f64 = 1024.0;
/// Longest question, bytes.
pub(crate) const QUESTION_BYTES_MAX: usize = 4096;
/// Longest answer that is read, bytes.
const ANSWER_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// How long the manager may take to answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// What may be asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Question {
    /// An application needs so many processors, 0 to 1024; from now on, for as long as the manager's settings say.
    Request {
        /// Its name.
        application: String,
        /// How many.
        processors: f64,
    },
    /// What an application has.
    Assigned {
        /// Its name.
        application: String,
    },
    /// What everyone has.
    Status {},
}

#[derive(Serialize, Deserialize)]
pub(crate) struct Refusal {
    pub(crate) error: String,
}

/// Asks for processors; the answer is what the application has now. What it gets for this is settled at the end of the
/// interval.
///
/// # Errors
///
/// Nobody answers, or the manager knows no such application.
pub fn request(socket: &Path, application: &str, processors: f64) -> Result<Holding, Error> {
    ask(socket, &Question::Request { application: application.to_owned(), processors })
}

/// What an application has.
///
/// # Errors
///
/// Nobody answers, or the manager knows no such application.
pub fn assigned(socket: &Path, application: &str) -> Result<Holding, Error> {
    ask(socket, &Question::Assigned { application: application.to_owned() })
}

/// What everyone has.
///
/// # Errors
///
/// Nobody answers.
pub fn status(socket: &Path) -> Result<Status, Error> {
    ask(socket, &Question::Status {})
}

fn ask<A: DeserializeOwned>(socket: &Path, question: &Question) -> Result<A, Error> {
    let fault = |what: String| Error::Socket { socket: socket.to_owned(), what };
    let exchange = || -> io::Result<String> {
        let mut stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        stream.write_all(format!("{}\n", serde_json::to_string(question)?).as_bytes())?;
        let mut line = String::new();
        BufReader::new(stream.take(ANSWER_BYTES_MAX)).read_line(&mut line)?;
        Ok(line)
    };
    let line = exchange().map_err(|error| fault(error.to_string()))?;
    if let Ok(refusal) = serde_json::from_str::<Refusal>(&line) {
        return Err(Error::Refused(refusal.error));
    }
    serde_json::from_str(&line).map_err(|error| fault(format!("the answer is not understood ({error})")))
}
