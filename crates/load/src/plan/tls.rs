//! How TLS is spoken and whom it trusts.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::default_true;

/// TLS towards the server, for `https`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsPlan {
    /// Accept any certificate.
    #[serde(default)]
    pub insecure: bool,
    /// PEM file of the certificate authorities to trust. Without it and without `insecure` an
    /// `https` plan is refused: this instrument does not read the system's trust store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<PathBuf>,
    /// Versions offered.
    #[serde(default)]
    pub versions: TlsVersions,
    /// Whether sessions are resumed with tickets or session ids.
    #[serde(default = "default_true")]
    pub resume: bool,
    /// Share of new connections that resume, 0 to 1; the others make a full handshake. Each draws by
    /// itself, and one that had nothing to resume yet is made up for by a later one.
    #[serde(default = "default_resume_share")]
    pub resume_share: f64,
    /// Signatures accepted of the server, and with them which of its certificates it shows.
    #[serde(default)]
    pub signatures: Signatures,
    /// The name sent (SNI) and verified; the URL's host if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_name: Option<String>,
}

/// TLS versions offered in the hello.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum TlsVersions {
    /// 1.3 and 1.2.
    #[default]
    #[serde(rename = "any")]
    Any,
    /// 1.2 alone.
    #[serde(rename = "1.2")]
    Only12,
    /// 1.3 alone.
    #[serde(rename = "1.3")]
    Only13,
}

/// Signature algorithms offered in the hello.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Signatures {
    /// All that the TLS library knows.
    #[default]
    Any,
    /// RSA alone.
    Rsa,
    /// ECDSA alone.
    Ecdsa,
}

impl Default for TlsPlan {
    fn default() -> Self {
        Self {
            insecure: false,
            ca: None,
            versions: TlsVersions::Any,
            resume: true,
            resume_share: default_resume_share(),
            signatures: Signatures::Any,
            server_name: None,
        }
    }
}

impl TlsPlan {
    pub(super) fn check(&self, faults: &mut Vec<String>) {
        if !(0.0..=1.0).contains(&self.resume_share) {
            faults.push("tls.resume_share: must be from 0 to 1".to_owned());
        }
        if !self.resume && self.resume_share < 1.0 {
            faults.push("tls.resume: false leaves nothing to share; remove resume_share".to_owned());
        }
    }
}

const fn default_resume_share() -> f64 {
    1.0
}
