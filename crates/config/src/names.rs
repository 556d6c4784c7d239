//! What names, hosts, addresses and client keys look like when written.

use std::{
    fmt,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use http::{HeaderName, Uri};
use ipnet::{IpNet, Ipv4Net};

use crate::settings::{Address, ClientKey, CollectorUrl, ServerAddress};

/// Longest name of a listener, group, application, class or server.
const NAME_MAX: usize = 64;

/// Whether `name` is taken in addresses, as of the interface for administration, for where one is and what is above.
pub(crate) fn is_dots(name: &str) -> bool {
    matches!(name, "." | "..")
}

/// Whether `name` can stand in a knob path and in an address: letters, digits, `_`, `-`, `.`.
pub(crate) fn is_name(name: &str) -> bool {
    is_made_of(name, "_-.")
}

/// Whether `name` can be a class: a name, but not `servers`, which stands for servers in knob paths.
#[must_use]
pub fn is_class_name(name: &str) -> bool {
    is_name(name) && name != "servers"
}

/// Whether `name` can be a server or listener: also `:`, `[` and `]`, since addresses are names.
#[must_use]
pub fn is_address_name(name: &str) -> bool {
    is_made_of(name, "_-.:[]")
}

fn is_made_of(name: &str, marks: &str) -> bool {
    !name.is_empty()
        && !is_dots(name)
        && name.len() <= NAME_MAX
        && name.chars().all(|c| c.is_ascii_alphanumeric() || marks.contains(c))
}

/// A host name or address as in a Host header without port, in lower case.
pub(crate) fn host(text: &str) -> Option<String> {
    let host = text.trim_end_matches('.').to_ascii_lowercase();
    is_host(&host).then_some(host)
}

/// As [`host`], also `*.` before a name.
pub(crate) fn host_pattern(text: &str) -> Option<String> {
    let pattern = text.trim_end_matches('.').to_ascii_lowercase();
    is_host(pattern.strip_prefix("*.").unwrap_or(&pattern)).then_some(pattern)
}

fn is_host(host: &str) -> bool {
    let is_v6 = || {
        let inner = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        inner.is_some_and(|inner| inner.parse::<std::net::Ipv6Addr>().is_ok())
    };
    is_v6()
        || (host.len() <= 253
            && host.split('.').all(|label| {
                (1..=63).contains(&label.len())
                    && label.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
            }))
}

/// A host, with a port if one is written.
pub(crate) fn host_and_port(text: &str) -> Option<String> {
    let authority: http::uri::Authority = text.parse().ok()?;
    let port_is_fine = authority.as_str() == authority.host() || authority.port_u16().is_some();
    (!text.contains('@') && port_is_fine && host(authority.host()).is_some()).then(|| text.to_owned())
}

/// A header's name, in lower case.
pub(crate) fn header(text: &str) -> Option<String> {
    HeaderName::try_from(text).ok().map(|name| name.as_str().to_owned())
}

/// A cookie's name: a token (RFC 6265, section 4.1.1).
pub(crate) fn cookie(text: &str) -> Option<String> {
    let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    (!text.is_empty() && text.len() <= 256 && text.chars().all(is_token)).then(|| text.to_owned())
}

/// An absolute path, with a query if one is written.
pub(crate) fn target(text: &str) -> Option<String> {
    (text.starts_with('/') && !text.contains(['#', ' '])).then(|| text.to_owned())
}

/// A network, or a single address. One of IPv4 written within IPv6 is of IPv4, as the addresses are that are looked for in it.
pub(crate) fn network(text: &str) -> Option<IpNet> {
    let network = text.parse().ok().or_else(|| text.parse::<std::net::IpAddr>().ok().map(IpNet::from))?;
    let IpNet::V6(v6) = network else { return Some(network) };
    let v4 = v6.addr().to_ipv4_mapped().zip(v6.prefix_len().checked_sub(96));
    Some(v4.and_then(|(address, prefix)| Ipv4Net::new(address, prefix).ok()).map_or(network, IpNet::V4))
}

/// What tells one client from another: `network/24,64`, `header:NAME`, `cookie:NAME`.
pub(crate) fn client_key(text: &str) -> Option<ClientKey> {
    if let Some(name) = text.strip_prefix("header:") {
        return header(name).map(ClientKey::Header);
    }
    if let Some(name) = text.strip_prefix("cookie:") {
        return cookie(name).map(ClientKey::Cookie);
    }
    let (v4, v6) = text.strip_prefix("network/")?.split_once(',')?;
    let (v4, v6) = (v4.trim().parse().ok()?, v6.trim().parse().ok()?);
    (v4 <= 32 && v6 <= 128).then_some(ClientKey::Network { v4, v6 })
}

impl fmt::Display for ClientKey {
    /// As the configuration file writes it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Network { v4, v6 } => write!(f, "network/{v4},{v6}"),
            Self::Header(name) => write!(f, "header:{name}"),
            Self::Cookie(name) => write!(f, "cookie:{name}"),
        }
    }
}

