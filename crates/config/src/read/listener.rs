//! Listeners.

use std::collections::BTreeMap;

use toml::de::DeValue;

use super::{Names, no_such};
use crate::{
    choices::ClientCertificates,
    document::Section,
    names,
    settings::{Address, Application, Certificate, ClientAuth, Listener, ListenerTls, WorkerGroup},
};

/// Every `[[listener]]`.
pub(super) fn listeners(
    root: &Section<'_>,
    workers: &[WorkerGroup],
    applications: &[Application],
) -> Vec<Listener> {
    let mut names = Names::default();
    let mut addresses: BTreeMap<Address, usize> = BTreeMap::new();
    let sections = root.tables("listener");
    let listeners = sections
        .iter()
        .filter_map(|section| {
            let listener = listener(section, workers, applications)?;
            let line = section.document().line(&section.span_of("address"));
            match addresses.get(&listener.address) {
                Some(first) if !listener.address.is_any_port() => section.fault(
                    "address",
                    format!("\"{}\" is taken (line {first})", listener.address),
                    "give each listener an address of its own",
                ),
                _ => {
                    addresses.insert(listener.address.clone(), line);
                    names.claim(section, "name", &listener.name, names::is_address_name(&listener.name));
                }
            }
            Some(listener)
        })
        .collect();
    if sections.is_empty() && root.is_written("listener") {
        root.fault("listener", "is empty", "write [[listener]] with address = \"[::]:8080\"");
    }
    listeners
}

fn listener(
    section: &Section<'_>,
    workers: &[WorkerGroup],
    applications: &[Application],
) -> Option<Listener> {
    let address = section.parsed("address", Address::parse).map(|address| match address {
        Address::Unix(path) => Address::Unix(section.document().path(path)),
        tcp @ Address::Tcp(_) => tcp,
    });
    let group =
        section.text("workers").map(str::to_owned).or_else(|| workers.first().map(|g| g.name.clone()));
    if let Some(group) = section.text("workers")
        && workers.iter().all(|known| known.name != group)
    {
        let (what, mend) =
            no_such("group of workers", group, workers.iter().map(|known| known.name.as_str()));
        section.fault("workers", what, mend);
    }
    let application = section.text("application").map(str::to_owned);
    if let Some(name) = &application
        && applications.iter().all(|known| known.name != *name)
    {
        let (what, mend) = no_such("application", name, applications.iter().map(|known| known.name.as_str()));
        section.fault("application", what, mend);
    }
    let trusted = super::rule::networks(section, "trusted");
    let proxy_protocol = section.flag("proxy_protocol").unwrap_or_default();
    if proxy_protocol && trusted.is_empty() && !section.is_written("trusted") {
        section.fault(
            "proxy_protocol",
            "needs trusted: a PROXY header is accepted from trusted networks only",
            "write trusted = [\"10.0.0.0/8\"] with the networks of your load balancers",
        );
    }
    let redirect_to_https = section.whole("redirect_to_https").and_then(|port| u16::try_from(port).ok());
    let tls = tls(section);
    if redirect_to_https.is_some() && tls.is_some() {
        section.fault(
            "redirect_to_https",
            "is of no use on a listener with tls, which is https already",
            "leave it out here and write it at the plain listener",
        );
    }
    let address = address?;
    Some(Listener {
        name: section.text("name").map_or_else(|| address.default_name(), str::to_owned),
        address,
        group: group?,
        tls,
        proxy_protocol,
        trusted,
        redirect_to_https,
        application,
    })
}

fn tls(section: &Section<'_>) -> Option<ListenerTls> {
    let is_list =
        section.entry("tls.certificates").is_none_or(|entry| matches!(entry.value(), DeValue::Array(_)));
    let certificates = section.tables("tls.certificates");
    let files: Vec<_> = certificates.iter().filter_map(certificate).collect();
    let http2 = section.flag("tls.http2").unwrap_or(true);
    let min_version = section.choice("tls.min_version");
    let cipher_order = section.choice("tls.cipher_order");
    let mode = section.choice("tls.client_certificates");
    let authorities = section.file("tls.client_ca");
    if !section.has_group("tls") {
        return None;
    }
    if certificates.is_empty() && is_list && section.document().is_whole() {
        section.fault(
            "tls.certificates",
            "names no certificate",
            "write tls.certificates = [{ chain = \"cert.pem\", key = \"key.pem\" }], or leave tls out",
        );
    }
    let client_auth = match (mode?, authorities) {
        (ClientCertificates::Off, None) => ClientAuth::Off,
        (ClientCertificates::Optional, Some(authorities)) => ClientAuth::Optional(authorities),
        (ClientCertificates::Required, Some(authorities)) => ClientAuth::Required(authorities),
        (ClientCertificates::Off, Some(_)) => {
            section.fault(
                "tls.client_ca",
                "is not used: client certificates are off",
                "write tls.client_certificates = \"optional\" or \"required\"",
            );
            ClientAuth::Off
        }
        (ClientCertificates::Optional | ClientCertificates::Required, None) => {
            section.fault(
                "tls.client_certificates",
                "needs authorities to check certificates with",
                "write tls.client_ca = \"ca.pem\"",
            );
            ClientAuth::Off
        }
    };
    Some(ListenerTls {
        certificates: files,
        client_auth,
        min_version: min_version?,
        cipher_order: cipher_order?,
        http2,
    })
}

/// The files of a certificate.
pub(super) fn certificate(section: &Section<'_>) -> Option<Certificate> {
    let (chain, key) = (section.file("chain"), section.file("key"));
    Some(Certificate { chain: chain?, key: key? })
}
