//! The limits before toy servers: admission, a server in virtual time, a fixed source of random numbers.

use std::{collections::BTreeMap, time::Duration};

use super::*;
use crate::{
    ClassId, Ticket,
    admission::{Admission, AdmissionSettings, Arrival, Exchange, Permit},
    knobs::{Knob, Scope, Value, Values},
};

/// A linear congruential generator (Knuth's MMIX constants).
struct Random(u64);

impl Random {
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        #[expect(clippy::cast_precision_loss, reason = "53 bits")]
        let x = (self.0 >> 11) as f64 / (1_u64 << 53) as f64;
        x
    }

    /// Exponential with that mean.
    fn exponential(&mut self, mean: Duration) -> Duration {
        mean.mul_f64(-(1.0 - self.uniform()).ln())
    }
}

/// `workers` in parallel, first come, first served; then a delay that holds nobody.
#[derive(Clone, Copy)]
struct Server {
    workers: usize,
    service: Duration,
    /// Exponential instead of even service times.
    random: bool,
    delay: Duration,
}

impl Server {
    /// The one of the measurements: one worker, 97/s, 16 ms unloaded.
    const CPU_BOUND: Self = Self {
        workers: 1,
        service: Duration::from_micros(10_300),
        random: false,
        delay: Duration::from_micros(5_700),
    };

    fn capacity(&self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "few workers")]
        let workers = self.workers as f64;
        workers / self.service.as_secs_f64()
    }
}

#[derive(Debug)]
struct Report {
    /// Share of min(offered, capacity) that was served.
    goodput: f64,
    /// Of the server's response times.
    mean_ms: f64,
    p95_ms: f64,
    /// The limit at the end.
    limit: u32,
    /// The capacity found.
    capacity: Option<f64>,
}

/// Poisson arrivals at `load` times the capacity through admission for `seconds`; the first ten do not count.
/// `change` is applied to the server half-way.
fn run(algorithm: Algorithm, server: Server, load: f64, seconds: u64, change: Option<Server>) -> Report {
    run_of(42, algorithm, server, load, seconds, change)
}

/// The same with another stream of arrivals and times.
fn run_of(
    seed: u64,
    algorithm: Algorithm,
    server: Server,
    load: f64,
    seconds: u64,
    change: Option<Server>,
) -> Report {
    let mut class = Values::defaults(Scope::Class);
    class.set(Knob::QUEUE_DISCIPLINE, Value::Choice("fifo")).unwrap();
    class.set(Knob::QUEUE_WAIT_MAX, Value::Span(Duration::from_secs(1))).unwrap();
    let settings = AdmissionSettings {
        algorithm,
        ..AdmissionSettings::from_values(&Values::defaults(Scope::Application), &[&class])
    };
    let start = Timestamp::from_nanos(1_000_000_000_000);
    let end = start + Duration::from_secs(seconds);
    let half = start + Duration::from_secs(seconds / 2);
    let counted = if change.is_some() { half } else { start } + Duration::from_secs(10);
    let mut admission = Admission::new(&settings, start);
    let mut random = Random(seed);
    let mut server = server;
    let mut change = change;
    let interval = Duration::from_secs_f64(1.0 / (load * server.capacity()));
    let mut free_at = vec![start; server.workers];
    let mut in_service: BTreeMap<(Timestamp, u64), Permit> = BTreeMap::new();
    let mut waiting: Vec<Ticket> = Vec::new();
    let mut decided = Vec::new();
    let (mut sequence, mut next_arrival) = (0, start + random.exponential(interval));
    let (mut served, mut times) = (0.0, Vec::new());
    let (mut rate, mut starting) = (interval, Vec::new());
    loop {
        let departure = in_service.first_key_value().map(|(key, _)| key.0);
        let now =
            [departure, admission.next_timeout()].into_iter().flatten().fold(next_arrival, Timestamp::min);
        if now >= end {
            break;
        }
        if now >= half
            && let Some(changed) = change.take()
        {
            rate = rate.mul_f64(server.capacity() / changed.capacity());
            server = changed;
        }
        if departure == Some(now) {
            let (_, permit) = in_service.pop_first().unwrap();
            if now >= counted {
                served += 1.0;
                times.push(permit.age(now).as_secs_f64() * 1e3);
            }
            admission.depart(now, permit, Outcome::Success);
        } else if next_arrival == now {
            next_arrival = now + random.exponential(rate);
            let exchange = Exchange { class: ClassId(0), priority: 3, weight: 1, deadline: None, bytes: 300 };
            match admission.arrive(now, exchange) {
                Arrival::Start(permit) => starting.push(permit),
                Arrival::Wait(ticket) => waiting.push(ticket),
                Arrival::Refuse(_) => {}
            }
        } else {
            admission.advance(now);
        }
        admission.drain_decided(&mut decided);
        for ticket in decided.drain(..) {
            waiting.retain(|waits| *waits != ticket);
            if let Some(Ok(permit)) = admission.collect(now, ticket) {
                starting.push(permit);
            }
        }
        for permit in starting.drain(..) {
            let worker = (0..free_at.len()).min_by_key(|worker| free_at[*worker]).unwrap();
            let work = if server.random { random.exponential(server.service) } else { server.service };
            free_at[worker] = free_at[worker].max(now) + work;
            sequence += 1;
            in_service.insert((free_at[worker] + server.delay, sequence), permit);
        }
    }
    times.sort_by(f64::total_cmp);
    let fit = server.capacity() * load.min(1.0);
    Report {
        goodput: served / end.since(counted).as_secs_f64() / fit,
        mean_ms: times.iter().sum::<f64>() / served,
        p95_ms: times[times.len() * 95 / 100],
        limit: admission.levels().limit,
        capacity: admission.limiter().capacity(),
    }
}

