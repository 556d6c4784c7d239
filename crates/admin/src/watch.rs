//! What becomes an event by being looked at: servers, refusals, capacity, configuration, recording.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, MutexGuard, PoisonError},
};

use serde_json::json;
use tidegate_control::{
    ApplicationId, ClassId, Refusal, ServerId, Timestamp,
    knobs::{RoomRole, keys},
    meters::Meter,
    waiting_room::CheckView,
};
use tidegate_runtime::{Application, Shared, Subject, servers::ServerStatus};
use tidegate_store::Status;

use crate::{
    events::{Events, Kind},
    measurements::number,
    recording::State,
};

/// Looks after which a reason that refuses nobody any more is over.
const QUIET_MAX: u8 = 5;

/// Compares what is with what was, once a second.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    /// False before the first look, which tells of nothing.
    began: bool,
    servers: BTreeMap<(ApplicationId, ServerId), Known>,
    /// Requests refused so far, or that would have been, by class and reason.
    refused: BTreeMap<(ApplicationId, ClassId, Meter), Vec<u64>>,
    refusing: BTreeMap<Refusing, Spell>,
    /// What processes that only give times hear of their check.
    checks: BTreeMap<(ApplicationId, String), &'static str>,
    /// Those of them whose clock differs from ours.
    clocks: BTreeSet<(ApplicationId, String)>,
    /// When the last event of a capacity was that was told.
    capacity: BTreeMap<ApplicationId, Timestamp>,
    configurations: u64,
    kept: Option<Status>,
}

/// Who is refused and why.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Refusing {
    application: String,
    class: String,
    reason: &'static str,
    /// Nobody is refused, since it only watches.
    would: bool,
}

/// How long nobody was refused any more, in looks, and how many were before.
#[derive(Clone, Copy, Debug, Default)]
struct Spell {
    quiet: u8,
    requests: u64,
}

/// A server as it was.
#[derive(Debug)]
struct Known {
    application: String,
    server: String,
    address: String,
    /// In one word: its condition, unless it drains.
    standing: &'static str,
}

impl Watch {
    /// Looks, and tells what is new.
    pub(crate) fn look(&self, shared: &Shared, state: &State, events: &Events) {
        let mut seen = self.seen();
        let snapshot = shared.snapshot();
        seen.look_at_servers(shared, &snapshot.applications, events);
        seen.look_at_refusals(shared, &snapshot.applications, events);
        seen.look_at_checks(shared, &snapshot.applications, events);
        let now = shared.clock().now();
        for application in &snapshot.applications {
            let last = seen.capacity.get(&application.id).copied().unwrap_or(Timestamp::EPOCH);
            let mut latest = last;
            for event in application.state.capacity_events().into_iter().filter(|event| event.at > last) {
                let data = json!({
                    "application": application.settings.name,
                    "cause": event.cause.name(),
                    "before": event.before.map(number),
                    "after": event.after.map(number),
                });
                events.publish(event.at, Kind::Capacity, data);
                latest = latest.max(event.at);
            }
            seen.capacity.insert(application.id, latest);
        }
        let configurations = shared.configurations();
        if seen.began && seen.configurations != configurations {
            events.publish(now, Kind::Configuration, json!({ "version": snapshot.version }));
        }
        let kept = state.status();
        if seen.kept != kept
            && let Some(kept) = &kept
        {
            let (kept, why) = match kept {
                Status::Opening => (false, Some("the state directory is being read")),
                Status::Open => (true, None),
                Status::Failing(why) => (false, Some(why.as_str())),
            };
            events.publish(now, Kind::Recording, json!({ "kept": kept, "why": why }));
        }
        (seen.began, seen.configurations, seen.kept) = (true, configurations, kept);
    }

    /// For which reasons requests of an application are refused just now.
    pub(crate) fn refusing(&self, application: &str) -> Vec<&'static str> {
        let seen = self.seen();
        let reasons = seen.refusing.keys().filter(|known| known.application == application && !known.would);
        reasons.map(|known| known.reason).collect::<BTreeSet<_>>().into_iter().collect()
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether the clock of a check differs from ours; says so when it begins to, and when it is over. What moves about the bound
/// is one excursion: it is over at half of it.
fn tells_time(name: &str, check: &CheckView, differed: bool, now: Timestamp, events: &Events) -> bool {
    let CheckView { name: check, clock, .. } = check;
    let Some(clock) = clock else { return false };
    let differs = clock.is_too_far || differed && !clock.agrees;
    if differs == differed {
        return differs;
    }
    let by_s = clock.by.as_secs_f64();
    let (what, text) = if differs {
        let way = if clock.is_ahead { "ahead of" } else { "behind" };
        tracing::warn!(
            application = name,
            check,
            by_s,
            "the clock of the check of the waiting room is {way} this one's, and people come at other times than they were \
             told: set both clocks by NTP"
        );
        ("clock_differs", format!("{by_s:.1} s {way} this one's: set both clocks by NTP"))
    } else {
        tracing::info!(
            application = name,
            check,
            by_s,
            "the clock of the check of the waiting room agrees again"
        );
        ("clock_agrees", "right again".to_owned())
    };
    let text = format!("{name}: the clock of the check {check} is {text}");
    let data = json!({ "application": name, "check": check, "what": what, "by_s": by_s, "text": text });
    events.publish(now, Kind::WaitingRoom, data);
    differs
}

impl Seen {
    fn look_at_servers(
        &mut self,
        shared: &Shared,
        applications: &[std::sync::Arc<Application>],
        events: &Events,
    ) {
        let now = shared.clock().now();
        let mut present = BTreeMap::new();
        for application in applications {
            for server in application.state.servers().list().iter().filter(|server| server.is_member) {
                let known = Known {
                    application: application.settings.name.clone(),
                    server: server.name.clone(),
                    address: server.endpoint.to_string(),
                    standing: standing(server),
                };
                present.insert((application.id, server.id), known);
            }
        }
        if self.began {
            for (id, server) in &present {
                match self.servers.get(id).map(|before| before.standing) {
                    None => server.tell(now, "added", events),
                    Some("draining") if server.standing == "up" => server.tell(now, "undrained", events),
                    Some(before) if before != server.standing => server.tell(now, server.standing, events),
                    Some(_) => {}
                }
            }
            for (_, server) in self.servers.iter().filter(|(id, _)| !present.contains_key(*id)) {
                server.tell(now, "removed", events);
            }
        }
        self.servers = present;
    }