impl Address {
    /// Reads `127.0.0.1:80`, `[::]:443` or `unix:/run/tidegate.sock`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match text.strip_prefix("unix:") {
            Some("") => None,
            Some(path) => Some(Self::Unix(PathBuf::from(path))),
            None => text.parse::<SocketAddr>().ok().map(Self::Tcp),
        }
    }

    /// Whether the port is 0: the kernel chooses one.
    #[must_use]
    pub fn is_any_port(&self) -> bool {
        matches!(self, Self::Tcp(address) if address.port() == 0)
    }

    /// The name of a listener for which none is written: the address, or the socket's file name.
    #[must_use]
    pub fn default_name(&self) -> String {
        match self {
            Self::Tcp(address) => address.to_string(),
            Self::Unix(path) => file_name(path),
        }
    }
}

impl fmt::Display for Address {
    /// As [`Address::parse`] reads it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

fn file_name(path: &Path) -> String {
    path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}

/// Why a text is no URL of a server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}: {mend}")]
pub struct UrlFault {
    /// What is wrong.
    pub what: String,
    /// What to do about it.
    pub mend: String,
}

/// Where a URL of a server points.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerUrl {
    /// Host and port, or socket.
    pub address: ServerAddress,
    /// Whether it asks for TLS (`https`); `None`: it does not say (`unix`).
    pub tls: Option<bool>,
}

impl ServerUrl {
    /// Reads `http://host:port`, `https://host:port` or `unix:/path`.
    ///
    /// The port may be left out: 80 and 443.
    ///
    /// # Errors
    ///
    /// [`UrlFault`] with what is wrong and the mend.
    pub fn parse(text: &str) -> Result<Self, UrlFault> {
        let fault = |what: &str, mend: &str| UrlFault { what: what.to_owned(), mend: mend.to_owned() };
        if let Some(path) = text.strip_prefix("unix:") {
            let path = path.strip_prefix("//").filter(|rest| rest.starts_with('/')).unwrap_or(path);
            if path.is_empty() {
                return Err(fault("has no path", "write it as unix:/run/app.sock"));
            }
            return Ok(Self { address: ServerAddress::Unix(PathBuf::from(path)), tls: None });
        }
        let Some((scheme, rest)) = text.split_once("://") else {
            return Err(no_scheme(text));
        };
        let (tls, default_port) = match scheme.to_ascii_lowercase().as_str() {
            "http" => (false, 80),
            "https" => (true, 443),
            other => {
                return Err(fault(
                    &format!("the scheme \"{}\" is not spoken", other.escape_debug()),
                    "write http, https or unix",
                ));
            }
        };
        if rest.is_empty() || rest.starts_with(['/', '?', '#', ':']) {
            return Err(fault("has no host", "write it as http://host:port"));
        }
        let uri: Uri = text.parse().map_err(|error: http::uri::InvalidUri| UrlFault {
            what: format!("\"{}\" is no URL ({error})", text.escape_debug()),
            mend: format!("write it as {scheme}://host:port"),
        })?;
        let authority =
            uri.authority().ok_or_else(|| fault("has no host", "write it as http://host:port"))?;
        if authority.as_str().contains('@') {
            return Err(fault(
                "holds a user or password",
                "leave them out and set the authorization header with request_headers",
            ));
        }
        if rest.contains(['?', '#']) || !matches!(uri.path(), "" | "/") {
            return Err(fault(
                "has a path",
                "leave it out: requests keep their own path, which rewrites can change",
            ));
        }
        let Some(host) = host(authority.host()) else {
            return Err(fault(
                &format!("\"{}\" is no host name or address", authority.host().escape_debug()),
                "write it as http://host:port",
            ));
        };
        let port = match authority.as_str().strip_prefix(authority.host()) {
            None | Some("" | ":") => default_port,
            Some(_) => authority
                .port_u16()
                .filter(|port| *port > 0)
                .ok_or_else(|| fault("has no valid port", "write a port from 1 to 65535"))?,
        };
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        Ok(Self { address: ServerAddress::Host { host, port }, tls: Some(tls) })
    }
}

