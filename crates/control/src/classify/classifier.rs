//! Ordered rules at work: the first whose conditions all hold decides.

use std::{borrow::Cow, cell::OnceCell, net::IpAddr, time::Duration};

use ipnet::IpNet;
use regex::bytes::Regex;

use super::{
    HostPattern, RuleFault, RuleSpec, TlsSpec, canonical_path, compile,
    fields::{ValueCondition, cookie_values, query_values},
    index::Index,
    path::path_with_dots,
};
use crate::{ClassId, priority_header::PriorityHeader};

/// What a request shows to rules; implemented by the gateway over its own request head.
/// Everything is as received unless said otherwise.
pub trait RequestFacts {
    /// The method.
    fn method(&self) -> &str;

    /// The host asked for: lower case, without port; empty if none.
    fn host(&self) -> &str;

    /// The path, without query.
    fn path(&self) -> &str;

    /// The query, without `?`.
    fn query(&self) -> Option<&str>;

    /// The values of each line of a header field, by its name in lower case.
    fn header_values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> + 'a;

    /// The client's address; `None` on a Unix socket.
    fn client(&self) -> Option<IpAddr>;

    /// The TLS session; `None` on a plain connection.
    fn tls(&self) -> Option<TlsFacts<'_>>;
}

/// What a TLS session shows to rules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TlsFacts<'a> {
    /// The name the client asked for (SNI), lower case.
    pub server_name: Option<&'a str>,
    /// Whether the session was resumed.
    pub resumed: bool,
    /// Whether the client showed a certificate that was verified.
    pub client_certificate: bool,
}

/// What the rules say of a request.
#[must_use]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Its class; the default class if no rule held.
    pub class: ClassId,
    /// The rule's priority, 0 to 7; `None`: the class's. What the client's `Priority` field does
    /// to it, [`Verdict::priority_over`] says.
    pub priority: Option<u8>,
    /// The rule's weight, at least 1; `None`: the class's.
    pub weight: Option<u32>,
    /// From arrival until the latest start, the earliest of the rule's `deadline` and what its
    /// `deadline_header` says; `None`: the class's.
    pub deadline: Option<Duration>,
    /// Steps of priority asked for by the client, -4 to 3; 0 unless the rule lets the field count.
    pub steps: i8,
    /// Position of the rule that decided; `None`: none held.
    pub rule: Option<usize>,
}

impl Verdict {
    /// The request's priority, given its class's.
    ///
    /// The client's urgency (RFC 9218) moves the rule's or the class's priority a step for each
    /// step from the usual, but never beyond 1 to 6: nobody becomes critical (7) by a header, nor
    /// is a critical request made less so by a wish for more.
    ///
    /// ```
    /// use tidegate_control::classify::Verdict;
    ///
    /// // Urgency 0 is three steps up: 4 + 3 = 7, held at 6.
    /// assert_eq!(Verdict { steps: 3, ..Verdict::default() }.priority_over(4), 6);
    /// assert_eq!(Verdict { steps: 3, ..Verdict::default() }.priority_over(7), 7);
    /// // Urgency 5 is two steps down.
    /// assert_eq!(Verdict { steps: -2, ..Verdict::default() }.priority_over(4), 2);
    /// ```
    #[must_use]
    pub fn priority_over(&self, of_class: u8) -> u8 {
        let base = self.priority.unwrap_or(of_class);
        let moved = base.saturating_add_signed(self.steps);
        if self.steps >= 0 { moved.min(6).max(base) } else { moved.max(1).min(base) }
    }
}

