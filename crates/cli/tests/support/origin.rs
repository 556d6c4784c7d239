//! A scripted HTTP/1.1 server: each connection on a thread of its own, each request handed to a closure and counted
//! by the id it carries.

#![allow(dead_code, reason = "each test program uses its part")]

use std::{
    collections::HashMap,
    io::{self, Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use socket2::SockRef;

use super::unbroken::Unbroken;

/// The header whose value tells one request from all others.
pub(crate) const ID: &str = "x-test-id";

/// Bytes of a body that are kept to be looked at.
const BODY_KEPT_MAX: u64 = 64 * 1024;

/// A server on a port of its own, until dropped.
pub(crate) struct Origin {
    pub(crate) address: SocketAddr,
    shared: Arc<Shared>,
}

/// A request as it came.
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body_bytes: u64,
    /// Its body, of whose length the head tells, if it is no longer than [`BODY_KEPT_MAX`].
    pub(crate) body: Vec<u8>,
}

/// What becomes of the connection after a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Then {
    KeepAlive,
    Close,
    /// Closes with RST.
    Reset,
}

#[derive(Default)]
struct Shared {
    counts: Mutex<Counts>,
    changed: Condvar,
    open: AtomicUsize,
    stopped: AtomicBool,
}

#[derive(Default)]
struct Counts {
    begun: HashMap<String, usize>,
    requests: usize,
}

impl Origin {
    /// Starts a server that answers each request by `answer`, which writes the response itself.
    pub(crate) fn start(
        answer: impl Fn(&Request, &mut TcpStream) -> io::Result<Then> + Send + Sync + 'static,
    ) -> Self {
        Self::serve(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port for the origin"), answer)
    }

    fn serve(
        listener: TcpListener,
        answer: impl Fn(&Request, &mut TcpStream) -> io::Result<Then> + Send + Sync + 'static,
    ) -> Self {
        let address = listener.local_addr().expect("its address");
        let shared = Arc::new(Shared::default());
        let state = Arc::clone(&shared);
        let answer = Arc::new(answer);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if state.stopped.load(Ordering::Relaxed) {
                    return;
                }
                let (state, answer) = (Arc::clone(&state), Arc::clone(&answer));
                thread::spawn(move || {
                    state.open.fetch_add(1, Ordering::Relaxed);
                    // A connection that breaks is what many of the tests are about.
                    let _ = converse(stream, &state, &*answer);
                    state.open.fetch_sub(1, Ordering::Relaxed);
                });
            }
        });
        Self { address, shared }
    }

    /// A server that answers 200 and "hello\n".
    pub(crate) fn hello() -> Self {
        Self::start(|_, stream| respond(stream, 200, b"hello\n"))
    }

    /// The same at a given address.
    pub(crate) fn hello_at(address: SocketAddr) -> Self {
        let listener = TcpListener::bind(address).expect("the address is free");
        Self::serve(listener, |_, stream| respond(stream, 200, b"hello\n"))
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Requests that have come.
    pub(crate) fn requests(&self) -> usize {
        self.shared.counts().requests
    }

    /// Connections open.
    pub(crate) fn open(&self) -> usize {
        self.shared.open.load(Ordering::Relaxed)
    }

    /// How often the request of this id has come.
    pub(crate) fn times(&self, id: &str) -> usize {
        self.shared.counts().begun.get(id).copied().unwrap_or(0)
    }

    /// Ids that came more than once.
    pub(crate) fn repeated(&self) -> Vec<String> {
        let counts = self.shared.counts();
        counts.begun.iter().filter(|(_, times)| **times > 1).map(|(id, _)| id.clone()).collect()
    }

    /// Waits until this many requests have come.
    pub(crate) fn await_requests(&self, requests: usize) {
        let deadline = Instant::now() + Duration::from_secs(20);
        let mut counts = self.shared.counts();
        while counts.requests < requests {
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "{} of {requests} requests reached the origin", counts.requests);
            counts = self.shared.changed.wait_timeout(counts, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::Relaxed);
        // Wakes the thread that accepts.
        let _ = TcpStream::connect(self.address);
    }
}

impl Shared {
    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Request {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }
}

