//! The meters of a simulated gateway: counted as the gateway counts, kept in the same archives.

use std::time::Duration;

use tidegate_control::{
    ClassId, Refusal, Timestamp,
    admission::Greeting,
    archive::{Archives, Layout, Reading},
    capacity::Cause,
    knobs::Scope,
    meters::{Meter, SessionMet},
    tls_sessions::Session,
    waiting_room::RoomCount,
};

use crate::scenario::START;

const SECOND: Duration = Duration::from_secs(1);

/// What is counted in the present second, and the archives of those before.
#[derive(Debug)]
pub(super) struct Measured {
    archives: Archives,
    application: (String, Reading),
    classes: Vec<(String, Reading)>,
    began: Timestamp,
    is_kept: bool,
}

/// Levels at the end of a second.
#[derive(Debug)]
pub(super) struct Standing {
    pub(super) in_flight: u64,
    pub(super) limit: u64,
    pub(super) dormant: u64,
    pub(super) lingering: u64,
    /// People in the waiting room, if there is one, and the wait of the next one, if it can be promised.
    pub(super) room: Option<(u64, Option<Duration>)>,
    /// In thousandths, if known.
    pub(super) capacity: Option<u64>,
    /// By class.
    pub(super) costs: Vec<Option<u64>>,
    pub(super) queued: Vec<u64>,
    /// Empty while nothing watches.
    pub(super) would_wait: Vec<u64>,
}

impl Measured {
    pub(super) fn new<'n>(application: &str, classes: impl Iterator<Item = &'n str>) -> Self {
        Self {
            archives: Archives::new(Layout::default()),
            application: (application.to_owned(), Reading::new(Scope::Application)),
            classes: classes
                .map(|class| (format!("{application}/{class}"), Reading::new(Scope::Class)))
                .collect(),
            began: START,
            is_kept: true,
        }
    }

    /// Counts, but keeps no archives.
    pub(super) const fn keep_nothing(&mut self) {
        self.is_kept = false;
    }

    pub(super) const fn archives(&self) -> &Archives {
        &self.archives
    }

    pub(super) fn arrived(&mut self, class: ClassId) {
        self.of(class).add(Meter::ARRIVED, 1);
    }

    /// A refusal is a response of the front's own.
    pub(super) fn refused(&mut self, class: ClassId, refusal: Refusal, status: u16) {
        self.of(class).add_labelled(Meter::REFUSED, refusal.index(), 1);
        self.answered(class, status);
    }

    /// The front has answered, or the server's answer is through.
    pub(super) fn answered(&mut self, class: ClassId, status: u16) {
        self.of(class).add_labelled(Meter::RESPONSES, usize::from(status / 100).saturating_sub(1), 1);
    }

    pub(super) fn would_refuse(&mut self, class: ClassId, refusal: Refusal, count: u64) {
        self.of(class).add_labelled(Meter::WOULD_REFUSE, refusal.index(), count);
    }

    pub(super) fn started(&mut self, class: ClassId, waited: Duration) {
        let reading = self.of(class);
        reading.add(Meter::STARTED, 1);
        reading.record(Meter::WAITING_TIME, waited);
    }

    pub(super) fn left(&mut self, class: ClassId) {
        self.of(class).add(Meter::LEFT, 1);
    }

    pub(super) fn abandoned(&mut self, class: ClassId) {
        self.of(class).add(Meter::ABANDONED, 1);
    }

    /// The server has ended an exchange, whether or not somebody is still there for the response.
    pub(super) fn served(&mut self, class: ClassId, service: Duration) {
        self.of(class).record(Meter::SERVICE_TIME, service);
    }

    /// An exchange has its response, which somebody was there for; good if it came in time.
    pub(super) fn responded(&mut self, class: ClassId, status: u16, response: Duration, within: Duration) {
        self.answered(class, status);
        let reading = self.of(class);
        reading.add(Meter::GOOD, u64::from(status < 500 && response <= within));
        reading.record(Meter::RESPONSE_TIME, response);
    }

    pub(super) fn room(&mut self, class: ClassId, what: RoomCount, count: u64) {
        self.of(class).add_labelled(Meter::ROOM, what as usize, count);
    }

    pub(super) fn capacity_changed(&mut self, cause: Cause) {
        self.application.1.add_labelled(Meter::CAPACITY_CHANGES, cause.index(), 1);
    }

    /// What became of a TLS session before its handshake.
    pub(super) fn greeted(&mut self, session: Session, greeting: Greeting) {
        let met = SessionMet::of(session, greeting);
        self.application.1.add_labelled(Meter::TLS_SESSIONS, met as usize, 1);
    }

    /// When the present second is over, if that matters.
    pub(super) fn next(&self) -> Option<Timestamp> {
        self.is_kept.then(|| self.began + SECOND)
    }

    /// The present second is over.
    pub(super) fn close(&mut self, standing: &Standing) {
        let to = self.began + SECOND;
        let (path, reading) = &mut self.application;
        reading.level(Meter::IN_FLIGHT, standing.in_flight);
        reading.level(Meter::IN_FLIGHT_LIMIT, standing.limit);
        reading.level(Meter::IN_FLIGHT_DORMANT, standing.dormant);
        reading.level(Meter::LINGERING, standing.lingering);
        if let Some((waiting, next)) = standing.room {
            reading.level(Meter::ROOM_WAITING, waiting);
            if let Some(next) = next {
                reading.level(Meter::ROOM_NEXT, u64::try_from(next.as_millis()).unwrap_or(u64::MAX));
            }
        }
        if let Some(capacity) = standing.capacity {
            reading.level(Meter::CAPACITY, capacity);
        }
        self.archives.record(path, self.began, to, reading);
        reading.clear();
        let levels = standing.queued.iter().zip(&standing.costs);
        // Nothing while nothing watches.
        let would_wait = standing.would_wait.iter().copied().chain(std::iter::repeat(0));
        for (((path, reading), (queued, cost)), would_wait) in
            self.classes.iter_mut().zip(levels).zip(would_wait)
        {
            reading.level(Meter::QUEUED, *queued);
            reading.level(Meter::WOULD_WAIT, would_wait);
            if let Some(cost) = cost {
                reading.level(Meter::COST, *cost);
            }
            self.archives.record(path, self.began, to, reading);
            reading.clear();
        }
        self.began = to;
    }

    fn of(&mut self, class: ClassId) -> &mut Reading {
        let known = if class.index() < self.classes.len() { class.index() } else { 0 };
        &mut self.classes[known].1
    }
}
