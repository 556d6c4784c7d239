//! What gateway and admin share: clock, locks around control, per-core handles, meters, snapshots.

mod clock;
pub mod servers;

pub use clock::Clock;
