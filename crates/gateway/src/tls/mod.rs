//! TLS towards clients: certificates by server name, tickets of our own, and what a listener needs of both.

mod certificates;
mod completeness;
mod expiry;
mod handshakes;
mod ticketer;

use std::{sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use aws_lc_rs::digest;
use rustls::{
    CipherSuite, HandshakeKind, ServerConfig, ServerConnection,
    crypto::CryptoProvider,
    server::{
        Accepted, NoServerSessionStorage, ProducesTickets, WebPkiClientVerifier, danger::ClientCertVerifier,
    },
};
use rustls_pki_types::{CertificateDer, UnixTime};
use tidegate_config::{Certificate, CipherOrder, ClientAuth, ListenerTls, TlsVersion};
use tidegate_control::{ApplicationId, meters::Handshake, tls_sessions::Session};
use tidegate_runtime::PemFault;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::{Accept, StartHandshake};

use self::certificates::{Certificates, ForResumption, read_authorities};
use self::completeness::incomplete;
use self::expiry::untimely;
pub(crate) use self::expiry::{Reminders, first_expiry};
pub(crate) use self::handshakes::Handshakes;
pub(crate) use self::ticketer::Ticketer;
pub use self::ticketer::TicketerError;
use crate::facts::TlsFacts;

/// Why a listener's TLS cannot be set up; what was in force stays so.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file cannot be used.
    #[error(transparent)]
    File(#[from] PemFault),
    /// The TLS library refuses the combination.
    #[error("TLS cannot be set up: {0}")]
    Refused(#[from] rustls::Error),
}

/// The TLS of one listener: what its connections are served with, replaced as a whole when
/// certificates change.
#[derive(Debug)]
pub(crate) struct ServerTls {
    present: ArcSwap<Present>,
    ticketer: Arc<Ticketer>,
}

/// One version of a listener's TLS.
#[derive(Debug)]
pub(crate) struct Present {
    /// By our order of cipher suites, if that counts.
    ours: Option<Configs>,
    /// By the client's order.
    theirs: Configs,
    tickets: ticketer::Scope,
    certificates: Arc<Certificates>,
    clients: Clients,
}

/// What is asked of clients' certificates.
#[derive(Clone, Debug)]
struct Clients {
    verifier: Option<Arc<dyn ClientCertVerifier>>,
    /// The context of tickets: a session begun where one authority was asked for must not be resumed where another is.
    context: [u8; 32],
}

/// For rustls.
#[derive(Debug)]
struct Configs {
    /// Any handshake.
    any: Arc<ServerConfig>,
    /// Sessions that are to be resumed; a full handshake fails without a signature.
    resumption: Arc<ServerConfig>,
    /// Full handshakes, whatever tickets there are.
    full: Arc<ServerConfig>,
}

/// Whether the tickets of a hello count in its handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tickets {
    /// If they hold.
    Count,
    /// The client has to show its certificate anew.
    Ignored,
}

/// Files of a certificate, and the chain that was read from them.
pub(crate) type WithChain = (Certificate, Vec<CertificateDer<'static>>);

/// What of these is in force although clients will hardly accept it, or not for long.
pub(crate) fn doubts(chains: &[WithChain]) -> Vec<String> {
    let now = Duration::from_secs(UnixTime::now().as_secs());
    let untimely = chains.iter().filter_map(|(files, chain)| untimely(files, chain, now));
    untimely.chain(incomplete(chains)).collect()
}

/// Everything at fault in the files that `settings` name, and what of it is served to nobody.
pub(crate) fn faults(settings: &ListenerTls) -> Vec<TlsError> {
    let provider = Arc::new(provider());
    let mut faults = Certificates::faults(&settings.certificates, &provider);
    faults.extend(Clients::read(&settings.client_auth, &provider).err());
    faults
}

impl ServerTls {
    /// Reads everything that `settings` name.
    pub(crate) fn new(settings: &ListenerTls, ticketer: Arc<Ticketer>) -> Result<Self, TlsError> {
        let present = ArcSwap::from_pointee(Present::read(settings, &ticketer)?);
        Ok(Self { present, ticketer })
    }

    /// Reads everything anew; connections from now on are served with it. Gives what is at fault: of that, what was
    /// read before stays in force.
    pub(crate) fn reload(&self, settings: &ListenerTls) -> Vec<TlsError> {
        let mut faults = Vec::new();
        match self.present.load().read_again(settings, &self.ticketer, &mut faults) {
            Ok(present) => self.present.store(Arc::new(present)),
            Err(fault) => faults.push(fault),
        }
        faults
    }

    /// The certificates in force.
    pub(crate) fn chains(&self) -> Vec<WithChain> {
        self.present.load().certificates.chains()
    }

    /// What a new connection is served with.
    pub(crate) fn present(&self) -> Arc<Present> {
        self.present.load_full()
    }
}

impl Present {
    fn read(settings: &ListenerTls, ticketer: &Arc<Ticketer>) -> Result<Self, TlsError> {
        let provider = Arc::new(provider());
        let certificates = Certificates::read(&settings.certificates, &provider)?;
        let clients = Clients::read(&settings.client_auth, &provider)?;
        Self::new(settings, ticketer, provider, certificates, clients)
    }

    fn read_again(
        &self,
        settings: &ListenerTls,
        ticketer: &Arc<Ticketer>,
        faults: &mut Vec<TlsError>,
    ) -> Result<Self, TlsError> {
        let provider = Arc::new(provider());
        let certificates = self.certificates.read_again(&settings.certificates, &provider, faults)?;
        let clients = Clients::read(&settings.client_auth, &provider).unwrap_or_else(|fault| {
            faults.push(fault);
            self.clients.clone()
        });
        Self::new(settings, ticketer, provider, certificates, clients)
    }

    fn new(
        settings: &ListenerTls,
        ticketer: &Arc<Ticketer>,
        provider: Arc<CryptoProvider>,
        certificates: Certificates,
        clients: Clients,
    ) -> Result<Self, TlsError> {
        let versions: &[_] = match settings.min_version {
            TlsVersion::V12 => &[&rustls::version::TLS13, &rustls::version::TLS12],
            TlsVersion::V13 => &[&rustls::version::TLS13],
        };
        let builder = ServerConfig::builder_with_provider(provider).with_protocol_versions(versions)?;
        let builder = match &clients.verifier {
            None => builder.with_no_client_auth(),
            Some(verifier) => builder.with_client_cert_verifier(Arc::clone(verifier)),
        };
        let certificates = Arc::new(certificates);
        let mut config = builder.with_cert_resolver(certificates.clone());
        config.alpn_protocols = match settings.http2 {
            true => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
            false => vec![b"http/1.1".to_vec()],
        };
        let tickets = ticketer.scope(clients.context);
        config.ticketer = Arc::new(tickets.clone());
        // Sessions live in tickets only: looking a session id up would consume it.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        let configs = |ignore_client_order| {
            let mut any = config.clone();
            any.ignore_client_order = ignore_client_order;
            let mut resumption = any.clone();
            resumption.cert_resolver = Arc::new(ForResumption(Arc::clone(&certificates)));
            let mut full = any.clone();
            full.ticketer = Arc::new(ticketer::SealsOnly(tickets.clone()));
            Configs { any: Arc::new(any), resumption: Arc::new(resumption), full: Arc::new(full) }
        };
        let ours = (settings.cipher_order == CipherOrder::Gateway).then(|| configs(true));
        let theirs = configs(false);
        Ok(Self { ours, theirs, tickets, certificates, clients })
    }

    /// The same for one client each time, since a session is resumed with the suite it began with.
    fn configs(&self, accepted: &Accepted) -> &Configs {
        match &self.ours {
            Some(ours) if !wants_chacha20(accepted.client_hello().cipher_suites(), &ours.any) => ours,
            _ => &self.theirs,
        }
    }

    /// Begins any handshake: the cryptography of the server's first flight, with a signature unless
    /// the session is resumed. Also tells whether that asks for another key share, so that the signature is still to come.
    pub(crate) fn begin<S>(&self, accepted: Accepted, stream: S, tickets: Tickets) -> (Accept<S>, bool)
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let configs = self.configs(&accepted);
        let config = Arc::clone(match tickets {
            Tickets::Count => &configs.any,
            Tickets::Ignored => &configs.full,
        });
        let mut asks_again = false;
        let begun = StartHandshake::from_parts(accepted, stream).into_stream_with(config, |session| {
            asks_again = session.handshake_kind() == Some(HandshakeKind::FullWithHelloRetryRequest);
        });
        (begun, asks_again)
    }

    /// Begins a handshake that resumes a session; else nothing has been sent, and it is how to begin another: the answer to
    /// this hello does not resume it, or it has outlived its client's certificate. One that asks for another key share is none
    /// either: which of the tickets holds is seen in the second hello only, and that may take a signature.
    pub(crate) fn resume<S>(&self, accepted: Accepted, stream: S) -> Result<Accept<S>, Tickets>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let config = Arc::clone(&self.configs(&accepted).resumption);
        let (mut resumes, mut outlived) = (false, false);
        let begun = StartHandshake::from_parts(accepted, stream).into_stream_with(config, |session| {
            (resumes, outlived) = (is_resumed(session), has_outlived_certificate(session));
        });
        match (resumes, outlived) {
            (_, true) => Err(Tickets::Ignored),
            (true, false) => Ok(begun),
            (false, false) => Err(Tickets::Count),
        }
    }

    /// Whether a client's ticket is one that this listener can resume.
    pub(crate) fn opens(&self, ticket: &[u8]) -> bool {
        self.tickets.decrypt(ticket).is_some()
    }
}

