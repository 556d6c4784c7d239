//! The waiting room: a time for everyone who must wait, and every promise kept.
//!
//! Who comes while there is room goes on to admission. Who comes while there is none is given a [`Promise`]: the earliest
//! slot with room. The promise is signed and carried by the visitor; the room keeps numbers by slot and nothing of
//! any visitor. Who comes back at the promised time is let in.
//!
//! | what | file |
//! |---|---|
//! | the earliest slot with room, quotas, capacity that rises and falls | `slot_table.rs`, `order.rs`, `over.rs` |
//! | where in its slot a place lies | `spread.rs` |
//! | who comes before his time where there is more room than was promised | `calls.rs` |
//! | people who do not come back, slots filled beyond by as many | `no_shows.rs` |
//! | promises used twice | `replay.rs` |
//! | promises that have no credit when they come late | `spent.rs` |
//! | doors that open, rounds drawn by lot, and where they lie | `draws.rs`, `stretch.rs` |
//! | what sessions cost once they are in | `sessions.rs` |
//! | what survives the process | `snapshot.rs` |
//! | what was promised by other settings, laid into these | `lines.rs` |
//! | how much may be promised | `budget.rs` |
//! | what becomes of it as time passes | `passage.rs` |
//! | what a check tells the generator, where they are two processes | `report.rs` |
//! | what several checks tell is together | `checks.rs` |
//! | what they tell each other | `between.rs` |
//! | how it stands | `standing.rs` |
//! | what each visitor is answered | `room.rs` |
//!
//! Source: WebQ (section III: TokenGen, TokenCheck, the array of slots). Departures are numbered in the files.
//!
//! Invariants: a promise that is out is never changed, and is kept, missed or a no-show in the end, one of these; no slot after the present one holds more work than its budget;
//! nothing is allocated for a visitor.

mod between;
mod budget;
mod calls;
mod checks;
mod draws;
pub mod grammar;
mod lines;
mod no_shows;
mod order;
mod over;
mod passage;
mod promises;
mod replay;
mod report;
mod room;
mod sessions;
mod settings;
mod slot_table;
mod snapshot;
mod spent;
mod spread;
mod standing;
mod stretch;
#[cfg(test)]
mod tests;
mod tree;

use std::time::Duration;

pub use between::{Answered, Mark, Revoked, USED_MAX, Used};
pub use checks::{CheckView, ClockDifference};
pub use report::{Again, Owed, Report, Returned};
pub use room::Room;
pub use settings::{ClassRoom, RoomSettings, SessionSettings};
pub use slot_table::{Block, LANES_MAX, Places, SLOTS_MAX, SlotTable, Work};
pub use snapshot::{RoomSnapshot, SnapshotFault};
pub use standing::{GroupView, SlotView, Standing};

use crate::{ClassId, Refusal, Timestamp, capacity::Capacity};

/// What is promised to a visitor. Plain facts: a token is this, signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Promise {
    /// A time, or a lot that decides on one.
    pub kind: Kind,
    /// The class of the request.
    pub class: ClassId,
    /// When he first asked, to a millisecond; kept over new times.
    pub since: Timestamp,
    /// When he is to come, to a millisecond; a lot: when it is drawn.
    pub at: Timestamp,
    /// Work that was booked for him, thousandths of a work unit.
    pub work: u32,
    /// Times he was given before that were not kept.
    pub renewed: u8,
    /// No other promise of the process has it; a lot's says where it is in the draw.
    pub number: u64,
}

/// What a promise is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A time.
    Place,
    /// A lot in a draw.
    Lot,
}

/// The right to go on without waiting again, for further requests. Plain facts: signed, it is a cookie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pass {
    /// The class through which its holder came in; it holds for all of the application but classes with other doors.
    pub class: ClassId,
    /// First use.
    pub begun: Timestamp,
    /// It ends then unless it is used before.
    pub until: Timestamp,
    /// No other pass of the process has it.
    pub number: u64,
}

/// The right to pass the room by until a time, for programs of partners. Plain facts: signed, it is in a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Bypass {
    /// The class whose requests it is for.
    pub class: ClassId,
    /// When it was made.
    pub issued: Timestamp,
    /// Until then, [`BYPASS_MAX`] after it was made at most.
    pub until: Timestamp,
    /// By which logs name it.
    pub number: u64,
}

