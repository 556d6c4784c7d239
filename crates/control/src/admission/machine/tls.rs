//! TLS sessions for the application: the machine of [`crate::tls_sessions`] with the capacity and the costs that are known here.

use super::Admission;
use crate::{
    ClassId, Timestamp,
    admission::Greeting,
    knobs::Mode,
    tls_sessions::{Session, Supply, TlsSessions},
};

impl Admission {
    /// A TLS session comes, before its handshake. While [`tls_sessions`](crate::admission::AdmissionSettings::tls_sessions) is off
    /// everyone is let in, and nothing is noted.
    pub fn greet(&mut self, now: Timestamp, session: Session) -> Greeting {
        self.advance(now);
        let capacity = self.levels().capacity;
        let Some(sessions) = &mut self.tls_sessions else { return Greeting::Admit };
        if sessions.is_due(self.now) {
            sessions.interval(self.now, Supply { capacity, is_given: self.bounds.given().is_some() });
        }
        let greeting = match (sessions.arrive(self.now, session, self.path.is_held()), self.tls_sessions_mode)
        {
            (true, _) => Greeting::Admit,
            (false, Mode::Enforce) => Greeting::Refuse,
            (false, Mode::Watch | Mode::Off) => Greeting::WouldRefuse,
        };
        if greeting == Greeting::Refuse {
            sessions.refuse();
        }
        greeting
    }

    /// A session that was [let in](Self::greet) has done its handshake.
    pub fn begin_session(&mut self, session: Session) {
        if let Some(sessions) = &mut self.tls_sessions {
            sessions.begin(session);
        }
    }

    /// A request of that class comes, whatever becomes of it: on a connection whose session has [begun](Self::begin_session), or,
    /// `None`, on one of which nobody has [asked](Self::greet) whether there is room here.
    pub fn note_session_work(&mut self, session: Option<Session>, class: ClassId) {
        if let Some(sessions) = &mut self.tls_sessions {
            let units = self.limiter.cost(class).unwrap_or(1.0);
            match session {
                Some(session) => sessions.work(session, units),
                None => sessions.work_elsewhere(units),
            }
        }
    }

    pub(super) fn configure_tls_sessions(&mut self, mode: Mode) {
        self.tls_sessions_mode = mode;
        match (mode, &self.tls_sessions) {
            (Mode::Off, _) => self.tls_sessions = None,
            (Mode::Watch | Mode::Enforce, None) => {
                self.tls_sessions = Some(Box::new(TlsSessions::new(self.now)));
            }
            (Mode::Watch | Mode::Enforce, Some(_)) => {}
        }
    }
}
