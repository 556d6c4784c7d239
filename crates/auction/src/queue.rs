//! The queue before the workers: first in, first out, bounded, and deaf to clients who have left.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// What waits for a worker.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    inner: Mutex<Inner<T>>,
    arrived: Condvar,
    max: usize,
}

#[derive(Debug)]
struct Inner<T> {
    waiting: VecDeque<T>,
    closed: bool,
}

impl<T> Queue<T> {
    pub(crate) fn new(max: usize) -> Self {
        let inner = Inner { waiting: VecDeque::new(), closed: false };
        Self { inner: Mutex::new(inner), arrived: Condvar::new(), max }
    }

    /// Puts one at the end, or gives it back when the queue is full or closed.
    pub(crate) fn push(&self, one: T) -> Result<(), T> {
        let mut inner = self.lock();
        if inner.closed || inner.waiting.len() >= self.max {
            return Err(one);
        }
        inner.waiting.push_back(one);
        drop(inner);
        self.arrived.notify_one();
        Ok(())
    }

    /// Takes the first, waiting for one; `None` once the queue is closed.
    pub(crate) fn pop(&self) -> Option<T> {
        let inner = self.lock();
        let mut inner = self
            .arrived
            .wait_while(inner, |inner| inner.waiting.is_empty() && !inner.closed)
            .unwrap_or_else(PoisonError::into_inner);
        if inner.closed { None } else { inner.waiting.pop_front() }
    }

    /// Lets nobody in or out any more, and drops what waits.
    pub(crate) fn close(&self) {
        let dropped = {
            let mut inner = self.lock();
            inner.closed = true;
            std::mem::take(&mut inner.waiting)
        };
        self.arrived.notify_all();
        drop(dropped);
    }

    pub(crate) fn len(&self) -> usize {
        self.lock().waiting.len()
    }

    fn lock(&self) -> MutexGuard<'_, Inner<T>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_order_and_the_bound() {
        let queue = Queue::new(2);
        assert_eq!((queue.push(1), queue.push(2), queue.push(3)), (Ok(()), Ok(()), Err(3)));
        assert_eq!((queue.pop(), queue.len()), (Some(1), 1));
    }

    #[test]
    fn closing_wakes_who_waits() {
        let queue = Queue::<u8>::new(1);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| queue.pop());
            queue.close();
            assert_eq!(waiting.join().expect("no panic"), None);
        });
        assert_eq!(queue.push(1), Err(1));
    }
}
