//! What comes before the first request: the PROXY header, the TLS hello and the handshake.
//!
//! The hello is read here, in the clear and before any cryptography, so that a connection can be
//! judged by it; rustls then gets the same bytes. The time all of it may take is bounded by whoever
//! calls (`hello.timeout`), the bytes are bounded here.

use std::{cell::RefCell, io, sync::Arc};

use bytes::Bytes;
use rustls::server::{Accepted, Acceptor};
use tidegate_control::{Refusal, connections::HelloKind};
use tidegate_hello::{Hello, Reading};
use tokio_rustls::server::TlsStream;

use crate::{
    proxy_protocol::{self, Speaker},
    socket::{Rewound, Socket},
    tls::{Handshakes, Present, Tickets, has_outlived_certificate},
};

/// The bytes of a connection read so far. What is read goes through the core's scratch buffer, so
/// that a connection holds no more than what it sent.
pub(crate) struct Buffer<'a> {
    socket: &'a Socket,
    scratch: &'a RefCell<Box<[u8]>>,
    bytes: Vec<u8>,
}

/// A preface that is not one; the connection is to be closed.
#[derive(Debug)]
pub(crate) struct Broken(pub(crate) &'static str);

impl<'a> Buffer<'a> {
    /// Nothing read yet.
    pub(crate) const fn new(socket: &'a Socket, scratch: &'a RefCell<Box<[u8]>>) -> Self {
        Self { socket, scratch, bytes: Vec::new() }
    }

    /// The bytes not used up.
    pub(crate) fn into_bytes(self) -> Bytes {
        self.bytes.into()
    }

    /// Waits for more bytes.
    async fn fill(&mut self) -> Result<(), Broken> {
        loop {
            self.socket.readable().await.map_err(|_| Broken("reading failed"))?;
            let mut scratch = self.scratch.borrow_mut();
            match self.socket.try_read(&mut scratch) {
                Ok(0) => return Err(Broken("closed by the client")),
                Ok(len) => {
                    self.bytes.extend_from_slice(&scratch[..len]);
                    return Ok(());
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => return Err(Broken("reset by the client")),
            }
        }
    }
}

/// Reads a PROXY header; who speaks by it.
pub(crate) async fn proxy_header(buffer: &mut Buffer<'_>) -> Result<Speaker, Broken> {
    loop {
        match proxy_protocol::read(&buffer.bytes) {
            proxy_protocol::Reading::NeedMore => buffer.fill().await?,
            proxy_protocol::Reading::Malformed(reason) => {
                buffer.socket.reset_on_close();
                return Err(Broken(reason));
            }
            proxy_protocol::Reading::Header { len, speaker } => {
                buffer.bytes.drain(..len);
                return Ok(speaker);
            }
        }
    }
}

/// Reads a ClientHello, which stays in the buffer.
pub(crate) async fn hello(buffer: &mut Buffer<'_>) -> Result<Box<Hello>, Broken> {
    loop {
        match tidegate_hello::read(&buffer.bytes) {
            Reading::NeedMore => buffer.fill().await?,
            Reading::Hello(hello) => return Ok(hello),
            Reading::Malformed(reason) => {
                alert(buffer.socket, Alert::DecodeError);
                return Err(Broken(reason));
            }
            Reading::NotTls => {
                let _ = buffer.socket.try_write(PLAIN_HTTP_TO_TLS.as_bytes());
                return Err(Broken("no TLS, on a listener for TLS"));
            }
        }
    }
}

/// What someone reads who forgot the `s` of `https`.
const PLAIN_HTTP_TO_TLS: &str = "HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain\r\nconnection: close\r\n\
     content-length: 47\r\n\r\nThis port speaks HTTPS, the request was HTTP.\r\n";

/// Does the handshake, beginning with the bytes in the buffer: one that resumes a session here and
/// now, a full one on a thread of its own, of which there are `threads_max`.
pub(crate) async fn handshake(
    buffer: Buffer<'_>,
    present: Arc<Present>,
    kind: HelloKind,
    handshakes: &Handshakes,
    threads_max: usize,
) -> Result<TlsStream<Rewound>, String> {
    let Buffer { socket, bytes, .. } = buffer;
    let resumed = match kind {
        HelloKind::Resumable => {
            let (accepted, stream) = accept(socket, &bytes)?;
            present.resume(accepted, stream)
        }
        HelloKind::New | HelloKind::Plain => Err(Tickets::Count),
    };
    let begun = match resumed {
        Ok(begun) => begun,
        Err(tickets) => {
            let (accepted, stream) = accept(socket, &bytes)?;
            let begin = move || present.begin(accepted, stream, tickets);
            handshakes.run(threads_max, begin).await.map_err(|error| error.to_string())?
        }
    };
    drop(bytes);
    let stream = begun.await.map_err(|error| error.to_string())?;
    // Resumed by a second hello.
    if has_outlived_certificate(stream.get_ref().1) {
        return Err("the client's certificate has expired since its session began".to_owned());
    }
    Ok(stream)
}

/// Lets rustls read a hello; gives what it made of it and the stream that goes on after it.
fn accept(socket: &Socket, bytes: &[u8]) -> Result<(Accepted, Rewound), String> {
    let mut acceptor = Acceptor::default();
    let mut rest = bytes;
    loop {
        // Reading from a slice fails only if rustls's own buffer is full.
        if rest.is_empty() || acceptor.read_tls(&mut rest).is_err() {
            alert(socket, Alert::DecodeError);
            return Err("the hello is not as rustls reads it".to_owned());
        }
        match acceptor.accept() {
            Ok(Some(accepted)) => {
                let stream = Rewound { before: Bytes::copy_from_slice(rest), socket: socket.clone() };
                return Ok((accepted, stream));
            }
            Ok(None) => {}
            Err((error, mut alert)) => {
                let mut record = Vec::new();
                // Writing to memory does not fail.
                let _ = alert.write_all(&mut record);
                let _ = socket.try_write(&record);
                return Err(error.to_string());
            }
        }
    }
}

/// A fatal alert that costs no cryptography (RFC 8446, section 6).
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
pub(crate) enum Alert {
    /// Not for this client.
    AccessDenied = 49,
    /// Not a hello.
    DecodeError = 50,
    /// Not now.
    InternalError = 80,
    /// No such name here.
    UnrecognizedName = 112,
}

impl Alert {
    /// The alert that says best why a connection is refused.
    pub(crate) const fn of(refusal: Refusal) -> Self {
        match refusal {
            Refusal::ClientConnections | Refusal::ClientRate => Self::AccessDenied,
            _ => Self::InternalError,
        }
    }
}

/// Sends an alert in the clear, if there is room for its seven bytes; the connection is then closed.
pub(crate) fn alert(socket: &Socket, alert: Alert) {
    const FATAL: u8 = 2;
    let _ = socket.try_write(&[0x15, 3, 3, 0, 2, FATAL, alert as u8]);
}

#[cfg(test)]
mod tests {
    use super::PLAIN_HTTP_TO_TLS;

    #[test]
    fn the_length_of_the_hint_is_right() {
        let (head, body) = PLAIN_HTTP_TO_TLS.split_once("\r\n\r\n").unwrap();
        assert!(head.ends_with(&format!("content-length: {}", body.len())));
    }
}
