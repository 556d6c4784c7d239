//! Settings of an application's admission, read from its knobs and its classes'.

use std::time::Duration;

use crate::{
    capacity::{CapacityBounds, PowerRatioSettings},
    knobs::{Algorithm, Chosen, Discipline, Mode, PerSecond, RoomMethod, SchedulerKind, Values, keys},
    limit::LimitBounds,
    queue::QueueSettings,
    share::Share,
};

/// Everything admission can be told while it runs.
#[derive(Clone, Debug, PartialEq)]
pub struct AdmissionSettings {
    /// Whether decisions act.
    pub mode: Mode,
    /// Whether each control of the application does; `None`: as `mode` says.
    pub modes: OwnModes,
    /// How the in-flight limit is found.
    pub algorithm: Algorithm,
    /// Where the limit starts and its bounds.
    pub limit: LimitBounds,
    /// Weight that may be dormant: it stays in flight and takes nothing of an adaptive limit.
    pub dormant_max: u32,
    /// Between what the capacity found may move.
    pub capacity: CapacityBounds,
    /// The constants of the algorithm `power_ratio`.
    pub power_ratio: PowerRatioSettings,
    /// The order of classes.
    pub scheduler: SchedulerKind,
    /// Strict priority: after this wait a request goes before all but the top priority.
    pub starvation_max: Option<Duration>,
    /// Requests admitted over all classes.
    pub ingress: Option<Rate>,
    /// Requests started over all classes.
    pub egress: Option<Rate>,
    /// Long streams open at once.
    pub long_streams_max: u64,
    /// Whether that bound acts.
    pub long_streams_mode: Mode,
    /// Whether new TLS sessions are let in only while there is room for what they bring.
    pub tls_sessions: Mode,
    /// The part of every rate and limit above and below that is ours.
    pub share: Share,
    /// The classes, dense by [`ClassId`](crate::ClassId).
    pub classes: Vec<ClassSettings>,
}

/// Settings of one class.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassSettings {
    /// Whether each control of the class acts; `None`: as the application's does.
    pub modes: OwnModes,
    /// Requests of the class admitted.
    pub ingress: Option<Rate>,
    /// Requests of the class started.
    pub egress: Option<Rate>,
    /// Bounds and order of its queue.
    pub queue: QueueSettings,
    /// From arrival until the latest start.
    pub deadline: Option<Duration>,
    /// Weight units of the class in flight at once.
    pub in_flight_max: Option<u32>,
    /// How long before there is room under that bound the next one may start.
    pub in_flight_lead: Option<Duration>,
    /// Its share under the weighted scheduler.
    pub share: u32,
}

/// Modes of the controls that have one of their own; `None`: as what is above says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OwnModes {
    /// The rate of admission.
    pub ingress: Option<Mode>,
    /// The limit in flight: of an application what its algorithm finds, of a class its bound.
    pub in_flight: Option<Mode>,
    /// The bounds of queues: lengths, waits, deadlines and CoDel. Of an application: of all its classes.
    pub queue: Option<Mode>,
    /// The rate of starts.
    pub egress: Option<Mode>,
}

/// The mode in force of each control, whether or not it is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Modes {
    /// The rate of admission.
    pub ingress: Mode,
    /// The limit in flight: of an application what its algorithm finds, of a class its bound.
    pub in_flight: Mode,
    /// The bounds of queues; of an application: of its classes that have no mode of their own.
    pub queue: Mode,
    /// The rate of starts.
    pub egress: Mode,
}

/// A rate with a burst, for a token bucket.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// Events per second.
    pub per_s: f64,
    /// Events at once.
    pub burst: f64,
}

