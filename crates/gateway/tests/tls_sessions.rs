//! New TLS sessions before an application whose capacity is taken.

use std::{
    io::{Read, Write},
    sync::Arc,
};

use rustls::{ClientConfig, HandshakeKind, client::Resumption};
use tidegate_control::{
    ApplicationId, Refusal,
    knobs::{Knob, Value},
    meters::{Meter, SessionMet},
};
use tidegate_runtime::Subject;

use crate::{
    downstream_tls::{Tls, client_config},
    support::{Bed, PLAIN, connect, eventually, exchange, write_certificate},
};

const NAME: &str = "one.example";
const ONE: &str = "hosts = \"one.example\"\n";

/// A gateway before an application that can do a hundredth of a request a second, and serves these hosts.
fn busy(mode: &str, hosts: &str) -> Tls {
    let directory = tempfile::tempdir().unwrap();
    write_certificate(directory.path(), "one", &[NAME]);
    // What a client is asked for is what it trusts.
    write_certificate(directory.path(), "two", &["two.example"]);
    let listeners = format!(
        "[[listener]]\nname = \"https\"\naddress = \"127.0.0.1:0\"\n\
         tls.certificates = [{{ chain = \"one.pem\", key = \"one.key\" }}]\n{PLAIN}"
    );
    let application = format!("{hosts}capacity.given = \"0.01/s\"\ntls.sessions.mode = \"{mode}\"\n");
    Tls { bed: Bed::in_directory(directory, "", &listeners, &application) }
}

/// Someone who has never been here.
fn stranger(tls: &Tls) -> Arc<ClientConfig> {
    let mut config = ClientConfig::clone(&client_config(tls, &[]));
    config.resumption = Resumption::disabled();
    Arc::new(config)
}

/// Asks for a page; how the session began, or `None` if the connection ended before it had.
fn asks(tls: &Tls, config: &Arc<ClientConfig>) -> Option<HandshakeKind> {
    let mut client = tls.client(config, NAME);
    let request = format!("GET / HTTP/1.1\r\nhost: {NAME}\r\nconnection: close\r\n\r\n");
    let mut answer = Vec::new();
    client.write_all(request.as_bytes()).and_then(|()| client.flush()).ok()?;
    client.read_to_end(&mut answer).ok()?;
    assert!(answer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&answer));
    client.conn.handshake_kind()
}

/// Sessions by what became of them, as the application's meter has it.
fn met(tls: &Tls, what: SessionMet) -> u64 {
    let totals = tls.bed.shared.totals().read();
    let counts = totals.get(&Subject::Application(ApplicationId(0)));
    counts.map_or(0, |readings| readings.counts(Meter::TLS_SESSIONS)[what as usize])
}

fn set_mode(tls: &Tls, mode: &'static str) {
    let shared = &tls.bed.shared;
    shared
        .edit(|settings| {
            let values = &mut settings.applications[0].values;
            values.set(Knob::TLS_SESSIONS_MODE, Value::Choice(mode)).unwrap();
        })
        .unwrap();
}

#[test]
fn who_resumes_is_let_in_and_who_is_new_is_not_while_the_capacity_is_taken() {
    let tls = busy("enforce", ONE);
    let known = client_config(&tls, &[]);
    // What a newcomer asks for is not known yet.
    assert_eq!(asks(&tls, &known), Some(HandshakeKind::Full));
    let stranger = stranger(&tls);
    let mut refused = 0;
    eventually("one is refused", || {
        refused += u64::from(asks(&tls, &stranger).is_none());
        refused > 0
    });
    assert_eq!(asks(&tls, &known), Some(HandshakeKind::Resumed));
    assert_eq!(asks(&tls, &known), Some(HandshakeKind::Resumed));
    eventually("counted", || {
        met(&tls, SessionMet::Refused) == refused && met(&tls, SessionMet::Resumed) == 2
    });
    let totals = tls.bed.shared.totals().read();
    let by_reason = totals[&Subject::Host].counts(Meter::CONNECTIONS_REFUSED);
    assert_eq!(by_reason[Refusal::NewSession.index()], refused);
    let levels = tls.bed.shared.snapshot().applications[0].state.gate().levels();
    let sessions = levels.tls_sessions.unwrap();
    // A request each, at one unit of work.
    assert_eq!((sessions.new_cost, sessions.new_rate), (Some(1000), Some(10)));
    assert_eq!(sessions.refused_work, refused * 1000);
    set_mode(&tls, "off");
    eventually("let in", || asks(&tls, &stranger).is_some());
    assert_eq!(tls.bed.shared.snapshot().applications[0].state.gate().levels().tls_sessions, None);
}

#[test]
fn what_watches_lets_new_sessions_in_and_counts_them() {
    let tls = busy("watch", ONE);
    let stranger = stranger(&tls);
    eventually("one would be refused", || {
        assert_eq!(asks(&tls, &stranger), Some(HandshakeKind::Full));
        met(&tls, SessionMet::WouldRefuse) > 0
    });
    assert_eq!(met(&tls, SessionMet::Refused), 0);
}

#[test]
fn what_is_asked_for_without_tls_leaves_less_for_new_sessions() {
    let tls = busy("watch", ONE);
    let stranger = stranger(&tls);
    let rate = || {
        assert!(asks(&tls, &stranger).is_some());
        tls.bed.shared.snapshot().applications[0].state.gate().levels().tls_sessions.unwrap().new_rate
    };
    eventually("known what a new one asks for", || rate() == Some(10));
    let mut client = connect(tls.bed.running.address("http").unwrap());
    for _ in 0..20 {
        assert_eq!(exchange(&mut client, &format!("GET / HTTP/1.1\r\nhost: {NAME}\r\n\r\n")).status, 200);
    }
    eventually("nothing left", || rate() == Some(0));
}

#[test]
fn a_hello_without_a_name_is_for_whoever_serves_any_host() {
    for (hosts, looks_at_it) in [("", true), (ONE, false)] {
        let tls = busy("watch", hosts);
        let mut config = ClientConfig::clone(&stranger(&tls));
        config.enable_sni = false;
        assert_eq!(asks(&tls, &Arc::new(config)), Some(HandshakeKind::Full));
        if looks_at_it {
            eventually("counted", || met(&tls, SessionMet::New) == 1);
        }
        let levels = tls.bed.shared.snapshot().applications[0].state.gate().levels();
        assert_eq!(levels.tls_sessions.unwrap().new_cost, looks_at_it.then_some(1000), "{hosts}");
    }
}
