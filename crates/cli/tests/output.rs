//! Commands whose output is full or closed: a full disk is told, a reader that has gone is no fault.

use std::{
    fs::File,
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    os::{fd::AsRawFd as _, unix::fs::MetadataExt as _},
    path::Path,
    process::{Command, Output, Stdio},
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};

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
        &["--version"],
        &["--help"],
        &["load", "--help"],
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
fn an_access_log_that_cannot_be_opened_says_what_helps() {
    let directory = tempfile::tempdir().expect("a directory for the test");
    let file = directory.path().join("tidegate.toml");
    let text = "admin = \"none\"\naccess_log.target = \"none/access.log\"\n[[listener]]\naddress = \"127.0.0.1:0\"\n\
                [application.app]\nservers = [\"http://127.0.0.1:1\"]\n";
    std::fs::write(&file, text).expect("write the configuration");
    let (code, said) = ended(&["run", file.to_str().expect("UTF-8")], Stdio::null());
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("none/access.log") && said.contains("make its directory"), "{said}");
}

/// What is hardly meant is told beside the answer, which stays what it is.
#[test]
fn a_check_warns_of_shares_that_leave_nothing_to_everybody_else() {
    let directory = tempfile::tempdir().expect("a directory for the test");
    let file = directory.path().join("tidegate.toml");
    for (share, is_told) in [(0.5, false), (1.0, true)] {
        let text = format!(
            "[[listener]]\naddress = \"127.0.0.1:0\"\n[application.app]\nservers = [\"http://127.0.0.1:1\"]\n\
             [application.app.class.sale]\nwaiting_room.share = {share}\n"
        );
        std::fs::write(&file, text).expect("write the configuration");
        let (code, said) = ended(&["check", file.to_str().expect("UTF-8")], Stdio::null());
        assert_eq!(code, Some(0), "{said}");
        let warning = format!("{}: warning: app/sale/waiting_room.share: ", file.display());
        assert_eq!((said.starts_with(&warning), said.is_empty()), (is_told, !is_told), "{said}");
    }
}

#[test]
fn the_journal_is_told_how_urgent_a_line_is() {
    let directory = tempfile::tempdir().expect("a directory for the test");
    let file = directory.path().join("tidegate.toml");
    std::fs::write(&file, "nonsense = 1\nmore = 2\n").expect("write the configuration");
    let said = |is_journal: bool| {
        let (mut reader, writer) = std::io::pipe().expect("a pipe");
        // As it is named by the kernel, to who has it open.
        let about = std::fs::metadata(format!("/proc/self/fd/{}", writer.as_raw_fd())).expect("the pipe");
        let journal = if is_journal { format!("{}:{}", about.dev(), about.ino()) } else { "1:1".to_owned() };
        let status = Command::new(TIDEGATE)
            .args(["check", file.to_str().expect("UTF-8")])
            .env("JOURNAL_STREAM", journal)
            .env("TIDEGATE_LOG", "wran")
            .stdin(Stdio::null())
            .stderr(writer)
            .status()
            .expect("run tidegate");
        assert_eq!(status.code(), Some(2));
        let mut said = String::new();
        reader.read_to_string(&mut said).expect("what it said");
        said
    };
    let told = said(true);
    let priorities: Vec<&str> = told.lines().map(|line| line.get(..3).unwrap_or(line)).collect();
    assert!(told.starts_with("<4> WARN TIDEGATE_LOG"), "without a time: {told}");
    assert!(priorities.len() > 2 && priorities[1..].iter().all(|priority| *priority == "<3>"), "{told}");
    let plain = said(false);
    assert_eq!(plain.lines().count(), priorities.len(), "{plain}");
    assert!(!plain.contains("<3>") && !plain.contains("<4>"), "{plain}");
}

