//! Critical requests beside others that are kept to one at a time, with a lead and without: a worker that is free while an answer goes
//! back and the next request comes.

use std::{cmp::Reverse, collections::BinaryHeap, time::Duration};

use tidegate_control::{
    ClassId, Timestamp,
    admission::{Admission, AdmissionSettings, Arrival, Exchange, Outcome, Permit},
    knobs::{Algorithm, Scope, Values},
};
use tidegate_sim::{Draw, Random, START};

/// From the gateway to the server and back, each; what is measured on loopback.
const WAY: Duration = Duration::from_micros(150);
/// The gateway's timers fire on whole ones.
const TIMER: u64 = 1_000_000;
const SPAN: Duration = Duration::from_secs(400);
/// Critical requests a second; the server can do a hundred.
const CRITICAL_PER_S: f64 = 20.0;

const OTHERS: ClassId = ClassId(0);
const CRITICAL: ClassId = ClassId(1);

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    CriticalComes,
    AtServer(usize),
    ServerDone(usize),
    Back(usize),
}

struct Run<'w> {
    admission: Admission,
    work: &'w Draw,
    random: [Random; 2],
    events: BinaryHeap<Reverse<(Timestamp, u64, Event)>>,
    number: u64,
    now: Timestamp,
    /// Started: permit and arrival, by number.
    started: Vec<Option<(Permit, Timestamp)>>,
    free_at: Timestamp,
    others_done: u64,
    critical_ms: Vec<f64>,
}

struct Seen {
    /// What the others get of what critical requests leave.
    room: f64,
    mean_ms: f64,
    p95_ms: f64,
}

fn settings(lead: Option<Duration>) -> AdmissionSettings {
    let class = Values::defaults(Scope::Class);
    let mut settings = AdmissionSettings {
        algorithm: Algorithm::Fixed,
        ..AdmissionSettings::from_values(&Values::defaults(Scope::Application), &[&class, &class])
    };
    settings.limit.initial = 2;
    settings.classes[0].in_flight_max = Some(1);
    settings.classes[0].in_flight_lead = lead;
    settings.classes[0].queue.wait_max = None;
    settings
}

impl<'w> Run<'w> {
    fn new(work: &'w Draw, lead: Option<Duration>) -> Self {
        Self {
            admission: Admission::new(&settings(lead), START),
            work,
            random: ["others", "critical"].map(|stream| Random::new(7, stream)),
            events: BinaryHeap::new(),
            number: 0,
            now: START,
            started: Vec::new(),
            free_at: START,
            others_done: 0,
            critical_ms: Vec::new(),
        }
    }

    fn at(&mut self, moment: Timestamp, event: Event) {
        self.number += 1;
        self.events.push(Reverse((moment, self.number, event)));
    }

    fn arrive(&mut self, class: ClassId) {
        let (priority, weight) = if class == CRITICAL { (7, 2) } else { (3, 1) };
        let exchange = Exchange { class, priority, weight, deadline: None, bytes: 100 };
        match self.admission.arrive(self.now, exchange) {
            Arrival::Start(permit) => self.start(permit),
            Arrival::Wait(_) => assert_eq!(class, OTHERS, "critical requests wait for nobody"),
            Arrival::Refuse(refusal) => panic!("{refusal:?}"),
        }
    }

    fn start(&mut self, permit: Permit) {
        self.at(self.now + WAY, Event::AtServer(self.started.len()));
        self.started.push(Some((permit, self.now)));
    }

