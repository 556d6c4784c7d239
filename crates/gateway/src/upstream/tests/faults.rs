//! Servers that refuse, break off, talk nonsense, lie or say nothing.

use super::*;

async fn answered_with(bytes: &'static [u8]) -> (Bench, Result<Response<UpstreamBody>, Box<SendError>>) {
    let raw = Raw::bind().await;
    let bench = Bench::new(&[raw.address()], |_| {});
    let sent = {
        let server = async {
            let mut peer = raw.accept().await;
            peer.head().await;
            peer.write(bytes).await;
        };
        let (sent, ()) = tokio::join!(bench.get("/"), server);
        sent
    };
    (bench, sent)
}

#[test]
fn a_refused_connection_gives_the_request_back() {
    run(async {
        let address = Raw::nobody().await;
        let bench = Bench::new(&[address], |_| {});
        let error = bench
            .send(request(Method::POST, "/", RequestBody::Whole("x".into())))
            .await
            .expect_err("refused");
        assert_eq!(error.kind, UpstreamError::Connect);
        assert!(error.message.contains(&address.to_string()), "{}", error.message);
        assert_eq!(error.request.expect("given back").head.method, Method::POST);
        assert_eq!(bench.errors(UpstreamError::Connect), 1);
        assert_eq!(bench.connects(), 0);
        assert_eq!(bench.in_flight(), 0);
    });
}

#[test]
fn a_connection_that_is_not_accepted_times_out() {
    run(async {
        // Nobody accepts and the backlog is full: the kernel leaves further handshakes unanswered.
        let socket =
            socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).expect("a socket");
        socket.bind(&address("127.0.0.1:0").into()).expect("a free port");
        socket.listen(0).expect("to listen");
        let full = socket.local_addr().expect("an address").as_socket().expect("of IP");
        let mut fillers = Vec::new();
        while let Ok(filler) =
            tokio::time::timeout(Duration::from_millis(200), TcpStream::connect(full)).await
        {
            fillers.push(filler.expect("room in the backlog"));
        }
        let bench = Bench::new(&[full], |app| set(&mut app.values, "upstream.connect.timeout", ms(50)));
        let error = bench.get("/").await.expect_err("not accepted");
        assert_eq!(error.kind, UpstreamError::ConnectTimeout);
        assert!(error.request.is_some());
        assert_eq!(bench.errors(UpstreamError::ConnectTimeout), 1);
    });
}

#[test]
fn a_connection_that_breaks_before_or_in_the_head_is_a_reset() {
    for bytes in ["", "HTTP/1.1 2", "HTTP/1.1 200 OK\r\ncontent-le"] {
        for with_reset in [false, true] {
            run(async {
                let raw = Raw::bind().await;
                let bench = Bench::new(&[raw.address()], |_| {});
                let server = async {
                    let mut peer = raw.accept().await;
                    peer.head().await;
                    peer.write(bytes).await;
                    if with_reset {
                        peer.reset();
                    }
                };
                let (sent, ()) = tokio::join!(bench.get("/a"), server);
                let error = sent.expect_err("no head");
                assert_eq!(error.kind, UpstreamError::Reset, "{bytes:?} {with_reset}: {}", error.message);
                assert!(error.request.is_none(), "it has reached the server");
                let replay = error.replay.expect("it can be sent again");
                assert_eq!(
                    (replay.head.uri.path(), &replay.head.headers["host"]),
                    ("/a", &"app.test".parse().expect("a value"))
                );
                assert_eq!(bench.errors(UpstreamError::Reset), 1);
                assert_eq!(bench.in_flight(), 0);
            });
        }
    }
}

