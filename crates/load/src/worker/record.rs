//! What a thread writes down: each arrival, try, reply, wait and session, where it belongs.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::{Duration, Instant},
};

use super::{
    Class, Worker,
    parked::Why,
    visitor::{Errand, Kind, Visitor},
};
use crate::{
    live::LiveClass,
    outcome::Outcome,
    plan::{ClassPlan, ClassTemplate},
    session::Session,
    tally::{ClassTally, ClientTally, PageTally, SessionTally, WaitTally},
};

impl ClassTally {
    pub(super) fn for_class(template: &ClassTemplate, plan: &ClassPlan) -> Self {
        let sessions = template.chain.as_ref().map(|chain| {
            let pages = vec![PageTally::default(); chain.names().count()];
            Box::new(SessionTally { pages, ..SessionTally::default() })
        });
        let waits = plan.follow.is_some().then(Box::<WaitTally>::default);
        let clients = vec![ClientTally::default(); plan.clients.unwrap_or_default() as usize];
        Self { sessions, waits, clients, ..Self::default() }
    }
}

impl Worker {
    pub(super) fn note_offered(&self, class: &Class, intended: Instant) {
        self.count(class, |live| &live.offered);
        let mut tally = class.tally.borrow_mut();
        tally.series.offered.count(self.since_begin(intended));
        tally.offered += u64::from(self.is_measured(intended));
    }

    /// A request was meant to start, and this client is whose it is.
    pub(super) fn note_client(&self, class: &Class, client: u32, intended: Instant) {
        if self.is_measured(intended)
            && let Some(client) = class.tally.borrow_mut().clients.get_mut(client as usize)
        {
            client.offered += 1;
        }
    }

    pub(super) fn note_overrun(&self, class: &Class, intended: Instant) {
        class.tally.borrow_mut().overruns += u64::from(self.is_measured(intended));
    }

    pub(super) fn note_sent(&self, class: &Class, now: Instant, measured: bool) {
        self.count(class, |live| &live.sent);
        let mut tally = class.tally.borrow_mut();
        tally.series.sent.count(self.since_begin(now));
        tally.sent += u64::from(measured);
    }

    /// How a try ended.
    pub(super) fn record(
        &self,
        class: &Class,
        errand: &mut Errand,
        outcome: &Outcome,
        now: Instant,
        measured: bool,
    ) {
        let since_begin = self.since_begin(now);
        let latency = now.saturating_duration_since(errand.intended);
        let tally = &mut *class.tally.borrow_mut();
        let series = &mut tally.series;
        match outcome {
            Outcome::Onward { onward, .. } => {
                if !onward.after.is_zero() {
                    series.promised.count(since_begin);
                }
            }
            _ if outcome.is_good() => {
                let came = self.since_begin(errand.intended);
                // Whom the warm-up served may have overtaken somebody.
                if let Some(waits) = &mut tally.waits {
                    let overtaken = waits.order.is_overtaken(since_begin, came);
                    waits.overtaken += u64::from(overtaken && measured);
                }
                series.good.count(since_begin);
                series.good_by_start.count(came);
                series.good_latency.record(since_begin, latency);
                if let Some(live) = self.live.class(class.index) {
                    live.count_good(u64::try_from(latency.as_micros()).unwrap_or(u64::MAX));
                }
            }
            _ if outcome.is_refused() => {
                series.refused.count(since_begin);
                self.count(class, |live| &live.refused);
            }
            Outcome::Timeout(_) => {
                series.timeouts.count(since_begin);
                self.count(class, |live| &live.timeouts);
            }
            Outcome::Reply { .. } | Outcome::Failed(_) => {
                series.failed.count(since_begin);
                self.count(class, |live| &live.failed);
            }
        }
        if !measured {
            return;
        }
        match outcome {
            Outcome::Reply { status, body_bytes, .. } => {
                *tally.statuses.entry(*status).or_default() += 1;
                tally.body_bytes += body_bytes;
                if outcome.is_good() {
                    tally.good += 1;
                    tally.good_latency.record(latency);
                } else if outcome.is_refused() {
                    tally.refused += 1;
                    tally.refused_latency.record(now.saturating_duration_since(errand.due));
                }
            }
            Outcome::Onward { status, body_bytes, onward } => {
                *tally.statuses.entry(*status).or_default() += 1;
                tally.body_bytes += body_bytes;
                if let Some(waits) = &mut tally.waits {
                    if onward.after.is_zero() {
                        waits.redirects += 1;
                    } else {
                        waits.promises += 1;
                        waits.promised.record(onward.after);
                        // Who came back as told is told to come back again.
                        waits.broken += u64::from(std::mem::take(&mut errand.is_return));
                    }
                }
            }
            Outcome::Timeout(phase) => *tally.timeouts.entry(*phase).or_default() += 1,
            Outcome::Failed(kind) => *tally.errors.entry(*kind).or_default() += 1,
        }
    }

    /// Told to come back, the client does not.
    pub(super) fn note_left(&self, class: &Class, visitor: &Visitor) {
        let mut tally = class.tally.borrow_mut();
        // He is told to wait, and at that moment waits no more.
        let now = self.since_begin(Instant::now());
        tally.series.returned.count(now);
        if self.is_measured(visitor.errand.intended)
            && let Some(waits) = &mut tally.waits
        {
            waits.left += 1;
        }
    }

