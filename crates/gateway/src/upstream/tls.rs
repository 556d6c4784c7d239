//! TLS towards servers: who is trusted, what we show, and files read again when they change.

use std::{
    cell::{Cell, RefCell},
    fs,
    path::PathBuf,
    rc::Rc,
    sync::Arc,
    time::SystemTime,
};

use rustls::{
    ClientConfig, DigitallySignedStruct, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature},
    sign::SingleCertAndKey,
};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use tidegate_config::{UpstreamProtocol, UpstreamTls};
use tidegate_runtime::{Trust, TrustError, read_certificates, read_pair};
use tokio_rustls::{TlsConnector, client::TlsStream};

use super::connect::handshake_error;
use crate::socket::Socket;

/// The TLS client of one set of settings, on one core: sessions are resumed within it.
#[derive(Debug)]
pub(super) struct TlsClient {
    settings: UpstreamTls,
    protocol: UpstreamProtocol,
    loaded: RefCell<Option<Loaded>>,
    /// Whether the files are to be looked at again before the next handshake.
    is_stale: Cell<bool>,
}

#[derive(Clone, Debug)]
struct Loaded {
    config: Arc<ClientConfig>,
    stamps: Vec<Stamp>,
}

/// What tells one state of a file from another.
type Stamp = Option<(SystemTime, u64)>;

impl TlsClient {
    pub(super) fn new(settings: &UpstreamTls, protocol: UpstreamProtocol) -> Self {
        Self { settings: settings.clone(), protocol, loaded: RefCell::new(None), is_stale: Cell::new(true) }
    }

    /// Whether it is the client of these settings.
    pub(super) fn is_of(&self, settings: &UpstreamTls, protocol: UpstreamProtocol) -> bool {
        self.settings == *settings && self.protocol == protocol
    }

    /// Has the files looked at again before the next handshake.
    pub(super) fn recheck(&self) {
        self.is_stale.set(true);
    }

    /// Speaks TLS over `socket` with the server of that host name or address, and offers it `protocol`.
    pub(super) async fn handshake(
        self: Rc<Self>,
        host: Option<&str>,
        socket: Socket,
        protocol: UpstreamProtocol,
    ) -> Result<TlsStream<Socket>, String> {
        let name = self.settings.server_name.as_deref().or(host).ok_or(
            "a Unix socket has no name to check the certificate against; write upstream.tls.server_name",
        )?;
        let name = ServerName::try_from(name.to_owned()).map_err(|_| {
            format!("\"{name}\" is no name a certificate can have; write upstream.tls.server_name")
        })?;
        let mut config = self.config().await?;
        if protocol != self.protocol {
            Arc::make_mut(&mut config).alpn_protocols = alpn(protocol);
        }
        TlsConnector::from(config).connect(name, socket).await.map_err(|error| handshake_error(&error))
    }

    /// The client configuration; files are read on a thread of their own.
    async fn config(&self) -> Result<Arc<ClientConfig>, String> {
        let present = self.loaded.borrow().clone();
        if let Some(present) = &present
            && !self.is_stale.get()
        {
            return Ok(Arc::clone(&present.config));
        }
        self.is_stale.set(false);
        let (settings, protocol) = (self.settings.clone(), self.protocol);
        let known = present.as_ref().map(|present| present.stamps.clone());
        let outcome = tokio::task::spawn_blocking(move || {
            let stamps: Vec<Stamp> = files(&settings).map(stamp).collect();
            if Some(&stamps) == known.as_ref() {
                return Ok(None);
            }
            load(&settings, protocol).map(|config| Some(Loaded { config: Arc::new(config), stamps }))
        })
        .await
        .map_err(|error| format!("reading certificates: {error}"))
        .flatten();
        match (outcome, present) {
            (Ok(Some(loaded)), _) => {
                let config = Arc::clone(&loaded.config);
                self.loaded.replace(Some(loaded));
                Ok(config)
            }
            (Ok(None), Some(present)) => Ok(present.config),
            (Err(error), Some(present)) => {
                // Every core comes by here; to the log it was said once, when the settings were put in force.
                tracing::debug!("TLS to servers: {error}; what was read before stays in use");
                Ok(present.config)
            }
            (Ok(None), None) => Err("the files changed while they were read".to_owned()),
            (Err(error), None) => {
                // Asked again at the next connection: the mend may be on its way.
                self.is_stale.set(true);
                Err(error)
            }
        }
    }
}

/// What is wrong with the files that `settings` name, if anything is.
pub(crate) fn fault(settings: &UpstreamTls) -> Option<String> {
    load(settings, UpstreamProtocol::Auto).err()
}

fn files(settings: &UpstreamTls) -> impl Iterator<Item = &PathBuf> {
    let certificate =
        settings.certificate.iter().flat_map(|certificate| [&certificate.chain, &certificate.key]);
    settings.ca.iter().chain(certificate)
}

fn stamp(path: &PathBuf) -> Stamp {
    let metadata = fs::metadata(path).ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}

fn load(settings: &UpstreamTls, protocol: UpstreamProtocol) -> Result<ClientConfig, String> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let builder = if settings.insecure {
        builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AcceptAny { provider: Arc::clone(&provider) }))
    } else {
        builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(trust(settings, Arc::clone(&provider))?))
    };
    let mut config = match &settings.certificate {
        None => builder.with_no_client_auth(),
        Some(certificate) => {
            let pair = read_pair(certificate, &provider).map_err(|fault| fault.to_string())?;
            builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(pair)))
        }
    };
    config.alpn_protocols = alpn(protocol);
    Ok(config)
}

fn alpn(protocol: UpstreamProtocol) -> Vec<Vec<u8>> {
    match protocol {
        UpstreamProtocol::Http1 => vec![b"http/1.1".to_vec()],
        UpstreamProtocol::Http2 => vec![b"h2".to_vec()],
        UpstreamProtocol::Auto => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
    }
}

fn trust(settings: &UpstreamTls, provider: Arc<CryptoProvider>) -> Result<Trust, String> {
    let given =
        settings.ca.as_deref().map(read_certificates).transpose().map_err(|fault| fault.to_string())?;
    Trust::new(given, provider).map_err(|error| match (error, &settings.ca) {
        (error @ TrustError::System(_), _) => format!("{error} or write upstream.tls.ca"),
        (error, Some(path)) => format!("{}: {error}", path.display()),
        (error, None) => error.to_string(),
    })
}

/// Accepts any certificate, as `upstream.tls.insecure` says; signatures are still checked, so that
/// whoever shows a certificate has its key.
#[derive(Debug)]
struct AcceptAny {
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for AcceptAny {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(
            message,
            certificate,
            signature,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(
            message,
            certificate,
            signature,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
