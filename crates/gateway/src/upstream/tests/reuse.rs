//! Connections used again, and what happens when they have gone stale.

use super::*;
use crate::upstream::{pool::SURELY_OPEN, send::STALE_WITHIN};

async fn get_text(bench: &Bench, path: &str) -> String {
    text(bench.get(path).await.expect("a head").into_body()).await.expect("a body")
}

#[test]
fn a_connection_serves_one_request_after_another() {
    run(async {
        let raw = Raw::bind().await;
        let bench = Bench::new(&[raw.address()], |_| {});
        let server = async {
            let mut peer = raw.accept().await;
            peer.answer("one").await;
            peer.head().await;
            peer.write("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\ntwo\r\n0\r\n\r\n").await;
            peer.head().await;
            peer.write("HTTP/1.1 304 Not Modified\r\ncontent-length: 100\r\n\r\n").await;
            // Interim responses are skipped.
            peer.head().await;
            peer.write(
                "HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
            )
            .await;
            peer.answer("five").await;
        };
        let client = async {
            assert_eq!(get_text(&bench, "/1").await, "one");
            assert_eq!(get_text(&bench, "/2").await, "two");
            let not_modified = bench.get("/3").await.expect("a head");
            assert_eq!(not_modified.headers()["content-length"], "100");
            assert_eq!(get_text(&bench, "/4").await, "");
            assert_eq!(get_text(&bench, "/5").await, "five");
        };
        tokio::join!(client, server);
        assert_eq!(bench.connects(), 1);
        assert_eq!(bench.count(Meter::SERVER_REQUESTS), [5]);
        assert_eq!(bench.in_flight(), 0);
    });
}

#[test]
fn a_response_to_head_has_no_body_whatever_its_length_says() {
    run(async {
        let raw = Raw::bind().await;
        let bench = Bench::new(&[raw.address()], |_| {});
        let server = async {
            let mut peer = raw.accept().await;
            peer.head().await;
            peer.write("HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n").await;
            peer.answer("next").await;
        };
        let client = async {
            let head = bench.send(request(Method::HEAD, "/", RequestBody::Empty)).await.expect("a head");
            assert_eq!(head.headers()["content-length"], "1000");
            assert_eq!(text(head.into_body()).await.expect("no body"), "");
            assert_eq!(get_text(&bench, "/").await, "next");
        };
        tokio::join!(client, server);
        assert_eq!(bench.connects(), 1);
    });
}

#[test]
fn connections_that_say_close_or_speak_http_1_0_are_not_used_again() {
    for head in [
        "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 1\r\n\r\nx",
        "HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ncontent-length: 1\r\n\r\nx",
    ] {
        run(async {
            let raw = Raw::bind().await;
            let bench = Bench::new(&[raw.address()], |_| {});
            let server = async {
                let mut first = raw.accept().await;
                first.head().await;
                first.write(head).await;
                raw.accept().await.answer("y").await;
                first.closed().await;
            };
            let client = async {
                assert_eq!(get_text(&bench, "/").await, "x");
                assert_eq!(get_text(&bench, "/").await, "y");
            };
            tokio::join!(client, server);
        });
    }
}

/// Serves one request, then does `then` to the idle connection before the next request, which must
/// arrive on a new one.
async fn stale_before(then: impl AsyncFnOnce(Peer)) {
    let raw = Raw::bind().await;
    let bench = Bench::new(&[raw.address()], |_| {});
    let first = async {
        let mut peer = raw.accept().await;
        peer.answer("one").await;
        peer
    };
    let (body, peer) = tokio::join!(get_text(&bench, "/1"), first);
    assert_eq!(body, "one");
    then(peer).await;
    // Whatever its method: nothing of it has reached the server.
    let post = request(Method::POST, "/2", RequestBody::Whole("body".into()));
    let second = async {
        let mut peer = raw.accept().await;
        let head = peer.head().await;
        assert!(head.starts_with("POST /2 HTTP/1.1\r\n"), "{head}");
        assert!(head.contains("content-length: 4\r\n"), "{head}");
        assert_eq!(peer.read_until(b"body").await, "body");
        peer.write("HTTP/1.1 204 No Content\r\n\r\n").await;
    };
    let (sent, ()) = tokio::join!(bench.send(post), second);
    assert_eq!(sent.expect("an answer").status(), 204);
    assert_eq!(bench.count(Meter::UPSTREAM_ERRORS).iter().sum::<u64>(), 0);
    assert_eq!(bench.count(Meter::RESENDS), [0], "it was sent once");
}

