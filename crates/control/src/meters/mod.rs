//! The table of meters: everything measured is one row.
//!
//! Archives, API, Prometheus, scripts, dashboard and docs/meters.md all grow from [`Meter::ALL`].
//! A row may be split along one dimension with a fixed set of labels (reasons of refusal, kinds of
//! error), so that every set of series is bounded.

mod distribution;

pub use distribution::{BUCKETS, Distribution, bucket, bucket_bounds};

use crate::{
    Refusal, admission::Greeting, capacity::Cause, knobs::Scope, tls_sessions::Session,
    waiting_room::ROOM_COUNTS,
};

/// How a meter's readings combine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MeterKind {
    /// Events counted; only grows.
    Count,
    /// A level at the moment of reading.
    Level,
    /// A distribution of values.
    Distribution,
}

/// The unit of a meter's readings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unit {
    /// Things without a unit.
    None,
    /// Seconds; recorded in nanoseconds.
    Seconds,
    /// Bytes.
    Bytes,
    /// Weight units of the in-flight limit.
    Weight,
}

impl Unit {
    /// The unit's name as Prometheus writes it; empty for [`Unit::None`].
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Seconds => "seconds",
            Self::Bytes => "bytes",
            Self::Weight => "weight",
        }
    }
}

/// Where in an exchange with an upstream server things went wrong; the labels of
/// [`Meter::UPSTREAM_ERRORS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UpstreamError {
    /// The connection was refused or the host unreachable.
    Connect,
    /// Connecting, TLS included, took too long.
    ConnectTimeout,
    /// The TLS handshake failed.
    Tls,
    /// The connection broke before the response's head was complete.
    Reset,
    /// The response's head took too long.
    ResponseTimeout,
    /// What came was no HTTP response.
    Garbage,
    /// The connection broke, fell silent or contradicted its own length inside the body.
    Body,
    /// No connection could be opened for want of something of the gateway's own: descriptors, local ports, memory.
    Exhausted,
}

/// Labels of [`UpstreamError`], in the order of the enum.
pub const UPSTREAM_ERRORS: &[&str] =
    &["connect", "connect_timeout", "tls", "reset", "response_timeout", "garbage", "body", "exhausted"];

/// Kinds of TLS handshake; the labels of [`Meter::HANDSHAKES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Handshake {
    /// TLS 1.3, full.
    Full13,
    /// TLS 1.3, resumed.
    Resumed13,
    /// TLS 1.2, full.
    Full12,
    /// TLS 1.2, resumed.
    Resumed12,
    /// Not completed: the client's fault, a timeout or no common ground.
    Failed,
}

/// Labels of [`Handshake`], in the order of the enum.
pub const HANDSHAKES: &[&str] = &["full_tls13", "resumed_tls13", "full_tls12", "resumed_tls12", "failed"];

/// What became of a TLS session before its handshake; the labels of [`Meter::TLS_SESSIONS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SessionMet {
    /// A new one, let in.
    New,
    /// One that resumes, let in.
    Resumed,
    /// A new one, refused.
    Refused,
    /// A new one, let in because what would have refused it only watches.
    WouldRefuse,
}

impl SessionMet {
    /// What an answer to a session is.
    #[must_use]
    pub const fn of(session: Session, greeting: Greeting) -> Self {
        match (greeting, session) {
            (Greeting::Admit, Session::New) => Self::New,
            (Greeting::Admit, Session::Resumed) => Self::Resumed,
            (Greeting::WouldRefuse, _) => Self::WouldRefuse,
            (Greeting::Refuse, _) => Self::Refused,
        }
    }
}

/// Labels of [`SessionMet`], in the order of the enum.
pub const SESSIONS: &[&str] = &["new", "resumed", "refused", "would_refuse"];

