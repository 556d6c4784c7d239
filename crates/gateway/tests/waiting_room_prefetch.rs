//! Requests that a browser makes in advance, for pages that its visitor may never look at.

use tidegate_control::knobs::Knob;

use crate::{
    support::{Bed, PLAIN, eventually, exchange},
    waiting_room::set,
};

const IN_ADVANCE: [&str; 5] = [
    "sec-purpose: prefetch",
    "sec-purpose: prefetch;prerender",
    "sec-purpose: prefetch; anonymous-client-ip",
    "Sec-Purpose: prerender",
    "purpose: Prefetch",
];

fn asking(method: &str, fields: &str) -> String {
    format!("{method} / HTTP/1.1\r\nhost: app.example\r\naccept: text/html\r\n{fields}\r\n\r\n")
}

#[test]
fn a_request_in_advance_goes_on_where_there_is_room() {
    let application = "waiting_room.method = \"fifo\"\ncapacity.given = \"1000/s\"\n";
    let bed = Bed::with_application("", PLAIN, application);
    let mut client = bed.connect();
    eventually("the room is told of its capacity", || {
        let answer = exchange(&mut client, &asking("GET", IN_ADVANCE[0]));
        assert_eq!(answer.status, 200, "{}", answer.head);
        answer.field("tidegate-pass").is_some()
    });
}

#[test]
fn a_request_in_advance_takes_no_place_where_its_visitor_would_wait() {
    let application = "waiting_room.method = \"fifo\"\ncapacity.given = \"5/s\"\n";
    let bed = Bed::with_application("", PLAIN, application);
    let mut client = bed.connect();
    let mut pass = None;
    eventually("somebody waits", || {
        let answer = exchange(&mut client, &asking("GET", "purpose: something"));
        pass = pass.take().or(answer.field("tidegate-pass").map(str::to_owned));
        answer.field("tidegate-turn").is_some()
    });
    let with_pass = format!("cookie: tidegate_pass={}", pass.expect("a pass"));
    // Nobody else is let in from now on; who waits comes no more.
    set(&bed.shared, Knob::ROOM_METHOD, "wait");
    let waiting = || bed.shared.snapshot().applications[0].state.waiting_room().standing().waiting;
    let before = waiting();
    for field in IN_ADVANCE {
        let answer = exchange(&mut client, &asking("GET", field));
        let told = (answer.status, answer.field("tidegate-reason"), answer.field("cache-control"));
        assert_eq!(told, (503, Some("prefetch"), Some("no-store")), "{field}");
        assert_eq!(answer.field("content-type"), Some("application/problem+json"), "a short one: {field}");
        for none in ["set-cookie", "tidegate-turn", "refresh"] {
            assert_eq!(answer.field(none), None, "{field}");
        }
        assert!(waiting() <= before, "{field}");
        let answer = exchange(&mut client, &asking("GET", &format!("{field}\r\n{with_pass}")));
        assert_eq!(answer.status, 200, "with a pass: {field}");
    }
    // What changes something is no prefetch.
    let post = exchange(&mut client, &asking("POST", &format!("content-length: 0\r\n{}", IN_ADVANCE[0])));
    assert_eq!(post.field("tidegate-reason"), Some("waiting_room"));
}
