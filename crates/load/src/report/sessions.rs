//! Sessions and their pages, and clients who were told to come back, in the report.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Summary;
use crate::tally::{PageTally, SessionTally, WaitTally};

/// The sessions of a class. A session is complete when every reply came within the client's timeout.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SessionReport {
    /// Sessions meant to begin.
    pub started: u64,
    /// Sessions that came to their end.
    pub completed: u64,
    /// Sessions that ended because a request was refused (429, 503) and its client gave up.
    pub refused: u64,
    /// Of those, refused with their first request: nothing was begun that could be lost.
    pub refused_at_entry: u64,
    /// Sessions that ended by a timeout, a failure or a wait nobody agrees to.
    pub abandoned: u64,
    /// Sessions still under way when the run ended, and those not begun for want of room.
    pub unfinished: u64,
    /// Sessions completed a second of measured time.
    pub completed_per_s: f64,
    /// How long completed sessions took, think time included.
    pub length_ms: Summary,
    /// The pages by name; none in the total of several classes.
    pub pages: Vec<PageReport>,
    /// The embedded images of all pages.
    pub images: PageReport,
}

/// Requests for one page, each over all its tries.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PageReport {
    /// The page's name.
    pub name: String,
    /// Requests that are over.
    pub requests: u64,
    /// Of those, with a good reply.
    pub good: u64,
    /// Refused to the end.
    pub refused: u64,
    /// Timed out to the end.
    pub timeouts: u64,
    /// Failed, or answered with another status.
    pub failed: u64,
    /// Latency of good replies, from the request's intended start.
    pub good_latency_ms: Summary,
}

/// Clients who were told to go elsewhere or to come back (a class that follows).
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WaitReport {
    /// Redirects followed without a wait.
    pub redirects: u64,
    /// Replies that told the client to come back at a time.
    pub promises: u64,
    /// Clients who came back, counted each time.
    pub returned: u64,
    /// Returns that were served.
    pub kept: u64,
    /// Returns that were told to wait again, refused, timed out or failed.
    pub broken: u64,
    /// Clients who left instead of waiting.
    pub left: u64,
    /// The most who waited at once; in the total the sum of the classes'.
    pub waiting_most: u64,
    /// Requests that are over and had been promised a time, by how often their client came back.
    pub by_returns: BTreeMap<u32, u64>,
    /// The waits promised.
    pub promised_ms: Summary,
    /// From the promised time to the start of the next try: the generator's own lateness.
    pub return_lag_ms: Summary,
    /// From the first promised time to the good reply: how late the server was.
    pub overdue_ms: Summary,
    /// From the time the client was last told to come back at to the good reply.
    pub from_return_ms: Summary,
    /// Good replies that came more than a second after one to a request of the class that had been meant to start later,
    /// as the thread that sent both saw it.
    pub overtaken: u64,
}

impl SessionReport {
    pub(super) fn new<'a>(
        tally: &SessionTally,
        names: impl Iterator<Item = &'a str>,
        measured_s: f64,
    ) -> Self {
        let over = tally.completed + tally.refused + tally.abandoned;
        Self {
            started: tally.started,
            completed: tally.completed,
            refused: tally.refused,
            refused_at_entry: tally.refused_at_entry,
            abandoned: tally.abandoned,
            unfinished: tally.started.saturating_sub(over),
            completed_per_s: if measured_s > 0.0 { tally.completed as f64 / measured_s } else { 0.0 },
            length_ms: Summary::of(&tally.length),
            pages: names.zip(&tally.pages).map(|(name, page)| PageReport::new(name, page)).collect(),
            images: PageReport::new("images", &tally.images),
        }
    }
}

impl PageReport {
    fn new(name: &str, tally: &PageTally) -> Self {
        Self {
            name: name.to_owned(),
            requests: tally.requests,
            good: tally.good,
            refused: tally.refused,
            timeouts: tally.timeouts,
            failed: tally.failed,
            good_latency_ms: Summary::of(&tally.latency),
        }
    }
}

impl WaitReport {
    pub(super) fn new(tally: &WaitTally, waiting_most: u64) -> Self {
        Self {
            redirects: tally.redirects,
            promises: tally.promises,
            returned: tally.returned,
            kept: tally.kept,
            broken: tally.broken,
            left: tally.left,
            waiting_most,
            by_returns: tally.by_returns.clone(),
            promised_ms: Summary::of(&tally.promised),
            return_lag_ms: Summary::of(&tally.return_lag),
            overdue_ms: Summary::of(&tally.overdue),
            from_return_ms: Summary::of(&tally.from_return),
            overtaken: tally.overtaken,
        }
    }
}
