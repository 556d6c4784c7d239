//! Runs the controllers of a gateway, on a thread of their own beside the workers.

mod host;
mod idle;

use std::{
    cell::Cell,
    collections::{BTreeMap, BTreeSet},
    io::{self, Read},
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{self, Receiver, RecvTimeoutError, Sender},
    },
    thread::JoinHandle,
    time::Duration,
};

use serde_json::{Value as Json, json};
use tidegate_config as config;
use tidegate_control::{
    Timestamp,
    controller::{Beneath, Controller as _, Standing},
};
use tidegate_runtime::{Inside, Override, Shared};
use tidegate_scripts::{Engine, Limits, LoadError, Status};

use crate::{
    events::{Events, Kind},
    knobs::Knobs,
    recording::Recording,
};
use host::{GatewayHost, contested};

/// Longest sleep between two looks at what is due.
const SLEEP_MAX: Duration = Duration::from_secs(3600);
/// More of a script's file is not read; the engine refuses less.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// The controllers of one process.
#[derive(Debug)]
pub struct Controllers {
    tell: Sender<Message>,
    board: Board,
    thread: Option<JoinHandle<()>>,
}

/// How each controller stands, by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Board(Arc<Mutex<Vec<(String, Status)>>>);

/// A script that cannot be run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ControllerError {
    /// Its file cannot be read.
    #[error("controller {name}: {path}: {source}")]
    File {
        /// The controller.
        name: String,
        /// The file.
        path: String,
        /// What went wrong.
        source: io::Error,
    },
    /// It is not written in the language, or too long.
    #[error("controller {name}: {source}")]
    Load {
        /// The controller.
        name: String,
        /// What is wrong, and where.
        source: LoadError,
    },
}

#[derive(Debug)]
enum Message {
    Reload,
}

impl Controllers {
    /// Starts the controllers of the present settings; what they change is recorded. One whose script
    /// cannot be run is said and left out.
    ///
    /// # Errors
    ///
    /// If the system gives no thread.
    pub fn start(shared: Arc<Shared>, recording: &Recording) -> io::Result<Self> {
        let (tell, told) = mpsc::channel();
        let board = Board::default();
        let thread = {
            let board = board.clone();
            let (knobs, events) = (recording.knobs(), recording.events());
            std::thread::Builder::new().name("tidegate-laws".to_owned()).spawn(move || {
                let (members, beneath, contested) = (Vec::new(), Beneath::default(), BTreeSet::new());
                Crew { shared, knobs, events, board, members, beneath, contested }.work(&told);
            })?
        };
        Ok(Self { tell, board, thread: Some(thread) })
    }

    /// Takes up what the settings and the scripts' files say now. A script that has not changed
    /// goes on undisturbed; one that has begins anew with what it held.
    pub fn reload(&self) {
        // The thread ends with this handle only.
        let _ = self.tell.send(Message::Reload);
    }

    pub(crate) fn board(&self) -> Board {
        self.board.clone()
    }
}

impl Drop for Controllers {
    fn drop(&mut self) {
        let (closed, _) = mpsc::channel();
        drop(std::mem::replace(&mut self.tell, closed));
        if let Some(thread) = self.thread.take() {
            // A turn that runs is bounded in time.
            let _ = thread.join();
        }
    }
}

impl Board {
    /// What `GET /api/v1/controllers` answers.
    pub(crate) fn describe(&self) -> Json {
        let statuses = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let each = statuses.into_iter().map(|(name, status)| {
            let (state, why) = match status.standing {
                Standing::Running => ("running", None),
                Standing::Stopped { why } => ("stopped", Some(why)),
            };
            json!({
                "name": name,
                "state": state,
                "why": why,
                "turns": status.turns,
                "failures": status.failures,
                "steps": status.steps,
                "memory_bytes": status.memory,
                "held": status.held,
            })
        });
        json!({ "controllers": each.collect::<Vec<_>>() })
    }
}

/// Whether every controller of the present settings can be started.
///
/// # Errors
///
/// Every [`ControllerError`], at least one.
pub fn check_controllers(shared: &Arc<Shared>) -> Result<(), Vec<ControllerError>> {
    let settings = &shared.snapshot().settings;
    let faults: Vec<_> =
        settings.controllers.iter().filter_map(|controller| compile(controller, shared).err()).collect();
    if faults.is_empty() { Ok(()) } else { Err(faults) }
}

/// What a controller of the present settings does wrong on a gateway that has measured nothing yet, if it can be started,
/// and which knobs several of them set there: faults for whoever wrote them, but none that a start would have to stop for.
#[must_use]
pub fn controller_doubts(shared: &Arc<Shared>) -> Vec<String> {
    let settings = &shared.snapshot().settings;
    let mut doubts = Vec::new();
    let mut setters = BTreeMap::new();
    for controller in &settings.controllers {
        let Ok(mut member) = compile(controller, shared) else { continue };
        let name = &controller.name;
        let tried = idle::tried(shared, name, &mut member.engine);
        doubts.extend(tried.faults.iter().map(|fault| format!("controller {name}: {fault}")));
        for knob in tried.knobs {
            let other = *setters.entry(knob.clone()).or_insert(name);
            if other != name {
                doubts
                    .push(format!("controller {name}: {}", contested(&knob, &format!("controller {other}"))));
            }
        }
    }
    doubts
}

/// The controllers, in the thread that runs them.
struct Crew {
    shared: Arc<Shared>,
    knobs: Knobs,
    events: Arc<Events>,
    board: Board,
    members: Vec<Member>,
    beneath: Beneath<Override>,
    /// Knobs of which it was said that several controllers set them, each with the controller that did it last.
    contested: BTreeSet<(String, String)>,
}

