//! The bytes of a client connection: plain or TLS, preceded by what was read of it before.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    rc::Rc,
    task::{Context, Poll},
};

use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::server::TlsStream;

use super::pulse::Pulse;
use crate::{socket::Rewound, transport::Transport};

/// A client's byte stream, as codecs and upgrades use it. What moves is noted on the connection's
/// pulse.
pub(crate) struct ClientIo {
    /// Bytes that were read already and come first.
    before: Bytes,
    stream: Stream,
    pulse: Rc<Pulse>,
}

/// What lies below.
pub(crate) type Stream = Transport<TlsStream<Rewound>>;

impl ClientIo {
    /// A stream whose first bytes were read already.
    pub(super) const fn new(stream: Stream, before: Bytes, pulse: Rc<Pulse>) -> Self {
        Self { before, stream, pulse }
    }

    /// Nothing of what the client may send is waited for any more.
    pub(super) fn wants_nothing(&self) {
        self.pulse.wants_nothing();
    }

    /// The stream below.
    pub(super) fn into_stream(self) -> Stream {
        self.stream
    }
}

impl AsyncRead for ClientIo {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let result = if self.before.has_remaining() {
            let len = self.before.len().min(buffer.remaining());
            buffer.put_slice(&self.before.split_to(len));
            if self.before.is_empty() {
                self.before = Bytes::new();
            }
            Poll::Ready(Ok(()))
        } else {
            Pin::new(&mut self.stream).poll_read(context, buffer)
        };
        match &result {
            Poll::Ready(Ok(())) => self.pulse.read(Some(buffer.filled().len() - before)),
            Poll::Ready(Err(_)) => self.pulse.read(Some(0)),
            Poll::Pending => self.pulse.read(None),
        }
        result
    }
}

impl AsyncWrite for ClientIo {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.pulse.wrote(result.is_pending());
        result
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.pulse.wrote(result.is_pending());
        result
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.stream).poll_flush(context);
        self.pulse.flushed(result.is_pending());
        result
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rustls::{ClientConfig, RootCertStore, ServerConfig, pki_types::PrivateKeyDer};
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::UnixStream,
        runtime::LocalRuntime,
    };
    use tokio_rustls::{TlsAcceptor, TlsConnector};

    use super::*;
    use crate::{connection::Pulses, socket::Socket};

    /// A client and a server of TLS.
    fn configurations() -> (Arc<ClientConfig>, Arc<ServerConfig>) {
        let certified = rcgen::generate_simple_self_signed(["a.example".to_owned()]).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut roots = RootCertStore::empty();
        roots.add(certified.cert.der().clone()).unwrap();
        let client = ClientConfig::builder_with_provider(Arc::clone(&provider));
        let client = client.with_safe_default_protocol_versions().unwrap();
        let client = client.with_root_certificates(roots).with_no_client_auth();
        let key = PrivateKeyDer::Pkcs8(certified.signing_key.serialize_der().into());
        let server = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let server = server.unwrap().with_no_client_auth();
        let server = server.with_single_cert(vec![certified.cert.der().clone()], key).unwrap();
        (Arc::new(client), Arc::new(server))
    }

    /// TLS takes more than the socket does; what is left over goes out as it is flushed.
    #[test]
    fn a_client_that_has_taken_what_was_flushed_owes_nothing() {
        LocalRuntime::new().unwrap().block_on(async {
            let (near, far) = UnixStream::pair().unwrap();
            let (client, server) = configurations();
            let socket = Rewound { before: Bytes::new(), socket: Socket::unix(far) };
            let connector = TlsConnector::from(client);
            let (mut client, server) = tokio::try_join!(
                connector.connect("a.example".try_into().unwrap(), near),
                TlsAcceptor::from(server).accept(socket)
            )
            .unwrap();
            let pulse = Rc::clone(Rc::new(Pulses::default()).register().pulse());
            let mut io = ClientIo::new(Stream::Tls(Box::new(server)), Bytes::new(), Rc::clone(&pulse));
            let mut written = 0;
            while !pulse.is_owed() {
                written += io.write(&[0; 1024]).await.unwrap();
                std::future::poll_fn(|context| {
                    let _ = Pin::new(&mut io).poll_flush(context);
                    Poll::Ready(())
                })
                .await;
            }
            let mut taken = vec![0; written];
            let (flushed, read) = tokio::join!(io.flush(), client.read_exact(&mut taken));
            assert!(flushed.is_ok() && read.is_ok_and(|read| read == written));
            assert!(!pulse.is_owed());
        });
    }
}
