//! A class on the path: its queue, and its own rate of starts and bound in flight where they hold.

use std::time::Duration;

use super::{
    ClassSettings,
    lead::Lead,
    path::{Role, is_ready, set_bucket},
    settings::Modes,
};
use crate::{
    ClassId, Timestamp,
    in_flight::{InFlight, TOP_PRIORITY},
    knobs::{Discipline, SchedulerKind},
    queue::{ClassQueue, WaitTable},
    roster::Place,
    scheduler::{Candidate, Order, Scheduler},
    token_bucket::TokenBucket,
};

#[derive(Clone, Debug)]
pub(super) struct Class {
    settings: ClassSettings,
    pub(super) queue: ClassQueue,
    /// `None`: there is none, or it does not hold.
    pub(super) egress: Option<TokenBucket>,
    in_flight_max: Option<u32>,
    /// `None`: there never was one that held.
    lead: Option<Box<Lead>>,
}

impl Class {
    /// To be configured before it is used.
    pub(super) fn new(settings: &ClassSettings) -> Self {
        Self {
            settings: settings.clone(),
            queue: ClassQueue::new(settings.queue),
            egress: None,
            in_flight_max: None,
            lead: None,
        }
    }

    /// New settings, or those there were, and what of them holds: what `role` heeds of the modes, where those `above` are of
    /// the application.
    pub(super) fn configure(
        &mut self,
        now: Timestamp,
        table: &mut WaitTable,
        new: Option<&ClassSettings>,
        above: Modes,
        role: Role,
    ) {
        if let Some(new) = new {
            self.settings.clone_from(new);
        }
        let modes = self.settings.modes.over(above);
        self.queue.configure(table, self.settings.queue, role.heeds(modes.queue), now);
        set_bucket(&mut self.egress, now, self.settings.egress.filter(|_| role.heeds(modes.egress)));
        self.in_flight_max = self.settings.in_flight_max.filter(|_| role.heeds(modes.in_flight));
        let lead = self.settings.in_flight_lead.filter(|_| self.in_flight_max.is_some());
        if lead.is_some() && self.lead.is_none() {
            self.lead = Some(Box::new(Lead::new()));
        }
        if let Some(own) = &mut self.lead {
            own.configure(now, lead, self.in_flight_max.unwrap_or(0));
        }
    }

    pub(super) const fn share(&self) -> u32 {
        self.settings.share
    }

    /// The latest start of a request that arrives now: the earlier of the client's deadline and the class's.
    pub(super) fn deadline(&self, now: Timestamp, of_client: Option<Timestamp>) -> Option<Timestamp> {
        match (of_client, self.settings.deadline) {
            (Some(client), Some(span)) => Some(client.min(now + span)),
            (client, span) => client.or(span.map(|span| now + span)),
        }
    }

    /// Whether its own bound lets a request start, which may be a lead before there is room under it. The lead is nothing to whom the
    /// application's limit holds back: he would keep that room from others.
    pub(super) fn has_room(
        &self,
        now: Timestamp,
        in_flight: &InFlight,
        id: ClassId,
        weight: u32,
        priority: u8,
    ) -> bool {
        self.in_flight_max.is_none_or(|max| {
            in_flight.fits_class(id, max, weight, priority)
                || self.lead.as_ref().is_some_and(|lead| {
                    in_flight.fits(weight, priority) && lead.lets_start(now, in_flight.class(id), max, weight)
                })
        })
    }

    /// When its lead next lets a request start, or does no more.
    pub(super) fn lead_turns(&self, now: Timestamp, in_flight: &InFlight, id: ClassId) -> Option<Timestamp> {
        self.lead.as_ref()?.turns(now, in_flight.class(id), self.in_flight_max?)
    }

    /// An exchange starts whose weight is not taken yet.
    #[inline]
    pub(super) fn begin(
        &mut self,
        now: Timestamp,
        in_flight: &InFlight,
        id: ClassId,
        weight: u32,
        priority: u8,
    ) -> Place {
        let Some(lead) = &mut self.lead else { return Place::NOWHERE };
        let fits = self.in_flight_max.is_none_or(|max| in_flight.fits_class(id, max, weight, priority));
        lead.begin(now, weight, !fits)
    }

    /// An exchange has ended; `is_time`: what it took says what others will take.
    #[inline]
    pub(super) fn end(&mut self, now: Timestamp, place: Place, is_time: bool) {
        if let Some(lead) = &mut self.lead {
            lead.end(now, place, is_time);
        }
    }

    /// Panics if something is inconsistent.
    pub(super) fn check_invariants(&self, table: &WaitTable) {
        self.queue.check_invariants(table);
        if let Some(lead) = &self.lead {
            lead.check_invariants();
        }
    }

    /// The order of its queue.
    fn order(&self, now: Timestamp) -> Order {
        match self.settings.queue.discipline {
            _ if self.queue.is_lifo(now) => Order::Lifo,
            Discipline::AdaptiveLifo => Order::FifoUntilStanding,
            Discipline::Fifo | Discipline::Lifo => Order::Fifo,
        }
    }

    /// The request the class would start next, if the class's own rate and bound let it.
    pub(super) fn candidate(
        &mut self,
        now: Timestamp,
        id: ClassId,
        table: &WaitTable,
        in_flight: &InFlight,
        scheduler: &Scheduler,
        starvation_max: Option<Duration>,
    ) -> Option<Candidate> {
        if !is_ready(now, self.egress.as_mut()) {
            return None;
        }
        let mut index = self.queue.next(now)?;
        let mut starving = false;
        if table[index].priority < TOP_PRIORITY {
            match scheduler.kind() {
                SchedulerKind::Strict => {
                    let oldest = self.queue.oldest(table)?;
                    if starvation_max.is_some_and(|span| now.since(table[oldest].arrived) >= span) {
                        index = oldest;
                        starving = true;
                    }
                }
                SchedulerKind::EarliestDeadline => index = self.queue.earliest_deadline().unwrap_or(index),
                SchedulerKind::RoundRobin | SchedulerKind::Weighted => {}
            }
        }
        let entry = &table[index];
        self.has_room(now, in_flight, id, entry.weight, entry.priority).then_some(Candidate {
            class: id,
            priority: entry.priority,
            weight: entry.weight,
            sequence: entry.sequence,
            order: if starving { Order::Fifo } else { self.order(now) },
            deadline: entry.deadline,
            starving,
            index,
        })
    }
}
