//! From rules as written to rules at work: every fault is found at once, with its place and its mend.

use globset::GlobBuilder;
use ipnet::{IpNet, Ipv4Net};
use regex::bytes::{Regex, RegexBuilder};

use super::{
    FieldSpec, HostPattern, PathSpec, RuleSpec, TlsSpec, ValueSpec, VerdictSpec, canonical_path,
    classifier::Outcome,
    fields::ValueCondition,
    rules::{FieldCondition, PathCondition, Rule, Rules, TlsCondition},
};
use crate::ClassId;

/// Memory that one compiled regular expression may take, and its scratch memory again.
const REGEX_BYTES_MAX: usize = 1 << 20;

/// What is wrong with a rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("rules[{rule}].{field}: {message}")]
pub struct RuleFault {
    /// Position of the rule.
    pub rule: usize,
    /// Where in the rule, such as `paths[1]` or `headers[0].value`.
    pub field: String,
    /// What is wrong and how to mend it.
    pub message: String,
}

/// Compiles every rule and, by `outcome`, what follows from each; or gives every fault.
pub(super) fn rules<V, O>(
    specs: &[RuleSpec<V>],
    outcome: impl Fn(&mut Faults, &V) -> Option<O>,
) -> Result<(Rules, Box<[O]>), Vec<RuleFault>> {
    let (mut rules, mut outcomes, mut all) = (Vec::new(), Vec::new(), Vec::new());
    for (rule, spec) in specs.iter().enumerate() {
        let mut faults = Faults { rule, found: Vec::new() };
        rules.push(faults.rule(spec));
        outcomes.extend(outcome(&mut faults, &spec.verdict));
        all.append(&mut faults.found);
    }
    if all.is_empty() { Ok((Rules::new(rules.into()), outcomes.into())) } else { Err(all) }
}

/// Collects the faults of one rule.
pub(super) struct Faults {
    rule: usize,
    found: Vec<RuleFault>,
}

impl Faults {
    fn rule<V>(&mut self, spec: &RuleSpec<V>) -> Rule {
        Rule {
            tls: self.tls(&spec.tls),
            methods: self.each("methods", &spec.methods, |text| method(text)),
            hosts: self.each("hosts", &spec.hosts, |text| HostPattern::parse(text)),
            clients: spec.clients.iter().copied().map(unwrapped).collect(),
            paths: self.each("paths", &spec.paths, path),
            query: self.fields("query", &spec.query, named),
            cookies: self.fields("cookies", &spec.cookies, token),
            headers: self.fields("headers", &spec.headers, lower_case_token),
        }
    }

    fn tls(&mut self, spec: &TlsSpec) -> Option<TlsCondition> {
        let session =
            spec.resumed.is_some() || spec.client_certificate.is_some() || !spec.server_names.is_empty();
        if spec.secure == Some(false) && session {
            self.add(
                "tls.secure",
                "false contradicts the other conditions on TLS, which hold only over TLS: leave one out"
                    .into(),
            );
        }
        (spec.secure.is_some() || session).then(|| TlsCondition {
            spec: spec.clone(),
            server_names: self.each("tls.server_names", &spec.server_names, |name| HostPattern::parse(name)),
        })
    }

    fn fields(
        &mut self,
        list: &str,
        specs: &[FieldSpec],
        name: impl Fn(&str) -> Result<(), String>,
    ) -> Box<[FieldCondition]> {
        specs
            .iter()
            .enumerate()
            .filter_map(|(at, spec)| {
                if let Err(message) = name(&spec.name) {
                    self.add(&format!("{list}[{at}].name"), message);
                }
                let value = match &spec.value {
                    ValueSpec::Present => ValueCondition::Present,
                    ValueSpec::Absent => ValueCondition::Absent,
                    ValueSpec::Exact(text) => ValueCondition::Exact(text.as_bytes().into()),
                    ValueSpec::Prefix(text) => ValueCondition::Prefix(text.as_bytes().into()),
                    ValueSpec::Regex(pattern) => match anchored(pattern) {
                        Ok(regex) => ValueCondition::Regex(regex),
                        Err(message) => {
                            self.add(&format!("{list}[{at}].value"), message);
                            return None;
                        }
                    },
                };
                Some(FieldCondition { name: spec.name.as_str().into(), value })
            })
            .collect()
    }

