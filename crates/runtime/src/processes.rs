//! The processes behind upstream servers of this host: found by the socket they listen on, read from `/proc`.
//!
//! A server's processes are those that hold its listening socket open: one for Tomcat, parent and workers for nginx
//! or gunicorn. They are found if they run in this network namespace and may be looked at (same user, or root);
//! else nothing is said of them.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File},
    io::{BufRead, BufReader},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
    path::Path,
    time::Duration,
};

use tidegate_control::{ApplicationId, ServerId, Timestamp};

use crate::{
    host::{TICK_NANOS, kib_of, read},
    servers::Endpoint,
};

/// Time between two searches for processes.
const SEARCH_AGAIN: Duration = Duration::from_secs(10);
/// Processes looked through, and descriptors of each, at most.
const PROCESSES_MAX: usize = 32_768;
const DESCRIPTORS_MAX: usize = 65_536;
/// Processes of one server that are counted.
const PER_SERVER_MAX: usize = 256;
/// Lines of a table of sockets that are read.
const SOCKETS_MAX: usize = 100_000;
/// The state of a socket that listens (TCP_LISTEN).
const LISTEN: &str = "0A";

/// What the processes of each local server have used.
#[derive(Debug, Default)]
pub(crate) struct Processes {
    servers: BTreeMap<(ApplicationId, ServerId), Watched>,
    search_due: Option<Timestamp>,
}

#[derive(Debug)]
struct Watched {
    endpoint: Endpoint,
    /// Each process, with its start (so that a number used again is no old friend) and what it had used when last seen.
    processes: BTreeMap<u32, Process>,
    /// What all that ever belonged to it have used since they were found, nanoseconds.
    cpu_nanos: u64,
    memory_bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Process {
    started: u64,
    cpu_nanos: u64,
    memory_bytes: u64,
}

impl Processes {
    /// Looks at the processes of the servers `wanted`. Costs two small files a process, and every ten seconds all
    /// descriptors of the host's processes, since workers come and go.
    pub(crate) fn look(&mut self, now: Timestamp, wanted: BTreeMap<(ApplicationId, ServerId), Endpoint>) {
        self.servers.retain(|key, watched| wanted.get(key) == Some(&watched.endpoint));
        let mut is_new = false;
        for (key, endpoint) in wanted {
            if !self.servers.contains_key(&key) && is_local(&endpoint) {
                is_new = true;
                self.servers.insert(key, Watched::new(endpoint));
            }
        }
        for watched in self.servers.values_mut() {
            watched.look();
        }
        let is_due = self.search_due.is_none_or(|due| now >= due);
        if !self.servers.is_empty() && (is_new || is_due) {
            self.search_due = Some(now + SEARCH_AGAIN);
            self.search();
        }
    }

    /// What a server's processes have used since they were found, nanoseconds; `None`: none is found.
    #[must_use]
    pub(crate) fn cpu_nanos(&self, application: ApplicationId, server: ServerId) -> Option<u64> {
        self.found(application, server).map(|watched| watched.cpu_nanos)
    }

    /// Their resident memory, bytes.
    #[must_use]
    pub(crate) fn memory_bytes(&self, application: ApplicationId, server: ServerId) -> Option<u64> {
        self.found(application, server).map(|watched| watched.memory_bytes)
    }

    fn found(&self, application: ApplicationId, server: ServerId) -> Option<&Watched> {
        self.servers.get(&(application, server)).filter(|watched| !watched.processes.is_empty())
    }

