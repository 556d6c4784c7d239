//! What one process shares: the clock, the present snapshot, meters, budgets, connections.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError},
};

use tidegate_config::{Settings, read_file};
use tidegate_control::{
    ApplicationId, Timestamp,
    archive::Archives,
    classify::{Classifier, Router},
    connections::{ConnectionSettings, Connections},
    knobs::keys,
    rewrite::Rewriter,
};
use tidegate_tokens::{ApplicationKey, Keys};

use crate::{
    Application, Clock, Level, PageTemplate, RoomSecrets, Snapshot, Spans, SpoolBudget, Totals, Workers,
    application::{ApplicationRef, ApplicationState, class_id},
    overrides::Layers,
    processes::Processes,
    snapshot::Published,
};

/// Size of the largest page that is read, bytes.
const PAGE_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Most files of certificates that are told apart.
const CERTIFICATES_MAX: usize = 100;

/// When the first certificate in a file expires.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CertificateExpiry {
    /// When.
    pub at: Timestamp,
    /// Its file, as the configuration names it.
    pub file: String,
}

/// Everything the workers and the admin interface of one process share.
#[derive(Debug)]
pub struct Shared {
    clock: Clock,
    snapshot: Published<Snapshot>,
    /// Applications ever served, by name, so that ids and state outlive a reload. Held while a
    /// snapshot is built.
    pub(crate) applications: Mutex<BTreeMap<String, ApplicationRef>>,
    pub(crate) layers: Mutex<Layers>,
    archives: Mutex<Archives>,
    connections: Mutex<Connections>,
    spool: SpoolBudget,
    parked: Level,
    controllers_stopped: Level,
    certificates: Mutex<Vec<CertificateExpiry>>,
    spans: Spans,
    totals: Totals,
    workers: Workers,
    processes: Mutex<Processes>,
    secrets: Mutex<RoomSecrets>,
}

/// Why new settings were not taken up; the old ones stay in force.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PublishError {
    /// A file the settings name could not be read.
    #[error("application {application}: maintenance page {path}: {source}")]
    MaintenancePage {
        /// The application.
        application: String,
        /// The file.
        path: String,
        /// What went wrong.
        source: std::io::Error,
    },
    /// The page for those who wait names what there is not, or could not be read.
    #[error("application {application}: waiting_room.page {path}: {message}")]
    WaitingPage {
        /// The application.
        application: String,
        /// The file.
        path: String,
        /// What is wrong with it.
        message: String,
    },
    /// Rules or rewrites that do not compile, which validated settings never hold.
    #[error("application {application}: {message}")]
    Rules {
        /// The application.
        application: String,
        /// Every fault, a line each.
        message: String,
    },
    /// Routes that do not compile, which validated settings never hold; every fault, a line each.
    #[error("{0}")]
    Routes(String),
}

impl Shared {
    /// The shared state of a process that begins with `settings`.
    ///
    /// # Errors
    ///
    /// As [`Shared::publish`].
    pub fn new(settings: Settings) -> Result<Arc<Self>, PublishError> {
        Self::with_secrets(settings, RoomSecrets::of_this_process(Clock::start().now()))
    }

    /// As [`Shared::new`], with what waiting rooms sign with and draw by, which outlives the process.
    ///
    /// # Errors
    ///
    /// As [`Shared::publish`].
    pub fn with_secrets(settings: Settings, secrets: RoomSecrets) -> Result<Arc<Self>, PublishError> {
        let clock = Clock::start();
        let mut applications = BTreeMap::new();
        let connections = Connections::new(ConnectionSettings::from_values(&settings.host));
        let spool = SpoolBudget::new(settings.host.get(keys::SPOOL_TOTAL).0);
        let layers = Layers::new(settings.clone());
        let archives = Archives::new(settings.archives.clone());
        let first = build(1, settings, clock, &mut applications, &secrets, None)?;
        Ok(Arc::new(Self {
            clock,
            snapshot: Published::new(first),
            applications: Mutex::new(applications),
            layers: Mutex::new(layers),
            archives: Mutex::new(archives),
            connections: Mutex::new(connections),
            spool,
            parked: Level::default(),
            controllers_stopped: Level::default(),
            certificates: Mutex::default(),
            spans: Spans::default(),
            totals: Totals::default(),
            workers: Workers::default(),
            processes: Mutex::default(),
            secrets: Mutex::new(secrets),
        }))
    }

