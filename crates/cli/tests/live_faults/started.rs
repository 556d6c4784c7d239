//! What starts the gateway and looks after it: systemd with its sockets and its watchdog, and a container.

use std::{
    fs,
    net::{SocketAddr, TcpListener, TcpStream},
    os::{fd::OwnedFd, unix::net::UnixDatagram},
    process::Command,
    sync::mpsc,
    thread,
    time::Duration,
};

use crate::{
    Front, configuration,
    life::{KNOBS, await_gone, await_that, successor},
    support::{
        Gateway, Start,
        admin::await_rest,
        client::{Client, get},
        free_address, has_containers,
        origin::Origin,
        signal,
        unbroken::unbroken,
    },
};

#[test]
fn a_socket_passed_as_systemd_does_is_served_with_what_waits_in_it() {
    let origin = Origin::hello();
    let socket = TcpListener::bind("127.0.0.1:0").expect("a socket to pass");
    let listen = socket.local_addr().expect("its address");
    // A client that came before the gateway.
    let mut early = Client::connect(listen).expect("connect");
    early.send_get("/", "").expect("send");

    let admin = free_address();
    let text = configuration(listen, admin, &[origin.url()], "", "");
    let start = Start { activation: Some(("web", socket)), ..Start::default() };
    let gateway = Gateway::run(&text, &start);
    assert_eq!(early.response().expect("an answer").status, 200);
    assert_eq!(get(listen, "/").expect("an answer").status, 200);
    drop(early);
    await_rest(admin);
    gateway.stop_sound();
    // The socket is the one passed: while it is held here, clients are not refused.
    drop(Client::connect(listen).expect("the socket is still open here"));
    drop(start);
}

/// As with `ListenStream=80`, which is all addresses, before a listener at one of them.
#[test]
fn a_socket_of_systemds_elsewhere_than_configured_goes_on_to_the_new_binary_by_its_name() {
    let origin = Origin::hello();
    let socket = TcpListener::bind("127.0.0.1:0").expect("a socket to pass");
    let listen = socket.local_addr().expect("its address");
    // Nobody else could open it: what a process is not passed, it cannot have.
    let taken = TcpListener::bind("127.0.0.1:0").expect("an address");
    let configured = taken.local_addr().expect("its address");
    let text = configuration(configured, free_address(), &[origin.url()], "", "");
    let start = Start { activation: Some(("web", socket)), ..Start::default() };
    let mut gateway = Gateway::run(&text, &start);
    assert_eq!(get(listen, "/").expect("an answer").status, 200);
    // Also from one that was passed it by a process before.
    let mut old = gateway.pid();
    for times in 2..=3 {
        signal(old, "USR2");
        gateway.log.await_line("the new process accepts connections", times - 1);
        match times {
            2 => assert_eq!(gateway.ended(), Some(0)),
            _ => await_gone(old),
        }
        old = successor(gateway.directory.path(), old);
        assert_eq!(get(listen, "/").expect("an answer").status, 200);
    }
    signal(old, "TERM");
    await_gone(old);
    gateway.log.assert_no_panic();
}

/// A name that is none of a listener's leaves two for one address.
#[test]
fn a_socket_of_systemds_that_no_listener_takes_is_named_where_it_is_in_the_way() {
    let directory = tempfile::tempdir().expect("a directory for the test");
    let socket = TcpListener::bind("0.0.0.0:0").expect("a socket to pass");
    let port = socket.local_addr().expect("its address").port();
    let configured = SocketAddr::from(([127, 0, 0, 1], port));
    let text = configuration(configured, free_address(), &["http://127.0.0.1:1".to_owned()], "", "");
    let start = Start { activation: Some(("http", socket)), ..Start::default() };
    let (code, said) = Gateway::run_to_its_end(directory.path(), &text, &start);
    assert_eq!(code, Some(1), "{said}");
    assert!(
        said.contains("no listener takes this socket of systemd's") && said.contains("name=\"http\""),
        "{said}"
    );
}

