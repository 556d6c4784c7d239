//! Standard servers: the models before which limits and estimates of capacity are compared.
//!
//! They differ in what makes a knee hard to find: one worker or forty, first come first served or processor sharing,
//! even or heavy-tailed work, threads that wait for I/O, pauses, collapse by context switches, and two classes of cost 1:10 whose mix
//! turns over every ten seconds.

use std::time::Duration;

use tidegate_control::{ClassId, Timestamp, limit::Limiter};

use crate::{
    Application, Arrivals, Behaviour, Change, Class, Clients, Database, Draw, Fault, Front, Gateway, Host,
    Levels, Population, Request, Row, RunResult, START, Scenario, Server, ServerView, Switching, Trouble,
    Verdict, front::Done, run,
};

/// How often an estimate is written down.
const TICK: Duration = Duration::from_millis(100);
/// Time from one mix to the next, of servers with two classes.
const FLIP: Duration = Duration::from_secs(10);
/// Shares of the two classes before and after a flip.
const MIXES: [[f64; 2]; 2] = [[0.8, 0.2], [0.2, 0.8]];

/// A server with a name, and what it can do at most.
#[derive(Clone, Debug, PartialEq)]
pub struct StandardServer {
    /// Its short name.
    pub name: &'static str,
    /// What it is, in words.
    pub what: &'static str,
    processors: u16,
    classes: Vec<Class>,
    server: Server,
    /// Processor seconds of work a second that come out at most.
    work_per_s: f64,
    /// Pauses: each so long after the last, for so long.
    pause: Option<(Duration, Duration)>,
}

/// How a front did before a server.
#[derive(Clone, Debug, PartialEq)]
pub struct Score {
    /// Work of good replies, as a share of the most possible.
    pub goodput: f64,
    /// 95th percentile of the time in flight, over that of the server alone.
    pub service_p95: f64,
    /// Seconds until the estimate of the capacity stays within 5 % (for 90 % of three seconds); `None`: never, or none is made.
    pub within_5_s: Option<f64>,
    /// The same for 10 %.
    pub within_10_s: Option<f64>,
    /// Mean error of the estimate in the last half of the run.
    pub error: Option<f64>,
    /// The run itself.
    pub result: RunResult,
}

/// How soon a change of the server's speed was followed, in seconds after it; `None`: not before the next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Followed {
    /// Until the estimate of the capacity stays within 10 % (for 90 % of three seconds).
    pub within_10_s: Option<f64>,
    /// Until three seconds have at least 90 % of the goodput that is possible.
    pub goodput_s: Option<f64>,
}

