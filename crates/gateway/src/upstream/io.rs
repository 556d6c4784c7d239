//! The byte stream to a server.

use tokio_rustls::client::TlsStream;

use crate::{socket::Socket, transport::Transport};

/// A connection's bytes, plain or TLS.
pub(crate) type UpstreamIo = Transport<TlsStream<Socket>>;
