//! Rules as written, before they are compiled.

use std::time::Duration;

use ipnet::IpNet;

/// A rule: when every condition that is set holds, the first such rule decides.
///
/// A condition with several alternatives holds when one of them does; a rule without conditions
/// always holds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RuleSpec<V = VerdictSpec> {
    /// Methods, upper case.
    pub methods: Vec<String>,
    /// Host names, lower case, without port; a leading `*.` stands for any subdomain
    /// ([`HostPattern`](super::HostPattern)).
    pub hosts: Vec<String>,
    /// Path conditions, on the path in canonical form ([`canonical_path`](super::canonical_path)):
    /// no spelling evades a rule.
    pub paths: Vec<PathSpec>,
    /// Header fields; all must hold.
    pub headers: Vec<FieldSpec>,
    /// Query parameters; all must hold.
    pub query: Vec<FieldSpec>,
    /// Cookies; all must hold.
    pub cookies: Vec<FieldSpec>,
    /// Networks of the client's address.
    pub clients: Vec<IpNet>,
    /// Facts of the TLS session.
    pub tls: TlsSpec,
    /// What follows when the rule holds.
    pub verdict: V,
}

/// A rule of which application serves a request; its verdict is that application's name.
pub type RouteSpec = RuleSpec<String>;

/// A condition on the path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathSpec {
    /// The path is this.
    Exact(String),
    /// The path is this or lies below it, in whole segments.
    Prefix(String),
    /// Matches a glob: `*` and `?` within a segment, `**` across segments, `{a,b}` and `[ab]` for
    /// alternatives.
    Glob(String),
    /// Matches a regular expression, anchored at both ends.
    Regex(String),
}

/// A condition on a named field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldSpec {
    /// The field's name; header names in lower case.
    pub name: String,
    /// What its value must be.
    pub value: ValueSpec,
}

/// A condition on a field's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ValueSpec {
    /// The field is there.
    Present,
    /// The field is not there.
    Absent,
    /// One of the field's values is this.
    Exact(String),
    /// One of the field's values begins so.
    Prefix(String),
    /// One of the field's values matches this regular expression, anchored at both ends.
    Regex(String),
}

/// Conditions on the TLS session; `None` does not ask.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsSpec {
    /// Whether the connection is TLS at all.
    pub secure: Option<bool>,
    /// Whether the session was resumed.
    pub resumed: Option<bool>,
    /// Whether the client showed a certificate that was verified.
    pub client_certificate: Option<bool>,
    /// Server names the client asked for, as in [`RuleSpec::hosts`].
    pub server_names: Vec<String>,
}

/// What a rule decides; what is `None` comes from the class's knobs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct VerdictSpec {
    /// The class's name; the default class if empty.
    pub class: String,
    /// Priority 0 to 7.
    pub priority: Option<u8>,
    /// Weight units, at least 1.
    pub weight: Option<u32>,
    /// From arrival until the latest start.
    pub deadline: Option<Duration>,
    /// Name of a header that holds the time in milliseconds the client will still wait; the
    /// earlier of it and `deadline` counts. Lower case.
    pub deadline_header: Option<String>,
    /// Whether RFC 9218 urgency moves the priority: urgency 3 keeps it, each step up or down
    /// moves it by one, within 1 to 6, so that no client makes itself critical by a header.
    pub priority_header: bool,
}
