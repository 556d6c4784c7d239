//! What the gateway itself has run out of, descriptors before all: told from faults of others, and said once a minute.

use std::{
    cell::Cell,
    io,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
    time::{Duration, Instant},
};

use rustix::io::Errno;

/// How often it is said: between two failures some connection ends and another one is opened.
const INTERVAL: Duration = Duration::from_secs(60);

/// When it was said last.
#[derive(Debug, Default)]
pub(crate) struct Said {
    last: Cell<Option<Instant>>,
}

impl Said {
    /// Whether it is to be said now; then it has been.
    pub(crate) fn is_due(&self) -> bool {
        let now = Instant::now();
        let is_due = self.last.get().is_none_or(|last| now.duration_since(last) >= INTERVAL);
        if is_due {
            self.last.set(Some(now));
        }
        is_due
    }
}

/// Whether a socket could not be had for want of descriptors or memory of our own.
pub(crate) fn is_ours(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM))
}

/// Whether a connection to `server` could not be opened since no local port is left. The kernel says the same where this
/// host has no address at all from which that server could be reached, as without IPv6; a datagram's socket, which needs
/// a port of another kind, tells one from the other.
pub(crate) fn is_out_of_ports(error: &io::Error, server: SocketAddr) -> bool {
    let any: SocketAddr = match server {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    error.kind() == io::ErrorKind::AddrNotAvailable
        && UdpSocket::bind(any).and_then(|socket| socket.connect(server)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(errno: Errno) -> io::Error {
        io::Error::from_raw_os_error(errno.raw_os_error())
    }

    #[test]
    fn faults_of_our_own_are_told_from_those_of_servers() {
        for ours in [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM] {
            assert!(is_ours(&failed(ours)), "{ours}");
        }
        for theirs in [Errno::CONNREFUSED, Errno::CONNRESET, Errno::TIMEDOUT, Errno::NETUNREACH, Errno::AGAIN]
        {
            assert!(!is_ours(&failed(theirs)), "{theirs}");
        }
    }

    #[test]
    fn no_port_left_is_told_from_no_address() {
        let loopback = SocketAddr::from((Ipv4Addr::LOCALHOST, 80));
        assert!(is_out_of_ports(&failed(Errno::ADDRNOTAVAIL), loopback));
        assert!(!is_out_of_ports(&failed(Errno::CONNREFUSED), loopback));
        // No socket of this host reaches a broadcast address unasked, for whatever reason.
        let nowhere = SocketAddr::from((Ipv4Addr::BROADCAST, 80));
        assert!(!is_out_of_ports(&failed(Errno::ADDRNOTAVAIL), nowhere));
    }

    #[test]
    fn it_is_said_once_a_minute() {
        let said = Said::default();
        assert!(said.is_due());
        assert!(!said.is_due());
        let now = Instant::now();
        let Some(earlier) = now.checked_sub(INTERVAL) else { return };
        said.last.set(Some(earlier));
        assert!(said.is_due());
    }
}
