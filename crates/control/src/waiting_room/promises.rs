//! Promises as they are made: a place in the line, or a lot for a draw.

use super::{
    Answer, Block, Kind, Places, Promise, Room, RoomCount, Work,
    budget::{thousandths, units},
    mix,
    room::whole_ms,
};
use crate::{
    ClassId, Refusal, Timestamp,
    knobs::{RoomOrder, RoomRole},
};

impl Room {
    /// A newcomer's place, or one at the end of the line.
    pub(super) fn book(&mut self, class: ClassId, since: Timestamp, renewed: u8) -> Answer {
        let work = self.booked(class);
        if self.sends_at_once() {
            return self.promise_in(class, self.table.present(), 0, work, since, renewed);
        }
        if !self.is_limited() {
            return self.promise_in(class, self.table.present() + 1, 0, work, since, renewed);
        }
        let Some(block) = self.place_of(class, work) else {
            self.held_back = Some(self.now);
            self.count(class, RoomCount::HorizonFull);
            return Answer::Refuse(Refusal::HorizonFull);
        };
        // Where times are given for other processes, the next slot is the first there is.
        let first = self.table.present() + u64::from(self.settings.role == RoomRole::Generate);
        if block.slot > first {
            self.held_back = Some(self.now);
        }
        self.promise_in(class, block.slot, block.offset, block.work, since, renewed)
    }

    /// One place, from the block at hand or from a new one.
    fn place_of(&mut self, class: ClassId, work: Work) -> Option<Block> {
        let lane = self.lane(class);
        if self.settings.block <= 1 {
            return self.table.take(lane, work, 1);
        }
        let kept = self.blocks[class.index()].take().filter(|block| block.places > 0);
        let mut block = match kept {
            Some(block) => block,
            None => self.table.take(lane, work, self.settings.block)?,
        };
        let place = Block { places: 1, ..block };
        block.places -= 1;
        block.offset = block.offset.saturating_add(block.apart).min(999_999);
        self.blocks[class.index()] = Some(block);
        Some(place)
    }

    pub(super) fn promise_in(
        &mut self,
        class: ClassId,
        slot: u64,
        offset: u32,
        work: Work,
        since: Timestamp,
        renewed: u8,
    ) -> Answer {
        let promise = self.new_promise(class, slot, offset, work, since, renewed);
        self.wait(promise)
    }

    pub(super) fn new_promise(
        &mut self,
        class: ClassId,
        slot: u64,
        offset: u32,
        work: Work,
        since: Timestamp,
        renewed: u8,
    ) -> Promise {
        self.table.note(slot, 1);
        self.no_shows.promised(slot, class, 1);
        let lane = self.lane(class);
        if let Some(issued) = self.issued_work.get_mut(lane) {
            *issued = issued.saturating_add(work);
        }
        self.count(class, RoomCount::Promised);
        self.unnoted(class, slot, offset, work, since, renewed)
    }

    /// A promise of which nothing is kept.
    pub(super) fn unnoted(
        &mut self,
        class: ClassId,
        slot: u64,
        offset: u32,
        work: Work,
        since: Timestamp,
        renewed: u8,
    ) -> Promise {
        Promise {
            kind: Kind::Place,
            class,
            since: whole_ms(since),
            at: whole_ms(self.table.within(slot, offset)).max(self.table.begin(slot)),
            work: u32::try_from(work).unwrap_or(u32::MAX),
            renewed,
            number: self.number(),
        }
    }

    pub(super) fn lot(&mut self, class: ClassId, closes: Timestamp, order: RoomOrder) -> Answer {
        let work = self.booked(class);
        // Between a draw that could not be made for want of capacity and the next, lots go on into the same round.
        let closes = whole_ms(closes);
        let drawn = self.number();
        let group = self.settings.group_of(class);
        let round = self.draws.open(group, closes, order);
        let (number, at) = match round.order {
            RoomOrder::InOrder => (round.next_in_order(self.secrets[0]), round.key),
            RoomOrder::Shuffled => (drawn, round.key),
        };
        round.add(self.now, work);
        self.count(class, RoomCount::Promised);
        self.wait(Promise {
            kind: Kind::Lot,
            class,
            since: whole_ms(self.now),
            at,
            work: u32::try_from(work).unwrap_or(u32::MAX),
            renewed: 0,
            number,
        })
    }

    /// What a promise to one of a class books: less than he takes, by as many as do not come back.
    pub(super) fn booked(&self, class: ClassId) -> Work {
        let share = self.no_shows.share(class).min(self.settings.overbook_max);
        let work = units(self.cost(class) + self.follow());
        thousandths(work * (1.0 - share.clamp(0.0, 0.99))).max(1)
    }

    pub(super) fn number(&mut self) -> u64 {
        self.issued += 1;
        mix(self.secrets[0].wrapping_add(self.issued.wrapping_mul(0x9E37_79B9_7F4A_7C15)))
    }
}
