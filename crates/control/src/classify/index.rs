//! Which rules may hold for a request at all: rules filed by what they ask for exactly.
//!
//! A rule that names whole paths, hosts or methods holds for no request with others. So it is filed under
//! each of the names of one kind, the kind whose names it shares with the fewest rules, and a request tries
//! only what is filed under its own first path segment, host and method, and the rules that could not be
//! filed; all in the order of the rules, as the first that holds decides.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    host::without_root,
    rules::{PathCondition, Rule},
};

/// Positions of rules, ascending.
type Positions = Box<[usize]>;

/// Rules by what they ask for.
#[derive(Clone, Debug, Default)]
pub(super) struct Index {
    by_segment: Filed,
    by_host: Filed,
    by_method: Filed,
    /// Those that ask for nothing by name.
    others: Positions,
}

/// Rules by name, sorted by it.
#[derive(Clone, Debug, Default)]
struct Filed {
    names: Box<[(Box<str>, Positions)]>,
}

impl Index {
    /// Files `rules`.
    pub(super) fn new(rules: &[Rule]) -> Self {
        const KINDS: [fn(&Rule) -> BTreeSet<&str>; 3] = [segments, hosts, methods];
        let mut sharing: [BTreeMap<&str, usize>; KINDS.len()] = Default::default();
        for rule in rules {
            for (names, sharing) in KINDS.iter().zip(&mut sharing) {
                for name in names(rule) {
                    *sharing.entry(name).or_default() += 1;
                }
            }
        }
        let mut filed: [BTreeMap<&str, Vec<usize>>; KINDS.len()] = Default::default();
        let mut others = Vec::new();
        for (position, rule) in rules.iter().enumerate() {
            let kinds = KINDS.iter().zip(&sharing).zip(&mut filed).filter_map(|((names, sharing), filed)| {
                let names = names(rule);
                let most = names.iter().filter_map(|name| sharing.get(name)).max()?;
                Some((*most, names, filed))
            });
            match kinds.min_by_key(|(most, ..)| *most) {
                Some((_, names, filed)) => {
                    for name in names {
                        filed.entry(name).or_default().push(position);
                    }
                }
                None => others.push(position),
            }
        }
        let [by_segment, by_host, by_method] = filed.map(Filed::new);
        Self { by_segment, by_host, by_method, others: others.into() }
    }

    /// The rules to try, in order. `path` gives the canonical path, and is asked only if it matters.
    pub(super) fn candidates<'a>(
        &'a self,
        path: impl FnOnce() -> &'a str,
        host: &str,
        method: &str,
    ) -> impl Iterator<Item = usize> {
        let by_segment = match self.by_segment.names.is_empty() {
            true => &[],
            false => self.by_segment.find(first_segment(path())),
        };
        let mut lists =
            [by_segment, self.by_host.find(without_root(host)), self.by_method.find(method), &self.others];
        std::iter::from_fn(move || {
            // No rule is in two of the lists.
            let list = lists.iter_mut().filter(|list| !list.is_empty()).min_by_key(|list| list[0])?;
            let (first, rest) = list.split_first()?;
            *list = rest;
            Some(*first)
        })
    }
}

impl Filed {
    fn new(names: BTreeMap<&str, Vec<usize>>) -> Self {
        Self { names: names.into_iter().map(|(name, rules)| (name.into(), rules.into())).collect() }
    }

    fn find(&self, name: &str) -> &[usize] {
        match self.names.binary_search_by(|(other, _)| (**other).cmp(name)) {
            Ok(at) => &self.names[at].1,
            Err(_) => &[],
        }
    }
}

/// The first segments of all paths a rule can hold for.
fn segments(rule: &Rule) -> BTreeSet<&str> {
    all_or_none(rule.paths.iter().map(|path| match path {
        PathCondition::Exact(path) | PathCondition::Prefix(path) => Some(first_segment(path)),
        // Certain only where the text goes beyond it.
        PathCondition::Below(prefix) | PathCondition::Pattern { prefix, .. } => {
            prefix.strip_prefix('/')?.split_once('/').map(|(segment, _)| segment)
        }
    }))
}

fn hosts(rule: &Rule) -> BTreeSet<&str> {
    all_or_none(rule.hosts.iter().map(|host| host.exact()))
}

fn methods(rule: &Rule) -> BTreeSet<&str> {
    all_or_none(rule.methods.iter().map(|method| Some(&**method)))
}

/// The names of all alternatives; none if one of them has no name.
fn all_or_none<'a>(names: impl Iterator<Item = Option<&'a str>>) -> BTreeSet<&'a str> {
    names.collect::<Option<_>>().unwrap_or_default()
}

/// What stands before the second slash of a path.
fn first_segment(path: &str) -> &str {
    let path = path.strip_prefix('/').unwrap_or(path);
    path.split_once('/').map_or(path, |(segment, _)| segment)
}
