//! The access log: opened again on a signal, and a disk that is full.

use std::{
    fs, thread,
    time::{Duration, Instant},
};

use crate::{
    Front,
    support::{
        admin::await_metrics,
        client::Client,
        load::{Connections, Load},
        origin::{Latch, Origin, respond},
    },
};

#[test]
fn the_access_log_is_opened_again_and_loses_no_line() {
    let origin = Origin::hello();
    let directory = tempfile::tempdir().expect("a directory for the log");
    let (log, rotated) = (directory.path().join("access.log"), directory.path().join("access.log.1"));
    let host = format!("access_log.target = {log:?}");
    let front = Front::start(&[origin.url()], &host, "");
    let load = Load::start("load", front.listen, 2, Connections::Kept, "/");
    load.await_more(100);
    fs::rename(&log, &rotated).expect("rotate");
    front.gateway.signal("USR1");
    let deadline = Instant::now() + Duration::from_secs(20);
    while !log.exists() {
        assert!(Instant::now() < deadline, "the log is opened again");
        load.await_more(1);
    }
    load.await_more(100);
    let tally = load.stop();
    assert!(tally.failed.is_empty(), "{:?}", tally.failed);
    front.finish(tally.answered.len());

    let lines =
        |path| fs::read_to_string(path).expect("read the log").lines().map(str::to_owned).collect::<Vec<_>>();
    let (before, after) = (lines(&rotated), lines(&log));
    assert!(!before.is_empty() && !after.is_empty(), "{} before, {} after", before.len(), after.len());
    assert_eq!(before.len() + after.len(), tally.answered.len(), "a line for each request");
    for line in before.iter().chain(&after) {
        let entry: serde_json::Value =
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert_eq!(entry["status"], 200, "{line}");
    }
}

#[test]
fn a_gateway_that_drains_opens_its_log_again_and_says_what_it_does_not_do() {
    let latch = Latch::default();
    let held = latch.clone();
    let origin = Origin::start(move |_, stream| {
        held.wait();
        respond(stream, 200, b"hello\n")
    });
    let directory = tempfile::tempdir().expect("a directory for the log");
    let log = directory.path().join("access.log");
    let mut front = Front::start(&[origin.url()], &format!("access_log.target = {log:?}"), "");
    let mut client = Client::connect(front.listen).expect("connect");
    client.send_get("/held", "").expect("send");
    origin.await_requests(1);
    front.gateway.signal("TERM");
    front.gateway.log.await_line("draining", 1);
    fs::rename(&log, directory.path().join("access.log.1")).expect("rotate");
    front.gateway.signal("USR1");
    let deadline = Instant::now() + Duration::from_secs(20);
    while !log.exists() {
        assert!(Instant::now() < deadline, "the log is opened again");
        thread::sleep(Duration::from_millis(5));
    }
    front.gateway.signal("HUP");
    front.gateway.log.await_line("SIGHUP: draining, so nothing is read again", 1);
    front.gateway.signal("USR2");
    front.gateway.log.await_line("SIGUSR2: draining, so no new binary is started", 1);
    latch.open();
    assert_eq!(client.response().expect("an answer").status, 200);
    assert_eq!(front.gateway.ended(), Some(0));
    front.gateway.log.assert_no_panic();
    let logged = fs::read_to_string(&log).expect("read the log");
    assert!(logged.contains("/held"), "{logged}");
}

#[test]
fn a_full_disk_costs_log_lines_and_nothing_else() {
    let origin = Origin::hello();
    let front = Front::start(&[origin.url()], "access_log.target = \"/dev/full\"", "");
    let mut client = Client::connect(front.listen).expect("connect");
    for _ in 0..500 {
        assert_eq!(client.get("/", "").expect("an answer").status, 200);
    }
    drop(client);
    await_metrics(front.admin, "lines that could not be written are counted", |metrics| {
        metrics.sum("events_lost", &[]) >= 500.0
    });
    front.gateway.log.await_line("/dev/full", 1);
    let said = front.gateway.log.lines_with("/dev/full");
    assert!(said.len() < 50, "and does not say it for each line: {}", said.len());
    front.finish(500);
}
