//! What the tests share: a gateway in this process, a server behind it, clients with bare sockets.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    io::{self, BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use tidegate_gateway::{Gateway, Inherited, Running};
use tidegate_runtime::Shared;

/// How long a test waits for what must happen before it fails.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// A gateway with one application, `app`, and a server behind it.
pub(crate) struct Bed {
    pub(crate) running: Running,
    pub(crate) shared: Arc<Shared>,
    pub(crate) directory: tempfile::TempDir,
    pub(crate) origin: SocketAddr,
    host: String,
    application: String,
}

impl Bed {
    /// Knobs of the host as they stand in a file, and the tables of the listeners.
    pub(crate) fn new(host: &str, listeners: &str) -> Self {
        Self::with_application(host, listeners, "")
    }

    /// The same, with lines for the application's table.
    pub(crate) fn with_application(host: &str, listeners: &str, application: &str) -> Self {
        Self::in_directory(tempfile::tempdir().unwrap(), host, listeners, application)
    }

    /// The same, with files in `directory` that the listeners name.
    pub(crate) fn in_directory(
        directory: tempfile::TempDir,
        host: &str,
        listeners: &str,
        application: &str,
    ) -> Self {
        let origin = origin();
        let text = configuration(host, listeners, application, origin);
        let settings = settings(&text, directory.path());
        let shared = Shared::new(settings).unwrap();
        let running = Gateway::start(Arc::clone(&shared), Inherited::default()).unwrap();
        let (host, application) = (host.to_owned(), application.to_owned());
        Self { running, shared, directory, origin, host, application }
    }

    /// Puts other listeners in force.
    pub(crate) fn publish(&self, listeners: &str) {
        let text = configuration(&self.host, listeners, &self.application, self.origin);
        self.shared.publish(settings(&text, self.directory.path())).unwrap();
    }

    /// The only plain listener.
    pub(crate) fn plain(host: &str) -> Self {
        Self::new(host, PLAIN)
    }

    /// A client of the listener `http`.
    pub(crate) fn connect(&self) -> TcpStream {
        connect(self.running.address("http").unwrap())
    }
}

/// A listener `http` without TLS.
pub(crate) const PLAIN: &str = "[[listener]]\nname = \"http\"\naddress = \"127.0.0.1:0\"\n";

pub(crate) fn configuration(host: &str, listeners: &str, application: &str, origin: SocketAddr) -> String {
    format!(
        "admin = \"none\"\n{host}\n[[workers]]\nthreads = 2\n{listeners}\n[application.app]\n\
         servers = \"http://{origin}\"\n{application}\n"
    )
}

fn settings(text: &str, directory: &Path) -> tidegate_config::Settings {
    tidegate_config::parse(text, directory, "test").unwrap_or_else(|faults| panic!("{faults}\n{text}"))
}

pub(crate) fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// A response as a client reads it.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Response {
    /// The value of a field.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.head
            .lines()
            .filter_map(|line| line.split_once(':'))
            .find_map(|(field, value)| field.eq_ignore_ascii_case(name).then_some(value.trim()))
    }
}

/// Sends a request and reads its response.
pub(crate) fn exchange<S: Read + Write>(stream: &mut S, request: &str) -> Response {
    stream.write_all(request.as_bytes()).unwrap();
    read_response(stream).unwrap()
}

/// A GET of `path`.
pub(crate) fn get<S: Read + Write>(stream: &mut S, path: &str) -> Response {
    exchange(stream, &format!("GET {path} HTTP/1.1\r\nhost: app.example\r\n\r\n"))
}

/// Reads one response.
pub(crate) fn read_response(stream: &mut impl Read) -> io::Result<Response> {
    let head = read_head(stream)?;
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let mut response = Response { status, head, body: String::new() };
    let mut body = Vec::new();
    if let Some(len) = response.field("content-length") {
        body.resize(len.parse().unwrap(), 0);
        stream.read_exact(&mut body)?;
    } else if response.field("transfer-encoding") == Some("chunked") {
        loop {
            let line = read_line(stream)?;
            let len = usize::from_str_radix(line.trim(), 16).unwrap();
            let start = body.len();
            body.resize(start + len, 0);
            stream.read_exact(&mut body[start..])?;
            read_line(stream)?;
            if len == 0 {
                break;
            }
        }
    }
    response.body = String::from_utf8(body).unwrap();
    Ok(response)
}

/// Reads a head, of a request or a response, and nothing behind it.
pub(crate) fn read_head(stream: &mut impl Read) -> io::Result<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    Ok(String::from_utf8(head).unwrap())
}

fn read_line(stream: &mut impl Read) -> io::Result<String> {
    let mut line = Vec::new();
    while !line.ends_with(b"\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        line.push(byte[0]);
    }
    Ok(String::from_utf8(line).unwrap())
}

/// Whether the other side has closed: reads to the end, however it comes, and gives what came.
pub(crate) fn rest(stream: &mut impl Read) -> Vec<u8> {
    let mut rest = Vec::new();
    match stream.read_to_end(&mut rest) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => panic!("still open"),
        _ => rest,
    }
}

/// A server on loopback. `/sleep/MS` answers after so many milliseconds, everything else at once;
/// the body is the request's head as it arrived, and the length of its body.
pub(crate) fn origin() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || {
                // An error is the end of the connection.
                let _ = serve(stream);
            });
        }
    });
    address
}

fn serve(stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut writer = stream;
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if reader.read_line(&mut head)? == 0 {
                return Ok(());
            }
        }
        let mut fields = BTreeMap::new();
        for (name, value) in head.lines().skip(1).filter_map(|line| line.split_once(':')) {
            fields.insert(name.to_ascii_lowercase(), value.trim().to_owned());
        }
        let mut body = Vec::new();
        if let Some(len) = fields.get("content-length") {
            body.resize(len.parse().unwrap(), 0);
            reader.read_exact(&mut body)?;
        } else if fields.contains_key("transfer-encoding") {
            loop {
                let mut line = String::new();
                reader.read_line(&mut line)?;
                let len = usize::from_str_radix(line.trim(), 16).unwrap();
                let mut chunk = vec![0; len + 2];
                reader.read_exact(&mut chunk)?;
                body.extend_from_slice(&chunk[..len]);
                if len == 0 {
                    break;
                }
            }
        }
        let path = head.split(' ').nth(1).unwrap_or_default();
        if let Some(ms) = path.strip_prefix("/sleep/") {
            std::thread::sleep(Duration::from_millis(ms.parse().unwrap()));
        }
        let mut text = head.clone();
        write!(text, "body: {}\r\n", body.len()).unwrap();
        write!(writer, "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{text}", text.len())?;
    }
}

/// Waits until something holds.
pub(crate) fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = std::time::Instant::now() + PATIENCE;
    while !holds() {
        assert!(std::time::Instant::now() < deadline, "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A certificate for `names`, signed by itself, and its key, as PEM files `NAME.pem` and `NAME.key`.
pub(crate) fn write_certificate(directory: &Path, name: &str, names: &[&str]) -> (PathBuf, PathBuf) {
    let certified =
        rcgen::generate_simple_self_signed(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())
            .unwrap();
    let (chain, key) = (directory.join(format!("{name}.pem")), directory.join(format!("{name}.key")));
    std::fs::write(&chain, certified.cert.pem()).unwrap();
    std::fs::write(&key, certified.signing_key.serialize_pem()).unwrap();
    (chain, key)
}
