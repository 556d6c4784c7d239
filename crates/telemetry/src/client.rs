//! One connection to the collector, opened when it is needed, and what its answers mean.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Collected, Full, Limited};
use hyper::{
    body::Incoming,
    client::conn::http1::{SendRequest, handshake},
};
use hyper_util::rt::TokioIo;
use rustls_pki_types::ServerName;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
};
use tokio_rustls::TlsConnector;

use crate::plan::Plan;

/// Most that is read of an answer, bytes.
const ANSWER_BYTES_MAX: usize = 64 * 1024;
/// Longest pause a collector may ask for.
const PAUSE_MAX: Duration = Duration::from_secs(300);

/// A client of one of the collector's paths.
pub(crate) struct Client {
    plan: Arc<Plan>,
    /// `/v1/metrics` or `/v1/traces`.
    path: &'static str,
    kept: Option<SendRequest<Full<Bytes>>>,
}

/// Why a message was not taken.
#[derive(Debug)]
pub(crate) enum SendError {
    /// It may be another time.
    Later {
        /// What went wrong.
        why: String,
        /// For how long the collector wants to be left alone.
        pause: Option<Duration>,
    },
    /// It never will be.
    Refused(String),
}

impl Client {
    pub(crate) const fn new(plan: Arc<Plan>, path: &'static str) -> Self {
        Self { plan, path, kept: None }
    }

    /// Sends a message and gives the body of the answer.
    pub(crate) async fn send(&mut self, message: Bytes) -> Result<Bytes, SendError> {
        let timeout = self.plan.settings.timeout;
        match tokio::time::timeout(timeout, self.exchange(message)).await {
            Ok(outcome) => outcome,
            Err(_) => Err(later(format!("no answer within {timeout:?}"))),
        }
    }

    async fn exchange(&mut self, message: Bytes) -> Result<Bytes, SendError> {
        let response = match self.kept.take() {
            Some(kept) => match self.ask(kept, message.clone()).await {
                // It may have been closed for idleness meanwhile.
                Err(_) => self.ask(self.connect().await?, message).await,
                answered => answered,
            },
            None => self.ask(self.connect().await?, message).await,
        };
        let (sender, response) = response.map_err(|error| later(unspoken(&error)))?;
        let (head, body) = response.into_parts();
        // What became of the message its status says, also where the rest is too long or breaks off.
        let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await.ok();
        self.kept = body.is_some().then_some(sender);
        if head.status.is_success() {
            return Ok(body.map(Collected::to_bytes).unwrap_or_default());
        }
        let why = format!("it answers {}", head.status);
        // The protocol names those that may be tried again.
        Err(match head.status {
            StatusCode::TOO_MANY_REQUESTS
            | StatusCode::BAD_GATEWAY
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::GATEWAY_TIMEOUT => {
                let after = head.headers.get(header::RETRY_AFTER).and_then(|after| after.to_str().ok());
                let after = after.and_then(|after| after.trim().parse().ok()).map(Duration::from_secs);
                SendError::Later { why, pause: after.map(|after| after.min(PAUSE_MAX)) }
            }
            _ => SendError::Refused(why),
        })
    }

    async fn ask(
        &self,
        mut sender: SendRequest<Full<Bytes>>,
        message: Bytes,
    ) -> Result<(SendRequest<Full<Bytes>>, Response<Incoming>), hyper::Error> {
        let mut request = Request::new(Full::new(message));
        *request.method_mut() = http::Method::POST;
        let target = format!("{}{}", self.plan.settings.endpoint.prefix, self.path);
        // The prefix was checked with the settings.
        if let Ok(target) = target.parse() {
            *request.uri_mut() = target;
        }
        let headers = request.headers_mut();
        headers.extend(self.plan.headers.clone());
        headers.insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/x-protobuf"));
        if let Ok(host) = self.plan.settings.endpoint.authority().try_into() {
            headers.insert(header::HOST, host);
        }
        let agent = concat!("tidegate/", env!("CARGO_PKG_VERSION"));
        headers.entry(header::USER_AGENT).or_insert(header::HeaderValue::from_static(agent));
        sender.ready().await?;
        let response = sender.send_request(request).await?;
        Ok((sender, response))
    }

    async fn connect(&self) -> Result<SendRequest<Full<Bytes>>, SendError> {
        let endpoint = &self.plan.settings.endpoint;
        let stream = TcpStream::connect((endpoint.host.as_str(), endpoint.port)).await;
        let stream = stream.map_err(|error| later(error.to_string()))?;
        // Without it a message waits for the acknowledgement of its head; it works either way.
        let _ = stream.set_nodelay(true);
        let Some(config) = &self.plan.tls else { return speak(stream).await };
        let name = ServerName::try_from(endpoint.host.clone());
        let name = name.map_err(|error| later(format!("{}: {error}", endpoint.host)))?;
        let stream = TlsConnector::from(Arc::clone(config)).connect(name, stream).await;
        speak(stream.map_err(|error| later(format!("TLS: {error}")))?).await
    }
}

async fn speak(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
) -> Result<SendRequest<Full<Bytes>>, SendError> {
    let (sender, connection) =
        handshake(TokioIo::new(stream)).await.map_err(|error| later(causes(&error)))?;
    tokio::spawn(async move {
        // Whoever waits for an answer is told what went wrong.
        let _ = connection.await;
    });
    Ok(sender)
}

const fn later(why: String) -> SendError {
    SendError::Later { why, pause: None }
}

/// Why there is no answer, with what helps where it is none of HTTP/1.
fn unspoken(error: &hyper::Error) -> String {
    let why = causes(error);
    if !error.is_parse() {
        return why;
    }
    format!(
        "{why}: what answers speaks no HTTP/1, as a collector's port for gRPC (mostly 4317): give the one for HTTP (mostly 4318)"
    )
}

/// An error with what caused it, which hyper keeps apart.
fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text = format!("{text}: {cause}");
        next = cause.source();
    }
    text
}
