//! Certificates from PEM files, chosen by the server name a client asks for.

use std::{cell::Cell, collections::HashMap, fs, path::Path, sync::Arc};

use aws_lc_rs::digest;
use rustls::{
    RootCertStore, SignatureAlgorithm, SignatureScheme,
    crypto::CryptoProvider,
    server::{ClientHello, ResolvesServerCert},
    sign::{CertifiedKey, Signer, SigningKey},
};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, SubjectPublicKeyInfoDer, pem::PemObject};
use tidegate_config::Certificate;

use super::TlsError;

/// The certificates of a listener by the names in them: an exact name goes before a wildcard, and
/// the first certificate serves whoever asks for no name or one that none has. Where several have
/// the same name (an ECDSA and an RSA one), the first that the client can verify is taken.
#[derive(Debug)]
pub(super) struct Certificates {
    exact: HashMap<String, Vec<Arc<Pair>>>,
    /// By the part behind `*`, dot included.
    wildcard: HashMap<String, Vec<Arc<Pair>>>,
    first: Arc<Pair>,
}

/// A certificate and its key.
#[derive(Debug)]
struct Pair {
    signing: Arc<CertifiedKey>,
    /// The same with a key that signs nothing.
    unsigning: Arc<CertifiedKey>,
}

impl Pair {
    fn new(signing: CertifiedKey) -> Arc<Self> {
        let mut unsigning = signing.clone();
        unsigning.key = Arc::new(Unsigning(Arc::clone(&signing.key)));
        Arc::new(Self { signing: Arc::new(signing), unsigning: Arc::new(unsigning) })
    }
}

impl Certificates {
    /// Reads and checks every pair of files.
    pub(super) fn read(files: &[Certificate], provider: &CryptoProvider) -> Result<Self, TlsError> {
        let pairs: Vec<Arc<Pair>> =
            files.iter().map(|files| read_pair(files, provider).map(Pair::new)).collect::<Result<_, _>>()?;
        let Some(first) = pairs.first().cloned() else {
            return Err(TlsError::Refused(rustls::Error::NoCertificatesPresented));
        };
        let mut certificates = Self { exact: HashMap::new(), wildcard: HashMap::new(), first };
        for (pair, files) in pairs.iter().zip(files) {
            certificates.add(pair, &files.chain)?;
        }
        Ok(certificates)
    }

    fn add(&mut self, pair: &Arc<Pair>, chain: &Path) -> Result<(), TlsError> {
        let malformed = |error| malformed(chain, format!("no certificate of TLS: {error}"));
        let leaf = pair.signing.end_entity_cert()?;
        let leaf = webpki::EndEntityCert::try_from(leaf).map_err(|error| malformed(error.to_string()))?;
        for name in leaf.valid_dns_names() {
            let name = name.to_ascii_lowercase();
            let (names, name) = match name.strip_prefix('*') {
                Some(suffix) => (&mut self.wildcard, suffix.to_owned()),
                None => (&mut self.exact, name),
            };
            names.entry(name).or_default().push(Arc::clone(pair));
        }
        Ok(())
    }

    fn find(&self, name: &str) -> Option<&[Arc<Pair>]> {
        let name = name.to_ascii_lowercase();
        if let Some(pairs) = self.exact.get(&name) {
            return Some(pairs);
        }
        // A wildcard stands for one label.
        let suffix = &name[name.find('.')?..];
        self.wildcard.get(suffix).map(Vec::as_slice)
    }
}

impl Certificates {
    fn choose(&self, hello: &ClientHello<'_>) -> &Pair {
        let pairs = hello.server_name().and_then(|name| self.find(name)).unwrap_or_default();
        let verifiable =
            pairs.iter().find(|pair| pair.signing.key.choose_scheme(hello.signature_schemes()).is_some());
        verifiable.unwrap_or(&self.first)
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.choose(&hello).signing))
    }
}

/// The same certificates for sessions that are to be resumed: a handshake that turns out to be a
/// full one fails without a signature. rustls looks at the certificate before it looks at tickets, so
/// it has to be given one.
#[derive(Debug)]
pub(super) struct ForResumption(pub(super) Arc<Certificates>);

impl ResolvesServerCert for ForResumption {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0.choose(&hello).unsigning))
    }
}

thread_local! {
    static SIGNATURE_WANTED: Cell<bool> = const { Cell::new(false) };
}

/// Runs `f`; also says whether a handshake in it, meant to resume a session, wanted a signature and so
/// has failed.
pub(super) fn signature_wanted<R>(f: impl FnOnce() -> R) -> (R, bool) {
    SIGNATURE_WANTED.set(false);
    let result = f();
    (result, SIGNATURE_WANTED.take())
}

/// A key that signs nothing.
#[derive(Debug)]
struct Unsigning(Arc<dyn SigningKey>);

impl SigningKey for Unsigning {
    fn choose_scheme(&self, _: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
        SIGNATURE_WANTED.set(true);
        None
    }

    fn public_key(&self) -> Option<SubjectPublicKeyInfoDer<'_>> {
        self.0.public_key()
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        self.0.algorithm()
    }
}

/// The authorities in a PEM file, and a digest of them.
pub(super) fn read_authorities(path: &Path) -> Result<(RootCertStore, [u8; 32]), TlsError> {
    let mut store = RootCertStore::empty();
    let mut hash = digest::Context::new(&digest::SHA256);
    for authority in read_certificates(path)? {
        hash.update(&authority);
        store
            .add(authority)
            .map_err(|error| malformed(path, format!("not a certificate of an authority: {error}")))?;
    }
    let mut digest = [0; 32];
    digest.copy_from_slice(hash.finish().as_ref());
    Ok((store, digest))
}

fn read_pair(files: &Certificate, provider: &CryptoProvider) -> Result<CertifiedKey, TlsError> {
    let chain = read_certificates(&files.chain)?;
    let pem = read(&files.key)?;
    let key = PrivateKeyDer::from_pem_slice(&pem).map_err(|error| {
        malformed(
            &files.key,
            format!("no private key in PEM (PKCS#8, PKCS#1 or SEC1, not encrypted): {error}"),
        )
    })?;
    CertifiedKey::from_der(chain, key, provider).map_err(|error| match error {
        rustls::Error::InconsistentKeys(_) => {
            TlsError::Mismatch { chain: files.chain.clone(), key: files.key.clone() }
        }
        rustls::Error::InvalidCertificate(_) => {
            malformed(&files.chain, format!("no certificate of TLS: {error}"))
        }
        error => malformed(&files.key, format!("not a private key that can be used: {error}")),
    })
}

fn read_certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let pem = read(path)?;
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(&pem)
        .collect::<Result<_, _>>()
        .map_err(|error| malformed(path, format!("broken PEM: {error}")))?;
    if certificates.is_empty() {
        return Err(malformed(path, "no certificate in PEM (\"-----BEGIN CERTIFICATE-----\")".to_owned()));
    }
    Ok(certificates)
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    fs::read(path).map_err(|source| TlsError::Unreadable { path: path.to_owned(), source })
}

fn malformed(path: &Path, problem: String) -> TlsError {
    TlsError::Malformed { path: path.to_owned(), problem }
}
