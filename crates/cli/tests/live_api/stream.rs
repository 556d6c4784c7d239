//! A reader of server-sent events (HTML Living Standard, section 9.2.6), as far as the gateway writes them.

use std::{
    io::{BufRead, BufReader, ErrorKind, Write},
    net::{SocketAddr, TcpStream},
    time::{Duration, Instant},
};

use serde_json::Value as Json;

/// How long an event may take to come on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// An open stream.
pub(crate) struct Stream {
    reader: BufReader<TcpStream>,
    line: String,
    begun: Event,
}

/// An event as it came.
#[derive(Clone, Debug, Default)]
pub(crate) struct Event {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) data: Json,
}

impl Stream {
    /// Connects; `last` is sent as Last-Event-ID. As HTTP/1.0, so that the body is not in chunks.
    pub(crate) fn open(admin: SocketAddr, query: &str, last: Option<&str>) -> Self {
        let mut stream = TcpStream::connect(admin).expect("connect to the admin interface");
        let last = last.map_or_else(String::new, |id| format!("last-event-id: {id}\r\n"));
        let request = format!("GET /api/v1/events?{query} HTTP/1.0\r\nhost: {admin}\r\n{last}\r\n");
        stream.write_all(request.as_bytes()).expect("ask for events");
        stream.set_read_timeout(Some(PATIENCE)).expect("a bound on waiting");
        let mut stream =
            Self { reader: BufReader::new(stream), line: String::new(), begun: Event::default() };
        let mut head = String::new();
        while stream.reader.read_line(&mut head).expect("a head") > 2 {}
        assert!(head.starts_with("HTTP/1.0 200") && head.contains("text/event-stream"), "{head}");
        // Its greeting: what happens from here on is told.
        while stream.reader.read_line(&mut head).expect("a greeting") > 1 {}
        stream
    }

    /// The next event.
    pub(crate) fn next(&mut self) -> Event {
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(event) = self.poll() {
                return event;
            }
            assert!(Instant::now() < until, "no event within {PATIENCE:?}");
        }
    }

    /// The next event of that name.
    pub(crate) fn next_of(&mut self, name: &str) -> Event {
        self.next_where(name, |_| true)
    }

    /// The next event of that name with such data.
    pub(crate) fn next_where(&mut self, name: &str, wanted: impl Fn(&Json) -> bool) -> Event {
        let until = Instant::now() + PATIENCE;
        loop {
            let event = self.next();
            if event.name == name && wanted(&event.data) {
                return event;
            }
            assert!(Instant::now() < until, "no such {name} within {PATIENCE:?}; last came {event:?}");
        }
    }

    /// An event, if one is complete within a moment.
    pub(crate) fn poll(&mut self) -> Option<Event> {
        self.reader.get_ref().set_read_timeout(Some(Duration::from_millis(20))).expect("a bound on waiting");
        loop {
            match self.reader.read_line(&mut self.line) {
                Ok(0) => panic!("the stream has ended; begun: {:?}", self.begun),
                Ok(_) => {}
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    return None;
                }
                Err(error) => panic!("the stream broke: {error}"),
            }
            let line = std::mem::take(&mut self.line);
            match line.trim_end_matches('\n').split_once(": ") {
                Some(("id", id)) => id.clone_into(&mut self.begun.id),
                Some(("event", name)) => name.clone_into(&mut self.begun.name),
                Some(("data", data)) => self.begun.data = serde_json::from_str(data).expect("JSON"),
                _ if line == "\n" && !self.begun.name.is_empty() => {
                    return Some(std::mem::take(&mut self.begun));
                }
                _ => {}
            }
        }
    }
}
