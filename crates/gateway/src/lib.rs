//! Sockets, TLS, HTTP and upstream connections: moves bytes and asks `control` through `runtime`.

pub mod body;
mod connection;
mod exhaustion;
pub mod facts;
mod gateway;
mod handover;
mod http1;
mod listener;
mod place;
mod preface;
mod proxy_protocol;
mod reload;
mod request;
mod socket;
mod tls;
mod transport;
mod upstream;
mod watchdog;
mod workers;

pub use gateway::{
    BoundListener, Drained, Gateway, Logs, ReloadError, Running, StartError, certificate_doubts,
    certificate_files, check_certificates,
};
pub use handover::{Inherited, UpgradeError, notify, notify_reloading};
pub use listener::ListenError;
pub use reload::FileWatch;
pub use tls::{TicketerError, TlsError};
pub use watchdog::Watchdog;
