//! The main job without a file: one listener, one application, one server.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use tidegate_control::{
    archive::Layout,
    knobs::{Knob, Scope, Value, Values},
};

use crate::{
    faults::{Fault, FaultList, Faults},
    names::ServerUrl,
    settings::{
        Address, AdminAccess, Application, Certificate, CipherOrder, Class, ClassWaitingRoom, ClientAuth,
        ClientKey, Listener, ListenerTls, Server, Settings, TlsVersion, Upstream, UpstreamProtocol,
        UpstreamTls, WaitingRoom, WorkerGroup,
    },
};

/// What `tidegate protect` is told. [`ProtectOptions::new`] holds the defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProtectOptions {
    /// The application's URL: `http://host:port`, `https://host:port` or `unix:/path`.
    pub url: String,
    /// Where to listen: `[::]:8080` unless told otherwise.
    pub listen: String,
    /// Files of certificate chain and key, PEM; with them the listener speaks TLS.
    pub tls: Option<(PathBuf, PathBuf)>,
    /// Where the admin API, metrics and health answer, or `none`: `127.0.0.1:9900` unless told otherwise.
    pub admin: String,
    /// Accepts any certificate of the application.
    pub insecure: bool,
}

impl ProtectOptions {
    /// Protects `url` with the defaults.
    #[must_use]
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            listen: "[::]:8080".to_owned(),
            tls: None,
            admin: "127.0.0.1:9900".to_owned(),
            insecure: false,
        }
    }
}

impl Settings {
    /// Settings for one application, named `app`, behind one listener, with every knob at its default
    /// but `drain.grace`, which is 0: there is no load balancer before it to be told.
    ///
    /// # Errors
    ///
    /// Every fault of the options, named as on the command line.
    pub fn protect(options: &ProtectOptions) -> Result<Self, Faults> {
        let mut faults = FaultList::default();
        let url = ServerUrl::parse(&options.url)
            .map_err(|fault| faults.add(Fault::of("URL", fault.what, fault.mend)))
            .ok();
        let address = Address::parse(&options.listen);
        if address.is_none() {
            faults.add(Fault::of(
                "--listen",
                format!("\"{}\" is no address", options.listen.escape_debug()),
                "write an IP address and port such as \"[::]:8080\", or a Unix socket's path such as \"unix:/run/tidegate.sock\"",
            ));
        }
        let admin: Option<Option<SocketAddr>> = match options.admin.as_str() {
            "none" => Some(None),
            text => text.parse().ok().filter(|address: &SocketAddr| address.ip().is_loopback()).map(Some),
        };
        if admin.is_none() {
            faults.add(Fault::of(
                "--admin",
                format!("\"{}\" is no loopback address", options.admin.escape_debug()),
                "write a loopback address and port such as \"127.0.0.1:9900\", or \"none\"; another needs a configuration file with tokens",
            ));
        }
        for (option, file) in options.tls.iter().flat_map(|(chain, key)| [("--cert", chain), ("--key", key)])
        {
            if let Err(error) = std::fs::File::open(file) {
                faults.add(Fault::of(
                    option,
                    format!("{} cannot be read ({error})", file.display()),
                    "write the path of a PEM file that Tidegate may read",
                ));
            }
        }
        faults.into_result("command line")?;
        let (Some(url), Some(address), Some(admin)) = (url, address, admin) else {
            unreachable!("each that is missing has put a fault into the list")
        };
        Ok(Self::of_one(options, url, address, admin))
    }

    fn of_one(options: &ProtectOptions, url: ServerUrl, address: Address, admin: Option<SocketAddr>) -> Self {
        let tls = options.tls.clone().map(|(chain, key)| ListenerTls {
            certificates: vec![Certificate { chain, key }],
            client_auth: ClientAuth::Off,
            min_version: TlsVersion::V12,
            cipher_order: CipherOrder::Gateway,
            http2: true,
        });
        let upstream = Upstream {
            tls: (url.tls == Some(true)).then_some(UpstreamTls {
                server_name: None,
                ca: None,
                certificate: None,
                insecure: options.insecure,
            }),
            protocol: UpstreamProtocol::Auto,
            proxy_protocol: None,
            host: None,
            sticky_cookie: None,
            hash: ClientKey::default(),
            probe_path: "/".to_owned(),
        };
        let server = Server {
            name: url.address.default_name(),
            address: url.address,
            values: Values::defaults(Scope::Server),
        };
        let application = Application {
            name: "app".to_owned(),
            hosts: None,
            values: Values::defaults(Scope::Application),
            classes: vec![Class {
                name: "default".to_owned(),
                values: Values::defaults(Scope::Class),
                waiting_room: ClassWaitingRoom::default(),
            }],
            rules: Vec::new(),
            servers: vec![server],
            upstream,
            client_key: ClientKey::default(),
            request_headers: Vec::new(),
            response_headers: Vec::new(),
            rewrites: Vec::new(),
            maintenance_page: None,
            waiting_room: WaitingRoom::default(),
            processors: None,
        };
        let workers = WorkerGroup { name: "default".to_owned(), threads: None };
        let mut host = Values::defaults(Scope::Host);
        host.set(Knob::DRAIN_GRACE, Value::Span(Duration::ZERO))
            .unwrap_or_else(|_| unreachable!("its row allows 0"));
        Self {
            host,
            admin,
            admin_access: AdminAccess::default(),
            listeners: vec![Listener {
                name: address.default_name(),
                address,
                group: workers.name.clone(),
                tls,
                proxy_protocol: false,
                trusted: Vec::new(),
                redirect_to_https: None,
                application: None,
            }],
            workers: vec![workers],
            applications: vec![application],
            routes: Vec::new(),
            access_log: None,
            telemetry: None,
            controllers: Vec::new(),
            state_directory: None,
            state_bytes_max: Self::STATE_BYTES_MAX,
            archives: Layout::default(),
        }
    }
}
