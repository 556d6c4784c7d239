//! SIGINT and SIGTERM during live runs: the run ends, and with it every server that was started.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    thread,
};

use tidegate_load::{Live, LoadError, Plan, Report, run_blocking_with, signals::wait_for_signal};

use crate::LabError;

/// Whether a signal has come, and the load that it stops.
#[derive(Debug, Default)]
pub(super) struct Interrupt {
    come: AtomicBool,
    running: Mutex<Option<Arc<Live>>>,
}

impl Interrupt {
    /// From now on a signal ends live runs in good order.
    pub(super) fn listen() -> Arc<Self> {
        let interrupt = Arc::new(Self::default());
        let told = Arc::clone(&interrupt);
        thread::spawn(move || {
            if wait_for_signal(None) {
                told.come();
            }
        });
        interrupt
    }

    fn come(&self) {
        self.come.store(true, SeqCst);
        if let Some(live) = self.running.lock().unwrap_or_else(PoisonError::into_inner).as_ref() {
            live.stop();
        }
    }

    /// Whether to go on.
    pub(super) fn check(&self) -> Result<(), LabError> {
        if self.come.load(SeqCst) { Err(LabError::Interrupted) } else { Ok(()) }
    }

    /// Runs a load to its end, or to a signal.
    pub(super) fn run(&self, plan: &Plan) -> Result<Report, LabError> {
        let live = Arc::new(Live::new(plan));
        *self.running.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&live));
        // Looked at after it can be stopped: a signal is seen here or stops it.
        self.check()?;
        let report = run_blocking_with(plan, &live);
        self.check()?;
        report.map_err(|error: LoadError| LabError::Run(format!("load: {error}")))
    }
}
