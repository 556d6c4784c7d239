//! The rows of the table of knobs.

use std::time::Duration;

use super::{
    Algorithm, BalancePolicy, ChoiceSet, ClassRoomMethod, Discipline, Fault, HalfClosed, KeepAlivePolicy,
    Key, Kind, Mode, RefusalStatus, RoomCarry, RoomMethod, RoomOrder, RoomRole, SchedulerKind, Scope, Value,
    value::{Bytes, Chosen, PerSecond, Span},
};

const MS: Duration = Duration::from_millis(1);
const S: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(86_400);
const WEEK: Duration = Duration::from_secs(7 * 86_400);
const HOUR: Duration = Duration::from_secs(3600);
const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;
const GIB: u64 = 1024 * MIB;

const fn count(min: u64, max: u64) -> Kind {
    Kind::Count { min, max }
}

const fn span(min: Duration, max: Duration) -> Kind {
    Kind::Span { min, max }
}

const fn size(min: u64, max: u64) -> Kind {
    Kind::Size { min, max }
}

const RATE: Kind = Kind::Rate { min: 0.001, max: 1e9 };

const fn ratio(min: f64, max: f64) -> Kind {
    Kind::Ratio { min, max }
}

const fn choice<C: ChoiceSet>() -> Kind {
    Kind::Choice(C::NAMES)
}

