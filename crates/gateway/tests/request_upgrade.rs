//! WebSocket through the gateway, and gRPC's way of using HTTP/2.

use std::{convert::Infallible, io::Write, net::SocketAddr};

use bytes::Bytes;
use futures_util::{SinkExt, StreamExt, stream};
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body::{Body, Frame};
use http_body_util::{BodyExt, StreamBody};
use hyper::{body::Incoming, client::conn::http2::SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tidegate_control::meters::Meter;
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::{
    accept_async, client_async,
    tungstenite::{Message, client::IntoClientRequest},
};

use crate::{
    request_house::{House, take},
    support::{PATIENCE, PLAIN, eventually, read_response, rest},
};

fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

fn before(server: SocketAddr, application: &str) -> House {
    House::with(|_| {
        (String::new(), PLAIN.to_owned(), format!("servers = \"http://{server}\"\n{application}"))
    })
}

/// A server that speaks HTTP/2 and answers so.
async fn serve<F, A, B>(answer: F) -> SocketAddr
where
    F: Fn(Request<Incoming>) -> A + Copy + Send + 'static,
    A: Future<Output = Response<B>> + Send + 'static,
    B: Body<Data = Bytes, Error: std::error::Error + Send + Sync> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let service = hyper::service::service_fn(move |request| async move {
                Ok::<_, Infallible>(answer(request).await)
            });
            let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
            tokio::spawn(async move { server.serve_connection(TokioIo::new(stream), service).await });
        }
    });
    address
}

/// A client that speaks HTTP/2.
async fn client<B>(house: &House) -> SendRequest<B>
where
    B: Body<Data = Bytes, Error: std::error::Error + Send + Sync> + Unpin + Send + 'static,
{
    let stream = TcpStream::connect(house.address()).await.unwrap();
    let (sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    sender
}

#[test]
fn a_web_socket_echoes_and_holds_no_permit() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let server = runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let mut socket = accept_async(stream).await.unwrap();
                    while let Some(Ok(message)) = socket.next().await {
                        if message.is_close() {
                            break;
                        }
                        socket.send(message).await.unwrap();
                    }
                });
            }
        });
        address
    });
    let house =
        before(server, "in_flight.algorithm = \"fixed\"\nin_flight.limit = 1\nlong_streams.max = 2\n");
    runtime.block_on(async {
        let mut sockets = Vec::new();
        for _ in 0..2 {
            let stream = TcpStream::connect(house.address()).await.unwrap();
            let request = "ws://app.example/chat".into_client_request().unwrap();
            let (mut socket, response) = client_async(request, stream).await.unwrap();
            assert_eq!(response.status(), 101);
            for size in [0, 5, 100_000] {
                let message = Message::binary(vec![7; size]);
                socket.send(message.clone()).await.unwrap();
                assert_eq!(socket.next().await.unwrap().unwrap(), message);
            }
            sockets.push(socket);
        }
        assert_eq!((house.gate().held(), house.gate().levels().long_streams), (0, 2));
        // A third is one too many.
        let stream = TcpStream::connect(house.address()).await.unwrap();
        let refused = client_async("ws://app.example/chat", stream).await.unwrap_err();
        assert!(refused.to_string().contains("503"), "{refused}");
        drop(sockets);
        until(|| house.gate().levels().long_streams == 0).await;
    });
    let counted = house.finish();
    assert_eq!(counted.counts(Meter::RESPONSES), [2, 0, 0, 0, 1]);
    assert!(counted.counts(Meter::BYTES_IN)[0] > 200_000 && counted.counts(Meter::BYTES_OUT)[0] > 200_000);
}

#[test]
fn any_protocol_is_joined_byte_by_byte_and_closes_half_by_half() {
    let house = House::new("");
    let mut client = house.connect();
    client
        .write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\nearly")
        .unwrap();
    let mut at_server = house.origin.next();
    assert_eq!(at_server.request.one("upgrade"), Some("echo"));
    assert_eq!(at_server.request.one("connection"), Some("upgrade"));
    at_server.send("HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: echo\r\n\r\nhello");
    let head = crate::support::read_head(&mut client).unwrap();
    let head = head.to_ascii_lowercase();
    assert!(head.starts_with("http/1.1 101 ") && head.contains("upgrade: echo\r\n"), "{head}");
    assert_eq!(take(&mut client, 5), b"hello");
    eventually("no permit", || house.gate().held() == 0);
    assert_eq!(house.gate().levels().long_streams, 1);
    client.shutdown(std::net::Shutdown::Write).unwrap();
    // The server still talks after the client has said its last.
    at_server.send("world");
    assert_eq!(take(&mut client, 5), b"world");
    at_server.stream.shutdown(std::net::Shutdown::Both).unwrap();
    eventually("closed", || house.gate().levels().long_streams == 0);
    drop(client);
    let counted = house.finish();
    assert_eq!(counted.counts(Meter::RESPONSES), [1, 0, 0, 0, 0]);
    assert_eq!((counted.counts(Meter::BYTES_IN), counted.counts(Meter::BYTES_OUT)), (&[5][..], &[10][..]));
}

