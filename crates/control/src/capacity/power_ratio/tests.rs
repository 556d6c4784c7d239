//! Power ratio before a server that is an equation: goodput and response time as functions of the load.

use proptest::prelude::*;

use super::*;
use crate::ClassId;

const BOUNDS: LimitBounds = LimitBounds { initial: 20, min: 1, max: 1000 };

/// M/M/1-like below `capacity`, and above it what is offered over it waits on.
struct Server {
    capacity: f64,
    backlog: f64,
}

impl Server {
    fn new(capacity: f64) -> Self {
        Self { capacity, backlog: 0.0 }
    }

    /// One epoch of 8 s at this load: goodput and mean response time.
    fn epoch(&mut self, load: f64) -> (f64, f64) {
        let queued = self.backlog + 8.0 * (load - 0.99 * self.capacity);
        let standing = f64::midpoint(self.backlog, queued.max(0.0)) / self.capacity;
        let goodput = (load + self.backlog / 8.0).min(0.99 * self.capacity);
        self.backlog = queued.max(0.0);
        let used = (load / self.capacity).min(0.99);
        (goodput, 1.0 / self.capacity / (1.0 - used) + standing)
    }
}

/// Runs `epochs` epochs; the loads offered.
fn run(power: &mut PowerRatio, server: &mut Server, now: &mut Timestamp, epochs: u32) -> Vec<f64> {
    power.advance(*now, &load(true));
    (0..epochs)
        .map(|_| {
            let offered = power.rate().unwrap();
            let (goodput, response) = server.epoch(offered);
            let replies = (goodput * 8.0).round();
            for _ in 0..replies as u32 {
                power.sample(&reply(*now, Duration::from_secs_f64(response)));
            }
            *now = *now + Duration::from_secs(8);
            power.advance(*now, &load(true));
            offered
        })
        .collect()
}

const fn reply(now: Timestamp, response_time: Duration) -> Sample {
    Sample {
        now,
        class: ClassId(0),
        response_time,
        in_flight: 1,
        limit_utilised: true,
        outcome: Outcome::Success,
        weight: 1,
    }
}

const fn load(rate_holds: bool) -> Load<'static> {
    Load { in_flight: &[], started: &[], limit_holds: false, rate_holds }
}

fn start() -> Timestamp {
    Timestamp::from_nanos(1_000_000_000_000)
}

/// The power of M/M/1 is `load · (C − load)`: its peak is at half the capacity.
#[test]
fn it_finds_the_peak_of_power_by_the_phases_of_the_paper() {
    let (mut power, mut server, mut now) =
        (PowerRatio::new(BOUNDS, PowerRatioSettings::default()), Server::new(160.0), start());
    let loads = run(&mut power, &mut server, &mut now, 60);
    // Coarse: each load 1.15 times the one before, from 15.
    let coarse = loads.windows(2).take_while(|pair| pair[1] > pair[0]).count();
    assert!(loads[0] == 15.0 && coarse >= 10, "{loads:?}");
    assert!(loads.windows(2).take(coarse).all(|pair| (pair[1] / pair[0] - 1.15).abs() < 1e-9));
    // Back to 0.8 of where that ended, for two close epochs and the first of the fine phase; then steps of 0.02.
    let end = loads[coarse];
    assert!(loads[coarse + 1..coarse + 4].iter().all(|load| (load / end - 0.8).abs() < 1e-9), "{loads:?}");
    assert!((loads[coarse + 4] - loads[coarse + 3] - 0.02 * end).abs() < 1e-9);
    let capacity = power.capacity().expect("found");
    assert!((capacity - 80.0).abs() < 3.0, "{capacity}");
    assert_eq!(power.rate(), Some(capacity));
    let mut events = Vec::new();
    power.drain_events(&mut events);
    assert_eq!(events.iter().map(|event| event.cause).collect::<Vec<_>>(), [Cause::Found]);
}

