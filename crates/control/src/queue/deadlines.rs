//! The deadlines of one class's waiting requests: a binary heap whose entries know their place.
//!
//! Chosen over a timer wheel because the earliest deadline is also a scheduling decision
//! (earliest deadline first), which a wheel knows only to its tick. Cost: reading the earliest O(1);
//! adding and removing O(log n) at worst, and O(1) for what is added in order of its deadline, as
//! it is when all requests of a class have the same time.

use super::table::{NIL, WaitTable};

#[derive(Clone, Debug, Default)]
pub(crate) struct Deadlines {
    heap: Vec<u32>,
}

impl Deadlines {
    /// The entry with the earliest deadline; of equal ones the one that arrived first.
    pub(crate) fn earliest(&self) -> Option<u32> {
        self.heap.first().copied()
    }

    /// Adds an entry if it has a deadline.
    pub(crate) fn insert(&mut self, table: &mut WaitTable, index: u32) {
        if table[index].deadline.is_some() {
            let position = self.heap.len();
            self.heap.push(index);
            self.rise(table, position);
        }
    }

    /// Removes an entry if it is in here.
    pub(crate) fn remove(&mut self, table: &mut WaitTable, index: u32) {
        let position = table[index].deadline_position;
        if position == NIL {
            return;
        }
        let position = position as usize;
        table[index].deadline_position = NIL;
        self.heap.swap_remove(position);
        if position < self.heap.len() {
            let position = self.rise(table, position);
            self.sink(table, position);
        }
    }

    /// Moves the entry at `position` up to where it belongs; notes its place; returns it.
    fn rise(&mut self, table: &mut WaitTable, mut position: usize) -> usize {
        while position > 0 {
            let parent = (position - 1) / 2;
            if key(table, self.heap[parent]) <= key(table, self.heap[position]) {
                break;
            }
            self.heap.swap(parent, position);
            self.note(table, position);
            position = parent;
        }
        self.note(table, position);
        position
    }

    fn sink(&mut self, table: &mut WaitTable, mut position: usize) {
        loop {
            let left = 2 * position + 1;
            let Some(&first) = self.heap.get(left) else { break };
            let child = match self.heap.get(left + 1) {
                Some(&second) if key(table, second) < key(table, first) => left + 1,
                _ => left,
            };
            if key(table, self.heap[position]) <= key(table, self.heap[child]) {
                break;
            }
            self.heap.swap(position, child);
            self.note(table, position);
            position = child;
        }
        self.note(table, position);
    }

    fn note(&self, table: &mut WaitTable, position: usize) {
        // Positions fit: the heap is no longer than the table, which has less than 2³² entries.
        table[self.heap[position]].deadline_position = u32::try_from(position).unwrap_or(NIL);
    }

    pub(crate) fn check_invariants(&self, table: &WaitTable) {
        for (position, &index) in self.heap.iter().enumerate() {
            assert_eq!(table[index].deadline_position as usize, position, "entries know their place");
            let parent = self.heap[position.saturating_sub(1) / 2];
            assert!(key(table, parent) <= key(table, index), "deadlines are a heap");
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.heap.len()
    }
}

fn key(table: &WaitTable, index: u32) -> (Option<crate::Timestamp>, u64) {
    let entry = &table[index];
    (entry.deadline, entry.sequence)
}
