//! Real clients: curl, h2load, wrk, a WebSocket client, a browser.

use std::{
    io::{self, Read, Write},
    net::{SocketAddr, TcpStream},
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    sync::Arc,
    time::Duration,
};

use rustls::pki_types::{CertificateDer, ServerName, pem::PemObject};
use tokio_tungstenite::tungstenite::{self, Message, WebSocket};

use crate::support::unbroken::Unbroken;

/// How long one client may take, in seconds.
const SECONDS_MAX: &str = "60";

/// curl against one server.
pub(crate) struct Curl {
    base: String,
    authority: PathBuf,
}

impl Curl {
    pub(crate) fn new(base: String, authority: &Path) -> Self {
        Self { base, authority: authority.to_owned() }
    }

    pub(crate) fn is_tls(&self) -> bool {
        self.base.starts_with("https:")
    }

    /// What the server answers, and what curl prints besides.
    pub(crate) fn fetch(&self, options: &[&str], path: &str) -> String {
        text(&finish("curl", self.command(options, path).output()))
    }

    /// Hands a response's body to `each` as it comes; gives its length.
    pub(crate) fn read(&self, options: &[&str], path: &str, mut each: impl FnMut(&[u8])) -> u64 {
        let mut curl = self.command(options, path).stdout(Stdio::piped()).spawn().expect("start curl");
        let mut body = curl.stdout.take().expect("piped");
        let mut block = vec![0; 256 * 1024];
        let mut bytes = 0;
        loop {
            let n = body.read(&mut block).expect("read from curl");
            if n == 0 {
                break;
            }
            bytes += n as u64;
            each(&block[..n]);
        }
        assert!(curl.wait().expect("wait for curl").success(), "curl {path} failed");
        bytes
    }

    /// PUTs what `body` writes, of a length not said before; gives the answer.
    pub(crate) fn write(
        &self,
        options: &[&str],
        path: &str,
        body: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> String {
        let mut curl = self
            .command(options, path)
            .args(["-T", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("start curl");
        let mut sink = curl.stdin.take().expect("piped");
        let written = body(&mut sink);
        drop(sink);
        let answer = text(&finish("curl", curl.wait_with_output()));
        written.unwrap_or_else(|error| panic!("curl took the body up to {error}: {answer}"));
        answer
    }

    fn command(&self, options: &[&str], path: &str) -> Command {
        let mut command = Command::new("curl");
        command.args(["-sS", "--fail", "--max-time", SECONDS_MAX, "--cacert"]).arg(&self.authority);
        command.args(options).arg(format!("{}{path}", self.base));
        command
    }
}

/// HTTP/2 over TLS: many streams on several connections, every one answered well.
pub(crate) fn h2load(url: &str) {
    let options = ["-n", "2000", "-c", "4", "-m", "4", "-N", "20s"];
    let report = text(&finish("h2load", Command::new("h2load").args(options).arg(url).output()));
    assert!(report.contains("Application protocol: h2"), "{report}");
    assert!(report.contains("2000 succeeded, 0 failed, 0 errored, 0 timeout"), "{report}");
    assert!(report.contains("status codes: 2000 2xx, 0 3xx, 0 4xx, 0 5xx"), "{report}");
    println!("h2load: {}", line(&report, "finished in"));
}

/// HTTP/1.1 in the clear for two seconds, every response good.
pub(crate) fn wrk(url: &str) {
    let options = ["-t", "1", "-c", "16", "-d", "2s", "--timeout", "10s"];
    let report = text(&finish("wrk", Command::new("wrk").args(options).arg(url).output()));
    assert!(!report.contains("Socket errors"), "{report}");
    assert!(!line(&report, "requests in").starts_with("0 "), "{report}");
    assert!(!report.contains("Non-2xx"), "{report}");
    println!("wrk: {}", line(&report, "requests in"));
}

/// Messages of each kind come back from the endpoint, and the close is answered.
pub(crate) fn web_socket(address: SocketAddr) {
    echoes("ws", address, connect(address));
}

/// The same over TLS.
pub(crate) fn web_socket_over_tls(address: SocketAddr, authority: &Path) {
    let mut roots = rustls::RootCertStore::empty();
    let certificate = CertificateDer::from_pem_file(authority).expect("the certificate");
    roots.add(certificate).expect("trust the certificate");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions of TLS")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("localhost").expect("a name");
    let session = rustls::ClientConnection::new(Arc::new(config), name).expect("a TLS client");
    echoes("wss", address, rustls::StreamOwned::new(session, connect(address)));
}

/// Loads a page in headless Chromium, saves a picture of it and gives the document after its script has run.
pub(crate) fn browse(url: &str, picture: &Path) -> String {
    let profile = tempfile::tempdir().expect("a directory for the browser");
    let flags = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--disable-dev-shm-usage",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--ignore-certificate-errors",
        "--window-size=800,600",
    ];
    let browser = |last: &str| {
        let mut command = Command::new("timeout");
        command.args([SECONDS_MAX, "chromium"]).args(flags);
        command.arg(format!("--user-data-dir={}", profile.path().display()));
        command.args([last, url]);
        text(&finish("chromium", command.output()))
    };
    browser(&format!("--screenshot={}", picture.display()));
    browser("--dump-dom")
}

fn connect(address: SocketAddr) -> Unbroken<TcpStream> {
    let stream = TcpStream::connect(address).expect("connect to the gateway");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
    Unbroken(stream)
}

fn echoes<S: Read + Write>(scheme: &str, address: SocketAddr, stream: S) {
    let (mut socket, response) =
        tungstenite::client(format!("{scheme}://localhost:{}/echo", address.port()), stream)
            .unwrap_or_else(|error| panic!("{scheme}: {error}"));
    assert_eq!(response.status(), 101);
    let long: Vec<u8> = (0..200_000_u32).map(|n| (n % 251) as u8).collect();
    for message in [Message::text("Grüße"), Message::text(""), Message::binary(long)] {
        socket.send(message.clone()).expect("send a message");
        assert_eq!(read(&mut socket), message, "{scheme}: what came back");
    }
    socket.send(Message::Ping(vec![1, 2, 3].into())).expect("ping");
    assert_eq!(read(&mut socket), Message::Pong(vec![1, 2, 3].into()), "{scheme}");
    socket.close(None).expect("close");
    while socket.read().is_ok() {}
}

fn read<S: Read + Write>(socket: &mut WebSocket<S>) -> Message {
    socket.read().expect("a message")
}

fn finish(name: &str, output: io::Result<Output>) -> Output {
    let output =
        output.unwrap_or_else(|error| panic!("{name} cannot be run ({error}): run scripts/deps test"));
    assert!(
        output.status.success(),
        "{name}: {}: {}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn line<'a>(report: &'a str, word: &str) -> &'a str {
    report.lines().find(|line| line.contains(word)).unwrap_or_default().trim()
}
