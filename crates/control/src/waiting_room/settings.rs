//! Settings of the waiting room, read from an application's knobs and its classes'.

use std::time::Duration;

use super::slot_table::LANES_MAX;
use crate::{
    ClassId, Timestamp,
    knobs::{ClassRoomMethod, PerSecond, RoomMethod, RoomOrder, RoomRole, Values, keys},
};

/// Everything the room can be told while it runs.
#[derive(Clone, Debug, PartialEq)]
pub struct RoomSettings {
    /// Who gets which place.
    pub method: RoomMethod,
    /// What this process does of it.
    pub role: RoomRole,
    /// Length of a slot.
    pub slot: Duration,
    /// How far ahead places are promised.
    pub horizon: Duration,
    /// Share of the capacity promised of each slot.
    pub fill: f64,
    /// Longest wait in the short queue of who comes at the promised time.
    pub hold: Duration,
    /// How late one may come.
    pub grace: Duration,
    /// How early one may come.
    pub clock_tolerance: Duration,
    /// Largest share of no-shows for which slots are filled beyond.
    pub overbook_max: f64,
    /// Share of a full slot given besides to who is owed a place.
    pub extra: f64,
    /// When doors open, under [`RoomMethod::Event`].
    pub opens_at: Option<Timestamp>,
    /// The order in which they are let in then.
    pub order: RoomOrder,
    /// Length of a round, under [`RoomMethod::Random`].
    pub round: Duration,
    /// Places taken from the table at once.
    pub block: u32,
    /// Passes for further requests; `None`: there are none.
    pub sessions: Option<SessionSettings>,
    /// Role `generate`: without a report for so long, the check is lost.
    pub report_timeout: Duration,
    /// Role `generate`: so long the last capacity holds without a report.
    pub report_keep: Duration,
    /// Capacity that is safe without a report, work units a second.
    pub floor: Option<f64>,
    /// The classes, dense by [`ClassId`].
    pub classes: Vec<ClassRoom>,
}

/// How long passes last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionSettings {
    /// After the last use.
    pub idle: Duration,
    /// After the first.
    pub total: Duration,
}

/// What the room knows of a class.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClassRoom {
    /// Whether it goes through the room.
    pub queues: bool,
    /// Who of it gets which place; `None`: as in the whole room.
    pub method: Option<ClassRoomMethod>,
    /// Share of each slot kept for it.
    pub share: Option<f64>,
}

impl RoomSettings {
    /// Reads the knobs of an application and of its classes, dense by id.
    ///
    /// # Panics
    ///
    /// If the values belong to other scopes: a mistake in the program, not in its input.
    #[must_use]
    pub fn from_values(application: &Values, classes: &[&Values]) -> Self {
        Self {
            method: application.get(keys::ROOM_METHOD).0,
            role: application.get(keys::ROOM_ROLE).0,
            slot: application.get(keys::ROOM_SLOT),
            horizon: application.get(keys::ROOM_HORIZON),
            fill: application.get(keys::ROOM_FILL),
            hold: application.get(keys::ROOM_HOLD),
            grace: application.get(keys::ROOM_GRACE),
            clock_tolerance: application.get(keys::ROOM_CLOCK_TOLERANCE),
            overbook_max: application.get(keys::ROOM_OVERBOOK_MAX),
            extra: application.get(keys::ROOM_EXTRA),
            opens_at: application
                .get(keys::ROOM_OPENS_AT)
                .map(|seconds| Timestamp::EPOCH + Duration::from_secs(seconds)),
            order: application.get(keys::ROOM_ORDER).0,
            round: application.get(keys::ROOM_ROUND),
            block: u32::try_from(application.get(keys::ROOM_BLOCK)).unwrap_or(u32::MAX),
            sessions: application.get(keys::ROOM_SESSIONS).then(|| SessionSettings {
                idle: application.get(keys::ROOM_SESSION_IDLE),
                total: application.get(keys::ROOM_SESSION_TOTAL),
            }),
            report_timeout: application.get(keys::ROOM_REPORT_TIMEOUT),
            report_keep: application.get(keys::ROOM_REPORT_KEEP),
            floor: application.get(keys::CAPACITY_FLOOR).map(|PerSecond(per_s)| per_s),
            classes: classes
                .iter()
                .map(|class| ClassRoom {
                    queues: class.get(keys::ROOM_QUEUES),
                    method: class.get(keys::CLASS_ROOM_METHOD).map(|chosen| chosen.0),
                    share: class.get(keys::ROOM_SHARE),
                })
                .collect(),
        }
    }

    /// Whether there is a room at all.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.method != RoomMethod::Off
    }

    /// Who of a class gets which place.
    pub(super) fn method_of(&self, class: ClassId) -> RoomMethod {
        let own = self.classes.get(class.index()).and_then(|class| class.method).filter(|_| self.is_on());
        match own {
            None => self.method,
            Some(ClassRoomMethod::Fifo) => RoomMethod::Fifo,
            Some(ClassRoomMethod::Wait) => RoomMethod::Wait,
            Some(ClassRoomMethod::Closed) => RoomMethod::Closed,
        }
    }

    /// Shares kept for classes, lane by lane from 1, and the lane of each class. Classes beyond the last lane are
    /// everybody.
    pub(super) fn lanes(&self) -> (Vec<f64>, Vec<usize>) {
        let mut shares = Vec::new();
        let lanes = self
            .classes
            .iter()
            .map(|class| match class.share {
                Some(share) if shares.len() + 1 < LANES_MAX => {
                    shares.push(share);
                    shares.len()
                }
                _ => 0,
            })
            .collect();
        (shares, lanes)
    }
}