impl AdmissionSettings {
    /// Reads the knobs of an application and of its classes, dense by id.
    ///
    /// # Panics
    ///
    /// If the values belong to other scopes: a mistake in the program, not in its input.
    #[must_use]
    pub fn from_values(application: &Values, classes: &[&Values]) -> Self {
        let rate = |rate: Option<PerSecond>, burst| rate.map(|PerSecond(per_s)| Rate { per_s, burst });
        Self {
            mode: application.get(keys::MODE).0,
            modes: OwnModes::of_application(application),
            algorithm: application.get(keys::IN_FLIGHT_ALGORITHM).0,
            limit: LimitBounds {
                initial: units(application.get(keys::IN_FLIGHT_LIMIT)),
                min: units(application.get(keys::IN_FLIGHT_MIN)),
                max: units(application.get(keys::IN_FLIGHT_MAX)),
            },
            dormant_max: units(application.get(keys::DORMANT_MAX)),
            capacity: capacity(application),
            power_ratio: power_ratio(application),
            scheduler: application.get(keys::SCHEDULER).0,
            starvation_max: application.get(keys::STARVATION_MAX),
            ingress: rate(
                application.get(keys::APPLICATION_INGRESS_RATE),
                application.get(keys::APPLICATION_INGRESS_BURST),
            ),
            egress: rate(
                application.get(keys::APPLICATION_EGRESS_RATE),
                application.get(keys::APPLICATION_EGRESS_BURST),
            ),
            long_streams_max: application.get(keys::LONG_STREAMS_MAX),
            long_streams_mode: Self::long_streams_mode(application),
            tls_sessions: application.get(keys::TLS_SESSIONS_MODE).0,
            share: Share::WHOLE,
            classes: classes
                .iter()
                .map(|class| ClassSettings {
                    modes: OwnModes::of_class(class),
                    ingress: rate(class.get(keys::INGRESS_RATE), class.get(keys::INGRESS_BURST)),
                    egress: rate(class.get(keys::EGRESS_RATE), class.get(keys::EGRESS_BURST)),
                    queue: queue(application, class),
                    deadline: class.get(keys::DEADLINE),
                    in_flight_max: class.get(keys::CLASS_IN_FLIGHT_MAX).map(units),
                    in_flight_lead: class.get(keys::IN_FLIGHT_LEAD),
                    share: units(class.get(keys::SHARE)),
                })
                .collect(),
        }
    }

    /// Whether an application's bound of long streams acts.
    ///
    /// # Panics
    ///
    /// If the values are not an application's: a mistake in the program, not in its input.
    #[must_use]
    pub fn long_streams_mode(application: &Values) -> Mode {
        application.get(keys::LONG_STREAMS_MODE).unwrap_or_else(|| application.get(keys::MODE)).0
    }

    /// The mode of each control, where a class has none of its own.
    pub(super) fn modes_in_force(&self) -> Modes {
        self.modes.over(Modes::all(self.mode))
    }

    /// Whether anything that is set only watches, of what decides after admission's rates.
    pub(super) fn watches(&self) -> bool {
        let of_all = self.modes_in_force();
        let is_watched = |mode| mode == Mode::Watch;
        is_watched(of_all.in_flight)
            || self.egress.is_some() && is_watched(of_all.egress)
            || self.classes.iter().any(|class| {
                let own = class.modes.over(of_all);
                is_watched(own.queue)
                    || class.in_flight_max.is_some() && is_watched(own.in_flight)
                    || class.egress.is_some() && is_watched(own.egress)
            })
    }
}

impl Modes {
    /// Those of an application, and of its classes that have none of their own.
    ///
    /// # Panics
    ///
    /// If the values are not an application's: a mistake in the program, not in its input.
    #[must_use]
    pub fn of_application(application: &Values) -> Self {
        OwnModes::of_application(application).over(Self::all(application.get(keys::MODE).0))
    }

    /// Those of a class of the application whose they are.
    ///
    /// # Panics
    ///
    /// If the values are not a class's: a mistake in the program, not in its input.
    #[must_use]
    pub fn of_class(self, class: &Values) -> Self {
        OwnModes::of_class(class).over(self)
    }

    const fn all(mode: Mode) -> Self {
        Self { ingress: mode, in_flight: mode, queue: mode, egress: mode }
    }
}

impl OwnModes {
    fn of_application(application: &Values) -> Self {
        Self {
            ingress: own(application.get(keys::APPLICATION_INGRESS_MODE)),
            in_flight: own(application.get(keys::APPLICATION_IN_FLIGHT_MODE)),
            queue: own(application.get(keys::APPLICATION_QUEUE_MODE)),
            egress: own(application.get(keys::APPLICATION_EGRESS_MODE)),
        }
    }

