//! Power ratio before a server that is an equation: goodput and response time as functions of the load.

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
