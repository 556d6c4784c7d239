//! The capacity of a running gateway: found, told, searched anew, and what servers lost and added change.

#[path = "../support/mod.rs"]
mod support;

use std::{
    cell::RefCell,
    fs,
    net::SocketAddr,
    path::Path,
    sync::{Arc, Condvar, Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

use serde_json::Value as Json;
use support::{
    Gateway, Start,
    admin::{Metrics, api, await_metrics},
    free_address,
    load::{Connections, Load},
    origin::{Origin, Then, respond},
};

/// How long something may take to be seen on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server that does one request at a time and takes 10 ms for each: 100 requests a second, however fast the
/// machine is, as long as it is not slower.
fn one_at_a_time() -> Origin {
    let turn = Mutex::new(());
    Origin::start(move |_, stream| {
        let turn = turn.lock().unwrap_or_else(PoisonError::into_inner);
        thread::sleep(Duration::from_millis(10));
        drop(turn);
        respond(stream, 200, b"done\n")
    })
}

/// A server of four threads, 20 ms a request. After a response a thread waits on the connection for 200 ms before it turns to
/// another, and serves up to ten requests of one in a row, as Puma's do: 200 requests a second over connections of one request,
/// far fewer over kept ones.
fn threads_wait_on_connections() -> Origin {
    const IDLE: Duration = Duration::from_millis(200);
    const IN_A_ROW: u32 = 10;
    let threads = Arc::new(Threads { free: Mutex::new(4), freed: Condvar::new() });
    thread_local! {
        /// The server's thread that is on this connection, and the requests that it has served there.
        static THREAD: RefCell<Option<(OneThread, u32)>> = const { RefCell::new(None) };
    }
    Origin::start(move |request, stream| {
        let (thread, served) = THREAD.take().unwrap_or_else(|| (Threads::take(&threads), 0));
        thread::sleep(Duration::from_millis(20));
        let closes = request.header("connection").is_some_and(|said| said.eq_ignore_ascii_case("close"));
        let answered = respond(stream, 200, b"done\n")?;
        if closes {
            return Ok(Then::Close);
        }
        if served + 1 < IN_A_ROW {
            stream.set_read_timeout(Some(IDLE))?;
            let has_more = matches!(stream.peek(&mut [0]), Ok(1..));
            stream.set_read_timeout(None)?;
            if has_more {
                THREAD.set(Some((thread, served + 1)));
            }
        }
        Ok(answered)
    })
}

struct Threads {
    free: Mutex<u32>,
    freed: Condvar,
}

/// Gives itself back.
struct OneThread(Arc<Threads>);

impl Threads {
    fn take(threads: &Arc<Self>) -> OneThread {
        let free = threads.free.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = threads.freed.wait_while(free, |free| *free == 0);
        *waited.unwrap_or_else(PoisonError::into_inner) -= 1;
        OneThread(Arc::clone(threads))
    }
}

impl Drop for OneThread {
    fn drop(&mut self) {
        *self.0.free.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.0.freed.notify_one();
    }
}

/// Fewer in flight than there are clients, whatever a search tries, so that it always has something to hold back.
fn configuration(listen: SocketAddr, admin: SocketAddr, algorithm: &str, servers: &[String]) -> String {
    let servers: Vec<String> = servers
        .iter()
        .enumerate()
        .map(|(at, url)| format!("{{ name = \"s{at}\", url = \"{url}\" }}"))
        .collect();
    format!(
        "admin = \"{admin}\"\n\
         [[listener]]\naddress = \"{listen}\"\n\
         [application.shop]\nin_flight = {{ algorithm = \"{algorithm}\", max = 12 }}\nservers = [{}]\n\
         [application.shop.class.default]\nqueue.wait.max = \"1min\"\n",
        servers.join(", ")
    )
}

fn capacity(admin: SocketAddr) -> Json {
    let answer = api(admin, "GET", "/api/v1/applications/shop/capacity", "");
    assert_eq!(answer.status, 200, "{}", answer.text());
    serde_json::from_str(&answer.text()).expect("JSON")
}

/// Asks until `holds`.
fn await_capacity(admin: SocketAddr, what: &str, holds: impl Fn(&Json) -> bool) -> Json {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let said = capacity(admin);
        if holds(&said) {
            return said;
        }
        assert!(Instant::now() < deadline, "not within {PATIENCE:?}: {what}: {said:#}");
        // Nobody tells when it changes; it is read as a person would.
        thread::sleep(Duration::from_millis(50));
    }
}

fn events<'a>(said: &'a Json, cause: &str) -> Vec<&'a Json> {
    let events = said["events"].as_array().expect("events");
    events.iter().filter(|event| event["cause"] == cause).collect()
}

