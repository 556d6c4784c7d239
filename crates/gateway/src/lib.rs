//! Sockets, TLS, HTTP and upstream connections: moves bytes and asks `control` through `runtime`.

pub mod body;
pub mod facts;
