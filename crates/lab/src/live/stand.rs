//! What every cell stands on: the origin, the programs, the processors, the capacity.

use std::{
    collections::BTreeMap,
    fs::File,
    io::Write as _,
    net::{SocketAddr, TcpStream, ToSocketAddrs},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use tidegate_config::{ServerAddress, ServerUrl};
use tidegate_load::{
    Arrivals, ClassPlan, ClassReport, Plan,
    origin::{Origin, Settings},
};

use super::{
    configuration, cost,
    interrupt::Interrupt,
    process::{Server, free_address},
    workers,
};
use crate::{
    LabError,
    experiment::{Arm, Class, Division, Front, Live, Web},
    simulated::engine,
};

/// Which processors do what; empty leaves them to the system.
#[derive(Clone, Debug)]
pub(super) struct Processors {
    pub(super) origin: Vec<usize>,
    pub(super) rest: Vec<usize>,
}

/// Keeps the processors from halting as long as it lives, by the kernel's interface for latency that must
/// not be exceeded. A virtual processor that has halted is woken by the host, on a busy one milliseconds late,
/// and then it is the host that is measured.
struct Awake {
    request: Option<File>,
}

impl Awake {
    /// As far as this user may.
    fn keep() -> Self {
        let open = || {
            let mut file = File::options().write(true).open("/dev/cpu_dma_latency")?;
            // In microseconds; in force until the file is closed.
            file.write_all(&0_i32.to_ne_bytes())?;
            Ok::<_, std::io::Error>(file)
        };
        Self { request: open().ok() }
    }
}

/// What is the same for all cells.
pub(super) struct Stand<'e> {
    web: &'e Web,
    live: &'e Live,
    tidegate: PathBuf,
    pub(super) processors: Processors,
    folder: tempfile::TempDir,
    awake: Awake,
    pub(super) interrupt: Arc<Interrupt>,
    /// Programs not ours, and their versions.
    pub(super) programs: BTreeMap<&'static str, String>,
}

/// Origin and front of one cell.
pub(super) struct Pair {
    origin: Option<Origin>,
    /// Where the load goes.
    pub(super) url: String,
    /// Ended when the pair is dropped.
    front: Option<Server>,
}

impl<'e> Stand<'e> {
    /// Looks for everything the arms need, before anything is started.
    pub(super) fn new(
        web: &'e Web,
        live: &'e Live,
        arms: &[&Arm],
        tidegate: &Path,
    ) -> Result<Self, LabError> {
        let mut programs = BTreeMap::new();
        for arm in arms {
            if let Front::Peer(peer) = arm.front {
                if peer.program().is_none() {
                    return Err(LabError::input(
                        format!("arm {}: {} is not installed", arm.name, peer.name()),
                        "run scripts/deps lab, or take the arm out of a copy of the experiment's file",
                    ));
                }
                programs.entry(peer.name()).or_insert_with(|| peer.version());
            }
            if let Some(script) = &arm.controller {
                // The gateway would say it too, but after the first cells have run.
                engine(script, 1)?;
            }
        }
        if let Some(url) = &live.server {
            reach(url)?;
        }
        let folder = tempfile::Builder::new().prefix("tidegate-lab-").tempdir().map_err(|source| {
            LabError::File { path: std::env::temp_dir(), attempt: "create a folder in", source }
        })?;
        Ok(Self {
            web,
            live,
            tidegate: tidegate.to_owned(),
            processors: Processors::here(),
            folder,
            awake: Awake::keep(),
            interrupt: Interrupt::listen(),
            programs,
        })
    }

    /// What a reader of the figures must know of the machine.
    pub(super) fn notes(&self) -> Vec<String> {
        let one = self.processors.origin.is_empty().then_some(
            "this machine has one processor: origin, proxy and load disturb each other, and the figures with them",
        );
        let halting = self.awake.request.is_none().then_some(
            "processors may halt when idle, and on a virtual machine wake late: percentiles of short response \
             times are too high (as root, /dev/cpu_dma_latency is used to keep them awake)",
        );
        one.into_iter().chain(halting).map(str::to_owned).collect()
    }