/// What rustls takes of aws-lc, with our order of cipher suites: where there is AES in hardware, with 128 bits and
/// SHA-256 first. A handshake of TLS 1.3 derives its keys by many HMACs; most processors have SHA-256 in hardware, and not
/// SHA-384.
fn provider() -> CryptoProvider {
    let mut provider = rustls::crypto::aws_lc_rs::default_provider();
    provider.cipher_suites.sort_by_key(|suite| {
        let is_of_12 = suite.tls13().is_none();
        (is_of_12, is_chacha20(suite.suite()), !is_aes_128(suite.suite()))
    });
    provider
}

/// Whether a client wants ChaCha20 before all that we have, as those do for which AES is slow.
fn wants_chacha20(offered: &[CipherSuite], config: &ServerConfig) -> bool {
    let ours = &config.crypto_provider().cipher_suites;
    let is_ours = |offered: &&CipherSuite| ours.iter().any(|suite| suite.suite() == **offered);
    offered.iter().find(is_ours).copied().is_some_and(is_chacha20)
}

const fn is_chacha20(suite: CipherSuite) -> bool {
    matches!(
        suite,
        CipherSuite::TLS13_CHACHA20_POLY1305_SHA256
            | CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256
            | CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256
    )
}

const fn is_aes_128(suite: CipherSuite) -> bool {
    matches!(
        suite,
        CipherSuite::TLS13_AES_128_GCM_SHA256
            | CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256
            | CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256
    )
}

