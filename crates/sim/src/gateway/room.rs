//! The waiting room before the simulated admission, as the gateway has it: asked first, told what admission knows.

use std::{collections::BTreeMap, time::Duration};

use tidegate_control::{
    ClassId, Refusal, Timestamp,
    admission::Admission,
    knobs::Values,
    waiting_room::{Answer, Pass, PassAnswer, Promise, Room, RoomCount, RoomSettings, Standing},
};

use super::Class;
use crate::{Request, scenario::START};

/// How often the room is told what admission knows.
const INTERVAL: Duration = Duration::from_millis(100);

/// How often passes that are over are forgotten.
const SWEEP: Duration = Duration::from_secs(60);

/// The room, and when it is told next.
#[derive(Debug)]
pub(super) struct Hall {
    room: Room,
    is_on: bool,
    next: Timestamp,
    /// What browsers have in cookies, by session.
    passes: BTreeMap<u32, Pass>,
    sweep: Timestamp,
}

/// What becomes of a request before admission.
pub(super) enum Before {
    Enter(Entered),
    Later(Promise),
    Refuse(Refusal),
}

/// How a request goes on to admission.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Entered {
    /// Whether it came with a pass.
    pub(super) has_pass: bool,
    /// Its priority, if it has one of its own.
    pub(super) priority: Option<u8>,
    /// The pass that its session gets with the answer.
    pub(super) pass: Option<(u32, Pass)>,
}

pub(super) fn settings(application: &Values, classes: &[Class]) -> RoomSettings {
    let values: Vec<&Values> = classes.iter().map(|class| &class.values).collect();
    let groups = classes.iter().map(|class| (class.name.as_str(), class.group));
    RoomSettings::from_values(application, &values).in_groups(groups)
}

impl Hall {
    pub(super) fn new(settings: &RoomSettings) -> Self {
        let room = Room::new(settings, [1, 2], START);
        Self { room, is_on: settings.is_on(), next: START, passes: BTreeMap::new(), sweep: START + SWEEP }
    }

    pub(super) fn configure(&mut self, now: Timestamp, settings: &RoomSettings) {
        self.is_on = settings.is_on();
        self.room.configure(now, settings);
    }

    pub(super) const fn is_on(&self) -> bool {
        self.is_on
    }

    pub(super) const fn room(&self) -> &Room {
        &self.room
    }

    pub(super) fn next(&self) -> Option<Timestamp> {
        self.is_on.then_some(self.next)
    }

    /// How things stand, if there is a room.
    pub(super) fn standing(&self, now: Timestamp) -> Option<Standing> {
        self.is_on.then(|| self.room.standing(now))
    }

    /// Counts what has happened since the last call.
    pub(super) fn drain_counts(&mut self, f: impl FnMut(ClassId, RoomCount, u64)) {
        self.room.drain_counts(f);
    }

    /// Tells the room what admission knows, if it is time to.
    pub(super) fn advance(&mut self, now: Timestamp, admission: &mut Admission) {
        if !self.is_on || now < self.next {
            return;
        }
        self.next = now + INTERVAL;
        if now >= self.sweep {
            self.sweep = now + SWEEP;
            self.passes.retain(|_, pass| pass.until > now);
        }
        let capacity = admission.supply(now, self.room.holds_back(now));
        self.room.observe(now, capacity, admission.levels().costs());
    }

    pub(super) fn arrive(&mut self, now: Timestamp, admission: &mut Admission, request: &Request) -> Before {
        self.advance(now, admission);
        if request.forged {
            self.room.count(request.class, RoomCount::Forged);
        }
        if let Some(session) = request.session
            && let Some(pass) = self.passes.get(&session)
            && let PassAnswer::Enter { renewed } = self.room.pass(now, request.class, pass)
        {
            let pass = renewed.map(|renewed| (session, renewed));
            return Before::Enter(Entered { has_pass: true, priority: None, pass });
        }
        let answer = match &request.promise {
            Some(promise) => self.room.come_back(now, request.class, promise),
            None => self.room.ask(now, request.class),
        };
        match answer {
            Answer::Enter(entry) => {
                let pass = request.session.zip(entry.pass);
                Before::Enter(Entered { has_pass: false, priority: entry.priority, pass })
            }
            Answer::Wait(place) => Before::Later(place.promise),
            Answer::Refuse(refusal) => Before::Refuse(refusal),
            // The simulated gateway has both roles.
            Answer::Elsewhere { .. } => Before::Refuse(Refusal::RoomClosed),
        }
    }

    /// Who was let in is on the way to the server: he has his pass.
    pub(super) fn give(&mut self, pass: Option<(u32, Pass)>) {
        self.passes.extend(pass);
    }

    /// A new time for who was let in and refused for want of room.
    pub(super) fn missed(
        &mut self,
        now: Timestamp,
        class: ClassId,
        promise: Option<Promise>,
        entered: Entered,
        refusal: Refusal,
    ) -> Option<Promise> {
        if !self.is_on || !refusal.is_overload() {
            return None;
        }
        let answer = match entered.has_pass {
            true => self.room.missed_with_pass(now, class),
            false => self.room.missed(now, class, promise.as_ref()),
        };
        match answer {
            Answer::Wait(place) => Some(place.promise),
            _ => None,
        }
    }
}
