//! The choices that knobs offer, each a small enum with names.

use crate::Refusal;

/// A closed set of names that a knob can be set to.
pub trait ChoiceSet: Sized + Copy + 'static {
    /// Every name, in the order of the enum.
    const NAMES: &'static [&'static str];

    /// The variant of that name.
    fn from_name(name: &str) -> Option<Self>;

    /// The variant's name.
    fn name(self) -> &'static str;
}

macro_rules! choices {
    ($($(#[$doc:meta])+ $name:ident { $($(#[$variant_doc:meta])+ $variant:ident = $text:literal,)+ })+) => {$(
        $(#[$doc])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$variant_doc])+ $variant,)+ }

        impl ChoiceSet for $name {
            const NAMES: &'static [&'static str] = &[$($text),+];

            fn from_name(name: &str) -> Option<Self> {
                match name { $($text => Some(Self::$variant),)+ _ => None }
            }

            fn name(self) -> &'static str {
                match self { $(Self::$variant => $text,)+ }
            }
        }
    )+};
}

choices! {
    /// How the in-flight limit is found.
    Algorithm {
        /// As set by hand.
        Fixed = "fixed",
        /// Additive increase, multiplicative decrease on errors and timeouts.
        Aimd = "aimd",
        /// TCP Vegas on response times.
        Vegas = "vegas",
        /// Netflix's Gradient2 on short- and long-term response times.
        Gradient2 = "gradient2",
        /// The knee of the departure rate: finds limit, capacity and costs of classes.
        KneeTrack = "knee_track",
        /// WebQ's peak of goodput over response time: limits starts a second, not what is in flight.
        PowerRatio = "power_ratio",
    }
    /// The order within a class's queue.
    Discipline {
        /// First come, first served.
        Fifo = "fifo",
        /// Last come, first served.
        Lifo = "lifo",
        /// First come, first served until the queue stands, then last come, first served.
        AdaptiveLifo = "adaptive_lifo",
    }
    /// The order between classes.
    SchedulerKind {
        /// The highest priority first.
        Strict = "strict",
        /// Each class in turn.
        RoundRobin = "round_robin",
        /// By shares of weight units: deficit round robin.
        Weighted = "weighted",
        /// The earliest deadline first.
        EarliestDeadline = "earliest_deadline",
    }
    /// How an upstream server is chosen.
    BalancePolicy {
        /// Each server in turn, by weight (smooth).
        RoundRobin = "round_robin",
        /// The server with the fewest requests in flight for its weight.
        LeastInFlight = "least_in_flight",
        /// The better of two random servers by peak EWMA of response time and requests in flight.
        PowerOfTwo = "power_of_two",
        /// By a hash of the client or a header, so that the same goes to the same.
        ConsistentHash = "consistent_hash",
    }
    /// Whether connections to servers are kept from one request to the next.
    KeepAlivePolicy {
        /// Unless requests on new and idle ones wait for those in use; at servers spoken to in HTTP/1 without TLS.
        Auto = "auto",
        /// Yes.
        Always = "always",
        /// No: a connection a request.
        Never = "never",
    }
    /// Whether a client that has closed its sending half is still there.
    HalfClosed {
        /// It may still read: keep its request.
        Waits = "waits",
        /// It has gone: drop its request.
        Gone = "gone",
    }
    /// Whether a control acts.
    Mode {
        /// Not consulted.
        Off = "off",
        /// Consulted and counted, never enforced.
        Watch = "watch",
        /// Enforced.
        Enforce = "enforce",
    }
    /// Who gets which place in the waiting room.
    RoomMethod {
        /// There is no room: everybody passes.
        Off = "off",
        /// First come, first served.
        Fifo = "fifo",
        /// Those who come within a round are shuffled at its end.
        Random = "random",
        /// Doors open at a time; those who came before are shuffled or in order.
        Event = "event",
        /// Everybody waits for the next slot at least, to try it out.
        Wait = "wait",
        /// Nobody new is let in; promises that are out are kept.
        Closed = "closed",
    }
    /// Who of a class gets which place, where that is not as in the whole room.
    ClassRoomMethod {
        /// First come, first served.
        Fifo = "fifo",
        /// Those who come within a round are shuffled at its end.
        Random = "random",
        /// Doors open at a time; those who came before are shuffled or in order.
        Event = "event",
        /// Everybody waits for the next slot at least.
        Wait = "wait",
        /// Nobody new is let in; promises that are out are kept.
        Closed = "closed",
    }
    /// How a browser carries the token of its time.
    RoomCarry {
        /// In a cookie.
        Cookie = "cookie",
        /// In the query of the page's URL.
        Query = "query",
    }
    /// What this process does of the waiting room.
    RoomRole {
        /// It gives times and checks them.
        Both = "both",
        /// It gives times, anywhere.
        Generate = "generate",
        /// It checks them, in line before the servers.
        Check = "check",
    }
    /// In which order those who came before the doors open are let in.
    RoomOrder {
        /// By lot.
        Shuffled = "shuffled",
        /// As they came.
        InOrder = "in_order",
    }
    /// The status of refusals for overload.
    RefusalStatus {
        /// What the reason says by itself.
        ByReason = "by_reason",
        /// 429 Too Many Requests.
        TooManyRequests = "429",
        /// 503 Service Unavailable.
        ServiceUnavailable = "503",
    }
}

impl ClassRoomMethod {
    /// The same, of the whole room.
    #[must_use]
    pub const fn of_room(self) -> RoomMethod {
        match self {
            Self::Fifo => RoomMethod::Fifo,
            Self::Random => RoomMethod::Random,
            Self::Event => RoomMethod::Event,
            Self::Wait => RoomMethod::Wait,
            Self::Closed => RoomMethod::Closed,
        }
    }
}

impl RefusalStatus {
    /// The status that a refusal is answered with.
    #[must_use]
    pub const fn of(self, refusal: Refusal) -> u16 {
        match self {
            Self::TooManyRequests if refusal.is_overload() => 429,
            Self::ServiceUnavailable if refusal.is_overload() => 503,
            _ => refusal.status(),
        }
    }
}