#[test]
fn an_idle_connection_that_was_closed_is_replaced_unseen() {
    run(stale_before(async |peer| {
        drop(peer);
        // The kernel's news reaches the runtime with its next look at the sockets.
        tokio::task::yield_now().await;
    }));
    run(stale_before(async |peer| peer.reset()));
    run(stale_before(async |mut peer| {
        peer.write("HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").await;
        tokio::task::yield_now().await;
    }));
}

/// A server that closes its idle connection at the moment the next request arrives on it.
async fn stale_at_the_moment(
    method: Method,
    body: RequestBody,
) -> (Bench, Result<Response<UpstreamBody>, Box<SendError>>, usize) {
    let raw = Raw::bind().await;
    let bench = Bench::new(&[raw.address()], |_| {});
    let served = Cell::new(0);
    let server = async {
        let mut peer = raw.accept().await;
        peer.answer("one").await;
        peer.head().await;
        peer.reset();
        loop {
            let mut peer = raw.accept().await;
            let head = peer.head().await;
            assert!(head.contains("x-kept: yes\r\n"), "{head}");
            served.set(served.get() + 1);
            peer.write("HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nsecond").await;
        }
    };
    let client = async {
        assert_eq!(get_text(&bench, "/1").await, "one");
        let mut request = request(method, "/2", body);
        request.headers_mut().insert("x-kept", "yes".parse().expect("a value"));
        bench.send(request).await
    };
    let sent = tokio::select! {
        sent = client => sent,
        () = server => unreachable!("it serves for ever"),
    };
    let served = served.get();
    (bench, sent, served)
}

#[test]
fn an_idempotent_request_that_met_a_stale_connection_is_sent_once_more() {
    run(async {
        for body in [RequestBody::Empty, RequestBody::Whole("abc".into())] {
            let (bench, sent, served) = stale_at_the_moment(Method::PUT, body).await;
            assert_eq!(text(sent.expect("an answer").into_body()).await.expect("a body"), "second");
            assert_eq!(served, 1);
            assert_eq!(bench.errors(UpstreamError::Reset), 0);
            assert_eq!(
                bench.count(Meter::SERVER_REQUESTS),
                [2],
                "one request is one, however often it is sent"
            );
            assert_eq!(bench.count(Meter::RESENDS), [1]);
        }
    });
}

/// A worker that is killed over its request, say: that the connection had been used before tells nothing then.
#[test]
fn a_request_that_a_server_gave_up_late_is_not_sent_again_unseen() {
    run(async {
        let raw = Raw::bind().await;
        let bench = Bench::new(&[raw.address()], |_| {});
        let server = async {
            let mut peer = raw.accept().await;
            peer.answer("one").await;
            peer.head().await;
            peer.reset();
            raw.accept().await.answer("again").await;
        };
        let client = async {
            assert_eq!(get_text(&bench, "/1").await, "one");
            // As if it had been sent so long ago.
            let sent_at = bench.shared.clock().now() - (STALE_WITHIN + Duration::from_millis(1));
            let sent = request(Method::GET, "/2", RequestBody::Empty).into();
            bench.upstreams.send(bench.choose(), sent, &bench.client, sent_at, &|_| {}).await
        };
        let sent = tokio::select! {
            sent = client => sent,
            () = server => unreachable!("sent again"),
        };
        let error = sent.expect_err("not sent again");
        assert_eq!(error.kind, UpstreamError::Reset);
        assert!(error.replay.is_some(), "another server may have it, within the budget");
        assert_eq!(bench.errors(UpstreamError::Reset), 1);
        assert_eq!(bench.connects(), 1);
    });
}

#[test]
fn what_may_not_be_sent_twice_goes_on_a_connection_just_used_or_a_new_one() {
    run(async {
        let raw = Raw::bind().await;
        let bench = Bench::new(&[raw.address()], |_| {});
        let server = async {
            for answers in [["1", "2", "3"].as_slice(), &["4", "5"], &["6"]] {
                let mut peer = raw.accept().await;
                for answer in answers {
                    peer.answer(answer).await;
                }
                if answers.len() > 1 {
                    peer.closed().await;
                }
            }
        };
        let send = async |method: Method, idle: Duration| {
            let body = if method == Method::PUT { stream().1 } else { RequestBody::Empty };
            let now = bench.shared.clock().now() + idle;
            let sent = request(method, "/", body).into();
            let sent = bench.upstreams.send(bench.choose(), sent, &bench.client, now, &|_| {}).await;
            text(sent.expect("a head").into_body()).await.expect("a body")
        };
        let client = async {
            assert_eq!(send(Method::GET, Duration::ZERO).await, "1");
            assert_eq!(send(Method::POST, Duration::ZERO).await, "2");
            assert_eq!(send(Method::GET, SURELY_OPEN).await, "3");
            assert_eq!(send(Method::POST, SURELY_OPEN).await, "4");
            assert_eq!(send(Method::PATCH, Duration::ZERO).await, "5");
            // Idempotent, but it streams by.
            assert_eq!(send(Method::PUT, SURELY_OPEN).await, "6");
        };
        tokio::join!(client, server);
        assert_eq!(bench.connects(), 3);
    });
}

