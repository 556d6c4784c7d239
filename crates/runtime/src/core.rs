//! A core's own handles: its view of the present snapshot, resolved once a version, and its meters.

use std::{cell::RefCell, rc::Rc, sync::Arc};

use tidegate_control::ClassId;

use crate::{Application, Cells, CoreMeters, Gate, Shared, Snapshot, Subject};

/// What one worker thread holds. Not `Send`.
#[derive(Debug)]
pub struct Core {
    index: usize,
    shared: Arc<Shared>,
    meters: CoreMeters,
    view: RefCell<Rc<View>>,
}

/// A core's view of one snapshot.
#[derive(Debug)]
pub struct View {
    /// The snapshot.
    pub snapshot: Arc<Snapshot>,
    /// Its applications, in the same order.
    pub applications: Vec<Rc<CoreApplication>>,
}

/// A core's handles of one application.
#[derive(Debug)]
pub struct CoreApplication {
    /// The application.
    pub application: Arc<Application>,
    /// Its admission.
    pub gate: Gate,
    /// Whether a route leads to it.
    pub is_routed: bool,
    /// This core's cells of its classes, dense by [`ClassId`].
    classes: Vec<Rc<Cells>>,
}

impl Core {
    /// The handles of worker `index`.
    #[must_use]
    pub fn new(index: usize, shared: Arc<Shared>) -> Self {
        let meters = CoreMeters::default();
        let view = RefCell::new(Rc::new(View::new(shared.snapshot(), &meters)));
        Self { index, shared, meters, view }
    }

    /// Which worker this is, from 0.
    #[must_use]
    pub const fn index(&self) -> usize {
        self.index
    }

    /// What all cores share.
    #[must_use]
    pub const fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// This core's meters.
    #[must_use]
    pub const fn meters(&self) -> &CoreMeters {
        &self.meters
    }

    /// The present view; one load when nothing has changed. Take it once a request.
    #[must_use]
    pub fn view(&self) -> Rc<View> {
        if self.view.borrow().snapshot.version != self.shared.version() {
            let view = Rc::new(View::new(self.shared.snapshot(), &self.meters));
            self.view.replace(view);
        }
        Rc::clone(&self.view.borrow())
    }

    /// Adds this core's counts to the totals. Each worker calls it every second and when it ends.
    pub fn flush_meters(&self) {
        self.meters.flush(self.shared.totals());
    }
}

impl View {
    fn new(snapshot: Arc<Snapshot>, meters: &CoreMeters) -> Self {
        let applications = snapshot
            .applications
            .iter()
            .map(|application| {
                let class = |class: usize| ClassId(u16::try_from(class).unwrap_or(u16::MAX));
                Rc::new(CoreApplication {
                    application: Arc::clone(application),
                    gate: application.state.gate().clone(),
                    is_routed: snapshot.router.applications().contains(&application.settings.name),
                    classes: (0..application.classes.len())
                        .map(|index| meters.cells(Subject::Class(application.id, class(index))))
                        .collect(),
                })
            })
            .collect();
        Self { snapshot, applications }
    }

    /// The application that serves a host (lower case, without port).
    #[must_use]
    pub fn application_for_host(&self, host: &str) -> Option<&Rc<CoreApplication>> {
        self.applications.get(self.snapshot.application_for_host(host)?)
    }
}

impl CoreApplication {
    /// This core's cells of a class; those of the default class for an id that is not of this
    /// application.
    #[must_use]
    pub fn class(&self, class: ClassId) -> &Cells {
        self.classes.get(class.index()).unwrap_or(&self.classes[0])
    }
}
