//! The PROXY header towards servers, and connections kept apart by client.

use tidegate_config::{ProxyVersion, UpstreamProtocol};
use tokio::task::JoinSet;

use super::{
    http2::{answer_all, with_server},
    *,
};

#[test]
fn each_connection_begins_with_the_header_and_serves_one_client() {
    run(async {
        let raw = Raw::bind().await;
        let mut bench =
            Bench::new(&[raw.address()], |app| app.upstream.proxy_protocol = Some(ProxyVersion::V1));
        let mut first = {
            let server = async {
                let mut peer = raw.accept().await;
                assert_eq!(peer.read_until(b"\r\n").await, "PROXY TCP4 192.0.2.1 198.51.100.2 4711 443\r\n");
                peer.answer("one").await;
                // No second header.
                let head = peer.answer("two").await;
                assert!(head.starts_with("GET /2 "), "{head}");
                peer
            };
            let client = async {
                for path in ["/1", "/2"] {
                    text(bench.get(path).await.expect("a head").into_body()).await.expect("a body");
                }
            };
            tokio::join!(client, server).1
        };
        bench.client.client = Some(address("192.0.2.1:4712"));
        let server = async {
            let mut peer = raw.accept().await;
            assert_eq!(peer.read_until(b"\r\n").await, "PROXY TCP4 192.0.2.1 198.51.100.2 4712 443\r\n");
            peer.answer("three").await;
        };
        let (sent, ()) = tokio::join!(bench.get("/3"), server);
        text(sent.expect("a head").into_body()).await.expect("a body");
        // The first client finds its own connection again.
        bench.client.client = Some(address("192.0.2.1:4711"));
        let (sent, head) = tokio::join!(bench.get("/4"), first.answer("four"));
        assert!(head.starts_with("GET /4 "), "{head}");
        text(sent.expect("a head").into_body()).await.expect("a body");
        assert_eq!(bench.connects(), 2);
    });
}

#[test]
fn version_2_goes_out_whole_and_before_everything() {
    run(async {
        let raw = Raw::bind().await;
        let mut bench =
            Bench::new(&[raw.address()], |app| app.upstream.proxy_protocol = Some(ProxyVersion::V2));
        bench.client.client = Some(address("[2001:db8::7]:5"));
        bench.client.local = Some(address("[::1]:443"));
        let server = async {
            let mut peer = raw.accept().await;
            // The header begins with an empty line, so it is read by its length.
            let mut header = [0; 52];
            peer.stream.read_exact(&mut header).await.expect("a header");
            assert!(header.starts_with(b"\r\n\r\n\0\r\nQUIT\n\x21\x21\0\x24"), "{header:?}");
            assert_eq!(header[48..], [0, 5, 1, 187]);
            assert_eq!(peer.head().await, "GET / HTTP/1.1\r\nhost: app.test\r\n\r\n");
            peer.write("HTTP/1.1 204 No Content\r\n\r\n").await;
        };
        let (sent, ()) = tokio::join!(bench.get("/"), server);
        assert_eq!(sent.expect("an answer").status(), 204);
    });
}

/// Reads a header of version 1 to its end, byte by byte: what follows is HTTP/2.
async fn line(stream: &mut TcpStream) -> String {
    let mut line = String::new();
    while !line.ends_with("\r\n") {
        line.push(char::from(stream.read_u8().await.expect("a header")));
    }
    line
}

/// Before a server of HTTP/2, where one connection may serve many, but those of one client only.
fn h2_with_headers(raw: &Raw) -> Bench {
    Bench::new(&[raw.address()], |app| {
        app.upstream.protocol = UpstreamProtocol::Http2;
        app.upstream.proxy_protocol = Some(ProxyVersion::V1);
        set(&mut app.values, "upstream.idle.max", Value::Count(2));
    })
}

#[test]
fn connections_of_http2_for_several_clients_are_opened_at_once_and_one_for_each() {
    run(async {
        let raw = Raw::bind().await;
        let bench = h2_with_headers(&raw);
        let other = client_of(Arc::clone(&bench.client.listener), "192.0.2.1:4712");
        let server = async {
            // Both are there before either is answered.
            let (mut one, mut two) = (raw.accept().await, raw.accept().await);
            let mut lines = [line(&mut one.stream).await, line(&mut two.stream).await];
            lines.sort();
            assert_eq!(
                lines,
                [
                    "PROXY TCP4 192.0.2.1 198.51.100.2 4711 443\r\n",
                    "PROXY TCP4 192.0.2.1 198.51.100.2 4712 443\r\n"
                ]
            );
            tokio::join!(answer_all(one.stream, "yes"), answer_all(two.stream, "yes"));
        };
        let get = async |client: &ConnectionFacts| {
            let now = bench.shared.clock().now();
            let request = request(Method::GET, "/", RequestBody::Empty);
            let sent = bench.upstreams.send(bench.choose(), request.into(), client, now, &|_| {}).await;
            text(sent.expect("a head").into_body()).await.expect("a body")
        };
        let client = async { tokio::join!(get(&bench.client), get(&other), get(&bench.client), get(&other)) };
        let answers = with_server(client, server).await;
        assert_eq!(<[String; 4]>::from(answers), ["yes"; 4]);
        assert_eq!(bench.connects(), 2);
    });
}

#[test]
fn of_http2_too_no_more_idle_connections_are_kept_than_may_be() {
    run(async {
        let raw = Raw::bind().await;
        let mut bench = h2_with_headers(&raw);
        let mut open = JoinSet::new();
        for port in 1..=4 {
            bench.client.client = Some(SocketAddr::new([192, 0, 2, 1].into(), port));
            let server = async {
                let mut peer = raw.accept().await;
                line(&mut peer.stream).await;
                peer.stream
            };
            let sent =
                async { text(bench.get("/").await.expect("a head").into_body()).await.expect("a body") };
            let serve = async {
                let stream = server.await;
                open.spawn_local(async move {
                    answer_all(stream, "yes").await;
                    port
                });
            };
            assert_eq!(tokio::join!(sent, serve).0, "yes");
        }
        // Three were idle when the fourth client came, and are again since it has its answer.
        assert_eq!(open.join_next().await.expect("one that ends").expect("no panic"), 1);
        bench.upstreams.sweep(false);
        assert_eq!(open.join_next().await.expect("one that ends").expect("no panic"), 2);
    });
}
