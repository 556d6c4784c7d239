//! Handshakes: by threads of the server, or by a front that makes them itself, full ones a bounded number at once, beside the
//! server's threads and on the same processors.

use std::time::Duration;

use tidegate_control::{Timestamp, queue::Turns};

use super::{
    World,
    attempts::{Attempt, Phase},
    server::Taken,
};
use crate::{front::Hello, scenario::Application};

/// Handshakes that wait and how many are made.
#[derive(Debug)]
pub(super) struct Handshakes {
    at_once: u32,
    made: u32,
    /// By id, which is by arrival.
    waiting: Turns<()>,
}

impl Handshakes {
    /// One at once for every two processors, as the gateway has it unless told otherwise.
    pub(super) fn new(processors: u16, now: Timestamp) -> Self {
        let at_once = u32::from(processors / 2).max(1);
        Self { at_once, made: 0, waiting: Turns::new(now) }
    }

    /// One comes: whether it is made at once; else it waits.
    pub(super) fn add(&mut self, now: Timestamp, id: u64) -> bool {
        if self.made < self.at_once {
            self.made += 1;
            return true;
        }
        self.waiting.add(now, id, ());
        false
    }

    /// One is made: whose turn it is then.
    pub(super) fn next(&mut self, now: Timestamp) -> Option<u64> {
        let next = self.waiting.next(now);
        if next.is_none() {
            self.made -= 1;
        }
        next.map(|(id, ())| id)
    }

    /// The client of one that waits has left: whether it did wait.
    pub(super) fn leave(&mut self, now: Timestamp, id: u64) -> bool {
        self.waiting.leave(now, id).is_some()
    }
}

impl World<'_, '_> {
    /// A connection that was let in begins with a handshake: at the front if that makes them, else by a thread of the server.
    pub(super) fn secure(&mut self, id: u64) {
        let Some(attempt) = self.attempts.get_mut(id) else { return };
        let state = &mut self.states[attempt.request.application.index()];
        if let Some(handshakes) = &mut state.handshakes {
            if attempt.request.hello == Hello::Resumed || handshakes.add(self.now, id) {
                self.shake(id);
            } else {
                attempt.phase = Phase::HandshakeBacklog;
            }
            return;
        }
        match state.server.take(id) {
            Taken::Thread => {
                attempt.has_thread = true;
                self.shake(id);
            }
            Taken::Backlog => attempt.phase = Phase::HandshakeBacklog,
            Taken::Refused => self.refuse(id, "server"),
        }
    }

    /// Its handshake begins.
    pub(super) fn shake(&mut self, id: u64) {
        let Some(attempt) = self.attempts.get_mut(id) else { return };
        let application = attempt.request.application.index();
        let state = &self.states[application];
        let Some(cost) = cost(state.application, attempt) else { return };
        attempt.phase = Phase::Handshake;
        let level = state.application.classes[attempt.request.class.index()].level;
        self.processors.begin(self.now, application, level, cost.as_secs_f64(), id);
    }

    /// Its handshake is complete.
    pub(super) fn shaken(&mut self, id: u64) {
        let Some(attempt) = self.attempts.get_mut(id) else { return };
        let state = &mut self.states[attempt.request.application.index()];
        let Some(tls) = &state.application.tls else { return };
        if !attempt.client_done
            && let Some(user) = state.users.get_mut(attempt.user as usize)
        {
            user.connection.opened(self.now, tls);
        }
        let Some(cost) = cost(state.application, attempt) else { return };
        let in_vain = attempt.client_done;
        let application = attempt.request.application.index();
        let was_full = std::mem::replace(&mut attempt.request.hello, Hello::Open) == Hello::New;
        attempt.phase = Phase::Travelling;
        state.ledger.shaken(attempt, cost.as_secs_f64(), in_vain);
        let (is_gone, has_thread) = (attempt.known_gone, attempt.has_thread);
        let handshakes = self.states[application].handshakes.as_mut().filter(|_| was_full);
        if let Some(next) = handshakes.and_then(|handshakes| handshakes.next(self.now)) {
            self.shake(next);
        }
        if !is_gone {
            self.arrive(id);
            return;
        }
        self.forget(id);
        if has_thread {
            self.leave_thread(application);
        }
    }

    /// A thread finds that who wanted a handshake has left.
    pub(super) fn drop_hello(&mut self, id: u64) {
        let Some(attempt) = self.attempts.get_mut(id) else { return };
        attempt.phase = Phase::Ended;
        self.forget(id);
    }
}

/// Processor time of the handshake an attempt begins with; `None`: it begins with none.
pub(super) fn cost(application: &Application, attempt: &Attempt) -> Option<Duration> {
    let tls = application.tls.as_ref()?;
    match attempt.request.hello {
        Hello::Open => None,
        Hello::Resumed => Some(tls.resumed),
        Hello::New => Some(tls.full),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_goes_first_once_they_stand() {
        let now = Timestamp::from_nanos(1_000_000_000);
        let mut handshakes = Handshakes::new(4, now);
        let made: Vec<bool> = (1..=6).map(|id| handshakes.add(now, id)).collect();
        assert_eq!(made, [true, true, false, false, false, false]);
        assert_eq!(handshakes.next(now), Some(3), "they have not waited long");
        let later = now + Duration::from_millis(200);
        assert!(handshakes.leave(later, 6) && !handshakes.leave(later, 6));
        assert_eq!(handshakes.next(later), Some(5));
        assert_eq!(handshakes.next(later), Some(4));
        assert_eq!(handshakes.next(later), None);
        assert!(handshakes.add(later, 7) && !handshakes.add(later, 8), "two are made at once");
    }
}
