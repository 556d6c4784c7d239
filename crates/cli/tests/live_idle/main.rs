//! 20,000 idle connections: memory for each, and every one still served.
//!
//! Where the limit on open files does not allow so many, as many as it does; the report says how many.

#[path = "../support/mod.rs"]
mod support;

use std::net::{IpAddr, Ipv4Addr};

use rustix::process::{Resource, getrlimit, setrlimit};
use support::{
    Gateway, Start,
    admin::{await_metrics, await_rest},
    client::{Client, get},
    free_address,
    origin::Origin,
    report_file,
};

const CONNECTIONS: u64 = 20_000;
/// Descriptors that test and gateway need besides.
const SPARE: u64 = 300;
/// Bytes of resident memory for each; the stated figure is measured by `make bench` on the release build.
const BYTES_MAX: u64 = 16 * 1024;

#[test]
fn idle_connections_are_cheap_and_stay_served() {
    let connections = CONNECTIONS.min(raise_open_files().saturating_sub(SPARE));
    let origin = Origin::hello();
    let (listen, admin) = (free_address(), free_address());
    let configuration = format!(
        "admin = \"{admin}\"\nkeep_alive.timeout = \"10min\"\n[[listener]]\naddress = \"{listen}\"\n\
         [application.app]\nservers = [\"{}\"]\n",
        origin.url()
    );
    // The gateway inherits the limit.
    let gateway = Gateway::run(&configuration, &Start::default());
    assert_eq!(get(listen, "/").expect("an answer").status, 200);
    let before = gateway.resident_bytes();

    let mut clients = Vec::new();
    for number in 0..connections {
        // Several source addresses, so that no range of ports runs out.
        let last = u8::try_from(number / 5_000).expect("a few addresses") + 2;
        let source = IpAddr::V4(Ipv4Addr::new(127, 0, 0, last));
        let mut client = Client::connect_from(source, listen)
            .unwrap_or_else(|error| panic!("connection {number} of {connections}: {error}"));
        // Half have been served, half have said nothing yet.
        if number % 2 == 0 {
            assert_eq!(client.get("/", "").expect("an answer").status, 200, "connection {number}");
        }
        clients.push(client);
    }
    await_metrics(admin, "those that have been served are parked", |metrics| {
        metrics.sum("connections_parked", &[]) >= as_f64(connections / 2)
    });
    let each = gateway.resident_bytes().saturating_sub(before) / connections;
    let report = format!("{connections} idle connections, {each} bytes of resident memory each\n");
    print!("{report}");
    std::fs::write(report_file("idle.txt"), report).expect("write the report");
    assert!(each < BYTES_MAX, "{each} bytes for each idle connection");

    for client in clients.iter_mut().step_by(37) {
        assert_eq!(client.get("/", "").expect("an answer").status, 200, "an idle connection is served");
    }
    drop(clients);
    await_rest(admin);
    gateway.stop_sound();
}

/// Raises the limit on open files as far as it goes, for this process and those it starts.
fn raise_open_files() -> u64 {
    let mut limit = getrlimit(Resource::Nofile);
    let most = limit.maximum.unwrap_or(u64::MAX).min(CONNECTIONS + SPARE);
    if limit.current.is_some_and(|current| current < most) {
        limit.current = Some(most);
        setrlimit(Resource::Nofile, limit).expect("raise the limit on open files");
    }
    // The hard limit too, where that is allowed.
    if most < CONNECTIONS + SPARE {
        let mut more = limit;
        (more.current, more.maximum) = (Some(CONNECTIONS + SPARE), Some(CONNECTIONS + SPARE));
        if setrlimit(Resource::Nofile, more).is_ok() {
            return CONNECTIONS + SPARE;
        }
    }
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

#[expect(clippy::cast_precision_loss, reason = "small counts compared with readings in floating point")]
fn as_f64(n: u64) -> f64 {
    n as f64
}