#[test]
fn a_post_that_may_have_reached_the_server_is_not_sent_twice() {
    run(async {
        let (bench, sent, served) = stale_at_the_moment(Method::POST, RequestBody::Whole("abc".into())).await;
        let error = sent.expect_err("not sent again");
        assert_eq!(error.kind, UpstreamError::Reset);
        assert!(error.request.is_none());
        assert_eq!(served, 0);
        assert_eq!(bench.errors(UpstreamError::Reset), 1);
        assert_eq!(bench.in_flight(), 0);
    });
}

#[test]
fn a_streaming_body_that_is_gone_is_not_sent_twice() {
    run(async {
        let (sender, body) = stream();
        sender.send(Ok("abc".into())).expect("a receiver");
        drop(sender);
        let (_bench, sent, served) = stale_at_the_moment(Method::PUT, body).await;
        assert_eq!(sent.expect_err("not sent again").kind, UpstreamError::Reset);
        assert_eq!(served, 0);
    });
}

/// NTLM and its like authenticate connections: whoever spoke on one after somebody has logged in would be him.
#[test]
fn a_connection_on_which_somebody_authenticates_is_his_alone_and_ends_with_him() {
    run(async {
        let raw = Raw::bind().await;
        let mut bench = Bench::new(&[raw.address()], |_| {});
        // Asked for by the server, or begun by the client.
        for (authorization, challenge) in [("", "www-authenticate: NTLM"), ("Negotiate x", "a: b")] {
            let server = async {
                let mut his = raw.accept().await;
                his.head().await;
                let head = format!("HTTP/1.1 401 Unauthorized\r\n{challenge}\r\ncontent-length: 0\r\n\r\n");
                his.write(head).await;
                let mut others = raw.accept().await;
                others.answer("who are you?").await;
                his.answer("hello").await;
                others.answer("who are you?").await;
                // The next round begins with nobody's.
                others.reset();
                his.closed().await;
            };
            let client = async {
                let mut first = request(Method::GET, "/", RequestBody::Empty);
                if !authorization.is_empty() {
                    first.headers_mut().insert("authorization", authorization.parse().expect("a value"));
                }
                assert_eq!(bench.send(first).await.expect("a head").status(), 401);
                let his = bench.client.presence.take().expect("it has an owner");
                assert_eq!(get_text(&bench, "/").await, "who are you?");
                bench.client.presence = his.clone().into();
                assert_eq!(get_text(&bench, "/").await, "hello");
                bench.client.presence.take();
                assert_eq!(get_text(&bench, "/").await, "who are you?");
                bench.upstreams.sweep(true);
                assert_eq!(bench.upstreams.servers(&bench.application()).met()[0].pool.owned(), 1);
                drop(his);
                bench.upstreams.sweep(true);
            };
            tokio::join!(client, server);
        }
        assert_eq!(bench.connects(), 4);
    });
}

#[test]
fn a_connection_that_is_not_kept_says_so_and_serves_one_request() {
    run(async {
        let raw = Raw::bind().await;
        let bench = Bench::new(&[raw.address()], |_| {});
        let server = async {
            let mut kept = raw.accept().await;
            let head = kept.answer("kept").await;
            assert!(!head.contains("connection:"), "{head}");
            kept
        };
        let (said, kept) = tokio::join!(get_text(&bench, "/"), server);
        assert_eq!(said, "kept");

        bench.edit(|app| set(&mut app.values, "upstream.keep_alive", Value::Choice("never")));
        bench.upstreams.adopt(&bench.core.view());
        bench.upstreams.sweep(true);
        kept.closed().await;
        for _ in 0..2 {
            let server = async {
                let mut peer = raw.accept().await;
                // It does not say that it closes, and does not.
                let head = peer.answer("once").await;
                assert!(head.contains("\r\nconnection: close\r\n"), "{head}");
                peer.closed().await;
            };
            let (said, ()) = tokio::join!(get_text(&bench, "/"), server);
            assert_eq!(said, "once");
        }
        assert_eq!(bench.connects(), 3);
        assert_eq!(bench.in_flight(), 0);

        bench.edit(|app| set(&mut app.values, "upstream.keep_alive", Value::Choice("always")));
        bench.upstreams.adopt(&bench.core.view());
        bench.upstreams.sweep(true);
        let server = async {
            let mut peer = raw.accept().await;
            peer.answer("one").await;
            peer.answer("two").await;
        };
        let client = async {
            assert_eq!(get_text(&bench, "/").await, "one");
            assert_eq!(get_text(&bench, "/").await, "two");
        };
        tokio::join!(client, server);
        assert_eq!(bench.connects(), 4);
    });
}

