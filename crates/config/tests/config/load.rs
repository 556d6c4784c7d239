//! Loading from disk, and settings made of a URL.

use std::{fs, path::PathBuf};

use tidegate_config::{Address, FILE_BYTES_MAX, ProtectOptions, Settings, load};

/// A directory of its own, removed at the end.
fn directory() -> tempfile::TempDir {
    tempfile::tempdir().expect("a directory for the test")
}

const WITH_TLS: &str = r#"
[[listener]]
address = "[::]:443"
tls.certificates = [{ chain = "cert.pem", key = "keys/key.pem" }]

[application.shop]
servers = ["http://127.0.0.1:8000"]
"#;

#[test]
fn files_that_the_configuration_names_must_be_there() {
    let directory = directory();
    let file = directory.path().join("tidegate.toml");
    fs::write(&file, WITH_TLS).unwrap();
    fs::write(directory.path().join("cert.pem"), "any").unwrap();
    let faults = load(&file).unwrap_err();
    let key = directory.path().join("keys/key.pem");
    assert_eq!(
        faults.to_string(),
        format!(
            "{}:4:49: listener[0].tls.certificates[0].key: {} cannot be read (No such file or directory (os error 2)): write the path of a file that Tidegate may read",
            file.display(),
            key.display()
        )
    );
    fs::create_dir(directory.path().join("keys")).unwrap();
    fs::write(&key, "any").unwrap();
    let settings = load(&file).unwrap();
    assert_eq!(settings.listeners[0].tls.as_ref().unwrap().certificates[0].key, key);
}

#[test]
fn a_file_that_cannot_be_read_is_one_fault() {
    let directory = directory();
    let path = directory.path().join("none.toml");
    assert_eq!(
        load(&path).unwrap_err().to_string(),
        format!(
            "{}: cannot be read (No such file or directory (os error 2)): name a configuration file that can be read",
            path.display()
        )
    );
    fs::write(&path, b"a = 1\nb = \"\xff\"").unwrap();
    assert!(load(&path).unwrap_err().to_string().ends_with("is not UTF-8 in line 2: save it as UTF-8"));
    fs::File::create(&path).unwrap().set_len(FILE_BYTES_MAX + 1).unwrap();
    assert!(
        load(&path).unwrap_err().to_string().ends_with("is larger than 4 MiB: name a configuration file")
    );
}

#[test]
fn protect_needs_a_url_only() {
    let settings = Settings::protect(&ProtectOptions::new("http://127.0.0.1:8000")).unwrap();
    assert_eq!(settings.listeners[0].address, Address::Tcp("[::]:8080".parse().unwrap()));
    assert_eq!(settings.admin, Some("127.0.0.1:9900".parse().unwrap()));
    assert_eq!(settings.applications[0].name, "app");
    assert_eq!(settings.applications[0].servers[0].name, "127.0.0.1:8000");
}

#[test]
fn protect_is_what_the_minimal_file_is() {
    let file = "drain.grace = \"0s\"\n[[listener]]\naddress = \"[::]:8080\"\n[application.app]\nservers = [\"https://app.example\"]\n\
                in_flight.algorithm = \"knee_track\"\n";
    let from_file = tidegate_config::parse(file, "/".as_ref(), "file").unwrap();
    assert_eq!(Settings::protect(&ProtectOptions::new("https://app.example")).unwrap(), from_file);
}

#[test]
fn protect_names_every_bad_option() {
    let options = ProtectOptions {
        listen: "8080".to_owned(),
        admin: "localhost".to_owned(),
        tls: Some((PathBuf::from("/nowhere/cert.pem"), PathBuf::from("/nowhere/key.pem"))),
        ..ProtectOptions::new("localhost:8000")
    };
    let faults = Settings::protect(&options).unwrap_err();
    let lines: Vec<_> = faults.faults.iter().map(ToString::to_string).collect();
    assert_eq!(
        lines,
        [
            "--admin: \"localhost\" is no loopback address: write a loopback address and port such as \"127.0.0.1:9900\", or \"none\"; another needs a configuration file with tokens",
            "--cert: /nowhere/cert.pem cannot be read (No such file or directory (os error 2)): write the path of a PEM file that Tidegate may read",
            "--key: /nowhere/key.pem cannot be read (No such file or directory (os error 2)): write the path of a PEM file that Tidegate may read",
            "--listen: \"8080\" is no address: write an IP address and port such as \"[::]:8080\", or a Unix socket's path such as \"unix:/run/tidegate.sock\"",
            "URL: \"localhost:8000\" has no scheme: write http://localhost:8000 or https://localhost:8000",
        ]
    );
}
