//! Exchanges in flight in an order, each found again by the place it was given: a list in a table with a list of the free places.
//!
//! Every call is O(1). Nothing is allocated while no more are in flight than ever before, or than
//! [`reserve`](Roster::reserve) has made room for.

/// Exchanges up to which a roster reserves room for all of them.
const RESERVED_MAX: u32 = 1024;

/// No entry.
const NONE: u32 = u32::MAX;

/// Where an exchange is found again; of one that nobody follows, nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place(u32);

impl Place {
    pub(crate) const NOWHERE: Self = Self(NONE);
}

/// What is kept of exchanges in flight, and those in the list in their order.
#[derive(Clone, Debug)]
pub(crate) struct Roster<T> {
    table: Vec<Entry<T>>,
    free: u32,
    first: u32,
    last: u32,
    listed: u64,
}

#[derive(Clone, Debug)]
struct Entry<T> {
    of: T,
    is_listed: bool,
    before: u32,
    /// The next free place if this one is free.
    after: u32,
}

impl<T: Copy> Roster<T> {
    pub(crate) const fn new() -> Self {
        Self { table: Vec::new(), free: NONE, first: NONE, last: NONE, listed: 0 }
    }

    /// Makes room for so many exchanges in all, as far as that is a few.
    pub(crate) fn reserve(&mut self, places: u32) {
        let places = places.min(RESERVED_MAX) as usize;
        self.table.reserve_exact(places.saturating_sub(self.table.len()));
    }

    /// How many are in the list.
    pub(crate) const fn listed(&self) -> u64 {
        self.listed
    }

    /// One more, not in the list. [`Place::NOWHERE`] if there are more than can be counted.
    #[inline]
    pub(crate) fn insert(&mut self, of: T) -> Place {
        let entry = Entry { of, is_listed: false, before: NONE, after: NONE };
        if let Some(place) = self.table.get_mut(self.free as usize) {
            let found = self.free;
            self.free = place.after;
            *place = entry;
            return Place(found);
        }
        match u32::try_from(self.table.len()) {
            Ok(found) if found != NONE => {
                self.table.push(entry);
                Place(found)
            }
            _ => Place::NOWHERE,
        }
    }

    /// Puts one that is not in the list at its end.
    #[inline]
    pub(crate) fn list(&mut self, place: Place) {
        let last = self.last;
        let Some(entry) = self.table.get_mut(place.0 as usize) else { return };
        debug_assert!(!entry.is_listed, "it is in the list");
        (entry.is_listed, entry.before, entry.after) = (true, last, NONE);
        match self.table.get_mut(last as usize) {
            Some(last) => last.after = place.0,
            None => self.first = place.0,
        }
        self.last = place.0;
        self.listed += 1;
    }

    /// Takes one out of the list, if it is there; its place stays.
    #[inline]
    pub(crate) fn unlist(&mut self, place: Place) {
        let Some(entry) = self.table.get_mut(place.0 as usize).filter(|entry| entry.is_listed) else {
            return;
        };
        entry.is_listed = false;
        let (before, after) = (entry.before, entry.after);
        self.listed -= 1;
        match self.table.get_mut(before as usize) {
            Some(entry) => entry.after = after,
            None => self.first = after,
        }
        match self.table.get_mut(after as usize) {
            Some(entry) => entry.before = before,
            None => self.last = before,
        }
    }

    /// Forgets one and frees its place; what was kept of it.
    #[inline]
    pub(crate) fn remove(&mut self, place: Place) -> Option<T> {
        self.unlist(place);
        let entry = self.table.get_mut(place.0 as usize)?;
        entry.after = self.free;
        self.free = place.0;
        Some(entry.of)
    }

    /// The first of the list.
    #[inline]
    pub(crate) fn first(&self) -> Option<(Place, &T)> {
        self.table.get(self.first as usize).map(|entry| (Place(self.first), &entry.of))
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, place: Place) -> Option<&mut T> {
        self.table.get_mut(place.0 as usize).map(|entry| &mut entry.of)
    }

    /// Those of the list, in its order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        let after = |entry: &&Entry<T>| self.table.get(entry.after as usize);
        std::iter::successors(self.table.get(self.first as usize), after).map(|entry| &entry.of)
    }

    /// Panics if something is inconsistent.
    pub(crate) fn check_invariants(&self) {
        let (mut listed, mut before, mut place) = (0, NONE, self.first);
        while let Some(entry) = self.table.get(place as usize) {
            assert_eq!((entry.before, entry.is_listed), (before, true), "the list holds together");
            (listed, before, place) = (listed + 1, place, entry.after);
        }
        assert_eq!((self.last, self.listed), (before, listed), "the list ends where it is said to");
    }
}
