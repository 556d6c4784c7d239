//! Health of one upstream server: passive checks on live requests, active probes, slow start.

use std::time::Duration;

use crate::Timestamp;

/// How a server's health is judged; knobs `health.*` and `slow_start`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HealthSettings {
    /// Consecutive failures of live requests that take the server out, at least 1; `None`: live
    /// requests say nothing.
    pub failures_max: Option<u32>,
    /// How long it then stays out the first time.
    pub pause: Duration,
    /// Whether it is probed at all; if not, what probes said is forgotten.
    pub probed: bool,
    /// Consecutive good probes that bring it back, at least 1.
    pub rise: u32,
    /// Consecutive bad probes that take it out, at least 1.
    pub fall: u32,
    /// Time over which a server that is new or back grows to its full weight.
    pub slow_start: Duration,
}

impl Default for HealthSettings {
    /// The knobs' defaults.
    fn default() -> Self {
        Self {
            failures_max: Some(5),
            pause: Duration::from_secs(10),
            probed: false,
            rise: 2,
            fall: 3,
            slow_start: Duration::ZERO,
        }
    }
}

/// What a server's health is, for logs and people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// In service.
    Up,
    /// In service again after a pause: the next live answer decides.
    OnTrial,
    /// Out for failures of live requests, until then.
    Paused(Timestamp),
    /// Out because probes found it bad, until they find it good.
    ProbedDown,
}

impl Condition {
    /// The condition's name in API and logs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::OnTrial => "on_trial",
            Self::Paused(_) => "paused",
            Self::ProbedDown => "probed_down",
        }
    }

    /// Whether it takes requests.
    #[must_use]
    pub const fn is_up(self) -> bool {
        matches!(self, Self::Up | Self::OnTrial)
    }
}

/// The health of one server.
///
/// Two judges, and each can take it out: it is up when neither holds it out.
///
/// - *Live requests* (passive): `failures_max` consecutive failures take it out for `pause`. After
///   that it is on trial: one failure takes it out again for twice as long, and so on up to ten
///   doublings (the 11th and later pauses in a row are `pause · 1024`); one success ends the trial
///   and the row. Answers that arrive while it is out belong to earlier times and change nothing.
/// - *Probes* (active): `fall` consecutive bad probes take it out, `rise` good ones bring it back.
///   A server is good until probes say otherwise. Good probes do not end a pause: a probe's page
///   may work where the rest does not.
///
/// When every server of an application is out by live requests alone, sending nowhere helps
/// nobody: the caller may then use all that are not [`Health::is_probed_down`].
///
/// Slow start: from the moment it is new or back, its weight grows linearly over `slow_start`,
/// beginning at a tenth.
///
/// Time that stands still or runs backwards counts as no time. Cost: O(1), 64 bytes.
///
/// ```
/// use std::time::Duration;
/// use tidegate_control::{Timestamp, health::{Health, HealthSettings}};
///
/// let second = |s| Timestamp::EPOCH + Duration::from_secs(s);
/// let settings = HealthSettings { failures_max: Some(2), pause: Duration::from_secs(10), ..Default::default() };
/// let mut health = Health::new(second(0), settings);
/// health.on_failure(second(1));
/// assert!(health.is_up(second(1)));
/// health.on_failure(second(1));
/// // Out from 1 s for 10 s.
/// assert_eq!(health.next_timeout(), Some(second(11)));
/// assert!(!health.is_up(second(10)) && health.is_up(second(11)));
/// // On trial: one failure, and out for twice as long.
/// health.on_failure(second(12));
/// assert_eq!(health.next_timeout(), Some(second(32)));
/// ```
#[derive(Clone, Debug)]
pub struct Health {
    settings: HealthSettings,
    /// Failures of live requests since the last success.
    failures: u32,
    /// Pauses without a success between them.
    pauses: u32,
    /// When the present or last pause ends; `None` once a success ended the row.
    paused_until: Option<Timestamp>,
    probed_down: bool,
    /// Probes in a row that contradict `probed_down`.
    contradictions: u32,
    /// When it was new, or was back by probes or [`Health::on_return`].
    since: Timestamp,
}

impl Health {
    /// Most doublings of the pause.
    pub const DOUBLINGS_MAX: u32 = 10;
    /// The part of its weight with which slow start begins.
    pub const FIRST_WEIGHT: f64 = 0.1;

    /// A new server: up, and at the beginning of slow start.
    #[must_use]
    pub const fn new(now: Timestamp, settings: HealthSettings) -> Self {
        Self {
            settings,
            failures: 0,
            pauses: 0,
            paused_until: None,
            probed_down: false,
            contradictions: 0,
            since: now,
        }
    }

