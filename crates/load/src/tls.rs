//! The generator's TLS client settings.

mod tickets;

use std::{path::Path, sync::Arc};

use rustls::{
    ClientConfig, DigitallySignedStruct, DistinguishedName, Error, RootCertStore, SignatureScheme,
    SupportedCipherSuite,
    client::{
        Resumption, WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::{CryptoProvider, aws_lc_rs},
    version::{TLS12, TLS13},
};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject};

use self::tickets::{KeepOnly, Tickets};
use crate::{
    error::LoadError,
    plan::{Protocol, Signatures, TlsPlan, TlsVersions},
};

/// Tickets one thread's connections share.
const SHARED_TICKETS_MAX: usize = 4096;
/// Tickets one session's connections share, as browsers and TLS libraries keep them.
const OWN_TICKETS_MAX: usize = 8;

/// TLS for the connections of one client, or of all that share a thread.
#[derive(Clone, Debug)]
pub(crate) struct TlsClient {
    /// Offers to resume what it can.
    pub(crate) resuming: Arc<ClientConfig>,
    /// Never offers, but keeps the tickets it is given.
    pub(crate) full: Arc<ClientConfig>,
    /// Share of connections that are to resume, 0 to 1.
    pub(crate) resume_share: f64,
    pub(crate) name: ServerName<'static>,
}

impl TlsClient {
    /// For a target with that host, by the plan.
    pub(crate) fn new(plan: &TlsPlan, protocol: Protocol, host: &str) -> Result<Self, LoadError> {
        let config = Arc::new(client_config(plan, protocol)?);
        Ok(Self {
            resuming: Arc::clone(&config),
            full: config,
            resume_share: if plan.resume { plan.resume_share } else { 0.0 },
            name: server_name(plan, host)?,
        }
        .keeping(SHARED_TICKETS_MAX))
    }

    /// The same with tickets of its own, none yet.
    pub(crate) fn of_its_own(&self) -> Self {
        self.clone().keeping(OWN_TICKETS_MAX)
    }

    fn keeping(mut self, most: usize) -> Self {
        if self.resume_share <= 0.0 {
            return self;
        }
        let tickets = Arc::new(Tickets::new(most));
        let mut resuming = (*self.resuming).clone();
        if self.resume_share < 1.0 {
            let mut full = resuming.clone();
            full.resumption = Resumption::store(Arc::new(KeepOnly(Arc::clone(&tickets))));
            self.full = Arc::new(full);
        }
        resuming.resumption = Resumption::store(tickets);
        self.resuming = Arc::new(resuming);
        self
    }
}

fn client_config(plan: &TlsPlan, protocol: Protocol) -> Result<ClientConfig, LoadError> {
    let provider = Arc::new(provider(plan.signatures));
    let versions = match plan.versions {
        TlsVersions::Any => vec![&TLS13, &TLS12],
        TlsVersions::Only12 => vec![&TLS12],
        TlsVersions::Only13 => vec![&TLS13],
    };
    let fault = |fault: String| LoadError::Tls { fault, mend: "choose other tls settings" };
    let trusting: Arc<dyn ServerCertVerifier> = match &plan.ca {
        Some(path) if !plan.insecure => {
            let roots = Arc::new(read_roots(path)?);
            WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&provider))
                .build()
                .map_err(|cause| fault(cause.to_string()))?
        }
        _ => Arc::new(AcceptAnyone(Arc::clone(&provider))),
    };
    let schemes = trusting.supported_verify_schemes();
    let schemes = schemes.into_iter().filter(|scheme| plan.signatures.allow(*scheme)).collect();
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&versions)
        .map_err(|cause| fault(cause.to_string()))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Signed { trusting, schemes }))
        .with_no_client_auth();
    config.resumption = Resumption::disabled();
    config.alpn_protocols = match protocol {
        Protocol::Http1 => vec![b"http/1.1".to_vec()],
        Protocol::Http2 => vec![b"h2".to_vec()],
        Protocol::Auto => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
    };
    Ok(config)
}

/// TLS 1.2 names the signature in its cipher suites too.
fn provider(signatures: Signatures) -> CryptoProvider {
    let mut provider = aws_lc_rs::default_provider();
    provider.cipher_suites.retain(|suite| match suite {
        SupportedCipherSuite::Tls12(suite) => suite.sign.iter().any(|scheme| signatures.allow(*scheme)),
        SupportedCipherSuite::Tls13(_) => true,
    });
    provider
}

impl Signatures {
    fn allow(self, scheme: SignatureScheme) -> bool {
        use SignatureScheme::*;
        match self {
            Self::Any => true,
            Self::Rsa => matches!(
                scheme,
                RSA_PKCS1_SHA256
                    | RSA_PKCS1_SHA384
                    | RSA_PKCS1_SHA512
                    | RSA_PSS_SHA256
                    | RSA_PSS_SHA384
                    | RSA_PSS_SHA512
            ),
            Self::Ecdsa => {
                matches!(scheme, ECDSA_NISTP256_SHA256 | ECDSA_NISTP384_SHA384 | ECDSA_NISTP521_SHA512)
            }
        }
    }
}

/// The name sent and verified.
fn server_name(plan: &TlsPlan, host: &str) -> Result<ServerName<'static>, LoadError> {
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

/// Trusts as another verifier does, but offers and accepts only some signatures.
#[derive(Debug)]
struct Signed {
    trusting: Arc<dyn ServerCertVerifier>,
    schemes: Vec<SignatureScheme>,
}

impl ServerCertVerifier for Signed {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.trusting.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.trusting.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.trusting.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.schemes.clone()
    }

    fn root_hint_subjects(&self) -> Option<&[DistinguishedName]> {
        self.trusting.root_hint_subjects()
    }
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
