//! The life of a gateway: drain, listeners that come and go, a new binary, clients that leave.

use std::{
    env, fs,
    io::{self, BufRead, BufReader, Read, Write},
    net::{Ipv6Addr, Shutdown, SocketAddr, TcpStream},
    process::{Child, ChildStdin, Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use socket2::{Domain, Socket, Type};
use tidegate_gateway::{Gateway, Inherited};
use tidegate_runtime::Shared;

use crate::{
    frames::{ACK, DATA, END_HEADERS, END_STREAM, Frames, GOAWAY, HEADERS, PING, REQUEST, WINDOW_UPDATE},
    request_house::{House, take},
    request_log,
    support::{Bed, PATIENCE, PLAIN, configuration, connect, eventually, get, origin, read_response, rest},
};

fn block_on<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(PATIENCE, future).await.expect("in time") })
}

#[test]
fn a_drain_serves_what_is_under_way_and_closes_what_is_idle() {
    let bed = Bed::plain("park.after = \"20ms\"\n");
    let (mut parked, mut idle, mut busy) = (bed.connect(), bed.connect(), bed.connect());
    assert_eq!(get(&mut parked, "/").status, 200);
    // And the two that have sent nothing yet.
    eventually("parked", || bed.shared.parked().read() == 3);
    assert_eq!(get(&mut idle, "/").status, 200);
    let held = || bed.shared.snapshot().applications[0].state.gate().held();
    busy.write_all(b"GET /sleep/2000 HTTP/1.1\r\nhost: a\r\n\r\n").unwrap();
    eventually("under way", || held() == 1);
    let address = bed.running.address("http").unwrap();
    let waiting = std::thread::spawn(move || {
        let response = read_response(&mut busy).unwrap();
        (response, rest(&mut busy))
    });
    let drained = block_on(bed.running.drain(false));
    assert_eq!(drained.cut, 0);
    let (response, after) = waiting.join().unwrap();
    assert_eq!((response.status, response.field("connection")), (200, Some("close")));
    assert_eq!(after, b"");
    assert_eq!((rest(&mut parked), rest(&mut idle)), (vec![], vec![]));
    assert!(TcpStream::connect(address).is_err());
    assert_eq!(bed.shared.with_connections(|c, _| c.open() + c.in_preface()), 0);
}

/// A drain leaves connections open that were in use within a second: a trial that took longer says nothing, and is made
/// again.
#[test]
fn a_request_on_its_way_when_a_drain_begins_is_served() {
    eventually("eight requests on their way within a second", requests_on_their_way_are_served);
}

/// Whether it took less than a second.
fn requests_on_their_way_are_served() -> bool {
    const KEPT: Duration = Duration::from_secs(1);
    let began = Instant::now();
    let bed = Bed::plain("park.after = \"20ms\"\n");
    let mut parked: Vec<_> = (0..4).map(|_| bed.connect()).collect();
    for client in &mut parked {
        assert_eq!(get(client, "/").status, 200);
    }
    eventually("parked", || bed.shared.parked().read() == 4);
    let mut in_use: Vec<_> = (0..4).map(|_| bed.connect()).collect();
    for client in &mut in_use {
        assert_eq!(get(client, "/").status, 200);
    }
    let address = bed.running.address("http").unwrap();
    let draining = std::thread::spawn(move || block_on(bed.running.drain(false)).cut);
    eventually("draining", || TcpStream::connect(address).is_err());
    let mut is_in_time = true;
    for client in in_use.iter_mut().chain(&mut parked) {
        // None of them was told that its connection ends.
        let sent = client.write_all(b"GET / HTTP/1.1\r\nhost: app.example\r\n\r\n");
        let answer = sent.and_then(|()| read_response(client));
        is_in_time &= began.elapsed() < KEPT;
        if !is_in_time {
            break;
        }
        let response = answer.expect("a response");
        assert_eq!((response.status, response.field("connection")), (200, Some("close")));
        assert_eq!(rest(client), b"");
    }
    assert_eq!(draining.join().unwrap(), 0);
    is_in_time
}

