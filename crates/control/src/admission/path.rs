//! The path of a request: ingress buckets, its class's queue, the scheduler, egress buckets, room.
//!
//! [`Path`] decides; it does not know whether its decisions act. In mode `watch` its requests are
//! shadows of requests that in truth have started.

use std::time::Duration;

use super::{AdmissionSettings, ClassSettings, Rate};
use crate::{
    ClassId, Refusal, Ticket, Timestamp,
    in_flight::{InFlight, TOP_PRIORITY},
    knobs::{Mode, SchedulerKind},
    limit::Load,
    queue::{ClassQueue, Entry, Exit, Newcomer, Phase, WaitTable},
    scheduler::{Candidate, Scheduler},
    token_bucket::TokenBucket,
};

/// What the path answers to an arrival.
#[must_use]
pub(super) enum Answer {
    /// With the weight in flight just after.
    Start(u32),
    Wait(Ticket),
    Refuse(Refusal),
}

/// What the rates of admission say of an arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Charged {
    /// There were tokens, or nobody asked for any.
    Paid,
    /// One that only watches would have refused it, which is counted.
    Watched,
    /// One that acts refuses it; nothing was taken.
    Refused,
}

/// A rate of admission, and whether it acts; `None`: as what is above it.
#[derive(Clone, Debug)]
struct Ingress {
    bucket: Option<TokenBucket>,
    mode: Option<Mode>,
}

#[derive(Clone, Debug)]
struct Class {
    ingress: Ingress,
    egress: Option<TokenBucket>,
    queue: ClassQueue,
    deadline: Option<Duration>,
    in_flight_max: Option<u32>,
    share: u32,
}

#[derive(Clone, Debug)]
pub(super) struct Path {
    pub(super) in_flight: InFlight,
    table: WaitTable,
    classes: Vec<Class>,
    /// Classes of which something waits, by id.
    busy: Vec<ClassId>,
    /// The application's.
    mode: Mode,
    ingress: Ingress,
    egress: Option<TokenBucket>,
    scheduler: Scheduler,
    starvation_max: Option<Duration>,
    arrivals: u64,
    /// Whether the in-flight limit keeps something waiting, and when it ceased to.
    held: bool,
    last_held: Option<Timestamp>,
    /// What the classes offer; kept for its memory.
    candidates: Vec<Candidate>,
    /// Tickets whose verdict nobody has been told of.
    decided: Vec<Ticket>,
    /// Whether requests are shadows, and what would have been refused of them.
    shadow: bool,
    would_refuse: Vec<[u64; Refusal::ALL.len()]>,
    next_timeout: Option<Timestamp>,
}

impl Path {
    pub(super) fn new(settings: &AdmissionSettings, limit: u32, now: Timestamp) -> Self {
        let mut path = Self {
            in_flight: InFlight::new(limit, settings.classes.len()),
            table: WaitTable::new(),
            classes: Vec::new(),
            busy: Vec::new(),
            mode: settings.mode,
            ingress: Ingress { bucket: None, mode: None },
            egress: None,
            scheduler: Scheduler::new(settings.scheduler),
            starvation_max: None,
            arrivals: 0,
            held: false,
            last_held: None,
            candidates: Vec::new(),
            decided: Vec::new(),
            shadow: false,
            would_refuse: Vec::new(),
            next_timeout: None,
        };
        path.configure(now, settings);
        path
    }

    /// New knobs. The caller dispatches afterwards.
    pub(super) fn configure(&mut self, now: Timestamp, settings: &AdmissionSettings) {
        self.mode = settings.mode;
        self.ingress.configure(now, settings.ingress, settings.ingress_mode);
        for (id, class) in settings.classes.iter().enumerate() {
            match self.classes.get_mut(id) {
                Some(present) => present.configure(now, class),
                None => self.classes.push(Class::new(now, class)),
            }
        }
        self.in_flight.grow(self.classes.len());
        self.would_refuse.resize(self.classes.len(), [0; Refusal::ALL.len()]);
        if self.scheduler.kind() != settings.scheduler {
            self.scheduler = Scheduler::new(settings.scheduler);
        }
        self.scheduler.set_shares(self.classes.iter().map(|class| class.share));
        self.starvation_max = settings.starvation_max;
    }