    /// Starts who was decided; of the others one comes for each, so that there is always one who waits.
    fn start_decided(&mut self) {
        let mut decided = Vec::new();
        self.admission.drain_decided(&mut decided);
        for ticket in decided {
            let Some(Ok(permit)) = self.admission.collect(self.now, ticket) else {
                panic!("nobody is refused")
            };
            self.start(permit);
            self.arrive(OTHERS);
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::CriticalComes => {
                self.arrive(CRITICAL);
                let gap = Duration::from_secs_f64(self.random[1].exponential() / CRITICAL_PER_S);
                self.at(self.now + gap, Event::CriticalComes);
            }
            Event::AtServer(id) => {
                let class = self.started[id].as_ref().expect("under way").0.class();
                let work = self.work.span(&mut self.random[class.index()]);
                self.free_at = self.free_at.max(self.now) + work;
                self.at(self.free_at, Event::ServerDone(id));
            }
            Event::ServerDone(id) => self.at(self.now + WAY, Event::Back(id)),
            Event::Back(id) => {
                let (permit, came) = self.started[id].take().expect("under way");
                match permit.class() {
                    CRITICAL => self.critical_ms.push(self.now.since(came).as_secs_f64() * 1e3),
                    _ => self.others_done += 1,
                }
                self.admission.depart(self.now, permit, Outcome::Success);
            }
        }
    }

    fn seen(mut self, beside: bool) -> Seen {
        self.at(START, Event::CriticalComes);
        if beside {
            self.arrive(OTHERS);
            self.arrive(OTHERS);
        }
        while self.now < START + SPAN {
            let Reverse((next, ..)) = self.events.peek().expect("there is always somebody to come");
            let timer = self.admission.next_timeout().map(|due| {
                let past = due.since(START).as_nanos() as u64;
                (START + Duration::from_nanos(past.next_multiple_of(TIMER))).max(self.now)
            });
            if let Some(timer) = timer.filter(|timer| timer < next) {
                self.now = timer;
                self.admission.advance(timer);
            } else if let Some(Reverse((moment, _, event))) = self.events.pop() {
                self.now = moment;
                self.happen(event);
            }
            self.start_decided();
        }
        self.admission.check_invariants();
        self.critical_ms.sort_by(f64::total_cmp);
        let critical = self.critical_ms.len();
        let capacity = SPAN.as_secs_f64() / self.work.mean();
        Seen {
            room: self.others_done as f64 / (capacity - critical as f64),
            mean_ms: self.critical_ms.iter().sum::<f64>() / critical as f64,
            p95_ms: self.critical_ms[critical * 95 / 100],
        }
    }
}

/// With no lead, 1 ms and 2 ms: what the others get, and critical requests beside them over the same ones alone, mean and 95th
/// percentile.
fn arms(work: &Draw) -> [[f64; 3]; 3] {
    let alone = Run::new(work, None).seen(false);
    [0, 1, 2].map(|ms| {
        let lead = (ms > 0).then_some(Duration::from_millis(ms));
        let beside = Run::new(work, lead).seen(true);
        let arm = [beside.room, beside.mean_ms / alone.mean_ms, beside.p95_ms / alone.p95_ms];
        println!("{work:?}, lead {ms} ms: room {:.3}, mean {:.3}, p95 {:.3}", arm[0], arm[1], arm[2]);
        arm
    })
}

/// Times of 10 ms: what is lost between one request and the next comes back, but for what comes behind a critical one, and
/// critical requests hardly ever find two before them.
#[test]
fn a_lead_fills_the_gap_between_steady_requests() {
    for work in [Draw::Constant(0.01), Draw::Uniform { low: 0.0098, high: 0.0102 }] {
        let [without, one, two] = arms(&work);
        assert!(without[0] < 0.975, "there is a gap: {without:?}");
        assert!(one[0] > without[0] + 0.01, "{one:?}");
        assert!(two[0] > 0.988, "{two:?}");
        assert!(one[1] < without[1] + 0.1 && two[1] < without[1] + 0.2, "{one:?} {two:?}");
    }
}

/// Where nothing tells when one ends, nobody starts early, or nearly so.
#[test]
fn a_lead_does_not_guess() {
    for work in [Draw::Exponential { mean: 0.01 }, Draw::LogNormal { mean: 0.01, cv: 0.5 }] {
        let [without, one, two] = arms(&work);
        for arm in [one, two] {
            assert!(arm[1] < without[1] + 0.03 && arm[2] < without[2] + 0.05, "{without:?} {arm:?}");
        }
    }
}
