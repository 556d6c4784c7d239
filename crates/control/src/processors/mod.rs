//! The processors of a host, shared among its applications: how many each needs, gets, and which.
//!
//! Once an interval, for all applications together:
//!
//! ```text
//! time used, requests ──► Need ──► Claim ──► allocate ──► Halves ──► place ──► processors of each
//! ```
//!
//! What an application asks for itself, knowing what comes to it, is [`Demand`].
//!
//! An amount is counted in halves of a processor ([`Halves`]): two applications may share one, each with a half.
//! No amount is ever 0, since an application needs a processor to run on, be it idle.
//!
//! Source: Guitart, Carrera, Beltran, Torres & Ayguadé, "Dynamic CPU Provisioning for Self-Managed Secure Web
//! Applications in SMP Hosting Platforms", Computer Networks 52, 2008, section 3.1 (the "eDragon CPU Manager").

mod allocation;
mod demand;
mod need;
mod placement;

pub use allocation::{Claim, Policy, Sharing, allocate};
pub use demand::Demand;
pub use need::Need;
pub use placement::{Placement, place};

/// A number of processors, counted in halves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Halves(u32);

impl Halves {
    /// The least an application has.
    pub const ONE: Self = Self(1);

    /// So many halves.
    #[must_use]
    pub const fn new(halves: u32) -> Self {
        Self(halves)
    }

    /// So many whole processors.
    #[must_use]
    pub const fn whole(processors: u32) -> Self {
        Self(processors.saturating_mul(2))
    }

    /// The fewest halves that hold so many processors; what is no number or below 0 is 0.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a cast saturates")]
    pub fn holding(processors: f64) -> Self {
        Self((processors * 2.0).ceil() as u32)
    }

    /// How many halves.
    #[must_use]
    pub const fn count(self) -> u32 {
        self.0
    }

    /// How many processors.
    #[must_use]
    pub fn processors(self) -> f64 {
        f64::from(self.0) / 2.0
    }
}
