//! Who is chosen: stickiness, exclusion, full servers, names that change, servers that leave.

use std::pin::pin;

use tidegate_control::ServerId;

use super::*;

const A: &str = "10.0.0.1:80";
const B: &str = "10.0.0.2:80";
const C: &str = "10.0.0.3:80";

fn three(edit: impl FnOnce(&mut Application)) -> Bench {
    Bench::new(&[address(A), address(B), address(C)], edit)
}

fn policy(app: &mut Application, name: &'static str) {
    set(&mut app.values, "balance", Value::Choice(name));
}

#[test]
fn every_policy_finds_a_server_and_counts_it_in_flight() {
    for name in ["round_robin", "least_in_flight", "power_of_two", "consistent_hash"] {
        let bench = three(|app| policy(app, name));
        let chosen: Vec<Chosen> = (0..30)
            .map(|hash| bench.try_choose(ChooseHint { hash, ..ChooseHint::default() }).expect("one"))
            .collect();
        assert_eq!(bench.in_flight(), 30, "{name}");
        for server in bench.servers() {
            assert!(server.in_flight > 0, "{name}: {server:?}");
        }
        drop(chosen);
        assert_eq!(bench.in_flight(), 0, "{name}");
    }
}

#[test]
fn the_same_hash_finds_the_same_server() {
    let bench = three(|app| policy(app, "consistent_hash"));
    for hash in 0..20 {
        let hint = ChooseHint { hash: hash * 77_777, ..ChooseHint::default() };
        let first = bench.try_choose(hint).expect("one").server().id();
        for _ in 0..5 {
            assert_eq!(bench.try_choose(hint).expect("one").server().id(), first);
        }
    }
}

#[test]
fn a_cookie_keeps_a_visitor_at_its_server_as_long_as_that_takes_requests() {
    let bench = three(|app| app.upstream.sticky_cookie = Some("node".to_owned()));
    let first = bench.choose();
    let token = first.sticky_value().expect("a cookie for a new visitor");
    assert!(!token.contains("10.0"), "it tells nothing of the address: {token}");
    let id = first.server().id();
    drop(first);
    let hint = ChooseHint { sticky: Some(&token), ..ChooseHint::default() };
    for _ in 0..20 {
        let again = bench.try_choose(hint).expect("one");
        assert_eq!(again.server().id(), id);
        assert_eq!(again.sticky_value(), None, "the visitor has it already");
    }
    // Nonsense is a new visitor.
    let nonsense = ChooseHint { sticky: Some("nonsense"), ..ChooseHint::default() };
    assert!(bench.try_choose(nonsense).expect("one").sticky_value().is_some());
    // Drained: the visitor moves, and is told so.
    bench.edit(|app| set(&mut app.servers[id.index()].values, "drain", Value::Flag(true)));
    let moved = bench.try_choose(hint).expect("one");
    assert_ne!(moved.server().id(), id);
    assert!(moved.sticky_value().is_some_and(|value| value != token));
}

#[test]
fn a_retry_goes_elsewhere_or_nowhere() {
    for name in ["round_robin", "least_in_flight", "power_of_two", "consistent_hash"] {
        let bench = three(|app| policy(app, name));
        for hash in 0..20 {
            let exclude = [ServerId(0), ServerId(2)];
            let chosen = bench.try_choose(ChooseHint { hash, exclude: &exclude, ..ChooseHint::default() });
            assert_eq!(chosen.expect("the one left").server().id(), ServerId(1), "{name}");
        }
        let exclude = [ServerId(0), ServerId(1), ServerId(2)];
        assert!(
            bench.try_choose(ChooseHint { exclude: &exclude, ..ChooseHint::default() }).is_none(),
            "{name}"
        );
    }
    let one = Bench::new(&[address(A)], |_| {});
    assert!(one.try_choose(ChooseHint { exclude: &[ServerId(0)], ..ChooseHint::default() }).is_none());
}

#[test]
fn full_servers_are_not_chosen_and_say_when_they_have_room() {
    run(async {
        let bench = Bench::new(&[address(A), address(B)], |app| {
            for server in &mut app.servers {
                set(&mut server.values, "in_flight.max", Value::Count(1));
            }
        });
        let application = bench.application();
        let first = bench.choose();
        let second = bench.choose();
        assert_ne!(first.server().id(), second.server().id());
        assert!(bench.try_choose(ChooseHint::default()).is_none());
        let vacancy = bench.upstreams.vacancy(&application, &[], 3);
        tokio::pin!(vacancy);
        assert!(futures_poll(vacancy.as_mut()).await.is_none(), "both are full");
        let freed = first.server().id();
        drop(first);
        assert!(vacancy.await);
        assert_eq!(bench.choose().server().id(), freed);
        // Nobody to wait for.
        assert!(!bench.upstreams.vacancy(&application, &[ServerId(0), ServerId(1)], 3).await);
        bench.edit(|app| app.servers.clear());
        assert!(!bench.upstreams.vacancy(&bench.application(), &[], 3).await);
    });
}

