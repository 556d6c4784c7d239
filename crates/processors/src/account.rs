//! The account: what each application needed, was given and used, a line of JSON each for a while of time.
//!
//! The file is appended to and opened anew each time, so that it may be moved away. Lines that could not be written are
//! kept, as many as [`PENDING_MAX`], and written later.
//!
//! Source: Guitart et al. 2008, section 3.1.1, last paragraph: the complete account of all allocations, for billing.

use std::{
    collections::{BTreeMap, VecDeque},
    fs::{File, OpenOptions},
    io::{self, BufRead as _, BufReader, Write as _},
    path::Path,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde::{Deserialize, Serialize};

use crate::{error::Error, host::Spent};

/// Lines that wait to be written; then the oldest are lost.
pub const PENDING_MAX: usize = 100_000;

/// Longest line of an account, bytes.
const LINE_BYTES_MAX: u64 = 4096;

/// What one application had in a while of time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// When it began, seconds since the Unix epoch.
    pub from: u64,
    /// When it ended.
    pub to: u64,
    /// The application.
    pub application: String,
    /// Its priority at the end.
    pub priority: f64,
    /// Processor seconds it needed.
    pub needed_s: f64,
    /// Processor seconds it was given.
    pub given_s: f64,
    /// Processor seconds it used, on processors that nobody had too.
    pub used_s: f64,
}

/// Sums of an account.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Sum {
    /// Seconds it ran under the manager.
    pub seconds: f64,
    /// Processor seconds it needed.
    pub needed_s: f64,
    /// Processor seconds it was given.
    pub given_s: f64,
    /// Processor seconds it used.
    pub used_s: f64,
}

/// The account while it is kept.
#[derive(Debug)]
pub(crate) struct Account {
    began: SystemTime,
    open: BTreeMap<String, Line>,
    pending: VecDeque<String>,
    is_failing: bool,
}

impl Account {
    pub(crate) fn new(now: SystemTime) -> Self {
        Self { began: now, open: BTreeMap::new(), pending: VecDeque::new(), is_failing: false }
    }

    /// Adds an interval of an application.
    pub(crate) fn add(&mut self, spent: Spent<'_>, interval: Duration) {
        let line = self.open.entry(spent.application.to_owned()).or_insert_with(|| Line {
            from: 0,
            to: 0,
            application: spent.application.to_owned(),
            priority: spent.priority,
            needed_s: 0.0,
            given_s: 0.0,
            used_s: 0.0,
        });
        line.priority = spent.priority;
        // What does not run needs nothing.
        if spent.given > 0.0 {
            line.needed_s += spent.need * interval.as_secs_f64();
            line.given_s += spent.given * interval.as_secs_f64();
        }
        line.used_s += spent.used.as_secs_f64();
    }

    /// Whether it is time for lines.
    pub(crate) fn is_due(&self, now: SystemTime, every: Duration) -> bool {
        // Where the clock was set back, at once.
        now.duration_since(self.began).map_or(true, |since| since >= every)
    }

    /// Ends the lines that are open and writes them.
    pub(crate) fn write(&mut self, file: &Path, now: SystemTime) {
        let (from, to) = (seconds(self.began), seconds(now));
        self.began = now;
        for (_, line) in std::mem::take(&mut self.open) {
            let line = Line { from, to, ..line };
            let text = serde_json::to_string(&line).unwrap_or_default();
            if self.pending.len() == PENDING_MAX {
                self.pending.pop_front();
            }
            self.pending.push_back(text);
        }
        match append(file, &self.pending) {
            Ok(()) => {
                self.pending.clear();
                if std::mem::take(&mut self.is_failing) {
                    tracing::info!("account {}: is written again", file.display());
                }
            }
            Err(error) => {
                if !std::mem::replace(&mut self.is_failing, true) {
                    let path = file.display();
                    tracing::warn!(
                        "account {path}: cannot be written ({error}); what is due is kept until it can"
                    );
                }
            }
        }
    }
}

/// All of the lines or none.
fn append(path: &Path, lines: &VecDeque<String>) -> io::Result<()> {
    let mut file = OpenOptions::new().read(true).append(true).create(true).open(path)?;
    let length = file.metadata()?.len();
    let mut text = String::new();
    // A process that was killed may have left half a line.
    if !ends_a_line(&mut file, length)? {
        text.push('\n');
    }
    for line in lines {
        text.push_str(line);
        text.push('\n');
    }
    let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_data());
    if written.is_err() {
        file.set_len(length)?;
    }
    written
}

