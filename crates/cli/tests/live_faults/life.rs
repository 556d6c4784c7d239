//! New settings, certificates and binaries, and the end, all under load.

use std::{
    fs,
    io::Write as _,
    net::{SocketAddr, TcpListener},
    os::unix::fs::PermissionsExt,
    path::Path,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use rustix::io::ioctl_fionread;

use crate::{
    Front,
    support::{
        Gateway, Start,
        admin::{api, await_metrics, await_rest},
        client::{Client, get},
        free_address,
        load::{Connections, Load, Tally},
        origin::{ID, Latch, Origin, respond},
        signal, write_certificate,
    },
};

pub(crate) const KNOBS: &str = "in_flight.algorithm = \"fixed\"\nin_flight.limit = 64";

/// A server that takes a little time, so that there is always something under way.
fn origin() -> Origin {
    Origin::start(|_, stream| {
        thread::sleep(Duration::from_millis(5));
        respond(stream, 200, b"hello\n")
    })
}

/// Nothing failed, and every request that was answered came once.
fn assert_sound(tally: &Tally, origin: &Origin) {
    assert!(tally.failed.is_empty(), "{} requests failed: {:#?}", tally.failed.len(), tally.failed);
    assert!(!tally.answered.is_empty(), "there was load");
    let repeated = origin.repeated();
    assert!(repeated.is_empty(), "served twice: {repeated:?}");
    for id in &tally.answered {
        assert_eq!(origin.times(id), 1, "{id}");
    }
    for id in &tally.unanswered {
        assert_eq!(origin.times(id), 0, "{id} was begun, and not answered");
    }
}

#[test]
fn settings_are_taken_up_under_load_without_one_failed_request() {
    let origin = origin();
    let servers = [origin.url()];
    let front = Front::start(&servers, "", KNOBS);
    let kept = Load::start("kept", front.listen, 6, Connections::Kept, "/");
    let fresh = Load::start("fresh", front.listen, 2, Connections::Fresh, "/");
    let limit = |wanted: f64| {
        await_metrics(front.admin, "the new limit is in force", |metrics| {
            metrics.sum("application_in_flight_limit", &[]) == wanted
        });
    };
    kept.await_more(50);
    for round in 0..4_u32 {
        // By the file's change alone, and by the signal.
        let wanted = 65 + round;
        let knobs = format!("in_flight.algorithm = \"fixed\"\nin_flight.limit = {wanted}");
        front.rewrite(&servers, "", &knobs);
        if round % 2 == 1 {
            front.gateway.signal("HUP");
        }
        limit(f64::from(wanted));
        kept.await_more(50);
    }
    // A file with faults: they are said, and the settings stay.
    front.rewrite(&servers, "", "in_flight.limit = \"many\"");
    front.gateway.signal("HUP");
    front.gateway.log.await_line("in_flight.limit", 1);
    kept.await_more(50);
    limit(68.0);
    front.rewrite(&servers, "", KNOBS);
    limit(64.0);
    let mut arrivals = 0;
    for tally in [kept.stop(), fresh.stop()] {
        assert_eq!(tally.refused, 0);
        assert_sound(&tally, &origin);
        arrivals += tally.answered.len();
    }
    front.finish(arrivals);
}

#[test]
fn a_listener_that_could_not_be_opened_is_tried_again() {
    let origin = Origin::hello();
    let front = Front::start(&[origin.url()], "", KNOBS);
    // Held by somebody else.
    let held = TcpListener::bind("127.0.0.1:0").expect("an address");
    let second = held.local_addr().expect("its address");
    let further = format!("[[listener]]\nname = \"second\"\naddress = \"{second}\"");
    front.rewrite(&[origin.url()], &further, KNOBS);
    front.gateway.log.await_line("listeners stay as they were", 1);
    // Asked again, it says so again.
    front.gateway.signal("HUP");
    front.gateway.log.await_line("listeners stay as they were", 2);
    drop(held);
    front.gateway.signal("HUP");
    front.gateway.log.await_line("new configuration in force", 1);
    assert_eq!(get(second, "/").expect("an answer").status, 200);
    // Now there is nothing left to be done.
    front.gateway.signal("HUP");
    front.gateway.log.await_line("nothing changed in the configuration", 1);
    front.finish(1);
}

#[test]
fn listeners_and_the_access_log_do_not_hold_up_each_other() {
    let origin = Origin::hello();
    let directory = tempfile::tempdir().expect("a directory for the logs");
    let (first, folder) = (directory.path().join("first.log"), directory.path().join("folder"));
    let second = folder.join("second.log");
    let front = Front::start(&[origin.url()], "", KNOBS);
    let held = TcpListener::bind("127.0.0.1:0").expect("an address");
    let address = held.local_addr().expect("its address");
    let host = |log: &Path| {
        format!("access_log.target = {log:?}\n[[listener]]\nname = \"second\"\naddress = \"{address}\"")
    };
    front.rewrite(&[origin.url()], &host(&first), KNOBS);
    front.gateway.log.await_line("listeners stay as they were", 1);
    assert_eq!(get(front.listen, "/").expect("an answer").status, 200);
    await_that("the access log has a line", || fs::read(&first).is_ok_and(|log| log.ends_with(b"\n")));
    drop(held);
    front.rewrite(&[origin.url()], &host(&second), KNOBS);
    front.gateway.log.await_line("the access log stays as it was", 1);
    assert_eq!(get(address, "/").expect("an answer").status, 200);
    fs::create_dir(&folder).expect("make the directory");
    front.gateway.signal("HUP");
    front.gateway.log.await_line("new configuration in force", 1);
    assert_eq!(get(address, "/").expect("an answer").status, 200);
    await_that("the other one has", || fs::read(&second).is_ok_and(|log| log.ends_with(b"\n")));
    front.finish(3);
}

#[test]
fn other_workers_are_said_to_wait_for_the_next_start() {
    let origin = Origin::hello();
    let front = Front::start(&[origin.url()], "", KNOBS);
    front.rewrite(&[origin.url()], "[[workers]]\nthreads = 1", KNOBS);
    front.gateway.log.await_line("take effect at the next start", 1);
    front.gateway.log.await_line("new configuration in force", 1);
    // Taken back, nothing waits any more.
    front.rewrite(&[origin.url()], "", KNOBS);
    front.gateway.log.await_line("new configuration in force", 2);
    assert_eq!(front.gateway.log.lines_with("take effect at the next start").len(), 1);
    front.finish(0);
}

/// What changes after it was read, while the gateway still starts, is taken up when it has.
#[test]
fn a_configuration_that_changes_during_the_start_is_taken_up() {
    let origin = Origin::hello();
    let directory = tempfile::tempdir().expect("a directory for the test");
    let (chain, _) = write_certificate(directory.path());
    let certificate = fs::read(chain).expect("the certificate");
    // The start reads the authorities in this pipe, and waits for its end as long as somebody could write.
    let pipe = directory.path().join("pipe.pem");
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("make a pipe").success());
    let mut held = fs::File::options().read(true).write(true).open(pipe).expect("open the pipe");
    held.write_all(&certificate).expect("write the authorities");
    let listen = free_address();
    let configuration = |limit: u32, telemetry: &str| {
        format!(
            "admin = \"none\"\n{telemetry}\n[[listener]]\naddress = \"{listen}\"\n[application.app]\nservers = [\"{}\"]\n\
             in_flight.algorithm = \"fixed\"\nin_flight.limit = {limit}\n",
            origin.url()
        )
    };
    let first = configuration(1, "telemetry = { endpoint = \"https://127.0.0.1:9\", ca = \"pipe.pem\" }");
    let (file, second) = (directory.path().join("tidegate.toml"), configuration(2, ""));
    thread::spawn(move || {
        // Once they are read, the configuration was.
        while ioctl_fionread(&held).expect("what is in the pipe") > 0 {
            thread::sleep(Duration::from_millis(2));
        }
        let fresh = file.with_extension("new");
        fs::write(&fresh, second).expect("write the configuration");
        fs::rename(fresh, file).expect("put the configuration in its place");
    });
    let gateway = Gateway::run_in(directory, &first, &Start::default());
    gateway.log.await_line("new configuration in force", 1);
    assert_eq!(get(listen, "/").expect("an answer").status, 200);
    gateway.stop_sound();
}

