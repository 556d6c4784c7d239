//! Certificates: served by name, read again, and what is said of those that will not do.

use std::fs;

use tidegate_config::{AdminTls, Certificate, Settings};
use tidegate_control::meters::Meter;

use crate::{
    downstream_tls::{Tls, client_config, serves},
    support::{Bed, get, write_certificate},
};

/// Of X.509 version 1, as `openssl x509 -req` makes them where it is given no extension.
const OF_VERSION_1: &str = "\
-----BEGIN CERTIFICATE-----\n\
MIIBIjCByQIUVb1PF2P/AivTzzbc0Y0DqXmKheAwCgYIKoZIzj0EAwIwEzERMA8G\n\
A1UEAwwIb2xkLnRlc3QwIBcNMjYxMTI3MTI1MDQ3WhgPMjEyNjExMDMxMjUwNDda\n\
MBMxETAPBgNVBAMMCG9sZC50ZXN0MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE\n\
jGAzJz3hkXSOWCiu7neNb1Ww9bEZxiGNZ5F4ZGTmUN4V9Msek61zeRIxbnW2VIdL\n\
xprFevOSphdnqwGTiLAVIjAKBggqhkjOPQQDAgNIADBFAiEA07uTvNdU2FLFpMYt\n\
VjsNsx/jb+HRs10WgmPW6ehIdIICIFfaKVbm/G3m9nai49j+9GrrYzYSZjuFgYuF\n\
qW07rijw\n\
-----END CERTIFICATE-----\n\
";

#[test]
fn new_certificates_are_served_and_bad_ones_are_not() {
    let tls = Tls::new("", "");
    let old = fs::read(tls.path().join("one.pem")).unwrap();
    let mut open = tls.client(&client_config(&tls, &[]), "one.example");
    assert_eq!(get(&mut open, "/").status, 200);

    write_certificate(tls.path(), "one", &["one.example"]);
    assert!(!serves(&tls, "one.example", "one.pem"));
    assert!(tls.bed.running.reload_certificates().is_empty());
    assert!(serves(&tls, "one.example", "one.pem"));
    assert_eq!(get(&mut open, "/").status, 200);

    let good = fs::read(tls.path().join("one.pem")).unwrap();
    for (file, content, complaint) in [
        ("one.pem", &b"nonsense"[..], "no certificate in PEM"),
        (
            "one.pem",
            b"-----BEGIN CERTIFICATE-----\nbm9uc2Vuc2U=\n-----END CERTIFICATE-----\n",
            "no certificate of TLS",
        ),
        ("one.pem", OF_VERSION_1.as_bytes(), "version 1, which TLS takes no more: issue it anew"),
        ("one.pem", &old, "not that of the certificate"),
        ("one.key", b"", "no private key in PEM"),
    ] {
        let before = fs::read(tls.path().join(file)).unwrap();
        fs::write(tls.path().join(file), content).unwrap();
        let errors = tls.bed.running.reload_certificates();
        assert_eq!(errors.len(), 1, "{file}");
        let message = errors[0].to_string();
        assert!(message.contains(complaint), "{message}");
        assert!(message.contains(file) && message.contains("https"), "{message}");
        fs::write(tls.path().join(file), before).unwrap();
        // The old one stays.
        fs::write(tls.path().join("one.pem"), &good).unwrap();
        assert!(serves(&tls, "one.example", "one.pem"));
    }
}

#[test]
fn what_is_broken_keeps_its_old_state_and_holds_up_the_renewal_of_nothing_else() {
    let listener = "tls.client_certificates = \"optional\"\ntls.client_ca = \"client.pem\"\n";
    let tls = Tls::new("", listener);
    write_certificate(tls.path(), "two", &["two.example"]);
    for file in ["one.key", "client.pem"] {
        fs::write(tls.path().join(file), b"half").unwrap();
    }
    assert!(!serves(&tls, "two.example", "two.pem"));
    let errors: Vec<_> = tls.bed.running.reload_certificates().iter().map(ToString::to_string).collect();
    assert!(
        errors.len() == 2 && errors[0].contains("one.key") && errors[1].contains("client.pem"),
        "{errors:?}"
    );
    for (name, file) in [("one.example", "one.pem"), ("two.example", "two.pem")] {
        assert!(serves(&tls, name, file), "{name}");
    }
    // A name that the new certificate no longer has goes with the old one.
    assert!(!serves(&tls, "any.wild.example", "two.pem"));
}

/// Settings with an application whose servers speak TLS, and files `ca.pem`, `gateway.pem` and `gateway.key` for it.
fn speaks_tls_to_servers() -> Tls {
    let directory = tempfile::tempdir().unwrap();
    write_certificate(directory.path(), "one", &["one.example"]);
    write_certificate(directory.path(), "ca", &["ca.example"]);
    write_certificate(directory.path(), "gateway", &["gateway.example"]);
    let application = "[application.other]\nhosts = \"other.example\"\nservers = \"https://127.0.0.1:1\"\n\
                       upstream.tls.ca = \"ca.pem\"\n\
                       upstream.tls.certificate = { chain = \"gateway.pem\", key = \"gateway.key\" }\n";
    Tls { bed: Bed::in_directory(directory, "", crate::support::PLAIN, application) }
}

