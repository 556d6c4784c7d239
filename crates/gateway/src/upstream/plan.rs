//! How one application's servers are spoken to: its settings, read once a version.

use std::{rc::Rc, time::Duration};

use tidegate_config::{self as config, ProxyVersion, UpstreamProtocol};
use tidegate_control::knobs::{BalancePolicy, KeepAlivePolicy, keys};
use tidegate_runtime::servers::{Endpoint, Server};

use super::tls::TlsClient;

/// Whether servers are spoken to in HTTP/1 whatever they can.
pub(crate) const fn is_http1_only(upstream: &config::Upstream) -> bool {
    match upstream.protocol {
        UpstreamProtocol::Http1 => true,
        UpstreamProtocol::Auto => upstream.tls.is_none(),
        UpstreamProtocol::Http2 => false,
    }
}

/// An application's settings as the sending of a request needs them.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) protocol: UpstreamProtocol,
    pub(super) is_http1_only: bool,
    pub(super) tls: Option<Rc<TlsClient>>,
    pub(super) proxy_protocol: Option<ProxyVersion>,
    pub(super) host: Option<String>,
    pub(super) probe_path: String,
    pub(super) is_sticky: bool,
    pub(super) policy: BalancePolicy,
    pub(super) connect_timeout: Duration,
    pub(super) response_timeout: Duration,
    pub(super) body_idle_timeout: Duration,
    pub(super) idle_timeout: Duration,
    pub(super) keep_alive: KeepAlivePolicy,
    pub(super) idle_max: usize,
    pub(super) resolve_interval: Duration,
    pub(super) probe_interval: Option<Duration>,
    pub(super) probe_timeout: Duration,
    pub(super) slow_start: Duration,
}

impl Plan {
    pub(super) fn new(settings: &config::Application, tls: Option<Rc<TlsClient>>) -> Self {
        let (upstream, values) = (&settings.upstream, &settings.values);
        let keep_alive = match values.get(keys::UPSTREAM_KEEP_ALIVE).0 {
            // A handshake a request, or a connection for many at once: nothing is to be gained.
            KeepAlivePolicy::Auto if tls.is_some() || upstream.protocol == UpstreamProtocol::Http2 => {
                KeepAlivePolicy::Always
            }
            policy => policy,
        };
        Self {
            protocol: upstream.protocol,
            is_http1_only: is_http1_only(upstream),
            tls,
            proxy_protocol: upstream.proxy_protocol,
            host: upstream.host.clone(),
            probe_path: upstream.probe_path.clone(),
            is_sticky: upstream.sticky_cookie.is_some(),
            policy: values.get(keys::BALANCE).0,
            connect_timeout: values.get(keys::CONNECT_TIMEOUT),
            response_timeout: values.get(keys::RESPONSE_TIMEOUT),
            body_idle_timeout: values.get(keys::UPSTREAM_BODY_IDLE_TIMEOUT),
            idle_timeout: values.get(keys::UPSTREAM_IDLE_TIMEOUT),
            keep_alive,
            idle_max: usize::try_from(values.get(keys::UPSTREAM_IDLE_MAX)).unwrap_or(usize::MAX),
            resolve_interval: values.get(keys::RESOLVE_INTERVAL),
            probe_interval: values.get(keys::PROBE_INTERVAL),
            probe_timeout: values.get(keys::PROBE_TIMEOUT),
            slow_start: values.get(keys::SLOW_START),
        }
    }

    /// Whether connections are kept apart by client address.
    pub(super) const fn is_per_client(&self) -> bool {
        self.proxy_protocol.is_some()
    }

    /// Whether the server chooses the version, by ALPN.
    pub(super) const fn lets_server_choose(&self) -> bool {
        matches!(self.protocol, UpstreamProtocol::Auto) && self.tls.is_some()
    }

    /// `Host` as a client of the server itself would send it.
    pub(super) fn host_at(&self, server: &Server) -> String {
        match (&self.host, server.host(), server.endpoint()) {
            (Some(host), ..) => host.clone(),
            (None, Some(host), Endpoint::Tcp(address)) if host.contains(':') => {
                format!("[{host}]:{}", address.port())
            }
            (None, Some(host), Endpoint::Tcp(address)) => format!("{host}:{}", address.port()),
            (None, ..) => "localhost".to_owned(),
        }
    }

    /// Whether a connection opened by this plan may be used for a request sent by the other.
    pub(super) fn is_alike(&self, other: &Self) -> bool {
        let same_tls = match (&self.tls, &other.tls) {
            (None, None) => true,
            (Some(one), Some(other)) => Rc::ptr_eq(one, other),
            _ => false,
        };
        same_tls && self.protocol == other.protocol && self.proxy_protocol == other.proxy_protocol
    }
}