#[test]
fn how_long_answered_and_abandoned_requests_take_is_seen_apart_by_what_their_connection_did_before() {
    run(async {
        let raw = Raw::bind().await;
        let bench = Bench::new(&[raw.address()], |_| {});
        let seen = || bench.upstreams.servers(&bench.application()).met()[0].waits.take().counts();
        let client = async {
            for _ in 0..3 {
                assert_eq!(get_text(&bench, "/").await, "x");
            }
        };
        let server = async {
            let mut peer = raw.accept().await;
            for _ in 0..3 {
                peer.answer("x").await;
            }
            peer
        };
        let ((), mut peer) = tokio::join!(client, server);
        assert_eq!(seen(), [2, 1], "the first opened its connection, the others found it just used");

        // Whoever asked has gone.
        tokio::select! {
            _ = bench.get("/") => unreachable!("it is not answered"),
            _ = peer.head() => {}
        }
        assert_eq!(seen(), [1, 0]);

        // That it failed says nothing of waiting.
        let fails = async { drop(raw.accept().await.head().await) };
        let (sent, ()) = tokio::join!(bench.send(request(Method::POST, "/", RequestBody::Empty)), fails);
        sent.expect_err("no answer");
        assert_eq!(seen(), [0, 0]);

        bench.edit(|app| set(&mut app.values, "upstream.keep_alive", Value::Choice("always")));
        bench.upstreams.adopt(&bench.core.view());
        let server = async { raw.accept().await.answer("x").await };
        tokio::join!(get_text(&bench, "/"), server);
        assert_eq!(seen(), [0, 0], "nobody asks");
    });
}

#[test]
fn idle_connections_are_bounded_in_number_and_time() {
    run(async {
        let raw = Raw::bind().await;
        let bench =
            Bench::new(&[raw.address()], |app| set(&mut app.values, "upstream.idle.max", Value::Count(2)));
        let server = async {
            let mut peers = Vec::new();
            for _ in 0..4 {
                peers.push(raw.accept().await);
            }
            for peer in &mut peers {
                peer.answer("x").await;
            }
            peers
        };
        let four = async {
            tokio::join!(
                get_text(&bench, "/"),
                get_text(&bench, "/"),
                get_text(&bench, "/"),
                get_text(&bench, "/")
            )
        };
        let (_, mut peers) = tokio::join!(four, server);
        let servers = bench.upstreams.servers(&bench.application());
        let pool = &servers.met()[0].pool;
        assert_eq!(pool.idle(), 2);
        closed(&mut peers, 2).await;

        // Closed by the server: noticed by the sweep.
        drop(peers.remove(0));
        while pool.idle() == 2 {
            tokio::task::yield_now().await;
            bench.upstreams.sweep(true);
        }
        assert_eq!(pool.idle(), 1);
        // Idle for too long: closed.
        bench.edit(|app| set(&mut app.values, "upstream.idle.timeout", ms(1)));
        bench.upstreams.adopt(&bench.core.view());
        while pool.idle() == 1 {
            tokio::time::sleep(Duration::from_millis(1)).await;
            bench.upstreams.sweep(true);
        }
        closed(&mut peers, 1).await;
    });
}

/// Waits until so many of the connections have been closed, and forgets those.
async fn closed(peers: &mut Vec<Peer>, mut count: usize) {
    while count > 0 {
        tokio::task::yield_now().await;
        let before = peers.len();
        peers.retain(|peer| !matches!(peer.stream.try_read(&mut [0; 1]), Ok(0)));
        count -= before - peers.len();
    }
}

#[test]
fn a_burst_opens_only_so_many_connections_at_once_and_all_are_served() {
    run(async {
        let raw = Raw::bind().await;
        let bench = Rc::new(Bench::new(&[raw.address()], |_| {}));
        let mut requests = tokio::task::JoinSet::new();
        for _ in 0..300 {
            let bench = Rc::clone(&bench);
            requests.spawn_local(async move { get_text(&bench, "/").await });
        }
        let server = async {
            loop {
                let mut peer = raw.accept().await;
                tokio::task::spawn_local(async move {
                    loop {
                        peer.answer("x").await;
                    }
                });
            }
        };
        let served = async {
            let mut served = 0;
            while let Some(body) = requests.join_next().await {
                assert_eq!(body.expect("no panic"), "x");
                served += 1;
            }
            served
        };
        let served =
            tokio::select! { served = served => served, () = server => unreachable!("it serves for ever") };
        assert_eq!(served, 300);
        assert_eq!(bench.in_flight(), 0);
        assert!(bench.connects() <= 300);
    });
}