/// Compiled rules.
///
/// The first rule whose conditions all hold decides; a condition with alternatives holds when one
/// of them does. If none holds, the request belongs to the default class.
///
/// Paths are matched in canonical form ([`canonical_path`]), host names without a final dot,
/// addresses with IPv4 in IPv6 unwrapped, header values without blanks around them. Conditions on
/// the TLS session hold only over TLS.
///
/// # Cost
///
/// Rules that ask for paths, hosts or methods by name are found by that; they and those that do not are
/// tried in order, within each the cheap conditions first. No rules cost nothing; a
/// request whose path is canonical and whose query is unescaped costs no allocation. Regular
/// expressions and globs run in time linear in what they match and were bounded in size when
/// compiled.
///
/// A clone is cheap but for the regular expressions' scratch memory, which each clone has for
/// itself: give each core a clone, so that cores do not share it.
///
/// ```
/// use std::net::IpAddr;
/// use tidegate_control::{ClassId, classify::{Classifier, PathSpec, RequestFacts, RuleSpec, TlsFacts, VerdictSpec}};
///
/// struct Get(&'static str);
/// impl RequestFacts for Get {
///     fn method(&self) -> &str { "GET" }
///     fn host(&self) -> &str { "shop.example" }
///     fn path(&self) -> &str { self.0 }
///     fn query(&self) -> Option<&str> { None }
///     fn header_values<'a>(&'a self, _: &'a str) -> impl Iterator<Item = &'a [u8]> + 'a { std::iter::empty() }
///     fn client(&self) -> Option<IpAddr> { None }
///     fn tls(&self) -> Option<TlsFacts<'_>> { None }
/// }
///
/// let checkout = RuleSpec {
///     paths: vec![PathSpec::Prefix("/checkout".into())],
///     verdict: VerdictSpec { class: "critical".into(), ..VerdictSpec::default() },
///     ..RuleSpec::default()
/// };
/// let rules = Classifier::compile(&[checkout], |name| (name == "critical").then_some(ClassId(1))).unwrap();
/// assert_eq!(rules.classify(&Get("/checkout/pay")).class, ClassId(1));
/// assert_eq!(rules.classify(&Get("/x/../%63heckout")).class, ClassId(1));
/// assert_eq!(rules.classify(&Get("/checkouts")).class, ClassId(0));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Classifier {
    rules: Box<[Rule]>,
    index: Index,
}

impl Classifier {
    /// Compiles rules; `class_id` knows the application's classes by name.
    ///
    /// # Errors
    ///
    /// Every fault of every rule, in order, each with its place and its mend.
    pub fn compile(
        rules: &[RuleSpec],
        class_id: impl Fn(&str) -> Option<ClassId>,
    ) -> Result<Self, Vec<RuleFault>> {
        let rules = compile::rules(rules, class_id)?;
        Ok(Self { index: Index::new(&rules), rules })
    }

    /// What the rules say of a request.
    pub fn classify(&self, facts: &impl RequestFacts) -> Verdict {
        if self.rules.is_empty() {
            return Verdict::default();
        }
        self.judge(&Seen { facts, path: OnceCell::new() })
    }

    /// Whether the rules would say something else if the path's dot segments were names: a server that removes none of them,
    /// as many frameworks do, sees a request of another class than `verdict`.
    #[must_use]
    pub fn is_two_ways(&self, facts: &impl RequestFacts, verdict: Verdict) -> bool {
        if self.rules.is_empty() {
            return false;
        }
        let Some(path) = path_with_dots(facts.path()) else { return false };
        let other = self.judge(&Seen { facts, path: OnceCell::from(Cow::Owned(path)) });
        Verdict { rule: None, ..other } != Verdict { rule: None, ..verdict }
    }

    fn judge<F: RequestFacts>(&self, seen: &Seen<'_, F>) -> Verdict {
        let facts = seen.facts;
        self.index
            .candidates(|| seen.path(), facts.host(), facts.method())
            .find_map(|position| self.rules.get(position).filter(|rule| rule.holds(seen)).zip(Some(position)))
            .map_or_else(Verdict::default, |(rule, position)| rule.outcome.verdict(facts, position))
    }

    /// Number of rules.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rules.len()
    }

    /// Whether there are no rules.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
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
    pub(super) outcome: Outcome,
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

/// What follows when a rule holds.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    pub(super) class: ClassId,
    pub(super) priority: Option<u8>,
    pub(super) weight: Option<u32>,
    pub(super) deadline: Option<Duration>,
    pub(super) deadline_header: Option<Box<str>>,
    pub(super) priority_header: bool,
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

impl Outcome {
    fn verdict(&self, facts: &impl RequestFacts, rule: usize) -> Verdict {
        let said = self
            .deadline_header
            .as_deref()
            .and_then(|name| facts.header_values(name).filter_map(milliseconds).min());
        Verdict {
            class: self.class,
            priority: self.priority,
            weight: self.weight,
            deadline: [self.deadline, said].into_iter().flatten().min(),
            steps: if self.priority_header {
                PriorityHeader::parse(facts.header_values("priority")).steps()
            } else {
                0
            },
            rule: Some(rule),
        }
    }
}

/// Whole milliseconds in decimal digits; `None` for anything else.
fn milliseconds(value: &[u8]) -> Option<Duration> {
    let digits = value.trim_ascii();
    // `parse` alone would take a sign.
    if !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(digits).ok()?.parse().ok().map(Duration::from_millis)
}
