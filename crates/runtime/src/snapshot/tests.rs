//! [`Published`] under loom: every interleaving, and every older value that the memory model lets a reader see.

use loom::{sync::Arc, thread};

#[path = "published.rs"]
#[expect(clippy::duplicate_mod, reason = "the same text over loom's atomics")]
mod published;

/// Loom's in place of the standard library's and of arc-swap, which loom cannot look into.
mod sync {
    use std::sync::Arc;

    pub(super) use loom::sync::atomic::AtomicU64;
    use loom::sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    };

    /// No stronger than arc-swap says it is: a store is a release, a load an acquire and may be of an older one.
    #[derive(Debug)]
    pub(super) struct ArcSwap<T> {
        stored: Mutex<Vec<Arc<T>>>,
        last: AtomicUsize,
    }

    impl<T> ArcSwap<T> {
        pub(super) fn from_pointee(first: T) -> Self {
            Self { stored: Mutex::new(vec![Arc::new(first)]), last: AtomicUsize::new(0) }
        }

        pub(super) fn load_full(&self) -> Arc<T> {
            let last = self.last.load(Ordering::Acquire);
            Arc::clone(&self.stored.lock().unwrap()[last])
        }

        pub(super) fn store(&self, next: Arc<T>) {
            let mut stored = self.stored.lock().unwrap();
            stored.push(next);
            let last = stored.len() - 1;
            drop(stored);
            self.last.store(last, Ordering::Release);
        }
    }
}

/// Two knobs that are changed together.
struct Pair(u64, u64);

impl published::Versioned for Pair {
    fn version(&self) -> u64 {
        self.0
    }
}

#[test]
fn readers_see_whole_values_in_order_and_never_an_older_one_than_announced() {
    loom::model(|| {
        let cell = Arc::new(published::Published::new(Pair(1, 101)));
        let reader = {
            let cell = Arc::clone(&cell);
            thread::spawn(move || {
                // As a core does once a request.
                let mut view = cell.load();
                for _ in 0..3 {
                    let announced = cell.version();
                    if view.0 != announced {
                        let next = cell.load();
                        assert!(next.0 >= announced, "{} was announced, {} is seen", announced, next.0);
                        assert!(next.0 >= view.0, "time runs forward");
                        view = next;
                    }
                    assert_eq!(view.0 + 100, view.1, "both or none");
                }
            })
        };
        for version in 2..4 {
            cell.store(Pair(version, version + 100));
        }
        reader.join().unwrap();
        assert_eq!((cell.version(), cell.load().0), (3, 3));
    });
}