/// Until there is something, at most twenty seconds.
fn awaited<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < until, "no {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Whoever reads the log may have gone, or have stopped.
#[test]
fn a_log_that_nobody_reads_neither_ends_nor_slows_the_gateway() {
    let directory = tempfile::tempdir().expect("a directory for the test");
    let file = directory.path().join("tidegate.toml");
    for is_gone in [true, false] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        let reader = (!is_gone).then_some(reader);
        let mut full = writer.try_clone().expect("the pipe");
        // Stays where the pipe is full until the reader goes.
        let filling = std::thread::spawn(move || while full.write_all(&[b'\n'; 4096]).is_ok() {});
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("its address");
        drop(listener);
        let text = format!(
            "admin = \"none\"\n[[listener]]\naddress = \"{address}\"\n[application.app]\nservers = [\"http://127.0.0.1:1\"]\n"
        );
        std::fs::write(&file, text).expect("write the configuration");
        let mut gateway = Command::new(TIDEGATE)
            .args(["run", file.to_str().expect("UTF-8")])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(writer)
            .spawn()
            .expect("start tidegate");
        let pid = Pid::from_child(&gateway);
        for _ in 0..3 {
            let mut stream = awaited("gateway", || TcpStream::connect(address).ok());
            stream.write_all(b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").expect("send");
            let mut answer = String::new();
            stream.read_to_string(&mut answer).expect("an answer");
            assert!(answer.starts_with("HTTP/1.1 50"), "gone: {is_gone}: {answer}");
            kill_process(pid, Signal::HUP).expect("reload");
        }
        kill_process(pid, Signal::TERM).expect("end");
        let status = awaited("end", || gateway.try_wait().expect("its status"));
        assert_eq!(status.code(), Some(0), "gone: {is_gone}");
        drop(reader);
        filling.join().expect("the pipe's filler");
    }
}

/// The code alone tells what was at fault.
#[test]
fn nobody_has_to_read_what_is_at_fault() {
    for arguments in [
        &["set", "no_change"][..],
        &["check", "/nowhere.toml"],
        &["load", "ftp://nowhere", "-a", "5/s", "-d", "1s"],
        &["lab", "run", "nosuch"],
    ] {
        let status = Command::new(TIDEGATE)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(closed())
            .stderr(closed())
            .status()
            .expect("run tidegate");
        assert_eq!(status.code(), Some(2), "{arguments:?}");
    }
}

/// Answers every request; ends with the process.
fn site() -> String {
    let site = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/", site.local_addr().expect("its address"));
    std::thread::spawn(move || {
        for mut stream in site.incoming().flatten() {
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
        }
    });
    url
}

#[test]
fn a_load_whose_report_nobody_reads_is_done() {
    let url = site();
    for format in [&[][..], &["--json"]] {
        let arguments = [&["load", &url, "-a", "5/s", "-d", "1s"], format].concat();
        let (code, said) = ended(&arguments, closed());
        assert_eq!((code, said.as_str()), (Some(0), ""), "{format:?}");
    }
}

#[test]
fn an_origin_whose_counts_nobody_reads_is_done() {
    for format in [&[][..], &["--json"]] {
        let arguments = [&["load", "origin", "--for", "1ms"], format].concat();
        let (code, said) = ended(&arguments, closed());
        assert_eq!((code, said.as_str()), (Some(0), ""), "{format:?}");
        let full = File::options().write(true).open("/dev/full").expect("a full device");
        let (code, said) = ended(&arguments, full);
        assert_eq!((code, said.contains("No space left on device")), (Some(1), true), "{format:?}: {said}");
    }
}

/// Who runs as root would lose `/dev/null` by a file of that name.
#[test]
fn the_page_of_a_load_goes_into_a_pipe_and_where_a_link_leads() {
    let url = site();
    let load = |page: &str, stdout: Stdio| {
        let arguments = ["load", &url, "-n", "1", "--report", page];
        let (code, said) = ended(&arguments, stdout);
        assert_eq!((code, said.as_str()), (Some(0), ""), "{page}");
    };
    let directory = tempfile::tempdir().expect("a directory for the test");
    let (old, link) = (directory.path().join("old.html"), directory.path().join("link.html"));
    std::fs::write(&old, "an earlier page").expect("write it");
    for (leads_to, is_page) in [(old.as_path(), true), (Path::new("/dev/null"), false)] {
        std::os::unix::fs::symlink(leads_to, &link).expect("a link");
        load(link.to_str().expect("UTF-8"), Stdio::null());
        assert_eq!(std::fs::read_link(&link).expect("still a link"), leads_to);
        let page = std::fs::read_to_string(&link).expect("what it leads to");
        assert_eq!(page.ends_with("</html>"), is_page, "{page}");
        std::fs::remove_file(&link).expect("remove it");
    }
    let (mut reader, writer) = std::io::pipe().expect("a pipe");
    let reading = std::thread::spawn(move || {
        let mut page = String::new();
        reader.read_to_string(&mut page).map(|_| page)
    });
    load("/proc/self/fd/1", writer.into());
    let said = reading.join().expect("its reader").expect("what was written");
    assert!(said.contains("</html>"), "{said}");
}

#[test]
fn no_event_is_no_number_of_events() {
    let (code, said) = ended(&["events", "--count", "0", "--admin", "127.0.0.1:1"], Stdio::null());
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("--count"), "{said}");
}

