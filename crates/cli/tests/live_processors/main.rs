//! The CPU manager with real processes: they run where they were given processors, and anywhere again at its end.

#[path = "../support/mod.rs"]
mod support;

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Mutex,
    time::{Duration, Instant},
};

use serde_json::Value as Json;
use support::{Gateway, Start, admin::await_metrics, free_address};

const TIDEGATE: &str = env!("CARGO_BIN_EXE_tidegate");
/// How long what is to come may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// They fill the machine's processors: one after another.
static TURN: Mutex<()> = Mutex::new(());

/// A process whose number is in a file, with a child beside it.
struct Application {
    process: Child,
    pid_file: PathBuf,
}

impl Application {
    /// Two processes that do nothing but compute.
    fn busy(directory: &Path, name: &str) -> Self {
        Self::start(directory, name, "while :; do :; done & while :; do :; done")
    }

    fn idle(directory: &Path, name: &str) -> Self {
        Self::start(directory, name, "sleep 600 & wait")
    }

    fn start(directory: &Path, name: &str, script: &str) -> Self {
        use std::os::unix::process::CommandExt as _;
        let process = Command::new("sh")
            .args(["-c", script])
            .stdin(Stdio::null())
            .process_group(0)
            .spawn()
            .expect("start an application");
        let pid_file = directory.join(format!("{name}.pid"));
        fs::write(&pid_file, format!("{}\n", process.id())).expect("write its number");
        Self { process, pid_file }
    }

    /// Where each of its processes may run, as the kernel tells it.
    fn allowed(&self) -> Vec<String> {
        let root = self.process.id();
        let children = fs::read_to_string(format!("/proc/{root}/task/{root}/children")).unwrap_or_default();
        let processes = children.split_whitespace().map(str::to_owned).chain([root.to_string()]);
        processes.map(|process| allowed(&process)).collect()
    }
}

impl Drop for Application {
    fn drop(&mut self) {
        let group = format!("-{}", self.process.id());
        let _ = Command::new("kill").args(["-KILL", "--", &group]).stderr(Stdio::null()).status();
        let _ = self.process.wait();
    }
}

/// A load that ends with the test.
struct Load(Child);

impl Drop for Load {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn allowed(process: &str) -> String {
    let status = fs::read_to_string(format!("/proc/{process}/status")).expect("a process");
    let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    line.expect("says where it may run").trim().to_owned()
}

/// The first two processors this test may run on.
fn two() -> [u32; 2] {
    let list = allowed("self");
    let mut numbers = list.split(',').flat_map(|part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        first.parse::<u32>().expect("a number")..=last.parse().expect("a number")
    });
    [(); 2].map(|()| numbers.next().expect("this test needs two processors"))
}

struct Manager {
    gateway: Gateway,
    directory: PathBuf,
}

impl Manager {
    /// Starts one with these settings and applications of pid files.
    fn start(directory: &Path, settings: &str, applications: &[(&str, &Application, &str)]) -> Self {
        let text = configuration(directory, settings, applications);
        Self::run(directory, &text, &Start::default())
    }

    /// Starts one with this file.
    fn run(directory: &Path, text: &str, start: &Start<'_>) -> Self {
        let file = directory.join("processors.toml");
        fs::write(&file, text).expect("write its file");
        let gateway = Gateway::command(&["processors", "run", file.to_str().expect("UTF-8")], start);
        Self { gateway, directory: directory.to_owned() }
    }

    fn reload(&self, text: &str) {
        fs::write(self.directory.join("processors.toml"), text).expect("write its file");
        self.gateway.signal("HUP");
    }

    fn status(&self) -> Json {
        serde_json::from_str(&ask(&["status", "--json", "--socket", &socket(&self.directory)]).1)
            .expect("JSON")
    }

    /// What an application has.
    fn holding(&self, name: &str) -> Json {
        let status = self.status();
        let applications = status["applications"].as_array().expect("a list");
        applications.iter().find(|it| it["application"] == name).expect("is there").clone()
    }

