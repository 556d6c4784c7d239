//! Bodies, trailers, early answers and upgrades.

use hyper::body::Body as _;

use super::*;

#[test]
fn a_large_body_streams_both_ways() {
    const PIECES: usize = 64;
    const PIECE: usize = 1 << 16;
    run(async {
        let raw = Raw::bind().await;
        let bench = Bench::new(&[raw.address()], |_| {});
        let (sender, body) = stream();
        for piece in 0..PIECES {
            sender.send(Ok(vec![u8::try_from(piece).expect("small"); PIECE].into())).expect("a receiver");
        }
        drop(sender);
        let mut request = request(Method::PUT, "/", body);
        request.headers_mut().insert("content-length", (PIECES * PIECE).into());
        let server = async {
            let mut peer = raw.accept().await;
            let head = peer.head().await;
            assert!(!head.contains("transfer-encoding"), "{head}");
            let mut received = std::mem::take(&mut peer.buffer);
            while received.len() < PIECES * PIECE {
                assert_ne!(peer.stream.read_buf(&mut received).await.expect("more"), 0);
            }
            peer.write(format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", received.len())).await;
            peer.write(&received).await;
        };
        let client = async {
            let response = bench.send(request).await.expect("a head");
            let body = response.into_body().collect().await.expect("a body").to_bytes();
            assert_eq!(body.len(), PIECES * PIECE);
            assert!(
                body.chunks(PIECE).enumerate().all(|(at, piece)| piece.iter().all(|b| usize::from(*b) == at))
            );
        };
        tokio::join!(client, server);
    });
}

#[test]
fn a_body_of_unknown_length_is_chunked_whatever_the_method() {
    for method in [Method::GET, Method::DELETE, Method::POST] {
        run(async {
            let raw = Raw::bind().await;
            let bench = Bench::new(&[raw.address()], |_| {});
            let (sender, body) = stream();
            sender.send(Ok("abc".into())).expect("a receiver");
            drop(sender);
            let server = async {
                let mut peer = raw.accept().await;
                let head = peer.head().await;
                assert!(head.contains("transfer-encoding: chunked\r\n"), "{head}");
                assert_eq!(peer.read_until(b"0\r\n\r\n").await, "3\r\nabc\r\n0\r\n\r\n");
                peer.write("HTTP/1.1 204 No Content\r\n\r\n").await;
            };
            let (sent, ()) = tokio::join!(bench.send(request(method.clone(), "/", body)), server);
            assert_eq!(sent.expect("an answer").status(), 204);
        });
    }
}

#[test]
fn trailers_come_through() {
    run(async {
        let raw = Raw::bind().await;
        let bench = Bench::new(&[raw.address()], |_| {});
        let server = async {
            let mut peer = raw.accept().await;
            peer.head().await;
            peer.write("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntrailer: grpc-status\r\n\r\n3\r\nabc\r\n0\r\ngrpc-status: 0\r\n\r\n").await;
            peer.answer("next").await;
        };
        let client = async {
            let collected =
                bench.get("/").await.expect("a head").into_body().collect().await.expect("a body");
            assert_eq!(collected.trailers().expect("trailers")["grpc-status"], "0");
            assert_eq!(
                text(bench.get("/").await.expect("a head").into_body()).await.expect("a body"),
                "next"
            );
        };
        tokio::join!(client, server);
        assert_eq!(bench.connects(), 1, "a body with trailers ends like any other");
    });
}

#[test]
fn an_answer_before_the_whole_request_is_passed_on_even_if_the_server_then_closes() {
    for closes in [false, true] {
        run(async {
            let raw = Raw::bind().await;
            let bench = Bench::new(&[raw.address()], |_| {});
            let (sender, body) = stream();
            let server = async {
                let mut peer = raw.accept().await;
                peer.head().await;
                peer.write("HTTP/1.1 413 Content Too Large\r\ncontent-length: 3\r\n\r\nbig").await;
                // Unread bytes in the socket when it closes: the kernel answers them with a reset.
                (!closes).then_some(peer)
            };
            sender.send(Ok(vec![b'x'; 1000].into())).expect("a receiver");
            let client = async {
                let response = bench.send(request(Method::POST, "/", body)).await.expect("an early answer");
                for _ in 0..100 {
                    sender.send(Ok(vec![b'x'; 1 << 16].into())).expect("a receiver");
                    tokio::task::yield_now().await;
                }
                assert_eq!(response.status(), 413);
                assert_eq!(text(response.into_body()).await.expect("its body"), "big");
            };
            let ((), _peer) = tokio::join!(client, server);
            assert_eq!(bench.in_flight(), 0);
            let servers = bench.upstreams.servers(&bench.application());
            assert_eq!(
                servers.met()[0].pool.idle(),
                0,
                "an unfinished request's connection is not used again"
            );
        });
    }
}

/// It may wait for the rest of the request. Once it has that, it may not be silent.
#[test]
fn a_server_that_has_begun_to_answer_is_not_silent_while_the_request_still_comes() {
    run(async {
        let raw = Raw::bind().await;
        let bench =
            Bench::new(&[raw.address()], |app| set(&mut app.values, "upstream.body.idle_timeout", ms(500)));
        let (sender, body) = stream();
        let server = async {
            let mut peer = raw.accept().await;
            peer.head().await;
            peer.write("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n").await;
            peer.read_until(b"0\r\n\r\n").await;
            peer
        };
        let client = async {
            let response = bench.send(request(Method::POST, "/", body)).await.expect("a head");
            text(response.into_body()).await.expect_err("silent")
        };
        let upload = async {
            // For three times as long as it may be silent, in all and at once.
            for _ in 0..6 {
                tokio::time::sleep(Duration::from_millis(250)).await;
                sender.send(Ok("part".into())).expect("still wanted");
            }
            tokio::time::sleep(Duration::from_millis(1500)).await;
            sender.send(Ok("last".into())).expect("still wanted");
            drop(sender);
        };
        let (error, _peer, ()) = tokio::join!(client, server, upload);
        assert!(matches!(error, BodyError::Upstream(_)), "{error}");
        assert_eq!(bench.errors(UpstreamError::Body), 1);
    });
}

#[test]
fn an_empty_response_is_at_its_end_at_once() {
    run(async {
        let raw = Raw::bind().await;
        let bench = Bench::new(&[raw.address()], |_| {});
        let server = async { raw.accept().await.answer("").await };
        let (sent, _) = tokio::join!(bench.get("/"), server);
        let response = sent.expect("a head");
        assert!(response.body().is_end_stream());
        assert_eq!(response.body().size_hint().exact(), Some(0));
        assert_eq!(bench.in_flight(), 0, "nobody need read an empty body to its end");
    });
}

#[test]
fn a_body_to_the_end_of_the_connection_ends_with_it() {
    run(async {
        let raw = Raw::bind().await;
        let bench = Bench::new(&[raw.address()], |_| {});
        let server = async {
            let mut peer = raw.accept().await;
            peer.head().await;
            peer.write("HTTP/1.1 200 OK\r\n\r\nall there is").await;
        };
        let (sent, ()) = tokio::join!(bench.get("/"), server);
        assert_eq!(text(sent.expect("a head").into_body()).await.expect("a body"), "all there is");
        assert_eq!(bench.in_flight(), 0);
    });
}

#[test]
fn an_upgraded_connection_is_handed_over_with_what_came_along() {
    run(async {
        let raw = Raw::bind().await;
        let bench = Bench::new(&[raw.address()], |_| {});
        let mut request = request(Method::GET, "/chat", RequestBody::Empty);
        request.headers_mut().insert("upgrade", "websocket".parse().expect("a value"));
        request.headers_mut().insert("connection", "upgrade".parse().expect("a value"));
        let server = async {
            let mut peer = raw.accept().await;
            let head = peer.head().await;
            assert!(head.contains("upgrade: websocket\r\n"), "{head}");
            peer.write(
                "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\nhello",
            )
            .await;
            assert_eq!(peer.read_until(b"ping").await, "ping");
            peer.write("pong").await;
        };
        let client = async {
            let response = bench.send(request).await.expect("a head");
            assert_eq!(response.status(), 101);
            let mut upgraded = response.into_body().into_upgraded().expect("an upgraded connection");
            assert_eq!(upgraded.leftover, "hello");
            upgraded.io.write_all(b"ping").await.expect("to be taken");
            let mut answer = [0; 4];
            upgraded.io.read_exact(&mut answer).await.expect("an answer");
            assert_eq!(&answer, b"pong");
            assert_eq!(bench.in_flight(), 1);
        };
        tokio::join!(client, server);
        assert_eq!(bench.in_flight(), 0);
    });
}

/// What is left of the request would be lost, or taken for the new protocol.
#[test]
fn an_upgrade_before_the_end_of_the_request_is_garbage() {
    run(async {
        let raw = Raw::bind().await;
        let bench = Bench::new(&[raw.address()], |_| {});
        let (sender, body) = stream();
        sender.send(Ok("abc".into())).expect("a receiver");
        let mut request = request(Method::POST, "/", body);
        request.headers_mut().insert("connection", "upgrade".parse().expect("a value"));
        request.headers_mut().insert("upgrade", "websocket".parse().expect("a value"));
        let server = async {
            let mut peer = raw.accept().await;
            peer.read_until(b"abc").await;
            peer.write(
                "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n",
            )
            .await;
            peer
        };
        let (sent, peer) = tokio::join!(bench.send(request), server);
        let error = sent.expect_err("the body is not whole");
        assert_eq!(error.kind, UpstreamError::Garbage, "{}", error.message);
        peer.closed().await;
        assert_eq!(bench.in_flight(), 0);
    });
}

#[test]
fn a_unix_socket_serves_like_any_other() {
    run(async {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("app.sock");
        let listener = tokio::net::UnixListener::bind(&path).expect("to listen");
        let bench = Bench::new(&[], |app| {
            let address = ServerAddress::Unix(path.clone());
            app.servers.push(Server {
                name: "u".to_owned(),
                address,
                values: Values::defaults(Scope::Server),
            });
        });
        let server = async {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                assert_ne!(stream.read_buf(&mut head).await.expect("more"), 0);
            }
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nunix").await.expect("to be taken");
        };
        let (sent, ()) = tokio::join!(bench.get("/"), server);
        assert_eq!(text(sent.expect("a head").into_body()).await.expect("a body"), "unix");
    });
}
