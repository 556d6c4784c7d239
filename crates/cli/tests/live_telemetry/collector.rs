//! An OpenTelemetry collector of a test: takes OTLP over HTTP, decodes it and keeps it.

use std::{
    collections::BTreeMap,
    io::{self, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    path::Path,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use opentelemetry_proto::tonic::{
    collector::{metrics::v1::ExportMetricsServiceRequest, trace::v1::ExportTraceServiceRequest},
    common::v1::{KeyValue, any_value::Value},
    metrics::v1::{Metric, metric::Data, number_data_point},
    trace::v1::Span,
};
use prost::Message;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};

use crate::support::unbroken::Unbroken;

/// How long something may take to arrive on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A collector on a port of its own, until dropped.
pub(crate) struct Collector {
    pub(crate) address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    received: Mutex<Received>,
    changed: Condvar,
    stopped: AtomicBool,
    tls: Option<Arc<ServerConfig>>,
}

/// What has come.
#[derive(Default)]
pub(crate) struct Received {
    /// The last message of metrics.
    pub(crate) metrics: Option<ExportMetricsServiceRequest>,
    /// Every span.
    pub(crate) spans: Vec<Span>,
    /// Header fields of the last message, names in lower case.
    pub(crate) headers: BTreeMap<String, String>,
    /// Messages, also those that were not taken.
    pub(crate) messages: usize,
    /// The status that all are answered with; 0: 200.
    pub(crate) status: u16,
    /// Bytes of the answers' bodies, which say nothing.
    pub(crate) answer_bytes: usize,
}

trait Stream: Read + Write {}
impl<S: Read + Write> Stream for S {}

impl Collector {
    pub(crate) fn start() -> Self {
        Self::over(TcpListener::bind(("127.0.0.1", 0)).expect("a port for the collector"), Shared::default())
    }

    pub(crate) fn start_at(address: SocketAddr) -> Self {
        Self::over(TcpListener::bind(address).expect("the address is free"), Shared::default())
    }

    /// One that speaks TLS with this certificate.
    pub(crate) fn start_tls(chain: &Path, key: &Path) -> Self {
        let chain: Result<Vec<_>, _> =
            CertificateDer::pem_file_iter(chain).expect("the certificate").collect();
        let key = PrivateKeyDer::from_pem_file(key).expect("the key");
        let config =
            ServerConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
                .with_safe_default_protocol_versions()
                .expect("versions")
                .with_no_client_auth()
                .with_single_cert(chain.expect("PEM"), key)
                .expect("they belong together");
        let shared = Shared { tls: Some(Arc::new(config)), ..Shared::default() };
        Self::over(TcpListener::bind(("127.0.0.1", 0)).expect("a port for the collector"), shared)
    }

    fn over(listener: TcpListener, shared: Shared) -> Self {
        let address = listener.local_addr().expect("its address");
        let shared = Arc::new(shared);
        let state = Arc::clone(&shared);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if state.stopped.load(Ordering::Relaxed) {
                    return;
                }
                let state = Arc::clone(&state);
                // A gateway that ends in the middle of a message is no fault of the test.
                thread::spawn(move || drop(converse(stream, &state)));
            }
        });
        Self { address, shared }
    }

    pub(crate) fn url(&self) -> String {
        let scheme = if self.shared.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.address)
    }

    pub(crate) fn received(&self) -> MutexGuard<'_, Received> {
        self.shared.received.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers everything with this status from now on.
    pub(crate) fn answer_with(&self, status: u16) {
        self.received().status = status;
    }

    /// Waits until what has come is as it should be.
    pub(crate) fn wait_for<T>(&self, what: &str, look: impl Fn(&Received) -> Option<T>) -> T {
        let deadline = Instant::now() + PATIENCE;
        let mut received = self.received();
        loop {
            if let Some(found) = look(&received) {
                return found;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "not within {PATIENCE:?}: {what}; {:?}", received.metrics);
            received =
                self.shared.changed.wait_timeout(received, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::Relaxed);
        // Wakes the thread that accepts.
        let _ = TcpStream::connect(self.address);
    }
}

impl Received {
    /// The metric of that name in the last message.
    pub(crate) fn metric(&self, name: &str) -> Option<&Metric> {
        let scopes = self.metrics.iter().flat_map(|message| &message.resource_metrics);
        scopes.flat_map(|of| &of.scope_metrics).flat_map(|of| &of.metrics).find(|metric| metric.name == name)
    }

