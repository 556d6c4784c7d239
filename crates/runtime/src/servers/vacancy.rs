//! Who waits until a server has room: the highest priority first, and who came first among equals.

use std::{
    cmp::Reverse,
    future::Future,
    pin::Pin,
    sync::{Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};

/// Those who wait for room at one of a set's servers.
#[derive(Debug, Default)]
pub(super) struct Vacancies {
    locked: Mutex<Locked>,
}

#[derive(Debug, Default)]
struct Locked {
    /// In the order in which they are called.
    places: Vec<Place>,
    arrivals: u64,
}

#[derive(Debug)]
struct Place {
    rank: Rank,
    is_called: bool,
    waker: Option<Waker>,
}

/// The priority, then the order of arrival.
type Rank = (Reverse<u8>, u64);

/// A place among those who wait, until dropped. Each time it is called it resolves once.
#[must_use = "dropping it leaves"]
#[derive(Debug)]
pub struct Vacancy<'a> {
    all: &'a Vacancies,
    rank: Rank,
}

impl Vacancies {
    /// Somebody of this priority waits from now on.
    pub(super) fn wait(&self, priority: u8) -> Vacancy<'_> {
        let mut locked = self.lock();
        let rank = (Reverse(priority), locked.arrivals);
        locked.arrivals += 1;
        let at = locked.places.partition_point(|place| place.rank < rank);
        locked.places.insert(at, Place { rank, is_called: false, waker: None });
        Vacancy { all: self, rank }
    }

    /// There is room for one: calls the first who is not called yet, if anybody is there.
    pub(super) fn call_next(&self) -> bool {
        self.call_first(|_| true)
    }

    /// Calls the first of those that `may` who is not called yet, if anybody is there.
    fn call_first(&self, may: impl Fn(Rank) -> bool) -> bool {
        let mut locked = self.lock();
        let mut waiting = locked.places.iter_mut().filter(|place| may(place.rank));
        let Some(next) = waiting.find(|place| !place.is_called) else { return false };
        next.is_called = true;
        let waker = next.waker.take();
        drop(locked);
        if let Some(waker) = waker {
            waker.wake();
        }
        true
    }

    /// Everybody is to look again.
    pub(super) fn call_all(&self) {
        while self.call_next() {}
    }

    fn lock(&self) -> MutexGuard<'_, Locked> {
        self.locked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Locked {
    fn position(&self, rank: Rank) -> Option<usize> {
        self.places.binary_search_by_key(&rank, |place| place.rank).ok()
    }
}

impl Vacancy<'_> {
    /// The room that it was called for is at a server that it does not go to: calls the next behind it.
    pub fn pass_on(&self) {
        self.all.call_first(|rank| rank > self.rank);
    }
}

impl Future for Vacancy<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        // Cloned before the lock, since a waker's clone may allocate.
        let waker = context.waker().clone();
        let mut locked = self.all.lock();
        let Some(at) = locked.position(self.rank) else { return Poll::Pending };
        let place = &mut locked.places[at];
        if std::mem::take(&mut place.is_called) {
            return Poll::Ready(());
        }
        let replaced = place.waker.replace(waker);
        drop(locked);
        drop(replaced);
        Poll::Pending
    }
}

impl Drop for Vacancy<'_> {
    fn drop(&mut self) {
        let mut locked = self.all.lock();
        let Some(at) = locked.position(self.rank) else { return };
        let place = locked.places.remove(at);
        drop(locked);
        if place.is_called {
            // It has not looked: the room is another's.
            self.all.call_next();
        }
    }
}