#[test]
fn a_server_that_drains_takes_its_part_of_the_capacity_with_it() {
    let (listen, admin) = (free_address(), free_address());
    let origins = [one_at_a_time(), one_at_a_time()];
    let urls: Vec<String> = origins.iter().map(Origin::url).collect();
    let gateway = Gateway::run(&configuration(listen, admin, "knee_track", &urls), &Start::default());
    assert_eq!(capacity(admin)["capacity_per_s"], Json::Null, "nothing is known without load");

    let load = Load::start("capacity", listen, 24, Connections::Reopened, "/");
    await_capacity(admin, "a capacity is found", |said| !events(said, "found").is_empty());
    let before = await_capacity(admin, "both servers have their part", |said| {
        said["servers"].as_array().is_some_and(|servers| {
            servers.len() == 2 && servers.iter().all(|server| server["share"].as_f64().is_some())
        })
    });
    let shares: f64 = (0..2).filter_map(|at| before["servers"][at]["share"].as_f64()).sum();
    assert!((shares - 1.0).abs() < 1e-6, "the parts are the whole: {before:#}");

    let drain = api(admin, "PATCH", "/api/v1/applications/shop/servers/s1", "{\"drain\": true}");
    assert_eq!(drain.status, 200, "{}", drain.text());
    let after = await_capacity(admin, "the server is missed", |said| !events(said, "servers").is_empty());
    let moved = events(&after, "servers")[0];
    let (from, to) =
        (moved["before_per_s"].as_f64().expect("known"), moved["after_per_s"].as_f64().expect("known"));
    assert!((0.2..0.8).contains(&(to / from)), "about half is left: {from} -> {to}");

    let drain = api(admin, "PATCH", "/api/v1/applications/shop/servers/s1", "{\"drain\": false}");
    assert_eq!(drain.status, 200, "{}", drain.text());
    let again = await_capacity(admin, "it is back", |said| events(said, "servers").len() == 2);
    let moved = events(&again, "servers")[1];
    assert!(moved["after_per_s"].as_f64() > moved["before_per_s"].as_f64(), "{moved}");

    let searched =
        api(admin, "POST", "/api/v1/applications/shop/capacity/rediscover", "{\"why\": \"a test\"}");
    assert_eq!(searched.status, 200, "{}", searched.text());
    let found = events(&capacity(admin), "found").len();
    await_capacity(admin, "it is found anew", |said| {
        !events(said, "told").is_empty() && events(said, "found").len() > found
    });
    let tally = load.stop();
    assert!(!tally.answered.is_empty(), "somebody was served");
    await_metrics(admin, "the moves are counted", |metrics: &Metrics| {
        metrics.sum("application_capacity_changes", &[("cause", "servers")]) >= 2.0
    });
    gateway.stop_sound();
}

