//! Where clients connect: listening sockets, bound or taken over, one for each worker.

use std::{
    io,
    net::{SocketAddr, TcpListener},
    os::unix::{
        fs::FileTypeExt,
        net::{UnixListener, UnixStream},
    },
    path::Path,
    sync::Arc,
    time::Duration,
};

use arc_swap::ArcSwap;
use ipnet::IpNet;
use rustix::io::Errno;
use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};
use tidegate_config::{Address, Listener};

use crate::{exhaustion::is_ours, handover::Inherited, socket::UNSENT_MAX, tls::ServerTls};

/// Connections the kernel holds for us to accept; it caps them at `net.core.somaxconn`.
const BACKLOG: i32 = 4096;

/// Quiet time after which the kernel asks whether a silent peer is still there. A client or server that
/// vanished without a word is then gone after about two minutes.
pub(crate) const KEEPALIVE: TcpKeepalive = TcpKeepalive::new()
    .with_time(Duration::from_secs(60))
    .with_interval(Duration::from_secs(15))
    .with_retries(4);

/// Why a listener cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListenError {
    /// Somebody else listens there.
    #[error(
        "listener {listener}: {address} is in use; stop what listens there (`ss -lxtnp` names it) or choose another address"
    )]
    InUse {
        /// The listener.
        listener: String,
        /// Its address.
        address: String,
    },
    /// The process may not.
    #[error("listener {listener}: {address} may not be listened on by this user; {mend}")]
    Forbidden {
        /// The listener.
        listener: String,
        /// Its address.
        address: String,
        /// What helps.
        mend: &'static str,
    },
    /// This computer has no such address.
    #[error(
        "listener {listener}: {address} is no address of this computer; use one that `ip address` shows, or 0.0.0.0 or [::] for all"
    )]
    NoSuchAddress {
        /// The listener.
        listener: String,
        /// Its address.
        address: String,
    },
    /// Something else.
    #[error("listener {listener}: {address} cannot be listened on: {source}; {mend}")]
    Other {
        /// The listener.
        listener: String,
        /// Its address.
        address: String,
        /// What the system says.
        source: io::Error,
        /// What helps.
        mend: &'static str,
    },
}

/// A listener that is open, shared by the workers that accept from it.
#[derive(Debug)]
pub(crate) struct Listening {
    /// Its name.
    pub(crate) name: String,
    /// Where it listens as configured.
    pub(crate) configured: Address,
    /// The worker group that accepts.
    pub(crate) group: String,
    /// Where it listens, the port known.
    pub(crate) bound: Address,
    /// What new connections are served with.
    pub(crate) serving: ArcSwap<Serving>,
}

/// What a listener serves its connections with, by one version of the settings.
#[derive(Debug)]
pub(crate) struct Serving {
    /// Its settings.
    pub(crate) listener: Arc<Listener>,
    /// Its TLS.
    pub(crate) tls: Option<Arc<ServerTls>>,
}

/// A listening socket.
#[derive(Debug)]
pub(crate) enum Bound {
    /// TCP.
    Tcp(TcpListener),
    /// A Unix socket.
    Unix(UnixListener),
}

impl Listening {
    /// Whether it is what the settings of a listener ask for: then it stays open and only what its
    /// connections are served with changes.
    pub(crate) fn is_for(&self, listener: &Listener) -> bool {
        self.name == listener.name && self.configured == listener.address && self.group == listener.group
    }

    /// Whether it listens elsewhere than it is configured: systemd says where.
    pub(crate) fn is_elsewhere(&self) -> bool {
        self.bound != self.configured && !self.configured.is_any_port()
    }
}

impl Serving {
    /// Whether a peer is believed about where its connections come from.
    pub(crate) fn trusts(&self, peer: Option<SocketAddr>) -> bool {
        is_trusted(&self.listener.trusted, peer)
    }
}