    /// The class of that id, or the default class if there is no such class.
    pub(super) fn known(&self, class: ClassId) -> ClassId {
        debug_assert!(class.index() < self.classes.len(), "a class that was never configured: {class:?}");
        if class.index() < self.classes.len() { class } else { ClassId(0) }
    }

    /// Takes a token of each ingress bucket, or of neither: first of those that act, then of those that watch.
    pub(super) fn charge(&mut self, now: Timestamp, id: ClassId) -> Charged {
        let (all, own) = (&mut self.ingress, &mut self.classes[id.index()].ingress);
        let of_all = all.mode.unwrap_or(self.mode);
        if !take_both(now, all.in_mode(Mode::Enforce, of_all), own.in_mode(Mode::Enforce, of_all)) {
            return Charged::Refused;
        }
        if !take_both(now, all.in_mode(Mode::Watch, of_all), own.in_mode(Mode::Watch, of_all)) {
            self.count_refusal(id, Refusal::IngressRate);
            return Charged::Watched;
        }
        Charged::Paid
    }

    /// A request that the rates of admission let pass.
    pub(super) fn arrive(&mut self, now: Timestamp, exchange: &super::Exchange) -> Answer {
        let class_id = exchange.class;
        let class = &mut self.classes[class_id.index()];
        let deadline = match (exchange.deadline, class.deadline) {
            (Some(client), Some(span)) => Some(client.min(now + span)),
            (client, span) => client.or(span.map(|span| now + span)),
        };
        if deadline.is_some_and(|deadline| deadline <= now) {
            return self.turn_away(class_id, Refusal::DeadlinePassed);
        }
        let (weight, priority) = (exchange.weight, exchange.priority);
        if self.busy.is_empty()
            && self.in_flight.fits(weight, priority)
            && class.has_room(&self.in_flight, class_id, weight, priority)
            && take_both(now, self.egress.as_mut(), class.egress.as_mut())
        {
            return Answer::Start(self.take(class_id, weight));
        }
        self.queue(
            now,
            Newcomer {
                class: class_id,
                priority,
                weight,
                bytes: exchange.bytes,
                arrived: now,
                deadline,
                sequence: self.arrivals,
                shadow: self.shadow,
            },
        )
    }

    /// Refuses an arrival that was never queued.
    fn turn_away(&mut self, class: ClassId, refusal: Refusal) -> Answer {
        if self.shadow {
            self.count_refusal(class, refusal);
        }
        Answer::Refuse(refusal)
    }

    /// Queues a newcomer, starts it if it is its turn, and only then enforces the queue's bounds.
    fn queue(&mut self, now: Timestamp, newcomer: Newcomer) -> Answer {
        let Some(index) = self.table.insert(newcomer) else {
            return self.turn_away(newcomer.class, Refusal::QueueFull);
        };
        self.arrivals += 1;
        let queue = &mut self.classes[newcomer.class.index()].queue;
        let (len_max, bytes_max) =
            (queue.settings.max.max(queue.len()), queue.settings.bytes_max.max(queue.bytes()));
        if queue.len() == 0 {
            let position = self.busy.partition_point(|busy| *busy < newcomer.class);
            self.busy.insert(position, newcomer.class);
        }
        queue.push(&mut self.table, index, now);
        self.dispatch(now);
        if self.table[index].phase == Phase::Waiting
            && self.displace(now, newcomer, index, len_max, bytes_max)
        {
            self.dispatch(now);
        }
        self.arm(now);
        let answer = match self.table[index].phase {
            Phase::Waiting => {
                self.table[index].announced = !self.shadow;
                return Answer::Wait(self.table.ticket(index));
            }
            Phase::Granted { in_flight, .. } => Answer::Start(in_flight),
            Phase::Refused(refusal) => Answer::Refuse(refusal),
            Phase::Free => unreachable!("an entry is freed by its ticket's owner, and nobody has the ticket"),
        };
        self.table.remove(index);
        answer
    }

