//! systemd's watchdog (`WatchdogSec=`): it hears from this process as long as the event loop of every worker turns.

use std::{
    env, io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::{Duration, Instant},
};

use tokio::sync::mpsc as to_worker;

/// How often systemd wants to hear, and of which process.
pub(crate) const WATCHDOG_USEC: &str = "WATCHDOG_USEC";
pub(crate) const WATCHDOG_PID: &str = "WATCHDOG_PID";

/// What a worker is asked: to send something back.
pub(crate) type Question = mpsc::Sender<()>;

/// Answers as long as the worker's event loop turns.
pub(crate) async fn answer(mut questions: to_worker::Receiver<Question>) {
    while let Some(answer) = questions.recv().await {
        let _ = answer.send(());
    }
}

/// Tells systemd until dropped.
#[derive(Debug)]
pub struct Watchdog {
    _until_dropped: mpsc::SyncSender<()>,
}

/// The workers, as they are asked.
#[derive(Debug)]
pub(crate) struct Asked {
    /// A line to each, which holds one question.
    pub(crate) workers: Vec<to_worker::Sender<Question>>,
    /// Whether a worker may have ended.
    pub(crate) is_draining: Arc<AtomicBool>,
}

impl Watchdog {
    /// Tells by `tell` each half of the time that systemd allows.
    pub(crate) fn start(
        allowed: Duration,
        asked: Asked,
        tell: impl Fn() + Send + 'static,
    ) -> io::Result<Self> {
        let every = allowed / 2;
        let (until_dropped, dropped) = mpsc::sync_channel(0);
        thread::Builder::new().name("tidegate-watchdog".to_owned()).spawn(move || {
            let mut turned = true;
            while dropped.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
                let turns = asked.all_turn(every);
                if turns {
                    tell();
                } else if turned {
                    tracing::error!("a worker hangs: systemd's watchdog hears nothing until it goes on");
                }
                turned = turns;
            }
        })?;
        Ok(Self { _until_dropped: until_dropped })
    }
}

impl Asked {
    fn all_turn(&self, within: Duration) -> bool {
        let deadline = Instant::now() + within;
        let (answer, answers) = mpsc::channel();
        let (mut count, mut all) = (0_usize, true);
        for worker in &self.workers {
            match worker.try_send(answer.clone()) {
                Ok(()) => count += 1,
                Err(to_worker::error::TrySendError::Closed(_))
                    if self.is_draining.load(Ordering::Relaxed) => {}
                // It has not read the last question, or is gone.
                Err(_) => all = false,
            }
        }
        drop(answer);
        let left = || deadline.saturating_duration_since(Instant::now());
        (0..count).all(|_| answers.recv_timeout(left()).is_ok()) && all
    }
}

/// How long systemd waits until it takes this process for hung; `None` if it does not.
pub(crate) fn allowed() -> Option<Duration> {
    let of = |name| env::var(name).ok();
    allowed_by(&of(WATCHDOG_USEC)?, of(WATCHDOG_PID).as_deref(), std::process::id())
}

/// As sd_watchdog_enabled(3) reads them.
fn allowed_by(micros: &str, process: Option<&str>, ours: u32) -> Option<Duration> {
    let micros = micros.parse().ok().filter(|micros| *micros > 0)?;
    process.is_none_or(|process| process.parse() == Ok(ours)).then_some(Duration::from_micros(micros))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_told_only_while_every_worker_turns() {
        let serve = |questions| {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            thread::spawn(move || runtime.block_on(answer(questions)));
        };
        let (one, questions) = to_worker::channel(1);
        serve(questions);
        let (other, mut unread) = to_worker::channel(1);
        let is_draining = Arc::new(AtomicBool::default());
        let asked =
            |workers: &[_]| Asked { workers: workers.to_vec(), is_draining: Arc::clone(&is_draining) };
        let patience = Duration::from_secs(20);
        assert!(asked(std::slice::from_ref(&one)).all_turn(patience));
        let both = asked(&[one.clone(), other]);
        // Asked, and then asked again.
        assert!(!both.all_turn(Duration::from_millis(1)) && !both.all_turn(patience));
        // It goes on.
        unread.try_recv().unwrap().send(()).unwrap_err();
        serve(unread);
        // The last question may lie there still.
        let deadline = Instant::now() + patience;
        while !both.all_turn(patience) {
            assert!(Instant::now() < deadline, "it goes on");
            thread::yield_now();
        }
        // One that has ended is missing, but for who drains.
        let (ended, _) = to_worker::channel(1);
        let with_ended = asked(&[one, ended]);
        assert!(!with_ended.all_turn(patience));
        is_draining.store(true, Ordering::Relaxed);
        assert!(with_ended.all_turn(patience));
        let (told, heard) = mpsc::channel();
        let watchdog =
            Watchdog::start(Duration::from_millis(2), with_ended, move || told.send(()).unwrap()).unwrap();
        heard.recv_timeout(patience).unwrap();
        drop(watchdog);
        while heard.recv_timeout(patience).is_ok() {}
        assert_eq!(heard.try_recv(), Err(mpsc::TryRecvError::Disconnected), "dropped, it ends");
    }

    #[test]
    fn only_the_process_that_is_meant_is_asked() {
        let second = Some(Duration::from_secs(1));
        assert_eq!(allowed_by("1000000", None, 7), second);
        assert_eq!(allowed_by("1000000", Some("7"), 7), second);
        for (micros, process) in [("1000000", Some("8")), ("0", None), ("soon", None), ("1000000", Some(""))]
        {
            assert_eq!(allowed_by(micros, process, 7), None);
        }
    }
}
