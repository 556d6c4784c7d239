//! Counts allocations, and bytes held: the global allocator of a program that has this module.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
};

/// Counts what the present thread allocates and holds, and hands on to the system.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    static HELD: Cell<usize> = const { Cell::new(0) };
}

fn count(taken: usize, given_back: usize) {
    // A thread that is ending has no counter any more; nobody reads it then.
    let _ = ALLOCATIONS.try_with(|allocations| allocations.set(allocations.get() + u64::from(taken > 0)));
    // What another thread has taken may be given back by this one.
    let _ = HELD.try_with(|held| held.set(held.get().wrapping_add(taken).wrapping_sub(given_back)));
}

#[expect(unsafe_code, reason = "GlobalAlloc is unsafe; every call is handed on to System unchanged")]
// SAFETY: every method passes its arguments to the same method of `System` and returns its answer.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 0);
        // SAFETY: the caller's promise is System's demand.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(0, layout.size());
        // SAFETY: as above; `pointer` came from System.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size, layout.size());
        // SAFETY: as above; `pointer` came from System.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// How often `f` allocates.
pub(crate) fn allocations(f: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.get();
    f();
    ALLOCATIONS.get() - before
}

/// Bytes that the present thread has taken and nobody has given back; only differences mean something.
pub(crate) fn held() -> usize {
    HELD.get()
}