macro_rules! knobs {
    ($($scope:ident { $($id:ident: $type:ty = $name:literal, $kind:expr, $default:expr, $doc:literal;)+ })+) => {
        /// A row of the table.
        #[expect(non_camel_case_types, clippy::upper_case_acronyms, reason = "one identifier names row, key and documentation")]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Knob { $($(#[doc = $doc] $id,)+)+ }

        impl Knob {
            /// Every knob, scope by scope.
            pub const ALL: &'static [Self] = &[$($(Self::$id,)+)+];

            /// The name within its scope, such as `ingress.rate`.
            #[must_use]
            pub const fn name(self) -> &'static str { match self { $($(Self::$id => $name,)+)+ } }

            /// What it belongs to.
            #[must_use]
            #[inline]
            pub const fn scope(self) -> Scope { match self { $($(Self::$id => Scope::$scope,)+)+ } }

            /// Unit and range.
            #[must_use]
            pub const fn kind(self) -> Kind { match self { $($(Self::$id => $kind,)+)+ } }

            /// The value when nothing is written.
            #[must_use]
            pub const fn default(self) -> Value { match self { $($(Self::$id => $default,)+)+ } }

            /// One line of documentation.
            #[must_use]
            pub const fn doc(self) -> &'static str { match self { $($(Self::$id => $doc,)+)+ } }

            /// Whether `none` is allowed. A row whose Rust type is an `Option` allows it.
            #[must_use]
            pub const fn is_optional(self) -> bool {
                match self { $($(Self::$id => is_option(stringify!($type)),)+)+ }
            }
        }

        /// Typed keys, one a row.
        pub mod keys {
            use super::*;
            $($(#[doc = $doc] pub const $id: Key<$type> = Key::new(Knob::$id);)+)+
        }

        #[cfg(test)]
        /// Reads every default through its typed key; panics where type and kind disagree.
        pub(super) fn read_all_defaults() {
            $($(let _: $type = super::value::ValueType::from_value(Knob::$id.default());)+)+
        }
    };
}

const fn is_option(type_name: &str) -> bool {
    let (bytes, prefix) = (type_name.as_bytes(), b"Option");
    let mut i = 0;
    while i < prefix.len() {
        if i >= bytes.len() || bytes[i] != prefix[i] {
            return false;
        }
        i += 1;
    }
    true
}

knobs! {
    Host {
        CONNECTIONS_MAX: u64 = "connections.max", count(1, 10_000_000), Value::Count(100_000),
            "Client connections open at once; the next one is closed before anything is read.";
        CONNECTIONS_PER_CLIENT_MAX: Option<u64> = "connections.per_client.max", count(1, 10_000_000), Value::None,
            "Client connections open at once from one address (IPv6: one /64).";
        HELLO_TIMEOUT: Span = "hello.timeout", span(MS, HOUR), Value::Span(Duration::from_secs(5)),
            "Time from accept until PROXY header, TLS hello and TLS handshake are complete; and from then until a client of HTTP/2 has begun to speak it.";
        TLS_HANDSHAKES_MAX: Option<u64> = "tls.handshakes.max", count(1, 1024), Value::None,
            "Full TLS handshakes computed at once, on threads of their own, so that they hold up no request; further ones wait within hello.timeout, the newest first while a newcomer would wait 100 ms or longer in order of arrival. none: one for every two worker threads.";
        HEAD_TIMEOUT: Span = "head.timeout", span(MS, HOUR), Value::Span(Duration::from_secs(10)),
            "Time from a request's first byte until its head is complete, over HTTP/1.";
        KEEP_ALIVE_TIMEOUT: Span = "keep_alive.timeout", span(MS, HOUR), Value::Span(Duration::from_secs(60)),
            "How long a client connection may be idle between requests. One of HTTP/2 is told so then, and cut after body.idle_timeout more.";
        PARK_AFTER: Span = "park.after", span(MS, HOUR), Value::Span(S),
            "After this long idle a plain HTTP/1 connection keeps its socket only and gives up its buffers.";
        HEAD_BYTES_MAX: Bytes = "head.bytes.max", size(KIB, MIB), Value::Size(32 * KIB),
            "Size of a request's head; a larger one is answered 431, one whose first line alone is larger 414. An open HTTP/1 connection takes a change up when it has been idle for park.after.";
        HEADERS_MAX: u64 = "headers.max", count(8, 1000), Value::Count(100),
            "Number of header fields of a request; more are answered 431. An open HTTP/1 connection takes a change up when it has been idle for park.after.";
        BODY_IDLE_TIMEOUT: Span = "body.idle_timeout", span(MS, HOUR), Value::Span(Duration::from_secs(30)),
            "How long a client may send nothing of a body, or take nothing of a response or of what comes by an upgraded connection.";
        BODY_RATE_MIN: Option<Bytes> = "body.rate.min", size(1, GIB), Value::Size(64),
            "Bytes per second a client must send of a body on average once 10 s have passed; a slower one is answered 408.";
        RESPONSE_RATE_MIN: Option<Bytes> = "response.rate.min", size(1, GIB), Value::None,
            "Bytes per second a client must take of a response on average while spool is full of it, once it was waited for 10 s in all; one that takes less is cut off.";
        H2_STREAMS_MAX: u64 = "h2.streams.max", count(1, 100_000), Value::Count(128),
            "Concurrent streams of one HTTP/2 client connection. Connections that are open keep what was in force when they were opened.";
        H2_STREAM_WINDOW: Bytes = "h2.stream.window", size(64 * KIB - 1, 16 * MIB), Value::Size(64 * KIB),
            "Receive window of one HTTP/2 stream; the connection's window is this times h2.streams.max. Connections that are open keep theirs.";
        H2_RESETS_MAX: u64 = "h2.resets.max", count(1, 100_000), Value::Count(200),
            "Streams a client may have reset before they were answered, at once, before its connection is closed (rapid reset).";
        SPOOL_TOTAL: Bytes = "spool.total", size(MIB, 1024 * GIB), Value::Size(256 * MIB),
            "Memory for bodies read ahead, over all exchanges; when it is used up, bodies stream in step with their slowest side.";
        DRAIN_GRACE: Span = "drain.grace", span(Duration::ZERO, HOUR), Value::Span(Duration::from_millis(500)),
            "After SIGTERM, how long listeners still accept while /readyz is red already, so that load balancers see it first.";
        DRAIN_TIMEOUT: Span = "drain.timeout", span(Duration::ZERO, HOUR), Value::Span(Duration::from_secs(30)),
            "After SIGTERM, how long requests in progress may take before their connections are closed.";
        ROOM_KEY_AGE_MAX: Option<Span> = "waiting_room.key.age.max", span(WEEK, Duration::from_secs(90 * 86_400)), Value::Span(Duration::from_secs(30 * 86_400)),
            "A key that has signed tokens of waiting rooms for so long gives way to a new one; what it signed holds until it ends by itself.";
        ACCESS_LOG_SAMPLE: f64 = "access_log.sample", ratio(0.0, 1.0), Value::Ratio(1.0),
            "Share of requests written to the access log; refusals, what would be refused, and errors are always written.";
        TRACES_SAMPLE: Option<f64> = "telemetry.traces.sample", ratio(0.0, 1.0), Value::None,
            "Share of requests without a traceparent to go by that are traced; those with one are traced as it says. none: no request is traced. Traces go to telemetry.endpoint.";
    }
    Application {
        MODE: Chosen<Mode> = "mode", choice::<Mode>(), Value::Choice("enforce"),
            "Whether rates, queues and limits of the application act, only count what they would refuse, or are not consulted. Each control may have a mode of its own: ingress.mode, client.mode, queue.mode, in_flight.mode, egress.mode, long_streams.mode.";
        MAINTENANCE: bool = "maintenance", Kind::Flag, Value::Flag(false),
            "Answers every request with the maintenance page.";
        IN_FLIGHT_ALGORITHM: Chosen<Algorithm> = "in_flight.algorithm", choice::<Algorithm>(), Value::Choice("knee_track"),
            "How the in-flight limit is found.";
        IN_FLIGHT_LIMIT: u64 = "in_flight.limit", count(1, 1_000_000), Value::Count(20),
            "In-flight limit R0 in weight units: the limit of the algorithm \"fixed\", and where aimd, vegas and gradient2 start.";
        IN_FLIGHT_MIN: u64 = "in_flight.min", count(1, 1_000_000), Value::Count(1),
            "An adaptive limit never goes below this.";
        IN_FLIGHT_MAX: u64 = "in_flight.max", count(1, 1_000_000), Value::Count(1_000),
            "An adaptive limit never goes above this.";
        DORMANT_MAX: u64 = "in_flight.dormant.max", count(0, 1_000_000), Value::Count(20),
            "Weight in flight that stays much longer than others do, as long polls, and is then no longer counted by an adaptive limit: the limit in force is higher by it, up to in_flight.max.";
        APPLICATION_IN_FLIGHT_MODE: Option<Chosen<Mode>> = "in_flight.mode", choice::<Mode>(), Value::None,
            "Whether what the algorithm finds (the limit, or the rate of power_ratio) acts, only counts what it would hold back, or is not consulted; none: as mode says.";
        CAPACITY_GIVEN: Option<PerSecond> = "capacity.given", RATE, Value::None,
            "Capacity in requests per second, told by hand or by an estimator of one's own; none: as found.";
        CAPACITY_FLOOR: Option<PerSecond> = "capacity.floor", RATE, Value::None,
            "The capacity found is never taken for less, requests per second.";
        CAPACITY_CEILING: Option<PerSecond> = "capacity.ceiling", RATE, Value::None,
            "The capacity found is never taken for more, requests per second.";
        POWER_RATIO_INITIAL: PerSecond = "power_ratio.initial", RATE, Value::Rate(15.0),
            "power_ratio: the load at which discovery begins, c0.";
        POWER_RATIO_GROWTH: f64 = "power_ratio.growth", ratio(1.001, 10.0), Value::Ratio(1.15),
            "power_ratio: factor from one load of the coarse phase to the next, alpha.";
        POWER_RATIO_BACK_OFF: f64 = "power_ratio.back_off", ratio(0.01, 1.0), Value::Ratio(0.8),
            "power_ratio: where the fine phase begins, as a share of the coarse phase's end, beta.";
        POWER_RATIO_STEP: f64 = "power_ratio.step", ratio(0.0001, 1.0), Value::Ratio(0.02),
            "power_ratio: step of the fine phase, as a share of the coarse phase's end, delta.";
        POWER_RATIO_EPOCH: Span = "power_ratio.epoch", span(Duration::from_millis(10), HOUR), Value::Span(Duration::from_secs(8)),
            "power_ratio: time for which a load is tried, tau.";
        POWER_RATIO_CLOSE: f64 = "power_ratio.close", ratio(0.001, 1.0), Value::Ratio(0.1),
            "power_ratio: how far goodput may be from the load, as a share of the goodput, epsilon.";
        POWER_RATIO_STABLE: u64 = "power_ratio.stable", count(1, 1000), Value::Count(2),
            "power_ratio: epochs in a row with goodput close to the load that end a cool-down, Ns.";
        POWER_RATIO_CONFIRM: u64 = "power_ratio.confirm", count(0, 1000), Value::Count(7),
            "power_ratio: further epochs in a row that must confirm the peak, Nf.";
        POWER_RATIO_CHANGE: f64 = "power_ratio.change", ratio(0.1, 100.0), Value::Ratio(2.0),
            "power_ratio: how many times the largest error of the discovery an observation must be off to be a change of capacity.";
        LONG_STREAMS_MAX: u64 = "long_streams.max", count(1, 10_000_000), Value::Count(10_000),
            "Upgraded connections, server-sent events, other long streams, and exchanges that wait for slow clients, open at once; they hold no weight of the in-flight limit.";
        LONG_STREAMS_MODE: Option<Chosen<Mode>> = "long_streams.mode", choice::<Mode>(), Value::None,
            "Whether long_streams.max acts, only counts what it would refuse, or is not consulted; none: as mode says.";
        LONG_STREAM_AFTER: Span = "long_streams.after", span(S, DAY), Value::Span(Duration::from_secs(60)),
            "A response still streaming after this long counts as a long stream, and so does a gRPC call whose client is silent.";
        TLS_SESSIONS_MODE: Chosen<Mode> = "tls.sessions.mode", choice::<Mode>(), Value::Choice("off"),
            "Whether new TLS sessions for the application are let in only while its capacity is not taken, those beyond are only counted, or all are let in. Who resumes a session is always let in. It needs a capacity, found or given.";
        SCHEDULER: Chosen<SchedulerKind> = "scheduler", choice::<SchedulerKind>(), Value::Choice("strict"),
            "The order in which classes are served.";
        STARVATION_MAX: Option<Span> = "starvation.max", span(MS, HOUR), Value::None,
            "Under strict priority, a request that has waited this long goes before all but the top priority.";
        APPLICATION_INGRESS_RATE: Option<PerSecond> = "ingress.rate", RATE, Value::None,
            "Requests admitted per second over all classes; more are refused.";
        APPLICATION_INGRESS_BURST: f64 = "ingress.burst", ratio(1.0, 1e9), Value::Ratio(10.0),
            "Requests over ingress.rate admitted at once after a quiet spell.";
        APPLICATION_INGRESS_MODE: Option<Chosen<Mode>> = "ingress.mode", choice::<Mode>(), Value::None,
            "Whether ingress.rate acts, only counts what it would refuse, or is not consulted; none: as mode says.";
        APPLICATION_EGRESS_RATE: Option<PerSecond> = "egress.rate", RATE, Value::None,
            "Requests started per second over all classes; more wait in their queues.";
        APPLICATION_EGRESS_BURST: f64 = "egress.burst", ratio(1.0, 1e9), Value::Ratio(10.0),
            "Requests over egress.rate started at once after a quiet spell.";
        APPLICATION_EGRESS_MODE: Option<Chosen<Mode>> = "egress.mode", choice::<Mode>(), Value::None,
            "Whether egress.rate acts, only counts what it would hold back, or is not consulted; none: as mode says.";
        APPLICATION_QUEUE_MODE: Option<Chosen<Mode>> = "queue.mode", choice::<Mode>(), Value::None,
            "Whether the bounds of all queues (queue.max, queue.bytes.max, queue.wait.max, deadlines, CoDel) act, only count what they would refuse, or are not consulted; none: as mode says. Without them a class's queue still ends at 100,000 requests and 64 MiB of heads, or at its own bounds where those are larger.";
        REFUSAL_STATUS: Chosen<RefusalStatus> = "refusal.status", choice::<RefusalStatus>(), Value::Choice("by_reason"),
            "Status of refusals for overload.";
        REFUSAL_RETRY_AFTER: Span = "refusal.retry_after", span(S, HOUR), Value::Span(Duration::from_secs(5)),
            "Retry-After of refusals, in whole seconds.";
        BALANCE: Chosen<BalancePolicy> = "balance", choice::<BalancePolicy>(), Value::Choice("power_of_two"),
            "How a server is chosen.";
        CONNECT_TIMEOUT: Span = "upstream.connect.timeout", span(MS, HOUR), Value::Span(Duration::from_secs(3)),
            "Time to connect to a server, TLS included.";
        RESPONSE_TIMEOUT: Span = "upstream.response.timeout", span(MS, DAY), Value::Span(Duration::from_secs(60)),
            "Time from a request's last byte until the server's response head.";
        UPSTREAM_BODY_IDLE_TIMEOUT: Span = "upstream.body.idle_timeout", span(MS, DAY), Value::Span(Duration::from_secs(60)),
            "How long a server may send nothing of a response's body, unless it waits for more of the request.";
        UPSTREAM_IDLE_TIMEOUT: Span = "upstream.idle.timeout", span(MS, HOUR), Value::Span(Duration::from_secs(15)),
            "How long an idle connection to a server is kept; below the server's own timeout.";
        UPSTREAM_KEEP_ALIVE: Chosen<KeepAlivePolicy> = "upstream.keep_alive", choice::<KeepAlivePolicy>(), Value::Choice("auto"),
            "Whether connections to servers are kept from one request to the next. auto: unless requests on new and idle connections wait for those in use, as with servers whose threads wait on idle connections (Puma, Apache prefork); on HTTP/1 without TLS, up to 400 requests a second.";
        UPSTREAM_IDLE_MAX: u64 = "upstream.idle.max", count(1, 100_000), Value::Count(256),
            "Idle connections kept to each server by each core.";
        RETRIES_MAX: u64 = "retries.max", count(0, 10), Value::Count(1),
            "Times a request that got no answer is tried at another server: one of which nothing has reached a server, whatever its method, and one that may have reached it if its method is idempotent, within retries.budget.";
        RETRIES_BUDGET: f64 = "retries.budget", ratio(0.0, 1.0), Value::Ratio(0.2),
            "Requests that may have reached a server and are tried at another, as a share of those of the last 10 s. What was not sent, as where a connection is refused, does not count.";
        FAILURES_MAX: Option<u64> = "health.failures.max", count(1, 10_000), Value::Count(5),
            "Consecutive failures of live requests after which a server is taken out (passive check).";
        FAILURES_PAUSE: Span = "health.failures.pause", span(MS, HOUR), Value::Span(Duration::from_secs(10)),
            "How long a server taken out by live failures stays out, doubled each time in a row up to ten times.";
        PROBE_INTERVAL: Option<Span> = "health.probe.interval", span(Duration::from_millis(10), HOUR), Value::None,
            "Time between active health probes of each server; none: no probes.";
        PROBE_TIMEOUT: Span = "health.probe.timeout", span(MS, HOUR), Value::Span(Duration::from_secs(2)),
            "Time within which a probe must be answered.";
        PROBE_RISE: u64 = "health.probe.rise", count(1, 100), Value::Count(2),
            "Consecutive good probes that bring a server back.";
        PROBE_FALL: u64 = "health.probe.fall", count(1, 100), Value::Count(3),
            "Consecutive bad probes that take a server out.";
        SLOW_START: Span = "slow_start", span(Duration::ZERO, HOUR), Value::Span(Duration::ZERO),
            "Time over which a server that is new or back grows to its full weight.";
        RESOLVE_INTERVAL: Span = "resolve.interval", span(S, HOUR), Value::Span(Duration::from_secs(10)),
            "How often the names of servers are looked up again.";
        SPOOL: Bytes = "spool", size(0, GIB), Value::Size(256 * KIB),
            "Bytes of a body read ahead of a slow client or gathered before dispatch, an exchange.";
        BODY_BYTES_MAX: Option<Bytes> = "body.bytes.max", size(1, 1024 * GIB), Value::None,
            "Size of a request body; a larger one is answered 413.";
        HALF_CLOSED: Chosen<HalfClosed> = "half_closed", choice::<HalfClosed>(), Value::Choice("gone"),
            "Whether a client that has closed its sending half while it waits is still there; one that gives up looks the same.";
        CLIENT_RATE: Option<PerSecond> = "client.rate", RATE, Value::None,
            "Requests per second of one client; more are refused. What a client is, the application's client.key says.";
        CLIENT_BURST: f64 = "client.burst", ratio(1.0, 1e9), Value::Ratio(20.0),
            "Requests over client.rate one client may send at once after a quiet spell.";
        CLIENT_MODE: Option<Chosen<Mode>> = "client.mode", choice::<Mode>(), Value::None,
            "Whether client.rate acts, only counts what it would refuse, or is not consulted; none: as mode says.";
        CLIENTS_MAX: u64 = "client.tracked.max", count(16, 10_000_000), Value::Count(100_000),
            "Clients whose rate is remembered at once; beyond, the one longest unseen is forgotten.";
        ROOM_METHOD: Chosen<RoomMethod> = "waiting_room.method", choice::<RoomMethod>(), Value::Choice("off"),
            "Who gets which place in the waiting room; off: there is none. It needs a capacity, found or given.";
        ROOM_ROLE: Chosen<RoomRole> = "waiting_room.role", choice::<RoomRole>(), Value::Choice("both"),
            "Whether this process gives times, checks them, or both.";
        ROOM_SLOT: Span = "waiting_room.slot", span(Duration::from_millis(100), Duration::from_secs(60)), Value::Span(S),
            "Length of a slot: times are promised by slots.";
        ROOM_HORIZON: Span = "waiting_room.horizon", span(S, DAY), Value::Span(HOUR),
            "How far ahead places are promised, 86,400 slots at most; beyond, newcomers are refused.";
        ROOM_FILL: f64 = "waiting_room.fill", ratio(0.1, 1.5), Value::Ratio(0.99),
            "Share of the capacity that is promised of each slot.";
        ROOM_HOLD: Span = "waiting_room.hold", span(MS, Duration::from_secs(60)), Value::Span(Duration::from_secs(5)),
            "How long who comes at the promised time may wait in the short queue; then one new time is given. Takes the place of queue.wait.max in classes that queue in the room.";
        ROOM_GRACE: Span = "waiting_room.grace", span(Duration::ZERO, HOUR), Value::Span(Duration::from_secs(30)),
            "How late one may come and still be let in; later, a new place with credit for the time waited.";
        ROOM_CLOCK_TOLERANCE: Span = "waiting_room.clock_tolerance", span(Duration::ZERO, Duration::from_secs(60)), Value::Span(Duration::from_millis(250)),
            "How early one may come, for clocks that differ.";
        ROOM_OVERBOOK_MAX: f64 = "waiting_room.overbook.max", ratio(0.0, 0.9), Value::Ratio(0.5),
            "Largest share of people who do not come back for which slots are filled beyond.";
        ROOM_EXTRA: f64 = "waiting_room.extra", ratio(0.0, 1.0), Value::Ratio(0.05),
            "Share of a full slot's capacity given besides to those whose promise was missed or who came too late.";
        ROOM_OPENS_AT: Option<u64> = "waiting_room.opens_at", count(1, 253_402_300_799), Value::None,
            "Method event: when doors open, seconds since 1970; none: not yet known, everybody waits.";
        ROOM_ORDER: Chosen<RoomOrder> = "waiting_room.order", choice::<RoomOrder>(), Value::Choice("shuffled"),
            "Method event: in which order those who came before the doors open are let in.";
        ROOM_ROUND: Span = "waiting_room.round", span(S, HOUR), Value::Span(Duration::from_secs(30)),
            "Method random: length of a round; places are drawn at its end.";
        ROOM_BLOCK: u64 = "waiting_room.block", count(1, 100_000), Value::Count(1),
            "Places taken from the slot table at once; more than one where several gateways share a table.";
        ROOM_SESSIONS: bool = "waiting_room.session.pass", Kind::Flag, Value::Flag(true),
            "Whether who was let in gets a pass for further requests.";
        ROOM_SESSION_IDLE: Span = "waiting_room.session.idle", span(S, DAY), Value::Span(Duration::from_secs(300)),
            "A pass ends this long after its last use.";
        ROOM_SESSION_TOTAL: Span = "waiting_room.session.total", span(S, WEEK), Value::Span(HOUR),
            "A pass ends this long after its first use, however much it is used.";
        ROOM_REPORT_TIMEOUT: Span = "waiting_room.report.timeout", span(Duration::from_millis(100), HOUR), Value::Span(Duration::from_secs(5)),
            "Role generate: after this long without a report of the check it is said to be lost, and the last capacity holds.";
        ROOM_REPORT_KEEP: Span = "waiting_room.report.keep", span(S, DAY), Value::Span(Duration::from_secs(60)),
            "Role generate: how long the last capacity of a check holds without a report; then, if none reports, capacity.floor, or half of it where there is none.";
        ROOM_CARRY: Chosen<RoomCarry> = "waiting_room.carry", choice::<RoomCarry>(), Value::Choice("cookie"),
            "How a browser carries the token of its time; programs have it in the document.";
        ROOM_POLL: Span = "waiting_room.poll", span(S, HOUR), Value::Span(Duration::from_secs(20)),
            "How often the page of who waits asks how things stand, at least; as its time comes near, once a quarter of what is left has passed, a second at least.";
        ROOM_FORM_BYTES_MAX: Bytes = "waiting_room.form.bytes.max", size(0, 16 * MIB), Value::Size(64 * KIB),
            "Size, without its files, of a form whose sender must wait and that is offered again in the page; a larger one has to be sent again.";
        ROOM_FORM_FILES_MAX: Bytes = "waiting_room.form.files.max", size(0, GIB), Value::Size(16 * MIB),
            "Bytes of files in such a form. They are read past and not kept: the page asks for them again; a form with more of them has to be sent again as a whole.";
    }
    Class {
        PRIORITY: u64 = "priority", count(0, 7), Value::Count(3),
            "0 (least) to 7. The top, 7, waits for nothing: it passes the in-flight limit.";
        WEIGHT: u64 = "weight", count(1, 100_000), Value::Count(1),
            "Weight units of the in-flight limit one request takes.";
        SHARE: u64 = "share", count(1, 100_000), Value::Count(1),
            "Share of the class under the weighted scheduler.";
        DEADLINE: Option<Span> = "deadline", span(MS, HOUR), Value::None,
            "A request not started this long after its arrival is refused, not started late.";
        GOODPUT_WITHIN: Span = "goodput.within", span(MS, HOUR), Value::Span(Duration::from_secs(10)),
            "A response without error counts as goodput when it is complete within this time.";
        INGRESS_RATE: Option<PerSecond> = "ingress.rate", RATE, Value::None,
            "Requests of the class admitted per second; more are refused.";
        INGRESS_BURST: f64 = "ingress.burst", ratio(1.0, 1e9), Value::Ratio(10.0),
            "Requests over ingress.rate admitted at once after a quiet spell.";
        INGRESS_MODE: Option<Chosen<Mode>> = "ingress.mode", choice::<Mode>(), Value::None,
            "Whether ingress.rate acts, only counts what it would refuse, or is not consulted; none: as the application's ingress.mode says.";
        EGRESS_RATE: Option<PerSecond> = "egress.rate", RATE, Value::None,
            "Requests of the class started per second; more wait in its queue.";
        EGRESS_BURST: f64 = "egress.burst", ratio(1.0, 1e9), Value::Ratio(10.0),
            "Requests over egress.rate started at once after a quiet spell.";
        EGRESS_MODE: Option<Chosen<Mode>> = "egress.mode", choice::<Mode>(), Value::None,
            "Whether egress.rate acts, only counts what it would hold back, or is not consulted; none: as the application's egress.mode says.";
        QUEUE_MODE: Option<Chosen<Mode>> = "queue.mode", choice::<Mode>(), Value::None,
            "Whether the bounds of the queue (queue.max, queue.bytes.max, queue.wait.max, deadline, CoDel) act, only count what they would refuse, or are not consulted; none: as the application's queue.mode says.";
        QUEUE_MAX: u64 = "queue.max", count(0, 10_000_000), Value::Count(1_000),
            "Requests of the class waiting at once.";
        QUEUE_BYTES_MAX: Bytes = "queue.bytes.max", size(0, 1024 * GIB), Value::Size(16 * MIB),
            "Bytes of request heads of the class waiting at once.";
        QUEUE_WAIT_MAX: Option<Span> = "queue.wait.max", span(MS, HOUR), Value::Span(Duration::from_millis(500)),
            "Longest wait; then the request is refused.";
        QUEUE_DISCIPLINE: Chosen<Discipline> = "queue.discipline", choice::<Discipline>(), Value::Choice("adaptive_lifo"),
            "Order within the class.";
        QUEUE_STANDS_AFTER: Span = "queue.stands_after", span(MS, HOUR), Value::Span(Duration::from_millis(100)),
            "adaptive_lifo: the queue stands while a newcomer would wait at least this long in order of arrival.";
        QUEUE_CODEL: bool = "queue.codel.enabled", Kind::Flag, Value::Flag(false),
            "Whether CoDel drops from the queue's head when waits stay over the target.";
        QUEUE_CODEL_TARGET: Span = "queue.codel.target", span(MS, HOUR), Value::Span(Duration::from_millis(20)),
            "CoDel: the wait that may stand.";
        QUEUE_CODEL_INTERVAL: Span = "queue.codel.interval", span(MS, HOUR), Value::Span(Duration::from_millis(200)),
            "CoDel: how long waits may stay over the target before the first drop.";
        CLASS_IN_FLIGHT_MAX: Option<u64> = "in_flight.max", count(1, 1_000_000), Value::None,
            "Weight units of the class in flight at once, within the application's limit.";
        IN_FLIGHT_LEAD: Option<Span> = "in_flight.lead", span(MS, HOUR), Value::None,
            "How long before one of the class is expected to end the next may start that the class's in_flight.max holds back, one at a time: it is at the server when that is free. Only where the times of the class are so steady that at least three in four end within the lead; without in_flight.max it is nothing.";
        CLASS_IN_FLIGHT_MODE: Option<Chosen<Mode>> = "in_flight.mode", choice::<Mode>(), Value::None,
            "Whether the class's in_flight.max acts, only counts what it would hold back, or is not consulted; none: as the application's in_flight.mode says.";
        ROOM_QUEUES: bool = "waiting_room.queues", Kind::Flag, Value::Flag(true),
            "Whether requests of the class go through the waiting room; else they pass it by.";
        CLASS_ROOM_METHOD: Option<Chosen<ClassRoomMethod>> = "waiting_room.method", choice::<ClassRoomMethod>(), Value::None,
            "Who of the class, and of classes that name it in waiting_room.group, gets which place; none: as waiting_room.method of the application says. Where that is off, there is no room.";
        CLASS_ROOM_OPENS_AT: Option<u64> = "waiting_room.opens_at", count(1, 253_402_300_799), Value::None,
            "Method event: when their doors open, seconds since 1970; none: as the application's waiting_room.opens_at says.";
        CLASS_ROOM_ORDER: Option<Chosen<RoomOrder>> = "waiting_room.order", choice::<RoomOrder>(), Value::None,
            "Method event: in which order those of them who came before the doors open are let in; none: as the application's waiting_room.order says.";
        CLASS_ROOM_ROUND: Option<Span> = "waiting_room.round", span(S, HOUR), Value::None,
            "Method random: length of their rounds; none: as the application's waiting_room.round says.";
        ROOM_SHARE: Option<f64> = "waiting_room.share", ratio(0.001, 1.0), Value::None,
            "Share of each slot kept for the class and those that name it in waiting_room.group, for up to 8 classes; where they add up to one or more, each gets its part, and nobody else can be promised a place: who cannot go on at once is refused (horizon_full). What none of them has taken when the slot comes goes to newcomers who overtake nobody by it; while others wait it stays free.";
    }
    Server {
        SERVER_WEIGHT: u64 = "weight", count(1, 10_000), Value::Count(100),
            "Share of the server among its peers.";
        SERVER_IN_FLIGHT_MAX: Option<u64> = "in_flight.max", count(1, 1_000_000), Value::None,
            "Requests in flight at the server at once; when every server is full, requests wait.";
        SERVER_DRAIN: bool = "drain", Kind::Flag, Value::Flag(false),
            "Takes no new request; sticky sessions included.";
    }
}

impl Knob {
    /// The knob of that name and scope.
    #[must_use]
    pub fn find(scope: Scope, name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|knob| knob.scope() == scope && knob.name() == name)
    }

    /// Checks a value against the row.
    ///
    /// # Errors
    ///
    /// [`Fault`] with what the row allows.
    pub fn check(self, value: Value) -> Result<(), Fault> {
        if self.kind().admits(value) || (self.is_optional() && value == Value::None) {
            return Ok(());
        }
        Err(Fault { found: value.to_string(), expected: self.expected() })
    }

    /// The allowed value nearest to `value`, see [`Kind::nearest`].
    ///
    /// # Errors
    ///
    /// [`Fault`] if no allowed value is like it.
    pub fn nearest(self, value: Value) -> Result<Value, Fault> {
        if self.is_optional() && value == Value::None {
            return Ok(value);
        }
        self.kind()
            .nearest(value)
            .ok_or_else(|| Fault { found: value.to_string(), expected: self.expected() })
    }

    /// Reads a value as people write it and checks it.
    ///
    /// # Errors
    ///
    /// [`Fault`] with what the row allows.
    pub fn parse(self, text: &str) -> Result<Value, Fault> {
        let value = if self.is_optional() && text.trim() == "none" {
            Value::None
        } else {
            self.kind().parse(text).map_err(|fault| Fault { expected: self.expected(), ..fault })?
        };
        self.check(value)?;
        Ok(value)
    }

    /// What the row allows, in words.
    #[must_use]
    pub fn expected(self) -> String {
        let mut words = self.kind().expected();
        if self.is_optional() {
            words.push_str(", or \"none\"");
        }
        words
    }
}