#[test]
fn a_rise_begins_at_the_present_load_and_a_fall_at_the_first() {
    let (mut power, mut now) = (PowerRatio::new(BOUNDS, PowerRatioSettings::default()), start());
    run(&mut power, &mut Server::new(80.0), &mut now, 60);
    let before = power.capacity().unwrap();
    let mut events = Vec::new();
    power.drain_events(&mut events);

    let loads = run(&mut power, &mut Server::new(160.0), &mut now, 60);
    power.drain_events(&mut events);
    assert_eq!(
        events.iter().map(|event| event.cause).collect::<Vec<_>>(),
        [Cause::Found, Cause::Rise, Cause::Found]
    );
    assert!((loads[1] - before).abs() < 1e-9 && (loads[2] / before - 1.15).abs() < 1e-9, "{loads:?}");
    let risen = power.capacity().unwrap();
    assert!(risen > 1.4 * before, "{before} then {risen}");

    let loads = run(&mut power, &mut Server::new(60.0), &mut now, 60);
    assert!(loads[1..4].contains(&15.0), "{loads:?}");
    assert!(power.capacity().unwrap() < risen * 0.6);
}

#[test]
fn without_load_it_pauses() {
    let (mut power, mut now) = (PowerRatio::new(BOUNDS, PowerRatioSettings::default()), start());
    for _ in 0..100 {
        power.advance(now, &load(false));
        now = now + Duration::from_secs(8);
    }
    assert_eq!(power.rate(), Some(15.0));
    assert!(power.observations.is_empty());
}

/// Whom the waiting room sends away does not stand before the rate: the load was offered all the same.
#[test]
fn who_waits_for_a_slot_is_load_that_was_offered() {
    for (held_back, loads) in [(true, 15.0 * 1.15), (false, 15.0)] {
        let (mut power, now) = (PowerRatio::new(BOUNDS, PowerRatioSettings::default()), start());
        power.advance(now, &load(false));
        assert_eq!(power.slots(held_back).to_bits(), 15.0_f64.to_bits());
        for _ in 0..120 {
            power.sample(&reply(now, Duration::from_millis(10)));
        }
        power.advance(now + Duration::from_secs(8), &load(false));
        assert_eq!(power.rate(), Some(loads), "{held_back}");
    }
}

#[test]
fn a_given_capacity_is_the_load() {
    let mut power = PowerRatio::new(BOUNDS, PowerRatioSettings::default());
    power.set_capacity_bounds(CapacityBounds::exactly(42.0));
    assert_eq!(power.rate(), Some(42.0));
}

/// Discovery as section IV tells it, from all that was observed, without a cubic of ours: least squares by orthogonal polynomials, and
/// their peak where the slope turns.
struct Naive {
    load: f64,
    from: f64,
    phase: &'static str,
    coarse_end: f64,
    /// Epochs in a row that were close, or had the peak inside.
    row: u32,
    observed: Vec<(f64, f64)>,
    found: Option<(f64, Vec<(f64, f64)>)>,
}

impl Naive {
    /// The fit to these at `x`: Gram and Schmidt over 1, u, u², u³ at the observed loads.
    fn fit(observed: &[(f64, f64)], x: f64) -> f64 {
        let (first, last) =
            observed.iter().fold((f64::MAX, f64::MIN), |(low, high), (x, _)| (low.min(*x), high.max(*x)));
        let scaled = |x: f64| (2.0 * x - first - last) / (last - first);
        // Values of each polynomial at the observed loads, and at x.
        let mut basis: Vec<(Vec<f64>, f64)> = Vec::new();
        for power in 0..4 {
            let mut next: (Vec<f64>, f64) =
                (observed.iter().map(|(x, _)| scaled(*x).powi(power)).collect(), scaled(x).powi(power));
            // Twice is enough.
            for _ in 0..2 {
                for (known, known_at) in &basis {
                    let part: f64 = known.iter().zip(&next.0).map(|(a, b)| a * b).sum();
                    next.0.iter_mut().zip(known).for_each(|(value, known)| *value -= part * known);
                    next.1 -= part * known_at;
                }
            }
            let length = next.0.iter().map(|value| value * value).sum::<f64>().sqrt();
            basis.push((next.0.iter().map(|value| value / length).collect(), next.1 / length));
        }
        let along = |known: &[f64]| known.iter().zip(observed).map(|(known, (_, y))| known * y).sum::<f64>();
        basis.iter().map(|(known, at)| along(known) * at).sum()
    }

