//! The gateway asks the CPU manager of this host for processors, by all that is offered to each application.

use std::{
    collections::BTreeMap,
    io,
    sync::{Arc, mpsc},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use tidegate_control::{
    ApplicationId, ClassId, Refusal, meters::Meter, processors::Demand, waiting_room::ROOM_COUNTS,
};
use tidegate_processors::{Error, Holding, socket};
use tidegate_runtime::{Application, Processors, Readings, Shared, Subject};

/// How often, as the published manager divides.
const EVERY: Duration = Duration::from_secs(2);
/// How much of its processors an application shall use.
const UTILISATION: f64 = 0.8;

/// Asks until dropped.
pub(crate) struct Asking {
    stop: Option<mpsc::SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Asking {
    /// Begins to ask for every application that has `processors.socket`, as its settings say at the time.
    pub(crate) fn start(shared: &Arc<Shared>) -> io::Result<Self> {
        let (stop, stopped) = mpsc::sync_channel(0);
        let shared = Arc::clone(shared);
        let thread = std::thread::Builder::new().name("tidegate-asking".to_owned()).spawn(move || {
            let mut asked = BTreeMap::new();
            let mut last = Instant::now();
            while stopped.recv_timeout(EVERY) == Err(mpsc::RecvTimeoutError::Timeout) {
                let now = Instant::now();
                ask_for_all(&shared, &mut asked, now - std::mem::replace(&mut last, now));
            }
        })?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }

    /// Another process has taken this one's place, and asks from now on.
    pub(crate) fn stop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        self.stop();
    }
}

/// What is known of one application.
struct Asked {
    demand: Demand,
    /// By class, until now.
    counted: Vec<Counts>,
    /// Work that new TLS sessions would have brought which were refused, thousandths of units until now.
    turned_away: u64,
    /// What it used in the manager's last interval.
    used: f64,
    fault: Option<String>,
}

/// Requests of a class since the start.
#[derive(Clone, Copy, Default)]
struct Counts {
    offered: u64,
    served: u64,
}

fn ask_for_all(shared: &Shared, asked: &mut BTreeMap<ApplicationId, Asked>, interval: Duration) {
    let snapshot = shared.snapshot();
    let asks = |application: &&Arc<Application>| application.settings.processors.is_some();
    for application in snapshot.applications.iter().filter(|application| !asks(application)) {
        if asked.remove(&application.id).is_some() {
            application.state.set_processors(None);
        }
    }
    if !snapshot.applications.iter().any(|application| asks(&application)) {
        return;
    }
    let totals = shared.totals().read();
    for application in snapshot.applications.iter().filter(asks) {
        let counted = count(application, &totals);
        let levels = application.state.gate().levels();
        let turned_away = levels.tls_sessions.map_or(0, |sessions| sessions.refused_work);
        let known = asked.entry(application.id).or_insert_with(|| Asked {
            demand: Demand::new(UTILISATION),
            counted: counted.clone(),
            turned_away,
            used: 0.0,
            fault: None,
        });
        let before = std::mem::replace(&mut known.counted, counted);
        let turned_away = turned_away.saturating_sub(std::mem::replace(&mut known.turned_away, turned_away));
        // Before the manager has told what is used, an interval says nothing.
        if known.used > 0.0 {
            let costs = levels.costs;
            let [offered, served] = [|of: &Counts| of.offered, |of: &Counts| of.served].map(|number| {
                let work = known.counted.iter().enumerate().map(|(class, now)| {
                    let more = number(now).saturating_sub(before.get(class).map_or(0, number));
                    costs.get(class).copied().flatten().unwrap_or(1000) as f64 / 1000.0 * more as f64
                });
                work.sum::<f64>() / interval.as_secs_f64()
            });
            let turned_away = turned_away as f64 / 1000.0 / interval.as_secs_f64();
            known.demand.interval(offered + turned_away, served, known.used);
        }
        let processors = known.demand.processors();
        let answer = ask(application, processors);
        application.state.set_processors(
            answer.as_ref().ok().map(|holding| Processors { asked: processors, given: holding.given }),
        );
        known.used = answer.as_ref().map_or(0.0, |holding| holding.used);
        known.tell(&application.settings.name, answer.err());
    }
}

fn ask(application: &Application, processors: Option<f64>) -> Result<Holding, Error> {
    let Some(to) = &application.settings.processors else {
        return Err(Error::Refused("no CPU manager is named".to_owned()));
    };
    match processors {
        Some(processors) => socket::request(&to.socket, &to.name, processors.min(socket::PROCESSORS_MAX)),
        None => socket::assigned(&to.socket, &to.name),
    }
}

/// What was offered and served until now, by class. Who comes back to the waiting room was offered when he first came.
fn count(application: &Application, totals: &BTreeMap<Subject, Readings>) -> Vec<Counts> {
    let of_class = |index: usize| {
        let class = ClassId(u16::try_from(index).unwrap_or(u16::MAX));
        let readings = totals.get(&Subject::Class(application.id, class))?;
        let count = |meter: Meter| readings.counts(meter)[0];
        let room = |what: &str| {
            let at = ROOM_COUNTS.iter().position(|count| *count == what);
            at.map_or(0, |at| readings.counts(Meter::ROOM)[at])
        };
        let refused = Refusal::ALL.iter().filter(|refusal| refusal.is_overload());
        let refused: u64 = refused.map(|refusal| readings.counts(Meter::REFUSED)[refusal.index()]).sum();
        let served = count(Meter::STARTED);
        let came_anew = (served + room("promised")).saturating_sub(room("kept"));
        Some(Counts { offered: came_anew + refused + count(Meter::LEFT), served })
    };
    (0..application.classes.len()).map(|index| of_class(index).unwrap_or_default()).collect()
}

impl Asked {
    /// Says once what has become of asking.
    fn tell(&mut self, name: &str, error: Option<Error>) {
        let fault = error.map(|error| error.to_string());
        if fault != self.fault {
            match &fault {
                Some(fault) => tracing::warn!(application = name, "no processors can be asked for: {fault}"),
                None => tracing::info!(application = name, "processors can be asked for again"),
            }
            self.fault = fault;
        }
    }
}
