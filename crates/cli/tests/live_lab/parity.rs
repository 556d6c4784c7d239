//! One scenario in the simulator and through the real gateway: the same decisions in sequence.
//!
//! One request at a time at the origin, one that waits, others refused; the origin pauses 600 ms without work. No
//! two events lie closer than 150 ms. A round in which this machine sent a request later than a third of that
//! was not this scenario and is run again.

use std::{
    thread,
    time::{Duration, Instant},
};

use tidegate_control::{ClassId, Timestamp};
use tidegate_load::origin::{Origin, Settings};
use tidegate_sim::{
    Application, Arrivals, Behaviour, Class, Clients, Done, Draw, Front, Gateway as Simulated, Levels,
    Population, Request, START, Scenario, Server, ServerView, Verdict,
};

use super::support::{Gateway, Start, client::get, free_address};

const SERVICE: Duration = Duration::from_millis(600);
const ARRIVALS_MS: [u64; 10] = [0, 150, 300, 750, 900, 1500, 1650, 2700, 2850, 3000];
const LATE: Duration = Duration::from_millis(50);
/// When those served are done.
const DONE_MS: [u64; 6] = [600, 1200, 1800, 2400, 3300, 3900];
const ROUNDS: usize = 5;

/// What became of a request, and in which order the served ones were done.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Decision {
    Served { place: usize },
    Refused,
}

#[test]
fn simulator_and_gateway_decide_the_same_in_sequence() {
    let simulated = simulated();
    assert_eq!(
        simulated.iter().filter(|decision| **decision == Decision::Refused).count(),
        4,
        "{simulated:?}"
    );
    let mut live = Vec::new();
    for _ in 0..ROUNDS {
        let (decisions, in_time) = through_the_gateway();
        live = decisions;
        if in_time {
            break;
        }
        eprintln!("requests were sent or served late: the scenario is run again");
    }
    assert_eq!(live, simulated);
}

fn through_the_gateway() -> (Vec<Decision>, bool) {
    let origin = Origin::start(&Settings::default()).expect("start the origin");
    let listen = free_address();
    let configuration = format!(
        "admin = \"none\"\n[[listener]]\naddress = \"{listen}\"\n[application.app]\nservers = [\"{}\"]\n\
         in_flight.algorithm = \"fixed\"\nin_flight.limit = 1\n[application.app.class.default]\nqueue.max = 1\n\
         queue.wait.max = \"none\"\nqueue.discipline = \"fifo\"\n",
        origin.url()
    );
    let gateway = Gateway::run(&configuration, &Start::default());
    let path = format!("/slow?ms={}", SERVICE.as_millis());
    let begin = Instant::now() + Duration::from_millis(100);
    let asking: Vec<_> = ARRIVALS_MS
        .iter()
        .map(|at| {
            let (at, path) = (begin + Duration::from_millis(*at), path.clone());
            thread::spawn(move || {
                thread::sleep(at.saturating_duration_since(Instant::now()));
                let late = at.elapsed();
                let response = get(listen, &path).expect("an answer");
                (response.status, Instant::now(), late)
            })
        })
        .collect();
    let answers: Vec<_> = asking.into_iter().map(|asked| asked.join().expect("an answer")).collect();
    gateway.stop_sound();
    let mut done: Vec<Instant> =
        answers.iter().filter(|(status, ..)| *status == 200).map(|(_, at, _)| *at).collect();
    done.sort_unstable();
    let decisions = answers.iter().map(|(status, at, _)| match status {
        200 => Decision::Served { place: done.iter().position(|other| other == at).expect("it is there") },
        503 => Decision::Refused,
        other => panic!("neither served nor refused: {other}"),
    });
    let is_late = |(at, end): (&Instant, &u64)| {
        at.saturating_duration_since(begin + Duration::from_millis(*end)) >= LATE
    };
    let in_time = answers.iter().all(|(_, _, late)| *late < LATE) && !done.iter().zip(&DONE_MS).any(is_late);
    (decisions.collect(), in_time)
}

fn simulated() -> Vec<Decision> {
    let trace = ARRIVALS_MS.iter().map(|at| (Duration::from_millis(*at), ClassId(0))).collect();
    let application = Application {
        classes: vec![Class { work: Draw::Constant(SERVICE.as_secs_f64()), ..Class::default() }],
        server: Server::default(),
        clients: vec![Clients {
            name: "clients".to_owned(),
            population: Population::Open {
                arrivals: Arrivals::Trace(trace),
                mix: vec![(ClassId(0), 1.0)],
                clients: 1,
            },
            behaviour: Behaviour::default(),
        }],
        ..Application::default()
    };
    let mut front = Recorder::new(Simulated::of(&application));
    let name = application.name.clone();
    for (path, value) in [
        ("in_flight.algorithm", "fixed"),
        ("in_flight.limit", "1"),
        ("default/queue.max", "1"),
        ("default/queue.wait.max", "none"),
        ("default/queue.discipline", "fifo"),
    ] {
        front.gateway.set(&format!("{name}/{path}"), value).expect("a knob");
    }
    let scenario = Scenario {
        duration: Duration::from_secs(10),
        applications: vec![application],
        ..Scenario::default()
    };
    let _ = tidegate_sim::run(&scenario, &mut front);
    front.decisions()
}

/// The simulator's gateway, and what it decided.
struct Recorder {
    gateway: Simulated,
    /// Ids in the order of arrival.
    arrived: Vec<u64>,
    refused: Vec<u64>,
    /// Ids in the order in which the server was done.
    done: Vec<u64>,
}

impl Recorder {
    fn new(gateway: Simulated) -> Self {
        Self { gateway, arrived: Vec::new(), refused: Vec::new(), done: Vec::new() }
    }

    fn decisions(&self) -> Vec<Decision> {
        let decision = |id: &u64| match self.done.iter().position(|done| done == id) {
            Some(place) => Decision::Served { place },
            None => {
                assert!(self.refused.contains(id), "{id} was neither served nor refused");
                Decision::Refused
            }
        };
        self.arrived.iter().map(decision).collect()
    }
}

impl Front for Recorder {
    fn arrive(&mut self, now: Timestamp, request: &Request) -> Verdict {
        assert!(now >= START);
        self.arrived.push(request.id);
        let verdict = self.gateway.arrive(now, request);
        if let Verdict::Refuse(_) = verdict {
            self.refused.push(request.id);
        }
        verdict
    }

    fn leave(&mut self, now: Timestamp, request: &Request) {
        self.gateway.leave(now, request);
    }

    fn abandoned(&mut self, now: Timestamp, request: &Request) {
        self.gateway.abandoned(now, request);
    }

    fn begun(&mut self, now: Timestamp, request: &Request, queued: Duration) {
        self.gateway.begun(now, request, queued);
    }

    fn depart(&mut self, now: Timestamp, request: &Request, done: &Done) {
        self.done.push(request.id);
        self.gateway.depart(now, request, done);
    }

    fn decided(&mut self, out: &mut Vec<(u64, Verdict)>) {
        let before = out.len();
        self.gateway.decided(out);
        let refused = out[before..].iter().filter(|(_, verdict)| matches!(verdict, Verdict::Refuse(_)));
        self.refused.extend(refused.map(|(id, _)| *id));
    }

    fn next_timeout(&self) -> Option<Timestamp> {
        self.gateway.next_timeout()
    }

    fn advance(&mut self, now: Timestamp) {
        self.gateway.advance(now);
    }

    fn tick(&mut self, now: Timestamp, server: &ServerView) {
        self.gateway.tick(now, server);
    }

    fn levels(&self) -> Levels {
        self.gateway.levels()
    }
}
