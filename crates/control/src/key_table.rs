//! A bounded map from key hashes to values that knows which key was longest unused.

/// A hash map with a fixed number of places, chained, with its entries in order of use.
///
/// Every call is O(1) but [`KeyTable::resize`]; none allocates. All memory is reserved at the
/// start, 24 bytes a place and the value, and touched only as places are used. So it has no pauses
/// for growth, unlike a hash table that moves to a larger one.
///
/// Keys are hashes already. Who can choose them at will can make chains long: hash with a secret
/// seed what comes from outside.
#[derive(Clone, Debug)]
pub(crate) struct KeyTable<V> {
    entries: Vec<Entry<V>>,
    capacity: usize,
    /// First entry of each bucket's chain.
    buckets: Box<[Link]>,
    /// First entry of those not in use, chained.
    free: Link,
    newest: Link,
    oldest: Link,
    len: usize,
}

/// Position of an entry plus one; 0 is none. Zero, so that fresh memory needs no writing.
type Link = u32;
const NONE: Link = 0;

#[derive(Clone, Debug)]
struct Entry<V> {
    key: u64,
    chain: Link,
    newer: Link,
    older: Link,
    value: V,
}

impl<V: Copy> KeyTable<V> {
    /// A table of `capacity` places, at most 2^32 - 2.
    pub(crate) fn new(capacity: usize) -> Self {
        let capacity = capacity.min(u32::MAX as usize - 1);
        Self {
            entries: Vec::with_capacity(capacity),
            capacity,
            buckets: vec![NONE; capacity.next_power_of_two()].into_boxed_slice(),
            free: NONE,
            newest: NONE,
            oldest: NONE,
            len: 0,
        }
    }

    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    pub(crate) const fn is_full(&self) -> bool {
        self.len >= self.capacity
    }

    pub(crate) const fn capacity(&self) -> usize {
        self.capacity
    }

    /// The key's value; now the one most recently used.
    pub(crate) fn use_entry(&mut self, key: u64) -> Option<&mut V> {
        let link = self.find(key)?;
        if link != self.newest {
            self.unlink(link);
            self.link_newest(link);
        }
        Some(&mut self.entry(link).value)
    }

    /// The value longest unused.
    pub(crate) fn oldest(&self) -> Option<(u64, V)> {
        self.entries.get(self.oldest.checked_sub(1)? as usize).map(|entry| (entry.key, entry.value))
    }

    /// Adds a key that is not there; the table must not be full.
    pub(crate) fn insert(&mut self, key: u64, value: V) {
        debug_assert!(!self.is_full() && self.find(key).is_none());
        let bucket = self.bucket(key);
        let chain = self.buckets[bucket];
        let entry = Entry { key, chain, newer: NONE, older: NONE, value };
        let link = if self.free == NONE {
            self.entries.push(entry);
            self.entries.len() as Link
        } else {
            let link = self.free;
            self.free = std::mem::replace(self.entry(link), entry).chain;
            link
        };
        self.buckets[bucket] = link;
        self.link_newest(link);
        self.len += 1;
    }

    /// Removes a key.
    pub(crate) fn remove(&mut self, key: u64) -> Option<V> {
        let link = self.find(key)?;
        let bucket = self.bucket(key);
        let after = self.entry(link).chain;
        if self.buckets[bucket] == link {
            self.buckets[bucket] = after;
        } else {
            let mut before = self.buckets[bucket];
            while self.entry(before).chain != link {
                before = self.entry(before).chain;
            }
            self.entry(before).chain = after;
        }
        self.unlink(link);
        self.entry(link).chain = self.free;
        self.free = link;
        self.len -= 1;
        Some(self.entry(link).value)
    }

    /// Gives the table another number of places; keeps the entries most recently used. O(n).
    pub(crate) fn resize(&mut self, capacity: usize) {
        let mut next = Self::new(capacity);
        let surplus = self.len.saturating_sub(next.capacity);
        for (key, value) in self.iter().skip(surplus) {
            next.insert(key, value);
        }
        *self = next;
    }

