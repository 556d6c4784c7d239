//! Commands whose standard output is full or closed: a full disk is told, a reader that has gone is no fault.

use std::{
    fs::File,
    io::Read as _,
    net::TcpListener,
    process::{Command, Output, Stdio},
};

const TIDEGATE: &str = env!("CARGO_BIN_EXE_tidegate");

fn ended(arguments: &[&str], stdout: impl Into<Stdio>) -> (Option<i32>, String) {
    let child = Command::new(TIDEGATE)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(stdout)
        .stderr(Stdio::piped())
        .spawn()
        .expect("start tidegate");
    let Output { status, stderr, .. } = child.wait_with_output().expect("its end");
    (status.code(), String::from_utf8_lossy(&stderr).into_owned())
}

/// A pipe that nobody reads.
fn closed() -> Stdio {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    writer.into()
}

#[test]
fn a_full_disk_is_told_and_a_reader_that_has_gone_is_no_fault() {
    let directory = tempfile::tempdir().expect("a directory for the test");
    let file = directory.path().join("tidegate.toml");
    std::fs::write(
        &file,
        "[[listener]]\naddress = \"127.0.0.1:0\"\n[application.app]\nservers = [\"http://127.0.0.1:1\"]\n",
    )
    .expect("write the configuration");
    let file = file.to_str().expect("UTF-8");
    for arguments in [
        &["check", file][..],
        &["check", "--print", file],
        &["lab", "list"],
        &["lab", "swarm", "--seeds", "1"],
    ] {
        let full = File::options().write(true).open("/dev/full").expect("a full device");
        let (code, said) = ended(arguments, full);
        assert_eq!(code, Some(1), "{arguments:?}: {said}");
        assert!(said.contains("standard output: No space left on device"), "{arguments:?}: {said}");
        let (code, said) = ended(arguments, closed());
        assert_eq!((code, said.contains("panicked")), (Some(0), false), "{arguments:?}: {said}");
    }
}

#[test]
fn a_site_that_cannot_listen_says_where() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("its address").to_string();
    let (code, said) = ended(&["auction", "--listen", &address], Stdio::null());
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains(&address) && !said.contains("panicked"), "{said}");
}

/// Who accepts and does not answer is not waited for as for an event.
#[test]
fn a_gateway_that_hangs_is_told() {
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = silent.local_addr().expect("its address").to_string();
    let holding = std::thread::spawn(move || {
        let (mut stream, _) = silent.accept().expect("a connection");
        // To the end of what is asked: the client gives up.
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let (code, said) = ended(&["events", "--all", "--count", "1", "--admin", &address], Stdio::null());
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("nothing came within 10s"), "{said}");
    holding.join().expect("the silent gateway");
}