impl Clients {
    fn read(client_auth: &ClientAuth, provider: &Arc<CryptoProvider>) -> Result<Self, TlsError> {
        let (path, required) = match client_auth {
            ClientAuth::Off => return Ok(Self { verifier: None, context: [0; 32] }),
            ClientAuth::Optional(path) => (path, false),
            ClientAuth::Required(path) => (path, true),
        };
        let (authorities, digest) = read_authorities(path)?;
        let builder =
            WebPkiClientVerifier::builder_with_provider(Arc::new(authorities), Arc::clone(provider));
        let builder = if required { builder } else { builder.allow_unauthenticated() };
        let verifier =
            builder.build().map_err(|error| PemFault { path: path.clone(), problem: error.to_string() })?;
        let mut context = [0; 32];
        let mut hash = digest::Context::new(&digest::SHA256);
        hash.update(&[u8::from(required)]);
        hash.update(&digest);
        context.copy_from_slice(hash.finish().as_ref());
        Ok(Self { verifier: Some(verifier), context })
    }
}

/// The facts of a session whose handshake is done.
pub(crate) fn facts(session: &ServerConnection, greeted: Option<(ApplicationId, Session)>) -> TlsFacts {
    let certificate = session.peer_certificates().and_then(|chain| chain.first());
    TlsFacts {
        server_name: session.server_name().map(|name| Arc::from(comparable(name))),
        version: match session.protocol_version() {
            Some(rustls::ProtocolVersion::TLSv1_3) => "TLSv1.3",
            Some(rustls::ProtocolVersion::TLSv1_2) => "TLSv1.2",
            _ => "unknown",
        },
        cipher: session
            .negotiated_cipher_suite()
            .and_then(|suite| suite.suite().as_str())
            .unwrap_or("unknown"),
        resumed: is_resumed(session),
        client_certificate: certificate.map(|certificate| {
            let hash = digest::digest(&digest::SHA256, certificate);
            Arc::from(hash.as_ref().iter().map(|byte| format!("{byte:02x}")).collect::<String>())
        }),
        greeted,
    }
}

/// A server name as names are compared: lower case, and without the final dot that some clients send though it is
/// not allowed (RFC 6066, section 3).
fn comparable(name: &str) -> String {
    name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase()
}

/// Whether a session is resumed whose client's certificate has expired since it began. Each resumption gives new tickets, so
/// that it would be believed for ever.
pub(crate) fn has_outlived_certificate(session: &ServerConnection) -> bool {
    let now = Duration::from_secs(UnixTime::now().as_secs());
    let own = || session.peer_certificates()?.get(..1);
    is_resumed(session) && own().and_then(first_expiry).is_some_and(|until| until < now)
}

fn is_resumed(session: &ServerConnection) -> bool {
    session.handshake_kind() == Some(HandshakeKind::Resumed)
}

/// The kind of a handshake that is done, for the meters.
pub(crate) fn handshake(facts: &TlsFacts) -> Handshake {
    match (facts.version, facts.resumed) {
        ("TLSv1.3", false) => Handshake::Full13,
        ("TLSv1.3", true) => Handshake::Resumed13,
        (_, false) => Handshake::Full12,
        (_, true) => Handshake::Resumed12,
    }
}

#[cfg(test)]
mod tests {
    use super::comparable;

    #[test]
    fn a_name_is_the_same_in_capitals_and_with_a_final_dot() {
        for (name, expected) in
            [("Shop.Example", "shop.example"), ("shop.example.", "shop.example"), ("a..", "a.")]
        {
            assert_eq!(comparable(name), expected);
        }
    }
}