impl StandardServer {
    /// All of them.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let ms = |ms: f64| ms / 1e3;
        let exponential = |mean| Draw::Exponential { mean };
        // A squared coefficient of variation of 4.
        let lognormal = |mean| Draw::LogNormal { mean, cv: 2.0 };
        // Mean 40 ms: shape / (shape − 1) · (min − min·h^−½) / (1 − h^−1.5), h = 300.
        let tail_min = 0.040 / (3.0 * (1.0 - 300_f64.powf(-0.5)) / (1.0 - 300_f64.powf(-1.5)));
        let tail = Draw::Pareto { shape: 1.5, min: tail_min, max: tail_min * 300.0 };
        let io = |wait: Draw| Some(wait);
        let one = |work: Draw, database: Option<Draw>| {
            vec![Class { work, database, good_within: Duration::from_secs(2), ..Class::default() }]
        };
        let two = |database: Option<Draw>| -> Vec<Class> {
            [("light", 3.0), ("heavy", 30.0)]
                .into_iter()
                .map(|(name, mean)| Class {
                    name: name.to_owned(),
                    work: exponential(ms(mean)),
                    database: database.clone(),
                    good_within: Duration::from_secs(2),
                    ..Class::default()
                })
                .collect()
        };
        let threads = |threads| Server { threads: Some(threads), ..Server::default() };
        let switches = |warm| Switching {
            quantum: Duration::from_millis(1),
            switch: Duration::ZERO,
            refill: Duration::from_millis(2),
            warm,
        };
        let plain = |name, what, processors: u16, classes, server| Self {
            name,
            what,
            processors,
            classes,
            server,
            work_per_s: f64::from(processors),
            pause: None,
        };
        vec![
            plain("det1", "one worker, even work", 1, one(Draw::Constant(ms(10.0)), None), threads(1)),
            plain("exp1", "one worker, exponential work", 1, one(exponential(ms(10.0)), None), threads(1)),
            plain("ps4", "4 processors shared", 4, one(exponential(ms(10.0)), None), Server::default()),
            plain("ln4", "4 workers, lognormal work", 4, one(lognormal(ms(10.0)), None), threads(4)),
            plain("ps40", "40 processors shared", 40, one(exponential(ms(40.0)), None), Server::default()),
            plain("tail40", "40 workers, Pareto work", 40, one(tail, None), threads(40)),
            Self {
                // Eight threads that wait 50 ms and work 10 ms: they, not the processors, are the bound.
                work_per_s: 8.0 / 6.0,
                ..plain(
                    "tp8io",
                    "8 threads that wait for I/O",
                    4,
                    one(exponential(ms(10.0)), io(Draw::Constant(ms(50.0)))),
                    threads(8),
                )
            },
            plain(
                "tp200io",
                "4 processors, 200 threads that wait for I/O",
                4,
                one(exponential(ms(10.0)), io(exponential(ms(50.0)))),
                threads(200),
            ),
            plain(
                "io1ln",
                "one processor, lognormal work, I/O",
                1,
                one(lognormal(ms(5.0)), io(exponential(ms(50.0)))),
                Server::default(),
            ),
            Self {
                work_per_s: 4.0 * 0.96,
                pause: Some((Duration::from_secs(5), Duration::from_millis(200))),
                ..plain(
                    "gc4",
                    "pauses of 0.2 s every 5 s",
                    4,
                    one(exponential(ms(10.0)), None),
                    Server::default(),
                )
            },
            plain(
                "cs4",
                "collapse by context switches over 12 threads",
                4,
                one(exponential(ms(10.0)), None),
                Server { switching: Some(switches(12)), ..Server::default() },
            ),
            plain(
                "cs4io",
                "I/O, and collapse over 48 threads",
                4,
                one(exponential(ms(10.0)), io(exponential(ms(50.0)))),
                Server { switching: Some(switches(48)), ..threads(200) },
            ),
            plain("mix4", "two classes 1:10, the mix flips", 4, two(None), Server::default()),
            plain("mix4io", "the same with I/O", 4, two(io(exponential(ms(50.0)))), Server::default()),
        ]
    }

    /// The one of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::all().into_iter().find(|server| server.name == name)
    }

    /// The same server, faster or slower: whatever it works and waits for takes so much longer or shorter that it
    /// can serve `per_s` requests a second of the first mix. Pauses stay as they are.
    #[must_use]
    pub fn at_capacity(&self, per_s: f64) -> Self {
        let factor = self.capacity(Duration::ZERO) / per_s;
        let mut server = self.clone();
        for class in &mut server.classes {
            class.work = class.work.times(factor);
            class.database = class.database.as_ref().map(|wait| wait.times(factor));
        }
        if let Some(switching) = &mut server.server.switching {
            for span in [&mut switching.quantum, &mut switching.switch, &mut switching.refill] {
                *span = span.mul_f64(factor);
            }
        }
        server
    }

    /// Processors it runs on.
    #[must_use]
    pub const fn processors(&self) -> u16 {
        self.processors
    }

    /// Processor seconds of work a second that come out at most.
    #[must_use]
    pub const fn work_per_s(&self) -> f64 {
        self.work_per_s
    }

    /// Its classes; their first mix is the one by which its capacity is counted.
    #[must_use]
    pub fn classes(&self) -> &[Class] {
        &self.classes
    }

    /// What serves in a run of this length, pauses among its faults.
    #[must_use]
    pub fn server(&self, duration: Duration) -> Server {
        let mut server = self.server.clone();
        if let Some((every, lasts)) = self.pause {
            server.faults = (1_u32..)
                .map(|n| every * n)
                .take_while(|at| *at < duration)
                .map(|at| Fault { at, lasts, what: Trouble::Stall })
                .collect();
        }
        // Connections enough that I/O is a wait and no bound.
        server.database = self.classes[0].database.is_some().then_some(Database {
            connections: 100_000,
            processors: 1_000,
            switching: None,
        });
        server
    }

    /// Requests a second it can serve at most, at a moment of the run.
    #[must_use]
    pub fn capacity(&self, at: Duration) -> f64 {
        self.work_per_s / self.mean_work(self.mix(at))
    }

    /// A run at `load` times the capacity, of the first mix's and the second's in turn.
    #[must_use]
    pub fn scenario(&self, seed: u64, load: f64, duration: Duration) -> Scenario {
        let clients = if self.classes.len() == 1 {
            vec![self.open(Arrivals::Poisson { per_s: load * self.capacity(Duration::ZERO) }, &[1.0])]
        } else {
            // Each mix in its ten seconds of twenty.
            [0_u32, 1]
                .into_iter()
                .map(|index| {
                    let rate = load * self.capacity(FLIP * index);
                    let phases = match index {
                        0 => vec![(FLIP, rate), (FLIP, 0.0)],
                        _ => vec![(FLIP, 0.0), (FLIP, rate)],
                    };
                    let arrivals = Arrivals::Schedule { phases, repeat: true, poisson: true };
                    self.open(arrivals, &MIXES[index as usize])
                })
                .collect()
        };
        Scenario {
            seed,
            duration,
            warm_up: duration / 4,
            tick: TICK,
            host: Host { processors: self.processors, ..Host::default() },
            applications: vec![Application {
                classes: self.classes.clone(),
                server: self.server(duration),
                clients,
                ..Application::default()
            }],
        }
    }

    /// Runs Tidegate with this algorithm for the in-flight limit, and otherwise its defaults, before the server at `load` times
    /// its capacity, from a cold start.
    ///
    /// # Panics
    ///
    /// If there is no such algorithm.
    #[must_use]
    pub fn score(&self, algorithm: &str, seed: u64, load: f64, duration: Duration) -> Score {
        let (result, errors) = self.observe(algorithm, &self.scenario(seed, load, duration), &|_| 1.0);
        let late: Vec<f64> =
            errors[errors.len() / 2..].iter().flatten().map(|error: &f64| error.abs()).collect();
        let total: f64 = self.good_work(&result);
        Score {
            goodput: total / (self.work_per_s * load.min(1.0) * result.measured.as_secs_f64()),
            service_p95: self.service_p95(&result) / self.alone(seed),
            within_5_s: settled(&errors, 0.05),
            within_10_s: settled(&errors, 0.10),
            error: (!late.is_empty()).then(|| mean(&late)),
            result,
        }
    }

    /// Runs it at twice the capacity, cold, and lets all of it, the waits for I/O too, fall to half its speed after 33 s and
    /// rise again after 63, to the end at 93 s: how soon each was followed.
    ///
    /// # Panics
    ///
    /// If there is no such algorithm.
    #[must_use]
    pub fn follow(&self, algorithm: &str, seed: u64) -> [Followed; 2] {
        let [fall, rise, end] = [33, 63, 93].map(Duration::from_secs);
        let speed = |at: Duration| if (fall..rise).contains(&at) { 0.5 } else { 1.0 };
        let mut scenario = self.scenario(seed, 2.0, end);
        scenario.host.speed = [fall, rise].map(|at| Change { at, to: speed(at) }).into();
        let (result, errors) = self.observe(algorithm, &scenario, &speed);
        [(fall, rise), (rise, end)].map(|(from, to)| {
            let here = |row: &Row| row.at > from && row.at <= to;
            let rows = || result.series.iter().zip(&errors).filter(|(row, _)| here(row));
            let errors: Vec<_> = rows().map(|(_, error)| *error).collect();
            let good: Vec<_> = rows().map(|(row, _)| self.good_share(row, speed(from))).collect();
            let held = good.windows(30).position(|window| mean(window) >= 0.9);
            Followed {
                within_10_s: settled(&errors, 0.10),
                goodput_s: held.map(|rows| count(rows as u64) / 10.0),
            }
        })
    }

    /// A run before the server, and by how much the estimate was wrong in each of its rows; `speed`: how fast it is.
    fn observe(
        &self,
        algorithm: &str,
        scenario: &Scenario,
        speed: &dyn Fn(Duration) -> f64,
    ) -> (RunResult, Vec<Option<f64>>) {
        let mut gateway = Gateway::of(&scenario.applications[0]);
        gateway
            .set("shop/in_flight.algorithm", algorithm)
            .unwrap_or_else(|error| panic!("algorithm {algorithm}: {error}"));
        let mut front = Observed { gateway, server: self, estimates: Vec::new() };
        let result = run(scenario, &mut front);
        let errors = front
            .estimates
            .iter()
            .zip(&result.series)
            .map(|(estimate, row)| {
                let middle = row.at.saturating_sub(row.length / 2);
                estimate.map(|estimate| estimate / (self.capacity(middle) * speed(middle)) - 1.0)
            })
            .collect();
        (result, errors)
    }

    /// Work of a row's good replies, as a share of the most possible at that speed.
    fn good_share(&self, row: &Row, speed: f64) -> f64 {
        let work: f64 = row
            .classes
            .iter()
            .zip(&self.classes)
            .map(|(tick, class)| count(tick.good) * class.work.mean())
            .sum();
        work / (self.work_per_s * speed * row.length.as_secs_f64())
    }

    fn good_work(&self, result: &RunResult) -> f64 {
        result
            .classes
            .iter()
            .zip(&self.classes)
            .map(|(counts, class)| count(counts.good) * class.work.mean())
            .sum()
    }

    fn service_p95(&self, result: &RunResult) -> f64 {
        result.total().service.quantile(0.95).map_or(f64::NAN, |time| time.as_secs_f64())
    }

    /// 95th percentile of the service time with next to no load.
    fn alone(&self, seed: u64) -> f64 {
        let scenario = self.scenario(seed, 0.02, Duration::from_secs(120));
        let result = run(&scenario, &mut crate::Direct);
        self.service_p95(&result)
    }

    fn mix(&self, at: Duration) -> &'static [f64] {
        if self.classes.len() == 1 {
            &[1.0]
        } else {
            &MIXES[usize::from(at.as_secs() / FLIP.as_secs() % 2 == 1)]
        }
    }

    fn mean_work(&self, mix: &[f64]) -> f64 {
        mix.iter().zip(&self.classes).map(|(share, class)| share * class.work.mean()).sum()
    }

    fn open(&self, arrivals: Arrivals, mix: &[f64]) -> Clients {
        let mix = (0..).map(ClassId).zip(mix.iter().copied()).collect();
        Clients {
            name: "everybody".to_owned(),
            population: Population::Open { arrivals, mix, clients: 1000 },
            behaviour: Behaviour::default(),
        }
    }
}

