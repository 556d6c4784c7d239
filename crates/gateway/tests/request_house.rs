//! A gateway before a server whose every byte a test plays or checks.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        mpsc::{Receiver, channel},
    },
    thread,
};

use tidegate_control::{ApplicationId, ClassId, meters::Meter};
use tidegate_gateway::{Gateway, Inherited, Running};
use tidegate_runtime::{Gate, Readings, Shared, Subject};

use crate::support::{PATIENCE, PLAIN, connect, eventually};

/// One worker, one application before one server.
pub(crate) struct House {
    pub(crate) running: Running,
    pub(crate) shared: Arc<Shared>,
    pub(crate) origin: Origin,
    pub(crate) directory: tempfile::TempDir,
}

impl House {
    /// With lines for the application's table; a plain listener.
    pub(crate) fn new(application: &str) -> Self {
        Self::with(|_| (String::new(), PLAIN.to_owned(), application.to_owned()))
    }

    /// With lines for the host, the listeners and the application, which may name files in a
    /// directory.
    pub(crate) fn with(lines: impl FnOnce(&std::path::Path) -> (String, String, String)) -> Self {
        let origin = Origin::start();
        let directory = tempfile::tempdir().unwrap();
        let (host, listeners, application) = lines(directory.path());
        let servers = format!("servers = \"http://{}\"\n", origin.address);
        let own = application.split("\n[").next().unwrap_or_default();
        let servers = if own.contains("servers =") { String::new() } else { servers };
        let text = format!(
            "admin = \"none\"\n{host}\n[[workers]]\nthreads = 1\n{listeners}\n[application.app]\n{servers}{application}\n"
        );
        let settings = tidegate_config::parse(&text, directory.path(), "test")
            .unwrap_or_else(|faults| panic!("{faults}\n{text}"));
        let shared = Shared::new(settings).unwrap();
        let running = Gateway::start(Arc::clone(&shared), Inherited::default()).unwrap();
        Self { running, shared, origin, directory }
    }

    pub(crate) fn connect(&self) -> TcpStream {
        connect(self.address())
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.running.address("http").unwrap()
    }

    pub(crate) fn gate(&self) -> Gate {
        self.shared.snapshot().applications[0].state.gate().clone()
    }

    /// Waits until `n` requests wait.
    pub(crate) fn queued(&self, n: u64) {
        let gate = self.gate();
        eventually("queued", || gate.levels().queued.iter().sum::<u64>() == n);
    }

    /// Waits until `n` permits are out.
    pub(crate) fn held(&self, n: u64) {
        let gate = self.gate();
        eventually("held", || gate.held() == n);
    }

    /// Ends it: everything must have been given back and accounted for once. Gives what was counted
    /// of the default class.
    pub(crate) fn finish(self) -> Readings {
        let gate = self.gate();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let _ = runtime.block_on(self.running.drain(false));
        assert_eq!(gate.held(), 0, "permits leaked");
        let levels = gate.levels();
        assert_eq!((levels.in_flight, levels.long_streams), (0, 0));
        assert_eq!(levels.queued.iter().sum::<u64>(), 0);
        assert_eq!(self.shared.spool().used(), 0, "memory for bodies leaked");
        let totals = self.shared.totals().read();
        let readings = totals[&Subject::Class(ApplicationId(0), ClassId(0))].clone();
        let count = |meter| readings.counts(meter).iter().sum::<u64>();
        assert_eq!(
            count(Meter::ARRIVED),
            count(Meter::LEFT) + count(Meter::ABANDONED) + count(Meter::RESPONSES),
            "arrived is not left {}, abandoned {} and responses {}",
            count(Meter::LEFT),
            count(Meter::ABANDONED),
            count(Meter::RESPONSES)
        );
        readings
    }
}

/// A server that reads requests strictly and leaves answering to the test.
pub(crate) struct Origin {
    pub(crate) address: SocketAddr,
    exchanges: Receiver<Exchange>,
}

/// A request as it arrived at the server, and the connection to answer it on.
#[derive(Debug)]
pub(crate) struct Exchange {
    pub(crate) request: Received,
    pub(crate) stream: TcpStream,
}

/// A request, read by the letter of RFC 9112.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Received {
    pub(crate) method: String,
    pub(crate) target: String,
    pub(crate) fields: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    pub(crate) trailers: Vec<(String, String)>,
    /// What was wrong with it; everything else is then as far as it was read.
    pub(crate) fault: Option<String>,
}

impl Received {
    /// The values of a field.
    pub(crate) fn all(&self, name: &str) -> Vec<&str> {
        self.fields.iter().filter(|(field, _)| field == name).map(|(_, value)| value.as_str()).collect()
    }

    /// The only value of a field.
    pub(crate) fn one(&self, name: &str) -> Option<&str> {
        let values = self.all(name);
        assert!(values.len() < 2, "{name}: {values:?}");
        values.first().copied()
    }
}

impl Exchange {
    pub(crate) fn send(&mut self, bytes: &str) {
        self.stream.write_all(bytes.as_bytes()).unwrap();
    }

    /// Answers 200 with a body of known length.
    pub(crate) fn ok(&mut self, body: &str) {
        self.send(&format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len()));
    }
}