#[test]
fn what_is_no_response_or_an_ambiguous_one_is_garbage() {
    for bytes in [
        &b"\x16\x03\x01\x00\x05hello\r\n\r\n"[..],
        b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
        // HTTP/0.9: a body and nothing else.
        b"<html>hello</html>\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nbroken\r\n\r\n",
        b"HTTP/1.1 2000 OK\r\n\r\n",
        b"HTTP/2.0 200 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nx-folded: a\r\n b\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nx-nul: a\0b\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nspace : a\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\ncontent-length: 4\r\n\r\nabcd",
        b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 99999999999999999999999\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip\r\n\r\nabc",
        b"HTTP/1.0 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",
    ] {
        run(async {
            let (bench, sent) = answered_with(bytes).await;
            let error = sent.expect_err(&String::from_utf8_lossy(bytes));
            let shown = String::from_utf8_lossy(bytes);
            assert_eq!(error.kind, UpstreamError::Garbage, "{shown}: {}", error.message);
            assert_eq!(bench.errors(UpstreamError::Garbage), 1, "{shown}");
            assert!(error.request.is_none(), "{shown}");
            assert_eq!(bench.in_flight(), 0, "{shown}");
        });
    }
}

#[test]
fn a_head_beyond_every_bound_is_garbage() {
    run(async {
        for head in [
            format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n", "a".repeat(70 * 1024)),
            format!("HTTP/1.1 200 OK\r\n{}\r\n", "x: a\r\n".repeat(2000)),
            // No line ends.
            format!("HTTP/1.1 200 OK\r\nx: {}", "a".repeat(70 * 1024)),
        ] {
            let raw = Raw::bind().await;
            let bench = Bench::new(&[raw.address()], |_| {});
            let server = async {
                let mut peer = raw.accept().await;
                peer.head().await;
                // It may not all be taken.
                let _ = peer.stream.write_all(head.as_bytes()).await;
                peer
            };
            let (sent, _peer) = tokio::join!(bench.get("/"), server);
            assert_eq!(sent.expect_err("too much").kind, UpstreamError::Garbage);
        }
    });
}

#[test]
fn a_server_that_never_answers_runs_out_of_time() {
    run(async {
        let raw = Raw::bind().await;
        let bench =
            Bench::new(&[raw.address()], |app| set(&mut app.values, "upstream.response.timeout", ms(50)));
        let (sent, peer) = tokio::join!(bench.get("/"), raw.accept());
        let error = sent.expect_err("no answer");
        assert_eq!(error.kind, UpstreamError::ResponseTimeout);
        assert!(error.request.is_none());
        assert_eq!(bench.errors(UpstreamError::ResponseTimeout), 1);
        // The connection is closed, so that the server can notice.
        let mut peer = peer;
        peer.head().await;
        peer.closed().await;
    });
}

#[test]
fn a_server_that_takes_no_more_of_a_body_runs_out_of_time() {
    run(async {
        let raw = Raw::bind().await;
        let bench =
            Bench::new(&[raw.address()], |app| set(&mut app.values, "upstream.response.timeout", ms(100)));
        let (sender, body) = stream();
        for _ in 0..64 {
            sender.send(Ok(vec![0; 1 << 20].into())).expect("a receiver");
        }
        let (sent, _peer) = tokio::join!(bench.send(request(Method::POST, "/", body)), raw.accept());
        assert_eq!(sent.expect_err("stuck").kind, UpstreamError::ResponseTimeout);
    });
}

#[test]
fn a_slow_client_is_not_taken_for_a_slow_server() {
    run(async {
        let raw = Raw::bind().await;
        let bench =
            Bench::new(&[raw.address()], |app| set(&mut app.values, "upstream.response.timeout", ms(1500)));
        let (sender, body) = stream();
        let server = async {
            let mut peer = raw.accept().await;
            peer.head().await;
            // Far longer than the server would be given.
            tokio::time::sleep(Duration::from_secs(3)).await;
            sender.send(Ok("late".into())).expect("still there");
            drop(sender);
            peer.read_until(b"0\r\n\r\n").await;
            peer.write("HTTP/1.1 204 No Content\r\n\r\n").await;
        };
        let (sent, ()) = tokio::join!(bench.send(request(Method::POST, "/", body)), server);
        assert_eq!(sent.expect("an answer").status(), 204);
    });
}

