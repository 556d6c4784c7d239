//! Classification: which application's class a request belongs to, with what priority, weight and deadline.

mod spec;

pub use spec::{FieldSpec, PathSpec, RuleSpec, TlsSpec, ValueSpec, VerdictSpec};
