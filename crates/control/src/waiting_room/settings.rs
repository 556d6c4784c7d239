//! Settings of the waiting room, read from an application's knobs and its classes'.

use std::time::Duration;

use super::{between::fingerprint, draws::GROUPS_MAX, slot_table::LANES_MAX};
use crate::{
    ClassId, Timestamp,
    knobs::{Algorithm, ClassRoomMethod, PerSecond, RoomMethod, RoomOrder, RoomRole, Values, keys},
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
    /// By which it is known to a process after this one; the room names it in what survives.
    pub name: u64,
    /// The class whose doors, draws and share it has, and not its own; `None`: it has its own.
    pub group: Option<ClassId>,
    /// Who of it gets which place; `None`: as in the whole room, as all of these.
    pub method: Option<ClassRoomMethod>,
    /// When its doors open.
    pub opens_at: Option<Timestamp>,
    /// The order in which who came before is let in.
    pub order: Option<RoomOrder>,
    /// Length of its rounds.
    pub round: Option<Duration>,
    /// Share of each slot kept for it.
    pub share: Option<f64>,
    /// Work of one of its requests over that of one of the other classes', where it is not learnt.
    pub weight: u64,
}

impl Default for ClassRoom {
    /// One that waits with everybody.
    fn default() -> Self {
        Self {
            queues: true,
            name: 0,
            group: None,
            method: None,
            opens_at: None,
            order: None,
            round: None,
            share: None,
            weight: 1,
        }
    }
}

/// Whom a draw is of: a class and those that have its doors, or everybody else.
pub(super) type Group = Option<ClassId>;

/// How a group gets its places.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Doors {
    pub(super) method: RoomMethod,
    pub(super) opens_at: Option<Timestamp>,
    pub(super) order: RoomOrder,
    pub(super) round: Duration,
}

impl RoomSettings {
    /// Reads the knobs of an application and of its classes, dense by id.
    ///
    /// # Panics
    ///
    /// If the values belong to other scopes: a mistake in the program, not in its input.
    #[must_use]
    pub fn from_values(application: &Values, classes: &[&Values]) -> Self {
        // What is found is in requests of the mix that came, or goes with costs that are learnt.
        let finds_capacity = matches!(
            application.get(keys::IN_FLIGHT_ALGORITHM).0,
            Algorithm::KneeTrack | Algorithm::PowerRatio
        );
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
            opens_at: application.get(keys::ROOM_OPENS_AT).map(since_1970),
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
                .zip(1..)
                .map(|(class, name)| ClassRoom {
                    queues: class.get(keys::ROOM_QUEUES),
                    name,
                    group: None,
                    method: class.get(keys::CLASS_ROOM_METHOD).map(|chosen| chosen.0),
                    opens_at: class.get(keys::CLASS_ROOM_OPENS_AT).map(since_1970),
                    order: class.get(keys::CLASS_ROOM_ORDER).map(|chosen| chosen.0),
                    round: class.get(keys::CLASS_ROOM_ROUND),
                    share: class.get(keys::ROOM_SHARE),
                    weight: if finds_capacity { 1 } else { class.get(keys::WEIGHT) },
                })
                .collect(),
        }
    }

    /// With the classes' names, and the class whose group each is of; both dense by id.
    #[must_use]
    pub fn in_groups<'n>(mut self, classes: impl Iterator<Item = (&'n str, Option<ClassId>)>) -> Self {
        for (class, (name, group)) in self.classes.iter_mut().zip(classes) {
            (class.name, class.group) = (fingerprint(name), group);
        }
        self
    }

    /// Work of a request of each class.
    pub(super) fn weights(&self) -> impl Iterator<Item = u64> + '_ {
        self.classes.iter().map(|class| class.weight)
    }

    /// Whether there is a room at all.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.method != RoomMethod::Off
    }

    /// Who of a class gets which place.
    pub(super) fn method_of(&self, class: ClassId) -> RoomMethod {
        self.doors_of(Some(class)).method
    }

    /// How a group, or the group of a class, gets its places.
    pub(super) fn doors_of(&self, group: Group) -> Doors {
        let whole =
            Doors { method: self.method, opens_at: self.opens_at, order: self.order, round: self.round };
        let own = group.and_then(|class| self.classes.get(self.leader(class).index()));
        let Some(own) = own.filter(|_| self.is_on()) else { return whole };
        Doors {
            method: own.method.map_or(whole.method, ClassRoomMethod::of_room),
            opens_at: own.opens_at.or(whole.opens_at),
            order: own.order.unwrap_or(whole.order),
            round: own.round.unwrap_or(whole.round),
        }
    }

    /// With whom a class draws: those of one group have something of their own, doors or a share. Groups beyond the first
    /// [`GROUPS_MAX`] classes draw with everybody.
    pub(super) fn group_of(&self, class: ClassId) -> Group {
        let leader = self.leader(class);
        let has_share = self.classes.get(leader.index()).is_some_and(|own| own.share.is_some());
        let has_own = leader.index() < GROUPS_MAX && (has_share || self.owner_of_doors(class).is_some());
        has_own.then_some(leader)
    }

    /// Whether a pass of one who came in through a class holds for another: where both have the same doors, or the other
    /// has none that one has to wait for, being first come, first served.
    pub(super) fn holds_for(&self, through: ClassId, class: ClassId) -> bool {
        self.owner_of_doors(through) == self.owner_of_doors(class)
            || matches!(self.method_of(class), RoomMethod::Fifo | RoomMethod::Off)
    }

    /// Whose doors a class has; `None`: those of the whole room.
    fn owner_of_doors(&self, class: ClassId) -> Group {
        let leader = self.leader(class);
        let own = self.classes.get(leader.index())?;
        let has_doors =
            own.method.is_some() || own.opens_at.is_some() || own.order.is_some() || own.round.is_some();
        has_doors.then_some(leader)
    }

    /// The class whose doors and share a class has: mostly itself. One that is of a group leads none.
    fn leader(&self, class: ClassId) -> ClassId {
        let group = self.classes.get(class.index()).and_then(|class| class.group);
        let leads =
            |leader: &ClassId| self.classes.get(leader.index()).is_some_and(|leader| leader.group.is_none());
        group.filter(leads).unwrap_or(class)
    }

    /// Shares kept for classes, lane by lane from 1, and the lane of each class. Classes beyond the last lane are
    /// everybody.
    pub(super) fn lanes(&self) -> (Vec<f64>, Vec<usize>) {
        let mut shares = Vec::new();
        let own: Vec<usize> = (0..)
            .zip(&self.classes)
            .map(|(id, class)| match class.share {
                Some(share) if shares.len() + 1 < LANES_MAX && self.leader(ClassId(id)) == ClassId(id) => {
                    shares.push(share);
                    shares.len()
                }
                _ => 0,
            })
            .collect();
        let lane_of = |id| own.get(self.leader(ClassId(id)).index()).copied().unwrap_or(0);
        let lanes = (0..).zip(&self.classes).map(|(id, _)| lane_of(id)).collect();
        (shares, lanes)
    }
}

fn since_1970(seconds: u64) -> Timestamp {
    Timestamp::EPOCH + Duration::from_secs(seconds)
}