fn no_scheme(text: &str) -> UrlFault {
    let rest = ["http:/", "https:/"].iter().find_map(|begun| Some((*begun, text.strip_prefix(begun)?)));
    let (what, mend) = match rest {
        Some((begun, rest)) => ("has one slash for two", format!("write {begun}/{}", rest.escape_debug())),
        None => ("has no scheme", format!("write http://{0} or https://{0}", text.escape_debug())),
    };
    UrlFault { what: format!("\"{}\" {what}", text.escape_debug()), mend }
}

impl CollectorUrl {
    /// Reads `http://host:port` or `https://host:port`, with a path if the collector's has one.
    ///
    /// The port may be left out: 80 and 443.
    ///
    /// # Errors
    ///
    /// [`UrlFault`] with what is wrong and the mend.
    pub fn parse(text: &str) -> Result<Self, UrlFault> {
        let fault = |what: &str, mend: &str| UrlFault { what: what.to_owned(), mend: mend.to_owned() };
        let scheme = text.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase());
        let scheme = scheme.or_else(|| text.starts_with("unix:").then(|| "unix".to_owned()));
        if let Some(scheme) = scheme.filter(|scheme| !matches!(scheme.as_str(), "http" | "https")) {
            return Err(fault(
                &format!("the scheme \"{}\" is not spoken here", scheme.escape_debug()),
                "write http or https: OTLP is spoken over HTTP",
            ));
        }
        let begin = text.find("://").map_or(0, |at| at + 3);
        let (base, path) = match text.get(begin..).and_then(|rest| rest.find('/')) {
            Some(at) => text.split_at(begin + at),
            None => (text, ""),
        };
        if base.contains('@') {
            return Err(fault(
                "holds a user or password",
                "leave them out and send them by [[telemetry.header]] with name = \"authorization\"",
            ));
        }
        if text.contains(['?', '#']) || (!path.is_empty() && path.parse::<http::uri::PathAndQuery>().is_err())
        {
            return Err(fault("is no URL of a collector", "write it as http://host:4318"));
        }
        let ServerUrl { address: ServerAddress::Host { host, port }, tls: Some(tls) } =
            ServerUrl::parse(base)?
        else {
            return Err(fault("is no URL of a collector", "write it as http://host:4318"));
        };
        Ok(Self { tls, host, port, prefix: path.trim_end_matches('/').to_owned() })
    }

    /// Host and port, as a `Host` field has them.
    #[must_use]
    pub fn authority(&self) -> String {
        ServerAddress::Host { host: self.host.clone(), port: self.port }.to_string()
    }
}

impl fmt::Display for CollectorUrl {
    /// As [`CollectorUrl::parse`] reads it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.authority(), self.prefix)
    }
}

/// Scheme, host and port of a web server, as [`ServerUrl::parse`] reads it and writes it back.
pub(crate) fn origin(text: &str) -> Option<String> {
    let url = ServerUrl::parse(text).ok()?;
    Some(url.address.url(url.tls?))
}

