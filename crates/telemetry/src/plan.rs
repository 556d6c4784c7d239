//! What is exported where: settings, with the secrets and certificates they name read.

use std::{io, path::Path, path::PathBuf, sync::Arc};

use http::{HeaderMap, HeaderName, HeaderValue};
use opentelemetry_proto::tonic::resource::v1::Resource;
use rustls::{ClientConfig, RootCertStore, crypto::aws_lc_rs};
use rustls_pki_types::{CertificateDer, pem::PemObject};
use tidegate_config::{SecretPlace, Telemetry, TelemetryHeader, read_file, read_pem};

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
            (Some(path), true) => certificates(path)?,
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
    let mut roots = RootCertStore::empty();
    if let Some(path) = &settings.ca {
        for certificate in authorities {
            roots.add(certificate.clone()).map_err(|error| TelemetryError::Authorities {
                path: path.clone(),
                message: error.to_string(),
            })?;
        }
    } else {
        let found = rustls_native_certs::load_native_certs();
        roots.add_parsable_certificates(found.certs);
        if roots.is_empty() {
            let why: Vec<String> = found.errors.iter().map(ToString::to_string).collect();
            return Err(TelemetryError::Tls(format!(
                "the system trusts no certificate authority ({}); install ca-certificates or write telemetry.ca",
                why.join("; ")
            )));
        }
    }
    let mut config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| TelemetryError::Tls(error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TelemetryError> {
    let failed = |message: String| TelemetryError::Authorities { path: path.to_owned(), message };
    let pem = read_pem(path).map_err(|error| failed(error.to_string()))?;
    let found: Vec<_> = CertificateDer::pem_slice_iter(&pem)
        .collect::<Result<_, _>>()
        .map_err(|error| failed(error.to_string()))?;
    if found.is_empty() {
        return Err(failed("no certificate in it".to_owned()));
    }
    Ok(found)
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
