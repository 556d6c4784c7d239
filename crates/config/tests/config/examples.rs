//! Every file in examples/ loads.

use std::{fs, path::Path};

use tidegate_config::{Address, Class, ClientAuth, ClientKey, LogFormat, Role, ServerAddress, Settings};
use tidegate_control::{
    classify::{PathSpec, ValueSpec},
    in_flight::TOP_PRIORITY,
    knobs::{Bytes, ClassRoomMethod, Mode, PerSecond, RoomMethod, RoomRole, keys},
};

fn example(name: &str) -> Settings {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let text = fs::read_to_string(directory.join(name)).expect("the example is there");
    tidegate_config::parse(&text, Path::new("/etc/tidegate"), name)
        .unwrap_or_else(|faults| panic!("{faults}"))
}

#[test]
fn minimal() {
    let settings = example("minimal.toml");
    assert_eq!(settings.admin, Some("127.0.0.1:9900".parse().unwrap()));
    assert_eq!(settings.listeners[0].address, Address::Tcp("[::]:8080".parse().unwrap()));
    assert_eq!(settings.listeners[0].name, "[::]:8080");
    assert_eq!(settings.workers[0].name, settings.listeners[0].group);
    let shop = &settings.applications[0];
    assert_eq!(shop.classes.len(), 1);
    assert_eq!(shop.servers[0].address, ServerAddress::Host { host: "127.0.0.1".to_owned(), port: 8000 });
    assert_eq!(shop.upstream.tls, None);
    assert_eq!(shop.values.get(keys::SPOOL), Bytes(256 * 1024));
}

#[test]
fn tls() {
    let settings = example("tls.toml");
    assert_eq!(settings.access_log.unwrap().format, LogFormat::Common);
    let tls = settings.listeners[1].tls.as_ref().unwrap();
    assert_eq!(tls.certificates[1].key, Path::new("/etc/tidegate/certs/blog.key"));
    assert_eq!(tls.client_auth, ClientAuth::Optional("/etc/tidegate/certs/clients-ca.pem".into()));
    let upstream = &settings.applications[0].upstream;
    assert_eq!(upstream.tls.as_ref().unwrap().server_name.as_deref(), Some("shop.internal"));
    assert_eq!(upstream.probe_path, "/healthz");
}

#[test]
fn waiting_room() {
    let settings = example("waiting-room.toml");
    let shop = &settings.applications[0];
    assert_eq!(shop.values.get(keys::ROOM_METHOD).0, RoomMethod::Fifo);
    let class = |name: &str| shop.classes.iter().find(|class| class.name == name).expect("a class");
    assert_eq!(class("members").values.get(keys::ROOM_SHARE), Some(0.33));
    assert!(!class("partners").values.get(keys::ROOM_QUEUES));
    assert!(shop.waiting_room.assets.iter().any(|end| end == ".css"));
}

#[test]
fn waiting_room_of_groups() {
    let settings = example("waiting-room-groups.toml");
    let theatre = &settings.applications[0];
    let class = |name: &str| theatre.classes.iter().find(|class| class.name == name).expect("a class");
    let (tickets, boxes, archive) = (class("tickets"), class("boxes"), class("archive"));
    let method = |class: &Class| class.values.get(keys::CLASS_ROOM_METHOD).map(|chosen| chosen.0);
    assert_eq!(method(tickets), Some(ClassRoomMethod::Event));
    assert_eq!(tickets.values.get(keys::CLASS_ROOM_OPENS_AT), Some(1_796_115_600));
    assert_eq!((method(boxes), boxes.waiting_room.group.as_deref()), (None, Some("tickets")));
    assert_eq!(method(archive), Some(ClassRoomMethod::Closed));
    assert!(archive.waiting_room.closed_message.is_some());
}

#[test]
fn waiting_room_in_two_processes() {
    let generate = example("waiting-room-generate.toml");
    let (access, shop) = (&generate.admin_access, &generate.applications[0]);
    assert_eq!(access.tokens[0].role, Role::Check);
    assert_eq!(shop.values.get(keys::ROOM_ROLE).0, RoomRole::Generate);
    assert_eq!(shop.waiting_room.check_url.as_deref(), Some("https://shop.example:443"));
    let check = example("waiting-room-check.toml");
    let shop = &check.applications[0];
    assert_eq!(shop.values.get(keys::ROOM_ROLE).0, RoomRole::Check);
    let report = shop.waiting_room.report.as_ref().expect("it reports");
    assert_eq!(report.to.parse().ok(), generate.admin.map(|admin| format!("http://{admin}")));
    assert_eq!(report.token_file, Some(access.tokens[0].file.clone()), "the same file in both");
}