/// One controller.
struct Member {
    settings: config::Controller,
    source: String,
    engine: Engine,
    /// Among those that are stopped, once it is.
    stopped: Option<Inside>,
}

impl Crew {
    fn work(mut self, told: &Receiver<Message>) {
        self.reload();
        loop {
            let now = self.shared.clock().now();
            let due = self.members.iter().filter_map(|member| member.engine.next_tick()).min();
            let sleep = due.map_or(SLEEP_MAX, |due| due.since(now)).min(SLEEP_MAX);
            match told.recv_timeout(sleep) {
                Ok(Message::Reload) => self.reload(),
                Err(RecvTimeoutError::Timeout) => self.tick(),
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn tick(&mut self) {
        let now = self.shared.clock().now();
        let Self { shared, knobs, events, members, beneath, contested, .. } = self;
        for Member { settings, engine, stopped, .. } in members {
            if engine.next_tick().is_none_or(|due| due > now) {
                continue;
            }
            let ran = engine.status().standing == Standing::Running;
            let known = (&mut *beneath, &mut *contested);
            engine.tick(&mut GatewayHost::new(shared, knobs, events, known, &settings.name));
            if ran && let Standing::Stopped { why } = engine.status().standing {
                *stopped = Some(shared.controllers_stopped().enter());
                tell(events, now, &settings.name, "stopped", Some(&why));
            }
        }
        self.publish();
    }

    fn reload(&mut self) {
        let wanted = self.shared.snapshot().settings.controllers.clone();
        let mut before = std::mem::take(&mut self.members);
        for settings in wanted {
            let known = before.iter().position(|member| member.settings.name == settings.name);
            let known = known.map(|position| before.swap_remove(position));
            self.members.extend(self.renewed(&settings, known));
        }
        for mut gone in before {
            let name = &gone.settings.name;
            let Self { shared, knobs, events, beneath, contested, .. } = &mut *self;
            gone.engine.retire(&mut GatewayHost::new(shared, knobs, events, (beneath, contested), name));
            tell(&self.events, self.shared.clock().now(), name, "ended", None);
        }
        self.publish();
    }

    /// The controller as it is wanted now; as it was if that cannot be.
    fn renewed(&self, settings: &config::Controller, known: Option<Member>) -> Option<Member> {
        let source = match read(settings) {
            Ok(source) => source,
            Err(error) => {
                self.say(&settings.name, &error);
                return known;
            }
        };
        if known.as_ref().is_some_and(|known| known.settings == *settings && known.source == source) {
            return known;
        }
        let member = Member::compiled(settings, source, &self.shared);
        if member.is_ok() {
            tell(&self.events, self.shared.clock().now(), &settings.name, "started", None);
        }
        match (member, known) {
            (Ok(mut member), Some(known)) => {
                tracing::info!(controller = settings.name, "the script has changed and begins anew");
                member.engine = member.engine.with_memory(known.engine.into_memory());
                Some(member)
            }
            (Ok(member), None) => Some(member),
            (Err(error), known) => {
                self.say(&settings.name, &error);
                known
            }
        }
    }

    fn say(&self, name: &str, error: &ControllerError) {
        tracing::error!("{error}");
        let why = match error {
            ControllerError::File { path, source, .. } => format!("{path}: {source}"),
            ControllerError::Load { source, .. } => source.to_string(),
        };
        tell(&self.events, self.shared.clock().now(), name, "failed", Some(&why));
    }

    fn publish(&self) {
        let statuses = self
            .members
            .iter()
            .map(|member| (member.settings.name.clone(), member.engine.status()))
            .collect();
        *self.board.0.lock().unwrap_or_else(PoisonError::into_inner) = statuses;
    }
}

impl Member {
    fn compiled(
        settings: &config::Controller,
        source: String,
        shared: &Arc<Shared>,
    ) -> Result<Self, ControllerError> {
        let limits = Limits {
            steps: settings.turn_steps,
            memory: usize::try_from(settings.memory).unwrap_or(usize::MAX),
            strikes: settings.strikes,
            every_min: settings.every_min,
            on_failure: settings.on_failure,
            seed: settings.seed,
        };
        let began = Cell::new((0, shared.clock().now()));
        let (shared, time) = (Arc::clone(shared), settings.turn_time);
        let guard = move |turn| {
            let now = shared.clock().now();
            if began.get().0 != turn {
                began.set((turn, now));
            }
            now.since(began.get().1) > time
        };
        let engine = Engine::guarded(&settings.name, &source, limits, guard)
            .map_err(|source| ControllerError::Load { name: settings.name.clone(), source })?;
        Ok(Self { settings: settings.clone(), source, engine, stopped: None })
    }
}

fn tell(events: &Events, at: Timestamp, name: &str, what: &str, text: Option<&str>) {
    events.publish(at, Kind::Controller, json!({ "name": name, "what": what, "text": text }));
}

fn compile(settings: &config::Controller, shared: &Arc<Shared>) -> Result<Member, ControllerError> {
    Member::compiled(settings, read(settings)?, shared)
}

fn read(settings: &config::Controller) -> Result<String, ControllerError> {
    let mut source = String::new();
    config::open_file(&settings.file)
        .and_then(|file| file.take(FILE_BYTES_MAX).read_to_string(&mut source))
        .map_err(|source| ControllerError::File {
            name: settings.name.clone(),
            path: settings.file.display().to_string(),
            source,
        })?;
    Ok(source)
}
