//! The check of a waiting room reports to the process that gives the times, and hears its keys.

use std::{
    collections::BTreeMap,
    io,
    sync::{Arc, mpsc},
    thread::JoinHandle,
    time::Duration,
};

use serde_json::json;
use tidegate_config::RoomReport;
use tidegate_control::{
    ApplicationId,
    knobs::{RoomRole, keys},
};
use tidegate_runtime::{Application, Shared};

use crate::{
    client::Client,
    events::{Events, Kind},
    recording::Recording,
    reports,
};

/// How often. A token that comes with a key not heard of yet is sent back and comes again.
const EVERY: Duration = Duration::from_millis(500);
/// How long an answer may take. A silent generator holds up the reports of other applications for so long.
const PATIENCE: Duration = Duration::from_secs(1);

/// Reports until dropped.
#[derive(Debug)]
pub struct Reporter {
    stop: Option<mpsc::SyncSender<()>>,
    /// The thread, and what is closed when it ends.
    thread: Option<(JoinHandle<()>, mpsc::Receiver<()>)>,
}

impl Reporter {
    /// Starts to report of every application whose `waiting_room.role` is `check`, as its settings say at the time.
    ///
    /// # Errors
    ///
    /// If a thread cannot be started.
    pub fn start(shared: &Arc<Shared>, recording: &Recording) -> io::Result<Self> {
        let (stop, stopped) = mpsc::sync_channel(0);
        let (running, ended) = mpsc::sync_channel(0);
        let (shared, events) = (Arc::clone(shared), recording.events());
        let thread = std::thread::Builder::new().name("tidegate-report".to_owned()).spawn(move || {
            let _running = running;
            let mut links = Links::default();
            loop {
                links.report(&shared, &events);
                if stopped.recv_timeout(EVERY) != Err(mpsc::RecvTimeoutError::Timeout) {
                    return;
                }
            }
        })?;
        Ok(Self { stop: Some(stop), thread: Some((thread, ended)) })
    }

    /// Another process has taken this one's place, and reports from now on. A name that is looked up in vain, which may
    /// take half a minute, is not waited for.
    pub fn stop(&mut self) {
        drop(self.stop.take());
        if let Some((thread, ended)) = self.thread.take()
            && ended.recv_timeout(2 * PATIENCE) != Err(mpsc::RecvTimeoutError::Timeout)
        {
            let _ = thread.join();
        }
    }
}

impl Drop for Reporter {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Whether the last report of each application arrived.
#[derive(Debug, Default)]
struct Links {
    arrived: BTreeMap<ApplicationId, bool>,
}

impl Links {
    fn report(&mut self, shared: &Shared, events: &Events) {
        for application in &shared.snapshot().applications {
            let settings = &application.settings;
            let is_check = settings.values.get(keys::ROOM_ROLE).0 == RoomRole::Check;
            let Some(to) = settings.waiting_room.report.as_ref() else { continue };
            let room = application.state.waiting_room();
            // One that has only just begun knows of no capacity, which says nothing.
            if !is_check || !room.is_on() || !room.with(|room, _| room.is_told()) {
                continue;
            }
            let sent = send(shared, application, to);
            let before = self.arrived.insert(application.id, sent.is_ok());
            if before == Some(sent.is_ok()) {
                continue;
            }
            let (name, to) = (&settings.name, &to.to);
            let (what, why) = match &sent {
                Ok(()) => ("reporting", None),
                Err(why) => ("not_reporting", Some(why)),
            };
            match why {
                None => tracing::info!(application = name, to, "the check of the waiting room reports"),
                Some(why) => {
                    tracing::error!(
                        application = name,
                        to,
                        why,
                        "the check of the waiting room cannot report"
                    );
                }
            }
            let text = match why {
                None => format!("{name}: reports arrive"),
                Some(why) => format!("{name}: reports do not arrive: {why}"),
            };
            let data = json!({ "application": name, "what": what, "to": to, "text": text });
            events.publish(shared.clock().now(), Kind::WaitingRoom, data);
        }
    }
}

/// Sends one report. Where no answer comes, what it counts is told again.
fn send(shared: &Shared, application: &Application, to: &RoomReport) -> Result<(), String> {
    let room = application.state.waiting_room();
    let client = Client {
        address: to.to.clone(),
        token_file: to.token_file.clone(),
        ca: to.ca.clone(),
        certificate: to.certificate.as_ref().map(|files| (files.chain.clone(), files.key.clone())),
        patience: PATIENCE,
    };
    let path = format!("/api/v1/applications/{}/waiting-room/report", application.settings.name);
    let report = room.with(|room, now| room.report(now));
    let answer = client.send("POST", &path, &reports::write(&report, &application.classes), "keys");
    let heard = answer.map_err(|error| error.to_string()).and_then(|answer| {
        let keys = reports::read_keys(&answer).ok_or_else(|| format!("{} does not tell its keys", to.to))?;
        Ok((keys, reports::read_answer(&answer)))
    });
    let (keys, answered) = heard?;
    room.with(|room, now| room.hear(now, &answered));
    shared.hear_room_keys(&application.state, keys).map_err(|error| error.to_string())
}
