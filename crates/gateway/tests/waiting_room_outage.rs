//! A waiting room before a server that cannot be reached: who was let in comes again, and nothing counts that was not done.

use std::{
    io::{BufRead, BufReader, Write},
    os::unix::net::UnixListener,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use serde_json::Value as Json;
use tidegate_control::{
    Timestamp,
    knobs::{Knob, Value},
    meters::Meter,
    waiting_room::{Room, RoomCount},
};

use crate::{
    request_house::House,
    support::{Response, eventually, exchange, read_response},
};

/// A gateway, and the Unix socket of a server that is not there yet.
struct Outage {
    house: House,
    socket: PathBuf,
}

impl Outage {
    fn new(application: &str) -> Self {
        let mut socket = PathBuf::new();
        let house = House::with(|directory| {
            socket = directory.join("server.sock");
            let application = format!(
                "servers = [{{ name = \"only\", url = \"unix:{}\", in_flight.max = 1 }}]\n\
                 capacity.given = \"1000/s\"\nin_flight.algorithm = \"fixed\"\nwaiting_room.method = \"fifo\"\n\
                 {application}",
                socket.display()
            );
            (String::new(), crate::support::PLAIN.to_owned(), application)
        });
        let outage = Self { house, socket };
        // Before the room has heard of the capacity nobody concerns it.
        eventually("a room", || outage.room(|room, now| room.standing(now).capacity).is_some());
        outage
    }

    fn room<R>(&self, f: impl FnOnce(&mut Room, Timestamp) -> R) -> R {
        self.house.shared.snapshot().applications[0].state.waiting_room().with(f)
    }

    fn ask(&self, method: &str, fields: &str, body: &str) -> Response {
        let length = body.len();
        exchange(
            &mut self.house.connect(),
            &format!(
                "{method} /buy HTTP/1.1\r\nhost: app.example\r\n{fields}content-length: {length}\r\n\r\n{body}"
            ),
        )
    }

    /// Comes again at the time that is told, with the token, until somebody answers.
    fn come_again(&self, first: Response) -> Response {
        let mut told = first;
        eventually("an answer", || {
            if told.status != 503 {
                return true;
            }
            let (wait, token) = (told.field("retry-after-ms").unwrap(), told.field("tidegate-turn").unwrap());
            thread::sleep(Duration::from_millis(wait.parse().unwrap()));
            let token = format!("tidegate-turn: {token}\r\n");
            told = self.ask("GET", &token, "");
            false
        });
        told
    }
}

/// A server that answers every request on its own connection so.
fn serve(socket: &Path, answer: &'static str) {
    let listener = UnixListener::bind(socket).unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let mut reader = BufReader::new(stream);
            let mut line = String::new();
            while reader.read_line(&mut line).is_ok_and(|read| read > 2) {
                line.clear();
            }
            // An error is the end of the connection.
            let _ = reader.get_mut().write_all(answer.as_bytes());
        }
    });
}

const OK: &str = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";

#[test]
fn who_meets_no_server_comes_again_until_there_is_one() {
    let outage = Outage::new("");
    let newcomer = outage.ask("GET", "", "");
    assert_eq!((newcomer.status, newcomer.field("tidegate-reason")), (503, Some("waiting_room")));
    assert_eq!(newcomer.field("tidegate-pass"), None, "he is not in: {}", newcomer.head);
    let token = newcomer.field("tidegate-turn").unwrap().to_owned();
    let wait = newcomer.field("retry-after-ms").unwrap().parse().unwrap();
    thread::sleep(Duration::from_millis(wait));
    let again = outage.ask("GET", &format!("tidegate-turn: {token}\r\n"), "");
    assert_eq!((again.status, again.field("tidegate-reason")), (503, Some("waiting_room")));
    assert_ne!(again.field("tidegate-turn"), Some(&*token), "a new time");
    serve(&outage.socket, OK);
    let served = outage.come_again(again);
    assert_eq!(served.status, 200, "{}", served.head);
    assert!(served.field("tidegate-pass").is_some(), "{}", served.head);
    let readings = outage.house.finish();
    let counted = readings.counts(Meter::ROOM);
    let of = |what: RoomCount| counted[what as usize];
    assert!(of(RoomCount::Missed) >= 1, "{counted:?}");
    // The promise that he was served by; the others were missed.
    assert_eq!(of(RoomCount::Kept), 1, "{counted:?}");
}

