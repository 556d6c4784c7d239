//! HTTP/2 towards servers: shared connections, servers that go away, streams refused.

use h2::{Reason, server};
use tidegate_config::UpstreamProtocol;
use tokio::io::{AsyncRead, AsyncWrite};

use super::*;

type Serving<T> = server::Connection<T, Bytes>;

/// Answers every request of a connection with `body`, until it ends.
pub(super) async fn answer_all(io: impl AsyncRead + AsyncWrite + Unpin, body: &'static str) {
    let mut connection = server::handshake(io).await.expect("an HTTP/2 preface");
    while let Some(request) = connection.accept().await {
        let (_, respond) = request.expect("a request");
        answer(respond, body);
    }
}

/// Resets every request of a connection, for that reason.
pub(super) async fn refuse_all(io: impl AsyncRead + AsyncWrite + Unpin, reason: Reason) {
    let mut connection: server::Connection<_, Bytes> =
        server::handshake(io).await.expect("an HTTP/2 preface");
    while let Some(Ok((_, mut respond))) = connection.accept().await {
        respond.send_reset(reason);
    }
}

pub(super) fn answer(mut respond: server::SendResponse<Bytes>, body: &'static str) {
    let mut stream = respond.send_response(Response::new(()), false).expect("a head to be sent");
    stream.send_data(Bytes::from_static(body.as_bytes()), true).expect("a body to be sent");
}

pub(super) fn h2(servers: &[SocketAddr]) -> Bench {
    Bench::new(servers, |app| app.upstream.protocol = UpstreamProtocol::Http2)
}

pub(super) async fn accept(raw: &Raw, streams: u32) -> Serving<TcpStream> {
    let peer = raw.accept().await;
    server::Builder::new()
        .max_concurrent_streams(streams)
        .handshake(peer.stream)
        .await
        .expect("an HTTP/2 preface")
}

async fn get_text(bench: &Bench, path: &str) -> String {
    text(bench.get(path).await.expect("a head").into_body()).await.expect("a body")
}

/// Lets a server's connection move while the client does.
pub(super) async fn with_server<T>(client: impl Future<Output = T>, server: impl Future<Output = ()>) -> T {
    tokio::pin!(client, server);
    tokio::select! {
        result = &mut client => result,
        () = &mut server => client.await,
    }
}

#[test]
fn requests_share_a_connection_and_arrive_in_http2s_form() {
    run(async {
        let raw = Raw::bind().await;
        let bench = h2(&[raw.address()]);
        let server = async {
            let mut connection = accept(&raw, 100).await;
            let mut waiting = Vec::new();
            while let Some(request) = connection.accept().await {
                let (request, respond) = request.expect("a request");
                assert_eq!(request.uri().to_string(), "http://app.test/a?b=c");
                assert!(!request.headers().contains_key("host"));
                waiting.push(respond);
                // Both at once, or neither.
                if waiting.len() == 2 {
                    waiting.drain(..).for_each(|respond| answer(respond, "shared"));
                }
            }
        };
        let client = async { tokio::join!(get_text(&bench, "/a?b=c"), get_text(&bench, "/a?b=c")) };
        let (one, two) = with_server(client, server).await;
        assert_eq!((one.as_str(), two.as_str()), ("shared", "shared"));
        assert_eq!(bench.connects(), 1);
        assert_eq!(bench.in_flight(), 0);
    });
}

#[test]
fn a_full_connection_is_joined_by_another() {
    run(async {
        let raw = Raw::bind().await;
        let bench = h2(&[raw.address()]);
        let server = async {
            // The first request tells us the bound; then two are held on each connection.
            let mut first = accept(&raw, 2).await;
            let (_, respond) = first.accept().await.expect("open").expect("a request");
            answer(respond, "warm");
            let mut held = Vec::new();
            while held.len() < 2 {
                held.push(first.accept().await.expect("open").expect("a request").1);
            }
            let drive_first = async { while first.accept().await.is_some() {} };
            let second = async {
                let mut second = accept(&raw, 2).await;
                let (_, respond) = second.accept().await.expect("open").expect("a request");
                answer(respond, "second");
                held.drain(..).for_each(|respond| answer(respond, "first"));
                while second.accept().await.is_some() {}
            };
            tokio::join!(drive_first, second);
        };
        let client = async {
            assert_eq!(get_text(&bench, "/").await, "warm");
            let (a, b, c) =
                tokio::join!(get_text(&bench, "/a"), get_text(&bench, "/b"), get_text(&bench, "/c"));
            let mut bodies = [a, b, c];
            bodies.sort();
            assert_eq!(bodies, ["first", "first", "second"]);
        };
        with_server(client, server).await;
        assert_eq!(bench.connects(), 2);
    });
}