#[test]
fn a_socket_that_does_not_listen_is_said_and_one_of_its_own_is_opened() {
    let origin = Origin::hello();
    let elsewhere = TcpListener::bind("127.0.0.1:0").expect("a socket");
    let connected = TcpStream::connect(elsewhere.local_addr().expect("its address")).expect("connect");
    let (listen, admin) = (free_address(), free_address());
    let text = configuration(listen, admin, &[origin.url()], "", "");
    let passed = TcpListener::from(OwnedFd::from(connected));
    let start = Start { activation: Some(("web", passed)), ..Start::default() };
    let gateway = Gateway::run(&text, &start);
    gateway.log.await_line("systemd passed something that is no listening stream socket", 1);
    assert_eq!(get(listen, "/").expect("an answer").status, 200);
    await_rest(admin);
    gateway.stop_sound();
}

#[test]
fn systemds_watchdog_hears_from_whoever_serves() {
    let origin = Origin::hello();
    let directory = tempfile::tempdir().expect("a directory for the test");
    let path = directory.path().join("notify");
    let systemd = UnixDatagram::bind(&path).expect("a socket");
    systemd.set_read_timeout(Some(Duration::from_secs(30))).expect("a patience");
    // Read as it comes: few messages wait in such a socket, and who sends more waits as well.
    let (heard, told) = mpsc::channel();
    thread::spawn(move || {
        let mut message = [0; 256];
        while let Ok(length) = unbroken(|| systemd.recv(&mut message))
            && heard.send(String::from_utf8_lossy(&message[..length]).into_owned()).is_ok()
        {}
    });
    let hear = |wanted: &str| {
        while !told.recv_timeout(Duration::from_secs(30)).expect(wanted).contains(wanted) {}
    };
    let (listen, admin) = (TcpListener::bind("127.0.0.1:0").expect("a socket"), free_address());
    let text = configuration(listen.local_addr().expect("its address"), admin, &[origin.url()], "", "");
    let environment = [("NOTIFY_SOCKET", path.to_str().expect("UTF-8")), ("WATCHDOG_USEC", "100000")];
    let start = Start { activation: Some(("web", listen)), environment: &environment, ..Start::default() };
    let mut gateway = Gateway::run(&text, &start);
    hear("READY=1");
    hear("WATCHDOG=1");
    hear("WATCHDOG=1");
    let old = gateway.pid();
    gateway.signal("USR2");
    assert_eq!(gateway.ended(), Some(0));
    let new = successor(gateway.directory.path(), old);
    // What the old one has said is over; the new one goes on.
    hear(&format!("MAINPID={new}"));
    while told.try_recv().is_ok() {}
    hear("WATCHDOG=1");
    signal(new, "TERM");
    hear("STOPPING=1");
    await_gone(new);
    gateway.log.assert_no_panic();
}

#[test]
fn the_first_process_of_a_container_takes_notice_of_those_left_to_it_and_is_not_replaced() {
    if !has_containers() {
        eprintln!("no process may have process numbers of its own here: not tested");
        return;
    }
    let origin = Origin::hello();
    let directory = tempfile::tempdir().expect("a directory for the test");
    let pipe = directory.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("make a pipe").success());
    let start = Start { first_beside: Some(&pipe), ..Start::default() };
    let mut front = Front::start_as(&[origin.url()], "", KNOBS, &start);
    let children = |pid: u32| {
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).expect("its children");
        children.split_whitespace().map(|pid| pid.parse().expect("a number")).collect::<Vec<u32>>()
    };
    let first = children(front.gateway.pid())[0];
    assert_eq!(children(first).len(), 1);
    fs::write(&pipe, "").expect("let it end");
    await_that("nothing is left of it", || children(first).is_empty());

    signal(first, "USR2");
    front.gateway.log.await_line("a container ends with its first process", 1);
    assert_eq!(get(front.listen, "/").expect("an answer").status, 200);
    signal(first, "TERM");
    assert_eq!(front.gateway.ended(), Some(0));
    front.gateway.log.assert_no_panic();
}
