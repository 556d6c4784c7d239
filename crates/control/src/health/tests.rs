//! Tests of health: beside a reference that replays the whole history at every question.

use proptest::prelude::*;

use super::*;

#[derive(Clone, Copy, Debug)]
enum Event {
    Success,
    Failure,
    Probe(bool),
}

const SETTINGS: HealthSettings = HealthSettings {
    failures_max: Some(3),
    pause: Duration::from_secs(10),
    probed: true,
    rise: 2,
    fall: 3,
    slow_start: Duration::from_secs(20),
};

/// What the documentation says, read off the whole history; gives up, probed down, and when it was last
/// new or back.
fn naive(history: &[(Timestamp, Event)], now: Timestamp) -> (bool, bool, Timestamp) {
    let mut out_until = Timestamp::EPOCH;
    let (mut row, mut pauses) = (0, 0);
    let mut back = Timestamp::EPOCH;
    for (at, event) in history {
        if *at < out_until {
            continue;
        }
        match event {
            Event::Success => (row, pauses) = (0, 0),
            Event::Failure => {
                row += 1;
                if row == 3 || pauses > 0 {
                    out_until = *at + Duration::from_secs(10) * (1 << u32::min(pauses, 10));
                    pauses += 1;
                    row = 0;
                }
            }
            Event::Probe(_) => {}
        }
    }
    let probes: Vec<_> = history
        .iter()
        .filter_map(|(at, event)| if let Event::Probe(good) = event { Some((*at, *good)) } else { None })
        .collect();
    let mut down = false;
    let mut from = 0;
    for end in 0..=probes.len() {
        let needed = if down { 2 } else { 3 };
        if end >= from + needed && probes[end - needed..end].iter().all(|(_, good)| *good == down) {
            down = !down;
            from = end;
            if !down {
                back = back.max(probes[end - 1].0);
            }
        }
    }
    (!down && now >= out_until, down, back.max(out_until))
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        2 => Just(Event::Success),
        5 => Just(Event::Failure),
        3 => prop::bool::weighted(0.4).prop_map(Event::Probe),
    ]
}

proptest! {
    #[test]
    fn is_what_the_history_says(steps in prop::collection::vec((event(), 0..15_u64), 0..120)) {
        let mut now = Timestamp::EPOCH;
        let mut health = Health::new(now, SETTINGS);
        let mut history = Vec::new();
        for (event, passed_s) in steps {
            now = now + Duration::from_secs(passed_s);
            match event {
                Event::Success => health.on_success(now),
                Event::Failure => health.on_failure(now),
                Event::Probe(good) => health.on_probe(now, good),
            }
            health.check_invariants();
            history.push((now, event));
            let (up, down, back) = naive(&history, now);
            prop_assert_eq!(health.is_up(now), up);
            prop_assert_eq!(health.is_probed_down(), down);
            prop_assert_eq!(matches!(health.condition(now), Condition::Up | Condition::OnTrial), up);
            if up {
                let grown = now.since(back).as_secs_f64() / 20.0;
                prop_assert!((health.weight_factor(now) - grown.clamp(0.1, 1.0)).abs() < 1e-9);
            } else if let (false, Some(until)) = (down, health.next_timeout()) {
                // It is up again exactly then.
                prop_assert!(!health.is_up(until - Duration::from_nanos(1)) && health.is_up(until));
                prop_assert_eq!(health.condition(now), Condition::Paused(until));
            }
        }
    }

    #[test]
    fn any_settings_at_any_time_keep_the_invariants(
        steps in prop::collection::vec(
            (event(), any::<u64>(), prop::option::of(1..4_u32), any::<bool>(), 1..4_u32, any::<u32>()), 0..60,
        ),
    ) {
        let mut health = Health::new(Timestamp::EPOCH, SETTINGS);
        for (event, nanos, failures_max, probed, bound, span_ms) in steps {
            let now = Timestamp::from_nanos(nanos);
            let span = Duration::from_millis(span_ms.into());
            health.configure(now, HealthSettings {
                failures_max, probed, rise: bound, fall: bound, pause: span, slow_start: span,
            });
            health.check_invariants();
            match event {
                Event::Success => health.on_success(now),
                Event::Failure => health.on_failure(now),
                Event::Probe(good) => health.on_probe(now, good),
            }
            health.check_invariants();
            let factor = health.weight_factor(now);
            prop_assert!(factor > 0.0 && factor <= 1.0);
        }
    }
}

#[test]
fn pauses_double_ten_times() {
    let mut health = Health::new(Timestamp::EPOCH, HealthSettings { failures_max: Some(1), ..SETTINGS });
    let mut now = Timestamp::EPOCH;
    let pauses: Vec<_> = (0..12)
        .map(|_| {
            health.on_failure(now);
            let until = health.next_timeout().unwrap();
            let pause = until.since(now).as_secs();
            now = until;
            pause
        })
        .collect();
    assert_eq!(pauses, [10, 20, 40, 80, 160, 320, 640, 1280, 2560, 5120, 10240, 10240]);
    assert_eq!(health.condition(now), Condition::OnTrial);
    health.on_success(now);
    assert_eq!(health.condition(now), Condition::Up);
    health.on_failure(now);
    assert_eq!(health.next_timeout(), Some(now + SETTINGS.pause));
}

#[test]
fn what_is_switched_off_is_forgotten() {
    let now = Timestamp::EPOCH;
    let mut health = Health::new(now, SETTINGS);
    for _ in 0..3 {
        health.on_failure(now);
        health.on_probe(now, false);
    }
    assert!(health.is_probed_down());
    let back = now + Duration::from_secs(5);
    health.configure(back, HealthSettings { probed: false, ..SETTINGS });
    assert_eq!(health.condition(back), Condition::Paused(now + SETTINGS.pause));
    health.configure(back, HealthSettings { probed: false, failures_max: None, ..SETTINGS });
    assert_eq!(health.condition(back), Condition::Up);
    // And it begins slowly.
    assert!((health.weight_factor(back + Duration::from_secs(10)) - 0.5).abs() < 1e-9);
    assert!((health.weight_factor(back) - Health::FIRST_WEIGHT).abs() < 1e-9);
}