#[test]
fn a_drain_cuts_what_does_not_end() {
    let bed = Bed::plain("drain.timeout = \"100ms\"\n");
    let mut busy = bed.connect();
    busy.write_all(b"GET /sleep/15000 HTTP/1.1\r\nhost: a\r\n\r\n").unwrap();
    let gate = bed.shared.snapshot().applications[0].state.gate().clone();
    eventually("under way", || gate.held() == 1);
    assert_eq!(block_on(bed.running.drain(false)).cut, 1);
    assert_eq!(rest(&mut busy), b"");
    assert_eq!(gate.held(), 0);
    assert_eq!(bed.shared.with_connections(|c, _| c.open() + c.in_preface()), 0);
}

#[test]
fn a_response_that_a_drain_cuts_does_not_look_whole() {
    let house = House::with(|_| ("drain.timeout = \"50ms\"\n".to_owned(), PLAIN.to_owned(), String::new()));
    let mut client = house.connect();
    // To a client of HTTP/1.0 the end of the connection ends the body.
    client.write_all(b"GET / HTTP/1.0\r\nHost: a\r\n\r\n").unwrap();
    let mut at_server = house.origin.next();
    at_server.send("HTTP/1.1 200 OK\r\n\r\nhalf");
    let mut got = Vec::new();
    while !got.ends_with(b"half") {
        got.extend(take(&mut client, 1));
    }
    assert_eq!(block_on(house.running.drain(false)).cut, 1);
    assert_eq!(client.read(&mut [0]).unwrap_err().kind(), io::ErrorKind::ConnectionReset);
}

/// Clients of HTTP/2 send as they read (WINDOW_UPDATE): to a connection that is closed already, that would destroy what
/// they have not taken yet.
#[test]
fn a_drain_leaves_whole_what_is_on_its_way_over_http2() {
    // In one window, and in what the kernel takes.
    const BODY_BYTES: usize = 60_000;
    let House { running, origin, directory, .. } = request_log::house("", "");
    let log = directory.path().join("access.log");
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    // So that most of the response has not arrived when it has been sent.
    socket.set_recv_buffer_size(4096).unwrap();
    socket.connect(&running.address("http").unwrap().into()).unwrap();
    let client = TcpStream::from(socket);
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut frames = Frames::new(client);
    frames.send(HEADERS, END_STREAM | END_HEADERS, 1, REQUEST).unwrap();
    let mut at_server = origin.next();
    let draining = std::thread::spawn(move || block_on(running.drain(false)).cut);
    let (.., ping) = frames.until(PING);
    frames.send(PING, ACK, 0, &ping).unwrap();
    frames.until(GOAWAY);
    at_server.ok(&"x".repeat(BODY_BYTES));
    eventually("sent", || std::fs::read_to_string(&log).is_ok_and(|lines| lines.contains("\"status\":200")));
    let mut received = 0;
    loop {
        let (_, flags, _, data) = frames.until(DATA);
        received += data.len();
        if flags & END_STREAM != 0 {
            break;
        }
        let taken = u32::try_from(data.len()).unwrap().to_be_bytes();
        frames.send(WINDOW_UPDATE, 0, 0, &taken).unwrap();
    }
    assert_eq!(received, BODY_BYTES);
    drop(frames);
    assert_eq!(draining.join().unwrap(), 0);
}

#[test]
fn listeners_come_and_go_and_connections_stay() {
    let bed = Bed::plain("");
    let first = bed.running.address("http").unwrap();
    let mut client = connect(first);
    assert_eq!(get(&mut client, "/").status, 200);

    bed.publish(&format!("{PLAIN}[[listener]]\nname = \"more\"\naddress = \"127.0.0.1:0\"\n"));
    bed.running.apply().unwrap();
    assert_eq!(bed.running.address("http"), Some(first));
    let more = bed.running.address("more").unwrap();
    assert_eq!(get(&mut connect(more), "/").status, 200);

    bed.publish("[[listener]]\nname = \"more\"\naddress = \"127.0.0.1:0\"\nredirect_to_https = 443\n");
    bed.running.apply().unwrap();
    assert_eq!(bed.running.address("more"), Some(more));
    assert_eq!(get(&mut connect(more), "/").status, 308);
    // Closed, but who was there is still served.
    eventually("closed", || TcpStream::connect(first).is_err());
    assert_eq!(get(&mut client, "/").status, 200);
}

