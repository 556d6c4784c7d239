//! Members come, stay and go without their ids changing.

use std::{
    net::IpAddr,
    path::Path,
    pin::pin,
    task::{Context, Waker},
    time::Duration,
};

use tidegate_config::{Application, ProtectOptions, Server, ServerAddress, Settings};
use tidegate_control::{
    ApplicationId, ServerId,
    health::Condition,
    keep_alive::Waits,
    knobs::{KeepAlivePolicy, Knob, Scope, Value, Values},
};

use super::{Endpoint, HostPort, ServerSet, Vacancy};
use crate::Clock;

fn application(servers: &[(&str, &str, u16)]) -> Application {
    let mut settings = Settings::protect(&ProtectOptions::new("http://127.0.0.1:1")).expect("valid options");
    let mut application = settings.applications.remove(0);
    application.servers = servers
        .iter()
        .map(|(name, host, port)| Server {
            name: (*name).to_owned(),
            address: ServerAddress::Host { host: (*host).to_owned(), port: *port },
            values: Values::defaults(Scope::Server),
        })
        .collect();
    application
}

fn set(servers: &[(&str, &str, u16)]) -> ServerSet {
    ServerSet::new(ApplicationId(0), Clock::start(), &application(servers))
}

fn ids(set: &ServerSet) -> Vec<u16> {
    set.members().iter().map(|server| server.id().0).collect()
}

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn name(host: &str, port: u16) -> HostPort {
    HostPort { host: host.to_owned(), port }
}

#[test]
fn who_stays_keeps_its_id_and_who_comes_back_gets_its_own() {
    let set = set(&[("a", "10.0.0.1", 80), ("b", "10.0.0.2", 80)]);
    assert_eq!(ids(&set), [0, 1]);
    let before = set.version();
    set.configure(&application(&[("c", "10.0.0.3", 80), ("b", "10.0.0.2", 80)]));
    assert_eq!(ids(&set), [2, 1]);
    assert_ne!(set.version(), before);
    set.configure(&application(&[("a", "10.0.0.1", 80), ("b", "10.0.0.9", 80)]));
    assert_eq!(ids(&set), [0, 3], "an address that changed under a name is another server");
}

#[test]
fn a_name_stands_for_each_of_its_addresses() {
    let set = set(&[("web", "web.test", 8080), ("fixed", "::1", 80)]);
    assert_eq!(set.names(), [name("web.test", 8080)]);
    assert_eq!(set.members().len(), 1, "unresolved names are no members");
    assert!(set.resolved(&name("web.test", 8080), &[ip("10.0.0.2"), ip("10.0.0.1"), ip("10.0.0.2")]));
    let ports: Vec<Endpoint> = set.members().iter().map(|server| server.endpoint().clone()).collect();
    let tcp = |text: &str| Endpoint::Tcp(text.parse().expect("an address"));
    assert_eq!(ports, [tcp("10.0.0.1:8080"), tcp("10.0.0.2:8080"), tcp("[::1]:80")]);

    // The same in another order changes nothing, and so does an empty answer.
    let version = set.version();
    assert!(!set.resolved(&name("web.test", 8080), &[ip("10.0.0.1"), ip("10.0.0.2")]));
    assert!(!set.resolved(&name("web.test", 8080), &[]));
    assert!(!set.resolved(&name("other.test", 8080), &[ip("10.0.0.7")]));
    assert_eq!(set.version(), version);

    // An address that is gone leaves; what runs there is still listed until it ends.
    let first = set.members()[0].clone();
    assert!(first.try_begin());
    assert!(set.resolved(&name("web.test", 8080), &[ip("10.0.0.2")]));
    assert!(!first.is_member() && !first.is_in_service());
    assert_eq!(set.members().len(), 2);
    assert_eq!(set.list().len(), 3);
    first.end();
    assert_eq!(set.list().len(), 2);
    // Settings that keep the name keep its addresses; settings without it forget them.
    set.configure(&application(&[("web", "web.test", 8080)]));
    assert_eq!(set.members().len(), 1);
    set.configure(&application(&[]));
    set.configure(&application(&[("web", "web.test", 8080)]));
    assert_eq!(set.members().len(), 0);
}

#[test]
fn a_full_server_takes_no_more_and_says_when_it_has_room_again() {
    let mut settings = application(&[("a", "10.0.0.1", 80)]);
    let knob = Knob::find(Scope::Server, "in_flight.max").expect("a knob");
    settings.servers[0].values.set(knob, Value::Count(2)).expect("in range");
    let set = ServerSet::new(ApplicationId(0), Clock::start(), &settings);
    let server = set.members()[0].clone();
    assert!(server.try_begin() && server.try_begin());
    assert!(!server.try_begin());
    let mut vacancy = set.vacancy(3);
    assert!(!is_called(&mut vacancy));
    server.end();
    assert!(is_called(&mut vacancy), "it was full");
    server.end();
    assert!(!is_called(&mut vacancy), "it was not");
    assert_eq!(server.in_flight(), 0);
    set.configure(&settings);
    assert!(!is_called(&mut vacancy), "nothing has changed");
    settings.servers[0].values.set(knob, Value::Count(3)).expect("in range");
    set.configure(&settings);
    assert!(is_called(&mut vacancy), "the set has changed");
}

