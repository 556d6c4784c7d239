//! Certificates from PEM files, chosen by the server name a client asks for.

use std::{collections::HashMap, path::Path, sync::Arc};

use aws_lc_rs::digest;
use rustls::{
    RootCertStore, SignatureAlgorithm, SignatureScheme,
    crypto::CryptoProvider,
    server::{ClientHello, ResolvesServerCert},
    sign::{CertifiedKey, Signer, SigningKey},
};
use rustls_pki_types::{CertificateDer, SubjectPublicKeyInfoDer};
use tidegate_config::Certificate;
use tidegate_runtime::{PemFault, read_certificates, read_pair};

use super::{TlsError, WithChain, comparable};

/// The certificates of a listener by the names in them: an exact name goes before a wildcard, and
/// the first certificate serves whoever asks for no name or one that none has, as do those that have
/// its names. Where several have the same name (an ECDSA and an RSA one), the first that the client can
/// verify is taken.
#[derive(Debug)]
pub(super) struct Certificates {
    /// As they are written, with the settings they were read by.
    pairs: Vec<(Certificate, Arc<Pair>)>,
    exact: HashMap<String, Vec<Arc<Pair>>>,
    /// By the part behind `*`, dot included.
    wildcard: HashMap<String, Vec<Arc<Pair>>>,
    first: Arc<Pair>,
    /// Others with the names of the first.
    like_first: Vec<Arc<Pair>>,
}

/// A certificate and its key.
#[derive(Debug)]
struct Pair {
    /// The DNS names in it, lower case, in order.
    names: Vec<String>,
    signing: Arc<CertifiedKey>,
    /// The same with a key that signs nothing.
    unsigning: Arc<CertifiedKey>,
}

const NAMELESS: &str = "a certificate without a DNS name that is not the listener's first is served to nobody; \
                        write it first, give it names (subjectAltName), or leave it out";

/// The pairs after the first that no client can ask for.
fn nameless(pairs: &[(Certificate, Arc<Pair>)]) -> impl Iterator<Item = &(Certificate, Arc<Pair>)> {
    pairs.iter().skip(1).filter(|(_, pair)| pair.names.is_empty())
}

impl Pair {
    fn read(files: &Certificate, provider: &CryptoProvider) -> Result<Arc<Self>, TlsError> {
        let signing = read_pair(files, provider)?;
        let names = dns_names(signing.end_entity_cert()?)
            .map_err(|error| malformed(&files.chain, format!("no certificate of TLS: {error}")))?;
        let mut unsigning = signing.clone();
        unsigning.key = Arc::new(Unsigning(Arc::clone(&signing.key)));
        Ok(Arc::new(Self { names, signing: Arc::new(signing), unsigning: Arc::new(unsigning) }))
    }
}

fn dns_names(leaf: &CertificateDer<'_>) -> Result<Vec<String>, webpki::Error> {
    let leaf = webpki::EndEntityCert::try_from(leaf)?;
    let mut names: Vec<_> = leaf.valid_dns_names().map(str::to_ascii_lowercase).collect();
    names.sort_unstable();
    Ok(names)
}

impl Certificates {
    /// Reads and checks every pair of files.
    pub(super) fn read(files: &[Certificate], provider: &CryptoProvider) -> Result<Self, TlsError> {
        let pairs = files.iter().map(|files| Ok((files.clone(), Pair::read(files, provider)?)));
        Self::of(pairs.collect::<Result<_, TlsError>>()?)
    }

    /// Reads every pair of files again; of one that is at fault, what was read before is kept.
    pub(super) fn read_again(
        &self,
        files: &[Certificate],
        provider: &CryptoProvider,
        faults: &mut Vec<TlsError>,
    ) -> Result<Self, TlsError> {
        let mut read = |files: &Certificate| match Pair::read(files, provider) {
            Ok(pair) => Some((files.clone(), pair)),
            Err(fault) => {
                faults.push(fault);
                self.pairs.iter().find(|(before, _)| before == files).cloned()
            }
        };
        Self::of(files.iter().filter_map(&mut read).collect())
    }

    /// Everything that is at fault, and what is served to nobody.
    pub(super) fn faults(files: &[Certificate], provider: &CryptoProvider) -> Vec<TlsError> {
        let mut faults = Vec::new();
        let mut pairs = Vec::new();
        for files in files {
            match Pair::read(files, provider) {
                Ok(pair) => pairs.push((files.clone(), pair)),
                Err(fault) => faults.push(fault),
            }
        }
        let nobodys = nameless(&pairs).map(|(files, _)| malformed(&files.chain, NAMELESS.to_owned()));
        faults.extend(nobodys);
        faults
    }

    /// All of them, each with its files.
    pub(super) fn chains(&self) -> Vec<WithChain> {
        self.pairs.iter().map(|(files, pair)| (files.clone(), pair.signing.cert.clone())).collect()
    }

    fn of(pairs: Vec<(Certificate, Arc<Pair>)>) -> Result<Self, TlsError> {
        let Some((_, first)) = pairs.first() else {
            return Err(TlsError::Refused(rustls::Error::NoCertificatesPresented));
        };
        let first = Arc::clone(first);
        for (files, _) in nameless(&pairs) {
            tracing::warn!("{}: {NAMELESS}", files.chain.display());
        }
        let (mut exact, mut wildcard) = (HashMap::new(), HashMap::new());
        for (_, pair) in &pairs {
            for name in &pair.names {
                let (names, name) = match name.strip_prefix('*') {
                    Some(suffix) => (&mut wildcard, suffix),
                    None => (&mut exact, name.as_str()),
                };
                names.entry(name.to_owned()).or_insert_with(Vec::new).push(Arc::clone(pair));
            }
        }
        let is_like_first = |pair: &&Arc<Pair>| !pair.names.is_empty() && pair.names == first.names;
        let like_first = pairs.iter().skip(1).map(|(_, pair)| pair).filter(is_like_first).cloned().collect();
        Ok(Self { pairs, exact, wildcard, first, like_first })
    }

