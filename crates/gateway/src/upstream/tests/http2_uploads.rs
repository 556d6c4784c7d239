//! Request bodies over HTTP/2 towards servers: that come slowly, fail, or are to be sent again.

use tidegate_config::UpstreamProtocol;

use super::{
    super::http2::STANDS_AFTER,
    http2::{accept, answer, answer_all, h2, has_asked, with_server},
    *,
};

/// The codec sends the upload on, and whoever waits for the answer hears nothing of that.
#[test]
fn a_slow_upload_that_is_not_answered_runs_out_of_time_once_it_has_ended() {
    run(async {
        let raw = Raw::bind().await;
        let bench = Bench::new(&[raw.address()], |app| {
            app.upstream.protocol = UpstreamProtocol::Http2;
            set(&mut app.values, "upstream.response.timeout", ms(500));
        });
        let (sender, body) = stream();
        sender.send(Ok("begun, ".into())).expect("wanted");
        // Tasks of their own, so that what they do wakes nobody else.
        tokio::task::spawn_local(async move {
            let mut connection = accept(&raw, 100).await;
            let _held = connection.accept().await.expect("open").expect("a request");
            while connection.accept().await.is_some() {}
        });
        tokio::task::spawn_local(async move {
            // Far longer than the server would be given.
            tokio::time::sleep(Duration::from_millis(1300)).await;
            sender.send(Ok("ended".into())).expect("still wanted");
        });
        let error = bench.send(request(Method::POST, "/", body)).await.expect_err("no answer");
        assert_eq!(error.kind, UpstreamError::ResponseTimeout, "{}", error.message);
    });
}

/// As a gRPC server that has sent its first fields while its client streams.
#[test]
fn a_server_that_has_begun_to_answer_is_not_silent_while_the_request_still_comes() {
    run(async {
        let raw = Raw::bind().await;
        let bench = Bench::new(&[raw.address()], |app| {
            app.upstream.protocol = UpstreamProtocol::Http2;
            set(&mut app.values, "upstream.body.idle_timeout", ms(500));
        });
        let (sender, body) = stream();
        tokio::task::spawn_local(async move {
            let mut connection = accept(&raw, 100).await;
            let (request, mut respond) = connection.accept().await.expect("open").expect("a request");
            let _answer = respond.send_response(Response::new(()), false).expect("a head to be sent");
            let _held = request;
            while connection.accept().await.is_some() {}
        });
        tokio::task::spawn_local(async move {
            for _ in 0..6 {
                tokio::time::sleep(Duration::from_millis(250)).await;
                sender.send(Ok("part".into())).expect("still wanted");
            }
            tokio::time::sleep(Duration::from_millis(1500)).await;
            sender.send(Ok("last".into())).expect("still wanted");
        });
        let response = bench.send(request(Method::POST, "/", body)).await.expect("a head");
        let error = text(response.into_body()).await.expect_err("silent");
        assert!(matches!(error, BodyError::Upstream(_)), "{error}");
        assert_eq!(bench.errors(UpstreamError::Body), 1);
    });
}

/// As that of a call whose server has sent its first fields, and whose client then says nothing for too long.
#[test]
fn a_client_that_fails_within_its_body_is_not_the_servers_fault() {
    for is_answered in [false, true] {
        run(async {
            let raw = Raw::bind().await;
            let bench = h2(&[raw.address()]);
            let (sender, body) = stream();
            sender.send(Ok("part".into())).expect("wanted");
            let server = async {
                let mut connection = accept(&raw, 100).await;
                let (request, mut respond) = connection.accept().await.expect("open").expect("a request");
                let answer = |_| respond.send_response(Response::new(()), false).expect("a head to be sent");
                let _answer = is_answered.then_some(()).map(answer);
                let mut body = request.into_body();
                let read = async {
                    assert_eq!(body.data().await.expect("a part").expect("no error"), "part");
                    if !is_answered {
                        sender.send(Err(BodyError::TooSlow)).expect("wanted");
                    }
                    body.data().await.expect("an end").expect_err("no clean one");
                };
                tokio::join!(read, async { while connection.accept().await.is_some() {} });
            };
            let client = async {
                match bench.send(request(Method::POST, "/", body)).await {
                    Ok(response) => {
                        sender.send(Err(BodyError::TooSlow)).expect("wanted");
                        text(response.into_body()).await.expect_err("broken off")
                    }
                    Err(error) => error.client.expect("the client's fault"),
                }
            };
            let error = with_server(client, server).await;
            assert!(matches!(error, BodyError::TooSlow), "{error}");
            assert_eq!(bench.count(Meter::UPSTREAM_ERRORS).iter().sum::<u64>(), 0);
            assert_eq!(bench.in_flight(), 0);
        });
    }
}

/// It is wholly there, and its server has said that it has not looked at it.
#[test]
fn a_request_without_body_that_was_not_looked_at_is_sent_again_whatever_its_method() {
    for refuses in [true, false] {
        run(async {
            let raw = Raw::bind().await;
            let bench = h2(&[raw.address()]);
            let server = async {
                let mut peer = raw.accept().await;
                peer.write([0, 0, 0, 4, 0, 0, 0, 0, 0]).await;
                has_asked(&mut peer, 1).await;
                peer.write([0, 0, 1, 1, 5, 0, 0, 0, 1, 0x88]).await;
                has_asked(&mut peer, 3).await;
                match refuses {
                    true => peer.write([0, 0, 4, 3, 0, 0, 0, 0, 3, 0, 0, 0, 7]).await,
                    false => peer.write([0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0]).await,
                }
                answer_all(raw.accept().await.stream, "second").await;
            };
            let client = async {
                bench.get("/").await.expect("a head");
                let post = request(Method::POST, "/", RequestBody::Empty);
                bench
                    .send(post)
                    .await
                    .map(|response| response.status().as_u16())
                    .map_err(|error| error.message)
            };
            assert_eq!(with_server(client, server).await, Ok(200), "{refuses}");
        });
    }
}

/// As before Go, whose handlers read when they will, and whose window for a whole connection one of them fills.
#[test]
fn an_upload_that_its_server_does_not_read_holds_up_no_other() {
    run(async {
        let raw = Raw::bind().await;
        let bench = h2(&[raw.address()]);
        let (sender, body) = stream();
        // More than the window of a connection.
        sender.send(Ok(vec![0; 100_000].into())).expect("wanted");
        let server = async {
            let mut first = accept(&raw, 100).await;
            let (_unread, _respond) = first.accept().await.expect("open").expect("a request");
            let serve_first = async {
                let (get, respond) = first.accept().await.expect("open").expect("a request");
                assert_eq!(get.method(), Method::GET);
                answer(respond, "without a body");
                while first.accept().await.is_some() {}
            };
            tokio::join!(serve_first, async { answer_all(raw.accept().await.stream, "another").await });
        };
        let client = async {
            let unread = bench.send(request(Method::POST, "/unread", body));
            let others = async {
                tokio::time::sleep(2 * STANDS_AFTER).await;
                let whole = request(Method::POST, "/", RequestBody::Whole("abc".into()));
                let uploaded = bench.send(whole).await.expect("a head");
                assert_eq!(text(uploaded.into_body()).await.expect("a body"), "another");
                let response = bench.get("/").await.expect("a head");
                assert_eq!(text(response.into_body()).await.expect("a body"), "without a body");
            };
            tokio::select! {
                _ = unread => panic!("nobody has read it"),
                () = others => {}
            }
        };
        with_server(client, server).await;
        assert_eq!(bench.connects(), 2);
    });
}
