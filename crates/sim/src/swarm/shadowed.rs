//! A front that does everything twice: to admission, and to its reference.

use std::{
    cell::RefCell,
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap},
    rc::Rc,
    time::Duration,
};

use tidegate_control::{
    Timestamp,
    admission::{
        AdmissionSettings, Outcome,
        grammar::{Driver, Event, Op, View},
        reference::Reference,
    },
    knobs::Algorithm,
};

use super::{Trail, chaos};
use crate::{Done, End, Front, Random, Request, Verdict, scenario::START};

/// Something the gateway around admission does by itself, at a time of its own.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Chore {
    /// Asks for the verdict of a request that was decided.
    Collect(u64),
    /// Gives a permit back.
    GiveBack(u64, Ending),
    /// A long stream is over.
    EndStream,
    /// Knobs change.
    Configure,
    /// The clock stands still.
    Freeze,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Ending {
    Success,
    Ignore,
    Drop,
}

/// How reliable what is around admission is in this world.
#[derive(Debug)]
struct Habits {
    /// How late timers may fire.
    timers_late: Duration,
    /// How late verdicts may be collected.
    collects_late: Duration,
    /// Share of permits that come back late, and how late.
    returns_late: (f64, Duration),
    /// Share of exchanges that become long streams.
    streams: f64,
    /// Share of requests with a deadline of their own.
    deadlines: f64,
    configures_every: Option<Duration>,
    freezes_every: Option<Duration>,
}

pub(super) struct Shadowed {
    /// Taken by `finish`.
    driver: Driver,
    reference: Reference,
    random: Random,
    habits: Habits,
    trail: Rc<RefCell<Trail>>,
    settings: AdmissionSettings,
    /// Classes there have ever been.
    classes: usize,
    /// Admission's time, which stands still now and then.
    clock: Timestamp,
    frozen_until: Timestamp,
    /// Ids in the order of the driver's lists.
    permits: Vec<u64>,
    waiting: Vec<u64>,
    /// Ids by the number of their beginning to wait.
    numbers: BTreeMap<u64, u64>,
    waited: u64,
    chores: BinaryHeap<Reverse<(Timestamp, u64, Chore)>>,
    chores_noted: u64,
    /// Admission's next time, as its timer has it.
    timer: Option<Timestamp>,
    decided: Vec<(u64, Verdict)>,
}

impl Shadowed {
    pub(super) fn new(seed: u64, settings: &AdmissionSettings, trail: Rc<RefCell<Trail>>) -> Self {
        let mut random = Random::new(seed, "shadowed");
        let millis = Duration::from_millis;
        let habits = Habits {
            timers_late: random.pick(&[Duration::ZERO, Duration::ZERO, millis(1), millis(50)]),
            collects_late: random.pick(&[Duration::ZERO, Duration::ZERO, millis(3)]),
            returns_late: random.pick(&[(0.0, Duration::ZERO), (0.1, millis(100)), (1.0, millis(5))]),
            streams: random.pick(&[0.0, 0.02]),
            deadlines: random.pick(&[0.0, 0.3]),
            configures_every: random.pick(&[None, Some(millis(50)), Some(millis(400))]),
            freezes_every: random.pick(&[None, None, Some(millis(200))]),
        };
        trail.borrow_mut().note(format!("{settings:?}\n{habits:?}"));
        let mut shadowed = Self {
            driver: Driver::new(settings, START),
            reference: Reference::new(settings, START),
            random,
            habits,
            trail,
            settings: settings.clone(),
            classes: settings.classes.len(),
            clock: START,
            frozen_until: START,
            permits: Vec::new(),
            waiting: Vec::new(),
            numbers: BTreeMap::new(),
            waited: 0,
            chores: BinaryHeap::new(),
            chores_noted: 0,
            timer: None,
            decided: Vec::new(),
        };
        shadowed.again(START, shadowed.habits.configures_every, Chore::Configure);
        shadowed.again(START, shadowed.habits.freezes_every, Chore::Freeze);
        shadowed
    }

