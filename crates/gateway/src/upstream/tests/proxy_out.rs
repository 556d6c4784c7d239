//! The PROXY header towards servers, and connections kept apart by client.

use tidegate_config::ProxyVersion;

use super::*;

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
