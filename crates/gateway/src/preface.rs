//! What comes before the first request: the PROXY header, the TLS hello and the handshake.
//!
//! The hello is read here, in the clear and before any cryptography, to know whether a session is to be
//! resumed; rustls then gets the same bytes. The time all of it may take is bounded by whoever
//! calls (`hello.timeout`), the bytes are bounded here.

use std::{
    cell::RefCell,
    future::Future,
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use rustls::server::{Accepted, Acceptor};
use tidegate_control::knobs::HalfClosed;
use tidegate_hello::{Hello, Reading};
use tokio_rustls::{Accept, server::TlsStream};

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
    is_resumable: bool,
    handshakes: &Handshakes,
    threads_max: usize,
) -> Result<TlsStream<Rewound>, String> {
    let Buffer { socket, bytes, .. } = buffer;
    let resumed = match is_resumable {
        true => {
            let (accepted, stream) = accept(socket, &bytes)?;
            present.resume(accepted, stream)
        }
        false => Err(Tickets::Count),
    };
    let stream = match resumed {
        Ok(begun) => {
            drop(bytes);
            begun.await
        }
        Err(tickets) => {
            let (accepted, stream) = accept(socket, &bytes)?;
            drop(bytes);
            let begin = move || present.begin(accepted, stream, tickets);
            let (begun, asks_again) =
                compute(socket, handshakes, threads_max, begin).await.map_err(|error| error.to_string())?;
            match asks_again {
                true => answer_again(begun, socket, handshakes, threads_max).await,
                false => begun.await,
            }
        }
    };
    let stream = stream.map_err(|error| error.to_string())?;
    // Resumed by a second hello.
    if has_outlived_certificate(stream.get_ref().1) {
        return Err("the client's certificate has expired since its session began".to_owned());
    }
    Ok(stream)
}

/// Computes `work` on one of at most `threads_max` threads, unless the client leaves before its turn has come. Who sends nothing
/// any more cannot end its handshake.
async fn compute<R: Send + 'static>(
    socket: &Socket,
    handshakes: &Handshakes,
    threads_max: usize,
    work: impl FnOnce() -> R + Send + 'static,
) -> io::Result<R> {
    tokio::select! {
        computed = handshakes.run(threads_max, work) => computed.map_err(io::Error::other),
        () = socket.departed(HalfClosed::Gone) => Err(io::Error::other("the client has left")),
    }
}

/// Goes on with a handshake that asks for another key share: the second hello is answered, with a signature, on a thread of its
/// own as well. Else whoever asks for that could have all signatures made here.
async fn answer_again(
    mut begun: Accept<Rewound>,
    socket: &Socket,
    handshakes: &Handshakes,
    threads_max: usize,
) -> io::Result<TlsStream<Rewound>> {
    loop {
        let step = move || {
            let polled = Pin::new(&mut begun).poll(&mut Context::from_waker(Waker::noop()));
            (begun, polled)
        };
        let (left, polled) = compute(socket, handshakes, threads_max, step).await?;
        match polled {
            Poll::Ready(stream) => return stream,
            // What there is to be written fits into any socket that nothing has been written to.
            Poll::Pending => socket.readable().await?,
        }
        begun = left;
    }
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
    /// Not a hello.
    DecodeError = 50,
    /// No such name here.
    UnrecognizedName = 112,
}

/// Sends an alert in the clear, if there is room for its seven bytes; the connection is then closed.
pub(crate) fn alert(socket: &Socket, alert: Alert) {
    const FATAL: u8 = 2;
    let _ = socket.try_write(&[0x15, 3, 3, 0, 2, FATAL, alert as u8]);
}

#[cfg(test)]
mod tests {
    use std::{sync::mpsc, time::Duration};

