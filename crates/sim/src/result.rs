//! What a run gave: counts, times, the series, and the hash of its trace.

use std::{collections::BTreeMap, ops::RangeInclusive, time::Duration};

use crate::times::Times;

/// What a run gave for one application.
#[derive(Clone, Debug, PartialEq)]
pub struct RunResult {
    /// The time that is in the totals: duration less warm-up.
    pub measured: Duration,
    /// Totals by class id.
    pub classes: Vec<Counts>,
    /// Totals by client id, of the first 100,000.
    pub clients: Vec<ClientCounts>,
    /// Sessions, begun in the measured time.
    pub sessions: Sessions,
    /// A row a tick, from the beginning.
    pub series: Vec<Row>,
    /// Hash of everything that happened: equal runs have equal ones.
    pub hash: u64,
    /// Requests of the whole run, attempts each, warm-up included.
    pub requests: u64,
}

/// Totals of a class, over what was first sent in the measured time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counts {
    /// First attempts.
    pub offered: u64,
    /// Attempts, retries included.
    pub arrived: u64,
    /// Attempts that went on to the server.
    pub started: u64,
    /// Attempts refused, by reason; `server`: its backlog was full.
    pub refused: BTreeMap<&'static str, u64>,
    /// Attempts given up by their client.
    pub timed_out: u64,
    /// Of these, while they waited at the front.
    pub left: u64,
    /// Attempts whose client was gone without anybody being told.
    pub lost: u64,
    /// Attempts that ended as an error of the server.
    pub errors: u64,
    /// Replies without error that reached their client.
    pub replied: u64,
    /// Goodput: of these, within `good_within` of the first attempt.
    pub good: u64,
    /// Processor and database seconds of exchanges that ended.
    pub work_s: f64,
    /// Of these, for clients who had gone or for nothing but an error.
    pub wasted_s: f64,
    /// From the first attempt's sending until the reply was there.
    pub response: Times,
    /// From arrival at the front until the start, of what started.
    pub waiting: Times,
    /// From the start until the server's end.
    pub service: Times,
    /// Clients told a time, each at its first telling, and of these who did not come.
    pub told: u64,
    /// See `told`.
    pub no_shows: u64,
    /// Starts of those who were overtaken by more than a second: somebody who first asked later had started
    /// more than a second before.
    pub overtaken: u64,
    /// Seconds by which the last of those had first asked later, in sum.
    pub overtaken_s: f64,
    /// From coming at the promised time until the reply.
    pub from_return: Times,
    /// Response times of those who had made a promise up.
    pub cheated: Times,
}

/// Totals of one client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientCounts {
    /// First attempts.
    pub offered: u64,
    /// Of these, good in the end.
    pub good: u64,
}

/// Totals of sessions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sessions {
    /// That began.
    pub begun: u64,
    /// Whose every reply came, until they ended by themselves.
    pub completed: u64,
    /// That failed at their first page.
    pub turned_away: u64,
    /// That failed later.
    pub broken: u64,
    /// Of these two, those in which somebody gave up; the others were refused or got an error.
    pub timed_out: u64,
}

/// One tick.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    /// Its end, from the beginning of the run.
    pub at: Duration,
    /// Its length.
    pub length: Duration,
    /// By class id.
    pub classes: Vec<Tick>,
    /// Levels of the front at its end.
    pub in_flight: u64,
    /// The front's limit, if it has one.
    pub limit: Option<f64>,
    /// Requests waiting at the front.
    pub queued: u64,
    /// The capacity the front takes the server to have, work units a second.
    pub capacity: Option<f64>,
    /// Times the front has taken that to have changed, from the beginning.
    pub changes: u64,
    /// Requests waiting for a thread.
    pub backlog: u32,
    /// Threads with a request.
    pub threads_busy: u32,
    /// Processors' worth of work a second in the tick.
    pub busy: f64,
    /// Processors it might have used.
    pub processors: f64,
}