    fn look_at_checks(
        &mut self,
        shared: &Shared,
        applications: &[std::sync::Arc<Application>],
        events: &Events,
    ) {
        let (mut present, mut clocks) = (BTreeMap::new(), BTreeSet::new());
        for application in applications {
            let room = application.state.waiting_room();
            let gives_times = application.settings.values.get(keys::ROOM_ROLE).0 == RoomRole::Generate;
            if !room.is_on() || !gives_times {
                continue;
            }
            let name = &application.settings.name;
            let checks: Vec<CheckView> = room.with(|room, now| room.checks(now).collect());
            for check in checks {
                let key = (application.id, check.name.clone());
                let differed = self.clocks.contains(&key);
                if tells_time(name, &check, differed, shared.clock().now(), events) {
                    clocks.insert(key.clone());
                }
                let what = match check {
                    CheckView { lost: true, .. } => "lost",
                    CheckView { overdue: true, .. } => "overdue",
                    _ => "heard",
                };
                let check = check.name;
                let before = self.checks.get(&key).copied();
                present.insert(key, what);
                if before == Some(what) {
                    continue;
                }
                match what {
                    "heard" => {
                        tracing::info!(application = name, check, "the check of the waiting room reports");
                    }
                    _ => tracing::error!(
                        application = name,
                        check,
                        what,
                        "the check of the waiting room does not report"
                    ),
                }
                let text = format!("{name}: the check {check} is {what}");
                let data = json!({ "application": name, "check": check, "what": what, "text": text });
                events.publish(shared.clock().now(), Kind::WaitingRoom, data);
            }
        }
        (self.checks, self.clocks) = (present, clocks);
    }

    fn look_at_refusals(
        &mut self,
        shared: &Shared,
        applications: &[std::sync::Arc<Application>],
        events: &Events,
    ) {
        let now = shared.clock().now();
        let totals = shared.totals().read();
        self.refusing.values_mut().for_each(|spell| spell.quiet += 1);
        for application in applications {
            for (index, class) in application.classes.iter().enumerate() {
                let id = ClassId(u16::try_from(index).unwrap_or(u16::MAX));
                let Some(readings) = totals.get(&Subject::Class(application.id, id)) else { continue };
                for meter in [Meter::REFUSED, Meter::WOULD_REFUSE] {
                    let counts = readings.counts(meter);
                    let before = self.refused.insert((application.id, id, meter), counts.to_vec());
                    for (position, reason) in Refusal::ALL.iter().enumerate() {
                        let count = |counts: &[u64]| counts.get(position).copied().unwrap_or(0);
                        let more = count(counts).saturating_sub(before.as_deref().map_or(0, count));
                        if more == 0 {
                            continue;
                        }
                        let refusing = Refusing {
                            application: application.settings.name.clone(),
                            class: class.name.clone(),
                            reason: reason.name(),
                            would: meter == Meter::WOULD_REFUSE,
                        };
                        let requests = match self.refusing.get(&refusing) {
                            Some(spell) => spell.requests,
                            None => {
                                refusing.tell(now, None, events);
                                0
                            }
                        };
                        self.refusing.insert(refusing, Spell { quiet: 0, requests: requests + more });
                    }
                }
            }
        }
        self.refusing.retain(|refusing, spell| {
            let goes_on = spell.quiet < QUIET_MAX;
            if !goes_on {
                refusing.tell(now, Some(spell.requests), events);
            }
            goes_on
        });
    }
}

impl Refusing {
    /// That it begins, or is over after so many requests.
    fn tell(&self, now: Timestamp, over: Option<u64>, events: &Events) {
        let Self { application, class, reason, would } = self;
        let verb = if *would { "would be refused" } else { "are refused" };
        match over {
            None => tracing::info!(application, class, reason, "requests {verb}"),
            Some(requests) => {
                tracing::info!(application, class, reason, requests, "no more requests {verb}");
            }
        }
        let data = json!({
            "application": application, "class": class, "reason": reason, "would": would, "began": over.is_none(),
            "requests": over,
        });
        events.publish(now, Kind::Refusals, data);
    }
}

impl Known {
    fn tell(&self, now: Timestamp, what: &str, events: &Events) {
        let Self { application, server, address, .. } = self;
        let data = json!({ "application": application, "server": server, "address": address, "what": what });
        events.publish(now, Kind::Server, data);
    }
}

fn standing(server: &ServerStatus) -> &'static str {
    if server.is_draining { "draining" } else { server.condition.name() }
}