    /// The value of the series of a sum or gauge with these attributes.
    pub(crate) fn value(&self, name: &str, attributes: &[(&str, &str)]) -> Option<f64> {
        let points = match self.metric(name)?.data.as_ref()? {
            Data::Sum(sum) => &sum.data_points,
            Data::Gauge(gauge) => &gauge.data_points,
            _ => return None,
        };
        let point = points.iter().find(|point| carries(&point.attributes, attributes))?;
        Some(match point.value? {
            number_data_point::Value::AsDouble(value) => value,
            number_data_point::Value::AsInt(value) => value as f64,
        })
    }

    /// The attributes of the resource of the last metrics.
    pub(crate) fn resource(&self) -> &[KeyValue] {
        let of = self.metrics.as_ref().and_then(|message| message.resource_metrics.first());
        of.and_then(|of| of.resource.as_ref()).map_or(&[], |resource| &resource.attributes)
    }

    /// The spans of kind server, of those whose path begins so.
    pub(crate) fn served(&self, path: &str) -> Vec<&Span> {
        let is_at = |span: &&Span| text(&span.attributes, "url.path").is_some_and(|at| at.starts_with(path));
        self.spans.iter().filter(|span| span.kind == 2).filter(is_at).collect()
    }
}

/// Whether the attributes are among them.
pub(crate) fn carries(all: &[KeyValue], wanted: &[(&str, &str)]) -> bool {
    wanted.iter().all(|(key, value)| text(all, key).as_deref() == Some(*value))
}

/// The value of an attribute, as text.
pub(crate) fn text(attributes: &[KeyValue], key: &str) -> Option<String> {
    let attribute = attributes.iter().find(|attribute| attribute.key == key)?;
    Some(match attribute.value.as_ref()?.value.as_ref()? {
        Value::StringValue(text) => text.clone(),
        Value::IntValue(number) => number.to_string(),
        Value::DoubleValue(number) => number.to_string(),
        Value::BoolValue(flag) => flag.to_string(),
        other => panic!("{key}: {other:?}"),
    })
}

fn converse(stream: TcpStream, shared: &Shared) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut stream: Box<dyn Stream> = match &shared.tls {
        None => Box::new(stream),
        Some(config) => {
            let connection = ServerConnection::new(Arc::clone(config)).map_err(io::Error::other)?;
            Box::new(StreamOwned::new(connection, stream))
        }
    };
    let mut buffer = Vec::new();
    while let Some((path, headers, body)) = read_message(&mut stream, &mut buffer)? {
        let mut received = shared.received.lock().unwrap_or_else(PoisonError::into_inner);
        received.messages += 1;
        received.headers = headers;
        let status = if received.status == 0 { 200 } else { received.status };
        if status == 200 {
            match path.as_str() {
                "/v1/metrics" => {
                    let message = ExportMetricsServiceRequest::decode(&*body).expect("metrics");
                    received.metrics = Some(message);
                }
                "/v1/traces" => {
                    let message = ExportTraceServiceRequest::decode(&*body).expect("traces");
                    let scopes = message.resource_spans.into_iter().flat_map(|of| of.scope_spans);
                    received.spans.extend(scopes.flat_map(|of| of.spans));
                }
                other => panic!("a message to {other}"),
            }
        }
        let length = received.answer_bytes;
        shared.changed.notify_all();
        drop(received);
        stream.write_all(format!("HTTP/1.1 {status} Said\r\ncontent-length: {length}\r\n\r\n").as_bytes())?;
        stream.write_all(&vec![0; length])?;
        stream.flush()?;
    }
    Ok(())
}

type Incoming = (String, BTreeMap<String, String>, Vec<u8>);

fn read_message(stream: &mut impl Read, buffer: &mut Vec<u8>) -> io::Result<Option<Incoming>> {
    let (path, headers, length) = loop {
        let mut fields = [httparse::EMPTY_HEADER; 64];
        let mut request = httparse::Request::new(&mut fields);
        if let Ok(httparse::Status::Complete(length)) = request.parse(buffer) {
            let headers = request.headers.iter().map(|field| {
                (field.name.to_ascii_lowercase(), String::from_utf8_lossy(field.value).into_owned())
            });
            let headers: BTreeMap<_, _> = headers.collect();
            let path = request.path.unwrap_or_default().to_owned();
            buffer.drain(..length);
            let body = headers.get("content-length").and_then(|length| length.parse().ok());
            break (path, headers, body.unwrap_or(0));
        }
        if fill(stream, buffer)? == 0 {
            return Ok(None);
        }
    };
    while buffer.len() < length {
        if fill(stream, buffer)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(Some((path, headers, buffer.drain(..length).collect())))
}

fn fill(stream: &mut impl Read, buffer: &mut Vec<u8>) -> io::Result<usize> {
    let mut chunk = [0; 16 * 1024];
    let n = Unbroken(stream).read(&mut chunk)?;
    buffer.extend_from_slice(&chunk[..n]);
    Ok(n)
}
