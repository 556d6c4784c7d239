//! The record of changes: who did what, why and when, in the order in which it took effect.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{self, Arc, PoisonError},
};

use http::StatusCode;
use serde_json::{Map, Value as Json, json};
use tidegate_control::Timestamp;
use tidegate_store::{Change, ChangeRecord, Error, Override};
use tokio::sync::Mutex;

use crate::{
    access::Caller,
    body::text,
    events::{Events, Kind, seconds},
    parameters::Parameters,
    problem::Problem,
    recording::State,
};

/// Longest name of who changes something, in bytes.
pub(crate) const WHO_MAX: usize = 64;
/// Longest reason, in bytes.
pub(crate) const WHY_MAX: usize = 500;
/// Changes remembered without a state directory.
const REMEMBERED_MAX: usize = 1000;
/// Changes shown unless asked otherwise, and at most.
const SHOWN: usize = 100;
const SHOWN_MAX: usize = 1000;

/// Records what is done by API and controllers, one after the other, and tells of it.
#[derive(Debug)]
pub(crate) struct Record {
    state: Arc<State>,
    events: Arc<Events>,
    /// Changes of this process, the latest last, where there is no state directory. Held while
    /// something is done, so that the record has the order in which it took effect.
    remembered: Mutex<VecDeque<ChangeRecord>>,
    /// What the state directory keeps of knobs, by their paths: changed while `remembered` is held.
    lasting: sync::Mutex<BTreeMap<String, String>>,
}

/// Something that has been done.
#[derive(Debug)]
pub(crate) struct Done {
    /// As what it is told.
    pub(crate) kind: Kind,
    /// The settings' version with it.
    pub(crate) version: u64,
    /// What, from what to what.
    pub(crate) what: Vec<Json>,
    /// Who, why and when; its text is that of `what`.
    pub(crate) change: Change,
}

/// Something that has been recorded, or will be as soon as the disk can be written.
#[derive(Debug)]
pub(crate) struct Recorded {
    /// Its number; `None` until it is written.
    pub(crate) id: Option<i64>,
    pub(crate) version: u64,
    pub(crate) what: Vec<Json>,
    /// Why it is not on the disk.
    pub(crate) unwritten: Option<Error>,
}

/// Who does something, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reasons {
    pub(crate) who: String,
    pub(crate) why: String,
}

/// What is done other than changing knobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// The capacity of an application is told or taken back.
    Capacity,
    /// The capacity of an application is searched anew.
    Search,
    /// A server is added or removed.
    Server,
    /// Tokens of waiting rooms are signed with a new key.
    RoomKey,
    /// A token is made that passes a waiting room by.
    RoomBypass,
}

impl Action {
    /// Every action.
    pub(crate) const ALL: &'static [Self] =
        &[Self::Capacity, Self::Search, Self::Server, Self::RoomKey, Self::RoomBypass];

    /// Its name in record and events.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Capacity => "capacity",
            Self::Search => "search",
            Self::Server => "server",
            Self::RoomKey => "waiting_room_key",
            Self::RoomBypass => "waiting_room_bypass",
        }
    }

    /// Why a revert is refused, and what can be done instead.
    const fn instead(self) -> &'static str {
        match self {
            Self::Capacity => {
                "told a capacity: POST another, or {\"per_s\": null}, to /api/v1/applications/NAME/capacity"
            }
            Self::Search => {
                "had a capacity searched anew, which ends by itself: what was found before is forgotten"
            }
            Self::Server => {
                "added or removed a server: POST it to /api/v1/applications/NAME/servers, or DELETE it there"
            }
            Self::RoomKey => {
                "made a new key for tokens of waiting rooms: those of the last seven hold, another is made by POST to /api/v1/waiting-rooms/keys"
            }
            Self::RoomBypass => {
                "made a token that passes a waiting room by: it ends by itself, or when eight new keys have been made by POST to /api/v1/waiting-rooms/keys"
            }
        }
    }
}

impl Reasons {
    /// Takes `who` and `why` out of a body.
    pub(crate) fn read(asked: &mut Map<String, Json>, caller: &Caller) -> Result<Self, Problem> {
        let who = caller.who(text(asked, "who", WHO_MAX)?);
        Ok(Self { who, why: text(asked, "why", WHY_MAX)?.unwrap_or_default() })
    }