#[test]
fn an_upgraded_connection_whose_server_has_gone_ends_though_its_client_stays() {
    let house =
        House::with(|_| ("body.idle_timeout = \"50ms\"\n".to_owned(), PLAIN.to_owned(), String::new()));
    let mut client = house.connect();
    client.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n").unwrap();
    let mut at_server = house.origin.next();
    at_server.send("HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: echo\r\n\r\nbye");
    at_server.stream.shutdown(std::net::Shutdown::Both).unwrap();
    assert!(rest(&mut client).ends_with(b"\r\n\r\nbye"));
    eventually("closed", || house.gate().levels().long_streams == 0);
    let counted = house.finish();
    assert_eq!(counted.counts(Meter::RESPONSES), [1, 0, 0, 0, 0]);
}

#[test]
fn an_upgraded_connection_whose_client_takes_nothing_ends() {
    let house =
        House::with(|_| ("body.idle_timeout = \"50ms\"\n".to_owned(), PLAIN.to_owned(), String::new()));
    let mut client = house.connect();
    client.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n").unwrap();
    let mut at_server = house.origin.next();
    at_server.send("HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: echo\r\n\r\n");
    at_server.stream.set_write_timeout(Some(PATIENCE)).unwrap();
    // Takes all there is room for, and breaks once nobody is there any more.
    let error = loop {
        if let Err(error) = at_server.stream.write_all(&[7; 65536]) {
            break error;
        }
    };
    assert_ne!(error.kind(), std::io::ErrorKind::WouldBlock, "still open");
    eventually("closed", || house.gate().levels().long_streams == 0);
    drop(client);
    let counted = house.finish();
    assert_eq!(counted.counts(Meter::RESPONSES), [1, 0, 0, 0, 0]);
}

#[test]
fn a_visitor_who_begins_with_an_upgrade_is_kept_at_his_server_too() {
    let house = House::new("upstream.sticky_cookie = \"visit\"\n");
    let mut client = house.connect();
    client.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n").unwrap();
    let mut at_server = house.origin.next();
    at_server.send("HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: echo\r\n\r\n");
    at_server.stream.shutdown(std::net::Shutdown::Write).unwrap();
    client.shutdown(std::net::Shutdown::Write).unwrap();
    let head = String::from_utf8(rest(&mut client)).unwrap();
    assert!(head.starts_with("HTTP/1.1 101 ") && head.contains("\r\nset-cookie: visit="), "{head}");
    house.finish();
}

#[test]
fn an_upgrade_that_is_declined_is_a_response_like_any_other() {
    let house = House::new("");
    let mut client = house.connect();
    client.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n").unwrap();
    house.origin.next().ok("no");
    let response = read_response(&mut client).unwrap();
    assert_eq!((response.status, response.body.as_str()), (200, "no"));
    drop(client);
    house.finish();
}

/// `h2c` above all, which a client cannot ask for: it would lead past every rule.
#[test]
fn an_upgrade_to_what_the_client_has_not_asked_for_is_no_answer() {
    let house = House::new("");
    for upgrade in ["", "upgrade: h2c\r\n", "upgrade: echo, h2c\r\n"] {
        let mut client = house.connect();
        client
            .write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
            .unwrap();
        let head = format!("HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\n{upgrade}\r\n");
        house.origin.next().send(&head);
        let response = read_response(&mut client).unwrap();
        assert_eq!((response.status, response.field("tidegate-reason")), (502, Some("garbage")), "{upgrade}");
    }
    eventually("no permit", || house.gate().held() == 0);
    house.finish();
}