    fn search(&mut self) {
        let inodes: BTreeMap<(ApplicationId, ServerId), BTreeSet<u64>> =
            self.servers.iter().map(|(key, watched)| (*key, listening(&watched.endpoint))).collect();
        let all: BTreeSet<u64> = inodes.values().flatten().copied().collect();
        let holders = if all.is_empty() { BTreeMap::new() } else { holders(&all) };
        for (key, watched) in &mut self.servers {
            let of_server =
                |held: &BTreeSet<u64>| inodes.get(key).is_some_and(|inodes| !inodes.is_disjoint(held));
            // Who listens no more is at another work: a parent that has handed its socket on, or a server that was moved.
            watched.processes.retain(|pid, _| holders.get(pid).is_some_and(of_server));
            for (pid, _) in holders.iter().filter(|(_, held)| of_server(held)) {
                watched.join(*pid);
            }
        }
    }
}

impl Watched {
    const fn new(endpoint: Endpoint) -> Self {
        Self { endpoint, processes: BTreeMap::new(), cpu_nanos: 0, memory_bytes: 0 }
    }

    fn look(&mut self) {
        let mut used = 0;
        self.processes.retain(|pid, process| match Process::read(*pid) {
            Some(now) if now.started == process.started => {
                used += now.cpu_nanos.saturating_sub(process.cpu_nanos);
                *process = now;
                true
            }
            _ => false,
        });
        self.cpu_nanos += used;
        self.memory_bytes = self.processes.values().map(|process| process.memory_bytes).sum();
    }

    fn join(&mut self, pid: u32) {
        if self.processes.len() < PER_SERVER_MAX
            && !self.processes.contains_key(&pid)
            && let Some(process) = Process::read(pid)
        {
            self.memory_bytes += process.memory_bytes;
            self.processes.insert(pid, process);
        }
    }
}

impl Process {
    fn read(pid: u32) -> Option<Self> {
        let memory_bytes = kib_of(&read(&format!("/proc/{pid}/status"))?, "VmRSS:").unwrap_or(0);
        Some(Self { memory_bytes, ..Self::parse(&read(&format!("/proc/{pid}/stat"))?)? })
    }

