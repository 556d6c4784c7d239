//! The gateway when things go wrong, and while it is changed: servers that fail, clients that misbehave, new settings,
//! certificates, servers and binaries under load.
//!
//! After each: no panic in the log, every permit given back, every arrival with an outcome, no request served twice.

mod clients;
mod descriptors;
mod floods;
mod life;
mod logs;
mod overload;
mod servers;
mod started;
#[path = "../support/mod.rs"]
mod support;
mod upstream;

use std::net::SocketAddr;

use support::{
    Gateway, Start,
    admin::{Metrics, await_rest_after},
    free_address,
};

/// A gateway with one plain listener and one application, and its addresses.
struct Front {
    gateway: Gateway,
    listen: SocketAddr,
    admin: SocketAddr,
}

impl Front {
    /// Starts it before these servers, with knobs of the host and of the application.
    fn start(servers: &[String], host: &str, application: &str) -> Self {
        Self::start_as(servers, host, application, &Start::default())
    }

    fn start_as(servers: &[String], host: &str, application: &str, start: &Start<'_>) -> Self {
        let (listen, admin) = (free_address(), free_address());
        let configuration = configuration(listen, admin, servers, host, application);
        Self { gateway: Gateway::run(&configuration, start), listen, admin }
    }

    /// Writes its configuration anew, with the same addresses.
    fn rewrite(&self, servers: &[String], host: &str, application: &str) {
        self.gateway.write_configuration(&configuration(self.listen, self.admin, servers, host, application));
    }

    /// Everything lent is back once this many arrivals have been counted; then it ends well.
    fn finish(self, arrivals: usize) -> Metrics {
        let metrics = await_rest_after(self.admin, arrivals);
        self.gateway.stop_sound();
        metrics
    }
}

fn configuration(
    listen: SocketAddr,
    admin: SocketAddr,
    servers: &[String],
    host: &str,
    application: &str,
) -> String {
    format!(
        "admin = \"{admin}\"\n{host}\n[[listener]]\nname = \"web\"\naddress = \"{listen}\"\n\
         [application.app]\nservers = {servers:?}\n{application}\n"
    )
}
