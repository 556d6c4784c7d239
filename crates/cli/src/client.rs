//! A client of a gateway's admin interface: where it is, who we are, one request at a time.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpStream, ToSocketAddrs},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use clap::Args;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject};
use serde_json::Value as Json;

use crate::failure::Failure;

/// How long the gateway may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a stream of events may be silent: it says something every 15 s.
const SILENCE_MAX: Duration = Duration::from_secs(45);
/// Longest answer read.
const ANSWER_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Which gateway is asked, and as whom.
#[derive(Debug, Args)]
pub(crate) struct Asked {
    /// Where the gateway's admin interface answers: HOST:PORT, or https://HOST:PORT.
    #[arg(long, default_value = "127.0.0.1:9900", value_name = "ADDRESS")]
    admin: String,
    /// The file that holds our token, if the gateway asks for one.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// With https: authorities of the gateway's certificate, PEM; the system's if left away.
    #[arg(long, value_name = "FILE")]
    admin_ca: Option<PathBuf>,
    /// With https: our certificate chain, PEM.
    #[arg(long, value_name = "FILE", requires = "admin_key")]
    admin_cert: Option<PathBuf>,
    /// With https: our certificate's private key, PEM.
    #[arg(long, value_name = "FILE", requires = "admin_cert")]
    admin_key: Option<PathBuf>,
}

trait Stream: Read + Write + Send {}
impl<S: Read + Write + Send> Stream for S {}

impl Asked {
    /// The gateway's address, for people.
    pub(crate) fn address(&self) -> &str {
        &self.admin
    }

    /// Asks for something.
    pub(crate) fn get(&self, path: &str) -> Result<Json, Failure> {
        self.exchange("GET", path, "")
    }

    /// Sends something.
    pub(crate) fn send(&self, method: &str, path: &str, body: &Json) -> Result<Json, Failure> {
        self.exchange(method, path, &body.to_string())
    }

    /// The lines of an answer that goes on.
    pub(crate) fn lines(&self, path: &str) -> Result<impl Iterator<Item = std::io::Result<String>>, Failure> {
        let mut lines = BufReader::new(self.request("GET", path, "", SILENCE_MAX)?).lines();
        let mut next = || lines.next().transpose().map(Option::unwrap_or_default);
        let head = next().map_err(|error| self.silent(&error))?;
        let status = status_of(&head).to_owned();
        while !next().map_err(|error| self.silent(&error))?.is_empty() {}
        if status.starts_with('2') {
            return Ok(lines);
        }
        let body: String = lines.map_while(Result::ok).collect();
        Err(self.refused(&status, &body))
    }

    /// One request; what the gateway refuses is the input's fault.
    fn exchange(&self, method: &str, path: &str, body: &str) -> Result<Json, Failure> {
        let mut answer = Vec::new();
        let stream = self.request(method, path, body, PATIENCE)?;
        stream
            .take(ANSWER_BYTES_MAX)
            .read_to_end(&mut answer)
            .or_else(|error| match error.kind() {
                // A peer that closes TLS without saying so; whether all is there shows below.
                std::io::ErrorKind::UnexpectedEof => Ok(answer.len()),
                _ => Err(error),
            })
            .map_err(|error| self.silent(&error))?;
        let answer = String::from_utf8_lossy(&answer);
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        let status = status_of(head);
        match serde_json::from_str(body) {
            Ok(json) if status.starts_with('2') => Ok(json),
            _ => Err(self.refused(status, body)),
        }
    }

    fn refused(&self, status: &str, body: &str) -> Failure {
        let Ok(problem) = serde_json::from_str::<Json>(body) else {
            return Failure::work(format!(
                "{} does not answer as a gateway's admin interface does",
                self.admin
            ));
        };
        let detail = problem["detail"].as_str().unwrap_or(body);
        match status {
            "401" => Failure::input(format!("{detail}: give the token's file by --token-file")),
            status if status.starts_with('4') => Failure::input(detail),
            _ => Failure::work(detail),
        }
    }

    /// Sends a request and gives what its answer is read from, to its end. It is HTTP/1.0, so that an
    /// answer without a length ends with the connection.
    fn request(
        &self,
        method: &str,
        path: &str,
        body: &str,
        silence: Duration,
    ) -> Result<Box<dyn Stream>, Failure> {
        let (secure, authority) = match self.admin.split_once("://") {
            None => (false, self.admin.as_str()),
            Some(("http", authority)) => (false, authority),
            Some(("https", authority)) => (true, authority),
            Some((scheme, _)) => {
                return Err(Failure::input(format!("--admin: {scheme}:// is not spoken: write https://")));
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
        let connect = || -> std::io::Result<TcpStream> {
            let mut last = std::io::Error::from(std::io::ErrorKind::AddrNotAvailable);
            for address in authority.to_socket_addrs()? {
                match TcpStream::connect_timeout(&address, PATIENCE) {
                    Ok(stream) => {
                        stream.set_read_timeout(Some(silence))?;
                        stream.set_write_timeout(Some(PATIENCE))?;
                        return Ok(stream);
                    }
                    Err(error) => last = error,
                }
            }
            Err(last)
        };
        let stream = connect().map_err(|error| self.silent(&error))?;
        let mut stream: Box<dyn Stream> = match secure {
            false => Box::new(stream),
            true => {
                let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host);
                let host = host.trim_start_matches('[').trim_end_matches(']');
                let name = ServerName::try_from(host.to_owned())
                    .map_err(|error| Failure::input(format!("--admin: {host}: {error}")))?;
                let session = ClientConnection::new(self.tls()?, name).map_err(Failure::work)?;
                Box::new(StreamOwned::new(session, stream))
            }
        };
        stream.write_all(request.as_bytes()).map_err(|error| self.silent(&error))?;
        Ok(stream)
    }

    fn tls(&self) -> Result<Arc<ClientConfig>, Failure> {
        let mut roots = RootCertStore::empty();
        match &self.admin_ca {
            Some(file) => {
                for authority in certificates(file)? {
                    roots.add(authority).map_err(|error| unusable(file, error))?;
                }
            }
            None => drop(roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs)),
        }
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(Failure::work)?
            .with_root_certificates(roots);
        let config = match self.admin_cert.as_ref().zip(self.admin_key.as_ref()) {
            None => builder.with_no_client_auth(),
            Some((chain, key_file)) => {
                let key =
                    PrivateKeyDer::from_pem_file(key_file).map_err(|error| unusable(key_file, error))?;
                builder
                    .with_client_auth_cert(certificates(chain)?, key)
                    .map_err(|error| unusable(chain, error))?
            }
        };
        Ok(Arc::new(config))
    }

    fn silent(&self, error: &std::io::Error) -> Failure {
        Failure::work(format!(
            "no gateway answers on {} ({error}): start it, or give its address by --admin",
            self.admin
        ))
    }
}

/// The code of a status line.
fn status_of(head: &str) -> &str {
    head.split(' ').nth(1).unwrap_or_default()
}

fn read_token(file: &Path) -> Result<String, Failure> {
    let text = std::fs::read_to_string(file).map_err(|error| unusable(file, error))?;
    let token = text.trim();
    if token.is_empty() || token.contains(char::is_whitespace) {
        return Err(unusable(file, "a token is one word in one line"));
    }
    Ok(token.to_owned())
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, Failure> {
    CertificateDer::pem_file_iter(file)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| unusable(file, error))
}

fn unusable(file: &Path, problem: impl std::fmt::Display) -> Failure {
    Failure::input(format!("{}: {problem}", file.display()))
}

/// Percent-encodes what is not plain in a query.
pub(crate) fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}
