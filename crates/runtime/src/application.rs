//! What of an application lives on from one version of its settings to the next.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate_config as config;
use tidegate_control::{
    ApplicationId, ClassId,
    admission::AdmissionSettings,
    client_rate::{ClientRateSettings, ClientRates},
    knobs::{RoomRole, Values, keys},
    waiting_room::RoomSettings,
};
use tidegate_tokens::{ApplicationKey, Signer};

use crate::{Clock, Gate, Level, RoomSecrets, WaitingRoom, capacity::CapacityTrack, servers::ServerSet};

/// An application's state: its admission, its clients' rates, its servers.
#[derive(Debug)]
pub struct ApplicationState {
    id: ApplicationId,
    gate: Gate,
    capacity: CapacityTrack,
    waiting_room: WaitingRoom,
    /// Keys of the process that gives times, where this one checks them.
    heard_keys: Mutex<Vec<ApplicationKey>>,
    awaiting_server: Level,
    lingering: Level,
    processors: Mutex<Option<Processors>>,
    clients: Mutex<ClientRates>,
    servers: ServerSet,
    classes: Mutex<Vec<config::Class>>,
    clock: Clock,
}

/// What a CPU manager on this host was asked for and has given.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Processors {
    /// How many all that is offered would need; `None` while that is not known.
    pub asked: Option<f64>,
    /// How many the application has.
    pub given: f64,
}

impl ApplicationState {
    pub(crate) fn new(
        id: ApplicationId,
        clock: Clock,
        settings: &config::Application,
        secrets: &RoomSecrets,
    ) -> Self {
        let classes = settings.classes.clone();
        Self {
            id,
            gate: Gate::new(clock, &admission_settings(settings, &classes)),
            capacity: CapacityTrack::default(),
            waiting_room: WaitingRoom::new(clock, &room_settings(settings, &classes), secrets),
            heard_keys: Mutex::default(),
            awaiting_server: Level::default(),
            lingering: Level::default(),
            processors: Mutex::default(),
            clients: Mutex::new(ClientRates::new(
                clock.now(),
                ClientRateSettings::from_values(&settings.values),
            )),
            servers: ServerSet::new(id, clock, settings),
            classes: Mutex::new(classes),
            clock,
        }
    }

    /// Applies new settings to everything that lives on; gives the classes dense by id.
    pub(crate) fn configure(&self, settings: &config::Application) -> Vec<config::Class> {
        let classes = self.merged_classes(settings);
        self.classes.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&classes);
        // Before the capacity, which is that of these servers if it is given with them.
        self.servers.configure(settings);
        self.gate.configure(&admission_settings(settings, &classes));
        let was_on = self.waiting_room.is_on();
        self.waiting_room.configure(&room_settings(settings, &classes));
        // While it was off it heard nothing. What it hears first is of a gateway that has taken up all it had before.
        let is_told = self.waiting_room.with(|room, _| room.is_told());
        if is_told && !was_on && self.waiting_room.is_on() {
            self.tell_waiting_room();
        }
        self.with_clients(|clients, now| {
            clients.configure(now, ClientRateSettings::from_values(&settings.values))
        });
        classes
    }

    /// What a CPU manager was asked for and has given; `None` without one.
    #[must_use]
    pub fn processors(&self) -> Option<Processors> {
        *self.processors.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes what a CPU manager was asked for and has given.
    pub fn set_processors(&self, processors: Option<Processors>) {
        *self.processors.lock().unwrap_or_else(PoisonError::into_inner) = processors;
    }

    /// What signs and checks its tokens: keys of this process, or those heard of the one that gives times. What the other ones
    /// have signed holds too, since the role may have been another when they did.
    pub(crate) fn signer(
        &self,
        settings: &config::Application,
        secrets: &RoomSecrets,
        classes: &[&str],
    ) -> Signer {
        let (own, heard) = (secrets.keys.of_application(&settings.name), self.lock_keys());
        match settings.values.get(keys::ROOM_ROLE).0 {
            RoomRole::Both | RoomRole::Generate => Signer::new(&own, &heard, classes),
            RoomRole::Check => Signer::new(&heard, &own, classes),
        }
    }

    /// Takes keys of the process that gives times; false if they are those that were known.
    pub(crate) fn hear_keys(&self, keys: Vec<ApplicationKey>) -> bool {
        let mut known = self.lock_keys();
        let is_new = *known != keys;
        *known = keys;
        is_new
    }

    fn lock_keys(&self) -> MutexGuard<'_, Vec<ApplicationKey>> {
        self.heard_keys.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The classes known so far and those of `settings`, dense by id.
    pub(crate) fn merged_classes(&self, settings: &config::Application) -> Vec<config::Class> {
        let mut classes = self.classes.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for class in &settings.classes {
            match classes.iter_mut().find(|other| other.name == class.name) {
                Some(other) => other.clone_from(class),
                None => classes.push(class.clone()),
            }
        }
        classes
    }

    /// The application is configured no more: its servers get nothing new, what runs ends.
    pub(crate) fn retire(&self) {
        self.servers.retire();
    }

    /// Its id.
    #[must_use]
    pub const fn id(&self) -> ApplicationId {
        self.id
    }

    /// Its admission.
    #[must_use]
    pub const fn gate(&self) -> &Gate {
        &self.gate
    }

    /// Its waiting room.
    #[must_use]
    pub const fn waiting_room(&self) -> &WaitingRoom {
        &self.waiting_room
    }

    pub(crate) const fn capacity_track(&self) -> &CapacityTrack {
        &self.capacity
    }

    pub(crate) const fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Requests that hold a permit and wait for a server, since all are full.
    #[must_use]
    pub const fn awaiting_server(&self) -> &Level {
        &self.awaiting_server
    }

    /// Permits of clients that left, held until their server has finished.
    #[must_use]
    pub const fn lingering(&self) -> &Level {
        &self.lingering
    }

    /// Its servers.
    #[must_use]
    pub const fn servers(&self) -> &ServerSet {
        &self.servers
    }

    /// Runs `f` on the rates of its clients at the present time, under their lock.
    pub fn with_clients<R>(&self, f: impl FnOnce(&mut ClientRates, tidegate_control::Timestamp) -> R) -> R {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        f(&mut clients, self.clock.now())
    }
}

fn admission_settings(settings: &config::Application, classes: &[config::Class]) -> AdmissionSettings {
    let values: Vec<&Values> = classes.iter().map(|class| &class.values).collect();
    AdmissionSettings::from_values(&settings.values, &values)
}

fn room_settings(settings: &config::Application, classes: &[config::Class]) -> RoomSettings {
    let values: Vec<&Values> = classes.iter().map(|class| &class.values).collect();
    let group = |class: &config::Class| class_id(classes, class.waiting_room.group.as_ref()?);
    let names = classes.iter().map(|class| (class.name.as_str(), group(class)));
    RoomSettings::from_values(&settings.values, &values).in_groups(names)
}

/// The id of a class by its position among the known ones.
pub(crate) fn class_id(classes: &[config::Class], name: &str) -> Option<ClassId> {
    let position = classes.iter().position(|class| class.name == name)?;
    u16::try_from(position).ok().map(ClassId)
}

/// Shared handle.
pub(crate) type ApplicationRef = Arc<ApplicationState>;