#[test]
fn a_certificate_that_comes_without_its_issuer_s_is_told_when_it_is_read() {
    let directory = tempfile::tempdir().expect("a directory for the test");
    let named = |name: &str| {
        let mut names = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).expect("names");
        names.distinguished_name.push(rcgen::DnType::CommonName, name);
        names
    };
    let authority = rcgen::Issuer::new(named("authority"), rcgen::KeyPair::generate().expect("a key"));
    let (chain, key) = write_certificate(directory.path());
    let another = fs::read_to_string(&chain).expect("a certificate");
    let own_key = rcgen::KeyPair::generate().expect("a key");
    let leaf = named("leaf").signed_by(&own_key, &authority).expect("a certificate").pem();
    fs::write(&key, own_key.serialize_pem()).expect("write the key");
    fs::write(&chain, leaf + &another).expect("write the certificates");
    let configuration = format!(
        "admin = \"none\"\n[[listener]]\naddress = \"{}\"\n\
         tls.certificates = [{{ chain = \"chain.pem\", key = \"key.pem\" }}]\n\
         [application.app]\nservers = [\"http://127.0.0.1:1\"]\n",
        free_address()
    );
    let gateway = Gateway::run_in(directory, &configuration, &Start::default());
    gateway.log.await_line("chain.pem: the certificate comes without that of its issuer", 1);
    gateway.signal("HUP");
    gateway.log.await_line("chain.pem: the certificate comes without that of its issuer", 2);
    gateway.stop_sound();
}