#[test]
fn room_goes_to_the_highest_priority_and_on_if_its_owner_has_left() {
    let mut settings = application(&[("a", "10.0.0.1", 80)]);
    let knob = Knob::find(Scope::Server, "in_flight.max").expect("a knob");
    settings.servers[0].values.set(knob, Value::Count(1)).expect("in range");
    let set = ServerSet::new(ApplicationId(0), Clock::start(), &settings);
    let server = set.members()[0].clone();
    let mut waiting: Vec<_> = [3, 5, 1, 5].map(|priority| set.vacancy(priority)).into();
    let called =
        |waiting: &mut Vec<Vacancy<'_>>| -> Vec<bool> { waiting.iter_mut().map(is_called).collect() };
    let end = || {
        assert!(server.try_begin());
        server.end();
    };
    end();
    assert_eq!(called(&mut waiting), [false, true, false, false]);
    drop(waiting.remove(1));
    end();
    // The other of that priority was called and leaves before it looks.
    drop(waiting.remove(2));
    assert_eq!(called(&mut waiting), [true, false]);
    drop(waiting.remove(0));
    end();
    assert_eq!(called(&mut waiting), [true]);
}

#[test]
fn room_that_is_not_taken_goes_to_the_next() {
    let mut settings = application(&[("a", "10.0.0.1", 80)]);
    let knob = Knob::find(Scope::Server, "in_flight.max").expect("a knob");
    settings.servers[0].values.set(knob, Value::Count(1)).expect("in range");
    let set = ServerSet::new(ApplicationId(0), Clock::start(), &settings);
    let server = set.members()[0].clone();
    let [mut first, mut second, mut third] = [5, 3, 1].map(|priority| set.vacancy(priority));
    assert!(server.try_begin());
    server.end();
    assert!(is_called(&mut first));
    first.pass_on();
    assert_eq!([&mut first, &mut second, &mut third].map(is_called), [false, true, false]);
    drop(second);
    set.leave_room();
    assert_eq!([&mut first, &mut third].map(is_called), [true, false]);
    third.pass_on();
    assert_eq!([&mut first, &mut third].map(is_called), [false, false], "nobody is behind it");
}

/// Whether it has been called since it was last asked.
fn is_called(vacancy: &mut Vacancy<'_>) -> bool {
    pin!(vacancy).poll(&mut Context::from_waker(Waker::noop())).is_ready()
}

#[test]
fn drain_and_removal_take_a_server_out_of_service_but_not_out_of_sight() {
    let mut settings = application(&[("a", "10.0.0.1", 80)]);
    let set = ServerSet::new(ApplicationId(0), Clock::start(), &settings);
    let server = set.members()[0].clone();
    assert!(server.is_in_service() && server.try_begin());
    let drain = Knob::find(Scope::Server, "drain").expect("a knob");
    settings.servers[0].values.set(drain, Value::Flag(true)).expect("a flag");
    set.configure(&settings);
    assert!(server.is_member() && !server.is_in_service());
    set.retire();
    assert!(!server.is_member());
    assert_eq!(set.list().len(), 1);
    server.end();
    assert!(set.list().is_empty());
}

#[test]
fn a_server_back_from_draining_starts_slowly() {
    let slow_start = Knob::find(Scope::Application, "slow_start").expect("a knob");
    let drain = Knob::find(Scope::Server, "drain").expect("a knob");
    let mut settings = application(&[("a", "10.0.0.1", 80)]);
    settings.values.set(slow_start, Value::Span(Duration::from_secs(3600))).expect("in range");
    let clock = Clock::start();
    let set = ServerSet::new(ApplicationId(0), clock, &settings);
    let server = set.members()[0].clone();
    let grown = clock.now() + Duration::from_secs(3600);
    let mut own = settings.servers[0].values.clone();
    own.set(Knob::find(Scope::Server, "weight").expect("a knob"), Value::Count(100)).expect("in range");
    server.configure(grown, &own);
    assert_eq!(server.candidate(grown).weight, 100);
    for is_draining in [true, false] {
        own.set(drain, Value::Flag(is_draining)).expect("a flag");
        server.configure(grown, &own);
    }
    assert_eq!(server.candidate(grown).weight, 10);
    server.configure(grown + Duration::from_secs(1800), &own);
    assert_eq!(server.candidate(grown + Duration::from_secs(1800)).weight, 50);
}