    /// Requests a second of the origin alone, as two clients a worker in a closed loop find it; of several classes from each
    /// alone, `1 / Σ share / capacity`, since a closed loop over all would not keep to their mix.
    pub(super) fn capacity(&self) -> Result<f64, LabError> {
        let pair = self.direct()?;
        let clients = 2 * self.workers();
        let mut seconds_a_request = 0.0;
        for (class, share) in self.web.classes.iter().zip(crate::site::mix(self.web)) {
            if share > 0.0 {
                seconds_a_request += share / self.sound(self.closed(&pair, class, clients)?.goodput_per_s)?;
            }
        }
        Ok(1.0 / seconds_a_request)
    }

    /// How long a request is on its way there and back, beyond the origin's work: what one client in a closed loop waits
    /// in the median for a gateway that holds nothing back, less the work, as two a worker find it.
    pub(super) fn on_the_way(&self) -> Result<Duration, LabError> {
        let arm = Arm {
            name: "the way".to_owned(),
            front: Front::Gateway,
            settings: Vec::new(),
            controller: None,
            configuration: None,
            processors: Division::default(),
        };
        let pair = self.pair(&arm, 0.0)?;
        let class = &self.web.classes[0];
        let response = self.closed(&pair, class, 1)?.good_latency_ms.p50 / 1e3;
        let at_once = f64::from(workers(self.web, self.live));
        let work = at_once / self.sound(self.closed(&pair, class, 2 * self.workers())?.goodput_per_s)?;
        Ok(Duration::from_secs_f64((response - work).max(0.0)))
    }

    /// Of the lab's origin.
    fn workers(&self) -> usize {
        workers(self.web, self.live) as usize
    }

    /// So many clients of a class in a closed loop.
    fn closed(&self, pair: &Pair, class: &Class, clients: usize) -> Result<ClassReport, LabError> {
        let plan = Plan::new(pair.url.clone())
            .cpus(self.processors.rest.clone())
            .warmup(Duration::from_millis(500))
            .duration(Duration::from_secs(3))
            .class(ClassPlan::new(&class.name, Arrivals::closed(clients)).path(&class.path));
        let report = self.interrupt.run(&plan)?;
        Ok(report.total)
    }

    fn sound(&self, per_s: f64) -> Result<f64, LabError> {
        if per_s >= 1.0 {
            return Ok(per_s);
        }
        let server = self.live.server.as_deref().unwrap_or("the origin");
        Err(LabError::Run(format!(
            "calibration: {server} answered less than one request a second; is the machine busy, or the path wrong?"
        )))
    }

    /// An origin with nothing before it.
    fn direct(&self) -> Result<Pair, LabError> {
        let origin = self.origin()?;
        let url = self.target(origin.as_ref());
        Ok(Pair { origin, url, front: None })
    }

    /// An origin, and before it what the arm says.
    pub(super) fn pair(&self, arm: &Arm, capacity: f64) -> Result<Pair, LabError> {
        self.interrupt.check()?;
        let mut pair = self.direct()?;
        let listen = free_address()?;
        let (name, program, arguments) = match arm.front {
            Front::Direct | Front::Law(_) => return Ok(pair),
            Front::Gateway => {
                if let Some(script) = &arm.controller {
                    self.write(configuration::CONTROLLER, &script.text)?;
                }
                let text = configuration::of(self.web, arm, listen, &pair.url);
                let file = self.write("tidegate.toml", &text)?;
                ("tidegate", self.tidegate.clone(), vec!["run".to_owned(), file.display().to_string()])
            }
            Front::Peer(peer) => {
                let template = arm.configuration.as_ref().map_or("", |template| template.text.as_str());
                let factor = arm.settings.iter().find(|(name, _)| name == "capacity_factor");
                let factor: f64 = factor.and_then(|(_, text)| text.parse().ok()).unwrap_or(1.0);
                let text = self.filled(template, listen, &pair.url, capacity * factor)?;
                let file = self.write(&format!("{}.{}", peer.name(), peer.ending()), &text)?;
                let program =
                    peer.program().ok_or_else(|| LabError::Run(format!("{} is gone", peer.name())))?;
                (peer.name(), program, peer.arguments(&file, self.folder.path()))
            }
        };
        let server =
            Server::start(name, &program, &arguments, &self.processors.rest, listen, self.folder.path())?;
        pair.url = format!("http://{listen}/");
        pair.front = Some(server);
        Ok(pair)
    }

