//! The record of what is done besides changing knobs: capacities told and searched, servers, keys.

use serde_json::{Value as Json, json};

use crate::{
    Front, path,
    stream::Stream,
    support::{admin::api, client::Client, origin::Origin},
    tidegate,
};

const CHANGES: &str = "/api/v1/knobs/changes";
const CAPACITY: &str = "/api/v1/applications/app/capacity";
const SERVERS: &str = "/api/v1/applications/app/servers";
const KEYS: &str = "/api/v1/waiting-rooms/keys";

fn done(front: &Front, method: &str, path: &str, body: &str) -> Json {
    let answer = api(front.admin, method, path, body);
    assert_eq!(answer.status, 200, "{method} {path} {body}: {}", answer.text());
    serde_json::from_str(&answer.text()).expect("JSON")
}

/// What is said of a change: who, why, as what, and the first thing that was changed, from what to what.
fn said(record: &Json) -> [String; 6] {
    let one = &record["changes"][0];
    let text = |value: &Json| value.as_str().unwrap_or("-").to_owned();
    let [who, why] = [&record["who"], &record["why"]].map(text);
    let [what, path, from, to] = [&one["what"], &one["path"], &one["from"], &one["to"]].map(text);
    [who, why, what, path, from, to]
}

#[test]
fn what_is_done_besides_knobs_is_recorded_told_and_not_reverted() {
    let other = Origin::hello();
    let front = Front::start("state_directory = \"state\"", "in_flight.algorithm = \"knee_track\"\n", &[]);
    let mut events = Stream::open(front.admin, "kinds=action,knobs", None);
    let two = format!(
        "{{\"url\": \"{}\", \"name\": \"two\", \"who\": \"ada\", \"why\": \"the sale\"}}",
        other.url()
    );
    let address = other.address.to_string();
    let acts: [(&str, String, &str, &str, [&str; 6]); 7] = [
        (
            "POST",
            CAPACITY.to_owned(),
            r#"{"per_s": "120/s", "valid_for": "30s", "who": "estimator", "why": "measured"}"#,
            "action",
            ["estimator", "measured", "capacity", "app/capacity", "none", "120/s for 30s"],
        ),
        (
            "POST",
            CAPACITY.to_owned(),
            r#"{"per_s": null}"#,
            "action",
            ["api", "", "capacity", "app/capacity", "120/s", "none"],
        ),
        (
            "POST",
            format!("{CAPACITY}/rediscover"),
            r#"{"who": "bob", "why": "a new release"}"#,
            "action",
            ["bob", "a new release", "search", "app/capacity", "none", "searched anew"],
        ),
        (
            "POST",
            SERVERS.to_owned(),
            &two,
            "action",
            ["ada", "the sale", "server", "app/servers/two", "none", &address],
        ),
        (
            "PATCH",
            format!("{SERVERS}/two"),
            r#"{"drain": true, "who": "ada", "why": "to be restarted"}"#,
            "knobs",
            ["ada", "to be restarted", "-", "app/servers/two/drain", "false", "true"],
        ),
        (
            "DELETE",
            format!("{SERVERS}/two?who=ada&why=the+sale+is%20over"),
            "",
            "action",
            ["ada", "the sale is over", "server", "app/servers/two", &address, "none"],
        ),
        (
            "POST",
            KEYS.to_owned(),
            r#"{"why": "yearly"}"#,
            "action",
            ["api", "yearly", "waiting_room_key", "waiting_room.keys", "key 0", "key 1"],
        ),
    ];
    for (method, path, body, kind, wanted) in &acts {
        let answer = done(&front, method, path, body);
        let told = events.next();
        assert_eq!(
            (told.name.as_str(), said(&told.data)),
            (*kind, wanted.map(str::to_owned)),
            "{method} {path}"
        );
        let id = &answer["change"];
        assert_eq!((id, id.is_i64()), (&told.data["id"], true), "{answer}");
        let recorded = &front.ask(&format!("{CHANGES}?limit=1"))["changes"][0];
        assert_eq!((said(recorded), &recorded["id"]), (wanted.map(str::to_owned), id), "{method} {path}");
        assert!(recorded["at"].as_f64().is_some_and(|at| at > 1.7e9), "{recorded}");
        assert_eq!(recorded["revertible"], *kind == "knobs", "{recorded}");
        if *kind == "action" {
            let refused = api(front.admin, "POST", "/api/v1/knobs/revert", &json!({ "id": id }).to_string());
            assert_eq!(refused.status, 409, "{}", refused.text());
            assert!(
                refused.text().contains("/api/v1/") || wanted[2] == "search",
                "what to do: {}",
                refused.text()
            );
        }
    }
    // What was not done is not recorded.
    for (path, body, status) in [
        (CAPACITY, "{\"per_s\": \"fast\"}", 400),
        (SERVERS, "{\"url\": \"nowhere\"}", 400),
        ("/api/v1/applications/none/capacity", "{\"per_s\": \"1/s\"}", 404),
    ] {
        assert_eq!(api(front.admin, "POST", path, body).status, status, "{path}");
    }
    assert_eq!(api(front.admin, "DELETE", &format!("{SERVERS}/two"), "").status, 404);
    assert_eq!(api(front.admin, "PATCH", &format!("{SERVERS}/two"), "{\"drain\": true}").status, 404);
    let record = front.ask(CHANGES);
    assert_eq!(record["changes"].as_array().map(Vec::len), Some(acts.len()), "{record}");

    // Another of that name begins as it is configured, not as the one before it was left.
    done(&front, "POST", SERVERS, &two);
    let server = |answer: &Json| answer["servers"].as_array().expect("servers")[1].clone();
    assert_eq!(server(&front.ask(SERVERS))["draining"], false);
    assert_eq!(front.ask("/api/v1/knobs?path=app/servers/two&changed=true")["knobs"], json!([]));
    // A change of a server's knobs is one of knobs: it can be taken back.
    let drained = done(&front, "PATCH", &format!("{SERVERS}/two"), "{\"drain\": true, \"weight\": 50}");
    assert_eq!((&server(&drained)["draining"], &server(&drained)["weight"]), (&json!(true), &json!(50)));
    done(&front, "POST", "/api/v1/knobs/revert", &json!({ "id": drained["change"] }).to_string());
    assert_eq!(server(&front.ask(SERVERS))["draining"], false);
    let empty = api(front.admin, "PATCH", &format!("{SERVERS}/two"), "{\"why\": \"nothing\"}");
    assert!(empty.status == 400 && empty.text().contains("drain"), "{}", empty.text());

    let admin = front.admin.to_string();
    let (code, told, _) =
        tidegate(&["events", "--all", "--kinds", "action", "--count", "1", "--admin", &admin]);
    assert_eq!(code, Some(0));
    assert!(
        told.contains("action estimator (measured): capacity app/capacity: none -> 120/s for 30s"),
        "{told}"
    );
    front.gateway.stop_sound();
}

