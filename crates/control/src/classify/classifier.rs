//! Classification: what the first rule that holds says of a request.

use std::{net::IpAddr, time::Duration};

use super::{RuleFault, RuleSpec, compile, rules::Rules};
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
/// Paths are matched in canonical form ([`super::canonical_path`]), host names without a final dot,
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
    rules: Rules,
    /// By the position of their rule.
    outcomes: Box<[Outcome]>,
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
        let (rules, outcomes) = compile::rules(rules, |faults, verdict| faults.outcome(verdict, &class_id))?;
        Ok(Self { rules, outcomes })
    }

    /// What the rules say of a request.
    pub fn classify(&self, facts: &impl RequestFacts) -> Verdict {
        self.verdict(facts, self.rules.first(facts))
    }

    /// Whether the rules would say something else if the path's dot segments were names: a server that removes none of them,
    /// as many frameworks do, sees a request of another class than `verdict`.
    #[must_use]
    pub fn is_two_ways(&self, facts: &impl RequestFacts, verdict: Verdict) -> bool {
        self.rules.first_with_dots(facts).is_some_and(|first| {
            let other = self.verdict(facts, first);
            Verdict { rule: None, ..other } != Verdict { rule: None, ..verdict }
        })
    }

    fn verdict(&self, facts: &impl RequestFacts, rule: Option<usize>) -> Verdict {
        let outcome = rule.and_then(|rule| Some((rule, self.outcomes.get(rule)?)));
        outcome.map_or_else(Verdict::default, |(rule, outcome)| outcome.verdict(facts, rule))
    }

    /// Number of rules.
    #[must_use]
    pub fn len(&self) -> usize {
        self.outcomes.len()
    }

    /// Whether there are no rules.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.outcomes.is_empty()
    }
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