#[test]
fn who_has_come_by_a_listener_is_served_by_its_application_under_another_name() {
    let listener = |application: &str| {
        format!("[[listener]]\nname = \"http\"\naddress = \"127.0.0.1:0\"\n{application}")
    };
    let bed = Bed::new("", &listener("application = \"app\"\n"));
    let publish = |listener: &str| {
        let servers = format!("servers = [\"http://{}\"]", bed.origin);
        let text = format!("admin = \"none\"\n{listener}[application.shop]\n{servers}\n");
        let settings = tidegate_config::parse(&text, bed.directory.path(), "test").unwrap();
        bed.shared.publish(settings).unwrap();
    };
    let mut client = bed.connect();
    assert_eq!(get(&mut client, "/").status, 200);
    publish(&listener("application = \"shop\"\n"));
    // As while another listener cannot be opened.
    assert_eq!(get(&mut client, "/").status, 200);
    assert_eq!(get(&mut bed.connect(), "/").status, 200);
    bed.running.apply().unwrap();
    assert_eq!(get(&mut client, "/").status, 200);
    publish(&listener(""));
    bed.running.apply().unwrap();
    assert_eq!(get(&mut client, "/").status, 200);
    publish(&listener("").replace("http", "other"));
    assert_eq!(get(&mut client, "/").status, 404, "neither is there any more");
}

#[test]
fn an_address_in_use_is_named_and_leaves_everything_as_it_was() {
    let bed = Bed::plain("");
    let other = Bed::plain("");
    let taken = other.running.address("http").unwrap();
    bed.publish(&format!("{PLAIN}[[listener]]\nname = \"more\"\naddress = \"{taken}\"\n"));
    let message = bed.running.apply().unwrap_err().to_string();
    assert!(
        message.contains("more") && message.contains(&taken.to_string()) && message.contains("in use"),
        "{message}"
    );
    assert_eq!(bed.running.listeners().len(), 1);
    assert_eq!(get(&mut bed.connect(), "/").status, 200);
}

#[test]
fn a_unix_socket_is_a_listener_too() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("gate.sock");
    // Left behind by a process that is no more.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let listeners = format!("[[listener]]\naddress = \"unix:{}\"\n", path.display());
    let bed = Bed::new("park.after = \"20ms\"\n", &listeners);
    let mut client = std::os::unix::net::UnixStream::connect(&path).unwrap();
    for n in 0..2 {
        assert_eq!(get(&mut client, &format!("/{n}")).status, 200);
        eventually("parked", || bed.shared.parked().read() == 1);
    }
}

/// One request at a time gets through; the second waits.
const ONE: &str = "in_flight.algorithm = \"fixed\"\nin_flight.limit = 1\n\
     [application.app.class.default]\nqueue.wait.max = \"15s\"\n";

#[test]
fn a_waiting_request_leaves_with_its_client_also_with_bytes_unread() {
    let bed = Bed::with_application("park.after = \"1h\"\n", PLAIN, ONE);
    let gate = bed.shared.snapshot().applications[0].state.gate().clone();
    let queued = || gate.levels().queued.iter().sum::<u64>();
    // On a fresh connection the request is judged before any codec, on the other a codec has it.
    let (fresh, mut warm) = (bed.connect(), bed.connect());
    assert_eq!(get(&mut warm, "/").status, 200);
    let mut busy = bed.connect();
    busy.write_all(b"GET /sleep/4000 HTTP/1.1\r\nhost: a\r\n\r\n").unwrap();
    eventually("under way", || gate.held() == 1);
    for mut client in [fresh, warm] {
        client.write_all(b"GET /never HTTP/1.1\r\nhost: a\r\n\r\n").unwrap();
        eventually("queued", || queued() == 1);
        // Unread: it comes after the request that waits.
        client.write_all(b"GET /never HTTP/1.1\r\nhost: a\r\n\r\n").unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        eventually("left", || queued() == 0);
    }
    assert_eq!(read_response(&mut busy).unwrap().status, 200);
}