    /// Where the fit peaks inside, if it does.
    fn peak(&self) -> Option<f64> {
        let mut loads: Vec<f64> = self.observed.iter().map(|(load, _)| *load).collect();
        loads.sort_by(f64::total_cmp);
        loads.dedup();
        if loads.len() < 4 {
            return None;
        }
        let curve = |x: f64| Self::fit(&self.observed, x);
        let (low, high) = (self.from, self.load);
        let step = (high - low) / 200.0;
        let slope = |x: f64| curve(x + step * 1e-3) - curve(x - step * 1e-3);
        let turn = (0..200)
            .map(|n| low + f64::from(n) * step)
            .find(|x| slope(*x) > 0.0 && slope(x + step) <= 0.0)?;
        let (mut left, mut right) = (turn, turn + step);
        for _ in 0..40 {
            let middle = f64::midpoint(left, right);
            if slope(middle) > 0.0 { left = middle } else { right = middle }
        }
        Some(left).filter(|x| curve(*x) > curve(low).max(curve(high)))
    }

    /// An epoch ends.
    fn epoch(&mut self, goodput: f64, response: f64) {
        let close = (goodput - self.load).abs() / goodput < 0.1;
        match self.phase {
            "coarse" => {
                self.observed.push((self.load, goodput / response));
                if self.peak().is_some() {
                    (self.phase, self.coarse_end, self.row) = ("cool-down", self.load, 0);
                    self.load *= 0.8;
                } else if close {
                    self.load *= 1.15;
                }
            }
            "cool-down" | "last cool-down" => {
                self.row = if close { self.row + 1 } else { 0 };
                if self.row == 2 {
                    (self.phase, self.row) = (if self.phase == "cool-down" { "fine" } else { "found" }, 0);
                }
            }
            "fine" => {
                self.observed.push((self.load, goodput / response));
                let peak = self.peak();
                self.row = if peak.is_some() { self.row + 1 } else { 0 };
                if let Some(capacity) = peak
                    && self.row == 8
                {
                    (self.phase, self.row, self.load) = ("last cool-down", 0, capacity);
                    self.found = Some((capacity, std::mem::take(&mut self.observed)));
                } else if close {
                    self.load += 0.02 * self.coarse_end;
                }
            }
            _ => {
                let (_, observed) = self.found.as_ref().expect("found");
                let largest =
                    observed.iter().map(|(x, y)| (Self::fit(observed, *x) - y).abs()).fold(0.0, f64::max);
                let off = goodput / response - Self::fit(observed, self.load);
                if off.abs() > 2.0 * largest {
                    self.load = if off > 0.0 { self.load } else { 15.0 };
                    (self.from, self.phase) = (self.load, "coarse");
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Before servers that change, with noise in what is measured.
    #[test]
    fn discovery_goes_as_the_naive_one(
        capacities in prop::array::uniform3(30.0..400.0_f64),
        noise in prop::collection::vec(-0.03..0.03_f64, 150),
    ) {
        let (mut power, mut now) = (PowerRatio::new(BOUNDS, PowerRatioSettings::default()), start());
        let mut naive = Naive {
            load: 15.0, from: 15.0, phase: "coarse", coarse_end: 0.0, row: 0, observed: Vec::new(), found: None,
        };
        let mut server = Server::new(capacities[0]);
        power.advance(now, &load(true));
        for (n, noise) in noise.iter().enumerate() {
            if n % 50 == 0 {
                server = Server::new(capacities[n / 50]);
            }
            let offered = power.rate().unwrap();
            prop_assert!((offered / naive.load - 1.0).abs() < 1e-3, "epoch {n}: {offered} is {} ({})", naive.load, naive.phase);
            let (goodput, response) = server.epoch(offered);
            let response = Duration::from_secs_f64(response * (1.0 + noise));
            let replies = (goodput * 8.0).round();
            for _ in 0..replies as u32 {
                power.sample(&reply(now, response));
            }
            now = now + Duration::from_secs(8);
            power.advance(now, &load(true));
            naive.epoch(replies / 8.0, response.as_secs_f64());
        }
        prop_assert_eq!(power.capacity().is_some(), naive.found.is_some());
    }
}