    fn of_class(class: &Values) -> Self {
        Self {
            ingress: own(class.get(keys::INGRESS_MODE)),
            in_flight: own(class.get(keys::CLASS_IN_FLIGHT_MODE)),
            queue: own(class.get(keys::QUEUE_MODE)),
            egress: own(class.get(keys::EGRESS_MODE)),
        }
    }

    /// The same, with what is above where there is none.
    pub(super) fn over(self, above: Modes) -> Modes {
        Modes {
            ingress: self.ingress.unwrap_or(above.ingress),
            in_flight: self.in_flight.unwrap_or(above.in_flight),
            queue: self.queue.unwrap_or(above.queue),
            egress: self.egress.unwrap_or(above.egress),
        }
    }
}

/// The queue of a class. Where the waiting room is before it, it is the short queue: who has a promise is held as long as
/// the room says, in the order of arrival, since the newest first would break promises whenever it stands.
fn queue(application: &Values, class: &Values) -> QueueSettings {
    let in_room = application.get(keys::ROOM_METHOD).0 != RoomMethod::Off && class.get(keys::ROOM_QUEUES);
    let discipline = class.get(keys::QUEUE_DISCIPLINE).0;
    QueueSettings {
        max: usize::try_from(class.get(keys::QUEUE_MAX)).unwrap_or(usize::MAX),
        bytes_max: class.get(keys::QUEUE_BYTES_MAX).0,
        wait_max: if in_room {
            Some(application.get(keys::ROOM_HOLD))
        } else {
            class.get(keys::QUEUE_WAIT_MAX)
        },
        discipline: match discipline {
            Discipline::AdaptiveLifo if in_room => Discipline::Fifo,
            discipline => discipline,
        },
        stands_after: class.get(keys::QUEUE_STANDS_AFTER),
        codel: class
            .get(keys::QUEUE_CODEL)
            .then(|| (class.get(keys::QUEUE_CODEL_TARGET), class.get(keys::QUEUE_CODEL_INTERVAL))),
    }
}

/// Given, or between floor and ceiling.
fn capacity(application: &Values) -> CapacityBounds {
    let per_s = |rate: Option<PerSecond>| rate.map(|PerSecond(per_s)| per_s);
    per_s(application.get(keys::CAPACITY_GIVEN)).map_or_else(
        || CapacityBounds {
            floor: per_s(application.get(keys::CAPACITY_FLOOR)),
            ceiling: per_s(application.get(keys::CAPACITY_CEILING)),
        },
        CapacityBounds::exactly,
    )
}

fn power_ratio(application: &Values) -> PowerRatioSettings {
    PowerRatioSettings {
        initial_per_s: application.get(keys::POWER_RATIO_INITIAL).0,
        growth: application.get(keys::POWER_RATIO_GROWTH),
        back_off: application.get(keys::POWER_RATIO_BACK_OFF),
        step: application.get(keys::POWER_RATIO_STEP),
        epoch: application.get(keys::POWER_RATIO_EPOCH),
        close: application.get(keys::POWER_RATIO_CLOSE),
        stable_epochs: units(application.get(keys::POWER_RATIO_STABLE)),
        confirm_epochs: units(application.get(keys::POWER_RATIO_CONFIRM)),
        change_errors: application.get(keys::POWER_RATIO_CHANGE),
    }
}

impl Rate {
    /// The lower of a rate that is set and one that an algorithm has found. What is found comes evenly: a tenth of
    /// a second's worth at once.
    pub(super) fn lower(set: Option<Self>, found_per_s: Option<f64>) -> Option<Self> {
        let found = found_per_s.map(|per_s| Self { per_s, burst: (per_s / 10.0).max(1.0) });
        match (set, found) {
            (Some(set), Some(found)) if set.per_s <= found.per_s => Some(set),
            (set, found) => found.or(set),
        }
    }
}

fn own(mode: Option<Chosen<Mode>>) -> Option<Mode> {
    mode.map(|mode| mode.0)
}

fn units(count: u64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
