//! A client of a gateway's admin interface: one request at a time, over plain HTTP or TLS.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::{TcpStream, ToSocketAddrs},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use rustls::{ClientConfig, ClientConnection, StreamOwned, sign::SingleCertAndKey};
use rustls_pki_types::ServerName;
use serde_json::Value as Json;
use tidegate_config::{Certificate, read_file};
use tidegate_runtime::{PemFault, Trust, TrustError, read_certificates, read_pair};

/// How long a stream of events may be silent: it says something every 15 s.
const SILENCE_MAX: Duration = Duration::from_secs(45);
/// Longest answer read.
const ANSWER_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Longest head read of an answer that goes on.
const HEAD_BYTES_MAX: u64 = 64 * 1024;
/// What is shown of somebody else's answer.
const SHOWN_MAX: usize = 120;
/// More of a token's file is not read.
const TOKEN_BYTES_MAX: u64 = 64 * 1024;

/// Which gateway is asked, and as whom. Files are read anew at each request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Client {
    /// Where its admin interface answers: `HOST:PORT`, `http://HOST:PORT` or `https://HOST:PORT`.
    pub address: String,
    /// The file that holds our token, if there is one.
    pub token_file: Option<PathBuf>,
    /// With https: authorities of its certificate, PEM; the system's if there is none.
    pub ca: Option<PathBuf>,
    /// With https: files of our certificate chain and its private key, PEM.
    pub certificate: Option<(PathBuf, PathBuf)>,
    /// How long it may take to answer.
    pub patience: Duration,
}

/// Why a request has no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// Nobody answers there.
    #[error("no gateway answers on {address} ({source})")]
    Silent {
        /// Where.
        address: String,
        /// What went wrong.
        source: io::Error,
    },
    /// Somebody else answers there.
    #[error("{address} does not answer as a gateway's admin interface does, but with {what}")]
    Stranger {
        /// Where.
        address: String,
        /// What came.
        what: String,
    },
    /// The gateway refuses what is asked.
    #[error("{detail}")]
    Refused {
        /// The status code.
        status: u16,
        /// What is wrong, and the mend.
        detail: String,
    },
    /// The address is none.
    #[error("{0}")]
    Address(String),
    /// A file cannot be used.
    #[error("{path}: {problem}")]
    File {
        /// Which.
        path: String,
        /// What is wrong.
        problem: String,
    },
    /// TLS cannot be spoken with it.
    #[error("no TLS with {address} ({source})")]
    Tls {
        /// With whom.
        address: String,
        /// What went wrong.
        source: rustls::Error,
    },
    /// No certificate would be believed.
    #[error(transparent)]
    Trust(TrustError),
}

trait Stream: Read + Write + Send {
    /// How long it may be silent.
    fn set_patience(&self, patience: Duration) -> io::Result<()>;
}

impl Stream for TcpStream {
    fn set_patience(&self, patience: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(patience))
    }
}

impl Stream for StreamOwned<ClientConnection, TcpStream> {
    fn set_patience(&self, patience: Duration) -> io::Result<()> {
        self.sock.set_patience(patience)
    }
}

impl Client {
    /// Asks for something, of which the answer holds `field`: others answer with JSON, too.
    ///
    /// # Errors
    ///
    /// [`ClientError`].
    pub fn get(&self, path: &str, field: &str) -> Result<Json, ClientError> {
        self.exchange("GET", path, "", field)
    }

    /// Sends something, upon which the answer holds `field`.
    ///
    /// # Errors
    ///
    /// [`ClientError`].
    pub fn send(&self, method: &str, path: &str, body: &Json, field: &str) -> Result<Json, ClientError> {
        self.exchange(method, path, &body.to_string(), field)
    }

