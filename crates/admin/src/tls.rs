//! TLS of the admin interface: its certificate, and clients known by theirs.

use std::{path::Path, sync::Arc};

use aws_lc_rs::digest;
use rustls::{
    RootCertStore, ServerConfig,
    server::{NoServerSessionStorage, WebPkiClientVerifier},
    sign::SingleCertAndKey,
};
use rustls_pki_types::CertificateDer;
use tidegate_config::{AdminTls, Certificate};
use tidegate_runtime::{PemFault, read_certificates, read_pair};

/// Files of the admin interface's TLS that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("admin_tls: {0}")]
pub struct AdminTlsError(String);

/// What connections are accepted with.
#[derive(Debug)]
pub(crate) struct Tls {
    pub(crate) config: Arc<ServerConfig>,
    pub(crate) files: Certificate,
    pub(crate) chain: Vec<CertificateDer<'static>>,
}

/// Reads the files that `settings` name.
pub(crate) fn read(settings: &AdminTls) -> Result<Arc<Tls>, AdminTlsError> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let pair = read_pair(&settings.certificate, &provider)?;
    let chain = pair.cert.clone();
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(refused)?;
    let builder = match &settings.clients {
        None => builder.with_no_client_auth(),
        Some(clients) => {
            let mut roots = RootCertStore::empty();
            for authority in read_certificates(&clients.authorities)? {
                roots.add(authority).map_err(|error| fault(&clients.authorities, error))?;
            }
            // Who has none may have a token.
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                .allow_unauthenticated()
                .build()
                .map_err(|error| fault(&clients.authorities, error))?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let mut config = builder.with_cert_resolver(Arc::new(SingleCertAndKey::from(pair)));
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    if settings.clients.is_some() {
        // A session that is resumed does not ask whether the certificate still holds.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
    }
    Ok(Arc::new(Tls { config: Arc::new(config), files: settings.certificate.clone(), chain }))
}

/// The SHA-256 of the certificate a client has shown, in hexadecimal.
pub(crate) fn fingerprint(session: &rustls::ServerConnection) -> Option<String> {
    let leaf = session.peer_certificates()?.first()?;
    let hash = digest::digest(&digest::SHA256, leaf);
    Some(hash.as_ref().iter().map(|byte| format!("{byte:02x}")).collect())
}

fn fault(file: &Path, problem: impl std::fmt::Display) -> AdminTlsError {
    PemFault { path: file.to_owned(), problem: problem.to_string() }.into()
}

impl From<PemFault> for AdminTlsError {
    fn from(fault: PemFault) -> Self {
        Self(fault.to_string())
    }
}

fn refused(error: rustls::Error) -> AdminTlsError {
    AdminTlsError(error.to_string())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_key_of_another_certificate_is_said_with_both_files() {
        let directory = tempfile::tempdir().unwrap();
        let (chain, key) = (directory.path().join("chain.pem"), directory.path().join("key.pem"));
        let made = || rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        fs::write(&chain, made().cert.pem()).unwrap();
        fs::write(&key, made().signing_key.serialize_pem()).unwrap();
        let certificate = Certificate { chain: chain.clone(), key: key.clone() };
        let error = read(&AdminTls { certificate, clients: None }).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!(
                "admin_tls: {}: the private key is not that of the certificate in {}; put the pair that belongs together",
                key.display(),
                chain.display()
            )
        );
    }

    #[test]
    fn a_chain_that_does_not_begin_with_the_keys_certificate_is_told_with_its_mend() {
        let directory = tempfile::tempdir().unwrap();
        let (chain, key) = (directory.path().join("chain.pem"), directory.path().join("key.pem"));
        let made = || rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let (other, own) = (made(), made());
        fs::write(&chain, other.cert.pem() + &own.cert.pem()).unwrap();
        fs::write(&key, own.signing_key.serialize_pem()).unwrap();
        let certificate = Certificate { chain, key };
        let said = read(&AdminTls { certificate, clients: None }).unwrap_err().to_string();
        assert!(
            said.ends_with("key.pem is that of certificate 2: write that one first, then its issuer's"),
            "{said}"
        );
    }
}
