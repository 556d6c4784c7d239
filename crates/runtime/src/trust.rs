//! Whom we believe where we are the client of a TLS connection: of servers, of another gateway's admin interface, of a collector.

use std::sync::Arc;

use rustls::{
    CertificateError, DigitallySignedStruct, OtherError, RootCertStore, SignatureScheme,
    client::{
        WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        verify_server_name,
    },
    crypto::CryptoProvider,
    pki_types::{CertificateDer, ServerName, UnixTime},
    server::ParsedCertificate,
};

/// Believes whom the authorities vouch for, as webpki does, and servers whose own certificate is among those that are given:
/// one that is signed by itself is an authority's more often than not (`openssl req -x509` makes them so), and webpki takes no
/// authority for a server.
#[derive(Debug)]
pub struct Trust {
    webpki: Arc<WebPkiServerVerifier>,
    given: Vec<CertificateDer<'static>>,
}

/// Why nobody would be believed.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// What is given is no certificate of an authority.
    #[error("{0}")]
    Given(rustls::Error),
    /// The system has none, for these reasons.
    #[error("the system trusts no certificate authority ({0}); install ca-certificates")]
    System(String),
    /// No verifier can be made of them.
    #[error("{0}")]
    Verifier(rustls::client::VerifierBuilderError),
}

impl Trust {
    /// Believes those that are `given`; `None`: those that the system trusts.
    ///
    /// # Errors
    /// There are none, or they are not usable.
    pub fn new(
        given: Option<Vec<CertificateDer<'static>>>,
        provider: Arc<CryptoProvider>,
    ) -> Result<Self, TrustError> {
        let mut roots = RootCertStore::empty();
        if let Some(given) = &given {
            for certificate in given {
                roots.add(certificate.clone()).map_err(TrustError::Given)?;
            }
        } else {
            let found = rustls_native_certs::load_native_certs();
            roots.add_parsable_certificates(found.certs);
            if roots.is_empty() {
                let why: Vec<String> = found.errors.iter().map(ToString::to_string).collect();
                return Err(TrustError::System(why.join("; ")));
            }
        }
        let webpki = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider)
            .build()
            .map_err(TrustError::Verifier)?;
        Ok(Self { webpki, given: given.unwrap_or_default() })
    }

    /// Whether nothing is wrong with a certificate but who signed it, or that it could sign others.
    #[must_use]
    pub fn is_of_the_signer(error: &CertificateError) -> bool {
        match error {
            CertificateError::UnknownIssuer => true,
            CertificateError::Other(OtherError(error)) => {
                error.downcast_ref() == Some(&webpki::Error::CaUsedAsEndEntity)
            }
            _ => false,
        }
    }
}

impl ServerCertVerifier for Trust {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let verdict =
            self.webpki.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        match verdict {
            // webpki looks at the time before it looks at either.
            Err(rustls::Error::InvalidCertificate(error))
                if Self::is_of_the_signer(&error) && self.given.iter().any(|given| given == end_entity) =>
            {
                verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
                Ok(ServerCertVerified::assertion())
            }
            verdict => verdict,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.webpki.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.webpki.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.webpki.supported_verify_schemes()
    }
}
