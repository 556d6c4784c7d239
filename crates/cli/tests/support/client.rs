//! A plain HTTP/1.1 client that shows everything that happens to its connection.

#![allow(dead_code, reason = "each test program uses its part")]

use std::{
    io::{self, Read, Write},
    net::{IpAddr, SocketAddr, TcpStream},
    time::Duration,
};

use socket2::{Domain, SockRef, Socket, Type};

use super::unbroken::Unbroken;

/// How long anything may take before the test fails.
const PATIENCE: Duration = Duration::from_secs(30);

/// A connection.
pub(crate) struct Client {
    pub(crate) stream: TcpStream,
    buffer: Vec<u8>,
    /// Responses read.
    pub(crate) responses: usize,
}

/// A whole response.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> io::Result<Self> {
        Self::over(TcpStream::connect_timeout(&address, PATIENCE)?)
    }

    /// Connects from a loopback address of its own.
    pub(crate) fn connect_from(source: IpAddr, address: SocketAddr) -> io::Result<Self> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
        socket.bind(&SocketAddr::new(source, 0).into())?;
        socket.connect(&address.into())?;
        Self::over(socket.into())
    }

    fn over(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Self { stream, buffer: Vec::new(), responses: 0 })
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// Sends a GET with more header lines, each with its line end.
    pub(crate) fn send_get(&mut self, path: &str, headers: &str) -> io::Result<()> {
        self.send(format!("GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\n{headers}\r\n").as_bytes())
    }

    pub(crate) fn get(&mut self, path: &str, headers: &str) -> io::Result<Response> {
        self.send_get(path, headers)?;
        self.response()
    }

    /// Sends a POST with its length and reads the response.
    pub(crate) fn post(&mut self, path: &str, headers: &str, body: &[u8]) -> io::Result<Response> {
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: {}\r\n{headers}\r\n",
            body.len()
        );
        let mut message = head.into_bytes();
        message.extend_from_slice(body);
        self.send(&message)?;
        self.response()
    }

    /// Reads a whole response; an error if it is cut off.
    pub(crate) fn response(&mut self) -> io::Result<Response> {
        let mut response = loop {
            if let Some((response, length)) = parse(&self.buffer)? {
                self.buffer.drain(..length);
                if response.status >= 200 {
                    break response;
                }
                continue;
            }
            if self.fill()? == 0 {
                let what =
                    if self.buffer.is_empty() { "closed before a response" } else { "closed within a head" };
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, what));
            }
        };
        if response.header("transfer-encoding").is_some() {
            loop {
                let line = self.line()?;
                let size = usize::from_str_radix(line.trim(), 16).map_err(|_| io::ErrorKind::InvalidData)?;
                let mut chunk = self.take(size + 2)?;
                chunk.truncate(size);
                response.body.append(&mut chunk);
                if size == 0 {
                    break;
                }
            }
        } else if let Some(length) = response.header("content-length") {
            let length = length.parse().map_err(|_| io::ErrorKind::InvalidData)?;
            response.body = self.take(length)?;
        } else if response.status != 204 && response.status != 304 {
            while self.fill()? > 0 {}
            response.body = std::mem::take(&mut self.buffer);
        }
        self.responses += 1;
        Ok(response)
    }

    /// Waits for the end of the connection, whether closed or reset.
    pub(crate) fn closed(&mut self) -> io::Result<()> {
        loop {
            match self.fill() {
                Ok(0) => return Ok(()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }

    /// Whether nothing of a further response has come.
    pub(crate) fn is_clean(&self) -> bool {
        self.buffer.is_empty()
    }

    /// Leaves with RST.
    pub(crate) fn reset(self) {
        let _ = SockRef::from(&self.stream).set_linger(Some(Duration::ZERO));
    }

    fn fill(&mut self) -> io::Result<usize> {
        let mut chunk = [0; 16 * 1024];
        let n = Unbroken(&self.stream).read(&mut chunk)?;
        self.buffer.extend_from_slice(&chunk[..n]);
        Ok(n)
    }

    fn line(&mut self) -> io::Result<String> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=end).collect();
                return Ok(String::from_utf8_lossy(&line).into_owned());
            }
            if self.fill()? == 0 {
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "closed within a chunk's head"));
            }
        }
    }

    fn take(&mut self, length: usize) -> io::Result<Vec<u8>> {
        while self.buffer.len() < length {
            if self.fill()? == 0 {
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "closed within a body"));
            }
        }
        Ok(self.buffer.drain(..length).collect())
    }
}

impl Response {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Whether the server closes the connection after it.
    pub(crate) fn closes(&self) -> bool {
        self.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"))
    }
}

/// One request on a connection of its own.
pub(crate) fn get(address: SocketAddr, path: &str) -> io::Result<Response> {
    Client::connect(address)?.get(path, "connection: close\r\n")
}

fn parse(buffer: &[u8]) -> io::Result<Option<(Response, usize)>> {
    let mut headers = [httparse::EMPTY_HEADER; 100];
    let mut parsed = httparse::Response::new(&mut headers);
    let status = parsed.parse(buffer).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
    let httparse::Status::Complete(length) = status else { return Ok(None) };
    let headers = parsed
        .headers
        .iter()
        .map(|header| (header.name.to_owned(), String::from_utf8_lossy(header.value).into_owned()))
        .collect();
    Ok(Some((Response { status: parsed.code.unwrap_or(0), headers, body: Vec::new() }, length)))
}