impl ServerAddress {
    /// The URL that [`ServerUrl::parse`] reads back.
    #[must_use]
    pub fn url(&self, tls: bool) -> String {
        match self {
            Self::Host { .. } => format!("{}://{self}", if tls { "https" } else { "http" }),
            Self::Unix(_) => self.to_string(),
        }
    }

    /// The name of a server for which none is written: host and port, or the socket's file name.
    #[must_use]
    pub fn default_name(&self) -> String {
        match self {
            Self::Host { .. } => self.to_string(),
            Self::Unix(path) => file_name(path),
        }
    }
}

impl fmt::Display for ServerAddress {
    /// `host:port`, `[address]:port` or `unix:path`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Host { host, port } => write!(f, "{host}:{port}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host_address(host: &str, port: u16) -> ServerAddress {
        ServerAddress::Host { host: host.to_owned(), port }
    }

    #[test]
    fn origins() {
        assert_eq!(origin("HTTPS://Shop.Example/").as_deref(), Some("https://shop.example:443"));
        assert_eq!(origin("http://[::1]:81").as_deref(), Some("http://[::1]:81"));
        for text in
            ["shop.example", "unix:/run/x", "https://a/b", "https://a?b", "https://u@a", "javascript:x"]
        {
            assert_eq!(origin(text), None, "{text}");
        }
    }

    #[test]
    fn urls_of_servers() {
        for (text, address, tls) in [
            ("http://127.0.0.1:8000", host_address("127.0.0.1", 8000), Some(false)),
            ("https://App.Example", host_address("app.example", 443), Some(true)),
            ("HTTP://localhost/", host_address("localhost", 80), Some(false)),
            ("http://[::1]:81", host_address("::1", 81), Some(false)),
            ("unix:/run/app.sock", ServerAddress::Unix("/run/app.sock".into()), None),
            ("unix:///run/app.sock", ServerAddress::Unix("/run/app.sock".into()), None),
        ] {
            assert_eq!(ServerUrl::parse(text), Ok(ServerUrl { address: address.clone(), tls }), "{text}");
            let again = ServerUrl::parse(&address.url(tls == Some(true))).unwrap();
            assert_eq!(again, ServerUrl { address, tls }, "{text} is written back");
        }
    }

    #[test]
    fn bad_urls_say_what_and_the_mend() {
        for (text, fault) in [
            (
                "127.0.0.1:8000",
                "\"127.0.0.1:8000\" has no scheme: write http://127.0.0.1:8000 or https://127.0.0.1:8000",
            ),
            ("https:/a:8443", "\"https:/a:8443\" has one slash for two: write https://a:8443"),
            ("ftp://a", "the scheme \"ftp\" is not spoken: write http, https or unix"),
            ("http://", "has no host: write it as http://host:port"),
            (
                "http://a/b",
                "has a path: leave it out: requests keep their own path, which rewrites can change",
            ),
            (
                "http://a?b",
                "has a path: leave it out: requests keep their own path, which rewrites can change",
            ),
            (
                "http://me:secret@a",
                "holds a user or password: leave them out and set the authorization header with request_headers",
            ),
            ("http://a:0", "has no valid port: write a port from 1 to 65535"),
            ("http://a:65536", "has no valid port: write a port from 1 to 65535"),
            ("http://a..b", "\"a..b\" is no host name or address: write it as http://host:port"),
            ("unix:", "has no path: write it as unix:/run/app.sock"),
        ] {
            assert_eq!(
                ServerUrl::parse(text).map_err(|fault| fault.to_string()),
                Err(fault.to_owned()),
                "{text}"
            );
        }
    }

    #[test]
    fn urls_of_collectors() {
        let url = |tls, host: &str, port, prefix: &str| CollectorUrl {
            tls,
            host: host.to_owned(),
            port,
            prefix: prefix.to_owned(),
        };
        for (text, expected) in [
            ("http://127.0.0.1:4318", url(false, "127.0.0.1", 4318, "")),
            ("https://Otlp.Example/otlp/", url(true, "otlp.example", 443, "/otlp")),
            ("http://[::1]:4318/", url(false, "::1", 4318, "")),
        ] {
            assert_eq!(CollectorUrl::parse(text), Ok(expected.clone()), "{text}");
            assert_eq!(CollectorUrl::parse(&expected.to_string()), Ok(expected), "{text} is written back");
        }
        for (text, fault) in [
            (
                "https://me:secret@otlp.example",
                "holds a user or password: leave them out and send them by [[telemetry.header]] with name = \"authorization\"",
            ),
            ("http://a?key=secret", "is no URL of a collector: write it as http://host:4318"),
            (
                "unix:/run/otlp.sock",
                "the scheme \"unix\" is not spoken here: write http or https: OTLP is spoken over HTTP",
            ),
            (
                "grpc://a:4317",
                "the scheme \"grpc\" is not spoken here: write http or https: OTLP is spoken over HTTP",
            ),
            ("a:4318", "\"a:4318\" has no scheme: write http://a:4318 or https://a:4318"),
        ] {
            assert_eq!(
                CollectorUrl::parse(text).map_err(|fault| fault.to_string()),
                Err(fault.to_owned()),
                "{text}"
            );
        }
    }

    #[test]
    fn names_stand_in_knob_paths() {
        assert!(is_name("shop-2.example_x"));
        for bad in ["", "a/b", "a b", "ä", ".", "..", &"x".repeat(65)] {
            assert!(!is_name(bad), "{bad}");
        }
        assert!(!is_class_name("servers"));
        assert!(is_address_name("[::1]:80"));
    }

    #[test]
    fn networks_of_ipv4_within_ipv6_are_of_ipv4() {
        for (text, expected) in [
            ("::ffff:10.0.0.0/104", "10.0.0.0/8"),
            ("::ffff:192.0.2.1", "192.0.2.1/32"),
            ("::ffff:0.0.0.0/96", "0.0.0.0/0"),
            ("10.0.0.0/8", "10.0.0.0/8"),
            ("2001:db8::/32", "2001:db8::/32"),
            ("::/0", "::/0"),
        ] {
            assert_eq!(network(text).map(|network| network.to_string()).as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn client_keys_read_back() {
        for text in ["network/24,64", "header:x-api-key", "cookie:sid"] {
            assert_eq!(client_key(text).map(|key| key.to_string()).as_deref(), Some(text));
        }
        for bad in ["network/33,64", "network/24", "header:", "header:a b", "cookie:a=b", "ip"] {
            assert_eq!(client_key(bad), None, "{bad}");
        }
    }

    /// Whatever is read as an address is written as it is read.
    #[test]
    fn any_text_is_an_address_or_none() {
        let begins = [
            "",
            "http://",
            "https://",
            "HTTP://[::1]",
            "http://a.example:",
            "unix:",
            "unix://",
            "127.0.0.1:",
        ];
        bolero::check!().with_type::<(usize, String)>().for_each(|(begin, rest)| {
            let text = begins[begin % begins.len()].to_owned() + rest;
            if let Ok(url) = ServerUrl::parse(&text) {
                let written = url.address.url(url.tls.unwrap_or(false));
                assert_eq!(ServerUrl::parse(&written), Ok(url), "{text:?} is {written:?}");
            }
            if let Ok(url) = CollectorUrl::parse(&text) {
                assert_eq!(CollectorUrl::parse(&url.to_string()), Ok(url), "{text:?}");
            }
            if let Some(address) = Address::parse(&text) {
                assert_eq!(Address::parse(&address.to_string()), Some(address), "{text:?}");
            }
            for text in
                [rest.clone(), format!("header:{rest}"), format!("cookie:{rest}"), format!("network/{rest}")]
            {
                if let Some(key) = client_key(&text) {
                    assert_eq!(client_key(&key.to_string()), Some(key), "{text:?}");
                }
            }
        });
    }
}
