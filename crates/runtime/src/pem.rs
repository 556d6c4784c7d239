//! Certificates and private keys from PEM files, for whoever shows one: listeners, the admin interface, and us as a client.

use std::path::{Path, PathBuf};

use rustls::{
    CertificateError, OtherError,
    crypto::CryptoProvider,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    sign::CertifiedKey,
};
use tidegate_config::{Certificate, read_pem};

/// A PEM file that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {problem}", path.display())]
pub struct PemFault {
    /// The file.
    pub path: PathBuf,
    /// What is wrong, and what to do about it.
    pub problem: String,
}

/// The certificates in a PEM file, at least one.
///
/// # Errors
///
/// It cannot be read, is no PEM, or holds none.
pub fn read_certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, PemFault> {
    let pem = read(path)?;
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(&pem)
        .collect::<Result<_, _>>()
        .map_err(|error| fault(path, format!("broken PEM: {error}")))?;
    if certificates.is_empty() {
        return Err(fault(path, "no certificate in PEM (\"-----BEGIN CERTIFICATE-----\")".to_owned()));
    }
    Ok(certificates)
}

/// A certificate with its chain and its private key.
///
/// # Errors
///
/// A file cannot be read or is not what it should be, or the key is not that of the first certificate.
pub fn read_pair(files: &Certificate, provider: &CryptoProvider) -> Result<CertifiedKey, PemFault> {
    let chain = read_certificates(&files.chain)?;
    let pem = read(&files.key)?;
    let key = PrivateKeyDer::from_pem_slice(&pem).map_err(|error| {
        fault(&files.key, format!("no private key in PEM (PKCS#8, PKCS#1 or SEC1, not encrypted): {error}"))
    })?;
    let pair = CertifiedKey::from_der(chain.clone(), key.clone_key(), provider);
    pair.map_err(|error| match error {
        rustls::Error::InconsistentKeys(_) => {
            let is_its_own = |certificate: &CertificateDer<'static>| {
                CertifiedKey::from_der(vec![certificate.clone()], key.clone_key(), provider).is_ok()
            };
            match chain.iter().position(is_its_own) {
                Some(at) => fault(
                    &files.chain,
                    format!(
                        "the private key in {} is that of certificate {}: write that one first, then its issuer's",
                        files.key.display(),
                        at + 1
                    ),
                ),
                None => fault(
                    &files.key,
                    format!(
                        "the private key is not that of the certificate in {}; put the pair that belongs together",
                        files.chain.display()
                    ),
                ),
            }
        }
        rustls::Error::InvalidCertificate(error) => fault(&files.chain, unusable(&error)),
        error => fault(
            &files.key,
            format!(
                "not a private key that can be used (RSA of 2048 to 8192 bits, ECDSA on P-256, P-384 or P-521, \
                 Ed25519): {error}"
            ),
        ),
    })
}

/// Why a certificate is none that can be shown, and the mend where that is known.
fn unusable(error: &CertificateError) -> String {
    match error {
        CertificateError::Other(OtherError(error))
            if error.downcast_ref() == Some(&webpki::Error::UnsupportedCertVersion) =>
        {
            "a certificate of X.509 version 1, which TLS takes no more: issue it anew with extensions, which make it \
             version 3 (openssl: -addext or -extfile, with subjectAltName = DNS:NAME)"
                .to_owned()
        }
        error => format!("no certificate of TLS: {error}"),
    }
}

fn read(path: &Path) -> Result<Vec<u8>, PemFault> {
    read_pem(path).map_err(|source| fault(path, format!("cannot be read: {source}")))
}

fn fault(path: &Path, problem: String) -> PemFault {
    PemFault { path: path.to_owned(), problem }
}
