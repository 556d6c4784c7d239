//! The admin interface: where it answers, and whom.

use std::net::SocketAddr;

use super::{Names, listener, no_such};
use crate::{
    document::Section,
    names,
    settings::{AdminAccess, AdminClients, AdminTls, AdminToken, Application, Role},
};

/// `admin` and everything that begins with it.
pub(super) fn admin(root: &Section<'_>, applications: &[Application]) -> (Option<SocketAddr>, AdminAccess) {
    let address: Option<SocketAddr> = root
        .parsed("admin", |text| if text == "none" { Some(None) } else { text.parse().ok().map(Some) })
        .flatten();
    let access = AdminAccess {
        hosts: root.texts("admin_hosts", names::host),
        tokens: tokens(root, applications),
        tls: tls(root),
    };
    if let Some(address) = address
        && !address.ip().is_loopback()
        && !access.is_demanded()
        && root.document().is_whole()
    {
        root.fault(
            "admin",
            format!("{address} can be reached from elsewhere, and nothing would be asked of who comes"),
            "write [[admin_token]] with name, file and role, or admin_tls.client_ca, or a loopback address",
        );
    }
    (address, access)
}

fn tokens(root: &Section<'_>, applications: &[Application]) -> Vec<AdminToken> {
    let mut names = Names::default();
    root.tables("admin_token")
        .iter()
        .filter_map(|section| {
            let (name, file) = (section.text("name"), section.file("file"));
            let role = section.choice("role");
            let reports_of = section.texts("applications", |name| Some(name.to_owned()));
            let is_known = |name: &String| applications.iter().any(|known| known.name == *name);
            if let Some(unknown) = reports_of.iter().find(|name| !is_known(name)) {
                let known = applications.iter().map(|known| known.name.as_str());
                let (what, mend) = no_such("application", unknown, known);
                section.fault("applications", what, mend);
            }
            if section.is_written("applications") && role.is_some_and(|role| role != Role::Check) {
                section.fault(
                    "applications",
                    "is for role = \"check\": who may look may look at all of them",
                    "leave it out, or write role = \"check\"",
                );
            }
            let name = name?;
            names.claim(section, "name", name, names::is_name(name));
            Some(AdminToken { name: name.to_owned(), file: file?, role: role?, applications: reports_of })
        })
        .collect()
}

fn tls(root: &Section<'_>) -> Option<AdminTls> {
    let certificate = root.table("admin_tls.certificate").as_ref().and_then(listener::certificate);
    let authorities = root.file("admin_tls.client_ca");
    let role = root.choice("admin_tls.client_role");
    if !root.has_group("admin_tls") {
        return None;
    }
    if !root.is_written("admin_tls.certificate") && root.document().is_whole() {
        let span = root.group_span("admin_tls");
        root.document().fault(
            "admin_tls",
            &span,
            "names no certificate",
            "write admin_tls.certificate = { chain = \"cert.pem\", key = \"key.pem\" }",
        );
    }
    let clients = authorities.zip(role).map(|(authorities, role)| AdminClients { authorities, role });
    Some(AdminTls { certificate: certificate?, clients })
}
