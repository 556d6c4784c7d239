//! What is exported where: settings, with the secrets and certificates they name read.

use std::{io, path::PathBuf, sync::Arc};

use http::{HeaderMap, HeaderName, HeaderValue};
use opentelemetry_proto::tonic::resource::v1::Resource;
use rustls::{ClientConfig, crypto::aws_lc_rs};
use rustls_pki_types::CertificateDer;
use tidegate_config::{SecretPlace, Telemetry, TelemetryHeader, read_file};
use tidegate_runtime::{PemFault, Trust, TrustError, read_certificates};

use crate::attributes;

/// Longest value of a header read from a file, bytes.
const SECRET_BYTES_MAX: usize = 8192;
/// More of its file is not read.
const FILE_BYTES_MAX: u64 = 64 * 1024;

/// Why nothing is exported as the settings say.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TelemetryError {
    /// A header's file cannot be read.
    #[error("telemetry.header {name}: {}: {source}", path.display())]
    File {
        /// The header.
        name: String,
        /// The file.
        path: PathBuf,
        /// What went wrong.
        source: io::Error,
    },
    /// A header's variable is not set.
    #[error("telemetry.header {name}: the environment has no {variable}: set it where Tidegate is started")]
    Environment {
        /// The header.
        name: String,
        /// The variable.
        variable: String,
    },
    /// What was found is no value of a header.
    #[error(
        "telemetry.header {name}: what {place} holds is no header's value: write one line of 1 to {SECRET_BYTES_MAX} printable characters"
    )]
    Value {
        /// The header.
        name: String,
        /// The file or variable.
        place: String,
    },
    /// The collector's authorities cannot be read.
    #[error("telemetry.ca {}: {message}", path.display())]
    Authorities {
        /// The file.
        path: PathBuf,
        /// What went wrong.
        message: String,
    },
    /// TLS cannot be spoken.
    #[error("telemetry.endpoint: {0}")]
    Tls(String),
    /// The thread could not be started.
    #[error("telemetry: no thread could be started: {0}")]
    Thread(io::Error),
}

/// Settings with all that they name.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) settings: Telemetry,
    /// Fields of every request, their values marked as secret.
    pub(crate) headers: HeaderMap,
    pub(crate) tls: Option<Arc<ClientConfig>>,
    pub(crate) resource: Resource,
    /// What was read of `telemetry.ca`.
    authorities: Vec<CertificateDer<'static>>,
}

impl Plan {
    /// Reads what `settings` name, for the process `instance`.
    pub(crate) fn read(settings: &Telemetry, instance: &str) -> Result<Self, TelemetryError> {
        let mut headers = HeaderMap::new();
        for header in &settings.headers {
            // Names were checked with the settings.
            if let Ok(name) = HeaderName::try_from(header.name.as_str()) {
                headers.insert(name, secret(header)?);
            }
        }
        let authorities = match (&settings.ca, settings.endpoint.tls) {
            (Some(path), true) => read_certificates(path).map_err(|PemFault { path, problem }| {
                TelemetryError::Authorities { path, message: problem }
            })?,
            _ => Vec::new(),
        };
        let tls =
            if settings.endpoint.tls { Some(Arc::new(client_config(settings, &authorities)?)) } else { None };
        let resource = attributes::resource(settings, instance);
        Ok(Self { settings: settings.clone(), headers, tls, resource, authorities })
    }

    /// Whether nothing that matters differs.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.settings == other.settings
            && self.headers == other.headers
            && self.authorities == other.authorities
    }
}

/// A header's value, marked so that nothing shows it.
fn secret(header: &TelemetryHeader) -> Result<HeaderValue, TelemetryError> {
    let name = header.name.clone();
    let (place, text) = match &header.value {
        SecretPlace::File(path) => {
            let read = read_file(path, FILE_BYTES_MAX);
            let text = read.and_then(|bytes| String::from_utf8(bytes).map_err(io::Error::other));
            let text = text.map_err(|source| TelemetryError::File { name, path: path.clone(), source })?;
            (path.display().to_string(), text)
        }
        SecretPlace::Environment(variable) => {
            let text = std::env::var(variable)
                .map_err(|_| TelemetryError::Environment { name, variable: variable.clone() })?;
            (format!("the variable {variable}"), text)
        }
    };
    let text = text.trim();
    let fits = !text.is_empty() && text.len() <= SECRET_BYTES_MAX && !text.chars().any(char::is_control);
    match HeaderValue::try_from(text) {
        Ok(mut value) if fits => {
            value.set_sensitive(true);
            Ok(value)
        }
        _ => Err(TelemetryError::Value { name: header.name.clone(), place }),
    }
}

fn client_config(
    settings: &Telemetry,
    authorities: &[CertificateDer<'static>],
) -> Result<ClientConfig, TelemetryError> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let given = settings.ca.is_some().then(|| authorities.to_vec());
    let trust = Trust::new(given, Arc::clone(&provider)).map_err(|error| match (error, &settings.ca) {
        (error @ TrustError::System(_), _) => TelemetryError::Tls(format!("{error} or write telemetry.ca")),
        (error, Some(path)) => TelemetryError::Authorities { path: path.clone(), message: error.to_string() },
        (error, None) => TelemetryError::Tls(error.to_string()),
    })?;
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| TelemetryError::Tls(error.to_string()))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(trust))
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn header(value: SecretPlace) -> TelemetryHeader {
        TelemetryHeader { name: "authorization".to_owned(), value }
    }

    #[test]
    fn a_secret_is_one_line_and_never_shown() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("token");
        fs::write(&file, "Bearer hush\n").unwrap();
        let value = secret(&header(SecretPlace::File(file.clone()))).unwrap();
        assert_eq!(value, "Bearer hush");
        assert!(!format!("{value:?}").contains("hush"), "{value:?}");
        for bad in ["", "\n", "two\nlines", &"x".repeat(SECRET_BYTES_MAX + 1)] {
            fs::write(&file, bad).unwrap();
            let error = secret(&header(SecretPlace::File(file.clone()))).unwrap_err().to_string();
            assert!(error.starts_with("telemetry.header authorization: what "), "{error}");
            assert!(bad.trim().is_empty() || !error.contains(bad), "{error}");
        }
        let variable = "TIDEGATE_TEST_NO_SUCH_VARIABLE".to_owned();
        let error = secret(&header(SecretPlace::Environment(variable))).unwrap_err();
        assert_eq!(
            error.to_string(),
            "telemetry.header authorization: the environment has no TIDEGATE_TEST_NO_SUCH_VARIABLE: set it where \
             Tidegate is started"
        );
    }
}