#[test]
fn what_is_wrong_with_certificates_towards_servers_is_said_before_a_request_finds_it() {
    let tls = speaks_tls_to_servers();
    let settings = tls.bed.shared.snapshot().settings.clone();
    assert!(tidegate_gateway::check_certificates(&settings).is_ok());
    assert!(tls.bed.running.reload_certificates().is_empty());
    let one_key = fs::read(tls.path().join("one.key")).unwrap();
    for (file, content, complaint) in [
        ("ca.pem", &b""[..], "no certificate"),
        ("gateway.pem", b"-----BEGIN CERTIFICATE-----\nbm9u", "gateway.pem"),
        ("gateway.key", &one_key, "not that of the certificate"),
    ] {
        let before = fs::read(tls.path().join(file)).unwrap();
        fs::write(tls.path().join(file), content).unwrap();
        let checked = tidegate_gateway::check_certificates(&settings).unwrap_err();
        let reloaded = tls.bed.running.reload_certificates();
        let said: Vec<_> =
            checked.iter().map(ToString::to_string).chain(reloaded.iter().map(ToString::to_string)).collect();
        assert_eq!(said.len(), 2, "{said:?}");
        for said in said {
            assert!(
                said.contains("application other") && said.contains(file) && said.contains(complaint),
                "{said}"
            );
        }
        fs::write(tls.path().join(file), before).unwrap();
    }
}

#[test]
fn a_check_says_what_is_wrong_with_a_listener_once_and_which_certificate_is_served_to_nobody() {
    let directory = tempfile::tempdir().unwrap();
    for (name, names) in
        [("one", "one.example"), ("two", "192.0.2.1"), ("three", "192.0.2.2"), ("client", "c")]
    {
        write_certificate(directory.path(), name, &[names]);
    }
    let pairs = |names: [&str; 2]| {
        let pair = |name| format!("{{ chain = \"{name}.pem\", key = \"{name}.key\" }}");
        format!(
            "[[listener]]\nname = \"https\"\naddress = \"127.0.0.1:0\"\ntls.certificates = [{}, {}]\n\
             tls.client_certificates = \"optional\"\ntls.client_ca = \"client.pem\"\n",
            pair(names[0]),
            pair(names[1])
        )
    };
    let bed = Bed::in_directory(directory, "", &pairs(["two", "one"]), "");
    let check = || tidegate_gateway::check_certificates(&bed.shared.snapshot().settings);
    // The first serves who asks for no name.
    assert!(check().is_ok());
    fs::write(bed.directory.path().join("client.pem"), b"nonsense").unwrap();
    let faults = check().unwrap_err();
    assert!(faults.len() == 1 && faults[0].to_string().contains("client.pem"), "{faults:?}");
    bed.publish(&pairs(["two", "three"]));
    let faults = check().unwrap_err();
    assert!(faults.len() == 2 && faults[0].to_string().contains("three.pem"), "{faults:?}");
}

#[test]
fn a_check_says_what_is_wrong_with_each_certificate() {
    let tls = Tls::new("", "");
    let settings = tls.bed.shared.snapshot().settings.clone();
    assert!(tidegate_gateway::check_certificates(&settings).is_ok());
    fs::write(tls.path().join("one.key"), b"").unwrap();
    fs::write(tls.path().join("two.pem"), b"nonsense").unwrap();
    let errors = tidegate_gateway::check_certificates(&settings).unwrap_err();
    let said: Vec<_> = errors.iter().map(ToString::to_string).collect();
    assert!(said.len() == 2 && said[0].contains("one.key") && said[1].contains("two.pem"), "{said:?}");
}

#[test]
fn a_certificate_that_clients_will_not_accept_now_is_told() {
    let tls = Tls::new("", "");
    let settings = tls.bed.shared.snapshot().settings.clone();
    assert!(tidegate_gateway::certificate_doubts(&settings).is_empty());
    let write = |file: &str, from: i32, to: i32| {
        let mut params = rcgen::CertificateParams::new(vec!["one.example".to_owned()]).unwrap();
        (params.not_before, params.not_after) =
            (rcgen::date_time_ymd(from, 1, 1), rcgen::date_time_ymd(to, 1, 1));
        let key = rcgen::KeyPair::generate().unwrap();
        fs::write(tls.path().join(file), params.self_signed(&key).unwrap().pem()).unwrap();
    };
    write("one.pem", 2019, 2020);
    write("two.pem", 3000, 3001);
    let said = tidegate_gateway::certificate_doubts(&settings);
    assert!(said.len() == 2, "{said:?}");
    assert!(said[0].contains("one.pem") && said[0].contains("expired on Wed, 01 Jan 2020"), "{said:?}");
    assert!(said[1].contains("two.pem") && said[1].contains("before Wed, 01 Jan 3000"), "{said:?}");
    // Nor of one that is in its time, but sent along with one that is not.
    write("new.pem", 2019, 3000);
    let mut chain = fs::read(tls.path().join("new.pem")).unwrap();
    chain.extend(fs::read(tls.path().join("one.pem")).unwrap());
    fs::write(tls.path().join("one.pem"), chain).unwrap();
    let said = tidegate_gateway::certificate_doubts(&settings);
    assert!(said[0].contains("a certificate of its chain has expired"), "{said:?}");
}

