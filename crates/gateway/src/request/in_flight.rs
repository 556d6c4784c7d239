//! An exchange with a server: it holds its permit from dispatch until the server's end of message.

use std::{rc::Rc, time::Duration};

use http::StatusCode;
use tidegate_control::{
    ClassId, Refusal, Timestamp,
    admission::Outcome,
    knobs::{Key, keys},
    meters::Meter,
};
use tidegate_runtime::{CoreApplication, Held, HeldStream, Inside};

use super::{
    Service, error,
    record::{Record, Tried},
};

/// What is held for an exchange while a server works on it. Dropped, it gives back what it holds
/// and nothing is learnt from it.
pub(super) struct InFlight {
    service: Rc<Service>,
    application: Rc<CoreApplication>,
    class: ClassId,
    started: Timestamp,
    /// Where to note what only watches and would have refused it, if anybody wants to know.
    noted: Option<Rc<Tried>>,
    lease: Lease,
}

/// The right to be under way.
#[derive(Debug)]
enum Lease {
    /// Weight of the in-flight limit.
    Permit(Held),
    /// A place among the long streams.
    Stream(#[expect(dead_code, reason = "held for what its drop does")] HeldStream),
    /// Nothing, for the moment of changing from one to the other.
    Neither,
}

impl InFlight {
    /// The exchange of `record` begins.
    pub(super) fn begin(service: &Rc<Service>, record: &mut Record, held: Held) -> Self {
        let started = held.started();
        record.start(started, held.shadow());
        record.note_would_refuse(held.would_refuse());
        Self {
            service: Rc::clone(service),
            application: Rc::clone(record.application()),
            class: record.class(),
            started,
            noted: record.tried(),
            lease: Lease::Permit(held),
        }
    }

    /// The server's message has ended; gives the time.
    pub(super) fn finish(self, status: StatusCode) -> Timestamp {
        let Lease::Permit(held) = self.lease else { return self.service.now() };
        let ended = held.finish(error::outcome(status));
        note(self.noted.as_deref(), ended.would_refuse);
        let now = ended.at;
        let time = now.since(self.started);
        self.application.class(self.class).record(Meter::SERVICE_TIME, time);
        self.service.local(self.application.application.id, |local| {
            local.service_time(self.class).record(time);
        });
        now
    }

    /// The exchange failed.
    pub(super) fn fail(self, outcome: Outcome) {
        if let Lease::Permit(held) = self.lease {
            note(self.noted.as_deref(), held.finish(outcome).would_refuse);
        }
    }

    /// Moves to the bound on long streams and gives the permit back; it is no sample of response times.
    ///
    /// # Errors
    ///
    /// [`Refusal::LongStreams`] when as many are open as may be; the permit stays.
    pub(super) fn become_stream(&mut self) -> Result<(), Refusal> {
        match std::mem::replace(&mut self.lease, Lease::Neither) {
            Lease::Permit(held) => match held.into_stream() {
                Ok(stream) => {
                    note(self.noted.as_deref(), stream.would_refuse());
                    self.lease = Lease::Stream(stream);
                }
                Err(held) => {
                    self.lease = Lease::Permit(held);
                    return Err(Refusal::LongStreams);
                }
            },
            lease => self.lease = lease,
        }
        Ok(())
    }

    pub(super) const fn is_stream(&self) -> bool {
        matches!(self.lease, Lease::Stream(_))
    }

    /// When its permit was granted.
    pub(super) const fn started(&self) -> Timestamp {
        self.started
    }

    /// When it counts as a long stream.
    pub(super) fn long_stream_at(&self) -> Timestamp {
        self.started + self.knob(keys::LONG_STREAM_AFTER)
    }

    /// Until when it lingers once its client has left; `None` for a stream, which ends at once.
    pub(super) fn linger_until(&self) -> Option<Timestamp> {
        let longest = self.knob(keys::RESPONSE_TIMEOUT);
        let time = self
            .service
            .local(self.application.application.id, |local| local.service_time(self.class).linger(longest));
        (!self.is_stream()).then(|| self.started + time)
    }

    /// Counts a permit whose client has left.
    pub(super) fn lingering(&self) -> Inside {
        self.application.application.state.lingering().enter()
    }

    pub(super) const fn service(&self) -> &Rc<Service> {
        &self.service
    }

    fn knob(&self, key: Key<Duration>) -> Duration {
        self.application.application.settings.values.get(key)
    }
}

fn note(noted: Option<&Tried>, would_refuse: Option<Refusal>) {
    if let Some(noted) = noted {
        noted.note_would_refuse(would_refuse);
    }
}
