//! The names by which choices of structure are written in the file.

use tidegate_control::knobs::ChoiceSet;

use crate::settings::{
    CipherOrder, LogFormat, ProxyVersion, Role, TlsVersion, TraceParent, UpstreamProtocol,
};

/// Whether clients are asked for a certificate; with the authorities it makes a
/// [`ClientAuth`](crate::ClientAuth).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClientCertificates {
    /// Not asked for.
    Off,
    /// Asked for.
    Optional,
    /// Demanded.
    Required,
}

macro_rules! names {
    ($($type:ident { $($variant:ident = $name:literal),+ })+) => {$(
        impl ChoiceSet for $type {
            const NAMES: &'static [&'static str] = &[$($name),+];

            fn from_name(name: &str) -> Option<Self> {
                match name { $($name => Some(Self::$variant),)+ _ => None }
            }

            fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }
        }
    )+};
}

names! {
    ClientCertificates { Off = "off", Optional = "optional", Required = "required" }
    LogFormat { Json = "json", Common = "common", CommonTimed = "common_timed" }
    ProxyVersion { V1 = "v1", V2 = "v2" }
    Role { Check = "check", Read = "read", Operator = "operator" }
    TlsVersion { V12 = "1.2", V13 = "1.3" }
    CipherOrder { Gateway = "gateway", Client = "client" }
    TraceParent { Trusted = "trusted", All = "all", None = "none" }
    UpstreamProtocol { Http1 = "http1", Http2 = "http2", Auto = "auto" }
}
