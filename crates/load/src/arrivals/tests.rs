//! Schedules against arithmetic done by hand, and the Poisson process against its moments.

use proptest::prelude::*;

use super::*;

fn offsets(pattern: &str, seed: u64) -> Offsets {
    match pattern.parse().expect(pattern) {
        Arrivals::Open(schedule) => schedule.offsets(seed, 0),
        Arrivals::Closed { .. } | Arrivals::Trace { .. } => panic!("{pattern} is not open"),
    }
}

fn millis(pattern: &str, count: usize) -> Vec<u64> {
    offsets(pattern, 1).take(count).map(|offset| (offset.as_secs_f64() * 1e3).round() as u64).collect()
}

#[test]
fn constant_arrivals_are_evenly_spaced_from_zero() {
    assert_eq!(millis("100/s", 5), [0, 10, 20, 30, 40]);
}

#[test]
fn a_change_of_rate_carries_the_fraction_of_a_gap() {
    // 10/s for 250 ms is 2.5 arrivals: the next half at 1/s takes 500 ms.
    assert_eq!(millis("10/s:250ms,1/s:10s", 5), [0, 100, 200, 750, 1750]);
}

#[test]
fn a_schedule_ends_and_bursts_repeat() {
    assert_eq!(offsets("60/s:30s,600/s:4s,3/s:32s", 1).count(), 1800 + 2400 + 96);
    assert_eq!(millis("repeat:2/s:1s,0/s:9s", 5), [0, 500, 10_000, 10_500, 20_000]);
    assert_eq!(
        "60/s:30s,600/s:4s,3/s:32s".parse::<Arrivals>().unwrap().length(),
        Some(Duration::from_secs(66))
    );
    assert_eq!("60/s".parse::<Arrivals>().unwrap().length(), None);
}

#[test]
fn rare_arrivals_in_short_periods_end_at_once() {
    assert_eq!(offsets("repeat:0.000000000001/s:1us,0/s:1us", 1).count(), 1);
    // 0.08 of an arrival a period: the second falls 40 ms into the thirteenth.
    assert_eq!(millis("repeat:1/s:80ms,0/s:920ms", 2), [0, 12_040]);
}

/// Mean, variance and distribution of the gaps, from a fixed seed: no luck is involved, but the
/// bounds are those that a right process keeps with probability above 0.999.
#[test]
fn poisson_gaps_are_exponential() {
    let times: Vec<f64> = offsets("poisson:200/s", 7).take(100_001).map(|t| t.as_secs_f64()).collect();
    let mut gaps: Vec<f64> = times.windows(2).map(|pair| (pair[1] - pair[0]) * 200.0).collect();
    let count = gaps.len() as f64;
    let mean = gaps.iter().sum::<f64>() / count;
    let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / count;
    assert!((mean - 1.0).abs() < 3.3 / count.sqrt(), "mean {mean}");
    // The variance of the sample variance of Exp(1) is 8/n.
    assert!((variance - 1.0).abs() < 3.3 * (8.0 / count).sqrt(), "variance {variance}");
    let lag_one = gaps.windows(2).map(|pair| (pair[0] - mean) * (pair[1] - mean)).sum::<f64>() / count;
    assert!(lag_one.abs() < 3.3 / count.sqrt(), "gaps are correlated: {lag_one}");
    gaps.sort_by(f64::total_cmp);
    let kolmogorov_smirnov = gaps
        .iter()
        .enumerate()
        .map(|(rank, gap)| ((rank as f64 + 0.5) / count - (1.0 - (-gap).exp())).abs())
        .fold(0.0, f64::max);
    assert!(kolmogorov_smirnov < 1.95 / count.sqrt(), "distance {kolmogorov_smirnov}");
}

#[test]
fn the_same_seed_gives_the_same_times_and_another_does_not() {
    let times = |seed| offsets("poisson:100/s:1s,50/s:1s", seed).collect::<Vec<_>>();
    assert_eq!(times(1), times(1));
    assert_ne!(times(1), times(2));
}

#[test]
fn a_trace_names_its_file_and_speed() {
    for (text, file, speed) in [("trace:a:b.log", "a:b.log", 1.0), ("trace:/x/y:speed=0.5", "/x/y", 0.5)] {
        let read: Arrivals = text.parse().expect(text);
        assert_eq!(read, Arrivals::Trace { file: file.to_owned(), speed });
        assert_eq!(read.to_string(), text);
    }
}

#[test]
fn faults_name_the_pattern_and_the_mend() {
    for bad in [
        "",
        "60",
        "60/s:",
        "60/s:0s",
        "60/s,3/s",
        "repeat:60/s",
        "0/s",
        "0/s:1s,0/s:1s",
        "closed:0",
        "closed:",
        "closed:100001",
        "closed:4:think=",
        "closed:4:nap=1s",
        "gamma:60/s",
        "60/s:1s,",
        "poisson:",
        "-1/s",
        "60/s:1s:2s",
        "trace:",
        "trace:x:speed=0",
        "trace:x:speed=-1",
        "trace:x:speed=NaN",
        "trace:x:speed=fast",
    ] {
        let fault = bad.parse::<Arrivals>().expect_err(bad).to_string();
        assert!(
            fault.contains("`60/s")
                || fault.contains("250ms")
                || fault.contains("`closed:64`")
                || fault.contains("longer than zero")
                || fault.contains("above zero")
                || fault.contains("`trace:access.log"),
            "{bad}: {fault}"
        );
    }
}

proptest! {
    #[test]
    fn no_text_panics(text in "(poisson:|closed:|repeat:)?[0-9./smhu:,]{0,60}") {
        if let Ok(Arrivals::Open(schedule)) = text.parse::<Arrivals>() {
            let times: Vec<_> = schedule.offsets(1, 1).take(100).collect();
            prop_assert!(times.is_sorted());
        }
    }

    #[test]
    fn a_pattern_survives_being_written(
        poisson: bool,
        repeat: bool,
        parts in prop::collection::vec((1u32..100_000, 1u64..100_000_000), 1..20),
    ) {
        let segments = parts
            .iter()
            .map(|&(rate, micros)| Segment {
                rate: Rate::per_s(f64::from(rate) / 8.0).expect("in range"),
                length: Some(Duration::from_micros(micros)),
            })
            .collect();
        let process = if poisson { Process::Poisson } else { Process::Constant };
        let pattern = Arrivals::Open(Schedule { process, repeat, segments });
        let read: Arrivals = pattern.to_string().parse().expect("own output");
        prop_assert_eq!(read.to_string(), pattern.to_string());
    }

    /// The count in a window is the integral of the rate, whatever the segments.
    #[test]
    fn constant_counts_follow_the_integral(parts in prop::collection::vec((0u32..500, 1u64..2_000), 1..10)) {
        let text: Vec<_> = parts.iter().map(|(rate, ms)| format!("{rate}/s:{ms}ms")).collect();
        if let Ok(Arrivals::Open(schedule)) = text.join(",").parse() {
            let lambda: f64 = parts.iter().map(|&(rate, ms)| f64::from(rate) * ms as f64 / 1e3).sum();
            let count = schedule.offsets(1, 1).count() as f64;
            prop_assert!((count - lambda.ceil()).abs() <= 1.0, "{count} arrivals for {lambda}");
        }
    }
}