#[test]
fn who_it_was_is_what_the_token_says_and_who_may_only_look_does_nothing() {
    const ADA: &str = "ada-0123456789abcdef0123456789abcdef";
    const EVE: &str = "eve-0123456789abcdef0123456789abcdef";
    let tokens = "[[admin_token]]\nname = \"ada\"\nfile = \"ada.token\"\nrole = \"operator\"\n\
                  [[admin_token]]\nname = \"eve\"\nfile = \"eve.token\"\n";
    let front = Front::start(tokens, "", &[("ada.token", ADA), ("eve.token", EVE)]);
    let ask = |token: &str, method: &str, path: &str, body: &str| {
        let mut client = Client::connect(front.admin).expect("connect");
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {token}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
            front.admin,
            body.len()
        );
        client.send(request.as_bytes()).expect("send");
        let answer = client.response().expect("an answer");
        (answer.status, answer.text())
    };
    let (told, rediscover) = ("{\"per_s\": \"9/s\", \"who\": \"deploy\"}", format!("{CAPACITY}/rediscover"));
    for (method, path, body) in [
        ("POST", CAPACITY, told),
        ("POST", &rediscover, "{}"),
        ("POST", KEYS, "{}"),
        ("POST", SERVERS, "{\"url\": \"http://127.0.0.1:1\"}"),
        ("PATCH", &format!("{SERVERS}/x"), "{\"drain\": true}"),
        ("DELETE", &format!("{SERVERS}/x"), ""),
    ] {
        let (status, said) = ask(EVE, method, path, body);
        assert!(status == 403 && said.contains("operator"), "{method} {path}: {said}");
    }
    for looked in
        [CAPACITY, "/api/v1/capacity", "/api/v1/waiting-rooms", "/api/v1/applications/app/waiting-room"]
    {
        assert_eq!(ask(EVE, "GET", looked, "").0, 200, "{looked}");
    }
    assert_eq!(ask(ADA, "POST", CAPACITY, told).0, 200);
    let (_, record) = ask(EVE, "GET", CHANGES, "");
    let record: Json = serde_json::from_str(&record).expect("JSON");
    assert_eq!(said(&record["changes"][0])[0], "ada (deploy)", "{record}");
    let (status, refused) = ask(ADA, "POST", KEYS, "{}");
    assert!(status == 409 && refused.contains("state_directory"), "{refused}");
    assert_eq!(record["changes"].as_array().map(Vec::len), Some(1));
    let token = front.gateway.directory.path().join("eve.token");
    let admin = front.admin.to_string();
    let (code, told, _) = tidegate(&[
        "events",
        "--all",
        "--kinds",
        "action",
        "--count",
        "1",
        "--admin",
        &admin,
        "--token-file",
        path(&token),
    ]);
    assert_eq!(code, Some(0));
    assert!(told.contains("action ada (deploy): capacity app/capacity: none -> 9/s"), "{told}");
    front.gateway.stop_sound();
}

#[test]
fn a_server_that_was_added_goes_back_to_what_it_was_added_with() {
    let other = Origin::hello();
    let front = Front::start("", "", &[]);
    let weight = || front.ask("/api/v1/knobs?path=app/servers/two/weight")["knobs"][0].clone();
    let of =
        |knob: &Json| [&knob["value"], &knob["configured"]].map(|value| value.as_str().map(str::to_owned));
    let both = |value: &str, unchanged: &str| [value, unchanged].map(|text| Some(text.to_owned()));
    let two = json!({ "url": other.url(), "name": "two", "weight": 3 }).to_string();
    done(&front, "POST", SERVERS, &two);
    assert_eq!(of(&weight()), both("3", "3"));
    assert_eq!(weight()["drift"], false);
    done(&front, "PATCH", &format!("{SERVERS}/two"), r#"{"weight": 7}"#);
    assert_eq!(of(&weight()), both("7", "3"));
    done(&front, "PATCH", &format!("{SERVERS}/two"), r#"{"weight": null}"#);
    assert_eq!(of(&weight()), both("3", "3"));
    front.gateway.stop_sound();
}
