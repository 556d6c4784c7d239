//! A client connection as a request sees it, and how each kind of connection is served.

mod io;

use std::{
    cell::{Cell, RefCell},
    future::Future,
    pin::Pin,
};

use bytes::Bytes;
use tidegate_control::knobs::HalfClosed;

use crate::{facts::ConnectionFacts, socket::Socket};

pub(crate) use self::io::ClientIo;

/// A client connection.
pub(crate) struct Connection {
    /// What is known of it.
    pub(crate) facts: ConnectionFacts,
    protocol: Protocol,
    socket: Socket,
    draining: Cell<bool>,
    upgrade: RefCell<Option<Box<dyn Upgrade>>>,
}

/// The version of HTTP a connection speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// HTTP/1.0 or HTTP/1.1.
    Http1,
    /// HTTP/2.
    Http2,
}

/// What goes on with a connection after a 101.
pub(crate) trait Upgrade {
    /// Serves the connection to its end; `leftover` are bytes the client sent after its request.
    fn run(self: Box<Self>, client: ClientIo, leftover: Bytes) -> Pin<Box<dyn Future<Output = ()>>>;
}

impl Connection {
    /// Resolves the moment the client leaves, also with unread bytes pending. Never on HTTP/2,
    /// where the request's future is dropped instead.
    pub(crate) async fn departed(&self, half_closed: HalfClosed) {
        match self.protocol {
            Protocol::Http1 => self.socket.departed(half_closed).await,
            Protocol::Http2 => std::future::pending().await,
        }
    }

    /// Hands the connection over once the response, which is a 101, has been sent. HTTP/1 only.
    pub(crate) fn set_upgrade(&self, upgrade: Box<dyn Upgrade>) {
        self.upgrade.replace(Some(upgrade));
    }

    /// The version of HTTP.
    pub(crate) const fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// Whether the gateway wants this connection to end: it says so in the next response.
    pub(crate) fn is_draining(&self) -> bool {
        self.draining.get()
    }
}