#[test]
fn a_given_capacity_is_that_of_all_servers_and_each_takes_its_part_with_it() {
    let (listen, admin) = (free_address(), free_address());
    let origins = [one_at_a_time(), one_at_a_time()];
    let urls: Vec<String> = origins.iter().map(Origin::url).collect();
    let configured = configuration(listen, admin, "fixed", &urls)
        .replace("[application.shop]\n", "[application.shop]\ncapacity.given = \"200/s\"\n");
    let gateway = Gateway::run(&configured, &Start::default());
    let drain = |server: &str, drains: bool| {
        let path = format!("/api/v1/applications/shop/servers/{server}");
        let drain = api(admin, "PATCH", &path, &format!("{{\"drain\": {drains}}}"));
        assert_eq!(drain.status, 200, "{}", drain.text());
    };
    let per_s = |said: &Json| {
        let of = |at: usize| said["servers"][at]["capacity_per_s"].as_f64().map(f64::round);
        (said["capacity_per_s"].as_f64().map(f64::round), of(0), of(1))
    };
    let await_per_s = |all, first, second| {
        await_capacity(admin, "each has its part", |said| per_s(said) == (Some(all), first, second));
    };
    await_per_s(200.0, Some(100.0), Some(100.0));
    drain("s1", true);
    await_per_s(100.0, Some(100.0), None);
    drain("s1", false);
    await_per_s(200.0, Some(100.0), Some(100.0));
    let said = capacity(admin);
    let moves: Vec<f64> = events(&said, "servers").iter().map(|event| after(event).round()).collect();
    assert_eq!(moves, [100.0, 200.0]);

    // Told for the one that is left.
    drain("s0", true);
    await_per_s(100.0, None, Some(100.0));
    let told = api(admin, "POST", "/api/v1/applications/shop/capacity", "{\"per_s\": \"150/s\"}");
    assert_eq!(told.status, 200, "{}", told.text());
    await_per_s(150.0, None, Some(150.0));
    drain("s0", false);
    await_per_s(150.0, Some(75.0), Some(75.0));
    drain("s1", true);
    await_per_s(75.0, Some(75.0), None);
    let told = api(admin, "POST", "/api/v1/applications/shop/capacity", "{\"per_s\": null}");
    assert_eq!(told.status, 200, "{}", told.text());
    await_per_s(100.0, Some(100.0), None);
    gateway.stop_sound();
}

#[test]
fn connections_on_which_a_servers_threads_wait_are_not_kept() {
    let (listen, admin) = (free_address(), free_address());
    let origin = threads_wait_on_connections();
    let gateway =
        Gateway::run(&configuration(listen, admin, "knee_track", &[origin.url()]), &Start::default());
    let load = Load::start("threads", listen, 24, Connections::Kept, "/");
    let keeps = || {
        let said = api(admin, "GET", "/api/v1/applications/shop/servers", "");
        let said: Json = serde_json::from_str(&said.text()).expect("JSON");
        said["servers"][0]["keep_alive"].as_bool().expect("said of each server")
    };
    assert!(keeps(), "nothing was tried yet");
    gateway.log.await_line("connections are closed after each request", 1);
    assert!(!keeps());
    await_capacity(admin, "the capacity found is that of all its threads", |said| {
        said["capacity_per_s"].as_f64().is_some_and(|found| found > 100.0)
    });
    let tally = load.stop();
    assert!(tally.failed.is_empty(), "{:?}", tally.failed);
    gateway.stop_sound();
}

fn after(event: &Json) -> f64 {
    event["after_per_s"].as_f64().expect("known")
}