/// A process of its own for the tests below: this test binary again, with one test chosen and the
/// configuration in the environment. As a test it does nothing.
#[test]
fn gateway_process() {
    let Some(configuration) = env::var_os("TIDEGATE_TEST_CONFIGURATION") else { return };
    let settings = tidegate_config::load(configuration.as_ref()).unwrap_or_else(|faults| panic!("{faults}"));
    let shared = Shared::new(settings).unwrap();
    let running = Gateway::start(Arc::clone(&shared), Inherited::from_environment()).unwrap();
    println!("\nlistening {} {}", std::process::id(), running.address("http").unwrap());
    let mut line = String::new();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    while io::stdin().read_line(&mut line).is_ok_and(|len| len > 0) {
        match line.trim() {
            "upgrade" => {
                let id = runtime.block_on(running.upgrade(None, PATIENCE)).unwrap();
                println!("\nupgraded {id}");
                let drained = runtime.block_on(running.drain(true));
                println!("\ndrained {}", drained.cut);
                return;
            }
            "memory" => {
                let status = fs::read_to_string("/proc/self/status").unwrap();
                let rss = status.lines().find(|line| line.starts_with("VmRSS")).unwrap().to_owned();
                println!("memory {}", rss.split_whitespace().nth(1).unwrap());
            }
            _ => {}
        }
        line.clear();
    }
}

struct Process {
    child: Child,
    input: ChildStdin,
    output: BufReader<std::process::ChildStdout>,
    address: SocketAddr,
    _directory: tempfile::TempDir,
}