    /// Takes over changed settings. A pause that runs goes on; if probes or passive checks are
    /// switched off, what they had found is forgotten.
    pub fn configure(&mut self, now: Timestamp, settings: HealthSettings) {
        match settings.failures_max {
            // A bound lowered below what has been counted acts at the next failure.
            Some(max) => self.failures = self.failures.min(max.saturating_sub(1)),
            None => self.end_row(now),
        }
        if !settings.probed {
            self.contradictions = 0;
            if self.probed_down {
                self.probed_down = false;
                self.since = now;
            }
        }
        self.settings = settings;
    }

    /// It takes requests again after it was held out by other means: slow start begins.
    pub fn on_return(&mut self, now: Timestamp) {
        self.since = now;
    }

    /// A live request was answered.
    pub fn on_success(&mut self, now: Timestamp) {
        if !self.is_paused(now) {
            self.end_row(now);
        }
    }

    /// A live request failed by the server's fault.
    pub fn on_failure(&mut self, now: Timestamp) {
        let Some(failures_max) = self.settings.failures_max else { return };
        if self.is_paused(now) {
            return;
        }
        self.failures = self.failures.saturating_add(1);
        if self.pauses > 0 || self.failures >= failures_max {
            let doublings = self.pauses.min(Self::DOUBLINGS_MAX);
            self.paused_until = Some(now + self.settings.pause.saturating_mul(1 << doublings));
            self.pauses = self.pauses.saturating_add(1);
            self.failures = 0;
        }
    }

    /// A probe was answered well, or was not.
    pub fn on_probe(&mut self, now: Timestamp, good: bool) {
        if !self.settings.probed || good != self.probed_down {
            self.contradictions = 0;
            return;
        }
        self.contradictions = self.contradictions.saturating_add(1);
        let needed = if good { self.settings.rise } else { self.settings.fall };
        if self.contradictions >= needed {
            self.contradictions = 0;
            self.probed_down = !good;
            if good {
                self.since = now;
            }
        }
    }

    /// Whether it takes requests.
    #[must_use]
    pub fn is_up(&self, now: Timestamp) -> bool {
        !self.probed_down && !self.is_paused(now)
    }

    /// Whether probes hold it out.
    #[must_use]
    pub const fn is_probed_down(&self) -> bool {
        self.probed_down
    }

    /// Whether failures have been counted since the last success. While not,
    /// [`Health::on_success`] changes nothing and need not be called.
    #[must_use]
    pub const fn is_troubled(&self) -> bool {
        self.failures > 0 || self.paused_until.is_some()
    }

    /// Its state, for logs and people.
    #[must_use]
    pub fn condition(&self, now: Timestamp) -> Condition {
        match self.paused_until {
            _ if self.probed_down => Condition::ProbedDown,
            Some(until) if now < until => Condition::Paused(until),
            Some(_) => Condition::OnTrial,
            None => Condition::Up,
        }
    }

    /// When the last pause ends or ended; `None` once a success ended the row. Nothing needs to be
    /// called then: it is when [`Health::is_up`] changes by itself.
    #[must_use]
    pub const fn next_timeout(&self) -> Option<Timestamp> {
        self.paused_until
    }

    /// The part of its weight that it has by slow start: above 0, at most 1.
    #[must_use]
    pub fn weight_factor(&self, now: Timestamp) -> f64 {
        if self.settings.slow_start.is_zero() {
            return 1.0;
        }
        let back = self.paused_until.unwrap_or(self.since).max(self.since);
        let grown = now.since(back).as_secs_f64() / self.settings.slow_start.as_secs_f64();
        grown.clamp(Self::FIRST_WEIGHT, 1.0)
    }

    /// Checks what must hold between calls.
    ///
    /// # Panics
    ///
    /// If it does not: a mistake in this program.
    pub fn check_invariants(&self) {
        assert_eq!(self.paused_until.is_some(), self.pauses > 0, "a row of pauses has an end");
        assert!(
            self.settings.failures_max.is_none_or(|max| self.failures < max.max(1)),
            "as many failures as allowed take the server out"
        );
        assert!(self.settings.probed || !self.probed_down, "only probes take a server out by probes");
    }

    fn is_paused(&self, now: Timestamp) -> bool {
        self.paused_until.is_some_and(|until| now < until)
    }

    /// Ends the row of failures and pauses. Slow start goes on from the last pause's end, if it was over.
    fn end_row(&mut self, now: Timestamp) {
        if let Some(until) = self.paused_until.take() {
            self.since = self.since.max(until.min(now));
        }
        self.failures = 0;
        self.pauses = 0;
    }
}

#[cfg(test)]
mod tests;