/// Writes a response with its length.
pub(crate) fn respond(stream: &mut TcpStream, status: u16, body: &[u8]) -> io::Result<Then> {
    let head = format!(
        "HTTP/1.1 {status} Said\r\ncontent-type: text/plain\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    let mut message = head.into_bytes();
    message.extend_from_slice(body);
    stream.write_all(&message)?;
    Ok(Then::KeepAlive)
}

/// A latch that threads wait at until it is opened.
#[derive(Clone, Default)]
pub(crate) struct Latch(Arc<(Mutex<bool>, Condvar)>);

impl Latch {
    pub(crate) fn open(&self) {
        *self.0.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.0.1.notify_all();
    }

    /// Waits, half a minute at most.
    pub(crate) fn wait(&self) {
        let closed = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.0.1.wait_timeout_while(closed, Duration::from_secs(30), |open| !*open));
    }
}

fn converse(
    mut stream: TcpStream,
    state: &Shared,
    answer: &(impl Fn(&Request, &mut TcpStream) -> io::Result<Then> + ?Sized),
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(Duration::from_secs(60)))?;
    let mut buffer = Vec::new();
    while let Some(request) = read_request(&mut stream, &mut buffer, state)? {
        match answer(&request, &mut stream)? {
            Then::KeepAlive => {}
            Then::Close => return Ok(()),
            Then::Reset => return SockRef::from(&stream).set_linger(Some(Duration::ZERO)),
        }
    }
    Ok(())
}

fn read_request(stream: &mut TcpStream, buffer: &mut Vec<u8>, state: &Shared) -> io::Result<Option<Request>> {
    let mut request = loop {
        if let Some((request, length)) = parse(buffer)? {
            buffer.drain(..length);
            break request;
        }
        if fill(stream, buffer)? == 0 {
            return Ok(None);
        }
    };
    {
        let mut counts = state.counts();
        counts.requests += 1;
        if let Some(id) = request.header(ID) {
            *counts.begun.entry(id.to_owned()).or_default() += 1;
        }
        state.changed.notify_all();
    }
    if request.header("expect").is_some() {
        stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
    }
    if request.header("transfer-encoding").is_some() {
        loop {
            let line = read_line(stream, buffer)?;
            let size = u64::from_str_radix(line.trim(), 16).map_err(|_| io::ErrorKind::InvalidData)?;
            skip(stream, buffer, size + 2)?;
            request.body_bytes += size;
            if size == 0 {
                break;
            }
        }
    } else if let Some(length) = request.header("content-length") {
        let length = length.parse().map_err(|_| io::ErrorKind::InvalidData)?;
        request.body_bytes = length;
        if length <= BODY_KEPT_MAX {
            let length = usize::try_from(length).unwrap_or(usize::MAX);
            while buffer.len() < length {
                if fill(stream, buffer)? == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            }
            request.body = buffer.drain(..length).collect();
        } else {
            skip(stream, buffer, length)?;
        }
    }
    Ok(Some(request))
}

fn parse(buffer: &[u8]) -> io::Result<Option<(Request, usize)>> {
    let mut headers = [httparse::EMPTY_HEADER; 200];
    let mut parsed = httparse::Request::new(&mut headers);
    let status = parsed.parse(buffer).map_err(|_| io::ErrorKind::InvalidData)?;
    let httparse::Status::Complete(length) = status else { return Ok(None) };
    let headers = parsed
        .headers
        .iter()
        .map(|header| (header.name.to_owned(), String::from_utf8_lossy(header.value).into_owned()))
        .collect();
    let request = Request {
        method: parsed.method.unwrap_or_default().to_owned(),
        path: parsed.path.unwrap_or_default().to_owned(),
        headers,
        body_bytes: 0,
        body: Vec::new(),
    };
    Ok(Some((request, length)))
}

fn fill(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> io::Result<usize> {
    let mut chunk = [0; 16 * 1024];
    let n = Unbroken(stream).read(&mut chunk)?;
    buffer.extend_from_slice(&chunk[..n]);
    Ok(n)
}

fn read_line(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> io::Result<String> {
    loop {
        if let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = buffer.drain(..=end).collect();
            return Ok(String::from_utf8_lossy(&line).into_owned());
        }
        if fill(stream, buffer)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

fn skip(stream: &mut TcpStream, buffer: &mut Vec<u8>, mut bytes: u64) -> io::Result<()> {
    loop {
        let taken = usize::try_from(bytes).unwrap_or(usize::MAX).min(buffer.len());
        buffer.drain(..taken);
        bytes -= taken as u64;
        if bytes == 0 {
            return Ok(());
        }
        if fill(stream, buffer)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}
