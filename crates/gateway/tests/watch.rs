//! Mode `watch`, of an application and of single controls: what watches refuses nobody, and whom it would have is
//! counted and logged.

use std::{io::Write, net::TcpStream};

use tidegate_control::{ApplicationId, ClassId, Refusal, meters::Meter};
use tidegate_runtime::{Readings, Subject};

use crate::{
    request_house::{House, take},
    request_log::{house, lines, member},
    support::{Bed, PLAIN, eventually, get, read_response},
};

#[test]
fn what_would_have_been_refused_is_counted_by_reason() {
    let application = "mode = \"watch\"\ningress = { rate = \"0.001/s\", burst = 2 }\n\
                       client = { rate = \"0.001/s\", burst = 4 }\n";
    let bed = Bed::with_application("", PLAIN, application);
    let mut client = bed.connect();
    for n in 0..5 {
        assert_eq!(get(&mut client, &format!("/{n}")).status, 200);
    }
    // Tokens were there for two of the five, and for four of this client.
    let class = Subject::Class(ApplicationId(0), ClassId(0));
    let mut counts = vec![0; Refusal::ALL.len()];
    counts[Refusal::IngressRate.index()] = 3;
    counts[Refusal::ClientRate.index()] = 1;
    eventually("counted", || {
        let totals = bed.shared.totals().read();
        totals.get(&class).is_some_and(|readings| readings.counts(Meter::WOULD_REFUSE) == counts)
    });
    assert_eq!(bed.shared.totals().read()[&class].counts(Meter::REFUSED).iter().sum::<u64>(), 0);
}