/// What passes ask of a server that is not there costs nobody a place.
#[test]
fn who_has_a_pass_and_meets_no_server_comes_again_in_a_moment() {
    let outage = Outage::new("");
    serve(&outage.socket, OK);
    let first = outage.ask("GET", "", "");
    let pass = format!("tidegate-pass: {}\r\n", first.field("tidegate-pass").expect("a pass"));
    std::fs::remove_file(&outage.socket).unwrap();
    for _ in 0..100 {
        let told = outage.ask("GET", &pass, "");
        assert_eq!((told.status, told.field("tidegate-reason")), (503, Some("waiting_room")));
        let said: Json = serde_json::from_str(&told.body).unwrap();
        assert!(said["left_ms"].as_u64().unwrap() < 10_000, "{}", told.body);
    }
    let per_s = outage.room(|room, now| {
        let end = now + Duration::from_secs(5);
        room.advance(end);
        room.standing(end).sessions_per_s
    });
    assert!(per_s < 0.1, "{per_s}");
    serve(&outage.socket, OK);
    assert_eq!(outage.ask("GET", &pass, "").status, 200);
}

#[test]
fn a_form_that_met_no_server_is_offered_again() {
    let outage = Outage::new("");
    let browser = "accept: text/html\r\norigin: http://app.example\r\nsec-fetch-site: same-origin\r\n\
                   content-type: application/x-www-form-urlencoded\r\n";
    let told = outage.ask("POST", browser, "name=Ada");
    assert_eq!(told.status, 503, "{}", told.head);
    for said in ["method=\"post\" action=\"/buy\"", "value=\"Ada\""] {
        assert!(told.body.contains(said), "{}", told.body);
    }
    let _ = outage.house.finish();
}

/// A server that breaks off may have done its work: he is in, and decides himself.
#[test]
fn who_is_let_in_and_gets_half_an_answer_has_his_pass() {
    let outage = Outage::new("");
    serve(&outage.socket, "HTTP/1.1 200");
    let answer = outage.ask("POST", "", "a");
    assert_eq!(answer.status, 502, "{}", answer.head);
    let kept = answer.field("cache-control").unwrap_or_default();
    assert!(kept.starts_with("private"), "{}", answer.head);
    let pass = answer.field("tidegate-pass").unwrap();
    let close = |settings: &mut tidegate_config::Settings| {
        settings.applications[0].values.set(Knob::ROOM_METHOD, Value::Choice("closed")).unwrap();
    };
    outage.house.shared.edit(close).unwrap();
    let again = outage.ask("POST", &format!("tidegate-pass: {pass}\r\n"), "a");
    assert_eq!(again.status, 502, "he is in: {}", again.head);
    assert_eq!(
        outage.ask("POST", "", "a").field("tidegate-reason"),
        Some("room_closed"),
        "and nobody else is"
    );
}

/// A full server has no work of who waits for room there.
#[test]
fn who_waits_in_vain_for_room_at_a_server_comes_again() {
    let outage = Outage::new("");
    let server = UnixListener::bind(&outage.socket).unwrap();
    let mut first = outage.house.connect();
    first.write_all(b"GET / HTTP/1.1\r\nhost: app.example\r\n\r\n").unwrap();
    let (mut at_server, _) = server.accept().unwrap();
    let told = outage.ask("GET", "", "");
    assert_eq!((told.status, told.field("tidegate-reason")), (503, Some("waiting_room")), "{}", told.head);
    at_server.write_all(OK.as_bytes()).unwrap();
    assert_eq!(read_response(&mut first).unwrap().status, 200);
    drop((first, at_server, server));
    let _ = outage.house.finish();
}

/// Whom the room does not concern learns that there is no server.
#[test]
fn who_passes_the_room_by_and_meets_no_server_is_told_so() {
    for lines in [
        "[application.app.class.default]\nwaiting_room.queues = false\n",
        "mode = \"watch\"\n",
        "waiting_room.assets = [\"/buy\"]\n",
    ] {
        let outage = Outage::new(lines);
        let answer = outage.ask("GET", "", "");
        assert_eq!((answer.status, answer.field("tidegate-reason")), (502, Some("connect")), "{lines}");
    }
}