/// Why a request was answered before any application saw it; the labels of [`Meter::BAD_REQUESTS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BadRequest {
    /// The head breaks the grammar.
    BadHead,
    /// The head has too many bytes or fields.
    HeadTooLarge,
    /// The target is too long.
    TargetTooLong,
    /// The head took too long to come.
    HeadLate,
    /// A method that is not offered.
    Method,
    /// `Transfer-Encoding` other than `chunked`.
    TransferEncoding,
    /// Two lengths for one body.
    Length,
    /// No, several, or a malformed host.
    Host,
    /// Target and `Host` disagree.
    HostDisagrees,
    /// The target is malformed.
    Target,
    /// `Expect` other than `100-continue`.
    Expectation,
    /// No application serves the host.
    NoApplication,
    /// The TLS connection was opened for a host of another application.
    Misdirected,
}

/// Labels of [`BadRequest`], in the order of the enum.
pub const BAD_REQUESTS: &[&str] = &[
    "bad_head",
    "head_too_large",
    "target_too_long",
    "head_late",
    "method",
    "transfer_encoding",
    "length",
    "host",
    "host_disagrees",
    "target",
    "expectation",
    "no_application",
    "misdirected",
];

impl BadRequest {
    /// The reason's name in meters, logs and problem documents.
    #[must_use]
    pub const fn name(self) -> &'static str {
        BAD_REQUESTS[self as usize]
    }
}

/// Where the spans of a traced request were dropped; the labels of [`Meter::SPANS_LOST`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SpansLost {
    /// On the way to the exporter, which could not keep up or waits for the collector.
    Queue,
    /// At the collector, which would not have them.
    Collector,
}

/// Labels of [`SpansLost`], in the order of the enum.
pub const SPANS_LOST: &[&str] = &["queue", "collector"];

/// Labels of [`Meter::RESPONSES`]: the status classes.
pub const STATUS_CLASSES: &[&str] = &["1xx", "2xx", "3xx", "4xx", "5xx"];

const REFUSALS: &[&str] = &{
    let mut names = [""; Refusal::ALL.len()];
    let mut i = 0;
    while i < names.len() {
        names[i] = Refusal::ALL[i].name();
        i += 1;
    }
    names
};

const CAUSES: &[&str] = &{
    let mut names = [""; Cause::ALL.len()];
    let mut i = 0;
    while i < names.len() {
        names[i] = Cause::ALL[i].name();
        i += 1;
    }
    names
};

macro_rules! meters {
    ($($scope:ident { $($id:ident = $name:literal, $kind:ident, $unit:ident, $label:literal $labels:expr, $doc:literal;)+ })+) => {
        /// A row of the table.
        #[expect(non_camel_case_types, clippy::upper_case_acronyms, reason = "one identifier names row and documentation, as in the table of knobs")]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Meter { $($(#[doc = $doc] $id,)+)+ }

        impl Meter {
            /// Every meter, scope by scope.
            pub const ALL: &'static [Self] = &[$($(Self::$id,)+)+];

            /// The meter's name in API, scripts and archives; Prometheus adds prefix, unit and `_total`.
            #[must_use]
            pub const fn name(self) -> &'static str { match self { $($(Self::$id => $name,)+)+ } }

            /// What it is measured of.
            #[must_use]
            pub const fn scope(self) -> Scope { match self { $($(Self::$id => Scope::$scope,)+)+ } }

            /// How its readings combine.
            #[must_use]
            pub const fn kind(self) -> MeterKind { match self { $($(Self::$id => MeterKind::$kind,)+)+ } }

            /// The unit of its readings.
            #[must_use]
            pub const fn unit(self) -> Unit { match self { $($(Self::$id => Unit::$unit,)+)+ } }

            /// The name of the dimension it is split along; empty if it is not split.
            #[must_use]
            pub const fn label(self) -> &'static str { match self { $($(Self::$id => $label,)+)+ } }

            /// The values of that dimension; empty if it is not split.
            #[must_use]
            pub const fn labels(self) -> &'static [&'static str] { match self { $($(Self::$id => $labels,)+)+ } }

            /// One line of documentation.
            #[must_use]
            pub const fn doc(self) -> &'static str { match self { $($(Self::$id => $doc,)+)+ } }
        }
    };
}

