//! One application's waiting room as all cores share it: its lock, and what it hears from admission.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tidegate_control::{
    ClassId, Timestamp,
    waiting_room::{Room, RoomSettings, RoomSnapshot, SlotView, Standing},
};

use tidegate_tokens::{Key, Keys};

use crate::{ApplicationState, Clock};

/// How often the room hears what admission knows.
const OBSERVE: Duration = Duration::from_millis(100);
/// Slots shown at once.
const SLOTS_SHOWN_MAX: usize = 3600;

/// What waiting rooms sign their tokens with and draw lots by; both outlive the process where there is a state directory.
#[derive(Clone, Debug)]
pub struct RoomSecrets {
    /// The keys.
    pub keys: Keys,
    /// From which draws follow.
    pub draw: u64,
}

impl RoomSecrets {
    /// New ones of a process that begins at `now`, which end with it.
    ///
    /// # Panics
    ///
    /// If the system has no random numbers: nothing could be signed.
    #[must_use]
    pub fn of_this_process(now: Timestamp) -> Self {
        let mut secret = [0; tidegate_tokens::SECRET_LEN];
        let filled = getrandom::fill(&mut secret).and_then(|()| getrandom::u64());
        let draw = filled.expect("random numbers of the system");
        let keys = Keys::new(Key { id: 0, secret, made: now }, &[]).expect("one key has a number of its own");
        Self { keys, draw }
    }
}

/// The waiting room of one application.
#[derive(Debug)]
pub struct WaitingRoom {
    clock: Clock,
    is_on: AtomicBool,
    has_been_on: AtomicBool,
    locked: Mutex<Room>,
}

impl WaitingRoom {
    pub(crate) fn new(clock: Clock, settings: &RoomSettings, secrets: &RoomSecrets) -> Self {
        // Without randomness numbers still differ by the time.
        let numbers = getrandom::u64().unwrap_or(clock.now().as_nanos());
        let room = Room::new(settings, [numbers, secrets.draw], clock.now());
        let [is_on, has_been_on] = [settings.is_on(); 2].map(AtomicBool::new);
        Self { clock, is_on, has_been_on, locked: Mutex::new(room) }
    }

    pub(crate) fn configure(&self, settings: &RoomSettings) {
        self.with(|room, now| room.configure(now, settings));
        self.is_on.store(settings.is_on(), Ordering::Relaxed);
        self.has_been_on.fetch_or(settings.is_on(), Ordering::Relaxed);
    }

    /// Whether there is one at all.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    /// Whether there is one, or was one since the process began or before what it restored was written: tokens and passes
    /// of it may be out.
    #[must_use]
    pub fn has_been_on(&self) -> bool {
        self.has_been_on.load(Ordering::Relaxed)
    }

    /// Runs `f` on the room at the present time, under its lock.
    pub fn with<R>(&self, f: impl FnOnce(&mut Room, Timestamp) -> R) -> R {
        let mut room = self.lock();
        f(&mut room, self.clock.now())
    }

    /// The present time.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// How it stands, for meters and people.
    #[must_use]
    pub fn standing(&self) -> Standing {
        self.with(|room, now| room.standing(now))
    }

    /// Who waits, slot by slot, the next first; an hour of seconds at most.
    #[must_use]
    pub fn slots(&self) -> Vec<SlotView> {
        let mut slots = Vec::with_capacity(SLOTS_SHOWN_MAX);
        self.with(|room, _| slots.extend(room.slots().take(SLOTS_SHOWN_MAX)));
        slots
    }

    /// What must survive the process.
    #[must_use]
    pub fn snapshot(&self) -> RoomSnapshot {
        self.with(|room, now| room.snapshot(now))
    }

    /// Takes over what survived another process.
    pub fn restore(&self, snapshot: &RoomSnapshot) {
        self.with(|room, now| room.restore(now, snapshot));
        self.has_been_on.store(true, Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, Room> {
        self.locked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ApplicationState {
    /// Tells the waiting room what admission knows.
    pub fn tell_waiting_room(&self) {
        // One lock after the other.
        let held_back = self.waiting_room().with(|room, now| room.holds_back(now));
        let (levels, capacity) = (self.gate().levels(), self.gate().supply(held_back));
        #[expect(clippy::cast_precision_loss, reason = "thousandths of a rate")]
        let units = |thousandths: u64| thousandths as f64 / 1000.0;
        let class = |index| ClassId(u16::try_from(index).unwrap_or(u16::MAX));
        let costs = levels.costs.iter().enumerate();
        let costs = costs.map(|(index, cost)| (class(index), cost.map(units)));
        self.waiting_room().with(|room, now| {
            room.advance(now);
            room.observe(now, capacity, costs);
        });
    }

    /// Tells the waiting room what admission knows, ten times a second, for ever. One task an application runs this
    /// on its home core.
    pub async fn keep_waiting_room(self: Arc<Self>) {
        let mut beat = tokio::time::interval(OBSERVE);
        beat.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            beat.tick().await;
            if !self.waiting_room().is_on() {
                continue;
            }
            self.tell_waiting_room();
        }
    }
}
