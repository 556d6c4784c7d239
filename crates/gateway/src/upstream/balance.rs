//! Choosing a server for a request, and what is held while it is there.

use std::{rc::Rc, sync::Arc};

use tidegate_control::{ServerId, balance::Candidate};
use tidegate_runtime::{
    CoreApplication,
    servers::{Endpoint, Server},
};

use super::{
    Upstreams,
    plan::Plan,
    servers::{Choices, CoreServer},
};

/// What a request says about where it wants to go.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ChooseHint<'a> {
    /// Hash of what consistent hashing keeps together.
    pub(crate) hash: u64,
    /// The value of the sticky cookie it came with.
    pub(crate) sticky: Option<&'a str>,
    /// Servers not to choose: those that have failed it.
    pub(crate) exclude: &'a [ServerId],
}

/// A server chosen for one request, which counts as in flight there until this is dropped.
#[must_use]
pub(crate) struct Chosen {
    pub(super) server: Rc<CoreServer>,
    pub(super) plan: Rc<Plan>,
    /// Whether the visitor's cookie names another server or none.
    is_new_to_visitor: bool,
}

impl Upstreams {
    /// Chooses a server. `None` if none is in service, or all are full: then
    /// [`Upstreams::vacancy`] says when to ask again.
    pub(crate) fn choose(&self, application: &CoreApplication, hint: ChooseHint<'_>) -> Option<Chosen> {
        let servers = self.servers(application);
        servers.refresh(&self.core);
        let plan = servers.plan();
        let mut choices = servers.choices.borrow_mut();
        let mut is_new_to_visitor = plan.is_sticky;
        if let Some(token) = hint.sticky
            && plan.is_sticky
            && let Some(server) = choices.servers.iter().find(|server| server.shared.token() == token)
            && !hint.exclude.contains(&server.shared.id())
        {
            if server.shared.try_begin() {
                return Some(Chosen { server: Rc::clone(server), plan, is_new_to_visitor: false });
            }
            // Full, not gone: the visitor comes back to it with the next request.
            is_new_to_visitor = false;
        }
        let server = self.choose_by_policy(&mut choices, hint)?;
        Some(Chosen { server, plan, is_new_to_visitor })
    }

    /// Resolves when it is worth asking again after [`Upstreams::choose`] found nobody: a server has
    /// room again, first for the highest `priority`, or the set has changed. False if no server is in service that
    /// could come to have room.
    pub(crate) async fn vacancy(
        &self,
        application: &CoreApplication,
        exclude: &[ServerId],
        priority: u8,
    ) -> bool {
        let servers = self.servers(application);
        let snapshot = servers.application();
        // Taken before looking, so that nothing is missed in between.
        let mut vacancy = snapshot.state.servers().vacancy(priority);
        loop {
            servers.refresh(&self.core);
            let is_room_of_others = {
                let mut choices = servers.choices.borrow_mut();
                choices.refresh_loads();
                let mut wanted =
                    choices.candidates.iter().filter(|candidate| !exclude.contains(&candidate.id));
                if wanted.clone().next().is_none() {
                    return false;
                }
                if wanted.any(|candidate| candidate.is_open()) {
                    return true;
                }
                choices.candidates.iter().any(Candidate::is_open)
            };
            if is_room_of_others {
                vacancy.pass_on();
            }
            // Who comes meanwhile may take the room; the place stays.
            (&mut vacancy).await;
        }
    }

    fn choose_by_policy(&self, choices: &mut Choices, hint: ChooseHint<'_>) -> Option<Rc<CoreServer>> {
        if let [server] = &choices.servers[..] {
            let is_wanted = !hint.exclude.contains(&server.shared.id());
            return (is_wanted && server.shared.try_begin()).then(|| Rc::clone(server));
        }
        // Another core may fill the server between the look and the beginning; then look again.
        for _ in 0..choices.servers.len() {
            choices.refresh_loads();
            let generation = choices.generation;
            let random = self.random();
            let id = if hint.exclude.is_empty() {
                let Choices { balancer, candidates, .. } = choices;
                balancer.choose(generation, candidates, hint.hash, random)?
            } else {
                let mut candidates = choices.candidates.clone();
                for candidate in candidates.iter_mut().filter(|c| hint.exclude.contains(&c.id)) {
                    candidate.weight = 0;
                }
                choices.balancer.choose(generation, &candidates, hint.hash, random)?
            };
            let server = choices.server(id)?;
            if server.shared.try_begin() {
                return Some(Rc::clone(server));
            }
        }
        None
    }
}

impl Chosen {
    /// The server, for logs.
    pub(crate) fn server(&self) -> &Arc<Server> {
        &self.server.shared
    }

    /// The server's name in the settings.
    pub(crate) fn name(&self) -> &str {
        self.server.shared.name()
    }

    /// The server's address.
    pub(crate) fn endpoint(&self) -> &Endpoint {
        self.server.shared.endpoint()
    }

    /// The value to set the sticky cookie to; `None` if the application has none, or the visitor
    /// has the right one already.
    pub(crate) fn sticky_value(&self) -> Option<String> {
        self.is_new_to_visitor.then(|| self.server.shared.token().to_owned())
    }
}

impl Drop for Chosen {
    fn drop(&mut self) {
        self.server.shared.end();
    }
}

impl std::fmt::Debug for Chosen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Chosen").field("server", &self.name()).field("at", self.endpoint()).finish()
    }
}