    /// Puts newly configured settings in force for every request from now on, without dropping one.
    /// Knobs that were changed since keep the values they were given.
    ///
    /// # Errors
    ///
    /// [`PublishError`]; the old settings stay in force.
    pub fn publish(&self, settings: Settings) -> Result<(), PublishError> {
        let mut known = self.applications.lock().unwrap_or_else(PoisonError::into_inner);
        let mut layers = self.layers.lock().unwrap_or_else(PoisonError::into_inner);
        self.put_in_force(layers.over(settings.clone()), &mut known, Files::Read)?;
        layers.renew(settings);
        Ok(())
    }

    /// Puts the present settings in force once more: the files that they name are read again. Servers added and removed
    /// since, and knobs changed, stay so.
    ///
    /// # Errors
    ///
    /// As [`Shared::publish`].
    pub fn renew(&self) -> Result<(), PublishError> {
        let mut known = self.applications.lock().unwrap_or_else(PoisonError::into_inner);
        let settings = Settings::clone(&self.snapshot.load().settings);
        self.put_in_force(settings, &mut known, Files::Read)
    }

    /// Signs tokens of waiting rooms with other keys from now on.
    ///
    /// # Errors
    ///
    /// As [`Shared::publish`].
    pub fn set_room_keys(&self, keys: Keys) -> Result<(), PublishError> {
        self.secrets.lock().unwrap_or_else(PoisonError::into_inner).keys = keys;
        // Every application anew, though no setting has changed.
        self.renew()
    }

    /// Takes keys by which another process signs the tokens that an application of this one checks.
    ///
    /// # Errors
    ///
    /// As [`Shared::publish`].
    pub fn hear_room_keys(
        &self,
        application: &ApplicationState,
        keys: Vec<ApplicationKey>,
    ) -> Result<(), PublishError> {
        if !application.hear_keys(keys) {
            return Ok(());
        }
        self.renew()
    }

    /// What waiting rooms sign with and draw by.
    #[must_use]
    pub fn room_secrets(&self) -> RoomSecrets {
        self.secrets.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The keys by which tokens of waiting rooms are signed.
    #[must_use]
    pub fn room_keys(&self) -> Keys {
        self.room_secrets().keys
    }

    /// Changes the present settings and publishes the result. Edits follow one another: none is
    /// lost between two that come at once.
    ///
    /// # Errors
    ///
    /// As [`Shared::publish`].
    pub fn edit(&self, change: impl FnOnce(&mut Settings)) -> Result<(), PublishError> {
        // Held while building, so that versions follow one another.
        let mut known = self.applications.lock().unwrap_or_else(PoisonError::into_inner);
        let mut settings = Settings::clone(&self.snapshot.load().settings);
        change(&mut settings);
        self.put_in_force(settings, &mut known, Files::AsRead)
    }

    /// Builds the next snapshot and puts it in force, under the lock of `known`.
    pub(crate) fn put_in_force(
        &self,
        settings: Settings,
        known: &mut BTreeMap<String, ApplicationRef>,
        files: Files,
    ) -> Result<(), PublishError> {
        let secrets = self.secrets.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let before = self.snapshot.load();
        let snapshot =
            build(before.version + 1, settings, self.clock, known, &secrets, Some((&before, files)))?;
        let host = &snapshot.settings.host;
        self.with_connections(|connections, _| connections.configure(ConnectionSettings::from_values(host)));
        self.spool.set_total(snapshot.settings.host.get(keys::SPOOL_TOTAL).0);
        self.snapshot.store(snapshot);
        Ok(())
    }

    /// The clock.
    #[must_use]
    pub const fn clock(&self) -> &Clock {
        &self.clock
    }

    /// The present snapshot.
    #[must_use]
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.snapshot.load()
    }