/// What happened to a class in one tick: events of the tick, whenever their requests were sent.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tick {
    /// First attempts.
    pub offered: u64,
    /// Attempts.
    pub arrived: u64,
    /// Attempts that went on to the server.
    pub started: u64,
    /// Attempts refused.
    pub refused: u64,
    /// Attempts given up.
    pub timed_out: u64,
    /// Replies without error.
    pub replied: u64,
    /// Goodput.
    pub good: u64,
    /// Mean response time of the replies.
    pub response_mean: Option<Duration>,
    /// Their 95th percentile, within 5 %.
    pub response_p95: Option<Duration>,
}

impl RunResult {
    /// Goodput of all classes, a second.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a count as a rate")]
    pub fn goodput(&self) -> f64 {
        let good: u64 = self.classes.iter().map(|class| class.good).sum();
        good as f64 / self.measured.as_secs_f64().max(f64::MIN_POSITIVE)
    }

    /// All classes together.
    #[must_use]
    pub fn total(&self) -> Counts {
        let mut total = Counts::default();
        for class in &self.classes {
            total.add(class);
        }
        total
    }

    /// Jain's fairness index over clients, of the share of their requests that were good: 1 if all had the
    /// same, 1/n if one had all. `None` without clients that asked.
    ///
    /// Source: Jain, Chiu & Hawe, DEC-TR-301, 1984: `(Σx)² / (n · Σx²)`.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "counts as shares")]
    pub fn jain_fairness(&self) -> Option<f64> {
        let shares = self.clients.iter().filter(|client| client.offered > 0);
        let (mut n, mut sum, mut squares) = (0.0, 0.0, 0.0);
        for share in shares.map(|client| client.good as f64 / client.offered as f64) {
            n += 1.0;
            sum += share;
            squares += share * share;
        }
        (n > 0.0).then(|| if squares > 0.0 { sum * sum / (n * squares) } else { 1.0 })
    }

    /// How long after `from` the value of each row comes into `band` and stays there for `hold`, or until the
    /// run ends: the settling time. `None`: never.
    #[must_use]
    pub fn settled(
        &self,
        from: Duration,
        hold: Duration,
        band: &RangeInclusive<f64>,
        value: impl Fn(&Row) -> f64,
    ) -> Option<Duration> {
        let mut since: Option<Duration> = None;
        for row in self.series.iter().filter(|row| row.at > from) {
            if !band.contains(&value(row)) {
                since = None;
                continue;
            }
            let began = *since.get_or_insert(row.at.saturating_sub(row.length));
            if row.at.saturating_sub(began) >= hold {
                break;
            }
        }
        since.map(|moment| moment.saturating_sub(from))
    }
}

impl Row {
    /// All classes together; means and percentiles are left out.
    #[must_use]
    pub fn total(&self) -> Tick {
        let mut total = Tick::default();
        for class in &self.classes {
            total.offered += class.offered;
            total.arrived += class.arrived;
            total.started += class.started;
            total.refused += class.refused;
            total.timed_out += class.timed_out;
            total.replied += class.replied;
            total.good += class.good;
        }
        total
    }

    /// Goodput of all classes in the tick, a second.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a count as a rate")]
    pub fn goodput(&self) -> f64 {
        self.total().good as f64 / self.length.as_secs_f64().max(f64::MIN_POSITIVE)
    }
}

impl Counts {
    /// Adds another's.
    pub fn add(&mut self, other: &Self) {
        self.offered += other.offered;
        self.arrived += other.arrived;
        self.started += other.started;
        for (reason, count) in &other.refused {
            *self.refused.entry(reason).or_default() += count;
        }
        self.timed_out += other.timed_out;
        self.left += other.left;
        self.lost += other.lost;
        self.errors += other.errors;
        self.replied += other.replied;
        self.good += other.good;
        self.work_s += other.work_s;
        self.wasted_s += other.wasted_s;
        self.response.add(&other.response);
        self.waiting.add(&other.waiting);
        self.service.add(&other.service);
        self.told += other.told;
        self.no_shows += other.no_shows;
        self.overtaken += other.overtaken;
        self.overtaken_s += other.overtaken_s;
        self.from_return.add(&other.from_return);
        self.cheated.add(&other.cheated);
    }

    /// Attempts refused, for whatever reason.
    #[must_use]
    pub fn refused_total(&self) -> u64 {
        self.refused.values().sum()
    }
}