#[test]
fn a_server_that_goes_away_ends_what_it_has_and_new_requests_find_a_new_connection() {
    run(async {
        let raw = Raw::bind().await;
        let bench = h2(&[raw.address()]);
        let server = async {
            let mut first = accept(&raw, 100).await;
            let (_, respond) = first.accept().await.expect("open").expect("a request");
            first.graceful_shutdown();
            let drive_first = async {
                while let Some(request) = first.accept().await {
                    // Accepted before the final GOAWAY: still served.
                    answer(request.expect("a request").1, "old");
                }
            };
            let serve_new = async {
                let peer = raw.accept().await;
                answer(respond, "old");
                answer_all(peer.stream, "new").await;
            };
            tokio::join!(drive_first, serve_new);
        };
        let client = async {
            let old = get_text(&bench, "/");
            let new = async {
                // Sent again and again until the news of the shutdown has come.
                loop {
                    if get_text(&bench, "/").await == "new" {
                        return;
                    }
                }
            };
            tokio::join!(old, new).0
        };
        assert_eq!(with_server(client, server).await, "old");
        assert_eq!(bench.count(Meter::UPSTREAM_ERRORS).iter().sum::<u64>(), 0);
        assert_eq!(bench.in_flight(), 0);
    });
}

#[test]
fn a_stream_that_was_refused_is_sent_again_whatever_its_method() {
    run(async {
        let raw = Raw::bind().await;
        let bench = h2(&[raw.address()]);
        let seen = Cell::new(0);
        let server = async {
            let mut connection = accept(&raw, 100).await;
            while let Some(request) = connection.accept().await {
                let (request, mut respond) = request.expect("a request");
                assert_eq!(request.method(), Method::POST);
                seen.set(seen.get() + 1);
                if seen.get() == 1 {
                    respond.send_reset(Reason::REFUSED_STREAM);
                } else {
                    answer(respond, "served");
                }
            }
        };
        let client = async {
            let post = request(Method::POST, "/", RequestBody::Whole("x".into()));
            text(bench.send(post).await.expect("a head").into_body()).await.expect("a body")
        };
        tokio::pin!(server);
        let second = async { answer_all(raw.accept().await.stream, "served").await };
        let body = with_server(client, async {
            tokio::join!(server, second);
        })
        .await;
        assert_eq!(body, "served");
    });
}

#[test]
fn a_burst_goes_by_what_the_server_allows_from_the_first_stream_on() {
    const BURST: usize = 12;
    run(async {
        let raw = Raw::bind().await;
        let bench = h2(&[raw.address()]);
        // One stream a connection: the codec refuses another.
        let server = async {
            loop {
                let peer = raw.accept().await;
                tokio::task::spawn_local(async move {
                    let mut builder = server::Builder::new();
                    let serving = builder.max_concurrent_streams(1).handshake(peer.stream).await;
                    let mut connection: Serving<TcpStream> = serving.expect("an HTTP/2 preface");
                    while let Some(Ok((_, respond))) = connection.accept().await {
                        answer(respond, "served");
                    }
                });
            }
        };
        let post = || async {
            let post = request(Method::POST, "/", RequestBody::Whole("x".into()));
            text(bench.send(post).await.expect("a head").into_body()).await.expect("a body")
        };
        let client = futures_util::future::join_all((0..BURST).map(|_| post()));
        let bodies = with_server(client, server).await;
        assert_eq!(bodies, ["served"; BURST]);
        assert_eq!(bench.count(Meter::UPSTREAM_ERRORS).iter().sum::<u64>(), 0);
        assert_eq!(bench.in_flight(), 0);
    });
}

