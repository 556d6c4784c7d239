//! Capacity: how much an application's servers can do, found from what departs or told from outside.
//!
//! | who says it | file |
//! |---|---|
//! | [`KneeTrack`], by the knee of the departure rate (`in_flight.algorithm = "knee_track"`, the default) | `knee_track/` |
//! | [`PowerRatio`], by the peak of goodput over response time, as WebQ does (`"power_ratio"`) | `power_ratio/` |
//! | [`Given`]: by hand, by the API, or by an estimator of one's own | `given.rs` |
//! | [`ServerShares`]: what a server lost or added changes | `server_shares.rs` |
//!
//! Capacity has two faces: a limit of weight in flight, at which admission holds the application, and a
//! rate, which the waiting room promises. The rate is in requests a second of the present mix, or in
//! work units, one of which is what a request of the default class costs.

mod given;
mod knee_track;
mod per_class;
mod power_ratio;
mod server_shares;
#[cfg(test)]
mod tests;

pub use given::Given;
pub use knee_track::{Found, FoundClass, KneeTrack};
pub use per_class::COST_CLASSES;
pub use power_ratio::{PowerRatio, PowerRatioSettings};
pub use server_shares::ServerShares;

use crate::Timestamp;

/// Between what an estimate of the capacity may move, requests a second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CapacityBounds {
    /// It is never taken for less.
    pub floor: Option<f64>,
    /// It is never taken for more.
    pub ceiling: Option<f64>,
}

impl CapacityBounds {
    /// Exactly this.
    #[must_use]
    pub const fn exactly(per_s: f64) -> Self {
        Self { floor: Some(per_s), ceiling: Some(per_s) }
    }

    /// The capacity that is given, if nothing is left to find.
    #[must_use]
    pub fn given(&self) -> Option<f64> {
        self.floor.filter(|floor| self.ceiling == Some(*floor))
    }

    /// Puts `per_s` between floor and ceiling; the floor wins if they cross.
    #[must_use]
    pub fn clamp(&self, per_s: f64) -> f64 {
        per_s.min(self.ceiling.unwrap_or(f64::INFINITY)).max(self.floor.unwrap_or(0.0))
    }
}

/// How fast work may come and goes, work units a second: beyond what is known of the capacity, and before anything is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    /// May come now so that the short queue neither runs dry nor grows.
    pub may_come_per_s: f64,
    /// Departs now: as much the servers can do.
    pub departs_per_s: f64,
    /// Work units that stand in the short queue beyond what it is to hold.
    pub standing: f64,
    /// Relative standard error of the capacity, of what has been counted since it last changed; 0: it is given, or not known yet.
    pub error: f64,
}

/// What the waiting room goes by, as admission knows it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Capacity {
    /// Work units a second that may be promised; one is what a request of the default class costs. `None`: not known.
    pub per_s: Option<f64>,
    /// How fast work may come and goes now, if that is known.
    pub pace: Option<Pace>,
}

/// The estimate has moved, and why.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CapacityEvent {
    /// When.
    pub at: Timestamp,
    /// Why.
    pub cause: Cause,
    /// Requests a second before; `None`: nothing was known.
    pub before: Option<f64>,
    /// Requests a second from now on; `None`: the search begins anew.
    pub after: Option<f64>,
}

/// What is held of the capacity at one moment, for people.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CapacityState {
    /// Requests a second of the present mix; `None`: not known.
    pub per_s: Option<f64>,
    /// Work units a second; one is what a request of the default class costs.
    pub work_per_s: Option<f64>,
    /// The bounds of the knobs.
    pub bounds: CapacityBounds,
    /// What somebody told by the API and what is in force still.
    pub told: Option<Given>,
    /// Whether the in-flight limit keeps something waiting.
    pub limit_holds: bool,
}

/// Why an estimate has moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// A search has ended.
    Found,
    /// Work departs more slowly than the estimate says: capacity fell.
    Fall,
    /// Work departs faster than the estimate says: capacity rose.
    Rise,
    /// The deviation is explained by the costs of classes, which have been fitted again.
    Costs,
    /// A probe above the limit found more.
    More,
    /// A probe above the limit found that it grows with the limit: a search begins.
    Search,
    /// More work than the estimate departed for a second.
    Proof,
    /// A server was lost or added.
    Servers,
    /// Somebody asked for a new search.
    Told,
    /// Somebody gave the capacity or took it back, or what was given for a time has ended.
    Given,
    /// What was found before has been taken over: by a process before this one, or before `in_flight.max` held the limit below it.
    Restored,
}

impl Cause {
    /// Every cause, in the order of the enum.
    pub const ALL: &'static [Self] = &[
        Self::Found,
        Self::Fall,
        Self::Rise,
        Self::Costs,
        Self::More,
        Self::Search,
        Self::Proof,
        Self::Servers,
        Self::Told,
        Self::Given,
        Self::Restored,
    ];

    /// Position in [`Cause::ALL`], for dense counters.
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The name in logs and API.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Found => "found",
            Self::Fall => "fall",
            Self::Rise => "rise",
            Self::Costs => "costs",
            Self::More => "more",
            Self::Search => "search",
            Self::Proof => "proof",
            Self::Servers => "servers",
            Self::Told => "told",
            Self::Given => "given",
            Self::Restored => "restored",
        }
    }
}