    /// The lines of an answer that goes on.
    ///
    /// # Errors
    ///
    /// [`ClientError`].
    pub fn lines(&self, path: &str) -> Result<impl Iterator<Item = io::Result<String>> + use<>, ClientError> {
        let mut answer = BufReader::new(self.request("GET", path, "")?);
        let mut head = Vec::new();
        let mut bounded = answer.by_ref().take(HEAD_BYTES_MAX);
        loop {
            let begun = head.len();
            let read = bounded.read_until(b'\n', &mut head).map_err(|error| self.silent(error))?;
            if read == 0 || head[begun..].trim_ascii().is_empty() {
                break;
            }
        }
        let head = String::from_utf8_lossy(&head).into_owned();
        let is_events = field_of(&head, "content-type").is_some_and(|of| of.starts_with("text/event-stream"));
        if status_of(&head).starts_with('2') {
            if !is_events {
                return Err(self.stranger(&head));
            }
            // Between two events it may be quiet for long.
            answer.get_ref().set_patience(SILENCE_MAX).map_err(|error| self.silent(error))?;
            // A gateway that ends closes TLS without saying so: it is an end as without TLS.
            let goes_on = |line: &io::Result<String>| {
                line.as_ref().err().is_none_or(|error| error.kind() != io::ErrorKind::UnexpectedEof)
            };
            return Ok(answer.lines().take_while(goes_on));
        }
        let mut body = Vec::new();
        answer.take(ANSWER_BYTES_MAX).read_to_end(&mut body).map_err(|error| self.silent(error))?;
        Err(self.refused(&head, &String::from_utf8_lossy(&body)))
    }

    /// One request.
    fn exchange(&self, method: &str, path: &str, body: &str, field: &str) -> Result<Json, ClientError> {
        let mut answer = Vec::new();
        let stream = self.request(method, path, body)?;
        stream
            .take(ANSWER_BYTES_MAX)
            .read_to_end(&mut answer)
            .or_else(|error| match error.kind() {
                // A peer that closes TLS without saying so; whether all is there shows below.
                io::ErrorKind::UnexpectedEof => Ok(answer.len()),
                _ => Err(error),
            })
            .map_err(|error| self.silent(error))?;
        let answer = String::from_utf8_lossy(&answer);
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        if !status_of(head).starts_with('2') {
            return Err(self.refused(head, body));
        }
        let answer: Option<Json> = serde_json::from_str(body).ok();
        answer.filter(|answer| answer.get(field).is_some()).ok_or_else(|| self.stranger(head))
    }

    fn refused(&self, head: &str, body: &str) -> ClientError {
        let problem: Json = serde_json::from_str(body).unwrap_or_default();
        // With the latter, a gateway's listener answers.
        match (status_of(head).parse(), problem["detail"].as_str(), field_of(head, "tidegate-reason")) {
            (Ok(status), Some(detail), None) => ClientError::Refused { status, detail: detail.to_owned() },
            _ => self.stranger(head),
        }
    }

    /// Who gives an answer that begins with `head` is no gateway's admin interface.
    fn stranger(&self, head: &str) -> ClientError {
        let what = match head.lines().next().and_then(|line| line.strip_prefix("HTTP/")) {
            None => "what is no HTTP".to_owned(),
            Some(line) => {
                let status = line.split_once(' ').map_or("no status", |(_, status)| status.trim());
                let fields = [field_of(head, "content-type"), field_of(head, "server")];
                let parts: Vec<_> = [Some(status)].into_iter().chain(fields).flatten().collect();
                parts.join(", ").chars().filter(|char| !char.is_control()).take(SHOWN_MAX).collect()
            }
        };
        ClientError::Stranger { address: self.address.clone(), what }
    }