/// Whether a peer is of one of the networks; an IPv4 address in IPv6 is an IPv4 one. Who may open a Unix socket is
/// trusted: its file says who that is.
pub(crate) fn is_trusted(networks: &[IpNet], peer: Option<SocketAddr>) -> bool {
    peer.is_none_or(|peer| {
        let address = peer.ip().to_canonical();
        networks.iter().any(|network| network.contains(&address))
    })
}

impl Bound {
    /// Opens a listener for `workers` threads: takes over what was inherited for it, and binds what
    /// is missing. At least one socket for each worker; more only if more were inherited, since a
    /// socket that is closed takes the connections in its backlog with it.
    pub(crate) fn open(
        listener: &Listener,
        workers: usize,
        inherited: &mut Inherited,
    ) -> Result<Vec<Self>, ListenError> {
        let describe = |source| describe(listener, source);
        let mut sockets = inherited.take(listener);
        if let Some(first) = sockets.first() {
            // Only sockets that share their port can have others beside them.
            let shares =
                matches!(first, Self::Tcp(socket) if SockRef::from(socket).reuse_port().unwrap_or(false));
            let address = first.address().map_err(describe)?;
            let mut next = 0;
            while sockets.len() < workers {
                let socket = match &address {
                    Address::Tcp(address) if shares => bind_tcp(*address).map(Self::Tcp).map_err(describe)?,
                    _ => sockets[next].duplicate().map_err(describe)?,
                };
                next += 1;
                sockets.push(socket);
            }
        } else {
            match &listener.address {
                Address::Tcp(address) => {
                    probe(*address).map_err(describe)?;
                    // With the port, if the system was to choose one.
                    let mut address = *address;
                    for _ in 0..workers {
                        let socket = bind_tcp(address).map_err(describe)?;
                        address = socket.local_addr().map_err(describe)?;
                        sockets.push(Self::Tcp(socket));
                    }
                }
                Address::Unix(path) => {
                    let first = bind_unix(path).map_err(describe)?;
                    for _ in 1..workers {
                        sockets.push(first.duplicate().map_err(describe)?);
                    }
                    sockets.push(first);
                }
            }
        }
        for socket in &sockets {
            socket.prepare().map_err(describe)?;
        }
        Ok(sockets)
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> io::Result<Address> {
        match self {
            Self::Tcp(socket) => socket.local_addr().map(Address::Tcp),
            Self::Unix(socket) => {
                let address = socket.local_addr()?;
                Ok(Address::Unix(address.as_pathname().unwrap_or(Path::new("")).to_owned()))
            }
        }
    }

    /// Another handle of the same socket.
    pub(crate) fn duplicate(&self) -> io::Result<Self> {
        match self {
            Self::Tcp(socket) => socket.try_clone().map(Self::Tcp),
            Self::Unix(socket) => socket.try_clone().map(Self::Unix),
        }
    }

    /// Sets what accepted sockets inherit, so that it costs nothing a connection.
    fn prepare(&self) -> io::Result<()> {
        match self {
            Self::Tcp(socket) => {
                socket.set_nonblocking(true)?;
                let socket = SockRef::from(socket);
                socket.set_tcp_nodelay(true)?;
                socket.set_tcp_notsent_lowat(UNSENT_MAX)?;
                socket.set_tcp_keepalive(&KEEPALIVE)
            }
            Self::Unix(socket) => socket.set_nonblocking(true),
        }
    }
}

fn tcp(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if address.is_ipv6() {
        // Whatever net.ipv6.bindv6only says.
        socket.set_only_v6(false)?;
    }
    // Connections of a process before this one that linger do not keep the port.
    socket.set_reuse_address(true)?;
    Ok(socket)
}

/// Fails if anybody listens there: a socket that shares its port would be let in beside another of
/// the same user, and the two processes would each get a part of the connections.
fn probe(address: SocketAddr) -> io::Result<()> {
    tcp(address)?.bind(&address.into())
}

fn bind_tcp(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = tcp(address)?;
    socket.set_reuse_port(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

fn bind_unix(path: &Path) -> io::Result<Bound> {
    match UnixListener::bind(path) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            if !path.symlink_metadata().is_ok_and(|file| file.file_type().is_socket()) {
                return Err(io::Error::new(
                    io::ErrorKind::AlreadyExists,
                    "a file that is no socket is there",
                ));
            }
            if UnixStream::connect(path).is_ok() {
                return Err(error);
            }
            // Left behind by a process that is no more.
            std::fs::remove_file(path)?;
            UnixListener::bind(path).map(Bound::Unix)
        }
        result => result.map(Bound::Unix),
    }
}

fn describe(listener: &Listener, source: io::Error) -> ListenError {
    let name = listener.name.clone();
    let address = match &listener.address {
        Address::Tcp(address) => address.to_string(),
        Address::Unix(path) => path.display().to_string(),
    };
    match source.kind() {
        io::ErrorKind::AddrInUse => ListenError::InUse { listener: name, address },
        io::ErrorKind::AddrNotAvailable => ListenError::NoSuchAddress { listener: name, address },
        io::ErrorKind::PermissionDenied => {
            let mend = match &listener.address {
                Address::Tcp(_) => {
                    "choose a port from 1024 on, or allow it: `setcap cap_net_bind_service=+ep` on the \
                     program, AmbientCapabilities=CAP_NET_BIND_SERVICE in the systemd unit, or systemd \
                     socket activation"
                }
                Address::Unix(_) => "give this user the right to write in that directory",
            };
            ListenError::Forbidden { listener: name, address, mend }
        }
        kind => {
            let is_v6 = matches!(listener.address, Address::Tcp(SocketAddr::V6(_)));
            let mend = match kind {
                _ if is_ours(&source) => "with too few open files, raise LimitNOFILE or `ulimit -n`",
                _ if is_v6 && Errno::from_io_error(&source) == Some(Errno::AFNOSUPPORT) => {
                    "this computer has IPv4 only, or the systemd unit allows no more (RestrictAddressFamilies=): write 0.0.0.0 for [::]"
                }
                io::ErrorKind::NotFound => "make the directory that it is to be in",
                io::ErrorKind::AlreadyExists => "move it away",
                _ => "choose another address",
            };
            ListenError::Other { listener: name, address, source, mend }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::{io::AsyncReadExt, net::TcpStream};

    use super::*;

    fn listener(address: &str) -> Listener {
        Listener {
            name: "test".to_owned(),
            address: Address::Tcp(address.parse().unwrap()),
            group: "default".to_owned(),
            tls: None,
            proxy_protocol: false,
            trusted: Vec::new(),
            redirect_to_https: None,
            application: None,
        }
    }

    #[test]
    fn every_worker_has_a_socket_of_its_own_at_one_port_and_nobody_else_has() {
        let sockets = Bound::open(&listener("127.0.0.1:0"), 3, &mut Inherited::default()).unwrap();
        let addresses: Vec<_> = sockets.iter().map(|socket| socket.address().unwrap()).collect();
        assert!(addresses.len() == 3 && addresses.iter().all(|address| *address == addresses[0]));
        let Address::Tcp(taken) = addresses[0] else { panic!() };
        let error = Bound::open(&listener(&taken.to_string()), 1, &mut Inherited::default()).unwrap_err();
        assert!(matches!(error, ListenError::InUse { .. }), "{error}");
        let error = Bound::open(&listener("192.0.2.1:80"), 1, &mut Inherited::default()).unwrap_err();
        assert!(matches!(error, ListenError::NoSuchAddress { .. }), "{error}");
    }

    #[test]
    fn what_is_in_the_way_of_a_unix_socket_is_said_with_its_mend() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        std::fs::write(&file, "what somebody wrote").unwrap();
        for (path, mend) in [
            (directory.path().join("none/app.sock"), "make the directory that it is to be in"),
            (file.clone(), "a file that is no socket is there; move it away"),
        ] {
            let unix = Listener { address: Address::Unix(path), ..listener("127.0.0.1:0") };
            let error = Bound::open(&unix, 1, &mut Inherited::default()).unwrap_err();
            assert!(error.to_string().ends_with(mend), "{error}");
        }
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "what somebody wrote");
    }

    #[test]
    fn what_the_system_lacks_is_said_with_its_mend() {
        for (address, errno, mend) in [
            ("[::]:80", Errno::AFNOSUPPORT, "write 0.0.0.0 for [::]"),
            ("[::]:80", Errno::MFILE, "raise LimitNOFILE or `ulimit -n`"),
            ("0.0.0.0:80", Errno::AFNOSUPPORT, "choose another address"),
        ] {
            let error = describe(&listener(address), errno.into());
            assert!(error.to_string().ends_with(mend), "{error}");
        }
    }

    #[test]
    fn an_ipv4_address_in_ipv6_is_of_the_networks_of_ipv4() {
        let networks = ["10.0.0.0/8".parse().unwrap(), "2001:db8::/32".parse().unwrap()];
        for (peer, trusted) in [
            ("10.0.0.5:1", true),
            ("[::ffff:10.0.0.5]:1", true),
            ("[2001:db8::1]:1", true),
            ("[::ffff:192.0.2.1]:1", false),
        ] {
            assert_eq!(is_trusted(&networks, Some(peer.parse().unwrap())), trusted, "{peer}");
        }
    }

    #[test]
    fn inherited_sockets_are_taken_all_and_what_is_missing_is_added() {
        for (inherited, workers, expected) in [(1, 3, 3), (3, 3, 3), (4, 2, 4)] {
            let sockets =
                Bound::open(&listener("127.0.0.1:0"), inherited, &mut Inherited::default()).unwrap();
            let mut passed = Inherited::default();
            passed.add("test", &sockets);
            let address = sockets[0].address().unwrap();
            drop(sockets);
            let taken = Bound::open(&listener("127.0.0.1:0"), workers, &mut passed).unwrap();
            assert_eq!(taken.len(), expected);
            assert!(taken.iter().all(|socket| socket.address().unwrap() == address));
        }
    }

    #[test]
    fn accepted_sockets_inherit_what_the_listener_was_given() {
        let sockets = Bound::open(&listener("127.0.0.1:0"), 1, &mut Inherited::default()).unwrap();
        let [Bound::Tcp(socket)] = sockets.as_slice() else { panic!() };
        socket.set_nonblocking(false).unwrap();
        let _client = std::net::TcpStream::connect(socket.local_addr().unwrap()).unwrap();
        let (accepted, _) = socket.accept().unwrap();
        assert!(accepted.nodelay().unwrap());
        let accepted = SockRef::from(&accepted);
        assert!(accepted.keepalive().unwrap());
        assert_eq!(accepted.tcp_notsent_lowat().unwrap(), UNSENT_MAX);
    }

    #[tokio::test]
    async fn a_client_that_takes_something_is_soon_seen_to() {
        let sockets = Bound::open(&listener("127.0.0.1:0"), 1, &mut Inherited::default()).unwrap();
        let [Bound::Tcp(socket)] = sockets.as_slice() else { panic!() };
        let socket = tokio::net::TcpListener::from_std(socket.try_clone().unwrap()).unwrap();
        let mut client = TcpStream::connect(socket.local_addr().unwrap()).await.unwrap();
        let (accepted, _) = socket.accept().await.unwrap();
        let some = vec![0; 128 * 1024];
        // What the kernel sends goes to its other end at once: full is full.
        while accepted.try_write(&some).is_ok() {}
        // Of the megabytes that it would hold by itself, this is less than it would wait for.
        client.read_exact(&mut vec![0; UNSENT_MAX as usize]).await.unwrap();
        tokio::time::timeout(Duration::from_secs(10), accepted.writable()).await.unwrap().unwrap();
        accepted.try_write(&some).unwrap();
    }
}
