//! Share: the part of a limit or a rate that one holder may use by itself, until it expires.
//!
//! The whole of a limit lies on the line from 0 to 1. A share is a piece `[from, to)` of it, and of `L`
//! units it holds
//!
//! ```text
//! units(L) = ⌊L · to⌋ − ⌊L · from⌋
//! ```
//!
//! Pieces that cover the line without overlap so hold exactly `L` units together, whatever `L` is
//! and however it changes: the sum telescopes. A piece is divided like the whole, so that a fleet's
//! limit over gateways and a gateway's over its cores are one relation.
//!
//! Source: none; exact apportionment by cumulative rounding is folklore. Where several gateways ask for
//! shares, whoever gives them out sees to it that they do not overlap before they expire.

use std::{borrow::Cow, time::Duration};

use crate::{
    Timestamp,
    admission::{AdmissionSettings, Rate},
    limit::LimitBounds,
};

/// The end of the line, in the units in which pieces are cut: 2⁻³².
const END: u64 = 1 << 32;

/// A piece of the whole, held until it expires.
///
/// What it holds of a small limit may be nothing: then its holder starts nothing but the top
/// priority. Every call is O(1).
///
/// ```
/// use tidegate_control::{Timestamp, share::Share};
///
/// let until = Timestamp::FAR_FUTURE;
/// let parts = [0, 1, 2].map(|index| Share::WHOLE.part(index, 3, until));
/// // 10 units over three holders: ⌊10/3⌋ = 3, ⌊20/3⌋ − 3 = 3, 10 − 6 = 4.
/// assert_eq!(parts.map(|part| part.units(10)), [3, 3, 4]);
/// // Two units over three holders: one gets nothing, nothing is lost.
/// assert_eq!(parts.map(|part| part.units(2)), [0, 1, 1]);
/// // A part is divided like the whole.
/// assert_eq!(parts[2].part(0, 2, until).units(10) + parts[2].part(1, 2, until).units(10), 4);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    from: u64,
    to: u64,
    until: Timestamp,
}

impl Share {
    /// Everything, for ever: what a single gateway holds.
    pub const WHOLE: Self = Self { from: 0, to: END, until: Timestamp::FAR_FUTURE };

    /// Part `index` (from 0) of `parts` equal ones, until `until` or its own end, whichever is first.
    /// An index beyond the last, or no parts, hold nothing.
    #[must_use]
    pub fn part(self, index: u32, parts: u32, until: Timestamp) -> Self {
        let length = u128::from(self.to - self.from);
        let cut = |n: u64| {
            let at = length * u128::from(n.min(u64::from(parts))) / u128::from(parts.max(1));
            self.from + u64::try_from(at).unwrap_or(0)
        };
        let (from, to) = (cut(u64::from(index)), cut(u64::from(index) + 1));
        Self { from, to, until: self.until.min(until) }
    }

    /// The units it holds of a limit of `whole` units.
    #[must_use]
    pub fn units(self, whole: u64) -> u64 {
        let below = |at: u64| u128::from(whole) * u128::from(at) / u128::from(END);
        u64::try_from(below(self.to) - below(self.from)).unwrap_or(whole)
    }

    /// The rate it holds of a rate: the rates of parts add up to the whole's, to a billionth of an event
    /// a second. Its burst is at least one event, or a rate would never let anything pass; bursts of
    /// many holders may so add up to more than the whole's, by at most one event a holder.
    #[must_use]
    pub fn rate(self, whole: Rate) -> Rate {
        Rate { per_s: self.billionths(whole.per_s), burst: self.billionths(whole.burst).max(1.0) }
    }

    /// Whether it may still be used.
    #[must_use]
    pub fn is_valid(self, now: Timestamp) -> bool {
        now < self.until
    }

    /// How long it may still be used.
    #[must_use]
    pub fn lasts(self, now: Timestamp) -> Duration {
        self.until.since(now)
    }

    /// Its part of settings: of every rate, of bounds on the capacity, and of every bound on what is in
    /// flight or open. Bounds of
    /// queues stay, since what waits takes nothing that is shared; so does where an adaptive limit
    /// ends below, and it starts at one unit at least.
    #[must_use]
    pub(crate) fn of(self, settings: &AdmissionSettings) -> Cow<'_, AdmissionSettings> {
        if self.is_whole() {
            return Cow::Borrowed(settings);
        }
        let units = |whole: u32| u32::try_from(self.units(u64::from(whole))).unwrap_or(whole);
        let mut own = settings.clone();
        own.limit = LimitBounds {
            initial: units(settings.limit.initial),
            min: settings.limit.min,
            max: units(settings.limit.max),
        };
        own.dormant_max = units(settings.dormant_max);
        own.capacity.floor = settings.capacity.floor.map(|per_s| self.billionths(per_s));
        own.capacity.ceiling = settings.capacity.ceiling.map(|per_s| self.billionths(per_s));
        own.long_streams_max = self.units(settings.long_streams_max);
        own.ingress = settings.ingress.map(|rate| self.rate(rate));
        own.egress = settings.egress.map(|rate| self.rate(rate));
        for class in &mut own.classes {
            class.ingress = class.ingress.map(|rate| self.rate(rate));
            class.egress = class.egress.map(|rate| self.rate(rate));
            class.in_flight_max = class.in_flight_max.map(units);
        }
        Cow::Owned(own)
    }

    const fn is_whole(self) -> bool {
        self.to - self.from == END
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "clamped to 0..=10^18; NaN becomes 0; what f64 cannot hold is below its own precision"
    )]
    fn billionths(self, whole: f64) -> f64 {
        if self.is_whole() {
            return whole;
        }
        self.units((whole.clamp(0.0, 1e9) * 1e9).round() as u64) as f64 / 1e9
    }
}

impl Default for Share {
    fn default() -> Self {
        Self::WHOLE
    }
}

#[cfg(test)]
mod tests;