#[test]
fn the_response_time_of_a_server_that_is_left_alone_is_shown_as_it_was() {
    let clock = Clock::start();
    let set = ServerSet::new(ApplicationId(0), clock, &application(&[("a", "10.0.0.1", 80)]));
    let server = set.members()[0].clone();
    let now = clock.now();
    assert_eq!(server.status(now).response_time, None);
    server.on_success(now, Duration::from_millis(300));
    let later = now + Duration::from_secs(600);
    server.refresh(later);
    assert_eq!(server.status(later).response_time, Some(Duration::from_millis(300)));
    // The balancer forgets it meanwhile, so that it is tried again.
    assert!(server.candidate(later).ewma < Duration::from_micros(1));
}

#[test]
fn failures_and_answers_move_the_version_only_when_health_changes() {
    let mut settings = application(&[("a", "10.0.0.1", 80)]);
    let failures = Knob::find(Scope::Application, "health.failures.max").expect("a knob");
    settings.values.set(failures, Value::Count(2)).expect("in range");
    let clock = Clock::start();
    let set = ServerSet::new(ApplicationId(0), clock, &settings);
    let server = set.members()[0].clone();
    let now = clock.now();
    let version = set.version();
    server.on_success(now, Duration::from_millis(5));
    server.on_failure(now);
    server.on_success(now, Duration::from_millis(5));
    server.on_failure(now);
    assert!(server.standing(now).is_up);
    assert_eq!(set.version(), version);
    server.on_failure(now);
    assert!(!server.standing(now).is_up);
    assert_ne!(set.version(), version);
    let back = server.standing(now).next_change.expect("a pause ends");
    assert!(matches!(set.list()[0].condition, Condition::Paused(until) if until == back));
    assert!(server.standing(back).is_up);
    // Leaving and joining again forgets it.
    set.configure(&application(&[]));
    set.configure(&settings);
    assert_eq!(set.members()[0].id(), ServerId(0));
    assert!(server.standing(now).is_up);
}

#[test]
fn a_unix_socket_is_a_member_at_once_and_tokens_tell_servers_apart() {
    let mut settings = application(&[("a", "10.0.0.1", 80), ("a2", "10.0.0.1", 80)]);
    settings.servers.push(Server {
        name: "u".to_owned(),
        address: ServerAddress::Unix(Path::new("/run/app.sock").to_owned()),
        values: Values::defaults(Scope::Server),
    });
    let set = ServerSet::new(ApplicationId(0), Clock::start(), &settings);
    let members = set.members();
    assert_eq!(members[2].endpoint().to_string(), "unix:/run/app.sock");
    let mut tokens: Vec<&str> = members.iter().map(|server| server.token()).collect();
    assert!(tokens.iter().all(|token| token.len() == 16));
    tokens.dedup();
    assert_eq!(tokens.len(), 3);
}

#[test]
fn connections_are_kept_unless_that_slows_the_server_down_or_it_is_said_otherwise() {
    let set = set(&[("a", "10.0.0.1", 80)]);
    let server = set.members()[0].clone();
    let keeps = || set.list()[0].keeps_connections;
    let second = |policy: KeepAlivePolicy| {
        // Its threads wait on idle connections.
        for request in 0..50 {
            let mut waits = Waits::default();
            let is_recent = server.keeps_connections() && request % 5 != 0;
            let took = if server.keeps_connections() && !is_recent { 200 } else { 20 };
            waits.add(is_recent, Duration::from_millis(took), 4);
            server.saw(waits);
        }
        server.judge_keep_alive(policy);
    };
    for policy in [KeepAlivePolicy::Never, KeepAlivePolicy::Always, KeepAlivePolicy::Never] {
        second(policy);
        assert_eq!(keeps(), policy == KeepAlivePolicy::Always);
    }
    // What was said by hand says nothing about what is better.
    second(KeepAlivePolicy::Auto);
    assert!(keeps());
    for _ in 0..40 {
        second(KeepAlivePolicy::Auto);
    }
    assert!(!keeps());
}

#[test]
fn who_has_no_address_is_told_with_what_the_last_lookup_said() {
    let set = set(&[("web", "web.test", 8080), ("fixed", "::1", 80)]);
    let [web] = &set.unresolved()[..] else { panic!("{:?}", set.unresolved()) };
    assert_eq!((web.name.as_str(), web.address.as_str()), ("web", "web.test:8080"));
    assert_eq!(web.failed, None, "not looked up yet");
    set.unresolvable(&name("web.test", 8080), "no such host".to_owned());
    set.unresolvable(&name("other.test", 8080), "nobody's".to_owned());
    let failed = set.unresolved()[0].failed.clone().expect("a failure");
    assert_eq!(failed.0, "no such host");
    set.resolved(&name("web.test", 8080), &[ip("10.0.0.1")]);
    set.unresolvable(&name("web.test", 8080), "no such host".to_owned());
    assert_eq!(set.unresolved(), [], "its last addresses stay in use");
}
