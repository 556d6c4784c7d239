//! Shadows: what a request would come to if what only watches acted.
//!
//! While something watches, each request that is not refused has a shadow on a path on which what acts and what watches
//! holds. A shadow and its request part where the request starts sooner, or waits longer, than it would; three rules
//! keep the shadows' server as fast as the real one:
//!
//! - A shadow in flight whose request has started ends with its request's exchange.
//! - An exchange whose own shadow is not in flight (it waits still, or was refused) takes of the server what on the
//!   shadows' path another one has. Its end is therefore the end of a shadow whose request waits still in truth, of the
//!   one that arrived first, whatever the weights ([`Path::stand_in`]).
//! - A request whose shadow has ended so is from then on one of the second rule.
//!
//! Who is refused in truth, or leaves while he waits, has no shadow any more. Who leaves while his exchange is under way
//! takes his shadow with him if that waits, and his exchange is one of the second rule.

use super::{
    Exchange,
    path::{Answer, Path, Role, Started, newcomer},
};
use crate::{Refusal, Ticket, Timestamp, queue::Phase, roster::Place};

/// How the shadow of a request stands when that starts in truth.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Begun {
    /// In flight; its weight is counted, and there its class finds it.
    InFlight(Place),
    /// It waits.
    Waiting,
    /// It was refused, which now counts.
    Refused(Refusal),
    /// It has ended already, or there never was one.
    Over,
}

impl Path {
    /// A path of shadows that goes on from here: of everything that waits or is in flight.
    pub(super) fn cast_shadows(&mut self) -> Self {
        let mut shadows = self.clone();
        shadows.role = Role::Watches;
        shadows.decided.clear();
        shadows.would_refuse.iter_mut().for_each(|counts| *counts = Default::default());
        let entries: Vec<(u32, Phase)> =
            self.table.iter().map(|(index, entry)| (index, entry.phase)).collect();
        for (index, phase) in entries {
            let is_refused = matches!(phase, Phase::Refused(_));
            self.table[index].shadow = (!is_refused).then(|| self.table.ticket(index));
            if is_refused {
                shadows.table.remove(index);
            } else {
                shadows.note_ahead(index);
            }
        }
        shadows
    }

    /// Notes whose shadow a request that waits has, and what would have refused it already.
    pub(super) fn note_shadow(&mut self, of: Ticket, shadow: Option<Ticket>, would_refuse: Option<Refusal>) {
        if let Some(index) = self.table.find(of) {
            self.table[index].shadow = shadow;
            self.table[index].would_refuse = would_refuse;
        }
    }

    /// The shadow of a request that itself waits: what becomes of it is kept until the request is decided.
    pub(super) fn arrive_waiting(&mut self, now: Timestamp, exchange: &Exchange) -> Option<Ticket> {
        let phase = match self.arrive(now, exchange, false) {
            Answer::Wait(ticket) => return Some(ticket),
            Answer::Start(Started { in_flight, place }) => Phase::Granted { started: now, in_flight, place },
            Answer::Refuse(refusal) => Phase::Refused(refusal),
        };
        let Some(index) = self.table.insert(newcomer(now, exchange, self.arrivals)) else {
            if let Phase::Granted { place, .. } = phase {
                self.depart(now, exchange.class, exchange.weight, place, false);
            }
            return None;
        };
        self.arrivals += 1;
        self.table[index].phase = phase;
        self.table[index].announced = true;
        self.note_ahead(index);
        Some(self.table.ticket(index))
    }

    /// Notes a shadow that is in flight before its request.
    pub(super) fn note_ahead(&mut self, index: u32) {
        let entry = &self.table[index];
        if !entry.begun && matches!(entry.phase, Phase::Granted { .. }) {
            self.ahead.insert(entry.sequence, index);
        }
    }

    /// The request of a shadow starts in truth.
    pub(super) fn begin(&mut self, ticket: Ticket) -> Begun {
        let Some(index) = self.table.find(ticket) else { return Begun::Over };
        let entry = &mut self.table[index];
        match entry.phase {
            Phase::Waiting | Phase::Free => {
                entry.begun = true;
                Begun::Waiting
            }
            Phase::Granted { place, .. } => {
                self.ahead.remove(&entry.sequence);
                self.table.remove(index);
                Begun::InFlight(place)
            }
            Phase::Refused(refusal) => {
                let class = entry.class;
                self.table.remove(index);
                self.count_refusal(class, refusal);
                Begun::Refused(refusal)
            }
        }
    }

    /// The request of a shadow never starts; neither does the shadow, and it counts as nothing.
    pub(super) fn withdraw(&mut self, now: Timestamp, ticket: Ticket) {
        let Some(index) = self.table.find(ticket) else { return };
        let entry = &self.table[index];
        if let Phase::Granted { place, .. } = entry.phase {
            let (class, weight) = (entry.class, entry.weight);
            self.ahead.remove(&entry.sequence);
            self.table.remove(index);
            self.depart(now, class, weight, place, false);
        } else {
            self.forget(now, ticket);
        }
    }

    /// The client has left whose shadow waited when its exchange began, which goes on. What has refused it meanwhile.
    pub(super) fn abandon(&mut self, now: Timestamp, ticket: Ticket) -> Option<Refusal> {
        match self.entry(ticket)?.phase {
            Phase::Granted { .. } => None,
            phase => {
                self.forget(now, ticket);
                refused_for(phase)
            }
        }
    }

    /// The exchange is over whose shadow waited when it began. What would have refused it meanwhile, unless that was
    /// told when its client left. `is_time` as for [`Path::depart`].
    pub(super) fn end(&mut self, now: Timestamp, ticket: Ticket, is_time: bool) -> Option<Refusal> {
        let Some(entry) = self.entry(ticket) else {
            self.stand_in(now);
            return None;
        };
        let (phase, class, weight) = (entry.phase, entry.class, entry.weight);
        self.forget(now, ticket);
        if let Phase::Granted { place, .. } = phase {
            self.depart(now, class, weight, place, is_time);
            return None;
        }
        self.stand_in(now);
        refused_for(phase)
    }

    /// An exchange is over that was none on this path: it stands for one whose request waits in truth.
    pub(super) fn stand_in(&mut self, now: Timestamp) {
        if let Some((_, index)) = self.ahead.pop_first() {
            let entry = &self.table[index];
            if let Phase::Granted { place, .. } = entry.phase {
                self.give_back(now, entry.class, entry.weight, place, false);
            }
            self.table.remove(index);
        }
        self.reconsider(now);
    }

    /// Takes over what of the shadows was refused.
    pub(super) fn take_counts(&mut self, shadows: &mut Self) {
        for (own, counts) in self.would_refuse.iter_mut().zip(&mut shadows.would_refuse) {
            own.iter_mut().zip(counts).for_each(|(own, count)| *own += std::mem::take(count));
        }
    }

    /// Panics unless exactly the shadows in flight whose requests wait are known as such.
    pub(super) fn check_ahead(&self) {
        let mut ahead = 0;
        for (index, entry) in self.table.iter() {
            let is_ahead =
                self.role == Role::Watches && !entry.begun && matches!(entry.phase, Phase::Granted { .. });
            ahead += usize::from(is_ahead);
            assert_eq!(self.ahead.get(&entry.sequence) == Some(&index), is_ahead, "who is ahead is known");
        }
        assert_eq!(self.ahead.len(), ahead, "nobody else is ahead");
    }
}

const fn refused_for(phase: Phase) -> Option<Refusal> {
    match phase {
        Phase::Refused(refusal) => Some(refusal),
        _ => None,
    }
}
