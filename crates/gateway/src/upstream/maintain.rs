//! What runs beside requests: settings taken over, idle connections closed, names resolved, servers probed.

use std::{cell::RefCell, collections::BTreeSet, rc::Rc, sync::Arc, time::Duration};

use tidegate_control::{ApplicationId, ServerId};
use tidegate_runtime::View;
use tokio::{
    task::JoinSet,
    time::{Instant, MissedTickBehavior},
};

use super::{Upstreams, probe, resolve::Names, servers::CoreServers};

/// Time between looks at idle connections and settings.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);

impl Upstreams {
    /// Runs beside requests for as long as the worker does. Worker 0 also resolves names and probes
    /// servers, for all.
    pub(crate) async fn maintain(self: Rc<Self>) {
        let is_home = self.core.index() == 0;
        let mut version = None;
        // Aborted when this future is dropped.
        let mut tasks = JoinSet::new();
        let mut kept = BTreeSet::new();
        let mut ticks = tokio::time::interval(SWEEP_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let view = self.core.view();
            if version != Some(view.snapshot.version) {
                version = Some(view.snapshot.version);
                self.adopt(&view);
                for application in &view.applications {
                    let id = application.application.id;
                    if is_home && kept.insert(id) {
                        tasks.spawn_local(Rc::clone(&self).keep_resolved(id));
                        tasks.spawn_local(Rc::clone(&self).keep_probed(id));
                    }
                }
                self.changed.notify_waiters();
            }
            self.sweep(is_home);
        }
    }

    /// Looks up every name once, all at once. Before this a server given by name has no address.
    pub(crate) async fn resolve_all(&self) {
        let mut rounds = JoinSet::new();
        for application in &self.core.view().applications {
            let (state, lookup) = (Arc::clone(&application.application.state), Rc::clone(&self.lookup));
            rounds.spawn_local(async move {
                let mut names = Names::default();
                names.begin(state.servers(), &lookup, false);
                names.settle(state.servers()).await;
            });
        }
        while rounds.join_next().await.is_some() {}
    }

    /// Takes over the settings of every application of `view`.
    pub(super) fn adopt(&self, view: &View) {
        for application in &view.applications {
            let _ = self.servers(application);
        }
    }

    /// Closes what has been idle for too long, belongs to servers that have left, or is not to be kept.
    pub(super) fn sweep(&self, is_home: bool) {
        let now = self.core.shared().clock().now();
        let applications: Vec<Rc<CoreServers>> =
            self.applications.borrow().iter().flatten().cloned().collect();
        for servers in applications {
            let plan = servers.plan();
            if is_home {
                for server in servers.application().state.servers().members().iter() {
                    server.refresh(now);
                    server.judge_keep_alive(plan.keep_alive);
                }
            }
            for server in servers.met() {
                server.shared.saw(server.waits.take());
                if !server.shared.is_member() {
                    server.pool.clear();
                    continue;
                }
                server.pool.sweep(&plan, now);
                if !server.shared.keeps_connections() {
                    server.pool.clear_idle();
                }
            }
        }
    }

    /// Looks an application's names up every `resolve.interval`, new ones at once.
    async fn keep_resolved(self: Rc<Self>, id: ApplicationId) {
        let mut names = Names::default();
        let mut due = Instant::now();
        loop {
            let Some(servers) = self.kept(id) else { return };
            let application = servers.application();
            let set = application.state.servers();
            let (now, interval) = (Instant::now(), servers.plan().resolve_interval);
            names.begin(set, &self.lookup, now < due);
            // A shorter interval counts from now on.
            due = if now < due { due.min(now + interval) } else { now + interval };
            // A name that is slow holds up neither the others nor those to come.
            tokio::select! {
                () = self.pause(due) => {}
                () = async { names.settle(set).await; std::future::pending().await } => {}
            }
        }
    }

    /// Probes an application's servers every `health.probe.interval`, each at most once at a time.
    async fn keep_probed(self: Rc<Self>, id: ApplicationId) {
        let clock = *self.core.shared().clock();
        let busy: Rc<RefCell<BTreeSet<ServerId>>> = Rc::default();
        let mut probes = JoinSet::new();
        let mut last: Option<Instant> = None;
        loop {
            let Some(servers) = self.kept(id) else { return };
            let plan = servers.plan();
            let Some(interval) = plan.probe_interval else {
                probes.abort_all();
                busy.borrow_mut().clear();
                self.changed.notified().await;
                continue;
            };
            if let Some(due) = last.map(|last| last + interval)
                && Instant::now() < due
            {
                self.pause(due).await;
                continue;
            }
            last = Some(Instant::now());
            for server in servers.application().state.servers().members().iter() {
                if !busy.borrow_mut().insert(server.id()) {
                    continue;
                }
                let (server, plan, busy) = (server.clone(), Rc::clone(&plan), Rc::clone(&busy));
                let upstreams = Rc::clone(&self);
                probes.spawn_local(async move {
                    if let Err(why) = probe::run(&server, &plan, clock).await {
                        upstreams.say_exhausted(&why);
                    }
                    busy.borrow_mut().remove(&server.id());
                });
            }
            while probes.try_join_next().is_some() {}
        }
    }

    /// Until then, or until settings change.
    async fn pause(&self, until: Instant) {
        tokio::select! {
            () = tokio::time::sleep_until(until) => {}
            () = self.changed.notified() => {}
        }
    }

    /// An application's servers, as long as it is configured or may be again.
    fn kept(&self, id: ApplicationId) -> Option<Rc<CoreServers>> {
        self.applications.borrow().get(id.index()).cloned().flatten()
    }
}