/// A client whose request is on its way.
fn asks(house: &House, path: &str) -> TcpStream {
    let mut client = house.connect();
    write!(client, "GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    client
}

/// Asks, and the request is at the server; both ends.
fn begins(house: &House, path: &str) -> (TcpStream, crate::request_house::Exchange) {
    let client = asks(house, path);
    (client, house.origin.next())
}

fn is_served((mut client, mut at_server): (TcpStream, crate::request_house::Exchange)) {
    at_server.ok("");
    assert_eq!(read_response(&mut client).unwrap().status, 200);
}

/// Status and `would_refuse` of each line of the log, by target.
fn logged(lines: &[String]) -> Vec<(&str, &str, Option<&str>)> {
    let mut logged: Vec<_> = lines
        .iter()
        .map(|line| {
            let [target, status] = ["target", "status"].map(|name| member(line, name).unwrap());
            (target, status, member(line, "would_refuse"))
        })
        .collect();
    logged.sort_unstable();
    logged
}

/// Refused and would be, by reason.
fn counted(readings: &Readings) -> [Vec<(Refusal, u64)>; 2] {
    [Meter::REFUSED, Meter::WOULD_REFUSE].map(|meter| {
        let counts = Refusal::ALL.iter().copied().zip(readings.counts(meter).iter().copied());
        counts.filter(|(_, n)| *n > 0).collect()
    })
}

#[test]
fn a_limit_watches_beside_a_rate_of_admission_that_acts() {
    let house = house(
        "in_flight = { algorithm = \"fixed\", limit = 1, mode = \"watch\" }\n\
         ingress = { rate = \"0.001/s\", burst = 3 }\n\
         [application.app.class.default]\nqueue.max = 0\n",
        // What would be refused is logged whatever the sample.
        "access_log.sample = 0.0\n",
    );
    let under_way = ["/a", "/b", "/c"].map(|path| begins(&house, path));
    let refused = get(&mut house.connect(), "/d");
    assert_eq!((refused.status, refused.field("tidegate-reason")), (429, Some("ingress_rate")));
    under_way.into_iter().for_each(is_served);
    assert_eq!(
        logged(&lines(&house, 3)),
        [("/b", "200", Some("queue_full")), ("/c", "200", Some("queue_full")), ("/d", "429", None)]
    );
    let [refused, would] = counted(&house.finish());
    assert_eq!((refused, would), (vec![(Refusal::IngressRate, 1)], vec![(Refusal::QueueFull, 2)]));
}

#[test]
fn bounds_of_a_queue_watch_beside_a_limit_that_acts() {
    let house = house(
        "in_flight = { algorithm = \"fixed\", limit = 1 }\n\
         [application.app.class.default]\nqueue.max = 1\nqueue.mode = \"watch\"\n\
         queue.discipline = \"fifo\"\nqueue.wait.max = \"none\"\n",
        "",
    );
    let first = begins(&house, "/a");
    let second = asks(&house, "/b");
    house.queued(1);
    let third = asks(&house, "/c");
    house.queued(2);
    assert_eq!(house.gate().levels().would_wait, [1]);
    is_served(first);
    for client in [second, third] {
        is_served((client, house.origin.next()));
    }
    assert_eq!(
        logged(&lines(&house, 3)),
        [("/a", "200", None), ("/b", "200", None), ("/c", "200", Some("queue_full"))]
    );
    let [refused, would] = counted(&house.finish());
    assert_eq!((refused, would), (vec![], vec![(Refusal::QueueFull, 1)]));
}

#[test]
fn a_rate_of_starts_that_watches_holds_nobody_and_shows_who_would_wait() {
    let house = house(
        "egress = { rate = \"0.001/s\", burst = 1, mode = \"watch\" }\n\
         in_flight = { algorithm = \"fixed\", limit = 10 }\n\
         [application.app.class.default]\nqueue.wait.max = \"none\"\n",
        "",
    );
    let under_way = ["/a", "/b", "/c"].map(|path| begins(&house, path));
    let levels = house.gate().levels();
    assert_eq!((levels.in_flight, levels.queued, levels.would_wait), (3, vec![0], vec![2]));
    under_way.into_iter().for_each(is_served);
    assert_eq!(logged(&lines(&house, 3)), [("/a", "200", None), ("/b", "200", None), ("/c", "200", None)]);
    let [refused, would] = counted(&house.finish());
    assert_eq!((refused, would), (vec![], vec![]), "who would only wait is not refused");
}

#[test]
fn the_log_tells_of_rates_of_admission_that_watch() {
    let house = house(
        "ingress = { rate = \"0.001/s\", burst = 2, mode = \"watch\" }\n\
         client = { rate = \"0.001/s\", burst = 1, mode = \"watch\" }\n",
        "",
    );
    for path in ["/a", "/b", "/c"] {
        is_served(begins(&house, path));
    }
    assert_eq!(
        logged(&lines(&house, 3)),
        [
            ("/a", "200", None),
            ("/b", "200", Some("client_rate")),
            // Both would; the first that is asked is told.
            ("/c", "200", Some("client_rate"))
        ]
    );
    let [refused, would] = counted(&house.finish());
    assert_eq!((refused, would), (vec![], vec![(Refusal::IngressRate, 1), (Refusal::ClientRate, 2)]));
}

/// A house whose limit in flight of one watches, before shadows that wait that long at most; /a is under way.
fn one_at_once(wait_max: &str) -> (House, (TcpStream, crate::request_house::Exchange)) {
    let house = house(
        &format!(
            "half_closed = \"gone\"\nin_flight = {{ algorithm = \"fixed\", limit = 1, mode = \"watch\" }}\n\
             [application.app.class.default]\nqueue.wait.max = \"{wait_max}\"\n"
        ),
        "",
    );
    let first = begins(&house, "/a");
    (house, first)
}

#[test]
fn who_leaves_in_the_middle_of_a_response_is_logged_with_what_refused_his_shadow() {
    let (house, first) = one_at_once("20ms");
    // One leaves before the server's head, the other after it.
    let (silent, begun) = (begins(&house, "/b"), begins(&house, "/c"));
    let class = Subject::Class(ApplicationId(0), ClassId(0));
    eventually("their shadows have waited for too long", || {
        let totals = house.shared.totals().read();
        totals.get(&class).is_some_and(|class| class.counts(Meter::WOULD_REFUSE).iter().sum::<u64>() == 2)
    });
    let ((mut client, mut at_server), (other, mut silent_at_server)) = (begun, silent);
    at_server.send("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhello");
    let mut head = Vec::new();
    while !head.ends_with(b"hello") {
        head.extend(take(&mut client, 1));
    }
    drop((client, other));
    // The line is written while the server is still busy.
    assert_eq!(
        logged(&lines(&house, 2)),
        [("/b", "499", Some("wait_too_long")), ("/c", "499", Some("wait_too_long"))]
    );
    assert_eq!(house.gate().levels().in_flight, 3);
    at_server.send("world");
    silent_at_server.ok("too late");
    is_served(first);
    house.held(0);
    let [_, would] = counted(&house.finish());
    assert_eq!(would, [(Refusal::WaitTooLong, 2)]);
}

#[test]
fn who_leaves_while_his_shadow_waits_takes_it_with_him() {
    let (house, first) = one_at_once("none");
    let (client, mut at_server) = begins(&house, "/b");
    assert_eq!(house.gate().levels().would_wait, [1]);
    drop(client);
    assert_eq!(logged(&lines(&house, 1)), [("/b", "499", None)]);
    let levels = house.gate().levels();
    assert_eq!((levels.in_flight, levels.would_wait), (2, vec![0]), "the server goes on, nobody waits");
    // What ends now frees nothing of the shadows' server, which works for the first.
    at_server.ok("too late");
    house.held(1);
    let last = begins(&house, "/c");
    assert_eq!(house.gate().levels().would_wait, [1]);
    is_served(first);
    is_served(last);
    let [_, would] = counted(&house.finish());
    assert_eq!(would, []);
}

#[test]
fn a_bound_of_long_streams_watches_while_the_rest_acts() {
    let house = house("long_streams = { max = 1, mode = \"watch\" }\n", "");
    let events = |path: &str| {
        let (mut client, mut at_server) = begins(&house, path);
        at_server.send("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: 1\n\n");
        let mut got = Vec::new();
        while !got.ends_with(b"data: 1\n\n\r\n") {
            got.extend(take(&mut client, 1));
        }
        (client, at_server)
    };
    let streams = ["/a", "/b"].map(events);
    assert_eq!(house.gate().levels().long_streams, 2);
    drop(streams);
    assert_eq!(
        logged(&lines(&house, 2)),
        [("/a", "499", None), ("/b", "499", Some("long_streams"))],
        "their clients leave"
    );
    eventually("closed", || house.gate().levels().long_streams == 0);
    let [refused, would] = counted(&house.finish());
    assert_eq!((refused, would), (vec![], vec![(Refusal::LongStreams, 1)]));
}