    fn origin(&self) -> Result<Option<Origin>, LabError> {
        if self.live.server.is_some() {
            return Ok(None);
        }
        let costs = self.web.classes.iter().enumerate();
        let settings = Settings {
            workers: self.workers(),
            cost: cost(self.web, 0),
            costs: costs.map(|(position, class)| (class.path.clone(), cost(self.web, position))).collect(),
            waits: self.live.waits,
            worker_cpus: self.processors.origin.clone(),
            thread_cpus: self.processors.rest.clone(),
            ..Settings::default()
        };
        Origin::start(&settings).map(Some).map_err(|error| LabError::Run(error.to_string()))
    }

    fn target(&self, origin: Option<&Origin>) -> String {
        match (origin, &self.live.server) {
            (Some(origin), _) => format!("{}/", origin.url()),
            (None, server) => server.clone().unwrap_or_default(),
        }
    }

    /// A configuration not ours with its blanks filled.
    fn filled(
        &self,
        template: &str,
        listen: SocketAddr,
        origin: &str,
        capacity: f64,
    ) -> Result<String, LabError> {
        let admin = free_address()?;
        let origin = origin.trim_start_matches("http://").trim_end_matches('/');
        let (host, port) = origin.rsplit_once(':').unwrap_or((origin, "80"));
        let blanks = [
            ("{listen}", listen.to_string()),
            ("{listen_port}", listen.port().to_string()),
            ("{admin_port}", admin.port().to_string()),
            ("{origin}", origin.to_owned()),
            ("{origin_host}", host.to_owned()),
            ("{origin_port}", port.to_owned()),
            ("{folder}", self.folder.path().display().to_string()),
            ("{capacity}", format!("{:.0}", capacity.max(1.0))),
        ];
        Ok(blanks.iter().fold(template.to_owned(), |text, (blank, value)| text.replace(blank, value)))
    }

    fn write(&self, name: &str, text: &str) -> Result<PathBuf, LabError> {
        let path = self.folder.path().join(name);
        std::fs::write(&path, text).map_err(|source| LabError::File {
            path: path.clone(),
            attempt: "write",
            source,
        })?;
        Ok(path)
    }
}

impl Pair {
    /// A fault the gateway has told of.
    pub(super) fn fault(&self) -> Option<String> {
        self.front.as_ref()?.fault()
    }

    /// Whether the gateway has stopped its script.
    pub(super) fn has_stopped_script(&self) -> bool {
        self.front.as_ref().is_some_and(Server::has_stopped_script)
    }

    /// Share of the origin's work that was for clients who had left; `None` of a server not ours.
    #[expect(clippy::cast_precision_loss, reason = "counts of a run")]
    pub(super) fn wasted_share(&self) -> Option<f64> {
        let stats = self.origin.as_ref()?.stats();
        Some(stats.work_for_nobody as f64 / stats.work_completed.max(1) as f64)
    }

    /// Median time that a request was at the origin, milliseconds; `None` of a server not ours.
    #[expect(clippy::cast_precision_loss, reason = "microseconds of a run")]
    pub(super) fn service_ms(&self) -> Option<f64> {
        let stats = self.origin.as_ref()?.stats();
        (stats.work_completed > 0).then_some(stats.work_p50_us as f64 / 1e3)
    }
}

/// A server that is to be there already.
fn reach(url: &str) -> Result<(), LabError> {
    let fault = |what: String| {
        LabError::input(format!("live.server: {url}: {what}"), "start the server first, or mend the address")
    };
    let known = ServerUrl::parse(url).map_err(|error| fault(error.what))?;
    let ServerAddress::Host { host, port } = known.address else {
        return Err(fault("is no host".to_owned()));
    };
    let addresses = (host.as_str(), port).to_socket_addrs().map_err(|error| fault(error.to_string()))?;
    let mut said = "has no address".to_owned();
    for address in addresses {
        match TcpStream::connect_timeout(&address, Duration::from_secs(2)) {
            Ok(_) => return Ok(()),
            Err(error) => said = format!("nobody answers at {address}: {error}"),
        }
    }
    Err(fault(said))
}