#[test]
fn the_next_process_begins_with_what_was_found_whatever_ended_the_one_before() {
    let (listen, admin, state) = (free_address(), free_address(), tempfile::tempdir().expect("a directory"));
    let kept = state.path().join("capacity-shop.json");
    let origins = [one_at_a_time(), one_at_a_time()];
    let urls: Vec<String> = origins.iter().map(Origin::url).collect();
    let start_weighing = |weight: &str, servers: usize| {
        let directory = format!("state_directory = \"{}\"\n", state.path().display());
        let rest = configuration(listen, admin, "knee_track", &urls[..servers]);
        let rest = rest.replace("\" }", &format!("\", weight = {weight} }}"));
        Gateway::run(&(directory + &rest), &Start::default())
    };
    let start = |servers: usize| start_weighing("100", servers);
    let await_file = |file: &Path| {
        let deadline = Instant::now() + PATIENCE;
        while !file.exists() {
            assert!(Instant::now() < deadline, "nothing is kept in {}", file.display());
            thread::sleep(Duration::from_millis(50));
        }
    };

    let gateway = start(1);
    let load = Load::start("found", listen, 24, Connections::Reopened, "/");
    await_capacity(admin, "a capacity is found", |said| !events(said, "found").is_empty());
    await_file(&kept);
    drop(load.stop());
    let was: Json = serde_json::from_slice(&fs::read(&kept).expect("read")).expect("JSON");
    drop(gateway.kill());

    // Nobody has asked for anything yet. There is a second server now, and so twice as much.
    let gateway = start(2);
    let said = await_capacity(admin, "both servers are known", |said| !events(said, "servers").is_empty());
    let (restored, more) = (events(&said, "restored"), events(&said, "servers"));
    let ([restored], [more]) = (&restored[..], &more[..]) else { panic!("each once: {said:#}") };
    assert!(restored["before_per_s"].is_null() && events(&said, "found").is_empty(), "{said:#}");
    let kept_per_s = was["capacity_per_s"].as_f64().expect("a capacity");
    assert!((after(restored) / kept_per_s - 1.0).abs() < 0.5, "{was:#} and {said:#}");
    assert!((after(more) / after(restored) - 2.0).abs() < 0.01, "{said:#}");
    let limit = said["in_flight_limit"].as_u64().expect("a limit");
    assert!(limit > 2, "no search begins: {said:#}");
    gateway.stop_sound();

    // An orderly end leaves what was known then.
    let gateway = start(2);
    let said = await_capacity(admin, "it is taken over", |said| !events(said, "restored").is_empty());
    assert!((after(events(&said, "restored")[0]) / after(more) - 1.0).abs() < 0.01, "{said:#}");
    gateway.stop_sound();

    // Weights are shares among peers: other ones for all change nothing, and one of two that is gone has taken its part along.
    let gateway = start_weighing("300", 2);
    let said = await_capacity(admin, "it is taken over", |said| !events(said, "restored").is_empty());
    let per_s = said["capacity_per_s"].as_f64().expect("a capacity");
    assert!((per_s / after(more) - 1.0).abs() < 0.01, "{said:#}");
    gateway.stop_sound();
    let gateway = start_weighing("600", 1);
    let said = await_capacity(admin, "one server is known", |said| !events(said, "servers").is_empty());
    assert!((after(events(&said, "servers")[0]) / per_s - 0.5).abs() < 0.01, "{said:#}");
    gateway.stop_sound();

    // A file of before servers were written down one by one: of theirs the weights are all there is to go by.
    let mut was: Json = serde_json::from_slice(&fs::read(&kept).expect("read")).expect("JSON");
    assert_eq!(was["servers"][0]["name"], "s0", "{was:#}");
    let file = was.as_object_mut().expect("a table");
    file.remove("servers");
    file.insert("servers_weight".to_owned(), Json::from(50));
    fs::write(&kept, was.to_string()).expect("write");
    let gateway = start(1);
    let said = await_capacity(admin, "one server is known", |said| !events(said, "servers").is_empty());
    let (restored, more) = (events(&said, "restored"), events(&said, "servers"));
    assert!((after(more[0]) / after(restored[0]) - 2.0).abs() < 0.01, "{said:#}");
    // What was to be forgotten is not found again.
    let told = api(admin, "POST", "/api/v1/applications/shop/capacity/rediscover", "{}");
    assert_eq!(told.status, 200, "{}", told.text());
    gateway.stop_sound();
    assert!(!kept.exists());

    for (text, says) in [
        ("{", "EOF while parsing"),
        ("{\"format\": 9}", "format 9, known 1"),
        ("{\"format\": 1, \"classes\": {\"default\": {}}}", "classes.default.cost_s is no number"),
    ] {
        fs::write(&kept, text).expect("write");
        let gateway = start(1);
        gateway.log.await_line("the search for the capacity begins anew", 1);
        let said = &gateway.log.lines_with("begins anew")[0];
        assert!(said.contains(says) && said.contains("capacity-shop.json"), "{said}");
        assert!(capacity(admin)["capacity_per_s"].is_null());
        gateway.stop_sound();
    }
}

