//! Controls that act, watch or are off by themselves.

use super::*;

fn counts(bench: &mut Bench) -> Vec<(u16, Refusal, u64)> {
    let mut counts = Vec::new();
    bench.admission.drain_would_refuse(|class, refusal, count| counts.push((class.0, refusal, count)));
    counts
}

fn would_wait(bench: &Bench) -> usize {
    bench.admission.levels().would_wait().map(|(_, waiting)| waiting).sum()
}

#[test]
fn a_rate_can_watch_while_the_rest_acts_and_act_while_the_rest_watches() {
    let mut settings = settings(1, 2);
    settings.classes[1].ingress = Some(Rate { per_s: 0.001, burst: 1.0 });
    settings.classes[1].modes.ingress = Some(Mode::Watch);
    settings.classes[1].queue.max = 1;
    let mut bench = Bench::new(&settings);
    bench.start(0, request(1, 3, 1)); // the token
    bench.wait(0, request(1, 3, 1)); // counted, and goes on to the queue
    assert_eq!(bench.refused(0, request(1, 3, 1)), Refusal::QueueFull, "which acts");
    assert_eq!(counts(&mut bench), [(1, Refusal::IngressRate, 2)]);

    // The class goes by the application's, and that by itself: the rates act, nothing else does.
    settings.mode = Mode::Watch;
    settings.modes.ingress = Some(Mode::Enforce);
    settings.classes[1].modes.ingress = None;
    let mut bench = Bench::new(&settings);
    bench.start(0, request(1, 3, 1));
    assert_eq!(bench.refused(0, request(1, 3, 1)), Refusal::IngressRate);
    bench.start(0, request(0, 3, 1));
    assert_eq!(counts(&mut bench), [], "it was refused, and the limit only watches");
    settings.mode = Mode::Off;
    bench.admission.configure(at(1), &settings);
    assert_eq!(bench.refused(1, request(1, 3, 1)), Refusal::IngressRate);
    // Of no consequence, whatever the rest does.
    settings.mode = Mode::Enforce;
    settings.modes.ingress = Some(Mode::Off);
    settings.limit.initial = 10;
    bench.admission.configure(at(2), &settings);
    bench.start(2, request(1, 3, 1));
    assert_eq!(counts(&mut bench), []);
}

#[test]
fn a_limit_can_watch_beside_a_rate_of_starts_that_acts() {
    let mut settings = settings(1, 1);
    settings.modes.in_flight = Some(Mode::Watch);
    settings.egress = Some(Rate { per_s: 0.001, burst: 3.0 });
    settings.classes[0].queue.max = 1;
    let mut bench = Bench::new(&settings);
    bench.start(0, request(0, 3, 1));
    bench.start(0, request(0, 3, 1)); // would wait
    bench.start(0, request(0, 3, 1)); // would be refused
    bench.wait(0, request(0, 3, 1)); // no token: this acts
    assert_eq!(bench.refused(0, request(0, 3, 1)), Refusal::QueueFull, "as does this");
    let refused: Vec<_> = bench.permits.iter().map(Permit::would_refuse).collect();
    assert_eq!(refused, [None, None, Some(Refusal::QueueFull)]);
    assert_eq!(counts(&mut bench), [(0, Refusal::QueueFull, 1)], "who waits in truth counts when he starts");
    let levels = bench.admission.levels();
    assert_eq!((levels.in_flight, levels.limit, levels.queued().next()), (3, 1, Some((ClassId(0), 1))));
    assert_eq!(would_wait(&bench), 1);
}

#[test]
fn bounds_of_queues_can_watch_beside_a_limit_that_acts() {
    let mut settings = settings(1, 1);
    settings.modes.queue = Some(Mode::Watch);
    settings.classes[0].queue.max = 1;
    settings.classes[0].queue.wait_max = Some(MS * 30);
    let mut bench = Bench::new(&settings);
    bench.start(0, request(0, 3, 1));
    let tickets: Vec<_> = (0..3).map(|_| bench.wait(0, request(0, 3, 1))).collect();
    bench.admission.advance(at(40));
    assert_eq!((bench.decided(), counts(&mut bench)), (vec![], vec![]), "nobody is refused");
    bench.depart(50);
    assert_eq!(bench.decided(), [tickets[0]]);
    bench.granted(50, tickets[0]);
    assert_eq!(bench.permits[0].would_refuse(), Some(Refusal::WaitTooLong));
    assert_eq!(counts(&mut bench), [(0, Refusal::WaitTooLong, 1)]);

    // None of those ahead of the next one would be there: it would start at once, and the one after it as soon as an exchange
    // ends that would not have been.
    let next = bench.wait(51, request(0, 3, 1));
    assert_eq!(would_wait(&bench), 0);
    let after = bench.wait(52, request(0, 3, 1));
    assert_eq!(would_wait(&bench), 1);
    bench.depart(60);
    assert_eq!(would_wait(&bench), 0);
    for ticket in [tickets[1], tickets[2]] {
        bench.granted(60, ticket);
        assert_eq!(bench.permits[0].would_refuse(), Some(Refusal::QueueFull));
        bench.depart(61);
    }
    for ticket in [next, after] {
        bench.granted(62, ticket);
        assert_eq!(bench.permits[0].would_refuse(), None);
        bench.depart(62);
    }
    assert_eq!(counts(&mut bench), [(0, Refusal::QueueFull, 2)]);
    assert_eq!(bench.admission.levels().in_flight, 0);
}

