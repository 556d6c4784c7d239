//! Sockets, TLS, HTTP and upstream connections: moves bytes and asks `control` through `runtime`.

pub mod body;
mod connection;
pub mod facts;
mod proxy_protocol;
mod request;
mod socket;
mod tls;
mod upstream;