    /// The same from a query, for requests that have no body.
    pub(crate) fn of_query(query: Option<&str>, caller: &Caller) -> Result<Self, Problem> {
        let parameters = Parameters::read(query, &["who", "why"])?;
        let mut asked = Map::new();
        for name in ["who", "why"] {
            asked.extend(parameters.get(name).map(|value| (name.to_owned(), Json::from(value))));
        }
        Self::read(&mut asked, caller)
    }
}

impl Done {
    /// An action, which ends with the process if not before.
    pub(crate) fn action(
        action: Action,
        path: &str,
        [from, to]: [String; 2],
        reasons: &Reasons,
        (version, at): (u64, Timestamp),
    ) -> Self {
        let what = vec![json!({ "what": action.name(), "path": path, "from": from, "to": to })];
        let Reasons { who, why } = reasons.clone();
        let knobs = Json::from(what.clone()).to_string();
        let change = Change { at, who, why, lasting: false, knobs, overrides: Vec::new() };
        Self { kind: Kind::Action, version, what, change }
    }

    /// It could not be written: nothing that it sets outlasts the process.
    fn lasts_not(&mut self) {
        self.change.lasting = false;
        self.change.overrides.retain(|(_, kept)| kept.is_none());
        for one in &mut self.what {
            if let Some(lasts) = one.get_mut("lasts") {
                *lasts = false.into();
            }
        }
        self.change.knobs = Json::from(self.what.clone()).to_string();
    }
}

impl Record {
    /// `lasting`: what the state directory keeps of knobs by their paths.
    pub(crate) fn new(state: Arc<State>, events: Arc<Events>, lasting: BTreeMap<String, String>) -> Self {
        Self { state, events, remembered: Mutex::default(), lasting: sync::Mutex::new(lasting) }
    }

    /// The value with which the next process begins, of a knob with one.
    pub(crate) fn lasting(&self, path: &str) -> Option<String> {
        self.lasting.lock().unwrap_or_else(PoisonError::into_inner).get(path).cloned()
    }

    /// Notes what the state directory keeps from now on.
    fn keeps(&self, rows: &[(String, Option<String>)]) {
        let mut lasting = self.lasting.lock().unwrap_or_else(PoisonError::into_inner);
        for (path, value) in rows {
            match value {
                Some(value) => drop(lasting.insert(path.clone(), value.clone())),
                None => drop(lasting.remove(path)),
            }
        }
    }

    /// Takes up what the state directory keeps of knobs, between two changes; false while one is made.
    pub(crate) fn take_up(&self, kept: &[Override], put_in_force: impl FnOnce(&[Override])) -> bool {
        let Ok(_between) = self.remembered.try_lock() else { return false };
        put_in_force(kept);
        let rows: Vec<_> = kept.iter().map(|kept| (kept.path.clone(), Some(kept.value.clone()))).collect();
        self.keeps(&rows);
        true
    }

    /// Does something and records it; nothing is recorded of what was not done.
    pub(crate) async fn write<E>(&self, act: impl FnOnce() -> Result<Done, E>) -> Result<Recorded, E> {
        let mut remembered = self.remembered.lock().await;
        let mut done = act()?;
        let (id, unwritten) = match self.keep(done.change.clone()).await {
            Some(Ok(id)) => (Some(id), None),
            // It does not last, and is recorded when the disk can be written again, unless the process ends before; what it
            // takes back is forgotten there then.
            Some(Err(error)) => {
                done.lasts_not();
                let _ = self.state.with_writer(|writer| writer.note(done.change.clone()));
                (None, Some(error))
            }
            None => (Some(remember(&mut remembered, done.change.clone())), None),
        };
        self.keeps(&done.change.overrides);
        self.tell(id, &done);
        Ok(Recorded { id, version: done.version, what: done.what, unwritten })
    }

    /// The same for somebody within this process, who waits for no disk.
    pub(crate) fn write_soon<E>(&self, act: impl FnOnce() -> Result<Done, E>) -> Result<(), E> {
        let mut remembered = self.remembered.blocking_lock();
        let done = act()?;
        let noted = self.state.with_writer(|writer| writer.note(done.change.clone()));
        let id = match noted {
            Some(true) => None,
            Some(false) | None => Some(remember(&mut remembered, done.change.clone())),
        };
        self.tell(id, &done);
        Ok(())
    }