#[test]
fn room_at_a_server_that_failed_one_request_goes_to_another() {
    run(async {
        let bench = Bench::new(&[address(A), address(B)], |app| {
            for server in &mut app.servers {
                set(&mut server.values, "in_flight.max", Value::Count(1));
            }
        });
        let application = bench.application();
        let (first, second) = (bench.choose(), bench.choose());
        let has_failed = [first.server().id()];
        let mut retry = pin!(bench.upstreams.vacancy(&application, &has_failed, 6));
        let mut other = pin!(bench.upstreams.vacancy(&application, &[], 3));
        assert!(futures_poll(retry.as_mut()).await.is_none());
        assert!(futures_poll(other.as_mut()).await.is_none());
        drop(first);
        assert!(futures_poll(retry.as_mut()).await.is_none(), "there it has failed");
        assert_eq!(futures_poll(other.as_mut()).await, Some(true));
        drop(second);
        assert_eq!(futures_poll(retry.as_mut()).await, Some(true));
    });
}

/// One poll; `None` while pending.
async fn futures_poll<F: Future>(mut future: Pin<&mut F>) -> Option<F::Output> {
    std::future::poll_fn(|context| {
        Poll::Ready(match future.as_mut().poll(context) {
            Poll::Ready(output) => Some(output),
            Poll::Pending => None,
        })
    })
    .await
}

#[test]
fn names_that_change_move_requests_and_failures_change_nothing() {
    run(async {
        let dns = FakeDns::default();
        dns.answer("app.test", &["10.0.0.1"]);
        let bench = Bench::with_lookup(&[("app.test".to_owned(), 80)], |_| {}, dns.clone());
        assert!(bench.try_choose(ChooseHint::default()).is_none(), "not looked up yet");
        bench.upstreams.resolve_all().await;
        let old = bench.choose();
        assert_eq!(old.endpoint().to_string(), "10.0.0.1:80");
        dns.answer("app.test", &["10.0.0.2"]);
        bench.upstreams.resolve_all().await;
        assert_eq!(bench.choose().endpoint().to_string(), "10.0.0.2:80");
        // The request that was on its way is still counted where it went.
        let listed: Vec<(bool, u32)> = bench.servers().iter().map(|s| (s.is_member, s.in_flight)).collect();
        assert_eq!(listed, [(false, 1), (true, 0)]);
        drop(old);
        dns.fail("app.test");
        bench.upstreams.resolve_all().await;
        assert_eq!(bench.choose().endpoint().to_string(), "10.0.0.2:80");
        dns.answer("app.test", &[]);
        bench.upstreams.resolve_all().await;
        assert_eq!(bench.choose().endpoint().to_string(), "10.0.0.2:80");
    });
}

/// As where a server's resolver is down for one domain.
#[test]
fn a_name_that_is_slow_to_be_answered_holds_up_no_other() {
    run(async {
        let dns = FakeDns::default();
        dns.silence("slow.test");
        dns.answer("app.test", &["10.0.0.1"]);
        let names = [("slow.test".to_owned(), 80), ("app.test".to_owned(), 80)];
        let bench = Bench::with_lookup(&names, |_| {}, dns.clone());
        let background = tokio::task::spawn_local(Rc::clone(&bench.upstreams).maintain());
        let chosen = async |wanted: &str| {
            while bench.try_choose(ChooseHint::default()).is_none_or(|c| c.endpoint().to_string() != wanted) {
                tokio::task::yield_now().await;
            }
        };
        chosen("10.0.0.1:80").await;
        dns.answer("new.test", &["10.0.0.9"]);
        bench.edit(|app| app.servers = vec![server("slow.test", 80), server("new.test", 81)]);
        chosen("10.0.0.9:81").await;
        // Each was asked for once: not the slow one again with each that is new.
        assert_eq!(dns.asked.get(), 3);
        background.abort();
    });
}

#[test]
fn names_are_looked_up_in_the_background() {
    run(async {
        let dns = FakeDns::default();
        dns.answer("app.test", &["10.0.0.1"]);
        let bench = Bench::with_lookup(&[("app.test".to_owned(), 80)], |_| {}, dns.clone());
        let background = tokio::task::spawn_local(Rc::clone(&bench.upstreams).maintain());
        let chosen = loop {
            if let Some(chosen) = bench.try_choose(ChooseHint::default()) {
                break chosen;
            }
            tokio::task::yield_now().await;
        };
        assert_eq!(chosen.endpoint().to_string(), "10.0.0.1:80");
        assert_eq!(dns.asked.get(), 1);
        // A name that is new to the settings does not wait for the interval.
        dns.answer("other.test", &["10.0.0.9"]);
        bench.edit(|app| app.servers = vec![server("other.test", 81)]);
        loop {
            if bench
                .try_choose(ChooseHint::default())
                .is_some_and(|c| c.endpoint().to_string() == "10.0.0.9:81")
            {
                break;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        background.abort();
    });
}

#[test]
fn a_server_that_leaves_ends_what_it_has_begun_and_gets_nothing_new() {
    run(async {
        let (old, new) = (Raw::bind().await, Raw::bind().await);
        let bench = Bench::new(&[old.address()], |_| {});
        let (sent, mut peer) = {
            let server = async {
                let mut peer = old.accept().await;
                peer.head().await;
                peer.write("HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nold").await;
                peer
            };
            tokio::join!(bench.get("/"), server)
        };
        bench.edit(|app| app.servers = vec![server("127.0.0.1", new.address().port())]);
        let serve_new = async { new.accept().await.answer("new").await };
        let (second, _) = tokio::join!(bench.get("/"), serve_new);
        assert_eq!(text(second.expect("a head").into_body()).await.expect("a body"), "new");
        peer.write("end").await;
        assert_eq!(text(sent.expect("a head").into_body()).await.expect("a body"), "oldend");
        // Its connection is closed with the next sweep.
        bench.upstreams.sweep(true);
        peer.closed().await;
        assert_eq!(bench.servers().len(), 1);
    });
}
