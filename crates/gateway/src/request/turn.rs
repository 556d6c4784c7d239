//! The order of work on a core: what is there is read first, and short responses go out together.

use std::{
    future::{Future, poll_fn},
    mem,
    task::Poll,
};

/// Resolves once every task that is ready now has had its turn.
///
/// Awaited between reading a response and writing it. To write wakes a process on the same machine that waits for it,
/// which costs more than to write. Woken for one message at a time it waits again after each; of many that are written
/// one after another, all but the first find it awake. And the same code of the kernel runs many times in a row.
pub(super) fn others_first() -> impl Future<Output = ()> {
    let mut has_waited = false;
    poll_fn(move |context| {
        if mem::replace(&mut has_waited, true) {
            return Poll::Ready(());
        }
        // To the end of the queue of what is ready.
        context.waker().wake_by_ref();
        Poll::Pending
    })
}

#[cfg(test)]
mod tests {
    use std::{cell::RefCell, rc::Rc};

    use tokio::{runtime::LocalRuntime, task::spawn_local};

    use super::*;

    #[test]
    fn everything_is_read_before_anything_is_written() {
        let done = Rc::new(RefCell::new(Vec::new()));
        let exchange = |number: u32| {
            let done = Rc::clone(&done);
            async move {
                done.borrow_mut().push(("read", number));
                others_first().await;
                done.borrow_mut().push(("written", number));
            }
        };
        LocalRuntime::new().unwrap().block_on(async {
            let (first, second) = (spawn_local(exchange(1)), spawn_local(exchange(2)));
            first.await.unwrap();
            second.await.unwrap();
        });
        assert_eq!(*done.borrow(), [("read", 1), ("read", 2), ("written", 1), ("written", 2)]);
    }
}