#[test]
fn an_estimator_outside_tells_the_capacity_for_a_time() {
    let (listen, admin) = (free_address(), free_address());
    let origin = Origin::hello();
    let gateway = Gateway::run(&configuration(listen, admin, "fixed", &[origin.url()]), &Start::default());
    let tell = |body: &str| api(admin, "POST", "/api/v1/applications/shop/capacity", body);

    let told = tell("{\"per_s\": \"120/s\", \"valid_for\": \"300ms\", \"who\": \"estimator\"}");
    assert_eq!(told.status, 200, "{}", told.text());
    // What happened is taken down a moment later.
    let over = await_capacity(admin, "what was told is over", |said| events(said, "given").len() >= 2);
    let given: Vec<_> = events(&over, "given").iter().map(|event| event["after_per_s"].as_f64()).collect();
    assert_eq!(given, [Some(120.0), None], "{over:#}");

    let told = tell("{\"per_s\": \"90/min\"}");
    let said: Json = serde_json::from_str(&told.text()).expect("JSON");
    assert_eq!(
        (&said["capacity_per_s"], &said["told"]["until"]),
        (&Json::from(1.5), &Json::Null),
        "{said:#}"
    );
    let all: Json = serde_json::from_str(&api(admin, "GET", "/api/v1/capacity", "").text()).expect("JSON");
    assert_eq!(all["capacity"][0]["capacity_per_s"], 1.5);
    assert_eq!(tell("{\"per_s\": null}").status, 200);
    assert!(capacity(admin)["capacity_per_s"].is_null());

    for (body, says) in [
        ("{}", "per_s"),
        ("{\"per_s\": \"fast\"}", "per_s"),
        ("{\"per_s\": \"1/s\", \"valid_for\": \"0s\"}", "valid_for"),
        ("{\"per_s\": \"1/s\", \"colour\": 1}", "colour"),
        ("[]", "JSON object"),
    ] {
        let answer = tell(body);
        assert_eq!(answer.status, 400, "{body}: {}", answer.text());
        assert!(answer.text().contains(says), "{body}: {}", answer.text());
    }
    let searched = api(admin, "POST", "/api/v1/applications/shop/capacity/rediscover", "{}");
    assert_eq!(searched.status, 409, "fixed finds none: {}", searched.text());
    assert_eq!(api(admin, "GET", "/api/v1/applications/none/capacity", "").status, 404);
    assert_eq!(api(admin, "DELETE", "/api/v1/applications/shop/capacity", "").status, 405);
    gateway.stop_sound();
}

/// The origin of this test is a thread of the test itself, so its processor time is this process's.
#[test]
fn what_a_local_server_uses_is_measured() {
    let (listen, admin) = (free_address(), free_address());
    let origin = Origin::hello();
    let gateway = Gateway::run(&configuration(listen, admin, "fixed", &[origin.url()]), &Start::default());
    let server = [("server", format!("s0@{}", origin.address))];
    let labels: Vec<(&str, &str)> = server.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let metrics = await_metrics(admin, "the process behind the server is found", |metrics| {
        metrics.has("server_memory") && metrics.sum("server_memory", &labels) > 0.0
    });
    assert!(metrics.sum("server_cpu", &labels) >= 0.0);
    gateway.stop_sound();
}
