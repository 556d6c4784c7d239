//! Routes: which application serves a request where its host does not say.

use std::sync::Arc;

use serde_json::Value as Json;
use tidegate_control::classify::RouteSpec;

use crate::{
    request_house::{House, Origin},
    support::{Bed, PLAIN, Response, eventually, exchange},
};

fn of_host(house: &House, host: &str, path: &str, fields: &str) -> Response {
    let request = format!("GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n{fields}\r\n");
    exchange(&mut house.connect(), &request)
}

/// Answers the next request at a server with that server's name.
fn answering(origin: Origin, name: &'static str) {
    std::thread::spawn(move || {
        loop {
            origin.any().ok(name);
        }
    });
}

#[test]
fn a_route_leads_to_another_application_than_the_host() {
    let (api, beta) = (Origin::start(), Origin::start());
    let more = format!(
        "hosts = \"app.example\"\n\
         [application.api]\nhosts = []\nservers = \"http://{}\"\nclient.rate = \"4/h\"\nclient.burst = 2\n\
         [application.beta]\nhosts = \"beta.example\"\nservers = \"http://{}\"\n\
         [[route]]\napplication = \"beta\"\npath_prefix = \"/api\"\ncookie.beta = true\n\
         [[route]]\napplication = \"api\"\npath_prefix = \"/api\"\nhost = [\"app.example\", \"nobody.example\"]\n",
        api.address, beta.address
    );
    let alone = "[[listener]]\nname = \"alone\"\naddress = \"127.0.0.1:0\"\napplication = \"app\"\n";
    let house = House::with(|_| (String::new(), format!("{PLAIN}{alone}"), more));
    answering(api, "api");
    answering(beta, "beta");
    for (host, path, fields, served) in [
        ("app.example", "/api/x", "", "api"),
        ("app.example", "/api/x", "cookie: beta=1\r\n", "beta"),
        ("app.example", "/%61pi", "", "api"),
        ("beta.example", "/api/x", "", "beta"),
    ] {
        assert_eq!(of_host(&house, host, path, fields).body, served, "{host} {path} {fields}");
    }
    // What its host names serves the rest, and all where the listener says so.
    for (address, path) in [("http", "/apis"), ("alone", "/api/x")] {
        let mut client = crate::support::connect(house.running.address(address).unwrap());
        let request = format!("GET {path} HTTP/1.1\r\nhost: app.example\r\n\r\n");
        let asked = std::thread::spawn(move || exchange(&mut client, &request).body);
        house.origin.next().ok("app");
        assert_eq!(asked.join().unwrap(), "app", "{path}");
    }
    // The other application's settings hold, not the host's: the third within a quarter of an hour.
    assert_eq!(of_host(&house, "app.example", "/api", "").field("tidegate-reason"), Some("client_rate"));
    // Whose a path is that servers read in two ways, nobody knows; a host nobody serves is led nowhere.
    for (host, path, status) in [
        ("app.example", "/x/../api/x", 400),
        ("app.example", "/api/../x", 400),
        ("nobody.example", "/api/x", 404),
    ] {
        assert_eq!(of_host(&house, host, path, "").status, status, "{host} {path}");
    }
    // Another route from the next request on.
    house
        .shared
        .edit(|settings| {
            settings.routes = vec![RouteSpec { verdict: "beta".to_owned(), ..RouteSpec::default() }];
        })
        .unwrap();
    assert_eq!(of_host(&house, "app.example", "/", "").body, "beta");
    let (router, version) = (Arc::clone(&house.shared.snapshot().router), house.shared.version());
    house.shared.edit(|settings| settings.applications[0].servers.clear()).unwrap();
    let now = house.shared.snapshot();
    assert!(now.version > version && Arc::ptr_eq(&router, &now.router), "compiled once");
    house.finish();
}

/// The page of a room asks how things stand at one path, whatever the path of the application that a route leads to.
#[test]
fn who_waits_for_an_application_behind_a_route_is_told_of_that_one() {
    let room = |opens_at: u64| {
        format!(
            "capacity.given = \"1000/s\"\nin_flight.algorithm = \"fixed\"\n\
             waiting_room.method = \"event\"\nwaiting_room.opens_at = {opens_at}\n"
        )
    };
    let application = format!(
        "{}[application.tickets]\nhosts = []\nservers = []\n{}[[route]]\napplication = \"tickets\"\npath_prefix = \"/tickets\"\n",
        room(4_102_444_800),
        room(4_133_980_800)
    );
    for carry in ["cookie", "query"] {
        let application =
            application.replace("opens_at", &format!("carry = \"{carry}\"\nwaiting_room.opens_at"));
        let bed = Bed::with_application("", PLAIN, &application);
        let mut client = bed.connect();
        let mut ask = |path: &str, fields: &str| {
            exchange(&mut client, &format!("GET {path} HTTP/1.1\r\nhost: app.example\r\n{fields}\r\n"))
        };
        for (path, application, time) in [
            ("/", "", "2100-01-01T00:00:00.000Z"),
            ("/tickets", "application=tickets", "2101-01-01T00:00:00.000Z"),
        ] {
            let mut told = ask(path, "");
            // Everybody goes on before the room has heard of the capacity.
            eventually("a time", || {
                told = ask(path, "accept: text/html\r\n");
                told.field("tidegate-turn").is_some()
            });
            let (_, asks) = told.body.split_once("data-ask=\"").expect("an address to ask");
            let asks = asks.split('"').next().unwrap_or_default().replace("&#63;", "?").replace("&#38;", "&");
            let asks = asks.replace("&#61;", "=");
            assert!(
                asks.contains(application) && asks.contains("application=") != application.is_empty(),
                "{asks}"
            );
            let token = told.field("tidegate-turn").unwrap();
            let standing = ask(&asks, &format!("tidegate-turn: {token}\r\n")).body;
            let standing: Json = serde_json::from_str(&standing).unwrap();
            assert_eq!(standing["time"], time, "{carry} {asks} {standing}");
        }
    }
}
