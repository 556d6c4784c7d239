//! What was promised by other settings, laid into the slots and lanes of these: after a live change, and after a restart.

use super::{LANES_MAX, Room, Work, settings::RoomSettings};
use crate::ClassId;

/// A class by other settings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Was {
    /// The lane in which it was promised.
    pub(super) lane: usize,
    /// Whether that was by its own share, not by that of its group.
    pub(super) leads: bool,
    /// What it is now, if there still is one.
    pub(super) now: Option<ClassId>,
}

impl Room {
    /// The classes of settings by the lanes they had, where classes have kept their ids.
    pub(super) fn were(&self, settings: &RoomSettings, lanes: &[usize]) -> Vec<Was> {
        let is_known = |class: &ClassId| class.index() < self.settings.classes.len();
        let of = |((id, class), lane): ((u16, &super::ClassRoom), &usize)| Was {
            lane: *lane,
            leads: class.group.is_none(),
            now: Some(ClassId(id)).filter(is_known),
        };
        (0..).zip(&settings.classes).zip(lanes).map(of).collect()
    }

    /// The lane in which lies what lay in that one: that of who led it, or everybody's.
    pub(super) fn lane_since(&self, lane: usize, classes: &[Was]) -> usize {
        let leader = classes.iter().find(|was| lane > 0 && was.lane == lane && was.leads);
        leader.and_then(|was| was.now).map_or(0, |class| self.lane(class))
    }

    /// Lays into a slot what was promised for its time: people, work by lane, and places made by class.
    pub(super) fn lay(
        &mut self,
        slot: u64,
        people: u32,
        work: impl Iterator<Item = Work>,
        made: impl Iterator<Item = u32>,
        classes: &[Was],
    ) {
        let mut lanes: [Work; LANES_MAX] = [0; LANES_MAX];
        lanes.iter_mut().zip(work).for_each(|(lane, work)| *lane = work);
        // Who has a lane of his own now was promised of everybody's.
        for (was, made) in classes.iter().zip(made).filter(|(was, _)| was.lane == 0) {
            let Some(class) = was.now.filter(|class| self.lane(*class) > 0) else { continue };
            let part = Work::from(made).saturating_mul(self.booked(class)).min(lanes[0]);
            self.table.put(slot, self.lane(class), part, 0);
            lanes[0] -= part;
        }
        self.table.put(slot, 0, 0, people);
        for (lane, work) in lanes.into_iter().enumerate() {
            self.table.put(slot, self.lane_since(lane, classes), work, 0);
        }
    }
}
