//! A visitor as browsers and programs are: keeps cookies, asks in his own form and language, comes back when told.

use std::{collections::BTreeMap, net::SocketAddr, thread, time::Duration};

use serde_json::Value as Json;

use super::support::client::{Client, Response};

/// The cookie of a token.
pub(crate) const TURN: &str = "tidegate_turn";
/// Where one asks how things stand.
const ASK: &str = "/.well-known/tidegate/turn";

/// A copy is another tab of the same browser, as long as neither is told anything.
#[derive(Clone)]
pub(crate) struct Visitor {
    address: SocketAddr,
    accept: &'static str,
    cookies: BTreeMap<String, String>,
}

/// One who looks at pages, in German.
pub(crate) fn browser(address: SocketAddr) -> Visitor {
    Visitor { address, accept: "text/html,application/xhtml+xml,*/*;q=0.8", cookies: BTreeMap::new() }
}

/// One who reads JSON.
pub(crate) fn program(address: SocketAddr) -> Visitor {
    Visitor { address, accept: "application/json", cookies: BTreeMap::new() }
}

impl Visitor {
    pub(crate) fn get(&mut self, path: &str) -> Response {
        self.send("GET", path, "", b"")
    }

    pub(crate) fn get_with(&mut self, path: &str, headers: &str) -> Response {
        self.send("GET", path, headers, b"")
    }

    /// Sends a request with more header lines, each with its line end.
    pub(crate) fn send(&mut self, method: &str, path: &str, headers: &str, body: &[u8]) -> Response {
        let cookies: Vec<String> =
            self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let cookies = match cookies.is_empty() {
            true => String::new(),
            false => format!("cookie: {}\r\n", cookies.join("; ")),
        };
        let (accept, length) = (self.accept, body.len());
        let mut message = format!(
            "{method} {path} HTTP/1.1\r\nhost: {}\r\naccept: {accept}\r\naccept-language: de-AT, en;q=0.5\r\n\
             {cookies}content-length: {length}\r\nconnection: close\r\n{headers}\r\n",
            self.address
        )
        .into_bytes();
        message.extend_from_slice(body);
        let mut client = Client::connect(self.address).expect("connect to the gateway");
        client.send(&message).expect("send a request");
        let response = client.response().expect("a response");
        self.keep_cookies(&response);
        response
    }

    /// Waits until his time has come, and goes on.
    pub(crate) fn come_back(&mut self, path: &str) -> Response {
        self.come_back_with("GET", path, "", b"")
    }

    pub(crate) fn come_back_with(
        &mut self,
        method: &str,
        path: &str,
        headers: &str,
        body: &[u8],
    ) -> Response {
        self.wait_by(ASK);
        self.send(method, path, headers, body)
    }

    /// As [`come_back`](Self::come_back), with the promise of another class than `default`.
    pub(crate) fn come_back_as(&mut self, class: &str, path: &str) -> Response {
        self.wait_by(&format!("{ASK}?class={class}"));
        self.get(path)
    }

    fn wait_by(&mut self, ask: &str) {
        let standing = self.get(ask);
        assert_eq!(standing.status, 200, "his token is known: {}", standing.text());
        let standing: Json = serde_json::from_str(&standing.text()).expect("JSON");
        self.wait(standing["left_ms"].as_u64().expect("a time"));
    }

    /// The time he was told is a point of the wall clock: nothing announces it.
    pub(crate) fn wait(&self, left_ms: u64) {
        assert!(left_ms < 60_000, "{left_ms} ms is longer than this test waits");
        thread::sleep(Duration::from_millis(left_ms + 1));
    }

    pub(crate) const fn cookies(&self) -> &BTreeMap<String, String> {
        &self.cookies
    }

    /// Has what another tab of its browser was given, too.
    pub(crate) fn adopt(&mut self, other: &Self) {
        self.cookies.extend(other.cookies.clone());
    }

    /// As one who keeps no cookies.
    pub(crate) fn forget(&mut self) {
        self.cookies.clear();
    }

    fn keep_cookies(&mut self, response: &Response) {
        for (_, value) in response.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case("set-cookie"))
        {
            let mut parts = value.split("; ");
            let (name, content) =
                parts.next().and_then(|pair| pair.split_once('=')).expect("a cookie has a name and a value");
            let attributes: Vec<&str> = parts.collect();
            assert!(
                ["Path=/", "HttpOnly", "SameSite=Lax"].iter().all(|needed| attributes.contains(needed)),
                "{value}"
            );
            if attributes.contains(&"Max-Age=0") {
                self.cookies.remove(name);
            } else {
                self.cookies.insert(name.to_owned(), content.to_owned());
            }
        }
    }
}