    /// Waits until what is said of an application is so.
    fn await_holding(&self, name: &str, what: &str, is_so: impl Fn(&Json) -> bool) -> Json {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let holding = self.holding(name);
            if is_so(&holding) {
                return holding;
            }
            assert!(Instant::now() < deadline, "{what}: {}", self.status());
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

fn configuration(directory: &Path, settings: &str, applications: &[(&str, &Application, &str)]) -> String {
    let [first, second] = two();
    let mut text = format!(
        "processors = \"{first},{second}\"\ninterval = \"200ms\"\nsocket = \"{}\"\n{settings}\n",
        socket(directory)
    );
    for (name, application, more) in applications {
        text += &format!("[application.{name}]\npid_file = \"{}\"\n{more}\n", application.pid_file.display());
    }
    text
}

fn socket(directory: &Path) -> String {
    directory.join("sock").to_str().expect("UTF-8").to_owned()
}

/// Runs `tidegate processors …`: exit code, standard output, standard error.
fn ask(arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(TIDEGATE).arg("processors").args(arguments).output().expect("run tidegate");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn busy_applications_are_kept_apart_by_priority_and_let_go_at_the_end() {
    let _turn = TURN.lock();
    let directory = tempfile::tempdir().expect("a directory");
    let directory = directory.path();
    let everywhere = allowed("self");
    let [first, second] = two();
    let (shop, blog) = (Application::busy(directory, "shop"), Application::busy(directory, "blog"));
    let account = directory.join("account.jsonl");
    let settings = format!("account.file = \"{}\"\naccount.every = \"1s\"", account.display());
    let manager =
        Manager::start(directory, &settings, &[("shop", &shop, "priority = 3"), ("blog", &blog, "")]);
    // Four halves, 3 to 1.
    let has = manager.await_holding("shop", "the shop has 1.5", |it| it["given"] == 1.5);
    assert_eq!(
        has["processors"],
        if second == first + 1 { format!("{first}-{second}") } else { format!("{first},{second}") }
    );
    let blogs = manager.await_holding("blog", "the blog has 0.5", |it| it["given"] == 0.5);
    let blogs = blogs["processors"].as_str().expect("a text").to_owned();
    assert!(shop.allowed().iter().all(|list| list == has["processors"].as_str().expect("a text")));
    assert_eq!(blog.allowed(), vec![blogs; 2]);
    manager.await_holding("shop", "the shop uses some", |it| it["used"].as_f64() > Some(0.1));

    // Told to share none, each has one of its own.
    manager.reload(&configuration(
        directory,
        &format!("{settings}\nsharing = \"none\""),
        &[("shop", &shop, "priority = 3"), ("blog", &blog, "")],
    ));
    manager.await_holding("shop", "the shop has one", |it| it["given"] == 1.0);
    let (shops, blogs) = (shop.allowed(), blog.allowed());
    assert_eq!((&shops[0], &blogs[0]), (&shops[1], &blogs[1]));
    let mut apart = [shops[0].clone(), blogs[0].clone()];
    apart.sort();
    assert_eq!(apart, [first.to_string(), second.to_string()]);

    // A file with faults changes nothing and is told with its place.
    manager.reload("interval = \"1y\"\n[application.shop]\n");
    manager.gateway.log.await_line("processors.toml:1", 1);
    assert_eq!(manager.holding("shop")["given"], 1.0);

    // Who is named no more may run anywhere.
    manager.reload(&configuration(directory, &settings, &[("shop", &shop, "")]));
    manager.await_holding("shop", "the shop has both", |it| it["given"] == 2.0);
    assert_eq!(blog.allowed(), [everywhere.clone(), everywhere.clone()]);

    manager.gateway.stop_sound();
    assert_eq!(shop.allowed(), [everywhere.clone(), everywhere]);
    assert!(!directory.join("sock").exists());
    let (code, sums, said) = ask(&["account", account.to_str().expect("UTF-8"), "--json"]);
    assert_eq!((code, said.as_str()), (Some(0), ""));
    let sums: Json = serde_json::from_str(&sums).expect("JSON");
    for application in ["shop", "blog"] {
        let sum = &sums[application];
        assert!(sum["used_s"].as_f64() > Some(0.1), "{sums}");
        assert!(sum["given_s"].as_f64() > Some(0.1), "{sums}");
    }
}

#[test]
fn an_application_has_what_it_asks_for_until_that_expires() {
    let _turn = TURN.lock();
    let directory = tempfile::tempdir().expect("a directory");
    let directory = directory.path();
    let shop = Application::idle(directory, "shop");
    let manager =
        Manager::start(directory, "request_holds = \"1s\"\nspare = \"nobody\"", &[("shop", &shop, "")]);
    let has = manager.await_holding("shop", "runs", |it| it["given"] == 0.5);
    assert_eq!(shop.allowed(), vec![has["processors"].as_str().expect("a text").to_owned(); 2]);
    let socket = socket(directory);
    let (code, answer, said) = ask(&["request", "shop", "1.2", "--socket", &socket]);
    assert_eq!((code, said.as_str()), (Some(0), ""), "{answer}");
    let has = manager.await_holding("shop", "is given what it asked for", |it| it["given"] == 1.5);
    assert_eq!((&has["asked"], &has["need"]), (&Json::from(1.2), &Json::from(1.2)));
    let has = manager.await_holding("shop", "has what it uses", |it| it["given"] == 0.5);
    assert_eq!(has["asked"], Json::Null);

    let (code, _, said) = ask(&["request", "blog", "1", "--socket", &socket]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("there is no application \"blog\"; there are shop"), "{said}");
    // A second manager does not take the first one's socket.
    let (code, _, said) = ask(&["run", directory.join("processors.toml").to_str().expect("UTF-8")]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("no other manager answers"), "{said}");
    assert_eq!(ask(&["status", "--socket", &socket]).0, Some(0));
    manager.gateway.stop_sound();
    let (code, _, said) = ask(&["status", "--socket", &socket]);
    assert_eq!(code, Some(1), "{said}");
}

#[test]
fn an_application_that_ends_has_nothing_and_one_that_begins_is_given_some() {
    let _turn = TURN.lock();
    let directory = tempfile::tempdir().expect("a directory");
    let directory = directory.path();
    let shop = Application::idle(directory, "shop");
    let manager = Manager::start(directory, "", &[("shop", &shop, "min = 1")]);
    manager.await_holding("shop", "runs", |it| it["given"] == 1.0);
    drop(shop);
    let gone = manager.await_holding("shop", "runs no more", |it| it["given"] == 0.0);
    assert!(gone["fault"].as_str().expect("is told").contains("has ended"), "{gone}");
    let _again = Application::idle(directory, "shop");
    manager.await_holding("shop", "runs again", |it| it["given"] == 1.0);
    manager.gateway.stop_sound();
}

/// The hierarchy of v1, where this machine has one that may be changed.
#[test]
fn a_control_group_has_the_processors_it_is_given() {
    const ROOT: &str = "/sys/fs/cgroup/cpuset";
    let _turn = TURN.lock();
    let group = Path::new(ROOT).join(format!("tidegate-test-{}", std::process::id()));
    if fs::create_dir(&group).is_err() {
        println!("no group can be made in {ROOT}: only its files are tested, in target::cgroup");
        return;
    }
    struct Group(PathBuf);
    impl Drop for Group {
        fn drop(&mut self) {
            let deadline = Instant::now() + PATIENCE;
            while fs::remove_dir(&self.0).is_err() && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    }
    let group = Group(group);
    for file in ["cpuset.cpus", "cpuset.mems"] {
        let above = fs::read_to_string(Path::new(ROOT).join(file)).expect("read the root's");
        fs::write(group.0.join(file), above).expect("write the group's");
    }
    let directory = tempfile::tempdir().expect("a directory");
    let directory = directory.path();
    let [first, second] = two();
    let script =
        format!("echo $$ > {}/cgroup.procs; while :; do :; done & while :; do :; done", group.0.display());
    let shop = Application::start(directory, "shop", &script);
    let text = format!(
        "processors = \"{first},{second}\"\ninterval = \"200ms\"\nspare = \"nobody\"\nsocket = \"{}\"\n\
         [application.shop]\ncgroup = \"{}\"\nmax = 1\n",
        socket(directory),
        group.0.display()
    );
    let manager = Manager::run(directory, &text, &Start::default());
    let has =
        manager.await_holding("shop", "has one", |it| it["given"] == 1.0 && it["used"].as_f64() > Some(0.1));
    let has = has["processors"].as_str().expect("a text");
    assert_eq!(fs::read_to_string(group.0.join("cpuset.cpus")).expect("is read").trim(), has);
    assert_eq!(shop.allowed(), vec![has.to_owned(); 2]);
    manager.gateway.stop_sound();
    assert_eq!(
        fs::read_to_string(group.0.join("cpuset.cpus")).expect("is read"),
        fs::read_to_string(Path::new(ROOT).join("cpuset.cpus")).expect("is read")
    );
}

#[test]
fn all_faults_of_a_file_are_told_at_once_and_the_example_has_none() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("processors.toml");
    let text = "processors = \"5000\"\nintervall = \"2s\"\nutilisation = 2\npolicy = \"mine\"\n\
                [application.shop]\nunit = \"a.service\"\npid_file = \"/run/a\"\nmin = 0.7\nmax = 0.5\n\
                [application.\"a b\"]\npriority = 0\ncgroup = \"relative\"\n[account]\n";
    fs::write(&file, text).expect("write its file");
    let (code, _, said) = ask(&["check", file.to_str().expect("UTF-8")]);
    assert_eq!(code, Some(2), "{said}");
    for fault in [
        "processors",
        "did you mean interval?",
        "utilisation",
        "policy",
        "application.shop: unit, cgroup and pid_file name one thing in two ways",
        "0.7 is no number of halves",
        "is below min",
        "is no name",
        "application.a b.priority",
        "is not absolute",
        "account.file",
    ] {
        assert!(said.contains(fault), "{fault}: {said}");
    }
    let (code, _, said) = ask(&["check", "/nowhere.toml"]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("/nowhere.toml: No such file"), "{said}");
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/processors/host.toml");
    let (code, said, _) = ask(&["check", example]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("2 applications: shop, blog"), "{said}");
}

/// systemd in the place of which a script stands: what it is asked, and what becomes of the answers. Where no control
/// group can be made, the script's unit does not run.
#[test]
fn a_unit_is_given_processors_by_systemd() {
    use std::os::unix::fs::PermissionsExt as _;
    let _turn = TURN.lock();
    let directory = tempfile::tempdir().expect("a directory");
    let directory = directory.path();
    let above = ["/sys/fs/cgroup/unified", "/sys/fs/cgroup"].map(Path::new);
    let name = format!("tidegate-test-{}.service", std::process::id());
    let group = above
        .into_iter()
        .filter(|above| above.join("cgroup.controllers").exists())
        .map(|above| above.join(&name))
        .find(|group| fs::create_dir(group).is_ok());
    let answer = group
        .as_ref()
        .map(|group| format!("/{}", group.strip_prefix("/sys/fs/cgroup").expect("below").display()))
        .unwrap_or_default();
    let systemctl = directory.join("systemctl");
    let asked = directory.join("asked");
    let script =
        format!("#!/bin/sh\necho \"$*\" >> {}\ncase \"$1\" in show) echo {answer};; esac\n", asked.display());
    fs::write(&systemctl, script).expect("write the script");
    fs::set_permissions(&systemctl, fs::Permissions::from_mode(0o755)).expect("make it run");
    let [first, second] = two();
    let text = format!(
        "processors = \"{first},{second}\"\ninterval = \"200ms\"\nsocket = \"{}\"\nspare = \"nobody\"\n\
         [application.shop]\nunit = \"{name}\"\n",
        socket(directory)
    );
    let path = format!("{}:{}", directory.display(), std::env::var("PATH").unwrap_or_default());
    let start = Start { environment: &[("PATH", &path)], ..Start::default() };
    let manager = Manager::run(directory, &text, &start);
    if let Some(group) = &group {
        manager.await_holding("shop", "is given half a processor", |it| it["given"] == 0.5);
        manager.gateway.stop_sound();
        let asked = fs::read_to_string(&asked).expect("was asked");
        let properties: Vec<&str> = asked.lines().filter(|line| line.starts_with("set-property")).collect();
        let given = format!("set-property --runtime -- {name} AllowedCPUs={first}");
        let released = format!("set-property --runtime -- {name} AllowedCPUs=");
        // What it has already is not given again each interval.
        assert_eq!(properties, [given, released]);
        fs::remove_dir(group).expect("remove the group");
    } else {
        let has = manager.await_holding("shop", "does not run", |it| it["fault"].is_string());
        assert!(has["fault"].as_str().expect("a text").contains("does not run"), "{has}");
        manager.gateway.stop_sound();
    }
}

/// An application that can use one processor uses no more, whatever is offered; what the gateway refuses shows that more is
/// needed.
#[test]
fn a_gateway_asks_for_what_all_that_is_offered_would_need() {
    let _turn = TURN.lock();
    let directory = tempfile::tempdir().expect("a directory");
    let directory = directory.path();
    let (origin, listen, admin) = (free_address(), free_address(), free_address());
    let script = format!("exec {TIDEGATE} load origin --listen {origin} --cost 10ms");
    let shop = Application::start(directory, "shop", &script);
    let manager = Manager::start(directory, "", &[("shop-servers", &shop, "")]);
    let configuration = format!(
        "admin = \"{admin}\"\n[[listener]]\naddress = \"{listen}\"\n[application.shop]\nservers = [\"http://{origin}\"]\n\
         in_flight.algorithm = \"fixed\"\nin_flight.limit = 1\nprocessors.socket = \"{}\"\n\
         processors.name = \"shop-servers\"\n[application.shop.class.default]\nqueue.max = 1\n",
        socket(directory)
    );
    let gateway = Gateway::run(&configuration, &Start::default());
    // Not asked for anything yet, it is told what it has.
    await_metrics(admin, "the manager answers", |metrics| metrics.has("application_processors_given"));
    // Four times what it can do.
    let url = format!("http://{listen}/");
    let _load = Load(
        Command::new(TIDEGATE)
            .args(["load", &url, "--arrivals", "poisson:400/s", "--duration", "60s", "--warmup", "0s"])
            .stdout(Stdio::null())
            .spawn()
            .expect("start a load"),
    );
    let metrics = await_metrics(admin, "more is asked for than there is", |metrics| {
        metrics.has("application_processors_asked")
            && metrics.sum("application_processors_asked", &[]) > 2000.0
    });
    assert!(metrics.has("application_processors_given"));
    let has = manager.await_holding("shop-servers", "is given all there is", |it| it["given"] == 2.0);
    assert!(has["used"].as_f64() < Some(1.5), "{has}");
    assert!(has["asked"].as_f64() > Some(2.0), "{has}");
    manager.gateway.stop_sound();
    // Without a manager it goes on, and says so once.
    gateway.log.await_line("no processors can be asked for", 1);
    await_metrics(admin, "nothing is said of processors", |metrics| {
        !metrics.has("application_processors_given")
    });
    assert_eq!(gateway.log.lines_with("processors").len(), 1);
    gateway.stop_sound();
}
