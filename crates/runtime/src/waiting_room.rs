//! One application's waiting room as all cores share it: its lock, and what it hears from admission.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tidegate_control::{
    ClassId, Timestamp,
    waiting_room::{Capacity, Room, RoomSettings, RoomSnapshot, SlotView, SnapshotFault, Standing},
};

use crate::{ApplicationState, Clock};

/// How often the room hears what admission knows.
const OBSERVE: Duration = Duration::from_millis(100);
/// Slots shown at once.
const SLOTS_SHOWN_MAX: usize = 3600;

/// The waiting room of one application.
#[derive(Debug)]
pub struct WaitingRoom {
    clock: Clock,
    locked: Mutex<Room>,
}

impl WaitingRoom {
    pub(crate) fn new(clock: Clock, settings: &RoomSettings) -> Self {
        // Without randomness numbers still differ by the time.
        let seed = getrandom::u64().unwrap_or(clock.now().as_nanos());
        Self { clock, locked: Mutex::new(Room::new(settings, seed, clock.now())) }
    }

    pub(crate) fn configure(&self, settings: &RoomSettings) {
        self.with(|room, now| room.configure(now, settings));
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
        self.with(|room, now| slots.extend(room.slots(now).take(SLOTS_SHOWN_MAX)));
        slots
    }

    /// What must survive the process.
    #[must_use]
    pub fn snapshot(&self) -> RoomSnapshot {
        self.with(|room, now| room.snapshot(now))
    }

    /// Takes over what survived another process.
    ///
    /// # Errors
    ///
    /// [`SnapshotFault`] if it fits this room no more; nothing has changed.
    pub fn restore(&self, snapshot: &RoomSnapshot) -> Result<(), SnapshotFault> {
        self.with(|room, now| room.restore(now, snapshot))
    }

    fn lock(&self) -> MutexGuard<'_, Room> {
        self.locked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ApplicationState {
    /// Tells the waiting room what admission knows, ten times a second, for ever. One task an application runs this
    /// on its home core.
    pub async fn keep_waiting_room(self: Arc<Self>) {
        let mut beat = tokio::time::interval(OBSERVE);
        beat.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            beat.tick().await;
            // One lock after the other.
            let (levels, pace_per_s) = (self.gate().levels(), self.gate().slot_rate());
            #[expect(clippy::cast_precision_loss, reason = "thousandths of a rate")]
            let units = |thousandths: u64| thousandths as f64 / 1000.0;
            let capacity = Capacity { per_s: levels.capacity.map(units), pace_per_s };
            let class = |index| ClassId(u16::try_from(index).unwrap_or(u16::MAX));
            let costs = levels.costs.iter().enumerate();
            let costs = costs.map(|(index, cost)| (class(index), cost.map(units)));
            self.waiting_room().with(|room, now| {
                room.advance(now);
                room.observe(now, capacity, costs);
            });
        }
    }
}