/// How long a pass lasts that is not used again, where it is to last `idle` from its last use: a sixteenth longer, since it is
/// written anew only when it lasts no longer than that.
#[must_use]
pub fn pass_lasts(idle: Duration) -> Duration {
    idle + idle / 16
}

/// How long a [`Bypass`] may last.
pub const BYPASS_MAX: Duration = Duration::from_secs(31 * 86_400);

/// The answer to a visitor.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Answer {
    /// He goes on to admission.
    Enter(Entry),
    /// He is told when to come.
    Wait(Place),
    /// He is refused: the horizon is full, or doors are closed.
    Refuse(Refusal),
    /// Role `check`: times are given elsewhere.
    Elsewhere {
        /// Whether he takes his promise along: it came too late, and has credit there.
        with_promise: bool,
    },
}

/// How somebody is let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Why.
    pub how: How,
    /// How long he may wait in the short queue; then [`Room::missed`] gives a new time.
    pub hold: Duration,
    /// The priority of his request, if not his class's.
    pub priority: Option<u8>,
    /// A pass for further requests, if there are any.
    pub pass: Option<Pass>,
}

/// Why somebody is let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum How {
    /// The room does not concern him: it is off, his class passes it by, or no capacity is known.
    Unconcerned,
    /// There is room.
    Direct,
    /// He came at the promised time.
    Kept,
    /// He came late, within the grace.
    Late,
    /// His promise seems to have been used before: he is let in behind everybody. If there is no room for him, see
    /// [`Room::not_again`].
    Replayed,
}

/// A promise and what to tell about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// To be signed and handed out. Who came early gets his own again, and so may who has used it.
    pub promise: Promise,
    /// What to show.
    pub estimate: Estimate,
}

/// How things stand for somebody who waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Estimate {
    /// When to come, or when the lot is drawn; for who seems to have used his promise, when to come again. `None`: the
    /// doors open at a time not known yet.
    pub at: Option<Timestamp>,
    /// Whether it is a lot that is still to be drawn.
    pub undrawn: bool,
    /// People promised earlier slots; for a lot, people in the draw.
    pub ahead: u64,
    /// People promised later slots.
    pub behind: u64,
    /// Since he first asked.
    pub waited: Duration,
    /// Whether he came before his time.
    pub early: bool,
}

/// The answer to a request with a pass.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PassAnswer {
    /// It goes on to admission.
    Enter {
        /// The pass as it is to be set again, since it was used.
        renewed: Option<Pass>,
    },
    /// The pass is over, or opens other doors than those of the request: a visitor like others.
    Over,
}

macro_rules! counts {
    ($($(#[$doc:meta])+ $variant:ident = $name:literal,)+) => {
        /// What the room counts, by class; the labels of [`Meter::ROOM`](crate::meters::Meter::ROOM).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum RoomCount { $($(#[$doc])+ $variant,)+ }

        /// Labels of [`RoomCount`], in the order of the enum.
        pub const ROOM_COUNTS: &[&str] = &[$($name),+];

        const ALL_COUNTS: &[RoomCount] = &[$(RoomCount::$variant),+];
    };
}

counts! {
    /// Let in without waiting.
    Direct = "direct",
    /// Promised a time, a new one too, or given a lot. Of times that are promised each is kept, missed or a no-show once it
    /// is over, unless who came for it has left the short queue or was refused there for something else than overload, or went
    /// on while nobody was held back: the room off, watching, or without a capacity.
    Promised = "promised",
    /// Came at the promised time, or within the grace, and got through the short queue to a server.
    Kept = "kept",
    /// Came at the promised time, and the short queue had no room, or no server could be reached: he had to be given another.
    Missed = "missed",
    /// Did not come within the grace.
    NoShow = "no_show",
    /// Came too early, and got the same time again.
    Early = "early",
    /// Came after the grace.
    Late = "late",
    /// Came with a promise that seems to have been used before.
    Replayed = "replayed",
    /// Came with a token or pass that is not ours.
    Forged = "forged",
    /// Refused, the horizon being full.
    HorizonFull = "horizon_full",
    /// Refused, doors being closed.
    Closed = "closed",
    /// Requests with a pass.
    Passed = "passed",
    /// Requests that passed the room by, with a token for that.
    Bypassed = "bypassed",
}

/// SplitMix64's output function: a bijection of 64 bits.
///
/// Source: G. L. Steele, D. Lea, C. H. Flood, Fast splittable pseudorandom number generators, OOPSLA 2014.
const fn mix(number: u64) -> u64 {
    let z = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}