    /// Refuses whom the bounds leave no place; true if others may start now.
    fn displace(
        &mut self,
        now: Timestamp,
        newcomer: Newcomer,
        index: u32,
        len_max: usize,
        bytes_max: u64,
    ) -> bool {
        let mut displaced = false;
        loop {
            let queue = &self.classes[newcomer.class.index()].queue;
            if queue.len() <= len_max && queue.bytes() <= bytes_max {
                return displaced;
            }
            let hopeless = u64::from(newcomer.bytes) > queue.settings.bytes_max || !queue.is_lifo(now);
            let victim = if hopeless { index } else { queue.least().unwrap_or(index) };
            self.refuse(now, victim, Refusal::QueueFull);
            displaced = true;
            if victim == index {
                return displaced;
            }
        }
    }

    /// What has become of a ticket: its entry if it is not stale.
    pub(super) fn entry(&self, ticket: Ticket) -> Option<&Entry> {
        self.table.find(ticket).map(|index| &self.table[index])
    }

    /// Forgets a ticket, whatever has become of it. A grant's weight stays taken.
    pub(super) fn forget(&mut self, now: Timestamp, ticket: Ticket) {
        let Some(index) = self.table.find(ticket) else { return };
        let waited = self.table[index].phase == Phase::Waiting;
        if waited {
            self.unqueue(now, index, Exit::Gone);
        }
        self.table.remove(index);
        if waited {
            self.dispatch(now);
            self.arm(now);
        }
    }

    pub(super) fn depart(&mut self, now: Timestamp, class: ClassId, weight: u32) {
        self.in_flight.give_back(class, weight);
        self.reconsider(now);
    }

    /// Starts what may start after room or limit have changed.
    pub(super) fn reconsider(&mut self, now: Timestamp) {
        if !self.busy.is_empty() {
            self.dispatch(now);
            self.arm(now);
        }
    }

    /// Fires what is due.
    pub(super) fn advance(&mut self, now: Timestamp) {
        if self.next_timeout.is_some_and(|moment| moment <= now) {
            self.settle(now);
        }
    }

    /// Refuses what is due and starts what may start.
    pub(super) fn settle(&mut self, now: Timestamp) {
        self.expire(now);
        self.dispatch(now);
        self.arm(now);
    }

    pub(super) const fn next_timeout(&self) -> Option<Timestamp> {
        self.next_timeout
    }

    pub(super) fn drain_decided(&mut self, out: &mut Vec<Ticket>) {
        out.append(&mut self.decided);
    }

    pub(super) fn drain_would_refuse(&mut self, mut f: impl FnMut(ClassId, Refusal, u64)) {
        for (class, counts) in (0..).map(ClassId).zip(&mut self.would_refuse) {
            for (refusal, count) in Refusal::ALL.iter().zip(counts) {
                if *count > 0 {
                    f(class, *refusal, std::mem::take(count));
                }
            }
        }
    }