#[test]
fn an_admin_address_that_is_none_is_the_inputs_fault() {
    for address in ["foo", "127.0.0.1", "http://127.0.0.1:9900/metrics", "ftp://127.0.0.1:9900"] {
        let (code, said) = ended(&["get", "--admin", address], Stdio::null());
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains("--admin: ") && said.contains("write "), "{said}");
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

/// Answers whoever connects with these bytes; ends with the process.
fn stranger(answer: &'static str) -> String {
    let site = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = site.local_addr().expect("its address").to_string();
    std::thread::spawn(move || {
        for mut stream in site.incoming().flatten() {
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    address
}

#[test]
fn who_is_no_gateway_is_told_by_what_it_answers() {
    for (answer, shown) in [
        (
            "HTTP/1.1 200 OK\r\nServer: nginx\r\nContent-Type: text/html\r\n\r\n<html>hi</html>\n",
            "200 OK, text/html, nginx",
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{\"status\": \"UP\"}",
            "200 OK, application/json",
        ),
        (
            "HTTP/1.1 401 Unauthorized\r\nContent-Type: application/json\r\n\r\n{\"error\": \"who?\"}",
            "401 Unauthorized, ",
        ),
        ("HTTP/1.1 302 Found\r\nLocation: /login\r\n\r\n", "302 Found"),
        (
            "HTTP/1.1 404 Not Found\r\nTidegate-Reason: no_application\r\n\r\n{\"detail\": \"No application.\"}",
            "404 Not Found",
        ),
        ("SSH-2.0-OpenSSH_9.2\r\n", "what is no HTTP"),
    ] {
        let address = stranger(answer);
        for arguments in [
            &["events"][..],
            &["events", "--all", "--count", "1", "--json"],
            &["get"],
            &["get", "--json", "shop"],
            &["set", "shop/mode=off"],
            &["set", "--json", "shop/mode=off"],
            &["token", "shop"],
            &["token", "--json", "shop"],
            &["top", "--once"],
        ] {
            let (code, said) = ended(&[arguments, &["--admin", &address]].concat(), Stdio::null());
            assert_eq!(code, Some(1), "{arguments:?}: {said}");
            let told =
                format!("{address} does not answer as a gateway's admin interface does, but with {shown}");
            assert!(said.contains(&told) && said.contains("by --admin"), "{arguments:?}: {said}");
        }
    }
}

#[test]
fn a_configuration_is_read_from_a_pipe_but_not_waited_for_without_end() {
    let text =
        "[[listener]]\naddress = \"127.0.0.1:0\"\n[application.app]\nservers = [\"http://127.0.0.1:1\"]\n";
    let directory = tempfile::tempdir().expect("a directory for the test");
    let pipe = directory.path().join("pipe.toml");
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("make a pipe").success());
    let pipe = pipe.to_str().expect("UTF-8").to_owned();
    for command in ["check", "run"] {
        let since = Instant::now();
        let (code, said) = ended(&[command, &pipe], Stdio::null());
        assert_eq!(code, Some(2), "{said}");
        assert!(
            said.contains("a pipe to which nobody has written") && since.elapsed() < Duration::from_secs(30),
            "{said}"
        );
    }
    let (path, written) = (pipe.clone(), text.to_owned());
    let writer = std::thread::spawn(move || std::fs::write(path, written));
    assert_eq!(ended(&["check", &pipe], Stdio::null()), (Some(0), String::new()));
    writer.join().expect("the writer").expect("written");
    let script = format!("printf '%s' '{text}' | {TIDEGATE} check /dev/stdin");
    let output = Command::new("sh").args(["-c", &script]).output().expect("run a shell");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let (code, said) = ended(&["check", directory.path().to_str().expect("UTF-8")], Stdio::null());
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("Is a directory"), "{said}");
}

#[test]
fn shells_are_told_how_to_complete_the_command_line() {
    for shell in ["bash", "zsh", "fish"] {
        let output = Command::new(TIDEGATE).args(["completions", shell]).output().expect("run tidegate");
        assert!(output.status.success(), "{shell}: {}", String::from_utf8_lossy(&output.stderr));
        let script = String::from_utf8(output.stdout).expect("text");
        for part in ["waiting room", "dry-run", "admin-ca"] {
            // Bash shows no texts.
            assert!(script.contains(part) || (shell, part) == ("bash", "waiting room"), "{shell}: no {part}");
        }
    }
    let completed = "source <(\"$0\" completions bash); COMP_WORDS=(tidegate che); COMP_CWORD=1; \
                     _tidegate tidegate che tidegate; echo \"${COMPREPLY[@]}\"";
    let output = Command::new("bash").args(["-c", completed, TIDEGATE]).output().expect("run bash");
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "check\n",
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}