meters! {
    Host {
        CONNECTIONS_ACCEPTED = "connections_accepted", Count, None, "" &[], "Client connections accepted.";
        CONNECTIONS_REFUSED = "connections_refused", Count, None, "reason" REFUSALS, "Client connections closed at the preface, by reason.";
        CONNECTIONS_OPEN = "connections_open", Level, None, "" &[], "Client connections open.";
        CONNECTIONS_PARKED = "connections_parked", Level, None, "" &[], "Idle client connections that keep their socket only.";
        HANDSHAKES = "tls_handshakes", Count, None, "kind" HANDSHAKES, "TLS handshakes with clients, by kind.";
        SPOOLED = "spooled", Level, Bytes, "" &[], "Memory in use for bodies read ahead.";
        BROKEN_PREFACES = "broken_prefaces", Count, None, "" &[], "Client connections closed because their PROXY header or TLS hello was missing, malformed, not trusted or late.";
        BAD_REQUESTS = "bad_requests", Count, None, "reason" BAD_REQUESTS, "Requests answered 4xx or 501 because they broke the protocol or a bound, before classification, by reason.";
        GATEWAY_CPU = "gateway_cpu", Count, Seconds, "" &[], "Processor time used by the gateway; its rate is a number of processors.";
        GATEWAY_MEMORY = "gateway_memory", Level, Bytes, "" &[], "Resident memory of the gateway.";
        HOST_CPU = "host_cpu", Count, Seconds, "" &[], "Processor time used on the host, by whatever; its rate is a number of processors.";
        MEMORY_AVAILABLE = "memory_available", Level, Bytes, "" &[], "Memory of the host that can be had without swapping.";
        CPU_PRESSURE = "cpu_pressure", Count, Seconds, "" &[], "Time in which something on the host waited for a processor (PSI, some).";
        MEMORY_PRESSURE = "memory_pressure", Count, Seconds, "" &[], "Time in which something on the host waited for memory (PSI, some).";
        IO_PRESSURE = "io_pressure", Count, Seconds, "" &[], "Time in which something on the host waited for storage (PSI, some).";
        SPANS_LOST = "spans_lost", Count, None, "where" SPANS_LOST, "Traced requests whose spans were dropped, by where.";
        EVENTS_LOST = "events_lost", Count, None, "" &[], "Log lines and events dropped because their writer could not keep up.";
        CONTROLLERS_STOPPED = "controllers_stopped", Level, None, "" &[], "Controllers that were stopped after failures, and were not changed since.";
        CERTIFICATE_SECONDS_LEFT = "certificate_seconds_left", Level, None, "" &[], "Seconds until the first certificate of the listeners and the admin interface expires; 0 once it has, absent without any. Metrics have it of each file (label file), up to a hundred.";
    }
    Application {
        IN_FLIGHT = "in_flight", Level, Weight, "" &[], "Weight in flight at the application.";
        IN_FLIGHT_LIMIT = "in_flight_limit", Level, Weight, "" &[], "The in-flight limit in force: as found or set, and in_flight_dormant on top of what was found.";
        IN_FLIGHT_DORMANT = "in_flight_dormant", Level, Weight, "" &[], "Weight in flight that stays much longer than others do, as long polls, and counts no more towards an adaptive limit.";
        CAPACITY = "capacity", Level, None, "" &[], "The capacity found or given, in thousandths of work units per second; a request of the default class is one unit of work.";
        CAPACITY_CHANGES = "capacity_changes", Count, None, "cause" CAUSES, "Times the capacity moved, by cause.";
        PROCESSORS_ASKED = "processors_asked", Level, None, "" &[], "Processors asked for at the CPU manager for all that is offered, in thousandths; absent without one, and while nothing was served.";
        PROCESSORS_GIVEN = "processors_given", Level, None, "" &[], "Processors the CPU manager has given the application, in thousandths; absent without one.";
        TLS_SESSIONS = "tls_sessions", Count, None, "what" SESSIONS, "TLS sessions that came for the application, by what became of them before the handshake; nothing while tls.sessions.mode is off.";
        TLS_SESSIONS_NEW_RATE = "tls_sessions_new_rate", Level, None, "" &[], "New TLS sessions let in, in thousandths a second; absent while nothing bounds them.";
        TLS_SESSIONS_NEW_COST = "tls_sessions_new_cost", Level, None, "" &[], "What a connection with a new TLS session asks for, in thousandths of work units; absent before any came.";
        TLS_SESSIONS_RESUMED_COST = "tls_sessions_resumed_cost", Level, None, "" &[], "What a connection that resumes a TLS session asks for, in thousandths of work units; absent before any came.";
        LONG_STREAMS = "long_streams", Level, None, "" &[], "Upgraded connections and long streams open, and exchanges that wait for slow clients.";
        AWAITING_SERVER = "awaiting_server", Level, None, "" &[], "Requests that hold a permit and wait for a server, since each has its in_flight.max.";
        LINGERING = "lingering", Level, None, "" &[], "Permits of clients that left, held until their server has finished.";
        ROOM_WAITING = "room_waiting", Level, None, "" &[], "People in the waiting room with a time to come, or a lot.";
        ROOM_NEXT = "room_next", Level, None, "" &[], "Wait of the next visitor to the waiting room, milliseconds; absent while none can be promised.";
        ROOM_REPORT_AGE = "room_report_age", Level, None, "" &[], "Since the last report of the check of a waiting room that gives times only, milliseconds; absent before the first.";
    }
    Class {
        ARRIVED = "arrived", Count, None, "" &[], "Requests that arrived.";
        STARTED = "started", Count, None, "" &[], "Requests that were admitted and went for a server; one that then found none is refused as well.";
        REFUSED = "refused", Count, None, "reason" REFUSALS, "Requests refused, by reason.";
        WOULD_REFUSE = "would_refuse", Count, None, "reason" REFUSALS, "Requests that would have been refused, had what only watches acted.";
        LEFT = "left", Count, None, "" &[], "Clients that left while their request waited.";
        ABANDONED = "abandoned", Count, None, "" &[], "Clients that left after their request had started and before its response was complete.";
        RESPONSES = "responses", Count, None, "status" STATUS_CLASSES, "Responses sent, by status class.";
        GOOD = "goodput", Count, None, "" &[], "Goodput: responses without error, complete within goodput.within.";
        QUEUED = "queued", Level, None, "" &[], "Requests waiting.";
        WOULD_WAIT = "would_wait", Level, None, "" &[], "Requests that would be waiting, had what only watches acted; 0 while nothing watches.";
        COST = "cost", Level, None, "" &[], "What a request of the class costs the servers as learnt, in thousandths of one of the default class.";
        WAITING_TIME = "waiting_time", Distribution, Seconds, "" &[], "From arrival until let go on to a server.";
        SERVICE_TIME = "service_time", Distribution, Seconds, "" &[], "From sent on until the server's end of message, without what a slow client was waited for beyond spool.";
        RESPONSE_TIME = "response_time", Distribution, Seconds, "" &[], "From arrival until the response's last byte was handed to the client's socket.";
        BYTES_IN = "bytes_in", Count, Bytes, "" &[], "Bytes of request bodies.";
        BYTES_OUT = "bytes_out", Count, Bytes, "" &[], "Bytes of response bodies.";
        RETRIES = "retries", Count, None, "" &[], "Requests tried again at another server.";
        ROOM = "room", Count, None, "what" ROOM_COUNTS, "What happened in the waiting room, by what. Each time that is promised, new ones too, counts as promised, and then as kept, missed or no_show; not yet as any of these while it is to come or its holder waits in the short queue, and never if he leaves there, is refused for something else than overload, or has a lot and stays away. With role generate: of all checks together.";
    }
    Server {
        SERVER_REQUESTS = "requests", Count, None, "" &[], "Requests sent to the server.";
        UPSTREAM_ERRORS = "upstream_errors", Count, None, "kind" UPSTREAM_ERRORS, "Exchanges that failed, by kind.";
        SERVER_IN_FLIGHT = "in_flight", Level, None, "" &[], "Requests in flight at the server.";
        SERVER_UP = "up", Level, None, "" &[], "1 while the server is in service, else 0.";
        CONNECTS = "connects", Count, None, "" &[], "Connections opened to the server.";
        RESENDS = "resends", Count, None, "" &[], "Requests sent to the server once more, on another connection, since theirs was closed or refused them before an answer.";
        SERVER_CPU = "cpu", Count, Seconds, "" &[], "Processor time used by the server's processes where they run on this host, those that hold its listening socket; its rate is a number of processors.";
        SERVER_MEMORY = "memory", Level, Bytes, "" &[], "Resident memory of those processes.";
    }
}