const MANY: Server =
    Server { workers: 40, service: Duration::from_millis(50), random: true, delay: Duration::ZERO };

/// The server of the measurements, from just under its capacity to ten times it. In flight for 16 ms
/// unloaded; a queue of two behind the one in service is 16 + 2 · 10.3 = 37 ms.
#[test]
fn gradient2_keeps_a_small_queue_at_a_cpu_bound_worker() {
    for load in [0.9, 1.0, 1.1, 1.5, 2.0, 4.0, 10.0] {
        let report = run(Algorithm::Gradient2, Server::CPU_BOUND, load, 70, None);
        assert!(report.goodput > 0.985, "at {load}: {report:?}");
        assert!(report.mean_ms < 40.0 && report.p95_ms < 75.0, "at {load}: {report:?}");
    }
}

#[test]
fn gradient2_fills_many_workers_without_a_long_queue() {
    for load in [0.9, 1.1, 2.0] {
        let report = run(Algorithm::Gradient2, MANY, load, 40, None);
        assert!(report.goodput > 0.97 && report.mean_ms < 130.0, "at {load}: {report:?}");
    }
}

/// The service becomes twice as slow, and twice as fast: the baseline follows.
#[test]
fn gradient2_follows_a_change_of_the_service_time() {
    let slow = Server { service: Duration::from_millis(100), ..MANY };
    let slower = run(Algorithm::Gradient2, MANY, 2.0, 60, Some(slow));
    assert!(slower.goodput > 0.95 && slower.mean_ms < 250.0, "{slower:?}");
    let faster = run(Algorithm::Gradient2, slow, 2.0, 60, Some(MANY));
    assert!(faster.goodput > 0.95 && faster.mean_ms < 160.0, "{faster:?}");
}

/// Vegas holds three to six waiting at the server, more where its window is small.
#[test]
fn vegas_bounds_the_queue_and_does_not_creep() {
    for load in [1.1, 2.0, 10.0] {
        let short = run(Algorithm::Vegas, Server::CPU_BOUND, load, 40, None);
        let long = run(Algorithm::Vegas, Server::CPU_BOUND, load, 160, None);
        assert!(short.goodput > 0.99 && short.p95_ms < 120.0, "at {load}: {short:?}");
        assert!(long.mean_ms < short.mean_ms * 1.1, "at {load}: {short:?} then {long:?}");
    }
    let many = run(Algorithm::Vegas, MANY, 2.0, 40, None);
    assert!(many.goodput > 0.96 && many.mean_ms < 110.0, "{many:?}");
}