    /// Every key and value, the longest unused first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, V)> + '_ {
        std::iter::successors(self.get(self.oldest), |entry| self.get(entry.newer))
            .map(|entry| (entry.key, entry.value))
    }

    /// Every value, in no order; also those of removed keys, which nobody sees.
    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.entries.iter_mut().map(|entry| &mut entry.value)
    }

    /// Checks what must hold between calls. O(n).
    ///
    /// # Panics
    ///
    /// If it does not: a mistake in this program.
    pub(crate) fn check_invariants(&self) {
        assert!(self.len <= self.capacity && self.entries.len() <= self.capacity, "bounded");
        let mut in_order = 0;
        let (mut older, mut link) = (NONE, self.oldest);
        while let Some(entry) = self.get(link) {
            assert_eq!(entry.older, older, "the order of use reads the same both ways");
            assert_eq!(self.find(entry.key), Some(link), "every entry is found by its key");
            (older, link) = (link, entry.newer);
            in_order += 1;
        }
        assert_eq!((older, in_order), (self.newest, self.len), "every entry is in order of use");
        let chains =
            |head: Link| std::iter::successors(self.get(head), |entry| self.get(entry.chain)).count();
        assert_eq!(self.buckets.iter().map(|&head| chains(head)).sum::<usize>(), self.len);
        assert_eq!(chains(self.free) + self.len, self.entries.len(), "no place is lost");
    }

    fn find(&self, key: u64) -> Option<Link> {
        let mut link = *self.buckets.get(self.bucket(key))?;
        while let Some(entry) = self.get(link) {
            if entry.key == key {
                return Some(link);
            }
            link = entry.chain;
        }
        None
    }

    /// Fibonacci hashing (Knuth, volume 3, section 6.4): spreads keys whose high bits alone differ.
    fn bucket(&self, key: u64) -> usize {
        let spread = key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        spread as usize & (self.buckets.len() - 1)
    }

    fn get(&self, link: Link) -> Option<&Entry<V>> {
        self.entries.get((link as usize).wrapping_sub(1))
    }

    /// The entry of a link that is not [`NONE`].
    fn entry(&mut self, link: Link) -> &mut Entry<V> {
        &mut self.entries[link as usize - 1]
    }

    fn unlink(&mut self, link: Link) {
        let Entry { newer, older, .. } = *self.entry(link);
        match newer {
            NONE => self.newest = older,
            _ => self.entry(newer).older = older,
        }
        match older {
            NONE => self.oldest = newer,
            _ => self.entry(older).newer = newer,
        }
    }

    fn link_newest(&mut self, link: Link) {
        let older = std::mem::replace(&mut self.newest, link);
        let entry = self.entry(link);
        (entry.newer, entry.older) = (NONE, older);
        match older {
            NONE => self.oldest = link,
            _ => self.entry(older).newer = link,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::KeyTable;

    #[derive(Clone, Debug)]
    enum Operation {
        Use(u64),
        Insert(u64),
        Remove(u64),
        Resize(usize),
    }

    fn operation() -> impl Strategy<Value = Operation> {
        // Keys that share buckets of every size up to 2^10, too.
        let key = prop_oneof![0..24_u64, (0..24_u64).prop_map(|k| k << 42)];
        prop_oneof![
            4 => key.clone().prop_map(Operation::Use),
            4 => key.clone().prop_map(Operation::Insert),
            2 => key.prop_map(Operation::Remove),
            1 => (0..20_usize).prop_map(Operation::Resize),
        ]
    }

    proptest! {
        /// Beside a plain list in order of use.
        #[test]
        fn is_a_list_in_order_of_use(operations in prop::collection::vec(operation(), 0..200)) {
            let mut table = KeyTable::new(8);
            let mut list: Vec<(u64, u32)> = Vec::new();
            let mut capacity = 8;
            for (value, operation) in (0_u32..).zip(operations) {
                match operation {
                    Operation::Use(key) => {
                        let place = list.iter().position(|(k, _)| *k == key);
                        let expected = place.map(|at| list.remove(at));
                        list.extend(expected);
                        prop_assert_eq!(table.use_entry(key).copied(), expected.map(|(_, v)| v));
                    }
                    Operation::Insert(key) => {
                        if !table.is_full() && list.iter().all(|(k, _)| *k != key) {
                            table.insert(key, value);
                            list.push((key, value));
                        }
                    }
                    Operation::Remove(key) => {
                        let place = list.iter().position(|(k, _)| *k == key);
                        let expected = place.map(|at| list.remove(at).1);
                        prop_assert_eq!(table.remove(key), expected);
                    }
                    Operation::Resize(places) => {
                        capacity = places;
                        table.resize(capacity);
                        list.drain(..list.len().saturating_sub(capacity));
                    }
                }
                table.check_invariants();
                prop_assert_eq!(table.iter().collect::<Vec<_>>(), list.clone());
                prop_assert_eq!(table.oldest(), list.first().copied());
                prop_assert_eq!(table.is_full(), list.len() >= capacity);
                prop_assert_eq!((table.len(), table.capacity()), (list.len(), capacity));
            }
        }
    }
}