#[test]
fn a_certificate_that_turns_bad_leaves_the_old_one_in_force() {
    let origin = Origin::hello();
    let directory = tempfile::tempdir().expect("a directory for the test");
    let trusted = tempfile::tempdir().expect("a directory for copies");
    let (chain, _) = write_certificate(directory.path());
    let first = trusted.path().join("first.pem");
    fs::copy(&chain, &first).expect("keep the certificate");
    let (listen, admin) = (free_address(), free_address());
    let configuration = format!(
        "admin = \"{admin}\"\n[[listener]]\naddress = \"{listen}\"\n\
         tls.certificates = [{{ chain = \"chain.pem\", key = \"key.pem\" }}]\n\
         [application.app]\nservers = [\"{}\"]\n",
        origin.url()
    );
    let gateway = Gateway::run_in(directory, &configuration, &Start::default());
    assert!(is_served(listen, &first));

    // By the file's change alone.
    fs::write(&chain, "-----BEGIN CERTIFICATE-----\nbroken\n-----END CERTIFICATE-----\n").expect("break it");
    gateway.log.await_line("chain.pem", 1);
    assert!(is_served(listen, &first), "the old certificate stays in force");
    // By the signal too.
    gateway.signal("HUP");
    gateway.log.await_line("chain.pem", 2);
    assert!(is_served(listen, &first), "the old certificate stays in force");

    // A key that is not the certificate's.
    let other = tempfile::tempdir().expect("a directory for copies");
    let (second, second_key) = write_certificate(other.path());
    fs::copy(&second, &chain).expect("replace the certificate");
    gateway.signal("HUP");
    gateway.log.await_line("key", 1);
    assert!(is_served(listen, &first), "the old certificate stays in force");

    fs::copy(second_key, gateway.directory.path().join("key.pem")).expect("replace the key");
    gateway.signal("HUP");
    await_that("the new certificate is in force", || is_served(listen, &second));
    assert!(!is_served(listen, &first), "the old one is not");
    await_rest(admin);
    gateway.stop_sound();
}

/// As Debian's /etc/ssl/private is for its group.
#[test]
fn a_directory_that_may_be_entered_and_not_read_is_said_once_and_its_files_are_read_again() {
    let origin = Origin::hello();
    let directory = tempfile::tempdir().expect("a directory for the test");
    let trusted = tempfile::tempdir().expect("a directory for copies");
    let private = directory.path().join("private");
    fs::create_dir(&private).expect("a directory for certificates");
    let (chain, key) = write_certificate(&private);
    let (second, second_key) = write_certificate(trusted.path());
    let listen = free_address();
    let configuration = format!(
        "admin = \"none\"\n[[listener]]\naddress = \"{listen}\"\n\
         tls.certificates = [{{ chain = \"private/chain.pem\", key = \"private/key.pem\" }}]\n\
         [application.app]\nservers = [\"{}\"]\n",
        origin.url()
    );
    let mode = |mode| fs::set_permissions(&private, fs::Permissions::from_mode(mode)).expect("its mode");
    mode(0o311);
    let start = Start { bound_by_modes: true, ..Start::default() };
    let gateway = Gateway::run_in(directory, &configuration, &start);
    let refused = "not watched: its files are looked at every minute";
    gateway.log.await_line(refused, 1);
    fs::copy(&second, &chain).expect("replace the certificate");
    fs::copy(second_key, key).expect("replace the key");
    for times in 1..=2 {
        gateway.signal("HUP");
        gateway.log.await_line("nothing changed in the configuration", times);
    }
    await_that("the new certificate is in force", || is_served(listen, &second));
    assert_eq!(gateway.log.lines_with(refused).len(), 1);
    mode(0o700);
    gateway.stop_sound();
}

