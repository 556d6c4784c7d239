//! Far more load than there is room for: what is refused is counted, and the gateway says that it works.

use std::{collections::BTreeMap, thread, time::Duration};

use crate::{
    Front,
    support::{
        client::{Client, get},
        origin::{ID, Origin, respond},
    },
};

const CLIENTS: usize = 40;
const EACH: usize = 40;

#[test]
fn an_overloaded_gateway_is_ready_and_accounts_for_every_request() {
    let origin = Origin::start(|_, stream| {
        thread::sleep(Duration::from_millis(4));
        respond(stream, 200, b"hello\n")
    });
    let knobs = "in_flight.algorithm = \"fixed\"\nin_flight.limit = 2\n\
                 [application.app.class.default]\nqueue.max = 4\nqueue.wait.max = \"15ms\"";
    let front = Front::start(&[origin.url()], "", knobs);
    let listen = front.listen;
    let clients: Vec<_> = (0..CLIENTS)
        .map(|client| {
            thread::spawn(move || {
                let mut statuses = BTreeMap::new();
                let mut connection = Client::connect(listen).expect("connect");
                for number in 0..EACH {
                    let header = format!("{ID}: {client}-{number}\r\naccept: application/json\r\n");
                    let answer = connection.get("/", &header).expect("an answer, served or refused");
                    if answer.status != 200 {
                        assert_eq!(answer.status, 503, "{}", answer.text());
                        assert!(answer.header("retry-after").is_some(), "when to come back");
                        assert_eq!(answer.header("content-type"), Some("application/problem+json"));
                        let problem: serde_json::Value = serde_json::from_slice(&answer.body).expect("JSON");
                        assert_eq!(problem["status"], 503);
                    }
                    *statuses.entry(answer.status).or_insert(0_u32) += 1;
                    if answer.closes() {
                        connection = Client::connect(listen).expect("connect");
                    }
                }
                statuses
            })
        })
        .collect();
    while !clients.iter().all(thread::JoinHandle::is_finished) {
        let ready = get(front.admin, "/readyz").expect("an answer");
        assert_eq!(ready.status, 200, "an overloaded gateway works");
    }
    let mut statuses: BTreeMap<u16, u32> = BTreeMap::new();
    for client in clients {
        for (status, times) in client.join().expect("a client") {
            *statuses.entry(status).or_default() += times;
        }
    }
    let sent = f64::from(u32::try_from(CLIENTS * EACH).expect("small"));
    let (served, refused) = (f64::from(statuses[&200]), f64::from(statuses[&503]));
    println!("{sent} requests: {served} served, {refused} refused");
    assert!(refused > 0.0, "there was overload");
    assert!(origin.repeated().is_empty());
    assert!((f64::from(u32::try_from(origin.requests()).expect("small")) - served).abs() < 0.5);
    let metrics = front.finish(CLIENTS * EACH);
    let exactly = |meter: &str, labels: &[(&str, &str)], wanted: f64| {
        let counted = metrics.sum(meter, labels);
        assert!((counted - wanted).abs() < 0.5, "{meter} {labels:?}: {counted}, not {wanted}");
    };
    exactly("class_arrived", &[], sent);
    exactly("class_started", &[], served);
    exactly("class_refused", &[], refused);
    exactly("class_left", &[], 0.0);
    exactly("class_abandoned", &[], 0.0);
    exactly("class_responses", &[("status", "2xx")], served);
    exactly("server_requests", &[], served);
    let by_reason = metrics.sum("class_refused", &[("reason", "queue_full")])
        + metrics.sum("class_refused", &[("reason", "wait_too_long")]);
    assert!((by_reason - refused).abs() < 0.5, "refused for the queue's bounds: {by_reason} of {refused}");
}
