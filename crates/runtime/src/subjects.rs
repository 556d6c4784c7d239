//! What is measured now: every subject with its path, its labels and its levels.

use tidegate_control::{ClassId, meters::Meter};

use crate::{Application, HostSample, Shared, Subject, gate::thousandths};

/// A subject that is served now.
#[derive(Clone, Debug)]
pub struct Served {
    /// Whose readings they are.
    pub subject: Subject,
    /// Its path in the archives. The addresses behind one server's name share one.
    pub path: String,
    /// What names it in metrics.
    pub labels: Vec<(&'static str, String)>,
    /// Its levels at this moment.
    pub levels: Vec<(Meter, u64)>,
    /// What the system has counted of it until now ([`Served::TOLD`]); what it does not tell is missing.
    pub told: Vec<(Meter, u64)>,
}

impl Served {
    /// The counts that the system keeps and tells, and not we.
    pub const TOLD: &'static [Meter] = &[
        Meter::GATEWAY_CPU,
        Meter::HOST_CPU,
        Meter::CPU_PRESSURE,
        Meter::MEMORY_PRESSURE,
        Meter::IO_PRESSURE,
        Meter::SERVER_CPU,
    ];

    /// A count that the system tells.
    #[must_use]
    pub fn told(&self, meter: Meter) -> Option<u64> {
        self.told.iter().find(|(other, _)| *other == meter).map(|(_, count)| *count)
    }
}

impl Shared {
    /// Every subject there is now, each after the one it belongs to, with its levels.
    #[must_use]
    pub fn served(&self, host: &HostSample) -> Vec<Served> {
        let mut levels = vec![
            (Meter::CONNECTIONS_OPEN, self.with_connections(|connections, _| connections.open())),
            (Meter::SPOOLED, self.spool().used()),
            (Meter::CONNECTIONS_PARKED, self.parked().read()),
            (Meter::CONTROLLERS_STOPPED, self.controllers_stopped().read()),
        ];
        let first = self.certificates().first().map(|first| first.at);
        let left = first.map(|at| at.since(self.clock().now()).as_secs());
        levels.extend(left.map(|seconds| (Meter::CERTIFICATE_SECONDS_LEFT, seconds)));
        levels.extend(host.levels());
        let told = host.counts().to_vec();
        let host = Served { subject: Subject::Host, path: String::new(), labels: Vec::new(), levels, told };
        let mut served = vec![host];
        for application in &self.snapshot().applications {
            of_application(application, &mut served);
        }
        self.with_processes(|processes| {
            for server in &mut served {
                let Subject::Server(application, id) = server.subject else { continue };
                let memory = processes.memory_bytes(application, id);
                server.levels.extend(memory.map(|bytes| (Meter::SERVER_MEMORY, bytes)));
                let cpu = processes.cpu_nanos(application, id);
                server.told.extend(cpu.map(|nanos| (Meter::SERVER_CPU, nanos)));
            }
        });
        served
    }
}

fn of_application(application: &Application, served: &mut Vec<Served>) {
    let (name, state) = (&application.settings.name, &application.state);
    let levels = state.gate().levels();
    let mut of_application = vec![
        (Meter::IN_FLIGHT, levels.in_flight),
        (Meter::IN_FLIGHT_LIMIT, levels.limit),
        (Meter::IN_FLIGHT_DORMANT, levels.dormant),
        (Meter::LONG_STREAMS, levels.long_streams),
        (Meter::AWAITING_SERVER, state.awaiting_server().read()),
        (Meter::LINGERING, state.lingering().read()),
    ];
    if state.waiting_room().is_on() {
        let standing = state.waiting_room().standing();
        of_application.push((Meter::ROOM_WAITING, standing.waiting));
        let millis = |next: std::time::Duration| u64::try_from(next.as_millis()).unwrap_or(u64::MAX);
        of_application.extend(standing.next.map(|next| (Meter::ROOM_NEXT, millis(next))));
        let age = standing.reported.map(|reported| state.clock().now().since(reported));
        of_application.extend(age.map(|age| (Meter::ROOM_REPORT_AGE, millis(age))));
    }
    if let Some(processors) = state.processors() {
        of_application.extend(processors.asked.map(|asked| (Meter::PROCESSORS_ASKED, thousandths(asked))));
        of_application.push((Meter::PROCESSORS_GIVEN, thousandths(processors.given)));
    }
    if let Some(sessions) = levels.tls_sessions {
        let known = [
            (Meter::TLS_SESSIONS_NEW_RATE, sessions.new_rate),
            (Meter::TLS_SESSIONS_NEW_COST, sessions.new_cost),
            (Meter::TLS_SESSIONS_RESUMED_COST, sessions.resumed_cost),
        ];
        of_application.extend(known.into_iter().filter_map(|(meter, level)| Some((meter, level?))));
    }
    of_application.extend(levels.capacity.map(|capacity| (Meter::CAPACITY, capacity)));
    served.push(Served {
        subject: Subject::Application(application.id),
        path: name.clone(),
        labels: vec![("application", name.clone())],
        levels: of_application,
        told: Vec::new(),
    });
    for (index, class) in application.classes.iter().enumerate() {
        let id = ClassId(u16::try_from(index).unwrap_or(u16::MAX));
        let of = |levels: &[u64]| levels.get(index).copied().unwrap_or(0);
        let mut of_class =
            vec![(Meter::QUEUED, of(&levels.queued)), (Meter::WOULD_WAIT, of(&levels.would_wait))];
        let cost = levels.costs.get(index).copied().flatten();
        of_class.extend(cost.map(|cost| (Meter::COST, cost)));
        served.push(Served {
            subject: Subject::Class(application.id, id),
            path: format!("{name}/{}", class.name),
            labels: vec![("application", name.clone()), ("class", class.name.clone())],
            levels: of_class,
            told: Vec::new(),
        });
    }
    for server in state.servers().list() {
        served.push(Served {
            subject: Subject::Server(application.id, server.id),
            path: format!("{name}/servers/{}", server.name),
            labels: vec![
                ("application", name.clone()),
                ("server", format!("{}@{}", server.name, server.endpoint)),
            ],
            levels: vec![
                (Meter::SERVER_IN_FLIGHT, u64::from(server.in_flight)),
                (Meter::SERVER_UP, u64::from(server.condition.is_up())),
            ],
            told: Vec::new(),
        });
    }
}
