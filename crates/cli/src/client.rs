//! Options by which a gateway's admin interface is asked.

use std::{path::PathBuf, time::Duration};

use clap::Args;
use serde_json::Value as Json;
use tidegate_admin::{Client, ClientError};

use crate::failure::Failure;

/// How long the gateway may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Which gateway is asked, and as whom.
#[derive(Debug, Args)]
pub(crate) struct Asked {
    /// Where the gateway's admin interface answers: HOST:PORT, or https://HOST:PORT.
    #[arg(long, default_value = "127.0.0.1:9900", value_name = "ADDRESS")]
    admin: String,
    /// The file that holds our token, if the gateway asks for one.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// With https: authorities of the gateway's certificate, PEM; the system's if left away.
    #[arg(long, value_name = "FILE")]
    admin_ca: Option<PathBuf>,
    /// With https: our certificate chain, PEM.
    #[arg(long, value_name = "FILE", requires = "admin_key")]
    admin_cert: Option<PathBuf>,
    /// With https: our certificate's private key, PEM.
    #[arg(long, value_name = "FILE", requires = "admin_cert")]
    admin_key: Option<PathBuf>,
}

impl Asked {
    /// The gateway's address, for people.
    pub(crate) fn address(&self) -> &str {
        &self.admin
    }

    /// Asks for something, of which the answer holds `field`.
    pub(crate) fn get(&self, path: &str, field: &str) -> Result<Json, Failure> {
        self.client().get(path, field).map_err(failure)
    }

    /// Sends something, upon which the answer holds `field`.
    pub(crate) fn send(&self, method: &str, path: &str, body: &Json, field: &str) -> Result<Json, Failure> {
        self.client().send(method, path, body, field).map_err(failure)
    }

    /// The lines of an answer that goes on.
    pub(crate) fn lines(
        &self,
        path: &str,
    ) -> Result<impl Iterator<Item = std::io::Result<String>> + use<>, Failure> {
        self.client().lines(path).map_err(failure)
    }

    fn client(&self) -> Client {
        Client {
            address: self.admin.clone(),
            token_file: self.token_file.clone(),
            ca: self.admin_ca.clone(),
            certificate: self.admin_cert.clone().zip(self.admin_key.clone()),
            patience: PATIENCE,
        }
    }
}

/// What the gateway refuses is the input's fault.
fn failure(error: ClientError) -> Failure {
    match error {
        ClientError::Silent { .. } => {
            Failure::work(format!("{error}: start it, or give its address by --admin"))
        }
        ClientError::Stranger { .. } => Failure::work(format!(
            "{error}: give the address of that by --admin, with https:// where it speaks TLS"
        )),
        ClientError::Tls { .. } => Failure::work(format!(
            "{error}: give the authorities of its certificate by --admin-ca and, where it asks for one, our \
             certificate by --admin-cert and --admin-key; if it speaks plain HTTP, leave https:// out"
        )),
        ClientError::Trust(_) => Failure::work(format!("{error} or give --admin-ca")),
        ClientError::Address(what) => Failure::input(format!("--admin: {what}")),
        ClientError::File { .. } => Failure::input(error),
        ClientError::Refused { status: 401, detail } => {
            Failure::input(format!("{detail}: give the token's file by --token-file"))
        }
        ClientError::Refused { status: 400..500, detail } => Failure::input(detail),
        other => Failure::work(other),
    }
}

/// Percent-encodes what is not plain in a query.
pub(crate) fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}