/// As gRPC does: `te: trailers`, a streamed body, a status in the trailers, all over HTTP/2.
#[test]
fn trailers_pass_through_http2_on_both_sides() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let server = runtime.block_on(serve(|request| async move {
        assert_eq!(request.headers()["te"], "trailers");
        assert_eq!(request.headers()["content-type"], "application/grpc");
        let body = request.into_body().collect().await.unwrap().to_bytes();
        let mut trailers = HeaderMap::new();
        trailers.insert("grpc-status", HeaderValue::from_static("0"));
        let frames = [Frame::data(body), Frame::trailers(trailers)].map(Ok::<_, Infallible>);
        Response::new(StreamBody::new(stream::iter(frames)))
    }));
    let house = before(server, "upstream.protocol = \"http2\"\n");
    runtime.block_on(async {
        let mut sender = client(&house).await;
        let frames: Vec<_> =
            (0..3).map(|_| Ok::<_, Infallible>(Frame::data(Bytes::from_static(b"abc")))).collect();
        let request = Request::post(format!("http://{}/echo.Echo/Say", house.address()))
            .header("te", "trailers")
            .header("content-type", "application/grpc")
            .body(StreamBody::new(stream::iter(frames)))
            .unwrap();
        let response = sender.send_request(request).await.unwrap();
        assert_eq!(response.status(), 200);
        let collected = response.into_body().collect().await.unwrap();
        assert_eq!(collected.trailers().unwrap()["grpc-status"], "0");
        assert_eq!(collected.to_bytes(), "abcabcabc");
    });
    drop(runtime);
    let counted = house.finish();
    assert_eq!(counted.counts(Meter::RESPONSES), [0, 1, 0, 0, 0]);
}

/// Message and answer in turn, in one stream; also where nothing is read ahead.
#[test]
fn a_grpc_call_may_wait_for_an_answer_before_its_next_message() {
    for spool in ["0B", "256KiB"] {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let server = runtime.block_on(serve(|request| async { Response::new(request.into_body()) }));
        let house = before(server, &format!("upstream.protocol = \"http2\"\nspool = \"{spool}\"\n"));
        runtime.block_on(async {
            let mut sender = client(&house).await;
            let (say, said) = tokio::sync::mpsc::channel::<Bytes>(1);
            let messages = stream::unfold(said, |mut said| async {
                let message = said.recv().await?;
                Some((Ok::<_, Infallible>(Frame::data(message)), said))
            });
            let request = Request::post(format!("http://{}/echo.Echo/Talk", house.address()))
                .header("te", "trailers")
                .header("content-type", "application/grpc+proto")
                .body(StreamBody::new(Box::pin(messages)))
                .unwrap();
            // More than a frame of HTTP/2 holds.
            let message = Bytes::from(vec![b'm'; 20_000]);
            say.send(message.clone()).await.unwrap();
            let mut answers = sender.send_request(request).await.unwrap().into_body();
            for round in 0..3 {
                let mut heard = 0;
                while heard < message.len() {
                    let frame = tokio::time::timeout(PATIENCE, answers.frame()).await;
                    let frame =
                        frame.unwrap_or_else(|_| panic!("round {round}, spool {spool}: {heard} heard"));
                    heard += frame.unwrap().unwrap().into_data().unwrap().len();
                }
                say.send(message.clone()).await.unwrap();
            }
            drop(say);
            let rest = tokio::time::timeout(PATIENCE, answers.collect()).await.expect("in time").unwrap();
            assert_eq!(rest.to_bytes().len(), message.len());
        });
        drop(runtime);
        let counted = house.finish();
        assert_eq!(counted.counts(Meter::RESPONSES), [0, 1, 0, 0, 0]);
    }
}

/// A call whose client is silent counts until it is a long stream by its age; another upload rests after a second.
#[test]
fn a_request_that_comes_slowly_over_http2_holds_no_permit_for_long() {
    for (media, after) in [("application/grpc", "2s"), ("application/octet-stream", "1h")] {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let server = runtime.block_on(serve(|request| async {
            let body = request.into_body().collect().await.unwrap().to_bytes();
            Response::new(http_body_util::Full::new(body))
        }));
        let house = before(
            server,
            &format!(
                "upstream.protocol = \"http2\"\nspool = \"0B\"\nlong_streams.after = \"{after}\"\n\
                 in_flight.algorithm = \"fixed\"\nin_flight.limit = 1\n"
            ),
        );
        let gate = house.gate();
        runtime.block_on(async {
            let mut sender = client(&house).await;
            let (say, said) = tokio::sync::mpsc::channel::<Bytes>(1);
            let pieces = stream::unfold(said, |mut said| async {
                let piece = said.recv().await?;
                Some((Ok::<_, Infallible>(Frame::data(piece)), said))
            });
            let request = Request::post(format!("http://{}/", house.address()))
                .header("content-type", media)
                .body(StreamBody::new(Box::pin(pieces)))
                .unwrap();
            say.send(Bytes::from_static(b"hello")).await.unwrap();
            let response = tokio::spawn(sender.send_request(request));
            until(|| (gate.held(), gate.levels().long_streams) == (0, 1)).await;
            let mut other = client(&house).await;
            let request = Request::get(format!("http://{}/", house.address()))
                .body(http_body_util::Empty::<Bytes>::new())
                .unwrap();
            assert_eq!(other.send_request(request).await.unwrap().status(), 200);
            say.send(Bytes::from_static(b"world")).await.unwrap();
            drop(say);
            let response = response.await.unwrap().unwrap();
            assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "helloworld");
            until(|| (gate.held(), gate.levels().long_streams) == (0, 0)).await;
        });
        drop(runtime);
        house.finish();
    }
}