    /// `/proc/PID/stat` (proc(5)): the name is in parentheses and may hold anything, so fields count from behind it.
    fn parse(stat: &str) -> Option<Self> {
        let (_, rest) = stat.rsplit_once(')')?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        // The state is field 3 of the file and the first of these.
        let number = |field: usize| fields.get(field - 3).and_then(|text| text.parse::<u64>().ok());
        let ticks = number(14)?.saturating_add(number(15)?);
        Some(Self { started: number(22)?, cpu_nanos: ticks.saturating_mul(TICK_NANOS), memory_bytes: 0 })
    }
}

/// Whether a server can be a process of this host.
fn is_local(endpoint: &Endpoint) -> bool {
    match endpoint {
        Endpoint::Unix(_) => true,
        // The kernel lets bind what is its own.
        Endpoint::Tcp(address) => {
            address.ip().is_loopback() || UdpSocket::bind(SocketAddr::new(address.ip(), 0)).is_ok()
        }
    }
}

/// Inodes of the sockets that listen at an address.
fn listening(endpoint: &Endpoint) -> BTreeSet<u64> {
    let mut inodes = BTreeSet::new();
    match endpoint {
        Endpoint::Tcp(address) => {
            for table in ["/proc/net/tcp", "/proc/net/tcp6"] {
                // They come first (proc_net_tcp.rst of the kernel); the connections behind them may be very many.
                let listening = lines(table).take_while(|line| state(line) == Some(LISTEN));
                inodes.extend(listening.filter_map(|line| listens(&line, *address)));
            }
        }
        Endpoint::Unix(path) => {
            inodes.extend(lines("/proc/net/unix").filter_map(|line| listens_at(&line, path)));
        }
    }
    inodes
}

/// The state of a line of `/proc/net/tcp` or `tcp6`.
fn state(line: &str) -> Option<&str> {
    line.split_whitespace().nth(3)
}

/// The inode of a line of `/proc/net/tcp` or `tcp6` if it is of a socket that listens at `address`.
fn listens(line: &str, address: SocketAddr) -> Option<u64> {
    let mut fields = line.split_whitespace().skip(1);
    let local = fields.next()?;
    let (ip, port) = local.split_once(':')?;
    if fields.nth(1)? != LISTEN || u16::from_str_radix(port, 16).ok()? != address.port() {
        return None;
    }
    let ip = hexadecimal_ip(ip)?;
    let serves = ip == address.ip()
        || ip.to_canonical() == address.ip().to_canonical()
        || (ip.is_unspecified() && (ip.is_ipv6() || address.is_ipv4()));
    // Behind the state: queues, timer, retransmits, uid, timeout, inode.
    if serves { fields.nth(5)?.parse().ok() } else { None }
}

/// An address as the kernel prints it: words of 32 bits in the host's byte order.
fn hexadecimal_ip(text: &str) -> Option<IpAddr> {
    let word = |at: usize| u32::from_str_radix(text.get(at * 8..at * 8 + 8)?, 16).ok();
    match text.len() {
        8 => Some(IpAddr::V4(Ipv4Addr::from(word(0)?.to_ne_bytes()))),
        32 => {
            let mut bytes = [0; 16];
            for (at, place) in bytes.chunks_exact_mut(4).enumerate() {
                place.copy_from_slice(&word(at)?.to_ne_bytes());
            }
            Some(IpAddr::V6(Ipv6Addr::from(bytes)))
        }
        _ => None,
    }
}

/// The inode of a line of `/proc/net/unix` if it is of a socket that listens at `path`.
fn listens_at(line: &str, path: &Path) -> Option<u64> {
    // Num RefCount Protocol Flags Type St Inode Path; the flag is __SO_ACCEPTCON.
    const ACCEPTS: u64 = 0x1_0000;
    let mut fields = line.split_whitespace();
    let flags = u64::from_str_radix(fields.nth(3)?, 16).ok()?;
    let inode = fields.nth(2)?;
    let written = line.split_once(inode)?.1.trim();
    if flags & ACCEPTS != 0 && Path::new(written) == path { inode.parse().ok() } else { None }
}

/// The processes that hold any of these sockets, each with those it holds.
fn holders(inodes: &BTreeSet<u64>) -> BTreeMap<u32, BTreeSet<u64>> {
    let Ok(processes) = fs::read_dir("/proc") else { return BTreeMap::new() };
    let pids = processes.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.take(PROCESSES_MAX)
        .filter_map(|pid| {
            let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).ok()?;
            let held: BTreeSet<u64> = descriptors
                .flatten()
                .take(DESCRIPTORS_MAX)
                .filter_map(|entry| socket_inode(&fs::read_link(entry.path()).ok()?))
                .filter(|inode| inodes.contains(inode))
                .collect();
            (!held.is_empty()).then_some((pid, held))
        })
        .collect()
}