/// A gateway whose estimate of the capacity is written down each tick.
#[derive(Debug)]
struct Observed<'a> {
    gateway: Gateway,
    server: &'a StandardServer,
    /// Requests a second of the mix of that moment.
    estimates: Vec<Option<f64>>,
}

impl Front for Observed<'_> {
    fn arrive(&mut self, now: Timestamp, request: &Request) -> Verdict {
        self.gateway.arrive(now, request)
    }

    fn leave(&mut self, now: Timestamp, request: &Request) {
        self.gateway.leave(now, request);
    }

    fn abandoned(&mut self, now: Timestamp, request: &Request) {
        self.gateway.abandoned(now, request);
    }

    fn depart(&mut self, now: Timestamp, request: &Request, done: &Done) {
        self.gateway.depart(now, request, done);
    }

    fn decided(&mut self, out: &mut Vec<(u64, Verdict)>) {
        self.gateway.decided(out);
    }

    fn next_timeout(&self) -> Option<Timestamp> {
        self.gateway.next_timeout()
    }

    fn advance(&mut self, now: Timestamp) {
        self.gateway.advance(now);
    }

    fn tick(&mut self, now: Timestamp, server: &ServerView) {
        self.gateway.tick(now, server);
        // The tick ends the tenth of a second before.
        let middle = now.since(START).saturating_sub(TICK / 2);
        self.estimates.push(match self.gateway.admission().limiter() {
            Limiter::KneeTrack(knee) => knee.capacity_for(self.server.mix(middle)),
            limiter => limiter.capacity(),
        });
    }

    fn levels(&self) -> Levels {
        self.gateway.levels()
    }
}

/// Seconds until 90 % of the next three seconds are within `band`; rows are of 0.1 s.
fn settled(errors: &[Option<f64>], band: f64) -> Option<f64> {
    let within: Vec<bool> =
        errors.iter().map(|error| error.is_some_and(|error| error.abs() <= band)).collect();
    let first = within
        .windows(30)
        .position(|window| window[0] && window.iter().filter(|within| **within).count() >= 27)?;
    Some(count(first as u64) / 10.0)
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / count(values.len() as u64)
}

#[expect(clippy::cast_precision_loss, reason = "counts far below 2^53")]
fn count(count: u64) -> f64 {
    count as f64
}