#[test]
fn a_server_that_ends_its_connections_soon_costs_nobody_the_answer() {
    const BURST: usize = 8;
    run(async {
        let raw = Raw::bind().await;
        let bench = h2(&[raw.address()]);
        // Each connection serves its first stream and says that it has looked at no other.
        let server = async {
            let mut open = Vec::new();
            loop {
                let mut peer = raw.accept().await;
                peer.write([0, 0, 0, 4, 0, 0, 0, 0, 0]).await;
                has_asked(&mut peer, 1).await;
                // Status 200 is one byte.
                peer.write([0, 0, 1, 1, 5, 0, 0, 0, 1, 0x88]).await;
                peer.write([0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0]).await;
                open.push(peer);
            }
        };
        let post = || async {
            let post = request(Method::POST, "/", RequestBody::Whole("x".into()));
            bench.send(post).await.map(|response| response.status().as_u16()).map_err(|error| error.message)
        };
        let client = futures_util::future::join_all((0..BURST).map(|_| post()));
        let statuses = with_server(client, server).await;
        assert_eq!(statuses, [const { Ok(200) }; BURST]);
        assert_eq!(bench.count(Meter::UPSTREAM_ERRORS).iter().sum::<u64>(), 0);
    });
}

#[test]
fn a_request_that_names_no_host_asks_for_the_server_by_its_own_name() {
    run(async {
        let raw = Raw::bind().await;
        let bench = h2(&[raw.address()]);
        let server = async {
            let mut connection = accept(&raw, 100).await;
            while let Some(request) = connection.accept().await {
                let (request, respond) = request.expect("a request");
                assert_eq!(
                    request.uri().authority().map(|it| it.as_str()),
                    Some(&*raw.address().to_string())
                );
                answer(respond, "served");
            }
        };
        let client = async {
            let mut nameless = request(Method::GET, "/", RequestBody::Empty);
            nameless.headers_mut().insert("host", http::HeaderValue::from_static(""));
            text(bench.send(nameless).await.expect("a head").into_body()).await.expect("a body")
        };
        assert_eq!(with_server(client, server).await, "served");
    });
}

#[test]
fn a_server_that_closes_before_it_speaks_gives_the_request_back() {
    run(async {
        let raw = Raw::bind().await;
        let bench = h2(&[raw.address()]);
        let post = request(Method::POST, "/", RequestBody::Whole("x".into()));
        let server = async {
            let mut peer = raw.accept().await;
            peer.read_until(b"SM\r\n\r\n").await;
        };
        let (sent, ()) = tokio::join!(bench.send(post), server);
        let error = sent.expect_err("closed");
        assert!(error.request.is_some(), "{}", error.message);
        assert_eq!(error.kind, UpstreamError::Reset, "{}", error.message);
    });
}

/// A request for which a server ends its connection takes along those of others on it, each time.
#[test]
fn a_request_goes_once_more_where_its_connection_was_used_and_no_further() {
    run(async {
        let raw = Raw::bind().await;
        let bench = h2(&[raw.address()]);
        let arrived = Cell::new(0);
        let server = async {
            loop {
                let mut connection = accept(&raw, 100).await;
                while let Some(Ok((request, respond))) = connection.accept().await {
                    if request.uri().path() == "/ends" {
                        arrived.set(arrived.get() + 1);
                        break;
                    }
                    answer(respond, "served");
                }
            }
        };
        let client = async {
            assert_eq!(bench.get("/ends").await.expect_err("ended").kind, UpstreamError::Reset);
            assert_eq!(arrived.get(), 1);
            assert_eq!(get_text(&bench, "/").await, "served");
            assert_eq!(bench.get("/ends").await.expect_err("ended").kind, UpstreamError::Reset);
            assert_eq!(arrived.get(), 3);
        };
        with_server(client, server).await;
    });
}

#[test]
fn an_upload_that_was_refused_is_sent_again_from_its_beginning() {
    run(async {
        let raw = Raw::bind().await;
        let bench = h2(&[raw.address()]);
        let (client, body) = stream();
        let is_refused = tokio::sync::Notify::new();
        let server = async {
            let mut first = accept(&raw, 100).await;
            let (request, mut respond) = first.accept().await.expect("open").expect("a request");
            let drive_first = async { while first.accept().await.is_some() {} };
            let refuse = async {
                let part = request.into_body().data().await.expect("a part").expect("no error");
                assert_eq!(part, "begun, ");
                respond.send_reset(Reason::REFUSED_STREAM);
                is_refused.notify_one();
            };
            let serve = async {
                let mut second = accept(&raw, 100).await;
                let (request, respond) = second.accept().await.expect("open").expect("a request");
                let mut body = request.into_body();
                let drive_second = async { while second.accept().await.is_some() {} };
                let read = async {
                    let mut whole = Vec::new();
                    while let Some(part) = body.data().await {
                        whole.extend_from_slice(&part.expect("no error"));
                    }
                    assert_eq!(whole, b"begun, ended");
                    answer(respond, "served");
                };
                tokio::join!(drive_second, read);
            };
            tokio::join!(drive_first, refuse, serve);
        };
        let upload = async {
            client.send(Ok("begun, ".into())).expect("taken");
            is_refused.notified().await;
            client.send(Ok("ended".into())).expect("taken");
            drop(client);
        };
        let post = async {
            text(bench.send(request(Method::POST, "/", body)).await.expect("a head").into_body()).await
        };
        let client = async { tokio::join!(post, upload).0.expect("a body") };
        assert_eq!(with_server(client, server).await, "served");
    });
}