    /// How things stand, for the limit.
    pub(super) fn load(&mut self, now: Timestamp) -> Load<'_> {
        let rate_holds = !self.busy.is_empty() && !is_ready(now, self.egress.as_mut());
        Load {
            in_flight: self.in_flight.classes(),
            started: self.in_flight.started(),
            limit_holds: self.held,
            rate_holds,
        }
    }

    /// Whether the in-flight limit keeps something waiting.
    pub(super) const fn is_held(&self) -> bool {
        self.held
    }

    /// The rate at which requests start over all classes.
    pub(super) fn set_egress(&mut self, now: Timestamp, rate: Option<Rate>) {
        set_bucket(&mut self.egress, now, rate);
    }

    /// Whether the in-flight limit has kept something waiting since `since`.
    pub(super) fn held_since(&self, since: Timestamp) -> bool {
        self.held || self.last_held.is_some_and(|last| last >= since)
    }

    /// Whether requests that arrive from now on are shadows.
    pub(super) const fn set_shadow(&mut self, shadow: bool) {
        self.shadow = shadow;
    }

    /// Forgets every shadow; `in_flight` is what in truth is in flight.
    pub(super) fn end_shadow(&mut self, now: Timestamp, in_flight: InFlight) {
        for index in self.in_order(|entry| entry.shadow) {
            if self.table[index].phase == Phase::Waiting {
                self.unqueue(now, index, Exit::Gone);
            }
            self.table.remove(index);
        }
        let limit = self.in_flight.limit();
        self.in_flight = in_flight;
        self.in_flight.set_limit(limit);
    }

    /// Starts everything that waits, whatever the limits say.
    pub(super) fn let_all_in(&mut self, now: Timestamp) {
        for index in self.in_order(|entry| entry.phase == Phase::Waiting) {
            self.grant(now, index);
        }
        self.end_hold(now);
        self.arm(now);
    }

    /// Entries of a kind in the order of their arrival, in which they have to leave: whose turn it is at the scheduler
    /// depends on which class is emptied first.
    fn in_order(&self, kind: impl Fn(&Entry) -> bool) -> Vec<u32> {
        let entries = self.table.iter().filter(|(_, entry)| kind(entry));
        let mut entries: Vec<(u64, u32)> = entries.map(|(index, entry)| (entry.sequence, index)).collect();
        entries.sort_unstable();
        entries.into_iter().map(|(_, index)| index).collect()
    }

    /// Requests waiting, by class.
    pub(super) fn queued(&self) -> impl Iterator<Item = (ClassId, usize)> + '_ {
        (0..).map(ClassId).zip(self.classes.iter().map(|class| class.queue.len()))
    }

    /// Weight of permits that are granted and not collected, of shadows or of real requests.
    pub(super) fn uncollected(&self, shadow: bool) -> u64 {
        self.table
            .iter()
            .filter(|(_, entry)| entry.shadow == shadow && matches!(entry.phase, Phase::Granted { .. }))
            .map(|(_, entry)| u64::from(entry.weight))
            .sum()
    }

    /// Refuses what has waited as long as it may or whose deadline has passed: the earlier of the two
    /// is the reason.
    fn expire(&mut self, now: Timestamp) {
        let mut position = 0;
        while let Some(&class) = self.busy.get(position) {
            let queue = &self.classes[class.index()].queue;
            let due = match queue.wait_expires(&self.table) {
                Some((index, moment)) if moment <= now => {
                    let deadline_first = self.table[index].deadline.is_some_and(|due| due <= moment);
                    Some((index, if deadline_first { Refusal::DeadlinePassed } else { Refusal::WaitTooLong }))
                }
                _ => queue
                    .earliest_deadline()
                    .filter(|index| self.table[*index].deadline.is_some_and(|due| due <= now))
                    .map(|index| (index, Refusal::DeadlinePassed)),
            };
            match due {
                // A class that becomes empty gives its position to another.
                Some((index, refusal)) => self.refuse(now, index, refusal),
                None => position += 1,
            }
        }
    }

    /// Starts what may start, in the scheduler's order, until nothing may.
    fn dispatch(&mut self, now: Timestamp) {
        while let Some(pick) = self.pick(now) {
            let chosen = self.candidates[pick];
            let class = &mut self.classes[chosen.class.index()];
            if chosen.priority < TOP_PRIORITY {
                if class.queue.codel_drops(&self.table[chosen.index], now) {
                    self.refuse(now, chosen.index, Refusal::Codel);
                    continue;
                }
                self.scheduler.served(&self.candidates, pick);
            }
            let taken = take_both(now, self.egress.as_mut(), class.egress.as_mut());
            debug_assert!(taken, "a candidate has its tokens");
            self.grant(now, chosen.index);
        }
    }

    /// The candidate to start now; `None` if nothing may. Notes whether that is for want of room.
    fn pick(&mut self, now: Timestamp) -> Option<usize> {
        self.end_hold(now);
        if self.busy.is_empty() || !is_ready(now, self.egress.as_mut()) {
            return None;
        }
        self.candidates.clear();
        for &id in &self.busy {
            let class = &mut self.classes[id.index()];
            if let Some(candidate) =
                class.candidate(now, id, &self.table, &self.in_flight, &self.scheduler, self.starvation_max)
            {
                self.candidates.push(candidate);
            }
        }
        let top = (0..self.candidates.len())
            .filter(|position| self.candidates[*position].priority >= TOP_PRIORITY)
            .min_by_key(|position| self.candidates[*position].sequence);
        let pick = top.or_else(|| self.scheduler.pick(&self.candidates))?;
        let chosen = &self.candidates[pick];
        if !self.in_flight.fits(chosen.weight, chosen.priority) {
            self.held = true;
            return None;
        }
        Some(pick)
    }

    fn end_hold(&mut self, now: Timestamp) {
        if std::mem::take(&mut self.held) {
            self.last_held = Some(now);
        }
    }

    fn grant(&mut self, now: Timestamp, index: u32) {
        self.unqueue(now, index, Exit::Started);
        let in_flight = self.take(self.table[index].class, self.table[index].weight);
        self.table[index].phase = Phase::Granted { started: now, in_flight };
        self.announce(index);
    }

    /// Takes weight, asking nobody; answers the weight in flight just after.
    pub(super) fn take(&mut self, class: ClassId, weight: u32) -> u32 {
        self.in_flight.take(class, weight);
        whole(self.in_flight.total())
    }

    fn refuse(&mut self, now: Timestamp, index: u32, refusal: Refusal) {
        self.unqueue(now, index, Exit::Gone);
        self.table[index].phase = Phase::Refused(refusal);
        if self.table[index].shadow {
            self.count_refusal(self.table[index].class, refusal);
        }
        self.announce(index);
    }

    /// Counts what would have been refused.
    fn count_refusal(&mut self, class: ClassId, refusal: Refusal) {
        self.would_refuse[class.index()][refusal.index()] += 1;
    }

    fn announce(&mut self, index: u32) {
        if self.table[index].announced {
            self.decided.push(self.table.ticket(index));
        }
    }

    fn unqueue(&mut self, now: Timestamp, index: u32, exit: Exit) {
        let class = self.table[index].class;
        let queue = &mut self.classes[class.index()].queue;
        queue.remove(&mut self.table, index, exit, now);
        if queue.len() == 0 {
            self.busy.retain(|busy| *busy != class);
            self.scheduler.emptied(class);
        }
    }

    /// Notes when something is due next, with nothing due now.
    fn arm(&mut self, now: Timestamp) {
        self.next_timeout = None;
        if self.busy.is_empty() {
            return;
        }
        let application_ready = is_ready(now, self.egress.as_mut());
        let mut next = match &mut self.egress {
            Some(bucket) if !application_ready => bucket.next(now),
            _ => Timestamp::FAR_FUTURE,
        };
        let starvation_max = match self.scheduler.kind() {
            SchedulerKind::Strict => self.starvation_max,
            _ => None,
        };
        for id in &self.busy {
            let class = &mut self.classes[id.index()];
            if let Some((_, moment)) = class.queue.wait_expires(&self.table) {
                next = next.min(moment);
            }
            if let Some(index) = class.queue.earliest_deadline() {
                next = next.min(self.table[index].deadline.unwrap_or(next));
            }
            if let (Some(span), Some(oldest)) = (starvation_max, class.queue.oldest(&self.table)) {
                let starves = self.table[oldest].arrived + span;
                if starves > now {
                    next = next.min(starves);
                }
            }
            if let Some(moment) = class.queue.turns_at(now) {
                next = next.min(moment);
            }
            if application_ready && let Some(bucket) = &mut class.egress {
                let moment = bucket.next(now);
                if moment > now {
                    next = next.min(moment);
                }
            }
        }
        self.next_timeout = (next < Timestamp::FAR_FUTURE).then_some(next);
    }

    /// Panics if something is inconsistent, or waits that might have started at `now`.
    pub(super) fn check_invariants(&self, now: Timestamp) {
        self.in_flight.check_invariants();
        let mut waiting = 0;
        for (id, class) in (0..).map(ClassId).zip(&self.classes) {
            class.queue.check_invariants(&self.table);
            waiting += class.queue.len();
            assert_eq!(class.queue.len() > 0, self.busy.contains(&id), "busy classes are known");
            for index in class.queue.iter(&self.table) {
                assert_eq!(self.table[index].class, id, "in the queue of its class");
            }
        }
        let (mut in_phase, mut settled) = (0, 0);
        for (index, entry) in self.table.iter() {
            in_phase += usize::from(entry.phase == Phase::Waiting);
            settled += usize::from(entry.phase != Phase::Waiting);
            assert!(entry.announced || entry.shadow, "somebody holds the ticket of {index}");
        }
        assert_eq!(waiting, in_phase, "what waits is queued once");
        assert_eq!(self.table.used() as usize, in_phase + settled, "no entry is lost");
        assert!(self.next_timeout.is_none_or(|moment| moment > now), "nothing is overdue");
        let mut copy = self.clone();
        assert_eq!(copy.pick(now), None, "what may start does not wait");
    }
}

