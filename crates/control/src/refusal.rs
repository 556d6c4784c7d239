//! Why a request or connection was not served: the reasons that meters, logs and clients see.

macro_rules! refusals {
    ($($(#[$doc:meta])+ $variant:ident = $name:literal, $status:literal, $public:literal;)+) => {
        /// The reason a request or a connection was refused.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Refusal { $($(#[$doc])+ $variant,)+ }

        impl Refusal {
            /// Every reason, in table order.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The reason's name in meters, logs and problem documents.
            #[must_use]
            pub const fn name(self) -> &'static str { match self { $(Self::$variant => $name,)+ } }

            /// The HTTP status it is answered with, unless the application's `refusal.status`
            /// knob sets another for refusals for overload ([`Refusal::is_overload`]).
            #[must_use]
            pub const fn status(self) -> u16 { match self { $(Self::$variant => $status,)+ } }

            /// One sentence for the client.
            #[must_use]
            pub const fn public(self) -> &'static str { match self { $(Self::$variant => $public,)+ } }

            /// Position in [`Refusal::ALL`], for dense counters.
            #[must_use]
            pub const fn index(self) -> usize { self as usize }
        }
    };
}

refusals! {
    /// The class's or application's ingress bucket was empty.
    IngressRate = "ingress_rate", 429, "Requests of this kind arrive faster than they are admitted.";
    /// The client's own bucket was empty.
    ClientRate = "client_rate", 429, "You are sending requests faster than allowed.";
    /// The class's queue was full in count or bytes, or this request was displaced by a later one.
    QueueFull = "queue_full", 503, "Too many requests are waiting already.";
    /// CoDel dropped the request: the queue stood for longer than its interval.
    Codel = "codel", 503, "Requests have been waiting too long.";
    /// The class's maximum wait passed.
    WaitTooLong = "wait_too_long", 503, "The request has waited as long as it may.";
    /// The client's deadline had passed before the request could start.
    DeadlinePassed = "deadline_passed", 503, "The deadline of the request has passed.";
    /// The application is closed for maintenance.
    Maintenance = "maintenance", 503, "The application is closed for maintenance.";
    /// No upstream server is in service.
    NoServer = "no_server", 503, "No server is available.";
    /// The gateway holds as many connections as it may.
    Connections = "connections", 503, "Too many connections.";
    /// The client holds as many connections as it may.
    ClientConnections = "client_connections", 429, "Too many connections from your address.";
    /// As many upgraded connections and long streams are open as may be.
    LongStreams = "long_streams", 503, "Too many streams are open.";
    /// The waiting room has no place left within its horizon.
    HorizonFull = "horizon_full", 503, "So many are waiting that no time can be promised.";
    /// The waiting room is closed to newcomers.
    RoomClosed = "room_closed", 503, "The doors are closed at present.";
    /// The request was made in advance of any visit, and who visits would have to wait.
    Prefetch = "prefetch", 503, "Nothing is given in advance while visitors wait.";
    /// A new TLS session came while all that the application can do was taken.
    NewSession = "new_session", 503, "No new visitors are taken at present.";
}

impl Refusal {
    /// Whether it says "too much load" and so follows the `refusal.status` knob and carries
    /// `Retry-After`.
    #[must_use]
    pub const fn is_overload(self) -> bool {
        matches!(
            self,
            Self::IngressRate
                | Self::QueueFull
                | Self::Codel
                | Self::WaitTooLong
                | Self::DeadlinePassed
                | Self::HorizonFull
        )
    }
}

#[cfg(test)]
mod tests {
    use super::Refusal;

    #[test]
    fn index_is_the_position_in_all_and_names_are_unique() {
        let mut names: Vec<_> = Refusal::ALL.iter().map(|r| r.name()).collect();
        for (position, refusal) in Refusal::ALL.iter().enumerate() {
            assert_eq!(refusal.index(), position);
        }
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Refusal::ALL.len());
    }
}