#[test]
fn classes() {
    let settings = example("classes.toml");
    let shop = &settings.applications[0];
    let names: Vec<_> = shop.classes.iter().map(|class| class.name.as_str()).collect();
    assert_eq!(names, ["default", "checkout", "robots"]);
    assert!(shop.classes[2].values.get(keys::QUEUE_CODEL));
    assert_eq!(
        shop.rules[0].paths,
        [PathSpec::Glob("/cart/**".to_owned()), PathSpec::Glob("/checkout/**".to_owned())]
    );
    assert_eq!(shop.rules[1].cookies[0].value, ValueSpec::Present);
    assert_eq!(shop.rules[3].verdict.deadline_header.as_deref(), Some("x-timeout-ms"));
    assert!(shop.rules[3].verdict.priority_header);
}

#[test]
fn critical() {
    let settings = example("critical.toml");
    let shop = &settings.applications[0];
    let class = |name: &str| shop.classes.iter().find(|class| class.name == name).expect("a class");
    let (others, payments) = (class("default"), class("payments"));
    let limit = shop.values.get(keys::IN_FLIGHT_LIMIT);
    assert_eq!(payments.values.get(keys::PRIORITY), u64::from(TOP_PRIORITY));
    assert_eq!(payments.values.get(keys::WEIGHT), limit, "nobody else starts beside it");
    assert!(others.values.get(keys::CLASS_IN_FLIGHT_MAX).is_some_and(|max| max < limit));
    assert!(others.values.get(keys::IN_FLIGHT_LEAD).is_some());
    assert_eq!(shop.rules[1].verdict.class, "payments");
}

#[test]
fn several_applications() {
    let settings = example("several-applications.toml");
    let names: Vec<_> = settings.applications.iter().map(|application| application.name.as_str()).collect();
    assert_eq!(names, ["shop", "blog", "rest"]);
    assert_eq!(settings.application_index()["rest"], 2);
    assert_eq!(settings.host.get(keys::CONNECTIONS_MAX), 50_000);
    assert_eq!(settings.applications[0].servers[1].values.get(keys::SERVER_WEIGHT), 200);
    assert_eq!(settings.applications[1].servers[0].name, "app.sock");
    assert_eq!(settings.applications[2].values.get(keys::MODE).0, Mode::Watch);
}

#[test]
fn routes() {
    let settings = example("routes.toml");
    let led: Vec<_> = settings.routes.iter().map(|route| route.verdict.as_str()).collect();
    assert_eq!(led, ["next", "api"]);
    assert_eq!(settings.routes[0].cookies[0].value, ValueSpec::Exact("next".to_owned()));
    assert_eq!(settings.routes[1].paths, [PathSpec::Prefix("/api".to_owned())]);
    assert_eq!(settings.applications[1].hosts, Some(Vec::new()));
    assert_eq!(settings.doubts(), []);
}

#[test]
fn client_limits() {
    let settings = example("client-limits.toml");
    let [site, api] = settings.applications.as_slice() else { panic!("two applications") };
    assert_eq!(settings.host.get(keys::CONNECTIONS_PER_CLIENT_MAX), Some(200));
    assert_eq!(site.client_key, ClientKey::Network { v4: 32, v6: 56 });
    assert_eq!(api.client_key, ClientKey::Header("x-api-key".to_owned()));
    assert_eq!(api.values.get(keys::CLIENT_RATE), Some(PerSecond(10.0)));
}

#[test]
fn behind_a_load_balancer() {
    let settings = example("behind-load-balancer.toml");
    let [tcp, http] = settings.listeners.as_slice() else { panic!("two listeners") };
    assert!(tcp.proxy_protocol && !http.proxy_protocol);
    assert_eq!(http.trusted.len(), 2);
}

#[test]
fn upstream_tls() {
    let settings = example("upstream-tls.toml");
    let upstream = &settings.applications[0].upstream;
    let certificate = upstream.tls.as_ref().unwrap().certificate.as_ref().unwrap();
    assert_eq!(certificate.key, Path::new("/etc/tidegate/certs/gateway.key"));
    assert_eq!(upstream.host.as_deref(), Some("api.internal"));
}

#[test]
fn websocket() {
    let settings = example("websocket.toml");
    let chat = &settings.applications[0];
    assert_eq!(chat.upstream.sticky_cookie.as_deref(), Some("chat_server"));
    assert_eq!(chat.values.get(keys::LONG_STREAMS_MAX), 20_000);
}

#[test]
fn maintenance() {
    let settings = example("maintenance.toml");
    let [shop, blog] = settings.applications.as_slice() else { panic!("two applications") };
    assert!(shop.values.get(keys::MAINTENANCE) && !blog.values.get(keys::MAINTENANCE));
    assert!(blog.servers[1].values.get(keys::SERVER_DRAIN));
}

#[test]
fn every_file_of_the_directory_loads() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let names: Vec<_> = fs::read_dir(directory)
        .expect("examples/ is there")
        .map(|entry| entry.expect("it can be read").file_name().into_string().expect("UTF-8"))
        .filter(|name| name.ends_with(".toml"))
        .collect();
    assert!(names.len() >= 9, "only {names:?}: does the search still work?");
    for name in names {
        assert!(!example(&name).applications.is_empty(), "{name}");
    }
}