impl Ingress {
    fn configure(&mut self, now: Timestamp, rate: Option<Rate>, mode: Option<Mode>) {
        set_bucket(&mut self.bucket, now, rate);
        self.mode = mode;
    }

    /// Its bucket, if that is its mode; `above` is what holds where it has none of its own.
    fn in_mode(&mut self, mode: Mode, above: Mode) -> Option<&mut TokenBucket> {
        self.bucket.as_mut().filter(|_| self.mode.unwrap_or(above) == mode)
    }
}

impl Class {
    fn new(now: Timestamp, settings: &ClassSettings) -> Self {
        Self {
            ingress: Ingress { bucket: bucket(now, settings.ingress), mode: settings.ingress_mode },
            egress: bucket(now, settings.egress),
            queue: ClassQueue::new(settings.queue),
            deadline: settings.deadline,
            in_flight_max: settings.in_flight_max,
            share: settings.share,
        }
    }

    fn configure(&mut self, now: Timestamp, settings: &ClassSettings) {
        self.ingress.configure(now, settings.ingress, settings.ingress_mode);
        set_bucket(&mut self.egress, now, settings.egress);
        self.queue.configure(settings.queue);
        self.deadline = settings.deadline;
        self.in_flight_max = settings.in_flight_max;
        self.share = settings.share;
    }