    /// Everybody goes home.
    pub(super) fn finish(self) {
        self.trail
            .borrow_mut()
            .note("the end: every exchange ends, everybody is served or refused".to_owned());
        self.driver.finish();
    }

    /// Does an operation to both, and holds one against the other.
    fn apply(&mut self, op: &Op) -> Event {
        self.trail.borrow_mut().note(format!("{} {op:?}", self.clock.since(START).as_secs_f64()));
        let (event, view) = self.driver.apply(op);
        let expected = self.reference.apply(op);
        assert!(
            (event, &view) == (expected.0, &expected.1),
            "admission: {event:?} {view:?}\nreference: {:?} {:?}",
            expected.0,
            expected.1
        );
        self.within_bounds(&view);
        for number in &view.decided {
            let late = self.random.below(nanos(self.habits.collects_late) + 1);
            if let Some(id) = self.numbers.get(number) {
                self.chore(self.clock + Duration::from_nanos(late), Chore::Collect(*id));
            }
        }
        let late = Duration::from_nanos(self.random.below(nanos(self.habits.timers_late) + 1));
        self.timer = view.next_timeout.map(|moment| moment + late);
        event
    }

    /// What limits promise whatever their algorithm.
    fn within_bounds(&self, view: &View) {
        let bounds = self.settings.limit;
        let sound = match self.settings.algorithm {
            Algorithm::Fixed => view.limit == bounds.initial.max(1),
            _ => (bounds.min..=bounds.max.max(bounds.min)).contains(&view.limit),
        };
        assert!(sound, "the limit {} is outside {bounds:?}", view.limit);
    }

    /// Admission's time goes on to `now`, unless it stands still.
    fn pass(&mut self, now: Timestamp) {
        if now >= self.frozen_until && now > self.clock {
            let span = now.since(self.clock);
            self.clock = now;
            self.apply(&Op::Advance(span));
        }
    }

    fn chore(&mut self, at: Timestamp, chore: Chore) {
        self.chores_noted += 1;
        self.chores.push(Reverse((at, self.chores_noted, chore)));
    }

    /// Notes a chore that comes again and again.
    fn again(&mut self, now: Timestamp, every: Option<Duration>, chore: Chore) {
        if let Some(every) = every {
            let after = every.mul_f64(self.random.exponential());
            self.chore(now + after, chore);
        }
    }

    fn perform(&mut self, now: Timestamp, chore: Chore) {
        match chore {
            Chore::Collect(id) => {
                let Some(position) = self.waiting.iter().position(|other| *other == id) else { return };
                match self.apply(&Op::Collect(position)) {
                    Event::Started(_) => {
                        self.waiting.swap_remove(position);
                        self.permits.push(id);
                        self.decided.push((id, Verdict::Start));
                    }
                    Event::Refused(refusal) => {
                        self.waiting.swap_remove(position);
                        self.decided.push((id, Verdict::Refuse(refusal.name())));
                    }
                    other => panic!("a decided request is told {other:?}"),
                }
            }
            Chore::GiveBack(id, ending) => {
                let Some(position) = self.permits.iter().position(|other| *other == id) else { return };
                let outcome = match ending {
                    Ending::Success => Outcome::Success,
                    Ending::Ignore => Outcome::Ignore,
                    Ending::Drop => Outcome::Drop,
                };
                self.permits.swap_remove(position);
                self.apply(&Op::Depart(position, outcome));
            }
            Chore::EndStream => {
                self.apply(&Op::EndStream);
            }
            Chore::Configure => {
                self.settings = chaos::settings(&mut self.random);
                self.classes = self.classes.max(self.settings.classes.len());
                self.apply(&Op::Configure(Box::new(self.settings.clone())));
                self.again(now, self.habits.configures_every, Chore::Configure);
            }
            Chore::Freeze => {
                self.frozen_until = now + Duration::from_micros(self.random.below(80_000));
                self.again(now, self.habits.freezes_every, Chore::Freeze);
            }
        }
    }

