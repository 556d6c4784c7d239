//! A plain HTTP/1.1 client on a socket, which can send what a well-behaved one would not.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use tidegate_auction::Running;

pub(crate) fn get(site: &Running, target: &str) -> Answer {
    Client::connect(site).send("GET", target, &[], b"")
}

pub(crate) fn post(site: &Running, target: &str, body: &str) -> Answer {
    Client::connect(site).send("POST", target, &[], body.as_bytes())
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// A kept connection.
#[derive(Debug)]
pub(crate) struct Client(BufReader<TcpStream>);

impl Client {
    pub(crate) fn connect(site: &Running) -> Self {
        let stream = TcpStream::connect(site.address()).expect("the site listens");
        stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a timeout");
        Self(BufReader::new(stream))
    }

    pub(crate) fn send(
        &mut self,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Answer {
        let mut text = format!("{method} {target} HTTP/1.1\r\nhost: auction.example\r\n");
        for (name, value) in headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        text.push_str(&format!("content-length: {}\r\n\r\n", body.len()));
        let mut bytes = text.into_bytes();
        bytes.extend_from_slice(body);
        self.0.get_mut().write_all(&bytes).expect("sent");
        self.finish()
    }

    /// Sends a request and does not wait for its answer.
    pub(crate) fn begin(&mut self, method: &str, target: &str) {
        let text = format!("{method} {target} HTTP/1.1\r\nhost: auction.example\r\n\r\n");
        self.0.get_mut().write_all(text.as_bytes()).expect("sent");
    }

    pub(crate) fn finish(&mut self) -> Answer {
        let status = self.line().split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status");
        let mut headers = Vec::new();
        loop {
            let line = self.line();
            let Some((name, value)) = line.split_once(':') else { break };
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let mut answer = Answer { status, headers, body: String::new() };
        let length =
            answer.header("content-length").and_then(|length| length.parse().ok()).expect("a length");
        let mut body = vec![0; length];
        self.0.read_exact(&mut body).expect("a body");
        answer.body = String::from_utf8(body).expect("UTF-8");
        answer
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).expect("a line");
        line.trim_end().to_owned()
    }
}
