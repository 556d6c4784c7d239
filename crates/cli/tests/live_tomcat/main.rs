//! Debian's Tomcat 10 behind `tidegate protect`, with curl, h2load, wrk, a WebSocket client and a browser before it,
//! and a gibibyte each way.
//!
//! What the browser saw is in `target/live/tomcat.png`.

mod clients;
mod sequence;
#[path = "../support/mod.rs"]
mod support;
mod tomcat;

use std::{
    fs,
    path::PathBuf,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use clients::{Curl, browse, h2load, web_socket, web_socket_over_tls, wrk};
use sequence::Sequence;
use support::{
    Gateway, Start,
    admin::{await_metrics, await_rest},
    free_address, report_file, resident_bytes, write_certificate,
};
use tomcat::Tomcat;

const MIB: u64 = 1024 * 1024;
const GIB: u64 = 1024 * MIB;
/// Memory is flat if a gibibyte moves it by less than this.
const GROWTH_MAX: u64 = 64 * MIB;

/// `tidegate protect` before Tomcat, with its addresses.
struct Protected {
    gateway: Gateway,
    listen: std::net::SocketAddr,
    admin: std::net::SocketAddr,
}

impl Protected {
    fn start(tomcat: &Tomcat, tls: Option<&(PathBuf, PathBuf)>) -> Self {
        let (listen, admin) = (free_address(), free_address());
        let (listen_text, admin_text) = (listen.to_string(), admin.to_string());
        let url = tomcat.url();
        let mut arguments = vec!["protect", &url, "--listen", &listen_text, "--admin", &admin_text];
        if let Some((chain, key)) = tls {
            arguments.extend([
                "--cert",
                chain.to_str().expect("UTF-8"),
                "--key",
                key.to_str().expect("UTF-8"),
            ]);
        }
        let gateway = Gateway::command(&arguments, &Start::default());
        // Every request of every client is to be answered, also where the machine halts for a second.
        set(&admin_text, "app/default/queue.wait.max=60s");
        Self { gateway, listen, admin }
    }

    fn stop(self) {
        await_rest(self.admin);
        self.gateway.stop_sound();
    }
}

/// `tidegate set`.
fn set(admin: &str, change: &str) {
    let output = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(["set", change, "--admin", admin])
        .output()
        .expect("start tidegate set");
    assert!(output.status.success(), "set {change}: {}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn tomcat_serves_its_clients_through_the_gateway() {
    let certificates = tempfile::tempdir().expect("a directory for certificates");
    let certificate = write_certificate(certificates.path());
    let tomcat = Tomcat::start();
    let tls = Protected::start(&tomcat, Some(&certificate));
    let plain = Protected::start(&tomcat, None);
    let secure = Curl::new(format!("https://localhost:{}", tls.listen.port()), &certificate.0);
    let open = Curl::new(format!("http://{}", plain.listen), &certificate.0);

    pages(&secure, "--http1.1", "1.1");
    pages(&secure, "--http2", "2");
    pages(&open, "--http1.1", "1.1");
    pages(&open, "--http2-prior-knowledge", "2");

    h2load(&format!("https://localhost:{}/", tls.listen.port()));
    wrk(&format!("http://{}/", plain.listen));
    web_socket(plain.listen);
    web_socket_over_tls(tls.listen, &certificate.0);
    browser(&tls);

    flat(&tls, "1 GiB down, HTTP/2 over TLS", || download(&secure, "--http2", GIB));
    flat(&tls, "1 GiB up, HTTP/1.1 over TLS", || upload(&secure, "--http1.1", GIB));
    flat(&tls, "256 MiB down, HTTP/1.1 over TLS", || download(&secure, "--http1.1", GIB / 4));
    flat(&tls, "256 MiB up, HTTP/2 over TLS", || upload(&secure, "--http2", GIB / 4));

    await_metrics(tls.admin, "the bytes of both directions are counted", |metrics| {
        #[expect(clippy::cast_precision_loss, reason = "a count of bytes beside a reading in floating point")]
        let moved = (GIB + GIB / 4) as f64;
        metrics.sum("class_bytes_out", &[]) >= moved && metrics.sum("class_bytes_in", &[]) >= moved
    });
    tls.stop();
    plain.stop();
}

/// A page and a form, in one version of HTTP.
fn pages(curl: &Curl, option: &str, version: &str) {
    let page = curl.fetch(&[option, "-w", "\n%{http_version} %{response_code}"], "/");
    assert!(page.contains("Tomcat says hello"), "{option}: {page}");
    assert!(page.ends_with(&format!("\n{version} 200")), "{option}: {page}");
    let scheme = if curl.is_tls() { "https" } else { "http" };
    assert!(page.contains(&format!("{scheme}.")), "X-Forwarded-Proto reached Tomcat: {page}");
    let form = curl.fetch(&[option, "--data-urlencode", "text=Grüße & mehr"], "/form");
    assert_eq!(form, "text=Grüße & mehr", "{option}");
}

fn browser(tls: &Protected) {
    let picture = report_file("tomcat.png");
    let _ = fs::remove_file(&picture);
    let page = browse(&format!("https://localhost:{}/", tls.listen.port()), &picture);
    assert!(
        page.contains("Tomcat says hello") && page.contains("script ran: 42"),
        "the browser's page: {page}"
    );
    let picture = fs::read(&picture).expect("the browser's picture");
    assert!(picture.starts_with(b"\x89PNG") && picture.len() > 4096, "a picture of {} bytes", picture.len());
}

/// Runs `transfer` and fails if the gateway's memory grew with it.
fn flat(protected: &Protected, what: &str, transfer: impl FnOnce()) {
    let pid = protected.gateway.pid();
    let before = resident_bytes(pid);
    let done = Arc::new(AtomicBool::new(false));
    let over = Arc::clone(&done);
    let sampler = thread::spawn(move || {
        let mut peak = before;
        while !over.load(Ordering::Relaxed) {
            peak = peak.max(resident_bytes(pid));
            thread::sleep(Duration::from_millis(20));
        }
        peak
    });
    let begun = Instant::now();
    transfer();
    done.store(true, Ordering::Relaxed);
    let peak = sampler.join().expect("the sampler");
    println!(
        "{what}: {:.1} s, resident {} MiB before, {} MiB at most",
        begun.elapsed().as_secs_f64(),
        before / MIB,
        peak / MIB
    );
    assert!(peak < before + GROWTH_MAX, "{what}: memory grew from {before} to {peak} bytes");
}

fn download(curl: &Curl, option: &str, bytes: u64) {
    let mut sequence = Sequence::default();
    let received = curl.read(&[option], &format!("/stream?bytes={bytes}"), |block| sequence.verify(block));
    assert_eq!(received, bytes, "{option}: bytes received");
    assert_eq!(sequence.first_wrong(), None, "{option}: the first byte that is not as sent");
}

fn upload(curl: &Curl, option: &str, bytes: u64) {
    let said = curl.write(&[option], "/stream", |sink| Sequence::default().write(sink, bytes));
    assert_eq!(said, format!("bytes={bytes} first_wrong=-1"), "{option}: what Tomcat received");
}