#[test]
fn a_meter_shows_how_long_the_first_certificate_lasts() {
    let tls = Tls::new("", "");
    let left = || {
        let host = tidegate_runtime::HostSample::default();
        let served = tls.bed.shared.served(&host);
        let is_it = |(meter, _): &&(Meter, u64)| *meter == Meter::CERTIFICATE_SECONDS_LEFT;
        served[0].levels.iter().find(is_it).map(|(_, seconds)| *seconds)
    };
    let write = |until: i32| {
        let mut params = rcgen::CertificateParams::new(vec!["two.example".to_owned()]).unwrap();
        params.not_after = rcgen::date_time_ymd(until, 1, 1);
        let key = rcgen::KeyPair::generate().unwrap();
        fs::write(tls.path().join("two.pem"), params.self_signed(&key).unwrap().pem()).unwrap();
        fs::write(tls.path().join("two.key"), key.serialize_pem()).unwrap();
        assert!(tls.bed.running.reload_certificates().is_empty());
    };
    const YEAR: u64 = 365 * 24 * 3600;
    assert!(left().unwrap() > 100 * YEAR);
    write(2500);
    assert!((300 * YEAR..500 * YEAR).contains(&left().unwrap()));
    write(2020);
    assert_eq!(left(), Some(0));
    // Metrics tell which one it is.
    let scrape = tidegate_runtime::Scrape::read(&tls.bed.shared);
    let samples = scrape.samples(Meter::CERTIFICATE_SECONDS_LEFT).map(|sample| {
        let tidegate_runtime::Reading::Level(seconds) = sample.value else { panic!("{sample:?}") };
        let labels: Vec<_> = sample.labels().map(|(name, value)| (name, value.to_owned())).collect();
        (labels, seconds > 0)
    });
    let of = |file: &str| vec![("file", tls.path().join(file).display().to_string())];
    assert_eq!(samples.collect::<Vec<_>>(), [(of("two.pem"), false), (of("one.pem"), true)]);
    // Of one that cannot be used, what was read before stays in force.
    fs::write(tls.path().join("two.pem"), "").unwrap();
    assert!(!tls.bed.running.reload_certificates().is_empty());
    assert_eq!(left(), Some(0));
    assert_eq!(Bed::plain("").shared.certificates(), []);
}

#[test]
fn the_admin_interfaces_certificate_counts_as_those_of_listeners() {
    let bed = Bed::plain("");
    let directory = tempfile::tempdir().unwrap();
    let files =
        Certificate { chain: directory.path().join("admin.pem"), key: directory.path().join("admin.key") };
    let mut params = rcgen::CertificateParams::new(vec!["admin.example".to_owned()]).unwrap();
    params.not_after = rcgen::date_time_ymd(2020, 1, 1);
    let made = params.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap();
    bed.running.set_admin_certificate(Some((files.clone(), vec![made.der().clone()])));
    let first = bed.shared.certificates().into_iter().next().unwrap();
    assert_eq!(first.at.as_nanos() / 1_000_000_000, 1_577_836_800);
    assert_eq!(first.file, files.chain.display().to_string());
    bed.running.set_admin_certificate(None);
    assert_eq!(bed.shared.certificates(), []);

    fs::write(&files.chain, made.pem()).unwrap();
    let mut settings = Settings::clone(&bed.shared.snapshot().settings);
    settings.admin_access.tls = Some(AdminTls { certificate: files, clients: None });
    let said = tidegate_gateway::certificate_doubts(&settings);
    assert!(said.len() == 1 && said[0].contains("admin.pem: the certificate has expired"), "{said:?}");
}

/// To which nobody writes.
#[test]
fn a_pipe_in_a_certificates_place_leaves_the_old_one_in_force() {
    let tls = Tls::new("", "");
    fs::copy(tls.path().join("one.pem"), tls.path().join("before.pem")).unwrap();
    let pipe = tls.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    fs::rename(pipe, tls.path().join("one.pem")).unwrap();
    let faults = tls.bed.running.reload_certificates();
    assert!(faults.len() == 1 && faults[0].to_string().contains("nobody has written"), "{faults:?}");
    fs::rename(tls.path().join("before.pem"), tls.path().join("one.pem")).unwrap();
    assert!(serves(&tls, "one.example", "one.pem"));
}

#[test]
fn a_byte_order_mark_hides_no_certificate() {
    let tls = Tls::new("", "tls.client_certificates = \"optional\"\ntls.client_ca = \"client.pem\"\n");
    for file in ["one.pem", "one.key", "client.pem"] {
        let mut marked = b"\xef\xbb\xbf".to_vec();
        marked.extend(fs::read(tls.path().join(file)).unwrap());
        fs::write(tls.path().join(file), marked).unwrap();
    }
    let settings = tls.bed.shared.snapshot().settings.clone();
    assert!(tidegate_gateway::check_certificates(&settings).is_ok());
}