#[test]
fn bodies_that_end_early_fall_silent_or_are_malformed_fail() {
    for (bytes, closes) in [
        (&b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc"[..], true),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc", false),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n", true),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n", false),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\nxyz\r\n", false),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabcdef\r\n", false),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nffffffffffffffffff\r\n", false),
    ] {
        run(async {
            let raw = Raw::bind().await;
            let bench = Bench::new(&[raw.address()], |app| {
                set(&mut app.values, "upstream.body.idle_timeout", ms(50))
            });
            let server = async {
                let mut peer = raw.accept().await;
                peer.head().await;
                peer.write(bytes).await;
                (!closes).then_some(peer)
            };
            let (sent, _peer) = tokio::join!(bench.get("/"), server);
            let shown = String::from_utf8_lossy(bytes);
            let error = text(sent.expect("a head").into_body()).await.expect_err(&shown);
            assert!(matches!(error, BodyError::Upstream(_)), "{shown}: {error}");
            assert_eq!(bench.errors(UpstreamError::Body), 1, "{shown}");
            assert_eq!(bench.in_flight(), 0, "{shown}");
        });
    }
}

#[test]
fn a_body_longer_than_announced_ends_where_it_was_to_and_its_connection_is_not_used_again() {
    run(async {
        let raw = Raw::bind().await;
        let bench = Bench::new(&[raw.address()], |_| {});
        let server = async {
            let mut peer = raw.accept().await;
            peer.head().await;
            peer.write("HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nabcHTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nforged").await;
            let mut next = raw.accept().await;
            next.answer("second").await;
        };
        let client = async {
            let first = bench.get("/").await.expect("a head");
            assert_eq!(text(first.into_body()).await.expect("a body"), "abc");
            let second = bench.get("/").await.expect("a head");
            assert_eq!(text(second.into_body()).await.expect("a body"), "second");
        };
        tokio::join!(client, server);
        assert_eq!(bench.connects(), 2);
    });
}

#[test]
fn a_client_that_fails_within_its_body_is_not_the_servers_fault() {
    run(async {
        let raw = Raw::bind().await;
        let bench = Bench::new(&[raw.address()], |_| {});
        let (sender, body) = stream();
        let server = async {
            let mut peer = raw.accept().await;
            peer.head().await;
            sender.send(Ok("part".into())).expect("still there");
            peer.read_until(b"part\r\n").await;
            sender.send(Err(BodyError::TooLarge(4))).expect("still there");
            peer.closed().await;
        };
        let sent = async {
            let error =
                bench.send(request(Method::POST, "/", body)).await.expect_err("an unfinished request");
            assert!(matches!(error.client, Some(BodyError::TooLarge(4))), "{error:?}");
            assert!(error.request.is_none() && error.replay.is_none());
        };
        tokio::join!(sent, server);
        assert_eq!(bench.count(Meter::UPSTREAM_ERRORS).iter().sum::<u64>(), 0);
        assert_eq!(bench.in_flight(), 0);
    });
}

#[test]
fn dropping_a_request_or_a_body_closes_the_connection_and_gives_everything_back() {
    run(async {
        let raw = Raw::bind().await;
        let bench = Bench::new(&[raw.address()], |_| {});
        let mut sending = Box::pin(bench.get("/"));
        let peer = async {
            let mut peer = raw.accept().await;
            peer.head().await;
            peer
        };
        let peer = tokio::select! {
            _ = &mut sending => panic!("nobody has answered"),
            peer = peer => peer,
        };
        assert_eq!(bench.in_flight(), 1);
        drop(sending);
        peer.closed().await;
        assert_eq!(bench.in_flight(), 0);
        let server = async {
            let mut peer = raw.accept().await;
            peer.head().await;
            peer.write("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc").await;
            peer
        };
        let (sent, peer) = tokio::join!(bench.get("/"), server);
        drop(sent.expect("a head"));
        peer.closed().await;
        assert_eq!(bench.in_flight(), 0);
        assert_eq!(bench.count(Meter::UPSTREAM_ERRORS).iter().sum::<u64>(), 0);
    });
}
