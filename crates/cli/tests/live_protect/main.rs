//! `tidegate protect` and `tidegate check` as a person meets them at the command line.

#[path = "../support/mod.rs"]
mod support;

use std::{
    fs,
    io::{BufRead, BufReader, Read},
    process::{Child, Command, Stdio},
};

use support::{
    Gateway, Start,
    admin::{Metrics, await_rest_after},
    client::get,
    free_address, write_certificate,
};

/// Python's own web server with one page.
struct Python {
    process: Child,
    port: u16,
    _pages: tempfile::TempDir,
}

impl Python {
    fn start() -> Self {
        let pages = tempfile::tempdir().expect("a directory for pages");
        fs::write(pages.path().join("index.html"), "<h1>served by python</h1>\n").expect("write a page");
        let mut process = Command::new("python3")
            .args(["-u", "-m", "http.server", "0", "--bind", "127.0.0.1", "--directory"])
            .arg(pages.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("start python3: run scripts/deps test");
        let mut line = String::new();
        let said = process.stdout.take().expect("piped");
        BufReader::new(said).read_line(&mut line).expect("python says where it serves");
        // Serving HTTP on 127.0.0.1 port 43210 (http://127.0.0.1:43210/) ...
        let port = line.split_whitespace().skip_while(|word| *word != "port").nth(1);
        let port = port.and_then(|port| port.parse().ok()).unwrap_or_else(|| panic!("no port in {line:?}"));
        Self { process, port, _pages: pages }
    }
}

impl Drop for Python {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn one_command_protects_a_server() {
    let python = Python::start();
    let (listen, admin) = (free_address(), free_address());
    let url = format!("http://127.0.0.1:{}", python.port);
    let arguments = ["protect", &url, "--listen", &listen.to_string(), "--admin", &admin.to_string()];
    let gateway = Gateway::command(&arguments, &Start::default());

    let banner = gateway.log.lines_with(" ready");
    for place in [&url, &format!("http://{listen}"), &format!("http://{admin}/")] {
        assert!(banner[0].contains(place), "the banner names {place}: {banner:?}");
    }
    let page = get(listen, "/").expect("the page");
    assert_eq!((page.status, page.text().as_str()), (200, "<h1>served by python</h1>\n"));
    assert_eq!(get(listen, "/missing").expect("an answer").status, 404);
    assert_eq!(get(admin, "/healthz").expect("an answer").status, 200);
    assert_eq!(get(admin, "/readyz").expect("an answer").status, 200);

    let metrics = await_rest_after(admin, 2);
    assert_counts(&metrics, &[("2xx", 1.0), ("4xx", 1.0)]);
    gateway.stop_sound();
}

#[test]
fn a_bad_url_is_bad_input_and_the_mend_is_said() {
    for (arguments, word) in [
        (&["protect", "ftp://127.0.0.1:1"][..], "write http"),
        (&["protect", "http://127.0.0.1:1", "--listen", "nowhere"], "[::]:8080"),
        (&["protect", "http://127.0.0.1:1", "--cert", "/missing.pem", "--key", "/missing.pem"], "PEM"),
        (&["run", "/missing.toml"], "/missing.toml"),
    ] {
        let (code, said) = tidegate(arguments);
        assert_eq!(code, Some(2), "{arguments:?}: {said}");
        assert!(said.contains(word), "{arguments:?}: {word} is in {said}");
    }
}

#[test]
fn a_taken_address_is_a_failure_that_names_it() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("an address to take");
    let address = taken.local_addr().expect("its address").to_string();
    for (listen, admin, mend) in
        [(&*address, "none", "choose another"), ("127.0.0.1:0", &*address, "--admin")]
    {
        let (code, said) = tidegate(&["protect", "http://127.0.0.1:1", "--listen", listen, "--admin", admin]);
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains(&address) && said.contains(mend), "{said}");
    }
}

#[test]
fn check_says_every_fault_at_once_with_its_line() {
    let directory = tempfile::tempdir().expect("a directory for the test");
    let file = directory.path().join("bad.toml");
    let configuration = "[[listener]]\n\
                         address = \"nowhere\"\n\
                         [application.app]\n\
                         servers = [\"http://127.0.0.1:1\"]\n\
                         in_flight.limit = 0\n\
                         colour = \"red\"\n";
    fs::write(&file, configuration).expect("write the configuration");
    let (code, said) = tidegate(&["check", file.to_str().expect("UTF-8")]);
    assert_eq!(code, Some(2), "{said}");
    for (line, word) in [(2, "nowhere"), (5, "in_flight.limit"), (6, "colour")] {
        let found = said.lines().any(|said| said.contains(&format!(":{line}:")) && said.contains(word));
        assert!(found, "line {line}, {word}: {said}");
    }

    fs::write(&file, "[[listener]]\naddress = \"127.0.0.1:0\"\n[application.app]\nservers = []\n")
        .expect("write");
    let (code, said) = tidegate(&["check", file.to_str().expect("UTF-8")]);
    assert_eq!(code, Some(0), "{said}");
    let (code, said) = tidegate(&["check", "--print", file.to_str().expect("UTF-8")]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("in_flight"), "the effective settings: {said}");
}

#[test]
fn check_says_every_fault_of_the_files_that_are_named() {
    let directory = tempfile::tempdir().expect("a directory for the test");
    let other = tempfile::tempdir().expect("a directory for the test");
    write_certificate(directory.path());
    let (_, key) = write_certificate(other.path());
    fs::copy(key, directory.path().join("key.pem")).expect("a key of another certificate");
    fs::write(directory.path().join("law.luau"), "x = = 1").expect("write a script");
    let file = directory.path().join("tidegate.toml");
    let configuration = "telemetry = { endpoint = \"http://127.0.0.1:4318\", header = [{ name = \"a\", environment = \"NOBODY_SETS_THIS\" }] }\n\
                         [[controller]]\nfile = \"law.luau\"\n\
                         [[listener]]\naddress = \"127.0.0.1:0\"\n\
                         tls.certificates = [{ chain = \"chain.pem\", key = \"key.pem\" }]\n\
                         [application.app]\nservers = []\n";
    fs::write(&file, configuration).expect("write the configuration");
    let (code, said) = tidegate(&["check", file.to_str().expect("UTF-8")]);
    assert_eq!(code, Some(2), "{said}");
    for word in ["law.luau:1:", "key.pem: the private key is not that of the certificate", "NOBODY_SETS_THIS"]
    {
        assert!(said.contains(word), "{word}: {said}");
    }
}

fn assert_counts(metrics: &Metrics, counts: &[(&str, f64)]) {
    for (status, count) in counts {
        assert!(
            (metrics.sum("class_responses", &[("status", status)]) - count).abs() < 0.5,
            "{status}: {metrics:?}"
        );
    }
}

/// Runs a command that ends by itself; its exit code and all it said.
fn tidegate(arguments: &[&str]) -> (Option<i32>, String) {
    let mut process = Command::new("timeout")
        .args(["20", env!("CARGO_BIN_EXE_tidegate")])
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("start tidegate");
    let (mut out, mut error) = (String::new(), String::new());
    process.stdout.take().expect("piped").read_to_string(&mut out).expect("read");
    process.stderr.take().expect("piped").read_to_string(&mut error).expect("read");
    (process.wait().expect("wait").code(), out + &error)
}