    /// Sends a request and gives what its answer is read from, to its end. It is HTTP/1.0, so that an
    /// answer without a length ends with the connection.
    fn request(&self, method: &str, path: &str, body: &str) -> Result<Box<dyn Stream>, ClientError> {
        let (secure, authority) = match self.address.split_once("://") {
            None => (false, self.address.as_str()),
            Some(("http", authority)) => (false, authority),
            Some(("https", authority)) => (true, authority),
            Some((scheme, _)) => {
                return Err(ClientError::Address(format!("{scheme}:// is not spoken: write https://")));
            }
        };
        let authority = authority.trim_end_matches('/');
        let token = self.token_file.as_deref().map(read_token).transpose()?;
        let token = token.map_or_else(String::new, |token| format!("authorization: Bearer {token}\r\n"));
        let request = format!(
            "{method} {path} HTTP/1.0\r\nhost: {authority}\r\naccept: */*\r\n{token}content-type: application/json\r\n\
             content-length: {}\r\n\r\n{body}",
            body.len()
        );
        let addresses = authority.to_socket_addrs().map_err(|error| match error.kind() {
            io::ErrorKind::InvalidInput => ClientError::Address(format!(
                "{:?} is no address: write HOST:PORT, or https://HOST:PORT",
                self.address
            )),
            _ => self.silent(error),
        })?;
        let connect = || -> io::Result<TcpStream> {
            let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
            for address in addresses {
                match TcpStream::connect_timeout(&address, self.patience) {
                    Ok(stream) => {
                        stream.set_read_timeout(Some(self.patience))?;
                        stream.set_write_timeout(Some(self.patience))?;
                        return Ok(stream);
                    }
                    Err(error) => last = error,
                }
            }
            Err(last)
        };
        let stream = connect().map_err(|error| self.silent(error))?;
        let mut stream: Box<dyn Stream> = match secure {
            false => Box::new(stream),
            true => {
                let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host);
                let host = host.trim_start_matches('[').trim_end_matches(']');
                let name = ServerName::try_from(host.to_owned())
                    .map_err(|error| ClientError::Address(format!("{host}: {error}")))?;
                let session = ClientConnection::new(self.tls()?, name).map_err(|error| self.no_tls(error))?;
                Box::new(StreamOwned::new(session, stream))
            }
        };
        stream.write_all(request.as_bytes()).map_err(|error| self.silent(error))?;
        Ok(stream)
    }

    fn tls(&self) -> Result<Arc<ClientConfig>, ClientError> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let given = self.ca.as_deref().map(read_certificates).transpose()?;
        let trust = Trust::new(given, Arc::clone(&provider)).map_err(|error| match &self.ca {
            Some(file) => unusable(file, error),
            None => ClientError::Trust(error),
        })?;
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| self.no_tls(error))?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(trust));
        let config = match &self.certificate {
            None => builder.with_no_client_auth(),
            Some((chain, key)) => {
                let files = Certificate { chain: chain.clone(), key: key.clone() };
                let pair = read_pair(&files, &provider)?;
                builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(pair)))
            }
        };
        Ok(Arc::new(config))
    }

    fn no_tls(&self, source: rustls::Error) -> ClientError {
        ClientError::Tls { address: self.address.clone(), source }
    }

    fn silent(&self, source: io::Error) -> ClientError {
        if let Some(source) = source.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
            return self.no_tls(source.clone());
        }
        let source = match source.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                io::Error::new(io::ErrorKind::TimedOut, format!("nothing came within {:?}", self.patience))
            }
            _ => source,
        };
        ClientError::Silent { address: self.address.clone(), source }
    }
}

/// The code of a status line.
fn status_of(head: &str) -> &str {
    head.split(' ').nth(1).unwrap_or_default()
}

/// The value of a field of a head.
fn field_of<'h>(head: &'h str, name: &str) -> Option<&'h str> {
    let mut fields = head.lines().skip(1).filter_map(|line| line.split_once(':'));
    fields.find(|(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
}

fn read_token(file: &Path) -> Result<String, ClientError> {
    let bytes = read_file(file, TOKEN_BYTES_MAX).map_err(|error| unusable(file, error))?;
    let text = String::from_utf8(bytes).map_err(|error| unusable(file, error))?;
    let token = text.trim();
    if token.is_empty() || token.contains(char::is_whitespace) {
        return Err(unusable(file, "a token is one word in one line"));
    }
    Ok(token.to_owned())
}

impl From<PemFault> for ClientError {
    fn from(PemFault { path, problem }: PemFault) -> Self {
        unusable(&path, problem)
    }
}

fn unusable(file: &Path, problem: impl std::fmt::Display) -> ClientError {
    ClientError::File { path: file.display().to_string(), problem: problem.to_string() }
}