    /// What follows from a rule of an application, which knows its classes by name.
    pub(super) fn outcome(
        &mut self,
        spec: &VerdictSpec,
        class_id: impl Fn(&str) -> Option<ClassId>,
    ) -> Option<Outcome> {
        if spec.priority.is_some_and(|priority| priority > 7) {
            self.add("verdict.priority", "priorities go from 0 (least) to 7: write one of them".into());
        }
        if spec.weight == Some(0) {
            self.add("verdict.weight", "a request weighs at least 1: write 1 or more".into());
        }
        if let Some(Err(message)) = spec.deadline_header.as_deref().map(lower_case_token) {
            self.add("verdict.deadline_header", message);
        }
        let class = if spec.class.is_empty() { Some(ClassId(0)) } else { class_id(&spec.class) };
        if class.is_none() {
            self.add(
                "verdict.class",
                format!(
                    "there is no class \"{}\": add it to the application's classes, or name one of them",
                    spec.class
                ),
            );
        }
        Some(Outcome {
            class: class?,
            priority: spec.priority,
            weight: spec.weight,
            deadline: spec.deadline,
            deadline_header: spec.deadline_header.as_deref().map(Into::into),
            priority_header: spec.priority_header,
        })
    }

    fn each<S, T>(&mut self, list: &str, specs: &[S], compile: impl Fn(&S) -> Result<T, String>) -> Box<[T]> {
        specs
            .iter()
            .enumerate()
            .filter_map(|(at, spec)| {
                compile(spec).map_err(|message| self.add(&format!("{list}[{at}]"), message)).ok()
            })
            .collect()
    }

    fn add(&mut self, field: &str, message: String) {
        self.found.push(RuleFault { rule: self.rule, field: field.into(), message });
    }
}

fn path(spec: &PathSpec) -> Result<PathCondition, String> {
    match spec {
        PathSpec::Exact(text) => Ok(PathCondition::Exact(plain_path(text)?.into())),
        PathSpec::Prefix(text) => {
            let path = plain_path(text)?;
            let whole_segments = !path.ends_with('/');
            Ok(if whole_segments {
                PathCondition::Prefix(path.into())
            } else {
                PathCondition::Below(path.into())
            })
        }
        PathSpec::Glob(glob) => {
            canonical_pattern(glob)?;
            if !glob.starts_with('/') && !glob.starts_with("**") {
                return Err(format!(
                    "\"{glob}\": every path begins with a slash: begin with \"/\" or \"**/\""
                ));
            }
            let built = GlobBuilder::new(glob)
                .literal_separator(true)
                .backslash_escape(true)
                .build()
                .map_err(|error| format!("{error}: mend the glob"))?;
            // The glob's own expression is anchored; compiled here, its size is bounded.
            let regex = compiled(built.regex())?;
            let prefix = glob.split(['*', '?', '[', '{', '\\']).next().unwrap_or_default().into();
            Ok(PathCondition::Pattern { prefix, regex })
        }
        PathSpec::Regex(pattern) => {
            canonical_pattern(pattern)?;
            let regex = anchored(pattern)?;
            Ok(PathCondition::Pattern { prefix: literal_prefix(pattern).into(), regex })
        }
    }
}

/// A path of a rule in the form that requests' paths are brought to.
fn plain_path(text: &str) -> Result<String, String> {
    if text.contains(['?', '#']) {
        return Err(format!("\"{text}\": a path ends before `?` or `#`: put the query into `query`"));
    }
    if text.contains(';') {
        return Err(format!("\"{text}\": paths are matched without parameters: cut `;` and what follows"));
    }
    if !text.starts_with('/') && text != "*" {
        return Err(format!("\"{text}\": every path begins with a slash: write \"/{text}\""));
    }
    Ok(canonical_path(text).into_owned())
}

