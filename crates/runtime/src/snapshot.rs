//! Snapshots: rules, servers' settings and knobs as immutable versions that cores compare by one atomic.

mod published;

/// What [`published`] is made of; its test makes it of other things.
mod sync {
    pub(super) use std::sync::atomic::AtomicU64;

    pub(super) use arc_swap::ArcSwap;
}

use std::{collections::BTreeMap, sync::Arc};

pub(crate) use published::Published;
use published::Versioned;
use tidegate_config::{self as config, Settings};
use tidegate_control::{
    ApplicationId, ClassId,
    classify::{Classifier, Router},
    knobs::Values,
    rewrite::Rewriter,
};

use tidegate_tokens::Signer;

use crate::{PageTemplate, application::ApplicationState};

/// One version of everything that is configured.
#[derive(Debug)]
pub struct Snapshot {
    /// Grows by one with each publication.
    pub version: u64,
    /// The settings it was built from.
    pub settings: Arc<Settings>,
    /// The applications served, in the order of the settings.
    pub applications: Vec<Arc<Application>>,
    /// The compiled routes; the same as long as no route changes.
    pub router: Arc<Router>,
    /// Positions of the applications that routes lead to.
    routed: Vec<Option<usize>>,
    hosts: Hosts,
}

/// One version of an application.
#[derive(Debug)]
pub struct Application {
    /// Its id, stable over versions.
    pub id: ApplicationId,
    /// Its settings.
    pub settings: config::Application,
    /// Its classes, dense by [`ClassId`]; classes no longer configured keep their last values.
    pub classes: Vec<config::Class>,
    /// Its compiled rules; the same as long as no rule changes.
    pub classifier: Arc<Classifier>,
    /// Its compiled path rewrites; as the rules.
    pub rewriter: Arc<Rewriter>,
    /// The body of its maintenance page, if it has one of its own.
    pub maintenance_page: Option<Arc<[u8]>>,
    /// The page for those who wait, if it has one of its own.
    pub waiting_page: Option<Arc<PageTemplate>>,
    /// What signs and checks the tokens of its waiting room.
    pub signer: Signer,
    /// What lives on from version to version.
    pub state: Arc<ApplicationState>,
}

impl Snapshot {
    pub(crate) fn new(
        version: u64,
        settings: Arc<Settings>,
        applications: Vec<Arc<Application>>,
        router: Arc<Router>,
    ) -> Self {
        let hosts = Hosts::new(&applications);
        let mut snapshot = Self { version, settings, applications, router, routed: Vec::new(), hosts };
        snapshot.routed =
            snapshot.router.applications().iter().map(|name| snapshot.application_named(name)).collect();
        snapshot
    }

    /// The position of the application to which the router leads, by what it says.
    #[must_use]
    pub fn routed(&self, target: usize) -> Option<usize> {
        self.routed.get(target).copied().flatten()
    }

    /// The position of the application that serves a host (lower case, without port): the one
    /// that names it, else the one with the longest matching wildcard, else the one without hosts.
    #[must_use]
    pub fn application_for_host(&self, host: &str) -> Option<usize> {
        self.hosts.find(host)
    }

    /// The position of the application of that name.
    #[must_use]
    pub fn application_named(&self, name: &str) -> Option<usize> {
        self.applications.iter().position(|application| application.settings.name == name)
    }
}

impl Versioned for Snapshot {
    fn version(&self) -> u64 {
        self.version
    }
}

impl Application {
    /// The name of a class.
    #[must_use]
    pub fn class_name(&self, class: ClassId) -> &str {
        self.classes.get(class.index()).map_or("", |class| &class.name)
    }

    /// What visitors of a class are told while the waiting room's doors are closed; `None`: a sentence of ours.
    #[must_use]
    pub fn closed_message(&self, class: ClassId) -> Option<&str> {
        let own = self.classes.get(class.index());
        let of_name = |name: &String| self.classes.iter().find(|class| class.name == *name);
        let group = own.and_then(|class| class.waiting_room.group.as_ref()).and_then(of_name).or(own);
        let message = group.and_then(|class| class.waiting_room.closed_message.as_ref());
        message.or(self.settings.waiting_room.closed_message.as_ref()).map(String::as_str)
    }

    /// The knobs of a class; those of the default class for an id that is not of this application.
    #[must_use]
    pub fn class_values(&self, class: ClassId) -> &Values {
        &self.classes.get(class.index()).unwrap_or(&self.classes[0]).values
    }
}

/// Which application serves which host.
#[derive(Debug, Default)]
struct Hosts {
    exact: BTreeMap<String, usize>,
    /// By the part behind `*`, dot included.
    wildcard: BTreeMap<String, usize>,
    fallback: Option<usize>,
}

impl Hosts {
    fn new(applications: &[Arc<Application>]) -> Self {
        let mut hosts = Self::default();
        for (position, application) in applications.iter().enumerate() {
            let Some(named) = &application.settings.hosts else {
                hosts.fallback = Some(position);
                continue;
            };
            for host in named {
                match host.strip_prefix('*') {
                    Some(suffix) => hosts.wildcard.insert(suffix.to_owned(), position),
                    None => hosts.exact.insert(host.clone(), position),
                };
            }
        }
        hosts
    }

    fn find(&self, host: &str) -> Option<usize> {
        if let Some(position) = self.exact.get(host) {
            return Some(*position);
        }
        if !self.wildcard.is_empty() {
            // The first dot leaves the longest suffix.
            for (dot, _) in host.match_indices('.') {
                if let Some(position) = self.wildcard.get(&host[dot..]) {
                    return Some(*position);
                }
            }
        }
        self.fallback
    }
}

#[cfg(test)]
mod tests;