/// Nothing is ever dropped here, so AIMD grows for as long as it is the constraint and no longer.
#[test]
fn aimd_grows_only_while_it_is_the_constraint() {
    let light = run(Algorithm::Aimd, Server::CPU_BOUND, 0.5, 40, None);
    assert_eq!(light.limit, 20);
    let heavy = run(Algorithm::Aimd, Server::CPU_BOUND, 2.0, 40, None);
    assert!(heavy.limit > 80 && heavy.goodput > 0.99, "{heavy:?}");
}

/// Goodput and mean time, milliseconds, of KneeTrack in ten streams: a single one has the mean time a fifth higher or lower by chance, and now and
/// then one measures the response time without a queue so short that goodput is 0.96.
fn means(server: Server, load: f64, seconds: u64, change: Option<Server>) -> [f64; 2] {
    let [mut goodput, mut mean_ms] = [0.0; 2];
    for seed in 1..=10 {
        let report = run_of(seed, Algorithm::KneeTrack, server, load, seconds, change);
        (goodput, mean_ms) = (goodput + report.goodput / 10.0, mean_ms + report.mean_ms / 10.0);
    }
    [goodput, mean_ms]
}

/// From a cold start, at every load: what is found in the end does not hang on how much is offered.
#[test]
fn knee_track_finds_the_knee_at_every_load() {
    for load in [0.9, 1.0, 1.1, 1.5, 2.0, 4.0, 10.0] {
        let report = run(Algorithm::KneeTrack, Server::CPU_BOUND, load, 70, None);
        assert!(report.goodput > 0.985, "at {load}: {report:?}");
        // Where little is held back, the search takes long, and some of what would queue here queues at the server.
        let (mean_ms, p95_ms) = if load > 1.0 { (35.0, 55.0) } else { (60.0, 130.0) };
        assert!(report.mean_ms < mean_ms && report.p95_ms < p95_ms, "at {load}: {report:?}");
    }
    for load in [0.9, 1.1, 2.0] {
        let [goodput, mean_ms] = means(MANY, load, 40, None);
        assert!(goodput > 0.97 && mean_ms < 65.0, "at {load}: {goodput}, {mean_ms} ms");
    }
    let heavy = run(Algorithm::KneeTrack, MANY, 2.0, 40, None);
    assert!((heavy.capacity.unwrap() / MANY.capacity() - 1.0).abs() < 0.05, "{heavy:?}");
}

#[test]
fn knee_track_follows_a_change_of_the_service_time() {
    let slow = Server { service: Duration::from_millis(100), ..MANY };
    let [goodput, mean_ms] = means(MANY, 2.0, 60, Some(slow));
    assert!(goodput > 0.96 && mean_ms < 130.0, "slower: {goodput}, {mean_ms} ms");
    let [goodput, mean_ms] = means(slow, 2.0, 60, Some(MANY));
    assert!(goodput > 0.96 && mean_ms < 65.0, "faster: {goodput}, {mean_ms} ms");
}

/// WebQ's rate holds the server where power peaks: half of what a worker of random work can do.
#[test]
fn power_ratio_sheds_what_is_over_its_rate() {
    let worker =
        Server { workers: 4, service: Duration::from_millis(20), random: true, delay: Duration::ZERO };
    let report = run(Algorithm::PowerRatio, worker, 2.0, 600, None);
    assert!(report.goodput < 0.95 && report.mean_ms < 60.0, "{report:?}");
    assert!(report.goodput > 0.05, "{report:?}");
}

/// The laws as their heads say, beside the code.
mod formulas {
    use proptest::prelude::*;

    use super::*;