/// Checks that a glob or expression can match canonical paths where it names octets literally.
fn canonical_pattern(pattern: &str) -> Result<(), String> {
    if let Some(wrong) = pattern.chars().find(|c| !c.is_ascii()) {
        let escaped = canonical_path(wrong.encode_utf8(&mut [0; 4])).into_owned();
        return Err(format!("\"{pattern}\": paths are matched escaped: write {wrong} as {escaped}"));
    }
    for (at, _) in pattern.match_indices('%') {
        let Some(escape) = pattern.get(at..at + 3) else { continue };
        let canonical = canonical_path(escape);
        if canonical != escape && escape[1..].bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(format!("\"{pattern}\": paths are matched with {escape} as {canonical}: write that"));
        }
    }
    Ok(())
}

/// Text that everything an expression matches begins with; empty where that takes more than a look.
fn literal_prefix(pattern: &str) -> &str {
    if pattern.contains('|') || pattern.contains("(?") {
        return "";
    }
    let end = pattern.find(['\\', '.', '+', '*', '?', '(', ')', '[', ']', '{', '}', '^', '$']);
    let (prefix, rest) = pattern.split_at(end.unwrap_or(pattern.len()));
    if rest.starts_with(['*', '?', '{']) {
        // What is repeated may be missing.
        &prefix[..prefix.len().saturating_sub(1)]
    } else {
        prefix
    }
}

/// A regular expression that must match all of a value.
fn anchored(pattern: &str) -> Result<Regex, String> {
    // Alone first: `a)|(b` would be well-formed inside the anchors' group and loosen them.
    compiled(pattern)?;
    compiled(&format!(r"\A(?:{pattern})\z"))
}

/// A bounded regular expression on octets: no Unicode classes, so that no octet escapes `.`.
fn compiled(pattern: &str) -> Result<Regex, String> {
    RegexBuilder::new(pattern)
        .unicode(false)
        .dot_matches_new_line(true)
        .size_limit(REGEX_BYTES_MAX)
        .dfa_size_limit(REGEX_BYTES_MAX)
        .build()
        .map_err(|error| match error {
            regex::Error::CompiledTooBig(_) => {
                format!("\"{pattern}\": takes over 1 MiB compiled: use smaller repetitions")
            }
            other => format!("{other}: mend the expression"),
        })
}

fn method(text: &str) -> Result<Box<str>, String> {
    token(text)?;
    if text.bytes().any(|byte| byte.is_ascii_lowercase()) {
        return Err(format!("\"{text}\": methods are upper case: write {}", text.to_ascii_uppercase()));
    }
    Ok(text.into())
}

fn lower_case_token(text: &str) -> Result<(), String> {
    token(text)?;
    if text.bytes().any(|byte| byte.is_ascii_uppercase()) {
        return Err(format!(
            "\"{text}\": header names are lower case here: write {}",
            text.to_ascii_lowercase()
        ));
    }
    Ok(())
}

fn named(text: &str) -> Result<(), String> {
    if text.is_empty() { Err("a name is missing: write one".into()) } else { Ok(()) }
}

/// Checks for a token (RFC 9110, section 5.6.2).
fn token(text: &str) -> Result<(), String> {
    named(text)?;
    match text.chars().find(|c| !c.is_ascii_alphanumeric() && !"!#$%&'*+-.^_`|~".contains(*c)) {
        Some(wrong) => Err(format!("\"{text}\": {wrong:?} cannot stand in such a name: leave it out")),
        None => Ok(()),
    }
}

/// An IPv4 network written within IPv6 as IPv4, as clients' addresses are.
fn unwrapped(network: IpNet) -> IpNet {
    match network {
        IpNet::V6(v6) if v6.prefix_len() >= 96 => match v6.addr().to_ipv4_mapped() {
            Some(v4) => Ipv4Net::new(v4, v6.prefix_len() - 96).map_or(network, IpNet::V4),
            None => network,
        },
        other => other,
    }
}