    fn find(&self, name: &str) -> Option<&[Arc<Pair>]> {
        let name = comparable(name);
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
        let named = hello.server_name().and_then(|name| self.find(name)).unwrap_or_default();
        let unnamed = [&self.first].into_iter().chain(&self.like_first);
        let is_verifiable =
            |pair: &&Arc<Pair>| pair.signing.key.choose_scheme(hello.signature_schemes()).is_some();
        named.iter().chain(unnamed).find(is_verifiable).unwrap_or(&self.first)
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

/// A key that signs nothing.
#[derive(Debug)]
struct Unsigning(Arc<dyn SigningKey>);

impl SigningKey for Unsigning {
    fn choose_scheme(&self, _: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
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

fn malformed(path: &Path, problem: String) -> TlsError {
    TlsError::File(PemFault { path: path.to_owned(), problem })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use rcgen::{CertificateParams, KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ED25519};
    use rustls::{
        ClientConfig, ClientConnection,
        crypto::{WebPkiSupportedAlgorithms, aws_lc_rs::default_provider},
        server::Acceptor,
    };
    use tempfile::TempDir;
    use tidegate_config::UpstreamTls;

    use super::*;
    use crate::upstream::tls_fault;

    /// Files of a certificate that is signed by itself.
    fn issued(
        directory: &TempDir,
        name: &str,
        host: &str,
        kind: &'static rcgen::SignatureAlgorithm,
    ) -> Certificate {
        let [chain, key] = ["pem", "key"].map(|end| directory.path().join(format!("{name}.{end}")));
        let own_key = KeyPair::generate_for(kind).unwrap();
        let params = CertificateParams::new(vec![host.to_owned()]).unwrap();
        fs::write(&chain, params.self_signed(&own_key).unwrap().pem()).unwrap();
        fs::write(&key, own_key.serialize_pem()).unwrap();
        Certificate { chain, key }
    }

    /// The first flight of a client that sends no name and verifies signatures of one kind.
    fn nameless_hello(kind: SignatureScheme) -> Vec<u8> {
        let mut provider = default_provider();
        let WebPkiSupportedAlgorithms { all, mapping } = provider.signature_verification_algorithms;
        let mapping: Vec<_> = mapping.iter().filter(|(scheme, _)| *scheme == kind).copied().collect();
        provider.signature_verification_algorithms =
            WebPkiSupportedAlgorithms { all, mapping: mapping.leak() };
        let mut config = ClientConfig::builder_with_provider(Arc::new(provider))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(RootCertStore::empty())
            .with_no_client_auth();
        config.enable_sni = false;
        let name = "one.example".try_into().unwrap();
        let mut bytes = Vec::new();
        ClientConnection::new(Arc::new(config), name).unwrap().write_tls(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn who_asks_for_no_name_gets_that_of_the_first_names_certificates_that_he_can_verify() {
        let directory = tempfile::tempdir().unwrap();
        let files = [
            issued(&directory, "first", "one.example", &PKCS_ECDSA_P256_SHA256),
            issued(&directory, "other", "two.example", &PKCS_ED25519),
            issued(&directory, "same", "one.example", &PKCS_ED25519),
        ];
        let served = |files: &[Certificate], kind| {
            let certificates = Certificates::read(files, &default_provider()).unwrap();
            let mut acceptor = Acceptor::default();
            acceptor.read_tls(&mut &nameless_hello(kind)[..]).unwrap();
            let accepted = acceptor.accept().unwrap().unwrap();
            let chain = &certificates.choose(&accepted.client_hello()).signing.cert;
            files.iter().position(|files| read_certificates(&files.chain).unwrap() == *chain)
        };
        assert_eq!(served(&files, SignatureScheme::ECDSA_NISTP256_SHA256), Some(0));
        assert_eq!(served(&files, SignatureScheme::ED25519), Some(2));
        assert_eq!(served(&files[..2], SignatureScheme::ED25519), Some(0), "none has the first's names");
    }

    #[test]
    fn a_chain_that_does_not_begin_with_the_keys_certificate_is_told_with_its_mend() {
        let directory = tempfile::tempdir().unwrap();
        let [files, other] =
            ["own", "other"].map(|name| issued(&directory, name, "one.example", &PKCS_ED25519));
        let read = || Pair::read(&files, &default_provider()).map(drop).map_err(|error| error.to_string());
        let [own, other] = [&files, &other].map(|files| fs::read(&files.chain).unwrap());
        fs::write(&files.chain, [&other[..], &own].concat()).unwrap();
        let shown =
            UpstreamTls { server_name: None, ca: None, certificate: Some(files.clone()), insecure: true };
        // To servers the same is said.
        for said in [read().unwrap_err(), tls_fault(&shown).unwrap()] {
            assert!(
                said.ends_with("own.key is that of certificate 2: write that one first, then its issuer's"),
                "{said}"
            );
        }
        fs::write(&files.chain, &other).unwrap();
        assert!(read().unwrap_err().contains("not that of the certificate"));
    }
}
