//! Opens connections to servers: TCP or a Unix socket, the PROXY header, TLS.

use std::{io, net::SocketAddr, rc::Rc, time::Duration};

use socket2::SockRef;
use tidegate_config::UpstreamProtocol;
use tidegate_control::meters::UpstreamError;
use tidegate_runtime::{
    Trust,
    servers::{Endpoint, Server},
};
use tokio::{
    io::AsyncWriteExt,
    net::{TcpStream, UnixStream},
};

use super::{
    error::{Failure, describe},
    io::UpstreamIo,
    plan::Plan,
    proxy_header::{self, Ends},
};
use crate::{
    exhaustion,
    listener::KEEPALIVE,
    socket::{Socket, UNSENT_MAX},
};

/// The version of HTTP a new connection speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spoken {
    Http1,
    Http2,
}

/// Opens a connection that speaks `protocol`, all of it within the timeout.
pub(super) async fn connect(
    server: &Server,
    plan: &Plan,
    protocol: UpstreamProtocol,
    ends: Option<Ends>,
    timeout: Duration,
) -> Result<(UpstreamIo, Spoken), Failure> {
    match tokio::time::timeout(timeout, open(server, plan, protocol, ends)).await {
        Ok(result) => result,
        Err(_) => Err(Failure::new(
            UpstreamError::ConnectTimeout,
            format!("{}: not connected within {timeout:?}", server.endpoint()),
        )),
    }
}

async fn open(
    server: &Server,
    plan: &Plan,
    protocol: UpstreamProtocol,
    ends: Option<Ends>,
) -> Result<(UpstreamIo, Spoken), Failure> {
    let endpoint = server.endpoint();
    let failed = |error: io::Error| {
        let is_ours = exhaustion::is_ours(&error)
            || matches!(endpoint, Endpoint::Tcp(address) if exhaustion::is_out_of_ports(&error, *address));
        let kind = match error.kind() {
            _ if is_ours => UpstreamError::Exhausted,
            // The kernel's own patience may end before ours.
            io::ErrorKind::TimedOut => UpstreamError::ConnectTimeout,
            _ => UpstreamError::Connect,
        };
        Failure::new(kind, format!("{endpoint}: {error}"))
    };
    let mut socket = match endpoint {
        Endpoint::Tcp(address) => Socket::tcp(tcp(*address).await.map_err(failed)?),
        Endpoint::Unix(path) => Socket::unix(UnixStream::connect(path).await.map_err(failed)?),
    };
    if let Some(version) = plan.proxy_protocol {
        socket.write_all(&proxy_header::header(version, ends)).await.map_err(failed)?;
    }
    let Some(tls) = &plan.tls else {
        let spoken = match protocol {
            UpstreamProtocol::Http2 => Spoken::Http2,
            UpstreamProtocol::Http1 | UpstreamProtocol::Auto => Spoken::Http1,
        };
        return Ok((UpstreamIo::Plain(socket), spoken));
    };
    let refused = |message: String| Failure::new(UpstreamError::Tls, format!("{endpoint}: TLS: {message}"));
    let stream = Rc::clone(tls).handshake(server.host(), socket, protocol).await.map_err(refused)?;
    let is_h2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    let spoken = match protocol {
        UpstreamProtocol::Http2 if !is_h2 => {
            return Err(refused("the server does not speak HTTP/2 (ALPN \"h2\")".to_owned()));
        }
        UpstreamProtocol::Http2 => Spoken::Http2,
        UpstreamProtocol::Auto if is_h2 => Spoken::Http2,
        UpstreamProtocol::Auto | UpstreamProtocol::Http1 => Spoken::Http1,
    };
    Ok((UpstreamIo::Tls(Box::new(stream)), spoken))
}

/// A connection of TCP.
async fn tcp(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address).await?;
    // What is written is to go: a server that waits for the rest of a body acknowledges late.
    stream.set_nodelay(true)?;
    let socket = SockRef::from(&stream);
    socket.set_tcp_notsent_lowat(UNSENT_MAX)?;
    // An upgraded connection may be silent for ever, and its server's host be gone without a word.
    socket.set_tcp_keepalive(&KEEPALIVE)?;
    Ok(stream)
}

/// The failure of a TLS handshake, which tokio wraps into an I/O error.
pub(super) fn handshake_error(error: &io::Error) -> String {
    match error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
        // In the library's words it is a name out of its code.
        Some(rustls::Error::InvalidCertificate(error)) if Trust::is_of_the_signer(error) => {
            "invalid peer certificate: UnknownIssuer: no authority vouches for it, of upstream.tls.ca or else the \
             system's"
                .to_owned()
        }
        Some(inner) => inner.to_string(),
        None => describe(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_kernel_looks_whether_a_silent_server_is_still_there() {
        let server = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let stream = tcp(server.local_addr().expect("an address")).await.expect("a connection");
        let socket = SockRef::from(&stream);
        assert!(socket.keepalive().expect("an option every socket has"));
        assert!(socket.tcp_keepalive_time().expect("an option of TCP") <= Duration::from_secs(60));
    }
}
