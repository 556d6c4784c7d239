//! No file may be opened any more: it is nobody's fault but the gateway's, and is over when it is over.

use std::time::{Duration, Instant};

use crate::{
    Front,
    support::{Start, admin::api, client::Client, origin::Origin},
};

const OPEN_FILES: usize = 128;
/// Several intervals of the probes.
const LASTS: Duration = Duration::from_millis(500);

#[test]
fn want_of_open_files_counts_against_no_server() {
    let origin = Origin::hello();
    // Each request needs a connection of its own, and each probe.
    let knobs = "upstream.keep_alive = \"never\"\nretries.max = 0\nhealth.failures.max = 1\nhealth.failures.pause = \"60s\"\n\
                 health.probe.interval = \"50ms\"\nhealth.probe.fall = 1\nhealth.probe.rise = 100";
    let start = Start { open_files: Some(OPEN_FILES), ..Start::default() };
    let front = Front::start_as(&[origin.url()], "", knobs, &start);
    let doubts = front.gateway.log.lines_with("connections.max is 100000");
    assert!(doubts.iter().any(|line| line.contains("no more than 128")), "the start tells: {doubts:?}");

    let mut client = Client::connect(front.listen).expect("connect");
    let mut idle = Vec::new();
    let mut ask = || client.get("/", "accept: application/json\r\n").expect("an answer");
    while ask().status == 200 {
        assert!(idle.len() < OPEN_FILES, "every connection is accepted");
        idle.push(Client::connect(front.listen).expect("connect"));
    }
    // What becomes free meanwhile is theirs.
    idle.extend((0..16).map(|_| Client::connect(front.listen).expect("connect")));
    // Something happens beside the configuration, which is looked at and cannot be read: no change for that.
    std::fs::write(front.gateway.directory.path().join("beside"), "").expect("write a file");
    let (since, mut failed) = (Instant::now(), 0);
    while since.elapsed() < LASTS {
        let answer = ask();
        if answer.status != 200 {
            failed += 1;
            assert_eq!(answer.status, 503, "{}", answer.text());
            assert_eq!(answer.header("tidegate-reason"), Some("exhausted"));
        }
    }
    assert!(failed > 10, "only {failed} requests failed");
    drop(idle);

    let answer = api(front.admin, "GET", "/api/v1/applications/app/servers", "");
    let servers: serde_json::Value = serde_json::from_slice(&answer.body).expect("JSON");
    assert_eq!(servers["servers"][0]["condition"], "up", "{servers}");
    assert_eq!(ask().status, 200);
    let said = front.gateway.log.lines_with("connecting to a server failed");
    let workers = std::thread::available_parallelism().expect("a number").get();
    assert!((1..=workers).contains(&said.len()), "once a minute by each worker: {said:?}");
    assert!(said[0].contains("LimitNOFILE"), "{said:?}");
    assert!(front.gateway.log.lines_with("files changed").is_empty());
    drop(client);
    front.gateway.stop_sound();
}

/// Nobody gives a file back by himself: whoever is served is silent in the middle of his request.
#[test]
fn the_end_does_not_wait_for_connections_that_cannot_be_accepted() {
    let origin = Origin::hello();
    let start = Start { open_files: Some(OPEN_FILES), ..Start::default() };
    let host = "head.timeout = \"5min\"\ndrain.timeout = \"1s\"\ndrain.grace = \"0ms\"";
    let mut front = Front::start_as(&[origin.url()], host, "", &start);
    let silent: Vec<Client> = (0..2 * OPEN_FILES)
        .map(|_| {
            let mut client = Client::connect(front.listen).expect("connect");
            client.send(b"GET / HT").expect("to be sent");
            client
        })
        .collect();
    front.gateway.log.await_line("accepting failed", 1);
    front.gateway.signal("TERM");
    assert_eq!(front.gateway.ended(), Some(0));
    front.gateway.log.assert_no_panic();
    drop(silent);
}