    /// `GET /api/v1/knobs/changes`: what was done, the latest first.
    pub(crate) async fn list(&self, query: Option<&str>) -> Result<Json, Problem> {
        let parameters = Parameters::read(query, &["limit", "before"])?;
        let limit = parameters
            .parsed("limit", "a whole number from 1 to 1000", |text| {
                text.parse().ok().filter(|limit| (1..=SHOWN_MAX).contains(limit))
            })?
            .unwrap_or(SHOWN);
        let before = parameters.parsed("before", "the number of a change", |text| {
            text.parse().ok().filter(|before| *before != 0)
        })?;
        let changes: Vec<Json> = self.records(before, limit).await.iter().map(row).collect();
        Ok(json!({ "changes": changes }))
    }

    /// The change of that number, of knobs alone: others cannot be taken back.
    pub(crate) async fn of_knobs(&self, id: i64) -> Result<(ChangeRecord, Vec<Json>), Problem> {
        let found = self.records(id.checked_add(1), 1).await.into_iter().find(|record| record.id == id);
        let Some(record) = found else {
            return Err(Problem::new(
                StatusCode::NOT_FOUND,
                format!("there is no change {id}, or no longer"),
            ));
        };
        let Ok(what) = serde_json::from_str::<Vec<Json>>(&record.knobs) else {
            return Err(Problem::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                format!("the record of change {id} is broken"),
            ));
        };
        let Some(name) = action_of(&what) else { return Ok((record, what)) };
        let action = Action::ALL.iter().find(|action| action.name() == name);
        let instead = action.map_or("is no change of knobs", |action| action.instead());
        let detail = format!("change {id} cannot be reverted: it {instead}");
        Err(Problem::new(StatusCode::CONFLICT, detail))
    }

    fn tell(&self, id: Option<i64>, done: &Done) {
        let Done { kind, version, what, change: Change { at, who, why, lasting, .. } } = done;
        for one in what {
            let field = |name: &str| one.get(name).and_then(Json::as_str).unwrap_or_default();
            tracing::info!(who, why, lasting, "{}: {} -> {}", field("path"), field("from"), field("to"));
        }
        let data = json!({
            "id": id, "version": version, "who": who, "why": why, "lasting": lasting, "changes": what,
        });
        self.events.publish(*at, *kind, data);
    }

    /// Has the state directory record a change, off this thread; `None` without one.
    async fn keep(&self, change: Change) -> Option<Result<i64, Error>> {
        let state = Arc::clone(&self.state);
        tokio::task::spawn_blocking(move || state.with_writer(|writer| writer.record(change)))
            .await
            .unwrap_or(Some(Err(Error::Closed)))
    }

    async fn records(&self, before: Option<i64>, limit: usize) -> Vec<ChangeRecord> {
        let state = Arc::clone(&self.state);
        let kept =
            tokio::task::spawn_blocking(move || state.with_writer(|writer| writer.changes(before, limit)))
                .await
                .unwrap_or(Some(Err(Error::Closed)));
        if let Some(Ok(records)) = kept {
            return records;
        }
        let remembered = self.remembered.lock().await;
        // Negative are the numbers of those that are yet to be written, which come after all others.
        let before = before.filter(|before| *before > 0);
        let older = remembered.iter().rev().filter(|record| before.is_none_or(|before| record.id < before));
        older.take(limit).cloned().collect()
    }
}

fn row(record: &ChangeRecord) -> Json {
    let what: Vec<Json> = serde_json::from_str(&record.knobs).unwrap_or_default();
    json!({
        "id": record.id, "at": seconds(record.at), "who": record.who, "why": record.why,
        "lasting": record.lasting, "revertible": action_of(&what).is_none() && record.id > 0, "changes": what,
    })
}

/// Which action a change was; `None` if it was one of knobs.
fn action_of(what: &[Json]) -> Option<&str> {
    what.iter().find_map(|one| one.get("what")?.as_str())
}

fn remember(remembered: &mut VecDeque<ChangeRecord>, change: Change) -> i64 {
    let Change { at, who, why, lasting, knobs, .. } = change;
    let id = remembered.back().map_or(1, |last| last.id + 1);
    if remembered.len() == REMEMBERED_MAX {
        remembered.pop_front();
    }
    remembered.push_back(ChangeRecord { id, at, who, why, lasting, knobs });
    id
}