/// Answers the first request of its first connection and neither reads the rest of it nor ends the stream; serves a second connection
/// as well.
async fn answers_and_reads_nothing(raw: &Raw) {
    let mut first = accept(raw, 100).await;
    let (request, mut respond) = first.accept().await.expect("open").expect("a request");
    respond.send_response(Response::new(()), true).expect("a head to be sent");
    let drive_first = async { while first.accept().await.is_some_and(|next| next.is_ok()) {} };
    let second = async { answer_all(raw.accept().await.stream, "second").await };
    tokio::join!(drive_first, second);
    drop(request);
}

/// The codec has taken all of it, and waits for the server's window with what is left.
#[test]
fn a_body_that_its_server_does_not_read_to_the_end_is_let_go_with_its_connection() {
    run(async {
        let raw = Raw::bind().await;
        let bench = h2(&[raw.address()]);
        let (sender, whole) = tokio::sync::oneshot::channel::<()>();
        struct Kept(#[expect(dead_code, reason = "dropped")] tokio::sync::oneshot::Sender<()>);
        impl AsRef<[u8]> for Kept {
            fn as_ref(&self) -> &[u8] {
                &[b'x'; 100_000]
            }
        }
        let body = RequestBody::Whole(Bytes::from_owner(Kept(sender)));
        let server = answers_and_reads_nothing(&raw);
        let client = async {
            let answered = bench.send(request(Method::POST, "/", body)).await.expect("a head");
            assert_eq!(text(answered.into_body()).await.expect("no body"), "");
            assert_eq!(get_text(&bench, "/").await, "second");
            whole.await.expect_err("nobody to say it");
        };
        with_server(client, server).await;
        assert_eq!(bench.connects(), 2);
    });
}

#[test]
fn an_upload_that_goes_on_beyond_its_answer_has_its_connection_alone_and_ends_with_it() {
    run(async {
        let raw = Raw::bind().await;
        let bench = h2(&[raw.address()]);
        let (upload, body) = stream();
        upload.send(Ok(vec![b'x'; 100_000].into())).expect("taken");
        let server = answers_and_reads_nothing(&raw);
        let client = async {
            let answered = bench.send(request(Method::POST, "/", body)).await.expect("a head");
            assert_eq!(text(answered.into_body()).await.expect("no body"), "");
            assert_eq!(bench.in_flight(), 0);
            assert_eq!(get_text(&bench, "/").await, "second");
            // Whoever holds the client's side of it is let go.
            upload.closed().await;
        };
        with_server(client, server).await;
        assert_eq!(bench.connects(), 2);
    });
}

/// Waits for the head of that stream's request.
pub(super) async fn has_asked(peer: &mut Peer, stream: u8) {
    // The length of its fields, HEADERS, their flags and the stream.
    while !peer.buffer.windows(6).any(|bytes| bytes[0] == 1 && bytes[2..] == [0, 0, 0, stream]) {
        assert_ne!(peer.stream.read_buf(&mut peer.buffer).await.expect("more to read"), 0);
    }
}

/// SETTINGS that allow so many streams.
const fn allows(streams: u8) -> [u8; 15] {
    [0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, streams]
}

#[test]
fn a_request_whose_connection_ends_while_it_waits_for_a_stream_goes_on_another() {
    run(async {
        let raw = Raw::bind().await;
        let bench = h2(&[raw.address()]);
        let first = async {
            let mut peer = raw.accept().await;
            peer.write(allows(2)).await;
            has_asked(&mut peer, 1).await;
            peer.write([0, 0, 1, 1, 5, 0, 0, 0, 1, 0x88]).await;
            has_asked(&mut peer, 3).await;
            peer
        };
        let mut held = Box::pin(async {
            bench.get("/").await.expect("a head");
            bench.get("/held").await
        });
        let mut peer = tokio::select! { peer = first => peer, _ = &mut held => panic!("answered") };
        // The codec hears of it just when the next request is on its way to it.
        peer.write(allows(1)).await;
        tokio::task::yield_now().await;
        let mut post = Box::pin(bench.send(request(Method::POST, "/", RequestBody::Whole("x".into()))));
        assert!(futures_util::FutureExt::now_or_never(&mut post).is_none());
        tokio::task::yield_now().await;
        drop(peer);
        let post = async { text(post.await.expect("a head").into_body()).await.expect("a body") };
        let second = async { answer_all(raw.accept().await.stream, "second").await };
        assert_eq!(with_server(post, second).await, "second");
    });
}

#[test]
fn a_stream_that_was_reset_in_the_middle_of_its_head_or_body_fails() {
    run(async {
        let raw = Raw::bind().await;
        let bench = h2(&[raw.address()]);
        let head_seen = tokio::sync::Notify::new();
        let server = async {
            let mut connection = accept(&raw, 100).await;
            let (_, mut respond) = connection.accept().await.expect("open").expect("a request");
            respond.send_reset(Reason::INTERNAL_ERROR);
            let (_, mut respond) = connection.accept().await.expect("open").expect("a request");
            let mut stream = respond.send_response(Response::new(()), false).expect("a head to be sent");
            stream.send_data(Bytes::from_static(b"part"), false).expect("a part to be sent");
            tokio::select! {
                _ = connection.accept() => panic!("no further request was sent"),
                () = head_seen.notified() => {}
            }
            stream.send_reset(Reason::INTERNAL_ERROR);
            while connection.accept().await.is_some() {}
        };
        let client = async {
            let post = request(Method::POST, "/", RequestBody::Whole("x".into()));
            let error = bench.send(post).await.expect_err("reset");
            assert_eq!(error.kind, UpstreamError::Reset);
            assert!(error.request.is_none() && error.replay.is_some());
            let response = bench.get("/").await.expect("a head");
            head_seen.notify_one();
            assert!(text(response.into_body()).await.is_err());
        };
        with_server(client, server).await;
        assert_eq!(bench.errors(UpstreamError::Reset), 1);
        assert_eq!(bench.errors(UpstreamError::Body), 1);
        assert_eq!(bench.in_flight(), 0);
    });
}

/// Such as servers send that know of no content only once it ends, and more often than the codec bears with by itself.
#[test]
fn an_answer_without_content_may_say_a_length_and_end_later() {
    run(async {
        let raw = Raw::bind().await;
        let bench = h2(&[raw.address()]);
        let server = async {
            let mut connection = accept(&raw, 100).await;
            while let Some(request) = connection.accept().await {
                let (_, mut respond) = request.expect("a request");
                let head = Response::builder().status(304).header("content-length", "5").body(());
                let mut stream =
                    respond.send_response(head.expect("a head"), false).expect("a head to be sent");
                stream.send_data(Bytes::new(), true).expect("an end to be sent");
            }
        };
        let client = async {
            for _ in 0..1100 {
                assert_eq!(get_text(&bench, "/").await, "");
            }
        };
        with_server(client, server).await;
        assert_eq!((bench.connects(), bench.errors(UpstreamError::Body), bench.in_flight()), (1, 0, 0));
    });
}

#[test]
fn a_stream_without_answer_runs_out_of_time_and_its_connection_gets_no_more() {
    run(async {
        let raw = Raw::bind().await;
        let bench = Bench::new(&[raw.address()], |app| {
            app.upstream.protocol = UpstreamProtocol::Http2;
            set(&mut app.values, "upstream.response.timeout", ms(2000));
        });
        let server = async {
            let mut silent = accept(&raw, 100).await;
            let mut held = Vec::new();
            let hold = async {
                while let Some(request) = silent.accept().await {
                    held.push(request);
                }
            };
            let second = async { answer_all(raw.accept().await.stream, "second").await };
            tokio::join!(hold, second);
        };
        let client = async {
            assert_eq!(bench.get("/").await.expect_err("no answer").kind, UpstreamError::ResponseTimeout);
            assert_eq!(get_text(&bench, "/").await, "second");
        };
        with_server(client, server).await;
    });
}

#[test]
fn what_is_no_http2_fails() {
    run(async {
        let raw = Raw::bind().await;
        let bench = h2(&[raw.address()]);
        let server = async {
            let mut peer = raw.accept().await;
            peer.write("HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").await;
            peer
        };
        let (sent, _peer) = tokio::join!(bench.get("/"), server);
        let error = sent.expect_err("no HTTP/2");
        assert_eq!(error.kind, UpstreamError::Garbage, "{}", error.message);
    });
}
