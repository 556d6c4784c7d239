//! A waiting room in two processes: who is led to the one that checks, and whom that leads back to who gives times.

use std::{thread, time::Duration};

use serde_json::Value as Json;
use tidegate_control::knobs::Knob;

use crate::{
    support::{Bed, PLAIN, eventually, exchange, get},
    waiting_room::set,
};

/// The servers of a generator are the check, which sends whom it does not know here: nobody is sent to and fro for ever.
#[test]
fn a_generator_that_is_off_or_watches_sends_everybody_to_the_check_with_a_time() {
    let application = "waiting_room.method = \"fifo\"\nwaiting_room.role = \"generate\"\ncapacity.floor = \"1/s\"\n\
                       waiting_room.check_url = \"http://check.example\"\n";
    for (knob, choice) in [(Knob::ROOM_METHOD, "off"), (Knob::MODE, "off"), (Knob::MODE, "watch")] {
        let bed = Bed::with_application("", PLAIN, application);
        let mut client = bed.connect();
        let held = (0..50).map(|_| get(&mut client, "/")).last().unwrap();
        let held: Json = serde_json::from_str(&held.body).unwrap();
        assert!(held["left_ms"].as_u64().unwrap() > 10_000, "{held}");
        set(&bed.shared, knob, choice);
        let before = format!("/a?tidegate_turn={}", held["token"].as_str().unwrap());
        for (path, most_ms) in [("/a", 0), (before.as_str(), 1_000)] {
            let told = get(&mut client, path);
            assert_eq!((told.status, told.field("tidegate-reason")), (503, Some("waiting_room")), "{choice}");
            let said: Json = serde_json::from_str(&told.body).unwrap();
            let token = said["token"].as_str().unwrap();
            assert_eq!(said["to"], format!("http://check.example:80/a?tidegate_turn={token}"), "{choice}");
            assert!(said["left_ms"].as_u64().unwrap() <= most_ms, "{choice}: {said}");
        }
        assert_eq!(get(&mut client, "/a.css").status, 200, "what needs no time goes on");
    }
}

/// Under one host name a cookie leads to the check: whom that does not let in a parameter leads to who gives times, once.
#[test]
fn a_check_under_the_host_name_of_the_generator_leads_whom_it_does_not_know_there() {
    let of_role = |role: &str| format!("waiting_room.method = \"event\"\nwaiting_room.role = \"{role}\"\n");
    let (check, generator) =
        ["check", "generate"].map(|role| Bed::with_application("", PLAIN, &of_role(role))).into();
    let (mut at_check, mut at_generator) = (check.connect(), generator.connect());
    let asking = |path: &str, cookie: &str| {
        format!("GET {path} HTTP/1.1\r\nhost: app.example\r\naccept: text/html\r\ncookie: {cookie}\r\n\r\n")
    };
    for (path, cookie, to) in [
        ("/a?x=1", "a=b; tidegate_turn=C", Some("/a?x=1&tidegate_turn=")),
        ("/a", "tidegate_pass=P", Some("/a?tidegate_turn=")),
        ("//a", "tidegate_turn_search~01234567=C", Some("/.//a?tidegate_turn=")),
        // Nobody is sent to and fro.
        ("/a?tidegate_turn=", "tidegate_pass=P", None),
        ("/a?x=1", "a=b", None),
    ] {
        let answer = exchange(&mut at_check, &asking(path, cookie));
        assert_eq!(answer.field("location"), to, "{path} {cookie}");
        let met = (answer.status, answer.field("tidegate-reason"));
        assert_eq!(
            met,
            if to.is_some() { (307, Some("waiting_room_elsewhere")) } else { (503, Some("room_closed")) }
        );
        let Some(to) = to else { continue };
        let told = exchange(&mut at_generator, &asking(to, cookie));
        assert_eq!((told.status, told.field("tidegate-reason")), (503, Some("waiting_room")), "{to}");
        let way_on = told.field("refresh").and_then(|refresh| refresh.split_once("url="));
        assert!(way_on.is_some_and(|(_, to)| !to.contains("tidegate")), "by his cookie: {}", told.head);
    }
}

#[test]
fn a_room_that_becomes_a_check_keeps_the_times_and_passes_that_it_gave_itself() {
    let application = "waiting_room.method = \"fifo\"\ncapacity.given = \"5/s\"\n";
    let bed = Bed::with_application("", PLAIN, application);
    let mut client = bed.connect();
    let mut ask = |cookie: &str| {
        let head = "GET / HTTP/1.1\r\nhost: app.example\r\naccept: application/json";
        exchange(&mut client, &format!("{head}\r\ncookie: {cookie}\r\n\r\n"))
    };
    let (mut pass, mut token) = (None, None);
    eventually("somebody waits", || {
        let answer = ask("a=b");
        pass = pass.take().or(answer.field("tidegate-pass").map(str::to_owned));
        token = answer.field("tidegate-turn").map(str::to_owned);
        token.is_some()
    });
    let (pass, token) = (pass.expect("a pass"), token.unwrap());
    let turn = format!("tidegate_turn={token}");

    set(&bed.shared, Knob::ROOM_ROLE, "check");
    assert_eq!(ask(&format!("tidegate_pass={pass}")).status, 200, "a visit goes on");
    let mut answer = ask(&turn);
    while answer.status == 503 {
        assert_eq!(answer.field("tidegate-reason"), Some("waiting_room"), "early: {}", answer.head);
        let wait = answer.field("retry-after-ms").expect("a time").parse().unwrap();
        thread::sleep(Duration::from_millis(wait));
        answer = ask(&turn);
    }
    assert_eq!(answer.status, 200, "{}", answer.head);
    let pass = answer.field("tidegate-pass").expect("a pass");
    assert_eq!(ask(&format!("tidegate_pass={pass}")).status, 200, "signed here: no other keys are known");
    // Whom it has never seen it does not let in.
    assert_eq!(ask("a=b").field("tidegate-reason"), Some("room_closed"));
}
