//! Servers added, drained and removed by API and by file, under load.

use std::fs;

use crate::{
    Front,
    support::{
        admin::{Metrics, api},
        load::{Connections, Load},
        origin::Origin,
    },
};

const KNOBS: &str =
    "in_flight.algorithm = \"fixed\"\nin_flight.limit = 64\nretries.max = 0\nbalance = \"round_robin\"";
const SERVERS: &str = "/api/v1/applications/app/servers";

/// Waits until the origin gets requests again.
fn await_traffic(load: &Load, origin: &Origin) {
    let before = origin.requests();
    for _ in 0..50 {
        load.await_more(20);
        if origin.requests() > before {
            return;
        }
    }
    panic!("no request reaches the server");
}

/// Waits until the origin gets no request any more.
fn await_silence(load: &Load, origin: &Origin) {
    for _ in 0..50 {
        let before = origin.requests();
        load.await_more(100);
        if origin.requests() == before {
            return;
        }
    }
    panic!("requests still reach the server");
}

fn call(front: &Front, method: &str, path: &str, body: &str, status: u16) -> serde_json::Value {
    let answer = api(front.admin, method, path, body);
    assert_eq!(answer.status, status, "{method} {path} {body}: {}", answer.text());
    serde_json::from_slice(&answer.body).unwrap_or_else(|error| panic!("{error}: {}", answer.text()))
}

#[test]
fn servers_come_and_go_under_load_without_one_failed_request() {
    let (first, second, third) = (Origin::hello(), Origin::hello(), Origin::hello());
    let front = Front::start(&[first.url()], "", KNOBS);
    let load = Load::start("load", front.listen, 6, Connections::Kept, "/");
    load.await_more(100);

    let body = format!("{{\"url\": \"{}\", \"name\": \"second\"}}", second.url());
    let listed = call(&front, "POST", SERVERS, &body, 200);
    assert_eq!(listed["servers"].as_array().map(Vec::len), Some(2), "{listed}");
    await_traffic(&load, &second);
    call(&front, "POST", SERVERS, &body, 409);

    call(&front, "PATCH", &format!("{SERVERS}/{}", first.address), "{\"drain\": true}", 200);
    await_silence(&load, &first);
    call(&front, "PATCH", &format!("{SERVERS}/{}", first.address), "{\"drain\": false}", 200);
    await_traffic(&load, &first);
    call(&front, "DELETE", &format!("{SERVERS}/{}", first.address), "", 200);
    await_silence(&load, &first);
    call(&front, "DELETE", &format!("{SERVERS}/{}", first.address), "", 404);
    call(&front, "PATCH", &format!("{SERVERS}/second"), "{\"wait\": 1}", 400);

    // The file is what holds after a reload.
    front.rewrite(&[second.url(), third.url()], "", KNOBS);
    front.gateway.log.await_line("new configuration in force", 1);
    await_traffic(&load, &third);
    front.rewrite(&[third.url()], "", KNOBS);
    front.gateway.log.await_line("new configuration in force", 2);
    await_silence(&load, &second);

    let tally = load.stop();
    assert!(tally.failed.is_empty(), "{:#?}", tally.failed);
    assert_eq!(tally.refused + tally.unanswered.len(), 0);
    for id in &tally.answered {
        assert_eq!(first.times(id) + second.times(id) + third.times(id), 1, "{id}: served once");
    }
    front.finish(tally.answered.len());
}

#[test]
fn servers_stay_as_the_api_left_them_when_a_page_is_renewed() {
    let (first, second) = (Origin::hello(), Origin::hello());
    let directory = tempfile::tempdir().expect("a directory for the page");
    let page = directory.path().join("page.html");
    fs::write(&page, "back at six").expect("write the page");
    let front = Front::start(&[first.url()], "", &format!("{KNOBS}\nmaintenance_page = {page:?}"));
    call(&front, "POST", SERVERS, &format!("{{\"url\": \"{}\", \"name\": \"second\"}}", second.url()), 200);
    call(&front, "DELETE", &format!("{SERVERS}/{}", first.address), "", 200);
    fs::write(&page, "back at seven").expect("write the page");
    front.gateway.log.await_line("nothing changed in the configuration", 1);
    let listed = call(&front, "GET", SERVERS, "", 200);
    let names: Vec<_> = listed["servers"].as_array().expect("servers").iter().map(|s| &s["name"]).collect();
    assert_eq!(names, ["second"], "{listed}");
    assert_eq!(crate::support::client::get(front.listen, "/").expect("an answer").status, 200);
    front.finish(1);
}

#[test]
fn without_servers_requests_are_refused_until_one_is_added() {
    let origin = Origin::hello();
    let front = Front::start(&[], "", KNOBS);
    let answer = crate::support::client::get(front.listen, "/").expect("an answer");
    assert_eq!(answer.status, 503, "{}", answer.text());
    call(&front, "POST", SERVERS, &format!("{{\"url\": \"{}\"}}", origin.url()), 200);
    let answer = crate::support::client::get(front.listen, "/").expect("an answer");
    assert_eq!(answer.status, 200, "{}", answer.text());
    let metrics: Metrics = front.finish(2);
    assert!(metrics.sum("class_refused", &[("reason", "no_server")]) >= 1.0);
}

#[test]
fn a_server_is_added_only_by_a_name_that_the_file_would_take() {
    let origin = Origin::hello();
    let front = Front::start(&[origin.url()], "", KNOBS);
    let long = "n".repeat(65);
    for name in ["a/b", "", "x y", "\\\"q", "a{b}", "%41", "é", &long] {
        let body = format!("{{\"url\": \"{}\", \"name\": \"{name}\"}}", origin.url());
        let said = call(&front, "POST", SERVERS, &body, 400).to_string();
        assert!(said.contains("name: ") && said.contains("letters, digits"), "{name}: {said}");
    }
    // So is the name of one for which none is given.
    let said = call(&front, "POST", SERVERS, "{\"url\": \"unix:/run/my server\"}", 400).to_string();
    assert!(said.contains("my server"), "{said}");
    for name in ["four", "[::1]:80", &long[..64]] {
        let body = format!("{{\"url\": \"{}\", \"name\": \"{name}\"}}", origin.url());
        call(&front, "POST", SERVERS, &body, 200);
    }
    front.finish(0);
}
