//! Servers that fail live requests or probes go out of service, and come back.

use tidegate_control::health::Condition;

use super::*;

#[test]
fn failures_take_a_server_out_and_the_other_takes_over() {
    run(async {
        let good = Raw::bind().await;
        let dead = Raw::nobody().await;
        let bench = Bench::new(&[dead, good.address()], |app| {
            set(&mut app.values, "health.failures.max", Value::Count(2));
            set(&mut app.values, "balance", Value::Choice("round_robin"));
        });
        let server = async {
            loop {
                let mut peer = good.accept().await;
                tokio::task::spawn_local(async move {
                    loop {
                        peer.answer("good").await;
                    }
                });
            }
        };
        let client = async {
            let mut failed = 0;
            for _ in 0..40 {
                match bench.get("/").await {
                    Ok(response) => assert_eq!(text(response.into_body()).await.expect("a body"), "good"),
                    Err(error) => {
                        assert_eq!(error.kind, UpstreamError::Connect);
                        failed += 1;
                    }
                }
            }
            assert_eq!(failed, 2, "two failures, then it is out");
        };
        tokio::select! { () = client => {}, () = server => unreachable!("it serves for ever") };
        assert!(matches!(bench.servers()[0].condition, Condition::Paused(_)));
        assert_eq!(bench.servers()[1].condition, Condition::Up);
        assert!(bench.servers()[1].response_time.is_some());
    });
}

#[test]
fn when_every_server_is_out_by_live_failures_requests_still_go_somewhere() {
    run(async {
        let dead = [Raw::nobody().await, Raw::nobody().await];
        let bench = Bench::new(&dead, |app| set(&mut app.values, "health.failures.max", Value::Count(1)));
        for _ in 0..10 {
            assert_eq!(bench.get("/").await.expect_err("dead").kind, UpstreamError::Connect);
        }
        assert!(bench.servers().iter().all(|server| matches!(server.condition, Condition::Paused(_))));
        assert!(bench.try_choose(ChooseHint::default()).is_some());
    });
}

#[test]
fn a_pause_ends_by_itself() {
    run(async {
        let (raw, other) = (Raw::bind().await, Raw::bind().await);
        let bench = Bench::new(&[raw.address(), other.address()], |app| {
            set(&mut app.values, "health.failures.max", Value::Count(1));
            set(&mut app.values, "health.failures.pause", ms(20));
        });
        let first = bench.choose();
        let id = first.server().id();
        let failing = if id.index() == 0 { &raw } else { &other };
        let server = async { failing.accept().await.reset() };
        let get = request(Method::GET, "/", RequestBody::Empty);
        let (sent, ()) = tokio::join!(bench.send_to(first, get), server);
        assert!(sent.is_err());
        assert_ne!(bench.choose().server().id(), id);
        while bench.choose().server().id() != id {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(bench.servers()[id.index()].condition, Condition::OnTrial);
    });
}

#[test]
fn probes_take_a_server_out_and_bring_it_back() {
    run(async {
        let raw = Raw::bind().await;
        let is_well = Rc::new(Cell::new(false));
        let well = Rc::clone(&is_well);
        let address = raw.address();
        let probed = Rc::new(RefCell::new(String::new()));
        let last = Rc::clone(&probed);
        tokio::task::spawn_local(async move {
            loop {
                let mut peer = raw.accept().await;
                let head = peer.head().await;
                last.replace(head);
                let status = if well.get() { "302 Found" } else { "503 Service Unavailable" };
                peer.write(format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n")).await;
            }
        });
        let bench = Bench::new(&[address], |app| {
            app.upstream.probe_path = "/health?deep=1".to_owned();
            set(&mut app.values, "health.probe.interval", ms(10));
        });
        let background = tokio::task::spawn_local(Rc::clone(&bench.upstreams).maintain());
        let until = async |wanted: Condition| {
            while bench.servers()[0].condition != wanted {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        until(Condition::ProbedDown).await;
        assert!(
            bench.try_choose(ChooseHint::default()).is_none(),
            "probed down stays out, even as the last one"
        );
        let head = probed.borrow().clone();
        assert!(head.starts_with("GET /health?deep=1 HTTP/1.1\r\n"), "{head}");
        assert!(head.contains(&format!("host: 127.0.0.1:{}\r\n", address.port())), "{head}");
        is_well.set(true);
        until(Condition::Up).await;
        assert!(bench.try_choose(ChooseHint::default()).is_some());
        // Switched off: what probes had found is forgotten.
        is_well.set(false);
        until(Condition::ProbedDown).await;
        bench.edit(|app| set(&mut app.values, "health.probe.interval", Value::None));
        assert_eq!(bench.servers()[0].condition, Condition::Up);
        background.abort();
    });
}

#[test]
fn a_probe_that_is_not_answered_in_time_is_bad() {
    run(async {
        let raw = Raw::bind().await;
        let bench = Bench::new(&[raw.address()], |app| {
            set(&mut app.values, "health.probe.interval", ms(10));
            set(&mut app.values, "health.probe.timeout", ms(10));
            set(&mut app.values, "health.probe.fall", Value::Count(1));
        });
        let background = tokio::task::spawn_local(Rc::clone(&bench.upstreams).maintain());
        // Accepts by the kernel, answers never.
        while bench.servers()[0].condition != Condition::ProbedDown {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        background.abort();
    });
}

#[test]
fn a_server_that_is_new_grows_into_its_weight() {
    run(async {
        let bench = Bench::new(&[address("10.0.0.1:80"), address("10.0.0.2:80")], |app| {
            set(&mut app.values, "slow_start", Value::Span(Duration::from_secs(3600)));
        });
        let weights = || {
            drop(bench.choose());
            let servers = bench.upstreams.servers(&bench.application());
            let choices = servers.choices.borrow();
            choices.candidates.iter().map(|candidate| candidate.weight).collect::<Vec<_>>()
        };
        assert_eq!(weights(), [10, 10], "a tenth of 100");
        bench.edit(|app| set(&mut app.values, "slow_start", Value::Span(Duration::ZERO)));
        assert_eq!(weights(), [100, 100]);
        bench.edit(|app| set(&mut app.values, "slow_start", ms(20)));
        while weights() != [100, 100] {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    });
}