#[test]
fn a_rate_of_starts_that_watches_tells_at_the_end_whom_it_would_have_held_too_long() {
    let mut settings = settings(10, 1);
    settings.classes[0].egress = Some(Rate { per_s: 0.001, burst: 1.0 });
    settings.classes[0].modes.egress = Some(Mode::Watch);
    settings.classes[0].queue.wait_max = Some(MS * 30);
    let mut bench = Bench::new(&settings);
    (0..3).for_each(|_| bench.start(0, request(0, 3, 1)));
    assert_eq!((would_wait(&bench), counts(&mut bench)), (2, vec![]));
    let mut ends = |now| {
        let permit = bench.permits.remove(0);
        bench.admission.depart(at(now), permit, Outcome::Success)
    };
    assert_eq!([ends(10), ends(10), ends(30)], [None, None, Some(Refusal::WaitTooLong)]);
    assert_eq!(counts(&mut bench), [(0, Refusal::WaitTooLong, 1)]);
}

#[test]
fn of_two_classes_one_watches_its_own_bound_in_flight() {
    let mut settings = settings(10, 2);
    for class in &mut settings.classes {
        class.in_flight_max = Some(1);
    }
    settings.classes[1].modes.in_flight = Some(Mode::Watch);
    let mut bench = Bench::new(&settings);
    bench.start(0, request(0, 3, 1));
    bench.wait(0, request(0, 3, 1));
    bench.start(0, request(1, 3, 1));
    bench.start(0, request(1, 3, 1));
    let waits: Vec<_> = bench.admission.levels().would_wait().map(|(_, waiting)| waiting).collect();
    assert_eq!(waits, [1, 1]);
}

#[test]
fn who_is_refused_in_truth_or_leaves_counts_as_nothing() {
    let mut settings = settings(1, 1);
    settings.egress = Some(Rate { per_s: 0.001, burst: 1.0 });
    settings.modes.egress = Some(Mode::Watch);
    settings.classes[0].queue.max = 1;
    settings.classes[0].queue.wait_max = Some(MS * 30);
    let mut bench = Bench::new(&settings);
    bench.start(0, request(0, 3, 1));
    let waits = bench.wait(0, request(0, 3, 1));
    bench.admission.advance(at(30));
    assert_eq!(bench.refusal(30, waits), Refusal::WaitTooLong);
    let leaves = bench.wait(40, request(0, 3, 1));
    assert_eq!(bench.admission.leave(at(41), leaves), Departure::Left);
    assert_eq!((counts(&mut bench), would_wait(&bench)), (vec![], 0));
}

#[test]
fn when_bounds_begin_to_act_nobody_is_refused_for_what_was_before() {
    let mut settings = settings(1, 1);
    settings.modes.queue = Some(Mode::Off);
    settings.classes[0].queue.max = 1;
    settings.classes[0].queue.wait_max = Some(MS * 30);
    settings.classes[0].deadline = Some(MS * 20);
    let mut bench = Bench::new(&settings);
    bench.start(0, request(0, 3, 1));
    let tickets = [bench.wait(0, request(0, 3, 1)), bench.wait(95, request(0, 3, 1))];
    bench.admission.advance(at(100));
    assert_eq!(bench.admission.next_timeout(), None, "no wait ends by itself");
    settings.modes.queue = Some(Mode::Enforce);
    bench.admission.configure(at(100), &settings);
    assert_eq!(bench.decided(), []);
    assert_eq!(bench.refused(100, request(0, 3, 1)), Refusal::QueueFull);
    bench.admission.advance(at(115));
    assert_eq!(bench.decided(), [tickets[1]], "its deadline is still to come");
    assert_eq!(bench.refusal(115, tickets[1]), Refusal::DeadlinePassed);
    bench.admission.advance(at(129));
    assert_eq!(bench.decided(), []);
    bench.admission.advance(at(130));
    assert_eq!(bench.refusal(130, tickets[0]), Refusal::WaitTooLong);
}

#[test]
fn a_queue_without_bounds_still_ends() {
    let mut settings = settings(1, 1);
    settings.modes.queue = Some(Mode::Off);
    settings.classes[0].queue.max = 1;
    let mut bench = Bench::new(&settings);
    bench.start(0, request(0, 3, 1));
    for _ in 0..crate::queue::LEN_MAX {
        bench.wait(0, request(0, 3, 1));
    }
    assert_eq!(bench.refused(0, request(0, 3, 1)), Refusal::QueueFull);
}

#[test]
fn leaving_enforce_lets_in_what_nothing_else_holds() {
    let mut settings = settings(1, 1);
    settings.egress = Some(Rate { per_s: 0.001, burst: 2.0 });
    let mut bench = Bench::new(&settings);
    bench.start(0, request(0, 3, 1));
    let tickets = [bench.wait(0, request(0, 3, 1)), bench.wait(0, request(0, 3, 1))];
    settings.modes.in_flight = Some(Mode::Watch);
    bench.admission.configure(at(1), &settings);
    assert_eq!(bench.decided(), [tickets[0]], "there is one token");
    assert_eq!(would_wait(&bench), 2, "as before");
    bench.granted(1, tickets[0]);
    settings.modes.egress = Some(Mode::Off);
    bench.admission.configure(at(2), &settings);
    assert_eq!(bench.decided(), [tickets[1]]);
    bench.granted(2, tickets[1]);
    assert_eq!(bench.admission.levels().in_flight, 3);
    // The shadows go on where they were, and then go.
    bench.depart(3);
    assert_eq!(would_wait(&bench), 1);
    settings.modes.in_flight = None;
    bench.admission.configure(at(4), &settings);
    assert_eq!((would_wait(&bench), bench.admission.levels().in_flight), (0, 2));
    bench.depart(5);
    bench.depart(5);
    assert_eq!(bench.admission.levels().in_flight, 0);
    assert_eq!(counts(&mut bench), []);
}
