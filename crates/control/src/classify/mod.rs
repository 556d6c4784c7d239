//! Classification: which application's class a request belongs to, with what priority, weight and deadline.
//!
//! Rules as written ([`RuleSpec`]) are compiled once into a [`Classifier`], which then judges
//! what each request shows of itself ([`RequestFacts`]). Where hosts alone do not say which application
//! serves a request, a [`Router`] does, by the same conditions ([`RouteSpec`]).

mod classifier;
mod compile;
mod fields;
mod host;
mod index;
mod path;
mod router;
mod rules;
mod spec;

#[cfg(test)]
mod tests;

pub use classifier::{Classifier, RequestFacts, TlsFacts, Verdict};
pub use compile::RuleFault;
pub use fields::{cookie_values, query_values};
pub use host::HostPattern;
pub use path::{canonical_path, is_ambiguous_path};
pub use router::Router;
pub use spec::{FieldSpec, PathSpec, RouteSpec, RuleSpec, TlsSpec, ValueSpec, VerdictSpec};
