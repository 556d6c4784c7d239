//! What is known of a client connection before its first request: what `control` judges and logs show.

use std::{
    cell::{Cell, OnceCell},
    net::{IpAddr, SocketAddr},
    rc::{Rc, Weak},
    sync::Arc,
};

use http::HeaderValue;
use tidegate_config::Listener;
use tidegate_control::{ApplicationId, tls_sessions::Session};

/// The facts of one client connection.
#[derive(Debug)]
pub struct ConnectionFacts {
    /// Its number in this process.
    pub id: u64,
    /// The listener it came in by.
    pub listener: Arc<Listener>,
    /// The socket's peer; `None` on a Unix socket.
    pub transport_peer: Option<SocketAddr>,
    /// The client: what a PROXY header from a trusted network says, else the socket's peer.
    pub client: Option<SocketAddr>,
    /// The address the client connected to, by the PROXY header or the socket.
    pub local: Option<SocketAddr>,
    /// TLS, once the handshake is done.
    pub tls: Option<TlsFacts>,
    /// Whether `X-Forwarded-*` and `Forwarded` of this peer are believed.
    pub trusted: bool,
    /// Requests begun on it so far.
    pub requests: Cell<u64>,
    /// What every request of the connection says of it to servers, written once.
    pub forwarding: OnceCell<ForwardingFields>,
    /// There once a connection to a server is this client's alone.
    pub presence: OnceCell<Rc<()>>,
}

/// Values of the fields that tell a server whence a request came.
#[derive(Clone, Debug)]
pub struct ForwardingFields {
    /// `X-Forwarded-For`.
    pub address: HeaderValue,
    /// `X-Forwarded-Proto`.
    pub scheme: HeaderValue,
    /// `X-Forwarded-Port`; `None` on a Unix socket.
    pub port: Option<HeaderValue>,
    /// `Forwarded` (RFC 7239), one element.
    pub element: HeaderValue,
}

/// The facts of a TLS session.
#[derive(Clone, Debug)]
pub struct TlsFacts {
    /// The server name the client asked for, lower case.
    pub server_name: Option<Arc<str>>,
    /// Version, as logs show it: `TLSv1.3`.
    pub version: &'static str,
    /// Cipher suite, as logs show it.
    pub cipher: &'static str,
    /// Whether the session was resumed.
    pub resumed: bool,
    /// SHA-256 of the verified client certificate, lower-case hexadecimal.
    pub client_certificate: Option<Arc<str>>,
    /// As what it was let in before its handshake, for which application; `None` where nothing looks at that.
    pub greeted: Option<(ApplicationId, Session)>,
}

impl ConnectionFacts {
    /// The client's address, an IPv4 one as such; `None` on a Unix socket.
    #[must_use]
    pub fn client_ip(&self) -> Option<IpAddr> {
        self.client.map(|address| address.ip().to_canonical())
    }

    /// What tells this connection from others, and whether it is still there.
    pub(crate) fn presence(&self) -> Weak<()> {
        Rc::downgrade(self.presence.get_or_init(Rc::default))
    }

    /// Whether that is the presence of this connection.
    pub(crate) fn is(&self, presence: &Weak<()>) -> bool {
        self.presence.get().is_some_and(|own| Rc::as_ptr(own) == presence.as_ptr())
    }

    /// Whether the client speaks TLS to us.
    #[must_use]
    pub const fn is_secure(&self) -> bool {
        self.tls.is_some()
    }
}
