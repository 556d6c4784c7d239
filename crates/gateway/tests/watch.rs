//! Mode `watch`, of an application and of single controls: what watches refuses nobody, and whom it would have is
//! counted and logged.

use std::{io::Write, net::TcpStream};

use tidegate_control::{ApplicationId, ClassId, Refusal, meters::Meter};
use tidegate_runtime::{Readings, Subject};

use crate::{
    request_house::House,
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