impl Process {
    fn start(host: &str, listeners: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("gateway.toml");
        fs::write(&path, configuration(host, listeners, "", origin())).unwrap();
        // As many descriptors as the system allows; a test cannot raise its own.
        let mut child = Command::new("sh")
            .args(["-c", "ulimit -n $(ulimit -Hn); exec \"$0\" \"$@\""])
            .arg(env::current_exe().unwrap())
            .args(["downstream_life::gateway_process", "--exact", "--nocapture", "--test-threads=1"])
            .env("TIDEGATE_TEST_CONFIGURATION", &path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut process =
            Self { child, input, output, address: ([127, 0, 0, 1], 0).into(), _directory: directory };
        process.address = process.expect("listening").split(' ').nth(1).unwrap().parse().unwrap();
        process
    }

    fn tell(&mut self, command: &str) {
        writeln!(self.input, "{command}").unwrap();
    }

    /// What the process says next after that word.
    fn expect(&mut self, word: &str) -> String {
        self.expect_any(&[word]).1
    }

    /// The next of those words, and what the process says after it.
    fn expect_any(&mut self, words: &[&str]) -> (String, String) {
        let mut all = String::new();
        loop {
            let mut line = String::new();
            assert!(self.output.read_line(&mut line).unwrap() > 0, "no {words:?} in {all}");
            for word in words {
                if let Some(said) = line.trim().strip_prefix(word) {
                    return ((*word).to_owned(), said.trim().to_owned());
                }
            }
            all.push_str(&line);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_new_binary_takes_over_without_a_connection_lost() {
    let mut old = Process::start("park.after = \"20ms\"\n", PLAIN);
    let address = old.address;
    let mut busy = connect(address);
    busy.write_all(b"GET /sleep/700 HTTP/1.1\r\nhost: a\r\n\r\n").unwrap();
    // Clients that come all the time, each with a request.
    let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let coming = {
        let stop = Arc::clone(&stop);
        std::thread::spawn(move || {
            let mut served = 0;
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                assert_eq!(get(&mut connect(address), "/").status, 200);
                served += 1;
            }
            served
        })
    };
    old.tell("upgrade");
    // The successor speaks on the same output.
    let mut said = [old.expect_any(&["listening", "upgraded"]), old.expect_any(&["listening", "upgraded"])];
    said.sort();
    let [(_, listening), (_, successor)] = said;
    assert_eq!(listening, format!("{successor} {address}"));
    assert_eq!(read_response(&mut busy).unwrap().status, 200);
    assert_eq!(old.expect("drained"), "0");
    assert!(old.child.wait().unwrap().success());
    for _ in 0..50 {
        assert_eq!(get(&mut connect(address), "/").status, 200);
    }
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    assert!(coming.join().unwrap() > 0);
    // The successor ends with the line on which it would hear commands.
}

#[test]
fn twenty_thousand_idle_connections() {
    const WANTED: usize = 20_000;
    // The test's own descriptors are bounded as well; it takes as many as it gets, but for some of the tests beside it.
    let limits = fs::read_to_string("/proc/self/limits").unwrap();
    let limit = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    let soft: usize = limit.split_whitespace().nth(3).unwrap().parse().unwrap_or(usize::MAX);
    let count = WANTED.min(soft.saturating_sub(500));
    let mut gateway = Process::start("park.after = \"20ms\"\nkeep_alive.timeout = \"10min\"\n", PLAIN);
    gateway.tell("memory");
    let before: usize = gateway.expect("memory").parse().unwrap();
    let mut clients: Vec<TcpStream> =
        (0..count).map(|_| TcpStream::connect(gateway.address).unwrap()).collect();
    // Some have been served before, and are parked.
    for client in clients.iter_mut().step_by(20) {
        client.set_read_timeout(Some(PATIENCE)).unwrap();
        assert_eq!(get(client, "/").status, 200);
    }
    std::thread::sleep(Duration::from_millis(100));
    gateway.tell("memory");
    let after: usize = gateway.expect("memory").parse().unwrap();
    println!(
        "{count} idle connections: {} KiB more, {} bytes each",
        after.saturating_sub(before),
        after.saturating_sub(before) * 1024 / count.max(1)
    );
    for client in clients.iter_mut().step_by(500) {
        client.set_read_timeout(Some(PATIENCE)).unwrap();
        assert_eq!(get(client, "/again").status, 200);
    }
    drop(clients);
    let mut fresh = connect(gateway.address);
    assert_eq!(get(&mut fresh, "/").status, 200);
    let mut byte = [0; 1];
    fresh.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    assert!(fresh.read(&mut byte).is_err(), "and stays open");
}

#[test]
fn clients_come_by_both_versions_of_ip() {
    let listener =
        |name: &str, address: &str| format!("[[listener]]\nname = \"{name}\"\naddress = \"{address}\"\n");
    let begin = || Bed::new("", &[listener("both", "[::]:0"), listener("six", "[::1]:0")].concat());
    let bed = begin();
    let port = |name: &str| bed.running.address(name).unwrap().port();
    for (address, client) in [
        (SocketAddr::from(([127, 0, 0, 1], port("both"))), "127.0.0.1"),
        (SocketAddr::from((Ipv6Addr::LOCALHOST, port("both"))), "::1"),
        (SocketAddr::from((Ipv6Addr::LOCALHOST, port("six"))), "::1"),
    ] {
        let response = get(&mut connect(address), "/");
        assert_eq!(response.status, 200, "{address}");
        // An IPv4 client of a listener for both is told to servers as what it is.
        let expected = format!("x-forwarded-for: {client}\r\n");
        assert!(response.body.to_ascii_lowercase().contains(&expected), "{address}: {}", response.body);
    }
    // Somebody else may have that port of the other address.
    let is_refused =
        |bed: &Bed| TcpStream::connect(("127.0.0.1", bed.running.address("six").unwrap().port())).is_err();
    let is_refused = is_refused(&bed) || (0..3).any(|_| is_refused(&begin()));
    assert!(is_refused, "a listener for one address is no listener for another");
}