/// By the change of the file alone.
#[test]
fn pages_and_authorities_that_an_application_names_are_read_again_when_they_change() {
    let origin = Origin::hello();
    let server_files = tempfile::tempdir().expect("a directory for the server");
    let (trusted, _) = write_certificate(server_files.path());
    let trusted = fs::read(trusted).expect("its certificate");
    let (secure, listen) = (free_address(), free_address());
    let server = Gateway::run_in(
        server_files,
        &format!(
            "admin = \"none\"\n[[listener]]\naddress = \"{secure}\"\ntls.certificates = [{{ chain = \"chain.pem\", key = \"key.pem\" }}]\n\
             [application.app]\nservers = [\"{}\"]\n",
            origin.url()
        ),
        &Start::default(),
    );
    let directory = tempfile::tempdir().expect("a directory for the test");
    let authorities = directory.path().join("ca.pem");
    let page = directory.path().join("page.html");
    let (stranger, _) = write_certificate(directory.path());
    fs::copy(stranger, &authorities).expect("trust somebody else");
    fs::write(&page, "back at six").expect("write the page");
    let gateway = Gateway::run_in(
        directory,
        &format!(
            "admin = \"none\"\n[[listener]]\naddress = \"{listen}\"\n\
             [application.app]\nservers = [\"https://{secure}\"]\nupstream.tls.ca = \"ca.pem\"\n\
             [application.closed]\nhosts = [\"closed.test\"]\nservers = [\"{}\"]\nmaintenance = true\n\
             maintenance_page = \"page.html\"\n",
            origin.url()
        ),
        &Start::default(),
    );
    let told = || {
        let mut client = Client::connect(listen).expect("a connection");
        client.send(b"GET / HTTP/1.1\r\nhost: closed.test\r\naccept: text/html\r\n\r\n").expect("to be sent");
        String::from_utf8(client.response().expect("an answer").body).expect("a page")
    };
    assert_eq!(get(listen, "/").expect("an answer").status, 502, "the server's certificate is a stranger's");
    assert!(told().contains("back at six"));

    fs::write(&authorities, trusted).expect("trust the server");
    await_that("the server is trusted", || get(listen, "/").expect("an answer").status == 200);
    fs::write(&page, "back at seven").expect("write the page");
    await_that("the new page is shown", || told().contains("back at seven"));
    gateway.stop_sound();
    server.stop_sound();
}