    fn sample(outcome: Outcome, ms: u64, in_flight: u32, limit_utilised: bool, now: Timestamp) -> Sample {
        Sample {
            now,
            class: ClassId(0),
            response_time: Duration::from_millis(ms),
            in_flight,
            limit_utilised,
            outcome,
            weight: 1,
        }
    }

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Passes(Duration),
        Ends(Outcome, Duration, bool, u32),
        Bounds(u32, u32),
    }

    fn step() -> impl Strategy<Value = Step> {
        let outcome = prop::sample::select(vec![Outcome::Success, Outcome::Drop, Outcome::Ignore]);
        let ms = |most| (0..=most).prop_map(Duration::from_millis);
        prop_oneof![
            3 => ms(40_u64).prop_map(Step::Passes),
            6 => (outcome, ms(60), any::<bool>(), 1_u32..30)
                .prop_map(|(outcome, ms, utilised, weight)| Step::Ends(outcome, ms, utilised, weight)),
            1 => (1_u32..100, 1_u32..500).prop_map(|(min, max)| Step::Bounds(min, max)),
        ]
    }

    struct NaiveAimd {
        bounds: LimitBounds,
        limit: f64,
        decreases: Vec<Timestamp>,
    }

    impl NaiveAimd {
        fn new(bounds: LimitBounds) -> Self {
            let mut naive = Self { bounds, limit: f64::from(bounds.initial), decreases: Vec::new() };
            naive.bound(bounds);
            naive
        }

        fn sample(&mut self, sample: &Sample) {
            let began = sample.now - sample.response_time;
            let was_in_flight_at_one = self.decreases.iter().any(|moment| *moment > began);
            match sample.outcome {
                Outcome::Success if sample.limit_utilised => {
                    self.limit += f64::from(sample.weight) / self.limit
                }
                Outcome::Drop if !was_in_flight_at_one => {
                    self.decreases.push(sample.now);
                    self.limit = f64::min(self.limit - 1.0, self.limit * 0.9);
                }
                _ => {}
            }
            self.bound(self.bounds);
        }

        fn bound(&mut self, bounds: LimitBounds) {
            self.bounds = bounds;
            if self.limit > f64::from(bounds.max) {
                self.limit = f64::from(bounds.max);
            }
            if self.limit < f64::from(bounds.min) {
                self.limit = f64::from(bounds.min);
            }
        }
    }

    proptest! {
        /// After a baseline of 16 ms, one window of equal exchanges with some drops.
        #[test]
        fn one_step(
            initial in 10_u32..200,
            ms in 16_u64..200,
            drop_every in 2_usize..20,
            utilised in any::<bool>(),
        ) {
            let bounds = LimitBounds { initial, min: 1, max: 1000 };
            let mut gradient = Gradient2::new(bounds);
            let mut vegas = Vegas::new(bounds);
            let start = Timestamp::from_nanos(1_000_000_000);
            let window = initial.max(10) as usize;
            for _ in 0..window {
                gradient.sample(&sample(Outcome::Success, 16, 1, false, start));
                vegas.sample(&sample(Outcome::Success, 16, 1, false, start));
            }
            prop_assert_eq!((gradient.limit(), vegas.limit()), (initial, initial));
            let now = start + Duration::from_millis(ms);
            let mut dropped = 0.0_f64;
            for n in 0..window {
                let drops = n % drop_every == 0;
                dropped += f64::from(u8::from(drops));
                let outcome = if drops { Outcome::Drop } else { Outcome::Success };
                gradient.sample(&sample(outcome, ms, initial, utilised, now));
                vegas.sample(&sample(Outcome::Success, ms, initial, utilised, now));
            }
            #[expect(clippy::cast_precision_loss, reason = "small numbers")]
            let (limit, ratio, share) = (f64::from(initial), 16.0 / ms as f64, dropped / window as f64);

            let slope = (1.0_f64.min(1.5 * ratio) - share / 2.0).max(0.5);
            let target = slope * limit + 1.0_f64.max(limit.sqrt() / 2.0);
            let expected = if target > limit && !utilised { limit } else { f64::midpoint(limit, target) };
            prop_assert_eq!(gradient.limit(), whole(expected), "gradient from {}", limit);

            let s = if initial >= 100 { 2.0 } else { 1.0 };
            let queue = (limit * (1.0 - ratio)).ceil();
            let step = match queue {
                q if q > 6.0 * s => -s,
                _ if !utilised => 0.0,
                q if q <= s => 6.0 * s,
                q if q < 3.0 * s => s,
                _ => 0.0,
            };
            prop_assert_eq!(vegas.limit(), whole(limit + step), "vegas from {}", limit);
        }

        /// AIMD beside one that keeps the moment of every decrease and looks through all of them.
        #[test]
        fn aimd_as_the_naive_one(
            (initial, min, max) in (1_u32..300, 1_u32..50, 1_u32..500),
            steps in prop::collection::vec(step(), 1..400),
        ) {
            let mut bounds = LimitBounds { initial, min, max };
            let (mut aimd, mut naive) = (Aimd::new(bounds), NaiveAimd::new(bounds));
            let mut now = Timestamp::from_nanos(1_000_000_000_000);
            for step in steps {
                match step {
                    Step::Passes(span) => now = now + span,
                    Step::Ends(outcome, response_time, limit_utilised, weight) => {
                        let class = ClassId(0);
                        let sample = Sample { now, class, response_time, in_flight: 1, limit_utilised, outcome, weight };
                        aimd.sample(&sample);
                        naive.sample(&sample);
                    }
                    Step::Bounds(min, max) => {
                        bounds = LimitBounds { min, max, ..bounds };
                        aimd.set_bounds(bounds);
                        naive.bound(bounds);
                    }
                }
                prop_assert_eq!(aimd.limit(), naive.limit.floor() as u32, "after {:?}", step);
                prop_assert!(aimd.limit() >= bounds.min && aimd.limit() <= bounds.max.max(bounds.min));
            }
        }

        /// Whatever is thrown at them, limits stay within their bounds and are the same on each run.
        #[test]
        fn within_bounds(
            samples in prop::collection::vec((0_u64..100_000, 0_u64..1_000_000, 1_u32..2000, any::<bool>(), 0_u8..3), 1..400),
            min in 1_u32..50,
            room in 0_u32..500,
        ) {
            let bounds = LimitBounds { initial: 20, min, max: min + room };
            for algorithm in [Algorithm::Aimd, Algorithm::Vegas, Algorithm::Gradient2, Algorithm::KneeTrack] {
                let (mut one, mut two) = (Limiter::new(algorithm, bounds), Limiter::new(algorithm, bounds));
                let mut now = Timestamp::from_nanos(1_000_000_000_000);
                for &(step, response_us, in_flight, limit_utilised, outcome) in &samples {
                    now = now + Duration::from_micros(step);
                    let outcome = [Outcome::Success, Outcome::Drop, Outcome::Ignore][usize::from(outcome)];
                    let response_time = Duration::from_micros(response_us);
                    let class = ClassId(0);
                    let sample = Sample { now, class, response_time, in_flight, limit_utilised, outcome, weight: 1 };
                    let weights = [u64::from(in_flight)];
                    let load = Load {
                        in_flight: &weights,
                        started: &[u64::from(in_flight)],
                        limit_holds: limit_utilised,
                        rate_holds: false,
                    };
                    for limiter in [&mut one, &mut two] {
                        limiter.advance(now, &load);
                        limiter.sample(&sample);
                    }
                    prop_assert!((bounds.min..=bounds.max).contains(&one.limit()), "{:?}", one);
                }
                prop_assert_eq!(&one, &two);
                // Bounds that close in hold at once, a probe or not.
                let narrow = LimitBounds { min: bounds.max, ..bounds };
                one.set_bounds(narrow);
                prop_assert_eq!(one.limit(), narrow.min);
            }
        }
    }
}
