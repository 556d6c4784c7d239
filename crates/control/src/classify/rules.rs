//! Ordered rules at work: the first whose conditions all hold decides.

use std::{borrow::Cow, cell::OnceCell, net::IpAddr};

use ipnet::IpNet;
use regex::bytes::Regex;

use super::{
    HostPattern, RequestFacts, TlsFacts, TlsSpec, canonical_path,
    fields::{ValueCondition, cookie_values, query_values},
    index::Index,
    path::path_with_dots,
};

/// The conditions of ordered rules, compiled.
#[derive(Clone, Debug, Default)]
pub(super) struct Rules {
    rules: Box<[Rule]>,
    index: Index,
}

impl Rules {
    pub(super) fn new(rules: Box<[Rule]>) -> Self {
        Self { index: Index::new(&rules), rules }
    }

    /// The position of the first rule that holds.
    pub(super) fn first(&self, facts: &impl RequestFacts) -> Option<usize> {
        if self.rules.is_empty() {
            return None;
        }
        self.first_of(&Seen { facts, path: OnceCell::new() })
    }

    /// The same where the path's dot segments are names; `None` if it has none, or there are no rules.
    pub(super) fn first_with_dots(&self, facts: &impl RequestFacts) -> Option<Option<usize>> {
        if self.rules.is_empty() {
            return None;
        }
        let path = path_with_dots(facts.path())?;
        Some(self.first_of(&Seen { facts, path: OnceCell::from(Cow::Owned(path)) }))
    }

    fn first_of<F: RequestFacts>(&self, seen: &Seen<'_, F>) -> Option<usize> {
        self.index
            .candidates(|| seen.path(), seen.facts.host(), seen.facts.method())
            .find(|position| self.rules.get(*position).is_some_and(|rule| rule.holds(seen)))
    }
}

/// A rule, compiled. An empty list of alternatives always holds.
#[derive(Clone, Debug)]
pub(super) struct Rule {
    pub(super) tls: Option<TlsCondition>,
    pub(super) methods: Box<[Box<str>]>,
    pub(super) hosts: Box<[HostPattern]>,
    pub(super) clients: Box<[IpNet]>,
    pub(super) paths: Box<[PathCondition]>,
    pub(super) query: Box<[FieldCondition]>,
    pub(super) cookies: Box<[FieldCondition]>,
    pub(super) headers: Box<[FieldCondition]>,
}

/// Conditions on the TLS session; at least one is set.
#[derive(Clone, Debug)]
pub(super) struct TlsCondition {
    pub(super) spec: TlsSpec,
    pub(super) server_names: Box<[HostPattern]>,
}

/// A condition on the canonical path.
#[derive(Clone, Debug)]
pub(super) enum PathCondition {
    Exact(Box<str>),
    /// Without final slash: the path is this or goes on with `/`.
    Prefix(Box<str>),
    /// With final slash: the path begins so.
    Below(Box<str>),
    /// A glob or regular expression, and the text that all it matches begins with: most paths
    /// differ there already.
    Pattern {
        prefix: Box<str>,
        regex: Regex,
    },
}

/// A condition on a named field.
#[derive(Clone, Debug)]
pub(super) struct FieldCondition {
    pub(super) name: Box<str>,
    pub(super) value: ValueCondition,
}

/// A request under examination, with what was worked out of it so far.
struct Seen<'f, F> {
    facts: &'f F,
    path: OnceCell<Cow<'f, str>>,
}

impl<F: RequestFacts> Seen<'_, F> {
    fn path(&self) -> &str {
        self.path.get_or_init(|| canonical_path(self.facts.path()))
    }
}

impl Rule {
    /// Whether every condition holds: cheap ones first.
    fn holds(&self, seen: &Seen<'_, impl RequestFacts>) -> bool {
        let facts = seen.facts;
        any_or_none(&self.methods, |method| **method == *facts.method())
            && any_or_none(&self.paths, |path| path.holds(seen.path()))
            && any_or_none(&self.hosts, |host| host.matches(facts.host()))
            && self.tls.as_ref().is_none_or(|tls| tls.holds(facts.tls()))
            && self.holds_for_client(facts.client())
            && self.headers.iter().all(|field| {
                let lines = facts.header_values(&field.name);
                field.value.holds(lines.map(|value| Cow::Borrowed(value.trim_ascii())))
            })
            && self
                .query
                .iter()
                .all(|field| field.value.holds(query_values(facts.query().unwrap_or_default(), &field.name)))
            && self.cookies.iter().all(|field| {
                let lines = facts.header_values("cookie");
                field.value.holds(lines.flat_map(|line| cookie_values(line, &field.name)).map(Cow::Borrowed))
            })
    }

    fn holds_for_client(&self, client: Option<IpAddr>) -> bool {
        self.clients.is_empty()
            || client.is_some_and(|address| {
                let address = address.to_canonical();
                self.clients.iter().any(|network| network.contains(&address))
            })
    }
}

fn any_or_none<T>(alternatives: &[T], holds: impl FnMut(&T) -> bool) -> bool {
    alternatives.is_empty() || alternatives.iter().any(holds)
}

impl TlsCondition {
    fn holds(&self, session: Option<TlsFacts<'_>>) -> bool {
        let Some(session) = session else {
            return self.spec.secure == Some(false);
        };
        self.spec.secure != Some(false)
            && self.spec.resumed.is_none_or(|wanted| wanted == session.resumed)
            && self.spec.client_certificate.is_none_or(|wanted| wanted == session.client_certificate)
            && any_or_none(&self.server_names, |pattern| {
                session.server_name.is_some_and(|name| pattern.matches(name))
            })
    }
}

impl PathCondition {
    fn holds(&self, path: &str) -> bool {
        match self {
            Self::Exact(wanted) => *path == **wanted,
            Self::Prefix(wanted) => {
                path.strip_prefix(&**wanted).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            }
            Self::Below(wanted) => path.starts_with(&**wanted),
            Self::Pattern { prefix, regex } => path.starts_with(&**prefix) && regex.is_match(path.as_bytes()),
        }
    }
}