impl Meter {
    /// The meter of that name and scope.
    #[must_use]
    pub fn find(scope: Scope, name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|meter| meter.scope() == scope && meter.name() == name)
    }

    /// The meter of that name that can be asked of `scope`: its own, else one of its parts, over all of which it is
    /// added up.
    ///
    /// ```
    /// use tidegate_control::{knobs::Scope, meters::Meter};
    ///
    /// assert_eq!(Meter::find_within(Scope::Application, "in_flight"), Some(Meter::IN_FLIGHT));
    /// assert_eq!(Meter::find_within(Scope::Application, "goodput"), Some(Meter::GOOD));
    /// assert_eq!(Meter::find_within(Scope::Server, "goodput"), None);
    /// ```
    #[must_use]
    pub fn find_within(scope: Scope, name: &str) -> Option<Self> {
        let found = scope.parts().iter().find_map(|part| Self::find(*part, name))?;
        (found.scope() == scope || found.adds_up()).then_some(found)
    }

    /// Whether the readings of several instances of its scope say something added up. What a class's request costs and how
    /// long a room's next visitor waits does not.
    #[must_use]
    pub const fn adds_up(self) -> bool {
        !matches!(
            self,
            Self::COST
                | Self::ROOM_NEXT
                | Self::ROOM_REPORT_AGE
                | Self::TLS_SESSIONS_NEW_COST
                | Self::TLS_SESSIONS_RESUMED_COST
        )
    }

    /// Position of the meter's first cell among the cells of its scope and kind (counts or
    /// distributions; levels have no cells, they are read).
    #[must_use]
    pub const fn offset(self) -> usize {
        Self::OFFSETS[self as usize]
    }

    /// Added up once, for counting is done several times a request.
    const OFFSETS: [usize; Self::ALL.len()] = {
        let mut offsets = [0; Self::ALL.len()];
        let mut i = 0;
        while i < Self::ALL.len() {
            let (meter, mut before) = (Self::ALL[i], 0);
            while before < i {
                let other = Self::ALL[before];
                if other.scope() as usize == meter.scope() as usize
                    && other.kind() as usize == meter.kind() as usize
                {
                    offsets[i] += other.cells();
                }
                before += 1;
            }
            i += 1;
        }
        offsets
    };

    /// Cells of a scope and kind in all.
    #[must_use]
    pub const fn cells_of(scope: Scope, kind: MeterKind) -> usize {
        let (mut cells, mut i) = (0, 0);
        while i < Self::ALL.len() {
            let meter = Self::ALL[i];
            if meter.scope() as usize == scope as usize && meter.kind() as usize == kind as usize {
                cells += meter.cells();
            }
            i += 1;
        }
        cells
    }

    /// Cells the meter needs: one, or one for each label.
    #[must_use]
    pub const fn cells(self) -> usize {
        if self.labels().is_empty() { 1 } else { self.labels().len() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_sound() {
        for meter in Meter::ALL {
            let same =
                Meter::ALL.iter().filter(|m| m.scope() == meter.scope() && m.name() == meter.name()).count();
            assert_eq!(same, 1, "{} stands twice in its scope", meter.name());
            assert_eq!(Meter::find(meter.scope(), meter.name()), Some(*meter));
            assert_eq!(meter.label().is_empty(), meter.labels().is_empty(), "{}", meter.name());
            assert!(meter.doc().ends_with('.'), "{} needs a sentence", meter.name());
        }
    }

    #[test]
    fn labels_follow_their_enums() {
        assert_eq!(UPSTREAM_ERRORS.len(), UpstreamError::Exhausted as usize + 1);
        assert_eq!(HANDSHAKES.len(), Handshake::Failed as usize + 1);
        assert_eq!(BAD_REQUESTS.len(), BadRequest::Misdirected as usize + 1);
    }
}