impl Origin {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, exchanges) = channel();
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let sender = sender.clone();
                thread::spawn(move || {
                    stream.set_nodelay(true).unwrap();
                    let mut reader = BufReader::new(stream.try_clone().unwrap());
                    while let Some(request) = read(&mut reader) {
                        let broken = request.fault.is_some();
                        let exchange = Exchange { request, stream: stream.try_clone().unwrap() };
                        if sender.send(exchange).is_err() || broken {
                            break;
                        }
                    }
                });
            }
        });
        Self { address, exchanges }
    }

    /// The next request, with whatever is wrong with it.
    pub(crate) fn any(&self) -> Exchange {
        self.exchanges.recv_timeout(PATIENCE).expect("a request at the server")
    }

    /// The next request; it must be faultless.
    pub(crate) fn next(&self) -> Exchange {
        let exchange = self.any();
        assert_eq!(exchange.request.fault, None, "{:?}", exchange.request);
        exchange
    }

    /// A request, if one is there.
    pub(crate) fn there(&self) -> Option<Exchange> {
        self.exchanges.try_recv().ok()
    }

    /// Whether a request is there; says nothing of those on their way.
    pub(crate) fn is_quiet(&self) -> bool {
        self.there().is_none()
    }
}

/// Reads one request; `None` at the end of the connection.
fn read(reader: &mut impl BufRead) -> Option<Received> {
    let mut request = Received::default();
    match read_into(reader, &mut request) {
        Ok(true) => Some(request),
        Ok(false) => None,
        Err(error) => {
            request.fault = Some(error.to_string());
            Some(request)
        }
    }
}

fn read_into(reader: &mut impl BufRead, request: &mut Received) -> io::Result<bool> {
    let Some(line) = line(reader)? else { return Ok(false) };
    let parts: Vec<&str> = line.split(' ').collect();
    let [method, target, "HTTP/1.1"] = parts[..] else { return Err(fault(format!("request line {line:?}"))) };
    if method.is_empty() || !method.bytes().all(is_token) {
        return Err(fault(format!("method {method:?}")));
    }
    if !(target.starts_with('/') || target == "*")
        || target.bytes().any(|b| b <= b' ' || b == 0x7f || b == b'#')
    {
        return Err(fault(format!("target {target:?}")));
    }
    (request.method, request.target) = (method.to_owned(), target.to_owned());
    request.fields = fields(reader)?;
    if request.all("host").len() != 1 {
        return Err(fault(format!("hosts {:?}", request.all("host"))));
    }
    let lengths: Vec<String> = request.all("content-length").iter().map(|&v| v.to_owned()).collect();
    let encodings: Vec<String> = request.all("transfer-encoding").iter().map(|&v| v.to_owned()).collect();
    match (&lengths[..], &encodings[..]) {
        ([], []) => {}
        ([length], []) if !length.is_empty() && length.bytes().all(|b| b.is_ascii_digit()) => {
            request.body.resize(length.parse().map_err(|_| fault("length"))?, 0);
            reader.read_exact(&mut request.body)?;
        }
        ([], [chunked]) if chunked == "chunked" => loop {
            let size = line_or_fault(reader)?;
            if size.is_empty() || !size.bytes().all(|b| b.is_ascii_hexdigit()) {
                return Err(fault(format!("chunk size {size:?}")));
            }
            let size = usize::from_str_radix(&size, 16).map_err(|_| fault("chunk size"))?;
            if size == 0 {
                request.trailers = fields(reader)?;
                break;
            }
            let start = request.body.len();
            request.body.resize(start + size, 0);
            reader.read_exact(&mut request.body[start..])?;
            if !line_or_fault(reader)?.is_empty() {
                return Err(fault("chunk end"));
            }
        },
        both => return Err(fault(format!("framing {both:?}"))),
    }
    Ok(true)
}

fn fields(reader: &mut impl BufRead) -> io::Result<Vec<(String, String)>> {
    let mut fields = Vec::new();
    loop {
        let line = line_or_fault(reader)?;
        if line.is_empty() {
            return Ok(fields);
        }
        let Some((name, value)) = line.split_once(':') else { return Err(fault(format!("field {line:?}"))) };
        if name.is_empty() || !name.bytes().all(is_token) || value.bytes().any(|b| b < b' ' && b != b'\t') {
            return Err(fault(format!("field {line:?}")));
        }
        fields.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
}

fn line_or_fault(reader: &mut impl BufRead) -> io::Result<String> {
    line(reader)?.ok_or_else(|| fault("the connection ends inside a request"))
}

/// A line that ends in CR LF and holds neither elsewhere.
fn line(reader: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut bytes = Vec::new();
    if reader.read_until(b'\n', &mut bytes)? == 0 {
        return Ok(None);
    }
    let Some(line) = bytes.strip_suffix(b"\r\n") else { return Err(fault(format!("line end {bytes:?}"))) };
    if line.contains(&b'\r') || line.contains(&0) {
        return Err(fault(format!("control character {line:?}")));
    }
    Ok(Some(String::from_utf8_lossy(line).into_owned()))
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

fn fault(what: impl Into<String>) -> io::Error {
    io::Error::other(what.into())
}

/// Reads exactly so many bytes.
pub(crate) fn take(stream: &mut impl Read, n: usize) -> Vec<u8> {
    let mut bytes = vec![0; n];
    stream.read_exact(&mut bytes).unwrap();
    bytes
}
