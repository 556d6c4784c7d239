//! The generator's TLS client settings.

use std::{path::Path, sync::Arc};

use rustls::{
    ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    client::{
        Resumption,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::{CryptoProvider, aws_lc_rs},
    version::{TLS12, TLS13},
};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject};

use crate::{
    error::LoadError,
    plan::{Protocol, TlsPlan, TlsVersions},
};

/// Builds what one thread's connections share, its cache of sessions among it.
pub(crate) fn client_config(plan: &TlsPlan, protocol: Protocol) -> Result<Arc<ClientConfig>, LoadError> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let versions = match plan.versions {
        TlsVersions::Any => vec![&TLS13, &TLS12],
        TlsVersions::Only12 => vec![&TLS12],
        TlsVersions::Only13 => vec![&TLS13],
    };
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&versions)
        .map_err(|fault| LoadError::Tls { fault: fault.to_string(), mend: "choose other tls.versions" })?;
    let builder = match &plan.ca {
        Some(path) if !plan.insecure => builder.with_root_certificates(read_roots(path)?),
        _ => builder.dangerous().with_custom_certificate_verifier(Arc::new(AcceptAnyone(provider))),
    };
    let mut config = builder.with_no_client_auth();
    if !plan.resume {
        config.resumption = Resumption::disabled();
    }
    config.alpn_protocols = match protocol {
        Protocol::Http1 => vec![b"http/1.1".to_vec()],
        Protocol::Http2 => vec![b"h2".to_vec()],
        Protocol::Auto => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
    };
    Ok(Arc::new(config))
}

/// The name sent and verified.
pub(crate) fn server_name(plan: &TlsPlan, host: &str) -> Result<ServerName<'static>, LoadError> {
    let name = plan.server_name.as_deref().unwrap_or(host);
    ServerName::try_from(name.to_owned()).map_err(|_| LoadError::Tls {
        fault: format!("`{name}` is neither a DNS name nor an address"),
        mend: "correct the URL's host or tls.server_name",
    })
}

fn read_roots(path: &Path) -> Result<RootCertStore, LoadError> {
    let fault = |fault: String| LoadError::Tls {
        fault: format!("{}: {fault}", path.display()),
        mend: "give a PEM file with at least one CA certificate",
    };
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(path).map_err(|cause| fault(cause.to_string()))? {
        let certificate = certificate.map_err(|cause| fault(cause.to_string()))?;
        roots.add(certificate).map_err(|cause| fault(cause.to_string()))?;
    }
    if roots.is_empty() { Err(fault("holds no certificate".to_owned())) } else { Ok(roots) }
}

/// For `--insecure`: believes any certificate, but still checks that its key signed the
/// handshake, so that the cryptographic work is that of a real client.
#[derive(Debug)]
struct AcceptAnyone(Arc<CryptoProvider>);

impl ServerCertVerifier for AcceptAnyone {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
