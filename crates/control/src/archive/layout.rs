//! Which resolutions are kept, and for how long.

use std::time::Duration;

/// Points of one step, kept for some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resolution {
    /// Length of a point.
    pub step: Duration,
    /// How long points are kept; time in which nothing was measured does not count.
    pub keep: Duration,
}

impl Resolution {
    /// Points kept.
    pub(super) const fn points(&self) -> usize {
        self.keep.as_nanos().div_ceil(self.step.as_nanos()) as usize
    }
}

/// The resolutions of every archive, finest first, and the memory a point may take on average.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    resolutions: Vec<Resolution>,
    point_bytes: usize,
}

/// A layout that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LayoutFault {
    /// None, or more than [`Layout::RESOLUTIONS_MAX`].
    #[error("{0} resolutions: give 1 to {max}", max = Layout::RESOLUTIONS_MAX)]
    Number(usize),
    /// A step that is too short or too long.
    #[error("a step of {0:?}: give 1ms to 1h, in whole milliseconds")]
    Step(Duration),
    /// A step that is not a multiple of the next finer one.
    #[error(
        "a step of {coarse:?} after one of {fine:?}: each step must be a multiple of the one before it, and longer"
    )]
    NoMultiple {
        /// The finer step.
        fine: Duration,
        /// The step at fault.
        coarse: Duration,
    },
    /// Points that are gone before the next coarser one is complete, or too many of them.
    #[error("{keep:?} at {step:?}: keep at least one step of the next resolution and at most {max} points", max = Layout::POINTS_MAX)]
    Keep {
        /// The step.
        step: Duration,
        /// How long its points would be kept.
        keep: Duration,
    },
    /// A budget in which hardly anything fits, or that is none.
    #[error("{0} bytes a point: give 64 to 65536")]
    PointBytes(usize),
}

impl Layout {
    /// Most resolutions.
    pub const RESOLUTIONS_MAX: usize = 8;
    /// Most points of one resolution.
    pub const POINTS_MAX: usize = 1_000_000;
    /// Bytes a point may take on average, unless said otherwise.
    pub const POINT_BYTES: usize = 512;

    /// Resolutions, finest first. Points of a resolution take at most `point_bytes` bytes on
    /// average; when they would take more, the oldest go early.
    ///
    /// # Errors
    ///
    /// [`LayoutFault`]: the first thing that is wrong.
    pub fn new(resolutions: &[Resolution], point_bytes: usize) -> Result<Self, LayoutFault> {
        if resolutions.is_empty() || resolutions.len() > Self::RESOLUTIONS_MAX {
            return Err(LayoutFault::Number(resolutions.len()));
        }
        if !(64..=65536).contains(&point_bytes) {
            return Err(LayoutFault::PointBytes(point_bytes));
        }
        for resolution in resolutions {
            let step = resolution.step.as_nanos();
            if !(1_000_000..=3_600_000_000_000).contains(&step) || step % 1_000_000 != 0 {
                return Err(LayoutFault::Step(resolution.step));
            }
        }
        for pair in resolutions.windows(2) {
            let (fine, coarse) = (pair[0].step, pair[1].step);
            if coarse <= fine || coarse.as_nanos() % fine.as_nanos() != 0 {
                return Err(LayoutFault::NoMultiple { fine, coarse });
            }
        }
        for (index, resolution) in resolutions.iter().enumerate() {
            let next = resolutions.get(index + 1).map_or(resolution.step, |next| next.step);
            if resolution.keep < next
                || resolution.keep.as_nanos().div_ceil(resolution.step.as_nanos()) > Self::POINTS_MAX as u128
            {
                return Err(LayoutFault::Keep { step: resolution.step, keep: resolution.keep });
            }
        }
        Ok(Self { resolutions: resolutions.to_vec(), point_bytes })
    }

    /// The resolutions, finest first.
    #[must_use]
    pub fn resolutions(&self) -> &[Resolution] {
        &self.resolutions
    }

    /// Bytes a point may take on average.
    #[must_use]
    pub const fn point_bytes(&self) -> usize {
        self.point_bytes
    }
}

impl Default for Layout {
    /// 1 s for 10 minutes, 5 s for an hour, 1 minute for a day, 10 minutes for 30 days.
    fn default() -> Self {
        let resolution =
            |step, keep| Resolution { step: Duration::from_secs(step), keep: Duration::from_secs(keep) };
        Self {
            resolutions: vec![
                resolution(1, 600),
                resolution(5, 3600),
                resolution(60, 86_400),
                resolution(600, 30 * 86_400),
            ],
            point_bytes: Self::POINT_BYTES,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(steps: &[(u64, u64)]) -> Result<Layout, LayoutFault> {
        let resolutions: Vec<_> = steps
            .iter()
            .map(|(step, keep)| Resolution {
                step: Duration::from_secs(*step),
                keep: Duration::from_secs(*keep),
            })
            .collect();
        Layout::new(&resolutions, Layout::POINT_BYTES)
    }

    #[test]
    fn the_default_is_sound() {
        let default = Layout::default();
        assert_eq!(Layout::new(default.resolutions(), default.point_bytes()), Ok(default));
    }

    #[test]
    fn what_cannot_be_is_named() {
        let s = Duration::from_secs;
        assert_eq!(layout(&[]), Err(LayoutFault::Number(0)));
        assert_eq!(layout(&[(0, 1)]), Err(LayoutFault::Step(s(0))));
        assert_eq!(layout(&[(2, 60), (5, 60)]), Err(LayoutFault::NoMultiple { fine: s(2), coarse: s(5) }));
        assert_eq!(layout(&[(5, 60), (5, 60)]), Err(LayoutFault::NoMultiple { fine: s(5), coarse: s(5) }));
        assert_eq!(layout(&[(1, 10), (60, 600)]), Err(LayoutFault::Keep { step: s(1), keep: s(10) }));
        assert_eq!(layout(&[(1, 2_000_000)]), Err(LayoutFault::Keep { step: s(1), keep: s(2_000_000) }));
        assert_eq!(Layout::new(Layout::default().resolutions(), 3), Err(LayoutFault::PointBytes(3)));
    }
}