pub(crate) fn await_that(what: &str, holds: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(Instant::now() < deadline, "{what}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// Whether the server shows this certificate.
fn is_served(listen: SocketAddr, certificate: &Path) -> bool {
    let curl = Command::new("curl")
        .args(["-sS", "--fail", "--max-time", "20", "--cacert"])
        .arg(certificate)
        .arg(format!("https://localhost:{}/", listen.port()))
        .output()
        .expect("run curl");
    curl.status.success() && curl.stdout == b"hello\n"
}

#[test]
fn before_the_end_balancers_see_it_and_requests_are_still_served() {
    let origin = Origin::hello();
    let (listen, admin) = (free_address(), free_address());
    let configuration = format!(
        "admin = \"{admin}\"\ndrain.grace = \"1h\"\n[[listener]]\naddress = \"{listen}\"\n\
         [application.app]\nservers = [\"{}\"]\n",
        origin.url()
    );
    let mut gateway = Gateway::run(&configuration, &Start::default());
    assert_eq!(get(admin, "/readyz").expect("an answer").status, 200);
    gateway.signal("TERM");
    gateway.log.await_line("not ready any more", 1);
    assert_eq!(get(admin, "/readyz").expect("an answer").status, 503);
    // On a connection of its own: the listener still accepts.
    assert_eq!(get(listen, "/").expect("an answer").status, 200);
    // Who cannot wait says so again.
    gateway.signal("TERM");
    assert_eq!(gateway.ended(), Some(1));
    gateway.log.assert_no_panic();
}

#[test]
fn the_end_answers_every_request_begun() {
    let origin = Origin::start(|request, stream| {
        thread::sleep(Duration::from_millis(if request.path == "/slow" { 700 } else { 5 }));
        respond(stream, 200, b"hello\n")
    });
    let mut front = Front::start(&[origin.url()], "", KNOBS);
    let slow = Load::start("slow", front.listen, 10, Connections::Reopened, "/slow");
    let kept = Load::start("kept", front.listen, 6, Connections::Reopened, "/");
    let fresh = Load::start("fresh", front.listen, 2, Connections::Fresh, "/");
    kept.await_more(100);
    slow.await_more(10);
    front.gateway.signal("TERM");
    assert_eq!(front.gateway.ended(), Some(0));
    front.gateway.log.assert_no_panic();
    for (load, clients) in [(slow, 10), (kept, 6), (fresh, 2)] {
        // Each client goes on until nobody listens.
        let tally = load.join();
        assert_eq!(tally.refused, clients);
        assert_sound(&tally, &origin);
    }
}

#[test]
fn the_binary_is_replaced_under_load_without_one_failed_or_refused_request() {
    // A process has its state directory until the last of its requests is done, and it has one until its successor has
    // found the directory taken.
    let latches = [Latch::default(), Latch::default()];
    let held = latches.clone();
    let origin = Origin::start(move |request, stream| {
        thread::sleep(Duration::from_millis(5));
        if let Some(latch) = request.path.strip_prefix("/held/").and_then(|number| number.parse().ok()) {
            let latch: usize = latch;
            held[latch].wait();
        }
        respond(stream, 200, b"hello\n")
    });
    let front = Front::start(&[origin.url()], "state_directory = \"state\"", KNOBS);
    let kept = Load::start("kept", front.listen, 6, Connections::Reopened, "/");
    let fresh = Load::start("fresh", front.listen, 4, Connections::Fresh, "/");
    kept.await_more(100);
    let mut front = front;
    let hold = |number: usize| {
        let mut client = Client::connect(front.listen).expect("connect");
        let id = format!("held-{number}");
        client.send_get(&format!("/held/{number}"), &format!("{ID}: {id}\r\n")).expect("send");
        await_that("it is held", || origin.times(&id) == 1);
        client
    };
    let (taken, old) = ("in memory until the process before ends", front.gateway.pid());
    let mut last = hold(0);
    front.gateway.signal("USR2");
    front.gateway.log.await_line(" ready", 2);
    front.gateway.log.await_line(taken, 1);
    latches[0].open();
    assert_eq!(last.response().expect("it is finished").status, 200);
    assert_eq!(front.gateway.ended(), Some(0), "the old process ends well");
    let new = successor(front.gateway.directory.path(), old);
    kept.await_more(200);
    fresh.await_more(50);

    // And again, by its successor, which has the state directory by then.
    front.gateway.log.await_line("state directory open", 2);
    let mut last = hold(1);
    signal(new, "USR2");
    front.gateway.log.await_line(" ready", 3);
    front.gateway.log.await_line(taken, 2);
    latches[1].open();
    assert_eq!(last.response().expect("it is finished").status, 200);
    await_gone(new);
    let newest = successor(front.gateway.directory.path(), new);
    kept.await_more(200);
    fresh.await_more(50);
    for tally in [kept.stop(), fresh.stop()] {
        assert_eq!(tally.refused, 0);
        assert_sound(&tally, &origin);
    }
    // Who takes the place of another gets the state directory after it, as is to be expected.
    front.gateway.log.await_line("state directory open", 3);
    assert_eq!(front.gateway.log.lines_with(taken).len(), 2);
    assert_eq!(front.gateway.log.lines_with("in memory only"), [""; 0]);
    await_rest(front.admin);
    signal(newest, "TERM");
    await_gone(newest);
    front.gateway.log.assert_no_panic();
}

#[test]
fn while_the_old_process_drains_only_the_new_one_answers_at_the_admin_address() {
    let latch = Latch::default();
    let held = latch.clone();
    let origin = Origin::start(move |request, stream| {
        if request.path == "/held" {
            held.wait();
        }
        respond(stream, 200, b"hello\n")
    });
    let mut front = Front::start(&[origin.url()], "", KNOBS);
    // One that cannot start takes nothing over.
    let configuration =
        fs::read_to_string(front.gateway.directory.path().join("tidegate.toml")).expect("read");
    front.gateway.write_configuration("nonsense");
    front.gateway.signal("USR2");
    front.gateway.log.await_line("upgrade failed; this process goes on", 1);
    assert_eq!(get(front.admin, "/readyz").expect("an answer").status, 200);
    front.gateway.write_configuration(&configuration);

    let mut slow = Client::connect(front.listen).expect("connect");
    slow.send_get("/held", "").expect("send");
    origin.await_requests(1);
    let mut kept = Client::connect(front.admin).expect("connect");
    assert_eq!(kept.get("/readyz", "").expect("an answer").status, 200);
    let mut events = Client::connect(front.admin).expect("connect");
    events.send_get("/api/v1/events?after=0", "").expect("send");

    let old = front.gateway.pid();
    front.gateway.signal("USR2");
    front.gateway.log.await_line("the new process accepts connections", 1);
    kept.closed().expect("what is idle is closed");
    let told = events.response().expect("the stream of events ends").text();
    assert!(told.contains("event: ending"), "{told}");
    for _ in 0..40 {
        assert_eq!(get(front.admin, "/readyz").expect("an answer").status, 200);
    }
    let change = r#"{"changes": {"app/maintenance": true}, "why": "to be seen"}"#;
    assert_eq!(api(front.admin, "PATCH", "/api/v1/knobs", change).status, 200);
    let deadline = Instant::now() + Duration::from_secs(30);
    while get(front.listen, "/").expect("an answer").status != 503 {
        assert!(Instant::now() < deadline, "the change was made in the process that ends");
    }
    latch.open();
    assert_eq!(slow.response().expect("it is finished").status, 200);
    assert_eq!(front.gateway.ended(), Some(0));
    let new = successor(front.gateway.directory.path(), old);
    signal(new, "TERM");
    await_gone(new);
    front.gateway.log.assert_no_panic();
}

/// Who starts and gives up is not stopped before he has said why.
#[test]
fn a_new_binary_that_cannot_start_says_why() {
    let origin = Origin::hello();
    let front = Front::start(&[origin.url()], "", KNOBS);
    let held = TcpListener::bind("127.0.0.1:0").expect("an address");
    let held = held.local_addr().map(|address| (held, address)).expect("its address");
    let further = format!("[[listener]]\nname = \"second\"\naddress = \"{}\"", held.1);
    front.rewrite(&[origin.url()], &further, KNOBS);
    front.gateway.log.await_line("listeners stay as they were", 1);
    for times in 1..=3 {
        front.gateway.signal("USR2");
        front.gateway.log.await_line("upgrade failed; this process goes on", times);
        // What it says is read in the order in which it is said, by whomever.
        let said = front.gateway.log.lines_with("tidegate: listener second: ");
        assert_eq!(said.len(), times, "{said:?}");
    }
    assert_eq!(front.gateway.log.lines_with("exit status: 1").len(), 3);
    assert_eq!(get(front.listen, "/").expect("an answer").status, 200);
    front.finish(1);
}

/// The process that runs with a file of this directory and is not `old`.
pub(crate) fn successor(directory: &Path, old: u32) -> u32 {
    let directory = directory.to_str().expect("UTF-8");
    let found: Vec<u32> = fs::read_dir("/proc")
        .expect("/proc")
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|pid| *pid != old)
        .filter(|pid| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&line).contains(directory)
        })
        .collect();
    assert_eq!(found.len(), 1, "one process runs with {directory}: {found:?}");
    found[0]
}

pub(crate) fn await_gone(pid: u32) {
    let deadline = Instant::now() + Duration::from_secs(30);
    // A zombie has no command line.
    while !fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default().is_empty() {
        assert!(Instant::now() < deadline, "process {pid} did not end");
        thread::sleep(Duration::from_millis(10));
    }
}
