//! Exchanges that stay in flight and take nothing: when they count no more, and what bounds them.

use super::*;

/// An adaptive limit of 2 to begin with, never lower, after some requests of 10 ms one after another.
fn bench(algorithm: Algorithm, max: u32, dormant_max: u32) -> Bench {
    let mut bench = Bench::new(&AdmissionSettings {
        algorithm,
        limit: LimitBounds { initial: 2, min: 2, max },
        dormant_max,
        ..settings(2, 1)
    });
    for moment in (0..50).step_by(10) {
        bench.start(moment, request(0, 3, 1));
        bench.depart(moment + 10);
    }
    bench
}

impl Bench {
    /// Requests of 10 ms one after another beside what is in flight, of the top priority: no limit holds them back.
    fn serve(&mut self, from: u64, until: u64) {
        for moment in (from..until).step_by(10) {
            self.start(moment, request(0, 7, 1));
            let permit = self.permits.pop().expect("just started");
            self.admission.depart(at(moment + 10), permit, Outcome::Success);
            self.admission.check_invariants();
        }
    }

    /// Weight that is dormant; what is in force must be the limit found and that on top.
    fn dormant(&mut self, now: u64) -> u64 {
        self.admission.advance(at(now));
        let (levels, found) = (self.admission.levels(), self.admission.limiter().limit());
        assert_eq!(u64::from(levels.limit), u64::from(found) + levels.dormant, "on top of what was found");
        levels.dormant
    }
}

#[test]
fn what_many_have_overtaken_counts_no_more() {
    let mut bench = bench(Algorithm::Aimd, 100, 20);
    bench.start(100, request(0, 3, 1));
    bench.serve(100, 340);
    assert_eq!(bench.dormant(349), 0, "a quarter of a second at least");
    assert_eq!(bench.dormant(350), 1);
    assert_eq!(bench.admission.levels().in_flight, 1, "it is in flight all the same");
    bench.start(350, request(0, 3, 1));
    assert_eq!(bench.permits[1].in_flight, 1, "nor is it among what others find in flight");
    bench.depart(900);
    assert_eq!(bench.dormant(900), 0, "and over");
}

#[test]
fn what_was_dormant_overtakes_nobody_when_it_ends() {
    let mut bench = bench(Algorithm::Vegas, 100, 20);
    for _ in 0..20 {
        // Of the top priority, which passes the limit.
        bench.start(100, request(0, 7, 1));
    }
    bench.serve(100, 700);
    assert_eq!(bench.dormant(700), 20);
    bench.start(700, request(0, 7, 1));
    for _ in 0..20 {
        bench.depart(710);
    }
    bench.serve(710, 720);
    assert_eq!(bench.dormant(5000), 0, "one has overtaken it, and 20 were before it");
}

#[test]
fn few_that_overtake_are_no_sign() {
    let mut bench = bench(Algorithm::Aimd, 100, 20);
    bench.start(100, request(0, 3, 1));
    // One that was in flight with it, and 19 that came later.
    bench.serve(100, 290);
    assert_eq!(bench.dormant(5000), 0);
    bench.serve(5000, 5020);
    assert_eq!(bench.dormant(5020), 1);
}

#[test]
fn a_limit_full_of_them_lets_others_in_after_as_long() {
    let mut bench = bench(Algorithm::Aimd, 100, 20);
    let limit = u64::from(bench.admission.levels().limit);
    for _ in 0..limit {
        bench.start(100, request(0, 3, 1));
    }
    let waits = bench.wait(150, request(0, 3, 1));
    assert_eq!(bench.dormant(399), 0);
    assert_eq!(
        bench.admission.next_timeout(),
        Some(at(400)),
        "a quarter of a second after somebody had to wait"
    );
    assert_eq!(bench.dormant(400), limit);
    assert_eq!(bench.decided(), [waits]);
    bench.granted(400, waits);
}