/// `socket:[12345]`.
fn socket_inode(link: &Path) -> Option<u64> {
    link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

/// A table's lines without its head.
fn lines(table: &str) -> impl Iterator<Item = String> {
    let lines = File::open(table).into_iter().flat_map(|file| BufReader::new(file).lines());
    lines.map_while(Result::ok).skip(1).take(SOCKETS_MAX)
}

#[cfg(test)]
mod tests {
    use std::{net::TcpListener, os::unix::net::UnixListener};

    use super::*;

    #[test]
    fn tables_are_read_as_the_kernel_writes_them() {
        let v4 = "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4242 1 0 100";
        let any = "   1: 00000000:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 77 1 0 100";
        let established =
            "   2: 0100007F:1F90 0100007F:9999 01 00000000:00000000 00:00000000 00000000     0        0 78 1";
        let mapped = "   0: 0000000000000000FFFF00000100007F:1F90 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 79 1";
        let at = |text: &str| text.parse::<SocketAddr>().unwrap();
        if cfg!(target_endian = "little") {
            assert_eq!(listens(v4, at("127.0.0.1:8080")), Some(4242));
            assert_eq!(listens(v4, at("127.0.0.2:8080")), None);
            assert_eq!(listens(mapped, at("127.0.0.1:8080")), Some(79));
        }
        assert_eq!(listens(v4, at("127.0.0.1:8081")), None);
        assert_eq!(listens(any, at("127.0.0.1:8080")), Some(77));
        assert_eq!(listens(established, at("127.0.0.1:8080")), None);
        let unix = "ffff9: 00000002 00000000 00010000 0001 01 31337 /run/a b.sock";
        assert_eq!(listens_at(unix, Path::new("/run/a b.sock")), Some(31337));
        assert_eq!(listens_at(unix, Path::new("/run/other.sock")), None);
        let stat = format!("7 (a) b) S 1 1 1 0 -1 0 0 0 0 0 100 20 {} 5000 9 3 0", "0 ".repeat(6).trim());
        let process = Process::parse(&stat).expect("fields behind the name");
        assert_eq!((process.started, process.cpu_nanos), (5000, 120 * TICK_NANOS));
        for broken in ["", "7 (a", "7 (a) S 1 2", ")", "x ffff 0A"] {
            assert_eq!(Process::parse(broken), None, "{broken}");
            assert_eq!(listens(broken, at("127.0.0.1:80")), None, "{broken}");
            assert_eq!(listens_at(broken, Path::new("/x")), None, "{broken}");
        }
    }

    #[test]
    fn this_process_is_found_behind_its_own_sockets() {
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("server.sock");
        let _unix = UnixListener::bind(&path).unwrap();
        for endpoint in [Endpoint::Tcp(tcp.local_addr().unwrap()), Endpoint::Unix(path)] {
            assert!(is_local(&endpoint));
            let inodes = listening(&endpoint);
            assert_eq!(inodes.len(), 1, "{endpoint}");
            let found = holders(&inodes);
            assert!(found.contains_key(&std::process::id()), "{endpoint}: {found:?}");
        }
        let mut watched = Watched::new(Endpoint::Unix("/".into()));
        watched.join(std::process::id());
        watched.look();
        assert!(watched.memory_bytes > 0 && watched.processes.len() == 1);
    }

    #[test]
    fn a_process_that_listens_no_more_is_counted_no_more() {
        let first = TcpListener::bind("127.0.0.1:0").unwrap();
        let second = TcpListener::bind("127.0.0.1:0").unwrap();
        let key = |server| (ApplicationId(0), ServerId(server));
        let wanted: BTreeMap<_, _> = [(0, &first), (1, &second)]
            .map(|(server, socket)| (key(server), Endpoint::Tcp(socket.local_addr().unwrap())))
            .into();
        let mut processes = Processes::default();
        let mut look = |after| {
            processes.look(Timestamp::EPOCH + after, wanted.clone());
            [0, 1].map(|server| processes.memory_bytes(key(server).0, key(server).1).is_some())
        };
        assert_eq!(look(Duration::ZERO), [true, true]);
        drop(first);
        assert_eq!(look(SEARCH_AGAIN), [false, true]);
        drop(second);
        assert_eq!(look(SEARCH_AGAIN * 2), [false, false]);
    }

    #[test]
    fn an_address_of_another_host_is_not_looked_for() {
        // A network for documentation (RFC 5737), which is nobody's own.
        assert!(!is_local(&Endpoint::Tcp("192.0.2.1:80".parse().unwrap())));
    }

    /// Whatever a process calls itself, its figures are those behind its name.
    #[test]
    fn any_name_leaves_the_figures() {
        bolero::check!().with_type::<(String, [u32; 20])>().for_each(|(name, fields)| {
            let fields: Vec<String> = fields.iter().map(u32::to_string).collect();
            let line = |name: &str| format!("7 ({name}) S {}", fields.join(" "));
            assert_eq!(Process::parse(&line(name)), Process::parse(&line("java")));
            assert!(Process::parse(&line("java")).is_some());
            let _ = Process::parse(name);
        });
    }
}
