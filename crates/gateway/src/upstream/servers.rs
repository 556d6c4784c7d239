//! One application's servers as one core sees them: who may be chosen, and this core's connections to each.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    sync::Arc,
    time::Duration,
};

use tidegate_control::{
    ServerId, Timestamp,
    balance::{Balancer, Candidate},
    keep_alive::Waits,
    meters::{Meter, UpstreamError},
};
use tidegate_runtime::{Application, Cells, Core, Subject, servers::Server};

use super::{plan::Plan, pool::Pool};

/// An application's servers on one core.
pub(super) struct CoreServers {
    application: RefCell<Arc<Application>>,
    plan: RefCell<Rc<Plan>>,
    /// Who may be chosen now.
    pub(super) choices: RefCell<Choices>,
    /// Every server this core has met, dense by id.
    servers: RefCell<Vec<Option<Rc<CoreServer>>>>,
}

/// Who may be chosen, as of a version of the set and until health changes by itself.
pub(super) struct Choices {
    pub(super) balancer: Balancer,
    pub(super) candidates: Vec<Candidate>,
    /// In the order of the candidates.
    pub(super) servers: Vec<Rc<CoreServer>>,
    /// Grows with each change of the two.
    pub(super) generation: u64,
    version: Option<u64>,
    until: Timestamp,
}

/// A server on one core.
pub(super) struct CoreServer {
    pub(super) shared: Arc<Server>,
    pub(super) cells: Rc<Cells>,
    pub(super) pool: Pool,
    /// How long requests took, since the last sweep.
    pub(super) waits: Cell<Waits>,
}

impl CoreServers {
    pub(super) fn new(application: Arc<Application>, plan: Rc<Plan>) -> Rc<Self> {
        let balancer = Balancer::new(plan.policy);
        Rc::new(Self {
            application: RefCell::new(application),
            plan: RefCell::new(plan),
            choices: RefCell::new(Choices {
                balancer,
                candidates: Vec::new(),
                servers: Vec::new(),
                generation: 0,
                version: None,
                until: Timestamp::EPOCH,
            }),
            servers: RefCell::default(),
        })
    }

    /// Whether its settings are those of `application`.
    pub(super) fn is_of(&self, application: &Arc<Application>) -> bool {
        Arc::ptr_eq(&self.application.borrow(), application)
    }

    /// Takes over new settings.
    pub(super) fn configure(&self, application: Arc<Application>, plan: Rc<Plan>) {
        let mut choices = self.choices.borrow_mut();
        choices.balancer.configure(plan.policy);
        choices.version = None;
        self.application.replace(application);
        self.plan.replace(plan);
    }

    /// The settings.
    pub(super) fn plan(&self) -> Rc<Plan> {
        Rc::clone(&self.plan.borrow())
    }

    /// The application.
    pub(super) fn application(&self) -> Arc<Application> {
        Arc::clone(&self.application.borrow())
    }

    /// Every server met on this core.
    pub(super) fn met(&self) -> Vec<Rc<CoreServer>> {
        self.servers.borrow().iter().flatten().cloned().collect()
    }

    /// Brings [`Choices`] up to date if the set or someone's health has changed.
    ///
    /// When every server is out by live failures alone, all of those are choices: sending nowhere
    /// helps nobody. Servers that probes found down stay out.
    pub(super) fn refresh(&self, core: &Core) {
        let application = self.application.borrow();
        let set = application.state.servers();
        let version = set.version();
        let mut choices = self.choices.borrow_mut();
        let is_current = choices.version == Some(version);
        if is_current && choices.until == Timestamp::FAR_FUTURE {
            return;
        }
        let now = core.shared().clock().now();
        if is_current && now < choices.until {
            return;
        }
        let growing_for = self.plan.borrow().slow_start / 50;
        choices.version = Some(version);
        choices.generation += 1;
        choices.until = Timestamp::FAR_FUTURE;
        choices.candidates.clear();
        choices.servers.clear();
        let members = set.members();
        let standings: Vec<_> = members
            .iter()
            .filter(|server| server.is_in_service())
            .map(|server| (server, server.standing(now)))
            .collect();
        let is_anyone_up = standings.iter().any(|(_, standing)| standing.is_up);
        for (server, standing) in standings {
            if let Some(change) = standing.next_change {
                choices.until = choices.until.min(change);
            }
            if standing.is_growing {
                let step = growing_for.max(Duration::from_millis(10));
                choices.until = choices.until.min(now + step);
            }
            if standing.is_up || (!is_anyone_up && !standing.is_probed_down) {
                choices.candidates.push(server.candidate(now));
                choices.servers.push(self.server(server, core));
            }
        }
    }

    /// This core's side of a server.
    pub(super) fn server(&self, shared: &Arc<Server>, core: &Core) -> Rc<CoreServer> {
        let mut servers = self.servers.borrow_mut();
        let index = shared.id().index();
        if servers.len() <= index {
            servers.resize_with(index + 1, || None);
        }
        let application = self.application.borrow().id;
        let server = servers[index].get_or_insert_with(|| {
            Rc::new(CoreServer {
                shared: Arc::clone(shared),
                cells: core.meters().cells(Subject::Server(application, shared.id())),
                pool: Pool::default(),
                waits: Cell::default(),
            })
        });
        Rc::clone(server)
    }
}

impl Choices {
    /// Brings what changes with every request up to date.
    pub(super) fn refresh_loads(&mut self) {
        for (candidate, server) in self.candidates.iter_mut().zip(&self.servers) {
            server.shared.refresh_candidate(candidate);
        }
    }

    /// The server of that id.
    pub(super) fn server(&self, id: ServerId) -> Option<&Rc<CoreServer>> {
        self.servers.iter().find(|server| server.shared.id() == id)
    }
}

impl CoreServer {
    /// Counts an exchange that failed, against the server's health unless the fault is our own.
    pub(super) fn failed(&self, kind: UpstreamError, now: Timestamp) {
        self.cells.add_labelled(Meter::UPSTREAM_ERRORS, kind as usize, 1);
        if kind != UpstreamError::Exhausted {
            self.shared.on_failure(now);
        }
    }
}