fn ends_a_line(file: &mut File, length: u64) -> io::Result<bool> {
    use std::os::unix::fs::FileExt as _;
    let Some(last) = length.checked_sub(1) else { return Ok(true) };
    let mut byte = [0];
    file.read_exact_at(&mut byte, last)?;
    Ok(byte == *b"\n")
}

/// Adds up the lines of an account that end later than `since`, by application; and how many lines were none.
///
/// # Errors
///
/// The file cannot be read.
pub fn sums(path: &Path, since: Option<SystemTime>) -> Result<(BTreeMap<String, Sum>, usize), Error> {
    const MEND: &str = "name the file of [account] of \"tidegate processors\"";
    let file = File::open(path).map_err(|source| Error::file(path, source, MEND))?;
    let since = since.map_or(0, seconds);
    let mut sums: BTreeMap<String, Sum> = BTreeMap::new();
    let mut unread = 0;
    let mut reader = BufReader::new(file);
    let mut line = Vec::new();
    loop {
        line.clear();
        let mut bounded = io::Read::take(&mut reader, LINE_BYTES_MAX);
        bounded.read_until(b'\n', &mut line).map_err(|source| Error::file(path, source, MEND))?;
        if line.is_empty() {
            return Ok((sums, unread));
        }
        match serde_json::from_slice::<Line>(&line) {
            Ok(line) if line.to > since => {
                let sum = sums.entry(line.application).or_default();
                sum.seconds += line.to.saturating_sub(line.from) as f64;
                sum.needed_s += line.needed_s;
                sum.given_s += line.given_s;
                sum.used_s += line.used_s;
            }
            Ok(_) => {}
            Err(_) if line == b"\n" => {}
            Err(_) => unread += 1,
        }
    }
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spent(application: &str, given: f64) -> Spent<'_> {
        Spent { application, priority: 2.0, need: 1.5, given, used: Duration::from_millis(500) }
    }

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    #[test]
    fn what_was_needed_given_and_used_adds_up() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("account.jsonl");
        let mut account = Account::new(at(100));
        for minute in 1..=3 {
            for _ in 0..30 {
                account.add(spent("shop", 2.0), Duration::from_secs(2));
                account.add(spent("blog", 0.0), Duration::from_secs(2));
            }
            assert!(!account.is_due(at(99 + 60 * minute), Duration::from_secs(60)));
            assert!(account.is_due(at(100 + 60 * minute), Duration::from_secs(60)));
            account.write(&file, at(100 + 60 * minute));
        }
        let (all, unread) = sums(&file, None).expect("is read");
        assert_eq!(unread, 0);
        assert_eq!(all["shop"], Sum { seconds: 180.0, needed_s: 270.0, given_s: 360.0, used_s: 45.0 });
        assert_eq!(all["blog"].given_s, 0.0);
        // The last two minutes: 160 to 280.
        let (late, _) = sums(&file, Some(at(160))).expect("is read");
        assert_eq!(late["shop"].given_s, 240.0);
    }

    #[test]
    fn what_cannot_be_written_is_written_later() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("not-yet").join("account.jsonl");
        let mut account = Account::new(at(0));
        account.add(spent("shop", 1.0), Duration::from_secs(2));
        account.write(&file, at(60));
        assert_eq!(account.pending.len(), 1);
        std::fs::create_dir(file.parent().expect("has one")).expect("is made");
        account.add(spent("shop", 1.0), Duration::from_secs(2));
        account.write(&file, at(120));
        assert!(account.pending.is_empty());
        let (all, _) = sums(&file, None).expect("is read");
        assert_eq!(all["shop"], Sum { seconds: 120.0, needed_s: 6.0, given_s: 4.0, used_s: 1.0 });
    }

    #[test]
    fn half_a_line_costs_no_other() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("account.jsonl");
        std::fs::write(&file, "{\"from\":1,\"to\":2,\"appli").expect("is written");
        let mut account = Account::new(at(0));
        account.add(spent("shop", 1.0), Duration::from_secs(2));
        account.write(&file, at(60));
        let (all, unread) = sums(&file, None).expect("is read");
        assert_eq!((all["shop"].given_s, unread), (2.0, 1));
    }
}