#[test]
fn they_are_bounded() {
    // By their own bound.
    let mut own = bench(Algorithm::Aimd, 100, 1);
    let limit = own.admission.levels().limit;
    for _ in 0..limit {
        own.start(100, request(0, 3, 1));
    }
    let _waits = own.wait(100, request(0, 3, 1));
    assert_eq!(own.dormant(5000), 1);
    // By the most that may be in flight.
    let mut all = bench(Algorithm::Vegas, 3, 20);
    for _ in 0..all.admission.levels().limit {
        all.start(100, request(0, 3, 1));
    }
    for _ in 0..3 {
        let _waits = all.wait(100, request(0, 3, 1));
    }
    all.admission.advance(at(600));
    assert_eq!((all.admission.levels().limit, all.admission.levels().in_flight), (3, 3));
    // By none where there are to be none.
    assert_eq!(
        {
            let mut none = bench(Algorithm::Aimd, 100, 0);
            none.start(100, request(0, 3, 1));
            none.serve(100, 700);
            none.dormant(700)
        },
        0
    );
}

#[test]
fn a_limit_that_is_set_by_hand_holds_for_them() {
    let mut bench = bench(Algorithm::Fixed, 100, 20);
    bench.start(100, request(0, 3, 1));
    bench.serve(100, 700);
    assert_eq!(bench.dormant(700), 0);
}

#[test]
fn requests_that_are_slow_as_a_rule_are_none() {
    let mut bench = Bench::new(&AdmissionSettings {
        algorithm: Algorithm::Aimd,
        limit: LimitBounds { initial: 2, min: 2, max: 100 },
        ..settings(2, 1)
    });
    bench.start(0, request(0, 3, 1));
    bench.start(0, request(0, 3, 1));
    let waits = bench.wait(0, request(0, 3, 1));
    assert_eq!(bench.dormant(900), 0, "nothing is known yet");
    assert_eq!(bench.admission.leave(at(900), waits), Departure::Left);
    bench.depart(900);
    // Beside it others of 800 ms each.
    for moment in (900..20_000).step_by(800) {
        bench.start(moment, request(0, 3, 1));
        let permit = bench.permits.pop().expect("just started");
        bench.admission.depart(at(moment + 800), permit, Outcome::Success);
        assert_eq!(
            bench.dormant(moment + 800),
            u64::from(moment + 800 > 17_500),
            "20 times as long as usual"
        );
    }
}

#[test]
fn a_class_bound_counts_them() {
    let mut settings = AdmissionSettings {
        algorithm: Algorithm::Aimd,
        limit: LimitBounds { initial: 2, min: 2, max: 100 },
        ..settings(2, 2)
    };
    settings.classes[1].in_flight_max = Some(1);
    let mut bench = Bench::new(&settings);
    bench.start(0, request(1, 3, 1));
    bench.serve(0, 600);
    assert_eq!(bench.dormant(600), 1);
    let _waits = bench.wait(600, request(1, 3, 1));
    bench.serve(600, 700);
}

#[test]
fn when_it_ends_it_is_a_sample_of_the_time_for_which_it_counted() {
    let mut bench = bench(Algorithm::KneeTrack, 100, 20);
    bench.start(100, request(0, 3, 1));
    bench.serve(100, 700);
    assert_eq!(bench.dormant(700), 1);
    let before = bench.admission.limiter().clone();
    bench.depart(60_000);
    let Limiter::KneeTrack(knee) = bench.admission.limiter() else { panic!("it is KneeTrack") };
    let Limiter::KneeTrack(mut other) = before else { panic!("it is KneeTrack") };
    // The same as if it had ended 250 ms after its start.
    let load = crate::limit::Load { in_flight: &[0], started: &[66], limit_holds: false, rate_holds: false };
    other.advance(at(60_000), &load);
    let sample = crate::limit::Sample {
        now: at(60_000),
        class: ClassId(0),
        response_time: 250 * MS,
        in_flight: 1,
        limit_utilised: false,
        outcome: Outcome::Success,
        weight: 1,
    };
    other.sample(&sample);
    assert_eq!(*knee, other);
}
