//! A class's lead, step by step.

use super::*;

/// A limit of 2, of which class 0 may have one, with a lead of 2 ms; class 1 passes the limit and takes both.
fn critical_beside_others(mode: Mode) -> AdmissionSettings {
    let mut settings = settings(2, 2);
    settings.mode = mode;
    settings.classes[0].in_flight_max = Some(1);
    settings.classes[0].in_flight_lead = Some(MS * 2);
    settings
}

/// Eight of class 0 have taken 10 ms each, one after another; the ninth begins at 80 ms.
fn steady(settings: &AdmissionSettings) -> Bench {
    let mut bench = Bench::new(settings);
    for n in 0..8 {
        bench.start(10 * n, request(0, 3, 1));
        bench.depart(10 * n + 10);
    }
    bench.start(80, request(0, 3, 1));
    bench
}

impl Bench {
    fn advance(&mut self, now: u64) {
        self.admission.advance(at(now));
        self.admission.check_invariants();
    }
}

#[test]
fn the_next_starts_a_lead_before_the_end_and_only_one() {
    let mut bench = steady(&critical_beside_others(Mode::Enforce));
    let (second, third) = (bench.wait(81, request(0, 3, 1)), bench.wait(81, request(0, 3, 1)));
    assert_eq!(bench.admission.next_timeout(), Some(at(88)), "the timer knows");
    bench.advance(87);
    assert_eq!(bench.decided(), []);
    bench.advance(88);
    bench.granted(88, second);
    assert_eq!(bench.admission.levels().in_flight, 2);
    // The first ends, and the second counts from there.
    bench.depart(90);
    assert_eq!(bench.admission.next_timeout(), Some(at(98)));
    bench.advance(98);
    bench.granted(98, third);
}

/// Nobody is let in by a failed exchange, nor after the one that was let in by a lead has failed while the first goes on.
#[test]
fn failures_neither_teach_nor_let_in_more() {
    let mut bench = steady(&critical_beside_others(Mode::Enforce));
    for n in 0..40 {
        let permit = bench.permits.remove(0);
        let outcome = if n % 2 == 0 { Outcome::Drop } else { Outcome::Ignore };
        bench.admission.depart(at(80 + n), permit, outcome);
        bench.start(80 + n, request(0, 3, 1));
    }
    let [second, third, fourth] = [119; 3].map(|now| bench.wait(now, request(0, 3, 1)));
    assert_eq!(bench.admission.next_timeout(), Some(at(127)), "a time is 10 ms as before");
    bench.advance(127);
    bench.granted(127, second);
    assert_eq!(bench.admission.levels().in_flight, 2);
    let failed = bench.permits.remove(1);
    bench.admission.depart(at(128), failed, Outcome::Drop);
    bench.granted(128, third);
    assert_eq!(bench.admission.levels().in_flight, 2, "one again, and not two");
    bench.advance(140);
    assert_eq!(bench.decided(), [second, third]);
    bench.depart(141);
    assert_eq!(bench.admission.collect(at(141), fourth), None, "the third is under way since then");
}

/// A stream gives its permit back before its server is done.
#[test]
fn what_becomes_a_stream_is_no_time() {
    let mut settings = critical_beside_others(Mode::Enforce);
    settings.long_streams_max = 1000;
    let mut bench = steady(&settings);
    for n in 0..40 {
        let permit = bench.permits.remove(0);
        let stream = bench.admission.begin_stream(at(81 + n), permit, Outcome::Success).unwrap();
        bench.admission.end_stream(stream);
        bench.start(81 + n, request(0, 3, 1));
    }
    bench.wait(120, request(0, 3, 1));
    assert_eq!(bench.admission.next_timeout(), Some(at(128)));
}

/// The lead passes the class's bound and never the application's limit: while a critical request is there nobody starts.
#[test]
fn the_limit_holds_whom_the_lead_would_let_start() {
    let mut bench = steady(&critical_beside_others(Mode::Enforce));
    let second = bench.wait(81, request(0, 3, 1));
    bench.start(82, request(1, 7, 2));
    bench.advance(89);
    assert_eq!(bench.decided(), []);
    // The critical one has ended, and the first is not over yet.
    let critical = bench.permits.remove(1);
    bench.admission.depart(at(89), critical, Outcome::Success);
    bench.granted(89, second);
}

/// What only watches lets shadows start by the same rule: nobody would have waited beyond that.
#[test]
fn shadows_start_with_a_lead_as_well() {
    let mut bench = steady(&critical_beside_others(Mode::Watch));
    bench.start(81, request(0, 3, 1));
    let waiting =
        |bench: &Bench| bench.admission.levels().would_wait().map(|(_, queued)| queued).sum::<usize>();
    assert_eq!(waiting(&bench), 1);
    assert_eq!(bench.admission.next_timeout(), Some(at(88)));
    bench.advance(88);
    assert_eq!(waiting(&bench), 0);
}

/// Without a bound of the class, or while that does not act, a lead is nothing.
#[test]
fn a_lead_without_a_bound_is_nothing() {
    let mut settings = critical_beside_others(Mode::Enforce);
    settings.classes[0].modes.in_flight = Some(Mode::Off);
    let mut bench = steady(&settings);
    bench.start(81, request(0, 3, 1));
    bench.wait(81, request(0, 3, 1));
    bench.advance(89);
    assert_eq!(bench.decided(), []);
}