    /// The exchange becomes a long stream, if there is room for one.
    fn stream(&mut self, id: u64) {
        let Some(position) = self.permits.iter().position(|other| *other == id) else { return };
        self.permits.swap_remove(position);
        // What goes on and on is no sample; what its client keeps waiting is.
        let outcome = if id.is_multiple_of(2) { Outcome::Ignore } else { Outcome::Success };
        if self.apply(&Op::Stream(position, outcome)) == Event::Streams {
            let after = Duration::from_micros(self.random.below(400_000));
            self.chore(self.clock + after, Chore::EndStream);
        } else {
            // Its permit came back to the end of the list.
            self.permits.push(id);
        }
    }
}

impl Front for Shadowed {
    fn arrive(&mut self, now: Timestamp, request: &Request) -> Verdict {
        self.pass(now);
        let random = &mut self.random;
        let deadline =
            random.chance(self.habits.deadlines).then(|| Duration::from_micros(random.below(60_000)));
        let op = Op::Arrive {
            again: false,
            class: u16::try_from(random.below(self.classes as u64)).unwrap_or(0),
            priority: random.pick(&[0, 3, 3, 3, 5, 7]),
            weight: random.pick(&[1, 1, 1, 2, 3, 20]),
            deadline,
            bytes: u32::try_from(random.below(255)).unwrap_or(0),
        };
        match self.apply(&op) {
            Event::Started(_) => {
                self.permits.push(request.id);
                Verdict::Start
            }
            Event::Waits => {
                self.waiting.push(request.id);
                self.numbers.insert(self.waited, request.id);
                self.waited += 1;
                Verdict::Wait
            }
            Event::Refused(refusal) => Verdict::Refuse(refusal.name()),
            other => panic!("an arrival is answered {other:?}"),
        }
    }

    fn leave(&mut self, now: Timestamp, request: &Request) {
        self.pass(now);
        let Some(position) = self.waiting.iter().position(|id| *id == request.id) else { return };
        self.waiting.swap_remove(position);
        if let Event::Started(_) = self.apply(&Op::Leave(position)) {
            self.permits.push(request.id);
            self.chore(now, Chore::GiveBack(request.id, Ending::Ignore));
        }
    }

    fn abandoned(&mut self, now: Timestamp, request: &Request) {
        self.pass(now);
        if let Some(position) = self.permits.iter().position(|id| *id == request.id) {
            self.apply(&Op::Abandon(position));
        }
    }

    fn begun(&mut self, now: Timestamp, request: &Request, _queued: Duration) {
        if self.random.chance(self.habits.streams) {
            self.pass(now);
            self.stream(request.id);
        }
    }

    fn depart(&mut self, now: Timestamp, request: &Request, done: &Done) {
        self.pass(now);
        let ending = match done.end {
            End::Success => Ending::Success,
            End::Error => Ending::Ignore,
            End::ServerRefused => Ending::Drop,
        };
        let (share, latest) = self.habits.returns_late;
        let late = if self.random.chance(share) { self.random.below(nanos(latest)) } else { 0 };
        self.chore(now + Duration::from_nanos(late), Chore::GiveBack(request.id, ending));
        self.due(now);
    }

    fn decided(&mut self, out: &mut Vec<(u64, Verdict)>) {
        self.due(self.clock);
        out.append(&mut self.decided);
    }

    fn next_timeout(&self) -> Option<Timestamp> {
        let chore = self.chores.peek().map(|Reverse((at, ..))| *at);
        let timer = self.timer.map(|moment| moment.max(self.frozen_until));
        [chore, timer].into_iter().flatten().min()
    }

    fn advance(&mut self, now: Timestamp) {
        self.pass(now);
        if self.timer.is_some_and(|moment| moment <= self.clock) {
            // Due at the moment that is already.
            self.apply(&Op::Advance(Duration::ZERO));
        }
        self.due(now);
    }
}

impl Shadowed {
    /// Does the chores that are due.
    fn due(&mut self, now: Timestamp) {
        while self.chores.peek().is_some_and(|Reverse((at, ..))| *at <= now) {
            if let Some(Reverse((.., chore))) = self.chores.pop() {
                self.perform(now, chore);
            }
        }
    }
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}