/// It would keep its permit for as long as a call may be silent: a few would keep everybody out.
#[test]
fn what_calls_itself_grpc_before_a_server_of_http1_is_gathered_without_a_permit() {
    let house = House::new("in_flight.algorithm = \"fixed\"\nin_flight.limit = 1\n");
    let gate = house.gate();
    block_on(async {
        let mut sender = client(&house).await;
        let (say, said) = tokio::sync::mpsc::channel::<Bytes>(1);
        let pieces = stream::unfold(said, |mut said| async {
            let piece = said.recv().await?;
            Some((Ok::<_, Infallible>(Frame::data(piece)), said))
        });
        let request = Request::post("http://app.example/slow")
            .header("content-type", "application/grpc")
            .body(StreamBody::new(Box::pin(pieces)))
            .unwrap();
        say.send(Bytes::from_static(b"hello")).await.unwrap();
        let response = tokio::spawn(sender.send_request(request));
        until(|| (house.shared.spool().used(), gate.held()) == (5, 0)).await;
        let mut other = client(&house).await;
        let request =
            Request::get("http://app.example/other").body(http_body_util::Empty::<Bytes>::new()).unwrap();
        let answer = tokio::spawn(other.send_request(request));
        until(|| gate.held() == 1).await;
        let mut at_server = house.origin.next();
        assert_eq!(at_server.request.target, "/other");
        at_server.ok("");
        assert_eq!(answer.await.unwrap().unwrap().status(), 200);
        say.send(Bytes::from_static(b"world")).await.unwrap();
        drop(say);
        until(|| gate.held() == 1).await;
        let mut at_server = house.origin.next();
        assert_eq!((&*at_server.request.target, &*at_server.request.body), ("/slow", &b"helloworld"[..]));
        at_server.ok("");
        assert_eq!(response.await.unwrap().unwrap().status(), 200);
    });
    house.finish();
}

/// Two streams of one connection: the one that is reset while it waits never reaches the server.
#[test]
fn a_stream_that_is_reset_while_it_waits_leaves_the_queue() {
    let house = House::new(
        "in_flight.algorithm = \"fixed\"\nin_flight.limit = 1\n[application.app.class.default]\nqueue.wait.max = \"none\"\n",
    );
    block_on(async {
        let mut sender = client(&house).await;
        let request = |path: &str| {
            Request::get(format!("http://app.example{path}"))
                .body(http_body_util::Empty::<Bytes>::new())
                .unwrap()
        };
        let first = tokio::spawn(sender.send_request(request("/first")));
        let gate = house.gate();
        until(|| gate.held() == 1).await;
        let second = tokio::spawn(sender.send_request(request("/second")));
        until(|| gate.levels().queued[0] == 1).await;
        second.abort();
        until(|| gate.levels().queued[0] == 0).await;
        let mut at_server = house.origin.next();
        assert_eq!(at_server.request.target, "/first");
        at_server.ok("");
        assert_eq!(first.await.unwrap().unwrap().status(), 200);
        let third = tokio::spawn(sender.send_request(request("/third")));
        until(|| gate.held() == 1).await;
        let mut at_server = house.origin.next();
        assert_eq!(at_server.request.target, "/third");
        at_server.ok("");
        assert_eq!(third.await.unwrap().unwrap().status(), 200);
    });
    let counted = house.finish();
    assert_eq!(counted.counts(Meter::LEFT), [1]);
}

async fn until(holds: impl Fn() -> bool) {
    tokio::time::timeout(crate::support::PATIENCE, async {
        while !holds() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    })
    .await
    .unwrap();
}
