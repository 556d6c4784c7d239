//! Ten thousand changes of knobs a minute, under load.

use std::time::{Duration, Instant};

use serde_json::Value as Json;

use crate::{
    Front,
    support::{
        admin::await_rest_after,
        client::{Client, get},
        load::{Connections, Load},
    },
};

/// Changes a second that make ten thousand a minute.
const PER_SECOND: u32 = 167;
const CHANGES: u32 = 5 * PER_SECOND;

/// Rules that a change must not compile anew.
fn rules() -> String {
    (0..200)
        .map(|n| {
            format!(
                "[[application.app.rule]]\npath_regex = \"/item/[0-9]+/part-{n}/.*\"\npriority = {}\n",
                n % 8
            )
        })
        .collect()
}

#[test]
fn ten_thousand_changes_a_minute_lose_no_request_and_are_read_whole() {
    // A limit that never has anybody wait, however slow this machine is.
    let end =
        format!("in_flight.algorithm = \"fixed\"\nin_flight.limit = 500\nin_flight.max = 1000\n{}", rules());
    let front = Front::start("", &end, &[]);
    let load = Load::start("changes", front.listen, 3, Connections::Kept, "/");
    load.await_more(20);

    let mut client = Client::connect(front.admin).expect("connect to the admin interface");
    let (began, mut slowest) = (Instant::now(), Duration::ZERO);
    for n in 1..=CHANGES {
        // Two knobs that have to be read together: as min, so the class's queue.
        let (min, limit) = (1 + n % 50, 100 + n % 50);
        let body = format!(
            "{{\"changes\": {{\"app/in_flight.min\": {min}, \"app/in_flight.limit\": {limit}}}, \"why\": \"{n}\"}}"
        );
        let sent = Instant::now();
        let request = format!(
            "PATCH /api/v1/knobs HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            front.admin,
            body.len()
        );
        client.send(request.as_bytes()).expect("send a change");
        let answer = client.response().expect("an answer");
        assert_eq!(answer.status, 200, "{}", answer.text());
        slowest = slowest.max(sent.elapsed());
        if n % 10 == 0 {
            let whole = client.get("/api/v1/knobs?path=app/in_flight.min", "").expect("read a knob");
            let whole: Json = serde_json::from_str(&whole.text()).expect("JSON");
            assert_eq!(whole["knobs"][0]["value"], min.to_string(), "in force when it is answered");
            let both = front.ask("/api/v1/knobs?path=app&changed=true");
            let value = |path: &str| {
                let all = both["knobs"].as_array().into_iter().flatten();
                let knob = all.into_iter().find(|knob| knob["path"] == path).expect("it was changed");
                knob["value"].as_str().and_then(|value| value.parse::<u32>().ok()).expect("a number")
            };
            assert_eq!(value("app/in_flight.min") + 99, value("app/in_flight.limit"), "no torn read");
        }
        // The pace of ten thousand a minute; a machine that cannot keep it goes on as fast as it can.
        let due = began + Duration::from_secs(1) * n / PER_SECOND;
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
    }
    let took = began.elapsed();
    load.await_more(20);
    let tally = load.stop();
    println!(
        "{CHANGES} changes in {:.1} s ({:.0} a minute), the slowest answered after {:.1} ms; {} requests meanwhile",
        took.as_secs_f64(),
        f64::from(CHANGES) / took.as_secs_f64() * 60.0,
        slowest.as_secs_f64() * 1e3,
        tally.answered.len()
    );
    assert!(tally.failed.is_empty() && tally.unanswered.is_empty(), "{tally:?}");
    assert_eq!(tally.refused, 0);
    let metrics = await_rest_after(front.admin, tally.answered.len());
    #[expect(clippy::cast_precision_loss, reason = "a small count")]
    let answered = tally.answered.len() as f64;
    assert_eq!(metrics.sum("class_responses", &[("status", "2xx")]), answered, "each answered once");
    let record = get(front.admin, "/api/v1/knobs/changes?limit=1").expect("the record");
    let record: Json = serde_json::from_str(&record.text()).expect("JSON");
    assert_eq!(record["changes"][0]["why"], CHANGES.to_string(), "recorded in order");
    assert_eq!(record["changes"][0]["id"], CHANGES);
    front.gateway.stop_sound();
}