    pub(super) fn note_parked(&self, class: &Class, why: Why) {
        let Some(live) = self.live.class(class.index) else { return };
        match why {
            Why::Promise => live.begin_waiting(),
            // Its request is under way.
            Why::Retry => {
                live.in_flight.fetch_add(1, Relaxed);
            }
            Why::Think => {}
        }
    }

    pub(super) fn note_unparked(&self, class: &Class, visitor: &mut Visitor, due: Instant, why: Why) {
        self.note_dismissed(class, why);
        let measured = self.is_measured(visitor.errand.intended);
        let mut tally = class.tally.borrow_mut();
        match why {
            Why::Promise => {
                visitor.errand.returns += 1;
                visitor.errand.is_return = true;
                if measured && let Some(waits) = &mut tally.waits {
                    waits.returned += 1;
                    waits.return_lag.record(due.elapsed());
                }
            }
            Why::Retry => tally.retries += u64::from(measured),
            Why::Think => {}
        }
    }

    /// Somebody waits no more, for whatever reason.
    pub(super) fn note_dismissed(&self, class: &Class, why: Why) {
        match why {
            Why::Promise => {
                let now = self.since_begin(Instant::now());
                class.tally.borrow_mut().series.returned.count(now);
                if let Some(live) = self.live.class(class.index) {
                    live.waiting.fetch_sub(1, Relaxed);
                }
            }
            Why::Retry => {
                if let Some(live) = self.live.class(class.index) {
                    live.in_flight.fetch_sub(1, Relaxed);
                }
            }
            Why::Think => {}
        }
    }

    /// A request is over, with its last try's outcome.
    pub(super) fn note_ended(&self, class: &Class, visitor: &Visitor, outcome: &Outcome, now: Instant) {
        let errand = &visitor.errand;
        if !self.is_measured(errand.intended) {
            return;
        }
        let tally = &mut *class.tally.borrow_mut();
        tally.ended += 1;
        if let Some(waits) = &mut tally.waits {
            if errand.promised.is_some() {
                *waits.by_returns.entry(errand.returns).or_default() += 1;
            }
            if errand.is_return {
                *(if outcome.is_good() { &mut waits.kept } else { &mut waits.broken }) += 1;
            }
            if let Some(promised) = errand.promised.filter(|_| outcome.is_good()) {
                waits.overdue.record(now.saturating_duration_since(promised));
                waits.from_return.record(now.saturating_duration_since(errand.due));
            }
        }
        if let Kind::Once { client, .. } = visitor.kind
            && let Some(client) = tally.clients.get_mut(client as usize)
        {
            client.good += u64::from(outcome.is_good());
        }
        if let (Kind::Session(session), Some(sessions)) = (&visitor.kind, &mut tally.sessions) {
            let page = if session.is_at_image() {
                Some(&mut sessions.images)
            } else {
                sessions.pages.get_mut(session.page())
            };
            if let Some(page) = page {
                page.record(outcome, now.saturating_duration_since(errand.intended));
            }
        }
    }

    pub(super) fn note_session_started(&self, class: &Class, intended: Instant) {
        self.count(class, |live| &live.sessions_started);
        let mut tally = class.tally.borrow_mut();
        tally.series.sessions_started.count(self.since_begin(intended));
        if self.is_measured(intended)
            && let Some(sessions) = &mut tally.sessions
        {
            sessions.started += 1;
        }
    }

    /// A session is over, with its last request's outcome.
    pub(super) fn note_session_over(
        &self,
        class: &Class,
        session: &Session,
        outcome: &Outcome,
        now: Instant,
    ) {
        let tally = &mut *class.tally.borrow_mut();
        let since_begin = self.since_begin(now);
        let series = &mut tally.series;
        if outcome.is_answer() {
            series.sessions_completed.count(since_begin);
            self.count(class, |live| &live.sessions_completed);
        } else if outcome.is_refused() {
            series.sessions_refused.count(since_begin);
        } else {
            series.sessions_abandoned.count(since_begin);
        }
        let Some(sessions) = tally.sessions.as_mut().filter(|_| self.is_measured(session.began)) else {
            return;
        };
        if outcome.is_answer() {
            sessions.completed += 1;
            sessions.length.record(now.saturating_duration_since(session.began));
        } else if outcome.is_refused() {
            sessions.refused += 1;
            sessions.refused_at_entry += u64::from(session.is_at_entry());
        } else {
            sessions.abandoned += 1;
        }
    }

    fn since_begin(&self, instant: Instant) -> Duration {
        instant.saturating_duration_since(self.begin)
    }

    fn count(&self, class: &Class, counter: fn(&LiveClass) -> &AtomicU64) {
        if let Some(live) = self.live.class(class.index) {
            counter(live).fetch_add(1, Relaxed);
        }
    }
}

impl PageTally {
    fn record(&mut self, outcome: &Outcome, latency: Duration) {
        self.requests += 1;
        match outcome {
            _ if outcome.is_good() => {
                self.good += 1;
                self.latency.record(latency);
            }
            _ if outcome.is_refused() => self.refused += 1,
            Outcome::Timeout(_) => self.timeouts += 1,
            Outcome::Reply { .. } | Outcome::Onward { .. } | Outcome::Failed(_) => self.failed += 1,
        }
    }
}