    use rustls::{
        ClientConfig, ClientConnection, HandshakeKind, NamedGroup, RootCertStore,
        crypto::{
            ActiveKeyExchange, CryptoProvider, SharedSecret, SupportedKxGroup, aws_lc_rs::kx_group::X25519,
        },
        pki_types::{CertificateDer, pem::PemObject},
    };
    use tidegate_config::{Certificate, CipherOrder, ClientAuth, ListenerTls, TlsVersion};
    use tidegate_runtime::Clock;
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::UnixStream,
        runtime::LocalRuntime,
    };

    use super::*;
    use crate::tls::{ServerTls, Ticketer};

    #[test]
    fn the_length_of_the_hint_is_right() {
        let (head, body) = PLAIN_HTTP_TO_TLS.split_once("\r\n\r\n").unwrap();
        assert!(head.ends_with(&format!("content-length: {}", body.len())));
    }

    /// A group that we do not have: who offers a share of it is asked for another.
    #[derive(Debug)]
    struct Foreign;

    struct ForeignShare(Box<dyn ActiveKeyExchange>);

    impl SupportedKxGroup for Foreign {
        fn start(&self) -> Result<Box<dyn ActiveKeyExchange>, rustls::Error> {
            Ok(Box::new(ForeignShare(X25519.start()?)))
        }
        fn name(&self) -> NamedGroup {
            NamedGroup::secp521r1
        }
    }

    impl ActiveKeyExchange for ForeignShare {
        fn complete(self: Box<Self>, peer: &[u8]) -> Result<SharedSecret, rustls::Error> {
            self.0.complete(peer)
        }
        fn pub_key(&self) -> &[u8] {
            self.0.pub_key()
        }
        fn group(&self) -> NamedGroup {
            NamedGroup::secp521r1
        }
    }

    /// After this a test has failed.
    const PATIENCE: Duration = Duration::from_secs(20);

    /// What we serve with, and a client that offers a share of [`Foreign`] first.
    fn ends() -> (Arc<Present>, ClientConnection) {
        let directory = tempfile::tempdir().unwrap();
        let certified = rcgen::generate_simple_self_signed(["a.example".to_owned()]).unwrap();
        let files =
            Certificate { chain: directory.path().join("a.pem"), key: directory.path().join("a.key") };
        std::fs::write(&files.chain, certified.cert.pem()).unwrap();
        std::fs::write(&files.key, certified.signing_key.serialize_pem()).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(&files.chain).unwrap()).unwrap();
        let settings = ListenerTls {
            certificates: vec![files],
            client_auth: ClientAuth::Off,
            min_version: TlsVersion::V13,
            cipher_order: CipherOrder::Gateway,
            http2: false,
        };
        let present = ServerTls::new(&settings, Ticketer::new(Clock::start()).unwrap()).unwrap().present();
        let provider = CryptoProvider {
            kx_groups: vec![&Foreign, X25519],
            ..rustls::crypto::aws_lc_rs::default_provider()
        };
        let client = ClientConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        (present, ClientConnection::new(Arc::new(client), "a.example".try_into().unwrap()).unwrap())
    }

    async fn say(client: &mut ClientConnection, near: &mut UnixStream) {
        let mut bytes = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut bytes).unwrap();
        }
        near.write_all(&bytes).await.unwrap();
    }

    async fn hear(client: &mut ClientConnection, near: &mut UnixStream) {
        let mut bytes = vec![0; 16 * 1024];
        let len = near.read(&mut bytes).await.unwrap();
        assert!(len > 0, "closed");
        let mut bytes = &bytes[..len];
        while !bytes.is_empty() {
            client.read_tls(&mut bytes).unwrap();
            client.process_new_packets().unwrap();
        }
    }

    /// Serves a new session, of which one at a time is computed.
    async fn shake(
        socket: &Socket,
        present: Arc<Present>,
        handshakes: &Handshakes,
    ) -> Result<TlsStream<Rewound>, String> {
        let scratch = RefCell::new(vec![0; 64 * 1024].into_boxed_slice());
        let mut buffer = Buffer::new(socket, &scratch);
        hello(&mut buffer).await.unwrap();
        handshake(buffer, present, false, handshakes, 1).await
    }

    /// Else whoever asks for that would have the worker make all signatures.
    #[test]
    fn the_answer_to_a_second_hello_waits_for_a_thread_too() {
        const TURNS: usize = 1000;
        let (present, mut client) = ends();
        let handshakes = Handshakes::new(Clock::start());
        let (go, wait) = mpsc::channel::<()>();
        LocalRuntime::new().unwrap().block_on(async {
            let (mut near, far) = UnixStream::pair().unwrap();
            let socket = Socket::unix(far);
            let server = async { shake(&socket, present, &handshakes).await.unwrap() };
            let client = async {
                say(&mut client, &mut near).await;
                hear(&mut client, &mut near).await;
                // The only thread has something else to do.
                let (begin, begun) = tokio::sync::oneshot::channel();
                let busy = handshakes.run(1, move || {
                    let _ = begin.send(());
                    wait.recv().is_ok()
                });
                let second = async {
                    begun.await.unwrap();
                    say(&mut client, &mut near).await;
                    for _ in 0..TURNS {
                        tokio::task::yield_now().await;
                    }
                    assert!(near.try_read(&mut [0]).is_err(), "it is answered");
                    go.send(()).unwrap();
                };
                let (was_told, ()) = tokio::join!(busy, second);
                assert!(was_told.unwrap());
                while client.is_handshaking() {
                    hear(&mut client, &mut near).await;
                    say(&mut client, &mut near).await;
                }
                assert_eq!(client.handshake_kind(), Some(HandshakeKind::FullWithHelloRetryRequest));
            };
            tokio::time::timeout(PATIENCE, async { tokio::join!(server, client) }).await.expect("in time");
        });
    }

    /// Else threads compute for those who have left, and those who come meanwhile leave before their turn, too.
    #[test]
    fn who_leaves_before_its_turn_is_waited_for_no_more() {
        let (present, mut client) = ends();
        let handshakes = Handshakes::new(Clock::start());
        let (go, wait) = mpsc::channel::<()>();
        LocalRuntime::new().unwrap().block_on(async {
            let (mut near, far) = UnixStream::pair().unwrap();
            let socket = Socket::unix(far);
            let busy = handshakes.run(1, move || wait.recv().is_ok());
            let server = async {
                let ended = shake(&socket, present, &handshakes).await;
                assert_eq!(ended.err().as_deref(), Some("the client has left"));
                go.send(()).unwrap();
            };
            let client = async {
                say(&mut client, &mut near).await;
                drop(near);
            };
            let all = async { tokio::join!(busy, server, client) };
            let (was_told, ..) = tokio::time::timeout(PATIENCE, all).await.expect("in time");
            assert!(was_told.unwrap());
        });
    }
}