    /// The present snapshot's version, for one load.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.snapshot.version()
    }

    /// Memory for bodies read ahead.
    #[must_use]
    pub const fn spool(&self) -> &SpoolBudget {
        &self.spool
    }

    /// Idle client connections that keep their socket only.
    #[must_use]
    pub const fn parked(&self) -> &Level {
        &self.parked
    }

    /// Controllers that were stopped after failures.
    #[must_use]
    pub const fn controllers_stopped(&self) -> &Level {
        &self.controllers_stopped
    }

    /// When the certificates of the listeners and the admin interface expire, the first one first.
    #[must_use]
    pub fn certificates(&self) -> Vec<CertificateExpiry> {
        self.certificates.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Notes when the certificates of the listeners and the admin interface expire; of very many those that expire first.
    pub fn set_certificates(&self, mut certificates: Vec<CertificateExpiry>) {
        certificates.sort();
        // Several listeners may have the same file.
        let mut seen = BTreeSet::new();
        certificates.retain(|certificate| seen.insert(certificate.file.clone()));
        certificates.truncate(CERTIFICATES_MAX);
        *self.certificates.lock().unwrap_or_else(PoisonError::into_inner) = certificates;
    }

    /// Traced requests on their way to the exporter.
    #[must_use]
    pub const fn spans(&self) -> &Spans {
        &self.spans
    }

    /// The worker threads that run.
    #[must_use]
    pub const fn workers(&self) -> &Workers {
        &self.workers
    }

    /// What all cores have counted.
    #[must_use]
    pub const fn totals(&self) -> &Totals {
        &self.totals
    }

    /// The archives of everything that is measured, as they are now: a copy that shares its points with them, so that
    /// however long a question to it takes, the recorder goes on.
    #[must_use]
    pub fn measured(&self) -> Archives {
        self.change_measured(|archives| archives.clone())
    }

    /// Changes the archives: only to record, and to take up what was recorded before.
    pub fn change_measured<R>(&self, change: impl FnOnce(&mut Archives) -> R) -> R {
        change(&mut self.archives.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Looks at what the processes of local servers use.
    pub(crate) fn look_at_processes(&self) {
        let mut wanted = BTreeMap::new();
        for application in &self.snapshot().applications {
            for server in application.state.servers().members().iter() {
                wanted.insert((application.id, server.id()), server.endpoint().clone());
            }
        }
        let now = self.clock.now();
        self.with_processes(|processes| processes.look(now, wanted));
    }

    /// Runs `f` on what is known of the processes of local servers.
    pub(crate) fn with_processes<R>(&self, f: impl FnOnce(&mut Processes) -> R) -> R {
        f(&mut self.processes.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Runs `f` on the admission of connections at the present time, under its lock.
    pub fn with_connections<R>(&self, f: impl FnOnce(&mut Connections, Timestamp) -> R) -> R {
        let mut connections = self.connections.lock().unwrap_or_else(PoisonError::into_inner);
        f(&mut connections, self.clock.now())
    }
}

/// Whether files that the settings name are read again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Files {
    /// They may have changed.
    Read,
    /// What was read stands.
    AsRead,
}

/// Builds a version from the one before it: what has not changed is taken over as it is, so that a
/// change of a knob costs what that knob's application costs without its rules.
fn build(
    version: u64,
    settings: Settings,
    clock: Clock,
    known: &mut BTreeMap<String, ApplicationRef>,
    secrets: &RoomSecrets,
    before: Option<(&Snapshot, Files)>,
) -> Result<Snapshot, PublishError> {
    let mut parts = Vec::with_capacity(settings.applications.len());
    // Everything that can fail comes before anything that takes effect.
    let router = match before {
        Some((snapshot, _)) if snapshot.settings.routes == settings.routes => Arc::clone(&snapshot.router),
        _ => Arc::new(
            Router::compile(&settings.routes).map_err(|faults| PublishError::Routes(lines(&faults)))?,
        ),
    };
    for application in &settings.applications {
        let before = before.and_then(|(snapshot, files)| {
            let position = snapshot.application_named(&application.name)?;
            Some((snapshot.applications.get(position)?, files))
        });
        parts.push(match before {
            Some((same, Files::AsRead)) if same.settings == *application => Part::Same(Arc::clone(same)),
            before => Part::New(Compiled::new(application, known.get(&application.name), before)?),
        });
    }
    let mut applications = Vec::with_capacity(parts.len());
    for (application, part) in settings.applications.iter().zip(parts) {
        let compiled = match part {
            Part::New(compiled) => compiled,
            Part::Same(application) => {
                applications.push(application);
                continue;
            }
        };
        let next = ApplicationId(u16::try_from(known.len()).unwrap_or(u16::MAX));
        let state = known
            .entry(application.name.clone())
            .or_insert_with(|| Arc::new(ApplicationState::new(next, clock, application, secrets)));
        let classes = state.configure(application);
        let names: Vec<&str> = classes.iter().map(|class| class.name.as_str()).collect();
        applications.push(Arc::new(Application {
            id: state.id(),
            signer: state.signer(application, secrets, &names),
            settings: application.clone(),
            classes,
            waiting_page: compiled.waiting_page,
            classifier: compiled.classifier,
            rewriter: compiled.rewriter,
            maintenance_page: compiled.maintenance_page,
            state: Arc::clone(state),
        }));
    }
    for (name, state) in known.iter() {
        if !settings.applications.iter().any(|application| application.name == *name) {
            state.retire();
        }
    }
    Ok(Snapshot::new(version, Arc::new(settings), applications, router))
}

/// Faults, a line each.
fn lines(faults: &[impl ToString]) -> String {
    faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

enum Part {
    /// Nothing of it has changed.
    Same(Arc<Application>),
    New(Compiled),
}

struct Compiled {
    classifier: Arc<Classifier>,
    rewriter: Arc<Rewriter>,
    maintenance_page: Option<Arc<[u8]>>,
    waiting_page: Option<Arc<PageTemplate>>,
}

impl Compiled {
    /// Compiles what is not the same in the version `before`. Ids of classes never change, so rules
    /// that are written the same mean the same.
    fn new(
        application: &tidegate_config::Application,
        known: Option<&ApplicationRef>,
        before: Option<(&Arc<Application>, Files)>,
    ) -> Result<Self, PublishError> {
        let name = &application.name;
        let rules = |message: String| PublishError::Rules { application: name.clone(), message };
        let classifier = match before {
            Some((before, _)) if before.settings.rules == application.rules => Arc::clone(&before.classifier),
            _ => {
                let classes = known
                    .map_or_else(|| application.classes.clone(), |state| state.merged_classes(application));
                let classifier = Classifier::compile(&application.rules, |class| class_id(&classes, class));
                Arc::new(classifier.map_err(|faults| rules(lines(&faults)))?)
            }
        };
        let rewriter = match before {
            Some((before, _)) if before.settings.rewrites == application.rewrites => {
                Arc::clone(&before.rewriter)
            }
            _ => {
                let patterns: Vec<(&str, &str)> = application
                    .rewrites
                    .iter()
                    .map(|r| (r.pattern.as_str(), r.replacement.as_str()))
                    .collect();
                let rewriter = Rewriter::compile(&patterns);
                Arc::new(rewriter.map_err(|faults| rules(lines(&faults)))?)
            }
        };
        let maintenance_page = match (&application.maintenance_page, before) {
            (None, _) => None,
            (page, Some((before, Files::AsRead))) if before.settings.maintenance_page == *page => {
                before.maintenance_page.clone()
            }
            (Some(path), _) => Some(read_file(path, PAGE_BYTES_MAX).map(Arc::from).map_err(|source| {
                PublishError::MaintenancePage {
                    application: name.clone(),
                    path: path.display().to_string(),
                    source,
                }
            })?),
        };
        let read_waiting_page = |path: &std::path::Path| {
            let fault = |message: String| PublishError::WaitingPage {
                application: name.clone(),
                path: path.display().to_string(),
                message,
            };
            let bytes = read_file(path, PAGE_BYTES_MAX).map_err(|error| fault(error.to_string()))?;
            let text = String::from_utf8(bytes).map_err(|error| fault(error.to_string()))?;
            PageTemplate::parse(&text).map(Arc::new).map_err(|error| fault(error.to_string()))
        };
        let waiting_page = match (&application.waiting_room.page, before) {
            (page, Some((before, Files::AsRead))) if before.settings.waiting_room.page == *page => {
                before.waiting_page.clone()
            }
            (page, _) => page.as_deref().map(read_waiting_page).transpose()?,
        };
        Ok(Self { classifier, rewriter, maintenance_page, waiting_page })
    }
}
