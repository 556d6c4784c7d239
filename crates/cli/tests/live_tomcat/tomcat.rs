//! Debian's Tomcat 10 with the web application of these tests, in a directory of its own.

use std::{
    fs,
    io::{BufRead, BufReader},
    net::SocketAddr,
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, Command, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

const HOME: &str = "/usr/share/tomcat10";
/// The compiler that Tomcat itself uses for its pages; a JDK is not needed.
const COMPILER: &str = "/usr/share/java/eclipse-jdt-core.jar";
const START_TIMEOUT: Duration = Duration::from_secs(60);

const SERVER: &str = include_str!("server.xml");
const PAGES: [(&str, &str); 2] =
    [("index.jsp", include_str!("webapp/index.jsp")), ("shop.jsp", include_str!("webapp/shop.jsp"))];
const SOURCES: [(&str, &str); 3] = [
    ("Echo.java", include_str!("webapp/Echo.java")),
    ("Form.java", include_str!("webapp/Form.java")),
    ("Stream.java", include_str!("webapp/Stream.java")),
];

/// A running Tomcat, until dropped.
pub(crate) struct Tomcat {
    pub(crate) address: SocketAddr,
    process: Child,
    _base: tempfile::TempDir,
}

impl Tomcat {
    /// Compiles the application, starts Tomcat on a port of its own and waits until it serves.
    pub(crate) fn start() -> Self {
        assert!(Path::new(HOME).join("bin/catalina.sh").exists(), "{HOME} is missing: run scripts/deps test");
        let directory = tempfile::tempdir().expect("a directory for Tomcat");
        let base = directory.path();
        let root = base.join("webapps/ROOT");
        for made in ["conf", "temp", "work", "logs", "webapps/ROOT/WEB-INF/classes", "src"] {
            fs::create_dir_all(base.join(made)).expect("the directories of Tomcat");
        }
        fs::write(base.join("conf/server.xml"), SERVER).expect("write server.xml");
        for file in ["web.xml", "catalina.properties"] {
            fs::copy(Path::new(HOME).join("etc").join(file), base.join("conf").join(file))
                .expect("Debian's configuration of Tomcat");
        }
        for (name, text) in PAGES {
            fs::write(root.join(name), text).expect("write a page");
        }
        compile(&base.join("src"), &root.join("WEB-INF/classes"));

        let mut process = Command::new(Path::new(HOME).join("bin/catalina.sh"))
            .arg("run")
            .env("CATALINA_HOME", HOME)
            .env("CATALINA_BASE", base)
            .env(
                "CATALINA_OPTS",
                "-Xmx256m -XX:TieredStopAtLevel=4 -XX:+UseSerialGC -Djava.security.egd=file:/dev/urandom",
            )
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .expect("start Tomcat");
        let log = process.stderr.take().expect("piped");
        let (tell, told) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(log).lines().map_while(Result::ok) {
                eprintln!("tomcat: {line}");
                let _ = tell.send(line);
            }
        });
        let mut tomcat = Self { address: SocketAddr::from(([127, 0, 0, 1], 0)), process, _base: directory };
        loop {
            let line = told.recv_timeout(START_TIMEOUT).expect("Tomcat says that it has started");
            if let Some(port) = port(&line) {
                tomcat.address.set_port(port);
            }
            if line.contains("Server startup in") {
                assert_ne!(tomcat.address.port(), 0, "Tomcat named its port");
                return tomcat;
            }
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

impl Drop for Tomcat {
    fn drop(&mut self) {
        let group = format!("-{}", self.process.id());
        let _ = Command::new("kill").args(["-KILL", "--", &group]).stderr(Stdio::null()).status();
        let _ = self.process.wait();
    }
}

/// The port that a line such as `Starting ProtocolHandler ["http-nio-127.0.0.1-auto-1-43210"]` names.
fn port(line: &str) -> Option<u16> {
    line.split_once("Starting ProtocolHandler [\"")?.1.split('"').next()?.rsplit('-').next()?.parse().ok()
}

fn compile(sources: &Path, classes: &Path) {
    for (name, text) in SOURCES {
        fs::write(sources.join(name), text).expect("write a source");
    }
    let libraries: Vec<String> = ["servlet-api", "websocket-api", "websocket-client-api"]
        .iter()
        .map(|name| format!("{HOME}/lib/{name}.jar"))
        .collect();
    let compiled = Command::new("java")
        .args(["-cp", COMPILER, "org.eclipse.jdt.internal.compiler.batch.Main"])
        .args(["-proc:none", "-17", "-encoding", "UTF-8", "-cp", &libraries.join(":"), "-d"])
        .args([classes, sources])
        .output()
        .expect("run java");
    assert!(compiled.status.success(), "compile: {}", String::from_utf8_lossy(&compiled.stderr));
}