    fn has_room(&self, in_flight: &InFlight, id: ClassId, weight: u32, priority: u8) -> bool {
        self.in_flight_max.is_none_or(|max| in_flight.fits_class(id, max, weight, priority))
    }

    /// The request the class would start next, if the class's own rate and bound let it.
    fn candidate(
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
        self.has_room(in_flight, id, entry.weight, entry.priority).then_some(Candidate {
            class: id,
            priority: entry.priority,
            weight: entry.weight,
            sequence: entry.sequence,
            deadline: entry.deadline,
            starving,
            index,
        })
    }
}

/// Weight as permits and samples carry it.
pub(super) fn whole(weight: u64) -> u32 {
    u32::try_from(weight).unwrap_or(u32::MAX)
}

fn bucket(now: Timestamp, rate: Option<Rate>) -> Option<TokenBucket> {
    rate.map(|rate| TokenBucket::new(now, rate.per_s, rate.burst))
}

fn set_bucket(present: &mut Option<TokenBucket>, now: Timestamp, rate: Option<Rate>) {
    match (rate, present) {
        (Some(rate), Some(bucket)) => bucket.configure(now, rate.per_s, rate.burst),
        (rate, present) => *present = bucket(now, rate),
    }
}

fn is_ready(now: Timestamp, bucket: Option<&mut TokenBucket>) -> bool {
    bucket.is_none_or(|bucket| bucket.is_ready(now))
}

/// Takes a token of each bucket, or of neither.
fn take_both(now: Timestamp, mut one: Option<&mut TokenBucket>, mut other: Option<&mut TokenBucket>) -> bool {
    if !is_ready(now, one.as_deref_mut()) || !is_ready(now, other.as_deref_mut()) {
        return false;
    }
    for bucket in [one, other].into_iter().flatten() {
        let taken = bucket.try_take(now);
        debug_assert!(taken, "ready means there is a token");
    }
    true
}
